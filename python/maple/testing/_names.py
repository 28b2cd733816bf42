"""The hosts and switches of a network under test, by whatever a test calls them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from maple import _maple
from maple._emulate import Host, Switch
from maple.testing._packets import Addresses

AnyHost = Host | str | _maple.Mac | _maple.Ip
"""A host: an object, its name, its hardware address or one of its IP addresses."""
AnySwitch = Switch | str | int
"""A switch: an object, its name or its datapath id, as a number or as it is printed, in hex."""

# The IP addresses of a hardware address that no host has.
NOBODY = ("10.255.255.254", "fd00::ffff")


class Place(Addresses):
    """A host where it is now, or an address that no host has."""

    def __init__(self, name: str | None, mac: str, ipv4: str, ipv6: str, dpid: int, port: int) -> None:
        super().__init__(mac, ipv4, ipv6)
        self.name = name
        self.dpid = dpid
        self.port = port


class Names:
    """The names of the hosts and switches of one network."""

    def __init__(self, laboratory: _maple.Laboratory) -> None:
        self.laboratory = laboratory
        self._dpids = dict(laboratory.switches())
        self._by_dpid = {dpid: name for name, dpid in self._dpids.items()}
        self._hosts: dict[str, Place] = {}
        self._others: dict[str, Place] = {}

    def forget(self) -> None:
        """Hosts may be elsewhere."""
        self._hosts.clear()
        self._others.clear()

    @property
    def hosts(self) -> dict[str, Place]:
        """The hosts by name."""
        if not self._hosts:
            for name, mac, ipv4, ipv6, switch, port in self.laboratory.hosts():
                place = Place(name, mac, ipv4, ipv6, self._dpids[switch], port)
                self._hosts[name] = place
                self._others |= {mac: place, str(_maple.Ip(ipv4)): place, str(_maple.Ip(ipv6)): place}
        return self._hosts

    def host(self, wanted: AnyHost) -> Place:
        """The host that is meant.

        :raises ValueError: if there is none, with the name that may have been meant.
        """
        name = wanted.name if isinstance(wanted, Host) else str(wanted)
        found = self.hosts.get(name) or self._others.get(name.lower())
        if found is not None:
            return found
        raise ValueError(f"there is no host {name}{_hint(name, self.hosts, 'hosts')}")

    def receiver(self, wanted: AnyHost) -> Place:
        """The host that is meant, or an address that no host has."""
        try:
            return self.host(wanted)
        except ValueError:
            mac = _mac(wanted)
            if mac is None:
                raise
            return Place(None, mac, *NOBODY, 0, 0)

    def each(self, wanted: AnyHost | Iterable[AnyHost]) -> list[Place]:
        """One host, or several."""
        if isinstance(wanted, (Host, str, _maple.Mac, _maple.Ip)):
            return [self.host(wanted)]
        hosts = [self.host(one) for one in wanted]
        if not hosts:
            raise ValueError("at least one host is needed")
        return hosts

    def switch(self, wanted: AnySwitch) -> str:
        """The name of the switch that is meant.

        :raises ValueError: if there is none, with the name that may have been meant.
        """
        name = wanted.name if isinstance(wanted, Switch) else wanted
        dpid = name if isinstance(name, int) else _dpid(name)
        if name not in self._dpids:
            name = self._by_dpid.get(dpid, str(name)) if dpid is not None else str(name)
        if name in self._dpids:
            return name
        raise ValueError(f"there is no switch {wanted}{_hint(name, self._dpids, 'switches')}")

    def port(self, switch: AnySwitch, port: int | None) -> tuple[str, int]:
        """The port that is meant, by the name of its switch: of a switch, or a place such as ``"s1:2"`` alone.

        :raises ValueError: if there is no such switch, or no port is given.
        """
        if port is not None:
            return self.switch(switch), port
        before, _, number = switch.rpartition(":") if isinstance(switch, str) else ("", "", "")
        if not before:
            raise ValueError(f"a port is a switch and its number, or text such as 's1:2', not {switch!r}")
        return self.switch(before), _maple.Location(f"1:{number}").port


def _dpid(text: str) -> int | None:
    """The datapath id that a text is, read as that of a place."""
    try:
        return _maple.Location(f"{text}:1").switch
    except ValueError:
        return None


def _mac(wanted: object) -> str | None:
    try:
        return str(_maple.Mac(wanted if isinstance(wanted, _maple.Mac) else str(wanted)))
    except ValueError:
        return None


def _hint(name: str, known: Iterable[str], what: str) -> str:
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"; did you mean {close[0]}?"
    some = ", ".join(known[:8]) + (", …" if len(known) > 8 else "")
    return f"; the {what} are {some}" if known else f"; there are no {what}"
