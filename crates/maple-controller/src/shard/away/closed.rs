//! Connections that have ended: what is counted and reported of them.

use std::net::SocketAddr;

use maple_wire::Dpid;

use crate::counters::{Counters, FormerCounters};
use crate::notice::{Notice, RefusalFilter};
use crate::session::CloseReason;
use crate::shard::context::Context;

/// What is known of the ended connections of a shard.
#[derive(Debug, Default)]
pub(in crate::shard) struct ClosedConnections {
    /// What those have counted whose handshake was done, by switch.
    pub counters: FormerCounters,
    refusals: RefusalFilter,
}

impl ClosedConnections {
    /// Counts the end of a connection and reports it, once. `up` says whether its handshake was done.
    pub fn report(&mut self, peer: SocketAddr, dpid: Option<Dpid>, up: bool, reason: CloseReason, ctx: &mut Context) {
        count_end(&mut ctx.counters, &reason, up);
        match dpid {
            _ if matches!(reason, CloseReason::Silent | CloseReason::Stopping) => tracing::debug!(%peer, "{reason}"),
            Some(dpid) if up => ctx.notices.publish(Notice::Disconnected { dpid, peer, reason }),
            _ if self.refusals.is_new(ctx.now, peer, &reason) => ctx.notices.publish(Notice::Refused { peer, reason }),
            _ => tracing::debug!(%peer, "connection ended: {reason}"),
        }
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
