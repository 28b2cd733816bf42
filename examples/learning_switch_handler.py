"""A learning switch as a handler: one program for each switch, which gets packet-ins and answers with OpenFlow
messages.

It records at which port each source address was seen. A packet for a known address gets a rule for all packets like
it, and is sent with that rule. All others are flooded. Maple compiles nothing here, and the network must have no
loops. `builtin:learning-switch` is the same in Rust, and faster.
"""

from maple import Handler, Mac
from maple.openflow import FlowMod, Messages, PacketIn, Port

IDLE_TIMEOUT = 5


class LearningSwitch(Handler):
    def __init__(self) -> None:
        self.ports: dict[Mac, int] = {}

    def packet_in(self, pkt: PacketIn) -> Messages:
        src, dst, here = pkt.eth_src, pkt.eth_dst, pkt.in_port
        if not src.is_multicast:
            self.ports[src] = here
        there = self.ports.get(dst)
        if there is None:
            return pkt.flood()
        if there == here:
            return None  # the destination is at the port where the packet came in, and has it
        match = pkt.match("in_port", "eth_src", "eth_dst")
        return FlowMod.add(match, there, idle_timeout=IDLE_TIMEOUT, packet=pkt)

    def port_status(self, port: Port, reason: str) -> Messages:
        if reason == "delete" or not port.is_up:
            self.ports = {mac: there for mac, there in self.ports.items() if there != port.number}
            return FlowMod.delete(out_port=port.number)
        return None
