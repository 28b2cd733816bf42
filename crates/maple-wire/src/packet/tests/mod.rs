//! Bytes in, fields out.

mod frames;
mod open_vswitch;
mod properties;
mod rewriting;
mod vectors;
