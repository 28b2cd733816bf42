//! Multicast: packets for a group go to its members, over each link once.
//!
//! Members are named by hardware address, and Maple finds them wherever they are: when one moves, the tree follows.
//! All other packets take the shortest path.

use std::net::Ipv4Addr;
use std::process::ExitCode;

use maple::prelude::*;

/// Returns the members of a group, by the last byte of their hardware addresses.
fn members(group: Ipv4Addr) -> &'static [u8] {
    match group.octets() {
        [239, 1, 1, 1] => &[2, 3, 4],
        [239, 1, 1, 2] => &[1, 3],
        _ => &[],
    }
}

fn multicast_group(pkt: &Packet, net: &Net) -> Route {
    if pkt.ipv4_dst().is_multicast() {
        let Some(src) = net.locate(pkt.eth_src()) else { return Route::drop() };
        let (sender, group) = (pkt.eth_src().get(), pkt.ipv4_dst().get());
        let others = members(group).iter().map(|last| Mac([0, 0, 0, 0, 0, *last])).filter(|mac| *mac != sender);
        return Route::multicast(others.filter_map(|mac| net.locate(mac)).map(|at| net.shortest_path(src, at)));
    }
    if pkt.is_multicast() {
        return net.flood();
    }
    match (net.locate(pkt.eth_dst()), net.locate(pkt.eth_src())) {
        (Some(dst), Some(src)) => net.shortest_path(src, dst),
        _ => net.flood(),
    }
}

fn main() -> ExitCode {
    maple_cli::run(App::new(multicast_group))
}
