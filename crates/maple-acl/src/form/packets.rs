//! From what a rule says of its packets to cubes.

use std::sync::Arc;

use maple_core::Location;
use maple_core::access::AccessGroup;
use maple_wire::eth_type::value::{IPV4, IPV6};
use maple_wire::{Dpid, Field, PortNo};

use crate::address::{AddressKind, Addresses, HostsAndBlocks};
use crate::cube::{Cube, SWITCH};
use crate::service::Service;

/// The packets of a cube that have an address of each of some groups.
pub(super) type GroupedCube = (Cube, Vec<AccessGroup>);

/// The packets of a rule, and those that look like replies to them. The cubes may overlap.
pub(super) struct Cubes {
    pub once: Vec<GroupedCube>,
    pub replies: Vec<GroupedCube>,
}

/// The ports from the first to the last.
type Range = (u16, u16);

/// A switch, or one port of it.
#[derive(Clone, Copy)]
pub(super) struct SwitchOrPort {
    pub switch: Dpid,
    pub port: Option<PortNo>,
}

impl SwitchOrPort {
    /// Parses a switch, and a port if one is given.
    pub fn parse(text: &str) -> Option<SwitchOrPort> {
        match text.parse::<Dpid>() {
            Ok(switch) => Some(SwitchOrPort { switch, port: None }),
            Err(_) => text.parse().ok().map(|Location { switch, port }| SwitchOrPort { switch, port: Some(port) }),
        }
    }
}

/// One choice of the addresses that a side of a rule names.
#[derive(Clone)]
pub(super) enum Side {
    Anywhere,
    Block(AddressKind, u128, u128),
    /// Hosts, with the name that they have as a group.
    Hosts(AddressKind, Arc<str>, Arc<[u128]>),
}

impl Side {
    /// Returns the choices of a side; `None` stands for all addresses.
    pub fn all(addresses: Option<&Addresses>) -> Vec<Side> {
        let block = |(kind, lo, hi)| Side::Block(kind, lo, hi);
        addresses.map_or(vec![Side::Anywhere], |all| all.blocks().into_iter().map(block).collect())
    }

    /// Returns the choices of a side where hosts are a group of this name.
    pub fn grouped(HostsAndBlocks { hosts, blocks, .. }: HostsAndBlocks, name: &str) -> Vec<Side> {
        let group = |(kind, hosts): (AddressKind, Vec<u128>)| Side::Hosts(kind, name.into(), hosts.into());
        let blocks = blocks.into_iter().map(|(kind, lo, hi)| Side::Block(kind, lo, hi));
        hosts.into_iter().map(group).chain(blocks).collect()
    }

    fn kind(&self) -> Option<AddressKind> {
        match self {
            Side::Anywhere => None,
            Side::Block(kind, ..) | Side::Hosts(kind, ..) => Some(*kind),
        }
    }
}

/// The constraints of a rule's packets, apart from their addresses.
pub(super) struct Constraints {
    pub services: Option<Vec<Service>>,
    pub source_ports: Vec<Range>,
    pub ethertype: Option<u128>,
    /// The values of `vlan_vid`, from the first to the last; `None` stands for all.
    pub vlans: Vec<Option<(u128, u128)>>,
    /// The places where the packets enter; `None` stands for all.
    pub at: Vec<Option<SwitchOrPort>>,
    /// Whether the packets that look like replies belong to them.
    pub replies: bool,
}

impl Constraints {
    /// Returns an upper bound of the number of cubes; `None` if it overflows.
    pub fn max_cubes(&self, from: Option<&Addresses>, to: Option<&Addresses>) -> Option<usize> {
        let side = |addresses: Option<&Addresses>| addresses.map_or(1, |all| all.blocks().len());
        // Packets of a service are of one protocol, IPv4 or IPv6, if a side says of which.
        let is_ip = |all: &Addresses| all.blocks().iter().all(|(kind, ..)| *kind != AddressKind::Mac);
        let kinds = if [from, to].into_iter().flatten().any(is_ip) { 1 } else { 2 };
        let services = self.services.as_ref().map_or(1, |all| kinds * all.len());
        let rest = [side(to), services, self.source_ports.len().max(1), self.vlans.len(), self.at.len()];
        let once = rest.into_iter().try_fold(side(from), usize::checked_mul)?;
        once.checked_mul(if self.replies { 2 } else { 1 })
    }

    /// Returns the packets from some addresses to others.
    pub fn cubes(&self, from: &[Side], to: &[Side]) -> Cubes {
        let services = self.services.as_ref().map_or(vec![None], |all| all.iter().copied().map(Some).collect());
        let sources = match &self.source_ports[..] {
            [] => vec![None],
            all => all.iter().copied().map(Some).collect(),
        };
        let (once, mut replies) = (self.between(from, to, &services, &sources), Vec::new());
        if self.replies {
            let pairs = services.into_iter().flat_map(|service| sources.iter().map(move |source| (service, *source)));
            for (service, source) in pairs {
                match service.map(|service| service.replies(source.unwrap_or((0, u16::MAX)))) {
                    None => replies.extend(self.between(to, from, &[None], &[None])),
                    Some(Some((service, source))) => {
                        replies.extend(self.between(to, from, &[Some(service)], &[source]));
                    }
                    Some(None) => {}
                }
            }
        }
        Cubes { once, replies }
    }

    fn between(
        &self,
        from: &[Side],
        to: &[Side],
        services: &[Option<Service>],
        sources: &[Option<Range>],
    ) -> Vec<GroupedCube> {
        let places = self.at.iter().flat_map(|place| self.vlans.iter().map(|vlan| located(*place, *vlan)));
        let mut cubes = Vec::new();
        for base in places.flatten() {
            for (source, destination) in from.iter().flat_map(|source| to.iter().map(move |to| (source, to))) {
                for service in services {
                    let kinds = self.kinds(source, destination, *service).into_iter();
                    let addressed = kinds.filter_map(|kind| addressed(&base, kind, source, destination));
                    match service {
                        None => cubes.extend(addressed),
                        Some(service) => cubes.extend(addressed.flat_map(|(cube, groups)| {
                            let restrict = move |ports: &Option<Range>| {
                                Some((service.restrict(cube.clone(), *ports)?, groups.clone()))
                            };
                            sources.iter().filter_map(restrict)
                        })),
                    }
                }
            }
        }
        cubes
    }

    /// Returns the possible Ethernet types of such packets; `None` stands for any.
    fn kinds(&self, source: &Side, destination: &Side, service: Option<Service>) -> Vec<Option<u128>> {
        let ip = |side: &Side| side.kind().filter(|kind| *kind != AddressKind::Mac);
        let wanted = [ip(source), ip(destination), service.and_then(Service::kind)];
        let types: Vec<u128> =
            wanted.into_iter().flatten().map(|kind| if kind == AddressKind::V4 { IPV4 } else { IPV6 }).collect();
        let agree = |kind: &u128| types.iter().chain(&self.ethertype).all(|other| other == kind);
        match types.first().copied().or(self.ethertype) {
            Some(kind) => Some(kind).filter(agree).map(Some).into_iter().collect(),
            None if service.is_some() => vec![Some(IPV4), Some(IPV6)],
            None => vec![None],
        }
    }
}

fn located(place: Option<SwitchOrPort>, vlan: Option<(u128, u128)>) -> Option<Cube> {
    let mut cube = Cube::all();
    if let Some(SwitchOrPort { switch, port }) = place {
        cube = cube.is(SWITCH, switch.0.into())?;
        if let Some(port) = port {
            cube = cube.is(Field::InPort, port.0.into())?;
        }
    }
    match vlan {
        Some((lo, hi)) => cube.with(Field::VlanVid, lo, hi),
        None => Some(cube),
    }
}

fn addressed(base: &Cube, kind: Option<u128>, source: &Side, destination: &Side) -> Option<GroupedCube> {
    let mut cube = match kind {
        Some(kind) => base.clone().is(Field::EthType, kind)?,
        None => base.clone(),
    };
    let mut groups = Vec::new();
    let fields = [
        (source, [Field::Ipv4Src, Field::Ipv6Src, Field::EthSrc]),
        (destination, [Field::Ipv4Dst, Field::Ipv6Dst, Field::EthDst]),
    ];
    for (side, [v4, v6, mac]) in fields {
        let Some(kind) = side.kind() else { continue };
        let field = match kind {
            AddressKind::V4 => v4,
            AddressKind::V6 => v6,
            AddressKind::Mac => mac,
        };
        match side {
            Side::Block(_, lo, hi) if hi - lo < field.full_mask() => cube = cube.with(field, *lo, *hi)?,
            Side::Hosts(_, name, addresses) => {
                groups.push(AccessGroup { name: Arc::clone(name), field, addresses: Arc::clone(addresses) });
            }
            Side::Anywhere | Side::Block(..) => {}
        }
    }
    Some((cube, groups))
}
