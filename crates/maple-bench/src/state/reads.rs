//! Transactions of one read, compared with a hash table without transactions.

use std::hash::BuildHasher;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use maple_core::state::{Store, Table, Tx, Value, Write};
use maple_emulator::Random;
use serde::Serialize;

use super::reservations::Yield;
use super::{KEYS, median};
use crate::report::TextTable;

/// Transactions of one read of a table of 10,000 keys. Times are for one transaction on one thread, in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Reads {
    /// A read-only transaction: a `View`.
    pub maple_ns: f64,
    /// A transaction of one read that may also write and be repeated: `atomically`.
    pub atomically_ns: f64,
    /// `papaya` with its own hash function.
    pub papaya_ns: f64,
    /// `papaya` with our hash function.
    pub papaya_same_hash_ns: f64,
    /// The ratio of our time to that of `papaya` with its own hash function, measured alternately.
    pub ratio: f64,
    /// The ratio of our time to that of `papaya` with our hash function.
    pub ratio_same_hash: f64,
    /// The rate of two threads divided by that of one.
    pub two_threads: f64,
    /// The rate of two threads divided by that of one, for `papaya`.
    pub papaya_two_threads: f64,
}

/// The time of a round: long beside the start of its threads, and short enough for many rounds.
const ROUND: Duration = Duration::from_millis(150);

impl Reads {
    pub(super) fn measure(rounds: usize) -> Reads {
        let store = Store::new();
        store.update(|_| (0..KEYS).map(entry).collect());
        let table = Table::<u64, i64>::new("table");
        let theirs: papaya::HashMap<Value, Value> = filled();
        let same_hash: papaya::HashMap<Value, Value, foldhash::quality::RandomState> = filled();
        let view = |random: &mut Random| {
            let _ = black_box(table.get(&store.view(), &random.below(KEYS)));
        };
        let transaction = |random: &mut Random| {
            let key = random.below(KEYS);
            let _ = black_box(store.atomically(&Yield, |tx: &Tx| Ok(table.get(tx, &key))));
        };
        let of_theirs = |random: &mut Random| get(&theirs, random);
        let of_same_hash = |random: &mut Random| get(&same_hash, random);
        let measured: Vec<[f64; 6]> = (0..rounds)
            .map(|_| {
                [
                    rate(1, view),
                    rate(1, of_theirs),
                    rate(1, of_same_hash),
                    rate(1, transaction),
                    rate(2, view),
                    rate(2, of_theirs),
                ]
            })
            .collect();
        let time = |index: usize| median(measured.iter().map(|round| 1e9 / round[index]).collect());
        let ratio = |a: usize, b: usize| median(measured.iter().map(|round| round[a] / round[b]).collect());
        Reads {
            maple_ns: time(0),
            atomically_ns: time(3),
            papaya_ns: time(1),
            papaya_same_hash_ns: time(2),
            ratio: ratio(1, 0),
            ratio_same_hash: ratio(2, 0),
            two_threads: ratio(4, 0),
            papaya_two_threads: ratio(5, 1),
        }
    }

    pub(super) fn text(&self) -> String {
        let mut table = TextTable::new(["", "ns", "by papaya", "two threads to one"]);
        let row = |name: &str, ns: f64, ratio: Option<f64>, threads: Option<f64>| {
            let number = |number: Option<f64>| number.map(|number| format!("{number:.2}")).unwrap_or_default();
            [name.to_string(), format!("{ns:.0}"), number(ratio), number(threads)]
        };
        table.row(row("a transaction that reads", self.maple_ns, Some(self.ratio), Some(self.two_threads)));
        let general = self.atomically_ns / self.papaya_ns;
        table.row(row("one that might write (atomically)", self.atomically_ns, Some(general), None));
        table.row(row("papaya", self.papaya_ns, Some(1.0), Some(self.papaya_two_threads)));
        let theirs = self.papaya_same_hash_ns / self.papaya_ns;
        table.row(row("papaya with the hash of our tables", self.papaya_same_hash_ns, Some(theirs), None));
        format!(
            "One read of a table of {KEYS} keys\n{table}By papaya with the hash of our tables: {:.2}\n",
            self.ratio_same_hash
        )
    }
}

fn entry(key: u64) -> Write {
    Write::Table { table: "table".into(), key: Value::from(key), value: Some(Value::from(key)) }
}

fn filled<S: BuildHasher + Default>() -> papaya::HashMap<Value, Value, S> {
    let map = papaya::HashMap::with_hasher(S::default());
    (0..KEYS).for_each(|key| drop(map.pin().insert(Value::from(key), Value::from(key)).cloned()));
    map
}

fn get<S: BuildHasher>(map: &papaya::HashMap<Value, Value, S>, random: &mut Random) {
    let _ = black_box(map.pin().get(&Value::from(random.below(KEYS))).cloned());
}

/// Returns the rate at which `threads` threads together do `work`.
pub(super) fn rate(threads: usize, work: impl Fn(&mut Random) + Sync) -> f64 {
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (stop, count, work) = (&stop, &count, &work);
            scope.spawn(move || {
                let mut random = Random::new(thread as u64 + 1);
                let mut done = 0;
                while !stop.load(Ordering::Relaxed) {
                    (0..64).for_each(|_| work(&mut random));
                    done += 64;
                }
                count.fetch_add(done, Ordering::Relaxed);
            });
        }
        std::thread::sleep(ROUND);
        stop.store(true, Ordering::Relaxed);
    });
    count.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64()
}
