"""Copies of packets for a host that watches."""

from __future__ import annotations

from maple import Location, Mac, Net, Packet, Policy, Route, pass_, restrict
from maple._compose import Where
from maple.apps._common import MacLike, Place, app, is_place, mac_of, place_of


def mirror(to: Place | MacLike, where: Where | None = None) -> Policy:
    """Sends a copy of packets to a port or a host, and passes them: put it before the policy that decides.

    >>> from maple import tiers
    >>> from maple.apps import mirror, routing
    >>> tiers(mirror((1, 9), [{"tcp_dst": 80}, {"tcp_src": 80}]), routing())
    <policy tiers>

    Copies are of packets as they enter the network, also of those that a later tier drops. There is no copy of what
    the watching port itself sends, nor of frames that policies send.

    :param to: a port, ``(switch, port)`` or ``"1:9"``, or the hardware address of a host, wherever it is.
    :param where: which packets, as in :func:`maple.restrict`; all packets if ``None``. What enters by one port is
        ``{"in_port": 3}`` in a network of one switch; what a host sends and receives is
        ``[{"eth_src": mac}, {"eth_dst": mac}]``.
    """
    copy: Policy | Route
    if isinstance(to, Mac) or (isinstance(to, str) and not is_place(to)):
        watcher = mac_of(to, "mirror()")

        def follow(pkt: Packet, net: Net) -> Route:
            return pass_().copy_to(net.locate(watcher))

        copy = app(follow, "mirror")
    else:
        place: Location = place_of(to, "mirror()")

        def stay(pkt: Packet, net: Net) -> Route:
            return pass_().copy_to(place)

        copy = app(stay, "mirror")
    return copy if where is None else restrict(copy, where)
