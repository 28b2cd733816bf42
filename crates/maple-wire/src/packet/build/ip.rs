//! The layers above Ethernet: IPv4 and IPv6 headers, and their payloads.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::TTL;
use crate::packet::checksum::{self, Sum};
use crate::packet::{icmpv6, ipv4, ipv6, transport};
use crate::{icmpv6_type, ip_proto};

const SYN: u8 = 0x02;
const MORE_FRAGMENTS: u16 = 0x2000;
const ECHO_V4: (u8, u8) = (8, 0);
const ECHO_V6: (u8, u8) = (128, 129);

/// A frame with its network layer.
#[derive(Clone, Debug)]
pub struct IpFrame {
    bytes: Vec<u8>,
    /// Start of the IP header.
    start: usize,
    /// The offset of the byte that holds the number of the next header.
    next_at: usize,
    is_v6: bool,
}

/// A frame that lacks only its payload.
#[derive(Clone, Debug)]
pub struct TransportFrame {
    ip: IpFrame,
    /// Start of the transport header.
    start: usize,
    /// The protocol whose header was written here; `None` if the payload contains the header.
    proto: Option<u8>,
}

impl IpFrame {
    pub(super) fn v4(mut bytes: Vec<u8>, src: Ipv4Addr, dst: Ipv4Addr) -> IpFrame {
        let start = bytes.len();
        bytes.extend_from_slice(&[0x45, 0, 0, 0, 0, 0, 0, 0, TTL, 0, 0, 0]);
        bytes.extend_from_slice(&src.octets());
        bytes.extend_from_slice(&dst.octets());
        IpFrame { bytes, start, next_at: start + ipv4::PROTO, is_v6: false }
    }

    pub(super) fn v6(mut bytes: Vec<u8>, src: Ipv6Addr, dst: Ipv6Addr) -> IpFrame {
        let start = bytes.len();
        bytes.extend_from_slice(&[0x60, 0, 0, 0, 0, 0, 0, TTL]);
        bytes.extend_from_slice(&src.octets());
        bytes.extend_from_slice(&dst.octets());
        IpFrame { bytes, start, next_at: start + ipv6::NEXT_HEADER, is_v6: true }
    }

    /// Sets the time to live, or hop limit.
    pub fn ttl(mut self, ttl: u8) -> IpFrame {
        let at = if self.is_v6 { ipv6::HOP_LIMIT } else { ipv4::TTL };
        self.bytes[self.start + at] = ttl;
        self
    }

    /// Sets the differentiated services code point (6 bits).
    pub fn dscp(self, dscp: u8) -> IpFrame {
        let ecn = self.traffic_class() & 3;
        self.with_traffic_class(dscp << 2 | ecn)
    }

    /// Sets the congestion notification (2 bits).
    pub fn ecn(self, ecn: u8) -> IpFrame {
        let dscp = self.traffic_class() & !3;
        self.with_traffic_class(dscp | ecn & 3)
    }

    /// Sets the flow label (20 bits). An IPv4 header has none, and stays unchanged.
    pub fn flow_label(mut self, label: u32) -> IpFrame {
        if self.is_v6 {
            let [_, high, mid, low] = label.to_be_bytes();
            self.bytes[self.start + 1] = self.bytes[self.start + 1] & 0xf0 | high & 0xf;
            self.bytes[self.start + 2..self.start + 4].copy_from_slice(&[mid, low]);
        }
        self
    }

    /// Adds options. In IPv4 they are padded to 4 bytes with zeros; in IPv6 they become a hop-by-hop header.
    ///
    /// # Panics
    /// If IPv4 options are longer than 40 bytes in all.
    pub fn options(mut self, options: &[u8]) -> IpFrame {
        if self.is_v6 {
            return self.extension(ipv6::HOP_BY_HOP, options);
        }
        self.bytes.extend_from_slice(options);
        self.bytes.resize(self.start + (self.bytes.len() - self.start).next_multiple_of(4), 0);
        let words = (self.bytes.len() - self.start) / 4;
        assert!(words <= 15, "IPv4 header of {words} words");
        self.bytes[self.start] = 0x40 | words as u8;
        self
    }

    /// Adds an IPv6 extension header of the given number around `body`, padded with zeros to a multiple of 8.
    ///
    /// # Panics
    /// Panics on IPv4.
    pub fn extension(mut self, number: u8, body: &[u8]) -> IpFrame {
        assert!(self.is_v6, "IPv4 has no extension headers");
        let len = (body.len() + 2).next_multiple_of(8);
        // The authentication header counts words of 4 bytes minus two, the others words of 8 minus one.
        let units = if number == ipv6::AUTH { len / 4 - 2 } else { len / 8 - 1 };
        self.announce(number);
        self.next_at = self.bytes.len();
        let end = self.bytes.len() + len;
        self.bytes.extend_from_slice(&[0, units as u8]);
        self.bytes.extend_from_slice(body);
        self.bytes.resize(end, 0);
        self
    }

    /// Makes the packet a fragment: its `offset` in units of 8 bytes, whether `more` follow, and the datagram's
    /// identification.
    pub fn fragment(mut self, offset: u16, more: bool, id: u32) -> IpFrame {
        if self.is_v6 {
            self.announce(ip_proto::IPV6_FRAGMENT);
            self.next_at = self.bytes.len();
            self.bytes.extend_from_slice(&[0, 0]);
            self.bytes.extend_from_slice(&(offset << 3 | u16::from(more)).to_be_bytes());
            self.bytes.extend_from_slice(&id.to_be_bytes());
        } else {
            let word = offset & 0x1fff | if more { MORE_FRAGMENTS } else { 0 };
            self.bytes[self.start + 4..self.start + 6].copy_from_slice(&(id as u16).to_be_bytes());
            self.bytes[self.start + 6..self.start + 8].copy_from_slice(&word.to_be_bytes());
        }
        self
    }

    /// Adds a TCP header with the SYN flag.
    pub fn tcp(self, src: u16, dst: u16) -> TransportFrame {
        self.tcp_with(src, dst, SYN, 0, 0)
    }

    /// Adds a TCP header with flags, sequence and acknowledgement numbers.
    pub fn tcp_with(self, src: u16, dst: u16, flags: u8, seq: u32, ack: u32) -> TransportFrame {
        let mut header = [0; transport::TCP_LEN];
        header[..2].copy_from_slice(&src.to_be_bytes());
        header[2..4].copy_from_slice(&dst.to_be_bytes());
        header[4..8].copy_from_slice(&seq.to_be_bytes());
        header[8..12].copy_from_slice(&ack.to_be_bytes());
        header[12..14].copy_from_slice(&[5 << 4, flags]);
        header[14..16].copy_from_slice(&0xffffu16.to_be_bytes());
        self.transport(ip_proto::TCP, &header)
    }

    /// Adds a UDP header.
    pub fn udp(self, src: u16, dst: u16) -> TransportFrame {
        let ([a, b], [c, d]) = (src.to_be_bytes(), dst.to_be_bytes());
        self.transport(ip_proto::UDP, &[a, b, c, d, 0, 0, 0, 0])
    }

    /// Adds the common header of SCTP with verification tag 0. The payload contains the chunks.
    pub fn sctp(self, src: u16, dst: u16) -> TransportFrame {
        let ([a, b], [c, d]) = (src.to_be_bytes(), dst.to_be_bytes());
        self.transport(ip_proto::SCTP, &[a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0])
    }

    /// Adds the header of a ping: an ICMP or ICMPv6 echo request.
    pub fn echo_request(self, id: u16, seq: u16) -> TransportFrame {
        let kind = if self.is_v6 { ECHO_V6.0 } else { ECHO_V4.0 };
        self.echo(kind, id, seq)
    }

    /// Adds the header of a ping's answer.
    pub fn echo_reply(self, id: u16, seq: u16) -> TransportFrame {
        let kind = if self.is_v6 { ECHO_V6.1 } else { ECHO_V4.1 };
        self.echo(kind, id, seq)
    }

    /// Adds a header of ICMP over IPv4, or of ICMPv6 over IPv6: type, code and the 4 bytes that depend on them.
    pub fn icmp(self, kind: u8, code: u8, rest: [u8; 4]) -> TransportFrame {
        let [a, b, c, d] = rest;
        let proto = if self.is_v6 { ip_proto::ICMPV6 } else { ip_proto::ICMP };
        self.transport(proto, &[kind, code, 0, 0, a, b, c, d])
    }

    /// Sets any other protocol. The payload contains its header.
    pub fn proto(self, number: u8) -> TransportFrame {
        let frame = self.transport(number, &[]);
        TransportFrame { proto: None, ..frame }
    }

    fn echo(self, kind: u8, id: u16, seq: u16) -> TransportFrame {
        let ([a, b], [c, d]) = (id.to_be_bytes(), seq.to_be_bytes());
        self.icmp(kind, 0, [a, b, c, d])
    }

    /// Builds a neighbour discovery message. The type determines which option carries `mac`.
    pub(super) fn discovery(self, kind: u8, flags: u8, target: Ipv6Addr, mac: [u8; 6]) -> Vec<u8> {
        let is_solicit = kind == icmpv6_type::NEIGHBOR_SOLICIT;
        let option = if is_solicit { icmpv6::OPTION_SOURCE } else { icmpv6::OPTION_TARGET };
        let payload = [&target.octets()[..], &[option, 1], &mac].concat();
        self.icmp(kind, 0, [flags, 0, 0, 0]).payload(&payload)
    }

    fn transport(mut self, proto: u8, header: &[u8]) -> TransportFrame {
        self.announce(proto);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(header);
        TransportFrame { ip: self, start, proto: Some(proto) }
    }

    fn announce(&mut self, number: u8) {
        self.bytes[self.next_at] = number;
    }

    fn traffic_class(&self) -> u8 {
        let [high, low] = [self.bytes[self.start], self.bytes[self.start + 1]];
        if self.is_v6 { high << 4 | low >> 4 } else { low }
    }

    fn with_traffic_class(mut self, class: u8) -> IpFrame {
        if self.is_v6 {
            self.bytes[self.start] = 0x60 | class >> 4;
            self.bytes[self.start + 1] = class << 4 | self.bytes[self.start + 1] & 0xf;
        } else {
            self.bytes[self.start + 1] = class;
        }
        self
    }
}

impl TransportFrame {
    /// Returns the frame without payload.
    pub fn build(self) -> Vec<u8> {
        self.payload(&[])
    }

    /// Returns the frame with this payload.
    ///
    /// # Panics
    /// If the IP packet would be longer than 65535 bytes.
    pub fn payload(mut self, payload: &[u8]) -> Vec<u8> {
        self.ip.bytes.extend_from_slice(payload);
        let header_len = if self.ip.is_v6 { ipv6::HEADER_LEN } else { 0 };
        let len = self.ip.bytes.len() - self.ip.start - header_len;
        let len = u16::try_from(len).unwrap_or_else(|_| panic!("IP packet of {len} bytes"));
        let len_at = self.ip.start + if self.ip.is_v6 { ipv6::PAYLOAD_LEN } else { 2 };
        self.ip.bytes[len_at..len_at + 2].copy_from_slice(&len.to_be_bytes());
        if self.proto == Some(ip_proto::UDP) {
            let len = (self.ip.bytes.len() - self.start) as u16;
            self.ip.bytes[self.start + 4..self.start + 6].copy_from_slice(&len.to_be_bytes());
        }
        self.fill_checksums();
        self.ip.bytes
    }

    /// Writes the checksums of the IPv4 header and of the transport header, whose fields contain zeros before.
    fn fill_checksums(&mut self) {
        let (start, bytes) = (self.ip.start, &mut self.ip.bytes);
        let addresses = if self.ip.is_v6 { ipv6::SRC..ipv6::HEADER_LEN } else { ipv4::SRC..ipv4::HEADER_LEN };
        if !self.ip.is_v6 {
            let end = start + usize::from(bytes[start] & 0xf) * 4;
            let sum = checksum::internet(&bytes[start..end]);
            bytes[start + ipv4::CHECKSUM..start + ipv4::CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
        }
        let Some(proto) = self.proto else { return };
        let Some(place) = transport::checksum_place(proto) else { return };
        let segment = &bytes[self.start..];
        if proto == ip_proto::SCTP {
            let crc = checksum::crc32c(segment);
            bytes[self.start + place..self.start + place + 4].copy_from_slice(&crc.to_le_bytes());
            return;
        }
        let mut sum = Sum::default().with(segment);
        if proto != ip_proto::ICMP {
            let addresses = &bytes[start + addresses.start..start + addresses.end];
            let (src, dst) = addresses.split_at(addresses.len() / 2);
            sum = sum.with_pseudo_header(src, dst, proto, segment.len());
        }
        let sum = match sum.finish() {
            // In UDP zero means that there is no checksum (RFC 768).
            0 if proto == ip_proto::UDP => 0xffff,
            sum => sum,
        };
        bytes[self.start + place..self.start + place + 2].copy_from_slice(&sum.to_be_bytes());
    }
}
