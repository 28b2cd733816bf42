//! The product's compiler: it follows its tree, edit by edit.
//!
//! # What
//!
//! Every node of the tree is in a *region class*: nodes that stand for the same region of packets, as far as a match
//! can express it (`region_classes.rs`). The no-side of a test is in the test's own class, because a match can't state
//! that a test failed. A yes-side and the child of a `V` node begin a class of their own.
//!
//! A class is *complete* if every packet of its region gets to a forwarding leaf, or has a barrier entry of the class's
//! own tests. That is decided where the class ends: at a leaf, a `V` node or `Ω`.
//!
//! An edit of the tree becomes an edit of the entries (`node_entries.rs`, `entries/`):
//!
//! * A test has entries for its yes-region. They forward if the yes-side is a leaf. They are barrier entries while the
//!   yes-side is unexplored or incomplete. If entries within the yes-side suffice, there are none. So an unexplored
//!   yes-side has its place and its level, and the first leaf there costs one modification.
//! * A leaf elsewhere has entries for the region of its class.
//!
//! What the switch can't match is never stated. A yes-side or a child whose region can't be matched has no entries and
//! counts as unexplored. A test whose yes-region can't be matched has a wider barrier entry. If no part of the test can
//! be stated, its no-side has no entries either.
//!
//! # Cost
//!
//! A new trace costs the nodes that it adds, the classes around them that become complete, and the entries that overlap
//! the new ones. The length of the table matters only through these.

use std::sync::Arc;

use maple_prefetch::prefetch;
use maple_wire::Constraint;

use super::entries::{ActionId, Checks, EntryId, EntryTable};
use super::rule_table::TableBackend;
use super::tuning::Tuning;
use super::{LeafAction, TableTarget};
use crate::capabilities::Capabilities;
use crate::rule::Rule;
use crate::trace::{Cond, Fields, Item, Region};
use crate::tree::{Augmented, Edit, LeafId, Node, NodeId, Replayed, Tree, TreeBranch};
use crate::update::Change;

mod node_entries;
mod region_classes;

mod specialise;

use region_classes::{ClassId, RegionClasses, UNMATCHABLE};

/// The number of leaves for which memory is prefetched together, when several are removed. Chosen: enough for the reads
/// to overlap, and few enough that the first lines are still in the cache when they are used.
const PREFETCHED_LEAVES: usize = 32;

/// A tree and its table.
#[derive(Clone, Debug)]
pub(super) struct IncrementalCompiler {
    target: TableTarget,
    tree: Tree,
    entries: EntryTable,
    /// The information about each node.
    nodes: Vec<Option<NodeInfo>>,
    classes: RegionClasses,
    /// The last edit of the tree, and a scratch region, both kept to reuse their allocations.
    edit: Edit,
    scratch: Region,
    /// Whether a rebuild is under way: leaves are put into the table, and rules are computed when all are there.
    is_rebuilding: bool,
}

/// The information about a node.
#[derive(Clone, Debug)]
struct NodeInfo {
    class: ClassId,
    kind: NodeKind,
    entries: EntryIds,
    /// The behaviour of a leaf.
    behaviour: LeafBehaviour,
}

/// The entries of a node; mostly one.
#[derive(Clone, Debug, Default)]
enum EntryIds {
    #[default]
    None,
    One(EntryId),
    Several(Box<[EntryId]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeKind {
    Leaf,
    /// A `V` node with this many complete children.
    Value {
        complete: u32,
    },
    /// A test whose yes-region can be matched, and is not all of its class's region.
    Test,
    /// A test that no packet of its class fits.
    Never,
    /// A test that all packets of its class fit.
    Always,
    /// A test for which only more than its yes-region can be matched.
    Wide,
    /// A test whose yes-region can't be matched at all.
    Blocked,
}

/// The treatment of a leaf's packets.
#[derive(Clone, Debug, Default)]
struct LeafBehaviour {
    /// The constraint that forwarded packets must fit; the others go to the controller. `None`: all are forwarded.
    only: Option<Box<Constraint>>,
    /// The instructions, which are held. `None` sends all packets to the controller.
    action: Option<ActionId>,
}

/// The yes-region of a test of kind [`NodeKind::Test`].
struct YesRegion {
    region: Region,
    matches: Vec<Vec<Constraint>>,
}

impl IncrementalCompiler {
    pub(super) fn new(target: TableTarget, tuning: Tuning) -> IncrementalCompiler {
        IncrementalCompiler {
            entries: EntryTable::new(&target.priorities, tuning),
            target,
            tree: Tree::new(),
            nodes: Vec::new(),
            classes: RegionClasses::new(),
            edit: Edit::default(),
            scratch: Region::any(),
            is_rebuilding: false,
        }
    }

    /// Compiles the trace that was just added to the tree.
    fn compile_new_leaf(&mut self, outcome: Augmented, action: LeafAction) -> Augmented {
        if !matches!(outcome, Augmented::Existing(_)) {
            let behaviour = self.behaviour(action);
            self.apply_edit(behaviour);
            self.recompute(Checks::Now);
        }
        outcome
    }

    /// Computes rules and levels, unless that is done at the end of a rebuild.
    fn recompute(&mut self, checks: Checks) {
        if !self.is_rebuilding {
            self.entries.recompute(&self.tree, checks);
        }
    }

    fn behaviour(&mut self, action: LeafAction) -> LeafBehaviour {
        let (only, instructions) = match action {
            LeafAction::Apply(instructions) => (None, Some(instructions)),
            LeafAction::ApplyTo(only, instructions) => (Some(Box::new(only)), Some(instructions)),
            LeafAction::Controller => (None, None),
        };
        LeafBehaviour { only, action: instructions.map(|instructions| self.entries.intern(instructions)) }
    }

    /// Turns the last edit of the tree into edits of entries. `behaviour` is that of the new leaf, if there is one.
    fn apply_edit(&mut self, behaviour: LeafBehaviour) {
        let mut edit = std::mem::take(&mut self.edit);
        edit.copy(self.tree.last_edit());
        let Edit { place, ref removed, ref added } = edit;
        let was_complete = removed.last().is_some_and(|top| self.classes.is_complete(self.node(*top).class));
        removed.iter().for_each(|node| self.remove_node(*node));
        if let Some((above, branch)) = place {
            self.branch_emptied(above, branch, was_complete);
        }
        self.add_nodes(place, added, behaviour);
        if let Some((above, TreeBranch::Outcome(true))) = place {
            self.update_test(above, None);
        }
        self.edit = edit;
    }

    /// Prefetches what [`IncrementalCompiler::remove_node`] reads of some nodes.
    fn prefetch_removal(&self, nodes: &[NodeId]) {
        nodes.iter().for_each(|node| prefetch(&self.nodes[node.index()]));
        for node in nodes {
            let NodeInfo { class, entries, .. } = self.node(*node);
            prefetch(self.classes.memory(*class));
            entries.ids().iter().take(1).for_each(|id| self.entries.prefetch_removal(*id));
        }
    }

    fn remove_node(&mut self, node: NodeId) {
        let Some(info) = self.nodes[node.index()].take() else { return };
        info.entries.ids().iter().for_each(|id| self.entries.remove(*id));
        if let Some(action) = info.behaviour.action {
            self.entries.release(action);
        }
        self.classes.remove_node(info.class);
    }

    /// Updates a node when everything under a branch of it is gone. `was_complete` says whether the class there was
    /// complete, if it had one of its own.
    fn branch_emptied(&mut self, above: NodeId, branch: TreeBranch, was_complete: bool) {
        let NodeInfo { class, kind, .. } = *self.node(above);
        match (kind, branch) {
            (NodeKind::Value { complete }, _) if was_complete && class != UNMATCHABLE => {
                self.node_mut(above).kind = NodeKind::Value { complete: complete - 1 };
                self.set_complete(class, false);
            }
            (NodeKind::Test | NodeKind::Never | NodeKind::Wide, TreeBranch::Outcome(false))
            | (NodeKind::Always, TreeBranch::Outcome(true)) => self.set_complete(class, false),
            _ => {}
        }
    }

    /// Adds the new nodes, each the only child of the one before. The last one is a leaf.
    fn add_nodes(&mut self, place: Option<(NodeId, TreeBranch)>, added: &[NodeId], behaviour: LeafBehaviour) {
        if let (Some((above, TreeBranch::Value(value))), [leaf]) = (place, added) {
            return self.add_leaf_under_value(above, value, *leaf, behaviour);
        }
        let mut from = place;
        let mut sides: Vec<Option<YesRegion>> = Vec::with_capacity(added.len().saturating_sub(1));
        for (index, node) in added.iter().enumerate() {
            let class = self.class_under(from, sides.last().and_then(Option::as_ref));
            let (kind, yes) = self.classify(*node, class);
            if *node != added[added.len() - 1] {
                sides.push(yes);
            }
            self.add_node(*node, class, kind, LeafBehaviour::default());
            from = added.get(index + 1).and_then(|next| self.tree.parent(*next));
        }
        let Some(leaf) = added.last() else { return };
        self.node_mut(*leaf).behaviour = behaviour;
        self.update_leaf(*leaf);
        if let Some((_, TreeBranch::Value(_))) = self.tree.parent(*leaf) {
            self.classes.drop_region(self.node(*leaf).class);
        }
        for (node, yes) in added.iter().zip(sides).rev() {
            self.update_test(*node, yes.map(|yes| yes.matches));
        }
    }

    /// Adds a leaf directly under a `V` node. Most traces add such a leaf.
    fn add_leaf_under_value(&mut self, above: NodeId, value: u128, leaf: NodeId, behaviour: LeafBehaviour) {
        let mut region = std::mem::take(&mut self.scratch);
        let (outer, Node::Value(values)) = (self.node(above).class, self.tree.node(above)) else { return };
        let read = Constraint { field: values.field, value, mask: values.mask };
        let is_possible = outer != UNMATCHABLE && region.become_part(self.classes.region(outer), &read);
        let matches = if is_possible { region.stated_matches(&self.target.capabilities) } else { None };
        let class = if matches.is_some() { self.classes.create(Some(above), None) } else { UNMATCHABLE };
        self.add_node(leaf, class, NodeKind::Leaf, behaviour);
        if matches.is_some() {
            self.update_leaf_of(leaf, class, &region, matches);
        }
        self.scratch = region;
    }

    fn add_node(&mut self, node: NodeId, class: ClassId, kind: NodeKind, behaviour: LeafBehaviour) {
        self.classes.add_node(class);
        if self.nodes.len() <= node.index() {
            self.nodes.resize_with(node.index() + 1, || None);
        }
        self.nodes[node.index()] = Some(NodeInfo { class, kind, entries: EntryIds::None, behaviour });
    }

    /// Returns the class of a new node under a branch. If the branch is the yes-side of a new test, `yes` is its
    /// region.
    fn class_under(&mut self, from: Option<(NodeId, TreeBranch)>, yes: Option<&YesRegion>) -> ClassId {
        let Some((above, branch)) = from else {
            let cond = Cond { constraints: self.target.under.clone(), ranges: Vec::new() };
            return self.new_class(None, Region::any().and(&cond));
        };
        let NodeInfo { class, kind, .. } = *self.node(above);
        if class == UNMATCHABLE {
            return UNMATCHABLE;
        }
        let region = self.classes.region(class).clone();
        match (kind, branch, self.tree.node(above)) {
            (NodeKind::Test, TreeBranch::Outcome(true), Node::Test { cond, .. }) => match yes {
                Some(yes) => self.classes.create(Some(above), Some(Arc::new(yes.region.clone()))),
                None => {
                    let region = region.and(cond);
                    self.new_class(Some(above), region)
                }
            },
            (NodeKind::Value { .. }, TreeBranch::Value(value), Node::Value(values)) => {
                let region = region.with(&Constraint { field: values.field, value, mask: values.mask });
                self.new_class(Some(above), region)
            }
            (NodeKind::Test | NodeKind::Never | NodeKind::Wide, TreeBranch::Outcome(false), _)
            | (NodeKind::Always, TreeBranch::Outcome(true), _) => class,
            _ => UNMATCHABLE,
        }
    }

    /// Creates a class for a region, if that can be matched.
    fn new_class(&mut self, above: Option<NodeId>, region: Option<Region>) -> ClassId {
        let matchable = region.filter(|region| region.stated_matches(&self.target.capabilities).is_some());
        matchable.map_or(UNMATCHABLE, |region| self.classes.create(above, Some(Arc::new(region))))
    }

    fn classify(&self, node: NodeId, class: ClassId) -> (NodeKind, Option<YesRegion>) {
        let cond = match self.tree.node(node) {
            Node::Leaf(_) => return (NodeKind::Leaf, None),
            Node::Value(_) => return (NodeKind::Value { complete: 0 }, None),
            Node::Test { .. } if class == UNMATCHABLE => return (NodeKind::Blocked, None),
            Node::Test { cond, .. } => cond,
        };
        let whole = &**self.classes.region(class);
        let Some(region) = whole.and(cond) else { return (NodeKind::Never, None) };
        if region == *whole {
            return (NodeKind::Always, None);
        }
        match region.matches(&self.target.capabilities) {
            Some(matches) => (NodeKind::Test, Some(YesRegion { region, matches })),
            None if whole.widened(cond, &self.target.capabilities).is_some() => (NodeKind::Wide, None),
            None => (NodeKind::Blocked, None),
        }
    }

    /// Sets whether a class is complete, and updates the classes around it.
    fn set_complete(&mut self, class: ClassId, is_complete: bool) {
        let (mut class, mut is_complete) = (class, is_complete);
        while class != UNMATCHABLE && self.classes.is_complete(class) != is_complete {
            self.classes.set_complete(class, is_complete);
            let Some(above) = self.classes.above(class) else { return };
            let NodeInfo { class: outer, kind, .. } = *self.node(above);
            let NodeKind::Value { complete } = kind else { return self.update_test(above, None) };
            let complete = if is_complete { complete + 1 } else { complete - 1 };
            self.node_mut(above).kind = NodeKind::Value { complete };
            (class, is_complete) = (outer, self.are_all_values(above, outer, complete));
        }
    }

    /// Reports whether a `V` node can have no more than this many children.
    fn are_all_values(&self, node: NodeId, class: ClassId, children: u32) -> bool {
        let Node::Value(values) = self.tree.node(node) else { return false };
        let region = self.classes.region(class);
        let known = region.constraints().iter().find(|c| c.field == values.field).map_or(0, |c| c.mask);
        1u128.checked_shl((values.mask & !known).count_ones()) == Some(u128::from(children))
    }

    /// Returns the region of a leaf's class.
    fn region_of_leaf(&self, leaf: NodeId, class: ClassId) -> Arc<Region> {
        let under_value = || {
            let (above, branch) = self.tree.parent(leaf)?;
            let (Node::Value(values), TreeBranch::Value(value)) = (self.tree.node(above), branch) else { return None };
            let read = Constraint { field: values.field, value, mask: values.mask };
            self.classes.region(self.node(above).class).with(&read).map(Arc::new)
        };
        let stored = self.classes.stored_region(class).cloned();
        stored.or_else(under_value).expect("a leaf's region can be matched")
    }

    fn node(&self, node: NodeId) -> &NodeInfo {
        self.nodes[node.index()].as_ref().expect("every node of the tree is known")
    }

    fn node_mut(&mut self, node: NodeId) -> &mut NodeInfo {
        self.nodes[node.index()].as_mut().expect("every node of the tree is known")
    }
}

impl EntryIds {
    fn ids(&self) -> &[EntryId] {
        match self {
            EntryIds::None => &[],
            EntryIds::One(id) => std::slice::from_ref(id),
            EntryIds::Several(ids) => ids,
        }
    }
}

impl TableBackend for IncrementalCompiler {
    fn boxed_clone(&self) -> Box<dyn TableBackend> {
        Box::new(self.clone())
    }

    fn tree(&self) -> &Tree {
        &self.tree
    }

    fn capabilities(&self) -> &Capabilities {
        &self.target.capabilities
    }

    fn augment(&mut self, items: &[Item], leaf: LeafId, action: LeafAction) -> Augmented {
        let outcome = self.tree.augment(items, leaf);
        self.compile_new_leaf(outcome, action)
    }

    fn insert_replayed(&mut self, run: Replayed, leaf: LeafId, action: LeafAction, packet: &dyn Fields) -> Augmented {
        let outcome = self.tree.insert_replayed(run, leaf);
        let outcome = self.compile_new_leaf(outcome, action);
        if !matches!(outcome, Augmented::Existing(_)) {
            TableBackend::specialise_if_worthwhile(self, leaf, packet);
        }
        outcome
    }

    fn remove(&mut self, leaf: LeafId) -> bool {
        self.remove_all(&[leaf]) > 0
    }

    fn remove_all(&mut self, leaves: &[LeafId]) -> usize {
        let (mut removed, mut nodes) = (0, Vec::new());
        for some in leaves.chunks(PREFETCHED_LEAVES) {
            if some.len() > 1 {
                self.tree.prefetch_removal(some, &mut nodes);
                self.prefetch_removal(&nodes);
            }
            for leaf in some {
                if self.tree.remove(*leaf) {
                    self.apply_edit(LeafBehaviour::default());
                    removed += 1;
                }
            }
        }
        if removed > 0 {
            self.recompute(Checks::Deferred);
        }
        removed
    }

    fn set_action(&mut self, leaf: LeafId, action: LeafAction) {
        let Some(node) = self.tree.leaf_node(leaf) else { return };
        let behaviour = self.behaviour(action);
        let old = std::mem::replace(&mut self.node_mut(node).behaviour, behaviour);
        if let Some(test) = self.update_leaf(node) {
            self.update_test(test, None);
        }
        if let Some(action) = old.action {
            self.entries.release(action);
        }
        self.recompute(Checks::Now);
    }

    fn remove_redundant(&mut self) {
        self.entries.remove_redundant(&self.tree);
    }

    fn begin_rebuild(&mut self) {
        self.is_rebuilding = true;
    }

    fn end_rebuild(&mut self, preferred: &[(Vec<Constraint>, u16)]) {
        self.is_rebuilding = false;
        preferred.iter().for_each(|(all, priority)| self.entries.prefer(all, *priority));
        self.recompute(Checks::Now);
        self.remove_redundant();
        self.entries.built_again();
    }

    fn specialise(&mut self, leaf: LeafId, reads: &[Constraint]) {
        reads.iter().for_each(|read| self.specialise_by_if_stated(leaf, *read));
    }

    fn specialise_if_worthwhile(&mut self, leaf: LeafId, packet: &dyn Fields) {
        if !self.is_rebuilding {
            self.specialise_as_worthwhile(leaf, packet);
        }
    }

    fn priorities(&self) -> Vec<(Vec<Constraint>, u16)> {
        self.entries.priorities()
    }

    fn rules(&self) -> Vec<Rule> {
        self.entries.rules(&*self.target.cookie)
    }

    fn may_have_changes(&self) -> bool {
        self.entries.may_have_changes()
    }

    fn take_changes(&mut self) -> Vec<Change> {
        self.entries.take_changes(&*self.target.cookie)
    }

    fn visited(&self) -> u64 {
        self.entries.visited()
    }
}
