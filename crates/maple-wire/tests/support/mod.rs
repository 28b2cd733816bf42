//! Shared modules of the integration tests.

pub mod entry;
pub mod generate;
