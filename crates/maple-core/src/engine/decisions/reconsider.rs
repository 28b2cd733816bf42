//! Leaves that depend on changed state: f runs again on the witness packet, as if that packet came now.
//!
//! The paper (§3) has an API for updating cached decisions; here this happens automatically:
//!
//! * If f asks the same questions and gives the same answer, the leaf stays: f may read more state than its answer
//!   uses.
//! * If f gives another route, the leaf gets that route without a miss (`reroute.rs`).
//! * Otherwise, and if f fails or writes, the leaf is withdrawn. Its next packet is decided when it comes.
//! * With one table, the leaf of a host that is not known is withdrawn: its rule would keep the host's packets from the
//!   controller.
//!
//! Then the routes concerned follow their plans (`route_news.rs`).
//!
//! This equals a fresh run: the leaf's packets agree with its witness packet in everything that the run observed. The
//! reads of the run are validated and subscribed to like those of any run.

use std::collections::BTreeSet;

use maple_wire::Field;

use super::Decisions;
use super::runs::RunOutcome;
use crate::engine::fabric::Fabric;
use crate::engine::fabric::routes::SharedRoute;
use crate::engine::messages::cause::Origin;
use crate::engine::messages::received_packet::ReceivedPacket;
use crate::ids::{DependentId, LeafId};
use crate::network::{Mac, PortKind};
use crate::run::RunResult;

impl Decisions {
    /// Reconsiders all stale leaves.
    pub fn reconsider_all(&mut self, fabric: &mut Fabric) {
        let stale = fabric.ctx.take_stale();
        if !stale.is_empty() {
            self.reconsider(fabric, &stale);
        }
    }

    /// Decides these dependents again, except those that are current: leaves, parked packets, and routes that follow a
    /// plan. Some may have gone.
    pub fn reconsider(&mut self, fabric: &mut Fabric, stale: &BTreeSet<DependentId>) {
        self.follow_stale_tables(fabric, stale);
        let (mut runs, mut routes) = (Vec::new(), Vec::new());
        // Packets that have come are decided first, if there is not enough time for all.
        let is_made_up =
            |of: &&DependentId| self.leaves.get(&of.possible_leaf()).is_some_and(|leaf| leaf.witness.is_made_up);
        let (made_up, sent): (Vec<&DependentId>, Vec<&DependentId>) = stale.iter().partition(is_made_up);
        for dependent in sent.into_iter().chain(made_up) {
            if fabric.ctx.store.is_current(*dependent) || fabric.switches.of_look_up(*dependent).is_some() {
                continue;
            }
            if let Some(route) = fabric.routes.of_subscription(*dependent) {
                routes.push(route);
                continue;
            }
            let id = dependent.possible_leaf();
            let Some(leaf) = self.leaves.get(&id) else {
                fabric.ctx.store.forget(*dependent);
                self.undecided.release(*dependent);
                continue;
            };
            fabric.ctx.stats.leaves_invalidated += 1;
            let has_time = runs.len() < fabric.ctx.options.max_reconsidered;
            let is_seen = sees_first_packets(fabric, &leaf.witness);
            match Decisions::rerun(fabric, leaf).filter(|_| has_time && is_seen) {
                Some(run) => runs.push((run, id)),
                None => self.withdraw(fabric, id),
            }
        }
        for (id, outcome) in self.run_policy(fabric, runs) {
            self.apply_rerun(fabric, id, outcome);
        }
        // By this point it is known which leaves leave a route, before the route takes another path.
        routes.into_iter().for_each(|route| self.follow_plan(fabric, route));
        for id in stale.iter().map(|dependent| dependent.possible_leaf()) {
            // A label may have been lost while the leaf was stale.
            if let Some(route) = self.leaves.get(&id).and_then(|leaf| leaf.route_id)
                && fabric.routes.get(route).is_some_and(SharedRoute::has_lost_label)
            {
                self.stop_using_lost_route(fabric, id, route);
            }
        }
    }

    fn apply_rerun(&mut self, fabric: &mut Fabric, id: LeafId, outcome: RunOutcome) {
        let RunOutcome::Answer((route, _), finished) = outcome else { return self.withdraw(fabric, id) };
        let origin = self.leaves.intern_origin(Origin::from_result(&finished));
        let RunResult { trace, txn, violations, left_out, made_at, .. } = *finished;
        // A leaf before this one may have joined a route, which followed its plan and withdrew the leaves that f had
        // not decided again.
        let Some(leaf) = self.leaves.get(&id) else { return };
        let at = leaf.witness.at;
        let same = trace.asks_like(&leaf.trace) && trace.lasts() && !txn.wrote();
        let stays = *leaf.newest_goal() == route;
        if !same
            || !stays && !self.can_reroute(fabric, id, &route)
            || fabric.ctx.store.commit(txn, Some(id.into())).is_err()
        {
            return self.withdraw(fabric, id);
        }
        fabric.ctx.report_left_out(left_out, made_at.as_ref());
        fabric.ctx.report_violations(violations, at);
        let trace = self.leaves.intern(trace);
        if let Some(leaf) = self.leaves.get_mut(&id) {
            (leaf.trace, leaf.origin) = (trace, origin);
        }
        if !stays {
            return self.begin_reroute(fabric, id, route);
        }
        fabric.ctx.stats.leaves_confirmed += 1;
    }
}

/// Reports whether a host's first packet comes to the controller although this packet's leaf stays. With one table,
/// the leaf's rule would take the packets of an unknown host.
fn sees_first_packets(fabric: &Fabric, witness: &ReceivedPacket) -> bool {
    let has_one_table = fabric.switches.get(&witness.at.switch).is_some_and(|switch| !switch.has_pipeline());
    let source = Mac::from_bits(witness.packet().switch_value(Field::EthSrc).unwrap_or_default());
    let state = fabric.ctx.store.snapshot();
    let is_edge = state.port(witness.at).is_some_and(|port| port.kind == PortKind::Edge);
    let is_unknown = || is_edge && source.is_host() && state.host(source).is_none();
    !(has_one_table && fabric.ctx.options.track_hosts && is_unknown())
}
