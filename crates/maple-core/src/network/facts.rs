//! The declarations of the configuration about ports and hosts. Nothing that happens in the network changes them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;

use maple_wire::{Dpid, PortNo};
use serde::{Deserialize, Serialize};

use super::{Location, Mac};

/// Numbers of ports, as ranges: a range of many ports takes no more memory than one port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortSet(pub Vec<RangeInclusive<u32>>);

impl PortSet {
    /// Reports whether the set has this port.
    pub fn contains(&self, port: PortNo) -> bool {
        self.0.iter().any(|range| range.contains(&port.0))
    }

    /// Reports whether the set has all ports of this range.
    pub fn covers(&self, range: &RangeInclusive<u32>) -> bool {
        let mut next = u64::from(*range.start());
        while next <= u64::from(*range.end()) {
            let Some(found) = self.0.iter().find(|own| own.contains(&(next as u32))) else { return false };
            next = u64::from(*found.end()) + 1;
        }
        true
    }

    /// Returns a port that both sets have.
    pub fn common(&self, other: &PortSet) -> Option<PortNo> {
        let pairs = self.0.iter().flat_map(|a| other.0.iter().map(move |b| (a, b)));
        pairs
            .map(|(a, b)| (*a.start().max(b.start()), *a.end().min(b.end())))
            .find(|(a, b)| a <= b)
            .map(|(a, _)| PortNo(a))
    }
}

/// The roles that a port may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortRole {
    /// Any role that discovery finds.
    #[default]
    Any,
    /// An edge port, whatever packets arrive there.
    Edge,
    /// A link port, never an edge port.
    Link,
    /// No role: packets neither enter nor leave.
    Closed,
}

/// The declarations about a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchFacts {
    /// The ports that are used; `None` for all.
    pub ports: Option<PortSet>,
    /// The declared edge ports.
    pub edge: PortSet,
    /// The declared link ports.
    pub link: PortSet,
    /// The maximum numbers of hosts at ports. The first item that has the port counts.
    pub max_hosts: Vec<(PortSet, usize)>,
}

/// The declarations about a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    /// The only place where the host may be; `None` for anywhere.
    pub at: Option<Location>,
    /// The addresses that belong to this host and no other.
    pub addresses: BTreeSet<IpAddr>,
}

/// All declarations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "DeclaredFacts")]
pub struct Facts {
    switches: BTreeMap<Dpid, SwitchFacts>,
    hosts: BTreeMap<Mac, HostFacts>,
    #[serde(skip)]
    owners: BTreeMap<IpAddr, Mac>,
}

/// All declarations as they are read: the owners follow from them.
#[derive(Deserialize)]
struct DeclaredFacts {
    switches: BTreeMap<Dpid, SwitchFacts>,
    hosts: BTreeMap<Mac, HostFacts>,
}

impl From<DeclaredFacts> for Facts {
    fn from(DeclaredFacts { switches, hosts }: DeclaredFacts) -> Facts {
        Facts::new(switches, hosts)
    }
}

impl Facts {
    /// Collects the declarations about these switches and hosts. If two hosts have the same address, it belongs to the
    /// first.
    pub fn new(switches: BTreeMap<Dpid, SwitchFacts>, hosts: BTreeMap<Mac, HostFacts>) -> Facts {
        let mut owners = BTreeMap::new();
        for (mac, host) in &hosts {
            for ip in &host.addresses {
                owners.entry(*ip).or_insert(*mac);
            }
        }
        Facts { switches, hosts, owners }
    }

    /// Reports whether something is declared about this switch.
    pub fn names(&self, dpid: Dpid) -> bool {
        self.switches.contains_key(&dpid)
    }

    /// Returns the declared role of a port.
    ///
    /// ```
    /// use maple_core::network::{Facts, Location, PortRole, PortSet, SwitchFacts};
    /// use maple_wire::{Dpid, PortNo};
    ///
    /// let edge = PortSet(vec![1..=24]);
    /// let facts = Facts::new([(Dpid(1), SwitchFacts { edge, ..SwitchFacts::default() })].into(), [].into());
    /// assert_eq!(facts.role(Location::new(Dpid(1), PortNo(24))), PortRole::Edge);
    /// assert_eq!(facts.role(Location::new(Dpid(1), PortNo(25))), PortRole::Any);
    /// ```
    pub fn role(&self, at: Location) -> PortRole {
        match self.switches.get(&at.switch) {
            None => PortRole::Any,
            Some(switch) if switch.ports.as_ref().is_some_and(|ports| !ports.contains(at.port)) => PortRole::Closed,
            Some(switch) if switch.edge.contains(at.port) => PortRole::Edge,
            Some(switch) if switch.link.contains(at.port) => PortRole::Link,
            Some(_) => PortRole::Any,
        }
    }

    /// Returns the maximum number of hosts at this port, if it has one of its own.
    pub fn max_hosts(&self, at: Location) -> Option<usize> {
        let limits = &self.switches.get(&at.switch)?.max_hosts;
        limits.iter().find(|(ports, _)| ports.contains(at.port)).map(|(_, most)| *most)
    }

    /// Returns the only place where this host may be, if one is declared.
    pub fn place(&self, mac: Mac) -> Option<Location> {
        self.hosts.get(&mac)?.at
    }

    /// Returns the hosts that have a fixed place at this switch.
    pub fn placed_at(&self, dpid: Dpid) -> impl Iterator<Item = (PortNo, Mac)> {
        let hosts = self.hosts.iter().filter_map(|(mac, host)| Some((*mac, host.at?)));
        hosts.filter(move |(_, at)| at.switch == dpid).map(|(mac, at)| (at.port, mac))
    }

    /// Returns the addresses that belong to this host.
    pub fn addresses(&self, mac: Mac) -> impl Iterator<Item = IpAddr> {
        self.hosts.get(&mac).into_iter().flat_map(|host| host.addresses.iter().copied())
    }

    /// Returns the host to which this address belongs.
    pub fn owner(&self, ip: IpAddr) -> Option<Mac> {
        self.owners.get(&ip).copied()
    }

    /// Reports whether some host may be in one place only.
    pub fn has_places(&self) -> bool {
        self.hosts.values().any(|host| host.at.is_some())
    }

    /// Returns the switches that have declarations.
    pub fn switches(&self) -> impl Iterator<Item = (&Dpid, &SwitchFacts)> {
        self.switches.iter()
    }

    /// Returns the hosts that have declarations.
    pub fn hosts(&self) -> impl Iterator<Item = (&Mac, &HostFacts)> {
        self.hosts.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_ports_have_a_common_port_or_not() {
        let (low, high) = (PortSet(vec![1..=4, 9..=9]), PortSet(vec![5..=8, 9..=20]));
        assert_eq!(low.common(&high), Some(PortNo(9)));
        assert_eq!(PortSet(vec![1..=4]).common(&high), None);
        assert!(high.covers(&(6..=20)) && !high.covers(&(0..=u32::MAX)) && !low.covers(&(1..=9)));
        assert!(PortSet(vec![0..=u32::MAX]).covers(&(7..=u32::MAX)));
    }

    #[test]
    fn ports_that_are_not_listed_are_closed_where_ports_are_listed() {
        let switch =
            SwitchFacts { ports: Some(PortSet(vec![1..=2])), link: PortSet(vec![2..=2]), ..Default::default() };
        let facts = Facts::new([(Dpid(1), switch)].into(), [].into());
        let role = |port| facts.role(Location::new(Dpid(1), PortNo(port)));
        assert_eq!([1, 2, 3].map(role), [PortRole::Any, PortRole::Link, PortRole::Closed]);
    }
}
