"""The controller is killed and starts again, on Open vSwitch: what switches do for it goes on."""

import functools
import re
import signal
import subprocess
import time

import pytest
from harness import ROOT, wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from lab import Pinger
from outages import wait_probed
from topologies import Ring

POLICY = ROOT / "examples" / "secure_routing.py"


@pytest.mark.parametrize("protocols", ["OpenFlow10", "OpenFlow13"])
@pytest.mark.parametrize("ends", [signal.SIGKILL, signal.SIGTERM])
def test_a_restart_changes_no_rule_and_loses_no_ping(controller, lab, tmp_path, protocols, ends, figure):
    state = ("--state", tmp_path / "state")
    maple = controller(POLICY, *state)
    net = lab(Ring(), maple, protocols)
    assert net.ping_all()[0] == 0
    net.wait_agreement(maple)
    before = {switch.name: net.flows(switch.name) for switch in net.switches}
    with Pinger(net, "h1", "h3") as ping:
        for _ in range(2):
            # What is new is written twice a second.
            time.sleep(1.5)
            leaves = maple.count("leaves")
            maple.process.send_signal(ends)
            maple.process.wait()
            maple = controller(POLICY, *state, port=maple.port)
            net.wait_known(maple)
            there = functools.partial(maple.count, "leaves")
            wait_for(f"{leaves} leaves", lambda there=there, leaves=leaves: there() >= leaves)
        wait_probed(maple)
        lost, sent = ping.end()
    changes = maple.count("flow_mods")
    figure(f"{protocols}, {ends.name}: {lost} of {sent} pings lost over two restarts, {changes} flow-mods")
    assert lost == 0
    assert changes == 0
    assert {switch.name: net.flows(switch.name) for switch in net.switches} == before
    assert net.ping_all()[0] == 0
    assert maple.errors() == []


@pytest.mark.parametrize("protocols", ["OpenFlow10", "OpenFlow13"])
def test_a_take_over_reconnects_no_switch_and_loses_no_ping(controller, lab, tmp_path, protocols, figure):
    maple = controller(POLICY, "--state", tmp_path / "state")
    net = lab(Ring(), maple, protocols)
    assert net.ping_all()[0] == 0
    net.wait_agreement(maple)
    before = {switch.name: net.flows(switch.name) for switch in net.switches}
    peers = sorted(switch["peer"] for switch in maple.show("switches"))
    with Pinger(net, "h1", "h3") as ping:
        for _ in range(2):
            # What is new is written twice a second.
            time.sleep(1.5)
            maple.take_over(POLICY, "--state", tmp_path / "state")
            wait_for("the switches", lambda: len(maple.show("switches")) == 4)
            net.wait_known(maple)
        wait_probed(maple)
        lost, sent = ping.end()
    changes, connections = maple.count("flow_mods"), maple.count("of_connections")
    figure(f"{protocols}: {lost} of {sent} pings lost over two take-overs, {changes} flow-mods")
    assert (lost, changes, connections) == (0, 0, 0)
    assert sorted(switch["peer"] for switch in maple.show("switches")) == peers
    assert {switch.name: net.flows(switch.name) for switch in net.switches} == before
    assert net.ping_all()[0] == 0
    assert maple.errors() == []


def own_rules(net):
    """What the rules of s1 match for packets that enter there."""
    rules = [line for line in net.dump("s1") if "table=5," in line]
    return sorted(re.search(r"priority=(\S+) actions", line).group(1) for line in rules)


def test_a_switch_that_comes_back_gets_its_rules_at_once(controller, lab, tmp_path, figure):
    """Its connection ends, and its rules stay; then it loses its rules too, and gets them without a packet."""
    maple = controller(POLICY, "--state", tmp_path / "state")
    net = lab(Ring(), maple)
    assert net.ping_all()[0] == 0
    net.wait_agreement(maple)
    (target,) = subprocess.run(
        ["ovs-vsctl", "get-controller", "s1"], capture_output=True, text=True, check=True
    ).stdout.split()
    before, ups = maple.count("flow_mods"), maple.count("of_dp_connections")
    rules = own_rules(net)

    def reconnect(*between):
        nonlocal ups
        subprocess.run(["ovs-vsctl", "del-controller", "s1"], check=True)
        wait_for("the end", lambda: len(maple.connected()) == 3)
        for command in between:
            subprocess.run(command, check=True)
        subprocess.run(["ovs-vsctl", "set-controller", "s1", target], check=True)
        ups += 1
        wait_for("the switch", lambda: maple.count("of_dp_connections") == ups and len(maple.connected()) == 4)
        net.wait_known(maple)
        net.wait_agreement(maple)

    with Pinger(net, "h2", "h3") as ping:
        reconnect(["ovs-ofctl", "-O", "OpenFlow13", "del-flows", "s1"])
        assert ping.end()[0] == 0
    figure(f"a switch that came back empty: {maple.count('flow_mods') - before} flow-mods for {len(rules)} rules")
    assert own_rules(net) == rules
    assert net.ping_all()[0] == 0
    assert maple.errors() == []
