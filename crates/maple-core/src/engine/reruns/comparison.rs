//! Compares what another policy would decide during a replay, on the same packets and in the same state.
//!
//! The policy of the recording decides, so the replay repeats the recorded run. For each of its runs, both policies run
//! once more on the packet and the snapshot of that run, and their answers are compared. Nothing that these runs write
//! is kept. So each packet is judged in the state in which it really was, and no difference follows from another one.
//!
//! The writes that the other policy's file made while it was loaded apply where the state has nothing of that name.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::BuildHasher as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::{FxBuildHasher, FxHashSet};

use crate::engine::decisions::leaf::source_lines;
use crate::engine::decisions::runs::{RunOutcome, outcome};
use crate::engine::messages::received_packet::ReceivedPacket;
use crate::engine::messages::trial::{DecisionSummary, Difference, DifferenceKind, MAX_DIFFERENCES, Trial};
use crate::network::Location;
use crate::policy::{Policy, PolicyError};
use crate::route::{Resolved, Route};
use crate::run::{Net, PacketHandle, Run};
use crate::state::{Snapshot, Txn, Write};

/// The maximum number of packets that are told apart. Beyond that, a packet may be counted twice. Chosen: a bound on
/// memory, and more packets than leaves that switches have capacity for.
const MAX_PACKETS: usize = 1 << 20;

/// Compares another policy with those that decide.
///
/// ```
/// use std::sync::Arc;
///
/// use maple_core::engine::{Comparison, Engine, Event, Options, ShardId, Time};
/// use maple_core::{Net, PacketHandle, Route, Store};
///
/// let comparison = Comparison::new(Arc::new(|_: &PacketHandle, _: &Net| Route::drop()), Vec::new());
/// let policy = comparison.wrap(Arc::new(|_: &PacketHandle, _: &Net| Route::flood()));
/// let mut engine = Engine::new(ShardId(0), Store::new(), policy, Options::default());
/// engine.handle(Time(1), &mut vec![Event::Tick], &mut Vec::new());
/// assert_eq!(comparison.found().leaves, 0, "no packet came");
/// ```
pub struct Comparison {
    other: Arc<dyn Policy>,
    /// The writes of the other policy's file.
    writes: Vec<Write>,
    found: Mutex<FoundDifferences>,
}

impl fmt::Debug for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Comparison").field("writes", &self.writes).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct FoundDifferences {
    trial: Trial,
    /// Hashes of packets with the decisions about them.
    seen: FxHashSet<u64>,
    differences: BTreeSet<Difference>,
    /// The last snapshot with the writes of the other policy's file.
    overlaid: Option<(u64, Arc<Snapshot>)>,
}

/// A policy that decides, with the comparison of its runs.
struct ComparedPolicy {
    policy: Arc<dyn Policy>,
    comparison: Arc<Comparison>,
}

/// The result of a policy for a packet.
struct PacketResult {
    /// The route of the packet. A packet without an answer goes nowhere.
    route: Arc<Resolved>,
    decision: DecisionSummary,
    /// The reason why there is no route.
    failure: Option<DifferenceKind>,
}

impl Comparison {
    /// Creates a comparison with the policy `other`, whose file made these writes while it was loaded.
    pub fn new(other: Arc<dyn Policy>, writes: Vec<Write>) -> Arc<Comparison> {
        Arc::new(Comparison { other, writes, found: Mutex::default() })
    }

    /// Wraps a policy that decides, so that each of its runs is compared.
    pub fn wrap(self: &Arc<Comparison>, policy: Arc<dyn Policy>) -> Arc<dyn Policy> {
        Arc::new(ComparedPolicy { policy, comparison: Arc::clone(self) })
    }

    /// Returns the differences so far. A packet that came several times counts once, unless a decision about it
    /// changed.
    pub fn found(&self) -> Trial {
        let found = self.lock();
        Trial { differences: found.differences.iter().cloned().collect(), ..found.trial.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, FoundDifferences> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn compare(&self, policy: &dyn Policy, runs: &[Run]) {
        let again: Vec<(ReceivedPacket, Run, Run)> = runs.iter().filter_map(|run| self.runs_for_both(run)).collect();
        let (mut old, mut new, mut packets) = (Vec::new(), Vec::new(), Vec::new());
        for (packet, before, after) in again {
            packets.push(packet);
            old.push(before);
            new.push(after);
        }
        if packets.is_empty() {
            return;
        }
        let answers = (policy.decide_batch(&old), self.other.decide_batch(&new));
        let made = old.iter().zip(answers.0).zip(new.iter().zip(answers.1));
        for (packet, ((old, before), (new, after))) in packets.iter().zip(made) {
            let at = packet.at;
            self.count(packet, PacketResult::from_run(old, before, at), PacketResult::from_run(new, after, at));
        }
    }

    /// Returns the packet of a run, and a run for each policy on the same packet and state.
    fn runs_for_both(&self, run: &Run) -> Option<(ReceivedPacket, Run, Run)> {
        let ((frame, total_len, at), state, track_hosts) = run.subject()?;
        let is_made_up = run.is_made_up();
        let again = |state| {
            let run = Run::new(Arc::clone(&frame), total_len, at, Txn::new(state), track_hosts);
            if is_made_up { run.made_up() } else { run }
        };
        let (before, after) = (again(Arc::clone(&state)), again(self.overlaid(state)));
        Some((ReceivedPacket { is_made_up, ..ReceivedPacket::new(frame, total_len, at) }, before, after))
    }

    /// Returns the state, with the writes of the other policy's file where the state has nothing of that name.
    fn overlaid(&self, state: Arc<Snapshot>) -> Arc<Snapshot> {
        if self.writes.is_empty() {
            return state;
        }
        let mut found = self.lock();
        if let Some((version, overlaid)) = &found.overlaid
            && *version == state.version()
        {
            return Arc::clone(overlaid);
        }
        let overlaid = Arc::new(state.beneath(&self.writes));
        found.overlaid = Some((state.version(), Arc::clone(&overlaid)));
        overlaid
    }

    fn count(&self, packet: &ReceivedPacket, before: PacketResult, after: PacketResult) {
        let mut found = self.lock();
        let key = FxBuildHasher.hash_one((packet.at, &packet.frame, &before.decision, &after.decision));
        if found.seen.contains(&key) {
            return;
        }
        if found.seen.len() < MAX_PACKETS {
            found.seen.insert(key);
        }
        found.trial.leaves += 1;
        let kind = match (before.failure, after.failure) {
            (Some(_), Some(_)) => None,
            (None, Some(failure)) => Some(failure),
            (_, None) => DifferenceKind::between(&before.route, &after.route),
        };
        if after.failure == Some(DifferenceKind::Fails) {
            found.trial.failed += 1;
            found.trial.count_error(after.decision.route.as_str().into());
        }
        let Some(kind) = kind else {
            found.trial.same += 1;
            return;
        };
        *found.trial.counts.entry(kind).or_default() += 1;
        if found.differences.len() < MAX_DIFFERENCES {
            let difference = Difference::between(kind, packet, before.decision, after.decision);
            found.differences.insert(difference);
        }
    }
}

impl PacketResult {
    fn from_run(run: &Run, answer: Result<Route, PolicyError>, at: Location) -> PacketResult {
        let nothing = |route: String, lines: String, failure| PacketResult {
            route: Arc::default(),
            decision: DecisionSummary { route, exits: Vec::new(), lines },
            failure: Some(failure),
        };
        match outcome(run, answer) {
            RunOutcome::Answer((_, route), finished) => {
                PacketResult { decision: DecisionSummary::from_run(&route, at, &finished.trace), route, failure: None }
            }
            RunOutcome::Waits(finished) => {
                nothing("waits".into(), source_lines(&finished.trace), DifferenceKind::Waits)
            }
            RunOutcome::Failed(error, _) => nothing(error.to_string(), String::new(), DifferenceKind::Fails),
        }
    }
}

impl Policy for ComparedPolicy {
    fn decide(&self, pkt: &PacketHandle, net: &Net) -> Result<Route, PolicyError> {
        self.policy.decide(pkt, net)
    }

    fn decide_batch(&self, runs: &[Run]) -> Vec<Result<Route, PolicyError>> {
        self.comparison.compare(&*self.policy, runs);
        self.policy.decide_batch(runs)
    }

    fn wrapped(&self) -> Option<&dyn Policy> {
        Some(&*self.policy)
    }
}
