"""Tests of the lessons: each policy does what its first lines promise."""

import pytest

EVERYONE = "ff:ff:ff:ff:ff:ff"


def test_the_firewall_follows_its_list(network):
    net = network("linear:3", policy="firewall.py")
    net.assert_dropped("h1", "h2", tcp_dst=22)
    net.assert_dropped("h1", "h2", tcp_src=22)
    net.assert_delivered("h1", "h2", tcp_dst=80, only=True)
    net.assert_delivered("h1", "h2", arp_op=2, only=True)
    net.assert_delivered("h1", ["h2", "h3"], arp_op=1, only=True)
    net.assert_dropped("h1", "h2", ipv4_src="10.1.0.1", tcp_dst=80)
    net.assert_dropped("h1", "h2", ipv6_dst="fd00::2", udp_dst=80)
    net.state.set("firewall", (("10.0.0.1/32", "10.0.0.2/32", 80, "allow"),))
    net.assert_delivered("h1", "h2", tcp_dst=80)
    net.assert_delivered("h2", "h1", tcp_src=80)
    net.assert_dropped("h2", "h1", tcp_dst=80)
    net.assert_dropped("h1", "h3", tcp_dst=80)


def test_packets_go_round_a_link_that_failed(network):
    net = network("ring:4", policy="link_failure.py")
    net.assert_delivered("h1", "h2", via=[1, 2], only=True)
    net.link_down(1, 2)
    net.assert_delivered("h1", "h2", via=[1, 4, 3, 2], only=True)
    net.assert_delivered("h1", ["h2", "h3", "h4"], eth_dst=EVERYONE, only=True)


def test_groups_reach_nobody_who_has_not_joined(network):
    net = network("ring:4", policy="multicast.py")
    net.assert_delivered("h1", "h2", via=[1, 2], only=True)
    net.assert_dropped("h1", ipv4_dst="239.1.1.1", udp_dst=5000)
    net.assert_dropped("h1", ipv6_dst="ff15::1", udp_dst=5000)
    net.assert_delivered("h1", ["h2", "h3", "h4"], ipv4_dst="224.0.0.5", udp_dst=5000, only=True)
    net.assert_delivered("h1", ["h2", "h3", "h4"], ipv6_dst="ff02::5", udp_dst=5000, only=True)
    net.assert_delivered("h1", ["h2", "h3", "h4"], arp_op=1, only=True)


def test_bulk_and_voice_arrive(network):
    net = network("ring:4", policy="quality_of_service.py")
    for fields in ({"udp_dst": 5004}, {"udp_dst": 9}, {"tcp_dst": 5004}, {}):
        net.assert_delivered("h1", "h2", via=[1, 2], only=True, **fields)
    assert any("set_queue:1" in rule for rule in net.rules(2)), "at the end, for voice"
    assert any("meter:" in rule for rule in net.rules(1)), "at the beginning, for bulk"


def test_pairs_talk_once_they_are_in_the_table(network):
    net = network("linear:3", policy="rules_from_outside.py")
    net.assert_dropped("h1", "h2", line="return drop()")
    net.state["allowed"][("10.0.0.1", "10.0.0.2")] = True
    net.assert_delivered("h1", "h2", only=True)
    net.assert_delivered("h2", "h1", tcp_dst=80, only=True)
    net.assert_dropped("h1", "h3")
    net.assert_dropped("h1", "h2", ipv6_dst="fd00::2")
    net.assert_delivered("h1", ["h2", "h3"], arp_op=1, only=True)
    net.assert_delivered("h1", "h3", arp_op=2, only=True)
    del net.state["allowed"][("10.0.0.1", "10.0.0.2")]
    net.assert_dropped("h1", "h2")


SPINE = {
    "switches": [{"name": f"s{number}"} for number in (1, 2, 3, 4)],
    "hosts": [{"name": "h1", "switch": "s1"}, {"name": "h2", "switch": "s2"}],
    "links": [{"a": leaf, "b": spine} for leaf in ("s1", "s2") for spine in ("s3", "s4")],
}


def test_flows_are_spread_over_both_spines(network):
    net = network(SPINE, policy="several_ways.py")
    ways = set()
    for port in range(40000, 40016):
        (copy,) = net.assert_delivered("h1", "h2", tcp_src=port, only=True).copies
        ways.add(copy.via[1])
    assert ways == {"s3", "s4"}
    net.link_down("s1", "s3")
    net.assert_delivered("h1", "h2", tcp_src=40000, via=["s1", "s4", "s2"])
    net.assert_delivered("h1", "h2", tcp_src=40001, via=["s1", "s4", "s2"])


def test_hosts_without_a_lease_say_nothing(network):
    net = network("linear:3", policy="source_guard.py")
    net.assert_dropped("h2", "h3")
    net.assert_dropped("h2", "h1", udp_src=67, udp_dst=68)
    net.assert_delivered("h1", "h2", only=True)
    net.assert_delivered("h2", ["h1", "h3"], eth_dst=EVERYONE, udp_src=68, udp_dst=67)


def test_the_hub_learns_places(network):
    net = network("ring:4", policy="switching_hub.py", known_hosts=False)
    net.assert_delivered("h1", ["h2", "h3", "h4"], eth_type=0x88B5, only=True)
    net.assert_delivered("h2", "h1", eth_type=0x88B5, via=[2, 1], only=True)
    places = net.state["places"].items()
    assert [str(mac) for mac, _ in places] == ["00:00:00:00:00:01", "00:00:00:00:00:02"]


def test_the_monitor_does_not_disturb(network):
    net = network("ring:4", policy="traffic_monitor.py")
    net.assert_delivered("h1", "h2", via=[1, 2], only=True)
    net.assert_delivered("h1", ["h2", "h3", "h4"], eth_dst=EVERYONE, only=True)


VLANS = {
    "switches": [{"name": "s1"}],
    "hosts": [
        {"name": "a", "switch": "s1", "ipv4": "10.0.10.1"},
        {"name": "b", "switch": "s1", "ipv4": "10.0.10.2"},
        {"name": "c", "switch": "s1", "ipv4": "10.0.20.1"},
    ],
}
ROUTER = "02:00:00:00:00:fe"


@pytest.fixture
def vlans(network):
    net = network(VLANS, policy="vlan_router.py")
    for host, vlan in (("a", 10), ("b", 10), ("c", 20)):
        net.send(host, None, vlan_vid=vlan, arp_op=1, arp_tpa=f"10.0.{vlan}.254")
    return net


def test_the_router_answers_and_routes(vlans):
    vlans.assert_delivered("a", "b", vlan_vid=10, only=True)
    vlans.assert_dropped("a", "b", vlan_vid=30)
    vlans.assert_dropped("a", "b")
    vlans.received("a")
    vlans.send("a", None, vlan_vid=10, arp_op=1, arp_tpa="10.0.10.254")
    answers = [frame for frame in vlans.received("a") if frame["arp_op"] == 2]
    assert [(str(frame["arp_sha"]), str(frame["arp_spa"])) for frame in answers] == [(ROUTER, "10.0.10.254")]
    arrives = {"vlan_vid": 20, "eth_src": ROUTER, "eth_dst": "00:00:00:00:00:03"}
    vlans.assert_delivered("a", "c", vlan_vid=10, eth_dst=ROUTER, udp_dst=5, arrives=arrives, only=True)
    vlans.assert_dropped("a", "c", vlan_vid=10, eth_dst=ROUTER, ipv4_dst="10.0.99.1", udp_dst=5)
    vlans.send("a", None, vlan_vid=10, eth_dst=ROUTER, ipv4_dst="10.0.10.254", icmpv4_type=8)
    assert [frame["icmpv4_type"] for frame in vlans.received("a") if frame["icmpv4_type"] is not None] == [0]
