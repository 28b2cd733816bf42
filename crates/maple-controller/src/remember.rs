//! Writes into the state file what the next run is to know: witness packets of leaves, and what is around switches.
//!
//! # How
//!
//! Shards say which leaves came and went ([`LeafJournal`]); the newest word about each leaf waits. Once in a while
//! ([`PERIOD`]) a thread writes all of it as one transaction of `redb`, and the surroundings with it, if they have
//! changed. Packets never wait for that. A crash loses the last period at most. What is lost, damaged or of another
//! format costs time after the restart, and nothing else.
//!
//! # The file
//!
//! A row for each leaf: the epoch of the run in the upper 16 bits and the leaf's id, and the leaf as JSON. One row for
//! the surroundings, one for the epoch, one for the format. Rows of leaves that were restored are deleted some time
//! later ([`KEEP`]), when their leaves of this run have rows.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use maple_core::ids::LeafId;
use maple_core::network::{HostInfo, Location, Mac};
use maple_core::remembered::{Model, RememberedLabel, Surroundings, Witness};
use maple_wire::{Constraint, Dpid, Field, PortNo, Version};
use redb::{Database, ReadableTable, TableDefinition};
use serde::{Deserialize, Serialize};

use crate::restart::{Departed, Restart, by_switch};

const LEAVES: TableDefinition<'_, u64, &str> = TableDefinition::new("maple leaves");
pub(crate) const RUN: TableDefinition<'_, &str, &str> = TableDefinition::new("maple run");

/// The format of what is remembered.
pub(crate) const FORMAT: &str = "1";
/// The format of tables and variables (`persistence.rs`). A file of another one is refused: they can't be made anew.
pub(crate) const STATE_FORMAT: &str = "1";
/// The row that has that format. A file without it has format 1.
pub(crate) const STATE_FORMAT_KEY: &str = "rows";
/// How often the thread writes.
const PERIOD: Duration = Duration::from_millis(500);
/// How long the rows of a restored switch are kept.
const KEEP: Duration = Duration::from_secs(10);
/// The maximum number of leaves that wait to be written. Beyond that, new ones are not remembered.
const MAX_PENDING: usize = 1 << 19;

/// Any error of `redb`.
pub(crate) struct Failed(pub Box<redb::Error>);

impl<E: Into<redb::Error>> From<E> for Failed {
    fn from(error: E) -> Failed {
        Failed(Box::new(error.into()))
    }
}

/// What is on its way to the file.
#[derive(Debug)]
pub(crate) struct LeafJournal {
    epoch: u16,
    pending: Mutex<Pending>,
    end: Condvar,
}

#[derive(Debug, Default)]
struct Pending {
    rows: BTreeMap<u64, Option<Witness>>,
    /// Rows to be deleted at a time.
    outdated: Vec<(Instant, Vec<u64>)>,
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
}

/// The thread that writes.
pub(crate) struct Remembering {
    journal: Arc<LeafJournal>,
    thread: Option<JoinHandle<()>>,
}

impl LeafJournal {
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
            pending.rows.insert(row, witness);
        }
    }

    /// A switch has disconnected: its leaves stay in the file.
    pub fn departed(&self, leaves: Vec<(LeafId, Witness)>, surroundings: Surroundings) -> Departed {
        let rows = leaves.iter().map(|(id, _)| self.row(*id)).collect();
        let departed = leaves.iter().map(|(_, witness)| witness.clone()).collect();
        self.note(leaves.into_iter().map(|(id, witness)| (id, Some(witness))).collect());
        Departed { leaves: departed, rows, surroundings }
    }

    /// These rows are no longer needed, once the leaves that were made of them have rows.
    pub fn outdate(&self, rows: Vec<u64>) {
        self.lock().outdated.push((Instant::now() + KEEP, rows));
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next time to write. Returns what to write, and whether that is the last time.
    fn next(&self) -> (BTreeMap<u64, Option<Witness>>, bool) {
        let pending = self.lock();
        let wait = self.end.wait_timeout_while(pending, PERIOD, |pending| !pending.ending);
        let mut pending = wait.unwrap_or_else(PoisonError::into_inner).0;
        let now = Instant::now();
        let (due, kept) = std::mem::take(&mut pending.outdated).into_iter().partition(|(time, _)| *time <= now);
        pending.outdated = kept;
        let due: Vec<(Instant, Vec<u64>)> = due;
        let mut rows = std::mem::take(&mut pending.rows);
        rows.extend(due.into_iter().flat_map(|(_, rows)| rows).map(|row| (row, None)));
        let lost = std::mem::take(&mut pending.lost);
        if lost > 0 {
            tracing::warn!("the state file is too slow: a restart will not know {lost} leaves");
        }
        (rows, pending.ending)
    }
}

impl Remembering {
    /// Starts to write, into a file that is open.
    pub fn start(database: Arc<Database>, epoch: u16, restart: Arc<Restart>) -> std::io::Result<Remembering> {
        let (pending, end) = (Mutex::default(), Condvar::new());
        let journal = Arc::new(LeafJournal { epoch, pending, end });
        let of_thread = Arc::clone(&journal);
        let work = move || {
            let (mut written, mut version, mut was_quiet) = (String::new(), 0, false);
            loop {
                let (rows, is_last) = of_thread.next();
                let newest = restart.store().snapshot().version();
                // Labels come a moment after what they are for.
                let is_quiet = rows.is_empty() && std::mem::replace(&mut version, newest) == newest;
                if is_quiet && std::mem::replace(&mut was_quiet, is_quiet) && !is_last {
                    continue;
                }
                was_quiet = is_quiet;
                if let Err(error) = write(&database, rows, &mut written, &restart) {
                    tracing::error!("the state file: {}; a restart will not know what comes from now on", error.0);
                    return;
                }
                if is_last {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("remember".into()).spawn(work)?;
        Ok(Remembering { journal, thread: Some(thread) })
    }

    /// Takes what is to be remembered.
    pub fn journal(&self) -> Arc<LeafJournal> {
        Arc::clone(&self.journal)
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

/// Writes rows and the surroundings, if there is something new.
fn write(
    database: &Database,
    rows: BTreeMap<u64, Option<Witness>>,
    written: &mut String,
    restart: &Restart,
) -> Result<(), Failed> {
    let surroundings = to_json(&SurroundingsRow::of(restart.surroundings()));
    if rows.is_empty() && *written == surroundings {
        return Ok(());
    }
    let transaction = database.begin_write()?;
    {
        let mut leaves = transaction.open_table(LEAVES)?;
        for (row, witness) in rows {
            match witness {
                Some(witness) => {
                    let text = to_json(&WitnessRow::of(&witness));
                    leaves.insert(row, text.as_str())?;
                }
                None => drop(leaves.remove(row)?),
            }
        }
        let mut run = transaction.open_table(RUN)?;
        run.insert("surroundings", surroundings.as_str())?;
    }
    transaction.commit()?;
    *written = surroundings;
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
        remembered.epoch = last.map_or(1, |last| last.wrapping_add(1).max(1));
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

/// Reads the switches of an earlier run. Rows that make no sense are left out.
fn read(leaves: &redb::Table<'_, u64, &str>, surroundings: &str) -> Result<BTreeMap<Dpid, Departed>, Failed> {
    let mut damaged = 0;
    let mut switches: BTreeMap<Dpid, Departed> = BTreeMap::new();
    match serde_json::from_str::<SurroundingsRow>(surroundings) {
        Ok(all) => {
            let of_switch = |(dpid, surroundings)| (dpid, Departed { surroundings, ..Departed::default() });
            switches.extend(by_switch(all.surroundings()).into_iter().map(of_switch));
        }
        Err(_) => damaged += 1,
    }
    for row in leaves.iter()? {
        let (key, value) = row?;
        match serde_json::from_str::<WitnessRow>(value.value()).ok().and_then(WitnessRow::witness) {
            // Without its ports and links, a switch's leaves say nothing.
            Some(witness) => {
                let switch = switches.entry(witness.at.switch).or_default();
                switch.leaves.push(witness);
                switch.rows.push(key.value());
            }
            None => damaged += 1,
        }
    }
    if damaged > 0 {
        tracing::warn!("the state file: {damaged} rows about rules are damaged; these rules are made anew");
    }
    Ok(switches)
}

fn to_json(row: &impl Serialize) -> String {
    // These rows have only numbers and text.
    serde_json::to_string(row).unwrap_or_default()
}

/// A port: datapath id and number.
type Port = (u64, u32);

fn port(at: Location) -> Port {
    (at.switch.0, at.port.0)
}

fn location((switch, port): Port) -> Location {
    Location::new(Dpid(switch), PortNo(port))
}

#[derive(Serialize, Deserialize)]
struct WitnessRow {
    at: Port,
    /// In hexadecimal digits.
    frame: String,
    total_len: usize,
    /// The number of a field, value and mask.
    narrower: Vec<(u8, u128, u128)>,
}

impl WitnessRow {
    fn of(witness: &Witness) -> WitnessRow {
        let part = |part: &Constraint| (part.field as u8, part.value, part.mask);
        WitnessRow {
            at: port(witness.at),
            frame: witness.frame.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(digit).collect(),
            total_len: witness.total_len,
            narrower: witness.specialisation.iter().map(part).collect(),
        }
    }

    fn witness(self) -> Option<Witness> {
        let part = |(field, value, mask)| Some(Constraint { field: Field::from_oxm(field)?, value, mask });
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        if !self.frame.len().is_multiple_of(2) {
            return None;
        }
        let frame: Vec<u8> = self.frame.as_bytes().chunks(2).map(byte).collect::<Option<_>>()?;
        Some(Witness {
            at: location(self.at),
            frame: frame.into(),
            total_len: self.total_len,
            specialisation: self.narrower.into_iter().map(part).collect::<Option<_>>()?,
        })
    }
}

fn digit(digit: u8) -> char {
    char::from_digit(digit.into(), 16).unwrap_or('0')
}

#[derive(Serialize, Deserialize)]
struct SurroundingsRow {
    links: Vec<(Port, Port)>,
    edges: Vec<Port>,
    hosts: Vec<(u64, Port, Vec<Ipv4Addr>, Vec<Ipv6Addr>)>,
    /// Switch, arrival port, id, meaning.
    labels: Vec<(u64, Option<u32>, u16, u64)>,
    /// Switch, OpenFlow version, tables, whether it is Open vSwitch, whether it has bundles.
    #[serde(default)]
    models: Vec<(u64, u8, u8, bool, bool)>,
}

impl SurroundingsRow {
    fn of(all: Surroundings) -> SurroundingsRow {
        let Surroundings { links, edges, hosts, labels, models } = all;
        let links: BTreeSet<(Port, Port)> = links.into_iter().map(|(a, b)| (port(a.min(b)), port(a.max(b)))).collect();
        let host = |(mac, host): (Mac, HostInfo)| {
            let (v4, v6) = (host.ipv4.into_iter().collect(), host.ipv6.into_iter().collect());
            (mac.bits() as u64, port(host.location), v4, v6)
        };
        let label = |label: RememberedLabel| (label.switch.0, label.port.map(|port| port.0), label.id, label.meaning);
        SurroundingsRow {
            links: links.into_iter().collect(),
            edges: edges.into_iter().map(port).collect(),
            hosts: hosts.into_iter().map(host).collect(),
            labels: labels.into_iter().map(label).collect(),
            models: models
                .into_iter()
                .map(|(dpid, model)| (dpid, model_row(dpid, model)))
                .collect::<BTreeMap<_, _>>()
                .into_values()
                .collect(),
        }
    }

    fn surroundings(self) -> Surroundings {
        let host = |(mac, at, v4, v6): (u64, Port, Vec<Ipv4Addr>, Vec<Ipv6Addr>)| {
            let (ipv4, ipv6) = (v4.into_iter().collect(), v6.into_iter().collect());
            (Mac::from_bits(mac.into()), HostInfo { location: location(at), ipv4, ipv6 })
        };
        let label = |(switch, port, id, meaning): (u64, Option<u32>, u16, u64)| RememberedLabel {
            switch: Dpid(switch),
            port: port.map(PortNo),
            id,
            meaning,
        };
        Surroundings {
            links: self.links.into_iter().map(|(a, b)| (location(a), location(b))).collect(),
            edges: self.edges.into_iter().map(location).collect(),
            hosts: self.hosts.into_iter().map(host).collect(),
            labels: self.labels.into_iter().map(label).collect(),
            models: self.models.into_iter().filter_map(model).collect(),
        }
    }
}

fn model_row(dpid: Dpid, model: Model) -> (u64, u8, u8, bool, bool) {
    (dpid.0, model.version as u8, model.tables, model.is_open_vswitch, model.has_bundles)
}

fn model((dpid, version, tables, is_open_vswitch, has_bundles): (u64, u8, u8, bool, bool)) -> Option<(Dpid, Model)> {
    let version = [Version::Of10, Version::Of13].into_iter().find(|known| *known as u8 == version)?;
    Some((Dpid(dpid), Model { version, tables, is_open_vswitch, has_bundles }))
}

#[cfg(test)]
mod tests {
    use maple_core::engine::Time;
    use maple_core::state::Store;

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
        let journal = LeafJournal { epoch: found.epoch, pending: Mutex::default(), end: Condvar::new() };
        journal.note(leaves);
        let rows = std::mem::take(&mut journal.lock().rows);
        let written = write(database, rows, &mut String::new(), &restart);
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
    fn too_many_leaves_that_wait_are_not_remembered() {
        let journal = LeafJournal { epoch: 1, pending: Mutex::default(), end: Condvar::new() };
        let many = (0..=MAX_PENDING as u64).map(|id| (LeafId(id), Some(witness(1)))).collect();
        journal.note(many);
        let pending = journal.lock();
        assert_eq!((pending.rows.len(), pending.lost), (MAX_PENDING, 1));
    }
}
