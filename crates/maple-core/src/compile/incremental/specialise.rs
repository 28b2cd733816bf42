//! Leaf specialisation: a leaf keeps a part of its packets, so that fewer barrier rules are required.
//!
//! # What
//!
//! A pass beside the core: without it the table is right, but has more rules. A wide forwarding entry after hundreds of
//! unexplored tests requires a barrier rule for each that it overlaps. Its leaf may keep a part of its packets only
//! ([`Tree::specialise`](crate::tree::Tree::specialise)). Barrier entries that have nothing to do with that part are not
//! required because of it. The other packets get a leaf of their own when the first of them comes, at the cost of one
//! more miss and one more rule. `entries/specialisation.rs` says when that pays.
//!
//! # Price
//!
//! This file, `entries/specialisation.rs` and `tree/specialise.rs`, and a leaf that says less than f. Without them, a table
//! of the filter sets has 3 % more rules on average (`docs/algorithm.md`). Nothing else in the compiler knows of it.

use maple_wire::{Constraint, Field};

use super::{Checks, IncrementalCompiler, LeafAction, NodeKind, TableBackend, UNMATCHABLE};
use crate::trace::{Fields, Region};
use crate::tree::{LeafId, NodeId};

#[cfg(test)]
mod tests;

/// How many such reads a leaf may have.
const MAX_READS: usize = 4;

impl IncrementalCompiler {
    /// Specialises a leaf that has just come, as often as that pays. `packet` is one of its packets.
    pub(super) fn specialise_if_worthwhile(&mut self, leaf: LeafId, packet: &dyn Fields) {
        let Some(node) = self.tree.leaf_node(leaf) else { return };
        if !self.may_be_specialised(node) {
            return;
        }
        // A leaf that waits for its labels will require the same barrier rules. So the question is asked as if it forwarded.
        let waits = self.node(node).behaviour.action.is_none();
        if waits {
            self.set_action(leaf, LeafAction::Apply(Vec::new()));
        }
        for _ in 0..MAX_READS {
            let Some(read) = self.worthwhile_read(leaf, packet) else { break };
            self.specialise(leaf, read);
        }
        if waits {
            self.set_action(leaf, LeafAction::Controller);
        }
    }

    /// Whether a leaf stands where it can be specialised, and overlaps enough entries that this may pay.
    fn may_be_specialised(&mut self, node: NodeId) -> bool {
        let class = self.node(node).class;
        if class == UNMATCHABLE || !self.entries.is_large() {
            return false;
        }
        if let Some(test) = self.test_of(node) {
            return matches!(*self.node(test).entries.ids(), [id] if self.entries.yields_to_many(id));
        }
        // The yes-side of a test that is about to be complete needs no entry of its own, which it would if this leaf kept less.
        let above = self.classes.above(class);
        if above.is_some_and(|above| !matches!(self.node(above).kind, NodeKind::Value { .. })) {
            return false;
        }
        if let [id] = *self.node(node).entries.ids() {
            return self.entries.yields_to_many(id);
        }
        let region = self.region_of_leaf(node, class);
        match region.stated(&self.target.capabilities).as_deref() {
            Some([all]) if self.node(node).behaviour.action.is_none() => self.entries.overlaps_many(all),
            _ => false,
        }
    }

    /// What a leaf's packets should have in common besides, if anything.
    fn worthwhile_read(&self, leaf: LeafId, packet: &dyn Fields) -> Option<Constraint> {
        let node = self.tree.leaf_node(leaf)?;
        let region = self.region_of_leaf(node, self.node(node).class);
        let test = self.test_of(node);
        let [id] = *self.node(test.unwrap_or(node)).entries.ids() else { return None };
        let value = |field: Field| packet.value(field).filter(|_| packet.is_captured(field));
        let capabilities = &self.target.capabilities;
        // The mask must do for all values, since other packets have other ones.
        let can_be_stated = |read: &Constraint| {
            let is_one = |part: Region| part.stated(capabilities).is_some_and(|matches| matches.len() == 1);
            capabilities.can_mask(read) && region.with(read).is_some_and(is_one)
        };
        self.entries.worthwhile_read(id, test.is_some(), &value, &can_be_stated)
    }

    fn specialise(&mut self, leaf: LeafId, read: Constraint) {
        let Some(node) = self.tree.leaf_node(leaf) else { return };
        let behaviour = std::mem::take(&mut self.node_mut(node).behaviour);
        self.tree.specialise(leaf, read);
        self.apply_edit(behaviour);
        self.entries.recompute(&self.tree, Checks::Now);
    }
}
