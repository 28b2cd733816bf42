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
"""

from __future__ import annotations

from maple._maple import (
    Field,
    Ip,
    Location,
    Mac,
    Net,
    Packet,
    PolicyTimeout,
    Prefix,
    Route,
    Table,
    Var,
    drop,
    flood,
    hops,
    multicast,
    to,
    weights,
)
from maple._policy import Policy, policy

mac = Mac
ip = Ip
prefix = Prefix

__all__ = [
    "Field",
    "Ip",
    "Location",
    "Mac",
    "Net",
    "Packet",
    "Policy",
    "PolicyTimeout",
    "Prefix",
    "Route",
    "Table",
    "Var",
    "drop",
    "flood",
    "hops",
    "ip",
    "mac",
    "multicast",
    "policy",
    "prefix",
    "to",
    "weights",
]
