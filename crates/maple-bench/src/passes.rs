//! Passes: repeated timings of the same work.
//!
//! Other programs on a machine can only increase a time. So the fastest pass is closest to the time of the work itself.
//! The median shows the usual time on the machine.

use std::time::{Duration, Instant};

use crate::error::BenchError;

/// The number of passes for a median: odd, and three disturbed ones do not change it much.
const PASSES: usize = 7;

/// The maximum number of passes within a budget. Beyond it more passes hardly change a median.
const MAX_PASSES: usize = 30;

/// The timings of a pass.
pub(crate) trait Timed: Copy {
    /// Returns the total time of all passes.
    fn time(&self) -> Duration;
}

impl Timed for Duration {
    fn time(&self) -> Duration {
        *self
    }
}

/// The times of augments for new headers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Augments {
    /// The time of the runs of f.
    pub(crate) in_f: Duration,
    /// The time from the traces to the changes.
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

    /// Returns the fastest pass.
    pub(crate) fn fastest(&self) -> T {
        *self.0.iter().min_by_key(|pass| pass.time()).expect("there is a pass")
    }

    /// Returns the pass with the median time.
    pub(crate) fn median(&self) -> T {
        let mut all = self.0.clone();
        all.sort_by_key(Timed::time);
        all[all.len() / 2]
    }

    /// Returns the rate of an operation that each pass repeats `times` times: that of the fastest pass, and of the
    /// median one.
    pub(crate) fn per_second(&self, times: usize) -> Rate {
        let rate = |pass: T| times as f64 / pass.time().as_secs_f64();
        Rate { fastest: rate(self.fastest()), median: rate(self.median()) }
    }
}

/// Operations per second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub(crate) fastest: f64,
    pub(crate) median: f64,
}

/// The time spent in passes so far.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    all: Duration,
    longest: Duration,
}

impl Spent {
    /// Makes passes until the budget is spent, but at most [`MAX_PASSES`]. The first pass is always made. Another one
    /// is made only if it would end within the budget, taking as long as the longest so far.
    pub(crate) fn spend(
        &mut self,
        budget: Duration,
        mut pass: impl FnMut() -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        for _ in 0..MAX_PASSES {
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

/// Times some work.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begin = Instant::now();
    let done = work();
    (done, begin.elapsed())
}

/// Returns the median time of several passes.
pub(crate) fn median_time(mut pass: impl FnMut()) -> Duration {
    let mut passes = Passes::default();
    (0..PASSES).for_each(|_| passes.push(timed(&mut pass).1));
    passes.median()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_pass_and_the_median_differ() {
        let mut passes = Passes::default();
        [40, 20, 80].into_iter().for_each(|ms| passes.push(Duration::from_millis(ms)));
        let Rate { fastest, median } = passes.per_second(2);
        assert_eq!((fastest.round(), median.round()), (100.0, 50.0));
    }

    #[test]
    fn the_first_pass_is_always_made_and_others_only_within_the_budget() {
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
