"""Errors in faucet.yaml name file, line and key."""

from __future__ import annotations

from pathlib import Path

import pytest
from maple.importers import InputError
from test_importers_faucet import convert, switch


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
        (
            switch("1: {acl_in: a}", "    - {dl_type: 0x800, actions: {}}"),
            r":3: acls\.a\[1\]\.actions: the rule has no actions; Faucet refuses that",
        ),
        (
            switch("1: {}", rest="").replace("interfaces", "interface_ranges").replace("1:", "'4-2':"),
            "4-2 is not a range",
        ),
        (switch("1: {acl_in: a}", "    - {ipv4_src: 10.0.0.300}"), r"ipv4_src: '10\.0\.0\.300'"),
        (switch("1: {acl_in: a}", "    - {tcp_dst: 70000}"), r"tcp_dst is a number from 0 to 65535"),
        (switch("1: {acl_in: a}", "    - {actions: {mirror: 9}}"), r"s has no port 9"),
        (switch("1: {tagged_vlans: [10], native_vlan: 10}"), r"VLAN 10 is also the native one"),
        (switch("one: {native_vlan: 10}"), r"a port is a number from 1 to 4294967040, not 'one'"),
        (switch("4294967041: {native_vlan: 10}"), r":6: .*a port is a number from 1 to"),
        (switch("true: {native_vlan: 10}"), r":6: .*a port is a number from 1 to"),
        (switch("1: {native_vlan: true}"), r":6: .*native_vlan: no VLAN True"),
        (
            switch("1: {}", rest="vlans: {v: {vid: 5000}}"),
            r":4: vlans\.v\.vid: a VLAN is a number from 1 to 4094, not 5000",
        ),
        (switch("1: {}", rest="vlans: {v: {vid: 5, faucet_mac: 0e}}"), r":4: vlans\.v\.faucet_mac: '0e' is not a MAC"),
        (switch("1: {}", rest="vlans: {v: {vid: 5, faucet_mac: '01:00:00:00:00:01'}}"), r":4: .*is a group address"),
        ("dps: {s: {dp_id: -1}}", r":1: dps\.s\.dp_id: dp_id is a number from 0 to 18446744073709551615, not -1"),
        ("dps: {s: {dp_id: 0x10000000000000000}}", r":1: dps\.s\.dp_id: dp_id is a number"),
        ("dps: {s: {dp_id: '1'}}", r":1: dps\.s\.dp_id: '1' stands where a number is expected"),
        (switch("1: {acl_in: a}", "    - {dl_type: 0x10000}"), r":3: acls\.a\[1\]: dl_type is a number from 1536"),
        (switch("1: {acl_in: a}", "    - {dl_type: 5}"), r":3: acls\.a\[1\]: dl_type is a number from 1536"),
        (switch("1: {acl_in: a}", "    - {vlan_vid: 4095}"), r":3: acls\.a\[1\]: vlan_vid is a number from 1 to 4094"),
        (switch("1: {acl_in: a}", "    - {vlan_vid: 0x2001}"), r":3: acls\.a\[1\]: vlan_vid is a number"),
        (switch("1: {acl_in: a}", "    - {nw_proto: 256}"), r":3: acls\.a\[1\]: ip_proto is a number from 0 to 255"),
        (switch("1: {acl_in: a}", "    - {nw_proto: -1}"), r":3: acls\.a\[1\]: ip_proto is a number from 0 to 255"),
        (
            switch("1: {acl_in: a}", "    - {actions: {allow: 1, output: {ports: 3}}}"),
            r":3: acls\.a\[1\]\.actions\.output: 3 stands where a list is expected",
        ),
        (
            switch("1: {acl_in: a}", "    - {actions: {allow: 1, output: {ports: }}}"),
            r":3: acls\.a\[1\]\.actions\.output: None stands where a list is expected",
        ),
        (
            switch("1: {acl_in: a}", "    - {actions: {allow: 1, output: [3]}}"),
            r":3: acls\.a\[1\]\.actions\.output: 3 stands where a mapping is expected",
        ),
        (switch("1: {enabled: 'no'}"), r":6: dps\.s\.interfaces\.1\.enabled: 'no' stands where true or false"),
        (switch("1: {native_vlan: 10, mirror: 2}"), r":6: .*\.mirror: such a port has no VLANs; Faucet refuses that"),
        (switch("1: {acl_in: a}", "    - {cookie: 65537}"), r":3: acls\.a\[1\]\.cookie: a cookie is a number from 0"),
        (switch("1: {acl_in: a}", "    - {actions: {allow: yes}}"), r"actions\.allow: 'yes' stands where a number"),
        (
            switch("1: {acl_in: a}", "    - {actions: {meter: slw}}", "meters: {slow: {meter_id: 1}}"),
            r":3: acls\.a\[1\]\.actions\.meter: no meter slw; did you mean slow\?",
        ),
        (switch("one: {number: 1, name: two}"), r":6: dps\.s\.interfaces\.one: the key is neither the name two nor"),
        ("vlans: {v: {vid: 5, name: w}}\ndps: {s: {dp_id: 1}}", r":1: vlans\.v: the key is neither the name w nor"),
        ("dps: {s: {dp_id: 1, name: t}}", r":1: dps\.s\.name: the key is s; Faucet wants the same name"),
        ("dps: {s: {interfaces: {}}}", r"dps\.s\.dp_id: the switch has no dp_id"),
        ("dps: {s: {dp_id: 1}, t: {dp_id: 1}}", r"s has dp_id 1, too"),
        ("acls: {}", r"no switches"),
        ("dps: {s: {dp_id: 1, interface_ranges: {a-b: {}}}}", r"ranges are such as 1-6,8"),
    ],
)
def test_errors_name_file_line_and_key(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(InputError, match=r"faucet\.yaml.*" + error):
        convert(tmp_path, text)


def test_errors_name_the_file_of_a_section_that_two_files_have(tmp_path: Path) -> None:
    path, more = tmp_path / "faucet.yaml", tmp_path / "more.yaml"

    def error(own: str, other: str) -> tuple[str, int | None]:
        more.write_text(other)
        with pytest.raises(InputError) as caught:
            convert(tmp_path, f"include: [more.yaml]\n{own}")
        return caught.value.place.file, caught.value.place.line

    fine = "dps: {t: {dp_id: 2}}"
    assert error("vlans: {v: 3}\ndps: {s: {dp_id: 1}}", "vlans: {w: {vid: 1}}") == (str(path), 2)
    assert error("vlans: {w: {vid: 1}}\ndps: {s: {dp_id: 1}}", "vlans:\n\n  v: 3") == (str(more), 3)
    assert error("dps: {s: 1}", fine) == (str(path), 2)
    assert error("\ndps: {s: {dp_id: 2}}", fine) == (str(more), 1)
    assert error("acls: {a: 1}\ndps: {s: {dp_id: 1}}", "acls: {b: [{actions: {allow: 1}}]}") == (str(path), 2)
    assert error("routers: {r: 1}\ndps: {s: {dp_id: 1}}", "routers: {q: {vlans: []}}") == (str(path), 2)
