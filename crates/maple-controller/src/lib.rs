//! Sockets, shards, sessions, discovery: the only owner of I/O.
//!
//! ```text
//!  switches          shard 0 .. N-1 (one pinned thread each)              people
//! ─────────   ───────────────────────────────────────────────────   ───────────────────
//!  TCP ─────► listener (shard 0) ─► least loaded shard
//!  TCP ◄────► session ─► engine ─► session         ◄── mailbox ───► Handle, control socket
//!                 └► discovery        └─ mail ─► other shards        notices, log
//! ```
//!
//! * [`session`]: one connection as a state machine without I/O.
//! * [`discovery`]: links and edge ports by LLDP, likewise.
//! * [`handler`]: programs of one switch, beside policies, which hear and say OpenFlow itself.
//! * [`listen`]: what happens in the network, for programs beside a policy.
//! * [`snoop`]: who belongs to multicast groups and who leased which address, by what hosts say.
//! * `shard`: the event loops, which own every socket.
//! * [`control`]: questions from outside: [`Handle`] in the process, a Unix socket for other programs.
//!
//! [`Controller::start`] puts them together.

mod time;

pub mod framing;
pub mod session;

pub mod discovery;

pub mod handler;
pub mod listen;
pub mod snoop;

mod shard;

pub mod control;
pub mod counters;
pub mod notice;

mod controller;
mod keeper;
mod printable;
mod random;

pub use control::{Handle, Trouble};
pub use controller::{Controller, ControllerOptions, StartError, Stopped};
pub use counters::Counters;
pub use handler::{Handler, HandlerFactory, Replies};
pub use keeper::KeepError;
pub use notice::Notice;
pub use session::{CloseReason, Deadlines};
pub use shard::QueueLimits;
#[cfg(feature = "simulation")]
pub use shard::simulation;
