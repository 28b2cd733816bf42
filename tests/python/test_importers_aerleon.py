"""Lists in Aerleon's language: the converted list gives every packet Aerleon's own verdict, or says what it lacks."""

from __future__ import annotations

import datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import maple
import pytest
from acl_form import Packet, evaluator, is_fragment, loaded
from acl_lists import AclCheck, packets, write_list
from maple.importers import Imported, InputError, NotCovered, from_aerleon
from maple.testing import Bench, frame

NETWORKS = """OFFICE = 10.1.0.0/16 # all of it
         fd00:1::/64
LAB = 10.1.9.0/24
SITES = OFFICE 10.2.0.0/16
WEB = 10.9.0.1/32
"""
SERVICES = """SSH = 22/tcp
DNS = 53/udp 53/tcp
HTTP = 80/tcp 8080-8081/tcp
HIGH = 1024-65535/tcp 1024-65535/udp
"""
HEADER = "header {\n  target:: cisco edge mixed\n}\n"
DAY = datetime.date(2026, 1, 1)


def convert(folder: Path, terms: str, header: str = HEADER, **options: Any) -> Imported:
    (folder / "def").mkdir(exist_ok=True)
    (folder / "def/n.net").write_text(NETWORKS)
    (folder / "def/s.svc").write_text(SERVICES)
    (folder / "edge.pol").write_text(header + terms)
    return loaded(from_aerleon(folder / "edge.pol", folder / "def", today=DAY, **options))


def tcp(src: str, dst: str, dport: int, sport: int = 4000, proto: int = 6) -> Packet:
    return Packet(ip_address(src).version, int(ip_address(src)), int(ip_address(dst)), proto, sport, dport)


def rules(imported: Imported) -> list[dict[str, Any]]:
    """The rules but the one for ARP, without comments and names."""
    found = imported.documents[0]["rules"]
    assert found[0]["ethertype"] == "arp"
    return [{key: rule[key] for key in rule if key not in ("comment", "name")} for rule in found[1:]]


@pytest.mark.parametrize("seed", range(8))
def test_verdicts_equal_those_of_aclcheck(tmp_path: Path, seed: int) -> None:
    path = write_list(tmp_path, seed)
    document = loaded(from_aerleon(path, tmp_path / "def")).documents[0]
    decide, check = evaluator(document), AclCheck(path)
    verdicts = set()
    for packet in packets(tmp_path, seed, 1500):
        verdict = decide(packet)
        # Aclcheck knows whole packets only, and no whole packet looks like a fragment.
        if is_fragment(packet) and document["fragments"] == "deny":
            assert verdict == "deny", packet
        else:
            assert verdict == check.decide(packet), packet
        verdicts.add(verdict)
    assert verdicts == {"allow", "deny"}


def test_packets_follow_from_the_seed(tmp_path: Path) -> None:
    write_list(tmp_path, 1)
    assert list(packets(tmp_path, 5, 100)) == list(packets(tmp_path, 5, 100)) != list(packets(tmp_path, 6, 100))


def test_names_lines_logging_and_comments_are_kept(tmp_path: Path) -> None:
    imported = convert(
        tmp_path,
        'term web {\n  comment:: "Who may see it"\n  source-address:: SITES\n  destination-address:: WEB\n'
        "  destination-port:: HTTP\n  protocol:: tcp\n  logging:: true\n  action:: accept\n}\n",
    )
    (document,) = imported.documents
    assert document["name"] == "edge"
    assert document["groups"] == {
        "SITES": ["OFFICE", "10.2.0.0/16"],
        "OFFICE": ["10.1.0.0/16", "fd00:1::/64"],
        "WEB": ["10.9.0.1"],
    }
    assert document["services"] == {"HTTP": ["tcp/80", "tcp/8080-8081"]}
    assert document["rules"][1] == {
        "action": "allow",
        "name": "web",
        "from": "SITES",
        "to": "WEB",
        "service": "HTTP",
        "log": True,
        "comment": f"{tmp_path}/edge.pol:4: Who may see it",
    }
    assert [(f.kind, f.place.line, f.place.field) for f in imported.report.findings] == [("converted", 4, "web")]


def test_a_service_of_more_protocols_gets_a_name_of_its_own(tmp_path: Path) -> None:
    imported = convert(tmp_path, "term dns {\n protocol:: udp\n destination-port:: DNS\n action:: accept\n}\n")
    assert imported.documents[0]["services"] == {"DNS-udp": ["udp/53"]}


def test_every_protocol_goes_with_every_port_as_in_aerleon(tmp_path: Path) -> None:
    imported = convert(tmp_path, "term a {\n protocol:: tcp udp\n destination-port:: SSH DNS\n action:: accept\n}\n")
    assert rules(imported)[0]["service"] == ["tcp/22", "tcp/53", "udp/22", "udp/53"]
    assert "SSH which is not defined with protocol udp" in imported.report.findings[0].text


def test_addresses_without_others(tmp_path: Path) -> None:
    imported = convert(tmp_path, "term a {\n source-address:: OFFICE\n source-exclude:: LAB\n action:: accept\n}\n")
    assert imported.documents[0]["groups"]["OFFICE-without-LAB"] == ["OFFICE", "!10.1.9.0/24"]
    decide = evaluator(imported.documents[0])
    assert decide(tcp("10.1.8.1", "10.9.0.1", 1)) == "allow"
    assert decide(tcp("10.1.9.1", "10.9.0.1", 1)) == "deny"


def test_all_but_an_address(tmp_path: Path) -> None:
    imported = convert(tmp_path, "term a {\n destination-exclude:: LAB\n action:: accept\n}\n")
    decide = evaluator(imported.documents[0])
    assert [decide(tcp("10.0.0.1", dst, 1)) for dst in ("10.1.9.1", "10.1.8.1")] == ["deny", "allow"]
    assert decide(tcp("fd00::1", "fd00::2", 1)) == "allow"


def test_address_and_port_mean_either_side(tmp_path: Path) -> None:
    imported = convert(tmp_path, "term a {\n address:: LAB\n protocol:: tcp\n port:: SSH\n action:: accept\n}\n")
    decide = evaluator(imported.documents[0])
    lab, far = "10.1.9.1", "10.7.0.1"
    assert decide(tcp(lab, far, 22)) == decide(tcp(far, lab, 22)) == decide(tcp(far, lab, 4000, 22)) == "allow"
    assert decide(tcp(far, far, 22)) == decide(tcp(lab, far, 23)) == "deny"


def test_address_with_a_side_is_what_both_hold(tmp_path: Path) -> None:
    imported = convert(tmp_path, "term a {\n address:: LAB\n source-address:: SITES\n action:: accept\n}\n")
    decide = evaluator(imported.documents[0])
    assert decide(tcp("10.1.9.1", "10.7.0.1", 1)) == decide(tcp("10.2.0.1", "10.1.9.1", 1)) == "allow"
    assert decide(tcp("10.7.0.1", "10.1.9.1", 1)) == decide(tcp("10.2.0.1", "10.2.0.1", 1)) == "deny"


def test_icmp_types_and_codes(tmp_path: Path) -> None:
    terms = (
        "term four {\n protocol:: icmp\n icmp-type:: echo-request unreachable\n action:: accept\n}\n"
        "term six {\n protocol:: icmpv6\n icmp-type:: destination-unreachable\n icmp-code:: 0 4\n action:: accept\n}\n"
    )
    assert [rule["service"] for rule in rules(convert(tmp_path, terms))] == [
        ["icmp/8", "icmp/3"],
        ["icmpv6/1.0", "icmpv6/1.4"],
    ]
    with pytest.raises(InputError, match=r"edge\.pol:4: a\.icmp-type: icmp-type needs"):
        convert(tmp_path, "term a {\n protocol:: icmp tcp\n icmp-type:: echo-request\n action:: accept\n}\n")


def test_protocols_but_some(tmp_path: Path) -> None:
    decide = evaluator(convert(tmp_path, "term a {\n protocol-except:: tcp\n action:: accept\n}\n").documents[0])
    found = [decide(tcp("10.0.0.1", "10.0.0.2", 0, 0, proto)) for proto in (0, 5, 6, 7, 17, 255)]
    assert found == ["allow", "allow", "deny", "allow", "allow", "allow"]


def test_families(tmp_path: Path) -> None:
    imported = convert(
        tmp_path,
        "term a {\n restrict-address-family:: inet6\n protocol:: tcp\n action:: accept\n}\n"
        "term b {\n source-address:: LAB\n protocol:: icmpv6\n action:: accept\n}\n",
    )
    assert rules(imported) == [{"action": "allow", "service": "tcp", "ethertype": "ipv6"}]
    assert "matches no packet" in imported.report.findings[-1].text


def test_terms_decide_neighbour_discovery_too(tmp_path: Path) -> None:
    (document,) = convert(tmp_path, "term a {\n source-address:: LAB\n action:: accept\n}\n").documents
    assert document["arp"] == "deny", "what no term matches is denied"
    decide, six = evaluator(document), int(ip_address("fe80::1"))
    assert [decide(Packet(6, six, six, 58, kind)) for kind in (132, 133, 134, 135, 136)] == ["deny"] * 5
    assert decide(Packet(0, 0, 0, 0, ethertype=0x806)) == "allow", "lists for IP do not apply to ARP"
    bench = Bench(track_hosts=False)
    bench.switch(1, [1, 2])
    advertisement = frame(ipv6_src="fe80::1", ipv6_dst="fe80::2", icmpv6_type=136)
    assert bench.decide(maple.acl(document, allow=maple.to(2)), advertisement).copies == []


def test_terms_without_effect_are_left_out_and_reported(tmp_path: Path) -> None:
    imported = convert(
        tmp_path,
        "term old {\n expiration:: 2025-12-31\n action:: accept\n}\n"
        "term count {\n counter:: c\n action:: next\n}\n"
        "term other {\n platform:: juniper\n action:: accept\n}\n"
        "term no {\n action:: reject\n}\n",
    )
    assert rules(imported) == [{"action": "deny"}]
    texts = [(finding.kind, finding.place.field) for finding in imported.report.findings]
    assert texts == [
        ("note", "old.expiration"),
        ("note", "count.action"),
        ("note", "other"),
        ("note", "no.action"),
        ("converted", "no"),
    ]


def test_a_term_expires_on_its_day(tmp_path: Path) -> None:
    assert rules(convert(tmp_path, "term a {\n expiration:: 2026-01-02\n action:: accept\n}\n")) == [
        {"action": "allow"}
    ]


VERDICTS = (("yes", "accept"), ("no", "deny"))
UNCOVERED = {
    "option": "option:: tcp-established\n protocol:: tcp",
    "source-prefix": "source-prefix:: list",
    "source-interface": "source-interface:: eth0",
    "ttl": "ttl:: 3",
    "dscp-match": "dscp-match:: af11",
    "packet-length": "packet-length:: 1-100",
    "fragment-offset": "fragment-offset:: 1-7",
    "ether-type": "ether-type:: mpls-unicast",
    "protocol": "protocol:: udplite\n destination-port:: HIGH",
}


@pytest.mark.parametrize("keyword, text", UNCOVERED.items(), ids=UNCOVERED)
def test_what_is_not_covered_is_refused_or_made_stricter(tmp_path: Path, keyword: str, text: str) -> None:
    (tmp_path / "def").mkdir()
    terms = "".join(f"term {name} {{\n {text}\n action:: {verdict}\n}}\n" for name, verdict in VERDICTS)
    terms += "term all {\n action:: accept\n}\n"
    if "udplite" in text:
        (tmp_path / "def/more.svc").write_text("LITE = 9/udplite\n")
        terms = terms.replace("HIGH", "LITE")
    with pytest.raises(NotCovered, match=rf"edge\.pol:4: yes\.{keyword}: ") as caught:
        convert(tmp_path, terms)
    assert len(caught.value.report.not_covered) == 2
    imported = convert(tmp_path, terms, lenient=True)
    notes = [finding.text for finding in imported.report.findings if finding.kind == "note"]
    if "protocol:: tcp" in text:
        assert rules(imported) == [{"action": "deny", "service": "tcp"}, {"action": "allow"}]
    else:
        # Nothing is left of the condition, so what comes after it counts for nothing, and is not called converted.
        assert rules(imported) == [{"action": "deny"}]
        assert any(note.startswith("never reached: ") and " denies everything" in note for note in notes)
    assert [(f.place.field, f.effect) for f in imported.report.not_covered] == [
        (f"yes.{keyword}", "left out: stricter"),
        (f"no.{keyword}", "denies more: stricter"),
    ]


def test_a_denying_term_with_a_prefix_list_beside_addresses_denies_from_everywhere(tmp_path: Path) -> None:
    terms = "term no {\n source-address:: LAB\n source-prefix:: list\n protocol:: tcp\n action:: deny\n}\n"
    assert rules(convert(tmp_path, terms, lenient=True)) == [{"action": "deny", "service": "tcp"}]


def test_effects_besides_the_verdict_are_not_covered(tmp_path: Path) -> None:
    terms = "term a {\n policer:: slow\n action:: accept\n}\nterm b {\n routing-instance:: other\n}\n"
    imported = convert(tmp_path, terms, lenient=True)
    assert rules(imported) == []
    assert [f.place.field for f in imported.report.not_covered] == ["a.policer", "b.routing-instance"]


def test_a_filter_is_a_document(tmp_path: Path) -> None:
    imported = convert(
        tmp_path, "term a {\n action:: accept\n}\n" + HEADER.replace("edge", "back") + "term b {\n action:: deny\n}\n"
    )
    assert [document["name"] for document in imported.documents] == ["edge", "back"]
    assert "2 filters" not in str(imported.report)


def test_yaml_policies_and_includes(tmp_path: Path) -> None:
    convert(tmp_path, "term a {\n action:: accept\n}\n")
    (tmp_path / "more.yaml").write_text("terms:\n- name: included\n  source-address: LAB\n  action: deny\n")
    (tmp_path / "edge.yaml").write_text(
        "filters:\n- header:\n    targets: {cisco: edge mixed}\n  terms:\n  - include: more.yaml\n"
        "  - name: rest\n    action: accept\n"
    )
    imported = loaded(from_aerleon(tmp_path / "edge.yaml", tmp_path / "def"))
    assert rules(imported) == [{"action": "deny", "from": "LAB"}, {"action": "allow"}]
    assert [rule["comment"] for rule in imported.documents[0]["rules"][1:]] == [
        f"{tmp_path}/more.yaml:2",
        f"{tmp_path}/edge.yaml:6",
    ]


@pytest.mark.parametrize("suffix", [".pol", ".yaml"])
def test_includes_begin_at_the_nearest_folder_that_has_them_all(tmp_path: Path, suffix: str) -> None:
    """Policies are in `policies/pol`, and name their includes from `policies`, where aclgen begins."""
    convert(tmp_path, "term a {\n action:: accept\n}\n")
    pol, includes = tmp_path / "policies/pol", tmp_path / "policies/includes"
    pol.mkdir(parents=True)
    includes.mkdir()
    if suffix == ".pol":
        (includes / "x.inc").write_text("term inner {\n  action:: deny\n}\n")
        header = "header {\n target:: cisco edge mixed\n}\n"
        (pol / "edge.pol").write_text(f"{header}#include 'includes/x.inc'\nterm outer {{\n action:: accept\n}}\n")
    else:
        (includes / "x.yaml").write_text("terms:\n- name: inner\n  action: deny\n")
        (pol / "edge.yaml").write_text(
            "filters:\n- header:\n    targets: {cisco: edge mixed}\n  terms:\n  - include: includes/x.yaml\n"
        )
    policy, definitions = pol / f"edge{suffix}", tmp_path / "def"
    for base in (None, tmp_path / "policies"):
        assert rules(loaded(from_aerleon(policy, definitions, base=base)))[0] == {"action": "deny"}
    with pytest.raises(InputError, match="Aerleon refuses it"):
        from_aerleon(policy, definitions, base=tmp_path)


@pytest.mark.parametrize(
    ("target", "is_for_ipv4"),
    [
        ("cisco edge", True),
        ("cisco edge extended", True),
        ("cisco edge inet6", False),
        ("cisco edge mixed", False),
        ("juniper edge", True),
        ("juniper edge inet6", False),
        ("iptables INPUT DROP", True),
        ("iptables INPUT DROP inet6", False),
    ],
)
def test_targets_that_are_for_ipv4_only_are_noted(tmp_path: Path, target: str, is_for_ipv4: bool) -> None:
    imported = convert(tmp_path, "term a {\n action:: deny\n}\n", header=f"header {{\n target:: {target}\n}}\n")
    assert any("for IPv4 only" in finding.text for finding in imported.report.findings) == is_for_ipv4


def test_a_term_with_more_combinations_than_a_list_has_entries_is_named(tmp_path: Path) -> None:
    (tmp_path / "def").mkdir()
    for name, first in (("LEFT", 10), ("RIGHT", 20)):
        lines = "".join(f"  {first}.0.{n >> 8}.{(n & 255) & ~1}/32\n" for n in range(0, 4000, 2))
        (tmp_path / f"def/{name.lower()}.net").write_text(f"{name} =\n{lines}")
    term = "term wide {\n source-address:: LEFT\n destination-address:: RIGHT\n action:: accept\n}\n"
    with pytest.raises(NotCovered, match="more than 4 million combinations of addresses and ports"):
        convert(tmp_path, term)


def test_an_include_of_a_pol_file_keeps_its_lines(tmp_path: Path) -> None:
    (tmp_path / "a.inc").write_text("\nterm inner {\n  action:: deny\n}\n")
    imported = convert(tmp_path, "#include 'a.inc'\nterm outer {\n  action:: accept\n}\n")
    assert [rule["comment"] for rule in imported.documents[0]["rules"][1:]] == [
        f"{tmp_path}/a.inc:2",
        f"{tmp_path}/edge.pol:5",
    ]


@pytest.mark.parametrize(
    "terms, text",
    [
        (
            "term a {\n source-address:: NOWHERE\n action:: accept\n}\n",
            r"edge\.pol: Aerleon refuses it: UNDEFINED: NOWHERE",
        ),
        ("term a {\n action:: perhaps\n}\n", r"edge\.pol: Aerleon refuses it: perhaps is not a valid action"),
        (
            "term a {\n restrict-address-family:: both\n action:: accept\n}\n",
            r"edge\.pol:4: a\.restrict-address-family: inet or inet6, not both",
        ),
        ("term a {\n", r"edge\.pol: Aerleon refuses it"),
        ("term a {\n protocol:: quic\n action:: accept\n}\n", r"edge\.pol:4: a\.protocol: unknown protocol quic"),
        ("#include '../out.inc'\nterm a {\n action:: accept\n}\n", r"edge\.pol: Aerleon refuses it: Include file"),
    ],
)
def test_errors_name_the_file(tmp_path: Path, terms: str, text: str) -> None:
    with pytest.raises(InputError, match=text):
        convert(tmp_path, terms)


def test_what_aerleon_ignores_with_a_warning_is_an_error(tmp_path: Path) -> None:
    convert(tmp_path, "term a {\n action:: accept\n}\n")
    terms = "  - {name: a, action: accept, sorce-address: LAB}\n"
    (tmp_path / "edge.yaml").write_text("filters:\n- header:\n    targets: {cisco: edge}\n  terms:\n" + terms)
    with pytest.raises(InputError, match=r"edge\.yaml: Aerleon ignores part of the list: .*sorce-address"):
        from_aerleon(tmp_path / "edge.yaml", tmp_path / "def")


def test_an_address_that_aerleon_would_skip_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "def").mkdir()
    (tmp_path / "def/bad.net").write_text("BAD = 10.0.0.0/24\n      10.0.1.300/32\n")
    with pytest.raises(InputError, match=r"BAD: 10\.0\.1\.300/32: neither an address"):
        convert(tmp_path, "term a {\n source-address:: BAD\n action:: deny\n}\n")


@pytest.mark.parametrize(
    "text, error",
    [
        ("\n  header: " + "[" * 3000, r"edge\.yaml:2: nested too deeply"),
        ("\n  header: \x01", r"edge\.yaml:2: not YAML: the character 0x1"),
        ("\n  header: !!bool perhaps", r"edge\.yaml:2: not YAML: 'perhaps' is not a"),
        ("\n  header: 2020-13-45", r"edge\.yaml:2: not YAML: '2020-13-45' is not a"),
        (" 1", r"edge\.yaml: "),
    ],
)
def test_a_policy_that_is_no_yaml_is_an_error(tmp_path: Path, text: str, error: str) -> None:
    convert(tmp_path, "term a {\n action:: accept\n}\n")
    (tmp_path / "edge.yaml").write_text(f"filters:{text}")
    with pytest.raises(InputError, match=error):
        from_aerleon(tmp_path / "edge.yaml", tmp_path / "def")


def test_networks_may_be_called_any(tmp_path: Path) -> None:
    (tmp_path / "def").mkdir()
    (tmp_path / "def/more.net").write_text("any = 10.3.0.0/16\nMORE = any 10.4.0.0/16\n")
    term = "source-address:: any\n destination-address:: MORE\n destination-exclude:: any\n action:: accept"
    decide = evaluator(convert(tmp_path, f"term a {{\n {term}\n}}\n").documents[0])
    found = [decide(tcp("10.3.0.1", dst, 1)) for dst in ("10.4.0.1", "10.3.0.1", "10.5.0.1")]
    assert found == ["allow", "deny", "deny"] and decide(tcp("10.9.0.1", "10.4.0.1", 1)) == "deny"


def test_missing_definitions_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "edge.pol").write_text(HEADER + "term a {\n action:: accept\n}\n")
    with pytest.raises(InputError, match="nowhere: Aerleon refuses it"):
        from_aerleon(tmp_path / "edge.pol", tmp_path / "nowhere")


def test_a_service_with_the_name_of_a_protocol_is_written_out(tmp_path: Path) -> None:
    (tmp_path / "def").mkdir()
    (tmp_path / "def/more.svc").write_text("tcp = 9/tcp\n")
    imported = convert(tmp_path, "term a {\n protocol:: tcp\n destination-port:: tcp\n action:: accept\n}\n")
    assert rules(imported) == [{"action": "allow", "service": "tcp/9"}]
