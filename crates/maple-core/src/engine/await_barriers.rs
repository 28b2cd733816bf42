//! Telling when rules that are on their way out are gone.
//!
//! A withdrawn leaf loses its ingress rule with the next flush, and no other rule looks at headers. So who wants to know
//! that nothing of it is left asks all shards [`BARRIER_ROUNDS`] times: when they have answered once they have told each
//! other what to withdraw, and when they have answered again all ingress rules are gone. Labels may stay in quarantine: no
//! packet that enters from then on comes under them. With nothing on its way a round is one message and its answer.

use std::collections::BTreeSet;

use maple_wire::Dpid;

use super::switch::{Stale, Switch};
use super::tables::Waiter;
use super::{Effect, Engine};
use crate::ids::LeafId;

/// How often to ask every shard, each time after all have answered.
pub const BARRIER_ROUNDS: u64 = 2;

/// What is on its way out, and those who wait until it is gone.
#[derive(Debug, Default)]
pub(super) struct BarrierWaits {
    /// Leaves, and plans, whose packets still take their old route, and the switches where they enter.
    moving: BTreeSet<(Dpid, LeafId)>,
    waiting: Vec<BarrierWait>,
}

/// Somebody who waits until what was on its way out is gone.
#[derive(Debug)]
struct BarrierWait {
    token: u64,
    /// Switches whose barrier was not answered yet.
    switches: BTreeSet<Dpid>,
    /// Of those that are on their way to another route.
    moving: BTreeSet<(Dpid, LeafId)>,
}

impl BarrierWaits {
    /// Packets of `leaf`, which enter at `ingress`, are about to take another route.
    pub fn begin_reroute_of(&mut self, ingress: Dpid, leaf: LeafId) {
        self.moving.insert((ingress, leaf));
    }

    /// Their rule goes out, or another way, with the next update of the switch: those who wait for that switch now.
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

    /// Somebody waits for all that is on its way out now, these switches' rules among it.
    pub fn begin(&mut self, token: u64, switches: BTreeSet<Dpid>) {
        self.waiting.push(BarrierWait { token, switches, moving: self.moving.clone() });
    }

    /// A switch has done all that was sent before it was waited for.
    pub fn on_confirmed(&mut self, dpid: Dpid, token: u64) {
        for wait in self.waiting.iter_mut().filter(|wait| wait.token == token) {
            wait.switches.remove(&dpid);
        }
    }

    /// A switch is gone, and whatever it had is of no effect.
    pub fn forget_switch(&mut self, dpid: Dpid) {
        for wait in &mut self.waiting {
            wait.switches.remove(&dpid);
            wait.moving.retain(|(at, _)| *at != dpid);
        }
    }

    /// Those who need not wait any more.
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
    /// Waits for all that is on its way out now.
    pub(super) fn await_all_barriers(&mut self, token: u64) {
        let is_awaited = |dpid: Dpid, switch: &Switch| self.dirty.contains(&dpid) || switch.tables.is_unconfirmed();
        let awaited = self.switches.iter().filter(|(dpid, switch)| is_awaited(**dpid, switch)).map(|(dpid, _)| *dpid);
        let awaited: BTreeSet<Dpid> = awaited.collect();
        self.barrier_waits.begin(token, awaited.clone());
        awaited.into_iter().for_each(|dpid| self.await_barrier(dpid, token));
        self.report_finished_waits();
    }

    /// A switch has confirmed all that was sent before.
    pub(super) fn confirmed(&mut self, dpid: Dpid, token: u64) {
        self.barrier_waits.on_confirmed(dpid, token);
        self.report_finished_waits();
    }

    /// A reroute is over: the rule goes out, or another way, with the next flush.
    pub(super) fn reroute_over(&mut self, ingress: Dpid, leaf: LeafId) {
        let tokens = self.barrier_waits.end_reroute_of(ingress, leaf);
        if self.switches.contains_key(&ingress) {
            tokens.into_iter().for_each(|token| self.await_barrier(ingress, token));
        } else {
            self.barrier_waits.forget_switch(ingress);
        }
        self.report_finished_waits();
    }

    /// A switch is gone, and whatever it had is of no effect.
    pub(super) fn end_waits_for(&mut self, dpid: Dpid) {
        self.barrier_waits.forget_switch(dpid);
        self.report_finished_waits();
    }

    fn await_barrier(&mut self, dpid: Dpid, token: u64) {
        if let Some(switch) = self.switches.get_mut(&dpid) {
            switch.tables.wait(Waiter::Barriers(token));
        }
        self.mark(dpid, Stale::default());
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
    fn with_nothing_on_its_way_all_is_settled_at_once() {
        let mut barrier_waits = BarrierWaits::default();
        barrier_waits.begin(7, BTreeSet::new());
        assert_eq!(barrier_waits.take_finished(), [7]);
        assert_eq!(barrier_waits.take_finished(), [0; 0], "and told once");
    }

    #[test]
    fn who_waits_waits_for_all_switches_and_for_nothing_that_came_later() {
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
    fn a_move_is_waited_for_and_then_its_switch() {
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
        assert_eq!(barrier_waits.take_finished(), [4], "the move is over");
    }

    #[test]
    fn nobody_waits_for_a_switch_that_is_gone() {
        let mut barrier_waits = BarrierWaits::default();
        barrier_waits.begin_reroute_of(ONE, LeafId(5));
        barrier_waits.begin(3, BTreeSet::from([ONE, TWO]));
        barrier_waits.forget_switch(ONE);
        assert_eq!(barrier_waits.take_finished(), [0; 0]);
        barrier_waits.on_confirmed(TWO, 3);
        assert_eq!(barrier_waits.take_finished(), [3]);
    }
}
