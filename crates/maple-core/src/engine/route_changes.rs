//! Routes that follow a plan: what it comes to has changed, and all leaves of the route turn with it.
//!
//! The route asks for the labels of its new path while packets go along the old one. Then one rule changes in the table of
//! routes, or that of each leaf where the switch has no such table; when the switch has confirmed that, the labels of the old
//! path go back. f is not asked: it said that packets go wherever the plan leads.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Engine;
use super::cookies::cookie;
use super::leaf::{Leaf, LeafState};
use super::routes::{PathSwitch, PlanChange, RouteId, SharedRoute};
use super::switch::Stale;
use super::tables::Waiter;
use super::timers::Timer;
use crate::ids::LeafId;
use crate::route::{Plan, Resolved};
use crate::state::{Cell, CellValue};

impl Engine {
    /// What a plan comes to now; `name` hears when that changes. `None` if it can't be taken.
    pub(super) fn subscribe(&self, name: LeafId, plan: &Plan) -> Option<Arc<Resolved>> {
        loop {
            let mut txn = self.store.begin();
            let value = txn.read(Cell::Route(plan.clone()));
            if self.store.commit(txn, Some(name)).is_err() {
                continue;
            }
            let CellValue::Route(Ok(resolved)) = value else {
                self.store.forget(name);
                return None;
            };
            return Some(resolved);
        }
    }

    /// What a route's plan comes to may have changed.
    pub(super) fn follow_plan(&mut self, id: RouteId) {
        let Some((name, plan)) = self.routes.get(id).and_then(|route| route.plan()) else { return };
        if self.store.is_current(name) {
            return;
        }
        let plan = plan.clone();
        let mut effects = Vec::new();
        let Some(resolved) = self.subscribe(name, &plan) else {
            return self.close_route(id);
        };
        let until = self.now + self.options.reroute_timeout;
        let changed = self.routes.change(id, &resolved, until, &mut effects);
        self.apply_label_effects(effects, Timer::Routes);
        if let Some(ingress) = self.routes.get(id).map(|route| route.ingress())
            && changed != PlanChange::Nothing
        {
            self.reroute_over(ingress, name);
            if changed == PlanChange::Asking {
                self.barrier_waits.begin_reroute_of(ingress, name);
                self.timers.insert((until, Timer::NextPath(id)));
            }
        }
        match changed {
            PlanChange::Ready(leaves) => leaves.into_iter().for_each(|leaf| self.route_is_ready(leaf)),
            PlanChange::NextReady => self.change_route(id),
            PlanChange::Asking | PlanChange::Nothing => {}
        }
    }

    /// No leaf may take the route any more, now or later.
    pub(super) fn close_route(&mut self, id: RouteId) {
        let mut effects = Vec::new();
        let leaves = self.leaves_of_routes(&BTreeSet::from([id]));
        self.routes.close(id, &mut effects);
        self.apply_label_effects(effects, Timer::Routes);
        leaves.into_iter().for_each(|leaf| self.withdraw(leaf));
    }

    /// A route's next path is ready.
    pub(super) fn change_route(&mut self, id: RouteId) {
        let Some((ingress, name)) = self.routes.get(id).map(|route| (route.ingress(), route.plan().map(|plan| plan.0)))
        else {
            return;
        };
        let Some(PathSwitch { waiting, former, each_leaf }) = self.routes.switch_over(id) else { return };
        self.stats.routes_rerouted += 1;
        self.leaves.forget_answers();
        name.into_iter().for_each(|name| self.reroute_over(ingress, name));
        let leaves = if each_leaf { self.leaves_of_routes(&BTreeSet::from([id])) } else { BTreeSet::new() };
        if let Some(switch) = self.switches.get_mut(&ingress) {
            switch.changed_actions.extend(leaves);
            former.into_iter().for_each(|serial| switch.tables.wait(Waiter::FormerPath { via: id, serial }));
        }
        self.mark(ingress, Stale::default());
        self.sync_route_rules();
        waiting.into_iter().for_each(|leaf| self.route_is_ready(leaf));
    }

    /// A route's next path should be ready by now.
    pub(super) fn abandon_next_path(&mut self, id: RouteId) {
        let mut effects = Vec::new();
        let is_late = self.routes.abandon_next(id, self.now, &mut effects);
        self.apply_label_effects(effects, Timer::Routes);
        if is_late {
            self.route_is_lost(id);
        }
    }

    /// No rule leads along a former path any more, which the switch has `confirmed` or not.
    pub(super) fn release_former_path(&mut self, via: RouteId, serial: u64, confirmed: bool) {
        let mut effects = Vec::new();
        self.routes.release_former(via, serial, confirmed, &mut effects);
        self.apply_label_effects(effects, Timer::Routes);
    }

    /// Brings the rules in tables of routes up to date.
    pub(super) fn sync_route_rules(&mut self) {
        for (ingress, id) in self.routes.take_dirty() {
            let Some(switch) = self.switches.get_mut(&ingress) else { continue };
            let epoch = self.options.epoch;
            let rule = self.routes.get(id).and_then(|route| route.rule(|name| cookie(epoch, Some(name))));
            switch.route_rules.set(id, rule);
            self.mark(ingress, Stale::default());
        }
        for name in self.routes.take_ended() {
            self.store.forget(name);
        }
    }

    /// The leaves that take these routes, or are about to.
    pub(super) fn leaves_of_routes(&self, routes: &BTreeSet<RouteId>) -> BTreeSet<LeafId> {
        routes.iter().filter_map(|id| self.routes.get(*id)).flat_map(SharedRoute::leaves).collect()
    }

    /// What a leaf's answer comes to now. `None` if it can't be taken any more.
    pub(super) fn resolved(&self, leaf: &Leaf) -> Option<Arc<Resolved>> {
        let via = if let LeafState::Rerouting(reroute) = &leaf.state { Some(reroute.via) } else { leaf.via };
        match via.and_then(|via| self.routes.get(via)) {
            Some(route) => Some(Arc::clone(route.resolved())),
            None => leaf.goal().now(&self.store.snapshot()).ok(),
        }
    }
}
