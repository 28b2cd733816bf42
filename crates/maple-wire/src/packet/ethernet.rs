//! Ethernet II, 802.3 with LLC and SNAP, 802.1Q and 802.1ad tags.

use super::Packet;
use super::bytes::{chunk, u16_at, u48_at};
use crate::eth_type;
use crate::field::VLAN_PRESENT;

/// The length of two addresses and a type in bytes.
pub const HEADER_LEN: usize = 14;
/// The length of a VLAN tag in bytes.
pub const TAG_LEN: usize = 4;
/// The offset of the type, or of the first tag.
pub const TYPE_OFFSET: usize = 12;

/// The type that switches report for an 802.3 frame without an Ethernet type (1.0 §3.4, `OFP_DL_TYPE_NOT_ETH_TYPE`).
pub const TYPE_NONE: u16 = 0x05ff;
/// The smallest type. Smaller numbers in its place are lengths (802.3).
pub const TYPE_MIN: u16 = 0x0600;

/// The addresses that bridges never forward, as bits under a mask: those of IEEE 802.1Q 8.6.3 (spanning trees, pause,
/// LACP, 802.1X, LLDP, …), and Cisco's for CDP, VTP, UDLD and PVST. A packet for one of them is for the device at the
/// other end of the cable. There are two masks of leading bits, so that switches need two rules to distinguish them
/// from all other addresses.
pub const RESERVED: [(u128, u128); 2] = [(0x0180_c200_0000, 0xffff_ffff_fff0), (0x0100_0ccc_cccc, 0xffff_ffff_fffe)];

/// Reports whether an address is one of [`RESERVED`].
pub fn is_reserved(address: [u8; 6]) -> bool {
    let [a, b, c, d, e, f] = address;
    let bits = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
    RESERVED.iter().any(|(value, mask)| u128::from(bits) & mask == *value)
}

/// LLC header of SNAP with organisation code 0, before the Ethernet type.
const SNAP: [u8; 6] = [0xaa, 0xaa, 0x03, 0, 0, 0];

/// The link layer: the first tag, the type after it, and the start of the payload.
///
/// The layer is one word, like `NetworkLayer`: from bit 0 on the type and the tag (16 bits each), the
/// payload's start (8), and the bits below.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link(u64);

const TCI: u32 = 16;
const END: u32 = 32;

const HAS_TYPE: u64 = 1 << 40;
const HAS_TAG: u64 = 1 << 41;
/// The bit that is set in every word, so that no word is 0.
const FOUND: u64 = 1 << 42;

/// Reports whether this type announces a VLAN tag.
#[inline]
pub fn is_tag(eth_type: u16) -> bool {
    matches!(eth_type, eth_type::VLAN | eth_type::QINQ)
}

impl Link {
    /// Reads the headers of a frame of `wire_len` bytes, of which `frame` is the beginning.
    #[inline]
    pub(super) fn parse(frame: &[u8], wire_len: usize) -> Link {
        match u16_at(frame, TYPE_OFFSET) {
            Some(kind) if is_tag(kind) && wire_len >= HEADER_LEN + TAG_LEN => Link::parse_tagged(frame, wire_len),
            Some(kind) => Link::with_type(frame, wire_len, kind, HEADER_LEN),
            None => Link::ending(HEADER_LEN),
        }
    }

    #[inline(never)]
    fn parse_tagged(frame: &[u8], wire_len: usize) -> Link {
        let end = HEADER_LEN + TAG_LEN;
        let link = match u16_at(frame, end - 2) {
            Some(kind) => Link::with_type(frame, wire_len, kind, end),
            None => Link::ending(end),
        };
        match u16_at(frame, HEADER_LEN) {
            Some(tci) => Link(link.0 | HAS_TAG | u64::from(tci) << TCI),
            None => link,
        }
    }

    /// Returns the link layer whose type or length field, ending at `end`, is `kind`.
    #[inline]
    fn with_type(frame: &[u8], wire_len: usize, kind: u16, end: usize) -> Link {
        if kind >= TYPE_MIN { Link::ending(end).of_type(kind) } else { Link::with_llc(frame, wire_len, end) }
    }

    #[cold]
    fn with_llc(frame: &[u8], wire_len: usize, end: usize) -> Link {
        let after = end + SNAP.len() + 2;
        let no_type = Link::ending(end).of_type(TYPE_NONE);
        if wire_len < after {
            return no_type;
        }
        match (chunk(frame, end), u16_at(frame, end + SNAP.len())) {
            (Some(SNAP), Some(kind)) if kind >= TYPE_MIN => Link::ending(after).of_type(kind),
            (Some(_), Some(_)) => no_type,
            _ if !SNAP.starts_with(&frame[end..frame.len().min(end + SNAP.len())]) => no_type,
            _ => Link::ending(end),
        }
    }

    /// Returns a link layer after which the payload begins at `end`, without type and tag.
    #[inline]
    fn ending(end: usize) -> Link {
        Link(FOUND | (end as u64) << END)
    }

    #[inline]
    fn of_type(self, kind: u16) -> Link {
        Link(self.0 | HAS_TYPE | u64::from(kind))
    }

    /// Returns the link layer of this word; `None` for 0.
    #[inline]
    pub(super) fn from_word(word: u64) -> Option<Link> {
        if word == 0 { None } else { Some(Link(word)) }
    }

    /// Returns the word, which is not 0.
    #[inline]
    pub(super) fn word(self) -> u64 {
        self.0
    }

    /// Returns the type, as [`Packet::get`] describes it.
    #[inline]
    pub(crate) fn eth_type(self) -> Option<u16> {
        if self.0 & HAS_TYPE != 0 { Some(self.0 as u16) } else { None }
    }

    /// Reports whether the type is known to be `kind`.
    #[inline]
    pub(super) fn is(self, kind: u16) -> bool {
        self.0 & (HAS_TYPE | 0xffff) == HAS_TYPE | u64::from(kind)
    }

    /// Returns the start of the payload.
    #[inline]
    pub(crate) fn end(self) -> usize {
        (self.0 >> END & 0xff) as usize
    }

    /// Returns priority, drop bit and id of the first tag.
    fn tci(self) -> Option<u16> {
        if self.0 & HAS_TAG != 0 { Some((self.0 >> TCI) as u16) } else { None }
    }

    pub(super) fn vlan_vid(self) -> u128 {
        self.tci().map_or(0, |tci| VLAN_PRESENT | u128::from(tci & 0xfff))
    }

    pub(super) fn vlan_pcp(self) -> Option<u128> {
        self.tci().map(|tci| u128::from(tci >> 13))
    }
}

#[inline]
pub(super) fn dst(packet: &Packet) -> Option<u128> {
    address(packet, 0)
}

#[inline]
pub(super) fn src(packet: &Packet) -> Option<u128> {
    address(packet, 6)
}

/// Reads the hardware address at `at`.
#[inline]
fn address(packet: &Packet, at: usize) -> Option<u128> {
    match packet.frame.first_chunk::<HEADER_LEN>() {
        Some(header) => u48_at(header, at).map(u128::from),
        None => address_of_cut(packet, at),
    }
}

/// Reads the hardware address at `at` if the header was captured in part. A frame that was shorter than a header on the
/// wire has no addresses.
#[cold]
fn address_of_cut(packet: &Packet, at: usize) -> Option<u128> {
    if packet.wire_len < HEADER_LEN { None } else { u48_at(packet.frame, at).map(u128::from) }
}

/// One VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vlan {
    /// The type before it: 0x8100 (802.1Q) or 0x88a8 (802.1ad).
    pub tpid: u16,
    /// VLAN id, 0 to 4095.
    pub vid: u16,
    /// Priority, 0 to 7.
    pub pcp: u8,
    /// Whether the frame may be dropped first in congestion (drop eligible).
    pub dei: bool,
}

/// Iterates over the VLAN tags of a frame, the outermost first. Ends at the first incomplete tag.
#[derive(Clone, Debug)]
pub struct Vlans<'a> {
    frame: &'a [u8],
    at: usize,
}

impl<'a> Vlans<'a> {
    pub(super) fn new(frame: &'a [u8]) -> Vlans<'a> {
        Vlans { frame, at: TYPE_OFFSET }
    }
}

impl Iterator for Vlans<'_> {
    type Item = Vlan;

    fn next(&mut self) -> Option<Vlan> {
        let tpid = u16_at(self.frame, self.at).filter(|kind| is_tag(*kind))?;
        let tci = u16_at(self.frame, self.at + 2)?;
        self.at += TAG_LEN;
        Some(Vlan { tpid, vid: tci & 0xfff, pcp: (tci >> 13) as u8, dei: tci & 0x1000 != 0 })
    }
}
