//! A shard: one thread, pinned to one core, with its own poll, connections, discovery and engine.
//!
//! ```text
//!             ┌──────────────────────────── one turn ────────────────────────────┐
//!   sockets ──► read: one read a socket ─► frames ─► sessions ─► events ──┐      │
//!   mailbox ──► messages of other shards ─────────────────────────────────┤      │
//!   timers  ──► sessions, discovery ──────────────────────────────────────┤      │
//!             │                                     engine.handle(batch) ◄┘      │
//!             │  outboxes ◄── OpenFlow messages ◄── effects ◄─┘ └─► messages     │
//!   sockets ◄── one write a socket                               outgoing ──► other shards
//!             └──────────────────────────────────────────────────────────────────┘
//! ```
//!
//! [`Shard`] (`event_loop.rs`) takes these steps, and passes on what its parts want of each other. A reader begins
//! there.
//!
//! A turn takes what is there and no more, so batches grow with the load and shrink to one when idle. Each turn reads a
//! socket once, a bounded number of bytes, so a switch that floods cannot starve the others. While a policy is slow,
//! the engine gets fewer packets a turn and the rest wait; other messages do not wait. [`QueueLimits`] bounds the
//! output that waits for a switch. At the first limit the shard stops reading that switch; at the second it disconnects
//! the switch. While another shard's mailbox is full, this shard reads no sockets.
//!
//! Memory: a connection between messages holds no read buffer, and one with nothing to send holds no write buffer. This
//! module allocates nothing per message. Decoding an event into its owned form allocates, because the engine keeps
//! frames.
//!
//! A [`Program`](crate::program::Program) may serve switches instead of the policy: it gets the bytes of each read, and
//! appends its answers to the outbox.
//!
//! Only the shard's own thread uses it. Others send to its [`mailbox::Mailbox`]. The [`registry::Registry`] is shared,
//! and locked when switches connect, migrate and disconnect.
//!
//! Modules are listed from the bottom layer up; each calls only modules listed before it.

mod sync;

pub(crate) mod registry;

#[cfg(feature = "simulation")]
pub(crate) mod memory_socket;
mod tls_socket;

mod connection_socket;

mod outbox;

mod message_dispatch;

mod connection;
mod listeners;
mod slots;

mod due_connections;
pub(crate) mod mailbox;

mod context;

mod release_sockets;

mod io;

mod to_switch;

mod links;

mod away;

mod switches;

mod backlog;

mod turn;

mod shard_metrics;

mod answer_queries;

mod shard_end;
mod shard_parts;

mod event_loop;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use away::FORGET_SWITCH_AFTER;
pub(crate) use context::Context;
pub(crate) use event_loop::Shard;
pub(crate) use io::IoParts;
pub(crate) use listeners::{ListeningSocket, WAKER};
pub use outbox::QueueLimits;
pub(crate) use shard_parts::ShardParts;
