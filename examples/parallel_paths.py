"""Shortest paths that are recomputed on all cores when a link comes or goes (McNettle's demo: deterministic parallel
programming).

The policy asks for the links, so it depends on them; the paths between all switches are a pure function of these, and
computed once for each set of links, outside of the interpreter's lock. However many threads do that, the paths are the
same. MAPLE_THREADS says how many; without it there is one for each core.
"""

import os

from maple import Net, Packet, ParallelPaths, Route, flood, policy

# While the file is loaded, before the controller starts: its workers stay on one core each, and so would threads that
# they make.
paths = ParallelPaths(threads=int(os.environ.get("MAPLE_THREADS", "0")))


@policy
def parallel_paths(pkt: Packet, net: Net) -> Route:
    if pkt.eth_dst.is_multicast:
        return flood()
    dst = net.locate(pkt.eth_dst)
    if dst is None:
        return flood()
    return paths.shortest_path(net, net.locate(pkt.eth_src), dst)
