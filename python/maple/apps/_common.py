"""Code that apps share: how one becomes a policy, how its arguments are checked, and the frames that apps send."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv4Interface, ip_interface
from typing import Any

from maple import Ip, Location, Mac, Net, Packet, Policy, Route, answer, frame
from maple._policy import Function, caller

Place = Location | tuple[int, int] | str
"""An edge port: ``(switch, port)``."""
MacLike = Mac | str
IpLike = Ip | IPv4Address | str

TAGS = (b"\x81\x00", b"\x88\xa8")
"""The EtherTypes of VLAN tags."""
BROADCAST = Mac("ff:ff:ff:ff:ff:ff")
TCP, UDP, ICMP = 6, 17, 1
MAX_FRAMES = 64
"""The maximum number of frames of its own that a policy may send for one packet."""


def app(function: Function, name: str) -> Policy:
    """The policy of an app, under the app's name, as a policy of the file that asks for it."""
    function.__name__ = function.__qualname__ = name
    function.__module__ = caller()[2]
    return Policy(function)


def mac_of(address: object, what: str) -> Mac:
    """An address of one host; ``what`` is for the error."""
    mac: Mac = _converted(Mac, address, what)
    if mac.is_multicast:
        raise ValueError(f"{what}: {mac} is a group address, not that of a host")
    return mac


def ipv4_of(address: object, what: str) -> Ip:
    """An IPv4 address; ``what`` is for the error."""
    ip: Ip = _converted(Ip, address, what)
    if ip.version != 4:
        raise ValueError(f"{what}: {ip} is not an IPv4 address")
    return ip


def interface_of(text: object, what: str) -> IPv4Interface:
    """An IPv4 address with the length of its subnet, such as ``10.0.0.254/24``; ``what`` is for the error."""
    try:
        interface = ip_interface(text)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what}: {error}") from None
    if not isinstance(interface, IPv4Interface):
        raise ValueError(f"{what}: {text} is not an IPv4 address")
    if interface.network.prefixlen > 30:
        raise ValueError(f"{what}: {text!r} leaves no address for hosts; write it as 10.0.0.254/24")
    if interface.ip in (interface.network.network_address, interface.network.broadcast_address):
        raise ValueError(f"{what}: {text!r} is the address of the subnet itself, or of everybody in it")
    return interface


def place_of(place: object, what: str) -> Location:
    """A port; ``what`` is for the error."""
    try:
        return Location(place)  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError, OverflowError) as error:
        form = "a port is (switch, port) or text, such as (1, 4) or '1:4'"
        raise TypeError(f"{what}: {form}, not {place!r}: {error}") from None


def is_place(text: str) -> bool:
    """Whether a text is a port, such as ``1:4``; no address is."""
    try:
        Location(text)
    except ValueError:
        return False
    return True


def places_of(places: Iterable[object], what: str) -> frozenset[Location]:
    """Ports; ``what`` is for the error."""
    is_pair = isinstance(places, tuple) and len(places) == 2 and isinstance(places[0], int)
    if is_pair or isinstance(places, (Location, str)):
        raise TypeError(f"{what} is a list of ports: [{places!r}]")
    return frozenset(place_of(place, what) for place in places)


def own_mac(ip: Ip) -> Mac:
    """A hardware address for an address that no host has: the same in every process."""
    return Mac(0x0200 << 32 | int(ip))


def here(pkt: Packet) -> Location:
    """Where the packet came in."""
    return Location(pkt.switch, int(pkt.in_port))


def start(pkt: Packet) -> Location:
    """Where paths of the packet start: at its switch. The port does not matter, so it is not read."""
    return Location(pkt.switch, 1)


def came_by(pkt: Packet, places: Iterable[Location]) -> bool:
    """Whether the packet came in by one of these ports: a test for each."""
    return any(pkt.switch == at.switch and pkt.in_port == at.port for at in places)


def tag_of(pkt: Packet) -> dict[str, Any]:
    """The VLAN tag that an answer has to carry: that of the packet."""
    return {"vlan_vid": pkt.vlan_vid} if pkt.vlan_vid.is_present else {}


def is_fragment(pkt: Packet) -> bool:
    """Whether an IPv4 packet is a fragment; its transport fields read as 0 then."""
    whole = pkt.frame
    header = 18 if whole[12:14] in TAGS else 14
    # The flag "more fragments" and the offset.
    return int.from_bytes(whole[header + 6 : header + 8], "big") & 0x3FFF != 0


def arp_answer(pkt: Packet, mac: Mac) -> Route:
    """The answer to an ARP request: the address that it asks for is at ``mac``."""
    return answer(
        frame(
            eth_dst=pkt.eth_src,
            eth_src=mac,
            arp_op=2,
            arp_spa=pkt.arp_tpa,
            arp_sha=mac,
            arp_tpa=pkt.arp_spa,
            arp_tha=pkt.arp_sha,
            **tag_of(pkt),
        )
    )


def ping_answer(pkt: Packet) -> Route:
    """The answer to a ping, from the addresses that it was sent to."""
    return answer(
        frame(
            eth_dst=pkt.eth_src,
            eth_src=pkt.eth_dst,
            ipv4_src=pkt.ipv4_dst,
            ipv4_dst=pkt.ipv4_src,
            icmpv4_type=0,
            icmpv4_code=0,
            payload=pkt.payload,
            **tag_of(pkt),
        )
    )


def ask(net: Net, ip: Ip, mac: Mac, own: Ip, at: Mapping[Location, int]) -> None:
    """Asks by ARP who has an address, at ports that are up, each with its VLAN tag (0 for none)."""
    for place, tag in at.items():
        if place.port in net.edge_ports(place.switch):
            fields: dict[str, Any] = {"vlan_vid": tag} if tag else {}
            request = frame(eth_dst=BROADCAST, eth_src=mac, arp_op=1, arp_spa=own, arp_tpa=ip, **fields)
            net.send(request, place)


def _converted(kind: Any, value: object, what: str) -> Any:
    try:
        return kind(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{what}: {error}") from None
