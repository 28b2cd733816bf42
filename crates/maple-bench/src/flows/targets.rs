//! Targets for the cost of new flows, compared with the results.

use serde::Serialize;

use super::results::Row;
use crate::report::TextTable;

/// New flows per second on one core: (switches of the line, policy in Rust, policy in Python).
const FLOWS: [(u32, f64, f64); 2] = [(1, 150_000.0, 80_000.0), (16, 80_000.0, 50_000.0)];
/// The maximum ratio of a flow's time with most leaves to that with fewest.
const LEAVES: f64 = 1.5;
/// The maximum ratio of a flow's time with most ports to that with fewest.
const PORTS: f64 = 1.2;
/// The maximum number of bytes for each leaf.
const BYTES: f64 = 1_200.0;

/// A target and its result.
#[derive(Debug, Serialize)]
pub struct TargetResult {
    /// The measured quantity.
    pub what: String,
    /// The target.
    pub target: String,
    /// The result.
    pub measured: String,
    /// Whether the target is reached.
    pub is_met: bool,
}

impl TargetResult {
    fn at_least(what: String, target: f64, measured: f64) -> TargetResult {
        let (is_met, measured) = (measured >= target, format!("{measured:.0}"));
        TargetResult { what, target: format!("≥ {target:.0}"), measured, is_met }
    }

    fn at_most(what: String, target: f64, measured: f64, digits: usize) -> TargetResult {
        let (is_met, measured) = (measured <= target, format!("{measured:.digits$}"));
        TargetResult { what, target: format!("≤ {target:.digits$}"), measured, is_met }
    }

    /// Creates a target that is not reached because there is no result.
    pub fn missed(what: String, target: String, why: String) -> TargetResult {
        TargetResult { what, target, measured: why, is_met: false }
    }

    /// Creates a target that is an upper bound.
    pub fn bound(what: impl Into<String>, target: f64, measured: f64, digits: usize) -> TargetResult {
        TargetResult::at_most(what.into(), target, measured, digits)
    }

    /// Creates a target that is a lower bound.
    pub fn floor(what: impl Into<String>, target: f64, measured: f64) -> TargetResult {
        TargetResult::at_least(what.into(), target, measured)
    }
}

/// Writes the verdicts as a table.
pub fn table(verdicts: &[TargetResult]) -> TextTable {
    let mut table = TextTable::new(["target", "is to be", "is", ""]);
    for TargetResult { what, target, measured, is_met } in verdicts {
        let mark = if *is_met { "met" } else { "missed" };
        table.row([what.as_str(), target, measured, mark]);
    }
    table
}

/// Returns the targets of Maple's rows. Targets of a single row apply to the row with the most leaves.
pub fn judge_rows(rows: &[Row]) -> Vec<TargetResult> {
    let ours: Vec<&Row> = rows.iter().filter(|row| is_ours(&row.controller)).collect();
    let most = |row: &&&Row| {
        !ours.iter().any(|other| row_name(other) == row_name(row) && other.middle.leaves > row.middle.leaves)
    };
    let mut verdicts: Vec<TargetResult> = ours.iter().filter(most).flat_map(|row| alone(row)).collect();
    let leaves = |row: &Row| row.middle.leaves as f64;
    verdicts.extend(against(&ours, "leaves", LEAVES, leaves, |row| (row.setting.line, row.setting.ports)));
    let ports = |row: &Row| f64::from(row.setting.ports);
    verdicts.extend(against(&ours, "ports", PORTS, ports, |row| (row.setting.line, row.middle.leaves as u32)));
    verdicts
}

fn is_ours(name: &str) -> bool {
    name.starts_with("builtin:") || is_python(name)
}

fn is_python(name: &str) -> bool {
    name.split(' ').next().is_some_and(|file| file.ends_with(".py") || file.contains(".py:"))
}

fn row_name(row: &Row) -> String {
    format!("{}, line:{}, OpenFlow {}, {} ports", row.controller, row.setting.line, row.of, row.setting.ports)
}

/// Returns the targets of a single row.
fn alone(row: &Row) -> Vec<TargetResult> {
    let name = format!("{}, {} leaves", row_name(row), row.middle.leaves);
    let mut verdicts = Vec::new();
    if let Some((_, rust, python)) = FLOWS.iter().find(|(line, ..)| *line == row.setting.line) {
        let target = if is_python(&row.controller) { *python } else { *rust };
        verdicts.push(TargetResult::at_least(format!("flows/s: {name}"), target, row.middle.flows));
    }
    let most = 1.0 + row.middle.to_controller;
    verdicts.push(TargetResult::at_most(format!("flow-mods a flow: {name}"), most + 0.05, row.middle.flow_mods, 2));
    verdicts.push(TargetResult::at_most(format!("B/leaf: {name}"), BYTES, row.middle.bytes, 0));
    verdicts
}

/// Returns the targets for the ratio of a flow's time with the largest and the smallest `x`, among rows that agree
/// otherwise. The least time of each counts, because other programs can only increase it.
fn against(
    rows: &[&Row],
    what: &str,
    target: f64,
    x: impl Fn(&Row) -> f64,
    rest: impl Fn(&Row) -> (u32, u32),
) -> Vec<TargetResult> {
    let key = |row: &Row| (row.controller.clone(), row.of.clone(), rest(row));
    let mut groups: Vec<Vec<&Row>> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|group| key(group[0]) == key(row)) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    let compared = groups.into_iter().filter_map(|group| {
        let (controller, of) = (&group[0].controller, &group[0].of);
        let least = group.iter().min_by(|a, b| x(a).total_cmp(&x(b)))?;
        let most = group.iter().max_by(|a, b| x(a).total_cmp(&x(b)))?;
        let times = most.least_cpu_us / least.least_cpu_us;
        let line = most.setting.line;
        let of_what = if what == "leaves" {
            format!("{} ports", most.setting.ports)
        } else {
            format!("{} leaves", most.middle.leaves)
        };
        let name = format!(
            "time a flow, {} to {} {what}: {controller}, line:{line}, OpenFlow {of}, {of_what}",
            x(least),
            x(most)
        );
        (x(least) < x(most)).then(|| TargetResult::at_most(name, target, times, 2))
    });
    compared.collect()
}

#[cfg(test)]
mod tests {
    use super::super::results::rows;
    use super::super::results::tests::{point, setting};
    use super::*;

    #[test]
    fn rows_are_compared_with_those_that_differ_in_one_thing_only() {
        let rounds = |factor: f64| vec![vec![point(1000, 200_000.0 * factor), point(100_000, 100_000.0 * factor)]];
        let mut made = rows("builtin:shortest-path", &setting(1, 16), rounds(1.0), &[]);
        made.extend(rows("builtin:shortest-path", &setting(1, 1000), rounds(0.9), &[]));
        made.extend(rows("other", &setting(1, 16), rounds(0.001), &[]));
        let verdicts = judge_rows(&made);
        let reported = |start: &str| -> Vec<(&str, bool)> {
            let fits = verdicts.iter().filter(|verdict| verdict.what.starts_with(start));
            fits.map(|verdict| (verdict.measured.as_str(), verdict.is_met)).collect()
        };
        assert_eq!(reported("flows/s"), [("100000", false), ("90000", false)]);
        assert_eq!(reported("time a flow, 1000 to 100000 leaves"), [("2.00", false), ("2.00", false)]);
        assert_eq!(reported("time a flow, 16 to 1000 ports"), [("1.11", true), ("1.11", true)]);
        assert_eq!(reported("flow-mods"), [("1.50", true); 2]);
        assert!(table(&verdicts).to_string().contains("missed"));
    }

    #[test]
    fn a_policy_in_python_has_targets_of_its_own() {
        let made = rows("examples/p.py:f", &setting(16, 16), vec![vec![point(1000, 60_000.0)]], &[]);
        let verdict = &judge_rows(&made)[0];
        assert_eq!((verdict.target.as_str(), verdict.is_met), ("≥ 50000", true));
    }
}
