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

The second way to program a network is a :class:`Handler`, a program for each switch: docs/handlers.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from maple._acl import acl
from maple._compose import choose, fallback, observe, restrict, rewrite, tiers
from maple._counts import Counts, PortCount, TrafficCount
from maple._emulate import emulate
from maple._guard import avoid, constraint, guard, isolate, max_hops, never, no_overload, only_within, waypoint
from maple._maple import (
    Action,
    AggregateStats,
    Band,
    Barrier,
    Bucket,
    Constraint,
    Counter,
    Field,
    FlowMod,
    FlowRemoved,
    FlowStats,
    GroupDesc,
    GroupMod,
    GroupStats,
    Handler,
    Ip,
    Load,
    Location,
    Mac,
    Match,
    Meter,
    MeterConfig,
    MeterMod,
    MeterStats,
    Net,
    Packet,
    PacketEvent,
    PacketIn,
    PacketOut,
    ParallelPaths,
    PolicyTimeout,
    Port,
    PortStats,
    Prefix,
    Query,
    QueueStats,
    Retry,
    Route,
    RouteView,
    Stats,
    StatsRequest,
    Switch,
    SwitchError,
    Table,
    TableStats,
    Var,
    answer,
    atomically,
    drop,
    ecmp,
    flood,
    frame,
    hops,
    multicast,
    network,
    or_else,
    pass_,
    retry,
    settled,
    to,
    weights,
)
from maple._on import Network, PortEvent, ViolationEvent, on
from maple._policy import Policy, policy
from maple._shapes import Host, Link
from maple._slices import Slice, slices

IN_PORT: Final = 0xFFFFFFF8
"""The port that the packet came in by."""
TABLE: Final = 0xFFFFFFF9
"""The switch's own tables (in packet-outs)."""
NORMAL: Final = 0xFFFFFFFA
"""What a switch without a controller would do."""
FLOOD: Final = 0xFFFFFFFB
"""All ports but the one that the packet came in by, without those that floods leave out."""
ALL: Final = 0xFFFFFFFC
"""All ports but the one that the packet came in by."""
CONTROLLER: Final = 0xFFFFFFFD
"""The controller."""
LOCAL: Final = 0xFFFFFFFE
"""The switch's own host."""

Message = PacketOut | FlowMod | GroupMod | MeterMod | StatsRequest | Barrier
"""What handlers say."""
Messages = Message | Iterable[Message] | None
"""What a handler's method may return: nothing, a message, or several."""

__all__ = [
    "ALL",
    "CONTROLLER",
    "FLOOD",
    "IN_PORT",
    "LOCAL",
    "NORMAL",
    "TABLE",
    "Action",
    "AggregateStats",
    "Band",
    "Barrier",
    "Bucket",
    "Constraint",
    "Counter",
    "Counts",
    "Field",
    "FlowMod",
    "FlowRemoved",
    "FlowStats",
    "GroupDesc",
    "GroupMod",
    "GroupStats",
    "Handler",
    "Host",
    "Ip",
    "Link",
    "Load",
    "Location",
    "Mac",
    "Match",
    "Message",
    "Messages",
    "Meter",
    "MeterConfig",
    "MeterMod",
    "MeterStats",
    "Net",
    "Network",
    "Packet",
    "PacketEvent",
    "PacketIn",
    "PacketOut",
    "ParallelPaths",
    "Policy",
    "PolicyTimeout",
    "Port",
    "PortCount",
    "PortEvent",
    "PortStats",
    "Prefix",
    "Query",
    "QueueStats",
    "Retry",
    "Route",
    "RouteView",
    "Slice",
    "Stats",
    "StatsRequest",
    "Switch",
    "SwitchError",
    "Table",
    "TableStats",
    "TrafficCount",
    "Var",
    "ViolationEvent",
    "acl",
    "answer",
    "atomically",
    "avoid",
    "choose",
    "constraint",
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
    "weights",
]
