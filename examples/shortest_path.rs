//! Shortest paths between hosts; what is for nobody in particular, or for a host not seen yet, floods.

use maple::{App, Net, PacketHandle, Route};

fn shortest_path(pkt: &PacketHandle, net: &Net) -> Route {
    if pkt.is_multicast() {
        return Route::flood();
    }
    let Some(dst) = net.locate(pkt.eth_dst()) else { return Route::flood() };
    net.locate(pkt.eth_src()).map_or_else(Route::flood, |src| net.shortest_path(src, dst))
}

fn main() -> std::process::ExitCode {
    maple_cli::run(App::new(shortest_path))
}
