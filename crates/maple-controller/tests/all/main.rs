//! The controller behind real sockets: with switches that are written down message by message, with emulated networks,
//! and with Open vSwitch.
//!
//! All tests share a process, and some run at the same time. Tests that count what the whole process has are in
//! `tests/alone`.

#![allow(clippy::duplicate_mod, reason = "the tests of `over_tls` are those of other modules")]

#[allow(dead_code, reason = "the tests of maple-switch have this file too")]
#[path = "../../../maple-switch/tests/open_vswitch/bridge.rs"]
mod bridge;
#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code, reason = "the tests of maple-etcd have this file too")]
#[path = "../../../maple-etcd/tests/all/server.rs"]
mod server;
#[path = "../../../../tests/skip.rs"]
mod skip;

mod cbench;
mod cluster;
mod control;
mod fuzzed;
mod handlers;
mod handshake;
mod hostile;
mod http;
mod listening;
mod metrics;
mod migration;
mod network;
mod over_tls;
mod ovs;
mod persistence;
mod record;
mod snooping;
mod standbys;
mod state;
mod stress;
mod takeover;
mod tls;
