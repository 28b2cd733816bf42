//! The first condition of a long list that a packet fits, found without trying one after the other.
//!
//! # What
//!
//! A chain of tests (each the no-side of the one before) is a list of conditions that grows and shrinks at its end. The
//! index keeps it as a *tuple space*: conditions with the same masks on the same fields form a *tuple*, and within a
//! tuple a hash table leads from the values under the masks to the conditions with these values. What a condition says
//! beyond that (ranges) is checked on the condition itself.
//!
//! Lists from practice have hundreds of tuples, but a packet can fit conditions in one or two of them. So before any
//! tuple is looked at, every field narrows down the tuples: a *filter* knows for each mask on its field which values
//! occur, and in which tuples, as a set of bits. The packet's value under each mask is looked up, the sets found are
//! united with that of the tuples that don't ask for the field, and the sets of all fields are intersected. The tuples
//! that remain are looked at in the order of their first conditions, and no further than the best that was found.
//!
//! Sets have at most [`MAX_TUPLES`] bits: behind that many tuples a new *segment* begins, with an index of its own,
//! which is asked only where the segments before have nothing.
//!
//! # Why it is correct
//!
//! A packet that fits a condition has the condition's values under the masks, so every filter leaves the condition's
//! tuple in, and the tuple's table leads to it. Whatever is found is checked with [`Cond::holds`], so what filters and
//! tables say too much costs time only. That allows them to keep entries of conditions that are gone, until these are
//! far more than what is there; then the segment is built anew.
//!
//! A tuple is made for its first condition and goes with it, and conditions come and go at the end. So tuples stand in
//! the order of their first conditions, and it is always the last one that goes.
//!
//! # Cost
//!
//! A question: one look-up a mask of each field, one a remaining tuple. A condition that comes in: one insertion a field
//! and one into its tuple; it takes some 100 to 200 bytes. The plain walk ([`super::Tree::walk`]) is the oracle.

use std::sync::Arc;

use maple_wire::Field;
use rustc_hash::FxHashMap;

use crate::trace::{Cond, Fields};

#[cfg(test)]
mod tests;

/// How many tuples a segment has at most.
const MAX_TUPLES: usize = WORD * MAX_WORDS;
const WORD: usize = 64;
const MAX_WORDS: usize = 8;

/// How many pairs of a field and a mask a segment has at most; each condition brings at most one a field.
const MAX_SLOTS: usize = 160;

/// Conditions in a row, of which the first that a packet fits can be found fast.
#[derive(Clone, Debug, Default)]
pub(super) struct ConditionIndex {
    segments: Vec<Segment>,
    len: usize,
}

/// A stretch of the conditions.
#[derive(Clone, Debug, Default)]
struct Segment {
    /// Where it begins in the whole.
    start: usize,
    entries: Vec<Entry>,
    tuples: Vec<Tuple>,
    by_shape: FxHashMap<Shape, u16>,
    /// The first and the last condition of a tuple that have certain values; by a mix of tuple and values.
    members: FxHashMap<u64, Ends>,
    /// In OXM order, so that what proves a field to be there comes before it.
    filters: Vec<Filter>,
    /// How many pairs of a field and a mask there are.
    slots: u16,
    /// Sets of tuples with more than one member that rows name, `words` each.
    sets: Vec<u64>,
    words: usize,
    /// How many conditions went since the segment was built.
    gone: usize,
}

/// A condition.
#[derive(Clone, Debug)]
struct Entry {
    cond: Arc<Cond>,
    tuple: u16,
    /// Under which it is in `members`.
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

/// Fields and masks, as ascending slots.
type Shape = Box<[u16]>;

#[derive(Clone, Debug)]
struct Tuple {
    shape: Shape,
    /// Its first condition.
    first: u32,
}

/// What is known of the conditions on one field.
#[derive(Clone, Debug)]
struct Filter {
    field: Field,
    /// The tuples that don't ask for the field.
    wild: [u64; MAX_WORDS],
    masks: Vec<Mask>,
}

/// The values that occur under one mask, and in which tuples.
#[derive(Clone, Debug)]
struct Mask {
    mask: u128,
    slot: u16,
    rows: FxHashMap<u64, Row>,
}

/// A set of tuples.
#[derive(Clone, Copy, Debug)]
enum Row {
    /// Of one.
    One(u16),
    /// Of several: its place in `sets`, counted in sets.
    Several(u32),
}

impl ConditionIndex {
    /// Adds a condition at the end.
    pub(super) fn push(&mut self, cond: Arc<Cond>) {
        self.len += 1;
        if let Some(last) = self.segments.last_mut()
            && last.has_room()
        {
            return last.push(cond);
        }
        let mut segment = Segment { start: self.len - 1, words: 1, ..Segment::default() };
        segment.push(cond);
        self.segments.push(segment);
    }

    /// Takes the last condition out.
    pub(super) fn pop(&mut self) {
        let Some(last) = self.segments.last_mut() else { return };
        last.pop();
        self.len -= 1;
        if last.entries.is_empty() {
            self.segments.pop();
        }
    }

    /// How many bytes it takes, about, without the conditions.
    pub(super) fn bytes(&self) -> usize {
        self.segments.iter().map(Segment::bytes).sum()
    }

    /// The place of the first condition that the packet fits.
    pub(super) fn first<P: Fields + ?Sized>(&self, packet: &P) -> Option<usize> {
        self.segments.iter().find_map(|segment| Some(segment.start + segment.first(packet)?))
    }
}

impl Segment {
    /// Whether another condition, whatever it is, can be taken in.
    fn has_room(&self) -> bool {
        self.tuples.len() < MAX_TUPLES && usize::from(self.slots) + Field::COUNT <= MAX_SLOTS
    }

    fn first<P: Fields + ?Sized>(&self, packet: &P) -> Option<usize> {
        let (mut open, mut mixed) = ([u64::MAX; MAX_WORDS], [0; MAX_SLOTS]);
        let open = &mut open[..self.words];
        for filter in &self.filters {
            self.filter(filter, packet, open, &mut mixed)?;
        }
        let mut best = None;
        for (at, tuple) in self.open_tuples(open) {
            if best.is_some_and(|best| best < tuple.first) {
                break;
            }
            let key = tuple.shape.iter().fold(mix_tuple(at), |key, slot| key.wrapping_add(mixed[usize::from(*slot)]));
            let mut next = self.members.get(&key).map(|ends| ends.first);
            while let Some(at) = next.filter(|at| best.is_none_or(|best| *at < best)) {
                let entry = &self.entries[at as usize];
                if entry.cond.holds(packet) {
                    best = Some(at);
                }
                next = entry.after;
            }
        }
        best.map(|at| at as usize)
    }

    /// Leaves those tuples open whose conditions on the filter's field the packet can fit; `None` if that is none. QuestionMemos
    /// what tuples mix into their keys.
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
                    Some(Row::One(tuple)) => set(fits, *tuple),
                    Some(Row::Several(at)) => {
                        let several = &self.sets[*at as usize * self.words..][..self.words];
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

    /// The tuples of a set, in order.
    fn open_tuples(&self, open: &[u64]) -> impl Iterator<Item = (u16, &Tuple)> {
        let bits = open.iter().enumerate().flat_map(|(word, bits)| {
            std::iter::successors(Some(*bits).filter(|bits| *bits != 0), |bits| {
                Some(bits & (bits - 1)).filter(|bits| *bits != 0)
            })
            .map(move |bits| word * WORD + bits.trailing_zeros() as usize)
        });
        bits.map_while(|at| Some((at as u16, self.tuples.get(at)?)))
    }

    fn bytes(&self) -> usize {
        let rows = |mask: &Mask| size_of_val(mask) + mask.rows.capacity() * (size_of::<(u64, Row)>() + 1);
        let filter = |filter: &Filter| size_of_val(filter) + filter.masks.iter().map(rows).sum::<usize>();
        let shapes = self.tuples.iter().map(|tuple| 2 * (size_of_val(tuple) + size_of_val(&tuple.shape[..])));
        size_of_val(self)
            + size_of_val(&self.entries[..])
            + size_of_val(&self.sets[..])
            + self.members.capacity() * (size_of::<(u64, Ends)>() + 1)
            + self.filters.iter().map(filter).sum::<usize>()
            + shapes.sum::<usize>()
    }

    fn push(&mut self, cond: Arc<Cond>) {
        let at = self.entries.len() as u32;
        let shape = self.shape(&cond);
        let tuple = match self.by_shape.get(&shape) {
            Some(tuple) => *tuple,
            None => self.new_tuple(shape, at),
        };
        let mut key = mix_tuple(tuple);
        for constraint in cond.all.iter().filter(|c| c.mask != 0) {
            let filter = self.filters.iter_mut().find(|filter| filter.field == constraint.field);
            let mask = filter.and_then(|filter| filter.masks.iter_mut().find(|mask| mask.mask == constraint.mask));
            let mask = mask.expect("the shape's masks are there");
            let value = fold(constraint.value);
            key = key.wrapping_add(mix(value, mask.slot));
            let row = mask.rows.entry(value).or_insert(Row::One(tuple));
            add(row, tuple, &mut self.sets, self.words);
        }
        let ends = self.members.entry(key).or_insert(Ends { first: at, last: at });
        let before = (ends.last != at).then_some(ends.last);
        ends.last = at;
        if let Some(before) = before {
            self.entries[before as usize].after = Some(at);
        }
        self.entries.push(Entry { cond, tuple, key, before, after: None });
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
        if self.tuples[usize::from(entry.tuple)].first as usize == self.entries.len() {
            let tuple = self.tuples.pop();
            tuple.and_then(|tuple| self.by_shape.remove(&tuple.shape));
            self.filters.iter_mut().for_each(|filter| clear(&mut filter.wild, entry.tuple));
        }
        self.gone += 1;
        if self.gone > 2 * (self.entries.len() + MAX_TUPLES) {
            self.rebuild();
        }
    }

    /// Begins anew with the conditions that are there.
    fn rebuild(&mut self) {
        let entries = std::mem::take(&mut self.entries);
        *self = Segment { start: self.start, words: 1, ..Segment::default() };
        entries.into_iter().for_each(|entry| self.push(entry.cond));
    }

    /// The slots of a condition's fields and masks, made where they are new.
    fn shape(&mut self, cond: &Cond) -> Shape {
        let mut shape: Vec<u16> = Vec::with_capacity(cond.all.len());
        for constraint in cond.all.iter().filter(|c| c.mask != 0) {
            let at = match self.filters.binary_search_by_key(&constraint.field, |filter| filter.field) {
                Ok(at) => at,
                Err(at) => {
                    let mut wild = [0; MAX_WORDS];
                    (0..self.tuples.len()).for_each(|tuple| set(&mut wild, tuple as u16));
                    self.filters.insert(at, Filter { field: constraint.field, wild, masks: Vec::new() });
                    at
                }
            };
            let masks = &mut self.filters[at].masks;
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

    fn new_tuple(&mut self, shape: Shape, first: u32) -> u16 {
        let tuple = self.tuples.len() as u16;
        if usize::from(tuple) == self.words * WORD {
            self.widen();
        }
        for filter in &mut self.filters {
            if filter.masks.iter().all(|mask| !shape.contains(&mask.slot)) {
                set(&mut filter.wild, tuple);
            }
        }
        self.by_shape.insert(shape.clone(), tuple);
        self.tuples.push(Tuple { shape, first });
        tuple
    }

    /// Doubles the room in sets.
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

/// Puts a tuple into a row.
fn add(row: &mut Row, tuple: u16, sets: &mut Vec<u64>, words: usize) {
    match *row {
        Row::One(there) if there == tuple => {}
        Row::One(there) => {
            let at = sets.len();
            sets.resize(at + words, 0);
            set(&mut sets[at..], there);
            set(&mut sets[at..], tuple);
            *row = Row::Several((at / words) as u32);
        }
        Row::Several(at) => set(&mut sets[at as usize * words..][..words], tuple),
    }
}

fn set(bits: &mut [u64], tuple: u16) {
    bits[usize::from(tuple) / WORD] |= 1 << (usize::from(tuple) % WORD);
}

fn clear(bits: &mut [u64], tuple: u16) {
    bits[usize::from(tuple) / WORD] &= !(1 << (usize::from(tuple) % WORD));
}

/// A value as one word, different for different values of the fields that have no more bits.
fn fold(value: u128) -> u64 {
    value as u64 ^ ((value >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// What a value under a slot's mask adds to a key.
fn mix(value: u64, slot: u16) -> u64 {
    let spread = (value ^ u64::from(slot) << 48).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (spread ^ spread >> 32).wrapping_mul(0xc4ce_b9fe_1a85_ec53)
}

fn mix_tuple(tuple: u16) -> u64 {
    u64::from(tuple).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
