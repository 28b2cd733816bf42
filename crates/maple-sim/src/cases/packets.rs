//! Packets as data, and random ones. There are few different packets, so that they often agree with each other and
//! with the questions of programs.

use std::net::{Ipv4Addr, Ipv6Addr};

use maple_wire::eth_type;
use maple_wire::packet::Frame;
use maple_wire::packet::lldp::Tlv;

use super::super::Choices;
use super::domain::Domain;

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

/// Random packets.
impl Domain {
    /// Returns a packet; often one that resembles an earlier one, from another host.
    pub fn packet(&self, random: &mut Choices, earlier: &[PacketSpec]) -> PacketSpec {
        if !earlier.is_empty() && random.one_in(3) {
            let from = random.below(self.hosts.len());
            return PacketSpec { from, src: self.hosts[from].mac.0, ..random.pick(earlier).clone() };
        }
        self.new_packet(random)
    }

    fn new_packet(&self, random: &mut Choices) -> PacketSpec {
        let from = random.below(self.hosts.len());
        let src = match random.below(20) {
            0 => self.host(random).0,
            1 => *random.pick(&[[1, 0, 0, 0, 0, 9], [0; 6], [2, 0, 0, 0, 0, 9]]),
            _ => self.hosts[from].mac.0,
        };
        let dst = match random.below(10) {
            0 => [0xff; 6],
            1 => *random.pick(&[[1, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 8], [2, b'm', b'a', b'p', b'l', b'e']]),
            // Addresses of the two kinds that bridges never forward, and a neighbour of each.
            2 => *random.pick(&[
                [1, 0x80, 0xc2, 0, 0, 2],
                [1, 0x80, 0xc2, 0, 0, 0x10],
                [1, 0, 0xc, 0xcc, 0xcc, 0xcd],
                [1, 0, 0xc, 0xcc, 0xcc, 0xce],
            ]),
            _ => self.host(random).0,
        };
        // Some of the VLAN ids are also those of labels.
        let count = *random.pick(&[0, 0, 0, 0, 0, 0, 0, 1, 1, 2]);
        let tag = |random: &mut Choices| Tag {
            service: random.one_in(4),
            vid: *random.pick(&[1, 2, 7, 8]),
            pcp: *random.pick(&[0, 3]),
        };
        let tags = (0..count).map(|_| tag(random)).collect();
        let body = self.body(random, from);
        let cut = random.one_in(20).then(|| 14 + random.below(40));
        PacketSpec { from, src, dst, tags, body, cut }
    }

    fn body(&self, random: &mut Choices, from: usize) -> Body {
        let (own, other) = (self.hosts[from], *random.pick(&self.hosts));
        let elsewhere = *random.pick(&[Ipv4Addr::new(10, 0, 1, 7), Ipv4Addr::new(11, 0, 0, 1)]);
        let (src, dst) = match random.below(6) {
            0 => (own.ipv4, elsewhere),
            1 => (elsewhere, other.ipv4),
            _ => (own.ipv4, other.ipv4),
        };
        let dscp = *random.pick(&[0, 0, 10, 46]);
        match random.below(16) {
            0..2 => Body::Arp { op: *random.pick(&[1, 2]), spa: src, tpa: dst },
            2..11 => {
                let fragment = random.one_in(8).then(|| *random.pick(&[(0, true), (3, true), (3, false)]));
                Body::V4 { src, dst, dscp, fragment, transport: transport(random, false) }
            }
            11..14 => {
                let dst = if random.one_in(4) { Ipv6Addr::from((1u128 << 120) | 1) } else { other.ipv6 };
                Body::V6 { src: own.ipv6, dst, dscp, transport: transport(random, true) }
            }
            14 => random.pick(&[Body::Mpls(16), Body::Lldp]).clone(),
            _ => Body::Other(*random.pick(&[0x88b5, 0x88b6])),
        }
    }
}

fn transport(random: &mut Choices, v6: bool) -> Transport {
    let (src, dst) = (*random.pick(&[1023, 1024, 5000]), *random.pick(&[22, 80, 1024, 5000]));
    match random.below(8) {
        0..4 => Transport::Tcp(src, dst),
        4..6 => Transport::Udp(src, dst),
        6 => Transport::Icmp(*random.pick(if v6 { &[128, 129] } else { &[0, 8] })),
        _ => Transport::Proto(47),
    }
}
