//! Timers: what is due at a later time, and the calls that do it.

use std::time::Duration;

use maple_wire::Dpid;

use super::routes::RouteId;
use super::{Engine, Time};
use crate::ids::LeafId;
use crate::network::{Location, Mac};

/// The purpose of a timer. A timer that is not needed is not cancelled: the code that it wakes checks the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A leaf: its held packets, or its reroute.
    Leaf(LeafId),
    /// A switch with labels in quarantine.
    Labels(Dpid),
    /// Routes whose labels were refused.
    Routes,
    /// A route whose next path should be ready.
    NextPath(RouteId),
    /// A search for a host.
    Search(Mac),
    /// A port that is guarded because too many hosts are there.
    Guard(Location),
    /// A host whose announcements are not copied because it made too many.
    Muted(Location, Mac),
    /// A switch whose hosts are checked for silent ones.
    Hosts(Dpid),
    /// A switch with packets from new ports.
    NewPorts(Dpid),
    /// A switch that was full or refused a rule.
    Refused(Dpid),
    /// A switch that has no capacity for some leaves.
    Capacity(Dpid),
    /// A switch with meters that may be unused.
    Meters(Dpid),
    /// A switch that is to be asked for its counters.
    Poll(Dpid),
    /// A switch that waits for the next change of its rules.
    Pace(Dpid),
    /// A switch that is to be audited.
    Audit(Dpid),
    /// The gauges that f wants.
    Demand,
    /// The next leaf to check.
    Recheck,
    /// A switch whose samples are decided again.
    Samples(Dpid),
    /// The next samples of the switch whose turn it is.
    SampleTurn,
    /// The next leaves that a candidate decides.
    Trial,
    /// Requests for labels that came too early.
    EarlyRequests,
    /// A switch that keeps the rules of an earlier run.
    Restore(Dpid),
    /// A watch, by its number.
    Live(u8),
}

/// The lateness of a timer from which it shows that the engine stood still, and not the network.
const STANDSTILL: Duration = Duration::from_secs(2);

impl Engine {
    /// Returns whether the engine handled nothing for long. If so, corrects the times of hosts: our own lateness is
    /// never another's silence.
    pub(super) fn notice_standstill(&mut self) -> bool {
        let Some(due) = self.next_deadline() else { return false };
        let late = Duration::from_nanos(self.ctx.now.0.saturating_sub(due.0));
        let stood_still = late >= STANDSTILL;
        if stood_still {
            self.hosts.stood_still(self.ctx.now, late);
        }
        stood_still
    }

    /// The time at which [`Engine::handle`] is to be called again, if no event comes before.
    pub fn next_deadline(&self) -> Option<Time> {
        self.ctx.timers.first().map(|(time, _)| *time)
    }

    /// Runs all timers that are due.
    pub(super) fn run_timers(&mut self) {
        while let Some(&(time, timer)) = self.ctx.timers.first()
            && time <= self.ctx.now
        {
            self.ctx.timers.pop_first();
            match timer {
                Timer::Leaf(leaf) => self.leaf_timer(leaf),
                Timer::Labels(dpid) => self.expire_labels(dpid),
                Timer::Routes => self.retry_routes(),
                Timer::NextPath(route) => self.abandon_next_path(route),
                Timer::Search(mac) => self.with_hosts(|hosts, now, actions| hosts.on_search_timer(now, mac, actions)),
                Timer::Guard(at) => self.with_hosts(|hosts, now, actions| hosts.on_guard_timer(now, at, actions)),
                Timer::Muted(at, mac) => self.with_hosts(|hosts, _, actions| hosts.on_muted_timer(at, mac, actions)),
                Timer::Hosts(dpid) => self.with_hosts(|hosts, now, actions| hosts.on_round_timer(now, dpid, actions)),
                Timer::NewPorts(dpid) => self.expire_new_port_packets(dpid),
                Timer::Refused(dpid) => self.retry_refused_rules(dpid),
                Timer::Capacity(dpid) => self.ask_for_statistics(dpid),
                Timer::Meters(dpid) => self.sweep_meters(dpid),
                Timer::Poll(dpid) => self.poll(dpid),
                Timer::Pace(dpid) => self.pace(dpid),
                Timer::Audit(dpid) => self.audit(dpid),
                Timer::Demand => self.update_demand(),
                Timer::Samples(dpid) => self.samples_due(dpid),
                Timer::SampleTurn => self.decide_samples(),
                Timer::Trial => self.go_on_trying(),
                Timer::EarlyRequests => self.ask_again(),
                Timer::Restore(dpid) => self.go_on_restoring(dpid),
                Timer::Live(number) => self.look_after_live(number),
                // Every batch checks whether a leaf is due; the timer only causes a batch.
                Timer::Recheck => {}
            }
        }
    }
}
