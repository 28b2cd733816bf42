//! Bytes in, fields out.

mod frames;
mod open_vswitch;
mod properties;
mod rewriting;
#[path = "../../../../../tests/skip.rs"]
mod skip;
mod vectors;
