//! Changing a tree: a trace comes in (Algorithm 3), a leaf goes out.

use rustc_hash::FxHashMap;

use super::{Branch, LeafId, Node, NodeId, Slot, Tree};
use crate::trace::Item;

/// What came of adding a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Augmented {
    /// The trace ended in unexplored country: the leaf is there now.
    Added,
    /// The tree has this trace: its leaf stands there, the new one was not added.
    Existing(LeafId),
    /// Something else stood where the trace asks this or ends: two runs that saw the same then did different things,
    /// so the policy is not a function of what it observed. The subtree there was replaced by the new trace.
    Replaced {
        /// The leaves of the old subtree, ascending: no longer in the tree.
        removed: Vec<LeafId>,
        /// How many of the trace's items the two agree on.
        depth: usize,
    },
}

impl Tree {
    /// Adds a trace that ends in `leaf`. In a tree for a switch, all traces are lowered alike
    /// ([`crate::Trace::lower`]).
    ///
    /// # Panics
    ///
    /// If `leaf` is in the tree: a leaf has one trace, and its number is never given out again.
    pub fn augment(&mut self, items: &[Item], leaf: LeafId) -> Augmented {
        assert!(!self.contains(leaf), "leaf {} has a trace already", leaf.0);
        let (mut from, mut here) = (None, self.root);
        for (depth, item) in items.iter().enumerate() {
            match here {
                None => return self.extend(from, &items[depth..], leaf),
                Some(node) if !self.asks(node, item) => return self.replace(from, node, items, depth, leaf),
                Some(node) => {
                    let branch = Branch::of(item);
                    here = self.child(node, branch);
                    from = Some((node, branch));
                }
            }
        }
        match here {
            None => self.extend(from, &[], leaf),
            Some(node) => match self.node(node) {
                Node::Leaf(there) => Augmented::Existing(*there),
                _ => self.replace(from, node, items, items.len(), leaf),
            },
        }
    }

    /// Takes a leaf out: its place becomes `Ω`, and nodes that lead to no leaf any more go with it. Returns whether it
    /// was there.
    pub fn remove(&mut self, leaf: LeafId) -> bool {
        let Some(mut at) = self.leaves.remove(&leaf) else { return false };
        loop {
            let parent = self.slot(at).parent;
            self.free.push(at);
            let Some((above, branch)) = parent else {
                self.root = None;
                return true;
            };
            self.unlink(above, branch);
            if !self.is_dead(above) {
                return true;
            }
            at = above;
        }
    }

    /// Hangs the rest of a trace into the unexplored place `from`.
    fn extend(&mut self, from: Option<(NodeId, Branch)>, items: &[Item], leaf: LeafId) -> Augmented {
        let mut from = from;
        for item in items {
            let node = self.insert(from, Node::asking(item));
            from = Some((node, Branch::of(item)));
        }
        let at = self.insert(from, Node::Leaf(leaf));
        self.leaves.insert(leaf, at);
        Augmented::Added
    }

    fn replace(
        &mut self,
        from: Option<(NodeId, Branch)>,
        node: NodeId,
        items: &[Item],
        depth: usize,
        leaf: LeafId,
    ) -> Augmented {
        let removed = self.cut(node);
        self.extend(from, &items[depth..], leaf);
        Augmented::Replaced { removed, depth }
    }

    /// Frees a subtree's nodes, leaving its parent's link as it is, and returns its leaves, ascending.
    fn cut(&mut self, top: NodeId) -> Vec<LeafId> {
        let (mut removed, mut open) = (Vec::new(), vec![top]);
        while let Some(id) = open.pop() {
            open.extend(self.node(id).branches().into_iter().map(|(_, child)| child));
            if let Node::Leaf(leaf) = *self.node(id) {
                self.leaves.remove(&leaf);
                removed.push(leaf);
            }
            self.free.push(id);
        }
        removed.sort_unstable();
        removed
    }

    /// Puts a node under its parent (or at the root), in place of what is linked there.
    fn insert(&mut self, parent: Option<(NodeId, Branch)>, node: Node) -> NodeId {
        let slot = Slot { parent, node };
        let id = match self.free.pop() {
            Some(id) => {
                self.slots[id.0 as usize] = slot;
                id
            }
            None => {
                self.slots.push(slot);
                NodeId(u32::try_from(self.slots.len() - 1).expect("a tree has fewer than 2^32 nodes"))
            }
        };
        match parent {
            None => self.root = Some(id),
            Some((above, branch)) => self.link(above, branch, id),
        }
        id
    }

    fn link(&mut self, parent: NodeId, branch: Branch, child: NodeId) {
        match (&mut self.slots[parent.0 as usize].node, branch) {
            (Node::Value { children, .. }, Branch::Value(value)) => {
                children.insert(value, child);
            }
            (Node::Test { yes, .. }, Branch::Outcome(true)) => *yes = Some(child),
            (Node::Test { no, .. }, Branch::Outcome(false)) => *no = Some(child),
            _ => unreachable!("a branch is of its parent's kind"),
        }
    }

    fn unlink(&mut self, parent: NodeId, branch: Branch) {
        match (&mut self.slots[parent.0 as usize].node, branch) {
            (Node::Value { children, .. }, Branch::Value(value)) => {
                children.remove(&value);
            }
            (Node::Test { yes, .. }, Branch::Outcome(true)) => *yes = None,
            (Node::Test { no, .. }, Branch::Outcome(false)) => *no = None,
            _ => unreachable!("a branch is of its parent's kind"),
        }
    }

    fn child(&self, node: NodeId, branch: Branch) -> Option<NodeId> {
        match (self.node(node), branch) {
            (Node::Value { children, .. }, Branch::Value(value)) => children.get(&value).copied(),
            (Node::Test { yes, .. }, Branch::Outcome(true)) => *yes,
            (Node::Test { no, .. }, Branch::Outcome(false)) => *no,
            _ => unreachable!("a branch is of its parent's kind"),
        }
    }

    /// Whether no leaf can be reached from a node whose children have just changed.
    fn is_dead(&self, node: NodeId) -> bool {
        match self.node(node) {
            Node::Leaf(_) => false,
            Node::Value { children, .. } => children.is_empty(),
            Node::Test { yes, no, .. } => yes.is_none() && no.is_none(),
        }
    }

    /// Whether the node asks what the item answers.
    fn asks(&self, node: NodeId, item: &Item) -> bool {
        match (self.node(node), item) {
            (Node::Value { field, mask, .. }, Item::Read(c)) => *field == c.field && *mask == c.mask,
            (Node::Test { cond, .. }, Item::Test { cond: asked, .. }) => cond == asked,
            _ => false,
        }
    }
}

impl Branch {
    /// The branch that a packet with this item takes.
    fn of(item: &Item) -> Branch {
        match item {
            Item::Read(constraint) => Branch::Value(constraint.value),
            Item::Test { outcome, .. } => Branch::Outcome(*outcome),
        }
    }
}

impl Node {
    /// The node that asks what the item answers, with nothing under it.
    fn asking(item: &Item) -> Node {
        match item {
            Item::Read(c) => Node::Value { field: c.field, mask: c.mask, children: FxHashMap::default() },
            Item::Test { cond, .. } => Node::Test { cond: cond.clone(), yes: None, no: None },
        }
    }
}
