//! The necessity of barrier entries: which are required as rules, and which are redundant.
//!
//! # What
//!
//! A barrier entry is *required* if some packet of it is in a later forwarding entry, in no entry between the two, and
//! in no earlier forwarding entry. Without the barrier rule, that packet would be forwarded. So the last of several
//! barrier entries over a packet stands for all of them.
//!
//! Each answer keeps its reason. A required entry keeps some of these packets and the forwarding entry that would take
//! them. A redundant one keeps the first later entry that covers it, because nothing after that one matters. So most
//! changes around a barrier entry cost one comparison. Only a change that touches its reason makes it *unchecked*: it
//! is then decided again ([`Redundancy::decide`]).
//!
//! # What is deferred
//!
//! When a forwarding entry goes, all barrier entries required because of it must find another reason. In a dense table
//! there are dozens of these, each with hundreds of entries to look at, and nearly all find one. A redundant barrier
//! rule does no harm. So they are *deferred*: each new trace causes a few of them to be decided, in their order.
//!
//! # What is assumed
//!
//! An entry whose leaf is removed mostly becomes a barrier entry. It had a rule, and that rule may stay and send
//! packets to the controller, because at its own place in the order it is right for all its packets. So an entry with
//! many overlaps, including a later forwarding entry, is *assumed* to be required, and deferred. The effects of its
//! change on its neighbours are made up for when its turn comes ([`Redundancy::make_up_for`]).
//!
//! Why that is right: each packet whose first entry is a barrier must meet a barrier rule before the first forwarding
//! rule. Let `p` be an entry that is assumed to be required.
//!
//! * Barrier entries after `p` that are redundant because `p` took their packets: `p` is a rule above all later
//!   forwarding entries and still takes them. So for later entries `p` counts as the forwarding entry that it was.
//! * Barrier entries before `p`: `p` takes the same packets as before, so none of them becomes required. Some may
//!   become redundant, because of `p` or of packets of it. Such unnecessary rules do no harm.
//! * If `p` is removed, or shadowed, before its turn: for earlier entries a barrier rule goes, and for later entries a
//!   forwarding entry.
//! * If `p` forwards again: nothing has changed for later entries, and earlier ones are looked at as for any new
//!   forwarding entry.

use super::Effort;
use super::entry_store::{EntryId, EntryState, EntryStore};
use super::marks::MarkSet;
use super::neighbours::Neighbours;
use super::overlap_lists::OverlapLists;
use super::packed::{PackedMatches, PackedRow, covers, meet, overlap, uncovered};
use super::work_queue::WorkQueue;
use crate::compile::tuning::Tuning;
use crate::tree::Tree;

#[cfg(test)]
mod tests;

/// The answer whether a barrier entry is a rule, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Necessity {
    /// The entry is a rule: otherwise this forwarding entry would take some packets of it.
    Required { by: EntryId },
    /// The entry is a rule until it is decided: it was a forwarding entry.
    AssumedRequired,
    /// The entry is not a rule until it is decided: it is new, or was redundant.
    Unchecked,
    /// The entry is not a rule. If `covered_by` names an entry, that entry covers this one, so no entry after it
    /// matters. If that entry is removed later, it counts as not named. Entries that are not barriers are redundant
    /// too.
    Redundant { covered_by: Option<EntryId> },
}

/// The time at which barrier rules that may have become redundant are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::compile) enum Checks {
    /// Now, with a few of those that were deferred.
    Now,
    /// Later.
    Deferred,
}

/// The necessity of each entry.
#[derive(Clone, Debug, Default)]
pub(super) struct Necessities {
    /// The necessity of each entry, by number.
    necessities: Vec<Necessity>,
    /// The packets for which each required entry is required.
    packets: PackedMatches,
    /// Whether some entry was once required because of an entry.
    is_reason: Vec<bool>,
    /// Lists that are kept for their memory.
    changed: Vec<(EntryId, EntryState)>,
    earlier: PackedRow<(EntryId, EntryState)>,
    later: Vec<(EntryId, EntryState)>,
    marks: MarkSet,
}

impl Necessities {
    /// Adds a new entry, about which nothing is known.
    pub(super) fn add(&mut self, id: EntryId) {
        if self.necessities.len() <= id as usize {
            self.necessities.resize(id as usize + 1, Necessity::REDUNDANT);
            self.is_reason.resize(id as usize + 1, false);
        }
        (self.necessities[id as usize], self.is_reason[id as usize]) = (Necessity::REDUNDANT, false);
        self.marks.add(id);
    }

    /// Returns what is known of the necessity of a barrier entry.
    pub(super) fn necessity_of(&self, id: EntryId) -> Necessity {
        self.necessities[id as usize]
    }

    /// Reports whether an entry is a rule, if there is a priority for it.
    pub(super) fn is_rule(&self, store: &EntryStore, id: EntryId) -> bool {
        match store.state(id) {
            EntryState::Gone | EntryState::Shadowed => false,
            EntryState::Barrier => self.necessity_of(id).is_rule(),
            EntryState::Forward => true,
        }
    }

    /// Returns the barrier entries that are required because of a forwarding entry.
    pub(super) fn required_by(&self, store: &EntryStore, overlaps: &OverlapLists, by: EntryId) -> Vec<EntryId> {
        if !self.is_reason[by as usize] {
            return Vec::new();
        }
        let is_required = |id: &EntryId| {
            store.state(*id) == EntryState::Barrier && self.necessity_of(*id) == Necessity::Required { by }
        };
        overlaps.earlier(by).iter().copied().filter(is_required).collect()
    }

    /// Removes an entry that is gone from the reasons of another, because its number is about to be reused.
    pub(super) fn forget_gone(&mut self, store: &EntryStore, id: EntryId) {
        let necessity = &mut self.necessities[id as usize];
        if matches!(*necessity, Necessity::Redundant { covered_by: Some(by) } if !store.is_there(by)) {
            *necessity = Necessity::REDUNDANT;
        }
    }

    /// Makes matches `stride` words long.
    pub(super) fn widen(&mut self, stride: usize) {
        self.packets.widen(stride, self.necessities.len());
    }

    fn set(&mut self, id: EntryId, necessity: Necessity) {
        self.necessities[id as usize] = necessity;
    }

    fn require(&mut self, barrier: EntryId, by: EntryId, packets: &[u64]) {
        self.set(barrier, Necessity::Required { by });
        self.is_reason[by as usize] = true;
        self.packets.set(barrier, packets);
    }
}

impl Necessity {
    const REDUNDANT: Necessity = Necessity::Redundant { covered_by: None };

    /// Reports whether a barrier entry is a rule.
    fn is_rule(self) -> bool {
        matches!(self, Necessity::Required { .. } | Necessity::AssumedRequired)
    }
}

/// Keeps necessities true while entries come, change and go.
pub(super) struct Redundancy<'a> {
    pub(super) store: &'a EntryStore,
    pub(super) overlaps: &'a OverlapLists,
    pub(super) necessities: &'a mut Necessities,
    pub(super) work: &'a mut WorkQueue,
    pub(super) tuning: &'a Tuning,
    pub(super) effort: &'a Effort,
}

impl Redundancy<'_> {
    /// Decides barrier entries around dirty entries, and some that were deferred.
    pub(super) fn run(&mut self, tree: &Tree, checks: Checks) {
        let mut changed = std::mem::take(&mut self.necessities.changed);
        let before = |id: &EntryId| (*id, self.work.before(*id).unwrap_or(EntryState::Shadowed));
        changed.extend(self.work.dirty().iter().map(before));
        changed.sort_unstable_by_key(|(id, _)| *id);
        // A new barrier entry is decided in any case, so none that is now forwarding asks about it.
        for (id, before) in &changed {
            if *before == EntryState::Shadowed && self.store.state(*id) == EntryState::Barrier {
                self.necessities.set(*id, Necessity::Unchecked);
            }
        }
        for (id, before) in changed.drain(..) {
            if before != self.store.state(id) || self.work.is_toggled(id) {
                self.state_changed(tree, id, before, checks);
            }
        }
        self.necessities.changed = changed;
        self.decide_unchecked(checks);
        if checks == Checks::Now {
            self.decide_deferred();
        }
    }

    /// Updates the entries around one whose state has changed.
    fn state_changed(&mut self, tree: &Tree, id: EntryId, before: EntryState, checks: Checks) {
        let is_toggled = self.work.is_toggled(id);
        // Neighbours may have seen a toggled entry in either state.
        let did_forward = before == EntryState::Forward || is_toggled;
        let was_barrier = before == EntryState::Barrier || is_toggled;
        let was_assumed = self.necessities.necessity_of(id) == Necessity::AssumedRequired;
        let state = self.store.state(id);
        if state != EntryState::Barrier {
            self.necessities.set(id, Necessity::REDUNDANT);
        }
        match state {
            EntryState::Forward => self.now_forwards(tree, id),
            EntryState::Barrier => {
                let may_be_required = self.last_forwarding(self.overlaps.later(id)).is_some();
                let may_be_assumed = did_forward && !is_toggled && checks == Checks::Deferred;
                if may_be_assumed && may_be_required && self.overlaps.degree(id) > self.tuning.few_overlaps {
                    self.necessities.set(id, Necessity::AssumedRequired);
                    self.work.defer(id);
                } else {
                    self.on_became_barrier(id, did_forward, may_be_required);
                }
            }
            EntryState::Gone | EntryState::Shadowed => {
                self.on_became_shadowed(id, did_forward || was_assumed, was_barrier)
            }
        }
    }

    /// Decides unchecked barrier entries, or defers those that are rules.
    fn decide_unchecked(&mut self, checks: Checks) {
        let unchecked = self.work.take_unchecked();
        for id in &unchecked {
            if self.store.state(*id) != EntryState::Barrier {
                continue;
            }
            match (self.necessities.necessity_of(*id), checks) {
                (Necessity::AssumedRequired, _) => {}
                (Necessity::Required { .. }, Checks::Deferred) => self.work.defer(*id),
                _ => self.decide_and_note(*id),
            }
        }
        self.work.keep_unchecked(unchecked);
    }

    /// Decides some barrier entries that were deferred.
    fn decide_deferred(&mut self) {
        for _ in 0..self.tuning.checks_per_trace {
            let Some((id, is_open)) = self.work.pop_deferred() else { break };
            if is_open && self.store.state(id) == EntryState::Barrier {
                if self.necessities.necessity_of(id) == Necessity::AssumedRequired {
                    self.make_up_for(id);
                }
                self.decide_and_note(id);
            }
        }
        self.decide_unchecked(Checks::Deferred);
    }

    /// Makes up for an entry that was assumed to be required: it stops counting as the forwarding entry that it was.
    fn make_up_for(&mut self, id: EntryId) {
        self.uncheck_required_for_packets_of(id, self.overlaps.earlier(id));
        self.no_longer_forwards(id, self.overlaps.earlier(id), self.overlaps.later(id));
    }

    /// Updates the entries around one that now forwards. Earlier barrier entries may become required because of it, and
    /// later ones redundant.
    fn now_forwards(&mut self, tree: &Tree, id: EntryId) {
        let rank = self.store.rank(tree, id);
        self.effort.add(self.overlaps.earlier(id).len());
        let may_be_required = |necessities: &Necessities, other: EntryId| {
            self.store.state(other) == EntryState::Barrier
                && match necessities.necessity_of(other) {
                    // An unchecked entry is decided anyway.
                    Necessity::Required { .. } | Necessity::AssumedRequired | Necessity::Unchecked => false,
                    Necessity::Redundant { covered_by: None } => true,
                    Necessity::Redundant { covered_by: Some(by) } => {
                        !self.store.is_there(by) || self.store.rank(tree, by) >= rank
                    }
                }
        };
        let mut earlier = std::mem::take(&mut self.necessities.earlier);
        earlier.clear();
        if self.overlaps.earlier(id).iter().any(|other| may_be_required(self.necessities, *other)) {
            for other in self.overlaps.earlier(id) {
                let state = self.store.state(*other);
                if state.is_reachable() {
                    earlier.push(self.store.matching(*other), (*other, state));
                }
            }
        }
        for index in (0..earlier.items().len()).rev() {
            let (other, state) = earlier.items()[index];
            if may_be_required(self.necessities, other)
                && let Some(packets) = self.unprotected(&earlier, index, id)
            {
                self.necessities.require(other, id, &packets);
                self.work.mark_dirty(other, state);
            }
        }
        self.necessities.earlier = earlier;
        self.uncheck_required_for_packets_of(id, self.overlaps.later(id));
    }

    /// Finds packets of a barrier entry that a forwarding entry would take. `index` is the barrier entry's place among
    /// the entries earlier than the forwarding one. No entry between the two takes these packets, and no forwarding
    /// entry before both.
    ///
    /// An entry that takes them overlaps both. So the shorter list is searched: the barrier entry's own, or `earlier`.
    fn unprotected(
        &self,
        earlier: &PackedRow<(EntryId, EntryState)>,
        index: usize,
        forwarding: EntryId,
    ) -> Option<Box<[u64]>> {
        let barrier = earlier.items()[index].0;
        if self.overlaps.degree(barrier) * self.tuning.matches_per_jump < earlier.items().len() {
            return self.unprotected_by_own(barrier, forwarding);
        }
        let common = meet(earlier.get(index), self.store.matching(forwarding));
        let mut cover = Vec::new();
        let mut leaves_some = |place: usize, set: &[u64]| {
            cover.push(earlier.items()[place].0);
            !covers(set, &common)
        };
        if !earlier.all_overlapping(index + 1..earlier.items().len(), true, &common, &mut leaves_some) {
            return None;
        }
        let forwards = |place: usize| earlier.items()[place].1 == EntryState::Forward;
        if !earlier.all_overlapping(0..index, false, &common, |place, set| !forwards(place) || leaves_some(place, set))
        {
            return None;
        }
        uncovered(self.store.matches(), &common, &cover)
    }

    /// Does what [`Redundancy::unprotected`] does, by the entries that overlap the barrier entry.
    fn unprotected_by_own(&self, barrier: EntryId, forwarding: EntryId) -> Option<Box<[u64]>> {
        let store = self.store;
        let common = meet(store.matching(barrier), store.matching(forwarding));
        let takes_some = |id: &&EntryId| store.state(**id).is_reachable() && overlap(store.matching(**id), &common);
        let between = self.overlaps.later(barrier).iter().take_while(|id| **id != forwarding).filter(takes_some);
        let forwards = |id: &&EntryId| store.state(**id) == EntryState::Forward;
        let before = self.overlaps.earlier(barrier).iter().filter(forwards).filter(takes_some);
        let between: Vec<EntryId> = between.copied().collect();
        let cover: Vec<EntryId> = between.into_iter().rev().chain(before.copied()).collect();
        uncovered(store.matches(), &common, &cover)
    }

    /// Updates the entries around one that is now a barrier. It stands for earlier ones, and for the forwarding entry
    /// that it may have been.
    ///
    /// If no later entry forwards, it is redundant, and no later barrier entry becomes required. It also stands for no
    /// earlier one, unless it was itself the reason: the forwarding entries that those are required for come before it.
    fn on_became_barrier(&mut self, id: EntryId, did_forward: bool, may_be_required: bool) {
        let (earlier, later) = (self.overlaps.earlier(id), self.overlaps.later(id));
        if may_be_required {
            self.uncheck(id);
            self.uncheck_required_for_packets_of(id, earlier);
        } else {
            self.necessities.set(id, Necessity::REDUNDANT);
        }
        if did_forward {
            self.no_longer_forwards(id, earlier, if may_be_required { later } else { &[] });
        }
    }

    /// Updates the entries around one that is now shadowed, and can no longer be a reason.
    fn on_became_shadowed(&mut self, id: EntryId, did_forward: bool, was_barrier: bool) {
        let (earlier, later) = (self.overlaps.earlier(id), self.overlaps.later(id));
        for other in earlier {
            if self.necessities.necessity_of(*other) == (Necessity::Redundant { covered_by: Some(id) }) {
                self.necessities.set(*other, Necessity::REDUNDANT);
            }
        }
        if did_forward {
            self.no_longer_forwards(id, earlier, later);
        }
        if was_barrier {
            self.no_longer_stands_for(earlier, later);
        }
    }

    /// Updates the entries around one that was removed from the store, and had this state and these lists.
    ///
    /// A shadowed entry mattered to no other: what covers it covers all that it might cover. Nor did a redundant
    /// barrier entry. Suppose that an earlier one became required for a packet, as the last entry before a forwarding
    /// entry. Then the removed one was the last before that forwarding entry, and required.
    pub(super) fn removed(&mut self, id: EntryId, state: EntryState, neighbours: &Neighbours) {
        let (earlier, later) = (neighbours.earlier(), neighbours.later());
        if state == EntryState::Shadowed {
            return;
        }
        self.effort.add(earlier.len() + later.len() + 1);
        // An entry that was edited may have been anything at the last recompute.
        let (is_edited, necessity) = (self.work.is_dirty(id), self.necessities.necessity_of(id));
        if state == EntryState::Forward || is_edited || necessity == Necessity::AssumedRequired {
            self.no_longer_forwards(id, earlier, later);
        }
        let is_redundant = matches!(necessity, Necessity::Redundant { .. });
        if is_edited || state == EntryState::Barrier && !is_redundant {
            self.no_longer_stands_for(earlier, later);
        }
    }

    /// Unchecks entries around one that no longer forwards: earlier barrier entries that were required because of it,
    /// and later ones that were redundant because it took their packets.
    ///
    /// No earlier entry becomes required: if it is the last entry before another forwarding entry that takes a packet
    /// now, it was the last before this one. If an entry becomes required, this is because of a later forwarding entry
    /// that takes packets of both, so that one overlaps this entry. If there is no such entry, nothing is unchecked.
    fn no_longer_forwards(&mut self, id: EntryId, earlier: &[EntryId], later: &[EntryId]) {
        if self.necessities.is_reason[id as usize] {
            let necessities = &*self.necessities;
            let was_required = |other: &EntryId| necessities.necessity_of(*other) == Necessity::Required { by: id };
            self.work.add_unchecked(earlier.iter().copied().filter(was_required));
        }
        let Some(last) = self.last_forwarding(later) else { return };
        for (index, other) in later[..last].iter().enumerate() {
            if self.store.state(*other) == EntryState::Barrier {
                let after = later[index + 1..=last].iter().map(|other| (*other, self.store.state(*other)));
                if self.may_lose_packets(*other, after) {
                    self.uncheck(*other);
                }
            }
        }
    }

    /// Unchecks earlier barrier entries that were redundant because an entry stood for them which is no longer a
    /// barrier.
    ///
    /// An earlier entry that is covered by an entry before this one is not affected. If no forwarding entry is later
    /// than both, none is.
    fn no_longer_stands_for(&mut self, earlier: &[EntryId], later: &[EntryId]) {
        let Some(last) = self.last_forwarding(later) else { return };
        let mut after = std::mem::take(&mut self.necessities.later);
        after.clear();
        let with_state = |other: &EntryId| (*other, self.store.state(*other));
        after.extend(later[..=last].iter().map(with_state).filter(|(_, state)| state.is_reachable()));
        self.necessities.marks.mark(later);
        for other in earlier {
            let may_be_required = match self.necessities.necessity_of(*other) {
                Necessity::Redundant { covered_by: None } => true,
                Necessity::Redundant { covered_by: Some(by) } => {
                    !self.store.is_there(by) || self.necessities.marks.is_marked(by)
                }
                Necessity::Required { .. } | Necessity::AssumedRequired | Necessity::Unchecked => false,
            };
            if may_be_required
                && self.store.state(*other) == EntryState::Barrier
                && self.may_lose_packets(*other, after.iter().copied())
            {
                self.uncheck(*other);
            }
        }
        self.necessities.later = after;
    }

    /// Returns the index of the last forwarding entry in a list.
    fn last_forwarding(&self, list: &[EntryId]) -> Option<usize> {
        list.iter().rposition(|other| self.store.state(*other) == EntryState::Forward)
    }

    /// Marks a redundant barrier entry for decision.
    fn uncheck(&mut self, id: EntryId) {
        self.necessities.set(id, Necessity::Unchecked);
        self.work.add_unchecked([id]);
    }

    /// Reports whether a redundant barrier entry may be required after an entry that took packets of it is gone.
    ///
    /// `after` are the entries later than both that overlap the one that is gone. Three matches that overlap in pairs
    /// have a packet in common, so a forwarding entry that takes any of these packets is among them. Entries after one
    /// that covers the barrier entry do not matter.
    fn may_lose_packets(&self, barrier: EntryId, after: impl Iterator<Item = (EntryId, EntryState)>) -> bool {
        let Necessity::Redundant { covered_by } = self.necessities.necessity_of(barrier) else { return false };
        let set = self.store.matching(barrier);
        for (other, state) in after.filter(|(_, state)| state.is_reachable()) {
            if state == EntryState::Forward && overlap(self.store.matching(other), set) {
                return true;
            }
            if Some(other) == covered_by {
                return false;
            }
        }
        false
    }

    /// Unchecks the barrier entries in `beside` that are required for packets of an entry.
    fn uncheck_required_for_packets_of(&mut self, id: EntryId, beside: &[EntryId]) {
        let (store, set, necessities) = (self.store, self.store.matching(id), &*self.necessities);
        let is_taken = |other: &EntryId| {
            store.state(*other) == EntryState::Barrier
                && matches!(necessities.necessity_of(*other), Necessity::Required { .. })
                && overlap(necessities.packets.get(*other), set)
        };
        self.work.add_unchecked(beside.iter().copied().filter(is_taken));
    }

    /// Decides a barrier entry. If it becomes a rule or stops being one, it is dirty.
    fn decide_and_note(&mut self, id: EntryId) {
        let was_rule = self.necessities.necessity_of(id).is_rule();
        self.decide(id);
        if was_rule != self.necessities.necessity_of(id).is_rule() {
            self.work.mark_dirty(id, self.store.state(id));
        }
        self.work.note_looked_at(id);
    }

    /// Decides from scratch whether a barrier entry is required.
    fn decide(&mut self, id: EntryId) {
        let (store, set) = (self.store, self.store.matching(id));
        let earlier = self.overlaps.earlier(id);
        let forwarding = earlier.iter().filter(|other| store.state(**other) == EntryState::Forward);
        let mut cover: Vec<EntryId> = forwarding.copied().collect();
        let mut looked_at = earlier.len();
        let mut covered_by = None;
        for other in self.overlaps.later(id) {
            looked_at += 1;
            let (state, there) = (store.state(*other), store.matching(*other));
            if !state.is_reachable() {
                continue;
            }
            if state == EntryState::Forward
                && let Some(packets) = uncovered(store.matches(), &meet(set, there), &cover)
            {
                self.effort.add(looked_at);
                return self.necessities.require(id, *other, &packets);
            }
            if covers(there, set) {
                covered_by = Some(*other);
                break;
            }
            cover.push(*other);
        }
        self.effort.add(looked_at);
        self.necessities.set(id, Necessity::Redundant { covered_by });
    }
}
