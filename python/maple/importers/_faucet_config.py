"""Reads faucet.yaml with its includes: switches with their ports, VLANs, routers; and reports each key."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from ipaddress import IPv4Interface, IPv6Interface, ip_address, ip_interface, ip_network
from pathlib import Path
from typing import Any, Final

from maple.importers import _faucet_keys as known
from maple.importers import _yaml
from maple.importers._checks import expect, items, mac, mapping, number, of_kinds, refuse_unknown, suggestion
from maple.importers._document import InputError, Place, Report
from maple.importers._yaml import Items, Keys

Interface = IPv4Interface | IPv6Interface

FAUCET_MAC: Final = "0e:00:00:00:00:01"
MAX_PORT: Final = 0xFFFFFF00
LOCAL: Final = 0xFFFFFFFE


@dataclass
class Vlan:
    """A VLAN: its lists, the addresses of its gateway, and static routes by way of hosts in it."""

    vid: int
    name: str
    place: Place
    acls_in: list[str | int] = field(default_factory=list)
    acls_out: list[str | int] = field(default_factory=list)
    addresses: list[Interface] = field(default_factory=list)
    mac: str = FAUCET_MAC
    flood: bool = True
    routes: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class Port:
    """A port of a switch. Its VLANs are numbers. A shut port takes no packets; one that is off sends none, either.
    What is for unknown hosts leaves by it only if it floods."""

    number: int
    name: str
    place: Place
    native: int | None
    tagged: list[int]
    acls: list[str | int]
    shut: bool
    off: bool
    flood: bool


@dataclass
class Switch:
    """A datapath."""

    dp_id: int
    name: str
    place: Place
    ports: list[Port]
    acls: list[str | int]

    def port(self, wanted: object, place: Place) -> str:
        """A port by its number or name, as `switch:port`.

        :raises InputError: the switch has no such port.
        """
        return f"{self.dp_id:x}:{self.find(wanted, place).number}"

    def find(self, wanted: object, place: Place) -> Port:
        """A port by its number or name.

        :raises InputError: the switch has no such port.
        """
        for port in self.ports:
            if wanted in (port.number, port.name):
                return port
        raise InputError(place, f"{self.name} has no port {wanted}{suggestion(wanted, [p.name for p in self.ports])}")


@dataclass
class Config:
    """The whole configuration. Lists are as they stand in the files; a name that is a number is not text."""

    acls: dict[str | int, Any]
    meters: set[str]
    places: dict[str | int, Place]
    vlans: dict[int, Vlan]
    switches: list[Switch]
    routers: list[list[int]]


def read(path: str | Path, report: Report) -> Config:
    """The configuration in a file and those that it includes.

    :raises InputError: a file is wrong.
    """
    sections: dict[str, Keys] = {}
    _load(Path(path), sections, [])
    empty = Keys(str(path), 1)
    acls, meters = sections.get("acls", empty), sections.get("meters", empty)
    for name in meters:
        report.not_cover(meters.place(f"meters.{name}", name), "meters of lists", "see the rules that use it")
    vlans: dict[int, Vlan] = {}
    for key, keys in sections.get("vlans", empty).items():
        vlan = _vlan(key, keys, sections["vlans"], report)
        if vlan.vid in vlans:
            raise InputError(vlan.place, f"VLAN {vlan.vid} is also {vlans[vlan.vid].name}")
        vlans[vlan.vid] = vlan
    dps = sections.get("dps", empty)
    if not dps:
        raise InputError(Place(str(path)), "no switches (`dps`)")
    switches = [
        _switch(str(name), expect(dps[name], Keys, dps.place(f"dps.{name}", name)), vlans, report) for name in dps
    ]
    for at, switch in enumerate(switches):
        if twin := next((other for other in switches[:at] if other.dp_id == switch.dp_id), None):
            place = Place(switch.place.file, switch.place.line, f"dps.{switch.name}.dp_id")
            raise InputError(place, f"{twin.name} has dp_id {switch.dp_id}, too")
    routers = sections.get("routers", empty)
    groups = [
        _router(str(name), expect(routers[name], Keys, routers.place(f"routers.{name}", name)), vlans, report)
        for name in routers
    ]
    places = {name: acls.place(f"acls.{name}", name) for name in acls}
    config = Config(dict(acls), set(map(str, meters)), places, vlans, switches, groups)
    for place, names in _uses(config):
        for name in names:
            if name not in config.acls:
                raise InputError(place, f"no list {name}{suggestion(name, map(str, config.acls))}")
    return config


def _uses(config: Config) -> list[tuple[Place, list[str | int]]]:
    vlans = [(vlan.place, vlan.acls_in + vlan.acls_out) for vlan in config.vlans.values()]
    switches = [(switch.place, switch.acls) for switch in config.switches]
    return vlans + switches + [(port.place, port.acls) for switch in config.switches for port in switch.ports]


def _load(path: Path, sections: dict[str, Keys], outer: list[Path]) -> None:
    """Adds the sections of a file. Faucet lets included files add to what the including one has, and override it."""
    if path.resolve() in outer:
        raise InputError(Place(str(path)), "the file includes itself")
    documents = _yaml.read(path, "1.2")
    if len(documents) != 1 or not isinstance(documents[0], Keys):
        raise InputError(Place(str(path)), "the file is not one mapping")
    keys = documents[0]
    refuse_unknown(keys, known.SECTIONS, "")
    for name in keys:
        if name in ("include", "include-optional", "version"):
            continue
        section = mapping(keys, name, "")
        own = sections.setdefault(name, Keys(str(path), section.line))
        for key, value in section.items():
            own[key] = value
            own.lines[key], own.files[key] = section.lines.get(key, section.line), str(path)
    for key in ("include", "include-optional"):
        for name in items(keys, key, ""):
            included = path.parent / str(name)
            if key == "include" or included.is_file():
                _load(included, sections, [*outer, path.resolve()])


def _report_keys(keys: Keys, kind: str, field_: str, report: Report) -> None:
    """Reports the keys that are not converted; refuses those that Faucet does not know."""
    refuse_unknown(keys, known.ALL[kind], field_)
    for key, value in keys.items():
        place = keys.place(f"{field_}.{key}", key)
        of_kinds(value, known.kinds(kind, key), place)
        if key in known.NOT_NEEDED[kind]:
            report.note(place, known.NOT_NEEDED[kind][key])
        elif value and key in known.NOT_COVERED[kind]:
            text, effect = known.NOT_COVERED[kind][key]
            report.not_cover(place, text, effect)


def _lists(keys: Keys, direction: str, field_: str) -> list[str | int]:
    """The names of the lists at `acl_in` and `acls_in`, or those of the other direction."""
    one, several = keys.get(f"acl_{direction}"), items(keys, f"acls_{direction}", field_)
    if one is not None and several:
        place = keys.place(f"{field_}.acl_{direction}", f"acl_{direction}")
        raise InputError(place, f"either acl_{direction} or acls_{direction}")
    return [one] if one is not None else list(several)


def _vlan(key: object, value: Any, section: Keys, report: Report) -> Vlan:
    field_ = f"vlans.{key}"
    place = section.place(field_, key)
    keys = Keys(place.file, section.lines[key]) if value is None else expect(value, Keys, place)
    _report_keys(keys, "vlan", field_, report)
    vid = number(keys.get("vid", key), 1, 4094, "a VLAN", keys.place(f"{field_}.vid", "vid"))
    vlan = Vlan(vid, _own_name(keys, key, vid, place), place, _lists(keys, "in", field_), _lists(keys, "out", field_))
    at = keys.place(f"{field_}.faucet_mac", "faucet_mac")
    vlan.mac, vlan.flood = mac(keys.get("faucet_mac", FAUCET_MAC), at), keys.get("unicast_flood", True) is not False
    if int(vlan.mac[:2], 16) & 1:
        raise InputError(at, f"{vlan.mac} is a group address, not that of a gateway")
    at = keys.place(f"{field_}.faucet_vips", "faucet_vips")
    for text in items(keys, "faucet_vips", field_):
        try:
            address = ip_interface(str(text))
        except ValueError as error:
            raise InputError(at, str(error)) from None
        if address.network.prefixlen == address.max_prefixlen:
            raise InputError(at, f"{address} is the address of a host alone; a gateway has a network")
        if address.version == 6:
            report.not_cover(at, f"{address}: gateways for IPv6", "the gateway does not answer: stricter")
        vlan.addresses.append(address)
    at = keys.place(f"{field_}.routes", "routes")
    for item in items(keys, "routes", field_):
        route = expect(item, Keys, at)
        route = expect(route.get("route", route), Keys, at)
        refuse_unknown(route, ("ip_dst", "ip_gw"), f"{field_}.routes")
        try:
            to, via = str(ip_network(str(route.get("ip_dst")))), str(ip_address(str(route.get("ip_gw"))))
        except ValueError as error:
            raise InputError(route.place(f"{field_}.routes.route"), str(error)) from None
        if ":" in to:
            report.not_cover(at, f"{to}: routes for IPv6", "the route is missing: stricter")
        elif not any(address.version == 4 for address in vlan.addresses):
            report.not_cover(at, f"{to}: the VLAN has no gateway for IPv4", "the route is missing: stricter")
        else:
            vlan.routes.append((to, via))
    return vlan


def _vid(value: object, vlans: dict[int, Vlan], place: Place) -> int:
    """The number of a VLAN that a port names. Numbers that no VLAN has make one, as in Faucet."""
    for vlan in vlans.values():
        if (value in (vlan.vid, vlan.name) and not isinstance(value, bool)) or vlan.place.field == f"vlans.{value}":
            return vlan.vid
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 4094:
        vlans[value] = Vlan(value, str(value), place)
        return value
    raise InputError(place, f"no VLAN {value}{suggestion(value, [vlan.name for vlan in vlans.values()])}")


def _switch(name: str, keys: Keys, vlans: dict[int, Vlan], report: Report) -> Switch:
    field_ = f"dps.{name}"
    _report_keys(keys, "dp", field_, report)
    if keys.get("dp_id") is None:
        raise InputError(keys.place(f"{field_}.dp_id"), "the switch has no dp_id")
    dp_id = number(keys["dp_id"], 0, 2**64 - 1, "dp_id", keys.place(f"{field_}.dp_id", "dp_id"))
    ports = {at: _port(at, name, port, field_, vlans, report) for at, name, port in _interfaces(keys, field_)}
    acls = list(items(keys, "dp_acls", field_))
    if acls and (both := next((port for port in ports.values() if port.acls), None)):
        raise InputError(both.place, "a switch with dp_acls has no lists at ports")
    if keys.get("name") not in (None, name):
        raise InputError(keys.place(f"{field_}.name", "name"), f"the key is {name}; Faucet wants the same name")
    return Switch(dp_id, name, keys.place(field_), [ports[at] for at in sorted(ports)], acls)


def _interfaces(keys: Keys, field_: str) -> list[tuple[int, str, Keys]]:
    """Number, name and keys of each port; a port's own keys come before those of its range."""
    found: dict[int, tuple[str, Keys]] = {}
    interfaces, ranges = mapping(keys, "interfaces", field_), mapping(keys, "interface_ranges", field_)
    for key, value in interfaces.items():
        place = interfaces.place(f"{field_}.interfaces.{key}", key)
        port = expect(value, Keys, place)
        at = port.get("number", key)
        at = at if at == LOCAL else number(at, 1, MAX_PORT, "a port", place)
        if at in found:
            raise InputError(place, f"port {at} stands here twice")
        found[at] = (_own_name(port, key, at, place), port)
    ranged: set[int] = set()
    for key, value in ranges.items():
        place = ranges.place(f"{field_}.interface_ranges.{key}", key)
        port = expect(value, Keys, place)
        for at in _range(str(key), place):
            if at in ranged:
                raise InputError(place, f"port {at} is in two ranges")
            ranged.add(at)
            name, own = found.get(at, (str(at), port))
            found[at] = (name, own if own is port else _with_defaults(own, port))
    return [(at, name, port) for at, (name, port) in found.items()]


def _own_name(keys: Keys, key: object, number: int, place: Place) -> str:
    """The name of a port or VLAN, which its key is, unless that is its number."""
    name = str(keys.get("name") or key)
    if str(key) not in (str(number), name):
        raise InputError(place, f"the key is neither the name {name} nor the number {number}; Faucet refuses that")
    return name


def _range(text: str, place: Place) -> list[int]:
    """The ports of a range such as `1-6,8`. As Faucet, which takes the numbers out of any text."""
    ports: set[int] = set()
    rest = text
    for part in re.findall(r"\d+-\d+", text):
        first, last = (number(int(end[:11]), 1, MAX_PORT, "a port", place) for end in part.split("-"))
        if not first < last <= first + 65535:
            raise InputError(place, f"{part} is not a range of ports")
        ports.update(range(first, last + 1))
        rest = rest.replace(part, "")
    ports.update(number(int(at[:11]), 1, MAX_PORT, "a port", place) for at in re.findall(r"\d+", rest))
    if not ports:
        raise InputError(place, "ranges are such as 1-6,8")
    return sorted(ports)


def _with_defaults(own: Keys, defaults: Keys) -> Keys:
    both = Keys(own.file, own.line)
    for keys in (defaults, own):
        both.update(keys)
        both.lines.update(keys.lines)
    return both


def _port(port: int, name: str, keys: Keys, switch: str, vlans: dict[int, Vlan], report: Report) -> Port:
    field_ = f"{switch}.interfaces.{name}"
    _report_keys(keys, "port", field_, report)
    native = keys.get("native_vlan")
    if native is not None:
        native = _vid(native, vlans, keys.place(f"{field_}.native_vlan", "native_vlan"))
    at = keys.place(f"{field_}.tagged_vlans", "tagged_vlans")
    tagged = [_vid(vlan, vlans, at) for vlan in items(keys, "tagged_vlans", field_)]
    if native in tagged:
        raise InputError(at, f"VLAN {native} is also the native one")
    apart = next((key for key in ("output_only", "mirror", "stack", "coprocessor") if keys.get(key)), None)
    if apart and (native is not None or tagged):
        raise InputError(keys.place(f"{field_}.{apart}", apart), "such a port has no VLANs; Faucet refuses that")
    off = keys.get("enabled", True) is False or any(keys.get(key) for key in ("dot1x", "lacp", "coprocessor"))
    shut, flood = off or bool(keys.get("output_only")), keys.get("unicast_flood", True) is not False
    return Port(port, name, keys.place(field_), native, tagged, _lists(keys, "in", field_), shut, off, flood)


def _router(name: str, keys: Keys, vlans: dict[int, Vlan], report: Report) -> list[int]:
    _report_keys(keys, "router", f"routers.{name}", report)
    at = keys.place(f"routers.{name}.vlans", "vlans")
    return [_vid(vlan, vlans, at) for vlan in expect(keys.get("vlans", Items([])), Items, at)]
