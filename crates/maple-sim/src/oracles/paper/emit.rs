//! Makes rules and changes from annotated nodes.

use std::sync::Arc;

use maple_core::compile::LeafAction;
use maple_core::rule::{Rule, to_controller};
use maple_core::tree::LeafId;
use maple_core::update::{Change, changes};
use maple_wire::{Instruction, Match};

use super::graph::{Area, Graph, Kind, NodeId};

impl Graph {
    /// Returns all rules, by falling priority.
    pub(super) fn rules(&self) -> Vec<Rule> {
        let mut rules: Vec<Rule> = self.ids().flat_map(|id| self.rules_at(id)).collect();
        rules.sort_by(|a, b| {
            b.priority.cmp(&a.priority).then_with(|| a.matching.constraints().cmp(b.matching.constraints()))
        });
        rules
    }

    /// Returns what has changed since the last call, in a safe order.
    pub(super) fn take_changes(&mut self) -> Vec<Change> {
        let mut touched: Vec<NodeId> = std::mem::take(&mut self.touched).into_iter().collect();
        touched.retain(|id| self.get(*id).is_some());
        touched.sort_unstable();
        let wanted: Vec<Rule> = touched.into_iter().flat_map(|id| self.rules_at(id)).collect();
        changes(&std::mem::take(&mut self.sent), &wanted)
    }

    /// Keeps a node's rules as they were sent. Must be called before they change.
    pub(super) fn touch(&mut self, node: NodeId) {
        if self.touched.insert(node) {
            self.sent.extend(self.rules_at(node));
        }
    }

    /// Assigns the least priorities again if there are too few. If these are still too many, the highest ones fit, at
    /// the cost of the lowest.
    pub(super) fn fit(&mut self) {
        if self.highest <= self.last() {
            return;
        }
        self.renumber();
        self.lowest = 0;
        if self.highest > self.last() {
            // Leaves some priorities free, so that not every new trace causes another fit.
            self.lowest = self.highest + self.last() / 4 - self.last();
        }
    }

    /// Reports whether a leaf's rules take all packets that arrive there.
    pub(super) fn leaf_is_complete(&self, node: NodeId) -> bool {
        let Kind::Leaf { action, .. } = &self.node(node).kind else { return false };
        let Some(area) = &self.node(node).area else { return false };
        match action {
            LeafAction::Apply(_) => true,
            LeafAction::ApplyTo(only, _) => area.region.with(only).is_some_and(|narrowed| narrowed == area.region),
            LeafAction::Controller => false,
        }
    }

    /// Returns the packets that the node's own rule takes, and its priority.
    pub(super) fn rule_of(&self, node: NodeId) -> Option<(Arc<Area>, u32)> {
        let node = self.node(node);
        match &node.kind {
            Kind::Leaf { action, .. } => {
                let area = node.area.as_ref()?;
                let area = match action {
                    LeafAction::Apply(_) => area.clone(),
                    LeafAction::ApplyTo(only, _) => self.area(area.region.with(only)?)?,
                    LeafAction::Controller => return None,
                };
                Some((area, node.base))
            }
            Kind::Value { .. } => None,
            Kind::Test(test) if test.barrier => Some((test.positive()?.clone(), test.priority)),
            Kind::Test(_) => None,
        }
    }

    /// Returns the highest priority that has a number.
    fn last(&self) -> u32 {
        let priorities = &self.target.priorities;
        self.lowest + u32::from(*priorities.end()).saturating_sub(u32::from(*priorities.start()))
    }

    fn rules_at(&self, id: NodeId) -> Vec<Rule> {
        let Some((area, priority)) = self.rule_of(id) else { return Vec::new() };
        let Some(number) = self.number(priority) else { return Vec::new() };
        let (leaf, instructions) = self.does(id);
        let rule = |all: &Vec<_>| Rule {
            priority: number,
            matching: Match::from_constraints(all.iter().copied()),
            instructions: instructions.clone(),
            cookie: (self.target.cookie)(leaf),
        };
        area.matches.iter().map(rule).collect()
    }

    /// Returns the number that a priority has on the switch.
    fn number(&self, priority: u32) -> Option<u16> {
        let above = priority.checked_sub(self.lowest)?;
        u16::try_from(u32::from(*self.target.priorities.start()) + above).ok()
    }

    /// Returns the instructions of the node's rule, and its leaf.
    fn does(&self, id: NodeId) -> (Option<LeafId>, Arc<[Instruction]>) {
        match &self.node(id).kind {
            Kind::Leaf { leaf, action: LeafAction::Apply(instructions) | LeafAction::ApplyTo(_, instructions) } => {
                (Some(*leaf), instructions[..].into())
            }
            _ => (None, to_controller()),
        }
    }
}
