//! Prints the results of `maple-bench rules`: a list for one set, the paper's two tables for many, JSON, plots.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::measured::Measured;
use super::published::{Published, published};
use super::{Compiler, Finding};
use crate::report::{Chart, PlotError, Series, TextTable};

/// The results as JSON: those of one set and compiler, or (`nested`) by set and compiler.
pub(super) fn json(findings: &[Finding], nested: bool) -> String {
    let text = match findings {
        [one] if !nested => serde_json::to_string_pretty(&one.measured),
        _ => {
            let mut sets: BTreeMap<&str, BTreeMap<&str, &Measured>> = BTreeMap::new();
            for finding in findings {
                sets.entry(&finding.set).or_default().insert(finding.compiler.name(), &finding.measured);
            }
            serde_json::to_string_pretty(&sets)
        }
    };
    text.expect("numbers and names are valid JSON")
}

/// The results as text.
pub(super) fn text(findings: &[Finding]) -> String {
    match findings {
        [one] => single(one),
        _ => format!("{}\n{}\n{}", first_table(findings), second_table(findings), REMARK),
    }
}

const REMARK: &str = "published: SIGCOMM 2013, on sets of the same names that are not these, by the machine of then
speeds are those of the fastest pass; --json has the medians besides";

/// Writes plots, and returns their paths.
pub(super) fn plot(findings: &[Finding], folder: &Path) -> Result<Vec<PathBuf>, PlotError> {
    let mut paths = Vec::new();
    if findings.iter().any(|finding| finding.set != findings[0].set) {
        for (title, unit, log, value) in COMPARED {
            paths.push(compared(findings, title, unit, *log, *value).write(folder)?);
        }
    } else {
        paths.push(grown(findings).write(folder)?);
    }
    Ok(paths)
}

type Value = fn(&Measured) -> f64;

/// The plots by set: title, unit, whether the axis is logarithmic, value.
const COMPARED: &[(&str, &str, bool, Value)] = &[
    ("Rules by filter set", "rules", false, |m| m.rules as f64),
    ("Priority levels by filter set", "priority levels", false, |m| m.levels as f64),
    ("Changes per final rule by filter set", "flow-mods per rule", false, |m| m.mods_per_rule),
    ("Augments by filter set", "augments/s", true, |m| m.augments_per_s),
    ("Look-ups by filter set", "look-ups/s", true, |m| m.lookups_per_s),
    ("Host invalidations by filter set", "invalidations/s", true, |m| m.host_invalidations_per_s),
    ("Port invalidations by filter set", "invalidations/s", true, |m| m.port_invalidations_per_s),
];

fn compared(findings: &[Finding], title: &str, unit: &str, log_y: bool, value: Value) -> Chart {
    let mut labels: Vec<String> = findings.iter().map(|finding| finding.set.clone()).collect();
    labels.dedup();
    let place = |set: &str| labels.iter().position(|label| label == set).unwrap_or(0) as f64;
    let series = [Compiler::Maple, Compiler::Paper].into_iter().map(|compiler| {
        let of = findings.iter().filter(|finding| finding.compiler == compiler);
        let points = of.map(|finding| (place(&finding.set), value(&finding.measured))).collect();
        Series { name: format!("--compiler {}", compiler.name()), points }
    });
    let series = series.filter(|series: &Series| !series.points.is_empty()).collect();
    let (title, x, y) = (title.into(), "filter set".into(), unit.into());
    Chart { title, x, y, log_x: false, log_y, labels, series }
}

fn grown(findings: &[Finding]) -> Chart {
    let series_of = |finding: &Finding, what: &str, value: fn(&(usize, usize)) -> usize| {
        let growth = finding.growth.iter().enumerate();
        let points = growth.map(|(header, sizes)| (header as f64 + 1.0, value(sizes) as f64)).collect();
        Series { name: format!("{what}, --compiler {}", finding.compiler.name()), points }
    };
    let series = findings.iter().flat_map(|finding| {
        [series_of(finding, "rules", |sizes| sizes.0), series_of(finding, "flow-mods so far", |sizes| sizes.1)]
    });
    Chart {
        title: format!("{}: rules and changes during the trace", findings[0].set),
        x: "headers of the trace".into(),
        y: "rules, flow-mods".into(),
        log_x: false,
        log_y: false,
        labels: Vec::new(),
        series: series.collect(),
    }
}

fn single(finding: &Finding) -> String {
    let m = &finding.measured;
    let row = published(&finding.set);
    let paper = |value: fn(&Published) -> f64, decimals| row.map_or(String::new(), |row| number(value(row), decimals));
    let mut table = TextTable::new([finding.set.as_str(), finding.compiler.name(), "paper"]);
    let mut line = |name: &str, ours: String, theirs: String| table.row([name.to_string(), ours, theirs]);
    line("filters", m.filters.to_string(), paper(|row| row.filters.into(), 0));
    line("headers", m.headers.to_string(), String::new());
    line("filters matched", m.matched.to_string(), paper(|row| row.matched.into(), 0));
    line("rules", m.rules.to_string(), paper(|row| row.rules.into(), 0));
    line("of them barriers", m.barriers.to_string(), String::new());
    line("compactness", number(compactness(m), 2), paper(|row| f64::from(row.rules) / f64::from(row.filters), 2));
    line("priority levels", m.levels.to_string(), paper(|row| row.levels.into(), 0));
    line("flow-mods", m.flow_mods.to_string(), String::new());
    line("of them for a final rule", number(m.mods_per_rule, 2), paper(|row| row.mods_per_rule, 2));
    line("rules with a changed priority", m.reprioritised.to_string(), String::new());
    if let Some(misses) = m.misses_then {
        line("misses on the second trace", misses.to_string(), String::new());
    }
    let rate = |fastest, median| format!("{} (median {})", number(fastest, 0), number(median, 0));
    line("augments/s", rate(m.augments_per_s, m.augments_per_s_median), paper(|row| row.augments_per_s, 0));
    line("  a run of f, µs", number(m.f_us, 1), String::new());
    line("  (without a tree, µs)", number(m.f_alone_us, 1), String::new());
    line("  the rest of an augment, µs", number(m.augment_us, 1), String::new());
    line("look-ups/s", rate(m.lookups_per_s, m.lookups_per_s_median), paper(|row| row.lookups_per_s.into(), 0));
    let hosts = rate(m.host_invalidations_per_s, m.host_invalidations_per_s_median);
    line("host invalidations/s", hosts, paper(|row| row.host_invalidations_per_s.into(), 0));
    let ports = rate(m.port_invalidations_per_s, m.port_invalidations_per_s_median);
    line("port invalidations/s", ports, paper(|row| row.port_invalidations_per_s.into(), 0));
    line("bytes a trace", m.bytes_per_trace.map_or("?".into(), |bytes| number(bytes, 0)), String::new());
    line("wrong answers", m.wrong.to_string(), String::new());
    if finding.unanswered > 0 {
        line("known, but not to the switch", finding.unanswered.to_string(), String::new());
    }
    table.to_string()
}

/// Writes Table 1 of the paper, with the paper's results and ours.
fn first_table(findings: &[Finding]) -> String {
    let mut table = TextTable::new([
        "Table 1",
        "",
        "filters",
        "matched",
        "rules",
        "compact",
        "levels",
        "mods/rule",
        "barriers",
        "again",
        "missed then",
        "wrong",
    ]);
    for (at, finding) in findings.iter().enumerate() {
        let m = &finding.measured;
        table.row([
            finding.set.clone(),
            finding.compiler.name().into(),
            m.filters.to_string(),
            m.matched.to_string(),
            m.rules.to_string(),
            number(compactness(m), 2),
            m.levels.to_string(),
            number(m.mods_per_rule, 2),
            m.barriers.to_string(),
            m.reprioritised.to_string(),
            m.misses_then.map_or(String::new(), |misses| misses.to_string()),
            m.wrong.to_string(),
        ]);
        if let Some(row) = published_after(findings, at) {
            table.row([
                String::new(),
                "published".into(),
                row.filters.to_string(),
                row.matched.to_string(),
                row.rules.to_string(),
                number(f64::from(row.rules) / f64::from(row.filters), 2),
                row.levels.to_string(),
                number(row.mods_per_rule, 2),
            ]);
        }
    }
    table.to_string()
}

/// Writes Table 2 of the paper, with the paper's results and ours.
fn second_table(findings: &[Finding]) -> String {
    let mut table = TextTable::new([
        "Table 2",
        "",
        "augments/s",
        "look-ups/s",
        "hosts/s",
        "ports/s",
        "f µs",
        "f alone µs",
        "augment µs",
        "bytes/trace",
    ]);
    for (at, finding) in findings.iter().enumerate() {
        let m = &finding.measured;
        table.row([
            finding.set.clone(),
            finding.compiler.name().into(),
            number(m.augments_per_s, 0),
            number(m.lookups_per_s, 0),
            number(m.host_invalidations_per_s, 0),
            number(m.port_invalidations_per_s, 0),
            number(m.f_us, 1),
            number(m.f_alone_us, 1),
            number(m.augment_us, 1),
            m.bytes_per_trace.map_or("?".into(), |bytes| number(bytes, 0)),
        ]);
        if let Some(row) = published_after(findings, at) {
            table.row([
                String::new(),
                "published".into(),
                number(row.augments_per_s, 0),
                row.lookups_per_s.to_string(),
                row.host_invalidations_per_s.to_string(),
                row.port_invalidations_per_s.to_string(),
            ]);
        }
    }
    table.to_string()
}

/// The paper's row of a set, after our last result for it.
fn published_after(findings: &[Finding], at: usize) -> Option<&'static Published> {
    let is_last = findings.get(at + 1).is_none_or(|next| next.set != findings[at].set);
    if is_last { published(&findings[at].set) } else { None }
}

/// The number of rules for each filter of the set.
fn compactness(m: &Measured) -> f64 {
    m.rules as f64 / m.filters as f64
}

fn number(value: f64, decimals: usize) -> String {
    format!("{value:.decimals$}")
}
