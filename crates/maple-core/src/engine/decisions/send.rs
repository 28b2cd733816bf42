//! Sends packets: at their ingress as a leaf's rule would, or straight out of the egress ports.

use std::sync::Arc;

use super::Decisions;
use super::leaf::{HeldPackets, LeafState};
use crate::engine::context::cause::{DropCause, Origin};
use crate::engine::context::expected::Expected;
use crate::engine::context::received_packet::ReceivedPacket;
use crate::engine::context::timers::Timer;
use crate::engine::fabric::Fabric;
use crate::ids::LeafId;
use crate::route::Resolved;

impl Decisions {
    /// Forwards a packet that belongs to a leaf, or holds it until the leaf's rule is there.
    pub(in crate::engine) fn answer(&mut self, fabric: &mut Fabric, id: LeafId, packet: ReceivedPacket) {
        if let Some(LeafState::NoCapacity { from }) = self.leaves.get(&id).map(|leaf| &leaf.state)
            && *from <= fabric.ctx.now
        {
            self.try_install(fabric, id);
        }
        let (need_not_wait, has_sure_labels) = (self.need_not_wait(fabric, id), !fabric.ctx.is_any_unconfirmed());
        // The rule still follows f's former decision.
        let is_changing = self.is_route_changing(fabric, id);
        let Some(leaf) = self.leaves.get_mut(&id).expected() else { return };
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
                        fabric.ctx.wake_at(until, Timer::Leaf(id));
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
        let route = leaf.filter(|_| fabric.ctx.is_any_restoring()).and_then(|leaf| Decisions::resolved(fabric, leaf));
        route.is_some_and(|route| !route.keeps_way)
    }

    /// Sends a packet of a leaf that has no rule. If what f read has changed, f decides the packet again, because the
    /// leaf's decision may be out of date. The news of that change may still be on the way.
    fn send_without_rule(&mut self, fabric: &mut Fabric, id: LeafId, packet: ReceivedPacket) {
        let route = self.leaves.get(&id).and_then(|leaf| Decisions::resolved(fabric, leaf));
        // Checked last: a leaf that is current now was so when its goal was resolved.
        match route.filter(|_| fabric.ctx.store.is_current(id)) {
            Some(route) => {
                self.drop_by_leaf(fabric, id, &packet);
                fabric.switches.send_to_egress_ports(&mut fabric.ctx, &route, &self.origin_of(id), &packet);
            }
            None => {
                self.withdraw(fabric, id);
                self.waiting.add_misses([packet]);
            }
        }
    }

    /// Makes the ingress switch do what the leaf's rule does. A packet that the rule does not take goes straight to the
    /// egress ports.
    pub(in crate::engine) fn forward(&mut self, fabric: &mut Fabric, id: LeafId, packet: &ReceivedPacket) {
        let Some(leaf) = self.leaves.get(&id).expected() else { return };
        let Some(route) = leaf.route_id.and_then(|route_id| fabric.routes.get(route_id)) else { return };
        if route.is_for_untagged() && !packet.is_untagged() {
            let route = Arc::clone(route.resolved());
            return fabric.switches.send_to_egress_ports(&mut fabric.ctx, &route, &self.origin_of(id), packet);
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
    pub(in crate::engine) fn send_held(&mut self, fabric: &mut Fabric, id: LeafId) {
        let Some(leaf) = self.leaves.get_mut(&id).expected() else { return };
        if let LeafState::Waiting { by_controller, .. } = &mut leaf.state {
            *by_controller = true;
        }
        let packets = self.take_held(fabric, id);
        packets.into_iter().for_each(|packet| self.send_without_rule(fabric, id, packet));
    }

    /// Forwards the packets that waited for a leaf's rule, because the rule is there.
    pub(in crate::engine) fn forward_held(&mut self, fabric: &mut Fabric, id: LeafId) {
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
        left_out.iter().for_each(|packet| Decisions::refuse_packet(fabric, packet));
        packets
    }

    /// Sends a packet whose decision makes no leaf.
    pub(in crate::engine) fn send_uncached(
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
        fabric.switches.send_to_egress_ports(&mut fabric.ctx, route, &origin, packet);
    }
}
