//! The keys and values of one table.
//!
//! Keys are found by hash, in a persistent trie. A clone is a pointer copy. A change copies the few nodes on the way to
//! the key that another clone shares; the others are changed in place. Hosts of the network choose many of the keys
//! (addresses), so the hash is keyed, with a new key in each process. Iteration is in the order of keys, as nothing
//! that users see may depend on a hash; that costs a sort.

use std::fmt;

use foldhash::quality::RandomState;
use imbl::GenericHashMap;
use imbl::shared_ptr::DefaultSharedPtr;

use super::Value;
use super::recent_keys::RecentKeys;

/// The keys and values of one table. Cloning it is a few pointer copies.
#[derive(Clone)]
pub struct Rows {
    rows: GenericHashMap<Value, Value, RandomState, DefaultSharedPtr>,
    /// The version of the snapshot in which it was last written, or an earlier one since which nothing differs;
    /// `u64::MAX` in a transaction that wrote to it.
    changed: u64,
    recent: RecentKeys<Value>,
}

impl Default for Rows {
    fn default() -> Rows {
        Rows::from_version(0)
    }
}

impl Rows {
    /// Creates a table without keys. Its first key is written in the snapshot of this version.
    pub(super) fn from_version(version: u64) -> Rows {
        Rows { rows: GenericHashMap::default(), changed: 0, recent: RecentKeys::from_version(version) }
    }

    /// Returns the value at `key`.
    pub fn get(&self, key: &Value) -> Option<&Value> {
        self.rows.get(key)
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Reports whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns all keys and values, by key.
    pub fn iter(&self) -> std::vec::IntoIter<(&Value, &Value)> {
        let mut all: Vec<(&Value, &Value)> = self.rows.iter().collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        all.into_iter()
    }

    /// Returns the keys in order.
    pub fn keys(&self) -> impl Iterator<Item = &Value> {
        self.iter().map(|(key, _)| key)
    }

    /// Reports whether nothing was written since `earlier`, the rows of an earlier snapshot of the same store.
    pub(super) fn is_unchanged_since(&self, earlier: &Rows) -> bool {
        self.changed == earlier.changed
    }

    /// Returns the keys that were written since the snapshot of a version; a key may occur twice. `None` if that is not
    /// known, because there were too many.
    pub(crate) fn written_since(&self, version: u64) -> Option<impl Iterator<Item = &Value>> {
        self.recent.after(version)
    }

    /// Returns the least key.
    pub fn first_key(&self) -> Option<&Value> {
        self.rows.keys().min()
    }

    /// Puts a value at `key`, or removes it, in the snapshot of this version.
    pub(super) fn put(&mut self, key: &Value, value: Option<Value>, version: u64) {
        self.changed = version;
        self.recent.note(key, version);
        match value {
            Some(value) => match self.rows.get_mut(key) {
                Some(there) => *there = value,
                None => drop(self.rows.insert(key.clone(), value)),
            },
            None => drop(self.rows.remove(key)),
        }
    }

    /// Reports whether nothing was written to it since the snapshot of this version.
    pub(super) fn is_as_in(&self, version: u64) -> bool {
        self.changed <= version
    }
}

impl<'a> IntoIterator for &'a Rows {
    type Item = (&'a Value, &'a Value);
    type IntoIter = std::vec::IntoIter<(&'a Value, &'a Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Tables are equal if their contents are, whenever these were written.
impl PartialEq for Rows {
    fn eq(&self, other: &Rows) -> bool {
        let same = || self.rows.iter().all(|(key, value)| other.get(key) == Some(value));
        self.rows.ptr_eq(&other.rows) || (self.len() == other.len() && same())
    }
}

impl Eq for Rows {}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}
