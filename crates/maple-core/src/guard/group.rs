//! Groups of hosts, as constraints see them: whether a member sends a packet or receives it, and where members are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use maple_wire::{Constraint, Field};

use crate::network::{Location, Mac};
use crate::policy::{Net, PacketHandle, PolicyError};
use crate::query::{Query, QueryError};
use crate::route::RouteError;
use crate::route_plan::Treatment;
use crate::run::Observe as _;
use crate::state::{Cell, CellValue};
use crate::trace::Cond;

/// One kind of member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member {
    /// The host with this address. It sends from the address, and receives packets that are for the address or are
    /// delivered where the host is.
    Mac(Mac),
    /// The hosts with IP addresses in a prefix: an address of the network and the prefix length in bits.
    Ip(IpAddr, u8),
    /// The hosts at an edge port.
    Place(Location),
    /// Packets that fit a condition, whatever hosts send or receive them.
    Fits(Cond),
}

/// The hosts, or the packets, that a constraint is about.
#[derive(Clone)]
pub struct HostGroup {
    members: Vec<Member>,
    /// The members with hardware addresses, by address, each with the condition on packets that it sends.
    macs: BTreeMap<u128, Cond>,
    /// The conditions on packets that another member sends.
    sends: Vec<Cond>,
    /// The conditions on packets for a member: those that name its address, and those that a condition of the group
    /// states.
    receives: [Vec<Cond>; 2],
    places: BTreeSet<Location>,
    /// The queries for the locations of members with addresses; `None` if there is no such member.
    located: Option<MemberQueries>,
}

/// The queries for the locations of members. One asks about a single place, and other hosts that come and go hardly
/// change its answer. The other asks about all places, for routes that lead to many.
#[derive(Clone)]
struct MemberQueries {
    is_at: Query<Location, bool>,
    all: Query<(), Vec<Location>>,
}

/// The maximum number of places that are asked about one by one. Chosen: each question is an observation of its own
/// that the trace carries; of more, the answer about all hosts is one.
const MAX_ASKED: usize = 8;

impl fmt::Debug for HostGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.members).finish()
    }
}

impl HostGroup {
    /// Creates the group of these members.
    pub fn new(members: impl IntoIterator<Item = Member>) -> HostGroup {
        let members: Vec<Member> = members.into_iter().collect();
        let places = members.iter().filter_map(|member| match member {
            Member::Place(at) => Some(*at),
            _ => None,
        });
        let is_said = |member: &Member| matches!(member, Member::Fits(_));
        let by_address = members.iter().filter(|member| !is_said(member)).flat_map(Member::receives).collect();
        let as_said = members.iter().filter(|member| is_said(member)).flat_map(Member::receives).collect();
        let mac = |member: &Member| match member {
            Member::Mac(mac) => Some((mac.bits(), exact(Field::EthSrc, mac.bits()))),
            _ => None,
        };
        let has_address = members.iter().any(|member| matches!(member, Member::Mac(_) | Member::Ip(..)));
        HostGroup {
            macs: members.iter().filter_map(mac).collect(),
            sends: members.iter().flat_map(Member::sends).collect(),
            receives: [by_address, as_said],
            places: places.collect(),
            located: has_address.then(|| locate(members.clone())),
            members,
        }
    }

    /// Creates the group of all hosts, and all packets.
    pub fn all() -> HostGroup {
        HostGroup::new([Member::Fits(Cond::default())])
    }

    /// Reports whether a member sends the packet, as it is before the policy's route changes it. `source` is its source
    /// address if that is known, which saves a question for each member. `is_named` says whether the packet fits a
    /// condition on the senders of some constraint.
    pub(super) fn sends(&self, pkt: &PacketHandle, source: Option<u128>, is_named: bool) -> bool {
        let is_mac = match source {
            Some(source) => self.macs.contains_key(&source),
            None => self.macs.values().any(|cond| pkt.fits(cond, None)),
        };
        is_mac
            || self.sends.iter().any(|cond| is_for_all(cond) || is_named && pkt.fits(cond, None))
            || self.places.iter().any(|at| came_in_at(pkt, *at))
    }

    /// Reports whether the packet is addressed to a member, before or after one of these rewrites. Without
    /// `by_address`, only the conditions of the group count.
    ///
    /// # Errors
    /// [`RouteError`] if the packet can't have one of the rewrites.
    pub(super) fn receives(
        &self,
        pkt: &PacketHandle,
        rewrites: &[BTreeMap<Field, u128>],
        by_address: bool,
    ) -> Result<bool, RouteError> {
        let [addresses, said] = &self.receives;
        let conds = || said.iter().chain(addresses.iter().filter(|_| by_address));
        if conds().any(|cond| pkt.fits(cond, None)) {
            return Ok(true);
        }
        let before = pkt.changes();
        for rewrites in rewrites.iter().filter(|rewrites| !rewrites.is_empty()) {
            let mut concerned = conds().filter(|cond| concerns(cond, rewrites)).peekable();
            if concerned.peek().is_none() {
                continue;
            }
            pkt.change(&Treatment { rewrites: rewrites.clone(), queue: None })?;
            let fits = concerned.any(|cond| pkt.fits(cond, None));
            pkt.set_changes(before.clone());
            if fits {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the hardware addresses of the members, if all members are named by one.
    pub(super) fn only_macs(&self) -> Option<Vec<u128>> {
        (self.sends.is_empty() && self.places.is_empty()).then(|| self.macs.keys().copied().collect())
    }

    /// Returns the conditions on packets that a member sends, apart from hardware addresses, ports, and conditions that
    /// all packets fit.
    pub(super) fn named_senders(&self) -> impl Iterator<Item = &Cond> {
        self.sends.iter().filter(|cond| !is_for_all(cond))
    }

    /// Returns those of `places` where members are, as far as that is known.
    ///
    /// # Errors
    /// [`PolicyError::Exception`] if a query for locations fails.
    pub(super) fn among(&self, net: &Net, places: &[Location]) -> Result<BTreeSet<Location>, PolicyError> {
        let mut there: BTreeSet<Location> = places.iter().filter(|at| self.places.contains(at)).copied().collect();
        let Some(located) = self.located.as_ref().filter(|_| net.tracks_hosts()) else { return Ok(there) };
        let error = |error: QueryError| PolicyError::Exception(error.to_string().into());
        if places.len() > MAX_ASKED {
            let all = located.all.try_get(net, &()).map_err(error)?;
            there.extend(all.into_iter().filter(|at| places.contains(at)));
            return Ok(there);
        }
        for at in places {
            if !there.contains(at) && located.is_at.try_get(net, at).map_err(error)? {
                there.insert(*at);
            }
        }
        Ok(there)
    }
}

impl Member {
    fn sends(&self) -> Vec<Cond> {
        match self {
            Member::Mac(_) | Member::Place(_) => Vec::new(),
            Member::Ip(IpAddr::V4(_), _) => self.within([Field::Ipv4Src, Field::ArpSpa]),
            Member::Ip(IpAddr::V6(_), _) => self.within([Field::Ipv6Src]),
            Member::Fits(cond) => vec![cond.clone()],
        }
    }

    fn receives(&self) -> Vec<Cond> {
        match self {
            Member::Mac(mac) => vec![exact(Field::EthDst, mac.bits())],
            Member::Ip(IpAddr::V4(_), _) => self.within([Field::Ipv4Dst, Field::ArpTpa]),
            Member::Ip(IpAddr::V6(_), _) => self.within([Field::Ipv6Dst]),
            Member::Place(_) => Vec::new(),
            Member::Fits(cond) => vec![cond.clone()],
        }
    }

    /// Returns the prefix as a condition on each of these fields.
    fn within<const N: usize>(&self, fields: [Field; N]) -> Vec<Cond> {
        let Some((value, mask)) = self.prefix() else { return Vec::new() };
        let cond = |field: Field| Cond::default().and(Constraint::masked(field, value & mask, mask));
        fields.map(cond).into()
    }

    /// Returns the value and the mask of a prefix.
    fn prefix(&self) -> Option<(u128, u128)> {
        let Member::Ip(network, length) = self else { return None };
        let (value, width) = bits(*network);
        let rest = width.saturating_sub(u32::from(*length));
        let all = u128::MAX >> (128 - width);
        Some((value, if rest == width { 0 } else { all >> rest << rest }))
    }

    /// Reports whether a host with these addresses is this member.
    fn is(&self, mac: Mac, addresses: &[IpAddr]) -> bool {
        match self {
            Member::Mac(member) => *member == mac,
            Member::Ip(network, _) => self.prefix().is_some_and(|(value, mask)| {
                let inside = |ip: &IpAddr| ip.is_ipv4() == network.is_ipv4() && bits(*ip).0 & mask == value & mask;
                addresses.iter().any(inside)
            }),
            Member::Place(_) | Member::Fits(_) => false,
        }
    }
}

/// Returns an address as a number, and its number of bits.
fn bits(ip: IpAddr) -> (u128, u32) {
    match ip {
        IpAddr::V4(ip) => (u32::from(ip).into(), 32),
        IpAddr::V6(ip) => (ip.into(), 128),
    }
}

fn exact(field: Field, value: u128) -> Cond {
    Cond::default().and(Constraint::exact(field, value))
}

/// Reports whether these rewrites can change the outcome of a condition.
fn concerns(cond: &Cond, rewrites: &BTreeMap<Field, u128>) -> bool {
    let is_tag = |field: Field| matches!(field, Field::VlanVid | Field::VlanPcp);
    let fields = cond.constraints.iter().map(|c| c.field).chain(cond.ranges.iter().map(|range| range.field));
    let mut fields = fields.collect::<Vec<_>>().into_iter();
    fields.any(|field| rewrites.keys().any(|written| *written == field || is_tag(*written) && is_tag(field)))
}

fn is_for_all(cond: &Cond) -> bool {
    cond.constraints.is_empty() && cond.ranges.is_empty()
}

fn came_in_at(pkt: &PacketHandle, at: Location) -> bool {
    pkt.switch() == at.switch && pkt.equals(Field::InPort, at.port.0.into(), Field::InPort.full_mask(), None)
}

/// Creates the queries for the places of members with addresses. All routes share their answers, which are computed
/// again when hosts of the place change, or hosts that may be members.
fn locate(members: Vec<Member>) -> MemberQueries {
    let members = Arc::new(members);
    let all = Arc::clone(&members);
    let has_prefixes = members.iter().any(|member| matches!(member, Member::Ip(..)));
    let is_at = move |net: &Net, at: Location| {
        let hosts = hosts(net, Cell::HostsAt(at));
        hosts.into_iter().any(|(mac, _)| {
            let (v4, v6) = has_prefixes.then(|| net.host_addresses(mac)).flatten().unwrap_or_default();
            let ips: Vec<IpAddr> = v4.into_iter().map(IpAddr::from).chain(v6.into_iter().map(Into::into)).collect();
            members.iter().any(|member| member.is(mac, &ips))
        })
    };
    let everywhere = move |net: &Net, (): ()| {
        let mut places = BTreeSet::new();
        for member in &*all {
            match member {
                Member::Mac(mac) => places.extend(net.locate(*mac)),
                Member::Ip(network, length) => {
                    places.extend(hosts(net, Cell::HostsIn(*network, *length)).into_iter().map(|(_, at)| at));
                }
                Member::Place(_) | Member::Fits(_) => {}
            }
        }
        places.into_iter().collect()
    };
    MemberQueries {
        is_at: Query::new("members of a group at a port", is_at),
        all: Query::new("members of a group", everywhere),
    }
}

fn hosts(net: &Net, cell: Cell) -> Vec<(Mac, Location)> {
    match net.read(cell) {
        CellValue::Hosts(hosts) => hosts,
        _ => Vec::new(),
    }
}
