//! IPv4 headers, with options and fragments.

use super::bytes::{chunk, u8_at, u16_at, u32_at};
use super::{NetworkKind, NetworkLayer, Packet};

/// The length of a header without options in bytes.
pub const HEADER_LEN: usize = 20;

pub(super) const TOS: usize = 1;
pub(super) const FRAGMENT: usize = 6;
pub(super) const TTL: usize = 8;
pub(super) const PROTO: usize = 9;
pub(super) const CHECKSUM: usize = 10;
pub(super) const SRC: usize = 12;
pub(super) const DST: usize = 16;

/// The bits of the fragment word that hold the offset.
const OFFSET_MASK: u16 = 0x1fff;
/// The bit of the fragment word that is set if more fragments follow.
const MORE_FRAGMENTS: u16 = 0x2000;

/// Finds the header at `start`, after which `wire_len` bytes were on the wire.
///
/// The result is [`NetworkLayer::OTHER`] if its lengths contradict each other or the frame, or if they were not
/// captured. Like switches, this function trusts the Ethernet type and ignores the version number.
#[inline]
pub(super) fn parse(frame: &[u8], start: usize, wire_len: usize) -> NetworkLayer {
    match chunk::<HEADER_LEN>(frame, start) {
        Some(h) => {
            let fragment = u16::from_be_bytes([h[FRAGMENT], h[FRAGMENT + 1]]);
            locate([h[0], h[2], h[3]], start, wire_len, Some(h[PROTO]), fragment)
        }
        None => parse_cut(frame, start, wire_len),
    }
}

/// Finds a header that was captured in part.
#[cold]
fn parse_cut(frame: &[u8], start: usize, wire_len: usize) -> NetworkLayer {
    let Some([version_ihl, _, len_high, len_low]) = chunk(frame, start) else { return NetworkLayer::OTHER };
    let fragment = u16_at(frame, start + FRAGMENT).unwrap_or(0);
    locate([version_ihl, len_high, len_low], start, wire_len, u8_at(frame, start + PROTO), fragment)
}

#[inline(always)]
fn locate(lengths: [u8; 3], start: usize, wire_len: usize, proto: Option<u8>, fragment: u16) -> NetworkLayer {
    let [version_ihl, len_high, len_low] = lengths;
    let header_len = usize::from(version_ihl & 0xf) * 4;
    let total_len = usize::from(u16::from_be_bytes([len_high, len_low]));
    if header_len < HEADER_LEN || total_len < header_len || wire_len < total_len {
        return NetworkLayer::OTHER;
    }
    let network = NetworkLayer::v4(start, start + header_len, start + total_len);
    let network = if let Some(proto) = proto { network.carrying(proto) } else { network };
    if fragment & (MORE_FRAGMENTS | OFFSET_MASK) == 0 {
        network
    } else {
        network.fragment_of(fragment & OFFSET_MASK != 0)
    }
}

#[inline]
pub(super) fn src(packet: &Packet) -> Option<u128> {
    u32_at(packet.frame, start(packet)? + SRC).map(u128::from)
}

#[inline]
pub(super) fn dst(packet: &Packet) -> Option<u128> {
    u32_at(packet.frame, start(packet)? + DST).map(u128::from)
}

pub(super) fn traffic_class(packet: &Packet) -> Option<u8> {
    u8_at(packet.frame, start(packet)? + TOS)
}

#[inline]
fn start(packet: &Packet) -> Option<usize> {
    let network = packet.network();
    (network.kind() == NetworkKind::V4).then_some(network.start())
}
