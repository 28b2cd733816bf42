//! An index from the value of a field to the leaves whose packets can have it, for invalidations.
//!
//! # What
//!
//! A trace *states* bits of a field by its reads and by the tests that held. For each field that was ever asked for,
//! leaves are in lists by the bits that their traces state and the values of these bits: a tuple space
//! (`tuple_space.rs`). Packets of a leaf can have a value if what its trace states does not contradict it. A failed
//! test may rule the value out too. This is ignored, so a few leaves too many may be named.
//!
//! # Cost
//!
//! A question costs a bit for each mask of the field, a look-up if that bit is set, and the leaves that it finds. When
//! a field is first asked for, one walk of the tree adds its leaves. From then on a new leaf costs one step for each
//! item of its trace. Lists drop leaves that are gone when they are next read. All lists do so when half of what they
//! hold is gone.

use maple_wire::{Constraint, Field};
use rustc_hash::FxHashMap;

use super::{LeafId, Node, NodeId, Tree};
use crate::trace::Item;
use crate::tuple_space::{OneOrMany, fold};

/// The fields that were asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct ValueIndex {
    fields: Vec<StatedBits>,
}

/// The leaves by the bits that they state of one field.
#[derive(Clone, Debug)]
struct StatedBits {
    field: Field,
    masks: Vec<(u128, LeavesByValue)>,
    /// The number of leaves in lists.
    held: usize,
}

/// Leaves by the value that they state.
#[derive(Clone, Debug, Default)]
struct LeavesByValue {
    by_value: FxHashMap<u128, OneOrMany<LeafId>>,
    /// A bit for each value that has or had a list. Values share bits. Most values that are asked for have no list.
    seen: [u64; 4],
}

/// Bits of a field: mask and value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FieldBits {
    mask: u128,
    value: u128,
}

impl ValueIndex {
    /// Reports whether any field was asked for.
    pub(super) fn is_asked(&self) -> bool {
        !self.fields.is_empty()
    }
}

impl FieldBits {
    fn and(self, c: &Constraint) -> FieldBits {
        FieldBits { mask: self.mask | c.mask, value: self.value | c.value }
    }
}

impl Tree {
    /// Returns the leaves whose packets can fit the constraint, ascending: those whose traces' reads and passed tests
    /// don't contradict it. It may also name leaves whose packets can't fit because they failed a test.
    ///
    /// The first question about a field walks the whole tree, and makes later augmentations a little more expensive.
    /// Each further question costs a look-up for each mask that traces have on the field, and the leaves found.
    pub fn leaves_fitting(&self, constraint: &Constraint) -> Vec<LeafId> {
        let mut value_index = self.value_index.borrow_mut();
        let at = match value_index.fields.iter().position(|stated| stated.field == constraint.field) {
            Some(at) if value_index.fields[at].held <= 2 * self.len() + 64 => at,
            Some(at) => {
                value_index.fields[at].sweep(|leaf| self.contains(leaf));
                at
            }
            None => {
                value_index.fields.push(StatedBits::from_tree(self, constraint.field));
                value_index.fields.len() - 1
            }
        };
        let mut leaves = value_index.fields[at].find(constraint, |leaf| self.contains(leaf));
        leaves.sort_unstable();
        leaves
    }

    /// Removes a leaf that has this trace from all lists.
    pub(super) fn value_index_remove(&mut self, items: &[Item], leaf: LeafId) {
        for stated in &mut self.value_index.get_mut().fields {
            stated.remove(bits(items, stated.field), leaf);
        }
    }

    /// Adds a new leaf that has this trace to all lists.
    pub(super) fn value_index_add(&mut self, items: &[Item], leaf: LeafId) {
        for stated in &mut self.value_index.get_mut().fields {
            stated.insert(bits(items, stated.field), leaf);
        }
    }
}

/// Returns the bits of a field that a trace states.
fn bits(items: &[Item], field: Field) -> FieldBits {
    items.iter().fold(FieldBits::default(), |bits, item| match item {
        Item::Read(constraint) if constraint.field == field => bits.and(constraint),
        Item::Test { cond, outcome: true } => {
            cond.constraints.iter().filter(|c| c.field == field).fold(bits, |bits, c| bits.and(c))
        }
        Item::Read(_) | Item::Test { .. } => bits,
    })
}

/// Returns the bit of a value in [`LeavesByValue::seen`]: the word, and the bit within it.
fn bit(value: u128) -> (usize, u64) {
    let mixed = fold(value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed >> 62) as usize, 1 << (mixed >> 56 & 63))
}

impl StatedBits {
    /// Lists all leaves of a tree by the bits that they state of a field.
    fn from_tree(tree: &Tree, field: Field) -> StatedBits {
        let mut stated = StatedBits { field, masks: Vec::new(), held: 0 };
        let mut open: Vec<(NodeId, FieldBits)> =
            tree.root().map(|root| (root, FieldBits::default())).into_iter().collect();
        while let Some((top, bits)) = open.pop() {
            let mut at = Some(top);
            while let Some(node) = at {
                at = None;
                match tree.node(node) {
                    Node::Leaf(leaf) => stated.insert(bits, *leaf),
                    Node::Value(values) => values.for_each(|value, child| {
                        let read = Constraint { field: values.field, value, mask: values.mask };
                        open.push((child, if values.field == field { bits.and(&read) } else { bits }));
                    }),
                    Node::Test { cond, yes, no } => {
                        if let Some(yes) = *yes {
                            let passed =
                                cond.constraints.iter().filter(|c| c.field == field).fold(bits, |all, c| all.and(c));
                            match tree.node(yes) {
                                Node::Leaf(leaf) => stated.insert(passed, *leaf),
                                _ => open.push((yes, passed)),
                            }
                        }
                        at = *no;
                    }
                }
            }
        }
        stated
    }

    fn insert(&mut self, bits: FieldBits, leaf: LeafId) {
        let at = self.masks.iter().position(|(mask, _)| *mask == bits.mask);
        let at = at.unwrap_or_else(|| {
            self.masks.push((bits.mask, LeavesByValue::default()));
            self.masks.len() - 1
        });
        let LeavesByValue { by_value, seen } = &mut self.masks[at].1;
        let (word, bit) = bit(bits.value);
        seen[word] |= bit;
        by_value.entry(bits.value).or_default().push(leaf);
        self.held += 1;
    }

    fn remove(&mut self, bits: FieldBits, leaf: LeafId) {
        let Some((_, lists)) = self.masks.iter_mut().find(|(mask, _)| *mask == bits.mask) else { return };
        let Some(list) = lists.by_value.get_mut(&bits.value) else { return };
        let before = list.items().len();
        list.retain(|other| other != leaf);
        self.held -= before - list.items().len();
    }

    /// Finds the leaves that don't contradict a constraint, in no order. Drops leaves that are gone.
    fn find(&mut self, asked: &Constraint, is_there: impl Fn(LeafId) -> bool) -> Vec<LeafId> {
        let mut found = Vec::new();
        let mut read = |list: &mut OneOrMany<LeafId>| {
            let before = list.items().len();
            list.retain(&is_there);
            found.extend_from_slice(list.items());
            before - list.items().len()
        };
        let mut is_spent = false;
        for (mask, LeavesByValue { by_value: lists, seen }) in &mut self.masks {
            let common = *mask & asked.mask;
            if common == *mask {
                let (word, bit) = bit(asked.value & common);
                if seen[word] & bit == 0 {
                    continue;
                }
                if let Some(list) = lists.get_mut(&(asked.value & common)) {
                    self.held -= read(list);
                    if list.items().is_empty() {
                        lists.remove(&(asked.value & common));
                    }
                }
            } else {
                let fit = lists.iter_mut().filter(|(value, _)| (**value ^ asked.value) & common == 0);
                self.held -= fit.map(|(_, list)| read(list)).sum::<usize>();
                lists.retain(|_, list| !list.items().is_empty());
            }
            is_spent |= lists.is_empty();
        }
        if is_spent {
            self.masks.retain(|(_, lists)| !lists.by_value.is_empty());
        }
        found
    }

    /// Drops all leaves that are gone.
    fn sweep(&mut self, is_there: impl Fn(LeafId) -> bool) {
        for (_, lists) in &mut self.masks {
            lists.by_value.retain(|_, list| {
                list.retain(&is_there);
                !list.items().is_empty()
            });
        }
        self.masks.retain(|(_, lists)| !lists.by_value.is_empty());
        self.held =
            self.masks.iter().flat_map(|(_, lists)| lists.by_value.values()).map(|list| list.items().len()).sum();
    }
}
