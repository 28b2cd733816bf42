//! The network layer of a packet: its place and its payload, in one word.
//!
//! A packet keeps this word once it is found. It is one word because reading back several parts that were just written
//! would stall the processor for longer than all the rest takes. It is never unpacked, because finding it is most of
//! the cost of the first read of an address or a port.

use std::fmt;

/// The kind of network layer of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NetworkKind {
    /// Not IP, or a malformed IP header.
    Other,
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// The network layer. All offsets count from the start of the frame; they are at most a few headers more than 65535.
///
/// From bit 0 on: the start of the transport header and the end of the packet (20 bits each), the start of the IP
/// header (6), the protocol (8), and the bits below.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct NetworkLayer(u64);

const END: u32 = 20;
const START: u32 = 40;
const PROTO: u32 = 46;

const OFFSET_MASK: u64 = 0xf_ffff;
const START_MASK: u64 = 0x3f;
const PROTO_MASK: u64 = 0xff;

const HAS_PROTO: u64 = 1 << 54;
const V4: u64 = 1 << 55;
const V6: u64 = 1 << 56;
const FRAGMENT: u64 = 1 << 57;
const LATER_FRAGMENT: u64 = 1 << 58;
const BROKEN_CHAIN: u64 = 1 << 59;
const TCP: u64 = 1 << 60;
/// The bit that is set in every word, so that no word is 0.
const FOUND: u64 = 1 << 61;

impl NetworkLayer {
    /// The word of a packet without a supported network layer.
    pub(super) const OTHER: NetworkLayer = NetworkLayer(FOUND);

    /// Creates the word of an IPv4 packet, not known to carry anything.
    #[inline]
    pub(super) fn v4(start: usize, transport: usize, end: usize) -> NetworkLayer {
        NetworkLayer::at(V4, start, transport, end)
    }

    /// Creates the word of an IPv6 packet, not known to carry anything.
    #[inline]
    pub(super) fn v6(start: usize, transport: usize, end: usize) -> NetworkLayer {
        NetworkLayer::at(V6, start, transport, end)
    }

    #[inline]
    fn at(kind: u64, start: usize, transport: usize, end: usize) -> NetworkLayer {
        NetworkLayer(FOUND | kind | transport as u64 | (end as u64) << END | (start as u64) << START)
    }

    /// Adds the protocol that the packet carries.
    #[inline]
    pub(super) fn carrying(self, proto: u8) -> NetworkLayer {
        NetworkLayer(self.0 | HAS_PROTO | u64::from(proto) << PROTO)
    }

    /// Marks the packet as a part of a datagram; `later` if there are parts before it.
    #[inline]
    pub(super) fn fragment_of(self, later: bool) -> NetworkLayer {
        NetworkLayer(self.0 | FRAGMENT | if later { LATER_FRAGMENT } else { 0 })
    }

    /// Marks the chain of extension headers as broken.
    pub(super) fn with_broken_chain(self) -> NetworkLayer {
        NetworkLayer(self.0 | BROKEN_CHAIN)
    }

    /// Marks that a TCP header follows whose ports are those that a switch matches.
    #[inline]
    pub(super) fn with_tcp(self) -> NetworkLayer {
        NetworkLayer(self.0 | TCP)
    }

    /// Returns the network layer of this word; `None` for 0.
    #[inline]
    pub(super) fn from_word(word: u64) -> Option<NetworkLayer> {
        if word == 0 { None } else { Some(NetworkLayer(word)) }
    }

    /// Returns the word, which is not 0.
    #[inline]
    pub(super) fn word(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) fn kind(self) -> NetworkKind {
        match (self.is(V4), self.is(V6)) {
            (true, _) => NetworkKind::V4,
            (_, true) => NetworkKind::V6,
            _ => NetworkKind::Other,
        }
    }

    /// Returns the start of the IP header.
    #[inline]
    pub(crate) fn start(self) -> usize {
        (self.0 >> START & START_MASK) as usize
    }

    /// Returns the start of the transport header.
    #[inline]
    pub(crate) fn transport(self) -> usize {
        (self.0 & OFFSET_MASK) as usize
    }

    /// Returns the end of the IP packet according to its header; it may lie beyond the captured bytes.
    #[inline]
    pub(crate) fn end(self) -> usize {
        (self.0 >> END & OFFSET_MASK) as usize
    }

    /// Returns the protocol that the packet carries; `None` if it can't be determined.
    #[inline]
    pub(crate) fn proto(self) -> Option<u8> {
        if self.is(HAS_PROTO) { Some((self.0 >> PROTO) as u8) } else { None }
    }

    /// Reports whether the packet is known to carry `proto`.
    #[inline]
    pub(crate) fn carries(self, proto: u8) -> bool {
        self.0 & (HAS_PROTO | PROTO_MASK << PROTO) == HAS_PROTO | u64::from(proto) << PROTO
    }

    /// Reports whether the packet is a part of a datagram.
    #[inline]
    pub(crate) fn is_fragment(self) -> bool {
        self.is(FRAGMENT)
    }

    /// Reports whether the packet is a part after the first one: it has no transport header.
    #[inline]
    pub(crate) fn is_later_fragment(self) -> bool {
        self.is(LATER_FRAGMENT)
    }

    /// Reports whether an IPv6 extension header is longer than the packet, so that a switch sees the addresses but
    /// nothing else. Also true if the header was not captured, so that this is unknown.
    pub(crate) fn has_broken_chain(self) -> bool {
        self.is(BROKEN_CHAIN)
    }

    /// Reports whether a whole TCP header follows, and its ports are those that a switch matches.
    #[inline]
    pub(super) fn has_tcp(self) -> bool {
        self.is(TCP)
    }

    #[inline]
    fn is(self, bit: u64) -> bool {
        self.0 & bit != 0
    }
}

impl fmt::Debug for NetworkLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network")
            .field("kind", &self.kind())
            .field("start", &self.start())
            .field("transport", &self.transport())
            .field("end", &self.end())
            .field("proto", &self.proto())
            .field("is_fragment", &self.is_fragment())
            .field("is_later_fragment", &self.is_later_fragment())
            .field("has_broken_chain", &self.has_broken_chain())
            .field("has_tcp", &self.has_tcp())
            .finish()
    }
}
