//! The thread that writes leaves and surroundings into the state file.

use std::sync::Arc;
use std::thread::JoinHandle;

use super::file::{WrittenRows, write};
use super::journal::{LeafJournal, PERIOD, Rows};
use crate::memory::late::LateDatabase;
use crate::memory::restart::Restart;
use crate::priority::lower_for_good;

/// The thread that writes leaves and surroundings. Dropping this ends it.
pub(crate) struct Remembering {
    journal: Arc<LeafJournal>,
    thread: Option<JoinHandle<()>>,
}

impl Remembering {
    /// Starts the thread. The file may not be open yet.
    ///
    /// # Errors
    /// The system's error if it refuses a thread.
    pub fn start(
        database: Arc<LateDatabase>,
        journal: Arc<LeafJournal>,
        restart: Arc<Restart>,
    ) -> std::io::Result<Remembering> {
        let of_thread = Arc::clone(&journal);
        let work = move || {
            if database.wait().is_some() {
                // Nothing waits for it, and after a start there is much to write.
                lower_for_good();
                write_until_end(&database, &of_thread, &restart);
            }
        };
        let thread = std::thread::Builder::new().name("remember".into()).spawn(work)?;
        Ok(Remembering { journal, thread: Some(thread) })
    }
}

impl Drop for Remembering {
    /// Returns when everything is on the disk.
    fn drop(&mut self) {
        self.journal.end();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that writes leaves to the state file panicked");
        }
    }
}

/// Writes what waits until the end, into a database that may fail and be opened again.
fn write_until_end(database: &LateDatabase, journal: &LeafJournal, restart: &Restart) {
    let (mut written, mut version, mut was_quiet) = (WrittenRows::default(), 0, false);
    let (mut made_anew, mut has_failed, mut has_lost) = (0, false, false);
    loop {
        let (rows, lost, is_last) = journal.next();
        has_lost |= has_failed && lost > 0;
        if lost > 0 && !has_failed {
            // Asking for all of them again would not make it quicker.
            tracing::warn!("the state file is too slow: a restart will not know {} of the leaves", lost);
        }
        let newest = restart.store().snapshot().version();
        // Labels come a moment after what they are for.
        let policy = journal.policy();
        let is_same = rows.is_empty() && policy == written.policy;
        let is_quiet = std::mem::replace(&mut version, newest) == newest && is_same;
        // A file that was made anew lacks all rows, also if nothing changes.
        let is_whole = !has_lost && !database.is_another(made_anew);
        if is_quiet && std::mem::replace(&mut was_quiet, is_quiet) && !is_last && is_whole {
            journal.wrote_all_but(Rows::new());
            continue;
        }
        was_quiet = is_quiet;
        // Nobody takes a copy for a process that takes over while it waits for this.
        let opened = database.wait_for(PERIOD);
        has_failed = opened.is_none();
        let Some(opened) = opened else {
            journal.wrote_all_but(rows);
            if is_last || database.is_closed() {
                return;
            }
            continue;
        };
        if std::mem::replace(&mut made_anew, opened.made_anew) != opened.made_anew {
            written = WrittenRows::default();
            has_lost = true;
        }
        match opened.work(|database| write(database, &rows, policy, &mut written, restart)) {
            Ok(()) => journal.wrote_all_but(Rows::new()),
            Err(why) => {
                journal.wrote_all_but(rows);
                written = WrittenRows::default();
                if is_last {
                    return tracing::error!("the state file: {why}; a restart will not know the newest leaves");
                }
                database.fail(&opened, why);
                has_failed = true;
                continue;
            }
        }
        if std::mem::take(&mut has_lost) {
            journal.want_all(restart.departed_rows());
        }
        if is_last {
            return;
        }
    }
}
