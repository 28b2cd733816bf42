//! Packets without an answer: those that f must decide before the batch ends, and those that f kept back until something that
//! it read has changed (`retry`).
//!
//! A packet that is kept back stands under the name of a leaf in the store's lists of who read what: when that name is
//! withdrawn the packet is decided again. The names run upwards, so the smallest is the packet that waits longest.

use std::collections::BTreeMap;

use maple_wire::Dpid;

use super::received_packet::ReceivedPacket;
use crate::ids::LeafId;

/// How often f is asked about the misses of one batch before its answers are not kept any more. Where f looks at what is not
/// tracked, each leaf may replace one whose packets are decided again, without end.
const MAX_ROUNDS: u32 = 32;

/// The packets of a shard that wait for an answer.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    misses: Vec<ReceivedPacket>,
    /// How often f was asked about the misses of this batch.
    rounds: u32,
    parked: BTreeMap<LeafId, ReceivedPacket>,
}

impl Waiting {
    /// Another batch begins.
    pub fn begin_batch(&mut self) {
        self.rounds = 0;
    }

    /// f must decide these.
    pub fn miss(&mut self, packets: impl IntoIterator<Item = ReceivedPacket>) {
        self.misses.extend(packets);
    }

    /// Whether f has nothing to decide.
    pub fn is_decided(&self) -> bool {
        self.misses.is_empty()
    }

    /// What f is to decide now.
    pub fn take_round(&mut self) -> Vec<ReceivedPacket> {
        self.rounds += 1;
        std::mem::take(&mut self.misses)
    }

    /// Whether f was asked so often in this batch that no leaf should be made of what it says.
    pub fn is_endless(&self) -> bool {
        self.rounds > MAX_ROUNDS
    }

    /// Keeps a packet back under a name. With more than `most` of them the one that waits longest goes: its name.
    pub fn park(&mut self, name: LeafId, packet: ReceivedPacket, most: usize) -> Option<LeafId> {
        let oldest = if self.parked.len() >= most { self.parked.pop_first() } else { None };
        self.parked.insert(name, packet);
        oldest.map(|(name, _)| name)
    }

    /// Whether a packet is kept back under this name.
    pub fn has(&self, name: LeafId) -> bool {
        self.parked.contains_key(&name)
    }

    /// Something that f read has changed: the packet under this name, if there is one, is decided again.
    pub fn release(&mut self, name: LeafId) {
        self.misses.extend(self.parked.remove(&name));
    }

    /// A switch is gone, and its packets with it: the names of those that were kept back.
    pub fn forget_switch(&mut self, dpid: Dpid) -> Vec<LeafId> {
        self.misses.retain(|packet| packet.at.switch != dpid);
        let gone = self.parked.iter().filter(|(_, packet)| packet.at.switch == dpid).map(|(name, _)| *name);
        let gone: Vec<LeafId> = gone.collect();
        self.parked.retain(|_, packet| packet.at.switch != dpid);
        gone
    }
}

#[cfg(test)]
mod tests {
    use maple_wire::PortNo;
    use maple_wire::msg::NO_BUFFER;

    use super::*;
    use crate::network::Location;

    fn packet(dpid: u64) -> ReceivedPacket {
        let at = Location::new(Dpid(dpid), PortNo(1));
        ReceivedPacket { frame: [dpid as u8].into(), total_len: 1, buffer_id: NO_BUFFER, at }
    }

    fn switches(packets: &[ReceivedPacket]) -> Vec<u64> {
        packets.iter().map(|packet| packet.at.switch.0).collect()
    }

    #[test]
    fn of_more_packets_than_may_be_kept_back_the_one_that_waits_longest_goes() {
        let mut waiting = Waiting::default();
        assert_eq!(waiting.park(LeafId(3), packet(1), 2), None);
        assert_eq!(waiting.park(LeafId(5), packet(2), 2), None);
        assert_eq!(waiting.park(LeafId(8), packet(3), 2), Some(LeafId(3)));
        waiting.release(LeafId(3));
        assert!(waiting.is_decided() && !waiting.has(LeafId(3)), "it is gone");
        waiting.release(LeafId(8));
        assert_eq!(switches(&waiting.take_round()), [3]);
        assert!(waiting.is_decided() && waiting.has(LeafId(5)));
    }

    #[test]
    fn packets_go_with_their_switch() {
        let mut waiting = Waiting::default();
        waiting.miss([packet(1), packet(2)]);
        for (name, dpid) in [(1, 2), (2, 1), (3, 1)] {
            waiting.park(LeafId(name), packet(dpid), 10);
        }
        assert_eq!(waiting.forget_switch(Dpid(1)), [LeafId(2), LeafId(3)]);
        assert!(waiting.has(LeafId(1)));
        assert_eq!(switches(&waiting.take_round()), [2]);
    }

    #[test]
    fn f_is_asked_so_often_in_a_batch_and_anew_in_the_next() {
        let mut waiting = Waiting::default();
        for _ in 0..MAX_ROUNDS {
            waiting.miss([packet(1)]);
            assert_eq!(waiting.take_round().len(), 1);
            assert!(!waiting.is_endless());
        }
        waiting.take_round();
        assert!(waiting.is_endless());
        waiting.begin_batch();
        assert!(!waiting.is_endless());
    }
}
