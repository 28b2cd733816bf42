"""The same routes under 20 constraints, one of which looks at the way of every packet: compare with bare.py."""

from maple import Net, Packet, Route, flood, guard, isolate, max_hops, never, policy, waypoint


@policy
def routing(pkt: Packet, net: Net) -> Route:
    src, dst = net.locate(pkt.eth_src), net.locate(pkt.eth_dst)
    if pkt.eth_dst.is_multicast or src is None or dst is None:
        return flood()
    return net.shortest_path(src, dst)


def host(number: int) -> str:
    """The address of a host that the benchmark does not have."""
    return f"02:ff:00:00:00:{number:02x}"


guarded = guard(
    routing,
    max_hops(64),
    *[isolate(host(n), host(n + 1)) for n in range(0, 14, 2)],
    *[waypoint(host(n), host(n + 1), via=1) for n in range(20, 32, 2)],
    *[never((1, 1), host(n)) for n in range(40, 46)],
)
