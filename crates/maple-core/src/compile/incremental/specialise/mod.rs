//! Leaf specialisation: a leaf keeps only a part of its packets, so that fewer barrier rules are required.
//!
//! # What
//!
//! This pass is optional: without it the table is right, but has more rules. A wide forwarding entry after hundreds of
//! unexplored tests requires a barrier rule for each test that it overlaps. Its leaf may keep only a part of its
//! packets ([`Tree::insert_extra_read`](crate::tree::Tree::insert_extra_read)). Barrier entries that have nothing to do
//! with that part are not required because of it. The other packets get a leaf of their own when the first of them
//! comes, at the cost of one more miss and one more rule. `entries/barrier_savings.rs` says when that pays.
//!
//! # Price
//!
//! The price is this file, `entries/barrier_savings.rs` and `tree/extra_reads.rs`, and leaves that decide fewer packets
//! than f did. `docs/results/rules.md` says how many rules it saves. No other part of the compiler knows about it.

use maple_wire::{Constraint, Field};

use super::{Checks, IncrementalCompiler, LeafAction, NodeKind, TableBackend, UNMATCHABLE};
use crate::capabilities::Capabilities;
use crate::trace::{Fields, Region};
use crate::tree::{LeafId, NodeId};

#[cfg(test)]
mod tests;

/// The maximum number of reads that specialise a leaf. Chosen: each read splits off packets that then need a miss and a
/// rule of their own, and after a few of them the leaf is left with little.
const MAX_READS: usize = 4;

impl IncrementalCompiler {
    /// Specialises a new leaf, as often as that pays. `packet` is one of its packets.
    pub(super) fn specialise_as_worthwhile(&mut self, leaf: LeafId, packet: &dyn Fields) {
        let Some(node) = self.tree.leaf_node(leaf) else { return };
        if !self.may_be_specialised(node) {
            return;
        }
        // A leaf that waits for its labels will require the same barrier rules. So the question is asked as if it
        // forwarded.
        let waits = self.node(node).behaviour.action.is_none();
        if waits {
            self.set_action(leaf, LeafAction::Apply(Vec::new()));
        }
        for _ in 0..MAX_READS {
            let Some(read) = self.worthwhile_read(leaf, packet) else { break };
            self.specialise_by(leaf, read);
        }
        if waits {
            self.set_action(leaf, LeafAction::Controller);
        }
    }

    /// Reports whether a leaf is at a place where it can be specialised, and overlaps enough entries for that to pay.
    fn may_be_specialised(&mut self, node: NodeId) -> bool {
        let class = self.node(node).class;
        if class == UNMATCHABLE || !self.entries.is_large() {
            return false;
        }
        if let Some(test) = self.test_of(node) {
            return matches!(*self.node(test).entries.ids(), [id] if self.entries.yields_to_many(id));
        }
        // The yes-side of a test that is about to be complete needs no entry of its own. It would need one if this leaf
        // kept less.
        let above = self.classes.above(class);
        if above.is_some_and(|above| !matches!(self.node(above).kind, NodeKind::Value { .. })) {
            return false;
        }
        if let [id] = *self.node(node).entries.ids() {
            return self.entries.yields_to_many(id);
        }
        let region = self.region_of_leaf(node, class);
        match region.stated_matches(&self.target.capabilities).as_deref() {
            Some([all]) if self.node(node).behaviour.action.is_none() => self.entries.overlaps_many(all),
            _ => false,
        }
    }

    /// Finds a read by which specialising a leaf pays, if there is one.
    fn worthwhile_read(&self, leaf: LeafId, packet: &dyn Fields) -> Option<Constraint> {
        let node = self.tree.leaf_node(leaf)?;
        let region = self.region_of_leaf(node, self.node(node).class);
        let test = self.test_of(node);
        let [id] = *self.node(test.unwrap_or(node)).entries.ids() else { return None };
        let value = |field: Field| packet.value(field).filter(|_| packet.is_captured(field));
        let capabilities = &self.target.capabilities;
        let is_statable = |read: &Constraint| can_be_stated(&region, read, capabilities);
        self.entries.find_saving_read(id, test.is_some(), &value, &is_statable)
    }

    /// Makes a leaf keep only the packets that fit this read, if a match can state that.
    pub(super) fn specialise_by_if_stated(&mut self, leaf: LeafId, read: Constraint) {
        let Some(node) = self.tree.leaf_node(leaf) else { return };
        let class = self.node(node).class;
        let capabilities = &self.target.capabilities;
        if class != UNMATCHABLE && can_be_stated(&self.region_of_leaf(node, class), &read, capabilities) {
            self.specialise_by(leaf, read);
        }
    }

    /// Makes a leaf keep only the packets that fit this read.
    pub(super) fn specialise_by(&mut self, leaf: LeafId, read: Constraint) {
        let Some(node) = self.tree.leaf_node(leaf) else { return };
        let behaviour = std::mem::take(&mut self.node_mut(node).behaviour);
        self.tree.insert_extra_read(leaf, read);
        self.apply_edit(behaviour);
        self.recompute(Checks::Now);
    }
}

/// Reports whether one match states the part of a region that fits a read. The mask must work for all values, because
/// other packets have other values.
fn can_be_stated(region: &Region, read: &Constraint, capabilities: &Capabilities) -> bool {
    let is_one = |part: Region| part.stated_matches(capabilities).is_some_and(|matches| matches.len() == 1);
    capabilities.can_mask(read) && region.with(read).is_some_and(is_one)
}
