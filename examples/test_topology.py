"""Tests of topology.py."""

import time


def test_packets_take_the_shortest_path(network):
    net = network("ring:4", policy="topology.py")
    net.assert_delivered("h1", "h2", via=[1, 2], only=True)
    net.assert_delivered("h1", ["h2", "h3", "h4"], eth_dst="00:00:00:00:00:99", only=True)
    net.assert_delivered("h1", ["h2", "h3", "h4"], eth_dst="ff:ff:ff:ff:ff:ff", only=True)
    net.assert_delivered("h1", ["h2", "h3", "h4"], eth_dst="01:00:5e:01:01:01", only=True)


def wait_for(capfd, wanted, told=""):
    end = time.monotonic() + 10
    while not all(line in told for line in wanted) and time.monotonic() < end:
        time.sleep(0.02)
        told += capfd.readouterr().out
    assert all(line in told for line in wanted), told
    return told


def test_what_comes_and_goes_is_reported(network, capfd):
    net = network("ring:3", policy="topology.py")
    there = [f"switch {number} is there\n" for number in (1, 2, 3)]
    told = wait_for(capfd, [*there, "link 1:2 - 2:2 is there\n", "link 2:3 - 3:2 is there\n"])
    assert "switch 4" not in told
    assert "gone" not in told
    net.link_down(1, 2)
    told = wait_for(capfd, ["link 1:2 - 2:2 is gone\n"])
    assert "there" not in told
    net.link_up(1, 2)
    wait_for(capfd, ["link 1:2 - 2:2 is there\n"])


def test_one_rule_answers_all_broadcasts(network):
    net = network("ring:4", policy="topology.py")
    net.send("h1", eth_dst="ff:ff:ff:ff:ff:ff")
    assert any("dl_dst=01:00:00:00:00:00/01:00:00:00:00:00" in rule for rule in net.rules(1))
