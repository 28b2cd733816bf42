"""Finds, in the source of a policy, reads of what Maple can't track: the part of ``maple check`` that runs nothing.

Looked at are the policy's function and the functions of its file that it calls, directly or through others, with the
default values of their arguments. Names that can't be resolved, other files and what runs while the file is loaded are
left alone: a file that is read once, at the top, is a constant. So what is reported is almost always meant; what is not
reported may still be wrong, and the runs of ``maple check`` look for that.

A line whose comment contains ``untracked: ok`` is left out.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import types
from dataclasses import dataclass
from pathlib import PurePath

from maple import _maple
from maple._policy import Policy, loaded
from maple._source import (
    CHANGES,
    ENVIRONMENT,
    FILE,
    MUTABLE,
    PATH_METHODS,
    SLEEP,
    UNKNOWN,
    called_at_load,
    changes_of,
    is_call_of,
    is_environment,
    is_plain,
    is_sleep,
    local_imports,
    local_names,
    method,
    returns_one_of,
    root,
    untracked,
)

# What lives longer than a run and may be changed by one: tracked.
TRACKED = (_maple.Table, _maple.Var)


@dataclass
class Suspicion:
    """A place that looks like a read of something that can't be tracked, or that only waits."""

    file: str
    line: int
    text: str
    is_untracked: bool = True

    def text_key(self) -> tuple[str, int, str]:
        """The key that distinguishes a finding from others."""
        return self.file, self.line, self.text


@dataclass
class Scope:
    """A function that a run of the policy may call, and its source."""

    function: types.FunctionType
    node: ast.FunctionDef | ast.Lambda
    local: frozenset[str]
    imports: dict[str, object]


def inspect_policy(path: str, name: str | None) -> list[tuple[str, int, str, bool]]:
    """The suspicious parts of a policy whose file was loaded, in order of lines: file, line, text, and whether it is a
    read of what can't be tracked."""
    policy = loaded(path, name)
    found = of_policy(policy) if isinstance(policy, Policy) else []
    return [(one.file, one.line, one.text, one.is_untracked) for one in found]


def untracked_reads(policy: object) -> list[str]:
    """The reads of what can't be tracked, as ``file:line: text``; none of a plain function."""
    found = of_policy(policy) if isinstance(policy, Policy) else []
    return [f"{one.file}:{one.line}: {one.text}" for one in found if one.is_untracked]


def of_policy(policy: Policy) -> list[Suspicion]:
    """The suspicious parts of a policy, in order of lines."""
    functions = [function for function in policy.functions if isinstance(function, types.FunctionType)]
    found = {one.text_key(): one for function in functions for one in Checker(function).suspicions()}
    return sorted(found.values(), key=lambda one: (one.file, one.line, one.text))


class Checker:
    """Looks through the functions that one policy calls."""

    def __init__(self, function: types.FunctionType) -> None:
        self.file = function.__code__.co_filename
        source = "".join(linecache.getlines(self.file))
        self.tree: ast.Module | None = ast.parse(source, self.file) if source else None
        self.found: dict[tuple[int, str], Suspicion] = {}
        self.seen: set[types.CodeType] = set()
        self.waiting: list[types.FunctionType] = [function]
        self.module = function.__globals__
        # Globals that a run changes itself, and reads of globals that something else changes.
        self.changed_by_runs: set[str] = set()
        self.reads: list[tuple[ast.Name, int]] = []

    def suspicions(self) -> list[Suspicion]:
        """All that was found."""
        changed = self.globals_changed_elsewhere() if self.tree else {}
        while self.waiting:
            function = self.waiting.pop()
            node = self.source_of(function)
            if node is not None and function.__code__ not in self.seen:
                self.seen.add(function.__code__)
                scope = Scope(function, node, local_names(node), local_imports(node))
                Visitor(self, scope, changed).look()
        for name, line in self.reads:
            if name.id not in self.changed_by_runs:
                self.report(
                    name,
                    f"`{name.id}` is a global that line {line} changes; "
                    "what was decided by its old value stays: make it a Var or a Table",
                )
        return sorted(self.found.values(), key=lambda one: (one.line, one.text))

    def source_of(self, function: types.FunctionType) -> ast.FunctionDef | ast.Lambda | None:
        """The source of a function of the policy's file."""
        code = function.__code__
        if self.tree is None or code.co_filename != self.file:
            return None
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                if first <= code.co_firstlineno <= node.lineno:
                    return node
            elif isinstance(node, ast.Lambda) and code.co_name == "<lambda>" and node.lineno == code.co_firstlineno:
                return node
        return None

    def report(self, node: ast.AST, text: str, *, is_untracked: bool = True) -> None:
        """Notes a place, unless its line says that it is meant."""
        line = getattr(node, "lineno", 0)
        if "untracked: ok" not in linecache.getline(self.file, line):
            self.found.setdefault((line, text), Suspicion(self.file, line, text, is_untracked))

    def follow_methods(self, name: str) -> None:
        """Looks through methods of this name of the file's classes: what they are called on is not known."""
        for owner in self.module.values():
            if isinstance(owner, type) and owner.__module__ == self.module.get("__name__"):
                method = vars(owner).get(name)
                if isinstance(method, types.FunctionType):
                    self.waiting.append(method)

    def globals_changed_elsewhere(self) -> dict[str, int]:
        """Global names that some function of the file changes after the file was loaded, and where: it binds them
        anew, or changes the list, dictionary or set that they stand for."""
        changed: dict[str, int] = {}
        assert self.tree is not None
        at_load = called_at_load(self.tree)
        for function in ast.walk(self.tree):
            if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or function.name in at_load:
                continue
            outer = {name for node in ast.walk(function) if isinstance(node, ast.Global) for name in node.names}
            for node in ast.walk(function):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in outer:
                    changed.setdefault(node.id, node.lineno)
            local = local_names(function)
            for name, value in self.module.items():
                if isinstance(value, MUTABLE) and name not in local:
                    for change in changes_of(function, name):
                        changed.setdefault(name, getattr(change, "lineno", function.lineno))
        return changed


class Visitor(ast.NodeVisitor):
    """Looks through one function."""

    def __init__(self, checker: Checker, scope: Scope, changed: dict[str, int]) -> None:
        self.checker = checker
        self.scope = scope
        self.changed = changed
        self.rebound: set[str] = set()
        self.sets: set[str] = set()

    def look(self) -> None:
        """Looks at its default values and its body."""
        self.defaults()
        node = self.scope.node
        for child in node.body if isinstance(node.body, list) else [node.body]:
            self.visit(child)

    def defaults(self) -> None:
        """Default values that calls share, and that the function changes."""
        function, node = self.scope.function, self.scope.node
        values = {
            name: parameter.default
            for name, parameter in inspect.signature(function).parameters.items()
            if isinstance(parameter.default, MUTABLE)
        }
        for name in values:
            for change in changes_of(node, name):
                self.checker.report(
                    change,
                    f"`{name}` is one object for all calls, and this changes it: later packets see what earlier ones "
                    "left; use a Table",
                )

    # Names that are bound again.

    def visit_Global(self, node: ast.Global) -> None:
        self.rebound.update(node.names)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self.rebound.update(node.names)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store) and node.id in self.rebound:
            self.checker.changed_by_runs.add(node.id)
            self.checker.report(
                node,
                f"`{node.id}` is changed here, and packets that a rule answers don't come here; "
                "keep it in a Var or a Table, where the next packets see it",
            )
        elif isinstance(node.ctx, ast.Load) and node.id in self.changed and self.is_global(node.id):
            if not isinstance(self.value(node), TRACKED):
                self.checker.reads.append((node, self.changed[node.id]))
        elif isinstance(node.ctx, ast.Load):
            self.follow(self.value(node))

    # Objects that are changed.

    def visit_Assign(self, node: ast.Assign) -> None:
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name) and self.is_set(node.value):
            self.sets.add(node.targets[0].id)
        for target in node.targets:
            self.check_target(target)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.check_target(node.target)
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self.check_target(target)
        self.generic_visit(node)

    def check_target(self, target: ast.expr) -> None:
        """Reports what is not the function's own: ``things[k] = …`` and ``module.name = …``."""
        if isinstance(target, (ast.Tuple, ast.List)):
            for part in target.elts:
                self.check_target(part)
        if isinstance(target, (ast.Subscript, ast.Attribute)):
            self.check_change(target, target.value)

    def check_change(self, place: ast.AST, of: ast.expr) -> None:
        """Reports a change of an object that lives longer than the run."""
        owner = root(of)
        if owner is None or not self.is_outer(owner.id):
            return
        value = self.value(of)
        if value is UNKNOWN or isinstance(value, (*TRACKED, _maple.Route)):
            return
        self.checker.changed_by_runs.add(owner.id)
        self.checker.report(
            place,
            f"`{ast.unparse(of)}` is changed here, and packets that a rule answers don't come here; "
            "keep it in a Table, where the next packets see it",
        )

    # Calls.

    def visit_Call(self, node: ast.Call) -> None:
        called = self.value(node.func)
        reason = untracked(called, node) or self.untracked_method(node)
        if is_sleep(called):
            self.checker.report(node, f"`{ast.unparse(node.func)}()`: {SLEEP}", is_untracked=False)
        elif reason:
            self.checker.report(node, f"`{ast.unparse(node.func)}()`: {reason}")
        elif isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
            if isinstance(self.value(node.func.value), MUTABLE):
                self.check_change(node, node.func.value)
        elif self.is_counter(node):
            self.checker.report(
                node, f"`{ast.unparse(node)}` gives another value each time; count in a Table or Var instead"
            )
        if is_call_of(node, "next") and node.args and is_call_of(node.args[0], "iter"):
            self.check_order(node, node.args[0].args[0])
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "pop" and not node.args:
            self.check_order(node, node.func.value)
        self.follow(called)
        if isinstance(node.func, ast.Attribute) and called is UNKNOWN:
            self.checker.follow_methods(node.func.attr)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.check_environment(node, node.value)
        if (is_call_of(node.value, "list") or is_call_of(node.value, "tuple")) and node.value.args:
            self.check_order(node, node.value.args[0])
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for right in node.comparators:
            self.check_environment(node, right)
        self.generic_visit(node)

    def check_environment(self, place: ast.AST, of: ast.expr) -> None:
        if is_environment(self.value(of)):
            self.checker.report(place, f"`{ast.unparse(of)}`: {ENVIRONMENT}")

    def untracked_method(self, node: ast.Call) -> str | None:
        """Why ``os.environ.get(…)`` and ``Path(…).read_text()`` can't be tracked."""
        if not isinstance(node.func, ast.Attribute):
            return None
        if is_environment(self.value(node.func.value)):
            return ENVIRONMENT
        if isinstance(node.func.value, ast.Call) and node.func.attr in PATH_METHODS:
            made = self.value(node.func.value.func)
            return FILE if isinstance(made, type) and issubclass(made, PurePath) else None
        return None

    def is_counter(self, node: ast.Call) -> bool:
        """Whether this is ``next()`` of an iterator that lives longer than the run."""
        if not (isinstance(node.func, ast.Name) and node.func.id == "next" and node.args):
            return False
        owner = root(node.args[0])
        return owner is not None and owner is node.args[0] and self.is_outer(owner.id)

    # Order of sets.

    def visit_For(self, node: ast.For) -> None:
        targets = {child.id for child in ast.walk(node.target) if isinstance(child, ast.Name)}
        if returns_one_of(node, targets):
            self.check_order(node, node.iter)
        self.generic_visit(node)

    def check_order(self, place: ast.AST, thing: ast.expr) -> None:
        if self.is_set(thing):
            self.checker.report(
                place,
                f"the order of the set `{ast.unparse(thing)}` is another in each process; use sorted(…) or a tuple",
            )

    def is_set(self, node: ast.expr) -> bool:
        """Whether this is a set of texts or of what is hashed like text."""
        if isinstance(node, ast.Name) and node.id in self.sets:
            return True
        if isinstance(node, ast.Set):
            return not all(isinstance(one, ast.Constant) and isinstance(one.value, int) for one in node.elts)
        if isinstance(node, ast.SetComp):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("set", "frozenset"):
            return bool(node.args)
        value = self.value(node)
        return isinstance(value, (set, frozenset)) and not all(isinstance(one, int) for one in value)

    # What names stand for.

    def is_global(self, name: str) -> bool:
        return name not in self.scope.local and name in self.scope.function.__globals__

    def is_outer(self, name: str) -> bool:
        """Whether the name is a global, or one of the function around: not a local name."""
        return name not in self.scope.local or name in self.rebound

    def value(self, node: ast.expr) -> object:
        """The object that a name or attribute stands for now, as far as that is certain."""
        if isinstance(node, ast.Name):
            if node.id in self.scope.local:
                return self.scope.imports.get(node.id, UNKNOWN)
            function = self.scope.function
            for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
                if name == node.id:
                    try:
                        return cell.cell_contents
                    except ValueError:
                        return UNKNOWN
            return function.__globals__.get(node.id, getattr(builtins, node.id, UNKNOWN))
        if isinstance(node, ast.Attribute):
            owner = self.value(node.value)
            # Only what can't run code of the policy.
            if isinstance(owner, (types.ModuleType, type)):
                return getattr(owner, node.attr, UNKNOWN)
            if is_plain(owner):
                return getattr(owner, "__dict__", {}).get(node.attr, method(owner, node.attr))
        return UNKNOWN

    def follow(self, called: object) -> None:
        """Looks through a function of the same file too."""
        called = getattr(called, "__wrapped__", called) if isinstance(called, types.FunctionType) else called
        if isinstance(called, type):
            called = called.__dict__.get("__init__")
        if isinstance(called, types.MethodType):
            called = called.__func__
        if isinstance(called, types.FunctionType):
            self.checker.waiting.append(called)
