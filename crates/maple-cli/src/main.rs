//! The Rust-only `maple` command.
fn main() {}
