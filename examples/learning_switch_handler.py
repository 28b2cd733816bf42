"""A learning switch as a handler: one program a switch, which hears its packets and answers with OpenFlow messages.

It notes behind which port each source address is. A packet for a known address gets a rule for its like, and takes it
at once; all others are flooded. Maple compiles nothing here, and the network must have no loops. The same in Rust,
faster, is `builtin:learning-switch`.
"""

from maple import FlowMod, Handler, Mac, Messages, PacketIn, Port

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
            return None  # who is behind the port that it came in by has it already
        match = pkt.match("in_port", "eth_src", "eth_dst")
        return FlowMod.add(match, there, idle_timeout=IDLE_TIMEOUT, packet=pkt)

    def port_status(self, port: Port, reason: str) -> Messages:
        if reason == "delete" or not port.up:
            self.ports = {mac: there for mac, there in self.ports.items() if there != port.number}
            return FlowMod.delete(out_port=port.number)
        return None
