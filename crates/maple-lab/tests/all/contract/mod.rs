//! Whole networks deliver exactly what f says: random policies × random packets × random events.
//!
//! Each case is one seed: a random topology, policy, set of packets and sequence of events. The emulated network runs
//! it against the product's sessions, discovery and engines, over real OpenFlow bytes. All is in one thread and in
//! simulated time, so a seed always gives the same run. [`check`] says what is required. A case that fails is made
//! smaller and printed with its seed.
//!
//! * `MAPLE_SEED=7 cargo test -p maple-lab contract` runs the case of a seed again; see `maple_sim::seeds`.
//! * `MAPLE_TRACE=1` prints all that the engines take and give in the smallest failing case.

mod case;
mod generate;

mod oracle;
mod paths;
mod routes;
mod state;

mod world;

mod check;
mod judged;
mod shrink;

use check::MessageCounts;
use generate::Flavour;
use judged::Excuse;
use maple_sim::seeds::Seeds;

/// The number of cases of all tests together that are the same in each run. Chosen: a case of a whole network costs
/// about as much as ten of the engine alone, which plays 4,000 and 1,000 (the contract of maple-sim).
const FIXED: u64 = 1_200;
/// The number of fresh cases of all tests together.
const FRESH: u64 = 300;

#[test]
fn networks_obey_policies_while_the_state_changes() {
    let counts = run_all(Flavour::Soft, |counts| {
        assert!(counts.exact > 10 * counts.choice, "most frames must have one answer: {counts:?}");
    });
    assert_eq!(counts.excuses(), 0, "nothing may be lost while only state changes: {counts:?}");
}

#[test]
fn networks_obey_policies_while_links_hosts_and_switches_come_and_go() {
    run_all(Flavour::Hard, |counts| {
        assert!(counts.exact > 3 * counts.choice, "most frames must have one answer: {counts:?}");
        // A switch that is cut off goes on by the rules that it has. That is excused, so it has a bound of its own.
        let cut_off = counts.excused.get(&Excuse::OutOfControl).copied().unwrap_or_default();
        let others = counts.excuses() - cut_off;
        assert!(counts.exact > 60 * others, "too many excuses to prove anything: {counts:?}");
        assert!(counts.exact > 15 * cut_off, "too many excuses to prove anything: {counts:?}");
    });
}

#[test]
fn networks_obey_policies_though_their_tables_are_too_small() {
    run_all(Flavour::Tight, |counts| {
        assert!(counts.exact > 10 * counts.excuses(), "too many excuses to prove anything: {counts:?}");
    });
}

/// Runs a test's third of the cases, checks what the fixed ones covered, and returns the counts of all. Shrinks and
/// prints the first case that fails.
fn run_all(flavour: Flavour, covers: impl Fn(&MessageCounts)) -> MessageCounts {
    let Seeds { fixed, fresh } = Seeds::share(|all| all.div_ceil(3), FIXED, FRESH);
    let mut total = MessageCounts::default();
    let has_fixed = !fixed.is_empty();
    fixed.for_each(|seed| total.add(&run(seed, flavour)));
    println!("{flavour:?}: {total:?}");
    if has_fixed {
        covers(&total);
    }
    fresh.for_each(|seed| total.add(&run(seed, flavour)));
    total
}

/// Runs the case of a seed.
fn run(seed: u64, flavour: Flavour) -> MessageCounts {
    let case = generate::case(seed, flavour);
    shrink::run(&case).unwrap_or_else(|failure| {
        let (mut small, failure) = shrink::shrink(&case, failure);
        if std::env::var_os("MAPLE_TRACE").is_some() {
            small.trace = true;
            drop(shrink::run(&small));
        }
        panic!("{flavour:?}, MAPLE_SEED={seed}\n{small}\n{failure}");
    })
}
