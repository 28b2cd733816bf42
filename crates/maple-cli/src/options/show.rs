//! The options of `maple show` and `maple doctor`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `maple show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The things to show
    #[command(subcommand)]
    pub what: ShowWhat,
    /// The controller's Unix socket [default: as for `maple run`]
    #[arg(long, value_name = "PATH", global = true)]
    pub control: Option<PathBuf>,
    /// Print the answer as JSON
    #[arg(long, global = true)]
    pub json: bool,
}

/// A thing that can be shown.
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
    /// The access lists of the policy, and how many packets each rule has decided
    #[command(alias = "access-lists", alias = "acl")]
    AccessList {
        /// Only lists of this file: its name, or the end of that
        file: Option<String>,
    },
    /// The switches, a line each
    Switches,
    /// Sizes of the tables of a switch, or of all, and how full they are
    Tables {
        /// Its name, or its datapath id in hex digits
        switch: Option<String>,
    },
    /// Decisions of the policy about the packets that enter at a switch, or at any, and what is unexplored
    Tree {
        /// Its name, or its datapath id in hex digits
        switch: Option<String>,
    },
    /// The labels of packets that arrive at a switch, or at any, from other switches
    Labels {
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
    /// Traffic between hosts, the busiest pairs first
    Flows {
        /// Only what enters at this switch: its name, or its datapath id in hex digits
        switch: Option<String>,
        /// Number of pairs of hosts to show
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
        top: u32,
        /// Keep running, and refresh the rates each second
        #[arg(long)]
        watch: bool,
    },
    /// The names of switches and hosts: those of the configuration, and of an emulated network
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
    /// The cluster of the controller: who is master, and which controllers are there
    Cluster,
    /// Changes of the policy, tables and variables, with who made them and when
    History {
        /// Only changes of this table or variable
        #[arg(value_name = "NAME")]
        of: Option<String>,
        /// Only changes of this token, user, thread or file; `policy` for those of the policy
        #[arg(long, value_name = "NAME")]
        who: Option<String>,
        /// Only policies that came to run
        #[arg(long, conflicts_with = "of")]
        policies: bool,
        /// Number of changes to show, the newest ones
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
        last: u32,
    },
    /// State of the network in the last 24 hours, and what changed between two moments
    Time {
        /// The switches, links and hosts at this moment: 15m (ago), 04:15, or 2026-11-26T04:15:11Z, in UTC
        #[arg(long, value_name = "TIME", conflicts_with_all = ["from", "to"])]
        at: Option<String>,
        /// Moment from which on to show what has changed, and what happened
        #[arg(long, value_name = "TIME")]
        from: Option<String>,
        /// Up to this moment [default: now]
        #[arg(long, value_name = "TIME", requires = "from")]
        to: Option<String>,
    },
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
