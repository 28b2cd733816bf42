"""Functions that hear what happens beside a policy: ``@on``."""

from __future__ import annotations

import heapq
import inspect
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from maple import _maple
from maple._counts import Counts, Memory
from maple._policy import Place, is_own
from maple._shapes import Host, Link

Callback = Callable[..., object]
Decorated = TypeVar("Decorated", bound=Callback)

_NAMES: Final = (
    "port_status",
    "switch_up",
    "switch_down",
    "switch_unreachable",
    "switch_reachable",
    "violation",
)
"""The events that are asked for by name; the others have something to say of which."""


class PortEvent(NamedTuple):
    """A port came, went or changed."""

    at: _maple.Location
    name: str
    """The name that the switch gives the port."""
    is_up: bool
    """Whether packets can pass."""
    reason: str
    """``"add"``, ``"delete"`` or ``"modify"``."""


class ViolationEvent(NamedTuple):
    """A constraint of ``guard`` refused a route."""

    constraint: str
    """The constraint, with the line that made it."""
    why: str
    """The mistake in the route."""
    line: str
    """The line of the policy that made the route."""
    at: _maple.Location
    """Where the packet entered."""


class LiveNetwork:
    """The network as it is, for functions that listen and for threads: nothing that they ask is tracked."""

    def switches(self) -> list[int]:
        """The datapath ids of the switches that are up, in order."""
        return _maple.known_network()[0]

    def links(self) -> list[Link]:
        """All links, each once, lower end first."""
        return [Link(a, b) for a, b in _maple.known_network()[1]]

    def hosts(self) -> list[Host]:
        """All hosts that were seen, and where they are."""
        return [Host(mac, at) for mac, at in _maple.known_network()[2].items()]

    def locate(self, mac: _maple.Mac | str) -> _maple.Location | None:
        """Where a host is; ``None`` if it was not seen yet."""
        return _maple.known_network()[2].get(_maple.Mac(mac) if isinstance(mac, str) else mac)

    def send(self, frame: bytes, at: Place) -> None:
        """Sends a frame (:func:`maple.frame` makes them) out of an edge port. No rule and no policy sees it.

        ``RuntimeError`` where the switch is not there, or the port no edge port.
        """
        _maple.send_frame(frame, at)


def network() -> LiveNetwork:
    """The network as it is now, for threads beside the policy.

    In a policy use ``net.switches()``, ``net.links()`` and ``net.hosts()``: only they are dependencies.
    """
    return LiveNetwork()


class Function(NamedTuple):
    """A function, and what it hears."""

    call: Callback
    events: tuple[str, ...]
    packets: Mapping[str, object] | None
    timer: float | None
    stats: float | None


class _Turn(NamedTuple):
    """A function that is called periodically; with what switches have counted, if it has a memory."""

    period: float
    function: Function
    memory: Memory | None


_functions: list[Function] = []


def on(
    *events: str,
    packet_in: Mapping[str, object] | None = None,
    timer: float | None = None,
    stats: float | None = None,
) -> Callable[[Decorated], Decorated]:
    """Has a function called when something happens, beside the policy of the same file.

    ``@on("switch_up")``, ``@on("switch_down")``, ``@on("switch_unreachable")`` (its control connection has ended, and
    its links, hosts and rules stand) and ``@on("switch_reachable")`` call it with a datapath id and a
    :class:`LiveNetwork`, ``@on("port_status")`` with a :class:`PortEvent`, ``@on("violation")`` with a
    :class:`ViolationEvent`, ``@on(packet_in={"udp_dst": 67})`` with a :class:`PacketEvent`
    for each packet that enters the network and has these fields (as :meth:`Packet.matches` takes them; ``{}`` is
    every packet), ``@on(timer=10)`` with the network alone, every 10 seconds, ``@on(stats=10)`` with
    :class:`Counts`, every 10 seconds; 2 is the minimum. One function may hear several of those that it can take.

    The functions of a file run one after the other in a thread of their own. They may use tables, ask the network
    and send frames; rules are the policy's. Packets that are heard of come to the controller each.
    """
    for name in events:
        if name not in _NAMES:
            known = ", ".join(map(repr, _NAMES))
            raise ValueError(
                f"@on({name!r}): there is no such event; there are {known}, packet_in={{…}}, timer=seconds and "
                "stats=seconds"
            )
    if packet_in is not None and not isinstance(packet_in, Mapping):
        raise TypeError(f'@on(packet_in=…) takes fields, such as {{"udp_dst": 67}}, not {packet_in!r}')
    for name, period, least in (("timer", timer, 0.001), ("stats", stats, 2)):
        if period is not None and not least <= period <= 1e6:
            raise ValueError(f"@on({name}=…) is a number of seconds from {least} to 1000000, not {period!r}")
    if not events and packet_in is None and timer is None and stats is None:
        raise TypeError('@on(…) needs to know of what: "switch_up", packet_in={…}, timer=seconds, …')

    def decorate(function: Decorated) -> Decorated:
        hears = bool(events) or packet_in is not None or stats is not None
        _check(function, *((2,) if hears else ()), *((1,) if timer is not None else ()))
        _functions.append(Function(function, events, packet_in, timer, stats))
        return function

    return decorate


def _check(function: Callback, *counts: int) -> None:
    """Checks that the function can be called with this number of arguments."""
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise TypeError(f"@on needs a plain function, not {function!r}")
    signature = inspect.signature(function)
    for count in counts:
        try:
            signature.bind(*[None] * count)
        except TypeError:
            wanted = "(net)" if count == 1 else "(event, net)"
            name = getattr(function, "__name__", "the function")
            raise TypeError(f"@on calls {name}{wanted}; this one is {name}{signature}") from None


def forget() -> None:
    """Prepares for loading another file."""
    _functions.clear()


def set_aside() -> list[Function]:
    """Prepares for reloading: returns the functions, which :func:`take_back` gets if the new file is refused."""
    functions = list(_functions)
    _functions.clear()
    return functions


def take_back(functions: list[Function]) -> None:
    """The functions are these again."""
    _functions[:] = functions


def check_same_packets(functions: list[Function]) -> None:
    """Checks that the functions hear the same packets as these did: switches copy no others."""

    def heard(functions: list[Function]) -> list[dict[str, object]]:
        return [dict(function.packets) for function in functions if function.packets is not None]

    if _functions and not functions:
        raise RuntimeError(
            "it has functions with @on, and the policy that runs has none; that needs a new start of Maple"
        )
    if heard(_functions) != heard(functions):
        raise RuntimeError(
            f"its functions with @on hear the packets {heard(_functions)}, and those of the policy that runs "
            f"{heard(functions)}; that needs a new start of Maple"
        )


def replace_functions() -> None:
    """Makes the running listener call the functions as they are now."""
    if _run is not None:
        _run.functions_to_be = tuple(_functions)


def get_ready() -> list[dict[str, object]] | None:
    """The file was loaded, and its functions are those that :func:`start` begins to call, whatever is loaded beside it
    meanwhile. The packets that they want to hear of, the first function's first; ``None`` if there is no function."""
    global _run
    _run = _Run(tuple(_functions)) if _functions else None
    return [dict(function.packets) for function in _functions if function.packets is not None] if _functions else None


def start(listener: _maple.Listener) -> None:
    """Calls the functions from now on, until the controller stops."""
    assert _run is not None
    threading.Thread(target=_run.until_the_end, args=(listener,), name="maple-on", daemon=True).start()


_LOOK: Final = 1.0
"""The longest time until functions of a policy that was reloaded are called."""


class _Run:
    """The functions that are called."""

    def __init__(self, functions: tuple[Function, ...]) -> None:
        self.network = LiveNetwork()
        self.functions_to_be = functions

    def take(self, functions: tuple[Function, ...]) -> None:
        """Replaces the functions that are called."""
        self.functions = functions
        self.packets = [function for function in functions if function.packets is not None]
        turns = [turn for function in functions for turn in _turns(function)]
        now = time.monotonic()
        # The number stands before the turn, which has no order.
        self.due = [(now + turn.period, number, turn) for number, turn in enumerate(turns)]
        heapq.heapify(self.due)

    def until_the_end(self, listener: _maple.Listener) -> None:
        self.take(self.functions_to_be)
        while True:
            wait = self.due[0][0] - time.monotonic() if self.due else _LOOK
            name, *what = listener.next(min(max(wait, 0.0), _LOOK))
            if name == "end":
                return
            if (functions := self.functions_to_be) is not self.functions:
                self.take(functions)
            self.hear(name, what)
            self.wake()

    def hear(self, name: str, what: list[Any]) -> None:
        if name == "packet_in":
            by, packet = what
            for number, function in enumerate(self.packets):
                if by >> number & 1:
                    self.call(function, packet, self.network)
        elif name == "port_status":
            self.tell(name, PortEvent(*what))
        elif name == "violation":
            self.tell(name, ViolationEvent(*what))
        elif name in _NAMES:
            self.tell(name, what[0])

    def tell(self, name: str, event: object) -> None:
        for function in self.functions:
            if name in function.events:
                self.call(function, event, self.network)

    def wake(self) -> None:
        """Calls those whose time has come; one that was late is called once, not for each time that it missed."""
        now = time.monotonic()
        while self.due and self.due[0][0] <= now:
            at, number, turn = heapq.heappop(self.due)
            what = () if turn.memory is None else (Counts(turn.memory),)
            self.call(turn.function, *what, self.network)
            heapq.heappush(self.due, (max(at + turn.period, time.monotonic()), number, turn))

    def call(self, function: Function, *arguments: object) -> None:
        try:
            function.call(*arguments)
        except Exception as error:
            _maple.listener_failed("".join(_lines(error)).rstrip())


_run: _Run | None = None


def _turns(function: Function) -> Iterator[_Turn]:
    if function.timer is not None:
        yield _Turn(function.timer, function, None)
    if function.stats is not None:
        yield _Turn(function.stats, function, Memory())


def _lines(error: Exception) -> Iterator[str]:
    """The traceback, without what Maple does inside: nobody can mend that."""
    told = traceback.TracebackException.from_exception(error)
    told.stack = traceback.StackSummary.from_list([frame for frame in told.stack if not is_own(frame.filename)])
    return told.format()
