//! Tests from bytes to fields.

mod frames;
mod open_vswitch;
mod properties;
mod rewriting;
#[path = "../../../../../tests/skip.rs"]
mod skip;
mod vectors;
