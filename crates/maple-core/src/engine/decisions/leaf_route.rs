//! A leaf and its route: what the route makes of the leaf's packets, and how the leaf waits for it and leaves it.
//!
//! Leaving: the leaf's rule is deleted first. When the switch has confirmed that, the leaf leaves its route. So a
//! packet that a rule has sent on always finds rules further on.

use std::sync::Arc;

use maple_wire::Dpid;

use super::Decisions;
use super::leaf::{Leaf, LeafState};
use crate::compile::LeafAction;
use crate::engine::fabric::Fabric;
use crate::engine::fabric::routes::Routes;
use crate::engine::one_switch::action_sets::act_on_set;
use crate::engine::one_switch::tables::Waiter;
use crate::engine::tools::expected::Expected;
use crate::ids::{DependentId, LeafId, RouteId, Time};
use crate::route::Resolved;

impl Decisions {
    /// Returns the present resolution of a leaf's goal. `None` if there is no such route, or if it depends on the
    /// packet.
    pub fn resolved(fabric: &Fabric, leaf: &Leaf) -> Option<Arc<Resolved>> {
        let route_id =
            if let LeafState::Rerouting(reroute) = &leaf.state { Some(reroute.route_id) } else { leaf.route_id };
        match route_id.and_then(|route_id| fabric.routes.get(route_id)) {
            Some(route) => Some(Arc::clone(route.resolved())),
            None => leaf.newest_goal().now(&fabric.ctx.store.snapshot()),
        }
    }

    /// Returns the plan that a leaf's route follows, as a dependent, if it follows one.
    pub fn plan_of(&self, fabric: &Fabric, leaf: LeafId) -> Option<DependentId> {
        let route = fabric.routes.get(self.leaves.get(&leaf)?.route_id?)?;
        route.plan().map(|(dependent, _)| dependent)
    }

    /// Reports whether a leaf's route is changing to another path.
    pub fn is_route_changing(&self, fabric: &Fabric, id: LeafId) -> bool {
        let route = self.leaves.get(&id).and_then(|leaf| fabric.routes.get(leaf.route_id?));
        route.is_some_and(|route| route.next_until().is_some())
    }

    /// Returns the action of the ingress switch for a leaf's packets.
    pub fn ingress_action(&self, routes: &Routes, id: LeafId) -> LeafAction {
        let leaf = self.leaves.get(&id);
        let leaf = leaf.filter(|leaf| matches!(leaf.state, LeafState::Active | LeafState::Rerouting(_)));
        if leaf.is_some_and(|leaf| leaf.has_open_route()) {
            return LeafAction::Apply(act_on_set());
        }
        let Some(route) = leaf.and_then(|leaf| routes.get(leaf.route_id?)) else {
            return LeafAction::Controller;
        };
        route.action()
    }

    /// Makes the leaf wait until its route is ready. Its packets wait too, or go through the controller.
    pub fn wait_for_route(&mut self, fabric: &mut Fabric, id: LeafId, route_id: RouteId, by_controller: bool) {
        fabric.routes.wait(route_id, id);
        if let Some(leaf) = self.leaves.get_mut(&id) {
            let since = leaf.waiting_since(fabric.ctx.now());
            leaf.state = LeafState::Waiting { by_controller, since };
        }
    }

    /// Asks for the leaf's rule, or for another one in its place. `since`: the time of the decision.
    pub fn request_rule(fabric: &mut Fabric, ingress: Dpid, id: LeafId, since: Time) {
        fabric.switches.wait(ingress, Waiter::RuleAdded(id, since));
        fabric.change_action(ingress, id);
    }

    /// Makes the leaf leave its route once no rule sends packets that way.
    pub fn release(&mut self, fabric: &mut Fabric, id: LeafId) {
        let Some(leaf) = self.leaves.get_mut(&id).expected() else { return };
        match leaf.state {
            // The rules of keys say the ways.
            _ if leaf.has_open_route() => {}
            LeafState::Active => self.stop_using_route(fabric, id, false),
            LeafState::Rerouting(ref reroute) => {
                let route_id = reroute.route_id;
                fabric.leave_route(id, route_id);
                self.stop_using_route(fabric, id, false);
            }
            LeafState::Waiting { .. } | LeafState::NoCapacity { .. } | LeafState::ByController => {
                if let Some(route_id) = leaf.route_id.take() {
                    fabric.leave_route(id, route_id);
                }
            }
        }
    }

    /// Makes the ingress switch remove a leaf's rule, or replace it by one that leads elsewhere. When the switch has
    /// confirmed that, the leaf's use of its route ends. `stays`: the leaf remains a member of the route.
    pub fn stop_using_route(&mut self, fabric: &mut Fabric, id: LeafId, stays: bool) {
        let Some(leaf) = self.leaves.get_mut(&id).expected() else { return };
        let Some(route_id) = leaf.route_id.expected() else { return };
        if !stays {
            leaf.route_id = None;
            fabric.routes.detach(route_id, id);
        }
        let ingress = leaf.ingress();
        match fabric.switches.get_mut(&ingress) {
            Some(switch) => {
                switch.tables.wait(Waiter::RuleRemoved { route_id, stays });
                fabric.change_action(ingress, id);
            }
            None => fabric.finish_route_use(route_id, stays, false),
        }
    }
}
