"""The strategies of hypothesis for tests of policies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from maple import Ip, Mac
from maple.testing import Network, strategies

POLICY = Path(__file__).resolve().parents[2] / "examples/shortest_path.py"


def test_packets_can_be_sent_and_come_once() -> None:
    with Network("ring:4", POLICY) as net:

        @settings(max_examples=200)
        @given(strategies.packets(net))
        def check(packet: dict[str, Any]) -> None:
            hosts = net.send(**packet).hosts
            assert len(hosts) == len(set(hosts))

        check()
        assert net.failures == []


def test_fixed_fields_are_in_all_packets() -> None:
    with Network("linear:2", POLICY) as net:

        @settings(max_examples=30)
        @given(strategies.packets(net, vlan_vid=7))
        def check(packet: dict[str, Any]) -> None:
            assert packet["vlan_vid"] == 7

        check()


@settings(max_examples=25)
@given(strategies.topologies(switches=4, hosts=2))
def test_topologies_are_connected(topology: dict[str, Any]) -> None:
    with Network(topology, POLICY) as net:
        assert net.pingall()


def test_topologies_have_bounds() -> None:
    @given(strategies.topologies(switches=9))
    def check(topology: dict[str, Any]) -> None:
        raise AssertionError(topology)

    with pytest.raises(ValueError, match="1 to 8 switches"):
        check()


def test_faults_happen_and_say_what_they_are() -> None:
    with Network("ring:4", POLICY) as net:

        @settings(max_examples=25)
        @given(strategies.faults(net), st.data())
        def check(fault: strategies.Fault, data: st.DataObject) -> None:
            fault.happen(net)
            net.send(**data.draw(strategies.packets(net)))
            assert str(fault).startswith(fault.word + "(")

        check()
        assert net.failures == []


@given(strategies.macs(), strategies.ipv4s(), strategies.ports())
def test_addresses_are_addresses(mac: str, ip: str, port: int) -> None:
    assert str(Mac(mac)) == mac and str(Ip(ip)) == ip and 0 <= port <= 65535
