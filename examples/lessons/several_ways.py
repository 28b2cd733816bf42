"""Several paths: flows between the same two hosts are spread over both spines of a leaf-and-spine network.

Packets of one connection take one path, so they stay in order. Each path is the cheapest one under costs that prefer a
spine. When a link of this spine fails, the path leads over the other spine, and other flows stay as they are.
"""

from maple import Net, Packet, Route, costs, ecmp, flood, policy

LEAVES, SPINES = (1, 2), (3, 4)
COSTS = {
    f"over {spine}": {(leaf, other): 100 for leaf in LEAVES for other in SPINES if other != spine} for spine in SPINES
}
for name, of_links in COSTS.items():
    costs(name, of_links)


@policy
def several_ways(pkt: Packet, net: Net) -> Route:
    if pkt.eth_dst.is_multicast:
        return flood()
    src, dst = net.locate(pkt.eth_src), net.locate(pkt.eth_dst)
    ways = [net.path(src, dst, cost=name) for name in COSTS]
    return ecmp(ways, by=("tcp_src", "tcp_dst")) or flood()
