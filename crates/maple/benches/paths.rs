//! The cost of a link event for `ParallelPaths` in a network of 1,000 switches, against the number of threads.
//!
//! `cargo bench -p maple --bench paths`

use maple::net::{Dpid, Location, PortNo};
use maple::paths::ParallelPaths;

fn main() {
    divan::main();
}

/// Creates a torus of 25 by 40 switches with four links each, without one of them.
fn links(missing: usize) -> Vec<(Location, Location)> {
    let (width, height) = (25, 40);
    let at = |x: u64, y: u64, port| Location::new(Dpid(1 + x % width + y % height * width), PortNo(port));
    let cells = (0..width).flat_map(|x| (0..height).map(move |y| (x, y)));
    let mut all: Vec<_> =
        cells.flat_map(|(x, y)| [(at(x, y, 1), at(x + 1, y, 2)), (at(x, y, 3), at(x, y + 1, 4))]).collect();
    all.remove(missing % all.len());
    all
}

#[divan::bench(args = [1, 2, 4, 8])]
fn a_link_event_with_1000_switches(bencher: divan::Bencher, threads: usize) {
    let paths = ParallelPaths::new(threads).expect("threads");
    let mut missing = 0;
    bencher
        .with_inputs(|| {
            missing += 1;
            links(missing)
        })
        .bench_local_values(|links| paths.for_links(links));
}
