//! Extra reads: reads that f did not make, so that a leaf keeps only a part of its packets.
//!
//! # What
//!
//! A run that ends decides for all packets that pass its trace. It may be better to apply its decision only to those
//! that agree with its packet in some more bits (`compile/incremental/specialise/`). So a read is inserted before the
//! leaf, as if f had made it, with a memo that f did not. Runs that end there read it too ([`super::Replay::finish`]).
//!
//! # Why it is correct
//!
//! f would decide the same if it looked at more of the packet before.

use maple_wire::Constraint;

use super::replay::QuestionMemo;
use super::{LeafId, Node, NodeId, Tree, TreeBranch};
use crate::trace::Item;

impl Tree {
    /// Makes a leaf keep only those of its packets that fit `read`. The packet that made the leaf must fit. The tree
    /// then has no leaf for the others.
    pub(crate) fn insert_extra_read(&mut self, leaf: LeafId, read: Constraint) {
        let Some(at) = self.leaf_node(leaf) else { return };
        self.begin_edit();
        let mut items = if self.value_index.get_mut().is_asked() { self.path(leaf) } else { None };
        items.iter().for_each(|items| self.value_index_remove(items, leaf));
        let place = self.parent(at);
        self.take_out(at, place);
        self.leaves.remove(&leaf);
        self.extend(place, &[Item::Read(read)], leaf);
        self.memos.of_mut(self.edit.added[0]).push(QuestionMemo::of_extra_read());
        if let Some(items) = &mut items {
            items.push(Item::Read(read));
            self.value_index_add(items, leaf);
        }
    }

    /// Reports whether a node is a read that f did not make.
    pub(super) fn is_extra_read(&self, node: NodeId) -> bool {
        matches!(self.node(node), Node::Value(_)) && self.memos.at_node(node).iter().any(QuestionMemo::is_of_extra_read)
    }

    /// Returns the extra reads of a leaf, in their order: what its packets have in common beyond what f looked at.
    pub(crate) fn extra_reads(&self, leaf: LeafId) -> Vec<Constraint> {
        let above = |node: NodeId| {
            let (above, branch) = self.parent(node).filter(|(above, _)| self.is_extra_read(*above))?;
            let (Node::Value(values), TreeBranch::Value(value)) = (self.node(above), branch) else { return None };
            Some((above, Constraint { field: values.field, value, mask: values.mask }))
        };
        let first = self.leaf_node(leaf).and_then(above);
        let mut reads: Vec<_> = std::iter::successors(first, |(node, _)| above(*node)).map(|(_, read)| read).collect();
        reads.reverse();
        reads
    }
}
