//! `maple-bench rules` on small sets of our own, and on the sets beside the project where they are.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use clap::Parser;
use maple_bench::Rust;
use maple_bench::rules::{self, Compiler, Finding, RulesArgs};
use tempfile::TempDir;

use crate::skip::missing;

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    args: RulesArgs,
}

/// Filters that overlap, twins, ranges of both kinds of ports, and one on everything.
const FILTERS: &str = "\
@10.1.2.3/32\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF\t0x0000/0x0000\t
@10.1.2.0/24\t192.168.0.0/16\t0 : 65535\t1024 : 65535\t0x06/0xFF\t0x0000/0x0000\t
@10.1.2.0/24\t192.168.0.0/16\t0 : 65535\t1024 : 65535\t0x06/0xFF\t0x0200/0x0200\t
@10.0.0.0/8\t192.168.1.0/24\t1000 : 1999\t20 : 25\t0x11/0xFF\t0x0000/0x0000\t
@0.0.0.0/0\t192.168.1.1/32\t0 : 65535\t53 : 53\t0x00/0x00\t0x0000/0x0000\t
@10.1.0.0/16\t0.0.0.0/0\t0 : 1023\t0 : 65535\t0x06/0xFF\t0x0000/0x0000\t
@0.0.0.0/0\t192.168.0.0/16\t0 : 65535\t1300 : 1350\t0x06/0xFF\t0x0000/0x0000\t
@0.0.0.0/0\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x00/0x00\t0x0000/0x0000\t
";

/// Returns headers at the corners of the filters, evenly spaced among all combinations.
fn trace(step: usize) -> String {
    let sources = [0x0a01_0203u32, 0x0a01_0204, 0x0a01_0000, 0x0a02_0000, 0x0b00_0000];
    let destinations = [0xc0a8_0101u32, 0xc0a8_0102, 0xc0a8_ffff, 0x0102_0304];
    let src_ports = [0u16, 999, 1000, 1023, 1024, 1999, 2000];
    let dst_ports = [20u16, 25, 26, 53, 80, 1023, 1024, 1300, 1349, 65535];
    let mut text = String::new();
    let mut number = 0;
    for (src, dst) in sources.iter().flat_map(|src| destinations.map(|dst| (src, dst))) {
        for (from, to) in src_ports.iter().flat_map(|from| dst_ports.map(|to| (from, to))) {
            for proto in [6, 17, 255] {
                number += 1;
                if number % step == 0 {
                    writeln!(text, "{src}\t{dst}\t{from}\t{to}\t{proto}\t0\t0").unwrap();
                }
            }
        }
    }
    text
}

fn sets() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("long")).unwrap();
    std::fs::write(folder.path().join("own.rules"), FILTERS).unwrap();
    std::fs::write(folder.path().join("own.trace"), trace(37)).unwrap();
    folder
}

fn measure(options: &[&str]) -> Vec<Finding> {
    let words = ["rules"].iter().chain(options);
    rules::measure(&CommandLine::try_parse_from(words).unwrap().args, &Rust).unwrap_or_else(|error| panic!("{error}"))
}

fn paths(folder: &Path, set: &str) -> (String, String, String) {
    let path = |name: String| folder.join(name).display().to_string();
    (path(format!("{set}.rules")), path(format!("{set}.trace")), path(format!("long/{set}.trace.gz")))
}

#[test]
fn every_compiler_answers_every_header_right_however_ranges_are_asked() {
    let folder = sets();
    let (filters, headers, _) = paths(folder.path(), "own");
    let then = folder.path().join("then.trace");
    std::fs::write(&then, trace(11)).unwrap();
    for (compiler, ranges) in [("maple", "auto"), ("maple", "exact"), ("paper", "auto"), ("paper", "exact")] {
        let options = ["--filters", &filters, "--trace", &headers, "--then", then.to_str().unwrap()];
        let found = &measure(&[&options[..], &["--compiler", compiler, "--ranges", ranges]].concat())[0];
        let m = &found.measured;
        assert_eq!((m.wrong, &found.first_wrong, found.unanswered), (0, &None, 0), "{compiler} {ranges}");
        assert_eq!((m.filters, m.headers, found.set.as_str()), (8, 113, "own"));
        assert_eq!(m.matched, 7, "the twin of a filter is never met first");
        assert!(m.misses_then.is_some_and(|misses| misses < 381), "{compiler} {ranges}: {:?}", m.misses_then);
        assert!(m.rules > m.barriers && m.levels > 1 && m.flow_mods >= m.rules);
        assert_eq!(found.growth.last(), Some(&(m.rules, m.flow_mods)));
        assert!(m.augments_per_s > 0.0 && m.lookups_per_s > 0.0);
        assert!(m.host_invalidations_per_s > 0.0 && m.port_invalidations_per_s > 0.0);
        assert!(m.f_us > 0.0 && m.f_alone_us > 0.0 && m.augment_us > 0.0);
        assert!(m.augments_per_s >= m.augments_per_s_median && m.lookups_per_s >= m.lookups_per_s_median);
        assert!(m.host_invalidations_per_s >= m.host_invalidations_per_s_median);
        assert!(m.port_invalidations_per_s >= m.port_invalidations_per_s_median);
        assert!(m.bytes_per_trace.is_some_and(|bytes| bytes > 100.0), "{:?}", m.bytes_per_trace);
    }
}

#[test]
fn a_whole_folder_is_measured_with_both_compilers() {
    let folder = sets();
    let findings = measure(&["--all", folder.path().to_str().unwrap()]);
    let compilers: Vec<Compiler> = findings.iter().map(|finding| finding.compiler).collect();
    assert_eq!(compilers, [Compiler::Maple, Compiler::Paper]);
}

#[test]
fn json_has_the_keys_that_are_promised() {
    let folder = sets();
    let (filters, headers, _) = paths(folder.path(), "own");
    let found = &measure(&["--filters", &filters, "--trace", &headers])[0];
    let json: BTreeMap<String, serde_json::Value> =
        serde_json::from_str(&serde_json::to_string(&found.measured).unwrap()).unwrap();
    let mut wanted: Vec<&str> =
        "filters matched rules barriers levels flow_mods reprioritised mods_per_rule misses_then \
         augments_per_s lookups_per_s host_invalidations_per_s port_invalidations_per_s f_us f_alone_us augment_us \
         bytes_per_trace headers wrong \
         augments_per_s_median lookups_per_s_median host_invalidations_per_s_median port_invalidations_per_s_median"
            .split_whitespace()
            .collect();
    wanted.sort_unstable();
    assert_eq!(json.keys().collect::<Vec<_>>(), wanted);
}

#[test]
fn wrong_input_names_file_and_line() {
    let folder = sets();
    let (filters, headers, _) = paths(folder.path(), "own");
    std::fs::write(folder.path().join("own.trace"), "1 2 3\n").unwrap();
    let line = CommandLine::try_parse_from(["rules", "--filters", &filters, "--trace", &headers]).unwrap();
    let error = rules::measure(&line.args, &Rust).err().map(|error| error.to_string());
    assert_eq!(error, Some(format!("{headers}:1: a header has 7 numbers, not 3")));
}

/// The targets for tables: on no set more than the paper's compiler makes, nor more misses afterwards.
#[test]
fn on_sets_with_wide_filters_and_ranges_there_are_fewer_rules_and_no_more_levels_or_misses() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/classbench");
    // Of these sets: how many rules per cent of the paper's compiler's there may be.
    for (set, share) in [("acl1a", 75), ("fw1a", 95), ("ipc1a", 78)] {
        let (filters, headers, long) = paths(&folder, set);
        if !Path::new(&filters).exists() {
            missing(&filters);
            return;
        }
        let measured_by = |compiler: &str| {
            let found = measure(&["--filters", &filters, "--trace", &headers, "--then", &long, "--compiler", compiler]);
            found.into_iter().next().expect("one set by one compiler").measured
        };
        let (maple, paper) = (measured_by("maple"), measured_by("paper"));
        assert_eq!((maple.wrong, paper.wrong), (0, 0));
        assert!(maple.rules * 100 <= paper.rules * share, "{set}: {} rules, {}", maple.rules, paper.rules);
        assert!(maple.levels <= paper.levels, "{set}: {} levels, {}", maple.levels, paper.levels);
        assert!(
            maple.misses_then <= paper.misses_then,
            "{set}: {:?} misses, {:?}",
            maple.misses_then,
            paper.misses_then
        );
        assert!(maple.reprioritised * 50 <= maple.flow_mods, "{set}: {}", maple.reprioritised);
        assert!(maple.flow_mods * 10 <= maple.rules * 17, "{set}: {} flow-mods", maple.flow_mods);
    }
}

/// The compiler of the paper comes near the paper's own figures, though the sets are not the same ones.
#[test]
fn the_paper_s_compiler_makes_of_acl1a_about_what_the_paper_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/classbench");
    let (filters, headers, _) = paths(&folder, "acl1a");
    if !Path::new(&filters).exists() {
        missing(&filters);
        return;
    }
    let found = &measure(&["--filters", &filters, "--trace", &headers, "--compiler", "paper"])[0];
    let m = &found.measured;
    assert_eq!((m.wrong, found.unanswered, m.filters, m.matched), (0, 0, 973, 599));
    // Published: 1006 rules at 9 levels.
    assert_eq!((m.rules, m.levels), (1019, 9));
}
