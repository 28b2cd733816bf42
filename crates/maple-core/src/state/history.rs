//! The history of a rate: enough to say, for any two thresholds, whether the rate has passed the upper one since it was
//! last below the lower one.
//!
//! # What
//!
//! A rate is sampled again and again, and f asks questions with hysteresis: "busy" from more than 50 Mbit/s on, until
//! it is at most 40. A question that is asked later, or with other thresholds, must be answered from the same samples
//! as all others. So the answer is a function of the samples alone, and not of when a question was first asked.
//!
//! # Why it is correct
//!
//! Of all samples so far, only those count at which the rate turned, and of these only those that no later one has
//! passed. What a small swing did to a question, a greater swing after it has done again (the wiping-out property of
//! Preisach's model of hysteresis). The swings that remain become smaller and smaller. A question looks at them from
//! the newest on until one is beyond a threshold. The oracle, in the tests, goes through all samples.
//!
//! # Cost
//!
//! A sample costs a few comparisons on average, a question one comparison for each swing. At most
//! [`RateHistory::MAX_TURNS`] swings are kept; beyond that the oldest and widest are forgotten, as if the rate had been
//! 0 before.

use crate::network::Scale;

/// The turning points of a rate that still matter, in bit/s.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RateHistory {
    turns: Vec<u64>,
}

impl RateHistory {
    /// The maximum number of turning points that are kept. Chosen: they bound memory and the time of a question, and
    /// each is at least as wide as the later ones, so few remain of a rate that settles.
    pub const MAX_TURNS: usize = 64;

    /// Returns the newest sample, in bit/s; 0 before the first.
    pub fn latest(&self) -> u64 {
        self.turns.last().copied().unwrap_or(0)
    }

    /// Adds a sample.
    pub fn push(&mut self, bits_per_second: u64) {
        if self.turns.is_empty() {
            self.turns.push(0);
        }
        self.turns.push(bits_per_second);
        while let [.., a, b, c] = self.turns[..] {
            let end = self.turns.len();
            if a.min(c) <= b && b <= a.max(c) {
                // On the way from one to the other.
                self.turns.remove(end - 2);
            } else if c.abs_diff(b) >= a.abs_diff(b) {
                // The swing from a to b is undone.
                self.turns.drain(end - 3..end - 1);
            } else {
                break;
            }
        }
        if self.turns.len() > RateHistory::MAX_TURNS {
            self.turns.remove(0);
        }
    }

    /// Returns the step of a scale that the rate has reached.
    pub fn step(&self, scale: Scale) -> u8 {
        match scale {
            Scale::Above { from, until } => u8::from(self.is_above(from, until)),
            Scale::TenthsOf(0) => 0,
            Scale::TenthsOf(whole) => {
                let parts = |number: u64, of: u64| (u128::from(whole) * u128::from(number) / u128::from(of)) as u64;
                let reached = |tenth: &u64| {
                    let from = parts(*tenth, 10).saturating_sub(1);
                    self.is_above(from, parts(2 * tenth - 1, 20).min(from))
                };
                (1..=10).filter(reached).count() as u8
            }
        }
    }

    /// Reports whether a sample was more than `from`, and none since then at most `until`. Both are in bit/s, and
    /// `until` is at most `from`.
    pub fn is_above(&self, from: u64, until: u64) -> bool {
        let decisive = self.turns.iter().rev().find(|rate| **rate > from || **rate <= until);
        decisive.is_some_and(|rate| *rate > from)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Goes through all samples.
    fn naive(samples: &[u64], from: u64, until: u64) -> bool {
        samples.iter().fold(false, |busy, rate| *rate > from || (busy && *rate > until))
    }

    fn after(samples: &[u64]) -> RateHistory {
        let mut history = RateHistory::default();
        samples.iter().for_each(|rate| history.push(*rate));
        history
    }

    #[test]
    fn a_rate_is_above_from_the_upper_threshold_to_the_lower() {
        let reported: Vec<bool> = (1..=7).map(|n| after(&[0, 49, 51, 45, 41, 40, 45][..n]).is_above(50, 40)).collect();
        assert_eq!(reported, [false, false, true, true, true, false, false]);
        assert!(!RateHistory::default().is_above(0, 0));
        assert!(after(&[1]).is_above(0, 0) && !after(&[1, 0]).is_above(0, 0));
    }

    #[test]
    fn a_utilisation_rises_at_a_tenth_and_falls_half_a_tenth_below() {
        let steps = |samples: &[u64]| after(samples).step(Scale::TenthsOf(1000));
        assert_eq!([steps(&[]), steps(&[99]), steps(&[100]), steps(&[1000]), steps(&[u64::MAX])], [0, 0, 1, 10, 10]);
        assert_eq!(
            [steps(&[300, 251]), steps(&[300, 250]), steps(&[300, 250, 299]), steps(&[300, 250, 300])],
            [3, 2, 2, 3]
        );
        assert_eq!(after(&[5]).step(Scale::TenthsOf(0)), 0);
        assert_eq!(after(&[u64::MAX]).step(Scale::TenthsOf(u64::MAX)), 10);
    }

    #[test]
    fn turns_within_a_greater_swing_are_forgotten() {
        assert_eq!(after(&[10, 5, 7, 6]).turns, [0, 10, 5, 7, 6]);
        assert_eq!(after(&[10, 5, 7, 6, 8]).turns, [0, 10, 5, 8]);
        assert_eq!(after(&[10, 5, 7, 6, 10]).turns, [0, 10]);
        assert_eq!(after(&[10, 5, 7, 6, 0]).turns, [0]);
        assert_eq!(after(&(0..1000).collect::<Vec<_>>()).turns, [0, 999]);
        assert_eq!(after(&[7; 1000]).turns, [0, 7]);
    }

    #[test]
    fn the_memory_of_a_rate_is_bounded() {
        let shrinking: Vec<u64> = (0..1000).map(|n| if n % 2 == 0 { 5000 - n } else { 1000 + n }).collect();
        let history = after(&shrinking);
        assert_eq!(history.turns.len(), RateHistory::MAX_TURNS);
        assert_eq!(history.latest(), shrinking[999]);
        assert!(history.is_above(3000, 2500) == naive(&shrinking, 3000, 2500));
    }

    proptest! {
        #[test]
        fn every_question_is_answered_as_from_all_samples(
            samples in prop::collection::vec(0..40u64, 0..200), a in 0..40u64, b in 0..40u64,
        ) {
            let (from, until) = (a.max(b), a.min(b));
            prop_assert_eq!(after(&samples).is_above(from, until), naive(&samples, from, until));
        }
    }
}
