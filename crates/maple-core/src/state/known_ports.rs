//! The ports of a snapshot, and the links between them.

use imbl::{OrdMap, OrdSet};
use maple_wire::{Dpid, PortNo};

use super::snapshot::put;
use crate::network::{Location, PortInfo, PortKind};

/// The ports. Cloning is a few pointer copies.
#[derive(Clone, Default, Debug)]
pub(super) struct KnownPorts {
    all: OrdMap<Location, PortInfo>,
    /// The ports with another switch behind them: few among all.
    of_links: OrdSet<Location>,
    /// The speeds in bit/s, as far as switches report them.
    speeds: OrdMap<Location, u64>,
}

impl KnownPorts {
    /// Returns a port.
    pub fn get(&self, at: Location) -> Option<PortInfo> {
        self.all.get(&at).copied()
    }

    /// Returns the ports of a switch in order.
    pub fn of_switch(&self, dpid: Dpid) -> impl Iterator<Item = (PortNo, PortInfo)> + '_ {
        self.all
            .range(Location::new(dpid, PortNo(0))..=Location::new(dpid, PortNo(u32::MAX)))
            .map(|(at, info)| (at.port, *info))
    }

    /// Returns the other end of the link at `at`, if there is a link and both ends know it and are up.
    pub fn peer(&self, at: Location) -> Option<Location> {
        let usable = |at: Location| match self.get(at)? {
            PortInfo { up: true, kind: PortKind::Link(peer) } => Some(peer),
            _ => None,
        };
        let peer = usable(at)?;
        (usable(peer)? == at).then_some(peer)
    }

    /// Returns all usable links, each once, lower end first.
    pub fn links(&self) -> impl Iterator<Item = (Location, Location)> + '_ {
        self.of_links.iter().filter_map(|at| self.peer(*at).filter(|peer| at < peer).map(|peer| (*at, peer)))
    }

    /// Returns the usable links of a switch: own port and far end, by port.
    pub fn links_of(&self, dpid: Dpid) -> impl Iterator<Item = (Location, Location)> + '_ {
        let all = Location::new(dpid, PortNo(0))..=Location::new(dpid, PortNo(u32::MAX));
        self.of_links.range(all).filter_map(|at| self.peer(*at).map(|peer| (*at, peer)))
    }

    /// Returns the speed of a port in bit/s.
    pub fn speed(&self, at: Location) -> Option<u64> {
        self.speeds.get(&at).copied()
    }

    /// Sets the speed of a port in bit/s.
    pub fn put_speed(&mut self, at: Location, speed: Option<u64>) {
        put(&mut self.speeds, &at, speed);
    }

    /// Puts a port, or removes it with its speed.
    pub fn put(&mut self, at: Location, info: Option<PortInfo>) {
        if info.is_some_and(|info| matches!(info.kind, PortKind::Link(_))) {
            self.of_links.insert(at);
        } else {
            self.of_links.remove(&at);
        }
        if info.is_none() {
            self.speeds.remove(&at);
        }
        put(&mut self.all, &at, info);
    }
}
