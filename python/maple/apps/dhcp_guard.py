"""DHCP servers only where they belong."""

from __future__ import annotations

from collections.abc import Iterable

from maple import Net, Packet, Policy, Route, drop, pass_
from maple.apps._common import UDP, Place, app, came_by, places_of

FROM_SERVERS = ({"udp_src": 67}, {"udp_dst": 68}, {"udp_src": 547}, {"udp_dst": 546})
"""Conditions for packets to clients of DHCP and DHCPv6, and from the ports of servers and relays."""


def dhcp_guard(servers: Iterable[Place], *, drop_fragments: bool = False) -> Policy:
    """Drops what DHCP and DHCPv6 servers and relays say, unless it comes in by a named port. All else passes.

    >>> from maple import tiers
    >>> from maple.apps import dhcp_guard, routing
    >>> tiers(dhcp_guard([(1, 4)]), routing())
    <policy tiers>

    :param servers: the edge ports of servers and relays, as ``(switch, port)``.
    :param drop_fragments: whether fragments of UDP packets are dropped at all other ports. Switches can't see the
        ports of a fragment, so a server in fragments passes otherwise.
    """
    trusted = sorted(places_of(servers, "dhcp_guard(servers=…)"))

    def guard(pkt: Packet, net: Net) -> Route:
        says = any(pkt.matches(**condition) for condition in FROM_SERVERS)
        says = says or (drop_fragments and pkt.matches(ip_proto=UDP, udp_src=0, udp_dst=0))
        return drop() if says and not came_by(pkt, trusted) else pass_()

    return app(guard, "dhcp_guard")
