"""Tests of policies run on Open vSwitch as on emulated networks, and leave nothing behind."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from harness import EXAMPLES, MAPLE, sh, vsctl

TESTS = """
import pytest

def test_it_is_delivered(network):
    net = network("ring:4", policy="f.py")
    net.assert_delivered("h1", "h2", tcp_dst=80, via=[1, 2], arrives={"ip_dscp": 8}, only=True)
    net.assert_delivered("h1", ["h2", "h3", "h4"], eth_dst="ff:ff:ff:ff:ff:ff", only=True)
    net.assert_dropped("h1", "h2", tcp_dst=23, line="drop()")
    net.state["blocked"]["00:00:00:00:00:01"] = True
    net.assert_dropped("h1", "h2", tcp_dst=80)
    del net.state["blocked"]["00:00:00:00:00:01"]
    net.link_down(1, 2)
    net.assert_delivered("h1", "h2", tcp_dst=80, vlan_vid=7, via=[1, 4, 3, 2], arrives={"vlan_vid": 7})
    assert net.assert_no_loops()

def test_it_fails(network):
    network("linear:2", policy="f.py").assert_delivered("h1", "h2", tcp_dst=23)

def test_it_is_skipped(network):
    network("linear:2", policy="f.py").ping("h1", "h2")

def test_the_controller_does_not_start(network):
    network("linear:2", policy="g.py")
"""
POLICY = """
from maple import Mac, Table, drop, flood, policy

blocked = Table("blocked", key=Mac, value=bool)

@policy
def f(pkt, net):
    if pkt.tcp_dst == 23 or pkt.eth_src in blocked:
        return drop()
    if pkt.eth_dst.is_multicast:
        return flood()
    path = net.shortest_path(net.locate(pkt.eth_src), net.locate(pkt.eth_dst)) or flood()
    return path.set(ip_dscp=8) if pkt.tcp_dst == 80 else path
"""
# Fails in the controller's process, and not where the test loads it.
FAILS = POLICY + "\nimport sys\nassert 'pytest' in sys.modules\n"


def left_behind():
    """What tests may have left on the machine."""
    links = re.findall(r"^\d+: (mk[0-9a-f]+n[^@:]+)", sh("ip", "link"), re.MULTILINE)
    return links, [line for line in sh("ip", "netns").split() if line.startswith("mk")]


def run(folder, *options):
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    command = [MAPLE, "test", *map(str, options), "--maple-ovs", "-rs", "-p", "no:cacheprovider"]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.usefixtures("openvswitch")
def test_words_mean_the_same_and_nothing_is_left(tmp_path):
    (tmp_path / "f.py").write_text(POLICY)
    (tmp_path / "g.py").write_text(FAILS)
    (tmp_path / "test_f.py").write_text(TESTS)
    before = left_behind()
    done = run(tmp_path, "f.py")
    assert "2 failed, 1 passed, 1 skipped" in done.stdout, done.stdout + done.stderr
    assert "h2 did not get it" in done.stdout
    assert "ping() is answered by emulated hosts" in done.stdout
    assert "maple run ended with status" in done.stdout
    assert left_behind() == before
    assert not [bridge for bridge in vsctl("list-br").split() if bridge.startswith("mk")]


@pytest.mark.usefixtures("openvswitch")
def test_an_examples_tests_pass(tmp_path):
    done = run(Path(tmp_path), EXAMPLES / "secure_routing.py")
    assert done.returncode == 0 and "passed" in done.stdout, done.stdout + done.stderr
