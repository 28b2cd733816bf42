"""Topology discovery (McNettle's demo): reports each switch and link that comes or goes, while packets take shortest
paths.

Maple discovers the network by itself. A thread follows what Maple knows of it. Another program can do the same with
`maple show topology --watch`.
"""

import threading
import time

from maple import Location, Net, Packet, Route, flood, network, policy


@policy
def topology(pkt: Packet, net: Net) -> Route:
    if pkt.eth_dst.is_multicast:
        return flood()
    dst = net.locate(pkt.eth_dst)
    return flood() if dst is None else net.shortest_path(net.locate(pkt.eth_src), dst)


def seen() -> set[str]:
    """The switches and links, as text."""
    now = network()
    return {f"switch {dpid:x}" for dpid in now.switches()} | {f"link {end(a)} - {end(b)}" for a, b in now.links()}


def end(at: Location) -> str:
    return f"{at.switch:x}:{at.port}"


def follow() -> None:
    """Reports what comes and goes. Never returns."""
    before: set[str] = set()
    while True:
        now = seen()
        for gone in sorted(before - now):
            print(f"{gone} is gone")
        for new in sorted(now - before):
            print(f"{new} is there")
        before = now
        time.sleep(0.1)


threading.Thread(target=follow, daemon=True).start()
