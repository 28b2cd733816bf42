//! The metrics of a shard: a copy of its plain numbers, made on request.

use std::collections::BTreeMap;
use std::sync::Arc;

use maple_core::engine::Engine;
use maple_wire::Dpid;

use super::connection::Connection;
use super::context::Context;
use super::io::Io;
use super::switches::Switches;
use super::turn::EngineTurn;
use crate::counters::SwitchCounters;
use crate::status::{ConnectedMetrics, ShardMetrics, ShardStats, SwitchMetrics};

/// Collects the shard's metrics. This costs a few hundred nanoseconds a switch, and nothing for a rule or a packet.
pub(super) fn collect(io: &Io, switches: &Switches, turn: &EngineTurn, ctx: &Context) -> ShardMetrics {
    let engine = turn.engine();
    ShardMetrics {
        stats: ShardStats { counters: ctx.counters, engine: engine.view().stats() },
        decide_times: turn.decide_times(),
        install_times: engine.view().install_times(),
        queues: vec![
            ("backlog", turn.waiting() as u64),
            ("mailbox", ctx.inbox.len() as u64),
            ("outgoing", ctx.outgoing.waiting() as u64),
            ("parked", engine.view().parked() as u64),
            ("reads", io.waiting_reads() as u64),
        ],
        switches: switch_metrics(io, switches, engine),
        unreachable: switches.away.unreachable.infos().count() as u64,
        failures: engine.view().failures(),
        violations: engine.view().violations(),
    }
}

/// Collects the metrics of the switches that are connected here, and of those that were.
fn switch_metrics(io: &Io, switches: &Switches, engine: &Engine) -> Vec<SwitchMetrics> {
    let mut former: BTreeMap<Dpid, SwitchCounters> = switches.closed.counters.all().clone();
    let connected = io.connections().iter();
    let mut all: Vec<_> = connected.filter_map(|connection| connected_metrics(connection, engine)).collect();
    for switch in &mut all {
        switch.counters += former.remove(&switch.dpid).unwrap_or_default();
    }
    all.extend(former.into_iter().map(|(dpid, counters)| SwitchMetrics { dpid, counters, now: None }));
    all
}

/// Returns the metrics of a connection's switch, if its handshake is done.
fn connected_metrics(connection: &Connection, engine: &Engine) -> Option<SwitchMetrics> {
    let (switch, dpid) = (connection.switch.as_ref()?, connection.dpid?);
    let (waiting_bytes, ports) = (connection.outbox.len(), Arc::clone(&switch.ports));
    let now = ConnectedMetrics { waiting_bytes, ports, counts: engine.view().switch_counts(dpid) };
    Some(SwitchMetrics { dpid, counters: connection.counters, now: Some(now) })
}
