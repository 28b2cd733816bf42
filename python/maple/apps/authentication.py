"""Hosts that have not logged in reach only the portal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from maple import Location, Mac, Net, Packet, Policy, Route, Table, drop, pass_
from maple.apps._common import MacLike, Place, app, came_by, here, mac_of, place_of, start


def authentication(
    table: Table[Mac, Any],
    *,
    portal: MacLike,
    at: Place | None = None,
    allow: Iterable[Mapping[str, Any]] | Mapping[str, Any] = (),
) -> Policy:
    """Passes the packets of authenticated hosts and of the portal. What others send reaches only the portal host.

    An external program, such as the one on the portal, fills the table. An entry that comes or goes takes effect on
    exactly that host, at once.

    >>> from maple import Mac, Table, tiers
    >>> from maple.apps import authentication, routing
    >>> users = Table("authenticated", key=Mac, value=bool)
    >>> tiers(authentication(users, portal="00:00:00:00:00:01"), routing())
    <policy tiers>

    Broadcasts of a host that is not authenticated, such as its ARP requests, go to the portal host too, and nowhere
    else. Only while the portal host was not seen, and ``at`` does not say where it is, ARP requests pass, so that it
    can be found. This looks at who sends: broadcasts of authenticated hosts reach everybody.

    :param table: by hardware address ``True``, or a ``Location``: then the host is authenticated only at that port.
    :param portal: the hardware address of the portal host.
    :param at: the port of the portal host: packets from its address are dropped elsewhere. By default it is where the
        host was seen, and its address is trusted everywhere.
    :param allow: packets that everybody may send, as conditions of :meth:`maple.Packet.matches`, for example to
        servers of DHCP and DNS on other hosts: ``[{"udp_dst": 67}, {"ipv4_dst": "10.0.0.53", "udp_dst": 53}]``.
    :raises TypeError: if ``table`` is not a table.
    """
    if not isinstance(table, Table):
        raise TypeError(f'authentication() needs a table, such as Table("authenticated", key=Mac), not {table!r}')
    desk = mac_of(portal, "authentication(portal=…)")
    place = None if at is None else place_of(at, "authentication(at=…)")
    allowed = [dict(allow)] if isinstance(allow, Mapping) else [dict(one) for one in allow]

    def authenticate(pkt: Packet, net: Net) -> Route:
        if pkt.eth_src == desk:
            return pass_() if place is None or came_by(pkt, (place,)) else drop()
        entry = table.get(pkt.eth_src)
        if entry is True or (isinstance(entry, Location) and entry == here(pkt)):
            return pass_()
        if any(pkt.matches(**condition) for condition in allowed):
            return pass_()
        if pkt.eth_dst == desk or pkt.eth_dst.is_multicast:
            there = place or net.locate(desk)
            if there is None and pkt.arp_op == 1:
                return pass_()
            return net.shortest_path(start(pkt), there)
        return drop()

    return app(authenticate, "authentication")
