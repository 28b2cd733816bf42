//! The ports of a switch, and the hosts that may enter by them.

pub(in crate::engine) mod host_rules;
pub(in crate::engine) mod new_port_packets;

use std::collections::BTreeMap;

use maple_wire::{Dpid, PortNo};

use crate::engine::context::options::Options;
use crate::engine::one_switch::cookies::{copy_cookie, own_cookie};
use crate::engine::one_switch::layout::Layout;
use crate::engine::tools::backoff::Backoff;
use crate::ids::Time;
use crate::network::Mac;
use host_rules::{HostCookies, HostRules};
use new_port_packets::NewPortPackets;

/// The ports of a switch, as far as the engine knows more of them than the tracked state does.
pub(in crate::engine) struct Ports {
    /// The hardware addresses of the ports.
    addresses: BTreeMap<PortNo, Mac>,
    /// The edge ports, each with the time since when it is one.
    edges: BTreeMap<PortNo, Time>,
    /// The link ports, each with the time since when it is one.
    linked: BTreeMap<PortNo, Time>,
    /// Packets from ports whose kind is not known yet.
    pub new_port_packets: NewPortPackets,
    /// The pauses between questions for the switch's ports.
    questions: Backoff,
    /// The rules for hosts in the classifier.
    pub host_rules: HostRules,
}

impl Ports {
    /// Creates the ports of a switch of which nothing is known yet.
    pub fn new(dpid: Dpid, layout: Layout, options: &Options) -> Ports {
        let cookies = HostCookies { others: own_cookie(options.epoch), copies: copy_cookie(options.epoch) };
        Ports {
            addresses: BTreeMap::new(),
            edges: BTreeMap::new(),
            linked: BTreeMap::new(),
            new_port_packets: NewPortPackets::default(),
            questions: Backoff::default(),
            host_rules: HostRules::new(layout, cookies, options.facts.placed_at(dpid).collect()),
        }
    }

    /// Sets the hardware addresses of all ports.
    pub fn set_addresses(&mut self, addresses: impl IntoIterator<Item = (PortNo, Mac)>) {
        self.addresses = addresses.into_iter().collect();
    }

    /// Sets the hardware address of a port.
    pub fn set_address(&mut self, port: PortNo, address: Mac) {
        self.addresses.insert(port, address);
    }

    /// Reports whether a port has this hardware address.
    pub fn have_address(&self, address: Mac) -> bool {
        self.addresses.values().any(|own| *own == address)
    }

    /// Notes that a port is an edge port. Returns whether it was none before.
    pub fn note_edge(&mut self, now: Time, port: PortNo) -> bool {
        let is_new = !self.edges.contains_key(&port);
        if is_new {
            self.edges.insert(port, now);
        }
        is_new
    }

    /// Notes that a port is not an edge port. Returns whether it was one before.
    pub fn forget_edge(&mut self, port: PortNo) -> bool {
        self.edges.remove(&port).is_some()
    }

    /// Returns the edge ports, each with the time since when it is one.
    pub fn edges(&self) -> impl Iterator<Item = (PortNo, Time)> {
        self.edges.iter().map(|(port, since)| (*port, *since))
    }

    /// Notes whether a port is a link port.
    pub fn note_linked(&mut self, now: Time, port: PortNo, is_linked: bool) {
        if is_linked {
            self.linked.entry(port).or_insert(now);
        } else {
            self.linked.remove(&port);
        }
    }

    /// Returns since when a port is a link port; `None` if it is not one.
    pub fn linked_since(&self, port: PortNo) -> Option<Time> {
        self.linked.get(&port).copied()
    }

    /// Reports whether the switch may be asked for its ports now. If so, counts the question.
    pub fn take_question(&mut self, now: Time) -> bool {
        self.questions.take_try(now)
    }

    /// Copies what is known, without packets that wait.
    pub fn copy(&self) -> Ports {
        Ports {
            addresses: self.addresses.clone(),
            edges: self.edges.clone(),
            linked: self.linked.clone(),
            new_port_packets: NewPortPackets::default(),
            questions: Backoff::default(),
            host_rules: self.host_rules.clone(),
        }
    }
}

/// The first number of virtual ports. No packet enters or leaves by a virtual port, and no switch has a real port with
/// such a number. The last one is `OFPP_MAX`, 0xffffff00 (1.3 §7.2.1).
pub(crate) const FIRST_VIRTUAL: u32 = 0xf000_0000;

/// Reports whether a port is one end of a link through the controller.
pub(crate) const fn is_virtual(port: PortNo) -> bool {
    port.0 >= FIRST_VIRTUAL && port.0 <= PortNo::MAX.0
}

/// Reports whether a switch can have a port with this number.
pub(in crate::engine) const fn is_physical(port: PortNo) -> bool {
    port.is_ordinary_or_local() && !is_virtual(port)
}
