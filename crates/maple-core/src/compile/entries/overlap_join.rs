//! All pairs of matches that overlap, found together.
//!
//! # What
//!
//! A bit of the matches divides a group into those that require 0, those that require 1, and those that do not state
//! it. No match of the first part overlaps one of the second. So a pair is within a part, or between one of these two
//! and the third. A pair of groups is divided likewise. Groups are divided by the bit that keeps most pairs apart,
//! until they are small or no bit keeps many apart; then each pair is compared.
//!
//! # Why not one question for each match
//!
//! The way to a group is made once for all of its matches. In access lists three comparisons find two pairs, and a
//! question to the index (`overlap_index.rs`) for each match would make many more.
//!
//! # Cost
//!
//! The pairs, and for each match some steps for each division of its groups. If no bit divides the matches well, each
//! pair is compared. Divisions are nested no deeper than matches have bits.

use std::ops::Range;

use super::packed::PackedRow;

/// The maximum number of pairs that are compared without looking for a bit. Chosen: to find a bit, up to [`MAX_ASKED`]
/// matches of each group are asked for each bit, and the bit must spare more than that.
const FEW_PAIRS: usize = 4096;

/// The maximum number of matches of a group that are asked for a bit. Chosen: a sample shows which bit divides best,
/// and its price must not grow with the group.
const MAX_ASKED: usize = 32;

/// The divisor of the share of pairs that a bit must keep apart to divide groups: one in this many. Chosen: a bit that
/// keeps fewer apart costs another pass over both groups and spares few comparisons.
const KEPT_APART: usize = 16;

/// Calls `seen` with the places of each two matches that overlap, the lower one first. The pairs come in any order.
pub(super) fn each_overlap<T>(matches: &PackedRow<T>, seen: impl FnMut(u32, u32)) {
    let all: Vec<u32> = (0..matches.items().len() as u32).collect();
    OverlapJoin { matches, seen, near: PackedRow::default() }.within(&all);
}

struct OverlapJoin<'a, T, F> {
    matches: &'a PackedRow<T>,
    seen: F,
    /// A scratch row of the matches of a group with their places, kept to reuse its allocation.
    near: PackedRow<u32>,
}

/// A bit of a match: the index of the word with its value, before that of its mask, and the bit's place.
#[derive(Clone, Copy)]
struct DividingBit {
    word: usize,
    shift: u32,
}

/// A group that was divided: those that require 0, those that do not state the bit, and those that require 1.
struct DividedGroup {
    all: Vec<u32>,
    open: Range<usize>,
}

impl<T, F: FnMut(u32, u32)> OverlapJoin<'_, T, F> {
    /// Finds the pairs within a group.
    fn within(&mut self, group: &[u32]) {
        if group.len() * group.len() > 2 * FEW_PAIRS
            && let Some(bit) = self.dividing_bit(group, group)
        {
            let DividedGroup { all, open } = self.divide(group, bit);
            let (zeros, ones) = (&all[..open.start], &all[open.end..]);
            self.between(zeros, &all[open.clone()]);
            self.between(ones, &all[open.clone()]);
            [zeros, ones, &all[open]].into_iter().for_each(|part| self.within(part));
            return;
        }
        self.gather(group);
        let OverlapJoin { matches, seen, near } = self;
        for (at, one) in group.iter().enumerate() {
            near.all_overlapping(at + 1..group.len(), false, matches.get(*one as usize), |other, _| {
                seen(group[other].min(*one), group[other].max(*one));
                true
            });
        }
    }

    /// Finds the pairs of a match of one group and one of the other.
    fn between(&mut self, some: &[u32], others: &[u32]) {
        if some.len() * others.len() > FEW_PAIRS
            && let Some(bit) = self.dividing_bit(some, others)
        {
            let (DividedGroup { all, open }, of) = (self.divide(some, bit), self.divide(others, bit));
            self.between(&all[..open.start], &of.all[..of.open.end]);
            self.between(&all[open.end..], &of.all[of.open.start..]);
            self.between(&all[open], others);
            return;
        }
        self.gather(others);
        let OverlapJoin { matches, seen, near } = self;
        for one in some {
            near.all_overlapping(0..others.len(), false, matches.get(*one as usize), |other, _| {
                seen(others[other].min(*one), others[other].max(*one));
                true
            });
        }
    }

    fn gather(&mut self, group: &[u32]) {
        self.near.clear();
        group.iter().for_each(|place| self.near.push(self.matches.get(*place as usize), *place));
    }

    fn divide(&self, group: &[u32], bit: DividingBit) -> DividedGroup {
        let mut parts = [Vec::with_capacity(group.len()), Vec::new(), Vec::new()];
        group.iter().for_each(|place| parts[bit.part_of(self.matches.get(*place as usize))].push(*place));
        let [mut all, open, ones] = parts;
        let open_from = all.len();
        all.extend(open);
        let open = open_from..all.len();
        all.extend(ones);
        DividedGroup { all, open }
    }

    /// Returns the bit that keeps most pairs of two groups apart, if these are enough.
    fn dividing_bit(&self, some: &[u32], others: &[u32]) -> Option<DividingBit> {
        let [some, others] = [some, others].map(|group| {
            let asked = group.iter().step_by(group.len().div_ceil(MAX_ASKED));
            asked.map(|place| self.matches.get(*place as usize)).collect::<Vec<_>>()
        });
        let (mut best, mut most_apart) = (None, (some.len() * others.len()).div_ceil(KEPT_APART) - 1);
        for word in (0..self.matches.stride()).step_by(2) {
            let [of_some, of_others] = [&some, &others].map(|group| required(group, word));
            for shift in 0..u64::BITS {
                let ([zeros, ones], [other_zeros, other_ones]) = (of_some[shift as usize], of_others[shift as usize]);
                let apart = zeros * other_ones + ones * other_zeros;
                if apart > most_apart {
                    (best, most_apart) = (Some(DividingBit { word, shift }), apart);
                }
            }
        }
        best
    }
}

/// Returns how many matches require 0 and how many require 1, for each bit of a word.
fn required(group: &[&[u64]], word: usize) -> [[usize; 2]; 64] {
    let mut counts = [[0; 2]; 64];
    for set in group {
        let mut stated = set[word + 1];
        while stated != 0 {
            let shift = stated.trailing_zeros();
            stated &= stated - 1;
            counts[shift as usize][(set[word] >> shift & 1) as usize] += 1;
        }
    }
    counts
}

impl DividingBit {
    /// Returns 0 and 2 for the matches that require 0 and 1, and 1 for those that do not state the bit.
    fn part_of(self, set: &[u64]) -> usize {
        let DividingBit { word, shift } = self;
        if set[word + 1] >> shift & 1 == 0 { 1 } else { (set[word] >> shift & 1) as usize * 2 }
    }
}

/// A set of small numbers, with which lists are sorted.
#[derive(Debug)]
pub(super) struct PlaceSet {
    words: Vec<u64>,
    /// The bits of the words that are not zero.
    used: Vec<u64>,
}

impl PlaceSet {
    /// Creates an empty set of numbers below this one.
    pub(super) fn new(below: usize) -> PlaceSet {
        let words = below.div_ceil(64);
        PlaceSet { words: vec![0; words], used: vec![0; words.div_ceil(64)] }
    }

    /// Sorts a list in which each number is once.
    pub(super) fn sort(&mut self, list: &mut [u32]) {
        if list.len() <= self.used.len() {
            return list.sort_unstable();
        }
        for number in &*list {
            let word = *number as usize / 64;
            self.words[word] |= 1 << (number % 64);
            self.used[word / 64] |= 1 << (word % 64);
        }
        let mut sorted = list.iter_mut();
        for (at, used) in self.used.iter_mut().enumerate() {
            while *used != 0 {
                let word = at * 64 + used.trailing_zeros() as usize;
                *used &= *used - 1;
                let mut left = std::mem::take(&mut self.words[word]);
                while left != 0 {
                    if let Some(place) = sorted.next() {
                        *place = word as u32 * 64 + left.trailing_zeros();
                    }
                    left &= left - 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    use super::super::packed::overlap;
    use super::*;

    /// Masks of two words: prefixes, some of them of both words.
    const MASKS: [[u64; 2]; 7] = [[0xff, 0], [0xf0, 0xf], [0, 0xff], [0xff, 0xff], [0xc0, 0xf0], [0xff00, 0], [0, 0]];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn the_join_finds_each_pair_that_comparing_all_finds_once(
            sets in vec((prop::sample::select(&MASKS[..]), any::<u16>(), any::<u16>()), 0..400),
            thin in any::<u16>(),
            is_wide in any::<bool>(),
        ) {
            let mut matches = PackedRow::default();
            for ([a, b], first, second) in sets {
                // There may be few values, so that many sets overlap.
                let [first, second] = [first & thin, second & thin].map(u64::from);
                let set = [first & a, a, second & b, b, 0, 0];
                matches.push(&set[..if is_wide { 6 } else { 4 }], ());
            }
            let mut found = Vec::new();
            each_overlap(&matches, |earlier, later| found.push((earlier, later)));
            found.sort_unstable();
            let count = matches.items().len();
            let pairs = (0..count).flat_map(|one| (one + 1..count).map(move |other| (one, other)));
            let oracle = pairs.filter(|(one, other)| overlap(matches.get(*one), matches.get(*other)));
            prop_assert!(found.into_iter().eq(oracle.map(|(one, other)| (one as u32, other as u32))));
        }

        #[test]
        fn a_set_sorts_lists_one_after_the_other(lists in vec(btree_set(0..20_000u32, 0..50), 1..5), seed in any::<u32>()) {
            let mut set = PlaceSet::new(20_000);
            for sorted in lists {
                let sorted: Vec<u32> = sorted.into_iter().collect();
                let mut mixed = sorted.clone();
                mixed.sort_by_key(|number| number.wrapping_mul(seed | 1));
                set.sort(&mut mixed);
                prop_assert_eq!(mixed, sorted);
            }
        }
    }
}
