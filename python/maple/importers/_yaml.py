"""YAML as the importers read it, with the line of each key, and as they write it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Literal

from maple.importers._document import InputError, Place

try:
    import yaml
except ImportError:  # pragma: no cover - depends on the installation
    raise ImportError("the importers need PyYAML: pip install 'maple-sdn[importers]'") from None


class Keys(dict[Any, Any]):
    """A mapping of a file that knows where it stands and on which line each key is."""

    def __init__(self, file: str, line: int) -> None:
        super().__init__()
        self.file, self.line = file, line
        self.lines: dict[Any, int] = {}
        #: The files of keys that come from other ones.
        self.files: dict[Any, str] = {}

    def place(self, field: str, key: object = None) -> Place:
        """Where the key is; where the mapping begins, without a key that it has."""
        return Place(self.files.get(key, self.file), self.lines.get(key, self.line), field)


class Items(list[Any]):
    """A list of a file that knows the line of each item."""

    def __init__(self, lines: Iterable[int]) -> None:
        super().__init__()
        self.lines = list(lines)


MAX_NESTED: Final = 100
_BOOLEANS: Final = ("y", "yes", "on", "true", "n", "no", "off", "false")


class _Loader(yaml.SafeLoader):
    """Reads YAML 1.2 as ruamel.yaml does: `010` is ten, `10:20` and `yes` are text, `0o10` is eight."""

    def construct_int(self, node: yaml.ScalarNode) -> int:
        return _int(str(self.construct_scalar(node)), 10)


class _KubernetesLoader(yaml.SafeLoader):
    """Reads YAML as Kubernetes does, whose library makes JSON of it: `010` and `0o10` are eight, `10:20` and dates are
    text, `y` and `yes` are true, and `80.0` is 80."""

    def construct_int(self, node: yaml.ScalarNode) -> int:
        return _int(str(self.construct_scalar(node)), 8)

    def construct_float(self, node: yaml.ScalarNode) -> float:
        found = float(super().construct_yaml_float(node))
        return int(found) if found.is_integer() and abs(found) < 1e21 else found

    def construct_bool(self, node: yaml.ScalarNode) -> bool:
        return str(self.construct_scalar(node)).lower() in ("y", "yes", "true", "on")


def _int(text: str, with_zero: int) -> int:
    """The number, with the base of those that begin with a zero."""
    text = text.replace("_", "").lower()
    sign, digits = (-1 if text[0] == "-" else 1), text.lstrip("+-")
    base = {"0b": 2, "0o": 8, "0x": 16}.get(digits[:2])
    if base is not None:
        return sign * int(digits[2:], base)
    return sign * int(digits, with_zero if digits.startswith("0") else 10)


def _prepare(loader: type[yaml.SafeLoader], without: set[str], patterns: dict[str, tuple[str, str]]) -> None:
    """Gives a loader kinds of plain text in the place of those of YAML 1.1: a pattern, and how it may begin."""
    loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in known if tag.rpartition(":")[2] not in without]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    for kind, (pattern, first) in patterns.items():
        loader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(f"^(?:{pattern})$"), list(first))


# Dates, `null` and `<<` are the same in both versions.
_prepare(
    _Loader,
    {"bool", "int", "float"},
    {
        "bool": ("true|True|TRUE|false|False|FALSE", "tTfF"),
        "float": (
            r"[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+"
            r"|[-+]?\.[0-9_]+(?:[eE][-+][0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
            "-+0123456789.",
        ),
        "int": ("[-+]?0b[0-1_]+|[-+]?0o?[0-7_]+|[-+]?[0-9_]+|[-+]?0x[0-9a-fA-F_]+", "-+0123456789"),
    },
)
_prepare(
    _KubernetesLoader,
    {"bool", "int", "float", "timestamp"},
    {
        "bool": ("|".join(f"{word}|{word.title()}|{word.upper()}" for word in _BOOLEANS), "yYnNtTfFoO"),
        "int": ("[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)", "-+0123456789"),
        "float": (
            r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
            "-+0123456789.",
        ),
    },
)
for _of in (_Loader, _KubernetesLoader):
    _of.add_constructor("tag:yaml.org,2002:int", _of.construct_int)
_KubernetesLoader.add_constructor("tag:yaml.org,2002:float", _KubernetesLoader.construct_float)
_KubernetesLoader.add_constructor("tag:yaml.org,2002:bool", _KubernetesLoader.construct_bool)

_LOADERS: Final = {"1.1": yaml.SafeLoader, "1.2": _Loader, "kubernetes": _KubernetesLoader}


def read(path: str | Path, version: Literal["1.1", "1.2", "kubernetes"] = "1.1") -> list[Any]:
    """The documents of a YAML file. Mappings are :class:`Keys`, lists :class:`Items`.

    :param version: of YAML, or whose reading of it: that of the program that the file is for.
    :raises InputError: the file cannot be read, is not YAML, has a key twice, or is nested too deeply.
    """
    file = str(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(Place(file), f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        loader = _LOADERS[version](text)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InputError(Place(file, line), f"not YAML: the character {error.character:#x} is not allowed") from None
    try:
        found = []
        while loader.check_node():
            node = loader.get_node()
            assert node is not None, "check_node() found one"
            found.append(_value(loader, node, file, {}))
        return found
    except InputError:
        raise
    except RecursionError:
        raise InputError(Place(file, loader.line + 1), "nested too deeply") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise InputError(Place(file, mark.line + 1 if mark else None), f"not YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise InputError(Place(file, loader.line + 1), f"not YAML: {error}") from None
    finally:
        loader.dispose()


def _value(loader: yaml.SafeLoader, node: yaml.Node, file: str, known: dict[int, Any], depth: int = 0) -> Any:
    """The value of a node. An alias is the value that it names, made once: few lines can name very many."""
    line = node.start_mark.line + 1
    if depth > MAX_NESTED:
        raise InputError(Place(file, line), "nested too deeply")
    if id(node) in known:
        if known[id(node)] is _UNFINISHED:
            raise InputError(Place(file, line), "an alias stands inside of what it names")
        return known[id(node)]
    known[id(node)] = _UNFINISHED
    if isinstance(node, yaml.SequenceNode):
        found: Any = Items(item.start_mark.line + 1 for item in node.value)
        found.extend(_value(loader, item, file, known, depth + 1) for item in node.value)
    elif isinstance(node, yaml.MappingNode):
        found = _keys(loader, node, file, known, depth)
    else:
        found = _scalar(loader, node, file)
    known[id(node)] = found
    return found


_UNFINISHED: Final = object()


def _scalar(loader: yaml.SafeLoader, node: yaml.Node, file: str) -> Any:
    """The value of plain text, such as a number or a date. For a wrong one PyYAML raises many kinds of errors."""
    try:
        found = loader.construct_object(node)
        if isinstance(found, str):
            found.encode()  # half of a surrogate pair is not text that can be written
        return found
    except (ValueError, LookupError, AttributeError, ArithmeticError):
        raise InputError(
            Place(file, node.start_mark.line + 1), f"not YAML: {node.value!r} is not a {node.tag}"
        ) from None


def _keys(loader: yaml.SafeLoader, node: yaml.MappingNode, file: str, known: dict[int, Any], depth: int) -> Keys:
    line = node.start_mark.line + 1
    own = {key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)}
    if len(own) < len(node.value):
        names = [str(key.value) for key, _ in node.value]
        twice = next((name for name in names if names.count(name) > 1), None)
        raise InputError(
            Place(file, line), f"the key {twice!r} stands here twice" if twice else "a key is not a scalar"
        )
    loader.flatten_mapping(node)  # what `<<` merges in stands before the keys of the mapping itself
    keys = Keys(file, line)
    for name, item in node.value:
        key = _scalar(loader, name, file)
        keys[key] = _value(loader, item, file, known, depth + 1)
        keys.lines[key] = name.start_mark.line + 1
    return keys


# What YAML 1.1 and 1.2 both read as the same text without quotes. Other text gets quotes.
_PLAIN = re.compile(r"[A-Za-z_][\w.-]*(?:/[\w.-]+)?|\d+\.\d+\.\d+\.\d+(?:/\d+)?")


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        """Writes each value where it stands."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    resolve: Any = dumper.resolve
    plain = _PLAIN.fullmatch(text) and resolve(yaml.ScalarNode, text, (True, False)).endswith(":str")
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else "'")


def _items(dumper: yaml.SafeDumper, items: list[Any]) -> yaml.SequenceNode:
    inline = not any(isinstance(item, (dict, list)) for item in items)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=inline)


_Dumper.add_representer(str, _text)
for _kind in (list, Items):
    _Dumper.add_representer(_kind, _items)
_Dumper.add_representer(Keys, lambda dumper, keys: dumper.represent_dict(dict(keys)))


def write(document: dict[str, Any]) -> str:
    """The document as YAML text, its keys in their order."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120, default_flow_style=False, allow_unicode=True)
