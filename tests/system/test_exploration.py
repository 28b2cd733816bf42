"""Exploration on Open vSwitch: once hosts are known, packets between any two of them find rules that no packet has
made."""

from pathlib import Path

import pytest
from harness import wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from mininet.topo import LinearTopo

POLICY = Path(__file__).parents[2] / "examples/secure_routing.py"


def is_explored(maple):
    """Whether no packet of a known host comes to the controller, as the controller says."""
    explored = [switch["exploration"] for switch in maple.show({"tree": None})]
    return len(explored) == 3 and all(of is not None and of["complete"] for of in explored)


def test_packets_between_known_hosts_need_no_controller(controller, lab):
    maple = controller(POLICY)
    net = lab(LinearTopo(k=3, n=2), maple, protocols="OpenFlow13")
    # Each host says where it is and learns the addresses of the others, so that no ARP request is flooded later.
    assert net.ping_all()[0] == 0
    wait_for("the exploration", lambda: is_explored(maple))
    net.wait_agreement(maple)
    decided = maple.count("misses")
    assert maple.count("leaves_foreseen") > 0
    names = [host.name for host in net.hosts]
    for b in names:
        with net.serving(b, 22, 80):
            # Nobody has opened a connection so far, and the policy asks for port 22.
            assert all(net.tcp(a, b, port) for a in names if a != b for port in (22, 80))
    assert maple.count("misses") == decided
