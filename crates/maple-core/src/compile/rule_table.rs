//! A trace tree and its compiled table, kept in step.
//!
//! # What
//!
//! [`RuleTable`] makes a switch's rules: the engine uses it for the packets that enter, and so do the benchmarks. It
//! owns the tree and knows what each leaf does. After each edit it says which changes lead from the old rules to the
//! new ones, in an order whose every prefix is safe (`update.rs`).
//!
//! The rules come from a [`TableBackend`]: the incremental compiler, unless tests or benchmarks choose another.

use std::fmt;
use std::ops::{Deref, DerefMut, RangeInclusive};
use std::sync::Arc;

use maple_wire::Constraint;

use super::LeafAction;
use super::incremental::IncrementalCompiler;
use super::tuning::Tuning;
use crate::capabilities::Capabilities;
use crate::rule::Rule;
use crate::trace::{Fields, Item};
use crate::tree::{Augmented, LeafId, Replay, Replayed, Tree};
use crate::update::Change;

/// The switch that a table is made for, and the limits of its rules.
#[derive(Clone)]
pub struct TableTarget {
    /// The constraints that all packets with rules fit, in OXM order, one for each field. Traces need not state them.
    pub under: Vec<Constraint>,
    /// The switch's capabilities of matching.
    pub capabilities: Capabilities,
    /// The priorities that rules may have. Below them there must be a rule that sends the rest to the controller.
    pub priorities: RangeInclusive<u16>,
    /// A function that gives the cookie of a leaf's rule, or (for `None`) of a barrier rule that belongs to no leaf.
    pub cookie: Arc<dyn Fn(Option<LeafId>) -> u64 + Send + Sync>,
}

/// A trace tree and its compiled table; its methods are those of [`TableBackend`].
///
/// A packet that no rule takes, or whose rule sends it to the controller, is one of three kinds. The tree does not know
/// it, its leaf's action sends it to the controller, or the switch can't tell it apart from others.
#[derive(Debug)]
pub struct RuleTable {
    backend: Box<dyn TableBackend>,
}

/// A compiler that maintains a table: the product's, or one to compare it with.
pub trait TableBackend: fmt::Debug + Send {
    /// Returns an independent copy.
    fn boxed_clone(&self) -> Box<dyn TableBackend>;

    /// Returns the tree, for look-ups.
    fn tree(&self) -> &Tree;

    /// Returns the switch's capabilities of matching.
    fn capabilities(&self) -> &Capabilities;

    /// Adds a trace that ends in `leaf`, to whose packets `action` applies. All traces of a table are lowered for its
    /// switch ([`crate::Trace::lower`]). If the tree already has the trace, its leaf and that leaf's action stay.
    ///
    /// # Panics
    ///
    /// If `leaf` is in the tree: a leaf has one trace, and its number is never reused.
    fn augment(&mut self, items: &[Item], leaf: LeafId, action: LeafAction) -> Augmented;

    /// Begins to replay a run along the tree: questions that the tree already has are not recorded again.
    fn begin_replay(&self) -> Replay<'_> {
        self.tree().begin_replay(self.capabilities())
    }

    /// Adds the trace of a run that was replayed, as [`TableBackend::augment`] does, but without the items. `packet` is
    /// the run's packet. If that saves many rules, the leaf is specialised, whether it forwards now or later. It then
    /// keeps only the packets that agree with this one in some more bits (`docs/algorithm.md`, "Leaf specialisation").
    ///
    /// # Panics
    ///
    /// If the tree has changed since the run began, or `leaf` is in it.
    fn insert_replayed(&mut self, run: Replayed, leaf: LeafId, action: LeafAction, packet: &dyn Fields) -> Augmented;

    /// Removes a leaf. Returns whether it existed.
    fn remove(&mut self, leaf: LeafId) -> bool;

    /// Removes leaves, and returns how many of them existed. This costs less than removing one after the other, because
    /// the effects on the rest of the table are computed once.
    fn remove_all(&mut self, leaves: &[LeafId]) -> usize {
        leaves.iter().filter(|leaf| self.remove(**leaf)).count()
    }

    /// Sets the action of a leaf. A leaf that does not exist is ignored.
    fn set_action(&mut self, leaf: LeafId, action: LeafAction);

    /// Removes all redundant barrier rules. When leaves are removed, some redundant rules stay, because detecting them
    /// costs more than keeping them. Without this call, each new trace has some of them decided.
    fn remove_redundant(&mut self) {}

    /// Begins to put many leaves into an empty table. Until [`TableBackend::end_rebuild`] it has no rules for them.
    fn begin_rebuild(&mut self) {}

    /// Ends a rebuild. Rules with these matches get these priorities, as far as the order of the leaves allows. So a
    /// table that is built again differs little from the one before.
    fn end_rebuild(&mut self, preferred: &[(Vec<Constraint>, u16)]) {
        let _ = preferred;
    }

    /// Specialises a leaf that was just added: it keeps only packets that fit these reads, as far as one match can
    /// state that. The packet that made the leaf must fit them.
    fn specialise(&mut self, leaf: LeafId, reads: &[Constraint]) {
        let _ = (leaf, reads);
    }

    /// Specialises a leaf if that saves many rules. A leaf that was added during a rebuild is not specialised yet.
    fn specialise_if_worthwhile(&mut self, leaf: LeafId, packet: &dyn Fields) {
        let _ = (leaf, packet);
    }

    /// Returns the matches that have a priority, with that priority: those of the rules, and those of barrier rules
    /// that are not required.
    fn priorities(&self) -> Vec<(Vec<Constraint>, u16)> {
        Vec::new()
    }

    /// Returns the rules as they should be now, by falling priority.
    fn rules(&self) -> Vec<Rule>;

    /// Reports whether something may have changed since changes were last taken.
    fn may_have_changes(&self) -> bool;

    /// Returns what has changed since the last call, in an order whose every prefix is safe.
    fn take_changes(&mut self) -> Vec<Change>;

    /// Returns the number of times that entries of the table were looked at so far: a measure of the work that edits
    /// took. The paper's compiler does not count and returns 0.
    fn visited(&self) -> u64 {
        0
    }
}

impl RuleTable {
    /// Creates a table without leaves and rules.
    pub fn new(target: TableTarget) -> RuleTable {
        RuleTable::tuned(target, Tuning::default())
    }

    /// Creates a table with thresholds other than the product's.
    pub fn tuned(target: TableTarget, tuning: Tuning) -> RuleTable {
        RuleTable::with_backend(Box::new(IncrementalCompiler::new(target, tuning)))
    }

    /// Creates a table whose rules come from another compiler.
    pub fn with_backend(backend: Box<dyn TableBackend>) -> RuleTable {
        RuleTable { backend }
    }
}

impl Deref for RuleTable {
    type Target = dyn TableBackend;

    fn deref(&self) -> &(dyn TableBackend + 'static) {
        &*self.backend
    }
}

impl DerefMut for RuleTable {
    fn deref_mut(&mut self) -> &mut (dyn TableBackend + 'static) {
        &mut *self.backend
    }
}

impl Clone for RuleTable {
    fn clone(&self) -> RuleTable {
        RuleTable { backend: self.backend.boxed_clone() }
    }
}

impl fmt::Debug for TableTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TableTarget { under, priorities, .. } = self;
        f.debug_struct("TableTarget").field("under", under).field("priorities", priorities).finish_non_exhaustive()
    }
}
