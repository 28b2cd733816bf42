//! Neighbour discovery: solicitations and advertisements with their link-layer address options (RFC 4861).

use super::bytes::{u8_at, u48_at, u128_at};
use super::{Packet, transport};
use crate::field::Field;

/// ICMPv6 type of a neighbour solicitation.
pub const NEIGHBOR_SOLICIT: u8 = 135;
/// ICMPv6 type of a neighbour advertisement.
pub const NEIGHBOR_ADVERT: u8 = 136;

/// Option: the sender's link-layer address.
pub(super) const OPTION_SOURCE: u8 = 1;
/// Option: the target's link-layer address.
pub(super) const OPTION_TARGET: u8 = 2;

/// Where the target's address begins, from the ICMPv6 header.
pub(super) const TARGET: usize = 8;
/// Where the options begin.
pub(super) const OPTIONS: usize = 24;

/// What a neighbour discovery message says, with the places where it says so.
pub(super) struct Discovery {
    pub(super) kind: u8,
    /// Start of the target's address.
    pub(super) target_at: usize,
    /// Start of the source link-layer address, unless it is missing.
    pub(super) sll_at: Option<usize>,
    /// Start of the target link-layer address, unless it is missing.
    pub(super) tll_at: Option<usize>,
}

pub(super) fn target(packet: &Packet) -> Option<u128> {
    u128_at(packet.frame, discovery(packet)?.target_at)
}

pub(super) fn sll(packet: &Packet) -> Option<u128> {
    let found = discovery(packet).filter(|found| found.kind == NEIGHBOR_SOLICIT)?;
    u48_at(packet.frame, found.sll_at?).map(u128::from)
}

pub(super) fn tll(packet: &Packet) -> Option<u128> {
    let found = discovery(packet).filter(|found| found.kind == NEIGHBOR_ADVERT)?;
    u48_at(packet.frame, found.tll_at?).map(u128::from)
}

/// Reads a neighbour discovery message of code 0.
///
/// A message with two link-layer addresses of one kind is void, so options must be captured to their end. An option
/// that is longer than the message ends the list and does no harm: switches take what stood before it.
pub(super) fn discovery(packet: &Packet) -> Option<Discovery> {
    let kind = packet.get(Field::Icmpv6Type)? as u8;
    let network = packet.network();
    let is_discovery = matches!(kind, NEIGHBOR_SOLICIT | NEIGHBOR_ADVERT)
        && packet.get(Field::Icmpv6Code) == Some(0)
        && transport::has_header(network, OPTIONS);
    if !is_discovery {
        return None;
    }
    let mut found = Discovery { kind, target_at: network.transport + TARGET, sll_at: None, tll_at: None };
    let mut at = network.transport + OPTIONS;
    while network.end - at >= 8 {
        let option = u8_at(packet.frame, at)?;
        let len = usize::from(u8_at(packet.frame, at + 1)?) * 8;
        if len == 0 || len > network.end - at {
            break;
        }
        let place = match option {
            OPTION_SOURCE if len == 8 => Some(&mut found.sll_at),
            OPTION_TARGET if len == 8 => Some(&mut found.tll_at),
            _ => None,
        };
        if let Some(place) = place {
            // An address of zeros counts as none, so another may follow it.
            let taken = place.is_some_and(|before| u48_at(packet.frame, before) != Some(0));
            u48_at(packet.frame, at + 2)?;
            if taken {
                return None;
            }
            *place = Some(at + 2);
        }
        at += len;
    }
    Some(found)
}
