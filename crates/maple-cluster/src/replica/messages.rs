//! The messages to and from a copy of the tracked state.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::keys::Record;
use crate::view::Change;

/// Rows by their keys; `None` for one that is deleted.
pub type ChangedRows = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// The maximum number of rows that one commit changes: etcd takes 128 operations in a transaction, and one is the head.
pub const MAX_ROWS: usize = 127;
/// The maximum number of bytes of the rows of one commit, keys included. etcd takes 1.5 MiB with all that is around
/// them.
pub const MAX_BYTES: usize = 1 << 20;

/// The settings of a copy.
#[derive(Clone, Debug)]
pub struct ReplicaOptions {
    /// The cluster's name.
    pub cluster: String,
    /// The number of the rows' format. Members with another one read nothing and write nothing.
    pub format: String,
    /// The time until a request that failed is repeated.
    pub retry: Duration,
    /// The time that a new master waits for what the watch has not reported yet, before it reads everything.
    pub patience: Duration,
}

/// A commit of the owner, on its way to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitRows {
    /// The version of the state that it makes. Later ones have greater versions.
    pub version: u64,
    /// Its changes: at most [`MAX_ROWS`] rows and [`MAX_BYTES`] bytes.
    pub rows: ChangedRows,
}

/// A key, and the revision at which it has to have been written; 0 if it must not be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyAtRevision {
    /// The key.
    pub key: Vec<u8>,
    /// The revision.
    pub revision: u64,
}

/// A transaction that the store is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateBatch {
    /// The key of mastership.
    pub master: KeyAtRevision,
    /// The head's key.
    pub head: KeyAtRevision,
    /// The head's new value.
    pub value: Vec<u8>,
    /// The prefix of keys to delete.
    pub clears: Option<Vec<u8>>,
    /// The keys to write, and those to delete.
    pub rows: ChangedRows,
}

/// A request of a copy to its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaAction {
    /// Read all keys with a prefix. [`ReplicaEvent::Read`] or [`ReplicaEvent::Failed`] follows.
    ReadAll(Vec<u8>),
    /// Read one key. [`ReplicaEvent::Head`] or [`ReplicaEvent::Failed`] follows.
    ReadHead(Vec<u8>),
    /// Watch all keys with a prefix from this revision on; a former watch ends. [`ReplicaEvent::Changed`] follows for
    /// each change, and [`ReplicaEvent::Missed`] if changes can't be had any more.
    Watch {
        /// The prefix.
        prefix: Vec<u8>,
        /// The first revision.
        from: u64,
    },
    /// End the watch.
    Unwatch,
    /// Carry out a transaction. [`ReplicaEvent::Committed`], [`ReplicaEvent::Refused`] or [`ReplicaEvent::Failed`]
    /// follows.
    Write(StateBatch),
    /// The state is to hold exactly these rows. [`ReplicaEvent::Held`] or [`ReplicaEvent::Unusable`] follows at once.
    Replace(BTreeMap<Vec<u8>, Vec<u8>>),
    /// The state changes in these rows, all at once. [`ReplicaEvent::Held`] or [`ReplicaEvent::Unusable`] follows at
    /// once.
    Apply(ChangedRows),
    /// The store has no state: say what the owner's is. [`ReplicaEvent::Contents`] follows at once.
    Adopt,
    /// The owner has everything that was written before this generation, and may lead in it.
    Ready(u64),
    /// The owner's commits up to this version are in the store.
    Confirmed(u64),
    /// The owner's commits up to this version that are not confirmed are given up. What the state holds instead,
    /// follows.
    Lost(u64),
    /// Whether the owner may commit has changed. If it may not, it has no commits after this, besides those on their
    /// way.
    Gate(Gate),
    /// The rows in the store are not to be used, for this reason. The member should leave the mastership to others.
    Unreadable(String),
}

/// Whether the owner may commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// The owner may commit.
    Open,
    /// The member is not master.
    NotMaster,
    /// The member is about to lead, and reads what was written before.
    TakesOver,
    /// The store does not answer.
    StoreAway,
}

/// An event that a copy handles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaEvent {
    /// The time that [`crate::Replica::wakes_at`] said has come.
    Woken,
    /// This member is master by the store, in this generation.
    Lead(u64),
    /// This member is not master.
    Follow,
    /// Whether the store answers, as far as the member knows.
    StoreAnswers(bool),
    /// All keys that were to be read, as they were at a revision.
    Read {
        /// The keys.
        records: Vec<Record>,
        /// The revision.
        revision: u64,
    },
    /// The head, if it is there, as it is at a revision.
    Head {
        /// The head.
        record: Option<Record>,
        /// The revision.
        revision: u64,
    },
    /// The transaction was carried out, at this revision.
    Committed(u64),
    /// The transaction was not carried out.
    Refused {
        /// The revision at which the key of mastership was written; 0 if it is not there.
        master: u64,
        /// The head, if it is there.
        head: Option<Record>,
    },
    /// A request failed, and may have been carried out or not.
    Failed,
    /// The watch reports changes. Those of one revision are never in two events.
    Changed(Vec<Change>),
    /// The watch has ended, and changes can't be had any more.
    Missed,
    /// The owner has committed.
    Committing(CommitRows),
    /// The owner has the rows that it was given.
    Held,
    /// The owner can't use the rows that it was given, for this reason.
    Unusable(String),
    /// All rows of the owner's state.
    Contents(BTreeMap<Vec<u8>, Vec<u8>>),
}
