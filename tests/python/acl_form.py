"""A naive evaluator of Maple's access lists: each rule in turn, each address of it, no tricks. The oracle of importers.

It takes the documents that importers make, as dictionaries, and packets as numbers. It knows the keys that importers
write, and fails on any other one. :func:`loaded` gives documents to Maple's own reader as well.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_network
from typing import Any, NamedTuple, TypeVar

import maple
from maple.importers import Imported

Result = TypeVar("Result", bound=Imported)

PROTOCOLS = {"icmp": 1, "tcp": 6, "udp": 17, "icmpv6": 58, "sctp": 132}
ETHERTYPES = {"ipv4": 0x800, "ipv6": 0x86DD, "arp": 0x806}
KEYS = {
    "action",
    "name",
    "from",
    "to",
    "service",
    "source_ports",
    "ethertype",
    "vlan",
    "at",
    "replies",
    "log",
    "mirror",
}


KEYS_OF_LISTS = {"version", "name", "default", "arp", "fragments", "groups", "services", "rules"}


class Packet(NamedTuple):
    """An IP packet; version 0 is a packet of another `ethertype`. For ICMP the ports are type and code."""

    version: int
    src: int
    dst: int
    proto: int
    sport: int = 0
    dport: int = 0
    ethertype: int = 0
    vlan: int | None = None
    at: tuple[str, int] = ("1", 1)
    eth_src: str = "02:00:00:00:00:01"
    eth_dst: str = "02:00:00:00:00:02"

    def reverse(self) -> Packet:
        """The packet of the other direction."""
        turned = {"src": self.dst, "dst": self.src, "sport": self.dport, "dport": self.sport}
        return self._replace(**turned, eth_src=self.eth_dst, eth_dst=self.eth_src)


Test = Callable[[Packet], bool]
# version, first bits, mask; for a MAC version 0 and its text
Address = tuple[int, Any, int]


def loaded(imported: Result) -> Result:
    """The result, of which Maple's own reader takes each list."""
    for document in imported.documents:
        maple.acl(document)
    return imported


def evaluator(document: dict[str, Any]) -> Callable[[Packet], str]:
    """What the document says to a packet: allow, deny or pass."""
    assert set(document) <= KEYS_OF_LISTS, document.keys()
    assert document["version"] == 1
    names = [rule["name"] for rule in document["rules"] if "name" in rule]
    assert len(names) == len(set(names)), "names of rules are unique"
    rules = [(rule_test(rule, document), rule["action"]) for rule in document["rules"]]
    rules.append((is_resolution, document.get("arp", "allow")))
    if (fragments := document.get("fragments", "match")) != "match":
        rules.insert(0, (is_fragment, fragments))
    default = document.get("default", "deny")
    assert {default, *(action for _, action in rules)} <= {"allow", "deny", "pass"}

    def decide(packet: Packet) -> str:
        return next((action for test, action in rules if test(packet)), default)

    return decide


def is_fragment(packet: Packet) -> bool:
    """Whether switches show it as no whole packet can be: ports 0, ICMPv6 of type 0, protocol 44 of IPv6."""
    if packet.version and packet.proto in (PROTOCOLS["tcp"], PROTOCOLS["udp"], PROTOCOLS["sctp"]):
        return packet.sport == packet.dport == 0
    return packet.version == 6 and (packet.proto == 44 or (packet.proto == PROTOCOLS["icmpv6"] and packet.sport == 0))


def is_resolution(packet: Packet) -> bool:
    """Whether `arp` decides the packet if no rule does: ARP and IPv6 neighbour discovery."""
    if packet.version == 0:
        return packet.ethertype == ETHERTYPES["arp"]
    return packet.version == 6 and packet.proto == PROTOCOLS["icmpv6"] and 133 <= packet.sport <= 136


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def rule_test(rule: dict[str, Any], document: dict[str, Any]) -> Test:
    assert set(rule) <= KEYS | {"comment"}, rule
    groups, services = document.get("groups", {}), document.get("services", {})
    sides = [(key, address_test(listed(rule[side]), groups, key)) for side, key in SIDES if side in rule]
    service = (
        [item for name in listed(rule["service"]) for item in listed(services.get(name, name))]
        if "service" in rule
        else None
    )
    sources = [ports(item) for item in listed(rule["source_ports"])] if "source_ports" in rule else None
    protocol = service_test(service, sources) if service is not None else None
    assert sources is None or all(str(item).split("/")[0] in ("tcp", "udp", "sctp") for item in service or ["none"])
    ethertype = ETHERTYPES.get(rule.get("ethertype", ""), rule.get("ethertype"))
    assert service is None or ethertype in (None, 0x800, 0x86DD)
    vlans = listed(rule["vlan"]) if "vlan" in rule else None
    places = [place(item) for item in listed(rule["at"])] if "at" in rule else None

    def matches(packet: Packet) -> bool:
        if any(not test(packet) for _, test in sides) or (protocol and not protocol(packet)):
            return False
        own = {4: 0x800, 6: 0x86DD}.get(packet.version, packet.ethertype)
        return ethertype in (None, own)

    def here(packet: Packet) -> bool:
        if places is not None and not any(packet.at[0] == s and p in (None, packet.at[1]) for s, p in places):
            return False
        return vlans is None or ("none" if packet.vlan is None else packet.vlan) in vlans

    if rule.get("replies"):
        return lambda packet: here(packet) and (matches(packet) or matches(packet.reverse()))
    return lambda packet: here(packet) and matches(packet)


SIDES = (("from", "src"), ("to", "dst"))


def place(text: str) -> tuple[str, int | None]:
    switch, _, port = str(text).partition(":")
    return switch, int(port) if port else None


def addresses(items: list[str], groups: dict[str, Any], inside: tuple[str, ...] = ()) -> tuple[list[Any], list[Any]]:
    """Tests of what the items name: those in it, and those taken out."""
    within: list[Any] = []
    without: list[Any] = []
    for item in items:
        assert item not in inside, "a group in itself"
        if item.startswith("!"):
            without.append(address(item[1:]))
        elif item in groups:
            within.append(addresses(listed(groups[item]), groups, (*inside, item)))
        else:
            within.append(address(item))
    return within, without


def address(text: str) -> Address:
    if text.count(":") == 5 and "/" not in text and "::" not in text:
        return (0, text.lower(), 0)
    network = ip_network(text)
    return (network.version, int(network.network_address), int(network.netmask))


def contains(found: Any, version: int, value: int, mac: str) -> bool:
    if len(found) == 3:
        return (value & found[2] == found[1] and found[0] == version) if found[0] else found[1] == mac
    within, without = found
    return any(contains(item, version, value, mac) for item in within) and not any(
        contains(item, version, value, mac) for item in without
    )


def address_test(items: list[str], groups: dict[str, Any], side: str) -> Test:
    found = addresses(items, groups)
    if side == "src":
        return lambda packet: contains(found, packet.version, packet.src, packet.eth_src)
    return lambda packet: contains(found, packet.version, packet.dst, packet.eth_dst)


def ports(item: Any) -> tuple[int, int]:
    low, _, high = str(item).partition("-")
    assert 0 <= int(low) <= int(high or low) <= 65535
    return int(low), int(high or low)


def service_test(items: list[Any], sources: list[tuple[int, int]] | None) -> Test:
    tests = [service(str(item)) for item in items]

    def matches(packet: Packet) -> bool:
        if packet.version == 0 or not any(test(packet) for test in tests):
            return False
        return sources is None or any(low <= packet.sport <= high for low, high in sources)

    return matches


def service(text: str) -> Test:
    name, _, rest = text.partition("/")
    if name == "ip":
        number = int(rest)
        return lambda packet: packet.proto == number
    number = PROTOCOLS[name]
    if name in ("icmp", "icmpv6"):
        kind, _, code = rest.partition(".")
        version = 4 if name == "icmp" else 6
        return lambda packet: (
            packet.proto == number
            and packet.version == version
            and (not kind or packet.sport == int(kind))
            and (not code or packet.dport == int(code))
        )
    low, high = ports(rest) if rest else (0, 65535)
    return lambda packet: packet.proto == number and low <= packet.dport <= high
