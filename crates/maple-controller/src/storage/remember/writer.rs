//! The thread that writes leaves, surroundings and the history of changes into the state file.

use std::sync::Arc;
use std::thread::JoinHandle;

use super::journal::{LeafJournal, PERIOD, Rows};
use super::remembered_rows::{WrittenRows, earlier_changes, write, write_changes};
use crate::priority::lower_for_good;
use crate::storage::history::ChangeHistory;
use crate::storage::known_switches::Restart;
use crate::storage::late_database::{LateDatabase, OpenDatabase};

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
        history: Arc<ChangeHistory>,
    ) -> std::io::Result<Remembering> {
        let of_thread = Arc::clone(&journal);
        let work = move || {
            if let Some(opened) = database.wait() {
                // Nothing waits for it, and after a start there is much to write.
                lower_for_good();
                let last_change = read_history(opened, &history);
                LeafWriter::new(&database, &of_thread, &restart, &history, last_change).run();
            }
        };
        let thread = std::thread::Builder::new().name("remember".into()).spawn(work)?;
        Ok(Remembering { journal, thread: Some(thread) })
    }
}

/// Adds the changes of earlier runs to the history. Returns the number of the newest one; `None` if they can't be read.
fn read_history(opened: OpenDatabase, history: &ChangeHistory) -> Option<u64> {
    match opened.work(earlier_changes).map(|rows| history.put_before(rows)) {
        Ok((newest, damaged)) => {
            if damaged > 0 {
                tracing::warn!("the state file: {damaged} rows of the history are damaged, and left out");
            }
            Some(newest)
        }
        Err(why) => {
            tracing::warn!(
                "the state file: the history of earlier runs can't be read: {why}; it stays as it is, and no change of this \
                 run comes into the file"
            );
            None
        }
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

/// Writes what waits, into a database that may fail and be opened again.
struct LeafWriter<'a> {
    database: &'a LateDatabase,
    journal: &'a LeafJournal,
    restart: &'a Restart,
    history: &'a ChangeHistory,
    /// The number of the newest change in the file; `None` if no change may be written, since earlier ones would go.
    last_change: Option<u64>,
    written: WrittenRows,
    /// The version of the state at the last turn.
    version: u64,
    was_quiet: bool,
    /// The number of times that the file was made anew, when it was last written.
    made_anew: u64,
    /// Whether the file failed, and is not open again.
    has_failed: bool,
    /// Whether the file lacks rows that are not in the journal either.
    has_lost: bool,
}

impl<'a> LeafWriter<'a> {
    fn new(
        database: &'a LateDatabase,
        journal: &'a LeafJournal,
        restart: &'a Restart,
        history: &'a ChangeHistory,
        last_change: Option<u64>,
    ) -> LeafWriter<'a> {
        LeafWriter {
            database,
            journal,
            restart,
            history,
            last_change,
            written: WrittenRows::default(),
            version: 0,
            was_quiet: false,
            made_anew: 0,
            has_failed: false,
            has_lost: false,
        }
    }

    /// Writes until the journal ends, or the database is closed.
    fn run(mut self) {
        loop {
            let (rows, lost, is_last) = self.journal.next(PERIOD);
            self.note_lost(lost);
            let policy = self.journal.policy();
            if self.has_nothing_to_write(&rows, policy.as_ref()) && !is_last {
                self.journal.wrote_all_but(Rows::new());
                continue;
            }
            // Nobody takes a copy for a process that takes over while it waits for this.
            let opened = self.database.wait_for(PERIOD);
            self.has_failed = opened.is_none();
            match opened {
                Some(opened) => self.write(&opened, rows, policy, is_last),
                None => {
                    self.journal.wrote_all_but(rows);
                    if self.database.is_closed() {
                        return;
                    }
                }
            }
            if is_last {
                return;
            }
        }
    }

    fn note_lost(&mut self, lost: u64) {
        self.has_lost |= self.has_failed && lost > 0;
        if lost > 0 && !self.has_failed {
            // Asking for all of them again would not make it quicker.
            tracing::warn!("the state file is too slow: a restart will not know {} of the leaves", lost);
        }
    }

    /// Reports whether nothing has changed for two turns, and the file has everything. Labels come a moment after what
    /// they are for.
    fn has_nothing_to_write(&mut self, rows: &Rows, policy: Option<&String>) -> bool {
        let newest = self.restart.store().snapshot().version();
        let is_same = rows.is_empty() && policy == self.written.policy.as_ref();
        let is_quiet = std::mem::replace(&mut self.version, newest) == newest && is_same;
        let was_quiet = std::mem::replace(&mut self.was_quiet, is_quiet);
        // A file that was made anew lacks all rows, also if nothing changes.
        let is_whole = !self.has_lost && !self.database.is_another(self.made_anew);
        let is_whole = is_whole && self.last_change.is_none_or(|last| last == self.history.last());
        is_quiet && was_quiet && is_whole
    }

    /// Writes rows. If that fails, they stay in the journal.
    fn write(&mut self, opened: &OpenDatabase, rows: Rows, policy: Option<String>, is_last: bool) {
        if std::mem::replace(&mut self.made_anew, opened.made_anew) != opened.made_anew {
            self.written = WrittenRows::default();
            self.last_change = self.last_change.map(|_| 0);
            self.has_lost = true;
        }
        let (written, restart) = (&mut self.written, self.restart);
        let changes = self.last_change.map(|last| self.history.unwritten(last));
        let work = |database: &_| {
            write(database, &rows, policy, written, restart)?;
            changes.as_ref().map_or(Ok(()), |changes| write_changes(database, changes))
        };
        match opened.work(work) {
            Ok(()) => {
                self.last_change = changes.map(|changes| changes.last);
                self.journal.wrote_all_but(Rows::new());
                if std::mem::take(&mut self.has_lost) {
                    self.journal.want_all(self.restart.departed_rows());
                }
            }
            Err(why) => {
                self.journal.wrote_all_but(rows);
                self.written = WrittenRows::default();
                if is_last {
                    return tracing::error!("the state file: {why}; a restart will not know the newest leaves");
                }
                self.database.fail(opened, why);
                self.has_failed = true;
            }
        }
    }
}
