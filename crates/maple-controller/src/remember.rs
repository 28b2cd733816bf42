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
use maple_core::remembered::{RememberedLabel, Surroundings, Witness};
use maple_wire::{Constraint, Dpid, Field, PortNo};
use redb::{Database, ReadableTable, TableDefinition};
use serde::{Deserialize, Serialize};

use crate::restart::{Departed, Restart, by_switch};

const LEAVES: TableDefinition<'_, u64, &str> = TableDefinition::new("maple leaves");
const RUN: TableDefinition<'_, &str, &str> = TableDefinition::new("maple run");

/// The format of what is remembered.
const FORMAT: &str = "1";
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
            let mut written = String::new();
            loop {
                let (rows, is_last) = of_thread.next();
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
        for (key, value) in [("epoch", remembered.epoch.to_string().as_str()), ("format", FORMAT)] {
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
    match serde_json::from_str::<SurroundingsRow>(surroundings).ok().and_then(SurroundingsRow::surroundings) {
        Some(all) => {
            let of_switch = |(dpid, surroundings)| (dpid, Departed { surroundings, ..Departed::default() });
            switches.extend(by_switch(all).into_iter().map(of_switch));
        }
        None => damaged += 1,
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
}

impl SurroundingsRow {
    fn of(all: Surroundings) -> SurroundingsRow {
        let Surroundings { links, edges, hosts, labels } = all;
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
        }
    }

    fn surroundings(self) -> Option<Surroundings> {
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
        Some(Surroundings {
            links: self.links.into_iter().map(|(a, b)| (location(a), location(b))).collect(),
            edges: self.edges.into_iter().map(location).collect(),
            hosts: self.hosts.into_iter().map(host).collect(),
            labels: self.labels.into_iter().map(label).collect(),
        })
    }
}
