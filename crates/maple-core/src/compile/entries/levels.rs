//! Levels, numbered from the top down.
//!
//! # What
//!
//! Levels are the priorities of a table, counted from its highest. A new entry gets the first level in use below all
//! earlier entries that it must yield to, as long as none that must yield to it is that high; if there is none in use, a
//! new *step*: steps lie some levels apart, so that entries of yes-sides, which come between others, find room. Of two
//! levels in use the barrier of a test that a longer question begins with takes the second: its yes-side will have entries
//! of its own, which belong between the barrier and what it yields to. Barriers that are no rules have levels too, so that
//! nothing moves when they become rules. A entry that takes the place of one with the same match takes its level too.
//!
//! A entry that comes between two neighbouring levels in use would make a third: before that, it is seen whether others
//! can make way, and now and then whether a level can be given up (`shift.rs`). Where there is no room at all between what
//! a entry must yield to and what must yield to it, the latter moves down.
//!
//! Where the levels run out, all entries are numbered anew, with narrower steps; after that, rules below the lowest level
//! are left out.
//!
//! # Necessity the order holds
//!
//! A entry that came, or has to be told apart from more entries than before, is looked at in order of precedence: when its
//! turn comes, all that it must yield to has its level for good, and all behind it that now is too high gets its turn later.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::compaction::Savings;
use super::priority_plan::PriorityPlan;
use super::work_queue::WorkQueue;
use super::{EntryId, EntryTable, Verdict};
use crate::tree::Tree;

/// How far apart steps are in a table that has all priorities.
const STEP: u32 = 64;

/// In how many steps a table is divided at least, where it has the levels.
const STEPS: u32 = 1000;

/// Which levels there are and which are in use.
#[derive(Debug)]
pub(super) struct Levels {
    /// The priority of level 0.
    highest: u16,
    /// How many there are.
    count: u32,
    step: u32,
    /// Levels in use, with their entries.
    pub(super) used: BTreeMap<u32, Vec<EntryId>>,
    /// How many entries there were when even the narrowest steps did not do.
    too_many: Option<usize>,
    pub(super) savings: Savings,
    /// All levels once more, for plans.
    pub(super) plan: PriorityPlan,
}

impl Levels {
    pub(super) fn new(priorities: &RangeInclusive<u16>) -> Levels {
        let count = (u32::from(*priorities.end()) + 1).saturating_sub(u32::from(*priorities.start()));
        let step = (count / STEPS).clamp(1, STEP);
        let (used, savings, plan) = (BTreeMap::new(), Savings::default(), PriorityPlan::default());
        Levels { highest: *priorities.end(), count, step, used, too_many: None, savings, plan }
    }

    /// The priority of a level that there is.
    pub(super) fn priority(&self, level: u32) -> u16 {
        self.highest - u16::try_from(level).unwrap_or(self.highest)
    }

    /// Whether there is such a level.
    pub(super) fn has(&self, level: u32) -> bool {
        level < self.count
    }

    /// Takes note of changes that are sent.
    pub(super) fn send(&mut self, changes: usize) {
        self.savings.send(changes);
    }

    /// The first step from `from` on.
    fn step_from(&self, from: u32) -> u32 {
        (from / self.step).saturating_mul(self.step).saturating_add(self.step - 1)
    }

    /// A level that is not in use, from `from` on and, if there is any such, before `until`; else the one at `from`.
    fn new_between(&self, from: u32, until: u32) -> u32 {
        match self.step_from(from) {
            step if step < until => step,
            _ if from < until => from + (until - from) / 2,
            _ => from,
        }
    }
}

impl EntryTable {
    /// Gives all touched entries a level, and moves what stands in their way.
    pub(super) fn settle_levels(&mut self, tree: &Tree) {
        let touched = std::mem::take(&mut self.touched);
        let mut open = self.turns.take();
        let mut overrun = false;
        for id in &touched {
            let spot = self.spot(*id);
            if !self.role(*id).counts() {
                self.displace(*id);
            } else if !spot.is_placed() || self.entry(*id).strays {
                open.insert((self.rank(tree, *id), *id));
            } else {
                overrun |= !self.levels.has(spot.level);
            }
        }
        self.touched = touched;
        self.inherit(&open);
        while let Some(id) = open.pop_first() {
            let (from, until) = self.bounds(id);
            let spot = self.spot(id);
            if !spot.is_placed() || spot.level < from {
                let level = self.choose(tree, id, from, until);
                self.put(id, level);
            }
            let level = self.spot(id).level;
            overrun |= !self.levels.has(level);
            if level >= until {
                self.push_down(tree, id, &mut open);
            }
        }
        self.turns = open;
        if overrun && self.levels.too_many.is_none_or(|many| self.live < many / 2) {
            self.renumber(tree);
        }
    }

    /// A level for a entry that must not lie above `from` and should lie above `until`.
    fn choose(&mut self, tree: &Tree, id: EntryId, from: u32, until: u32) -> u32 {
        let mut there = self.levels.used.range(from..until.max(from)).map(|(level, _)| *level);
        let first = there.next();
        let leaves_room =
            self.spot(id).says == Verdict::Unexplored && tree.prefixes_a_longer_condition(self.spot(id).node);
        match if leaves_room { there.next().or(first) } else { first } {
            Some(level) => level,
            None => self.make_way(tree, id, from, until).unwrap_or_else(|| self.levels.new_between(from, until)),
        }
    }

    /// Has all entries that must yield to one, and are too high, get their turn.
    fn push_down(&mut self, tree: &Tree, id: EntryId, open: &mut WorkQueue) {
        let spot = self.spot(id);
        for other in &self.entry(id).later {
            let there = self.spot(*other);
            let too_high = |gap: u32| there.level < spot.level + gap;
            if there.is_placed() && too_high(spot.says.gap(there.says)) {
                open.insert((self.rank(tree, *other), *other));
            }
        }
    }

    /// Lets entries have the levels of entries with the same match that went.
    fn inherit(&mut self, open: &WorkQueue) {
        if self.vacant.items().is_empty() {
            return;
        }
        for id in open.iter() {
            let set = self.store.get(id);
            let mut vacant = self.vacant.items().iter().enumerate();
            let Some((_, level)) = vacant.find(|(at, _)| self.vacant.get(*at) == set) else { continue };
            let level = *level;
            let (from, until) = self.bounds(id);
            if !self.spot(id).is_placed() && from <= level && level < until {
                self.put(id, level);
            }
        }
    }

    /// The first level that a entry may have, and the first below that it should not have.
    fn bounds(&mut self, id: EntryId) -> (u32, u32) {
        let (mut from, mut until) = (0, u32::MAX - 1);
        let (entry, spot) = (self.entry(id), self.spot(id));
        for other in &entry.earlier {
            let there = self.spot(*other);
            if there.is_placed() {
                from = from.max(there.level + there.says.gap(spot.says));
            }
        }
        for other in &entry.later {
            let there = self.spot(*other);
            if there.is_placed() {
                until = until.min(there.level + 1 - spot.says.gap(there.says));
            }
        }
        let looked = entry.earlier.len() + entry.later.len();
        self.visited += looked as u64;
        (from, until)
    }

    /// Gives a entry a level.
    pub(super) fn put(&mut self, id: EntryId, level: u32) {
        self.displace(id);
        let there = self.levels.used.entry(level).or_default();
        there.push(id);
        let seat = there.len() as u32 - 1;
        let spot = &mut self.spots[id as usize];
        (spot.level, spot.seat) = (level, Some(seat));
        self.levels.plan.put(id, level);
        self.change(id);
    }

    /// Takes a entry's level from it.
    pub(super) fn displace(&mut self, id: EntryId) {
        let spot = &mut self.spots[id as usize];
        let (level, Some(seat)) = (spot.level, spot.seat.take()) else { return };
        let there = self.levels.used.get_mut(&level).expect("a entry's level is in use");
        there.swap_remove(seat as usize);
        match there.get(seat as usize).copied() {
            Some(moved) => self.spots[moved as usize].seat = Some(seat),
            None if there.is_empty() => drop(self.levels.used.remove(&level)),
            None => {}
        }
    }

    /// Numbers all entries anew, with steps as wide as there is room for.
    fn renumber(&mut self, tree: &Tree) {
        let ids = (0..self.entries.len() as EntryId).filter(|id| self.entries[*id as usize].is_some());
        let placed = ids.filter(|id| self.role(*id).counts());
        let mut order: Vec<(u64, EntryId)> = placed.map(|id| (self.rank(tree, id), id)).collect();
        order.sort_unstable();
        order.iter().for_each(|(_, id)| self.displace(*id));
        let mut deepest = 0;
        for (_, id) in &order {
            let (depth, _) = self.bounds(*id);
            self.put(*id, depth);
            deepest = deepest.max(depth);
        }
        self.levels.step = (self.levels.count / deepest.saturating_mul(2).max(1)).clamp(1, STEP);
        self.levels.too_many = (deepest >= self.levels.count).then_some(order.len());
        let step = self.levels.step;
        for (_, id) in order {
            let depth = self.spot(id).level;
            self.put(id, depth * step + step - 1);
        }
    }
}
