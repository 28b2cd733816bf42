"""Tests of learning_switch_handler.py."""

import pytest
from maple.testing import frame

A, B, C = "00:00:00:00:00:0a", "00:00:00:00:00:0b", "00:00:00:00:00:0c"


@pytest.fixture
def bench(handler):
    return handler("learning_switch_handler.py", ports=[1, 2, 3])


def packet(src, dst):
    return frame(eth_src=src, eth_dst=dst, udp_dst=7)


def test_unknown_destinations_are_flooded(bench):
    (flood,) = bench.packet_in(packet(A, B), port=1)
    assert flood.startswith("OFPT_PACKET_OUT") and "in_port=1" in flood and "FLOOD" in flood


def test_a_known_destination_gets_a_rule(bench):
    bench.packet_in(packet(A, B), port=1)
    rule, sent = bench.packet_in(packet(B, A), port=2)
    assert "ADD" in rule and f"in_port=2,dl_src={B},dl_dst={A}" in rule and "idle:5 " in rule
    assert rule.endswith("actions=output:1") and sent.startswith("OFPT_PACKET_OUT")


def test_what_the_destination_has_is_not_sent_again(bench):
    bench.packet_in(packet(A, B), port=1)
    assert bench.packet_in(packet(C, A), port=1) == []


def test_group_addresses_are_not_learned(bench):
    bench.packet_in(packet("01:00:5e:00:00:01", B), port=1)
    (flood,) = bench.packet_in(packet(A, "01:00:5e:00:00:01"), port=2)
    assert "FLOOD" in flood


def test_a_host_that_moves_is_learned_again(bench):
    bench.packet_in(packet(A, B), port=1)
    bench.packet_in(packet(A, B), port=3)
    assert bench.packet_in(packet(B, A), port=2)[0].endswith("actions=output:3")


@pytest.mark.parametrize(("reason", "up", "forgets"), [("delete", True, True), ("modify", False, True)])
def test_a_port_that_goes_takes_its_hosts_along(bench, reason, up, forgets):
    bench.packet_in(packet(A, B), port=1)
    bench.packet_in(packet(B, A), port=2)
    (delete,) = bench.port_status(1, reason, up)
    assert "DEL" in delete and "out_port:1" in delete
    assert "FLOOD" in bench.packet_in(packet(C, A), port=3)[0]
    assert bench.packet_in(packet(C, B), port=3)[0].endswith("actions=output:2")


def test_a_port_that_comes_changes_nothing(bench):
    bench.packet_in(packet(A, B), port=1)
    assert bench.port_status(1, "modify", True) == []
    assert bench.port_status(1, "add", True) == []
    assert bench.packet_in(packet(B, A), port=2)[0].endswith("actions=output:1")
    assert bench.errors() == []
