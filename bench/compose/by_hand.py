"""Three concerns in one function: compare with tiers.py."""

from maple import Net, Packet, Route, drop, flood, policy


@policy
def campus(pkt: Packet, net: Net) -> Route:
    if pkt.tcp_dst == 23:
        return drop()
    if pkt.matches(ipv4_src="192.168.0.0/16"):
        return drop()
    src, dst = net.locate(pkt.eth_src), net.locate(pkt.eth_dst)
    if pkt.eth_dst.is_multicast or src is None or dst is None:
        return flood()
    return net.shortest_path(src, dst)
