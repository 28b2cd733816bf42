//! The trace tree of one switch: all its live traces merged (paper §4.1, Definition 1).
//!
//! # What
//!
//! Four kinds of nodes. A *leaf* (`L`) stands for the policy's decision about all packets that get there. A *value*
//! node (`V`) reads a field under a mask and has a child for each value seen. A *test* node (`T`) asks a condition and
//! has a yes-side and a no-side. *Unexplored* (`Ω`) is the absence of a node: no trace leads there.
//!
//! Nodes live in one arena and name each other by index, with a link to the parent. So a leaf's path to the root is
//! known without a search. No operation recurses: chains of tests may be tens of thousands deep.
//!
//! # Why it is correct
//!
//! A packet that gets from the root to a leaf passes every item of the trace that made the leaf. So the policy would
//! ask the same questions and give the same answer (Theorem 2; see [`crate::trace::Recorder`]). Nodes from which no
//! leaf can be reached are pruned immediately, so `Ω` never stands for a dead branch.
//!
//! # Cost
//!
//! [`Tree::augment`] takes one step for each node on the path, which is a hash look-up in a `V` node of any size.
//! [`Tree::search`] takes one step for all tests of a long chain (`trace/condition_index/`). [`Tree::remove`] and
//! [`Tree::path`] take one step for each node from the leaf up. An invalidation costs little more than the leaves that
//! it finds (`value_index.rs`).
//!
//! A node takes 64 bytes: 24 that look-ups read, 16 for links, 16 for its place in the walk order, 4 for when it was
//! last used, 4 for its memos (`question_memos.rs`). A leaf takes some 20 more to be found by its name, and a child of
//! a large `V` node 11 to 21 (`value_children.rs`). A test shares its condition with the traces that ask it. In a long
//! chain, the condition is also in the chain's index, in what is known after failures, and among the questions that
//! runs ask. [`Tree::bytes`] measures all of this, and [`Tree::least_recently_used`] chooses what to give up
//! (`rarely_used.rs`).
//!
//! # For compilers
//!
//! What an edit did to the nodes is in `Tree::last_edit`. `Tree::rank` says which of two nodes takes precedence.

use std::cell::{Cell, RefCell};
use std::num::NonZeroU32;
use std::sync::Arc;

use maple_wire::Constraint;
use rustc_hash::FxHashMap;

use crate::trace::{Cond, Fields, Item};

mod batch_lookup;
mod chain;
mod chain_questions;
mod edit;
mod extra_reads;
mod list_replay;
mod openings;
mod question_memos;
mod rarely_used;
mod render;
mod replay;
mod value_children;
mod value_index;
mod walk_order;

#[cfg(test)]
mod tests;

use chain::{ChainId, Chains};
use question_memos::QuestionMemos;
use value_index::ValueIndex;
use walk_order::Order;

pub use crate::ids::LeafId;
pub use batch_lookup::MAX_BATCH;
pub use edit::Augmented;
pub(crate) use edit::Edit;
pub(crate) use openings::{Missing, Opening};
pub use replay::{Replay, Replayed};
pub(crate) use value_children::ValueNode;

/// The trace tree of one switch.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// The parts of the nodes that look-ups read; `slots` has the rest.
    nodes: Vec<Node>,
    slots: Vec<Slot>,
    /// The period in which each node was last used, if it is a leaf.
    used: Vec<Cell<u32>>,
    period: Cell<u32>,
    free: Vec<NodeId>,
    root: Option<NodeId>,
    leaves: FxHashMap<LeafId, NodeId>,
    /// The values of those children of `V` nodes whose values do not fit into their slots.
    wide: FxHashMap<NodeId, u128>,
    order: Order,
    chains: Chains,
    value_index: RefCell<ValueIndex>,
    edit: Edit,
    /// The number of edits.
    edits: u64,
    /// Questions that runs asked right before a node, and what became of them.
    memos: QuestionMemos,
}

/// The name of a node within its tree while the node exists. The number of a removed node is reused, though not within
/// the same edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(NonZeroU32);

#[derive(Clone, Debug)]
struct Slot {
    parent: Option<NodeId>,
    /// The chain of a test, if that is long.
    chain: Option<ChainId>,
    /// The value of a child of a `V` node, or 0 if it takes more than 64 bits ([`Tree::wide`]).
    value: u64,
}

/// The position of a node among its parent's children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TreeBranch {
    /// The child of a `V` node for this value.
    Value(u128),
    /// The child of a `T` node for this outcome.
    Outcome(bool),
}

/// The result of one step of a search.
#[derive(Clone, Copy, Debug)]
enum Descent {
    /// The node is a leaf.
    Leaf(LeafId),
    /// The search goes on to this node.
    To(NodeId),
}

/// A node. `None` in place of a child is `Ω`.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// A decision of the policy.
    Leaf(LeafId),
    /// A read of a field under a mask: a child for each value seen.
    Value(Box<ValueNode>),
    /// A test of a condition, with its two sides.
    Test { cond: Arc<Cond>, yes: Option<NodeId>, no: Option<NodeId> },
}

impl NodeId {
    fn at(index: usize) -> NodeId {
        let number = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        NodeId(number.expect("a tree has fewer than 2^32 nodes"))
    }

    /// Returns an index, less than the maximum number of nodes that the tree ever had at the same time.
    pub(crate) fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

impl Tree {
    /// Creates a tree that contains nothing: `Ω`.
    pub fn new() -> Tree {
        Tree::default()
    }

    /// Returns the leaf that the packet gets to; `None` if the tree has none for it (Algorithm 1).
    ///
    /// In long chains of tests it looks at more fields than the walk would, but only at fields whose prerequisites the
    /// packet has been shown to meet. The leaf counts as used.
    pub fn search<P: Fields + ?Sized>(&self, packet: &P) -> Option<LeafId> {
        let mut node = self.root?;
        loop {
            node = match self.step(node, packet)? {
                Descent::Leaf(leaf) => return Some(leaf),
                Descent::To(next) => next,
            }
        }
    }

    /// Moves a packet on from a node. A leaf counts as used.
    #[inline(always)]
    fn step<P: Fields + ?Sized>(&self, node: NodeId, packet: &P) -> Option<Descent> {
        Some(Descent::To(match self.node(node) {
            Node::Leaf(leaf) => {
                self.use_leaf(node);
                return Some(Descent::Leaf(*leaf));
            }
            Node::Value(values) => values.get(packet.value(values.field)?)?,
            Node::Test { cond, yes, no } => match self.slot(node).chain {
                None => if cond.holds(packet) { *yes } else { *no }?,
                Some(chain) => {
                    let (test, outcome) = self.chains.first(chain, packet)?;
                    self.child(test, TreeBranch::Outcome(outcome))?
                }
            },
        }))
    }

    /// Finds what [`Tree::search`] finds, test by test, as its oracle. The leaf does not count as used.
    pub fn walk<P: Fields + ?Sized>(&self, packet: &P) -> Option<LeafId> {
        let mut node = self.root?;
        loop {
            node = match self.node(node) {
                Node::Leaf(leaf) => return Some(*leaf),
                Node::Value(values) => values.get(packet.value(values.field)?)?,
                Node::Test { cond, yes, no } => if cond.holds(packet) { *yes } else { *no }?,
            }
        }
    }

    /// Returns the items on the path from the root to the leaf: its trace. `None` if the leaf is not in the tree.
    pub fn path(&self, leaf: LeafId) -> Option<Vec<Item>> {
        let leaf = *self.leaves.get(&leaf)?;
        Some(self.items_to(self.parent(leaf)))
    }

    /// Returns the items on the path from the root to a branch of a node, or to the root.
    fn items_to(&self, place: Option<(NodeId, TreeBranch)>) -> Vec<Item> {
        let above = |(node, _): &(NodeId, TreeBranch)| self.parent(*node);
        let mut items: Vec<Item> =
            std::iter::successors(place, above).map(|(node, branch)| self.node(node).item(branch)).collect();
        items.reverse();
        items
    }

    /// Reports whether the leaf is in the tree.
    pub fn contains(&self, leaf: LeafId) -> bool {
        self.leaves.contains_key(&leaf)
    }

    /// Returns all leaves, in ascending order.
    pub fn leaves(&self) -> impl Iterator<Item = LeafId> {
        let mut leaves: Vec<LeafId> = self.leaves.keys().copied().collect();
        leaves.sort_unstable();
        leaves.into_iter()
    }

    /// Returns the number of leaves.
    pub fn len(&self) -> usize {
        self.leaves.len()
    }

    /// Reports whether the tree has no leaves.
    pub fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }

    /// Returns a number that changes with each edit.
    pub(crate) fn edits(&self) -> u64 {
        self.edits
    }

    /// Returns the number of nodes, including leaves.
    pub fn nodes(&self) -> usize {
        self.slots.len() - self.free.len() - self.edit.removed.len()
    }

    pub(crate) fn root(&self) -> Option<NodeId> {
        self.root
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// Returns the node of a leaf, if the leaf is in the tree.
    pub(crate) fn leaf_node(&self, leaf: LeafId) -> Option<NodeId> {
        self.leaves.get(&leaf).copied()
    }

    /// Returns the node above, and its branch that leads here. `None` for the root.
    pub(crate) fn parent(&self, id: NodeId) -> Option<(NodeId, TreeBranch)> {
        let slot = self.slot(id);
        let parent = slot.parent?;
        let branch = match self.node(parent) {
            Node::Test { yes, .. } => TreeBranch::Outcome(*yes == Some(id)),
            Node::Value(values) if values.fits_u64() => TreeBranch::Value(u128::from(slot.value)),
            Node::Value(_) => TreeBranch::Value(self.wide[&id]),
            Node::Leaf(_) => unreachable!("a leaf is not a parent"),
        };
        Some((parent, branch))
    }

    /// Returns a number that is smaller for what comes first in the order in which a walk decides. A test comes after
    /// its yes-side and before its no-side, a `V` node before its children. The order of the children of a `V` node
    /// means nothing, because their packets differ.
    ///
    /// The order of two nodes never changes while both exist. Numbers are valid until the next augmentation. Costs a
    /// load.
    pub(crate) fn rank(&self, node: NodeId) -> u64 {
        self.order.label(node)
    }

    fn slot(&self, id: NodeId) -> &Slot {
        &self.slots[id.index()]
    }
}

impl Node {
    /// Returns the children with their branches: values ascending, yes before no.
    fn branches(&self) -> Vec<(TreeBranch, NodeId)> {
        match self {
            Node::Leaf(_) => Vec::new(),
            Node::Value(values) => {
                values.sorted().into_iter().map(|(value, child)| (TreeBranch::Value(value), child)).collect()
            }
            Node::Test { yes, no, .. } => {
                let side = |outcome, child: &Option<NodeId>| child.map(|child| (TreeBranch::Outcome(outcome), child));
                side(true, yes).into_iter().chain(side(false, no)).collect()
            }
        }
    }

    /// Returns the trace item that leads from this node into a branch.
    fn item(&self, branch: TreeBranch) -> Item {
        match (self, branch) {
            (Node::Value(values), TreeBranch::Value(value)) => {
                Item::Read(Constraint { field: values.field, value, mask: values.mask })
            }
            (Node::Test { cond, .. }, TreeBranch::Outcome(outcome)) => Item::Test { cond: cond.clone(), outcome },
            _ => unreachable!("a branch is of its parent's kind"),
        }
    }
}
