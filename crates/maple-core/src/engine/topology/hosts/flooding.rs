//! Limits the number of hosts at a port and at a switch, and decides what happens to further ones.
//!
//! A port has at most `max_hosts_per_port` hosts. The packets of further hosts are dropped. For a while
//! ([`GUARD_DURATION`]) the switch drops them by itself, so that a flood of addresses costs the controller only an
//! occasional burst. Hosts that are known at the port are not affected.
//!
//! A switch has at most `max_hosts`. When it is full, a port gets another host only while it has fewer than the port
//! with the most hosts. That port then loses its longest silent host. So ports that flood share the capacity among
//! themselves, and the other ports get theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use maple_wire::{Dpid, PortNo};

use super::{HostAction, Hosts};
use crate::engine::context::timers::Timer;
use crate::ids::Time;
use crate::network::{Location, Mac};
use crate::report::Report;

/// The time for which a switch drops the packets of unknown hosts at a port with too many. Chosen: a flood costs the
/// controller a burst every ten seconds, and a port that has capacity again waits no longer.
pub(super) const GUARD_DURATION: Duration = Duration::from_secs(10);

/// The ports with too many hosts.
#[derive(Debug, Default)]
pub(super) struct Flooding {
    /// The guarded ports, each with the time until which its switch drops the packets of unknown hosts.
    guarded: BTreeMap<Location, Time>,
    /// The ports that were reported.
    reported: BTreeSet<Location>,
}

impl Flooding {
    pub fn forget_port(&mut self, at: Location) {
        self.guarded.remove(&at);
        self.reported.remove(&at);
    }

    pub fn forget_switch(&mut self, dpid: Dpid) {
        self.guarded.retain(|at, _| at.switch != dpid);
        self.reported.retain(|at| at.switch != dpid);
    }

    pub fn size(&self) -> usize {
        self.guarded.len() + self.reported.len()
    }
}

impl Hosts {
    /// Reports whether a port has capacity for a host that is not known yet.
    pub fn has_room(&self, mac: Mac, at: Location) -> bool {
        let here = self.per_port.get(&at).copied().unwrap_or_default();
        let on_switch = self.per_switch.get(&at.switch).copied().unwrap_or_default();
        self.is_in_fixed_place(mac, at)
            || !self.flooding.guarded.contains_key(&at) && here < self.most_at(at) && on_switch < self.limits.per_switch
    }

    /// Reports whether a port may have another host. If not, the port is guarded for a while. A host with a fixed place
    /// there is always admitted; the configuration bounds the number of such hosts.
    pub(super) fn admit(&mut self, now: Time, mac: Mac, at: Location, out: &mut Vec<HostAction>) -> bool {
        if self.is_in_fixed_place(mac, at) {
            return true;
        }
        if self.flooding.guarded.contains_key(&at) {
            return false;
        }
        let here = self.per_port.get(&at).copied().unwrap_or_default();
        let on_switch = self.per_switch.get(&at.switch).copied().unwrap_or_default();
        let maximum = self.most_at(at);
        if here < maximum && (on_switch < self.limits.per_switch || self.evict_host_for(at, here, out)) {
            return true;
        }
        self.flooding.guarded.insert(at, now + GUARD_DURATION);
        out.push(HostAction::Guard { at, on: true });
        out.push(HostAction::Wake(now + GUARD_DURATION, Timer::Guard(at)));
        if self.flooding.reported.insert(at) {
            out.push(HostAction::Report(Report::TooManyHosts { at, most: maximum.min(here.max(1)) }));
        }
        false
    }

    /// Evicts a host from the port of a full switch that has most hosts, for a port that has `here` of them. Returns
    /// whether there is such a host.
    fn evict_host_for(&mut self, at: Location, here: usize, out: &mut Vec<HostAction>) -> bool {
        let all = Location::new(at.switch, PortNo(0))..=Location::new(at.switch, PortNo(u32::MAX));
        let fullest = self.per_port.range(all).max_by_key(|(at, count)| (**count, std::cmp::Reverse(**at)));
        let Some(from) = fullest.filter(|(_, count)| **count > here + 1).map(|(from, _)| *from) else { return false };
        let silent = self.at_port(from).min_by_key(|(_, known)| known.last_active).map(|(mac, _)| mac);
        let Some(mac) = silent else { return false };
        self.on_departure(mac, from);
        out.push(HostAction::Forget { mac, at: from });
        true
    }

    /// Applies changed maxima: forgets hosts of ports that have too many, the longest silent ones first, and lets
    /// guarded ports try again. Returns the hosts that were forgotten.
    pub(super) fn apply_maxima(&mut self, out: &mut Vec<HostAction>) -> Vec<(Location, Mac)> {
        let mut forgotten = Vec::new();
        let Flooding { guarded, .. } = std::mem::take(&mut self.flooding);
        out.extend(guarded.into_keys().map(|at| HostAction::Guard { at, on: false }));
        let full: Vec<Location> =
            self.per_port.iter().filter(|(at, count)| **count > self.most_at(**at)).map(|(at, _)| *at).collect();
        for at in full {
            // Hosts with a fixed place come on top.
            let mut hosts: Vec<(Time, Mac)> = self
                .at_port(at)
                .filter(|(mac, _)| !self.is_in_fixed_place(*mac, at))
                .map(|(mac, known)| (known.last_active, mac))
                .collect();
            hosts.sort();
            let surplus = hosts.len().saturating_sub(self.most_at(at));
            for (_, mac) in hosts.into_iter().take(surplus) {
                self.on_departure(mac, at);
                out.push(HostAction::Forget { mac, at });
                forgotten.push((at, mac));
            }
        }
        forgotten
    }

    /// Ends the guard of a port that was guarded for long enough.
    pub fn on_guard_timer(&mut self, now: Time, at: Location, out: &mut Vec<HostAction>) {
        if self.flooding.guarded.get(&at).is_some_and(|until| *until <= now) {
            self.flooding.guarded.remove(&at);
            out.push(HostAction::Guard { at, on: false });
        }
    }
}
