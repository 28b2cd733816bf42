//! Packets that wait for the engine while a policy is slower than new flows arrive.
//!
//! Sockets are always read, so echoes are answered and LLDP is handled at once, however many packets wait. The engine
//! gets as many packets a turn as it can handle in time; the others wait here. The queues are served round-robin: one
//! packet of each switch, of each port of that switch in turn, the oldest first. So a port that floods delays another
//! port by one packet.
//!
//! Memory: [`SWITCH_SHARE`] bytes for each switch, divided evenly among its ports with waiting packets. When a port's
//! share is full, its newest packet is shed. A switch that invents ports gets at most [`SWITCH_LIMIT`] bytes.
//!
//! Cost: none while the engine keeps up, because nothing is queued.

use std::collections::VecDeque;

use maple_wire::msg::PacketIn;
use maple_wire::{Dpid, PortNo};
use rustc_hash::FxHashMap;

/// The number of bytes of packets that may wait for one switch, divided evenly among its ports. Chosen: about 800
/// packets of 1,000 bytes. A policy that takes a millisecond for each decides them within a second.
const SWITCH_SHARE: usize = 1024 * 1024;
/// The maximum number of bytes that may wait for one switch, whatever the number of its ports. Chosen: ports that wait
/// already keep theirs while others come, and a switch that invents ports gets no more than this.
const SWITCH_LIMIT: usize = 4 * SWITCH_SHARE;
/// The number of bytes that a packet costs besides its data: an estimate of its fields and its places in queues.
const OVERHEAD: usize = 256;

/// Waiting packets by switch and port.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    switches: FxHashMap<Dpid, Waiting>,
    /// The round-robin order: each switch with packets once.
    turns: VecDeque<Dpid>,
    len: usize,
}

/// The packets of one switch.
#[derive(Debug, Default)]
struct Waiting {
    ports: FxHashMap<PortNo, Queue>,
    /// The round-robin order: each port with packets once.
    turns: VecDeque<PortNo>,
    bytes: usize,
}

/// The packets of one port, oldest first.
#[derive(Debug, Default)]
struct Queue {
    packets: VecDeque<PacketIn>,
    bytes: usize,
}

impl Backlog {
    /// Reports whether no packet is waiting.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of packets that wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Queues a packet. Returns `false` if it is shed.
    pub fn push(&mut self, dpid: Dpid, packet: PacketIn) -> bool {
        let switch = self.switches.entry(dpid).or_default();
        if switch.turns.is_empty() {
            self.turns.push_back(dpid);
        }
        let kept = switch.push(packet);
        if switch.turns.is_empty() {
            self.turns.pop_back();
        }
        self.len += usize::from(kept);
        kept
    }

    /// Takes the next packet in round-robin order.
    pub fn pop(&mut self) -> Option<(Dpid, PacketIn)> {
        let dpid = self.turns.pop_front()?;
        let popped = self.switches.get_mut(&dpid).and_then(|switch| Some((switch.pop()?, switch.turns.is_empty())));
        debug_assert!(popped.is_some(), "{dpid} has a turn but no packet");
        let (packet, is_last) = popped?;
        if is_last {
            self.switches.remove(&dpid);
        } else {
            self.turns.push_back(dpid);
        }
        self.len -= 1;
        Some((dpid, packet))
    }

    /// Drops the packets of a switch, and returns their number.
    pub fn forget_switch(&mut self, dpid: Dpid) -> usize {
        let dropped = self.switches.remove(&dpid).map_or(0, |switch| switch.len());
        if dropped > 0 {
            self.turns.retain(|turn| *turn != dpid);
            self.len -= dropped;
        }
        dropped
    }

    /// Drops the packets of a port, and returns their number.
    pub fn forget_port(&mut self, dpid: Dpid, port: PortNo) -> usize {
        match self.switches.get_mut(&dpid) {
            Some(switch) if switch.ports.len() > 1 => {
                let dropped = switch.forget_port(port);
                self.len -= dropped;
                dropped
            }
            Some(switch) if switch.ports.contains_key(&port) => self.forget_switch(dpid),
            _ => 0,
        }
    }
}

impl Waiting {
    fn push(&mut self, packet: PacketIn) -> bool {
        let (port, bytes) = (packet.in_port().unwrap_or(PortNo::ANY), cost(&packet));
        let ports = self.ports.len() + usize::from(!self.ports.contains_key(&port));
        let waiting = self.ports.get(&port).map_or(0, |queue| queue.bytes);
        if waiting + bytes > SWITCH_SHARE / ports || self.bytes + bytes > SWITCH_LIMIT {
            return false;
        }
        let queue = self.ports.entry(port).or_default();
        if queue.packets.is_empty() {
            self.turns.push_back(port);
        }
        queue.packets.push_back(packet);
        queue.bytes += bytes;
        self.bytes += bytes;
        true
    }

    /// Drops the packets of a port, and returns their number.
    fn forget_port(&mut self, port: PortNo) -> usize {
        self.turns.retain(|turn| *turn != port);
        self.ports.remove(&port).map_or(0, |queue| {
            self.bytes -= queue.bytes;
            queue.packets.len()
        })
    }

    /// Returns the number of packets.
    fn len(&self) -> usize {
        self.ports.values().map(|queue| queue.packets.len()).sum()
    }

    fn pop(&mut self) -> Option<PacketIn> {
        let port = self.turns.pop_front()?;
        let queue = self.ports.get_mut(&port)?;
        let packet = queue.packets.pop_front()?;
        queue.bytes -= cost(&packet);
        self.bytes -= cost(&packet);
        if queue.packets.is_empty() {
            self.ports.remove(&port);
        } else {
            self.turns.push_back(port);
        }
        Some(packet)
    }
}

fn cost(packet: &PacketIn) -> usize {
    packet.data.len() + OVERHEAD
}

#[cfg(test)]
mod tests {

    use super::*;

    /// Creates a packet of a port, with a number.
    fn packet(port: u32, n: u16) -> PacketIn {
        PacketIn { total_len: n, cookie: 0, ..PacketIn::new(port, vec![0; 1000]) }
    }

    fn order(backlog: &mut Backlog) -> Vec<(u64, u32, u16)> {
        std::iter::from_fn(|| backlog.pop())
            .map(|(dpid, packet)| (dpid.0, packet.in_port().unwrap().0, packet.total_len))
            .collect()
    }

    #[test]
    fn switches_and_ports_take_turns_and_each_port_gets_its_oldest_first() {
        let mut backlog = Backlog::default();
        for (dpid, port, n) in [(1, 1, 0), (1, 1, 1), (1, 1, 2), (1, 2, 3), (2, 1, 4), (2, 1, 5)] {
            assert!(backlog.push(Dpid(dpid), packet(port, n)));
        }
        let expected = [(1, 1, 0), (2, 1, 4), (1, 2, 3), (2, 1, 5), (1, 1, 1), (1, 1, 2)];
        assert_eq!(order(&mut backlog), expected);
        assert!(backlog.is_empty() && backlog.switches.is_empty() && backlog.turns.is_empty());
    }

    #[test]
    fn a_port_that_floods_sheds_its_newest_packets_and_no_others() {
        let mut backlog = Backlog::default();
        let kept = (0..5000).filter(|n| backlog.push(Dpid(1), packet(1, *n))).count();
        assert_eq!(kept, SWITCH_SHARE / (1000 + OVERHEAD));
        assert!(backlog.push(Dpid(1), packet(2, 0)), "another port of the switch has its share");
        assert!(backlog.push(Dpid(2), packet(1, 0)), "and so has another switch");
        let served = order(&mut backlog);
        assert_eq!(served[..3], [(1, 1, 0), (2, 1, 0), (1, 2, 0)]);
        let flood: Vec<u16> = served.iter().filter(|(dpid, port, _)| (*dpid, *port) == (1, 1)).map(|s| s.2).collect();
        assert_eq!(flood, (0..kept as u16).collect::<Vec<_>>(), "the oldest were kept");
    }

    #[test]
    fn a_switch_that_invents_ports_is_bounded() {
        let mut backlog = Backlog::default();
        let kept = (0..100_000).filter(|port| backlog.push(Dpid(1), packet(*port, 0))).count();
        assert!(kept * 1000 <= SWITCH_LIMIT, "{kept}");
        assert_eq!((backlog.len, backlog.forget_switch(Dpid(1)), backlog.len), (kept, kept, 0));
    }

    #[test]
    fn packets_of_a_port_that_changed_are_dropped() {
        let mut backlog = Backlog::default();
        for (port, n) in [(1, 0), (1, 1), (2, 2)] {
            backlog.push(Dpid(1), packet(port, n));
        }
        assert_eq!(backlog.forget_port(Dpid(1), PortNo(1)), 2);
        assert_eq!(order(&mut backlog), [(1, 2, 2)]);
        backlog.push(Dpid(1), packet(2, 3));
        assert_eq!((backlog.forget_port(Dpid(1), PortNo(2)), backlog.pop()), (1, None));
        assert_eq!(backlog.forget_port(Dpid(1), PortNo(2)), 0);
    }
}
