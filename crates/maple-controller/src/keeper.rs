//! State that survives a restart: tables and variables that the policy marked are kept in a file.
//!
//! # How
//!
//! A commit tells the keeper what it wrote in the order of commits, under the store's lock, and goes on. The keeper notes
//! the newest value of each place. A thread of its own takes all that was noted, writes it to the file as one
//! transaction of `redb`, which is on the disk when that ends, and takes what was noted meanwhile: the more commits, the
//! larger the groups, and a place that was written a hundred times is written once. What is noted is bounded by the
//! number of places.
//!
//! # What holds
//!
//! A write from outside is acknowledged only when it is on the disk. A group is all that was committed up to a moment, and
//! takes effect whole or not at all; so a crash loses at most what nobody was told of, and what it loses is always the
//! newest. Packets don't wait: what f wrote for a packet may be lost with the machine shortly after the packet was
//! answered.
//!
//! # The file
//!
//! One row a place: the place as JSON, and the value as JSON, as `maple state` writes them; and the names that are kept,
//! since a table that was emptied is to stay empty. It is made beside its place and moved there when it is whole.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use maple_core::state::{Cell, Journal, Mismatch, Name, Snapshot, Store, Value, Write};
use redb::{Database, ReadableTable, StorageError, TableDefinition, TableHandle};
use serde_json::json;

use crate::control::state::{shown, stored};

const ROWS: TableDefinition<'_, &str, &str> = TableDefinition::new("maple state");
const NAMES: TableDefinition<'_, &str, ()> = TableDefinition::new("maple names");

/// Why state can't be kept.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// The file can't be used.
    #[error("the state file {path}: {error}")]
    File {
        /// Its path.
        path: PathBuf,
        /// Why.
        error: Box<redb::Error>,
    },
    /// The file can't be made.
    #[error("the state file {path}: {error}")]
    Create {
        /// Its path.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// There is a file, and it is none of Maple's.
    #[error("{0} is no state file of Maple's; it was left as it is")]
    NotOurs(PathBuf),
    /// The file is damaged.
    #[error(
        "the state file {path} is damaged ({what}); it was left as it is: put a copy in its place, or begin anew without it"
    )]
    Damaged {
        /// Its path.
        path: PathBuf,
        /// How that shows.
        what: String,
    },
    /// Another process has it.
    #[error("another process uses the state file {0}")]
    InUse(PathBuf),
    /// The file holds something that is no state.
    #[error("the state file {path}: {row} is no row of kept state")]
    Row {
        /// The file's path.
        path: PathBuf,
        /// The row's key.
        row: String,
    },
    /// The file holds a value of another type than its table or variable is declared with.
    #[error("the state file {path}: {mismatch}; it was left as it is")]
    Type {
        /// The file's path.
        path: PathBuf,
        /// What it holds.
        mismatch: Mismatch,
    },
    /// The file has one key of a table that is declared with types twice, in two spellings.
    #[error("the state file {path}: {place:?} is there in two spellings; it was left as it is")]
    TwoSpellings {
        /// The file's path.
        path: PathBuf,
        /// The table and the key.
        place: Cell,
    },
    /// The system refused a thread.
    #[error("can't start the thread that writes the state file: {0}")]
    Thread(#[from] std::io::Error),
    /// Tables are to be kept, but nobody said where.
    #[error("{0} is to be kept over a restart; say in which file with --state FILE")]
    Where(String),
}

/// Keeps what the store says is to be kept.
pub(crate) struct Keeper {
    notes: Arc<Notes>,
    thread: Option<JoinHandle<()>>,
}

/// Between the store and the keeper's thread.
#[derive(Default)]
pub(crate) struct Notes {
    noted: Mutex<Noted>,
    /// There is something to write, or the end.
    work: Condvar,
    /// Something was written.
    progress: Condvar,
}

#[derive(Default)]
struct Noted {
    /// What is to be written.
    places: BTreeMap<Cell, Option<Value>>,
    /// The newest commit of `places`.
    newest: u64,
    /// The newest that is on the disk, with all before.
    kept: u64,
    /// Nobody writes what is noted any more.
    stopped: bool,
    /// What is noted is to be written, and nothing behind that: who writes on must not hold up the end.
    ended: bool,
}

/// An error of `redb`'s, whichever part of it it comes from.
struct Failed(Box<redb::Error>);

impl<E: Into<redb::Error>> From<E> for Failed {
    fn from(error: E) -> Failed {
        Failed(Box::new(error.into()))
    }
}

/// What the file has.
struct Contents {
    names: Vec<Name>,
    writes: Vec<Write>,
}

impl Keeper {
    /// Puts what the file has into the store, and keeps from now on what is written there to it. What was kept counts,
    /// not what the policy wrote while it was loaded. To be called before the first packet.
    pub fn open(path: &Path, store: &Store) -> Result<Keeper, KeepError> {
        let (database, mut contents) = open(path)?;
        bring_to_types(path, &database, &mut contents, &store.snapshot())?;
        let notes = Arc::<Notes>::default();
        store.keep_in(Arc::clone(&notes) as Arc<dyn Journal>, &contents.names, contents.writes);
        let (path, thread_notes) = (path.to_owned(), Arc::clone(&notes));
        let work = move || {
            let kept = keep(&database, &thread_notes);
            if let Err(error) = kept {
                tracing::error!("the state file {}: {}; state is no longer kept", path.display(), error.0);
            }
            thread_notes.lock().stopped = true;
            thread_notes.progress.notify_all();
        };
        let thread = std::thread::Builder::new().name("state-keeper".into()).spawn(work)?;
        Ok(Keeper { notes, thread: Some(thread) })
    }

    /// What is on its way to the file.
    pub fn notes(&self) -> Arc<Notes> {
        Arc::clone(&self.notes)
    }
}

impl Drop for Keeper {
    /// Ends when all that was noted is on the disk.
    fn drop(&mut self) {
        self.notes.lock().ended = true;
        self.notes.work.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that writes the state file panicked");
        }
    }
}

impl Notes {
    /// Waits until the commit that made this version is on the disk. `false` if that takes too long, or it came too late.
    pub fn wait(&self, version: u64, within: Duration) -> bool {
        let until = Instant::now() + within;
        let mut noted = self.lock();
        while noted.kept < version {
            let left = until.saturating_duration_since(Instant::now());
            if noted.stopped || noted.ended && noted.newest < version || left.is_zero() {
                return false;
            }
            noted = self.progress.wait_timeout(noted, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that was noted and its newest commit, as soon as there is something; `None` at the end.
    fn take(&self) -> Option<(BTreeMap<Cell, Option<Value>>, u64)> {
        let mut noted = self.lock();
        while noted.kept == noted.newest {
            if noted.ended {
                return None;
            }
            noted = self.work.wait(noted).unwrap_or_else(PoisonError::into_inner);
        }
        Some((std::mem::take(&mut noted.places), noted.newest))
    }
}

impl Journal for Notes {
    fn append(&self, version: u64, writes: &[Write]) {
        let mut noted = self.lock();
        // What is noted when nobody writes any more would stay for ever.
        if noted.stopped || noted.ended {
            return;
        }
        noted.places.extend(writes.iter().filter_map(place));
        noted.newest = version;
        self.work.notify_one();
    }
}

/// Writes what is noted, all that there is in one transaction, until the end.
fn keep(database: &Database, notes: &Notes) -> Result<(), Failed> {
    while let Some((places, newest)) = notes.take() {
        let transaction = database.begin_write()?;
        {
            let mut rows = transaction.open_table(ROWS)?;
            let mut names = transaction.open_table(NAMES)?;
            for (place, value) in &places {
                let Some((name, row)) = row(place) else { continue };
                match value {
                    Some(value) => drop(rows.insert(row.as_str(), shown(value).to_string().as_str())?),
                    None => drop(rows.remove(row.as_str())?),
                }
                names.insert(&**name, ())?;
            }
        }
        transaction.commit()?;
        notes.lock().kept = newest;
        notes.progress.notify_all();
    }
    Ok(())
}

/// Opens the file, or makes it.
fn open(path: &Path) -> Result<(Database, Contents), KeepError> {
    if !path.try_exists().map_err(|error| KeepError::Create { path: path.to_owned(), error })? {
        create(path)?;
    }
    // Where pages that it needs are not there or not what they were, redb says so or panics.
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let mut database = Database::open(path)?;
        database.check_integrity()?;
        let contents = contents(&database)?;
        Ok::<_, Failed>((database, contents))
    }));
    let damaged = |what: String| KeepError::Damaged { path: path.to_owned(), what };
    let (database, rows) =
        opened.map_err(|_| damaged("parts of it are missing".into()))?.map_err(|Failed(error)| match *error {
            redb::Error::DatabaseAlreadyOpen => KeepError::InUse(path.to_owned()),
            redb::Error::Io(io) if io.kind() == std::io::ErrorKind::InvalidData => KeepError::NotOurs(path.to_owned()),
            redb::Error::Corrupted(what) => damaged(what),
            error => KeepError::File { path: path.to_owned(), error: Box::new(error) },
        })?;
    let Some((names, rows)) = rows else { return Err(KeepError::NotOurs(path.to_owned())) };
    let writes = rows
        .into_iter()
        .map(|(row, value)| write(&row, &value).ok_or_else(|| KeepError::Row { path: path.to_owned(), row }));
    Ok((database, Contents { names, writes: writes.collect::<Result<_, _>>()? }))
}

/// Brings what the file has to the types that tables and variables were declared with since it was written, in the file
/// too: a key that is spelled otherwise now must not be there twice.
fn bring_to_types(
    path: &Path,
    database: &Database,
    contents: &mut Contents,
    state: &Snapshot,
) -> Result<(), KeepError> {
    let mut changed = Vec::new();
    for write in &mut contents.writes {
        let normal = state.normalise(write).map_err(|mismatch| KeepError::Type { path: path.to_owned(), mismatch })?;
        if let Some(normal) = normal {
            changed.push((std::mem::replace(write, normal.clone()), normal));
        }
    }
    if changed.is_empty() {
        return Ok(());
    }
    let mut places = BTreeSet::new();
    for (place, _) in contents.writes.iter().filter_map(place) {
        if !places.insert(place.clone()) {
            return Err(KeepError::TwoSpellings { path: path.to_owned(), place });
        }
    }
    let rewrite = || -> Result<(), Failed> {
        let transaction = database.begin_write()?;
        {
            let mut rows = transaction.open_table(ROWS)?;
            let row_of = |write: &Write| place(write).and_then(|(place, _)| row(&place).map(|(_, row)| row));
            for old in changed.iter().filter_map(|(old, _)| row_of(old)) {
                rows.remove(old.as_str())?;
            }
            for (place, value) in changed.iter().filter_map(|(_, new)| place(new)) {
                if let (Some((_, row)), Some(value)) = (row(&place), value) {
                    rows.insert(row.as_str(), shown(&value).to_string().as_str())?;
                }
            }
        }
        transaction.commit()?;
        Ok(())
    };
    rewrite().map_err(|Failed(error)| KeepError::File { path: path.to_owned(), error })
}

/// Makes an empty file. A file that was begun and not finished is never at `path`.
fn create(path: &Path) -> Result<(), KeepError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let beside = PathBuf::from(beside);
    let made = || -> Result<(), Failed> {
        let database = Database::create(&beside)?;
        let transaction = database.begin_write()?;
        transaction.open_table(ROWS)?;
        transaction.open_table(NAMES)?;
        transaction.commit()?;
        Ok(())
    };
    let failed = |error: std::io::Error| KeepError::Create { path: path.to_owned(), error };
    made().map_err(|Failed(error)| match *error {
        redb::Error::Io(error) => failed(error),
        error => KeepError::File { path: path.to_owned(), error: Box::new(error) },
    })?;
    // A link, unlike a move, never takes the place of a file that another process has made meanwhile.
    let linked = match std::fs::hard_link(&beside, path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    };
    let removed = std::fs::remove_file(&beside);
    linked.and(removed).and_then(|()| sync_folder(path)).map_err(failed)
}

/// Has the folder remember the file over a crash of the machine.
fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::File::open(folder)?.sync_all()
}

/// The kept names, and rows.
type Rows = (Vec<Name>, Vec<(String, String)>);

/// All that the file has; `None` if it is another program's.
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

/// Where a write goes and what it puts there; `None` for what is no table or variable.
fn place(write: &Write) -> Option<(Cell, Option<Value>)> {
    match write {
        Write::Table { table, key, value } => Some((Cell::Table(table.clone(), key.clone()), value.clone())),
        Write::Var { name, value } => Some((Cell::Var(name.clone()), value.clone())),
        _ => None,
    }
}

/// The key of a place's row, and the name that it belongs to.
fn row(place: &Cell) -> Option<(&Name, String)> {
    match place {
        Cell::Table(table, key) => Some((table, json!([&**table, shown(key)]).to_string())),
        Cell::Var(name) => Some((name, json!([&**name]).to_string())),
        _ => None,
    }
}

/// The write that a row of the file came from.
fn write(row: &str, value: &str) -> Option<Write> {
    let place: serde_json::Value = serde_json::from_str(row).ok()?;
    let value = Some(stored(&serde_json::from_str(value).ok()?).ok()?);
    match place.as_array()?.as_slice() {
        [name] => Some(Write::Var { name: name.as_str()?.into(), value }),
        [table, key] => Some(Write::Table { table: table.as_str()?.into(), key: stored(key).ok()?, value }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_behind_the_end_is_not_noted_and_its_writer_is_told() {
        let (notes, long) = (Notes::default(), Duration::from_secs(3600));
        let write = |value| [Write::Var { name: "mode".into(), value: Some(Value::Int(value)) }];
        notes.append(1, &write(1));
        notes.lock().ended = true;
        notes.append(2, &write(2));
        let noted = BTreeMap::from([(Cell::Var("mode".into()), Some(Value::Int(1)))]);
        assert_eq!(notes.take(), Some((noted, 1)));
        notes.lock().kept = 1;
        assert_eq!(notes.take(), None);
        assert!(notes.wait(1, long));
        assert!(!notes.wait(2, long));
    }
}
