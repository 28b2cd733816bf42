//! Shortest paths between hosts; what is for nobody in particular, or for a host not seen yet, floods.

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
