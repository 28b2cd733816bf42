//! Probes: frames that a host answers if it is there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use maple_wire::packet::build::Frame;

use crate::network::{Mac, PROBE_MAC};

/// The maximum number of addresses that a host is asked for in one round. Chosen: an answer for any address is enough,
/// so the latest few are.
const MAX_PROBES: usize = 4;

/// Returns the probes for the addresses that a host announced, the latest first.
pub(super) fn probes(mac: Mac, announced: impl DoubleEndedIterator<Item = IpAddr>) -> Vec<Vec<u8>> {
    announced.rev().take(MAX_PROBES).map(|ip| probe(mac, ip)).collect()
}

/// Returns the probe for one address of a host.
pub(super) fn probe(mac: Mac, ip: IpAddr) -> Vec<u8> {
    match ip {
        // The sender has no address, as in duplicate address detection (RFC 5227), so no cache changes.
        IpAddr::V4(ip) => Frame::ethernet(mac.0, PROBE_MAC.0).arp_request(Ipv4Addr::UNSPECIFIED, ip),
        IpAddr::V6(ip) => Frame::ethernet(mac.0, PROBE_MAC.0).neighbor_solicit(link_local(PROBE_MAC), ip),
    }
}

/// Returns the link-local address derived from a hardware address (RFC 4291, appendix A).
pub(super) fn link_local(mac: Mac) -> Ipv6Addr {
    let b = mac.0;
    Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, b[0] ^ 2, b[1], b[2], 0xff, 0xfe, b[3], b[4], b[5]])
}
