//! A switch that keeps the rules of an earlier run until it is restored: what it waits for.
//!
//! Its leaves are decided, a batch at a time, and its rules become known. Then it waits for the labels of its routes,
//! with bounds ([`Restoring::next_step`]). At last its table is built, once. If the switch reports other rules than the
//! previous controller did, it decides what has become known since, and waits and builds again.

use std::collections::VecDeque;
use std::time::Duration;

use maple_wire::Constraint;
use rustc_hash::FxHashSet;

use crate::ids::Time;
use crate::labels::LabelKey;
use crate::memory::Witness;

/// The number of batches in which the leaves of a switch are decided. With the pauses between them they take about a
/// second. Chosen: packets that come meanwhile wait for one batch at most.
const BATCHES: usize = 128;
/// The minimum number of leaves in a batch. Chosen: fewer cost more in pauses than in runs.
const MIN_BATCH: usize = 16;
/// The maximum number of leaves in a batch. Chosen: f takes some microseconds for each, and packets wait meanwhile.
const MAX_BATCH: usize = 128;

/// The time for which a switch waits for the labels of its routes after the leaves of all switches are decided. Chosen:
/// as long as a reroute may take (`Options::reroute_timeout`); leaves without labels send their packets to the
/// controller.
const MAX_LABEL_WAIT: Duration = Duration::from_secs(2);

/// The maximum time that a switch waits after its own leaves are decided and its rules are known, because f may be slow
/// at others. It must exceed [`MAX_LABEL_WAIT`], since the wait for labels begins with the last switch.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// The time after which a switch looks again whether the other switches are ready too. Chosen: a look costs little, and
/// is taken only while switches are restored.
pub(in crate::engine) const RESTORE_POLL: Duration = Duration::from_millis(1);

/// Matches of rules with their priorities.
pub(in crate::engine) type Priorities = Vec<(Vec<Constraint>, u16)>;

/// The next step of a switch that is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum NextStep {
    /// The switch waits until its leaves are decided and its rules are known.
    AwaitEarlierRun,
    /// The switch waits for the labels of its routes, and looks again at this time.
    AwaitLabels { next_look: Time },
    /// Its table is built.
    Build,
    /// Its rules are compared with its table, once those of all switches are built. It looks at this time whether they
    /// are; not before it has reported its rules itself.
    Compare { next_look: Option<Time> },
}

/// The state of a switch that keeps the rules of an earlier run until it is restored.
pub(in crate::engine) struct Restoring {
    /// The leaves to decide.
    todo: VecDeque<Witness>,
    /// The number of leaves in a batch.
    batch: usize,
    /// The labels that the earlier run gave out at this switch.
    labels: Vec<LabelKey>,
    /// The time when the switch's rules became known, from itself or from the previous controller.
    read: Option<Time>,
    /// Whether the switch has reported its rules itself.
    is_confirmed: bool,
    /// The leaves to decide after the switch has reported its rules itself.
    later: Vec<Witness>,
    /// The matches and priorities of the earlier run's rules. The new table takes these priorities where it can.
    preferred: Priorities,
    /// The numbers of the routes that have rules of the earlier run in the table of routes. They keep such a rule.
    route_numbers: FxHashSet<u64>,
    /// The time when the last leaf was decided.
    decided: Option<Time>,
    /// Whether the table was built.
    is_built: bool,
    /// The time when the switch stops waiting for labels; `None` before the leaves of all switches are decided and
    /// their rules are known.
    until: Option<Time>,
    /// The number of runs that may still be repeated.
    repeats_left: usize,
    /// The time when the switch looks again whether the others are ready.
    next_look: Time,
}

impl Restoring {
    /// Begins to restore a switch. `labels`: those that the earlier run gave out there.
    pub fn new(now: Time, labels: Vec<LabelKey>, witnesses: Vec<Witness>) -> Restoring {
        let batch = (witnesses.len() / BATCHES).clamp(MIN_BATCH, MAX_BATCH);
        Restoring {
            batch,
            labels,
            read: None,
            is_confirmed: false,
            later: Vec::new(),
            preferred: Vec::new(),
            route_numbers: FxHashSet::default(),
            decided: None,
            is_built: false,
            until: None,
            repeats_left: witnesses.len() + batch,
            next_look: now,
            todo: witnesses.into(),
        }
    }

    /// Takes what has become known of the earlier run since, before the switch has reported its rules.
    pub fn extend(&mut self, labels: Vec<LabelKey>, witnesses: Vec<Witness>) {
        self.labels = labels;
        self.later.extend(witnesses);
    }

    /// Returns the labels that the earlier run gave out at this switch.
    pub fn labels(&self) -> &[LabelKey] {
        &self.labels
    }

    /// Returns the numbers of the routes that have rules of the earlier run in the table of routes.
    pub fn route_numbers(&self) -> &FxHashSet<u64> {
        &self.route_numbers
    }

    /// Takes the numbers of the routes that have rules of the earlier run in the table of routes.
    pub fn set_route_numbers(&mut self, numbers: FxHashSet<u64>) {
        self.route_numbers = numbers;
    }

    /// Reports whether the switch, or the previous controller, has reported its rules.
    pub fn are_rules_known(&self) -> bool {
        self.read.is_some()
    }

    /// Reports whether the switch has reported its rules itself.
    pub fn is_confirmed(&self) -> bool {
        self.is_confirmed
    }

    /// Takes the rules of the switch, as it reports them (`is_confirmed`) or the previous controller does. Returns
    /// whether the table was built before, and is to be built again.
    pub fn on_rules_known(&mut self, now: Time, preferred: Priorities, is_confirmed: bool) -> bool {
        (self.preferred, self.read, self.is_confirmed, self.until) = (preferred, Some(now), is_confirmed, None);
        if is_confirmed && !self.later.is_empty() {
            self.todo.extend(self.later.drain(..));
            self.repeats_left += self.todo.len();
            self.decided = None;
        }
        std::mem::take(&mut self.is_built)
    }

    /// Removes and returns the leaves to decide next. `None` if all are decided.
    pub fn next_batch(&mut self) -> Option<VecDeque<Witness>> {
        if self.decided.is_some() {
            return None;
        }
        let rest = self.todo.split_off(self.todo.len().min(self.batch));
        Some(std::mem::replace(&mut self.todo, rest))
    }

    /// Puts a leaf back to be decided again, unless too many were.
    pub fn repeat(&mut self, witness: Witness) {
        if self.repeats_left > 0 {
            self.repeats_left -= 1;
            self.todo.push_back(witness);
        }
    }

    /// Ends a batch. Returns whether all leaves are decided now.
    pub fn end_batch(&mut self, now: Time) -> bool {
        if self.todo.is_empty() {
            self.decided = Some(now);
        }
        self.todo.is_empty()
    }

    /// Returns what the switch does next. `any_waits`: routes of this switch wait for labels. `are_all_decided` says so
    /// of the leaves and rules of all switches.
    pub fn next_step(&mut self, now: Time, any_waits: bool, are_all_decided: impl FnOnce() -> bool) -> NextStep {
        let Some((decided, read)) = self.decided.zip(self.read) else { return NextStep::AwaitEarlierRun };
        let is_ready = decided.max(read);
        // f runs within a turn, and may take longer than the wait.
        if self.until.is_none() && is_ready < now && are_all_decided() {
            self.until = Some(now + MAX_LABEL_WAIT);
        }
        if self.next_look <= now {
            self.next_look = now + RESTORE_POLL;
        }
        let is_over = self.until.is_some_and(|until| until <= now) || is_ready + MAX_WAIT <= now;
        let next_look = self.next_look;
        if any_waits && !is_over {
            NextStep::AwaitLabels { next_look }
        } else if self.is_built {
            NextStep::Compare { next_look: self.is_confirmed.then_some(next_look) }
        } else {
            NextStep::Build
        }
    }

    /// Begins to build the table. Returns the priorities that its rules are to have; `None` if it was built.
    pub fn begin_build(&mut self) -> Option<Priorities> {
        (!std::mem::replace(&mut self.is_built, true)).then(|| std::mem::take(&mut self.preferred))
    }

    /// Returns the leaves that are not decided, for another restore.
    pub fn into_undecided(self) -> impl Iterator<Item = Witness> {
        self.todo.into_iter().chain(self.later)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::memory::ReadMetadata;
    use crate::network::Location;

    fn witnesses(count: usize) -> Vec<Witness> {
        let at = Location::new(maple_wire::Dpid(1), maple_wire::PortNo(1));
        let witness = Witness {
            at,
            frame: Arc::from([0; 14]),
            total_len: 14,
            extra_reads: Box::default(),
            metadata: ReadMetadata::default(),
            is_made_up: false,
        };
        vec![witness; count]
    }

    fn second(n: u64) -> Time {
        Time(n * 1_000_000_000)
    }

    /// Decides all leaves. Returns the number of batches.
    fn decide(restoring: &mut Restoring, now: Time) -> usize {
        let mut batches = 0;
        while restoring.next_batch().is_some() {
            batches += 1;
            restoring.end_batch(now);
        }
        batches
    }

    #[test]
    fn the_table_is_built_when_leaves_and_rules_are_known_and_no_route_waits() {
        let mut restoring = Restoring::new(second(0), Vec::new(), witnesses(40));
        assert!(!restoring.on_rules_known(second(1), vec![(Vec::new(), 7)], true));
        assert_eq!(restoring.next_step(second(1), false, || true), NextStep::AwaitEarlierRun, "leaves are not decided");
        assert_eq!(decide(&mut restoring, second(2)), 3);
        assert_eq!(restoring.next_step(second(2), false, || false), NextStep::Build);
        assert_eq!(restoring.begin_build(), Some(vec![(Vec::new(), 7)]));
        assert!(matches!(restoring.next_step(second(2), false, || false), NextStep::Compare { next_look: Some(_) }));
        assert_eq!(restoring.begin_build(), None, "once");
    }

    #[test]
    fn a_switch_waits_for_labels_with_two_bounds() {
        let mut restoring = Restoring::new(second(0), Vec::new(), witnesses(1));
        restoring.on_rules_known(second(1), Vec::new(), true);
        decide(&mut restoring, second(1));
        let waits = |restoring: &mut Restoring, now, all| {
            matches!(restoring.next_step(second(now), true, || all), NextStep::AwaitLabels { .. })
        };
        assert_eq!([1, 2, 10].map(|now| waits(&mut restoring, now, false)), [true; 3], "others are undecided");
        assert!(!waits(&mut restoring, 11, false), "it has waited the maximum time");
        let mut restoring = Restoring::new(second(0), Vec::new(), witnesses(1));
        restoring.on_rules_known(second(1), Vec::new(), true);
        decide(&mut restoring, second(1));
        assert_eq!([2, 3, 4].map(|now| waits(&mut restoring, now, true)), [true, true, false]);
    }

    #[test]
    fn witnesses_learned_later_are_decided_after_the_switch_has_reported_its_rules() {
        let mut restoring = Restoring::new(second(0), Vec::new(), witnesses(1));
        restoring.on_rules_known(second(1), Vec::new(), false);
        decide(&mut restoring, second(1));
        restoring.begin_build();
        restoring.extend(Vec::new(), witnesses(2));
        assert!(restoring.next_batch().is_none() && !restoring.is_confirmed());
        assert!(restoring.on_rules_known(second(2), Vec::new(), true), "it is built again");
        assert_eq!(restoring.next_batch().map(|batch| batch.len()), Some(2));
    }

    #[test]
    fn a_run_is_repeated_a_bounded_number_of_times_and_nothing_undecided_is_lost() {
        let mut restoring = Restoring::new(second(0), Vec::new(), witnesses(3));
        restoring.extend(Vec::new(), witnesses(2));
        let mut repeated = 0;
        while let Some(batch) = restoring.next_batch() {
            batch.into_iter().for_each(|witness| restoring.repeat(witness));
            repeated += 1;
            assert!(repeated < 100);
            if restoring.end_batch(second(1)) {
                break;
            }
        }
        assert_eq!(restoring.into_undecided().count(), 2, "those that become known later");
        assert_eq!(Restoring::new(second(0), Vec::new(), witnesses(3)).into_undecided().count(), 3);
    }
}
