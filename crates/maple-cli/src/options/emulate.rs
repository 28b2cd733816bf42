//! The options of emulated networks.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use maple_wire::Version;

use super::refused;
use crate::values::{address, duration};

/// The behaviour of an emulated network.
#[derive(Clone, Debug, Args)]
pub struct EmulationArgs {
    /// OpenFlow version of the emulated switches [default: 1.3]
    #[arg(long, value_name = "1.0|1.3")]
    pub of: Option<Version>,
    /// Tables of each emulated switch in 1.3 [default: 254]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=254))]
    pub flow_tables: Option<u8>,
    /// Time for which hosts talk to each other before the program stops [default: with `run
    /// --emulate` 20s, otherwise no traffic]
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

impl EmulationArgs {
    /// Returns the version that the emulated switches speak.
    pub fn version(&self) -> Version {
        self.of.unwrap_or(Version::Of13)
    }

    /// Returns the number of flows a second that all hosts together open.
    pub fn rate(&self) -> u32 {
        self.rate.unwrap_or(20)
    }

    /// Reports whether commands come from a console or a script.
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
    /// The controller's address; of several controllers all, with commas
    #[arg(
        long = "controller",
        value_name = "ADDR,…",
        default_value = "127.0.0.1:6653",
        value_delimiter = ',',
        value_parser = address
    )]
    pub controllers: Vec<SocketAddr>,
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
