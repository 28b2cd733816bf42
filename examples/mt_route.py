"""Multi-tenant routing: `mt-route` of section 6.1 of the Maple paper.

Each /24 subnet belongs to a tenant. Each tenant has its own link costs, so each sees its own topology. Packets
within a tenant take the tenant's best path. Packets between tenants are dropped. The policy reads only the two /24
prefixes, so its rules are as wide as subnets.
"""

from maple import Net, Packet, Route, costs, drop, flood, policy

# Subnet: its tenant.
TENANTS: dict[object, str] = {
    "10.0.0.0/24": "red",
    "10.0.1.0/24": "red",
    "10.0.2.0/24": "blue",
    "10.0.3.0/24": "blue",
}

costs("red", {(1, 2): 5})
costs("blue", {(2, 3): 5, (3, 4): 2})


@policy
def mt_route(pkt: Packet, net: Net) -> Route:
    if pkt.eth_type == 0x0806:
        return arp(pkt, net)
    src, dst = TENANTS.get(pkt.ipv4_src.prefix(24)), TENANTS.get(pkt.ipv4_dst.prefix(24))
    if src is None or src != dst:
        return drop()
    return net.path(net.locate(pkt.eth_src), net.locate(pkt.eth_dst), cost=src)


def arp(pkt: Packet, net: Net) -> Route:
    """An ARP request reaches only hosts of the same tenant."""
    src, dst = TENANTS.get(pkt.arp_spa.prefix(24)), TENANTS.get(pkt.arp_tpa.prefix(24))
    if src is None or src != dst:
        return drop()
    there = net.locate(pkt.eth_dst)
    return flood() if there is None else net.shortest_path(net.locate(pkt.eth_src), there)
