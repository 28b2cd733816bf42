"""Hosts move, links fail and recover, switches and the controller restart: the network follows, nothing stale stays."""

import re
import time

import pytest
from harness import EXAMPLES, free_port, sh, vsctl, wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from lab import Ears, Pinger
from mininet.topo import LinearTopo
from topologies import Ring, TwoHomes

POLICY = EXAMPLES / "secure_routing.py"
BOTH = pytest.mark.parametrize("protocols", ["OpenFlow10", "OpenFlow13"])


def outputs(net, switch):
    """The ports that a switch's rules send packets to."""
    return {int(port) for line in net.flows(switch) for port in re.findall(r"output:(\d+)", line)}


def assert_no_loop(net, hosts):
    """Every host but the sender gets one copy of a broadcast."""
    with Ears(net, hosts, "is-there-a-loop") as ears:
        net.udp(hosts[0], "10.255.255.255", 9, "is-there-a-loop")
        once = {host: int(host != hosts[0]) for host in hosts}
        wait_for("the broadcast", lambda: sum(ears.heard().values()) >= len(hosts) - 1, timeout=5)
        time.sleep(0.5)
        assert ears.heard() == once


@BOTH
def test_a_host_that_moves_is_reached_again_at_once(controller, lab, figure, protocols):
    maple = controller(POLICY)
    net = lab(LinearTopo(k=3), maple, protocols)
    assert net.ping_all()[0] == 0
    with Pinger(net, "h2", "h1") as pings:
        start = time.time()
        vsctl("del-port", "s1", "s1-eth1", "--", "add-port", "s3", "s1-eth1")
        moved = time.time() - start
        wait_for("h1 at s3", lambda: maple.hosts().get(net["h1"].MAC(), (0, 0))[0] == 3, timeout=10)
        gap = pings.gap(start)
    figure(f"a host moves, {protocols}: answers stay away for {gap:.2f} s (ovs-vsctl took {moved:.2f} s)")
    assert gap < 5
    assert net.ping_all()[0] == 0
    net.wait_agreement(maple)
    assert net.outputs("s1", src="h1", dst="h1") == set(), "nothing there leads to h1 any more"
    assert net.outputs("s2", src="h2", dst="h1") == {net.port_towards("s2", "s3")}


@BOTH
def test_a_host_that_moves_while_its_old_port_stays_up_is_believed_and_one_that_answers_there_is_not(
    controller, lab, figure, protocols
):
    maple = controller(POLICY)
    net = lab(TwoHomes(), maple, protocols)
    h1, old, new = net["h1"], "h1-eth0", "h1-eth1"
    mac, other_mac = h1.MAC(), "02:00:00:00:00:01"
    # An interface answers for its own address only.
    h1.cmd("sysctl -qw net.ipv4.conf.all.arp_ignore=1")
    assert net.ping_all()[0] == 0
    assert maple.hosts()[mac] == (1, 1)

    # The host moves, and its old port stays up.
    with Pinger(net, "h2", "h1") as pings:
        start = time.time()
        h1.cmd(
            f"ip address flush dev {old}; ip link set {old} address {other_mac};"
            f"ip link set {new} address {mac}; ip address add {h1.IP()}/8 dev {new}"
        )
        net.ping("h1", "h3")
        wait_for("h1 at s3", lambda: maple.hosts()[mac][0] == 3, timeout=10)
        gap = pings.gap(start)
    figure(f"a host moves and its old port stays up, {protocols}: answers stay away for {gap:.2f} s")
    assert gap < 5
    assert re.search(f"{mac} moved from 0+1:1 to 0+3:\\d: it does not answer at its old port", maple.text())
    assert net.ping_all()[0] == 0
    net.wait_agreement(maple)
    assert not [line for line in net.flows("s1") if f"dl_dst={mac}" in line and line.endswith("output:1")]

    # A host at the old port claims to be h1, which answers at its new place.
    at_s3 = maple.hosts()[mac]
    with Ears(net, ["h2"], "who-am-i") as ears:
        net.tool("h1", "frame", old, net["h2"].MAC(), mac, "who-am-i")
        lie = f"packets from {mac} at 0000000000000001:1 dropped: the host answers at 0000000000000003:{at_s3[1]}"
        wait_for("the report", lambda: lie in maple.text())
        assert ears.heard() == {"h2": 0}
    assert maple.hosts()[mac] == at_s3
    assert net.ping("h2", "h1", count=3) == 3


@BOTH
def test_a_link_that_fails_is_routed_round_and_when_it_recovers_there_is_no_loop(controller, lab, figure, protocols):
    maple = controller(POLICY)
    net = lab(Ring(), maple, protocols)
    hosts = ["h1", "h2", "h3", "h4"]
    assert net.ping_all()[0] == 0
    assert_no_loop(net, hosts)
    port = net.port_towards("s1", "s2")
    assert port in outputs(net, "s1")
    with Pinger(net, "h1", "h2") as pings:
        start = time.time()
        net.net.configLinkStatus("s1", "s2", "down")
        gap = pings.gap(start)
    figure(f"a link fails, {protocols}: answers stay away for {gap:.2f} s")
    assert gap < 5
    net.wait_known(maple, down=1)
    wait_for("no rule towards the dead link", lambda: port not in outputs(net, "s1"))
    assert net.ping_all()[0] == 0
    assert_no_loop(net, hosts)
    net.wait_agreement(maple)

    net.net.configLinkStatus("s1", "s2", "up")
    net.wait_known(maple)
    assert_no_loop(net, hosts)
    assert net.ping_all()[0] == 0
    wait_for("the short way to be used again", lambda: port in outputs(net, "s1"))
    net.wait_agreement(maple)


@BOTH
def test_a_switch_that_restarts_with_an_empty_table_gets_its_rules_again(controller, lab, protocols):
    maple = controller(POLICY)
    net = lab(LinearTopo(k=2), maple, protocols)
    assert net.ping_all()[0] == 0
    vsctl("del-controller", "s1")
    wait_for("s1 to be away", lambda: len(maple.connected()) == 1)
    sh("ovs-ofctl", "-O", protocols, "del-flows", "s1")
    vsctl("set-controller", "s1", f"tcp:127.0.0.1:{maple.port}")
    wait_for("s1", lambda: len(maple.connected()) == 2)
    wait_for("its rules", lambda: len(net.flows("s1")) > 3)
    net.wait_agreement(maple)
    assert net.ping_all()[0] == 0
    net.wait_agreement(maple)


@BOTH
def test_rules_that_vanish_from_a_connected_switch_come_back(controller, lab, protocols):
    maple = controller(POLICY)
    net = lab(LinearTopo(k=2), maple, protocols)
    assert net.ping_all()[0] == 0
    net.wait_agreement(maple)
    before = net.flows("s1")
    sh("ovs-ofctl", "-O", protocols, "del-flows", "s1")
    wait_for("the rules", lambda: net.flows("s1") == before)
    # The datapath may still drop what it saw when there were none.
    net.settle()
    assert net.ping_all()[0] == 0


@BOTH
def test_a_controller_that_restarts_replaces_the_rules_of_its_earlier_run(controller, lab, figure, protocols):
    port = free_port()
    first = controller(POLICY, port=port)
    net = lab(LinearTopo(k=3), first, protocols)
    assert net.ping_all()[0] == 0
    net.wait_agreement(first)
    old = set(net.flows("s2"))
    with Pinger(net, "h1", "h3") as pings:
        start = time.time()
        first.stop()
        assert net.ping("h1", "h3", count=5) == 5, "rules work without a controller"
        second = controller(POLICY, port=port)
        net.wait_known(second)
        gap = pings.gap(start)
    figure(f"the controller restarts, {protocols}: answers stay away for {gap:.2f} s")
    assert gap < 5
    assert net.ping_all()[0] == 0
    net.wait_agreement(second)
    assert not old & set(net.flows("s2")), "the cookies of another run are other cookies"
