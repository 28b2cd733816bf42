"""Imports point downwards: between the crates, and between the top-level modules of each crate.

The section "Layers" of ARCHITECTURE.md states the order. These tests read it, and compare it with the dependencies in
each Cargo.toml and with the imports in the source: `use` declarations, and paths that begin with `crate`, `super` or
`self`. Comments, strings, and items that only tests compile are ignored. A name that a crate's root re-exports counts
as an import of the module that defines it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# A comment, a string or a character. Comments of Rust nest, but nobody here uses that.
NOT_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|\bb?r(?P<fence>\#*)".*?"(?P=fence)|(?:\bb)?"(?:\\.|[^"\\])*"|b?'(?:\\[^\n]*?|[^'\\\n])'""",
    re.S,
)
TEST_ONLY = re.compile(r"#\[cfg\((?:test|all\(test,[^\]]*\))\)\]")
MODULE = re.compile(r"(?:\bpub(?:\([^)]*\))?\s+)?\bmod\s+(\w+)\s*([;{])")
PATH = re.compile(r"(?<![\w:$])(?:\$?crate|super|self)(?:\s*::\s*(?:\w+|\{))+")
USE = re.compile(r"\buse\s+([^;]+);")
RESTRICTED = re.compile(r"\bpub\s*\(\s*in\s+[^)]*\)")
WORD = re.compile(r"\w+|::|[{},*]")


@dataclass(frozen=True)
class Import:
    """A top-level module uses something of another one."""

    crate: str
    file: str
    line: int
    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: `{self.source}` imports `{self.target}`, which is above it in {self.crate}"


@dataclass
class File:
    """A source file without comments, strings and tests, but with its lines."""

    module: tuple[str, ...]
    name: str
    text: str
    tests: set[str] = field(default_factory=set)


def blank(text: str, start: int, end: int) -> str:
    """The text with spaces from `start` to `end`; lines stay where they are."""
    return text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]


def without_comments(text: str) -> str:
    return NOT_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def item_end(text: str, start: int) -> int:
    """Where the item that begins at `start` ends: at a semicolon or at the end of its first braces."""
    depth = 0
    for at in range(start, len(text)):
        match text[at]:
            case "{" | "(" | "[":
                depth += 1
            case "}" | ")" | "]":
                depth -= 1
                if depth == 0 and text[at] == "}":
                    return at + 1
            case ";" if depth == 0:
                return at + 1
            case "," if depth == 0:
                return at + 1
    return len(text)


def without_tests(text: str) -> tuple[str, set[str]]:
    """The text without items of `#[cfg(test)]`, and the modules in other files that are among these."""
    modules = set()
    while found := TEST_ONLY.search(text):
        end = item_end(text, found.end())
        module = MODULE.search(text, found.end(), end)
        if module and module[2] == ";":
            modules.add(module[1])
        text = blank(text, found.start(), end)
    return text, modules


def read(crate: Path, root: str = "lib.rs") -> list[File]:
    """The files of a crate's library which are in the product."""
    source = crate / "src"
    files = []
    for path in sorted(source.rglob("*.rs")):
        parts = path.relative_to(source).with_suffix("").parts
        if parts[0] in ("main", "bin"):
            continue
        module = () if path == source / root else parts[:-1] if parts[-1] == "mod" else parts
        text, tests = without_tests(without_comments(path.read_text()))
        files.append(File(module, str(path.relative_to(crate.parent.parent)), text, tests))
    tests_only = {(*file.module, name) for file in files for name in file.tests}
    return [file for file in files if not any(file.module[: len(m)] == m for m in tests_only)]


def scopes(file: File) -> list[tuple[int, int, tuple[str, ...]]]:
    """The file's inline modules, the outer ones first: where each begins and ends, and its path."""
    found: list[tuple[int, int, tuple[str, ...]]] = [(0, len(file.text), file.module)]
    for declared in MODULE.finditer(file.text):
        if declared[2] == "{":
            outer = [path for start, end, path in found if start <= declared.start() < end][-1]
            found.append((declared.end() - 1, item_end(file.text, declared.end() - 1), (*outer, declared[1])))
    return found


def tree(words: Iterator[str], prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of one use declaration, or of one list in braces."""
    path, skips = prefix, False
    for word in words:
        if word == "{":
            yield from tree(words, path)
            path, skips = (), True
        elif word in ",}":
            if path != () and not skips:
                yield path
            if word == "}":
                return
            path, skips = prefix, False
        elif word == "as":
            next(words)
        elif word != "::":
            path = (*path, word)
    if path != () and not skips:
        yield path


def paths(file: File) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Where the file names something by a path from `crate`, `super` or `self`, and the path."""
    text = RESTRICTED.sub(lambda found: blank(found[0], 0, len(found[0])), file.text)
    text = text.replace("$crate", " crate")
    for use in USE.finditer(text):
        for path in tree(iter(WORD.findall(use[1]))):
            yield use.start(), path
        text = blank(text, use.start(), use.end())
    for named in PATH.finditer(text):
        yield named.start(), tuple(re.findall(r"\w+", named[0]))


def resolve(path: tuple[str, ...], module: tuple[str, ...]) -> tuple[str, ...] | None:
    """What a path in a module names, from the crate's root; none if that is another crate or a name in scope."""
    match path[0]:
        case "crate":
            return path[1:]
        case "self":
            at, rest = module, path[1:]
        case "super":
            at, rest = module[:-1], path[1:]
        case _:
            return (*module, *path) if module == () else None
    while rest and rest[0] == "super":
        at, rest = at[:-1], rest[1:]
    return at + rest


def exports(files: list[File], modules: set[str]) -> dict[str, str]:
    """The module behind each name that the crate's root re-exports."""
    root = next(file for file in files if file.module == ())
    names = {}
    for use in USE.finditer(root.text):
        for path in tree(iter(WORD.findall(use[1]))):
            path = path[1:] if path[0] in ("crate", "self") else path
            if path and path[0] in modules:
                names[path[-1]] = path[0]
    return names


def imports(crate: Path, root: str = "lib.rs") -> tuple[set[str], list[Import]]:
    """A crate's top-level modules, and each import of one by another."""
    files = read(crate, root)
    modules = {file.module[0] for file in files if file.module}
    modules |= {path[0] for file in files if file.module == () for _, _, path in scopes(file)[1:] if len(path) == 1}
    exported = exports(files, modules)
    found = []
    for file in files:
        inside = scopes(file)
        for at, path in paths(file):
            module = [path for start, end, path in inside if start <= at < end][-1]
            names = resolve(path, module)
            # The root is above all modules, so it may name any of them.
            if names is None or module == ():
                continue
            target = names[0] if names else "*"
            target = target if target in modules else exported.get(target, "lib")
            if target != module[0]:
                line = file.text.count("\n", 0, at) + 1
                found.append(Import(crate.name, file.name, line, module[0], target))
    return modules, found


def layers(architecture: str) -> dict[str, list[str]]:
    """The order that ARCHITECTURE.md states: the modules of each crate, the lowest first; the crates in order, too."""
    section = re.search(r"^## Layers\n(.*?)(?=^## |\Z)", architecture, re.S | re.M)
    assert section, "ARCHITECTURE.md has no section Layers"
    rows = re.findall(r"^\| `([\w-]+)` \|(.*)\|$", section[1], re.M)
    order: dict[str, list[str]] = {}
    for crate, modules in rows:
        order.setdefault(crate, []).extend(re.findall(r"`(\w+)`", modules))
    return order


def upward(found: list[Import], order: list[str]) -> list[Import]:
    """The imports that point upwards. The crate's root is above all modules."""
    rank = {module: at for at, module in enumerate(order)}
    return [i for i in found if i.source in rank and rank.get(i.target, len(order)) > rank[i.source]]


def mistakes(order: list[str], modules: set[str], crate: str) -> list[str]:
    """Modules that the order does not name, or names without reason."""
    texts = [f"ARCHITECTURE.md names `{m}` twice for {crate}" for m in sorted(set(order)) if order.count(m) > 1]
    texts += [f"ARCHITECTURE.md does not name `{m}` of {crate}" for m in sorted(modules - set(order))]
    return texts + [f"ARCHITECTURE.md names `{m}`, which {crate} does not have" for m in sorted(set(order) - modules)]


def dependencies(manifest: str) -> list[str]:
    """The crates of this repository that a crate depends on, except for its tests."""
    section = re.search(r"^\[dependencies\]\n(.*?)(?=^\[|\Z)", manifest, re.S | re.M)
    return [name for name in re.findall(r"^[\w-]+", section[1], re.M) if name in ORDER] if section else []


CRATES = sorted(path.parent for path in ROOT.glob("crates/*/Cargo.toml"))
ORDER = layers((ROOT / "ARCHITECTURE.md").read_text())


def test_architecture_names_every_crate() -> None:
    assert sorted(ORDER) == [crate.name for crate in CRATES]


def test_crates_depend_on_lower_crates_only() -> None:
    order = list(ORDER)
    wrong = [
        f"{crate.name} depends on {name}, which is above it"
        for crate in CRATES
        for name in dependencies((crate / "Cargo.toml").read_text())
        if order.index(name) > order.index(crate.name)
    ]
    assert wrong == []


@pytest.mark.parametrize("crate", CRATES, ids=lambda crate: crate.name)
def test_modules_import_lower_modules_only(crate: Path) -> None:
    modules, found = imports(crate)
    order = ORDER[crate.name]
    assert mistakes(order, modules, crate.name) == []
    assert [str(i) for i in upward(found, order)] == []


def made_up(root: Path, files: dict[str, str]) -> Path:
    """A crate with these files, in a folder like that of the repository."""
    crate = root / "crates" / "made-up"
    for name, text in files.items():
        path = crate / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return crate


UPWARD = {
    "a use": ("use crate::high::Thing;\n", 1),
    "a list": ("\nuse crate::{\n    low::Other, high::{Thing, More as Renamed},\n};\n", 2),
    "a glob": ("use crate::high::*;\n", 1),
    "super": ("use super::high::Thing;\n", 1),
    "an inline path": ("fn f() -> u32 {\n    crate::high::f()\n}\n", 2),
    "an inline path with super": ("fn f() { super::high::f(); }\n", 1),
    "super of an inline module": ("mod inner {\n    use super::super::high::Thing;\n}\n", 2),
    "a name of the root": ("use crate::Thing;\n", 1),
    "an item that the root defines": ("use crate::OfRoot;\n", 1),
    "everything of the root": ("use crate::*;\n", 1),
    "a macro": ("macro_rules! m { () => { $crate::high::f() } }\n", 1),
    "after a test": ("#[cfg(test)]\nmod tests {}\nuse crate::high::Thing;\n", 3),
    "after a lifetime": ("fn f<'a>(x: &'a str) -> &'a str { crate::high::g(x) }\n", 1),
}


@pytest.mark.parametrize("text, line", UPWARD.values(), ids=UPWARD)
def test_an_upward_import_is_found(tmp_path: Path, text: str, line: int) -> None:
    root = "pub mod low;\npub mod high;\npub use high::Thing;\npub struct OfRoot;\n"
    crate = made_up(tmp_path, {"lib.rs": root, "low.rs": text, "high.rs": "use crate::low;\n"})
    modules, found = imports(crate)
    wrong = upward(found, ["low", "high"])
    assert modules == {"low", "high"}
    assert {(i.file, i.line, i.source) for i in wrong} == {("crates/made-up/src/low.rs", line, "low")}
    target = "high" if "high" in text or "::Thing" in text else "lib"
    assert f"low.rs:{line}: `low` imports `{target}`" in str(wrong[0])


@pytest.mark.parametrize(
    "text",
    [
        "// use crate::high::Thing;\n",
        "/// [`crate::high::Thing`]\npub fn f() {}\n",
        "/* use crate::high::Thing; */\n",
        'const TEXT: &str = "use crate::high::Thing;";\n',
        'const RAW: &str = r#"crate::high::"f" "#;\n',
        "#[cfg(test)]\nmod tests {\n    use crate::high::Thing;\n    fn f() { { } }\n}\n",
        "#[cfg(test)]\nuse crate::high::Thing;\n",
        "#[cfg(test)]\nmod only_tests;\n",
        "pub(in crate::high) fn f() {}\n",
        "mod inner {\n    use super::f;\n}\nfn f() {}\n",
        "use self::inner::f;\nuse super::low::inner;\nmod inner {}\n",
        "use std::fmt;\nuse other::high::Thing;\n",
    ],
)
def test_what_is_no_upward_import_is_not_taken_for_one(tmp_path: Path, text: str) -> None:
    files = {"lib.rs": "mod low;\nmod high;\n", "low.rs": text, "high.rs": "use crate::low::{self, f};\n"}
    files["low/only_tests.rs"] = "use crate::high::Thing;\n"
    files = files if "only_tests" in text else {name: files[name] for name in files if "only" not in name}
    _, found = imports(made_up(tmp_path, files))
    assert upward(found, ["low", "high"]) == []


def test_a_module_without_a_place_is_found(tmp_path: Path) -> None:
    files = {"lib.rs": "mod low;\nmod new;\n", "low.rs": "", "new/mod.rs": "mod deep;\n", "new/deep.rs": ""}
    modules, _ = imports(made_up(tmp_path, files))
    assert modules == {"low", "new"}
    assert mistakes(["low"], modules, "made-up") == ["ARCHITECTURE.md does not name `new` of made-up"]
    assert mistakes(["low", "new", "old", "low"], modules, "made-up") == [
        "ARCHITECTURE.md names `low` twice for made-up",
        "ARCHITECTURE.md names `old`, which made-up does not have",
    ]


def test_the_order_is_read_from_the_table() -> None:
    table = "| crate | modules |\n| --- | --- |\n| `x-y` | `a` `b_c` |\n| `z` | |\n"
    text = f"# A\n\n## Layers\n\n{table}\n## B\n| `no` | `no` |\n"
    assert layers(text) == {"x-y": ["a", "b_c"], "z": []}


def test_no_cell_of_a_table_is_an_essay() -> None:
    lines = (ROOT / "ARCHITECTURE.md").read_text().splitlines()
    rows = [(number, line) for number, line in enumerate(lines, 1) if line.startswith("|")]
    long = [f"line {number}: {len(cell)}" for number, line in rows for cell in line.split("|") if len(cell) > 600]
    assert long == [], "cells of more than 600 characters; a reader of a table looks for one thing"
