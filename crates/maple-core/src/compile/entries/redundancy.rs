//! Which barriers are needed.
//!
//! # What
//!
//! A barrier is needed if some packet of it is in an answer behind it, in no entry between the two, and in no answer
//! before it. A needed barrier remembers such packets and that answer; one that is not needed, the first entry behind it
//! that covers it, since what lies behind that one does not matter. So most of what happens around a barrier leaves it
//! alone at the cost of a comparison, and only what touches its reason makes it look again.
//!
//! # What may wait
//!
//! When an answer goes, all barriers that remember it must find another, and nearly all do: in a dense filter set they are
//! dozens, each with hundreds of entries to look at. A barrier that is a rule without need does no harm, so these *wait*:
//! each new trace has a few of them looked at, in the order in which they came to wait. One that is doubted again meanwhile,
//! or goes, costs nothing more. What a new trace makes doubtful is looked at with it.
//!
//! # Presumption
//!
//! An answer whose leaf goes mostly becomes a barrier at its own place. It had a rule, and that rule may stay there and send
//! packets to the controller: a rule that does so at its entry's own place in the order is right for all its packets. So a
//! barrier that has more than [`FEW`] neighbours, an answer behind it among them, is *presumed* to be needed, and waits. It *owes* what a barrier that came
//! and an answer that went give cause for ([`EntryTable::pay`]); that is done when its turn comes, just before it is looked at.
//!
//! Necessity that is right: what the table needs is that each packet whose first entry is a barrier has a barrier that is a rule
//! before its first answer. Let `p` be presumed.
//!
//! * Barriers behind `p` that are not needed as `p` took their packets: `p`, a rule, still takes them, and lies above all
//!   answers behind it. So for those behind it `p` counts as the answer that it was, until it has paid.
//! * Barriers before `p`: `p` takes the packets that it took, so none comes to be needed. Some may be so no more, for `p` or
//!   for packets of it: rules without need.
//! * If `p` goes, or is shadowed, before its turn, then as a rule for those before it, and as an answer for those behind it.
//! * If `p` becomes an answer again it owes nothing: for those behind it nothing has changed, and those before it that are
//!   not needed are looked at as for any new answer.

use super::packed::{Row, covers, meet, overlap, uncovered};
use super::{Entry, EntryId, EntryState, EntryTable};
use crate::tree::Tree;

#[cfg(test)]
mod tests;

/// Necessity a barrier is a rule, or none.
#[derive(Clone, Copy, Debug)]
pub(super) enum Necessity {
    /// Some packets of it, which [`EntryTable::needed_for`] has, would otherwise go to this answer.
    Required(EntryId),
    /// It was an answer, and is a rule until it has had its turn.
    AssumedRequired,
    /// It was not needed, and is to be looked at; or it is new.
    Unchecked,
    /// It is not needed, nor would it be for any answer behind this entry, which covers it. If that one has gone this is
    /// [`Necessity::Nothing`].
    Covered(EntryId),
    /// No answer takes its packets; or it is no barrier.
    Nothing,
}

/// When it is seen whether rules that were needed still are: at once, with some of those that wait, or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::compile) enum Checks {
    Now,
    Deferred,
}

/// How many barriers that wait are looked at with each new trace.
const TURNS: usize = 4;

/// With how many neighbours a barrier is looked at when its leaf goes. (Fewer in tests, where tables are small.)
const FEW: usize = if cfg!(test) { 3 } else { 16 };

impl Necessity {
    /// Whether a barrier is a rule.
    pub(super) fn is_rule(self) -> bool {
        matches!(self, Necessity::Required(_) | Necessity::AssumedRequired)
    }

    /// Whether a barrier is known not to be needed.
    pub(super) fn is_idle(self) -> bool {
        matches!(self, Necessity::Covered(_) | Necessity::Nothing)
    }
}

impl EntryTable {
    /// Finds out for barriers around touched entries whether they are needed, and for some that wait.
    pub(super) fn settle_needs(&mut self, tree: &Tree, remove_redundant: Checks) {
        let mut touched = std::mem::take(&mut self.turned);
        let was = |id: &EntryId| (*id, self.entry(*id).was.unwrap_or(EntryState::Shadowed));
        touched.extend(self.touched.iter().map(was));
        touched.sort_unstable_by_key(|(id, _)| *id);
        for (id, before) in touched.drain(..) {
            let (now, wavers) = (self.role(id), self.entry(id).wavers);
            if before == now && !wavers {
                continue;
            }
            // What has changed to and fro may have been taken for either.
            let was_answer = before == EntryState::Forward || wavers;
            let was_barrier = before == EntryState::Barrier || wavers;
            let owes = matches!(self.whys[id as usize], Necessity::AssumedRequired);
            if now != EntryState::Barrier {
                self.whys[id as usize] = Necessity::Nothing;
            }
            match now {
                EntryState::Forward => self.answer_came(tree, id),
                EntryState::Barrier => {
                    let may_be_needed = self.has_answer_behind(id);
                    let may_wait = was_answer && !wavers && remove_redundant == Checks::Deferred;
                    if may_wait && may_be_needed && self.has_many_neighbours(id) {
                        self.whys[id as usize] = Necessity::AssumedRequired;
                        self.wait(id);
                    } else {
                        self.barrier_came(id, was_answer, may_be_needed);
                    }
                }
                EntryState::Gone | EntryState::Shadowed => self.piece_went(id, was_answer || owes, was_barrier),
            }
        }
        self.turned = touched;
        self.settle_doubts(remove_redundant);
        if remove_redundant == Checks::Now {
            self.take_turns();
        }
    }

    /// Whether it would take long to see if a barrier is needed.
    fn has_many_neighbours(&self, id: EntryId) -> bool {
        let entry = self.entry(id);
        entry.earlier.len() + entry.later.len() > FEW
    }

    /// Whether there is an answer behind a barrier that it may be needed for.
    fn has_answer_behind(&self, id: EntryId) -> bool {
        self.last_answer(&self.entry(id).later).is_some()
    }

    /// Looks at barriers that are doubted, or lets those that are rules wait.
    fn settle_doubts(&mut self, remove_redundant: Checks) {
        let mut doubtful = std::mem::take(&mut self.doubtful);
        doubtful.sort_unstable();
        doubtful.dedup();
        for id in doubtful.drain(..) {
            if self.role(id) != EntryState::Barrier {
                continue;
            }
            match (self.whys[id as usize], remove_redundant) {
                (Necessity::AssumedRequired, _) => {}
                (Necessity::Required(_), Checks::Deferred) => self.wait(id),
                _ => self.look_again(id),
            }
        }
        self.doubtful = doubtful;
    }

    /// Looks at some barriers that wait.
    fn take_turns(&mut self) {
        for _ in 0..TURNS {
            let Some(id) = self.waiting.pop_front() else { break };
            let waits = |entry: &mut Entry| std::mem::take(&mut entry.waits);
            if self.entries[id as usize].as_mut().is_some_and(waits) && self.role(id) == EntryState::Barrier {
                if matches!(self.whys[id as usize], Necessity::AssumedRequired) {
                    self.pay(id);
                }
                self.look_again(id);
            }
        }
        self.settle_doubts(Checks::Deferred);
    }

    /// Has all barriers that wait be looked at.
    pub(in crate::compile) fn remove_redundant(&mut self, tree: &Tree) {
        while !self.waiting.is_empty() {
            self.recompute(tree, Checks::Now);
        }
    }

    /// LeafBehaviour what a barrier owes.
    fn pay(&mut self, id: EntryId) {
        self.with_neighbours(id, |entries, earlier, later| {
            entries.doubt_taken(id, earlier);
            entries.answer_fell(id, earlier, later);
        });
    }

    /// Has a barrier that is a rule, perhaps without need, be looked at later.
    pub(super) fn wait(&mut self, id: EntryId) {
        if !std::mem::replace(&mut self.piece_mut(id).waits, true) {
            self.waiting.push_back(id);
        }
    }

    /// LeafBehaviour something with a entry and the lists of its neighbours.
    fn with_neighbours(&mut self, id: EntryId, then: impl FnOnce(&mut EntryTable, &[EntryId], &[EntryId])) {
        let entry = self.piece_mut(id);
        let (earlier, later) = (std::mem::take(&mut entry.earlier), std::mem::take(&mut entry.later));
        then(self, &earlier, &later);
        let entry = self.piece_mut(id);
        (entry.earlier, entry.later) = (earlier, later);
    }

    /// Barriers before an answer may be needed because of it, and those behind it for it no more.
    fn answer_came(&mut self, tree: &Tree, id: EntryId) {
        let rank = self.rank(tree, id);
        let mut before = std::mem::take(&mut self.before);
        before.clear();
        self.with_neighbours(id, |entries, earlier, later| {
            entries.visited += earlier.len() as u64;
            for other in earlier {
                let role = entries.role(*other);
                if role.counts() {
                    before.push(entries.store.get(*other), (*other, role));
                }
            }
            for at in (0..before.items().len()).rev() {
                let (other, role) = before.items()[at];
                let may_be = role == EntryState::Barrier
                    && match entries.whys[other as usize] {
                        // One that is doubted is looked at anyway.
                        Necessity::Required(_) | Necessity::AssumedRequired | Necessity::Unchecked => false,
                        Necessity::Covered(by) => entries.is_gone(by) || entries.rank(tree, by) >= rank,
                        Necessity::Nothing => true,
                    };
                if may_be && let Some(packets) = entries.unprotected(&before, at, id) {
                    entries.need(other, id, &packets);
                    entries.touch(other);
                }
            }
            entries.doubt_taken(id, later);
        });
        self.before = before;
    }

    /// What an answer would take of the barrier at this place among the entries before the answer: what no entry between the
    /// two takes, nor an answer before both.
    fn unprotected(&self, before: &Row<(EntryId, EntryState)>, at: usize, answer: EntryId) -> Option<Box<[u64]>> {
        let common = meet(before.get(at), self.store.get(answer));
        let mut cover = Vec::new();
        let mut is_left = |place: usize, set: &[u64]| {
            cover.push(before.items()[place].0);
            !covers(set, &common)
        };
        if !before.all_overlapping(at + 1..before.items().len(), true, &common, &mut is_left) {
            return None;
        }
        let is_answer = |place: usize| before.items()[place].1 == EntryState::Forward;
        if !before.all_overlapping(0..at, false, &common, |place, set| !is_answer(place) || is_left(place, set)) {
            return None;
        }
        uncovered(&self.store, &common, &cover)
    }

    /// A barrier stands for those before it, and for what was an answer's until now. If there is no answer behind it, it is not
    /// needed (nor may it be), nor does a barrier behind it come to be; and it stands for none before it, since the answers that
    /// those are needed for lie before it, unless it was that itself.
    fn barrier_came(&mut self, id: EntryId, was_answer: bool, may_be_needed: bool) {
        self.whys[id as usize] = if may_be_needed { Necessity::Unchecked } else { Necessity::Nothing };
        if may_be_needed {
            self.doubtful.push(id);
        }
        self.with_neighbours(id, |entries, earlier, later| {
            if may_be_needed {
                entries.doubt_taken(id, earlier);
            }
            if was_answer {
                entries.answer_fell(id, earlier, if may_be_needed { later } else { &[] });
            }
        });
    }

    /// A entry is shadowed. No reason may rest on it.
    fn piece_went(&mut self, id: EntryId, was_answer: bool, was_barrier: bool) {
        self.with_neighbours(id, |entries, earlier, later| {
            for other in earlier {
                let why = &mut entries.whys[*other as usize];
                if matches!(*why, Necessity::Covered(by) if by == id) {
                    *why = Necessity::Nothing;
                }
            }
            if was_answer {
                entries.answer_fell(id, earlier, later);
            }
            if was_barrier {
                entries.barrier_fell(earlier, later);
            }
        });
    }

    /// Doubts what rests on an answer that is none any more: barriers before it were perhaps needed for it, and those behind
    /// it not needed as it took their packets. That one before it comes to be needed is out of the question: if it is the
    /// last entry before another answer that takes a packet, now that this one does not, it was the last before this one.
    ///
    /// Whatever comes to be needed is so for an answer behind this entry that takes packets of it and of the barrier, so it is
    /// among the neighbours; if there is none, there is nothing to doubt.
    pub(super) fn answer_fell(&mut self, id: EntryId, earlier: &[EntryId], later: &[EntryId]) {
        if self.is_reason[id as usize] {
            let was_for_it =
                |other: &EntryId| matches!(self.whys[*other as usize], Necessity::Required(answer) if answer == id);
            self.doubtful.extend(earlier.iter().copied().filter(was_for_it));
        }
        let Some(last) = self.last_answer(later) else { return };
        for (at, other) in later[..last].iter().enumerate() {
            if self.role(*other) == EntryState::Barrier {
                let behind = later[at + 1..=last].iter().map(|other| (*other, self.role(*other)));
                if self.may_be_taken(*other, behind) {
                    self.doubt(*other);
                }
            }
        }
    }

    /// Doubts of barriers that are not needed that what was a barrier behind them stood for them. One that is covered by a
    /// entry before that does not care. Where there is no answer behind both, there is nothing to doubt, as above.
    pub(super) fn barrier_fell(&mut self, earlier: &[EntryId], later: &[EntryId]) {
        let Some(last) = self.last_answer(later) else { return };
        let mut behind = std::mem::take(&mut self.behind);
        behind.clear();
        let with_role = |other: &EntryId| (*other, self.role(*other));
        behind.extend(later[..=last].iter().map(with_role).filter(|(_, role)| role.counts()));
        self.ties.mark(later);
        for other in earlier {
            let may_be = match self.whys[*other as usize] {
                Necessity::Covered(by) => self.is_gone(by) || self.ties.is_marked(by),
                Necessity::Nothing => true,
                Necessity::Required(_) | Necessity::AssumedRequired | Necessity::Unchecked => false,
            };
            if may_be && self.role(*other) == EntryState::Barrier && self.may_be_taken(*other, behind.iter().copied()) {
                self.doubt(*other);
            }
        }
        self.behind = behind;
    }

    /// Where the last answer stands in a list.
    fn last_answer(&self, list: &[EntryId]) -> Option<usize> {
        list.iter().rposition(|other| self.role(*other) == EntryState::Forward)
    }

    /// Has a barrier that was not needed be looked at when things are settled.
    fn doubt(&mut self, id: EntryId) {
        self.whys[id as usize] = Necessity::Unchecked;
        self.doubtful.push(id);
    }

    /// Whether a barrier that is not needed may be now that a entry has gone which took packets of it. `behind` are the
    /// entries behind both that overlap what went: three matches that overlap in pairs have a packet in common, so an answer
    /// that takes any of these packets is among them. What lies behind a entry that covers the barrier does not matter.
    fn may_be_taken(&self, barrier: EntryId, behind: impl Iterator<Item = (EntryId, EntryState)>) -> bool {
        let (set, cover) = match self.whys[barrier as usize] {
            Necessity::Required(_) | Necessity::AssumedRequired | Necessity::Unchecked => return false,
            Necessity::Covered(by) => (self.store.get(barrier), Some(by)),
            Necessity::Nothing => (self.store.get(barrier), None),
        };
        for (other, role) in behind.filter(|(_, role)| role.counts()) {
            if role == EntryState::Forward && overlap(self.store.get(other), set) {
                return true;
            }
            if Some(other) == cover {
                return false;
            }
        }
        false
    }

    /// Doubts of barriers beside a entry that they are needed, if the packets that they are needed for are its own.
    fn doubt_taken(&mut self, id: EntryId, beside: &[EntryId]) {
        let set = self.store.get(id);
        let is_needed = |other: &EntryId| matches!(self.whys[*other as usize], Necessity::Required(_));
        let is_taken = |other: &EntryId| is_needed(other) && overlap(self.needed_for.get(*other), set);
        self.doubtful.extend(beside.iter().copied().filter(is_taken));
    }

    /// Finds out from scratch whether a barrier is needed.
    fn look_again(&mut self, id: EntryId) {
        let was_needed = self.whys[id as usize].is_rule();
        self.reason(id);
        if was_needed != self.whys[id as usize].is_rule() {
            self.touch(id);
        }
        self.piece_mut(id).waits = false;
    }

    /// Notes that a barrier is needed, so that these packets don't go to an answer.
    fn need(&mut self, barrier: EntryId, answer: EntryId, packets: &[u64]) {
        self.whys[barrier as usize] = Necessity::Required(answer);
        self.is_reason[answer as usize] = true;
        self.needed_for.put(barrier, packets);
    }

    fn reason(&mut self, id: EntryId) {
        let (entry, set) = (self.entry(id), self.store.get(id));
        let answers = entry.earlier.iter().filter(|other| self.role(**other) == EntryState::Forward);
        let mut cover: Vec<EntryId> = answers.copied().collect();
        let mut looked = entry.earlier.len();
        let (mut needed, mut cover_of_all) = (None, None);
        for other in &entry.later {
            looked += 1;
            let (role, there) = (self.role(*other), self.store.get(*other));
            if !role.counts() {
                continue;
            }
            if role == EntryState::Forward
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
            None => self.whys[id as usize] = cover_of_all.map_or(Necessity::Nothing, Necessity::Covered),
        }
    }
}
