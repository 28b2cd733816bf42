//! The places of a tree that no run has reached yet, for [exploration](crate::engine).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{LeafId, Node, NodeId, Tree};
use crate::trace::{Cond, Item};
use maple_wire::Field;

/// The maximum number of values of a field that are collected from a tree. Chosen: each is tried at each place that
/// reads the field, and costs a run.
const MAX_VALUES: usize = 16;

/// A node of which not all branches are known to be there.
#[derive(Clone, Debug)]
pub(crate) struct Opening {
    /// The node.
    pub node: NodeId,
    /// The child that is missing below it.
    pub missing: Missing,
}

/// The branches that a node lacks.
#[derive(Clone, Debug)]
pub(crate) enum Missing {
    /// The side of a test for this outcome.
    Side(Arc<Cond>, bool),
    /// Values of a field under a mask, other than these, which are in ascending order.
    ValuesBeside(Field, u128, Vec<u128>),
}

impl Tree {
    /// Returns the tests that lack a side, and all reads, since a read may lack values; from the root downwards. Tests
    /// of long chains are left out: these are the entries of lists.
    pub(crate) fn openings(&self) -> impl Iterator<Item = Opening> + '_ {
        let mut below: Vec<NodeId> = self.root().into_iter().collect();
        std::iter::from_fn(move || {
            loop {
                let node = below.pop()?;
                let branches = self.node(node).branches();
                below.extend(branches.iter().rev().map(|(_, child)| *child));
                let missing = match self.node(node) {
                    Node::Leaf(_) => continue,
                    Node::Test { yes: Some(_), no: Some(_), .. } => continue,
                    Node::Test { .. } if self.slot(node).chain.is_some() => continue,
                    Node::Test { cond, yes, .. } => Missing::Side(Arc::clone(cond), yes.is_none()),
                    Node::Value(values) => {
                        let present = values.sorted().into_iter().map(|(value, _)| value).collect();
                        Missing::ValuesBeside(values.field, values.mask, present)
                    }
                };
                return Some(Opening { node, missing });
            }
        })
    }

    /// Reports whether tests of long chains lack a side.
    pub(crate) fn has_open_chains(&self) -> bool {
        let mut below: Vec<NodeId> = self.root().into_iter().collect();
        while let Some(node) = below.pop() {
            let is_open = matches!(self.node(node), Node::Test { yes, no, .. } if yes.is_none() || no.is_none());
            if is_open && self.slot(node).chain.is_some() {
                return true;
            }
            below.extend(self.node(node).branches().into_iter().map(|(_, child)| child));
        }
        false
    }

    /// Returns the items that lead from the root to a node.
    pub(crate) fn items_before(&self, node: NodeId) -> Vec<Item> {
        self.items_to(self.parent(node))
    }

    /// Returns a leaf below a node.
    pub(crate) fn leaf_below(&self, mut node: NodeId) -> Option<LeafId> {
        loop {
            match self.node(node) {
                Node::Leaf(leaf) => return Some(*leaf),
                other => node = other.branches().first()?.1,
            }
        }
    }

    /// Returns the values that each field has in reads anywhere in the tree, by field and mask, at most a few.
    pub(crate) fn values_read(&self) -> BTreeMap<(Field, u128), BTreeSet<u128>> {
        let mut all: BTreeMap<(Field, u128), BTreeSet<u128>> = BTreeMap::new();
        for opening in self.openings() {
            if let Missing::ValuesBeside(field, mask, present) = opening.missing {
                let values = all.entry((field, mask)).or_default();
                let room = MAX_VALUES.saturating_sub(values.len());
                values.extend(present.into_iter().take(room));
            }
        }
        all
    }
}
