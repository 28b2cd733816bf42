//! What the timeline keeps of the network at a moment, and how two moments differ.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use maple_core::network::{HostInfo, Location, Mac, PortInfo, PortKind};
use maple_core::state::Snapshot;
use maple_wire::Dpid;
use serde::{Deserialize, Serialize};

/// The network at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NetworkThen {
    /// The switches, and whether something comes from each.
    pub switches: BTreeMap<Dpid, bool>,
    pub ports: BTreeMap<Location, PortInfo>,
    pub hosts: BTreeMap<Mac, HostInfo>,
}

/// A part of the network that is another than before: what it is now; `None` if it is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum NetworkChange {
    Switch(Dpid, Option<bool>),
    Port(Location, Option<PortInfo>),
    Host(Mac, Option<HostInfo>),
}

impl NetworkThen {
    /// Returns what leads from this moment to that of a snapshot, of whose ports and hosts only the first `most` each
    /// are looked at; and how many are not.
    pub fn changes_to(
        &self,
        state: &Snapshot,
        is_away: impl Fn(Dpid) -> bool,
        most: usize,
    ) -> (Vec<NetworkChange>, usize) {
        let mut all = Vec::new();
        let switches = state.switches().map(|(dpid, _)| (dpid, !is_away(dpid)));
        differences(&self.switches, switches, NetworkChange::Switch, &mut all);
        let ports = |dpid| state.ports_of(dpid).map(move |(port, info)| (Location::new(dpid, port), info));
        let all_ports = || state.switches().flat_map(|(dpid, _)| ports(dpid));
        differences(&self.ports, all_ports().take(most), NetworkChange::Port, &mut all);
        let hosts = || state.hosts().map(|(mac, info)| (*mac, info));
        differences(&self.hosts, hosts().take(most), NetworkChange::Host, &mut all);
        (all, all_ports().skip(most).count() + hosts().skip(most).count())
    }

    /// Returns what leads from this moment to another one.
    pub fn changes_to_other(&self, other: &NetworkThen) -> Vec<NetworkChange> {
        let mut all = Vec::new();
        differences(&self.switches, pairs(&other.switches), NetworkChange::Switch, &mut all);
        differences(&self.ports, pairs(&other.ports), NetworkChange::Port, &mut all);
        differences(&self.hosts, pairs(&other.hosts), NetworkChange::Host, &mut all);
        all
    }

    /// Follows a change.
    pub fn apply(&mut self, change: NetworkChange) {
        match change {
            NetworkChange::Switch(key, now) => put(&mut self.switches, key, now),
            NetworkChange::Port(key, now) => put(&mut self.ports, key, now),
            NetworkChange::Host(key, now) => put(&mut self.hosts, key, now),
        }
    }

    /// Returns the other end of the link at `at`, if there is a link and both ends know it and are up.
    pub fn peer(&self, at: Location) -> Option<Location> {
        let usable = |at: Location| match self.ports.get(&at)? {
            PortInfo { up: true, kind: PortKind::Link(peer) } => Some(*peer),
            _ => None,
        };
        let peer = usable(at)?;
        (usable(peer)? == at).then_some(peer)
    }

    /// Returns the links, each once, the lower end first.
    pub fn links(&self) -> impl Iterator<Item = (Location, Location)> + '_ {
        self.ports.keys().filter_map(|at| self.peer(*at).filter(|peer| at < peer).map(|peer| (*at, peer)))
    }
}

impl NetworkChange {
    /// Returns about how many bytes it takes.
    pub fn size(&self) -> usize {
        match self {
            NetworkChange::Switch(..) => 12,
            NetworkChange::Port(..) => 24,
            NetworkChange::Host(_, now) => {
                now.as_ref().map_or(8, |host| 24 + 5 * host.ipv4.len() + 17 * host.ipv6.len())
            }
        }
    }
}

fn put<K: Ord, V>(all: &mut BTreeMap<K, V>, key: K, now: Option<V>) {
    match now {
        Some(value) => drop(all.insert(key, value)),
        None => drop(all.remove(&key)),
    }
}

fn pairs<K: Copy, V>(all: &BTreeMap<K, V>) -> impl Iterator<Item = (K, &V)> {
    all.iter().map(|(key, value)| (*key, value))
}

/// Adds what leads from some parts to those of now, which are in order.
fn differences<K: Ord + Copy, V: PartialEq + Clone>(
    before: &BTreeMap<K, V>,
    now: impl Iterator<Item = (K, impl Borrow<V>)>,
    change: fn(K, Option<V>) -> NetworkChange,
    all: &mut Vec<NetworkChange>,
) {
    let mut before = before.iter().peekable();
    for (key, value) in now {
        while let Some((gone, _)) = before.next_if(|(other, _)| **other < key) {
            all.push(change(*gone, None));
        }
        if before.next_if(|(other, _)| **other == key).is_none_or(|(_, old)| old != value.borrow()) {
            all.push(change(key, Some(value.borrow().clone())));
        }
    }
    all.extend(before.map(|(gone, _)| change(*gone, None)));
}
