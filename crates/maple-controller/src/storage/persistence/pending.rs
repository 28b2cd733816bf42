//! Writes on their way from the store to the file.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use maple_core::state::{Cell, Journal, Value, Write};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::state_file::cell;

/// Cells with their newest values; `None` if the cell was deleted.
pub(super) type Cells = BTreeMap<Cell, Option<Value>>;

/// Writes on their way from the store to the file.
#[derive(Default)]
pub(crate) struct PendingWrites {
    pending: Mutex<PendingValues>,
    /// Signals that there is something to write, or that this is the end.
    work: Condvar,
    /// Signals that something was written, or can't be.
    progress: Condvar,
}

#[derive(Default)]
struct PendingValues {
    /// The newest value of each cell that is not written yet.
    cells: Cells,
    /// The newest commit, whose writes are in `cells` unless the file fails.
    newest: u64,
    /// The newest commit that is on the disk, with all earlier ones.
    written: u64,
    /// Whether the file can't be written. Then no cells are kept: the store has them all.
    fails: bool,
    /// Whether the file is being brought to what the store has.
    catches_up: bool,
    /// Whether the thread has stopped.
    stopped: bool,
    /// Whether the thread must stop after what is pending. Later writes are refused, so that they do not delay the end.
    ending: bool,
}

/// The next work of the thread.
#[derive(Debug, PartialEq)]
pub(super) enum Work {
    /// The cells to write, up to this commit.
    Write(Cells, u64),
    /// Nothing for some time.
    Nothing,
    /// Nothing, because this is the end.
    End,
}

impl PendingWrites {
    /// Waits until the commit with this version is on the disk. Returns `false` if that takes too long, if the file
    /// can't be written, or if the commit came after the end.
    pub fn wait(&self, version: u64, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut pending = self.lock();
        while pending.written < version {
            let left = deadline.saturating_duration_since(Instant::now());
            let is_late = pending.ending && pending.newest < version;
            if pending.stopped || is_late || pending.fails && !pending.catches_up || left.is_zero() {
                return false;
            }
            self.progress.wait_for(&mut pending, left);
        }
        true
    }

    /// Waits for pending writes, at most for `patience`, and takes them with their newest commit.
    pub(super) fn take(&self, patience: Duration) -> Work {
        let is_idle = |pending: &mut PendingValues| pending.written == pending.newest && !pending.ending;
        let mut pending = self.lock();
        self.work.wait_while_for(&mut pending, is_idle, patience);
        match pending.written == pending.newest {
            false => Work::Write(std::mem::take(&mut pending.cells), pending.newest),
            true if pending.ending => Work::End,
            true => Work::Nothing,
        }
    }

    /// Notes that everything up to this commit is on the disk.
    pub(super) fn wrote(&self, newest: u64) {
        self.lock().written = newest;
        self.progress.notify_all();
    }

    /// Notes that nothing can be written, and wakes the threads that wait for their writes.
    pub(super) fn fail(&self) {
        let mut pending = self.lock();
        pending.cells.clear();
        (pending.fails, pending.catches_up) = (true, false);
        self.progress.notify_all();
    }

    /// Starts to keep cells again. Returns the newest commit: the store has everything up to it, once a commit that is
    /// in progress has ended.
    pub(super) fn begin_to_catch_up(&self) -> u64 {
        let mut pending = self.lock();
        pending.cells.clear();
        pending.catches_up = true;
        pending.newest
    }

    /// Notes that the file has everything up to this commit.
    pub(super) fn caught_up(&self, newest: u64) {
        let mut pending = self.lock();
        (pending.fails, pending.catches_up) = (false, false);
        pending.written = newest;
        self.progress.notify_all();
    }

    /// Waits for the end, at most for `patience`. Returns whether it has come.
    pub(super) fn wait_for_end(&self, patience: Duration) -> bool {
        let mut pending = self.lock();
        self.work.wait_while_for(&mut pending, |pending| !pending.ending, patience);
        pending.ending
    }

    /// Reports whether no more writes come.
    pub(super) fn is_ending(&self) -> bool {
        self.lock().ending
    }

    /// Makes the thread stop after what is pending.
    pub(super) fn end(&self) {
        self.lock().ending = true;
        self.work.notify_all();
    }

    /// Notes that the thread has stopped.
    pub(super) fn stopped(&self) {
        self.lock().stopped = true;
        self.progress.notify_all();
    }

    /// Reports whether the file lacks commits.
    pub(super) fn is_behind(&self) -> bool {
        let pending = self.lock();
        pending.written != pending.newest
    }

    /// Returns the number of cells that wait in memory.
    #[cfg(test)]
    pub(super) fn cells(&self) -> usize {
        self.lock().cells.len()
    }

    fn lock(&self) -> MutexGuard<'_, PendingValues> {
        self.pending.lock()
    }
}

impl Journal for PendingWrites {
    fn append(&self, version: u64, writes: &[Write]) {
        let mut pending = self.lock();
        // After the end nothing is written.
        if pending.stopped || pending.ending {
            return;
        }
        if !pending.fails || pending.catches_up {
            pending.cells.extend(writes.iter().filter_map(cell));
        }
        pending.newest = version;
        self.work.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn write(value: i128) -> [Write; 1] {
        [Write::Var { name: "mode".into(), value: Some(Value::Int(value)) }]
    }

    #[test]
    fn writes_after_the_end_are_refused() {
        let writes = PendingWrites::default();
        writes.append(1, &write(1));
        writes.end();
        writes.append(2, &write(2));
        let expected = BTreeMap::from([(Cell::Var("mode".into()), Some(Value::Int(1)))]);
        assert_eq!(writes.take(LONG), Work::Write(expected, 1));
        writes.wrote(1);
        assert_eq!(writes.take(LONG), Work::End);
        assert!(writes.wait(1, LONG));
        assert!(!writes.wait(2, LONG));
    }

    #[test]
    fn while_the_file_fails_nobody_waits_and_nothing_piles_up() {
        let writes = PendingWrites::default();
        writes.append(1, &write(1));
        writes.fail();
        assert!(!writes.wait(1, LONG));
        for version in 2..1000 {
            let key = Value::Int(version.into());
            writes.append(version, &[Write::Table { table: "t".into(), key, value: None }]);
        }
        assert_eq!(writes.cells(), 0);
        assert_eq!(writes.begin_to_catch_up(), 999);
        writes.append(1000, &write(2));
        writes.caught_up(999);
        assert!(writes.wait(999, LONG));
        let expected = BTreeMap::from([(Cell::Var("mode".into()), Some(Value::Int(2)))]);
        assert_eq!(writes.take(LONG), Work::Write(expected, 1000));
    }
}
