//! Parts of leaves at the switches behind the ingress, and the transit table made of them.
//!
//! # What
//!
//! A packet of a route arrives by a link port. The trace is kept here without its `in_port` items, in a *group* for
//! (link port, ingress switch, ingress port if f asked for it). Within a group, traces of one state of the world form
//! a decision tree, as f is one function. The transit table is the union of the groups' compiled rules, each under
//! `in_port` = link port.
//!
//! # Why it is correct
//!
//! Two groups of one link port know nothing of each other's packets, so their rules may overlap in any order of
//! priority. A group's rules give each packet its tree's answer or the controller. So whatever rule of the union takes
//! a packet, it gets some group's answer or goes to the controller; and since [`Transit::place`] lets no two parts of
//! one link port in that can take a common packet and treat it differently, all answers are the same. That check is
//! the one place where ambiguity is decided.
//!
//! # Draining
//!
//! A part that was withdrawn stays until packets under way have passed. Until then a new part that contradicts it is
//! refused (its packets go through the controller and it is tried again), unless both routes have a single egress port
//! and the same packets: then whichever rule a packet under way meets here, it comes out once, where f says.
//!
//! A part whose rule the switch refused, or can't keep, loses its rule at once. Packets may be under way to it all the
//! same, so it stays known until its owner has it removed, and such packets are answered from here.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use maple_wire::msg::Message;
use maple_wire::{Dpid, PortNo, Version};
use rustc_hash::FxHashSet;

use super::event::{Answer, Install, Letter, Refusal};
use super::leaf::{Arrived, Watched, are_disjoint, from_port, source_lines};
use super::switch::{Stale, Switch, Waiter, table};
use super::tags::Tagged;
use super::timers::Timer;
use super::{Engine, Options, ShardId, Time, actions};
use crate::capabilities::Capabilities;
use crate::compile::{LeafAction, Rule, Table};
use crate::route::Part;
use crate::trace::{Item, Trace};
use crate::tree::{Augmented, LeafId};

/// Everything that passes a switch from other switches.
#[derive(Default)]
pub(super) struct Transit {
    groups: BTreeMap<GroupKey, Group>,
    leaves: BTreeMap<LeafId, GroupKey>,
    /// Parts of routes that a path tag tells apart from all others.
    pub tagged: Tagged,
    tag_rules: Vec<Rule>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GroupKey {
    arrives: PortNo,
    ingress: Dpid,
    port: Option<PortNo>,
}

struct Group {
    table: Table,
    rules: Vec<Rule>,
    stale: bool,
    parts: BTreeMap<LeafId, Passing>,
}

/// A part that is in a group.
pub(super) struct Passing {
    /// What its packets have in common; packets that reach the switch pass this.
    pub trace: Trace,
    /// The same as far as the switch can match it: perhaps narrower. This is in the tree.
    items: Vec<Item>,
    pub part: Part,
    attempt: u32,
    unicast: bool,
    /// Until when its packets may be under way, if it was withdrawn.
    draining: Option<Time>,
    /// The switch refused its rule, so it has none.
    refused: bool,
}

impl Transit {
    /// Puts a part in, or says why it can't be.
    pub fn place(&mut self, install: &Install, capabilities: &Capabilities, options: &Options) -> Result<(), Refusal> {
        let Some(arrives) = install.part.arrives else {
            return Err(Refusal::Impossible("it does not arrive by a link".to_owned()));
        };
        if let Some(tag) = &install.tag {
            return self.tagged.place(install, arrives, tag);
        }
        let key = GroupKey { arrives, ingress: install.ingress.0, port: install.ingress.1 };
        if self.revive(install, key) {
            return Ok(());
        }
        let at = Arrived::of(install, arrives);
        let items = install.trace.lower(&at.packet(), capabilities).items;
        self.check_others(key, install)?;
        let group = self.groups.entry(key).or_insert_with(|| Group::new(arrives, capabilities, options));
        let outcome = group.insert(install, items, capabilities.version);
        match outcome {
            Ok(replaced) => {
                replaced.iter().for_each(|old| {
                    self.leaves.remove(old);
                });
                self.leaves.insert(install.leaf, key);
                Ok(())
            }
            Err(refusal) => {
                if group.parts.is_empty() {
                    self.groups.remove(&key);
                }
                Err(refusal)
            }
        }
    }

    /// The same part once more, as a later attempt of its owner.
    fn revive(&mut self, install: &Install, key: GroupKey) -> bool {
        if self.leaves.get(&install.leaf) != Some(&key) {
            self.delete(install.leaf);
            return false;
        }
        let passing = self.groups.get_mut(&key).and_then(|group| group.parts.get_mut(&install.leaf));
        match passing {
            Some(passing) if passing.part == install.part && !passing.refused => {
                (passing.attempt, passing.draining) = (install.attempt, None);
                true
            }
            _ => {
                self.delete(install.leaf);
                false
            }
        }
    }

    /// Whether other groups' parts, and draining ones of the same group, that can take the same packets agree. Live
    /// parts of the same group have no packets in common, as one f decided them.
    fn check_others(&self, key: GroupKey, install: &Install) -> Result<(), Refusal> {
        for (other, group) in self.at_port(key.arrives) {
            for passing in group.parts.values().filter(|passing| *other != key || passing.is_going()) {
                if passing.part.acts_like(&install.part) || are_disjoint(&passing.trace.items, &install.trace.items) {
                    continue;
                }
                if passing.is_going() && *other == key && passing.gives_way_to(install) {
                    continue;
                }
                if passing.is_going() {
                    return Err(Refusal::Draining);
                }
                let what = format!(
                    "{} and {} arrive by port {} with equal headers, and go on in different ways",
                    entered(key.ingress, &install.trace),
                    entered(other.ingress, &passing.trace),
                    key.arrives
                );
                return Err(Refusal::Ambiguous(what));
            }
        }
        Ok(())
    }

    fn at_port(&self, arrives: PortNo) -> impl Iterator<Item = (&GroupKey, &Group)> {
        let first = GroupKey { arrives, ingress: Dpid(0), port: None };
        self.groups.range(first..).take_while(move |(key, _)| key.arrives == arrives)
    }

    /// What is known of a packet that arrived by a link port: each different way to treat it, once. `None` if that
    /// can't be said because bytes are missing.
    pub fn answers(&self, arrived: &Arrived) -> Option<Vec<&Part>> {
        let mut answers: Vec<&Part> = Vec::new();
        for (_, group) in self.at_port(arrived.at.port) {
            let watched = Watched::new(arrived);
            let found = group.find(&watched);
            if watched.short.get() {
                return None;
            }
            if let Some(passing) = found
                && !answers.iter().any(|part| part.acts_like(&passing.part))
            {
                answers.push(&passing.part);
            }
        }
        Some(answers)
    }

    /// Takes over the rules of the groups that changed.
    pub fn compile(&mut self, version: Version, mark: &dyn Fn(Option<LeafId>) -> u64) {
        for group in self.groups.values_mut().filter(|group| group.stale) {
            group.rules = group.table.rules();
            group.stale = false;
        }
        self.tag_rules = self.tagged.rules(version, mark);
    }

    /// The rules of all groups. Where groups have the same priority and match, one stands for all: the first that
    /// says something, else one that asks the controller.
    pub fn rules(&self) -> Vec<Rule> {
        let all = || self.groups.values().flat_map(|group| group.rules.iter());
        let asks = |rule: &&Rule| actions::is_to_controller(&rule.instructions);
        let mut entries = FxHashSet::default();
        let in_order = all().filter(|rule| !asks(rule)).chain(all().filter(asks));
        self.tag_rules
            .iter()
            .chain(in_order)
            .filter(|rule| entries.insert((rule.priority, &rule.matching)))
            .cloned()
            .collect()
    }

    /// Whether the leaf's packets have a rule of their own.
    fn has_rule(&self, leaf: LeafId, cookie: u64) -> bool {
        let group = self.leaves.get(&leaf).and_then(|key| self.groups.get(key));
        group.is_some_and(|group| {
            group.rules.iter().any(|rule| rule.cookie == cookie && !actions::is_to_controller(&rule.instructions))
        })
    }

    fn passing(&mut self, leaf: LeafId) -> Option<&mut Passing> {
        let key = self.leaves.get(&leaf)?;
        self.groups.get_mut(key)?.parts.get_mut(&leaf)
    }

    /// Takes a part's rule out at once. What is to be done with its packets stays known.
    fn take_rule(&mut self, leaf: LeafId) {
        let Some(group) = self.leaves.get(&leaf).and_then(|key| self.groups.get_mut(key)) else { return };
        group.table.remove(leaf);
        group.stale = true;
        if let Some(passing) = group.parts.get_mut(&leaf) {
            passing.refused = true;
        }
    }

    /// Takes a part out at once.
    fn delete(&mut self, leaf: LeafId) -> bool {
        let Some(key) = self.leaves.remove(&leaf) else { return false };
        if let Some(group) = self.groups.get_mut(&key) {
            group.table.remove(leaf);
            group.parts.remove(&leaf);
            group.stale = true;
            if group.parts.is_empty() {
                self.groups.remove(&key);
            }
        }
        true
    }

    /// The leaves that have a part here.
    pub fn leaves(&self) -> impl Iterator<Item = LeafId> {
        self.leaves.keys().copied().chain(self.tagged.users().map(|(leaf, ..)| leaf))
    }

    /// The leaves whose parts serve packets under way only.
    pub fn draining(&self) -> impl Iterator<Item = LeafId> {
        let parts = self.parts().filter(|(_, passing)| passing.draining.is_some()).map(|(leaf, _)| leaf);
        parts.chain(self.tagged.users().filter(|(_, _, user)| user.is_draining()).map(|(leaf, ..)| leaf))
    }

    /// All parts without a path tag, for showing.
    pub fn parts(&self) -> impl Iterator<Item = (LeafId, &Passing)> {
        self.groups.values().flat_map(|group| group.parts.iter().map(|(leaf, passing)| (*leaf, passing)))
    }
}

/// A route's packets, in words for people: where they enter, and the policy's lines that decided.
fn entered(ingress: Dpid, trace: &Trace) -> String {
    match source_lines(trace) {
        lines if lines.is_empty() => format!("packets that enter at switch {ingress}"),
        lines => format!("packets that enter at switch {ingress} (decided at {lines})"),
    }
}

impl Group {
    fn new(arrives: PortNo, capabilities: &Capabilities, options: &Options) -> Group {
        let table = table(vec![from_port(arrives)], capabilities, options);
        Group { table, rules: Vec::new(), stale: true, parts: BTreeMap::new() }
    }

    /// Puts a part into the tree; returns the draining ones that it stands for now.
    fn insert(&mut self, install: &Install, items: Vec<Item>, version: Version) -> Result<Vec<LeafId>, Refusal> {
        let action = |part: &Part| LeafAction::Apply(actions::instructions(version, part, None, None));
        let mut replaced = Vec::new();
        match self.table.augment(&items, install.leaf, action(&install.part)) {
            Augmented::Added => {}
            Augmented::Existing(old) => {
                if !self.parts.get(&old).is_some_and(|there| there.is_going() && there.gives_way_to(install)) {
                    return Err(Refusal::Draining);
                }
                self.table.remove(old);
                self.parts.remove(&old);
                self.table.augment(&items, install.leaf, action(&install.part));
                replaced.push(old);
            }
            Augmented::Replaced { removed, .. } => {
                self.table.remove(install.leaf);
                for old in removed {
                    if let Some(passing) = self.parts.get(&old) {
                        self.table.augment(&passing.items, old, action(&passing.part));
                    }
                }
                return Err(Refusal::Draining);
            }
        }
        self.stale = true;
        let Install { attempt, part, unicast, trace, .. } = install.clone();
        self.parts
            .insert(install.leaf, Passing { trace, items, part, attempt, unicast, draining: None, refused: false });
        Ok(replaced)
    }

    /// What the group knows of a packet.
    fn find(&self, packet: &Watched<'_>) -> Option<&Passing> {
        let at_once = self.table.tree().search(packet).and_then(|leaf| self.parts.get(&leaf));
        // Where the switch can't match all of a trace, the tree has less than may arrive.
        let fits = |passing: &&Passing| passing.trace.items.iter().all(|item| item.holds(packet));
        at_once.or_else(|| self.parts.values().find(fits))
    }
}

impl Passing {
    /// Whether it only serves packets under way.
    fn is_going(&self) -> bool {
        self.draining.is_some() || self.refused
    }

    /// Whether it may be replaced at once, for the same packets, though packets of it may be under way.
    fn gives_way_to(&self, install: &Install) -> bool {
        self.trace.items == install.trace.items
            && (self.part.acts_like(&install.part) || self.unicast && install.unicast)
    }
}

impl Arrived {
    /// The representative packet as it arrives at a later switch.
    fn of(install: &Install, port: PortNo) -> Arrived {
        Arrived {
            frame: install.frame.clone(),
            total_len: install.frame.len(),
            buffer_id: maple_wire::msg::NO_BUFFER,
            at: crate::network::Location::new(install.dpid, port),
        }
    }
}

impl Engine {
    /// Another switch's leaf wants a part in a switch of ours.
    pub(super) fn install(&mut self, install: &Install) {
        let (dpid, leaf, attempt) = (install.dpid, install.leaf, install.attempt);
        let now = self.now;
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
    pub(super) fn part_installed(&mut self, dpid: Dpid, leaf: LeafId, attempt: u32) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let passing = switch.transit.passing(leaf);
        let is_in = passing.is_some_and(|passing| passing.attempt == attempt && !passing.is_going());
        if is_in || switch.transit.tagged.has(leaf, attempt) {
            self.answer_owner(Answer { leaf, attempt, dpid, outcome: Ok(()) });
        }
    }

    /// A part is wanted no more; it goes when packets under way have passed.
    pub(super) fn remove_part(&mut self, dpid: Dpid, leaf: LeafId) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let until = self.now + self.options.drain;
        switch.transit.tagged.drain(leaf, until);
        if let Some(passing) = switch.transit.passing(leaf) {
            passing.draining = Some(until);
        }
        self.timers.insert((until, Timer::Drained(dpid, leaf)));
    }

    /// A part had its time.
    pub(super) fn drained(&mut self, dpid: Dpid, leaf: LeafId) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let now = self.now;
        let until = switch.transit.passing(leaf).and_then(|passing| passing.draining);
        let passed = until.is_some_and(|until| until <= now) && switch.transit.delete(leaf);
        if switch.transit.tagged.drained(leaf, now) || passed {
            self.mark(dpid, Stale { transit: true, ..Stale::default() });
        }
        self.part_going(dpid, leaf);
    }

    /// A part can't be in a switch. Its owner will have it removed.
    pub(super) fn refuse_part(&mut self, dpid: Dpid, leaf: LeafId, why: &str) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let attempt = switch.transit.passing(leaf).map(|passing| passing.attempt);
        let Some(attempt) = attempt.max(switch.transit.tagged.attempt(leaf)) else { return };
        switch.transit.take_rule(leaf);
        switch.transit.tagged.take_rule(leaf);
        self.mark(dpid, Stale { transit: true, ..Stale::default() });
        self.answer_owner(Answer { leaf, attempt, dpid, outcome: Err(Refusal::Impossible(why.to_owned())) });
    }

    /// Refuses the parts just put in for which the compiler found no rule: the switch can't match their packets.
    pub(super) fn refuse_unmatchable(&mut self, switch: &mut Switch) {
        let waiting = std::mem::take(&mut switch.waiting);
        for waiter in waiting {
            if let Waiter::Part { leaf, attempt } = waiter
                && !switch.transit.tagged.has(leaf, attempt)
                && switch.transit.passing(leaf).is_some()
                && !switch.transit.has_rule(leaf, super::leaf::cookie(self.options.epoch, Some(leaf)))
            {
                switch.transit.delete(leaf);
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
    pub(super) fn emit(&mut self, dpid: Dpid, part: &Part, frame: &[u8]) {
        let Some(switch) = self.switches.get(&dpid) else { return };
        let actions = actions::egress(switch.version(), part);
        let message = maple_wire::msg::PacketOut {
            buffer_id: maple_wire::msg::NO_BUFFER,
            in_port: PortNo::CONTROLLER,
            actions,
            data: frame.to_vec(),
        };
        self.send(dpid, Message::PacketOut(message));
    }
}
