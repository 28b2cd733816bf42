"""Asks for the load of every port of the network, in both directions, whether there are packets or not."""

from __future__ import annotations

import threading

from maple import Net, Query, atomically, drop, policy, retry


@Query
def busy_ports(net: Net) -> int:
    """The number of ports that send or receive more than 1 Mbit/s."""
    ends = [end for link in net.links() for end in link]
    ports = [(end.switch, end.port) for end in ends]
    ports += [(switch, port) for switch in net.switches() for port in net.edge_ports(switch)]
    loads = [net.port_load(switch, port) for switch, port in ports]
    return sum(load.is_above(mbps=1) or load.received.is_above(mbps=1) for load in loads)


@policy
def quiet(pkt, net):
    return drop()


def wait() -> None:
    def changed() -> None:
        if busy_ports() == 0:
            retry()

    atomically(changed)


threading.Thread(target=wait, daemon=True).start()
