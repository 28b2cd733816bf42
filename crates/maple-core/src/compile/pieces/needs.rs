//! Which barriers are needed.
//!
//! # What
//!
//! A barrier is needed if some packet of it is in an answer behind it, in no piece between the two, and in no answer
//! before it. A needed barrier remembers such packets and that answer. So most of what happens around it leaves it
//! alone at the cost of one comparison, and only what takes those packets makes it look again.

use maple_wire::Constraint;

use super::sets::{covers, meet, overlap, uncovered};
use super::{Need, PieceId, Pieces, Role};
use crate::tree::Tree;

impl Pieces {
    /// Finds out for all barriers around touched pieces whether they are needed.
    pub(super) fn settle_needs(&mut self, tree: &Tree) {
        let touched: Vec<(PieceId, Role)> = self.touched.iter().map(|(id, role)| (*id, *role)).collect();
        for (id, before) in touched {
            let now = self.role(id);
            match (before, now) {
                (before, now) if before == now => continue,
                (_, Role::Answer) => self.answer_came(tree, id),
                (_, Role::Barrier) => self.barrier_came(tree, id, before),
                (_, Role::Nothing) => self.piece_went(id),
            }
            if now != Role::Barrier && self.piece_mut(id).need.take().is_some() {
                self.changed.insert(id);
            }
        }
        for id in std::mem::take(&mut self.doubtful) {
            self.look_again(tree, id);
        }
    }

    /// Barriers before an answer may be needed because of it, and those behind it for it no more.
    fn answer_came(&mut self, tree: &Tree, id: PieceId) {
        let rank = self.rank(tree, id);
        let around = self.in_order(tree, id);
        let split = around.partition_point(|(other, _)| *other < rank);
        for at in (0..split).rev() {
            let (_, barrier) = around[at];
            if self.role(barrier) != Role::Barrier || self.piece(barrier).need.is_some() {
                continue;
            }
            if let Some(packets) = self.unprotected(barrier, id, &around[..at], &around[at + 1..split]) {
                self.piece_mut(barrier).need = Some(Need { packets, answer: id });
                self.changed.insert(barrier);
            }
        }
        for (_, other) in &around[split..] {
            self.doubt_if_taken(*other, id);
        }
    }

    /// What an answer would take of a barrier before it, given the pieces around the answer that come before the
    /// barrier and those that come between.
    fn unprotected(
        &self,
        barrier: PieceId,
        answer: PieceId,
        before: &[(u64, PieceId)],
        between: &[(u64, PieceId)],
    ) -> Option<Vec<Constraint>> {
        let common = meet(&self.piece(barrier).all, &self.piece(answer).all);
        let mut cover = Vec::new();
        let answers = before.iter().filter(|(_, other)| self.role(*other) == Role::Answer);
        for (_, other) in between.iter().rev().chain(answers) {
            let all = &*self.piece(*other).all;
            if !overlap(all, &common) {
                continue;
            }
            if covers(all, &common) {
                return None;
            }
            cover.push(all);
        }
        uncovered(&common, &cover)
    }

    /// A barrier stands for those before it, and for what was an answer's until now.
    fn barrier_came(&mut self, tree: &Tree, id: PieceId, before: Role) {
        self.doubtful.insert(id);
        let rank = self.rank(tree, id);
        for (other_rank, other) in self.in_order(tree, id) {
            if self.role(other) != Role::Barrier {
                continue;
            }
            match &self.piece(other).need {
                Some(need) if need.answer == id => drop(self.doubtful.insert(other)),
                Some(_) if other_rank < rank => self.doubt_if_taken(other, id),
                None if other_rank > rank && before == Role::Answer => drop(self.doubtful.insert(other)),
                _ => {}
            }
        }
    }

    /// What a piece stood for falls to others.
    fn piece_went(&mut self, id: PieceId) {
        for other in self.overlapping(id).iter().copied() {
            if self.role(other) == Role::Barrier && self.piece(other).need.as_ref().is_none_or(|n| n.answer == id) {
                self.doubtful.insert(other);
            }
        }
    }

    /// Doubts that a barrier is needed if the packets that it is needed for are `by`'s now.
    fn doubt_if_taken(&mut self, barrier: PieceId, by: PieceId) {
        let taken = |need: &Need| overlap(&need.packets, &self.piece(by).all);
        if self.piece(barrier).need.as_ref().is_some_and(taken) {
            self.doubtful.insert(barrier);
        }
    }

    /// Finds out from scratch whether a barrier is needed.
    fn look_again(&mut self, tree: &Tree, id: PieceId) {
        let need = if self.role(id) == Role::Barrier { self.need(tree, id) } else { None };
        let piece = self.piece_mut(id);
        if piece.need.is_some() != need.is_some() {
            self.changed.insert(id);
        }
        self.piece_mut(id).need = need;
    }

    fn need(&mut self, tree: &Tree, id: PieceId) -> Option<Need> {
        let rank = self.rank(tree, id);
        let around = self.in_order(tree, id);
        let (piece, split) = (self.piece(id), around.partition_point(|(other, _)| *other < rank));
        let answers = around[..split].iter().filter(|(_, other)| self.role(*other) == Role::Answer);
        let mut cover: Vec<&[Constraint]> = answers.map(|(_, other)| &*self.piece(*other).all).collect();
        for (_, other) in &around[split..] {
            let there = self.piece(*other);
            if self.role(*other) == Role::Answer
                && let Some(packets) = uncovered(&meet(&piece.all, &there.all), &cover)
            {
                return Some(Need { packets, answer: *other });
            }
            if covers(&there.all, &piece.all) {
                return None;
            }
            cover.push(&there.all);
        }
        None
    }
}
