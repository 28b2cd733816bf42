//! Shortest paths between hosts; what is for nobody in particular, or for a host not seen yet, floods.

use maple::{Net, PacketHandle, Route};

fn shortest_path(pkt: &PacketHandle, net: &Net) -> Route {
    match (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst())) {
        (Some(src), Some(dst)) => net.shortest_path(src, dst),
        _ => Route::flood(),
    }
}

fn main() -> std::process::ExitCode {
    maple::run(shortest_path)
}
