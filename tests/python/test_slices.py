"""Slices: packets, network and state of their own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import H1, H2, H3
from maple import (
    Counter,
    Location,
    Net,
    Packet,
    Policy,
    Query,
    Route,
    Slice,
    Table,
    Var,
    costs,
    drop,
    fallback,
    flood,
    pass_,
    slices,
    tiers,
    to,
)
from maple.testing import Bench, Decision, frame


def tcp(port: int, dst: str = H2) -> bytes:
    return frame(eth_src=H1, eth_dst=dst, ipv4_src="10.0.0.1", ipv4_dst="10.0.0.2", tcp_dst=port)


def shown(decision: Decision) -> str:
    assert decision.error is None, decision.error
    return str(decision.route)


def places(decision: Decision) -> list[tuple[int, int]]:
    assert decision.error is None, decision.error
    return [(place.switch, place.port) for place, _ in decision.copies]


def failure(bench: Bench, policy: Policy, packet: bytes) -> str:
    decision = bench.decide(policy, packet)
    assert decision.error is not None, decision
    return decision.error


def test_each_packet_has_the_policy_of_its_slice(bench: Bench) -> None:
    web, ssh = ({"tcp_dst": 80}, to(2)), ({"tcp_dst": range(20, 30)}, drop())
    both = slices({"web": web, "ssh": ssh})
    assert repr(both) == "<policy slices>"
    assert shown(bench.decide(both, tcp(80))) == "<route: to 2>"
    assert shown(bench.decide(both, tcp(22))) == "<route: drop>"
    assert shown(bench.decide(both, tcp(443))) == "<route: pass>"
    assert shown(bench.decide(slices({"web": web}, otherwise=flood()), tcp(443))) == "<route: flood>"
    assert shown(bench.decide(tiers(both, flood()), tcp(443))) == "<route: flood>"
    assert shown(bench.decide(tiers(slices({"web": ({"tcp_dst": 80}, pass_())}), to(2)), tcp(80))) == "<route: to 2>"


def test_slices_with_a_packet_in_common_are_refused_with_an_example() -> None:
    with pytest.raises(ValueError) as error:
        slices({"red": ([{"udp_dst": 53}, {"ipv4_src": "10.0.0.0/8"}], drop()), "blue": ({"tcp_dst": 22}, drop())})
    assert str(error.value) == (
        'the slices "red" and "blue" overlap: eth_type=0x800, ip_proto=6, ipv4_src=10.0.0.0, tcp_dst=22 fits '
        'condition 2 of "red" and condition 1 of "blue"'
    )
    with pytest.raises(ValueError, match=r"overlap: vlan_vid=15 fits"):
        slices({"a": ({"vlan_vid": range(10, 16)}, drop()), "b": ({"vlan_vid": range(15, 20)}, drop())})
    with pytest.raises(ValueError, match=r"overlap: any packet fits"):
        slices({"a": Slice(drop()), "b": Slice(drop())})
    with pytest.raises(ValueError, match=r"overlap: in_port=2 at switch 0000000000000001 fits"):
        slices({"a": Slice(drop(), ports=[(1, 2), (1, 1)]), "b": Slice(drop(), ports=[(1, 2)])})
    slices({"a": Slice(drop(), ports=[(1, 1)]), "b": Slice(drop(), ports=[(1, 2), (2, 1)])})
    slices({"a": ({"ipv4_dst": "10.0.0.0/8"}, drop()), "b": ({"ipv6_dst": "fd00::/8"}, drop())})


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match=r'"a/b" is not a slice name'):
        slices({"a/b": ({"tcp_dst": 1}, drop())})
    with pytest.raises(TypeError, match=r"the slice 'red' is a pair \(where, policy\) or a Slice, not 7"):
        slices({"red": 7})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match=r"slices\(\{'red': …\}\) takes policies"):
        slices({"red": ({}, 7)})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="a condition is a dictionary"):
        slices({"red": ("tcp_dst", drop())})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="at least one"):
        slices({})
    with pytest.raises(TypeError, match='the slice "red": links: a link is a pair of switches'):
        slices({"red": Slice(drop(), links=[1])})  # type: ignore[list-item]
    with pytest.raises(ValueError, match='the slice "red": links: "s1" is not a port of a switch such as 1:3'):
        slices({"red": Slice(drop(), links=["s1"])})
    with pytest.raises(TypeError, match='the slice "red": ports: '):
        slices({"red": Slice(drop(), ports=[1])})  # type: ignore[list-item]
    with pytest.raises(ValueError, match='the slice "red": ports: "x" is not a port of a switch'):
        slices({"red": Slice(drop(), ports=["x"])})
    with pytest.raises(ValueError, match='the slice "red": hosts: '):
        slices({"red": Slice(drop(), hosts=["x"])})
    with pytest.raises((TypeError, ValueError), match='the slice "red": where: '):
        slices({"red": ({"tcp_dts": 1}, drop())})


def test_a_slice_sees_its_part_of_the_network(bench: Bench) -> None:
    seen: dict[str, object] = {}

    def look(pkt: Packet, net: Net) -> Route:
        seen["hosts"] = [str(host.mac) for host in net.hosts()]
        seen["located"] = [net.locate(mac) is not None for mac in (H1, H2, H3)]
        seen["by ip"] = [net.locate_ip(ip) is not None for ip in ("10.0.0.1", "10.0.0.2", "10.0.0.3")]
        seen["addresses"] = [net.addresses(mac) is not None for mac in (H1, H2, H3)]
        seen["edge"] = net.edge_ports(1)
        seen["links"] = len(net.links())
        seen["path"] = bool(net.shortest_path((1, 1), (2, 1)))
        seen["up"] = [net.is_up(place) for place in ((1, 1), (1, 2), (1, 3))]
        return flood()

    def run(tenant: Slice) -> list[tuple[int, int]]:
        return places(bench.decide(slices({"red": tenant}), tcp(80)))

    assert run(Slice(look)) == [(1, 2), (2, 1)]
    assert run(Slice(look, ports=[(1, 1), (2, 1)])) == [(2, 1)]
    assert seen == {
        "hosts": [H1, H3],
        "located": [True, False, True],
        "by ip": [True, False, True],
        "addresses": [True, False, True],
        "edge": [1],
        "links": 1,
        "path": True,
        "up": [True, False, True],
    }
    assert run(Slice(look, ports=[Location(1, 1), Location(1, 2)], hosts=[H2], links=[])) == [(1, 2)]
    assert seen["hosts"] == [H2] and seen["links"] == 0 and seen["path"] is False
    for link in [(1, 2), (2, 1), Location(2, 3), (Location(1, 3), Location(2, 3))]:
        assert run(Slice(look, links=[link])) == [(1, 2), (2, 1)]


def test_a_route_that_leaves_the_slice_is_an_error_with_slice_and_line(bench: Bench) -> None:
    def only(policy: object) -> Policy:
        return slices({"red": Slice(policy, ports=[(1, 1), (2, 1)], links=[])})  # type: ignore[arg-type]

    def to_another(pkt: Packet, net: Net) -> Route:
        return to(2)

    error = failure(bench, only(to_another), tcp(80))
    line = to_another.__code__.co_firstlineno + 1
    assert error.startswith("red: ") and f"test_slices.py:{line}: " in error, error
    assert error.endswith("is not in the slice red: the slice does not have that port")
    for leaves in (lambda pkt, net: net.shortest_path((1, 1), (1, 2)), lambda pkt, net: drop().copy_to((1, 2))):
        assert "does not have that port" in failure(bench, only(leaves), tcp(80))

    def sends(pkt: Packet, net: Net) -> Route:
        net.send(tcp(80), (1, 2))
        return drop()

    assert "is not a port of the slice red" in failure(bench, only(sends), tcp(80))
    assert shown(bench.decide(only(fallback(to_another, on_error=drop())), tcp(80))) == "<route: drop>"


limits: Table[str, int] = Table("slice_limits")
mode = Var("slice_mode", "open")
hits = Counter("slice_hits")


@Query
def limit_of(net: Net, host: str) -> int:
    return limits.get(host, 0)


def counts(pkt: Packet, net: Net) -> Route:
    hits.add()
    limits[str(pkt.eth_src)] = limits.get(str(pkt.eth_src), 0) + 1
    return to(limit_of(str(pkt.eth_src))) if mode.value == "open" else drop()


def test_tables_variables_counters_and_queries_are_the_slices_own(bench: Bench) -> None:
    both = slices({"red": ({"tcp_dst": 80}, counts), "blue": ({"tcp_dst": 22}, counts)})
    Table("red/slice_limits")[H1] = 1
    Table("blue/slice_limits")[H1] = 0
    limits[H1] = 40
    assert shown(bench.decide(both, tcp(80))) == "<route: to 2>"
    assert shown(bench.decide(both, tcp(22))) == "<route: to 1>"
    assert limits[H1] == 40 and limit_of(H1) == 40
    assert Table("red/slice_limits")[H1] == 2 and Table("blue/slice_limits")[H1] == 1
    assert Counter("red/slice_hits").value == 1 and hits.value == 0
    Var("red/slice_mode").value = "closed"
    assert shown(bench.decide(both, tcp(80))) == "<route: drop>"
    assert shown(bench.decide(both, tcp(22))) == "<route: to 2>"
    outer = slices({"campus": Slice(both)})
    Table("campus/red/slice_limits")[H1] = 1
    assert shown(bench.decide(outer, tcp(80))) == "<route: to 2>"


def test_types_of_a_declared_table_hold_in_slices() -> None:
    Table("slice_typed", key=str, value=int)
    with pytest.raises(TypeError, match="int"):
        Table("red/slice_typed")["x"] = "text"


def test_costs_are_the_slices_own_if_it_has_them(bench: Bench) -> None:
    bench.switch(3, [])
    bench.link((1, 4), (3, 1))
    bench.link((3, 2), (2, 4))
    costs("slice_cost", {(1, 2): 10})

    def cheapest(pkt: Packet, net: Net) -> Route:
        return net.path((1, 1), (2, 1), cost="slice_cost")

    both = slices({"red": ({"tcp_dst": 80}, cheapest), "blue": ({"tcp_dst": 22}, cheapest)})
    around, direct = "<route: by 1:4, 2:1, 3:2>", "<route: by 1:3, 2:1>"
    assert [shown(bench.decide(both, tcp(port))) for port in (80, 22)] == [around, around]
    costs("red/slice_cost", {(1, 2): 1})
    assert [shown(bench.decide(both, tcp(port))) for port in (80, 22)] == [direct, around]
    other = slices({"blue": Slice(lambda pkt, net: net.path((1, 1), (2, 1), cost="red/slice_cost"))})
    assert 'links have no costs named "red/slice_cost"' in failure(bench, other, tcp(80))


def test_errors_name_the_slice(bench: Bench) -> None:
    def fails(pkt: Packet, net: Net) -> Route:
        raise ValueError("on purpose")

    inner = slices({"web": ({"tcp_dst": 80}, tiers(fails))})
    assert failure(bench, tiers(campus=slices({"red": Slice(inner)})), tcp(80)).startswith("campus/red/web/fails: ")


def test_a_file_with_slices_runs_and_its_rules_stay_in_them(tmp_path: Path) -> None:
    file = tmp_path / "tenants.py"
    file.write_text(
        "from maple import Slice, Table, flood, slices\n\n"
        'seen = Table("seen")\n\n'
        "def routing(pkt, net):\n"
        "    seen.get(pkt.eth_src)\n"
        "    src, dst = net.locate(pkt.eth_src), net.locate(pkt.eth_dst)\n"
        "    if pkt.eth_dst.is_multicast or src is None or dst is None:\n        return flood()\n"
        "    return net.shortest_path(src, dst)\n\n"
        'kinds = {"arp": ({"eth_type": 0x806}, routing), "ip": ({"eth_type": 0x800}, routing)}\n'
        "tenants = slices(kinds, otherwise=routing)\n"
    )
    command = [sys.executable, "-m", "maple", "run", str(file), "--emulate", "ring:4", "--traffic", "2s", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b(arp|ip): \S*tenants.py:\d", done.stdout), done.stdout
