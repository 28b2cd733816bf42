//! The thread that writes tables and variables, and that opens the file again after a failure.
//!
//! A database that has failed to write once is useless. So it is closed, and opened again after a pause that grows. A
//! file that is still there has what was written last, so only the difference to the store is written. If it was
//! deleted, replaced, overwritten or damaged, a new one is made from the store beside it, and takes its place when it
//! is complete. The old one is set aside: somebody may have put it there on purpose.
//!
//! While the file fails, nothing accumulates: the store has all that is to be written.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use maple_core::state::Store;
use redb::Database;

use super::error::PersistenceError;
use super::pending::{PendingWrites, Work};
use super::place::{Estranged, StateFile};
use super::state_file::{self, Contents, hold, put};
use crate::kept_files::{KeptFile, KeptFiles};
use crate::storage::late_database::{LateDatabase, OpenDatabase, guarded};
use crate::storage::remember::begin_known;

/// The pauses of the thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// The time between two checks of a file that nothing is written to.
    pub look: Duration,
    /// The first pause after a failure to open it again. It doubles with each failure.
    pub first: Duration,
    /// The maximum pause after a failure.
    pub most: Duration,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { look: Duration::from_secs(1), first: Duration::from_millis(500), most: Duration::from_secs(8) }
    }
}

/// The data of the thread.
pub(super) struct Keeper {
    pub place: StateFile,
    pub store: Arc<Store>,
    pub pending: Arc<PendingWrites>,
    pub database: Arc<LateDatabase>,
    pub files: KeptFiles,
    pub pace: Pace,
    /// The epoch of the run, if the file is to have one.
    pub epoch: Option<u16>,
}

/// The reason why nothing more is written to a file.
enum WritingEnd {
    Asked,
    Failed(String),
}

/// A file that was opened again.
struct Reopened {
    database: Database,
    is_new: bool,
    /// Further news for people, as in [`KeptFiles::mended`].
    remedy: String,
}

impl Keeper {
    /// Does the work of the thread.
    pub fn run(self) {
        let (mut made_anew, mut pause, mut mended) = (0, Duration::ZERO, None::<Instant>);
        loop {
            let why = match self.database.look() {
                Ok(None) => break,
                Err(why) => why,
                Ok(Some(opened)) => match self.write_until_end(&opened) {
                    WritingEnd::Asked => break,
                    WritingEnd::Failed(why) => {
                        self.database.fail(&opened, why.clone());
                        why
                    }
                },
            };
            // A file that fails as soon as it is mended is not tried at once.
            if mended.is_none_or(|mended| mended.elapsed() > self.pace.most) {
                pause = Duration::ZERO;
            }
            let Some(Reopened { database, is_new, remedy }) = self.mend(why, &mut pause) else { break };
            made_anew += u64::from(is_new);
            mended = Some(Instant::now());
            self.database.arrive(database, made_anew);
            self.files.mended(KeptFile::State, &remedy);
        }
        self.database.is_last();
        self.pending.stopped();
    }

    /// Writes pending writes until the end, each time all of them in one transaction.
    fn write_until_end(&self, opened: &OpenDatabase) -> WritingEnd {
        loop {
            let newest = match self.pending.take(self.pace.look) {
                // Another writer to the file may have failed.
                Work::End => return self.database.failure().map_or(WritingEnd::Asked, WritingEnd::Failed),
                Work::Nothing => None,
                Work::Write(cells, newest) => match opened.work(|database| put(database, &cells)) {
                    Ok(()) => Some(newest),
                    Err(why) => return WritingEnd::Failed(why),
                },
            };
            // Writes to a file that was deleted are not kept.
            if let Err(why) = self.place.check() {
                return WritingEnd::Failed(why.to_string());
            }
            match (newest, self.database.failure()) {
                (_, Some(why)) => return WritingEnd::Failed(why),
                (Some(newest), None) => self.pending.wrote(newest),
                (None, None) => {}
            }
        }
    }

    /// Tries to open the file again until that succeeds. `None`: the end came first.
    fn mend(&self, why: String, pause: &mut Duration) -> Option<Reopened> {
        self.files.fails(KeptFile::State, self.place.path(), why);
        self.pending.fail();
        loop {
            let is_last = self.pending.wait_for_end(*pause);
            *pause = (*pause * 2).clamp(self.pace.first, self.pace.most);
            let newest = self.pending.begin_to_catch_up();
            match unwound(|| self.reopen()) {
                Ok(reopened) => {
                    self.pending.caught_up(newest);
                    return Some(reopened);
                }
                Err(why) => {
                    self.pending.fail();
                    self.files.fails(KeptFile::State, self.place.path(), why.clone());
                    if is_last {
                        self.database.close();
                        if self.pending.is_behind() {
                            let path = self.place.path().display();
                            tracing::error!("the state file {path}: {why}; the last changes of the state are lost");
                        }
                        return None;
                    }
                }
            }
        }
    }

    fn reopen(&self) -> Result<Reopened, String> {
        let estranged = match self.place.check() {
            Ok(()) => match state_file::open_existing(&self.place) {
                Ok((database, there)) => {
                    self.bring(&database, there)?;
                    return Ok(Reopened { database, is_new: false, remedy: String::new() });
                }
                Err(error) if is_damage(&error) => error.to_string(),
                Err(error) => return Err(error.reason()),
            },
            Err(error @ Estranged::Unknown(_)) => return Err(error.to_string()),
            Err(error) => error.to_string(),
        };
        let (database, unfinished) = guarded(|| state_file::empty(&self.place))?;
        self.bring(&database, Contents::default())?;
        let aside = self.place.put(&unfinished).map_err(|error| format!("{estranged}; {error}"))?;
        let remedy = match aside {
            Some(aside) => format!("; it was made anew, and what was there is {}", aside.display()),
            None => "; it was made anew".to_owned(),
        };
        Ok(Reopened { database, is_new: true, remedy })
    }

    /// Writes to a file what it lacks of the store, and the epoch.
    fn bring(&self, database: &Database, there: Contents) -> Result<(), String> {
        guarded(|| hold(database, there, &self.store))?;
        self.epoch.map_or(Ok(()), |epoch| guarded(|| begin_known(database, epoch)))
    }
}

/// Does work, and turns a panic into an error: redb may panic when it closes a damaged file.
fn unwound<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err("parts of it are missing".to_owned()))
}

/// Reports whether the file is not a state file of this format, or not whole.
fn is_damage(error: &PersistenceError) -> bool {
    use PersistenceError as E;
    matches!(error, E::NotOurs(_) | E::Format { .. } | E::Damaged { .. } | E::Row { .. })
}
