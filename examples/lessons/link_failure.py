"""Link failure: packets take the shortest path. When a link fails, those that used it take another.

There is no code for that, and no wait for a spanning tree: the policy asks the network for the route, and the rules
change with the answer. `@on` only reports the failure.
"""

from maple import LiveNetwork, Net, Packet, PortEvent, Route, flood, on, policy


@policy
def link_failure(pkt: Packet, net: Net) -> Route:
    if pkt.eth_dst.is_multicast:
        return flood()
    return net.shortest_path(net.locate(pkt.eth_src), net.locate(pkt.eth_dst)) or flood()


@on("port_status")
def tell(port: PortEvent, net: LiveNetwork) -> None:
    print(f"port {port.name} is {'up' if port.is_up else 'down'}; links: {len(net.links())}")
