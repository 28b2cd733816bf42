//! Cells: the units in which f's dependencies on state are kept.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use maple_wire::{Dpid, PortNo};

use super::query::{Answer, Question};
use super::snapshot::first_and_last;
use super::{Name, Rows, Snapshot, Value};
use crate::network::{Gauge, Hop, Location, Mac, PortInfo, PortKind, Scale, Scope, UTILISATION};
use crate::plan::{Plan, Resolved, RouteError};

/// One unit of tracked state: a stored value, or a question about stored values.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cell {
    /// The value at a key of a table.
    Table(Name, Value),
    /// A whole table: what iteration sees.
    TableAll(Name),
    /// How many keys a table has.
    TableLen(Name),
    /// A variable.
    Var(Name),
    /// Where a host is.
    HostAt(Mac),
    /// Which IP addresses a host uses.
    HostAddresses(Mac),
    /// Which host uses an IP address, and where it is.
    HostByIp(IpAddr),
    /// All hosts and where they are.
    Hosts,
    /// The hosts at a port.
    HostsAt(Location),
    /// The hosts with IP addresses in a prefix: an address of the network, and the number of its bits that count.
    HostsIn(IpAddr, u8),
    /// All switches.
    Switches,
    /// All usable links, each once, lower end first.
    Links,
    /// The edge ports of a switch that are up.
    EdgePorts(Dpid),
    /// What is known of a port.
    Port(Location),
    /// The ports of the first switch that lead to the second.
    LinkPorts(Dpid, Dpid),
    /// What a port can send, in bit/s.
    Speed(Location),
    /// The step that a measured rate has reached.
    Rate(Gauge, Scale),
    /// The best path between two switches by this link attribute, or by hop count.
    Path {
        /// The first switch.
        from: Dpid,
        /// The last switch.
        to: Dpid,
        /// Name of the attribute; each link costs 1 if it has no cost by that name, or if no name is given.
        weight: Option<Name>,
        /// Over the links of this part of the network; all if none is given.
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
        weight: Option<Name>,
        /// Over the links of this part of the network.
        within: Option<Scope>,
    },
    /// Whether packets can leave the network there: the port exists, and leads to no other switch.
    IsPlace(Location),
    /// Whether packets can pass a port: its switch says that it is up, and it is neither new nor shut.
    IsUp(Location),
    /// The names that links have costs by.
    Weights,
    /// The hops of a flood that starts at this switch: the spanning tree of the network, or of this part of it, and all
    /// edge ports on it.
    Flood(Dpid, Option<Scope>),
    /// What a route plan resolves to.
    Route(Plan),
    /// The answer of a query.
    Query(Question),
}

/// The value of a cell in one snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CellValue {
    /// Of [`Cell::Table`] and [`Cell::Var`].
    Value(Option<Value>),
    /// Of [`Cell::TableAll`].
    Table(Rows),
    /// Of [`Cell::TableLen`].
    Len(usize),
    /// Of [`Cell::HostAt`].
    Location(Option<Location>),
    /// Of [`Cell::HostAddresses`].
    Addresses(Option<(Vec<Ipv4Addr>, Vec<Ipv6Addr>)>),
    /// Of [`Cell::HostByIp`].
    Host(Option<(Mac, Location)>),
    /// Of [`Cell::Hosts`], [`Cell::HostsAt`] and [`Cell::HostsIn`].
    Hosts(Vec<(Mac, Location)>),
    /// Of [`Cell::Switches`].
    Switches(Vec<Dpid>),
    /// Of [`Cell::Links`].
    Links(Vec<(Location, Location)>),
    /// Of [`Cell::EdgePorts`] and [`Cell::LinkPorts`].
    Ports(Vec<PortNo>),
    /// Of [`Cell::Port`].
    Port(Option<PortInfo>),
    /// Of [`Cell::Speed`]; `None` if the switch does not say.
    Speed(Option<u64>),
    /// Of [`Cell::Rate`].
    Step(u8),
    /// Of [`Cell::Path`] (`None`: there is none) and [`Cell::Flood`].
    Hops(Option<Arc<[Hop]>>),
    /// Of [`Cell::HasPath`], [`Cell::IsPlace`] and [`Cell::IsUp`].
    Exists(bool),
    /// Of [`Cell::Path`], if links have no costs by that name.
    NoSuchWeight,
    /// Of [`Cell::Weights`].
    Names(Vec<Name>),
    /// Of [`Cell::Route`].
    Route(Result<Arc<Resolved>, RouteError>),
    /// Of [`Cell::Query`].
    Answer(Answer),
}

/// Whether a port of which this is known is a place where packets can leave the network.
pub(crate) fn is_place(port: Option<PortInfo>) -> bool {
    port.is_some_and(|port| !matches!(port.kind, PortKind::Link(_)))
}

/// Whether packets can pass a port of which this is known. Nothing is sent out of a port that is new or shut.
pub(crate) fn is_up(port: Option<PortInfo>) -> bool {
    port.is_some_and(|port| port.up && !matches!(port.kind, PortKind::New | PortKind::Shared { .. }))
}

impl Cell {
    /// The cell's value in `state`.
    pub fn evaluate(&self, state: &Snapshot) -> CellValue {
        match self {
            Cell::Table(table, key) => CellValue::Value(state.table(table).and_then(|t| t.get(key)).cloned()),
            Cell::TableAll(table) => CellValue::Table(state.table(table).cloned().unwrap_or_default()),
            Cell::TableLen(table) => CellValue::Len(state.table(table).map_or(0, Rows::len)),
            Cell::Var(name) => CellValue::Value(state.var(name).cloned()),
            Cell::HostAt(mac) => CellValue::Location(state.host(*mac).map(|host| host.location)),
            Cell::HostAddresses(mac) => CellValue::Addresses(
                state.host(*mac).map(|h| (h.ipv4.iter().copied().collect(), h.ipv6.iter().copied().collect())),
            ),
            Cell::HostByIp(ip) => {
                CellValue::Host(state.host_by_ip(*ip).and_then(|mac| state.host(mac).map(|host| (mac, host.location))))
            }
            Cell::Hosts => CellValue::Hosts(state.hosts().map(|(mac, host)| (*mac, host.location)).collect()),
            Cell::HostsAt(at) => CellValue::Hosts(state.hosts_at(*at).map(|mac| (mac, *at)).collect()),
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
            Cell::Path { weight: Some(name), .. } if !state.has_weight(name) => CellValue::NoSuchWeight,
            Cell::HasPath { from, to, weight, within } => {
                let path = Cell::Path { from: *from, to: *to, weight: weight.clone(), within: within.clone() };
                CellValue::Exists(matches!(path.evaluate(state), CellValue::Hops(Some(_))))
            }
            Cell::IsPlace(at) => CellValue::Exists(is_place(state.port(*at))),
            Cell::IsUp(at) => CellValue::Exists(is_up(state.port(*at))),
            Cell::Weights => CellValue::Names(state.weights().cloned().collect()),
            Cell::Path { .. } | Cell::Flood(..) | Cell::Route(_) => state.derive(self),
            Cell::Query(question) => CellValue::Answer(question.answer(state)),
        }
    }

    /// Whether the cell still has the value `seen`, which it had in the published snapshot of this version, if one is
    /// given.
    pub(super) fn still(&self, seen: &CellValue, version: Option<u64>, now: &Snapshot) -> bool {
        // A whole table that was not written since is not compared key by key. An older snapshot can't say whether it
        // was.
        if let (Cell::TableAll(table), Some(version)) = (self, version)
            && version <= now.version()
            && now.table(table).is_some_and(|rows| rows.is_as_in(version))
        {
            return true;
        }
        self.evaluate(now) == *seen
    }

    /// The table that the cell is about.
    pub(super) fn table(&self) -> Option<&Name> {
        match self {
            Cell::Table(table, _) | Cell::TableAll(table) | Cell::TableLen(table) => Some(table),
            _ => None,
        }
    }

    /// What must be measured for it.
    pub(super) fn gauge(&self) -> Option<Gauge> {
        match self {
            Cell::Rate(gauge, _) => Some(*gauge),
            _ => None,
        }
    }

    /// Whether it is about a prefix that has this address.
    pub(super) fn has_ip(&self, ip: IpAddr) -> bool {
        matches!(self, Cell::HostsIn(network, bits) if first_and_last(*network, *bits).contains(&ip))
    }

    /// Whether any link or edge port may matter to it.
    pub(super) fn is_topology(&self) -> bool {
        matches!(self, Cell::Links | Cell::LinkPorts(..) | Cell::Path { .. } | Cell::HasPath { .. } | Cell::Flood(..))
    }

    /// Whether it is a path by how much of links is used.
    pub(super) fn is_path_by_use(&self) -> bool {
        matches!(self, Cell::Path { weight: Some(name), .. } | Cell::HasPath { weight: Some(name), .. } if **name == *UTILISATION)
    }

    /// Whether it is a path by costs of this name.
    pub(super) fn is_path_by(&self, name: &Name) -> bool {
        matches!(self, Cell::Path { weight, .. } | Cell::HasPath { weight, .. } if weight.as_ref() == Some(name))
    }
}
