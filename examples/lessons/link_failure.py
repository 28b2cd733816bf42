"""Link failure: packets take the shortest path there is; when a link fails, those that went over it take another.

There is nothing to write for that, and no spanning tree to wait for: the route is a question about the network, and the
rules change when its answer does. `@on` only tells of it.
"""

from maple import Net, Network, Packet, PortEvent, Route, flood, on, policy


@policy
def link_failure(pkt: Packet, net: Net) -> Route:
    if pkt.eth_dst.is_multicast:
        return flood()
    return net.shortest_path(net.locate(pkt.eth_src), net.locate(pkt.eth_dst)) or flood()


@on("port_status")
def tell(port: PortEvent, net: Network) -> None:
    print(f"port {port.name} is {'up' if port.up else 'down'}; links: {len(net.links())}", flush=True)
