"""Hosts move, links fail and come back, switches restart: the network follows, and nothing stale stays."""

import time

from harness import ROOT, sh, wait_for
from mininet.topo import LinearTopo
from test_paths import Ring


def no_rule_outputs_to(net, switch, port):
    return not any(
        f"output:{port}" in line.replace(",", " ").replace("=", " ").replace("actions ", "")
        for line in net.flows(switch)
    )


def port_towards(net, a, b):
    """The OpenFlow port of switch a that leads to switch b."""
    for link in net.net.links:
        ends = {link.intf1.node.name: link.intf1, link.intf2.node.name: link.intf2}
        if set(ends) == {a, b}:
            return net[a].ports[ends[a]]
    raise KeyError(f"no link {a}-{b}")


def test_a_host_that_moves_is_reached_again_at_once(controller, lab):
    maple = controller(ROOT / "examples/secure_routing.py")
    net = lab(LinearTopo(k=3), maple)
    assert net.ping_all() == 0
    sh("ovs-vsctl", "del-port", "s1", "s1-eth1", "--", "add-port", "s3", "s1-eth1")
    try:
        start = time.monotonic()
        wait_for("h1 behind s3", lambda: net.ping("h1", "h2", count=1) == 1, timeout=10)
        print(f"h1 reaches h2 {time.monotonic() - start:.2f} s after its move")
        assert net.ping("h2", "h1") == 3
        assert net.ping("h3", "h1") == 3
        places = {host["mac"]: host["switch"] for host in maple.show("hosts")}
        assert places[net["h1"].MAC()] == "0000000000000003"
    finally:
        sh("ovs-vsctl", "--if-exists", "del-port", "s3", "s1-eth1")


def test_a_link_that_goes_down_is_routed_round_and_no_stale_rule_stays(controller, lab):
    maple = controller(ROOT / "examples/secure_routing.py")
    net = lab(Ring(), maple)
    assert net.ping_all() == 0
    port = port_towards(net, "s1", "s2")
    net.net.configLinkStatus("s1", "s2", "down")
    start = time.monotonic()
    wait_for("h1 to reach h2 by the other way", lambda: net.ping("h1", "h2", count=1) == 1, timeout=10)
    print(f"h1 reaches h2 {time.monotonic() - start:.2f} s after the link went down")
    net.wait_links(down=1)
    wait_for("no rule towards the dead link", lambda: no_rule_outputs_to(net, "s1", port))
    assert net.ping_all() == 0

    net.net.configLinkStatus("s1", "s2", "up")
    net.wait_links()
    assert net.ping_all() == 0
    # A loop would multiply one broadcast: each of three other hosts sees one request a ping.
    net["h3"].cmd("tcpdump -n -i h3-eth0 -w /dev/null arp 2> /tmp/maple-system-arp & echo $! > /tmp/maple-system-pid")
    time.sleep(1)
    net["h1"].cmd("ip neigh flush all; ping -c 1 -W 1 10.0.0.200")
    time.sleep(4)
    net["h3"].cmd("kill $(cat /tmp/maple-system-pid); wait")
    counted = net["h3"].cmd("grep captured /tmp/maple-system-arp; rm -f /tmp/maple-system-arp /tmp/maple-system-pid")
    assert 1 <= int(counted.split()[0]) <= 6, counted


def test_a_switch_that_lost_its_table_gets_its_rules_again(controller, lab):
    maple = controller(ROOT / "examples/secure_routing.py")
    net = lab(LinearTopo(k=2), maple, "OpenFlow13")
    assert net.ping_all() == 0
    sh("ovs-vsctl", "del-controller", "s1")
    sh("ovs-ofctl", "-O", "OpenFlow13", "del-flows", "s1")
    sh("ovs-vsctl", "set-controller", "s1", f"tcp:127.0.0.1:{maple.port}")
    wait_for("the rules of s1", lambda: net.flows("s1") and net.flows("s1") == maple.rules(1))
    net.wait_links()
    assert net.ping_all() == 0
