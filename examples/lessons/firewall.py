"""Firewall: a list of rules. The first that matches a packet decides. Packets that no rule matches are dropped.

The list is tracked state, so other programs can change it while the network runs:

    maple state set firewall '[["10.0.0.0/24", "10.0.0.2/32", 80, "allow"]]' --var

Answers of the server pass too: each rule is tried in both directions.
"""

from maple import Field, Net, Packet, Prefix, Route, Var, drop, flood, policy

firewall = Var("firewall", (("10.0.0.0/24", "10.0.0.0/24", 22, "deny"), ("10.0.0.0/24", "10.0.0.0/24", 0, "allow")))


@policy
def filtered(pkt: Packet, net: Net) -> Route:
    if pkt.eth_type != 0x0806 and not allows(pkt):
        return drop()
    if pkt.eth_dst.is_multicast:
        return flood()
    return net.shortest_path(net.locate(pkt.eth_src), net.locate(pkt.eth_dst)) or flood()


def allows(pkt: Packet) -> bool:
    for src, dst, port, action in firewall.value:
        there = fits(pkt, src, dst, port, pkt.tcp_dst)
        if there or fits(pkt, dst, src, port, pkt.tcp_src):
            return bool(action == "allow")
    return False


def fits(pkt: Packet, src: str, dst: str, port: int, field: Field) -> bool:
    """Whether the packet is between these networks and for this TCP port (0: any)."""
    return pkt.ipv4_src in Prefix(src) and pkt.ipv4_dst in Prefix(dst) and (port == 0 or field == port)
