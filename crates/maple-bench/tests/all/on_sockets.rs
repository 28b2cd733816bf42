//! `maple-bench flows` and `throughput` at their smallest: that flows end, and what is counted. How fast is asserted
//! nowhere.
//!
//! The controllers are the `maple` beside this program, which a build of the workspace puts there.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::skip::missing;

const PROGRAM: &str = env!("CARGO_BIN_EXE_maple-bench");

/// Reports whether there is no `maple` beside the program, and says so.
fn has_no_maple() -> bool {
    let maple = Path::new(PROGRAM).with_file_name("maple");
    if !maple.exists() {
        missing(&format!("{} (cargo build -p maple-cli)", maple.display()));
    }
    !maple.exists()
}

/// Returns what the program answers, as JSON. Its status may be 1: a machine that is busy with other tests gives no
/// result.
fn answer(what: &str, arguments: &[&str]) -> Value {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(PROGRAM);
    command.args([what, "--json"]).args(arguments).current_dir(root);
    let output = command.output().expect("the program runs");
    let reported = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {reported}"))
}

fn flows(arguments: &[&str]) -> Value {
    answer("flows", arguments)
}

/// Asserts that the program refuses each of these lists of arguments, and says why.
fn assert_refused(what: &str, wrong: &[(&[&str], &str)]) {
    for (arguments, says) in wrong {
        let output = Command::new(PROGRAM).arg(what).args(*arguments).output().expect("the program runs");
        let reported = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && reported.contains(says), "{arguments:?}: {reported}");
    }
}

fn figure<'a>(answer: &'a Value, what: &str) -> &'a str {
    let figures = answer["figures"].as_array().expect("figures");
    let found = figures.iter().find(|pair| pair[0] == what).and_then(|pair| pair[1].as_str());
    found.unwrap_or_else(|| panic!("no {what:?} in {answer}"))
}

fn number(answer: &Value, what: &str) -> f64 {
    figure(answer, what).parse().unwrap_or_else(|error| panic!("{what}: {error} in {answer}"))
}

#[test]
fn flows_end_on_lines_of_both_versions_and_are_counted_with_their_rules() {
    if has_no_maple() {
        return;
    }
    let plots = tempfile::tempdir().expect("a folder");
    let small = ["--ports", "4", "--hosts", "12", "--leaves", "5,20", "--flows", "10", "--rounds", "1", "--heap"];
    // With few flows under way some are left to be measured.
    let rest =
        ["--window", "2", "--lines", "1,3", "--of", "1.0,1.3", "--plot", plots.path().to_str().expect("a plain path")];
    let reported = flows(&[&small[..], &rest[..]].concat());
    let rows = reported["rows"].as_array().expect("rows");
    let place = |row: &Value| (row["of"].to_string(), row["line"].as_u64(), row["leaves"].as_u64());
    let places: Vec<_> = rows.iter().map(place).collect();
    let expected: Vec<_> = ["\"1.0\"", "\"1.3\""]
        .into_iter()
        .flat_map(|of| [1, 3].map(|line| (of, line)))
        .flat_map(|(of, line)| [5, 20].map(|leaves| (of.to_owned(), Some(line), Some(leaves))))
        .collect();
    assert_eq!(places, expected, "{reported:#}");
    for row in rows {
        let value = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name} in {row}"));
        assert!(value("flows") > 0.0 && value("fastest") >= value("flows") && value("ceiling") > 0.0, "{row}");
        assert!(value("flow_mods") > 0.0 && value("packet_ins") > 0.0 && value("edge_rules") > 0.0, "{row}");
        assert!(value("heap_bytes") > 0.0, "the controller counts its heap: {row}");
        assert_eq!(row["core_rules"].is_u64(), row["line"] == 3, "{row}");
    }
    assert!(reported["targets"].as_array().is_some_and(|targets| !targets.is_empty()), "{reported}");
    let drawn = std::fs::read_to_string(plots.path().join("new-flows-against-length.svg")).expect("it is drawn");
    assert!(drawn.contains("builtin:shortest-path"), "{drawn}");
}

#[test]
fn rules_of_the_core_are_counted_when_all_pairs_have_talked() {
    if has_no_maple() {
        return;
    }
    let reported = flows(&["--all-pairs", "tree:2,2"]);
    assert_eq!(
        (figure(&reported, "hosts"), figure(&reported, "pairs")),
        ("4", "9"),
        "3 of 12 were announcements: {reported}"
    );
    assert_eq!(figure(&reported, "flows that ended"), "9", "{reported}");
    assert!(number(&reported, "rules of the busiest switch without") > 0.0, "{reported}");
    assert_eq!(reported["targets"][0]["what"], "rules of a core switch");
}

#[test]
fn flows_come_out_again_when_a_link_has_failed() {
    if has_no_maple() {
        return;
    }
    let reported = flows(&["--failover", "ring:4", "--hosts", "3", "--leaves", "8"]);
    assert!(
        number(&reported, "flows over the link") >= 8.0 && number(&reported, "routes over the link") >= 1.0,
        "{reported}"
    );
    assert!(number(&reported, "flow-mods") > 0.0, "{reported}");
    let doubts = reported["doubts"].as_array().expect("doubts");
    assert!(doubts.is_empty(), "each flow comes out again: {reported}");
}

#[test]
fn a_flood_is_set_beside_what_it_costs() {
    if has_no_maple() {
        return;
    }
    let reported = flows(&["--flood-port", "2000", "--flood-rate", "20000", "--limit", "1s", "--settle", "1s"]);
    assert!(number(&reported, "addresses that came within the limit") > 0.0, "{reported}");
    assert!(number(&reported, "new flows a second of another port, without the flood") > 0.0, "{reported}");
    assert_eq!(reported["targets"].as_array().map(Vec::len), Some(2), "{reported}");
}

#[test]
fn links_are_counted_as_they_are_discovered() {
    if has_no_maple() {
        return;
    }
    let reported = flows(&["--discovery", "6", "--settle", "500ms", "--limit", "500ms"]);
    assert_eq!((figure(&reported, "ring: links known"), figure(&reported, "tree: links known")), ("6 of 6", "5 of 5"));
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    if has_no_maple() {
        return;
    }
    assert_refused(
        "flows",
        &[
            (&["--lines", "0"], "0 is not in 1..=1000"),
            (&["--cores", "1", "--load-core", "1"], "core 1 can't be the controller's and the network's"),
            (&["--failover", "ring:3", "--discovery", "4"], "cannot be used with"),
            (&["--failover", "/nonexistent.json"], "/nonexistent.json"),
            (&["--maple", "/nonexistent", "--lines", "1", "--rounds", "1"], "/nonexistent"),
        ],
    );
}

#[test]
fn a_sweep_offers_rates_between_the_hosts_of_a_network_and_draws_the_delay() {
    if has_no_maple() {
        return;
    }
    let plots = tempfile::tempdir().expect("a folder");
    let folder = plots.path().to_str().expect("it is text");
    let sweep = ["--topology", "ring:3", "--windows", "4", "--rates", "0.2,0.4", "--of", "1.3"];
    let brief = ["--rounds", "1", "--duration", "300ms", "--warmup", "300ms", "--settle", "1s", "--plot", folder];
    let reported = answer("throughput", &[&sweep[..], &brief].concat());
    assert_eq!(reported["packets"], "requests between the hosts of ring:3");
    let points = reported["controllers"][0]["points"].as_array().expect("there are points");
    assert_eq!(points.len(), 3, "{reported}");
    for (point, share) in points.iter().zip([None, Some(0.2), Some(0.4)]) {
        assert_eq!(point["switches"], 3, "{reported}");
        assert!(point["answers"].as_f64() > Some(0.0) && point["p95"].as_f64() > Some(0.0), "{reported}");
        let most = points[0]["answers"].as_f64().expect("a number");
        let offered = point["offered"].as_f64().map(|offered| (offered / most * 1e6).round() / 1e6);
        assert_eq!(offered, share, "{reported}");
    }
    let drawn = std::fs::read_to_string(plots.path().join("delay-against-offered-rate.svg")).expect("it is drawn");
    assert!(drawn.contains("maple, median") && drawn.contains("95th percentile"), "{drawn}");
}

#[test]
fn a_sweep_says_what_is_wrong_with_its_options() {
    if has_no_maple() {
        return;
    }
    assert_refused(
        "throughput",
        &[
            (&["--switches", "0"], "0 is not in 1..=65535"),
            (&["--rates", "0.5,0"], "a share is a number above 0"),
            (&["--burst", "4"], "--rates"),
            (&["--topology", "ring:3", "--switches", "4"], "cannot be used with"),
            (&["--against", "limit=./of_limit"], "does not say {port}"),
            (&["--topology", "/nonexistent.json"], "/nonexistent.json"),
            (&["--cores", "0,1", "--load-core", "1"], "core 1 can't be the controller's and the generator's"),
        ],
    );
}
