//! Snooping: who belongs to multicast groups and who has leased which address, by what hosts and servers say of it.
//!
//! # What
//!
//! A [`Snooper`] hears IGMP, MLD and DHCP beside the policy, as a listener does ([`crate::listen`]): such packets come to the
//! controller each, and go where the policy says. What it learns it writes into tables of tracked state
//! ([`maple_core::snooped`]), where `net.members` and `net.lease` find it; so a leaf depends on the groups and leases that f
//! asked for, and nothing else is decided again.
//!
//! It is a state machine: it does no I/O and reads no clock. `run` drives it in a thread of its own, a laboratory in
//! simulated time.
//!
//! # Bounds
//!
//! Hosts can make groups, members and leases, so all of these are bounded, for a port too. What is beyond is ignored and
//! counted, and people are told the first, tenth, hundredth… time.

mod groups;
mod leases;
mod querier;
mod run;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use maple_core::engine::{ListenerPacket, Time};
use maple_core::network::{OwnFrame, PortKind};
use maple_core::snooped::{self, Lease};
use maple_core::state::{Commit, DeclareError, Snapshot, Store, Stored, Write};
use maple_core::trace::Cond;
use maple_core::{Location, Mac};
use maple_wire::packet::membership::Membership;
use maple_wire::packet::{dhcp, igmp, mld};
use maple_wire::{Constraint, Field, Packet};

use crate::listen::Happening;
use crate::time::after;
use groups::Groups;
use leases::Leases;
use querier::Querier;

pub(crate) use run::run;

/// How often it is looked whether ports are still what they were.
const LOOK: Duration = Duration::from_secs(1);
/// Reasons of which it is remembered how often something was ignored for them.
const REMEMBERED: usize = 4096;

/// What to snoop on. The default is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snooping {
    igmp: bool,
    mld: bool,
    dhcp: BTreeSet<Location>,
    querier: bool,
}

/// Why something can't be snooped on so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnoopingError {
    /// No such protocol.
    #[error("there is no snooping of {0:?}; there are \"igmp\", \"mld\" and \"dhcp\"")]
    Unknown(String),
    /// Nobody would be believed.
    #[error("snooping of DHCP needs the ports where servers are: dhcp_servers=… or --dhcp-server SWITCH:PORT")]
    NoServers,
    /// Servers, and nothing to believe them.
    #[error("ports of DHCP servers are for snooping of \"dhcp\", which is off")]
    OnlyServers,
    /// Nobody would hear the answers.
    #[error("a querier asks by IGMP or MLD, and neither is snooped on")]
    OnlyQuerier,
}

impl Snooping {
    /// Snooping on these protocols: `igmp`, `mld`, `dhcp`. DHCP servers are believed at these edge ports only. A querier
    /// asks hosts for their groups where no router does.
    ///
    /// ```
    /// use maple_controller::snoop::{Snooping, SnoopingError};
    /// use maple_core::Location;
    /// use maple_wire::{Dpid, PortNo};
    ///
    /// let server = Location::new(Dpid(1), PortNo(3));
    /// assert!(Snooping::new(["igmp", "mld", "dhcp"], [server], true)?.is_on());
    /// # Ok::<(), SnoopingError>(())
    /// ```
    ///
    /// # Errors
    /// [`SnoopingError`].
    pub fn new<S: AsRef<str>>(
        protocols: impl IntoIterator<Item = S>,
        dhcp_servers: impl IntoIterator<Item = Location>,
        querier: bool,
    ) -> Result<Snooping, SnoopingError> {
        let servers: BTreeSet<Location> = dhcp_servers.into_iter().collect();
        let mut snooping = Snooping { querier, ..Snooping::default() };
        let mut on_dhcp = false;
        for name in protocols {
            match name.as_ref() {
                "igmp" => snooping.igmp = true,
                "mld" => snooping.mld = true,
                "dhcp" => on_dhcp = true,
                other => return Err(SnoopingError::Unknown(other.to_owned())),
            }
        }
        match (on_dhcp, servers.is_empty()) {
            (true, true) => return Err(SnoopingError::NoServers),
            (false, false) => return Err(SnoopingError::OnlyServers),
            _ => snooping.dhcp = servers,
        }
        if querier && !snooping.on_groups() {
            return Err(SnoopingError::OnlyQuerier);
        }
        Ok(snooping)
    }

    /// The same with other protocols, with other ports of DHCP servers, and with a querier, as far as they are given.
    ///
    /// # Errors
    /// [`SnoopingError`].
    pub fn with(&self, protocols: &[String], servers: &[Location], querier: bool) -> Result<Snooping, SnoopingError> {
        let named = [(self.igmp, "igmp"), (self.mld, "mld"), (self.on_leases(), "dhcp")];
        let before = named.into_iter().filter(|(is_on, _)| *is_on).map(|(_, name)| name.to_owned());
        let protocols = if protocols.is_empty() { before.collect() } else { protocols.to_vec() };
        let has = |name| protocols.iter().any(|protocol| protocol == name);
        let servers = match servers {
            [] if has("dhcp") => self.dhcp.clone(),
            servers => servers.iter().copied().collect(),
        };
        let querier = querier || self.querier && (has("igmp") || has("mld"));
        Snooping::new(protocols, servers, querier)
    }

    /// Whether anything is snooped on.
    pub fn is_on(&self) -> bool {
        self.on_groups() || self.on_leases()
    }

    /// Says in the store that it is snooped, so that policies may ask. It may be said often.
    ///
    /// # Errors
    /// [`DeclareError`] if the policy has a table of such a name that holds something else.
    pub fn declare(&self, store: &Store) -> Result<Vec<Commit>, DeclareError> {
        snooped::declare(store, self.on_groups(), self.on_leases())
    }

    /// The packets that have to come here.
    pub fn heard(&self) -> Vec<Cond> {
        let all = |fields: &[(Field, u128)]| {
            fields.iter().fold(Cond::default(), |cond, (field, value)| cond.and(Constraint::exact(*field, *value)))
        };
        // One by one: a switch matches no ranges of types.
        let icmpv6 =
            |kind: u8| all(&[(Field::EthType, 0x86dd), (Field::IpProto, 58), (Field::Icmpv6Type, kind.into())]);
        let udp = |port: u16| all(&[(Field::EthType, 0x0800), (Field::IpProto, 17), (Field::UdpDst, port.into())]);
        let mut heard = Vec::new();
        if self.igmp {
            heard.push(all(&[(Field::EthType, 0x0800), (Field::IpProto, igmp::PROTO.into())]));
        }
        if self.mld {
            heard.extend([mld::QUERY, mld::REPORT, mld::DONE, mld::REPORT_V2].map(icmpv6));
        }
        if self.on_leases() {
            heard.extend([udp(dhcp::SERVER_PORT), udp(dhcp::CLIENT_PORT)]);
        }
        heard
    }

    fn on_groups(&self) -> bool {
        self.igmp || self.mld
    }

    /// Whether it is snooped on leases too, which are worth to be kept over a restart.
    pub fn on_leases(&self) -> bool {
        !self.dhcp.is_empty()
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Write to tracked state.
    Write(Write),
    /// Send a frame out of an edge port.
    Send(OwnFrame),
    /// Tell people that something was ignored for this reason, so many times by now.
    Tell(Ignored, u64),
}

/// Why something that was heard is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Ignored {
    /// Too many groups.
    #[error("hosts belong to {max} multicast groups, and a report of another was ignored", max = groups::MOST_GROUPS)]
    Groups,
    /// Too many members of a group.
    #[error("a multicast group has members at {max} ports, and a report from another was ignored", max = groups::MOST_MEMBERS)]
    Members,
    /// Too many groups of a port.
    #[error("hosts at {0} belong to {max} multicast groups, and a report of another was ignored", max = groups::MOST_OF_PORT)]
    GroupsOfPort(Location),
    /// Too many leases.
    #[error("there are {max} DHCP leases, and another was ignored", max = leases::MOST_LEASES)]
    Leases,
    /// Too many leases of a port.
    #[error("hosts at {0} have {max} DHCP leases, and another was ignored", max = leases::MOST_OF_PORT)]
    LeasesOfPort(Location),
    /// A server where none may be.
    #[error("somebody at {0} answers as a DHCP server, and no server may be there: it was ignored")]
    Server(Location),
}

/// Learns groups and leases from what happens.
#[derive(Debug)]
pub struct Snooper {
    snooping: Snooping,
    groups: Groups,
    leases: Leases,
    querier: Querier,
    ignored: BTreeMap<Ignored, u64>,
    /// When to look at ports again.
    look: Time,
}

impl Snooper {
    /// One that has heard nothing yet, where the clock of [`Time`] began so long after 1970. Leases that the state has kept
    /// go on.
    pub fn new(snooping: Snooping, epoch: Duration, state: &Snapshot) -> Snooper {
        let rows = state.table(snooped::LEASES).into_iter().flatten();
        let kept: Vec<Lease> = rows.filter_map(|(_, value)| Lease::from_value(value)).collect();
        let asks = |protocol: bool| protocol && snooping.querier;
        Snooper {
            groups: Groups::default(),
            leases: Leases::new(epoch, kept),
            querier: Querier::new(asks(snooping.igmp), asks(snooping.mld)),
            ignored: BTreeMap::new(),
            look: Time(0),
            snooping,
        }
    }

    /// Something happened.
    pub fn hear(&mut self, now: Time, happening: &Happening, out: &mut Vec<Effect>) {
        match happening {
            Happening::Packet(heard) => self.packet(now, heard, out),
            Happening::Port { at, is_up: false, .. } => self.groups.forget_port(*at),
            Happening::SwitchDown(dpid) => self.groups.forget_switch(*dpid),
            Happening::Port { .. } | Happening::SwitchUp(_) => {}
        }
    }

    /// Time has passed: what is over goes, what is due is asked, and what was learned since the last time is written.
    pub fn tick(&mut self, now: Time, state: &Snapshot, out: &mut Vec<Effect>) {
        self.groups.expire(now);
        self.leases.expire(now);
        if self.look <= now {
            self.look = after(now, LOOK);
            // A port that turned out to be a link, or whose end was not heard of.
            let gone: Vec<Location> = self.groups.ports().filter(|at| !is_edge(state, *at)).collect();
            gone.into_iter().for_each(|at| self.groups.forget_port(at));
            self.ask_all(now, state, out);
        }
        self.querier.ask_again(now, &self.groups, out);
        self.groups.write(out);
        self.leases.write(out);
    }

    fn ask_all(&mut self, now: Time, state: &Snapshot, out: &mut Vec<Effect>) {
        if self.snooping.querier {
            let ports =
                state.switches().flat_map(|(dpid, _)| state.ports_of(dpid).map(move |(n, _)| Location::new(dpid, n)));
            let edge: BTreeSet<Location> = ports.filter(|at| is_edge(state, *at)).collect();
            self.querier.ask_all(now, edge, out);
        }
    }

    /// When to tick at the latest.
    pub fn next(&self) -> Time {
        let due = [self.groups.next(), self.leases.next(), self.querier.next()];
        due.into_iter().flatten().chain([self.look]).min().unwrap_or(self.look)
    }

    fn packet(&mut self, now: Time, heard: &ListenerPacket, out: &mut Vec<Effect>) {
        let packet = Packet::new(&heard.frame, heard.at.port.0);
        let groups = match packet.get(Field::EthType) {
            Some(0x0800) if self.snooping.igmp => igmp::read(&packet),
            Some(0x86dd) if self.snooping.mld => mld::read(&packet),
            _ => None,
        };
        if let Some(said) = groups {
            self.groups(now, &packet, said, heard.at, out);
        } else if self.snooping.on_leases()
            && let Some(message) = dhcp::read(&packet)
        {
            self.dhcp(now, &packet, &message, heard.at, out);
        }
    }

    fn groups(&mut self, now: Time, packet: &Packet, said: Membership, at: Location, out: &mut Vec<Effect>) {
        let all = match said {
            Membership::Report(all) => all,
            Membership::Query(_) => return self.querier.heard(now, source(packet)),
        };
        for one in all {
            if !one.joined {
                if self.groups.leave(now, one.group, at) {
                    self.querier.last_call(now, one.group, at, out);
                }
            } else if let Err(reason) = self.groups.join(now, one.group, at) {
                self.ignore(reason, out);
            }
        }
    }

    fn dhcp(&mut self, now: Time, packet: &Packet, message: &dhcp::Dhcp, at: Location, out: &mut Vec<Effect>) {
        let src = Mac::from_bits(packet.get(Field::EthSrc).unwrap_or_default());
        let done = match message.is_reply {
            false => {
                self.leases.hear_client(now, src, message, at);
                Ok(())
            }
            true if self.snooping.dhcp.contains(&at) => self.leases.hear_server(now, message),
            true => Err(Ignored::Server(at)),
        };
        if let Err(reason) = done {
            self.ignore(reason, out);
        }
    }

    fn ignore(&mut self, reason: Ignored, out: &mut Vec<Effect>) {
        if self.ignored.len() >= REMEMBERED && !self.ignored.contains_key(&reason) {
            return;
        }
        let times = self.ignored.entry(reason).or_default();
        *times += 1;
        if 10u64.pow(times.ilog10()) == *times {
            out.push(Effect::Tell(reason, *times));
        }
    }
}

fn is_edge(state: &Snapshot, at: Location) -> bool {
    state.port(at).is_some_and(|port| port.up && port.kind == PortKind::Edge)
}

/// Who sent the packet, an IP packet.
fn source(packet: &Packet) -> IpAddr {
    let bits = |field| packet.get(field).unwrap_or_default();
    match packet.get(Field::Ipv6Src) {
        Some(ip) => IpAddr::V6(Ipv6Addr::from(ip)),
        None => IpAddr::V4(Ipv4Addr::from(bits(Field::Ipv4Src) as u32)),
    }
}

#[cfg(test)]
mod tests;
