"""Faults for the source of a policy: each is one small change of one expression or statement."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
# Route constructors, and what is returned in their place.
OTHER_ROUTES = {
    "drop": "flood()",
    "flood": "drop()",
    "shortest_path": "drop()",
    "path": "drop()",
    "multicast": "drop()",
}


@dataclass(frozen=True)
class Mutant:
    """A faulty version of a file."""

    what: str
    line: int
    text: str
    before: str
    after: str
    source: str


def mutants_of(source: str) -> list[Mutant]:
    """All faults of a file, in order of lines."""
    tree = ast.parse(source)
    found: dict[str, Mutant] = {}
    for node in _code(tree):
        for what, new in _changes(node):
            mutant = _applied(source, node, what, new)
            if mutant is not None and mutant.source != source:
                found.setdefault(mutant.source, mutant)
    return sorted(found.values(), key=lambda mutant: mutant.line)


def _code(tree: ast.Module) -> Iterator[ast.AST]:
    """Expressions and statements that run, without types and texts for people."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, (ast.Import, ast.ImportFrom)) or _is_main(node):
            continue
        yield node
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_comment"):
                continue
            children = value if isinstance(value, list) else [value]
            waiting += [child for child in children if isinstance(child, ast.AST)]


def _is_main(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def _changes(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The replacements of a node: what the fault is, and the new text."""
    if isinstance(node, ast.Compare):
        yield from _comparisons(node)
    elif isinstance(node, ast.BoolOp):
        yield from _connectives(node)
    elif isinstance(node, (ast.If, ast.IfExp)):
        yield from _conditions(node)
    elif isinstance(node, ast.Attribute):
        other = _opposite(node.attr)
        if other is not None:
            yield "source and destination swapped", ast.unparse(ast.Attribute(node.value, other, ast.Load()))
    elif isinstance(node, ast.Constant):
        yield from _constants(node)
    elif isinstance(node, ast.Call):
        yield from _calls(node)
    elif isinstance(node, (ast.Assign, ast.AugAssign, ast.Delete, ast.Expr)):
        yield from _statements(node)


def _comparisons(node: ast.Compare) -> Iterator[tuple[str, str]]:
    for at, operator in enumerate(node.ops):
        other = copy.deepcopy(node)
        other.ops[at] = COMPARISONS[type(operator)]()
        yield "another comparison", f"({ast.unparse(other)})"


def _connectives(node: ast.BoolOp) -> Iterator[tuple[str, str]]:
    other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield "and for or, or the other way", f"({ast.unparse(ast.BoolOp(other, node.values))})"
    for at in range(len(node.values)):
        rest = node.values[:at] + node.values[at + 1 :]
        # A name that a test binds has to stay.
        if not any(isinstance(part, ast.NamedExpr) for part in ast.walk(node.values[at])):
            kept = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
            yield "a test is missing", f"({ast.unparse(kept)})"


def _conditions(node: ast.If | ast.IfExp) -> Iterator[tuple[str, str]]:
    other = copy.deepcopy(node)
    other.test = ast.UnaryOp(ast.Not(), node.test)
    yield "a test is negated", ast.unparse(other)
    if isinstance(node, ast.If) and not node.orelse:
        yield "a test is missing, with what it guards", "pass"


def _opposite(name: str) -> str | None:
    for one, other in (("_src", "_dst"), ("_dst", "_src"), ("_spa", "_tpa"), ("_tpa", "_spa")):
        if name.endswith(one):
            return name.removesuffix(one) + other
    return None


def _constants(node: ast.Constant) -> Iterator[tuple[str, str]]:
    if isinstance(node.value, bool):
        yield "true for false, or the other way", str(not node.value)
    elif isinstance(node.value, int):
        yield "another number", str(node.value + 1)
        if node.value > 0:
            yield "another number", str(node.value - 1)


def _calls(node: ast.Call) -> Iterator[tuple[str, str]]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
    if name in OTHER_ROUTES:
        yield "another route", OTHER_ROUTES[str(name)]
    if len(node.args) == 2 and name not in ("isinstance", "get", "Table", "partition"):
        swapped = ast.Call(node.func, node.args[::-1], node.keywords)
        yield "arguments swapped", ast.unparse(swapped)
    costs = [word for word in node.keywords if word.arg == "cost"]
    if costs:
        rest = [word for word in node.keywords if word.arg != "cost"]
        yield "other costs", ast.unparse(ast.Call(ast.Attribute(node.func.value, "shortest_path"), node.args, rest))  # type: ignore[attr-defined]


def _statements(node: ast.Assign | ast.AugAssign | ast.Delete | ast.Expr) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Expr):
        if isinstance(node.value, ast.Call) and "print" not in ast.unparse(node.value.func):
            yield "a call is missing", "pass"
    elif isinstance(node, ast.AugAssign):
        other = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        yield "plus for minus, or the other way", ast.unparse(ast.AugAssign(node.target, other, node.value))
    elif isinstance(node, ast.Delete) or any(isinstance(target, ast.Subscript) for target in node.targets):
        yield "a write is missing", "pass"


def _applied(source: str, node: ast.AST, what: str, new: str) -> Mutant | None:
    """The file with a node replaced, the other lines as they were."""
    start, end = _span(source, node)
    indent = " " * getattr(node, "col_offset", 0)
    text = new.replace("\n", "\n" + indent)
    changed = source[:start] + text + source[end:]
    # So that later lines keep their numbers.
    lost = source[start:end].count("\n") - text.count("\n")
    if lost > 0:
        line_end = changed.find("\n", start + len(text))
        line_end = len(changed) if line_end < 0 else line_end
        changed = changed[:line_end] + "\n" * lost + changed[line_end:]
    try:
        ast.parse(changed)
    except SyntaxError:
        return None
    before = " ".join(source[start:end].split())
    line = source.splitlines()[node.lineno - 1].strip()  # type: ignore[attr-defined]
    return Mutant(what, node.lineno, line, before, " ".join(new.split()), changed)  # type: ignore[attr-defined]


def _span(source: str, node: ast.AST) -> tuple[int, int]:
    """Where a node begins and ends in the source, which is ASCII or UTF-8."""
    lines = source.splitlines(keepends=True)

    def offset(line: int, column: int) -> int:
        before = sum(len(text) for text in lines[: line - 1])
        return before + len(lines[line - 1].encode()[:column].decode())

    first = offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]
    last = offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
    return first, last
