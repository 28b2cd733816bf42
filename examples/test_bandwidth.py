"""Tests of bandwidth.py: its broker is a thread, so tests wait for it in real time."""

import time

import pytest
from maple import Table, atomically

FIRST, SECOND = ("10.0.0.1", "10.0.0.3"), ("10.0.0.2", "10.0.0.3")


@pytest.fixture
def net(network):
    return network("linear:3", policy="bandwidth.py")


def wait_for(net, wanted):
    end = time.monotonic() + 10
    while dict(net.state["granted"].items()) != wanted and time.monotonic() < end:
        time.sleep(0.005)
    assert dict(net.state["granted"].items()) == wanted


def test_flows_without_a_request_are_best_effort(net):
    net.assert_delivered("h1", "h3", via=[1, 2, 3], only=True)
    net.assert_delivered("h3", "h1", udp_dst=5, only=True)
    net.assert_delivered("h1", ["h2", "h3"], eth_dst="ff:ff:ff:ff:ff:ff", only=True)
    net.assert_delivered("h1", ["h2", "h3"], eth_dst="01:00:5e:01:01:01", only=True)
    net.assert_delivered("h1", ["h2", "h3"], eth_dst="00:00:00:00:00:99", only=True)


def test_a_flow_gets_what_it_asks_for_on_all_links(net):
    net.state["demands"][FIRST] = 40
    wait_for(net, {FIRST: (40, ((1, 2), (2, 3)))})
    assert dict(net.state["used"].items()) == {(1, 2): 40, (2, 3): 40}
    net.assert_delivered("h1", "h3", tcp_dst=80, only=True)
    del net.state["demands"][FIRST]
    wait_for(net, {})
    assert dict(net.state["used"].items()) == {(1, 2): 0, (2, 3): 0}


def test_a_flow_waits_until_another_returns_its_part(net):
    net.state["demands"][FIRST] = 60
    wait_for(net, {FIRST: (60, ((1, 2), (2, 3)))})
    net.state["demands"][SECOND] = 50
    time.sleep(0.1)
    wait_for(net, {FIRST: (60, ((1, 2), (2, 3)))})
    net.assert_not_delivered("h2", "h3", tcp_dst=80)
    net.assert_delivered("h2", "h3", tcp_dst=80, ipv4_src="10.0.0.9")
    net.assert_delivered("h2", "h3", arp_op=2, only=True)
    net.assert_delivered("h2", "h1", tcp_dst=80)
    del net.state["demands"][FIRST]
    wait_for(net, {SECOND: (50, ((2, 3),))})
    assert dict(net.state["used"].items()) == {(1, 2): 0, (2, 3): 50}
    net.assert_delivered("h2", "h3", tcp_dst=80)


def test_links_are_used_up_to_their_capacity(net):
    net.state["demands"][FIRST] = 60
    wait_for(net, {FIRST: (60, ((1, 2), (2, 3)))})
    net.state["demands"][SECOND] = 40
    wait_for(net, {FIRST: (60, ((1, 2), (2, 3))), SECOND: (40, ((2, 3),))})
    assert net.state["used"][(2, 3)] == 100


def test_the_next_flow_that_fits_does_not_wait_for_the_first(net):
    net.state["demands"][FIRST] = 101
    net.state["demands"][SECOND] = 100
    wait_for(net, {SECOND: (100, ((2, 3),))})


def test_of_two_flows_that_fit_the_first_is_served(net):
    demands = Table("demands")

    def both():
        demands[FIRST], demands[SECOND] = 60, 60

    atomically(both)
    wait_for(net, {FIRST: (60, ((1, 2), (2, 3)))})


def test_a_request_that_changes_is_granted_anew(net):
    net.state["demands"][FIRST] = 40
    wait_for(net, {FIRST: (40, ((1, 2), (2, 3)))})
    net.state["demands"][FIRST] = 70
    wait_for(net, {FIRST: (70, ((1, 2), (2, 3)))})
    assert dict(net.state["used"].items()) == {(1, 2): 70, (2, 3): 70}


def test_a_flow_that_moves_takes_its_bandwidth_along(net):
    net.state["demands"][FIRST] = 40
    wait_for(net, {FIRST: (40, ((1, 2), (2, 3)))})
    net.move("h1", 2)
    wait_for(net, {FIRST: (40, ((2, 3),))})
    assert dict(net.state["used"].items()) == {(1, 2): 0, (2, 3): 40}


def test_the_capacity_is_what_the_environment_says(network, monkeypatch):
    monkeypatch.setenv("MAPLE_CAPACITY", "30")
    net = network("linear:3", policy="bandwidth.py")
    net.state["demands"][FIRST] = 31
    net.state["demands"][SECOND] = 30
    wait_for(net, {SECOND: (30, ((2, 3),))})


def test_an_unknown_host_gets_nothing(net):
    net.state["demands"][("10.0.0.1", "10.0.0.77")] = 10
    net.state["demands"][("10.0.0.77", "10.0.0.1")] = 10
    net.state["demands"][FIRST] = 20
    wait_for(net, {FIRST: (20, ((1, 2), (2, 3)))})


def test_one_rule_answers_all_broadcasts(network):
    net = network("linear:3", policy="bandwidth.py")
    net.send("h1", eth_dst="ff:ff:ff:ff:ff:ff")
    assert any("dl_dst=01:00:00:00:00:00/01:00:00:00:00:00" in rule for rule in net.rules(1))
