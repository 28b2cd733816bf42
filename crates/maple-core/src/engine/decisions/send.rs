//! Sends packets: at their ingress as a leaf's rule would, or straight out of the egress ports.

use std::sync::Arc;

use super::Decisions;
use super::leaf::LeafState;
use crate::engine::fabric::Fabric;
use crate::engine::messages::cause::{DropCause, Origin};
use crate::engine::messages::received_packet::ReceivedPacket;
use crate::engine::tools::expected::Expected;
use crate::ids::LeafId;
use crate::route::Resolved;
use crate::state::Snapshot;

impl Decisions {
    /// Sends a packet of a leaf that has no rule. If what f read has changed, f decides the packet again, because the
    /// leaf's decision may be out of date. The news of that change may still be on the way.
    pub fn send_without_rule(&mut self, fabric: &mut Fabric, id: LeafId, packet: ReceivedPacket) {
        let route = self.leaves.get(&id).and_then(|leaf| Decisions::resolved(fabric, leaf));
        // Checked last: a leaf that is current now was so when its goal was resolved.
        match route.filter(|_| fabric.ctx.store.is_current(id)) {
            Some(route) => {
                self.drop_by_leaf(fabric, id, &packet);
                fabric.switches.send_to_egress_ports(&mut fabric.ctx, &route, &self.origin_of(id), &packet);
            }
            None => {
                self.withdraw(fabric, id);
                self.undecided.add_misses([packet]);
            }
        }
    }

    /// Makes the ingress switch do what the leaf's rule does. A packet that the rule does not take goes straight to the
    /// egress ports.
    pub fn forward(&mut self, fabric: &mut Fabric, id: LeafId, packet: &ReceivedPacket) {
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
        // After the rules, which the flush at the end of the batch sends.
        let effect = fabric.switches.packet_out(&mut fabric.ctx, packet, actions);
        fabric.ctx.add_all_after_rules(effect);
    }

    /// Sends the packets that wait for a leaf straight to the egress ports. Later packets go that way too, until the
    /// leaf is installed.
    pub fn send_held(&mut self, fabric: &mut Fabric, id: LeafId) {
        let Some(leaf) = self.leaves.get_mut(&id).expected() else { return };
        if let LeafState::Waiting { by_controller, .. } = &mut leaf.state {
            *by_controller = true;
        }
        let packets = self.take_held(fabric, id);
        packets.into_iter().for_each(|packet| self.send_without_rule(fabric, id, packet));
    }

    /// Forwards the packets that waited for a leaf's rule, because the rule is there.
    pub fn forward_held(&mut self, fabric: &mut Fabric, id: LeafId) {
        if self.leaves.get(&id).is_none_or(|leaf| leaf.state != LeafState::Active) {
            return;
        }
        let packets = self.take_held(fabric, id);
        packets.iter().for_each(|packet| self.forward(fabric, id, packet));
    }

    /// Removes and returns the packets that wait for a leaf. Packets whose port or host has changed while they waited
    /// may not enter, and are refused. Those that may find something else in a table by now are decided again: the leaf
    /// has stayed for packets that find what they found.
    fn take_held(&mut self, fabric: &mut Fabric, id: LeafId) -> Vec<ReceivedPacket> {
        let Some(held) = self.leaves.get_mut(&id).and_then(|leaf| leaf.held.take()) else { return Vec::new() };
        let state = fabric.ctx.store.snapshot();
        let (packets, left_out): (Vec<_>, Vec<_>) =
            held.packets.into_iter().partition(|packet| fabric.ctx.is_admissible(packet, &state, false));
        left_out.iter().for_each(|packet| Decisions::refuse_packet(fabric, packet));
        let (packets, others): (Vec<_>, Vec<_>) =
            packets.into_iter().partition(|packet| self.still_answers(fabric, &state, id, packet));
        self.undecided.add_misses(others);
        packets
    }

    /// Reports whether a packet that waited for a leaf is known to find in this state what the leaf's packets look up.
    fn still_answers(&self, fabric: &Fabric, state: &Snapshot, id: LeafId, packet: &ReceivedPacket) -> bool {
        let looks_up = self.leaves.get(&id).is_some_and(|leaf| leaf.metadata().mask != 0);
        let switch = fabric.switches.get(&packet.at.switch);
        let is_of_state = || switch.is_some_and(|switch| switch.ingress.look_ups.is_of(state.version()));
        !looks_up || is_of_state() && fabric.switches.find_leaf(packet) == Some(id)
    }

    /// Sends a packet whose decision makes no leaf.
    pub fn send_uncached(&mut self, fabric: &mut Fabric, route: &Resolved, origin: Origin, packet: &ReceivedPacket) {
        let origin = self.leaves.intern_origin(origin);
        if route.switches.is_empty() && route.own.is_empty() {
            fabric.switches.drop_packet(&mut fabric.ctx, packet, DropCause::Policy(Arc::clone(&origin)));
        }
        fabric.switches.send_to_egress_ports(&mut fabric.ctx, route, &origin, packet);
    }

    /// Counts a packet that the controller drops because of its leaf. Does nothing if the leaf does not drop.
    fn drop_by_leaf(&mut self, fabric: &mut Fabric, id: LeafId, received: &ReceivedPacket) {
        let origin = self.leaves.get(&id).filter(|leaf| leaf.drops()).map(|leaf| Arc::clone(&leaf.origin));
        if let Some(origin) = origin {
            fabric.switches.drop_packet(&mut fabric.ctx, received, DropCause::Policy(origin));
        }
    }

    /// Returns the origin of a leaf's answer.
    pub fn origin_of(&self, id: LeafId) -> Arc<Origin> {
        self.leaves.get(&id).map(|leaf| Arc::clone(&leaf.origin)).unwrap_or_default()
    }
}
