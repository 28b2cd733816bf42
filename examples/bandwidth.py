"""Bandwidth on demand: flows ask for capacity, wait until it is free, and return it at their end.

An application asks for Mbit/s from one host to another, and deletes the request at the end of the flow:

    maple state set demands '["10.0.0.1", "10.0.0.3"]' 40
    maple state delete demands '["10.0.0.1", "10.0.0.3"]'

A thread, the broker, reserves this bandwidth on all links of the path in one transaction, or waits until it is free:
McNettle's example of software transactional memory (Figure 1). Packets of a flow that asked and has no reservation
yet are dropped. All other flows are best effort.
"""

import os
import threading

from maple import Net, Packet, Query, Route, Table, atomically, flood, or_else, policy, retry

CAPACITY = int(os.environ.get("MAPLE_CAPACITY", "100"))  # Mbit/s of each link, in each direction
IPV4 = 0x0800

Flow = tuple[str, str]
Path = tuple[tuple[int, int], ...]

demands: Table[Flow, int] = Table("demands")  # flow: Mbit/s
granted: Table[Flow, tuple[int, Path]] = Table("granted")  # flow: Mbit/s, and on which links
used: Table[tuple[int, int], int] = Table("used")  # link: Mbit/s in use


@Query
def path(net: Net, src: str, dst: str) -> Path | None:
    """The links of the shortest path, each as the switch and port where it begins. None if a host is not known."""
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
    links = path(*flow)
    if links is None:
        retry()
    for link in links:
        total = used.get(link, 0) + amount
        if total > CAPACITY:
            retry()  # until a flow returns some
        used[link] = total
    granted[flow] = (amount, links)


def release(flow: Flow) -> None:
    amount, links = granted[flow]
    del granted[flow]
    for link in links:
        used[link] -= amount


def first_of(waiting: list[tuple[Flow, int]]) -> None:
    """Reserves for the first of these flows that fits. Waits if none does."""
    if not waiting:
        retry()
    or_else(lambda: reserve(*waiting[0]), lambda: first_of(waiting[1:]))


def step() -> None:
    """Returns what a flow no longer needs or has on an old path. Otherwise reserves for a flow."""
    for flow, (amount, links) in granted.items():
        if demands.get(flow) != amount or path(*flow) != links:
            return release(flow)
    first_of([(flow, amount) for flow, amount in demands.items() if flow not in granted])


def broker() -> None:
    while True:
        atomically(step)


threading.Thread(target=broker, daemon=True).start()
