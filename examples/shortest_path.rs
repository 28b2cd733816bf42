//! Shortest paths between hosts. Broadcasts, multicasts and packets for unknown hosts are flooded.

use maple::prelude::*;

fn shortest_path(pkt: &Packet, net: &Net) -> Route {
    if pkt.is_multicast() {
        return net.flood();
    }
    match (net.locate(pkt.eth_dst()), net.locate(pkt.eth_src())) {
        (Some(dst), Some(src)) => net.shortest_path(src, dst),
        _ => net.flood(),
    }
}

fn main() -> std::process::ExitCode {
    maple_cli::run(App::new(shortest_path))
}
