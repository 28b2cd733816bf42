//! Recording a run of a policy along a tree: what the tree knows of the run's questions is not recorded again.
//!
//! # What
//!
//! A run for which the tree has no leaf mostly asks what earlier runs asked, and leaves their way at its end. So a
//! [`Follower`] answers the run's questions and goes down the tree as long as it asks the same, which costs a comparison
//! of pointers a question: no item is written, nothing has to be known of the items before. Only where the run asks
//! something else a [`Recorder`] is set up that has seen the items on the way so far; it decides whether the question is
//! answered by these, or becomes a new item.
//!
//! What it decided for a question in front of a node is kept with the node, so that the next run need not ask it again.
//!
//! # Why it is correct
//!
//! What a recorder does with a question depends on the question and on the items before, and these are the way to the
//! node. So a node that asks the same is what the recorder would have recorded, and what was decided in front of a node
//! once is so while the node lives. The oracle is a recorder and [`Tree::augment`].
//!
//! # Cost
//!
//! A question that the tree asks costs its answer and some nanoseconds. The first other question costs the length of the
//! way; then each costs what it costs a recorder. To put the run's leaf in ([`Tree::plant`]) costs the new nodes.

use std::sync::Arc;

use maple_wire::Field;

use super::{Augmented, Branch, LeafId, Node, NodeId, Tree};
use crate::trace::{Cond, Fields, Item, Recorder};

/// Answers one run's questions about its packet along a tree. All questions must be about the same packet.
#[derive(Debug)]
pub struct Follower<'t> {
    tree: &'t Tree,
    from: Option<(NodeId, Branch)>,
    here: Option<NodeId>,
    /// How many items of the run are on the tree.
    depth: usize,
    short: bool,
    /// From the first question on that the tree does not ask. Its first `depth` items are those on the tree.
    recorder: Option<Recorder>,
    decided: Vec<(NodeId, Arc<Cond>, Decided)>,
}

/// What a question asked right in front of a node comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decided {
    /// It is answered by what is known there.
    Known(bool),
    /// It is the node's own, less what is known there.
    Asked,
}

/// A run that was followed: to be put into its tree before anything else is.
#[derive(Debug)]
pub struct Followed {
    from: Option<(NodeId, Branch)>,
    here: Option<NodeId>,
    depth: usize,
    rest: Vec<Item>,
    short: bool,
    decided: Vec<(NodeId, Arc<Cond>, Decided)>,
    edits: u64,
}

impl Followed {
    /// Whether the run asked for a field whose bytes are not in the frame, as in [`crate::Trace`].
    pub fn short(&self) -> bool {
        self.short
    }
}

impl Tree {
    /// Begins to follow a run.
    pub fn follow(&self) -> Follower<'_> {
        let here = self.root();
        Follower { tree: self, from: None, here, depth: 0, short: false, recorder: None, decided: Vec::new() }
    }

    /// Adds the trace of a run that was followed, ending in `leaf`: [`Tree::augment`] without the items.
    ///
    /// # Panics
    ///
    /// If the tree has changed since the run was followed, or `leaf` is in it.
    pub fn plant(&mut self, run: Followed, leaf: LeafId) -> Augmented {
        assert!(!self.contains(leaf), "leaf {} has a trace already", leaf.0);
        assert_eq!(run.edits, self.edits, "a run is put into the tree that it followed");
        let Followed { from, here, depth, rest, decided, .. } = run;
        for (node, cond, what) in decided {
            let there = self.decided.entry(node).or_default();
            if there.iter().all(|(other, _)| *other != cond) {
                there.push((cond, what));
            }
        }
        self.begin_edit();
        let outcome = self.put_at(from, here, &rest, depth, leaf);
        if self.touched.get_mut().is_asked() && !matches!(outcome, Augmented::Existing(_)) {
            let items = self.path(leaf).unwrap_or_default();
            self.touch(&items, leaf);
        }
        outcome
    }
}

impl Follower<'_> {
    /// Whether the packet fits a conjunction, as [`Recorder::fits`].
    pub fn fits<P: Fields + ?Sized>(&mut self, packet: &P, cond: &Arc<Cond>) -> bool {
        if self.recorder.is_none()
            && let Some(node) = self.here
        {
            if let Node::Test { cond: there, yes, no } = self.tree.node(node)
                && (there == cond || self.was_decided(node, cond) == Some(Decided::Asked))
            {
                let outcome = self.look_at(packet, there);
                self.from = Some((node, Branch::Outcome(outcome)));
                self.here = if outcome { *yes } else { *no };
                self.depth += 1;
                return outcome;
            }
            if let Some(Decided::Known(answer)) = self.was_decided(node, cond) {
                return answer;
            }
        }
        let recorder = self.recorder.get_or_insert_with(|| Recorder::after(self.tree.items_to(self.from)));
        let before = recorder.items().len();
        let answer = recorder.fits(packet, cond, None);
        let is_known = recorder.items().len() == before;
        if let Some(node) = self.here
            && before == self.depth
        {
            let decided = if is_known { Some(Decided::Known(answer)) } else { self.go_on().then_some(Decided::Asked) };
            self.decided.extend(decided.map(|decided| (node, cond.clone(), decided)));
        }
        answer
    }

    /// The value of a field under a mask, as [`Recorder::read_there`].
    pub fn read_there<P: Fields + ?Sized>(&mut self, packet: &P, field: Field, mask: u128) -> u128 {
        if self.recorder.is_none()
            && let Some(node) = self.here
            && let Node::Value(values) = self.tree.node(node)
            && (values.field, values.mask) == (field, mask & field.full_mask())
        {
            self.short |= !packet.is_captured(field);
            let value = packet.value(field).unwrap_or(0) & values.mask;
            self.from = Some((node, Branch::Value(value)));
            self.here = values.get(value);
            self.depth += 1;
            return value;
        }
        let recorder = self.recorder.get_or_insert_with(|| Recorder::after(self.tree.items_to(self.from)));
        let value = recorder.read_there(packet, field, mask, None);
        self.go_on();
        value
    }

    /// Ends the run.
    pub fn finish(self) -> Followed {
        let Follower { tree, from, here, depth, short, recorder, decided } = self;
        let trace = recorder.map(Recorder::finish).unwrap_or_default();
        let rest = trace.items.get(depth..).map(<[Item]>::to_vec).unwrap_or_default();
        Followed { from, here, depth, rest, short: short | trace.short, decided, edits: tree.edits }
    }

    fn was_decided(&self, node: NodeId, cond: &Arc<Cond>) -> Option<Decided> {
        let there = self.tree.decided.get(&node)?;
        there.iter().find(|(other, _)| other == cond).map(|(_, decided)| *decided)
    }

    /// Goes down the tree by an item that was recorded, if the tree asks the same. Returns whether it does.
    fn go_on(&mut self) -> bool {
        let Some(recorder) = &self.recorder else {
            return false;
        };
        let (Some(node), Some(item)) = (self.here, recorder.items().get(self.depth)) else {
            return false;
        };
        if !self.tree.asks(node, item) {
            return false;
        }
        let branch = Branch::of(item);
        self.from = Some((node, branch));
        self.here = self.tree.child(node, branch);
        self.depth += 1;
        true
    }

    /// Looks at the fields in OXM order and no further than the first that fails, as a recorder does.
    fn look_at<P: Fields + ?Sized>(&mut self, packet: &P, cond: &Cond) -> bool {
        let mut look = |field| {
            self.short |= !packet.is_captured(field);
            packet.value(field).unwrap_or(0)
        };
        cond.all.iter().all(|c| c.holds(look(c.field))) && cond.ranges.iter().all(|r| r.holds(look(r.field)))
    }
}
