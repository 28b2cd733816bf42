//! The state file's database, which a process that takes over opens only when the one before has closed it.
//!
//! Threads that write wait for it. What they have to write waits with them, in memory.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use redb::Database;

/// A database that may not be open yet.
#[derive(Default)]
pub(crate) struct LateDatabase {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
enum State {
    /// Another process has it still.
    #[default]
    Awaited,
    Open(Arc<Database>),
    /// It could not be opened, or nobody needs it any more.
    Closed,
}

impl LateDatabase {
    /// One that is open.
    pub fn open(database: Database) -> LateDatabase {
        LateDatabase { state: Mutex::new(State::Open(Arc::new(database))), changed: Condvar::new() }
    }

    /// It is open now; `None`: it will not be.
    pub fn arrive(&self, database: Option<Database>) {
        let state = database.map_or(State::Closed, |database| State::Open(Arc::new(database)));
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
        self.changed.notify_all();
    }

    /// Waits until it is open. `None` if it will not be.
    pub fn wait(&self) -> Option<Arc<Database>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_awaited = |state: &mut State| matches!(state, State::Awaited);
        match &*self.changed.wait_while(state, is_awaited).unwrap_or_else(PoisonError::into_inner) {
            State::Open(database) => Some(Arc::clone(database)),
            State::Awaited | State::Closed => None,
        }
    }

    /// Nobody needs it any more. The file is closed once those who have it have ended.
    pub fn close(&self) {
        self.arrive(None);
    }
}
