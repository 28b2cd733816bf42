"""A learning controller with state of each switch and state of the network, as in section 2 of the McNettle paper.

Each switch has a handler. What the handler knows of its ports is an attribute. No other handler sees it, and events
of a switch come one after the other, so it needs no transaction. The hosts of the network are one table for all
switches: each host gets a number, and the switch that sees it first records where it came in. Handlers run in
parallel, so they change this table in a transaction. The hosts that are blocked are a table too, which other
programs write: `maple state set blocked 00:00:00:00:00:07 true`.

The network must have no loops.
"""

from maple import Handler, Mac, Table, atomically
from maple.openflow import FlowMod, Messages, PacketIn, Port

IDLE_TIMEOUT = 5

hosts = Table("hosts")  # address: the host's number, and the switch and port where it came in
blocked = Table("blocked", key=Mac, value=bool)  # hosts that are blocked


class LearningNetwork(Handler):
    def __init__(self) -> None:
        self.ports: dict[Mac, int] = {}

    def packet_in(self, pkt: PacketIn) -> Messages:
        src, dst, here = pkt.eth_src, pkt.eth_dst, pkt.in_port
        if src in blocked:
            return FlowMod.add(pkt.match("eth_src"), [], idle_timeout=IDLE_TIMEOUT, packet=pkt)
        if not src.is_multicast and self.ports.get(src) != here:
            self.ports[src] = here
            atomically(lambda: self.register(src, here))
        there = self.ports.get(dst)
        if there is None:
            return pkt.flood()
        if there == here:
            return None  # the destination is at the port where the packet came in, and has it
        match = pkt.match("in_port", "eth_src", "eth_dst")
        return FlowMod.add(match, there, idle_timeout=IDLE_TIMEOUT, packet=pkt)

    def register(self, host: Mac, port: int) -> None:
        if host not in hosts:
            hosts[host] = (len(hosts) + 1, self.switch.dpid, port)

    def port_status(self, port: Port, reason: str) -> Messages:
        if reason == "delete" or not port.is_up:
            self.ports = {mac: there for mac, there in self.ports.items() if there != port.number}
            return FlowMod.delete(out_port=port.number)
        return None
