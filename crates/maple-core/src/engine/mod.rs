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
//!      └─ packet_in ─┬─ edge port ─ hosts (learn, check) ─ find_leaf ─┬─ leaf ── send ─► packet-out
//!                    │                                             └─ miss
//!                    │                                                 │
//!                    │                       decide (run f, commit) ─ add_leaf ─ join_route
//!                    │                                                 │
//!                    │                            routes ─ labels ⇄ mail to other shards
//!                    ├─ link port ── link_port (what the label says) ──────────────► packet-out
//!                    └─ new port ─── new_port (wait until discovery knows the kind)
//!
//!  switch, port, link ─ topology ─► store ─► leaves that depend on it ─ reconsider (run f again)
//!                                      └───► routes that follow a plan ─ route_news
//!
//!  end of batch ─ flush ─ tables (compare, order) ─► flow-mods, barrier ─► held packets
//! ```
//!
//! # Where to find what
//!
//! `dispatch` is [`Engine`] and where to begin: from top to bottom it is the way of a packet. What it hands events to
//! are parts, in layers, each in a folder that has its methods. A part is handed those below it, and cannot reach those
//! above. A file of a folder has one concern of the part. From the bottom:
//!
//! | folder | its concerns, in reading order |
//! | --- | --- |
//! | `context` | what comes in and goes out (`event`, `messages` between shards, `trial`, `watched`), `received_packet`, `options`, `timers`, `commit`, `uses` of the store, `reports`, `cause` of drops, `stats`, `histogram`, `access_hits`; `backoff` and `versioned_cache`, which several parts have |
//! | `one_switch` | one switch: `ingress/`, `paths/`, `ports/`, `room/` for rules, `counters/`, `tables/`, each with what it consists of; its rules: `layout` of the tables, `classifier`, `look_ups`, `update`, `pacing`, `cookies`; `restoring`; `view` |
//! | `switches` | those of the shard: `packet_out`, `pace`, tables that are `reread`, `audit`, those that are `away`; counts: `measure`, `traffic`, `count_rule`, `count_drops` |
//! | `fabric` | `routes/`, `route_use`, `route_meters`, `room_for_leaves`, `give_labels`, switches that are `unreachable` |
//! | `topology` | `packet_in`, `admission`, `new_port`, `link_port`, `hosts/`, `host_actions`, `find_moved`, `segments/`, `declare`, `presume` |
//! | `decisions` | `hit/` (the fast path), `decide`, `runs`, `undecided`, `add_leaf`, `join_route`, `leaf`, `leaves`, `leaf_route`, `install`, `send`; changes: `invalidate`, `reconsider`, `recheck`, `reroute`, `route_news`, `look_ups`; switches: `flush`, `confirm`, `await_barriers`, `refused_rules/`, `eviction`; counts: `count_reports`; for people: `leaf_view`, `rule_view` |
//! | `reruns` | `samples` beforehand, `reload` with `comparison` and `differences`, `restore` |
//! | `live` | people watch packets |
//! | `dispatch` | the engine, and copies of it |
//! | `explain`, `rehearsal`, `testing` | what is built on whole engines |

// Layers, the lowest first.
mod context;

mod one_switch;

mod switches;

mod fabric;

mod topology;

mod decisions;

mod reruns;

mod live;

mod dispatch;

mod explain;
mod rehearsal;
#[doc(hidden)]
pub mod testing;

pub use crate::report::Counted;
pub use crate::state::Selection;
pub use context::cause::{DropCause, Origin};
pub use context::event::{Effect, Event, InstalledFlow, ListenerPacket, RuleCount};
pub use context::histogram::Histogram;
pub use context::messages::Mail;
pub use context::options::Options;
pub use context::reports::ViolationKey;
pub use context::stats::Stats;
pub use context::trial::{Candidate, DecidedPacket, DecisionSummary, Difference, DifferenceKind, Trial};
pub use context::uses::{BadUses, Conductor, Due};
pub use context::watched::{LiveAnswer, LiveFilter, LiveNews, LiveObstacle};
pub use decisions::await_barriers::{BARRIER_ROUNDS, Unsettled};
pub use decisions::hit::{AnsweredHits, Hits, MAX_HITS};
pub use decisions::rule_view::TableRule;
pub use dispatch::Engine;
pub use dispatch::copy::EngineCopy;
pub use explain::Engines;
pub use live::{COPIES_A_SECOND, MAX_WATCHES};
pub use one_switch::classifier::{PROBE_MAC, is_the_controllers};
pub use one_switch::cookies::OWN_COOKIES;
pub use one_switch::counters::drops::{Dropped, KEPT_MINUTES};
pub use one_switch::view::SwitchCounts;
pub use rehearsal::{Rehearsal, Rehearsed, RuleDifference};
pub use reruns::comparison::Comparison;
pub use switches::traffic::{PortCount, Traffic};

pub use crate::ids::{ShardId, Time};
pub use crate::labels::{LabelRange, LabelRangeError};
