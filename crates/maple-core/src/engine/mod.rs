//! The engine: the deterministic state machine of one shard.
//!
//! An [`Engine`] takes a batch of [`Event`]s and the time, and gives [`Effect`]s. It does no I/O, reads no clock and
//! starts no thread. Several engines over one [`Store`](crate::state::Store) make a controller, each in a thread of its
//! own or all in one test loop. They share only the store. An engine that needs something done at another shard's
//! switch sends a [`Mail`].
//!
//! ARCHITECTURE.md follows a packet ("A packet's way") and says what each folder here owns. `dispatch` is where to
//! begin: [`Engine`], from top to bottom the way of a packet. What it hands events to are parts, each a folder with
//! the methods of its struct. A file there has one concern of the part, which its first line states.

// Layers, the lowest first.
mod tools;

mod messages;

mod context;

mod one_switch;

mod switches;

mod fabric;

mod topology;

mod decisions;

mod beforehand;

mod reruns;

mod live;

mod dispatch;

mod explained_network;
mod rehearsal;
#[doc(hidden)]
pub mod testing;

pub use crate::report::CounterKind;
pub use crate::state::LeafSelection;
pub use context::options::{LOOK_UP_TABLES, Options};
pub use context::reports::ViolationKey;
pub use context::stats::Stats;
pub use context::uses::{BadUses, Conductor, Due};
pub use decisions::await_barriers::{BARRIER_ROUNDS, Unsettled};
pub use decisions::hit::{AnsweredHits, Hits, MAX_HITS};
pub use decisions::line_view::LineUse;
pub use decisions::rule_view::TableRule;
pub use dispatch::Engine;
pub use dispatch::copy::EngineCopy;
pub use dispatch::engine_view::EngineView;
pub use explained_network::Engines;
pub use live::{MAX_COPIES_PER_SECOND, MAX_WATCHES};
pub use messages::cause::{DropCause, Origin};
pub use messages::event::{Effect, Event, ListenerPacket, ReportedRule, RuleCount};
pub use messages::mail::Mail;
pub use messages::trial::{
    Candidate, DecidedPacket, DecisionSummary, Difference, DifferenceKind, MAX_DIFFERENCES, Trial,
};
pub use messages::watched::{LiveAnswer, LiveFilter, LiveNews, LiveObstacle};
pub use one_switch::cookies::OWN_COOKIES;
pub use one_switch::counters::drops::{Dropped, KEPT_MINUTES};
pub use one_switch::ingress::exploration::{Exploration, ExplorationBound, NoLeaf, OpenQuestion};
pub use one_switch::look_up_tables::LookUpStatus;
pub use one_switch::switch_counts::SwitchCounts;
pub use rehearsal::{Rehearsal, Rehearsed, RuleDifference};
pub use reruns::comparison::Comparison;
pub use switches::traffic::{Party, PortCount, Traffic};
pub use tools::histogram::Histogram;

pub use crate::ids::{ShardId, Time};
pub use crate::labels::{LabelRange, LabelRangeError, LabelStage, LabelView};
