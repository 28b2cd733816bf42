//! Parts of a shard.

use std::sync::Arc;
use std::time::Duration;

use super::context::Context;
use super::io::IoParts;
use crate::discovery::Discovery;
use crate::listener::Subscriptions;
use crate::storage::KnownSwitches;
use crate::storage::record::ShardRecorder;
use crate::tls::Tls;

/// The parts of a shard, except its engine.
pub(crate) struct ShardParts {
    pub ctx: Context,
    pub io: IoParts,
    /// The certificates for TLS, and which switches need one.
    pub tls: Option<Arc<Tls>>,
    pub discovery: Discovery,
    pub subscriptions: Subscriptions,
    /// The time for which a switch without a connection is kept; `None`: without limit.
    pub forget_after: Option<Duration>,
    pub known: Option<KnownSwitches>,
    /// Records the engine's turns.
    pub recorder: Option<ShardRecorder>,
}
