//! Waiting until rules that are being removed are gone.
//!
//! A withdrawn leaf loses its ingress rule with the next flush, and no other rule reads headers. A caller that wants to
//! know that nothing of it is left asks all shards [`BARRIER_ROUNDS`] times. After the first round of answers, the
//! shards have told each other what to withdraw. After the second one, all ingress rules are gone. Labels may still be
//! in quarantine, but no packet that enters from then on gets them. If nothing is being removed, a round is one message
//! and its answer.

use std::collections::BTreeSet;

use maple_wire::Dpid;

use super::switch::{Stale, Switch};
use super::tables::Waiter;
use super::{Effect, Engine};
use crate::ids::LeafId;

/// The number of rounds. In each, ask every shard, and wait until all have answered.
pub const BARRIER_ROUNDS: u64 = 2;

/// What is being removed, and the waits for it.
#[derive(Debug, Default)]
pub(super) struct BarrierWaits {
    /// Leaves, and subscriptions of routes, whose packets still take their old route, with their ingress switches.
    moving: BTreeSet<(Dpid, LeafId)>,
    waiting: Vec<BarrierWait>,
}

/// A wait until what was being removed when it began is gone.
#[derive(Debug)]
struct BarrierWait {
    token: u64,
    /// The switches with a barrier that is not answered yet.
    switches: BTreeSet<Dpid>,
    /// The reroutes that are not over yet.
    moving: BTreeSet<(Dpid, LeafId)>,
}

impl BarrierWaits {
    /// The packets of `leaf`, which enter at `ingress`, are about to take another route.
    pub fn begin_reroute_of(&mut self, ingress: Dpid, leaf: LeafId) {
        self.moving.insert((ingress, leaf));
    }

    /// The reroute is over: its rule changes with the next update of the switch. Returns the waits that now wait for
    /// that switch.
    pub fn end_reroute_of(&mut self, ingress: Dpid, leaf: LeafId) -> Vec<u64> {
        if !self.moving.remove(&(ingress, leaf)) {
            return Vec::new();
        }
        let ended = self.waiting.iter_mut().filter_map(|wait| {
            let waited = wait.moving.remove(&(ingress, leaf));
            waited.then(|| {
                wait.switches.insert(ingress);
                wait.token
            })
        });
        ended.collect()
    }

    /// Begins a wait for all that is being removed now, including rules of these switches.
    pub fn begin(&mut self, token: u64, switches: BTreeSet<Dpid>) {
        self.waiting.push(BarrierWait { token, switches, moving: self.moving.clone() });
    }

    /// A switch has done all that was sent before the wait's barrier.
    pub fn on_confirmed(&mut self, dpid: Dpid, token: u64) {
        for wait in self.waiting.iter_mut().filter(|wait| wait.token == token) {
            wait.switches.remove(&dpid);
        }
    }

    /// Forgets a switch that has disconnected, and whatever it had.
    pub fn forget_switch(&mut self, dpid: Dpid) {
        for wait in &mut self.waiting {
            wait.switches.remove(&dpid);
            wait.moving.retain(|(at, _)| *at != dpid);
        }
    }

    /// Removes and returns the waits that are over.
    pub fn take_finished(&mut self) -> Vec<u64> {
        let mut settled = Vec::new();
        self.waiting.retain(|wait| {
            let waits = !wait.switches.is_empty() || !wait.moving.is_empty();
            settled.extend((!waits).then_some(wait.token));
            waits
        });
        settled
    }
}

impl Engine {
    /// Waits for all that is being removed now.
    pub(super) fn await_all_barriers(&mut self, token: u64) {
        let is_awaited = |dpid: Dpid, switch: &Switch| self.dirty.contains(&dpid) || switch.tables.is_unconfirmed();
        let awaited = self.switches.iter().filter(|(dpid, switch)| is_awaited(**dpid, switch)).map(|(dpid, _)| *dpid);
        let awaited: BTreeSet<Dpid> = awaited.collect();
        self.barrier_waits.begin(token, awaited.clone());
        awaited.into_iter().for_each(|dpid| self.await_barrier(dpid, token));
        self.report_finished_waits();
    }

    /// A switch has confirmed all that was sent before this barrier.
    pub(super) fn confirmed(&mut self, dpid: Dpid, token: u64) {
        self.barrier_waits.on_confirmed(dpid, token);
        self.report_finished_waits();
    }

    /// A reroute is over: the rule is deleted or changed with the next flush.
    pub(super) fn end_reroute_wait(&mut self, ingress: Dpid, leaf: LeafId) {
        let tokens = self.barrier_waits.end_reroute_of(ingress, leaf);
        if self.switches.contains_key(&ingress) {
            tokens.into_iter().for_each(|token| self.await_barrier(ingress, token));
        } else {
            self.barrier_waits.forget_switch(ingress);
        }
        self.report_finished_waits();
    }

    /// A switch has disconnected, so nothing there has to be waited for.
    pub(super) fn end_waits_for(&mut self, dpid: Dpid) {
        self.barrier_waits.forget_switch(dpid);
        self.report_finished_waits();
    }

    fn await_barrier(&mut self, dpid: Dpid, token: u64) {
        if let Some(switch) = self.switches.get_mut(&dpid) {
            switch.tables.wait(Waiter::Barriers(token));
        }
        self.mark_dirty(dpid, Stale::default());
    }

    fn report_finished_waits(&mut self) {
        self.out.extend(self.barrier_waits.take_finished().into_iter().map(Effect::BarriersDone));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Dpid = Dpid(1);
    const TWO: Dpid = Dpid(2);

    #[test]
    fn a_wait_ends_at_once_if_nothing_is_being_removed() {
        let mut barrier_waits = BarrierWaits::default();
        barrier_waits.begin(7, BTreeSet::new());
        assert_eq!(barrier_waits.take_finished(), [7]);
        assert_eq!(barrier_waits.take_finished(), [0; 0], "and reported once");
    }

    #[test]
    fn a_wait_covers_all_switches_and_nothing_that_begins_later() {
        let mut barrier_waits = BarrierWaits::default();
        barrier_waits.begin(1, BTreeSet::from([ONE, TWO]));
        barrier_waits.on_confirmed(ONE, 1);
        barrier_waits.begin(2, BTreeSet::from([ONE]));
        barrier_waits.begin_reroute_of(ONE, LeafId(5));
        assert_eq!(barrier_waits.take_finished(), [0; 0]);
        barrier_waits.on_confirmed(TWO, 1);
        assert_eq!(barrier_waits.take_finished(), [1]);
        barrier_waits.on_confirmed(ONE, 2);
        assert_eq!(barrier_waits.take_finished(), [2]);
    }

    #[test]
    fn a_wait_covers_a_reroute_and_then_its_switch() {
        let mut barrier_waits = BarrierWaits::default();
        barrier_waits.begin_reroute_of(ONE, LeafId(5));
        barrier_waits.begin(3, BTreeSet::new());
        assert_eq!(barrier_waits.end_reroute_of(ONE, LeafId(6)), [0; 0], "another leaf");
        assert_eq!(barrier_waits.take_finished(), [0; 0]);
        assert_eq!(barrier_waits.end_reroute_of(ONE, LeafId(5)), [3]);
        assert_eq!(barrier_waits.take_finished(), [0; 0], "its rule is still there");
        barrier_waits.on_confirmed(ONE, 3);
        assert_eq!(barrier_waits.take_finished(), [3]);
        barrier_waits.begin(4, BTreeSet::new());
        assert_eq!(barrier_waits.take_finished(), [4], "the reroute is over");
    }

    #[test]
    fn a_wait_leaves_out_a_switch_that_is_gone() {
        let mut barrier_waits = BarrierWaits::default();
        barrier_waits.begin_reroute_of(ONE, LeafId(5));
        barrier_waits.begin(3, BTreeSet::from([ONE, TWO]));
        barrier_waits.forget_switch(ONE);
        assert_eq!(barrier_waits.take_finished(), [0; 0]);
        barrier_waits.on_confirmed(TWO, 3);
        assert_eq!(barrier_waits.take_finished(), [3]);
    }
}
