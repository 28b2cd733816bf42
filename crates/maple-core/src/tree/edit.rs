//! Edits of a tree: a trace is added (Algorithm 3), or a leaf is removed.

use std::cell::Cell;

use maple_prefetch::prefetch;

use super::walk_order::InsertionPoint;
use super::{LeafId, Node, NodeId, Slot, Tree, TreeBranch, ValueNode};
use crate::trace::Item;

/// The result of adding a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Augmented {
    /// The trace ended where the tree was unexplored, and the leaf was added there.
    Added,
    /// The tree already has this trace, with this leaf. The new leaf was not added.
    Existing(LeafId),
    /// The tree has something else where the trace asks or ends. So two runs that saw the same then did different
    /// things: the policy is not a function of what it observed. The new trace replaced the subtree there.
    Replaced {
        /// The leaves of the old subtree, ascending. They have been removed from the tree.
        removed: Vec<LeafId>,
        /// The number of the trace's items on which the two agree.
        depth: usize,
    },
}

/// The effect on the nodes of one call of [`Tree::augment`], [`Tree::remove`] or [`Tree::insert_extra_read`]. At one
/// place of the tree, the call removed what was there (perhaps nothing), and then inserted a row of new nodes (perhaps
/// none).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edit {
    /// The node and the branch under which the edit happened; `None` at the root.
    pub(crate) place: Option<(NodeId, TreeBranch)>,
    /// The removed nodes, each before the one above it. What [`Tree::node`] says of them stays true until the next
    /// edit, except for their links to each other.
    pub(crate) removed: Vec<NodeId>,
    /// The new nodes. The first one is at `place`, each other one is the only child of the one before, and the last is
    /// the leaf.
    pub(crate) added: Vec<NodeId>,
}

impl Edit {
    /// Makes this a copy of another edit.
    pub(crate) fn copy(&mut self, other: &Edit) {
        self.place = other.place;
        self.removed.clone_from(&other.removed);
        self.added.clone_from(&other.added);
    }
}

impl Tree {
    /// Adds a trace that ends in `leaf`. In a tree for a switch, all traces are lowered in the same way
    /// ([`crate::Trace::lower`]).
    ///
    /// # Panics
    ///
    /// If `leaf` is in the tree: a leaf has one trace, and its number is never reused.
    pub fn augment(&mut self, items: &[Item], leaf: LeafId) -> Augmented {
        assert!(!self.contains(leaf), "leaf {} has a trace already", leaf.0);
        self.begin_edit();
        let outcome = self.put(items, leaf);
        if !matches!(outcome, Augmented::Existing(_)) {
            self.value_index_add(items, leaf);
        }
        outcome
    }

    fn put(&mut self, items: &[Item], leaf: LeafId) -> Augmented {
        let (mut from, mut here) = (None, self.root);
        for (depth, item) in items.iter().enumerate() {
            match here {
                None => return self.put_at(from, here, &items[depth..], depth, leaf),
                Some(node) if !self.asks(node, item) => {
                    return self.put_at(from, here, &items[depth..], depth, leaf);
                }
                Some(node) => {
                    let branch = TreeBranch::taken_by(item);
                    here = self.child(node, branch);
                    from = Some((node, branch));
                }
            }
        }
        self.put_at(from, here, &[], items.len(), leaf)
    }

    /// Inserts the rest of a trace under `from`. The first `depth` items of the trace lead to `here`.
    pub(super) fn put_at(
        &mut self,
        from: Option<(NodeId, TreeBranch)>,
        here: Option<NodeId>,
        rest: &[Item],
        depth: usize,
        leaf: LeafId,
    ) -> Augmented {
        match here.map(|node| (node, self.node(node))) {
            None => self.extend(from, rest, leaf),
            Some((_, Node::Leaf(there))) if rest.is_empty() => Augmented::Existing(*there),
            Some((node, _)) => self.replace(from, node, rest, depth, leaf),
        }
    }

    /// Removes a leaf. Its place becomes `Ω`, and nodes that then lead to no leaf are removed too. Returns whether the
    /// leaf was there.
    pub fn remove(&mut self, leaf: LeafId) -> bool {
        self.begin_edit();
        let Some(mut node) = self.leaves.remove(&leaf) else {
            return false;
        };
        loop {
            let parent = self.parent(node);
            self.discard(node);
            self.edit.place = parent;
            let Some((above, branch)) = parent else {
                self.root = None;
                return true;
            };
            self.unlink(above, branch);
            if !self.is_dead(above) {
                return true;
            }
            node = above;
        }
    }

    /// Collects in `nodes` the nodes of these leaves, as far as they exist. Prefetches what [`Tree::remove`] reads of
    /// them, so that several leaves wait for memory together.
    pub(crate) fn prefetch_removal(&self, leaves: &[LeafId], nodes: &mut Vec<NodeId>) {
        nodes.clear();
        nodes.extend(leaves.iter().filter_map(|leaf| self.leaves.get(leaf)));
        for node in &*nodes {
            prefetch(self.slot(*node));
            self.order.prefetch(*node);
        }
        nodes.iter().for_each(|node| self.order.prefetch_around(*node));
        for (above, branch) in nodes.iter().filter_map(|node| self.parent(*node)) {
            if let (Node::Value(values), TreeBranch::Value(value)) = (self.node(above), branch) {
                values.prefetch_child(|| value);
            }
        }
    }

    /// Returns the effect of the last call of [`Tree::augment`], [`Tree::remove`] or [`Tree::insert_extra_read`]. It is
    /// empty if the trace was already there, or the leaf was not.
    pub(crate) fn last_edit(&self) -> &Edit {
        &self.edit
    }

    /// Begins another edit: the numbers of nodes that the last one removed become free.
    pub(super) fn begin_edit(&mut self) {
        self.edits += 1;
        self.free.append(&mut self.edit.removed);
        self.edit.added.clear();
        self.edit.place = None;
    }

    /// Adds the rest of a trace at the unexplored place `from`.
    pub(super) fn extend(&mut self, from: Option<(NodeId, TreeBranch)>, items: &[Item], leaf: LeafId) -> Augmented {
        self.edit.place = from;
        let mut from = from;
        for item in items {
            let node = self.insert(from, Node::asking(item));
            from = Some((node, TreeBranch::taken_by(item)));
        }
        let node = self.insert(from, Node::Leaf(leaf));
        self.leaves.insert(leaf, node);
        self.use_leaf(node);
        Augmented::Added
    }

    fn replace(
        &mut self,
        from: Option<(NodeId, TreeBranch)>,
        node: NodeId,
        rest: &[Item],
        depth: usize,
        leaf: LeafId,
    ) -> Augmented {
        let removed = self.cut(node);
        self.vacate(from);
        self.extend(from, rest, leaf);
        Augmented::Replaced { removed, depth }
    }

    /// Removes a node at this place, below which there is nothing.
    pub(super) fn take_out(&mut self, node: NodeId, place: Option<(NodeId, TreeBranch)>) {
        self.discard(node);
        self.vacate(place);
    }

    /// Makes a place unexplored.
    fn vacate(&mut self, place: Option<(NodeId, TreeBranch)>) {
        match place {
            None => self.root = None,
            Some((above, branch)) => self.unlink(above, branch),
        }
    }

    /// Discards a subtree's nodes, but leaves its parent's link as it is. Returns its leaves, ascending.
    fn cut(&mut self, top: NodeId) -> Vec<LeafId> {
        let (mut removed, mut open, mut gone) = (Vec::new(), vec![top], Vec::new());
        while let Some(id) = open.pop() {
            open.extend(self.node(id).branches().into_iter().map(|(_, child)| child));
            if let Node::Leaf(leaf) = *self.node(id) {
                self.leaves.remove(&leaf);
                removed.push(leaf);
            }
            gone.push(id);
        }
        gone.into_iter().rev().for_each(|id| self.discard(id));
        removed.sort_unstable();
        removed
    }

    /// Discards a node below which nothing is left. Its number becomes free with the next edit.
    fn discard(&mut self, id: NodeId) {
        self.leave_chain(id);
        self.order.remove(id);
        if !self.wide.is_empty() {
            self.wide.remove(&id);
        }
        self.memos.forget(id);
        self.edit.removed.push(id);
    }

    /// Inserts a node at an unexplored place.
    fn insert(&mut self, place: Option<(NodeId, TreeBranch)>, node: Node) -> NodeId {
        let value = match place {
            Some((_, TreeBranch::Value(value))) => value,
            _ => 0,
        };
        let (parent, value) = (place.map(|(above, _)| above), u64::try_from(value).unwrap_or(0));
        let is_test = matches!(node, Node::Test { .. });
        let slot = Slot { parent, chain: None, value };
        let id = match self.free.pop() {
            Some(id) => {
                self.slots[id.index()] = slot;
                self.nodes[id.index()] = node;
                id
            }
            None => {
                self.slots.push(slot);
                self.used.push(Cell::new(0));
                self.memos.add();
                self.nodes.push(node);
                NodeId::at(self.slots.len() - 1)
            }
        };
        match place {
            None => self.root = Some(id),
            Some((above, branch)) => self.link(above, branch, id),
        }
        self.order.insert(id, InsertionPoint::from_parent(place));
        if is_test {
            self.enter_chain(id);
        }
        self.edit.added.push(id);
        id
    }

    fn link(&mut self, parent: NodeId, branch: TreeBranch, child: NodeId) {
        match (&mut self.nodes[parent.index()], branch) {
            (Node::Value(values), TreeBranch::Value(value)) => {
                values.insert(value, child);
                if !values.fits_u64() {
                    self.wide.insert(child, value);
                }
            }
            (Node::Test { yes, .. }, TreeBranch::Outcome(true)) => *yes = Some(child),
            (Node::Test { no, .. }, TreeBranch::Outcome(false)) => *no = Some(child),
            _ => unreachable!("a branch is of its parent's kind"),
        }
    }

    fn unlink(&mut self, parent: NodeId, branch: TreeBranch) {
        match (&mut self.nodes[parent.index()], branch) {
            (Node::Value(values), TreeBranch::Value(value)) => values.remove(value),
            (Node::Test { yes, .. }, TreeBranch::Outcome(true)) => *yes = None,
            (Node::Test { no, .. }, TreeBranch::Outcome(false)) => *no = None,
            _ => unreachable!("a branch is of its parent's kind"),
        }
    }

    /// Returns the child of a node on this branch.
    pub(super) fn child(&self, node: NodeId, branch: TreeBranch) -> Option<NodeId> {
        match (self.node(node), branch) {
            (Node::Value(values), TreeBranch::Value(value)) => values.get(value),
            (Node::Test { yes, .. }, TreeBranch::Outcome(true)) => *yes,
            (Node::Test { no, .. }, TreeBranch::Outcome(false)) => *no,
            _ => unreachable!("a branch is of its parent's kind"),
        }
    }

    /// Reports whether no leaf can be reached from a node whose children have just changed.
    fn is_dead(&self, node: NodeId) -> bool {
        match self.node(node) {
            Node::Leaf(_) => false,
            Node::Value(values) => values.len() == 0,
            Node::Test { yes, no, .. } => yes.is_none() && no.is_none(),
        }
    }

    /// Reports whether the node asks for what the item answers.
    pub(super) fn asks(&self, node: NodeId, item: &Item) -> bool {
        match (self.node(node), item) {
            (Node::Value(values), Item::Read(c)) => values.field == c.field && values.mask == c.mask,
            (Node::Test { cond, .. }, Item::Test { cond: asked, .. }) => cond == asked,
            _ => false,
        }
    }
}

impl TreeBranch {
    /// Returns the branch that a packet with this item takes.
    pub(super) fn taken_by(item: &Item) -> TreeBranch {
        match item {
            Item::Read(constraint) => TreeBranch::Value(constraint.value),
            Item::Test { outcome, .. } => TreeBranch::Outcome(*outcome),
        }
    }
}

impl InsertionPoint {
    /// Returns the position in walk order of a node at an unexplored place.
    fn from_parent(place: Option<(NodeId, TreeBranch)>) -> InsertionPoint {
        match place {
            None => InsertionPoint::Alone,
            Some((test, TreeBranch::Outcome(true))) => InsertionPoint::Before(test),
            Some((above, TreeBranch::Outcome(false))) => InsertionPoint::After(above),
            Some((above, TreeBranch::Value(_))) => InsertionPoint::First(above),
        }
    }
}

impl Node {
    /// Creates the node that asks for what the item answers, without children.
    fn asking(item: &Item) -> Node {
        match item {
            Item::Read(c) => Node::Value(Box::new(ValueNode::new(c.field, c.mask))),
            Item::Test { cond, .. } => Node::Test { cond: cond.clone(), yes: None, no: None },
        }
    }
}
