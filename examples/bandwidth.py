"""Bandwidth on demand: flows ask for capacity, wait until it is free, and give it back when they end.

An application asks for so many Mbit/s from one host to another, and says so when the flow has ended:

    maple state set demands '["10.0.0.1", "10.0.0.3"]' 40
    maple state delete demands '["10.0.0.1", "10.0.0.3"]'

A thread, the broker, reserves it on all links of the way at once, or waits until that is possible: McNettle's example
of software transactional memory (Figure 1). Packets of a flow that asked and was not granted wait; all others are best
effort.
"""

import os
import threading

from maple import Net, Packet, Query, Route, Table, atomically, flood, or_else, policy, retry

CAPACITY = int(os.environ.get("MAPLE_CAPACITY", "100"))  # Mbit/s of each link, in each direction
IPV4 = 0x0800

Flow = tuple[str, str]
Way = tuple[tuple[int, int], ...]

demands: Table[Flow, int] = Table("demands")  # flow: Mbit/s
granted: Table[Flow, tuple[int, Way]] = Table("granted")  # flow: Mbit/s, and the links that it has them on
used: Table[tuple[int, int], int] = Table("used")  # link: Mbit/s that are granted


@Query
def way(net: Net, src: str, dst: str) -> Way | None:
    """The links of the shortest way, each as switch and port that it leaves by; None while a host was not seen."""
    here, there = net.locate_ip(src), net.locate_ip(dst)
    if here is None or there is None:
        return None
    return tuple(net.shortest_path(here[1], there[1]).hops[:-1])


@policy
def bandwidth(pkt: Packet, net: Net) -> Route:
    if pkt.eth_dst.is_multicast:
        return flood()
    dst = net.locate(pkt.eth_dst)
    if dst is None:
        return flood()
    if pkt.eth_type == IPV4:
        flow = (str(pkt.ipv4_src), str(pkt.ipv4_dst))
        if flow in demands and flow not in granted:
            net.retry()
    return net.shortest_path(net.locate(pkt.eth_src), dst)


def reserve(flow: Flow, amount: int) -> None:
    links = way(*flow)
    if links is None:
        retry()
    for link in links:
        total = used.get(link, 0) + amount
        if total > CAPACITY:
            retry()  # until some of it is given back
        used[link] = total
    granted[flow] = (amount, links)


def release(flow: Flow) -> None:
    amount, links = granted[flow]
    del granted[flow]
    for link in links:
        used[link] -= amount


def first_of(waiting: list[tuple[Flow, int]]) -> None:
    """Reserves for the first of these flows for which there is room; waits where there is none."""
    if not waiting:
        retry()
    or_else(lambda: reserve(*waiting[0]), lambda: first_of(waiting[1:]))


def step() -> None:
    """Gives back what a flow does not need any more or has on another way than it takes, else grants something."""
    for flow, (amount, links) in granted.items():
        if demands.get(flow) != amount or way(*flow) != links:
            return release(flow)
    first_of([(flow, amount) for flow, amount in demands.items() if flow not in granted])


def broker() -> None:
    while True:
        atomically(step)


threading.Thread(target=broker, daemon=True).start()
