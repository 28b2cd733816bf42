"""Rules of Faucet's lists as rules of Maple's form. Faucet's names of fields are those of OpenFlow."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any, Final

from maple.importers._checks import expect, items, mac, mapping, number, of_kinds, refuse_unknown, suggestion
from maple.importers._document import LEFT_OUT, Document, InputError, Place, Report
from maple.importers._faucet_config import Switch
from maple.importers._yaml import Items, Keys

OLD: Final = {
    "dl_dst": "eth_dst",
    "dl_src": "eth_src",
    "dl_type": "eth_type",
    "dl_vlan": "vlan_vid",
    "nw_proto": "ip_proto",
    "nw_src": "ipv4_src",
    "nw_dst": "ipv4_dst",
}
# Nicira's names of fields are of the same fields: Open vSwitch takes them also for what other fields need.
NICIRA: Final = {"eth_type_nxm": "eth_type", "ip_proto_nxm": "ip_proto"}
PORTS: Final = {
    f"{name}_{side}": (number, side)
    for name, number in (("tcp", 6), ("udp", 17), ("sctp", 132))
    for side in ("src", "dst")
}
ICMP: Final = {"icmpv4_type": 1, "icmpv4_code": 1, "icmpv6_type": 58, "icmpv6_code": 58}
ADDRESSES: Final = {
    "eth_src": "from",
    "ipv4_src": "from",
    "ipv6_src": "from",
    "eth_dst": "to",
    "ipv4_dst": "to",
    "ipv6_dst": "to",
}
# What a field needs beside it (OpenFlow 1.3.5 §7.2.3.8): Faucet sends rules without it, and switches refuse them.
NEEDS: Final[dict[str, tuple[str, tuple[int, ...]]]] = {
    **{f"ipv4_{side}": ("eth_type", (0x800,)) for side in ("src", "dst")},
    **{f"ipv6_{side}": ("eth_type", (0x86DD,)) for side in ("src", "dst")},
    "ip_proto": ("eth_type", (0x800, 0x86DD)),
    **{name: ("ip_proto", (proto,)) for name, (proto, _) in PORTS.items()},
    **{name: ("ip_proto", (proto,)) for name, proto in ICMP.items()},
}
CONVERTED: Final = {"eth_type", "ip_proto", "vlan_vid", *PORTS, *ICMP, *ADDRESSES}
# Fields that a list of Faucet may ask for, and one of Maple may not.
NOT_COVERED: Final = {
    *("in_port", "in_phy_port", "metadata", "vlan_pcp", "ip_dscp", "ip_ecn", "arp_op", "arp_spa", "arp_tpa", "arp_sha"),
    *("arp_tha", "ipv6_flabel", "ipv6_nd_target", "ipv6_nd_sll", "ipv6_nd_tll", "mpls_label", "mpls_tc", "mpls_bos"),
    *("pbb_isid", "tunnel_id", "ipv6_exthdr", "nw_ttl", "ct_state", "ct_zone", "ct_mark", "ct_label"),
}
ACTIONS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("allow", "force_port_vlan"), ("a number",)),
    "output": ("a mapping", "a list"),
    "mirror": ("a text", "a number"),
    "meter": ("a text",),
    "ct": ("a mapping",),
}
KINDS: Final = {"cookie": ("a number",), "actions": ("a mapping",), "description": ("a text",)}
MAX_COOKIE: Final = 65536
PROTOCOLS: Final = {1: "icmp", 6: "tcp", 17: "udp", 58: "icmpv6", 132: "sctp"}
ETHERTYPES: Final = {0x800: "ipv4", 0x86DD: "ipv6", 0x806: "arp"}
# OpenFlow sets this bit in the VLAN of a packet that has a tag.
PRESENT: Final = 0x1000


@dataclass
class Rule:
    """A rule for some place. `vlan` is none unless the rule asks for one."""

    allow: bool
    name: str
    place: Place
    match: Document = field(default_factory=dict)
    vlan: int | None = None
    mirror: tuple[object, Place] | None = None
    comment: str = ""


class _NoMatch(Exception):
    """The conditions contradict each other. The text says how."""


def rules(name: str | int, value: Any, place: Place, report: Report, meters: set[str]) -> list[Rule]:
    """The rules of one list.

    :param meters: the names of those that there are.
    :raises InputError: a rule is wrong.
    """
    if isinstance(value, Keys):
        if value.get("exact_match"):
            report.note(value.place(f"{place.field}.exact_match", "exact_match"), "Maple chooses tables by itself")
        if value.get("dot1x_assigned"):
            report.not_cover(value.place(f"{place.field}.dot1x_assigned", "dot1x_assigned"), "802.1X", LEFT_OUT)
    checked = check(value, place)
    found = (_rule(keys, f"{name}-{nth}", at, report, meters) for nth, (keys, at) in enumerate(checked, 1))
    return [rule for rule in found if rule]


def check(value: Any, place: Place) -> list[tuple[Keys, Place]]:
    """The rules of a list as they stand there, with what Faucet wants of each list, also of those that nothing has.

    :raises InputError: Faucet refuses the list.
    """
    if isinstance(value, Keys):
        refuse_unknown(value, ("rules", "exact_match", "dot1x_assigned"), place.field)
        value = items(value, "rules", place.field)
    listed = expect(value, Items, place)
    if not listed:
        raise InputError(place, "the list has no rules")
    found = []
    for nth, (item, line) in enumerate(zip(listed, listed.lines, strict=True), 1):
        at = Place(place.file, line, f"{place.field}[{nth}]")
        keys = expect(item, Keys, at)
        keys = expect(keys.get("rule") or keys, Keys, at)
        found.append((keys, Place(keys.file, line, at.field)))
        _check_kinds(*found[-1])
    return found


def _check_kinds(keys: Keys, at: Place) -> None:
    refuse_unknown(keys, {*CONVERTED, *NOT_COVERED, *OLD, *NICIRA, *KINDS, "rule"}, at.field)
    for key, value in keys.items():
        of_kinds(value, KINDS.get(key, ("a text", "a number")), keys.place(f"{at.field}.{key}", key))
    if keys.get("cookie") is not None:
        number(int(keys["cookie"]), 0, MAX_COOKIE, "a cookie", keys.place(f"{at.field}.cookie", "cookie"))
    if "actions" in keys and not keys["actions"]:
        raise InputError(keys.place(f"{at.field}.actions", "actions"), "the rule has no actions; Faucet refuses that")
    actions = mapping(keys, "actions", at.field)
    refuse_unknown(actions, ACTIONS, f"{at.field}.actions")
    for key, value in actions.items():
        of_kinds(value, ACTIONS[key], actions.place(f"{at.field}.actions.{key}", key))


def _rule(keys: Keys, name: str, at: Place, report: Report, meters: set[str]) -> Rule | None:
    fields = {OLD.get(str(key), str(key)): key for key in keys if key not in KINDS and key != "rule"}
    wrong = _lacks_nicira(set(fields))
    fields = {NICIRA.get(field_, field_): key for field_, key in fields.items()}
    rule = Rule(False, name, at, comment=str(keys.get("description") or ""))
    before = len(report.not_covered)
    _actions(rule, mapping(keys, "actions", at.field), at, report, meters)
    effect = LEFT_OUT if rule.allow else "denies more: stricter"
    missing = [(key, "no equal in Maple's lists") for field_, key in fields.items() if field_ in NOT_COVERED]
    values = {field_: (key, keys[key]) for field_, key in fields.items() if field_ in CONVERTED}
    masked = [field_ for field_, (_, value) in values.items() if _is_masked(field_, value)]
    missing += [(values.pop(field_)[0], "masks of this field have no equal in Maple's lists") for field_ in masked]
    for side in ("src", "dst"):
        if f"eth_{side}" in values and ({f"ipv4_{side}", f"ipv6_{side}"} & set(values)):
            missing.append((values.pop(f"eth_{side}")[0], "a rule names a MAC or an IP address of one side, not both"))
    if lacks := wrong or _lacks(values, at):
        with suppress(_NoMatch):
            _match(
                rule, {field_: value for field_, (_, value) in values.items()}, at
            )  # wrong values are errors here, too
        report.note(at, f"switches refuse this rule of Faucet's: {lacks}; left out, as there")
        return None
    for family in ("icmpv4", "icmpv6"):
        if f"{family}_code" in values and f"{family}_type" not in values:
            missing.append((values.pop(f"{family}_code")[0], "a code of ICMP needs a type in Maple's lists"))
    for key, text in missing:
        report.not_cover(keys.place(f"{at.field}.{key}", key), text, effect)
    if missing and rule.allow:
        return None
    try:
        _match(rule, {field_: value for field_, (_, value) in values.items()}, at)
    except _NoMatch as error:
        report.note(at, f"matches no packet: {error}; left out")
        return None
    if len(report.not_covered) == before:
        report.converted(at, "allow" if rule.allow else "deny")
    return rule


def _lacks_nicira(fields: set[str]) -> str:
    """Why switches refuse Nicira's names of these fields; nothing if they don't. They come first in a match."""
    if twice := next((key for key in NICIRA if {key, NICIRA[key]} <= fields), None):
        return f"it asks for {NICIRA[twice]} twice"
    return "ip_proto_nxm needs eth_type_nxm" if "ip_proto_nxm" in fields and "eth_type_nxm" not in fields else ""


def _lacks(values: dict[str, tuple[object, Any]], at: Place) -> str:
    """Which field lacks what it needs beside it; nothing if none does."""
    for name, (key, _) in values.items():
        other, needed = NEEDS.get(name, (None, ()))
        if other and (other not in values or _number(values[other][1], at) not in needed):
            named = {"eth_type": "dl_type", "ip_proto": "nw_proto"}[other]
            wanted = " or ".join(hex(value) if other == "eth_type" else str(value) for value in needed)
            return f"{key} needs {named} {wanted}"
        if name in ICMP and _number(values["eth_type"][1], at) != (0x800 if ICMP[name] == 1 else 0x86DD):
            return f"{key} is of another version of IP than dl_type"
    return ""


def _actions(rule: Rule, actions: Keys, at: Place, report: Report, meters: set[str]) -> None:
    """The action of Faucet in `build_acl_entry`: no `allow` means no, but for a mirror."""
    if (meter := actions.get("meter")) is not None and meter not in meters:
        place = actions.place(f"{at.field}.actions.meter", "meter")
        raise InputError(place, f"no meter {meter}{suggestion(meter, meters)}")
    rule.allow = actions.get("allow") in (1, True) if "allow" in actions else actions.get("mirror") is not None
    problems = [
        (key, f"{key} has no equal in Maple's lists") for key in ("meter", "ct", "force_port_vlan") if actions.get(key)
    ]
    copies = (
        [(actions["mirror"], actions.place(f"{at.field}.actions.mirror", "mirror"))] if actions.get("mirror") else []
    )
    if output := actions.get("output"):
        place = actions.place(f"{at.field}.actions.output", "output")
        parts = [expect(part, Keys, place) for part in (output if isinstance(output, list) else [output])]
        ports = [port for part in parts if "ports" in part for port in expect(part["ports"], Items, place)]
        ports += [part["port"] for part in parts if "port" in part]
        if rule.allow and all(set(part) <= {"port", "ports"} for part in parts):
            copies += [(port, place) for port in ports]
        else:
            problems.append(("output", "packets that leave by a port of the list's choice, or changed"))
    if len(copies) > 1:
        problems.append(("output", "a rule has one mirror"))
    for key, text in problems:
        effect = "denied: stricter" if rule.allow or key == "output" else ""
        report.not_cover(actions.place(f"{at.field}.actions.{key}", key), text, effect)
    if copies and not rule.allow:
        report.not_cover(copies[0][1], "copies of packets that are dropped", "no copies")
    rule.allow = rule.allow and not problems
    rule.mirror = copies[0] if copies and rule.allow else None


def _match(rule: Rule, values: Document, at: Place) -> None:
    match = rule.match
    ethertype = number(_number(values["eth_type"], at), 0x600, 0xFFFF, "dl_type", at) if "eth_type" in values else None
    for name, side in ADDRESSES.items():
        if name in values:
            match[side] = _address(values[name], name, at)
    if "vlan_vid" in values:
        vid = _number(values["vlan_vid"], at)
        rule.vlan = number(vid - PRESENT if vid > PRESENT else vid, 1, 4094, "vlan_vid", at)
    proto = number(_number(values["ip_proto"], at), 0, 255, "ip_proto", at) if "ip_proto" in values else None
    service = PROTOCOLS.get(proto, f"ip/{proto}") if proto is not None else None
    numbers = {name: _number(values[name], at) for name in (*PORTS, *ICMP) if name in values}
    for name, value in numbers.items():
        own = PORTS[name][0] if name in PORTS else ICMP[name]
        number(value, 0, 65535 if name in PORTS else 255, name, at)
        proto, service = own, PROTOCOLS[own]
    for name, value in numbers.items():
        if name.endswith("_dst"):
            service = f"{service}/{value}"
        elif name.endswith("_src"):
            match["source_ports"] = [value]
    if proto in (1, 58) and numbers:
        kind, code = (numbers.get(f"icmpv{4 if proto == 1 else 6}_{part}") for part in ("type", "code"))
        if kind is None:
            raise _NoMatch("an ICMP code needs a type")
        service = f"{PROTOCOLS[proto]}/{kind}" + (f".{code}" if code is not None else "")
    if service:
        match["service"] = service
    families = {4 if name.startswith("ipv4") else 6 for name in values if name in ADDRESSES and name.startswith("ip")}
    families |= {{0x800: 4, 0x86DD: 6}.get(ethertype, 0)} if ethertype is not None and (families or service) else set()
    families |= {{"icmp": 4, "icmpv6": 6}[service.split("/")[0]]} if service and service.startswith("icmp") else set()
    if len(families) > 1 or families == {0}:
        raise _NoMatch("its fields are of different kinds of packets")
    if ethertype is not None:
        match["ethertype"] = ETHERTYPES.get(ethertype, ethertype)


def _is_masked(name: str, value: object) -> bool:
    """Whether a value has a mask that Maple's form has no place for. Some fields of Faucet have none."""
    if name in ICMP or name in ("eth_type", "ip_proto"):
        return False
    if "/" not in str(value):
        return name == "vlan_vid" and _number_or_none(value) in (None, 0, PRESENT)
    if not name.startswith("ip"):
        return True
    try:
        ip_network(str(value), strict=False)
    except ValueError:
        return bool(re.fullmatch(r"[\d.]+/[\d.]+\.[\d.]+|[0-9a-fA-F:]+/[0-9a-fA-F]*:[0-9a-fA-F:]*", str(value)))
    return False


def _address(value: object, name: str, at: Place) -> str:
    if name.startswith("eth"):
        return mac(value, at)
    try:
        network = ip_network(str(value), strict=False)
    except ValueError as error:
        raise InputError(at, f"{name}: {error}") from None
    if network.version != int(name[3]):
        raise InputError(at, f"{name}: {value} is of another version of IP")
    return str(network.network_address) if network.prefixlen == network.max_prefixlen else str(network)


def _number(value: object, at: Place) -> int:
    found = _number_or_none(value)
    if found is None:
        raise InputError(at, f"{value!r} is not a number")
    return found


def _number_or_none(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        return int(str(value), 0)
    except ValueError:
        return None


def written(rule: Rule, action: str, name: str, switch: Switch, **where: Any) -> Document:
    """The rule in Maple's form, at some ports or in some VLAN."""
    order = ("from", "to", "service", "source_ports", "ethertype")
    match = {key: rule.match[key] for key in order if key in rule.match}
    found: Document = {"action": action, "name": name, **match, **where}
    if rule.mirror:
        found["mirror"] = switch.port(*rule.mirror)
    said = f": {rule.comment}" if rule.comment else ""
    return {**found, "comment": f"{rule.place.source}{said}"}
