//! The ports of a switch: their descriptions, counters and changes.

use maple_wire::msg::{PortReason, PortStatus};
use maple_wire::{Message, Port, PortNo, Version};

use super::{Outgoing, Switch};
use crate::time::Nanoseconds;

/// `OFPPS_LIVE` (1.3).
const STATE_LIVE: u32 = 1 << 2;

/// A port with its counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchPort {
    /// Its description for the controller.
    pub description: Port,
    /// Its counters.
    pub counters: PortCounters,
    /// The maximum rate of the port, in bits a second; `None`: no maximum.
    pub rate: Option<u64>,
    pub(super) added: Nanoseconds,
}

/// The counters of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets refused on reception.
    pub rx_dropped: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets refused on sending.
    pub tx_dropped: u64,
}

impl Switch {
    /// Adds a port that is up, or brings an existing one up.
    pub fn add_port(&mut self, now: Nanoseconds, number: PortNo) -> Vec<Outgoing> {
        if self.ports.contains_key(&number) {
            return self.set_link(number, true);
        }
        let id = self.dpid.0.to_be_bytes();
        let hw_addr = [0x0e, id[6], id[7], (number.0 >> 16) as u8, (number.0 >> 8) as u8, number.0 as u8];
        let name = format!("s{}-eth{}", self.dpid.0, number.0);
        let mut description = Port::new(number, hw_addr, &name);
        if self.version == Version::Of13 {
            description.state = STATE_LIVE;
            (description.curr_speed, description.max_speed) = (10_000_000, 10_000_000);
        }
        // 10 Gb full duplex (bit 6), copper: bit 11 in 1.3, bit 7 in 1.0.
        description.curr = 1 << 6 | if self.version == Version::Of13 { 1 << 11 } else { 1 << 7 };
        let port = SwitchPort { description, counters: PortCounters::default(), rate: None, added: now };
        self.ports.insert(number, port);
        self.port_status(PortReason::Add, number)
    }

    /// Removes a port. Rules that output to it stay and lose their packets.
    pub fn remove_port(&mut self, number: PortNo) -> Vec<Outgoing> {
        let messages = self.port_status(PortReason::Delete, number);
        self.ports.remove(&number);
        messages
    }

    /// Sets whether the port's link is up. Does nothing for a missing port, or if the state does not change.
    pub fn set_link(&mut self, number: PortNo, up: bool) -> Vec<Outgoing> {
        let of13 = self.version == Version::Of13;
        let Some(port) = self.ports.get_mut(&number) else { return Vec::new() };
        let state = match (up, of13) {
            (true, true) => STATE_LIVE,
            (true, false) => 0,
            (false, _) => Port::STATE_LINK_DOWN,
        };
        if port.description.state == state {
            return Vec::new();
        }
        port.description.state = state;
        self.port_status(PortReason::Modify, number)
    }

    /// Takes a port down or up, as its operator would at the switch itself.
    pub fn set_port_down(&mut self, number: PortNo, down: bool) -> Vec<Outgoing> {
        let Some(port) = self.ports.get_mut(&number) else { return Vec::new() };
        let before = port.description.config;
        let config = if down { before | Port::CONFIG_DOWN } else { before & !Port::CONFIG_DOWN };
        if config == before {
            return Vec::new();
        }
        port.description.config = config;
        self.port_status(PortReason::Modify, number)
    }

    pub(super) fn port_status(&self, reason: PortReason, number: PortNo) -> Vec<Outgoing> {
        match self.ports.get(&number) {
            Some(port) => {
                let message = Message::PortStatus(PortStatus { reason, port: port.description.clone() });
                let mut out = Vec::new();
                self.notify(|connection| connection.wants_port_status(reason), message, &mut out);
                out
            }
            None => Vec::new(),
        }
    }
}
