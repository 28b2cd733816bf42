//! What transactions cost: `cargo bench -p maple-core --bench state`.
//!
//! * A table of 10,000 keys that is mostly read: transactions of one read on one thread and on two, beside `papaya`, a
//!   concurrent hash table without transactions, with the same keys and values.
//! * Bandwidth reservation over random paths of 1 to 6 links: transactions a second and lost runs against threads.
//! * What a write costs against the number of leaves that depend on it, on other cells, and on nothing.
//!
//! Each figure is the median of several rounds, and what is compared is measured in turns. What one thread does alone is
//! measured in processor time, so that other programs count less.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use maple_core::LeafId;
use maple_core::state::{Cell, Patience, Stop, Store, Table, Tx, Value, Write};

const KEYS: u64 = 10_000;
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(150);

fn main() {
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    reads();
    reservations();
    changes();
    invalidations();
}

/// A number after the other, for keys.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// How often a second `threads` threads do `work` together.
fn rate(threads: usize, work: impl Fn(&mut Random) + Sync) -> f64 {
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (stop, count, work) = (&stop, &count, &work);
            scope.spawn(move || {
                let mut random = Random(thread as u64 + 1);
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

/// The processor time that this thread has used, in nanoseconds.
fn cpu() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn entry(key: u64, value: i64) -> Write {
    Write::Table { table: "table".into(), key: Value::from(key), value: Some(Value::from(value)) }
}

fn reads() {
    let store = Store::new();
    store.update(|_| (0..KEYS).map(|key| entry(key, key as i64)).collect());
    let table = Table::<u64, i64>::new("table");
    let map: papaya::HashMap<Value, Value> = (0..KEYS).map(|key| (Value::from(key), Value::from(key))).collect();
    let ours = |random: &mut Random| {
        black_box(table.get(&store.view(), &random.below(KEYS)));
    };
    let theirs = |random: &mut Random| {
        black_box(map.pin().get(&Value::from(random.below(KEYS))).cloned());
    };
    let measured: Vec<[f64; 4]> =
        (0..ROUNDS).map(|_| [rate(1, ours), rate(1, theirs), rate(2, ours), rate(2, theirs)]).collect();
    let figure = |index: usize| median(measured.iter().map(|round| round[index]).collect());
    let ratio = |a: usize, b: usize| median(measured.iter().map(|round| round[a] / round[b]).collect());
    println!("one-read transactions of a table of {KEYS} keys, a second");
    println!("  threads      maple     papaya   papaya/maple");
    println!("        1  {:>9.0}  {:>9.0}   {:.2}", figure(0), figure(1), ratio(1, 0));
    println!("        2  {:>9.0}  {:>9.0}   {:.2}", figure(2), figure(3), ratio(3, 2));
    println!("  two threads to one: maple {:.2}, papaya {:.2}", ratio(2, 0), ratio(3, 1));
}

/// Yields when it has lost.
struct Yield;

struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Nobody>) {}
}

impl Patience for Yield {
    fn back_off(&self, _: u32) {
        std::thread::yield_now();
    }

    fn waker(&self) -> Waker {
        Waker::from(Arc::new(Nobody))
    }

    fn wait(&self) -> bool {
        false
    }
}

fn reservations() {
    const LINKS: u64 = 1000;
    const CAPACITY: i64 = 1_000;
    println!("bandwidth reservation over random paths of 1 to 6 of {LINKS} links");
    println!("  threads  transactions/s  runs lost  refused");
    for threads in [1, 2, 4] {
        let store = Store::new();
        store.update(|_| (0..LINKS).map(|link| entry(link, CAPACITY)).collect());
        let free = Table::<u64, i64>::new("table");
        let (runs, done, refused, sold) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let rates = (0..ROUNDS).map(|_| {
            rate(threads, |random| {
                let path: Vec<u64> = (0..1 + random.below(6)).map(|_| random.below(LINKS)).collect();
                let reserve = |tx: &Tx| {
                    runs.fetch_add(1, Ordering::Relaxed);
                    for link in &path {
                        let left = free.get(tx, link).unwrap_or_default() - 1;
                        if left < 0 {
                            return Err(Stop::Cancel);
                        }
                        free.set(tx, link, &left);
                    }
                    Ok(())
                };
                match store.atomically(&Yield, reserve) {
                    Ok(_) => drop(sold.fetch_add(path.len() as u64, Ordering::Relaxed)),
                    Err(_) => drop(refused.fetch_add(1, Ordering::Relaxed)),
                }
                done.fetch_add(1, Ordering::Relaxed);
            })
        });
        let rate = median(rates.collect());
        let left: Vec<i64> = free.entries(&store.view()).into_iter().map(|(_, left)| left).collect();
        let gone = LINKS as i64 * CAPACITY - left.iter().sum::<i64>();
        assert!(left.iter().all(|left| *left >= 0) && gone as u64 == sold.into_inner(), "a link was oversold");
        let (runs, done) = (runs.into_inner() as f64, done.into_inner() as f64);
        let refused = refused.into_inner() as f64;
        println!(
            "  {threads:>7}  {rate:>14.0}  {:>8.2}%  {:>6.1}%",
            100.0 * (runs - done) / runs,
            100.0 * refused / done
        );
    }
}

/// Nanoseconds for each of many writes, all of them of values that were not there before.
fn writes(store: &Store, mut key: impl FnMut(u64) -> u64, count: u64) -> (f64, u64) {
    let version = store.snapshot().version();
    let (before, mut withdrawn) = (cpu(), 0);
    for n in 0..count {
        let write = entry(key(n), -1 - (version + n) as i64);
        withdrawn += store.update(|_| vec![write]).withdraw.len() as u64;
    }
    ((cpu() - before) / count as f64, withdrawn)
}

/// A cell that changes and that nobody reads, in a store that has little else.
fn changes() {
    const COUNT: u64 = 20_000;
    let store = Store::new();
    let var = |n: u64| Write::Var { name: "var".into(), value: Some(Value::from(n)) };
    let add = |_: u64| Write::Add { name: "sum".into(), amount: 1 };
    let key = |n: u64| entry(n % KEYS, n as i64);
    store.update(|_| (0..KEYS).map(key).collect());
    let each = |write: &dyn Fn(u64) -> Write| {
        let before = cpu();
        (0..COUNT).for_each(|n| drop(store.update(|_| vec![write(n)])));
        (cpu() - before) / COUNT as f64
    };
    let figure = |write: &dyn Fn(u64) -> Write| median((0..ROUNDS).map(|_| each(write)).collect());
    println!(
        "a change of a cell without readers, in nanoseconds: a variable {:.0}, a counter {:.0}, a key of {KEYS} {:.0}",
        figure(&var),
        figure(&add),
        figure(&key)
    );
}

fn subscribe(store: &Store, leaf: u64, key: u64) {
    let mut txn = store.begin();
    txn.read(Cell::Table("table".into(), Value::from(key)));
    assert!(store.commit(txn, Some(LeafId(leaf))).is_ok(), "nobody else writes");
}

fn invalidations() {
    println!(
        "a write to one key of a table, in nanoseconds: 1,000 keys without readers, 1,000 with one each, and one with all"
    );
    println!("   leaves  no reader  (more than with no leaf)  one reader  all on one key, for each");
    let mut alone = f64::NAN;
    for leaves in [0, 1_000, 10_000, 100_000, 1_000_000u64] {
        let store = Store::new();
        let first = leaves.max(1000);
        // The table is of one size, so that what differs is who depends on it.
        store.update(|_| (0..1_002_000).map(|key| entry(key, 0)).collect());
        (0..leaves).for_each(|leaf| subscribe(&store, leaf, leaf));
        let unread = median((0..ROUNDS).map(|_| writes(&store, |n| first + n % 1000, 1000).0).collect());
        if leaves == 0 {
            alone = unread;
        }
        let (one, withdrawn) = writes(&store, |n| n * (leaves / 1000).max(1), 1000);
        assert_eq!(withdrawn, leaves.min(1000), "exactly the readers");
        (0..leaves).for_each(|leaf| subscribe(&store, leaf, 0));
        let (all, withdrawn) = writes(&store, |_| 0, 1);
        assert_eq!(withdrawn, leaves, "exactly the readers");
        let each = if leaves == 0 { 0.0 } else { all / leaves as f64 };
        println!("  {leaves:>7}  {unread:>9.0}  {:>24.0}  {one:>10.0}  {each:>10.0}", unread - alone);
    }
}
