//! A table that follows its tree, edit by edit.
//!
//! # What
//!
//! Every node of the tree is in a *run*: nodes that stand for the same region of packets, as far as a match can say it.
//! The no-side of a test is in the test's own run, since a test that failed can't be stated; a yes-side and a `V`
//! node's child begin runs of their own. A run knows whether it is *complete*: whether every packet of its region gets
//! to an answer or is under a barrier of the run's own tests. That is decided where the run ends: at a leaf, a `V` node
//! or `Ω`.
//!
//! An edit of the tree becomes an edit of the pieces (`pieces/`):
//!
//! * a test has pieces for its yes-region. They are the answer of a leaf that stands there; barriers while the yes-side
//!   is unexplored or incomplete; and there are none where what lies in the yes-side says it all. So the place of an
//!   unexplored yes-side is kept, level and all, and its packet's answer needs one modification;
//! * a leaf elsewhere has pieces for its run's region.
//!
//! What the switch can't match is never stated: a yes-side or a child whose region can't be matched has no pieces and
//! counts as unexplored, a test whose region can't be matched has a wider barrier, and if nothing of it can be stated,
//! its no-side has no pieces either.
//!
//! # Cost
//!
//! A new trace costs the nodes that it adds, the runs around them that become complete, and the pieces that overlap
//! the new ones. How long the table is does not matter but through these.

use std::sync::Arc;

use maple_wire::Constraint;
use rustc_hash::FxHashMap;

use super::pieces::{PieceId, Pieces, Says};
use super::table::Keeper;
use super::{LeafAction, Region, Rule, Target};
use crate::capabilities::Capabilities;
use crate::trace::{Cond, Item};
use crate::tree::{Augmented, Branch, Edit, Followed, LeafId, Node, NodeId, Tree};
use crate::update::Change;

/// A tree and its table.
#[derive(Debug)]
pub(super) struct Live {
    target: Target,
    tree: Tree,
    pieces: Pieces,
    actions: FxHashMap<LeafId, LeafAction>,
    /// By node.
    places: Vec<Option<Place>>,
    runs: Vec<Run>,
    free: Vec<RunId>,
}

/// Names a run while it lives.
type RunId = u32;

/// The run of all nodes whose packets the switch can't tell apart. It has no pieces.
const UNTOLD: RunId = 0;

/// What is known of a node.
#[derive(Debug)]
struct Place {
    run: RunId,
    kind: Kind,
    pieces: Vec<PieceId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Leaf,
    /// How many of its children are complete.
    Value {
        complete: u32,
    },
    /// Its yes-region can be matched, and is not all of the run's.
    Test,
    /// No packet of the run fits it.
    Never,
    /// All packets of the run fit it.
    Always,
    /// Only more than its yes-region can be matched.
    Wide,
    /// Its yes-region can't be matched at all.
    Blocked,
}

#[derive(Debug)]
struct Run {
    /// The test or `V` node above.
    above: Option<NodeId>,
    region: Arc<Region>,
    complete: bool,
    nodes: u32,
}

impl Live {
    pub(super) fn new(target: Target) -> Live {
        let untold = Run { above: None, region: Arc::new(Region::any()), complete: false, nodes: 1 };
        Live {
            pieces: Pieces::new(&target.priorities),
            target,
            tree: Tree::new(),
            actions: FxHashMap::default(),
            places: Vec::new(),
            runs: vec![untold],
            free: Vec::new(),
        }
    }

    /// Takes in a trace that the tree has taken in.
    fn take_in(&mut self, outcome: Augmented, leaf: LeafId, action: LeafAction) -> Augmented {
        match &outcome {
            Augmented::Existing(_) => return outcome,
            Augmented::Added => {}
            Augmented::Replaced { removed, .. } => removed.iter().for_each(|old| {
                self.actions.remove(old);
            }),
        }
        self.actions.insert(leaf, action);
        self.follow();
        outcome
    }

    /// Takes in what an edit of the tree did.
    fn follow(&mut self) {
        let Edit { place, removed, added } = self.tree.last_edit().clone();
        let was_complete = removed.last().is_some_and(|top| self.runs[self.place(*top).run as usize].complete);
        removed.into_iter().for_each(|node| self.forget(node));
        if let Some((above, branch)) = place {
            self.vacate(above, branch, was_complete);
        }
        self.grow(place, &added);
        if let Some((above, Branch::Outcome(true))) = place {
            self.show_test(above);
        }
        self.pieces.settle(&self.tree);
    }

    fn forget(&mut self, node: NodeId) {
        let Some(place) = self.places[node.index()].take() else { return };
        place.pieces.into_iter().for_each(|piece| self.pieces.remove(piece));
        let run = &mut self.runs[place.run as usize];
        run.nodes -= 1;
        if run.nodes == 0 {
            self.free.push(place.run);
        }
    }

    /// What was under a branch is gone; `was_complete` says whether it was complete, if it was a run of its own.
    fn vacate(&mut self, above: NodeId, branch: Branch, was_complete: bool) {
        let Place { run, kind, .. } = *self.place(above);
        match (kind, branch) {
            (Kind::Value { complete }, _) if was_complete && run != UNTOLD => {
                self.place_mut(above).kind = Kind::Value { complete: complete - 1 };
                self.complete(run, false);
            }
            (Kind::Test | Kind::Never | Kind::Wide, Branch::Outcome(false)) | (Kind::Always, Branch::Outcome(true)) => {
                self.complete(run, false)
            }
            _ => {}
        }
    }

    /// Puts in the new nodes, each the only child of the one before.
    fn grow(&mut self, place: Option<(NodeId, Branch)>, added: &[NodeId]) {
        let mut from = place;
        for (at, node) in added.iter().enumerate() {
            let run = self.run_under(from);
            let kind = self.kind(*node, run);
            self.runs[run as usize].nodes += 1;
            if self.places.len() <= node.index() {
                self.places.resize_with(node.index() + 1, || None);
            }
            self.places[node.index()] = Some(Place { run, kind, pieces: Vec::new() });
            from = added.get(at + 1).and_then(|next| self.tree.parent(*next));
        }
        if let Some(leaf) = added.last() {
            self.show_leaf(*leaf);
        }
        for node in added.iter().rev() {
            self.show_test(*node);
        }
    }

    /// The run that a new node under a branch is in.
    fn run_under(&mut self, from: Option<(NodeId, Branch)>) -> RunId {
        let Some((above, branch)) = from else {
            let cond = Cond { all: self.target.under.clone(), ranges: Vec::new() };
            return self.begin(None, Region::any().and(&cond));
        };
        let Place { run, kind, .. } = *self.place(above);
        if run == UNTOLD {
            return UNTOLD;
        }
        let region = self.runs[run as usize].region.clone();
        match (kind, branch, self.tree.node(above)) {
            (Kind::Test, Branch::Outcome(true), Node::Test { cond, .. }) => {
                let region = region.and(cond);
                self.begin(Some(above), region)
            }
            (Kind::Value { .. }, Branch::Value(value), Node::Value(values)) => {
                let region = region.with(&Constraint { field: values.field, value, mask: values.mask });
                self.begin(Some(above), region)
            }
            (Kind::Test | Kind::Never | Kind::Wide, Branch::Outcome(false), _)
            | (Kind::Always, Branch::Outcome(true), _) => run,
            _ => UNTOLD,
        }
    }

    fn begin(&mut self, above: Option<NodeId>, region: Option<Region>) -> RunId {
        let matched = region.filter(|region| region.matches(&self.target.capabilities).is_some());
        let Some(region) = matched else { return UNTOLD };
        let run = Run { above, region: Arc::new(region), complete: false, nodes: 0 };
        match self.free.pop() {
            Some(id) => {
                self.runs[id as usize] = run;
                id
            }
            None => {
                self.runs.push(run);
                RunId::try_from(self.runs.len() - 1).expect("a tree has fewer than 2^32 runs")
            }
        }
    }

    fn kind(&self, node: NodeId, run: RunId) -> Kind {
        let cond = match self.tree.node(node) {
            Node::Leaf(_) => return Kind::Leaf,
            Node::Value(_) => return Kind::Value { complete: 0 },
            Node::Test { cond, .. } => cond,
        };
        let rest = &*self.runs[run as usize].region;
        match rest.and(cond) {
            _ if run == UNTOLD => Kind::Blocked,
            None => Kind::Never,
            Some(region) if region == *rest => Kind::Always,
            Some(region) if region.matches(&self.target.capabilities).is_some() => Kind::Test,
            Some(_) if rest.widened(cond, &self.target.capabilities).is_some() => Kind::Wide,
            Some(_) => Kind::Blocked,
        }
    }

    /// Brings a leaf's own pieces up to date, and what its being complete means for the nodes above.
    fn show_leaf(&mut self, node: NodeId) {
        let Place { run, .. } = *self.place(node);
        let Node::Leaf(leaf) = *self.tree.node(node) else { return };
        if run == UNTOLD {
            return;
        }
        let parent = self.tree.parent(node).filter(|(_, branch)| *branch == Branch::Outcome(true));
        let test = parent.map(|(above, _)| above).filter(|above| self.place(*above).kind == Kind::Test);
        let (region, says, complete) = self.answer(leaf, run);
        let own = match (test, complete) {
            (Some(_), true) => None,
            _ => region,
        };
        self.show(node, own, Some(leaf), says);
        self.complete(run, complete);
        if let Some(test) = test {
            self.show_test(test);
        }
    }

    /// What a leaf does: the matches for which it has an answer, if any; the answer; whether it is for all of its run.
    fn answer(&self, leaf: LeafId, run: RunId) -> (Option<Vec<Vec<Constraint>>>, Says, bool) {
        let (region, capabilities) = (&self.runs[run as usize].region, &self.target.capabilities);
        match &self.actions[&leaf] {
            LeafAction::Apply(instructions) => {
                (region.matches(capabilities), Says::Answer(instructions.as_slice().into()), true)
            }
            LeafAction::ApplyTo(only, instructions) => {
                let narrowed = region.with(only);
                let matches = narrowed.as_ref().and_then(|narrowed| narrowed.matches(capabilities));
                let complete = matches.is_some() && narrowed.as_ref() == Some(&**region);
                (matches, Says::Answer(instructions.as_slice().into()), complete)
            }
            LeafAction::Controller => (None, Says::Unknown, false),
        }
    }

    /// Brings a test's pieces up to date with what its yes-side says.
    fn show_test(&mut self, node: NodeId) {
        let Place { run, kind, .. } = *self.place(node);
        let Node::Test { cond, yes, .. } = self.tree.node(node) else { return };
        let (rest, capabilities) = (&self.runs[run as usize].region, &self.target.capabilities);
        if kind == Kind::Wide {
            let wide = rest.widened(cond, capabilities).and_then(|wide| wide.matches(capabilities));
            return self.show(node, wide, None, Says::Partial);
        }
        if kind != Kind::Test {
            return;
        }
        let region = || rest.and(cond).and_then(|region| region.matches(capabilities));
        let (matches, leaf, says) = match yes.map(|yes| (yes, self.tree.node(yes))) {
            None => (region(), None, Says::Unknown),
            Some((yes, Node::Leaf(leaf))) => match self.answer(*leaf, self.place(yes).run) {
                (matches, says, true) => (matches, Some(*leaf), says),
                (None, ..) => (region(), Some(*leaf), Says::Unknown),
                (Some(_), ..) => (region(), Some(*leaf), Says::Partial),
            },
            Some((yes, _)) => {
                let complete = self.runs[self.place(yes).run as usize].complete;
                (if complete { None } else { region() }, None, Says::Partial)
            }
        };
        self.show(node, matches, leaf, says);
    }

    /// Has a node's pieces be these. The matches of a node are always the same ones, if there are any, unless a leaf's
    /// action changes.
    fn show(&mut self, node: NodeId, matches: Option<Vec<Vec<Constraint>>>, leaf: Option<LeafId>, says: Says) {
        let matches = matches.unwrap_or_default();
        let there = std::mem::take(&mut self.place_mut(node).pieces);
        let same = there.len() == matches.len() && there.iter().zip(&matches).all(|(p, all)| self.pieces.is(*p, all));
        let pieces = if same {
            there.iter().for_each(|piece| self.pieces.say(*piece, leaf, says.clone()));
            there
        } else {
            there.into_iter().for_each(|piece| self.pieces.remove(piece));
            matches.into_iter().map(|all| self.pieces.insert(all, node, leaf, says.clone())).collect()
        };
        self.place_mut(node).pieces = pieces;
    }

    /// Notes whether a run is complete, and what follows for the runs around it.
    fn complete(&mut self, run: RunId, complete: bool) {
        let (mut run, mut complete) = (run, complete);
        while run != UNTOLD && self.runs[run as usize].complete != complete {
            self.runs[run as usize].complete = complete;
            let Some(above) = self.runs[run as usize].above else { return };
            let Place { run: outer, kind, .. } = *self.place(above);
            let Kind::Value { complete: count } = kind else { return self.show_test(above) };
            let count = if complete { count + 1 } else { count - 1 };
            self.place_mut(above).kind = Kind::Value { complete: count };
            (run, complete) = (outer, self.has_all(above, outer, count));
        }
    }

    /// Whether a `V` node with so many complete children is complete.
    fn has_all(&self, node: NodeId, run: RunId, complete: u32) -> bool {
        let Node::Value(values) = self.tree.node(node) else { return false };
        let region = &self.runs[run as usize].region;
        let known = region.constraints().iter().find(|c| c.field == values.field).map_or(0, |c| c.mask);
        1u128.checked_shl((values.mask & !known).count_ones()) == Some(u128::from(complete))
    }

    fn place(&self, node: NodeId) -> &Place {
        self.places[node.index()].as_ref().expect("a node of the tree has its place")
    }

    fn place_mut(&mut self, node: NodeId) -> &mut Place {
        self.places[node.index()].as_mut().expect("a node of the tree has its place")
    }
}

impl Keeper for Live {
    fn tree(&self) -> &Tree {
        &self.tree
    }

    fn capabilities(&self) -> &Capabilities {
        &self.target.capabilities
    }

    fn augment(&mut self, items: &[Item], leaf: LeafId, action: LeafAction) -> Augmented {
        let outcome = self.tree.augment(items, leaf);
        self.take_in(outcome, leaf, action)
    }

    fn plant(&mut self, run: Followed, leaf: LeafId, action: LeafAction) -> Augmented {
        let outcome = self.tree.plant(run, leaf);
        self.take_in(outcome, leaf, action)
    }

    fn remove(&mut self, leaf: LeafId) -> bool {
        if !self.tree.remove(leaf) {
            return false;
        }
        self.actions.remove(&leaf);
        self.follow();
        true
    }

    fn act(&mut self, leaf: LeafId, action: LeafAction) {
        let Some(node) = self.tree.leaf_node(leaf) else { return };
        self.actions.insert(leaf, action);
        self.show_leaf(node);
        self.pieces.settle(&self.tree);
    }

    fn rules(&self) -> Vec<Rule> {
        self.pieces.rules(&self.target.cookie)
    }

    fn take_changes(&mut self) -> Vec<Change> {
        self.pieces.take_changes(&self.target.cookie)
    }

    fn visited(&self) -> u64 {
        self.pieces.visited()
    }
}
