//! A random address trie that is never built.

use maple_emulator::Random;

use super::style::Space;
use crate::filters::Prefix;

/// An infinite trie of networks, which its seed determines.
pub(super) struct Trie {
    seed: u64,
    space: Space,
}

impl Trie {
    pub(super) fn new(seed: u64, space: Space) -> Trie {
        Trie { seed, space }
    }

    /// Returns a prefix of this length, 0 to 32: a random walk from the root.
    pub(super) fn prefix(&self, length: u8, random: &mut Random) -> Prefix {
        let mut address = 0;
        for depth in 0..length {
            let mut node = Random::new(self.seed ^ u64::from(address) << 8 ^ u64::from(depth));
            let fuller = node.chance(0.5);
            let has_two = node.below(100) < u64::from(self.space.branching[usize::from(depth / 8)]);
            let bit = if has_two && !percent(random, self.space.skew) { !fuller } else { fuller };
            address |= u32::from(bit) << (31 - depth);
        }
        Prefix::new(address, length)
    }
}

fn percent(random: &mut Random, percent: u32) -> bool {
    random.below(100) < u64::from(percent)
}
