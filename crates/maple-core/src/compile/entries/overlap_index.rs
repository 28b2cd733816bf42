//! The index of entries by their matches: which entries overlap a match?
//!
//! # What
//!
//! A decision tree over the bits of packed matches. A *split* divides entries by a bit: those that require 0, those
//! that require 1, and those that do not state it. Entries at the end of the way are in a *bucket*, with their matches
//! one after the other. A match that states the bit of a split can overlap entries in two of its parts, any other match
//! in all three.
//!
//! # When a bucket is split
//!
//! A bucket is split when it is full, by the bit that keeps most pairs apart: pairs of an entry that requires 0 and one
//! that requires 1. Matches that ask are like those that are there. So this is also the bit that spares them most
//! comparisons. If no bit spares enough to pay for the further steps, the bucket becomes twice as large first. When few
//! entries are left in the parts of a split, they become one bucket again.
//!
//! # Cost
//!
//! A question costs the splits on its ways and the comparisons in the buckets at their ends: the logarithm of the
//! number of entries where matches state the same fields, and little more than its answer where that is long. An
//! insertion costs one way and its share of the splits, a removal a few steps.

use maple_prefetch::prefetch;

use super::entry_store::EntryId;
use super::packed::{PackedMatches, PackedRow};

/// The number of entries at which a bucket is split for the first time, if that pays. Chosen: matches that lie one
/// after the other are compared fast, while each split is a step through memory.
const FIRST_SPLIT_LEN: usize = 32;

/// The maximum number of entries in the parts of a split that become one bucket again. It must be less than
/// [`FIRST_SPLIT_LEN`], so that a table that shrinks and grows by one entry does not join and split each time.
const MAX_LEN_TO_JOIN: usize = FIRST_SPLIT_LEN / 2;

/// The minimum number of pairs that a split keeps apart, for each entry. Chosen: a split adds steps to each question,
/// and must spare it more comparisons than that.
const PAIRS_PER_ENTRY: usize = 4;

/// The entries of a table by their matches.
#[derive(Clone, Debug)]
pub(super) struct OverlapIndex {
    /// The root comes first.
    nodes: Vec<IndexNode>,
    /// The numbers of nodes that are not in the tree.
    free: Vec<u32>,
    /// The place of each entry.
    places: Vec<BucketPlace>,
    /// A scratch list of the nodes that a question has yet to visit, kept to reuse its allocation.
    open: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct BucketPlace {
    bucket: u32,
    /// The entry's index in the bucket.
    at: u32,
}

#[derive(Clone, Debug)]
struct IndexNode {
    /// The split whose part this is; the root names itself.
    above: u32,
    kind: IndexKind,
}

#[derive(Clone, Debug)]
enum IndexKind {
    Bucket {
        entries: PackedRow<EntryId>,
        /// The number of entries with which the bucket is full.
        full: usize,
    },
    Split {
        bit: MatchBit,
        /// The entries that require 0, that require 1, and that do not state the bit.
        parts: [u32; 3],
    },
}

/// A bit of packed matches.
#[derive(Clone, Copy, Debug)]
struct MatchBit {
    /// The index of the word with its value; the word of the mask is the next one.
    word: u32,
    shift: u32,
}

/// The number of the root. It is the first node that is made, and is never removed.
const ROOT: u32 = 0;

impl Default for OverlapIndex {
    fn default() -> OverlapIndex {
        OverlapIndex {
            nodes: vec![IndexNode { above: ROOT, kind: IndexKind::empty() }],
            free: Vec::new(),
            places: Vec::new(),
            open: Vec::new(),
        }
    }
}

impl OverlapIndex {
    /// Adds an entry whose set is in the matches.
    pub(super) fn insert(&mut self, matches: &PackedMatches, entry: EntryId) {
        let set = matches.get(entry);
        let mut at = ROOT;
        while let IndexKind::Split { bit, parts } = &self.nodes[at as usize].kind {
            at = parts[bit.part_of(set)];
        }
        if self.places.len() <= entry as usize {
            self.places.resize(entry as usize + 1, BucketPlace::default());
        }
        self.push(at, set, entry);
        self.split(at);
    }

    /// Removes an entry.
    pub(super) fn remove(&mut self, entry: EntryId) {
        let BucketPlace { bucket, at } = self.places[entry as usize];
        let IndexKind::Bucket { entries, .. } = &mut self.nodes[bucket as usize].kind else {
            unreachable!("an entry is in a bucket");
        };
        entries.swap_remove(at as usize);
        let left = entries.items().len();
        if let Some(moved) = entries.items().get(at as usize) {
            self.places[*moved as usize].at = at;
        }
        // Not each time, since that takes more steps than the removal.
        if left == 0 || left == MAX_LEN_TO_JOIN / 2 {
            self.join(bucket);
        }
    }

    /// Calls `seen` with each entry that overlaps a match.
    pub(super) fn overlapping(&mut self, set: &[u64], mut seen: impl FnMut(EntryId)) {
        let OverlapIndex { nodes, open, .. } = self;
        open.push(ROOT);
        while let Some(at) = open.pop() {
            match &nodes[at as usize].kind {
                IndexKind::Split { bit, parts } => match bit.part_of(set) {
                    2 => open.extend(parts),
                    part => open.extend([parts[part], parts[2]]),
                },
                IndexKind::Bucket { entries, .. } => {
                    let items = entries.items();
                    entries.all_overlapping(0..items.len(), false, set, |at, _| {
                        seen(items[at]);
                        true
                    });
                }
            }
        }
    }

    /// Prefetches what [`OverlapIndex::remove`] reads of an entry.
    pub(super) fn prefetch_removal(&self, entry: EntryId) {
        self.places.get(entry as usize).into_iter().for_each(prefetch);
    }

    fn push(&mut self, bucket: u32, set: &[u64], entry: EntryId) {
        let IndexKind::Bucket { entries, .. } = &mut self.nodes[bucket as usize].kind else {
            unreachable!("a way ends at a bucket");
        };
        self.places[entry as usize] = BucketPlace { bucket, at: entries.items().len() as u32 };
        entries.push(set, entry);
    }

    /// Splits a bucket if it is full, and then its parts.
    fn split(&mut self, bucket: u32) {
        let mut open = vec![bucket];
        while let Some(at) = open.pop() {
            let IndexKind::Bucket { entries, full } = &mut self.nodes[at as usize].kind else { continue };
            if entries.items().len() < *full {
                continue;
            }
            let Some(bit) = MatchBit::most_dividing(entries) else {
                *full *= 2;
                continue;
            };
            let entries = std::mem::take(entries);
            let parts = [0; 3].map(|_| self.create(at));
            self.nodes[at as usize].kind = IndexKind::Split { bit, parts };
            for (number, entry) in entries.items().iter().enumerate() {
                let set = entries.get(number);
                self.push(parts[bit.part_of(set)], set, *entry);
            }
            open.extend(parts);
        }
    }

    /// Makes one bucket of the parts of the split above a bucket, if they have few entries, and so on upwards.
    fn join(&mut self, bucket: u32) {
        let mut at = bucket;
        while at != ROOT {
            at = self.nodes[at as usize].above;
            let IndexKind::Split { parts, .. } = self.nodes[at as usize].kind else { return };
            let sizes = parts.map(|part| match &self.nodes[part as usize].kind {
                IndexKind::Bucket { entries, .. } => entries.items().len(),
                IndexKind::Split { .. } => usize::MAX,
            });
            if sizes.iter().fold(0, |all: usize, size| all.saturating_add(*size)) > MAX_LEN_TO_JOIN {
                return;
            }
            self.nodes[at as usize].kind = IndexKind::empty();
            for part in parts {
                let old = std::mem::replace(&mut self.nodes[part as usize].kind, IndexKind::empty());
                self.free.push(part);
                let IndexKind::Bucket { entries, .. } = old else { continue };
                for (number, entry) in entries.items().iter().enumerate() {
                    self.push(at, entries.get(number), *entry);
                }
            }
        }
    }

    /// Creates an empty bucket as a part of a split.
    fn create(&mut self, above: u32) -> u32 {
        let node = IndexNode { above, kind: IndexKind::empty() };
        match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        }
    }
}

impl IndexKind {
    fn empty() -> IndexKind {
        IndexKind::Bucket { entries: PackedRow::default(), full: FIRST_SPLIT_LEN }
    }
}

impl MatchBit {
    /// Returns the index of the part that a match belongs to.
    #[inline]
    fn part_of(self, set: &[u64]) -> usize {
        let (value, mask) = (set[self.word as usize] >> self.shift & 1, set[self.word as usize + 1] >> self.shift & 1);
        if mask == 0 { 2 } else { value as usize }
    }

    /// Returns the bit that keeps most pairs of entries apart, if these are enough.
    fn most_dividing(entries: &PackedRow<EntryId>) -> Option<MatchBit> {
        let count = entries.items().len();
        let sets = || (0..count).map(|at| entries.get(at));
        let (mut best, mut most_apart) = (None, (PAIRS_PER_ENTRY * count).saturating_sub(1));
        for word in (0..entries.stride()).step_by(2) {
            let zeros = sets().fold(0, |bits, set| bits | set[word + 1] & !set[word]);
            let ones = sets().fold(0, |bits, set| bits | set[word + 1] & set[word]);
            let mut open = zeros & ones;
            while open != 0 {
                let bit = MatchBit { word: word as u32, shift: open.trailing_zeros() };
                open &= open - 1;
                let mut sizes = [0; 3];
                sets().for_each(|set| sizes[bit.part_of(set)] += 1);
                if sizes[0] * sizes[1] > most_apart {
                    (best, most_apart) = (Some(bit), sizes[0] * sizes[1]);
                }
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::packed::overlap;
    use super::*;

    /// Masks of two words, some of them with no bits in common.
    const MASKS: [[u64; 2]; 6] = [[0xff, 0], [0xf0, 0xf], [0, 0xff], [0xff, 0xff], [0x3c, 0xf0], [0, 0]];

    /// Returns a set with these masks, whose values are taken from `bits`.
    fn set(masks: usize, bits: u64) -> [u64; 4] {
        let [a, b] = MASKS[masks];
        [bits & a, a, bits >> 8 & b, b]
    }

    /// Checks that each bucket and split of the tree knows what is above it, and entries where they are.
    fn check(index: &OverlapIndex, there: &BTreeSet<EntryId>) {
        let (mut open, mut found, mut nodes) = (vec![(ROOT, ROOT)], BTreeSet::new(), 0);
        while let Some((at, above)) = open.pop() {
            nodes += 1;
            assert_eq!(index.nodes[at as usize].above, above);
            match &index.nodes[at as usize].kind {
                IndexKind::Split { parts, .. } => open.extend(parts.iter().map(|part| (*part, at))),
                IndexKind::Bucket { entries, .. } => {
                    for (place, entry) in entries.items().iter().enumerate() {
                        let BucketPlace { bucket, at: own } = index.places[*entry as usize];
                        assert_eq!((bucket, own as usize), (at, place));
                        found.insert(*entry);
                    }
                }
            }
        }
        assert_eq!(&found, there);
        assert_eq!(nodes + index.free.len(), index.nodes.len(), "each node is in the tree or free");
    }

    #[test]
    fn entries_that_differ_are_split_and_become_one_bucket_again_when_few_are_left() {
        let (mut matches, mut index) = (PackedMatches::default(), OverlapIndex::default());
        matches.widen(4, 0);
        (0..4096).for_each(|id| matches.set(id, &set(3, id.into())));
        (0..4096).for_each(|id| index.insert(&matches, id));
        assert!(index.nodes.len() > 4096 / FIRST_SPLIT_LEN);
        let sizes = index.nodes.iter().map(|node| match &node.kind {
            IndexKind::Bucket { entries, .. } => entries.items().len(),
            IndexKind::Split { .. } => 0,
        });
        assert!(sizes.max() < Some(FIRST_SPLIT_LEN));
        (0..4096).for_each(|id| index.remove(id));
        check(&index, &BTreeSet::new());
        assert!(matches!(index.nodes[0].kind, IndexKind::Bucket { .. }), "nothing is split");
    }

    #[test]
    fn entries_that_no_bit_divides_stay_in_one_bucket() {
        let (mut matches, mut index) = (PackedMatches::default(), OverlapIndex::default());
        matches.widen(4, 0);
        (0..1000).for_each(|id| matches.set(id, &set(0, 7)));
        (0..1000).for_each(|id| index.insert(&matches, id));
        assert_eq!(index.nodes.len(), 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn the_index_finds_what_looking_at_each_entry_finds(
            steps in vec((0..MASKS.len(), any::<u16>(), 0..8u8), 1..600),
            thin in any::<u16>(),
            removals in 0..8u8,
        ) {
            let (mut matches, mut index, mut there) = (PackedMatches::default(), OverlapIndex::default(), BTreeSet::new());
            let mut free = Vec::new();
            matches.widen(4, 0);
            for (number, (masks, bits, kind)) in steps.iter().enumerate() {
                let id = free.pop().unwrap_or(number as EntryId);
                let asked = set(*masks, u64::from(*bits));
                // There may be few values, so that many sets overlap.
                matches.set(id, &set(*masks, u64::from(bits & thin)));
                index.insert(&matches, id);
                there.insert(id);
                // In the second half more entries go than come.
                let gone = if *kind >= removals { 0 } else { 1 + 2 * usize::from(number > steps.len() / 2) };
                for _ in 0..gone {
                    let Some(other) = there.range(EntryId::from(bits % 600)..).next().copied() else { break };
                    index.remove(other);
                    there.remove(&other);
                    free.push(other);
                }
                let mut found = Vec::new();
                index.overlapping(&asked, |id| found.push(id));
                found.sort_unstable();
                let all: Vec<EntryId> = there.iter().copied().filter(|id| overlap(matches.get(*id), &asked)).collect();
                prop_assert_eq!(found, all);
            }
            check(&index, &there);
        }
    }
}
