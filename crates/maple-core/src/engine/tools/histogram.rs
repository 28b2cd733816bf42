//! A histogram of durations. One shard changes it, and a query adds up those of all shards.

use std::ops::AddAssign;
use std::time::Duration;

/// The upper bounds of the buckets, in nanoseconds: 20 µs to 5 s, mostly in steps of 1, 2 and 5. Longer durations are
/// in one more bucket. Chosen: they reach from a decision in the controller to the slowest switch that answers at all.
const BOUNDS: [u64; 16] = [
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    5_000_000_000,
];

/// The number of durations in each bucket, and their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// The number of durations in each bucket.
    counts: [u64; BOUNDS.len() + 1],
    /// The sum of all durations, in nanoseconds.
    sum: u64,
}

impl Histogram {
    /// Counts a duration `times` times.
    pub fn record(&mut self, time: Duration, times: u64) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.counts[BOUNDS.partition_point(|bound| *bound < nanoseconds)] += times;
        self.sum = self.sum.saturating_add(nanoseconds.saturating_mul(times));
    }

    /// Returns the number of durations counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of the durations, in seconds.
    pub fn sum(&self) -> f64 {
        self.sum as f64 / 1e9
    }

    /// Returns the buckets: for each, its upper bound in seconds, and the number of durations that are in it and in no
    /// lower one. The last bucket has no bound.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = BOUNDS.iter().map(|bound| *bound as f64 / 1e9);
        bounds.chain([f64::INFINITY]).zip(self.counts)
    }
}

impl AddAssign for Histogram {
    fn add_assign(&mut self, other: Histogram) {
        self.counts.iter_mut().zip(other.counts).for_each(|(count, more)| *count += more);
        self.sum = self.sum.saturating_add(other.sum);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn each_time_is_in_the_lowest_bucket_that_it_fits(times in prop::collection::vec((0u64..20_000_000_000, 0u64..5), 0..50)) {
            let (mut all, mut halves) = (Histogram::default(), [Histogram::default(); 2]);
            for (n, (time, count)) in times.iter().enumerate() {
                all.record(Duration::from_nanos(*time), *count);
                halves[n % 2].record(Duration::from_nanos(*time), *count);
            }
            let mut below = 0.0;
            for (bound, count) in all.buckets() {
                let fits = |time: u64| time as f64 / 1e9 <= bound && (time as f64 / 1e9 > below || below == 0.0);
                prop_assert_eq!(count, times.iter().filter(|(time, _)| fits(*time)).map(|(_, count)| count).sum::<u64>());
                below = bound;
            }
            prop_assert_eq!(all.count(), times.iter().map(|(_, count)| count).sum::<u64>());
            let sum: u64 = times.iter().map(|(time, count)| time * count).sum();
            prop_assert!((all.sum() - sum as f64 / 1e9).abs() < 1e-6);
            halves[0] += halves[1];
            prop_assert_eq!(halves[0], all);
        }
    }

    #[test]
    fn sums_stop_at_the_largest_number() {
        let mut histogram = Histogram::default();
        histogram.record(Duration::MAX, 3);
        histogram.record(Duration::MAX, 1);
        assert_eq!((histogram.count(), histogram.sum()), (4, u64::MAX as f64 / 1e9));
    }
}
