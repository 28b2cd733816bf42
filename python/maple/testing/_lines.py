"""The lines of a policy's file that ask something of a packet, or make a route."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

from maple import _maple

ROUTES = frozenset({"drop", "flood", "to", "hops", "multicast", "ecmp", "pass_", "answer"})
"""Functions that make routes."""
PATHS = frozenset({"shortest_path", "path"})
"""Methods of the network that do."""
ASKS = frozenset({"is_multicast", "is_broadcast", "present", "prefix", "matches"})
"""Names of methods that ask a field or a packet something, besides comparisons."""


@functools.lru_cache(maxsize=256)
def _parsed(file: str, changed: float) -> Mapping[int, int]:
    tree = ast.parse(Path(file).read_text(encoding="utf-8"), file)
    found: dict[int, int] = {}
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.Lambda)):
            for node in _asking(function):
                # The line that the interpreter names is one of the expression's.
                for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                    found.setdefault(line, node.lineno)
    return found


def lines_of(file: str) -> Mapping[int, int]:
    """The lines of expressions that ask or make routes, each with the first line of its expression."""
    return _parsed(file, Path(file).stat().st_mtime)


def _asking(function: ast.FunctionDef | ast.Lambda) -> Iterator[ast.expr]:
    """The expressions of a function that ask a packet or make a route."""
    body = function.body if isinstance(function.body, list) else [function.body]
    waiting: list[ast.AST] = [] if _is_query(function) else list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            continue
        if isinstance(node, ast.expr) and _asks(node):
            yield node
        waiting += list(ast.iter_child_nodes(node))


def _is_query(function: ast.FunctionDef | ast.Lambda) -> bool:
    """Whether it is a query, whose lines are in no decision."""
    decorators = function.decorator_list if isinstance(function, ast.FunctionDef) else []
    return any(_name(decorator) == "Query" for decorator in decorators)


def _asks(node: ast.expr) -> bool:
    if isinstance(node, ast.Compare):
        return any(_is_field(part) for part in [node.left, *node.comparators])
    if isinstance(node, ast.Attribute):
        return node.attr in ASKS and _is_field(node.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in PATHS and isinstance(node.func.value, ast.Name)
    return isinstance(node, ast.Call) and _name(node.func) in ROUTES


def _is_field(node: ast.expr) -> bool:
    """Whether this is ``pkt.tcp_dst``, of whatever name the packet has."""
    return isinstance(node, ast.Attribute) and node.attr in _maple.FIELDS and isinstance(node.value, ast.Name)


def _name(node: ast.expr) -> str | None:
    return node.id if isinstance(node, ast.Name) else None
