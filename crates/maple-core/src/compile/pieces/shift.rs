//! Saving levels: rules that make way for others, and levels that are given up.
//!
//! # What
//!
//! A *shift* has a piece take another level. What stands in its way goes on in the same direction, to the next level in
//! use, and so on. So each shift keeps the order of levels, or it is not made. It costs the rules that are sent again at
//! another priority; barriers that are no rules move at no cost.
//!
//! * A piece that would make a new level between two others is shifted to the one above or below it, whichever costs less
//!   ([`Pieces::make_way`]).
//! * Once in [`EVERY`] changes it is seen which of [`LOOKED_AT`] levels costs least to give up: each piece of it is shifted
//!   up or down ([`Pieces::give_up_a_level`]). As long as there are more levels than the longest chain of pieces that must
//!   yield to each other has pieces, each piece has room above it or below it, or the chain through it would be longer. So
//!   what keeps a level is its price.
//!
//! # Cost
//!
//! Of all changes that are sent, one in [`SHARE`] at most is the addition of such a rule; a plan ends where it would cost
//! more than is left of that, or move more than [`WAY`] pieces. So the work for a change does not grow with the table.

use std::cell::Cell;
use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::{PieceId, Pieces};
use crate::tree::Tree;

/// For how many changes one rule may be sent again to save levels.
const SHARE: u64 = 50;

/// How many rules may be sent again so that a new one needs no level of its own.
const MOVES: u64 = 1;

/// How many pieces may move at a time.
const WAY: usize = 100;

/// How many words of bits say that a piece is perhaps in a plan: enough that few others are taken for one.
const PERHAPS: usize = 16;

/// After how many changes it is seen whether a level can be given up.
const EVERY: u64 = 200;

/// How many levels are looked at then, and how many pieces these may have.
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
    /// How many pieces were looked at.
    pub(super) visited: Cell<u64>,
}

/// Where a shift goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

/// Which pieces take which levels.
#[derive(Clone, Debug, Default)]
struct Plan {
    levels: FxHashMap<PieceId, u32>,
    /// A bit for the number of each piece in it, modulo how many there are: most pieces that are asked for are not.
    perhaps: [u64; PERHAPS],
    /// How many rules are sent again.
    again: u64,
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

impl Plan {
    #[inline]
    fn get(&self, id: PieceId) -> Option<u32> {
        let perhaps = self.perhaps[id as usize / 64 % PERHAPS] >> (id % 64) & 1;
        if perhaps == 1 { self.levels.get(&id).copied() } else { None }
    }

    fn insert(&mut self, id: PieceId, level: u32) {
        self.perhaps[id as usize / 64 % PERHAPS] |= 1 << (id % 64);
        self.levels.insert(id, level);
    }
}

impl Pieces {
    /// A level in use for a piece that belongs between `from` and `until`, where none is: others make way. `None` if that
    /// would take too much.
    pub(super) fn make_way(&mut self, tree: &Tree, id: PieceId, from: u32, until: u32) -> Option<u32> {
        let terms = Terms { closed: None, allowance: self.levels.savings.allowance().min(MOVES) };
        let ways = [(Way::Up, until.checked_sub(1)), (Way::Down, Some(from))];
        let plan = self.cheapest(tree, &Plan::default(), id, ways, terms)?;
        let level = plan.levels[&id];
        self.carry_out(plan);
        Some(level)
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
        let levels: Vec<u32> = around.filter(|(_, pieces)| pieces.len() <= FEW).map(|(level, _)| *level).collect();
        let mut best: Option<Plan> = None;
        for level in &levels {
            let allowance = best.as_ref().map_or(self.levels.savings.allowance(), |plan| plan.again.saturating_sub(1));
            best = self.without(tree, Terms { closed: Some(*level), allowance }, *level).or(best);
        }
        self.levels.savings.last = levels.last().copied().unwrap_or(0);
        best.into_iter().for_each(|plan| self.carry_out(plan));
    }

    /// How all pieces of a level can have others.
    fn without(&self, tree: &Tree, terms: Terms, level: u32) -> Option<Plan> {
        let ways = [(Way::Up, level.checked_sub(1)), (Way::Down, Some(level + 1))];
        let there = &self.levels.used[&level];
        // Each rule of the level is sent again, whatever else is.
        let rules = there.iter().filter(|id| self.piece(**id).taken.is_some()).count() as u64;
        if rules > terms.allowance {
            return None;
        }
        let mut plan = Plan::default();
        for id in there {
            if plan.levels.get(id).is_none_or(|planned| *planned == level) {
                plan = self.cheapest(tree, &plan, *id, ways, terms)?;
            }
        }
        Some(plan)
    }

    /// The cheaper way to have a piece go from one of these levels to the next one in use there.
    fn cheapest(
        &self,
        tree: &Tree,
        plan: &Plan,
        id: PieceId,
        ways: [(Way, Option<u32>); 2],
        terms: Terms,
    ) -> Option<Plan> {
        let again = plan.again + u64::from(self.piece(id).taken.is_some());
        let mut best: Option<Plan> = None;
        for (way, from) in ways {
            // The second way counts only if it costs less than the first.
            let allowance = best.as_ref().map_or(Some(terms.allowance), |best| best.again.checked_sub(1));
            let Some(allowance) = allowance.filter(|allowance| again <= *allowance) else { continue };
            let Some(level) = from.and_then(|from| self.next(way, from, terms)) else { continue };
            let mut plan = Plan { again, ..plan.clone() };
            plan.insert(id, level);
            best = self.shift(tree, plan, id, way, Terms { allowance, ..terms }).or(best);
        }
        best
    }

    /// Completes a plan by which a piece takes another level: what is in its way moves on.
    fn shift(&self, tree: &Tree, mut plan: Plan, id: PieceId, way: Way, terms: Terms) -> Option<Plan> {
        let (mut open, mut turn) = (BTreeSet::new(), Some((self.rank(tree, id), id)));
        while let Some((_, id)) = turn {
            let (piece, level) = (self.piece(id), plan.levels[&id]);
            let others = match way {
                Way::Up => &piece.earlier,
                Way::Down => &piece.later,
            };
            let visited = &self.levels.savings.visited;
            visited.set(visited.get() + others.len() as u64);
            for other in others {
                let planned = plan.get(*other);
                let now = planned.unwrap_or(self.spot(*other).level);
                if if way == Way::Up { now < level } else { now > level } {
                    continue;
                }
                let Some(bound) = self.bound(id, level, *other, way) else { continue };
                let now = i64::from(now);
                if if way == Way::Up { now <= bound } else { now >= bound } {
                    continue;
                }
                let bound = u32::try_from(bound).ok()?;
                let next = self.next(way, bound, terms)?;
                plan.insert(*other, next);
                plan.again += u64::from(planned.is_none() && self.piece(*other).taken.is_some());
                if plan.again > terms.allowance || plan.levels.len() > WAY {
                    return None;
                }
                open.insert((self.rank(tree, *other), *other));
            }
            turn = match way {
                Way::Up => open.pop_last(),
                Way::Down => open.pop_first(),
            };
        }
        Some(plan)
    }

    /// How far down (or, on the way down, up) `other` may be if a piece has this level; `None` where that does not matter.
    fn bound(&self, id: PieceId, level: u32, other: PieceId, way: Way) -> Option<i64> {
        let (piece, there) = (self.spot(id), self.spot(other));
        let level = i64::from(level);
        let bound = match way {
            Way::Up => level - i64::from(there.says.gap(piece.says)?),
            Way::Down => level + i64::from(piece.says.gap(there.says)?),
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

    fn carry_out(&mut self, plan: Plan) {
        self.levels.savings.moved += plan.again;
        let mut levels: Vec<(PieceId, u32)> = plan.levels.into_iter().collect();
        levels.sort_unstable();
        levels.into_iter().for_each(|(id, level)| self.put(id, level));
    }
}
