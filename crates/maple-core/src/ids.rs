//! Names and ids that all layers share: of tables, moments, shards and leaves.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The name of a table, a variable or a link attribute.
pub type Name = Arc<str>;

/// A moment, in nanoseconds since some fixed point. Time never goes back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(pub u64);

impl std::ops::Add<Duration> for Time {
    type Output = Time;

    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// A shard, numbered from 0. Its number is the upper 8 bits of the ids of its dependents.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct ShardId(pub u8);

impl ShardId {
    /// The maximum number of shards. In cookies, which hold the ids of dependents, the first number that no shard has
    /// marks labels, and the next one rules of the engine's own.
    pub const MAX_COUNT: usize = 0xfe;

    /// Returns the shard that owns a dependent.
    pub const fn owning(dependent: DependentId) -> ShardId {
        ShardId((dependent.0 >> 32) as u8)
    }
}

/// The permanent id of something that depends on the cells it read: a leaf, a parked packet, or the plan of a route.
/// 40 bits, of which the upper 8 name a shard and the lower 32 count its dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DependentId(pub u64);

impl DependentId {
    /// Returns the id of the leaf, if the dependent is one. Otherwise no leaf has this id.
    pub const fn possible_leaf(self) -> LeafId {
        LeafId(self.0)
    }
}

/// The id of a leaf among all dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LeafId(pub u64);

impl From<LeafId> for DependentId {
    fn from(leaf: LeafId) -> DependentId {
        DependentId(leaf.0)
    }
}

/// The id of a route of one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RouteId(pub NonZeroU64);
