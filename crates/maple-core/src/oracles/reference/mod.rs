//! The reference compiler: from a whole trace tree to prioritised rules, from scratch each time.
//!
//! # What
//!
//! A walk of the tree, from what takes precedence to what yields: at a test, the yes-side before the no-side. The walk
//! carries the region of packets that a node stands for, as far as a match can say it: reads and tests that held. It
//! lays down *elements*:
//!
//! * a leaf with instructions: its region does them;
//! * behind the yes-side of a test that is not *complete* (some packet of it gets to no such leaf): a *barrier* over
//!   the test's yes-region, so that rules of the no-side can't take these packets.
//!
//! Levels are numbered from the top down: an element gets the first level below all elements before it that overlap it
//! (`overlap.rs`). Only between two barriers over explored yes-sides is no order needed. Whether two leaves do the same
//! makes no difference, and a barrier over an unexplored yes-side counts as the answer that it may become: so when that
//! packet comes, its answer takes the barrier's place, and nothing else moves.
//!
//! Last, from the bottom up, barriers that protect nothing are dropped: a barrier becomes a rule only where a rule with
//! instructions follows that overlaps it, before the next barrier that covers it anyway (that of the innermost test
//! around it whose yes-side it is in).
//!
//! # Necessity it is correct
//!
//! Let a packet's first rule be `r`, with instructions, from leaf `l`. Had the packet another road in the tree than to
//! `l`, it would leave the road to `l` at a node. That is no `V` node and no test at which `l` is on the yes-side, since
//! `r`'s match states the reads and tests that held. So it is a test with `l` on the no-side, and the packet fits the
//! test. If it gets to a leaf with instructions there, that leaf's element comes before `r` and overlaps it, so it has a
//! higher level; or something before covers that element, and the same holds for that. If it gets to none, the yes-side
//! is not complete, and a barrier covers the packet; that, or a barrier around it, comes before `r` and is a rule
//! because `r` follows. So `r` would not be first. The packet gets what `l` says, or the controller.
//!
//! * What the switch can't match is never stated: a yes-side or child whose region can't be matched counts as
//!   unexplored, and the barrier of such a test is widened until it can be. If nothing of the test can be stated, its
//!   no-side has no rules either.
//! * A leaf that does its instructions to some of its packets only is like a `V` node with one child.
//! * Elements that one earlier element covers are left out: no packet would get to them.
//! * Elements whose level lies below the lowest priority get no rule. Every element that must yield to one of these lies
//!   lower still, so what is left out falls to the controller.
//!
//! # Cost
//!
//! One step a node, one question to the overlap index an element; no recursion on depth. The compiler starts afresh
//! each time.

use std::ops::RangeInclusive;

use maple_wire::{Constraint, Match};

use crate::capabilities::Capabilities;
use crate::compile::LeafAction;
use crate::rule::{Rule, to_controller};
use crate::tree::{LeafId, Tree};

mod elements;
mod overlap;
mod walk;

/// Compiles trees to rules from scratch: the oracle of [`Table`](crate::Table).
#[derive(Debug, Default)]
pub struct ReferenceCompiler {}

impl ReferenceCompiler {
    /// A compiler that has seen no tree.
    pub fn new() -> ReferenceCompiler {
        ReferenceCompiler::default()
    }

    /// The rules for the packets that fit `under` (in OXM order, one a field), by falling priority.
    ///
    /// A packet that no rule takes, or a rule whose instructions send it to the controller, is one that the tree does
    /// not know, that `leaf` wants at the controller, or that the switch can't tell apart. The table needs a rule at a
    /// lower priority than all of `priorities` that sends the rest to the controller.
    ///
    /// `leaf` says what to do with a leaf's packets, `cookie` which cookie a leaf's rule or (for `None`) a barrier gets.
    pub fn compile(
        &mut self,
        tree: &Tree,
        under: &[Constraint],
        capabilities: &Capabilities,
        priorities: RangeInclusive<u16>,
        leaf: &dyn Fn(LeafId) -> LeafAction,
        cookie: &dyn Fn(Option<LeafId>) -> u64,
    ) -> Vec<Rule> {
        let levels = (u32::from(*priorities.end()) + 1).saturating_sub(u32::from(*priorities.start()));
        let elements = walk::elements(tree, under, capabilities, leaf);
        let mut rules: Vec<Rule> = Vec::new();
        for element in elements.installed(levels) {
            rules.push(Rule {
                priority: priorities.end() - element.level as u16,
                matching: Match::from_constraints(element.all.iter().copied()),
                instructions: element.instructions.map_or_else(to_controller, Into::into),
                cookie: cookie(element.leaf),
            });
        }
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.priority));
        rules
    }
}
