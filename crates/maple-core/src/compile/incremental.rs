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
//! An edit of the tree becomes an edit of the entries (`entries/`):
//!
//! * a test has entries for its yes-region. They are the answer of a leaf that stands there; barriers while the yes-side
//!   is unexplored or incomplete; and there are none where what lies in the yes-side says it all. So the place of an
//!   unexplored yes-side is kept, level and all, and its packet's answer needs one modification;
//! * a leaf elsewhere has entries for its run's region.
//!
//! What the switch can't match is never stated: a yes-side or a child whose region can't be matched has no entries and
//! counts as unexplored, a test whose region can't be matched has a wider barrier, and if nothing of it can be stated,
//! its no-side has no entries either.
//!
//! # Cost
//!
//! A new trace costs the nodes that it adds, the runs around them that become complete, and the entries that overlap
//! the new ones. How long the table is does not matter but through these.

use std::borrow::Cow;
use std::hint::black_box;
use std::sync::Arc;

use maple_wire::Constraint;

use super::entries::{ActionId, Checks, EntryId, EntryTable, Verdict};
use super::table::TableBackend;
use super::{LeafAction, Target};
use crate::capabilities::Capabilities;
use crate::rule::Rule;
use crate::trace::{Cond, Fields, Item, Region};
use crate::tree::{Augmented, Branch, Edit, LeafId, Node, NodeId, Replayed, Tree};
use crate::update::Change;

mod specialise;

/// How many leaves' memory is asked for at a time.
const AT_A_TIME: usize = 32;

/// A tree and its table.
#[derive(Debug)]
pub(super) struct IncrementalCompiler {
    target: Target,
    tree: Tree,
    entries: EntryTable,
    /// By node.
    places: Vec<Option<Place>>,
    runs: Vec<RegionClass>,
    free: Vec<ClassId>,
    /// The last edit of the tree, and a region, kept for their memory.
    edit: Edit,
    scratch: Region,
}

/// Names a run while it lives.
type ClassId = u32;

/// The run of all nodes whose packets the switch can't tell apart. It has no entries.
const UNMATCHABLE: ClassId = 0;

/// What is known of a node.
#[derive(Debug)]
struct Place {
    run: ClassId,
    kind: Kind,
    entries: EntryIds,
    /// Of a leaf.
    does: LeafBehaviour,
}

/// The entries of a node: mostly one.
#[derive(Debug, Default)]
enum EntryIds {
    #[default]
    None,
    One(EntryId),
    Several(Box<[EntryId]>),
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
struct RegionClass {
    /// The test or `V` node above.
    above: Option<NodeId>,
    /// `None` if the run is a leaf under a `V` node: the node's region and the value say it.
    region: Option<Arc<Region>>,
    complete: bool,
    nodes: u32,
}

/// What is to be done with a leaf's packets.
#[derive(Debug, Default)]
struct LeafBehaviour {
    /// Those that fit this; the others go to the controller.
    only: Option<Box<Constraint>>,
    /// The instructions, which are held. `None` is to send them to the controller.
    action: Option<ActionId>,
}

/// For which packets of its run a leaf has an answer.
enum Extent {
    All,
    Part(Vec<Vec<Constraint>>),
    Nothing,
}

/// The yes-region of a test whose kind is [`Kind::Test`].
struct Yes {
    region: Region,
    matches: Vec<Vec<Constraint>>,
}

impl IncrementalCompiler {
    pub(super) fn new(target: Target) -> IncrementalCompiler {
        let untold = RegionClass { above: None, region: Some(Arc::new(Region::any())), complete: false, nodes: 1 };
        IncrementalCompiler {
            entries: EntryTable::new(&target.priorities),
            target,
            tree: Tree::new(),
            places: Vec::new(),
            runs: vec![untold],
            free: Vec::new(),
            edit: Edit::default(),
            scratch: Region::any(),
        }
    }

    /// Takes in a trace that the tree has taken in.
    fn take_in(&mut self, outcome: Augmented, action: LeafAction) -> Augmented {
        if !matches!(outcome, Augmented::Existing(_)) {
            let does = self.does(action);
            self.apply_edit(does);
            self.entries.recompute(&self.tree, Checks::Now);
        }
        outcome
    }

    /// What an action is, in short.
    fn does(&mut self, action: LeafAction) -> LeafBehaviour {
        let (only, instructions) = match action {
            LeafAction::Apply(instructions) => (None, Some(instructions)),
            LeafAction::ApplyTo(only, instructions) => (Some(Box::new(only)), Some(instructions)),
            LeafAction::Controller => (None, None),
        };
        LeafBehaviour { only, action: instructions.map(|instructions| self.entries.name(instructions)) }
    }

    /// Takes in what an edit of the tree did. If there is a new leaf, it does this.
    fn apply_edit(&mut self, does: LeafBehaviour) {
        let mut edit = std::mem::take(&mut self.edit);
        edit.copy(self.tree.last_edit());
        let Edit { place, ref removed, ref added } = edit;
        let was_complete = removed.last().is_some_and(|top| self.runs[self.place(*top).run as usize].complete);
        removed.iter().for_each(|node| self.forget(*node));
        if let Some((above, branch)) = place {
            self.vacate(above, branch, was_complete);
        }
        self.grow(place, added, does);
        if let Some((above, Branch::Outcome(true))) = place {
            self.show_test(above, None);
        }
        self.edit = edit;
    }

    /// Reads what [`IncrementalCompiler::forget`] will read of some nodes, as [`Tree::about_to_remove`] does.
    fn about_to_forget(&self, nodes: &[NodeId]) {
        let entries = |node: &NodeId| self.place(*node).entries.ids().first().map_or(0, |id| u64::from(*id));
        black_box(nodes.iter().map(entries).fold(0, |all, word| all ^ word));
        let touch = |node: &NodeId| {
            let Place { run, entries, .. } = self.place(*node);
            let run = u64::from(self.runs[*run as usize].nodes);
            entries.ids().first().map_or(run, |id| run ^ self.entries.touch_all(*id))
        };
        black_box(nodes.iter().map(touch).fold(0, |all, word| all ^ word));
    }

    fn forget(&mut self, node: NodeId) {
        let Some(place) = self.places[node.index()].take() else { return };
        place.entries.ids().iter().for_each(|entry| self.entries.remove(*entry));
        place.does.action.into_iter().for_each(|action| self.entries.release(action));
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
            (Kind::Value { complete }, _) if was_complete && run != UNMATCHABLE => {
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
    fn grow(&mut self, place: Option<(NodeId, Branch)>, added: &[NodeId], does: LeafBehaviour) {
        if let (Some((above, Branch::Value(value))), [leaf]) = (place, added) {
            return self.grow_leaf(above, value, *leaf, does);
        }
        let mut from = place;
        let mut sides: Vec<Option<Yes>> = Vec::with_capacity(added.len().saturating_sub(1));
        for (at, node) in added.iter().enumerate() {
            let run = self.run_under(from, sides.last().and_then(Option::as_ref));
            let (kind, yes) = self.kind(*node, run);
            if *node != added[added.len() - 1] {
                sides.push(yes);
            }
            self.runs[run as usize].nodes += 1;
            self.put_place(*node, Place { run, kind, entries: EntryIds::None, does: LeafBehaviour::default() });
            from = added.get(at + 1).and_then(|next| self.tree.parent(*next));
        }
        let Some(leaf) = added.last() else { return };
        self.place_mut(*leaf).does = does;
        self.show_leaf(*leaf);
        if let Some((_, Branch::Value(_))) = self.tree.parent(*leaf) {
            let run = self.place(*leaf).run;
            if run != UNMATCHABLE {
                self.runs[run as usize].region = None;
            }
        }
        for (node, yes) in added.iter().zip(sides).rev() {
            self.show_test(*node, yes.map(|yes| yes.matches));
        }
    }

    /// Puts in a new leaf right under a `V` node, for a value of it: what most traces bring.
    fn grow_leaf(&mut self, above: NodeId, value: u128, leaf: NodeId, does: LeafBehaviour) {
        let mut region = std::mem::take(&mut self.scratch);
        let (outer, Node::Value(values)) = (self.place(above).run, self.tree.node(above)) else { return };
        let read = Constraint { field: values.field, value, mask: values.mask };
        let may_be_told = outer != UNMATCHABLE && region.become_part(self.region(outer), &read);
        let told = if may_be_told { region.stated(&self.target.capabilities) } else { None };
        let run = if told.is_some() { self.begin_run(Some(above), None) } else { UNMATCHABLE };
        self.runs[run as usize].nodes += 1;
        self.put_place(leaf, Place { run, kind: Kind::Leaf, entries: EntryIds::None, does });
        if told.is_some() {
            self.show_leaf_of(leaf, run, &region, told);
        }
        self.scratch = region;
    }

    fn put_place(&mut self, node: NodeId, place: Place) {
        if self.places.len() <= node.index() {
            self.places.resize_with(node.index(), || None);
            self.places.push(Some(place));
        } else {
            self.places[node.index()] = Some(place);
        }
    }

    /// The run that a new node under a branch is in. If the branch is the yes-side of a new test, `yes` is its region.
    fn run_under(&mut self, from: Option<(NodeId, Branch)>, yes: Option<&Yes>) -> ClassId {
        let Some((above, branch)) = from else {
            let cond = Cond { all: self.target.under.clone(), ranges: Vec::new() };
            return self.begin(None, Region::any().and(&cond));
        };
        let Place { run, kind, .. } = *self.place(above);
        if run == UNMATCHABLE {
            return UNMATCHABLE;
        }
        let region = self.region(run).clone();
        match (kind, branch, self.tree.node(above)) {
            (Kind::Test, Branch::Outcome(true), Node::Test { cond, .. }) => match yes {
                Some(yes) => self.begin_matched(Some(above), yes.region.clone()),
                None => {
                    let region = region.and(cond);
                    self.begin(Some(above), region)
                }
            },
            (Kind::Value { .. }, Branch::Value(value), Node::Value(values)) => {
                let region = region.with(&Constraint { field: values.field, value, mask: values.mask });
                self.begin(Some(above), region)
            }
            (Kind::Test | Kind::Never | Kind::Wide, Branch::Outcome(false), _)
            | (Kind::Always, Branch::Outcome(true), _) => run,
            _ => UNMATCHABLE,
        }
    }

    fn begin(&mut self, above: Option<NodeId>, region: Option<Region>) -> ClassId {
        let matched = region.filter(|region| region.stated(&self.target.capabilities).is_some());
        matched.map_or(UNMATCHABLE, |region| self.begin_matched(above, region))
    }

    fn begin_matched(&mut self, above: Option<NodeId>, region: Region) -> ClassId {
        self.begin_run(above, Some(Arc::new(region)))
    }

    fn begin_run(&mut self, above: Option<NodeId>, region: Option<Arc<Region>>) -> ClassId {
        let run = RegionClass { above, region, complete: false, nodes: 0 };
        match self.free.pop() {
            Some(id) => {
                self.runs[id as usize] = run;
                id
            }
            None => {
                self.runs.push(run);
                ClassId::try_from(self.runs.len() - 1).expect("a tree has fewer than 2^32 runs")
            }
        }
    }

    fn kind(&self, node: NodeId, run: ClassId) -> (Kind, Option<Yes>) {
        let cond = match self.tree.node(node) {
            Node::Leaf(_) => return (Kind::Leaf, None),
            Node::Value(_) => return (Kind::Value { complete: 0 }, None),
            Node::Test { .. } if run == UNMATCHABLE => return (Kind::Blocked, None),
            Node::Test { cond, .. } => cond,
        };
        let rest = &**self.region(run);
        let Some(region) = rest.and(cond) else { return (Kind::Never, None) };
        if region == *rest {
            return (Kind::Always, None);
        }
        match region.matches(&self.target.capabilities) {
            Some(matches) => (Kind::Test, Some(Yes { region, matches })),
            None if rest.widened(cond, &self.target.capabilities).is_some() => (Kind::Wide, None),
            None => (Kind::Blocked, None),
        }
    }

    /// Brings a leaf's own entries up to date, and what its being complete means for the nodes above. Gives the test
    /// whose yes-side the leaf is, if that has entries for it: they are to be brought up to date next.
    fn show_leaf(&mut self, node: NodeId) -> Option<NodeId> {
        let Place { run, .. } = *self.place(node);
        if run == UNMATCHABLE {
            return None;
        }
        let region = self.region_of_leaf(node, run);
        self.show_leaf_of(node, run, &region, None)
    }

    /// [`IncrementalCompiler::show_leaf`], for a leaf whose run has this region; `told` are the matches that state it, if they are known.
    fn show_leaf_of(
        &mut self,
        node: NodeId,
        run: ClassId,
        region: &Region,
        told: Option<Cow<[Vec<Constraint>]>>,
    ) -> Option<NodeId> {
        let Node::Leaf(leaf) = *self.tree.node(node) else { return None };
        let parent = self.tree.parent(node).filter(|(_, branch)| *branch == Branch::Outcome(true));
        let test = parent.map(|(above, _)| above).filter(|above| self.place(*above).kind == Kind::Test);
        let (extent, says) = self.answer(node, region);
        let complete = matches!(extent, Extent::All);
        let own = match extent {
            Extent::All if test.is_none() => told.or_else(|| region.stated(&self.target.capabilities)),
            Extent::Part(matches) => Some(Cow::Owned(matches)),
            Extent::All | Extent::Nothing => None,
        };
        self.show(node, &own.unwrap_or_default(), Some(leaf), says);
        match test {
            Some(_) => self.runs[run as usize].complete = complete,
            None => self.complete(run, complete),
        }
        test
    }

    /// What a leaf answers, and to which packets of its run, whose region this is.
    fn answer(&self, leaf: NodeId, region: &Region) -> (Extent, Verdict) {
        let does = &self.place(leaf).does;
        let Some(action) = does.action else { return (Extent::Nothing, Verdict::Unexplored) };
        let extent = match &does.only {
            None => Extent::All,
            Some(only) => match region.with(only) {
                Some(narrowed) if narrowed == *region => Extent::All,
                narrowed => narrowed
                    .and_then(|narrowed| narrowed.matches(&self.target.capabilities))
                    .map_or(Extent::Nothing, Extent::Part),
            },
        };
        (extent, Verdict::Forward(action))
    }

    /// Brings a test's entries up to date with what its yes-side says. The matches of its yes-region are `matches`, if
    /// they are known.
    fn show_test(&mut self, node: NodeId, matches: Option<Vec<Vec<Constraint>>>) {
        let Place { run, kind, .. } = *self.place(node);
        let Node::Test { cond, yes, .. } = self.tree.node(node) else { return };
        let (rest, capabilities) = (self.region(run), &self.target.capabilities);
        if kind == Kind::Wide {
            let wide = rest.widened(cond, capabilities).and_then(|wide| wide.matches(capabilities));
            return self.show(node, &wide.unwrap_or_default(), None, Verdict::PartiallyExplored);
        }
        if kind != Kind::Test {
            return;
        }
        let (is_shown, leaf, says) = match yes.map(|yes| (yes, self.tree.node(yes))) {
            None => (true, None, Verdict::Unexplored),
            Some((yes, Node::Leaf(leaf))) => match self.answer(yes, self.region(self.place(yes).run)) {
                (Extent::All, says) => (true, Some(*leaf), says),
                (Extent::Part(_), _) => (true, Some(*leaf), Verdict::PartiallyExplored),
                (Extent::Nothing, _) => (true, Some(*leaf), Verdict::Unexplored),
            },
            Some((yes, _)) => (!self.runs[self.place(yes).run as usize].complete, None, Verdict::PartiallyExplored),
        };
        if is_shown && !self.place(node).entries.ids().is_empty() {
            // They are of the yes-region, whatever they said so far.
            let there = std::mem::take(&mut self.place_mut(node).entries);
            there.ids().iter().for_each(|entry| self.entries.say(*entry, leaf, says));
            self.place_mut(node).entries = there;
            return;
        }
        let region = || matches.or_else(|| rest.and(cond).and_then(|region| region.matches(capabilities)));
        let matches = if is_shown { region() } else { None };
        self.show(node, &matches.unwrap_or_default(), leaf, says);
    }

    /// Has a node's entries be these. The matches of a node are always the same ones, if there are any, unless a leaf's
    /// action changes.
    fn show(&mut self, node: NodeId, matches: &[Vec<Constraint>], leaf: Option<LeafId>, says: Verdict) {
        let there = std::mem::take(&mut self.place_mut(node).entries);
        let ids = there.ids();
        let same = ids.len() == matches.len() && ids.iter().zip(matches).all(|(p, all)| self.entries.is(*p, all));
        let entries = if same {
            ids.iter().for_each(|entry| self.entries.say(*entry, leaf, says));
            there
        } else {
            ids.iter().for_each(|entry| self.entries.remove(*entry));
            let mut insert = |all: &Vec<_>| self.entries.insert(&self.tree, all, node, leaf, says);
            match matches {
                [] => EntryIds::None,
                [one] => EntryIds::One(insert(one)),
                several => EntryIds::Several(several.iter().map(insert).collect()),
            }
        };
        self.place_mut(node).entries = entries;
    }

    /// Notes whether a run is complete, and what follows for the runs around it.
    fn complete(&mut self, run: ClassId, complete: bool) {
        let (mut run, mut complete) = (run, complete);
        while run != UNMATCHABLE && self.runs[run as usize].complete != complete {
            self.runs[run as usize].complete = complete;
            let Some(above) = self.runs[run as usize].above else { return };
            let Place { run: outer, kind, .. } = *self.place(above);
            let Kind::Value { complete: count } = kind else { return self.show_test(above, None) };
            let count = if complete { count + 1 } else { count - 1 };
            self.place_mut(above).kind = Kind::Value { complete: count };
            (run, complete) = (outer, self.has_all(above, outer, count));
        }
    }

    /// Whether a `V` node with so many complete children is complete.
    fn has_all(&self, node: NodeId, run: ClassId, complete: u32) -> bool {
        let Node::Value(values) = self.tree.node(node) else { return false };
        let region = self.region(run);
        let known = region.constraints().iter().find(|c| c.field == values.field).map_or(0, |c| c.mask);
        1u128.checked_shl((values.mask & !known).count_ones()) == Some(u128::from(complete))
    }

    /// The region of a run that is more than a leaf under a `V` node.
    fn region(&self, run: ClassId) -> &Arc<Region> {
        self.runs[run as usize].region.as_ref().expect("nothing but a leaf's run does without its region")
    }

    /// The region of the run that a leaf is in.
    fn region_of_leaf(&self, leaf: NodeId, run: ClassId) -> Arc<Region> {
        let value = || {
            let (above, branch) = self.tree.parent(leaf)?;
            let (Node::Value(values), Branch::Value(value)) = (self.tree.node(above), branch) else { return None };
            let read = Constraint { field: values.field, value, mask: values.mask };
            self.region(self.place(above).run).with(&read).map(Arc::new)
        };
        self.runs[run as usize].region.clone().or_else(value).expect("a leaf's region can be matched")
    }

    fn place(&self, node: NodeId) -> &Place {
        self.places[node.index()].as_ref().expect("a node of the tree has its place")
    }

    fn place_mut(&mut self, node: NodeId) -> &mut Place {
        self.places[node.index()].as_mut().expect("a node of the tree has its place")
    }
}

impl EntryIds {
    fn ids(&self) -> &[EntryId] {
        match self {
            EntryIds::None => &[],
            EntryIds::One(entry) => std::slice::from_ref(entry),
            EntryIds::Several(entries) => entries,
        }
    }
}

impl TableBackend for IncrementalCompiler {
    fn tree(&self) -> &Tree {
        &self.tree
    }

    fn capabilities(&self) -> &Capabilities {
        &self.target.capabilities
    }

    fn augment(&mut self, items: &[Item], leaf: LeafId, action: LeafAction) -> Augmented {
        let outcome = self.tree.augment(items, leaf);
        self.take_in(outcome, action)
    }

    fn insert_replayed(&mut self, run: Replayed, leaf: LeafId, action: LeafAction, packet: &dyn Fields) -> Augmented {
        let outcome = self.tree.insert_replayed(run, leaf);
        let outcome = self.take_in(outcome, action);
        if !matches!(outcome, Augmented::Existing(_)) {
            self.specialise_if_worthwhile(leaf, packet);
        }
        outcome
    }

    fn remove(&mut self, leaf: LeafId) -> bool {
        if !self.tree.remove(leaf) {
            return false;
        }
        self.apply_edit(LeafBehaviour::default());
        self.entries.recompute(&self.tree, Checks::Deferred);
        true
    }

    fn remove_all(&mut self, leaves: &[LeafId]) -> usize {
        let (mut removed, mut nodes) = (0, Vec::new());
        for some in leaves.chunks(AT_A_TIME) {
            if some.len() > 1 {
                self.tree.prefetch_removal(some, &mut nodes);
                self.about_to_forget(&nodes);
            }
            for leaf in some {
                if self.tree.remove(*leaf) {
                    self.apply_edit(LeafBehaviour::default());
                    removed += 1;
                }
            }
        }
        if removed > 0 {
            self.entries.recompute(&self.tree, Checks::Deferred);
        }
        removed
    }

    fn set_action(&mut self, leaf: LeafId, action: LeafAction) {
        let Some(node) = self.tree.leaf_node(leaf) else { return };
        let does = self.does(action);
        let old = std::mem::replace(&mut self.place_mut(node).does, does);
        if let Some(test) = self.show_leaf(node) {
            self.show_test(test, None);
        }
        old.action.into_iter().for_each(|action| self.entries.release(action));
        self.entries.recompute(&self.tree, Checks::Now);
    }

    fn remove_redundant(&mut self) {
        self.entries.remove_redundant(&self.tree);
    }

    fn rules(&self) -> Vec<Rule> {
        self.entries.rules(&self.target.cookie)
    }

    fn take_changes(&mut self) -> Vec<Change> {
        self.entries.take_changes(&self.target.cookie)
    }

    fn visited(&self) -> u64 {
        self.entries.visited()
    }
}
