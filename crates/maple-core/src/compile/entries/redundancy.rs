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
//!
//! # Presumption
//!
//! An answer whose leaf goes mostly becomes a barrier at its own place. It had a rule, and that rule may stay there and send
//! packets to the controller: a rule that does so at its piece's own place in the order is right for all its packets. So a
//! barrier that has more than [`FEW`] neighbours, an answer behind it among them, is *presumed* to be needed, and waits. It *owes* what a barrier that came
//! and an answer that went give cause for ([`Pieces::pay`]); that is done when its turn comes, just before it is looked at.
//!
//! Why that is right: what the table needs is that each packet whose first piece is a barrier has a barrier that is a rule
//! before its first answer. Let `p` be presumed.
//!
//! * Barriers behind `p` that are not needed as `p` took their packets: `p`, a rule, still takes them, and lies above all
//!   answers behind it. So for those behind it `p` counts as the answer that it was, until it has paid.
//! * Barriers before `p`: `p` takes the packets that it took, so none comes to be needed. Some may be so no more, for `p` or
//!   for packets of it: rules without need.
//! * If `p` goes, or is shadowed, before its turn, then as a rule for those before it, and as an answer for those behind it.
//! * If `p` becomes an answer again it owes nothing: for those behind it nothing has changed, and those before it that are
//!   not needed are looked at as for any new answer.

use super::sets::{Row, covers, meet, overlap, uncovered};
use super::{Piece, PieceId, Pieces, Role};
use crate::tree::Tree;

#[cfg(test)]
mod tests;

/// Why a barrier is a rule, or none.
#[derive(Clone, Copy, Debug)]
pub(super) enum Why {
    /// Some packets of it, which [`Pieces::needed_for`] has, would otherwise go to this answer.
    Needed(PieceId),
    /// It was an answer, and is a rule until it has had its turn.
    Presumed,
    /// It was not needed, and is to be looked at; or it is new.
    Doubted,
    /// It is not needed, nor would it be for any answer behind this piece, which covers it. If that one has gone this is
    /// [`Why::Nothing`].
    Covered(PieceId),
    /// No answer takes its packets; or it is no barrier.
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

/// With how many neighbours a barrier is looked at when its leaf goes. (Fewer in tests, where tables are small.)
const FEW: usize = if cfg!(test) { 3 } else { 16 };

impl Why {
    /// Whether a barrier is a rule.
    pub(super) fn is_rule(self) -> bool {
        matches!(self, Why::Needed(_) | Why::Presumed)
    }

    /// Whether a barrier is known not to be needed.
    pub(super) fn is_idle(self) -> bool {
        matches!(self, Why::Covered(_) | Why::Nothing)
    }
}

impl Pieces {
    /// Finds out for barriers around touched pieces whether they are needed, and for some that wait.
    pub(super) fn settle_needs(&mut self, tree: &Tree, tidy: Tidy) {
        let mut touched = std::mem::take(&mut self.turned);
        let was = |id: &PieceId| (*id, self.piece(*id).was.unwrap_or(Role::Nothing));
        touched.extend(self.touched.iter().map(was));
        touched.sort_unstable_by_key(|(id, _)| *id);
        for (id, before) in touched.drain(..) {
            let (now, wavers) = (self.role(id), self.piece(id).wavers);
            if before == now && !wavers {
                continue;
            }
            // What has changed to and fro may have been taken for either.
            let was_answer = before == Role::Answer || wavers;
            let was_barrier = before == Role::Barrier || wavers;
            let owes = matches!(self.whys[id as usize], Why::Presumed);
            if now != Role::Barrier {
                self.whys[id as usize] = Why::Nothing;
            }
            match now {
                Role::Answer => self.answer_came(tree, id),
                Role::Barrier => {
                    let may_be_needed = self.has_answer_behind(id);
                    let may_wait = was_answer && !wavers && tidy == Tidy::InTurn;
                    if may_wait && may_be_needed && self.has_many_neighbours(id) {
                        self.whys[id as usize] = Why::Presumed;
                        self.wait(id);
                    } else {
                        self.barrier_came(id, was_answer, may_be_needed);
                    }
                }
                Role::Gone | Role::Nothing => self.piece_went(id, was_answer || owes, was_barrier),
            }
        }
        self.turned = touched;
        self.settle_doubts(tidy);
        if tidy == Tidy::AtOnce {
            self.take_turns();
        }
    }

    /// Whether it would take long to see if a barrier is needed.
    fn has_many_neighbours(&self, id: PieceId) -> bool {
        let piece = self.piece(id);
        piece.earlier.len() + piece.later.len() > FEW
    }

    /// Whether there is an answer behind a barrier that it may be needed for.
    fn has_answer_behind(&self, id: PieceId) -> bool {
        self.last_answer(&self.piece(id).later).is_some()
    }

    /// Looks at barriers that are doubted, or lets those that are rules wait.
    fn settle_doubts(&mut self, tidy: Tidy) {
        let mut doubtful = std::mem::take(&mut self.doubtful);
        doubtful.sort_unstable();
        doubtful.dedup();
        for id in doubtful.drain(..) {
            if self.role(id) != Role::Barrier {
                continue;
            }
            match (self.whys[id as usize], tidy) {
                (Why::Presumed, _) => {}
                (Why::Needed(_), Tidy::InTurn) => self.wait(id),
                _ => self.look_again(id),
            }
        }
        self.doubtful = doubtful;
    }

    /// Looks at some barriers that wait.
    fn take_turns(&mut self) {
        for _ in 0..TURNS {
            let Some(id) = self.waiting.pop_front() else { break };
            let waits = |piece: &mut Piece| std::mem::take(&mut piece.waits);
            if self.pieces[id as usize].as_mut().is_some_and(waits) && self.role(id) == Role::Barrier {
                if matches!(self.whys[id as usize], Why::Presumed) {
                    self.pay(id);
                }
                self.look_again(id);
            }
        }
        self.settle_doubts(Tidy::InTurn);
    }

    /// Has all barriers that wait be looked at.
    pub(in crate::compile) fn tidy(&mut self, tree: &Tree) {
        while !self.waiting.is_empty() {
            self.settle(tree, Tidy::AtOnce);
        }
    }

    /// Does what a barrier owes.
    fn pay(&mut self, id: PieceId) {
        self.with_neighbours(id, |pieces, earlier, later| {
            pieces.doubt_taken(id, earlier);
            pieces.answer_fell(id, earlier, later);
        });
    }

    /// Has a barrier that is a rule, perhaps without need, be looked at later.
    pub(super) fn wait(&mut self, id: PieceId) {
        if !std::mem::replace(&mut self.piece_mut(id).waits, true) {
            self.waiting.push_back(id);
        }
    }

    /// Does something with a piece and the lists of its neighbours.
    fn with_neighbours(&mut self, id: PieceId, then: impl FnOnce(&mut Pieces, &[PieceId], &[PieceId])) {
        let piece = self.piece_mut(id);
        let (earlier, later) = (std::mem::take(&mut piece.earlier), std::mem::take(&mut piece.later));
        then(self, &earlier, &later);
        let piece = self.piece_mut(id);
        (piece.earlier, piece.later) = (earlier, later);
    }

    /// Barriers before an answer may be needed because of it, and those behind it for it no more.
    fn answer_came(&mut self, tree: &Tree, id: PieceId) {
        let rank = self.rank(tree, id);
        let mut before = std::mem::take(&mut self.before);
        before.clear();
        self.with_neighbours(id, |pieces, earlier, later| {
            pieces.visited += earlier.len() as u64;
            for other in earlier {
                let role = pieces.role(*other);
                if role.counts() {
                    before.push(pieces.store.get(*other), (*other, role));
                }
            }
            for at in (0..before.items().len()).rev() {
                let (other, role) = before.items()[at];
                let may_be = role == Role::Barrier
                    && match pieces.whys[other as usize] {
                        // One that is doubted is looked at anyway.
                        Why::Needed(_) | Why::Presumed | Why::Doubted => false,
                        Why::Covered(by) => pieces.is_gone(by) || pieces.rank(tree, by) >= rank,
                        Why::Nothing => true,
                    };
                if may_be && let Some(packets) = pieces.unprotected(&before, at, id) {
                    pieces.need(other, id, &packets);
                    pieces.touch(other);
                }
            }
            pieces.doubt_taken(id, later);
        });
        self.before = before;
    }

    /// What an answer would take of the barrier at this place among the pieces before the answer: what no piece between the
    /// two takes, nor an answer before both.
    fn unprotected(&self, before: &Row<(PieceId, Role)>, at: usize, answer: PieceId) -> Option<Box<[u64]>> {
        let common = meet(before.get(at), self.store.get(answer));
        let mut cover = Vec::new();
        let mut is_left = |place: usize, set: &[u64]| {
            cover.push(before.items()[place].0);
            !covers(set, &common)
        };
        if !before.all_overlapping(at + 1..before.items().len(), true, &common, &mut is_left) {
            return None;
        }
        let is_answer = |place: usize| before.items()[place].1 == Role::Answer;
        if !before.all_overlapping(0..at, false, &common, |place, set| !is_answer(place) || is_left(place, set)) {
            return None;
        }
        uncovered(&self.store, &common, &cover)
    }

    /// A barrier stands for those before it, and for what was an answer's until now. If there is no answer behind it, it is not
    /// needed (nor may it be), nor does a barrier behind it come to be; and it stands for none before it, since the answers that
    /// those are needed for lie before it, unless it was that itself.
    fn barrier_came(&mut self, id: PieceId, was_answer: bool, may_be_needed: bool) {
        self.whys[id as usize] = if may_be_needed { Why::Doubted } else { Why::Nothing };
        if may_be_needed {
            self.doubtful.push(id);
        }
        self.with_neighbours(id, |pieces, earlier, later| {
            if may_be_needed {
                pieces.doubt_taken(id, earlier);
            }
            if was_answer {
                pieces.answer_fell(id, earlier, if may_be_needed { later } else { &[] });
            }
        });
    }

    /// A piece is shadowed. No reason may rest on it.
    fn piece_went(&mut self, id: PieceId, was_answer: bool, was_barrier: bool) {
        self.with_neighbours(id, |pieces, earlier, later| {
            for other in earlier {
                let why = &mut pieces.whys[*other as usize];
                if matches!(*why, Why::Covered(by) if by == id) {
                    *why = Why::Nothing;
                }
            }
            if was_answer {
                pieces.answer_fell(id, earlier, later);
            }
            if was_barrier {
                pieces.barrier_fell(earlier, later);
            }
        });
    }

    /// Doubts what rests on an answer that is none any more: barriers before it were perhaps needed for it, and those behind
    /// it not needed as it took their packets. That one before it comes to be needed is out of the question: if it is the
    /// last piece before another answer that takes a packet, now that this one does not, it was the last before this one.
    ///
    /// Whatever comes to be needed is so for an answer behind this piece that takes packets of it and of the barrier, so it is
    /// among the neighbours; if there is none, there is nothing to doubt.
    pub(super) fn answer_fell(&mut self, id: PieceId, earlier: &[PieceId], later: &[PieceId]) {
        if self.is_reason[id as usize] {
            let was_for_it =
                |other: &PieceId| matches!(self.whys[*other as usize], Why::Needed(answer) if answer == id);
            self.doubtful.extend(earlier.iter().copied().filter(was_for_it));
        }
        let Some(last) = self.last_answer(later) else { return };
        for (at, other) in later[..last].iter().enumerate() {
            if self.role(*other) == Role::Barrier {
                let behind = later[at + 1..=last].iter().map(|other| (*other, self.role(*other)));
                if self.may_be_taken(*other, behind) {
                    self.doubt(*other);
                }
            }
        }
    }

    /// Doubts of barriers that are not needed that what was a barrier behind them stood for them. One that is covered by a
    /// piece before that does not care. Where there is no answer behind both, there is nothing to doubt, as above.
    pub(super) fn barrier_fell(&mut self, earlier: &[PieceId], later: &[PieceId]) {
        let Some(last) = self.last_answer(later) else { return };
        let mut behind = std::mem::take(&mut self.behind);
        behind.clear();
        let with_role = |other: &PieceId| (*other, self.role(*other));
        behind.extend(later[..=last].iter().map(with_role).filter(|(_, role)| role.counts()));
        self.ties.mark(later);
        for other in earlier {
            let may_be = match self.whys[*other as usize] {
                Why::Covered(by) => self.is_gone(by) || self.ties.is_marked(by),
                Why::Nothing => true,
                Why::Needed(_) | Why::Presumed | Why::Doubted => false,
            };
            if may_be && self.role(*other) == Role::Barrier && self.may_be_taken(*other, behind.iter().copied()) {
                self.doubt(*other);
            }
        }
        self.behind = behind;
    }

    /// Where the last answer stands in a list.
    fn last_answer(&self, list: &[PieceId]) -> Option<usize> {
        list.iter().rposition(|other| self.role(*other) == Role::Answer)
    }

    /// Has a barrier that was not needed be looked at when things are settled.
    fn doubt(&mut self, id: PieceId) {
        self.whys[id as usize] = Why::Doubted;
        self.doubtful.push(id);
    }

    /// Whether a barrier that is not needed may be now that a piece has gone which took packets of it. `behind` are the
    /// pieces behind both that overlap what went: three matches that overlap in pairs have a packet in common, so an answer
    /// that takes any of these packets is among them. What lies behind a piece that covers the barrier does not matter.
    fn may_be_taken(&self, barrier: PieceId, behind: impl Iterator<Item = (PieceId, Role)>) -> bool {
        let (set, cover) = match self.whys[barrier as usize] {
            Why::Needed(_) | Why::Presumed | Why::Doubted => return false,
            Why::Covered(by) => (self.store.get(barrier), Some(by)),
            Why::Nothing => (self.store.get(barrier), None),
        };
        for (other, role) in behind.filter(|(_, role)| role.counts()) {
            if role == Role::Answer && overlap(self.store.get(other), set) {
                return true;
            }
            if Some(other) == cover {
                return false;
            }
        }
        false
    }

    /// Doubts of barriers beside a piece that they are needed, if the packets that they are needed for are its own.
    fn doubt_taken(&mut self, id: PieceId, beside: &[PieceId]) {
        let set = self.store.get(id);
        let is_needed = |other: &PieceId| matches!(self.whys[*other as usize], Why::Needed(_));
        let is_taken = |other: &PieceId| is_needed(other) && overlap(self.needed_for.get(*other), set);
        self.doubtful.extend(beside.iter().copied().filter(is_taken));
    }

    /// Finds out from scratch whether a barrier is needed.
    fn look_again(&mut self, id: PieceId) {
        let was_needed = self.whys[id as usize].is_rule();
        self.reason(id);
        if was_needed != self.whys[id as usize].is_rule() {
            self.touch(id);
        }
        self.piece_mut(id).waits = false;
    }

    /// Notes that a barrier is needed, so that these packets don't go to an answer.
    fn need(&mut self, barrier: PieceId, answer: PieceId, packets: &[u64]) {
        self.whys[barrier as usize] = Why::Needed(answer);
        self.is_reason[answer as usize] = true;
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
            if !role.counts() {
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
