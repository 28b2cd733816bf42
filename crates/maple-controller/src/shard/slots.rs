//! The connections of a shard in numbered slots, which are reused, and by their switches.

use maple_core::engine::ShardId;
use maple_wire::Dpid;
use rustc_hash::FxHashMap;

use super::connection::Connection;
use super::registry::ConnectionId;

/// A table of connections.
pub(super) struct Slots {
    shard: ShardId,
    slots: Vec<(u64, Option<Box<Connection>>)>,
    free: Vec<usize>,
    /// The slots of connected switches.
    by_dpid: FxHashMap<Dpid, usize>,
}

impl Slots {
    pub fn new(shard: ShardId) -> Slots {
        Slots { shard, slots: Vec::new(), free: Vec::new(), by_dpid: FxHashMap::default() }
    }

    /// Reserves a slot for a new connection; [`Slots::insert`] fills it.
    pub fn reserve(&mut self) -> ConnectionId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() - 1
        });
        ConnectionId { shard: self.shard, slot, generation: self.slots[slot].0 }
    }

    /// Fills a reserved slot.
    pub fn insert(&mut self, connection: Box<Connection>) -> &mut Connection {
        let slot = connection.id.slot;
        self.slots[slot].1.insert(connection)
    }

    /// Records that a switch is connected.
    pub fn connect(&mut self, dpid: Dpid, slot: usize) {
        self.by_dpid.insert(dpid, slot);
    }

    /// Records that a switch is not connected here any more.
    pub fn disconnect(&mut self, dpid: Dpid) {
        self.by_dpid.remove(&dpid);
    }

    /// Returns the slot of a connected switch.
    pub fn slot_of(&self, dpid: Dpid) -> Option<usize> {
        self.by_dpid.get(&dpid).copied()
    }

    /// Returns the connection of a switch.
    pub fn of_switch(&mut self, dpid: Dpid) -> Option<&mut Connection> {
        self.get(self.slot_of(dpid)?)
    }

    /// Returns a connection; `None` if it has ended.
    pub fn get(&mut self, slot: usize) -> Option<&mut Connection> {
        self.slots.get_mut(slot)?.1.as_deref_mut()
    }

    /// Returns a connection that cannot have ended, because something of it is being handled.
    pub fn present(&mut self, slot: usize) -> Option<&mut Connection> {
        let connection = self.get(slot);
        debug_assert!(connection.is_some(), "slot {slot} has no connection");
        connection
    }

    /// Returns the connection with this id, if its slot has not been reused.
    pub fn get_exactly(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.get(id.slot).filter(|connection| connection.id == id)
    }

    /// Removes a connection. Its slot is reused with the next generation.
    pub fn remove(&mut self, slot: usize) -> Option<Box<Connection>> {
        let (generation, entry) = self.slots.get_mut(slot)?;
        let connection = entry.take()?;
        *generation += 1;
        self.free.push(slot);
        Some(connection)
    }

    /// Returns all connections in slot order, mutably.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.slots.iter_mut().filter_map(|(_, connection)| connection.as_deref_mut())
    }

    /// Returns all connections in slot order.
    pub fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.slots.iter().filter_map(|(_, connection)| connection.as_deref())
    }
}
