//! News of the cluster that a controller has joined.

use std::fmt;

use maple_wire::counted;

/// News of the cluster that this controller has joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterNews {
    /// This controller is the network's master, in this generation.
    Leads(u64),
    /// Another controller, of this name, is the network's master.
    Follows(String),
    /// Another process has this controller's name.
    NameTaken,
    /// A request to etcd has failed for this reason. Later failures are not reported until etcd has answered.
    EtcdFailed(String),
    /// etcd answers again.
    EtcdBack,
    /// This controller has a copy of what the master, of this name, has decided: this number of leaves.
    HasCopy {
        /// The master.
        of: String,
        /// The number of leaves.
        leaves: usize,
    },
    /// No copy comes from the master, of this name, for this reason. Later reasons are not reported until one has come.
    NoCopy {
        /// The master.
        of: String,
        /// The reason.
        why: String,
    },
    /// The master, of this name, has died: its connection has ended, and nobody listens at its address.
    Suspects(String),
    /// This controller takes over with a copy of what the master of this generation has decided.
    Adopts {
        /// The generation.
        generation: u64,
        /// The number of leaves.
        leaves: usize,
        /// The number of hosts.
        hosts: usize,
    },
    /// The tables and variables that are in etcd can't be used, for this reason. This controller does not lead with
    /// them.
    StateUnreadable(String),
}

impl fmt::Display for ClusterNews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClusterNews::Leads(generation) => {
                write!(f, "this controller is master of the network, in generation {generation}")
            }
            ClusterNews::Follows(name) => write!(f, "controller {name} is master of the network; this one is a standby"),
            ClusterNews::NameTaken => f.write_str(
                "another process has this controller's name in the cluster, or had it just now; this one waits until the \
                 lease of that has ended",
            ),
            ClusterNews::EtcdFailed(error) => {
                write!(f, "etcd: {error}; who is master stays so until etcd answers again")
            }
            ClusterNews::HasCopy { of, leaves } => {
                write!(f, "a copy of what controller {of} has decided is here: {}", counted(*leaves, "decision"))
            }
            ClusterNews::NoCopy { of, why } => {
                write!(f, "what controller {of} decides does not come here: {why}; whoever takes over without it decides anew")
            }
            ClusterNews::Suspects(name) => {
                write!(f, "controller {name} seems to be dead: nobody listens at its address, so another one takes its place")
            }
            ClusterNews::Adopts { generation, leaves, hosts } => {
                let (leaves, hosts) = (counted(*leaves, "decision"), counted(*hosts, "host"));
                write!(f, "this controller goes on with what the master of generation {generation} had decided: {leaves}, {hosts}")
            }
            ClusterNews::StateUnreadable(why) => write!(f, "{why}; so this controller does not become master"),
            ClusterNews::EtcdBack => f.write_str("etcd answers again"),
        }
    }
}
