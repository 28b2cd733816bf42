//! Packets as data. There are few different packets, so that they often agree with each other and with the questions of
//! programs.

use std::net::{Ipv4Addr, Ipv6Addr};

use maple_wire::eth_type;
use maple_wire::packet::Frame;
use maple_wire::packet::lldp::Tlv;

/// A packet, without the number that distinguishes its copies.
#[derive(Clone, Debug, PartialEq)]
pub struct PacketSpec {
    /// The number of the host that sends it.
    pub from: usize,
    /// The source hardware address; mostly the sender's own.
    pub src: [u8; 6],
    /// The destination hardware address.
    pub dst: [u8; 6],
    /// The VLAN tags, the outer one first.
    pub tags: Vec<Tag>,
    /// The content after the tags.
    pub body: Body,
    /// The number of bytes to which the frame is cut; `None` for the whole frame.
    pub cut: Option<usize>,
}

/// A VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tag {
    /// Whether this is a service tag (Ethernet type 0x88a8).
    pub service: bool,
    /// The VLAN id.
    pub vid: u16,
    /// The priority.
    pub pcp: u8,
}

/// The content of a packet.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// ARP.
    Arp { op: u16, spa: Ipv4Addr, tpa: Ipv4Addr },
    /// IPv4.
    V4 { src: Ipv4Addr, dst: Ipv4Addr, dscp: u8, fragment: Option<(u16, bool)>, transport: Transport },
    /// IPv6.
    V6 { src: Ipv6Addr, dst: Ipv6Addr, dscp: u8, transport: Transport },
    /// MPLS with one label.
    Mpls(u32),
    /// LLDP that is not from the controller.
    Lldp,
    /// Anything else.
    Other(u16),
}

/// The content of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Transport {
    /// TCP with these ports.
    Tcp(u16, u16),
    /// UDP with these ports.
    Udp(u16, u16),
    /// ICMP or ICMPv6 of this type.
    Icmp(u8),
    /// Another protocol.
    Proto(u8),
}

impl PacketSpec {
    /// Builds the frame, with `number` at its end.
    pub fn frame(&self, number: u64) -> Vec<u8> {
        let mut frame = Frame::ethernet(self.dst, self.src);
        for tag in &self.tags {
            frame = frame.tag(if tag.service { eth_type::QINQ } else { eth_type::VLAN }, tag.vid, tag.pcp);
        }
        let payload = number.to_be_bytes();
        let mut bytes = match &self.body {
            Body::Arp { op, spa, tpa } => {
                let mut bytes = frame.arp(*op, self.src, *spa, [0; 6], *tpa);
                bytes.extend(payload);
                bytes
            }
            Body::V4 { src, dst, dscp, fragment, transport } => {
                let mut ip = frame.ipv4(*src, *dst).dscp(*dscp);
                if let Some((offset, more)) = fragment {
                    ip = ip.fragment(*offset, *more, 7);
                }
                transport.over(ip, &payload)
            }
            Body::V6 { src, dst, dscp, transport } => transport.over(frame.ipv6(*src, *dst).dscp(*dscp), &payload),
            Body::Mpls(label) => frame.mpls(&[*label], &payload),
            Body::Lldp => {
                let mut bytes = frame.lldp(&[Tlv::Ttl(120)]);
                bytes.extend(payload);
                bytes
            }
            Body::Other(eth_type) => frame.raw(*eth_type, &payload),
        };
        bytes.truncate(self.cut.unwrap_or(usize::MAX));
        bytes
    }
}

impl Transport {
    fn over(self, ip: maple_wire::packet::build::IpFrame, payload: &[u8]) -> Vec<u8> {
        match self {
            Transport::Tcp(src, dst) => ip.tcp(src, dst).payload(payload),
            Transport::Udp(src, dst) => ip.udp(src, dst).payload(payload),
            Transport::Icmp(kind) => ip.icmp(kind, 0, [0; 4]).payload(payload),
            Transport::Proto(number) => ip.proto(number).payload(payload),
        }
    }
}
