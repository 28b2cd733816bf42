//! Secure routing (section 2 of the Maple paper): ssh takes the secure path, everything else the shortest one.
//!
//! What links cost in terms of security is the link attribute `secure`: of the emulated network, or by `--weights`.

use maple::{Field, Net, PacketHandle, Route};

fn secure_routing(pkt: &PacketHandle, net: &Net) -> Route {
    let (Some(src), Some(dst)) = (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst())) else {
        return Route::flood();
    };
    if pkt.is(Field::TcpDst, 22) { net.path(src, dst, "secure") } else { net.shortest_path(src, dst) }
}

fn main() -> std::process::ExitCode {
    maple::run(secure_routing)
}
