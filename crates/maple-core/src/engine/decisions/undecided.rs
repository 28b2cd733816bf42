//! Packets that f has yet to decide: the misses, to be decided before the batch ends, and the packets parked until
//! something that f read has changed (`retry`).
//!
//! A parked packet has an id, as leaves have. The store lists it as a dependent of what its run read. When the store
//! invalidates that id, the packet is decided again. Ids increase, so the smallest one has waited longest.

use std::collections::BTreeMap;
use std::sync::Arc;

use maple_wire::Dpid;

use crate::engine::messages::cause::Origin;
use crate::engine::messages::received_packet::ReceivedPacket;
use crate::ids::DependentId;

/// The number of rounds in one batch after which f's decisions are not cached. If f observes what is not tracked, each
/// new leaf may replace another one, whose packets are then decided again, without end. Chosen: an ordinary batch needs
/// one or two.
const MAX_ROUNDS: u32 = 32;

/// The packets of a shard that wait for a decision of f.
#[derive(Debug, Default)]
pub(in crate::engine) struct Undecided {
    misses: Vec<ReceivedPacket>,
    /// The number of rounds in this batch.
    rounds: u32,
    /// The parked packets by id, each with the line that makes it wait.
    parked: BTreeMap<DependentId, (ReceivedPacket, Arc<Origin>)>,
}

impl Undecided {
    /// Begins a batch.
    pub fn begin_batch(&mut self) {
        self.rounds = 0;
    }

    /// Adds packets for f to decide.
    pub fn add_misses(&mut self, packets: impl IntoIterator<Item = ReceivedPacket>) {
        self.misses.extend(packets);
    }

    /// Reports whether there is nothing for f to decide.
    pub fn has_no_misses(&self) -> bool {
        self.misses.is_empty()
    }

    /// Begins a round: removes and returns the packets to decide.
    pub fn take_round(&mut self) -> Vec<ReceivedPacket> {
        self.rounds += 1;
        std::mem::take(&mut self.misses)
    }

    /// Reports whether this batch has had too many rounds to make further leaves.
    pub fn has_too_many_rounds(&self) -> bool {
        self.rounds > MAX_ROUNDS
    }

    /// Parks a packet under an id. If there are more than `most`, removes the one that has waited longest and returns
    /// it with its id and its line.
    pub fn park(
        &mut self,
        id: DependentId,
        packet: (ReceivedPacket, Arc<Origin>),
        most: usize,
    ) -> Option<(DependentId, ReceivedPacket, Arc<Origin>)> {
        let oldest = if self.parked.len() >= most { self.parked.pop_first() } else { None };
        self.parked.insert(id, packet);
        oldest.map(|(id, (packet, origin))| (id, packet, origin))
    }

    /// Returns the number of parked packets.
    pub fn parked(&self) -> usize {
        self.parked.len()
    }

    /// Reports whether a packet is parked under this id.
    pub fn has(&self, id: DependentId) -> bool {
        self.parked.contains_key(&id)
    }

    /// Lets f decide the packet under this id again, if there is one, because something that f read has changed.
    pub fn release(&mut self, id: DependentId) {
        self.misses.extend(self.parked.remove(&id).map(|(packet, _)| packet));
    }

    /// Lets f decide all parked packets again. Returns their ids.
    pub fn release_all(&mut self) -> Vec<DependentId> {
        let (ids, packets): (Vec<DependentId>, Vec<_>) = std::mem::take(&mut self.parked).into_iter().unzip();
        self.misses.extend(packets.into_iter().map(|(packet, _)| packet));
        ids
    }

    /// Removes and returns all packets.
    pub fn take_all(&mut self) -> Vec<ReceivedPacket> {
        self.release_all();
        std::mem::take(&mut self.misses)
    }

    /// Removes the packets of a switch that has disconnected. Returns the ids of those that were parked.
    pub fn forget_switch(&mut self, dpid: Dpid) -> Vec<DependentId> {
        self.misses.retain(|packet| packet.at.switch != dpid);
        let gone = self.parked.iter().filter(|(_, (packet, _))| packet.at.switch == dpid).map(|(id, _)| *id);
        let gone: Vec<DependentId> = gone.collect();
        self.parked.retain(|_, (packet, _)| packet.at.switch != dpid);
        gone
    }
}

#[cfg(test)]
mod tests {
    use maple_wire::PortNo;

    use super::*;
    use crate::network::Location;

    fn packet(dpid: u64) -> ReceivedPacket {
        let at = Location::new(Dpid(dpid), PortNo(1));
        ReceivedPacket::new([dpid as u8].into(), 1, at)
    }

    fn switches(packets: &[ReceivedPacket]) -> Vec<u64> {
        packets.iter().map(|packet| packet.at.switch.0).collect()
    }

    #[test]
    fn when_too_many_packets_are_parked_the_oldest_is_dropped() {
        let mut undecided = Undecided::default();
        let mut park = |id, dpid| {
            undecided.park(DependentId(id), (packet(dpid), Arc::default()), 2).map(|(id, packet, _)| (id, packet.at))
        };
        assert_eq!([park(3, 1), park(5, 2)], [None, None]);
        assert_eq!(park(8, 3), Some((DependentId(3), packet(1).at)));
        undecided.release(DependentId(3));
        assert!(undecided.has_no_misses() && !undecided.has(DependentId(3)), "it is gone");
        undecided.release(DependentId(8));
        assert_eq!(switches(&undecided.take_round()), [3]);
        assert!(undecided.has_no_misses() && undecided.has(DependentId(5)));
    }

    #[test]
    fn packets_are_dropped_with_their_switch() {
        let mut undecided = Undecided::default();
        undecided.add_misses([packet(1), packet(2)]);
        for (id, dpid) in [(1, 2), (2, 1), (3, 1)] {
            undecided.park(DependentId(id), (packet(dpid), Arc::default()), 10);
        }
        assert_eq!(undecided.forget_switch(Dpid(1)), [DependentId(2), DependentId(3)]);
        assert!(undecided.has(DependentId(1)));
        assert_eq!(switches(&undecided.take_round()), [2]);
    }

    #[test]
    fn the_rounds_of_a_batch_are_bounded_and_the_next_batch_starts_again() {
        let mut undecided = Undecided::default();
        for _ in 0..MAX_ROUNDS {
            undecided.add_misses([packet(1)]);
            assert_eq!(undecided.take_round().len(), 1);
            assert!(!undecided.has_too_many_rounds());
        }
        undecided.take_round();
        assert!(undecided.has_too_many_rounds());
        undecided.begin_batch();
        assert!(!undecided.has_too_many_rounds());
    }
}
