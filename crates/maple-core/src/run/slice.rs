//! f's view while it runs in a slice: the slice's part of the network, and state of its own.
//!
//! All reads and writes of f go through this file, so this is the one place where names are prefixed and answers are
//! reduced. Reads that reduce an answer are dependencies too. Paths and floods are cells of the reduced network.

use super::{Net, RunState};
use crate::network::{Gauge, Location, Mac, PortInfo, PortKind, Scope};
use crate::policy_error::PolicyError;
use crate::route::FrameError;
use crate::state::{Cell, CellValue, Name, Read, Txn, Write, is_place, is_up};

/// Slices of compositions.
impl Net {
    /// Makes this the running slice, inside the one that is running. Returns that one.
    pub(crate) fn enter_slice(&self, slice: &Scope) -> Option<Scope> {
        let outer = self.slice();
        self.set_slice(Some(outer.as_ref().map_or_else(|| slice.clone(), |outer| slice.inside(outer))));
        outer
    }

    /// Makes this the running slice; `None` leaves all slices.
    pub(crate) fn set_slice(&self, slice: Option<Scope>) {
        self.0.state().slice = slice;
    }

    /// Returns the running slice, if there is one.
    pub(crate) fn slice(&self) -> Option<Scope> {
        self.0.state().slice.clone()
    }
}

/// The state outside of slices, where the tables of facts about the network are.
pub(crate) struct Outside<'a>(&'a Net);

impl Read for Outside<'_> {
    fn cell(&self, cell: Cell) -> CellValue {
        self.0.0.state().result.txn.read(cell)
    }
}

impl Net {
    /// Returns the state outside of slices.
    pub(crate) fn outside(&self) -> Outside<'_> {
        Outside(self)
    }

    /// Reports whether the running slice has an edge port. Without a slice every port is there.
    pub(crate) fn has_port(&self, at: Location) -> bool {
        self.0.state().slice.as_ref().is_none_or(|scope| scope.has_port(at))
    }

    /// Reports whether the running slice has a host that is at this port.
    pub(crate) fn has_host(&self, mac: Mac, at: Location) -> bool {
        self.0.state().slice.as_ref().is_none_or(|scope| scope.has_host(mac, at))
    }

    /// Checks that f may send a frame of its own out of a port.
    ///
    /// # Errors
    /// [`PolicyError::Route`] if the running slice does not have the port.
    pub(super) fn check_place(&self, at: Location) -> Result<(), PolicyError> {
        match &self.0.state().slice {
            Some(scope) if !scope.has_port(at) => {
                let error = FrameError::NotInSlice { at, slice: scope.name().clone() }.into();
                Err(PolicyError::Route { error, made_at: None })
            }
            _ => Ok(()),
        }
    }
}

impl RunState {
    /// Reports whether a place is there. In a slice, the ports of other slices count as being there, so that f learns
    /// nothing about them.
    pub(super) fn is_there(&self, at: Location) -> bool {
        self.slice.as_ref().is_some_and(|scope| !scope.has_port(at)) || is_place(self.result.txn.peek().port(at))
    }

    /// Reads a cell as the running slice sees it.
    pub(super) fn read(&mut self, cell: Cell) -> CellValue {
        match &self.slice {
            Some(scope) => read(scope, &mut self.result.txn, cell),
            None => self.result.txn.read(cell),
        }
    }

    /// Returns the name that the state has for f's `name`.
    pub(super) fn own(&self, name: &str) -> Name {
        self.slice.as_ref().map_or_else(|| name.into(), |scope| scope.own(name))
    }

    /// Returns f's write with the names that the state has for them.
    pub(super) fn own_write(&self, write: Write) -> Write {
        if self.slice.is_none() {
            return write;
        }
        match write {
            Write::Table { table, key, value } => Write::Table { table: self.own(&table), key, value },
            Write::Var { name, value } => Write::Var { name: self.own(&name), value },
            Write::Add { name, amount } => Write::Add { name: self.own(&name), amount },
            Write::CostName(name) => Write::CostName(self.own(&name)),
            Write::Cost { name, link, cost } => Write::Cost { name: self.own(&name), link, cost },
            other => other,
        }
    }
}

/// Returns the cells of the path that f asks for, one for each cost that the slice's name for it can mean. The first
/// one whose cost exists counts.
pub(super) fn paths(scope: Option<&Scope>, path: Cell) -> Vec<Cell> {
    let (Some(scope), Cell::Path { from, to, costs, .. }) = (scope, &path) else { return vec![path] };
    let names = match costs {
        Some(name) => scope.cost_names(name).into_iter().map(Some).collect(),
        None => vec![None],
    };
    let path = |costs| Cell::Path { from: *from, to: *to, costs, within: scope.of_links() };
    names.into_iter().map(path).collect()
}

fn read(scope: &Scope, txn: &mut Txn, cell: Cell) -> CellValue {
    match cell {
        Cell::Table(table, key) => txn.read(Cell::Table(scope.own(&table), key)),
        Cell::TableAll(table) => txn.read(Cell::TableAll(scope.own(&table))),
        Cell::TableLen(table) => txn.read(Cell::TableLen(scope.own(&table))),
        Cell::Var(name) => txn.read(Cell::Var(scope.own(&name))),
        Cell::HostAt(mac) => CellValue::Location(located(scope, txn, mac)),
        Cell::HostAddresses(mac) if located(scope, txn, mac).is_none() => CellValue::Addresses(None),
        Cell::Port(at) => CellValue::Port(port(scope, txn, at)),
        Cell::LinkPorts(from, _) => match txn.read(cell) {
            CellValue::Ports(mut ports) => {
                ports.retain(|out| port(scope, txn, Location::new(from, *out)).is_some());
                CellValue::Ports(ports)
            }
            other => other,
        },
        Cell::Speed(at) if port(scope, txn, at).is_none() => CellValue::Speed(None),
        Cell::Rate(gauge, _) if !is_seen(scope, txn, gauge) => CellValue::Step(0),
        Cell::Path { .. } => {
            let mut value = CellValue::NoSuchCosts;
            for path in paths(Some(scope), cell) {
                value = txn.read(path);
                if value != CellValue::NoSuchCosts {
                    break;
                }
            }
            value
        }
        Cell::HasPath { from, to, costs, within } => {
            let path = read(scope, txn, Cell::Path { from, to, costs, within });
            CellValue::Exists(matches!(path, CellValue::Hops(Some(_))))
        }
        Cell::IsPlace(at) => CellValue::Exists(is_place(port(scope, txn, at))),
        Cell::IsUp(at) => CellValue::Exists(is_up(port(scope, txn, at))),
        Cell::Flood(from, _) => txn.read(Cell::Flood(from, scope.of_ports_and_links())),
        Cell::Query(question) => txn.read(Cell::Query(question.in_slice(scope))),
        Cell::HostAddresses(_)
        | Cell::HostByIp(_)
        | Cell::Hosts
        | Cell::Bindings { .. }
        | Cell::HostsAt(_)
        | Cell::HostsOf(_)
        | Cell::HostsIn(..)
        | Cell::Switches
        | Cell::Links
        | Cell::EdgePorts(_)
        | Cell::Speed(_)
        | Cell::Rate(..)
        | Cell::CostNames
        | Cell::Route(_) => reduced(scope, &cell, txn.read(cell.clone())),
    }
}

/// Reduces an answer to a scope's part of it.
fn reduced(scope: &Scope, cell: &Cell, value: CellValue) -> CellValue {
    match (cell, value) {
        (_, CellValue::Host(host)) => CellValue::Host(host.filter(|(mac, at)| scope.has_host(*mac, *at))),
        (_, CellValue::Hosts(mut hosts)) => {
            hosts.retain(|(mac, at)| scope.has_host(*mac, *at));
            CellValue::Hosts(hosts)
        }
        // f has no question for all of them.
        (_, CellValue::Bindings(_)) => CellValue::Bindings(Vec::new()),
        (_, CellValue::Links(mut links)) => {
            links.retain(|(a, b)| scope.has_link(*a, *b));
            CellValue::Links(links)
        }
        (Cell::EdgePorts(switch), CellValue::Ports(mut ports)) => {
            ports.retain(|port| scope.has_port(Location::new(*switch, *port)));
            CellValue::Ports(ports)
        }
        (_, CellValue::Names(names)) => CellValue::Names(scope.known_cost_names(&names)),
        (_, value) => value,
    }
}

fn located(scope: &Scope, txn: &mut Txn, mac: Mac) -> Option<Location> {
    match txn.read(Cell::HostAt(mac)) {
        CellValue::Location(at) => at.filter(|at| scope.has_host(mac, *at)),
        _ => None,
    }
}

fn port(scope: &Scope, txn: &mut Txn, at: Location) -> Option<PortInfo> {
    match txn.read(Cell::Port(at)) {
        // The other port of a segment may belong to another slice.
        CellValue::Port(Some(PortInfo { kind: PortKind::Shut { with, .. }, .. })) if !scope.has_port(with) => None,
        CellValue::Port(info) => info.filter(|info| scope.has(at, info)),
        _ => None,
    }
}

fn is_seen(scope: &Scope, txn: &mut Txn, gauge: Gauge) -> bool {
    match gauge {
        Gauge::Sent(at) | Gauge::Received(at) => port(scope, txn, at).is_some(),
        Gauge::Traffic { from, to } => [from, to].into_iter().all(|mac| located(scope, txn, mac).is_some()),
    }
}
