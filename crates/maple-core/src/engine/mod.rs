//! The engine: the deterministic state machine of one shard.
//!
//! An [`Engine`] takes a batch of [`Event`]s with the time and gives [`Effect`]s. It does no I/O, reads no clock and
//! starts no thread; N engines over one [`Store`] make a controller, in N threads or in one test loop alike. They
//! share the store and nothing else: whatever one wants of another's switches goes by [`Mail`].

use std::sync::Arc;

use maple_wire::Dpid;

use crate::policy::Policy;
use crate::state::Store;

mod event;
mod options;

pub use event::{Effect, Event, InstalledFlow, Mail, Selection, ShardId, Time};
pub use options::{Options, Stats, TableRule};

/// One shard of the controller.
pub struct Engine {
    shard: ShardId,
    store: Arc<Store>,
    policy: Arc<dyn Policy>,
    options: Options,
    stats: Stats,
}

impl Engine {
    /// The engine of `shard`. All shards of a controller share `store`, and have equal `options`.
    pub fn new(shard: ShardId, store: Arc<Store>, policy: Arc<dyn Policy>, options: Options) -> Engine {
        Engine { shard, store, policy, options, stats: Stats::default() }
    }

    /// Handles a batch of events (which it empties) and appends what is to be done to `out`, in order.
    pub fn handle(&mut self, now: Time, events: &mut Vec<Event>, out: &mut Vec<Effect>) {
        let _ = (now, out, &self.shard, &self.store, &self.policy, &self.options);
        events.clear();
    }

    /// When [`Engine::handle`] wants to be called again, if no event comes before.
    pub fn next_deadline(&self) -> Option<Time> {
        None
    }

    /// The rules of a switch, by table and falling priority; empty for one that this shard does not serve.
    pub fn rules(&self, dpid: Dpid) -> Vec<TableRule> {
        let _ = dpid;
        Vec::new()
    }

    /// What was done so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }
}
