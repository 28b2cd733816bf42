//! The seeds of random cases.
//!
//! `MAPLE_SEED=7` plays the case of this seed alone, or as many as `MAPLE_CASES` says from there on.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

/// The seeds of a test whose cases are partly fresh.
pub struct Seeds {
    /// The seeds that are the same in each run.
    pub fixed: Range<u64>,
    /// The fresh seeds, or those that the environment asks for.
    pub fresh: Range<u64>,
}

impl Seeds {
    /// Returns the seeds of a test's share of the cases that several tests play, and prints them. `MAPLE_CASES` alone
    /// is the number of all fresh cases.
    pub fn share(of: impl Fn(u64) -> u64, fixed: u64, fresh: u64) -> Seeds {
        if let Some(fresh) = seeds_of_environment() {
            return Seeds { fixed: 0..0, fresh };
        }
        // Forty bits are short enough to type.
        let first = RandomState::new().hash_one(0) >> 24;
        let (fixed, fresh) = (of(fixed), of(number("MAPLE_CASES").unwrap_or(fresh)));
        println!("seeds 1 to {fixed}, and fresh ones: MAPLE_SEED={first} MAPLE_CASES={fresh}");
        Seeds { fixed: 1..fixed + 1, fresh: first..first + fresh }
    }
}

/// Returns the seeds of a test that plays this many cases, the same in each run unless `MAPLE_CASES` asks for more.
pub fn seeds(cases: u64) -> Range<u64> {
    seeds_of_environment().unwrap_or(0..number("MAPLE_CASES").unwrap_or(cases))
}

fn seeds_of_environment() -> Option<Range<u64>> {
    let seed = number("MAPLE_SEED")?;
    Some(seed..seed + number("MAPLE_CASES").unwrap_or(1))
}

/// Reports whether the cases are chosen ones, which need not cover what the usual ones do.
pub fn are_chosen() -> bool {
    seeds_of_environment().is_some()
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|error| panic!("{variable}: {error}")))
}
