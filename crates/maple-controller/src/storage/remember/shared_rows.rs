//! Leaves and surroundings as rows that a master streams to standbys (`maple_cluster`), and a former master's rows in
//! the place of an earlier run.
//!
//! [`RowFeed`] takes from the journal which leaves came and went, and from the store what is around switches, and puts
//! what has changed into the source. Whoever takes over adopts its copy ([`SharedRows::adopt`]): the switches of the
//! former master are departed ones (`known_switches.rs`), which the engine restores as after a restart. Until that is
//! done, their rows stay in the source, so that yet another controller can take over. Like rows of an earlier run in a
//! file, they are deleted when their leaves of this run have rows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use maple_cluster::{StreamCopy, StreamLimits, StreamSource};
use maple_core::memory::{RememberedLabel, Surroundings, SwitchModel, Witness};
use maple_core::network::{HostInfo, Location, Mac};
use maple_wire::{Dpid, PortNo};
use parking_lot::{Mutex, MutexGuard};

use super::archive::KnownSwitches;
use super::journal::{LeafJournal, Rows};
use super::remembered_rows::{departed, next_epoch, once};
use crate::random::random;
use crate::storage::format::{Damaged, bytes, read};
use crate::storage::known_switches::Restart;
use crate::time::Clock;

/// The time between two looks at what has changed. Chosen: what is newer than that is decided anew if the master dies,
/// and packets that it would have matched are lost meanwhile; and a look costs little where nothing has changed.
const PERIOD: Duration = Duration::from_millis(100);
/// The time from one collection of surroundings to the next, as a multiple of what it takes. Chosen: a fiftieth of a
/// core, so 10⁵ hosts are collected every few seconds, and a small network at each look.
const REST: u32 = 50;

/// The bounds of what standbys get.
pub(crate) const STREAM_LIMITS: StreamLimits = StreamLimits {
    // Chosen: twice the leaves of departed switches that are kept, so that as many hosts, links and labels fit.
    rows: 1 << 21,
    // Chosen: 500 bytes for each leaf, which has a frame of 60 to 128 bytes mostly.
    bytes: 1 << 29,
    // Chosen: what a switch looks up is one row; it grows with the tables that the policy looks things up in.
    row: 1 << 23,
    // Chosen: more than come within the time for which a standby may be away without missing anything.
    deletions: 1 << 16,
    // Chosen: some hundred rows, so that a part is written in less than a millisecond.
    part: 1 << 16,
};

/// The first byte of the key of a leaf.
const LEAF: u8 = b'l';
/// The first byte of the keys of surroundings.
const AROUND: u8 = b's';

/// The rows of a controller for its standbys, and what it takes to go on with another one's.
#[derive(Debug)]
pub(crate) struct SharedRows {
    known: KnownSwitches,
    clock: Clock,
    source: Mutex<StreamSource>,
    /// The number of leaves that were adopted.
    adopted: AtomicU64,
    /// The time since when what has changed may not be in the source.
    collected: Mutex<Instant>,
}

/// The rows of a former master that were adopted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Adopted {
    pub leaves: usize,
    pub hosts: usize,
    /// The rows that could not be read.
    pub damaged: usize,
}

impl SharedRows {
    /// Creates the rows of a controller.
    ///
    /// # Errors
    /// If the system has no random bytes.
    pub fn new(known: KnownSwitches, clock: Clock) -> std::io::Result<SharedRows> {
        // No other process of the cluster has the same.
        let source = Mutex::new(StreamSource::new(u64::from_ne_bytes(random()?), STREAM_LIMITS));
        let collected = Mutex::new(Instant::now());
        Ok(SharedRows { known, clock, source, adopted: AtomicU64::new(0), collected })
    }

    /// Returns how long ago it was looked what has changed.
    pub fn age(&self) -> Duration {
        self.lock_collected().elapsed()
    }

    fn lock_collected(&self) -> MutexGuard<'_, Instant> {
        self.collected.lock()
    }

    /// Returns the rows for standbys.
    pub fn source(&self) -> MutexGuard<'_, StreamSource> {
        self.source.lock()
    }

    /// Makes [`RowFeed::turn`] return, for the last time.
    pub fn end(&self) {
        self.known.journal.end();
    }

    /// Goes on with the rows of a former master. The engine has no switch. `is_connected` says which ones have a
    /// connection, and so will be up soon.
    pub fn adopt(&self, copy: StreamCopy, is_connected: impl Fn(Dpid) -> bool) -> Adopted {
        let KnownSwitches { restart, journal } = &self.known;
        let (mut leaves, mut around, mut damaged) = (Vec::new(), Surroundings::default(), 0);
        for (key, value) in &copy.rows {
            match read_row(key, value, &mut around) {
                Ok(Some(witness)) => leaves.push((self.next_row(), witness, value)),
                Ok(None) => {}
                Err(Damaged(_)) => damaged += 1,
            }
        }
        let adopted = Adopted { leaves: leaves.len(), hosts: around.hosts.len(), damaged };
        let mut source = self.source();
        for (row, _, value) in &leaves {
            source.put(&key_of_leaf(*row), Some(value));
        }
        let switches = departed(leaves.into_iter().map(|(row, witness, _)| (row, witness)), once(around));
        let awaited = switches.keys().copied().filter(|dpid| is_connected(*dpid)).collect();
        journal.forget(restart.replace(self.clock.now(), switches, awaited));
        take_surroundings(&mut source, restart);
        adopted
    }

    /// Returns the row for the next leaf that is adopted. It has an epoch of its own, so it differs from each
    /// row of a leaf of this run.
    fn next_row(&self) -> u64 {
        let epoch = next_epoch(self.known.journal.epoch());
        u64::from(epoch) << 48 | self.adopted.fetch_add(1, Ordering::Relaxed)
    }
}

/// Keeps the rows for standbys as the engine and the store say.
#[derive(Debug)]
pub(crate) struct RowFeed {
    rows: Arc<SharedRows>,
    /// The time before which surroundings are not collected again.
    rests_until: Instant,
}

/// The outcome of a turn of the feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FeedTurn {
    pub has_changed: bool,
    pub is_last: bool,
}

impl RowFeed {
    pub fn new(rows: Arc<SharedRows>) -> RowFeed {
        RowFeed { rows, rests_until: Instant::now() }
    }

    /// Waits a moment, and takes over what has changed.
    pub fn turn(&mut self) -> FeedTurn {
        let KnownSwitches { restart, journal } = &self.rows.known;
        let (leaves, lost, is_last) = journal.next(PERIOD);
        if lost > 0 {
            journal.want_all(Vec::new());
        }
        let began = Instant::now();
        let mut source = self.rows.source();
        let mut has_changed = take_leaves(&mut source, journal, &leaves);
        if began >= self.rests_until {
            has_changed |= take_surroundings(&mut source, restart);
            *self.rows.lock_collected() = began;
            self.rests_until = began + began.elapsed() * REST;
        }
        FeedTurn { has_changed, is_last }
    }
}

/// Takes over leaves that came, changed or went. Returns whether the source has changed.
fn take_leaves(source: &mut StreamSource, journal: &LeafJournal, leaves: &Rows) -> bool {
    let mut has_changed = false;
    for (row, witness) in leaves {
        let value = witness.as_ref().map(encoded);
        has_changed |= source.put(&key_of_leaf(*row), value.as_deref());
    }
    journal.wrote_all_but(Rows::new());
    has_changed
}

/// Takes over what is around switches by now. Nobody else does so meanwhile, since the source is locked.
fn take_surroundings(source: &mut StreamSource, restart: &Restart) -> bool {
    source.replace(&[AROUND], &rows_around(restart))
}

fn key_of_leaf(row: u64) -> Vec<u8> {
    [&[LEAF][..], &row.to_be_bytes()].concat()
}

/// A part of the surroundings, as far as it is in the key of its row.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
enum AroundKey {
    Link(Location, Location),
    Edge(Location),
    Host(Mac),
    Label(Dpid, Option<PortNo>, u16),
    Model(Dpid),
    LookUps(Dpid),
}

/// Counts the leaves and the hosts among rows with these keys.
pub(crate) fn count<'a>(keys: impl Iterator<Item = &'a [u8]>) -> (usize, usize) {
    let (mut leaves, mut hosts) = (0, 0);
    for key in keys {
        match key.split_first() {
            Some((&LEAF, _)) => leaves += 1,
            Some((&AROUND, key)) => hosts += usize::from(matches!(read(key), Ok(AroundKey::Host(_)))),
            _ => {}
        }
    }
    (leaves, hosts)
}

/// Returns the rows of all surroundings.
fn rows_around(restart: &Restart) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let Surroundings { links, edges, hosts, labels, models, look_ups } = once(restart.surroundings());
    let mut rows = BTreeMap::new();
    let mut put = |key: AroundKey, value: Vec<u8>| {
        rows.insert([&[AROUND][..], &encoded(&key)].concat(), value);
    };
    links.into_iter().for_each(|(a, b)| put(AroundKey::Link(a, b), Vec::new()));
    edges.into_iter().for_each(|at| put(AroundKey::Edge(at), Vec::new()));
    hosts.iter().for_each(|(mac, host)| put(AroundKey::Host(*mac), encoded(host)));
    for RememberedLabel { switch, port, id, meaning } in labels {
        put(AroundKey::Label(switch, port, id), encoded(&meaning));
    }
    models.iter().for_each(|(dpid, model)| put(AroundKey::Model(*dpid), encoded(model)));
    look_ups.into_iter().for_each(|(dpid, all)| put(AroundKey::LookUps(dpid), all));
    rows
}

/// Reads a row of another controller: returns a leaf, or adds to the surroundings.
fn read_row(key: &[u8], value: &[u8], around: &mut Surroundings) -> Result<Option<Witness>, Damaged> {
    match key.split_first() {
        Some((&LEAF, _)) => return read::<Witness>(value).map(Some),
        Some((&AROUND, key)) => match read::<AroundKey>(key)? {
            AroundKey::Link(a, b) => around.links.push((a, b)),
            AroundKey::Edge(at) => around.edges.push(at),
            AroundKey::Host(mac) => around.hosts.push((mac, read::<HostInfo>(value)?)),
            AroundKey::Label(switch, port, id) => {
                around.labels.push(RememberedLabel { switch, port, id, meaning: read(value)? });
            }
            AroundKey::Model(dpid) => around.models.push((dpid, read::<SwitchModel>(value)?)),
            AroundKey::LookUps(dpid) => around.look_ups.push((dpid, value.to_vec())),
        },
        _ => return Err(Damaged("a row is of no kind that is known")),
    }
    Ok(None)
}

/// Encodes what always has a form.
fn encoded(value: &impl serde::Serialize) -> Vec<u8> {
    let form = bytes(value);
    debug_assert!(form.is_ok(), "numbers, addresses and bytes have a form: {form:?}");
    form.unwrap_or_default()
}
