//! Finds rules without testing all of them. Rules that match the same bits of the same fields share a *shape*, and a
//! hash of these bits finds those of a shape that fit a packet. So a look-up costs a hash for each shape, however many
//! rules there are. The table decides what the rules are and which of them wins; a property test compares the two.

use std::cmp::Reverse;

use maple_wire::{Field, Match};
use rustc_hash::FxHashMap;

/// The position of a rule: higher priorities first, older rules first among equals.
pub type Rank = (Reverse<u16>, u64);

/// The rules of one table.
#[derive(Clone, Debug, Default)]
pub struct Index {
    shapes: Vec<Shape>,
}

/// Rules that match the same bits.
#[derive(Clone, Debug)]
struct Shape {
    bits: Vec<(Field, u128)>,
    rules: FxHashMap<Vec<u128>, Vec<Rank>>,
}

impl Index {
    /// Adds a rule.
    pub fn insert(&mut self, matching: &Match, rank: Rank) {
        let (bits, values) = split(matching);
        let at = self.shapes.iter().position(|shape| shape.bits == bits).unwrap_or_else(|| {
            self.shapes.push(Shape { bits, rules: FxHashMap::default() });
            self.shapes.len() - 1
        });
        let ranks = self.shapes[at].rules.entry(values).or_default();
        ranks.insert(ranks.partition_point(|other| *other < rank), rank);
    }

    /// Removes a rule.
    pub fn remove(&mut self, matching: &Match, rank: Rank) {
        let (bits, values) = split(matching);
        let Some(at) = self.shapes.iter().position(|shape| shape.bits == bits) else { return };
        let rules = &mut self.shapes[at].rules;
        if let Some(ranks) = rules.get_mut(&values) {
            ranks.retain(|other| *other != rank);
            if ranks.is_empty() {
                rules.remove(&values);
            }
        }
        if rules.is_empty() {
            self.shapes.swap_remove(at);
        }
    }

    /// Returns the rule of exactly this match and priority.
    pub fn strictly(&self, matching: &Match, priority: u16) -> Option<Rank> {
        let (bits, values) = split(matching);
        let ranks = self.shapes.iter().find(|shape| shape.bits == bits)?.rules.get(&values)?;
        ranks.iter().find(|rank| rank.0.0 == priority).copied()
    }

    /// Returns the rules of the highest priority that fit a packet, the oldest first.
    pub fn best(&self, packet: impl Fn(Field) -> Option<u128>) -> Vec<Rank> {
        let mut best: Vec<Rank> = Vec::new();
        for shape in &self.shapes {
            let values = shape.bits.iter().map(|(field, mask)| packet(*field).map(|value| value & mask));
            let Some(values) = values.collect::<Option<Vec<u128>>>() else { continue };
            let Some(ranks) = shape.rules.get(&values) else { continue };
            let top = ranks[0].0;
            if best.first().is_some_and(|rank| top < rank.0) {
                best.clear();
            }
            if best.first().is_none_or(|rank| top == rank.0) {
                best.extend(ranks.iter().take_while(|rank| rank.0 == top));
            }
        }
        best.sort_unstable();
        best
    }
}

/// Returns the bits of a match, and their values.
fn split(matching: &Match) -> (Vec<(Field, u128)>, Vec<u128>) {
    matching.constraints().map(|c| ((c.field, c.mask), c.value)).unzip()
}
