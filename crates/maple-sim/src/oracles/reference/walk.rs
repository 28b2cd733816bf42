//! The walk over a tree that makes elements, from what takes precedence to what yields.
//!
//! The walk has a stack of its own, because trees are deep. On a second stack, every finished node leaves whether it is
//! *complete*: whether every packet of its region reaches a leaf with instructions or is covered by a barrier of the
//! node's own tests.

use std::collections::BTreeMap;
use std::rc::Rc;

use maple_core::capabilities::Capabilities;
use maple_core::compile::LeafAction;
use maple_core::trace::{Cond, Region};
use maple_core::tree::LeafId;
use maple_wire::{Constraint, Field};

use super::elements::{CoveredYesSide, Elements};
use super::merged::{Merged, Node, NodeId};

/// A region that the switch can match.
struct Area {
    region: Region,
    matches: Vec<Vec<Constraint>>,
}

/// A step of the walk. The last task in the list is done first.
enum Task {
    /// Walk a node for the packets of an area.
    Visit { node: Option<NodeId>, area: Rc<Area> },
    /// Walk a `V` node's child for the packets of the node's area that have the constraint.
    Child { node: Option<NodeId>, constraint: Constraint, area: Rc<Area> },
    /// The `V` node is done. It is complete if all its children are, and if they are `all` of the possible values.
    Value { children: usize, all: bool },
    /// The yes-side of a test, in `area`, is done: add its barrier, and continue with the no-side.
    Yes { start: usize, yes: Option<NodeId>, area: Rc<Area>, no: Option<NodeId>, rest: Rc<Area> },
}

struct Walk<'a> {
    tree: &'a Merged,
    capabilities: &'a Capabilities,
    leaf: &'a dyn Fn(LeafId) -> LeafAction,
    elements: Elements,
    tasks: Vec<Task>,
    complete: Vec<bool>,
}

/// Returns the elements of the tree for the packets that fit `under`.
pub(super) fn elements(
    tree: &Merged,
    under: &[Constraint],
    capabilities: &Capabilities,
    leaf: &dyn Fn(LeafId) -> LeafAction,
) -> Elements {
    let mut walk =
        Walk { tree, capabilities, leaf, elements: Elements::new(), tasks: Vec::new(), complete: Vec::new() };
    let region = Region::any().and(&Cond { constraints: under.to_vec(), ranges: Vec::new() });
    if let Some(area) = region.and_then(|region| walk.area(region)) {
        walk.run(Task::Visit { node: tree.root(), area: Rc::new(area) });
    }
    walk.elements
}

impl Walk<'_> {
    fn run(&mut self, first: Task) {
        self.tasks.push(first);
        while let Some(task) = self.tasks.pop() {
            match task {
                Task::Visit { node, area } => self.visit(node, area),
                Task::Child { node, constraint, area } => match self.child_area(&area, &constraint) {
                    Some(area) => self.visit(node, Rc::new(area)),
                    None => self.complete.push(false),
                },
                Task::Value { children, all } => {
                    let done = self.complete.split_off(self.complete.len() - children);
                    self.complete.push(all && done.into_iter().all(|complete| complete));
                }
                Task::Yes { start, yes, area, no, rest } => self.after_yes(start, yes, &area, no, rest),
            }
        }
    }

    fn visit(&mut self, node: Option<NodeId>, area: Rc<Area>) {
        let tree = self.tree;
        match node.map(|node| tree.node(node)) {
            None => self.complete.push(false),
            Some(Node::Leaf(leaf)) => match (self.leaf)(*leaf) {
                LeafAction::Apply(instructions) => {
                    self.elements.apply(&area.matches, *leaf, instructions);
                    self.complete.push(true);
                }
                LeafAction::ApplyTo(only, instructions) => {
                    let narrowed = self.child_area(&area, &only);
                    if let Some(narrowed) = &narrowed {
                        self.elements.apply(&narrowed.matches, *leaf, instructions);
                    }
                    self.complete.push(narrowed.is_some_and(|narrowed| narrowed.region == area.region));
                }
                LeafAction::Controller => self.complete.push(false),
            },
            Some(Node::Value { field, mask, children }) => self.visit_value((*field, *mask), children, area),
            Some(Node::Test { cond, yes, no }) => self.visit_test(cond, *yes, *no, area),
        }
    }

    fn visit_value(&mut self, (field, mask): (Field, u128), children: &BTreeMap<u128, Option<NodeId>>, area: Rc<Area>) {
        let known = area.region.constraints().iter().find(|c| c.field == field).map_or(0, |c| c.mask);
        let possible = 1u128.checked_shl((mask & !known).count_ones());
        let all = possible == Some(children.len() as u128);
        self.tasks.push(Task::Value { children: children.len(), all });
        for (&value, &node) in children.iter().rev() {
            let constraint = Constraint { field, value, mask };
            self.tasks.push(Task::Child { node, constraint, area: area.clone() });
        }
    }

    fn visit_test(&mut self, cond: &Cond, yes: Option<NodeId>, no: Option<NodeId>, rest: Rc<Area>) {
        let Some(region) = rest.region.and(cond) else {
            self.tasks.push(Task::Visit { node: no, area: rest });
            return;
        };
        if region == rest.region {
            self.tasks.push(Task::Visit { node: yes, area: rest });
            return;
        }
        let start = self.elements.len();
        match self.area(region) {
            Some(area) => {
                let area = Rc::new(area);
                self.tasks.push(Task::Yes { start, yes, area: area.clone(), no, rest });
                self.tasks.push(Task::Visit { node: yes, area });
            }
            None => match rest.region.widened(cond, self.capabilities).and_then(|wide| self.area(wide)) {
                Some(wide) => {
                    self.elements.barrier(&wide.matches, start, CoveredYesSide::Partial);
                    self.tasks.push(Task::Visit { node: no, area: rest });
                }
                // No barrier narrower than the whole no-side can be matched.
                None => self.complete.push(false),
            },
        }
    }

    fn after_yes(&mut self, start: usize, yes: Option<NodeId>, area: &Area, no: Option<NodeId>, rest: Rc<Area>) {
        if self.complete.pop() == Some(false) {
            let behind = match yes.map(|yes| self.tree.node(yes)) {
                None => CoveredYesSide::Unexplored,
                Some(Node::Leaf(leaf)) => CoveredYesSide::Leaf(*leaf),
                Some(_) => CoveredYesSide::Partial,
            };
            match no {
                Some(_) => self.elements.barrier(&area.matches, start, behind),
                None => self.elements.reserve(&area.matches, behind),
            }
        }
        // A test is complete if its no-side is, because the yes-side is complete or has its barrier.
        self.tasks.push(Task::Visit { node: no, area: rest });
    }

    fn child_area(&self, area: &Area, constraint: &Constraint) -> Option<Area> {
        self.area(area.region.with(constraint)?)
    }

    fn area(&self, region: Region) -> Option<Area> {
        let matches = region.matches(self.capabilities)?;
        Some(Area { region, matches })
    }
}
