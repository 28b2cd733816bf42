//! A lazy view over a raw Ethernet frame, and related functions: builders, rewriting, text.
//!
//! [`Packet::get`] finds a field when it is asked for. The link layer and the network layer are each located once, at
//! their first use. Every field then takes one bounds-checked load. Nothing is copied or allocated.
//!
//! **What a switch sees.** If OpenFlow leaves a choice, this view does what Open vSwitch (`flow_extract`, 3.1,
//! `vlan-limit=1`, normal fragment handling) does. A test compares the two. All differences are intended:
//! * IPv6 extension header bits and the PBB service id, which Open vSwitch doesn't know, follow OXM.
//! * A frame may be a prefix of the switch's frame (`miss_send_len`). So lengths inside the frame are checked against
//!   its length on the wire, if that is known ([`Packet::with_wire_len`]), and not against the captured bytes.

mod bytes;
mod network_layer;

pub mod arp;
pub mod dhcp;
pub mod ethernet;
pub mod icmpv6;
pub mod igmp;
pub mod ipv4;
pub mod ipv6;
pub mod membership;
pub mod mld;
pub mod mpls;
pub mod transport;

pub mod lldp;

pub mod build;
pub mod checksum;
pub mod flight;
pub mod rewrite;
pub mod text;

use std::cell::Cell;

use crate::eth_type;
use crate::field::{Field, Prerequisite};
use ethernet::Link;
pub(crate) use network_layer::{NetworkKind, NetworkLayer};

pub use build::Frame;

/// A frame that came in, with its pipeline fields.
///
/// ```
/// use maple_wire::packet::Frame;
/// use maple_wire::{Field, Packet};
///
/// let frame = Frame::ethernet([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(1234, 22).payload(b"");
/// let packet = Packet::new(&frame, 1);
/// assert_eq!(packet.get(Field::TcpDst), Some(22));
/// assert_eq!(packet.get(Field::UdpDst), None, "it has no such field");
/// ```
#[derive(Clone, Debug)]
pub struct Packet<'a> {
    frame: &'a [u8],
    in_port: u32,
    /// The frame's length on the wire in bytes; `usize::MAX` if it is unknown.
    wire_len: usize,
    /// Whether the first fragment of a datagram shows the ports in its header.
    literal: bool,
    /// The word of a [`Link`], 0 until it is needed.
    link: Cell<u64>,
    /// The word of a [`NetworkLayer`], 0 until it is needed.
    network: Cell<u64>,
}

impl<'a> Packet<'a> {
    /// Creates a view over `frame`, which came in by `in_port`. It may be only the beginning of the frame on the wire.
    pub fn new(frame: &'a [u8], in_port: u32) -> Packet<'a> {
        let (link, network) = (Cell::new(0), Cell::new(0));
        Packet { frame, in_port, wire_len: usize::MAX, literal: false, link, network }
    }

    /// Creates a view over the beginning of a frame of `wire_len` bytes (`total_len` of a packet-in).
    ///
    /// The view then recognises frames that are shorter than their own headers claim, as the switch did.
    pub fn with_wire_len(frame: &'a [u8], in_port: u32, wire_len: usize) -> Packet<'a> {
        Packet { wire_len: wire_len.max(frame.len()), ..Packet::new(frame, in_port) }
    }

    /// Changes how the view shows the first fragment of a datagram: its ports and ICMP type are those in its header, as
    /// people want to read them, and not 0, as a switch matches them.
    #[must_use]
    pub fn literal(self) -> Packet<'a> {
        Packet { literal: true, network: Cell::new(0), ..self }
    }

    /// Returns the captured bytes.
    pub fn frame(&self) -> &'a [u8] {
        self.frame
    }

    /// Reports whether the captured bytes are known to be the whole frame.
    pub fn is_whole(&self) -> bool {
        self.wire_len <= self.frame.len()
    }

    /// Returns the port that the frame came in by.
    pub fn in_port(&self) -> u32 {
        self.in_port
    }

    /// Returns the value of a field as an OpenFlow switch extracts it for matching.
    ///
    /// The result is `None` if the packet has no such field, if its header is malformed, or if it lies beyond the
    /// captured bytes. So `Some` implies that the field's prerequisites hold. Three fields need an explanation:
    /// * `vlan_vid` is never `None`: 0 without a tag, `0x1000 | id` with one.
    /// * `eth_type` is the type after the *first* VLAN tag. With two tags it is the inner tag's own type (0x8100 or
    ///   0x88a8), and the packet has no further fields; [`Packet::vlans`] returns all tags. It is 0x05ff for 802.3
    ///   frames, unless a SNAP header holds an Ethernet type.
    /// * Transport fields of fragments are 0, including those of the first fragment, which has them in its header. For
    ///   later IPv6 fragments `ip_proto` is 44, so that they have no transport fields.
    #[inline(always)]
    pub fn get(&self, field: Field) -> Option<u128> {
        match field {
            Field::InPort | Field::InPhyPort => Some(u128::from(self.in_port)),
            Field::Metadata | Field::TunnelId => Some(0),
            Field::EthDst => ethernet::dst(self),
            Field::EthSrc => ethernet::src(self),
            Field::EthType => self.link().eth_type().map(u128::from),
            Field::VlanVid => Some(self.link().vlan_vid()),
            Field::VlanPcp => self.link().vlan_pcp(),
            Field::IpDscp => self.traffic_class().map(|class| u128::from(class >> 2)),
            Field::IpEcn => self.traffic_class().map(|class| u128::from(class & 3)),
            Field::IpProto => self.network().proto().map(u128::from),
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

    /// Returns the value that a switch compares with a match on `field`: the field's value, or 0 if the bytes are
    /// missing or malformed. `None` if and only if the field's prerequisites fail for this packet.
    pub fn switch_value(&self, field: Field) -> Option<u128> {
        let holds = |c: &Prerequisite| self.switch_value(c.field).is_some_and(|value| value & c.mask == c.value);
        let has = field.prerequisites().iter().any(|all| all.iter().all(holds));
        has.then(|| self.get(field).unwrap_or(0))
    }

    /// Iterates over all 802.1Q and 802.1ad tags, the outermost first.
    pub fn vlans(&self) -> ethernet::Vlans<'a> {
        ethernet::Vlans::new(self.frame)
    }

    /// Iterates over the label stack entries of an MPLS packet, the outermost first; other packets have none.
    pub fn mpls_stack(&self) -> mpls::Stack<'a> {
        mpls::Stack::new(self)
    }

    /// Returns the bytes after the innermost header that the view knows: the payload of UDP or TCP, the bytes after
    /// type, code and checksum of ICMP, the payload of any other IP packet, and without IP the bytes after the link
    /// layer. Padding is left out. If only the beginning of the packet was captured, the payload ends there.
    pub fn payload(&self) -> &'a [u8] {
        let network = self.network();
        let (start, end) = match network.kind() {
            NetworkKind::Other => (self.link().end(), self.frame.len()),
            _ => (transport::payload_start(self, network), network.end()),
        };
        let end = end.min(self.frame.len());
        &self.frame[start.min(end)..end]
    }

    /// Returns the number of bytes on the wire from `offset` on, as far as it is known.
    fn wire_len_from(&self, offset: usize) -> usize {
        self.wire_len.saturating_sub(offset)
    }

    #[inline(always)]
    pub(crate) fn link(&self) -> Link {
        Link::from_word(self.link.get()).unwrap_or_else(|| self.find_link())
    }

    #[inline(always)]
    pub(crate) fn network(&self) -> NetworkLayer {
        NetworkLayer::from_word(self.network.get()).unwrap_or_else(|| self.find_network())
    }

    #[inline(never)]
    fn find_link(&self) -> Link {
        let link = Link::parse(self.frame, self.wire_len);
        self.link.set(link.word());
        link
    }

    #[inline(never)]
    fn find_network(&self) -> NetworkLayer {
        let network = self.parse_network();
        let network = if transport::has_tcp(self, network) { network.with_tcp() } else { network };
        self.network.set(network.word());
        network
    }

    #[inline]
    fn parse_network(&self) -> NetworkLayer {
        let link = self.link();
        let wire_len = self.wire_len_from(link.end());
        if link.is(eth_type::IPV4) {
            ipv4::parse(self.frame, link.end(), wire_len)
        } else if link.is(eth_type::IPV6) {
            ipv6::parse(self.frame, link.end(), wire_len)
        } else {
            NetworkLayer::OTHER
        }
    }

    /// Returns the byte that IPv4 calls type of service and IPv6 calls traffic class.
    fn traffic_class(&self) -> Option<u8> {
        match self.network().kind() {
            NetworkKind::V4 => ipv4::traffic_class(self),
            NetworkKind::V6 => ipv6::traffic_class(self),
            NetworkKind::Other => None,
        }
    }
}

#[cfg(test)]
mod tests;
