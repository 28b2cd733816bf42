//! Claims: packets from a port of this shard whose host is known at another location.
//!
//! A claim asks the shard of the known location whether the host is still there. Until that shard answers, packets from
//! the claiming port are dropped. If the host is still there, the claim is *refuted*, and the port's packets are
//! dropped for some more time. If the host is gone, the claim is *resolved*: the host moves to the port that claimed it
//! first.
//!
//! The number of claims of each port is bounded. So a port that claims every address does not block the others.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use maple_wire::Dpid;

use super::{HostAction, Hosts, Limits, Sender};
use crate::engine::messages::mail::SearchResult;
use crate::ids::Time;
use crate::network::{Location, Mac};
use crate::report::{MoveReason, Report};

/// The maximum number of hosts that one port may claim at the same time. Chosen: as many as roam to a port behind an
/// access point at once, and a forger can cause no more searches than that.
const MAX_CLAIMS: usize = 32;
/// The maximum number of refuted claims of a port that are reported. Chosen: a few names show what happens there, and a
/// forger can fill no log.
const MAX_REPORTED: usize = 8;
/// The time for which a claim waits for the answer, in case the other shard is gone. It must exceed the longest search,
/// which takes as long as `silence` says (10 seconds by default).
const CLAIM_TIMEOUT: Duration = Duration::from_secs(60);

/// The open claims, by port and host.
#[derive(Debug, Default)]
pub(super) struct Claims {
    open: BTreeMap<(Location, Mac), HostClaim>,
    /// The refuted claims that were reported.
    reported: BTreeSet<(Location, Mac)>,
}

#[derive(Clone, Copy, Debug)]
struct HostClaim {
    from: Location,
    began: Time,
    /// The time until which packets of the host change nothing.
    until: Time,
    refuted: bool,
    /// Whether the other shard knows an address that the host announced here.
    has_named: bool,
}

impl Claims {
    /// Opens a claim. Returns whether it is a new one and within the bound.
    fn begin(&mut self, now: Time, mac: Mac, from: Location, to: Location) -> bool {
        if self.open.get(&(to, mac)).is_some_and(|claim| claim.from == from && claim.until > now) {
            return false;
        }
        if self.count(to) >= MAX_CLAIMS {
            self.open.retain(|(at, _), claim| *at != to || claim.until > now);
        }
        let has_capacity = self.count(to) < MAX_CLAIMS;
        if has_capacity {
            let until = now + CLAIM_TIMEOUT;
            self.open.insert((to, mac), HostClaim { from, began: now, until, refuted: false, has_named: false });
        }
        has_capacity
    }

    /// Notes that the host of an open claim announced an address. Returns whether it is the first one.
    fn name(&mut self, mac: Mac, to: Location) -> bool {
        let open = self.open.get_mut(&(to, mac)).filter(|claim| !claim.refuted);
        open.is_some_and(|claim| !std::mem::replace(&mut claim.has_named, true))
    }

    fn count(&self, to: Location) -> usize {
        self.open.range(of_port(to)).count()
    }

    /// Refutes, until `until`, the claims of a host that is still at its location. Returns the ports to report.
    fn refute(&mut self, until: Time, mac: Mac, at: Location) -> Vec<Location> {
        let mut forgers = Vec::new();
        for ((to, _), claim) in self.open.iter_mut().filter(|((_, other), _)| *other == mac) {
            if claim.from == at && !claim.refuted {
                (claim.refuted, claim.until) = (true, until);
                forgers.push(*to);
            }
        }
        forgers
            .retain(|to| self.reported.range(of_port(*to)).count() < MAX_REPORTED && self.reported.insert((*to, mac)));
        forgers
    }

    /// Closes all claims of a host that is gone from its location. Returns the port that claimed it first.
    fn resolve(&mut self, mac: Mac, at: Location) -> Option<Location> {
        let fits = |((_, other), claim): &(&(Location, Mac), &HostClaim)| *other == mac && claim.from == at;
        let first = self.open.iter().filter(fits).min_by_key(|(_, claim)| claim.began);
        let to = first.map(|((to, _), _)| *to)?;
        self.open.retain(|(_, other), _| *other != mac);
        Some(to)
    }

    pub fn forget_port(&mut self, at: Location) {
        self.open.retain(|(to, _), _| *to != at);
        self.reported.retain(|(to, _)| *to != at);
    }

    pub fn forget_switch(&mut self, dpid: Dpid) {
        self.open.retain(|(to, _), _| to.switch != dpid);
        self.reported.retain(|(to, _)| to.switch != dpid);
    }

    pub fn size(&self) -> usize {
        self.open.len() + self.reported.len()
    }
}

impl Hosts {
    /// Handles a packet of a host that is known elsewhere and seems to be at a port of this shard.
    pub(super) fn on_claim(&mut self, now: Time, sender: Sender, from: Location, out: &mut Vec<HostAction>) {
        let Sender { mac, at: to, announces } = sender;
        let is_new = self.claims.begin(now, mac, from, to);
        let named = announces.filter(|_| self.claims.name(mac, to));
        if is_new || named.is_some() {
            out.push(HostAction::Find { mac, at: from, named });
        }
    }

    /// Handles the answer of the shard of the known location.
    pub fn on_found(&mut self, now: Time, mac: Mac, at: Location, found: SearchResult, out: &mut Vec<HostAction>) {
        match found {
            SearchResult::Alive => {
                for seen in self.claims.refute(refuted_until(now, &self.limits), mac, at) {
                    out.push(HostAction::Report(Report::HostSpoofed { mac, at, seen }));
                }
            }
            SearchResult::Gone { was_asked } => {
                let why = if was_asked { MoveReason::NoAnswer } else { MoveReason::Silent };
                if let Some(to) = self.claims.resolve(mac, at)
                    && self.admit(now, mac, to, out)
                {
                    out.push(HostAction::Move { mac, from: at, to, why });
                }
            }
        }
    }
}

/// Returns the time until which a host that was found is not searched for again.
pub(super) fn refuted_until(now: Time, limits: &Limits) -> Time {
    now + limits.probe_timeout * 4
}

fn of_port(at: Location) -> std::ops::RangeInclusive<(Location, Mac)> {
    (at, Mac([0; 6]))..=(at, Mac([0xff; 6]))
}
