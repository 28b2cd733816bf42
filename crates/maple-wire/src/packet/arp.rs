//! ARP for IPv4 over Ethernet.

use super::Packet;
use super::bytes::{chunk, u16_at, u32_at, u48_at};
use crate::eth_type;

/// The length of an ARP message for IPv4 over Ethernet in bytes.
pub const LEN: usize = 28;
/// The start of such a message: hardware type Ethernet, protocol IPv4, addresses of 6 and 4 bytes.
pub const PREAMBLE: [u8; 6] = [0, 1, 8, 0, 6, 4];
/// Operation: a request for the hardware address of an IP address.
pub const REQUEST: u16 = 1;
/// Operation: the answer to a request.
pub const REPLY: u16 = 2;

pub(super) const OP: usize = 6;
pub(super) const SHA: usize = 8;
pub(super) const SPA: usize = 14;
pub(super) const THA: usize = 18;
pub(super) const TPA: usize = 24;

/// Returns the operation. A packet with a number above 255 has no operation, as in Open vSwitch.
pub(super) fn op(packet: &Packet) -> Option<u128> {
    u16_at(packet.frame, start(packet)? + OP).filter(|op| *op <= 0xff).map(u128::from)
}

pub(super) fn spa(packet: &Packet) -> Option<u128> {
    u32_at(packet.frame, start(packet)? + SPA).map(u128::from)
}

pub(super) fn tpa(packet: &Packet) -> Option<u128> {
    u32_at(packet.frame, start(packet)? + TPA).map(u128::from)
}

pub(super) fn sha(packet: &Packet) -> Option<u128> {
    u48_at(packet.frame, start(packet)? + SHA).map(u128::from)
}

pub(super) fn tha(packet: &Packet) -> Option<u128> {
    u48_at(packet.frame, start(packet)? + THA).map(u128::from)
}

/// Returns the offset of the message, if this is ARP for IPv4 over Ethernet and long enough.
pub(super) fn start(packet: &Packet) -> Option<usize> {
    let link = packet.link();
    let is_arp = link.eth_type() == Some(eth_type::ARP)
        && packet.wire_len_from(link.end()) >= LEN
        && chunk(packet.frame, link.end()) == Some(PREAMBLE);
    is_arp.then_some(link.end())
}
