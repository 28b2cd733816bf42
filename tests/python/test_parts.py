"""Parts with private state under a dispatcher: arrows inside such a folder point downwards.

A *dispatcher* is a struct whose parts have the state; its `impl` is one file that hands on what the parts want of each
other. `FOLDERS` lists the folders of this shape. In each, the order of the `mod` lines is the order of the layers, the
lowest first, and a module is above the modules that it consists of. These tests read every file of the folder. They
fail on

* a second file with an `impl` of the dispatcher,
* a struct with too many fields,
* an import, or a call on `self` of a method in another file, that points upwards,
* a circle of modules.

A part is a folder with the methods of one struct, which `mod.rs` defines. `PARTS` lists those whose files stand in
layers too: a paragraph of `mod` lines is a layer. The same holds there from file to file, also for calls through a
variable that has the part's name. In the folders of `STACKS` only the modules right below stand in layers, each with
all that it consists of.

A struct of any crate has at most 15 fields, unless `LISTS` says why not.

Code that only tests compile is ignored.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from test_layers import USE, WORD, File, item_end, made_up, paths, read, resolve, scopes, tree

ROOT = Path(__file__).resolve().parents[2]

MOD = re.compile(r"\bmod\s+(\w+)\s*;")
STRUCT = re.compile(r"\bstruct\s+(\w+)[^;{(]*([{(])")
IMPL = re.compile(r"^impl\b([^{;]*)\{", re.M)
CALL = r"\b(?:self\s*\.|Self\s*::{})\s*(\w+)\s*(?:::\s*<[^()]*>)?\s*\("
METHOD = re.compile(r"\bfn\s+(\w+)")
ATTRIBUTE = re.compile(r"#\s*\[")
Module = tuple[str, ...]


@dataclass(frozen=True)
class Folder:
    """A folder with a dispatcher, and its limits.

    `depth`: modules deeper than that are concerns of one part, which `PARTS` may list. `None`: there are none.
    """

    crate: str
    module: str
    dispatcher: str
    dispatcher_fields: int = 8
    fields: int = 15
    depth: int | None = None


# Structs that are lists and no state: what a caller sets, and what was measured.
LISTS = {
    "ExplainArgs": "a command line",
    "FlowsArgs": "a command line",
    "LoadArgs": "a command line",
    "Options": "what a caller sets, each with a default",
    "OptionsForm": "the options as a recording has them",
    "MtRouteResult": "the figures of a run",
    "Point": "the figures of a run",
    "RulesResult": "the figures of a run",
    "Report": "the figures of a run",
    "RunOptions": "a command line",
    "ThroughputArgs": "a command line",
}
# A part of the engine is a folder with the concerns of one struct.
FOLDERS = [
    Folder("maple-controller", "shard", "Shard"),
    Folder("maple-core", "engine", "Engine", depth=1),
]
# Parts of the engine whose files stand in layers, each with the folder of its struct.
PARTS = {"Decisions": "decisions"}
# Parts of the engine whose modules stand in layers, each module with all that it consists of.
STACKS = {"Switch": "one_switch"} | {name: name.lower() for name in ["Context", "Switches", "Fabric", "Topology"]}


@dataclass(frozen=True)
class Arrow:
    """A module uses another one of the folder."""

    place: str
    source: Module
    target: Module
    what: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what} points upwards, to {named(self.target)}"


def named(module: Module) -> str:
    return "::".join(module) or "the dispatcher"


def files_of(crate: Path, module: str) -> list[File]:
    """The folder's files, with modules from the folder on: the dispatcher's is ()."""
    inside = [file for file in read(crate) if file.module[:1] == (module,)]
    return [File(file.module[1:], file.name, file.text, file.tests) for file in inside]


def order(files: list[File]) -> dict[Module, int]:
    """The place of each module among those with the same parent, from the order of the `mod` lines."""
    ranks = {}
    for file in files:
        for at, declared in enumerate(MOD.finditer(file.text)):
            ranks[(*file.module, declared[1])] = at
    return ranks


def layers(files: list[File]) -> dict[Module, int]:
    """The number of each module's layer: of the paragraph that its `mod` line is in."""
    ranks = {}
    for file in files:
        for number, paragraph in enumerate(re.split(r"\n\s*\n", file.text)):
            for declared in MOD.finditer(paragraph):
                ranks[(*file.module, declared[1])] = number
    return ranks


def is_upward(source: Module, target: Module, ranks: dict[Module, int]) -> bool:
    """Whether an arrow points to a module above its source. A module is above those that it consists of."""
    for at, (a, b) in enumerate(zip(source, target, strict=False)):
        if a != b:
            return ranks[target[: at + 1]] > ranks[source[: at + 1]]
    return len(target) < len(source)


def imports(files: list[File], module: str, ranks: dict[Module, int]) -> Iterator[Arrow]:
    """The imports of one module by another."""
    exported = {file.module: exports(file, ranks) for file in files}
    for file in files:
        inside = scopes(file)
        for at, path in paths(file):
            scope = [path for start, end, path in inside if start <= at < end][-1]
            found = resolve(path, (module, *scope))
            if found is None or found[:1] != (module,):
                continue
            target = module_of(found[1:], ranks, exported)
            if target != file.module:
                line = file.text.count("\n", 0, at) + 1
                yield Arrow(f"{file.name}:{line}", file.module, target, f"`{'::'.join(path)}`")


def module_of(path: Module, ranks: dict[Module, int], exported: dict[Module, dict[str, Module]]) -> Module:
    """The module that a path from the folder on leads to. A name that a module exports is of the module behind it."""
    length = 0
    while length < len(path) and path[: length + 1] in ranks:
        length += 1
    module = path[:length]
    if length < len(path) and (behind := exported.get(module, {}).get(path[length])):
        return module_of(behind, ranks, exported)
    return module


def exports(file: File, ranks: dict[Module, int]) -> dict[str, Module]:
    """The paths behind the names that a file has from the modules that it consists of."""
    names = {}
    for use in USE.finditer(file.text):
        for path in tree(iter(WORD.findall(use[1]))):
            path = path[1:] if path[0] == "self" else path
            if len(path) > 1 and (*file.module, path[0]) in ranks:
                names[path[-1]] = (*file.module, *path)
    return names


def impls(file: File) -> Iterator[tuple[str, int, str]]:
    """The type, the place and the text of each `impl` block. The type of `impl A for B` is B."""
    for found in IMPL.finditer(file.text):
        of = re.sub(r"\bwhere\b.*", "", found[1], flags=re.S)
        words = re.findall(r"\w+", re.sub(r"<[^<>]*(?:<[^<>]*>[^<>]*)*>", " ", of.split(" for ")[-1]))
        if words:
            yield words[-1], found.start(), file.text[found.end() : item_end(file.text, found.end() - 1)]


def calls(files: list[File]) -> Iterator[Arrow]:
    """The calls on `self` of methods that another file implements."""
    call_on_self = re.compile(CALL.format(""))
    homes: dict[tuple[str, str], set[Module]] = {}
    for file in files:
        for name, _, text in impls(file):
            for method in METHOD.findall(text):
                homes.setdefault((name, method), set()).add(file.module)
    for file in files:
        for name, start, text in impls(file):
            for call in call_on_self.finditer(text):
                targets = homes.get((name, call[1]), set())
                if file.module not in targets:
                    line = file.text.count("\n", 0, start) + text.count("\n", 0, call.start()) + 1
                    for target in targets:
                        yield Arrow(f"{file.name}:{line}", file.module, target, f"`self.{call[1]}()`")


def calls_of(part: str, files: list[File]) -> Iterator[Arrow]:
    """The calls of a part's methods in the other files of its folder: on `self`, on its type, or on a variable."""
    homes = {
        method: file.module
        for file in files
        for name, _, text in impls(file)
        if name == part
        for method in METHOD.findall(text)
    }
    call_on_self = re.compile(CALL.format(""))
    call_of_part = re.compile(CALL.format(rf"|{part}\s*::|{part.lower()}\s*\."))
    for file in files:
        bodies = [(file.text.find(text, start), text) for name, start, text in impls(file) if name == part]
        for call in call_of_part.finditer(file.text):
            is_within = any(start <= call.start() < start + len(text) for start, text in bodies)
            if call_on_self.match(call[0]) and not is_within:
                continue
            target = homes.get(call[1], file.module)
            if target != file.module:
                line = file.text.count("\n", 0, call.start()) + 1
                yield Arrow(f"{file.name}:{line}", file.module, target, f"`{call[1]}()`")


def faults_within(part: str, folder: str, all_files: list[File], module: str) -> list[str]:
    """Upward arrows and circles between the files of a part. Each file may know the part's struct."""
    ranks = layers(all_files)
    files = [file for file in all_files if file.module[:1] == (folder,)]
    arrows = [
        arrow
        for arrow in imports(all_files, module, ranks)
        if arrow.source[:1] == arrow.target[:1] == (folder,)
        and not (arrow.target == (folder,) and arrow.what.endswith(f"::{part}`"))
    ]
    arrows += calls_of(part, files)
    return [str(arrow) for arrow in arrows if is_upward(arrow.source, arrow.target, ranks)] + circles(arrows)


def faults_between(part: str, folder: str, all_files: list[File], module: str) -> list[str]:
    """Upward imports and circles between the modules of a folder. Each module may know the part's struct.

    The struct's own file may also have methods that its modules call, if these call none of theirs.
    """
    ranks = layers(all_files)
    files = [file for file in all_files if file.module[:1] == (folder,)]
    imported = [
        arrow
        for arrow in imports(all_files, module, ranks)
        if arrow.source[:1] == arrow.target[:1] == (folder,)
        and arrow.source != (folder,)
        and not (arrow.target == (folder,) and arrow.what.endswith(f"::{part}`"))
    ]
    called = list(calls_of(part, files))
    arrows = [
        replace(arrow, source=arrow.source[:2], target=arrow.target[:2])
        for arrow in imported + called
        if arrow.source[:2] != arrow.target[:2]
    ]
    upward = [
        str(arrow)
        for arrow in arrows
        if is_upward(arrow.source, arrow.target, ranks)
        and not (arrow.target == (folder,) and arrow.what.endswith("()`"))
    ]
    return upward + circles(arrows)


def circles(arrows: list[Arrow]) -> list[str]:
    """The modules that reach themselves, in groups that reach each other."""
    direct: dict[Module, set[Module]] = {}
    for arrow in arrows:
        direct.setdefault(arrow.source, set()).add(arrow.target)

    def reached(start: Module) -> set[Module]:
        found: set[Module] = set()
        waiting = [start]
        while waiting:
            new = direct.get(waiting.pop(), set()) - found
            found |= new
            waiting += new
        return found

    reach = {module: reached(module) for module in direct}
    groups = {
        frozenset(other for other in others if module in reach.get(other, ())) for module, others in reach.items()
    }
    return sorted("a circle: " + ", ".join(sorted(map(named, group))) for group in groups if group)


def structs(file: File) -> Iterator[tuple[str, int, int]]:
    """Each struct with the number of its line and of its fields."""
    for found in STRUCT.finditer(file.text):
        line = file.text.count("\n", 0, found.start()) + 1
        end = item_end(file.text, found.end() - 1) if found[2] == "{" else file.text.find(";", found.end())
        yield found[1], line, fields(file.text[found.end() : end].rstrip().removesuffix("}").removesuffix(")"))


def fields(body: str) -> int:
    """The number of fields in a struct's body."""
    depth, parts = 0, [""]
    for character in without_attributes(body).replace("->", "  "):
        depth += (character in "([{<") - (character in ")]}>")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return sum(part.strip() != "" for part in parts)


def without_attributes(text: str) -> str:
    """The text without its attributes, which may have brackets inside."""
    while attribute := ATTRIBUTE.search(text):
        end, depth = attribute.end(), 1
        while depth > 0:
            depth += {"[": 1, "]": -1}.get(text[end], 0)
            end += 1
        text = text[: attribute.start()] + text[end:]
    return text


def faults(crate: Path, folder: Folder) -> list[str]:
    """What is wrong with a folder."""
    files = files_of(crate, folder.module)
    ranks = order(files)
    homes = sorted({file.name for file in read(crate) for name, _, _ in impls(file) if name == folder.dispatcher})
    found = [f"`impl {folder.dispatcher}` is in {len(homes)} files: {', '.join(homes)}"] if len(homes) != 1 else []
    for file in files:
        for name, line, number in structs(file):
            limit = folder.dispatcher_fields if name == folder.dispatcher else folder.fields
            if number > limit and name not in LISTS:
                found.append(f"{file.name}:{line}: `{name}` has {number} fields, more than {limit}")
    all_arrows = [*imports(files, folder.module, ranks), *calls(files)]
    shortened = [
        replace(arrow, source=arrow.source[: folder.depth], target=arrow.target[: folder.depth]) for arrow in all_arrows
    ]
    arrows = [arrow for arrow in shortened if arrow.source != arrow.target]
    found += [str(arrow) for arrow in arrows if is_upward(arrow.source, arrow.target, ranks)]
    return found + circles(arrows)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.module)
def test_parts_know_only_parts_below_them(folder: Folder) -> None:
    assert faults(ROOT / "crates" / folder.crate, folder) == []


def wide_structs() -> dict[str, list[str]]:
    """The structs of all crates with more fields than a reader keeps in mind, each with its places."""
    wide: dict[str, list[str]] = {}
    for crate in sorted((ROOT / "crates").glob("*/src")):
        for file in read(crate.parent):
            for name, line, number in structs(file):
                if number > Folder.fields:
                    wide.setdefault(name, []).append(f"{file.name}:{line}: `{name}` has {number} fields")
    return wide


def test_structs_have_few_fields_in_every_crate() -> None:
    wide = wide_structs()
    assert {name: places for name, places in wide.items() if name not in LISTS} == {}
    assert set(LISTS) <= set(wide), "these are no longer wide"


@pytest.mark.parametrize("part", PARTS)
def test_files_of_a_part_know_only_files_below_them(part: str) -> None:
    assert faults_within(part, PARTS[part], files_of(ROOT / "crates/maple-core", "engine"), "engine") == []


@pytest.mark.parametrize("part", STACKS)
def test_modules_of_a_part_know_only_modules_below_them(part: str) -> None:
    assert faults_between(part, STACKS[part], files_of(ROOT / "crates/maple-core", "engine"), "engine") == []


# The layers of an engine, the lowest first. A part is handed those below it.
ENGINE = ["Context", "Switches", "Fabric", "Topology", "Decisions", "Samples", "Reload", "Restore", "LiveWatches"]

# The folder of each part that has one.
HOMES = {name: name.lower() for name in ["Context", "Switches", "Fabric", "Topology", "Decisions"]}
HOMES["Switch"] = "one_switch"


def parts_above(files: list[File], layers: list[str]) -> list[str]:
    """Methods of a part that are handed a part of a layer above, and methods of the dispatcher outside of its file."""
    found = []
    for file in files:
        for name, start, text in impls(file):
            if name not in layers:
                continue
            above = set(layers[layers.index(name) + 1 :])
            for method in re.finditer(r"\bfn\s+(\w+)([^{;]*)", text):
                for part in sorted(above & set(re.findall(r"\w+", method[2]))):
                    line = file.text.count("\n", 0, start) + text.count("\n", 0, method.start()) + 1
                    found.append(f"{file.name}:{line}: `{name}::{method[1]}` is handed {part}, which is above it")
    return found


def test_parts_of_an_engine_are_handed_only_parts_below_them() -> None:
    files = files_of(ROOT / "crates/maple-core", "engine")
    known = {name for file in files for name, _, _ in impls(file)}
    assert set(ENGINE) <= known, "a part has another name now"
    assert parts_above(files, ENGINE) == []
    strays = {
        f"{file.name}: a method of {name}"
        for file in files
        for name, _, _ in impls(file)
        if file.module[0] != HOMES.get(name, file.module[0])
    }
    assert strays == set(), "a part has its methods in its own folder"


def test_a_part_that_is_handed_one_above_is_found(tmp_path: Path) -> None:
    files = {"hall/cellar.rs": "impl Wine {\n    fn pour(&self, kitchen: &mut Kitchen) {}\n}\n"}
    found = parts_above(files_of(made_up(tmp_path, GOOD | files), "hall"), ["Wine", "Kitchen"])
    assert found == ["crates/made-up/src/hall/cellar.rs:2: `Wine::pour` is handed Kitchen, which is above it"]


# A dispatcher `Hall` with a kitchen over a cellar.
GOOD = {
    "lib.rs": "mod hall;\n",
    "hall/mod.rs": "mod cellar;\nmod kitchen;\nuse cellar::Wine;\nuse kitchen::Kitchen;\n"
    "pub struct Hall {\n    kitchen: Kitchen,\n    wine: Wine,\n}\n"
    "impl Hall {\n    fn dine(&mut self) { self.kitchen.cook(); self.wait() }\n    fn wait(&self) {}\n}\n",
    "hall/cellar.rs": "pub struct Wine(u8, u8);\nimpl Wine {\n    pub fn pour(&self) {}\n}\n",
    "hall/kitchen/mod.rs": "mod oven;\nuse super::cellar::Wine;\npub struct Kitchen {\n    oven: oven::Oven,\n}\n"
    "impl Kitchen {\n    pub fn cook(&self) { crate::hall::cellar::f() }\n}\n",
    "hall/kitchen/oven.rs": "use crate::hall::cellar::Wine;\npub struct Oven;\n",
}
HALL = Folder("made-up", "hall", "Hall", dispatcher_fields=2, fields=3)

WRONG = {
    "a second impl": (
        {"hall/kitchen/oven.rs": "impl<'a> Hall {\n    fn f(&self) {}\n}\n"},
        "`impl Hall` is in 2 files: crates/made-up/src/hall/kitchen/oven.rs, crates/made-up/src/hall/mod.rs",
    ),
    "an impl outside": ({"lib.rs": "mod hall;\nimpl Clone for hall::Hall {\n}\n"}, "`impl Hall` is in 2 files"),
    "no impl": ({"hall/mod.rs": "mod cellar;\nmod kitchen;\n"}, "`impl Hall` is in 0 files"),
    "a wide struct": (
        {
            "hall/cellar.rs": "pub(crate) struct Wine<T> {\n    a: Map<u8, T>,\n    pub b: Box<dyn Fn(u8, u8) -> u8>,\n"
            "    #[serde(a, b)]\n    c: (u8, u8),\n    #[arg(long, requires_all = [a, b])]\n    d: u8,\n}\n"
        },
        "crates/made-up/src/hall/cellar.rs:1: `Wine` has 4 fields, more than 3",
    ),
    "a wide tuple": ({"hall/cellar.rs": "pub struct Wine(u8, u8, u8, Map<u8, u8>);\n"}, "`Wine` has 4 fields"),
    "a wide dispatcher": (
        {"hall/mod.rs": GOOD["hall/mod.rs"].replace("    wine: Wine,\n", "    wine: Wine,\n    bread: u8,\n")},
        "`Hall` has 3 fields, more than 2",
    ),
    "an import of a part above": (
        {"hall/cellar.rs": "\nuse super::kitchen::Kitchen;\npub struct Wine;\n"},
        "hall/cellar.rs:2: `super::kitchen::Kitchen` points upwards, to kitchen",
    ),
    "an inline path": (
        {"hall/cellar.rs": "fn f() { crate::hall::kitchen::oven::g() }\n"},
        "`crate::hall::kitchen::oven::g` points upwards, to kitchen::oven",
    ),
    "an import of the dispatcher": ({"hall/cellar.rs": "use super::Hall;\n"}, "points upwards, to the dispatcher"),
    "an import of the parent": ({"hall/kitchen/oven.rs": "use super::Kitchen;\n"}, "points upwards, to kitchen"),
    "a name that the dispatcher has of a part": (
        {"hall/cellar.rs": "use super::Kitchen;\n"},
        "`super::Kitchen` points upwards, to kitchen",
    ),
    "a call of a method above": (
        {
            "hall/cellar.rs": "pub struct Wine;\nimpl Wine {\n    fn pour(&self) {\n        self.taste();\n    }\n}\n",
            "hall/kitchen/oven.rs": "use crate::hall::cellar::Wine;\nimpl Wine {\n    fn taste(&self) {}\n}\n",
        },
        "hall/cellar.rs:4: `self.taste()` points upwards, to kitchen::oven",
    ),
    "a circle": (
        {"hall/cellar.rs": "use super::kitchen::Kitchen;\npub struct Wine;\n"},
        "a circle: cellar, kitchen",
    ),
}


def test_a_folder_of_the_right_shape_has_no_faults(tmp_path: Path) -> None:
    tests = "#[cfg(test)]\nmod tests {\n    use super::super::kitchen::Kitchen;\n    impl super::super::Hall {}\n}\n"
    assert faults(made_up(tmp_path, GOOD | {"hall/cellar.rs": GOOD["hall/cellar.rs"] + tests}), HALL) == []


@pytest.mark.parametrize("files, text", WRONG.values(), ids=WRONG)
def test_a_wrong_shape_is_found(tmp_path: Path, files: dict[str, str], text: str) -> None:
    found = faults(made_up(tmp_path, GOOD | files), HALL)
    assert any(text in fault for fault in found), found


# A part `Kitchen` whose files are an oven under a stove.
KITCHEN = GOOD | {
    "hall/kitchen/mod.rs": "mod oven;\n\nmod stove;\npub struct Kitchen {\n    oven: oven::Oven,\n}\n",
    "hall/kitchen/oven.rs": "use super::Kitchen;\npub struct Oven;\nimpl Kitchen {\n    fn heat(&self) {}\n}\n",
    "hall/kitchen/stove.rs": "use super::Kitchen;\nuse super::oven::Oven;\nimpl Kitchen {\n"
    "    fn fry(&self) { self.heat() }\n}\n",
}


@pytest.mark.parametrize("call", ["self.fry()", "Kitchen::fry(self)", "kitchen.fry()"])
def test_a_file_of_a_part_that_calls_upwards_is_found(tmp_path: Path, call: str) -> None:
    oven = KITCHEN["hall/kitchen/oven.rs"].replace("{}", f"{{ {call} }}")
    crate = made_up(tmp_path, KITCHEN | {"hall/kitchen/oven.rs": oven})
    assert faults_within("Kitchen", "kitchen", files_of(crate, "hall"), "hall") == [
        "crates/made-up/src/hall/kitchen/oven.rs:4: `fry()` points upwards, to kitchen::stove",
        "a circle: kitchen::oven, kitchen::stove",
    ]


def test_a_part_whose_files_stand_in_layers_has_no_faults(tmp_path: Path) -> None:
    assert faults_within("Kitchen", "kitchen", files_of(made_up(tmp_path, KITCHEN), "hall"), "hall") == []


# A part `Kitchen` whose module `stove` consists of rings, and is above the oven.
STACK = {name: text for name, text in KITCHEN.items() if name != "hall/kitchen/stove.rs"} | {
    "hall/kitchen/stove/mod.rs": "mod rings;\nuse super::Kitchen;\npub struct Stove;\n",
    "hall/kitchen/stove/rings.rs": "use super::Stove;\nuse super::super::oven::Oven;\npub struct Rings;\n",
}


def test_modules_that_stand_in_layers_have_no_faults(tmp_path: Path) -> None:
    assert faults_between("Kitchen", "kitchen", files_of(made_up(tmp_path, STACK), "hall"), "hall") == []


def test_modules_that_call_each_other_are_found(tmp_path: Path) -> None:
    files = {
        "hall/kitchen/mod.rs": "mod oven;\nmod stove;\npub struct Kitchen(u8);\n"
        "impl Kitchen {\n    fn wipe(&self) {}\n}\n",
        "hall/kitchen/oven.rs": "impl super::Kitchen {\n    fn heat(&self) { self.wipe(); self.fry() }\n}\n",
        "hall/kitchen/stove/mod.rs": "mod rings;\nimpl super::Kitchen {\n    fn fry(&self) { self.heat() }\n}\n",
        "hall/kitchen/stove/rings.rs": "struct Rings;\nimpl Rings {\n    fn fry(&self) { self.heat() }\n}\n",
    }
    crate = made_up(tmp_path, STACK | files)
    found = ["a circle: kitchen::oven, kitchen::stove"]
    assert faults_between("Kitchen", "kitchen", files_of(crate, "hall"), "hall") == found


def test_a_module_that_imports_upwards_is_found(tmp_path: Path) -> None:
    oven = "use super::stove::Stove;\n" + STACK["hall/kitchen/oven.rs"]
    crate = made_up(tmp_path, STACK | {"hall/kitchen/oven.rs": oven})
    assert faults_between("Kitchen", "kitchen", files_of(crate, "hall"), "hall") == [
        "crates/made-up/src/hall/kitchen/oven.rs:1: `super::stove::Stove` points upwards, to kitchen::stove",
        "a circle: kitchen::oven, kitchen::stove",
    ]
