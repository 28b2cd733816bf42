//! The packet fields of OpenFlow 1.3 (OXM, §7.2.3.7): names, widths, masks and prerequisites.
//!
//! All fields stand in one table, [`for_all_fields!`](crate::for_all_fields).
//!
//! A field's value is a `u128`, right-aligned. That of `vlan_vid` has a bit 12, which is set if there is a tag. Without
//! a tag all bits are 0. A packet *has* a field if and only if the field's prerequisites hold for it. All reasoning
//! about absent fields depends on this rule.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{eth_type, icmpv6_type, ip_proto};

/// Passes all fields to a macro, in the order of their OXM numbers.
///
/// After documentation, OXM name and variant of `Field` come the facts: the width in bits; the kind of the values
/// (`field::ValueKind`); whether 1.3 allows a mask (`masked`) or not (`whole`); the prerequisites; what a match of
/// OpenFlow 1.0 can say (`field::In10`); and whether an action of 1.0 sets the field (`set`) or none does (`fixed`).
///
/// ```
/// use maple_wire::Field;
///
/// macro_rules! names {
///     ($(#[doc = $doc:literal] $name:ident => $field:ident $facts:tt;)*) => { [$(stringify!($name)),*] };
/// }
/// assert_eq!(maple_wire::for_all_fields!(names), Field::ALL.map(Field::name));
/// ```
#[macro_export]
macro_rules! for_all_fields {
    ($make:ident) => {
        $make! {
            /// Port by which the packet came in.
            in_port => InPort (32, SwitchPort, whole, NONE, Exact, fixed);
            /// Physical port under a logical one.
            in_phy_port => InPhyPort (32, SwitchPort, whole, NONE, No, fixed);
            /// Passed between tables. 0 for packets that enter.
            metadata => Metadata (64, Bits, masked, NONE, No, fixed);
            /// Ethernet destination.
            eth_dst => EthDst (48, Mac, masked, NONE, Exact, set);
            /// Ethernet source.
            eth_src => EthSrc (48, Mac, masked, NONE, Exact, set);
            /// Ethernet type, after VLAN tags.
            eth_type => EthType (16, Bits, whole, NONE, Exact, fixed);
            /// VLAN id, 12 bits. Absent without a tag.
            vlan_vid => VlanVid (13, Bits, masked, NONE, Exact, set);
            /// VLAN priority.
            vlan_pcp => VlanPcp (3, Number, whole, VLAN, Exact, set);
            /// Differentiated services code point.
            ip_dscp => IpDscp (6, Number, whole, IP, Exact, set);
            /// Congestion notification.
            ip_ecn => IpEcn (2, Number, whole, IP, No, fixed);
            /// IP protocol.
            ip_proto => IpProto (8, Number, whole, IP, Exact, fixed);
            /// IPv4 source.
            ipv4_src => Ipv4Src (32, Ipv4, masked, V4, Prefix, set);
            /// IPv4 destination.
            ipv4_dst => Ipv4Dst (32, Ipv4, masked, V4, Prefix, set);
            /// TCP source port.
            tcp_src => TcpSrc (16, TransportPort, whole, TCP, Exact, set);
            /// TCP destination port.
            tcp_dst => TcpDst (16, TransportPort, whole, TCP, Exact, set);
            /// UDP source port.
            udp_src => UdpSrc (16, TransportPort, whole, UDP, Exact, set);
            /// UDP destination port.
            udp_dst => UdpDst (16, TransportPort, whole, UDP, Exact, set);
            /// SCTP source port.
            sctp_src => SctpSrc (16, TransportPort, whole, SCTP, Partly, fixed);
            /// SCTP destination port.
            sctp_dst => SctpDst (16, TransportPort, whole, SCTP, Partly, fixed);
            /// ICMP type.
            icmpv4_type => Icmpv4Type (8, Number, whole, ICMP4, Exact, fixed);
            /// ICMP code.
            icmpv4_code => Icmpv4Code (8, Number, whole, ICMP4, Exact, fixed);
            /// ARP operation: 1 request, 2 reply.
            arp_op => ArpOp (16, Number, whole, ARP, Exact, fixed);
            /// ARP sender IPv4 address.
            arp_spa => ArpSpa (32, Ipv4, masked, ARP, Prefix, fixed);
            /// ARP target IPv4 address.
            arp_tpa => ArpTpa (32, Ipv4, masked, ARP, Prefix, fixed);
            /// ARP sender hardware address.
            arp_sha => ArpSha (48, Mac, masked, ARP, No, fixed);
            /// ARP target hardware address.
            arp_tha => ArpTha (48, Mac, masked, ARP, No, fixed);
            /// IPv6 source.
            ipv6_src => Ipv6Src (128, Ipv6, masked, V6, No, fixed);
            /// IPv6 destination.
            ipv6_dst => Ipv6Dst (128, Ipv6, masked, V6, No, fixed);
            /// IPv6 flow label.
            ipv6_flabel => Ipv6Flabel (20, Bits, masked, V6, No, fixed);
            /// ICMPv6 type.
            icmpv6_type => Icmpv6Type (8, Number, whole, ICMP6, Reported, fixed);
            /// ICMPv6 code.
            icmpv6_code => Icmpv6Code (8, Number, whole, ICMP6, Reported, fixed);
            /// Neighbour discovery target.
            ipv6_nd_target => Ipv6NdTarget (128, Ipv6, whole, ND, No, fixed);
            /// Neighbour discovery source link-layer address.
            ipv6_nd_sll => Ipv6NdSll (48, Mac, whole, ND_SOLICIT, No, fixed);
            /// Neighbour discovery target link-layer address.
            ipv6_nd_tll => Ipv6NdTll (48, Mac, whole, ND_ADVERT, No, fixed);
            /// Label of the outermost MPLS entry.
            mpls_label => MplsLabel (20, Number, whole, MPLS, No, fixed);
            /// Traffic class of the outermost MPLS entry.
            mpls_tc => MplsTc (3, Number, whole, MPLS, No, fixed);
            /// Bottom-of-stack bit of the outermost MPLS entry.
            mpls_bos => MplsBos (1, Number, whole, MPLS, No, fixed);
            /// Provider backbone service id.
            pbb_isid => PbbIsid (24, Bits, masked, PBB, No, fixed);
            /// Metadata of a logical port.
            tunnel_id => TunnelId (64, Bits, masked, NONE, No, fixed);
            /// Bits for the IPv6 extension headers that are there.
            ipv6_exthdr => Ipv6Exthdr (9, Bits, masked, V6, No, fixed);
        }
    };
}

/// Whether a word of the table means yes.
macro_rules! is {
    (masked) => {
        true
    };
    (whole) => {
        false
    };
    (set) => {
        true
    };
    (fixed) => {
        false
    };
}

macro_rules! fields {
    ($(
        #[doc = $doc:literal]
        $name:ident => $field:ident ($bits:literal, $kind:ident, $mask:ident, $prerequisites:ident, $in10:ident, $action10:ident);
    )*) => {
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
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[repr(u8)]
        pub enum Field {
            $(#[doc = $doc] $field),*
        }

        impl Field {
            /// All fields, in the order of their OXM numbers.
            pub const ALL: [Field; Field::COUNT] = [$(Field::$field),*];
        }

        const INFO: [Info; Field::COUNT] = [$(Info {
            name: stringify!($name),
            bits: $bits,
            kind: ValueKind::$kind,
            maskable: is!($mask),
            prerequisites: $prerequisites,
            in10: In10::$in10,
            settable10: is!($action10),
        }),*];
    };
}

for_all_fields!(fields);

/// The kind of a field's values, which decides how people write them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A hardware address.
    Mac,
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// A port of a switch.
    SwitchPort,
    /// A port of TCP, UDP or SCTP.
    TransportPort,
    /// Bits rather than a number.
    Bits,
    /// Any other number.
    Number,
}

/// The ability of a match of OpenFlow 1.0 to state a field (1.0 §5.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum In10 {
    /// Nothing: the structure has no place for it.
    No,
    /// A value, in a switch's report only: 1.0 does not know the field, but Open vSwitch reports it.
    Reported,
    /// A value, which some switches match: `tp_src` and `tp_dst` are for TCP, UDP and ICMP, but Open vSwitch uses them
    /// for SCTP too.
    Partly,
    /// A value, which every switch matches.
    Exact,
    /// A value or its leading bits, which every switch matches.
    Prefix,
}

/// The properties of a field according to the specification.
struct Info {
    name: &'static str,
    bits: u8,
    kind: ValueKind,
    maskable: bool,
    prerequisites: &'static [&'static [Prerequisite]],
    in10: In10,
    settable10: bool,
}

/// The bit of `vlan_vid` that is set if there is a tag (`OFPVID_PRESENT`, 1.3 §7.2.3.7). The VLAN id is below it.
pub const VLAN_PRESENT: u128 = 0x1000;

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

impl Prerequisite {
    const fn new(field: Field, value: u128, mask: u128) -> Prerequisite {
        Prerequisite { field, value, mask }
    }
}

const IS_IPV4: Prerequisite = Prerequisite::new(Field::EthType, eth_type::value::IPV4, 0xffff);
const IS_IPV6: Prerequisite = Prerequisite::new(Field::EthType, eth_type::value::IPV6, 0xffff);
const IS_ARP: Prerequisite = Prerequisite::new(Field::EthType, eth_type::value::ARP, 0xffff);
const IS_MPLS: Prerequisite = Prerequisite::new(Field::EthType, eth_type::value::MPLS, 0xffff);
const IS_MPLS_MULTICAST: Prerequisite = Prerequisite::new(Field::EthType, eth_type::value::MPLS_MULTICAST, 0xffff);
const IS_PBB: Prerequisite = Prerequisite::new(Field::EthType, eth_type::value::PBB, 0xffff);
const IS_TAGGED: Prerequisite = Prerequisite::new(Field::VlanVid, VLAN_PRESENT, VLAN_PRESENT);
const IS_TCP: Prerequisite = Prerequisite::new(Field::IpProto, ip_proto::value::TCP, 0xff);
const IS_UDP: Prerequisite = Prerequisite::new(Field::IpProto, ip_proto::value::UDP, 0xff);
const IS_SCTP: Prerequisite = Prerequisite::new(Field::IpProto, ip_proto::value::SCTP, 0xff);
const IS_ICMP: Prerequisite = Prerequisite::new(Field::IpProto, ip_proto::value::ICMP, 0xff);
const IS_ICMPV6: Prerequisite = Prerequisite::new(Field::IpProto, ip_proto::value::ICMPV6, 0xff);
const IS_SOLICIT: Prerequisite = Prerequisite::new(Field::Icmpv6Type, icmpv6_type::value::NEIGHBOR_SOLICIT, 0xff);
const IS_ADVERT: Prerequisite = Prerequisite::new(Field::Icmpv6Type, icmpv6_type::value::NEIGHBOR_ADVERT, 0xff);

const V4: &[&[Prerequisite]] = &[&[IS_IPV4]];
const V6: &[&[Prerequisite]] = &[&[IS_IPV6]];
const IP: &[&[Prerequisite]] = &[&[IS_IPV4], &[IS_IPV6]];
const ARP: &[&[Prerequisite]] = &[&[IS_ARP]];
const MPLS: &[&[Prerequisite]] = &[&[IS_MPLS], &[IS_MPLS_MULTICAST]];
const PBB: &[&[Prerequisite]] = &[&[IS_PBB]];
const VLAN: &[&[Prerequisite]] = &[&[IS_TAGGED]];
const TCP: &[&[Prerequisite]] = &[&[IS_IPV4, IS_TCP], &[IS_IPV6, IS_TCP]];
const UDP: &[&[Prerequisite]] = &[&[IS_IPV4, IS_UDP], &[IS_IPV6, IS_UDP]];
const SCTP: &[&[Prerequisite]] = &[&[IS_IPV4, IS_SCTP], &[IS_IPV6, IS_SCTP]];
const ICMP4: &[&[Prerequisite]] = &[&[IS_IPV4, IS_ICMP]];
const ICMP6: &[&[Prerequisite]] = &[&[IS_IPV6, IS_ICMPV6]];
const ND_SOLICIT: &[&[Prerequisite]] = &[&[IS_IPV6, IS_ICMPV6, IS_SOLICIT]];
const ND_ADVERT: &[&[Prerequisite]] = &[&[IS_IPV6, IS_ICMPV6, IS_ADVERT]];
const ND: &[&[Prerequisite]] = &[&[IS_IPV6, IS_ICMPV6, IS_SOLICIT], &[IS_IPV6, IS_ICMPV6, IS_ADVERT]];
const NONE: &[&[Prerequisite]] = &[&[]];

impl Field {
    /// The number of fields.
    pub const COUNT: usize = 40;

    /// Returns the number in OXM class 0x8000 (`OFPXMC_OPENFLOW_BASIC`), 0 to 39.
    #[must_use]
    pub const fn oxm(self) -> u8 {
        self as u8
    }

    /// Returns the field with this OXM number.
    #[must_use]
    pub fn from_oxm(number: u8) -> Option<Field> {
        Field::ALL.get(number as usize).copied()
    }

    /// Returns the OXM name, such as `eth_src`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        INFO[self as usize].name
    }

    /// Returns the field with this OXM name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Field> {
        Field::ALL.into_iter().find(|field| field.name() == name)
    }

    /// Returns the width in bits, 1 to 128.
    #[must_use]
    pub const fn bits(self) -> u32 {
        INFO[self as usize].bits as u32
    }

    /// Returns the kind of the field's values.
    #[must_use]
    pub const fn kind(self) -> ValueKind {
        INFO[self as usize].kind
    }

    /// Returns the width in whole bytes, as OXM carries the field: 4 for the two fields of 20 bits.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Field::Ipv6Flabel | Field::MplsLabel => 4,
            _ => (self.bits() as usize).div_ceil(8),
        }
    }

    /// Returns the mask with all bits of the field set.
    #[must_use]
    pub const fn full_mask(self) -> u128 {
        u128::MAX >> (128 - INFO[self as usize].bits as u32)
    }

    /// Returns the number of leading bits of the field in the mask; `None` if the mask has other bits too.
    #[must_use]
    pub const fn prefix_length(self, mask: u128) -> Option<u32> {
        let rest = self.full_mask() & !mask;
        if rest & rest.wrapping_add(1) == 0 { Some(mask.count_ones()) } else { None }
    }

    /// Reports whether OpenFlow 1.3 allows a mask on the field.
    #[must_use]
    pub const fn is_maskable(self) -> bool {
        INFO[self as usize].maskable
    }

    /// Returns what a match of OpenFlow 1.0 can say about the field.
    #[must_use]
    pub const fn in10(self) -> In10 {
        INFO[self as usize].in10
    }

    /// Reports whether an action of OpenFlow 1.0 sets the field (1.0 §5.2.4).
    #[must_use]
    pub const fn is_settable10(self) -> bool {
        INFO[self as usize].settable10
    }

    /// Returns the conditions under which a packet has this field: one of the alternatives must hold, and each is a
    /// conjunction.
    ///
    /// A field without prerequisites has one empty alternative. IPv4 comes before IPv6.
    #[must_use]
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
/// let mut fields = FieldSet::from_fields(&[Field::TcpDst]);
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

    /// The fields that every OpenFlow 1.0 switch can match.
    pub const OF10: FieldSet = FieldSet::from10(In10::Exact);
    /// The fields whose leading bits every OpenFlow 1.0 switch can match.
    pub const OF10_PREFIXES: FieldSet = FieldSet::from10(In10::Prefix);
    /// The fields that a match of OpenFlow 1.0 has a place for.
    pub(crate) const OF10_PLACES: FieldSet = FieldSet::from10(In10::Reported);

    /// Returns the fields about which a match of OpenFlow 1.0 can say at least as much.
    const fn from10(least: In10) -> FieldSet {
        let (mut fields, mut i) = (FieldSet::EMPTY, 0);
        while i < Field::COUNT {
            if Field::ALL[i].in10() as u8 >= least as u8 {
                fields.insert(Field::ALL[i]);
            }
            i += 1;
        }
        fields
    }

    /// Creates the set of these fields.
    #[must_use]
    pub const fn from_fields(fields: &[Field]) -> FieldSet {
        let (mut bits, mut i) = (0, 0);
        while i < fields.len() {
            bits |= 1 << fields[i] as u8;
            i += 1;
        }
        FieldSet(bits)
    }

    /// Reports whether `field` is in the set.
    #[must_use]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_lead_back_to_their_field() {
        for field in Field::ALL {
            assert_eq!(Field::from_oxm(field.oxm()), Some(field));
            assert_eq!(Field::from_name(field.name()), Some(field));
        }
        assert_eq!((Field::InPort.oxm(), Field::Ipv6Exthdr.oxm()), (0, 39));
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
    #[test]
    fn only_the_ports_of_tcp_and_udp_are_matched_by_every_1_0_switch() {
        // 1.0 §3.4, table 3: tp_src and tp_dst apply to "all TCP, UDP, and ICMP packets". Open vSwitch's tools also ask
        // for ports of SCTP, so the codec reads and writes them, but no rule may rely on them.
        for field in [Field::SctpSrc, Field::SctpDst] {
            assert_eq!(field.in10(), In10::Partly);
            assert!(!FieldSet::OF10.contains(field) && FieldSet::OF10_PLACES.contains(field));
        }
        for field in [Field::TcpSrc, Field::TcpDst, Field::UdpSrc, Field::UdpDst, Field::Icmpv4Type, Field::Icmpv4Code]
        {
            assert!(FieldSet::OF10.contains(field));
        }
        let prefixes = [Field::Ipv4Src, Field::Ipv4Dst, Field::ArpSpa, Field::ArpTpa];
        assert_eq!(FieldSet::OF10_PREFIXES, FieldSet::from_fields(&prefixes));
        assert_eq!(FieldSet::OF10.iter().count(), 19);
    }
}
