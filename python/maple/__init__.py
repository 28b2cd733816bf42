"""Maple: write one function of a packet, and the network behaves as if it ran afresh on every packet.

>>> from maple import policy, drop, flood
>>>
>>> @policy
... def f(pkt, net):
...     dst = net.locate(pkt.eth_dst)
...     if dst is None:
...         return flood()
...     return net.shortest_path(net.locate(pkt.eth_src), dst)

Run it with ``maple run FILE.py``. How to write policies: docs/policy-guide.md.

The second way to program a network is a :class:`Handler`, a program for each switch, which speaks
:mod:`maple.openflow`: docs/handlers.md.
"""

from __future__ import annotations

from typing import Final

from maple._acl import acl
from maple._compose import choose, fallback, observe, restrict, rewrite, tiers
from maple._counts import Counts, PortCount, TrafficCount
from maple._emulate import emulate
from maple._guard import avoid, constraint, guard, isolate, max_hops, never, no_overload, only_within, waypoint
from maple._maple import (
    Constraint,
    Counter,
    Field,
    Handler,
    Ip,
    Limit,
    Load,
    Location,
    Mac,
    Net,
    Packet,
    PacketEvent,
    ParallelPaths,
    PolicyTimeout,
    Prefix,
    Query,
    Retry,
    Route,
    RouteView,
    Table,
    Var,
    answer,
    atomically,
    costs,
    drop,
    ecmp,
    flood,
    frame,
    hops,
    multicast,
    or_else,
    pass_,
    retry,
    settled,
    to,
)
from maple._on import LiveNetwork, PortEvent, ViolationEvent, network, on
from maple._policy import Policy, policy
from maple._shapes import Host, Link
from maple._slices import Slice, slices

IN_PORT: Final = 0xFFFFFFF8
"""The port that the packet came in by."""
LOCAL: Final = 0xFFFFFFFE
"""The switch's own host."""

__all__ = [
    "IN_PORT",
    "LOCAL",
    "Constraint",
    "Counter",
    "Counts",
    "Field",
    "Handler",
    "Host",
    "Ip",
    "Limit",
    "Link",
    "LiveNetwork",
    "Load",
    "Location",
    "Mac",
    "Net",
    "Packet",
    "PacketEvent",
    "ParallelPaths",
    "Policy",
    "PolicyTimeout",
    "PortCount",
    "PortEvent",
    "Prefix",
    "Query",
    "Retry",
    "Route",
    "RouteView",
    "Slice",
    "Table",
    "TrafficCount",
    "Var",
    "ViolationEvent",
    "acl",
    "answer",
    "atomically",
    "avoid",
    "choose",
    "constraint",
    "costs",
    "drop",
    "ecmp",
    "emulate",
    "fallback",
    "flood",
    "frame",
    "guard",
    "hops",
    "isolate",
    "max_hops",
    "multicast",
    "network",
    "never",
    "no_overload",
    "observe",
    "on",
    "only_within",
    "or_else",
    "pass_",
    "policy",
    "restrict",
    "retry",
    "rewrite",
    "settled",
    "slices",
    "tiers",
    "to",
    "waypoint",
]
