//! Fragments of IP packets: how lists treat them, and what a rule with ports means for them.
//!
//! # What switches see
//!
//! A switch shows ports only in whole packets. In every fragment of TCP, UDP and SCTP they are 0, in the first one too,
//! and so are type and code of ICMP. (Open vSwitch by default; OpenFlow has no field that identifies fragments.) Later
//! fragments of IPv6 have the protocol 44 and nothing more. So a rule for `udp/53` fits no fragment of a datagram to
//! port 53: a rule that denies it lets a large datagram pass if a later rule allows UDP.
//!
//! # What can be told apart
//!
//! No whole packet of TCP, UDP or SCTP comes from port 0 and goes to port 0, nor has ICMPv6 a type 0. So these are
//! fragments. Fragments of ICMP look like echo replies (type 0, code 0), and those of protocols without ports look like
//! whole packets.

use maple_core::access::AccessAction;
use maple_wire::Field;
use maple_wire::eth_type::value::{IPV4, IPV6};
use maple_wire::ip_proto::value::{ICMP, ICMPV6, IPV6_FRAGMENT, SCTP, TCP, UDP};

use crate::cube::Cube;
use crate::service::Transport;

/// A list's treatment of fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fragments {
    /// Fragments are allowed, before all rules.
    Allow,
    /// Fragments are denied, before all rules.
    Deny,
    /// Rules decide about fragments by what switches see: addresses and protocol, and ports 0.
    Match,
}

/// The values of the key `fragments`.
pub const CHOICES: [(&str, Fragments); 3] =
    [("allow", Fragments::Allow), ("deny", Fragments::Deny), ("match", Fragments::Match)];

const ETH_TYPES: [u128; 2] = [IPV4, IPV6];
const TRANSPORTS: [Transport; 3] = [Transport::Tcp, Transport::Udp, Transport::Sctp];

/// The fields that are 0 in fragments.
const ZERO: [Field; 10] = [
    Field::TcpSrc,
    Field::TcpDst,
    Field::UdpSrc,
    Field::UdpDst,
    Field::SctpSrc,
    Field::SctpDst,
    Field::Icmpv4Type,
    Field::Icmpv4Code,
    Field::Icmpv6Type,
    Field::Icmpv6Code,
];

impl Fragments {
    /// Returns the action for fragments that precedes all rules, if any.
    pub fn action(self) -> Option<AccessAction> {
        match self {
            Fragments::Allow => Some(AccessAction::Allow),
            Fragments::Deny => Some(AccessAction::Deny),
            Fragments::Match => None,
        }
    }
}

/// Returns the fragments that can be distinguished from whole packets.
pub fn recognised() -> impl Iterator<Item = Cube> {
    let ip = |kind| Cube::all().is(Field::EthType, kind);
    let with_ports = ETH_TYPES.into_iter().flat_map(move |kind| {
        TRANSPORTS.into_iter().filter_map(move |transport| {
            let (number, source, destination) = transport.fields();
            ip(kind)?.is(Field::IpProto, number)?.is(source, 0)?.is(destination, 0)
        })
    });
    let later = ip(IPV6).and_then(|cube| cube.is(Field::IpProto, IPV6_FRAGMENT));
    let icmp = ip(IPV6).and_then(|cube| cube.is(Field::IpProto, ICMPV6)?.is(Field::Icmpv6Type, 0));
    with_ports.chain(later).chain(icmp)
}

/// Returns the fragments of a cube's packets, as switches see them. Returns none if the cube constrains no field that
/// fragments lack, because then it contains the fragments too.
pub fn fragments_of(cube: &Cube) -> Vec<Cube> {
    let says = |field: &Field| cube.get(*field).is_some();
    if !ZERO.iter().any(says) {
        return Vec::new();
    }
    let rest = || cube.intervals().iter().filter(|there| !ZERO.contains(&there.field));
    let part_with_proto = |proto: Option<u128>| {
        rest().try_fold(Cube::all(), |part, there| match proto {
            Some(proto) if there.field == Field::IpProto => part.is(Field::IpProto, proto),
            _ => part.with(there.field, there.lo, there.hi),
        })
    };
    let zero = |part: Cube| {
        let proto = cube.get(Field::IpProto).map(|there| there.lo);
        let fields: &[Field] = match proto {
            Some(TCP) => &[Field::TcpSrc, Field::TcpDst],
            Some(UDP) => &[Field::UdpSrc, Field::UdpDst],
            Some(SCTP) => &[Field::SctpSrc, Field::SctpDst],
            Some(ICMP) => &[Field::Icmpv4Type, Field::Icmpv4Code],
            _ => &[Field::Icmpv6Type, Field::Icmpv6Code],
        };
        fields.iter().try_fold(part, |part, field| part.is(*field, 0))
    };
    let is_v6 = cube.get(Field::EthType).is_some_and(|there| there.lo == IPV6);
    let later = is_v6.then(|| part_with_proto(Some(IPV6_FRAGMENT))).flatten();
    part_with_proto(None).and_then(zero).into_iter().chain(later).collect()
}
