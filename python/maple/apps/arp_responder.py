"""Answers ARP requests, so that they are not flooded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from maple import Field, Ip, Mac, Net, Packet, Policy, Route, Table, drop, pass_
from maple.apps._common import IpLike, MacLike, app, arp_answer, ipv4_of, mac_of


def arp_responder(
    known: Mapping[Any, Any] | Table[Ip, Mac] | None = None, *, hosts: bool = True, drop_unknown: bool = False
) -> Policy:
    """Answers ARP requests for addresses that are known. All other packets pass.

    >>> from maple import tiers
    >>> from maple.apps import arp_responder, routing
    >>> tiers(arp_responder({"10.0.0.254": "02:00:00:00:00:fe"}), routing())
    <policy tiers>

    An address in ``known``, such as that of a gateway, belongs to its hardware address alone: ARP packets in which
    another host claims it are dropped. Requests to one host, with which hosts look whether a neighbour is still
    there, are only answered for ``known``; announcements of the asker's own address pass.

    :param known: hardware addresses by IPv4 address: a dictionary of a few, or a table of any size that other programs
        change, ``Table("arp", key=Ip, value=Mac)``.
    :param hosts: whether broadcast requests for the addresses that hosts have announced are answered too.
    :param drop_unknown: whether requests that are not answered are dropped; otherwise they pass, and ``routing()``
        floods them. A host that never sent anything is only found by a flood.
    :raises ValueError: for addresses that are none.
    """
    if isinstance(known, Table):
        owner: Callable[[Field], Mac | None] = known.get
    else:
        items: list[tuple[IpLike, MacLike]] = list((known or {}).items())
        named = {ipv4_of(ip, "arp_responder"): mac_of(mac, f"arp_responder: {ip}") for ip, mac in items}

        # Tests of the addresses, and no read of the field: what has none of them has one rule.
        def owner(address: Field) -> Mac | None:
            return next((mac for ip, mac in named.items() if address == ip), None)

    def respond(pkt: Packet, net: Net) -> Route:
        if pkt.eth_type != 0x0806:
            return pass_()
        claimed = owner(pkt.arp_spa)
        if claimed is not None and pkt.arp_sha != claimed:
            return drop()
        if pkt.arp_op != 1:
            return pass_()
        mac = owner(pkt.arp_tpa)
        if mac is None and hosts and pkt.eth_dst.is_multicast:
            host = net.locate_ip(pkt.arp_tpa)
            mac = None if host is None else host.mac
        if mac is None:
            return drop() if drop_unknown and pkt.arp_spa != pkt.arp_tpa else pass_()
        if pkt.arp_sha == mac or pkt.arp_spa == pkt.arp_tpa:
            return pass_()
        return arp_answer(pkt, mac)

    return app(respond, "arp_responder")
