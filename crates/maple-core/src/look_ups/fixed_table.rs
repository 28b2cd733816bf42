//! Tables that a policy brings with it and that never change, such as the groups of an access list.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustc_hash::FxHasher;
use serde::{Deserialize, Serialize};

use super::{CLASS_BITS, FEW_CLASS_BITS};
use crate::ids::Name;
use crate::state::Value;

/// A table whose keys are the values of one field, and that never changes. Clones share its rows. Tables with equal
/// names and rows are equal, whoever made them.
#[derive(Clone, Serialize, Deserialize)]
pub struct FixedTable(Arc<FixedRows>);

#[derive(PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct FixedRows {
    /// A hash of all else, by which most tables that differ are told apart. So it comes first.
    digest: u64,
    name: Name,
    /// The values, each once.
    values: Vec<Value>,
    /// The keys in ascending order, each with the index of its value.
    rows: Vec<(u128, u32)>,
}

impl FixedTable {
    /// Creates a table of these rows.
    pub fn new(name: impl Into<Name>, rows: impl IntoIterator<Item = (u128, Value)>) -> FixedTable {
        let (name, rows): (Name, BTreeMap<u128, Value>) = (name.into(), rows.into_iter().collect());
        let values: BTreeSet<&Value> = rows.values().collect();
        let numbers: BTreeMap<&Value, u32> = values.into_iter().zip(0..).collect();
        let numbered: Vec<(u128, u32)> = rows.iter().map(|(key, value)| (*key, numbers[value])).collect();
        let values: Vec<Value> = numbers.into_keys().cloned().collect();
        let mut hasher = FxHasher::default();
        (&name, &values, &numbered).hash(&mut hasher);
        FixedTable(Arc::new(FixedRows { digest: hasher.finish(), name, values, rows: numbered }))
    }

    /// Returns the name, for people.
    pub fn name(&self) -> &Name {
        &self.0.name
    }

    /// Returns the value at a key.
    pub fn get(&self, key: u128) -> Option<&Value> {
        let at = self.0.rows.binary_search_by_key(&key, |row| row.0).ok()?;
        self.0.values.get(self.0.rows[at].1 as usize)
    }

    /// Returns the rows, with ascending keys.
    pub fn rows(&self) -> impl Iterator<Item = (u128, &Value)> {
        self.0.rows.iter().filter_map(|(key, number)| Some((*key, self.0.values.get(*number as usize)?)))
    }

    /// Returns the number of bits that tell the values, and that there is none, apart, with room for as many others.
    pub(super) fn class_bits(&self) -> u8 {
        if 2 * self.0.values.len() < 1 << FEW_CLASS_BITS { FEW_CLASS_BITS } else { CLASS_BITS }
    }
}

impl PartialEq for FixedTable {
    fn eq(&self, other: &FixedTable) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Eq for FixedTable {}

impl Ord for FixedTable {
    fn cmp(&self, other: &FixedTable) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.0.cmp(&other.0) }
    }
}

impl PartialOrd for FixedTable {
    fn partial_cmp(&self, other: &FixedTable) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for FixedTable {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.digest.hash(state);
    }
}

impl fmt::Debug for FixedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with {} rows", self.0.name, self.0.rows.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_equal_by_what_they_hold() {
        let rows = |last: i64| [(1, Value::from(7)), (2, Value::from(8)), (9, Value::from(last))];
        let (a, b) = (FixedTable::new("a", rows(7)), FixedTable::new("a", rows(7)));
        assert_eq!((&a, a.cmp(&b)), (&b, Ordering::Equal));
        assert_eq!(postcard::from_bytes::<FixedTable>(&postcard::to_stdvec(&a).unwrap()).unwrap(), a);
        for other in [FixedTable::new("a", rows(8)), FixedTable::new("b", rows(7)), FixedTable::new("a", [])] {
            assert_ne!(a, other);
            assert_ne!(a.cmp(&other), Ordering::Equal);
        }
        assert_eq!(
            [1, 2, 3, 9].map(|key| a.get(key).cloned()),
            [Some(7), Some(8), None, Some(7)].map(|n| n.map(Value::from))
        );
    }

    #[test]
    fn few_classes_take_few_bits() {
        let bits = |values: i64| FixedTable::new("a", (0..values).map(|n| (n as u128, Value::from(n)))).class_bits();
        assert_eq!([0, 1, 127, 128, 65_535].map(bits), [8, 8, 8, 16, 16]);
    }
}
