//! The entries of a table: matches in order of precedence, which of them are rules, and at which level.
//!
//! # What
//!
//! An *entry* is a match that belongs to a node of the tree, with a *verdict*: forward as a leaf says, or send to the
//! controller, because the yes-side of a test is unexplored or only partly explored. Entries take precedence as their
//! nodes do ([`Tree::rank`]). Each question about them has a part of its own, which knows as little as possible about
//! the others:
//!
//! | part | keeps | the pass that updates it |
//! | --- | --- | --- |
//! | [`EntryStore`] | match, node, verdict and state of each entry | [`Shadowing`]: which entries no packet gets to |
//! | [`OverlapLists`] | which entries overlap, in order of precedence | [`OverlapLists::settle`], first of all |
//! | [`Necessities`] | which barrier entries are required as rules, and why | [`Redundancy`] |
//! | [`Levels`] | the level of each entry | [`Levelling`], and beside it [`Compaction`](compaction::Compaction) |
//! | [`ChangeLog`] | which rules were sent, and where that may have changed | when changes are taken |
//! | [`WorkQueue`] | which entries are dirty, and what is deferred | all of them |
//!
//! [`EntryTable`] connects them: an edit goes to each part, and [`EntryTable::recompute`] runs the passes one after the
//! other.
//!
//! # Why the rules are right
//!
//! Let `x1, x2, …` be the entries that take a packet, in order of precedence. The packet must be treated by the verdict
//! of `x1`, or go to the controller. If `x1` forwards, it is a rule. Rules above it were told apart from it and come
//! before it, so they do not take the packet, or do the same. If `x1` is a barrier entry, let `xm` be the first that
//! forwards. Then `x(m-1)` is a barrier entry and required, so it is a rule, above `xm` and all later forwarding
//! entries. If none forwards, no rule but a barrier rule takes the packet. Entries below the lowest priority have no
//! rule, and all that must yield to them lie lower still.
//!
//! # Cost
//!
//! An edit costs the entries that overlap what came, went or changed. [`EntryTable::visited`] counts them.

use std::cell::Cell;
use std::ops::RangeInclusive;

use maple_prefetch::prefetch;
use maple_wire::{Constraint, Instruction};

use super::tuning::Tuning;
use crate::rule::Rule;
use crate::tree::{LeafId, NodeId, Tree};
use crate::update::Change;

mod entry_store;

mod neighbours;
mod overlap_index;
mod overlap_join;
mod overlap_lists;

mod shadowing;

mod redundancy;

mod levels;

mod change_log;

mod work_queue;

mod compaction;
mod priority_plan;

mod barrier_savings;

mod actions;
mod marks;
mod packed;

pub(super) use actions::ActionId;
use actions::Actions;
use change_log::{ChangeLog, WantedRules};
use compaction::ResendBudget;
use entry_store::EntryStore;
pub(super) use entry_store::{EntryId, EntryVerdict};
use levels::{Levelling, Levels, UNPLACED};
use overlap_lists::OverlapLists;
pub(super) use redundancy::Checks;
use redundancy::{Necessities, Redundancy};
use shadowing::Shadowing;
use work_queue::WorkQueue;

/// The entries of a table.
#[derive(Clone, Debug)]
pub(super) struct EntryTable {
    store: EntryStore,
    overlaps: OverlapLists,
    necessities: Necessities,
    levels: Levels,
    budget: ResendBudget,
    changes: ChangeLog,
    actions: Actions,
    work: WorkQueue,
    tuning: Tuning,
    effort: Effort,
    /// Whether no changes were taken since the table was built again.
    is_built_again: bool,
    /// A scratch buffer for a packed match, kept to reuse its allocation.
    scratch: Vec<u64>,
}

/// A count of how often entries are looked at: a measure of work that does not depend on the machine.
#[derive(Clone, Debug, Default)]
struct Effort(Cell<u64>);

impl Effort {
    fn add(&self, entries: usize) {
        self.0.set(self.0.get() + entries as u64);
    }
}

impl EntryTable {
    /// Creates a table without entries, for these priorities.
    pub(super) fn new(priorities: &RangeInclusive<u16>, tuning: Tuning) -> EntryTable {
        EntryTable {
            store: EntryStore::default(),
            overlaps: OverlapLists::default(),
            necessities: Necessities::default(),
            levels: Levels::new(priorities),
            budget: ResendBudget::new(&tuning),
            changes: ChangeLog::default(),
            actions: Actions::default(),
            work: WorkQueue::default(),
            tuning,
            effort: Effort::default(),
            is_built_again: false,
            scratch: Vec::new(),
        }
    }

    /// Returns the name of these instructions. They are held until it is released.
    pub(super) fn intern(&mut self, instructions: Vec<Instruction>) -> ActionId {
        self.actions.intern(instructions)
    }

    /// Releases the instructions of a name once.
    pub(super) fn release(&mut self, action: ActionId) {
        self.actions.release(EntryVerdict::Forward(action));
    }

    /// Adds an entry. The match has at most one constraint a field, in OXM order.
    pub(super) fn insert(
        &mut self,
        all: &[Constraint],
        node: NodeId,
        leaf: Option<LeafId>,
        verdict: EntryVerdict,
    ) -> EntryId {
        let set = self.pack(all);
        let EntryTable { store, overlaps, necessities, .. } = self;
        let recycled = overlaps.sweep(store, |id| necessities.forget_gone(store, id));
        self.store.recycle(recycled);
        let id = self.store.insert(&set, node, leaf, verdict);
        self.scratch = set;
        self.overlaps.insert(id);
        self.necessities.add(id);
        self.changes.add(id);
        self.actions.hold_for_entry(verdict);
        self.work.add(id);
        id
    }

    /// Returns the matches of all entries that have a priority, with that priority.
    pub(super) fn priorities(&self) -> Vec<(Vec<Constraint>, u16)> {
        let with_priority =
            |id| Some((self.store.unpack(self.store.matching(id)).collect(), self.levels.priority(id)?));
        self.store.ids().filter_map(with_priority).collect()
    }

    /// Gives an entry with this match this priority at the next recompute, if that is in order.
    pub(super) fn prefer(&mut self, all: &[Constraint], priority: u16) {
        let Some(level) = self.levels.with_priority(priority) else { return };
        let set = self.pack(all);
        self.levels.inherit(&set, level);
        self.scratch = set;
    }

    /// Reports whether an entry has this match.
    pub(super) fn has_match(&mut self, id: EntryId, all: &[Constraint]) -> bool {
        let set = self.pack(all);
        let is_same = *self.store.matching(id) == *set;
        self.scratch = set;
        is_same
    }

    /// Changes the verdict and the leaf of an entry.
    pub(super) fn set_verdict(&mut self, id: EntryId, leaf: Option<LeafId>, verdict: EntryVerdict) {
        let (old, before) = (self.store.verdict(id), self.store.state(id));
        if old == verdict && self.store.leaf(id) == leaf {
            return;
        }
        if self.must_be_told_apart_more(old, verdict) {
            self.work.mark_level_stale(id);
        }
        self.store.set_verdict(id, leaf, verdict);
        self.work.mark_edited(id, before, self.store.state(id));
        self.actions.hold_for_entry(verdict);
        self.actions.release_from_entry(old);
    }

    /// Reports whether an entry whose verdict changes may have to be told apart from entries with which it could share
    /// a level before ([`EntryVerdict::gap`]).
    fn must_be_told_apart_more(&self, old: EntryVerdict, new: EntryVerdict) -> bool {
        old != new
            && match old {
                EntryVerdict::Unexplored => false,
                EntryVerdict::PartiallyExplored => true,
                EntryVerdict::Forward(action) => self.actions.is_of_several_entries(action),
            }
    }

    /// Removes an entry.
    pub(super) fn remove(&mut self, id: EntryId) {
        let state = self.store.state(id);
        let verdict = self.store.remove(id);
        if let Some(level) = self.levels.displace(id) {
            self.levels.vacate(self.store.matching(id), level);
        }
        let lists = self.overlaps.remove(id);
        if state.is_reachable() && self.store.shadowed() > 0 {
            let is_shadowed = |other: &EntryId| self.store.is_shadowed(*other);
            self.work.add_unshadow_candidates(lists.later().iter().copied().filter(is_shadowed));
        }
        self.redundancy().removed(id, state, &lists);
        self.changes.remove(id, self.store.matching(id));
        self.actions.release_from_entry(verdict);
        self.work.remove(id);
    }

    /// Brings rules and levels up to date.
    pub(super) fn recompute(&mut self, tree: &Tree, checks: Checks) {
        self.work.drop_removed(&self.store);
        self.overlaps.settle(&self.store, tree, &self.effort);
        if !self.recompute_lone_entry() {
            let EntryTable { store, overlaps, work, effort, .. } = self;
            Shadowing { tree, store, overlaps, work, effort }.run();
            self.redundancy().run(tree, checks);
            self.levelling(tree).run();
        }
        if checks == Checks::Now {
            // When leaves are removed, levels become free by themselves.
            self.levelling(tree).compaction().give_up_a_level();
        }
        self.work.finish(|id| self.changes.mark(id));
        self.levels.forget_vacated();
    }

    /// Places the entry and returns true, if all that there is to do is one new entry that overlaps nothing. No other
    /// entry shadows it or is shadowed, and no barrier rule changes. Most traces of a large table add such an entry.
    fn recompute_lone_entry(&mut self) -> bool {
        let Some(id) = self.work.only_entry() else { return false };
        let is_alone = self.overlaps.degree(id) == 0 && !self.levels.has_vacated();
        let is_new = self.work.is_new(id) && self.levels.level_of(id) == UNPLACED;
        let top = self.levels.top().filter(|level| self.levels.exists(*level));
        let Some(level) = top.filter(|_| is_alone && is_new) else { return false };
        self.effort.add(1);
        self.levels.place(id, level);
        true
    }

    /// Decides all barrier rules that may be redundant.
    pub(super) fn remove_redundant(&mut self, tree: &Tree) {
        while self.work.has_deferred() {
            self.recompute(tree, Checks::Now);
        }
    }

    /// Returns the rules as they should be now, by falling priority.
    pub(super) fn rules(&self, cookie: &dyn Fn(Option<LeafId>) -> u64) -> Vec<Rule> {
        let EntryTable { store, levels, necessities, .. } = self;
        WantedRules { store, levels, necessities }.all(&self.actions, cookie)
    }

    /// Reports whether something may have changed since changes were last taken.
    pub(super) fn may_have_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Returns what has changed since the last call, in an order whose every prefix is safe.
    pub(super) fn take_changes(&mut self, cookie: &dyn Fn(Option<LeafId>) -> u64) -> Vec<Change> {
        let EntryTable { store, levels, necessities, .. } = self;
        let changes = self.changes.take(&WantedRules { store, levels, necessities }, &mut self.actions, cookie);
        // Most rules of a table that was built again are there already.
        if !std::mem::take(&mut self.is_built_again) {
            self.budget.sent(changes.len());
        }
        changes
    }

    /// Notes that the table was built again: all its rules come anew, though a switch may have them.
    pub(super) fn built_again(&mut self) {
        self.is_built_again = true;
    }

    /// Returns the number of times that entries were looked at so far.
    pub(super) fn visited(&self) -> u64 {
        self.effort.0.get()
    }

    /// Prefetches what [`EntryTable::remove`] reads of an entry.
    pub(super) fn prefetch_removal(&self, id: EntryId) {
        prefetch(self.store.matching(id));
        self.overlaps.prefetch_removal(id);
    }

    fn redundancy(&mut self) -> Redundancy<'_> {
        let EntryTable { store, overlaps, necessities, work, tuning, effort, .. } = self;
        Redundancy { store, overlaps, necessities, work, tuning, effort }
    }

    fn levelling<'a>(&'a mut self, tree: &'a Tree) -> Levelling<'a> {
        let EntryTable { store, overlaps, necessities, levels, budget, changes, work, effort, .. } = self;
        Levelling { tree, store, overlaps, necessities, levels, budget, changes, work, effort }
    }

    /// Packs a match. Fields that have no place get one. The caller puts the result back into `scratch`.
    fn pack(&mut self, all: &[Constraint]) -> Vec<u64> {
        let mut set = std::mem::take(&mut self.scratch);
        if !self.store.pack(all, &mut set) {
            if let Some(stride) = self.store.admit(all) {
                self.necessities.widen(stride);
                self.levels.widen(stride);
                self.changes.widen(stride);
                self.overlaps.rebuild_index(&self.store);
            }
            self.store.pack(all, &mut set);
        }
        set
    }
}

/// Creates a tree with this many leaves, for entries that belong to them. The leaves come in the order of their
/// numbers.
#[cfg(test)]
fn tree_of(leaves: u64) -> Tree {
    use crate::trace::Item;

    let mut tree = Tree::new();
    for leaf in 0..leaves {
        let read = Item::Read(Constraint::exact(maple_wire::Field::Ipv4Src, leaf.into()));
        tree.augment(&[read], LeafId(leaf));
    }
    tree
}
