//! What the fuzz targets call: the entry points that the tests of `maple-wire` call too.

#[path = "../crates/maple-wire/tests/support/entry.rs"]
pub mod entry;
