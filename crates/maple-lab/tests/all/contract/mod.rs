//! Whole networks deliver exactly what f says: random policies × random packets × random events.
//!
//! Each case is one seed: a random topology, policy, set of packets and sequence of events. The emulated network runs
//! it against the product's sessions, discovery and engines, over real OpenFlow bytes, in one thread and in simulated
//! time, so a seed always gives the same run. [`check`] says what is required. A case that fails is made smaller and
//! printed with its seed.
//!
//! * `MAPLE_SEED=7 cargo test -p maple-lab contract` runs the case of a seed again, with `MAPLE_CASES` more than one.
//! * `MAPLE_TRACE=1` prints all that the engines take and give in the smallest failing case.
//! * `MAPLE_CASES=9000` alone sets the number of cases of each test: those that never change, and more that are new.

mod case;
mod generate;

mod oracle;
mod paths;
mod routes;
mod state;

mod world;

mod check;
mod shrink;

use std::ops::Range;
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use check::{Excuse, MessageCounts};
use generate::Flavour;

/// The seeds of the cases that every run has.
const FIXED: Range<u64> = 0..400;
/// The number of cases of each test in a usual run: the fixed ones and some that are new each time.
const CASES: u64 = 500;

#[test]
fn networks_obey_policies_while_the_state_changes() {
    let counts = run_all(Flavour::Soft);
    assert_eq!(counts.excuses(), 0, "nothing may be lost while only state changes: {counts:?}");
    assert!(is_few() || counts.exact > 10 * counts.choice, "most frames must have one answer: {counts:?}");
}

#[test]
fn networks_obey_policies_while_links_hosts_and_switches_come_and_go() {
    let counts = run_all(Flavour::Hard);
    assert!(is_few() || counts.exact > 3 * counts.choice, "most frames must have one answer: {counts:?}");
    // A switch that is cut off goes on by the rules that it has. That is excused, so it has a bound of its own.
    let cut_off = counts.excused.get(&Excuse::OutOfControl).copied().unwrap_or_default();
    let others = counts.excuses() - cut_off;
    assert!(is_few() || counts.exact > 60 * others, "too many excuses to prove anything: {counts:?}");
    assert!(is_few() || counts.exact > 15 * cut_off, "too many excuses to prove anything: {counts:?}");
}

#[test]
fn networks_obey_policies_though_their_tables_are_too_small() {
    let counts = run_all(Flavour::Tight);
    assert!(is_few() || counts.exact > 10 * counts.excuses(), "too many excuses to prove anything: {counts:?}");
}

/// Runs the cases of a test. Shrinks and prints the first that fails.
fn run_all(flavour: Flavour) -> MessageCounts {
    let seeds = seeds();
    println!("{flavour:?}: seeds {:?} and {:?}", seeds[0], seeds[1]);
    let mut total = MessageCounts::default();
    for seed in seeds.into_iter().flatten() {
        let case = generate::case(seed, flavour);
        match shrink::run(&case) {
            Ok(counts) => total.add(&counts),
            Err(failure) => {
                let (mut small, failure) = shrink::shrink(&case, failure);
                if std::env::var_os("MAPLE_TRACE").is_some() {
                    small.trace = true;
                    drop(shrink::run(&small));
                }
                panic!("{flavour:?}, MAPLE_SEED={seed}\n{small}\n{failure}");
            }
        }
    }
    println!("{total:?}");
    total
}

/// Reports whether there are too few seeds to check what is usual among them.
fn is_few() -> bool {
    seeds().into_iter().flatten().count() < 100
}

/// Returns the seeds that the environment asks for, else the fixed ones and new ones.
fn seeds() -> [Range<u64>; 2] {
    let number = |name: &str| {
        std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
    };
    let cases = number("MAPLE_CASES");
    if let Some(seed) = number("MAPLE_SEED") {
        return [0..0, seed..seed + cases.unwrap_or(1)];
    }
    let cases = cases.unwrap_or(CASES);
    let fixed = FIXED.start..FIXED.end.min(cases);
    let fresh = *FRESH..*FRESH + (cases - fixed.end);
    [fixed, fresh]
}

/// The first of the new seeds.
static FRESH: LazyLock<u64> = LazyLock::new(|| {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(FIXED.end, |since| since.as_nanos() as u64 / 1000)
});
