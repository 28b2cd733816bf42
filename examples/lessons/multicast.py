"""Multicast goes to hosts that joined the group, and to no others.

Hosts join with IGMP and MLD. Maple learns that, and asks them if no multicast router does.
"""

from maple import Net, Packet, Route, drop, flood, multicast, policy


@policy(snoop=("igmp", "mld"), querier=True)
def members_only(pkt: Packet, net: Net) -> Route:
    if not pkt.eth_dst.is_multicast:
        dst = net.locate(pkt.eth_dst)
        return net.shortest_path(net.locate(pkt.eth_src), dst) if dst else flood()
    if pkt.ip_proto == 2 or pkt.icmpv6_type == 131 or pkt.icmpv6_type == 132:
        return drop()  # Maple has read it. Hosts that see the reports of others would not send their own.
    if pkt.matches(ipv4_dst="224.0.0.0/24") or pkt.matches(ipv6_dst="ff02::/16"):
        return flood()  # Groups of the link are for all hosts.
    if pkt.matches(ipv4_dst="224.0.0.0/4"):
        group = pkt.ipv4_dst
    elif pkt.matches(ipv6_dst="ff00::/8"):
        group = pkt.ipv6_dst
    else:
        return flood()  # ARP, and other broadcasts.
    src = net.locate(pkt.eth_src)
    return multicast(net.shortest_path(src, at) for at in net.members(group) if at != src)
