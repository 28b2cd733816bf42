//! Whole networks deliver exactly what f says: random policies × random packets × random events.
//!
//! Each case is one seed: a random topology, policy, set of packets and sequence of events. The emulated network runs
//! it against the product's sessions, discovery and engines, over real OpenFlow bytes, in one thread and in simulated
//! time, so a seed always gives the same run. [`check`] says what is required. A case that fails is made smaller and
//! printed with its seed.
//!
//! * `MAPLE_SEEDS=3,17 cargo test -p maple-lab contract` runs these seeds again.
//! * `MAPLE_TRACE=1` prints all that the engines take and give in the smallest failing case.
//! * `MAPLE_CASES=5000` runs the seeds below 5000, instead of a fixed set and some new ones.

mod case;
mod generate;

mod oracle;
mod paths;
mod routes;
mod state;

mod world;

mod check;
mod shrink;

use check::{Excuse, MessageCounts};
use generate::Flavour;

/// The number of seeds that each test runs, always the same ones, unless the environment says otherwise.
const CASES: u64 = 400;
/// The number of further seeds, which are new each time.
const FRESH: u64 = 100;

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

/// Runs the seeds of a test. Shrinks and prints the first that fails.
fn run_all(flavour: Flavour) -> MessageCounts {
    let seeds = seeds();
    println!("{flavour:?}: {} seeds, the last ones {:?}", seeds.len(), &seeds[seeds.len().saturating_sub(3)..]);
    let mut total = MessageCounts::default();
    for seed in seeds {
        let case = generate::case(seed, flavour);
        match shrink::run(&case) {
            Ok(counts) => total.add(&counts),
            Err(failure) => {
                let (mut small, failure) = shrink::shrink(&case, failure);
                if std::env::var_os("MAPLE_TRACE").is_some() {
                    small.trace = true;
                    drop(shrink::run(&small));
                }
                panic!("{flavour:?}, MAPLE_SEEDS={seed}\n{small}\n{failure}");
            }
        }
    }
    println!("{total:?}");
    total
}

/// Reports whether there are too few seeds to check what is usual among them.
fn is_few() -> bool {
    seeds().len() < 100
}

/// Returns the seeds that the environment asks for, else the usual ones.
fn seeds() -> Vec<u64> {
    let number = |text: &str| text.trim().parse().unwrap_or_else(|_| panic!("{text:?} is not a number"));
    if let Ok(list) = std::env::var("MAPLE_SEEDS") {
        return list.split(',').map(number).collect();
    }
    if let Ok(count) = std::env::var("MAPLE_CASES") {
        return (0..number(&count)).collect();
    }
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let fresh = since.map_or(CASES, |since| since.as_nanos() as u64 / 1000);
    (0..CASES).chain(fresh..fresh + FRESH).collect()
}
