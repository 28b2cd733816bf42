//! Persistent state: keeps marked tables and variables in a file, so that they survive a restart.
//!
//! # How
//!
//! Each commit passes its writes to [`PendingWrites`], in the order of commits, under the store's lock. There only the
//! newest value of each cell is kept. A thread takes all pending writes, writes them to the file as one `redb`
//! transaction, which is durable when it ends, and then takes what has become pending meanwhile (group commit). So more
//! commits make larger groups, and a cell that was written a hundred times is written once. The number of cells bounds
//! the pending writes.
//!
//! # Guarantees
//!
//! A write from outside the policy is acknowledged only when it is on the disk. A group holds everything committed up
//! to a moment, and is atomic. So a crash loses at most writes that were not acknowledged, and always the newest ones.
//! Packets do not wait: what the policy wrote for a packet may be lost if the machine crashes shortly after.
//!
//! # The file
//!
//! One row for each cell: the cell and its value, as JSON ([`crate::state_json`]). A second table has the persistent
//! names, because a table that was emptied must stay empty. A row of `remember.rs` has the format of both. A new file is
//! created under a temporary name and then linked.

mod error;
mod file;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use maple_core::state::{Cell, Journal, Name, Store, Value, Write, Writer, Written};
use maple_wire::Dpid;
use redb::Database;

use crate::late::LateDatabase;
use crate::priority::lower_for_good;
use crate::remember::{Archive, Failed, LeafJournal, Remembered, Remembering, begin, begin_known};
use crate::restart::{Departed, Restart};
pub use error::PersistenceError;
use file::{cell, convert_to_types, hold, open, put};

/// How long a released file may be in use still, and how often it is tried.
const RELEASE: Duration = Duration::from_secs(10);
const RELEASE_LOOK: Duration = Duration::from_millis(5);
/// How often it is looked whether this is the end, while another process has the file.
const END_LOOK: Duration = Duration::from_millis(50);

/// Waits until another process has closed the file.
pub(crate) type Release = Box<dyn FnOnce() + Send>;

/// Writes persistent state to the file, in a thread of its own.
pub(crate) struct Persistence {
    database: Arc<LateDatabase>,
    pending: Arc<PendingWrites>,
    thread: Option<JoinHandle<()>>,
    /// Opens the file.
    opener: Option<JoinHandle<()>>,
    /// Writes what the next run is to know.
    remembering: Option<Remembering>,
}

/// Writes on their way from the store to the file.
#[derive(Default)]
pub(crate) struct PendingWrites {
    pending: Mutex<Pending>,
    /// Signals that there is something to write, or that this is the end.
    work: Condvar,
    /// Signals that something was written.
    progress: Condvar,
}

#[derive(Default)]
struct Pending {
    /// The newest value of each cell that is not written yet.
    cells: BTreeMap<Cell, Option<Value>>,
    /// The newest commit in `cells`.
    newest: u64,
    /// The newest commit that is on the disk, with all earlier ones.
    written: u64,
    /// The thread has stopped.
    stopped: bool,
    /// The thread must stop after what is pending now. Later writes are refused, so that they do not delay the end.
    ending: bool,
}

impl Persistence {
    /// Loads the file into the store, and writes changes of the store to the file from now on. Values of the file
    /// replace those that the policy wrote while it was loaded. Must be called before the first packet. Also returns
    /// what an earlier run has left to be known.
    pub fn open(path: &Path, store: &Store) -> Result<(Persistence, Remembered), PersistenceError> {
        let (database, mut contents) = open(path)?;
        convert_to_types(path, &database, &mut contents, &store.snapshot())?;
        let pending = Arc::<PendingWrites>::default();
        let written = Written { by: Writer::File(path.display().to_string().into()), at: SystemTime::now() };
        store.keep_in(Arc::clone(&pending) as Arc<dyn Journal>, &contents.names, contents.writes, written);
        let failed = |Failed(error)| PersistenceError::File { path: path.to_owned(), error };
        let remembered = begin(&database).map_err(failed)?;
        let database = Arc::new(LateDatabase::open(database));
        let thread = write_in_thread(path, Arc::clone(&database), Arc::clone(&pending))?;
        Ok((Persistence { database, pending, thread: Some(thread), opener: None, remembering: None }, remembered))
    }

    /// Writes changes of the store to a file that another process has still open, once it is `released`: it is opened and
    /// made to hold what the store keeps. The store has it all; the file is to have these names. Only those wait for it who
    /// wait for their writes to be on the disk. What waits until the file is free comes through `released`; if it does not,
    /// the file is left as it is.
    pub fn open_later(
        path: &Path,
        store: &Arc<Store>,
        names: &[Name],
        epoch: Option<u16>,
        released: Receiver<Release>,
    ) -> Result<Persistence, PersistenceError> {
        let (database, pending) = (Arc::<LateDatabase>::default(), Arc::<PendingWrites>::default());
        store.go_on_keeping(Arc::clone(&pending) as Arc<dyn Journal>, names);
        let (to_open, store) = (path.to_owned(), Arc::clone(store));
        let (of_opener, to_write) = (Arc::clone(&database), Arc::clone(&pending));
        let work = move || {
            let is_ending = || to_write.lock().ending;
            match wait_for(&released, is_ending) {
                Some(release) => release(),
                None => return of_opener.close(),
            }
            lower_for_good();
            let opened = open_released(&to_open, &store, epoch);
            if let Err(error) = &opened {
                tracing::error!("{error}; state is no longer persistent, and a restart will know nothing");
            }
            of_opener.arrive(opened.ok());
        };
        let opener = std::thread::Builder::new().name("open-state".into()).spawn(work)?;
        let thread = write_in_thread(path, Arc::clone(&database), Arc::clone(&pending))?;
        Ok(Persistence { database, pending, thread: Some(thread), opener: Some(opener), remembering: None })
    }

    /// Writes into the file what the next run is to know. Returns what a process that takes over is to know.
    pub fn remember(
        &mut self,
        journal: Arc<LeafJournal>,
        restart: Arc<Restart>,
    ) -> Result<Arc<Archive>, PersistenceError> {
        let database = Arc::clone(&self.database);
        self.remembering = Some(Remembering::start(database, Arc::clone(&journal), Arc::clone(&restart))?);
        Ok(Arc::new(Archive { journal, restart, database: Arc::clone(&self.database) }))
    }

    /// The writes on their way to the file.
    pub fn pending_writes(&self) -> Arc<PendingWrites> {
        Arc::clone(&self.pending)
    }
}

impl Drop for Persistence {
    /// Returns when all pending writes are on the disk.
    fn drop(&mut self) {
        self.pending.lock().ending = true;
        self.pending.work.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that writes the state file panicked");
        }
        if let Some(opener) = self.opener.take()
            && opener.join().is_err()
        {
            tracing::error!("the thread that opens the state file panicked");
        }
        self.remembering.take();
        self.database.close();
    }
}

/// Starts the thread that writes pending writes to the file, once it is open.
fn write_in_thread(
    path: &Path,
    database: Arc<LateDatabase>,
    pending: Arc<PendingWrites>,
) -> Result<JoinHandle<()>, PersistenceError> {
    let path = path.to_owned();
    let work = move || {
        let database = database.wait();
        let written = database.map(|database| write_until_end(&database, &pending));
        if let Some(Err(error)) = written {
            tracing::error!("the state file {}: {}; state is no longer persistent", path.display(), error.0);
        }
        pending.lock().stopped = true;
        pending.progress.notify_all();
    };
    Ok(std::thread::Builder::new().name("persistence".into()).spawn(work)?)
}

/// What comes through a channel, unless that is closed or `is_ending` before.
fn wait_for<T>(receiver: &Receiver<T>, is_ending: impl Fn() -> bool) -> Option<T> {
    loop {
        match receiver.recv_timeout(END_LOOK) {
            Ok(it) => return Some(it),
            Err(RecvTimeoutError::Timeout) if !is_ending() => {}
            Err(_) => return None,
        }
    }
}

/// Opens a file that another process has just released, and makes it hold what the store keeps.
fn open_released(path: &Path, store: &Store, epoch: Option<u16>) -> Result<Database, PersistenceError> {
    let deadline = Instant::now() + RELEASE;
    let (database, there) = loop {
        match open(path) {
            // The system releases the lock of a process a moment after its last word.
            Err(PersistenceError::InUse(_)) if Instant::now() < deadline => std::thread::sleep(RELEASE_LOOK),
            opened => break opened?,
        }
    };
    let failed = |Failed(error)| PersistenceError::File { path: path.to_owned(), error };
    hold(&database, there, store).map_err(failed)?;
    epoch.map_or(Ok(()), |epoch| begin_known(&database, epoch)).map_err(failed)?;
    Ok(database)
}

impl PendingWrites {
    /// Waits until the commit with this version is on the disk. `false` if that takes too long, or if the commit came
    /// after the end.
    pub fn wait(&self, version: u64, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut pending = self.lock();
        while pending.written < version {
            let left = deadline.saturating_duration_since(Instant::now());
            if pending.stopped || pending.ending && pending.newest < version || left.is_zero() {
                return false;
            }
            pending = self.progress.wait_timeout(pending, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for pending writes, and takes them with their newest commit. `None` at the end.
    fn take(&self) -> Option<(BTreeMap<Cell, Option<Value>>, u64)> {
        let mut pending = self.lock();
        while pending.written == pending.newest {
            if pending.ending {
                return None;
            }
            pending = self.work.wait(pending).unwrap_or_else(PoisonError::into_inner);
        }
        Some((std::mem::take(&mut pending.cells), pending.newest))
    }
}

impl Journal for PendingWrites {
    fn append(&self, version: u64, writes: &[Write]) {
        let mut pending = self.lock();
        // After the end nothing is written.
        if pending.stopped || pending.ending {
            return;
        }
        pending.cells.extend(writes.iter().filter_map(cell));
        pending.newest = version;
        self.work.notify_one();
    }
}

/// Writes pending writes until the end, each time all of them in one transaction.
fn write_until_end(database: &Database, pending: &PendingWrites) -> Result<(), Failed> {
    while let Some((cells, newest)) = pending.take() {
        put(database, &cells)?;
        pending.lock().written = newest;
        pending.progress.notify_all();
    }
    Ok(())
}

/// Reads a copy of the file at `path`. What it keeps goes into the store, and what an earlier run has left is returned.
pub(crate) fn read_copy(copy: &Path, path: &Path, store: &Store) -> Result<BTreeMap<Dpid, Departed>, PersistenceError> {
    let (database, mut contents) = open(copy).map_err(|error| error.about(path))?;
    convert_to_types(path, &database, &mut contents, &store.snapshot())?;
    store.load_kept(&contents.names, contents.writes);
    let failed = |Failed(error)| PersistenceError::File { path: path.to_owned(), error };
    Ok(begin(&database).map_err(failed)?.switches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_after_the_end_are_refused() {
        let (writes, long) = (PendingWrites::default(), Duration::from_secs(3600));
        let write = |value| [Write::Var { name: "mode".into(), value: Some(Value::Int(value)) }];
        writes.append(1, &write(1));
        writes.lock().ending = true;
        writes.append(2, &write(2));
        let expected = BTreeMap::from([(Cell::Var("mode".into()), Some(Value::Int(1)))]);
        assert_eq!(writes.take(), Some((expected, 1)));
        writes.lock().written = 1;
        assert_eq!(writes.take(), None);
        assert!(writes.wait(1, long));
        assert!(!writes.wait(2, long));
    }

    /// What a store holds that keeps these names.
    fn store(value: i128) -> Arc<Store> {
        let store = Store::new();
        store.keep("mode");
        store.update(|_| vec![Write::Var { name: "mode".into(), value: Some(Value::Int(value)) }]);
        store
    }

    #[test]
    fn a_file_that_another_process_has_is_opened_when_it_is_released() {
        let path = std::env::temp_dir().join(format!("maple-released-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let (first, _) = Persistence::open(&path, &store(1)).expect("a file");
        let (second, names) = (store(2), ["mode".into()]);
        let (release, released) = std::sync::mpsc::channel::<Release>();
        let later = Persistence::open_later(&path, &second, &names, Some(7), released).expect("threads");
        let commit = second.update(|_| vec![Write::Var { name: "mode".into(), value: Some(Value::Int(3)) }]);
        let pending = later.pending_writes();
        let version = commit.kept.expect("it is kept");
        assert!(!pending.wait(version, Duration::from_millis(100)), "it is not on the disk");
        drop(first);
        release.send(Box::new(|| {})).expect("it waits");
        assert!(pending.wait(version, Duration::from_secs(20)));
        drop(later);
        let third = store(0);
        let (last, remembered) = Persistence::open(&path, &third).expect("the file");
        assert_eq!(third.snapshot().var("mode"), Some(&Value::Int(3)));
        assert_eq!(remembered.epoch, 8);
        drop(last);
        // Nobody releases it: it stays as it is, and nothing hangs.
        let (release, released) = std::sync::mpsc::channel::<Release>();
        drop(Persistence::open_later(&path, &store(9), &names, Some(9), released).expect("threads"));
        drop(release);
        let fourth = store(0);
        let (_last, remembered) = Persistence::open(&path, &fourth).expect("the file");
        assert_eq!((fourth.snapshot().var("mode"), remembered.epoch), (Some(&Value::Int(3)), 9));
        std::fs::remove_file(path).expect("it was there");
    }
}
