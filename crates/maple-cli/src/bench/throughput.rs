//! `maple bench throughput`: controllers and the load of [`maple_load`] on cores of their own.
//!
//! Every point of the sweep is measured `--rounds` times. In each round all controllers are measured one after the other, so
//! that what else happens on the machine meets them alike; a point's figure is the median of its rounds, and ratios are
//! between medians of one run. Each measurement starts its controller afresh.

use std::time::Duration;

use clap::Args;
use maple_bench::Output;
use maple_bench::report::Progress;
use maple_load::{LoadOptions, Mode, Report};
use maple_wire::Version;

use super::controllers::Contender;
use super::results::{Point, Results};
use crate::args::{duration, version};

/// Most packet-ins of a switch without an answer where a rate is offered.
const RATE_WINDOW: u32 = 4096;

/// `maple bench throughput`.
#[derive(Debug, Args)]
pub struct ThroughputArgs {
    /// What Maple runs: a policy or handler as `maple run` takes it, and options of `maple run` behind it. With a policy
    /// choose so few addresses that all are known before the measurement begins
    #[arg(long, value_name = "POLICY", default_value = "builtin:learning-switch")]
    pub policy: String,
    /// Numbers of switches
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,16,64,256")]
    pub switches: Vec<u32>,
    /// Packets of one switch without an answer, at most; 1 measures latency
    #[arg(long, value_name = "W,…", value_delimiter = ',', default_value = "512")]
    pub windows: Vec<u32>,
    /// Worker threads of the controller
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u8).range(1..))]
    pub workers: Vec<u8>,
    /// Shares of the throughput at the first window to offer as a rate, each a measurement of its own: delay against rate
    #[arg(long, value_name = "SHARE,…", value_delimiter = ',')]
    pub rates: Vec<f64>,
    /// Source addresses of each switch
    #[arg(long, value_name = "M", default_value_t = 100_000)]
    pub macs: u32,
    /// OpenFlow version of the switches
    #[arg(long, value_name = "1.0|1.3", default_value = "1.0", value_parser = version)]
    pub of: Version,
    /// How long to measure each time
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = duration)]
    pub duration: Duration,
    /// How long to send before that
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    pub warmup: Duration,
    /// How often to measure each point
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Cores of the controller
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "0")]
    pub cores: Vec<usize>,
    /// The core of the generator
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub load_core: usize,
    /// Another controller to measure in the same run, several allowed: NAME=COMMAND with {port}, and if it likes {workers}
    /// and {cores}, in the places of these
    #[arg(long, value_name = "NAME=COMMAND", value_parser = Contender::parse)]
    pub against: Vec<Contender>,
    /// Also measure Maple with one write for each answer in place of one for all that a read brought (Maestro's Figure 4)
    #[arg(long)]
    pub unbatched: bool,
    #[command(flatten)]
    pub output: Output,
}

/// Measures and prints. The exit status is 1 if a figure is no result.
pub fn main(args: &ThroughputArgs) -> anyhow::Result<u8> {
    if args.cores.contains(&args.load_core) {
        anyhow::bail!(
            "core {} can't be the controller's and the generator's: choose --cores or --load-core",
            args.load_core
        );
    }
    let core = core_affinity::CoreId { id: args.load_core };
    if !core_affinity::set_for_current(core) {
        anyhow::bail!("this process may not use core {}: choose --load-core", args.load_core);
    }
    let mut contenders = vec![Contender::ours(&args.policy, "")?];
    if args.unbatched {
        contenders.push(Contender { name: "maple-unbatched".into(), ..Contender::ours(&args.policy, " --batch off")? });
    }
    contenders.extend(args.against.iter().cloned());
    let names = contenders.iter().map(|contender| contender.name.clone()).collect();
    let mut results = Results::new(names, args.of.to_string(), args.macs);
    sweep(args, &contenders, &mut results)?;
    results.tell(&args.output)?;
    Ok(u8::from(!results.are_all_results()))
}

/// Measures every point.
fn sweep(args: &ThroughputArgs, contenders: &[Contender], results: &mut Results) -> anyhow::Result<()> {
    let each = args.switches.len() * args.workers.len() * (args.windows.len() + args.rates.len());
    let progress = Progress::new((each * contenders.len()) as u64 * u64::from(args.rounds));
    for (&workers, &switches) in args.workers.iter().flat_map(|w| args.switches.iter().map(move |s| (w, s))) {
        let mut most = vec![0.0; contenders.len()];
        for &window in &args.windows {
            let medians = measure(args, contenders, &progress, (workers, switches), |_| Mode::Throughput { window })?;
            for (i, report) in medians.into_iter().enumerate() {
                if window == args.windows[0] {
                    most[i] = report.answers;
                }
                results.add(i, Point::new(workers, &report));
            }
        }
        for &share in &args.rates {
            // Each is offered a share of what it can do itself.
            let mode = |i: usize| Mode::Rate { per_second: (most[i] * share).max(1.0), window: RATE_WINDOW };
            let medians = measure(args, contenders, &progress, (workers, switches), mode)?;
            for (i, report) in medians.into_iter().enumerate() {
                results.add(i, Point::new(workers, &report));
            }
        }
    }
    Ok(())
}

/// One point of all contenders: the median of its rounds, by answers a second.
fn measure(
    args: &ThroughputArgs,
    contenders: &[Contender],
    progress: &Progress,
    (workers, switches): (u8, u32),
    mode: impl Fn(usize) -> Mode,
) -> anyhow::Result<Vec<Report>> {
    let mut rounds: Vec<Vec<Report>> = contenders.iter().map(|_| Vec::new()).collect();
    for _ in 0..args.rounds {
        for (i, contender) in contenders.iter().enumerate() {
            progress.say(format!("{}: {switches} switches, {:?}", contender.name, mode(i)));
            let controller = contender.start(&args.cores, workers)?;
            let report = maple_load::run(&LoadOptions {
                switches,
                macs: args.macs,
                mode: mode(i),
                version: args.of,
                duration: args.duration,
                warmup: args.warmup,
                watch: Some(controller.pid()),
                ..LoadOptions::new(controller.address)
            })?;
            rounds[i].push(report);
            progress.step();
        }
    }
    Ok(rounds.into_iter().filter_map(median).collect())
}

/// The report in the middle, by answers a second; the lower one of two.
fn median(mut reports: Vec<Report>) -> Option<Report> {
    reports.sort_by(|a, b| a.answers.total_cmp(&b.answers));
    let middle = reports.len().checked_sub(1)? / 2;
    Some(reports.swap_remove(middle))
}
