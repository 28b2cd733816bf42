//! Shortest paths that are computed again on all cores when a link comes or goes (McNettle's demo of deterministic
//! parallel programming).
//!
//! The policy reads the links, so it depends on them. The paths between all switches are a pure function of the
//! links, and are computed once for each set of links. They are the same for any number of threads. `MAPLE_THREADS`
//! sets that number. The default is one for each core.

use std::process::ExitCode;

use maple::paths::ParallelPaths;
use maple::prelude::*;

fn main() -> ExitCode {
    let threads = std::env::var("MAPLE_THREADS").unwrap_or_else(|_| "0".into());
    let Ok(threads) = threads.parse() else {
        eprintln!("MAPLE_THREADS is a number of threads, not {threads:?}");
        return ExitCode::FAILURE;
    };
    // Before the controller starts: a worker stays on one core, and so would the threads that it makes.
    let paths = match ParallelPaths::new(threads) {
        Ok(paths) => paths,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let policy = move |pkt: &Packet, net: &Net| {
        if pkt.is_multicast() {
            return net.flood();
        }
        match (net.locate(pkt.eth_dst()), net.locate(pkt.eth_src())) {
            (Some(dst), Some(src)) => paths.shortest_path(net, src, dst),
            _ => net.flood(),
        }
    };
    maple_cli::run(App::new(policy))
}
