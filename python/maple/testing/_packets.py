"""Frames from the words of a test: who sends to whom, and which fields are not as usual."""

from __future__ import annotations

import difflib
import ipaddress
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from maple import _maple
from maple._spelling import OTHER_NAMES

BROADCAST = "ff:ff:ff:ff:ff:ff"
ETH_TYPES = {"arp": 0x0806, "ipv4": 0x0800, "ipv6": 0x86DD}
# The ports that a packet has where the test names none.
CLIENT_PORT, SERVER_PORT = 40_000, {"tcp": 80, "udp": 53, "sctp": 80}
# Fields that are not in a frame, or that building it decides.
NOT_IN_FRAMES = ("in_port", "in_phy_port", "metadata", "tunnel_id")

_numbers = itertools.count(1)


def check_fields(fields: Iterable[str], word: str) -> None:
    """Raises ``TypeError`` where a name is not a field of a frame, with the name that was meant."""
    known = sorted(_maple.FIELDS - set(NOT_IN_FRAMES))
    for name in fields:
        if name in known:
            continue
        close = difflib.get_close_matches(name, known, n=1)
        meant = OTHER_NAMES.get(name, close[0] if close else None)
        hint = f"; did you mean {meant}?" if meant else "; fields have names such as tcp_dst, ipv4_src, vlan_vid"
        raise TypeError(f"{word} got the unknown field {name!r}{hint}")


def fields_in(frame: bytes) -> dict[str, Any]:
    """The fields of a frame, by name."""
    return {name: value for name, value in _maple.fields_of(frame).items() if name not in NOT_IN_FRAMES}


def number_of_frame() -> int:
    """Another number for each frame, so that no two have the same bytes."""
    return next(_numbers)


def frame_of(src: Addresses, dst: Addresses | None, fields: Mapping[str, Any], payload: bytes | None) -> bytes:
    """The bytes of a packet from one host to another, with these fields and the usual ones for the rest."""
    given = dict(fields)
    family = _family(given)
    usual: dict[str, Any] = {"eth_src": src.mac, "eth_dst": _mac_to(dst, given)}
    if family == "arp":
        usual |= _usual_arp(src, dst, given)
    elif family in ("ipv4", "ipv6"):
        usual |= _usual_ip(src, dst, given, family)
    if payload is None and family != "arp":
        payload = b"maple test packet %08d" % number_of_frame()
    return _maple.test_frame(payload=payload, **(usual | given))


class Addresses:
    """The addresses of a host in packets."""

    def __init__(self, mac: str, ipv4: str, ipv6: str) -> None:
        self.mac = mac
        self.ipv4 = ipv4
        self.ipv6 = ipv6


def _family(fields: Mapping[str, Any]) -> str | None:
    """The protocol of the packet: what its fields need, or else IPv4."""
    if any(name.startswith("arp_") for name in fields):
        return "arp"
    if any(name.startswith(("ipv6_", "icmpv6_")) for name in fields):
        return "ipv6"
    eth_type = fields.get("eth_type")
    if eth_type is None:
        return "ipv4" if not any(name.startswith("mpls_") for name in fields) else None
    return next((name for name, number in ETH_TYPES.items() if number == eth_type), None)


def _mac_to(dst: Addresses | None, fields: Mapping[str, Any]) -> str:
    if _family(fields) == "arp" and fields.get("arp_op", 1) == 1:
        return BROADCAST
    group = fields.get("ipv4_dst", fields.get("ipv6_dst"))
    if group is not None and (mac := _group_mac(str(group))) is not None:
        return mac
    return dst.mac if dst is not None else BROADCAST


def _group_mac(address: str) -> str | None:
    """The hardware address that packets for a multicast group are sent to."""
    try:
        group = ipaddress.ip_address(address)
    except ValueError:
        return None
    if not group.is_multicast:
        return None
    low = int(group)
    if group.version == 4:
        return f"01:00:5e:{low >> 16 & 0x7F:02x}:{low >> 8 & 0xFF:02x}:{low & 0xFF:02x}"
    return "33:33:" + ":".join(f"{low >> shift & 0xFF:02x}" for shift in (24, 16, 8, 0))


def _usual_arp(src: Addresses, dst: Addresses | None, fields: Mapping[str, Any]) -> dict[str, Any]:
    usual: dict[str, Any] = {"arp_op": 1, "arp_spa": src.ipv4, "arp_sha": src.mac}
    if dst is not None:
        usual["arp_tpa"] = dst.ipv4
        if fields.get("arp_op") == 2:
            usual["arp_tha"] = dst.mac
    return usual


def _usual_ip(src: Addresses, dst: Addresses | None, fields: Mapping[str, Any], family: str) -> dict[str, Any]:
    usual: dict[str, Any] = {f"{family}_src": getattr(src, family)}
    usual[f"{family}_dst"] = getattr(dst, family) if dst is not None else _everyone(family)
    protocol = _transport(fields)
    if protocol in SERVER_PORT:
        usual |= {f"{protocol}_src": CLIENT_PORT, f"{protocol}_dst": SERVER_PORT[protocol]}
    elif protocol == "icmp":
        usual |= {"icmpv4_type": 8, "icmpv4_code": 0} if family == "ipv4" else {"icmpv6_type": 128, "icmpv6_code": 0}
    return usual


def _everyone(family: str) -> str:
    return "255.255.255.255" if family == "ipv4" else "ff02::1"


def _transport(fields: Mapping[str, Any]) -> str | None:
    for protocol in SERVER_PORT:
        if any(name.startswith(f"{protocol}_") for name in fields):
            return protocol
    numbers = {6: "tcp", 17: "udp", 132: "sctp", 1: "icmp", 58: "icmp"}
    return numbers.get(fields["ip_proto"]) if "ip_proto" in fields else "icmp"
