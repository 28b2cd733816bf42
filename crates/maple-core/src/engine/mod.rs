//! The engine: the deterministic state machine of one shard.
//!
//! An [`Engine`] takes a batch of [`Event`]s and the time, and gives [`Effect`]s. It does no I/O, reads no clock and
//! starts no thread. Several engines over one [`Store`](crate::state::Store) make a controller, each in a thread of its
//! own or all in one test loop. They share only the store. An engine that needs something done at another shard's
//! switch sends a [`Mail`].
//!
//! ```text
//!  packet-in ── hit: a leaf in use answers, and nothing else changes ──────────────► packet-out
//!      │
//!      └─ packet_in ─┬─ edge port ─ hosts (learn, check) ─ lookup ─┬─ leaf ── send ─► packet-out
//!                    │                                             └─ miss
//!                    │                                                 │
//!                    │                       decide (run f, commit) ─ add_leaf ─ install
//!                    │                                                 │
//!                    │                            routes ─ labels ⇄ mail to other shards
//!                    ├─ link port ── link_port (what the label says) ──────────────► packet-out
//!                    └─ new port ─── new_port (wait until discovery knows the kind)
//!
//!  switch, port, link ─ topology ─► store ─► leaves that depend on it ─ reconsider (run f again)
//!                                      └───► routes that follow a plan ─ route_changes
//!
//!  end of batch ─ flush ─ tables (compare, order) ─► flow-mods, barrier ─► held packets
//! ```
//!
//! # Where to find what
//!
//! `dispatch` has the methods of [`Engine`], and is where to begin: from top to bottom it is the way of a packet. What
//! it hands events to are parts, in layers: a part is handed those below it, and cannot reach those above. A file has
//! the methods of one concern, of the part that the concern needs. In reading order:
//!
//! | concern | files |
//! | --- | --- |
//! | in and out | `dispatch`, `event`, `context` (the lowest part), `messages` between shards, `options`, `stats`, `histogram`, `timers`, `uses` of the store |
//! | packets | `packet_in`, `received_packet`, `hit` (the fast path), `new_port`, `link_port`, `send`, `live` (people watch) |
//! | decisions | `decisions` (the part), `decide`, `waiting`, `leaf`, `leaves`, `add_leaf`, `reconsider`, `reload`, `restore`, `differences`, `comparison`, `rehearsal`, `invalidate`, `recheck` |
//! | routes and labels | `install`, `routes/`, `route_use`, `labels`, `reroute`, `route_changes`, `meters` |
//! | topology and hosts | `topology` (the part), `unreachable`, `segments`, `declare`, `hosts/`, `host_actions`, `flaps`, `host_rules/` |
//! | tables | `fabric` (the part), `switches`, `switch` with its parts (`ingress`, `paths`, `ports`, `room`, `counters`), `tables/`, `flush`, `classifier`, `refusals`, `backoff`, `capacity`, `eviction`, `await_barriers` |
//! | counters and views | `questions`, `polls`, `rule_counts`, `measure`, `traffic`, `drops/`, `dropped`, `count_reports`, `rule_growth`, `access_hits`, `view`, `explain`, `reports` |

// In and out: events, effects, options, counts, timers.
mod context;
mod dispatch;
mod event;
mod fabric;
mod histogram;
mod messages;
mod options;
mod stats;
mod timers;
mod uses;

// Packets: from a packet-in to its answer.
mod cache;
mod hit;
mod link_port;
mod live;
mod new_port;
mod packet_in;
mod received_packet;
mod send;

// Decisions: f runs, and its answers become leaves.
mod add_leaf;
mod comparison;
mod decide;
mod decisions;
mod differences;
mod disjoint;
mod invalidate;
mod leaf;
mod leaves;
mod proactive;
mod recheck;
mod reconsider;
mod rehearsal;
mod reload;
mod restore;
mod waiting;

// Routes and labels: how the packets of a leaf cross the network.
mod install;
mod labels;
mod meters;
mod reroute;
mod route_changes;
mod route_rules;
mod route_use;
mod routes;

// Topology and hosts: events become tracked state.
mod declare;
mod flaps;
mod host_actions;
mod host_rules;
mod hosts;
mod segments;
mod topology;
mod unreachable;

// Tables: what each switch has, and what it is to have.
mod audit;
mod await_barriers;
mod backoff;
mod capacity;
mod classifier;
mod cookies;
mod counters;
mod eviction;
mod flush;
mod ingress;
mod pacing;
mod paths;
mod ports;
mod refusals;
mod room;
mod switch;
mod switches;
mod tables;

// Counters, and views for people.
mod access_hits;
mod count_reports;
mod dropped;
mod drops;
mod explain;
mod measure;
mod polls;
mod questions;
mod reports;
mod rule_counts;
mod rule_growth;
mod traffic;
mod view;

pub use crate::report::Counted;
pub use crate::state::Selection;
pub use await_barriers::{BARRIER_ROUNDS, Unsettled};
pub use classifier::is_the_controllers;
pub use comparison::Comparison;
pub use cookies::OWN_COOKIES;
pub use differences::{DecidedPacket, Decision, Difference, DifferenceKind};
pub use drops::{DropCause, Dropped, KEPT_MINUTES, Origin};
pub use event::{Effect, Event, InstalledFlow, ListenerPacket};
pub use explain::Engines;
pub use histogram::Histogram;
pub use hit::{Answered, Hits, MAX_HITS};
pub use hosts::PROBE_MAC;
pub use live::{COPIES_A_SECOND, LiveAnswer, LiveFilter, LiveNews, LiveObstacle, MAX_WATCHES};
pub use messages::Mail;
pub use options::Options;
pub use polls::RuleCount;
pub use rehearsal::{EngineCopy, Rehearsal, Rehearsed, RuleDifference};
pub use reload::{Candidate, Trial};
pub use reports::ViolationKey;
pub use stats::Stats;
pub use traffic::{PortCount, Traffic};
pub use uses::{BadUses, Conductor, Due};
pub use view::{SwitchCounts, TableRule};

pub use crate::ids::{ShardId, Time};
pub use crate::labels::{LabelRange, LabelRangeError};

use decisions::Decisions;
use fabric::Fabric;
use live::LiveWatches;
use proactive::Samples;
use reload::Reload;
use restore::Restore;
use topology::Topology;

/// One shard of the controller.
///
/// ```
/// use std::sync::Arc;
///
/// use maple_core::engine::{Engine, Event, Options, ShardId, Time};
/// use maple_core::{Net, PacketHandle, Route, Store};
///
/// let policy = |_: &PacketHandle, _: &Net| Route::flood();
/// let mut engine = Engine::new(ShardId(0), Store::new(), Arc::new(policy), Options::default());
/// let (mut events, mut effects) = (vec![Event::Tick], Vec::new());
/// engine.handle(Time(1), &mut events, &mut effects);
/// assert!(events.is_empty() && effects.is_empty());
/// ```
pub struct Engine {
    fabric: Fabric,
    topology: Topology,
    decisions: Decisions,
    /// Packets that the policy decides beforehand.
    samples: Samples,
    reload: Reload,
    restore: Restore,
    live: LiveWatches,
}
