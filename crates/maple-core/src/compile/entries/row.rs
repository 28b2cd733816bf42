//! Lists of entries that grow at both ends.

use std::ops::Deref;

use super::store::EntryId;

/// The minimum length of a row with free places before the first entry.
const LONG: usize = 16;

/// A list of entries in order. An insertion moves the entries after its place or those before it, whichever are fewer:
/// an access list comes from its last rule to its first, traces mostly from the first to the last.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    /// Free places, then the entries.
    places: Vec<EntryId>,
    /// The number of free places.
    free: usize,
}

impl Row {
    /// Inserts an entry before the one with this index, or at the end.
    pub(super) fn insert(&mut self, at: usize, id: EntryId) {
        let after = self.len() - at;
        if at >= after || self.len() < LONG {
            return self.places.insert(self.free + at, id);
        }
        if self.free == 0 {
            // As many as there are entries, so that each is moved only a few times however long the row becomes.
            self.free = self.places.len();
            self.places.splice(0..0, std::iter::repeat_n(0, self.free));
        }
        self.places.copy_within(self.free..self.free + at, self.free - 1);
        self.free -= 1;
        self.places[self.free + at] = id;
    }

    /// Removes all entries for which this is false.
    pub(super) fn retain(&mut self, keeps: impl FnMut(&EntryId) -> bool) {
        self.places.drain(..self.free);
        self.free = 0;
        self.places.retain(keeps);
    }
}

impl Deref for Row {
    type Target = [EntryId];

    fn deref(&self) -> &[EntryId] {
        &self.places[self.free..]
    }
}

impl FromIterator<EntryId> for Row {
    fn from_iter<I: IntoIterator<Item = EntryId>>(entries: I) -> Row {
        let entries = entries.into_iter();
        // Collecting a longer vector's entries would keep all of its memory.
        let mut places = Vec::with_capacity(entries.size_hint().0);
        places.extend(entries);
        Row { places, free: 0 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_row_holds_what_a_vector_holds(
            steps in vec((prop_oneof![Just(0), Just(usize::MAX), any::<usize>()], any::<u8>()), 0..300),
        ) {
            let (mut row, mut plain) = (Row::default(), Vec::new());
            for (number, (at, kind)) in steps.into_iter().enumerate() {
                let (at, id) = (if at == usize::MAX { plain.len() } else { at % (plain.len() + 1) }, number as EntryId);
                row.insert(at, id);
                plain.insert(at, id);
                if kind == 0 {
                    row.retain(|id| id % 3 != 0);
                    plain.retain(|id| id % 3 != 0);
                }
                prop_assert_eq!(&*row, &plain[..]);
            }
        }

        #[test]
        fn an_insertion_at_either_end_moves_few_entries(at_the_front in any::<bool>()) {
            let mut row = Row::default();
            let (mut grown, mut capacity) = (0, 0);
            for id in 0..10_000 {
                row.insert(if at_the_front { 0 } else { row.len() }, id);
                grown += usize::from(row.places.capacity() != capacity);
                capacity = row.places.capacity();
            }
            prop_assert!(grown < 40, "{} times", grown);
        }
    }
}
