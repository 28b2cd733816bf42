"""Each example on Open vSwitch keeps what its policy promises."""

import time

import pytest
from harness import EXAMPLES, wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from lab import Ears
from mininet.topo import LinearTopo, SingleSwitchTopo
from topologies import Ring

MARK = "a-datagram-of-the-tests"

ACL = """
permit arp
permit icmp any any
deny   tcp  10.0.0.1 10.0.0.3 23
permit tcp  10.0.0.0/30 any 20-80
permit tcp  any any 32768-65535   # answers
deny   ip   any any
"""


def settled(ears, expected):
    """Waits until as many copies came as are expected, then gives surplus ones time to come as well."""
    wait_for("the datagram", lambda: sum(ears.heard().values()) >= sum(expected.values()), timeout=5)
    time.sleep(0.3)
    return ears.heard()


def no_errors(maple):
    assert maple.show("errors") == []
    assert maple.count("policy_errors") == 0


def test_learning_floods_only_what_it_has_not_learned(controller, lab):
    maple = controller(EXAMPLES / "learning.py")
    net = lab(LinearTopo(k=3), maple)
    assert net.ping_all()[0] == 0
    with Ears(net, ["h1", "h2", "h3"], MARK) as ears:
        net.udp("h1", net["h2"].IP(), 9, MARK)
        # h2 has no such port and says so, quoting what it got.
        expected = {"h1": 1, "h2": 1, "h3": 0}
        assert settled(ears, expected) == expected
    before = maple.count("misses")
    assert net.ping("h1", "h3", count=5) == 5
    assert maple.count("misses") - before <= 2, "what is learned is answered by rules"
    net.wait_agreement(maple)
    no_errors(maple)


def test_shortest_path_leaves_out_the_long_way_and_broadcasts_without_loops(controller, lab):
    maple = controller(EXAMPLES / "shortest_path.py")
    net = lab(Ring(), maple)
    assert net.ping_all()[0] == 0
    net.wait_agreement(maple)
    pair = [f"dl_src={net['h1'].MAC()}", f"dl_dst={net['h2'].MAC()}"]
    assert net.ping("h1", "h2", count=5) == 5
    wait_for("s2 to have counted them", lambda: net.flow_packets("s2", *pair) >= 5)
    assert not [line for switch in ("s3", "s4") for line in net.flows(switch) if all(part in line for part in pair)]
    with Ears(net, ["h1", "h2", "h3", "h4"], MARK) as ears:
        net.udp("h1", "10.255.255.255", 9, MARK)
        expected = {"h1": 0, "h2": 1, "h3": 1, "h4": 1}
        assert settled(ears, expected) == expected
    no_errors(maple)


def test_acl_permits_and_denies_line_by_line(controller, lab, tmp_path):
    acl = tmp_path / "acl.txt"
    acl.write_text(ACL)
    maple = controller(EXAMPLES / "acl.py", environment={"MAPLE_ACL": str(acl)})
    net = lab(LinearTopo(k=4), maple)
    assert net.ping_all()[0] == 0
    with net.serving("h3", 22, 23, 443), net.serving("h2", 23, 80, 81):
        assert net.tcp("h1", "h3", 22)
        assert net.tcp("h2", "h3", 23)
        assert net.tcp("h1", "h2", 23)
        assert net.tcp("h1", "h2", 80)
        assert not net.tcp("h1", "h2", 81, timeout=1)
        assert not net.tcp("h1", "h3", 23, timeout=1)
        assert not net.tcp("h2", "h3", 443, timeout=1)
        assert not net.tcp("h4", "h3", 22, timeout=1)
    net.wait_agreement(maple)
    no_errors(maple)


def test_mt_route_keeps_tenants_apart_and_gives_each_its_own_paths(controller, lab):
    maple = controller(EXAMPLES / "mt_route.py")
    # h1 and h2 are of the red tenant, for whom the link between them is dear; h3 and h4 are of the blue one.
    net = lab(Ring(addresses=[f"10.0.{i}.1/16" for i in range(4)]), maple)
    hosts = ["h1", "h2", "h3", "h4"]
    tenants = [("h1", "h2"), ("h3", "h4")]
    for a in hosts:
        for b in hosts:
            if a != b:
                friends = (a, b) in tenants or (b, a) in tenants
                assert net.ping(a, b, timeout=2 if friends else 0.5) == friends, (a, b)
    with Ears(net, hosts, MARK) as ears:
        net["h1"].setARP(net["h3"].IP(), net["h3"].MAC())
        net.udp("h1", net["h3"].IP(), 9, MARK)
        net.udp("h1", net["h2"].IP(), 9, MARK)
        expected = {"h1": 1, "h2": 1, "h3": 0, "h4": 0}
        assert settled(ears, expected) == expected
    net.wait_agreement(maple)
    red = ["nw_src=10.0.0.0/24", "nw_dst=10.0.1.0/24"]
    blue = ["nw_src=10.0.2.0/24", "nw_dst=10.0.3.0/24"]
    wait_for("red to go the long way round", lambda: net.flow_packets("s4", *red) > 0)
    wait_for("blue to be counted", lambda: net.flow_packets("s4", *blue) > 0)
    before = net.port_packets("s3", net.port_towards("s3", "s2"))
    assert net.ping("h3", "h4", count=5) == 5
    assert net.port_packets("s3", net.port_towards("s3", "s2")) - before <= 3, "blue goes straight"
    no_errors(maple)


def test_multicast_group_gives_every_member_one_copy_and_others_none(controller, lab):
    maple = controller(EXAMPLES / "multicast_group.py")
    net = lab(Ring(n=5), maple)
    hosts = ["h1", "h2", "h3", "h4", "h5"]
    assert net.ping_all()[0] == 0
    groups = {"239.1.1.1": ["h2", "h3", "h4"], "239.1.1.2": ["h1", "h3"], "239.9.9.9": []}
    for number, (group, members) in enumerate(groups.items()):
        for sender in ("h1", "h5"):
            mark = f"{MARK} {number} {sender}"
            with Ears(net, hosts, mark) as ears:
                expected = {host: int(host in members and host != sender) for host in hosts}
                # The first goes through the controller, the second by rules.
                net.udp(sender, group, 9, mark)
                assert settled(ears, expected) == expected
                net.udp(sender, group, 9, mark)
                twice = {host: 2 * copies for host, copies in expected.items()}
                assert settled(ears, twice) == twice
    net.wait_agreement(maple)
    no_errors(maple)


def test_blocklist_changes_at_run_time_and_leaves_others_alone(controller, lab, figure, tmp_path):
    blocklist = tmp_path / "blocklist.txt"
    blocklist.write_text("# nobody\n")
    maple = controller(EXAMPLES / "blocklist.py", environment={"MAPLE_BLOCKLIST": str(blocklist)})
    net = lab(LinearTopo(k=3), maple)
    assert net.ping_all()[0] == 0
    net.wait_agreement(maple)
    pair = {net["h1"].MAC(), net["h2"].MAC()}

    def of_others():
        """The rules between h1 and h2, with their cookies: a rule taken out and put in again would have another."""
        lines = [line for switch in ("s1", "s2") for line in net.flows(switch)]
        return [line for line in lines if all(mac in line for mac in pair)]

    others = of_others()
    assert others
    blocklist.write_text(f"{net['h3'].MAC()}\n")
    start = time.monotonic()
    wait_for("h3 to be blocked", lambda: not net.ping("h1", "h3", timeout=0.3), timeout=5)
    figure(f"a host enters the blocklist's file: blocked within {time.monotonic() - start:.2f} s")
    assert not net.ping("h3", "h2", timeout=0.5)
    assert net.ping("h1", "h2", count=3) == 3
    assert of_others() == others
    blocklist.write_text("# nobody again\n")
    wait_for("h3 to be free", lambda: net.ping("h1", "h3", timeout=0.3), timeout=5)
    assert net.ping("h3", "h2", count=3) == 3
    assert of_others() == others
    net.wait_agreement(maple)
    no_errors(maple)


@pytest.mark.parametrize("protocols", ["OpenFlow10", "OpenFlow13"])
def test_a_policy_in_rust_runs_as_well(controller, lab, protocols):
    maple = controller("builtin:shortest-path")
    net = lab(SingleSwitchTopo(k=3), maple, protocols)
    assert net.ping_all()[0] == 0
    net.wait_agreement(maple)
    no_errors(maple)
