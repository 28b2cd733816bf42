"""Shortest paths, and floods for what has no known place."""

from __future__ import annotations

from maple import Net, Packet, Policy, Route, drop, flood
from maple.apps._common import app, start


def routing(*, cost: str | None = None, flood_unknown: bool = True) -> Policy:
    """Sends packets to where their destination is: the last tier of most compositions. It never passes.

    Multicasts and broadcasts are flooded. The path begins at the switch where the packet came in, so tiers before this
    one may change ``eth_src``, and packets of all its ports share a decision.

    >>> from maple.apps import routing
    >>> routing()
    <policy routing>

    :param cost: takes the paths of least cost by this name (:func:`maple.costs`), not those with the fewest hops.
    :param flood_unknown: whether packets to hosts that were not seen yet are flooded; otherwise they are dropped.
    """
    if cost is not None and not isinstance(cost, str):
        raise TypeError(f'routing(cost=…) is a name, such as "secure", not {cost!r}')

    def decide(pkt: Packet, net: Net) -> Route:
        if pkt.eth_dst.is_multicast:
            return flood()
        dst = net.locate(pkt.eth_dst)
        if dst is None:
            return flood() if flood_unknown else drop()
        if cost is None:
            return net.shortest_path(start(pkt), dst)
        return net.path(start(pkt), dst, cost=cost)

    return app(decide, "routing")
