//! Generated sets have the right format and the statistics of their style.

#[path = "../../../../tests/skip.rs"]
mod skip;

use std::path::Path;

use super::*;
use crate::statistics::{LENGTHS, Statistics};
use skip::missing;

/// The sets in ClassBench's archive whose statistics the styles follow.
const MODELS: [(Style, &str); 3] = [(Style::Acl, "acl1a"), (Style::Fw, "fw1a"), (Style::Ipc, "ipc1a")];

fn figures(style: Style, seed: u64) -> Statistics {
    let set = filter_set(style, 1000, seed);
    let trace = trace(&set, set.filters.len(), 0.0, seed);
    Statistics::from_filters(&set, Some(&trace))
}

#[test]
fn files_say_what_was_generated() {
    let folder = tempfile::tempdir().unwrap();
    for style in Style::ALL {
        let set = filter_set(style, 300, 5);
        let (short, long) = (trace(&set, 300, 0.0, 5), trace(&set, 3000, 0.1, 6));
        let files = Files::in_folder(folder.path(), &set.name);
        files.write(&set, &short, &long).unwrap();
        assert_eq!(FilterSet::read(&files.rules).unwrap(), set);
        assert_eq!(TracedHeader::read(&files.trace).unwrap(), short);
        assert_eq!(TracedHeader::read(&files.long).unwrap(), long);
    }
    let nowhere = Files::in_folder(Path::new("/dev/null"), "x");
    let error = nowhere.write(&filter_set(Style::Acl, 1, 1), &[], &[]).unwrap_err().to_string();
    assert!(error.starts_with("/dev/null/x.rules: "), "{error}");
}

#[test]
fn a_seed_determines_the_filter_set_and_the_trace() {
    let (a, b, c) = (filter_set(Style::Ipc, 200, 3), filter_set(Style::Ipc, 200, 3), filter_set(Style::Ipc, 200, 4));
    assert_eq!(a, b);
    assert_ne!(a.filters, c.filters);
    assert_eq!(trace(&a, 100, 0.1, 7), trace(&b, 100, 0.1, 7));
    assert_ne!(trace(&a, 100, 0.1, 7), trace(&a, 100, 0.1, 8));
    assert!(
        filter_set(Style::Fw, 0, 1).filters.is_empty() && trace(&filter_set(Style::Fw, 0, 1), 9, 0.0, 1).is_empty()
    );
}

#[test]
fn headers_fit_the_filters_that_they_were_made_from() {
    for style in Style::ALL {
        let set = filter_set(style, 500, 9);
        for traced in trace(&set, 2000, 0.1, 9) {
            assert!(set.filters[traced.made_from as usize].fits(&traced.header), "{traced:?}");
        }
    }
}

#[test]
fn no_line_stands_twice_and_no_filter_lies_under_a_wider_one() {
    for style in Style::ALL {
        let set = filter_set(style, 500, 2);
        for (i, filter) in set.filters.iter().enumerate() {
            for earlier in &set.filters[..i] {
                let is_wider = earlier.src.length <= filter.src.length
                    && earlier.dst.length <= filter.dst.length
                    && earlier.src_ports.lo <= filter.src_ports.lo
                    && earlier.src_ports.hi >= filter.src_ports.hi
                    && earlier.dst_ports.lo <= filter.dst_ports.lo
                    && earlier.dst_ports.hi >= filter.dst_ports.hi
                    && (earlier.proto.is_none() || earlier.proto == filter.proto)
                    && earlier.src.holds(filter.src.address)
                    && earlier.dst.holds(filter.dst.address);
                let is_twin = Filter { flags: filter.flags, ..*earlier } == *filter;
                assert!(!is_wider || (is_twin && earlier.flags != filter.flags), "{earlier} before {filter}");
            }
        }
    }
}

/// Asserts that a figure is between two bounds, both included.
fn within(what: &str, style: Style, value: f64, lo: f64, hi: f64) {
    assert!((lo..=hi).contains(&value), "{style}: {what} is {value}, not between {lo} and {hi}");
}

#[test]
fn figures_stay_within_the_bounds_of_their_style() {
    // The sets have 1000 filters; shares are in percent; `docs/benchmarks.md` states the same bounds.
    for (style, pairs, chain, ranges, single) in [
        (Style::Acl, (0.05, 2.0), (4.0, 32.0), (7.0, 14.0), (55.0, 68.0)),
        (Style::Fw, (4.0, 10.0), (30.0, 90.0), (10.0, 19.0), (48.0, 64.0)),
        (Style::Ipc, (1.0, 3.0), (28.0, 60.0), (8.0, 16.0), (28.0, 42.0)),
    ] {
        for seed in 1..=5 {
            let found = figures(style, seed);
            assert!(found.filters == 1000, "{found}");
            within("overlapping pairs", style, found.overlap_share(), pairs.0, pairs.1);
            within("longest chain", style, found.longest_chain as f64, chain.0, chain.1);
            within("ranges", style, found.ranges, ranges.0, ranges.1);
            within("single ports", style, found.single_ports, single.0, single.1);
            within("triggered", style, found.triggered.unwrap(), 58.0, 68.0);
        }
    }
}

#[test]
fn figures_are_near_those_of_classbench() {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/classbench");
    if !archive.is_dir() {
        missing(&format!("ClassBench's sets at {}", archive.display()));
        return;
    }
    for (style, name) in MODELS {
        let set = FilterSet::read(&archive.join(format!("{name}.rules"))).unwrap();
        let trace = TracedHeader::read(&archive.join(format!("{name}.trace"))).unwrap();
        let (model, found) = (Statistics::from_filters(&set, Some(&trace)), figures(style, 1));
        for (class, (lo, hi)) in LENGTHS.iter().enumerate() {
            for (side, model, found) in [
                ("source", &model.src_lengths, &found.src_lengths),
                ("destination", &model.dst_lengths, &found.dst_lengths),
            ] {
                let what = format!("{side} prefixes of {lo} to {hi}");
                within(&what, style, found[class], model[class] - 10.0, model[class] + 10.0);
            }
        }
        let factor = |what, model: f64, found: f64| within(what, style, found, model / 2.5, model * 2.5);
        factor("overlapping pairs", model.overlap_share(), found.overlap_share());
        factor("longest chain", model.longest_chain as f64, found.longest_chain as f64);
        factor("source prefixes", model.src_prefixes as f64, found.src_prefixes as f64);
        factor("destination prefixes", model.dst_prefixes as f64, found.dst_prefixes as f64);
        within("ranges", style, found.ranges, model.ranges - 5.0, model.ranges + 5.0);
        within(
            "triggered",
            style,
            found.triggered.unwrap(),
            model.triggered.unwrap() - 5.0,
            model.triggered.unwrap() + 5.0,
        );
    }
}
