"""Tests of secure_routing.py."""

import pytest


def test_ssh_takes_the_long_way(network):
    net = network("ring:4", policy="secure_routing.py")
    net.assert_delivered("h1", "h2", tcp_dst=22, via=[1, 4, 3, 2], only=True)
    net.assert_delivered("h2", "h1", tcp_dst=22, via=[2, 3, 4, 1], only=True)


def test_everything_else_takes_the_short_way(network):
    net = network("ring:4", policy="secure_routing.py")
    for fields in ({"tcp_dst": 80}, {"tcp_dst": 21}, {"tcp_dst": 23}, {"tcp_src": 22}, {"udp_dst": 22}, {}):
        net.assert_delivered("h1", "h2", via=[1, 2], only=True, **fields)


@pytest.mark.parametrize(("detour", "via"), [(9, ["s1", "s3", "s2"]), (10, ["s1", "s2"]), (11, ["s1", "s2"])])
def test_the_direct_link_costs_ten(network, detour, via):
    triangle = {
        "switches": [{"name": name} for name in ("s1", "s2", "s3")],
        "hosts": [{"name": "h1", "switch": "s1"}, {"name": "h2", "switch": "s2"}],
        "links": [
            {"a": "s1", "b": "s2"},
            {"a": "s1", "b": "s3", "attributes": {"secure": detour - 1}},
            {"a": "s3", "b": "s2"},
        ],
    }
    net = network(triangle, policy="secure_routing.py")
    net.assert_delivered("h1", "h2", tcp_dst=22, via=via, only=True)
    net.assert_delivered("h1", "h2", tcp_dst=80, via=["s1", "s2"], only=True)


def test_what_has_no_known_receiver_is_flooded(network):
    net = network("ring:4", policy="secure_routing.py")
    for address in ("00:00:00:00:00:99", "ff:ff:ff:ff:ff:ff", "01:00:5e:01:01:01"):
        net.assert_delivered("h1", ["h2", "h3", "h4"], eth_dst=address, tcp_dst=22, only=True)


def test_ssh_takes_the_direct_link_if_there_is_no_other(network):
    net = network("ring:4", policy="secure_routing.py")
    net.link_down(3, 4)
    net.assert_delivered("h1", "h2", tcp_dst=22, via=[1, 2])


def test_one_rule_answers_all_broadcasts(network):
    net = network("ring:4", policy="secure_routing.py")
    net.send("h1", eth_dst="ff:ff:ff:ff:ff:ff")
    assert any("dl_dst=01:00:00:00:00:00/01:00:00:00:00:00" in rule for rule in net.rules(1))
