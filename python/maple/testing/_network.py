"""An emulated network under a policy, with words to test it."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from maple import _emulate, _maple, _repr
from maple._emulate import Journey
from maple.testing import _coverage, _explain, _rules
from maple.testing._explore import Exploring
from maple.testing._load import Loaded, Wanted, fresh
from maple.testing._names import AnyHost, AnySwitch, Names, Place
from maple.testing._packets import check_fields, frame_of
from maple.testing._received import Received, differences, of_policy
from maple.testing._state import State, Watch

Topology = str | Path | Mapping[str, Any]
"""A shape such as ``ring:4``, the name of a JSON file, or what such a file says."""

# How long the network takes to follow a change: discovery tells links from hosts in this time.
FOLLOWED = 3.0


CLOSED = "the network is closed: its test is over"


class _Closed:
    """A stand-in for a network that has ended."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(CLOSED)


class OnlySimulated(Exception):
    """A word that has a meaning in simulated time only, in a test on Open vSwitch."""


class Network(Exploring, _emulate.EmulatedNetwork):
    """An emulated network under a policy: no root, no sockets, simulated time.

    Under pytest the fixture ``network`` makes one, and closes it at the end of the test.

    :param topology: as for :func:`maple.emulate`, or a dictionary with what a topology's file says.
    :param policy: the name of a Python file, also as ``FILE:NAME``, a policy, or a function of ``(pkt, net)``.
    :param folder: what file names are relative to; the working directory if ``None``.
    :param known_hosts: whether all hosts announce themselves first, so that the controller knows where they are.

    A policy's file is loaded afresh, with empty tables, and so are the files beside it that it imports.

    >>> with Network("ring:4", "secure_routing.py") as net:  # doctest: +SKIP
    ...     net.assert_delivered("h1", "h2", tcp_dst=22, via=[1, 4, 3, 2])
    """

    def __init__(
        self,
        topology: Topology,
        policy: Wanted,
        *,
        folder: str | os.PathLike[str] | None = None,
        seed: int = 1,
        version: Literal["1.0", "1.3"] = "1.3",
        track_hosts: bool | None = None,
        time_limit: float = 1.0,
        known_hosts: bool = True,
    ) -> None:
        self._folder = Path(folder) if folder is not None else Path.cwd()
        self._before = _maple.Place.current()
        self._is_closed = False
        self._loaded: Loaded = fresh(policy, self._folder)
        if track_hosts is None:
            track_hosts = self._loaded.policy.track_hosts
        shown = str(topology) if isinstance(topology, (str, Path)) else "of a dictionary"
        with _described(topology, self._folder) as text:
            laboratory = _maple.Laboratory(
                text, self._loaded.policy, version, seed, track_hosts, time_limit, self._loaded.place
            )
        super().__init__(laboratory, shown)
        self._time_limit = time_limit
        self._names = Names(laboratory)
        # Until when a host's frames were asked for, in nanoseconds.
        self._seen: dict[str, int] = {}
        _coverage.begin(self._loaded)
        #: The policy's tables and variables, by name.
        self.state = State(self._loaded.place)
        if known_hosts:
            _maple.introduce_hosts(laboratory)
            # What they announced is nothing that a test sent.
            for host in list(self._names.hosts)[:1]:
                self._seen = dict.fromkeys(self._names.hosts, _maple.received(laboratory, host, 0)[1])

    def __enter__(self) -> Network:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the network. Tables live again where they did before it was made."""
        if not self._is_closed:
            self._is_closed = True
            _coverage.end(self._laboratory)
            self._loaded.end()
            self._before.use()
            # The last references: its thread ends here, also where a failed test keeps the network.
            self._laboratory = self._names.laboratory = _Closed()  # type: ignore[assignment]

    @_repr.always
    def __repr__(self) -> str:
        return f"<network {self._topology}, closed>" if self._is_closed else super().__repr__()

    @property
    def failures(self) -> list[str]:
        """The failures of the policy so far, with traceback."""
        return [text for text, _ in self._laboratory.errors() if ": violates " not in text]

    # What arrives, and what does not.

    def send(
        self,
        src: AnyHost,
        dst: AnyHost | None = None,
        *,
        payload: bytes | None = None,
        frame: bytes | None = None,
        **fields: Any,
    ) -> Journey:
        """Sends a packet with these fields, and says what became of it.

        A field that is not given is as usual: addresses are those of the two hosts, TCP goes from port 40000 to 80, UDP
        to 53, and without a field of these the packet is an ICMP echo request.

        :param dst: the receiver; everyone if ``None``.
        :param frame: the bytes to send in place of all this.
        :raises TypeError: for a name that is not a field.
        :raises ValueError: for a host that is not there, or a value that a field can't have.
        """
        sender, bytes_ = self._packet("send()", src, dst, fields, payload, frame)
        return self._deliver(sender, bytes_)

    def assert_delivered(
        self,
        src: AnyHost,
        dst: AnyHost | Iterable[AnyHost],
        *,
        via: Iterable[AnySwitch] | None = None,
        arrives: Mapping[str, Any] | None = None,
        count: int = 1,
        only: bool = False,
        payload: bytes | None = None,
        frame: bytes | None = None,
        **fields: Any,
    ) -> Journey:
        """Sends a packet (see :meth:`send`), which must come to ``dst``: one host, or each of several.

        :param via: the switches that it passes, in order.
        :param arrives: fields that it has when it arrives, ``None`` for one that it has not.
        :param count: how many copies each receiver gets.
        :param only: whether nobody else gets a copy.
        """
        __tracebackhide__ = True
        receivers = self._names.each(dst)
        sender, bytes_ = self._packet("assert_delivered()", src, receivers[0].name, fields, payload, frame)
        way = None if via is None else [self._names.switch(switch) for switch in via]
        check_fields(arrives or (), "assert_delivered(arrives=…)")
        journey = self._deliver(sender, bytes_)
        wrong = []
        for receiver in receivers:
            wrong += _wrong_at(receiver, journey, count, way, arrives or {})
        others = set(journey.hosts) - {receiver.name for receiver in receivers}
        if only and others:
            wrong.append(f"{', '.join(sorted(others))} got a copy too")
        if wrong:
            self._fail(sender, bytes_, journey, wrong)
        return journey

    def assert_dropped(
        self,
        src: AnyHost,
        dst: AnyHost | None = None,
        *,
        line: str | int | None = None,
        payload: bytes | None = None,
        frame: bytes | None = None,
        **fields: Any,
    ) -> Journey:
        """Sends a packet (see :meth:`send`), which nobody must get.

        :param line: where the policy decides so: ``"acl.py:12"``, the number alone, or a part of the line's text.

        That the policy fails is not a decision: it is an error here, though the packet is dropped then too.
        """
        __tracebackhide__ = True
        sender, bytes_ = self._packet("assert_dropped()", src, dst, fields, payload, frame)
        decision = _explain.Decision(self, sender, bytes_)
        journey = self._deliver(sender, bytes_, comes=False)
        wrong = []
        if journey.hosts:
            wrong.append(f"{', '.join(sorted(set(journey.hosts)))} got it, and nobody should")
        elif decision.error is not None:
            wrong.append("it was dropped because the policy fails")
        elif line is not None and not decision.is_by(line):
            file, number = decision.place or ("nowhere", 0)
            text = _explain.source_line(file, number)
            wrong.append(f"it was dropped by {_explain.short(file)}:{number} ({text}), and not by {line}")
        if wrong:
            self._fail(sender, bytes_, journey, wrong)
        return journey

    def assert_not_delivered(
        self,
        src: AnyHost,
        dst: AnyHost | Iterable[AnyHost],
        *,
        payload: bytes | None = None,
        frame: bytes | None = None,
        **fields: Any,
    ) -> Journey:
        """Sends a packet (see :meth:`send`), which must not come to ``dst``, whoever else gets it."""
        __tracebackhide__ = True
        receivers = self._names.each(dst)
        sender, bytes_ = self._packet("assert_not_delivered()", src, receivers[0].name, fields, payload, frame)
        journey = self._deliver(sender, bytes_, comes=False)
        got = [str(receiver.name) for receiver in receivers if receiver.name in journey.hosts]
        if got:
            self._fail(sender, bytes_, journey, [f"{', '.join(got)} got it, and should not"])
        return journey

    def ping(self, src: AnyHost, dst: AnyHost, count: int = 1) -> _emulate.Ping:
        """Sends echo requests, a second apart, and waits for the answers; true if all came."""
        return self.hosts[str(self._names.host(src).name)].ping(str(self._names.host(dst).name), count)

    def open(
        self,
        src: AnyHost,
        dst: AnyHost,
        *,
        tcp_dst: int | None = None,
        udp_dst: int | None = None,
        ipv6: bool = False,
    ) -> Opened:
        """Opens a TCP connection, or sends a UDP datagram, and waits for the answer; true if it came.

        :raises TypeError: unless one of the two ports is given.
        """
        if (tcp_dst is None) == (udp_dst is None):
            raise TypeError("open() needs one port: tcp_dst=80, or udp_dst=53")
        kind, port = ("tcp", tcp_dst) if tcp_dst is not None else ("udp", udp_dst)
        names = str(self._names.host(src).name), str(self._names.host(dst).name)
        why = _maple.open_flow(self._laboratory, *names, kind, int(port or 0), ipv6)
        return Opened(f"{names[0]} {kind} {names[1]}:{port}", why)

    def received(self, host: AnyHost) -> list[Received]:
        """The frames that a host got since the last call, or since the hosts had announced themselves.

        Without what the controller sends by itself: discovery's probes, and its questions to hosts.
        """
        name = str(self._names.host(host).name)
        frames, now = _maple.received(self._laboratory, name, self._seen.get(name, 0))
        self._seen[name] = now
        return of_policy(frames)

    # What happens to the network.

    def link_down(self, a: AnySwitch, b: AnySwitch) -> None:
        """Takes the links between two switches down, and lets the network follow."""
        self._happens(f"link {self._names.switch(a)} {self._names.switch(b)} down")

    def link_up(self, a: AnySwitch, b: AnySwitch) -> None:
        """Takes the links between two switches up, and lets the network follow."""
        self._happens(f"link {self._names.switch(a)} {self._names.switch(b)} up")

    def port_down(self, switch: AnySwitch, port: int | None = None) -> None:
        """Takes a port down, as its switch's operator would: ``port_down("s1", 2)`` or ``port_down("s1:2")``."""
        name, number = self._names.port(switch, port)
        self._happens(f"port {name} {number} down")

    def port_up(self, switch: AnySwitch, port: int | None = None) -> None:
        """Takes a port up."""
        name, number = self._names.port(switch, port)
        self._happens(f"port {name} {number} up")

    def switch_down(self, switch: AnySwitch) -> None:
        """Takes a switch down, with its links, its hosts' ports and its connection to the controller."""
        _maple.switch_power(self._laboratory, self._names.switch(switch), False)
        self.advance(FOLLOWED)

    def switch_up(self, switch: AnySwitch) -> None:
        """Takes a switch up, without the rules that it had."""
        _maple.switch_power(self._laboratory, self._names.switch(switch), True)
        self.advance(FOLLOWED)

    def move(self, host: AnyHost, switch: AnySwitch, port: int | None = None) -> None:
        """Plugs a host into another switch, at its first free port where none is given; it announces itself."""
        place = "" if port is None else f" {port}"
        self._happens(f"{self._names.host(host).name} move {self._names.switch(switch)}{place}")

    def advance(self, seconds: float) -> None:
        """Lets this much simulated time pass."""
        self.run(seconds)

    def _happens(self, command: str) -> None:
        self.command(command)
        self._names.forget()
        self.advance(FOLLOWED)

    # State and rules.

    def watch(self, table: str | _maple.Table[Any, Any]) -> Watch:
        """The changes of a table from now on."""
        return Watch(self.state, table if isinstance(table, str) else table.name)

    def rules(self, switch: AnySwitch, table: int | None = None) -> list[str]:
        """The rules of a switch, or of one table, as ``maple show rules`` prints them, without cookies."""
        return _rules.of(self.switches[self._names.switch(switch)].rules, table)

    def assert_rules(self, switch: AnySwitch, text: str, table: int | None = None) -> None:
        """The rules of a switch must be those of ``text``, a line each; a failure prints the difference."""
        __tracebackhide__ = True
        wrong = _rules.difference(text, self.rules(switch, table))
        if wrong:
            raise AssertionError(f"the rules of {self._names.switch(switch)} differ (- wanted, + there):\n{wrong}")

    # How it is done.

    def _packet(
        self,
        word: str,
        src: AnyHost,
        dst: AnyHost | None,
        fields: Mapping[str, Any],
        payload: bytes | None,
        frame: bytes | None,
    ) -> tuple[Place, bytes]:
        if self._is_closed:
            raise RuntimeError(CLOSED)
        sender = self._names.host(src)
        receiver = None if dst is None else self._names.receiver(dst)
        if frame is not None:
            if fields or payload is not None:
                raise TypeError(f"{word}: a frame is sent as it is, so it takes no fields and no payload")
            return sender, frame
        check_fields(fields, word)
        return sender, frame_of(sender, receiver, fields, payload)

    def _deliver(self, sender: Place, frame: bytes, *, comes: bool = True) -> Journey:
        """Sends a frame. ``comes`` says whether copies are expected, which matters only where waiting takes time."""
        if _coverage.is_wanted():
            # What a rule answers is decided once more, so that it counts.
            _maple.observe(self._laboratory, sender.dpid, sender.port, frame)
        name = str(sender.name)
        return Journey(self, name, *_maple.deliver(self._laboratory, name, frame))

    def _fail(self, sender: Place, frame: bytes, journey: Journey, wrong: list[str]) -> None:
        __tracebackhide__ = True
        told = _explain.explained(self, sender, frame, journey)
        raise AssertionError("; ".join(wrong) + "\n" + told)


class Opened:
    """The outcome of a connection or a datagram. It is true if the answer came."""

    def __init__(self, what: str, why: str | None) -> None:
        self._what = what
        #: Why none came; ``None`` if one did.
        self.why = why

    def __bool__(self) -> bool:
        return self.why is None

    @_repr.always
    def __repr__(self) -> str:
        return f"<{self._what}: {self.why or 'answered'}>"


def _wrong_at(
    receiver: Place, journey: Journey, count: int, way: list[str] | None, arrives: Mapping[str, Any]
) -> list[str]:
    copies = [copy for copy in journey.copies if copy.host == receiver.name]
    if len(copies) != count:
        times = {0: "did not get it", 1: "got it once"}.get(len(copies), f"got it {len(copies)} times")
        return [f"{receiver.name} {times}" + (f", and should get it {count} times" if count != 1 or copies else "")]
    wrong = []
    for copy in copies:
        if way is not None and copy.via != way:
            wrong.append(f"it came to {receiver.name} via {' '.join(copy.via)}, and not via {' '.join(way)}")
        wrong += [f"at {receiver.name} {told}" for told in differences(copy.frame, arrives)]
    return wrong


class _described:
    """A topology as the text that names it; one in a dictionary is in a file for that time."""

    def __init__(self, topology: Topology, folder: Path) -> None:
        self._topology = topology
        self._folder = folder
        self._file: str | None = None

    def __enter__(self) -> str:
        if isinstance(self._topology, (str, Path)):
            text = str(self._topology)
            return str(self._folder / text) if text.endswith(".json") else text
        descriptor, self._file = tempfile.mkstemp(prefix="topology-", suffix=".json")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(dict(self._topology), file)
        return self._file

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            os.unlink(self._file)
