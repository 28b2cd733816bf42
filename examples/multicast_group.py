"""Multicast: packets for a group go to its members, over each link once.

Members are named by hardware address, and Maple finds them wherever they are: when one moves, the tree follows. All
other packets take the shortest path.
"""

from maple import Net, Packet, Route, drop, flood, multicast, policy

# Group address: its members.
GROUPS: dict[object, tuple[str, ...]] = {
    "239.1.1.1": ("00:00:00:00:00:02", "00:00:00:00:00:03", "00:00:00:00:00:04"),
    "239.1.1.2": ("00:00:00:00:00:01", "00:00:00:00:00:03"),
}


@policy
def multicast_group(pkt: Packet, net: Net) -> Route:
    if pkt.ipv4_dst.is_multicast:
        src = net.locate(pkt.eth_src)
        members = [net.locate(mac) for mac in GROUPS.get(pkt.ipv4_dst, ()) if pkt.eth_src != mac]
        paths = [net.shortest_path(src, member) for member in members if member is not None]
        return multicast(paths) if paths else drop()
    if pkt.eth_dst.is_multicast:
        return flood()
    dst = net.locate(pkt.eth_dst)
    return flood() if dst is None else net.shortest_path(net.locate(pkt.eth_src), dst)
