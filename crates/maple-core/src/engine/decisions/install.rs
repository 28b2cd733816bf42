//! The installation of a leaf at its ingress switch, and its removal.
//!
//! Installing: the leaf joins its route. When the route's labels are ready, the ingress switch gets the rule, and then
//! the packets that waited are sent. Removing: the rule is deleted first. When the switch has confirmed that, the leaf
//! leaves its route. So a packet that a rule has sent on always finds rules further on.

use std::sync::Arc;

use maple_wire::Dpid;

use super::Decisions;
use super::leaf::{Leaf, LeafState};
use crate::compile::LeafAction;
use crate::engine::context::expected::Expected;
use crate::engine::context::received_packet::ReceivedPacket;
use crate::engine::context::timers::Timer;
use crate::engine::fabric::Fabric;
use crate::engine::fabric::routes::{AtIngress, RouteKey, SharedRoute};
use crate::engine::one_switch::paths::RouteTable;
use crate::engine::one_switch::tables::Waiter;
use crate::engine::one_switch::{Stale, Switch};
use crate::ids::{DependentId, LeafId, RouteId, Time};
use crate::labels::Carriage;
use crate::route::Goal;

impl Decisions {
    /// Installs a leaf that is in its tree, or lets it wait until its route is ready.
    pub(in crate::engine) fn try_install(&mut self, fabric: &mut Fabric, id: LeafId) {
        let Some(leaf) = self.leaves.get(&id).expected() else { return };
        let (ingress, route_id, answer) = (leaf.ingress(), leaf.route_id, leaf.answer.clone());
        if !fabric.switches.check_capacity(&mut fabric.ctx, ingress) {
            return self.evict_leaf(fabric, id);
        }
        let Some(route_id) = route_id.or_else(|| self.join_goal(fabric, id, &answer)) else {
            return self.forward_by_controller(fabric, id);
        };
        let Some(route) = fabric.routes.get(route_id).expected() else { return };
        if let Some(leaf) = self.leaves.get_mut(&id).expected() {
            (leaf.route_id, leaf.answer) = (Some(route_id), route.goal().clone());
        }
        if route.is_ready() {
            self.activate(fabric, id, route_id);
        } else {
            self.wait(fabric, id, route_id, route.is_refused());
        }
    }

    /// Makes the leaf join a route. `None` if packets cannot be carried along it.
    pub(in crate::engine) fn join_goal(&mut self, fabric: &mut Fabric, id: LeafId, goal: &Goal) -> Option<RouteId> {
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
        let meter = fabric.meter_number(key.ingress, key.goal.meter()).ok()?;
        let (subscription, resolved) = match &key.goal {
            Goal::Plan(plan) => {
                let dependent = self.new_dependent_id(fabric);
                (Some(dependent), fabric.ctx.subscribe(dependent, plan)?)
            }
            Goal::Fixed(route) => (None, Arc::clone(route)),
        };
        let open_table =
            |switch: &Switch| switch.route_table().filter(|_| switch.paths.route_table == RouteTable::Open);
        let route_table = fabric.switches.get(&key.ingress).and_then(open_table);
        let mut effects = Vec::new();
        let route_id =
            fabric.routes.create(leaf, key, &resolved, subscription, AtIngress { route_table, meter }, &mut effects);
        fabric.apply_label_effects(effects, Timer::Routes);
        Some(route_id)
    }

    /// Makes a leaf join its route before it is put into its tree. Returns the action for the tree: if the route is
    /// ready, the leaf's rule is part of the tree's change.
    pub(in crate::engine) fn prepare_leaf(&mut self, fabric: &mut Fabric, id: LeafId, leaf: &mut Leaf) -> LeafAction {
        let ingress = leaf.ingress();
        if !fabric.switches.check_capacity(&mut fabric.ctx, ingress) {
            leaf.state = LeafState::NoCapacity { from: fabric.ctx.now + fabric.ctx.options.eviction_period };
            return LeafAction::Controller;
        }
        let key = route_key(fabric, &leaf.answer, &leaf.witness);
        let Some(route_id) = key.and_then(|key| self.join_route(fabric, id, key)) else {
            fabric.ctx.stats.aborts += 1;
            leaf.state = LeafState::ByController;
            return LeafAction::Controller;
        };
        leaf.route_id = Some(route_id);
        let Some(route) = fabric.routes.get(route_id).expected() else { return LeafAction::Controller };
        leaf.answer = route.goal().clone();
        if !route.is_ready() {
            leaf.state = LeafState::Waiting { by_controller: route.is_refused(), since: fabric.ctx.now };
            fabric.routes.wait(route_id, id);
            return LeafAction::Controller;
        }
        fabric.routes.begin_use(route_id);
        fabric.sync_route_rules();
        let action = fabric.routes.get(route_id).map_or(LeafAction::Controller, SharedRoute::action);
        leaf.state = LeafState::Active;
        fabric.ctx.stats.leaves_installed += 1;
        if let Some(switch) = fabric.switches.get_mut(&ingress) {
            switch.tables.wait(Waiter::RuleAdded(id, fabric.ctx.now));
        }
        action
    }

    /// Undoes [`Decisions::prepare_leaf`] for a leaf that is not put into its tree after all.
    pub(in crate::engine) fn discard_prepared(fabric: &mut Fabric, id: LeafId, leaf: &mut Leaf) {
        let Some(route_id) = leaf.route_id.take() else { return };
        if leaf.state == LeafState::Active {
            // Its rule has not been sent.
            fabric.ctx.stats.leaves_installed -= 1;
            fabric.routes.detach(route_id, id);
            return fabric.finish_route_use(route_id, false, true);
        }
        fabric.leave_route(id, route_id);
    }

    /// Makes the leaf wait until its route is ready. Its packets wait too, or go through the controller.
    pub(in crate::engine) fn wait(&mut self, fabric: &mut Fabric, id: LeafId, route_id: RouteId, by_controller: bool) {
        fabric.routes.wait(route_id, id);
        let now = fabric.ctx.now;
        if let Some(leaf) = self.leaves.get_mut(&id) {
            let since = if let LeafState::Waiting { since, .. } = leaf.state { since } else { now };
            leaf.state = LeafState::Waiting { by_controller, since };
        }
    }

    /// Installs a leaf whose route is ready.
    fn activate(&mut self, fabric: &mut Fabric, id: LeafId, route_id: RouteId) {
        fabric.routes.begin_use(route_id);
        fabric.routes.stop_waiting(route_id, id);
        fabric.sync_route_rules();
        let now = fabric.ctx.now;
        let Some(leaf) = self.leaves.get_mut(&id).expected() else { return };
        let since = if let LeafState::Waiting { since, .. } = leaf.state { since } else { now };
        leaf.state = LeafState::Active;
        let ingress = leaf.ingress();
        fabric.ctx.stats.leaves_installed += 1;
        Decisions::request_rule(fabric, ingress, id, since);
        self.forward_held(fabric, id);
    }

    /// Asks for the leaf's rule, or for another one in its place. `since`: the time of the decision.
    pub(in crate::engine) fn request_rule(fabric: &mut Fabric, ingress: Dpid, id: LeafId, since: Time) {
        if let Some(switch) = fabric.switches.get_mut(&ingress) {
            switch.tables.wait(Waiter::RuleAdded(id, since));
        }
        fabric.switches.change_action(&mut fabric.ctx, ingress, id);
    }

    /// Lets the controller forward the leaf's packets, because the leaf cannot have a rule. Withdraws a leaf that is
    /// being rerouted.
    pub(in crate::engine) fn forward_by_controller(&mut self, fabric: &mut Fabric, id: LeafId) {
        if self.leaves.get(&id).is_some_and(|leaf| leaf.is_rerouting()) {
            // The route that it still has is no longer f's answer.
            return self.withdraw(fabric, id);
        }
        fabric.ctx.stats.aborts += 1;
        self.uninstall(fabric, id, LeafState::ByController);
    }

    /// Removes the leaf's rule and sets its new state, in which its packets go through the controller.
    pub(in crate::engine) fn uninstall(&mut self, fabric: &mut Fabric, id: LeafId, state: LeafState) {
        self.release(fabric, id);
        let Some(leaf) = self.leaves.get_mut(&id).expected() else { return };
        leaf.state = state;
        let ingress = leaf.ingress();
        fabric.switches.change_action(&mut fabric.ctx, ingress, id);
        self.send_held(fabric, id);
    }

    /// Makes the leaf leave its route once no rule sends packets that way.
    fn release(&mut self, fabric: &mut Fabric, id: LeafId) {
        let Some(leaf) = self.leaves.get_mut(&id).expected() else { return };
        match leaf.state {
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

    /// Withdraws a leaf that is no longer f's answer. Packets that wait for it are decided again.
    pub(in crate::engine) fn withdraw(&mut self, fabric: &mut Fabric, id: LeafId) {
        fabric.ctx.store.forget(id);
        if !self.leaves.contains_key(&id) {
            return;
        }
        self.release(fabric, id);
        let Some(leaf) = self.leaves.remove(&id).expected() else { return };
        self.keep_counting_leaf(fabric, id, &leaf);
        fabric.ctx.stats.leaves_withdrawn += 1;
        let ingress = leaf.ingress();
        if let Some(switch) = fabric.switches.get_mut(&ingress) {
            switch.ingress.table.remove(id);
            fabric.switches.mark_dirty(&mut fabric.ctx, ingress, Stale::default());
        }
        self.waiting.add_misses(leaf.held.into_iter().flat_map(|held| held.packets));
    }

    /// Handles a leaf's deadline: withdraws it if its reroute takes too long, or sends the packets that have waited
    /// long enough.
    pub(in crate::engine) fn leaf_timer(&mut self, fabric: &mut Fabric, id: LeafId) {
        // A timer outlives its leaf.
        let Some(leaf) = self.leaves.get(&id) else { return };
        match leaf.state {
            LeafState::Rerouting(ref reroute) if reroute.until <= fabric.ctx.now => self.withdraw(fabric, id),
            _ if leaf.held.as_ref().is_some_and(|held| held.until <= fabric.ctx.now) => {
                self.send_held(fabric, id);
            }
            _ => {}
        }
    }

    /// Adds a leaf that has been put into its tree to the leaves of this shard.
    pub(in crate::engine) fn register_leaf(&mut self, fabric: &mut Fabric, id: LeafId, leaf: Leaf) {
        let ingress = leaf.ingress();
        self.leaves.insert(id, leaf);
        fabric.switches.mark_dirty(&mut fabric.ctx, ingress, Stale::default());
    }

    /// Creates an id for a leaf.
    pub(in crate::engine) fn new_leaf_id(&mut self, fabric: &Fabric) -> LeafId {
        self.new_dependent_id(fabric).as_leaf()
    }

    /// Creates an id for a leaf, a parked packet or the plan of a route.
    pub(in crate::engine) fn new_dependent_id(&mut self, fabric: &Fabric) -> DependentId {
        self.leaves.new_id(fabric.ctx.shard, |id| {
            self.waiting.has(id)
                || fabric.routes.of_subscription(id).is_some()
                || fabric.switches.of_look_up(id).is_some()
        })
    }
}

/// The key of the route to a goal for packets like this one; `None` if packets cannot be carried along it.
fn route_key(fabric: &Fabric, goal: &Goal, packet: &ReceivedPacket) -> Option<RouteKey> {
    let ingress = packet.at.switch;
    let version = fabric.switches.get(&ingress)?.version();
    let carriage = match goal {
        Goal::Plan(_) => Carriage::plain(version, &packet.packet()),
        Goal::Fixed(route) => Carriage::for_route(route, ingress, version, &packet.packet())?,
    };
    Some(RouteKey { ingress, version, goal: goal.clone(), carriage })
}
