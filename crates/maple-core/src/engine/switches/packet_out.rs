//! Packet-outs of this shard's switches.

use std::sync::Arc;

use maple_wire::msg::{Message, NO_BUFFER, PacketOut};
use maple_wire::{Action, Dpid};

use super::Switches;
use crate::engine::context::Context;
use crate::engine::messages::cause::{DropCause, Origin};
use crate::engine::messages::event::Effect;
use crate::engine::messages::mail::EngineMessage;
use crate::engine::messages::received_packet::ReceivedPacket;
use crate::forwarding;
use crate::network::{OwnFrame, PortKind};
use crate::report::{Report, ReportSubject};
use crate::route::{Resolved, SwitchHops};

impl Switches {
    /// Builds a packet-out at the packet's own switch. Returns `None` if it would do nothing, or if bytes are missing.
    pub fn packet_out(&mut self, ctx: &mut Context, packet: &ReceivedPacket, actions: Vec<Action>) -> Option<Effect> {
        let buffered = packet.buffer_id != NO_BUFFER;
        if actions.is_empty() && !buffered {
            return None;
        }
        if !packet.is_whole() && !buffered {
            ctx.stats.truncated_drops += 1;
            self.drop_packet(ctx, packet, DropCause::Truncated);
            return None;
        }
        let data = if buffered { Vec::new() } else { packet.frame.to_vec() };
        let message = PacketOut { buffer_id: packet.buffer_id, in_port: packet.at.port, actions, data };
        self.effect(packet.at.switch, Message::PacketOut(message))
    }

    /// Sends a packet straight out of the route's egress ports, whatever the tables contain. A packet that must keep
    /// its way goes nowhere.
    pub fn send_to_egress_ports(
        &mut self,
        ctx: &mut Context,
        route: &Resolved,
        origin: &Arc<Origin>,
        packet: &ReceivedPacket,
    ) {
        if route.must_follow_hops {
            ctx.stats.way_drops += 1;
            self.drop_packet(ctx, packet, DropCause::NoRuleForWay(Arc::clone(origin)));
            let at = packet.at;
            let report = Report::NoRuleForWay { at };
            ctx.report_once(ReportSubject::Port(at), &at.to_string(), report);
            return route.own.iter().for_each(|own| self.send_own(ctx, own));
        }
        ctx.stats.sent_by_controller += 1;
        let mut at_ingress = Vec::new();
        for (dpid, hops) in route.switches.iter().filter(|(_, hops)| !hops.edges.is_empty()) {
            if *dpid != packet.at.switch && Self::is_unreachable_anywhere(ctx, *dpid) {
                self.drop_packet(ctx, packet, DropCause::Unreachable(*dpid));
            } else if *dpid == packet.at.switch {
                let version = self.get(dpid).map(|switch| switch.version());
                at_ingress = version.map(|version| forwarding::egress(version, hops)).unwrap_or_default();
            } else if packet.is_whole() {
                let message = EngineMessage::Emit { dpid: *dpid, hops: hops.clone(), frame: packet.frame.clone() };
                ctx.send_to_shard_of(*dpid, message);
            } else {
                ctx.stats.truncated_drops += 1;
                self.drop_packet(ctx, packet, DropCause::Truncated);
            }
        }
        let effect = self.packet_out(ctx, packet, at_ingress);
        ctx.add_all_after_rules(effect);
        route.own.iter().for_each(|own| self.send_own(ctx, own));
    }

    /// Sends a listener's frame, if its port is an edge port.
    pub fn send_listener_frame(&mut self, ctx: &mut Context, own: &OwnFrame) {
        if ctx.store.snapshot().port(own.at).is_some_and(|port| port.kind == PortKind::Edge) {
            self.send_own(ctx, own);
        }
    }

    /// Sends a frame that f or a listener made.
    pub fn send_own(&mut self, ctx: &mut Context, own: &OwnFrame) {
        let hops = SwitchHops { edges: [own.at.port].into(), ..SwitchHops::default() };
        if self.contains_key(&own.at.switch) {
            self.emit(ctx, own.at.switch, &hops, &own.bytes);
        } else {
            let message = EngineMessage::Emit { dpid: own.at.switch, hops, frame: Arc::clone(&own.bytes) };
            ctx.send_to_shard_of(own.at.switch, message);
        }
    }

    /// Sends a frame out of a switch of this shard.
    pub fn emit(&mut self, ctx: &mut Context, dpid: Dpid, hops: &SwitchHops, frame: &[u8]) {
        let Some(switch) = self.get(&dpid) else { return ctx.count_late_message() };
        let actions = forwarding::egress(switch.version(), hops);
        let in_port = maple_wire::PortNo::CONTROLLER;
        let message = PacketOut { buffer_id: NO_BUFFER, in_port, actions, data: frame.to_vec() };
        self.send(ctx, dpid, Message::PacketOut(message));
    }
}
