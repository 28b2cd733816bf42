//! The tracked state of members: what they commit, what is confirmed to them, and what they have.

use std::collections::BTreeMap;

use maple_cluster::{CommitRows, Gate, Replica, ReplicaAction, ReplicaEvent, ReplicaOptions};

use super::{Asker, Coming, MS, Notice, World};
use crate::faults::Plant;
use crate::store::{Answer, Ask, State, number};

/// The state that a member owns in one of its lives.
pub struct Owner {
    pub replica: Replica,
    pub state: State,
    pub may_commit: bool,
    /// The time when its copy will be woken.
    pub wake: Option<maple_cluster::Time>,
    /// The number of the watch, and the next revision that it wants.
    pub watch: (u64, u64),
    /// The commits that are neither confirmed nor given up, by their version.
    unsettled: BTreeMap<u64, Changed>,
    /// The position, in all states that there were, of the one that it had last as a standby.
    seen: usize,
}

/// The changes of a commit: rows with their numbers, and rows that were deleted for good.
#[derive(Clone, Debug, Default)]
struct Changed {
    put: BTreeMap<Vec<u8>, u64>,
    deleted: Vec<Vec<u8>>,
}

/// The commits of all members that were confirmed.
#[derive(Debug, Default)]
pub struct Confirmed {
    /// The number of the latest write of each row.
    rows: BTreeMap<Vec<u8>, u64>,
    deleted: Vec<Vec<u8>>,
}

impl Owner {
    pub fn new() -> Owner {
        let options = ReplicaOptions { cluster: "c".into(), format: "2".into(), retry: 300 * MS, patience: 500 * MS };
        Owner {
            replica: Replica::new(options),
            // What its policy wrote before it joined.
            state: State::from([(b"k0".to_vec(), b"0".to_vec())]),
            may_commit: false,
            wake: None,
            watch: (0, 0),
            unsettled: BTreeMap::new(),
            seen: 0,
        }
    }
}

impl World {
    /// Commits something, if the member may.
    pub(super) fn commit(&mut self, at: usize) {
        if self.nodes[at].owner.as_ref().is_some_and(|owner| owner.may_commit) {
            self.commit_now(at);
        }
    }

    fn commit_now(&mut self, at: usize) {
        self.serial += 1;
        let (version, count) = (self.serial, self.random.usize(1..=3));
        let plants = self.plants.clone();
        let Some(owner) = &mut self.nodes[at].owner else { return };
        let (mut rows, mut changed) = (BTreeMap::new(), Changed::default());
        for _ in 0..count {
            let key = format!("k{}", self.random.u8(..6)).into_bytes();
            changed.put.insert(key.clone(), version);
            rows.insert(key, Some(version.to_string().into_bytes()));
        }
        // A row of its own, and one that goes and never comes again.
        let own = format!("d{version}").into_bytes();
        rows.insert(own, Some(version.to_string().into_bytes()));
        let goes = owner.state.keys().find(|key| key.starts_with(b"d")).cloned();
        if let Some(goes) = goes.filter(|_| self.random.bool()) {
            changed.deleted.push(goes.clone());
            rows.insert(goes, None);
        }
        for (key, value) in rows.clone() {
            match value {
                Some(value) => drop(owner.state.insert(key, value)),
                None => drop(owner.state.remove(&key)),
            }
        }
        owner.unsettled.insert(version, changed);
        self.counts.commits += 1;
        self.replica_event(at, ReplicaEvent::Committing(CommitRows { version, rows }));
        if plants.contains(&Plant::ConfirmsAtOnce) {
            self.confirm(at, version);
        }
    }

    pub(super) fn replica_event(&mut self, at: usize, event: ReplicaEvent) {
        let now = self.now;
        let Some(owner) = &mut self.nodes[at].owner else { return };
        for action in owner.replica.on_event(now, event) {
            if self.trace {
                println!("{now:?}   n{at} {action:?}");
            }
            self.act_on_state(at, action);
        }
        self.schedule_replica(at);
    }

    pub(super) fn replica_answer(&mut self, at: usize, answer: Answer) {
        let event = match answer {
            Answer::Read { records, revision } => ReplicaEvent::Read { records, revision },
            Answer::Key { record, revision } => ReplicaEvent::Head { record, revision },
            Answer::Transacted(revision) => ReplicaEvent::Committed(revision),
            Answer::NotTransacted { master, head } => ReplicaEvent::Refused { master, head },
            other => return self.fail(format!("n{at} has not asked for {other:?}")),
        };
        self.replica_event(at, event);
    }

    fn act_on_state(&mut self, at: usize, action: ReplicaAction) {
        let life = self.nodes[at].life;
        let plants = self.plants.clone();
        let Some(owner) = &mut self.nodes[at].owner else { return };
        match action {
            ReplicaAction::ReadAll(prefix) => self.ask_of(at, Asker::Replica, Ask::Read(prefix)),
            ReplicaAction::ReadHead(key) => self.ask_of(at, Asker::Replica, Ask::ReadKey(key)),
            ReplicaAction::Write(batch) => self.ask_of(at, Asker::Replica, Ask::Transact(batch)),
            ReplicaAction::Watch { from, .. } => {
                owner.watch = (owner.watch.0 + 1, from);
                let number = owner.watch.0;
                self.after(MS, Coming::Notice { node: at, life, what: Notice::WatchState(number) });
            }
            ReplicaAction::Unwatch => owner.watch.0 += 1,
            ReplicaAction::Replace(rows) => {
                if !plants.contains(&Plant::KeepsWhatIsLost) {
                    owner.state = rows;
                }
                self.check_seen(at);
                self.replica_event(at, ReplicaEvent::Held);
            }
            ReplicaAction::Apply(rows) => {
                for (position, (key, value)) in rows.into_iter().enumerate() {
                    if position > 0 && plants.contains(&Plant::AppliesInParts) {
                        self.check_seen(at);
                    }
                    let Some(owner) = &mut self.nodes[at].owner else { return };
                    match value {
                        Some(value) => drop(owner.state.insert(key, value)),
                        None => drop(owner.state.remove(&key)),
                    }
                }
                self.check_seen(at);
                self.replica_event(at, ReplicaEvent::Held);
            }
            ReplicaAction::Adopt => {
                let rows = owner.state.clone();
                self.replica_event(at, ReplicaEvent::Contents(rows));
            }
            ReplicaAction::Ready(generation) => {
                if !plants.contains(&Plant::LeadsWithoutReading) {
                    self.check_ready(at, generation);
                    self.lead(at, generation);
                }
            }
            ReplicaAction::Confirmed(version) => self.confirm(at, version),
            ReplicaAction::Lost(version) => {
                owner.unsettled = owner.unsettled.split_off(&(version + 1));
            }
            ReplicaAction::Gate(gate) => {
                let before = std::mem::replace(&mut owner.may_commit, gate == Gate::Open);
                // Another thread was about to.
                if before && gate != Gate::Open && self.random.u8(..4) == 0 {
                    self.commit_now(at);
                }
            }
            ReplicaAction::Unreadable(why) => self.fail(format!("n{at} can't read the state: {why}")),
        }
    }

    fn schedule_replica(&mut self, at: usize) {
        let (now, life) = (self.now, self.nodes[at].life);
        let Some(owner) = &mut self.nodes[at].owner else { return };
        let Some(wakes) = owner.replica.wakes_at() else { return };
        let wakes = wakes.max(now + MS);
        if owner.wake.is_none_or(|wake| wakes < wake) {
            owner.wake = Some(wakes);
            self.at(wakes, Coming::Notice { node: at, life, what: Notice::WakeReplica });
        }
    }

    fn confirm(&mut self, at: usize, version: u64) {
        let Some(owner) = &mut self.nodes[at].owner else { return };
        let later = owner.unsettled.split_off(&(version + 1));
        let Some(newest) = self.store.tracked.states.last() else {
            return self.fail(format!("n{at} was confirmed {version}, and nothing is written"));
        };
        for changed in std::mem::replace(&mut owner.unsettled, later).into_values() {
            for (key, by) in changed.put {
                let latest = self.confirmed.rows.entry(key).or_default();
                *latest = by.max(*latest);
            }
            self.confirmed.deleted.extend(changed.deleted);
            self.counts.confirmed += 1;
        }
        let lost = self.confirmed.missing(newest);
        if let Some(lost) = lost {
            self.fail(format!("n{at} was confirmed {version}: {lost}"));
        }
    }

    /// Checks that the rows of a standby are a state that there was, and none from before the one that it had.
    fn check_seen(&mut self, at: usize) {
        let Some(owner) = &mut self.nodes[at].owner else { return };
        match self.store.tracked.states.iter().rposition(|state| *state == owner.state) {
            Some(position) if position >= owner.seen => owner.seen = position,
            Some(position) => {
                let seen = owner.seen;
                self.fail(format!("n{at} goes from state {seen} back to {position}"));
            }
            None => {
                let state = owner.state.clone();
                self.fail(format!("n{at} has rows that there never were at one time: {state:?}"));
            }
        }
    }

    /// Checks that a member that is about to lead has what the store has.
    pub(super) fn check_ready(&mut self, at: usize, generation: u64) {
        let is_latest = self.store.keys.get(&b"c/master"[..]).is_some_and(|record| record.revision == generation);
        let Some(owner) = &self.nodes[at].owner else { return };
        let Some(newest) = self.store.tracked.states.last() else { return };
        if is_latest && owner.state != *newest {
            let state = owner.state.clone();
            self.fail(format!("n{at} leads with {state:?}, and the store has {:?}", self.store.tracked.states.last()));
        }
    }

    /// Checks that all members have the same rows at rest, and that nothing is lost.
    pub(super) fn check_state_at_rest(&mut self, master: usize) {
        let Some(newest) = self.store.tracked.states.last().cloned() else {
            return self.fail("there is no state".into());
        };
        if self.store.rows() != newest {
            return self.fail("the rows at rest are not those of the latest batch".into());
        }
        if let Some(lost) = self.confirmed.missing(&newest) {
            return self.fail(format!("at rest {lost}"));
        }
        for at in 0..self.nodes.len() {
            let Some(owner) = &self.nodes[at].owner else { continue };
            if owner.state != newest || owner.may_commit != (at == master) || !owner.unsettled.is_empty() {
                let (may, unsettled) = (owner.may_commit, owner.unsettled.keys().collect::<Vec<_>>());
                let why = format!("n{at} at rest: may commit {may}, waits for {unsettled:?}, has {:?}", owner.state);
                return self.fail(format!("{why}, and the store has {newest:?}"));
            }
        }
    }
}

impl Confirmed {
    /// Returns what was confirmed and is not in this state.
    fn missing(&self, state: &State) -> Option<String> {
        let is_there = |key: &[u8], by: u64| state.get(key).is_some_and(|value| number(value) >= by);
        let lost = self.rows.iter().find(|(key, by)| !is_there(key, **by));
        let lost = lost.map(|(key, by)| format!("write {by} of {} was confirmed and is lost", key.escape_ascii()));
        lost.or_else(|| {
            let back = self.deleted.iter().find(|key| state.contains_key(*key))?;
            Some(format!("{} was deleted and is back", back.escape_ascii()))
        })
    }
}
