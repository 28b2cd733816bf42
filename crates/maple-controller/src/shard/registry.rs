//! Maps datapath ids to connections, and counts the connections of each shard.
//!
//! All shards share it. Its lock is taken when a switch connects, migrates or disconnects, and when discovery has a
//! message for another shard's switch. It is never taken for a packet.

use std::sync::atomic::{AtomicUsize, Ordering};

use maple_core::engine::ShardId;
use maple_wire::Dpid;
use parking_lot::{Mutex, MutexGuard};
use rustc_hash::FxHashMap;

use super::sync;

/// Identifies one connection for as long as the controller runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionId {
    /// The shard that serves it.
    pub shard: ShardId,
    /// Its slot at that shard.
    pub slot: usize,
    /// The number of connections that have used this slot before.
    pub generation: u64,
}

/// The owner of a datapath id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DpidOwner {
    /// A connection.
    Connection(ConnectionId),
    /// A shard. It has the switch, which is unreachable, and is to serve its next connection.
    Shard(ShardId),
}

/// The ownership of a datapath id.
#[derive(Clone, Copy, Debug)]
struct DpidClaim {
    owner: DpidOwner,
    /// Whether the connection exists, but nothing comes from it.
    is_silent: bool,
}

impl DpidClaim {
    fn from_owner(owner: DpidOwner) -> DpidClaim {
        DpidClaim { owner, is_silent: false }
    }
}

/// The owners of datapath ids, and the load of shards.
#[derive(Debug)]
pub(crate) struct Registry {
    claims: Mutex<FxHashMap<Dpid, DpidClaim>>,
    loads: Vec<AtomicUsize>,
}

impl Registry {
    /// Creates a registry for this many shards.
    pub fn new(shards: usize) -> Registry {
        let loads = (0..shards).map(|_| AtomicUsize::new(0)).collect();
        Registry { claims: Mutex::default(), loads }
    }

    /// Makes `by` the owner of the switch.
    ///
    /// # Errors
    /// The owner, if another connection or shard has the switch.
    pub fn claim(&self, dpid: Dpid, by: ConnectionId) -> Result<(), DpidOwner> {
        let mut claims = self.lock();
        let claim = claims.entry(dpid).or_insert(DpidClaim::from_owner(DpidOwner::Connection(by)));
        match claim.owner {
            DpidOwner::Connection(connection) if connection == by => Ok(()),
            DpidOwner::Shard(shard) if shard == by.shard => {
                *claim = DpidClaim::from_owner(DpidOwner::Connection(by));
                Ok(())
            }
            other => Err(other),
        }
    }

    /// Ends the ownership of this connection, if it is the owner. With `stays`, its shard keeps the switch.
    pub fn release(&self, dpid: Dpid, by: ConnectionId, stays: bool) {
        let mut claims = self.lock();
        if claims.get(&dpid).is_some_and(|claim| claim.owner == DpidOwner::Connection(by)) {
            if stays {
                claims.insert(dpid, DpidClaim::from_owner(DpidOwner::Shard(by.shard)));
            } else {
                claims.remove(&dpid);
            }
        }
    }

    /// Makes a shard the owner of a switch that has no connection. Has no effect if the switch has an owner.
    pub fn keep(&self, dpid: Dpid, shard: ShardId) {
        self.lock().entry(dpid).or_insert(DpidClaim::from_owner(DpidOwner::Shard(shard)));
    }

    /// Records whether the connection that has this switch is silent.
    pub fn set_silent(&self, dpid: Dpid, is_silent: bool) {
        if let Some(claim) = self.lock().get_mut(&dpid) {
            claim.is_silent = is_silent;
        }
    }

    /// Reports whether the owner of this switch hears nothing from it: the switch has no connection, or a silent one.
    pub fn is_away(&self, dpid: Dpid) -> bool {
        self.lock().get(&dpid).is_some_and(|claim| claim.is_silent || matches!(claim.owner, DpidOwner::Shard(_)))
    }

    /// Reports whether a connection has this switch.
    pub fn has_connection(&self, dpid: Dpid) -> bool {
        self.lock().get(&dpid).is_some_and(|claim| matches!(claim.owner, DpidOwner::Connection(_)))
    }

    /// Ends a shard's ownership of a switch. Has no effect if a connection has the switch.
    pub fn forget(&self, dpid: Dpid, shard: ShardId) {
        let mut claims = self.lock();
        if claims.get(&dpid).is_some_and(|claim| claim.owner == DpidOwner::Shard(shard)) {
            claims.remove(&dpid);
        }
    }

    /// Returns the shard that serves this switch, or has it while it is unreachable.
    pub fn shard_of(&self, dpid: Dpid) -> Option<ShardId> {
        self.lock().get(&dpid).map(|claim| match claim.owner {
            DpidOwner::Connection(connection) => connection.shard,
            DpidOwner::Shard(shard) => shard,
        })
    }

    /// Counts a new connection for the shard with the fewest, the first one of several, and returns that shard.
    pub fn assign(&self) -> ShardId {
        let number =
            (0..self.loads.len()).min_by_key(|number| self.loads[*number].load(Ordering::Relaxed)).unwrap_or(0);
        let shard = ShardId(number as u8);
        self.add_connection(shard);
        shard
    }

    /// Counts a new connection of this shard.
    pub fn add_connection(&self, shard: ShardId) {
        self.loads[usize::from(shard.0)].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of a connection of this shard.
    pub fn remove_connection(&self, shard: ShardId) {
        self.loads[usize::from(shard.0)].fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a connection's migration from one shard to another.
    pub fn migrate(&self, from: ShardId, to: ShardId) {
        self.add_connection(to);
        self.remove_connection(from);
    }

    /// Replaces the owner's connection id `before` by `now`, after a migration.
    pub fn rename(&self, dpid: Dpid, before: ConnectionId, now: ConnectionId) {
        if let Some(claim) = self.lock().get_mut(&dpid).filter(|claim| claim.owner == DpidOwner::Connection(before)) {
            claim.owner = DpidOwner::Connection(now);
        }
    }

    /// Returns the number of connections.
    pub fn connections(&self) -> usize {
        self.loads.iter().map(|load| load.load(Ordering::Relaxed)).sum()
    }

    fn lock(&self) -> MutexGuard<'_, FxHashMap<Dpid, DpidClaim>> {
        sync::step();
        self.claims.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(slot: usize, generation: u64) -> ConnectionId {
        ConnectionId { shard: ShardId(0), slot, generation }
    }

    #[test]
    fn a_switch_has_one_owner_at_a_time() {
        let registry = Registry::new(1);
        assert_eq!(registry.claim(Dpid(1), connection(0, 0)), Ok(()));
        let first = Err(DpidOwner::Connection(connection(0, 0)));
        assert_eq!(registry.claim(Dpid(1), connection(1, 0)), first);
        registry.release(Dpid(1), connection(0, 1), false);
        assert_eq!(registry.claim(Dpid(1), connection(1, 0)), first);
        registry.release(Dpid(1), connection(0, 0), false);
        assert_eq!(registry.claim(Dpid(1), connection(1, 0)), Ok(()));
    }

    #[test]
    fn an_unreachable_switch_stays_at_its_shard() {
        let (registry, other) = (Registry::new(2), ConnectionId { shard: ShardId(1), ..connection(0, 0) });
        assert_eq!(registry.claim(Dpid(1), connection(0, 0)), Ok(()));
        registry.release(Dpid(1), connection(0, 0), true);
        assert_eq!(registry.shard_of(Dpid(1)), Some(ShardId(0)));
        assert_eq!(registry.claim(Dpid(1), other), Err(DpidOwner::Shard(ShardId(0))));
        registry.forget(Dpid(1), ShardId(1));
        assert_eq!(registry.claim(Dpid(1), connection(1, 0)), Ok(()), "a connection at its shard gets it");
        registry.keep(Dpid(1), ShardId(1));
        registry.forget(Dpid(1), ShardId(0));
        assert_eq!(registry.claim(Dpid(1), other), Err(DpidOwner::Connection(connection(1, 0))));
        registry.release(Dpid(1), connection(1, 0), true);
        registry.forget(Dpid(1), ShardId(0));
        assert_eq!(registry.claim(Dpid(1), other), Ok(()));
    }

    #[test]
    fn a_switch_is_away_without_a_connection_or_while_nothing_comes_by_it() {
        let registry = Registry::new(1);
        let is_away = || registry.is_away(Dpid(1));
        registry.set_silent(Dpid(1), true);
        assert!(!is_away() && !registry.has_connection(Dpid(1)), "nobody has it");
        assert_eq!(registry.claim(Dpid(1), connection(0, 0)), Ok(()));
        assert!(!is_away() && registry.has_connection(Dpid(1)));
        registry.set_silent(Dpid(1), true);
        registry.rename(Dpid(1), connection(0, 0), connection(1, 0));
        assert!(is_away());
        registry.set_silent(Dpid(1), false);
        assert!(!is_away());
        registry.set_silent(Dpid(1), true);
        registry.release(Dpid(1), connection(1, 0), true);
        assert!(is_away() && !registry.has_connection(Dpid(1)));
        assert_eq!(registry.claim(Dpid(1), connection(0, 1)), Ok(()));
        assert!(!is_away(), "another connection is not silent");
    }

    #[test]
    fn connections_go_to_the_shard_with_the_fewest() {
        let registry = Registry::new(2);
        let order: Vec<u8> = (0..4).map(|_| registry.assign().0).collect();
        assert_eq!(order, [0, 1, 0, 1]);
        registry.remove_connection(ShardId(1));
        assert_eq!((registry.assign(), registry.connections()), (ShardId(1), 4));
    }
}
