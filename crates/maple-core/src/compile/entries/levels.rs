//! Levels: the priorities of a table, counted from the highest down.
//!
//! # What
//!
//! An entry gets the first level in use below all earlier entries that it must yield to. It must also lie above the
//! later entries that must yield to it. If no level in use fits, it gets a new *step*: steps lie some levels apart, so
//! that entries of yes-sides, which come between others, find room. Four refinements:
//!
//! * The barrier entry of a test that prefixes a longer condition takes the second level that fits. Its yes-side will
//!   have tests of its own, whose entries belong above the barrier entry.
//! * Barrier entries that are not rules also have levels, so nothing moves when they become rules. An entry that
//!   replaces one with the same match takes that one's level.
//! * In a table that is built again, most rules have the levels that they had before, and stay there. Barrier entries
//!   that are not rules may not be known from before. One of them that finds no level between others gets none until it
//!   is a rule.
//! * An entry that fits only between two neighbouring levels would need a third one. First, `compaction.rs` checks
//!   whether others can make way. If there is no space at all, the entries that must yield to it move down.
//!
//! When levels run out, all entries are renumbered, with narrower steps. If that does not help, entries below the
//! lowest level get no rule.
//!
//! # Why the order holds
//!
//! New entries, and entries that must be told apart from more entries than before, are placed in order of precedence.
//! When an entry is placed, all entries that it must yield to have their levels. All entries that must yield to it and
//! are now too high are placed later.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use rustc_hash::FxHashMap;

use super::compaction::{Compaction, ResendBudget};
use super::entry_store::{EntryId, EntryStore, EntryVerdict};
use super::overlap_lists::OverlapLists;
use super::priority_plan::PriorityPlan;
use super::redundancy::Necessities;
use super::work_queue::{PrecedenceQueue, WorkQueue};
use super::{ChangeLog, Effort};
use crate::tree::Tree;

/// The distance between steps, in levels, in a table that has all priorities. Chosen: 2^6, so six entries in a row find
/// a level halfway to the next step; and [`MIN_STEPS`] such steps fit the 64,998 priorities of compiled rules.
const LEVELS_PER_STEP: u32 = 64;

/// The minimum number of steps of a table, if it has enough levels. Chosen: a table with few priorities needs room for
/// a long chain of tests first, and room between steps only after that.
const MIN_STEPS: u32 = 1000;

/// The mark in place of the level of an entry that has none.
pub(super) const UNPLACED: u32 = u32::MAX;

/// The levels of a table's entries.
#[derive(Clone, Debug)]
pub(super) struct Levels {
    /// The priority of level 0.
    highest: u16,
    /// The number of levels.
    count: u32,
    step: u32,
    /// The level of each entry. Empty while a plan is made.
    levels: Vec<u32>,
    /// The position of each entry among the entries of its level.
    seats: Vec<u32>,
    /// The levels in use, with their entries.
    used: BTreeMap<u32, Vec<EntryId>>,
    /// The levels of entries that were removed since the last recompute, by match.
    vacated: FxHashMap<Vec<u64>, Vec<u32>>,
    /// Whether the levels in `vacated` are those of the table before this one was built again.
    is_built_again: bool,
    /// The number of entries when even the narrowest steps did not suffice.
    overflowed_at: Option<usize>,
}

/// The direction in which to look from a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Up,
    Down,
}

impl Levels {
    /// Creates the levels of a table that may have these priorities.
    pub(super) fn new(priorities: &RangeInclusive<u16>) -> Levels {
        let count = (u32::from(*priorities.end()) + 1).saturating_sub(u32::from(*priorities.start()));
        Levels {
            highest: *priorities.end(),
            count,
            step: (count / MIN_STEPS).clamp(1, LEVELS_PER_STEP),
            levels: Vec::new(),
            seats: Vec::new(),
            used: BTreeMap::new(),
            vacated: FxHashMap::default(),
            is_built_again: false,
            overflowed_at: None,
        }
    }

    /// Returns the level of an entry, or [`UNPLACED`].
    #[inline]
    pub(super) fn level_of(&self, id: EntryId) -> u32 {
        self.levels.get(id as usize).copied().unwrap_or(UNPLACED)
    }

    /// Returns the priority of an entry, if it has a level for which there is a priority.
    pub(super) fn priority(&self, id: EntryId) -> Option<u16> {
        let level = self.level_of(id);
        self.exists(level).then(|| self.highest - u16::try_from(level).unwrap_or(self.highest))
    }

    /// Returns the level with this priority.
    pub(super) fn with_priority(&self, priority: u16) -> Option<u32> {
        let level = u32::from(self.highest.checked_sub(priority)?);
        self.exists(level).then_some(level)
    }

    /// Reports whether there is a priority for a level.
    pub(super) fn exists(&self, level: u32) -> bool {
        level < self.count
    }

    /// Gives an entry a level.
    pub(super) fn place(&mut self, id: EntryId, level: u32) {
        self.displace(id);
        if self.levels.len() <= id as usize {
            self.levels.resize(id as usize + 1, UNPLACED);
            self.seats.resize(id as usize + 1, 0);
        }
        let ids = self.used.entry(level).or_default();
        self.seats[id as usize] = ids.len() as u32;
        self.levels[id as usize] = level;
        ids.push(id);
    }

    /// Takes an entry's level away, and returns it.
    pub(super) fn displace(&mut self, id: EntryId) -> Option<u32> {
        let level = std::mem::replace(self.levels.get_mut(id as usize)?, UNPLACED);
        let ids = self.used.get_mut(&level)?;
        let seat = self.seats[id as usize];
        ids.swap_remove(seat as usize);
        match ids.get(seat as usize) {
            Some(moved) => self.seats[*moved as usize] = seat,
            None if ids.is_empty() => drop(self.used.remove(&level)),
            None => {}
        }
        Some(level)
    }

    /// Notes that an entry with this match was removed from a level.
    pub(super) fn vacate(&mut self, set: &[u64], level: u32) {
        self.vacated.entry(set.to_vec()).or_default().push(level);
    }

    /// Notes that an entry with this match had this level in the table before this one.
    pub(super) fn inherit(&mut self, set: &[u64], level: u32) {
        self.is_built_again = true;
        self.vacate(set, level);
    }

    /// Reports whether levels were vacated since the last recompute.
    pub(super) fn has_vacated(&self) -> bool {
        !self.vacated.is_empty()
    }

    /// Forgets the vacated levels.
    pub(super) fn forget_vacated(&mut self) {
        self.vacated.clear();
        self.is_built_again = false;
    }

    /// Makes matches `stride` words long.
    pub(super) fn widen(&mut self, stride: usize) {
        let longer = |(mut set, levels): (Vec<u64>, _)| {
            set.resize(stride, 0);
            (set, levels)
        };
        self.vacated = std::mem::take(&mut self.vacated).into_iter().map(longer).collect();
    }

    /// Returns the highest level in use.
    pub(super) fn top(&self) -> Option<u32> {
        self.used.keys().next().copied()
    }

    /// Reports whether there is a level in use from `from` on, before `until`.
    pub(super) fn has_between(&self, from: u32, until: u32) -> bool {
        from < until && self.used.range(from..until).next().is_some()
    }

    /// Finds the first level in use from `from` on, in a direction, that is not `closed`.
    pub(super) fn next(&self, direction: Direction, from: u32, closed: Option<u32>) -> Option<u32> {
        let is_open = |level: &u32| Some(*level) != closed;
        match direction {
            Direction::Up => self.used.range(..=from).rev().map(|(level, _)| *level).find(is_open),
            Direction::Down => self.used.range(from..).map(|(level, _)| *level).find(is_open),
        }
    }

    /// Returns at most `count` levels in use with their entries, beginning with the one after `last` and wrapping
    /// around.
    pub(super) fn around(&self, last: u32, count: usize) -> impl Iterator<Item = (u32, &[EntryId])> {
        let around = self.used.range(last + 1..).chain(self.used.range(..=last)).take(count);
        around.map(|(level, entries)| (*level, entries.as_slice()))
    }

    /// Returns the entries of a level.
    pub(super) fn entries(&self, level: u32) -> &[EntryId] {
        self.used.get(&level).map_or(&[], Vec::as_slice)
    }

    /// Begins a plan for other levels. Until [`Levels::end_plan`], only the plan has the levels of entries.
    pub(super) fn begin_plan(&mut self, entries: usize) -> PriorityPlan {
        self.levels.resize(entries.max(self.levels.len()), UNPLACED);
        self.seats.resize(self.levels.len(), 0);
        PriorityPlan::new(std::mem::take(&mut self.levels))
    }

    /// Ends a plan: levels are as they were before.
    pub(super) fn end_plan(&mut self, plan: PriorityPlan) {
        self.levels = plan.into_levels();
    }

    /// Returns the first step from `from` on.
    fn step_from(&self, from: u32) -> u32 {
        (from / self.step).saturating_mul(self.step).saturating_add(self.step - 1)
    }

    /// Returns a level that is not in use, at or after `from` and, if there is one, before `until`. Otherwise the level
    /// `from`.
    fn new_between(&self, from: u32, until: u32) -> u32 {
        match self.step_from(from) {
            step if step < until => step,
            _ if from < until => from + (until - from) / 2,
            _ => from,
        }
    }
}

/// Gives dirty entries their levels, and moves what is in their way.
pub(super) struct Levelling<'a> {
    pub(super) tree: &'a Tree,
    pub(super) store: &'a EntryStore,
    pub(super) overlaps: &'a OverlapLists,
    pub(super) necessities: &'a Necessities,
    pub(super) levels: &'a mut Levels,
    pub(super) budget: &'a mut ResendBudget,
    pub(super) changes: &'a mut ChangeLog,
    pub(super) work: &'a mut WorkQueue,
    pub(super) effort: &'a Effort,
}

impl Levelling<'_> {
    /// Places the entries whose level may have to change, in order of precedence.
    pub(super) fn run(&mut self) {
        let mut queue = self.work.take_ordered();
        let mut is_overrun = false;
        let unplaced = self.work.dirty().iter().filter(|id| {
            let level = self.levels.level_of(**id);
            if !self.store.state(**id).is_reachable() {
                self.levels.displace(**id);
                return false;
            }
            let is_open = level == UNPLACED || self.work.is_level_stale(**id);
            is_overrun |= !is_open && !self.levels.exists(level);
            is_open
        });
        queue.fill(unplaced.map(|id| (self.store.rank(self.tree, *id), *id)));
        self.inherit_vacated(&queue);
        while let Some(id) = queue.pop_first() {
            let (from, until) = self.bounds(id);
            let level = self.levels.level_of(id);
            if level == UNPLACED && from >= until && self.levels.is_built_again && !self.is_rule(id) {
                continue;
            }
            if level == UNPLACED || level < from {
                let level = self.choose(id, from, until);
                self.place(id, level);
            }
            let level = self.levels.level_of(id);
            is_overrun |= !self.levels.exists(level);
            if level >= until {
                self.push_down(id, &mut queue);
            }
        }
        self.work.keep_ordered(queue);
        if is_overrun && self.levels.overflowed_at.is_none_or(|entries| self.store.len() < entries / 2) {
            self.renumber();
        }
    }

    fn is_rule(&self, id: EntryId) -> bool {
        self.necessities.is_rule(self.store, id)
    }

    /// Chooses a level for an entry that must not be above `from` and should be above `until`.
    fn choose(&mut self, id: EntryId, from: u32, until: u32) -> u32 {
        let mut fitting = self.levels.used.range(from..until.max(from)).map(|(level, _)| *level);
        let first = fitting.next();
        let leaves_room = self.store.verdict(id) == EntryVerdict::Unexplored
            && self.tree.prefixes_a_longer_condition(self.store.node(id));
        let level = if leaves_room { fitting.next().or(first) } else { first };
        let level = level.or_else(|| self.compaction().make_way(id, from, until));
        level.unwrap_or_else(|| self.levels.new_between(from, until))
    }

    /// Borrows what the compaction of levels works on.
    pub(super) fn compaction(&mut self) -> Compaction<'_> {
        Compaction {
            tree: self.tree,
            store: self.store,
            overlaps: self.overlaps,
            levels: self.levels,
            budget: self.budget,
            changes: self.changes,
            effort: self.effort,
        }
    }

    /// Queues all entries that must yield to one and are too high.
    fn push_down(&self, id: EntryId, queue: &mut PrecedenceQueue) {
        let (level, verdict) = (self.levels.level_of(id), self.store.verdict(id));
        for other in self.overlaps.later(id) {
            let other_level = self.levels.level_of(*other);
            if other_level != UNPLACED && other_level < level + verdict.gap(self.store.verdict(*other)) {
                queue.insert(self.store.rank(self.tree, *other), *other);
            }
        }
    }

    /// Gives entries the levels of removed entries with the same match. The switch mostly has their rules there.
    fn inherit_vacated(&mut self, queue: &PrecedenceQueue) {
        if !self.levels.has_vacated() {
            return;
        }
        for id in queue.together() {
            if self.levels.level_of(id) != UNPLACED {
                continue;
            }
            let Some(levels) = self.levels.vacated.get(self.store.matching(id)) else { continue };
            let (from, until) = self.bounds(id);
            if let Some(level) = levels.iter().copied().find(|level| from <= *level && *level < until) {
                self.place(id, level);
                if self.is_rule(id) {
                    self.changes.expect(id);
                }
            }
        }
    }

    /// Returns the first level that an entry may have, and the first level further down that it should not have.
    fn bounds(&self, id: EntryId) -> (u32, u32) {
        let (mut from, mut until) = (0, u32::MAX - 1);
        let verdict = self.store.verdict(id);
        // Verdicts matter only of the few entries whose levels are nearer than those before.
        for other in self.overlaps.earlier(id) {
            let other_level = self.levels.level_of(*other);
            if other_level != UNPLACED && other_level >= from {
                from = from.max(other_level + self.store.verdict(*other).gap(verdict));
            }
        }
        for other in self.overlaps.later(id) {
            let other_level = self.levels.level_of(*other);
            if other_level < until {
                until = until.min(other_level + 1 - verdict.gap(self.store.verdict(*other)));
            }
        }
        self.effort.add(self.overlaps.degree(id));
        (from, until)
    }

    fn place(&mut self, id: EntryId, level: u32) {
        self.levels.place(id, level);
        self.changes.mark(id);
    }

    /// Renumbers all entries, with steps as wide as possible.
    fn renumber(&mut self) {
        let reachable = self.store.ids().filter(|id| self.store.state(*id).is_reachable());
        let mut order: Vec<(u64, EntryId)> = reachable.map(|id| (self.store.rank(self.tree, id), id)).collect();
        order.sort_unstable();
        for (_, id) in &order {
            self.levels.displace(*id);
        }
        let mut deepest = 0;
        for (_, id) in &order {
            let (depth, _) = self.bounds(*id);
            self.place(*id, depth);
            deepest = deepest.max(depth);
        }
        let step = (self.levels.count / deepest.saturating_mul(2).max(1)).clamp(1, LEVELS_PER_STEP);
        self.levels.step = step;
        self.levels.overflowed_at = (deepest >= self.levels.count).then_some(order.len());
        for (_, id) in order {
            let depth = self.levels.level_of(id);
            self.place(id, depth * step + step - 1);
        }
    }
}
