//! Tracked state: what f may read besides its packet.
//!
//! # What
//!
//! A [`Snapshot`] is one consistent, immutable view of everything: tables and variables of the policy, link costs, and
//! the network (switches, ports, links, hosts). A run of f works on a [`Txn`] over one snapshot. The [`Store`] holds
//! the newest snapshot and what depends on which cell.
//!
//! # Why it is correct
//!
//! * *Opacity*: a run reads one snapshot from beginning to end, so it never sees a mixture of states.
//! * *The read set is the dependency set*: everything that a run learns, it learns as the value of a [`Cell`], which
//!   the transaction notes. At commit each noted value is compared with the one in the newest snapshot. If one differs,
//!   the run is repeated. If none does, the same list becomes the leaf's subscription, registered under the same lock:
//!   no change can fall between the two.
//! * *Cut-off*: when a write may have changed a cell, the cell is evaluated again. Its dependents are withdrawn only if
//!   its *value* differs. Paths and trees are cells like any other, and so are the answers of users' own functions of
//!   state ([`crate::query`]).
//! * *Strict serialisability*: one lock serialises commits, and each is validated under it. So a transaction takes
//!   effect as if all of it ran at the moment of its commit. One that only reads takes effect as if at the moment of
//!   its snapshot.
//!
//! # Order
//!
//! A write is *committed* when the new snapshot is published: each run that reads from then on sees it, and each leaf
//! that depended on the old value is no longer current, so no shard decides another packet from it. It is
//! *acknowledged* when every shard has ended the turn that it was in then: no packet that was decided from the old
//! value is still to be sent. It is *settled* when every switch that lost a rule by it has confirmed this with a
//! barrier reply.
//!
//! # Cost
//!
//! Snapshots are persistent maps. Taking one is a pointer copy. A write is O(log n), and is made in place when no
//! reader holds the snapshot before the newest. A commit compares each cell that was read if anything was written
//! meanwhile; otherwise it only registers the subscription. A transaction that only read needs no commit. A change of
//! the topology evaluates each *distinct* subscribed topology cell once.
//!
//! Any thread may call the store.

mod atomically;
mod typed_tables;

mod cell;
mod derived;
mod history;
mod kind;
mod known_hosts;
mod known_ports;
mod nesting_limit;
mod query_answers;
mod recent_keys;
mod rows;
mod selection;
mod snapshot;
pub(crate) mod snooping_tables;
mod txn;
mod value;

mod coordination;
mod dependents;
mod double_buffer;
mod gate;
mod journal;
mod last_writes;
mod names;
mod store;
mod store_moves;
mod sync;
mod versions;
mod write_log;

#[cfg(test)]
mod tests;

pub use atomically::{Access, Attempt, ExclusiveCommit, Patience, Read, Stop, Stopped, Tx, View};
pub use cell::{Cell, CellValue};
pub(crate) use cell::{is_place, is_up};
pub(crate) use coordination::{Memorable, RestoreProgress};
pub(crate) use dependents::AddressKinds;
pub use dependents::WaiterId;
pub use gate::CommitLimits;
pub use history::RateHistory;
pub use journal::Journal;
pub use kind::{DeclareError, Kind, Mismatch, Types};
pub(crate) use last_writes::Author;
pub use last_writes::{Writer, Written};
pub use query_answers::{Function, QueryAnswer, QueryCall};
pub use rows::Rows;
pub use selection::LeafSelection;
pub use snapshot::{Snapshot, SwitchInfo, Write};
pub use store::{Commit, Conflict, Store, StoreCounts};
pub(crate) use store_moves::UseMoment;
pub use store_moves::{KeptLabel, StoreRecorder};
pub use txn::{Savepoint, Txn};
pub use typed_tables::{Counter, Stored, Table, Var, WrongType};
pub use value::{Float, Value};
pub use versions::{Migrate, RowMap, VersionError, version_of, version_var, versioned};
pub use write_log::{StateChange, WriteLog};

pub use crate::ids::Name;
