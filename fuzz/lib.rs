//! What the fuzz targets call: the entry points that the tests of `maple-wire` and `maple-controller` call too.

#[path = "../crates/maple-wire/tests/support/entry.rs"]
pub mod entry;

#[path = "../crates/maple-controller/tests/support/entry.rs"]
pub mod controller;
