//! A network, as programs and packets see it, and random things of it. Domains are small, so that packets meet the same
//! leaves and routes meet at the same switches.

use std::net::{Ipv4Addr, Ipv6Addr};

use maple_core::network::{Location, Mac};
use maple_core::state::Value;
use maple_wire::eth_type::value::{ARP, IPV4, IPV6};
use maple_wire::ip_proto::value::{ICMP, ICMPV6, TCP, UDP};
use maple_wire::{Dpid, Field, PortNo};

use super::super::Choices;
use super::program::{Operand, Who, int};

/// The addresses of a host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostAddresses {
    /// The host's hardware address.
    pub mac: Mac,
    /// The host's IPv4 address.
    pub ipv4: Ipv4Addr,
    /// The host's IPv6 address.
    pub ipv6: Ipv6Addr,
}

/// The material of the programs and packets of a case: the places and hosts of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct Domain {
    /// The number of switches; their datapath ids are 1, 2, ….
    pub switches: u64,
    /// The links, at least one.
    pub links: Vec<(Location, Location)>,
    /// The ports where hosts can be, at least one.
    pub edges: Vec<Location>,
    /// The hosts, at least one.
    pub hosts: Vec<HostAddresses>,
    /// Whether programs may give [`Special`](super::Special) answers.
    pub all_answers: bool,
}

impl Domain {
    /// Returns a value that packets have, or one next to it.
    pub fn value(&self, random: &mut Choices, field: Field) -> u128 {
        let host = *random.pick(&self.hosts);
        let (mac, ipv4) = (host.mac.bits(), u128::from(u32::from(host.ipv4)));
        let values: &[u128] = match field {
            Field::InPort => &[1, 2, 3, 4, 5],
            Field::EthSrc | Field::EthDst => &[mac, mac, mac, 0xffff_ffff_ffff],
            Field::EthType => &[IPV4, ARP, IPV6, 0x88b5],
            Field::VlanVid => &[0, 0x1001, 0x1002, 0x1007],
            Field::VlanPcp => &[0, 3],
            Field::IpDscp => &[0, 10, 46],
            Field::IpProto => &[ICMP, TCP, UDP, 47, ICMPV6],
            Field::Ipv4Src | Field::Ipv4Dst | Field::ArpSpa | Field::ArpTpa => &[ipv4, ipv4, 0x0a00_0100, 0x0b00_0001],
            Field::TcpSrc | Field::TcpDst | Field::UdpSrc | Field::UdpDst => &[22, 80, 1023, 1024, 5000],
            Field::Icmpv4Type => &[0, 8],
            Field::Icmpv6Type => &[128, 129],
            Field::ArpOp => &[1, 2],
            Field::Ipv6Src | Field::Ipv6Dst => &[u128::from(host.ipv6), 1],
            _ => &[0, 1],
        };
        *random.pick(values)
    }

    pub(super) fn host(&self, random: &mut Choices) -> Mac {
        random.pick(&self.hosts).mac
    }

    pub(super) fn dpid(&self, random: &mut Choices) -> Dpid {
        Dpid(1 + random.below(self.switches as usize) as u64)
    }

    /// Returns a port of a switch, which may not exist.
    pub(super) fn location(&self, random: &mut Choices) -> Location {
        Location::new(self.dpid(random), port(random))
    }

    pub(super) fn operand(&self, random: &mut Choices) -> Operand {
        if random.one_in(2) {
            return Operand::Constant(small(random, 3));
        }
        let fields = [Field::EthSrc, Field::EthDst, Field::TcpDst, Field::InPort, Field::IpProto];
        Operand::Field(*random.pick(&fields))
    }

    pub(super) fn who(&self, random: &mut Choices) -> Who {
        match random.below(6) {
            0 => Who::Source,
            1..5 => Who::Destination,
            _ => Who::Host(self.host(random)),
        }
    }
}

pub(super) fn port(random: &mut Choices) -> PortNo {
    PortNo(1 + random.below(5) as u32)
}

/// Returns one of the first few integers, as tables and variables hold it.
pub(super) fn small(random: &mut Choices, bound: usize) -> Value {
    int(random.below(bound) as u128)
}

/// The fields by which programs look something up.
pub(super) const KEYS: [Field; 4] = [Field::EthSrc, Field::EthDst, Field::TcpDst, Field::InPort];

/// The fields that programs ask for.
pub(super) const FIELDS: [Field; 24] = [
    Field::EthSrc,
    Field::EthDst,
    Field::EthDst,
    Field::EthType,
    Field::EthType,
    Field::VlanVid,
    Field::VlanPcp,
    Field::IpDscp,
    Field::IpProto,
    Field::Ipv4Src,
    Field::Ipv4Dst,
    Field::Ipv4Dst,
    Field::TcpSrc,
    Field::TcpDst,
    Field::TcpDst,
    Field::TcpDst,
    Field::UdpSrc,
    Field::UdpDst,
    Field::Icmpv4Type,
    Field::Icmpv6Type,
    Field::ArpOp,
    Field::ArpSpa,
    Field::Ipv6Dst,
    Field::InPort,
];
