//! Tests of other modules, with switches that speak TLS.

#[path = "../common/mod.rs"]
mod common;

#[path = "handshake.rs"]
mod handshake;
#[path = "hostile.rs"]
mod hostile;
