//! The client with real etcd servers, and with servers that fail in the middle of an answer.
//!
//! Debian has etcd in `etcd-server` and its tool in `etcd-client`; `MAPLE_ETCD` names another server. Where there is
//! none, the tests say so and are skipped; in CI they fail.

mod authority;
mod broken;
mod members;
mod server;
#[path = "../../../../tests/skip.rs"]
mod skip;
mod store;
mod watches;
mod who;
