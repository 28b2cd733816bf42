//! The options of `maple load`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use maple_load::TlsVersion;
use maple_wire::Version;

use crate::values::{address, duration, tls_version};

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
    /// Number of times that all switches connect again before the first packet; their sessions of TLS are resumed
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub reconnect: u32,
    /// Source addresses of each switch
    #[arg(long, value_name = "M", default_value_t = 100_000)]
    pub macs: u32,
    /// Rule that decides when packets are sent
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
    #[arg(long, value_name = "1.0|1.3", default_value = "1.0")]
    pub of: Version,
    /// Duration of the measurement
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub duration: Duration,
    /// Duration of sending before the measurement
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    pub warmup: Duration,
    /// The controller's process on this machine: also report its use of cores and memory
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// The way in which `maple load` sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LoadMode {
    /// As many packets as are answered.
    Throughput,
    /// One packet at a time for each switch.
    Latency,
    /// A fixed rate, whatever is answered.
    Rate,
}
