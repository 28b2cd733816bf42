"""Shortest paths between hosts. Broadcasts, multicasts and packets for unknown hosts are flooded."""

from maple import Net, Packet, Route, flood, policy


@policy
def shortest_path(pkt: Packet, net: Net) -> Route:
    if pkt.eth_dst.is_multicast:
        return flood()
    dst = net.locate(pkt.eth_dst)
    if dst is None:
        return flood()
    return net.shortest_path(net.locate(pkt.eth_src), dst)
