//! A trace tree and its compiled table, kept in step.
//!
//! # What
//!
//! [`Table`] is what drives a switch's rules: the engine for the packets that enter, the benchmarks. It owns the tree, knows what each leaf does, and says after each edit which changes bring the
//! switch from the rules before to the rules now, in an order whose every prefix is safe (`update.rs`).
//!
//! The rules come from a [`TableBackend`]: the incremental compiler, unless tests or benchmarks choose another.

use std::fmt;
use std::ops::RangeInclusive;

use maple_wire::Constraint;

use super::LeafAction;
use super::incremental::IncrementalCompiler;
use super::tuning::Tuning;
use crate::capabilities::Capabilities;
use crate::rule::Rule;
use crate::trace::{Fields, Item};
use crate::tree::{Augmented, LeafId, Replay, Replayed, Tree};
use crate::update::Change;

/// What a table is made for.
pub struct Target {
    /// Only packets that fit these have rules; in OXM order, one a field. Traces need not say them.
    pub under: Vec<Constraint>,
    /// What the switch can match.
    pub capabilities: Capabilities,
    /// The priorities that rules may have. Below them there must be a rule that sends the rest to the controller.
    pub priorities: RangeInclusive<u16>,
    /// Which cookie a leaf's rule gets, or (for `None`) a barrier rule that belongs to no leaf.
    pub cookie: Box<dyn Fn(Option<LeafId>) -> u64 + Send>,
}

/// A trace tree and its compiled table.
///
/// A packet that no rule takes, or a rule whose instructions send it to the controller, is one that the tree does not
/// know, that its leaf's action wants at the controller, or that the switch can't tell apart.
#[derive(Debug)]
pub struct Table {
    backend: Box<dyn TableBackend>,
}

/// A compiler that keeps a table: the product's, or one to compare it with.
pub trait TableBackend: fmt::Debug + Send {
    /// The tree.
    fn tree(&self) -> &Tree;
    /// What the switch can match.
    fn capabilities(&self) -> &Capabilities;
    /// See [`Table::augment`].
    fn augment(&mut self, items: &[Item], leaf: LeafId, action: LeafAction) -> Augmented;
    /// See [`Table::insert_replayed`].
    fn insert_replayed(&mut self, run: Replayed, leaf: LeafId, action: LeafAction, packet: &dyn Fields) -> Augmented;
    /// See [`Table::remove`].
    fn remove(&mut self, leaf: LeafId) -> bool;
    /// See [`Table::remove_all`].
    fn remove_all(&mut self, leaves: &[LeafId]) -> usize {
        leaves.iter().filter(|leaf| self.remove(**leaf)).count()
    }
    /// See [`Table::set_action`].
    fn set_action(&mut self, leaf: LeafId, action: LeafAction);
    /// See [`Table::remove_redundant`].
    fn remove_redundant(&mut self) {}
    /// See [`Table::rules`].
    fn rules(&self) -> Vec<Rule>;
    /// See [`Table::take_changes`].
    fn take_changes(&mut self) -> Vec<Change>;
    /// See [`Table::visited`].
    fn visited(&self) -> u64 {
        0
    }
}

impl Table {
    /// A table that knows nothing and has no rules.
    pub fn new(target: Target) -> Table {
        Table::tuned(target, Tuning::default())
    }

    /// A table with other thresholds than the product's.
    pub fn tuned(target: Target, tuning: Tuning) -> Table {
        Table::with_backend(Box::new(IncrementalCompiler::new(target, tuning)))
    }

    /// A table whose rules come from another compiler.
    pub fn with_backend(backend: Box<dyn TableBackend>) -> Table {
        Table { backend }
    }

    /// The tree. Look-ups go here.
    pub fn tree(&self) -> &Tree {
        self.backend.tree()
    }

    /// Adds a trace that ends in `leaf`, whose packets are to be treated by `action`. All traces of a table are lowered
    /// for its switch ([`crate::Trace::lower`]). Where the tree has the trace already, its leaf and that leaf's action
    /// stay.
    ///
    /// # Panics
    ///
    /// If `leaf` is in the tree: a leaf has one trace, and its number is never given out again.
    pub fn augment(&mut self, items: &[Item], leaf: LeafId, action: LeafAction) -> Augmented {
        self.backend.augment(items, leaf, action)
    }

    /// Begins to replay a run along the tree: what the tree knows of the run's questions is not recorded again.
    pub fn begin_replay(&self) -> Replay<'_> {
        self.tree().begin_replay(self.backend.capabilities())
    }

    /// Adds the trace of a run that was replayed: [`Table::augment`] without the items. `packet` is the run's. If that saves
    /// many rules, the leaf is specialised: it keeps the packets that agree with this one in some more bits
    /// (`docs/algorithm.md`, "Leaf specialisation"), whether it forwards now or later.
    ///
    /// # Panics
    ///
    /// If the tree has changed since the run began, or `leaf` is in it.
    pub fn insert_replayed(
        &mut self,
        run: Replayed,
        leaf: LeafId,
        action: LeafAction,
        packet: &dyn Fields,
    ) -> Augmented {
        self.backend.insert_replayed(run, leaf, action, packet)
    }

    /// Takes a leaf out; returns whether it was there.
    pub fn remove(&mut self, leaf: LeafId) -> bool {
        self.backend.remove(leaf)
    }

    /// Takes leaves out, and returns how many of them were there. Costs less than one after the other: what the rest of the
    /// table makes of it is seen once.
    pub fn remove_all(&mut self, leaves: &[LeafId]) -> usize {
        self.backend.remove_all(leaves)
    }

    /// Has a leaf's packets treated by another action. A leaf that is not there is passed over.
    pub fn set_action(&mut self, leaf: LeafId, action: LeafAction) {
        self.backend.set_action(leaf, action);
    }

    /// Removes all redundant barrier rules. When leaves go, some stay, since it takes longer to see that they are redundant than
    /// to keep them; otherwise each new trace has some of them decided.
    pub fn remove_redundant(&mut self) {
        self.backend.remove_redundant();
    }

    /// The rules as they should be now, by falling priority.
    pub fn rules(&self) -> Vec<Rule> {
        self.backend.rules()
    }

    /// What has changed since this was last asked, in an order whose every prefix is safe.
    pub fn take_changes(&mut self) -> Vec<Change> {
        self.backend.take_changes()
    }

    /// How many entries of the table were looked at so far, each time counted: a measure of the work that edits took. The
    /// paper's compiler does not count and says 0.
    pub fn visited(&self) -> u64 {
        self.backend.visited()
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Target { under, priorities, .. } = self;
        f.debug_struct("Target").field("under", under).field("priorities", priorities).finish_non_exhaustive()
    }
}
