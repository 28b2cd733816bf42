//! The trace tree with the annotations of the order graph `G_o`, and its edits.

use std::collections::BTreeMap;
use std::sync::Arc;

use maple_core::capabilities::Capabilities;
use maple_core::compile::{LeafAction, TableTarget};
use maple_core::rule::Rule;
use maple_core::trace::{Cond, Item, Region};
use maple_core::tree::LeafId;
use maple_wire::{Constraint, Field};
use rustc_hash::{FxHashMap, FxHashSet};

/// A trace tree whose nodes know their priorities.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    pub(super) target: TableTarget,
    pub(super) root: Option<NodeId>,
    pub(super) leaves: FxHashMap<LeafId, NodeId>,
    slots: Vec<Option<Node>>,
    free: Vec<NodeId>,
    /// The area of all packets that can come here; `None` if the switch can't match them.
    everything: Option<Arc<Area>>,
    /// The nodes whose rules may differ from what was sent when changes were last taken.
    pub(super) touched: FxHashSet<NodeId>,
    /// The rules of these nodes as they were sent.
    pub(super) sent: Vec<Rule>,
    /// The highest priority of any rule.
    pub(super) highest: u32,
    /// Priorities below this one have no number within the target's. Rules with them are left out.
    pub(super) lowest: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NodeId(u32);

/// The place of a node among its parent's children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Branch {
    Value(u128),
    Yes,
    No,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) parent: Option<(NodeId, Branch)>,
    /// The accumulated match; `None` if the node and those below it may have no rule.
    pub(super) area: Option<Arc<Area>>,
    /// The minimum priority of rules of this node and those below it.
    pub(super) base: u32,
    /// The paper's `isComplete`.
    pub(super) complete: bool,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A leaf, whose rule has the priority `base`.
    Leaf {
        leaf: LeafId,
        action: LeafAction,
    },
    Value {
        field: Field,
        mask: u128,
        children: BTreeMap<u128, NodeId>,
        complete_children: u128,
        /// The number of possible values, unless it is too large.
        values: Option<u128>,
    },
    Test(Test),
}

#[derive(Clone, Debug)]
pub(super) struct Test {
    pub(super) question: Question,
    pub(super) yes: Option<NodeId>,
    pub(super) no: Option<NodeId>,
    pub(super) priority: u32,
    /// Whether `priority` was raised, and the barrier rule and the yes-side have not followed yet.
    pub(super) raised: bool,
    /// Whether there is a barrier rule: the paper's `needsBarrier`.
    pub(super) barrier: bool,
}

/// The effect of a test on the packets that arrive at it.
#[derive(Clone, Debug)]
pub(super) enum Question {
    /// Packets of this area fit.
    Splits(Arc<Area>),
    /// The packets that fit can't be matched exactly. They are part of this area.
    Within(Arc<Area>),
    /// No packet fits.
    Never,
    /// All packets fit.
    Always,
    /// Neither side can be matched.
    Unstated,
}

/// A region that the switch can match, and the matches for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) region: Region,
    pub(super) matches: Vec<Vec<Constraint>>,
}

impl Graph {
    /// Returns the capabilities of the switch.
    pub(super) fn capabilities(&self) -> &Capabilities {
        &self.target.capabilities
    }

    /// Creates the empty tree `Ω`.
    pub(super) fn new(target: TableTarget) -> Graph {
        let mut graph = Graph {
            target,
            root: None,
            leaves: FxHashMap::default(),
            slots: Vec::new(),
            free: Vec::new(),
            everything: None,
            touched: FxHashSet::default(),
            sent: Vec::new(),
            highest: 0,
            lowest: 0,
        };
        let under = Cond { constraints: graph.target.under.clone(), ranges: Vec::new() };
        graph.everything = Region::any().and(&under).and_then(|region| graph.area(region));
        graph
    }

    /// Adds a trace (Algorithm 3, with the changes of §4.4). It must end where the tree is unexplored.
    pub(super) fn augment(&mut self, items: &[Item], leaf: LeafId, action: LeafAction) {
        let (mut from, mut here, mut depth) = (None, self.root, 0);
        while let Some(node) = here {
            from = Some((node, Branch::taken_by(&items[depth])));
            here = from.and_then(|(node, branch)| self.child(node, branch));
            depth += 1;
        }
        let place = from;
        for item in &items[depth..] {
            let node = self.insert(from, |graph, area| graph.asking(item, area));
            from = Some((node, Branch::taken_by(item)));
        }
        let at = self.insert(from, |_, _| Kind::Leaf { leaf, action });
        self.leaves.insert(leaf, at);
        self.build(place, at);
        self.fit();
    }

    /// Removes a leaf, and the nodes from which no other leaf can be reached.
    pub(super) fn remove(&mut self, leaf: LeafId) {
        if let Some(at) = self.leaves.remove(&leaf) {
            self.prune(at);
            self.fit();
        }
    }

    fn prune(&mut self, leaf: NodeId) {
        let mut at = leaf;
        loop {
            self.touch(at);
            let (parent, was_complete) = (self.node(at).parent, self.node(at).complete);
            self.slots[at.0 as usize] = None;
            self.free.push(at);
            let Some((above, branch)) = parent else {
                self.root = None;
                return;
            };
            // A node without children has no rule that its parent's barrier rule would not cover.
            self.link(above, branch, None);
            if !self.is_dead(above) {
                return self.settle(parent, was_complete, false);
            }
            at = above;
        }
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        self.slots[id.0 as usize].as_ref().expect("a linked node is there")
    }

    pub(super) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.slots[id.0 as usize].as_mut().expect("a linked node is there")
    }

    /// Returns the node, if it still exists.
    pub(super) fn get(&self, id: NodeId) -> Option<&Node> {
        self.slots[id.0 as usize].as_ref()
    }

    /// Returns the test at a node.
    pub(super) fn test_mut(&mut self, id: NodeId) -> &mut Test {
        match &mut self.node_mut(id).kind {
            Kind::Test(test) => test,
            Kind::Leaf { .. } | Kind::Value { .. } => unreachable!("the node is a test"),
        }
    }

    /// Returns all nodes that exist.
    pub(super) fn ids(&self) -> impl Iterator<Item = NodeId> {
        (0..self.slots.len() as u32).map(NodeId).filter(|id| self.get(*id).is_some())
    }

    fn child(&self, node: NodeId, branch: Branch) -> Option<NodeId> {
        match (&self.node(node).kind, branch) {
            (Kind::Value { children, .. }, Branch::Value(value)) => children.get(&value).copied(),
            (Kind::Test(test), Branch::Yes) => test.yes,
            (Kind::Test(test), Branch::No) => test.no,
            _ => unreachable!("the trace fits the tree"),
        }
    }

    /// Reports whether no leaf can be reached from a node whose children have just changed.
    fn is_dead(&self, node: NodeId) -> bool {
        match &self.node(node).kind {
            Kind::Leaf { .. } => false,
            Kind::Value { children, .. } => children.is_empty(),
            Kind::Test(test) => test.yes.is_none() && test.no.is_none(),
        }
    }

    fn insert(
        &mut self,
        parent: Option<(NodeId, Branch)>,
        kind: impl FnOnce(&Graph, Option<&Arc<Area>>) -> Kind,
    ) -> NodeId {
        let area = match parent {
            None => self.everything.clone(),
            Some((above, branch)) => self.child_area(above, branch),
        };
        let kind = kind(self, area.as_ref());
        let node = Node { parent, area, base: 0, complete: false, kind };
        let id = self.free.pop().unwrap_or(NodeId(self.slots.len() as u32));
        if id.0 as usize == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[id.0 as usize] = Some(node);
        // The new node has sent no rules.
        self.touched.insert(id);
        match parent {
            None => self.root = Some(id),
            Some((above, branch)) => self.link(above, branch, Some(id)),
        }
        id
    }

    fn link(&mut self, parent: NodeId, branch: Branch, child: Option<NodeId>) {
        match (&mut self.node_mut(parent).kind, branch, child) {
            (Kind::Value { children, .. }, Branch::Value(value), Some(child)) => {
                children.insert(value, child);
            }
            (Kind::Value { children, .. }, Branch::Value(value), None) => {
                children.remove(&value);
            }
            (Kind::Test(test), Branch::Yes, child) => test.yes = child,
            (Kind::Test(test), Branch::No, child) => test.no = child,
            _ => unreachable!("a branch is of its parent's kind"),
        }
    }

    /// Returns the kind of the node that asks the item's question, for the packets of an area.
    fn asking(&self, item: &Item, area: Option<&Arc<Area>>) -> Kind {
        match item {
            Item::Read(Constraint { field, mask, .. }) => {
                let constraints = area.map_or(&[][..], |area| area.region.constraints());
                let known = constraints.iter().find(|c| c.field == *field).map_or(0, |c| c.mask);
                let values = 1u128.checked_shl((mask & !known).count_ones());
                let (field, mask) = (*field, *mask);
                Kind::Value { field, mask, children: BTreeMap::new(), complete_children: 0, values }
            }
            Item::Test { cond, .. } => Kind::Test(Test {
                question: self.question(cond, area),
                yes: None,
                no: None,
                priority: 0,
                raised: false,
                barrier: false,
            }),
        }
    }

    fn question(&self, cond: &Cond, area: Option<&Arc<Area>>) -> Question {
        let Some(area) = area else { return Question::Unstated };
        match area.region.and(cond) {
            None => Question::Never,
            Some(region) if region == area.region => Question::Always,
            Some(region) => match self.area(region) {
                Some(yes) => Question::Splits(yes),
                None => self.widened(area, cond).map_or(Question::Unstated, Question::Within),
            },
        }
    }

    fn child_area(&self, node: NodeId, branch: Branch) -> Option<Arc<Area>> {
        let Node { area, kind, .. } = self.node(node);
        match (kind, branch) {
            (Kind::Value { field, mask, .. }, Branch::Value(value)) => {
                let constraint = Constraint { field: *field, value, mask: *mask };
                self.area(area.as_ref()?.region.with(&constraint)?)
            }
            (Kind::Test(test), Branch::Yes) => match &test.question {
                Question::Splits(yes) => Some(yes.clone()),
                Question::Always => area.clone(),
                Question::Within(_) | Question::Never | Question::Unstated => None,
            },
            (Kind::Test(test), Branch::No) => match &test.question {
                Question::Splits(_) | Question::Within(_) | Question::Never => area.clone(),
                Question::Always | Question::Unstated => None,
            },
            _ => unreachable!("a branch is of its parent's kind"),
        }
    }

    pub(super) fn area(&self, region: Region) -> Option<Arc<Area>> {
        let matches = region.matches(&self.target.capabilities)?;
        Some(Arc::new(Area { region, matches }))
    }

    /// Returns the smallest area within `rest` that contains all packets that fit `cond`, as far as
    /// parts of `cond` can be matched. Returns `None` if that would be all of `rest`.
    fn widened(&self, rest: &Arc<Area>, cond: &Cond) -> Option<Arc<Area>> {
        let parts = cond.constraints.iter().map(|c| Cond { constraints: vec![*c], ranges: Vec::new() });
        let mut wide = None;
        for part in parts.chain(cond.ranges.iter().map(|range| Cond { constraints: Vec::new(), ranges: vec![*range] }))
        {
            let within: &Arc<Area> = wide.as_ref().unwrap_or(rest);
            let narrower = within.region.and(&part).filter(|region| *region != within.region);
            if let Some(area) = narrower.and_then(|region| self.area(region)) {
                wide = Some(area);
            }
        }
        wide
    }
}

impl Test {
    /// Returns the area to which the rules of the negative side must yield: that of the barrier rule.
    pub(super) fn positive(&self) -> Option<&Arc<Area>> {
        match &self.question {
            Question::Splits(area) | Question::Within(area) => Some(area),
            Question::Never | Question::Always | Question::Unstated => None,
        }
    }

    /// Returns the minimum priority of the positive side.
    pub(super) fn positive_base(&self) -> u32 {
        self.priority + u32::from(self.barrier)
    }
}

impl Branch {
    /// Returns the branch that a packet with this item takes.
    fn taken_by(item: &Item) -> Branch {
        match item {
            Item::Read(constraint) => Branch::Value(constraint.value),
            Item::Test { outcome: true, .. } => Branch::Yes,
            Item::Test { outcome: false, .. } => Branch::No,
        }
    }
}

impl Area {
    /// Reports whether a packet can be in both areas.
    pub(super) fn overlaps(&self, other: &Area) -> bool {
        self.matches.iter().any(|a| other.matches.iter().any(|b| overlap(a, b)))
    }
}

/// Reports whether a packet can fit both matches (constraints in OXM order): they agree in the bits that both fix.
fn overlap(a: &[Constraint], b: &[Constraint]) -> bool {
    let mut rest = b.iter().peekable();
    a.iter().all(|x| {
        while rest.next_if(|y| y.field < x.field).is_some() {}
        rest.peek().is_none_or(|y| y.field != x.field || (x.value ^ y.value) & x.mask & y.mask == 0)
    })
}
