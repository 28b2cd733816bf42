"""An access list, and behind it a decision for each connection of UDP."""

import os

from maple import Net, Packet, Route, acl, flood


def connections(pkt: Packet, net: Net) -> Route:
    if pkt.eth_dst.is_multicast:
        return flood()
    if pkt.ip_proto == 17:
        int(pkt.udp_src)
    src, dst = net.locate(pkt.eth_src), net.locate(pkt.eth_dst)
    return flood() if dst is None or src is None else net.shortest_path(src, dst)


policy = acl(os.environ["LIST"]).then(connections)
