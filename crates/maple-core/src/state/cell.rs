//! Cells: the units in which f's dependencies on state are kept.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use maple_wire::{Dpid, PortNo};
use serde::{Deserialize, Serialize, Serializer, ser};

use super::query_answers::{QueryAnswer, QueryCall};
use super::snapshot::first_and_last;
use super::{Name, Rows, Snapshot, Value};
use crate::network::{Gauge, Hop, Location, Mac, PortInfo, PortKind, Scale, Scope, UTILISATION};
use crate::route_plan::{Resolved, RouteError, RoutePlan};

/// One unit of tracked state: a stored value, or a question about stored values.
///
/// Only cells that users write can be serialized: [`Cell::Table`] and [`Cell::Var`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Deserialize)]
#[serde(from = "UserCell")]
pub enum Cell {
    /// The value at a key of a table.
    Table(Name, Value),
    /// A whole table: all keys and values, which iteration sees.
    TableAll(Name),
    /// The number of keys of a table.
    TableLen(Name),
    /// A variable.
    Var(Name),
    /// The location of a host.
    HostAt(Mac),
    /// The IP addresses of a host.
    HostAddresses(Mac),
    /// The host that uses an IP address, and its location.
    HostByIp(IpAddr),
    /// All hosts with their locations.
    Hosts,
    /// The host of each IP address that has one, of IPv6 or of IPv4.
    Bindings {
        /// Whether the addresses are those of IPv6.
        is_v6: bool,
    },
    /// The hosts at a port.
    HostsAt(Location),
    /// The hosts at the ports of a switch.
    HostsOf(Dpid),
    /// The hosts with IP addresses in a prefix, given as a network address and the number of its bits that count.
    HostsIn(IpAddr, u8),
    /// All switches.
    Switches,
    /// All usable links, each once, lower end first.
    Links,
    /// The edge ports of a switch that are up.
    EdgePorts(Dpid),
    /// The kind of a port, and whether it is up.
    Port(Location),
    /// The ports of the first switch that lead to the second.
    LinkPorts(Dpid, Dpid),
    /// The speed of a port, in bit/s.
    Speed(Location),
    /// The step of a scale that a measured rate has reached.
    Rate(Gauge, Scale),
    /// The best path between two switches by this link attribute, or by hop count.
    Path {
        /// The first switch.
        from: Dpid,
        /// The last switch.
        to: Dpid,
        /// Name of the attribute; each link costs 1 if it has no cost by that name, or if no name is given.
        costs: Option<Name>,
        /// The part of the network whose links count; `None`: all of it.
        within: Option<Scope>,
    },
    /// Whether there is a path between two switches, by this link attribute or by hop count. There is none by an
    /// unknown attribute.
    HasPath {
        /// The first switch.
        from: Dpid,
        /// The last switch.
        to: Dpid,
        /// Name of the attribute.
        costs: Option<Name>,
        /// The part of the network whose links count; `None`: all of it.
        within: Option<Scope>,
    },
    /// Whether packets can leave the network at a port: it exists, and leads to no other switch.
    IsPlace(Location),
    /// Whether packets can pass a port: its switch says that it is up, and it is neither new nor closed on a shared
    /// segment.
    IsUp(Location),
    /// The names that links have costs by.
    CostNames,
    /// The hops of a flood that starts at this switch: the spanning tree of the network, or of this part of it, and all
    /// edge ports on it.
    Flood(Dpid, Option<Scope>),
    /// The result of resolving a route plan.
    Route(RoutePlan),
    /// The answer to a query.
    Query(QueryCall),
}

/// A cell that users write, in files.
#[derive(Serialize, Deserialize)]
enum UserCell {
    Table(Name, Value),
    Var(Name),
}

impl From<UserCell> for Cell {
    fn from(cell: UserCell) -> Cell {
        match cell {
            UserCell::Table(table, key) => Cell::Table(table, key),
            UserCell::Var(name) => Cell::Var(name),
        }
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Cell::Table(table, key) => UserCell::Table(table.clone(), key.clone()).serialize(to),
            Cell::Var(name) => UserCell::Var(name.clone()).serialize(to),
            _ => Err(ser::Error::custom("only a key of a table and a variable have a form in files")),
        }
    }
}

/// The value of a cell in one snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CellValue {
    /// The value of a [`Cell::Table`] or [`Cell::Var`]; `None` if it is not set.
    Value(Option<Value>),
    /// The rows of a [`Cell::TableAll`].
    Table(Rows),
    /// The number of keys of a [`Cell::TableLen`].
    Len(usize),
    /// The location of a [`Cell::HostAt`]; `None` if the host is unknown.
    Location(Option<Location>),
    /// The addresses of a [`Cell::HostAddresses`]; `None` if the host is unknown.
    Addresses(Option<(Vec<Ipv4Addr>, Vec<Ipv6Addr>)>),
    /// The host of a [`Cell::HostByIp`], with its location.
    Host(Option<(Mac, Location)>),
    /// The hosts of [`Cell::Hosts`], [`Cell::HostsAt`], [`Cell::HostsOf`] and [`Cell::HostsIn`], with their locations.
    Hosts(Vec<(Mac, Location)>),
    /// The IP addresses of [`Cell::Bindings`], with the hosts whose they are.
    Bindings(Vec<(IpAddr, Mac)>),
    /// The switches of [`Cell::Switches`].
    Switches(Vec<Dpid>),
    /// The links of [`Cell::Links`].
    Links(Vec<(Location, Location)>),
    /// The ports of [`Cell::EdgePorts`] and [`Cell::LinkPorts`].
    Ports(Vec<PortNo>),
    /// The port of a [`Cell::Port`]; `None` if it does not exist.
    Port(Option<PortInfo>),
    /// The speed of a [`Cell::Speed`], in bit/s; `None` if the switch does not report it.
    Speed(Option<u64>),
    /// The step of a [`Cell::Rate`].
    Step(u8),
    /// The hops of a [`Cell::Path`] (`None`: there is no path) or of a [`Cell::Flood`].
    Hops(Option<Arc<[Hop]>>),
    /// The answer to [`Cell::HasPath`], [`Cell::IsPlace`] and [`Cell::IsUp`].
    Exists(bool),
    /// The value of a [`Cell::Path`] if links have no costs by that name.
    NoSuchCosts,
    /// The names of [`Cell::CostNames`].
    Names(Vec<Name>),
    /// The result of a [`Cell::Route`].
    Route(Result<Arc<Resolved>, RouteError>),
    /// The answer of a [`Cell::Query`].
    Answer(QueryAnswer),
}

/// Reports whether packets can leave the network at a port of which this is known.
pub(crate) fn is_place(port: Option<PortInfo>) -> bool {
    port.is_some_and(|port| !matches!(port.kind, PortKind::Link(_)))
}

/// Reports whether packets can pass a port of which this is known. Nothing is sent out of a port that is new, or closed
/// on a shared segment.
pub(crate) fn is_up(port: Option<PortInfo>) -> bool {
    port.is_some_and(|port| port.up && !matches!(port.kind, PortKind::New | PortKind::Shut { .. }))
}

impl Cell {
    /// Returns the cell's value in `state`.
    pub fn evaluate(&self, state: &Snapshot) -> CellValue {
        match self {
            Cell::Table(table, key) => CellValue::Value(state.table(table).and_then(|rows| rows.get(key)).cloned()),
            Cell::TableAll(table) => CellValue::Table(state.table(table).cloned().unwrap_or_default()),
            Cell::TableLen(table) => CellValue::Len(state.table(table).map_or(0, Rows::len)),
            Cell::Var(name) => CellValue::Value(state.var(name).cloned()),
            Cell::HostAt(mac) => CellValue::Location(state.host(*mac).map(|host| host.location)),
            Cell::HostAddresses(mac) => CellValue::Addresses(
                state.host(*mac).map(|host| (host.ipv4.iter().copied().collect(), host.ipv6.iter().copied().collect())),
            ),
            Cell::HostByIp(ip) => {
                CellValue::Host(state.host_by_ip(*ip).and_then(|mac| state.host(mac).map(|host| (mac, host.location))))
            }
            Cell::Hosts => CellValue::Hosts(state.hosts().map(|(mac, host)| (*mac, host.location)).collect()),
            Cell::Bindings { is_v6 } => CellValue::Bindings(state.bindings(*is_v6).collect()),
            Cell::HostsAt(at) => CellValue::Hosts(state.hosts_at(*at).map(|mac| (mac, *at)).collect()),
            Cell::HostsOf(dpid) => {
                let located = |mac: Mac| Some((mac, state.host(mac)?.location));
                CellValue::Hosts(state.hosts_of(*dpid).filter_map(located).collect())
            }
            Cell::HostsIn(network, bits) => {
                let hosts: BTreeSet<Mac> = state.hosts_in(*network, *bits).collect();
                let place = |mac| state.host(mac).map(|host| (mac, host.location));
                CellValue::Hosts(hosts.into_iter().filter_map(place).collect())
            }
            Cell::Switches => CellValue::Switches(state.switches().map(|(dpid, _)| dpid).collect()),
            Cell::Links => CellValue::Links(state.links().collect()),
            Cell::EdgePorts(dpid) => CellValue::Ports(
                state.ports_of(*dpid).filter(|(_, p)| p.up && p.kind == PortKind::Edge).map(|(n, _)| n).collect(),
            ),
            Cell::Port(at) => CellValue::Port(state.port(*at)),
            Cell::LinkPorts(from, to) => CellValue::Ports(
                state.links_of(*from).filter(|(_, peer)| peer.switch == *to).map(|(out, _)| out.port).collect(),
            ),
            Cell::Speed(at) => CellValue::Speed(state.speed(*at)),
            Cell::Rate(gauge, scale) => CellValue::Step(state.step(gauge, *scale)),
            Cell::Path { costs: Some(name), .. } if !state.has_costs(name) => CellValue::NoSuchCosts,
            Cell::HasPath { from, to, costs, within } => {
                let path = Cell::Path { from: *from, to: *to, costs: costs.clone(), within: within.clone() };
                CellValue::Exists(matches!(path.evaluate(state), CellValue::Hops(Some(_))))
            }
            Cell::IsPlace(at) => CellValue::Exists(is_place(state.port(*at))),
            Cell::IsUp(at) => CellValue::Exists(is_up(state.port(*at))),
            Cell::CostNames => CellValue::Names(state.cost_names().cloned().collect()),
            Cell::Path { .. } | Cell::Flood(..) | Cell::Route(_) => state.derive(self),
            Cell::Query(question) => CellValue::Answer(question.answer(state)),
        }
    }

    /// Reports whether the cell still has the value `seen`. With a `version`, `seen` was the cell's value in the
    /// published snapshot of that version.
    pub(super) fn still(&self, seen: &CellValue, version: Option<u64>, now: &Snapshot) -> bool {
        // A whole table that was not written since `version` is not compared key by key. An older snapshot cannot say
        // whether it was.
        if let (Cell::TableAll(table), Some(version)) = (self, version)
            && version <= now.version()
            && now.table(table).is_some_and(|rows| rows.is_as_in(version))
        {
            return true;
        }
        self.evaluate(now) == *seen
    }

    /// Returns the table that the cell is about.
    pub(super) fn table(&self) -> Option<&Name> {
        match self {
            Cell::Table(table, _) | Cell::TableAll(table) | Cell::TableLen(table) => Some(table),
            _ => None,
        }
    }

    /// Returns the rate that must be measured for the cell.
    pub(super) fn gauge(&self) -> Option<Gauge> {
        match self {
            Cell::Rate(gauge, _) => Some(*gauge),
            _ => None,
        }
    }

    /// Reports whether the cell is about a prefix that contains this address.
    pub(super) fn has_ip(&self, ip: IpAddr) -> bool {
        matches!(self, Cell::HostsIn(network, bits) if first_and_last(*network, *bits).contains(&ip))
    }

    /// Reports whether any link or edge port may matter to the cell.
    pub(super) fn is_topology(&self) -> bool {
        matches!(self, Cell::Links | Cell::LinkPorts(..) | Cell::Path { .. } | Cell::HasPath { .. } | Cell::Flood(..))
    }

    /// Reports whether the cell is a path by the utilisation of links.
    pub(super) fn is_path_by_use(&self) -> bool {
        matches!(self, Cell::Path { costs: Some(name), .. } | Cell::HasPath { costs: Some(name), .. } if **name == *UTILISATION)
    }

    /// Reports whether the cell is a path by costs of this name.
    pub(super) fn is_path_by(&self, name: &Name) -> bool {
        matches!(self, Cell::Path { costs, .. } | Cell::HasPath { costs, .. } if costs.as_ref() == Some(name))
    }
}
