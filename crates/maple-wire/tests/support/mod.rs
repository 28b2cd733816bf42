//! Shared modules of the integration tests.

#![allow(dead_code)]

pub mod entry;
pub mod generate;
