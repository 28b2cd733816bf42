"""VLAN router: hosts in several VLANs, each an IP network, and a router between them that is not a machine.

The policy answers for the router's address in each network, asks for hosts that are not known yet, and rewrites what
it routes: addresses and VLAN id. Within a VLAN packets are switched.
"""

from maple import IN_PORT, Ip, Location, Mac, Net, Packet, Route, answer, drop, flood, frame, policy, to

ME, EVERYBODY = Mac("02:00:00:00:00:fe"), Mac("ff:ff:ff:ff:ff:ff")
ROUTER = {10: Ip("10.0.10.254"), 20: Ip("10.0.20.254")}


@policy
def vlan_router(pkt: Packet, net: Net) -> Route:
    here = Location(pkt.switch, int(pkt.in_port))
    vlan = next((vlan for vlan in ROUTER if pkt.vlan_vid == vlan), None)
    if vlan is None:
        return drop()
    back = {"eth_src": ME, "eth_dst": pkt.eth_src.value, "vlan_vid": vlan}
    if pkt.arp_op == 1 and pkt.arp_tpa == ROUTER[vlan]:
        return answer(frame(**back, arp_op=2, arp_spa=pkt.arp_tpa, arp_tpa=pkt.arp_spa))
    if pkt.icmpv4_type == 8 and pkt.ipv4_dst == ROUTER[vlan]:
        ends = {"ipv4_src": pkt.ipv4_dst.value, "ipv4_dst": pkt.ipv4_src.value}
        return answer(frame(**back, **ends, icmpv4_type=0, icmpv4_code=0, payload=pkt.payload))
    if pkt.eth_dst != ME:
        return flood() if pkt.eth_dst.is_multicast else net.shortest_path(here, net.locate(pkt.eth_dst))
    for vlan, router in ROUTER.items():
        if pkt.ipv4_dst in router.prefix(24):
            host = net.locate_ip(pkt.ipv4_dst)
            if host is None:
                return ask(net, pkt.ipv4_dst.value, vlan)
            # Both may be at one port, for example VLANs of a trunk. Only IN_PORT leads back.
            route = to(IN_PORT) if host.location == here else net.shortest_path(here, host.location)
            return route.set(eth_src=ME, eth_dst=host.mac, vlan_vid=vlan)
    return drop()


def ask(net: Net, address: Ip, vlan: int) -> Route:
    """Asks for the address everywhere. The packet is lost, but hosts send again."""
    question = frame(eth_src=ME, eth_dst=EVERYBODY, vlan_vid=vlan, arp_op=1, arp_spa=ROUTER[vlan], arp_tpa=address)
    for switch in net.switches():
        for port in net.edge_ports(switch):
            net.send(question, (switch, port))
    return drop()
