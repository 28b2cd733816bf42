//! Packets from ports of which it is not known yet what is behind them.
//!
//! A port that has come up is neither edge nor link until discovery had its chance (design §5): nothing is learned from
//! its packets, and f does not run for them. They wait. When the port turns out to be an edge port they enter the
//! network, in the order in which they came and before any later one of that switch. They are dropped and counted if the
//! port turns out to be a link port, if it goes or changes, and when they have waited too long. What waits at a switch is
//! bounded in number, bytes and time ([`super::Options`]); of what comes when it is full nothing is kept.

use maple_wire::Dpid;

use super::leaf::Arrived;
use super::timers::Timer;
use super::{Engine, Time};
use crate::network::{Location, PortKind};

/// The packets that wait at one switch, and until when.
#[derive(Default)]
pub(super) struct Undecided {
    packets: Vec<(Time, Arrived)>,
    /// The bytes of all of them.
    bytes: usize,
}

impl Undecided {
    /// How many packets wait.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    fn push(&mut self, until: Time, arrived: Arrived) {
        self.bytes += arrived.frame.len();
        self.packets.push((until, arrived));
    }

    /// Takes out those of which `which` is true, in order.
    fn take(&mut self, which: impl Fn(Time, &Arrived) -> bool) -> Vec<Arrived> {
        let taken: Vec<Arrived> = self
            .packets
            .extract_if(.., |(until, arrived)| which(*until, arrived))
            .map(|(_, arrived)| arrived)
            .collect();
        self.bytes -= taken.iter().map(|arrived| arrived.frame.len()).sum::<usize>();
        taken
    }
}

impl Engine {
    /// A packet came by a port that is neither edge nor link yet.
    pub(super) fn new_port_packet_in(&mut self, arrived: Arrived) {
        let dpid = arrived.at.switch;
        let until = self.now + self.options.new_port_hold;
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let waiting = &mut switch.undecided;
        let capacity = waiting.packets.len() < self.options.held_packets
            && waiting.bytes + arrived.frame.len() <= self.options.held_bytes;
        if !capacity {
            self.stats.new_port_drops += 1;
            return;
        }
        waiting.push(until, arrived);
        self.timers.insert((until, Timer::NewPorts(dpid)));
    }

    /// What is behind ports of this switch may be known now: lets in what waited at edge ports.
    pub(super) fn admit_undecided(&mut self, dpid: Dpid) {
        let Some(switch) = self.switches.get_mut(&dpid).filter(|switch| !switch.undecided.packets.is_empty()) else {
            return;
        };
        let state = self.store.snapshot();
        let kind = |at: Location| state.port(at).map(|port| port.kind);
        for arrived in switch.undecided.take(|_, arrived| kind(arrived.at) != Some(PortKind::New)) {
            match kind(arrived.at) {
                Some(PortKind::Edge | PortKind::Middlebox) => self.edge_packet_in(arrived),
                _ => self.stats.new_port_drops += 1,
            }
        }
    }

    /// The port is gone or another one now: what came from it says nothing about what will be behind it.
    pub(super) fn forget_undecided(&mut self, at: Location) {
        self.drop_undecided(at.switch, |_, arrived| arrived.at == at);
    }

    /// Drops the packets that have waited long enough.
    pub(super) fn expire_undecided(&mut self, dpid: Dpid) {
        let now = self.now;
        self.drop_undecided(dpid, |until, _| until <= now);
    }

    fn drop_undecided(&mut self, dpid: Dpid, which: impl Fn(Time, &Arrived) -> bool) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        self.stats.new_port_drops += switch.undecided.take(which).len() as u64;
    }
}
