//! The first condition of a long list that a packet fits: a tuple space (`tuple_space.rs`).
//!
//! # What
//!
//! A list of conditions is given: an access list, or a chain of tests in a tree, which grows and shrinks at its end.
//! Conditions with the same masks on the same fields form a *group*. Within a group, a hash table leads from the values
//! under the masks to the conditions with these values. Ranges are checked on the condition itself.
//!
//! Real lists have hundreds of groups, but a packet can fit conditions in one or two of them. So *filters* first rule
//! groups out. The filter of a field knows for each mask which values occur, and in which groups, as a set of bits. The
//! packet's value under each mask is looked up. The sets found are united with the set of the groups that don't ask for
//! the field, and the results of all fields are intersected. The remaining groups are searched in the order of their
//! first conditions, and only up to the best condition found.
//!
//! Sets have at most [`MAX_GROUPS`] bits. After that many groups a new *segment* begins, with an index of its own. It
//! is searched only if the earlier segments have nothing.
//!
//! # Why it is correct
//!
//! A packet that fits a condition has the condition's values under the masks. So every filter keeps the condition's
//! group, and the group's table leads to it. Every result is checked with [`Cond::holds`]. So filters and tables may
//! name too much: they keep conditions that are gone, until there are far more of these than of the others. Then the
//! segment is rebuilt.
//!
//! A group is created for its first condition and removed with it, and conditions come and go at the end. So groups are
//! in the order of their first conditions, and only the last group is ever removed.
//!
//! # Cost
//!
//! A question takes one look-up for each mask of each field, and one for each remaining group. A new condition takes
//! one insertion for each field, and one into its group. The plain walk ([`crate::Tree::walk`]) is the oracle.

use std::sync::Arc;

use maple_wire::Field;
use rustc_hash::FxHashMap;

use super::{Cond, Fields};
use crate::tuple_space::fold;

#[cfg(test)]
mod tests;

/// The maximum number of groups in a segment: the number of bits of the largest set. Chosen: real access lists have
/// hundreds of groups, so one segment holds most of them.
const MAX_GROUPS: usize = WORD * MAX_WORDS;
/// The number of bits of a word of a set.
const WORD: usize = 64;
/// The maximum number of words of a set: 64 bytes, which are a cache line.
const MAX_WORDS: usize = 8;

/// The maximum number of pairs of a field and a mask in a segment. Each condition adds at most one for each field.
/// Chosen: a question keeps a word for each of them on the stack, and lists of prefixes have some dozens for an
/// address.
const MAX_SLOTS: usize = 160;

/// A list of conditions, with a fast search for the first one that a packet fits.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConditionIndex {
    segments: Vec<ListSegment>,
    len: usize,
}

/// A part of the list.
#[derive(Clone, Debug, Default)]
struct ListSegment {
    /// The position of its first condition in the whole list.
    start: usize,
    entries: Vec<SegmentEntry>,
    groups: Vec<Group>,
    by_shape: FxHashMap<Shape, u16>,
    /// The first and the last condition of a group with certain values, by a hash of group and values.
    members: FxHashMap<u64, Ends>,
    /// The filters in OXM order, so that the fields that prove the presence of a field come before it.
    filters: Vec<Filter>,
    /// The number of pairs of a field and a mask.
    slots: u16,
    /// The sets of groups that rows name, if they have more than one member. Each takes `words` words.
    sets: Vec<u64>,
    words: usize,
    /// The number of conditions removed since the segment was built.
    gone: usize,
}

/// A condition of a segment.
#[derive(Clone, Debug)]
struct SegmentEntry {
    cond: Arc<Cond>,
    group: u16,
    /// Its key in `members`.
    key: u64,
    /// The neighbours with the same key.
    before: Option<u32>,
    after: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
}

/// Pairs of a field and a mask, as ascending slots.
type Shape = Box<[u16]>;

#[derive(Clone, Debug)]
struct Group {
    shape: Shape,
    /// The position of its first condition in the segment.
    first: u32,
}

/// The filter of one field: which groups a packet's value leaves possible.
#[derive(Clone, Debug)]
struct Filter {
    field: Field,
    /// The groups that don't ask for the field.
    wild: [u64; MAX_WORDS],
    masks: Vec<Mask>,
}

/// The values that occur under one mask, and in which groups.
#[derive(Clone, Debug)]
struct Mask {
    mask: u128,
    slot: u16,
    rows: FxHashMap<u64, Row>,
}

/// A set of groups.
#[derive(Clone, Copy, Debug)]
enum Row {
    /// A set of one group.
    One(u16),
    /// A set of several groups: its index in `sets`, counted in sets.
    Several(u32),
}

impl ConditionIndex {
    /// Adds a condition at the end.
    pub fn push(&mut self, cond: Arc<Cond>) {
        self.len += 1;
        if let Some(last) = self.segments.last_mut()
            && last.has_room()
        {
            return last.push(cond);
        }
        let mut segment = ListSegment { start: self.len - 1, words: 1, ..ListSegment::default() };
        segment.push(cond);
        self.segments.push(segment);
    }

    /// Removes the last condition.
    pub fn pop(&mut self) {
        let Some(last) = self.segments.last_mut() else { return };
        last.pop();
        self.len -= 1;
        if last.entries.is_empty() {
            self.segments.pop();
        }
    }

    /// Returns the approximate size in bytes, without the conditions.
    pub fn bytes(&self) -> usize {
        self.segments.iter().map(ListSegment::bytes).sum()
    }

    /// Returns the position of the first condition that the packet fits.
    pub fn first<P: Fields + ?Sized>(&self, packet: &P) -> Option<usize> {
        self.first_where(packet, |_| true)
    }

    /// Returns the position of the first condition that the packet fits, among those whose position `counts`.
    pub fn first_where<P: Fields + ?Sized>(&self, packet: &P, counts: impl Fn(usize) -> bool) -> Option<usize> {
        let first = |segment: &ListSegment| {
            let counts = |index: u32| counts(segment.start + index as usize);
            Some(segment.start + segment.first(packet, counts)?)
        };
        self.segments.iter().find_map(first)
    }
}

impl ListSegment {
    /// Reports whether the segment has room for any further condition.
    fn has_room(&self) -> bool {
        self.groups.len() < MAX_GROUPS && usize::from(self.slots) + Field::COUNT <= MAX_SLOTS
    }

    fn first<P: Fields + ?Sized>(&self, packet: &P, counts: impl Fn(u32) -> bool) -> Option<usize> {
        let (mut open, mut mixed) = ([u64::MAX; MAX_WORDS], [0; MAX_SLOTS]);
        let open = &mut open[..self.words];
        for filter in &self.filters {
            self.filter(filter, packet, open, &mut mixed)?;
        }
        let mut best = None;
        for (index, group) in self.open_groups(open) {
            if best.is_some_and(|best| best < group.first) {
                break;
            }
            let key =
                group.shape.iter().fold(mix_group(index), |key, slot| key.wrapping_add(mixed[usize::from(*slot)]));
            let mut next = self.members.get(&key).map(|ends| ends.first);
            while let Some(index) = next.filter(|index| best.is_none_or(|best| *index < best)) {
                let entry = &self.entries[index as usize];
                if counts(index) && entry.cond.holds(packet) {
                    best = Some(index);
                }
                next = entry.after;
            }
        }
        best.map(|index| index as usize)
    }

    /// Closes the groups whose conditions on the filter's field the packet cannot fit; `None` if that closes all. Notes
    /// in `mixed` what each slot adds to the keys of groups.
    #[inline]
    fn filter<P: Fields + ?Sized>(
        &self,
        filter: &Filter,
        packet: &P,
        open: &mut [u64],
        mixed: &mut [u64; MAX_SLOTS],
    ) -> Option<()> {
        let wild = &filter.wild[..open.len()];
        if open.iter().zip(wild).all(|(open, wild)| open & !wild == 0) {
            return Some(());
        }
        let mut fits = filter.wild;
        let fits = &mut fits[..open.len()];
        if let Some(value) = packet.value(filter.field) {
            for mask in &filter.masks {
                let key = fold(value & mask.mask);
                match mask.rows.get(&key) {
                    None => continue,
                    Some(Row::One(group)) => set(fits, *group),
                    Some(Row::Several(index)) => {
                        let several = &self.sets[*index as usize * self.words..][..self.words];
                        fits.iter_mut().zip(several).for_each(|(fits, several)| *fits |= several);
                    }
                }
                mixed[usize::from(mask.slot)] = mix(key, mask.slot);
            }
        }
        let mut left = 0;
        for (open, fits) in open.iter_mut().zip(fits) {
            *open &= *fits;
            left |= *open;
        }
        (left != 0).then_some(())
    }

    /// Returns the groups of a set, in order.
    fn open_groups(&self, open: &[u64]) -> impl Iterator<Item = (u16, &Group)> {
        let bits = open.iter().enumerate().flat_map(|(word, bits)| {
            std::iter::successors(Some(*bits).filter(|bits| *bits != 0), |bits| {
                Some(bits & (bits - 1)).filter(|bits| *bits != 0)
            })
            .map(move |bits| word * WORD + bits.trailing_zeros() as usize)
        });
        bits.map_while(|index| Some((index as u16, self.groups.get(index)?)))
    }

    fn bytes(&self) -> usize {
        let rows = |mask: &Mask| size_of_val(mask) + mask.rows.capacity() * (size_of::<(u64, Row)>() + 1);
        let filter = |filter: &Filter| size_of_val(filter) + filter.masks.iter().map(rows).sum::<usize>();
        let shapes = self.groups.iter().map(|group| 2 * (size_of_val(group) + size_of_val(&group.shape[..])));
        size_of_val(self)
            + size_of_val(&self.entries[..])
            + size_of_val(&self.sets[..])
            + self.members.capacity() * (size_of::<(u64, Ends)>() + 1)
            + self.filters.iter().map(filter).sum::<usize>()
            + shapes.sum::<usize>()
    }

    fn push(&mut self, cond: Arc<Cond>) {
        let index = self.entries.len() as u32;
        let shape = self.shape(&cond);
        let group = match self.by_shape.get(&shape) {
            Some(group) => *group,
            None => self.new_group(shape, index),
        };
        let mut key = mix_group(group);
        for constraint in cond.constraints.iter().filter(|c| c.mask != 0) {
            let filter = self.filters.iter_mut().find(|filter| filter.field == constraint.field);
            let mask = filter.and_then(|filter| filter.masks.iter_mut().find(|mask| mask.mask == constraint.mask));
            let mask = mask.expect("the shape's masks are there");
            let value = fold(constraint.value);
            key = key.wrapping_add(mix(value, mask.slot));
            let row = mask.rows.entry(value).or_insert(Row::One(group));
            add(row, group, &mut self.sets, self.words);
        }
        let ends = self.members.entry(key).or_insert(Ends { first: index, last: index });
        let before = (ends.last != index).then_some(ends.last);
        ends.last = index;
        if let Some(before) = before {
            self.entries[before as usize].after = Some(index);
        }
        self.entries.push(SegmentEntry { cond, group, key, before, after: None });
    }

    fn pop(&mut self) {
        let Some(entry) = self.entries.pop() else { return };
        match (entry.before, self.members.get_mut(&entry.key)) {
            (Some(before), Some(ends)) => {
                ends.last = before;
                self.entries[before as usize].after = None;
            }
            _ => {
                self.members.remove(&entry.key);
            }
        }
        if self.groups[usize::from(entry.group)].first as usize == self.entries.len() {
            let group = self.groups.pop();
            group.and_then(|group| self.by_shape.remove(&group.shape));
            self.filters.iter_mut().for_each(|filter| clear(&mut filter.wild, entry.group));
        }
        self.gone += 1;
        if self.gone > 2 * (self.entries.len() + MAX_GROUPS) {
            self.rebuild();
        }
    }

    /// Rebuilds the segment with the conditions that exist.
    fn rebuild(&mut self) {
        let entries = std::mem::take(&mut self.entries);
        *self = ListSegment { start: self.start, words: 1, ..ListSegment::default() };
        entries.into_iter().for_each(|entry| self.push(entry.cond));
    }

    /// Returns the slots of a condition's fields and masks. Creates those that are missing.
    fn shape(&mut self, cond: &Cond) -> Shape {
        let mut shape: Vec<u16> = Vec::with_capacity(cond.constraints.len());
        for constraint in cond.constraints.iter().filter(|c| c.mask != 0) {
            let index = match self.filters.binary_search_by_key(&constraint.field, |filter| filter.field) {
                Ok(index) => index,
                Err(index) => {
                    let mut wild = [0; MAX_WORDS];
                    (0..self.groups.len()).for_each(|group| set(&mut wild, group as u16));
                    self.filters.insert(index, Filter { field: constraint.field, wild, masks: Vec::new() });
                    index
                }
            };
            let masks = &mut self.filters[index].masks;
            let slot = masks.iter().find(|mask| mask.mask == constraint.mask).map(|mask| mask.slot);
            shape.push(slot.unwrap_or_else(|| {
                let slot = self.slots;
                self.slots += 1;
                masks.push(Mask { mask: constraint.mask, slot, rows: FxHashMap::default() });
                slot
            }));
        }
        shape.into()
    }

    fn new_group(&mut self, shape: Shape, first: u32) -> u16 {
        let group = self.groups.len() as u16;
        if usize::from(group) == self.words * WORD {
            self.widen();
        }
        for filter in &mut self.filters {
            if filter.masks.iter().all(|mask| !shape.contains(&mask.slot)) {
                set(&mut filter.wild, group);
            }
        }
        self.by_shape.insert(shape.clone(), group);
        self.groups.push(Group { shape, first });
        group
    }

    /// Doubles the size of sets.
    fn widen(&mut self) {
        let mut sets = Vec::with_capacity(self.sets.len() * 2);
        for set in self.sets.chunks(self.words) {
            sets.extend_from_slice(set);
            sets.resize(sets.len() + self.words, 0);
        }
        self.sets = sets;
        self.words *= 2;
    }
}

/// Adds a group to a row.
fn add(row: &mut Row, group: u16, sets: &mut Vec<u64>, words: usize) {
    match *row {
        Row::One(there) if there == group => {}
        Row::One(there) => {
            let index = sets.len();
            sets.resize(index + words, 0);
            set(&mut sets[index..], there);
            set(&mut sets[index..], group);
            *row = Row::Several((index / words) as u32);
        }
        Row::Several(index) => set(&mut sets[index as usize * words..][..words], group),
    }
}

fn set(bits: &mut [u64], group: u16) {
    bits[usize::from(group) / WORD] |= 1 << (usize::from(group) % WORD);
}

fn clear(bits: &mut [u64], group: u16) {
    bits[usize::from(group) / WORD] &= !(1 << (usize::from(group) % WORD));
}

/// Returns the number that a value under a slot's mask adds to a key.
fn mix(value: u64, slot: u16) -> u64 {
    let spread = (value ^ u64::from(slot) << 48).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (spread ^ spread >> 32).wrapping_mul(0xc4ce_b9fe_1a85_ec53)
}

fn mix_group(group: u16) -> u64 {
    u64::from(group).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
