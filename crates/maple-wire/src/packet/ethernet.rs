//! Ethernet II, 802.3 with LLC and SNAP, 802.1Q and 802.1ad tags.

use super::Packet;
use super::bytes::{chunk, u16_at, u48_at};

/// Bytes of two addresses and a type.
pub const HEADER_LEN: usize = 14;
/// Bytes of a VLAN tag.
pub const TAG_LEN: usize = 4;
/// Where the type, or the first tag, begins.
pub const TYPE_OFFSET: usize = 12;

/// IPv4.
pub const TYPE_IPV4: u16 = 0x0800;
/// ARP.
pub const TYPE_ARP: u16 = 0x0806;
/// 802.1Q customer tag.
pub const TYPE_VLAN: u16 = 0x8100;
/// IPv6.
pub const TYPE_IPV6: u16 = 0x86dd;
/// MPLS unicast.
pub const TYPE_MPLS: u16 = 0x8847;
/// MPLS with upstream-assigned label (once "multicast").
pub const TYPE_MPLS_MULTICAST: u16 = 0x8848;
/// 802.1ad service tag.
pub const TYPE_QINQ: u16 = 0x88a8;
/// LLDP.
pub const TYPE_LLDP: u16 = 0x88cc;
/// 802.1ah backbone service tag.
pub const TYPE_PBB: u16 = 0x88e7;
/// What switches report for an 802.3 frame without an Ethernet type (1.0 §3.4, `OFP_DL_TYPE_NOT_ETH_TYPE`).
pub const TYPE_NONE: u16 = 0x05ff;
/// Smaller numbers in the type's place are lengths (802.3).
pub const TYPE_MIN: u16 = 0x0600;

/// LLC header of SNAP with organisation code 0, before the Ethernet type.
const SNAP: [u8; 6] = [0xaa, 0xaa, 0x03, 0, 0, 0];

/// What the link layer says: the first tag, the type behind it, and where the rest begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// As [`Packet::get`] describes it.
    pub(crate) eth_type: Option<u16>,
    /// Priority, drop bit and id of the first tag.
    tci: Option<u16>,
    /// Where the payload begins.
    end: u32,
}

/// Whether this type announces a VLAN tag.
#[inline]
pub fn is_tag(eth_type: u16) -> bool {
    eth_type == TYPE_VLAN || eth_type == TYPE_QINQ
}

impl Link {
    /// Reads the headers of a frame that has `wire_len` bytes, of which `frame` is the beginning.
    #[inline]
    pub(super) fn parse(frame: &[u8], wire_len: usize) -> Link {
        match u16_at(frame, TYPE_OFFSET) {
            Some(kind) if is_tag(kind) && wire_len >= HEADER_LEN + TAG_LEN => Link::parse_tagged(frame, wire_len),
            Some(kind) => Link::with_type(frame, wire_len, kind, HEADER_LEN),
            None => Link { eth_type: None, tci: None, end: HEADER_LEN as u32 },
        }
    }

    #[inline(never)]
    fn parse_tagged(frame: &[u8], wire_len: usize) -> Link {
        let end = HEADER_LEN + TAG_LEN;
        let tci = u16_at(frame, HEADER_LEN);
        match u16_at(frame, end - 2) {
            Some(kind) => Link { tci, ..Link::with_type(frame, wire_len, kind, end) },
            None => Link { eth_type: None, tci, end: end as u32 },
        }
    }

    /// The link layer whose type or length field, ending at `end`, is `kind`.
    #[inline]
    fn with_type(frame: &[u8], wire_len: usize, kind: u16, end: usize) -> Link {
        if kind >= TYPE_MIN {
            return Link { eth_type: Some(kind), tci: None, end: end as u32 };
        }
        Link::with_llc(frame, wire_len, end)
    }

    #[cold]
    fn with_llc(frame: &[u8], wire_len: usize, end: usize) -> Link {
        let behind = end + SNAP.len() + 2;
        let no_type = Link { eth_type: Some(TYPE_NONE), tci: None, end: end as u32 };
        if wire_len < behind {
            return no_type;
        }
        match (chunk(frame, end), u16_at(frame, end + SNAP.len())) {
            (Some(SNAP), Some(kind)) if kind >= TYPE_MIN => {
                Link { eth_type: Some(kind), tci: None, end: behind as u32 }
            }
            (Some(_), Some(_)) => no_type,
            _ if !SNAP.starts_with(&frame[end..frame.len().min(end + SNAP.len())]) => no_type,
            _ => Link { eth_type: None, ..no_type },
        }
    }

    /// One word, not 0: from bit 0 on the type and the tag (16 bits each), the payload's start (8), whether there is
    /// a type, whether there is a tag, and a bit that is set.
    #[inline]
    pub(super) fn pack(self) -> u64 {
        u64::from(self.eth_type.unwrap_or(0))
            | u64::from(self.tci.unwrap_or(0)) << 16
            | u64::from(self.end) << 32
            | u64::from(self.eth_type.is_some()) << 40
            | u64::from(self.tci.is_some()) << 41
            | 1 << 42
    }

    #[inline]
    pub(super) fn unpack(word: u64) -> Link {
        let is_set = |bit: u32| word >> bit & 1 != 0;
        Link {
            eth_type: is_set(40).then_some(word as u16),
            tci: is_set(41).then_some((word >> 16) as u16),
            end: (word >> 32) as u32 & 0xff,
        }
    }

    /// Where the payload begins.
    #[inline]
    pub(crate) fn end(&self) -> usize {
        self.end as usize
    }

    pub(super) fn vlan_vid(&self) -> u128 {
        self.tci.map_or(0, |tci| u128::from(0x1000 | tci & 0xfff))
    }

    pub(super) fn vlan_pcp(&self) -> Option<u128> {
        self.tci.map(|tci| u128::from(tci >> 13))
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

/// A frame that is shorter than an Ethernet header has no addresses.
#[inline]
fn address(packet: &Packet, at: usize) -> Option<u128> {
    if packet.wire_len < HEADER_LEN { None } else { u48_at(packet.frame, at).map(u128::from) }
}

/// One VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vlan {
    /// The type that announced it: 0x8100 (802.1Q) or 0x88a8 (802.1ad).
    pub tpid: u16,
    /// VLAN id, 0 to 4095.
    pub vid: u16,
    /// Priority, 0 to 7.
    pub pcp: u8,
    /// Drop eligible.
    pub dei: bool,
}

/// The VLAN tags of a frame, the outermost first; ends at the first that is not wholly there.
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
