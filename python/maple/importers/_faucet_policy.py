"""The text of a policy for what faucet.yaml says of VLANs and routes."""

from __future__ import annotations

import json
from typing import Any

TEMPLATE = '''"""VLANs and routes of {source}, converted by maple.importers. An ordinary policy: change it as you like.

Packets pass the lists first. Then they stay in their VLAN, unless they are for the gateway's MAC address: the policy
answers for gateways, and routes between VLANs and to static routes. Only IPv4 is routed, and the TTL stays as it is.
"""

from pathlib import Path

import maple
from maple import IN_PORT, Ip, Location, Mac, Net, Packet, Prefix, Route, answer, drop, frame, multicast, to

# Each VLAN by its number, with its ports as (switch, port).
VLANS = {vlans}
# The gateways' addresses in each VLAN, with the length of the subnet's prefix and the MAC address.
GATEWAYS = {gateways}
# VLAN from: where to, by way of which address (none: directly), in which VLAN. Longer prefixes come first.
ROUTES = {routes}

UNTAGGED = {{Location(*port): vid for vid, vlan in VLANS.items() for port in vlan["untagged"]}}
TAGGED = {{vid: {{Location(*port) for port in vlan["tagged"]}} for vid, vlan in VLANS.items()}}
SHUT = {{Location(*port) for port in {shut}}}
# By these ports nothing leaves for a host that nobody knows.
QUIET = {{Location(*port) for port in {quiet}}}
# Nobody else may have the MAC address of a gateway, which each VLAN may get.
RESERVED = {reserved}
EVERYBODY = Mac("ff:ff:ff:ff:ff:ff")


def forwarding(pkt: Packet, net: Net) -> Route:
    here = Location(int(pkt.switch), int(pkt.in_port))
    vid = vlan_of(pkt, here)
    if vid is None or here in SHUT or pkt.eth_src.is_multicast or any(pkt.eth_src == mac for mac in RESERVED):
        return drop()
    for ip, _, mac in GATEWAYS.get(vid, ()):
        if pkt.arp_op == 1 and pkt.arp_tpa == ip:
            ends = {{"eth_src": mac, "eth_dst": pkt.eth_src.value, "arp_spa": ip, "arp_tpa": pkt.arp_spa.value}}
            return answer(made(here, vid, **ends, arp_op=2))
        if pkt.eth_dst == mac:
            return routed(pkt, net, here, vid, mac)
    if pkt.eth_dst.is_multicast or (there := net.locate(pkt.eth_dst)) is None:
        return spread(pkt, net, here, vid) if pkt.eth_dst.is_multicast or VLANS[vid]["flood"] else drop()
    return delivered(pkt, net, here, there, vid)


def vlan_of(pkt: Packet, here: Location) -> int | None:
    """The VLAN of a packet; none if its port does not take it."""
    if not pkt.vlan_vid.is_present:
        return UNTAGGED.get(here)
    return next((vid for vid, ports in TAGGED.items() if here in ports and pkt.vlan_vid == vid), None)


def delivered(pkt: Packet, net: Net, here: Location, there: Location, vid: int, **headers: object) -> Route:
    """The route to a port of a VLAN, with the VLAN's tag or without one."""
    route = to(IN_PORT) if there == here and headers else net.shortest_path(here, there)
    if there in TAGGED[vid]:
        return route.set(**headers) if pkt.vlan_vid == vid else route.set(vlan_vid=vid, **headers)
    if UNTAGGED.get(there) != vid:
        return drop()
    return route.set(vlan_vid=0, **headers) if pkt.vlan_vid.is_present else route.set(**headers)


def spread(pkt: Packet, net: Net, here: Location, vid: int) -> Route:
    """The route to all ports of a VLAN. A packet leaves a switch in one form, so if a VLAN has both kinds of ports, the
    policy itself sends to those with tags. What bridges never forward goes nowhere."""
    if pkt.eth_dst.is_reserved:
        return drop()
    skipped = {{here}} if pkt.eth_dst.is_multicast else {{here, *QUIET}}
    plain = [net.shortest_path(here, at) for at, own in UNTAGGED.items() if own == vid and at not in skipped]
    tagged = sorted(TAGGED[vid] - skipped)
    if not plain:
        route = multicast([net.shortest_path(here, place) for place in tagged]) if tagged else drop()
        return route if pkt.vlan_vid.is_present or not tagged else route.set(vlan_vid=vid)
    for place in tagged:
        ether = pkt.frame[:12], pkt.frame[16 if pkt.vlan_vid.is_present else 12 :]
        send(net, ether[0] + b"\\x81\\x00" + vid.to_bytes(2, "big") + ether[1], place)
    return multicast(plain).set(vlan_vid=0) if pkt.vlan_vid.is_present else multicast(plain)


def routed(pkt: Packet, net: Net, here: Location, vid: int, me: str) -> Route:
    """The route to the host, or to the next router, that the VLAN's routes name. Gateways answer pings."""
    for ip in (ip for out in dict.fromkeys(way[2] for way in ROUTES[vid]) for ip, _, _ in GATEWAYS[out]):
        if pkt.ipv4_dst == ip:
            if pkt.icmpv4_type != 8:
                return drop()
            ends = {{"eth_src": me, "eth_dst": pkt.eth_src.value, "ipv4_src": ip, "ipv4_dst": pkt.ipv4_src.value}}
            return answer(made(here, vid, **ends, icmpv4_type=0, icmpv4_code=0, payload=pkt.payload))
    for prefix, via, out in ROUTES[vid]:
        if pkt.ipv4_dst in Prefix(prefix):
            hop = pkt.ipv4_dst.value if via is None else Ip(via)
            ip, _, mac = next((way for way in GATEWAYS[out] if hop in Prefix(way[1])), GATEWAYS[out][0])
            host = net.locate_ip(hop)
            if host is not None:
                return delivered(pkt, net, here, host.location, out, eth_src=mac, eth_dst=host.mac)
            for place in sorted({{*TAGGED[out], *(place for place, own in UNTAGGED.items() if own == out)}}):
                send(net, made(place, out, eth_src=mac, eth_dst=EVERYBODY, arp_op=1, arp_spa=ip, arp_tpa=hop), place)
            return drop()
    return drop()


def send(net: Net, data: bytes, place: Location) -> None:
    """Sends out of a port, if its switch is connected and the port is up."""
    if place.port in net.edge_ports(place.switch):
        net.send(data, place)


def made(place: Location, vid: int, **fields: object) -> bytes:
    """A frame as a port takes it: with the VLAN's tag or without one."""
    return frame(**fields, vlan_vid=vid) if place in TAGGED[vid] else frame(**fields)


{composed}
'''


def text(source: str, network: dict[str, Any], lists: list[str]) -> str:
    """The policy for a network that :func:`from_faucet` describes; `lists` are files of lists beside it."""
    vlans: dict[int, dict[str, Any]] = {
        int(vid): {"name": vlan["name"], "untagged": [], "tagged": [], "flood": vlan["flood"]}
        for vid, vlan in network["vlans"].items()
    }
    shut, quiet = [], []
    for dpid, switch in network["switches"].items():
        for number, port in switch["ports"].items():
            place = (int(dpid), int(number))
            if port["untagged"] is not None:
                vlans[port["untagged"]]["untagged"].append(place)
            for vid in port["tagged"]:
                vlans[vid]["tagged"].append(place)
            if not port["input"]:
                shut.append(place)
            if not port["flood"]:
                quiet.append(place)
    gateways: dict[int, list[tuple[str, str, str]]] = {}
    for gateway in network["gateways"]:
        gateways.setdefault(gateway["vlan"], []).append((gateway["address"], gateway["subnet"], gateway["mac"]))
    stages = [f'    {name.rsplit("-", 1)[-1]}=maple.acl(str(HERE / "{name}.yaml")),' for name in lists]
    composed = "\n".join(
        ["HERE = Path(__file__).parent", "network = maple.tiers(", *stages, "    forwarding=forwarding,", ")"]
    )
    result = TEMPLATE.format(
        source=source,
        vlans=_python(vlans),
        gateways=_python(gateways),
        routes=_python(routes(network)),
        shut=_python(shut),
        quiet=_python(quiet),
        reserved=_python(sorted({vlan["mac"] for vlan in network["vlans"].values()})),
        composed=composed if lists else "network = maple.tiers(forwarding=forwarding)",
    )
    return (
        result
        if lists
        else result.replace("from pathlib import Path\n\n", "").replace(
            "Packets pass the lists first. Then they", "Packets"
        )
    )


def routes(network: dict[str, Any]) -> dict[int, list[tuple[str, str | None, int]]]:
    """The routes of each VLAN with a gateway: prefixes, next hops and VLANs, the longest prefix first."""
    found: dict[int, list[tuple[str, str | None, int]]] = {}
    ready = {gateway["vlan"] for gateway in network["gateways"]}
    for vid in sorted(ready):
        others = {other for group in network["routed"] if vid in group for other in group}
        reached = {vid, *others} - set(network["unrouted"])
        ways: list[tuple[str, str | None, int]] = [
            (gateway["subnet"], None, gateway["vlan"]) for gateway in network["gateways"] if gateway["vlan"] in reached
        ]
        ways += [
            (route["to"], route["via"], route["vlan"])
            for route in network["routes"]
            if route["vlan"] in reached & ready
        ]
        found[vid] = sorted(ways, key=lambda way: -int(way[0].split("/")[1]))
    return found


def _python(value: Any) -> str:
    """The value as Python writes it; of a dictionary each entry on a line of its own."""
    if not isinstance(value, dict) or not value:
        return _quoted(value)
    return "{\n" + "".join(f"    {key}: {_quoted(entry)},\n" for key, entry in value.items()) + "}"


def _quoted(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(key)}: {_quoted(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_quoted, value)) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_quoted, value)) + ")"
    return repr(value)
