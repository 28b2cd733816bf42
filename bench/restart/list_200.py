"""A list of 200 ports of UDP, of which some are denied, and a decision for each connection of UDP."""

import os
from pathlib import Path

from maple import Net, Packet, Route, drop, flood, policy

# The numbers of the denied ports stand in a file beside the copy of this policy that runs.
DENIED = {int(line) for line in Path(os.environ["DENIED"]).read_text().split()}
LINES = range(1, 201)


@policy
def lists(pkt: Packet, net: Net) -> Route:
    if pkt.eth_dst.is_multicast:
        return flood()
    if pkt.ip_proto == 17:
        hash(pkt.udp_src)
        for port in LINES:
            if pkt.matches(udp_dst=port):
                if port in DENIED:
                    return drop()
                break
    src, dst = net.locate(pkt.eth_src), net.locate(pkt.eth_dst)
    return flood() if dst is None or src is None else net.shortest_path(src, dst)
