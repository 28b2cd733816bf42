//! The options of the commands about policies: `check`, `plan`, `apply`, `rollback`, `reload` and `replay`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use maple_controller::control::socket::Tolerance;

use crate::values::{OnOff, Pause, duration, pause, tolerance};

/// `maple check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The policy: FILE.py, FILE.py:NAME, or one of builtin:flood, builtin:shortest-path, builtin:secure-routing
    pub policy: String,
    /// Time that a run of a Python policy may take before it is stopped and its packet dropped
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    pub policy_time_limit: Duration,
    #[command(flatten)]
    pub options: CheckOptions,
}

/// The options of `maple check` that policies in Rust have too.
#[derive(Clone, Debug, Args)]
pub struct CheckOptions {
    /// The network that the policy sees: linear:N, ring:N, tree:DEPTH,FANOUT, fattree:K, or FILE.json
    #[arg(long, value_name = "TOPOLOGY", default_value = "ring:4")]
    pub network: String,
    /// Maximum number of packets to try
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub packets: u64,
    /// Number of hosts for which to estimate the rules
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub hosts: u64,
    /// Further runs of the policy on all packets, after two runs on each
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub rounds: u32,
    /// Time before each round
    #[arg(long, value_name = "TIME", default_value = "400ms", value_parser = pause)]
    pub pause: Pause,
    /// Try the packets of this capture (pcap or pcapng, Ethernet) first, several allowed
    #[arg(long, value_name = "FILE")]
    pub pcap: Vec<PathBuf>,
    /// Whether the policy knows where hosts are [default: what the policy says]
    #[arg(long, value_name = "on|off")]
    pub track_hosts: Option<OnOff>,
    /// Number of a switch's tables that are for look-ups, as for `maple run`, for the estimate of rules
    #[arg(long, value_name = "N", default_value_t = maple_core::LOOK_UP_TABLES, value_parser = clap::value_parser!(u8).range(..=200))]
    pub look_ups: u8,
    /// JSON file with link costs by name
    #[arg(long, alias = "weights", value_name = "FILE")]
    pub costs: Option<PathBuf>,
    /// Decides which random values packets get
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Say of each constraint of the policy which packets violate it, or whether that is proved of none
    #[arg(long)]
    pub constraints: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `maple plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// The policy, as for `maple run` [default: the one that runs, from its file as that is now]
    pub policy: Option<String>,
    /// Keep the plan in a file, for `maple apply`
    #[arg(long, value_name = "PATH")]
    pub out: Option<PathBuf>,
    /// Print all packets and rules that change, however many there are
    #[arg(long)]
    pub all: bool,
    /// The controller's Unix socket [default: as in `maple run`]
    #[arg(long, value_name = "PATH", conflicts_with = "state")]
    pub control: Option<PathBuf>,
    /// Without a controller: for the network that `maple run --state FILE` left in its file
    #[arg(long, value_name = "FILE", requires_all = ["from", "policy"])]
    pub state: Option<PathBuf>,
    /// With `--state`: the policy that ran then
    #[arg(long, value_name = "POLICY", requires = "state")]
    pub from: Option<String>,
    /// Print JSON, as it is kept in the file
    #[arg(long)]
    pub json: bool,
}

/// `maple apply`.
#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// The file of the plan: what `maple plan --out PATH` wrote
    #[arg(required_unless_present = "promote")]
    pub plan: Option<PathBuf>,
    /// At first only for packets that enter at these switches, by name or datapath id in hex digits: core1,2,…
    #[arg(long, value_name = "SWITCH,…", value_delimiter = ',', conflicts_with = "percent")]
    pub canary: Vec<String>,
    /// At first only for packets that enter at this share of the switches, in per cent
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub percent: Option<u8>,
    /// Let the policy of `--canary` or `--percent` decide everywhere
    #[arg(long, conflicts_with_all = ["plan", "canary", "percent"])]
    pub promote: bool,
    /// The controller's Unix socket [default: as in `maple run`]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `maple rollback`.
#[derive(Debug, Args)]
pub struct RollbackArgs {
    /// The controller's Unix socket [default: as in `maple run`]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `maple reload`.
#[derive(Debug, Args)]
pub struct ReloadArgs {
    /// The policy, as for `maple run` [default: the one that runs, from its file as that is now]
    pub policy: Option<String>,
    /// On how many of the packets that the network has decided about the new policy may fail: 5, or 5% of them
    #[arg(long, value_name = "N|N%", default_value = "0", value_parser = tolerance)]
    pub tolerate: Tolerance,
    /// The controller's Unix socket [default: as in `maple run`]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `maple replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The folder that `maple run --record` made, or the one with all recordings: then the newest one is replayed
    pub folder: PathBuf,
    /// Only up to this time: 2026-11-26T04:15:11Z as the recording's messages have it, or since its start, such as 90s
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Print the switches, links and hosts at the end, and how many rules each switch had
    #[arg(long)]
    pub network: bool,
    /// Say which packets this policy would have decided otherwise, each in the state in which it came
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<String>,
    /// Print all packets that it would have decided otherwise, however many there are
    #[arg(long, requires = "policy")]
    pub all: bool,
    /// Time that a run of a Python policy may take. Longer than when it was recorded, as the machine may be slower
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub policy_time_limit: Duration,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
