//! Misses: f runs, its transaction commits, and its answer becomes a leaf.
//!
//! The misses of a batch go to the policy together. A run whose reads are out of date at its commit is repeated. A run
//! that wrote state answers only its own packet. f then runs again, speculatively, as for the next packet of the same
//! kind. If that run writes nothing, its trace is cached.
//!
//! Next on a packet's way: [`crate::engine::switches`], which looks for a leaf, and if there is none
//! [`crate::engine::decisions::join_route`].

use std::collections::BTreeSet;
use std::sync::Arc;

use maple_wire::{Action, Dpid, Field};

use super::Decisions;
use super::leaf::LeafState;
use super::runs::RunOutcome;
use crate::engine::context::timers::Timer;
use crate::engine::context::uses::EngineStore;
use crate::engine::fabric::Fabric;
use crate::engine::fabric::routes::WayState;
use crate::engine::messages::cause::{DropCause, Origin};
use crate::engine::messages::received_packet::ReceivedPacket;
use crate::engine::tools::expected::Expected;
use crate::ids::{DependentId, LeafId};
use crate::network::{Location, Mac};
use crate::policy_error::PolicyError;
use crate::report::{Report, ReportSubject};
use crate::route::{Goal, Resolved};
use crate::run::{Run, RunResult};
use crate::state::{ExclusiveCommit, Txn};
use crate::trace::Trace;

/// The way in which the controller forwards a packet of a leaf for all places.
enum FoundPath {
    /// By the actions of the way to its place, which the switch takes too.
    ByWay(Vec<Action>),
    /// To the ports at which this route leaves the network.
    ByController(Arc<Resolved>),
}

impl FoundPath {
    /// Reports whether no path leads to the place.
    fn leads_nowhere(&self) -> bool {
        match self {
            FoundPath::ByWay(actions) => actions.is_empty(),
            FoundPath::ByController(route) => route.switches.is_empty(),
        }
    }
}

impl Decisions {
    /// Answers a packet that enters the network, or has f decide it at the end of the batch.
    pub fn on_packet(&mut self, fabric: &mut Fabric, received: ReceivedPacket) {
        match self.reconsidered_leaf(fabric, &received) {
            Some(leaf) => {
                fabric.ctx.stats.hits += 1;
                self.count_access_hit(leaf);
                self.send_by_leaf(fabric, leaf, received);
            }
            None => {
                fabric.ctx.stats.misses += 1;
                self.undecided.add_misses([received]);
            }
        }
    }

    /// Forwards a packet that belongs to a leaf, or holds it until the leaf's rule is there.
    fn send_by_leaf(&mut self, fabric: &mut Fabric, id: LeafId, packet: ReceivedPacket) {
        if let Some(LeafState::NoCapacity { from }) = self.leaves.get(&id).map(|leaf| &leaf.state)
            && *from <= fabric.ctx.now()
        {
            self.retry_install(fabric, id);
        }
        if self.leaves.get(&id).is_some_and(|leaf| leaf.has_open_route()) {
            return self.send_to_found(fabric, id, packet);
        }
        let may_wait = !self.need_not_wait(fabric, id);
        let has_sure_labels = !fabric.ctx.is_any_unconfirmed();
        // The rule still follows f's former decision.
        let is_changing = self.is_route_changing(fabric, id);
        let Some(leaf) = self.leaves.get_mut(&id).expected() else { return };
        match leaf.state {
            LeafState::Active if !has_sure_labels => self.send_without_rule(fabric, id, packet),
            LeafState::Active if !is_changing => self.forward(fabric, id, &packet),
            LeafState::Active | LeafState::Rerouting(_) | LeafState::Waiting { by_controller: false, .. }
                if leaf.count_held() < fabric.ctx.options.held_packets && may_wait =>
            {
                let until = fabric.ctx.now() + fabric.ctx.options.hold;
                if leaf.hold(packet, until) {
                    fabric.ctx.wake_at(until, Timer::Leaf(id));
                }
            }
            _ => self.send_without_rule(fabric, id, packet),
        }
    }

    /// Forwards a packet of a leaf for all places to the place that is found for it. Without its way, it goes through
    /// the controller. f decides it again if the decision is out of date, or if it can't be followed to that place.
    fn send_to_found(&mut self, fabric: &mut Fabric, id: LeafId, received: ReceivedPacket) {
        let dpid = received.at.switch;
        // The run that made the leaf may have been the first to look up.
        self.follow_tables(fabric, dpid);
        let Some(goal) = self.leaves.get(&id).and_then(|leaf| leaf.goal.as_open()).cloned() else {
            return self.undecided.add_misses([received]);
        };
        let Some(place) = place_of_destination(fabric, &received) else {
            // The host has gone, so the packet is of another leaf in the newest state.
            return self.undecided.add_misses([received]);
        };
        let actions = self.request_way(fabric, id, (dpid, place));
        let forwarding = match actions {
            Some(actions) => Some(FoundPath::ByWay(actions)),
            None => goal.ending_at(place).now(&fabric.ctx.store.snapshot()).map(FoundPath::ByController),
        };
        // Checked last: a leaf that is current now was so when its place was found and its goal was resolved.
        if !fabric.ctx.store.is_current(id) {
            self.withdraw(fabric, id);
            return self.undecided.add_misses([received]);
        }
        let Some(forwarding) = forwarding else { return self.decide_alone(fabric, received) };
        if forwarding.leads_nowhere() {
            let cause = DropCause::Policy(self.origin_of(id));
            fabric.switches.drop_packet(&mut fabric.ctx, &received, cause);
        }
        match forwarding {
            FoundPath::ByWay(actions) => {
                let effect = fabric.switches.packet_out(&mut fabric.ctx, &received, actions);
                fabric.ctx.add_all_after_rules(effect);
            }
            FoundPath::ByController(route) => {
                fabric.switches.send_to_egress_ports(&mut fabric.ctx, &route, &self.origin_of(id), &received);
            }
        }
    }

    /// Requests a route to this place. Returns its actions if the switch takes packets of this leaf along it, and all
    /// that was sent is confirmed.
    fn request_way(&mut self, fabric: &mut Fabric, id: LeafId, (dpid, place): (Dpid, Location)) -> Option<Vec<Action>> {
        if !fabric.switches.get_mut(&dpid)?.ingress.look_ups.want_way(place) {
            return None;
        }
        let way = self.way_to(fabric, dpid, place)?;
        let is_active = self.leaves.get(&id).is_some_and(|leaf| leaf.state == LeafState::Active);
        let is_taken = fabric.switches.get(&dpid)?.ingress.look_ups.is_way_ready(place);
        let route = fabric.routes.get(way).filter(|route| route.way() == Some(WayState::Used) && route.is_ready())?;
        (is_active && is_taken && !fabric.ctx.is_any_unconfirmed()).then(|| route.actions())
    }

    /// Asks f about one packet that its leaf can't answer, and makes no leaf of the answer.
    fn decide_alone(&mut self, fabric: &mut Fabric, received: ReceivedPacket) {
        let Some(run) = new_run(fabric, &received) else { return };
        let outcome = self.run_once(fabric, &run);
        self.commit_run(fabric, outcome, received, false);
    }

    /// Reports whether a packet of a leaf that waits for labels is better sent without them, because labels have to
    /// wait for the rules of an earlier run. A packet that must keep its way can't leave without them.
    fn need_not_wait(&self, fabric: &Fabric, id: LeafId) -> bool {
        let leaf = self.leaves.get(&id).filter(|leaf| matches!(leaf.state, LeafState::Waiting { .. }));
        let route = leaf.filter(|_| fabric.ctx.is_any_restoring()).and_then(|leaf| Decisions::resolved(fabric, leaf));
        route.is_some_and(|route| !route.must_follow_hops)
    }

    /// Decides every packet that no leaf answers.
    pub fn decide_misses(&mut self, fabric: &mut Fabric) {
        while !self.undecided.has_no_misses() {
            let mut distinct = BTreeSet::new();
            let (mut packets, mut later) = (Vec::new(), Vec::new());
            for received in self.undecided.take_round() {
                if let Some(leaf) = self.reconsidered_leaf(fabric, &received) {
                    self.count_access_hit(leaf);
                    self.send_by_leaf(fabric, leaf, received);
                } else if distinct.insert((received.at, received.frame.clone())) {
                    packets.push(received);
                } else {
                    // An equal packet of this round will most likely make the leaf for it.
                    later.push(received);
                }
            }
            self.decide(fabric, packets);
            self.undecided.add_misses(later);
        }
    }

    /// Returns the leaf that answers a packet at its ingress and is still what f would answer.
    ///
    /// Another shard may have changed what a leaf depends on while its message is still on the way here. Such a leaf
    /// ignores what this very packet has just taught us, for example where its host is. So the leaf is reconsidered
    /// immediately, and so is the plan of its route.
    fn reconsidered_leaf(&mut self, fabric: &mut Fabric, received: &ReceivedPacket) -> Option<LeafId> {
        self.follow_tables(fabric, received.at.switch);
        let leaf = fabric.switches.find_leaf(received)?;
        let dependents = [Some(leaf.into()), self.plan_of(fabric, leaf)].into_iter().flatten();
        let stale: BTreeSet<DependentId> =
            dependents.filter(|dependent| !fabric.ctx.store.is_current(*dependent)).collect();
        if stale.is_empty() {
            return Some(leaf);
        }
        self.reconsider(fabric, &stale);
        fabric.switches.find_leaf(received)
    }

    fn decide(&mut self, fabric: &mut Fabric, packets: Vec<ReceivedPacket>) {
        let new = |received| Some((new_run(fabric, &received)?, received));
        let runs = packets.into_iter().filter_map(new).collect();
        let classes_changed = fabric.switches.classes_changed();
        for (received, outcome) in self.run_policy(fabric, runs) {
            if fabric.switches.classes_changed() == classes_changed {
                self.commit_run(fabric, outcome, received, true);
            } else {
                // An earlier commit of this round may have lowered a look-up, so this trace may name a class that no
                // longer exists.
                self.undecided.add_misses([received]);
            }
        }
    }

    /// Commits a run and does what it says. While the state changes under the run, it is repeated. A run that was
    /// repeated too often runs alone, without other commits. `may_last`: its answer may become a leaf.
    fn commit_run(&mut self, fabric: &mut Fabric, outcome: RunOutcome, received: ReceivedPacket, may_last: bool) {
        let mut lost = 0;
        let mut ended = Some(outcome);
        let store = Arc::clone(fabric.ctx.store.shared());
        let is_replayed = fabric.ctx.store.is_replayed();
        loop {
            let has_lost = lost >= fabric.ctx.options.max_reruns;
            let exclusive = has_lost.then(|| EngineStore::turn(&store, is_replayed)).flatten();
            let outcome = match ended.take() {
                Some(ended) => ended,
                None => {
                    let Some(run) = new_run(fabric, &received) else { return };
                    self.run_once(fabric, &run)
                }
            };
            let done = match outcome {
                RunOutcome::Answer(answer, mut finished) => {
                    finished.trace.needs_controller |= !may_last;
                    self.commit(fabric, answer, *finished, &received, exclusive)
                }
                RunOutcome::Waits(finished) => self.park(fabric, *finished, &received, exclusive),
                RunOutcome::Failed(error, listeners) => {
                    fabric.ctx.notify_listeners(listeners, &received);
                    return on_policy_failed(fabric, &error, &received);
                }
            };
            if done {
                return;
            }
            fabric.ctx.stats.conflicts += 1;
            lost += 1;
        }
    }

    /// Commits a run and answers its packet. Returns `false` if the commit conflicted; then nothing has happened.
    fn commit(
        &mut self,
        fabric: &mut Fabric,
        (goal, route): (Goal, Arc<Resolved>),
        finished: RunResult,
        received: &ReceivedPacket,
        exclusive: Option<ExclusiveCommit<'_>>,
    ) -> bool {
        let origin = Origin::from_result(&finished);
        let RunResult { trace, txn, wrote_at, made_at, goes_back, left_out, listeners, violations, logged, .. } =
            finished;
        let ingress = received.at.switch;
        let is_cached = self.is_cacheable(fabric, &trace, &txn, ingress) && fabric.make_room_for_trace(ingress);
        let id = is_cached.then(|| self.new_leaf_id(fabric));
        let place = || wrote_at.as_ref().map_or_else(|| format!("{:?}", txn.writes()), ToString::to_string);
        let wrote_where = txn.wrote().then(place);
        let Ok(commit) = fabric.ctx.commit_txn(txn, id.map(DependentId::from), exclusive) else { return false };
        fabric.ctx.apply_commit(commit);
        fabric.ctx.notify_listeners(listeners, received);
        if let Some(place) = goes_back {
            let (key, report) = (place.to_string(), Report::RouteGoesBack { at: received.at, place });
            fabric.ctx.report_once(ReportSubject::Policy, &key, report);
        }
        fabric.ctx.report_left_out(left_out, made_at.as_ref());
        fabric.ctx.report_violations(violations, received.at);
        fabric.ctx.report_logged(&logged, received);
        self.access_hits.count_packet(&trace);
        if let Some(line) = &origin.line {
            self.line_runs.count_miss(line);
        }
        if trace.reads_missing_bytes {
            fabric.ctx.stats.short_captures += 1;
        }
        match id {
            Some(id) => {
                let leaf = self.new_leaf(fabric, trace, goal, origin, received.clone());
                let standing = self.cache_leaf(fabric, id, leaf);
                self.send_by_leaf(fabric, standing, received.clone());
            }
            None => {
                self.send_uncached(fabric, &route, origin, received);
                if let Some(place) = wrote_where {
                    self.speculate(fabric, received, &place);
                }
            }
        }
        true
    }

    /// Reports whether a run at this switch may become a leaf.
    fn is_cacheable(&self, fabric: &Fabric, trace: &Trace, txn: &Txn, ingress: Dpid) -> bool {
        let is_closed = fabric.switches.get(&ingress).is_none_or(|switch| switch.room.is_closed());
        !txn.wrote() && trace.lasts() && !is_closed && !self.undecided.has_too_many_rounds()
    }

    /// Parks a packet until something that its run read has changed. Returns `false` if something has changed already.
    fn park(
        &mut self,
        fabric: &mut Fabric,
        finished: RunResult,
        received: &ReceivedPacket,
        exclusive: Option<ExclusiveCommit<'_>>,
    ) -> bool {
        let id = self.new_dependent_id(fabric);
        let origin = self.leaves.intern_origin(Origin::from_result(&finished));
        if fabric.ctx.commit_txn(finished.txn.without_writes().depending_on_all(), Some(id), exclusive).is_err() {
            return false;
        }
        fabric.ctx.stats.waits += 1;
        let oldest = self.undecided.park(id, (received.clone(), origin), fabric.ctx.options.parked_packets);
        if let Some((oldest, packet, origin)) = oldest {
            fabric.switches.drop_packet(&mut fabric.ctx, &packet, DropCause::Waited(origin));
            fabric.ctx.drop_parked([oldest]);
        }
        true
    }

    /// Runs f again after a run that wrote, to learn what f does with the next such packet.
    fn speculate(&mut self, fabric: &mut Fabric, received: &ReceivedPacket, place: &str) {
        let Some(run) = new_run(fabric, received) else { return };
        let RunOutcome::Answer((goal, _), finished) = self.run_once(fabric, &run) else { return };
        if finished.txn.wrote() {
            fabric.ctx.stats.writing_runs += 1;
            let report = Report::PolicyWrites { what: place.into() };
            fabric.ctx.report_once(ReportSubject::Policy, place, report);
        } else {
            let has_room = |fabric: &mut Fabric| fabric.make_room_for_trace(received.at.switch);
            if fabric.switches.find_leaf(received).is_none() && finished.lasts() && has_room(fabric) {
                self.adopt(fabric, goal, *finished, received.clone());
            }
        }
    }
}

/// Returns the place of a packet's destination: the one that keys' rules say, or else the one in the newest state.
fn place_of_destination(fabric: &Fabric, received: &ReceivedPacket) -> Option<Location> {
    let packet = received.packet();
    let found = fabric.switches.get(&received.at.switch)?.ingress.look_ups.open_place(&packet);
    let in_state = || {
        let address = Mac::from_bits(packet.switch_value(Field::EthDst)?);
        fabric.ctx.store.snapshot().host(address).map(|host| host.location)
    };
    found.or_else(in_state)
}

/// Creates a run on the newest state. `None` for a packet that may not enter the network, which is then dropped.
fn new_run(fabric: &mut Fabric, received: &ReceivedPacket) -> Option<Run> {
    let run = Decisions::admissible_run(fabric, received);
    if run.is_none() && fabric.switches.contains_key(&received.at.switch) {
        Decisions::refuse_packet(fabric, received);
    }
    run
}

fn on_policy_failed(fabric: &mut Fabric, error: &PolicyError, received: &ReceivedPacket) {
    fabric.ctx.stats.policy_errors += 1;
    fabric.switches.drop_packet(&mut fabric.ctx, received, DropCause::failed(&error.to_string()));
    let (error, novelty) = fabric.ctx.reports_mut().count_failure(&error.to_string(), received.at);
    let report = Report::PolicyFailed { error, at: received.at };
    fabric.ctx.report_novel(ReportSubject::Port(received.at), novelty, report);
}
