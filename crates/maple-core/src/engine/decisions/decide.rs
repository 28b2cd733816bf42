//! Misses: f runs, its transaction commits, and its answer becomes a leaf.
//!
//! The misses of a batch go to the policy together. A run whose reads are out of date at its commit is repeated. A run
//! that wrote state answers only its own packet. f then runs again, speculatively, as for the next packet of the same
//! kind. If that run writes nothing, its trace is cached.

use std::collections::BTreeSet;
use std::sync::Arc;

use maple_wire::{Dpid, Version};

use super::Decisions;
use crate::engine::context::cause::{DropCause, Origin};
use crate::engine::context::received_packet::ReceivedPacket;
use crate::engine::context::uses::EngineStore;
use crate::engine::fabric::Fabric;
use crate::ids::{DependentId, LeafId};
use crate::policy::Policy;
use crate::policy_error::PolicyError;
use crate::report::{Report, ReportKind, ReportSubject};
use crate::route::{Goal, Resolved, Route};
use crate::run::{Finished, Run};
use crate::state::{ExclusiveCommit, Txn};
use crate::trace::Trace;

/// The return value of f.
pub(in crate::engine) type Answer = Result<Route, PolicyError>;

/// The result of a run.
pub(in crate::engine) enum RunOutcome {
    /// f's answer, and what f observed.
    Answer((Goal, Arc<Resolved>), Box<Finished>),
    /// f has no answer until something that it read changes.
    Waits(Box<Finished>),
    /// The error, and the listeners that want the packet, as bits.
    Failed(PolicyError, u64),
}

impl Decisions {
    /// Answers a packet that enters the network, or has f decide it at the end of the batch.
    pub(in crate::engine) fn on_packet(&mut self, fabric: &mut Fabric, received: ReceivedPacket) {
        match self.current_leaf(fabric, &received) {
            Some(leaf) => {
                fabric.ctx.stats.hits += 1;
                self.count_access_hit(leaf);
                self.answer(fabric, leaf, received);
            }
            None => {
                fabric.ctx.stats.misses += 1;
                self.waiting.add_misses([received]);
            }
        }
    }

    /// Decides every packet that no leaf answers.
    pub(in crate::engine) fn decide_misses(&mut self, fabric: &mut Fabric) {
        while !self.waiting.has_no_misses() {
            let mut distinct = BTreeSet::new();
            let (mut packets, mut later) = (Vec::new(), Vec::new());
            for received in self.waiting.take_round() {
                if let Some(leaf) = self.current_leaf(fabric, &received) {
                    self.count_access_hit(leaf);
                    self.answer(fabric, leaf, received);
                } else if distinct.insert((received.at, received.frame.clone())) {
                    packets.push(received);
                } else {
                    // An equal packet of this round will most likely make the leaf for it.
                    later.push(received);
                }
            }
            self.decide(fabric, packets);
            self.waiting.add_misses(later);
        }
    }

    /// Returns the leaf that answers a packet at its ingress and is still what f would answer.
    ///
    /// Another shard may have changed what a leaf depends on while its message is still on the way here. Such a leaf
    /// ignores what this very packet has just taught us, for example where its host is. So the leaf is reconsidered
    /// immediately, and so is the plan of its route.
    pub(in crate::engine) fn current_leaf(&mut self, fabric: &mut Fabric, received: &ReceivedPacket) -> Option<LeafId> {
        self.follow_tables(fabric, received.at.switch);
        let leaf = fabric.switches.lookup(received)?;
        let dependents = [Some(leaf.into()), self.plan_of(fabric, leaf)].into_iter().flatten();
        let stale: BTreeSet<DependentId> =
            dependents.filter(|dependent| !fabric.ctx.store.is_current(*dependent)).collect();
        if stale.is_empty() {
            return Some(leaf);
        }
        self.reconsider(fabric, &stale);
        fabric.switches.lookup(received)
    }

    /// The plan that a leaf's route follows, as a dependent, if it follows one.
    pub(in crate::engine) fn plan_of(&self, fabric: &Fabric, leaf: LeafId) -> Option<DependentId> {
        let route = fabric.routes.get(self.leaves.get(&leaf)?.route_id?)?;
        route.plan().map(|(dependent, _)| dependent)
    }

    fn decide(&mut self, fabric: &mut Fabric, packets: Vec<ReceivedPacket>) {
        let new = |received| Some((new_run(fabric, &received)?, received));
        let runs = packets.into_iter().filter_map(new).collect();
        for (run, received, answer) in self.run_policy(fabric, runs) {
            self.commit_run(fabric, run, answer, received);
        }
    }

    /// Runs f on a batch. Yields each run with its tag and f's answer.
    pub(in crate::engine) fn run_policy<T>(
        &mut self,
        fabric: &mut Fabric,
        runs: Vec<(Run, T)>,
    ) -> impl Iterator<Item = (Run, T, Answer)> + use<T> {
        let policy = Arc::clone(&self.policy);
        Decisions::run_with(fabric, &*policy, runs)
    }

    /// Runs `policy` on a batch; it need not be the engine's own. Yields each run with its tag and the policy's answer.
    pub(in crate::engine) fn run_with<T>(
        fabric: &mut Fabric,
        policy: &dyn Policy,
        runs: Vec<(Run, T)>,
    ) -> impl Iterator<Item = (Run, T, Answer)> + use<T> {
        let (runs, tags): (Vec<Run>, Vec<T>) = runs.into_iter().unzip();
        fabric.ctx.stats.runs += runs.len() as u64;
        let answers = if runs.is_empty() { Vec::new() } else { policy.decide_batch(&runs) };
        let missing = || Err(PolicyError::Exception("the policy gave no answer for this packet of the batch".into()));
        let answers = answers.into_iter().chain(std::iter::repeat_with(missing));
        runs.into_iter().zip(tags).zip(answers).map(|((run, tag), answer)| (run, tag, answer))
    }

    /// Drops a packet that may not enter the network where it is.
    pub(in crate::engine) fn refuse_packet(fabric: &mut Fabric, received: &ReceivedPacket) {
        fabric.ctx.stats.spoofed_drops += 1;
        fabric.switches.drop_packet(&mut fabric.ctx, received, DropCause::NotAdmissible);
    }

    pub(in crate::engine) fn admissible_run(fabric: &Fabric, received: &ReceivedPacket) -> Option<Run> {
        let txn = fabric.ctx.store.begin_txn();
        let switch = fabric.switches.get(&received.at.switch)?;
        if !fabric.ctx.is_admissible(received, txn.peek()) {
            return None;
        }
        let run =
            Run::new(received.frame.clone(), received.total_len, received.at, txn, fabric.ctx.options.track_hosts);
        let has_look_ups = !switch.layout.look_ups().is_empty();
        let run = if has_look_ups { run.with_registers(switch.ingress.look_ups.registers()) } else { run };
        if !switch.has_pipeline() {
            // In OpenFlow 1.0 a label replaces the packet's VLAN id. So the leaf must determine that id.
            run.read_location(switch.version() == Version::Of10);
        }
        run.hear(&fabric.ctx.options.listener_filters);
        Some(run)
    }

    /// Commits a run and does what it says. While the state changes under the run, it is repeated. A run that was
    /// repeated too often runs alone, without other commits.
    fn commit_run(&mut self, fabric: &mut Fabric, run: Run, answer: Answer, received: ReceivedPacket) {
        let (mut lost, mut ended) = (0, Some((run, answer)));
        let (store, is_replayed) = (Arc::clone(fabric.ctx.store.shared()), fabric.ctx.store.is_replayed());
        loop {
            let has_lost = lost >= fabric.ctx.options.max_reruns;
            let exclusive = has_lost.then(|| EngineStore::turn(&store, is_replayed)).flatten();
            let (run, answer) = match ended.take() {
                Some(ended) => ended,
                None => {
                    let Some(run) = new_run(fabric, &received) else { return };
                    let answer = self.run_once(fabric, &run);
                    (run, answer)
                }
            };
            let done = match outcome(&run, answer) {
                RunOutcome::Answer((goal, route), finished) => {
                    self.commit(fabric, goal, route, *finished, &received, exclusive)
                }
                RunOutcome::Waits(finished) => self.park(fabric, *finished, &received, exclusive),
                RunOutcome::Failed(error, heard) => {
                    fabric.ctx.notify_listeners(heard, &received);
                    return policy_failed(fabric, &error, &received);
                }
            };
            if done {
                return;
            }
            fabric.ctx.stats.conflicts += 1;
            lost += 1;
        }
    }

    fn run_once(&mut self, fabric: &mut Fabric, run: &Run) -> Answer {
        fabric.ctx.stats.runs += 1;
        let missing = || Err(PolicyError::Exception("the policy gave no answer".into()));
        self.policy.decide_batch(std::slice::from_ref(run)).pop().unwrap_or_else(missing)
    }

    /// Commits a run and answers its packet. Returns `false` if the commit conflicted; then nothing has happened.
    fn commit(
        &mut self,
        fabric: &mut Fabric,
        goal: Goal,
        route: Arc<Resolved>,
        finished: Finished,
        received: &ReceivedPacket,
        exclusive: Option<ExclusiveCommit<'_>>,
    ) -> bool {
        let origin = Origin::from_finished(&finished);
        let Finished { trace, txn, wrote_at, made_at, goes_back, left_out, heard, violations, logged, .. } = finished;
        let id = self.is_cacheable(fabric, &trace, &txn, received.at.switch).then(|| self.new_leaf_id(fabric));
        let place = || wrote_at.as_ref().map_or_else(|| format!("{:?}", txn.writes()), ToString::to_string);
        let wrote_where = txn.wrote().then(place);
        let Ok(commit) = fabric.ctx.commit_txn(txn, id.map(DependentId::from), exclusive) else { return false };
        fabric.ctx.apply_commit(commit);
        fabric.ctx.notify_listeners(heard, received);
        if let Some(place) = goes_back {
            let key = place.to_string();
            fabric.ctx.report_once(
                ReportKind::RouteGoesBack,
                ReportSubject::Policy,
                &key,
                Report::RouteGoesBack { at: received.at, place },
            );
        }
        fabric.ctx.report_left_out(left_out, made_at.as_ref());
        fabric.ctx.report_violations(violations, received.at);
        fabric.ctx.report_logged(&logged, received);
        self.access_hits.count_packet(&trace);
        if trace.reads_missing_bytes {
            fabric.ctx.stats.short_captures += 1;
        }
        match id {
            Some(id) => {
                let leaf = self.new_leaf(fabric, trace, goal, origin, received.clone());
                let standing = self.cache_leaf(fabric, id, leaf);
                self.answer(fabric, standing, received.clone());
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
    fn is_cacheable(&mut self, fabric: &mut Fabric, trace: &Trace, txn: &Txn, ingress: Dpid) -> bool {
        let is_closed = fabric.switches.get(&ingress).is_none_or(|switch| switch.room.is_closed());
        !txn.wrote()
            && trace.lasts()
            && !is_closed
            && !self.waiting.has_too_many_rounds()
            && fabric.switches.check_capacity_for_trace(&mut fabric.ctx, ingress)
    }

    /// Parks a packet until something that its run read has changed. Returns `false` if something has changed already.
    fn park(
        &mut self,
        fabric: &mut Fabric,
        finished: Finished,
        received: &ReceivedPacket,
        exclusive: Option<ExclusiveCommit<'_>>,
    ) -> bool {
        let id = self.new_dependent_id(fabric);
        let origin = self.leaves.intern_origin(Origin::from_finished(&finished));
        if fabric.ctx.commit_txn(finished.txn.without_writes().depending_on_all(), Some(id), exclusive).is_err() {
            return false;
        }
        fabric.ctx.stats.waits += 1;
        let oldest = self.waiting.park(id, (received.clone(), origin), fabric.ctx.options.parked_packets);
        if let Some((oldest, packet, origin)) = oldest {
            fabric.switches.drop_packet(&mut fabric.ctx, &packet, DropCause::Waited(origin));
            fabric.ctx.drop_parked([oldest]);
        }
        true
    }

    /// Runs f again after a run that wrote, to learn what f does with the next such packet.
    fn speculate(&mut self, fabric: &mut Fabric, received: &ReceivedPacket, place: &str) {
        let Some(run) = new_run(fabric, received) else { return };
        let answer = self.run_once(fabric, &run);
        let RunOutcome::Answer((goal, _), finished) = outcome(&run, answer) else { return };
        if finished.txn.wrote() {
            fabric.ctx.stats.writing_runs += 1;
            let report = Report::PolicyWrites { what: place.into() };
            fabric.ctx.report_once(ReportKind::PolicyWrites, ReportSubject::Policy, place, report);
        } else {
            let has_capacity =
                |fabric: &mut Fabric| fabric.switches.check_capacity_for_trace(&mut fabric.ctx, received.at.switch);
            if fabric.switches.lookup(received).is_none() && finished.lasts() && has_capacity(fabric) {
                self.adopt(fabric, goal, *finished, received.clone());
            }
        }
    }
}

/// Creates a run on the newest state. `None` for a packet that may not enter the network, which is then dropped.
fn new_run(fabric: &mut Fabric, received: &ReceivedPacket) -> Option<Run> {
    let run = Decisions::admissible_run(fabric, received);
    if run.is_none() && fabric.switches.contains_key(&received.at.switch) {
        Decisions::refuse_packet(fabric, received);
    }
    run
}

fn policy_failed(fabric: &mut Fabric, error: &PolicyError, received: &ReceivedPacket) {
    fabric.ctx.stats.policy_errors += 1;
    fabric.switches.drop_packet(&mut fabric.ctx, received, DropCause::failed(&error.to_string()));
    let (error, novelty) = fabric.ctx.reports.count_failure(&error.to_string(), received.at);
    let report = Report::PolicyFailed { error, at: received.at };
    fabric.ctx.report_novel(ReportKind::PolicyFailed, ReportSubject::Port(received.at), novelty, report);
}

/// Checks f's answer, and ends the run.
pub(in crate::engine) fn outcome(run: &Run, answer: Answer) -> RunOutcome {
    let resolved = answer.map(|route| run.resolve(&route));
    let Some(finished) = run.finish() else {
        return RunOutcome::Failed(PolicyError::Exception("the policy ended its own run".into()), 0);
    };
    match (resolved, &finished.error) {
        (Err(PolicyError::Retry), _) | (Ok(_), Some(PolicyError::Retry)) => RunOutcome::Waits(Box::new(finished)),
        // The policy's error is more precise about the place than the error that was noted for it.
        (Err(error), _) => RunOutcome::Failed(error, finished.heard),
        (_, Some(error)) => RunOutcome::Failed(error.clone(), finished.heard),
        (Ok(Err(error)), None) => RunOutcome::Failed(error, finished.heard),
        (Ok(Ok(route)), None) => RunOutcome::Answer(route, Box::new(finished)),
    }
}
