"""Tests of mt_route.py: four hosts, one in each subnet."""

import pytest

RING = {
    "switches": [{"name": f"s{number}"} for number in (1, 2, 3, 4)],
    "hosts": [
        {"name": "red1", "switch": "s1", "ipv4": "10.0.0.1"},
        {"name": "red2", "switch": "s2", "ipv4": "10.0.1.1"},
        {"name": "blue1", "switch": "s3", "ipv4": "10.0.2.1"},
        {"name": "blue2", "switch": "s2", "ipv4": "10.0.3.1"},
        {"name": "guest", "switch": "s4", "ipv4": "10.0.4.1"},
        {"name": "blue3", "switch": "s4", "ipv4": "10.0.2.2"},
    ],
    "links": [{"a": f"s{a}", "b": f"s{b}"} for a, b in ((1, 2), (2, 3), (3, 4), (4, 1))],
}
EVERYONE = "ff:ff:ff:ff:ff:ff"


@pytest.fixture
def net(network):
    return network(RING, policy="mt_route.py")


def test_each_tenant_has_its_own_shortest_path(net):
    net.assert_delivered("red1", "red2", tcp_dst=80, via=["s1", "s4", "s3", "s2"], only=True)
    net.assert_delivered("red2", "red1", via=["s2", "s3", "s4", "s1"], only=True)
    # From s3 to s2 the link costs blue 5, and the other way costs 2 + 1 + 1.
    net.assert_delivered("blue1", "blue2", via=["s3", "s4", "s1", "s2"], only=True)
    net.assert_delivered("blue1", "blue3", via=["s3", "s4"], only=True)


def between(one, other, by, cost, addresses):
    """A link between two switches, and a way round that costs so much."""
    return {
        "switches": [{"name": f"s{number}"} for number in (1, 2, 3, 4)],
        "hosts": [{"name": f"h{at}", "switch": at, "ipv4": ip} for at, ip in zip((one, other), addresses, strict=True)],
        "links": [
            {"a": one, "b": other},
            {"a": one, "b": by, "attributes": {"red": cost - 1, "blue": cost - 1}},
            {"a": by, "b": other},
        ],
    }


RED, BLUE = ("10.0.0.1", "10.0.1.1"), ("10.0.2.1", "10.0.3.1")


@pytest.mark.parametrize(
    ("one", "other", "tenant", "cost"), [("s1", "s2", RED, 5), ("s2", "s3", BLUE, 5), ("s3", "s4", BLUE, 2)]
)
def test_a_link_costs_its_tenant_so_much(network, one, other, tenant, cost):
    by = next(name for name in ("s1", "s2", "s3", "s4") if name not in (one, other))
    dear = network(between(one, other, by, cost, tenant), policy="mt_route.py")
    dear.assert_delivered(f"h{one}", f"h{other}", via=[one, other], only=True)
    if cost > 2:
        cheap = network(between(one, other, by, cost - 1, tenant), policy="mt_route.py")
        cheap.assert_delivered(f"h{one}", f"h{other}", via=[one, by, other], only=True)


def test_of_two_ways_that_cost_the_same_the_one_by_the_lower_port_is_taken(network):
    ways = {
        "switches": [{"name": f"s{number}"} for number in (1, 2, 3, 4, 5)],
        "hosts": [
            {"name": "h1", "switch": "s3", "ipv4": "10.0.2.1"},
            {"name": "h2", "switch": "s5", "ipv4": "10.0.3.1"},
        ],
        "links": [
            {"a": "s3", "b": "s1", "attributes": {"blue": 2}},
            {"a": "s1", "b": "s5"},
            {"a": "s3", "b": "s4"},
            {"a": "s4", "b": "s5"},
        ],
    }
    # From s3 to s4 the link costs 2 for blue: as much as the one from s3 to s1.
    network(ways, policy="mt_route.py").assert_delivered("h1", "h2", via=["s3", "s1", "s5"], only=True)


def test_costs_are_the_tenants_own(net):
    # Without the link from s4 to s1 both have one way; without that from s1 to s2 red and blue meet at s3.
    net.link_down("s4", "s1")
    net.assert_delivered("blue1", "blue2", via=["s3", "s2"], only=True)
    net.assert_delivered("red1", "red2", via=["s1", "s2"], only=True)


def test_tenants_are_apart(net):
    for one in ("red1", "red2"):
        for other in ("blue1", "blue2", "guest"):
            net.assert_dropped(one, other, line="return drop()")
            net.assert_dropped(other, one, udp_dst=53)
    net.assert_dropped("guest", "guest", eth_dst="00:00:00:00:00:01")
    assert net.assert_isolated("red1", "blue1", ipv4_src="10.0.0.1", ipv4_dst="10.0.2.1", both_ways=False)


def test_what_is_no_ipv4_is_dropped(net):
    net.assert_dropped("red1", "red2", ipv6_dst="fd00::2", tcp_dst=80)
    net.assert_dropped("red1", "red2", eth_type=0x88B5)


def test_arp_requests_reach_the_tenant(net):
    others = ["red2", "blue1", "blue2", "guest", "blue3"]
    net.assert_delivered("red1", others, arp_tpa="10.0.1.1", only=True)
    net.assert_delivered("red1", others, arp_tpa="10.0.0.77", only=True)
    net.assert_dropped("red1", "blue1", arp_tpa="10.0.2.1")
    net.assert_dropped("guest", "red1", arp_tpa="10.0.4.9")
    net.assert_dropped("red1", "red2", arp_spa="10.0.9.1", arp_tpa="10.0.1.1")


def test_arp_answers_take_the_shortest_path(net):
    net.assert_delivered("red1", "red2", arp_op=2, via=["s1", "s2"], only=True)
    net.assert_dropped("blue1", "red2", arp_op=2)


@pytest.mark.parametrize(("subnet", "tenant"), [(0, "red"), (1, "red"), (2, "blue"), (3, "blue")])
def test_each_subnet_belongs_to_its_tenant(net, subnet, tenant):
    partner = {"red": "red1", "blue": "blue1"}[tenant]
    stranger = {"red": "blue1", "blue": "red1"}[tenant]
    net.assert_delivered("guest", partner, ipv4_src=f"10.0.{subnet}.200")
    net.assert_dropped("guest", stranger, ipv4_src=f"10.0.{subnet}.200")
