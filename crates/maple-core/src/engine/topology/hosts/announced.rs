//! Announcements: an IP address that a packet's sender declares to be its own.
//!
//! Three protocols announce addresses: ARP in its sender fields; neighbour discovery in the source of a solicitation
//! and the target of an advertisement; DHCP in a client's request for the address that it has or wants.
//!
//! An announcement counts only if the hardware address in it is the frame's source, so that no host can speak for
//! another. For the same reason a DHCP server's acknowledgement does not count: it is about another host. Duplicate
//! address detection (a sender without an address) announces nothing, because the address may turn out to belong to
//! another host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use maple_wire::eth_type::value::{ARP, IPV6};
use maple_wire::icmpv6_type::value::{NEIGHBOR_ADVERT, NEIGHBOR_SOLICIT};
use maple_wire::{Field, Packet};

/// The UDP port of DHCP clients.
const DHCP_CLIENT: u128 = 68;
/// The UDP port of DHCP servers.
const DHCP_SERVER: u128 = 67;

/// Reports whether a packet may announce an address, by a quick test.
#[inline]
pub(in crate::engine) fn is_announcement(packet: &Packet<'_>) -> bool {
    match packet.get(Field::EthType) {
        Some(ARP) => true,
        Some(IPV6) => matches!(packet.get(Field::Icmpv6Type), Some(NEIGHBOR_SOLICIT | NEIGHBOR_ADVERT)),
        _ => packet.get(Field::UdpSrc) == Some(DHCP_CLIENT),
    }
}

/// Returns the address that a packet announces as its sender's own.
pub(in crate::engine) fn announcement(packet: &Packet<'_>) -> Option<IpAddr> {
    let source = packet.get(Field::EthSrc)?;
    let is_own = |field| packet.get(field).is_none_or(|mac| mac == source);
    let own = match packet.get(Field::EthType)? {
        ARP if packet.get(Field::ArpSha) == Some(source) => v4(packet.get(Field::ArpSpa)?),
        IPV6 => match packet.get(Field::Icmpv6Type)? {
            NEIGHBOR_SOLICIT if is_own(Field::Ipv6NdSll) => v6(packet.get(Field::Ipv6Src)?),
            NEIGHBOR_ADVERT if is_own(Field::Ipv6NdTll) => v6(packet.get(Field::Ipv6NdTarget)?),
            _ => return None,
        },
        _ if packet.get(Field::UdpSrc) == Some(DHCP_CLIENT) && packet.get(Field::UdpDst) == Some(DHCP_SERVER) => {
            IpAddr::V4(requested(udp_payload(packet)?, source)?)
        }
        _ => return None,
    };
    Some(own).filter(|ip| can_be_owned(*ip))
}

fn v4(bits: u128) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(bits as u32))
}

fn v6(bits: u128) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from(bits))
}

fn can_be_owned(ip: IpAddr) -> bool {
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !ip.is_unspecified() && !ip.is_multicast() && !ip.is_loopback() && !is_broadcast
}

/// Returns the payload of a UDP packet over IPv4.
fn udp_payload<'a>(packet: &Packet<'a>) -> Option<&'a [u8]> {
    let ip = packet.frame().get(14 + 4 * packet.vlans().count()..)?;
    let header = usize::from(ip.first()? & 0xf) * 4;
    ip.get(header + 8..)
}

/// Returns the address that a DHCP client has (`ciaddr`) or asks for (RFC 2131).
fn requested(message: &[u8], source: u128) -> Option<Ipv4Addr> {
    /// The type of a DHCP message that requests an address, DHCPREQUEST (RFC 2132 §9.6).
    const REQUEST: u8 = 3;
    let mac = Field::EthSrc.full_mask() & u128::from_be_bytes(message.get(18..34)?.try_into().ok()?);
    let is_clients = message.first() == Some(&1) && message.get(236..240)? == [99, 130, 83, 99];
    if !is_clients || mac != source || option(&message[240..], 53) != Some(&[REQUEST]) {
        return None;
    }
    let has: [u8; 4] = message.get(12..16)?.try_into().ok()?;
    let asks: Option<[u8; 4]> = option(&message[240..], 50).and_then(|bytes| bytes.try_into().ok());
    let ip = if has == [0; 4] { asks? } else { has };
    Some(Ipv4Addr::from(ip))
}

/// Returns the bytes of a DHCP option.
fn option(mut options: &[u8], wanted: u8) -> Option<&[u8]> {
    loop {
        match options {
            [0, rest @ ..] => options = rest,
            [255, ..] | [_] | [] => return None,
            [code, length, rest @ ..] => {
                let (body, after) = rest.split_at_checked(usize::from(*length))?;
                if *code == wanted {
                    return Some(body);
                }
                options = after;
            }
        }
    }
}
