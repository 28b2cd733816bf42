//! The installation of a leaf at its ingress switch, and its end.
//!
//! When the labels of the leaf's route are ready, the ingress switch gets the rule, and then the packets that waited
//! are sent. A leaf without a rule has its packets sent by the controller.

use super::Decisions;
use super::leaf::LeafState;
use crate::engine::fabric::Fabric;
use crate::engine::tools::expected::Expected;
use crate::ids::{LeafId, RouteId};

impl Decisions {
    /// Reports whether a leaf may have rules at its ingress switch. If not, evicts it.
    pub fn check_leaf_capacity(&mut self, fabric: &mut Fabric, id: LeafId) -> bool {
        let Some(ingress) = self.leaves.get(&id).map(|leaf| leaf.ingress()).expected() else { return false };
        let has_capacity = fabric.make_room_for_rule(ingress);
        if !has_capacity {
            self.evict_leaf(fabric, id);
        }
        has_capacity
    }

    /// Installs a leaf that is in its tree and has joined this route, or lets it wait until the route is ready.
    pub fn install(&mut self, fabric: &mut Fabric, id: LeafId, route_id: RouteId) {
        let Some(route) = fabric.routes.get(route_id).expected() else { return };
        if let Some(leaf) = self.leaves.get_mut(&id).expected() {
            (leaf.route_id, leaf.goal) = (Some(route_id), route.goal().clone());
        }
        if route.is_ready() {
            self.activate(fabric, id, route_id);
        } else {
            self.wait_for_route(fabric, id, route_id, route.is_refused());
        }
    }

    /// Installs a leaf whose route is ready.
    fn activate(&mut self, fabric: &mut Fabric, id: LeafId, route_id: RouteId) {
        fabric.begin_route_use(route_id, id);
        fabric.routes.stop_waiting(route_id, id);
        fabric.sync_route_rules();
        let Some(leaf) = self.leaves.get_mut(&id).expected() else { return };
        let since = leaf.waiting_since(fabric.ctx.now());
        leaf.state = LeafState::Active;
        let ingress = leaf.ingress();
        fabric.ctx.stats.leaves_installed += 1;
        Decisions::request_rule(fabric, ingress, id, since);
        self.forward_held(fabric, id);
    }

    /// Installs a leaf for all places, which had no capacity.
    pub fn install_open(&mut self, fabric: &mut Fabric, id: LeafId) {
        let Some(leaf) = self.leaves.get_mut(&id).expected() else { return };
        let since = leaf.waiting_since(fabric.ctx.now());
        leaf.state = LeafState::Active;
        let ingress = leaf.ingress();
        fabric.ctx.stats.leaves_installed += 1;
        Decisions::request_rule(fabric, ingress, id, since);
    }

    /// Lets the controller forward the leaf's packets, because the leaf cannot have a rule. Withdraws a leaf that is
    /// being rerouted.
    pub fn forward_by_controller(&mut self, fabric: &mut Fabric, id: LeafId) {
        if self.leaves.get(&id).is_some_and(|leaf| leaf.is_rerouting()) {
            // The route that it still has is no longer f's answer.
            return self.withdraw(fabric, id);
        }
        fabric.ctx.stats.aborts += 1;
        self.uninstall(fabric, id, LeafState::ByController);
    }

    /// Removes the leaf's rule and sets its new state, in which its packets go through the controller.
    fn uninstall(&mut self, fabric: &mut Fabric, id: LeafId, state: LeafState) {
        self.release(fabric, id);
        let Some(leaf) = self.leaves.get_mut(&id).expected() else { return };
        leaf.state = state;
        let ingress = leaf.ingress();
        fabric.change_action(ingress, id);
        self.send_held(fabric, id);
    }

    /// Handles a leaf's deadline: withdraws it if its reroute takes too long, or sends the packets that have waited
    /// long enough.
    pub fn on_leaf_timer(&mut self, fabric: &mut Fabric, id: LeafId) {
        // A timer outlives its leaf.
        let Some(leaf) = self.leaves.get(&id) else { return };
        match leaf.state {
            LeafState::Rerouting(ref reroute) if reroute.until <= fabric.ctx.now() => self.withdraw(fabric, id),
            _ if leaf.held.as_ref().is_some_and(|held| held.until <= fabric.ctx.now()) => {
                self.send_held(fabric, id);
            }
            _ => {}
        }
    }

    /// Lets a leaf's packets go through the controller until there is capacity. Withdraws a leaf that is being
    /// rerouted.
    pub fn evict_leaf(&mut self, fabric: &mut Fabric, id: LeafId) {
        let from = fabric.ctx.now() + fabric.ctx.options.eviction_period;
        match self.leaves.get(&id) {
            // It was withdrawn while its rule waited.
            None => {}
            Some(leaf) if leaf.is_rerouting() => self.withdraw(fabric, id),
            Some(_) => self.uninstall(fabric, id, LeafState::NoCapacity { from }),
        }
    }
}
