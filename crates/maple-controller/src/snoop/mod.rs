//! Snooping: learns the members of multicast groups and the leases of addresses from IGMP, MLD and DHCP.
//!
//! # How
//!
//! A [`Snooper`] receives these packets as a listener does ([`crate::listener`]): each one comes to the controller, and
//! the policy decides where it goes. The snooper writes what it learns into tables of tracked state
//! ([`maple_core::snooping`]), which `net.members` and `net.lease` read. So a leaf depends exactly on the groups and
//! leases that the policy asked for.
//!
//! It is a state machine: it does no I/O and reads no clock. The controller drives it in a thread of its own; an
//! emulated network drives it in simulated time.
//!
//! # Bounds
//!
//! Hosts can create groups, members and leases, so each of these is bounded, in total and for each port. Anything
//! beyond a bound is ignored, counted, and reported the first, tenth, hundredth… time.

mod groups;
mod leases;
mod querier;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::time::Duration;

use maple_core::engine::{ListenerPacket, Time};
use maple_core::network::{OwnFrame, PortKind};
use maple_core::snooping::{self, Lease};
use maple_core::state::{Commit, DeclareError, Snapshot, Store, Stored, Write};
use maple_core::trace::Cond;
use maple_core::{Location, Mac};
use maple_wire::eth_type::value::{IPV4, IPV6};
use maple_wire::ip_proto::value::{ICMPV6, IGMP, UDP};
use maple_wire::packet::membership::Membership;
use maple_wire::packet::{dhcp, igmp, mld};
use maple_wire::{Constraint, Field, Packet};

use crate::listener::NetworkEvent;
use crate::time::after;
pub use querier::MAC as QUERIER_MAC;

use groups::Groups;
use leases::Leases;
use querier::Querier;

/// The time between two checks that ports are still edge ports. Chosen: members at a port that became a link are gone
/// within a second.
const PORT_CHECK: Duration = Duration::from_secs(1);
/// The maximum number of reasons for ignoring something that are counted. Chosen: a few for each edge port of most
/// networks, and a bound on memory.
const MAX_REASONS: usize = 4096;

/// A protocol to snoop on. Its text is its name in lower case, such as `igmp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SnoopedProtocol {
    /// The members of IPv4 groups.
    Igmp,
    /// The members of IPv6 groups.
    Mld,
    /// The leases of IPv4 addresses.
    Dhcp,
}

impl FromStr for SnoopedProtocol {
    type Err = SnoopingError;

    fn from_str(name: &str) -> Result<SnoopedProtocol, SnoopingError> {
        match name {
            "igmp" => Ok(SnoopedProtocol::Igmp),
            "mld" => Ok(SnoopedProtocol::Mld),
            "dhcp" => Ok(SnoopedProtocol::Dhcp),
            other => Err(SnoopingError::Unknown(other.to_owned())),
        }
    }
}

/// The protocols to snoop on. The default is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snooping {
    igmp: bool,
    mld: bool,
    dhcp: BTreeSet<Location>,
    querier: bool,
}

/// The reason why a combination of snooping options is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnoopingError {
    /// An unknown protocol.
    #[error("cannot snoop on {0:?}; known protocols are \"igmp\", \"mld\" and \"dhcp\"")]
    Unknown(String),
    /// DHCP without the ports of servers.
    #[error("snooping on DHCP needs the ports of the servers: dhcp_servers, or --dhcp-server SWITCH:PORT")]
    NoServers,
    /// Ports of DHCP servers without DHCP.
    #[error("ports of DHCP servers need snooping on \"dhcp\", which is off")]
    OnlyServers,
    /// A querier without a protocol that it could use.
    #[error("a querier needs snooping on \"igmp\" or \"mld\"")]
    OnlyQuerier,
}

impl Snooping {
    /// Creates options for these protocols. DHCP servers are trusted at these edge ports only; without DHCP there are
    /// none.
    ///
    /// ```
    /// use maple_controller::snoop::{SnoopedProtocol, Snooping, SnoopingError};
    /// use maple_core::Location;
    /// use maple_wire::{Dpid, PortNo};
    ///
    /// let server = Location::new(Dpid(1), PortNo(3));
    /// assert!(Snooping::new([SnoopedProtocol::Mld, SnoopedProtocol::Dhcp], [server])?.with_querier()?.is_on());
    /// # Ok::<(), SnoopingError>(())
    /// ```
    ///
    /// # Errors
    /// [`SnoopingError::NoServers`] for DHCP without ports of servers, [`SnoopingError::OnlyServers`] for such ports
    /// without DHCP.
    pub fn new(
        protocols: impl IntoIterator<Item = SnoopedProtocol>,
        dhcp_servers: impl IntoIterator<Item = Location>,
    ) -> Result<Snooping, SnoopingError> {
        let protocols: BTreeSet<SnoopedProtocol> = protocols.into_iter().collect();
        let on = |protocol| protocols.contains(&protocol);
        let dhcp: BTreeSet<Location> = dhcp_servers.into_iter().collect();
        match (on(SnoopedProtocol::Dhcp), dhcp.is_empty()) {
            (true, true) => Err(SnoopingError::NoServers),
            (false, false) => Err(SnoopingError::OnlyServers),
            _ => Ok(Snooping { igmp: on(SnoopedProtocol::Igmp), mld: on(SnoopedProtocol::Mld), dhcp, querier: false }),
        }
    }

    /// Lets the controller send membership queries where no router does.
    ///
    /// # Errors
    /// [`SnoopingError::OnlyQuerier`] if no protocol of groups is snooped on.
    pub fn with_querier(self) -> Result<Snooping, SnoopingError> {
        if self.on_groups() { Ok(Snooping { querier: true, ..self }) } else { Err(SnoopingError::OnlyQuerier) }
    }

    /// Returns these options with other protocols, ports of DHCP servers and querier, where these are given.
    ///
    /// # Errors
    /// [`SnoopingError`] if a protocol is unknown, or the options do not fit together.
    pub fn with_names(
        &self,
        protocols: &[String],
        servers: &[Location],
        querier: bool,
    ) -> Result<Snooping, SnoopingError> {
        let mut protocols = protocols.iter().map(|name| name.parse()).collect::<Result<Vec<_>, _>>()?;
        if protocols.is_empty() {
            protocols = self.protocols();
        }
        let servers = match servers {
            [] if protocols.contains(&SnoopedProtocol::Dhcp) => self.dhcp.clone(),
            servers => servers.iter().copied().collect(),
        };
        let snooping = Snooping::new(protocols, servers)?;
        let querier = querier || self.querier && snooping.on_groups();
        if querier { snooping.with_querier() } else { Ok(snooping) }
    }

    fn protocols(&self) -> Vec<SnoopedProtocol> {
        let all = [
            (self.igmp, SnoopedProtocol::Igmp),
            (self.mld, SnoopedProtocol::Mld),
            (self.on_leases(), SnoopedProtocol::Dhcp),
        ];
        all.into_iter().filter(|(is_on, _)| *is_on).map(|(_, protocol)| protocol).collect()
    }

    /// Reports whether anything is snooped on.
    pub fn is_on(&self) -> bool {
        self.on_groups() || self.on_leases()
    }

    /// Declares the tables in the store, so that policies can read them. May be called repeatedly.
    ///
    /// # Errors
    /// [`DeclareError`] if the policy has a table of the same name with other types.
    pub fn declare(&self, store: &Store) -> Result<Vec<Commit>, DeclareError> {
        snooping::declare(store, self.on_groups(), self.on_leases())
    }

    /// Returns the conditions of packets that the snooper needs.
    pub fn conditions(&self) -> Vec<Cond> {
        let all = |fields: &[(Field, u128)]| {
            fields.iter().fold(Cond::default(), |cond, (field, value)| cond.and(Constraint::exact(*field, *value)))
        };
        // One condition for each type: a switch cannot match a range of types.
        let icmpv6 =
            |kind: u8| all(&[(Field::EthType, IPV6), (Field::IpProto, ICMPV6), (Field::Icmpv6Type, kind.into())]);
        let udp = |port: u16| all(&[(Field::EthType, IPV4), (Field::IpProto, UDP), (Field::UdpDst, port.into())]);
        let mut conditions = Vec::new();
        if self.igmp {
            conditions.push(all(&[(Field::EthType, IPV4), (Field::IpProto, IGMP)]));
        }
        if self.mld {
            conditions.extend([mld::QUERY, mld::REPORT, mld::DONE, mld::REPORT_V2].map(icmpv6));
        }
        if self.on_leases() {
            conditions.extend([udp(dhcp::SERVER_PORT), udp(dhcp::CLIENT_PORT)]);
        }
        conditions
    }

    fn on_groups(&self) -> bool {
        self.igmp || self.mld
    }

    /// Reports whether leases are snooped on. They should be kept over restarts.
    pub fn on_leases(&self) -> bool {
        !self.dhcp.is_empty()
    }
}

/// A task for the owner of a snooper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnoopEffect {
    /// Write to tracked state.
    Write(Write),
    /// Send a frame out of an edge port.
    Send(OwnFrame),
    /// Report that something was ignored for this reason, with the number of times so far.
    Warn(IgnoreReason, u64),
}

/// The reason why a message is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum IgnoreReason {
    /// Too many groups.
    #[error("hosts belong to {max} multicast groups; a report of another group was ignored", max = groups::MAX_GROUPS)]
    Groups,
    /// Too many members of a group.
    #[error("a multicast group has members at {max} ports; a report from another port was ignored", max = groups::MAX_MEMBERS)]
    Members,
    /// Too many groups of a port.
    #[error("hosts at {0} belong to {max} multicast groups; a report of another group was ignored", max = groups::MAX_PER_PORT)]
    GroupsOfPort(Location),
    /// Too many leases.
    #[error("there are {max} DHCP leases; another one was ignored", max = leases::MAX_LEASES)]
    Leases,
    /// Too many leases of a port.
    #[error("hosts at {0} have {max} DHCP leases; another one was ignored", max = leases::MAX_PER_PORT)]
    LeasesOfPort(Location),
    /// A DHCP server at an untrusted port.
    #[error("a DHCP reply from {0}, which is not a port of a DHCP server, was ignored")]
    Server(Location),
}

/// Learns groups and leases from the events of the network.
#[derive(Debug)]
pub struct Snooper {
    snooping: Snooping,
    groups: Groups,
    leases: Leases,
    querier: Querier,
    ignored: BTreeMap<IgnoreReason, u64>,
    /// The time of the next check of ports.
    next_port_check: Time,
}

impl Snooper {
    /// Creates a snooper. `epoch` is the Unix time at which the clock of [`Time`] started. Leases in the state
    /// continue.
    pub fn new(snooping: Snooping, epoch: Duration, state: &Snapshot) -> Snooper {
        let rows = state.table(snooping::LEASES).into_iter().flatten();
        let kept: Vec<Lease> = rows.filter_map(|(_, value)| Lease::from_value(value)).collect();
        let queries = |protocol: bool| protocol && snooping.querier;
        Snooper {
            groups: Groups::default(),
            leases: Leases::new(epoch, kept),
            querier: Querier::new(queries(snooping.igmp), queries(snooping.mld)),
            ignored: BTreeMap::new(),
            next_port_check: Time(0),
            snooping,
        }
    }

    /// Handles an event.
    pub fn on_event(&mut self, now: Time, event: &NetworkEvent, out: &mut Vec<SnoopEffect>) {
        match event {
            NetworkEvent::Packet(heard) => self.packet(now, heard, out),
            NetworkEvent::Port { at, is_up: false, .. } => self.groups.forget_port(*at),
            NetworkEvent::SwitchDown(dpid) => self.groups.forget_switch(*dpid),
            NetworkEvent::Port { .. }
            | NetworkEvent::SwitchUp(_)
            | NetworkEvent::SwitchUnreachable(_)
            | NetworkEvent::SwitchReachable(_)
            | NetworkEvent::Violation { .. } => {}
        }
    }

    /// Expires members and leases, sends due queries, and writes what was learned since the last call.
    pub fn on_timer(&mut self, now: Time, state: &Snapshot, out: &mut Vec<SnoopEffect>) {
        self.groups.expire(now);
        self.leases.expire(now);
        if self.next_port_check <= now {
            self.next_port_check = after(now, PORT_CHECK);
            // Ports that turned out to be links, or that went away unnoticed.
            let gone: Vec<Location> = self.groups.ports().filter(|at| !is_edge(state, *at)).collect();
            gone.into_iter().for_each(|at| self.groups.forget_port(at));
            self.query_all(now, state, out);
        }
        self.querier.retry(now, &self.groups, out);
        self.groups.write(out);
        self.leases.write(out);
    }

    fn query_all(&mut self, now: Time, state: &Snapshot, out: &mut Vec<SnoopEffect>) {
        if self.snooping.querier {
            let ports =
                state.switches().flat_map(|(dpid, _)| state.ports_of(dpid).map(move |(n, _)| Location::new(dpid, n)));
            let edge: BTreeSet<Location> = ports.filter(|at| is_edge(state, *at)).collect();
            self.querier.query_all(now, edge, out);
        }
    }

    /// Returns the latest time for the next call of [`Snooper::on_timer`].
    pub fn deadline(&self) -> Time {
        let due = [self.groups.deadline(), self.leases.deadline(), self.querier.deadline()];
        due.into_iter().flatten().chain([self.next_port_check]).min().unwrap_or(self.next_port_check)
    }

    fn packet(&mut self, now: Time, heard: &ListenerPacket, out: &mut Vec<SnoopEffect>) {
        let packet = Packet::new(&heard.frame, heard.at.port.0);
        let groups = match packet.get(Field::EthType) {
            Some(IPV4) if self.snooping.igmp => igmp::read(&packet),
            Some(IPV6) if self.snooping.mld => mld::read(&packet),
            _ => None,
        };
        if let Some(message) = groups {
            self.on_membership(now, &packet, message, heard.at, out);
        } else if self.snooping.on_leases()
            && let Some(message) = dhcp::read(&packet)
        {
            self.on_dhcp(now, &packet, &message, heard.at, out);
        }
    }

    fn on_membership(
        &mut self,
        now: Time,
        packet: &Packet,
        message: Membership,
        at: Location,
        out: &mut Vec<SnoopEffect>,
    ) {
        let all = match message {
            Membership::Report(all) => all,
            Membership::Query(_) => return self.querier.other_querier(now, source(packet)),
        };
        for one in all {
            match self.groups.report(now, one.group, at, &one.wants) {
                Ok(true) => self.querier.query_group(now, one.group, at, out),
                Ok(false) => {}
                Err(reason) => self.ignore(reason, out),
            }
        }
    }

    fn on_dhcp(&mut self, now: Time, packet: &Packet, message: &dhcp::Dhcp, at: Location, out: &mut Vec<SnoopEffect>) {
        let src = Mac::from_bits(packet.get(Field::EthSrc).unwrap_or_default());
        let done = match message.is_reply {
            false => {
                self.leases.on_client(now, src, message, at);
                Ok(())
            }
            true if self.snooping.dhcp.contains(&at) => self.leases.on_server(now, message),
            true => Err(IgnoreReason::Server(at)),
        };
        if let Err(reason) = done {
            self.ignore(reason, out);
        }
    }

    fn ignore(&mut self, reason: IgnoreReason, out: &mut Vec<SnoopEffect>) {
        if self.ignored.len() >= MAX_REASONS && !self.ignored.contains_key(&reason) {
            return;
        }
        let times = self.ignored.entry(reason).or_default();
        *times += 1;
        if 10u64.pow(times.ilog10()) == *times {
            out.push(SnoopEffect::Warn(reason, *times));
        }
    }
}

fn is_edge(state: &Snapshot, at: Location) -> bool {
    state.port(at).is_some_and(|port| port.up && port.kind == PortKind::Edge)
}

/// Returns the source address of an IP packet.
fn source(packet: &Packet) -> IpAddr {
    let bits = |field| packet.get(field).unwrap_or_default();
    match packet.get(Field::Ipv6Src) {
        Some(ip) => IpAddr::V6(Ipv6Addr::from(ip)),
        None => IpAddr::V4(Ipv4Addr::from(bits(Field::Ipv4Src) as u32)),
    }
}

#[cfg(test)]
mod tests;
