//! What is to be done at a later time.

use maple_wire::Dpid;

use super::{Engine, Time};
use crate::network::Mac;
use crate::tree::LeafId;

/// What a timer is for. A timer that is no longer of use is left to run out: whoever it wakes looks at the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A leaf's installation, its held packets, or its next attempt.
    Leaf(LeafId),
    /// A part that is draining.
    Drained(Dpid, LeafId),
    /// A path tag that no leaf uses.
    Tag(u16),
    /// A host that was asked whether it is still there.
    Probe(Mac),
    /// Packets from other switches that wait for rules.
    Held(Dpid),
    /// Packets that wait until it is known what is behind their ports.
    NewPorts(Dpid),
    /// A switch that was full.
    Full(Dpid),
    /// A switch with leaves that found no room.
    Room(Dpid),
    /// The next leaf that is checked.
    Recheck,
    /// A switch with rules that its links can do without.
    Thin(Dpid),
}

impl Engine {
    /// When [`Engine::handle`] wants to be called again, if no event comes before.
    pub fn next_deadline(&self) -> Option<Time> {
        self.timers.first().map(|(time, _)| *time)
    }

    /// Wakes everybody whose time has come.
    pub(super) fn run_timers(&mut self) {
        while let Some(&(time, timer)) = self.timers.first()
            && time <= self.now
        {
            self.timers.pop_first();
            match timer {
                Timer::Leaf(leaf) => self.leaf_timer(leaf),
                Timer::Drained(dpid, leaf) => self.drained(dpid, leaf),
                Timer::Tag(id) => self.tag_timer(id),
                Timer::Probe(mac) => self.probe_timer(mac),
                Timer::Held(dpid) => self.expire_held(dpid),
                Timer::NewPorts(dpid) => self.expire_undecided(dpid),
                Timer::Full(dpid) => self.full_timer(dpid),
                Timer::Room(dpid) => self.ask_for_statistics(dpid),
                // Every batch looks whether it is time; all that was wanted is a batch.
                Timer::Recheck => {}
                Timer::Thin(dpid) => self.thin_timer(dpid),
            }
        }
    }
}
