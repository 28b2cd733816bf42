"""A rule for each connection of UDP, to the host at port 2, or at port 3 by other rules."""

import os

from maple import Net, Packet, Route, drop, policy, to


@policy
def one_rule_each(pkt: Packet, net: Net) -> Route:
    if pkt.ip_proto != 17:
        return drop()
    int(pkt.udp_src)
    int(pkt.udp_dst)
    if os.environ["WAY"] == "3":
        int(pkt.ip_dscp)
        return to(3)
    return to(2)
