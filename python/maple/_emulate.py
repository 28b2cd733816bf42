"""Emulated networks in simulated time, from Python and in notebooks: ``net = maple.emulate("ring:4", policy)``."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Literal, TypeVar, overload

from maple import _draw, _html, _maple, _repr
from maple._explain import Explanation
from maple._policy import Policy, load

_Copy = tuple[list[tuple[str, int, int | None]], str | None, str | None, bytes]
_T = TypeVar("_T", "Host", "Switch")


def emulate(
    topology: str,
    policy: Policy | Callable[[_maple.Packet, _maple.Net], _maple.Route] | str,
    *,
    seed: int = 1,
    version: Literal["1.0", "1.3"] = "1.3",
    tables: int = 254,
    track_hosts: bool | None = None,
    time_limit: float = 1.0,
) -> EmulatedNetwork:
    """Puts a network of emulated switches and hosts under a policy, in simulated time.

    It returns when the controller knows the links. Time passes only in calls such as ``ping`` and ``run``; a simulated
    hour without traffic takes a moment. One topology, one policy, one seed and the same calls give the same answers.

    >>> net = maple.emulate("ring:4", policy)  # doctest: +SKIP
    >>> net.h1.ping(net.h2)  # doctest: +SKIP
    <h1 ping h2: answered in 4.23ms>

    :param topology: as for ``maple run --emulate``: ``ring:4``, ``linear:2,delay=5ms,loss=1%``, a file's name.
    :param policy: a policy, or the name of a Python file with one.
    :param seed: decides what links lose.
    :param version: the OpenFlow version of the switches.
    :param tables: how many tables each of them has in 1.3.
    :param track_hosts: whether the policy knows where hosts are; what the policy says if ``None``.
    :param time_limit: how long one run of the policy may take, in seconds of real time.

    Tables and variables keep what they hold, and the network has them until the next one is made.

    :raises ValueError: for a text that is not a topology, or a number of tables that no switch has.
    """
    if isinstance(policy, str):
        loaded = load(policy)
        if not isinstance(loaded, Policy):
            raise ValueError(f"{policy} has handlers, and emulate() takes policies")
        policy = loaded
    if track_hosts is None:
        track_hosts = bool(getattr(policy, "track_hosts", True))
    return EmulatedNetwork(
        _maple.Laboratory(topology, policy, version, seed, track_hosts, time_limit, tables=tables), topology
    )


class EmulatedNetwork:
    """An emulated network under a policy. Hosts and switches are attributes: ``net.h1``, ``net.s1``."""

    def __init__(self, laboratory: _maple.Laboratory, topology: str) -> None:
        self._laboratory = laboratory
        self._topology = topology
        #: The hosts, by place or by name: ``net.hosts[0]``, ``net.hosts["h1"]``.
        self.hosts = Named([Host(self, row[0]) for row in laboratory.hosts()])
        #: The switches, by place or by name.
        self.switches = Named([Switch(self, name, dpid) for name, dpid in laboratory.switches()])

    def __getattr__(self, name: str) -> Host | Switch:
        if name.startswith("_") or name in ("hosts", "switches"):
            raise AttributeError(name)
        if name in self.hosts:
            return self.hosts[name]
        if name in self.switches:
            return self.switches[name]
        raise AttributeError(f"the network has no {name}; it has {self.hosts} and {self.switches}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(host.name for host in self.hosts), *(switch.name for switch in self.switches)]

    def __getitem__(self, name: str) -> Host | Switch:
        """The host or switch of this name, where it can't be an attribute."""
        if name in self.hosts:
            return self.hosts[name]
        return self.switches[name]

    @property
    def now(self) -> float:
        """The simulated time, in seconds."""
        return self._laboratory.now()

    @property
    def links(self) -> list[Link]:
        """The links as they are now."""
        return [Link(self, *row) for row in self._laboratory.links()]

    @property
    def errors(self) -> list[tuple[str, int]]:
        """The failures of the policy, with traceback, and the violated constraints; and on how many packets each."""
        return self._laboratory.errors()

    def run(self, seconds: float) -> None:
        """Lets this much simulated time pass."""
        self._laboratory.run(seconds)

    def pingall(self) -> PingAll:
        """Has every host ping every other once; a thousand hosts at most."""
        return PingAll(*self._laboratory.ping_all())

    def explain(
        self,
        src: Host | str,
        dst: Host | str | None = None,
        *,
        at: tuple[Switch | str, int] | str | None = None,
        **fields: object,
    ) -> Explanation:
        """Why a packet goes where it goes: what the policy asks, which rules take it, what would have to be different.

        Nothing changes by asking, and no time passes. Fields have the names that policies use.

        >>> print(net.explain("h1", "h2", tcp_dst=80))  # doctest: +SKIP
        h1 (s1:1) → h2 (s2:1)  tcp 10.0.0.1:40000 > 10.0.0.2:80  dropped by acl.py:12

        :param src: who sends it: a host, its addresses, or a port such as ``"s1:1"``.
        :param dst: whom it is for.
        :param at: where it enters, ``(switch, port)`` or ``"s1:LOCAL"``; where its sender is if ``None``.
        :raises ValueError: if that means no packet: an unknown host or field, or a value that a field can't have.
        """
        question: dict[str, object] = {"from": _name(src)}
        if dst is not None:
            question["to"] = _name(dst)
        if at is not None:
            question["at"] = at if isinstance(at, str) else f"{_name(at[0])}:{at[1]}"
        question["fields"] = {name: str(value) for name, value in fields.items()}
        return Explanation(*self._laboratory.explain(json.dumps(question)))

    def link(self, a: Switch | str, b: Switch | str) -> Link:
        """The link between two switches, the first if there are several.

        :raises ValueError: if they are not linked.
        """
        ends = {_name(a), _name(b)}
        for link in self.links:
            if {link.a[0], link.b[0]} == ends:
                return link
        raise ValueError(f"{_name(a)} and {_name(b)} are not linked")

    def command(self, line: str) -> str:
        """Does a command of the console, such as ``"port s1 3 down"`` or ``"show links"``; its answer.

        :raises ValueError: if it is not a command, or names something that does not exist.
        :raises RuntimeError: if it fails, as a ping without an answer does.
        """
        return self._laboratory.command(line)

    @_repr.always
    def __repr__(self) -> str:
        return (
            f"<network {self._topology}: {len(self.switches)} switches, {len(self.hosts)} hosts, at {self.now:.3f} s>"
        )

    def _repr_svg_(self) -> str:
        return self._draw(repr(self), ())

    def _repr_html_(self) -> str:
        hosts = [(*row[:3], f"{row[4]}:{row[5]}") for row in self._laboratory.hosts()]
        links = [
            (f"{link.a[0]}:{link.a[1]}", f"{link.b[0]}:{link.b[1]}", "up" if link.is_up else "down", link._label())
            for link in self.links
        ]
        return _html.block(
            _html.heading(repr(self)),
            self._repr_svg_(),
            _html.table("switches", ["switch", "datapath id"], [(one.name, f"{one.dpid:x}") for one in self.switches]),
            _html.table("links", ["from", "to", "state", ""], links, [not link.is_up for link in self.links]),
            _html.table("hosts", ["host", "hardware address", "IPv4", "at"], hosts),
        )

    def _draw(self, title: str, route: Sequence[tuple[str, str]]) -> str:
        hosts = [(name, switch) for name, _, _, _, switch, _ in self._laboratory.hosts()]
        links = [(link.a[0], link.b[0], link.is_up, link._label()) for link in self.links]
        return _draw.network([switch.name for switch in self.switches], hosts, links, route, title)


class Named(Generic[_T]):
    """Hosts or switches, by place and by name."""

    def __init__(self, items: Sequence[_T]) -> None:
        self._items: list[_T] = list(items)
        self._by_name: dict[str, _T] = {item.name: item for item in items}

    @overload
    def __getitem__(self, key: int | str) -> _T: ...
    @overload
    def __getitem__(self, key: slice) -> list[_T]: ...
    def __getitem__(self, key: int | str | slice) -> _T | list[_T]:
        return self._by_name[key] if isinstance(key, str) else self._items[key]

    def __contains__(self, item: object) -> bool:
        return item in self._by_name or item in self._items

    def __iter__(self) -> Iterator[_T]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    @_repr.always
    def __repr__(self) -> str:
        names = [item.name for item in self._items]
        return ", ".join(names) if len(names) <= 8 else f"{names[0]} to {names[-1]}"


class Host:
    """A host of an emulated network."""

    def __init__(self, network: EmulatedNetwork, name: str) -> None:
        self._network = network
        #: Its name.
        self.name = name

    def _row(self) -> tuple[str, str, str, str, str, int]:
        return next(row for row in self._network._laboratory.hosts() if row[0] == self.name)

    @property
    def mac(self) -> _maple.Mac:
        """The hardware address of the host."""
        return _maple.Mac(self._row()[1])

    @property
    def ip(self) -> _maple.Ip:
        """The IPv4 address of the host."""
        return _maple.Ip(self._row()[2])

    @property
    def ipv6(self) -> _maple.Ip:
        """The IPv6 address of the host."""
        return _maple.Ip(self._row()[3])

    @property
    def at(self) -> tuple[str, int]:
        """The switch and the port where it is plugged in."""
        return self._row()[4:6]

    def ping(self, other: Host | str, count: int = 1) -> Ping:
        """Sends echo requests, a second apart, and waits for the answers.

        :raises ValueError: if there is no such host, or it is this one.
        """
        times, told, journey = self._network._laboratory.ping(self.name, _name(other), count)
        if None in times and (errors := self._network.errors):
            told += f" (the policy fails: {errors[-1][0].strip().splitlines()[-1]}; see net.errors)"
        return Ping(times, told, Journey(self._network, self.name, *journey) if journey else None)

    def iperf(self, other: Host | str, seconds: float = 5.0, rate: int = 10_000_000) -> Iperf:
        """Sends a stream of datagrams at a rate, in bits a second, and says what arrives.

        :raises ValueError: for a host that is not there, or more than a gigabit a second.
        :raises RuntimeError: if the address of the other host is not resolved.
        """
        return Iperf(*self._network._laboratory.iperf(self.name, _name(other), seconds, rate))

    def send(self, frame: bytes) -> Journey:
        """Sends a frame (see ``maple.testing.frame``), waits a second, and says what became of it."""
        return Journey(self._network, self.name, *self._network._laboratory.send(self.name, frame))

    def move(self, switch: Switch | str, port: int | None = None) -> None:
        """Plugs it into another switch, at its first free port where none is given; the host announces itself."""
        number = "" if port is None else f" {port}"
        self._network.command(f"{self.name} move {_name(switch)}{number}")

    @_repr.always
    def __repr__(self) -> str:
        _, mac, ipv4, _, switch, port = self._row()
        return f"<host {self.name}: {ipv4}, {mac}, at {switch}:{port}>"


class Switch:
    """A switch of an emulated network."""

    def __init__(self, network: EmulatedNetwork, name: str, dpid: int) -> None:
        self._network = network
        #: Its name.
        self.name = name
        #: Its datapath id.
        self.dpid = dpid

    @property
    def rules(self) -> list[str]:
        """The rules of the switch, a line each, by table and falling priority."""
        told = self._network.command(f"show rules {self.name}")
        return [] if told == "none" else told.splitlines()

    @property
    def tree(self) -> TraceTree:
        """The questions of the policy about packets that came in here, and which of them it treats alike."""
        return TraceTree(self.name, self._network._laboratory.tree(self.name))

    def restart(self) -> None:
        """Loses its rules and its connection, and connects again."""
        self._network.command(f"switch {self.name} restart")

    def port(self, port: int, *, up: bool) -> None:
        """Takes a port up or down."""
        self._network.command(f"port {self.name} {port} {'up' if up else 'down'}")

    @_repr.always
    def __repr__(self) -> str:
        return f"<switch {self.name}: {len(self.rules)} rules>"


class Link:
    """A link between two switches, as it was when it was asked for. Changes concern all links between the two."""

    def __init__(
        self,
        network: EmulatedNetwork,
        a: tuple[str, int],
        b: tuple[str, int],
        is_up: bool,
        delay: float,
        loss: float,
        rate: int | None,
    ) -> None:
        self._network = network
        #: One end: switch and port.
        self.a = a
        #: The other end.
        self.b = b
        #: Whether it carries frames.
        self.is_up = is_up
        #: How long frames take, in seconds.
        self.delay = delay
        #: The share of frames that it loses, 0 to 1.
        self.loss = loss
        #: What it carries in each direction, in bits a second; no bound if ``None``.
        self.rate = rate

    def down(self) -> None:
        """Takes it down."""
        self._change("down")
        self.is_up = False

    def up(self) -> None:
        """Takes it up."""
        self._change("up")
        self.is_up = True

    def set(self, *, delay: float | None = None, loss: float | None = None, rate: int | None = None) -> None:
        """Changes its delay in seconds, the share of frames that it loses, its rate in bits a second.

        What is not given stays.
        """
        if delay is not None:
            self._change(f"delay {delay:.9f}s")
            self.delay = delay
        if loss is not None:
            self._change(f"loss {100 * loss:.6f}%")
            self.loss = loss
        if rate is not None:
            self._change(f"rate {rate}bit")
            self.rate = rate

    def _change(self, change: str) -> None:
        self._network.command(f"link {self.a[0]} {self.b[0]} {change}")

    def _label(self) -> str:
        delay = f"{1000 * self.delay:g}ms" if self.delay >= 0.001 else ""
        loss = f"{100 * self.loss:g}%" if self.loss else ""
        rate = f"{self.rate / 1e6:g}mbit" if self.rate else ""
        return " ".join(part for part in (delay, loss, rate) if part)

    @_repr.always
    def __repr__(self) -> str:
        ends = f"{self.a[0]}:{self.a[1]} - {self.b[0]}:{self.b[1]}"
        return f"<link {ends} {'up' if self.is_up else 'down'}{' ' * bool(self._label())}{self._label()}>"


class Ping:
    """The outcome of pings. It is true if all were answered."""

    def __init__(self, times: list[float | None], told: str, journey: Journey | None) -> None:
        #: How long each answer took, in seconds; ``None`` where none came.
        self.times = times
        #: What became of the last request; ``None`` if none was sent.
        self.route = journey
        self._told = told

    @property
    def sent(self) -> int:
        """The number of requests."""
        return len(self.times)

    @property
    def received(self) -> int:
        """The number of answers."""
        return sum(time is not None for time in self.times)

    def __bool__(self) -> bool:
        return self.received == self.sent

    @_repr.always
    def __repr__(self) -> str:
        return f"<{self._told}>"


class PingAll:
    """The outcome of every host's ping to every other. It is true if all were answered."""

    def __init__(self, sent: int, failed: list[tuple[str, str]]) -> None:
        #: How many requests there were.
        self.sent = sent
        #: The pairs without an answer: who asked, whom.
        self.failed = failed

    @property
    def received(self) -> int:
        """The number of answers."""
        return self.sent - len(self.failed)

    def __bool__(self) -> bool:
        return not self.failed

    @_repr.always
    def __repr__(self) -> str:
        some = ", ".join(f"{a} to {b}" for a, b in self.failed[:10])
        none = f"; none from {some}{' …' * (len(self.failed) > 10)}" if self.failed else ""
        return f"<pingall: {self.received} of {self.sent} answered{none}>"


class Iperf:
    """The outcome of a stream of datagrams."""

    def __init__(self, rate: int, sent: int, lost: int, told: str) -> None:
        #: What arrived, in bits a second.
        self.rate = rate
        #: Frames sent.
        self.sent = sent
        #: Frames that did not arrive.
        self.lost = lost
        self._told = told

    @_repr.always
    def __repr__(self) -> str:
        return f"<{self._told}>"


class Copy:
    """One copy of a frame: where it went."""

    def __init__(
        self, hops: list[tuple[str, int, int | None]], host: str | None, why: str | None, frame: bytes
    ) -> None:
        #: The switches that it went through: name, the port that it came in by, the port that it left by. After a
        #: way through the controller a switch stands twice.
        self.hops = hops
        #: The host that got it; ``None`` if none did.
        self.host = host
        #: Why no host got it.
        self.why = why
        #: Its bytes at the end.
        self.frame = frame

    @property
    def via(self) -> list[str]:
        """The switches that it went through, each once in a row."""
        way: list[str] = []
        for switch, _, _ in self.hops:
            if not way or way[-1] != switch:
                way.append(switch)
        return way

    @_repr.always
    def __repr__(self) -> str:
        return f"<copy {' '.join(self.via)}: {self.host or self.why}>"


class Journey:
    """The journey of one frame, copy by copy. Drawn on the network in a notebook."""

    def __init__(self, network: EmulatedNetwork, host: str, frame: bytes, copies: list[_Copy]) -> None:
        self._network = network
        self._host = host
        #: The frame, as it was sent.
        self.frame = frame
        #: Its copies.
        self.copies = [Copy(*copy) for copy in copies]

    @property
    def hosts(self) -> list[str]:
        """Who got it."""
        return [copy.host for copy in self.copies if copy.host is not None]

    @_repr.always
    def __repr__(self) -> str:
        if not self.copies:
            return f"<route {self._host}: nothing became of it yet>"
        ways = [" ".join([self._host, *copy.via, copy.host or f"({copy.why})"]) for copy in self.copies[:4]]
        more = f"; {len(self.copies) - 4} more" if len(self.copies) > 4 else ""
        return f"<route {'; '.join(ways)}{more}>"

    def _repr_svg_(self) -> str:
        edges: dict[tuple[str, str], None] = {}
        for copy in self.copies:
            way = [self._host, *copy.via, *([copy.host] if copy.host else [])]
            edges.update(dict.fromkeys(itertools.pairwise(way)))
        return self._network._draw(repr(self), list(edges))


class TraceTree:
    """The questions of a policy about packets that enter at a switch: tests (T), fields (V), leaves (L)."""

    def __init__(self, switch: str, text: str) -> None:
        self._switch = switch
        #: The tree as indented text, a node a line; ``Ω`` is a side that no packet took.
        self.text = text

    def __str__(self) -> str:
        return self.text

    @_repr.always
    def __repr__(self) -> str:
        nodes = len(self.text.splitlines())
        return f"<trace tree of {self._switch}: {nodes} {'node' if nodes == 1 else 'nodes'}>"

    def _repr_svg_(self) -> str:
        return _draw.tree(self.text, repr(self))


def _name(thing: Host | Switch | str) -> str:
    return thing if isinstance(thing, str) else thing.name
