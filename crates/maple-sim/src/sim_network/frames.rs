//! The messages that switches obey, and the paths of frames over links, to hosts and back.

use maple_core::engine::{Event, PROBE_MAC};
use maple_core::network::{Location, Mac};
use maple_wire::msg::{BundleAdd, BundleControl, Message};
use maple_wire::packet::build::Frame;
use maple_wire::{Dpid, Field, Packet, Version};

use super::{Channel, Happening, Out, SimNetwork};

impl SimNetwork {
    pub(super) fn at_switch(&mut self, dpid: Dpid, xid: u32, message: Message) {
        self.obey(dpid, xid, message);
        if let (Some(watch), Some(switch)) = (&mut self.watch, self.wiring.switches.get_mut(&dpid)) {
            watch(switch);
        }
    }

    fn obey(&mut self, dpid: Dpid, xid: u32, message: Message) {
        let Some(switch) = self.wiring.switches.get_mut(&dpid) else { return };
        switch.now = self.now;
        if let Some(messages) = &mut self.messages {
            messages.push((dpid, message.clone()));
        }
        match through_codec(switch.version, xid, &message) {
            Message::FlowMod(flow_mod) => {
                self.flow_mods += 1;
                match switch.flow_mod(&flow_mod) {
                    Ok(deleted) => deleted.into_iter().for_each(|flow| self.tell_removed(dpid, flow)),
                    Err(error) => self.notify(dpid, Event::SwitchError { dpid, xid, error }),
                }
            }
            Message::BundleControl(request) => self.bundle_control(dpid, xid, request),
            Message::BundleAdd(request) => self.bundle_add(dpid, xid, request),
            Message::PacketOut(packet_out) => {
                let out = switch.packet_out(&packet_out);
                self.leave(dpid, out);
            }
            Message::StatsRequest(request) => match switch.stats(&request.body) {
                Ok(reply) => self.notify(dpid, Event::FlowStats { dpid, xid, reply }),
                Err(error) => self.notify(dpid, Event::SwitchError { dpid, xid, error }),
            },
            Message::MeterMod(request) => {
                if let Err(error) = switch.meter_mod(&request) {
                    self.notify(dpid, Event::SwitchError { dpid, xid, error });
                }
            }
            Message::BarrierRequest => self.notify(dpid, Event::BarrierReply { dpid, xid }),
            other => panic!("the engine sends no {other:?}"),
        }
    }

    /// Hands a message about a bundle to a switch.
    fn bundle_control(&mut self, dpid: Dpid, xid: u32, request: BundleControl) {
        let Some(switch) = self.wiring.switches.get_mut(&dpid) else { return };
        let (deleted, errors) = switch.bundle_control(xid, request);
        deleted.into_iter().for_each(|flow| self.tell_removed(dpid, flow));
        errors.into_iter().for_each(|(xid, error)| self.notify(dpid, Event::SwitchError { dpid, xid, error }));
    }

    /// Hands a message that adds to a bundle to a switch.
    fn bundle_add(&mut self, dpid: Dpid, xid: u32, request: BundleAdd) {
        self.flow_mods += 1;
        let Some(switch) = self.wiring.switches.get_mut(&dpid) else { return };
        if let Err(error) = switch.bundle_add(xid, request) {
            self.notify(dpid, Event::SwitchError { dpid, xid, error });
        }
    }

    /// Hands a frame to a switch's port.
    pub(super) fn arrive(&mut self, at: Location, frame: &[u8]) {
        if let Some(bridge) = self.bridge_at(at).filter(|_| !self.wiring.switches.contains_key(&at.switch)) {
            return self.cross(bridge, at, frame);
        }
        if self.wiring.ports.get(&at) != Some(&true) {
            return;
        }
        if let Some(switch) = self.wiring.switches.get_mut(&at.switch) {
            switch.count(at.port, frame.len(), true);
            let out = switch.receive(frame, at.port);
            self.leave(at.switch, out);
        }
    }

    fn leave(&mut self, dpid: Dpid, out: Vec<Out>) {
        for out in out {
            match out {
                Out::Controller(packet_in) => {
                    self.notify(dpid, Event::PacketIn { dpid, packet_in: *packet_in });
                }
                Out::Port(port, frame) => {
                    self.wiring.switches.get_mut(&dpid).into_iter().for_each(|s| s.count(port, frame.len(), false));
                    self.transmit(Location::new(dpid, port), frame)
                }
            }
        }
    }

    fn transmit(&mut self, at: Location, frame: Vec<u8>) {
        if self.wiring.ports.get(&at) != Some(&true) {
            return;
        }
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

/// The message as a switch of this version reads it.
fn through_codec(version: Version, xid: u32, message: &Message) -> Message {
    let bytes = message.to_bytes(version, xid).unwrap_or_else(|error| panic!("{error}: {message:?}"));
    Message::decode(&bytes).unwrap_or_else(|error| panic!("{error}: {message:?}")).1
}
