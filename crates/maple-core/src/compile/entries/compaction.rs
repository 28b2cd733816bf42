//! Priority compaction: fewer levels, at a bounded price in rules that are sent again.
//!
//! # What
//!
//! This pass is optional: without it the table is right, but has more levels (`docs/algorithm.md`). It does two things:
//!
//! * [`Compaction::make_way`]: if an entry would need a new level between two others, it moves to the level above or
//!   below, whichever costs less. What is in its way moves on.
//! * [`Compaction::give_up_a_level`]: from time to time, the level that costs least is given up. Each of its entries
//!   moves up or down.
//!
//! A *shift* moves an entry to another level. Entries in its way move on in the same direction to the next level in
//! use, and so on. So a shift keeps the order of levels, or it is not made.
//!
//! # Why it ends well
//!
//! While there are more levels than the longest chain of entries that must yield to each other, each entry has room
//! above or below. Otherwise the chain through it would be longer. So only its price keeps a level.
//!
//! # Cost
//!
//! Rules that move are sent again. Barrier entries that are not rules move at no cost. At most a fixed share of all
//! flow-mods ([`Tuning`]) is spent on this. A plan ends when it would cost more than is left, or move too many entries.
//! So the work for a change does not grow with the table.

use std::collections::{BTreeMap, BTreeSet};

use super::entry_store::{EntryId, EntryStore};
use super::levels::{Direction, Levels, UNPLACED};
use super::overlap_lists::OverlapLists;
use super::priority_plan::{PriorityPlan, Steps};
use super::{ChangeLog, Effort};
use crate::compile::tuning::Tuning;
use crate::tree::Tree;

/// The maximum number of rules that may be sent again so that one entry needs no new level. Chosen: a level saves
/// nothing at a switch, so it is worth one flow-mod and no more.
const MAX_RESENT_TO_MAKE_WAY: u64 = 1;

/// The maximum number of entries that a plan may move. Chosen: it bounds the work of a plan also where most entries are
/// barrier entries without rules, which move at no price in flow-mods.
const MAX_MOVED: usize = 100;
/// The maximum number of overlapping entries that one shift may look at: in a list of 50,000 rules some entries overlap
/// thousands.
const MAX_LOOKED_AT: usize = 20_000;

/// The number of levels that are considered for giving up. Chosen: a look takes turns through the table, so it may be
/// short; it happens once in many changes ([`Tuning`]).
const LEVELS_LOOKED_AT: usize = 64;
/// The maximum number of entries of a level that is considered. Chosen: a plan for more entries would soon exceed
/// [`MAX_MOVED`], since each entry may push others on.
const MAX_ENTRIES_OF_LEVEL: usize = 30;

/// The allowance of rules that may be sent again.
#[derive(Clone, Debug)]
pub(super) struct ResendBudget {
    changes_per_resend: u64,
    changes_between_looks: u64,
    /// The number of changes that were sent, and the number of rules that were sent again to save levels.
    sent: u64,
    resent: u64,
    /// The value of `sent` when levels were last looked at, and the last of those levels.
    looked_at: u64,
    last_level: u32,
}

/// Moves entries to other levels.
pub(super) struct Compaction<'a> {
    pub(super) tree: &'a Tree,
    pub(super) store: &'a EntryStore,
    pub(super) overlaps: &'a OverlapLists,
    pub(super) levels: &'a mut Levels,
    pub(super) budget: &'a mut ResendBudget,
    pub(super) changes: &'a mut ChangeLog,
    pub(super) effort: &'a Effort,
}

/// The limits that a plan must keep to.
#[derive(Clone, Copy, Debug)]
struct PlanLimits {
    /// The level that is given up.
    closed: Option<u32>,
    /// The maximum number of rules that may be sent again.
    allowance: u64,
}

impl ResendBudget {
    /// Creates an allowance from which nothing is spent.
    pub(super) fn new(tuning: &Tuning) -> ResendBudget {
        ResendBudget {
            changes_per_resend: tuning.changes_per_resend,
            changes_between_looks: tuning.changes_between_level_checks,
            sent: 0,
            resent: 0,
            looked_at: 0,
            last_level: 0,
        }
    }

    /// Counts changes that are sent.
    pub(super) fn sent(&mut self, changes: usize) {
        self.sent += changes as u64;
    }

    /// Returns the number of rules that may be sent again at the moment.
    fn allowance(&self) -> u64 {
        (self.sent / self.changes_per_resend).saturating_sub(self.resent)
    }

    /// Reports whether it is time to look for a level to give up, and something may be spent on it.
    fn is_time_to_look(&self) -> bool {
        self.sent >= self.looked_at + self.changes_between_looks && self.allowance() > 0
    }
}

impl Compaction<'_> {
    /// Finds a level in use for an entry that belongs between `from` and `until`, where no level is in use. Other
    /// entries make way. `None` if that would cost too much.
    pub(super) fn make_way(&mut self, id: EntryId, from: u32, until: u32) -> Option<u32> {
        let allowance = self.budget.allowance().min(MAX_RESENT_TO_MAKE_WAY);
        let ways = [(Direction::Up, until.checked_sub(1)), (Direction::Down, Some(from))];
        let mut plan = self.levels.begin_plan(self.store.numbers());
        let is_found = self.cheapest(&mut plan, id, ways, PlanLimits { closed: None, allowance });
        let (level, steps) = (plan.level(id), plan.take_back_all());
        self.levels.end_plan(plan);
        is_found.then(|| {
            self.carry_out(steps);
            level
        })
    }

    /// Gives up a level if it is time for that, and it costs little.
    pub(super) fn give_up_a_level(&mut self) {
        if !self.budget.is_time_to_look() {
            return;
        }
        self.budget.looked_at = self.budget.sent;
        let around = self.levels.around(self.budget.last_level, LEVELS_LOOKED_AT);
        let few = around.filter(|(_, entries)| entries.len() <= MAX_ENTRIES_OF_LEVEL);
        let levels: Vec<u32> = few.map(|(level, _)| level).collect();
        let mut plan = self.levels.begin_plan(self.store.numbers());
        let mut best: Option<Steps> = None;
        for level in &levels {
            let allowance = best.as_ref().map_or(self.budget.allowance(), |best| best.resent.saturating_sub(1));
            let is_found = self.without(&mut plan, *level, PlanLimits { closed: Some(*level), allowance });
            let steps = plan.take_back_all();
            best = is_found.then_some(steps).or(best);
        }
        self.levels.end_plan(plan);
        self.budget.last_level = levels.last().copied().unwrap_or(0);
        best.into_iter().for_each(|steps| self.carry_out(steps));
    }

    /// Plans other levels for all entries of a level. Returns whether that is possible.
    fn without(&self, plan: &mut PriorityPlan, level: u32, terms: PlanLimits) -> bool {
        let ways = [(Direction::Up, level.checked_sub(1)), (Direction::Down, Some(level + 1))];
        let entries = self.levels.entries(level);
        // Each rule of the level is sent again in any case.
        let rules = entries.iter().filter(|id| self.changes.is_installed(**id)).count() as u64;
        // An entry that the plan already moves has made way. No plan moves an entry to this level.
        rules <= terms.allowance
            && entries.iter().all(|id| plan.level(*id) != level || self.cheapest(plan, *id, ways, terms))
    }

    /// Plans the cheaper way to move an entry to the next level in use, from one of these levels on. Returns whether
    /// there is a way.
    fn cheapest(
        &self,
        plan: &mut PriorityPlan,
        id: EntryId,
        ways: [(Direction, Option<u32>); 2],
        terms: PlanLimits,
    ) -> bool {
        let begin = plan.mark();
        let own = u64::from(self.changes.is_installed(id));
        let resent = plan.resent() + own;
        let mut best: Option<Steps> = None;
        for (direction, from) in ways {
            // The second way counts only if it costs less than the first.
            let allowance = best.as_ref().map_or(Some(terms.allowance), |best| best.resent.checked_sub(1));
            let Some(allowance) = allowance.filter(|allowance| resent <= *allowance) else { continue };
            let level = from.and_then(|from| self.levels.next(direction, from, terms.closed));
            let Some(level) = level else { continue };
            plan.step(id, level, own);
            let is_found = self.shift(plan, id, direction, PlanLimits { allowance, ..terms });
            let steps = plan.take_back(begin);
            best = is_found.then_some(steps).or(best);
        }
        let is_found = best.is_some();
        best.into_iter().for_each(|steps| plan.redo(steps));
        is_found
    }

    /// Completes a plan that moves an entry: what is in its way moves on. Returns whether that is possible.
    fn shift(&self, plan: &mut PriorityPlan, id: EntryId, direction: Direction, terms: PlanLimits) -> bool {
        let (mut open, mut next, mut looked_at) = (BTreeSet::new(), Some((0, id)), 0);
        while let Some((_, id)) = next {
            let level = plan.level(id);
            let others = match direction {
                Direction::Up => self.overlaps.earlier(id),
                Direction::Down => self.overlaps.later(id),
            };
            looked_at += others.len();
            if looked_at > MAX_LOOKED_AT {
                return false;
            }
            self.effort.add(others.len());
            for other in others {
                let other_level = plan.level(*other);
                if other_level == UNPLACED || is_beyond(other_level, level, direction) {
                    continue;
                }
                let bound = self.bound(id, level, *other, direction);
                let is_in_the_way = match direction {
                    Direction::Up => i64::from(other_level) > bound,
                    Direction::Down => i64::from(other_level) < bound,
                };
                if !is_in_the_way {
                    continue;
                }
                let from = u32::try_from(bound).ok();
                let Some(free) = from.and_then(|from| self.levels.next(direction, from, terms.closed)) else {
                    return false;
                };
                let is_resent = self.changes.is_installed(*other) && !plan.moves(*other);
                plan.step(*other, free, is_resent.into());
                if plan.resent() > terms.allowance || plan.moved() > MAX_MOVED {
                    return false;
                }
                open.insert((self.store.rank(self.tree, *other), *other));
            }
            next = match direction {
                Direction::Up => open.pop_last(),
                Direction::Down => open.pop_first(),
            };
        }
        true
    }

    /// Returns the level down to which `other` may be if an entry has this level (or, when moving down, up to which).
    fn bound(&self, id: EntryId, level: u32, other: EntryId, direction: Direction) -> i64 {
        let (verdict, there) = (self.store.verdict(id), self.store.verdict(other));
        match direction {
            Direction::Up => i64::from(level) - i64::from(there.gap(verdict)),
            Direction::Down => i64::from(level) + i64::from(verdict.gap(there)),
        }
    }

    fn carry_out(&mut self, plan: Steps) {
        self.budget.resent += plan.resent;
        let levels: BTreeMap<EntryId, u32> = plan.steps.iter().map(|step| (step.id, step.level)).collect();
        for (id, level) in levels {
            self.levels.place(id, level);
            self.changes.mark(id);
        }
    }
}

/// Reports whether a level lies farther in a direction than another. Most neighbours do, and are not in the way.
fn is_beyond(level: u32, than: u32, direction: Direction) -> bool {
    match direction {
        Direction::Up => level < than,
        Direction::Down => level > than,
    }
}
