//! Topology discovery (McNettle's demo): reports each switch and link that comes or goes, while packets take
//! shortest paths.
//!
//! Maple discovers the network by itself. A thread follows what Maple knows of it. Another program can do the same
//! with `maple show topology --watch`.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use maple::controller::Handle;
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

/// Returns the switches and links, as text.
fn seen(controller: &Handle) -> BTreeSet<String> {
    let state = controller.snapshot();
    let switches = state.switches().map(|(dpid, _)| format!("switch {:x}", dpid.0));
    let end = |at: Location| format!("{:x}:{}", at.switch.0, at.port);
    switches.chain(state.links().map(|(a, b)| format!("link {} - {}", end(a), end(b)))).collect()
}

/// Reports what comes and goes while the controller runs.
fn follow(controller: Handle) {
    let mut before = BTreeSet::new();
    while controller.failure().is_none() {
        let now = seen(&controller);
        before.difference(&now).for_each(|gone| println!("{gone} is gone"));
        now.difference(&before).for_each(|new| println!("{new} is there"));
        before = now;
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn main() -> ExitCode {
    maple_cli::run(App::new(shortest_path).on_start(|controller| drop(std::thread::spawn(|| follow(controller)))))
}
