"""Policies: the ``@policy`` decorator, what is composed of policies, and how one is found in a file."""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import inspect
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Final, TypeGuard, overload

from maple import _maple, _repr, _spelling

Function = Callable[[_maple.Packet, _maple.Net], _maple.Route]
Place = tuple[int, int] | _maple.Location | str
Costs = Mapping[str, Mapping[Place, int]]


class Policy:
    """A policy: a function of packet and network, and how it wants to be run."""

    def __init__(
        self,
        function: Function,
        *,
        costs: Costs | None = None,
        track_hosts: bool = True,
        snoop: str | Iterable[str] = (),
        dhcp_servers: Iterable[Place] = (),
        querier: bool = False,
    ) -> None:
        if not inspect.isfunction(function):
            raise TypeError(f"@policy needs a function of (pkt, net), not {function!r}")
        kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
        if any(is_kind(function) for is_kind in kinds):
            raise TypeError(
                f"{function.__name__} must be a plain function that returns a route, not async or a generator"
            )
        signature = inspect.signature(function)
        try:
            signature.bind(None, None)
        except TypeError:
            raise TypeError(
                f"a policy takes two arguments, the packet and the network: def {function.__name__}(pkt, net); "
                f"this one is def {function.__name__}{signature}"
            ) from None
        _spelling.check_policy(function)
        functools.update_wrapper(self, function)
        self.function: Function = function
        self.costs: Costs = costs or {}
        self.track_hosts = track_hosts
        self.snoop: list[str] = [snoop] if isinstance(snoop, str) else list(snoop)
        self.dhcp_servers: list[Place] = list(dhcp_servers)
        self.querier = querier
        _maple.snoop(self.snoop, self.dhcp_servers, querier)
        for name, of_links in self.costs.items():
            _maple.costs(name, dict(of_links))

    def __call__(self, pkt: _maple.Packet, net: _maple.Net) -> _maple.Route:
        return self.function(pkt, net)

    @_repr.always
    def __repr__(self) -> str:
        return f"<policy {self.function.__qualname__}>"

    @property
    def functions(self) -> list[Function]:
        """The functions that it calls."""
        return [self.function]

    def then(self, next: Decides) -> Policy:
        """``next`` decides where this policy passes, on the packet as this policy changed it.

        This is ``tiers(self, next)``.
        """
        both = composition_of(self, "then()"), composition_of(next, "then()")
        return Composed("tiers", _maple.Composition.tiers(both), (self, next))


class Composed(Policy):
    """A policy made of policies. It is used like one, in further compositions too."""

    def __init__(self, name: str, composition: _maple.Composition, parts: Iterable[Decides]) -> None:
        self.composition = composition
        self.parts: tuple[Policy, ...] = tuple(part for part in parts if isinstance(part, Policy))
        self.__name__ = self.__qualname__ = name
        self.__doc__ = None
        self.__module__ = caller()[2]
        self.costs = {key: of_links for part in self.parts for key, of_links in part.costs.items()}
        self.track_hosts = all(part.track_hosts for part in self.parts)
        self.snoop = sorted({kind for part in self.parts for kind in part.snoop})
        self.dhcp_servers = [place for part in self.parts for place in part.dhcp_servers]
        self.querier = any(part.querier for part in self.parts)

    @property
    def functions(self) -> list[Function]:
        """The functions that it calls, in order."""
        return self.composition.functions()

    def __call__(self, pkt: _maple.Packet, net: _maple.Net) -> _maple.Route:
        raise TypeError(f"{self!r} is composed: it can be run, and be a part of other policies, but not be called")

    @_repr.always
    def __repr__(self) -> str:
        return f"<policy {self.__name__}>"


Decides = Policy | Function | _maple.Route
"""The parts of compositions: policies, plain functions of (pkt, net), and routes that hold for all packets."""


def composition_of(policy: Decides, where: str) -> _maple.Composition:
    """A part of a composition, under the name of its function; ``where`` is for errors."""
    name = getattr(policy, "__name__", "<lambda>")
    part = unnamed(policy, where)
    return part if isinstance(policy, (Composed, _maple.Route)) or name == "<lambda>" else part.named(name)


def unnamed(policy: Decides, where: str) -> _maple.Composition:
    """A part of a composition; ``where`` is for errors."""
    if isinstance(policy, Composed):
        return policy.composition
    if isinstance(policy, _maple.Route):
        return _maple.Composition.route(policy)
    if isinstance(policy, Policy):
        return _maple.Composition.function(policy.function)
    if inspect.isfunction(policy):
        # What must hold for a policy must hold for a part of one.
        return _maple.Composition.function(Policy(policy).function)
    raise TypeError(f"{where} takes policies, functions of (pkt, net) and routes, not {policy!r}")


def caller() -> tuple[str, int, str]:
    """File, line and module of the code that called this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "maple":
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno, frame.f_globals.get("__name__", "")


@overload
def policy(function: Function, /) -> Policy: ...
@overload
def policy(
    *,
    costs: Costs | None = None,
    track_hosts: bool = True,
    snoop: str | Iterable[str] = (),
    dhcp_servers: Iterable[Place] = (),
    querier: bool = False,
) -> Callable[[Function], Policy]: ...
def policy(
    function: Function | None = None,
    /,
    *,
    costs: Costs | None = None,
    track_hosts: bool = True,
    snoop: str | Iterable[str] = (),
    dhcp_servers: Iterable[Place] = (),
    querier: bool = False,
) -> Policy | Callable[[Function], Policy]:
    """Makes a function of ``(pkt, net)`` the policy of its file.

    ``costs`` gives link costs by name, as :func:`maple.costs` does. With ``track_hosts=False`` the controller does
    not learn where hosts are, and ``net.locate`` is an error.

    ``snoop`` says what is learned from what hosts say: ``"igmp"`` and ``"mld"`` for ``net.members``, ``"dhcp"`` for
    ``net.lease``. DHCP servers are believed at the edge ports ``dhcp_servers`` only, pairs of switch and port. With
    ``querier=True`` Maple asks hosts for their groups where no multicast router does. ``ValueError`` says what does not
    fit together.
    """

    def make(function: Function) -> Policy:
        return Policy(
            function,
            costs=costs,
            track_hosts=track_hosts,
            snoop=snoop,
            dhcp_servers=dhcp_servers,
            querier=querier,
        )

    return make if function is None else make(function)


class _SourceLoader(importlib.machinery.SourceFileLoader):
    """A loader that compiles a file each time.

    Python's own takes what was compiled before if the file's size and the second of its last change are the same. So a
    reload right after an edit could run what the file had before the edit.
    """

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


_LOADERS: Final = (
    (importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES),
    (_SourceLoader, importlib.machinery.SOURCE_SUFFIXES),
    (importlib.machinery.SourcelessFileLoader, importlib.machinery.BYTECODE_SUFFIXES),
)
"""The loaders of the files beside a policy, with the suffixes of what they load."""


def load(path: str, name: str | None = None) -> Policy | type[_maple.Handler]:
    """The policy or the handler in the file at ``path``: the one called ``name``, or the only one there is.

    The file's folder comes first on ``sys.path`` from then on, so that it can import its neighbours.
    """
    file = Path(path)
    folder = str(file.resolve().parent)
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)
    before = set(threading.enumerate())
    sys.path_importer_cache[folder] = importlib.machinery.FileFinder(folder, *_LOADERS)
    # Not by spec_from_file_location: it would make the path absolute, and people see it in many places.
    loader = _SourceLoader(f"maple_policy_{file.stem}", path)
    spec = importlib.util.spec_from_loader(loader.name, loader)
    if spec is None:
        raise LookupError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    loader.exec_module(module)
    _threads.extend(thread for thread in threading.enumerate() if thread not in before)
    return _chosen(module, path, name)


_threads: list[threading.Thread] = []


def has_threads() -> bool:
    """Whether threads still run that files started while they were loaded."""
    return any(thread.is_alive() for thread in _threads)


def loaded(path: str, name: str | None = None) -> Policy | type[_maple.Handler]:
    """The policy or handler that :func:`load` returned for a file that was loaded before."""
    return _chosen(sys.modules[f"maple_policy_{Path(path).stem}"], path, name)


def _chosen(module: ModuleType, path: str, name: str | None) -> Policy | type[_maple.Handler]:
    found = {key: value for key, value in vars(module).items() if _is_program(value)}
    if name is not None:
        if name not in found:
            raise LookupError(f"{path} has no policy {name!r}; it has {_listed(found)}")
        return found[name]
    # A class from another file is there to be derived from.
    own = {key: value for key, value in found.items() if getattr(value, "__module__", None) == module.__name__}
    distinct = {id(value): value for value in (own or found).values()}
    for value in list(distinct.values()):
        for part in value.parts if isinstance(value, Composed) else ():
            distinct.pop(id(part), None)
    if len(distinct) != 1:
        wanted = "decorate a function with @policy" if not distinct else f"say which one: {path}:NAME"
        raise LookupError(f"{path} has {_listed(found)}; {wanted}")
    return next(iter(distinct.values()))


def _is_program(value: object) -> TypeGuard[Policy | type[_maple.Handler]]:
    """Whether the value can be run: a policy, or a class derived from ``maple.Handler``."""
    if isinstance(value, type):
        return issubclass(value, _maple.Handler) and value is not _maple.Handler
    return isinstance(value, Policy)


def _listed(found: dict[str, Policy | type[_maple.Handler]]) -> str:
    policies = sorted(name for name, value in found.items() if isinstance(value, Policy))
    handlers = sorted(name for name, value in found.items() if not isinstance(value, Policy))
    parts = ["the policies " + ", ".join(policies)] if policies else []
    parts += ["the handlers " + ", ".join(handlers)] if handlers else []
    return " and ".join(parts) or "no policy"


def explain(error: BaseException, trace: TracebackType | None, path: str) -> str:
    """The error that ended the loading of the file at ``path``: with a traceback from there on, if it got that far."""
    while trace is not None and trace.tb_frame.f_code.co_filename != path:
        trace = trace.tb_next
    if trace is None and isinstance(error, LookupError):
        return str(error).removeprefix(f"{path} ")
    told = traceback.TracebackException(type(error), error, trace)
    # What Maple does inside is nothing that people can mend.
    told.stack = traceback.StackSummary.from_list([frame for frame in told.stack if not is_own(frame.filename)])
    return "".join(told.format()).rstrip()


def is_own(filename: str) -> bool:
    """Whether a file is a part of this package."""
    return Path(filename).parent == Path(__file__).parent
