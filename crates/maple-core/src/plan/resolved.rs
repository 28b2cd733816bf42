//! A checked route: what each switch does with the packet.

use std::collections::{BTreeMap, BTreeSet};

use maple_wire::{Dpid, Field, FieldSet, PortNo, Version};

use super::Meter;
use crate::network::{Location, OwnFrame};

/// A checked route: what each switch does with the packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Resolved {
    /// The switches that send the packet on, by datapath id. A drop has none.
    pub switches: BTreeMap<Dpid, SwitchHops>,
    /// The meter that the packet passes at the ingress (OpenFlow 1.3).
    pub meter: Option<Meter>,
    /// Frames that f sends itself. No rule can do that, so each packet of this kind comes to the controller.
    pub own: Vec<OwnFrame>,
    /// Whether a constraint demands that the packet passes the switches between. Then it goes nowhere without rules: the
    /// controller would send it from edge port to edge port.
    pub keeps_way: bool,
}

/// What one switch does with a packet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SwitchHops {
    /// The link port it arrives by; `None` at the ingress.
    pub arrives: Option<PortNo>,
    /// The links that it leaves by, and the port of the next switch where each ends.
    pub links: BTreeMap<PortNo, Location>,
    /// The edge ports it leaves by.
    pub edges: BTreeSet<PortNo>,
    /// What is done to it before it leaves by an edge port.
    pub treatment: Treatment,
    /// Whether the packet has a VLAN tag; known only if the treatment rewrites the VLAN id.
    pub tagged: bool,
}

impl Resolved {
    /// How many edge ports the packet leaves by.
    pub fn egress_count(&self) -> usize {
        self.switches.values().map(|hops| hops.edges.len()).sum()
    }

    /// Removes the ingress switch if it sends nothing: a drop has no switches.
    pub(super) fn pruned(mut self, ingress: Dpid) -> Resolved {
        self.switches.retain(|switch, hops| *switch != ingress || !hops.links.is_empty() || !hops.edges.is_empty());
        self
    }
}

/// What is done to the packet when it leaves the network.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Treatment {
    /// Header fields to rewrite, one value for each.
    pub rewrites: BTreeMap<Field, u128>,
    /// The queue of the egress ports to use.
    pub queue: Option<u32>,
}

impl Treatment {
    /// As text, such as `set vlan_vid=10 queue 2`.
    pub(crate) fn text(&self) -> String {
        let shown = |field: Field, value: u128| match field {
            Field::VlanVid => (value & 0xfff).to_string(),
            _ => crate::trace::text(field, value),
        };
        let mut parts: Vec<String> = Vec::new();
        parts.extend(self.rewrites.iter().map(|(field, value)| format!("set {field}={}", shown(*field, *value))));
        parts.extend(self.queue.iter().map(|queue| format!("queue {queue}")));
        parts.join(" ")
    }

    /// This treatment and `later` after it, as one.
    pub(crate) fn then(&self, later: &Treatment) -> Treatment {
        let mut rewrites = self.rewrites.clone();
        if rewrites.get(&Field::VlanVid) == Some(&0) && later.rewrites.contains_key(&Field::VlanVid) {
            // The tag is gone, and a new one has priority 0.
            rewrites.insert(Field::VlanPcp, 0);
        }
        rewrites.extend(&later.rewrites);
        if rewrites.get(&Field::VlanVid) == Some(&0) {
            // The priority goes with the tag.
            rewrites.remove(&Field::VlanPcp);
        }
        Treatment { rewrites, queue: later.queue.or(self.queue) }
    }
}

/// Whether switches can rewrite a field (1.0 §5.2.4; 1.3 §7.2.5, as far as Open vSwitch does it).
pub fn is_settable(field: Field, version: Version) -> bool {
    const OF10: FieldSet = FieldSet::of(&[
        Field::EthDst,
        Field::EthSrc,
        Field::VlanVid,
        Field::VlanPcp,
        Field::IpDscp,
        Field::Ipv4Src,
        Field::Ipv4Dst,
        Field::TcpSrc,
        Field::TcpDst,
        Field::UdpSrc,
        Field::UdpDst,
    ]);
    const FIXED: FieldSet = FieldSet::of(&[
        Field::InPort,
        Field::InPhyPort,
        Field::Metadata,
        Field::EthType,
        Field::IpProto,
        Field::Ipv6Exthdr,
        Field::MplsBos,
        Field::PbbIsid,
    ]);
    match version {
        Version::Of10 => OF10.contains(field),
        Version::Of13 => !FIXED.contains(field),
    }
}
