"""Routes without constraints, and under 20 of them: `maple-bench flows --policy bench/guard/policies.py:NAME`."""

from maple import Net, Packet, Route, flood, guard, isolate, max_hops, never, policy, waypoint


@policy
def bare(pkt: Packet, net: Net) -> Route:
    """No constraint."""
    src, dst = net.locate(pkt.eth_src), net.locate(pkt.eth_dst)
    if pkt.eth_dst.is_multicast or src is None or dst is None:
        return flood()
    return net.shortest_path(src, dst)


def host(number: int) -> str:
    """The address of a host that the benchmark does not have."""
    return f"02:ff:00:00:00:{number:02x}"


def lab(number: int) -> str:
    """A subnet that the benchmark does not have."""
    return f"203.0.{number}.0/24"


ABOUT_HOSTS = [
    *[isolate(host(n), host(n + 1)) for n in range(0, 14, 2)],
    *[waypoint(host(n), host(n + 1), via=1) for n in range(20, 32, 2)],
    *[never((1, 1), host(n)) for n in range(40, 47)],
]

# About other hosts, by hardware address.
hosts = guard(bare, *ABOUT_HOSTS)

# One of them looks at the way of every packet.
ways = guard(bare, max_hops(64), *ABOUT_HOSTS[1:])

# About other hosts, by prefixes of IP addresses.
prefixes = guard(
    bare,
    *[isolate(lab(n), lab(n + 1)) for n in range(0, 14, 2)],
    *[waypoint(lab(n), lab(n + 1), via=1) for n in range(20, 32, 2)],
    *[never((1, 1), lab(n)) for n in range(40, 47)],
)
