"""Reload: a policy's file is loaded again while the policy runs."""

from __future__ import annotations

import importlib
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from maple import _maple, _on
from maple._policy import Policy, has_threads, is_own, load


class _Aside(NamedTuple):
    """The modules and functions that a reloaded file replaces."""

    modules: dict[str, ModuleType]
    functions: list[_on.Function]


_aside: _Aside | None = None
"""Replaced by a reloaded file that was neither adopted nor refused yet."""
_former: _Aside | None = None
"""Replaced by the reloaded file that was adopted last."""


def load_again(path: str, name: str | None = None) -> Policy | type[_maple.Handler]:
    """Loads a file, and the files beside it again, while a policy runs.

    The old and the new policy are both kept until :func:`adopted` or :func:`refused` is called.
    """
    global _aside
    if has_threads():
        raise RuntimeError(
            "the policy that runs started threads when its file was loaded, and they would go on beside those of the "
            "new one; start Maple again, or use @on(timer=…) in place of threads"
        )
    folder = Path(path).resolve().parent
    modules = {name: module for name, module in sys.modules.items() if _is_part(name, module, folder)}
    for module in modules:
        del sys.modules[module]
    importlib.invalidate_caches()
    _aside = _Aside(modules, _on.set_aside())
    try:
        found = load(path, name)
        _on.check_same_packets(_aside.functions)
    except BaseException:
        refused()
        raise
    return found


def load_for_replay(path: str, name: str | None = None) -> Policy | type[_maple.Handler]:
    """Loads a file for a replay. If it has several policies, each gets its own copies of the files beside it.

    Threads that the file starts do not run: what they wrote is in the recording.
    """
    folder = Path(path).resolve().parent
    for name_of, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name_of.startswith("maple_policy_") or (name_of != "__main__" and file is not None and _is_beside(file)):
            del sys.modules[name_of]
    importlib.invalidate_caches()
    _replayed.add(folder)
    start = threading.Thread.start
    threading.Thread.start = lambda self: None  # type: ignore[method-assign]
    try:
        return load(path, name)
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]


_replayed: set[Path] = set()
"""The folders of policies that were loaded for a replay."""


def _is_beside(file: str) -> bool:
    return Path(file).resolve().parent in _replayed and not is_own(file)


def adopted() -> None:
    """Makes the reloaded file the current one."""
    global _aside, _former
    if _aside is not None:
        _on.replace_functions()
    _former, _aside = _aside, None


def rolled_back() -> None:
    """Restores what the reloaded file that was adopted last has replaced."""
    global _former
    if _former is not None:
        sys.modules.update(_former.modules)
        _on.take_back(_former.functions)
        _on.replace_functions()
    _former = None


def refused() -> None:
    """Drops the reloaded file, and restores what it replaced."""
    global _aside
    if _aside is not None:
        sys.modules.update(_aside.modules)
        _on.take_back(_aside.functions)
    _aside = None


def _is_part(name: str, module: ModuleType, folder: Path) -> bool:
    """Whether the module is a policy, or a file beside the one in this folder."""
    file = getattr(module, "__file__", None)
    is_beside = file is not None and Path(file).resolve().parent == folder and not is_own(file)
    return name != "__main__" and (is_beside or name.startswith("maple_policy_"))
