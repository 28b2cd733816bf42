//! The ports of a switch, and the hosts that may enter by them.

pub(in crate::engine) mod host_rules;
pub(in crate::engine) mod new_port_packets;

use std::collections::BTreeMap;

use maple_wire::{Dpid, PortNo};

use crate::engine::context::backoff::Backoff;
use crate::engine::context::options::Options;
use crate::engine::one_switch::cookies::{copy_cookie, own_cookie};
use crate::engine::one_switch::layout::Layout;
use crate::ids::Time;
use crate::network::Mac;
use host_rules::{HostCookies, HostRules};
use new_port_packets::NewPortPackets;

/// What the engine knows of a switch's ports beyond the tracked state.
pub(in crate::engine) struct Ports {
    /// The hardware addresses of the ports.
    pub addresses: BTreeMap<PortNo, Mac>,
    /// The edge ports, each with the time since when it is one.
    pub edges: BTreeMap<PortNo, Time>,
    /// The link ports, each with the time since when it is one.
    pub linked: BTreeMap<PortNo, Time>,
    /// Packets from ports whose kind is not known yet.
    pub new_port_packets: NewPortPackets,
    /// The pauses between questions for the switch's ports.
    pub questions: Backoff,
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
/// such a number.
pub(crate) const FIRST_VIRTUAL: u32 = 0xf000_0000;

/// Reports whether a port is one end of a link through the controller.
pub(crate) const fn is_virtual(port: PortNo) -> bool {
    port.0 >= FIRST_VIRTUAL && port.0 <= PortNo::MAX.0
}

/// Reports whether a switch can have a port with this number.
pub(in crate::engine) const fn is_physical(port: PortNo) -> bool {
    port.is_ordinary_or_local() && !is_virtual(port)
}
