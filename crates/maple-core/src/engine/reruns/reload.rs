//! Reload: another policy takes the place of the one that runs, without a cold start.
//!
//! # What
//!
//! A *candidate* is first tried ([`Event::Try`](crate::engine::Event::Try)): it runs on the witness packet of each
//! leaf, a few at a time, while the old policy goes on deciding. [`Trial`] says how that went. When the candidate is
//! adopted ([`Event::Adopt`](crate::engine::Event::Adopt)), all leaves change over in one batch:
//!
//! * A leaf with the same goal keeps its id, its route and its rule, whatever the candidate asked on the way.
//! * A leaf with another route, reached by the same questions, is rerouted (`reroute.rs`).
//! * Any other leaf is replaced by one with the candidate's trace. Its packets come to the controller until that one
//!   has its rule, and so do the packets of leaves for which the candidate has no lasting answer.
//!
//! Lists that have the name of one before them take over what switches look up for that, so only keys of addresses
//! whose groups have changed get other rules.
//!
//! Each switch's tree is built again from all traces, and its rules keep their priorities as far as their order allows.
//! So the ordered update (`tables/`) sends what differs, and nothing else.
//!
//! The way back is warm too. A policy that tells fewer packets apart has fewer leaves. The witness packets that lost
//! their leaves by an adoption are decided again by the next one, and rules that vanished get their priorities back. So
//! the rules of a policy are the same when it returns.
//!
//! # Why it is correct
//!
//! Trees are derived state. The new tree has the candidate's traces only, and a switch follows the old policy until it
//! is updated. The runs of the trial are validated when they commit, like any run: a run that read what has changed
//! since is repeated.
//!
//! # Cost
//!
//! A run for each leaf, and building each table once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use maple_wire::Dpid;

use crate::compile::RuleTable;
use crate::engine::beforehand::samples::Samples;
use crate::engine::context::access_hits::AccessHits;
use crate::engine::context::timers::Timer;
use crate::engine::decisions::Decisions;
use crate::engine::decisions::add_leaf::insert;
use crate::engine::decisions::leaf::{source_lines, trace_text};
use crate::engine::decisions::line_runs::LineRuns;
use crate::engine::decisions::runs::RunOutcome;
use crate::engine::fabric::Fabric;
use crate::engine::messages::cause::Origin;
use crate::engine::messages::event::Effect;
use crate::engine::messages::received_packet::ReceivedPacket;
use crate::engine::messages::trial::{Candidate, DecisionSummary, Difference, DifferenceKind, MAX_DIFFERENCES, Trial};
use crate::engine::one_switch::Switch;
use crate::engine::one_switch::ingress::table;
use crate::engine::tools::expected::Expected;
use crate::ids::LeafId;
use crate::look_ups::LookUp;
use crate::policy::Policy;
use crate::route::Goal;
use crate::run::{Run, RunResult};
use crate::state::Snapshot;
use crate::tree::Augmented;

/// The number of leaves that a candidate decides at a time, so that the old policy decides packets in between. Chosen:
/// at some microseconds a run, packets that come meanwhile wait for about a millisecond.
const MAX_LEAVES_AT_ONCE: usize = 256;
/// The minimum time between two batches, while the old policy goes on deciding. Chosen: so short that it costs no time,
/// and long enough that the engine handles what has come in between.
const BATCH_INTERVAL: Duration = Duration::from_micros(100);

/// The maximum number of witness packets without leaves that are kept for the next adoption. Chosen: more than a switch
/// has leaves in most networks, and a bound on memory; flows of others are decided when their packets come.
const MAX_FORMER: usize = 1 << 16;

/// A candidate with its trial, which may be over.
pub(in crate::engine) struct RunningTrial {
    candidate: Candidate,
    /// The leaves that it has not decided, the last one first.
    todo: Vec<LeafId>,
    decided: BTreeMap<LeafId, RunOutcome>,
    /// The number of times that classes had changed when the trial began.
    classes_changed: u64,
    trial: Trial,
}

/// A change of the policy while the network goes on.
#[derive(Default)]
pub(in crate::engine) struct Reload {
    /// The policy that is being tried.
    pub trying: Option<Box<RunningTrial>>,
    /// The state in which a trial compares decisions; `None`: the newest.
    pub compared: Option<Arc<Snapshot>>,
    /// Witness packets that lost their leaves when the policy was adopted.
    pub former: Vec<ReceivedPacket>,
}

impl Reload {
    /// Returns a copy without the trial.
    pub fn copy(&self) -> Reload {
        Reload { former: self.former.clone(), ..Reload::default() }
    }

    /// Begins the trial of a candidate, in place of any other trial.
    pub fn begin(&mut self, decisions: &mut Decisions, fabric: &mut Fabric, candidate: Candidate) {
        announce_look_ups(fabric, &*candidate.policy);
        let mut todo: Vec<LeafId> = decisions.leaves.keys().copied().collect();
        todo.sort_unstable_by(|a, b| b.cmp(a));
        let (decided, classes_changed) = (BTreeMap::new(), fabric.switches.classes_changed());
        let trial = Trial::default();
        self.trying = Some(Box::new(RunningTrial { candidate, todo, decided, classes_changed, trial }));
        self.decide_next(decisions, fabric);
    }

    /// Lets the candidate decide the next leaves.
    pub fn decide_next(&mut self, decisions: &mut Decisions, fabric: &mut Fabric) {
        let Some(mut trying) = self.trying.take().expected() else { return };
        let from = trying.todo.len().saturating_sub(MAX_LEAVES_AT_ONCE);
        let ids = trying.todo.split_off(from);
        let run = |id: LeafId| Some((Decisions::rerun(fabric, decisions.leaves.get(&id)?)?, id));
        let runs: Vec<(Run, LeafId)> = ids.into_iter().rev().filter_map(run).collect();
        if !runs.is_empty() {
            let policy = Arc::clone(&trying.candidate.policy);
            for (id, outcome) in Decisions::run_with(fabric, &*policy, runs) {
                self.count_tried(decisions, fabric, id, &outcome, &mut trying.trial);
                trying.decided.insert(id, outcome);
            }
        }
        if trying.todo.is_empty() {
            let candidate = trying.candidate.number;
            let trial = trying.trial.clone();
            fabric.ctx.add_effect(Effect::Tried { candidate, trial });
        } else {
            fabric.ctx.wake_at(fabric.ctx.now() + BATCH_INTERVAL, Timer::Trial);
        }
        self.trying = Some(trying);
    }

    fn count_tried(&self, decisions: &Decisions, fabric: &Fabric, id: LeafId, outcome: &RunOutcome, trial: &mut Trial) {
        trial.leaves += 1;
        let (Some(leaf), state) = (decisions.leaves.get(&id), fabric.ctx.store.snapshot()) else { return };
        let (kind, decision) = match outcome {
            RunOutcome::Answer((goal, resolved), finished) => {
                let old = self.compared.as_ref().unwrap_or(&state);
                let before = || leaf.hops_of_witness(old).unwrap_or_default();
                let is_same = leaf.newest_goal() == goal && self.compared.is_none();
                let kind = if is_same { None } else { DifferenceKind::between(&before(), resolved) };
                let Some(kind) = kind else {
                    trial.same += 1;
                    return;
                };
                (kind, DecisionSummary::from_run(resolved, leaf.witness.at, &finished.trace))
            }
            RunOutcome::Waits(finished) => {
                let (route, lines) = ("waits".to_owned(), source_lines(&finished.trace));
                (DifferenceKind::Waits, DecisionSummary { route, exits: Vec::new(), lines })
            }
            RunOutcome::Failed(error, _) => {
                // Nobody has sent a packet that is made up, so nobody misses it.
                trial.failed += usize::from(!leaf.witness.is_made_up);
                trial.count_error(error.to_string().into());
                let (route, lines) = (error.to_string(), String::new());
                (DifferenceKind::Fails, DecisionSummary { route, exits: Vec::new(), lines })
            }
        };
        *trial.counts.entry(kind).or_default() += 1;
        if trial.differences.len() < MAX_DIFFERENCES {
            let old = self.compared.as_ref().unwrap_or(&state);
            trial.differences.push(Difference::new(kind, leaf, decision, old));
        }
    }

    /// Ends the trial of a candidate that will not be adopted, and the look-ups that only it has asked.
    pub fn abandon(&mut self, decisions: &mut Decisions, fabric: &mut Fabric, number: u64) {
        if self.trying.take_if(|trying| trying.candidate.number == number).is_some() {
            announce_look_ups(fabric, &*decisions.policy);
            let dpids: Vec<Dpid> = fabric.switches.keys().copied().collect();
            dpids.into_iter().for_each(|dpid| decisions.retire_look_ups(fabric, dpid));
        }
    }

    /// Puts the candidate in the place of the policy.
    pub fn adopt(
        &mut self,
        samples: &mut Samples,
        decisions: &mut Decisions,
        fabric: &mut Fabric,
        candidate: Candidate,
    ) {
        announce_look_ups(fabric, &*candidate.policy);
        let is_tried = |trying: &mut Box<RunningTrial>| trying.candidate.number == candidate.number;
        // Where classes have changed since, the traces of the trial may name others.
        let tried = self.trying.take_if(is_tried);
        let tried = tried.filter(|trying| trying.classes_changed == fabric.switches.classes_changed());
        let mut decided = tried.map(|trying| trying.decided).unwrap_or_default();
        decisions.policy = candidate.policy;
        *samples = Samples::new(decisions.policy.samples());
        decisions.line_runs = LineRuns::default();
        let had_lists = !std::mem::replace(&mut decisions.access_hits, AccessHits::new(&*decisions.policy)).is_empty();
        fabric.switches.values_mut().for_each(|switch| switch.counters.growth.change_policy(had_lists));
        fabric.ctx.forget_reports();
        let before = begin_change_over(fabric);
        let mut ids: Vec<LeafId> = decisions.leaves.keys().copied().collect();
        ids.sort_unstable();
        let witnesses: Vec<ReceivedPacket> =
            ids.iter().filter_map(|id| Some(decisions.leaves.get(id)?.witness.clone())).collect();
        decide_again(decisions, fabric, &ids, &mut decided);
        let mut changed = Vec::new();
        for id in ids {
            let outcome = decided.remove(&id);
            changed.extend(change_over(decisions, fabric, id, outcome));
        }
        // What packets find that the candidate is the first to look up is known only then.
        let dpids: Vec<Dpid> = fabric.switches.keys().copied().collect();
        for dpid in &dpids {
            decisions.succeed_look_ups(fabric, *dpid);
            decisions.follow_tables(fabric, *dpid);
        }
        let former = std::mem::take(&mut self.former);
        changed.extend(decide_former(decisions, fabric, &former));
        let without_leaf =
            former.into_iter().chain(witnesses).filter(|witness| !has_own_leaf(decisions, fabric, witness));
        self.former = without_leaf.take(MAX_FORMER).collect();
        for (dpid, old) in before {
            end_change_over(decisions, fabric, dpid, old, &changed);
        }
        // Packets that the old policy let wait.
        decisions.undecided.release_all().into_iter().for_each(|id| fabric.ctx.store.forget(id));
        dpids.into_iter().for_each(|dpid| samples.begin_pass(decisions, fabric, dpid));
        fabric.ctx.add_effect(Effect::Adopted { candidate: candidate.number });
    }
}

/// Lets the look-ups of a policy's lists take the place of those of the lists before them, which have the same names.
/// Traces of a trial that rest on other look-ups say something else then.
fn announce_look_ups(fabric: &mut Fabric, policy: &dyn Policy) {
    let lists = policy.access_lists();
    let look_ups: Vec<LookUp> = lists.iter().flat_map(|list| list.look_ups()).cloned().collect();
    let changed = fabric.switches.values().filter(|switch| switch.ingress.look_ups.announce(&look_ups)).count();
    if changed > 0 {
        fabric.switches.note_classes_changed();
    }
}

/// Keeps, reroutes, replaces or withdraws a leaf, as the new policy decides. Returns the leaf if its trace is new
/// in the tree.
fn change_over(
    decisions: &mut Decisions,
    fabric: &mut Fabric,
    id: LeafId,
    outcome: Option<RunOutcome>,
) -> Option<LeafId> {
    let leaf = decisions.leaves.get(&id)?;
    let (goal, finished) = match outcome {
        Some(RunOutcome::Answer((goal, _), finished)) if finished.lasts() => (goal, finished),
        _ => {
            decisions.withdraw(fabric, id);
            return None;
        }
    };
    let (witness, has_same_goal, has_same_trace) =
        (leaf.witness.clone(), *leaf.newest_goal() == goal, finished.trace.asks_like(&leaf.trace));
    // While a leaf is rerouted, its rule leads along the old route: right for the packets of the old trace only.
    let stays = if has_same_trace {
        has_same_goal || decisions.can_reroute(fabric, id, &goal)
    } else {
        has_same_goal && !leaf.is_rerouting()
    };
    if !stays {
        decisions.withdraw(fabric, id);
        if !fabric.make_room_for_trace(witness.at.switch) {
            return None;
        }
        return decisions.adopt(fabric, goal, *finished, witness).map(|adopted| adopted.leaf);
    }
    let origin = Origin::from_result(&finished);
    let RunResult { trace, txn, violations, left_out, made_at, .. } = *finished;
    if fabric.ctx.store.commit(txn, Some(id.into())).is_err() {
        decisions.withdraw(fabric, id);
        return None;
    }
    fabric.ctx.report_left_out(left_out, made_at.as_ref());
    fabric.ctx.report_violations(violations, witness.at);
    let (trace, origin) = (decisions.leaves.intern(trace), decisions.leaves.intern_origin(origin));
    let leaf = decisions.leaves.get_mut(&id)?;
    (leaf.trace, leaf.origin) = (trace, origin);
    put_back(decisions, fabric, id, &goal);
    if !has_same_goal && decisions.leaves.contains_key(&id) {
        decisions.begin_reroute(fabric, id, goal);
    }
    (!has_same_trace).then_some(id)
}

/// Lets the policy decide the leaves for which the trial has no valid answer. These are the leaves that are newer
/// than the trial, those for which it gave none, and those whose run read what has changed since.
fn decide_again(
    decisions: &mut Decisions,
    fabric: &mut Fabric,
    ids: &[LeafId],
    decided: &mut BTreeMap<LeafId, RunOutcome>,
) {
    let is_valid = |id: &LeafId| match decided.get(id) {
        Some(RunOutcome::Answer(_, finished)) => fabric.ctx.store.is_valid(&finished.txn),
        _ => false,
    };
    let run = |id: &LeafId| Some((Decisions::rerun(fabric, decisions.leaves.get(id)?)?, *id));
    let runs: Vec<(Run, LeafId)> = ids.iter().filter(|id| !is_valid(id)).filter_map(run).collect();
    decided.extend(decisions.run_policy(fabric, runs));
}

/// Gives each switch an empty tree. Returns the old ones.
fn begin_change_over(fabric: &mut Fabric) -> Vec<(Dpid, RuleTable)> {
    let renew = |switch: &mut Switch| {
        let empty = table(switch.capabilities(), &fabric.ctx.options);
        (switch.dpid(), switch.ingress.begin_change_over(empty))
    };
    fabric.switches.values_mut().map(renew).collect()
}

/// Makes leaves of packets that an earlier policy told apart, if no other leaf decides them. Returns the new
/// leaves.
fn decide_former(decisions: &mut Decisions, fabric: &mut Fabric, witnesses: &[ReceivedPacket]) -> Vec<LeafId> {
    let undecided = witnesses.iter().filter(|witness| fabric.switches.find_leaf(witness).is_none());
    let run = |witness: &ReceivedPacket| Some((Decisions::admissible_run(fabric, witness)?, witness.clone()));
    let runs: Vec<(Run, ReceivedPacket)> = undecided.filter_map(run).collect();
    let mut new = Vec::new();
    for (witness, outcome) in decisions.run_policy(fabric, runs) {
        let RunOutcome::Answer((goal, _), finished) = outcome else { continue };
        if finished.lasts()
            && fabric.switches.find_leaf(&witness).is_none()
            && fabric.make_room_for_trace(witness.at.switch)
        {
            new.extend(decisions.adopt(fabric, goal, *finished, witness).map(|adopted| adopted.leaf));
        }
    }
    new
}

/// Reports whether a packet is the witness packet of a leaf.
fn has_own_leaf(decisions: &Decisions, fabric: &Fabric, witness: &ReceivedPacket) -> bool {
    let leaf = fabric.switches.find_leaf(witness).and_then(|id| decisions.leaves.get(&id));
    leaf.is_some_and(|leaf| leaf.witness.at == witness.at && leaf.witness.frame == witness.frame)
}

/// Puts a leaf into its switch's new tree. The new policy's answer is `goal`; the leaf may yet have another.
fn put_back(decisions: &mut Decisions, fabric: &mut Fabric, id: LeafId, goal: &Goal) {
    let action = decisions.ingress_action(&fabric.routes, id);
    let Some(mut leaf) = decisions.leaves.remove(&id).expected() else { return };
    let reads = leaf.extra_reads.clone();
    let Some(switch) = fabric.switches.known_mut(leaf.ingress()) else { return };
    let outcome = insert(&mut switch.ingress.table, id, &mut leaf, action);
    if outcome == Augmented::Added && leaf.extra_reads.is_empty() {
        switch.ingress.table.specialise(id, &reads);
    }
    let what = trace_text(&leaf.trace);
    decisions.leaves.insert(id, leaf);
    match outcome {
        Augmented::Added => {}
        // The new policy does not tell the packets of the two apart. Or what they look up has become equal.
        Augmented::Existing(there) => {
            if decisions.leaves.get(&there).is_none_or(|other| other.newest_goal() != goal) {
                decisions.report_inconsistency(fabric, there, &what);
            }
            decisions.withdraw(fabric, id);
        }
        Augmented::Replaced { removed, .. } => {
            for other in removed {
                decisions.report_inconsistency(fabric, other, &what);
                decisions.withdraw(fabric, other);
            }
        }
    }
}

/// Compiles a switch's new tree, and collects the differences to the rules of the old one. `changed` are the leaves
/// with other traces.
fn end_change_over(decisions: &mut Decisions, fabric: &mut Fabric, dpid: Dpid, old: RuleTable, changed: &[LeafId]) {
    let Some(switch) = fabric.switches.known_mut(dpid) else { return };
    switch.ingress.compile_new_tree(&old);
    for id in changed {
        let Some(leaf) = decisions.leaves.get(id).filter(|leaf| leaf.ingress() == dpid) else { continue };
        if switch.tree().extra_reads(*id).is_empty() {
            switch.ingress.table.specialise_if_worthwhile(*id, &leaf.witness.packet());
        }
    }
    for id in switch.tree().leaves() {
        if let Some(leaf) = decisions.leaves.get_mut(&id) {
            leaf.extra_reads = switch.tree().extra_reads(id).into();
            decisions.leaves.mark_changed(id);
        }
    }
    switch.ingress.end_change_over(old);
    decisions.retire_look_ups(fabric, dpid);
    fabric.mark_dirty(dpid);
}
