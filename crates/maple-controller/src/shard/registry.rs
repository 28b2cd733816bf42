//! Which connection speaks for which switch, and how many connections each shard has.
//!
//! Shared by all shards. Its lock is taken when a switch comes, moves or goes and when discovery has news for another shard's
//! switch, never for a packet.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use maple_core::engine::ShardId;
use maple_wire::Dpid;
use rustc_hash::FxHashMap;

use super::balance::Loads;
use super::sync;

/// One connection, for as long as the controller runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionId {
    /// The shard that has it.
    pub shard: ShardId,
    /// Its place there.
    pub slot: usize,
    /// How many connections had that place before.
    pub generation: u64,
}

/// Who has which switch.
#[derive(Debug)]
pub(crate) struct Registry {
    owners: Mutex<FxHashMap<Dpid, ConnectionId>>,
    loads: Vec<AtomicUsize>,
    /// How much of its time each shard works.
    pub busy: Loads,
}

impl Registry {
    /// A registry for this many shards.
    pub fn new(shards: usize) -> Registry {
        let loads = (0..shards).map(|_| AtomicUsize::new(0)).collect();
        Registry { owners: Mutex::default(), loads, busy: Loads::new(shards) }
    }

    /// Makes `by` the switch's connection; if another one is, who.
    pub fn claim(&self, dpid: Dpid, by: ConnectionId) -> Result<(), ConnectionId> {
        match *self.lock().entry(dpid).or_insert(by) {
            owner if owner == by => Ok(()),
            owner => Err(owner),
        }
    }

    /// The connection is the switch's no more.
    pub fn release(&self, dpid: Dpid, by: ConnectionId) {
        let mut owners = self.lock();
        if owners.get(&dpid) == Some(&by) {
            owners.remove(&dpid);
        }
    }

    /// The shard that has this switch.
    pub fn shard_of(&self, dpid: Dpid) -> Option<ShardId> {
        self.lock().get(&dpid).map(|owner| owner.shard)
    }

    /// The shard with the fewest connections, the first of several; it has one more now.
    pub fn least_loaded(&self) -> ShardId {
        let least = (0..self.loads.len()).min_by_key(|shard| self.loads[*shard].load(Ordering::Relaxed)).unwrap_or(0);
        let least = ShardId(least as u8);
        self.load(least);
        least
    }

    /// This shard has one connection more.
    pub fn load(&self, shard: ShardId) {
        self.loads[usize::from(shard.0)].fetch_add(1, Ordering::Relaxed);
    }

    /// A connection of this shard's is closed.
    pub fn unload(&self, shard: ShardId) {
        self.loads[usize::from(shard.0)].fetch_sub(1, Ordering::Relaxed);
    }

    /// A connection moves from one shard to another.
    pub fn moved(&self, from: ShardId, to: ShardId) {
        self.load(to);
        self.unload(from);
    }

    /// The switch's connection `before` is called `now` from now on.
    pub fn renew(&self, dpid: Dpid, before: ConnectionId, now: ConnectionId) {
        if let Some(owner) = self.lock().get_mut(&dpid).filter(|owner| **owner == before) {
            *owner = now;
        }
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.loads.iter().map(|load| load.load(Ordering::Relaxed)).sum()
    }

    fn lock(&self) -> MutexGuard<'_, FxHashMap<Dpid, ConnectionId>> {
        sync::step();
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(slot: usize, generation: u64) -> ConnectionId {
        ConnectionId { shard: ShardId(0), slot, generation }
    }

    #[test]
    fn a_switch_has_one_connection_at_a_time() {
        let registry = Registry::new(1);
        assert_eq!(registry.claim(Dpid(1), connection(0, 0)), Ok(()));
        assert_eq!(registry.claim(Dpid(1), connection(1, 0)), Err(connection(0, 0)));
        registry.release(Dpid(1), connection(0, 1));
        assert_eq!(registry.claim(Dpid(1), connection(1, 0)), Err(connection(0, 0)));
        registry.release(Dpid(1), connection(0, 0));
        assert_eq!(registry.claim(Dpid(1), connection(1, 0)), Ok(()));
    }

    #[test]
    fn connections_go_to_the_shard_that_has_fewest() {
        let registry = Registry::new(2);
        let order: Vec<u8> = (0..4).map(|_| registry.least_loaded().0).collect();
        assert_eq!(order, [0, 1, 0, 1]);
        registry.unload(ShardId(1));
        assert_eq!((registry.least_loaded(), registry.connections()), (ShardId(1), 4));
    }
}
