//! A leaf gets another route while its packets flow: fast re-route without a miss.
//!
//! # What
//!
//! 1. The switches that the new route brings in get their parts; so do those that have the same part already, which is
//!    only for keeping count. A switch may have two parts of the leaf, for packets that arrive by different links.
//! 2. A switch where packets of both routes arrive by the same link has one rule for both. It is modified, and when
//!    there are several such switches, then one after the other, from the end of the new route to its beginning.
//! 3. The ingress rule is modified, and behind its barrier what only the old route needed is taken out, as when a leaf
//!    is withdrawn.
//!
//! # Why it is correct
//!
//! Call a link's far end a *place*. Before step 2 no packet follows the new route. A place is only switched over when all
//! places behind it on the new route are: those that only the new route has by step 1, the common ones by the order of
//! step 2. So a packet that comes to a place that has been switched over goes on by the new route to its end. Until
//! it comes to one it goes on by the old route, all of which is in until the ingress has been switched over and packets
//! under way have passed. Either way it passes each place once, and comes out once, by the old answer or the new one.
//! That takes routes that are paths: in a tree of hops a packet could come out by both.
//!
//! Whatever goes wrong (a refusal, a change of the state, time runs out) ends with the leaf being withdrawn, and with it
//! the parts of both routes.

use std::collections::BTreeSet;

use maple_wire::Dpid;

use super::Engine;
use super::event::Install;
use super::leaf::{LeafState, arrivals};
use super::switch::{Stale, Waiter};
use super::timers::Timer;
use crate::network::Location;
use crate::route::Resolved;
use crate::state::Snapshot;
use crate::tree::LeafId;

impl Engine {
    /// Begins to lead an active leaf's packets along another route.
    pub(super) fn begin_move(&mut self, id: LeafId, to: Resolved) {
        let state = self.store.snapshot();
        let Some(leaf) = self.leaves.get_mut(&id) else { return };
        let Some(way) = way(&state, leaf.ingress(), &to) else { return self.withdraw(id) };
        let is_common = |dpid: &Dpid| {
            let (old, new) = (leaf.route.parts.get(dpid), to.parts.get(dpid));
            old != new && old.and_then(|part| part.arrives) == new.and_then(|part| part.arrives)
        };
        let (then, awaiting): (Vec<Dpid>, Vec<Dpid>) = way.into_iter().partition(is_common);
        leaf.attempt += 1;
        self.moving.insert((leaf.ingress(), id));
        let until = self.now + self.options.install_timeout;
        self.timers.insert((until, Timer::Leaf(id)));
        let Some(switch) = self.switches.get(&leaf.ingress()) else { return };
        let entering = leaf.entering(&switch.capabilities);
        let letters: Vec<Install> = awaiting.iter().map(|dpid| leaf.letter(id, *dpid, &to, &entering)).collect();
        leaf.state = LeafState::Moving { to: Box::new(to), awaiting: awaiting.into_iter().collect(), then, until };
        match letters.is_empty() {
            true => self.move_on(id),
            false => self.post_installs(letters),
        }
    }

    /// What was waited for is in: the next common place, or the ingress.
    pub(super) fn move_on(&mut self, id: LeafId) {
        let Some(leaf) = self.leaves.get_mut(&id) else { return };
        let LeafState::Moving { to, awaiting, then, .. } = &mut leaf.state else { return };
        let Some(next) = then.pop() else { return self.end_move(id) };
        awaiting.insert(next);
        let to = to.clone();
        let Some(switch) = self.switches.get(&leaf.ingress()) else { return };
        let letter = leaf.letter(id, next, &to, &leaf.entering(&switch.capabilities));
        self.post_installs(vec![letter]);
    }

    /// All behind the ingress is in.
    fn end_move(&mut self, id: LeafId) {
        let Some(leaf) = self.leaves.get_mut(&id) else { return };
        let LeafState::Moving { to, .. } = std::mem::replace(&mut leaf.state, LeafState::Active) else { return };
        let old = std::mem::replace(&mut leaf.route, *to);
        let kept: BTreeSet<_> = arrivals(&leaf.route).collect();
        let others: Vec<_> = arrivals(&old).filter(|place| !kept.contains(place)).collect();
        let ingress = leaf.ingress();
        self.stats.leaves_moved += 1;
        self.move_over(ingress, id);
        let Some(switch) = self.switches.get_mut(&ingress) else { return };
        switch.acting.insert(id);
        switch.waiting.push(Waiter::Fresh(vec![id]));
        if !others.is_empty() {
            switch.await_leaving(id, others);
        }
        self.mark(ingress, Stale::default());
    }
}

/// The switches behind the ingress along a route that is a path; `None` if its links are not there any more.
fn way(state: &Snapshot, ingress: Dpid, route: &Resolved) -> Option<Vec<Dpid>> {
    let mut way = Vec::new();
    let mut at = ingress;
    while let Some(link) = route.parts.get(&at).and_then(|part| part.links.first()) {
        let far = state.peer(Location::new(at, *link))?;
        let arrives = route.parts.get(&far.switch)?.arrives;
        if arrives != Some(far.port) || way.len() >= route.parts.len() {
            return None;
        }
        way.push(far.switch);
        at = far.switch;
    }
    (way.len() == arrivals(route).count()).then_some(way)
}
