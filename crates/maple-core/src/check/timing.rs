//! The time that f takes, and when a check gives up on a slow f.

use std::time::Duration;

use super::{Clock, SLOW_RUN};

/// The number of packets on which f may exceed its time limit; after that many, no more are tried. Chosen: each of them
/// costs the whole limit, and three are enough to show that it was no accident.
const TOO_LONG: u32 = 3;
/// The time of all runs after which a slow f is tried on no more packets. Chosen: a person waits for the check.
const SLOW_RUNS_TIME: Duration = Duration::from_secs(5);

/// The time of all runs.
pub(super) struct Timing {
    clock: Clock,
    runs: u64,
    spent: Duration,
    too_long: u32,
}

impl Timing {
    /// Creates the times of no runs.
    pub fn new(clock: Clock) -> Timing {
        Timing { clock, runs: 0, spent: Duration::ZERO, too_long: 0 }
    }

    /// Counts a run, and measures its time.
    pub fn measure<T>(&mut self, run: impl FnOnce() -> T) -> T {
        self.runs += 1;
        let begin = (self.clock)();
        let result = run();
        self.spent += (self.clock)().saturating_sub(begin);
        result
    }

    /// Counts a packet on which f exceeded its time limit.
    pub fn count_too_long(&mut self) {
        self.too_long += 1;
    }

    /// Returns the number of runs.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Returns the average time of a run, if that is longer than [`SLOW_RUN`].
    pub fn slow(&self) -> Option<Duration> {
        let runs = u32::try_from(self.runs).unwrap_or(u32::MAX);
        self.spent.checked_div(runs).filter(|each| *each > SLOW_RUN)
    }

    /// Reports whether f exceeded its time limit too often or took too long.
    pub fn gave_up(&self) -> bool {
        self.too_long >= TOO_LONG || self.spent > SLOW_RUNS_TIME && self.slow().is_some()
    }
}
