"""Rules changed from outside: the pairs that may talk are in a table that other programs write.

    maple state set allowed '["10.0.0.1", "10.0.0.2"]' true
    maple state delete allowed '["10.0.0.1", "10.0.0.2"]'

A command returns when every new answer comes from the new table. With --settled, when no old rule is left either.
"""

from maple import Net, Packet, Route, Table, drop, flood, policy

allowed = Table("allowed")


@policy
def rules_from_outside(pkt: Packet, net: Net) -> Route:
    if pkt.eth_type == 0x0806:
        return flood() if pkt.eth_dst.is_multicast else deliver(pkt, net)
    if not pkt.ipv4_src.is_present:
        return drop()
    src, dst = str(pkt.ipv4_src), str(pkt.ipv4_dst)
    if (src, dst) in allowed or (dst, src) in allowed:
        return deliver(pkt, net)
    return drop()


def deliver(pkt: Packet, net: Net) -> Route:
    return net.shortest_path(net.locate(pkt.eth_src), net.locate(pkt.eth_dst))
