//! Packets that a switch got from another switch and has no rule for.
//!
//! Such a packet is not a new one: f has decided it at its ingress. It is under way while rules change. So nothing is
//! learned from it and f does not run. If the parts known here agree on what happens to it, that is done. Else it
//! waits a moment for rules under way, and is dropped and counted when none come.

use maple_wire::Dpid;

use super::leaf::Arrived;
use super::timers::Timer;
use super::{Engine, actions, tags};

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

    /// Does with the packet what the parts here say, if they agree. One that `stays` does not go on to other switches.
    fn answer_known(&mut self, arrived: &Arrived, stays: bool) -> bool {
        let Some(switch) = self.switches.get(&arrived.at.switch) else { return false };
        let tag = tags::reserved_id(self.options.path_tags, arrived);
        let part = match tag {
            Some(id) => switch.transit.tagged.part(arrived.at.port, id),
            None => match switch.transit.answers(arrived).as_deref() {
                Some([part]) => Some(*part),
                _ => None,
            },
        };
        let Some(part) = part.filter(|part| !stays || part.links.is_empty()) else { return false };
        let actions = actions::all(switch.version(), part, tag);
        if let Some(effect) = self.packet_out(arrived, actions) {
            self.after.push(effect);
        }
        true
    }

    /// Something changed at the switch: perhaps packets that wait there can go on.
    ///
    /// Where rules are left out at links (`transit/link.rs`) they don't leave the switch: the next ones may not have their
    /// parts yet of the leaf that the packet is known by now, and are right about packets of their parts only.
    pub(super) fn try_held(&mut self, dpid: Dpid) {
        let stay = self.options.thin_after.is_some();
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        for (until, arrived) in std::mem::take(&mut switch.held) {
            if !self.answer_known(&arrived, stay)
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
