"""A filter set as a policy: the first line of the file FILTERS that fits says which port the packet leaves by.

Lines are in ClassBench's format; their flags are not looked at. A filter on ports fits TCP and UDP only.
"""

import os
from pathlib import Path

from maple import Field, Net, Packet, Prefix, Route, drop, policy, to

ANY_PORT = (0, 65535)
PORTS = (2, 3, 4)


class Filter:
    """One line."""

    def __init__(self, number: int, line: str) -> None:
        words = line.lstrip("@").split()
        self.source, self.destination = self.network(words[0]), self.network(words[1])
        self.source_ports = int(words[2]), int(words[4])
        self.destination_ports = int(words[5]), int(words[7])
        value, mask = (int(part, 16) for part in words[8].split("/"))
        self.protocol = value if mask else None
        self.port = PORTS[number % len(PORTS)]

    @staticmethod
    def network(text: str) -> Prefix | None:
        return None if text.endswith("/0") else Prefix(text)

    def fits(self, pkt: Packet) -> bool:
        if self.protocol is not None and pkt.ip_proto != self.protocol:
            return False
        if self.source is not None and pkt.ipv4_src not in self.source:
            return False
        if self.destination is not None and pkt.ipv4_dst not in self.destination:
            return False
        if self.source_ports == ANY_PORT == self.destination_ports:
            return True
        if pkt.ip_proto == 6:
            return self.within(pkt.tcp_src, self.source_ports) and self.within(pkt.tcp_dst, self.destination_ports)
        if pkt.ip_proto == 17:
            return self.within(pkt.udp_src, self.source_ports) and self.within(pkt.udp_dst, self.destination_ports)
        return False

    @staticmethod
    def within(field: Field, ports: tuple[int, int]) -> bool:
        if ports == ANY_PORT:
            return True
        return field == ports[0] if ports[0] == ports[1] else ports[0] <= field <= ports[1]


FILTERS = [Filter(number, line) for number, line in enumerate(Path(os.environ["FILTERS"]).read_text().splitlines())]


@policy
def first_match(pkt: Packet, net: Net) -> Route:
    """Out of the port of the first filter that fits."""
    if pkt.eth_type != 0x0800:
        return drop()
    for one in FILTERS:
        if one.fits(pkt):
            return to(one.port)
    return drop()
