//! Handlers: programs for one switch, that use OpenFlow directly, and those that come with Maple:
//! `builtin:learning-switch` and `builtin:hub`.
//!
//! [`Handlers`] joins handlers to a controller: it is the [`ProgramFactory`](maple_controller::program::ProgramFactory)
//! whose programs call a [`Handler`] for each switch. `serve` is their fast path, `balance` decides which switches
//! migrate from a shard with too much work, and `handler` and `replies` are what handlers see.
//!
//! The learning switch is the program that controller frameworks are compared by, so it is made for speed: it has a
//! hash table and an encoder of its own.
//!
//! * [`LearningSwitch`]: an exact-match learning switch, in [`learning`].
//! * [`Hub`]: sends every packet out of all other ports.
//!
//! From the bottom up: `cache_lines` hands out memory, `mac_table` is the hash table in it, `hub` and `exact_match`
//! encode messages, `learning` joins them.

#![warn(missing_debug_implementations)]

mod balance;
mod cache_lines;
mod exact_match;
mod handler;
mod hub;
pub mod learning;
mod mac_table;
mod replies;
mod serve;

#[cfg(test)]
mod testing;

pub use handler::{BATCH, Handler, HandlerFactory, install_table_miss};
pub use hub::Hub;
pub use learning::LearningSwitch;
pub use maple_controller::program::ErrorReporter;
pub use replies::{MessageCounts, Replies};
pub use serve::Handlers;
