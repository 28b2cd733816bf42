//! Persistent state: keeps marked tables and variables in a file, so that they survive a restart.
//!
//! # How
//!
//! Each commit passes its writes to [`PendingWrites`], in the order of commits, under the store's lock. There only the
//! newest value of each cell is kept. A thread takes all pending writes and writes them to the file as one `redb`
//! transaction, which is durable when it ends. Then it takes what has become pending meanwhile (group commit). So more
//! commits make larger groups, and a cell that was written a hundred times is written once. The number of cells bounds
//! the pending writes.
//!
//! # Guarantees
//!
//! A write from outside the policy is acknowledged only when it is on the disk. A group holds everything committed up
//! to a moment, and is atomic. So a crash loses at most writes that were not acknowledged, and always the newest ones.
//! Packets do not wait: what the policy wrote for a packet may be lost if the machine crashes shortly after.
//!
//! # Files that fail
//!
//! The disk may be full or fail, and others may delete or replace the file. Then no write is acknowledged, nothing is
//! lost while the process lives, and the file is opened or made again (`keeper.rs`). [`KeptFiles`] publishes the
//! failure. What was acknowledged before is still in the file, unless it was deleted.
//!
//! # The file
//!
//! There is one row for each cell: the cell and its value ([`format`](mod@super::format)). A second table has the
//! persistent names, because a table that was emptied must stay empty. The number of the format is in a row of
//! `remember/remembered_rows.rs`. A file of the format before (`format_1.rs`) is read once and written again. A new
//! file is created under a temporary name and then linked.

mod error;
mod format_1;
mod keeper;
mod pending;
mod place;
mod state_file;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use maple_core::state::{Journal, Name, Store, Writer, Written};
use maple_wire::Dpid;
use redb::Database;

use crate::kept_files::{KeptFile, KeptFiles};
use crate::policy_record::PolicyRecord;
use crate::priority::lower_for_good;
use crate::storage::history::ChangeHistory;
use crate::storage::known_switches::{Departed, Restart};
use crate::storage::late_database::{DatabaseError, LateDatabase};
use crate::storage::remember::{self, Archive, LeafJournal, RememberedRows, Remembering, begin, begin_known};
pub use error::PersistenceError;
use keeper::{Keeper, Pace};
pub(crate) use pending::PendingWrites;
use place::StateFile;
use state_file::{Contents, convert_to_types, hold};

/// The time for which a released file may still be in use. Chosen: the system releases a lock within milliseconds;
/// after that somebody else has the file.
const RELEASE: Duration = Duration::from_secs(10);
/// The time between two attempts to open it. Chosen: it adds nothing noticeable to a take-over.
const RELEASE_LOOK: Duration = Duration::from_millis(5);
/// The time between two checks whether this is the end, while another process has the file. Chosen: an end is not
/// noticeably held up.
const END_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// The time between two warnings that opening the file takes long. Chosen: people who wait for a start see that it goes
/// on, and a start that is quick says nothing.
const WARNING_INTERVAL: Duration = Duration::from_secs(3);

/// A function that waits until another process has closed the file.
pub(crate) type Release = Box<dyn FnOnce() + Send>;

/// Writes persistent state to the file, in a thread of its own.
pub(crate) struct Persistence {
    database: Arc<LateDatabase>,
    pending: Arc<PendingWrites>,
    thread: Option<JoinHandle<()>>,
    /// Opens the file.
    opener: Option<JoinHandle<()>>,
    /// Writes leaves and surroundings for the next run.
    remembering: Option<Remembering>,
}

impl Persistence {
    /// Loads the file into the store, and starts to write changes of the store to the file. Values of the file replace
    /// those that the policy wrote while it was loaded. Must be called before the first packet. Also returns the leaves
    /// and surroundings that an earlier run has left.
    ///
    /// A file that can't be written or made, because there is no room or the file system is read-only, counts as one
    /// that fails. The log says if a slow disk delays the start.
    ///
    /// # Errors
    /// [`PersistenceError`] if the file can't be used or does not fit the declared types, or a thread can't be started.
    pub fn open(
        path: &Path,
        store: &Arc<Store>,
        files: &KeptFiles,
    ) -> Result<(Persistence, RememberedRows), PersistenceError> {
        Persistence::open_at(StateFile::new(path), store, files, Pace::default())
    }

    fn open_at(
        place: StateFile,
        store: &Arc<Store>,
        files: &KeptFiles,
        pace: Pace,
    ) -> Result<(Persistence, RememberedRows), PersistenceError> {
        let database = Arc::<LateDatabase>::default();
        files.keep(KeptFile::State, place.path());
        let loaded = while_saying_that_it_is_slow(place.path(), || load(&place, store, state_file::open(&place)))?;
        let (contents, remembered) = match loaded {
            Ok((opened, contents, remembered)) => {
                database.arrive(opened, 0);
                (contents, remembered)
            }
            Err(error) if error.is_of_writing() => {
                database.fail_to_open(error.reason());
                let (_, contents, remembered) = load(&place, store, state_file::open_copy(&place))?;
                (contents, remembered)
            }
            Err(error) => return Err(error),
        };
        let pending = Arc::<PendingWrites>::default();
        let by = Writer::File(place.path().display().to_string().into());
        let written = Written { by, at: SystemTime::now() };
        store.keep_in(Arc::clone(&pending) as Arc<dyn Journal>, &contents.names, contents.writes, written);
        let epoch = Some(remembered.epoch);
        let persistence = Persistence::start(place, store, database, pending, files, pace, epoch)?;
        Ok((persistence, remembered))
    }

    /// Writes changes of the store to a file that another process still has open. Once it is `released`, it is opened
    /// and brought to what the store keeps, with these names. Only those wait for it that wait for their writes to be
    /// on the disk. The channel brings a function that waits until the file is free; if none comes, the file is left as
    /// it is.
    ///
    /// # Errors
    /// [`PersistenceError::Thread`] if a thread can't be started.
    pub fn open_later(
        path: &Path,
        store: &Arc<Store>,
        names: &[Name],
        epoch: Option<u16>,
        released: Receiver<Release>,
        files: &KeptFiles,
    ) -> Result<Persistence, PersistenceError> {
        let (database, pending) = (Arc::<LateDatabase>::default(), Arc::<PendingWrites>::default());
        store.attach_journal(Arc::clone(&pending) as Arc<dyn Journal>, names);
        let place = StateFile::new(path);
        files.keep(KeptFile::State, path);
        let (to_open, of_opener) = ((place.clone(), Arc::clone(store)), Arc::clone(&database));
        let to_write = Arc::clone(&pending);
        let work = move || {
            match wait_for(&released, || to_write.is_ending()) {
                Some(release) => release(),
                None => return of_opener.close(),
            }
            lower_for_good();
            match open_released(&to_open.0, &to_open.1, epoch) {
                Ok(database) => of_opener.arrive(database, 0),
                Err(error) => of_opener.fail_to_open(error.reason()),
            }
        };
        let opener = std::thread::Builder::new().name("open-state".into()).spawn(work)?;
        let mut persistence = Persistence::start(place, store, database, pending, files, Pace::default(), epoch)?;
        persistence.opener = Some(opener);
        Ok(persistence)
    }

    /// Starts the thread that writes.
    fn start(
        place: StateFile,
        store: &Arc<Store>,
        database: Arc<LateDatabase>,
        pending: Arc<PendingWrites>,
        files: &KeptFiles,
        pace: Pace,
        epoch: Option<u16>,
    ) -> Result<Persistence, PersistenceError> {
        let keeper = Keeper {
            place,
            store: Arc::clone(store),
            pending: Arc::clone(&pending),
            database: Arc::clone(&database),
            files: files.clone(),
            pace,
            epoch,
        };
        let thread = std::thread::Builder::new().name("persistence".into()).spawn(|| keeper.run())?;
        Ok(Persistence { database, pending, thread: Some(thread), opener: None, remembering: None })
    }

    /// Starts to write leaves, surroundings and the history of changes into the file. Returns the archive for a process
    /// that takes over.
    ///
    /// # Errors
    /// [`PersistenceError::Thread`] if the thread can't be started.
    pub fn remember(
        &mut self,
        journal: Arc<LeafJournal>,
        restart: Arc<Restart>,
        history: Arc<ChangeHistory>,
    ) -> Result<Arc<Archive>, PersistenceError> {
        let (database, of_thread) = (Arc::clone(&self.database), Arc::clone(&journal));
        self.remembering = Some(Remembering::start(database, of_thread, Arc::clone(&restart), history)?);
        Ok(Arc::new(Archive { journal, restart, database: Arc::clone(&self.database) }))
    }

    /// Returns the writes on their way to the file.
    pub fn pending_writes(&self) -> Arc<PendingWrites> {
        Arc::clone(&self.pending)
    }
}

impl Drop for Persistence {
    /// Returns when all pending writes are on the disk.
    fn drop(&mut self) {
        self.pending.end();
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

/// Converts the contents of an opened file to the declared types, and begins an epoch in the file.
fn load(
    place: &StateFile,
    store: &Store,
    opened: Result<(Database, Contents), PersistenceError>,
) -> Result<(Database, Contents, RememberedRows), PersistenceError> {
    let (database, mut contents) = opened?;
    let path = place.path();
    convert_to_types(path, &database, &mut contents, &store.snapshot())?;
    let failed = |DatabaseError(error)| PersistenceError::File { path: path.to_owned(), error };
    let remembered = begin(&database).map_err(failed)?;
    Ok((database, contents, remembered))
}

/// Does work with the file at the start, and logs every [`WARNING_INTERVAL`] that the start waits for it.
fn while_saying_that_it_is_slow<T>(path: &Path, work: impl FnOnce() -> T) -> Result<T, PersistenceError> {
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let (path, began) = (path.display().to_string(), Instant::now());
    let say = move || {
        while is_done.recv_timeout(WARNING_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            let seconds = began.elapsed().as_secs();
            tracing::warn!("the start has waited {seconds} s for the state file {path}: its disk is slow");
        }
    };
    let sayer = std::thread::Builder::new().name("slow-state".into()).spawn(say)?;
    let outcome = work();
    drop(done);
    drop(sayer.join());
    Ok(outcome)
}

/// Receives from a channel; `None` if that is closed, or `is_ending`, before something comes.
fn wait_for<T>(receiver: &Receiver<T>, is_ending: impl Fn() -> bool) -> Option<T> {
    loop {
        match receiver.recv_timeout(END_CHECK_INTERVAL) {
            Ok(it) => return Some(it),
            Err(RecvTimeoutError::Timeout) if !is_ending() => {}
            Err(_) => return None,
        }
    }
}

/// Opens a file that another process has just released, and brings it to what the store keeps.
fn open_released(place: &StateFile, store: &Store, epoch: Option<u16>) -> Result<Database, PersistenceError> {
    let deadline = Instant::now() + RELEASE;
    let (database, there) = loop {
        match state_file::open(place) {
            // The system may release a lock only a moment after the process said that it has closed the file.
            Err(PersistenceError::InUse(_)) if Instant::now() < deadline => std::thread::sleep(RELEASE_LOOK),
            opened => break opened?,
        }
    };
    let failed = |DatabaseError(error)| PersistenceError::File { path: place.path().to_owned(), error };
    hold(&database, there, store).map_err(failed)?;
    epoch.map_or(Ok(()), |epoch| begin_known(&database, epoch)).map_err(failed)?;
    Ok(database)
}

/// Loads a copy of the file at `path` into the store. Returns the switches that an earlier run has left.
///
/// # Errors
/// [`PersistenceError`], about the file at `path`, if the copy can't be read or does not fit the declared types.
pub(crate) fn read_copy(copy: &Path, path: &Path, store: &Store) -> Result<BTreeMap<Dpid, Departed>, PersistenceError> {
    let (database, mut contents) =
        state_file::open_existing(&StateFile::new(copy)).map_err(|error| error.about(path))?;
    convert_to_types(path, &database, &mut contents, &store.snapshot())?;
    store.load_kept(&contents.names, contents.writes);
    let failed = |DatabaseError(error)| PersistenceError::File { path: path.to_owned(), error };
    Ok(begin(&database).map_err(failed)?.switches)
}

/// Returns the policy that ran last; `None` if there is no such file, or it does not say.
///
/// # Errors
/// [`PersistenceError`] if the file can't be read, or a controller uses it.
pub fn last_policy(path: &Path) -> Result<Option<PolicyRecord>, PersistenceError> {
    if !path.exists() {
        return Ok(None);
    }
    let place = StateFile::new(path);
    let (database, _) = match state_file::open_existing(&place) {
        Err(error) if error.is_of_writing() => state_file::open_copy(&place)?,
        opened => opened?,
    };
    let failed = |DatabaseError(error)| PersistenceError::File { path: path.to_owned(), error };
    remember::last_policy(&database).map_err(failed)
}
