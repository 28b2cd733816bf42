//! Levels, numbered from the top down.
//!
//! # What
//!
//! Levels are the priorities of a table, counted from its highest. A new piece gets the first level in use below all
//! earlier pieces that it must yield to, as long as none that must yield to it is that high; if there is none in use, a
//! new *step*: steps lie some levels apart, so that pieces of yes-sides, which come between others, find room. Barriers
//! that are no rules have levels too, so that nothing moves when they become rules. A piece that takes the place of one
//! with the same match takes its level too.
//!
//! A piece that comes between two neighbouring levels in use would make a third. Before that, it is seen what would have
//! to move if it took the lower of the two: what must yield to it goes to the next level in use, and so on. Barriers that
//! are no rules move at no cost; of rules, at most [`MOVES`] at a time and one for each [`SHARE`] changes sent so far.
//! Where there is no room at all between what a piece must yield to and what must yield to it, the latter moves down.
//!
//! Where the levels run out, all pieces are numbered anew, with narrower steps; after that, rules below the lowest level
//! are left out.
//!
//! # Why the order holds
//!
//! A piece that came or changed is looked at in order of precedence: when its turn comes, all that it must yield to has
//! its level for good, and all behind it that now is too high gets its turn later.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use rustc_hash::FxHashMap;

use super::{PieceId, Pieces, Role};
use crate::tree::Tree;

/// How far apart steps are in a table that has all priorities.
const STEP: u32 = 64;

/// In how many steps a table is divided at least, where it has the levels.
const STEPS: u32 = 1000;

/// How many rules may be sent again so that a new one needs no level of its own.
const MOVES: u64 = 4;

/// For how many changes one rule may be sent again for that.
const SHARE: u64 = 60;

/// How many pieces may move at a time to save a level.
const WAY: usize = 100;

/// Which levels there are and which are in use.
#[derive(Debug)]
pub(super) struct Levels {
    /// The priority of level 0.
    highest: u16,
    /// How many there are.
    count: u32,
    step: u32,
    /// Levels in use, with the number of pieces.
    used: BTreeMap<u32, u32>,
    /// How many pieces there were when even the narrowest steps did not do.
    too_many: Option<usize>,
    /// How many changes were sent, and how many rules were sent again to save levels.
    sent: u64,
    moved: u64,
}

impl Levels {
    pub(super) fn new(priorities: &RangeInclusive<u16>) -> Levels {
        let count = (u32::from(*priorities.end()) + 1).saturating_sub(u32::from(*priorities.start()));
        let step = (count / STEPS).clamp(1, STEP);
        Levels { highest: *priorities.end(), count, step, used: BTreeMap::new(), too_many: None, sent: 0, moved: 0 }
    }

    /// The priority of a level that there is.
    pub(super) fn priority(&self, level: u32) -> u16 {
        self.highest - u16::try_from(level).unwrap_or(self.highest)
    }

    /// Whether there is such a level.
    pub(super) fn has(&self, level: u32) -> bool {
        level < self.count
    }

    /// A piece gives up its level.
    pub(super) fn leave(&mut self, level: u32) {
        if let Some(count) = self.used.get_mut(&level) {
            *count -= 1;
            if *count == 0 {
                self.used.remove(&level);
            }
        }
    }

    /// Takes note of changes that are sent.
    pub(super) fn send(&mut self, changes: usize) {
        self.sent += changes as u64;
    }

    /// How many rules may be sent again now to save a level.
    fn allowance(&self) -> u64 {
        (self.sent / SHARE).saturating_sub(self.moved).min(MOVES)
    }

    /// The first level in use from `from` on.
    fn used_from(&self, from: u32) -> Option<u32> {
        self.used.range(from..).next().map(|(level, _)| *level)
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

impl Pieces {
    /// Gives all touched pieces a level, and moves what stands in their way.
    pub(super) fn settle_levels(&mut self, tree: &Tree) {
        let touched = std::mem::take(&mut self.touched);
        let mut open: BTreeSet<(u64, PieceId)> = BTreeSet::new();
        for id in &touched {
            if self.role(*id) == Role::Nothing {
                self.displace(*id);
            } else {
                open.insert((self.rank(tree, *id), *id));
            }
        }
        self.touched = touched;
        self.inherit(&open);
        let mut overrun = false;
        while let Some((_, id)) = open.pop_first() {
            let (from, until) = self.bounds(id);
            let piece = self.piece(id);
            if !piece.placed || piece.level < from {
                let level = self.choose(tree, id, from, until);
                self.put(id, level);
            }
            let level = self.piece(id).level;
            overrun |= !self.levels.has(level);
            if level >= until {
                self.push_down(tree, id, &mut open);
            }
        }
        let pieces = self.pieces.len() - self.free.len();
        if overrun && self.levels.too_many.is_none_or(|many| pieces < many / 2) {
            self.renumber(tree);
        }
    }

    /// A level for a piece that must not lie above `from` and should lie above `until`.
    fn choose(&mut self, tree: &Tree, id: PieceId, from: u32, until: u32) -> u32 {
        let used = self.levels.used_from(from);
        match used {
            Some(level) if level < until => level,
            Some(level) if self.give_way(tree, id, level) => level,
            _ => self.levels.new_between(from, until),
        }
    }

    /// Moves what must yield to a piece out of its way to a level in use, and so on, if that takes few moves; returns
    /// whether it did.
    fn give_way(&mut self, tree: &Tree, id: PieceId, level: u32) -> bool {
        let allowance = self.levels.allowance();
        let mut levels: FxHashMap<PieceId, u32> = FxHashMap::from_iter([(id, level)]);
        let mut open = BTreeSet::from([(self.rank(tree, id), id)]);
        let mut again = 0;
        while let Some((_, id)) = open.pop_first() {
            let (piece, level) = (self.piece(id), levels[&id]);
            for other in &piece.later {
                let there = self.piece(*other);
                let Some(gap) = piece.says.gap(there.says).filter(|_| there.placed) else { continue };
                let is_moved = levels.contains_key(other);
                if levels.get(other).copied().unwrap_or(there.level) >= level + gap {
                    continue;
                }
                let least = level + gap;
                let below = self.levels.used_from(least).unwrap_or_else(|| self.levels.step_from(least));
                levels.insert(*other, below);
                open.insert((self.rank(tree, *other), *other));
                again += u64::from(!is_moved && there.taken.is_some());
            }
            if again > allowance || levels.len() > WAY {
                return false;
            }
        }
        self.levels.moved += again;
        levels.remove(&id);
        let mut levels: Vec<(PieceId, u32)> = levels.into_iter().collect();
        levels.sort_unstable();
        levels.into_iter().for_each(|(other, level)| self.put(other, level));
        true
    }

    /// Has all pieces that must yield to one, and are too high, get their turn.
    fn push_down(&mut self, tree: &Tree, id: PieceId, open: &mut BTreeSet<(u64, PieceId)>) {
        let piece = self.piece(id);
        for other in &piece.later {
            let there = self.piece(*other);
            let too_high = |gap: u32| there.level < piece.level + gap;
            if there.placed && piece.says.gap(there.says).is_some_and(too_high) {
                open.insert((self.rank(tree, *other), *other));
            }
        }
    }

    /// Lets pieces have the levels of pieces with the same match that went.
    fn inherit(&mut self, open: &BTreeSet<(u64, PieceId)>) {
        if self.vacant.is_empty() {
            return;
        }
        for (_, id) in open {
            let set = self.store.get(*id);
            let Some(level) = self.vacant.iter().find(|(vacant, _)| **vacant == *set).map(|(_, level)| *level) else {
                continue;
            };
            let (from, until) = self.bounds(*id);
            if !self.piece(*id).placed && from <= level && level < until {
                self.put(*id, level);
            }
        }
    }

    /// The first level that a piece may have, and the first below that it should not have.
    fn bounds(&mut self, id: PieceId) -> (u32, u32) {
        let (mut from, mut until) = (0, u32::MAX - 1);
        let piece = self.piece(id);
        for other in &piece.earlier {
            let there = self.piece(*other);
            if there.placed
                && let Some(gap) = there.says.gap(piece.says)
            {
                from = from.max(there.level + gap);
            }
        }
        for other in &piece.later {
            let there = self.piece(*other);
            if there.placed
                && let Some(gap) = piece.says.gap(there.says)
            {
                until = until.min(there.level + 1 - gap);
            }
        }
        let looked = piece.earlier.len() + piece.later.len();
        self.visited += looked as u64;
        (from, until)
    }

    fn put(&mut self, id: PieceId, level: u32) {
        self.displace(id);
        let piece = self.piece_mut(id);
        (piece.level, piece.placed) = (level, true);
        *self.levels.used.entry(level).or_default() += 1;
        self.change(id);
    }

    /// Takes a piece's level from it.
    fn displace(&mut self, id: PieceId) {
        let piece = self.piece_mut(id);
        if std::mem::take(&mut piece.placed) {
            let level = piece.level;
            self.levels.leave(level);
        }
    }

    /// Numbers all pieces anew, with steps as wide as there is room for.
    fn renumber(&mut self, tree: &Tree) {
        let ids = (0..self.pieces.len() as PieceId).filter(|id| self.pieces[*id as usize].is_some());
        let placed = ids.filter(|id| self.role(*id) != Role::Nothing);
        let mut order: Vec<(u64, PieceId)> = placed.map(|id| (self.rank(tree, id), id)).collect();
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
            let depth = self.piece(id).level;
            self.put(id, depth * step + step - 1);
        }
    }
}
