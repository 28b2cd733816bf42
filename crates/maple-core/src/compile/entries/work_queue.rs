//! EntryTable that are to be looked at, in order of precedence.

use super::EntryId;

/// EntryTable with their ranks, each once. Mostly few, which a list holds without memory of its own for each.
#[derive(Debug, Default)]
pub(super) struct WorkQueue {
    /// Those that come first at the end.
    list: Vec<(u64, EntryId)>,
}

impl WorkQueue {
    /// The memory of these for others.
    pub(super) fn take(&mut self) -> WorkQueue {
        self.list.clear();
        std::mem::take(self)
    }

    /// Adds a entry that is perhaps there.
    pub(super) fn insert(&mut self, turn: (u64, EntryId)) {
        if let Err(at) = self.list.binary_search_by(|there| turn.cmp(there)) {
            self.list.insert(at, turn);
        }
    }

    /// Takes the first one out.
    pub(super) fn pop_first(&mut self) -> Option<EntryId> {
        self.list.pop().map(|(_, id)| id)
    }

    /// All of them, the first one first.
    pub(super) fn iter(&self) -> impl Iterator<Item = EntryId> {
        self.list.iter().rev().map(|(_, id)| *id)
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
        fn turns_come_in_order_and_once(steps in vec(prop::option::weighted(0.7, (0..20u64, 0..3u32)), 0..100)) {
            let (mut turns, mut oracle) = (WorkQueue::default(), BTreeSet::new());
            for step in steps {
                match step {
                    Some(turn) => {
                        turns.insert(turn);
                        oracle.insert(turn);
                    }
                    None => prop_assert_eq!(turns.pop_first(), oracle.pop_first().map(|(_, id)| id)),
                }
                prop_assert!(turns.iter().eq(oracle.iter().map(|(_, id)| *id)));
            }
        }
    }
}
