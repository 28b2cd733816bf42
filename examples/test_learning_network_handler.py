"""Tests of learning_network_handler.py."""

import pytest
from maple import Mac, Table
from maple.testing import frame

A, B, C = "00:00:00:00:00:0a", "00:00:00:00:00:0b", "00:00:00:00:00:0c"


@pytest.fixture
def bench(handler):
    return handler("learning_network_handler.py", dpid=7, ports=[1, 2, 3])


def packet(src, dst):
    return frame(eth_src=src, eth_dst=dst, udp_dst=7)


def test_it_switches_like_a_learning_switch(bench):
    (flood,) = bench.packet_in(packet(A, B), port=1)
    assert "FLOOD" in flood
    rule, _ = bench.packet_in(packet(B, A), port=2)
    assert f"in_port=2,dl_src={B},dl_dst={A}" in rule and "idle:5 " in rule and rule.endswith("actions=output:1")
    assert bench.packet_in(packet(C, A), port=1) == []


def test_hosts_get_numbers_in_the_networks_table(bench):
    bench.packet_in(packet(A, B), port=1)
    bench.packet_in(packet(B, A), port=2)
    bench.packet_in(packet(A, B), port=3)
    bench.packet_in(packet("01:00:5e:00:00:01", B), port=3)
    assert dict(Table("hosts").items()) == {Mac(A): (1, 7, 1), Mac(B): (2, 7, 2)}
    assert bench.packet_in(packet(B, A), port=2)[0].endswith("actions=output:3")


def test_blocked_hosts_get_a_rule_without_actions(bench):
    Table("blocked")[A] = True
    rule, *rest = bench.packet_in(packet(A, B), port=1)
    assert f"dl_src={A}" in rule and rule.endswith("actions=drop") and "idle:5 " in rule
    assert all("FLOOD" not in line for line in rest)
    assert Table("hosts").keys() == []
    assert "FLOOD" in bench.packet_in(packet(B, A), port=1)[0]


@pytest.mark.parametrize(("reason", "up"), [("delete", True), ("modify", False)])
def test_a_port_that_goes_takes_its_hosts_along(bench, reason, up):
    bench.packet_in(packet(A, B), port=1)
    bench.packet_in(packet(B, A), port=2)
    (delete,) = bench.port_status(1, reason, up)
    assert "DEL" in delete and "out_port:1" in delete
    assert "FLOOD" in bench.packet_in(packet(C, A), port=3)[0]
    assert bench.packet_in(packet(C, B), port=3)[0].endswith("actions=output:2")


def test_a_port_that_comes_changes_nothing(bench):
    bench.packet_in(packet(A, B), port=1)
    assert bench.port_status(1, "modify", True) == []
    assert bench.packet_in(packet(B, A), port=2)[0].endswith("actions=output:1")
    assert bench.errors() == []
