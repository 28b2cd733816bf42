//! Completeness and priorities, kept true after each edit (§4.3, §4.4).
//!
//! # The invariant between edits
//!
//! For each test `t` with a positive match, and each rule `r` from its negative branch that overlaps that match:
//! `priority(r) < priority(t)`. The barrier of `t` has `priority(t)`. Everything in the positive branch has at least
//! `positive_base(t)`: `priority(t)`, and one more where there is a barrier (the weight of the edge to `t_+`).
//! Priorities only rise, until [`Graph::renumber`].
//!
//! # How edits keep it
//!
//! A rule that is new or has risen raises the tests above it ([`Graph::raise_above`], the up-edges). [`Graph::settle`]
//! goes from the edit to the root. If a test's priority was raised, or its barrier comes or goes, it moves the barrier
//! and the positive branch ([`Graph::lift`]). `lift` walks the branch in order, the negative side first, so that each
//! test's priority is final when its own barrier and positive side are given theirs. Subtrees that are already high
//! enough are not walked.

use maple_core::compile::LeafAction;
use maple_core::tree::LeafId;

use super::graph::{Branch, Graph, Kind, Node, NodeId, Question};

/// A step of [`Graph::lift`]. The last task in the list is done first.
enum Task {
    /// Give a subtree at least this base.
    Lift(NodeId, u32),
    /// The negative side of a test is done.
    AfterNegative(NodeId),
}

impl Graph {
    /// Builds the rules of a new trace, whose leaf is `leaf` and which attaches at `place`.
    pub(super) fn build(&mut self, place: Option<(NodeId, Branch)>, leaf: NodeId) {
        // The path goes from the leaf up to the node where it attaches. It has nothing but the trace, so only
        // completeness counts.
        let mut path = vec![leaf];
        self.node_mut(leaf).complete = self.leaf_is_complete(leaf);
        while let Some((above, branch)) = self.node(path[path.len() - 1]).parent
            && Some((above, branch)) != place
        {
            let child_complete = self.node(path[path.len() - 1]).complete;
            self.count_child(above, false, child_complete);
            self.node_mut(above).complete = self.is_complete(above);
            path.push(above);
        }
        let top = path[path.len() - 1];
        let base = self.base_at(place, self.node(top).complete);
        for node in &path {
            self.node_mut(*node).base = base;
            if let Kind::Test(test) = &mut self.node_mut(*node).kind {
                test.priority = base;
            }
        }
        self.raise_above(leaf);
        for node in &path[1..] {
            self.mind_test(*node);
        }
        self.settle(place, false, self.node(top).complete);
    }

    /// Gives a leaf another action.
    pub(super) fn set_action(&mut self, leaf: LeafId, action: LeafAction) {
        let Some(&at) = self.leaves.get(&leaf) else { return };
        self.touch(at);
        let (parent, was_complete) = (self.node(at).parent, self.node(at).complete);
        let Kind::Leaf { action: there, .. } = &mut self.node_mut(at).kind else { unreachable!("a leaf is a leaf") };
        let had_rule = *there != LeafAction::Controller;
        *there = action;
        let complete = self.leaf_is_complete(at);
        self.node_mut(at).complete = complete;
        if !had_rule {
            // The base is that of a new trace, so that the leaf's rule replaces the barrier rule that stood for it.
            self.node_mut(at).base = self.base_at(parent, complete);
        }
        self.raise_above(at);
        self.settle(parent, was_complete, complete);
        self.fit();
    }

    /// Assigns to all nodes the least priorities that the order graph allows (Algorithm 5).
    pub(super) fn renumber(&mut self) {
        let ids: Vec<NodeId> = self.ids().collect();
        ids.iter().for_each(|id| self.touch(*id));
        self.highest = 0;
        let Some(root) = self.root else { return };
        for id in ids {
            // No base is set, so `lift` walks every node.
            let node = self.node_mut(id);
            node.base = u32::MAX;
            if let Kind::Test(test) = &mut node.kind {
                (test.priority, test.raised) = (0, true);
            }
        }
        self.lift(root, 0);
    }

    /// Returns the base of a node that attaches at `place`, given whether it is complete then.
    fn base_at(&self, place: Option<(NodeId, Branch)>, complete: bool) -> u32 {
        let Some((above, branch)) = place else { return 0 };
        let Node { base, kind, .. } = self.node(above);
        match (kind, branch) {
            (Kind::Test(test), Branch::Yes) => {
                test.priority
                    + u32::from(test.no.is_some() && !complete && matches!(test.question, Question::Splits(_)))
            }
            _ => *base,
        }
    }

    /// Updates the nodes from an edit up to the root. `was_complete` and `is_complete` say whether there was, and is, a
    /// complete child at `place`.
    pub(super) fn settle(&mut self, place: Option<(NodeId, Branch)>, was_complete: bool, is_complete: bool) {
        let (mut place, mut was_complete, mut is_complete) = (place, was_complete, is_complete);
        while let Some((node, _)) = place {
            self.count_child(node, was_complete, is_complete);
            self.mind_test(node);
            was_complete = self.node(node).complete;
            is_complete = self.is_complete(node);
            self.node_mut(node).complete = is_complete;
            place = self.node(node).parent;
        }
    }

    /// Updates a test's barrier rule and positive branch for its priority and for the completeness of its sides.
    fn mind_test(&mut self, node: NodeId) {
        let needed = self.needs_barrier(node);
        let Kind::Test(test) = &self.node(node).kind else { return };
        let (comes, goes) = (needed && !test.barrier, !needed && test.barrier);
        if !(comes || goes || test.raised) {
            return;
        }
        self.touch(node);
        let test = self.test_mut(node);
        (test.barrier, test.raised) = (needed, false);
        let (yes, base) = (test.yes, test.positive_base());
        self.raise_above(node);
        if let Some(yes) = yes {
            self.lift(yes, base);
        }
    }

    /// Gives a subtree at least this base, and builds positive branches again if their test has risen.
    fn lift(&mut self, top: NodeId, base: u32) {
        let mut tasks = vec![Task::Lift(top, base)];
        while let Some(task) = tasks.pop() {
            match task {
                Task::Lift(node, base) => {
                    let there = self.node(node).base;
                    if there < base || there == u32::MAX {
                        self.lift_node(node, base, &mut tasks);
                    }
                }
                Task::AfterNegative(node) => {
                    let test = self.test_mut(node);
                    if !std::mem::take(&mut test.raised) {
                        continue;
                    }
                    tasks.extend(test.yes.map(|yes| Task::Lift(yes, test.positive_base())));
                    self.raise_above(node);
                }
            }
        }
    }

    fn lift_node(&mut self, node: NodeId, base: u32, tasks: &mut Vec<Task>) {
        self.touch(node);
        let here = self.node_mut(node);
        here.base = base;
        match &mut here.kind {
            Kind::Leaf { .. } => self.raise_above(node),
            Kind::Value { children, .. } => tasks.extend(children.values().rev().map(|child| Task::Lift(*child, base))),
            Kind::Test(test) => {
                if test.priority < base {
                    (test.priority, test.raised) = (base, true);
                }
                tasks.push(Task::AfterNegative(node));
                tasks.extend(test.no.map(|no| Task::Lift(no, base)));
            }
        }
    }

    /// Raises the tests above a node whose positive match overlaps the node's rule, if it has one (the up-edges).
    fn raise_above(&mut self, node: NodeId) {
        let Some((area, priority)) = self.rule_of(node) else { return };
        self.highest = self.highest.max(priority);
        let mut parent = self.node(node).parent;
        while let Some((above, branch)) = parent {
            if branch == Branch::No
                && let Kind::Test(test) = &self.node(above).kind
                && test.priority <= priority
                && test.positive().is_some_and(|positive| positive.overlaps(&area))
            {
                self.touch(above);
                let test = self.test_mut(above);
                (test.priority, test.raised) = (priority + 1, true);
            }
            parent = self.node(above).parent;
        }
    }

    /// Computes the paper's `needsBarrier`.
    fn needs_barrier(&self, node: NodeId) -> bool {
        let Kind::Test(test) = &self.node(node).kind else { return false };
        let yes_is_complete = || test.yes.is_some_and(|yes| self.node(yes).complete);
        match test.question {
            Question::Splits(_) => test.no.is_some() && !yes_is_complete(),
            Question::Within(_) => test.no.is_some(),
            Question::Never | Question::Always | Question::Unstated => false,
        }
    }

    /// Computes the paper's `isComplete`, for a node whose children have theirs.
    fn is_complete(&self, node: NodeId) -> bool {
        let complete = |child: Option<NodeId>| child.is_some_and(|child| self.node(child).complete);
        match &self.node(node).kind {
            Kind::Leaf { .. } => self.leaf_is_complete(node),
            Kind::Value { complete_children, values, .. } => *values == Some(*complete_children),
            Kind::Test(test) => match test.question {
                Question::Splits(_) | Question::Within(_) | Question::Never => complete(test.no),
                Question::Always => complete(test.yes),
                Question::Unstated => false,
            },
        }
    }

    /// Updates the number of complete children of a `V` node.
    fn count_child(&mut self, node: NodeId, was: bool, is: bool) {
        if let Kind::Value { complete_children, .. } = &mut self.node_mut(node).kind {
            *complete_children = *complete_children + u128::from(is) - u128::from(was);
        }
    }
}
