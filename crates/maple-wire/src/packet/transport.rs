//! The fields of TCP, UDP, SCTP and ICMP that switches match.

use super::bytes::{u8_at, u16_at};
use super::{NetworkKind, NetworkLayer, Packet};
use crate::ip_proto::{ICMP, ICMPV6, SCTP, TCP, UDP};

/// The length of a TCP header without options in bytes.
pub const TCP_LEN: usize = 20;
/// The length of a UDP header in bytes.
pub const UDP_LEN: usize = 8;
/// The length of the SCTP common header in bytes.
pub const SCTP_LEN: usize = 12;
/// The length of an ICMP or ICMPv6 header in bytes, with the four that depend on the type.
pub const ICMP_LEN: usize = 8;

/// The offset of the byte whose upper half is the length of the TCP header in words of 4 bytes.
const TCP_DATA_OFFSET: usize = 12;

pub(super) const SRC: usize = 0;
pub(super) const DST: usize = 2;
pub(super) const TYPE: usize = 0;
pub(super) const CODE: usize = 1;

/// Returns the start of the content of an IP packet: after the transport header, if this crate knows it. Parts of a
/// datagram count as having none.
pub(super) fn payload_start(packet: &Packet, network: NetworkLayer) -> usize {
    let start = network.transport();
    let header = match network.proto() {
        _ if network.is_fragment() => 0,
        Some(TCP) => u8_at(packet.frame, start + TCP_DATA_OFFSET).map_or(TCP_LEN, |byte| usize::from(byte >> 4) * 4),
        Some(UDP) => UDP_LEN,
        Some(SCTP) => SCTP_LEN,
        Some(ICMP | ICMPV6) => ICMP_LEN - 4,
        _ => 0,
    };
    start + header
}

#[inline]
pub(super) fn tcp(packet: &Packet, at: usize) -> Option<u128> {
    let network = packet.network();
    if network.has_tcp() {
        return u16_at(packet.frame, network.transport() + at).map(u128::from);
    }
    tcp_otherwise(packet, network)
}

/// Reads a port where the view has no usable TCP header: 0 in fragments, else none.
#[cold]
fn tcp_otherwise(packet: &Packet, network: NetworkLayer) -> Option<u128> {
    (network.carries(TCP) && has_zero_ports(packet, network)).then_some(0)
}

#[inline]
pub(super) fn udp(packet: &Packet, at: usize) -> Option<u128> {
    port(packet, UDP, UDP_LEN, at)
}

#[inline]
pub(super) fn sctp(packet: &Packet, at: usize) -> Option<u128> {
    port(packet, SCTP, SCTP_LEN, at)
}

pub(super) fn icmpv4(packet: &Packet, at: usize) -> Option<u128> {
    icmp(packet, ICMP, NetworkKind::V4, at)
}

pub(super) fn icmpv6(packet: &Packet, at: usize) -> Option<u128> {
    icmp(packet, ICMPV6, NetworkKind::V6, at)
}

/// Reads the port at `at` of a header of protocol `proto` and `len` bytes; 0 in a fragment.
#[inline]
fn port(packet: &Packet, proto: u8, len: usize, at: usize) -> Option<u128> {
    let network = packet.network();
    if !network.carries(proto) {
        return None;
    }
    if has_zero_ports(packet, network) {
        return Some(0);
    }
    if has_header(network, len) { u16_at(packet.frame, network.transport() + at).map(u128::from) } else { None }
}

/// Reports whether switches treat ports and ICMP type as 0. They do so in every fragment, so that all fragments of a
/// datagram are treated alike.
#[inline]
fn has_zero_ports(packet: &Packet, network: NetworkLayer) -> bool {
    network.is_fragment() && (network.is_later_fragment() || !packet.literal)
}

/// Reports whether a TCP header can be read, with a data offset that is possible in this packet. Otherwise switches
/// don't use its ports.
#[inline]
pub(super) fn has_tcp(packet: &Packet, network: NetworkLayer) -> bool {
    if !network.carries(TCP) || has_zero_ports(packet, network) {
        return false;
    }
    let len = u8_at(packet.frame, network.transport() + TCP_DATA_OFFSET).map(|byte| usize::from(byte >> 4) * 4);
    len.is_some_and(|len| len >= TCP_LEN && has_header(network, len))
}

fn icmp(packet: &Packet, proto: u8, kind: NetworkKind, at: usize) -> Option<u128> {
    let network = packet.network();
    if !network.carries(proto) || network.kind() != kind {
        return None;
    }
    if has_zero_ports(packet, network) {
        return Some(0);
    }
    if has_header(network, ICMP_LEN) { u8_at(packet.frame, network.transport() + at).map(u128::from) } else { None }
}

/// Returns the offset of the checksum in the header of protocol `proto`, if this crate knows the protocol.
pub(super) fn checksum_place(proto: u8) -> Option<usize> {
    match proto {
        TCP => Some(16),
        UDP => Some(6),
        SCTP => Some(8),
        ICMP | ICMPV6 => Some(2),
        _ => None,
    }
}

/// Reports whether the IP packet is long enough for a transport header of `len` bytes.
#[inline]
pub(super) fn has_header(network: NetworkLayer, len: usize) -> bool {
    network.end() - network.transport() >= len
}
