//! What trace trees cost: look-ups by index and by walking, augmentations with and without their run, and
//! invalidations. `cargo bench -p maple-core --bench tree`.
//!
//! Trees of the ClassBench sets are chains of one to two thousand tests, made by a policy that tries filter after
//! filter. They are skipped if `../shared/classbench` does not exist. The `mt_route` trees read two prefixes.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use maple_core::{Cond, Fields, Item, LeafId, Range, Recorder, Tree};
use maple_wire::{Constraint, Field};

const SETS: [&str; 14] = [
    "acl1a", "acl2a", "acl3a", "fw1a", "fw2a", "ipc1a", "ipc2a", "acl1b", "acl2b", "acl3b", "fw1b", "fw2b", "ipc1b",
    "ipc2b",
];

/// The abstract 5-tuple: addresses, ports, protocol. It has ports whatever the protocol.
#[derive(Clone, Copy)]
struct Header([u32; 5]);

const FIELDS: [Field; 5] = [Field::Ipv4Src, Field::Ipv4Dst, Field::TcpSrc, Field::TcpDst, Field::IpProto];

impl Fields for Header {
    fn value(&self, field: Field) -> Option<u128> {
        let at = FIELDS.iter().position(|there| *there == field)?;
        Some(u128::from(self.0[at]))
    }

    fn is_captured(&self, _: Field) -> bool {
        true
    }
}

fn main() {
    if text("acl1a.rules").is_none() {
        println!("../shared/classbench is not there: its sets are skipped");
    }
    divan::main();
}

fn text(name: &str) -> Option<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/classbench").join(name);
    std::fs::read_to_string(path).ok()
}

fn prefix(field: Field, text: &str) -> Option<Constraint> {
    let (address, length) = text.split_once('/')?;
    let address: Ipv4Addr = address.parse().ok()?;
    let mask = (u64::from(u32::MAX) << (32 - length.parse::<u32>().ok()?)) as u32;
    Some(Constraint::masked(field, u128::from(u32::from(address)), u128::from(mask)))
}

/// A line of a `.rules` file as one condition.
fn filter(line: &str) -> Option<Arc<Cond>> {
    let tokens: Vec<&str> = line.split_whitespace().collect();
    let (mut all, mut ranges) = (Vec::new(), Vec::new());
    if let Some(protocol) = tokens[8].strip_suffix("/0xFF") {
        all.push(Constraint::exact(Field::IpProto, u128::from_str_radix(&protocol[2..], 16).ok()?));
    }
    all.push(prefix(Field::Ipv4Src, &tokens[0][1..])?);
    all.push(prefix(Field::Ipv4Dst, tokens[1])?);
    for (field, at) in [(Field::TcpSrc, 2), (Field::TcpDst, 5)] {
        let (lo, hi) = (tokens[at].parse().ok()?, tokens[at + 2].parse().ok()?);
        match (lo, hi) {
            (0, 65535) => {}
            (lo, hi) if lo == hi => all.push(Constraint::exact(field, lo)),
            (lo, hi) => ranges.push(Range { field, lo, hi }),
        }
    }
    all.retain(|c| c.mask != 0);
    Some(Arc::new(Cond { all, ranges }))
}

fn filters(set: &str) -> Vec<Arc<Cond>> {
    text(&format!("{set}.rules")).map_or_else(Vec::new, |text| text.lines().filter_map(filter).collect())
}

fn headers(set: &str) -> Vec<Header> {
    let header = |line: &str| {
        let mut numbers = line.split_whitespace().filter_map(|number| number.parse().ok());
        Some(Header([numbers.next()?, numbers.next()?, numbers.next()?, numbers.next()?, numbers.next()?]))
    };
    text(&format!("{set}.trace")).map_or_else(Vec::new, |text| text.lines().filter_map(header).collect())
}

/// The policy: the first filter that fits decides.
fn run(filters: &[Arc<Cond>], header: &Header) -> Vec<Item> {
    let mut recorder = Recorder::new();
    black_box(filters.iter().position(|cond| recorder.fits(header, cond, None)));
    recorder.finish().items
}

/// The tree of a set and the headers that missed while it grew.
fn grown(set: &str) -> (Tree, Vec<Header>) {
    let (filters, mut tree, mut misses) = (filters(set), Tree::new(), Vec::new());
    for header in headers(set) {
        if tree.search(&header).is_none() {
            tree.augment(&run(&filters, &header), LeafId(misses.len() as u64));
            misses.push(header);
        }
    }
    (tree, misses)
}

/// A tree that reads two /24 prefixes, with some 73,000 leaves, and headers that it knows.
fn mt_route() -> (Tree, Vec<Header>) {
    let (mut tree, mut headers, mut random) = (Tree::new(), Vec::new(), 0x9e37_79b9_7f4a_7c15u64);
    let mut address = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (10 << 24) + (random % 300) as u32 * 256 + (random >> 32) as u32 % 256
    };
    while tree.len() < 73_000 {
        let header = Header([address(), address(), 1, 2, 6]);
        let read = |field, value| Item::Read(Constraint::masked(field, u128::from(value), 0xffff_ff00));
        let items = [read(Field::Ipv4Src, header.0[0]), read(Field::Ipv4Dst, header.0[1])];
        tree.augment(&items, LeafId(headers.len() as u64));
        headers.push(header);
    }
    (tree, headers)
}

fn look_up(bencher: Bencher, headers: &[Header], search: impl Fn(&Header) -> Option<LeafId>) {
    if !headers.is_empty() {
        let all = || headers.iter().filter(|header| search(header).is_some()).count();
        bencher.counter(ItemsCount::new(headers.len())).bench_local(all);
    }
}

#[divan::bench(args = SETS)]
fn look_up_by_index(bencher: Bencher, set: &str) {
    let (tree, _) = grown(set);
    look_up(bencher, &headers(set), |header| tree.search(header));
}

#[divan::bench(args = ["acl1a", "fw1b"])]
fn look_up_by_walking(bencher: Bencher, set: &str) {
    let (tree, _) = grown(set);
    look_up(bencher, &headers(set), |header| tree.walk(header));
}

#[divan::bench]
fn look_up_mt_route(bencher: Bencher) {
    let (tree, headers) = mt_route();
    look_up(bencher, &headers, |header| tree.search(header));
}

#[divan::bench(args = SETS)]
fn run_and_record(bencher: Bencher, set: &str) {
    let (filters, misses) = (filters(set), grown(set).1);
    if !misses.is_empty() {
        let all = || misses.iter().map(|header| run(&filters, header).len()).sum::<usize>();
        bencher.counter(ItemsCount::new(misses.len())).bench_local(all);
    }
}

#[divan::bench(args = SETS)]
fn augment(bencher: Bencher, set: &str) {
    let (filters, misses) = (filters(set), grown(set).1);
    let traces: Vec<_> = misses.iter().map(|header| run(&filters, header)).collect();
    if !traces.is_empty() {
        bencher.counter(ItemsCount::new(traces.len())).bench_local(|| {
            let mut tree = Tree::new();
            for (leaf, items) in traces.iter().enumerate() {
                tree.augment(items, LeafId(leaf as u64));
            }
            tree
        });
    }
}

/// Every host of the headers is invalidated once.
fn invalidate(bencher: Bencher, tree: &Tree, headers: &[Header]) {
    let mut hosts: Vec<(Field, u32)> =
        headers.iter().flat_map(|h| [(Field::Ipv4Src, h.0[0]), (Field::Ipv4Dst, h.0[1])]).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let fresh = || {
        tree.leaves_fitting(&Constraint::exact(Field::Ipv4Src, 0));
        tree.leaves_fitting(&Constraint::exact(Field::Ipv4Dst, 0));
        tree.clone()
    };
    bencher.counter(ItemsCount::new(hosts.len())).with_inputs(fresh).bench_local_values(|mut tree| {
        for (field, address) in &hosts {
            for leaf in tree.leaves_fitting(&Constraint::exact(*field, u128::from(*address))) {
                tree.remove(leaf);
            }
        }
        tree
    });
}

#[divan::bench(args = SETS)]
fn invalidate_hosts(bencher: Bencher, set: &str) {
    let (tree, _) = grown(set);
    if !tree.is_empty() {
        invalidate(bencher, &tree, &headers(set));
    }
}

#[divan::bench(sample_count = 10)]
fn invalidate_hosts_mt_route(bencher: Bencher) {
    let (tree, headers) = mt_route();
    invalidate(bencher, &tree, &headers);
}
