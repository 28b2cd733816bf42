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
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use maple_core::state::{Cell, Journal, Mismatch, Name, Snapshot, Store, Value, Write, Writer, Written};
use maple_wire::Dpid;
use redb::{Database, ReadableTable, StorageError, TableDefinition, TableError, TableHandle};
use serde_json::json;

use crate::late::LateDatabase;
use crate::priority::lower_for_good;
use crate::remember::{
    Archive, Failed, LeafJournal, RUN, Remembered, Remembering, STATE_FORMAT, STATE_FORMAT_KEY, begin, begin_known,
};
use crate::restart::{Departed, Restart};
use crate::state_json::{from_json, to_json};

const ROWS: TableDefinition<'_, &str, &str> = TableDefinition::new("maple state");
const NAMES: TableDefinition<'_, &str, ()> = TableDefinition::new("maple names");
/// How long a released file may be in use still, and how often it is tried.
const RELEASE: Duration = Duration::from_secs(10);
const RELEASE_LOOK: Duration = Duration::from_millis(5);
/// How often it is looked whether this is the end, while another process has the file.
const END_LOOK: Duration = Duration::from_millis(50);

/// Waits until another process has closed the file.
pub(crate) type Release = Box<dyn FnOnce() + Send>;

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

/// Makes the file hold what the store keeps. Mostly it does already.
fn hold(database: &Database, there: Contents, store: &Store) -> Result<(), Failed> {
    let (names, kept) = store.kept_contents();
    let there: BTreeMap<Cell, Option<Value>> = there.writes.iter().filter_map(cell).collect();
    let wanted: BTreeMap<Cell, Option<Value>> = kept.iter().filter_map(cell).collect();
    let transaction = database.begin_write()?;
    {
        let mut rows = transaction.open_table(ROWS)?;
        let mut known = transaction.open_table(NAMES)?;
        for name in &names {
            known.insert(&**name, ())?;
        }
        for gone in there.keys().filter(|cell| !wanted.contains_key(cell)) {
            if let Some((_, row)) = row(gone) {
                rows.remove(row.as_str())?;
            }
        }
        for (cell, value) in wanted.iter().filter(|(cell, value)| there.get(cell) != Some(value)) {
            if let (Some((_, row)), Some(value)) = (row(cell), value) {
                rows.insert(row.as_str(), to_json(value).to_string().as_str())?;
            }
        }
    }
    transaction.commit()?;
    Ok(())
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
