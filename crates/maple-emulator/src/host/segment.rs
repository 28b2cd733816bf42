//! The frames that a host understands: untagged ARP, and untagged IPv4 and IPv6 without fragments and extension
//! headers.

use maple_wire::eth_type;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A frame that a host understands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment<'a> {
    /// ARP: the requesting or answering host, and the address.
    Arp { op: u16, sender_mac: [u8; 6], sender: Ipv4Addr, target: Ipv4Addr },
    /// IP, with its payload.
    Ip(Datagram<'a>),
}

/// An IP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    pub src_mac: [u8; 6],
    pub src: IpAddr,
    pub dst: IpAddr,
    pub proto: u8,
    /// The transport header, and all bytes after it.
    pub body: &'a [u8],
}

/// A TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp<'a> {
    pub src: u16,
    pub dst: u16,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub data: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Parses a frame; `None` for frames that hosts do not understand.
    pub fn parse(frame: &'a [u8]) -> Option<Segment<'a>> {
        let (link, rest) = frame.split_at_checked(14)?;
        let src_mac = array(link, 6)?;
        match u16_at(link, 12)? {
            eth_type::ARP => Some(Segment::Arp {
                op: u16_at(rest, 6)?,
                sender_mac: array(rest, 8)?,
                sender: Ipv4Addr::from(array::<4>(rest, 14)?),
                target: Ipv4Addr::from(array::<4>(rest, 24)?),
            }),
            eth_type::IPV4 => {
                let header = usize::from(rest.first()? & 0xf) * 4;
                let total = usize::from(u16_at(rest, 2)?);
                let fragment = u16_at(rest, 6)? & 0x3fff;
                let body = rest.get(header..total).filter(|_| header >= 20 && fragment == 0 && rest[0] >> 4 == 4)?;
                let src = IpAddr::from(array::<4>(rest, 12)?);
                let dst = IpAddr::from(array::<4>(rest, 16)?);
                Some(Segment::Ip(Datagram { src_mac, src, dst, proto: rest[9], body }))
            }
            eth_type::IPV6 => {
                let body = rest.get(40..40 + usize::from(u16_at(rest, 4)?))?;
                let src = IpAddr::from(Ipv6Addr::from(array::<16>(rest, 8)?));
                let dst = IpAddr::from(Ipv6Addr::from(array::<16>(rest, 24)?));
                Some(Segment::Ip(Datagram { src_mac, src, dst, proto: rest[6], body }))
            }
            _ => None,
        }
    }
}

impl<'a> Tcp<'a> {
    /// Parses a TCP header and the bytes after it.
    pub fn parse(body: &'a [u8]) -> Option<Tcp<'a>> {
        let header = usize::from(*body.get(12)? >> 4) * 4;
        Some(Tcp {
            src: u16_at(body, 0)?,
            dst: u16_at(body, 2)?,
            seq: u32::from_be_bytes(array(body, 4)?),
            ack: u32::from_be_bytes(array(body, 8)?),
            flags: body[13],
            data: body.get(header.max(20)..)?,
        })
    }
}

/// Returns the big-endian number at an offset.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}

/// Returns the bytes at an offset.
pub fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}
