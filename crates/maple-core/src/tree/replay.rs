//! Replay: a run of a policy, or a trace that was recorded, goes along its tree, and questions that the tree already
//! has are not written again.
//!
//! # What
//!
//! A run for which the tree has no leaf mostly asks what earlier runs asked, and leaves their path at its end. So a
//! [`Replay`] answers the run's questions and goes down the tree as long as the run asks the same. That costs one
//! comparison of pointers for each question: no item is written, and the items before need not be known. When the run
//! asks something else, items are written as a recorder would, and lowered for the switch ([`Trace::lower`]).
//!
//! A question need not be the item that it becomes. Its answer may be known from the items before. The item may lack
//! the part of the question that is known. Or the question may become several items that the switch can match. What
//! became of a question before a node is kept with the node (a [`QuestionMemo`]), so that the next run need not find it
//! out again. Leaves keep no memos, because no such run gets there.
//!
//! At the first test of a long chain, the chain's index says which of its tests is the first that the packet fits. Up
//! to there, if the run asks what other runs did, all its questions are denied without a look at the packet
//! (`chain_questions.rs`).
//!
//! # Why it is correct
//!
//! What becomes of a question depends on the question and on the items before it, and these items are the path to the
//! node. If it becomes several items, what comes next also depends on where it was asked: [`Trace::lower`] asks for
//! what is left of a range in another way than for the same range when it is asked there. So a memo says how many items
//! ago the question was asked. A node that asks the same is what would have been written. While the node exists, the
//! same question before it always becomes the same. If that was nothing, all packets that get there have the same
//! answer. A test that a question becomes asks for parts of the question. So if the test fails, the question is denied,
//! and nothing else becomes of it. The oracle is a recorder, [`Trace::lower`] and [`Tree::augment`].
//!
//! # Cost
//!
//! A question that the tree asks costs its answer and some nanoseconds; in a long chain, only the latter. The answer of
//! a list that has become such a chain is one step, however long the list is. The first
//! other question costs the length of the path, in which a long chain counts one step for each of its tests that has a
//! single part. Then each question costs what it costs a recorder. [`Tree::insert_replayed`] costs the new nodes.

use std::slice::Iter;
use std::sync::Arc;

use maple_wire::Field;

use super::chain::LongChain;
use super::list_replay::DeniedConds;
use super::{Augmented, LeafId, Node, NodeId, Tree, TreeBranch};
use crate::capabilities::Capabilities;
use crate::trace::{CaptureChecked, Cond, Fields, Item, LoweredTrace, Trace, TraceStep};

/// A run that is under way: a tree answers its questions about its packet. All questions must be about the same packet.
#[derive(Debug)]
pub struct Replay<'t> {
    pub(super) tree: &'t Tree,
    capabilities: &'t Capabilities,
    /// The questions that the run is likely to ask next, all of them denied: the rest of [`ChainPosition::known`].
    pub(super) next: Iter<'t, Arc<Cond>>,
    pub(super) position: Position,
    /// The progress of the run in a long chain. It may be farther than `position`.
    pub(super) ahead: Option<ChainPosition<'t>>,
    /// The memos of a node, and the index of the one that was found last. The next question most likely has the next
    /// memo.
    noted: Option<(NodeId, &'t [QuestionMemo], usize)>,
    reads_missing_bytes: bool,
    /// All items, once the run has asked something that the tree does not ask. Those up to `position` are in the tree.
    pub(super) written: Option<LoweredTrace<'t>>,
    pub(super) memos: Vec<NewMemo>,
}

/// The place of a run on the tree.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Position {
    from: Option<(NodeId, TreeBranch)>,
    pub(super) here: Option<NodeId>,
    /// The number of items that lead here.
    pub(super) depth: usize,
}

/// A run within a long chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChainPosition<'t> {
    pub(super) chain: LongChain<'t>,
    /// The number of the chain's tests that [`Replay::position`] has passed.
    noted: usize,
    /// The number of the chain's questions that are denied to the packet.
    pub(super) known: usize,
}

/// A question of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Question {
    Fits(Arc<Cond>),
    /// A field under a mask. Boxed, because such questions are few.
    Read(Box<(Field, u128)>),
    /// Conditions of a list, one after the other.
    ListStretch(Box<DeniedConds>),
    /// The end: the run has its route. The node is an extra read (`extra_reads.rs`).
    End,
}

/// The items that a question becomes before a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReducedTo {
    /// None: the answer is known there. If the question is whether a packet fits, this is the answer.
    Known(bool),
    /// The node, which asks all that is not known.
    Node,
    /// The node, and then what the question becomes before the node's child, unless the node is a test that failed.
    FirstPart,
}

/// A question that was asked right before a node, or some items before it and not answered since, and what became of
/// it.
#[derive(Clone, Debug)]
pub(super) struct QuestionMemo {
    question: Question,
    /// The number of items between the question and the node.
    ago: u32,
    becomes: ReducedTo,
}

/// A memo for the node after `depth` items.
#[derive(Debug)]
pub(super) struct NewMemo {
    pub(super) depth: usize,
    pub(super) node: Option<NodeId>,
    pub(super) memo: QuestionMemo,
}

/// A run that has ended. It must be inserted into its tree before the tree changes.
#[derive(Debug)]
pub struct Replayed {
    position: Position,
    rest: Vec<Item>,
    reads_missing_bytes: bool,
    memos: Vec<NewMemo>,
    edits: u64,
}

impl Replayed {
    /// Reports whether the run asked for a field whose bytes are not in the frame, as in [`Trace`].
    pub fn reads_missing_bytes(&self) -> bool {
        self.reads_missing_bytes
    }
}

impl Tree {
    /// Reports whether a test prefixes a longer condition that some run asked for. Once its yes-side is explored, that
    /// side will have tests or reads of its own.
    pub(crate) fn prefixes_a_longer_condition(&self, test: NodeId) -> bool {
        self.memos.at_node(test).iter().any(|memo| memo.becomes == ReducedTo::FirstPart)
    }

    /// Begins to replay a run. All traces of a tree are lowered for the same capabilities.
    pub fn begin_replay<'t>(&'t self, capabilities: &'t Capabilities) -> Replay<'t> {
        let position = Position { here: self.root(), ..Position::default() };
        Replay {
            tree: self,
            capabilities,
            next: Iter::default(),
            position,
            ahead: None,
            noted: None,
            reads_missing_bytes: false,
            written: None,
            memos: Vec::new(),
        }
    }

    /// Adds the trace of a run that was replayed, ending in `leaf`, as [`Tree::augment`] does, but without the items.
    ///
    /// # Panics
    ///
    /// If the tree has changed since the run began, or `leaf` is in it.
    pub fn insert_replayed(&mut self, run: Replayed, leaf: LeafId) -> Augmented {
        assert!(!self.contains(leaf), "leaf {} has a trace already", leaf.0);
        assert_eq!(run.edits, self.edits, "a run is inserted into the tree that it was replayed on");
        let Replayed { position, rest, memos, .. } = run;
        self.begin_edit();
        let outcome = self.put_at(position.from, position.here, &rest, position.depth, leaf);
        // The last new node is the leaf.
        let new = self.edit.added.len().saturating_sub(1);
        for NewMemo { depth, node, memo } in memos {
            if let Some(node) = node.filter(|_| depth < position.depth) {
                let known_memos = self.memos.of_mut(node);
                if known_memos.iter().all(|other| (&other.question, other.ago) != (&memo.question, memo.ago)) {
                    known_memos.push(memo);
                }
            } else if let Some(further) = depth.checked_sub(position.depth).filter(|further| *further < new) {
                self.memos.of_mut(self.edit.added[further]).push(memo);
            }
        }
        self.extend_chain_questions();
        if self.value_index.get_mut().is_asked() && !matches!(outcome, Augmented::Existing(_)) {
            let items = self.path(leaf).unwrap_or_default();
            self.value_index_add(&items, leaf);
        }
        outcome
    }
}

impl<'t> Replay<'t> {
    /// Reports whether the packet fits a conjunction, as [`crate::Recorder::fits`] does.
    #[inline]
    pub fn fits<P: Fields + ?Sized>(&mut self, packet: &P, cond: &Arc<Cond>) -> bool {
        let mut next = self.next.clone();
        if next.next().is_some_and(|next| Arc::ptr_eq(next, cond)) {
            self.next = next;
            return false;
        }
        self.fits_elsewhere(packet, cond)
    }

    /// Reports whether the packet fits a conjunction that is not the next question of a chain.
    #[inline(never)]
    fn fits_elsewhere<P: Fields + ?Sized>(&mut self, packet: &P, cond: &Arc<Cond>) -> bool {
        if self.ahead.is_some() {
            self.catch_up();
        } else if let (None, Some(node)) = (&self.written, self.position.here) {
            self.enter(packet, node);
        }
        let begin = self.position;
        while let (None, Some(node)) = (&self.written, self.position.here) {
            let ago = self.position.depth - begin.depth;
            if let Node::Test { cond: there, .. } = self.tree.node(node)
                && there == cond
                && ago == 0
            {
                return self.step(packet, node) == TreeBranch::Outcome(true);
            }
            match self.becomes(node, ago, |question| matches!(question, Question::Fits(other) if other == cond)) {
                None => break,
                Some(ReducedTo::Known(fits)) => return fits,
                Some(ReducedTo::Node) => return self.step(packet, node) == TreeBranch::Outcome(true),
                Some(ReducedTo::FirstPart) if self.step(packet, node) == TreeBranch::Outcome(false) => return false,
                Some(ReducedTo::FirstPart) => {}
            }
        }
        self.written_from(begin);
        let fits = cond.holds(packet);
        let write = |written: &mut LoweredTrace, packet: &CaptureChecked<P>, can: &Capabilities| {
            written.fits(packet, can, cond)
        };
        self.write(packet, Question::Fits(cond.clone()), fits, write);
        fits
    }

    /// Returns the value of a field under a mask, as [`crate::Recorder::read_there`] returns it.
    pub fn read_there<P: Fields + ?Sized>(&mut self, packet: &P, field: Field, mask: u128) -> u128 {
        let mask = mask & field.full_mask();
        self.catch_up();
        if let (None, Some(node)) = (&self.written, self.position.here) {
            if let Node::Value(values) = self.tree.node(node)
                && (values.field, values.mask) == (field, mask)
            {
                let TreeBranch::Value(value) = self.step(packet, node) else { unreachable!("a `V` node has values") };
                return value;
            }
            let is = |question: &Question| matches!(question, Question::Read(read) if **read == (field, mask));
            match self.becomes(node, 0, is) {
                Some(ReducedTo::Node | ReducedTo::FirstPart) => _ = self.step(packet, node),
                Some(ReducedTo::Known(_)) => {}
                None => self.write_read(packet, field, mask),
            }
        } else {
            self.write_read(packet, field, mask);
        }
        packet.value(field).unwrap_or(0) & mask
    }

    /// Asks all that a trace observed. The trace must have been recorded of the same packet.
    pub fn observe<P: Fields + ?Sized>(&mut self, packet: &P, trace: &Trace) {
        self.reads_missing_bytes |= trace.reads_missing_bytes;
        for step in trace.steps() {
            match step {
                TraceStep::Item(Item::Read(read), _) => _ = self.read_there(packet, read.field, read.mask),
                TraceStep::Item(Item::Test { cond, .. }, _) => _ = self.fits(packet, cond),
                TraceStep::List(answer) => self.observe_list(packet, answer),
            }
        }
    }

    /// Ends the run. If the tree has specialised leaves there, the run goes on to the packet's.
    pub fn finish<P: Fields + ?Sized>(mut self, packet: &P) -> Replayed {
        self.catch_up();
        let (depth, written) = (self.position.depth, self.written.take());
        let rest = written.map(|written| written.items_from(depth).to_vec()).unwrap_or_default();
        if rest.is_empty() {
            while let Some(node) = self.position.here.filter(|node| self.tree.is_extra_read(*node)) {
                self.step(packet, node);
            }
        }
        let Replay { tree, position, reads_missing_bytes, memos, .. } = self;
        Replayed { position, rest, reads_missing_bytes, memos, edits: tree.edits }
    }

    /// Finds what becomes of a question that was asked `ago` items before a node, if that is known.
    fn becomes(&mut self, node: NodeId, ago: usize, is: impl Fn(&Question) -> bool) -> Option<ReducedTo> {
        let (memos, next) = match self.noted {
            Some((of, memos, last)) if of == node => (memos, last + 1),
            _ => (self.tree.memos.at_node(node), 0),
        };
        let is = |memo: &QuestionMemo| memo.ago as usize == ago && is(&memo.question);
        let is_next = memos.get(next).is_some_and(is);
        let index = if is_next { Some(next) } else { memos.iter().position(is) };
        self.noted = Some((node, memos, index.unwrap_or(next)));
        index.map(|index| memos[index].becomes)
    }

    /// Continues with the child that the packet reaches.
    fn step<P: Fields + ?Sized>(&mut self, packet: &P, node: NodeId) -> TreeBranch {
        let packet = CaptureChecked::new(packet);
        let branch = match self.tree.node(node) {
            Node::Value(values) => TreeBranch::Value(packet.value(values.field).unwrap_or(0) & values.mask),
            Node::Test { cond, .. } => TreeBranch::Outcome(cond.holds(&packet)),
            Node::Leaf(_) => unreachable!("no question becomes a leaf"),
        };
        self.reads_missing_bytes |= packet.reads_missing_bytes.get();
        self.position.go(self.tree, node, branch);
        let ahead = self.ahead.filter(|_| branch == TreeBranch::Outcome(false)).and_then(|ahead| ahead.after(node));
        self.go_ahead(ahead);
        branch
    }

    /// Enters the long chain that begins with a node, if there is one.
    fn enter<P: Fields + ?Sized>(&mut self, packet: &P, node: NodeId) {
        let packet = CaptureChecked::new(packet);
        let ahead = self.tree.enter(node, &packet).map(|mut chain| {
            if packet.reads_missing_bytes.get() {
                // The run itself may not need the field that was not captured.
                chain.fails = 0;
            }
            ChainPosition { chain, noted: 0, known: chain.questions_ahead.until(chain.fails) }
        });
        self.go_ahead(ahead);
    }

    /// Returns the number of expected questions, all of which are denied.
    #[cfg(test)]
    pub(super) fn expected(&self) -> usize {
        self.next.len()
    }

    fn go_ahead(&mut self, ahead: Option<ChainPosition<'t>>) {
        let next = ahead.map(|ahead| ahead.chain.questions_ahead.questions(ahead.noted, ahead.known));
        (self.next, self.ahead) = (next.unwrap_or_default().iter(), ahead);
    }

    /// Moves `at` to the run's place in its chain.
    pub(super) fn catch_up(&mut self) {
        let Some(ahead) = &mut self.ahead else { return };
        let passed = ahead.chain.questions_ahead.tests_in(ahead.known - self.next.len());
        if passed <= ahead.noted {
            return;
        }
        let depth = self.position.depth + passed - ahead.noted;
        ahead.noted = passed;
        let (last, branch) = (ahead.chain.nodes[passed - 1], TreeBranch::Outcome(false));
        self.position = Position { from: Some((last, branch)), here: self.tree.child(last, branch), depth };
    }

    /// Returns the written items of the run. If there are none, begins with the items up to a place in the tree.
    fn written_from(&mut self, place: Position) -> &mut LoweredTrace<'t> {
        self.written.get_or_insert_with(|| {
            (self.position, self.next, self.ahead) = (place, Iter::default(), None);
            let (passed, items) = self.tree.passed_to(place.from);
            LoweredTrace::after(passed, items)
        })
    }

    fn write_read<P: Fields + ?Sized>(&mut self, packet: &P, field: Field, mask: u128) {
        self.written_from(self.position);
        let write = |written: &mut LoweredTrace, packet: &CaptureChecked<P>, can: &Capabilities| {
            written.read_there(packet, can, field, mask);
            true
        };
        self.write(packet, Question::Read(Box::new((field, mask))), false, write);
    }

    /// Turns a question into items, and keeps a memo of them. `write` returns whether the last item, if it is a test,
    /// asks for everything that was left.
    fn write<P: Fields + ?Sized>(
        &mut self,
        packet: &P,
        question: Question,
        fits: bool,
        write: impl FnOnce(&mut LoweredTrace, &CaptureChecked<P>, &Capabilities) -> bool,
    ) {
        let Replay { tree, position, written, memos, .. } = self;
        let written = written.as_mut().expect("items are written from here on");
        let looked = CaptureChecked::new(packet);
        let begin = written.depth();
        let is_whole = write(written, &looked, self.capabilities);
        self.reads_missing_bytes |= looked.reads_missing_bytes.get();
        let (end, mut is_settled) = (written.depth(), false);
        for (depth, item) in (begin..).zip(written.items_from(begin)) {
            let becomes = match item {
                Item::Test { .. } if !is_whole || depth + 1 < end => ReducedTo::FirstPart,
                Item::Read(_) if matches!(question, Question::Fits(_)) => ReducedTo::FirstPart,
                Item::Test { .. } | Item::Read(_) => ReducedTo::Node,
            };
            is_settled = becomes == ReducedTo::Node || matches!(item, Item::Test { outcome: false, .. });
            let node = position.here.filter(|node| position.depth == depth && tree.asks(*node, item));
            let ago = (depth - begin) as u32;
            if ago > 0 || !question.is_item(item) {
                memos.push(NewMemo { depth, node, memo: QuestionMemo { question: question.clone(), ago, becomes } });
            }
            if let Some(node) = node {
                position.go(tree, node, TreeBranch::taken_by(item));
            }
        }
        if !is_settled {
            let node = position.here.filter(|_| position.depth == end);
            let memo = QuestionMemo { question, ago: (end - begin) as u32, becomes: ReducedTo::Known(fits) };
            memos.push(NewMemo { depth: end, node, memo });
        }
    }
}

impl QuestionMemo {
    /// Creates the memo of a read that specialises a leaf.
    pub(super) fn of_extra_read() -> QuestionMemo {
        QuestionMemo { question: Question::End, ago: 0, becomes: ReducedTo::Node }
    }

    /// Reports whether the memo is of a read that was added to a leaf, and not asked by a run.
    pub(super) fn is_of_extra_read(&self) -> bool {
        self.question == Question::End
    }

    /// Creates the memo that no packet which reaches a node fits these conditions.
    pub(super) fn of_denied_conds(conds: DeniedConds) -> QuestionMemo {
        QuestionMemo { question: Question::ListStretch(Box::new(conds)), ago: 0, becomes: ReducedTo::Known(false) }
    }

    /// Returns the conditions of a list that no packet which reaches the node fits, if the memo is about some.
    pub(super) fn denied_conds(&self) -> Option<&DeniedConds> {
        match &self.question {
            Question::ListStretch(conds) => Some(conds),
            _ => None,
        }
    }

    /// Returns the condition that is asked at the node, if the memo says that no packet that reaches the node fits it.
    pub(super) fn denied(&self) -> Option<&Arc<Cond>> {
        match self {
            QuestionMemo { question: Question::Fits(cond), ago: 0, becomes: ReducedTo::Known(false) } => Some(cond),
            _ => None,
        }
    }

    /// Returns the condition that is asked at the node and that the node's test prefixes. Packets that fail the test
    /// don't fit it.
    pub(super) fn begun(&self) -> Option<&Arc<Cond>> {
        match self {
            QuestionMemo {
                question: Question::Fits(cond),
                ago: 0,
                becomes: ReducedTo::Node | ReducedTo::FirstPart,
            } => Some(cond),
            _ => None,
        }
    }
}

impl Question {
    /// Reports whether an item asks the same, so that it needs no memo.
    fn is_item(&self, item: &Item) -> bool {
        match (self, item) {
            (Question::Fits(asked), Item::Test { cond, .. }) => asked == cond,
            (Question::Read(asked), Item::Read(read)) => **asked == (read.field, read.mask),
            _ => false,
        }
    }
}

impl<'t> ChainPosition<'t> {
    /// Moves on after a test that the packet failed; `None` if it is not the chain's next.
    fn after(self, test: NodeId) -> Option<ChainPosition<'t>> {
        let is_next = self.chain.nodes.get(self.noted) == Some(&test);
        is_next.then(|| ChainPosition { noted: self.noted + 1, ..self })
    }
}

impl Position {
    fn go(&mut self, tree: &Tree, node: NodeId, branch: TreeBranch) {
        *self = Position { from: Some((node, branch)), here: tree.child(node, branch), depth: self.depth + 1 };
    }
}
