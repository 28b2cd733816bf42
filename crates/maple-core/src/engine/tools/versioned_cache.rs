//! A cache from numbers to numbers for one version of the state. A look-up costs one cache line.
//!
//! # What
//!
//! An entry holds a key, a value, and the *stamp* of the version under which it was put in. Four entries share a line
//! of 64 bytes. A key can be in one line only, so a look-up reads that line and nothing else. A full line evicts its
//! first entry. The table doubles before a quarter of it is in use, up to [`MAX_LINES`].
//!
//! # What callers may rely on
//!
//! A key that was put in may be missing; the caller then computes its value again. A value that is found was put in for
//! this key, and was not forgotten since.
//!
//! Anyone who knows a key knows its line. Someone who crowds a line slows down the keys in it, and nothing else.

use maple_prefetch::prefetch;

/// The number of entries in a line: four of 16 bytes fill the 64 bytes of a cache line.
const WAYS: usize = 4;
/// The maximum number of lines. Chosen: 8 MiB for a switch, and half a million entries.
const MAX_LINES: usize = 1 << 17;

/// A cache whose entries belong to versions of the state.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct VersionedCache {
    /// The lines: a power of two of them, or none.
    lines: Vec<Line>,
    /// The number of entries that were put into free places.
    used: usize,
    version: u64,
    /// The stamp of the current version.
    stamp: u32,
}

#[derive(Clone, Debug, Default)]
#[repr(align(64))]
struct Line([Entry; WAYS]);

/// An entry. A free place has the stamp 0.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    key: u64,
    value: u32,
    stamp: u32,
}

impl VersionedCache {
    /// Sets the version under which entries are put in and read.
    pub fn begin(&mut self, version: u64) {
        if self.version == version && self.stamp != 0 {
            return;
        }
        self.version = version;
        self.stamp = self.stamp.wrapping_add(1);
        if self.stamp == 0 {
            *self = VersionedCache { version, stamp: 1, ..VersionedCache::default() };
        }
    }

    /// Prefetches the key's line.
    #[inline]
    pub fn prefetch(&self, key: u64) {
        self.lines.get(self.line_of(key)).into_iter().for_each(prefetch);
    }

    /// Returns the value that was put in under this version.
    #[inline]
    pub fn get(&self, key: u64) -> Option<u32> {
        let line = self.lines.get(self.line_of(key))?;
        line.0.iter().find(|entry| entry.key == key && entry.stamp == self.stamp).map(|entry| entry.value)
    }

    /// Returns the value that was put in under any version.
    pub fn get_any_version(&self, key: u64) -> Option<u32> {
        let line = self.lines.get(self.line_of(key))?;
        line.0.iter().find(|entry| entry.key == key && entry.stamp != 0).map(|entry| entry.value)
    }

    /// Puts a value in under this version, and replaces an earlier one. [`VersionedCache::begin`] must have been
    /// called.
    pub fn put(&mut self, key: u64, value: u32) {
        if self.used * 4 >= self.lines.len() * WAYS && self.lines.len() < MAX_LINES {
            self.grow();
        }
        self.insert(Entry { key, value, stamp: self.stamp });
    }

    /// Removes a key.
    pub fn forget(&mut self, key: u64) {
        let place = self.line_of(key);
        let Some(line) = self.lines.get_mut(place) else { return };
        line.0.iter_mut().filter(|entry| entry.key == key).for_each(|entry| *entry = Entry::default());
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        self.lines.clear();
        self.used = 0;
    }

    fn line_of(&self, key: u64) -> usize {
        let mixed = (key ^ key >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 40) as usize & self.lines.len().wrapping_sub(1)
    }

    fn insert(&mut self, new: Entry) {
        let place = self.line_of(new.key);
        let line = &mut self.lines[place].0;
        let there = line.iter_mut().position(|entry| entry.key == new.key && entry.stamp != 0);
        let at = there.or_else(|| line.iter().position(|entry| entry.stamp == 0));
        self.used += usize::from(there.is_none() && at.is_some());
        let at = at.unwrap_or_else(|| {
            line.rotate_left(1);
            WAYS - 1
        });
        line[at] = new;
    }

    fn grow(&mut self) {
        let lines = vec![Line::default(); (self.lines.len() * 2).max(1)];
        let old = std::mem::replace(&mut self.lines, lines);
        self.used = 0;
        let entries = old.into_iter().flat_map(|line| line.0).filter(|entry| entry.stamp != 0);
        entries.for_each(|entry| self.insert(entry));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Begin(u64),
        Put(u64, u32),
        Forget(u64),
        Clear,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let key = || (0u64..40).prop_map(|key| key * 0x1_0000_0001);
        let step = prop_oneof![
            1 => (0u64..3).prop_map(Step::Begin),
            8 => (key(), 0u32..5).prop_map(|(key, value)| Step::Put(key, value)),
            3 => key().prop_map(Step::Forget),
            1 => Just(Step::Clear),
        ];
        prop::collection::vec(step, 0..200)
    }

    proptest! {
        #[test]
        fn a_value_that_is_found_is_the_one_in_a_map(steps in steps()) {
            // To the cache, an earlier version that returns is a new version.
            let (mut recent, mut map, mut version, mut turn) = (VersionedCache::default(), HashMap::new(), 0, 0);
            recent.begin(0);
            for step in steps {
                match step {
                    Step::Begin(new) => {
                        turn += u64::from(new != version);
                        version = new;
                        recent.begin(new);
                    }
                    Step::Put(key, value) => {
                        recent.put(key, value);
                        map.insert(key, (value, turn));
                        prop_assert_eq!(recent.get(key), Some(value), "what was put in last is there");
                    }
                    Step::Forget(key) => {
                        recent.forget(key);
                        map.remove(&key);
                    }
                    Step::Clear => {
                        recent.clear();
                        map.clear();
                    }
                }
                for key in (0..40).map(|key| key * 0x1_0000_0001) {
                    let there = map.get(&key);
                    prop_assert!(recent.get_any_version(key).is_none_or(|value| there.is_some_and(|(v, _)| *v == value)));
                    prop_assert!(recent.get(key).is_none_or(|value| there == Some(&(value, turn))));
                }
            }
        }
    }

    #[test]
    fn nearly_all_of_a_thousand_keys_are_found_again() {
        let mut recent = VersionedCache::default();
        recent.begin(7);
        for _ in 0..2 {
            (0..1000).for_each(|key| recent.put(key, key as u32));
        }
        let found = (0..1000).filter(|key| recent.get(*key) == Some(*key as u32)).count();
        assert!(found > 980, "{found}");
    }
}
