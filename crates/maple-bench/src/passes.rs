//! Passes of what is timed, of which the median counts: other programs on the machine disturb few of them.

use std::time::{Duration, Instant};

use crate::command::BenchError;

/// How many passes there are at most.
const PASSES: usize = 7;

/// Of the first and some more passes the one that took the median time; no more begins that would not be over within the
/// budget, if it takes what the first took. So of passes that take long it is the first alone.
pub(crate) fn median_of_passes<T>(
    budget: Duration,
    first: T,
    time: impl Fn(&T) -> Duration,
    mut pass: impl FnMut() -> Result<T, BenchError>,
) -> Result<T, BenchError> {
    let (begin, least) = (Instant::now(), time(&first));
    let mut passes = vec![first];
    while passes.len() < PASSES && begin.elapsed() + least < budget {
        passes.push(pass()?);
    }
    passes.sort_by_key(time);
    Ok(passes.swap_remove(passes.len() / 2))
}

/// The median time of as many passes as there are at most.
pub(crate) fn median_time(mut pass: impl FnMut()) -> Duration {
    let mut timed = || {
        let begin = Instant::now();
        pass();
        begin.elapsed()
    };
    let mut times: Vec<Duration> = (0..PASSES).map(|_| timed()).collect();
    times.sort();
    times[PASSES / 2]
}
