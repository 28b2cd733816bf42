//! `maple-bench throughput`: controllers and the load of [`maple_load`] on cores of their own.
//!
//! Every point of the sweep is measured `--rounds` times. Each round measures all controllers one after another, so
//! that other load of the machine affects all of them. A point's figure is the median of its rounds, and ratios are
//! between medians of one run. Each measurement starts its controller afresh.

mod charts;
mod results;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use maple_controller::file_limit;
use maple_emulator::Topology;
use maple_load::{DISCOVERY, LoadOptions, Mode, Report, Wiring, Workload};
use maple_wire::Version;

use crate::controllers::Contender;
use crate::error::BenchError;
use crate::output::Output;
use crate::report::Progress;
use crate::values::duration;
use results::{Point, Results};

/// Maximum number of unanswered packet-ins of a switch when a rate is offered, which bounds memory. It is so large that
/// the rate, and not the window, limits what is sent.
const RATE_WINDOW: u32 = 4096;
/// The default number of unanswered packet-ins of one of many identical switches: enough to keep a controller busy.
/// More would measure queues as delay.
const WINDOW: u32 = 512;
/// The default number of unanswered packet-ins of a switch of a network. It is smaller than for
/// identical ones, since a network is measured for its delays.
const NETWORK_WINDOW: u32 = 16;
/// The time for which identical switches send before the measurement, so that caches and buffers have their size.
const WARMUP: Duration = Duration::from_secs(2);
/// The time for which the switches of a network send before the measurement. It is longer than for identical switches,
/// because the controller also learns where the hosts are.
const NETWORK_WARMUP: Duration = Duration::from_secs(6);
/// The maximum warm-up that is chosen by default, so that a low rate does not make a run endless.
const MAX_WARMUP: Duration = Duration::from_secs(30);

/// `maple-bench throughput`.
#[derive(Debug, Args)]
pub struct ThroughputArgs {
    /// Policy or handler that Maple runs, as for `maple run`, and then options of `maple run`. With a policy choose few
    /// addresses, so that all are known before the measurement begins; more than 1024 need a larger
    /// --max-hosts-per-port [default: builtin:learning-switch; with --topology builtin:shortest-path]
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<String>,
    /// The `maple` to measure; policies in Python need that of the Python package [default: beside this program]
    #[arg(long, value_name = "FILE")]
    pub maple: Option<PathBuf>,
    /// Numbers of switches
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,16,64,256", value_parser = clap::value_parser!(u32).range(1..=65535))]
    pub switches: Vec<u32>,
    /// Be the switches of this network, whose hosts send requests to each other at random, instead of identical
    /// switches: linear:N, ring:N, tree:DEPTH,FANOUT, fattree:K, or FILE.json
    #[arg(long, value_name = "TOPOLOGY", conflicts_with_all = ["switches", "macs"])]
    pub topology: Option<String>,
    /// Maximum number of unanswered packets of one switch; 1 measures latency [default: 512; with --topology 16]
    #[arg(long, value_name = "W,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub windows: Vec<u32>,
    /// Worker threads of the controller
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u8).range(1..))]
    pub workers: Vec<u8>,
    /// Shares of the throughput at the first window to offer as a rate, each a measurement of its own: delay against
    /// rate
    #[arg(long, value_name = "SHARE,…", value_delimiter = ',', value_parser = share)]
    pub rates: Vec<f64>,
    /// Packets of one switch that are sent together when a rate is offered [default: 1, and above 40000 packets a
    /// second the smallest bursts that make no more than 40000 writes a second]
    #[arg(long, value_name = "B", requires = "rates", value_parser = clap::value_parser!(u32).range(1..=i64::from(RATE_WINDOW)))]
    pub burst: Option<u32>,
    /// Source addresses of each switch
    #[arg(long, value_name = "M", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub macs: u32,
    /// OpenFlow version of the switches
    #[arg(long, value_name = "1.0|1.3", default_value = "1.0")]
    pub of: Version,
    /// Duration of each measurement
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = duration)]
    pub duration: Duration,
    /// Duration of sending before the measurement [default: 2s; with a rate until all addresses
    /// have been sent, at most 30s; with --topology 6s, for all pairs of hosts]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub warmup: Option<Duration>,
    /// Pause before the first packet [default: 500ms; with --topology 5s, as links are
    /// to be discovered]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub settle: Option<Duration>,
    /// Number of measurements of each point
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Cores of the controller
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "0")]
    pub cores: Vec<usize>,
    /// The core of the generator
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub load_core: usize,
    /// Another controller to measure in the same run, several allowed: NAME=COMMAND, in which {port}, {workers} and
    /// {cores} are replaced
    #[arg(long, value_name = "NAME=COMMAND", value_parser = Contender::parse)]
    pub against: Vec<Contender>,
    /// Also measure Maple with one write for each answer instead of one for each read (Maestro's Figure 4)
    #[arg(long)]
    pub unbatched: bool,
    #[command(flatten)]
    pub output: Output,
}

/// Parses a share of a throughput.
fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share: &f64| *share > 0.0 && share.is_finite());
    share.ok_or_else(|| "a share is a number above 0, 1 being the whole throughput".to_owned())
}

/// Measures, and prints the results. The exit status is 1 if a figure is not a valid result.
///
/// # Errors
/// If the options don't fit this machine, or if a controller can't be started, or fails.
pub fn main(args: &ThroughputArgs) -> anyhow::Result<u8> {
    let sweep = Sweep::from_args(args)?;
    maple_load::descriptors::suffice(file_limit::raise(), sweep.switches.iter().copied().max().unwrap_or(0).into())?;
    if args.cores.contains(&args.load_core) {
        bail!("core {} can't be the controller's and the generator's: choose --cores or --load-core", args.load_core);
    }
    let core = core_affinity::CoreId { id: args.load_core };
    if !core_affinity::set_for_current(core) {
        bail!("this process may not use core {}: choose --load-core", args.load_core);
    }
    let results = sweep.run()?;
    results.report(&args.output)?;
    Ok(u8::from(!results.are_all_results()))
}

/// The parameters of the measurement.
struct Sweep<'a> {
    args: &'a ThroughputArgs,
    contenders: Vec<Contender>,
    switches: Vec<u32>,
    windows: Vec<u32>,
    workload: Workload,
    progress: Progress,
}

impl<'a> Sweep<'a> {
    fn from_args(args: &'a ThroughputArgs) -> anyhow::Result<Sweep<'a>> {
        let (switches, workload, policy) = match &args.topology {
            None => (args.switches.clone(), Workload::Addresses, "builtin:learning-switch"),
            Some(topology) => {
                let network = Wiring::from(&Topology::parse(topology).map_err(BenchError::usage)?);
                (vec![network.switches.len() as u32], Workload::Network(Arc::new(network)), "builtin:shortest-path")
            }
        };
        let policy = args.policy.as_deref().unwrap_or(policy);
        let ours = |more| Contender::ours(args.maple.as_deref(), policy, more);
        let mut contenders = vec![ours("")?];
        if args.unbatched {
            contenders.push(Contender { name: "maple-unbatched".into(), ..ours(" --batch off")? });
        }
        contenders.extend(args.against.iter().cloned());
        let windows = match (&args.windows[..], &workload) {
            ([], Workload::Network(_)) => vec![NETWORK_WINDOW],
            ([], _) => vec![WINDOW],
            (windows, _) => windows.to_vec(),
        };
        let each = switches.len() * args.workers.len() * (windows.len() + args.rates.len());
        let progress = Progress::new((each * contenders.len()) as u64 * u64::from(args.rounds));
        Ok(Sweep { args, contenders, switches, windows, workload, progress })
    }

    /// Measures every point.
    fn run(&self) -> anyhow::Result<Results> {
        let args = self.args;
        let packets = match &args.topology {
            None => format!("{} addresses a switch", args.macs),
            Some(topology) => format!("requests between the hosts of {topology}"),
        };
        let names = self.contenders.iter().map(|contender| contender.name.clone()).collect();
        let mut results = Results::new(names, args.of.to_string(), packets);
        for (&workers, &switches) in args.workers.iter().flat_map(|w| self.switches.iter().map(move |s| (w, s))) {
            let mut most = vec![0.0; self.contenders.len()];
            for &window in &self.windows {
                let medians = self.measure(workers, switches, |_| Mode::Throughput { window })?;
                for (i, report) in medians.into_iter().enumerate() {
                    if window == self.windows[0] {
                        most[i] = report.answers;
                    }
                    results.add(i, Point::new(workers, &report));
                }
            }
            for &share in &args.rates {
                // Each controller gets a rate in proportion to its own throughput.
                let medians = self.measure(workers, switches, |i| self.rate((most[i] * share).max(1.0)))?;
                for (i, report) in medians.into_iter().enumerate() {
                    results.add(i, Point::new(workers, &report));
                }
            }
        }
        Ok(results)
    }

    fn rate(&self, per_second: f64) -> Mode {
        let burst = self.args.burst.unwrap_or_else(|| maple_load::burst(per_second).min(RATE_WINDOW));
        Mode::Rate { per_second, window: RATE_WINDOW, burst }
    }

    /// Measures one point of all controllers. Returns the median rounds, by answers a second or, if a rate is offered,
    /// by delay.
    fn measure(&self, workers: u8, switches: u32, mode: impl Fn(usize) -> Mode) -> anyhow::Result<Vec<Report>> {
        let mut rounds: Vec<Vec<Report>> = self.contenders.iter().map(|_| Vec::new()).collect();
        for _ in 0..self.args.rounds {
            for (i, contender) in self.contenders.iter().enumerate() {
                let doing = match mode(i) {
                    Mode::Throughput { window } => format!("window {window}"),
                    Mode::Rate { per_second, .. } => format!("{per_second:.0} packet-ins a second"),
                };
                self.progress
                    .set_message(format!("{}: {switches} switches, {workers} workers, {doing}", contender.name));
                let report = self.load(contender, workers, switches, mode(i));
                rounds[i].push(report.with_context(|| format!("{}, {switches} switches, {doing}", contender.name))?);
                self.progress.step();
            }
        }
        Ok(rounds.into_iter().filter_map(median).collect())
    }

    /// Makes one measurement.
    fn load(&self, contender: &Contender, workers: u8, switches: u32, mode: Mode) -> anyhow::Result<Report> {
        let controller = contender.start(&self.args.cores, workers)?;
        let plain = LoadOptions::new(controller.address);
        let is_network = matches!(self.workload, Workload::Network(_));
        Ok(maple_load::run(&LoadOptions {
            switches,
            macs: self.args.macs,
            workload: self.workload.clone(),
            mode,
            version: self.args.of,
            duration: self.args.duration,
            warmup: self.args.warmup.unwrap_or_else(|| self.warmup(switches, mode)),
            settle: self.args.settle.unwrap_or(if is_network { DISCOVERY } else { plain.settle }),
            watch: Some(controller.pid()),
            ..plain
        })?)
    }

    /// Returns the time of sending before the measurement. All switches learn at the same speed, so their tables grow
    /// at the same moments. That cost does not belong to the delay at a steady rate.
    fn warmup(&self, switches: u32, mode: Mode) -> Duration {
        match (&self.workload, mode) {
            (Workload::Network(_), _) => NETWORK_WARMUP,
            (_, Mode::Throughput { .. }) => WARMUP,
            (_, Mode::Rate { per_second, .. }) => {
                let all = f64::from(switches) * f64::from(self.args.macs) / per_second;
                WARMUP + Duration::try_from_secs_f64(all).unwrap_or(MAX_WARMUP).min(MAX_WARMUP - WARMUP)
            }
        }
    }
}

/// Returns the median report, by answers a second or, if all were offered the same rate, by the median delay. Of two,
/// it is the lower one. Rounds without a valid result count only if there is no other.
fn median(reports: Vec<Report>) -> Option<Report> {
    let key = |report: &Report| if report.offered.is_some() { report.latency.p50 } else { report.answers };
    let (mut results, others): (Vec<Report>, Vec<Report>) = reports.into_iter().partition(Report::is_result);
    if results.is_empty() {
        results = others;
    }
    results.sort_by(|a, b| key(a).total_cmp(&key(b)));
    let middle = results.len().checked_sub(1)? / 2;
    Some(results.swap_remove(middle))
}
