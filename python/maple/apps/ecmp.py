"""Equal-cost multipath: the flows between two hosts spread over all shortest paths."""

from __future__ import annotations

from collections.abc import Iterable

import maple
from maple import Net, Packet, Policy, Query, Route, hops, pass_
from maple._maple import FIELDS
from maple.apps._common import app

Hops = tuple[tuple[int, int], ...]


def ecmp(*, by: Iterable[str] | None = None, ways: int = 8) -> Policy:
    """Spreads the flows between two hosts over the paths with the fewest hops, where there are several.

    It passes multicasts, packets to hosts that were not seen, and packets that have one shortest path at most, so that
    ``routing()`` decides those. The packets of a flow take one path, the same in every process. When a link fails, only
    the pairs of switches whose shortest paths it was on are decided again.

    >>> from maple import tiers
    >>> from maple.apps import ecmp, routing
    >>> tiers(ecmp(), routing())
    <policy tiers>

    :param by: the fields that make a flow. By default both ports of TCP and of UDP, and both addresses of other IPv4
        packets; the rest has one path. At most eight low bits choose, an equal number of each field, so a few rules
        serve all flows between two hosts.
    :param ways: the maximum number of paths, 2 to 16. If there are more, they are taken in turn from each next switch.
    :raises ValueError: for an unknown field, or another number of ways.
    """
    given = None if by is None else (by,) if isinstance(by, str) else tuple(by)
    unknown = [field for field in given or () if field not in FIELDS]
    if unknown or given == ():
        raise ValueError(f"ecmp(by=…) needs names of fields, such as tcp_src; {unknown} are none")
    if not isinstance(ways, int) or not 2 <= ways <= 16:
        raise ValueError(f"ecmp(ways=…) is a number from 2 to 16, not {ways!r}")

    def spread(pkt: Packet, net: Net) -> Route:
        if pkt.eth_dst.is_multicast:
            return pass_()
        dst = net.locate(pkt.eth_dst)
        if dst is None or dst.switch == pkt.switch:
            return pass_()
        paths = shortest_paths(pkt.switch, dst.switch, ways)
        if len(paths) < 2:
            return pass_()
        fields = _flow(pkt) if given is None else given
        return maple.ecmp([hops([*path, dst]) for path in paths], by=fields) if fields else pass_()

    return app(spread, "ecmp")


def _flow(pkt: Packet) -> tuple[str, ...]:
    """The fields that tell the flows between two hosts apart, in both directions."""
    for fields in (("tcp_src", "tcp_dst"), ("udp_src", "udp_dst"), ("ipv4_src", "ipv4_dst")):
        if getattr(pkt, fields[0]).is_present:
            return fields
    return ()


@Query
def shortest_paths(net: Net, src: int, dst: int, most: int) -> tuple[Hops, ...]:
    """The hops of at most ``most`` shortest paths between switches, in an order that depends on the links alone."""
    towards: dict[int, list[tuple[int, int]]] = {}
    for link in net.links():
        for a, b in ((link.a, link.b), (link.b, link.a)):
            towards.setdefault(a.switch, []).append((a.port, b.switch))
    away = {dst: 0}
    ring = [dst]
    while ring and src not in away:
        # Links go both ways, so what `dst` reaches reaches `dst`.
        ring = sorted({to for switch in ring for _, to in towards.get(switch, ()) if to not in away})
        away |= dict.fromkeys(ring, len({*away.values()}))
    if src not in away:
        return ()
    known: dict[int, list[Hops]] = {dst: [()]}
    for switch in sorted(away, key=lambda one: (away[one], one)):
        if switch != dst:
            choices = [
                [((switch, port), *rest) for rest in known[to]]
                for port, to in sorted(towards[switch])
                if away.get(to) == away[switch] - 1
            ]
            known[switch] = _in_turn(choices)[:most]
    return tuple(known[src])


def _in_turn(lists: list[list[Hops]]) -> list[Hops]:
    """The first of each list, then the second of each, and so on."""
    longest = max(map(len, lists), default=0)
    return [one[n] for n in range(longest) for one in lists if n < len(one)]
