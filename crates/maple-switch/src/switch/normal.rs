//! The output to `NORMAL`: the behaviour of a switch without a controller (1.0 §5.2.4, 1.3 §4.5). It learns the ports
//! of addresses, and sends a frame there or everywhere, separately for each VLAN.

use std::collections::BTreeMap;

use maple_wire::packet::ethernet::RESERVED;
use maple_wire::{Field, PortNo};

use super::pipeline::PacketInSwitch;
use super::{Lost, Outgoing, Switch};
use crate::time::{Nanoseconds, SECOND};

/// The maximum number of learned addresses, which hosts choose: the default of Open vSwitch (`mac-table-size`).
const MAX_LEARNED: usize = 8192;
/// The time for which an address is remembered after a frame from it: five minutes, as bridges do (IEEE 802.1D).
const REMEMBERED: Nanoseconds = 300 * SECOND;
/// The bit of an address that stands for a group of hosts.
const GROUP: u128 = 1 << 40;
/// The id of a VLAN within its field.
const VLAN_ID: u128 = 0xfff;

/// The ports of addresses and the times of their last frames, by VLAN and address.
#[derive(Clone, Debug, Default)]
pub(super) struct Learned(BTreeMap<(u128, u128), (PortNo, Nanoseconds)>);

impl Learned {
    /// Learns the port of a frame's source address.
    fn learn(&mut self, now: Nanoseconds, vlan: u128, source: u128, port: PortNo) {
        if source & GROUP != 0 {
            return;
        }
        if self.0.len() >= MAX_LEARNED && !self.0.contains_key(&(vlan, source)) {
            let oldest = self.0.iter().min_by_key(|(_, (_, seen))| *seen).map(|(key, _)| *key);
            oldest.map(|key| self.0.remove(&key));
        }
        self.0.insert((vlan, source), (port, now));
    }

    fn port(&self, now: Nanoseconds, vlan: u128, destination: u128) -> Option<PortNo> {
        self.0.get(&(vlan, destination)).filter(|(_, seen)| now < seen + REMEMBERED).map(|(port, _)| *port)
    }
}

impl Switch {
    /// Sends a packet as a learning switch does.
    pub(super) fn normal(
        &mut self,
        now: Nanoseconds,
        passing: &PacketInSwitch,
        queue: Option<u32>,
        out: &mut Vec<Outgoing>,
    ) {
        let (packet, in_port) = (passing.flight.packet(), passing.flight.in_port);
        let value = |field| packet.switch_value(field).unwrap_or(0);
        let (vlan, source, destination) = (value(Field::VlanVid) & VLAN_ID, value(Field::EthSrc), value(Field::EthDst));
        if RESERVED.iter().any(|(value, mask)| destination & mask == *value) {
            self.record.lost.push(Lost::Reserved);
            return;
        }
        // A packet that a controller injects without a port does not show where its source is.
        if self.ports.contains_key(&in_port) {
            self.learned.learn(now, vlan, source, in_port);
        }
        match self.learned.port(now, vlan, destination) {
            Some(port) if port == in_port => self.record.lost.push(Lost::ToIngress(port)),
            Some(port) => self.transmit(passing, port, queue, out),
            None => self.flood(passing, PortNo::FLOOD, queue, out),
        }
    }
}
