//! The paper's compiler: Algorithms 2 and 5, incremental as §4.4 describes. It is the baseline of the benchmarks, and
//! an oracle.
//!
//! # What
//!
//! [`build_ft`] is Algorithm 2: each rule has a priority of its own, and every test a barrier rule. [`opt_build_ft`] is
//! Algorithm 5: barrier rules only where `needsBarrier` says so, and priorities as low as the order graph `G_o` allows,
//! counted from the bottom. `PaperCompiler` keeps the table of Algorithm 5 in step with a growing tree (§4.4): a new
//! trace is built at the priority stored where it attaches. If that raises the priority of tests above, their positive
//! branches are built again, up to the root.
//!
//! # Where the paper leaves a choice
//!
//! * *The base of a negative branch.* `G_o` has no edge from a test to its negative side (§4.3). Taken literally, rules
//!   of the negative side within a positive branch start from 0 and are shadowed by the barrier of the test around
//!   them. The table printed for Figure 5 (`103.23.0.0/16 → b` at 1) shows that they start where the test itself did.
//!   So every node has a *base*, which its nearest positive ancestor demands. It hands the base to both sides.
//! * *What overlaps.* The up-edges of a test are those of its barrier: the barrier's match is compared with the
//!   positive sides above, not the match accumulated at the test. Otherwise any two tests of a chain would overlap, and
//!   Table 1 has far fewer priorities than that.
//! * *Invalidation.* The paper leaves all other rules as they are. That is right while the positive sides are still
//!   complete. One that becomes incomplete gets its barrier, and what is left of it moves above the barrier.
//! * *A leaf without an action of its own* ([`LeafAction::Controller`]) counts as `Ω`.
//!
//! # Why it is correct
//!
//! Let `r` be a rule from the negative branch of a test `t` that overlaps `t`'s positive match. Then `priority(t)` is
//! above `r`'s; the barrier of `t` has `priority(t)`; and the rules of the positive branch have at least `priority(t)`,
//! plus one where there is a barrier. So the first rule that a packet of the positive branch meets comes from that
//! branch. Each edit ends with these three statements true for every test that it touched (`order.rs`).
//!
//! What a switch can't match is handled as in [`maple_core::compile`]: a positive side that can't be stated counts as
//! unexplored, and its barrier is widened until it can be stated. If nothing of it can be stated, the negative side has
//! no rules.
//!
//! # Cost
//!
//! Attaching a trace compares each new rule with every test above it, and each rule whose priority is raised again. On
//! chains of tests that is the length of the chain for every rule, and many rules are raised (§6.1, Table 1, last
//! column; §6.3: up to 20 ms a trace).

use maple_core::capabilities::Capabilities;
use maple_core::compile::{LeafAction, RuleTable, TableBackend, TableTarget};
use maple_core::rule::Rule;
use maple_core::trace::{Fields, Item};
use maple_core::tree::{Augmented, LeafId, Replayed, Tree};
use maple_core::update::Change;

mod basic;
mod emit;
mod graph;
mod order;

use graph::Graph;

/// Returns the rules of Algorithm 2, by falling priority, counted from the lowest of the target's priorities.
///
/// If priorities run out, the lowest rules are left out.
pub fn build_ft(tree: &Tree, target: TableTarget, action: &dyn Fn(LeafId) -> LeafAction) -> Vec<Rule> {
    basic::rules(&grown(tree, target, action))
}

/// Builds the rules of Algorithm 5, by falling priority, counted from the lowest of the target's priorities.
///
/// If priorities run out, the lowest rules are left out.
pub fn opt_build_ft(tree: &Tree, target: TableTarget, action: &dyn Fn(LeafId) -> LeafAction) -> Vec<Rule> {
    let mut graph = grown(tree, target, action);
    graph.renumber();
    graph.fit();
    graph.rules()
}

fn grown(tree: &Tree, target: TableTarget, action: &dyn Fn(LeafId) -> LeafAction) -> Graph {
    let mut graph = Graph::new(target);
    for leaf in tree.leaves() {
        if let Some(items) = tree.path(leaf) {
            graph.augment(&items, leaf, action(leaf));
        }
    }
    graph
}

/// Creates an empty table whose rules the paper's compiler makes.
pub fn table(target: TableTarget) -> RuleTable {
    RuleTable::with_backend(Box::new(PaperCompiler::new(target)))
}

/// A trace tree and the paper's table for it, kept in step.
#[derive(Clone, Debug)]
struct PaperCompiler {
    tree: Tree,
    graph: Graph,
    /// Whether something was done to it since changes were last taken.
    has_changed: bool,
}

impl PaperCompiler {
    /// Creates a compiler with an empty tree and no rules.
    fn new(target: TableTarget) -> PaperCompiler {
        PaperCompiler { tree: Tree::new(), graph: Graph::new(target), has_changed: false }
    }

    /// Adds a trace that the tree has just taken in.
    fn take_in(&mut self, outcome: Augmented, items: &[Item], leaf: LeafId, action: LeafAction) -> Augmented {
        self.has_changed = true;
        match &outcome {
            Augmented::Existing(_) => return outcome,
            Augmented::Added => {}
            Augmented::Replaced { removed, .. } => removed.iter().for_each(|leaf| {
                self.graph.remove(*leaf);
            }),
        }
        self.graph.augment(items, leaf, action);
        outcome
    }
}

impl TableBackend for PaperCompiler {
    fn boxed_clone(&self) -> Box<dyn TableBackend> {
        Box::new(self.clone())
    }

    fn tree(&self) -> &Tree {
        &self.tree
    }

    fn capabilities(&self) -> &Capabilities {
        self.graph.capabilities()
    }

    fn augment(&mut self, items: &[Item], leaf: LeafId, action: LeafAction) -> Augmented {
        let outcome = self.tree.augment(items, leaf);
        self.take_in(outcome, items, leaf, action)
    }

    fn insert_replayed(&mut self, run: Replayed, leaf: LeafId, action: LeafAction, _: &dyn Fields) -> Augmented {
        let outcome = self.tree.insert_replayed(run, leaf);
        let items = self.tree.path(leaf).unwrap_or_default();
        self.take_in(outcome, &items, leaf, action)
    }

    fn remove(&mut self, leaf: LeafId) -> bool {
        self.has_changed = true;
        self.graph.remove(leaf);
        self.tree.remove(leaf)
    }

    fn set_action(&mut self, leaf: LeafId, action: LeafAction) {
        self.has_changed = true;
        self.graph.set_action(leaf, action);
    }

    fn rules(&self) -> Vec<Rule> {
        self.graph.rules()
    }

    fn may_have_changes(&self) -> bool {
        self.has_changed
    }

    fn take_changes(&mut self) -> Vec<Change> {
        self.has_changed = false;
        self.graph.take_changes()
    }
}
