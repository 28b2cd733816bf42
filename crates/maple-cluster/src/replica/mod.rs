//! One member's copy of the tracked state: the master writes each commit to the store, and standbys follow.
//!
//! ```text
//!            ┌──────────── Lead ───────────► takes over ── it has all that was written before ──► leads
//!   follows ─┤                                   ▲                                                  │
//!            └◄── Follow ────────────────────────┴── Lead, in a later generation ── Follow ◄────────┘
//! ```
//!
//! # How
//!
//! The owner's state is a set of rows. Every commit of the master becomes a *batch*: one transaction of the store with
//! the rows that it changes. Several commits may share a batch, and none is in two. A batch also writes the *head*,
//! which says whose batch this is and which one, and it takes effect only if
//!
//! 1. the key of mastership is the one by which the member became master: its generation, and
//! 2. the head is what this master has seen last.
//!
//! # Why it is correct
//!
//! *One writer.* By the first condition nothing is written in a generation after another one has begun. So a master
//! that has read everything at the revision of its own key, or later, has everything of which former ones were notified
//! that it is written, and nothing is added to that. It leads only then ([`ReplicaAction::Ready`]).
//!
//! *In order.* A batch whose outcome is not known is sent again as it was, and may arrive twice, or long after. By the
//! second condition one copy takes effect at most, and none after a later batch: it can't overwrite that with old rows.
//! A batch that is refused because its own copy has arrived is known by the head.
//!
//! *Nothing is confirmed before it is there.* [`ReplicaAction::Confirmed`] follows the store's answer only. What was
//! committed and not confirmed when the mastership ends is given up ([`ReplicaAction::Lost`]): the owner then takes
//! what the store has instead ([`ReplicaAction::Replace`]), also if that is what was given up.
//!
//! *Standbys miss nothing.* Each batch writes the head, so the head's revision says whether a copy is current. A
//! standby that has missed changes reads everything.
//!
//! A store without state is given the first master's, in several batches. The last of them says that it is complete;
//! before that nobody reads any of it, and another master begins anew.

mod head;
mod messages;

use std::collections::{BTreeMap, VecDeque};

use crate::keys::{ClusterKeys, Record};
use crate::member::Time;
use crate::view::Change;
use head::{Head, HeadError};
pub use messages::{
    ChangedRows, CommitRows, Gate, KeyAtRevision, MAX_BYTES, MAX_ROWS, ReplicaAction, ReplicaEvent, ReplicaOptions,
    StateBatch,
};

/// The knowledge of the store's state.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Copy {
    /// Nothing: read everything.
    Unknown,
    /// The state is not there yet, or not all of it. The revision is that of the head, 0 without one.
    None(u64),
    /// The owner has the rows of the head with this revision.
    At(u64),
    /// The owner is given the rows of the head with this revision.
    Giving(u64),
    /// The rows in the store can't be used.
    Unreadable,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Role {
    Follows,
    /// Master by the store, and not asked to lead.
    Takes {
        generation: u64,
        /// The revision of the head that the copy must have, and until when the watch may report it.
        wanted: Option<(u64, Time)>,
    },
    Leads {
        generation: u64,
        /// The revision of the latest head.
        head: u64,
        /// The number of the latest batch in this generation.
        sequence: u64,
    },
    /// The store says that the mastership is over. What comes instead, the member will say.
    Deposed,
}

/// The writes that wait to be sent, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Waiting {
    /// The latest commit that it has; none if it is of the first state.
    version: Option<u64>,
    rows: ChangedRows,
    /// Whether all rows that are there are deleted before.
    clears: bool,
    /// Whether the store's state is complete after it.
    completes: bool,
}

/// The request that the store has not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplicaRequest {
    ReadAll,
    ReadHead,
    Write,
}

/// One member's copy of the tracked state.
#[derive(Clone, Debug)]
pub struct Replica {
    options: ReplicaOptions,
    keys: ClusterKeys,
    role: Role,
    copy: Copy,
    is_watching: bool,
    open: Option<ReplicaRequest>,
    /// The earliest time of the next request, after one failed.
    quiet_until: Time,
    queue: VecDeque<Waiting>,
    /// The batch whose outcome is not known, with its head and the latest commit that it has.
    in_flight: Option<(StateBatch, Head, Option<u64>)>,
    /// The latest commit of the owner that is not settled.
    unsettled: Option<u64>,
    /// Whether the store did not answer the latest batch.
    is_stalled: bool,
    store_answers: bool,
    /// The news that the owner had last.
    gate: Gate,
    /// The generation in which the owner was asked to lead.
    reported: Option<u64>,
}

impl Replica {
    /// Creates a copy. It begins with the first event, which is [`ReplicaEvent::Woken`]. The owner may not commit until
    /// it is notified.
    pub fn new(options: ReplicaOptions) -> Replica {
        let keys = ClusterKeys::new(&options.cluster);
        Replica {
            options,
            keys,
            role: Role::Follows,
            copy: Copy::Unknown,
            is_watching: false,
            open: None,
            quiet_until: Time::ZERO,
            queue: VecDeque::new(),
            in_flight: None,
            unsettled: None,
            is_stalled: false,
            store_answers: true,
            gate: Gate::NotMaster,
            reported: None,
        }
    }

    /// Returns when [`ReplicaEvent::Woken`] is due, if nothing comes before.
    pub fn wakes_at(&self) -> Option<Time> {
        let request = (self.open.is_none() && self.next_request().is_some()).then_some(self.quiet_until);
        let patience = match self.role {
            Role::Takes { wanted: Some((_, until)), .. } if matches!(self.copy, Copy::At(_)) => Some(until),
            _ => None,
        };
        request.into_iter().chain(patience).min()
    }

    /// Takes an event. Returns what is to be done, in this order.
    pub fn on_event(&mut self, now: Time, event: ReplicaEvent) -> Vec<ReplicaAction> {
        let mut out = Vec::new();
        match event {
            ReplicaEvent::Woken => {}
            ReplicaEvent::Lead(generation) => self.on_lead(generation),
            ReplicaEvent::Follow => self.on_follow(&mut out),
            ReplicaEvent::StoreAnswers(answers) => self.store_answers = answers,
            ReplicaEvent::Read { records, revision } => self.on_read(records, revision, &mut out),
            ReplicaEvent::Head { record, revision } => self.on_head(now, record.as_ref(), revision),
            ReplicaEvent::Committed(revision) => self.on_committed(revision, &mut out),
            ReplicaEvent::Refused { master, head } => self.on_refused(master, head.as_ref(), &mut out),
            ReplicaEvent::Failed => {
                self.is_stalled |= self.open == Some(ReplicaRequest::Write);
                self.open = None;
                self.quiet_until = now + self.options.retry;
            }
            ReplicaEvent::Changed(changes) => self.on_changed(changes, &mut out),
            ReplicaEvent::Missed => {
                self.is_watching = false;
                self.read_anew();
            }
            ReplicaEvent::Committing(commit) => self.on_committing(commit),
            ReplicaEvent::Held => {
                if let Copy::Giving(head) = self.copy {
                    self.copy = Copy::At(head);
                }
            }
            ReplicaEvent::Unusable(why) => {
                self.copy = Copy::Unreadable;
                out.push(ReplicaAction::Unreadable(why));
            }
            ReplicaEvent::Contents(rows) => self.on_contents(rows),
        }
        self.take_over(now, &mut out);
        let gate = self.gate();
        if std::mem::replace(&mut self.gate, gate) != gate {
            out.push(ReplicaAction::Gate(gate));
        }
        if self.open.is_none()
            && now >= self.quiet_until
            && let Some(request) = self.next_request()
        {
            self.open = Some(request);
            out.push(self.action(request));
        }
        out
    }

    fn on_lead(&mut self, generation: u64) {
        self.end_mastery();
        self.role = Role::Takes { generation, wanted: None };
    }

    fn on_follow(&mut self, out: &mut Vec<ReplicaAction>) {
        self.end_mastery();
        self.role = Role::Follows;
        self.reported = None;
        match self.copy {
            _ if self.is_watching => {}
            Copy::At(head) => self.watch(head + 1, out),
            _ => self.copy = Copy::Unknown,
        }
    }

    /// Notes what a master that leads no longer has of the store.
    fn end_mastery(&mut self) {
        if let Role::Leads { head, .. } = self.role {
            let is_written = self.unsettled.is_none() && self.in_flight.is_none() && self.queue.is_empty();
            self.copy = if is_written { Copy::At(head) } else { Copy::Unknown };
        }
        self.is_stalled = false;
    }

    /// Forgets what the copy is, unless this master is the one that writes.
    fn read_anew(&mut self) {
        if !matches!(self.role, Role::Leads { .. }) {
            self.copy = Copy::Unknown;
        }
    }

    fn on_committing(&mut self, commit: CommitRows) {
        self.unsettled = Some(commit.version);
        let CommitRows { version, rows } = commit;
        self.queue.push_back(Waiting { version: Some(version), rows, clears: false, completes: true });
        // It was made before the owner knew that it may not. So its state has more than the store.
        self.read_anew();
    }

    fn on_read(&mut self, records: Vec<Record>, revision: u64, out: &mut Vec<ReplicaAction>) {
        self.open = None;
        match self.role {
            Role::Follows => {}
            Role::Takes { generation, .. } if revision >= generation => {}
            // It is to be read at this revision at least.
            Role::Takes { .. } | Role::Leads { .. } | Role::Deposed => return,
        }
        let key = self.keys.head();
        let (heads, rows): (Vec<_>, Vec<_>) = records.into_iter().partition(|record| record.key == key);
        match Head::of(heads.first(), &self.options.format) {
            Err(error) => self.unreadable(error, out),
            Ok(head) if !head.is_complete => self.copy = Copy::None(heads.first().map_or(0, |head| head.revision)),
            Ok(_) => {
                let at = heads.first().map_or(0, |head| head.revision);
                self.settle(out);
                self.copy = Copy::Giving(at);
                let prefix = self.keys.rows().len();
                let rows = rows.into_iter().map(|row| (row.key[prefix.min(row.key.len())..].to_vec(), row.value));
                out.push(ReplicaAction::Replace(rows.collect()));
            }
        }
        match &mut self.role {
            Role::Takes { wanted, .. } => *wanted = Some((heads.first().map_or(0, |head| head.revision), Time::ZERO)),
            _ => self.watch(revision + 1, out),
        }
    }

    fn unreadable(&mut self, error: HeadError, out: &mut Vec<ReplicaAction>) {
        self.copy = Copy::Unreadable;
        out.push(ReplicaAction::Unreadable(error.to_string()));
    }

    fn watch(&mut self, from: u64, out: &mut Vec<ReplicaAction>) {
        self.is_watching = true;
        out.push(ReplicaAction::Watch { prefix: self.keys.state(), from });
    }

    /// Gives up what is not confirmed.
    fn settle(&mut self, out: &mut Vec<ReplicaAction>) {
        self.queue.clear();
        self.in_flight = None;
        self.is_stalled = false;
        out.extend(self.unsettled.take().map(ReplicaAction::Lost));
    }

    fn on_head(&mut self, now: Time, record: Option<&Record>, revision: u64) {
        self.open = None;
        let Role::Takes { generation, wanted } = &mut self.role else { return };
        if revision < *generation {
            return;
        }
        let head = record.map_or(0, |record| record.revision);
        match self.copy {
            Copy::At(at) | Copy::None(at) if at == head => *wanted = Some((head, now)),
            Copy::At(_) if self.is_watching => *wanted = Some((head, now + self.options.patience)),
            _ => self.copy = Copy::Unknown,
        }
    }

    /// Lets the owner lead if it has everything.
    fn take_over(&mut self, now: Time, out: &mut Vec<ReplicaAction>) {
        let Role::Takes { generation, wanted } = self.role else { return };
        match (&self.copy, wanted) {
            (Copy::At(at), Some((head, _))) if *at >= head => {
                let head = *at;
                self.lead(generation, head, out);
            }
            (Copy::At(_), Some((_, until))) if now >= until => {
                self.copy = Copy::Unknown;
                self.role = Role::Takes { generation, wanted: None };
            }
            (Copy::None(at), Some(_)) => {
                let head = *at;
                self.settle(out);
                // Before the owner may commit.
                out.push(ReplicaAction::Adopt);
                self.lead(generation, head, out);
            }
            _ => {}
        }
    }

    fn lead(&mut self, generation: u64, head: u64, out: &mut Vec<ReplicaAction>) {
        self.role = Role::Leads { generation, head, sequence: 0 };
        self.is_stalled = false;
        if std::mem::take(&mut self.is_watching) {
            out.push(ReplicaAction::Unwatch);
        }
        if self.reported.replace(generation) != Some(generation) {
            out.push(ReplicaAction::Ready(generation));
        }
    }

    fn on_committed(&mut self, revision: u64, out: &mut Vec<ReplicaAction>) {
        self.open = None;
        let Some((batch, _, version)) = self.in_flight.take() else { return };
        self.confirm(version, out);
        match &mut self.role {
            // It was in time, whoever is master now.
            Role::Leads { generation, head, .. } if *generation == batch.master.revision => {
                (*head, self.is_stalled) = (revision, false);
            }
            _ => self.read_anew(),
        }
    }

    fn confirm(&mut self, version: Option<u64>, out: &mut Vec<ReplicaAction>) {
        let Some(version) = version else { return };
        out.push(ReplicaAction::Confirmed(version));
        self.unsettled = self.unsettled.filter(|latest| *latest > version);
    }

    fn on_refused(&mut self, master: u64, found: Option<&Record>, out: &mut Vec<ReplicaAction>) {
        self.open = None;
        let Some((_, sent, version)) = &self.in_flight else { return };
        let version = *version;
        // A copy of it was in time, before the mastership ended or since.
        let is_there = found.is_some_and(|record| Head::parse(&record.value, &self.options.format) == Ok(*sent));
        if is_there {
            self.in_flight = None;
            self.confirm(version, out);
        }
        let revision = found.map_or(0, |record| record.revision);
        match &mut self.role {
            Role::Leads { generation, head, .. } if *generation == master && is_there => {
                (*head, self.is_stalled) = (revision, false);
            }
            // Somebody else has written, who is not a member.
            Role::Leads { generation, .. } if *generation == master => {
                self.role = Role::Takes { generation: *generation, wanted: None };
                self.copy = Copy::Unknown;
            }
            Role::Leads { .. } => {
                self.role = Role::Deposed;
                self.copy = Copy::Unknown;
            }
            Role::Follows | Role::Takes { .. } | Role::Deposed => {}
        }
    }

    fn on_changed(&mut self, changes: Vec<Change>, out: &mut Vec<ReplicaAction>) {
        if matches!(self.role, Role::Leads { .. }) {
            return;
        }
        let (key, prefix) = (self.keys.head(), self.keys.rows());
        let (mut rows, mut head) = (ChangedRows::new(), None);
        let known = match self.copy {
            Copy::At(head) | Copy::None(head) => head,
            Copy::Unknown | Copy::Giving(_) | Copy::Unreadable => 0,
        };
        for change in changes {
            let (changed, record, revision) = match change {
                Change::Put { record, revision } => (record.key.clone(), Some(record), revision),
                Change::Delete { key, revision } => (key, None, revision),
            };
            if revision <= known {
                continue;
            }
            if changed == key {
                head = Some((record, revision));
            } else if let Some(row) = changed.strip_prefix(&prefix[..]) {
                rows.insert(row.to_vec(), record.map(|record| record.value));
            }
        }
        let Some((record, revision)) = head else { return };
        let reported = Head::of(record.as_ref(), &self.options.format);
        match (&self.copy, reported) {
            (Copy::Unknown | Copy::Giving(_), _) => {}
            (Copy::At(_), Ok(head)) if head.is_complete => {
                self.copy = Copy::Giving(revision);
                out.push(ReplicaAction::Apply(rows));
            }
            // Whoever begins anew reports everything with the last part.
            (Copy::None(_), Ok(head)) if !head.is_complete => self.copy = Copy::None(revision),
            _ => self.read_anew(),
        }
    }

    fn on_contents(&mut self, rows: BTreeMap<Vec<u8>, Vec<u8>>) {
        let mut parts = vec![Waiting { clears: true, ..Waiting::default() }];
        let mut part = Waiting::default();
        let mut bytes = 0;
        for (key, value) in rows {
            bytes += key.len() + value.len();
            if part.rows.len() == MAX_ROWS || bytes > MAX_BYTES && !part.rows.is_empty() {
                bytes = key.len() + value.len();
                parts.push(std::mem::take(&mut part));
            }
            part.rows.insert(key, Some(value));
        }
        part.completes = true;
        parts.push(part);
        // Commits come later: the owner may not commit before this.
        self.queue = parts.into();
    }

    fn gate(&self) -> Gate {
        match self.role {
            Role::Follows | Role::Deposed => Gate::NotMaster,
            Role::Takes { .. } => Gate::TakesOver,
            Role::Leads { .. } if self.is_stalled || !self.store_answers => Gate::StoreAway,
            Role::Leads { .. } => Gate::Open,
        }
    }

    /// Returns what the store is to be asked next.
    fn next_request(&self) -> Option<ReplicaRequest> {
        match (&self.role, &self.copy) {
            (Role::Leads { .. }, _) => {
                (self.in_flight.is_some() || !self.queue.is_empty()).then_some(ReplicaRequest::Write)
            }
            (Role::Deposed, _) => None,
            (_, Copy::Unknown) => Some(ReplicaRequest::ReadAll),
            (Role::Takes { wanted: None, .. }, Copy::At(_) | Copy::None(_)) => Some(ReplicaRequest::ReadHead),
            _ => None,
        }
    }

    fn action(&mut self, request: ReplicaRequest) -> ReplicaAction {
        match request {
            ReplicaRequest::ReadAll => ReplicaAction::ReadAll(self.keys.state()),
            ReplicaRequest::ReadHead => ReplicaAction::ReadHead(self.keys.head()),
            ReplicaRequest::Write => ReplicaAction::Write(self.batch()),
        }
    }

    /// Returns the batch to be sent: again the one whose outcome is not known, or what waits.
    fn batch(&mut self) -> StateBatch {
        if let Some((batch, ..)) = &self.in_flight {
            return batch.clone();
        }
        let waiting = self.next_waiting();
        let Role::Leads { generation, head, sequence } = &mut self.role else {
            unreachable!("only a master that leads writes")
        };
        *sequence += 1;
        let says = Head { generation: *generation, sequence: *sequence, is_complete: waiting.completes };
        let rows = waiting.rows.into_iter().map(|(key, value)| ([&self.keys.rows()[..], &key].concat(), value));
        let batch = StateBatch {
            master: KeyAtRevision { key: self.keys.master(), revision: *generation },
            head: KeyAtRevision { key: self.keys.head(), revision: *head },
            value: says.text(&self.options.format),
            clears: waiting.clears.then(|| self.keys.rows()),
            rows: rows.collect(),
        };
        self.in_flight = Some((batch.clone(), says, waiting.version));
        batch
    }

    /// Takes from the queue what goes into one batch.
    fn next_waiting(&mut self) -> Waiting {
        let mut taken = self.queue.pop_front().unwrap_or_default();
        if taken.version.is_none() {
            return taken;
        }
        let size = |rows: &ChangedRows| -> usize {
            rows.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, Vec::len)).sum()
        };
        let mut bytes = size(&taken.rows);
        while let Some(next) = self.queue.front() {
            let new = next.rows.keys().filter(|key| !taken.rows.contains_key(*key)).count();
            bytes += size(&next.rows);
            if taken.rows.len() + new > MAX_ROWS || bytes > MAX_BYTES {
                break;
            }
            let next = self.queue.pop_front().unwrap_or_default();
            taken.version = next.version;
            taken.rows.extend(next.rows);
        }
        taken
    }
}

#[cfg(test)]
mod tests;
