"""Protocols, ports and ICMP types of an Aerleon term as services of Maple's form.

Aerleon matches every protocol of a term with every port of it. A service keeps its name in the result where it means
just that; otherwise the ports are written out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from maple.importers import _aerleon_source as source
from maple.importers._aerleon_source import Ports
from maple.importers._document import InputError, Place

NAMED: Final = {1: "icmp", 6: "tcp", 17: "udp", 58: "icmpv6", 132: "sctp"}
WITH_PORTS: Final = ("tcp", "udp", "sctp")
# Numbers of IPv6 extension headers: a switch matches what comes after them.
EXTENSIONS: Final = {0, 43, 44, 60}
# In place of services: the term can match no packet.
NONE: Final[list[str]] = []


class Services:
    """The services of one document. `used` are those that have a name."""

    def __init__(self, naming: Any) -> None:
        self._naming = naming
        self._numbers: dict[str, int] = source.module("aclgenerator").Term.PROTO_MAP
        self.used: dict[str, Any] = {}

    def problems(self, term: source.Term) -> Iterator[str]:
        """The protocols of the term that Maple cannot match."""
        numbers = {name: self._number(term, name) for name in [*term.parsed.protocol, *term.parsed.protocol_except]}
        for name, number in numbers.items():
            if number in EXTENSIONS or number < 0:
                yield f"{name}: switches match the protocol after extension headers"
            elif self._has_ports(term) and NAMED.get(number) not in WITH_PORTS:
                yield f"{name}: only tcp, udp and sctp have ports in Maple's lists"

    def of(self, term: source.Term) -> Iterator[tuple[list[str] | None, list[int | str] | None, set[int]]]:
        """Services, source ports and IP versions of each rule of the term; none for any."""
        parsed = term.parsed
        if any(self.problems(term)):
            yield None, None, {4, 6}  # of a term that denies; it denies more
            return
        protocols = self._protocols(term)
        if parsed.icmp_type:
            yield self._icmp(term, protocols), None, {4} if protocols == ["icmp"] else {6}
        elif not self._has_ports(term):
            yield (self._without_ports(term, protocols), None, _families(protocols))
        else:
            yield from self._with_ports(term, protocols)

    def _without_ports(self, term: source.Term, protocols: list[str]) -> list[str] | None:
        if not term.parsed.protocol_except:
            return protocols or None
        if not term.parsed.protocol:
            name = "not-" + "-".join(term.parsed.protocol_except)
            self.used[name] = protocols
            return [name]
        return protocols or NONE

    def _with_ports(
        self, term: source.Term, protocols: list[str]
    ) -> Iterator[tuple[list[str] | None, list[int | str] | None, set[int]]]:
        parsed, names = term.parsed, term.service_names
        if not parsed.port:
            yield (
                self._named(protocols, names["destination_port"], parsed.destination_port),
                _written(parsed.source_port),
                {4, 6},
            )
            return
        both = _common(parsed.port, parsed.destination_port)
        if both:
            own = names["port"] if not parsed.destination_port else []
            yield self._named(protocols, own, both), _written(parsed.source_port), {4, 6}
        back = _common(parsed.port, parsed.source_port)
        if back:
            yield self._named(protocols, names["destination_port"], parsed.destination_port), _written(back), {4, 6}

    def _named(self, protocols: list[str], names: list[str], ports: Ports) -> list[str]:
        """The services by their names, if these mean every protocol with every port; otherwise written out."""
        if not ports:
            return protocols
        wanted = _merged(ports)
        meant = {p: [_range(text) for name in names for text in self._ports(name, p)] for p in protocols}
        if not names or set(names) & {*NAMED.values()} or any(_merged(ranges) != wanted for ranges in meant.values()):
            return [f"{protocol}/{text}" for protocol in protocols for text in _texts(wanted)]
        found = []
        for name in dict.fromkeys(names):
            own = {item.split("/")[1].lower() for item in self._naming.GetService(name)}
            key = name if own <= set(protocols) else "-".join([name, *protocols])
            items = [f"{p}/{text}" for p in protocols for text in _texts(_merged(map(_range, self._ports(name, p))))]
            if items:
                self.used[key] = items
                found.append(key)
        return found

    def _ports(self, name: str, protocol: str) -> list[str]:
        found: list[str] = self._naming.GetServiceByProto(name, protocol)
        return found

    def _protocols(self, term: source.Term) -> list[str]:
        """The protocols, without those that are excepted, as services."""
        parsed = term.parsed
        numbers = list(dict.fromkeys(self._number(term, name) for name in parsed.protocol))
        if parsed.protocol_except:
            without = {self._number(term, name) for name in parsed.protocol_except}
            numbers = [number for number in numbers or range(256) if number not in without]
        return [NAMED.get(number, f"ip/{number}") for number in numbers]

    def _number(self, term: source.Term, name: str) -> int:
        number = int(name) if str(name).isdigit() else self._numbers.get(str(name))
        if number is None:
            place = Place(term.place.file, term.place.line, f"{term.name}.protocol")
            raise InputError(place, f"unknown protocol {name}")
        return number

    def _icmp(self, term: source.Term, protocols: list[str]) -> list[str]:
        parsed = term.parsed
        place = Place(term.place.file, term.place.line, f"{term.name}.icmp-type")
        if protocols not in (["icmp"], ["icmpv6"]):
            raise InputError(place, "icmp-type needs `protocol:: icmp` or `protocol:: icmpv6`, and no other")
        types = parsed.ICMP_TYPE[4 if protocols == ["icmp"] else 6]
        if unknown := [name for name in parsed.icmp_type if name not in types]:
            raise InputError(place, f"{protocols[0]} has no type {unknown[0]}")
        codes = [f".{code}" for code in parsed.icmp_code] or [""]
        return [f"{protocols[0]}/{types[name]}{code}" for name in parsed.icmp_type for code in codes]

    @staticmethod
    def _has_ports(term: source.Term) -> bool:
        return bool(term.parsed.port or term.parsed.source_port or term.parsed.destination_port)


def _families(protocols: list[str]) -> set[int]:
    """The IP versions in which one of the protocols occurs."""
    if not protocols or set(protocols) - {"icmp", "icmpv6"}:
        return {4, 6}
    return {{"icmp": 4, "icmpv6": 6}[protocol] for protocol in protocols}


def _range(text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    return int(low), int(high or low)


def _merged(ranges: Any) -> Ports:
    """Merges ranges of ports into as few as possible."""
    found: Ports = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def _common(one: Ports, other: Ports) -> Ports:
    """The ports in both; those of the first if the second is empty, which means any."""
    if not other:
        return one
    return [(max(a, c), min(b, d)) for a, b in one for c, d in other if max(a, c) <= min(b, d)]


def _texts(ports: Ports) -> list[str]:
    return [str(low) if low == high else f"{low}-{high}" for low, high in ports]


def _written(ports: Ports) -> list[int | str] | None:
    return [int(text) if text.isdigit() else text for text in _texts(_merged(ports))] or None
