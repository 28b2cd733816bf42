//! The entries that overlap one, in one list that grows at both ends.

use super::entry_store::EntryId;

/// The minimum length of a list with free places before the first entry. Chosen: moving 64 bytes costs less than free
/// places, and most lists are shorter.
const MIN_LEN_WITH_ROOM: usize = 16;

/// The entries that overlap one, in order of precedence. Some may have been removed.
///
/// An insertion moves the entries after its place or those before it, whichever are fewer: an access list comes from
/// its last rule to its first, traces mostly from the first to the last.
#[derive(Clone, Debug, Default)]
pub(super) struct Neighbours {
    /// Free places, the entries that take precedence, and those that yield.
    places: Vec<EntryId>,
    /// The number of free places.
    free: u32,
    /// The place of the first entry that yields.
    split: u32,
}

impl Neighbours {
    /// Creates the lists of an entry, both in order of precedence.
    pub(super) fn new(earlier: &[(u64, EntryId)], later: &[(u64, EntryId)]) -> Neighbours {
        let mut places = Vec::with_capacity(earlier.len() + later.len());
        places.extend(earlier.iter().chain(later).map(|(_, id)| *id));
        Neighbours { places, free: 0, split: earlier.len() as u32 }
    }

    /// Creates the lists of an entry: this many entries that take precedence, and then those that yield, in order.
    pub(super) fn of(places: Vec<EntryId>, earlier: u32) -> Neighbours {
        Neighbours { places, free: 0, split: earlier }
    }

    /// Returns the entries that take precedence.
    pub(super) fn earlier(&self) -> &[EntryId] {
        &self.places[self.free as usize..self.split as usize]
    }

    /// Returns the entries that yield.
    pub(super) fn later(&self) -> &[EntryId] {
        &self.places[self.split as usize..]
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free as usize
    }

    /// Inserts an entry before the earlier one with this index, or after all of them.
    pub(super) fn insert_earlier(&mut self, index: usize, id: EntryId) {
        // The entries that yield move, or those before the new one.
        self.split += u32::from(self.insert(index, id));
    }

    /// Inserts an entry before the later one with this index, or after all of them.
    pub(super) fn insert_later(&mut self, index: usize, id: EntryId) {
        let index = self.earlier().len() + index;
        self.split -= u32::from(!self.insert(index, id));
    }

    /// Inserts an entry before the one with this index. Returns whether those after it have moved, and not those
    /// before.
    fn insert(&mut self, index: usize, id: EntryId) -> bool {
        if index >= self.len() - index || self.len() < MIN_LEN_WITH_ROOM {
            self.places.insert(self.free as usize + index, id);
            return true;
        }
        if self.free == 0 {
            // In proportion to the entries, so that each is moved only a few times however long the list becomes.
            let room = self.places.len() / 2;
            self.places.reserve_exact(room);
            self.places.splice(0..0, std::iter::repeat_n(0, room));
            (self.free, self.split) = (room as u32, self.split + room as u32);
        }
        let first = self.free as usize;
        self.places.copy_within(first..first + index, first - 1);
        self.places[first + index - 1] = id;
        self.free -= 1;
        false
    }

    /// Removes all entries for which this is false.
    pub(super) fn retain(&mut self, keeps: impl Fn(EntryId) -> bool) {
        let earlier = self.earlier().iter().filter(|id| keeps(**id)).count();
        self.places.drain(..self.free as usize);
        self.places.retain(|id| keeps(*id));
        (self.free, self.split) = (0, earlier as u32);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn both_lists_hold_what_vectors_hold(
            steps in vec((prop_oneof![Just(0), Just(usize::MAX), any::<usize>()], any::<bool>(), any::<u8>()), 0..300),
        ) {
            let mut lists = Neighbours::default();
            let mut plain = [Vec::new(), Vec::new()];
            for (number, (index, is_later, kind)) in steps.into_iter().enumerate() {
                let list = &mut plain[usize::from(is_later)];
                let (index, id) = (if index == usize::MAX { list.len() } else { index % (list.len() + 1) }, number as EntryId);
                list.insert(index, id);
                if is_later { lists.insert_later(index, id) } else { lists.insert_earlier(index, id) }
                if kind == 0 {
                    lists.retain(|id| id % 3 != 0);
                    plain.iter_mut().for_each(|list| list.retain(|id| id % 3 != 0));
                }
                prop_assert_eq!([lists.earlier(), lists.later()], [&plain[0][..], &plain[1][..]]);
                prop_assert_eq!(lists.len(), plain[0].len() + plain[1].len());
            }
        }

        #[test]
        fn insertions_at_the_ends_move_few_entries(fronts_of_four in 0..=4) {
            let (mut lists, mut moved) = (Neighbours::default(), 0);
            for number in 0..5_000 {
                let (len, has_room) = (lists.len(), lists.free > 0);
                let index = if number % 4 < fronts_of_four { 0 } else { len };
                let those_after = lists.insert(index, 0);
                moved += if those_after { len - index } else { index };
                // All entries move to make room.
                moved += if those_after || has_room { 0 } else { len };
            }
            prop_assert!(moved < 4 * 5_000, "{} entries", moved);
        }
    }
}
