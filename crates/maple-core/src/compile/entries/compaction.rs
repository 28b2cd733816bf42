//! Saving levels: rules that make way for others, and levels that are given up.
//!
//! # What
//!
//! A *shift* has a entry take another level. What stands in its way goes on in the same direction, to the next level in
//! use, and so on. So each shift keeps the order of levels, or it is not made. It costs the rules that are sent again at
//! another priority; barriers that are no rules move at no cost.
//!
//! * A entry that would make a new level between two others is shifted to the one above or below it, whichever costs less
//!   ([`EntryTable::make_way`]).
//! * Once in [`EVERY`] changes it is seen which of [`LOOKED_AT`] levels costs least to give up: each entry of it is shifted
//!   up or down ([`EntryTable::give_up_a_level`]). As long as there are more levels than the longest chain of entries that must
//!   yield to each other has entries, each entry has room above it or below it, or the chain through it would be longer. So
//!   what keeps a level is its price.
//!
//! # Cost
//!
//! A entry that a plan passes is asked for its level, in little memory (`plan.rs`).
//! Of all changes that are sent, one in [`SHARE`] at most is the addition of such a rule; a plan ends where it would cost
//! more than is left of that, or move more than [`WAY`] entries. So the work for a change does not grow with the table.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use super::priority_plan::{PriorityPlan, Steps};
use super::{EntryId, EntryTable};
use crate::tree::Tree;

/// For how many changes one rule may be sent again to save levels.
const SHARE: u64 = 50;

/// How many rules may be sent again so that a new one needs no level of its own.
const MOVES: u64 = 1;

/// How many entries may move at a time.
const WAY: usize = 100;

/// After how many changes it is seen whether a level can be given up.
const EVERY: u64 = 200;

/// How many levels are looked at then, and how many entries these may have.
const LOOKED_AT: usize = 64;
const FEW: usize = 30;

/// How much was and may be done to save levels.
#[derive(Debug, Default)]
pub(super) struct Savings {
    /// Changes sent, and rules among them that were sent again to save levels.
    sent: u64,
    moved: u64,
    /// How many changes were sent when it was last seen whether a level can be given up, and which was looked at last.
    looked: u64,
    last: u32,
    /// How many entries were looked at.
    pub(super) visited: Cell<u64>,
}

/// Where a shift goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

/// What a plan must keep to.
#[derive(Clone, Copy, Debug)]
struct Terms {
    /// The level that is given up.
    closed: Option<u32>,
    /// How many rules may be sent again.
    allowance: u64,
}

impl Savings {
    /// Takes note of changes that are sent.
    pub(super) fn send(&mut self, changes: usize) {
        self.sent += changes as u64;
    }

    /// How many rules may be sent again now.
    fn allowance(&self) -> u64 {
        (self.sent / SHARE).saturating_sub(self.moved)
    }
}

impl EntryTable {
    /// A level in use for a entry that belongs between `from` and `until`, where none is: others make way. `None` if that
    /// would take too much.
    pub(super) fn make_way(&mut self, tree: &Tree, id: EntryId, from: u32, until: u32) -> Option<u32> {
        let terms = Terms { closed: None, allowance: self.levels.savings.allowance().min(MOVES) };
        let ways = [(Way::Up, until.checked_sub(1)), (Way::Down, Some(from))];
        let mut plan = self.begin_draft();
        let begin = plan.mark();
        let is_found = self.cheapest(tree, &mut plan, id, ways, terms);
        let level = plan.level(id);
        let steps = plan.take_back(begin);
        self.levels.plan = plan;
        is_found.then(|| {
            self.carry_out(steps);
            level
        })
    }

    /// Gives up a level if it is time for that, and it costs little.
    pub(super) fn give_up_a_level(&mut self, tree: &Tree) {
        let savings = &mut self.levels.savings;
        if savings.sent < savings.looked + EVERY || savings.allowance() == 0 {
            return;
        }
        savings.looked = savings.sent;
        let last = savings.last;
        let used = &self.levels.used;
        let around = used.range(last + 1..).chain(used.range(..=last)).take(LOOKED_AT);
        let levels: Vec<u32> = around.filter(|(_, entries)| entries.len() <= FEW).map(|(level, _)| *level).collect();
        let mut plan = self.begin_draft();
        let begin = plan.mark();
        let mut best: Option<Steps> = None;
        for level in &levels {
            let allowance = best.as_ref().map_or(self.levels.savings.allowance(), |plan| plan.again.saturating_sub(1));
            let is_found = self.without(tree, &mut plan, Terms { closed: Some(*level), allowance }, *level);
            let steps = plan.take_back(begin);
            best = is_found.then_some(steps).or(best);
        }
        self.levels.plan = plan;
        self.levels.savings.last = levels.last().copied().unwrap_or(0);
        best.into_iter().for_each(|plan| self.carry_out(plan));
    }

    fn begin_draft(&mut self) -> PriorityPlan {
        let mut plan = std::mem::take(&mut self.levels.plan);
        plan.begin(self.entries.len());
        plan
    }

    /// Plans how all entries of a level can have others; says whether that can be.
    fn without(&self, tree: &Tree, plan: &mut PriorityPlan, terms: Terms, level: u32) -> bool {
        let ways = [(Way::Up, level.checked_sub(1)), (Way::Down, Some(level + 1))];
        let there = &self.levels.used[&level];
        // Each rule of the level is sent again, whatever else is.
        let rules = there.iter().filter(|id| self.entry(**id).taken.is_some()).count() as u64;
        // Those that are planned have made way already: no plan has a entry take this level.
        rules <= terms.allowance
            && there.iter().all(|id| plan.level(*id) != level || self.cheapest(tree, plan, *id, ways, terms))
    }

    /// Plans the cheaper way to have a entry go from one of these levels to the next one in use there, if there is one.
    fn cheapest(
        &self,
        tree: &Tree,
        plan: &mut PriorityPlan,
        id: EntryId,
        ways: [(Way, Option<u32>); 2],
        terms: Terms,
    ) -> bool {
        let begin = plan.mark();
        let own = u64::from(self.entry(id).taken.is_some());
        let again = plan.again() + own;
        let mut best: Option<Steps> = None;
        for (way, from) in ways {
            // The second way counts only if it costs less than the first.
            let allowance = best.as_ref().map_or(Some(terms.allowance), |best| best.again.checked_sub(1));
            let Some(allowance) = allowance.filter(|allowance| again <= *allowance) else { continue };
            let Some(level) = from.and_then(|from| self.next(way, from, terms)) else { continue };
            plan.step(id, level, own);
            let is_found = self.shift(tree, plan, id, way, Terms { allowance, ..terms });
            let steps = plan.take_back(begin);
            best = is_found.then_some(steps).or(best);
        }
        let is_found = best.is_some();
        best.into_iter().for_each(|steps| plan.make_again(steps));
        is_found
    }

    /// Completes a plan by which a entry takes another level: what is in its way moves on. Verdict whether that can be.
    fn shift(&self, tree: &Tree, plan: &mut PriorityPlan, id: EntryId, way: Way, terms: Terms) -> bool {
        let (mut open, mut turn) = (BTreeSet::new(), Some((self.rank(tree, id), id)));
        while let Some((_, id)) = turn {
            let (entry, level) = (self.entry(id), plan.level(id));
            let others = match way {
                Way::Up => &entry.earlier,
                Way::Down => &entry.later,
            };
            let visited = &self.levels.savings.visited;
            visited.set(visited.get() + others.len() as u64);
            // On the way down levels are compared the other way round.
            let turned = if way == Way::Up { 0 } else { u32::MAX };
            for other in others {
                let now = plan.level(*other);
                if now ^ turned < level ^ turned {
                    continue;
                }
                let Some(bound) = self.bound(id, level, *other, way) else { continue };
                let now = i64::from(now);
                if if way == Way::Up { now <= bound } else { now >= bound } {
                    continue;
                }
                let Some(next) = u32::try_from(bound).ok().and_then(|bound| self.next(way, bound, terms)) else {
                    return false;
                };
                let is_sent_again = self.entry(*other).taken.is_some() && !plan.is_planned(*other);
                plan.step(*other, next, is_sent_again.into());
                if plan.again() > terms.allowance || plan.moved() > WAY {
                    return false;
                }
                open.insert((self.rank(tree, *other), *other));
            }
            turn = match way {
                Way::Up => open.pop_last(),
                Way::Down => open.pop_first(),
            };
        }
        true
    }

    /// How far down (or, on the way down, up) `other` may be if a entry has this level; `None` where that does not matter.
    fn bound(&self, id: EntryId, level: u32, other: EntryId, way: Way) -> Option<i64> {
        let (entry, there) = (self.spot(id), self.spot(other));
        let level = i64::from(level);
        let bound = match way {
            Way::Up => level - i64::from(there.says.gap(entry.says)),
            Way::Down => level + i64::from(entry.says.gap(there.says)),
        };
        there.is_placed().then_some(bound)
    }

    /// The first level in use from `from` on.
    fn next(&self, way: Way, from: u32, terms: Terms) -> Option<u32> {
        let used = &self.levels.used;
        let is_open = |level: &u32| Some(*level) != terms.closed;
        match way {
            Way::Up => used.range(..=from).rev().map(|(level, _)| *level).find(is_open),
            Way::Down => used.range(from..).map(|(level, _)| *level).find(is_open),
        }
    }

    fn carry_out(&mut self, plan: Steps) {
        self.levels.savings.moved += plan.again;
        let mut levels: BTreeMap<EntryId, u32> = BTreeMap::new();
        levels.extend(plan.steps.iter().map(|step| (step.id, step.level)));
        levels.into_iter().for_each(|(id, level)| self.put(id, level));
    }
}
