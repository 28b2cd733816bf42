//! IPv6 headers and the chain of extension headers.

use super::bytes::{u8_at, u16_at, u32_at, u128_at};
use super::{NetworkKind, NetworkLayer, Packet};
use crate::ip_proto::IPV6_FRAGMENT;

/// The length of the fixed header in bytes.
pub const HEADER_LEN: usize = 40;

/// Hop-by-hop options.
pub const HOP_BY_HOP: u8 = 0;
/// Routing header.
pub const ROUTING: u8 = 43;
/// Encapsulating security payload: nothing after it can be read.
pub const ESP: u8 = 50;
/// Authentication header.
pub const AUTH: u8 = 51;
/// No next header.
pub const NO_NEXT: u8 = 59;
/// Destination options.
pub const DESTINATION: u8 = 60;

/// The offset of the number of segments left in a routing header.
const SEGMENTS_LEFT: usize = 3;

pub(super) const PAYLOAD_LEN: usize = 4;
pub(super) const NEXT_HEADER: usize = 6;
pub(super) const HOP_LIMIT: usize = 7;
pub(super) const SRC: usize = 8;
pub(super) const DST: usize = 24;

/// The kind of header at one place of the chain.
enum HeaderKind {
    /// An extension header of this many bytes, with the number of the next header. It may be that of a first fragment.
    Extension { next: u8, len: usize, first_fragment: bool },
    /// The fragment header of a later fragment.
    LaterFragment,
    /// Not an extension header: the chain has ended.
    Last,
    /// A header that is longer than the packet.
    Broken,
    /// The capture ends too early to decide.
    Cut,
}

/// Finds the header at `start`, after which `wire_len` bytes were on the wire, and walks the extension headers.
///
/// The result is [`NetworkLayer::OTHER`] if its length contradicts the frame, or if it was not captured.
#[inline(never)]
pub(super) fn parse(frame: &[u8], start: usize, wire_len: usize) -> NetworkLayer {
    let (Some(payload_len), Some(mut kind)) = (u16_at(frame, start + PAYLOAD_LEN), u8_at(frame, start + NEXT_HEADER))
    else {
        return NetworkLayer::OTHER;
    };
    let payload_len = usize::from(payload_len);
    if wire_len < HEADER_LEN + payload_len {
        return NetworkLayer::OTHER;
    }
    let end = start + HEADER_LEN + payload_len;
    let mut at = start + HEADER_LEN;
    let mut is_fragment = false;
    let reached = |at: usize, is_fragment: bool| {
        let network = NetworkLayer::v6(start, at, end);
        if is_fragment { network.fragment_of(false) } else { network }
    };
    loop {
        match step(frame, kind, at, end) {
            HeaderKind::Extension { next, len, first_fragment } => {
                is_fragment |= first_fragment;
                kind = next;
                at += len;
            }
            HeaderKind::LaterFragment => {
                return NetworkLayer::v6(start, at, end).fragment_of(true).carrying(IPV6_FRAGMENT);
            }
            HeaderKind::Last => return reached(at, is_fragment).carrying(kind),
            HeaderKind::Broken | HeaderKind::Cut => {
                return reached(start + HEADER_LEN, is_fragment).with_broken_chain();
            }
        }
    }
}

/// Examines a header of number `kind` at `at` in a packet that ends at `end`.
fn step(frame: &[u8], kind: u8, at: usize, end: usize) -> HeaderKind {
    if !matches!(kind, HOP_BY_HOP | ROUTING | IPV6_FRAGMENT | AUTH | DESTINATION) {
        return HeaderKind::Last;
    }
    if end - at < 8 {
        return HeaderKind::Broken;
    }
    let (Some(next), Some(len), Some(fragment)) = (u8_at(frame, at), u8_at(frame, at + 1), u16_at(frame, at + 2))
    else {
        return HeaderKind::Cut;
    };
    let len = match kind {
        IPV6_FRAGMENT if fragment & 0xfff8 != 0 => return HeaderKind::LaterFragment,
        IPV6_FRAGMENT => 8,
        AUTH => (usize::from(len) + 2) * 4,
        _ => (usize::from(len) + 1) * 8,
    };
    let first_fragment = kind == IPV6_FRAGMENT && fragment != 0;
    if end - at < len { HeaderKind::Broken } else { HeaderKind::Extension { next, len, first_fragment } }
}

pub(super) fn src(packet: &Packet) -> Option<u128> {
    u128_at(packet.frame, start(packet)? + SRC)
}

pub(super) fn dst(packet: &Packet) -> Option<u128> {
    u128_at(packet.frame, start(packet)? + DST)
}

pub(super) fn flow_label(packet: &Packet) -> Option<u128> {
    first_word(packet).map(|word| u128::from(word & 0xf_ffff))
}

pub(super) fn traffic_class(packet: &Packet) -> Option<u8> {
    first_word(packet).map(|word| (word >> 20) as u8)
}

/// Returns version, traffic class and flow label, unless the chain after them is broken.
fn first_word(packet: &Packet) -> Option<u32> {
    let start = start(packet)?;
    if packet.network().has_broken_chain() { None } else { u32_at(packet.frame, start) }
}

/// Reports whether a routing header shows that the destination is not the last one, so that checksums cover another
/// address.
pub(super) fn is_source_routed(packet: &Packet) -> bool {
    let walk = || {
        let network = packet.network();
        let mut at = start(packet)? + HEADER_LEN;
        let mut kind = u8_at(packet.frame, network.start() + NEXT_HEADER)?;
        while let HeaderKind::Extension { next, len, .. } = step(packet.frame, kind, at, network.end()) {
            if kind == ROUTING && u8_at(packet.frame, at + SEGMENTS_LEFT)? > 0 {
                return Some(());
            }
            kind = next;
            at += len;
        }
        None
    };
    walk().is_some()
}

fn start(packet: &Packet) -> Option<usize> {
    let network = packet.network();
    (network.kind() == NetworkKind::V6).then_some(network.start())
}

const BIT_NO_NEXT: u16 = 1;
const BIT_ESP: u16 = 1 << 1;
const BIT_AUTH: u16 = 1 << 2;
const BIT_DESTINATION: u16 = 1 << 3;
const BIT_FRAGMENT: u16 = 1 << 4;
const BIT_ROUTER: u16 = 1 << 5;
const BIT_HOP: u16 = 1 << 6;
const BIT_REPEATED: u16 = 1 << 7;
const BIT_UNORDERED: u16 = 1 << 8;

/// Returns the extension header bits (`OFPIEH_*`, 1.3 §7.2.3.7): one for each kind, one for an unexpected repetition,
/// and one for an order other than that of RFC 2460 §4.1.
pub(super) fn exthdr(packet: &Packet) -> Option<u128> {
    let network = packet.network();
    let mut at = start(packet)? + HEADER_LEN;
    let mut kind = u8_at(packet.frame, network.start() + NEXT_HEADER)?;
    let mut seen = SeenExtensions::default();
    loop {
        seen.note(kind);
        match step(packet.frame, kind, at, network.end()) {
            HeaderKind::Extension { next, len, .. } => {
                kind = next;
                at += len;
            }
            HeaderKind::Last | HeaderKind::LaterFragment => return Some(u128::from(seen.bits)),
            HeaderKind::Broken | HeaderKind::Cut => return None,
        }
    }
}

/// The extension headers up to some place.
#[derive(Default)]
struct SeenExtensions {
    bits: u16,
    destinations: u32,
    /// The last header's position in the order of RFC 2460 §4.1; 0 before any header.
    rank: u32,
}

impl SeenExtensions {
    fn note(&mut self, kind: u8) {
        let (bit, rank) = match kind {
            HOP_BY_HOP => (BIT_HOP, 1),
            // Destination options come before a routing header, or last of all.
            DESTINATION if self.rank < 2 => (BIT_DESTINATION, 2),
            ROUTING => (BIT_ROUTER, 3),
            IPV6_FRAGMENT => (BIT_FRAGMENT, 4),
            AUTH => (BIT_AUTH, 5),
            ESP => (BIT_ESP, 6),
            DESTINATION => (BIT_DESTINATION, 7),
            NO_NEXT => (BIT_NO_NEXT, 8),
            _ => return,
        };
        self.destinations += u32::from(kind == DESTINATION);
        if self.bits & bit != 0 && (kind != DESTINATION || self.destinations > 2) {
            self.bits |= BIT_REPEATED;
        }
        if rank < self.rank {
            self.bits |= BIT_UNORDERED;
        }
        self.bits |= bit;
        self.rank = self.rank.max(rank);
    }
}
