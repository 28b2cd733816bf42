//! A plain model of the state that policies depend on, and how it is taken from a snapshot or from the network itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use maple_core::network::{Facts, Location, PortInfo, PortKind};
use maple_core::{Mac, Snapshot, Value};
use maple_sim::cases::{COSTS, TABLES, VARS};
use maple_wire::{Dpid, PortNo, Version};

/// The state at one moment.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct State {
    /// The switches, with their OpenFlow versions.
    pub switches: BTreeMap<Dpid, Version>,
    /// Their ports.
    pub ports: BTreeMap<Location, PortInfo>,
    /// The locations of hosts.
    pub hosts: BTreeMap<Mac, Location>,
    /// The declared facts of ports and hosts.
    pub facts: Arc<Facts>,
    /// The policy's tables.
    pub tables: BTreeMap<(&'static str, Value), Value>,
    /// The policy's variables.
    pub vars: BTreeMap<&'static str, Value>,
    /// The costs of links, if not 1, by the switches at their ends.
    pub costs: BTreeMap<(Dpid, Dpid), u64>,
}

impl State {
    /// Reads the state of these switches from a snapshot.
    pub fn from_snapshot(snapshot: &Snapshot, dpids: &[Dpid]) -> State {
        let ports = |dpid: Dpid| snapshot.ports_of(dpid).map(move |(port, info)| (Location::new(dpid, port), info));
        let entries = |table: &'static str| {
            snapshot.table(table).into_iter().flatten().map(move |(key, value)| ((table, key.clone()), value.clone()))
        };
        let pairs = dpids.iter().flat_map(|a| dpids.iter().map(move |b| (*a, *b)));
        let costs = pairs.map(|(a, b)| ((a, b), snapshot.cost(COSTS, Location::new(a, PortNo(0)), b)));
        State {
            switches: snapshot.switches().map(|(dpid, info)| (dpid, info.version)).collect(),
            ports: dpids.iter().flat_map(|dpid| ports(*dpid)).collect(),
            hosts: snapshot.hosts().map(|(mac, host)| (*mac, host.location)).collect(),
            facts: Arc::clone(snapshot.facts()),
            tables: TABLES.into_iter().flat_map(entries).collect(),
            vars: VARS.into_iter().filter_map(|name| Some((name, snapshot.var(name)?.clone()))).collect(),
            costs: costs.filter(|(_, cost)| *cost != 1).collect(),
        }
    }

    /// Returns the other end of a link that both ends know, if both are up.
    pub fn peer(&self, at: Location) -> Option<Location> {
        let usable = |at: &Location| match self.ports.get(at) {
            Some(PortInfo { up: true, kind: PortKind::Link(peer) }) => Some(*peer),
            _ => None,
        };
        usable(&at).filter(|peer| usable(peer) == Some(at))
    }

    /// Returns the links of a switch: its port and the far one, ordered by port.
    pub fn links_of(&self, dpid: Dpid) -> Vec<(Location, Location)> {
        let own = self.ports.keys().filter(|at| at.switch == dpid);
        own.filter_map(|at| Some((*at, self.peer(*at)?))).collect()
    }

    /// Returns the edge ports that are up.
    pub fn edge_ports(&self) -> BTreeSet<Location> {
        let is_edge = |info: &PortInfo| info.up && info.kind == PortKind::Edge;
        self.ports.iter().filter(|(_, info)| is_edge(info)).map(|(at, _)| *at).collect()
    }

    /// Reports whether packets can pass a port.
    pub fn is_up(&self, at: Location) -> bool {
        match self.ports.get(&at) {
            Some(PortInfo { up, kind: PortKind::Edge | PortKind::Link(_) | PortKind::Middlebox }) => *up,
            Some(PortInfo { kind: PortKind::New | PortKind::Shut { .. }, .. }) | None => false,
        }
    }

    /// Returns the cost of a link between two switches.
    pub fn cost(&self, from: Dpid, to: Dpid) -> u64 {
        self.costs.get(&(from, to)).copied().unwrap_or(1)
    }

    /// Returns what a port leads to.
    pub fn kind(&self, at: Location) -> Option<PortKind> {
        self.ports.get(&at).map(|info| info.kind)
    }
}
