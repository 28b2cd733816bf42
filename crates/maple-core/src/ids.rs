//! Names that all layers share: of a moment, a shard, a leaf, a table.

use std::sync::Arc;
use std::time::Duration;

/// The name of a table, a variable or a link attribute.
pub type Name = Arc<str>;

/// A moment: nanoseconds since some fixed point. Never goes back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(pub u64);

impl std::ops::Add<Duration> for Time {
    type Output = Time;

    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// A shard, from 0. It is the upper 8 bits of the ids of its leaves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ShardId(pub u8);

impl ShardId {
    /// The shard that owns a leaf.
    pub const fn of(leaf: LeafId) -> ShardId {
        ShardId((leaf.0 >> 32) as u8)
    }
}

/// Names a leaf permanently: 40 bits, of which the upper 8 name a shard and the lower 32 count its leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeafId(pub u64);
