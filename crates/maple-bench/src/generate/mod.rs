//! Filter sets and header traces generated from a seed, so that benchmarks run without outside data.
//!
//! # How filters are drawn
//!
//! A simplified form of ClassBench (Taylor and Turner, INFOCOM 2005). A filter's prefix lengths, protocol and classes
//! of ports are drawn by the style's weights. Its addresses come from two random tries, one for each side. So short
//! prefixes are those above long ones, which makes filters overlap. A trie is never built: a hash of the seed and of
//! the path to a node determines whether the node has one child or two, and which of them is the fuller one.
//!
//! No filter occurs twice (except with other flags). The more bits a filter fixes, the earlier it
//! comes, so that no filter is inside an earlier, wider one. Among filters that fix equally many bits, those of
//! one kind are adjacent, which keeps chains of overlapping filters short.
//!
//! # How headers are drawn
//!
//! Headers are drawn as in ClassBench: a filter, then a random corner of it (each field has the lowest or the highest
//! value that fits). Then the number of times the header comes is drawn, Pareto-distributed: `burst / u` with `u`
//! uniform in (0, 1], rounded up. With `burst` 0 every header comes once; with 0.1 nine of ten do, and a few come
//! hundreds of times.

pub mod command;

mod files;
mod style;
mod trie;

use std::cmp::Reverse;

use maple_emulator::Random;
use rustc_hash::FxHashSet;

use crate::filters::{Filter, FilterSet, PortRange};
use crate::headers::{FiveTuple, TracedHeader};
use style::{Ports, Shape, Weighted};
use trie::Trie;

pub use files::Files;
pub use style::Style;

/// Maximum number of draws for a filter. If it is exceeded, the networks of a style are used up.
const DRAWS_PER_FILTER: usize = 50;

/// The maximum length of a burst of equal headers.
const MAX_BURST: usize = 1000;

/// Destination ports of services, the common ones first (IANA's registry of service names).
const SERVICES: [u16; 40] = [
    80, 443, 25, 53, 22, 21, 110, 23, 123, 161, 1521, 143, 139, 135, 445, 69, 162, 1433, 389, 8080, 3306, 514, 137,
    138, 119, 179, 113, 1723, 500, 993, 995, 3389, 5060, 1812, 2049, 6000, 1434, 5432, 636, 20,
];

/// Generates the set of this style and seed: `filters` filters, or fewer if the style's networks have no more.
pub fn filter_set(style: Style, filters: usize, seed: u64) -> FilterSet {
    let mut draw = Draw::new(style, seed);
    let mut seen = FxHashSet::default();
    let mut set = Vec::with_capacity(filters);
    for _ in 0..filters.saturating_mul(DRAWS_PER_FILTER) {
        if set.len() == filters {
            break;
        }
        let filter = draw.filter();
        if seen.insert(filter) {
            set.push(filter);
        }
    }
    set.sort_by_key(|filter| Reverse(precedence(filter)));
    FilterSet { name: format!("{style}-{seed}"), filters: set }
}

/// Generates at least `headers` headers for a set; see the module for `burst`, which is at least 0. An empty set has no
/// headers.
pub fn trace(set: &FilterSet, headers: usize, burst: f64, seed: u64) -> Vec<TracedHeader> {
    let mut random = Random::new(seed ^ 0x7472_6163_6500);
    let mut trace = Vec::with_capacity(headers);
    while trace.len() < headers && !set.filters.is_empty() {
        let number = random.below(set.filters.len() as u64) as usize;
        let header = corner(&set.filters[number], &mut random);
        let times = ((burst / open_unit(&mut random)).ceil() as usize).clamp(1, MAX_BURST);
        trace.extend(std::iter::repeat_n(TracedHeader { header, made_from: number as u32 }, times));
    }
    trace
}

/// Returns a header for each filter of a set, in their order.
pub fn header_of_each(set: &FilterSet, seed: u64) -> Vec<FiveTuple> {
    let mut random = Random::new(seed ^ 0x7472_6163_6500);
    set.filters.iter().map(|filter| corner(filter, &mut random)).collect()
}

/// Returns a header in which every field has the lowest or the highest matching value.
fn corner(filter: &Filter, random: &mut Random) -> FiveTuple {
    let mut either = |lo: u32, hi: u32| if random.chance(0.5) { lo } else { hi };
    let Filter { src, dst, src_ports, dst_ports, proto, .. } = filter;
    FiveTuple {
        src: either(src.address, src.address | !src.mask()),
        dst: either(dst.address, dst.address | !dst.mask()),
        src_port: either(src_ports.lo.into(), src_ports.hi.into()) as u16,
        dst_port: either(dst_ports.lo.into(), dst_ports.hi.into()) as u16,
        proto: proto.unwrap_or_else(|| either(0, 255) as u8),
    }
}

/// Returns a number above 0 and up to 1.
fn open_unit(random: &mut Random) -> f64 {
    ((random.number() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// Returns the number of bits that a filter fixes, then where it fixes them. So filters of one kind are adjacent.
fn precedence(filter: &Filter) -> (u32, [u32; 4]) {
    let ports = |range: PortRange| 16 - (u32::from(range.hi - range.lo) + 1).ilog2();
    let proto = if filter.proto.is_some() { 8 } else { 0 };
    let kind = [filter.src.length.into(), filter.dst.length.into(), ports(filter.src_ports), ports(filter.dst_ports)];
    (kind.iter().sum::<u32>() + proto, kind)
}

/// The source of random filters.
struct Draw {
    shape: &'static Shape,
    random: Random,
    src: Trie,
    dst: Trie,
    /// The ranges of a few ports that occur in this set.
    ranges: Vec<PortRange>,
}

impl Draw {
    fn new(style: Style, seed: u64) -> Draw {
        let shape = style.shape();
        let mut random = Random::new(seed.wrapping_mul(0x1_0000_01b3) ^ style as u64);
        let (src, dst) = (Trie::new(random.number(), shape.src_space), Trie::new(random.number(), shape.dst_space));
        let ranges = (0..24).map(|_| few_ports(&mut random)).collect();
        Draw { shape, random, src, dst, ranges }
    }

    fn filter(&mut self) -> Filter {
        let Shape { classes, src_lengths, dst_lengths, services, flags, .. } = self.shape;
        let rows: Vec<Weighted<usize>> = classes.iter().enumerate().map(|(i, row)| (row.iter().sum(), i)).collect();
        let row = weighted(&rows, &mut self.random);
        let columns: Vec<Weighted<usize>> = classes[row].iter().enumerate().map(|(i, weight)| (*weight, i)).collect();
        let column = weighted(&columns, &mut self.random);
        let src_length = weighted(src_lengths[row], &mut self.random);
        let dst_length = weighted(dst_lengths[column], &mut self.random);
        let (proto, src_ports, dst_ports) = weighted(services, &mut self.random);
        let has_flags = proto == Some(6) && self.random.below(100) < u64::from(*flags);
        Filter {
            src: self.src.prefix(src_length, &mut self.random),
            dst: self.dst.prefix(dst_length, &mut self.random),
            src_ports: self.ports(src_ports),
            dst_ports: self.ports(dst_ports),
            proto,
            flags: if has_flags { tcp_flags(&mut self.random) } else { (0, 0) },
        }
    }

    fn ports(&mut self, class: Ports) -> PortRange {
        match class {
            Ports::All => PortRange::ALL,
            Ports::High => PortRange { lo: 1024, hi: u16::MAX },
            Ports::One => {
                let port = SERVICES[early(SERVICES.len(), &mut self.random)];
                PortRange { lo: port, hi: port }
            }
            Ports::Some => self.ranges[early(self.ranges.len(), &mut self.random)],
        }
    }
}

/// Chooses one of several, by weight. Not all weights are 0.
fn weighted<T: Copy>(choices: &[Weighted<T>], random: &mut Random) -> T {
    let mut at = random.below(choices.iter().map(|(weight, _)| u64::from(*weight)).sum());
    for (weight, choice) in choices {
        match at.checked_sub(u64::from(*weight)) {
            Some(rest) => at = rest,
            None => return *choice,
        }
    }
    unreachable!("the weights before sum up to more than what was drawn")
}

/// Returns a position in a list, early ones more often: the square of a uniform number.
fn early(len: usize, random: &mut Random) -> usize {
    let unit = random.below(1 << 20) as f64 / (1u64 << 20) as f64;
    (unit * unit * len as f64) as usize
}

/// Returns a range such as 1645 to 1646 or 33434 to 33534.
fn few_ports(random: &mut Random) -> PortRange {
    let lo = if random.chance(0.3) { random.below(1024) } else { 1024 + random.below(60_000) };
    let width = 1 + early(100, random) as u64;
    PortRange { lo: lo as u16, hi: (lo + width) as u16 }
}

/// Returns flags for an established connection, the start of one, or anything else than the start of one.
fn tcp_flags(random: &mut Random) -> (u16, u16) {
    [(0x1000, 0x1000), (0x0200, 0x1200), (0x0000, 0x0200)][random.below(3) as usize]
}

#[cfg(test)]
mod tests;
