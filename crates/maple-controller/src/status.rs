//! Reports of a controller about its switches and shards: plain data.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::{self, Histogram, ShardId, SwitchCounts, ViolationKey};
use maple_wire::{Dpid, Port, PortNo, Version};

use crate::counters::{Counters, SwitchCounters};
use crate::printable::printable;

/// The counters of one shard.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShardStats {
    /// The controller's counters.
    pub counters: Counters,
    /// The engine's counters.
    pub engine: engine::Stats,
}

/// The counters of all shards.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// The sum over the shards.
    pub total: ShardStats,
    /// Each shard's counters.
    pub shards: Vec<ShardStats>,
    /// Open connections, including those in their handshake.
    pub connections: usize,
    /// Bytes that the process has allocated, if it counts them ([`crate::ControlOptions::heap_bytes`]).
    pub heap_bytes: Option<usize>,
}

/// A switch, with a connection or without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchStatus {
    /// The switch.
    pub dpid: Dpid,
    /// The address of its end of the connection, if it has one.
    pub peer: Option<SocketAddr>,
    /// The time for which it has had no connection; `None` if it has one.
    pub unreachable: Option<Duration>,
    /// Whether it has a connection by which nothing comes, though an answer is due.
    pub silent: bool,
    /// The OpenFlow version of the connection.
    pub version: Version,
    /// The switch's description of itself.
    pub description: String,
    /// The number of its flow tables.
    pub tables: u8,
    /// Whether it makes all changes of an update at once or none.
    pub bundles: bool,
    /// The shard that serves it.
    pub shard: ShardId,
    /// Bytes that wait to be sent to it.
    pub waiting_bytes: usize,
    /// Its ports.
    pub ports: Vec<SwitchPort>,
}

/// A port of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchPort {
    /// Its number.
    pub number: PortNo,
    /// Its name.
    pub name: String,
    /// Whether packets can pass.
    pub up: bool,
}

impl From<&Port> for SwitchPort {
    fn from(port: &Port) -> SwitchPort {
        SwitchPort { number: port.number, name: printable(&port.name()), up: port.is_up() }
    }
}

/// The metrics of one shard.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShardMetrics {
    pub stats: ShardStats,
    /// The times from the beginning of a packet's turn to the end of f's decision.
    pub decide_times: Histogram,
    /// The times from a leaf's decision to the confirmation of its rule.
    pub install_times: Histogram,
    /// The queues: the name and the length of each.
    pub queues: Vec<(&'static str, u64)>,
    /// The switches that are connected here, and those that were.
    pub switches: Vec<SwitchMetrics>,
    /// The number of switches without a connection that are kept.
    pub unreachable: u64,
    /// The policy's errors, each with the number of packets dropped because of it.
    pub failures: Vec<(Arc<str>, u64)>,
    /// The routes that constraints refused, each with the number of times.
    pub violations: Vec<(ViolationKey, u64)>,
}

/// The metrics of one switch.
#[derive(Clone, Debug)]
pub(crate) struct SwitchMetrics {
    pub dpid: Dpid,
    pub counters: SwitchCounters,
    /// The metrics of its connection, if it is connected.
    pub now: Option<ConnectedMetrics>,
}

/// The metrics of a connected switch.
#[derive(Clone, Debug)]
pub(crate) struct ConnectedMetrics {
    /// Bytes that wait to be sent to it.
    pub waiting_bytes: usize,
    pub ports: Arc<Vec<Port>>,
    /// The engine's counts for this switch; `None` if a handler serves it.
    pub counts: Option<SwitchCounts>,
}
