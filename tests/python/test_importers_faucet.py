"""faucet.yaml: lists say what Faucet's tables do, and each key has an answer."""

from __future__ import annotations

import json
import re
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import yaml
from acl_form import Packet, evaluator, loaded
from maple.importers import FaucetImport, InputError, NotCovered, _faucet_keys, _faucet_policy, from_faucet
from maple.importers.__main__ import main
from maple.importers._document import LOOSER

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
    return loaded(from_faucet(path, **options))


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


def test_a_rules_own_vlan_does_not_count_in_the_list_of_a_vlan(tmp_path: Path) -> None:
    items = "    - {vlan_vid: 20, dl_type: 0x800, actions: {allow: 0}}\n    - {vlan_vid: 10, actions: {allow: 1}}"
    text = switch("1: {native_vlan: v}, 2: {tagged_vlans: [v]}", items, "vlans: {v: {vid: 10, acl_in: a}}")
    imported = convert(tmp_path, text.replace("dp_id: 7", "dp_id: 1"))
    assert decide(imported, tcp(1)) == decide(imported, tcp(1, at=2, vlan=10)) == "deny"
    assert decide(imported, Packet(0, 0, 0, 0, ethertype=0x806, at=("1", 1))) == "pass"
    notes = [(f.place.line, f.text) for f in imported.report.findings if f.kind == "note"]
    assert notes == [(3, "its VLAN 20 does not count in the list of VLAN 10, as in Faucet")]


def test_what_a_list_passes_is_asked_of_the_next_list(tmp_path: Path) -> None:
    assert [document["arp"] for document in convert(tmp_path, CAMPUS).documents] == ["pass", "pass"]


BOTH_WAYS = {"input": True, "flood": True}


def test_the_network_is_plain_data(tmp_path: Path) -> None:
    network = convert(tmp_path, CAMPUS).network
    assert json.loads(json.dumps(network)) == network
    assert network["switches"]["1"]["ports"]["1"] == {"name": "h1", "untagged": 100, "tagged": [], **BOTH_WAYS}
    assert network["switches"]["1"]["ports"]["4"] == {
        "name": "trunk",
        "untagged": None,
        "tagged": [100, 200],
        **BOTH_WAYS,
    }
    assert network["vlans"] == {
        "100": {"name": "office", "flood": True, "mac": "0e:00:00:00:01:fe"},
        "200": {"name": "guest", "flood": True, "mac": "0e:00:00:00:00:01"},
    }
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


METERS = "meters: {slow: {meter_id: 1, entry: {flags: KBPS, bands: [{type: DROP, rate: 1}]}}}"


def rules(folder: Path, *items: str, **options: Any) -> list[dict[str, Any]]:
    """The rules of a list, without places, names and the end."""
    text = switch(
        "1: {native_vlan: 10, acl_in: a}, 2: {name: tap, native_vlan: 10}",
        "\n".join(f"    - rule: {{{item}}}" for item in items),
        METERS if "meter" in items[0] else "",
    )
    rules_of_all = convert(folder, text, **options).documents[0]["rules"]
    found = [rule for rule in rules_of_all if rule["name"] != "shut"]
    assert found[-1]["action"] == "deny" and found[-1]["at"] == "7:1"
    return [{key: rule[key] for key in rule if key not in ("name", "at", "comment")} for rule in found[:-1]]


RULES = {
    "actions: {allow: 1}": {"action": "pass"},
    "dl_type: 0x86dd, actions: {allow: 0}": {"action": "deny", "ethertype": "ipv6"},
    "dl_src: '0E:00:00:00:00:01', actions: {allow: 1}": {"action": "pass", "from": "0e:00:00:00:00:01"},
    "eth_type: 0x88cc, actions: {allow: 0}": {"action": "deny", "ethertype": 0x88CC},
    "dl_type: '0x800', nw_proto: 17, udp_src: 67, udp_dst: 68": {
        "action": "deny",
        "service": "udp/68",
        "source_ports": [67],
        "ethertype": "ipv4",
    },
    "dl_type: 0x800, nw_src: 10.0.0.1, ipv4_dst: 10.1.2.3/255.255.0.0, actions: {allow: 1}": {
        "action": "pass",
        "ethertype": "ipv4",
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
    "dl_type: 0x86dd, nw_proto: 6, tcp_src: 80, actions: {allow: 1}": {
        "action": "pass",
        "service": "tcp",
        "source_ports": [80],
        "ethertype": "ipv6",
    },
    "dl_src: 'E:0:0:F:2:3', dl_dst: 0e00.000f.0204": {
        "action": "deny",
        "from": "0e:00:00:0f:02:03",
        "to": "0e:00:00:0f:02:04",
    },
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
    "dl_type: 0x800, ipv4_src: 10.0.0.1/255.0.255.0, actions: {allow: 1}": [],
    "dl_type: 0x800, nw_proto: 6, tcp_dst: 80/0xfff0, actions: {allow: 0}": [
        {"action": "deny", "service": "tcp", "ethertype": "ipv4"}
    ],
    "dl_type: 0x800, eth_src: '0e:00:00:00:00:01', ipv4_src: 10.0.0.1, actions: {allow: 1}": [],
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
    with pytest.raises(NotCovered) as refused:
        rules(tmp_path, text)
    found = [str(finding.place) for finding in refused.value.report.not_covered]
    assert any(re.search(r"faucet\.yaml:3: acls\.a\[1\]", place) for place in found), found
    assert rules(tmp_path, text, lenient=True) == left


REFUSED = {
    "tcp_dst: 80, actions: {allow: 1}": "tcp_dst needs nw_proto 6",
    "dl_type: 0x800, tcp_dst: 80, actions: {allow: 0}": "tcp_dst needs nw_proto 6",
    "nw_proto: 6, tcp_dst: 80, actions: {allow: 1}": "nw_proto needs dl_type 0x800 or 0x86dd",
    "nw_src: 10.0.0.1": "nw_src needs dl_type 0x800",
    "dl_type: 0x86dd, nw_src: 10.0.0.1": "nw_src needs dl_type 0x800",
    "dl_type: 0x800, nw_proto: 17, tcp_dst: 80": "tcp_dst needs nw_proto 6",
    "dl_type: 0x800, nw_proto: 58, icmpv6_type: 1": "icmpv6_type is of another version of IP than dl_type",
    "dl_type: 0x806, nw_proto: 6": "nw_proto needs dl_type 0x800 or 0x86dd",
}


@pytest.mark.parametrize("text, lacks", REFUSED.items(), ids=REFUSED)
def test_rules_that_switches_refuse_from_faucet_are_left_out(tmp_path: Path, text: str, lacks: str) -> None:
    """Faucet's checker takes them, and Open vSwitch answers OFPBMC_BAD_PREREQ: the rest of the list decides."""
    acls = f"    - rule: {{{text}}}\n    - rule: {{actions: {{allow: 1}}}}"
    imported = convert(tmp_path, switch("1: {native_vlan: 10, acl_in: a}", acls))
    found = imported.documents[0]["rules"]
    assert [(rule["name"], rule["action"]) for rule in found] == [("a-2", "pass"), ("a-end", "deny")]
    notes = [(note.place.line, note.text) for note in imported.report.findings if note.kind == "note"]
    assert notes == [(3, f"switches refuse this rule of Faucet's: {lacks}; left out, as there")]


def test_what_faucet_takes_for_ports(tmp_path: Path) -> None:
    text = (
        "dps: {s: {dp_id: 7, interfaces: {0xfffffffe: {native_vlan: 10}},"
        " interface_ranges: {'1-2,port8': {native_vlan: 10}}}}"
    )
    assert [*convert(tmp_path, text).network["switches"]["7"]["ports"]] == ["1", "2", "8", "4294967294"]


def test_lists_of_a_port_follow_each_other_and_ports_share_rules(tmp_path: Path) -> None:
    text = switch(
        "1: {acls_in: [a, b]}, 2: {acls_in: [a, b]}, 3: {acls_in: [b]}",
        "    - {dl_type: 0x800, nw_proto: 6, tcp_dst: 1}\n  b:\n    - {actions: {allow: 1}}",
    )
    found = convert(tmp_path, text).documents[0]["rules"]
    assert [(rule["name"], rule["at"]) for rule in found] == [
        ("a-1", ["7:1", "7:2"]),
        ("b-1", ["7:1", "7:2"]),
        ("b-end", ["7:1", "7:2"]),
        ("b-1-2", "7:3"),
        ("b-end-2", "7:3"),
    ]


def test_a_port_that_gets_copies_takes_no_packets(tmp_path: Path) -> None:
    """Faucet calls such a port output-only. What came by it once passed, which is looser."""
    acls = "    - {dl_type: 0x800, actions: {allow: 1, mirror: tap}}\n    - {actions: {allow: 1}}"
    imported = convert(tmp_path, switch("1: {native_vlan: 10, acl_in: a}, 2: {name: tap, native_vlan: 10}", acls))
    assert [rule["at"] for rule in imported.documents[0]["rules"] if rule["name"] == "shut"] == ["7:2"]
    assert imported.network["switches"]["7"]["ports"]["2"]["input"] is False
    notes = [finding.text for finding in imported.report.findings if finding.kind == "note"]
    assert notes == ["port tap gets copies, so it takes no packets, as in Faucet"]


def test_copies_of_packets_that_change_are_not_covered(tmp_path: Path) -> None:
    """A switch sends a packet in one form. Before, the policy failed on such packets."""
    acls = "    - {dl_type: 0x800, actions: {allow: 1, mirror: 3}}\n    - {actions: {allow: 1}}"
    own = "1: {native_vlan: 10, acl_in: a}, 3: {native_vlan: 20}"

    def texts(ports: str, rest: str = "") -> list[str]:
        return [found.text for found in convert(tmp_path, switch(ports, acls, rest), lenient=True).report.not_covered]

    assert texts(own) == []
    assert texts(f"{own}, 2: {{tagged_vlans: [10]}}") == [
        "copies of packets of VLAN 10, which may leave with a tag or without one"
    ]
    routed = "vlans: {10: {faucet_vips: [10.0.0.254/24]}}"
    assert texts(own, routed) == ["copies of packets of VLAN 10, which may leave as routed ones"]
    of_vlan = texts("1: {native_vlan: 10}, 3: {native_vlan: 20}", "vlans: {10: {acl_in: a}}")
    assert of_vlan == ["copies have the tag of the VLAN, and packets come without it"]


def test_a_whole_switch_has_a_list(tmp_path: Path) -> None:
    text = "acls: {a: [{actions: {allow: 1}}]}\ndps: {s: {dp_id: 7, dp_acls: [a], interfaces: {1: {native_vlan: 10}}}}"
    assert [rule["at"] for rule in convert(tmp_path, text).documents[0]["rules"]] == ["7", "7"]


def test_shut_ports_deny_and_send(tmp_path: Path) -> None:
    imported = convert(tmp_path, switch("1: {output_only: true}, 2: {native_vlan: 10, enabled: false}"))
    (document,) = imported.documents
    assert [(rule["action"], rule["at"]) for rule in document["rules"]] == [("deny", ["7:1", "7:2"])]
    ports = imported.network["switches"]["7"]["ports"]
    assert [(ports[number]["untagged"], ports[number]["input"]) for number in "12"] == [(None, False), (None, False)]


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


def test_files_of_odd_names_get_lists_of_plain_ones(tmp_path: Path) -> None:
    path = tmp_path / ".my \"net\"''' #1.yaml"
    path.write_text(CAMPUS)
    assert main(["faucet", str(path), "-o", str(tmp_path / "out")]) == 0
    stem = "my__net______1"
    names = [f"{stem}-ports.yaml", f"{stem}-vlans.yaml", f"{stem}.json", f"{stem}.py"]
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == names
    text = (tmp_path / f"out/{stem}.py").read_text()
    compile(text, "converted", "exec")
    assert [name for name in names if f'HERE / "{name}"' in text] == names[:2]
    assert [d["name"] for d in from_faucet(path, name="a/b").documents] == ["a_b-ports", "a_b-vlans"]


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


VALUES = {
    "true or false": "true",
    "a number": "1",
    "a text": "a",
    "a list": "[a]",
    "a mapping": "{a: b}",
    "a fraction": "1.5",
}


@pytest.mark.parametrize("kind", ["dp", "port", "vlan"])
def test_every_key_of_faucet_has_an_answer(tmp_path: Path, kind: str) -> None:
    for key in {*_faucet_keys.NOT_NEEDED[kind], *_faucet_keys.NOT_COVERED[kind]}:
        value = VALUES[_faucet_keys.kinds(kind, key)[0]]
        extra = {name: f", {key}: {value}" if name == kind else "" for name in ("dp", "port", "vlan")}
        vlan = "" if key in ("stack", "mirror", "coprocessor") else "native_vlan: v"
        port = f"1: {{{vlan}{extra['port'] if vlan else extra['port'][2:]}}}"
        text = f"vlans: {{v: {{vid: 1{extra['vlan']}}}}}\n"
        text += f"dps: {{s: {{dp_id: 1{extra['dp']}, interfaces: {{{port}}}}}}}"
        try:
            findings = convert(tmp_path, text, lenient=True).report.findings
        except NotCovered as refused:
            findings = refused.report.findings
            assert [finding.effect for finding in findings if finding.place.field.endswith(f".{key}")] == [LOOSER]
        assert [finding.kind for finding in findings if finding.place.field.endswith(f".{key}")] == [
            "note" if key in _faucet_keys.NOT_NEEDED[kind] else "not covered"
        ], key


def test_more_ports_than_the_policy_can_send_to_are_not_covered(tmp_path: Path) -> None:
    text = "vlans: {v: {vid: 10, faucet_vips: [10.0.0.1/24]}}\n"
    text += "dps: {s: {dp_id: 7, interface_ranges: {1-65: {native_vlan: v}}, interfaces: {}}}"
    with pytest.raises(NotCovered, match="64 ports"):
        convert(tmp_path, text)
    assert not convert(tmp_path, text.replace("65", "64")).report.not_covered


def test_the_command_says_what_is_not_covered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "faucet.yaml"
    path.write_text(switch("1: {native_vlan: 10, acl_in: a}, 2: {native_vlan: 10}, 3: {mirror: 2}"))
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


LEAVING = """
acls:
  closed:
    - rule: {dl_type: 0x800, nw_proto: 6, tcp_dst: 22, actions: {allow: 0}}
    - rule: {actions: {allow: 1}}
  odd:
    - rule: {vlan_pcp: 3, actions: {allow: 1}}
vlans:
  office: {vid: 100, faucet_vips: ["10.0.1.254/24"]}
  server: {vid: 200, faucet_vips: ["10.0.2.254/24"], acls_out: [closed]}
routers: {r: {vlans: [office, server]}}
dps: {s: {dp_id: 1, interfaces: {1: {native_vlan: office}, 2: {native_vlan: server}}}}
"""


def test_nothing_is_routed_past_a_list_for_what_leaves_a_vlan(tmp_path: Path) -> None:
    """Before, what was routed into the VLAN was not checked, which is looser than the source."""
    with pytest.raises(NotCovered, match="lists for what leaves a VLAN that is routed"):
        convert(tmp_path, LEAVING)
    imported = convert(tmp_path, LEAVING, lenient=True)
    assert [finding.effect for finding in imported.report.not_covered] == ["nothing is routed into it: stricter"]
    ways = _faucet_policy.routes(imported.network)
    assert [way[2] for way in ways[100]] == [100] and [way[2] for way in ways[200]] == [100]


def test_a_list_that_nothing_has_is_a_note_whatever_it_holds(tmp_path: Path) -> None:
    findings = convert(tmp_path, LEAVING.replace(", acls_out: [closed]", "")).report.findings
    assert [(f.kind, f.place.line) for f in findings if "left out" in f.text] == [("note", 3), ("note", 6)]
    assert not any(finding.kind in ("not covered", "converted") for finding in findings)
