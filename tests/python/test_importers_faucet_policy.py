"""The policy that is made of faucet.yaml runs on emulated networks."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from types import ModuleType
from typing import Any

import maple
import pytest
import yaml
from acl_form import Packet, evaluator
from maple.importers.__main__ import main
from maple.testing import Bench
from test_importers_faucet import switch


def stage(path: str) -> Any:
    """A stand-in for `maple.acl`: the document as a policy, by the naive evaluator."""
    decide = evaluator(yaml.safe_load(Path(path).read_text()))

    def acl(pkt: maple.Packet, net: maple.Net) -> maple.Route:
        ends = (pkt.ipv4_src.value, pkt.ipv4_dst.value)
        src, dst = (int(ip_address(str(end))) if end is not None else 0 for end in ends)
        ports = (pkt.tcp_src.value or pkt.udp_src.value or 0, pkt.tcp_dst.value or pkt.udp_dst.value or 0)
        kind = int(pkt.eth_type)
        at, vlan = (str(int(pkt.switch)), int(pkt.in_port)), pkt.vlan_vid.value
        packet = Packet(
            {0x800: 4}.get(kind, 0), src, dst, pkt.ip_proto.value or 0, *ports, ethertype=kind, vlan=vlan, at=at
        )
        return {"pass": maple.pass_(), "deny": maple.drop()}[decide(packet)]

    return acl


def policy(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch, acl: Any = stage) -> Any:
    """The policy that the command writes, with `acl` for its lists."""
    (folder / "faucet.yaml").write_text(text)
    assert main(["faucet", str(folder / "faucet.yaml"), "-o", str(folder / "out")]) == 0
    monkeypatch.setattr(maple, "acl", acl)
    module = ModuleType("converted")
    path = folder / "out/faucet.py"
    module.__file__ = str(path)
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    return module.__dict__["network"]


@pytest.mark.parametrize("acl", [maple.acl, stage], ids=["maple.acl", "evaluator"])
def test_the_policy_keeps_vlans_apart_and_applies_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acl: Any
) -> None:
    text = switch(
        "1: {native_vlan: 10, acl_in: a}, 2: {native_vlan: 10}, 3: {native_vlan: 20}, 4: {tagged_vlans: [10, 20]}",
        "    - {dl_type: 0x800, nw_proto: 17, udp_dst: 23}\n    - {actions: {allow: 1}}",
    ).replace("dp_id: 7", "dp_id: 1")
    net = maple.emulate("single:4", policy(tmp_path, text, monkeypatch, acl))
    assert net.h1.ping(net.h2) and not net.h1.ping(net.h3)

    def udp(dport: int) -> bytes:
        ends = {"eth_src": net.h1.mac, "eth_dst": net.h2.mac, "ipv4_src": net.h1.ip, "ipv4_dst": net.h2.ip}
        return maple.frame(**ends, udp_src=9, udp_dst=dport)

    assert net.h1.send(udp(80)).hosts == ["h2"]
    assert net.h1.send(udp(23)).hosts == []
    tagged = maple.frame(
        eth_src=net.h4.mac,
        eth_dst=net.h2.mac,
        vlan_vid=10,
        ipv4_src=net.h4.ip,
        ipv4_dst=net.h2.ip,
        udp_src=9,
        udp_dst=9,
    )
    arrived = net.h4.send(tagged)
    assert arrived.hosts == ["h2"]
    assert net.h4.send(tagged.replace(b"\x81\x00\x00\x0a", b"\x81\x00\x00\x14")).hosts == []
    assert net.h4.send(udp(80)).hosts == []
    assert net.errors == []


ROUTED = """
vlans:
  left: {vid: 10, faucet_vips: [10.0.0.126/25]}
  right: {vid: 20, faucet_vips: [10.0.1.254/24], routes: [{route: {ip_dst: 10.9.0.0/16, ip_gw: 10.0.1.3}}]}
  alone: {vid: 30, faucet_vips: [10.0.3.254/24]}
routers: {r: {vlans: [left, right]}}
dps:
  s: {dp_id: 1, interfaces: {1: {native_vlan: left}, 2: {native_vlan: right}, 3: {tagged_vlans: [right, left]}}}
  t: {dp_id: 2, interfaces: {1: {native_vlan: alone}, 2: {native_vlan: left}}}
"""
GATEWAY, A, B, C = "0e:00:00:00:00:01", "02:00:00:00:00:0a", "02:00:00:00:00:0b", "02:00:00:00:00:0c"


def routed_bench() -> Bench:
    bench = Bench()
    bench.switch(1, [1, 2, 3])
    bench.switch(2, [1, 2])
    bench.link((1, 9), (2, 9))
    for mac, ip, port in ((A, "10.0.0.1", 1), (B, "10.0.1.2", 2), (C, "10.0.1.3", 3)):
        bench.host(mac, 1, port, ip)
    return bench


def leaves(bench: Bench, network: Any, frame: bytes, switch: int = 1, port: int = 1) -> list[tuple[int, int, bytes]]:
    decision = bench.decide(network, frame, switch, port)
    assert decision.error is None
    return [(at.switch, at.port, sent) for at, sent in decision.copies]


def test_the_policy_routes_between_vlans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network, bench = policy(tmp_path, ROUTED, monkeypatch), routed_bench()

    def udp(dst: str, src_mac: str = A, dst_mac: str = GATEWAY, **tag: int) -> bytes:
        ends = {"eth_src": src_mac, "eth_dst": dst_mac, "ipv4_src": "10.0.0.1", "ipv4_dst": dst}
        return maple.frame(**ends, udp_src=9, udp_dst=9, **tag)

    assert leaves(bench, network, udp("10.0.1.2")) == [(1, 2, udp("10.0.1.2", GATEWAY, B))]
    assert leaves(bench, network, udp("10.9.9.9")) == [(1, 3, udp("10.9.9.9", GATEWAY, C, vlan_vid=20))]
    assert leaves(bench, network, udp("10.0.1.2", vlan_vid=10), port=3) == [(1, 2, udp("10.0.1.2", GATEWAY, B))]
    assert leaves(bench, network, udp("10.0.1.3", vlan_vid=10), port=3) == [
        (1, 3, udp("10.0.1.3", GATEWAY, C, vlan_vid=20))
    ]
    for nowhere in ("10.0.3.1", "192.168.0.1"):
        assert leaves(bench, network, udp(nowhere)) == []
    assert leaves(bench, network, udp("10.0.1.2", vlan_vid=30), port=3) == []
    assert leaves(bench, network, udp("10.0.1.2", src_mac=GATEWAY, dst_mac=B)) == []


def test_the_policy_asks_for_hosts_that_it_does_not_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network, bench = policy(tmp_path, ROUTED, monkeypatch), routed_bench()
    ends = {"eth_src": A, "eth_dst": GATEWAY, "ipv4_src": "10.0.0.1", "ipv4_dst": "10.0.1.77"}
    question = {
        "eth_src": GATEWAY,
        "eth_dst": "ff:ff:ff:ff:ff:ff",
        "arp_op": 1,
        "arp_spa": "10.0.1.254",
        "arp_tpa": "10.0.1.77",
    }
    found = leaves(bench, network, maple.frame(**ends, udp_src=9, udp_dst=9))
    assert found == [(1, 2, maple.frame(**question)), (1, 3, maple.frame(**question, vlan_vid=20))]


def test_gateways_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network, bench = policy(tmp_path, ROUTED, monkeypatch), routed_bench()

    def arp(op: int, src: str, dst: str, spa: str, tpa: str, **tag: int) -> bytes:
        return maple.frame(eth_src=src, eth_dst=dst, arp_op=op, arp_spa=spa, arp_tpa=tpa, **tag)

    asked = arp(1, A, "ff:ff:ff:ff:ff:ff", "10.0.0.1", "10.0.0.126")
    assert leaves(bench, network, asked) == [(1, 1, arp(2, GATEWAY, A, "10.0.0.126", "10.0.0.1"))]
    asked = arp(1, C, "ff:ff:ff:ff:ff:ff", "10.0.1.3", "10.0.1.254", vlan_vid=20)
    assert leaves(bench, network, asked, port=3) == [(1, 3, arp(2, GATEWAY, C, "10.0.1.254", "10.0.1.3", vlan_vid=20))]

    def ping(src: str, dst: str, from_: str, to: str, kind: int) -> bytes:
        ends = {"eth_src": src, "eth_dst": dst, "ipv4_src": from_, "ipv4_dst": to}
        return maple.frame(**ends, icmpv4_type=kind, icmpv4_code=0, payload=b"1234hello")

    for address in ("10.0.0.126", "10.0.1.254"):
        asked, answered = ping(A, GATEWAY, "10.0.0.1", address, 8), ping(GATEWAY, A, address, "10.0.0.1", 0)
        assert leaves(bench, network, asked) == [(1, 1, answered)]
    assert leaves(bench, network, ping(A, GATEWAY, "10.0.0.1", "10.0.3.254", 8)) == []


def test_broadcasts_reach_ports_with_and_without_tags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network, bench = policy(tmp_path, ROUTED, monkeypatch), routed_bench()

    def hello(**tag: int) -> bytes:
        return maple.frame(eth_src=A, eth_dst="ff:ff:ff:ff:ff:ff", eth_type=0x88B5, payload=bytes(46), **tag)

    assert sorted(leaves(bench, network, hello())) == [(1, 3, hello(vlan_vid=10)), (2, 2, hello())]
    assert sorted(leaves(bench, network, hello(vlan_vid=10), port=3)) == [(1, 1, hello()), (2, 2, hello())]
    assert leaves(bench, network, hello(), switch=2, port=1) == []


def test_ports_that_are_not_there_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network, bench = policy(tmp_path, TAGGED, monkeypatch), Bench()
    bench.switch(1, [1, 2])
    bench.host(A, 1, 1, "10.0.0.1")
    hello = {"eth_src": A, "eth_dst": "ff:ff:ff:ff:ff:ff", "eth_type": 0x88B5, "payload": bytes(46)}
    broadcast = maple.frame(**hello)
    assert leaves(bench, network, broadcast) == [(1, 2, broadcast)]
    ends = {"eth_src": A, "eth_dst": GATEWAY, "ipv4_src": "10.0.0.1", "ipv4_dst": "10.0.0.77"}
    question = {"eth_src": GATEWAY, "eth_dst": "ff:ff:ff:ff:ff:ff", "arp_op": 1, "arp_spa": "10.0.0.126"}
    asked = maple.frame(**question, arp_tpa="10.0.0.77")
    found = leaves(bench, network, maple.frame(**ends, udp_src=9, udp_dst=9))
    assert found == [(1, 1, asked), (1, 2, asked)]
    bench.switch(2, [1])
    bench.link((1, 9), (2, 9))
    tagged = maple.frame(**hello, vlan_vid=10)
    assert sorted(leaves(bench, network, broadcast)) == [(1, 2, broadcast), (2, 1, tagged)]


TAGGED = """
vlans: {left: {vid: 10, faucet_vips: [10.0.0.126/25]}}
dps:
  s: {dp_id: 1, interfaces: {1: {native_vlan: left}, 2: {native_vlan: left}}}
  t: {dp_id: 2, interfaces: {1: {tagged_vlans: [left]}}}
"""


def test_what_bridges_never_forward_goes_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = switch("1: {native_vlan: 10}, 2: {native_vlan: 10}").replace("dp_id: 7", "dp_id: 1")
    net = maple.emulate("single:2", policy(tmp_path, text, monkeypatch))

    def hosts(dst: str) -> list[str]:
        return net.h1.send(maple.frame(eth_src=net.h1.mac, eth_dst=dst, eth_type=0x88B5)).hosts

    assert hosts("ff:ff:ff:ff:ff:ff") == ["h2"]
    assert [hosts(dst) for dst in ("01:80:c2:00:00:00", "01:80:c2:00:00:0f", "01:00:0c:cc:cc:cd")] == [[], [], []]
    assert net.errors == []


def test_floods_of_unknown_hosts_spare_quiet_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = TAGGED.replace("2: {native_vlan: left}", "2: {native_vlan: left, unicast_flood: false}")
    network, bench = policy(tmp_path, text, monkeypatch), Bench()
    bench.switch(1, [1, 2])
    bench.switch(2, [1])
    bench.link((1, 9), (2, 9))
    unknown = maple.frame(eth_src=A, eth_dst=B, eth_type=0x88B5, payload=bytes(46))
    assert [at[:2] for at in leaves(bench, network, unknown)] == [(2, 1)]
    bench.host(B, 1, 2, "10.0.0.2")
    assert leaves(bench, network, unknown) == [(1, 2, unknown)], "its own host gets them"


def test_nobody_has_the_address_of_a_gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network, bench = policy(tmp_path, switch("1: {native_vlan: 10}, 2: {native_vlan: 10}"), monkeypatch), Bench()
    bench.switch(7, [1, 2])
    found = [
        leaves(bench, network, maple.frame(eth_src=mac, eth_dst=B, eth_type=0x88B5), switch=7) for mac in (A, GATEWAY)
    ]
    assert [len(copies) for copies in found] == [1, 0]
