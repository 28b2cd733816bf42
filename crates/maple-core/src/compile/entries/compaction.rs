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
//! A piece that a plan passes is asked for its level, in little memory (`draft.rs`).
//! Of all changes that are sent, one in [`SHARE`] at most is the addition of such a rule; a plan ends where it would cost
//! more than is left of that, or move more than [`WAY`] pieces. So the work for a change does not grow with the table.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use super::draft::{Draft, Steps};
use super::{PieceId, Pieces};
use crate::tree::Tree;

/// For how many changes one rule may be sent again to save levels.
const SHARE: u64 = 50;

/// How many rules may be sent again so that a new one needs no level of its own.
const MOVES: u64 = 1;

/// How many pieces may move at a time.
const WAY: usize = 100;

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

impl Pieces {
    /// A level in use for a piece that belongs between `from` and `until`, where none is: others make way. `None` if that
    /// would take too much.
    pub(super) fn make_way(&mut self, tree: &Tree, id: PieceId, from: u32, until: u32) -> Option<u32> {
        let terms = Terms { closed: None, allowance: self.levels.savings.allowance().min(MOVES) };
        let ways = [(Way::Up, until.checked_sub(1)), (Way::Down, Some(from))];
        let mut draft = self.begin_draft();
        let begin = draft.mark();
        let is_found = self.cheapest(tree, &mut draft, id, ways, terms);
        let level = draft.level(id);
        let plan = draft.take_back(begin);
        self.levels.draft = draft;
        is_found.then(|| {
            self.carry_out(plan);
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
        let levels: Vec<u32> = around.filter(|(_, pieces)| pieces.len() <= FEW).map(|(level, _)| *level).collect();
        let mut draft = self.begin_draft();
        let begin = draft.mark();
        let mut best: Option<Steps> = None;
        for level in &levels {
            let allowance = best.as_ref().map_or(self.levels.savings.allowance(), |plan| plan.again.saturating_sub(1));
            let is_found = self.without(tree, &mut draft, Terms { closed: Some(*level), allowance }, *level);
            let plan = draft.take_back(begin);
            best = is_found.then_some(plan).or(best);
        }
        self.levels.draft = draft;
        self.levels.savings.last = levels.last().copied().unwrap_or(0);
        best.into_iter().for_each(|plan| self.carry_out(plan));
    }

    fn begin_draft(&mut self) -> Draft {
        let mut draft = std::mem::take(&mut self.levels.draft);
        draft.begin(self.pieces.len());
        draft
    }

    /// Plans how all pieces of a level can have others; says whether that can be.
    fn without(&self, tree: &Tree, draft: &mut Draft, terms: Terms, level: u32) -> bool {
        let ways = [(Way::Up, level.checked_sub(1)), (Way::Down, Some(level + 1))];
        let there = &self.levels.used[&level];
        // Each rule of the level is sent again, whatever else is.
        let rules = there.iter().filter(|id| self.piece(**id).taken.is_some()).count() as u64;
        // Those that are planned have made way already: no plan has a piece take this level.
        rules <= terms.allowance
            && there.iter().all(|id| draft.level(*id) != level || self.cheapest(tree, draft, *id, ways, terms))
    }

    /// Plans the cheaper way to have a piece go from one of these levels to the next one in use there, if there is one.
    fn cheapest(
        &self,
        tree: &Tree,
        draft: &mut Draft,
        id: PieceId,
        ways: [(Way, Option<u32>); 2],
        terms: Terms,
    ) -> bool {
        let begin = draft.mark();
        let own = u64::from(self.piece(id).taken.is_some());
        let again = draft.again() + own;
        let mut best: Option<Steps> = None;
        for (way, from) in ways {
            // The second way counts only if it costs less than the first.
            let allowance = best.as_ref().map_or(Some(terms.allowance), |best| best.again.checked_sub(1));
            let Some(allowance) = allowance.filter(|allowance| again <= *allowance) else { continue };
            let Some(level) = from.and_then(|from| self.next(way, from, terms)) else { continue };
            draft.step(id, level, own);
            let is_found = self.shift(tree, draft, id, way, Terms { allowance, ..terms });
            let steps = draft.take_back(begin);
            best = is_found.then_some(steps).or(best);
        }
        let is_found = best.is_some();
        best.into_iter().for_each(|steps| draft.make_again(steps));
        is_found
    }

    /// Completes a plan by which a piece takes another level: what is in its way moves on. Says whether that can be.
    fn shift(&self, tree: &Tree, draft: &mut Draft, id: PieceId, way: Way, terms: Terms) -> bool {
        let (mut open, mut turn) = (BTreeSet::new(), Some((self.rank(tree, id), id)));
        while let Some((_, id)) = turn {
            let (piece, level) = (self.piece(id), draft.level(id));
            let others = match way {
                Way::Up => &piece.earlier,
                Way::Down => &piece.later,
            };
            let visited = &self.levels.savings.visited;
            visited.set(visited.get() + others.len() as u64);
            // On the way down levels are compared the other way round.
            let turned = if way == Way::Up { 0 } else { u32::MAX };
            for other in others {
                let now = draft.level(*other);
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
                let is_sent_again = self.piece(*other).taken.is_some() && !draft.is_planned(*other);
                draft.step(*other, next, is_sent_again.into());
                if draft.again() > terms.allowance || draft.moved() > WAY {
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

    /// How far down (or, on the way down, up) `other` may be if a piece has this level; `None` where that does not matter.
    fn bound(&self, id: PieceId, level: u32, other: PieceId, way: Way) -> Option<i64> {
        let (piece, there) = (self.spot(id), self.spot(other));
        let level = i64::from(level);
        let bound = match way {
            Way::Up => level - i64::from(there.says.gap(piece.says)),
            Way::Down => level + i64::from(piece.says.gap(there.says)),
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
        let mut levels: BTreeMap<PieceId, u32> = BTreeMap::new();
        levels.extend(plan.steps.iter().map(|step| (step.id, step.level)));
        levels.into_iter().for_each(|(id, level)| self.put(id, level));
    }
}
