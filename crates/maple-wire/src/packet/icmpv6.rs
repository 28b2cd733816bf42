//! Neighbour discovery: solicitations and advertisements with their link-layer address options (RFC 4861).

use super::bytes::{u8_at, u48_at, u128_at};
use super::{Packet, transport};
use crate::field::Field;
use crate::icmpv6_type::{NEIGHBOR_ADVERT, NEIGHBOR_SOLICIT};

/// Option: the sender's link-layer address.
pub(super) const OPTION_SOURCE: u8 = 1;
/// Option: the target's link-layer address.
pub(super) const OPTION_TARGET: u8 = 2;

/// The offset of the target's address in the ICMPv6 message.
const TARGET: usize = 8;
/// The offset of the options in the ICMPv6 message.
const OPTIONS: usize = 24;

/// The parts of a neighbour discovery message, with their offsets in the frame.
struct Discovery {
    kind: u8,
    /// Start of the target's address.
    target_at: usize,
    /// Start of the source link-layer address, unless it is missing.
    sll_at: Option<usize>,
    /// Start of the target link-layer address, unless it is missing.
    tll_at: Option<usize>,
}

/// Returns the offset of a neighbour discovery field.
pub(super) fn place(packet: &Packet, field: Field) -> Option<usize> {
    let found = discovery(packet)?;
    match (field, found.kind) {
        (Field::Ipv6NdTarget, _) => Some(found.target_at),
        (Field::Ipv6NdSll, NEIGHBOR_SOLICIT) => found.sll_at,
        (Field::Ipv6NdTll, NEIGHBOR_ADVERT) => found.tll_at,
        _ => None,
    }
}

pub(super) fn target(packet: &Packet) -> Option<u128> {
    u128_at(packet.frame, place(packet, Field::Ipv6NdTarget)?)
}

pub(super) fn sll(packet: &Packet) -> Option<u128> {
    u48_at(packet.frame, place(packet, Field::Ipv6NdSll)?).map(u128::from)
}

pub(super) fn tll(packet: &Packet) -> Option<u128> {
    u48_at(packet.frame, place(packet, Field::Ipv6NdTll)?).map(u128::from)
}

/// Reads a neighbour discovery message of code 0.
///
/// A message with two link-layer addresses of one kind is void, so options must be captured to their end. An option
/// that is longer than the message ends the list without harm: switches use the options before it.
fn discovery(packet: &Packet) -> Option<Discovery> {
    let kind = packet.get(Field::Icmpv6Type)? as u8;
    let network = packet.network();
    let is_discovery = matches!(kind, NEIGHBOR_SOLICIT | NEIGHBOR_ADVERT)
        && packet.get(Field::Icmpv6Code) == Some(0)
        && transport::has_header(network, OPTIONS);
    if !is_discovery {
        return None;
    }
    let mut found = Discovery { kind, target_at: network.transport() + TARGET, sll_at: None, tll_at: None };
    let mut at = network.transport() + OPTIONS;
    while network.end() - at >= 8 {
        let option = u8_at(packet.frame, at)?;
        let len = usize::from(u8_at(packet.frame, at + 1)?) * 8;
        if len == 0 || len > network.end() - at {
            break;
        }
        let place = match option {
            OPTION_SOURCE if len == 8 => Some(&mut found.sll_at),
            OPTION_TARGET if len == 8 => Some(&mut found.tll_at),
            _ => None,
        };
        if let Some(place) = place {
            // An address of zeros counts as absent, so another may follow it.
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
