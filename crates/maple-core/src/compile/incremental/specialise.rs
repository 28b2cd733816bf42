//! Leaves that are narrowed, so that fewer barriers are needed for them.
//!
//! A wide answer behind hundreds of unexplored tests needs a barrier for each that it overlaps. Its leaf may keep a part of
//! its packets only ([`Tree::specialise`](crate::tree::Tree::specialise)): barriers that have nothing to do with that part are not
//! needed for it, and the other packets have their own leaf when the first of them comes, at the cost of one more miss and
//! one more rule. `entries/specialise.rs` says when that pays.

use maple_wire::{Constraint, Field};

use super::{IncrementalCompiler, Kind, LeafAction, UNMATCHABLE};
use crate::compile::entries::{Checks, EntryId};
use crate::compile::table::TableBackend;
use crate::trace::{Fields, Region};
use crate::tree::{Branch, LeafId, NodeId};

#[cfg(test)]
mod tests;

/// How many such reads a leaf may have at once.
const READS: usize = 4;

impl IncrementalCompiler {
    /// Narrows a leaf that has just come, as often as that pays. `packet` is one of its packets.
    pub(super) fn specialise_if_worthwhile(&mut self, leaf: LeafId, packet: &dyn Fields) {
        let Some(node) = self.tree.leaf_node(leaf) else { return };
        if !self.may_be_narrowed(node) {
            return;
        }
        // One that has to wait for its answer would need the same barriers.
        let waits = self.place(node).does.action.is_none();
        if waits {
            self.set_action(leaf, LeafAction::Apply(Vec::new()));
        }
        for _ in 0..READS {
            let Some(read) = self.narrower(leaf, packet) else { break };
            self.specialise(leaf, read);
        }
        if waits {
            self.set_action(leaf, LeafAction::Controller);
        }
    }

    /// Whether a leaf stands where it can be narrowed, and its packets fit enough entries that it may pay.
    fn may_be_narrowed(&mut self, node: NodeId) -> bool {
        let run = self.place(node).run;
        if run == UNMATCHABLE || !self.entries.are_many() {
            return false;
        }
        if let Some(test) = self.test_of(node) {
            return matches!(*self.place(test).entries.ids(), [entry] if self.entries.is_behind_many(entry));
        }
        // The yes-side of a test that is about to be complete needs no entry of its own, which it would if this were narrowed.
        let above = self.runs[run as usize].above;
        if above.is_some_and(|above| !matches!(self.place(above).kind, Kind::Value { .. })) {
            return false;
        }
        if let [entry] = *self.place(node).entries.ids() {
            return self.entries.is_behind_many(entry);
        }
        let region = self.region_of_leaf(node, run);
        match region.stated(&self.target.capabilities).as_deref() {
            Some([all]) if self.place(node).does.action.is_none() => self.entries.overlap_many(all),
            _ => false,
        }
    }

    /// What a leaf's packets should have in common besides, if anything.
    fn narrower(&self, leaf: LeafId, packet: &dyn Fields) -> Option<Constraint> {
        let node = self.tree.leaf_node(leaf)?;
        let region = self.region_of_leaf(node, self.place(node).run);
        let test = self.test_of(node);
        let entries: &[EntryId] = self.place(test.unwrap_or(node)).entries.ids();
        let [entry] = *entries else { return None };
        let value = |field: Field| packet.value(field).filter(|_| packet.is_captured(field));
        let capabilities = &self.target.capabilities;
        // With this mask, as other packets have other values under it.
        let can_be_told = |read: &Constraint| {
            let is_one = |part: Region| part.stated(capabilities).is_some_and(|matches| matches.len() == 1);
            capabilities.can_mask(read) && region.with(read).is_some_and(is_one)
        };
        self.entries.narrower(entry, test.is_some(), &value, &can_be_told)
    }

    fn specialise(&mut self, leaf: LeafId, read: Constraint) {
        let Some(node) = self.tree.leaf_node(leaf) else { return };
        let does = std::mem::take(&mut self.place_mut(node).does);
        self.tree.specialise(leaf, read);
        self.apply_edit(does);
        self.entries.recompute(&self.tree, Checks::Now);
    }

    /// The test whose yes-side is a leaf.
    fn test_of(&self, leaf: NodeId) -> Option<NodeId> {
        let (above, branch) = self.tree.parent(leaf)?;
        (branch == Branch::Outcome(true) && self.place(above).kind == Kind::Test).then_some(above)
    }
}
