//! The packet fields of OpenFlow 1.3 (OXM, §7.2.3.7): names, widths, masks and prerequisites.
//!
//! A field's value is a `u128`, right-aligned. A packet *has* a field if and only if the field's prerequisites hold for
//! it. All reasoning about absent fields depends on this rule.

use std::fmt;

/// A header field that switches can match, by its OXM name.
///
/// ```
/// use maple_wire::Field;
///
/// let port = Field::from_name("tcp_dst").unwrap();
/// assert_eq!((port, port.bits(), port.full_mask()), (Field::TcpDst, 16, 0xffff));
/// // A packet has it if it is TCP over IPv4 or IPv6.
/// assert_eq!(port.prerequisites().len(), 2);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Field {
    /// Port the packet came in by.
    InPort = 0,
    /// Physical port under a logical one.
    InPhyPort = 1,
    /// Metadata that one table passes to the next.
    Metadata = 2,
    /// Ethernet destination.
    EthDst = 3,
    /// Ethernet source.
    EthSrc = 4,
    /// Ethernet type after the first VLAN tag.
    EthType = 5,
    /// VLAN id; bit 12 is set if there is a tag. Without a tag all bits are 0.
    VlanVid = 6,
    /// VLAN priority.
    VlanPcp = 7,
    /// IP differentiated services code point.
    IpDscp = 8,
    /// IP congestion notification.
    IpEcn = 9,
    /// IP protocol, or the next header after IPv6 extension headers.
    IpProto = 10,
    /// IPv4 source.
    Ipv4Src = 11,
    /// IPv4 destination.
    Ipv4Dst = 12,
    /// TCP source port.
    TcpSrc = 13,
    /// TCP destination port.
    TcpDst = 14,
    /// UDP source port.
    UdpSrc = 15,
    /// UDP destination port.
    UdpDst = 16,
    /// SCTP source port.
    SctpSrc = 17,
    /// SCTP destination port.
    SctpDst = 18,
    /// ICMP type.
    Icmpv4Type = 19,
    /// ICMP code.
    Icmpv4Code = 20,
    /// ARP operation.
    ArpOp = 21,
    /// ARP sender protocol address.
    ArpSpa = 22,
    /// ARP target protocol address.
    ArpTpa = 23,
    /// ARP sender hardware address.
    ArpSha = 24,
    /// ARP target hardware address.
    ArpTha = 25,
    /// IPv6 source.
    Ipv6Src = 26,
    /// IPv6 destination.
    Ipv6Dst = 27,
    /// IPv6 flow label.
    Ipv6Flabel = 28,
    /// ICMPv6 type.
    Icmpv6Type = 29,
    /// ICMPv6 code.
    Icmpv6Code = 30,
    /// Neighbour discovery target.
    Ipv6NdTarget = 31,
    /// Neighbour discovery source link-layer address.
    Ipv6NdSll = 32,
    /// Neighbour discovery target link-layer address.
    Ipv6NdTll = 33,
    /// Label of the outermost MPLS entry.
    MplsLabel = 34,
    /// Traffic class of the outermost MPLS entry.
    MplsTc = 35,
    /// Bottom-of-stack bit of the outermost MPLS entry.
    MplsBos = 36,
    /// Provider backbone service id.
    PbbIsid = 37,
    /// Logical port metadata.
    TunnelId = 38,
    /// Bits for the IPv6 extension headers that are present.
    Ipv6Exthdr = 39,
}

/// The properties of a field according to the specification.
struct Info {
    name: &'static str,
    bits: u8,
    maskable: bool,
    prerequisites: &'static [&'static [Prerequisite]],
}

/// One condition of a prerequisite: `(packet[field] & mask) == value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prerequisite {
    /// The field that is compared.
    pub field: Field,
    /// The value that it must have.
    pub value: u128,
    /// The bits that are compared.
    pub mask: u128,
}

const fn eth_type(value: u128) -> Prerequisite {
    Prerequisite { field: Field::EthType, value, mask: 0xffff }
}

const fn ip_proto(value: u128) -> Prerequisite {
    Prerequisite { field: Field::IpProto, value, mask: 0xff }
}

const fn icmpv6_type(value: u128) -> Prerequisite {
    Prerequisite { field: Field::Icmpv6Type, value, mask: 0xff }
}

const V4: &[&[Prerequisite]] = &[&[eth_type(0x0800)]];
const V6: &[&[Prerequisite]] = &[&[eth_type(0x86dd)]];
const IP: &[&[Prerequisite]] = &[&[eth_type(0x0800)], &[eth_type(0x86dd)]];
const ARP: &[&[Prerequisite]] = &[&[eth_type(0x0806)]];
const MPLS: &[&[Prerequisite]] = &[&[eth_type(0x8847)], &[eth_type(0x8848)]];
const PBB: &[&[Prerequisite]] = &[&[eth_type(0x88e7)]];
const VLAN: &[&[Prerequisite]] = &[&[Prerequisite { field: Field::VlanVid, value: 0x1000, mask: 0x1000 }]];
const TCP: &[&[Prerequisite]] = &[&[eth_type(0x0800), ip_proto(6)], &[eth_type(0x86dd), ip_proto(6)]];
const UDP: &[&[Prerequisite]] = &[&[eth_type(0x0800), ip_proto(17)], &[eth_type(0x86dd), ip_proto(17)]];
const SCTP: &[&[Prerequisite]] = &[&[eth_type(0x0800), ip_proto(132)], &[eth_type(0x86dd), ip_proto(132)]];
const ICMP4: &[&[Prerequisite]] = &[&[eth_type(0x0800), ip_proto(1)]];
const ICMP6: &[&[Prerequisite]] = &[&[eth_type(0x86dd), ip_proto(58)]];
const ND_SOLICIT: &[&[Prerequisite]] = &[&[eth_type(0x86dd), ip_proto(58), icmpv6_type(135)]];
const ND_ADVERT: &[&[Prerequisite]] = &[&[eth_type(0x86dd), ip_proto(58), icmpv6_type(136)]];
const ND: &[&[Prerequisite]] =
    &[&[eth_type(0x86dd), ip_proto(58), icmpv6_type(135)], &[eth_type(0x86dd), ip_proto(58), icmpv6_type(136)]];
const NONE: &[&[Prerequisite]] = &[&[]];

const INFO: [Info; Field::COUNT] = [
    Info { name: "in_port", bits: 32, maskable: false, prerequisites: NONE },
    Info { name: "in_phy_port", bits: 32, maskable: false, prerequisites: NONE },
    Info { name: "metadata", bits: 64, maskable: true, prerequisites: NONE },
    Info { name: "eth_dst", bits: 48, maskable: true, prerequisites: NONE },
    Info { name: "eth_src", bits: 48, maskable: true, prerequisites: NONE },
    Info { name: "eth_type", bits: 16, maskable: false, prerequisites: NONE },
    Info { name: "vlan_vid", bits: 13, maskable: true, prerequisites: NONE },
    Info { name: "vlan_pcp", bits: 3, maskable: false, prerequisites: VLAN },
    Info { name: "ip_dscp", bits: 6, maskable: false, prerequisites: IP },
    Info { name: "ip_ecn", bits: 2, maskable: false, prerequisites: IP },
    Info { name: "ip_proto", bits: 8, maskable: false, prerequisites: IP },
    Info { name: "ipv4_src", bits: 32, maskable: true, prerequisites: V4 },
    Info { name: "ipv4_dst", bits: 32, maskable: true, prerequisites: V4 },
    Info { name: "tcp_src", bits: 16, maskable: false, prerequisites: TCP },
    Info { name: "tcp_dst", bits: 16, maskable: false, prerequisites: TCP },
    Info { name: "udp_src", bits: 16, maskable: false, prerequisites: UDP },
    Info { name: "udp_dst", bits: 16, maskable: false, prerequisites: UDP },
    Info { name: "sctp_src", bits: 16, maskable: false, prerequisites: SCTP },
    Info { name: "sctp_dst", bits: 16, maskable: false, prerequisites: SCTP },
    Info { name: "icmpv4_type", bits: 8, maskable: false, prerequisites: ICMP4 },
    Info { name: "icmpv4_code", bits: 8, maskable: false, prerequisites: ICMP4 },
    Info { name: "arp_op", bits: 16, maskable: false, prerequisites: ARP },
    Info { name: "arp_spa", bits: 32, maskable: true, prerequisites: ARP },
    Info { name: "arp_tpa", bits: 32, maskable: true, prerequisites: ARP },
    Info { name: "arp_sha", bits: 48, maskable: true, prerequisites: ARP },
    Info { name: "arp_tha", bits: 48, maskable: true, prerequisites: ARP },
    Info { name: "ipv6_src", bits: 128, maskable: true, prerequisites: V6 },
    Info { name: "ipv6_dst", bits: 128, maskable: true, prerequisites: V6 },
    Info { name: "ipv6_flabel", bits: 20, maskable: true, prerequisites: V6 },
    Info { name: "icmpv6_type", bits: 8, maskable: false, prerequisites: ICMP6 },
    Info { name: "icmpv6_code", bits: 8, maskable: false, prerequisites: ICMP6 },
    Info { name: "ipv6_nd_target", bits: 128, maskable: false, prerequisites: ND },
    Info { name: "ipv6_nd_sll", bits: 48, maskable: false, prerequisites: ND_SOLICIT },
    Info { name: "ipv6_nd_tll", bits: 48, maskable: false, prerequisites: ND_ADVERT },
    Info { name: "mpls_label", bits: 20, maskable: false, prerequisites: MPLS },
    Info { name: "mpls_tc", bits: 3, maskable: false, prerequisites: MPLS },
    Info { name: "mpls_bos", bits: 1, maskable: false, prerequisites: MPLS },
    Info { name: "pbb_isid", bits: 24, maskable: true, prerequisites: PBB },
    Info { name: "tunnel_id", bits: 64, maskable: true, prerequisites: NONE },
    Info { name: "ipv6_exthdr", bits: 9, maskable: true, prerequisites: V6 },
];

impl Field {
    /// The number of fields.
    pub const COUNT: usize = 40;

    /// All fields, in the order of their OXM numbers.
    pub const ALL: [Field; Field::COUNT] = [
        Field::InPort,
        Field::InPhyPort,
        Field::Metadata,
        Field::EthDst,
        Field::EthSrc,
        Field::EthType,
        Field::VlanVid,
        Field::VlanPcp,
        Field::IpDscp,
        Field::IpEcn,
        Field::IpProto,
        Field::Ipv4Src,
        Field::Ipv4Dst,
        Field::TcpSrc,
        Field::TcpDst,
        Field::UdpSrc,
        Field::UdpDst,
        Field::SctpSrc,
        Field::SctpDst,
        Field::Icmpv4Type,
        Field::Icmpv4Code,
        Field::ArpOp,
        Field::ArpSpa,
        Field::ArpTpa,
        Field::ArpSha,
        Field::ArpTha,
        Field::Ipv6Src,
        Field::Ipv6Dst,
        Field::Ipv6Flabel,
        Field::Icmpv6Type,
        Field::Icmpv6Code,
        Field::Ipv6NdTarget,
        Field::Ipv6NdSll,
        Field::Ipv6NdTll,
        Field::MplsLabel,
        Field::MplsTc,
        Field::MplsBos,
        Field::PbbIsid,
        Field::TunnelId,
        Field::Ipv6Exthdr,
    ];

    /// Returns the number in OXM class 0x8000 (`OFPXMC_OPENFLOW_BASIC`), 0 to 39.
    pub const fn oxm(self) -> u8 {
        self as u8
    }

    /// Returns the field with this OXM number.
    pub fn from_oxm(number: u8) -> Option<Field> {
        Field::ALL.get(number as usize).copied()
    }

    /// Returns the OXM name, such as `eth_src`.
    pub const fn name(self) -> &'static str {
        INFO[self as usize].name
    }

    /// Returns the field with this OXM name.
    pub fn from_name(name: &str) -> Option<Field> {
        Field::ALL.into_iter().find(|field| field.name() == name)
    }

    /// Returns the width in bits, 1 to 128.
    pub const fn bits(self) -> u32 {
        INFO[self as usize].bits as u32
    }

    /// Returns the width in whole bytes, as OXM carries the field: 4 for the two fields of 20 bits.
    pub const fn bytes(self) -> usize {
        match self {
            Field::Ipv6Flabel | Field::MplsLabel => 4,
            _ => (self.bits() as usize).div_ceil(8),
        }
    }

    /// Returns the mask with all bits of the field set.
    pub const fn full_mask(self) -> u128 {
        u128::MAX >> (128 - INFO[self as usize].bits as u32)
    }

    /// Whether OpenFlow 1.3 allows a mask on the field.
    pub const fn is_maskable(self) -> bool {
        INFO[self as usize].maskable
    }

    /// Returns the conditions under which a packet has this field: one of the alternatives must hold, and each is a
    /// conjunction.
    ///
    /// A field without prerequisites has one empty alternative. IPv4 comes before IPv6.
    pub const fn prerequisites(self) -> &'static [&'static [Prerequisite]] {
        INFO[self as usize].prerequisites
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of fields, one bit each.
///
/// ```
/// use maple_wire::{Field, FieldSet};
///
/// let mut fields = FieldSet::of(&[Field::TcpDst]);
/// fields.insert(Field::EthSrc);
/// assert!(fields.iter().eq([Field::EthSrc, Field::TcpDst]), "in OXM order");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct FieldSet(u64);

impl FieldSet {
    /// The set without fields.
    pub const EMPTY: FieldSet = FieldSet(0);
    /// The set of all fields.
    pub const ALL: FieldSet = FieldSet((1 << Field::COUNT) - 1);

    /// Creates the set of these fields.
    pub const fn of(fields: &[Field]) -> FieldSet {
        let (mut bits, mut i) = (0, 0);
        while i < fields.len() {
            bits |= 1 << fields[i] as u8;
            i += 1;
        }
        FieldSet(bits)
    }

    /// Whether `field` is in the set.
    pub const fn contains(self, field: Field) -> bool {
        self.0 & 1 << field as u8 != 0
    }

    /// Adds `field`.
    pub const fn insert(&mut self, field: Field) {
        self.0 |= 1 << field as u8;
    }

    /// Iterates over the fields in the set, in OXM order.
    pub fn iter(self) -> impl Iterator<Item = Field> {
        Field::ALL.into_iter().filter(move |field| self.contains(*field))
    }
}

impl fmt::Debug for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Reads a number as people write it: decimal, or hexadecimal after `0x`.
pub(crate) fn parse_number(text: &str) -> Option<u128> {
    let is_plain = |digits: &str| !digits.starts_with('+');
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u128::from_str_radix(digits, 16).ok().filter(|_| is_plain(digits)),
        None => text.parse().ok().filter(|_| is_plain(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_lead_back_to_their_field() {
        for field in Field::ALL {
            assert_eq!(Field::from_oxm(field.oxm()), Some(field));
            assert_eq!(Field::from_name(field.name()), Some(field));
        }
        assert_eq!(Field::from_oxm(40), None);
        assert_eq!(Field::from_name("tcp_port"), None);
    }

    #[test]
    fn prerequisites_are_about_fields_with_smaller_numbers() {
        // Then a match in OXM order states each prerequisite before the field that needs it (1.3 §7.2.3.6).
        for field in Field::ALL {
            for condition in field.prerequisites().iter().flat_map(|all| all.iter()) {
                assert!(condition.field < field, "{field}");
            }
        }
    }
}
