//! The messages that switches obey, and the paths of frames over links, to hosts and back.

use maple_core::engine::Event;
use maple_core::network::PROBE_MAC;
use maple_core::network::{Location, Mac};
use maple_switch::Outgoing;
use maple_wire::msg::Message;
use maple_wire::packet::build::Frame;
use maple_wire::{Dpid, Field, Packet};

use super::{Channel, Happening, SimNetwork};

impl SimNetwork {
    pub(super) fn at_switch(&mut self, dpid: Dpid, xid: u32, message: Message) {
        self.obey(dpid, xid, message);
        if let (Some(watch), Some(switch)) = (&mut self.watch, self.wiring.switches.get_mut(&dpid)) {
            watch(switch);
        }
    }

    fn obey(&mut self, dpid: Dpid, xid: u32, message: Message) {
        let Some(switch) = self.wiring.switches.get_mut(&dpid) else { return };
        self.flow_mods += u64::from(matches!(message, Message::FlowMod(_) | Message::BundleAdd(_)));
        switch.now = self.now;
        let out = switch.obey(xid, &message);
        if let Some(messages) = &mut self.messages {
            messages.push((dpid, message));
        }
        self.leave(dpid, out);
    }

    /// Hands a frame to a switch's port.
    pub(super) fn arrive(&mut self, at: Location, frame: &[u8]) {
        if let Some(bridge) = self.bridge_at(at).filter(|_| !self.wiring.switches.contains_key(&at.switch)) {
            return self.cross(bridge, at, frame);
        }
        if let Some(switch) = self.wiring.switches.get_mut(&at.switch) {
            switch.now = self.now;
            let out = switch.receive(frame, at.port);
            self.leave(at.switch, out);
        }
    }

    /// Sends on what comes out of a switch.
    pub(super) fn leave(&mut self, dpid: Dpid, out: Vec<Outgoing>) {
        for item in out {
            match item {
                Outgoing::Frame { port, frame, .. } => self.transmit(Location::new(dpid, port), frame),
                Outgoing::Message { xid, message, .. } => self.hear(dpid, xid, message),
                Outgoing::Close(_) => panic!("switch {dpid} hangs up"),
            }
        }
    }

    /// Lets the shard of a switch hear a message. As in Open vSwitch, the report about a rule that is gone may come
    /// after a later barrier reply.
    fn hear(&mut self, dpid: Dpid, xid: u32, message: Message) {
        let event = match message {
            Message::PacketIn(packet_in) => Event::PacketIn { dpid, packet_in },
            Message::Error(error) => Event::SwitchError { dpid, xid, error },
            Message::StatsReply(reply) => Event::FlowStats { dpid, xid, reply },
            Message::BarrierReply => Event::BarrierReply { dpid, xid },
            Message::FlowRemoved(removed) => {
                let event = Happening::Event(self.wiring.shards[&dpid], Box::new(Event::FlowRemoved { dpid, removed }));
                return self.schedule(Channel::Removals(dpid), event);
            }
            Message::BundleControl(_) => return,
            other => panic!("the engine expects no {other:?}"),
        };
        self.notify(dpid, event);
    }

    fn transmit(&mut self, at: Location, frame: Vec<u8>) {
        if let Some(bridge) = self.bridge_at(at) {
            return self.cross(bridge, at, &frame);
        }
        match self.wiring.links.get(&at) {
            Some(peer) => {
                let (channel, frame) = (Channel::Link(*peer), Happening::Frame(*peer, frame));
                self.schedule_after(self.link_delay, channel, frame);
            }
            None => self.reach_hosts(at, frame),
        }
    }

    /// Returns the answer of the host at a port to a probe; `None` if the frame is not a probe.
    pub(super) fn answer_to_probe(&self, at: Location, frame: &[u8]) -> Option<Option<Vec<u8>>> {
        let packet = Packet::new(frame, 0);
        let field = |field| packet.get(field).unwrap_or_default();
        if Mac::from_bits(field(Field::EthSrc)) != PROBE_MAC {
            return None;
        }
        let mac = Mac::from_bits(field(Field::EthDst));
        let here = self.wiring.hosts.get(&mac) == Some(&at);
        let ip = |bits: u128| std::net::Ipv4Addr::from(bits as u32);
        let reply = Frame::ethernet(PROBE_MAC.0, mac.0).arp_reply(ip(field(Field::ArpTpa)), ip(field(Field::ArpSpa)));
        Some(here.then_some(reply))
    }
}
