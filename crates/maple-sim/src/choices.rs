//! Choices that a seed decides.

/// The choices that cases are made of, from a seed.
#[derive(Clone, Debug)]
pub struct Choices(fastrand::Rng);

impl Choices {
    /// Creates the stream of this seed.
    pub fn new(seed: u64) -> Choices {
        Choices(fastrand::Rng::with_seed(seed))
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// Returns a number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        self.0.usize(..n)
    }

    /// Returns `true` in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns `true` in one of `n` cases; `n` is not 0.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Returns one of these.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}
