"""The same routes under 20 constraints about hosts that the benchmark does not have: compare with bare.py."""

from maple import Net, Packet, Route, flood, guard, isolate, never, policy, waypoint


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
    *[isolate(host(n), host(n + 1)) for n in range(0, 14, 2)],
    *[waypoint(host(n), host(n + 1), via=1) for n in range(20, 32, 2)],
    *[never((1, 1), host(n)) for n in range(40, 47)],
)
