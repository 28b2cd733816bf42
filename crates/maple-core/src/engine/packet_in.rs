//! The path of a packet-in, from its port to its answer.

use maple_wire::msg::PacketIn;
use maple_wire::{Dpid, Field};

use super::classifier::{is_discovery_frame, is_the_controllers};
use super::cookies::{is_copy, is_live};
use super::drops::DropCause;
use super::received_packet::ReceivedPacket;
use super::{Effect, Engine, Stats};
use crate::network::{Location, Mac, PortKind, PortRole};

impl Engine {
    /// Handles a packet-in.
    pub(super) fn packet_in(&mut self, dpid: Dpid, packet_in: PacketIn) {
        self.ctx.stats.packet_ins += 1;
        if is_live(packet_in.cookie) {
            return self.live_packet_in(dpid, packet_in);
        }
        let Some(in_port) = packet_in.in_port().filter(|_| self.switches.contains_key(&dpid)) else {
            self.ctx.stats.bad_packet_ins += 1;
            return;
        };
        let at = Location::new(dpid, in_port);
        let PacketIn { buffer_id, total_len, data, cookie, .. } = packet_in;
        let received =
            ReceivedPacket { total_len: usize::from(total_len).max(data.len()), frame: data.into(), buffer_id, at };
        // A packet whose bytes are all here is sent from them. The switch's buffered copy, if any, expires there.
        let buffer_id = if received.is_whole() { maple_wire::msg::NO_BUFFER } else { buffer_id };
        let received = ReceivedPacket { buffer_id, ..received };
        let port = self.ctx.store.snapshot().port(at);
        if port.is_some_and(|port| !port.up) {
            self.ask_for_ports(dpid);
        }
        let kind = port.map(|port| port.kind);
        if is_copy(cookie) {
            return self.learn_announcement(kind, &received);
        }
        match kind {
            None => self.refuse(&received, DropCause::NoPort, |stats| &mut stats.bad_packet_ins),
            Some(_) if is_discovery_frame(&received.packet()) => {}
            Some(PortKind::New) if self.ctx.store.snapshot().facts().role(at) == PortRole::Closed => {
                self.refuse(&received, DropCause::Closed, |stats| &mut stats.closed_drops);
            }
            Some(PortKind::New) => self.new_port_packet_in(received),
            Some(PortKind::Link(_)) => self.link_packet_in(&received),
            // It was on its way to the controller when the port was shut. The segment's other port got it as well.
            Some(PortKind::Shared { .. }) => {
                self.refuse(&received, DropCause::Shut, |stats| &mut stats.segment_drops);
            }
            Some(PortKind::Edge | PortKind::Middlebox) => {
                self.admit_new_port_packets(dpid);
                self.edge_packet_in(received);
            }
        }
    }

    /// Asks the switch for its ports, because a port that it has reported down sends packets. The switch may have
    /// reported changes in the wrong order.
    fn ask_for_ports(&mut self, dpid: Dpid) {
        let now = self.ctx.now;
        if self.switches.get_mut(&dpid).is_some_and(|switch| switch.port_questions.take_try(now)) {
            self.ctx.stats.port_questions += 1;
            self.ctx.out.push(Effect::AskPorts { dpid });
        }
    }

    /// Drops a packet without running f, and counts it.
    fn refuse(&mut self, received: &ReceivedPacket, cause: DropCause, count: fn(&mut Stats) -> &mut u64) {
        *count(&mut self.ctx.stats) += 1;
        self.drop_packet(received, cause);
    }

    /// Handles a copy of what a host announces. The switch has forwarded the packet itself, so there is nothing to
    /// send.
    fn learn_announcement(&mut self, kind: Option<PortKind>, received: &ReceivedPacket) {
        self.ctx.stats.announcements += 1;
        if self.ctx.options.track_hosts && kind == Some(PortKind::Edge) {
            let source = received.packet().switch_value(Field::EthSrc).unwrap_or_default();
            self.check_location(Mac::from_bits(source), received);
        }
    }

    /// Handles a packet that enters the network.
    pub(super) fn edge_packet_in(&mut self, received: ReceivedPacket) {
        if self.ctx.options.track_hosts {
            let source = Mac::from_bits(received.packet().switch_value(Field::EthSrc).unwrap_or_default());
            let is_probe_answer = is_the_controllers(&received.packet(), true);
            // A middlebox forwards what hosts elsewhere have sent.
            let is_anybodys =
                self.ctx.store.snapshot().port(received.at).is_some_and(|port| port.kind == PortKind::Middlebox);
            let is_accepted = is_anybodys || self.check_location(source, &received);
            if !is_accepted || is_probe_answer {
                return;
            }
        }
        match self.current_leaf(&received) {
            Some(leaf) => {
                self.ctx.stats.hits += 1;
                self.count_access_hit(leaf);
                self.answer(leaf, received);
            }
            None => {
                self.ctx.stats.misses += 1;
                self.waiting.add_misses([received]);
            }
        }
    }
}
