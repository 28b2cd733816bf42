//! Marks on entries, which can all be removed together.

use super::entry_store::EntryId;

/// A set of entries. Beginning a new set costs nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct MarkSet {
    /// The call of [`MarkSet::mark`] that marked each entry last.
    marked_by: Vec<u32>,
    call: u32,
}

impl MarkSet {
    /// Adds an entry without a mark.
    pub(super) fn add(&mut self, id: EntryId) {
        if self.marked_by.len() <= id as usize {
            self.marked_by.resize(id as usize + 1, 0);
        }
    }

    /// Marks these entries, and no others.
    pub(super) fn mark(&mut self, entries: &[EntryId]) {
        self.call = self.call.wrapping_add(1);
        if self.call == 0 {
            self.marked_by.fill(0);
            self.call = 1;
        }
        entries.iter().for_each(|id| self.marked_by[*id as usize] = self.call);
    }

    pub(super) fn is_marked(&self, id: EntryId) -> bool {
        self.marked_by[id as usize] == self.call
    }
}
