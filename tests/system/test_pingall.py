"""Everybody reaches everybody, whatever version the switches speak."""

import pytest
from harness import ROOT, wait_for
from mininet.topo import LinearTopo
from mininet.topolib import TreeTopo

TOPOLOGIES = {"linear,3": lambda: LinearTopo(k=3), "tree,2,3": lambda: TreeTopo(depth=2, fanout=3)}


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("protocols", [None, "OpenFlow10", "OpenFlow13"])
def test_ping_all_loses_nothing(controller, lab, topology, protocols):
    maple = controller(ROOT / "examples/secure_routing.py")
    net = lab(TOPOLOGIES[topology](), maple, protocols)
    assert net.ping_all() == 0
    assert net.ping_all() == 0
    assert maple.show("errors") == []


@pytest.mark.parametrize("protocols", ["OpenFlow10", "OpenFlow13"])
def test_dumped_flows_are_the_controllers_own_view(controller, lab, protocols):
    maple = controller(ROOT / "examples/secure_routing.py")
    net = lab(LinearTopo(k=3), maple, protocols)
    assert net.ping_all() == 0
    for number in (1, 2, 3):
        wait_for(f"s{number} to agree", lambda n=number: net.flows(f"s{n}") == maple.rules(n))


@pytest.mark.parametrize("protocols", ["OpenFlow14", "OpenFlow15"])
def test_a_switch_that_speaks_only_newer_versions_is_refused_by_name(controller, lab, protocols):
    maple = controller(ROOT / "examples/secure_routing.py")
    with pytest.raises(AssertionError, match="still waiting"):
        lab(LinearTopo(k=2), maple, protocols)
    assert "Maple speaks OpenFlow 1.0 and 1.3" in maple.text()
