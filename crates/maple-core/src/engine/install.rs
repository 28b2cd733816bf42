//! The installation of a leaf at its ingress switch, and its removal.
//!
//! Installing: the leaf joins its route. When the route's labels are ready, the ingress switch gets the rule, and then
//! the packets that waited are sent. Removing: the rule is deleted first. When the switch has confirmed that, the leaf
//! leaves its route. So a packet that a rule has sent on always finds rules further on.

use std::sync::Arc;

use maple_wire::Dpid;

use super::leaf::{Leaf, LeafState};
use super::received_packet::ReceivedPacket;
use super::routes::{RouteId, RouteKey, SharedRoute};
use super::switch::{RouteTable, Stale};
use super::tables::Waiter;
use super::timers::Timer;
use super::{Engine, ShardId, Time};
use crate::compile::LeafAction;
use crate::ids::LeafId;
use crate::labels::Carriage;
use crate::route::Goal;

impl Engine {
    /// Installs a leaf that is in its tree, or lets it wait until its route is ready.
    pub(super) fn try_install(&mut self, id: LeafId) {
        let Some(leaf) = self.leaves.get(&id) else { return };
        if !self.check_capacity(leaf.ingress()) {
            return self.evict_leaf(id);
        }
        let Some(leaf) = self.leaves.get(&id) else { return };
        let (route_id, answer) = (leaf.route_id, leaf.answer.clone());
        let Some(route_id) = route_id.or_else(|| self.join_goal(id, &answer)) else {
            return self.forward_by_controller(id);
        };
        if let (Some(leaf), Some(route)) = (self.leaves.get_mut(&id), self.routes.get(route_id)) {
            (leaf.route_id, leaf.answer) = (Some(route_id), route.goal().clone());
        }
        match self.routes.get(route_id).map(|route| (route.is_ready(), route.is_refused())) {
            Some((true, _)) => self.activate(id, route_id),
            Some((false, refused)) => self.wait(id, route_id, refused),
            None => {}
        }
    }

    /// Makes the leaf join a route. `None` if packets cannot be carried along it.
    pub(super) fn join_goal(&mut self, id: LeafId, goal: &Goal) -> Option<RouteId> {
        let key = self.route_key(goal, &self.leaves.get(&id)?.witness)?;
        self.join_route(id, key)
    }

    /// The key of the route to a goal for packets like this one; `None` if packets cannot be carried along it.
    fn route_key(&self, goal: &Goal, packet: &ReceivedPacket) -> Option<RouteKey> {
        let ingress = packet.at.switch;
        let version = self.switches.get(&ingress)?.version();
        let carriage = match goal {
            Goal::Plan(_) => Carriage::plain(version, &packet.packet()),
            Goal::Fixed(route) => Carriage::of(route, ingress, version, &packet.packet())?,
        };
        Some(RouteKey { ingress, version, goal: goal.clone(), carriage })
    }

    fn join_route(&mut self, leaf: LeafId, key: RouteKey) -> Option<RouteId> {
        if let Some(route_id) = self.routes.of_key(&key) {
            // The news that its plan resolves to something else may be on the way.
            self.follow_plan(route_id);
        }
        if let Some(route_id) = self.routes.join(leaf, &key) {
            return Some(route_id);
        }
        let meter = self.meter_number(key.ingress, key.goal.meter()).ok()?;
        let (subscription, resolved) = match &key.goal {
            Goal::Plan(plan) => {
                let name = self.new_leaf_id();
                (Some(name), self.subscribe(name, plan)?)
            }
            Goal::Fixed(route) => (None, Arc::clone(route)),
        };
        let has_table = self.switches.get(&key.ingress).is_some_and(|switch| switch.route_table == RouteTable::Open);
        let mut effects = Vec::new();
        let route_id = self.routes.create(leaf, key, &resolved, subscription, (has_table, meter), &mut effects);
        self.apply_label_effects(effects, Timer::Routes);
        Some(route_id)
    }

    /// Makes a leaf join its route before it is put into its tree. Returns the action for the tree: if the route is
    /// ready, the leaf's rule is part of the tree's change.
    pub(super) fn prepare_leaf(&mut self, id: LeafId, leaf: &mut Leaf) -> LeafAction {
        let ingress = leaf.ingress();
        if !self.check_capacity(ingress) {
            leaf.state = LeafState::NoCapacity { from: self.ctx.now + self.ctx.options.eviction_period };
            return LeafAction::Controller;
        }
        let key = self.route_key(&leaf.answer, &leaf.witness);
        let Some(route_id) = key.and_then(|key| self.join_route(id, key)) else {
            self.ctx.stats.aborts += 1;
            leaf.state = LeafState::ByController;
            return LeafAction::Controller;
        };
        leaf.route_id = Some(route_id);
        let Some(route) = self.routes.get(route_id) else { return LeafAction::Controller };
        leaf.answer = route.goal().clone();
        if !route.is_ready() {
            leaf.state = LeafState::Waiting { by_controller: route.is_refused(), since: self.ctx.now };
            self.routes.wait(route_id, id);
            return LeafAction::Controller;
        }
        self.routes.begin_use(route_id);
        self.sync_route_rules();
        let action = self.routes.get(route_id).map_or(LeafAction::Controller, SharedRoute::action);
        leaf.state = LeafState::Active;
        self.ctx.stats.leaves_installed += 1;
        if let Some(switch) = self.switches.get_mut(&ingress) {
            switch.tables.wait(Waiter::RuleAdded(id, self.ctx.now));
        }
        action
    }

    /// Undoes [`Engine::prepare_leaf`] for a leaf that is not put into its tree after all.
    pub(super) fn discard_prepared(&mut self, id: LeafId, leaf: &mut Leaf) {
        let Some(route_id) = leaf.route_id.take() else { return };
        if leaf.state == LeafState::Active {
            // Its rule has not been sent.
            self.ctx.stats.leaves_installed -= 1;
            self.routes.detach(route_id, id);
            return self.finish_route_use(route_id, false, true);
        }
        self.leave_route(id, route_id);
    }

    /// Makes the leaf wait until its route is ready. Its packets wait too, or go through the controller.
    pub(super) fn wait(&mut self, id: LeafId, route_id: RouteId, by_controller: bool) {
        self.routes.wait(route_id, id);
        let now = self.ctx.now;
        if let Some(leaf) = self.leaves.get_mut(&id) {
            let since = if let LeafState::Waiting { since, .. } = leaf.state { since } else { now };
            leaf.state = LeafState::Waiting { by_controller, since };
        }
    }

    /// Installs a leaf whose route is ready.
    fn activate(&mut self, id: LeafId, route_id: RouteId) {
        self.routes.begin_use(route_id);
        self.routes.stop_waiting(route_id, id);
        self.sync_route_rules();
        let now = self.ctx.now;
        let Some(leaf) = self.leaves.get_mut(&id) else { return };
        let since = if let LeafState::Waiting { since, .. } = leaf.state { since } else { now };
        leaf.state = LeafState::Active;
        let ingress = leaf.ingress();
        self.ctx.stats.leaves_installed += 1;
        self.request_rule(ingress, id, since);
        self.forward_held(id);
    }

    /// Asks for the leaf's rule, or for another one in its place. `since`: the time of the decision.
    pub(super) fn request_rule(&mut self, ingress: Dpid, id: LeafId, since: Time) {
        if let Some(switch) = self.switches.get_mut(&ingress) {
            switch.tables.wait(Waiter::RuleAdded(id, since));
            switch.changed_actions.insert(id);
        }
        self.mark_dirty(ingress, Stale::default());
    }

    /// Lets the controller forward the leaf's packets, because the leaf cannot have a rule. Withdraws a leaf that is
    /// being rerouted.
    pub(super) fn forward_by_controller(&mut self, id: LeafId) {
        if self.leaves.get(&id).is_some_and(|leaf| leaf.is_rerouting()) {
            // The route that it still has is no longer f's answer.
            return self.withdraw(id);
        }
        self.ctx.stats.aborts += 1;
        self.uninstall(id, LeafState::ByController);
    }

    /// Removes the leaf's rule and sets its new state, in which its packets go through the controller.
    pub(super) fn uninstall(&mut self, id: LeafId, state: LeafState) {
        self.release(id);
        let Some(leaf) = self.leaves.get_mut(&id) else { return };
        leaf.state = state;
        let ingress = leaf.ingress();
        if let Some(switch) = self.switches.get_mut(&ingress) {
            switch.changed_actions.insert(id);
        }
        self.mark_dirty(ingress, Stale::default());
        self.send_held(id);
    }

    /// Makes the leaf leave its route once no rule sends packets that way.
    fn release(&mut self, id: LeafId) {
        let Some(leaf) = self.leaves.get_mut(&id) else { return };
        match leaf.state {
            LeafState::Active => self.stop_using_route(id, false),
            LeafState::Rerouting(ref reroute) => {
                let route_id = reroute.route_id;
                self.leave_route(id, route_id);
                self.stop_using_route(id, false);
            }
            LeafState::Waiting { .. } | LeafState::NoCapacity { .. } | LeafState::ByController => {
                if let Some(route_id) = leaf.route_id.take() {
                    self.leave_route(id, route_id);
                }
            }
        }
    }

    /// Withdraws a leaf that is no longer f's answer. Packets that wait for it are decided again.
    pub(super) fn withdraw(&mut self, id: LeafId) {
        self.ctx.store.forget(id);
        self.waiting.release(id);
        if !self.leaves.contains_key(&id) {
            return;
        }
        self.release(id);
        let Some(leaf) = self.leaves.remove(&id) else { return };
        self.keep_counting_leaf(id, &leaf);
        self.ctx.stats.leaves_withdrawn += 1;
        let ingress = leaf.ingress();
        if let Some(switch) = self.switches.get_mut(&ingress) {
            switch.table.remove(id);
            self.mark_dirty(ingress, Stale::default());
        }
        self.waiting.add_misses(leaf.held.into_iter().flat_map(|held| held.packets));
    }

    /// Handles a leaf's deadline: withdraws it if its reroute takes too long, or sends the packets that have waited
    /// long enough.
    pub(super) fn leaf_timer(&mut self, id: LeafId) {
        let Some(leaf) = self.leaves.get(&id) else { return };
        match leaf.state {
            LeafState::Rerouting(ref reroute) if reroute.until <= self.ctx.now => self.withdraw(id),
            _ if leaf.held.as_ref().is_some_and(|held| held.until <= self.ctx.now) => {
                self.send_held(id);
            }
            _ => {}
        }
    }

    /// Adds a leaf that has been put into its tree to the leaves of this shard.
    pub(super) fn register_leaf(&mut self, id: LeafId, leaf: Leaf) {
        let ingress = leaf.ingress();
        self.leaves.insert(id, leaf);
        self.mark_dirty(ingress, Stale::default());
    }

    /// Creates an id for a leaf, a parked packet or a subscription.
    pub(super) fn new_leaf_id(&mut self) -> LeafId {
        self.leaves.new_id(self.ctx.shard, |name| self.waiting.has(name) || self.routes.of_subscription(name).is_some())
    }

    /// Reports whether this shard owns the leaf.
    pub(super) fn owns(&self, leaf: LeafId) -> bool {
        ShardId::of(leaf) == self.ctx.shard
    }
}
