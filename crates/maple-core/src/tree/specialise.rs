//! Leaves that keep a part of their packets only.
//!
//! # What
//!
//! A run that ends says of all packets that pass its trace what to do with them. It may be better to have its answer for
//! some of them only: those that agree with its packet in some more bits. So a read is put in front of the leaf, as if f
//! had made it, with a note that f did not: runs that end there read it too ([`super::Follower::finish`]).
//!
//! # Why it is correct
//!
//! f would do the same had it looked at more of the packet before it gave its answer.

use maple_wire::Constraint;

use super::follow::Note;
use super::{Branch, LeafId, Node, NodeId, Tree};
use crate::trace::Item;

impl Tree {
    /// Has a leaf keep only those of its packets that fit `read`, which its packet must. Of the others nothing is known then.
    pub(crate) fn narrow(&mut self, leaf: LeafId, read: Constraint) {
        let Some(at) = self.leaf_node(leaf) else { return };
        self.begin_edit();
        let mut items = if self.touched.get_mut().is_asked() { self.path(leaf) } else { None };
        items.iter().for_each(|items| self.untouch(items, leaf));
        let place = self.parent(at);
        self.take_out(at, place);
        self.leaves.remove(&leaf);
        self.extend(place, &[Item::Read(read)], leaf);
        self.notes.of_mut(self.edit.added[0]).push(Note::of_narrowing());
        if let Some(items) = &mut items {
            items.push(Item::Read(read));
            self.touch(items, leaf);
        }
    }

    /// Whether a node is a read that f did not make.
    pub(super) fn narrows(&self, node: NodeId) -> bool {
        matches!(self.node(node), Node::Value(_)) && self.notes.of(node).iter().any(Note::is_of_narrowing)
    }

    /// What a leaf's packets have in common beyond what f looked at, in the order of the reads.
    pub(crate) fn narrowing(&self, leaf: LeafId) -> Vec<Constraint> {
        let above = |node: NodeId| {
            let (above, branch) = self.parent(node).filter(|(above, _)| self.narrows(*above))?;
            let (Node::Value(values), Branch::Value(value)) = (self.node(above), branch) else { return None };
            Some((above, Constraint { field: values.field, value, mask: values.mask }))
        };
        let first = self.leaf_node(leaf).and_then(above);
        let mut reads: Vec<_> = std::iter::successors(first, |(node, _)| above(*node)).map(|(_, read)| read).collect();
        reads.reverse();
        reads
    }
}
