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

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use maple_core::state::{Cell, Journal, Mismatch, Name, Snapshot, Store, Value, Write, Writer, Written};
use maple_wire::Dpid;
use redb::{Database, ReadableTable, StorageError, TableDefinition, TableError, TableHandle};
use serde_json::json;

use crate::remember::{Failed, LeafJournal, RUN, Remembered, Remembering, STATE_FORMAT, STATE_FORMAT_KEY, begin};
use crate::restart::{Departed, Restart};
use crate::state_json::{from_json, to_json};

const ROWS: TableDefinition<'_, &str, &str> = TableDefinition::new("maple state");
const NAMES: TableDefinition<'_, &str, ()> = TableDefinition::new("maple names");

/// Why state cannot be persistent.
#[derive(Debug, thiserror::Error)]
pub enum PersistenceError {
    /// The file can't be used.
    #[error("the state file {path}: {error}")]
    File {
        /// Its path.
        path: PathBuf,
        /// The error.
        error: Box<redb::Error>,
    },
    /// The file can't be created.
    #[error("the state file {path}: {error}")]
    Create {
        /// Its path.
        path: PathBuf,
        /// The error.
        error: std::io::Error,
    },
    /// The file can't be read.
    #[error("can't read the state file {path}: {error}")]
    Read {
        /// Its path.
        path: PathBuf,
        /// The error.
        error: std::io::Error,
    },
    /// The file exists and is not Maple's.
    #[error("{0} is not a state file of Maple; it was not changed")]
    NotOurs(PathBuf),
    /// Another version of Maple has written the file.
    #[error(
        "the state file {path} has format {format}, and this version of Maple reads format {STATE_FORMAT}; it was not changed"
    )]
    Format {
        /// Its path.
        path: PathBuf,
        /// Its format.
        format: String,
    },
    /// The file is damaged.
    #[error(
        "the state file {path} is damaged ({what}); it was not changed: replace it by a copy, or delete it to start without state"
    )]
    Damaged {
        /// Its path.
        path: PathBuf,
        /// How the damage shows.
        what: String,
    },
    /// Another process uses the file.
    #[error("another process uses the state file {0}")]
    InUse(PathBuf),
    /// A row of the file is invalid.
    #[error("the state file {path}: {row} is no row of persistent state")]
    Row {
        /// The file's path.
        path: PathBuf,
        /// The row's key.
        row: String,
    },
    /// A value in the file does not have the declared type of its table or variable.
    #[error("the state file {path}: {mismatch}; it was not changed")]
    Type {
        /// The file's path.
        path: PathBuf,
        /// The value and the types.
        mismatch: Mismatch,
    },
    /// Two keys in the file are the same key under the declared type of their table.
    #[error("the state file {path}: {place:?} occurs in two spellings; it was not changed")]
    DuplicateKey {
        /// The file's path.
        path: PathBuf,
        /// The table and the key.
        place: Cell,
    },
    /// The thread can't be started.
    #[error("can't start the thread that writes the state file: {0}")]
    Thread(#[from] std::io::Error),
    /// A table or variable is persistent, but there is no file.
    #[error("{0} must survive a restart; name a file for it with --state FILE")]
    NoFile(String),
}

/// Writes persistent state to the file, in a thread of its own.
pub(crate) struct Persistence {
    database: Arc<Database>,
    pending: Arc<PendingWrites>,
    thread: Option<JoinHandle<()>>,
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

/// The contents of the file.
struct Contents {
    names: Vec<Name>,
    writes: Vec<Write>,
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
        let database = Arc::new(database);
        let (path, thread_pending, of_thread) = (path.to_owned(), Arc::clone(&pending), Arc::clone(&database));
        let work = move || {
            if let Err(error) = write_until_end(&of_thread, &thread_pending) {
                tracing::error!("the state file {}: {}; state is no longer persistent", path.display(), error.0);
            }
            thread_pending.lock().stopped = true;
            thread_pending.progress.notify_all();
        };
        let thread = std::thread::Builder::new().name("persistence".into()).spawn(work)?;
        Ok((Persistence { database, pending, thread: Some(thread), remembering: None }, remembered))
    }

    /// Writes into the file what the next run is to know. Returns what takes it.
    pub fn remember(&mut self, epoch: u16, restart: Arc<Restart>) -> Result<Arc<LeafJournal>, PersistenceError> {
        let remembering = Remembering::start(Arc::clone(&self.database), epoch, restart)?;
        let journal = remembering.journal();
        self.remembering = Some(remembering);
        Ok(journal)
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
    }
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
        let transaction = database.begin_write()?;
        {
            let mut rows = transaction.open_table(ROWS)?;
            let mut names = transaction.open_table(NAMES)?;
            for (cell, value) in &cells {
                let Some((name, row)) = row(cell) else { continue };
                match value {
                    Some(value) => drop(rows.insert(row.as_str(), to_json(value).to_string().as_str())?),
                    None => drop(rows.remove(row.as_str())?),
                }
                names.insert(&**name, ())?;
            }
        }
        transaction.commit()?;
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

impl PersistenceError {
    /// The same error, about the file at this path.
    fn about(mut self, of: &Path) -> PersistenceError {
        match &mut self {
            PersistenceError::File { path, .. }
            | PersistenceError::Create { path, .. }
            | PersistenceError::Read { path, .. }
            | PersistenceError::NotOurs(path)
            | PersistenceError::Format { path, .. }
            | PersistenceError::Damaged { path, .. }
            | PersistenceError::InUse(path)
            | PersistenceError::Row { path, .. }
            | PersistenceError::Type { path, .. }
            | PersistenceError::DuplicateKey { path, .. } => *path = of.to_owned(),
            PersistenceError::Thread(_) | PersistenceError::NoFile(_) => {}
        }
        self
    }
}

/// Opens the file, or creates it.
fn open(path: &Path) -> Result<(Database, Contents), PersistenceError> {
    if !path.try_exists().map_err(|error| PersistenceError::Create { path: path.to_owned(), error })? {
        create(path)?;
    }
    // On missing or damaged pages redb returns an error or panics.
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let mut database = Database::open(path)?;
        database.check_integrity()?;
        let contents = match format(&database)? {
            Some(other) if other != STATE_FORMAT => Err(other),
            _ => Ok(contents(&database)?),
        };
        Ok::<_, Failed>((database, contents))
    }));
    let damaged = |what: String| PersistenceError::Damaged { path: path.to_owned(), what };
    let (database, contents) =
        opened.map_err(|_| damaged("parts are missing".into()))?.map_err(|Failed(error)| match *error {
            redb::Error::DatabaseAlreadyOpen => PersistenceError::InUse(path.to_owned()),
            redb::Error::Io(io) if io.kind() == std::io::ErrorKind::InvalidData => {
                PersistenceError::NotOurs(path.to_owned())
            }
            redb::Error::Corrupted(what) => damaged(what),
            error => PersistenceError::File { path: path.to_owned(), error: Box::new(error) },
        })?;
    let contents = contents.map_err(|format| PersistenceError::Format { path: path.to_owned(), format })?;
    let Some((names, rows)) = contents else { return Err(PersistenceError::NotOurs(path.to_owned())) };
    let writes = rows
        .into_iter()
        .map(|(row, value)| write(&row, &value).ok_or_else(|| PersistenceError::Row { path: path.to_owned(), row }));
    Ok((database, Contents { names, writes: writes.collect::<Result<_, _>>()? }))
}

/// Converts the contents to the declared types, which may have changed since the file was written. Also rewrites the
/// file, so that a key whose spelling has changed does not occur twice.
fn convert_to_types(
    path: &Path,
    database: &Database,
    contents: &mut Contents,
    state: &Snapshot,
) -> Result<(), PersistenceError> {
    let mut changed = Vec::new();
    for write in &mut contents.writes {
        let normal =
            state.normalise(write).map_err(|mismatch| PersistenceError::Type { path: path.to_owned(), mismatch })?;
        if let Some(normal) = normal {
            changed.push((std::mem::replace(write, normal.clone()), normal));
        }
    }
    if changed.is_empty() {
        return Ok(());
    }
    let mut places = BTreeSet::new();
    for (place, _) in contents.writes.iter().filter_map(cell) {
        if !places.insert(place.clone()) {
            return Err(PersistenceError::DuplicateKey { path: path.to_owned(), place });
        }
    }
    let rewrite = || -> Result<(), Failed> {
        let transaction = database.begin_write()?;
        {
            let mut rows = transaction.open_table(ROWS)?;
            let row_of = |write: &Write| cell(write).and_then(|(cell, _)| row(&cell).map(|(_, row)| row));
            for old in changed.iter().filter_map(|(old, _)| row_of(old)) {
                rows.remove(old.as_str())?;
            }
            for (place, value) in changed.iter().filter_map(|(_, new)| cell(new)) {
                if let (Some((_, row)), Some(value)) = (row(&place), value) {
                    rows.insert(row.as_str(), to_json(&value).to_string().as_str())?;
                }
            }
        }
        transaction.commit()?;
        Ok(())
    };
    rewrite().map_err(|Failed(error)| PersistenceError::File { path: path.to_owned(), error })
}

/// Creates an empty file. An unfinished file is never visible at `path`.
fn create(path: &Path) -> Result<(), PersistenceError> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.new", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let made = || -> Result<(), Failed> {
        let database = Database::create(&temporary)?;
        let transaction = database.begin_write()?;
        transaction.open_table(ROWS)?;
        transaction.open_table(NAMES)?;
        transaction.commit()?;
        Ok(())
    };
    let failed = |error: std::io::Error| PersistenceError::Create { path: path.to_owned(), error };
    made().map_err(|Failed(error)| match *error {
        redb::Error::Io(error) => failed(error),
        error => PersistenceError::File { path: path.to_owned(), error: Box::new(error) },
    })?;
    // A link, unlike a rename, never replaces a file that another process has created meanwhile.
    let linked = match std::fs::hard_link(&temporary, path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    };
    let removed = std::fs::remove_file(&temporary);
    linked.and(removed).and_then(|()| sync_folder(path)).map_err(failed)
}

/// Makes the folder's entry durable.
fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::File::open(folder)?.sync_all()
}

/// The format of the file; `None` if it does not say.
fn format(database: &Database) -> Result<Option<String>, Failed> {
    match database.begin_read()?.open_table(RUN) {
        Ok(run) => Ok(run.get(STATE_FORMAT_KEY)?.map(|format| format.value().to_owned())),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The persistent names, and the rows.
type Rows = (Vec<Name>, Vec<(String, String)>);

/// Reads the file; `None` if it is another program's.
fn contents(database: &Database) -> Result<Option<Rows>, Failed> {
    let transaction = database.begin_read()?;
    if !transaction.list_tables()?.any(|table| table.name() == ROWS.name()) {
        return Ok(None);
    }
    let mut rows = Vec::new();
    for row in transaction.open_table(ROWS)?.iter()? {
        let (key, value) = row?;
        rows.push((key.value().to_owned(), value.value().to_owned()));
    }
    let names = transaction.open_table(NAMES)?;
    let names = names.iter()?.map(|name| Ok(name?.0.value().into())).collect::<Result<_, StorageError>>()?;
    Ok(Some((names, rows)))
}

/// The cell and the value of a write; `None` if it is no table or variable.
fn cell(write: &Write) -> Option<(Cell, Option<Value>)> {
    match write {
        Write::Table { table, key, value } => Some((Cell::Table(table.clone(), key.clone()), value.clone())),
        Write::Var { name, value } => Some((Cell::Var(name.clone()), value.clone())),
        _ => None,
    }
}

/// The key of a cell's row, and the name of its table or variable.
fn row(cell: &Cell) -> Option<(&Name, String)> {
    match cell {
        Cell::Table(table, key) => Some((table, json!([&**table, to_json(key)]).to_string())),
        Cell::Var(name) => Some((name, json!([&**name]).to_string())),
        _ => None,
    }
}

/// Decodes a row of the file.
fn write(row: &str, value: &str) -> Option<Write> {
    let place: serde_json::Value = serde_json::from_str(row).ok()?;
    let value = Some(from_json(&serde_json::from_str(value).ok()?).ok()?);
    match place.as_array()?.as_slice() {
        [name] => Some(Write::Var { name: name.as_str()?.into(), value }),
        [table, key] => Some(Write::Table { table: table.as_str()?.into(), key: from_json(key).ok()?, value }),
        _ => None,
    }
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
}
