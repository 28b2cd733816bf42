//! The options of `maple run`.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use clap::error::ErrorKind;
use maple_core::Location;
use maple_core::engine::LabelRange;

use super::{ClusterArgs, EmulationArgs, refused};
use crate::declared::{Configured, DeclaredNetwork};
use crate::logging::{LogFormat, Logging, Threshold, threshold};
use crate::usage_error::usage_error;
use crate::values::{
    Listen, OnOff, Pause, Unreachable, bytes, duration, http_address, labels, listen, max_rules, metrics_address, pause,
};

/// The number of a switch's decisions up to which it is explored. Most policies that look things up have fewer; the
/// smallest hardware tables hold some 2,000 rules.
pub const EXPLORED: u32 = 1024;

/// `maple run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The policy: FILE.py, FILE.py:NAME, or one of builtin:flood, builtin:shortest-path, builtin:secure-routing; or
    /// one of the handlers builtin:learning-switch, builtin:hub [default: what the configuration says]
    pub policy: Option<String>,
    /// Time that a run of a Python policy may take before it is stopped and its packet dropped
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    pub policy_time_limit: Duration,
    /// Load the policy again whenever its file, another .py, .yaml or .yml beside it, or the configuration has changed
    #[arg(long)]
    pub watch: bool,
    /// Go on with the policy that ran last, by maple apply, reload or rollback, if what is named here is what it was
    /// then; needs a state file
    #[arg(long)]
    pub resume_applied: bool,
    #[command(flatten)]
    pub options: RunOptions,
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
    /// Configuration file, in TOML: all these options, and names and facts of switches and hosts. Options given here
    /// have precedence [default: without a policy /etc/maple/maple.toml]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address to listen on for switches, several allowed; tls: before it for TLS, tcp: for none [default:
    /// 0.0.0.0:6653, with TLS if there is --tls-cert; with --emulate 127.0.0.1 and any port]
    #[arg(long, value_name = "ADDR", value_parser = listen)]
    pub listen: Vec<Listen>,
    #[command(flatten)]
    pub tls: TlsArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
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
    /// Ports with a transparent middlebox behind them, such as 1:3,core1:4. No host is learned there, the policy
    /// decides packets from any source, and floods leave these ports out [default: none]
    #[arg(long, value_name = "SWITCH:PORT,…", value_delimiter = ',')]
    pub middlebox: Vec<String>,
    /// VLAN ids for the labels that packets carry from switch to switch, for networks with VLAN-aware equipment between
    /// switches [default: 1-4094]
    #[arg(long, value_name = "FIRST-LAST", value_parser = labels)]
    pub labels: Option<LabelRange>,
    /// Maximum number of rules in a switch; those that are used least give way [default: until it says that it
    /// is full]
    #[arg(long, value_name = "N", value_parser = max_rules)]
    pub max_rules: Option<u32>,
    /// Maximum number of traces that are kept for a switch [default: no bound]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_traces: Option<u32>,
    /// Maximum number of a switch's tables that are for look-ups, such as the place of the host that a packet is for:
    /// one decision then serves all addresses [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(..=200))]
    pub look_ups: Option<u8>,
    /// Let one decision serve all places to which a policy's paths lead: the rules of addresses, in the tables for
    /// look-ups, then say the way there
    #[arg(long)]
    pub open_routes: bool,
    /// Run the policy also on packets that known hosts could send, until a switch has N decisions, so that packets that
    /// come find their rules; 0: only on packets that come [default: 1024]
    #[arg(long, value_name = "N")]
    pub explore: Option<u32>,
    /// Maximum number of hosts at a port; packets from others are dropped there [default: 1024]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_hosts_per_port: Option<u32>,
    /// Maximum number of hosts at a switch; its ports share them [default: 16384]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_hosts: Option<u32>,
    /// Time in seconds that a host may be silent before it is forgotten [default: 300]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(4..=86400))]
    pub host_timeout: Option<u32>,
    /// Fate of a switch whose control connection ends: its links, hosts and rules stand until it is back or forgotten
    /// (keep), or it is gone at once, and traffic takes other ways (forget) [default: keep]
    #[arg(long, value_enum, value_name = "keep|forget", conflicts_with = "forget_switch_after")]
    pub unreachable: Option<Unreachable>,
    /// Time that a switch without a control connection is kept; 0: for ever. Switches that the
    /// configuration names are kept in any case [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = pause)]
    pub forget_switch_after: Option<Pause>,
    /// Time between requests for the counters that the policy asks about; 0: never, so all rates are 0 [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = pause)]
    pub poll: Option<Pause>,
    /// Time between comparisons of a switch's rules with those that it is to have; 0: only when it connects [default:
    /// 1m]
    #[arg(long, value_name = "TIME", value_parser = pause)]
    pub audit: Option<Pause>,
    /// Go on with the connections of the controller that runs with the same control socket, which ends then: no switch
    /// reconnects. Its tables and variables are taken over too; rules stay as they are with the same --state file
    #[arg(long)]
    pub takeover: bool,
    /// Send each switch at most NUMBER changes of rules a second, for hardware that writes them slowly [default: all at
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
    #[arg(long, alias = "weights", value_name = "FILE")]
    pub costs: Option<PathBuf>,
    /// File for the tables and variables that survive a restart (persist=True)
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Record all that reaches the controller into a folder of its own in this folder, for `maple replay`
    #[arg(long, value_name = "FOLDER")]
    pub record: Option<PathBuf>,
    /// The maximum size of all recordings in that folder: 500MiB, 2GiB. At the limit the oldest runs go, and this run's
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
    /// Address of the HTTP API, at http://ADDR/v1; of a port alone, the loopback interface's. Beyond that interface it
    /// needs a certificate and tokens. With --emulate the network then stays after its traffic, until Ctrl-C [default:
    /// none]
    #[arg(long, value_name = "ADDR", value_parser = http_address)]
    pub http: Option<SocketAddr>,
    /// File with the tokens of clients of the HTTP API, a line each: ROLE NAME TOKEN, where the role is read, state or
    /// admin. Without it, clients may only read
    #[arg(long, value_name = "FILE", requires = "http")]
    pub http_tokens: Option<PathBuf>,
    /// Certificate of the HTTP API, with those that link it to an authority (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["http", "http_key"])]
    pub http_cert: Option<PathBuf>,
    /// Private key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "http_cert")]
    pub http_key: Option<PathBuf>,
    /// Also answer the reading paths of Ryu's ofctl_rest and rest_topology at the HTTP API's address
    #[arg(long)]
    pub ryu_rest: bool,
    /// Emulate this network: single:N, linear:N, ring:N, tree:DEPTH,FANOUT, fattree:K, or FILE.json
    #[arg(long, value_name = "TOPOLOGY")]
    pub emulate: Option<String>,
    #[command(flatten)]
    pub emulation: EmulationArgs,
    /// Compare every delivery on the emulated network with the policy's answer [default: on]
    #[arg(long, value_name = "on|off")]
    pub check: Option<OnOff>,
    /// The policy drops packets on purpose: flows that do not end because of it are not a failure
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
    /// The network as the configuration declares it.
    #[arg(skip)]
    pub network: DeclaredNetwork,
    /// The configuration, if there is one.
    #[arg(skip)]
    pub configured: Option<Configured>,
}

impl RunArgs {
    /// Checks the options together: there has to be a policy.
    pub fn refusal(&self) -> Option<clap::Error> {
        let what = "a policy is missing: name one, or a configuration with one (--config FILE)";
        if self.policy.is_none() {
            return Some(refused(what.into()));
        }
        // What ran is in a state file, which a controller of a cluster does not have.
        let resumes = self.resume_applied && self.options.cluster.cluster.is_some();
        resumes.then(|| conflict("--cluster", "--resume-applied")).or_else(|| self.options.refusal())
    }
}

impl RunOptions {
    /// Returns how the log is written.
    pub fn logging(&self) -> Logging {
        Logging::new(self.log_format.unwrap_or_default(), &self.log, self.verbose)
    }

    /// Returns the ports with a middlebox behind them.
    pub fn middleboxes(&self) -> anyhow::Result<Vec<Location>> {
        self.locations(&self.middlebox)
    }

    /// Returns the ports where DHCP servers are believed.
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
        let is_member = self.cluster.cluster.is_some();
        let pairs = [
            (takes_over, "--takeover", "--emulate"),
            (needs_none, "--tls-no-client-cert", "--tls-ca"),
            // What only one of several controllers would have, or do.
            (is_member && self.emulate.is_some(), "--cluster", "--emulate"),
            (is_member && self.takeover, "--cluster", "--takeover"),
            (is_member && self.state.is_some(), "--cluster", "--state"),
            (is_member && self.record.is_some(), "--cluster", "--record"),
            (is_member && !self.snoop.is_empty(), "--cluster", "--snoop"),
        ];
        if let Some((_, a, b)) = pairs.into_iter().find(|(is_given, ..)| *is_given) {
            return Some(conflict(a, b));
        }
        let tls = &self.tls;
        let needs = [
            (tls.tls_no_client_cert && tls.tls_cert.is_none(), "--tls-no-client-cert needs --tls-cert"),
            (tls.tls_trust_on_first_use && tls.tls_switches.is_none(), "--tls-trust-on-first-use needs --tls-switches"),
        ];
        if let Some((_, text)) = needs.into_iter().find(|(is_missing, _)| *is_missing) {
            return Some(refused(text.into()));
        }
        let EmulationArgs { of, flow_tables, traffic, rate, seed, console, script } = &self.emulation;
        let given = [
            ("--of", of.is_some()),
            ("--flow-tables", flow_tables.is_some()),
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

/// Creates the error that two options contradict each other.
fn conflict(a: &str, b: &str) -> clap::Error {
    clap::Error::raw(ErrorKind::ArgumentConflict, format!("the argument {a} cannot be used with {b}\n"))
}
