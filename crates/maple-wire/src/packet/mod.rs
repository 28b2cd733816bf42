//! A lazy view over a raw Ethernet frame, and what belongs to it: builders, rewriting, text.
//!
//! [`Packet::get`] finds a field when it is asked for: the link layer and the network layer are each located once,
//! at their first use, and every field is then one bounds-checked load. Nothing is copied or allocated.
//!
//! **What a switch sees.** Where OpenFlow leaves a choice, this view does what Open vSwitch (`flow_extract`, 3.1,
//! `vlan-limit=1`, normal fragment handling) does; a test compares the two. The differences, all on purpose:
//! * IPv6 extension header bits and the PBB service id, which Open vSwitch doesn't know, are as OXM says.
//! * A frame may be a prefix of the one that the switch has (`miss_send_len`). Lengths inside the frame are
//!   therefore checked against its length on the wire, where that is known ([`Packet::with_wire_len`]), and not
//!   against the bytes that were captured.

mod bytes;

pub mod arp;
pub mod ethernet;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
pub mod mpls;
pub mod transport;

pub mod lldp;

pub mod build;
pub mod checksum;
pub mod rewrite;
pub mod text;

use std::cell::Cell;

use crate::field::{Field, Prerequisite};
use ethernet::Link;

pub use build::Frame;

/// A frame as it came in, with the pipeline fields that belong to it.
#[derive(Clone, Debug)]
pub struct Packet<'a> {
    frame: &'a [u8],
    in_port: u32,
    /// Bytes that the frame had on the wire; `usize::MAX` where that is unknown.
    wire_len: usize,
    /// Whether the first fragment of a datagram shows its ports.
    literal: bool,
    /// A packed [`Link`], 0 until it is needed. In one word, since reading back what was just written in pieces would
    /// stall the processor for longer than all the rest takes.
    link: Cell<u64>,
    /// A packed [`Network`], 0 until it is needed.
    network: Cell<u64>,
}

/// Where the network layer and what it carries lie. All offsets count from the start of the frame; they are at most
/// a few headers more than 65535, and short, so that a packet takes little room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network {
    pub(crate) kind: NetworkKind,
    /// Start of the IP header.
    start: u32,
    /// Start of the transport header.
    transport: u32,
    /// End of the IP packet, as its header declares it; may lie beyond the captured bytes.
    end: u32,
    /// What is carried; `None` where it can't be told.
    pub(crate) proto: Option<u8>,
    /// A part of a datagram.
    pub(crate) fragment: bool,
    /// A part that is not the first one: it has no transport header.
    pub(crate) later_fragment: bool,
    /// IPv6: an extension header is longer than the packet, so that a switch sees addresses but nothing else; or it
    /// was not captured, so that this can't be told.
    pub(crate) broken_chain: bool,
    /// A whole TCP header follows, and its ports are those that a switch matches.
    has_tcp: bool,
}

/// Which network layer a packet has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NetworkKind {
    /// Not IP, or an IP header that makes no sense.
    Other,
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Network {
    const OTHER: Network = Network {
        kind: NetworkKind::Other,
        start: 0,
        transport: 0,
        end: 0,
        proto: None,
        fragment: false,
        later_fragment: false,
        broken_chain: false,
        has_tcp: false,
    };

    /// One word, not 0: from bit 0 on the transport's start and the end (20 bits each), the header's start (6), the
    /// protocol (8), whether there is one, IPv4, IPv6, fragment, later fragment, broken
    /// chain, TCP, and a bit that is set.
    #[inline]
    fn pack(self) -> u64 {
        u64::from(self.transport)
            | u64::from(self.end) << 20
            | u64::from(self.start) << 40
            | u64::from(self.proto.unwrap_or(0)) << 46
            | u64::from(self.proto.is_some()) << 54
            | u64::from(self.kind == NetworkKind::V4) << 55
            | u64::from(self.kind == NetworkKind::V6) << 56
            | u64::from(self.fragment) << 57
            | u64::from(self.later_fragment) << 58
            | u64::from(self.broken_chain) << 59
            | u64::from(self.has_tcp) << 60
            | 1 << 61
    }

    #[inline]
    fn unpack(word: u64) -> Network {
        let is_set = |bit: u32| word >> bit & 1 != 0;
        Network {
            kind: match (is_set(55), is_set(56)) {
                (true, _) => NetworkKind::V4,
                (_, true) => NetworkKind::V6,
                _ => NetworkKind::Other,
            },
            start: (word >> 40) as u32 & 0x3f,
            transport: word as u32 & 0xf_ffff,
            end: (word >> 20) as u32 & 0xf_ffff,
            proto: is_set(54).then_some((word >> 46) as u8),
            fragment: is_set(57),
            later_fragment: is_set(58),
            broken_chain: is_set(59),
            has_tcp: is_set(60),
        }
    }

    #[inline]
    pub(crate) fn start(&self) -> usize {
        self.start as usize
    }

    #[inline]
    pub(crate) fn transport(&self) -> usize {
        self.transport as usize
    }

    #[inline]
    pub(crate) fn end(&self) -> usize {
        self.end as usize
    }
}

impl<'a> Packet<'a> {
    /// A view over `frame`, which came in by `in_port`; it may be only the beginning of what was on the wire.
    pub fn new(frame: &'a [u8], in_port: u32) -> Packet<'a> {
        let (link, network) = (Cell::new(0), Cell::new(0));
        Packet { frame, in_port, wire_len: usize::MAX, literal: false, link, network }
    }

    /// A view over the beginning of a frame that has `wire_len` bytes (`total_len` of a packet-in).
    ///
    /// Frames that are shorter than their own headers claim are then recognised, as the switch did.
    pub fn with_wire_len(frame: &'a [u8], in_port: u32, wire_len: usize) -> Packet<'a> {
        Packet { wire_len: wire_len.max(frame.len()), ..Packet::new(frame, in_port) }
    }

    /// The same view, but for the first fragment of a datagram its ports and ICMP type are those in its header, as
    /// people want to read them, and not 0, as a switch matches them.
    #[must_use]
    pub fn literal(self) -> Packet<'a> {
        Packet { literal: true, network: Cell::new(0), ..self }
    }

    /// The bytes.
    pub fn frame(&self) -> &'a [u8] {
        self.frame
    }

    /// Whether these are known to be all bytes that were on the wire: what is missing was never there.
    pub fn is_whole(&self) -> bool {
        self.wire_len <= self.frame.len()
    }

    /// The port that the frame came in by.
    pub fn in_port(&self) -> u32 {
        self.in_port
    }

    /// The value of a field as an OpenFlow switch extracts it for matching.
    ///
    /// `None` where the packet has no such field, where its header is malformed, or where it lies beyond the
    /// captured bytes. So `Some` implies that the field's prerequisites hold. Three fields need a word:
    /// * `vlan_vid` is never `None`: 0 without a tag, `0x1000 | id` with one.
    /// * `eth_type` is the type after the *first* VLAN tag. With two tags it is the inner tag's own type (0x8100 or
    ///   0x88a8), and the packet has no further fields; [`Packet::vlans`] gives all tags. It is 0x05ff for 802.3
    ///   frames, unless a SNAP header holds an Ethernet type.
    /// * Transport fields of fragments are 0, also those of the first fragment, which has them in its header. For
    ///   later IPv6 fragments `ip_proto` is 44, so that they have no transport fields.
    #[inline(always)]
    pub fn get(&self, field: Field) -> Option<u128> {
        match field {
            Field::InPort | Field::InPhyPort => Some(u128::from(self.in_port)),
            Field::Metadata | Field::TunnelId => Some(0),
            Field::EthDst => ethernet::dst(self),
            Field::EthSrc => ethernet::src(self),
            Field::EthType => self.link().eth_type.map(u128::from),
            Field::VlanVid => Some(self.link().vlan_vid()),
            Field::VlanPcp => self.link().vlan_pcp(),
            Field::IpDscp => self.traffic_class().map(|class| u128::from(class >> 2)),
            Field::IpEcn => self.traffic_class().map(|class| u128::from(class & 3)),
            Field::IpProto => self.network().proto.map(u128::from),
            Field::Ipv4Src => ipv4::src(self),
            Field::Ipv4Dst => ipv4::dst(self),
            Field::TcpSrc => transport::tcp(self, transport::SRC),
            Field::TcpDst => transport::tcp(self, transport::DST),
            Field::UdpSrc => transport::udp(self, transport::SRC),
            Field::UdpDst => transport::udp(self, transport::DST),
            Field::SctpSrc => transport::sctp(self, transport::SRC),
            Field::SctpDst => transport::sctp(self, transport::DST),
            Field::Icmpv4Type => transport::icmpv4(self, transport::TYPE),
            Field::Icmpv4Code => transport::icmpv4(self, transport::CODE),
            Field::ArpOp => arp::op(self),
            Field::ArpSpa => arp::spa(self),
            Field::ArpTpa => arp::tpa(self),
            Field::ArpSha => arp::sha(self),
            Field::ArpTha => arp::tha(self),
            Field::Ipv6Src => ipv6::src(self),
            Field::Ipv6Dst => ipv6::dst(self),
            Field::Ipv6Flabel => ipv6::flow_label(self),
            Field::Icmpv6Type => transport::icmpv6(self, transport::TYPE),
            Field::Icmpv6Code => transport::icmpv6(self, transport::CODE),
            Field::Ipv6NdTarget => icmpv6::target(self),
            Field::Ipv6NdSll => icmpv6::sll(self),
            Field::Ipv6NdTll => icmpv6::tll(self),
            Field::MplsLabel => mpls::entry(self).map(|entry| u128::from(entry >> 12)),
            Field::MplsTc => mpls::entry(self).map(|entry| u128::from(entry >> 9 & 7)),
            Field::MplsBos => mpls::entry(self).map(|entry| u128::from(entry >> 8 & 1)),
            Field::PbbIsid => mpls::pbb_isid(self),
            Field::Ipv6Exthdr => ipv6::exthdr(self),
        }
    }

    /// What a switch compares with a match on `field`: `None` exactly if the field's prerequisites fail for this
    /// packet, else its value, 0 where the bytes are missing or malformed.
    pub fn switch_value(&self, field: Field) -> Option<u128> {
        let holds = |c: &Prerequisite| self.switch_value(c.field).is_some_and(|value| value & c.mask == c.value);
        let has = field.prerequisites().iter().any(|all| all.iter().all(holds));
        has.then(|| self.get(field).unwrap_or(0))
    }

    /// Every 802.1Q and 802.1ad tag, the outermost first.
    pub fn vlans(&self) -> ethernet::Vlans<'a> {
        ethernet::Vlans::new(self.frame)
    }

    /// The label stack entries of an MPLS packet, the outermost first; empty for other packets.
    pub fn mpls_stack(&self) -> mpls::Stack<'a> {
        mpls::Stack::new(self)
    }

    /// Bytes on the wire from `offset` on, as far as is known.
    fn wire_len_from(&self, offset: usize) -> usize {
        self.wire_len.saturating_sub(offset)
    }

    #[inline(always)]
    pub(crate) fn link(&self) -> Link {
        match self.link.get() {
            0 => Link::unpack(self.find_link()),
            packed => Link::unpack(packed),
        }
    }

    #[inline(always)]
    pub(crate) fn network(&self) -> Network {
        match self.network.get() {
            0 => Network::unpack(self.find_network()),
            packed => Network::unpack(packed),
        }
    }

    #[inline(never)]
    fn find_link(&self) -> u64 {
        let word = Link::parse(self.frame, self.wire_len).pack();
        self.link.set(word);
        word
    }

    #[inline(never)]
    fn find_network(&self) -> u64 {
        let network = self.parse_network();
        let has_tcp = transport::has_tcp(self, &network);
        let word = Network { has_tcp, ..network }.pack();
        self.network.set(word);
        word
    }

    #[inline]
    fn parse_network(&self) -> Network {
        let link = self.link();
        let wire_len = self.wire_len_from(link.end());
        match link.eth_type {
            Some(ethernet::TYPE_IPV4) => ipv4::parse(self.frame, link.end(), wire_len).unwrap_or(Network::OTHER),
            Some(ethernet::TYPE_IPV6) => ipv6::parse(self.frame, link.end(), wire_len).unwrap_or(Network::OTHER),
            _ => Network::OTHER,
        }
    }

    /// The byte that IPv4 calls type of service and IPv6 calls traffic class.
    fn traffic_class(&self) -> Option<u8> {
        match self.network().kind {
            NetworkKind::V4 => ipv4::traffic_class(self),
            NetworkKind::V6 => ipv6::traffic_class(self),
            NetworkKind::Other => None,
        }
    }
}

#[cfg(test)]
mod tests;
