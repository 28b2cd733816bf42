//! The queue of changed leaves on their way from the shards to the file, in memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use maple_core::ids::LeafId;
use maple_core::memory::{Surroundings, Witness};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::policy_record::PolicyRecord;
use crate::storage::known_switches::Departed;

/// The time between two writes to the file. Chosen: a crash loses the changes of at most this time, and leaves that
/// come and go within it are not written at all.
pub(super) const PERIOD: Duration = Duration::from_millis(500);
/// The maximum time that a copy waits for the file. Chosen: a write takes milliseconds; a disk that takes longer hangs,
/// and the copy goes without it.
pub(super) const COPY: Duration = Duration::from_secs(10);
/// The time for which the rows of a restored switch are kept. It must exceed several [`PERIOD`]s: by then the leaves
/// that were restored from them have rows.
pub(super) const KEEP: Duration = Duration::from_secs(10);
/// The maximum number of leaves that wait to be written. Further ones are left out, and asked for later. Chosen: a
/// bound on memory while a disk hangs.
pub(super) const MAX_PENDING: usize = 1 << 19;

/// The changes of leaves on their way to the file.
#[derive(Debug)]
pub(crate) struct LeafJournal {
    epoch: u16,
    pending: Mutex<PendingLeaves>,
    end: Condvar,
    /// Signals that something was written.
    progress: Condvar,
    /// The number of times that shards were asked to report all their leaves again.
    wanted: AtomicU64,
}

/// The newest report on some rows: the leaf, or `None` if it is gone.
pub(crate) type Rows = BTreeMap<u64, Option<Witness>>;

#[derive(Debug, Default)]
struct PendingLeaves {
    rows: Rows,
    /// Whether the thread has taken rows that are not written yet.
    is_writing: bool,
    /// The changes since the copy for another process began, while there is one.
    since_copy: Option<Rows>,
    /// Rows to be deleted, each group with its time.
    outdated: Vec<(Instant, Vec<u64>)>,
    /// The policy that runs, as JSON.
    policy: Option<String>,
    /// The number of leaves that were left out because too many wait.
    lost: u64,
    ending: bool,
}

impl LeafJournal {
    /// Creates an empty journal for a run with this epoch.
    pub fn new(epoch: u16) -> LeafJournal {
        let (pending, wanted) = (Mutex::default(), AtomicU64::new(0));
        LeafJournal { epoch, pending, end: Condvar::new(), progress: Condvar::new(), wanted }
    }

    /// Returns the row of a leaf of this run: 16 bits of the run's epoch, and the leaf's id.
    pub(super) fn row(&self, id: LeafId) -> u64 {
        u64::from(self.epoch) << 48 | id.0
    }

    /// Notes leaves of this run that came or changed, or went (`None`).
    pub fn note(&self, leaves: Vec<(LeafId, Option<Witness>)>) {
        let mut pending = self.lock();
        for (id, witness) in leaves {
            let row = self.row(id);
            if witness.is_some() && pending.rows.len() >= MAX_PENDING && !pending.rows.contains_key(&row) {
                pending.lost += 1;
                continue;
            }
            pending.change(row, witness);
        }
    }

    /// Notes that this policy runs.
    pub fn note_policy(&self, policy: &PolicyRecord) {
        // A record has only numbers and text.
        self.lock().policy = Some(serde_json::to_string(policy).unwrap_or_default());
    }

    /// Notes the leaves of a switch that has disconnected. They stay in the file.
    pub fn departed(&self, leaves: Vec<(LeafId, Witness)>, surroundings: Surroundings) -> Departed {
        let rows = leaves.iter().map(|(id, _)| self.row(*id)).collect();
        let departed = leaves.iter().map(|(_, witness)| witness.clone()).collect();
        self.note(leaves.into_iter().map(|(id, witness)| (id, Some(witness))).collect());
        Departed { leaves: departed, rows, surroundings }
    }

    /// Returns the epoch of the run.
    pub(super) fn epoch(&self) -> u16 {
        self.epoch
    }

    /// Returns the number of times that shards were asked to report all their leaves again.
    pub fn wanted(&self) -> u64 {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Asks shards to report all their leaves, because the file lacks rows. `departed` are the rows of departed
    /// switches, which no shard has.
    pub(super) fn want_all(&self, departed: Vec<(u64, Witness)>) {
        let mut pending = self.lock();
        for (row, witness) in departed {
            if pending.rows.len() < MAX_PENDING {
                pending.rows.entry(row).or_insert(Some(witness));
            }
        }
        drop(pending);
        self.wanted.fetch_add(1, Ordering::Relaxed);
    }

    /// Schedules rows for deletion after [`KEEP`]. They are needed until the leaves that were made from them have rows.
    pub fn outdate(&self, rows: Vec<u64>) {
        self.lock().outdated.push((Instant::now() + KEEP, rows));
    }

    /// Deletes rows at once, which nobody needs.
    pub(super) fn forget(&self, rows: Vec<u64>) {
        let mut pending = self.lock();
        rows.into_iter().for_each(|row| pending.change(row, None));
    }

    /// Returns the policy that runs, as JSON.
    pub(super) fn policy(&self) -> Option<String> {
        self.lock().policy.clone()
    }

    /// Makes the thread write what waits, and end.
    pub(super) fn end(&self) {
        self.lock().ending = true;
        self.end.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, PendingLeaves> {
        self.pending.lock()
    }

    /// Waits for the next time to write, after this time. Returns the rows to write, the number of leaves that were
    /// left out because too many waited, and whether this is the last time.
    pub(super) fn next(&self, period: Duration) -> (Rows, u64, bool) {
        let mut pending = self.lock();
        self.end.wait_while_for(&mut pending, |pending| !pending.ending, period);
        let now = Instant::now();
        let (due, kept) = std::mem::take(&mut pending.outdated).into_iter().partition(|(time, _)| *time <= now);
        pending.outdated = kept;
        let due: Vec<(Instant, Vec<u64>)> = due;
        due.into_iter().flat_map(|(_, rows)| rows).for_each(|row| pending.change(row, None));
        let rows = std::mem::take(&mut pending.rows);
        pending.is_writing = true;
        let lost = std::mem::take(&mut pending.lost);
        (rows, lost, pending.ending)
    }

    /// Notes that the rows taken last were written, except for these, which wait again unless a newer report waits.
    pub(super) fn wrote_all_but(&self, rows: Rows) {
        let mut pending = self.lock();
        pending.is_writing = false;
        for (row, witness) in rows {
            if pending.rows.len() < MAX_PENDING || witness.is_none() {
                pending.rows.entry(row).or_insert(witness);
            } else {
                pending.lost += 1;
            }
        }
        self.progress.notify_all();
    }

    /// Starts to note changes for a copy. Returns once everything before was written, or is noted too; `false` if that
    /// takes longer than [`COPY`].
    pub(super) fn begin_copy(&self) -> bool {
        let mut pending = self.lock();
        pending.since_copy = Some(pending.rows.clone());
        self.progress.wait_while_for(&mut pending, |pending| pending.is_writing, COPY);
        !pending.is_writing
    }

    /// Stops noting changes for a copy. Returns those since it began; `None` if there were too many.
    pub fn end_copy(&self) -> Option<Rows> {
        self.lock().since_copy.take()
    }
}

impl PendingLeaves {
    fn change(&mut self, row: u64, witness: Option<Witness>) {
        if let Some(since) = &mut self.since_copy {
            since.insert(row, witness.clone());
            if since.len() > MAX_PENDING {
                self.since_copy = None;
            }
        }
        self.rows.insert(row, witness);
    }
}
