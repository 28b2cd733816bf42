//! Switches without a connection: what their neighbours see of the wires counts.

use std::fmt;
use std::sync::Arc;

use maple_core::engine::Time;
use maple_wire::Dpid;

use super::{Discovery, DiscoveryOutput};
use crate::time::after;

/// Tells whether a switch is suspended, by any shard.
#[derive(Clone, Default)]
pub struct IsAway(Option<Arc<dyn Fn(Dpid) -> bool + Send + Sync>>);

impl IsAway {
    /// By this.
    pub fn by(is_away: impl Fn(Dpid) -> bool + Send + Sync + 'static) -> IsAway {
        IsAway(Some(Arc::new(is_away)))
    }

    pub(super) fn ask(&self, dpid: Dpid) -> bool {
        self.0.as_ref().is_some_and(|is_away| is_away(dpid))
    }
}

impl fmt::Debug for IsAway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IsAway")
    }
}

impl Discovery {
    /// A switch has no connection any more. What was found at its ports stands: that no probe arrives there, or leaves, says
    /// nothing about the wires. What its neighbours report still counts.
    pub fn suspend(&mut self, dpid: Dpid) {
        self.suspended.insert(dpid);
    }

    /// A switch has a connection again. Probes are sent at once, and all waits for probes begin anew.
    pub fn resume(&mut self, now: Time, dpid: Dpid, out: &mut Vec<DiscoveryOutput>) {
        if !self.suspended.remove(&dpid) {
            return;
        }
        let deaf_until = after(now, self.timing.validity());
        for at in self.ports_of(dpid) {
            if let Some(port) = self.ports.get_mut(&at) {
                port.begin_anew(now, deaf_until);
                port.wait_until(after(now, self.timing.grace_period()));
            }
            self.restart(now, at, out);
        }
    }
}
