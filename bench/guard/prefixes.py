"""The same routes under 20 constraints on prefixes of IP addresses that no packet has: compare with bare.py."""

from maple import Net, Packet, Route, flood, guard, isolate, never, policy, waypoint


@policy
def routing(pkt: Packet, net: Net) -> Route:
    src, dst = net.locate(pkt.eth_src), net.locate(pkt.eth_dst)
    if pkt.eth_dst.is_multicast or src is None or dst is None:
        return flood()
    return net.shortest_path(src, dst)


def lab(number: int) -> str:
    """A subnet that the benchmark does not have."""
    return f"203.0.{number}.0/24"


guarded = guard(
    routing,
    *[isolate(lab(n), lab(n + 1)) for n in range(0, 14, 2)],
    *[waypoint(lab(n), lab(n + 1), via=1) for n in range(20, 34, 2)],
    *[never((1, 1), lab(n)) for n in range(40, 46)],
)
