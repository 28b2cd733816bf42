//! What the classifier knows of the protocols by which hosts announce addresses.

use crate::network::Mac;

/// Ethernet types of ARP and IPv6.
pub(in crate::engine) const ARP: u128 = 0x0806;

pub(in crate::engine) const IPV6: u128 = 0x86dd;

/// The protocol number of ICMPv6, and its types for neighbour solicitation and advertisement.
pub(in crate::engine) const ICMPV6: u128 = 58;

pub(in crate::engine) const SOLICITATION: u128 = 135;

pub(in crate::engine) const ADVERTISEMENT: u128 = 136;

/// The source address of probes: locally administered, `maple` in ASCII. Frames to it never reach the policy.
pub const PROBE_MAC: Mac = Mac([0x02, b'm', b'a', b'p', b'l', b'e']);
