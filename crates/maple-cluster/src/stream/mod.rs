//! Rows that the master streams to standbys: what it has decided, and where hosts and links are.
//!
//! Such rows follow from packets and from the network, so they can be made anew, and etcd does not have them. But
//! whoever takes over with a copy of them need not make them anew.
//!
//! ```text
//!   master                                     standby
//!   StreamSource ◄──── what I have ──────── StreamFollower
//!        └────────── the changes since ──────────► the copy
//! ```
//!
//! # How
//!
//! Every change of a row has a number. The source keeps of each row the latest change only, also if that is a deletion.
//! A standby says up to which change it has everything, and gets the next rows in the order of their changes
//! ([`StreamedPart`]), as many as fit into a part. So there is no queue for a standby: a slow or
//! returning one gets the current value of each row and no outdated ones. A full copy is a stream from change 0.
//!
//! # Why it is correct
//!
//! A standby at change *n* has the current value of every row whose latest change is at most *n*. For a row that has
//! changed since, it has an older value or none, until that change comes. A copy is *whole* as soon as the standby has
//! had all changes that there were, once; until then an earlier whole copy stays, perhaps of another master.
//!
//! Numbers are those of one life of a source. A source that does not know a standby's position (it is of another life,
//! or deletions are forgotten that are later than both the position and the beginning of the copy) begins anew. A
//! standby takes only the answer to its latest question. So it does not matter which messages are lost, repeated or
//! late, or that the master changes in between.
//!
//! # Bounds
//!
//! [`StreamLimits`] bounds the rows and bytes of both sides, deletions that are remembered, and parts. A standby has
//! two copies at most. Rows that do not fit at the source are left out, and counted.

mod follower;
mod source;

use serde::{Deserialize, Serialize};

pub use follower::{StreamCopy, StreamError, StreamFollower, StreamNews};
pub use source::StreamSource;

/// The bounds of a stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamLimits {
    /// The maximum number of rows.
    pub rows: usize,
    /// The maximum number of bytes of all rows, keys included.
    pub bytes: usize,
    /// The maximum number of bytes of one row, its key included.
    pub row: usize,
    /// The maximum number of deleted rows that a source remembers.
    pub deletions: usize,
    /// The number of bytes after which a part ends. It has one row at least.
    pub part: usize,
}

/// The position of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamPosition {
    /// The life of the source.
    pub life: u64,
    /// The number of the latest change that there was when the copy began. What was deleted until then, it never had.
    pub began: u64,
    /// The number of the latest change that the copy has, with all before.
    pub change: u64,
}

/// The question of a standby.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamQuestion {
    /// Its number, which no other question of this standby has.
    pub number: u64,
    /// The positions of its copies; the one that it prefers to continue comes first.
    pub positions: Vec<StreamPosition>,
}

/// The answer of a source: the next changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamedPart {
    /// The number of the question.
    pub number: u64,
    /// The generation in which the source's member is master.
    pub generation: u64,
    /// The life of the source.
    pub life: u64,
    /// The position from which this goes on. 0: the copy begins anew.
    pub from: u64,
    /// The position afterwards.
    pub to: u64,
    /// The number of the latest change that there is.
    pub latest: u64,
    /// The rows that have changed, each once, in the order of their changes; `None` for one that is deleted.
    pub rows: Vec<StreamedRow>,
}

/// A row's key, and its value if it is there.
pub type StreamedRow = (Vec<u8>, Option<Vec<u8>>);

#[cfg(test)]
mod tests;
