//! Routes that follow a plan: when the plan resolves to something else, the route changes its path for all its leaves.
//!
//! The route asks for the labels of its new path while packets still follow the old one. Then one rule changes: the
//! route's rule in the table of routes, or each leaf's rule if the switch has no such table. When the switch has
//! confirmed that, the labels of the old path are released. f does not run, because its answer was the plan itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Decisions;
use super::await_barriers::PathChange;
use super::leaf::{Leaf, LeafState};
use crate::engine::context::expected::Expected;
use crate::engine::context::timers::Timer;
use crate::engine::fabric::Fabric;
use crate::engine::fabric::routes::{PathSwitch, PlanChange, SharedRoute};
use crate::engine::one_switch::Stale;
use crate::engine::one_switch::tables::Waiter;
use crate::ids::{LeafId, RouteId};
use crate::route::Resolved;

impl Decisions {
    /// Lets a route follow its plan, which may have come to resolve to something else.
    pub(in crate::engine) fn follow_plan(&mut self, fabric: &mut Fabric, id: RouteId) {
        let Some((dependent, plan)) = fabric.routes.get(id).and_then(|route| route.plan()) else { return };
        if fabric.ctx.store.is_current(dependent) {
            return;
        }
        let plan = plan.clone();
        let mut effects = Vec::new();
        let Some(resolved) = fabric.ctx.subscribe(dependent, &plan) else {
            return self.close_route(fabric, id);
        };
        let leaf = fabric.routes.get(id).and_then(|route| route.leaves().next());
        let origin = leaf.map(|leaf| self.origin_of(leaf)).unwrap_or_default();
        fabric.ctx.report_left_out(fabric.ctx.store.snapshot().left_out(&plan), origin.line.as_ref());
        let until = fabric.ctx.now + fabric.ctx.options.reroute_timeout;
        let changed = fabric.routes.on_plan_resolved(id, &resolved, until, &mut effects);
        fabric.apply_label_effects(effects, Timer::Routes);
        if let Some(ingress) = fabric.routes.get(id).map(|route| route.ingress())
            && changed == PlanChange::Asking
        {
            self.begin_path_change(fabric, PathChange { ingress, dependent, until });
            fabric.ctx.wake_at(until, Timer::NextPath(id));
        }
        if changed != PlanChange::Nothing {
            self.leaves.forget_answers();
        }
        match changed {
            PlanChange::Ready(leaves) => leaves.into_iter().for_each(|leaf| self.route_is_ready(fabric, leaf)),
            PlanChange::NextReady => self.switch_to_next_path(fabric, id),
            PlanChange::Asking | PlanChange::Nothing => {}
        }
    }

    /// Withdraws the leaves that are changing to another route, and those that f has not decided again yet: they still
    /// have the rule of this one, and its next path may never have been f's answer for them.
    fn withdraw_leaving(&mut self, fabric: &mut Fabric, route_id: RouteId) {
        let is_leaving = |id: &LeafId| {
            let Some(leaf) = self.leaves.get(id).filter(|leaf| leaf.route_id == Some(route_id)) else { return false };
            let changes = matches!(&leaf.state, LeafState::Rerouting(reroute) if reroute.route_id != route_id);
            changes || !fabric.ctx.store.is_current(*id)
        };
        let leaving: Vec<LeafId> =
            fabric.leaves_of_routes(&BTreeSet::from([route_id])).into_iter().filter(is_leaving).collect();
        leaving.into_iter().for_each(|leaf| self.withdraw(fabric, leaf));
    }

    /// Closes a route: its leaves are withdrawn, and no leaf may join it.
    pub(in crate::engine) fn close_route(&mut self, fabric: &mut Fabric, id: RouteId) {
        let mut effects = Vec::new();
        let leaves = fabric.leaves_of_routes(&BTreeSet::from([id]));
        fabric.routes.close(id, &mut effects);
        fabric.apply_label_effects(effects, Timer::Routes);
        leaves.into_iter().for_each(|leaf| self.withdraw(fabric, leaf));
    }

    /// Switches a route over to its next path, which is ready.
    pub(in crate::engine) fn switch_to_next_path(&mut self, fabric: &mut Fabric, id: RouteId) {
        let Some(ingress) = fabric.routes.get(id).map(SharedRoute::ingress).expected() else { return };
        self.withdraw_leaving(fabric, id);
        let Some(PathSwitch { waiting, former, each_leaf }) = fabric.routes.switch_over(id) else { return };
        fabric.ctx.stats.routes_rerouted += 1;
        self.leaves.forget_answers();
        let leaves = if each_leaf { fabric.leaves_of_routes(&BTreeSet::from([id])) } else { BTreeSet::new() };
        if let Some(switch) = fabric.switches.get_mut(&ingress) {
            switch.ingress.changed_actions.extend(leaves);
            former.into_iter().for_each(|serial| switch.tables.wait(Waiter::FormerPath { route_id: id, serial }));
        }
        fabric.switches.mark_dirty(&mut fabric.ctx, ingress, Stale::default());
        fabric.sync_route_rules();
        waiting.into_iter().for_each(|leaf| self.route_is_ready(fabric, leaf));
        fabric.leaves_of_routes(&BTreeSet::from([id])).into_iter().for_each(|leaf| self.forward_held(fabric, leaf));
    }

    /// Gives up a route's next path if it is late. The route's packets go through the controller then.
    pub(in crate::engine) fn abandon_next_path(&mut self, fabric: &mut Fabric, id: RouteId) {
        let mut effects = Vec::new();
        let is_late = fabric.routes.abandon_next(id, fabric.ctx.now, &mut effects);
        fabric.apply_label_effects(effects, Timer::Routes);
        if is_late {
            self.route_is_lost(fabric, id);
        }
    }

    /// The present resolution of a leaf's goal. `None` if there is no such route.
    pub(in crate::engine) fn resolved(fabric: &Fabric, leaf: &Leaf) -> Option<Arc<Resolved>> {
        let route_id =
            if let LeafState::Rerouting(reroute) = &leaf.state { Some(reroute.route_id) } else { leaf.route_id };
        match route_id.and_then(|route_id| fabric.routes.get(route_id)) {
            Some(route) => Some(Arc::clone(route.resolved())),
            None => leaf.goal().now(&fabric.ctx.store.snapshot()).ok(),
        }
    }
}
