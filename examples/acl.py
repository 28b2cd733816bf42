"""First-match access control. The lines of a file are tested in order until one matches the packet. Packets that may
pass take the shortest path.

The file is `acl.txt` in this folder, or the one in the environment variable MAPLE_ACL. Each line becomes a few
tests. So a trace records only which lines do not match and which one does.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from maple import Net, Packet, Prefix, Route, drop, flood, policy

PROTOCOLS = {"icmp": 1, "tcp": 6, "udp": 17, "ip": None}


@dataclass(frozen=True)
class Line:
    """One line of the file. `None` stands for anything."""

    permits: bool
    is_arp: bool
    protocol: int | None
    source: Prefix | None
    destination: Prefix | None
    ports: tuple[int, int] | None

    def fits(self, pkt: Packet) -> bool:
        """Whether the line matches this packet."""
        if self.is_arp:
            return pkt.eth_type == 0x0806
        if self.protocol is not None and pkt.ip_proto != self.protocol:
            return False
        if self.source is not None and pkt.ipv4_src not in self.source:
            return False
        if self.destination is not None and pkt.ipv4_dst not in self.destination:
            return False
        if self.ports is None:
            return True
        port = pkt.tcp_dst if self.protocol == 6 else pkt.udp_dst
        return self.ports[0] <= port <= self.ports[1]


def parse(text: str, name: str) -> list[Line]:
    """The lines of an ACL file. Error messages use `name`."""
    lines = []
    for number, raw in enumerate(text.splitlines(), 1):
        words = raw.split("#")[0].split()
        if not words:
            continue
        try:
            lines.append(parse_line(*words))
        except (TypeError, ValueError, KeyError) as error:
            raise ValueError(f"{name}:{number}: {raw.strip()!r}: {error}") from None
    return lines


def parse_line(action: str, protocol: str, source: str = "any", destination: str = "any", ports: str = "") -> Line:
    """One line, as its words."""
    if action not in ("permit", "deny"):
        raise ValueError(f"the action is permit or deny, not {action}")
    if protocol not in ("arp", *PROTOCOLS):
        raise ValueError(f"unknown protocol {protocol}")
    if ports and protocol not in ("tcp", "udp"):
        raise ValueError(f"{protocol} has no ports")
    low, _, high = ports.partition("-")
    return Line(
        permits=action == "permit",
        is_arp=protocol == "arp",
        protocol=PROTOCOLS.get(protocol),
        source=None if source == "any" else Prefix(source),
        destination=None if destination == "any" else Prefix(destination),
        ports=(int(low), int(high or low)) if ports else None,
    )


FILE = Path(os.environ.get("MAPLE_ACL", Path(__file__).with_name("acl.txt")))
LINES = parse(FILE.read_text(), str(FILE))


@policy
def acl(pkt: Packet, net: Net) -> Route:
    for line in LINES:
        if line.fits(pkt):
            return deliver(pkt, net) if line.permits else drop()
    return drop()


def deliver(pkt: Packet, net: Net) -> Route:
    """The shortest path to where the destination is."""
    if pkt.eth_dst.is_multicast:
        return flood()
    dst = net.locate(pkt.eth_dst)
    if dst is None:
        return flood()
    return net.shortest_path(net.locate(pkt.eth_src), dst)
