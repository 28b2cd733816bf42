//! The results of all rounds, as a table, as JSON and as plots.

use serde::Serialize;

use super::round::{Point, Setting};
use super::targets;
use crate::error::BenchError;
use crate::output::Output;
use crate::report::{Chart, Series, TextTable};

/// A row: one controller, one line of switches, and a number of present leaves.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The policy, or the other controller's name.
    pub controller: String,
    #[serde(flatten)]
    pub setting: Setting,
    /// OpenFlow version.
    pub of: String,
    /// The rounds that reached this number of leaves.
    pub rounds: usize,
    /// New flows per second in the fastest round.
    pub fastest: f64,
    /// The controller's processor time for a flow in the fastest round, in microseconds.
    pub least_cpu_us: f64,
    /// Bytes of the controller's heap for each leaf, by its own count.
    pub heap_bytes: Option<f64>,
    /// The median round.
    #[serde(flatten)]
    pub middle: Point,
}

/// Returns the rows of a controller on a line: one for each number of leaves that a round reached.
pub fn rows(name: &str, setting: &Setting, rounds: Vec<Vec<Point>>, heap: &[(usize, f64)]) -> Vec<Row> {
    let all: Vec<Point> = rounds.into_iter().flatten().collect();
    let row = |leaves: usize| {
        let here: Vec<&Point> = all.iter().filter(|point| point.leaves == leaves).collect();
        let sure: Vec<&Point> = here.iter().copied().filter(|point| point.doubts.is_empty()).collect();
        let counted = if sure.is_empty() { here } else { sure };
        let heap = heap.iter().find(|(at, _)| *at == leaves).map(|(_, bytes)| *bytes);
        row_from_points(name, setting, counted, heap)
    };
    setting.marks.iter().filter_map(|(leaves, _)| row(*leaves)).collect()
}

fn row_from_points(name: &str, setting: &Setting, mut points: Vec<&Point>, heap_bytes: Option<f64>) -> Option<Row> {
    points.sort_by(|a, b| a.flows.total_cmp(&b.flows));
    let middle = *points.get(points.len().checked_sub(1)? / 2)?;
    Some(Row {
        controller: name.to_owned(),
        setting: setting.clone(),
        of: setting.version.to_string(),
        rounds: points.len(),
        fastest: points.last()?.flows,
        least_cpu_us: points.iter().map(|point| point.cpu_us).fold(f64::INFINITY, f64::min),
        heap_bytes,
        middle: middle.clone(),
    })
}

/// All rows.
#[derive(Debug, Serialize)]
pub struct Results {
    rows: Vec<Row>,
    targets: Vec<targets::TargetResult>,
}

impl Results {
    pub fn new(rows: Vec<Row>) -> Results {
        Results { targets: targets::judge_rows(&rows), rows }
    }

    /// Reports whether all rows are valid results, which the network did not limit.
    pub fn are_all_results(&self) -> bool {
        !self.rows.is_empty() && self.rows.iter().all(|row| row.middle.doubts.is_empty())
    }

    /// Prints the results.
    ///
    /// # Errors
    /// If a chart can't be written.
    pub fn report(&self, output: &Output) -> Result<(), BenchError> {
        output.print(self, || self.text(), || self.charts())
    }

    fn text(&self) -> String {
        let mut table = TextTable::new([
            "controller",
            "line",
            "OF",
            "ports",
            "leaves",
            "flows/s",
            "fastest",
            "CPU µs",
            "least",
            "network could",
            "p50 µs",
            "p99 µs",
            "flow-mods",
            "to contr.",
            "barriers",
            "packet-ins",
            "edge rules",
            "core rules",
            "B/leaf",
            "heap B/leaf",
        ]);
        let mut doubts = String::new();
        for row in &self.rows {
            table.row(cells(row));
            for doubt in &row.middle.doubts {
                let Row { controller, middle: Point { leaves, .. }, setting, .. } = row;
                doubts += &format!("NO RESULT: {controller}, line:{}, {leaves} leaves: {doubt}\n", setting.line);
            }
        }
        let mut text = format!("{table}{doubts}");
        if !self.targets.is_empty() {
            text += &format!("\n{}", targets::table(&self.targets));
        }
        text.trim_end().to_owned()
    }

    /// Charts flows per second against the length of the line and against the leaves, if these vary.
    fn charts(&self) -> Vec<Chart> {
        let by_length = |row: &Row| (f64::from(row.setting.line), format!("{} leaves", row.middle.leaves));
        let by_leaves = |row: &Row| (row.middle.leaves as f64, format!("line:{}", row.setting.line));
        let charts = [
            self.chart("New flows against length", "switches of the line", by_length),
            self.chart("New flows against leaves", "leaves present", by_leaves),
        ];
        charts.into_iter().filter(|chart| chart.series.iter().any(|series| series.points.len() > 1)).collect()
    }

    fn chart(&self, title: &str, x: &str, place: impl Fn(&Row) -> (f64, String)) -> Chart {
        let mut series: Vec<Series> = Vec::new();
        for row in &self.rows {
            let (x, name) = place(row);
            let name = format!("{}, OpenFlow {}, {} ports, {name}", row.controller, row.of, row.setting.ports);
            let point = (x.max(1.0), row.middle.flows.max(1.0));
            match series.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push(point),
                None => series.push(Series { name, points: vec![point] }),
            }
        }
        Chart {
            title: title.to_owned(),
            x: x.to_owned(),
            y: "new flows a second".to_owned(),
            log_x: true,
            log_y: true,
            labels: Vec::new(),
            series,
        }
    }
}

fn cells(row: &Row) -> Vec<String> {
    vec![
        row.controller.clone(),
        row.setting.line.to_string(),
        row.of.clone(),
        row.setting.ports.to_string(),
        row.middle.leaves.to_string(),
        format!("{:.0}", row.middle.flows),
        format!("{:.0}", row.fastest),
        format!("{:.1}", row.middle.cpu_us),
        format!("{:.1}", row.least_cpu_us),
        format!("{:.0}", row.middle.ceiling),
        format!("{:.0}", row.middle.p50),
        format!("{:.0}", row.middle.p99),
        format!("{:.2}", row.middle.flow_mods),
        format!("{:.2}", row.middle.to_controller),
        format!("{:.2}", row.middle.barriers),
        format!("{:.2}", row.middle.packet_ins),
        row.middle.edge_rules.to_string(),
        row.middle.core_rules.map(|rules| rules.to_string()).unwrap_or_default(),
        format!("{:.0}", row.middle.bytes),
        row.heap_bytes.map(|bytes| format!("{bytes:.0}")).unwrap_or_default(),
    ]
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use maple_load::flows::Spread;
    use maple_wire::Version;

    pub fn setting(line: u32, ports: u32) -> Setting {
        let marks = vec![(1000, 100), (100_000, 100)];
        Setting { line, spread: Spread::Ends, ports, hosts: 4, version: Version::Of13, marks }
    }

    pub fn point(leaves: usize, flows: f64) -> Point {
        Point { leaves, flows, cpu_us: 1e6 / flows, flow_mods: 1.5, to_controller: 0.5, ..Point::default() }
    }

    #[test]
    fn a_row_is_the_median_of_the_rounds_that_came_so_far_and_are_sure() {
        let unsure = Point { doubts: vec!["it waited".into()], ..point(1000, 5.0) };
        let rounds = vec![
            vec![point(1000, 30.0), point(100_000, 3.0)],
            vec![point(1000, 20.0)],
            vec![point(1000, 10.0), point(100_000, 4.0)],
            vec![unsure.clone()],
        ];
        let made = rows("maple", &setting(1, 16), rounds, &[(1000, 700.0)]);
        let reported = |row: &Row| (row.middle.leaves, row.rounds, row.middle.flows, row.fastest, row.heap_bytes);
        assert_eq!(
            made.iter().map(reported).collect::<Vec<_>>(),
            [(1000, 3, 20.0, 30.0, Some(700.0)), (100_000, 2, 3.0, 4.0, None)]
        );
        let unsure = Results::new(rows("maple", &setting(1, 16), vec![vec![unsure]], &[]));
        assert!(!unsure.are_all_results());
        assert!(unsure.text().contains("NO RESULT: maple, line:1, 1000 leaves: it waited"), "{}", unsure.text());
    }

    #[test]
    fn a_chart_has_a_line_for_each_that_is_compared() {
        let rounds = || vec![vec![point(1000, 30.0), point(100_000, 3.0)]];
        let made: Vec<Row> =
            [1, 2].into_iter().flat_map(|line| rows("maple", &setting(line, 16), rounds(), &[])).collect();
        let charts = Results::new(made).charts();
        assert_eq!(charts.len(), 2);
        assert!(charts.iter().all(|chart| chart.series.len() == 2 && chart.series[0].points.len() == 2));
    }
}
