//! What a controller reports about its switches and shards: plain data.

use std::net::SocketAddr;

use maple_core::engine::{self, ShardId};
use maple_wire::{Dpid, PortNo, Version};

use crate::counters::Counters;

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
    /// Bytes that the process has allocated, if it counts them ([`crate::ControllerOptions::heap_bytes`]).
    pub heap_bytes: Option<usize>,
}

/// A connected switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchStatus {
    /// The switch.
    pub dpid: Dpid,
    /// The address of its end of the connection.
    pub peer: SocketAddr,
    /// The OpenFlow version of the connection.
    pub version: Version,
    /// The switch's description of itself.
    pub description: String,
    /// The number of its flow tables.
    pub tables: u8,
    /// The shard that serves it.
    pub shard: ShardId,
    /// Bytes that wait to be sent to it.
    pub waiting_bytes: usize,
    /// Its ports.
    pub ports: Vec<SwitchPort>,
}

/// A port of a connected switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchPort {
    /// Its number.
    pub number: PortNo,
    /// Its name.
    pub name: String,
    /// Whether packets can pass.
    pub up: bool,
}
