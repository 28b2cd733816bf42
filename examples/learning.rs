//! Learning by location: the policy records where each source is, and sends packets to where their destination was
//! seen.
//!
//! This is the second part of the motivating example in section 2 of the Maple paper. The policy has a table of its
//! own. It writes only when a host is new or has moved, so rules answer all other packets. (Maple also learns
//! locations by itself. The other examples use that, with `net.locate`.)

use maple::prelude::*;

fn learning(locations: &Table<Mac, Location>, pkt: &Packet, net: &Net) -> Route {
    let here = Location::new(pkt.switch(), pkt.in_port().get());
    let source = pkt.eth_src().get();
    if locations.get(net, &source) != Some(here) && !pkt.eth_src().is_multicast() {
        locations.set(net, &source, &here);
    }
    match locations.get(net, &pkt.eth_dst().get()) {
        Some(there) => net.shortest_path(here, there),
        None => net.flood(),
    }
}

fn main() -> std::process::ExitCode {
    let locations = Table::new("locations");
    let policy = {
        let locations = locations.clone();
        move |pkt: &Packet, net: &Net| learning(&locations, pkt, net)
    };
    maple_cli::run(App::new(policy).table(&locations))
}
