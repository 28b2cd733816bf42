//! What was found out lately: numbers by numbers, one cache line a look-up.
//!
//! An entry holds a key, a value and the *stamp* of the version of the state under which it was put in. Four share a line of
//! 64 bytes, and a key has one line where it may be, so a look-up touches that line and nothing else. A full line gives up
//! its first entry, and the table doubles before a quarter of it is in use, up to [`MOST_LINES`]. So a key that was put in
//! may be missing: it is a cache, and costs whoever asks the time to find out again. What it does give was put in for this
//! key, and not forgotten since.
//!
//! The place of a key is known to whoever knows the key. One who crowds a line slows down what is in it, and nothing else.

use maple_prefetch::prefetch;

/// Entries of a line.
const WAYS: usize = 4;
/// Most lines: 8 MiB.
const MOST_LINES: usize = 1 << 17;

/// The table.
#[derive(Debug, Default)]
pub(super) struct VersionedCache {
    /// A power of two of them, or none.
    lines: Vec<Line>,
    /// How many entries came into free places.
    used: usize,
    version: u64,
    /// That of the version.
    stamp: u32,
}

#[derive(Clone, Debug, Default)]
#[repr(align(64))]
struct Line([Entry; WAYS]);

/// An entry; with the stamp 0 a free place.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    key: u64,
    value: u32,
    stamp: u32,
}

impl VersionedCache {
    /// What is put in and asked for from now on is of this version of the state.
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

    /// Has the key's line on its way. What is asked of this key next finds it near.
    #[inline]
    pub fn prefetch(&self, key: u64) {
        self.lines.get(self.place(key)).into_iter().for_each(prefetch);
    }

    /// What was put in under this version.
    #[inline]
    pub fn get(&self, key: u64) -> Option<u32> {
        let line = self.lines.get(self.place(key))?;
        line.0.iter().find(|entry| entry.key == key && entry.stamp == self.stamp).map(|entry| entry.value)
    }

    /// What was put in under any version.
    pub fn earlier(&self, key: u64) -> Option<u32> {
        let line = self.lines.get(self.place(key))?;
        line.0.iter().find(|entry| entry.key == key && entry.stamp != 0).map(|entry| entry.value)
    }

    /// Puts a value in under this version, in place of what there was. [`VersionedCache::begin`] must have been called.
    pub fn put(&mut self, key: u64, value: u32) {
        if self.used * 4 >= self.lines.len() * WAYS && self.lines.len() < MOST_LINES {
            self.grow();
        }
        self.insert(Entry { key, value, stamp: self.stamp });
    }

    /// Whatever was put in for a key is gone.
    pub fn forget(&mut self, key: u64) {
        let place = self.place(key);
        let Some(line) = self.lines.get_mut(place) else { return };
        line.0.iter_mut().filter(|entry| entry.key == key).for_each(|entry| *entry = Entry::default());
    }

    /// All is gone.
    pub fn clear(&mut self) {
        self.lines.clear();
        self.used = 0;
    }

    fn place(&self, key: u64) -> usize {
        let mixed = (key ^ key >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 40) as usize & self.lines.len().wrapping_sub(1)
    }

    fn insert(&mut self, new: Entry) {
        let place = self.place(new.key);
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
        fn what_is_found_is_what_a_map_has(steps in steps()) {
            // An earlier version that comes again is another one to the table.
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
                    prop_assert!(recent.earlier(key).is_none_or(|value| there.is_some_and(|(v, _)| *v == value)));
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
