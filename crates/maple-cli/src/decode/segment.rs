//! Finds the TCP segment in a captured packet.

use maple_wire::{eth_type, ip_proto};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::bail;

/// The first header of captured packets (the tcpdump project's link-layer header types).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkType {
    Ethernet,
    /// An IPv4 or IPv6 header.
    RawIp,
    /// Linux cooked capture, version 1.
    LinuxCooked,
    /// Linux cooked capture, version 2.
    LinuxCooked2,
    /// Four bytes of address family in the capturing host's byte order.
    Loopback,
}

impl LinkType {
    /// Returns the link type with this number in a capture.
    pub(super) fn of_capture(number: u32) -> anyhow::Result<LinkType> {
        Ok(match number {
            0 | 108 => LinkType::Loopback,
            1 => LinkType::Ethernet,
            12 | 14 | 101 | 228 | 229 => LinkType::RawIp,
            113 => LinkType::LinuxCooked,
            276 => LinkType::LinuxCooked2,
            _ => bail!("link type {number} is not supported (Ethernet, Linux cooked, raw IP and loopback are)"),
        })
    }

    /// Guesses the link type of a packet that comes without one: the first with which the packet has an IP header.
    pub(super) fn guess(packet: &[u8]) -> Option<LinkType> {
        let all =
            [LinkType::Ethernet, LinkType::LinuxCooked, LinkType::LinuxCooked2, LinkType::RawIp, LinkType::Loopback];
        all.into_iter().find(|link_type| link_type.ip_of(packet).is_some_and(begins_with_header))
    }

    /// Returns the IP packet in a captured packet, if there is one.
    fn ip_of(self, packet: &[u8]) -> Option<&[u8]> {
        match self {
            LinkType::Ethernet => ip_behind_type(packet, 12),
            LinkType::LinuxCooked => ip_behind_type(packet, 14),
            LinkType::LinuxCooked2 => is_ip(u16_at(packet, 0)?).then(|| packet.get(20..))?,
            LinkType::RawIp => Some(packet),
            LinkType::Loopback => packet.get(4..),
        }
    }
}

/// Returns the bytes after an Ethernet type at `at`, perhaps after VLAN tags, if the type is IP.
fn ip_behind_type(packet: &[u8], mut at: usize) -> Option<&[u8]> {
    while matches!(u16_at(packet, at)?, eth_type::VLAN | eth_type::QINQ) {
        at += 4;
    }
    is_ip(u16_at(packet, at)?).then(|| packet.get(at + 2..))?
}

fn is_ip(eth_type: u16) -> bool {
    matches!(eth_type, eth_type::IPV4 | eth_type::IPV6)
}

/// Reports whether the bytes begin with an IP header. They may be cut off after it.
fn begins_with_header(packet: &[u8]) -> bool {
    match packet.first().map(|first| (first >> 4, usize::from(first & 0xf) * 4)) {
        Some((4, header)) => {
            (20..=packet.len()).contains(&header) && u16_at(packet, 2).is_some_and(|total| usize::from(total) >= header)
        }
        Some((6, _)) => packet.len() >= 40,
        _ => false,
    }
}

/// A TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment<'a> {
    pub from: SocketAddr,
    pub to: SocketAddr,
    /// Sequence number of the first byte of `data`, or of the SYN.
    pub sequence: u32,
    pub syn: bool,
    pub ack: bool,
    pub data: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Returns the TCP segment in a captured packet, if there is one.
    pub(super) fn find(link_type: LinkType, packet: &'a [u8]) -> Option<Segment<'a>> {
        let ip = link_type.ip_of(packet)?;
        match ip.first()? >> 4 {
            4 => Segment::in_ipv4(ip),
            6 => Segment::in_ipv6(ip),
            _ => None,
        }
    }

    /// Leaves out fragments, because connections of controllers do not have them.
    fn in_ipv4(packet: &'a [u8]) -> Option<Segment<'a>> {
        let header_len = usize::from(packet.first()? & 0xf) * 4;
        let fragment = u16_at(packet, 6)? & 0x3fff;
        if header_len < 20 || fragment != 0 || *packet.get(9)? != ip_proto::TCP {
            return None;
        }
        let address = |at: usize| Some(IpAddr::from(Ipv4Addr::from(*packet.get(at..)?.first_chunk::<4>()?)));
        // Segmentation offload leaves a total length of 0.
        let end = match usize::from(u16_at(packet, 2)?) {
            0 => packet.len(),
            total => total.min(packet.len()),
        };
        Segment::in_tcp(address(12)?, address(16)?, packet.get(header_len..end)?)
    }

    fn in_ipv6(packet: &'a [u8]) -> Option<Segment<'a>> {
        let address = |at: usize| Some(IpAddr::from(Ipv6Addr::from(*packet.get(at..)?.first_chunk::<16>()?)));
        let end = match usize::from(u16_at(packet, 4)?) {
            0 => packet.len(),
            payload => (40 + payload).min(packet.len()),
        };
        let (mut next, mut at) = (*packet.get(6)?, 40);
        // These are hop-by-hop options, routing and destination options.
        while matches!(next, 0 | 43 | 60) {
            next = *packet.get(at)?;
            at += (usize::from(*packet.get(at + 1)?) + 1) * 8;
        }
        if next != ip_proto::TCP {
            return None;
        }
        Segment::in_tcp(address(8)?, address(24)?, packet.get(at..end)?)
    }

    fn in_tcp(from: IpAddr, to: IpAddr, tcp: &'a [u8]) -> Option<Segment<'a>> {
        let header_len = usize::from(*tcp.get(12)? >> 4) * 4;
        let sequence = u32::from_be_bytes(*tcp.get(4..)?.first_chunk()?);
        if header_len < 20 {
            return None;
        }
        Some(Segment {
            from: SocketAddr::new(from, u16_at(tcp, 0)?),
            to: SocketAddr::new(to, u16_at(tcp, 2)?),
            sequence,
            syn: *tcp.get(13)? & 2 != 0,
            ack: *tcp.get(13)? & 0x10 != 0,
            data: tcp.get(header_len..)?,
        })
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|b| u16::from_be_bytes(*b))
}
