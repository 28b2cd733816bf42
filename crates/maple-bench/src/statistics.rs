//! Properties of a filter set that determine how hard it is to compile.

use std::fmt;

use serde::Serialize;

use crate::filters::{Filter, FilterSet, PortRange, Prefix};
use crate::headers::TracedHeader;
use crate::report::{Chart, Series, TextTable};

/// Shares, in percent, and counts of a filter set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Statistics {
    /// The set's name.
    pub name: String,
    /// The number of filters.
    pub filters: usize,
    /// The share of source prefixes in each class of prefix lengths.
    pub src_lengths: [f64; LENGTHS.len()],
    /// The share of destination prefixes in each class of prefix lengths.
    pub dst_lengths: [f64; LENGTHS.len()],
    /// The share of filters on any protocol.
    pub any_protocol: f64,
    /// The share of filters with a range of ports that is neither one port nor all.
    pub ranges: f64,
    /// The share of filters with a single destination port.
    pub single_ports: f64,
    /// Filters that equal an earlier one in all five fields.
    pub twins: usize,
    /// Different source prefixes.
    pub src_prefixes: usize,
    /// Different destination prefixes.
    pub dst_prefixes: usize,
    /// Pairs of filters that overlap: some header matches both.
    pub overlap_pairs: usize,
    /// The longest chain of filters in which each overlaps the next. A table with one rule for each filter needs this
    /// many priority levels to order all overlapping pairs.
    pub longest_chain: usize,
    /// The share of filters that are the first match of a header of the trace; `None` without a trace.
    pub triggered: Option<f64>,
}

/// Classes of prefix lengths in bits, both ends included.
pub const LENGTHS: [(u8, u8); 5] = [(0, 0), (1, 15), (16, 23), (24, 30), (31, 32)];

impl Statistics {
    /// Computes the statistics of a set, and of a trace made for it. The time is quadratic in the number of filters.
    pub fn from_filters(set: &FilterSet, trace: Option<&[TracedHeader]>) -> Statistics {
        let filters = &set.filters;
        let share = |is: &dyn Fn(&Filter) -> bool| percent(filters.iter().filter(|f| is(f)).count(), filters.len());
        let lengths = |side: fn(&Filter) -> Prefix| {
            LENGTHS.map(|(lo, hi)| share(&|filter: &Filter| (lo..=hi).contains(&side(filter).length)))
        };
        let (overlap_pairs, longest_chain) = overlaps(filters);
        Statistics {
            name: set.name.clone(),
            filters: filters.len(),
            src_lengths: lengths(|filter| filter.src),
            dst_lengths: lengths(|filter| filter.dst),
            any_protocol: share(&|filter| filter.proto.is_none()),
            ranges: share(&|filter| filter.src_ports.is_true_range() || filter.dst_ports.is_true_range()),
            single_ports: share(&|filter| filter.dst_ports.lo == filter.dst_ports.hi),
            twins: filters.len() - distinct(filters.iter().map(|f| Filter { flags: (0, 0), ..*f }).map(key)),
            src_prefixes: distinct(filters.iter().map(|filter| (filter.src.address, filter.src.length))),
            dst_prefixes: distinct(filters.iter().map(|filter| (filter.dst.address, filter.dst.length))),
            overlap_pairs,
            longest_chain,
            triggered: trace.map(|trace| triggered(set, trace)),
        }
    }

    /// Returns the percentage of pairs of filters that overlap.
    pub fn overlap_share(&self) -> f64 {
        percent(self.overlap_pairs, self.filters * self.filters.saturating_sub(1) / 2)
    }
}

/// Builds a table of several sets.
pub fn table(sets: &[Statistics]) -> TextTable {
    let lengths = |side: &str| {
        LENGTHS.map(|(lo, hi)| if lo == hi { format!("{side} {lo}") } else { format!("{side} {lo}-{hi}") })
    };
    let mut heads = vec!["set".to_string(), "filters".to_string()];
    heads.extend(lengths("src"));
    heads.extend(lengths("dst"));
    let rest = ["any proto", "ranges", "1 port", "twins", "srcs", "dsts", "pairs", "pairs %", "chain", "triggered %"];
    heads.extend(rest.map(String::from));
    let mut table = TextTable::new(heads);
    for set in sets {
        table.row(row(set));
    }
    table
}

/// Charts the distribution of prefix lengths of several sets: the percentage of filters whose two prefixes together
/// have at most a number of bits.
pub fn chart(sets: &[FilterSet]) -> Chart {
    let line = |set: &FilterSet| {
        let share = |bits: u8| {
            let fits = |filter: &&Filter| filter.src.length + filter.dst.length <= bits;
            percent(set.filters.iter().filter(fits).count(), set.filters.len())
        };
        Series { name: set.name.clone(), points: (0..=64).map(|bits| (f64::from(bits), share(bits))).collect() }
    };
    Chart {
        title: "Prefix lengths of filter sets".into(),
        x: "bits of source and destination prefix together".into(),
        y: "filters with as many or fewer (%)".into(),
        log_x: false,
        log_y: false,
        labels: Vec::new(),
        series: sets.iter().map(line).collect(),
    }
}

fn row(set: &Statistics) -> Vec<String> {
    let share = |share: &f64| format!("{share:.1}");
    let mut cells = vec![set.name.clone(), set.filters.to_string()];
    cells.extend(set.src_lengths.iter().chain(&set.dst_lengths).map(share));
    cells.extend([set.any_protocol, set.ranges, set.single_ports].iter().map(share));
    let counts = [set.twins, set.src_prefixes, set.dst_prefixes, set.overlap_pairs];
    cells.extend(counts.map(|count| count.to_string()));
    cells.extend([format!("{:.2}", set.overlap_share()), set.longest_chain.to_string()]);
    cells.push(set.triggered.as_ref().map_or_else(String::new, share));
    cells
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        table(std::slice::from_ref(self)).fmt(f)
    }
}

/// Returns the number of overlapping pairs, and of filters in the longest chain.
fn overlaps(filters: &[Filter]) -> (usize, usize) {
    let mut pairs = 0;
    let mut chains: Vec<usize> = Vec::with_capacity(filters.len());
    for (i, filter) in filters.iter().enumerate() {
        let mut longest = 0;
        for (earlier, chain) in filters[..i].iter().zip(&chains) {
            if overlap(earlier, filter) {
                pairs += 1;
                longest = longest.max(*chain);
            }
        }
        chains.push(longest + 1);
    }
    (pairs, chains.into_iter().max().unwrap_or(0))
}

/// Reports whether some header matches both filters.
fn overlap(a: &Filter, b: &Filter) -> bool {
    let prefixes = |a: Prefix, b: Prefix| {
        let mask = if a.length < b.length { a.mask() } else { b.mask() };
        (a.address ^ b.address) & mask == 0
    };
    let ranges = |a: PortRange, b: PortRange| a.lo <= b.hi && b.lo <= a.hi;
    prefixes(a.src, b.src)
        && prefixes(a.dst, b.dst)
        && ranges(a.src_ports, b.src_ports)
        && ranges(a.dst_ports, b.dst_ports)
        && (a.proto.is_none() || b.proto.is_none() || a.proto == b.proto)
}

fn triggered(set: &FilterSet, trace: &[TracedHeader]) -> f64 {
    percent(distinct(trace.iter().filter_map(|traced| set.first_match(&traced.header))), set.filters.len())
}

/// Returns a filter's five fields, as a key to sort by.
fn key(filter: Filter) -> impl Ord {
    let Filter { src, dst, src_ports, dst_ports, proto, .. } = filter;
    let ports = [src_ports.lo, src_ports.hi, dst_ports.lo, dst_ports.hi];
    ((src.address, src.length), (dst.address, dst.length), ports, proto)
}

fn distinct<T: Ord>(items: impl Iterator<Item = T>) -> usize {
    items.collect::<std::collections::BTreeSet<T>>().len()
}

fn percent(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::FiveTuple;

    fn set(lines: &[&str]) -> FilterSet {
        FilterSet { name: "x".into(), filters: lines.iter().map(|line| line.parse().unwrap()).collect() }
    }

    #[test]
    fn pairs_chains_and_shares_are_those_of_a_set_that_fits_on_a_page() {
        let set = set(&[
            "@10.0.0.1/32 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF 0x0000/0x0200",
            "@10.0.0.1/32 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF 0x0000/0x0000",
            "@10.0.0.0/24 0.0.0.0/0 0 : 65535 0 : 1023 0x06/0xFF 0x0000/0x0000",
            "@10.0.1.0/24 0.0.0.0/0 0 : 65535 0 : 1023 0x11/0xFF 0x0000/0x0000",
            "@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00 0x0000/0x0000",
        ]);
        let header = FiveTuple { src: 0x0a00_0001, dst: 0, src_port: 0, dst_port: 80, proto: 6 };
        let trace = [TracedHeader { header, made_from: 1 }];
        let found = Statistics::from_filters(&set, Some(&trace));
        // The first three overlap each other, and the last overlaps all.
        assert_eq!((found.overlap_pairs, found.longest_chain), (7, 4));
        assert_eq!((found.twins, found.src_prefixes, found.dst_prefixes), (1, 4, 1));
        assert_eq!(found.src_lengths, [20.0, 0.0, 0.0, 40.0, 40.0]);
        assert_eq!((found.any_protocol, found.ranges, found.single_ports), (20.0, 40.0, 40.0));
        assert_eq!(found.triggered, Some(20.0), "the twin is never met first");
    }
}
