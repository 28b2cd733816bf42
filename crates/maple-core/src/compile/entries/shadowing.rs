//! The shadowed entries: earlier ones cover them, so no packet gets to them.

use super::Effort;
use super::entry_store::{EntryId, EntryStore, EntryVerdict};
use super::overlap_lists::OverlapLists;
use super::packed::{covers, uncovered};
use super::work_queue::WorkQueue;
use crate::tree::Tree;

/// Finds which of the new and the uncovered entries are shadowed, and which later entries the new ones shadow.
pub(super) struct Shadowing<'a> {
    pub(super) tree: &'a Tree,
    pub(super) store: &'a mut EntryStore,
    pub(super) overlaps: &'a OverlapLists,
    pub(super) work: &'a mut WorkQueue,
    pub(super) effort: &'a Effort,
}

impl Shadowing<'_> {
    /// Decides which of the new entries, and of those that may be uncovered, are shadowed, in order of precedence.
    pub(super) fn run(&mut self) {
        let mut queue = self.work.take_ordered();
        let new = self.work.dirty().iter().filter(|id| self.work.is_new(**id));
        let uncovered = self.work.unshadow_candidates().iter().filter(|id| self.store.is_there(**id));
        queue.fill(new.chain(uncovered).map(|id| (self.store.rank(self.tree, *id), *id)));
        while let Some(id) = queue.pop_first() {
            let was_reachable = !self.work.is_new(id) && self.store.state(id).is_reachable();
            let is_shadowed = self.is_covered(id);
            self.set_shadowed(id, is_shadowed);
            if is_shadowed || was_reachable {
                continue;
            }
            for other in self.overlaps.later(id) {
                // A new entry is looked at anyway.
                let may_be_shadowed = !self.work.is_new(*other) && self.store.state(*other).is_reachable();
                if may_be_shadowed && self.may_help_to_cover(id, *other) {
                    queue.insert(self.store.rank(self.tree, *other), *other);
                }
            }
        }
        self.work.keep_ordered(queue);
    }

    fn is_covered(&self, id: EntryId) -> bool {
        let earlier = self.overlaps.earlier(id).iter().copied();
        let cover: Vec<EntryId> = earlier.filter(|other| self.store.state(*other).is_reachable()).collect();
        self.effort.add(cover.len() + 1);
        !cover.is_empty() && uncovered(self.store.matches(), self.store.matching(id), &cover).is_none()
    }

    /// Reports whether a new entry makes it necessary to look at a later one. Entries of a partly explored yes-side
    /// come one by one, until together they cover its barrier entry. Any other entry is looked at only if the new one
    /// alone covers it.
    fn may_help_to_cover(&self, new: EntryId, later: EntryId) -> bool {
        self.store.verdict(later) == EntryVerdict::PartiallyExplored
            || covers(self.store.matching(new), self.store.matching(later))
    }

    fn set_shadowed(&mut self, id: EntryId, is_shadowed: bool) {
        let state = self.store.state(id);
        if state.is_reachable() == is_shadowed {
            self.work.mark_dirty(id, state);
            self.store.set_shadowed(id, is_shadowed);
        }
    }
}
