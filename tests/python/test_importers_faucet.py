"""faucet.yaml: lists say what Faucet's tables do, each key has an answer, and the policy runs on emulated networks."""

from __future__ import annotations

import json
from ipaddress import ip_address
from pathlib import Path
from types import ModuleType
from typing import Any

import maple
import pytest
import yaml
from acl_form import Packet, evaluator
from maple.importers import FaucetImport, InputError, NotCovered, _faucet_keys, from_faucet
from maple.importers.__main__ import main
from maple.testing import Bench

CAMPUS = """
acls:
  no-telnet:
    - rule: {dl_type: 0x800, nw_proto: 6, tcp_dst: 23, actions: {allow: 0}}
    - rule: {actions: {allow: 1}}
  office-only:
    rules:
    - {eth_type: 0x806, actions: {allow: True}}
    - {dl_type: 0x800, ipv4_src: 10.0.1.0/24, actions: {allow: 1}}
vlans:
  office: {vid: 100, faucet_vips: [10.0.1.254/24], faucet_mac: "0e:00:00:00:01:fe"}
  guest: {vid: 200, faucet_vips: [10.0.2.254/24], acls_in: [office-only]}
routers:
  all: {vlans: [office, guest]}
dps:
  sw1:
    dp_id: 1
    interfaces:
      1: {name: h1, native_vlan: office, acl_in: no-telnet}
      2: {native_vlan: 100}
      3: {native_vlan: guest}
      trunk: {number: 4, tagged_vlans: [office, guest]}
"""


def convert(folder: Path, text: str, **options: Any) -> FaucetImport:
    path = folder / "faucet.yaml"
    path.write_text(text)
    return from_faucet(path, **options)


def decide(imported: FaucetImport, packet: Packet) -> str:
    """What the lists say one after another; pass: all of them let it through."""
    answers = (evaluator(document)(packet) for document in imported.documents)
    return next((answer for answer in answers if answer != "pass"), "pass")


def tcp(dport: int, at: int = 1, vlan: int | None = None, src: str = "10.0.1.1", **fields: Any) -> Packet:
    ends = int(ip_address(src)), int(ip_address("10.0.1.2"))
    return Packet(4, *ends, 6, 4000, dport, at=("1", at), vlan=vlan, **fields)


def test_lists_of_ports_and_vlans_both_hold(tmp_path: Path) -> None:
    imported = convert(tmp_path, CAMPUS)
    assert [document["name"] for document in imported.documents] == ["faucet-ports", "faucet-vlans"]
    assert decide(imported, tcp(23)) == "deny"
    assert decide(imported, tcp(23, at=2)) == decide(imported, tcp(80)) == "pass"
    assert decide(imported, tcp(80, at=3)) == "pass"
    assert decide(imported, tcp(80, at=3, src="10.0.9.1")) == "deny"
    assert decide(imported, tcp(80, at=4, vlan=200, src="10.0.9.1")) == "deny"
    assert decide(imported, tcp(80, at=4, vlan=100, src="10.0.9.1")) == "pass"
    assert decide(imported, Packet(0, 0, 0, 0, ethertype=0x806, at=("1", 3))) == "pass"
    assert decide(imported, Packet(0, 0, 0, 0, ethertype=0x88CC, at=("1", 3))) == "deny"


def test_a_list_of_a_vlan_is_for_its_packets_only(tmp_path: Path) -> None:
    text = switch(
        "1: {native_vlan: v, tagged_vlans: [20]}, 2: {native_vlan: 20, tagged_vlans: [v]}, 3: {native_vlan: 30}",
        "    - {dl_type: 0x800, actions: {allow: 0}}",
        "vlans: {v: {vid: 10, acl_in: a}}",
    ).replace("dp_id: 7", "dp_id: 1")
    imported = convert(tmp_path, text)
    places = [(at, vlan) for at in (1, 2, 3) for vlan in (None, 10, 20, 30)]
    denied = [(at, vlan) for at, vlan in places if decide(imported, tcp(1, at=at, vlan=vlan)) == "deny"]
    assert denied == [(1, None), (2, 10)]


def test_the_network_is_plain_data(tmp_path: Path) -> None:
    network = convert(tmp_path, CAMPUS).network
    assert json.loads(json.dumps(network)) == network
    assert network["switches"]["1"]["ports"]["1"] == {"name": "h1", "untagged": 100, "tagged": [], "input": True}
    assert network["switches"]["1"]["ports"]["4"] == {
        "name": "trunk",
        "untagged": None,
        "tagged": [100, 200],
        "input": True,
    }
    assert network["vlans"] == {"100": {"name": "office", "flood": True}, "200": {"name": "guest", "flood": True}}
    assert network["gateways"][0] == {
        "vlan": 100,
        "address": "10.0.1.254",
        "subnet": "10.0.1.0/24",
        "mac": "0e:00:00:00:01:fe",
    }
    assert network["routed"] == [[100, 200]]


def test_every_rule_is_reported_with_its_line(tmp_path: Path) -> None:
    findings = convert(tmp_path, CAMPUS).report.findings
    lines = CAMPUS.splitlines()
    converted = [finding.place for finding in findings if finding.kind == "converted"]
    assert len(converted) == 4
    for place in converted:
        assert place.line is not None and "actions" in lines[place.line - 1]


def switch(ports: str, acls: str = "", rest: str = "") -> str:
    acls = acls or "    - {actions: {allow: 1}}"
    return f"acls:\n  a:\n{acls}\n{rest}\ndps:\n  s: {{dp_id: 7, interfaces: {{{ports}}}}}\n"


def rules(folder: Path, *items: str, **options: Any) -> list[dict[str, Any]]:
    """The rules of a list, without places, names and the end."""
    text = switch(
        "1: {native_vlan: 10, acl_in: a}, 2: {name: tap, native_vlan: 10}",
        "\n".join(f"    - rule: {{{item}}}" for item in items),
    )
    found = convert(folder, text, **options).documents[0]["rules"]
    assert found[-1]["action"] == "deny" and found[-1]["at"] == "7:1"
    return [{key: rule[key] for key in rule if key not in ("name", "at", "comment")} for rule in found[:-1]]


RULES = {
    "actions: {allow: 1}": {"action": "pass"},
    "dl_type: 0x86dd, actions: {}": {"action": "deny", "ethertype": "ipv6"},
    "dl_src: '0E:00:00:00:00:01', actions: {allow: 1}": {"action": "pass", "from": "0e:00:00:00:00:01"},
    "eth_type: 0x88cc, actions: {allow: 0}": {"action": "deny", "ethertype": 0x88CC},
    "dl_type: '0x800', nw_proto: 17, udp_src: 67, udp_dst: 68": {
        "action": "deny",
        "service": "udp/68",
        "source_ports": [67],
        "ethertype": "ipv4",
    },
    "nw_src: 10.0.0.1, ipv4_dst: 10.1.2.3/255.255.0.0, actions: {allow: 1}": {
        "action": "pass",
        "from": "10.0.0.1",
        "to": "10.1.0.0/16",
    },
    "dl_type: 0x800, nw_proto: 1, icmpv4_type: 8, icmpv4_code: 0": {
        "action": "deny",
        "service": "icmp/8.0",
        "ethertype": "ipv4",
    },
    "dl_type: 0x800, nw_proto: 47, actions: {allow: 1}": {"action": "pass", "service": "ip/47", "ethertype": "ipv4"},
    "vlan_vid: 20, actions: {allow: 1}": {"action": "pass", "vlan": 20},
    "tcp_src: 80, actions: {allow: 1}": {"action": "pass", "service": "tcp", "source_ports": [80]},
    "actions: {mirror: tap}": {"action": "pass", "mirror": "7:2"},
    "actions: {allow: 1, output: {port: 2}}": {"action": "pass", "mirror": "7:2"},
    "actions: {allow: 1, output: [{port: tap}]}": {"action": "pass", "mirror": "7:2"},
}


@pytest.mark.parametrize("text, rule", RULES.items(), ids=RULES)
def test_rules(tmp_path: Path, text: str, rule: dict[str, Any]) -> None:
    assert rules(tmp_path, text) == [rule]


UNCOVERED = {
    "vlan_pcp: 3, actions: {allow: 1}": [],
    "vlan_pcp: 3, dl_type: 0x800, actions: {allow: 0}": [{"action": "deny", "ethertype": "ipv4"}],
    "eth_dst: '01:00:5e:00:00:00/ff:ff:ff:00:00:00', actions: {allow: 1}": [],
    "ipv4_src: 10.0.0.1/255.0.255.0, actions: {allow: 1}": [],
    "tcp_dst: 80/0xfff0, actions: {allow: 0}": [{"action": "deny"}],
    "eth_src: '0e:00:00:00:00:01', ipv4_src: 10.0.0.1, actions: {allow: 1}": [],
    "actions: {output: {port: 2}}": [{"action": "deny"}],
    "actions: {output: {failover: {group_id: 1, ports: [1, 2]}}}": [{"action": "deny"}],
    "actions: {allow: 1, output: {set_fields: [{eth_dst: '0e:00:00:00:00:01'}]}}": [{"action": "deny"}],
    "actions: {allow: 1, output: {ports: [1, 2]}}": [{"action": "deny"}],
    "actions: {allow: 1, meter: slow}": [{"action": "deny"}],
    "actions: {allow: 1, force_port_vlan: 1}": [{"action": "deny"}],
    "actions: {allow: 0, mirror: 2}": [{"action": "deny"}],
}


@pytest.mark.parametrize("text, left", UNCOVERED.items(), ids=UNCOVERED)
def test_rules_that_are_not_covered_become_stricter(tmp_path: Path, text: str, left: list[Any]) -> None:
    with pytest.raises(NotCovered, match=r"faucet\.yaml:3: acls\.a\[1\]"):
        rules(tmp_path, text)
    assert rules(tmp_path, text, lenient=True) == left


def test_lists_of_a_port_follow_each_other_and_ports_share_rules(tmp_path: Path) -> None:
    text = switch(
        "1: {acls_in: [a, b]}, 2: {acls_in: [a, b]}, 3: {acls_in: [b]}",
        "    - {tcp_dst: 1}\n  b:\n    - {actions: {allow: 1}}",
    )
    found = convert(tmp_path, text).documents[0]["rules"]
    assert [(rule["name"], rule["at"]) for rule in found] == [
        ("a-1", ["7:1", "7:2"]),
        ("b-1", ["7:1", "7:2"]),
        ("b-end", ["7:1", "7:2"]),
        ("b-1-2", "7:3"),
        ("b-end-2", "7:3"),
    ]


def test_a_whole_switch_has_a_list(tmp_path: Path) -> None:
    text = "acls: {a: [{actions: {allow: 1}}]}\ndps: {s: {dp_id: 7, dp_acls: [a], interfaces: {1: {native_vlan: 10}}}}"
    assert [rule["at"] for rule in convert(tmp_path, text).documents[0]["rules"]] == ["7", "7"]


def test_shut_ports_deny_and_send(tmp_path: Path) -> None:
    imported = convert(
        tmp_path, switch("1: {native_vlan: 10, output_only: true}, 2: {native_vlan: 10, enabled: false}")
    )
    (document,) = imported.documents
    assert [(rule["action"], rule["at"]) for rule in document["rules"]] == [("deny", ["7:1", "7:2"])]
    ports = imported.network["switches"]["7"]["ports"]
    assert [(ports[number]["untagged"], ports[number]["input"]) for number in "12"] == [(10, False), (None, False)]


def test_a_port_with_authentication_is_shut(tmp_path: Path) -> None:
    text = switch("1: {native_vlan: 10, dot1x: true}")
    with pytest.raises(NotCovered, match=r"interfaces\.1\.dot1x: 802\.1X"):
        convert(tmp_path, text)
    assert convert(tmp_path, text, lenient=True).documents[0]["rules"][0]["at"] == "7:1"


def test_lists_of_what_leaves_a_vlan(tmp_path: Path) -> None:
    vlan = "vlans: {v: {vid: 10, acl_out: a}}"
    imported = convert(tmp_path, switch("1: {native_vlan: v}", rest=vlan))
    assert [document["name"] for document in imported.documents] == ["faucet-leaving"]
    with pytest.raises(NotCovered, match="lists for what leaves a VLAN that is routed"):
        convert(
            tmp_path, switch("1: {native_vlan: v}", rest=vlan.replace("acl_out", "faucet_vips: [10.0.0.1/24], acl_out"))
        )


def test_ranges_give_ports_what_they_lack(tmp_path: Path) -> None:
    text = "dps: {s: {dp_id: 7, interface_ranges: {'1-3,5': {native_vlan: 10}}, interfaces: {2: {native_vlan: 20}}}}"
    ports = convert(tmp_path, text).network["switches"]["7"]["ports"]
    assert {number: port["untagged"] for number, port in ports.items()} == {"1": 10, "2": 20, "3": 10, "5": 10}


def test_includes_add_and_override(tmp_path: Path) -> None:
    (tmp_path / "acls.yaml").write_text("acls:\n  a:\n  - {actions: {allow: 1}}\nvlans: {v: {vid: 30}}\n")
    text = "include: [acls.yaml]\ninclude-optional: [none.yaml]\nvlans: {v: {vid: 20}}\n"
    text += "dps: {s: {dp_id: 1, interfaces: {1: {native_vlan: v, acl_in: a}}}}"
    imported = convert(tmp_path, text)
    assert imported.network["switches"]["1"]["ports"]["1"]["untagged"] == 30
    assert imported.documents[0]["rules"][0]["comment"] == f"{tmp_path}/acls.yaml:3"
    (tmp_path / "acls.yaml").write_text("include: [faucet.yaml]\n")
    with pytest.raises(InputError, match=r"faucet\.yaml: the file includes itself"):
        convert(tmp_path, text)
    with pytest.raises(InputError, match=r"gone\.yaml: cannot be read"):
        convert(tmp_path, "include: [gone.yaml]")


@pytest.mark.parametrize("kind", ["dp", "port", "vlan"])
def test_every_key_of_faucet_has_an_answer(tmp_path: Path, kind: str) -> None:
    for key in {*_faucet_keys.NOT_NEEDED[kind], *_faucet_keys.NOT_COVERED[kind]}:
        value = "false" if key == "unicast_flood" else "1"
        extra = {name: f", {key}: {value}" if name == kind else "" for name in ("dp", "port", "vlan")}
        port = f"1: {{native_vlan: v{extra['port']}}}"
        text = f"vlans: {{v: {{vid: 1{extra['vlan']}}}}}\n"
        text += f"dps: {{s: {{dp_id: 1{extra['dp']}, interfaces: {{{port}}}}}}}"
        found = [
            finding
            for finding in convert(tmp_path, text, lenient=True).report.findings
            if finding.place.field.endswith(f".{key}")
        ]
        assert [finding.kind for finding in found] == [
            "note" if key in _faucet_keys.NOT_NEEDED[kind] else "not covered"
        ], key


@pytest.mark.parametrize(
    "text, error",
    [
        ("vlan: {}", r":1: vlan: unknown key; did you mean vlans\?"),
        (
            switch("1: {nativ_vlan: 1}"),
            r":6: dps\.s\.interfaces\.1\.nativ_vlan: unknown key; did you mean native_vlan\?",
        ),
        (
            switch("1: {native_vlan: ofice}", rest="vlans: {office: {vid: 1}}"),
            r"native_vlan: no VLAN ofice; did you mean office\?",
        ),
        (switch("1: {acl_in: b}"), r"dps\.s\.interfaces\.1: no list b"),
        (
            switch("1: {acl_in: a}", "    - {tcp_dest: 1}"),
            r":3: acls\.a\[1\]\.tcp_dest: unknown key; did you mean tcp_dst\?",
        ),
        (switch("1: {acl_in: a}", "    - {actions: {alow: 1}}"), r"actions\.alow: unknown key; did you mean allow\?"),
        (switch("1: {acl_in: a}", "    - {nw_proto: 17, tcp_dst: 1}"), r"tcp_dst does not go with ip_proto 17"),
        (switch("1: {acl_in: a}", "    - {ipv4_src: 10.0.0.300}"), r"ipv4_src: '10\.0\.0\.300'"),
        (switch("1: {acl_in: a}", "    - {tcp_dst: 70000}"), r"tcp_dst is 0 to 65535"),
        (switch("1: {acl_in: a}", "    - {actions: {mirror: 9}}"), r"s has no port 9"),
        (switch("1: {tagged_vlans: [10], native_vlan: 10}"), r"VLAN 10 is also the native one"),
        (switch("one: {native_vlan: 10}"), r"a port needs a number; 'one' is none"),
        (switch("1: {}", rest="vlans: {v: {vid: 5000}}"), r"1 to 4094, not 5000"),
        ("dps: {s: {interfaces: {}}}", r"dps\.s\.dp_id: the switch has no dp_id"),
        ("dps: {s: {dp_id: 1}, t: {dp_id: 1}}", r"s has dp_id 1, too"),
        ("acls: {}", r"no switches"),
        ("dps: {s: {dp_id: 1, interface_ranges: {a-b: {}}}}", r"ranges are such as 1-6,8"),
    ],
)
def test_errors_name_file_line_and_key(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(InputError, match=r"faucet\.yaml.*" + error):
        convert(tmp_path, text)


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


def policy(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The policy that the command writes."""
    (folder / "faucet.yaml").write_text(text)
    assert main(["faucet", str(folder / "faucet.yaml"), "-o", str(folder / "out")]) == 0
    monkeypatch.setattr(maple, "acl", stage, raising=False)
    module = ModuleType("converted")
    path = folder / "out/faucet.py"
    module.__file__ = str(path)
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    return module.__dict__["network"]


def test_the_policy_keeps_vlans_apart_and_applies_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = switch(
        "1: {native_vlan: 10, acl_in: a}, 2: {native_vlan: 10}, 3: {native_vlan: 20}, 4: {tagged_vlans: [10, 20]}",
        "    - {dl_type: 0x800, nw_proto: 17, udp_dst: 23}\n    - {actions: {allow: 1}}",
    ).replace("dp_id: 7", "dp_id: 1")
    net = maple.emulate("single:4", policy(tmp_path, text, monkeypatch))
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


def test_more_ports_than_the_policy_can_send_to_are_not_covered(tmp_path: Path) -> None:
    text = "vlans: {v: {vid: 10, faucet_vips: [10.0.0.1/24]}}\n"
    text += "dps: {s: {dp_id: 7, interface_ranges: {1-65: {native_vlan: v}}, interfaces: {}}}"
    with pytest.raises(NotCovered, match="64 ports"):
        convert(tmp_path, text)
    assert not convert(tmp_path, text.replace("65", "64")).report.not_covered


def test_the_command_says_what_is_not_covered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "faucet.yaml"
    path.write_text(switch("1: {native_vlan: 10, acl_in: a, mirror: 2}, 2: {native_vlan: 10}"))
    assert main(["faucet", str(path), "-o", str(tmp_path / "out")]) == 3
    shown = capsys.readouterr().err
    assert "copies of a whole port (no copies)" in shown and "nothing is written" in shown
    assert not (tmp_path / "out").exists()
    assert main(["faucet", str(path), "-o", str(tmp_path / "out"), "--lenient"]) == 3
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [
        "faucet-ports.yaml",
        "faucet.json",
        "faucet.py",
    ]
    path.write_text("dsp: {}")
    assert main(["faucet", str(path)]) == 1
    assert "maple: " in (shown := capsys.readouterr().err) and "did you mean dps?" in shown


def test_the_command_writes_lists_that_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    imported = convert(tmp_path, CAMPUS)
    assert main(["faucet", str(tmp_path / "faucet.yaml")]) == 0
    assert list(yaml.safe_load_all(capsys.readouterr().out)) == imported.documents
    assert main(["faucet", str(tmp_path / "faucet.yaml"), "-o", str(tmp_path / "one.yaml")]) == 1
    assert "a folder is needed for 4 files" in capsys.readouterr().err
    assert main(["aerleon", "x.pol"]) == 1
    assert "--definitions: aerleon needs the folder" in capsys.readouterr().err
