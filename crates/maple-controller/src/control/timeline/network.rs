//! The network at a moment, as the timeline keeps it, and the differences of two moments.

use std::collections::BTreeMap;

use maple_core::network::{HostInfo, Location, Mac, PortInfo, PortKind};
use maple_wire::Dpid;
use serde::{Deserialize, Serialize};

use super::entry::Entry;
use crate::storage::format::bytes;

/// The network at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NetworkThen {
    /// The switches, and whether something comes from each.
    pub switches: BTreeMap<Dpid, bool>,
    pub ports: BTreeMap<Location, PortInfo>,
    pub hosts: BTreeMap<Mac, HostInfo>,
}

/// A part of the network that has changed: what it is now; `None` if it is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum NetworkChange {
    Switch(Dpid, Option<bool>),
    Port(Location, Option<PortInfo>),
    Host(Mac, Option<HostInfo>),
}

impl NetworkThen {
    /// Returns what leads from this moment to another one.
    pub fn changes_to_other(&self, other: &NetworkThen) -> Vec<NetworkChange> {
        let mut all = Vec::new();
        differences(&self.switches, &other.switches, NetworkChange::Switch, &mut all);
        differences(&self.ports, &other.ports, NetworkChange::Port, &mut all);
        differences(&self.hosts, &other.hosts, NetworkChange::Host, &mut all);
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

    /// Follows what an entry says of the network.
    pub fn follow(&mut self, entry: &Entry) {
        match entry {
            Entry::Begin(begin) => self.clone_from(&begin.network),
            Entry::Look { changes, .. } => changes.iter().cloned().for_each(|change| self.apply(change)),
            Entry::Line(_) | Entry::Drops { .. } | Entry::Rates(_) => {}
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
    /// Returns how many bytes it takes.
    pub fn size(&self) -> usize {
        bytes(self).map_or(0, |bytes| bytes.len())
    }
}

/// Sets or removes a value.
pub(super) fn put<K: Ord, V>(all: &mut BTreeMap<K, V>, key: K, now: Option<V>) {
    match now {
        Some(value) => drop(all.insert(key, value)),
        None => drop(all.remove(&key)),
    }
}

/// Adds what leads from some parts to others.
fn differences<K: Ord + Copy, V: PartialEq + Clone>(
    before: &BTreeMap<K, V>,
    now: &BTreeMap<K, V>,
    change: fn(K, Option<V>) -> NetworkChange,
    all: &mut Vec<NetworkChange>,
) {
    let gone = before.keys().filter(|key| !now.contains_key(key)).map(|key| change(*key, None));
    let other = now.iter().filter(|(key, value)| before.get(key) != Some(value));
    all.extend(gone.chain(other.map(|(key, value)| change(*key, Some(value.clone())))));
}
