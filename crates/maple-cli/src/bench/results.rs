//! What `maple bench throughput` has measured, as a table, as JSON and as plots.

use maple_bench::Output;
use maple_bench::report::{Chart, Series, TextTable};
use maple_load::Report;
use serde::Serialize;

use crate::say;

/// One point of the sweep: the median round.
#[derive(Debug, Serialize)]
pub struct Point {
    switches: u32,
    window: u32,
    /// Worker threads of the controller.
    workers: u8,
    /// Packet-ins a second that were offered, where a rate was.
    offered: Option<f64>,
    /// Answers a second.
    pub answers: f64,
    /// Times from packet-in to answer, in microseconds.
    p50: f64,
    p95: f64,
    p99: f64,
    /// Shares of answers and the time that each did not exceed.
    curve: Vec<(f64, f64)>,
    /// Answers of the switch that got fewest, by those of the one that got most.
    evenness: f64,
    /// Switches without an answer.
    silent: usize,
    /// Percent of a core that the controller used.
    cpu: Option<f64>,
    /// Its resident memory.
    mib: Option<f64>,
    /// Why it is no result.
    doubts: Vec<String>,
}

impl Point {
    /// What a load on a controller with so many workers showed.
    pub fn new(workers: u8, report: &Report) -> Point {
        Point {
            switches: report.switches,
            window: report.window,
            workers,
            offered: report.offered,
            answers: report.answers,
            p50: report.latency.p50,
            p95: report.latency.p95,
            p99: report.latency.p99,
            curve: report.curve.clone(),
            evenness: report.slowest_switch / report.fastest_switch.max(1.0),
            silent: report.silent_switches,
            cpu: report.controller_cpu,
            mib: report.controller_mib,
            doubts: report.doubts.clone(),
        }
    }
}

/// One controller's points, in the order of the sweep.
#[derive(Debug, Serialize)]
struct Measured {
    name: String,
    points: Vec<Point>,
}

/// All points of all controllers; the first is Maple.
#[derive(Debug, Serialize)]
pub struct Results {
    of: String,
    macs: u32,
    controllers: Vec<Measured>,
}

impl Results {
    /// Nothing yet of these controllers.
    pub fn new(names: Vec<String>, of: String, macs: u32) -> Results {
        let controllers = names.into_iter().map(|name| Measured { name, points: Vec::new() }).collect();
        Results { of, macs, controllers }
    }

    /// Adds a point of the controller with this number.
    pub fn add(&mut self, controller: usize, point: Point) {
        self.controllers[controller].points.push(point);
    }

    /// Whether no figure is the generator's.
    pub fn are_all_results(&self) -> bool {
        self.points().all(|(_, point)| point.doubts.is_empty())
    }

    /// Tells it as asked.
    pub fn tell(&self, output: &Output) -> anyhow::Result<()> {
        if output.json {
            say(serde_json::to_string_pretty(self)?)
        } else {
            say(self.table())
        }
        for chart in output.plot.iter().flat_map(|_| self.charts()) {
            if let Some(folder) = &output.plot {
                eprintln!("maple: wrote {}", chart.write(folder)?.display());
            }
        }
        Ok(())
    }

    fn points(&self) -> impl Iterator<Item = (&Measured, &Point)> {
        self.controllers.iter().flat_map(|measured| measured.points.iter().map(move |point| (measured, point)))
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
            "MiB",
        ]);
        let mut doubts = String::new();
        for at in 0..self.controllers.iter().map(|measured| measured.points.len()).max().unwrap_or(0) {
            for (measured, point) in self.controllers.iter().filter_map(|m| Some((m, m.points.get(at)?))) {
                table.row(self.row(at, measured, point));
                for doubt in &point.doubts {
                    let (name, switches, window) = (&measured.name, point.switches, point.window);
                    doubts += &format!("NO RESULT: {name}, {switches} switches, window {window}: {doubt}\n");
                }
            }
        }
        format!("OpenFlow {}, {} addresses a switch\n{table}{doubts}", self.of, self.macs).trim_end().to_owned()
    }

    fn row(&self, at: usize, measured: &Measured, point: &Point) -> Vec<String> {
        let ours = self.controllers[0].points.get(at).map_or(0.0, |point| point.answers);
        vec![
            measured.name.clone(),
            point.switches.to_string(),
            point.window.to_string(),
            point.workers.to_string(),
            point.offered.map(|offered| format!("{offered:.0}")).unwrap_or_default(),
            format!("{:.0}", point.answers),
            // What Maple makes of this one's figure.
            if point.answers > 0.0 { format!("{:.2}", ours / point.answers) } else { String::new() },
            format!("{:.0}", point.p50),
            format!("{:.0}", point.p95),
            format!("{:.0}", point.p99),
            format!("{:.2}", point.evenness),
            point.silent.to_string(),
            point.cpu.map(|cpu| format!("{cpu:.0}")).unwrap_or_default(),
            point.mib.map(|mib| format!("{mib:.1}")).unwrap_or_default(),
        ]
    }

    /// The charts that have a line: of one point there is none.
    fn charts(&self) -> Vec<Chart> {
        let plain = |point: &Point| point.offered.is_none();
        let answers = |point: &Point| point.answers;
        let switches = |point: &Point| f64::from(point.switches);
        let chart = |title: &str, x: &str, y: &str, log_x, series| Chart {
            title: title.into(),
            x: x.into(),
            y: y.into(),
            log_x,
            log_y: false,
            labels: Vec::new(),
            series,
        };
        let by_window = |m: &Measured, p: &Point| format!("{}, window {}, {} workers", m.name, p.window, p.workers);
        let by_switches = |m: &Measured, p: &Point| format!("{}, {} switches", m.name, p.switches);
        let latency = |point: &Point| point.p95;
        let mut charts = vec![
            chart(
                "Throughput against switches",
                "switches",
                "answers a second",
                true,
                self.series(plain, by_window, |p| (switches(p), answers(p))),
            ),
            chart(
                "Throughput against workers",
                "workers",
                "answers a second",
                false,
                self.series(plain, by_switches, |p| (f64::from(p.workers), answers(p))),
            ),
            chart(
                "Latency against switches",
                "switches",
                "95th percentile, µs",
                true,
                self.series(plain, by_window, |p| (switches(p), latency(p))),
            ),
            chart(
                "Delay against rate",
                "packet-ins a second",
                "95th percentile, µs",
                false,
                self.series(|p| !plain(p), by_switches, |p| (answers(p), latency(p))),
            ),
        ];
        let distribution = self.points().filter(|(_, point)| plain(point)).map(|(measured, point)| Series {
            name: format!("{}, {} switches, window {}", measured.name, point.switches, point.window),
            points: point.curve.iter().map(|(share, time)| (time.max(0.1), *share)).collect(),
        });
        charts.push(chart("Latency distribution", "µs", "share of answers", true, distribution.collect()));
        charts.retain(|chart| chart.series.iter().any(|series| series.points.len() > 1));
        charts
    }

    /// Points of one name are one line, in their order.
    fn series(
        &self,
        wanted: impl Fn(&Point) -> bool,
        name: impl Fn(&Measured, &Point) -> String,
        place: impl Fn(&Point) -> (f64, f64),
    ) -> Vec<Series> {
        let mut series: Vec<Series> = Vec::new();
        for (measured, point) in self.points().filter(|(_, point)| wanted(point)) {
            let name = name(measured, point);
            match series.iter_mut().find(|series| series.name == name) {
                Some(series) => series.points.push(place(point)),
                None => series.push(Series { name, points: vec![place(point)] }),
            }
        }
        series
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(switches: u32, answers: f64, doubts: Vec<String>) -> Point {
        let (window, workers, offered) = (512, 1, None);
        let [p50, p95, p99] = [1.0, 2.0, 3.0];
        let curve = vec![(0.5, 1.0), (1.0, 5.0)];
        let (evenness, silent, cpu, mib) = (1.0, 0, Some(99.0), Some(3.0));
        Point { switches, window, workers, offered, answers, p50, p95, p99, curve, evenness, silent, cpu, mib, doubts }
    }

    #[test]
    fn ratios_are_what_maple_makes_of_the_others_figures() {
        let mut results = Results::new(vec!["maple".into(), "other".into()], "1.0".into(), 10);
        for (switches, ours, theirs) in [(1, 100.0, 50.0), (16, 300.0, 100.0)] {
            results.add(0, point(switches, ours, vec![]));
            results.add(1, point(switches, theirs, vec!["of no use".into()]));
        }
        let table = results.table();
        let ratios: Vec<&str> =
            table.lines().skip(2).filter_map(|line| line.split_whitespace().nth(5)).take(4).collect();
        assert_eq!(ratios, ["1.00", "2.00", "1.00", "3.00"], "{table}");
        assert!(table.ends_with("NO RESULT: other, 16 switches, window 512: of no use"), "{table}");
        assert!(!results.are_all_results());
        let titles: Vec<_> = results.charts().into_iter().map(|chart| (chart.title, chart.series.len())).collect();
        assert_eq!(titles[0], ("Throughput against switches".to_owned(), 2));
        assert!(titles.iter().all(|(title, _)| title != "Delay against rate"), "no rate was offered");
    }
}
