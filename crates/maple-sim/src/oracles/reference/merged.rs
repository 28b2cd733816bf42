//! The traces of a tree, merged once more in the simplest way.

use std::collections::BTreeMap;
use std::sync::Arc;

use maple_core::trace::{Cond, Item};
use maple_core::tree::{LeafId, Tree};
use maple_wire::Field;

/// A node, by its index.
pub(super) type NodeId = usize;

/// A node. `None` in place of a child means that no trace leads there.
pub(super) enum Node {
    /// A decision of the policy.
    Leaf(LeafId),
    /// A read of a field under a mask: a child for each value seen.
    Value { field: Field, mask: u128, children: BTreeMap<u128, Option<NodeId>> },
    /// A test of a condition, with its two sides.
    Test { cond: Arc<Cond>, yes: Option<NodeId>, no: Option<NodeId> },
}

/// The merged traces.
#[derive(Default)]
pub(super) struct Merged {
    nodes: Vec<Node>,
    root: Option<NodeId>,
}

impl Merged {
    /// Merges the traces of a tree's leaves.
    pub(super) fn from_tree(tree: &Tree) -> Merged {
        let mut merged = Merged::default();
        for leaf in tree.leaves() {
            merged.add(&tree.path(leaf).expect("a leaf of the tree has a path"), leaf);
        }
        merged
    }

    /// Returns the root, unless there is no trace.
    pub(super) fn root(&self) -> Option<NodeId> {
        self.root
    }

    /// Returns the node with this id.
    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    fn add(&mut self, items: &[Item], leaf: LeafId) {
        let mut above: Option<(NodeId, &Item)> = None;
        for item in items {
            let node = match *self.child(above) {
                Some(node) => node,
                None => self.grow(above, Node::asking(item)),
            };
            above = Some((node, item));
        }
        assert!(self.child(above).is_none(), "{leaf:?} and another leaf have the same trace");
        self.grow(above, Node::Leaf(leaf));
    }

    /// Returns the child to which an item leads from its node, or the root.
    fn child(&mut self, above: Option<(NodeId, &Item)>) -> &mut Option<NodeId> {
        let Some((node, item)) = above else { return &mut self.root };
        match (&mut self.nodes[node], item) {
            (Node::Value { children, .. }, Item::Read(read)) => children.entry(read.value).or_default(),
            (Node::Test { yes, .. }, Item::Test { outcome: true, .. }) => yes,
            (Node::Test { no, .. }, Item::Test { outcome: false, .. }) => no,
            _ => panic!("two traces with the same answers ask different questions"),
        }
    }

    /// Adds a node as the child to which an item leads.
    fn grow(&mut self, above: Option<(NodeId, &Item)>, node: Node) -> NodeId {
        let id = self.nodes.len();
        self.nodes.push(node);
        *self.child(above) = Some(id);
        id
    }
}

impl Node {
    /// Creates the node that asks an item's question, without children.
    fn asking(item: &Item) -> Node {
        match item {
            Item::Read(read) => Node::Value { field: read.field, mask: read.mask, children: BTreeMap::new() },
            Item::Test { cond, .. } => Node::Test { cond: Arc::clone(cond), yes: None, no: None },
        }
    }
}
