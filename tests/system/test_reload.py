"""A policy is reloaded while hosts talk, on Open vSwitch: what it says as before stays as it is, packets and rules."""

import subprocess

import pytest
from harness import MAPLE, wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from lab import Pinger
from topologies import Ring

# A list of 200 lines in a program.
POLICY = """
from maple import drop, flood, policy

DENIED = {%s}


@policy
def lists(pkt, net):
    if pkt.eth_dst.is_multicast:
        return flood()
    for port in range(1, 201):
        if pkt.matches(tcp_dst=port):
            if port in DENIED:
                return drop()
            break
    src, dst = net.locate(pkt.eth_src), net.locate(pkt.eth_dst)
    return flood() if dst is None else net.shortest_path(src, dst)
"""


def reload(maple, *arguments):
    return subprocess.run(
        [MAPLE, "reload", *arguments, "--control", str(maple.control)], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("protocols", ["OpenFlow10", "OpenFlow13"])
def test_a_changed_line_changes_its_rules_and_no_ping_is_lost(controller, lab, tmp_path, protocols, figure):
    file = tmp_path / "lists.py"
    file.write_text(POLICY % "23")
    maple = controller(file)
    net = lab(Ring(), maple, protocols)
    assert net.ping_all()[0] == 0
    with net.serving("h3", 22, 23, 80):
        for host in ("h1", "h2", "h4"):
            assert net.tcp(host, "h3", 80) and net.tcp(host, "h3", 22)
            assert not net.tcp(host, "h3", 23, timeout=0.5)
        net.wait_agreement(maple)
        before = maple.count("flow_mods")
        with Pinger(net, "h1", "h2") as ping:
            assert reload(maple).returncode == 0
            same = maple.count("flow_mods") - before
            file.write_text(POLICY % "23, 80")
            done = reload(maple)
            assert done.returncode == 0, done.stderr
            changed = maple.count("flow_mods") - before - same
            file.write_text(POLICY % "23, 80, nothing")
            assert "NameError" in reload(maple).stderr
            lost = ping.end()[0]
        figure(f"{protocols}: reloads of a list of 200 lines: {same} flow-mods without a change, {changed} for a line")
        assert same == 0, "nothing has changed"
        assert 1 <= changed <= 4 * 2 * (1 + 4), "four switches, both versions of IP: a drop in place of four ways"
        assert lost == 0
        for host in ("h1", "h2", "h4"):
            assert not net.tcp(host, "h3", 80, timeout=0.5)
            assert net.tcp(host, "h3", 22)
            assert not net.tcp(host, "h3", 23, timeout=0.5)
        net.wait_agreement(maple)
    assert maple.errors() == []


def test_another_route_is_changed_over_while_packets_flow(controller, lab, tmp_path):
    file = tmp_path / "ways.py"
    text = """
from maple import costs, flood, policy

costs("far", {(1, 2): 10, (2, 1): 10})


@policy
def ways(pkt, net):
    if pkt.eth_dst.is_multicast:
        return flood()
    src, dst = net.locate(pkt.eth_src), net.locate(pkt.eth_dst)
    return flood() if dst is None else net.shortest_path(src, dst)
"""
    file.write_text(text)
    maple = controller(file)
    net = lab(Ring(), maple)
    assert net.ping_all()[0] == 0
    far = net.port_towards("s1", "s4")
    with Pinger(net, "h1", "h2") as ping:
        file.write_text(text.replace("net.shortest_path(src, dst)", 'net.path(src, dst, cost="far")'))
        before = net.port_packets("s1", far)
        assert reload(maple).returncode == 0
        wait_for("the packets to go the other way", lambda: net.port_packets("s1", far) > before + 50)
        assert ping.end()[0] == 0
    net.wait_agreement(maple)
    assert maple.errors() == []
