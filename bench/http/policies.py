"""The two controllers of the benchmark: `mt_route` on IP fields, and one whose rules are as narrow as a connection."""

from maple import Location, Net, Packet, Route, drop, policy

# Subnet: its tenant, and where it is. Client and server belong to one tenant.
SUBNETS: dict[object, tuple[str, Location]] = {
    "10.0.1.0/24": ("red", Location(1, 1)),
    "10.0.3.0/24": ("red", Location(3, 1)),
}


@policy(track_hosts=False)
def mt_route(pkt: Packet, net: Net) -> Route:
    """Looks at the two /24 prefixes."""
    src, dst = SUBNETS.get(pkt.ipv4_src.prefix(24)), SUBNETS.get(pkt.ipv4_dst.prefix(24))
    if src is None or dst is None or src[0] != dst[0]:
        return drop()
    return net.shortest_path(src[1], dst[1])


@policy(track_hosts=False)
def exact_match(pkt: Packet, net: Net) -> Route:
    """Gives the same answers after a look at all IP and transport fields."""
    for field in (pkt.ip_dscp, pkt.ip_ecn, pkt.ip_proto, pkt.ipv4_src, pkt.ipv4_dst, pkt.tcp_src, pkt.tcp_dst):
        hash(field)
    return mt_route(pkt, net)
