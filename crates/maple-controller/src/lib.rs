//! The controller: sockets, shards, sessions and discovery.
//!
//! ```text
//!  switches          shard 0 .. N-1 (one pinned thread each)              people
//! ─────────   ───────────────────────────────────────────────────   ───────────────────
//!  TCP ─────► shard 0 accepts ─► least loaded shard
//!  TCP ◄────► session ─► engine ─► session         ◄── mailbox ───► Handle, control socket
//!                 └► discovery        └─ messages ─► other shards    notices, log
//! ```
//!
//! * [`kept_files`]: the files that Maple keeps, and which of them fail.
//! * [`tls`]: certificates, and which of them may be which switch.
//! * [`session`]: one connection, as a state machine without I/O.
//! * [`discovery`]: finds links and edge ports by LLDP, as a state machine without I/O.
//! * [`program`]: the hook for programs that serve switches in place of a policy.
//! * [`listener`]: events of the network, for programs besides a policy.
//! * [`snoop`]: learns multicast groups and DHCP leases, as a state machine without I/O.
//! * `memory`: the state file, take-over, recordings and their replays: what outlives this process.
//! * `shard`: the event loops, which own all sockets.
//! * [`control`]: queries and commands: [`Handle`] in the process, a Unix socket for other processes.
//! * [`metrics`]: all counts, for Prometheus.
//! * [`cluster`]: a controller that is one of several, elected with etcd.
//!
//! [`Controller::start`] joins them. Modules are listed from the bottom layer up; each imports only modules listed
//! before it.

#![warn(missing_debug_implementations)]
#![warn(clippy::match_bool)]

mod endpoint;
pub mod file_limit;
mod fingerprint;
pub mod policy_record;
mod printable;
pub mod priority;
mod random;
mod time;

pub mod log;
pub mod names;

pub mod kept_files;

mod counters;
pub mod framing;
mod gauge;
pub mod status;

pub mod tls;

pub mod discovery;
pub mod listener;
pub mod session;
pub mod snoop;

pub mod notice;

pub mod program;

mod storage;

mod shard;

#[cfg(feature = "simulation")]
pub mod simulation;

pub mod control;

pub mod metrics;

mod controller;

pub mod cluster;

pub use control::{Handle, LateShard, Operations, ReportedError, RoleError, ShardDeadlines, Stopped};
pub use controller::{
    BACKLOG, ControlOptions, Controller, ControllerOptions, MemoryOptions, OpenFlowOptions, StartError, WorkerOptions,
    check_versions,
};
pub use counters::Counters;
pub use endpoint::{Endpoint, HandedListener};
pub use gauge::Gauge;
pub use notice::Notice;
pub use session::{CloseReason, ClusterRole, Deadlines, OPENFLOW_PORT, RoleNews};
pub use shard::{FORGET_SWITCH_AFTER, QueueLimits};
pub use storage::{PersistenceError, history, last_policy, offline, record, replay, takeover};
pub use time::{after, timestamp, until};
