//! The file of persistent state: opened or created, checked, converted to the types that are declared, and written.

#![allow(clippy::result_large_err, reason = "redb's errors are large, and an error here is rare")]

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use maple_core::state::{Cell, Name, Snapshot, Store, Value, Write};
use redb::backends::InMemoryBackend;
use redb::{
    Database, ReadTransaction, ReadableTable, StorageError, Table, TableDefinition, TableError, TableHandle,
    WriteTransaction,
};

use super::error::PersistenceError;
use super::format_1;
use super::place::{StateFile, Unfinished};
use crate::storage::format::{bytes, read};
use crate::storage::late_database::DatabaseError;
use crate::storage::remember::{RUN, STATE_FORMAT, STATE_FORMAT_KEY, put_formats};

const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("maple state");
pub(super) const NAMES: TableDefinition<'_, &str, ()> = TableDefinition::new("maple names");

/// The contents of the file.
#[derive(Default)]
pub(super) struct Contents {
    /// The names of persistent tables and variables.
    pub names: Vec<Name>,
    /// The values, as writes.
    pub writes: Vec<Write>,
    /// Whether the file has the format before, and is to be rewritten.
    pub is_old: bool,
}

/// The reason why a file can't be used that is a whole database.
enum FileRefusal {
    /// A file of another program.
    NotOurs,
    /// A file of another format, which this names.
    Format(String),
    /// A row that can't be read, as this text says.
    Row(String),
}

/// Opens the file, or creates it if there is none.
///
/// # Errors
/// [`PersistenceError`] if it can't be created, or is used, damaged, of another format, or another program's.
pub(super) fn open(place: &StateFile) -> Result<(Database, Contents), PersistenceError> {
    let path = place.path();
    if !path.try_exists().map_err(|error| PersistenceError::Create { path: path.to_owned(), error })? {
        create(place)?;
    }
    open_existing(place)
}

/// Opens a file that exists.
pub(super) fn open_existing(place: &StateFile) -> Result<(Database, Contents), PersistenceError> {
    twice(|| checked(place.path(), || place.open()))
}

/// Opens a file, and once more if it is damaged. A repair writes the file's header and then shortens the file. If it
/// ended in between, redb 2.6 panics: the file seems whole, and then is too long. The first attempt corrects the
/// header.
fn twice<T>(open: impl Fn() -> Result<T, PersistenceError>) -> Result<T, PersistenceError> {
    match open() {
        Err(PersistenceError::Damaged { .. }) => open(),
        opened => opened,
    }
}

/// Opens a copy in memory of a file that can be read and not written. If there is no file, the copy is empty.
///
/// # Errors
/// [`PersistenceError`] if the file can't be read, or is used, damaged, of another format, or another program's.
pub(super) fn open_copy(place: &StateFile) -> Result<(Database, Contents), PersistenceError> {
    let path = place.path();
    let failed = |error: redb::Error| PersistenceError::File { path: path.to_owned(), error: Box::new(error) };
    if !path.exists() {
        let database = Database::builder().create_with_backend(InMemoryBackend::new());
        return Ok((database.map_err(|error| failed(error.into()))?, Contents::default()));
    }
    let memory = match place.copy() {
        Err(redb::Error::DatabaseAlreadyOpen) => return Err(PersistenceError::InUse(path.to_owned())),
        copied => copied.map_err(failed)?,
    };
    twice(|| checked(path, || Ok(Database::builder().create_with_backend(memory.clone())?)))
}

/// Opens a database and checks it.
fn checked(
    path: &Path,
    open: impl FnOnce() -> Result<Database, redb::Error>,
) -> Result<(Database, Contents), PersistenceError> {
    // On missing or damaged pages redb returns an error or panics.
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let mut database = open()?;
        database.check_integrity()?;
        let contents = contents(&database)?;
        Ok::<_, DatabaseError>((database, contents))
    }));
    let damaged = |what: String| PersistenceError::Damaged { path: path.to_owned(), what };
    let (database, contents) =
        opened.map_err(|_| damaged("parts are missing".into()))?.map_err(|DatabaseError(error)| match *error {
            redb::Error::DatabaseAlreadyOpen => PersistenceError::InUse(path.to_owned()),
            redb::Error::Io(io) if io.kind() == std::io::ErrorKind::InvalidData => {
                PersistenceError::NotOurs(path.to_owned())
            }
            redb::Error::Corrupted(what) => damaged(what),
            error => PersistenceError::File { path: path.to_owned(), error: Box::new(error) },
        })?;
    let contents = contents.map_err(|refusal| match refusal {
        FileRefusal::NotOurs => PersistenceError::NotOurs(path.to_owned()),
        FileRefusal::Format(format) => PersistenceError::Format { path: path.to_owned(), format },
        FileRefusal::Row(row) => PersistenceError::Row { path: path.to_owned(), row },
    })?;
    Ok((database, contents))
}

/// Converts the contents to the declared types, which may have changed since the file was written. Also rewrites the
/// file, so that a key whose spelling has changed does not occur twice, and one of the format before as a whole.
///
/// # Errors
/// [`PersistenceError`] if a value does not have the declared type, two keys become one, or the file can't be written.
pub(super) fn convert_to_types(
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
    if changed.is_empty() && !contents.is_old {
        return Ok(());
    }
    let mut places = BTreeSet::new();
    for (place, _) in contents.writes.iter().filter_map(cell) {
        if !places.insert(place.clone()) {
            return Err(PersistenceError::DuplicateKey { path: path.to_owned(), place });
        }
    }
    let rewrite = || -> Result<(), DatabaseError> {
        if contents.is_old {
            return format_1::rewrite(database, contents);
        }
        let transaction = database.begin_write()?;
        {
            let mut rows = transaction.open_table(ROWS)?;
            let row_of = |write: &Write| cell(write).and_then(|(cell, _)| row(&cell).map(|(_, row)| row));
            for old in changed.iter().filter_map(|(old, _)| row_of(old)) {
                rows.remove(old.as_slice())?;
            }
        }
        put_rows(&transaction, changed.iter().map(|(_, new)| new))?;
        transaction.commit()?;
        Ok(())
    };
    rewrite().map_err(|DatabaseError(error)| PersistenceError::File { path: path.to_owned(), error })
}

/// Creates an empty file. An unfinished file is never visible at the path.
fn create(place: &StateFile) -> Result<(), PersistenceError> {
    let path = place.path();
    let failed = |error: std::io::Error| PersistenceError::Create { path: path.to_owned(), error };
    let (database, unfinished) = empty(place).map_err(|DatabaseError(error)| match *error {
        redb::Error::Io(error) => failed(error),
        error => PersistenceError::File { path: path.to_owned(), error: Box::new(error) },
    })?;
    drop(database);
    place.put_new(&unfinished).map_err(failed)
}

/// Creates a database without rows, in a file that is not at its place yet.
pub(super) fn empty(place: &StateFile) -> Result<(Database, Unfinished), DatabaseError> {
    let (database, unfinished) = place.create_aside()?;
    let transaction = database.begin_write()?;
    transaction.open_table(ROWS)?;
    transaction.open_table(NAMES)?;
    put_formats(&transaction)?;
    transaction.commit()?;
    Ok((database, unfinished))
}

/// Returns the format of the file; `None` if it does not say.
fn format(database: &Database) -> Result<Option<String>, DatabaseError> {
    match database.begin_read()?.open_table(RUN) {
        Ok(run) => Ok(run.get(STATE_FORMAT_KEY)?.map(|format| format.value().to_owned())),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Reads the file.
fn contents(database: &Database) -> Result<Result<Contents, FileRefusal>, DatabaseError> {
    let is_old = match format(database)? {
        Some(other) if other != STATE_FORMAT && other != format_1::FORMAT => {
            return Ok(Err(FileRefusal::Format(other)));
        }
        format => format.is_none_or(|format| format == format_1::FORMAT),
    };
    let transaction = database.begin_read()?;
    if !transaction.list_tables()?.any(|table| table.name() == ROWS.name()) {
        return Ok(Err(FileRefusal::NotOurs));
    }
    let read = if is_old { format_1::writes } else { writes };
    let writes = match read(&transaction)? {
        Ok(writes) => writes,
        Err(row) => return Ok(Err(FileRefusal::Row(row))),
    };
    let names = transaction.open_table(NAMES)?;
    let names = names.iter()?.map(|name| Ok(name?.0.value().into())).collect::<Result<_, StorageError>>()?;
    Ok(Ok(Contents { names, writes, is_old }))
}

/// Reads the tables and variables. The error is a row that can't be read.
fn writes(transaction: &ReadTransaction) -> Result<Result<Vec<Write>, String>, DatabaseError> {
    let mut writes = Vec::new();
    for row in transaction.open_table(ROWS)?.iter()? {
        let (key, value) = row?;
        match write(key.value(), value.value()) {
            Some(write) => writes.push(write),
            None => return Ok(Err(hex::encode(key.value()))),
        }
    }
    Ok(Ok(writes))
}

/// Returns the cell and the value of a write; `None` if it is not of a table or variable.
pub(super) fn cell(write: &Write) -> Option<(Cell, Option<Value>)> {
    match write {
        Write::Table { table, key, value } => Some((Cell::Table(table.clone(), key.clone()), value.clone())),
        Write::Var { name, value } => Some((Cell::Var(name.clone()), value.clone())),
        _ => None,
    }
}

/// Returns the key of a cell's row, and the name of its table or variable.
fn row(cell: &Cell) -> Option<(&Name, Vec<u8>)> {
    let (Cell::Table(name, _) | Cell::Var(name)) = cell else { return None };
    Some((name, bytes(cell).ok()?))
}

/// Decodes a row of the file.
fn write(row: &[u8], value: &[u8]) -> Option<Write> {
    let value = Some(read(value).ok()?);
    match read(row).ok()? {
        Cell::Table(table, key) => Some(Write::Table { table, key, value }),
        Cell::Var(name) => Some(Write::Var { name, value }),
        _ => None,
    }
}

/// Puts the rows of these writes, none of which deletes.
pub(super) fn put_rows<'a>(
    transaction: &WriteTransaction,
    writes: impl IntoIterator<Item = &'a Write>,
) -> Result<(), DatabaseError> {
    let mut rows = transaction.open_table(ROWS)?;
    for (cell, value) in writes.into_iter().filter_map(cell) {
        if let (Some((_, row)), Some(value)) = (row(&cell), value) {
            insert(&mut rows, &row, &value)?;
        }
    }
    Ok(())
}

fn insert(rows: &mut Table<'_, &[u8], &[u8]>, row: &[u8], value: &Value) -> Result<(), DatabaseError> {
    let value = bytes(value).map_err(std::io::Error::other).map_err(redb::Error::Io)?;
    rows.insert(row, value.as_slice())?;
    Ok(())
}

/// Brings the file from its contents `there` to what the store keeps. Mostly they are equal.
pub(super) fn hold(database: &Database, there: Contents, store: &Store) -> Result<(), DatabaseError> {
    if there.is_old {
        format_1::rewrite(database, &there)?;
    }
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
                rows.remove(row.as_slice())?;
            }
        }
        for (cell, value) in wanted.iter().filter(|(cell, value)| there.get(cell) != Some(value)) {
            if let (Some((_, row)), Some(value)) = (row(cell), value) {
                insert(&mut rows, &row, value)?;
            }
        }
    }
    transaction.commit()?;
    Ok(())
}

/// Writes cells in one transaction.
pub(super) fn put(database: &Database, cells: &BTreeMap<Cell, Option<Value>>) -> Result<(), DatabaseError> {
    let transaction = database.begin_write()?;
    {
        let mut rows = transaction.open_table(ROWS)?;
        let mut names = transaction.open_table(NAMES)?;
        for (cell, value) in cells {
            let Some((name, row)) = row(cell) else { continue };
            match value {
                Some(value) => insert(&mut rows, &row, value)?,
                None => drop(rows.remove(row.as_slice())?),
            }
            names.insert(&**name, ())?;
        }
    }
    transaction.commit()?;
    Ok(())
}
