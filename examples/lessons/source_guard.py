"""Hosts may use only the addresses that DHCP gave them, and only at the port where they asked for them.

The DHCP server is at port 1 of switch 1. Answers from elsewhere are ignored.
"""

from maple import Location, Net, Packet, Route, drop, flood, policy

SERVER = Location(1, 1)


@policy(snoop="dhcp", dhcp_servers=[SERVER])
def source_guard(pkt: Packet, net: Net) -> Route:
    src = net.locate(pkt.eth_src)
    if src != SERVER:
        if pkt.udp_src == 67:
            return drop()  # No host is a server.
        ip = pkt.arp_spa if pkt.eth_type == 0x0806 else pkt.ipv4_src
        if pkt.udp_dst != 67 and not net.is_leased(pkt.eth_src, ip):
            return drop()  # What is sent to port 67 asks for an address.
    if pkt.eth_dst.is_multicast:
        return flood()
    dst = net.locate(pkt.eth_dst)
    return net.shortest_path(src, dst) if dst else flood()
