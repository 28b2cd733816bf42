//! Frames that a host answers which is there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use maple_wire::packet::build::Frame;

use crate::network::Mac;

/// The address that our probes come from: locally administered, `maple` in ASCII. Frames to it never reach the policy.
pub const PROBE_MAC: Mac = Mac([0x02, b'm', b'a', b'p', b'l', b'e']);

/// How many of its addresses a host is asked by at once.
const MOST: usize = 4;

/// Frames that ask a host by the addresses that it announced, the latest first.
pub(super) fn probes(mac: Mac, announced: impl DoubleEndedIterator<Item = IpAddr>) -> Vec<Vec<u8>> {
    announced.rev().take(MOST).map(|ip| probe(mac, ip)).collect()
}

/// The frame that asks a host by one address.
pub(super) fn probe(mac: Mac, ip: IpAddr) -> Vec<u8> {
    match ip {
        // From no address, as in duplicate address detection (RFC 5227): nobody's caches change.
        IpAddr::V4(ip) => Frame::ethernet(mac.0, PROBE_MAC.0).arp_request(Ipv4Addr::UNSPECIFIED, ip),
        IpAddr::V6(ip) => Frame::ethernet(mac.0, PROBE_MAC.0).neighbor_solicit(link_local(PROBE_MAC), ip),
    }
}

/// The link-local address that goes with a hardware address (RFC 4291, appendix A).
fn link_local(mac: Mac) -> Ipv6Addr {
    let b = mac.0;
    Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, b[0] ^ 2, b[1], b[2], 0xff, 0xfe, b[3], b[4], b[5]])
}
