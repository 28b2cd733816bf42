//! News about routes, and so for their leaves: a route becomes ready, is refused or lost, or changes its path.
//!
//! When the plan of a route resolves to something else, the route changes its path for all its leaves. It asks for the
//! labels of its new path while packets still follow the old one. Then one rule changes: the route's rule in the table
//! of routes, or each leaf's rule if the switch has no such table. When the switch has confirmed that, the labels of
//! the old path are released. f does not run, because its answer was the plan itself.
//!
//! Next on a packet's way: [`crate::engine::decisions::flush`].

use std::collections::BTreeSet;

use maple_wire::Dpid;

use super::Decisions;
use super::await_barriers::PathChange;
use super::leaf::{LeafState, Reroute};
use crate::engine::context::timers::Timer;
use crate::engine::fabric::Fabric;
use crate::engine::fabric::routes::{PathSwitch, PlanChange, RouteNews, SharedRoute};
use crate::engine::messages::mail::EngineMessage;
use crate::engine::one_switch::tables::Waiter;
use crate::engine::tools::expected::Expected;
use crate::ids::{DependentId, LeafId, RouteId};
use crate::labels::{Holder, News, Refusal};
use crate::report::{Report, ReportSubject};

impl Decisions {
    /// Handles news of a label that a route or label of this shard asked for.
    pub fn on_label_news(&mut self, fabric: &mut Fabric, from: Dpid, holder: Holder, news: &News) {
        let is_known = match holder {
            Holder::Label { switch, serial, .. } => {
                fabric.switches.get(&switch).is_some_and(|switch| switch.paths.labels.knows(serial))
            }
            Holder::Route { serial, .. } => fabric.routes.knows(serial),
        };
        if !is_known {
            // The holder is gone, and its release may have been lost.
            return fabric.ctx.send_to_shard_of(from, EngineMessage::Release { at: from, holder, confirmed: true });
        }
        match holder {
            Holder::Label { switch, serial, port } => {
                fabric.with_labels(switch, |labels, _, _, out| labels.learn(serial, port, news, out));
            }
            Holder::Route { serial, port, .. } => {
                let mut effects = Vec::new();
                let came = fabric.routes.learn(serial, port, news, fabric.ctx.now(), &mut effects);
                match came {
                    Some(RouteNews::Ready(route, leaves)) => {
                        self.update_way(fabric, route);
                        leaves.into_iter().for_each(|leaf| self.on_route_ready(fabric, leaf));
                    }
                    Some(RouteNews::NextReady(route)) => self.switch_to_next_path(fabric, route),
                    Some(RouteNews::Refused(route, why)) => self.on_route_refused(fabric, route, why),
                    None => {}
                }
                fabric.apply_label_effects(effects, Timer::Routes);
            }
        }
    }

    /// Lets a route follow its plan, which may have come to resolve to something else.
    pub fn follow_plan(&mut self, fabric: &mut Fabric, id: RouteId) {
        let Some((dependent, plan)) = fabric.routes.get(id).and_then(|route| route.plan()) else { return };
        if fabric.ctx.store.is_current(dependent) {
            return;
        }
        let plan = plan.clone();
        let Some(resolved) = fabric.ctx.subscribe_to_plan(dependent, &plan) else {
            return self.close_route(fabric, id);
        };
        let leaf = fabric.routes.get(id).and_then(|route| route.leaves().next());
        let origin = leaf.map(|leaf| self.origin_of(leaf)).unwrap_or_default();
        fabric.ctx.report_left_out(fabric.ctx.store.snapshot().left_out(&plan), origin.line.as_ref());
        let until = fabric.ctx.now() + fabric.ctx.options.reroute_timeout;
        let changed = fabric.with_routes(|routes, _, out| routes.on_plan_resolved(id, &resolved, until, out));
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
            PlanChange::Ready(leaves) => {
                self.update_way(fabric, id);
                leaves.into_iter().for_each(|leaf| self.on_route_ready(fabric, leaf));
            }
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
        let leaving: Vec<LeafId> = fabric.leaves_of_route(route_id).into_iter().filter(is_leaving).collect();
        self.withdraw_all(fabric, leaving);
    }

    /// Closes a route: its leaves are withdrawn, and no leaf may join it.
    pub fn close_route(&mut self, fabric: &mut Fabric, id: RouteId) {
        let leaves = fabric.leaves_of_route(id);
        fabric.with_routes(|routes, _, out| routes.close(id, out));
        self.withdraw_all(fabric, leaves);
        self.replace_way(fabric, id);
    }

    /// Switches a route over to its next path, which is ready.
    fn switch_to_next_path(&mut self, fabric: &mut Fabric, id: RouteId) {
        let Some(ingress) = fabric.routes.get(id).map(SharedRoute::ingress).expected() else { return };
        self.withdraw_leaving(fabric, id);
        let Some(PathSwitch { waiting_leaves, former, each_leaf }) = fabric.routes.switch_over(id) else { return };
        fabric.ctx.stats.routes_rerouted += 1;
        self.leaves.forget_answers();
        let leaves = if each_leaf { fabric.leaves_of_route(id) } else { BTreeSet::new() };
        if let Some(switch) = fabric.switches.get_mut(&ingress) {
            switch.ingress.changed_actions.extend(leaves);
            former.into_iter().for_each(|serial| switch.tables.wait(Waiter::FormerPath { route_id: id, serial }));
        }
        self.update_way(fabric, id);
        fabric.mark_dirty(ingress);
        fabric.sync_route_rules();
        waiting_leaves.into_iter().for_each(|leaf| self.on_route_ready(fabric, leaf));
        fabric.leaves_of_route(id).into_iter().for_each(|leaf| self.forward_held(fabric, leaf));
    }

    /// Gives up a route's next path if it is late. The route's packets go through the controller then.
    pub fn abandon_next_path(&mut self, fabric: &mut Fabric, id: RouteId) {
        if fabric.with_routes(|routes, now, out| routes.abandon_next(id, now, out)) {
            self.on_route_lost(fabric, id);
        }
    }

    /// Installs a leaf whose route has become ready, or ends its change to that route. Withdraws a leaf that f has not
    /// decided again yet: the route's path may never have been f's answer for it.
    fn on_route_ready(&mut self, fabric: &mut Fabric, id: LeafId) {
        let Some(leaf) = self.leaves.get(&id) else { return };
        if !fabric.ctx.store.is_current(id) {
            return self.withdraw(fabric, id);
        }
        let waits_for = leaf.route_id.filter(|_| matches!(leaf.state, LeafState::Waiting { .. }));
        if leaf.is_rerouting() {
            self.end_reroute(fabric, id);
        } else if let Some(route_id) = waits_for.filter(|_| self.check_leaf_capacity(fabric, id)) {
            self.install(fabric, id, route_id);
        }
    }

    /// Modifies the leaf's rule, because the new route is ready.
    pub fn end_reroute(&mut self, fabric: &mut Fabric, id: LeafId) {
        let Some(leaf) = self.leaves.get_mut(&id).expected() else { return };
        let LeafState::Rerouting(reroute) = std::mem::replace(&mut leaf.state, LeafState::Active) else { return };
        let Reroute { to, route_id, since, .. } = *reroute;
        leaf.goal = to;
        let ingress = leaf.ingress();
        let old = leaf.route_id.replace(route_id);
        fabric.begin_route_use(route_id, id);
        fabric.routes.stop_waiting(route_id, id);
        fabric.ctx.stats.leaves_rerouted += 1;
        old.into_iter().filter(|old| *old != route_id).for_each(|old| fabric.routes.detach(old, id));
        if let Some(route_id) = old {
            fabric.switches.wait(ingress, Waiter::RuleRemoved { route_id, stays: false });
        }
        Decisions::request_rule(fabric, ingress, id, since);
        self.forward_held(fabric, id);
    }

    /// Sends a route's packets through the controller, because a label was refused or lost.
    fn on_route_refused(&mut self, fabric: &mut Fabric, id: RouteId, why: Refusal) {
        let Some(ingress) = fabric.routes.get(id).map(|route| route.ingress()).expected() else { return };
        // If a switch or link is gone, the leaves that depend on it are decided again anyway.
        if matches!(why, Refusal::Gone(_)) {
            fabric.ctx.stats.labels_gone += 1;
        } else {
            fabric.ctx.stats.labels_refused += 1;
            fabric.ctx.stats.labels_used_up += u64::from(matches!(why, Refusal::NoLabel(_)));
            let report = Report::NotLabelled { ingress, why: why.to_string().into() };
            fabric.ctx.report_once(ReportSubject::Switch(ingress), &why.to_string(), report);
        }
        // What depended on the switch or link is being reconsidered, and may be rerouted while packets flow.
        let is_reconsidered = |fabric: &Fabric, dependent: DependentId| {
            matches!(why, Refusal::Gone(_)) && !fabric.ctx.store.is_current(dependent)
        };
        let plan = fabric.routes.get(id).and_then(|route| route.plan());
        if plan.is_some_and(|(dependent, _)| is_reconsidered(fabric, dependent)) {
            return;
        }
        self.lose_way(fabric, id);
        for leaf in fabric.leaves_of_route(id) {
            if !is_reconsidered(fabric, leaf.into()) {
                self.stop_using_lost_route(fabric, leaf, id);
            }
        }
    }

    /// Sends the route's packets through the controller for a while.
    fn on_route_lost(&mut self, fabric: &mut Fabric, id: RouteId) {
        self.lose_way(fabric, id);
        for leaf in fabric.leaves_of_route(id) {
            self.stop_using_lost_route(fabric, leaf, id);
        }
    }

    /// Makes a leaf stop using a route that can carry no packets now. The leaf waits for the route.
    pub fn stop_using_lost_route(&mut self, fabric: &mut Fabric, id: LeafId, route: RouteId) {
        let Some(leaf) = self.leaves.get(&id).expected() else { return };
        match &leaf.state {
            // A leaf that is leaving this route continues to leave it.
            LeafState::Rerouting(reroute) if reroute.route_id == route => self.withdraw(fabric, id),
            LeafState::Active if leaf.route_id == Some(route) => {
                self.stop_using_route(fabric, id, true);
                self.wait_for_route(fabric, id, route, true);
                self.send_held(fabric, id);
            }
            LeafState::Waiting { .. } if leaf.route_id == Some(route) => self.send_held(fabric, id),
            _ => {}
        }
    }
}
