//! Passes: the same work, timed again and again.
//!
//! Other programs on a machine can only add to a time. So what counts is the fastest pass: it is the nearest to what the work takes by
//! itself. The median says besides what it took mostly, on this machine at that hour.

use std::time::{Duration, Instant};

use crate::error::BenchError;

/// How many passes there are where a number is asked for.
const PASSES: usize = 7;

/// How many passes a budget is spent on at most.
const MOST: usize = 30;

/// What was timed in a pass.
pub(crate) trait Timed: Copy {
    /// How long all of it took.
    fn time(&self) -> Duration;
}

impl Timed for Duration {
    fn time(&self) -> Duration {
        *self
    }
}

/// What it took to learn headers that are new.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Augments {
    /// Runs of f.
    pub(crate) in_f: Duration,
    /// From there to the changes.
    pub(crate) in_augment: Duration,
}

impl Timed for Augments {
    fn time(&self) -> Duration {
        self.in_f + self.in_augment
    }
}

/// Passes of the same work.
#[derive(Debug)]
pub(crate) struct Passes<T>(Vec<T>);

impl<T> Default for Passes<T> {
    fn default() -> Passes<T> {
        Passes(Vec::new())
    }
}

impl<T: Timed> Passes<T> {
    /// Adds a pass.
    pub(crate) fn push(&mut self, pass: T) {
        self.0.push(pass);
    }

    /// The pass that took the least time.
    pub(crate) fn fastest(&self) -> T {
        *self.0.iter().min_by_key(|pass| pass.time()).expect("there is a pass")
    }

    /// The pass that took the median time.
    pub(crate) fn median(&self) -> T {
        let mut all = self.0.clone();
        all.sort_by_key(Timed::time);
        all[all.len() / 2]
    }

    /// How often something that a pass does so many times is done in a second: in the fastest pass, and in the median one.
    pub(crate) fn per_second(&self, times: usize) -> Rate {
        let rate = |pass: T| times as f64 / pass.time().as_secs_f64();
        Rate { fastest: rate(self.fastest()), median: rate(self.median()) }
    }
}

/// How often something is done in a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub(crate) fastest: f64,
    pub(crate) median: f64,
}

/// How long passes took so far.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    all: Duration,
    longest: Duration,
}

impl Spent {
    /// Makes passes, but not too many, until this much time is spent in all. The first ever is made in any case, and no other one that would
    /// not be over by then if it takes as long as the longest did.
    pub(crate) fn spend(
        &mut self,
        budget: Duration,
        mut pass: impl FnMut() -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        for _ in 0..MOST {
            if !self.all.is_zero() && self.all + self.longest > budget {
                break;
            }
            let (made, took) = timed(&mut pass);
            made?;
            self.all += took;
            self.longest = self.longest.max(took);
        }
        Ok(())
    }
}

/// Does something, and says how long it took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begin = Instant::now();
    let done = work();
    (done, begin.elapsed())
}

/// The median time of some passes.
pub(crate) fn median_time(mut pass: impl FnMut()) -> Duration {
    let mut passes = Passes::default();
    (0..PASSES).for_each(|_| passes.push(timed(&mut pass).1));
    passes.median()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_pass_and_the_median_are_told_apart() {
        let mut passes = Passes::default();
        [40, 20, 80].into_iter().for_each(|ms| passes.push(Duration::from_millis(ms)));
        let Rate { fastest, median } = passes.per_second(2);
        assert_eq!((fastest.round(), median.round()), (100.0, 50.0));
    }

    #[test]
    fn a_first_pass_is_made_however_long_it_takes_and_others_only_while_there_is_time() {
        let count = |spent: &mut Spent, budget| {
            let mut passes = 0;
            let pass = || {
                std::thread::sleep(Duration::from_millis(2));
                passes += 1;
                Ok(())
            };
            spent.spend(budget, pass).unwrap();
            passes
        };
        let mut spent = Spent::default();
        assert_eq!(count(&mut spent, Duration::from_micros(10)), 1);
        assert_eq!(count(&mut spent, Duration::from_micros(20)), 0);
        assert!(count(&mut spent, Duration::from_secs(1)) > 1);
    }
}
