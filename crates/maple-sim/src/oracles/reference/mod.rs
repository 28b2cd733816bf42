//! The reference compiler: from a whole trace tree to prioritised rules, from scratch each time.
//!
//! # What
//!
//! The compiler walks the tree, from what takes precedence to what yields: at a test, the yes-side comes before the
//! no-side. The walk carries the region of packets that a node stands for, as far as a match can express it: reads and
//! tests that held. It makes *elements*:
//!
//! * for a leaf with instructions: its region with these;
//! * after the yes-side of a test that is not *complete* (some packet of it gets to no such leaf), a *barrier* over the
//!   test's yes-region, so that rules of the no-side can't take these packets.
//!
//! Levels are numbered from the top down. An element gets the first level below all earlier elements that overlap it.
//! Only two barriers over explored yes-sides need no order. Two leaves with equal instructions are ordered like any
//! others. A barrier over an unexplored yes-side counts as the leaf that may come there.
//!
//! Finally, barriers that protect nothing are left out. A barrier becomes a rule only if a later rule with instructions
//! overlaps it, before the next barrier that covers it anyway: that of the innermost test in whose yes-side it is.
//!
//! # Why it is correct
//!
//! Let a packet's first rule be `r`, with instructions, from leaf `l`. If the packet does not get to `l` in the tree,
//! its path leaves the path to `l` at a node. That is neither a `V` node nor a test with `l` on the yes-side, because
//! the match of `r` states the reads and tests that held. So it is a test with `l` on the no-side, and the packet fits
//! the test.
//!
//! If the packet gets to a leaf with instructions there, that leaf's element comes before `r` and overlaps it, so its
//! level is higher; or an earlier element covers it, and the same holds for that one. If the packet gets to none, the
//! yes-side is not complete, and a barrier has the packet. That barrier, or one around it, comes before `r`, and is a
//! rule because `r` follows. In both cases `r` is not first. So the packet is treated as `l` says, or goes to the
//! controller.
//!
//! * What the switch can't match is never stated. A yes-side or child whose region can't be matched counts as
//!   unexplored, and the barrier of such a test is widened until it can be. If nothing of the test can be stated, its
//!   no-side has no rules either.
//! * A leaf whose instructions are for a part of its packets is like a `V` node with one child.
//! * Elements that one earlier element covers are left out: no packet would get to them.
//! * Elements whose level lies below the lowest priority get no rule. Every element that must yield to one of these
//!   lies lower still, so what is left out goes to the controller.
//!
//! # Cost
//!
//! Each element is compared with all earlier ones. That is slow but simple. No function recurses with the depth of the
//! tree.

use std::ops::RangeInclusive;

use maple_core::capabilities::Capabilities;
use maple_core::compile::LeafAction;
use maple_core::rule::{Rule, to_controller};
use maple_core::tree::{LeafId, Tree};
use maple_wire::{Constraint, Match};

mod elements;
mod merged;
mod walk;

use merged::Merged;

/// Compiles trees to rules from scratch: the oracle of [`RuleTable`](maple_core::RuleTable).
#[derive(Debug, Default)]
pub struct ReferenceCompiler {}

impl ReferenceCompiler {
    /// Creates a compiler.
    pub fn new() -> ReferenceCompiler {
        ReferenceCompiler::default()
    }

    /// Compiles the rules for the packets that fit `under` (in OXM order, one constraint a field), by falling priority.
    ///
    /// A packet that no rule takes, or a rule whose instructions send it to the controller, is one that the tree does
    /// not know, that `leaf` wants at the controller, or that the switch can't tell apart. The table needs a rule at a
    /// lower priority than all of `priorities` that sends the rest to the controller.
    ///
    /// `leaf` returns the action for a leaf's packets, and `cookie` the cookie of a leaf's rule or (for `None`) of a
    /// barrier rule.
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
        let elements = walk::elements(&Merged::from_tree(tree), under, capabilities, leaf);
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
