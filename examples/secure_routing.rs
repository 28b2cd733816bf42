//! Secure routing (section 2 of the Maple paper): ssh takes the secure path, everything else the shortest one.

use maple::prelude::*;

fn secure_routing(pkt: &Packet, net: &Net) -> Route {
    if pkt.is_multicast() {
        return net.flood();
    }
    let (Some(dst), Some(src)) = (net.locate(pkt.eth_dst()), net.locate(pkt.eth_src())) else {
        return net.flood();
    };
    if pkt.tcp_dst() == 22 { net.path(src, dst, "secure") } else { net.shortest_path(src, dst) }
}

fn main() -> std::process::ExitCode {
    // The cost of a link for security. Other links cost 1. The direct link between switches 1 and 2 is not trusted with
    // ssh.
    maple_cli::run(App::new(secure_routing).link_cost("secure", 1, 2, 10))
}
