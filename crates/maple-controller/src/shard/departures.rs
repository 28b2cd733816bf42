//! Connections that have ended: what is counted and reported of them, and their switches, until the engine has handled
//! the end.

use std::net::SocketAddr;

use maple_core::engine::Time;
use maple_wire::Dpid;

use super::context::Context;
use super::registry::ConnectionId;
use crate::counters::{Counters, FormerCounters, SwitchCounters};
use crate::notice::{Notice, RefusalFilter};
use crate::session::{CloseReason, SwitchInfo};

/// A switch whose connection has ended, or that is forgotten. Its datapath id stays taken until the engine has handled
/// that. The engine may delete the switch's state, and must not delete state that a new connection has written, perhaps
/// on another shard.
#[derive(Debug)]
pub(super) struct DepartedSwitch {
    pub dpid: Dpid,
    pub connection: Option<ConnectionId>,
    /// The switch's description of itself, with its ports, if the engine has the switch.
    pub info: Option<Box<SwitchInfo>>,
    /// Other connections that claim this switch.
    pub claimants: Vec<ConnectionId>,
}

impl DepartedSwitch {
    /// Creates the departure of an announced switch whose connection has not come, or has ended at once.
    pub fn announced(dpid: Dpid, info: SwitchInfo) -> DepartedSwitch {
        DepartedSwitch { info: Some(Box::new(info)), ..DepartedSwitch::forgotten(dpid) }
    }

    /// Creates the departure of a switch that has had no connection for too long.
    pub fn forgotten(dpid: Dpid) -> DepartedSwitch {
        DepartedSwitch { dpid, connection: None, info: None, claimants: Vec::new() }
    }
}

/// The ended connections of a shard.
#[derive(Debug, Default)]
pub(super) struct Departures {
    /// The departed switches whose end the engine has not handled yet.
    waiting: Vec<DepartedSwitch>,
    /// The counters of ended connections.
    former: FormerCounters,
    refusals: RefusalFilter,
}

impl Departures {
    /// Adds a switch whose end the engine is to handle.
    pub fn push(&mut self, departure: DepartedSwitch) {
        self.waiting.push(departure);
    }

    /// Takes the switches whose end the engine has handled.
    pub fn take(&mut self) -> Vec<DepartedSwitch> {
        std::mem::take(&mut self.waiting)
    }

    /// Returns those that claim the switch of this ended connection, if the engine has not handled the end yet.
    pub fn claimants_of(&mut self, connection: ConnectionId) -> Option<&mut Vec<ConnectionId>> {
        let departure = self.waiting.iter_mut().find(|departure| departure.connection == Some(connection));
        departure.map(|departure| &mut departure.claimants)
    }

    /// Keeps the counters of a switch's connection.
    pub fn add_counters(&mut self, dpid: Dpid, counters: SwitchCounters) {
        self.former.add(dpid, counters);
    }

    /// Returns the counters of ended connections.
    pub fn former(&self) -> &FormerCounters {
        &self.former
    }

    /// Counts the end of a connection and reports it, once. `up` says whether its handshake was done.
    pub fn report(&mut self, peer: SocketAddr, dpid: Option<Dpid>, up: bool, reason: CloseReason, ctx: &mut Context) {
        count_end(&mut ctx.counters, &reason, up);
        match dpid {
            _ if matches!(reason, CloseReason::Silent | CloseReason::Stopping) => tracing::debug!(%peer, "{reason}"),
            Some(dpid) if up => ctx.notices.publish(Notice::Disconnected { dpid, peer, reason }),
            _ if self.is_new(ctx.now, peer, &reason) => ctx.notices.publish(Notice::Refused { peer, reason }),
            _ => tracing::debug!(%peer, "connection ended: {reason}"),
        }
    }

    fn is_new(&mut self, now: Time, peer: SocketAddr, reason: &CloseReason) -> bool {
        self.refusals.is_new(now, peer, reason)
    }
}

fn count_end(counters: &mut Counters, reason: &CloseReason, up: bool) {
    match reason {
        CloseReason::Silent => counters.of_silent_connections += 1,
        _ if up => counters.of_dp_disconnections += 1,
        _ => counters.of_handshake_failures += 1,
    }
    match reason {
        CloseReason::Tls(_) => counters.of_tls_failures += 1,
        CloseReason::NotThisSwitch(_) => counters.of_wrong_certificates += 1,
        CloseReason::Malformed(_) => counters.of_malformed += 1,
        CloseReason::Duplicate(_) => counters.of_duplicate_dpids += 1,
        CloseReason::Replaced(_) => counters.of_replaced_connections += 1,
        CloseReason::NotReading(_) => counters.of_not_reading += 1,
        CloseReason::HandshakeTimeout { .. } | CloseReason::RequestTimeout(_) | CloseReason::EchoTimeout(_) => {
            counters.of_timeouts += 1;
        }
        _ => {}
    }
}
