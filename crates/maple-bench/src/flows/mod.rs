//! `maple-bench flows`: new flows through whole networks, from the first packet to the last rule.
//!
//! A round starts a controller, connects a network of switches that obey ([`maple_load::flows`]), makes the hosts
//! announce themselves, and then opens flows between pairs of hosts that have never talked. When the requested number
//! of leaves is present, it measures the next flows: wall-clock time, the controller's processor time, and the messages
//! to switches. Each round has a controller of its own; a figure is the median of the rounds, and the fastest is shown
//! next to it.
//!
//! The other scenarios (`--failover`, `--flood-port`, `--all-pairs`, `--discovery`) use the same network; see
//! [`scenarios`].

mod bed;
mod round;

mod results;
mod targets;

mod scenarios;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use maple_load::flows::Spread;
use maple_wire::Version;

use crate::controllers::Contender;
use crate::output::Output;
use crate::report::Progress;
use crate::values::duration;
use results::{Results, Row};
use round::{Setting, round};

/// The default number of a switch's ports for hosts.
const PORTS: u32 = 256;

/// `maple-bench flows`.
#[derive(Debug, Args)]
pub struct FlowsArgs {
    /// Policies that Maple runs, as `maple run` takes it, several allowed [default: builtin:shortest-path]
    #[arg(long, value_name = "POLICY")]
    pub policy: Vec<String>,
    /// The `maple` to measure; policies in Python need that of the Python package [default: beside this program]
    #[arg(long, value_name = "FILE")]
    pub maple: Option<PathBuf>,
    /// Lengths of the lines of switches
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2,4,8,16", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub lines: Vec<u32>,
    /// At which switches of a line the hosts are: at both ends, so that each flow crosses all switches, or at all of
    /// them
    #[arg(long, value_enum, default_value_t = HostsAt::Ends)]
    pub hosts_at: HostsAt,
    /// Number of leaves that are present when flows are measured
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1000,10000,100000")]
    pub leaves: Vec<usize>,
    /// Flows of a measurement [default: a fifth of the leaves, at least 2000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub flows: Option<u32>,
    /// Ports of a switch that are for hosts [default: 256; with --discovery 24]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub ports: Vec<u32>,
    /// Number of hosts, spread over the ports for hosts; with --all-pairs and --failover, for each host of the topology
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub hosts: Option<u32>,
    /// OpenFlow versions of the switches
    #[arg(long, value_name = "1.0|1.3,…", value_delimiter = ',', default_value = "1.3")]
    pub of: Vec<Version>,
    /// Flows under way
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub window: u32,
    /// One flow of N is confirmed by a further packet that must come out by rules alone; use more than 1 if the network
    /// could not keep up otherwise
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub confirm: u32,
    /// Number of measurements
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Maximum time of a round; what it does not reach is left out
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub limit: Duration,
    /// Maximum time for the discovery of links, before hosts make themselves known; all of it where the controller
    /// can't be asked
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub settle: Duration,
    /// One more round for each row, in which the controller counts its heap
    #[arg(long)]
    pub heap: bool,
    /// Touch this much memory first. A virtual machine may get its memory from the host at the first touch, which would
    /// cost more than everything that is measured
    #[arg(long, value_name = "MIB", default_value_t = 0)]
    pub touch_memory: usize,
    /// Cores of the controller
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "0")]
    pub cores: Vec<usize>,
    /// Worker threads of the controller
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    pub workers: u8,
    /// The core of the network
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub load_core: usize,
    /// Another controller to measure in the same run, several allowed: NAME=COMMAND, in which {port}, {workers} and
    /// {cores} are replaced
    #[arg(long, value_name = "NAME=COMMAND", value_parser = Contender::parse)]
    pub against: Vec<Contender>,
    /// Instead: a link of this network fails when --leaves (the last) flows lead over it
    #[arg(long, value_name = "TOPOLOGY", group = "scenario")]
    pub failover: Option<String>,
    /// Instead: one port sends from this many addresses
    #[arg(long, value_name = "ADDRESSES", group = "scenario", num_args = 0..=1, default_missing_value = "1000000", value_parser = clap::value_parser!(u32).range(1..=16_000_000))]
    pub flood_port: Option<u32>,
    /// Packets a second of the port that floods
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub flood_rate: u32,
    /// Instead: all pairs of hosts of this network talk; count the rules of the busiest core switch
    #[arg(long, value_name = "TOPOLOGY", group = "scenario")]
    pub all_pairs: Option<String>,
    /// Instead: time until all links of this many switches are known, in a ring and in a tree, and the load after that
    #[arg(long, value_name = "SWITCHES", group = "scenario", value_parser = clap::value_parser!(u32).range(3..=10_000))]
    pub discovery: Option<u32>,
    #[command(flatten)]
    pub output: Output,
}

/// The places of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum HostsAt {
    /// Hosts at both ends.
    Ends,
    /// Hosts at all switches.
    All,
}

impl FlowsArgs {
    /// Creates a contender for each policy, with options of `maple run` after it.
    fn ours(&self, more: &str) -> anyhow::Result<Vec<Contender>> {
        let default = vec!["builtin:shortest-path".to_owned()];
        let policies = if self.policy.is_empty() { &default } else { &self.policy };
        let ours = |policy: &String| {
            let contender = Contender::ours(self.maple.as_deref(), policy, more)?;
            Ok(Contender { name: policy.clone(), ..contender })
        };
        policies.iter().map(ours).collect()
    }

    /// Returns the requested numbers of ports, or `default`.
    fn ports(&self, default: u32) -> Vec<u32> {
        if self.ports.is_empty() { vec![default] } else { self.ports.clone() }
    }

    /// Returns the contender of the first policy alone, for the other scenarios.
    fn first(&self, more: &str) -> anyhow::Result<Contender> {
        Ok(self.ours(more)?.swap_remove(0))
    }
}

/// Returns a path for the controller's socket that no other run uses.
fn socket() -> PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("maple-bench-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    std::env::temp_dir().join(name)
}

/// Measures, and prints the results. The exit status is 1 if a figure is not a valid result.
///
/// # Errors
/// If a controller or the network can't be started, or fails during the measurement.
pub fn main(args: &FlowsArgs) -> anyhow::Result<u8> {
    bed::touch_memory(args.touch_memory);
    bed::take_core(args)?;
    if let Some(status) = scenarios::main(args)? {
        return Ok(status);
    }
    let results = Results::new(measured(args)?);
    results.report(&args.output)?;
    Ok(u8::from(!results.are_all_results()))
}

/// Measures all rows.
fn measured(args: &FlowsArgs) -> anyhow::Result<Vec<Row>> {
    // With look-ups, most flows between known hosts need no decision, and what is measured here is its cost.
    let contenders = [args.ours(" --look-ups 0")?, args.against.clone()].concat();
    let settings: Vec<Setting> = args
        .of
        .iter()
        .flat_map(|of| args.lines.iter().map(move |line| (of, line)))
        .flat_map(|(of, line)| args.ports(PORTS).into_iter().map(move |ports| (*of, *line, ports)))
        .map(|(of, line, ports)| Setting::from_args(args, of, line, ports))
        .collect();
    let each = args.rounds as usize + usize::from(args.heap);
    let progress = Progress::new((settings.len() * contenders.len() * each) as u64);
    let mut rows = Vec::new();
    for setting in &settings {
        // Each round measures all controllers, so that other load of the machine affects all of them.
        let mut rounds = vec![Vec::new(); contenders.len()];
        for _ in 0..args.rounds {
            for (contender, rounds) in contenders.iter().zip(&mut rounds) {
                rounds.push(round(args, contender, setting, &progress)?);
                progress.step();
            }
        }
        for (contender, rounds) in contenders.iter().zip(rounds) {
            let heap = if args.heap { round::heap(args, contender, setting, &progress)? } else { Vec::new() };
            rows.extend(results::rows(&contender.name, setting, rounds, &heap));
        }
    }
    Ok(rows)
}

impl From<HostsAt> for Spread {
    fn from(at: HostsAt) -> Spread {
        match at {
            HostsAt::Ends => Spread::Ends,
            HostsAt::All => Spread::All,
        }
    }
}
