//! The charts of a sweep: one for each quantity with several values, the distribution of latencies, and delay against
//! rate.
//!
//! A line's name has the controller and the other quantities that vary.

use std::collections::BTreeSet;

use super::results::{Point, Results};
use crate::report::{Chart, Series};

/// A quantity of the sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Axis {
    Switches,
    Window,
    Workers,
}

const AXES: [Axis; 3] = [Axis::Switches, Axis::Window, Axis::Workers];

impl Axis {
    fn of_point(self, point: &Point) -> u32 {
        match self {
            Axis::Switches => point.switches,
            Axis::Window => point.window,
            Axis::Workers => u32::from(point.workers),
        }
    }

    fn title(self) -> &'static str {
        match self {
            Axis::Switches => "switches",
            Axis::Window => "window",
            Axis::Workers => "workers",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Axis::Switches => "switches",
            Axis::Window => "window: packet-ins of a switch without an answer",
            Axis::Workers => "worker threads of the controller",
        }
    }

    /// Returns the point's value of this quantity for a line's name.
    fn line_name(self, point: &Point) -> String {
        match (self, self.of_point(point)) {
            (Axis::Window, n) => format!("window {n}"),
            (Axis::Switches | Axis::Workers, 1) => format!("1 {}", self.title().trim_end_matches(['e', 's'])),
            (Axis::Switches | Axis::Workers, n) => format!("{n} {}", self.title()),
        }
    }
}

/// The points of a sweep with the names of their controllers.
type Points<'a> = [(&'a str, &'a Point)];

/// Returns the charts that have a line. A quantity with a single value has no chart.
pub fn charts(results: &Results) -> Vec<Chart> {
    let (closed, offered): (Vec<_>, Vec<_>) = results.points().partition(|(_, point)| point.offered.is_none());
    let varying: Vec<Axis> = AXES.into_iter().filter(|axis| varies(&closed, *axis)).collect();
    let mut charts = Vec::new();
    for &axis in &varying {
        let others: Vec<Axis> = varying.iter().copied().filter(|other| *other != axis).collect();
        let against =
            |y: fn(&Point) -> f64| lines(&closed, &others, |point| vec![(f64::from(axis.of_point(point)), y(point))]);
        let throughput = against(|point| point.answers);
        let latency = against(|point| point.p95);
        charts.push(chart("Throughput", axis, "answers a second", throughput));
        charts.push(Chart { log_y: true, ..chart("Latency", axis, "95th percentile of latency, µs", latency) });
    }
    charts.extend(distribution(&closed, &varying));
    charts.extend(delay(&offered));
    charts
}

fn chart(what: &str, axis: Axis, y: &str, series: Vec<Series>) -> Chart {
    let title = format!("{what} against {}", axis.title());
    let (x, log_x) = (axis.description().to_owned(), axis != Axis::Workers);
    Chart { title, x, y: y.to_owned(), log_x, log_y: false, labels: Vec::new(), series }
}

/// Returns the chart of the distribution of delays.
fn distribution(closed: &Points, varying: &[Axis]) -> Option<Chart> {
    let curve = |point: &Point| point.curve.iter().map(|(share, time)| (time.max(0.1), *share)).collect();
    Some(Chart {
        title: "Latency distribution".into(),
        x: "latency, µs".into(),
        y: "share of answers".into(),
        log_x: true,
        log_y: false,
        labels: Vec::new(),
        series: lines(closed, varying, curve),
    })
    .filter(|chart| !chart.series.is_empty())
}

/// Returns the chart of the median and 95th percentile of the delay at each offered rate.
fn delay(offered: &Points) -> Option<Chart> {
    let axes: Vec<Axis> = [Axis::Switches, Axis::Workers].into_iter().filter(|axis| varies(offered, *axis)).collect();
    let line = |what: &str, y: fn(&Point) -> f64| {
        let place = |point: &Point| point.offered.map(|offered| (offered, y(point))).into_iter().collect();
        let with_quantity = |series: Series| Series { name: format!("{}, {what}", series.name), ..series };
        lines(offered, &axes, place).into_iter().map(with_quantity).collect::<Vec<_>>()
    };
    Some(Chart {
        title: "Delay against offered rate".into(),
        x: "packet-ins a second offered".into(),
        y: "delay, µs".into(),
        log_x: false,
        log_y: true,
        labels: Vec::new(),
        series: [line("median", |point| point.p50), line("95th percentile", |point| point.p95)].concat(),
    })
    .filter(|chart| chart.series.iter().any(|series| series.points.len() > 1))
}

fn varies(points: &Points, axis: Axis) -> bool {
    points.iter().map(|(_, point)| axis.of_point(point)).collect::<BTreeSet<_>>().len() > 1
}

/// Groups points with the same controller and the same values of `axes` into lines, in their order.
fn lines(points: &Points, axes: &[Axis], places: impl Fn(&Point) -> Vec<(f64, f64)>) -> Vec<Series> {
    let mut lines: Vec<Series> = Vec::new();
    for (controller, point) in points {
        let words = axes.iter().map(|axis| axis.line_name(point));
        let name = [(*controller).to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(", ");
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.extend(places(point)),
            None => lines.push(Series { name, points: places(point) }),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::point;
    use super::*;

    /// Returns results with these points of Maple, and points of another controller.
    fn results(points: Vec<Point>) -> Results {
        let mut results = Results::new(vec!["maple".into(), "other".into()], "1.0".into(), "10 addresses".into());
        for ours in points {
            results.add(1, point(ours.switches, ours.window, ours.answers / 2.0));
            results.add(0, ours);
        }
        results
    }

    /// Returns the titles of the charts, with the names of their lines and their numbers of points.
    fn shown(points: Vec<Point>) -> Vec<(String, Vec<(String, usize)>)> {
        let lines = |chart: Chart| chart.series.into_iter().map(|line| (line.name, line.points.len())).collect();
        charts(&results(points)).into_iter().map(|chart| (chart.title.clone(), lines(chart))).collect()
    }

    fn named(lines: &[(&str, usize)]) -> Vec<(String, usize)> {
        lines.iter().map(|(name, points)| ((*name).to_owned(), *points)).collect()
    }

    #[test]
    fn each_quantity_that_varies_and_no_other_gets_a_chart() {
        let by_switches = shown(vec![point(1, 512, 10.0), point(16, 512, 30.0)]);
        let titles: Vec<&str> = by_switches.iter().map(|(title, _)| title.as_str()).collect();
        assert_eq!(titles, ["Throughput against switches", "Latency against switches", "Latency distribution"]);
        assert_eq!(by_switches[0].1, named(&[("maple", 2), ("other", 2)]));
        assert_eq!(by_switches[2].1[..2], named(&[("maple, 1 switch", 2), ("maple, 16 switches", 2)]));

        let by_both = shown([1, 16].into_iter().flat_map(|n| [8, 512].map(|w| point(n, w, 10.0))).collect());
        let titles: Vec<&str> = by_both.iter().map(|(title, _)| title.as_str()).collect();
        assert_eq!(titles[2..4], ["Throughput against window", "Latency against window"]);
        assert_eq!(by_both[0].1[..2], named(&[("maple, window 8", 2), ("maple, window 512", 2)]));
        assert_eq!(by_both[2].1[..2], named(&[("maple, 1 switch", 2), ("maple, 16 switches", 2)]));
    }

    #[test]
    fn a_rate_has_its_own_chart_and_is_in_no_other() {
        let at = |offered| Point { offered: Some(offered), ..point(16, 4096, offered) };
        let mut all = results(vec![point(16, 512, 10.0)]);
        [2.0, 5.0, 9.0].into_iter().for_each(|rate| all.add(0, at(rate)));
        let charts = charts(&all);
        assert_eq!(
            charts.iter().map(|chart| &chart.title[..]).collect::<Vec<_>>(),
            ["Latency distribution", "Delay against offered rate"]
        );
        let lines: Vec<(&str, usize)> =
            charts[1].series.iter().map(|line| (&line.name[..], line.points.len())).collect();
        assert_eq!(lines, [("maple, median", 3), ("maple, 95th percentile", 3)]);
        assert_eq!(charts[1].series[0].points[0], (2.0, 1.0));
    }
}
