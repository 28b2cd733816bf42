//! State that outlives a moment: rows of the state file, what a restart knows, what another process
//! takes over, and recordings.
//!
//! * [`mod@format`]: the one format of what has no other.
//! * [`state_json`]: values of tracked state as JSON, for the control socket.
//! * [`history`]: who changed what.
//! * [`late_database`]: a file that is not open yet, or has failed.
//! * [`known_switches`]: the switches of an earlier run, until they are back.
//! * [`remember`]: writes what the next run is to know of leaves and surroundings.
//! * [`persistence`]: keeps tables and variables in the state file.
//! * [`cluster_writes`]: tables and variables of a cluster, on their way to etcd.
//! * [`offline`]: a network as a state file remembers it.
//! * [`takeover`]: what another process goes on with.
//! * [`record`], [`replay`]: what reaches the engines of a run, and the run again.

pub(crate) mod format;
mod state_json;

pub mod history;

mod known_switches;
mod late_database;

mod remember;

mod persistence;

pub(crate) mod cluster_writes;

pub mod offline;

pub mod takeover;

pub mod record;
pub mod replay;

pub(crate) use history::ChangeHistory;
pub(crate) use known_switches::{Departed, Restart, RestoreWay};
pub(crate) use persistence::{PendingWrites, Persistence, Release};
pub use persistence::{PersistenceError, last_policy};
pub(crate) use remember::{
    Adopted, Archive, Archived, FORMAT, KnownSwitches, LeafJournal, RememberedRows, RowFeed, STATE_FORMAT,
    STREAM_LIMITS, SharedRows, count, departed, next_epoch,
};
pub(crate) use state_json::{from_json, parse_dpid, to_json};
