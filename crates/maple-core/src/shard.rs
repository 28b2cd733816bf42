//! What names a moment and a worker thread.

use std::time::Duration;

use crate::tree::LeafId;

/// A moment: nanoseconds since any fixed point, never going back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(pub u64);

impl std::ops::Add<Duration> for Time {
    type Output = Time;

    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// A shard, from 0; it is the upper 8 bits of the ids of the leaves it owns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ShardId(pub u8);

impl ShardId {
    /// The shard that owns a leaf.
    pub const fn of(leaf: LeafId) -> ShardId {
        ShardId((leaf.0 >> 32) as u8)
    }
}
