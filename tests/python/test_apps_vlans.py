"""VLANs with access ports, trunks and a router."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import H1, H2, H3
from maple import Ip, Policy, drop, frame
from maple.apps import vlans
from maple.testing import Bench, Decision
from maple.testing import frame as sample

ALL = "ff:ff:ff:ff:ff:ff"


def run(bench: Bench, policy: Policy, place: tuple[int, int], packet: bytes) -> Decision:
    decision = bench.decide(policy, packet, *place)
    assert decision.error is None, decision.error
    return decision


def out(decision: Decision) -> list[tuple[tuple[int, int], bytes]]:
    """Where copies leave, and their bytes."""
    return [((at.switch, at.port), sent) for at, sent in decision.copies]


# VLANs: H1 in VLAN 10 and H2 in VLAN 20 at switch 1; H3 at a trunk of switch 2.

SUBNETS = {10: "10.0.10.1/24", 20: "10.0.20.1/24"}
ROUTER = "02:00:0a:00:0a:01"


@pytest.fixture
def campus() -> Bench:
    bench = Bench()
    bench.switch(1, [1, 2, 4])
    bench.switch(2, [1, 2])
    bench.link((1, 3), (2, 3))
    bench.host(H1, 1, 1, "10.0.10.11")
    bench.host(H2, 1, 2, "10.0.20.12")
    bench.host(H3, 2, 1, "10.0.20.13")
    return bench


def of(**options: Any) -> Policy:
    access = {(1, 1): 10, (1, 2): 20, (1, 4): 10, (2, 2): 10}
    return vlans(access, {(2, 1): [10, 20]}, **options)


def test_broadcasts_stay_in_their_vlan_and_get_each_ports_form(campus: Bench) -> None:
    plain = sample(eth_src=H1, eth_dst=ALL, udp_dst=9)
    tagged = plain[:12] + b"\x81\x00\x00\x0a" + plain[12:]
    decision = run(campus, of(), (1, 1), plain)
    assert sorted(out(decision)) == [((1, 4), plain), ((2, 1), tagged), ((2, 2), plain)]
    assert decision.each, "switch 2 has both forms, so the controller makes one of them"
    assert sorted(out(run(campus, of(), (2, 1), tagged))) == [((1, 1), plain), ((1, 4), plain), ((2, 2), plain)]
    other = sample(eth_src=H2, eth_dst=ALL, udp_dst=9)
    decision = run(campus, of(), (1, 2), other)
    assert out(decision) == [((2, 1), other[:12] + b"\x81\x00\x00\x14" + other[12:])] and not decision.each


def test_packets_reach_hosts_of_their_vlan_only(campus: Bench) -> None:
    there = sample(eth_src=H2, eth_dst=H3, udp_dst=9)
    tagged = there[:12] + b"\x81\x00\x00\x14" + there[12:]
    assert out(run(campus, of(), (1, 2), there)) == [((2, 1), tagged)]
    back = sample(eth_src=H3, eth_dst=H2, udp_dst=9)
    assert out(run(campus, of(), (2, 1), back[:12] + b"\x81\x00\x00\x14" + back[12:])) == [((1, 2), back)]
    assert run(campus, of(), (1, 1), sample(eth_src=H1, eth_dst=H2)).route == drop()
    assert run(campus, of(), (2, 1), sample(eth_src=H3, eth_dst=H2, vlan_vid=10)).route == drop()
    unknown = sample(eth_src=H2, eth_dst="00:00:00:00:00:77")
    assert [place for place, _ in out(run(campus, of(), (1, 2), unknown))] == [(2, 1)], "flooded in its VLAN"


def test_tags_that_a_port_does_not_take_are_dropped(campus: Bench) -> None:
    for place, fields in [
        ((1, 1), {"vlan_vid": 10}),
        ((1, 1), {"vlan_vid": 20}),
        ((2, 1), {"vlan_vid": 30}),
        ((2, 1), {}),
    ]:
        assert run(campus, of(), place, sample(eth_src=H1, eth_dst=ALL, **fields)).route == drop()
    native = of(native={(2, 1): 30})
    assert run(campus, native, (2, 1), sample(eth_src=H3, eth_dst=ALL, vlan_vid=30)).route == drop()
    assert run(campus, vlans({(1, 1): 10}), (1, 2), sample(eth_src=H2, eth_dst=ALL)).route == drop()


def test_the_native_vlan_of_a_trunk_has_no_tag(campus: Bench) -> None:
    native = vlans({(1, 1): 30}, {(2, 1): [20]}, native={(2, 1): 30})
    packet = sample(eth_src=H1, eth_dst=H3)
    assert out(run(campus, native, (1, 1), packet)) == [((2, 1), packet)]
    back = sample(eth_src=H3, eth_dst=H1)
    assert out(run(campus, native, (2, 1), back)) == [((1, 1), back)]


def test_the_gateway_answers_arp_and_ping(campus: Bench) -> None:
    routed = of(gateways=SUBNETS)
    who_has = sample(eth_src=H3, eth_dst=ALL, vlan_vid=20, arp_op=1, arp_spa="10.0.20.13", arp_tpa="10.0.20.1")
    ((place, sent),) = out(run(campus, routed, (2, 1), who_has))
    assert place == (2, 1) and sent[12:16] == b"\x81\x00\x00\x14"
    assert sent[26:32] == bytes.fromhex(ROUTER.replace(":", ""))
    stranger = sample(eth_src=H1, eth_dst=ALL, arp_op=1, arp_spa="10.0.10.11", arp_tpa="10.0.20.1")
    assert (1, 1) not in [place for place, _ in out(run(campus, routed, (1, 1), stranger))], "not its gateway"
    for address in ("10.0.10.1", "10.0.20.1"):
        ping = sample(eth_src=H1, eth_dst=ROUTER, ipv4_src="10.0.10.11", ipv4_dst=address, icmpv4_type=8)
        ((place, sent),) = out(run(campus, routed, (1, 1), ping))
        assert place == (1, 1) and sent[34] == 0 and sent[26:30] == Ip(address).packed


def test_the_gateway_routes_between_vlans(campus: Bench) -> None:
    routed = of(gateways=SUBNETS)

    def packet(dst: str, **fields: Any) -> bytes:
        return sample(**{"eth_src": H1, "eth_dst": ROUTER, "ipv4_src": "10.0.10.11", "ipv4_dst": dst, **fields})

    here = packet("10.0.20.12", eth_src=ROUTER, eth_dst=H2, udp_dst=9)
    assert out(run(campus, routed, (1, 1), packet("10.0.20.12", udp_dst=9))) == [((1, 2), here)]
    there = packet("10.0.20.13", eth_src=ROUTER, eth_dst=H3, vlan_vid=20, udp_dst=9)
    assert out(run(campus, routed, (1, 1), packet("10.0.20.13", udp_dst=9))) == [((2, 1), there)]
    assert run(campus, routed, (1, 1), packet("8.8.8.8")).route == drop()
    beyond = of(gateways=SUBNETS, default="10.0.20.13")
    there = packet("8.8.8.8", eth_src=ROUTER, eth_dst=H3, vlan_vid=20, udp_dst=9)
    assert out(run(campus, beyond, (1, 1), packet("8.8.8.8", udp_dst=9))) == [((2, 1), there)]


def test_the_gateway_asks_in_the_vlan_of_an_unknown_address(campus: Bench) -> None:
    routed = of(gateways=SUBNETS)
    packet = sample(eth_src=H1, eth_dst=ROUTER, ipv4_src="10.0.10.11", ipv4_dst="10.0.20.99")
    asked = frame(eth_src=ROUTER, eth_dst=ALL, arp_op=1, arp_spa="10.0.20.1", arp_tpa="10.0.20.99")
    wanted = [((1, 2), asked), ((2, 1), asked[:12] + b"\x81\x00\x00\x14" + asked[12:])]
    assert sorted(out(run(campus, routed, (1, 1), packet))) == wanted
    campus.host("00:00:00:00:00:09", 1, 4, "10.0.20.99")
    assert sorted(out(run(campus, routed, (1, 1), packet))) == wanted, "a host of another VLAN is not meant"


def test_the_gateway_routes_back_out_of_a_trunk(campus: Bench) -> None:
    campus.host("00:00:00:00:00:09", 2, 1, "10.0.10.19")
    routed = of(gateways=SUBNETS)
    ends = {"ipv4_src": "10.0.20.13", "ipv4_dst": "10.0.10.19", "udp_dst": 9}
    packet = sample(eth_src=H3, eth_dst=ROUTER, vlan_vid=20, **ends)
    there = sample(eth_src=ROUTER, eth_dst="00:00:00:00:00:09", vlan_vid=10, **ends)
    assert out(run(campus, routed, (2, 1), packet)) == [((2, 1), there)]
    native = vlans({(1, 1): 30}, {(2, 1): [20]}, native={(2, 1): 10}, gateways=SUBNETS)
    plain = sample(eth_src=ROUTER, eth_dst="00:00:00:00:00:09", **ends)
    assert out(run(campus, native, (2, 1), packet)) == [((2, 1), plain)]
    switched = sample(eth_src=H3, eth_dst="00:00:00:00:00:09", vlan_vid=10, udp_dst=9)
    assert out(run(campus, routed, (2, 1), switched)) == [], "hosts of one VLAN reach each other without a switch"


def test_named_hosts_keep_their_addresses(campus: Bench) -> None:
    packet = sample(eth_src=H1, eth_dst=ROUTER, ipv4_src="10.0.10.11", ipv4_dst="10.0.20.12", udp_dst=9)
    wanted = [((1, 2), bytes.fromhex((H2 + ROUTER).replace(":", "")) + packet[12:])]
    named = of(gateways=SUBNETS, hosts={"10.0.20.12": H2})
    campus.host(H3, 2, 1, "10.0.20.12")
    assert [place for place, _ in out(run(campus, of(gateways=SUBNETS), (1, 1), packet))] == [(2, 1)]
    assert out(run(campus, named, (1, 1), packet)) == wanted
    unseen = of(gateways=SUBNETS, hosts={"10.0.20.12": "00:00:00:00:00:77"})
    asked = frame(eth_src=ROUTER, eth_dst=ALL, arp_op=1, arp_spa="10.0.20.1", arp_tpa="10.0.20.12")
    assert ((1, 2), asked) in out(run(campus, unseen, (1, 1), packet)), "it is asked for until it is seen"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: vlans({(1, 1): 4095}), "1 to 4094"),
        (lambda: vlans({(1, 1): 1}, {(1, 1): [2]}), "is named twice"),
        (lambda: vlans({(1, 1): 1}, native={(1, 1): 2}), "is not a trunk port"),
        (lambda: vlans({(1, 1): 1}, gateways={1: "10.0.0.1/24", 2: "10.0.0.2/16"}), "overlap"),
        (lambda: vlans({(1, 1): 1}, mac=H1), "belong to gateways"),
        (lambda: vlans({(1, 1): 1}, hosts={"10.0.0.1": H1}), "belong to gateways"),
        (lambda: of(gateways=SUBNETS, hosts={"10.0.20.9": ALL}), "vlans(hosts=…): 10.0.20.9"),
        (lambda: of(gateways=SUBNETS, default="10.0.30.1"), "is not another router"),
        (lambda: vlans({(1, n): 5 for n in range(1, 71)}, {(1, n): [5] for n in range(100, 166)}), "copies"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(make: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        make()
    assert words in str(raised.value)


def test_what_bridges_never_forward_does_not_leave_a_vlan(campus: Bench) -> None:
    building = vlans({(1, 1): 10, (1, 2): 10}, {(2, 1): [10, 20]})
    assert out(run(campus, building, (1, 1), sample(eth_src=H1, eth_dst=ALL, eth_type=0x88B5))) != []
    for dst in ("01:80:c2:00:00:02", "01:00:0c:cc:cc:cd"):
        assert run(campus, building, (1, 1), sample(eth_src=H1, eth_dst=dst, eth_type=0x88B5)).route == drop()
