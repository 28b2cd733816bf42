//! Connections that have ended: what is counted and reported of them.

use std::net::SocketAddr;

use maple_wire::Dpid;

use crate::counters::{Counters, FormerCounters};
use crate::notice::{Notice, RefusalFilter};
use crate::session::CloseReason;
use crate::shard::context::Context;

/// The ended connections of a shard, as far as they are known.
#[derive(Debug, Default)]
pub(in crate::shard) struct ClosedConnections {
    /// The counters of those whose handshake was done, by switch.
    pub counters: FormerCounters,
    refusals: RefusalFilter,
}

/// The use of a connection until its end.
#[derive(Clone, Copy, Debug)]
pub(in crate::shard) struct ConnectionUse {
    /// Whether its handshake was done, so that the engine had its switch.
    pub up: bool,
    /// Whether another controller may have been its switch's master.
    pub is_standby: bool,
}

impl ClosedConnections {
    /// Counts the end of a connection and reports it, once.
    pub fn report(
        &mut self,
        peer: SocketAddr,
        dpid: Option<Dpid>,
        used: ConnectionUse,
        reason: CloseReason,
        ctx: &mut Context,
    ) {
        count_end(&mut ctx.counters, &reason, used);
        match dpid {
            _ if matches!(reason, CloseReason::Silent | CloseReason::Stopping) => tracing::debug!(%peer, "{reason}"),
            Some(dpid) if used.up || used.is_standby => {
                ctx.notices.publish(Notice::Disconnected { dpid, peer, reason })
            }
            _ if self.refusals.is_new(ctx.now, peer, &reason) => ctx.notices.publish(Notice::Refused { peer, reason }),
            _ => tracing::debug!(%peer, "connection ended: {reason}"),
        }
    }
}

fn count_end(counters: &mut Counters, reason: &CloseReason, used: ConnectionUse) {
    match reason {
        CloseReason::Silent => counters.of_silent_connections += 1,
        _ if used.up => counters.of_dp_disconnections += 1,
        // It was counted when the controller lost the switch, or never as a switch.
        _ if used.is_standby => {}
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
