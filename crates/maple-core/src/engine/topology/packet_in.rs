//! What becomes of a packet-in at its port: whether the packet enters the network there.
//!
//! Next on a packet's way: [`crate::engine::decisions::decide`].

use maple_wire::msg::PacketIn;
use maple_wire::{Dpid, Field};

use super::Topology;
use crate::engine::context::stats::Stats;
use crate::engine::fabric::Fabric;
use crate::engine::messages::cause::DropCause;
use crate::engine::messages::event::Effect;
use crate::engine::messages::received_packet::ReceivedPacket;
use crate::engine::one_switch::action_sets::has_passed_look_ups;
use crate::engine::one_switch::cookies::is_copy;
use crate::network::own_frames::{is_discovery_frame, is_the_controllers};
use crate::network::{Mac, PortKind, PortRole};

impl Topology {
    /// Handles a packet-in by the kind of its port. Returns the packet if it enters the network there.
    pub fn on_packet_in(&mut self, fabric: &mut Fabric, dpid: Dpid, packet_in: PacketIn) -> Option<ReceivedPacket> {
        let is_copy = is_copy(packet_in.cookie) && !has_passed_look_ups(&packet_in);
        let received = ReceivedPacket::from_packet_in(dpid, packet_in);
        let Some(received) = received.filter(|_| fabric.switches.contains_key(&dpid)) else {
            fabric.ctx.stats.bad_packet_ins += 1;
            return None;
        };
        let at = received.at;
        // A packet whose bytes are all here is sent from them. The switch's buffered copy, if any, expires there.
        let buffer_id = if received.is_whole() { maple_wire::msg::NO_BUFFER } else { received.buffer_id };
        let received = ReceivedPacket { buffer_id, ..received };
        let port = fabric.ctx.store.snapshot().port(at);
        if port.is_some_and(|port| !port.up) {
            ask_for_ports(fabric, dpid);
        }
        let kind = port.map(|port| port.kind);
        if is_copy {
            self.learn_announcement(fabric, kind, &received);
            return None;
        }
        match kind {
            None => refuse(fabric, &received, DropCause::NoPort, |stats| &mut stats.bad_packet_ins),
            Some(_) if is_discovery_frame(&received.packet()) => {}
            Some(PortKind::New) if fabric.ctx.store.snapshot().facts().role(at) == PortRole::Closed => {
                refuse(fabric, &received, DropCause::Closed, |stats| &mut stats.closed_drops);
            }
            Some(PortKind::New) => Topology::on_new_port_packet_in(fabric, received),
            Some(PortKind::Link(_)) => Topology::on_link_packet_in(fabric, &received),
            // It was on its way to the controller when the port was shut. The segment's other port got it as well.
            Some(PortKind::Shut { .. }) => {
                refuse(fabric, &received, DropCause::Shut, |stats| &mut stats.segment_drops);
            }
            Some(PortKind::Edge | PortKind::Middlebox) => return Some(received),
        }
        None
    }

    /// Learns where the sender of a packet is that enters the network. Returns whether the packet is accepted.
    pub fn learn_sender(&mut self, fabric: &mut Fabric, received: &ReceivedPacket) -> bool {
        if !fabric.ctx.options.track_hosts {
            return true;
        }
        let source = Mac::from_bits(received.packet().switch_value(Field::EthSrc).unwrap_or_default());
        let is_probe_answer = is_the_controllers(&received.packet(), true);
        // A middlebox forwards what hosts elsewhere have sent.
        let is_middlebox_port =
            fabric.ctx.store.snapshot().port(received.at).is_some_and(|port| port.kind == PortKind::Middlebox);
        let is_accepted = is_middlebox_port || self.learn_location(fabric, source, received);
        is_accepted && !is_probe_answer
    }

    /// Handles a copy of what a host announces. The switch has forwarded the packet itself, so there is nothing to
    /// send.
    fn learn_announcement(&mut self, fabric: &mut Fabric, kind: Option<PortKind>, received: &ReceivedPacket) {
        fabric.ctx.stats.announcements += 1;
        if fabric.ctx.options.track_hosts && kind == Some(PortKind::Edge) {
            let source = received.packet().switch_value(Field::EthSrc).unwrap_or_default();
            self.learn_location(fabric, Mac::from_bits(source), received);
        }
    }
}

/// Asks the switch for its ports, because a port that it has reported down sends packets. The switch may have
/// reported changes in the wrong order.
fn ask_for_ports(fabric: &mut Fabric, dpid: Dpid) {
    let now = fabric.ctx.now();
    if fabric.switches.get_mut(&dpid).is_some_and(|switch| switch.ports.take_question(now)) {
        fabric.ctx.stats.port_questions += 1;
        fabric.ctx.add_effect(Effect::AskPorts { dpid });
    }
}

/// Drops a packet without running f, and counts it.
fn refuse(fabric: &mut Fabric, received: &ReceivedPacket, cause: DropCause, count: fn(&mut Stats) -> &mut u64) {
    *count(&mut fabric.ctx.stats) += 1;
    fabric.switches.drop_packet(&mut fabric.ctx, received, cause);
}
