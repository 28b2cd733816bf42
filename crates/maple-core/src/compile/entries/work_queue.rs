//! The entries that the next recompute has to look at, and those that are deferred.
//!
//! An entry is *dirty* if it is new or has changed since the last recompute. The queue remembers the state that it had
//! then. Code that changes an entry reports that to the queue, and no other part keeps such a flag.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::entry_store::{EntryId, EntryState, EntryStore};

#[derive(Clone, Debug, Default)]
pub(super) struct WorkQueue {
    /// The mark of each entry.
    marks: Vec<EntryChanges>,
    /// The dirty entries, each once, and possibly some that were removed.
    dirty: Vec<EntryId>,
    has_removals: bool,
    /// Entries that may no longer be shadowed.
    unshadow_candidates: Vec<EntryId>,
    /// Barrier entries whose necessity is to be checked. Some may have been removed.
    unchecked: Vec<EntryId>,
    /// Barrier entries that are rules and may be redundant. Some may have been removed.
    deferred: VecDeque<EntryId>,
    /// A queue that is kept for its memory.
    ordered: PrecedenceQueue,
}

/// The changes of an entry since the last recompute.
#[derive(Clone, Copy, Debug, Default)]
struct EntryChanges {
    history: EntryHistory,
    /// Whether its level may no longer be right.
    level_stale: bool,
    /// Whether it is in `deferred`.
    deferred: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum EntryHistory {
    #[default]
    Clean,
    /// The entry is dirty, and had this state at the last recompute.
    Was(EntryState),
    /// The entry is dirty, and had this state at the last recompute, but the state has changed more than once since.
    /// Neighbours may have seen any of the states.
    Toggled(EntryState),
}

impl WorkQueue {
    /// Adds a new entry, which is dirty. It counted for nothing at the last recompute.
    pub(super) fn add(&mut self, id: EntryId) {
        if self.marks.len() <= id as usize {
            self.marks.resize(id as usize + 1, EntryChanges::default());
        }
        self.marks[id as usize] =
            EntryChanges { history: EntryHistory::Was(EntryState::Shadowed), ..EntryChanges::default() };
        self.dirty.push(id);
    }

    /// Notes that an edit changes an entry from one state to another, which may be the same.
    pub(super) fn mark_edited(&mut self, id: EntryId, before: EntryState, after: EntryState) {
        let history = &mut self.marks[id as usize].history;
        match *history {
            EntryHistory::Clean => self.mark_dirty(id, before),
            EntryHistory::Was(first) if before != after => *history = EntryHistory::Toggled(first),
            EntryHistory::Was(_) | EntryHistory::Toggled(_) => {}
        }
    }

    /// Notes that an entry in this state may change within the recompute, where no neighbour sees a state in between.
    pub(super) fn mark_dirty(&mut self, id: EntryId, state: EntryState) {
        let history = &mut self.marks[id as usize].history;
        if let EntryHistory::Clean = *history {
            *history = EntryHistory::Was(state);
            self.dirty.push(id);
        }
    }

    /// Notes that an entry must be told apart from more entries than before.
    pub(super) fn mark_level_stale(&mut self, id: EntryId) {
        self.marks[id as usize].level_stale = true;
    }

    /// Notes that an entry was removed.
    pub(super) fn remove(&mut self, id: EntryId) {
        let mark = std::mem::take(&mut self.marks[id as usize]);
        self.has_removals |= mark.history.before().is_some();
    }

    /// Drops dirty entries that were removed.
    pub(super) fn drop_removed(&mut self, store: &EntryStore) {
        if std::mem::take(&mut self.has_removals) {
            self.dirty.retain(|id| store.state(*id) != EntryState::Gone);
        }
    }

    /// Ends a recompute: everything has been looked at. Calls `was_dirty` with the entries that were dirty.
    pub(super) fn finish(&mut self, mut was_dirty: impl FnMut(EntryId)) {
        for id in self.dirty.drain(..) {
            let mark = &mut self.marks[id as usize];
            (mark.history, mark.level_stale) = (EntryHistory::Clean, false);
            was_dirty(id);
        }
        self.unshadow_candidates.clear();
    }

    pub(super) fn dirty(&self) -> &[EntryId] {
        &self.dirty
    }

    /// Reports whether the entry is looked at in this recompute.
    pub(super) fn is_dirty(&self, id: EntryId) -> bool {
        self.marks[id as usize].history.before().is_some()
    }

    /// Returns the state that a dirty entry had at the last recompute.
    pub(super) fn before(&self, id: EntryId) -> Option<EntryState> {
        self.marks[id as usize].history.before()
    }

    /// Reports whether an entry counted for nothing at the last recompute: it was not there, or shadowed.
    pub(super) fn is_new(&self, id: EntryId) -> bool {
        self.before(id) == Some(EntryState::Shadowed)
    }

    /// Reports whether the state of an entry has changed more than once.
    pub(super) fn is_toggled(&self, id: EntryId) -> bool {
        matches!(self.marks[id as usize].history, EntryHistory::Toggled(_))
    }

    /// Reports whether the level of the entry may have to change.
    pub(super) fn is_level_stale(&self, id: EntryId) -> bool {
        self.marks[id as usize].level_stale
    }

    /// Adds entries that may no longer be shadowed.
    pub(super) fn add_unshadow_candidates(&mut self, ids: impl Iterator<Item = EntryId>) {
        self.unshadow_candidates.extend(ids);
    }

    /// Returns the entries that may no longer be shadowed, because an entry above them went.
    pub(super) fn unshadow_candidates(&self) -> &[EntryId] {
        &self.unshadow_candidates
    }

    /// Adds barrier entries whose necessity is to be checked.
    pub(super) fn add_unchecked(&mut self, ids: impl IntoIterator<Item = EntryId>) {
        self.unchecked.extend(ids);
    }

    /// Takes the barrier entries whose necessity is to be checked, each once. [`WorkQueue::keep_unchecked`] takes the
    /// memory back.
    pub(super) fn take_unchecked(&mut self) -> Vec<EntryId> {
        self.unchecked.sort_unstable();
        self.unchecked.dedup();
        std::mem::take(&mut self.unchecked)
    }

    /// Takes back the buffer of unchecked entries, for its memory.
    pub(super) fn keep_unchecked(&mut self, mut done: Vec<EntryId>) {
        debug_assert!(self.unchecked.is_empty(), "a look at an entry makes no other unchecked");
        done.clear();
        self.unchecked = done;
    }

    /// Defers a barrier entry that is a rule and may be unnecessary.
    pub(super) fn defer(&mut self, id: EntryId) {
        if !std::mem::replace(&mut self.marks[id as usize].deferred, true) {
            self.deferred.push_back(id);
        }
    }

    /// Takes the entry that was deferred first. The answer also says whether it is still to be looked at.
    pub(super) fn pop_deferred(&mut self) -> Option<(EntryId, bool)> {
        let id = self.deferred.pop_front()?;
        Some((id, std::mem::take(&mut self.marks[id as usize].deferred)))
    }

    /// Notes that an entry that may have been deferred has been looked at.
    pub(super) fn note_looked_at(&mut self, id: EntryId) {
        self.marks[id as usize].deferred = false;
    }

    pub(super) fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// Returns the dirty entry, if it is all that there is to do.
    pub(super) fn only_entry(&self) -> Option<EntryId> {
        let [id] = self.dirty[..] else { return None };
        let is_all = self.unshadow_candidates.is_empty() && self.unchecked.is_empty() && self.deferred.is_empty();
        is_all.then_some(id)
    }

    /// Takes an empty queue. [`WorkQueue::keep_ordered`] takes the memory back.
    pub(super) fn take_ordered(&mut self) -> PrecedenceQueue {
        self.ordered.clear();
        std::mem::take(&mut self.ordered)
    }

    /// Takes back the queue, for its memory.
    pub(super) fn keep_ordered(&mut self, queue: PrecedenceQueue) {
        self.ordered = queue;
    }
}

impl EntryHistory {
    fn before(self) -> Option<EntryState> {
        match self {
            EntryHistory::Clean => None,
            EntryHistory::Was(state) | EntryHistory::Toggled(state) => Some(state),
        }
    }
}

/// Entries with their ranks, each once, in order of precedence: most come together, the others later.
#[derive(Clone, Debug, Default)]
pub(super) struct PrecedenceQueue {
    /// The entries that came together. The last item takes precedence over all others.
    list: Vec<(u64, EntryId)>,
    /// The entries that came later and are not in the list. Some may be there twice.
    late: BinaryHeap<Reverse<(u64, EntryId)>>,
}

impl PrecedenceQueue {
    /// Fills an empty queue with entries that come together.
    pub(super) fn fill(&mut self, entries: impl Iterator<Item = (u64, EntryId)>) {
        self.list.extend(entries);
        self.list.sort_unstable_by(|a, b| b.cmp(a));
        self.list.dedup();
    }

    /// Adds an entry, unless it is already there.
    pub(super) fn insert(&mut self, rank: u64, id: EntryId) {
        if self.list.binary_search_by(|there| (rank, id).cmp(there)).is_err() {
            self.late.push(Reverse((rank, id)));
        }
    }

    /// Removes and returns the first entry.
    pub(super) fn pop_first(&mut self) -> Option<EntryId> {
        let Some(Reverse(late)) = self.late.peek().copied() else { return self.list.pop().map(|(_, id)| id) };
        if let Some((_, id)) = self.list.pop_if(|listed| *listed < late) {
            return Some(id);
        }
        while self.late.peek() == Some(&Reverse(late)) {
            self.late.pop();
        }
        Some(late.1)
    }

    /// Returns the entries that came together and are still there, in order of precedence.
    pub(super) fn together(&self) -> impl Iterator<Item = EntryId> {
        self.list.iter().rev().map(|(_, id)| *id)
    }

    fn clear(&mut self) {
        self.list.clear();
        self.late.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn entries_come_in_order_and_once(
            together in vec((0..20u64, 0..3u32), 0..20),
            steps in vec(prop::option::weighted(0.7, (0..20u64, 0..3u32)), 0..100),
        ) {
            let (mut queue, mut oracle) = (PrecedenceQueue::default(), BTreeSet::from_iter(together.iter().copied()));
            queue.fill(together.into_iter());
            prop_assert!(queue.together().eq(oracle.iter().map(|(_, id)| *id)));
            for step in steps {
                match step {
                    Some((rank, id)) => {
                        queue.insert(rank, id);
                        oracle.insert((rank, id));
                    }
                    None => prop_assert_eq!(queue.pop_first(), oracle.pop_first().map(|(_, id)| id)),
                }
            }
            prop_assert!(std::iter::from_fn(|| queue.pop_first()).eq(oracle.into_iter().map(|(_, id)| id)));
        }
    }

    #[test]
    fn an_entry_whose_state_changes_twice_is_toggled_and_is_clean_after_the_recompute() {
        let mut work = WorkQueue::default();
        work.add(0);
        work.finish(|_| {});
        work.mark_edited(0, EntryState::Forward, EntryState::Barrier);
        assert_eq!((work.before(0), work.is_toggled(0)), (Some(EntryState::Forward), false));
        work.mark_edited(0, EntryState::Barrier, EntryState::Forward);
        assert_eq!((work.before(0), work.is_toggled(0)), (Some(EntryState::Forward), true));
        assert_eq!(work.dirty(), [0]);
        work.finish(|_| {});
        assert_eq!((work.before(0), work.is_toggled(0)), (None, false));
    }

    #[test]
    fn a_deferred_entry_that_was_looked_at_meanwhile_is_passed_over() {
        let mut work = WorkQueue::default();
        (0..2).for_each(|id| work.add(id));
        (0..2).for_each(|id| work.defer(id));
        work.defer(0);
        work.note_looked_at(0);
        assert_eq!(
            (work.pop_deferred(), work.pop_deferred(), work.pop_deferred()),
            (Some((0, false)), Some((1, true)), None)
        );
    }
}
