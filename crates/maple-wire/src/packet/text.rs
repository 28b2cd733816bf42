//! Fields and packets as text.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Packet, arp, lldp};
use crate::field::{Field, VLAN_PRESENT, ValueKind};
use crate::port::PortNo;
use crate::{eth_type, icmpv6_type, ip_proto, parse_hex, parse_number};

/// The error for a text that is not a value of the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: `{text}` is not {expected}")]
pub struct ParseValueError {
    /// The field.
    pub field: Field,
    /// The text.
    pub text: String,
    /// The expected form, in words.
    pub expected: String,
}

/// Returns the value of a field as people write it: `02:00:00:00:00:01`, `10.0.0.1`, `fe80::1`, `0x0800`, `80`.
///
/// `eth_type`, `vlan_vid` (with its bit 12), and fields that are bits rather than numbers are written in hexadecimal.
pub fn field_value_to_string(field: Field, value: u128) -> String {
    match field.kind() {
        ValueKind::Mac => mac(value as u64),
        ValueKind::Ipv4 => Ipv4Addr::from(value as u32).to_string(),
        ValueKind::Ipv6 => Ipv6Addr::from(value).to_string(),
        ValueKind::SwitchPort => PortNo(value as u32).to_string(),
        ValueKind::Bits => format!("{value:#0width$x}", width = 2 + field.bits().div_ceil(4) as usize),
        ValueKind::TransportPort | ValueKind::Number => value.to_string(),
    }
}

/// Reads the form that [`field_value_to_string`] writes. For any field it also reads numbers (decimal, or hexadecimal
/// after `0x`).
///
/// # Errors
/// [`ParseValueError`] if the text has another form, or the field can't have the value.
pub fn parse_field_value(field: Field, text: &str) -> Result<u128, ParseValueError> {
    let value = match field.kind() {
        ValueKind::Mac => parse_mac(text).map(u128::from),
        ValueKind::Ipv4 => text.parse::<Ipv4Addr>().ok().map(|address| u128::from(u32::from(address))),
        ValueKind::Ipv6 => text.parse::<Ipv6Addr>().ok().map(u128::from),
        ValueKind::SwitchPort => text.parse::<PortNo>().ok().map(|port| u128::from(port.0)),
        ValueKind::Bits | ValueKind::TransportPort | ValueKind::Number => None,
    };
    let is_in_range = |value: &u128| *value <= field.full_mask();
    value.or_else(|| parse_number(text)).filter(is_in_range).ok_or_else(|| ParseValueError {
        field,
        text: text.to_string(),
        expected: expected(field),
    })
}

fn expected(field: Field) -> String {
    match field.kind() {
        ValueKind::Mac => "a hardware address such as 02:00:00:00:00:01".to_string(),
        ValueKind::Ipv4 => "an IPv4 address such as 10.0.0.1".to_string(),
        ValueKind::Ipv6 => "an IPv6 address such as fe80::1".to_string(),
        ValueKind::SwitchPort => "a port number, or a name such as LOCAL".to_string(),
        ValueKind::Bits | ValueKind::TransportPort | ValueKind::Number => {
            format!("a number from 0 to {:#x}", field.full_mask())
        }
    }
}

/// Reads a VLAN id, from 0 to 4095: a decimal number, or a hexadecimal one after `0x`. The hexadecimal number may have
/// the bit of the tag, with which `vlan_vid` is written: `20`, `0x14` and `0x1014` are equivalent.
pub fn parse_vlan_id(text: &str) -> Option<u16> {
    let number = u16::try_from(parse_number(text)?).ok()?;
    let is_hex = text.starts_with("0x") || text.starts_with("0X");
    match number {
        0..=0xfff => Some(number),
        0x1000..=0x1fff if is_hex => Some(number & 0xfff),
        _ => None,
    }
}

/// Returns a hardware address, from the lower 48 bits of `value`, as `02:00:00:00:00:01`.
pub fn mac(value: u64) -> String {
    let [_, _, bytes @ ..] = value.to_be_bytes();
    mac_text(&bytes)
}

/// Returns a hardware address as `02:00:00:00:00:01`.
pub fn mac_text([a, b, c, d, e, f]: &[u8; 6]) -> String {
    format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
}

/// Reads a hardware address: six bytes of one or two hexadecimal digits, all with `:` or all with `-` between them.
///
/// ```
/// use maple_wire::packet::text::parse_mac;
///
/// assert_eq!(parse_mac("02:00:00:00:01:0A"), Some(0x0200_0000_010a));
/// assert_eq!(parse_mac("2-0-0-0-1-a"), Some(0x0200_0000_010a));
/// for text in ["", "02:00:00:00:01", "02:00:00:00:01:0a:00", "02:00:00-00:01:0a", "+2:0:0:0:1:a", "002:0:0:0:1:a"] {
///     assert_eq!(parse_mac(text), None, "{text}");
/// }
/// ```
pub fn parse_mac(text: &str) -> Option<u64> {
    let separator = if text.contains('-') { '-' } else { ':' };
    let mut value = 0;
    let mut count = 0;
    for part in text.split(separator) {
        if part.len() > 2 {
            return None;
        }
        value = value << 8 | parse_hex::<u64>(part)?;
        count += 1;
    }
    (count == 6).then_some(value)
}

/// Summarises a packet in one line, such as `arp who-has 10.0.0.2 tell 10.0.0.1` or `vlan 5 tcp 10.0.0.1:1234 >
/// 10.0.0.2:80`. Missing fields are shown as `?`.
pub fn summary(packet: &Packet) -> String {
    let packet = &packet.clone().literal();
    let read = |field| packet.get(field);
    let vlans: String = packet.vlans().map(|vlan| format!("vlan {} ", vlan.vid)).collect();
    let rest = match packet.link().eth_type() {
        None => format!("short frame of {} bytes", packet.frame().len()),
        Some(eth_type::LLDP) => lldp_summary(packet),
        Some(eth_type::MPLS | eth_type::MPLS_MULTICAST) => {
            let labels: Vec<String> = packet.mpls_stack().map(|entry| entry.label.to_string()).collect();
            format!("mpls {}", labels.join("/"))
        }
        Some(eth_type::IPV4 | eth_type::IPV6) if packet.network().is_later_fragment() => {
            without_ports(&read, format!("fragment of proto {}", show(&read, Field::IpProto)))
        }
        Some(kind) => of_type(&read, kind),
    };
    vlans + &rest
}

/// Summarises a packet as [`summary`] does, from the values of fields alone. It reads only the fields that it shows:
/// the outermost of stacked tags and labels, and nothing that distinguishes fragments.
pub fn summary_of_fields(read: &dyn Fn(Field) -> Option<u128>) -> String {
    let tag = read(Field::VlanVid).filter(|vid| vid & VLAN_PRESENT != 0);
    let vlan = tag.map(|vid| format!("vlan {} ", vid ^ VLAN_PRESENT)).unwrap_or_default();
    vlan + &match read(Field::EthType).map(|kind| kind as u16) {
        None => "frame without a type".to_string(),
        Some(eth_type::MPLS | eth_type::MPLS_MULTICAST) => format!("mpls {}", show(read, Field::MplsLabel)),
        Some(kind) => of_type(read, kind),
    }
}

/// Summarises the part after the tags of a packet.
fn of_type(read: &dyn Fn(Field) -> Option<u128>, kind: u16) -> String {
    match kind {
        eth_type::ARP => arp_summary(read),
        eth_type::IPV4 | eth_type::IPV6 => ip_summary(read),
        _ => format!("eth_type {kind:#06x} {} > {}", show(read, Field::EthSrc), show(read, Field::EthDst)),
    }
}

fn arp_summary(read: &dyn Fn(Field) -> Option<u128>) -> String {
    let show = |field| show(read, field);
    match read(Field::ArpOp).map(|op| op as u16) {
        Some(arp::REQUEST) => format!("arp who-has {} tell {}", show(Field::ArpTpa), show(Field::ArpSpa)),
        Some(arp::REPLY) => format!("arp {} is-at {}", show(Field::ArpSpa), show(Field::ArpSha)),
        _ => format!("arp op {} {} > {}", show(Field::ArpOp), show(Field::ArpSpa), show(Field::ArpTpa)),
    }
}

fn ip_summary(read: &dyn Fn(Field) -> Option<u128>) -> String {
    use Field::*;
    let with_ports = |name: &str, from: Field, to: Field| {
        let end = |ip: Option<IpAddr>, port| match ip {
            Some(IpAddr::V6(ip)) => format!("[{ip}]:{}", show(read, port)),
            Some(IpAddr::V4(ip)) => format!("{ip}:{}", show(read, port)),
            None => format!("?:{}", show(read, port)),
        };
        format!("{name} {} > {}", end(source(read), from), end(destination(read), to))
    };
    match read(IpProto).map(|proto| proto as u8) {
        Some(ip_proto::TCP) => with_ports("tcp", TcpSrc, TcpDst),
        Some(ip_proto::UDP) => with_ports("udp", UdpSrc, UdpDst),
        Some(ip_proto::SCTP) => with_ports("sctp", SctpSrc, SctpDst),
        Some(ip_proto::ICMP) if read(Ipv4Src).is_some() => {
            without_ports(read, "icmp".to_string()) + &icmp_kind(read, Icmpv4Type, Icmpv4Code)
        }
        Some(ip_proto::ICMPV6) if read(Ipv6Src).is_some() => {
            without_ports(read, "icmp6".to_string()) + &icmp_kind(read, Icmpv6Type, Icmpv6Code)
        }
        _ => without_ports(read, format!("ip proto {}", show(read, IpProto))),
    }
}

fn without_ports(read: &dyn Fn(Field) -> Option<u128>, name: String) -> String {
    let end = |ip: Option<IpAddr>| ip.map_or("?".to_string(), |ip| ip.to_string());
    format!("{name} {} > {}", end(source(read)), end(destination(read)))
}

fn icmp_kind(read: &dyn Fn(Field) -> Option<u128>, kind: Field, code: Field) -> String {
    let target = || show(read, Field::Ipv6NdTarget);
    match (kind, read(kind).map(|kind| kind as u8)) {
        (Field::Icmpv4Type, Some(8)) | (Field::Icmpv6Type, Some(128)) => " echo request".to_string(),
        (Field::Icmpv4Type, Some(0)) | (Field::Icmpv6Type, Some(129)) => " echo reply".to_string(),
        (Field::Icmpv6Type, Some(icmpv6_type::NEIGHBOR_SOLICIT)) => format!(" neighbor who-has {}", target()),
        (Field::Icmpv6Type, Some(icmpv6_type::NEIGHBOR_ADVERT)) => format!(" neighbor {} is here", target()),
        _ => format!(" type {} code {}", show(read, kind), show(read, code)),
    }
}

fn lldp_summary(packet: &Packet) -> String {
    let (mut chassis, mut port) = ("?".to_string(), "?".to_string());
    for tlv in lldp::tlvs(packet).into_iter().flatten().flatten() {
        match tlv {
            lldp::Tlv::ChassisId { id, .. } => chassis = id_text(id),
            lldp::Tlv::PortId { id, .. } => port = id_text(id),
            _ => {}
        }
    }
    format!("lldp chassis {chassis} port {port}")
}

/// Returns a printable id unchanged, and any other in hexadecimal.
fn id_text(id: &[u8]) -> String {
    match std::str::from_utf8(id) {
        Ok(text) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) => text.to_string(),
        _ => id.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

fn source(read: &dyn Fn(Field) -> Option<u128>) -> Option<IpAddr> {
    address(read, Field::Ipv4Src, Field::Ipv6Src)
}

fn destination(read: &dyn Fn(Field) -> Option<u128>) -> Option<IpAddr> {
    address(read, Field::Ipv4Dst, Field::Ipv6Dst)
}

fn address(read: &dyn Fn(Field) -> Option<u128>, v4: Field, v6: Field) -> Option<IpAddr> {
    let v4 = read(v4).map(|value| IpAddr::from(Ipv4Addr::from(value as u32)));
    v4.or_else(|| read(v6).map(|value| IpAddr::from(Ipv6Addr::from(value))))
}

fn show(read: &dyn Fn(Field) -> Option<u128>, field: Field) -> String {
    read(field).map_or("?".to_string(), |value| field_value_to_string(field, value))
}
