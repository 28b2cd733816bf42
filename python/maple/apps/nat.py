"""Source NAT: many hosts behind few addresses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from maple import Ip, Mac, Net, Packet, Policy, Route, Table, drop, frame, pass_
from maple.apps._common import (
    ICMP,
    TCP,
    UDP,
    IpLike,
    MacLike,
    Place,
    app,
    arp_answer,
    ask,
    came_by,
    interface_of,
    ipv4_of,
    is_fragment,
    mac_of,
    own_mac,
    ping_answer,
    place_of,
)

NAMES = {"tcp": TCP, "udp": UDP}
Service = tuple[str, int]


def nat(
    inside: str,
    outside: IpLike | Iterable[IpLike],
    *,
    uplink: Place,
    next_hop: IpLike,
    next_hop_mac: MacLike | None = None,
    mac: MacLike | None = None,
    ports: range = range(1024, 65536),
    forward: Mapping[Service, Service] | None = None,
    name: str = "nat",
    persist: bool = False,
) -> Policy:
    """A gateway that lets the hosts of a subnet talk to the world under one address, or a few.

    It is the router of the subnet: it answers ARP and ping for its addresses, inside and outside. It changes the
    headers of TCP and UDP packets that pass through it, and passes them, so that ``routing()`` decides the way. What is
    sent to the gateway and cannot be translated is dropped. All other packets pass as they are.

    >>> from maple import tiers
    >>> from maple.apps import nat, routing
    >>> gateway = nat("10.0.0.254/24", "203.0.113.2", uplink=(1, 4), next_hop="203.0.113.1")
    >>> tiers(gateway, routing())
    <policy tiers>

    Each inside address has its own equal part of the ports: 252 of each protocol with a /24 behind one address. So no
    host can use up those of another, and the tables have a bound. When a host needs more, its oldest translation is
    replaced: no rule sees a connection end. A translation is made of the first packet and is there from then on, for
    packets of any outside host. The first packet of a connection comes to the controller, and each ping does.

    :param inside: the gateway's address in the subnet, and the subnet: ``"10.0.0.254/24"``.
    :param outside: its address outside, or several among which inside hosts are divided.
    :param uplink: the port behind which the outside is. Packets for the outside address from elsewhere are dropped.
    :param next_hop: the IPv4 address of the router there, for which the gateway asks by ARP.
    :param next_hop_mac: that router's hardware address. With it no host can take the gateway down by announcing the
        router's IPv4 address. The gateway still asks, so that the router is seen.
    :param mac: the gateway's hardware address; by default ``02:00`` and its inside address.
    :param ports: the outside ports that are given out, within 1 to 65535; also the numbers of pings.
    :param forward: services of inside hosts that the outside may call, for example
        ``{("tcp", 8080): ("10.0.0.5", 80)}``, at the first outside address. Their outside ports lie beyond ``ports``.
    :param name: the translations are in the tables ``nat.out``, ``nat.in`` and ``nat.next`` of this name.
    :param persist: whether translations are kept over a restart (``maple run --state FILE``).
    :raises ValueError: for addresses that are none, or too few ports for the subnet.
    """
    gateway = Gateway(inside, outside, uplink, next_hop, next_hop_mac, mac, ports, forward or {}, name, persist)
    return app(lambda pkt, net: gateway.decide(pkt, net), "nat")


class Gateway:
    """The configuration of a NAT. What it knows of connections is in tables."""

    def __init__(
        self,
        inside: str,
        outside: IpLike | Iterable[IpLike],
        uplink: Place,
        next_hop: IpLike,
        next_hop_mac: MacLike | None,
        mac: MacLike | None,
        ports: range,
        forward: Mapping[Service, Service],
        name: str,
        persist: bool,
    ) -> None:
        interface = interface_of(inside, "nat(inside=…)")
        several = [outside] if isinstance(outside, str) or not isinstance(outside, Iterable) else list(outside)
        self.subnet = str(interface.network)
        self.first_host = int(interface.network.network_address)
        self.own = Ip(interface.ip)
        self.mac = own_mac(self.own) if mac is None else mac_of(mac, "nat(mac=…)")
        self.outside = tuple(ipv4_of(ip, "nat(outside=…)") for ip in several)
        self.uplink = place_of(uplink, "nat(uplink=…)")
        self.next_hop = ipv4_of(next_hop, "nat(next_hop=…)")
        self.next_hop_mac = None if next_hop_mac is None else mac_of(next_hop_mac, "nat(next_hop_mac=…)")
        if not self.outside or len(set(self.outside)) < len(self.outside):
            raise ValueError(f"nat(outside=…) needs addresses, each once, not {several}")
        for ip in (*self.outside, self.next_hop):
            if int(ip) - self.first_host in range(interface.network.num_addresses):
                raise ValueError(f"nat(): {ip} is to be outside, and lies in {self.subnet}")
        if not isinstance(ports, range) or ports.step != 1 or not 1 <= ports.start < ports.stop <= 65536:
            raise ValueError(f"nat(ports=…) is a range within 1 to 65535, such as range(1024, 65536), not {ports!r}")
        # The inside addresses are divided among the outside ones, each with a block of ports.
        self.hosts_each = -(-interface.network.num_addresses // len(self.outside))
        self.block = len(ports) // self.hosts_each
        self.first_port = ports.start
        if self.block == 0:
            raise ValueError(
                f"nat(): {self.subnet} has {interface.network.num_addresses} addresses, and {len(self.outside)} "
                f"outside with {len(ports)} ports each are too few; give more addresses outside, or a smaller subnet"
            )
        self.forward = {_service(service, ports): self._server(at) for service, at in forward.items()}
        self.forwarded = {(kind, *at): port for (kind, port), at in self.forward.items()}
        if len(self.forwarded) < len(forward):
            raise ValueError("nat(forward=…) names one service of a host twice")
        # (protocol, inside address, inside port): outside port, and back; (protocol, inside address): its next turn.
        self.out: Table[Any, int] = Table(f"{name}.out", key=(int, Ip, int), value=int, persist=persist)
        self.back: Table[Any, int] = Table(f"{name}.in", key=(int, Ip, int), value=int, persist=persist)
        self.turn: Table[Any, int] = Table(f"{name}.next", key=(int, Ip), value=int, persist=persist)

    def _server(self, at: Service) -> tuple[Ip, int]:
        host, port = ipv4_of(at[0], "nat(forward=…)"), at[1]
        if not self._is_inside(host) or not 1 <= port <= 65535:
            raise ValueError(f"nat(forward=…): {host}:{port} is not a service in {self.subnet}")
        return host, port

    def _is_inside(self, host: Ip) -> bool:
        return 0 <= int(host) - self.first_host < self.hosts_each * len(self.outside)

    def decide(self, pkt: Packet, net: Net) -> Route:
        if pkt.arp_op == 1 and pkt.arp_tpa in (self.own, *self.outside):
            return arp_answer(pkt, self.mac) if pkt.arp_spa != pkt.arp_tpa else drop()
        if pkt.ipv4_dst in self.outside:
            return self.arriving(pkt, net)
        if pkt.eth_dst != self.mac:
            return pass_()
        if pkt.ipv4_dst == self.own:
            return ping_answer(pkt) if pkt.icmpv4_type == 8 else drop()
        # The subnet's own broadcasts and neighbours need no router.
        if pkt.matches(ipv4_src=self.subnet) and not pkt.matches(ipv4_dst=self.subnet):
            return self.leaving(pkt, net)
        return drop()

    def leaving(self, pkt: Packet, net: Net) -> Route:
        """A packet of an inside host to the world."""
        is_ping = pkt.icmpv4_type == 8
        kind, port = _port(pkt, "src")
        if not (port or is_ping):
            return drop()
        # An address is used by the host that announced it, so that nobody uses up the ports of others.
        host = net.locate_ip(pkt.ipv4_src)
        if host is None or pkt.eth_src != host.mac:
            return drop()
        router = self.router(net)
        if router is None:
            ask(net, self.next_hop, self.mac, self.outside[0], {self.uplink: 0})
            return drop()
        inside = Ip(pkt.ipv4_src)
        if is_ping:
            number = int.from_bytes(pkt.payload[:2], "big")
            ip, number = self.translation(ICMP, inside, number)
            net.send(_ping(self.mac, router, ip, Ip(pkt.ipv4_dst), 8, number, pkt.payload), self.uplink)
            return drop()
        ip, port = self.translation(kind, inside, port)
        changes: dict[str, Any] = {"tcp_src" if kind == TCP else "udp_src": port}
        return pass_().set(eth_src=self.mac, eth_dst=router, ipv4_src=ip, **changes)

    def router(self, net: Net) -> Mac | None:
        """The hardware address of the next hop, if that is at the uplink."""
        if self.next_hop_mac is not None:
            return self.next_hop_mac if net.locate(self.next_hop_mac) == self.uplink else None
        host = net.locate_ip(self.next_hop)
        return host.mac if host is not None and host.location == self.uplink else None

    def arriving(self, pkt: Packet, net: Net) -> Route:
        """A packet from the world to an outside address."""
        if not came_by(pkt, (self.uplink,)):
            return drop()
        if pkt.icmpv4_type == 8:
            return ping_answer(pkt)
        is_answer = pkt.icmpv4_type == 0
        kind, port = _port(pkt, "dst")
        if is_answer:
            if is_fragment(pkt):
                return drop()
            kind, port = ICMP, int.from_bytes(pkt.payload[:2], "big")
        elif not port:
            return drop()
        outside = Ip(pkt.ipv4_dst)
        inside = self.origin(kind, outside, port)
        host = None if inside is None else net.locate_ip(inside[0])
        if inside is None or host is None:
            return drop()
        if is_answer:
            net.send(_ping(self.mac, host.mac, Ip(pkt.ipv4_src), *inside[:1], 0, inside[1], pkt.payload), host.location)
            return drop()
        changes: dict[str, Any] = {"tcp_dst" if kind == TCP else "udp_dst": inside[1]}
        return pass_().set(eth_src=self.mac, eth_dst=host.mac, ipv4_dst=inside[0], **changes)

    def translation(self, kind: int, inside: Ip, port: int) -> tuple[Ip, int]:
        """The outside address and port of an inside one; given out if there is none yet."""
        if (kind, inside, port) in self.forwarded:
            return self.outside[0], self.forwarded[kind, inside, port]
        which, place = divmod(int(inside) - self.first_host, self.hosts_each)
        outside, taken = self.outside[which], self.out.get((kind, inside, port))
        first = self.first_port + place * self.block
        # What was kept over a restart may be of another configuration.
        if taken is None or not first <= taken < first + self.block:
            turn = self.turn.get((kind, inside), 0)
            taken = first + turn % self.block
            oldest = self.back.get((kind, outside, taken))
            if oldest is not None:
                self.out.pop((kind, inside, oldest))
            self.out[kind, inside, port], self.back[kind, outside, taken] = taken, port
            self.turn[kind, inside] = (turn + 1) % self.block
        return outside, taken

    def origin(self, kind: int, outside: Ip, port: int) -> tuple[Ip, int] | None:
        """The inside address and port of an outside one."""
        if outside == self.outside[0] and (kind, port) in self.forward:
            return self.forward[kind, port]
        inside_port = self.back.get((kind, outside, port))
        if inside_port is None:
            return None
        place = self.outside.index(outside) * self.hosts_each + (port - self.first_port) // self.block
        inside = Ip(_ipv4(self.first_host + place))
        # Only what leaves that way comes in that way.
        return (inside, inside_port) if self.out.get((kind, inside, inside_port)) == port else None


def _port(pkt: Packet, side: str) -> tuple[int, int]:
    """Protocol and port of a TCP or UDP packet; port 0 for others, and for fragments."""
    if pkt.ip_proto == TCP:
        return TCP, (pkt.tcp_src if side == "src" else pkt.tcp_dst).value or 0
    if pkt.ip_proto == UDP:
        return UDP, (pkt.udp_src if side == "src" else pkt.udp_dst).value or 0
    return 0, 0


def _service(service: Service, ports: range) -> tuple[int, int]:
    protocol, port = service
    if protocol not in NAMES or not 1 <= port <= 65535:
        raise ValueError(f'nat(forward=…): a service is ("tcp", port) or ("udp", port), not {service!r}')
    if port in ports:
        raise ValueError(f"nat(forward=…): port {port} is among those that are given out; make `ports` smaller")
    return NAMES[protocol], port


def _ping(mac: Mac, to: Mac, src: Ip, dst: Ip, kind: int, number: int, payload: bytes) -> bytes:
    """A ping or its answer, with another number."""
    changed = number.to_bytes(2, "big") + payload[2:]
    return frame(eth_src=mac, eth_dst=to, ipv4_src=src, ipv4_dst=dst, icmpv4_type=kind, icmpv4_code=0, payload=changed)


def _ipv4(number: int) -> str:
    return ".".join(str(byte) for byte in number.to_bytes(4, "big"))
