//! Switches without a connection: their links are judged by what their neighbours report.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use maple_core::engine::Time;
use maple_core::network::Location;
use maple_wire::{Dpid, PortNo};

use super::{Discovery, DiscoveryOutput};
use crate::time::after;

/// The maximum number of ports of a switch whose former peers [`Discovery`] keeps: a switch may add and delete ports
/// for ever. Chosen: more link ports than a switch has.
const MAX_FORMER_PEERS: usize = 1024;

/// A function that reports whether a switch is unreachable at any shard: it has no connection, or a silent one.
#[derive(Clone, Default)]
pub struct IsUnreachable(Option<Arc<dyn Fn(Dpid) -> bool + Send + Sync>>);

impl IsUnreachable {
    /// Creates the question from a function that answers it.
    pub fn by(is_unreachable: impl Fn(Dpid) -> bool + Send + Sync + 'static) -> IsUnreachable {
        IsUnreachable(Some(Arc::new(is_unreachable)))
    }

    /// Reports whether the owner of this switch hears nothing from it.
    pub(super) fn ask(&self, dpid: Dpid) -> bool {
        self.0.as_ref().is_some_and(|is_unreachable| is_unreachable(dpid))
    }
}

impl fmt::Debug for IsUnreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IsUnreachable")
    }
}

impl Discovery {
    /// Keeps the former peers of a port, if it had any. It still leads there if the other switch is away.
    pub(super) fn keep_former(&mut self, at: Location, peers: BTreeSet<Location>) {
        if peers.is_empty() {
            return;
        }
        let of_switch =
            self.former_peers.range(Location::new(at.switch, PortNo(0))..=Location::new(at.switch, PortNo(u32::MAX)));
        if of_switch.count() < MAX_FORMER_PEERS || self.former_peers.contains_key(&at) {
            self.former_peers.insert(at, peers);
        }
    }

    /// Suspends a switch whose connection ended. What was found at its ports stands: the wires may be as before,
    /// although no probe arrives there or leaves. What its neighbours report still counts.
    pub fn suspend(&mut self, dpid: Dpid) {
        self.unreachable.insert(dpid);
    }

    /// Ends the suspension of a switch that has a connection again. Probes are sent at once, and all waits for probes
    /// begin anew.
    pub fn resume(&mut self, now: Time, dpid: Dpid, out: &mut Vec<DiscoveryOutput>) {
        if !self.unreachable.remove(&dpid) {
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
