//! How leaves use routes: a route that becomes ready, is refused or lost, and a leaf that stops using one.

use std::collections::BTreeSet;

use super::Decisions;
use super::leaf::LeafState;
use crate::engine::context::expected::Expected;
use crate::engine::fabric::Fabric;
use crate::engine::one_switch::tables::Waiter;
use crate::ids::{DependentId, LeafId, RouteId};
use crate::labels::Refusal;
use crate::report::{Report, ReportKind, ReportSubject};

impl Decisions {
    pub(in crate::engine) fn route_is_ready(&mut self, fabric: &mut Fabric, id: LeafId) {
        match self.leaves.get(&id).map(|leaf| &leaf.state) {
            Some(LeafState::Waiting { .. }) => self.try_install(fabric, id),
            Some(LeafState::Rerouting(_)) => self.end_reroute(fabric, id),
            _ => {}
        }
    }

    /// Sends a route's packets through the controller, because a label was refused or lost.
    pub(in crate::engine) fn route_is_refused(&mut self, fabric: &mut Fabric, id: RouteId, why: Refusal) {
        let Some(ingress) = fabric.routes.get(id).map(|route| route.ingress()).expected() else { return };
        // If a switch or link is gone, the leaves that depend on it are decided again anyway.
        if matches!(why, Refusal::Gone(_)) {
            fabric.ctx.stats.labels_gone += 1;
        } else {
            fabric.ctx.stats.labels_refused += 1;
            fabric.ctx.stats.labels_used_up += u64::from(matches!(why, Refusal::NoLabel(_)));
            let report = Report::NotLabelled { ingress, why: why.to_string().into() };
            fabric.ctx.report_once(ReportKind::NotLabelled, ReportSubject::Switch(ingress), &why.to_string(), report);
        }
        // What depended on the switch or link is being reconsidered, and may be rerouted while packets flow.
        let is_reconsidered = |fabric: &Fabric, dependent: DependentId| {
            matches!(why, Refusal::Gone(_)) && !fabric.ctx.store.is_current(dependent)
        };
        let plan = fabric.routes.get(id).and_then(|route| route.plan());
        if plan.is_some_and(|(dependent, _)| is_reconsidered(fabric, dependent)) {
            return;
        }
        for leaf in fabric.leaves_of_routes(&BTreeSet::from([id])) {
            if !is_reconsidered(fabric, leaf.into()) {
                self.stop_using_lost_route(fabric, leaf, id);
            }
        }
    }

    /// Sends the route's packets through the controller for a while.
    pub(in crate::engine) fn route_is_lost(&mut self, fabric: &mut Fabric, id: RouteId) {
        for leaf in fabric.leaves_of_routes(&BTreeSet::from([id])) {
            self.stop_using_lost_route(fabric, leaf, id);
        }
    }

    pub(in crate::engine) fn stop_using_lost_route(&mut self, fabric: &mut Fabric, id: LeafId, route: RouteId) {
        let Some(leaf) = self.leaves.get(&id).expected() else { return };
        match &leaf.state {
            // A leaf that is leaving this route continues to leave it.
            LeafState::Rerouting(reroute) if reroute.route_id == route => self.withdraw(fabric, id),
            LeafState::Active if leaf.route_id == Some(route) => {
                self.stop_using_route(fabric, id, true);
                self.wait(fabric, id, route, true);
                self.send_held(fabric, id);
            }
            LeafState::Waiting { .. } if leaf.route_id == Some(route) => self.send_held(fabric, id),
            _ => {}
        }
    }

    /// Makes the ingress switch remove a leaf's rule, or replace it by one that leads elsewhere. When the switch has
    /// confirmed that, the leaf's use of its route ends. `stays`: the leaf remains a member of the route.
    pub(in crate::engine) fn stop_using_route(&mut self, fabric: &mut Fabric, id: LeafId, stays: bool) {
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
                fabric.switches.change_action(&mut fabric.ctx, ingress, id);
            }
            None => fabric.finish_route_use(route_id, stays, false),
        }
    }
}
