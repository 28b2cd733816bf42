//! A small seeded generator (splitmix64), so that every run with one seed is the same run.

/// A stream of numbers that its seed determines.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Creates the stream of this seed.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// Returns the next number, uniform over all of `u64`.
    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`, which must not be 0. The bias is below 2⁻³² for bounds under 2³².
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no numbers");
        ((u128::from(self.number()) * u128::from(bound)) >> 64) as u64
    }

    /// Decides whether an event of this probability (0.0 to 1.0) happens.
    pub fn chance(&mut self, probability: f64) -> bool {
        // The top 53 bits represent every double in [0, 1) that is a multiple of 2⁻⁵³.
        ((self.number() >> 11) as f64) < probability * (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_determines_the_stream_of_numbers() {
        let (mut a, mut b, mut c) = (Random::new(7), Random::new(7), Random::new(8));
        let stream: Vec<u64> = (0..10).map(|_| a.number()).collect();
        assert_eq!(stream, (0..10).map(|_| b.number()).collect::<Vec<_>>());
        assert_ne!(stream, (0..10).map(|_| c.number()).collect::<Vec<_>>());
    }

    #[test]
    fn numbers_stay_below_their_bound_and_reach_all_of_it() {
        let mut random = Random::new(1);
        let mut seen = [false; 6];
        (0..200).for_each(|_| seen[random.below(6) as usize] = true);
        assert_eq!(seen, [true; 6]);
        assert!(!random.chance(0.0) && random.chance(1.0));
    }
}
