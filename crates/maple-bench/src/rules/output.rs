//! Prints the results of `maple-bench rules`: a list for one set, the paper's two tables for many, JSON, plots.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::measured::RulesResult;
use super::published::{Published, published};
use super::{Compiler, Finding};
use crate::report::{Chart, PlotError, Series, TextTable};

/// Returns the results as JSON: those of one set and compiler, or (`nested`) by set and compiler.
pub(super) fn json(findings: &[Finding], nested: bool) -> String {
    let text = match findings {
        [one] if !nested => serde_json::to_string_pretty(&one.measured),
        _ => {
            let mut sets: BTreeMap<&str, BTreeMap<&str, &RulesResult>> = BTreeMap::new();
            for finding in findings {
                sets.entry(&finding.set).or_default().insert(finding.compiler.name(), &finding.measured);
            }
            serde_json::to_string_pretty(&sets)
        }
    };
    text.expect("numbers and names are valid JSON")
}

/// Returns the results as text.
pub(super) fn text(findings: &[Finding]) -> String {
    match findings {
        [one] => single(one),
        _ => format!(
            "{}\n{}\n{}",
            beside_paper("Table 1", &FIRST, findings),
            beside_paper("Table 2", &SECOND, findings),
            REMARK
        ),
    }
}

const REMARK: &str = "published: SIGCOMM 2013, on other sets of the same names and a 2013 machine
speeds are those of the fastest pass; --json also has the medians";

/// Writes plots, and returns their paths.
pub(super) fn plot(findings: &[Finding], folder: &Path) -> Result<Vec<PathBuf>, PlotError> {
    let mut paths = Vec::new();
    if findings.iter().any(|finding| finding.set != findings[0].set) {
        for (title, unit, log, value) in COMPARED {
            paths.push(compared(findings, title, unit, *log, *value).write(folder)?);
        }
    } else {
        paths.push(growth_chart(findings).write(folder)?);
    }
    Ok(paths)
}

type Value = fn(&RulesResult) -> f64;

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
        let own = findings.iter().filter(|finding| finding.compiler == compiler);
        let points = own.map(|finding| (place(&finding.set), value(&finding.measured))).collect();
        Series { name: format!("--compiler {}", compiler.name()), points }
    });
    let series = series.filter(|series: &Series| !series.points.is_empty()).collect();
    let (title, x, y) = (title.into(), "filter set".into(), unit.into());
    Chart { title, x, y, log_x: false, log_y, labels, series }
}

fn growth_chart(findings: &[Finding]) -> Chart {
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

/// A column of a table: its head, our result, and the paper's.
type Column = (&'static str, fn(&RulesResult) -> String, fn(&Published) -> String);

const UNPUBLISHED: fn(&Published) -> String = |_| String::new();

/// Table 1 of the paper.
const FIRST: [Column; 10] = [
    ("filters", |m| m.filters.to_string(), |p| p.filters.to_string()),
    ("matched", |m| m.matched.to_string(), |p| p.matched.to_string()),
    ("rules", |m| m.rules.to_string(), |p| p.rules.to_string()),
    ("compact", |m| number(compactness(m), 2), |p| number(f64::from(p.rules) / f64::from(p.filters), 2)),
    ("levels", |m| m.levels.to_string(), |p| p.levels.to_string()),
    ("mods/rule", |m| number(m.mods_per_rule, 2), |p| number(p.mods_per_rule, 2)),
    ("barriers", |m| m.barriers.to_string(), UNPUBLISHED),
    ("again", |m| m.reprioritised.to_string(), UNPUBLISHED),
    ("missed then", |m| m.misses_then.map_or(String::new(), |misses| misses.to_string()), UNPUBLISHED),
    ("wrong", |m| m.wrong.to_string(), UNPUBLISHED),
];

/// Table 2 of the paper.
const SECOND: [Column; 8] = [
    ("augments/s", |m| number(m.augments_per_s, 0), |p| number(p.augments_per_s, 0)),
    ("look-ups/s", |m| number(m.lookups_per_s, 0), |p| p.lookups_per_s.to_string()),
    ("hosts/s", |m| number(m.host_invalidations_per_s, 0), |p| p.host_invalidations_per_s.to_string()),
    ("ports/s", |m| number(m.port_invalidations_per_s, 0), |p| p.port_invalidations_per_s.to_string()),
    ("f µs", |m| number(m.f_us, 1), UNPUBLISHED),
    ("f alone µs", |m| number(m.f_alone_us, 1), UNPUBLISHED),
    ("augment µs", |m| number(m.augment_us, 1), UNPUBLISHED),
    ("bytes/trace", |m| m.bytes_per_trace.map_or("?".into(), |bytes| number(bytes, 0)), UNPUBLISHED),
];

/// Writes a table of the paper, with the paper's results and ours.
fn beside_paper(name: &'static str, columns: &[Column], findings: &[Finding]) -> String {
    let mut table = TextTable::new([name, ""].into_iter().chain(columns.iter().map(|(head, ..)| *head)));
    for (at, finding) in findings.iter().enumerate() {
        let ours = columns.iter().map(|(_, ours, _)| ours(&finding.measured));
        table.row([finding.set.clone(), finding.compiler.name().into()].into_iter().chain(ours));
        if let Some(row) = published_after(findings, at) {
            let theirs = columns.iter().map(|(.., theirs)| theirs(row));
            table.row([String::new(), "published".into()].into_iter().chain(theirs));
        }
    }
    table.to_string()
}

/// Returns the paper's row of a set, after our last result for it.
fn published_after(findings: &[Finding], at: usize) -> Option<&'static Published> {
    let is_last = findings.get(at + 1).is_none_or(|next| next.set != findings[at].set);
    if is_last { published(&findings[at].set) } else { None }
}

/// Returns the number of rules for each filter of the set.
fn compactness(m: &RulesResult) -> f64 {
    m.rules as f64 / m.filters as f64
}

fn number(value: f64, decimals: usize) -> String {
    format!("{value:.decimals$}")
}
