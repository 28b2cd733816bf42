"""Assertions about all packets: the policy's tests and reads are explored, and a counterexample is printed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maple import _emulate, _maple, _repr
from maple.testing import _load
from maple.testing._explain import short
from maple.testing._packets import check_fields

if TYPE_CHECKING:
    from maple.testing._load import Loaded, Wanted
    from maple.testing._names import AnyHost, Names, Place

# How many packets are tried, where nothing else is said.
PACKETS = 5_000

REPORTS: list[str] = []
"""The findings of explorations, for the summary of a test session."""
# The reports that are kept.
MAX_REPORTS = 1_000


class Explored:
    """The findings of an exploration about a claim that no packet contradicts."""

    def __init__(self, claim: str, packets: int, kinds: int, open_: str | None) -> None:
        #: What was claimed.
        self.claim = claim
        #: How many packets were tried.
        self.packets = packets
        #: How many kinds of packets the policy tells apart among them.
        self.kinds = kinds
        #: Why this is not a proof; ``None`` if it is one.
        self.open = open_

    @property
    def proved(self) -> bool:
        """Whether it holds for all packets, in the network and the state as they were."""
        return self.open is None

    def __str__(self) -> str:
        if self.proved:
            return f"{self.claim}: proved for all packets"
        tried = f"no packet of {self.packets}, of {self.kinds} kinds, contradicts it"
        return f"{self.claim}: {tried}, which is not a proof: {self.open}"

    @_repr.always
    def __repr__(self) -> str:
        return f"<explored {self}>"


class Exploring(_emulate.EmulatedNetwork):
    """The words about all packets.

    Each explores what the policy tests and reads, each test both ways, each read over the values that tables, hosts and
    tests name. Nothing is sent, and no time passes. If the exploration is complete, the claim is proved for all
    packets, in the network and the state as they are. ``proof=True`` fails where it is not.
    """

    _names: Names
    _loaded: Loaded
    _folder: Path
    _time_limit: float

    def assert_isolated(
        self,
        hosts: AnyHost | Iterable[AnyHost],
        others: AnyHost | Iterable[AnyHost],
        *,
        both_ways: bool = True,
        packets: int = PACKETS,
        proof: bool = False,
        **fields: Any,
    ) -> Explored:
        """No packet of ``hosts`` comes to ``others``, and with ``both_ways`` none comes back.

        A packet of a host enters at its port with its hardware address; all other fields may be anything.

        :param fields: only packets with these fields.
        """
        __tracebackhide__ = True
        one, other = self._names.each(hosts), self._names.each(others)
        check_fields(fields, "assert_isolated()")
        found = self._examine(f"{_list(one)} isolated from {_list(other)}", "never", one, other, fields, packets)
        if not both_ways:
            return self._report(found, proof)
        back = self._examine(f"{_list(other)} isolated from {_list(one)}", "never", other, one, fields, packets)
        both = Explored(
            f"{_list(one)} and {_list(other)} isolated",
            found.packets + back.packets,
            found.kinds + back.kinds,
            found.open or back.open,
        )
        return self._report(both, proof)

    def assert_reachable(
        self,
        hosts: AnyHost | Iterable[AnyHost],
        others: AnyHost | Iterable[AnyHost],
        *,
        packets: int = PACKETS,
        proof: bool = False,
        **fields: Any,
    ) -> Explored:
        """All packets of each of ``hosts`` to each of ``others`` arrive, as far as they have the hosts' own addresses.

        :param fields: only packets with these fields.
        """
        __tracebackhide__ = True
        one, other = self._names.each(hosts), self._names.each(others)
        check_fields(fields, "assert_reachable()")
        claim = f"{_list(other)} reachable from {_list(one)}"
        return self._report(self._examine(claim, "arrives", one, other, fields, packets), proof)

    def assert_no_loops(self, *, packets: int = PACKETS, proof: bool = False, **fields: Any) -> Explored:
        """No route passes a switch twice.

        :param fields: only packets with these fields.
        """
        __tracebackhide__ = True
        check_fields(fields, "assert_no_loops()")
        everyone = list(self._names.hosts.values())
        return self._report(self._examine("no loops", "no_loops", everyone, [], fields, packets), proof)

    def assert_same_as(
        self,
        policy: Wanted,
        *,
        except_: Mapping[str, Any] | Iterable[Mapping[str, Any]] = (),
        packets: int = PACKETS,
        proof: bool = False,
        **fields: Any,
    ) -> Explored:
        """Another policy gives the same routes to all packets, in the state as it is.

        :param except_: fields of packets that may be treated otherwise: a dictionary, or several.
        :param fields: only packets with these fields.
        """
        __tracebackhide__ = True
        other = _load.fresh(policy, self._folder)
        exceptions = [except_] if isinstance(except_, Mapping) else list(except_)
        for exception in exceptions:
            check_fields(exception, "assert_same_as(except_=…)")
        check_fields(fields, "assert_same_as()")
        shown = policy if isinstance(policy, str) else repr(other.policy)
        everyone = list(self._names.hosts.values())
        claim = f"the same as {shown}"
        found = self._examine(claim, "same_as", everyone, [], fields, packets, exceptions, other)
        return self._report(found, proof)

    def _examine(
        self,
        claim: str,
        kind: str,
        senders: list[Place],
        receivers: list[Place],
        fields: Mapping[str, Any],
        packets: int,
        exceptions: Iterable[Mapping[str, Any]] = (),
        other: Loaded | None = None,
    ) -> Explored:
        __tracebackhide__ = True
        try:
            counterexample, tried, kinds, open_ = _maple.examine(
                self._laboratory,
                kind,
                [str(place.name) for place in senders],
                [str(place.name) for place in receivers],
                dict(fields),
                [dict(exception) for exception in exceptions],
                packets,
                None if other is None else (other.policy, other.place),
                self._time_limit,
            )
        except RuntimeError as error:
            raise AssertionError(f"{claim}: {error}") from None
        if counterexample is None:
            return Explored(claim, tried, kinds, open_)
        raise AssertionError(f"not {claim}\n" + self._contradiction(counterexample, other))

    def _contradiction(self, counterexample: _maple._Counterexample, other: Loaded | None) -> str:
        frame, switch, port, why, lines, others = counterexample
        sender = next((place.name for place in self._names.hosts.values() if self._is_at(place, switch, port)), None)
        told = [f"packet  {_maple.summary(frame)}, at port {port} of {switch}" + (f" ({sender})" if sender else "")]
        told.append(f"{'':<6}  {self._named(why)}")
        told += [f"{'policy' if at == 0 else '':<6}  {line}" for at, line in enumerate(lines)]
        if other is not None:
            told += [f"{'other' if at == 0 else '':<6}  {line}" for at, line in enumerate(others)]
        return "\n".join("    " + short(line) for line in told)

    def _named(self, text: str) -> str:
        """A text with the names of hosts in the place of their ports."""
        for place in self._names.hosts.values():
            text = re.sub(rf"\b{place.dpid:016x}:{place.port}\b", f"the port of {place.name}", text)
        return text

    def _is_at(self, place: Place, switch: str, port: int) -> bool:
        return place.port == port and self._names.switch(place.dpid) == switch

    def _report(self, explored: Explored, proof: bool) -> Explored:
        __tracebackhide__ = True
        if proof and not explored.proved:
            raise AssertionError(str(explored))
        if len(REPORTS) < MAX_REPORTS:
            REPORTS.append(str(explored))
        return explored


def _list(places: list[Place]) -> str:
    names = [str(place.name) for place in places]
    return ", ".join(names) if len(names) <= 4 else f"{names[0]} to {names[-1]}"
