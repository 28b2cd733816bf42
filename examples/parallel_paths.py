"""Shortest paths that are computed again on all cores when a link comes or goes (McNettle's demo of deterministic
parallel programming).

The policy reads the links, so it depends on them. The paths between all switches are a pure function of the links,
and are computed once for each set of links, without the interpreter's lock. They are the same for any number of
threads. MAPLE_THREADS sets that number. The default is one for each core.
"""

import os

from maple import Net, Packet, ParallelPaths, Route, flood, policy

# Made while the file is loaded, before the controller starts: a worker stays on one core, and so would the threads that
# it makes.
paths = ParallelPaths(threads=int(os.environ.get("MAPLE_THREADS", "0")))


@policy
def parallel_paths(pkt: Packet, net: Net) -> Route:
    if pkt.eth_dst.is_multicast:
        return flood()
    dst = net.locate(pkt.eth_dst)
    if dst is None:
        return flood()
    return paths.shortest_path(net, net.locate(pkt.eth_src), dst)
