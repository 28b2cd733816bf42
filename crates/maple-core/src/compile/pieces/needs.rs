//! Which barriers are needed.
//!
//! # What
//!
//! A barrier is needed if some packet of it is in an answer behind it, in no piece between the two, and in no answer
//! before it. A needed barrier remembers such packets and that answer; one that is not needed, the first piece behind it
//! that covers it, since what lies behind that one does not matter. So most of what happens around a barrier leaves it
//! alone at the cost of a comparison, and only what touches its reason makes it look again.
//!
//! # What may wait
//!
//! When an answer goes, all barriers that remember it must find another, and nearly all do: in a dense filter set they are
//! dozens, each with hundreds of pieces to look at. A barrier that is a rule without need does no harm, so these *wait*:
//! each new trace has a few of them looked at, in the order in which they came to wait. One that is doubted again meanwhile,
//! or goes, costs nothing more. What a new trace makes doubtful is looked at with it.

use super::sets::{covers, meet, overlap, uncovered};
use super::{Piece, PieceId, Pieces, Role};
use crate::tree::Tree;

/// Why a barrier is a rule, or none.
#[derive(Clone, Copy, Debug)]
pub(super) enum Why {
    /// Some packets of it, which [`Pieces::needed_for`] has, would otherwise go to this answer.
    Needed(PieceId),
    /// It is not needed, nor would it be for any answer behind this piece, which covers it.
    Covered(PieceId),
    /// No answer takes its packets; or it is no barrier, or not yet looked at.
    Nothing,
}

/// When it is seen whether rules that were needed still are: at once, with some of those that wait, or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::compile) enum Tidy {
    AtOnce,
    InTurn,
}

/// How many barriers that wait are looked at with each new trace.
const TURNS: usize = 4;

impl Why {
    pub(super) fn is_needed(self) -> bool {
        matches!(self, Why::Needed(_))
    }

    /// Whether this is a piece that the reason rests on.
    fn names(self, id: PieceId) -> bool {
        match self {
            Why::Needed(by) | Why::Covered(by) => by == id,
            Why::Nothing => false,
        }
    }
}

impl Pieces {
    /// Finds out for barriers around touched pieces whether they are needed, and for some that wait.
    pub(super) fn settle_needs(&mut self, tree: &Tree, tidy: Tidy) {
        let was = |id: &PieceId| (*id, self.piece(*id).was.unwrap_or(Role::Nothing));
        let mut touched: Vec<(PieceId, Role)> = self.touched.iter().map(was).collect();
        touched.sort_unstable_by_key(|(id, _)| *id);
        for (id, before) in touched {
            let now = self.role(id);
            if before == now {
                continue;
            }
            if now != Role::Barrier {
                self.whys[id as usize] = Why::Nothing;
            }
            match now {
                Role::Answer => self.answer_came(tree, id),
                Role::Barrier => self.barrier_came(id, before),
                Role::Nothing => self.piece_went(id, before),
            }
        }
        let mut doubtful = std::mem::take(&mut self.doubtful);
        doubtful.sort_unstable();
        doubtful.dedup();
        for id in doubtful.drain(..) {
            if self.role(id) != Role::Barrier {
                continue;
            }
            match tidy {
                Tidy::InTurn if self.whys[id as usize].is_needed() => self.wait(id),
                Tidy::InTurn | Tidy::AtOnce => self.look_again(id),
            }
        }
        self.doubtful = doubtful;
        for _ in 0..if tidy == Tidy::AtOnce { TURNS } else { 0 } {
            let Some(id) = self.waiting.pop_front() else { return };
            let waits = |piece: &mut Piece| std::mem::take(&mut piece.waits);
            if self.pieces[id as usize].as_mut().is_some_and(waits) && self.role(id) == Role::Barrier {
                self.look_again(id);
            }
        }
    }

    /// Has a barrier that is a rule, perhaps without need, be looked at later.
    fn wait(&mut self, id: PieceId) {
        if !std::mem::replace(&mut self.piece_mut(id).waits, true) {
            self.waiting.push_back(id);
        }
    }

    /// Barriers before an answer may be needed because of it, and those behind it for it no more.
    fn answer_came(&mut self, tree: &Tree, id: PieceId) {
        let rank = self.rank(tree, id);
        let earlier = std::mem::take(&mut self.piece_mut(id).earlier);
        self.visited += earlier.len() as u64;
        for (at, barrier) in earlier.iter().enumerate().rev() {
            let may_be = self.role(*barrier) == Role::Barrier
                && match self.whys[*barrier as usize] {
                    Why::Needed(_) => false,
                    Why::Covered(by) => self.rank(tree, by) >= rank,
                    Why::Nothing => true,
                };
            if may_be && let Some(packets) = self.unprotected(*barrier, id, &earlier[..at], &earlier[at + 1..]) {
                self.need(*barrier, id, &packets);
                self.touch(*barrier);
            }
        }
        self.piece_mut(id).earlier = earlier;
        self.doubt_taken(id, |pieces, id| &pieces.piece(id).later);
    }

    /// What an answer would take of a barrier before it, given the pieces around the answer that come before the
    /// barrier and those that come between.
    fn unprotected(
        &self,
        barrier: PieceId,
        answer: PieceId,
        before: &[PieceId],
        between: &[PieceId],
    ) -> Option<Box<[u64]>> {
        let common = meet(self.store.get(barrier), self.store.get(answer));
        let mut cover = Vec::new();
        let between = between.iter().rev().filter(|other| self.role(**other) != Role::Nothing);
        let answers = before.iter().filter(|other| self.role(**other) == Role::Answer);
        for other in between.chain(answers) {
            let set = self.store.get(*other);
            if !overlap(set, &common) {
                continue;
            }
            if covers(set, &common) {
                return None;
            }
            cover.push(*other);
        }
        uncovered(&self.store, &common, &cover)
    }

    /// A barrier stands for those before it, and for what was an answer's until now.
    fn barrier_came(&mut self, id: PieceId, before: Role) {
        self.whys[id as usize] = Why::Nothing;
        self.doubtful.push(id);
        self.doubt_taken(id, |pieces, id| &pieces.piece(id).earlier);
        if before == Role::Answer {
            self.answer_went(id);
        }
    }

    /// What a piece stood for falls to others.
    fn piece_went(&mut self, id: PieceId, before: Role) {
        let piece = self.piece(id);
        let behind = self.with_roles(&piece.later);
        let is_lost = |other: &PieceId| {
            let is_barrier = self.role(*other) == Role::Barrier;
            is_barrier && (self.whys[*other as usize].names(id) || self.may_be_taken(*other, &behind))
        };
        let lost: Vec<PieceId> = piece.earlier.iter().copied().filter(is_lost).collect();
        self.doubtful.extend(lost);
        if before == Role::Answer {
            self.answer_went(id);
        }
    }

    /// Barriers before what was an answer may be needed for it no more, those behind it may be needed for what it took.
    fn answer_went(&mut self, id: PieceId) {
        let piece = self.piece(id);
        let is_barrier = |other: &PieceId| self.role(*other) == Role::Barrier;
        let was_for_it = |other: &PieceId| match self.whys[*other as usize] {
            Why::Needed(answer) => answer == id && is_barrier(other),
            Why::Covered(_) | Why::Nothing => false,
        };
        let behind = self.with_roles(&piece.later);
        let may_be = |at: usize| behind[at].1 == Role::Barrier && self.may_be_taken(behind[at].0, &behind[at + 1..]);
        let before = piece.earlier.iter().copied().filter(was_for_it);
        let behind = (0..behind.len()).filter(|at| may_be(*at)).map(|at| behind[at].0);
        let doubtful: Vec<PieceId> = before.chain(behind).collect();
        self.doubtful.extend(doubtful);
    }

    /// Those of some pieces that count for something.
    pub(super) fn with_roles(&self, pieces: &[PieceId]) -> Vec<(PieceId, Role)> {
        pieces.iter().map(|id| (*id, self.role(*id))).filter(|(_, role)| *role != Role::Nothing).collect()
    }

    /// Whether a barrier that is not needed may be now that a piece has gone which took packets of it. `behind` are the
    /// pieces behind both that overlap what went: three matches that overlap in pairs have a packet in common, so an answer
    /// that takes any of these packets is among them. What lies behind a piece that covers the barrier does not matter.
    pub(super) fn may_be_taken(&self, barrier: PieceId, behind: &[(PieceId, Role)]) -> bool {
        let (set, cover) = match self.whys[barrier as usize] {
            Why::Needed(_) => return false,
            Why::Covered(by) => (self.store.get(barrier), Some(by)),
            Why::Nothing => (self.store.get(barrier), None),
        };
        for (other, role) in behind {
            if *role == Role::Answer && overlap(self.store.get(*other), set) {
                return true;
            }
            if Some(*other) == cover {
                return false;
            }
        }
        false
    }

    /// Doubts of barriers beside a piece that they are needed, if the packets that they are needed for are its own.
    fn doubt_taken(&mut self, id: PieceId, beside: impl Fn(&Pieces, PieceId) -> &Vec<PieceId>) {
        let set = self.store.get(id);
        let is_needed = |other: &PieceId| self.role(*other) == Role::Barrier && self.whys[*other as usize].is_needed();
        let is_taken = |other: &PieceId| is_needed(other) && overlap(self.needed_for.get(*other), set);
        let taken: Vec<PieceId> = beside(self, id).iter().copied().filter(is_taken).collect();
        self.doubtful.extend(taken);
    }

    /// Finds out from scratch whether a barrier is needed.
    fn look_again(&mut self, id: PieceId) {
        let was_needed = self.whys[id as usize].is_needed();
        self.reason(id);
        if was_needed != self.whys[id as usize].is_needed() {
            self.touch(id);
        }
        self.piece_mut(id).waits = false;
    }

    /// Notes that a barrier is needed, so that these packets don't go to an answer.
    fn need(&mut self, barrier: PieceId, answer: PieceId, packets: &[u64]) {
        self.whys[barrier as usize] = Why::Needed(answer);
        self.needed_for.put(barrier, packets);
    }

    fn reason(&mut self, id: PieceId) {
        let (piece, set) = (self.piece(id), self.store.get(id));
        let answers = piece.earlier.iter().filter(|other| self.role(**other) == Role::Answer);
        let mut cover: Vec<PieceId> = answers.copied().collect();
        let mut looked = piece.earlier.len();
        let (mut needed, mut cover_of_all) = (None, None);
        for other in &piece.later {
            looked += 1;
            let (role, there) = (self.role(*other), self.store.get(*other));
            if role == Role::Nothing {
                continue;
            }
            if role == Role::Answer
                && let Some(packets) = uncovered(&self.store, &meet(set, there), &cover)
            {
                needed = Some((*other, packets));
                break;
            }
            if covers(there, set) {
                cover_of_all = Some(*other);
                break;
            }
            cover.push(*other);
        }
        self.visited += looked as u64;
        match needed {
            Some((answer, packets)) => self.need(id, answer, &packets),
            None => self.whys[id as usize] = cover_of_all.map_or(Why::Nothing, Why::Covered),
        }
    }
}
