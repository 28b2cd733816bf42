"""Tests of multicast_group.py."""

import pytest


@pytest.fixture
def net(network):
    return network("ring:4", policy="multicast_group.py")


def test_packets_for_a_group_go_to_its_members_once(net):
    net.assert_delivered("h1", ["h2", "h3", "h4"], ipv4_dst="239.1.1.1", udp_dst=5000, only=True)
    net.assert_delivered("h2", ["h1", "h3"], ipv4_dst="239.1.1.2", udp_dst=5000, only=True)


def test_the_sender_gets_no_copy(net):
    net.assert_delivered("h2", ["h3", "h4"], ipv4_dst="239.1.1.1", udp_dst=5000, only=True)
    net.assert_delivered("h3", "h1", ipv4_dst="239.1.1.2", udp_dst=5000, only=True)


def test_groups_without_members_are_dropped(net):
    net.assert_dropped("h1", ipv4_dst="239.9.9.9", udp_dst=5000, line="multicast(paths) if paths else drop()")


def test_other_broadcasts_are_flooded(net):
    net.assert_delivered("h1", ["h2", "h3", "h4"], eth_dst="ff:ff:ff:ff:ff:ff", only=True)
    net.assert_delivered("h1", ["h2", "h3", "h4"], eth_dst="01:80:c2:00:00:aa", eth_type=0x88B5, only=True)


def test_other_packets_take_the_shortest_path(net):
    net.assert_delivered("h1", "h2", udp_dst=5000, via=[1, 2], only=True)
    net.assert_delivered("h1", ["h2", "h3", "h4"], eth_dst="00:00:00:00:00:99", only=True)


def test_the_tree_follows_a_member_that_moves(net):
    net.move("h3", 1)
    net.assert_delivered("h2", ["h1", "h3"], ipv4_dst="239.1.1.2", udp_dst=5000, via=[2, 1], only=True)


def test_a_member_that_is_not_known_gets_nothing(network):
    net = network("ring:4", policy="multicast_group.py", known_hosts=False)
    net.send("h1", "h2")
    net.send("h3", "h2")
    net.assert_delivered("h1", "h3", ipv4_dst="239.1.1.2", udp_dst=5000, only=True)


def test_one_rule_answers_all_broadcasts(network):
    net = network("ring:4", policy="multicast_group.py")
    net.send("h1", eth_dst="ff:ff:ff:ff:ff:ff", eth_type=0x88B5)
    assert any("dl_dst=01:00:00:00:00:00/01:00:00:00:00:00" in rule for rule in net.rules(1))
