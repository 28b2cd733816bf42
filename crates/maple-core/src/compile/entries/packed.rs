//! Matches packed into words: whether two overlap, whether one covers another, and whether many together do.
//!
//! # What
//!
//! A [`PackedLayout`] gives each field that a table's matches name a place among the bits of some 64-bit words. A match
//! is then a row of pairs, the values and the mask of each word. A question about two matches takes a few instructions
//! for each word. The five fields of a filter take two words.
//!
//! Here every packet has a value for every field. So answers err on the side of *overlaps* and *is not covered*: it is
//! not known, for example, that a packet without a VLAN tag has no other VLAN bits.

use std::ops::Range;

use maple_wire::{Constraint, Field};

use super::entry_store::EntryId;

/// The number of regions after which [`uncovered`] gives up and answers that the set may not be covered. Chosen: that
/// answer costs at most a rule more than needed, and the question is asked on each change of the table.
const BUDGET: usize = 400;

/// The maximum number of packets that [`walk`] tries. Chosen: a walk that finds no packet was in vain, since the exact
/// attempt follows; so it must stay cheaper than that one.
const WALK: u64 = 48;

/// The free bits that [`sample`] gives to the packets that it tries: none, all, and every second one, beginning with
/// either of two. Chosen: four quick attempts before those that cost more.
const SAMPLES: [u64; 4] = [0, u64::MAX, u64::MAX / 3, u64::MAX / 3 * 2];

/// The places of fields in packed sets.
#[derive(Clone, Debug, Default)]
pub(super) struct PackedLayout {
    /// The place of each field, in OXM order.
    places: Vec<(Field, BitPlace)>,
    /// The number of bits of each word that are used.
    used: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct BitPlace {
    /// The first of its words: a field of more than 64 bits has two of its own.
    word: usize,
    shift: u32,
    /// The field's bits in that word, before they are shifted.
    bits: u64,
    is_wide: bool,
}

/// The packed matches of entries, one after the other, by entry.
#[derive(Clone, Debug, Default)]
pub(super) struct PackedMatches {
    words: Vec<u64>,
    stride: usize,
}

/// A list of packed matches, each with an item that belongs to it.
#[derive(Clone, Debug)]
pub(super) struct PackedRow<T> {
    words: Vec<u64>,
    items: Vec<T>,
    /// Returns the number of words of a match, once there is one.
    stride: usize,
}

impl<T> Default for PackedRow<T> {
    fn default() -> PackedRow<T> {
        PackedRow { words: Vec::new(), items: Vec::new(), stride: 0 }
    }
}

impl PackedLayout {
    /// Gives each field of a match a place. Returns whether packed matches become longer: existing ones must then be
    /// widened.
    pub(super) fn admit(&mut self, all: &[Constraint]) -> bool {
        let before = self.used.len();
        for constraint in all {
            if let Err(at) = self.places.binary_search_by_key(&constraint.field, |(field, _)| *field) {
                let place = self.place_for(constraint.field.bits());
                self.places.insert(at, (constraint.field, place));
            }
        }
        self.used.len() != before
    }

    /// Returns the fields that have a place, in OXM order.
    pub(super) fn all(&self) -> impl ExactSizeIterator<Item = Field> {
        self.places.iter().map(|(field, _)| *field)
    }

    /// Returns the number of words that a match takes.
    pub(super) fn stride(&self) -> usize {
        2 * self.used.len()
    }

    /// Packs a match. Returns whether all its fields have a place. If not, the result is useless.
    pub(super) fn pack(&self, all: &[Constraint], set: &mut Vec<u64>) -> bool {
        set.clear();
        set.resize(self.stride(), 0);
        for Constraint { field, value, mask } in all {
            let Ok(at) = self.places.binary_search_by_key(field, |(field, _)| *field) else { return false };
            let BitPlace { word, shift, is_wide, .. } = self.places[at].1;
            set[2 * word] |= (*value as u64) << shift;
            set[2 * word + 1] |= (*mask as u64) << shift;
            if is_wide {
                set[2 * word + 2] |= (value >> 64) as u64;
                set[2 * word + 3] |= (mask >> 64) as u64;
            }
        }
        true
    }

    /// Unpacks a match, in OXM order.
    pub(super) fn unpack(&self, set: &[u64]) -> impl Iterator<Item = Constraint> {
        let constraint = move |(field, place): &(Field, BitPlace)| {
            let BitPlace { word, shift, bits, is_wide } = *place;
            let part = |at: usize| {
                let upper = if is_wide { u128::from(set[at + 2]) << 64 } else { 0 };
                upper | u128::from(set[at] >> shift & bits)
            };
            let mask = part(2 * word + 1);
            (mask != 0).then(|| Constraint { field: *field, value: part(2 * word), mask })
        };
        self.places.iter().filter_map(constraint)
    }

    fn place_for(&mut self, bits: u32) -> BitPlace {
        let fits = self.used.iter().position(|used| used + bits <= u64::BITS);
        let word = fits.unwrap_or(self.used.len());
        let shift = self.used.get(word).copied().unwrap_or(0);
        if fits.is_some() {
            self.used[word] += bits;
        } else if bits <= u64::BITS {
            self.used.push(bits);
        } else {
            self.used.extend([u64::BITS; 2]);
        }
        BitPlace { word, shift, bits: u64::MAX >> (64 - bits.min(64)), is_wide: bits > 64 }
    }
}

impl PackedMatches {
    /// Returns the match of an entry.
    #[inline]
    pub(super) fn get(&self, id: EntryId) -> &[u64] {
        &self.words[id as usize * self.stride..][..self.stride]
    }

    /// Sets the match of an entry.
    pub(super) fn set(&mut self, id: EntryId, set: &[u64]) {
        let at = id as usize * self.stride;
        if self.words.len() < at + self.stride {
            self.words.resize(at + self.stride, 0);
        }
        self.words[at..at + self.stride].copy_from_slice(set);
    }

    /// Makes each match `stride` words long.
    pub(super) fn widen(&mut self, stride: usize, entries: usize) {
        let mut words = vec![0; stride * entries];
        if self.stride > 0 {
            for (new, old) in words.chunks_exact_mut(stride).zip(self.words.chunks_exact(self.stride)) {
                new[..self.stride].copy_from_slice(old);
            }
        }
        (self.words, self.stride) = (words, stride);
    }
}

impl<T> PackedRow<T> {
    /// Appends a match, as packed words, and its item.
    pub(super) fn push(&mut self, set: &[u64], item: T) {
        self.stride = set.len();
        self.words.extend_from_slice(set);
        self.items.push(item);
    }

    /// Removes the match at a place and its item. The last ones take the place.
    pub(super) fn swap_remove(&mut self, at: usize) {
        self.items.swap_remove(at);
        let last = self.items.len() * self.stride;
        self.words.copy_within(last.., at * self.stride);
        self.words.truncate(last);
    }

    /// Returns the number of words of a match. It is 0 until there is one.
    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// Returns the items.
    pub(super) fn items(&self) -> &[T] {
        &self.items
    }

    /// Returns the match at a place.
    pub(super) fn get(&self, at: usize) -> &[u64] {
        &self.words[at * self.stride..][..self.stride]
    }

    /// Reports whether `is` holds for all indices whose matches overlap `set`. They are asked in order, or in reverse
    /// order.
    pub(super) fn all_overlapping(
        &self,
        places: Range<usize>,
        backwards: bool,
        set: &[u64],
        mut is: impl FnMut(usize, &[u64]) -> bool,
    ) -> bool {
        // The usual lengths: two words for the five fields of a filter, three or four for those of an access list.
        if let Ok(set) = <&[u64; 4]>::try_from(set) {
            return self.all_overlapping_of(places, backwards, set, is);
        }
        if let Ok(set) = <&[u64; 6]>::try_from(set) {
            return self.all_overlapping_of(places, backwards, set, is);
        }
        if let Ok(set) = <&[u64; 8]>::try_from(set) {
            return self.all_overlapping_of(places, backwards, set, is);
        }
        let mut is = |at: usize| !overlap(self.get(at), set) || is(at, self.get(at));
        if backwards { places.rev().all(is) } else { places.into_iter().all(&mut is) }
    }

    /// Does what [`PackedRow::all_overlapping`] does, for matches of a length that the compiler knows.
    #[inline]
    fn all_overlapping_of<const WORDS: usize>(
        &self,
        places: Range<usize>,
        backwards: bool,
        set: &[u64; WORDS],
        mut is: impl FnMut(usize, &[u64]) -> bool,
    ) -> bool {
        debug_assert!(self.items.is_empty() || self.stride == WORDS, "matches of a table have one length");
        let (sets, _) = self.words.as_chunks::<WORDS>();
        let mut is_passed_over = |at: usize| !overlap_of(&sets[at], set) || is(at, &sets[at]);
        if backwards { places.rev().all(is_passed_over) } else { places.into_iter().all(&mut is_passed_over) }
    }

    pub(super) fn clear(&mut self) {
        self.words.clear();
        self.items.clear();
    }

    /// Makes each match `stride` words long.
    pub(super) fn widen(&mut self, stride: usize) {
        let mut words = Vec::with_capacity(stride * self.items.len());
        for at in 0..self.items.len() {
            words.extend_from_slice(self.get(at));
            words.resize((at + 1) * stride, 0);
        }
        (self.words, self.stride) = (words, stride);
    }
}

/// Reports whether a packet can fit both: they agree in the bits that both fix.
#[inline]
pub(super) fn overlap(a: &[u64], b: &[u64]) -> bool {
    if let (Ok(a), Ok(b)) = (<&[u64; 4]>::try_from(a), b.try_into()) {
        return overlap_of(a, b);
    }
    if let (Ok(a), Ok(b)) = (<&[u64; 6]>::try_from(a), b.try_into()) {
        return overlap_of(a, b);
    }
    if let (Ok(a), Ok(b)) = (<&[u64; 8]>::try_from(a), b.try_into()) {
        return overlap_of(a, b);
    }
    let ((a, _), (b, _)) = (a.as_chunks::<2>(), b.as_chunks::<2>());
    a.iter().zip(b).all(|(a, b)| overlap_of(a, b))
}

#[inline]
fn overlap_of<const WORDS: usize>(a: &[u64; WORDS], b: &[u64; WORDS]) -> bool {
    // No branch, and no iterator: this is asked more often than all else.
    let (mut differ, mut at) = (0, 0);
    while at < WORDS {
        differ |= (a[at] ^ b[at]) & a[at + 1] & b[at + 1];
        at += 2;
    }
    differ == 0
}

/// Reports whether `a` takes every packet that `b` takes.
#[inline]
pub(super) fn covers(a: &[u64], b: &[u64]) -> bool {
    if let (Ok(a), Ok(b)) = (<&[u64; 4]>::try_from(a), b.try_into()) {
        return covers_of(a, b);
    }
    if let (Ok(a), Ok(b)) = (<&[u64; 6]>::try_from(a), b.try_into()) {
        return covers_of(a, b);
    }
    if let (Ok(a), Ok(b)) = (<&[u64; 8]>::try_from(a), b.try_into()) {
        return covers_of(a, b);
    }
    let ((a, _), (b, _)) = (a.as_chunks::<2>(), b.as_chunks::<2>());
    a.iter().zip(b).all(|(a, b)| covers_of(a, b))
}

#[inline]
fn covers_of<const WORDS: usize>(a: &[u64; WORDS], b: &[u64; WORDS]) -> bool {
    let (mut more, mut at) = (0, 0);
    while at < WORDS {
        more |= a[at + 1] & (!b[at + 1] | (a[at] ^ b[at]));
        at += 2;
    }
    more == 0
}

/// Returns the packets that fit both, which must overlap.
pub(super) fn meet(a: &[u64], b: &[u64]) -> Vec<u64> {
    a.iter().zip(b).map(|(x, y)| x | y).collect()
}

/// Returns some packets of `all` that no entry of `cover` takes, or `None` if these take all of them.
///
/// There are three attempts, each more expensive than the one before. The first tries a few packets ([`sample`]). The
/// second walks from packet to packet, and each step leaves a match that takes the packet ([`walk`]). The third is
/// exact: it removes one match of the cover after the other, and cuts what is left into regions, bit by bit. If that
/// takes more than [`BUDGET`] regions, the answer is a region that may be covered.
pub(super) fn uncovered(store: &PackedMatches, all: &[u64], cover: &[EntryId]) -> Option<Box<[u64]>> {
    if let Some(packet) = SAMPLES.into_iter().find_map(|bits| sample(store, all, cover, bits)) {
        return Some(packet);
    }
    if cover.iter().any(|id| covers(store.get(*id), all)) {
        return None;
    }
    if let Some(packet) = walk(store, all, cover) {
        return Some(packet);
    }
    cut_away(store, all, cover)
}

/// Cuts what each match of the cover takes away from `all`. Returns the first region that is left, or the one that is
/// being cut when the budget is used up.
fn cut_away(store: &PackedMatches, all: &[u64], cover: &[EntryId]) -> Option<Box<[u64]>> {
    // The regions that are left, each with the part of `near` that has what may take packets of it. A region's part
    // ends before those of the regions that were cut out of it, which are all looked at before the next region.
    let (mut open, mut near) = (vec![(all.to_vec(), 0..cover.len())], cover.to_vec());
    let mut budget = BUDGET;
    while let Some((region, part)) = open.pop() {
        near.truncate(part.end);
        let overlaps = |id: EntryId| overlap(store.get(id), &region);
        let Some(at) = part.clone().find(|at| overlaps(near[*at])) else { return Some(region.into()) };
        budget -= 1;
        if budget == 0 {
            return Some(region.into());
        }
        let set = store.get(near[at]);
        if covers(set, &region) {
            continue;
        }
        for later in at + 1..part.end {
            if overlaps(near[later]) {
                near.push(near[later]);
            }
        }
        let part = part.end..near.len();
        cut(region, set, |rest| open.push((rest, part.clone())));
    }
    None
}

/// Returns the packet of `all` with these free bits, if no match of the cover takes it.
fn sample(store: &PackedMatches, all: &[u64], cover: &[EntryId], bits: u64) -> Option<Box<[u64]>> {
    let packet: Box<[u64]> = all.chunks_exact(2).flat_map(|x| [x[0] | bits & !x[1], u64::MAX]).collect();
    (!cover.iter().any(|id| overlap(store.get(*id), &packet))).then_some(packet)
}

/// Returns a packet of `all` that no match of the cover takes, found step by step. While a match takes the packet, one
/// bit that the match fixes and `all` does not is flipped. The number of the step chooses the bit, so the walk is
/// always the same. `None` means that nothing is known.
fn walk(store: &PackedMatches, all: &[u64], cover: &[EntryId]) -> Option<Box<[u64]>> {
    let mut packet: Box<[u64]> = all.chunks_exact(2).flat_map(|x| [x[0], u64::MAX]).collect();
    let (mut passed, mut at, mut drawn) = (0, 0, 0u64);
    while passed < cover.len() {
        let set = store.get(cover[at]);
        passed += 1;
        at = if at + 1 == cover.len() { 0 } else { at + 1 };
        if !overlap(set, &packet) {
            continue;
        }
        drawn += 1;
        let open = |word: usize| set[word + 1] & !all[word + 1];
        let bits: u32 = (0..set.len()).step_by(2).map(|word| open(word).count_ones()).sum();
        if drawn > WALK || bits == 0 {
            return None;
        }
        let mut left = (drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 % bits;
        for word in (0..set.len()).step_by(2) {
            let here = open(word).count_ones();
            if left < here {
                let above = (0..left).fold(open(word), |rest, _| rest & (rest - 1));
                packet[word] ^= above & above.wrapping_neg();
                break;
            }
            left -= here;
        }
        passed = 0;
    }
    Some(packet)
}

/// Cuts the part of `region` that `set` does not take into regions.
fn cut(mut region: Vec<u64>, set: &[u64], mut rest: impl FnMut(Vec<u64>)) {
    for at in (0..set.len()).step_by(2) {
        let mut open = set[at + 1] & !region[at + 1];
        while open != 0 {
            let bit = 1u64 << (63 - open.leading_zeros());
            open ^= bit;
            region[at + 1] |= bit;
            region[at] |= !set[at] & bit;
            rest(region.clone());
            region[at] ^= bit;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// The number of bits that packets have here.
    const BITS: u64 = 6;

    fn sets() -> impl Strategy<Value = [u64; 2]> {
        (0..1u64 << BITS, 0..1u64 << BITS, 0..1u64 << BITS).prop_map(|(value, a, b)| [value & a & b, a & b])
    }

    /// Generates matches of two words that state few bits, so that many of them leave many regions of others.
    fn wide_sets() -> impl Strategy<Value = [u64; 4]> {
        let bits = || (0..1u64 << BITS, 0..1u64 << BITS, 0..1u64 << BITS);
        (bits(), bits()).prop_map(|((value, a, b), (other, c, d))| [value & a & b, a & b, other & c & d, c & d])
    }

    fn takes(set: &[u64], packet: u64) -> bool {
        (set[0] ^ packet) & set[1] & ((1 << BITS) - 1) == 0
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn matches_of_any_length_are_compared_as_their_bits_are(
            pairs in 1..6usize,
            rows in vec(vec((any::<u64>(), any::<u64>(), any::<u64>(), 0..3u8), 5), 2..12),
            thin in any::<u64>(),
        ) {
            // Some matches state all bits of a word and some few, and there may be few values: many overlap or cover
            // others.
            let word = |(value, a, b, density): (u64, u64, u64, u8)| {
                let mask = [u64::MAX, a & b, a & b & a.rotate_left(7) & b.rotate_left(13)][usize::from(density)];
                [value & thin & mask, mask]
            };
            let set = |row: &Vec<_>| row[..pairs].iter().flat_map(|part| word(*part)).collect::<Vec<u64>>();
            let sets: Vec<Vec<u64>> = rows.iter().map(set).collect();
            let mut row = PackedRow::default();
            sets.iter().for_each(|set| row.push(set, ()));
            let bit = |set: &[u64], at: usize| {
                let (value, mask) = (set[at / 64 * 2] >> (at % 64) & 1, set[at / 64 * 2 + 1] >> (at % 64) & 1);
                (mask == 1).then_some(value)
            };
            for asked in &sets {
                let agree = |other: &[u64], is: fn(Option<u64>, Option<u64>) -> bool| {
                    (0..64 * pairs).all(|at| is(bit(asked, at), bit(other, at)))
                };
                let meets = |other: &[u64]| agree(other, |a, b| a.is_none() || b.is_none() || a == b);
                for other in &sets {
                    prop_assert_eq!(overlap(asked, other), meets(other));
                    prop_assert_eq!(covers(asked, other), agree(other, |a, b| a.is_none() || a == b));
                }
                let mut oracle: Vec<usize> = (1..sets.len()).filter(|at| meets(&sets[*at])).collect();
                for backwards in [false, true] {
                    let mut found = Vec::new();
                    let are_right = row.all_overlapping(1..sets.len(), backwards, asked, |at, set| {
                        found.push(at);
                        *set == *sets[at]
                    });
                    prop_assert!(are_right);
                    prop_assert_eq!(&found, &oracle);
                    let mut asked_of = 0;
                    let is_passed_over = row.all_overlapping(1..sets.len(), backwards, asked, |_, _| {
                        asked_of += 1;
                        false
                    });
                    prop_assert_eq!((is_passed_over, asked_of), (oracle.is_empty(), oracle.len().min(1)));
                    oracle.reverse();
                }
            }
        }

        #[test]
        fn cutting_packed_matches_leaves_what_cutting_with_the_whole_cover_leaves(
            all in wide_sets(),
            cover in vec(wide_sets(), 0..60),
        ) {
            let mut store = PackedMatches::default();
            store.widen(4, 0);
            cover.iter().zip(0..).for_each(|(set, id)| store.set(id, set));
            let ids: Vec<EntryId> = (0..cover.len() as EntryId).collect();
            let (mut open, mut budget) = (vec![(all.to_vec(), 0)], BUDGET);
            let oracle: Option<Box<[u64]>> = loop {
                let Some((region, from)) = open.pop() else { break None };
                let Some(at) = (from..cover.len()).find(|at| overlap(&cover[*at], &region)) else { break Some(region.into()) };
                budget -= 1;
                if budget == 0 {
                    break Some(region.into());
                }
                cut(region, &cover[at], |rest| open.push((rest, at + 1)));
            };
            prop_assert_eq!(cut_away(&store, &all, &ids), oracle);
        }

        #[test]
        fn many_sets_cover_a_region_exactly_if_each_packet_of_it_is_in_one(all in sets(), cover in vec(sets(), 0..7)) {
            let mut store = PackedMatches::default();
            store.widen(2, 0);
            cover.iter().zip(0..).for_each(|(set, id)| store.set(id, set));
            let ids: Vec<EntryId> = (0..cover.len() as EntryId).collect();
            let is_left = |packet: &u64| takes(&all, *packet) && !cover.iter().any(|set| takes(set, *packet));
            match uncovered(&store, &all, &ids) {
                None => prop_assert_eq!((0..1 << BITS).find(is_left), None),
                Some(region) => {
                    let mut within = (0..1 << BITS).filter(|packet| takes(&region, *packet)).peekable();
                    prop_assert!(within.peek().is_some());
                    prop_assert!(within.all(|packet| is_left(&packet)), "{region:?} is partly covered");
                }
            }
        }
    }
}
