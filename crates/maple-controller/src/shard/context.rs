//! The context that all parts of a shard need: who it is, the time, the messages to others, and the counters.

use std::sync::Arc;

use crossbeam_channel::Receiver;
use maple_core::engine::{Event, ShardId, Time};

use super::mailbox::{Outgoing, ShardMessage};
use super::registry::Registry;
use crate::counters::Counters;
use crate::notice::Notices;
use crate::session::ClusterRole;
use crate::time::Clock;

/// The things that all parts of a shard need. The context knows no part.
pub(crate) struct Context {
    pub id: ShardId,
    pub clock: Clock,
    /// The time at which the turn began.
    pub now: Time,
    /// The role that the cluster gives this controller, if it is one of several, with a number that grows.
    pub role: Option<(u64, ClusterRole)>,
    pub registry: Arc<Registry>,
    pub inbox: Receiver<Vec<ShardMessage>>,
    pub outgoing: Outgoing,
    pub notices: Notices,
    pub counters: Counters,
    /// The engine's next events.
    pub events: Vec<Event>,
}

impl Context {
    pub fn new(
        id: ShardId,
        clock: Clock,
        registry: Arc<Registry>,
        inbox: Receiver<Vec<ShardMessage>>,
        outgoing: Outgoing,
        notices: Notices,
    ) -> Context {
        let (counters, events) = (Counters::default(), Vec::new());
        Context { id, clock, now: Time(0), role: None, registry, inbox, outgoing, notices, counters, events }
    }

    /// Makes this controller one of several, if it is. It is a standby at first.
    pub fn in_cluster(self, is_one_of_several: bool) -> Context {
        Context { role: is_one_of_several.then(Default::default), ..self }
    }
}
