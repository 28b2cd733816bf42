"""Routes without constraints: compare with guarded.py."""

from maple import Net, Packet, Route, flood, policy


@policy
def routing(pkt: Packet, net: Net) -> Route:
    src, dst = net.locate(pkt.eth_src), net.locate(pkt.eth_dst)
    if pkt.eth_dst.is_multicast or src is None or dst is None:
        return flood()
    return net.shortest_path(src, dst)
