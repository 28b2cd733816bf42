//! Maple's engine: packet → policy → trace → tree → rules → ordered changes.
//!
//! Nothing here does I/O, reads a clock or starts a thread: equal events give equal rules.

#![warn(missing_debug_implementations)]
#![warn(clippy::match_bool, clippy::unused_self)]

mod tuple_space;

pub mod trace;

pub mod tree;

pub mod capabilities;
pub mod ids;
pub mod rule;

pub mod update;

pub mod compile;

pub mod state;

pub mod network;
pub mod route_plan;

pub mod look_ups;

pub mod access;
pub mod compose;
pub mod guard;
pub mod policy;
pub mod policy_error;
pub mod route;
pub mod run;

pub mod query;

mod measured_load;
mod sample_packet;
pub mod snooping;

mod forwarding;
mod labels;

pub mod memory;

pub mod check;
pub mod explain;

pub mod engine;
pub mod report;

pub use capabilities::Capabilities;
pub use compile::{LeafAction, RuleTable, TableBackend, TableTarget, Tuning};
pub use compose::{Composed, Composition};
pub use engine::{Effect, Engine, Event, LOOK_UP_TABLES, Mail, Options};
pub use ids::{DependentId, LeafId, ShardId, Time};
pub use network::{Hop, Location, Mac};
pub use policy::Policy;
pub use policy_error::PolicyError;
pub use report::Report;
pub use route::Route;
pub use rule::Rule;
pub use run::{Net, Observe, PacketHandle, Run};
pub use state::{Snapshot, Store, Txn, Value};
pub use trace::{Cond, Fields, Item, Range, Recorder, Source, Trace};
pub use tree::{Augmented, Replay, Replayed, Tree};
pub use update::{Change, changes};
