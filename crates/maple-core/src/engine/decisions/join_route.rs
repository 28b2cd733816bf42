//! How a leaf joins a route before it is installed.
//!
//! Next on a packet's way: [`crate::engine::fabric::label_effects`].

use std::sync::Arc;

use super::Decisions;
use super::leaf::{Leaf, LeafState};
use crate::compile::LeafAction;
use crate::engine::fabric::Fabric;
use crate::engine::fabric::routes::{AtIngress, RouteKey, RuleCondition, SharedRoute};
use crate::engine::messages::received_packet::ReceivedPacket;
use crate::engine::one_switch::action_sets::act_on_set;
use crate::engine::one_switch::tables::Waiter;
use crate::engine::tools::expected::Expected;
use crate::ids::{LeafId, RouteId};
use crate::labels::Carriage;
use crate::route::Goal;

impl Decisions {
    /// Installs a leaf again that had no capacity, or lets it wait until its route is ready.
    pub fn retry_install(&mut self, fabric: &mut Fabric, id: LeafId) {
        let Some(leaf) = self.leaves.get(&id).expected() else { return };
        let goal = leaf.goal.clone();
        if !self.check_leaf_capacity(fabric, id) {
            return;
        }
        if goal.as_open().is_some() {
            return self.install_open(fabric, id);
        }
        match self.join_goal(fabric, id, &goal) {
            Some(route_id) => self.install(fabric, id, route_id),
            None => self.forward_by_controller(fabric, id),
        }
    }

    /// Makes the leaf join a route. `None` if packets cannot be carried along it.
    pub fn join_goal(&mut self, fabric: &mut Fabric, id: LeafId, goal: &Goal) -> Option<RouteId> {
        let key = route_key(fabric, goal, &self.leaves.get(&id)?.witness)?;
        self.join_route(fabric, id, key)
    }

    fn join_route(&mut self, fabric: &mut Fabric, leaf: LeafId, key: RouteKey) -> Option<RouteId> {
        if let Some(route_id) = fabric.routes.of_key(&key) {
            // The news that its plan resolves to something else may be on the way.
            self.follow_plan(fabric, route_id);
        }
        if let Some(route_id) = fabric.routes.join(leaf, &key) {
            return Some(route_id);
        }
        self.create_route(fabric, Some(leaf), key)
    }

    /// Makes a leaf join a new route. Without a leaf, the route is the way to a place that an open look-up finds.
    /// `None` if there is no such route.
    pub fn create_route(&mut self, fabric: &mut Fabric, leaf: Option<LeafId>, key: RouteKey) -> Option<RouteId> {
        let meter = fabric.meter_number(key.ingress, key.goal.meter()).ok()?;
        let (subscription, resolved) = match &key.goal {
            Goal::Plan(plan) => {
                let dependent = self.new_dependent_id(fabric);
                (Some(dependent), fabric.ctx.subscribe_to_plan(dependent, plan)?)
            }
            Goal::Fixed(route) => (None, Arc::clone(route)),
            Goal::Open(_) => return None,
        };
        let switch = fabric.switches.get(&key.ingress);
        let looks_up = switch.is_some_and(|switch| !switch.layout().look_ups().is_empty());
        let restoring = switch.and_then(|switch| switch.restoring.as_ref());
        let had_rule = restoring.is_some_and(|restoring| restoring.route_numbers().contains(&key.number()));
        let at_ingress = AtIngress {
            route_table: switch.and_then(|switch| switch.usable_route_table()),
            meter,
            rule_condition: RuleCondition { min_leaves: if looks_up { 2 } else { 1 }, had_rule },
        };
        Some(fabric.with_routes(|routes, _, out| routes.create(leaf, key, &resolved, subscription, at_ingress, out)))
    }

    /// Makes a leaf join its route before it is put into its tree. Returns the action for the tree: if the route is
    /// ready, the leaf's rule is part of the tree's change.
    pub fn prepare_leaf(&mut self, fabric: &mut Fabric, id: LeafId, leaf: &mut Leaf) -> LeafAction {
        let ingress = leaf.ingress();
        if !fabric.make_room_for_rule(ingress) {
            leaf.state = LeafState::NoCapacity { from: fabric.ctx.now() + fabric.ctx.options.eviction_period };
            return LeafAction::Controller;
        }
        if leaf.has_open_route() {
            leaf.state = LeafState::Active;
            fabric.ctx.stats.leaves_installed += 1;
            fabric.switches.wait(ingress, Waiter::RuleAdded(id, fabric.ctx.now()));
            return LeafAction::Apply(act_on_set());
        }
        let key = route_key(fabric, &leaf.goal, &leaf.witness);
        let Some(route_id) = key.and_then(|key| self.join_route(fabric, id, key)) else {
            fabric.ctx.stats.aborts += 1;
            leaf.state = LeafState::ByController;
            return LeafAction::Controller;
        };
        leaf.route_id = Some(route_id);
        let Some(route) = fabric.routes.get(route_id).expected() else { return LeafAction::Controller };
        leaf.goal = route.goal().clone();
        if !route.is_ready() {
            leaf.state = LeafState::Waiting { by_controller: route.is_refused(), since: fabric.ctx.now() };
            fabric.routes.wait(route_id, id);
            return LeafAction::Controller;
        }
        fabric.begin_route_use(route_id, id);
        fabric.sync_route_rules();
        let action = fabric.routes.get(route_id).map_or(LeafAction::Controller, SharedRoute::action);
        leaf.state = LeafState::Active;
        fabric.ctx.stats.leaves_installed += 1;
        fabric.switches.wait(ingress, Waiter::RuleAdded(id, fabric.ctx.now()));
        action
    }

    /// Undoes [`Decisions::prepare_leaf`] for a leaf that is not put into its tree after all.
    pub fn discard_prepared(fabric: &mut Fabric, id: LeafId, leaf: &mut Leaf) {
        fabric.ctx.stats.leaves_installed -= u64::from(leaf.has_open_route() && leaf.state == LeafState::Active);
        let Some(route_id) = leaf.route_id.take() else { return };
        if leaf.state == LeafState::Active {
            // Its rule has not been sent.
            fabric.ctx.stats.leaves_installed -= 1;
            fabric.routes.detach(route_id, id);
            return fabric.finish_route_use(route_id, false, true);
        }
        fabric.leave_route(id, route_id);
    }
}

/// Returns the key of the route to a goal for packets like this one; `None` if packets cannot be carried along it.
fn route_key(fabric: &Fabric, goal: &Goal, packet: &ReceivedPacket) -> Option<RouteKey> {
    let ingress = packet.at.switch;
    let version = fabric.switches.get(&ingress)?.version();
    let carriage = match goal {
        Goal::Plan(_) => Carriage::plain(version, &packet.packet()),
        Goal::Fixed(route) => Carriage::for_route(route, ingress, version, &packet.packet())?,
        Goal::Open(_) => return None,
    };
    Some(RouteKey { ingress, version, goal: goal.clone(), carriage })
}
