//! Timers: what is due at a later time.

use std::time::Duration;

use maple_wire::Dpid;

use super::Context;
use crate::ids::{LeafId, RouteId, Time};
use crate::network::{Location, Mac};

/// The lateness of a timer from which it shows that the engine stood still, and not the network. It must exceed what a
/// long turn takes, and be less than the silence after which links and hosts end (`Options::silence`).
const STANDSTILL: Duration = Duration::from_secs(2);

/// The purpose of a timer. A timer that is not needed is not cancelled: the code that it wakes checks the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::engine) enum Timer {
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
    /// A switch whose postponed or held rules may be tried again.
    RetryRules(Dpid),
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
    /// A switch whose keys' rules wait for the rules of leaves.
    LookUps(Dpid),
    /// The gauges that f wants.
    Demand,
    /// The next leaf to check.
    Recheck,
    /// A switch whose samples are decided again.
    Samples(Dpid),
    /// The next samples of the switch whose turn it is.
    SampleTurn,
    /// A switch that is to be explored.
    Explore(Dpid),
    /// The next packets of the exploration whose turn it is.
    ExploreTurn,
    /// The next leaves that a candidate decides.
    Trial,
    /// Requests for labels that came too early.
    EarlyRequests,
    /// A switch that keeps the rules of an earlier run.
    Restore(Dpid),
    /// A watch, by its number.
    Live(u8),
}

impl Context {
    /// Sets a timer.
    pub fn wake_at(&mut self, time: Time, timer: Timer) {
        self.timers.insert((time, timer));
    }

    /// Returns the time when the next timer is due.
    pub fn next_deadline(&self) -> Option<Time> {
        self.timers.first().map(|(time, _)| *time)
    }

    /// Removes and returns the next timer that is due.
    pub fn take_due(&mut self) -> Option<Timer> {
        let (_, timer) = self.timers.first().copied().filter(|(time, _)| *time <= self.now)?;
        self.timers.pop_first();
        Some(timer)
    }

    /// Returns how late the next timer is, if the engine handled nothing for long. Our own lateness is never another's
    /// silence.
    pub fn standstill(&self) -> Option<Duration> {
        let late = Duration::from_nanos(self.now.0.saturating_sub(self.next_deadline()?.0));
        Some(late).filter(|late| *late >= STANDSTILL)
    }
}
