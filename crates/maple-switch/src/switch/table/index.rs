//! Finds rules without testing all of them: tuple space search (Srinivasan and others, SIGCOMM 1999).
//!
//! Rules that match the same bits of the same fields form a *shape* and share a hash table. A look-up visits the shapes
//! from the highest priority down, and stops when no later shape can do as well. So it costs one hash per shape,
//! however many rules there are. The key is the hash alone, so a look-up makes no key; the caller tests what it finds.
//! The table decides what the rules are and which of them wins; property tests compare it with a plain list.

use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::hash::Hasher;
use std::iter;

use maple_wire::{Field, Match};
use rustc_hash::{FxHashMap, FxHasher};

use super::Rank;

/// A rule: its rank, and its slot in the table.
pub type Entry = (Rank, u32);

/// The rules of one table.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// The shapes, in descending order of `highest`.
    shapes: Vec<Shape>,
}

/// The rules that match the same bits.
#[derive(Clone, Debug)]
struct Shape {
    masks: Vec<(Field, u128)>,
    /// An upper bound of the priorities of the shape's rules.
    highest: u16,
    /// The rules by the hash of their values.
    rules: FxHashMap<u64, Bucket>,
}

/// The rules of one hash, by rank: nearly always one, which needs no memory of its own.
#[derive(Clone, Debug)]
struct Bucket {
    first: Entry,
    others: Vec<Entry>,
}

impl Index {
    /// Adds a rule.
    pub fn insert(&mut self, matching: &Match, entry: Entry) {
        let (masks, hash) = split(matching);
        let at = self.shape(masks, entry.0.0.0);
        match self.shapes[at].rules.entry(hash) {
            Occupied(bucket) => bucket.into_mut().insert(entry),
            Vacant(place) => _ = place.insert(Bucket { first: entry, others: Vec::new() }),
        }
    }

    /// Returns the place of the shape with these masks, for a rule of this priority. Creates the shape if it does not
    /// exist.
    fn shape(&mut self, masks: Vec<(Field, u128)>, priority: u16) -> usize {
        let shape = match self.shapes.iter().position(|shape| shape.masks == masks) {
            Some(at) if self.shapes[at].highest >= priority => return at,
            Some(at) => Shape { highest: priority, ..self.shapes.remove(at) },
            None => Shape { masks, highest: priority, rules: FxHashMap::default() },
        };
        let to = self.shapes.partition_point(|other| other.highest >= priority);
        self.shapes.insert(to, shape);
        to
    }

    /// Removes a rule.
    pub fn remove(&mut self, matching: &Match, rank: Rank) {
        let (masks, hash) = split(matching);
        let Some(at) = self.shapes.iter().position(|shape| shape.masks == masks) else { return };
        let rules = &mut self.shapes[at].rules;
        if rules.get_mut(&hash).is_some_and(|bucket| !bucket.remove(rank)) {
            rules.remove(&hash);
        }
        if rules.is_empty() {
            self.shapes.remove(at);
        }
    }

    /// Returns the slots of rules of this priority, among which are all with exactly this match.
    pub fn strictly(&self, matching: &Match, priority: u16) -> impl Iterator<Item = u32> {
        let (masks, hash) = split(matching);
        let shape = self.shapes.iter().find(|shape| shape.masks == masks);
        let entries = shape.and_then(|shape| shape.rules.get(&hash)).into_iter().flat_map(Bucket::entries);
        entries.filter(move |(rank, _)| rank.0.0 == priority).map(|(_, slot)| *slot)
    }

    /// Visits the rules that may fit a packet with these values, as long as later ones could be as high as the priority
    /// that the last visit returned.
    pub fn search<V>(&self, mut value: V, mut visit: impl FnMut(&mut V, Entry) -> Option<u16>)
    where
        V: FnMut(Field) -> Option<u128>,
    {
        let mut best = None;
        for shape in &self.shapes {
            if best.is_some_and(|priority| priority > shape.highest) {
                return;
            }
            let Some(hash) = shape.hash_of(&mut value) else { continue };
            for entry in shape.rules.get(&hash).into_iter().flat_map(Bucket::entries) {
                if best.is_some_and(|priority| priority > entry.0.0.0) {
                    break;
                }
                best = visit(&mut value, *entry);
            }
        }
    }
}

impl Bucket {
    fn entries(&self) -> impl Iterator<Item = &Entry> {
        iter::once(&self.first).chain(&self.others)
    }

    fn insert(&mut self, mut entry: Entry) {
        if entry < self.first {
            std::mem::swap(&mut entry, &mut self.first);
        }
        self.others.insert(self.others.partition_point(|other| *other < entry), entry);
    }

    /// Removes a rule. Returns `false` if it was the only one, which then stays.
    fn remove(&mut self, rank: Rank) -> bool {
        if self.first.0 != rank {
            self.others.retain(|other| other.0 != rank);
            return true;
        }
        if self.others.is_empty() {
            return false;
        }
        self.first = self.others.remove(0);
        true
    }
}

impl Shape {
    /// Returns the hash of a packet's values in the matched bits; `None` if it lacks a field.
    fn hash_of(&self, value: &mut impl FnMut(Field) -> Option<u128>) -> Option<u64> {
        let mut hasher = FxHasher::default();
        for (field, mask) in &self.masks {
            hasher.write_u128(value(*field)? & mask);
        }
        Some(hasher.finish())
    }
}

/// Returns the masks of a match, and the hash of its values.
fn split(matching: &Match) -> (Vec<(Field, u128)>, u64) {
    let mut hasher = FxHasher::default();
    let masks = matching.constraints().map(|c| {
        hasher.write_u128(c.value);
        (c.field, c.mask)
    });
    (masks.collect(), hasher.finish())
}
