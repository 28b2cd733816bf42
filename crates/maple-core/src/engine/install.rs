//! A leaf's way into the network and out of it, as the ingress switch's shard conducts it.
//!
//! In: the other switches get their parts and answer after a barrier; then the ingress rule; then the packets that
//! waited. Out: the ingress rule first, and after its barrier the other switches' parts. So a packet that a rule sent
//! on always finds rules further on.
//!
//! A leaf that gets another route on its way: `moves.rs`.
//!
//! While rules of earlier leaves are leaving the ingress switch no new leaf begins to install: then a later switch
//! always hears of a part's removal before it hears of what comes in its place.

use std::collections::BTreeSet;
use std::time::Duration;

use maple_wire::msg::{Message, NO_BUFFER, PacketOut};
use maple_wire::{Dpid, PortNo};

use super::event::{Answer, Install, Letter, Refusal};
use super::leaf::{Arrived, Leaf, LeafState};
use super::switch::{Stale, Waiter};
use super::timers::Timer;
use super::{Effect, Engine, ShardId, actions, tags};
use crate::report::Report;
use crate::route::Resolved;
use crate::trace::Item;
use crate::tree::LeafId;

impl Engine {
    /// A leaf that is in its tree wants to get into the network.
    pub(super) fn begin(&mut self, id: LeafId) {
        let Some(leaf) = self.leaves.get_mut(&id) else { return };
        let (others, ingress): (BTreeSet<Dpid>, Dpid) = (leaf.others().collect(), leaf.ingress());
        if !self.has_room(ingress) {
            return self.crowd_out(id);
        }
        let Some(leaf) = self.leaves.get_mut(&id) else { return };
        if others.is_empty() {
            return self.activate(id);
        }
        let reserved = tags::reserved_id(self.options.path_tags, &leaf.representative).is_some();
        let Some(switch) = self.switches.get_mut(&leaf.ingress()) else { return };
        if reserved && !switch.three_tables {
            leaf.state = LeafState::Direct { retry: None };
            return;
        }
        if !switch.leaving.is_empty() {
            leaf.state = LeafState::Blocked;
            switch.blocked.insert(id);
            return;
        }
        leaf.attempt += 1;
        let until = self.now + self.options.install_timeout;
        self.timers.insert((until, Timer::Leaf(id)));
        let entering = leaf.entering(&switch.capabilities);
        let letters: Vec<Install> = others.iter().map(|dpid| leaf.letter(id, *dpid, &leaf.route, &entering)).collect();
        leaf.state = LeafState::Installing { awaiting: others, until };
        self.post_installs(letters);
    }

    pub(super) fn post_installs(&mut self, letters: Vec<Install>) {
        for install in letters {
            self.post_to_switch(install.dpid, Letter::Install(Box::new(install)));
        }
    }

    /// Another switch has its part, or can't have it.
    pub(super) fn answered(&mut self, answer: Answer) {
        let Some(leaf) = self.leaves.get_mut(&answer.leaf) else { return };
        if answer.attempt != leaf.attempt {
            return;
        }
        let refusal = match answer.outcome {
            Ok(()) => return self.accepted(answer.leaf, answer.dpid),
            Err(refusal) => refusal,
        };
        if matches!(leaf.state, LeafState::Moving { .. }) {
            return self.withdraw(answer.leaf);
        }
        if !matches!(leaf.state, LeafState::Installing { .. } | LeafState::Active) {
            // Another switch of this attempt was the first to refuse, and one attempt fails once.
            return;
        }
        if let Refusal::Ambiguous(what) = &refusal {
            self.stats.ambiguous += 1;
            if self.install_tagged(answer.leaf, answer.dpid, what) {
                return;
            }
        }
        let Some(leaf) = self.leaves.get(&answer.leaf) else { return };
        let doubled = 1u32 << leaf.failures.min(6);
        let retry = match &refusal {
            Refusal::Draining => Some(self.options.drain * doubled.min(16)),
            Refusal::Ambiguous(_) => Some(Duration::from_secs(1) * doubled),
            Refusal::Full => return self.crowd_out(answer.leaf),
            Refusal::Impossible(_) => None,
        };
        if let Refusal::Ambiguous(what) = &refusal {
            let report = Report::Ambiguous { switch: answer.dpid, what: what.as_str().into() };
            self.report_once(report, &format!("ambiguous {}", answer.dpid));
        }
        self.go_direct(answer.leaf, retry);
    }

    /// Another switch has its part.
    fn accepted(&mut self, id: LeafId, dpid: Dpid) {
        let Some(leaf) = self.leaves.get_mut(&id) else { return };
        let (LeafState::Installing { awaiting, .. } | LeafState::Moving { awaiting, .. }) = &mut leaf.state else {
            return;
        };
        awaiting.remove(&dpid);
        match (awaiting.is_empty(), &leaf.state) {
            (true, LeafState::Moving { .. }) => self.move_on(id),
            (true, _) => self.activate(id),
            (false, _) => {}
        }
    }

    /// The network is ready for the leaf's packets.
    fn activate(&mut self, id: LeafId) {
        let Some(leaf) = self.leaves.get_mut(&id) else { return };
        leaf.state = LeafState::Active;
        leaf.held_until = None;
        let (ingress, held) = (leaf.ingress(), std::mem::take(&mut leaf.held));
        let tagged = leaf.tag.is_some();
        self.stats.leaves_installed += 1;
        self.stats.tagged += u64::from(tagged);
        if let Some(switch) = self.switches.get_mut(&ingress) {
            switch.waiting.push(Waiter::Fresh(vec![id]));
            switch.acting.insert(id);
        }
        self.mark(ingress, Stale::default());
        held.iter().for_each(|packet| self.forward(id, packet));
        self.lead_strays(id);
    }

    /// The leaf's packets go through the controller from now on, perhaps until a later attempt.
    pub(super) fn go_direct(&mut self, id: LeafId, retry: Option<Duration>) {
        let Some(leaf) = self.leaves.get(&id) else { return };
        if leaf.is_moving() {
            // The route that it has is no longer what f says.
            return self.withdraw(id);
        }
        let ingress = leaf.ingress();
        self.release_parts(id);
        let Some(leaf) = self.leaves.get_mut(&id) else { return };
        let retry = retry.map(|after| self.now + after);
        leaf.state = LeafState::Direct { retry };
        leaf.tag = None;
        leaf.failures += 1;
        leaf.held_until = None;
        self.stats.link_drops += std::mem::take(&mut leaf.strays).len() as u64;
        let held = std::mem::take(&mut leaf.held);
        let route = leaf.route.clone();
        if let Some(at) = retry {
            self.timers.insert((at, Timer::Leaf(id)));
        }
        self.stats.aborts += 1;
        if let Some(switch) = self.switches.get_mut(&ingress) {
            switch.acting.insert(id);
        }
        self.mark(ingress, Stale::default());
        held.iter().for_each(|packet| self.send_direct(&route, packet));
    }

    /// Has the other switches take out what they have of a leaf, as soon as no rule at the ingress sends them packets.
    pub(super) fn release_parts(&mut self, id: LeafId) {
        let Some(leaf) = self.leaves.get(&id) else { return };
        let (ingress, others) = (leaf.ingress(), leaf.placed());
        match leaf.state {
            LeafState::Active | LeafState::Moving { .. } if !others.is_empty() => match self.switches.get_mut(&ingress)
            {
                Some(switch) => {
                    switch.await_leaving(id, others);
                    switch.acting.insert(id);
                    self.mark(ingress, Stale::default());
                }
                None => self.remove_parts(id, &others),
            },
            LeafState::Installing { .. } => self.remove_parts(id, &others),
            LeafState::Blocked => {
                let tagged = leaf.tag.is_some();
                if let Some(switch) = self.switches.get_mut(&ingress) {
                    switch.blocked.remove(&id);
                }
                if tagged {
                    self.release_tag(id);
                }
            }
            LeafState::Active | LeafState::Moving { .. } | LeafState::Crowded { .. } | LeafState::Direct { .. } => {}
        }
    }

    pub(super) fn remove_parts(&mut self, leaf: LeafId, others: &[(Dpid, PortNo)]) {
        for (dpid, arrives) in others.iter().copied() {
            self.post_to_switch(dpid, Letter::Remove { leaf, dpid, arrives });
        }
        self.release_tag(leaf);
    }

    /// A leaf's rule is out of its ingress switch, or sends its packets another way.
    pub(super) fn ingress_left(&mut self, dpid: Dpid, leaf: LeafId, others: &[(Dpid, PortNo)]) {
        // It may have been led back in the meantime.
        let is_used = |leaf: &&Leaf| matches!(leaf.state, LeafState::Active | LeafState::Moving { .. });
        let used = self.leaves.get(&leaf).filter(is_used).map(Leaf::placed).unwrap_or_default();
        let others: Vec<_> = others.iter().copied().filter(|place| !used.contains(place)).collect();
        self.remove_parts(leaf, &others);
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        switch.has_left(leaf);
        if switch.leaving.is_empty() {
            for blocked in std::mem::take(&mut switch.blocked) {
                self.begin(blocked);
            }
        }
    }

    /// A leaf is no longer what f would answer. Packets that wait for it are decided again.
    pub(super) fn withdraw(&mut self, id: LeafId) {
        self.store.forget(id);
        self.misses.extend(self.parked.remove(&id));
        if !self.leaves.contains_key(&id) {
            return;
        }
        self.release_parts(id);
        let Some(leaf) = self.leaves.remove(&id) else { return };
        self.stats.leaves_withdrawn += 1;
        self.stats.link_drops += leaf.strays.len() as u64;
        let ingress = leaf.ingress();
        self.move_over(ingress, id);
        if let Some(switch) = self.switches.get_mut(&ingress) {
            switch.table.remove(id);
            self.mark(ingress, Stale::default());
        }
        self.misses.extend(leaf.held);
    }

    /// What to do with a packet that belongs to a leaf.
    pub(super) fn answer(&mut self, id: LeafId, packet: Arrived) {
        if let Some(LeafState::Crowded { from }) = self.leaves.get(&id).map(|leaf| &leaf.state)
            && *from <= self.now
        {
            self.begin(id);
        }
        let Some(leaf) = self.leaves.get_mut(&id) else { return };
        match leaf.state {
            LeafState::Active => self.forward(id, &packet),
            LeafState::Direct { .. } | LeafState::Crowded { .. } | LeafState::Moving { .. } => {
                let route = leaf.goal().clone();
                self.send_direct(&route, &packet);
            }
            LeafState::Blocked | LeafState::Installing { .. } if leaf.held.len() < self.options.held_packets => {
                leaf.held.push(packet);
                if leaf.held_until.is_none() {
                    let until = self.now + self.options.hold;
                    leaf.held_until = Some(until);
                    self.timers.insert((until, Timer::Leaf(id)));
                }
            }
            LeafState::Blocked | LeafState::Installing { .. } => {
                let route = leaf.route.clone();
                self.send_direct(&route, &packet);
            }
        }
    }

    /// Has the ingress switch do to the packet what the leaf's rule does. Packets that may not cross links as they are,
    /// or not with the leaf's path tag, go straight to the egress ports.
    fn forward(&mut self, id: LeafId, packet: &Arrived) {
        let Some(leaf) = self.leaves.get(&id) else { return };
        let Some(switch) = self.switches.get(&leaf.ingress()) else { return };
        let tag = leaf.tag.as_ref().map(|tag| tag.id);
        if tags::reserved_id(self.options.path_tags, packet).is_some() || tag.is_some() && !packet.is_untagged() {
            let route = leaf.route.clone();
            return self.send_direct(&route, packet);
        }
        let part = leaf.route.parts.get(&leaf.ingress());
        let actions = part.map(|part| actions::all(switch.version(), part, tag)).unwrap_or_default();
        if let Some(effect) = self.packet_out(packet, actions) {
            // Behind the rules, which the flush at the end of the batch sends.
            self.after.push(effect);
        }
    }

    /// A packet-out at the packet's own switch; none where there is nothing to do.
    pub(super) fn packet_out(&mut self, packet: &Arrived, actions: Vec<maple_wire::Action>) -> Option<Effect> {
        let buffered = packet.buffer_id != NO_BUFFER;
        if actions.is_empty() && !buffered {
            return None;
        }
        if !packet.is_whole() && !buffered {
            self.stats.cut_drops += 1;
            return None;
        }
        let data = if buffered { Vec::new() } else { packet.frame.to_vec() };
        let message = PacketOut { buffer_id: packet.buffer_id, in_port: packet.at.port, actions, data };
        self.effect(packet.at.switch, Message::PacketOut(message))
    }

    /// Sends a packet straight out of the route's egress ports, whatever the tables say.
    pub(super) fn send_direct(&mut self, route: &Resolved, packet: &Arrived) {
        self.stats.sent_by_controller += 1;
        let mut at_ingress = Vec::new();
        for (dpid, part) in route.parts.iter().filter(|(_, part)| !part.edges.is_empty()) {
            if *dpid == packet.at.switch {
                let version = self.switches.get(dpid).map(super::switch::Switch::version);
                at_ingress = version.map(|version| actions::egress(version, part)).unwrap_or_default();
            } else if packet.is_whole() {
                let letter = Letter::Emit { dpid: *dpid, part: part.clone(), frame: packet.frame.clone() };
                self.post_to_switch(*dpid, letter);
            } else {
                self.stats.cut_drops += 1;
            }
        }
        if let Some(effect) = self.packet_out(packet, at_ingress) {
            self.after.push(effect);
        }
    }

    /// Something about a leaf is due.
    pub(super) fn leaf_timer(&mut self, id: LeafId) {
        let Some(leaf) = self.leaves.get_mut(&id) else { return };
        match leaf.state {
            LeafState::Installing { until, .. } if until <= self.now => {
                return self.go_direct(id, Some(self.options.install_timeout));
            }
            LeafState::Moving { until, .. } if until <= self.now => return self.withdraw(id),
            LeafState::Direct { retry: Some(at) } if at <= self.now => return self.begin(id),
            _ => {}
        }
        if leaf.held_until.is_some_and(|until| until <= self.now) {
            leaf.held_until = None;
            let (route, held) = (leaf.route.clone(), std::mem::take(&mut leaf.held));
            held.iter().for_each(|packet| self.send_direct(&route, packet));
        }
    }

    /// Puts a new leaf into its tree and begins to install it.
    pub(super) fn own(&mut self, id: LeafId, leaf: Leaf) {
        self.leaves.insert(id, leaf);
        self.begin(id);
    }

    /// The next leaf's name.
    pub(super) fn new_leaf_id(&mut self) -> LeafId {
        self.next_leaf = self.next_leaf.checked_add(1).unwrap_or(1);
        LeafId(u64::from(self.shard.0) << 32 | u64::from(self.next_leaf))
    }

    /// Whether this shard owns the leaf.
    pub(super) fn owns(&self, leaf: LeafId) -> bool {
        ShardId::of(leaf) == self.shard
    }
}

impl Leaf {
    /// The letter that has a switch take its part of a route of the leaf. What its packets have in common where they enter
    /// is `entering` ([`Leaf::entering`]).
    pub(super) fn letter(&self, id: LeafId, dpid: Dpid, route: &Resolved, entering: &[Item]) -> Install {
        let (trace, port) = self.transit_trace();
        Install {
            leaf: id,
            attempt: self.attempt,
            dpid,
            ingress: (self.ingress(), port),
            trace,
            entering: entering.to_vec(),
            frame: self.representative.frame.clone(),
            total_len: self.representative.total_len,
            part: route.parts[&dpid].clone(),
            unicast: route.egress_count() <= 1,
            tag: self.tag.clone(),
        }
    }
}
