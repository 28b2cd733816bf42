//! A bound on how deeply values lie within values that are read, so that damaged bytes can't exhaust the stack.

use std::cell::Cell;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// The maximum nesting of values within values. Chosen: serde_json's own limit, so what one of the two reads, the other
/// reads too.
const MAX_DEPTH: usize = 128;

thread_local! {
    /// The number of values around the one that is being read.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Reads what is within a value.
pub(super) fn nested<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    let depth = DEPTH.get();
    if depth == MAX_DEPTH {
        return Err(D::Error::custom("values are nested too deeply"));
    }
    DEPTH.set(depth + 1);
    let read = T::deserialize(from);
    DEPTH.set(depth);
    read
}
