//! Sends packets: at their ingress as a leaf's rule would, or straight out of the egress ports.

use std::sync::Arc;

use maple_wire::msg::{Message, NO_BUFFER, PacketOut};
use maple_wire::{Action, Dpid};

use super::Effect;
use super::context::Context;
use super::decisions::Decisions;
use super::drops::{DropCause, Origin};
use super::fabric::Fabric;
use super::leaf::{HeldPackets, LeafState};
use super::messages::EngineMessage;
use super::received_packet::ReceivedPacket;
use super::switches::Switches;
use super::timers::Timer;
use crate::forwarding;
use crate::ids::LeafId;
use crate::network::{OwnFrame, PortKind};
use crate::report::{Report, ReportKind, ReportSubject};
use crate::route::{Resolved, SwitchHops};

impl Decisions {
    /// Forwards a packet that belongs to a leaf, or holds it until the leaf's rule is there.
    pub(super) fn answer(&mut self, fabric: &mut Fabric, id: LeafId, packet: ReceivedPacket) {
        if let Some(LeafState::NoCapacity { from }) = self.leaves.get(&id).map(|leaf| &leaf.state)
            && *from <= fabric.ctx.now
        {
            self.try_install(fabric, id);
        }
        let (need_not_wait, has_sure_labels) = (self.need_not_wait(fabric, id), !fabric.ctx.is_any_unconfirmed());
        // The rule still follows f's former decision.
        let is_changing = self.is_route_changing(fabric, id);
        let Some(leaf) = self.leaves.get_mut(&id) else { return };
        match leaf.state {
            LeafState::Active if !has_sure_labels => self.send_without_rule(fabric, id, packet),
            LeafState::Active if !is_changing => self.forward(fabric, id, &packet),
            LeafState::Active | LeafState::Rerouting(_) | LeafState::Waiting { by_controller: false, .. }
                if leaf.count_held() < fabric.ctx.options.held_packets && !need_not_wait =>
            {
                match &mut leaf.held {
                    Some(held) => held.packets.push(packet),
                    None => {
                        let until = fabric.ctx.now + fabric.ctx.options.hold;
                        leaf.held = Some(Box::new(HeldPackets { packets: vec![packet], until }));
                        fabric.ctx.timers.insert((until, Timer::Leaf(id)));
                    }
                }
            }
            _ => self.send_without_rule(fabric, id, packet),
        }
    }

    /// Reports whether a leaf's route is changing to another path.
    fn is_route_changing(&self, fabric: &Fabric, id: LeafId) -> bool {
        let route = self.leaves.get(&id).and_then(|leaf| fabric.routes.get(leaf.route_id?));
        route.is_some_and(|route| route.next_until().is_some())
    }

    /// Reports whether a packet of a leaf that waits for labels is better sent without them, because labels have to
    /// wait for the rules of an earlier run. A packet that must keep its way can't leave without them.
    fn need_not_wait(&self, fabric: &Fabric, id: LeafId) -> bool {
        let leaf = self.leaves.get(&id).filter(|leaf| matches!(leaf.state, LeafState::Waiting { .. }));
        let route = leaf.filter(|_| fabric.ctx.is_any_restoring()).and_then(|leaf| self.resolved(fabric, leaf));
        route.is_some_and(|route| !route.keeps_way)
    }

    /// Sends a packet of a leaf that has no rule. If what f read has changed, f decides the packet again, because the
    /// leaf's decision may be out of date. The news of that change may still be on the way.
    fn send_without_rule(&mut self, fabric: &mut Fabric, id: LeafId, packet: ReceivedPacket) {
        let route = self.leaves.get(&id).and_then(|leaf| self.resolved(fabric, leaf));
        // Checked last: a leaf that is current now was so when its goal was resolved.
        match route.filter(|_| fabric.ctx.store.is_current(id)) {
            Some(route) => {
                self.drop_by_leaf(fabric, id, &packet);
                fabric.switches.send_to_egress_ports(&mut fabric.ctx, &route, (&self.origin_of(id), &packet));
            }
            None => {
                self.withdraw(fabric, id);
                self.waiting.add_misses([packet]);
            }
        }
    }

    /// Makes the ingress switch do what the leaf's rule does. A packet that the rule does not take goes straight to the
    /// egress ports.
    pub(super) fn forward(&mut self, fabric: &mut Fabric, id: LeafId, packet: &ReceivedPacket) {
        let Some(leaf) = self.leaves.get(&id) else { return };
        let Some(route) = leaf.route_id.and_then(|route_id| fabric.routes.get(route_id)) else { return };
        if route.is_for_untagged() && !packet.is_untagged() {
            let route = Arc::clone(route.resolved());
            return fabric.switches.send_to_egress_ports(&mut fabric.ctx, &route, (&self.origin_of(id), packet));
        }
        let actions = route.actions();
        if actions.is_empty() {
            self.drop_by_leaf(fabric, id, packet);
        }
        if let Some(effect) = fabric.switches.packet_out(&mut fabric.ctx, packet, actions) {
            // After the rules, which the flush at the end of the batch sends.
            fabric.ctx.after.push(effect);
        }
    }

    /// Sends the packets that wait for a leaf straight to the egress ports. Later packets go that way too, until the
    /// leaf is installed.
    pub(super) fn send_held(&mut self, fabric: &mut Fabric, id: LeafId) {
        let Some(leaf) = self.leaves.get_mut(&id) else { return };
        if let LeafState::Waiting { by_controller, .. } = &mut leaf.state {
            *by_controller = true;
        }
        let packets = self.take_held(fabric, id);
        packets.into_iter().for_each(|packet| self.send_without_rule(fabric, id, packet));
    }

    /// Forwards the packets that waited for a leaf's rule, because the rule is there.
    pub(super) fn forward_held(&mut self, fabric: &mut Fabric, id: LeafId) {
        if self.leaves.get(&id).is_none_or(|leaf| leaf.state != LeafState::Active) {
            return;
        }
        let packets = self.take_held(fabric, id);
        packets.iter().for_each(|packet| self.forward(fabric, id, packet));
    }

    /// Removes and returns the packets that wait for a leaf. Packets whose port or host has changed while they waited
    /// may not enter, and are refused.
    fn take_held(&mut self, fabric: &mut Fabric, id: LeafId) -> Vec<ReceivedPacket> {
        let Some(held) = self.leaves.get_mut(&id).and_then(|leaf| leaf.held.take()) else { return Vec::new() };
        let state = fabric.ctx.store.snapshot();
        let (packets, left_out): (Vec<_>, Vec<_>) =
            held.packets.into_iter().partition(|packet| fabric.ctx.is_admissible(packet, &state));
        left_out.iter().for_each(|packet| self.refuse_packet(fabric, packet));
        packets
    }

    /// Sends a packet whose decision makes no leaf.
    pub(super) fn send_uncached(
        &mut self,
        fabric: &mut Fabric,
        route: &Resolved,
        origin: Origin,
        packet: &ReceivedPacket,
    ) {
        let origin = self.leaves.intern_origin(origin);
        if route.switches.is_empty() && route.own.is_empty() {
            fabric.switches.drop_packet(&mut fabric.ctx, packet, DropCause::Policy(Arc::clone(&origin)));
        }
        fabric.switches.send_to_egress_ports(&mut fabric.ctx, route, (&origin, packet));
    }
}

impl Switches {
    /// Builds a packet-out at the packet's own switch. Returns `None` if it would do nothing, or if bytes are missing.
    pub(super) fn packet_out(
        &mut self,
        ctx: &mut Context,
        packet: &ReceivedPacket,
        actions: Vec<Action>,
    ) -> Option<Effect> {
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
    fn send_to_egress_ports(
        &mut self,
        ctx: &mut Context,
        route: &Resolved,
        (origin, packet): (&Arc<Origin>, &ReceivedPacket),
    ) {
        if route.keeps_way {
            ctx.stats.way_drops += 1;
            self.drop_packet(ctx, packet, DropCause::NoRuleForWay(Arc::clone(origin)));
            let (at, report) = (packet.at, Report::NoRuleForWay { at: packet.at });
            ctx.report_once(ReportKind::NoRuleForWay, ReportSubject::Port(at), &at.to_string(), report);
            return route.own.iter().for_each(|own| self.send_own(ctx, own));
        }
        ctx.stats.sent_by_controller += 1;
        let mut at_ingress = Vec::new();
        for (dpid, hops) in route.switches.iter().filter(|(_, hops)| !hops.edges.is_empty()) {
            if *dpid != packet.at.switch && self.is_unreachable_anywhere(ctx, *dpid) {
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
        if let Some(effect) = self.packet_out(ctx, packet, at_ingress) {
            ctx.after.push(effect);
        }
        route.own.iter().for_each(|own| self.send_own(ctx, own));
    }

    /// Sends a listener's frame, if its port is an edge port.
    pub(super) fn send_listener_frame(&mut self, ctx: &mut Context, own: &OwnFrame) {
        if ctx.store.snapshot().port(own.at).is_some_and(|port| port.kind == PortKind::Edge) {
            self.send_own(ctx, own);
        }
    }

    /// Sends a frame that f or a listener made.
    pub(super) fn send_own(&mut self, ctx: &mut Context, own: &OwnFrame) {
        let hops = SwitchHops { edges: [own.at.port].into(), ..SwitchHops::default() };
        if self.contains_key(&own.at.switch) {
            self.emit(ctx, own.at.switch, &hops, &own.bytes);
        } else {
            ctx.send_to_shard_of(
                own.at.switch,
                EngineMessage::Emit { dpid: own.at.switch, hops, frame: Arc::clone(&own.bytes) },
            );
        }
    }

    /// Sends a frame out of a switch of this shard.
    pub(super) fn emit(&mut self, ctx: &mut Context, dpid: Dpid, hops: &SwitchHops, frame: &[u8]) {
        let Some(switch) = self.get(&dpid) else { return };
        let actions = forwarding::egress(switch.version(), hops);
        let in_port = maple_wire::PortNo::CONTROLLER;
        let message = PacketOut { buffer_id: NO_BUFFER, in_port, actions, data: frame.to_vec() };
        self.send(ctx, dpid, Message::PacketOut(message));
    }
}
