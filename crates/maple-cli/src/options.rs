//! The options of the commands.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use clap::error::ErrorKind;
use clap::{Args, Subcommand, ValueEnum};
use maple_controller::control::socket::Tolerance;
use maple_core::Location;
use maple_core::engine::LabelRange;
use maple_load::TlsVersion;
use maple_wire::Version;

use crate::declared::{Configured, Network};
use crate::logging::{LogFormat, Logging, Threshold, threshold};
use crate::service;
use crate::usage_error::usage_error;
use crate::values::{
    Compiler, Listen, OnOff, Pause, address, bytes, duration, labels, listen, max_rules, metrics_address, pause,
    tls_version, tolerance, version,
};

/// `maple run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The policy: FILE.py, FILE.py:NAME, or one of builtin:flood, builtin:shortest-path, builtin:secure-routing; or
    /// one of the handlers builtin:learning-switch, builtin:hub [default: what the configuration says]
    pub policy: Option<String>,
    /// How long a run of a Python policy may take before it is stopped and its packet dropped
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    pub policy_time_limit: Duration,
    /// Load the policy again whenever its file, another .py, .yaml or .yml beside it, or the configuration has changed
    #[arg(long)]
    pub watch: bool,
    #[command(flatten)]
    pub options: RunOptions,
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

/// `maple replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The folder that `maple run --record` made, or the one with all recordings: then the newest one is replayed
    pub folder: PathBuf,
    /// Only up to this time: 2026-11-26T04:15:11Z as the recording's messages have it, or since its start, such as 90s
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Say which packets this policy would have decided otherwise, each in the state in which it came
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<String>,
    /// Print all packets that it would have decided otherwise, however many there are
    #[arg(long, requires = "policy")]
    pub all: bool,
    /// How long a run of a Python policy may take. Longer than when it was recorded, as the machine may be slower
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub policy_time_limit: Duration,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `maple apply`.
#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// The file of the plan: what `maple plan --out PATH` wrote
    #[arg(required_unless_present = "rest")]
    pub plan: Option<PathBuf>,
    /// At first only for packets that enter at these switches, by name or datapath id in hex digits: core1,2,…
    #[arg(long, value_name = "SWITCH,…", value_delimiter = ',', conflicts_with = "percent")]
    pub canary: Vec<String>,
    /// At first only for packets that enter at this share of the switches, in per cent
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub percent: Option<u8>,
    /// Now everywhere, after `--canary` or `--percent`
    #[arg(long, conflicts_with_all = ["plan", "canary", "percent"])]
    pub rest: bool,
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

/// The options about TLS.
#[derive(Clone, Debug, Default, Args)]
pub struct TlsArgs {
    /// The controller's certificate for TLS, and those that link it to an authority (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The private key of --tls-cert (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// The authorities that sign the certificates of switches (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_ca: Option<PathBuf>,
    /// Certificates of switches that were revoked, several files allowed (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_ca")]
    pub tls_crl: Vec<PathBuf>,
    /// Switches need no certificate: whatever reaches the port may be any switch
    #[arg(long)]
    pub tls_no_client_cert: bool,
    /// Which certificate may be which switch: a file of lines such as 1,2 sha256:9b6e… (docs/tls.md)
    #[arg(long, value_name = "FILE", requires = "tls_ca")]
    pub tls_switches: Option<PathBuf>,
    /// A switch that is not in --tls-switches is added there with the first certificate that claims to be it
    #[arg(long)]
    pub tls_trust_on_first_use: bool,
}

/// The options of `maple run` that policies in Rust have too.
#[derive(Clone, Debug, Args)]
pub struct RunOptions {
    /// Configuration file, in TOML: all these options, and names and facts of switches and hosts. Options given here have
    /// precedence [default: without a policy /etc/maple/maple.toml]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address to listen on for switches, several allowed; tls: before it for TLS, tcp: for none [default: 0.0.0.0:6653,
    /// with TLS if there is --tls-cert; with --emulate 127.0.0.1 and any port]
    #[arg(long, value_name = "ADDR", value_parser = listen)]
    pub listen: Vec<Listen>,
    #[command(flatten)]
    pub tls: TlsArgs,
    /// Worker threads, each with its own switches [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub workers: Option<u8>,
    /// Cores that the workers stay on, in turn: 0,2,… [default: all that this process may use]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub cores: Vec<usize>,
    /// Collect the answers to one read and write them together. Off: each answer is a write of its own, to measure what
    /// that costs. Handlers only [default: on]
    #[arg(long, value_name = "on|off")]
    pub batch: Option<OnOff>,
    /// Learn where hosts are and check it. Off: net.locate is an error [default: what the policy says]
    #[arg(long, value_name = "on|off")]
    pub track_hosts: Option<OnOff>,
    /// Ports with a transparent middlebox behind them, such as 1:3,core1:4. No host is learned there, the policy decides
    /// packets from any source, and floods leave these ports out [default: none]
    #[arg(long, value_name = "SWITCH:PORT,…", value_delimiter = ',')]
    pub middlebox: Vec<String>,
    /// VLAN ids for the labels that packets carry from switch to switch, for networks with VLAN-aware equipment between
    /// switches [default: 1-4094]
    #[arg(long, value_name = "FIRST-LAST", value_parser = labels)]
    pub labels: Option<LabelRange>,
    /// The compiler that makes the rules: Maple's own, or the paper's [default: maple]
    #[arg(long, value_enum, value_name = "maple|paper")]
    pub compiler: Option<Compiler>,
    /// Maximum number of rules in a switch; those that are used least give way [default: until it says that it
    /// is full]
    #[arg(long, value_name = "N", value_parser = max_rules)]
    pub max_rules: Option<u32>,
    /// Maximum number of traces that are kept for a switch [default: no bound]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_traces: Option<u32>,
    /// Maximum number of hosts at a port; packets from others are dropped there [default: 1024]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_hosts_per_port: Option<u32>,
    /// Maximum number of hosts at a switch; its ports share them [default: 16384]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_hosts: Option<u32>,
    /// How long a host may be silent before it is forgotten [default: 300]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(4..=86400))]
    pub host_timeout: Option<u32>,
    /// Time between requests for the counters that the policy asks about; 0: never, so all rates are 0 [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = pause)]
    pub poll: Option<Pause>,
    /// Time between comparisons of a switch's rules with those that it is to have; 0: only when it connects [default: 1m]
    #[arg(long, value_name = "TIME", value_parser = pause)]
    pub audit: Option<Pause>,
    /// Go on with the connections of the controller that runs with the same control socket, which ends then: no switch
    /// reconnects. Its tables and variables are taken over too; rules stay as they are with the same --state file
    #[arg(long)]
    pub takeover: bool,
    /// Send each switch at most so many changes of rules a second, for hardware that writes them slowly [default: all at
    /// once]
    #[arg(long, value_name = "NUMBER")]
    pub flow_mod_rate: Option<NonZeroU32>,
    /// Listen to these protocols, for net.members and net.lease: igmp, mld, dhcp [default: what the policy says]
    #[arg(long, value_name = "PROTOCOL,…", value_delimiter = ',', value_parser = ["igmp", "mld", "dhcp"])]
    pub snoop: Vec<String>,
    /// Edge port where DHCP servers are believed, several allowed; its switch's name or datapath id in hex digits
    /// [default: what the policy says]
    #[arg(long, value_name = "SWITCH:PORT")]
    pub dhcp_server: Vec<String>,
    /// Ask hosts for their multicast groups, if no router does
    #[arg(long)]
    pub querier: bool,
    /// Leaves that a worker checks each second by running the policy again; 0: none [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=1000))]
    pub check_rate: Option<u32>,
    /// JSON file with link costs by name: {"secure": [{"a": "1", "b": "2", "cost": 10}]}, with datapath ids in hex
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
    /// File for the tables and variables that survive a restart (persist=True)
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Record all that reaches the controller into a folder of its own in this folder, for `maple replay`
    #[arg(long, value_name = "FOLDER")]
    pub record: Option<PathBuf>,
    /// The most bytes of all recordings in that folder: 500MiB, 2GiB. At the limit the oldest runs go, and this run's
    /// recording ends if it is the only one [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = bytes, requires = "record")]
    pub record_limit: Option<u64>,
    /// Unix socket for `maple show`, or `none` [default: $MAPLE_CONTROL or control.sock in a folder of the user's own;
    /// none with --emulate]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Address where Prometheus finds metrics, at http://ADDR/metrics; of a port alone, the loopback interface's
    /// [default: none are exported]
    #[arg(long, value_name = "ADDR", value_parser = metrics_address)]
    pub metrics: Option<SocketAddr>,
    /// Emulate this network: single:N, linear:N, ring:N, tree:DEPTH,FANOUT, fattree:K, or FILE.json
    #[arg(long, value_name = "TOPOLOGY")]
    pub emulate: Option<String>,
    #[command(flatten)]
    pub emulation: EmulationArgs,
    /// Compare every delivery on the emulated network with the policy's answer [default: on]
    #[arg(long, value_name = "on|off")]
    pub check: Option<OnOff>,
    /// The policy drops packets on purpose: flows that do not end because of it are no failure
    #[arg(long)]
    pub allow_drops: bool,
    /// Count the heap's bytes, for `maple show stats`; the program becomes a little slower
    #[arg(long)]
    pub count_heap: bool,
    /// Log what sessions and shards do
    #[arg(long, short)]
    pub verbose: bool,
    /// Form of the log: for people, JSON objects, or lines for systemd's journal [default: text]
    #[arg(long, value_enum, value_name = "text|json|journald")]
    pub log_format: Option<LogFormat>,
    /// Lowest level of lines in the log: off, error, warning, info or debug, of an area or of all. Areas are control,
    /// hosts, policy, rules, run, session, state and topology [default: info]
    #[arg(long, value_name = "[AREA=]LEVEL,…", value_delimiter = ',', value_parser = threshold)]
    pub log: Vec<Threshold>,
    /// What the configuration says of the network.
    #[arg(skip)]
    pub network: Network,
    /// The configuration, if there is one.
    #[arg(skip)]
    pub configured: Option<Configured>,
}

/// `maple check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The policy: FILE.py, FILE.py:NAME, or one of builtin:flood, builtin:shortest-path, builtin:secure-routing
    pub policy: String,
    /// How long a run of a Python policy may take before it is stopped and its packet dropped
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
    /// JSON file with link costs by name
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
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

/// How an emulated network behaves.
#[derive(Clone, Debug, Args)]
pub struct EmulationArgs {
    /// OpenFlow version of the emulated switches [default: 1.3]
    #[arg(long, value_name = "1.0|1.3", value_parser = version)]
    pub of: Option<Version>,
    /// How long hosts talk to each other before the program stops [default: with `run --emulate` 20s, otherwise no
    /// traffic]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub traffic: Option<Duration>,
    /// Flows per second that all hosts together open [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: Option<u32>,
    /// Decides who talks to whom, and what links lose [default: 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Read commands such as `h1 ping h2` from the terminal; `help` lists them
    #[arg(long, conflicts_with = "script")]
    pub console: bool,
    /// Run the commands of this file, then stop; the status is 1 if one fails
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,
}

impl RunArgs {
    /// Checks the options together: there has to be a policy.
    pub fn refusal(&self) -> Option<clap::Error> {
        let what = "a policy is missing: name one, or a configuration with one (--config FILE)";
        if self.policy.is_none() { Some(refused(what.into())) } else { self.options.refusal() }
    }
}

impl RunOptions {
    /// How the log is written.
    pub fn logging(&self) -> Logging {
        Logging::new(self.log_format.unwrap_or_default(), &self.log, self.verbose)
    }

    /// The ports with a middlebox behind them.
    pub fn middleboxes(&self) -> anyhow::Result<Vec<Location>> {
        self.locations(&self.middlebox)
    }

    /// The ports where DHCP servers are believed.
    pub fn dhcp_servers(&self) -> anyhow::Result<Vec<Location>> {
        self.locations(&self.dhcp_server)
    }

    fn locations(&self, texts: &[String]) -> anyhow::Result<Vec<Location>> {
        let location = |text: &String| self.network.names.location(text).map_err(|error| usage_error(anyhow!(error)));
        texts.iter().map(location).collect()
    }

    /// Checks the options together: those of an emulated network have no effect without one.
    pub fn refusal(&self) -> Option<clap::Error> {
        // `--takeover=false` contradicts nothing, and needs nothing.
        let takes_over = self.takeover && self.emulate.is_some();
        let needs_none = self.tls.tls_no_client_cert && self.tls.tls_ca.is_some();
        let pairs = [(takes_over, "--takeover", "--emulate"), (needs_none, "--tls-no-client-cert", "--tls-ca")];
        if let Some((_, a, b)) = pairs.into_iter().find(|(is_given, ..)| *is_given) {
            let text = format!("the argument {a} cannot be used with {b}\n");
            return Some(clap::Error::raw(ErrorKind::ArgumentConflict, text));
        }
        let tls = &self.tls;
        let needs = [
            (tls.tls_no_client_cert && tls.tls_cert.is_none(), "--tls-no-client-cert needs --tls-cert"),
            (tls.tls_trust_on_first_use && tls.tls_switches.is_none(), "--tls-trust-on-first-use needs --tls-switches"),
        ];
        if let Some((_, text)) = needs.into_iter().find(|(is_missing, _)| *is_missing) {
            return Some(refused(text.into()));
        }
        let EmulationArgs { of, traffic, rate, seed, console, script } = &self.emulation;
        let given = [
            ("--of", of.is_some()),
            ("--traffic", traffic.is_some()),
            ("--rate", rate.is_some()),
            ("--seed", seed.is_some()),
            ("--console", *console),
            ("--script", script.is_some()),
            ("--check", self.check.is_some()),
            ("--allow-drops", self.allow_drops),
        ];
        let (name, _) = given.into_iter().find(|(_, is_given)| *is_given && self.emulate.is_none())?;
        Some(refused(format!(
            "{name} needs --emulate TOPOLOGY: only an emulated network has switches and hosts of ours"
        )))
    }
}

impl EmulationArgs {
    /// The version that the emulated switches speak.
    pub fn version(&self) -> Version {
        self.of.unwrap_or(Version::Of13)
    }

    /// Flows per second that all hosts together open.
    pub fn rate(&self) -> u32 {
        self.rate.unwrap_or(20)
    }

    /// Whether commands come from a console or a script.
    pub fn has_commands(&self) -> bool {
        self.console || self.script.is_some()
    }

    /// Decides which hosts talk, and which packets links lose.
    pub fn seed(&self) -> u64 {
        self.seed.unwrap_or(1)
    }
}

/// `maple emulate`.
#[derive(Debug, Args)]
pub struct EmulateArgs {
    /// The network: single:N, linear:N, ring:N, tree:DEPTH,FANOUT, fattree:K, or FILE.json
    pub topology: String,
    /// The controller's address
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6653", value_parser = address)]
    pub controller: SocketAddr,
    #[command(flatten)]
    pub emulation: EmulationArgs,
}

impl EmulateArgs {
    /// Checks the options together: a rate needs a number of packets.
    pub fn refusal(&self) -> Option<clap::Error> {
        let does_nothing = self.emulation.rate.is_some() && self.emulation.traffic.is_none();
        does_nothing.then(|| refused("--rate needs --traffic TIME: without it hosts open no flows".into()))
    }
}

fn refused(what: String) -> clap::Error {
    clap::Error::raw(ErrorKind::MissingRequiredArgument, format!("{what}\n"))
}

/// `maple load`.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// The controller's address
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6653", value_parser = address)]
    pub connect: SocketAddr,
    /// Switches
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub switches: u32,
    /// Connect with TLS: the authorities that sign the controller's certificate (PEM)
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// The certificate of all switches (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["tls_ca", "tls_key"])]
    pub tls_cert: Option<PathBuf>,
    /// The private key of --tls-cert (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Version of TLS [default: the newest that the controller speaks]
    #[arg(long, value_name = "1.2|1.3", requires = "tls_ca", value_parser = tls_version)]
    pub tls_version: Option<TlsVersion>,
    /// How often all switches connect again before the first packet; their sessions of TLS are resumed
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub reconnect: u32,
    /// Source addresses of each switch
    #[arg(long, value_name = "M", default_value_t = 100_000)]
    pub macs: u32,
    /// What decides when packets are sent
    #[arg(long, value_enum, default_value_t = LoadMode::Throughput)]
    pub mode: LoadMode,
    /// Maximum number of unanswered packets of one switch [default: 512; with --mode latency 1, with --mode rate 4096]
    #[arg(long, value_name = "W")]
    pub window: Option<u32>,
    /// Number of switches that are silent at first and then keep 512 packets unanswered; the latency of the others is
    /// measured before and after
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with_all = ["rate", "trace", "topology"])]
    pub flooding: u32,
    /// Packets a second of all switches together, with --mode rate
    #[arg(long, value_name = "R", required_if_eq("mode", "rate"))]
    pub rate: Option<f64>,
    /// Packets of one switch that are sent together, with --mode rate [default: 1, and above 40000 packets a second the
    /// smallest bursts that make no more than 40000 writes a second]
    #[arg(long, value_name = "B")]
    pub burst: Option<u32>,
    /// Send the packets of this file instead of generated ones: a capture (pcap, pcapng) of Ethernet frames, or a
    /// header trace in the format of ClassBench
    #[arg(long, value_name = "FILE", conflicts_with = "macs")]
    pub trace: Option<PathBuf>,
    /// Be the switches of this network, whose hosts send requests to each other at random: linear:N, ring:N,
    /// tree:DEPTH,FANOUT, fattree:K, or FILE.json
    #[arg(long, value_name = "TOPOLOGY", conflicts_with_all = ["switches", "macs", "trace"])]
    pub topology: Option<String>,
    /// Pause before the first packet [default: 500ms; with --topology 5s, as links are
    /// to be discovered]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub settle: Option<Duration>,
    /// OpenFlow version of the switches
    #[arg(long, value_name = "1.0|1.3", default_value = "1.0", value_parser = version)]
    pub of: Version,
    /// How long to measure
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub duration: Duration,
    /// How long to send before the measurement
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    pub warmup: Duration,
    /// The controller's process on this machine: also report its use of cores and memory
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// How `maple load` sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LoadMode {
    /// As many packets as are answered.
    Throughput,
    /// One packet at a time for each switch.
    Latency,
    /// A fixed rate, whatever is answered.
    Rate,
}

/// `maple show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// What to show
    #[command(subcommand)]
    pub what: ShowWhat,
    /// The controller's Unix socket [default: as for `maple run`]
    #[arg(long, value_name = "PATH", global = true)]
    pub control: Option<PathBuf>,
    /// Print the answer as JSON
    #[arg(long, global = true)]
    pub json: bool,
}

/// `maple doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// A configuration of `maple run`: whether what it names is there and in order [default: /etc/maple/maple.toml if
    /// that is there]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Look only at these bridges of Open vSwitch, several allowed [default: all]
    #[arg(long, value_name = "NAME")]
    pub bridge: Vec<String>,
    /// Print what can be found
    #[arg(long)]
    pub list: bool,
    /// The controller's Unix socket [default: what the configuration says, or as in `maple run`]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What can be shown.
#[derive(Debug, Subcommand)]
pub enum ShowWhat {
    /// The rules of a switch, or of all, and why they are there
    Rules {
        /// Its name, or its datapath id in hex digits
        switch: Option<String>,
        /// Only rules of this table
        #[arg(long, value_name = "N")]
        table: Option<u8>,
        /// Only rules that name this host: its name, or a MAC or IP address
        #[arg(long, value_name = "ADDRESS")]
        host: Option<String>,
        /// Only rules that this line of the policy decided: FILE:LINE, or the end of that
        #[arg(long, value_name = "FILE:LINE")]
        line: Option<String>,
        /// Show all rules, even if there are many
        #[arg(long)]
        all: bool,
    },
    /// The switches, a line each
    Switches,
    /// How large the tables of a switch, or of all, are, and how full
    Tables {
        /// Its name, or its datapath id in hex digits
        switch: Option<String>,
    },
    /// The ports of a switch, or of all, with their counters
    Ports {
        /// Its name, or its datapath id in hex digits
        switch: Option<String>,
        /// Keep running, and refresh the rates each second
        #[arg(long)]
        watch: bool,
    },
    /// What hosts send to each other, the busiest pairs first
    Flows {
        /// Only what enters at this switch: its name, or its datapath id in hex digits
        switch: Option<String>,
        /// How many pairs of hosts to show
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
        top: u32,
        /// Keep running, and refresh the rates each second
        #[arg(long)]
        watch: bool,
    },
    /// The names that the configuration gives to switches and hosts
    Names,
    /// The links between switches
    Links,
    /// The hosts and where they are
    Hosts,
    /// The multicast groups and the ports that belong to them
    Groups,
    /// The DHCP leases, and where their hosts are
    Leases,
    /// The switches with the links and hosts behind their ports
    Topology {
        /// Keep running, and show changes
        #[arg(long)]
        watch: bool,
    },
    /// The controller itself: its version and process, where it listens, its state file
    Controller,
    /// All counters
    Stats,
    /// Recent errors
    Errors,
    /// The version of the controller, and what it speaks, reads and writes
    Version,
    /// The latest lines of the log
    Log {
        /// Keep running, and print lines as they come
        #[arg(long)]
        follow: bool,
    },
}

/// Where commands look for the control socket: `$MAPLE_CONTROL`, or in the user's own folder, or that of a controller that
/// the system runs.
pub fn default_control() -> PathBuf {
    own_control().unwrap_or_else(maple_controller::control::socket::find)
}

/// Where a controller makes its control socket: `$MAPLE_CONTROL`, or in the folder that the service manager gives, or in
/// the user's own folder.
pub fn control_of_controller() -> PathBuf {
    own_control().unwrap_or_else(maple_controller::control::socket::default_path)
}

fn own_control() -> Option<PathBuf> {
    let named = std::env::var_os("MAPLE_CONTROL").map(PathBuf::from);
    named.or_else(|| service::in_folder("RUNTIME_DIRECTORY", "control.sock"))
}
