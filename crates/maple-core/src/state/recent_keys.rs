//! The keys that were written last, for readers that knew an earlier version and need to look at no other keys.

use imbl::Vector;

/// The maximum number of keys. Chosen: more than are written between two turns of a shard in most networks; a reader
/// that has missed more reads the whole table.
const MAX: usize = 1024;

/// The keys that were written last, each with the version of the snapshot in which it was. Cloning it costs little.
#[derive(Clone, Debug)]
pub(super) struct RecentKeys<K: Clone> {
    /// All keys that were written in later versions are here.
    since: u64,
    /// The keys, by version.
    keys: Vector<(u64, K)>,
}

impl<K: Clone> Default for RecentKeys<K> {
    fn default() -> RecentKeys<K> {
        RecentKeys::from_version(0)
    }
}

impl<K: Clone> RecentKeys<K> {
    /// Creates the record of a table whose first key is written in this version. What was written to a former table in
    /// the same version is not here.
    pub fn from_version(version: u64) -> RecentKeys<K> {
        RecentKeys { since: version, keys: Vector::new() }
    }

    /// Notes that a key is written in the snapshot of this version.
    pub fn note(&mut self, key: &K, version: u64) {
        if self.keys.len() == MAX
            && let Some((forgotten, _)) = self.keys.pop_front()
        {
            self.since = forgotten;
        }
        self.keys.push_back((version, key.clone()));
    }

    /// Returns the keys that were written after a version, the last one first; a key may occur twice. `None` if more
    /// were written than are kept.
    pub fn after(&self, version: u64) -> Option<impl Iterator<Item = &K>> {
        let is_later = move |(at, _): &&(u64, K)| *at > version;
        (version >= self.since).then(|| self.keys.iter().rev().take_while(is_later).map(|(_, key)| key))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_new_table_has_no_keys_from_before() {
        let keys = RecentKeys::<u8>::from_version(5);
        assert!(keys.after(4).is_none(), "a former table may have had keys until the commit that made this one");
        assert_eq!(keys.after(5).map(Iterator::count), Some(0));
    }

    proptest! {
        #[test]
        fn the_keys_after_a_version_are_those_written_then(
            writes in prop::collection::vec((0u64..3, any::<u8>()), 0..3 * MAX),
            asked in prop_oneof![0u64..5, 0u64..3000],
        ) {
            let first = 2;
            let (mut recent, mut all, mut version) = (RecentKeys::from_version(first), Vec::new(), first);
            for (step, key) in writes {
                version += step;
                recent.note(&key, version);
                all.push((version, key));
            }
            let later = || all.iter().rev().filter(|(at, _)| *at > asked).map(|(_, key)| *key);
            match recent.after(asked) {
                Some(keys) => prop_assert!(asked >= first && keys.copied().eq(later())),
                None if asked < first => {}
                None => prop_assert!(later().count() >= MAX - all.iter().filter(|(at, _)| *at == asked).count()),
            }
        }
    }
}
