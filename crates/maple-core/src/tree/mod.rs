//! The trace tree of one switch: all its live traces merged (paper §4.1, Definition 1).
//!
//! # What
//!
//! Four kinds of nodes. A *leaf* (`L`) stands for the policy's answer to all packets that get there. A *value* node
//! (`V`) reads a field under a mask and has a child for each value seen. A *test* node (`T`) asks a condition and has
//! a yes-side and a no-side. *Unexplored* (`Ω`) is the absence of a node: no trace has been there.
//!
//! Nodes live in one arena and name each other by index, with a link to the parent. So a leaf's way to the root is
//! known without a search, and no operation recurses: chains of tests may be tens of thousands deep.
//!
//! # Why it is correct
//!
//! A packet that gets from the root to a leaf passes every item of the trace that made the leaf, so the policy would
//! ask the same questions and give the same answer (Theorem 2; see [`crate::trace::Recorder`]). Nodes from which no
//! leaf can be reached are pruned at once, so `Ω` is never a stand-in for a dead branch.
//!
//! # Cost
//!
//! [`Tree::search`] and [`Tree::augment`] take one step a node on the way, a hash look-up in a `V` node of any size.
//! [`Tree::remove`] and [`Tree::path`] take one step a node from the leaf up.

use std::sync::Arc;

use maple_wire::Field;
use rustc_hash::FxHashMap;

use crate::trace::{Cond, Fields, Item};

mod edit;
mod render;

pub use edit::Augmented;

/// Names a leaf, for good: 40 bits, of which the upper 8 name a shard and the lower 32 count its leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeafId(pub u64);

/// The trace tree of one switch.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    slots: Vec<Slot>,
    free: Vec<NodeId>,
    root: Option<NodeId>,
    leaves: FxHashMap<LeafId, NodeId>,
}

/// Names a node within its tree while it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(u32);

#[derive(Clone, Debug)]
struct Slot {
    parent: Option<(NodeId, Branch)>,
    node: Node,
}

/// Which child of its parent a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Branch {
    /// The child of a `V` node for this value.
    Value(u128),
    /// The child of a `T` node for this outcome.
    Outcome(bool),
}

/// A node. `None` in place of a child is `Ω`.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// The policy's answer.
    Leaf(LeafId),
    /// A read of a field under a mask: a child for each value seen.
    Value { field: Field, mask: u128, children: FxHashMap<u128, NodeId> },
    /// A test.
    Test { cond: Arc<Cond>, yes: Option<NodeId>, no: Option<NodeId> },
}

impl Tree {
    /// The tree that knows nothing: `Ω`.
    pub fn new() -> Tree {
        Tree::default()
    }

    /// The leaf that the packet gets to, or `None` where the tree does not know (Algorithm 1).
    pub fn search<P: Fields + ?Sized>(&self, packet: &P) -> Option<LeafId> {
        let mut at = self.root?;
        loop {
            at = match self.node(at) {
                Node::Leaf(leaf) => return Some(*leaf),
                Node::Value { field, mask, children } => *children.get(&(packet.value(*field)? & mask))?,
                Node::Test { cond, yes, no } => if cond.holds(packet) { *yes } else { *no }?,
            }
        }
    }

    /// The items on the way from the root to the leaf: its trace. `None` where the leaf is not in the tree.
    pub fn path(&self, leaf: LeafId) -> Option<Vec<Item>> {
        let mut at = *self.leaves.get(&leaf)?;
        let mut items = Vec::new();
        while let Some((parent, branch)) = self.slot(at).parent {
            items.push(self.node(parent).item(branch));
            at = parent;
        }
        items.reverse();
        Some(items)
    }

    /// Whether the leaf is in the tree.
    pub fn contains(&self, leaf: LeafId) -> bool {
        self.leaves.contains_key(&leaf)
    }

    /// All leaves, in ascending order.
    pub fn leaves(&self) -> impl Iterator<Item = LeafId> {
        let mut leaves: Vec<LeafId> = self.leaves.keys().copied().collect();
        leaves.sort_unstable();
        leaves.into_iter()
    }

    /// How many leaves there are.
    pub fn len(&self) -> usize {
        self.leaves.len()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }

    /// How many nodes there are, leaves included.
    pub fn nodes(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn root(&self) -> Option<NodeId> {
        self.root
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.slot(id).node
    }

    fn slot(&self, id: NodeId) -> &Slot {
        &self.slots[id.0 as usize]
    }
}

impl Node {
    /// The children with what leads to them: values ascending, yes before no.
    fn branches(&self) -> Vec<(Branch, NodeId)> {
        match self {
            Node::Leaf(_) => Vec::new(),
            Node::Value { children, .. } => {
                sorted(children).into_iter().map(|(value, child)| (Branch::Value(value), child)).collect()
            }
            Node::Test { yes, no, .. } => {
                let side = |outcome, child: &Option<NodeId>| child.map(|child| (Branch::Outcome(outcome), child));
                side(true, yes).into_iter().chain(side(false, no)).collect()
            }
        }
    }

    /// The trace item that leads from this node into a branch.
    fn item(&self, branch: Branch) -> Item {
        match (self, branch) {
            (Node::Value { field, mask, .. }, Branch::Value(value)) => {
                Item::Read(maple_wire::Constraint { field: *field, value, mask: *mask })
            }
            (Node::Test { cond, .. }, Branch::Outcome(outcome)) => Item::Test { cond: cond.clone(), outcome },
            _ => unreachable!("a branch is of its parent's kind"),
        }
    }
}

/// A `V` node's children with ascending values.
pub(crate) fn sorted(children: &FxHashMap<u128, NodeId>) -> Vec<(u128, NodeId)> {
    let mut sorted: Vec<_> = children.iter().map(|(value, child)| (*value, *child)).collect();
    sorted.sort_unstable();
    sorted
}
