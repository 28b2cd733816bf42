//! A checked route: the actions of each switch on the packet.

use std::collections::{BTreeMap, BTreeSet};

use maple_wire::{Dpid, Field, FieldSet, PortNo, Version};

use super::Meter;
use crate::network::{Location, OwnFrame};

/// A checked route: the hops of each switch that the packet passes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Resolved {
    /// The switches that forward the packet, by datapath id. A drop has none.
    pub switches: BTreeMap<Dpid, SwitchHops>,
    /// The meter that the packet passes at the ingress (OpenFlow 1.3).
    pub meter: Option<Meter>,
    /// Frames that f sends itself. No rule can do that, so each packet of this kind comes to the controller.
    pub own: Vec<OwnFrame>,
    /// Whether a constraint demands that the packet passes the switches between ingress and egress. Then it is dropped
    /// while rules are missing, because the controller would send it from edge port to edge port.
    pub must_follow_hops: bool,
}

/// The ports by which one switch forwards a packet, and the treatment of the packet there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SwitchHops {
    /// The link port by which the packet arrives; `None` at the ingress.
    pub arrives: Option<PortNo>,
    /// The links by which the packet leaves, and the port of the next switch where each ends.
    pub links: BTreeMap<PortNo, Location>,
    /// The edge ports by which the packet leaves.
    pub edges: BTreeSet<PortNo>,
    /// The treatment of the packet before it leaves by an edge port.
    pub treatment: Treatment,
    /// Whether the packet has a VLAN tag; known only if the treatment rewrites the VLAN id.
    pub tagged: bool,
}

impl Resolved {
    /// Returns the number of edge ports by which the packet leaves.
    pub fn egress_count(&self) -> usize {
        self.switches.values().map(|hops| hops.edges.len()).sum()
    }

    /// Removes the ingress switch if it sends nothing: a drop has no switches.
    pub(super) fn pruned(mut self, ingress: Dpid) -> Resolved {
        self.switches.retain(|switch, hops| *switch != ingress || !hops.links.is_empty() || !hops.edges.is_empty());
        self
    }
}

/// The rewrites and the queue of a packet when it leaves the network.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Treatment {
    /// Header fields to rewrite, one value for each.
    pub rewrites: BTreeMap<Field, u128>,
    /// The queue of the egress ports to use.
    pub queue: Option<u32>,
}

impl Treatment {
    /// Returns the treatment as text, such as `set vlan_vid=10 queue 2`.
    pub(crate) fn text(&self) -> String {
        let shown = |field: Field, value: u128| match field {
            Field::VlanVid => (value & 0xfff).to_string(),
            _ => crate::trace::field_value_text(field, value),
        };
        let mut parts: Vec<String> = Vec::new();
        parts.extend(self.rewrites.iter().map(|(field, value)| format!("set {field}={}", shown(*field, *value))));
        parts.extend(self.queue.iter().map(|queue| format!("queue {queue}")));
        parts.join(" ")
    }

    /// Combines this treatment and `later` after it.
    pub(crate) fn then(&self, later: &Treatment) -> Treatment {
        let mut rewrites = self.rewrites.clone();
        if rewrites.get(&Field::VlanVid) == Some(&0) && later.rewrites.contains_key(&Field::VlanVid) {
            // The old tag is gone, and a new one has priority 0.
            rewrites.insert(Field::VlanPcp, 0);
        }
        rewrites.extend(&later.rewrites);
        if rewrites.get(&Field::VlanVid) == Some(&0) {
            // The priority is removed with the tag.
            rewrites.remove(&Field::VlanPcp);
        }
        Treatment { rewrites, queue: later.queue.or(self.queue) }
    }
}

/// Reports whether switches can rewrite a field (1.0 §5.2.4; 1.3 §7.2.5, as far as Open vSwitch does it).
pub fn is_settable(field: Field, version: Version) -> bool {
    const FIXED: FieldSet = FieldSet::from_fields(&[
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
        Version::Of10 => field.is_settable10(),
        Version::Of13 => !FIXED.contains(field),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_tag_has_priority_0() {
        let write = |writes: &[(Field, u128)]| {
            let rewrites: BTreeMap<Field, u128> = writes.iter().copied().collect();
            Treatment { rewrites, queue: None }
        };
        let popped = write(&[(Field::VlanVid, 0)]);
        let pushed = popped.then(&write(&[(Field::VlanVid, 20)]));
        assert_eq!(pushed, write(&[(Field::VlanVid, 20), (Field::VlanPcp, 0)]));
        let priority = write(&[(Field::VlanPcp, 3)]);
        assert_eq!(priority.then(&popped), popped);
        assert_eq!(priority.then(&write(&[(Field::VlanVid, 20)])), write(&[(Field::VlanVid, 20), (Field::VlanPcp, 3)]));
    }
}
