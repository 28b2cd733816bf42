"""os-ken as a controller to compare with: a learning switch for OpenFlow 1.0 in Python.

os-ken (once Ryu) has neither its examples nor a program that runs applications any more, so this is both. For each
packet it does what their `simple_switch` did: parse the packet, learn its source, and for a known destination send a
flow-mod and a packet-out, else flood. Needs `pip install os-ken`.

    python os_ken_simple_switch.py PORT
"""

import sys

from os_ken import cfg
from os_ken.base.app_manager import AppManager, OSKenApp
from os_ken.controller import ofp_event
from os_ken.controller.handler import MAIN_DISPATCHER, set_ev_cls
from os_ken.lib import hub
from os_ken.lib.mac import haddr_to_bin
from os_ken.lib.packet import ethernet, packet
from os_ken.ofproto import ofproto_v1_0


class SimpleSwitch(OSKenApp):
    OFP_VERSIONS = (ofproto_v1_0.OFP_VERSION,)

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.ports = {}

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def packet_in(self, event):
        message = event.msg
        switch = message.datapath
        proto, parser = switch.ofproto, switch.ofproto_parser
        frame = packet.Packet(message.data).get_protocol(ethernet.ethernet)
        ports = self.ports.setdefault(switch.id, {})
        ports[frame.src] = message.in_port
        port = ports.get(frame.dst, proto.OFPP_FLOOD)
        actions = [parser.OFPActionOutput(port)]
        if port != proto.OFPP_FLOOD:
            addresses = {"dl_dst": haddr_to_bin(frame.dst), "dl_src": haddr_to_bin(frame.src)}
            match = parser.OFPMatch(in_port=message.in_port, **addresses)
            switch.send_msg(
                parser.OFPFlowMod(
                    datapath=switch,
                    match=match,
                    cookie=0,
                    command=proto.OFPFC_ADD,
                    idle_timeout=0,
                    hard_timeout=0,
                    priority=proto.OFP_DEFAULT_PRIORITY,
                    flags=proto.OFPFF_SEND_FLOW_REM,
                    actions=actions,
                )
            )
        data = message.data if message.buffer_id == proto.OFP_NO_BUFFER else None
        switch.send_msg(
            parser.OFPPacketOut(
                datapath=switch, buffer_id=message.buffer_id, in_port=message.in_port, actions=actions, data=data
            )
        )


if __name__ == "__main__":
    hub.patch(thread=False)
    cfg.CONF(["--ofp-listen-host", "127.0.0.1", "--ofp-tcp-listen-port", sys.argv[1]], project="os_ken")
    AppManager.run_apps([__file__])
