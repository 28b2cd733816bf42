"""The meaning of names in the source of a policy, and what of it Maple can't track: helpers of ``maple._check``."""

from __future__ import annotations

import ast
import inspect
import os
import random
import sys
import time
import types
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TypeGuard

CLOCK = "the answer depends on the time; let a thread set a Var when it changes, and read that"
HASH = "of texts it is another number in each process; use zlib.crc32() of the bytes, or the number itself"
RANDOM = "every run answers otherwise; choose by a field of the packet, such as int(pkt.ipv4_src) % n"
FILE = "a change of the file is not seen; read it when the file is loaded, or in a thread that writes a Table"
ENVIRONMENT = "read it once, when the file is loaded"
SLEEP = "nothing else is decided meanwhile, and no packet waits for it; wait in a thread"
OUTSIDE = "the answer comes from outside and may change; ask in a thread, and leave the answer in a Table"

# Module: what its functions read. An empty set of names means all of them.
UNTRACKED: dict[str, tuple[frozenset[str], str]] = {
    "time": (frozenset(), CLOCK),
    "datetime": (frozenset({"now", "today", "utcnow"}), CLOCK),
    "random": (frozenset(), RANDOM),
    "_random": (frozenset(), RANDOM),
    "secrets": (frozenset(), RANDOM),
    "uuid": (frozenset({"uuid1", "uuid4"}), RANDOM),
    "socket": (frozenset(), OUTSIDE),
    "subprocess": (frozenset(), OUTSIDE),
    "urllib.request": (frozenset(), OUTSIDE),
    "io": (frozenset({"open", "open_code"}), FILE),
}
# Functions of `os` and `posix` (its true name), and methods of paths and clocks, by name.
OS = {
    "getenv": ENVIRONMENT,
    "urandom": RANDOM,
    "stat": FILE,
    "listdir": FILE,
    "scandir": FILE,
    "getloadavg": OUTSIDE,
    "getpid": OUTSIDE,
    "times": CLOCK,
    "popen": OUTSIDE,
    "system": OUTSIDE,
}
PATH_METHODS = {"read_text", "read_bytes", "exists", "is_file", "is_dir", "stat", "iterdir", "glob", "rglob", "open"}
# Methods that change a list, dictionary, set or deque.
LIST_CHANGES = {"append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse"}
SET_CHANGES = {"add", "discard", "intersection_update", "difference_update", "symmetric_difference_update"}
DICT_CHANGES = {"update", "setdefault", "popitem", "subtract"}
CHANGES = LIST_CHANGES | SET_CHANGES | DICT_CHANGES | {"appendleft", "extendleft", "popleft", "rotate"}
MUTABLE = (list, dict, set, bytearray, deque)
# Stands for an object that is not known.
UNKNOWN = object()


def is_plain(owner: object) -> bool:
    """Whether looking up an attribute runs no code of the policy."""
    return owner is not UNKNOWN and type(owner).__getattribute__ is object.__getattribute__


def method(owner: object, name: str) -> object:
    """A method or class attribute, bound to nothing."""
    found = inspect.getattr_static(type(owner), name, UNKNOWN)
    if isinstance(owner, random.Random) and found is not UNKNOWN:
        return getattr(owner, name)
    return found


def untracked(called: object, node: ast.Call) -> str | None:
    """Why a call reads what can't be tracked, if it does."""
    if called is open:
        return FILE
    if called is hash:
        return HASH
    name = getattr(called, "__name__", None) or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
    owner = getattr(called, "__self__", None)
    if isinstance(owner, random.Random):
        return RANDOM
    home = owner.__name__ if isinstance(owner, types.ModuleType) else getattr(called, "__module__", None)
    if isinstance(owner, type):
        home = owner.__module__
    if home in ("os", "posix", "nt") and callable(called):
        return OS.get(name)
    if home is not None and home.startswith("pathlib") and name in PATH_METHODS:
        return FILE
    if is_environment(owner):
        return ENVIRONMENT
    for module, (names, reason) in UNTRACKED.items():
        if home == module and callable(called) and (not names or name in names) and not isinstance(called, type):
            return reason
    return None


def is_sleep(called: object) -> bool:
    """Whether a call of this only waits."""
    return called is time.sleep


def is_environment(value: object) -> bool:
    """Whether this is ``os.environ``."""
    return value is os.environ


def root(node: ast.expr) -> ast.Name | None:
    """The name that ``a.b[c].d`` begins with."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def local_names(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> frozenset[str]:
    """Names that the function binds itself, arguments included."""
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    names = {one.arg for one in every if one is not None}
    outer: set[str] = set()
    for child in ast.walk(node):
        if isinstance(child, ast.Name) and isinstance(child.ctx, (ast.Store, ast.Del)):
            names.add(child.id)
        elif isinstance(child, (ast.Global, ast.Nonlocal)):
            outer.update(child.names)
        elif isinstance(child, (ast.FunctionDef, ast.ClassDef)) and child is not node:
            names.add(child.name)
        elif isinstance(child, (ast.Import, ast.ImportFrom)):
            names.update((alias.asname or alias.name).split(".")[0] for alias in child.names)
        elif isinstance(child, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and child.name:
            names.add(child.name)
    return frozenset(names - outer)


def local_imports(node: ast.FunctionDef | ast.Lambda) -> dict[str, object]:
    """The modules that the function imports itself, as far as it is loaded."""
    found: dict[str, object] = {}
    for child in ast.walk(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                name = alias.name if alias.asname else alias.name.split(".")[0]
                found[alias.asname or name] = sys.modules.get(name, UNKNOWN)
        elif isinstance(child, ast.ImportFrom) and child.module:
            module = sys.modules.get(child.module)
            found.update((alias.asname or alias.name, getattr(module, alias.name, UNKNOWN)) for alias in child.names)
    return found


def changes_of(node: ast.AST, name: str) -> Iterator[ast.AST]:
    """Where a function changes the object that one of its names stands for."""
    for child in ast.walk(node):
        changed = None
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute) and child.func.attr in CHANGES:
            changed = child.func.value
        elif isinstance(child, ast.Subscript) and isinstance(child.ctx, (ast.Store, ast.Del)):
            changed = child.value
        if isinstance(changed, ast.Name) and changed.id == name:
            yield child


def called_at_load(tree: ast.Module) -> set[str]:
    """Functions that nothing but the loading of the file calls, directly or through others."""
    bodies = {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    top = [node for node in tree.body if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))]
    found, waiting = set(), list(top)
    while waiting:
        for node in ast.walk(waiting.pop()):
            name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None
            if name in bodies and name not in found:
                found.add(name)
                waiting.append(bodies[name])
    return found


def is_call_of(node: ast.AST, name: str) -> TypeGuard[ast.Call]:
    """Whether this is ``name(…)``."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def returns_one_of(loop: ast.For, names: set[str]) -> bool:
    """Whether the loop returns what it makes of one element, so that it matters which comes first."""
    returned = [child.value for child in ast.walk(loop) if isinstance(child, ast.Return) and child.value is not None]
    return any(isinstance(one, ast.Name) and one.id in names for value in returned for one in ast.walk(value))
