//! Members, a model of etcd and switches in simulated time, with random schedules of faults.
//!
//! Two to five members; requests and watches of the store with delays; members that crash and start again, that are
//! paused in the middle of a decision, that are cut off from the store or from switches; switches that restart; leaders
//! of the store that change, logs that are compacted, the store away for all. After each schedule everything is put
//! right, and the cluster has to come to rest with one master.
//!
//! What must hold at every moment:
//!
//! 1. A switch obeys no rule of a master after it has granted a later one, since it started.
//! 2. A generation is that of one life of one member.
//! 3. A member that leads has a key that the store gave it under a lease of its own.
//! 4. A member that begins to lead has the tracked state that the store has.
//! 5. Writes that were confirmed are in the store from then on, and no write takes the place of a later one. A master
//!    writes nothing after another mastership has begun.
//! 6. A standby has rows that there were at one time, and never goes back to earlier ones.
//!
//! `MAPLE_SEED` plays one schedule again, `MAPLE_CASES` sets how many fresh ones are played.

mod faults;
mod store;
mod world;

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use faults::Plant;
use world::World;

/// The number of schedules of a usual run.
const CASES: u64 = 400;
/// The number of schedules within which a planted fault has to be found.
const ENOUGH: u64 = 3_000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|error| panic!("{variable}: {error}")))
}

fn fresh() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64)
}

#[test]
fn at_most_one_controller_changes_a_switch_whatever_happens() {
    let (first, cases) = match number("MAPLE_SEED") {
        Some(seed) => (seed, 1),
        None => (fresh(), number("MAPLE_CASES").unwrap_or(CASES)),
    };
    let mut totals = world::Counts::default();
    for seed in first..first + cases {
        match World::play(seed, &BTreeSet::new()) {
            Ok(counts) => totals += counts,
            Err(why) => panic!("MAPLE_SEED={seed}: {why}"),
        }
    }
    println!("{cases} schedules from seed {first}: {totals:?}");
    // Schedules in which nothing happens would show nothing.
    assert!(cases == 1 || totals.masters > 2 * cases && totals.rules > 10 * cases && totals.refused > cases / 10);
    assert!(cases == 1 || totals.confirmed > 10 * cases && totals.commits > totals.confirmed);
}

#[test]
fn planted_faults_are_found() {
    for plant in [
        Plant::OneGeneration,
        Plant::OwnGenerations,
        Plant::AsksNoSwitch,
        Plant::AsksToBeEqual,
        Plant::WritesWithoutComparing,
        Plant::LeasesNeverEnd,
        Plant::DeletionsAreNotReported,
        Plant::DeletionsHaveNoRevision,
        Plant::CompactionIsSilent,
        Plant::KeepsMasteryOverConnections,
        Plant::BatchesOfFormerMasters,
        Plant::BatchesInAnyOrder,
        Plant::ConfirmsAtOnce,
        Plant::LeadsWithoutReading,
        Plant::KeepsWhatIsLost,
        Plant::AppliesInParts,
    ] {
        let first = fresh();
        let found = (first..first + ENOUGH).find_map(|seed| World::play(seed, &BTreeSet::from([plant])).err());
        println!("{plant:?}: {found:?}");
        assert!(found.is_some(), "{plant:?} was not found in {ENOUGH} schedules from seed {first}");
    }
}
