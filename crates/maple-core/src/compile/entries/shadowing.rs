//! Which entries are shadowed: covered altogether by earlier ones, so that no packet gets to them.

use super::packed::{covers, uncovered};
use super::{EntryId, EntryState, EntryTable, Verdict};
use crate::tree::Tree;

impl EntryTable {
    /// Finds out which of the new and bared entries earlier ones cover, and which later ones new ones cover.
    pub(super) fn settle_shadows(&mut self, tree: &Tree) {
        let mut open = self.turns.take();
        let is_new = |entries: &EntryTable, id: EntryId| entries.entry(id).was == Some(EntryState::Shadowed);
        let bared = self.bared.iter().copied().filter(|id| self.entries[*id as usize].is_some());
        let fresh = self.touched.iter().copied().filter(|id| is_new(self, *id)).chain(bared);
        fresh.for_each(|id| open.insert((self.rank(tree, id), id)));
        while let Some(id) = open.pop_first() {
            let entry = self.entry(id);
            let (was_there, set) = (!is_new(self, id) && !entry.shadowed, self.store.get(id));
            let before: Vec<EntryId> = entry.earlier.iter().copied().filter(|o| self.role(*o).counts()).collect();
            let shadowed = !before.is_empty() && uncovered(&self.store, set, &before).is_none();
            self.visited += before.len() as u64 + 1;
            self.shadow(id, shadowed);
            if shadowed || was_there {
                continue;
            }
            let (entry, set) = (self.entry(id), self.store.get(id));
            for other in &entry.later {
                if !self.role(*other).counts() {
                    continue;
                }
                if self.spot(*other).says == Verdict::PartiallyExplored || covers(set, self.store.get(*other)) {
                    open.insert((self.rank(tree, *other), *other));
                }
            }
        }
        self.turns = open;
    }

    fn shadow(&mut self, id: EntryId, shadowed: bool) {
        if self.entry(id).shadowed != shadowed {
            self.touch(id);
            self.piece_mut(id).shadowed = shadowed;
            self.note_role(id);
        }
    }
}
