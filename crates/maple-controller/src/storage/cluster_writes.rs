//! Tables and variables of a cluster: commits on their way to etcd, and the rows that are there.
//!
//! Each commit passes its writes to [`ClusterWrites`], in the order of commits, under the store's lock. The thread of
//! the cluster takes them from there. Whoever waits for a commit is notified when etcd has it, when it is given up, and
//! as soon as it is known that this takes longer. What waits is bounded: beyond the bounds the store takes no more
//! ([`CommitLimits::set_full`]).
//!
//! A row is as in the state file: the cell, and its value ([`format`](mod@super::format)).

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use maple_cluster::{ChangedRows, CommitRows, MAX_BYTES, MAX_ROWS};
use maple_core::state::{Cell, CommitLimits, Journal, Snapshot, Value, Write};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::format::{bytes, read};

/// The reason why there are limits, for people.
const LIMITS: &str = "in a cluster, since etcd takes 128 operations and 1.5 MiB in one";
/// The maximum number of commits that wait for etcd, and of their bytes. Chosen: a bound on memory, far above what
/// waits while etcd answers.
const MAX_WAITING: (usize, usize) = (20_000, 32 << 20);
/// The maximum number of ranges of commits that were given up that are remembered. Chosen: commits that are given up
/// at once make one range, and whoever still waits for a commit waits for one of the newest.
const MAX_LOST: usize = 1_000;

/// Commits on their way to etcd.
pub(crate) struct ClusterWrites {
    limits: Arc<CommitLimits>,
    waiting: Mutex<WaitingCommits>,
    /// Signals that something was confirmed, given up, or will take longer.
    progress: Condvar,
}

#[derive(Default)]
struct WaitingCommits {
    /// Those that the thread has not taken.
    new: Vec<CommitRows>,
    /// The version and the size of each that is neither confirmed nor given up.
    sizes: VecDeque<(u64, usize)>,
    /// The sum of these sizes.
    bytes: usize,
    /// The latest commit that is confirmed, with all earlier ones that were not given up.
    confirmed: u64,
    /// The commits that were given up.
    lost: VecDeque<RangeInclusive<u64>>,
    /// The latest commit of those whose outcome is not known any more.
    forgotten: u64,
    /// Whether etcd takes commits at once, as far as is known.
    is_open: bool,
    /// The function that notifies the thread that there is something to take.
    look: Option<Box<dyn Fn() + Send>>,
}

/// The outcome of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// etcd has it.
    Confirmed,
    /// The commit was given up.
    Lost,
    /// The outcome is not known yet.
    Unknown,
}

impl ClusterWrites {
    pub fn new() -> ClusterWrites {
        let limits = Arc::new(CommitLimits::new(MAX_ROWS, MAX_BYTES, LIMITS));
        ClusterWrites { limits, waiting: Mutex::default(), progress: Condvar::new() }
    }

    /// Returns the limits of the store that is to be opened.
    pub fn limits(&self) -> &Arc<CommitLimits> {
        &self.limits
    }

    /// Sets the function that notifies the thread that there is something to take.
    pub fn notify_by(&self, look: impl Fn() + Send + 'static) {
        self.lock().look = Some(Box::new(look));
    }

    /// Takes the new commits.
    pub fn take(&self) -> Vec<CommitRows> {
        std::mem::take(&mut self.lock().new)
    }

    /// Notes whether etcd takes commits at once.
    pub fn set_open(&self, is_open: bool) {
        self.lock().is_open = is_open;
        self.progress.notify_all();
    }

    /// Notes that etcd has the commits up to this one.
    pub fn confirm(&self, version: u64) {
        self.settle(version, |waiting| waiting.confirmed = version);
    }

    /// Notes that the commits up to this one that are not confirmed were given up.
    pub fn lose(&self, version: u64) {
        self.settle(version, |waiting| {
            waiting.lost.push_back(waiting.confirmed + 1..=version);
            if waiting.lost.len() > MAX_LOST
                && let Some(oldest) = waiting.lost.pop_front()
            {
                waiting.forgotten = *oldest.end();
            }
        });
    }

    fn settle(&self, version: u64, note: impl FnOnce(&mut WaitingCommits)) {
        let mut waiting = self.lock();
        note(&mut waiting);
        while waiting.sizes.front().is_some_and(|(of, _)| *of <= version) {
            waiting.bytes -= waiting.sizes.pop_front().map_or(0, |(_, bytes)| bytes);
        }
        if waiting.sizes.len() <= MAX_WAITING.0 / 2 && waiting.bytes <= MAX_WAITING.1 / 2 {
            self.limits.set_full(false);
        }
        drop(waiting);
        self.progress.notify_all();
    }

    /// Waits until it is known what became of a commit, at most `timeout`. Returns at once if etcd takes none at
    /// present.
    pub fn wait(&self, version: u64, timeout: Duration) -> Outcome {
        let deadline = Instant::now() + timeout;
        let mut waiting = self.lock();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match waiting.outcome(version) {
                Outcome::Unknown if waiting.is_open && version > waiting.forgotten && !left.is_zero() => {
                    self.progress.wait_for(&mut waiting, left);
                }
                outcome => return outcome,
            }
        }
    }

    /// Waits until nothing waits for etcd, at most `timeout`.
    pub fn wait_for_all(&self, timeout: Duration) {
        let waits = |waiting: &mut WaitingCommits| waiting.is_open && !waiting.sizes.is_empty();
        self.progress.wait_while_for(&mut self.lock(), waits, timeout);
    }

    fn lock(&self) -> MutexGuard<'_, WaitingCommits> {
        self.waiting.lock()
    }
}

impl WaitingCommits {
    fn outcome(&self, version: u64) -> Outcome {
        if version <= self.forgotten {
            Outcome::Unknown
        } else if self.lost.iter().any(|range| range.contains(&version)) {
            Outcome::Lost
        } else if version <= self.confirmed {
            Outcome::Confirmed
        } else {
            Outcome::Unknown
        }
    }
}

impl Journal for ClusterWrites {
    fn append(&self, version: u64, writes: &[Write]) {
        let rows: ChangedRows = writes.iter().filter_map(row).collect();
        let size = rows.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, Vec::len)).sum();
        let mut waiting = self.lock();
        waiting.new.push(CommitRows { version, rows });
        waiting.sizes.push_back((version, size));
        waiting.bytes += size;
        if waiting.sizes.len() > MAX_WAITING.0 || waiting.bytes > MAX_WAITING.1 {
            self.limits.set_full(true);
        }
        if let Some(look) = &waiting.look {
            look();
        }
    }
}

/// Returns the row of a write; `None` if it is not of a table or a variable.
fn row(write: &Write) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let (cell, value) = match write {
        Write::Table { table, key, value } => (Cell::Table(table.clone(), key.clone()), value),
        Write::Var { name, value } => (Cell::Var(name.clone()), value),
        _ => return None,
    };
    let of_value = value.as_ref().map(bytes).transpose();
    let row = bytes(&cell).and_then(|cell| Ok((cell, of_value?)));
    // The store refuses a value without a form: it is larger than any limit.
    debug_assert!(row.is_ok(), "{cell:?} has no form");
    row.ok()
}

/// Returns all rows of a state.
pub(crate) fn all_rows(state: &Snapshot) -> BTreeMap<Vec<u8>, Vec<u8>> {
    state.contents().iter().filter_map(row).filter_map(|(key, value)| Some((key, value?))).collect()
}

/// Returns the write that a row stands for, in the form in which its table or variable keeps it.
///
/// # Errors
/// A text for people if it is not a row, or not of the declared type.
pub(crate) fn write_of(key: &[u8], value: Option<&[u8]>, state: &Snapshot) -> Result<Write, String> {
    let damaged = || format!("a row of the state in etcd is damaged: {}", key.escape_ascii());
    let value = value.map(read::<Value>).transpose().map_err(|_| damaged())?;
    let write = match read(key).map_err(|_| damaged())? {
        Cell::Table(table, key) => Write::Table { table, key, value },
        Cell::Var(name) => Write::Var { name, value },
        _ => return Err(damaged()),
    };
    let wrong = |error: maple_core::state::Mismatch| format!("the state in etcd does not fit the policy: {error}");
    match (state.normalise(&write).map_err(wrong)?, &write) {
        (None, _) => Ok(write),
        (Some(Write::Table { table, key: normal, .. }), Write::Table { key, .. }) if normal != *key => {
            Err(format!("the state in etcd does not fit the policy: the table {table} has the key {key} for {normal}"))
        }
        (Some(normal), _) => Ok(normal),
    }
}

/// Returns the writes that lead from a state to another one, which these rows make.
///
/// # Errors
/// A text for people if one is not a row, or not of the declared type.
pub(crate) fn difference(rows: &BTreeMap<Vec<u8>, Vec<u8>>, state: &Snapshot) -> Result<Vec<Write>, String> {
    let mut writes = Vec::new();
    let place = |write: &Write| match write {
        Write::Table { table, key, .. } => Some(Cell::Table(table.clone(), key.clone())),
        Write::Var { name, .. } => Some(Cell::Var(name.clone())),
        _ => None,
    };
    let mut gone: BTreeMap<Cell, Write> =
        state.contents().into_iter().filter_map(|write| Some((place(&write)?, write))).collect();
    for (key, value) in rows {
        let write = write_of(key, Some(value), state)?;
        let before = place(&write).and_then(|place| gone.remove(&place));
        if before.as_ref() != Some(&write) {
            writes.push(write);
        }
    }
    writes.extend(gone.into_values().map(|write| match write {
        Write::Table { table, key, .. } => Write::Table { table, key, value: None },
        Write::Var { name, .. } => Write::Var { name, value: None },
        other => other,
    }));
    Ok(writes)
}

#[cfg(test)]
mod tests {
    use maple_core::state::{Kind, Store, Types};

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn var(value: i64) -> [Write; 1] {
        [Write::Var { name: "mode".into(), value: Some(value.into()) }]
    }

    fn cell(key: i64, value: Option<i64>) -> Write {
        Write::Table { table: "t".into(), key: key.into(), value: value.map(Value::from) }
    }

    #[test]
    fn waiters_learn_the_outcome_of_their_commit() {
        let writes = ClusterWrites::new();
        assert_eq!(writes.wait(1, LONG), Outcome::Unknown, "etcd takes none");
        writes.set_open(true);
        (1..=4).for_each(|version| writes.append(version, &var(version as i64)));
        assert_eq!(writes.take().len(), 4);
        writes.confirm(2);
        assert_eq!(writes.wait(1, LONG), Outcome::Confirmed);
        assert_eq!(writes.wait(3, Duration::ZERO), Outcome::Unknown);
        writes.lose(4);
        // What comes later is confirmed, and these are not.
        writes.append(5, &var(5));
        writes.confirm(5);
        let outcomes: Vec<_> = (1..=5).map(|version| writes.wait(version, LONG)).collect();
        use Outcome::{Confirmed, Lost};
        assert_eq!(outcomes, [Confirmed, Confirmed, Lost, Lost, Confirmed]);
        for version in 6..6 + 2 * MAX_LOST as u64 {
            writes.append(version, &var(0));
            if version % 2 == 0 { writes.confirm(version) } else { writes.lose(version) }
        }
        assert_eq!(writes.wait(4, LONG), Outcome::Unknown, "it was long ago");
        assert_eq!(writes.lock().lost.len(), MAX_LOST);
    }

    #[test]
    fn the_store_takes_no_more_while_too_much_waits() {
        let (store, writes) = (Store::new(), Arc::new(ClusterWrites::new()));
        store.share(Arc::clone(&writes) as Arc<dyn Journal>);
        store.open(writes.limits());
        let mut taken = 0;
        let error = loop {
            match store.change(var(taken).to_vec()) {
                Ok(_) => taken += 1,
                Err(error) => break error.to_string(),
            }
        };
        assert_eq!(taken as usize, MAX_WAITING.0 + 1);
        assert_eq!(error, "the variable mode can't be written: too many writes wait until they are kept");
        writes.confirm(store.snapshot().version() - MAX_WAITING.0 as u64 / 2);
        store.change(var(-1).to_vec()).expect("half of it is there");
    }

    #[test]
    fn rows_say_what_is_to_be_written() {
        let store = Store::new();
        store.change(vec![cell(1, Some(10)), cell(2, Some(20)), var(1)[0].clone()]).expect("any type");
        let there = store.snapshot();
        let rows = all_rows(&there);
        assert_eq!((rows.len(), difference(&rows, &there)), (3, Ok(vec![])));
        store.change(vec![cell(1, Some(11)), cell(2, None), cell(3, Some(30))]).expect("any type");
        let back = difference(&rows, &store.snapshot()).expect("they are rows");
        assert_eq!(back, [cell(1, Some(10)), cell(2, Some(20)), cell(3, None)]);
        store.follow(
            maple_core::state::Written { by: maple_core::state::Writer::Cluster, at: std::time::SystemTime::now() },
            |_| back,
        );
        assert_eq!(all_rows(&store.snapshot()), rows);
    }

    #[test]
    fn damaged_and_unfit_rows_are_refused_with_their_place() {
        let store = Store::new();
        store.declare_types("t", Types { key: Kind::Mac, value: Kind::Int }).expect("nothing is there");
        let state = store.snapshot();
        let error = |key: &[u8], value: &[u8]| write_of(key, Some(value), &state).expect_err("it is refused");
        assert_eq!(error(b"\xff", b""), "a row of the state in etcd is damaged: \\xff");
        let row = |key: &str| row(&Write::Table { table: "t".into(), key: key.into(), value: Some(7.into()) });
        let (key, value) = row("banana").expect("a row");
        let text = error(&key, &value.expect("a value"));
        let wanted = "the state in etcd does not fit the policy: the table t is declared with keys of type Mac, and \
                      \"banana\" is not one";
        assert_eq!(text, wanted);
        // An address that was text is another key: the row would stay when it is deleted.
        let (key, value) = row("00:00:00:00:00:01").expect("a row");
        let text = error(&key, &value.expect("a value"));
        assert!(text.contains("the table t has the key \"00:00:00:00:00:01\" for 00:00:00:00:00:01"), "{text}");
    }
}
