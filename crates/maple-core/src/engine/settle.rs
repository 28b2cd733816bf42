//! Telling when rules that are on their way out are gone.
//!
//! A withdrawn leaf loses its ingress rule with the next flush, and no other rule looks at headers. So who wants to know
//! that nothing of it is left asks all shards [`SETTLING_ROUNDS`] times: when they have answered once they have told each
//! other what to withdraw, and when they have answered again all ingress rules are gone. Labels may stay in quarantine: no
//! packet that enters from then on comes under them. With nothing on its way a round is one letter and its answer.

use std::collections::BTreeSet;

use maple_wire::Dpid;

use super::switch::Stale;
use super::tables::Waiter;
use super::{Effect, Engine};
use crate::tree::LeafId;

/// How often to ask every shard, each time after all have answered.
pub const SETTLING_ROUNDS: u64 = 2;

/// Somebody who waits until what was on its way out is gone.
pub(super) struct Settling {
    token: u64,
    /// Switches whose barrier was not answered yet.
    switches: BTreeSet<Dpid>,
    /// Leaves whose packets still take their old route, and the switches where they enter.
    moving: BTreeSet<(Dpid, LeafId)>,
}

impl Engine {
    /// Waits for all that is on its way out now.
    pub(super) fn settle_all(&mut self, token: u64) {
        let mut settling = Settling { token, switches: BTreeSet::new(), moving: BTreeSet::new() };
        settling.moving.extend(self.moving.iter().copied());
        for (dpid, switch) in &self.switches {
            if self.dirty.contains(dpid) || switch.tables.is_unconfirmed() {
                settling.switches.insert(*dpid);
            }
        }
        let awaited: Vec<Dpid> = settling.switches.iter().copied().collect();
        self.settling.push(settling);
        awaited.into_iter().for_each(|dpid| self.await_barrier(dpid, token));
        self.tell_settled();
    }

    /// A switch has confirmed all that was sent before.
    pub(super) fn confirmed(&mut self, dpid: Dpid, token: u64) {
        for settling in self.settling.iter_mut().filter(|settling| settling.token == token) {
            settling.switches.remove(&dpid);
        }
        self.tell_settled();
    }

    /// A leaf's reroute is over: its ingress rule goes out, or another way, with the next flush.
    pub(super) fn move_settled(&mut self, ingress: Dpid, leaf: LeafId) {
        let mut tokens = Vec::new();
        for settling in &mut self.settling {
            if settling.moving.remove(&(ingress, leaf)) && self.switches.contains_key(&ingress) {
                settling.switches.insert(ingress);
                tokens.push(settling.token);
            }
        }
        tokens.into_iter().for_each(|token| self.await_barrier(ingress, token));
        self.tell_settled();
    }

    /// A switch is gone, and whatever it had is of no effect.
    pub(super) fn unsettle(&mut self, dpid: Dpid) {
        for settling in &mut self.settling {
            settling.switches.remove(&dpid);
            settling.moving.retain(|(at, _)| *at != dpid);
        }
        self.tell_settled();
    }

    fn await_barrier(&mut self, dpid: Dpid, token: u64) {
        if let Some(switch) = self.switches.get_mut(&dpid) {
            switch.tables.wait(Waiter::Settled(token));
        }
        self.mark(dpid, Stale::default());
    }

    fn tell_settled(&mut self) {
        let out = &mut self.out;
        self.settling.retain(|settling| {
            let waits = !settling.switches.is_empty() || !settling.moving.is_empty();
            if !waits {
                out.push(Effect::Settled(settling.token));
            }
            waits
        });
    }
}
