//! Packets that a switch got from another switch and has no rule for.
//!
//! Such a packet is not a new one: f has decided it at its ingress. It is under way while rules change. So nothing is
//! learned from it and f does not run. If the parts known here agree on what happens to it, that is done. Else it
//! waits a moment for rules under way, and is dropped and counted when none come.
//!
//! Where rules are left out at links, a packet that waited is not sent on to the next switch when its part comes: that one
//! may not have the leaf's part yet, and treats packets of no part in any way. The leaf's owner has it come out of the egress
//! ports behind this switch instead, as it does with packets that no table is ready for where they enter.

use std::collections::BTreeSet;
use std::sync::Arc;

use maple_wire::Dpid;

use super::event::Letter;
use super::leaf::{Arrived, LeafState};
use super::timers::Timer;
use super::transit::Passing;
use super::{Engine, ShardId, actions, tags};
use crate::network::Location;
use crate::route::{Part, Resolved};
use crate::state::Snapshot;
use crate::tree::LeafId;

impl Engine {
    /// A packet came by a link port.
    pub(super) fn link_packet_in(&mut self, arrived: Arrived) {
        self.stats.link_packet_ins += 1;
        if self.answer_known(&arrived, false) {
            return;
        }
        let until = self.now + self.options.hold;
        let Some(switch) = self.switches.get_mut(&arrived.at.switch) else { return };
        if switch.held.len() >= self.options.held_packets {
            self.stats.link_drops += 1;
            return;
        }
        self.timers.insert((until, Timer::Held(arrived.at.switch)));
        switch.held.push((until, arrived));
    }

    /// Does with the packet what the parts here say, if they agree. One that has `waited` belonged to none when it came.
    fn answer_known(&mut self, arrived: &Arrived, waited: bool) -> bool {
        let Some(switch) = self.switches.get(&arrived.at.switch) else { return false };
        let tag = tags::reserved_id(self.options.path_tags, arrived);
        let part = match tag {
            Some(id) => switch.transit.tagged.part(arrived.at.port, id),
            None => match switch.transit.answers(arrived).as_deref() {
                Some([(leaf, passing)]) if self.goes_astray(passing, waited) => {
                    let leaf = *leaf;
                    return self.hand_over(leaf, arrived);
                }
                Some([(_, passing)]) => Some(&passing.part),
                _ => None,
            },
        };
        let Some(part) = part else { return false };
        let actions = actions::all(switch.version(), part, tag);
        if let Some(effect) = self.packet_out(arrived, actions) {
            self.after.push(effect);
        }
        true
    }

    /// Whether the next switches may have nothing for a packet that belongs to this part, or something wrong: where rules
    /// are left out at links (`transit/link.rs`) tables are right about packets of their parts only, and the leaf that the
    /// packet is known by now may have none there yet.
    fn goes_astray(&self, passing: &Passing, waited: bool) -> bool {
        self.options.thin_after.is_some() && !passing.part.links.is_empty() && (waited || !passing.exposed)
    }

    /// Has the leaf's owner send the packet out of the egress ports that lie behind this switch, past all tables.
    fn hand_over(&mut self, leaf: LeafId, arrived: &Arrived) -> bool {
        if arrived.is_whole() {
            let letter = Letter::Stray { leaf, dpid: arrived.at.switch, frame: arrived.frame.clone() };
            self.post(ShardId::of(leaf), letter);
        }
        arrived.is_whole()
    }

    /// A packet of a leaf of ours got no further than a switch. It is led on when all its switches have agreed to the leaf's
    /// route, not sooner: where one of them does not, the packet was perhaps another leaf's.
    pub(super) fn stray(&mut self, id: LeafId, dpid: Dpid, frame: Arc<[u8]>) {
        match self.leaves.get_mut(&id) {
            Some(leaf) if matches!(leaf.state, LeafState::Active | LeafState::Moving { .. }) => {
                leaf.strays.push((dpid, frame));
                self.lead_strays(id);
            }
            Some(leaf)
                if matches!(leaf.state, LeafState::Installing { .. })
                    && leaf.strays.len() < self.options.held_packets =>
            {
                leaf.strays.push((dpid, frame));
            }
            _ => self.stats.link_drops += 1,
        }
    }

    /// Sends the packets that strayed out of the egress ports behind the switches where they are.
    pub(super) fn lead_strays(&mut self, id: LeafId) {
        let Some(leaf) = self.leaves.get_mut(&id).filter(|leaf| !leaf.strays.is_empty()) else { return };
        let (strays, route) = (std::mem::take(&mut leaf.strays), leaf.route.clone());
        let state = self.store.snapshot();
        for (dpid, frame) in strays {
            self.stats.sent_by_controller += 1;
            for (dpid, part) in behind(&state, &route, dpid) {
                let letter = Letter::Emit { dpid, part: part.clone(), frame: frame.clone() };
                self.post_to_switch(dpid, letter);
            }
        }
    }

    /// Something changed at the switch: perhaps packets that wait there can go on.
    pub(super) fn try_held(&mut self, dpid: Dpid) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        for (until, arrived) in std::mem::take(&mut switch.held) {
            if !self.answer_known(&arrived, true)
                && let Some(switch) = self.switches.get_mut(&dpid)
            {
                switch.held.push((until, arrived));
            }
        }
    }

    /// Drops the packets that have waited long enough.
    pub(super) fn expire_held(&mut self, dpid: Dpid) {
        self.try_held(dpid);
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let before = switch.held.len();
        switch.held.retain(|(until, _)| *until > self.now);
        self.stats.link_drops += (before - switch.held.len()) as u64;
    }
}

/// The parts of a route with edge ports, from a switch on.
fn behind<'a>(state: &Snapshot, route: &'a Resolved, from: Dpid) -> Vec<(Dpid, &'a Part)> {
    let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
    let mut next = vec![from];
    while let Some(dpid) = next.pop() {
        let Some(part) = route.parts.get(&dpid).filter(|_| seen.insert(dpid)) else { continue };
        next.extend(part.links.iter().filter_map(|port| Some(state.peer(Location::new(dpid, *port))?.switch)));
        if !part.edges.is_empty() {
            found.push((dpid, part));
        }
    }
    found
}
