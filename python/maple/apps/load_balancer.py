"""A service at one address, done by several servers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Literal

from maple import Ip, Location, Mac, Net, Packet, Policy, Route, Table, drop, pass_
from maple.apps._common import IpLike, MacLike, app, arp_answer, ipv4_of, mac_of, own_mac, ping_answer

BITS = 6
"""The number of low bits of the client's address that choose one of 64 shares."""


def load_balancer(
    address: IpLike,
    backends: Mapping[Any, MacLike],
    *,
    protocol: Literal["tcp", "udp"] = "tcp",
    port: int | None = None,
    mac: MacLike | None = None,
    down: Table[Ip, bool] | None = None,
) -> Policy:
    """Gives each client of an address one of several servers, and lets the client hear from the address it asked.

    It changes the headers of packets to the address and of the servers' answers, and passes them, so that ``routing()``
    decides the way. It answers ARP and ping for the address itself.

    >>> from maple import tiers
    >>> from maple.apps import load_balancer, routing
    >>> servers = {"10.0.0.3": "00:00:00:00:00:03", "10.0.0.4": "00:00:00:00:00:04"}
    >>> tiers(load_balancer("10.0.0.100", servers, port=80), routing())
    <policy tiers>

    The low six bits of the client's IPv4 address choose, so the rules are at most 64 for each place where clients are,
    and the packets of new clients don't come to the controller. A client always has the same server. While that is
    down, the client has another one, and the clients of other servers stay where they are. A server is down while the
    port is where it was seen last (:meth:`maple.Net.is_up`), while no path leads there, and while ``down`` says so. If
    all are down, packets to the address are dropped.

    Servers are to be asked by the address alone: what a server answers from the port goes out under the address,
    whomever it is for.

    :param address: the address of the service, which no host has.
    :param backends: hardware addresses of the servers by their IPv4 addresses, 1 to 64.
    :param protocol: ``"tcp"`` or ``"udp"``, with ``port``.
    :param port: the port of the service, 1 to 65535; other packets to the address are dropped. All IPv4 if ``None``.
    :param mac: the hardware address of the service; by default ``02:00`` and the IPv4 address.
    :param down: a table of servers that are not to be used, ``Table("web.down", key=Ip, value=bool)``: a program
        that looks after the servers writes it, as a port stays up when a server's program ends. A change moves the
        clients of that server at once.
    :raises ValueError: for addresses or numbers that are none, or one address twice.
    """
    virtual = ipv4_of(address, "load_balancer()")
    own = own_mac(virtual) if mac is None else mac_of(mac, "load_balancer(mac=…)")
    servers = {ipv4_of(ip, "load_balancer()"): mac_of(of, f"load_balancer: {ip}") for ip, of in backends.items()}
    if not 1 <= len(servers) <= 1 << BITS:
        raise ValueError(f"load_balancer() needs 1 to {1 << BITS} backends, not {len(servers)}")
    if virtual in servers or own in servers.values():
        raise ValueError(f"load_balancer(): a backend has the address of the service, {virtual} or {own}")
    if protocol not in ("tcp", "udp"):
        raise ValueError(f'load_balancer(protocol=…) is "tcp" or "udp", not {protocol!r}')
    if port is not None and (not isinstance(port, int) or not 1 <= port <= 65535):
        raise ValueError(f"load_balancer(port=…) is a number from 1 to 65535, not {port!r}")
    asks: dict[str, Any] = {} if port is None else {f"{protocol}_dst": port}
    says: dict[str, Any] = {} if port is None else {f"{protocol}_src": port}
    choices = [_preferences(share, tuple(servers)) for share in range(1 << BITS)]
    # A server whose port is deleted, or whose switch is forgotten, is nowhere: then the port is where it was.
    places: Table[Mac, Location] = Table("load_balancer.places", key=Mac, value=Location)

    def balance(pkt: Packet, net: Net) -> Route:
        if pkt.arp_op == 1 and pkt.arp_tpa == virtual:
            return arp_answer(pkt, own)
        if pkt.ipv4_dst == virtual:
            return to_a_server(pkt, net)
        for ip in servers:
            if pkt.matches(ipv4_src=ip, **says):
                return pass_().set(ipv4_src=virtual, eth_src=own)
        return pass_()

    def to_a_server(pkt: Packet, net: Net) -> Route:
        if pkt.icmpv4_type == 8:
            return ping_answer(pkt)
        if asks and not pkt.matches(**asks):
            return drop()
        share = sum(1 << bit for bit in range(BITS) if pkt.ipv4_src.matches(Ip(_dotted(bit)), Ip(_dotted(bit))))
        for ip in choices[share]:
            if not (down is not None and down.get(ip)) and is_reachable(servers[ip], pkt, net):
                return pass_().set(ipv4_dst=ip, eth_dst=servers[ip])
        return drop()

    def is_reachable(server: Mac, pkt: Packet, net: Net) -> bool:
        at, last = net.locate(server), places.get(server)
        if at is not None and at != last:
            places[server] = at
        at = at or last
        return at is None or (at.is_up and bool(net.shortest_path((pkt.switch, 1), at)))

    return app(balance, "load_balancer")


def _preferences(share: int, servers: tuple[Ip, ...]) -> tuple[Ip, ...]:
    """The server of a share of the clients, and then those that replace it: another order for each share."""
    first = servers[share % len(servers)]
    by_hash = sorted(servers, key=lambda ip: hashlib.sha256(f"{share} {ip}".encode()).digest())
    return (first, *(ip for ip in by_hash if ip != first))


def _dotted(bit: int) -> str:
    return f"0.0.0.{1 << bit}"
