"""Hosts may use only the addresses that DHCP gave them, and only at the port where they asked for them.

The DHCP server is at port 1 of switch 1. Answers from elsewhere are ignored.
"""

from maple import Ip, Location, Net, Packet, Route, drop, flood, policy

SERVER = Location(1, 1)


@policy(snoop="dhcp", dhcp_servers=[SERVER])
def source_guard(pkt: Packet, net: Net) -> Route:
    src = net.locate(pkt.eth_src)
    if src != SERVER:
        if pkt.udp_src == 67:
            return drop()  # No host is a server.
        lease = net.lease(pkt.eth_src)
        is_asking = pkt.udp_dst == 67
        if not is_asking and (lease is None or lease.location != src or not uses(pkt, lease.ip)):
            return drop()
    if pkt.eth_dst.is_multicast:
        return flood()
    dst = net.locate(pkt.eth_dst)
    return net.shortest_path(src, dst) if dst else flood()


def uses(pkt: Packet, ip: Ip) -> bool:
    """Whether the packet comes from this address, by ARP or by IPv4."""
    return pkt.arp_spa == ip if pkt.eth_type == 0x0806 else pkt.ipv4_src == ip
