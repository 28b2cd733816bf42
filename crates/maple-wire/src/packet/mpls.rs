//! MPLS label stacks, and the service tag of provider backbone bridges.

use super::Packet;
use super::bytes::u32_at;
use crate::eth_type;

/// The length of a label stack entry in bytes.
pub const ENTRY_LEN: usize = 4;

/// One label stack entry (RFC 3032 §2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The label, 20 bits.
    pub label: u32,
    /// Traffic class, 3 bits.
    pub tc: u8,
    /// Whether this is the last entry.
    pub bottom: bool,
    /// Time to live.
    pub ttl: u8,
}

impl Entry {
    /// Reads the 32 bits of an entry.
    pub fn from_bits(bits: u32) -> Entry {
        Entry { label: bits >> 12, tc: (bits >> 9 & 7) as u8, bottom: bits & 0x100 != 0, ttl: bits as u8 }
    }

    /// Returns the 32 bits of an entry. Excess bits of label and traffic class are dropped.
    pub fn to_bits(self) -> u32 {
        self.label << 12 | u32::from(self.tc & 7) << 9 | u32::from(self.bottom) << 8 | u32::from(self.ttl)
    }
}

/// Iterates over the label stack of a packet, the outermost entry first. Ends after the bottom entry.
#[derive(Clone, Debug)]
pub struct Stack<'a> {
    rest: &'a [u8],
}

impl<'a> Stack<'a> {
    pub(super) fn new(packet: &Packet<'a>) -> Stack<'a> {
        let rest = if is_mpls(packet.link().eth_type()) { packet.frame.get(packet.link().end()..) } else { None };
        Stack { rest: rest.unwrap_or(&[]) }
    }
}

impl Iterator for Stack<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        let entry = Entry::from_bits(u32_at(self.rest, 0)?);
        self.rest = if entry.bottom { &[] } else { &self.rest[ENTRY_LEN..] };
        Some(entry)
    }
}

/// Reports whether this type announces a label stack.
pub(super) fn is_mpls(eth_type: Option<u16>) -> bool {
    matches!(eth_type, Some(eth_type::MPLS | eth_type::MPLS_MULTICAST))
}

/// Returns the bits of the outermost entry.
pub(super) fn entry(packet: &Packet) -> Option<u32> {
    if is_mpls(packet.link().eth_type()) { u32_at(packet.frame, packet.link().end()) } else { None }
}

/// Returns the service id of a backbone service tag: the lower 24 bits of the word after the type (802.1ah).
pub(super) fn pbb_isid(packet: &Packet) -> Option<u128> {
    let link = packet.link();
    if link.eth_type() != Some(eth_type::PBB) {
        return None;
    }
    u32_at(packet.frame, link.end()).map(|word| u128::from(word & 0xff_ffff))
}
