//! Writes: their cost without dependents, and what dependents add.

use std::hint::black_box;
use std::sync::Arc;
use std::time::SystemTime;

use maple_core::LeafId;
use maple_core::Source;
use maple_core::state::{Cell, Name, Store, Tx, Value, Var, Write, Writer, Written};
use serde::Serialize;

use super::reservations::Yield;
use super::{KEYS, list, median};
use crate::error::BenchError;
use crate::report::TextTable;

/// Writes without dependents and their steps, in nanoseconds of processor time.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Writes {
    /// A change of a variable.
    pub variable: f64,
    /// A change of a counter.
    pub counter: f64,
    /// A change of a key in a table of 10,000.
    pub key: f64,
    /// A change of a key while snapshots are held for a while, so that the path to the key is copied.
    pub key_held: f64,
    /// A change of a key by a writer that names itself, so that the name is stored.
    pub key_signed: f64,
    /// A change of a variable by a transaction (`atomically`).
    pub transaction: f64,
    /// A step: to create and drop the write.
    pub make: f64,
    /// A step: a commit without writes, which takes the locks and the newest snapshot.
    pub locks: f64,
    /// A step: to find that a key has no dependents, in a table of 10,000 keys with one dependent each.
    pub lookup: f64,
}

/// A write to one key of a table, in nanoseconds of processor time.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Invalidation {
    /// The number of leaves that depend on one key each.
    pub leaves: u64,
    /// The time to find that a key has no dependents, one step of a write.
    pub lookup_ns: f64,
    /// The time of a write to a key without readers.
    pub no_reader_ns: f64,
    /// The time of a write to a key with one reader.
    pub one_reader_ns: f64,
    /// The time of a write to a key that all leaves read.
    pub all_readers_ns: f64,
}

/// The number of writes that are timed together, so that reading the clock hardly counts.
const COUNT: u64 = 20_000;

impl Writes {
    pub(super) fn measure(rounds: usize) -> Writes {
        let store = Store::new();
        let (var, sum, table): (Name, Name, Name) = ("var".into(), "sum".into(), "table".into());
        let key = |n: u64| entry(&table, n % KEYS, n as i64);
        let variable = |n: u64| Write::Var { name: var.clone(), value: Some(Value::from(n)) };
        let counter = |_: u64| Write::Add { name: sum.clone(), amount: 1 };
        store.update(|_| (0..KEYS).map(key).collect());
        // The keys are in random order, as those of flows are.
        let scattered = |n: u64| key(n.wrapping_mul(7919));
        let whole = |write: &dyn Fn(u64) -> Write| each(rounds, |n| drop(store.update(|_| vec![write(n)])));
        let by = Writer::Thread { name: "writer".into(), line: Some(Source::new("writer.py", 12)) };
        let written = Written { by, at: SystemTime::UNIX_EPOCH };
        let typed = Var::new("var", 0u64);
        // The snapshot is the one before the newest, which a commit would otherwise change in place.
        let mut held = None;
        let read = Store::new();
        read.update(|_| (0..KEYS).map(key).collect());
        (0..KEYS).for_each(|leaf| subscribe(&read, leaf, &table, leaf));
        let unread: Vec<Vec<Write>> = (0..1000).map(|n| vec![entry(&table, KEYS + n, 1)]).collect();
        let writes = Writes {
            variable: whole(&variable),
            counter: whole(&counter),
            key: whole(&scattered),
            key_held: each(rounds, |n| {
                let newest = store.snapshot();
                store.update(|_| vec![scattered(n)]);
                held = Some(newest);
            }),
            key_signed: each(rounds, |n| drop(store.update_as(written.clone(), |_| vec![scattered(n)]))),
            transaction: each(rounds, |n| {
                let _ = black_box(store.atomically(&Yield, |tx: &Tx| {
                    typed.set(tx, &n);
                    Ok(())
                }));
            }),
            make: each(rounds, |n| drop(black_box(vec![variable(n)]))),
            locks: each(rounds, |_| drop(black_box(store.update(|_| Vec::new())))),
            lookup: each(rounds, |n| {
                let _ = black_box(read.concerned(&unread[n as usize % unread.len()]));
            }),
        };
        drop(held);
        writes
    }

    pub(super) fn text(&self) -> String {
        list(&[
            ("a variable changes", self.variable),
            ("a counter changes", self.counter),
            ("a key of 10,000 changes", self.key),
            ("the same while another thread holds the previous snapshot", self.key_held),
            ("a key changes, and who wrote it is remembered", self.key_signed),
            ("a variable changes by a transaction", self.transaction),
            ("step: make the write", self.make),
            ("step: locks, and the newest state", self.locks),
            ("step: find no dependents, among 10,000 keys that have some", self.lookup),
        ])
    }
}

impl Invalidation {
    /// Measures writes to a table of this many keys, while this many leaves depend on one key each.
    ///
    /// # Errors
    /// If leaves other than the readers are withdrawn.
    pub(super) fn measure(leaves: u64, keys: u64, rounds: usize) -> Result<Invalidation, BenchError> {
        /// The number of writes that are timed together, each to another key.
        const WRITES: u64 = 1000;
        let (store, table): (_, Name) = (Store::new(), "table".into());
        store.update(|_| (0..keys + WRITES).map(|key| entry(&table, key, 0)).collect());
        (0..leaves).for_each(|leaf| subscribe(&store, leaf, &table, leaf));
        let unread: Vec<Vec<Write>> = (0..WRITES).map(|n| vec![entry(&table, keys + n, 1)]).collect();
        let lookup_ns = each(rounds, |n| {
            let _ = black_box(store.concerned(&unread[(n % WRITES) as usize]));
        });
        let no_reader = (0..rounds).map(|_| timed(&store, &table, |n| keys + n, WRITES).0).collect();
        // Each reader is withdrawn once, so this is measured once, over many keys.
        let (one_reader_ns, withdrawn) = timed(&store, &table, |n| n * (leaves / WRITES).max(1), WRITES);
        exactly(withdrawn, leaves.min(WRITES))?;
        (0..leaves).for_each(|leaf| subscribe(&store, leaf, &table, 0));
        let (all_readers_ns, withdrawn) = timed(&store, &table, |_| 0, 1);
        exactly(withdrawn, leaves)?;
        Ok(Invalidation { leaves, lookup_ns, no_reader_ns: median(no_reader), one_reader_ns, all_readers_ns })
    }
}

pub(super) fn text(all: &[Invalidation]) -> String {
    let mut table = TextTable::new(["leaves", "find none", "no reader", "one reader", "all leaves, for each"]);
    for one in all {
        let for_each = one.all_readers_ns / one.leaves.max(1) as f64;
        let figures = [one.lookup_ns, one.no_reader_ns, one.one_reader_ns, for_each];
        table.row([one.leaves.to_string()].into_iter().chain(figures.map(|ns| format!("{ns:.0}"))));
    }
    table.to_string()
}

fn exactly(withdrawn: u64, readers: u64) -> Result<(), BenchError> {
    let wrong =
        || BenchError::WrongResult(format!("{withdrawn} leaves were withdrawn, and {readers} read what changed"));
    (withdrawn == readers).then_some(()).ok_or_else(wrong)
}

fn entry(table: &Name, key: u64, value: i64) -> Write {
    Write::Table { table: Arc::clone(table), key: Value::from(key), value: Some(Value::from(value)) }
}

fn subscribe(store: &Store, leaf: u64, table: &Name, key: u64) {
    let mut txn = store.begin();
    txn.read(Cell::Table(Arc::clone(table), Value::from(key)));
    // There is no other writer, so no conflict.
    let _ = store.commit(txn, Some(LeafId(leaf)));
}

/// Returns the nanoseconds for each of many writes of new values, and the number of withdrawn leaves.
fn timed(store: &Store, table: &Name, mut key: impl FnMut(u64) -> u64, count: u64) -> (f64, u64) {
    let version = store.snapshot().version();
    let (before, mut withdrawn) = (cpu(), 0);
    for n in 0..count {
        let write = entry(table, key(n), -1 - (version + n) as i64);
        withdrawn += store.update(|_| vec![write]).withdraw.len() as u64;
    }
    ((cpu() - before) / count as f64, withdrawn)
}

/// Returns the nanoseconds for each repetition of `work`: the median of several rounds.
fn each(rounds: usize, mut work: impl FnMut(u64)) -> f64 {
    let round = |_| {
        let before = cpu();
        (0..COUNT).for_each(&mut work);
        (cpu() - before) / COUNT as f64
    };
    median((0..rounds).map(round).collect())
}

/// Returns the processor time that this thread has used, in nanoseconds.
fn cpu() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}
