//! Multi-tenant routing: `mt-route` of section 6.1 of the Maple paper.
//!
//! Each /24 subnet belongs to a tenant. Each tenant has its own link costs, so each sees its own topology. Packets
//! within a tenant take the tenant's best path. Packets between tenants are dropped. The policy reads only the two
//! /24 prefixes, so its rules are as wide as subnets.

use std::net::Ipv4Addr;
use std::process::ExitCode;

use maple::field::PacketField;
use maple::prelude::*;

const ARP: u16 = 0x0806;

/// Returns the tenant of an address, if the field is there.
fn tenant(address: PacketField<'_, Ipv4Addr>) -> Option<&'static str> {
    match address.prefix(24)?.address().octets() {
        [10, 0, 0 | 1, _] => Some("red"),
        [10, 0, 2 | 3, _] => Some("blue"),
        _ => None,
    }
}

fn mt_route(pkt: &Packet, net: &Net) -> Route {
    let is_arp = pkt.eth_type() == ARP;
    let (src, dst) = if is_arp { (pkt.arp_spa(), pkt.arp_tpa()) } else { (pkt.ipv4_src(), pkt.ipv4_dst()) };
    let tenant = match (tenant(src), tenant(dst)) {
        (Some(src), Some(dst)) if src == dst => src,
        _ => return Route::drop(),
    };
    match (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst())) {
        (Some(src), Some(dst)) => net.path(src, dst, tenant),
        // An ARP request reaches only hosts of the same tenant.
        _ if is_arp => net.flood(),
        _ => Route::drop(),
    }
}

fn main() -> ExitCode {
    maple_cli::run(App::new(mt_route).link_cost("red", 1, 2, 5).link_cost("blue", 2, 3, 5).link_cost("blue", 3, 4, 2))
}
