//! The result of a load, and whether the figures are valid.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::cpu::{Cpu, Process};
use crate::histogram::Histogram;
use crate::options::{LoadOptions, Mode};
use crate::switch::Tally;
use crate::workload::Workload;

/// The share of its core, in percent, above which the generator was the bottleneck. Chosen: beyond it bursts wait for
/// the generator, so its figures are its own.
const BUSY: f64 = 90.0;
/// The share of time, in percent, above which waits for its core kept the generator from working. Chosen: a tenth of
/// the figures may then be those of the machine.
const STARVED: f64 = 10.0;
/// The share of an offered rate that must have been sent. Chosen: what rounding and the end of a run cost is less.
const OFFERED_SHARE: f64 = 0.99;
/// The lateness of 99 of 100 packet-ins that is always accepted in rate mode. Chosen: threads of a system without real
/// time wake up as late.
const ACCEPTED_LATENESS: Duration = Duration::from_millis(1);
/// The maximum part (1 / 4) of the 99th percentile of delays that lateness may be. The delay counts from when a
/// packet-in was due, so lateness only adds to it.
const PART: u64 = 4;

/// The shares at which the curve of a report has points.
const SHARES: [f64; 15] = [0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0];

/// The counters of the loop during the measurement.
pub(crate) struct Measured {
    pub elapsed: Duration,
    pub cpu: Cpu,
    pub tallies: Vec<Tally>,
    /// The time that it took for each time that all switches connected.
    pub connected: Vec<Duration>,
    /// The number of TLS sessions that were resumed when all connected for the last time.
    pub resumed: usize,
    /// The latency of the switches that do not flood.
    pub latency: Histogram,
    /// The latency of the same switches before the flood, if some switches flood.
    pub calm: Option<Histogram>,
    pub lateness: Histogram,
    pub held_back: u64,
    /// The use of cores and memory by the controller's process, if it was watched.
    pub controller: Option<Process>,
}

/// Times from a packet-in to its answer, in microseconds. In rate mode they count from when it was due.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Latency {
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub p99_9: f64,
    pub max: f64,
}

/// The result of a load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// OpenFlow version of the switches.
    pub of: String,
    /// The number of switches.
    pub switches: u32,
    /// Seconds from the first connection until every switch was asked for its features, for each time that all
    /// connected.
    pub connected: Vec<f64>,
    /// Whether the switches speak TLS.
    pub tls: bool,
    /// The number of switches that resumed a TLS session when all connected for the last time.
    pub resumed: usize,
    /// The packets of the switches, as text.
    pub packets: String,
    /// Source addresses a switch, where packets came from addresses in turn.
    pub macs: Option<u32>,
    /// The maximum number of unanswered packet-ins of one switch.
    pub window: u32,
    /// Packet-ins a second that were to be sent, in rate mode.
    pub offered: Option<f64>,
    /// The number of them that were due together at one switch.
    pub burst: Option<u32>,
    /// The time of the measurement, in seconds.
    pub seconds: f64,
    /// Packet-ins sent a second.
    pub packet_ins: f64,
    /// Answered packet-ins a second.
    pub answers: f64,
    /// Flow-mods a second.
    pub flow_mods: f64,
    /// Packet-outs a second.
    pub packet_outs: f64,
    /// Answers that belong to no packet-in.
    pub strange: u64,
    /// Packet-outs of answered requests: further copies of flooded ones.
    pub copies: u64,
    /// The time from packet-in to answer, at the switches that do not flood.
    pub latency: Latency,
    /// The latency of the same switches before the flood.
    pub latency_before_flood: Option<Latency>,
    /// The number of switches that flood.
    pub flooding: u32,
    /// Answers a second to the flooding switches.
    pub flood_answers: f64,
    /// The latency in full: shares of answers (0 to 1), each with the time in microseconds that it did not exceed.
    pub curve: Vec<(f64, f64)>,
    /// Answers a second of the slowest switch. This figure and the next three leave out the switches that flood.
    pub slowest_switch: f64,
    /// Answers a second of the fastest switch.
    pub fastest_switch: f64,
    /// The fairness among switches, from 1 / switches (one got all) to 1 (all got the same): Jain's index of answers.
    pub fairness: f64,
    /// Switches that got no answer at all.
    pub silent_switches: usize,
    /// Percent of its core that the generator used.
    pub generator_cpu: f64,
    /// Percent of the time that the generator waited for its core.
    pub generator_waited: f64,
    /// Percent of a core that the controller used, if its process was watched.
    pub controller_cpu: Option<f64>,
    /// The controller's resident memory at the end, in MiB.
    pub controller_mib: Option<f64>,
    /// The reasons why the generator limits the figures. Empty if they are valid.
    pub doubts: Vec<String>,
}

impl Report {
    pub(crate) fn from_measured(options: &LoadOptions, measured: &Measured) -> Report {
        let seconds = measured.elapsed.as_secs_f64();
        let sum = |count: fn(&Tally) -> u64| measured.tallies.iter().map(count).sum::<u64>();
        let per_second = |count: u64| count as f64 / seconds;
        let percent = |nanoseconds: u64| nanoseconds as f64 / 1e7 / seconds;
        let (others, flooding) = measured.tallies.split_at(measured.tallies.len() - options.flooding as usize);
        let answers = || others.iter().map(|tally| tally.answers);
        let (window, offered, burst) = match options.mode {
            Mode::Throughput { window } => (window, None, None),
            Mode::Rate { window, per_second, burst } => (window, Some(per_second), Some(burst)),
        };
        let mut report = Report {
            of: options.version.to_string(),
            switches: measured.tallies.len() as u32,
            connected: measured.connected.iter().map(Duration::as_secs_f64).collect(),
            tls: options.tls.is_some(),
            resumed: measured.resumed,
            packets: match &options.workload {
                Workload::Addresses => format!("{} addresses each", options.macs),
                Workload::Frames(frames) => format!("a trace of {} packets", frames.len()),
                Workload::Network(network) => {
                    format!("a network with {} links, pairs of {} hosts", network.links.len(), network.hosts.len())
                }
            },
            macs: (options.workload == Workload::Addresses).then_some(options.macs),
            window,
            offered,
            burst,
            seconds,
            packet_ins: per_second(sum(|tally| tally.sent)),
            answers: per_second(sum(|tally| tally.answers)),
            flow_mods: per_second(sum(|tally| tally.flow_mods)),
            packet_outs: per_second(sum(|tally| tally.packet_outs)),
            strange: sum(|tally| tally.strange),
            copies: sum(|tally| tally.copies),
            latency: Latency::from_histogram(&measured.latency),
            latency_before_flood: measured.calm.as_ref().map(Latency::from_histogram),
            flooding: options.flooding,
            flood_answers: per_second(flooding.iter().map(|tally| tally.answers).sum()),
            curve: SHARES.map(|share| (share, measured.latency.quantile(share) as f64 / 1e3)).to_vec(),
            slowest_switch: per_second(answers().min().unwrap_or(0)),
            fastest_switch: per_second(answers().max().unwrap_or(0)),
            fairness: fairness(answers()),
            silent_switches: answers().filter(|answers| *answers == 0).count(),
            generator_cpu: percent(measured.cpu.ran),
            generator_waited: percent(measured.cpu.waited),
            controller_cpu: measured.controller.map(|process| percent(process.ran)),
            controller_mib: measured.controller.map(|process| process.resident as f64 / f64::from(1 << 20)),
            doubts: Vec::new(),
        };
        report.doubts = report.doubts_of(measured);
        report
    }

    /// Reports whether the figures are the controller's.
    pub fn is_result(&self) -> bool {
        self.doubts.is_empty()
    }

    fn doubts_of(&self, measured: &Measured) -> Vec<String> {
        let mut doubts = Vec::new();
        if self.answers == 0.0 {
            doubts.push("no packet-in was answered".to_owned());
        }
        if self.generator_waited > STARVED {
            let waited = self.generator_waited;
            doubts.push(format!("the generator waited {waited:.0} % of the time for its core: others use it too"));
        }
        match self.offered {
            None if self.generator_cpu > BUSY => {
                let cpu = self.generator_cpu;
                doubts.push(format!("the generator used {cpu:.0} % of its core: the controller may be faster than it"));
            }
            None => {}
            Some(offered) => {
                let late = Duration::from_nanos(measured.lateness.quantile(0.99));
                if late > ACCEPTED_LATENESS.max(Duration::from_nanos(measured.latency.quantile(0.99) / PART)) {
                    doubts.push(format!("one in a hundred packet-ins was sent {late:.1?} late or more"));
                }
                if self.packet_ins < offered * OFFERED_SHARE {
                    let (sent, held) = (self.packet_ins, measured.held_back);
                    doubts.push(format!(
                        "{sent:.0} of {offered:.0} packet-ins a second were sent; {held} found the window full"
                    ));
                }
            }
        }
        doubts
    }
}

/// Returns Jain's index of fairness: the square of the sum, divided by the number times the sum of squares.
fn fairness(shares: impl Iterator<Item = u64> + Clone) -> f64 {
    let sum: f64 = shares.clone().map(|share| share as f64).sum();
    let squares: f64 = shares.clone().map(|share| (share as f64).powi(2)).sum();
    if squares == 0.0 { 0.0 } else { sum * sum / (shares.count() as f64 * squares) }
}

impl Latency {
    fn from_histogram(histogram: &Histogram) -> Latency {
        let at = |share| histogram.quantile(share) as f64 / 1e3;
        Latency { p50: at(0.5), p95: at(0.95), p99: at(0.99), p99_9: at(0.999), max: histogram.max() as f64 / 1e3 }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_load(f)?;
        self.fmt_answers(f)?;
        self.fmt_latency(f)?;
        let (cpu, waited) = (self.generator_cpu, self.generator_waited);
        write!(f, "  generator               {cpu:>12.0} % of its core, waited for it {waited:.0} %")?;
        if let (Some(cpu), Some(mib)) = (self.controller_cpu, self.controller_mib) {
            write!(f, "\n  controller              {cpu:>12.0} % of a core, {mib:.1} MiB resident")?;
        }
        self.doubts.iter().try_for_each(|doubt| write!(f, "\nNO RESULT: {doubt}"))
    }
}

impl Report {
    fn fmt_load(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { of, switches, packets, window, seconds, .. } = self;
        let tls = if self.tls { " over TLS" } else { "" };
        writeln!(f, "{switches} switches, OpenFlow {of}{tls}, {packets}, window {window}, {seconds:.1} s")?;
        for (i, seconds) in self.connected.iter().enumerate() {
            let what = if i == 0 { "all connected in" } else { "all reconnected in" };
            let resumed = if i > 0 && i + 1 == self.connected.len() && self.tls { self.resumed } else { 0 };
            let resumed = if resumed > 0 { format!(", {resumed} resumed") } else { String::new() };
            writeln!(f, "  {what:<24}{seconds:>12.3} s{resumed}")?;
        }
        if let Some(offered) = self.offered {
            let burst = self.burst.filter(|burst| *burst > 1);
            let bursts = burst.map(|burst| format!(" in bursts of {burst} at a switch")).unwrap_or_default();
            writeln!(f, "  offered                 {offered:>12.0} /s{bursts}")?;
        }
        Ok(())
    }

    fn fmt_answers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, value) in [
            ("packet-ins sent", self.packet_ins),
            ("answered", self.answers),
            ("flow-mods", self.flow_mods),
            ("packet-outs", self.packet_outs),
            ("slowest switch", self.slowest_switch),
            ("fastest switch", self.fastest_switch),
        ] {
            writeln!(f, "  {what:<24}{value:>12.0} /s")?;
        }
        writeln!(f, "  fairness                {:>12.3}", self.fairness)?;
        if self.silent_switches > 0 {
            writeln!(f, "  switches without answer {:>12}", self.silent_switches)?;
        }
        if self.strange > 0 {
            writeln!(f, "  answers to no question  {:>12}", self.strange)?;
        }
        if self.copies > 0 {
            writeln!(f, "  further copies          {:>12}", self.copies)?;
        }
        Ok(())
    }

    fn fmt_latency(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Latency { p50, p95, p99, p99_9, max } = self.latency;
        writeln!(
            f,
            "  latency µs              p50 {p50:.1}  p95 {p95:.1}  p99 {p99:.1}  p99.9 {p99_9:.1}  max {max:.1}"
        )?;
        if let Some(before) = self.latency_before_flood {
            let (flooding, answers, times) = (self.flooding, self.flood_answers, p50 / before.p50);
            let Latency { p50, p95, p99, .. } = before;
            writeln!(f, "  {flooding} more flood, answered  {answers:>12.0} /s")?;
            writeln!(
                f,
                "  latency µs before that  p50 {p50:.1}  p95 {p95:.1}  p99 {p99:.1}; p50 is now {times:.2} times that"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn options(mode: Mode) -> LoadOptions {
        LoadOptions { mode, switches: 2, ..LoadOptions::new(SocketAddr::from(([127, 0, 0, 1], 1))) }
    }

    /// Returns two seconds in which both switches sent 2000 packet-ins. One got all answers, the other got half.
    fn measured(cpu_percent: u64, waited_percent: u64) -> Measured {
        let tally = |answers| Tally { sent: 2000, answers, flow_mods: answers, ..Tally::default() };
        let mut latency = Histogram::default();
        (1..=100).for_each(|n| latency.add(n * 10_000));
        Measured {
            elapsed: Duration::from_secs(2),
            cpu: Cpu { ran: cpu_percent * 20_000_000, waited: waited_percent * 20_000_000 },
            tallies: vec![tally(2000), tally(1000)],
            connected: vec![Duration::from_secs(1)],
            resumed: 0,
            latency,
            calm: None,
            lateness: Histogram::default(),
            held_back: 0,
            controller: Some(Process { ran: 1_000_000_000, resident: 3 << 20 }),
        }
    }

    #[test]
    fn figures_are_by_the_second_and_by_the_switch() {
        let report = Report::from_measured(&options(Mode::Throughput { window: 4 }), &measured(50, 1));
        assert_eq!((report.packet_ins, report.answers, report.flow_mods), (2000.0, 1500.0, 1500.0));
        assert_eq!((report.slowest_switch, report.fastest_switch, report.silent_switches), (500.0, 1000.0, 0));
        assert!((report.latency.p50 - 500.0).abs() < 8.0, "{:?}", report.latency);
        assert!((report.fairness - 0.9).abs() < 1e-9, "1500² / (2 · (1000² + 500²))");
        assert!(report.is_result(), "{:?}", report.doubts);
        assert_eq!((report.controller_cpu, report.controller_mib), (Some(50.0), Some(3.0)));
    }

    #[test]
    fn a_generator_without_spare_time_gives_no_result() {
        for (cpu, waited, says) in [(95, 0, "used 95 % of its core"), (50, 30, "waited 30 %")] {
            let report = Report::from_measured(&options(Mode::Throughput { window: 4 }), &measured(cpu, waited));
            assert!(!report.is_result() && report.to_string().contains("NO RESULT"));
            assert!(report.doubts[0].contains(says), "{:?}", report.doubts);
        }
    }

    #[test]
    fn a_rate_that_was_not_kept_gives_no_result() {
        let offered = |per_second| options(Mode::Rate { per_second, window: 8, burst: 1 });
        assert!(Report::from_measured(&offered(2000.0), &measured(100, 0)).is_result(), "it polls all the time");
        let short = Report::from_measured(&offered(3000.0), &measured(100, 0));
        assert!(short.doubts[0].contains("2000 of 3000 packet-ins a second"), "{:?}", short.doubts);
        let mut late = measured(100, 0);
        (0..100).for_each(|_| late.lateness.add(5_000_000));
        assert!(Report::from_measured(&offered(2000.0), &late).doubts[0].contains("5.0ms late"));
        (0..1000).for_each(|_| late.latency.add(21_000_000));
        assert!(Report::from_measured(&offered(2000.0), &late).is_result(), "it is a small part of the delay");
    }

    #[test]
    fn silence_is_no_result() {
        let mut silent = measured(10, 0);
        silent.tallies.iter_mut().for_each(|tally| tally.answers = 0);
        let report = Report::from_measured(&options(Mode::Throughput { window: 4 }), &silent);
        assert_eq!((report.silent_switches, &report.doubts[..]), (2, &["no packet-in was answered".to_owned()][..]));
    }
}
