"""Three policies as tiers: compare with by_hand.py."""

from maple import Net, Packet, Route, drop, flood, pass_, tiers


def admin(pkt: Packet, net: Net) -> Route:
    return drop() if pkt.tcp_dst == 23 else pass_()


def tenant(pkt: Packet, net: Net) -> Route:
    return drop() if pkt.matches(ipv4_src="192.168.0.0/16") else pass_()


def routing(pkt: Packet, net: Net) -> Route:
    src, dst = net.locate(pkt.eth_src), net.locate(pkt.eth_dst)
    if pkt.eth_dst.is_multicast or src is None or dst is None:
        return flood()
    return net.shortest_path(src, dst)


campus = tiers(admin, tenant, routing)
