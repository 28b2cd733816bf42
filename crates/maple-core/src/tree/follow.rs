//! Recording a run of a policy along a tree: what the tree knows of the run's questions is not recorded again.
//!
//! # What
//!
//! A run for which the tree has no leaf mostly asks what earlier runs asked, and leaves their way at its end. So a
//! [`Follower`] answers the run's questions and goes down the tree as long as it asks the same, which costs a comparison
//! of pointers a question: no item is written, nothing has to be known of the items before. Only where the run asks
//! something else items are written, as a recorder would, and lowered for the switch ([`Trace::lower`]).
//!
//! A question need not be the item that it becomes: it may be known from the items before, lack the part of it that is
//! known, or become several items that the switch can match. What became of a question in front of a node is kept with
//! the node (a [`Note`]), so that the next run need not ask it again.
//!
//! At the first test of a long chain the chain's index says which of its tests is the first that the packet fits. Up to
//! there a run that asks what the chain does gets its answers without a look at the packet.
//!
//! # Why it is correct
//!
//! What is made of a question depends on the question and on the items before, and these are the way to the node. So a
//! node that asks the same is what would have been written, and what became of a question in front of a node once, always
//! becomes of it while the node lives. The oracle is a recorder, [`Trace::lower`] and [`Tree::augment`].
//!
//! # Cost
//!
//! A question that the tree asks costs its answer and some nanoseconds; in a long chain, the latter only. The first other
//! question costs the length of the way, where long chains count for as much as they have tests of one part; then each costs what it costs a recorder. To put the run's leaf in ([`Tree::plant`]) costs the new nodes.

use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use maple_wire::Field;
use rustc_hash::FxHasher;

use super::chain::Entered;
use super::{Augmented, Branch, LeafId, Node, NodeId, Tree};
use crate::capabilities::Capabilities;
use crate::trace::{Cond, Fields, Item, Lowered, Trace};

/// Answers one run's questions about its packet along a tree. All questions must be about the same packet.
#[derive(Debug)]
pub struct Follower<'t> {
    tree: &'t Tree,
    capabilities: &'t Capabilities,
    at: Place,
    /// In a long chain: how far the run is in it, which may be farther than `at`.
    ahead: Option<Ahead<'t>>,
    /// The notes of a node, and where the note that was last found stands: the next is likely the next to be asked for.
    noted: Option<(NodeId, &'t [Note], usize)>,
    short: bool,
    /// From the first question on that the tree does not ask: all items. Those up to `at` are on the tree.
    written: Option<Lowered<'t>>,
    notes: Vec<Noted>,
}

/// Where a run is on the tree.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    from: Option<(NodeId, Branch)>,
    here: Option<NodeId>,
    /// How many items lead here.
    depth: usize,
}

/// A run within a long chain.
#[derive(Clone, Copy, Debug)]
struct Ahead<'t> {
    chain: Entered<'t>,
    /// How many of the chain's tests are behind it, and how many are behind [`Follower::at`].
    passed: usize,
    noted: usize,
}

/// What a policy asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Question {
    Fits(Arc<Cond>),
    /// A field under a mask. In a box, as there are few of them.
    Read(Box<(Field, u128)>),
}

/// What becomes of a question that is asked right in front of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Becomes {
    /// Nothing: the answer is known there.
    Known,
    /// The node, which is all that is open of it.
    Node,
    /// The node, and then what becomes of it in front of the node's child.
    Begun,
}

/// A question that was asked right in front of a node.
#[derive(Clone, Debug)]
pub(super) struct Note {
    question: Question,
    becomes: Becomes,
    /// Of the question, to tell most of them apart without a look at them.
    hash: u32,
}

/// A note for the node behind so many items.
#[derive(Debug)]
struct Noted {
    depth: usize,
    node: Option<NodeId>,
    note: Note,
}

/// A run that was followed: to be put into its tree before anything else is.
#[derive(Debug)]
pub struct Followed {
    at: Place,
    rest: Vec<Item>,
    short: bool,
    notes: Vec<Noted>,
    edits: u64,
}

/// A packet that remembers whether anything was looked at that was not captured.
struct Looked<'p, P: ?Sized> {
    packet: &'p P,
    short: Cell<bool>,
}

impl Followed {
    /// Whether the run asked for a field whose bytes are not in the frame, as in [`Trace`].
    pub fn short(&self) -> bool {
        self.short
    }
}

impl Tree {
    /// Begins to follow a run. All traces of a tree are lowered for the same capabilities.
    pub fn follow<'t>(&'t self, capabilities: &'t Capabilities) -> Follower<'t> {
        let at = Place { here: self.root(), ..Place::default() };
        Follower {
            tree: self,
            capabilities,
            at,
            ahead: None,
            noted: None,
            short: false,
            written: None,
            notes: Vec::new(),
        }
    }

    /// Adds the trace of a run that was followed, ending in `leaf`: [`Tree::augment`] without the items.
    ///
    /// # Panics
    ///
    /// If the tree has changed since the run was followed, or `leaf` is in it.
    pub fn plant(&mut self, run: Followed, leaf: LeafId) -> Augmented {
        assert!(!self.contains(leaf), "leaf {} has a trace already", leaf.0);
        assert_eq!(run.edits, self.edits, "a run is put into the tree that it followed");
        let Followed { at, rest, notes, .. } = run;
        self.begin_edit();
        let outcome = self.put_at(at.from, at.here, &rest, at.depth, leaf);
        for Noted { depth, node, note } in notes {
            let added = || self.edit.added.get(depth.checked_sub(at.depth)?).copied();
            if let Some(node) = node.filter(|_| depth < at.depth).or_else(added) {
                self.note(node, note);
            }
        }
        if self.touched.get_mut().is_asked() && !matches!(outcome, Augmented::Existing(_)) {
            let items = self.path(leaf).unwrap_or_default();
            self.touch(&items, leaf);
        }
        outcome
    }

    fn note(&mut self, node: NodeId, note: Note) {
        let there = self.notes.entry(node).or_default();
        if there.iter().all(|other| other.hash != note.hash || other.question != note.question) {
            there.push(note);
        }
    }
}

impl<'t> Follower<'t> {
    /// Whether the packet fits a conjunction, as [`crate::Recorder::fits`].
    pub fn fits<P: Fields + ?Sized>(&mut self, packet: &P, cond: &Arc<Cond>) -> bool {
        if let Some(ahead) = &mut self.ahead {
            if ahead.passed < ahead.chain.fails && Arc::ptr_eq(&ahead.chain.conds[ahead.passed], cond) {
                ahead.passed += 1;
                return false;
            }
            self.catch_up();
        } else if let (None, Some(node)) = (&self.written, self.at.here) {
            self.enter(packet, node);
        }
        let begin = self.at;
        while let (None, Some(node)) = (&self.written, self.at.here) {
            if let Node::Test { cond: there, .. } = self.tree.node(node)
                && there == cond
            {
                return self.step(packet, node) == Branch::Outcome(true);
            }
            match self.becomes(node, |question| matches!(question, Question::Fits(other) if other == cond)) {
                None => break,
                Some(Becomes::Known) => return cond.holds(packet),
                Some(Becomes::Node) => return self.step(packet, node) == Branch::Outcome(true),
                Some(Becomes::Begun) => _ = self.step(packet, node),
            }
        }
        let whole = self.written_from(begin).open(cond);
        let becomes = |item: &Item| match item {
            Item::Test { cond, .. } if *cond == whole => Becomes::Node,
            _ => Becomes::Begun,
        };
        let write = |written: &mut Lowered, packet: &Looked<P>, can: &Capabilities| written.fits(packet, can, cond);
        self.write(packet, &Question::Fits(cond.clone()), becomes, write)
    }

    /// The value of a field under a mask, as [`crate::Recorder::read_there`].
    pub fn read_there<P: Fields + ?Sized>(&mut self, packet: &P, field: Field, mask: u128) -> u128 {
        let mask = mask & field.full_mask();
        self.catch_up();
        if let (None, Some(node)) = (&self.written, self.at.here) {
            if let Node::Value(values) = self.tree.node(node)
                && (values.field, values.mask) == (field, mask)
            {
                let Branch::Value(value) = self.step(packet, node) else { unreachable!("a `V` node has values") };
                return value;
            }
            let is = |question: &Question| matches!(question, Question::Read(read) if **read == (field, mask));
            match self.becomes(node, is) {
                Some(Becomes::Node | Becomes::Begun) => _ = self.step(packet, node),
                Some(Becomes::Known) => {}
                None => return self.write_read(packet, field, mask),
            }
            return packet.value(field).unwrap_or(0) & mask;
        }
        self.write_read(packet, field, mask)
    }

    /// Asks what a trace says that was recorded of the packet.
    pub fn replay<P: Fields + ?Sized>(&mut self, packet: &P, trace: &Trace) {
        self.short |= trace.short;
        for item in &trace.items {
            match item {
                Item::Read(read) => _ = self.read_there(packet, read.field, read.mask),
                Item::Test { cond, .. } => _ = self.fits(packet, cond),
            }
        }
    }

    /// Ends the run.
    pub fn finish(mut self) -> Followed {
        self.catch_up();
        let Follower { tree, at, short, written, notes, .. } = self;
        let rest = written.map(|written| written.items_from(at.depth).to_vec()).unwrap_or_default();
        Followed { at, rest, short, notes, edits: tree.edits }
    }

    /// What becomes of a question in front of a node, where that is known.
    fn becomes(&mut self, node: NodeId, is: impl Fn(&Question) -> bool) -> Option<Becomes> {
        let (notes, next) = match self.noted {
            Some((of, notes, last)) if of == node => (notes, last + 1),
            _ => (self.tree.notes.get(&node)?.as_slice(), 0),
        };
        let is_next = notes.get(next).is_some_and(|note| is(&note.question));
        let at = if is_next { Some(next) } else { notes.iter().position(|note| is(&note.question)) };
        self.noted = Some((node, notes, at.unwrap_or(next)));
        at.map(|at| notes[at].becomes)
    }

    /// Goes on to the child that the packet gets to.
    fn step<P: Fields + ?Sized>(&mut self, packet: &P, node: NodeId) -> Branch {
        let packet = Looked::new(packet);
        let branch = match self.tree.node(node) {
            Node::Value(values) => Branch::Value(packet.value(values.field).unwrap_or(0) & values.mask),
            Node::Test { cond, .. } => Branch::Outcome(cond.holds(&packet)),
            Node::Leaf(_) => unreachable!("no question becomes a leaf"),
        };
        self.short |= packet.short.get();
        self.at.go(self.tree, node, branch);
        self.ahead = self.ahead.filter(|_| branch == Branch::Outcome(false)).and_then(|ahead| ahead.behind(node));
        branch
    }

    /// Takes note that the run comes to a node, which may be the first of a long chain.
    fn enter<P: Fields + ?Sized>(&mut self, packet: &P, node: NodeId) {
        let packet = Looked::new(packet);
        self.ahead = self.tree.enter(node, &packet).map(|mut chain| {
            if packet.short.get() {
                // The run itself may do without the field that was not captured.
                chain.fails = 0;
            }
            Ahead { chain, passed: 0, noted: 0 }
        });
    }

    /// Goes to where the run is in its chain.
    fn catch_up(&mut self) {
        let Some(ahead) = self.ahead.as_mut().filter(|ahead| ahead.noted < ahead.passed) else { return };
        let depth = self.at.depth + ahead.passed - ahead.noted;
        ahead.noted = ahead.passed;
        let (last, branch) = (ahead.chain.nodes[ahead.passed - 1], Branch::Outcome(false));
        self.at = Place { from: Some((last, branch)), here: self.tree.child(last, branch), depth };
    }

    /// The items of the run up to a place on the tree, where none were written before.
    fn written_from(&mut self, place: Place) -> &mut Lowered<'t> {
        self.written.get_or_insert_with(|| {
            (self.at, self.ahead) = (place, None);
            let (passed, items) = self.tree.passed_to(place.from);
            Lowered::after(passed, items)
        })
    }

    fn write_read<P: Fields + ?Sized>(&mut self, packet: &P, field: Field, mask: u128) -> u128 {
        self.written_from(self.at);
        let write = |written: &mut Lowered, packet: &Looked<P>, can: &Capabilities| {
            written.read_there(packet, can, field, mask)
        };
        self.write(packet, &Question::Read(Box::new((field, mask))), |_| Becomes::Node, write)
    }

    /// Has a question become items, and notes what became of it.
    fn write<P: Fields + ?Sized, A>(
        &mut self,
        packet: &P,
        question: &Question,
        becomes: impl Fn(&Item) -> Becomes,
        write: impl FnOnce(&mut Lowered, &Looked<P>, &Capabilities) -> A,
    ) -> A {
        let Follower { tree, at, written, notes, .. } = self;
        let written = written.as_mut().expect("items are written from here on");
        let looked = Looked::new(packet);
        let begin = written.depth();
        let answer = write(written, &looked, self.capabilities);
        self.short |= looked.short.get();
        let mut is_settled = false;
        for (depth, item) in (begin..).zip(written.items_from(begin)) {
            let node = at.here.filter(|node| at.depth == depth && tree.asks(*node, item));
            let note = Note::new(question, becomes(item));
            is_settled = note.becomes == Becomes::Node;
            if !is_the_item(question, item) {
                notes.push(Noted { depth, node, note });
            }
            if let Some(node) = node {
                at.go(tree, node, Branch::of(item));
            }
        }
        if !is_settled {
            let depth = written.depth();
            let node = at.here.filter(|_| at.depth == depth);
            notes.push(Noted { depth, node, note: Note::new(question, Becomes::Known) });
        }
        answer
    }
}

impl Note {
    fn new(question: &Question, becomes: Becomes) -> Note {
        let mut hasher = FxHasher::default();
        question.hash(&mut hasher);
        Note { question: question.clone(), becomes, hash: hasher.finish() as u32 }
    }
}

/// Whether an item asks what the question does, so that it needs no note.
fn is_the_item(question: &Question, item: &Item) -> bool {
    match (question, item) {
        (Question::Fits(asked), Item::Test { cond, .. }) => asked == cond,
        (Question::Read(asked), Item::Read(read)) => **asked == (read.field, read.mask),
        _ => false,
    }
}

impl<'t> Ahead<'t> {
    /// Behind a test that the packet failed, if it is the chain's next.
    fn behind(self, test: NodeId) -> Option<Ahead<'t>> {
        let is_next = self.chain.nodes.get(self.passed) == Some(&test);
        is_next.then(|| Ahead { passed: self.passed + 1, noted: self.noted + 1, ..self })
    }
}

impl Place {
    fn go(&mut self, tree: &Tree, node: NodeId, branch: Branch) {
        *self = Place { from: Some((node, branch)), here: tree.child(node, branch), depth: self.depth + 1 };
    }
}

impl<'p, P: Fields + ?Sized> Looked<'p, P> {
    fn new(packet: &'p P) -> Looked<'p, P> {
        Looked { packet, short: Cell::new(false) }
    }
}

impl<P: Fields + ?Sized> Fields for Looked<'_, P> {
    fn value(&self, field: Field) -> Option<u128> {
        if !self.is_captured(field) {
            self.short.set(true);
        }
        self.packet.value(field)
    }

    fn is_captured(&self, field: Field) -> bool {
        self.packet.is_captured(field)
    }
}
