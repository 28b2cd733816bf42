//! Plain bridges in the simulated network. They learn which of their ports leads to an address, as all bridges do, and
//! have hosts of their own.

use std::collections::{BTreeMap, BTreeSet};

use maple_core::network::{Location, Mac};
use maple_wire::{Dpid, Field, Packet, PortNo};

use super::{Delivery, SimNetwork};

/// A bridge. Its own hosts are at a location that no switch has.
#[derive(Debug)]
pub(super) struct Bridge {
    ports: BTreeSet<Location>,
    learned: BTreeMap<Mac, Location>,
}

impl SimNetwork {
    /// Adds a bridge that joins these ports of switches. Returns the location of the bridge's own hosts.
    pub fn add_bridge(&mut self, ports: &[Location]) -> Location {
        self.wiring.bridges.push(Bridge { ports: ports.iter().copied().collect(), learned: BTreeMap::new() });
        place(self.wiring.bridges.len() - 1)
    }

    /// Returns the index of the bridge at a place, if there is one.
    pub(super) fn bridge_at(&self, at: Location) -> Option<usize> {
        let index = (0..self.wiring.bridges.len()).find(|index| place(*index) == at);
        index.or_else(|| self.wiring.bridges.iter().position(|bridge| bridge.ports.contains(&at)))
    }

    /// Passes a frame through a bridge, from a switch's port or from the bridge's own hosts.
    pub(super) fn cross(&mut self, index: usize, from: Location, frame: &[u8]) {
        let packet = Packet::new(frame, 0);
        let address = |field| Mac::from_bits(packet.switch_value(field).unwrap_or_default());
        let (source, destination) = (address(Field::EthSrc), address(Field::EthDst));
        let bridge = &mut self.wiring.bridges[index];
        if source.is_host() {
            bridge.learned.insert(source, from);
        }
        let known = bridge.learned.get(&destination).copied().filter(|_| destination.is_host());
        let all = bridge.ports.iter().copied().chain([place(index)]);
        let to: Vec<Location> = match known {
            Some(only) => vec![only],
            None => all.collect(),
        };
        for to in to.into_iter().filter(|to| *to != from) {
            if to == place(index) {
                self.reach_hosts(to, frame.to_vec());
            } else if self.is_up(to) {
                self.inject(to, frame.to_vec());
            }
        }
    }

    /// Hands a frame to the hosts at a location: one of them answers it, or it is delivered.
    pub(super) fn reach_hosts(&mut self, at: Location, frame: Vec<u8>) {
        match self.answer_to_probe(at, &frame) {
            Some(Some(reply)) => self.inject(at, reply),
            Some(None) => {}
            None => self.delivered.push(Delivery { at, frame }),
        }
    }
}

fn place(index: usize) -> Location {
    Location::new(Dpid(u64::MAX), PortNo(index as u32 + 1))
}
