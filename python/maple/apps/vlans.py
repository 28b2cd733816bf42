"""VLANs with access and trunk ports, and routing between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address
from typing import Any

from maple import IN_PORT, Ip, Location, Mac, Net, Packet, Policy, Route, drop, multicast, to
from maple.apps._common import (
    MAX_FRAMES,
    TAGS,
    IpLike,
    MacLike,
    app,
    arp_answer,
    ask,
    here,
    interface_of,
    ipv4_of,
    mac_of,
    own_mac,
    ping_answer,
    place_of,
)


def vlans(
    access: Mapping[Any, int],
    trunks: Mapping[Any, Iterable[int]] | None = None,
    *,
    native: Mapping[Any, int] | None = None,
    gateways: Mapping[int, str] | None = None,
    mac: MacLike | None = None,
    default: IpLike | None = None,
    hosts: Mapping[Any, MacLike] | None = None,
) -> Policy:
    """VLANs on the edge ports of the network, and a router between them. It decides all packets.

    >>> from maple.apps import vlans
    >>> ports = {(1, 1): 10, (1, 2): 20, (2, 1): 10}
    >>> vlans(ports, {(2, 2): [10, 20]}, gateways={10: "10.0.10.1/24", 20: "10.0.20.1/24"})
    <policy vlans>

    Packets of a port that is not named are dropped, and packets with a tag that the port does not take. Broadcasts and
    packets to unknown hosts stay in their VLAN. Put filters before it: they see packets as they enter.

    A VLAN with a gateway is routed. The gateway answers ARP and ping, and sends IPv4 packets on to the host with the
    destination's address, for which it asks by ARP if that is unknown; the packet that made it ask is dropped.

    :param access: the VLAN of each access port, whose packets have no tag: ``{(switch, port): vlan}``.
    :param trunks: the VLANs of each trunk port, whose packets have a tag.
    :param native: trunk ports that take packets without a tag as well, and their VLAN.
    :param gateways: the gateway's address in each VLAN that is routed, with the length of the subnet.
    :param mac: the gateway's hardware address in all VLANs; by default ``02:00`` and the first gateway's address.
    :param default: the address of a router in one of these subnets for all other destinations.
    :param hosts: the hardware addresses of some hosts, such as servers and the router ``default``, by IPv4 address: no
        other host gets their packets by announcing their IPv4 address.
    :raises ValueError: for VLANs outside of 1 to 4094, ports named twice, subnets that overlap, or a VLAN in which one
        broadcast needs more than 64 copies in another form (see the page on applications).
    """
    ports = Ports(access, trunks or {}, native or {})
    router = Router(ports, gateways or {}, mac, default, hosts or {}) if gateways else None
    if router is None and (mac is not None or default is not None or hosts):
        raise ValueError("vlans(): mac, default and hosts belong to gateways, and there are none")

    def decide(pkt: Packet, net: Net) -> Route:
        at = here(pkt)
        tag = pkt.vlan_vid.value
        vlan = ports.vlan(at, tag or 0)
        if vlan is None:
            return drop()
        if router is not None and vlan in router.own:
            if pkt.arp_op == 1 and pkt.arp_tpa == router.own[vlan]:
                return arp_answer(pkt, router.mac) if pkt.arp_spa != pkt.arp_tpa else drop()
            if pkt.eth_dst == router.mac:
                return router.route(pkt, net, at, tag)
        if pkt.eth_dst.is_multicast:
            return ports.flood(pkt, net, at, vlan, tag)
        dst = net.locate(pkt.eth_dst)
        if dst is None:
            return ports.flood(pkt, net, at, vlan, tag)
        if vlan not in ports.tags.get(dst, ()):
            return drop()
        return _tagged(net.shortest_path(at, dst), tag, ports.tags[dst][vlan])

    return app(decide, "vlans")


class Ports:
    """Which ports belong to which VLANs, and in which form."""

    def __init__(
        self, access: Mapping[Any, int], trunks: Mapping[Any, Iterable[int]], native: Mapping[Any, int]
    ) -> None:
        #: For each port: the tag of packets of each VLAN, 0 for none.
        self.tags: dict[Location, dict[int, int]] = {}
        for place, vlan in access.items():
            self._add(place, {_vid(vlan): 0})
        untagged = {place_of(place, "vlans(native=…)"): _vid(vlan) for place, vlan in native.items()}
        for place, several in trunks.items():
            own = untagged.pop(place_of(place, "vlans(trunks=…)"), None)
            self._add(place, {_vid(vlan): vlan for vlan in several} | ({} if own is None else {own: 0}))
        if untagged:
            raise ValueError(f"vlans(native=…): {next(iter(untagged))} is not a trunk port")
        self._vlans = {at: {tag: vlan for vlan, tag in tags.items()} for at, tags in self.tags.items()}
        self._floods = {vlan: self._flood(vlan) for tags in self.tags.values() for vlan in tags}

    def _add(self, place: object, tags: dict[int, int]) -> None:
        at = place_of(place, "vlans()")
        if at in self.tags:
            raise ValueError(f"vlans(): {at} is named twice")
        self.tags[at] = tags

    def _flood(self, vlan: int) -> tuple[dict[Location, int], dict[Location, int]]:
        """The ports of a VLAN that a route serves, and those that need frames of the policy's own, with their tags.

        A switch sends what a route delivers there in one form. So where a VLAN has ports with a tag and ports without
        one, the fewer get copies that the policy makes.
        """
        members = {at: tags[vlan] for at, tags in sorted(self.tags.items()) if vlan in tags}
        routed: dict[Location, int] = {}
        copied: dict[Location, int] = {}
        for switch in {at.switch for at in members}:
            forms = Counter(tag for at, tag in members.items() if at.switch == switch)
            most = max(forms, key=lambda tag: (forms[tag], -tag))
            for at, tag in members.items():
                if at.switch == switch:
                    (routed if tag == most else copied)[at] = tag
        if len(copied) > MAX_FRAMES:
            raise ValueError(
                f"vlans(): VLAN {vlan} has {len(copied)} ports that need copies of broadcasts in another form, and "
                f"{MAX_FRAMES} are possible: put access ports and trunks of a VLAN on different switches"
            )
        return routed, copied

    def vlan(self, at: Location, tag: int) -> int | None:
        """The VLAN of a packet that came in with this tag."""
        return self._vlans.get(at, {}).get(tag)

    def members(self, vlan: int) -> dict[Location, int]:
        """The ports of a VLAN, and its tag there."""
        routed, copied = self._floods.get(vlan, ({}, {}))
        return routed | copied

    def flood(self, pkt: Packet, net: Net, at: Location, vlan: int, tag: int | None) -> Route:
        """The route to all other ports of a VLAN."""
        if pkt.eth_dst.is_reserved:
            return drop()
        routed, copied = self._floods[vlan]
        for place, own in copied.items():
            if place != at and place.port in net.edge_ports(place.switch):
                net.send(_retagged(pkt.frame, own), place)
        paths = [_tagged(net.shortest_path(at, to), tag, own) for to, own in routed.items() if to != at]
        return multicast(paths) if paths else drop()


class Router:
    """The gateway of some VLANs."""

    def __init__(
        self,
        ports: Ports,
        gateways: Mapping[int, str],
        mac: MacLike | None,
        default: IpLike | None,
        hosts: Mapping[Any, MacLike],
    ) -> None:
        interfaces = {_vid(vlan): interface_of(text, f"vlans: VLAN {vlan}") for vlan, text in gateways.items()}
        networks = {vlan: interface.network for vlan, interface in interfaces.items()}
        for a, one in networks.items():
            for b, other in networks.items():
                if a < b and one.overlaps(other):
                    raise ValueError(f"vlans(gateways=…): the subnets of VLANs {a} and {b} overlap")
        self.ports = ports
        self.own = {vlan: Ip(interface.ip) for vlan, interface in interfaces.items()}
        self.subnets = {vlan: str(network) for vlan, network in networks.items()}
        self.mac = own_mac(next(iter(self.own.values()))) if mac is None else mac_of(mac, "vlans(mac=…)")
        self.hosts = {ipv4_of(ip, "vlans(hosts=…)"): mac_of(of, f"vlans(hosts=…): {ip}") for ip, of in hosts.items()}
        self.default: tuple[int, Ip] | None = None
        if default is not None:
            ip = ipv4_of(default, "vlans(default=…)")
            near = [vlan for vlan, network in networks.items() if IPv4Address(str(ip)) in network]
            if not near or ip in self.own.values():
                raise ValueError(f"vlans(default=…): {ip} is not another router in a subnet of {sorted(self.subnets)}")
            self.default = near[0], ip

    def route(self, pkt: Packet, net: Net, at: Location, tag: int | None) -> Route:
        """A packet to the gateway's hardware address."""
        if not pkt.ipv4_dst.is_present:
            return drop()
        if pkt.ipv4_dst in tuple(self.own.values()):
            return ping_answer(pkt) if pkt.icmpv4_type == 8 else drop()
        vlan, ip = self.next_hop(pkt)
        if ip is None:
            return drop()
        host = self.host(net, ip)
        own = None if host is None else self.ports.tags.get(host[1], {}).get(vlan)
        if host is None or own is None:
            ask(net, ip, self.mac, self.own[vlan], dict(list(self.ports.members(vlan).items())[:MAX_FRAMES]))
            return drop()
        mac, place = host
        # A trunk has several VLANs, so a routed packet may have to leave by the port where it came in.
        path = to(IN_PORT) if place == at else net.shortest_path(at, place)
        return _tagged(path.set(eth_src=self.mac, eth_dst=mac), tag, own)

    def host(self, net: Net, ip: Ip) -> tuple[Mac, Location] | None:
        """The hardware address of a host, and where it is."""
        if (mac := self.hosts.get(ip)) is not None:
            place = net.locate(mac)
            return None if place is None else (mac, place)
        found = net.locate_ip(ip)
        return None if found is None else (found.mac, found.location)

    def next_hop(self, pkt: Packet) -> tuple[int, Ip | None]:
        """The VLAN and the address that a packet goes to next."""
        for vlan, subnet in self.subnets.items():
            if pkt.matches(ipv4_dst=subnet):
                return vlan, Ip(pkt.ipv4_dst)
        return self.default or (0, None)


def _vid(vlan: object) -> int:
    if not isinstance(vlan, int) or not 1 <= vlan <= 4094:
        raise ValueError(f"vlans(): a VLAN is a number from 1 to 4094, not {vlan!r}")
    return vlan


def _tagged(route: Route, came: int | None, tag: int) -> Route:
    """A route for packets that came with one tag (``None`` without), and leave with another (0: without)."""
    if came == tag or (came is None and tag == 0):
        return route
    return route.set(vlan_vid=tag)


def _retagged(frame: bytes, tag: int) -> bytes:
    """The frame with another tag (0: without)."""
    rest = frame[16:] if frame[12:14] in TAGS else frame[12:]
    return frame[:12] + (TAGS[0] + tag.to_bytes(2, "big") if tag else b"") + rest
