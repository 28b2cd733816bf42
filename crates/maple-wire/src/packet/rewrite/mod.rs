//! Changes frames as a switch's actions do: sets fields, pushes and pops tags, decrements the time to live.
//!
//! Checksums are adjusted by the difference (RFC 1624), not recomputed. So a wrong checksum stays wrong. First
//! fragments, and frames of which only the beginning was captured, are changed as the whole would be. SCTP's CRC is the
//! exception: it is adjusted on the assumption that the segment ends with the frame.
//!
//! Every function either changes the frame or returns an error and leaves it as it was.

mod apply;

pub use apply::{Applied, apply};

use super::bytes::{u8_at, u16_at, u32_at};
use super::ethernet::{self, HEADER_LEN, TAG_LEN, TYPE_OFFSET, is_tag};
use super::mpls::{self, ENTRY_LEN, Entry};
use super::{NetworkKind, NetworkLayer, Packet, arp, checksum, icmpv6, ipv4, ipv6, transport};
use crate::field::Field;
use crate::flow::Constraint;
use crate::ip_proto;

/// The reason why a frame can't be changed in this way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RewriteError {
    /// The packet lacks the field.
    #[error("the packet has no {0}")]
    Absent(Field),
    /// The field can only be matched: it is not in the frame, or changing it would change the packet's protocol.
    #[error("{0} can't be set")]
    NotSettable(Field),
    /// The packet has no such header.
    #[error("the packet has no {0} header")]
    NoHeader(&'static str),
    /// The pushed header can't have this type.
    #[error("{header} can't be pushed with Ethernet type {eth_type:#06x}")]
    BadType {
        /// The header.
        header: &'static str,
        /// The type that was requested.
        eth_type: u16,
    },
    /// The time to live would reach zero.
    #[error("time to live exceeded")]
    TtlExceeded,
}

/// The place of bits in the frame: those of `mask << shift` in the big-endian number of `len` bytes at `at`.
#[derive(Clone, Copy)]
struct BitPlace {
    at: usize,
    len: usize,
    shift: u32,
    mask: u128,
}

/// The checksums that cover a place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Covered {
    /// None.
    Not,
    /// The checksum of the IPv4 header.
    Ipv4Header,
    /// The checksum of the transport header, through its pseudo header, and in IPv4 that of the IP header.
    Address,
    /// The checksum of the transport header.
    Transport,
}

/// Sets the bits of `set.mask` in a field.
///
/// All fields that are in the frame can be set, except `eth_type`, `ip_proto`, `mpls_bos` and `ipv6_exthdr`.
///
/// ```
/// use maple_wire::packet::{Frame, rewrite};
/// use maple_wire::{Constraint, Field, Packet};
///
/// let mut frame = Frame::ethernet([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1, 53).payload(b"");
/// rewrite::set_field(&mut frame, &Constraint::exact(Field::UdpDst, 5353)).unwrap();
/// assert_eq!(Packet::new(&frame, 1).get(Field::UdpDst), Some(5353));
/// ```
///
/// # Errors
/// [`RewriteError::Absent`] if the packet lacks the field, [`RewriteError::NotSettable`] for the fields that can't be
/// set.
pub fn set_field(frame: &mut [u8], set: &Constraint) -> Result<(), RewriteError> {
    let (place, covered) = place(&Packet::new(frame, 0).literal(), set.field)?;
    let (value, mask) = (set.value & place.mask, set.mask & place.mask);
    write(frame, place, covered, value, mask);
    Ok(())
}

/// Pushes an outermost VLAN tag of this type (0x8100 or 0x88a8). Id and priority are those of the former outermost tag,
/// or 0.
///
/// # Errors
/// [`RewriteError::BadType`] for another type, [`RewriteError::NoHeader`] if the frame has no Ethernet header.
pub fn push_vlan(frame: &mut Vec<u8>, eth_type: u16) -> Result<(), RewriteError> {
    if !is_tag(eth_type) {
        return Err(RewriteError::BadType { header: "VLAN", eth_type });
    }
    let kind = u16_at(frame, TYPE_OFFSET).ok_or(RewriteError::NoHeader("Ethernet"))?;
    let tci = if is_tag(kind) { u16_at(frame, HEADER_LEN).unwrap_or(0) } else { 0 };
    let ([a, b], [c, d]) = (eth_type.to_be_bytes(), tci.to_be_bytes());
    insert(frame, TYPE_OFFSET, [a, b, c, d]);
    Ok(())
}

/// Pops the outermost VLAN tag.
///
/// # Errors
/// [`RewriteError::NoHeader`] if there is no tag.
pub fn pop_vlan(frame: &mut Vec<u8>) -> Result<(), RewriteError> {
    let is_tagged = u16_at(frame, TYPE_OFFSET).is_some_and(is_tag) && frame.len() >= HEADER_LEN + TAG_LEN;
    if !is_tagged {
        return Err(RewriteError::NoHeader("VLAN"));
    }
    frame.drain(TYPE_OFFSET..TYPE_OFFSET + TAG_LEN);
    Ok(())
}

/// Pushes an outermost MPLS entry after the VLAN tag, and sets the Ethernet type (0x8847 or 0x8848).
///
/// The entry is a copy of the former outermost entry. If there was none, it has label and traffic class 0, the bottom
/// bit, and the time to live of the IP header (0 without one).
///
/// # Errors
/// [`RewriteError::BadType`] for another type, [`RewriteError::NoHeader`] if the frame has no Ethernet II type.
pub fn push_mpls(frame: &mut Vec<u8>, eth_type: u16) -> Result<(), RewriteError> {
    if !mpls::is_mpls(Some(eth_type)) {
        return Err(RewriteError::BadType { header: "MPLS", eth_type });
    }
    let packet = Packet::new(frame, 0);
    let at = ethernet_ii_end(&packet)?;
    let entry = match mpls::entry(&packet) {
        Some(outer) => Entry { bottom: false, ..Entry::from_bits(outer) },
        None => {
            let ttl = ttl_place(&packet).and_then(|at| u8_at(packet.frame(), at)).unwrap_or(0);
            Entry { label: 0, tc: 0, bottom: true, ttl }
        }
    };
    insert(frame, at, entry.to_bits().to_be_bytes());
    frame[at - 2..at].copy_from_slice(&eth_type.to_be_bytes());
    Ok(())
}

/// Pops the outermost MPLS entry. The payload under it has this Ethernet type.
///
/// # Errors
/// [`RewriteError::NoHeader`] if there is no entry.
pub fn pop_mpls(frame: &mut Vec<u8>, eth_type: u16) -> Result<(), RewriteError> {
    let at = mpls_place(&Packet::new(frame, 0))?;
    frame.drain(at..at + ENTRY_LEN);
    frame[at - 2..at].copy_from_slice(&eth_type.to_be_bytes());
    Ok(())
}

/// Sets IPv4's time to live or IPv6's hop limit.
///
/// # Errors
/// [`RewriteError::NoHeader`] if the frame has no IP header.
pub fn set_ttl(frame: &mut [u8], ttl: u8) -> Result<(), RewriteError> {
    let packet = Packet::new(frame, 0);
    let at = ttl_place(&packet).filter(|at| *at < frame.len()).ok_or(RewriteError::NoHeader("IP"))?;
    let covered = if packet.network().kind() == NetworkKind::V4 { Covered::Ipv4Header } else { Covered::Not };
    write(frame, BitPlace { at, len: 1, shift: 0, mask: 0xff }, covered, u128::from(ttl), 0xff);
    Ok(())
}

/// Decrements IPv4's time to live or IPv6's hop limit.
///
/// # Errors
/// [`RewriteError::TtlExceeded`] if it is 0 or 1, [`RewriteError::NoHeader`] if the frame has no IP header.
pub fn dec_ttl(frame: &mut [u8]) -> Result<(), RewriteError> {
    let at = ttl_place(&Packet::new(frame, 0)).ok_or(RewriteError::NoHeader("IP"))?;
    match u8_at(frame, at).ok_or(RewriteError::NoHeader("IP"))? {
        0 | 1 => Err(RewriteError::TtlExceeded),
        ttl => set_ttl(frame, ttl - 1),
    }
}

/// Sets the time to live of the outermost MPLS entry.
///
/// # Errors
/// [`RewriteError::NoHeader`] if there is no entry.
pub fn set_mpls_ttl(frame: &mut [u8], ttl: u8) -> Result<(), RewriteError> {
    let at = mpls_place(&Packet::new(frame, 0))?;
    frame[at + ENTRY_LEN - 1] = ttl;
    Ok(())
}

/// Decrements the time to live of the outermost MPLS entry.
///
/// # Errors
/// [`RewriteError::TtlExceeded`] if it is 0 or 1, [`RewriteError::NoHeader`] if there is no entry.
pub fn dec_mpls_ttl(frame: &mut [u8]) -> Result<(), RewriteError> {
    let at = mpls_place(&Packet::new(frame, 0))? + ENTRY_LEN - 1;
    if frame[at] <= 1 {
        return Err(RewriteError::TtlExceeded);
    }
    frame[at] -= 1;
    Ok(())
}

/// Copies the time to live outwards: from the second MPLS entry, or the IP header under a single one, to the outermost
/// entry.
///
/// # Errors
/// [`RewriteError::NoHeader`] if there is no MPLS entry, or neither a second one nor an IP header under it.
pub fn copy_ttl_out(frame: &mut [u8]) -> Result<(), RewriteError> {
    let outer = mpls_place(&Packet::new(frame, 0))? + ENTRY_LEN - 1;
    let (inner, _) = inner_ttl(frame, outer + 1)?;
    frame[outer] = frame[inner];
    Ok(())
}

/// Copies the time to live inwards: from the outermost MPLS entry to the second, or to the IP header under it.
///
/// # Errors
/// [`RewriteError::NoHeader`] if there is no MPLS entry, or neither a second one nor an IP header under it.
pub fn copy_ttl_in(frame: &mut [u8]) -> Result<(), RewriteError> {
    let outer = mpls_place(&Packet::new(frame, 0))? + ENTRY_LEN - 1;
    let (inner, ipv4_start) = inner_ttl(frame, outer + 1)?;
    let before = [frame[inner], 0];
    frame[inner] = frame[outer];
    if let Some(start) = ipv4_start {
        adjust(frame, start + ipv4::CHECKSUM, &before, &[frame[inner], 0]);
    }
    Ok(())
}

/// Returns the place of a field, and the checksums that cover it.
fn place(packet: &Packet, field: Field) -> std::result::Result<(BitPlace, Covered), RewriteError> {
    use Field::*;
    let network = packet.network();
    let start = network.start();
    let is_v4 = network.kind() == NetworkKind::V4;
    let is_there = match field {
        InPort | InPhyPort | Metadata | TunnelId | EthType | IpProto | MplsBos | Ipv6Exthdr => {
            return Err(RewriteError::NotSettable(field));
        }
        VlanVid => packet.get(VlanPcp).is_some(),
        field => packet.get(field).is_some() && !(network.is_later_fragment() && is_transport(field)),
    };
    if !is_there {
        return Err(RewriteError::Absent(field));
    }
    let link_end = packet.link().end();
    let (at, shift, covered) = match field {
        EthDst => (0, 0, Covered::Not),
        EthSrc => (6, 0, Covered::Not),
        VlanVid => (HEADER_LEN, 0, Covered::Not),
        VlanPcp => (HEADER_LEN, 13, Covered::Not),
        IpDscp if is_v4 => (start + ipv4::TOS, 2, Covered::Ipv4Header),
        IpEcn if is_v4 => (start + ipv4::TOS, 0, Covered::Ipv4Header),
        IpDscp => (start, 6, Covered::Not),
        IpEcn => (start, 4, Covered::Not),
        Ipv4Src => (start + ipv4::SRC, 0, Covered::Address),
        Ipv4Dst => (start + ipv4::DST, 0, Covered::Address),
        Ipv6Src => (start + ipv6::SRC, 0, Covered::Address),
        Ipv6Dst if ipv6::is_source_routed(packet) => (start + ipv6::DST, 0, Covered::Not),
        Ipv6Dst => (start + ipv6::DST, 0, Covered::Address),
        Ipv6Flabel => (start, 0, Covered::Not),
        TcpSrc | UdpSrc | SctpSrc => (network.transport() + transport::SRC, 0, Covered::Transport),
        TcpDst | UdpDst | SctpDst => (network.transport() + transport::DST, 0, Covered::Transport),
        Icmpv4Type | Icmpv6Type => (network.transport() + transport::TYPE, 0, Covered::Transport),
        Icmpv4Code | Icmpv6Code => (network.transport() + transport::CODE, 0, Covered::Transport),
        Ipv6NdTarget | Ipv6NdSll | Ipv6NdTll => {
            let at = icmpv6::place(packet, field).ok_or(RewriteError::Absent(field))?;
            (at, 0, Covered::Transport)
        }
        ArpOp => (link_end + arp::OP, 0, Covered::Not),
        ArpSpa => (link_end + arp::SPA, 0, Covered::Not),
        ArpTpa => (link_end + arp::TPA, 0, Covered::Not),
        ArpSha => (link_end + arp::SHA, 0, Covered::Not),
        ArpTha => (link_end + arp::THA, 0, Covered::Not),
        MplsLabel => (link_end, 12, Covered::Not),
        MplsTc => (link_end, 9, Covered::Not),
        PbbIsid => (link_end, 0, Covered::Not),
        InPort | InPhyPort | Metadata | TunnelId | EthType | IpProto | MplsBos | Ipv6Exthdr => {
            return Err(RewriteError::NotSettable(field));
        }
    };
    let mask = if field == VlanVid { 0xfff } else { field.full_mask() };
    let len = match field {
        VlanPcp => 2,
        IpDscp | IpEcn if !is_v4 => 2,
        Ipv6Flabel | MplsLabel | MplsTc | PbbIsid => 4,
        field => field.bytes(),
    };
    Ok((BitPlace { at, len, shift, mask }, covered))
}

fn is_transport(field: Field) -> bool {
    use Field::*;
    matches!(
        field,
        TcpSrc | TcpDst | UdpSrc | UdpDst | SctpSrc | SctpDst | Icmpv4Type | Icmpv4Code | Icmpv6Type | Icmpv6Code
    )
}

/// Replaces the bits of `mask` at `place` and adjusts the checksums.
fn write(frame: &mut [u8], place: BitPlace, covered: Covered, value: u128, mask: u128) {
    let network = Packet::new(frame, 0).network();
    // Checksums are sums of 16-bit words. So the change is computed on whole words, counted from the IP header, which
    // is an even number of bytes before the transport header.
    let odd = if covered == Covered::Not { 0 } else { (place.at - network.start()) % 2 };
    let words = place.at - odd..place.at + place.len + (odd + place.len) % 2;
    let words = words.start..words.end.min(frame.len());
    let before = frame[words.clone()].to_vec();
    let crc_before = crc(frame, &network);

    let bytes = &mut frame[place.at..place.at + place.len];
    let number = bytes.iter().fold(0u128, |number, byte| number << 8 | u128::from(*byte));
    let number = number & !(mask << place.shift) | value << place.shift;
    bytes.copy_from_slice(&number.to_be_bytes()[16 - place.len..]);

    let after = frame[words].to_vec();
    let is_v4 = network.kind() == NetworkKind::V4;
    if covered == Covered::Ipv4Header || covered == Covered::Address && is_v4 {
        adjust(frame, network.start() + ipv4::CHECKSUM, &before, &after);
    }
    if covered == Covered::Address || covered == Covered::Transport {
        adjust_transport(frame, &network, covered, crc_before, &before, &after);
    }
}

/// Adjusts the checksum of the transport header, if there is one.
fn adjust_transport(
    frame: &mut [u8],
    network: &NetworkLayer,
    covered: Covered,
    crc_before: Option<u32>,
    before: &[u8],
    after: &[u8],
) {
    let Some(proto) = network.proto().filter(|_| !network.is_later_fragment()) else { return };
    let Some(at) = transport::checksum_place(proto).map(|place| network.transport() + place) else { return };
    let has_pseudo_header = !matches!(proto, ip_proto::ICMP | ip_proto::SCTP);
    if covered == Covered::Address && !has_pseudo_header {
        return;
    }
    if proto == ip_proto::SCTP {
        // The CRC is linear: the stored CRC changes by the change of the segment's CRC.
        if let (Some(old), Some(new), Some(stored)) = (crc_before, crc(frame, network), u32_at(frame, at)) {
            let mended = stored.swap_bytes() ^ old ^ new;
            frame[at..at + 4].copy_from_slice(&mended.to_le_bytes());
        }
        return;
    }
    if proto == ip_proto::UDP && u16_at(frame, at) == Some(0) {
        return; // Zero says that there is no checksum.
    }
    adjust(frame, at, before, after);
    if proto == ip_proto::UDP && u16_at(frame, at) == Some(0) {
        frame[at..at + 2].fill(0xff);
    }
}

/// Adjusts the Internet checksum at `at`, if it was captured, for words that changed (RFC 1624, equation 3).
fn adjust(frame: &mut [u8], at: usize, before: &[u8], after: &[u8]) {
    if before == after {
        return;
    }
    let Some(old) = u16_at(frame, at) else { return };
    let removed: Vec<u8> = before.iter().map(|byte| !byte).collect();
    let padding: &[u8] = if before.len() % 2 == 1 { &[0xff] } else { &[] };
    let sum = checksum::Sum::default().with(&(!old).to_be_bytes()).with(&[&removed, padding].concat()).with(after);
    frame[at..at + 2].copy_from_slice(&sum.finish().to_be_bytes());
}

/// Computes the CRC of an SCTP segment, with zeros in place of the checksum.
fn crc(frame: &[u8], network: &NetworkLayer) -> Option<u32> {
    if network.proto() != Some(ip_proto::SCTP) {
        return None;
    }
    let mut segment = frame.get(network.transport()..network.end().min(frame.len()))?.to_vec();
    segment.get_mut(8..12)?.fill(0);
    Some(checksum::crc32c(&segment))
}

/// Returns the offset of the time to live or hop limit. It may be beyond the captured bytes.
fn ttl_place(packet: &Packet) -> Option<usize> {
    let network = packet.network();
    match network.kind() {
        NetworkKind::V4 => Some(network.start() + ipv4::TTL),
        NetworkKind::V6 => Some(network.start() + ipv6::HOP_LIMIT),
        NetworkKind::Other => None,
    }
}

/// Returns the offset of the outermost MPLS entry.
fn mpls_place(packet: &Packet) -> std::result::Result<usize, RewriteError> {
    mpls::entry(packet).map(|_| packet.link().end()).ok_or(RewriteError::NoHeader("MPLS"))
}

/// Returns the end of the link layer of a frame that has an Ethernet II type.
fn ethernet_ii_end(packet: &Packet) -> std::result::Result<usize, RewriteError> {
    let end = packet.link().end();
    match packet.link().eth_type() {
        Some(kind) if kind >= ethernet::TYPE_MIN && u16_at(packet.frame(), end - 2) == Some(kind) => Ok(end),
        _ => Err(RewriteError::NoHeader("Ethernet II")),
    }
}

/// Returns the offset of the time to live under the outermost MPLS entry, and the start of the IPv4 header that
/// contains it.
fn inner_ttl(frame: &[u8], at: usize) -> std::result::Result<(usize, Option<usize>), RewriteError> {
    let is_bottom = frame[at - 2] & 1 != 0;
    let (place, ipv4_start) = match u8_at(frame, at).map(|byte| byte >> 4) {
        _ if !is_bottom => (at + ENTRY_LEN - 1, None),
        Some(4) => (at + ipv4::TTL, Some(at)),
        Some(6) => (at + ipv6::HOP_LIMIT, None),
        _ => return Err(RewriteError::NoHeader("IP")),
    };
    if place < frame.len() { Ok((place, ipv4_start)) } else { Err(RewriteError::NoHeader("IP")) }
}

fn insert(frame: &mut Vec<u8>, at: usize, bytes: [u8; 4]) {
    frame.splice(at..at, bytes);
}
