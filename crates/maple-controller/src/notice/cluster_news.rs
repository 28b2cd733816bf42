//! News of the cluster that a controller has joined.

use std::fmt;

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
    /// The tables and variables that are in etcd can't be used, for this reason. This controller does not lead with them.
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
            ClusterNews::StateUnreadable(why) => write!(f, "{why}; so this controller does not become master"),
            ClusterNews::EtcdBack => f.write_str("etcd answers again"),
        }
    }
}
