//! Writes into the state file what the next run is to know: witness packets of leaves, and what is around switches.
//!
//! # How
//!
//! Shards say which leaves came and went ([`LeafJournal`]); the newest word about each leaf waits. Once in a while
//! ([`PERIOD`]) a thread writes all of it as one transaction of `redb`, and the surroundings with it, if they have
//! changed. Packets never wait for that. A crash loses the last period at most. What is lost, damaged or of another
//! format costs time after the restart, and nothing else.
//!
//! While the file fails (`persistence/keeper.rs`), this waits in memory, up to a bound ([`MAX_PENDING`]). If that was not
//! enough, or the file was made anew, shards tell of all their leaves again.
//!
//! # Copies
//!
//! A process that takes over gets a copy of the rows while this one goes on, and what has changed since at the end
//! ([`Archive`]).
//!
//! # The file
//!
//! A row for each leaf: the epoch of the run in the upper 16 bits and the leaf's id, and the leaf as JSON. One row for
//! the surroundings, one for the policy that runs, one for the epoch, one for the format. Rows of leaves that were restored are deleted some time
//! later ([`KEEP`]), when their leaves of this run have rows.

mod rows;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use maple_core::ids::LeafId;
use maple_core::remembered::{Surroundings, Witness};
use maple_wire::Dpid;
use redb::{AccessGuard, Database, ReadableTable, TableDefinition, TableError};

use crate::late::{Failed, LateDatabase};
use crate::policy_record::PolicyRecord;
use crate::priority::lower_for_good;
use crate::restart::{Departed, Restart, by_switch};
use rows::to_json;
pub(crate) use rows::{SurroundingsRow, WitnessRow, hex, unhex};

const LEAVES: TableDefinition<'_, u64, &str> = TableDefinition::new("maple leaves");
pub(crate) const RUN: TableDefinition<'_, &str, &str> = TableDefinition::new("maple run");

/// The format of what is remembered.
pub(crate) const FORMAT: &str = "1";
/// The format of tables and variables (`persistence/`). A file of another one is refused: they can't be made anew.
pub(crate) const STATE_FORMAT: &str = "1";
/// The row about the policy that runs.
const POLICY: &str = "policy";
/// The row that has that format. A file without it has format 1.
pub(crate) const STATE_FORMAT_KEY: &str = "rows";
/// How often the thread writes.
const PERIOD: Duration = Duration::from_millis(500);
/// How long a copy waits for what is being written.
const COPY: Duration = Duration::from_secs(10);
/// How long the rows of a restored switch are kept.
const KEEP: Duration = Duration::from_secs(10);
/// The maximum number of leaves that wait to be written. Beyond that, new ones are left out, and asked for later.
const MAX_PENDING: usize = 1 << 19;

/// What is on its way to the file.
#[derive(Debug)]
pub(crate) struct LeafJournal {
    epoch: u16,
    pending: Mutex<Pending>,
    end: Condvar,
    /// Signals that something was written.
    progress: Condvar,
    /// How often shards are to tell of all their leaves again.
    wanted: AtomicU64,
}

/// The newest word about some rows: the leaf, or that it has gone.
pub(crate) type Rows = BTreeMap<u64, Option<Witness>>;

#[derive(Debug, Default)]
struct Pending {
    rows: Rows,
    /// Whether the thread has taken rows that are not written yet.
    is_writing: bool,
    /// What has changed since the copy for another process, if there is one.
    since_copy: Option<Rows>,
    /// Rows to be deleted at a time.
    outdated: Vec<(Instant, Vec<u64>)>,
    /// The policy that runs.
    policy: Option<String>,
    /// Leaves that were not remembered, because too many wait.
    lost: u64,
    ending: bool,
}

/// What an earlier run has left in the file.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    /// The epoch of this run, which no earlier one had.
    pub epoch: u16,
    /// The switches.
    pub switches: BTreeMap<Dpid, Departed>,
    /// The policy that ran last.
    pub policy: Option<PolicyRecord>,
}

/// The thread that writes.
pub(crate) struct Remembering {
    journal: Arc<LeafJournal>,
    thread: Option<JoinHandle<()>>,
}

impl LeafJournal {
    /// For a run with this epoch.
    pub fn new(epoch: u16) -> LeafJournal {
        let (pending, wanted) = (Mutex::default(), AtomicU64::new(0));
        LeafJournal { epoch, pending, end: Condvar::new(), progress: Condvar::new(), wanted }
    }

    fn row(&self, id: LeafId) -> u64 {
        u64::from(self.epoch) << 48 | id.0
    }

    /// Leaves of this run that came or changed, or went.
    pub fn note(&self, leaves: Vec<(LeafId, Option<Witness>)>) {
        let mut pending = self.lock();
        for (id, witness) in leaves {
            let row = self.row(id);
            if witness.is_some() && pending.rows.len() >= MAX_PENDING && !pending.rows.contains_key(&row) {
                pending.lost += 1;
                continue;
            }
            pending.change(row, witness);
        }
    }

    /// This policy runs now.
    pub fn note_policy(&self, policy: &PolicyRecord) {
        self.lock().policy = Some(to_json(policy));
    }

    /// A switch has disconnected: its leaves stay in the file.
    pub fn departed(&self, leaves: Vec<(LeafId, Witness)>, surroundings: Surroundings) -> Departed {
        let rows = leaves.iter().map(|(id, _)| self.row(*id)).collect();
        let departed = leaves.iter().map(|(_, witness)| witness.clone()).collect();
        self.note(leaves.into_iter().map(|(id, witness)| (id, Some(witness))).collect());
        Departed { leaves: departed, rows, surroundings }
    }

    /// How often shards were asked to tell of all their leaves again.
    pub fn wanted(&self) -> u64 {
        self.wanted.load(Ordering::Relaxed)
    }

    /// The file has not all rows: shards are to tell of all their leaves. Those of departed switches are these.
    fn want_all(&self, departed: Vec<(u64, Witness)>) {
        let mut pending = self.lock();
        for (row, witness) in departed {
            if pending.rows.len() < MAX_PENDING {
                pending.rows.entry(row).or_insert(Some(witness));
            }
        }
        drop(pending);
        self.wanted.fetch_add(1, Ordering::Relaxed);
    }

    /// These rows are no longer needed, once the leaves that were made of them have rows.
    pub fn outdate(&self, rows: Vec<u64>) {
        self.lock().outdated.push((Instant::now() + KEEP, rows));
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next time to write. Returns what to write, how many leaves are not in it because too many waited, and
    /// whether that is the last time.
    fn next(&self) -> (Rows, u64, bool) {
        let pending = self.lock();
        let wait = self.end.wait_timeout_while(pending, PERIOD, |pending| !pending.ending);
        let mut pending = wait.unwrap_or_else(PoisonError::into_inner).0;
        let now = Instant::now();
        let (due, kept) = std::mem::take(&mut pending.outdated).into_iter().partition(|(time, _)| *time <= now);
        pending.outdated = kept;
        let due: Vec<(Instant, Vec<u64>)> = due;
        due.into_iter().flat_map(|(_, rows)| rows).for_each(|row| pending.change(row, None));
        let rows = std::mem::take(&mut pending.rows);
        pending.is_writing = true;
        let lost = std::mem::take(&mut pending.lost);
        (rows, lost, pending.ending)
    }

    /// What was taken last is written, except for these rows. What came meanwhile is newer.
    fn wrote_all_but(&self, rows: Rows) {
        let mut pending = self.lock();
        pending.is_writing = false;
        for (row, witness) in rows {
            if pending.rows.len() < MAX_PENDING || witness.is_none() {
                pending.rows.entry(row).or_insert(witness);
            } else {
                pending.lost += 1;
            }
        }
        self.progress.notify_all();
    }

    /// From now on it is noted what changes. Returns once everything before that was written, or is noted too. `false` if
    /// that takes too long.
    fn begin_copy(&self) -> bool {
        let mut pending = self.lock();
        pending.since_copy = Some(pending.rows.clone());
        let waited = self.progress.wait_timeout_while(pending, COPY, |pending| pending.is_writing);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_writing
    }

    /// What has changed since the copy; `None` if that is too much. From now on it is no longer noted.
    pub fn end_copy(&self) -> Option<Rows> {
        self.lock().since_copy.take()
    }
}

impl Pending {
    fn change(&mut self, row: u64, witness: Option<Witness>) {
        if let Some(since) = &mut self.since_copy {
            since.insert(row, witness.clone());
            if since.len() > MAX_PENDING {
                self.since_copy = None;
            }
        }
        self.rows.insert(row, witness);
    }
}

/// What a process that takes over is to know of leaves and surroundings.
pub(crate) struct Archive {
    pub journal: Arc<LeafJournal>,
    pub restart: Arc<Restart>,
    pub database: Arc<LateDatabase>,
}

/// A copy of all rows of leaves, as they are in the file.
pub(crate) struct Copied {
    /// The epoch of the run.
    pub epoch: u16,
    pub leaves: Vec<(u64, String)>,
    pub surroundings: SurroundingsRow,
}

impl Archive {
    /// Begins a copy. What changes from now on is noted until [`LeafJournal::end_copy`].
    ///
    /// # Errors
    /// If the file can't be read.
    pub fn copy(&self) -> Result<Copied, String> {
        let opened = self.database.wait_for(COPY).ok_or_else(|| {
            let why = self.database.failure().map(|why| format!(": {why}")).unwrap_or_default();
            format!("its state file is not open{why}")
        })?;
        if !self.journal.begin_copy() {
            return Err("its state file is slow".into());
        }
        let leaves = opened.work(raw_leaves).map_err(|why| format!("its state file: {why}"))?;
        Ok(Copied { epoch: self.journal.epoch, leaves, surroundings: self.surroundings() })
    }

    /// Where things are now.
    pub fn surroundings(&self) -> SurroundingsRow {
        SurroundingsRow::of(self.restart.surroundings())
    }
}

fn raw_leaves(database: &Database) -> Result<Vec<(u64, String)>, Failed> {
    let table = match database.begin_read()?.open_table(LEAVES) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let text = |row: Result<(AccessGuard<'_, u64>, AccessGuard<'_, &str>), redb::StorageError>| {
        let (key, value) = row?;
        Ok((key.value(), value.value().to_owned()))
    };
    table.iter()?.map(text).collect()
}

impl Remembering {
    /// Starts to write, into a file that may not be open yet.
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
        self.journal.lock().ending = true;
        self.journal.end.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that writes leaves to the state file panicked");
        }
    }
}

/// Writes what comes, into a database that may fail and be opened again.
fn write_until_end(database: &LateDatabase, journal: &LeafJournal, restart: &Restart) {
    let (mut written, mut version, mut was_quiet) = (Written::default(), 0, false);
    let (mut made_anew, mut has_failed, mut has_lost) = (0, false, false);
    loop {
        let (rows, lost, is_last) = journal.next();
        has_lost |= has_failed && lost > 0;
        if lost > 0 && !has_failed {
            // To ask for all of them again would not make it quicker.
            tracing::warn!("the state file is too slow: a restart will not know {lost} leaves");
        }
        let newest = restart.store().snapshot().version();
        // Labels come a moment after what they are for.
        let policy = journal.lock().policy.clone();
        let is_same = rows.is_empty() && policy == written.policy;
        let is_quiet = std::mem::replace(&mut version, newest) == newest && is_same;
        if is_quiet && std::mem::replace(&mut was_quiet, is_quiet) && !is_last && !has_lost {
            journal.wrote_all_but(Rows::new());
            continue;
        }
        was_quiet = is_quiet;
        // Nobody takes a copy for a process that takes over while it waits for this.
        let opened = database.wait_for(PERIOD);
        has_failed = opened.is_none();
        let Some(opened) = opened else {
            journal.wrote_all_but(rows);
            match is_last || database.is_closed() {
                true => return,
                false => continue,
            }
        };
        if std::mem::replace(&mut made_anew, opened.made_anew) != opened.made_anew {
            written = Written::default();
            has_lost = true;
        }
        match opened.work(|database| write(database, &rows, policy, &mut written, restart)) {
            Ok(()) => journal.wrote_all_but(Rows::new()),
            Err(why) => {
                journal.wrote_all_but(rows);
                written = Written::default();
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

/// What the file has besides leaves.
#[derive(Default, PartialEq, Eq)]
struct Written {
    surroundings: String,
    policy: Option<String>,
}

/// Writes rows, the surroundings and the policy that runs, if there is something new.
fn write(
    database: &Database,
    rows: &Rows,
    policy: Option<String>,
    written: &mut Written,
    restart: &Restart,
) -> Result<(), Failed> {
    let new = Written { surroundings: to_json(&SurroundingsRow::of(restart.surroundings())), policy };
    if rows.is_empty() && *written == new {
        return Ok(());
    }
    let transaction = database.begin_write()?;
    {
        let mut leaves = transaction.open_table(LEAVES)?;
        for (row, witness) in rows {
            match witness {
                Some(witness) => {
                    let text = to_json(&WitnessRow::of(witness));
                    leaves.insert(*row, text.as_str())?;
                }
                None => drop(leaves.remove(*row)?),
            }
        }
        let mut run = transaction.open_table(RUN)?;
        run.insert("surroundings", new.surroundings.as_str())?;
        if let Some(policy) = &new.policy {
            run.insert(POLICY, policy.as_str())?;
        }
    }
    transaction.commit()?;
    *written = new;
    Ok(())
}

/// Reads what an earlier run has left, and begins a new epoch.
pub(crate) fn begin(database: &Database) -> Result<Remembered, Failed> {
    let transaction = database.begin_write()?;
    let mut remembered = Remembered::default();
    {
        let mut run = transaction.open_table(RUN)?;
        let mut leaves = transaction.open_table(LEAVES)?;
        let get = |run: &redb::Table<'_, &str, &str>, key: &str| -> Result<Option<String>, Failed> {
            let row = run.get(key)?;
            Ok(row.map(|row| row.value().to_owned()))
        };
        let last: Option<u16> = get(&run, "epoch")?.and_then(|text| text.parse().ok());
        remembered.epoch = last.map_or(1, next_epoch);
        remembered.policy = get(&run, POLICY)?.and_then(|text| serde_json::from_str(&text).ok());
        let format = get(&run, "format")?;
        if format.as_deref().is_some_and(|format| format != FORMAT) {
            tracing::warn!("the state file was last used by another version of Maple: rules are made anew");
            leaves.retain(|_, _| false)?;
        } else if let Some(text) = get(&run, "surroundings")? {
            remembered.switches = read(&leaves, &text)?;
        }
        let state = (STATE_FORMAT_KEY, STATE_FORMAT);
        for (key, value) in [("epoch", remembered.epoch.to_string().as_str()), ("format", FORMAT), state] {
            run.insert(key, value)?;
        }
    }
    transaction.commit()?;
    Ok(remembered)
}

/// The policy that ran last, as a file tells that no controller uses.
pub(crate) fn last_policy(database: &Database) -> Result<Option<PolicyRecord>, Failed> {
    let run = match database.begin_read()?.open_table(RUN) {
        Ok(run) => run,
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(run.get(POLICY)?.and_then(|row| serde_json::from_str(row.value()).ok()))
}

/// The epoch of the run after one with this epoch.
pub(crate) fn next_epoch(last: u16) -> u16 {
    last.wrapping_add(1).max(1)
}

/// Begins an epoch in the file of a run whose rows are known.
pub(crate) fn begin_known(database: &Database, epoch: u16) -> Result<(), Failed> {
    let transaction = database.begin_write()?;
    {
        let mut run = transaction.open_table(RUN)?;
        transaction.open_table(LEAVES)?;
        let state = (STATE_FORMAT_KEY, STATE_FORMAT);
        for (key, value) in [("epoch", epoch.to_string().as_str()), ("format", FORMAT), state] {
            run.insert(key, value)?;
        }
    }
    transaction.commit()?;
    Ok(())
}

/// The switches of an earlier run, from rows and surroundings.
pub(crate) fn departed(
    rows: impl IntoIterator<Item = (u64, Witness)>,
    surroundings: Surroundings,
) -> BTreeMap<Dpid, Departed> {
    let of_switch = |(dpid, surroundings)| (dpid, Departed { surroundings, ..Departed::default() });
    let mut switches: BTreeMap<Dpid, Departed> = by_switch(surroundings).into_iter().map(of_switch).collect();
    for (row, witness) in rows {
        // Without its ports and links, a switch's leaves say nothing.
        let switch = switches.entry(witness.at.switch).or_default();
        switch.leaves.push(witness);
        switch.rows.push(row);
    }
    switches
}

/// Reads the switches of an earlier run. Rows that make no sense are left out.
fn read(leaves: &redb::Table<'_, u64, &str>, surroundings: &str) -> Result<BTreeMap<Dpid, Departed>, Failed> {
    let mut damaged = 0;
    let all = serde_json::from_str::<SurroundingsRow>(surroundings).map(SurroundingsRow::surroundings);
    damaged += u64::from(all.is_err());
    let mut rows = Vec::new();
    for row in leaves.iter()? {
        let (key, value) = row?;
        match WitnessRow::parse(value.value()) {
            Some(witness) => rows.push((key.value(), witness)),
            None => damaged += 1,
        }
    }
    if damaged > 0 {
        tracing::warn!("the state file: {damaged} rows about rules are damaged; these rules are made anew");
    }
    Ok(departed(rows, all.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use maple_core::engine::Time;
    use maple_core::network::{HostInfo, Mac};
    use maple_core::remembered::{Model, RememberedLabel};
    use maple_core::state::Store;
    use maple_wire::{Constraint, Field, PortNo, Version};

    use super::rows::location;
    use super::*;

    fn witness(switch: u64) -> Witness {
        let widest = Constraint { field: Field::Ipv6Src, value: u128::MAX - 1, mask: u128::MAX - 1 };
        Witness {
            at: location((switch, 4_294_967_294)),
            frame: [0, 1, 0xfe, 0xff].into(),
            total_len: 1514,
            specialisation: [widest].into(),
        }
    }

    fn around(switch: u64) -> Surroundings {
        let host = HostInfo {
            location: location((switch, 1)),
            ipv4: [[10, 0, 0, 1].into()].into(),
            ipv6: [Ipv6Addr::LOCALHOST].into(),
        };
        let label = |port| RememberedLabel { switch: Dpid(switch), port, id: 4094, meaning: u64::MAX };
        let model = Model { version: Version::Of10, tables: 3, is_open_vswitch: false, has_bundles: true };
        Surroundings {
            links: vec![(location((switch, 2)), location((9, 3)))],
            edges: vec![location((switch, 1))],
            hosts: vec![(Mac([2, 0, 0, 0, 0, 0xff]), host)],
            labels: vec![label(None), label(Some(PortNo(2)))],
            models: vec![(Dpid(switch), model)],
        }
    }

    fn file() -> (Database, std::path::PathBuf) {
        let path = std::env::temp_dir().join(format!("maple-remember-{}-{:?}", std::process::id(), Instant::now()));
        (Database::create(&path).expect("a file"), path)
    }

    /// A run of the controller: what it found in the file, and what it leaves.
    fn run(database: &Database, leaves: Vec<(LeafId, Option<Witness>)>) -> Remembered {
        let Ok(found) = begin(database) else { panic!("the file can be read") };
        let departed = [(Dpid(1), Departed { surroundings: around(1), ..Departed::default() })].into();
        let restart = Restart::new(Time(1), Store::new(), departed);
        let journal = LeafJournal::new(found.epoch);
        journal.note(leaves);
        let rows = std::mem::take(&mut journal.lock().rows);
        let written = write(database, &rows, None, &mut Written::default(), &restart);
        assert!(written.is_ok());
        found
    }

    #[test]
    fn the_next_run_finds_what_the_last_one_knew_under_an_epoch_of_its_own() {
        let (database, path) = file();
        let first = run(&database, vec![(LeafId(5), Some(witness(1))), (LeafId(6), Some(witness(1)))]);
        assert!(first.switches.is_empty());
        let second = run(&database, vec![(LeafId(5), Some(witness(1)))]);
        assert_eq!(second.epoch, first.epoch + 1);
        let switch = &second.switches[&Dpid(1)];
        assert_eq!((&switch.leaves[..], switch.rows.len()), (&[witness(1), witness(1)][..], 2));
        assert_eq!(switch.surroundings, around(1));
        assert_eq!(second.switches[&Dpid(9)].surroundings.links, around(1).links, "the other end knows the link too");
        let third = run(&database, Vec::new());
        assert_eq!(third.switches[&Dpid(1)].rows.len(), 3, "rows of two runs do not replace each other");
        std::fs::remove_file(path).expect("it was there");
    }

    #[test]
    fn damaged_rows_and_other_formats_are_left_out() {
        let (database, path) = file();
        run(&database, vec![(LeafId(5), Some(witness(1))), (LeafId(6), Some(witness(2)))]);
        let spoil = |table: TableDefinition<'_, u64, &str>, text: &str| {
            let transaction = database.begin_write().expect("a transaction");
            transaction.open_table(table).expect("a table").insert(1 << 48 | 5, text).expect("a row");
            transaction.commit().expect("it is written");
        };
        for damaged in ["", "{}", r#"{"at":[1,1],"frame":"0","total_len":1,"narrower":[]}"#] {
            spoil(LEAVES, damaged);
            let found = run(&database, Vec::new());
            assert_eq!(found.switches[&Dpid(2)].leaves, [witness(2)], "{damaged:?}");
            assert!(found.switches[&Dpid(1)].leaves.is_empty());
        }
        let transaction = database.begin_write().expect("a transaction");
        transaction.open_table(RUN).expect("a table").insert("format", "2").expect("a row");
        transaction.commit().expect("it is written");
        assert!(run(&database, Vec::new()).switches.is_empty());
        std::fs::remove_file(path).expect("it was there");
    }

    #[test]
    fn a_copy_and_what_changes_after_it_are_everything() {
        let (database, path) = file();
        run(&database, vec![(LeafId(5), Some(witness(1))), (LeafId(6), Some(witness(1)))]);
        let restart = Arc::new(Restart::new(Time(1), Store::new(), BTreeMap::new()));
        let (journal, database) = (Arc::new(LeafJournal::new(2)), Arc::new(LateDatabase::open(database)));
        let archive = Archive { journal: Arc::clone(&journal), restart, database };
        journal.note(vec![(LeafId(7), Some(witness(1)))]);
        let copied = archive.copy().expect("it can be read");
        journal.note(vec![(LeafId(8), Some(witness(2))), (LeafId(7), None)]);
        assert_eq!((copied.epoch, copied.leaves.len()), (2, 2));
        let row = |id| journal.row(LeafId(id));
        let later = journal.end_copy().expect("it is not too much");
        assert_eq!(later, [(row(7), None), (row(8), Some(witness(2)))].into());
        assert_eq!(journal.end_copy(), None, "nothing is noted any more");
        std::fs::remove_file(path).expect("it was there");
    }

    #[test]
    fn too_many_leaves_that_wait_are_not_remembered() {
        let journal = LeafJournal::new(1);
        let many = (0..=MAX_PENDING as u64).map(|id| (LeafId(id), Some(witness(1)))).collect();
        journal.note(many);
        let pending = journal.lock();
        assert_eq!((pending.rows.len(), pending.lost), (MAX_PENDING, 1));
    }
}
