//! Bandwidth reservation: transactions of several reads and writes that conflict.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Wake, Waker};

use maple_core::state::{Patience, Stop, Store, Table, Tx};
use maple_emulator::Random;
use serde::Serialize;

use super::median;
use super::reads::rate;
use crate::error::BenchError;
use crate::report::TextTable;

/// The results for a number of threads.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Reservations {
    /// The number of threads.
    pub threads: usize,
    /// The median rate of transactions of all threads together.
    pub per_second: f64,
    /// Runs that were repeated because another transaction had changed what they read, in percent of all runs.
    pub lost_percent: f64,
    /// Transactions that found a link full, in percent.
    pub refused_percent: f64,
}

/// The number of links.
pub(super) const LINKS: u64 = 1000;

/// The capacity of a link, in units of bandwidth.
const CAPACITY: i64 = 1_000_000;

/// Yields the processor after a conflict.
pub(super) struct Yield;

struct NoTask;

impl Wake for NoTask {
    fn wake(self: Arc<NoTask>) {}
}

impl Patience for Yield {
    fn back_off(&self, _: u32) {
        std::thread::yield_now();
    }

    fn waker(&self) -> Waker {
        Waker::from(Arc::new(NoTask))
    }

    fn wait(&self) -> bool {
        false
    }
}

/// Counters of all threads.
#[derive(Default)]
struct Counted {
    runs: AtomicU64,
    done: AtomicU64,
    refused: AtomicU64,
    /// Units of bandwidth that were sold.
    sold: AtomicU64,
}

impl Reservations {
    /// Measures how often a second this many threads reserve a unit of bandwidth on each link of a random path.
    ///
    /// # Errors
    /// If a link was oversold.
    pub(super) fn measure(threads: usize, rounds: usize) -> Result<Reservations, BenchError> {
        let (store, free, counted) = (Store::new(), Table::<u64, i64>::new("free"), Counted::default());
        let fill = |tx: &Tx| {
            (0..LINKS).for_each(|link| free.set(tx, &link, &CAPACITY));
            Ok(())
        };
        store.atomically(&Yield, fill).map_err(|error| BenchError::WrongResult(error.to_string()))?;
        let reserve_one = |random: &mut Random| reserve(&store, &free, &counted, random);
        let per_second = median((0..rounds).map(|_| rate(threads, reserve_one)).collect());
        let left: Vec<i64> = free.entries(&store.view()).into_iter().map(|(_, left)| left).collect();
        let gone = LINKS as i64 * CAPACITY - left.iter().sum::<i64>();
        let count = |counter: AtomicU64| counter.into_inner() as f64;
        if left.iter().any(|left| *left < 0) || gone as f64 != count(counted.sold) {
            return Err(BenchError::WrongResult("a link was oversold".into()));
        }
        let (runs, done, refused) = (count(counted.runs), count(counted.done), count(counted.refused));
        let (lost_percent, refused_percent) = (100.0 * (runs - done) / runs, 100.0 * refused / done);
        Ok(Reservations { threads, per_second, lost_percent, refused_percent })
    }
}

/// Reserves one unit of each link of a random path, or nothing if one is full.
fn reserve(store: &Store, free: &Table<u64, i64>, counted: &Counted, random: &mut Random) {
    let path: Vec<u64> = (0..1 + random.below(6)).map(|_| random.below(LINKS)).collect();
    let transaction = |tx: &Tx| {
        counted.runs.fetch_add(1, Ordering::Relaxed);
        for link in &path {
            let left = free.get(tx, link).unwrap_or_default() - 1;
            if left < 0 {
                return Err(Stop::Cancel);
            }
            free.set(tx, link, &left);
        }
        Ok(())
    };
    match store.atomically(&Yield, transaction) {
        Ok(_) => counted.sold.fetch_add(path.len() as u64, Ordering::Relaxed),
        Err(_) => counted.refused.fetch_add(1, Ordering::Relaxed),
    };
    counted.done.fetch_add(1, Ordering::Relaxed);
}

pub(super) fn text(all: &[Reservations]) -> String {
    let mut table = TextTable::new(["threads", "transactions/s", "runs lost", "refused"]);
    for one in all {
        table.row([
            one.threads.to_string(),
            format!("{:.0}", one.per_second),
            format!("{:.2} %", one.lost_percent),
            format!("{:.2} %", one.refused_percent),
        ]);
    }
    table.to_string()
}
