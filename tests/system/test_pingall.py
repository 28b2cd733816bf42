"""Every host reaches every other in either version, and the switches have the rules that Maple reports."""

import re

import pytest
from harness import EXAMPLES, MAPLE, free_port, sh, wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from mininet.topo import LinearTopo
from mininet.topolib import TreeTopo

POLICY = EXAMPLES / "secure_routing.py"
TOPOLOGIES = {"linear,3": lambda: LinearTopo(k=3), "tree,2,3": lambda: TreeTopo(depth=2, fanout=3)}


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("protocols", [None, "OpenFlow10", "OpenFlow13"])
def test_ping_all_loses_nothing(controller, lab, figure, topology, protocols):
    maple = controller(POLICY)
    net = lab(TOPOLOGIES[topology](), maple, protocols, quiet=False)
    for which in ("first", "second"):
        lost, total, median = net.ping_all()
        figure(f"pingall {topology} {protocols or 'default protocols'}, {which}: {lost} of {total} lost, {median} ms")
        assert lost == 0, which
    assert maple.errors() == []
    net.wait_agreement(maple)


COUNTERS = re.compile(r"n_packets=\d+, n_bytes=\d+, ")


@pytest.mark.parametrize("protocols", ["OpenFlow10", "OpenFlow13"])
def test_maple_show_prints_the_rules_as_open_vswitch_dumps_them(controller, lab, protocols):
    maple = controller(POLICY)
    net = lab(LinearTopo(k=2), maple, protocols)
    assert net.ping_all()[0] == 0
    net.wait_agreement(maple)
    shown = sh(MAPLE, "show", "rules", "1", "--control", str(maple.control)).splitlines()
    rules = [line.strip() for line in shown if "actions=" in line]
    assert all(COUNTERS.search(rule) for rule in rules)
    assert sorted(COUNTERS.sub("", rule) for rule in rules) == net.flows("s1")


@pytest.mark.parametrize("protocols", ["OpenFlow10", "OpenFlow13"])
def test_rules_of_others_are_never_touched(controller, lab, protocols):
    port = free_port()
    net = lab(LinearTopo(k=2), protocols=protocols, port=port)
    sh("ovs-ofctl", "-O", protocols, "add-flow", "s1", "cookie=0x77,priority=7,udp,tp_dst=7777,actions=drop")
    maple = controller(POLICY, port=port)
    net.wait_known(maple)
    sh("ovs-ofctl", "-O", protocols, "add-flow", "s1", "cookie=0x88,priority=65535,udp,tp_dst=8888,actions=drop")
    assert net.ping_all()[0] == 0
    leaves, withdrawn = maple.counts("leaves", "leaves_withdrawn")
    maple.ask({"invalidate": "all"})
    # Exploration soon decides again.
    wait_for("the rules to be withdrawn", lambda: maple.count("leaves_withdrawn") >= withdrawn + leaves)
    assert net.ping_all()[0] == 0
    wait_for("the exploration", maple.is_explored)
    foreign = [line for line in net.flows("s1") if "cookie=0x77" in line or "cookie=0x88" in line]
    assert len(foreign) == 2, net.flows("s1")
    wait_for("agreement", lambda: set(net.flows("s1")) - set(foreign) == set(maple.rules(1)))


@pytest.mark.parametrize("protocols", ["OpenFlow14", "OpenFlow15"])
def test_a_switch_that_speaks_only_newer_versions_is_refused_with_an_error_that_says_so(controller, lab, protocols):
    maple = controller(POLICY)
    lab(LinearTopo(k=2), protocols=protocols, port=maple.port)
    only = f"offers only 1.{protocols[-1]}"
    wait_for("the refusal", lambda: only in maple.text())
    (line, *_) = [line for line in maple.text().splitlines() if only in line]
    assert "1.0 and 1.3" in line
    assert maple.show("switches") == []
