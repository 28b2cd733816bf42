//! Packets from ports of which it is not known yet what is behind them.
//!
//! A port that has come up is neither edge nor link until discovery had its chance (design §5): nothing is learned from
//! its packets, and f does not run for them. They wait. When the port turns out to be an edge port they enter the
//! network, in the order in which they came and before any later one of that switch. They are dropped and counted if the
//! port turns out to be a link port, if it goes or changes, and when they have waited too long. What waits at a switch is
//! bounded in number, bytes and time ([`super::Options`]); of what comes when it is full nothing is kept.

use maple_wire::Dpid;

use super::received_packet::ReceivedPacket;
use super::timers::Timer;
use super::{Engine, Time};
use crate::network::{Location, PortKind};

/// The packets that wait at one switch, and until when.
#[derive(Default)]
pub(super) struct NewPortPackets {
    packets: Vec<(Time, ReceivedPacket)>,
    /// The bytes of all of them.
    bytes: usize,
}

impl NewPortPackets {
    /// How many packets wait.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    fn push(&mut self, until: Time, received: ReceivedPacket) {
        self.bytes += received.frame.len();
        self.packets.push((until, received));
    }

    /// Takes out those of which `which` is true, in order.
    fn take(&mut self, which: impl Fn(Time, &ReceivedPacket) -> bool) -> Vec<ReceivedPacket> {
        let taken: Vec<ReceivedPacket> = self
            .packets
            .extract_if(.., |(until, received)| which(*until, received))
            .map(|(_, received)| received)
            .collect();
        self.bytes -= taken.iter().map(|received| received.frame.len()).sum::<usize>();
        taken
    }
}

impl Engine {
    /// A packet came by a port that is neither edge nor link yet.
    pub(super) fn new_port_packet_in(&mut self, received: ReceivedPacket) {
        let dpid = received.at.switch;
        let until = self.now + self.options.new_port_hold;
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let waiting = &mut switch.new_port_packets;
        let capacity = waiting.packets.len() < self.options.held_packets
            && waiting.bytes + received.frame.len() <= self.options.held_bytes;
        if !capacity {
            self.stats.new_port_drops += 1;
            return;
        }
        waiting.push(until, received);
        self.timers.insert((until, Timer::NewPorts(dpid)));
    }

    /// What is behind ports of this switch may be known now: lets in what waited at edge ports.
    pub(super) fn admit_new_port_packets(&mut self, dpid: Dpid) {
        let Some(switch) = self.switches.get_mut(&dpid).filter(|switch| !switch.new_port_packets.packets.is_empty())
        else {
            return;
        };
        let state = self.store.snapshot();
        let kind = |at: Location| state.port(at).map(|port| port.kind);
        for received in switch.new_port_packets.take(|_, received| kind(received.at) != Some(PortKind::New)) {
            match kind(received.at) {
                Some(PortKind::Edge | PortKind::Middlebox) => self.edge_packet_in(received),
                _ => self.stats.new_port_drops += 1,
            }
        }
    }

    /// The port is gone or another one now: what came from it says nothing about what will be behind it.
    pub(super) fn forget_new_port_packets(&mut self, at: Location) {
        self.drop_new_port_packets(at.switch, |_, received| received.at == at);
    }

    /// Drops the packets that have waited long enough.
    pub(super) fn expire_new_port_packets(&mut self, dpid: Dpid) {
        let now = self.now;
        self.drop_new_port_packets(dpid, |until, _| until <= now);
    }

    fn drop_new_port_packets(&mut self, dpid: Dpid, which: impl Fn(Time, &ReceivedPacket) -> bool) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        self.stats.new_port_drops += switch.new_port_packets.take(which).len() as u64;
    }
}
