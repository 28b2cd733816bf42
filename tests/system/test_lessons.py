"""The lessons on Open vSwitch: each does what its first lines promise."""

import json
import re
import sys
import time

import pytest
from harness import EXAMPLES, sh, vsctl, wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from mininet.node import OVSBridge
from mininet.topo import LinearTopo, SingleSwitchTopo, Topo
from topologies import Ring

LESSONS = EXAMPLES / "lessons"
BOTH = pytest.mark.parametrize("protocols", ["OpenFlow10", "OpenFlow13"])


@BOTH
def test_switching_hub_sends_to_where_hosts_were_seen(controller, lab, protocols):
    maple = controller(LESSONS / "switching_hub.py")
    net = lab(LinearTopo(k=3), maple, protocols)
    assert net.ping_all()[0] == 0
    before = net.port_packets("s2", 1)
    assert net.ping("h1", "h3", count=10) == 10
    assert net.port_packets("s2", 1) - before <= 4, "h2 hears at most ARP"
    places = dict(json.loads(maple.state("get", "places")))
    assert {host.MAC(): places[host.MAC()] for host in net.hosts} == {f"00:00:00:00:00:0{n}": [n, 1] for n in (1, 2, 3)}


@BOTH
def test_the_traffic_monitor_tells_what_ports_and_hosts_send(controller, lab, protocols):
    maple = controller(LESSONS / "traffic_monitor.py")
    net = lab(SingleSwitchTopo(k=2), maple, protocols)
    assert net.ping_all()[0] == 0
    # 50 frames of 1,000 bytes a second each way.
    with net.running("h1", "ping", "-q", "-n", "-i", "0.02", "-s", "958", net["h2"].IP()):
        began, pair = len(maple.text()), rf"{net['h1'].MAC()} to {net['h2'].MAC()}"

        def second():
            """The second report from here, with a rate of the last ten seconds."""
            reports = re.split("^ +port .*$", maple.text()[began:], flags=re.MULTILINE)[1:]
            return len(reports) > 1 and pair in reports[1] and reports[1]

        report = wait_for("a second report", second, timeout=30)
    (received, rate) = re.search(r"^ +1:1 +(\d+) +\d+ +([\d.]+) +[\d.]+$", report, re.MULTILINE).groups()
    assert int(received) > 10 * 25 * 900
    # `ping` makes up for no delay.
    assert 0.2 < float(rate) < 0.48, report
    assert re.search(rf"^{pair}: \d+ bytes, 0\.[2-4]\d Mbit/s$", report, re.MULTILINE), report


def test_rules_are_changed_from_outside(controller, lab):
    maple = controller(LESSONS / "rules_from_outside.py")
    net = lab(SingleSwitchTopo(k=3), maple)
    assert net.ping("h1", "h2", count=2) == 0
    maple.state("set", "allowed", '["10.0.0.1", "10.0.0.2"]', "true", "--settled")
    assert (net.ping("h1", "h2", count=3), net.ping("h1", "h3")) == (3, 0)
    maple.state("delete", "allowed", '["10.0.0.1", "10.0.0.2"]', "--settled")
    assert net.ping("h2", "h1", count=2) == 0


@BOTH
def test_packets_take_another_way_when_a_link_fails(controller, lab, protocols):
    maple = controller(LESSONS / "link_failure.py")
    net = lab(Ring(4), maple, protocols)
    assert net.ping_all()[0] == 0
    with net.link_down("s1", "s2"):
        wait_for("discovery to hear of it", lambda: len(maple.show("links")) == 3)
        wait_for("the other way", lambda: net.ping("h1", "h2") == 1)
        assert net.ping("h1", "h2", count=10) == 10
        assert re.search(r"port s\d-eth\d is down; links: \d", maple.text())
    net.wait_known(maple)
    assert net.ping_all()[0] == 0


def test_the_firewall_lets_through_what_its_list_says_and_the_list_may_change(controller, lab):
    maple = controller(LESSONS / "firewall.py")
    net = lab(LinearTopo(k=2), maple)
    with net.serving("h2", 22, 80):
        assert net.ping("h1", "h2", count=2) == 2
        assert net.tcp("h1", "h2", 80)
        assert not net.tcp("h1", "h2", 22, timeout=1)
        only = [["10.0.0.1/32", "10.0.0.2/32", 22, "allow"]]
        maple.state("set", "firewall", json.dumps(only), "--var", "--settled")
        assert net.tcp("h1", "h2", 22)
        assert not net.tcp("h1", "h2", 80, timeout=1)
        assert net.ping("h1", "h2") == 0


def test_bulk_is_limited_and_voice_goes_through_its_queue(controller, lab):
    maple = controller(LESSONS / "quality_of_service.py")
    net = lab(SingleSwitchTopo(k=2), maple, "OpenFlow13")
    assert net.ping_all()[0] == 0

    def arrived(port, packets):
        """The number of datagrams of 1,000 bytes that come at a port of h2, and the seconds it took to send them."""
        before = net.port_packets("s1", 2)
        send = f"import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); a = ('10.0.0.2', {port})"
        sent = net["h1"].cmd(
            f'{sys.executable} -c "{send}; began = time.time(); '
            f"[(s.sendto(bytes(1000), a), time.sleep(0.001)) for _ in range({packets})]; "
            'print(time.time() - began)"'
        )
        time.sleep(1)
        return net.port_packets("s1", 2) - before, float(sent)

    assert 10 <= arrived(9000, 10)[0] <= 20, "it makes the rule"
    # 200 kilobits at once are 25 of these packets, and a second is 125 more.
    count, seconds = arrived(9000, 1000)
    assert 10 <= count <= 45 + 150 * seconds, seconds
    assert arrived(5004, 1000)[0] >= 800, "voice is not limited"
    assert any("set_queue:1" in line for line in net.flows("s1"))
    text = sh("ovs-ofctl", "-O", "OpenFlow13", "dump-meters", "s1")
    assert re.search(r"meter=32768 .*kbps.*rate=1000 burst_size=200", text, re.DOTALL), text
    assert maple.count("of_errors") == 0


class Spines(Topo):
    """Two leaves, s1 and s2, with a host each, and two spines, s3 and s4."""

    def build(self):
        leaves = [self.addSwitch(f"s{n}") for n in (1, 2)]
        spines = [self.addSwitch(f"s{n}") for n in (3, 4)]
        for n, leaf in enumerate(leaves, 1):
            self.addLink(self.addHost(f"h{n}"), leaf)
        for leaf in leaves:
            for spine in spines:
                self.addLink(leaf, spine)


@BOTH
def test_flows_are_spread_over_both_spines_by_a_few_rules(controller, lab, protocols):
    maple = controller(LESSONS / "several_ways.py")
    net = lab(Spines(), maple, protocols)
    assert net.ping_all()[0] == 0
    with net.serving("h2", 80):
        assert all(net.tcp("h1", "h2", 80) for _ in range(24))
        passed = {spine: net.passing(spine) for spine in ("s3", "s4")}
        assert min(passed.values()) > 10, passed
        with net.link_down("s1", "s3"):
            wait_for("discovery to hear of it", lambda: len(maple.show("links")) == 3)
            assert all(net.tcp("h1", "h2", 80) for _ in range(8))
    tcp = [line for line in net.flows("s1") if "tcp" in line]
    assert 0 < len(tcp) <= 40, f"{len(tcp)} rules for 32 connections"


class Access(Topo):
    """s1 - s2; at each a plain switch with a host in VLAN 10, and at s2 also one in VLAN 20."""

    HOSTS = (("h1", "t1", 10, "10.0.10.1"), ("h2", "t2", 10, "10.0.10.2"), ("h3", "t2", 20, "10.0.20.3"))

    def build(self):
        for name in ("s1", "s2"):
            self.addSwitch(name)
        for name in ("t1", "t2"):
            self.addSwitch(name, cls=OVSBridge, datapath="user")
        for name, bridge, vlan, address in self.HOSTS:
            router = f"10.0.{vlan}.254"
            self.addLink(self.addHost(name, ip=f"{address}/24", defaultRoute=f"via {router}"), bridge)
        for a, b in (("t1", "s1"), ("s1", "s2"), ("t2", "s2")):
            self.addLink(a, b)


@BOTH
def test_the_vlan_router_joins_networks_and_keeps_vlans_apart(controller, lab, protocols):
    maple = controller(LESSONS / "vlan_router.py")
    net = lab(Access(), port=maple.port, protocols=protocols)
    for name, bridge, vlan, _ in Access.HOSTS:
        vsctl("set", "port", f"{bridge}-eth{net.port_towards(bridge, name)}", f"tag={vlan}")
    wait_for("the link", lambda: len(maple.show("links")) == 1)
    # The policy drops what is for unknown hosts.
    wait_for("h2 to be found", lambda: net.ping("h1", "h2") == 1)
    assert net.ping("h1", "h2", count=3) == 3, "within a VLAN"
    assert net.ping("h1", "10.0.10.254", count=3) == 3, "the router"
    # The first packets ask for h3, and are lost.
    wait_for("h3 to be found", lambda: net.ping("h1", "h3") == 1)
    assert net.ping("h1", "h3", count=5) == 5, "between VLANs"
    assert net.ping("h3", "h2", count=5) == 5
    with net.serving("h3", 80):
        assert net.tcp("h1", "h3", 80)
    assert maple.count("of_errors") == 0
