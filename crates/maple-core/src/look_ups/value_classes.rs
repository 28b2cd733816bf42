//! The classes of the values that one component of a look-up has had: each equal value has a number.
//!
//! A number means one value for as long as a leaf, a key or a rule has it. When no number is left, those that nothing
//! has any more become free ([`Classes::free_others`]). That is done only when the switch has confirmed everything, so
//! no rule there has a free number: this is the quarantine of classes. Packets need no longer one, since the metadata
//! of a packet ends with its way through one switch.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::state::Value;

/// The divisor of the share of numbers that must become free: if fewer than one in this many do, the values do not fit.
/// Chosen: freeing looks at all leaves and keys, so it must not be needed again soon.
const MIN_FREE: usize = 16;

/// The numbers of classes, from 1 on. 0 is the class of keys that the table lacks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Classes {
    numbers: BTreeMap<Value, u64>,
    values: BTreeMap<u64, Value>,
    /// The numbers below the last one in use that no class has.
    free: BTreeSet<u64>,
    /// Whether a value had no class since numbers were last freed.
    is_exhausted: bool,
}

impl Classes {
    /// Returns the number of a value's class, a new one if it has none. `None`: there are too many classes.
    pub fn number(&mut self, value: &Value, max_classes: u16) -> Option<u64> {
        if let Some(number) = self.numbers.get(value) {
            return Some(*number);
        }
        let next = self.last() + 1;
        let number = self.free.first().copied().or_else(|| (next <= u64::from(max_classes)).then_some(next));
        let Some(number) = number else {
            self.is_exhausted = true;
            return None;
        };
        self.free.remove(&number);
        self.numbers.insert(value.clone(), number);
        self.values.insert(number, value.clone());
        Some(number)
    }

    /// Returns the value of a class.
    pub fn value(&self, number: u64) -> Option<&Value> {
        self.values.get(&number)
    }

    /// Returns the highest number that a class has; 0 if there is none.
    pub fn last(&self) -> u64 {
        self.values.last_key_value().map_or(0, |(number, _)| *number)
    }

    /// Reports whether a value had no class since numbers were last freed.
    pub fn are_exhausted(&self) -> bool {
        self.is_exhausted
    }

    /// Frees the numbers that are not among these, if a value had no class. Returns whether there is room for more
    /// values.
    pub fn free_others(&mut self, in_use: &BTreeSet<u64>, max_classes: u16) -> bool {
        if !std::mem::take(&mut self.is_exhausted) {
            return true;
        }
        self.values.retain(|number, _| in_use.contains(number));
        self.numbers.retain(|_, number| in_use.contains(number));
        self.free = (1..self.last()).filter(|number| !self.values.contains_key(number)).collect();
        let max_classes = usize::from(max_classes);
        max_classes.saturating_sub(self.values.len()) >= (max_classes / MIN_FREE).max(1)
    }
}

impl Serialize for Classes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.numbers.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Classes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Classes, D::Error> {
        let numbers = BTreeMap::<Value, u64>::deserialize(from)?;
        let values: BTreeMap<u64, Value> = numbers.iter().map(|(value, number)| (*number, value.clone())).collect();
        if values.len() != numbers.len() || values.contains_key(&0) {
            return Err(D::Error::custom("a class has the number of another one"));
        }
        let mut classes = Classes { numbers, values, ..Classes::default() };
        classes.free =
            (1..classes.last().min(u64::from(u16::MAX))).filter(|n| !classes.values.contains_key(n)).collect();
        Ok(classes)
    }
}
