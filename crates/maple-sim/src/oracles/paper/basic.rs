//! Algorithm 2: each rule has a priority of its own, and each test a barrier rule.

use std::sync::Arc;

use maple_core::compile::LeafAction;
use maple_core::rule::{Rule, to_controller};
use maple_wire::{Instruction, Match};

use super::graph::{Area, Graph, Kind, NodeId, Question};

/// A step of the walk. The last task in the list is done first.
enum Task {
    Build(NodeId),
    /// The negative side of a test is done. Its barrier rule comes next, then its positive side.
    AfterNegative(NodeId),
}

/// Runs `BUILDFT` for the tree of a graph. Returns the rules by falling priority.
pub(super) fn rules(graph: &Graph) -> Vec<Rule> {
    let mut rules = Vec::new();
    let mut tasks: Vec<Task> = graph.root.map(Task::Build).into_iter().collect();
    while let Some(task) = tasks.pop() {
        match task {
            Task::Build(node) => match &graph.node(node).kind {
                Kind::Leaf { .. } => rules.extend(leaf_rules(graph, node)),
                Kind::Value { children, .. } => tasks.extend(children.values().rev().map(|child| Task::Build(*child))),
                Kind::Test(test) => {
                    tasks.push(Task::AfterNegative(node));
                    tasks.extend(test.no.map(Task::Build));
                }
            },
            Task::AfterNegative(node) => {
                let Kind::Test(test) = &graph.node(node).kind else { continue };
                if let Question::Splits(area) | Question::Within(area) = &test.question {
                    rules.extend(rules_of_area(area, &to_controller(), (graph.target.cookie)(None)));
                }
                tasks.extend(test.yes.map(Task::Build));
            }
        }
    }
    numbered(graph, rules)
}

fn leaf_rules(graph: &Graph, node: NodeId) -> Vec<Rule> {
    match (&graph.node(node).kind, graph.rule_of(node)) {
        (
            Kind::Leaf { leaf, action: LeafAction::Apply(instructions) | LeafAction::ApplyTo(_, instructions) },
            Some((area, _)),
        ) => rules_of_area(&area, instructions, (graph.target.cookie)(Some(*leaf))),
        _ => Vec::new(),
    }
}

fn rules_of_area(area: &Arc<Area>, instructions: &[Instruction], cookie: u64) -> Vec<Rule> {
    let rule = |all: &Vec<_>| Rule {
        priority: 0,
        matching: Match::from_constraints(all.iter().copied()),
        instructions: instructions.into(),
        cookie,
    };
    area.matches.iter().map(rule).collect()
}

/// Numbers rules that come in order of rising precedence.
fn numbered(graph: &Graph, rules: Vec<Rule>) -> Vec<Rule> {
    let priorities = &graph.target.priorities;
    let room =
        usize::from(*priorities.end()) + 1 - usize::from(*priorities.start()).min(usize::from(*priorities.end()) + 1);
    let left_out = rules.len().saturating_sub(room);
    let kept = rules.into_iter().skip(left_out).zip(priorities.clone());
    let mut kept: Vec<Rule> = kept.map(|(rule, priority)| Rule { priority, ..rule }).collect();
    kept.reverse();
    kept
}
