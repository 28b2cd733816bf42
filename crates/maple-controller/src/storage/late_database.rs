//! The state file's database, which may not be open: a process that takes over opens it only when the old process has
//! closed it, and after a failure it is opened again.
//!
//! Threads that write wait for it. Meanwhile their writes wait in memory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use redb::Database;

/// A database that may not be open, or not for good.
#[derive(Default)]
pub(crate) struct LateDatabase {
    state: Mutex<DatabaseState>,
    changed: Condvar,
    /// Whether nobody opens it again after a failure.
    is_last: AtomicBool,
}

/// Any error of `redb`.
pub(crate) struct DatabaseError(pub Box<redb::Error>);

impl<E: Into<redb::Error>> From<E> for DatabaseError {
    fn from(error: E) -> DatabaseError {
        DatabaseError(Box::new(error.into()))
    }
}

/// Works with a database, and turns a panic into an error: redb panics on pages that are missing or damaged.
///
/// # Errors
/// The text of the database's error, or of the panic.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T, DatabaseError>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done.map_err(|DatabaseError(error)| error.to_string()),
        Err(_) => Err("parts of it are missing".to_owned()),
    }
}

#[derive(Default)]
enum DatabaseState {
    /// Another process still has it.
    #[default]
    Awaited,
    Open(OpenDatabase),
    /// A database that failed, for this reason, and is to be opened again.
    Failed(String),
    /// A database that could not be opened, or is not needed any more.
    Closed,
}

/// An open database. Dropping its last clone closes it.
#[derive(Clone)]
pub(crate) struct OpenDatabase {
    /// `Some` until this is dropped.
    database: Option<Arc<Database>>,
    /// The number of times that a file was made anew, without the contents of the earlier one.
    pub made_anew: u64,
}

impl OpenDatabase {
    /// Works with the database.
    ///
    /// # Errors
    /// The text of the database's error, also if the database is closed.
    pub fn work<T>(&self, work: impl FnOnce(&Database) -> Result<T, DatabaseError>) -> Result<T, String> {
        match &self.database {
            Some(database) => guarded(|| work(database)),
            None => Err("it is closed".to_owned()),
        }
    }

    fn is(&self, other: &OpenDatabase) -> bool {
        self.database.as_ref().map(Arc::as_ptr) == other.database.as_ref().map(Arc::as_ptr)
    }
}

impl Drop for OpenDatabase {
    /// Drops the database. To close a file with missing or damaged pages may be a panic, which is caught.
    fn drop(&mut self) {
        let database = self.database.take();
        if catch_unwind(AssertUnwindSafe(|| drop(database))).is_err() {
            tracing::debug!("a state file whose parts are missing was closed");
        }
    }
}

impl LateDatabase {
    /// Creates one that is open.
    #[cfg(test)]
    pub fn open(database: Database) -> LateDatabase {
        let late = LateDatabase::default();
        late.arrive(database, 0);
        late
    }

    /// Sets the database that is open.
    pub fn arrive(&self, database: Database, made_anew: u64) {
        self.set(DatabaseState::Open(OpenDatabase { database: Some(Arc::new(database)), made_anew }));
    }

    /// Waits until it is open. Returns `None` if it will not be.
    pub fn wait(&self) -> Option<OpenDatabase> {
        let mut state = self.lock();
        self.changed.wait_while(&mut state, |state| state.is_awaited());
        state.opened()
    }

    /// Waits until it is open or has failed. Returns `None` if it will not be open.
    ///
    /// # Errors
    /// The reason why it has failed.
    pub fn look(&self) -> Result<Option<OpenDatabase>, String> {
        let is_awaited = |state: &mut DatabaseState| matches!(state, DatabaseState::Awaited);
        let mut state = self.lock();
        self.changed.wait_while(&mut state, is_awaited);
        match &*state {
            DatabaseState::Failed(why) => Err(why.clone()),
            state => Ok(state.opened()),
        }
    }

    /// Waits until it is open, at most for `timeout`.
    pub fn wait_for(&self, timeout: Duration) -> Option<OpenDatabase> {
        let mut state = self.lock();
        self.changed.wait_while_for(&mut state, |state| state.is_awaited(), timeout);
        state.opened()
    }

    /// Reports whether the database is open, and was made anew another number of times than this.
    pub fn is_another(&self, made_anew: u64) -> bool {
        matches!(&*self.lock(), DatabaseState::Open(now) if now.made_anew != made_anew)
    }

    /// Notes that something could not be written to it: everybody waits until it is open again. The first reason
    /// counts.
    pub fn fail(&self, which: &OpenDatabase, why: String) {
        let mut state = self.lock();
        if matches!(&*state, DatabaseState::Open(now) if now.is(which)) {
            *state =
                if self.is_last.load(Ordering::Relaxed) { DatabaseState::Closed } else { DatabaseState::Failed(why) };
            self.changed.notify_all();
        }
    }

    /// Declares that nobody opens it again after a failure.
    pub fn is_last(&self) {
        let mut state = self.lock();
        self.is_last.store(true, Ordering::Relaxed);
        if matches!(&*state, DatabaseState::Failed(_)) {
            *state = DatabaseState::Closed;
            self.changed.notify_all();
        }
    }

    /// Notes that the database could not be opened the first time.
    pub fn fail_to_open(&self, why: String) {
        let mut state = self.lock();
        if matches!(&*state, DatabaseState::Awaited) {
            *state = DatabaseState::Failed(why);
            self.changed.notify_all();
        }
    }

    /// Returns why it failed, if it is not open again.
    pub fn failure(&self) -> Option<String> {
        match &*self.lock() {
            DatabaseState::Failed(why) => Some(why.clone()),
            _ => None,
        }
    }

    /// Reports whether the database will not be open again.
    pub fn is_closed(&self) -> bool {
        matches!(&*self.lock(), DatabaseState::Closed)
    }

    /// Closes the database for good. The file is closed once those that have the database have dropped it.
    pub fn close(&self) {
        self.set(DatabaseState::Closed);
    }

    fn set(&self, state: DatabaseState) {
        *self.lock() = state;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, DatabaseState> {
        self.state.lock()
    }
}

impl DatabaseState {
    fn is_awaited(&self) -> bool {
        matches!(self, DatabaseState::Awaited | DatabaseState::Failed(_))
    }

    fn opened(&self) -> Option<OpenDatabase> {
        match self {
            DatabaseState::Open(opened) => Some(opened.clone()),
            DatabaseState::Awaited | DatabaseState::Failed(_) | DatabaseState::Closed => None,
        }
    }
}
