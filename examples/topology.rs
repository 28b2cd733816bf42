//! Topology discovery (McNettle's demo): tells of each switch and link that comes or goes, while packets take shortest
//! paths.
//!
//! Maple discovers the network by itself. A thread follows what is known of it; a program outside does the same with
//! `maple show topology --watch`.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use maple::{App, Handle, Net, PacketHandle, Route};

fn shortest_path(pkt: &PacketHandle, net: &Net) -> Route {
    if pkt.is_multicast() {
        return Route::flood();
    }
    let Some(dst) = net.locate(pkt.eth_dst()) else { return Route::flood() };
    net.locate(pkt.eth_src()).map_or_else(Route::flood, |src| net.shortest_path(src, dst))
}

/// The switches and links, in words.
fn seen(controller: &Handle) -> BTreeSet<String> {
    let state = controller.snapshot();
    let switches = state.switches().map(|(dpid, _)| format!("switch {:x}", dpid.0));
    let end = |at: maple::Location| format!("{:x}:{}", at.switch.0, at.port);
    switches.chain(state.links().map(|(a, b)| format!("link {} - {}", end(a), end(b)))).collect()
}

/// Tells of what comes and goes, for as long as the controller runs.
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
