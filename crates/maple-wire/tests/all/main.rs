//! Messages as bytes and as text: written and read again, damaged, and as Open vSwitch has them.

#[path = "../../../../tests/skip.rs"]
mod skip;
#[path = "../support/mod.rs"]
mod support;

mod corpus;
mod open_vswitch;
mod print;
mod robustness;
mod roundtrip;
