//! Shortest paths that are recomputed on all cores when a link comes or goes (McNettle's demo: deterministic parallel
//! programming).
//!
//! The policy asks for the links, so it depends on them; the paths between all switches are a pure function of these,
//! and computed once for each set of links. However many threads do that, the paths are the same. MAPLE_THREADS says how
//! many; without it there is one for each core.

use std::process::ExitCode;

use maple::paths::ParallelPaths;
use maple::prelude::*;

fn main() -> ExitCode {
    let threads = std::env::var("MAPLE_THREADS").unwrap_or_else(|_| "0".into());
    let Ok(threads) = threads.parse() else {
        eprintln!("MAPLE_THREADS is a number of threads, not {threads:?}");
        return ExitCode::FAILURE;
    };
    // Before the controller starts: its workers stay on one core each, and so would threads that they make.
    let paths = match ParallelPaths::new(threads) {
        Ok(paths) => paths,
        Err(error) => {
            eprintln!("no threads: {error}");
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
