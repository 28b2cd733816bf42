"""Policies for tests: loaded afresh for each network, with tables of their own."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from maple import _maple
from maple._policy import Policy, is_own, load

Wanted = Policy | Callable[[_maple.Packet, _maple.Net], _maple.Route] | str | Path
"""A thing that can be tested: a policy, a function of ``(pkt, net)``, or the name of a file, also as ``FILE:NAME``."""


class Loaded:
    """A policy, and the place where its tables live."""

    def __init__(
        self, policy: Policy, place: _maple.Place, file: str | None, threads: list[threading.Thread] | None = None
    ) -> None:
        self.policy = policy
        self.place = place
        #: The file that it was loaded from.
        self.file = file
        self._threads = threads or []

    def end(self) -> None:
        """Ends the threads that the file has started, each as soon as it runs Python code again."""
        for thread in self._threads:
            if thread.ident is not None and thread.is_alive():
                number, ended = ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(number, ended)
        self._threads = []


def fresh(wanted: Wanted, folder: Path) -> Loaded:
    """The policy with empty tables. File names are relative to ``folder``.

    A policy that was made elsewhere keeps the declared types of its tables and the costs of links, and nothing that was
    written to its tables.
    """
    if isinstance(wanted, (str, Path)):
        path, name = _found(wanted, folder)
        place, threads = _maple.Place(), list[threading.Thread]()
        loaded = _from_file(path, name, place, threads)
        if not isinstance(loaded, Policy):
            raise ValueError(f"{path.name} has a handler, which the fixture handler tests")
        return Loaded(loaded, place, str(path), threads)
    policy = wanted if isinstance(wanted, Policy) else Policy(wanted)
    return Loaded(policy, _maple.Place.current().declarations(), None)


def fresh_handler(wanted: str | Path, folder: Path) -> tuple[type[_maple.Handler], _maple.Place]:
    """The handler of a file, and the empty place where its tables live."""
    path, name = _found(wanted, folder)
    place = _maple.Place()
    loaded = _from_file(path, name, place, [])
    if isinstance(loaded, Policy):
        raise ValueError(f"{path.name} has a policy, which the fixture network tests")
    return loaded, place


def _found(wanted: str | Path, folder: Path) -> tuple[Path, str | None]:
    file, name = _split(str(wanted))
    path = folder / file
    if not path.is_file():
        raise FileNotFoundError(f"there is no policy {file} in {folder}")
    return path, name


def _split(wanted: str) -> tuple[str, str | None]:
    file, colon, name = wanted.rpartition(":")
    return (file, name) if colon and file.endswith(".py") and name.isidentifier() else (wanted, None)


def _from_file(
    path: Path, name: str | None, place: _maple.Place, threads: list[threading.Thread]
) -> Policy | type[_maple.Handler]:
    with _apart(path.resolve().parent), _threads_in(place, threads), entered(place):
        return load(str(path), name)


@contextmanager
def entered(place: _maple.Place) -> Iterator[None]:
    """A context in which the tables of this thread live in ``place``."""
    place.enter()
    try:
        yield
    finally:
        place.leave()


@contextmanager
def _apart(folder: Path) -> Iterator[None]:
    """A context in which the files beside the policy are loaded again. Afterwards the modules are as they were."""
    before = {name: module for name, module in sys.modules.items() if _is_beside(module, folder)}
    path = list(sys.path)
    for name in before:
        del sys.modules[name]
    importlib.invalidate_caches()
    try:
        yield
    finally:
        for name in [name for name, module in sys.modules.items() if _is_beside(module, folder)]:
            if not name.startswith("maple_policy_"):
                del sys.modules[name]
        sys.modules.update(before)
        sys.path[:] = path


def _is_beside(module: ModuleType, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    is_main = getattr(module, "__name__", None) == "__main__"
    return file is not None and not is_main and not is_own(file) and Path(file).resolve().parent == folder


@contextmanager
def _threads_in(place: _maple.Place, threads: list[threading.Thread]) -> Iterator[None]:
    """Threads that are started in it keep their tables in ``place``, whatever network comes later; they are listed."""
    start = threading.Thread.start

    def bound(thread: threading.Thread) -> None:
        run = thread.run

        def run_there() -> None:
            with entered(place), contextlib.suppress(SystemExit):
                run()

        thread.run = run_there  # type: ignore[method-assign]
        threads.append(thread)
        start(thread)

    threading.Thread.start = bound  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]
