"""Limits on what hosts send."""

from __future__ import annotations

from typing import Literal

from maple import Limit, Net, Packet, Policy, Route, pass_, restrict
from maple._compose import Where
from maple.apps._common import app


def rate_limit(
    *,
    kbps: int | None = None,
    pps: int | None = None,
    burst: int = 0,
    per: Literal["switch", "port", "host"] = "port",
    where: Where | None = None,
    name: str = "rate_limit",
) -> Policy:
    """Limits packets where they enter the network, and passes them: put it before the policy that decides.

    >>> from maple import tiers
    >>> from maple.apps import rate_limit, routing
    >>> tiers(rate_limit(kbps=1_000, where={"ip_proto": 17}), routing())
    <policy tiers>

    The limits are meters of the switches (OpenFlow 1.3; with 1.0 nothing is limited, and Maple reports it). Packets
    above the limit are dropped.

    :param kbps: 1,000 bits a second; or
    :param pps: packets a second.
    :param burst: how many kilobits or packets may come together; 0 is the switch's own default.
    :param per: what has a limit of its own: each port, each host by its hardware address, or each switch as a whole.
        A switch has 4,096 limits at most, and a host can make up addresses, so ``"port"`` is safest.
    :param where: which packets, as in :func:`maple.restrict`; all packets if ``None``.
    :param name: tells several limits apart. Limits of one name and rate are one.
    :raises ValueError: if the rate is invalid, or ``per`` is another word.
    """
    if per not in ("switch", "port", "host"):
        raise ValueError(f'rate_limit(per=…) is "switch", "port" or "host", not {per!r}')
    whole = Limit(name, kbps=kbps, pps=pps, burst=burst)

    def limit(pkt: Packet, net: Net) -> Route:
        if per == "switch":
            return pass_().limit(whole)
        of = f"{pkt.switch:016x}:{int(pkt.in_port)}" if per == "port" else str(pkt.eth_src)
        return pass_().limit(Limit(f"{name} {of}", kbps=kbps, pps=pps, burst=burst))

    limited = app(limit, "rate_limit")
    return limited if where is None else restrict(limited, where)
