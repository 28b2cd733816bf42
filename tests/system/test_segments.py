"""Plain bridges between the switches, and silent hosts: all are found, and each packet arrives once."""

import re
import subprocess
import time

import pytest
from harness import vsctl, wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from mininet.node import OVSBridge
from mininet.topo import LinearTopo, Topo

POLICY = "builtin:shortest-path"
BOTH = pytest.mark.parametrize("protocols", ["OpenFlow10", "OpenFlow13"])


class Segment(Topo):
    """Switches s1, s2, ... with a host each, all on the plain bridge `plain`, which has `extra` hosts x1, x2, ..."""

    def build(self, switches=2, extra=0):
        plain = self.addSwitch("plain", cls=OVSBridge, datapath="user", dpid="ff")
        for i in range(1, switches + 1):
            switch = self.addSwitch(f"s{i}")
            self.addLink(self.addHost(f"h{i}"), switch)
            self.addLink(switch, plain)
        for i in range(1, extra + 1):
            self.addLink(self.addHost(f"x{i}"), plain)


DROPS = (
    "bad_packet_ins",
    "truncated_drops",
    "link_drops",
    "new_port_drops",
    "segment_drops",
    "spoofed_drops",
    "wait_drops",
)


def check_pings(net, maple, a, b, count=8):
    """Checks that `count` pings are answered, each once."""

    def counts():
        names = (*DROPS, "packet_ins", "sent_by_controller", "of_packet_outs", "labels_refused")
        return {name: maple.count(name) for name in names}

    before = counts()
    text = net[a].cmd(f"ping -n -c {count} -i 0.2 -W 2 {net[b].IP()}")
    (received,) = re.findall(r"(\d+) received", text)
    if (int(received), text.count("DUP!")) != (count, 0):
        grown = {name: after - before[name] for name, after in counts().items()}
        raise AssertionError(f"{a} to {b}:\n{text}\nmeanwhile {grown}")


def connected(maple, switches):
    """Waits until discovery has joined the switches, and knows their hosts' ports."""

    def kinds():
        ports = [port for switch in maple.show("switches") for port in switch["ports"] if port["up"]]
        return sum(port["kind"] == "edge" for port in ports) >= switches and len(maple.show("links")) >= switches - 1

    wait_for("links over the bridge", kinds)


@BOTH
@pytest.mark.parametrize("passes_lldp", [False, True])
def test_two_switches_with_a_plain_bridge_between_them_are_linked(controller, lab, protocols, passes_lldp):
    maple = controller(POLICY)
    net = lab(Segment(2), port=maple.port, protocols=protocols)
    vsctl("set", "bridge", "plain", f"other-config:forward-bpdu={str(passes_lldp).lower()}")
    if passes_lldp:
        # What was found before the bridge was told is found again.
        net.net.configLinkStatus("s1", "plain", "down")
        net.net.configLinkStatus("s1", "plain", "up")
    connected(maple, 2)
    check_pings(net, maple, "h1", "h2")
    check_pings(net, maple, "h2", "h1")
    if not passes_lldp:
        # Single frames may be lost, so some probes have to come without LLDP.
        wait_for("the warning", lambda: "a bridge that filters LLDP" in maple.text(), timeout=30)
    assert ("a bridge that filters LLDP" in maple.text()) != passes_lldp
    assert "a plain bridge joins" not in maple.text()


@BOTH
def test_hosts_on_a_bridge_between_two_switches_are_reached(controller, lab, protocols):
    maple = controller(POLICY)
    net = lab(Segment(2, extra=2), port=maple.port, protocols=protocols)
    connected(maple, 2)
    check_pings(net, maple, "h1", "h2")
    # Only what comes later than a second after the link does shows a host.
    time.sleep(1.5)
    for a, b in [("x1", "h1"), ("h2", "x1"), ("x2", "h2"), ("h1", "x2"), ("x1", "x2"), ("h1", "h2"), ("h2", "h1")]:
        check_pings(net, maple, a, b)
    assert maple.text().count("a plain bridge joins") == 1, maple.text()
    kinds = [port["kind"] for switch in maple.show("switches") for port in switch["ports"]]
    assert kinds.count("shared") == 1


@BOTH
def test_three_switches_on_one_bridge_reach_each_other_and_its_hosts_without_duplicates(controller, lab, protocols):
    maple = controller(POLICY)
    net = lab(Segment(3, extra=1), port=maple.port, protocols=protocols)
    connected(maple, 3)
    wait_for("the segment", lambda: "a plain bridge joins" in maple.text())
    names = ["h1", "h2", "h3", "x1"]
    for a in names:
        for b in names:
            if a != b:
                check_pings(net, maple, a, b, 4)
    # No loop: a quiet network stays quiet.
    before = maple.count("packet_ins")
    time.sleep(3)
    assert maple.count("packet_ins") - before < 100


@BOTH
def test_a_silent_host_that_moves_loses_two_pings_at_most(controller, lab, figure, protocols):
    maple = controller(POLICY)
    net = lab(LinearTopo(k=3), maple, protocols)
    assert net.ping_all()[0] == 0
    mac = net["h1"].MAC()
    # It answers, and says nothing by itself.
    ping = net["h3"].popen(["ping", "-n", "-c", "12", "-i", "1", "-W", "1", net["h1"].IP()], stdout=subprocess.PIPE)
    time.sleep(2.5)
    vsctl("del-port", "s1", "s1-eth1", "--", "add-port", "s2", "s1-eth1")
    wait_for("h1 at s2", lambda: maple.hosts().get(mac, (0, 0))[0] == 2, timeout=10)
    text = ping.communicate(timeout=30)[0].decode()
    (received,) = re.findall(r"(\d+) received", text)
    figure(f"a silent host moves, {protocols}: {12 - int(received)} of 12 pings lost")
    assert int(received) >= 10, text
