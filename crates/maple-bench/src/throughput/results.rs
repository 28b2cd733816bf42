//! The results of `maple-bench throughput`, as a table, as JSON and as plots.

use maple_load::Report;
use serde::Serialize;

use super::charts::charts;
use crate::error::BenchError;
use crate::output::Output;
use crate::report::TextTable;

/// One point of the sweep: the median round.
#[derive(Debug, Serialize)]
pub struct Point {
    /// The number of switches.
    pub switches: u32,
    /// Maximum number of unanswered packet-ins of a switch.
    pub window: u32,
    /// Worker threads of the controller.
    pub workers: u8,
    /// Packet-ins a second that were offered, in rate mode.
    pub offered: Option<f64>,
    /// The number of packet-ins that were due together at one switch, in rate mode.
    pub burst: Option<u32>,
    /// Answers a second.
    pub answers: f64,
    /// Times from packet-in to answer, in microseconds.
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    /// Shares of answers, and the time in microseconds that each did not exceed.
    pub curve: Vec<(f64, f64)>,
    /// Answers of the slowest switch divided by those of the fastest.
    pub evenness: f64,
    /// Switches without an answer.
    pub silent: usize,
    /// Percent of a core that the controller used.
    pub cpu: Option<f64>,
    /// Nanoseconds of processor time for each answer.
    pub nanoseconds: Option<f64>,
    /// The controller's resident memory, in MiB.
    pub mib: Option<f64>,
    /// The reasons why the result is invalid, if it is.
    pub doubts: Vec<String>,
}

impl Point {
    /// Creates the point of a load on a controller with this number of workers.
    pub fn new(workers: u8, report: &Report) -> Point {
        Point {
            switches: report.switches,
            window: report.window,
            workers,
            offered: report.offered,
            burst: report.burst,
            answers: report.answers,
            p50: report.latency.p50,
            p95: report.latency.p95,
            p99: report.latency.p99,
            curve: report.curve.clone(),
            evenness: report.slowest_switch / report.fastest_switch.max(1.0),
            silent: report.silent_switches,
            cpu: report.controller_cpu,
            nanoseconds: report.controller_cpu.map(|cpu| cpu * 1e7 / report.answers.max(1.0)),
            mib: report.controller_mib,
            doubts: report.doubts.clone(),
        }
    }
}

/// One controller's points, in the order of the sweep.
#[derive(Debug, Serialize)]
struct ControllerPoints {
    name: String,
    points: Vec<Point>,
}

/// All points of all controllers. Maple comes first.
#[derive(Debug, Serialize)]
pub struct Results {
    of: String,
    /// The load of the switches, as text.
    packets: String,
    controllers: Vec<ControllerPoints>,
}

impl Results {
    /// Creates empty results of these controllers.
    pub fn new(names: Vec<String>, of: String, packets: String) -> Results {
        let controllers = names.into_iter().map(|name| ControllerPoints { name, points: Vec::new() }).collect();
        Results { of, packets, controllers }
    }

    /// Adds a point of the controller with this number.
    pub fn add(&mut self, controller: usize, point: Point) {
        self.controllers[controller].points.push(point);
    }

    /// Reports whether all points are valid results, which the generator did not limit.
    pub fn are_all_results(&self) -> bool {
        self.points().all(|(_, point)| point.doubts.is_empty())
    }

    /// Prints the results as requested.
    ///
    /// # Errors
    /// If a chart can't be written.
    pub fn report(&self, output: &Output) -> Result<(), BenchError> {
        output.print(self, || self.table(), || charts(self))
    }

    /// Iterates over all points, with their controllers' names.
    pub fn points(&self) -> impl Iterator<Item = (&str, &Point)> {
        self.controllers.iter().flat_map(|measured| measured.points.iter().map(|point| (measured.name.as_str(), point)))
    }

    fn table(&self) -> String {
        let mut table = TextTable::new([
            "controller",
            "switches",
            "window",
            "workers",
            "offered/s",
            "answers/s",
            "ratio",
            "p50 µs",
            "p95 µs",
            "p99 µs",
            "slowest/fastest",
            "silent",
            "its CPU %",
            "CPU ns each",
            "MiB",
        ]);
        let mut doubts = String::new();
        for at in 0..self.controllers.iter().map(|measured| measured.points.len()).max().unwrap_or(0) {
            for (measured, point) in self.controllers.iter().filter_map(|m| Some((m, m.points.get(at)?))) {
                table.row(self.row(at, measured, point));
                for doubt in &point.doubts {
                    let (name, switches) = (&measured.name, point.switches);
                    let load = match point.offered {
                        None => format!("window {}", point.window),
                        Some(offered) => format!("{offered:.0}/s"),
                    };
                    doubts += &format!("NO RESULT: {name}, {switches} switches, {load}: {doubt}\n");
                }
            }
        }
        format!("OpenFlow {}, {}\n{table}{doubts}", self.of, self.packets).trim_end().to_owned()
    }

    fn row(&self, at: usize, measured: &ControllerPoints, point: &Point) -> Vec<String> {
        let ours = self.controllers[0].points.get(at).map_or(0.0, |point| point.answers);
        vec![
            measured.name.clone(),
            point.switches.to_string(),
            if point.offered.is_none() { point.window.to_string() } else { String::new() },
            point.workers.to_string(),
            point.offered.map(|offered| format!("{offered:.0}")).unwrap_or_default(),
            format!("{:.0}", point.answers),
            // Maple's answers divided by those of this controller.
            if point.answers > 0.0 { format!("{:.2}", ours / point.answers) } else { String::new() },
            format!("{:.0}", point.p50),
            format!("{:.0}", point.p95),
            format!("{:.0}", point.p99),
            format!("{:.2}", point.evenness),
            point.silent.to_string(),
            point.cpu.map(|cpu| format!("{cpu:.0}")).unwrap_or_default(),
            point.nanoseconds.map(|ns| format!("{ns:.0}")).unwrap_or_default(),
            point.mib.map(|mib| format!("{mib:.1}")).unwrap_or_default(),
        ]
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Creates a point with these figures, and 100 ns of processor time for each answer.
    pub fn point(switches: u32, window: u32, answers: f64) -> Point {
        Point {
            switches,
            window,
            workers: 1,
            offered: None,
            burst: None,
            answers,
            p50: 1.0,
            p95: 2.0,
            p99: 3.0,
            curve: vec![(0.5, 1.0), (1.0, 5.0)],
            evenness: 1.0,
            silent: 0,
            cpu: Some(99.0),
            nanoseconds: Some(100.0),
            mib: Some(3.0),
            doubts: vec![],
        }
    }

    #[test]
    fn ratios_are_what_maple_makes_of_the_others_figures() {
        let mut results = Results::new(vec!["maple".into(), "other".into()], "1.0".into(), "10 addresses".into());
        for (switches, ours, theirs) in [(1, 100.0, 50.0), (16, 300.0, 100.0)] {
            results.add(0, point(switches, 512, ours));
            results.add(1, Point { doubts: vec!["of no use".into()], ..point(switches, 512, theirs) });
        }
        let table = results.table();
        let ratios: Vec<&str> =
            table.lines().skip(2).filter_map(|line| line.split_whitespace().nth(5)).take(4).collect();
        assert_eq!(ratios, ["1.00", "2.00", "1.00", "3.00"], "{table}");
        assert!(table.ends_with("NO RESULT: other, 16 switches, window 512: of no use"), "{table}");
        assert!(!results.are_all_results());
    }
}
