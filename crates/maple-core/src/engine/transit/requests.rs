//! What owners of leaves ask of a later switch, and what they are answered.

use maple_wire::msg::{Message, NO_BUFFER, PacketOut};
use maple_wire::{Dpid, PortNo};

use super::{GroupKey, Passing};
use crate::engine::event::{Answer, Install, Letter, Refusal};
use crate::engine::leaf::cookie;
use crate::engine::switch::{Stale, Switch, Waiter};
use crate::engine::timers::Timer;
use crate::engine::{Engine, ShardId, actions};
use crate::route::Part;
use crate::tree::LeafId;

impl Engine {
    /// Another switch's leaf wants a part in a switch of ours.
    pub(in crate::engine) fn install(&mut self, install: &Install) {
        let (dpid, leaf, attempt) = (install.dpid, install.leaf, install.attempt);
        let now = self.now;
        let is_there = self.switches.contains_key(&dpid);
        if is_there && !self.has_room(dpid) {
            return self.answer_owner(Answer { leaf, attempt, dpid, outcome: Err(Refusal::Full) });
        }
        let outcome = match self.switches.get_mut(&dpid) {
            None => Err(Refusal::Impossible(format!("switch {dpid} is not there"))),
            Some(switch) if switch.full_until.is_some_and(|until| until > now) => {
                Err(Refusal::Impossible(format!("switch {dpid} is full")))
            }
            Some(switch) if install.tag.is_some() && !switch.three_tables => {
                Err(Refusal::Ambiguous(format!("switch {dpid} has fewer than the three tables that path tags take")))
            }
            Some(switch) => switch.transit.place(install, &switch.capabilities, &self.options),
        };
        match outcome {
            Ok(()) => {
                if let Some(switch) = self.switches.get_mut(&dpid) {
                    switch.waiting.push(Waiter::Part { leaf, attempt });
                }
                self.mark(dpid, Stale { transit: true, ..Stale::default() });
                self.try_held(dpid);
            }
            Err(refusal) => self.answer_owner(Answer { leaf, attempt, dpid, outcome: Err(refusal) }),
        }
    }

    /// A part's rules are in.
    pub(in crate::engine) fn part_installed(&mut self, dpid: Dpid, leaf: LeafId, attempt: u32) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let is_it = |(_, passing): &(GroupKey, &Passing)| passing.attempt == attempt && !passing.is_going();
        let arrives = switch.transit.parts_of(leaf).find(is_it).map(|(key, _)| key.arrives);
        let passing = arrives.and_then(|arrives| switch.transit.passing(leaf, arrives));
        let is_in = passing.map(|passing| passing.exposed = true).is_some();
        if is_in || switch.transit.tagged.has(leaf, attempt) {
            self.answer_owner(Answer { leaf, attempt, dpid, outcome: Ok(()) });
        }
    }

    /// A part is wanted no more; it goes when packets under way have passed.
    pub(in crate::engine) fn remove_part(&mut self, dpid: Dpid, leaf: LeafId, arrives: PortNo) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let until = self.now + self.options.drain;
        switch.transit.tagged.drain(leaf, until);
        if let Some(passing) = switch.transit.passing(leaf, arrives) {
            passing.draining = Some(until);
        }
        self.timers.insert((until, Timer::Drained(dpid, leaf)));
    }

    /// A part had its time.
    pub(in crate::engine) fn drained(&mut self, dpid: Dpid, leaf: LeafId) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let now = self.now;
        let is_over = |passing: &Passing| passing.draining.is_some_and(|until| until <= now);
        let over = switch.transit.parts_of(leaf).filter(|(_, passing)| is_over(passing));
        let over: Vec<PortNo> = over.map(|(key, _)| key.arrives).collect();
        for arrives in &over {
            drop(switch.transit.take_out(leaf, *arrives));
        }
        if switch.transit.tagged.drained(leaf, now) || !over.is_empty() {
            self.mark(dpid, Stale { transit: true, ..Stale::default() });
        }
        self.part_going(dpid, leaf);
    }

    /// Takes out at once the part that an attempt of its owner brought in.
    pub(in crate::engine) fn drop_part(&mut self, dpid: Dpid, leaf: LeafId, attempt: u32) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        if let Some(key) = switch.transit.source_of(leaf, attempt) {
            switch.transit.discard(leaf, key.arrives);
        } else if switch.transit.tagged.has(leaf, attempt) {
            switch.transit.tagged.delete(leaf);
        }
        self.mark(dpid, Stale { transit: true, ..Stale::default() });
    }

    /// A part can't be in a switch. Its owner will have it removed.
    pub(in crate::engine) fn refuse_part(&mut self, dpid: Dpid, leaf: LeafId, why: Refusal) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let attempt = switch.transit.parts_of(leaf).map(|(_, passing)| passing.attempt).max();
        let Some(attempt) = attempt.max(switch.transit.tagged.attempt(leaf)) else { return };
        switch.transit.take_rules(leaf);
        switch.transit.tagged.take_rule(leaf);
        self.mark(dpid, Stale { transit: true, ..Stale::default() });
        self.answer_owner(Answer { leaf, attempt, dpid, outcome: Err(why) });
    }

    /// Refuses the parts just put in for which the compiler found no rule: the switch can't match their packets.
    pub(in crate::engine) fn refuse_unmatchable(&mut self, switch: &mut Switch) {
        let epoch = self.options.epoch;
        let has_rule = |switch: &Switch, key, leaf| switch.transit.has_rule(key, cookie(epoch, Some(leaf)));
        let waiting = std::mem::take(&mut switch.waiting);
        for waiter in waiting {
            if let Waiter::Part { leaf, attempt } = waiter
                && !switch.transit.tagged.has(leaf, attempt)
                && let Some(key) = switch.transit.source_of(leaf, attempt)
                && !has_rule(switch, key, leaf)
            {
                switch.transit.discard(leaf, key.arrives);
                switch.stale.transit = true;
                self.dirty.insert(switch.dpid);
                let outcome = Err(Refusal::Impossible(format!("switch {} can't match it", switch.dpid)));
                self.answer_owner(Answer { leaf, attempt, dpid: switch.dpid, outcome });
            } else {
                switch.waiting.push(waiter);
            }
        }
    }

    fn answer_owner(&mut self, answer: Answer) {
        self.post(ShardId::of(answer.leaf), Letter::Answer(answer));
    }

    /// Sends a frame out of a switch of ours.
    pub(in crate::engine) fn emit(&mut self, dpid: Dpid, part: &Part, frame: &[u8]) {
        let Some(switch) = self.switches.get(&dpid) else { return };
        let actions = actions::egress(switch.version(), part);
        let message = PacketOut { buffer_id: NO_BUFFER, in_port: PortNo::CONTROLLER, actions, data: frame.to_vec() };
        self.send(dpid, Message::PacketOut(message));
    }
}
