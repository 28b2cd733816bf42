"""Tests of parallel_paths.py."""

import pytest


@pytest.mark.parametrize("threads", ["1", "3"])
def test_packets_take_the_shortest_path(network, monkeypatch, threads):
    monkeypatch.setenv("MAPLE_THREADS", threads)
    net = network("ring:4", policy="parallel_paths.py")
    net.assert_delivered("h1", "h2", via=[1, 2], only=True)
    net.assert_delivered("h4", "h1", tcp_dst=22, via=[4, 1], only=True)


def test_paths_follow_the_links(network):
    net = network("ring:4", policy="parallel_paths.py")
    net.link_down(1, 2)
    net.assert_delivered("h1", "h2", via=[1, 4, 3, 2], only=True)


def test_what_has_no_known_receiver_is_flooded(network):
    net = network("ring:4", policy="parallel_paths.py")
    for address in ("00:00:00:00:00:99", "ff:ff:ff:ff:ff:ff", "01:00:5e:01:01:01"):
        net.assert_delivered("h1", ["h2", "h3", "h4"], eth_dst=address, only=True)


def test_a_host_that_moves_is_found(network):
    net = network("ring:4", policy="parallel_paths.py")
    net.move("h2", 4)
    net.assert_delivered("h1", "h2", via=[1, 4], only=True)


def test_one_rule_answers_all_broadcasts(network):
    net = network("ring:4", policy="parallel_paths.py")
    net.send("h1", eth_dst="ff:ff:ff:ff:ff:ff")
    assert any("dl_dst=01:00:00:00:00:00/01:00:00:00:00:00" in rule for rule in net.rules(1))
