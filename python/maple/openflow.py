"""OpenFlow as handlers speak it: what a :class:`maple.Handler` hears of its switch, and what it says to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from maple import IN_PORT, LOCAL
from maple._maple import (
    Action,
    AggregateStats,
    Band,
    Barrier,
    Bucket,
    FlowMod,
    FlowRemoved,
    FlowStats,
    GroupDesc,
    GroupMod,
    GroupStats,
    Match,
    MeterConfig,
    MeterMod,
    MeterStats,
    PacketIn,
    PacketOut,
    Port,
    PortStats,
    QueueStats,
    Stats,
    StatsRequest,
    Switch,
    SwitchError,
    TableStats,
)

TABLE: Final = 0xFFFFFFF9
"""The switch's own tables (in packet-outs)."""
NORMAL: Final = 0xFFFFFFFA
"""The treatment of packets by a switch without a controller."""
FLOOD: Final = 0xFFFFFFFB
"""All ports but the one that the packet came in by, without those that floods leave out."""
ALL: Final = 0xFFFFFFFC
"""All ports but the one that the packet came in by."""
CONTROLLER: Final = 0xFFFFFFFD
"""The controller."""

Message = PacketOut | FlowMod | GroupMod | MeterMod | StatsRequest | Barrier
"""The messages of handlers."""
Messages = Message | Iterable[Message] | None
"""The values that a handler's method may return: nothing, a message, or several."""

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
    "FlowMod",
    "FlowRemoved",
    "FlowStats",
    "GroupDesc",
    "GroupMod",
    "GroupStats",
    "Match",
    "Message",
    "Messages",
    "MeterConfig",
    "MeterMod",
    "MeterStats",
    "PacketIn",
    "PacketOut",
    "Port",
    "PortStats",
    "QueueStats",
    "Stats",
    "StatsRequest",
    "Switch",
    "SwitchError",
    "TableStats",
]
