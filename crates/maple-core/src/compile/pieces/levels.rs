//! Levels, numbered from the top down.
//!
//! # What
//!
//! Levels are the priorities of a table, counted from its highest. A new piece gets the first *step* below all earlier
//! pieces that it must yield to: steps lie some levels apart, so that pieces of yes-sides, which come between others,
//! find room. A piece that takes the place of one with the same match takes its level too. Where there is no room
//! between what a piece must yield to and what must yield to it, the latter moves down, as little as it can.
//!
//! Where the levels run out, all pieces are numbered anew, with narrower steps; after that, pieces below the lowest
//! level are no rules.
//!
//! # Why the order holds
//!
//! A piece whose level or meaning changed is looked at in order of precedence: when its turn comes, all that it must
//! yield to has its level for good, and all behind it that now is too high gets its turn later.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use super::{PieceId, Pieces, Role, UNPLACED};
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
    /// Levels in use, with the number of pieces.
    used: BTreeMap<u32, u32>,
    /// How many pieces there were when even the narrowest steps did not do.
    too_many: Option<usize>,
}

impl Levels {
    pub(super) fn new(priorities: &RangeInclusive<u16>) -> Levels {
        let count = (u32::from(*priorities.end()) + 1).saturating_sub(u32::from(*priorities.start()));
        let step = (count / STEPS).clamp(1, STEP);
        Levels { highest: *priorities.end(), count, step, used: BTreeMap::new(), too_many: None }
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

    /// A level from `from` on and, if there is any such, before `until`; else the one at `from`.
    fn between(&self, from: u32, until: u32) -> u32 {
        let step = (from / self.step).saturating_mul(self.step).saturating_add(self.step - 1);
        if step < until {
            return step;
        }
        match self.used.range(from..until.max(from)).next() {
            Some((used, _)) => *used,
            None if from < until => from + (until - from) / 2,
            None => from,
        }
    }
}

impl Pieces {
    /// Gives all touched pieces a level, and moves what stands in their way.
    pub(super) fn settle_levels(&mut self, tree: &Tree) {
        let mut open: BTreeSet<(u64, PieceId)> = BTreeSet::new();
        for id in self.touched.keys() {
            if !self.piece(*id).shadowed {
                open.insert((self.rank(tree, *id), *id));
            }
        }
        self.inherit(tree, &open);
        let mut overrun = false;
        while let Some((rank, id)) = open.pop_first() {
            let around = self.overlapping(id);
            let (from, until, later) = self.bounds(tree, id, rank, &around);
            let level = self.piece(id).level;
            if level == UNPLACED || level < from {
                self.put(id, self.levels.between(from, until));
            }
            let level = self.piece(id).level;
            overrun |= !self.levels.has(level);
            let too_high = later.into_iter().filter(|(other, gap)| self.piece(*other).level < level + gap);
            open.extend(too_high.map(|(other, _)| (self.rank(tree, other), other)));
        }
        let pieces = self.pieces.len() - self.free.len();
        if overrun && self.levels.too_many.is_none_or(|many| pieces < many / 2) {
            self.renumber(tree);
        }
    }

    /// Lets pieces have the levels of pieces with the same match that went.
    fn inherit(&mut self, tree: &Tree, open: &BTreeSet<(u64, PieceId)>) {
        if self.vacant.is_empty() {
            return;
        }
        for (rank, id) in open {
            let all = &self.piece(*id).all;
            let Some(level) = self.vacant.iter().find(|(vacant, _)| vacant == all).map(|(_, level)| *level) else {
                continue;
            };
            let around = self.overlapping(*id);
            let (from, until, _) = self.bounds(tree, *id, *rank, &around);
            if self.piece(*id).level == UNPLACED && from <= level && level < until {
                self.put(*id, level);
            }
        }
    }

    /// The first level that a piece may have, the first below that it should not have, and what is to lie how far below
    /// it.
    fn bounds(&self, tree: &Tree, id: PieceId, rank: u64, around: &[PieceId]) -> (u32, u32, Vec<(PieceId, u32)>) {
        let (mut from, mut until, mut later) = (0, u32::MAX - 1, Vec::new());
        let piece = self.piece(id);
        for other in around {
            let there = self.piece(*other);
            if there.level == UNPLACED || there.node == piece.node {
                continue;
            }
            let Some(gap) = there.says.gap(&piece.says) else { continue };
            if self.rank(tree, *other) < rank {
                from = from.max(there.level + gap);
            } else {
                until = until.min(there.level + 1 - gap);
                later.push((*other, gap));
            }
        }
        (from, until, later)
    }

    fn put(&mut self, id: PieceId, level: u32) {
        let role = self.role(id);
        let old = std::mem::replace(&mut self.piece_mut(id).level, level);
        if old != UNPLACED {
            self.levels.leave(old);
        }
        *self.levels.used.entry(level).or_default() += 1;
        self.changed.insert(id);
        if role != self.role(id) {
            self.touched.entry(id).or_insert(role);
        }
    }

    /// Numbers all pieces anew, with steps as wide as there is room for.
    fn renumber(&mut self, tree: &Tree) {
        let ids = (0..self.pieces.len() as PieceId).filter(|id| self.pieces[*id as usize].is_some());
        let placed = ids.filter(|id| self.piece(*id).level != UNPLACED);
        let mut order: Vec<(u64, PieceId)> = placed.map(|id| (self.rank(tree, id), id)).collect();
        order.sort_unstable();
        let roles: Vec<Role> = order.iter().map(|(_, id)| self.role(*id)).collect();
        order.iter().for_each(|(_, id)| self.piece_mut(*id).level = UNPLACED);
        self.levels.used.clear();
        let mut deepest = 0;
        for (rank, id) in &order {
            let around = self.overlapping(*id);
            let (depth, ..) = self.bounds(tree, *id, *rank, &around);
            self.piece_mut(*id).level = depth;
            deepest = deepest.max(depth);
        }
        self.levels.step = (self.levels.count / deepest.saturating_mul(2).max(1)).clamp(1, STEP);
        self.levels.too_many = (deepest >= self.levels.count).then_some(order.len());
        let step = self.levels.step;
        for ((_, id), role) in order.into_iter().zip(roles) {
            let piece = self.piece_mut(id);
            piece.level = piece.level * step + step - 1;
            let level = piece.level;
            *self.levels.used.entry(level).or_default() += 1;
            self.changed.insert(id);
            if role != self.role(id) {
                self.touched.entry(id).or_insert(role);
            }
        }
    }
}
