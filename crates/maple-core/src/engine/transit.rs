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
mod oracle;
#[cfg(test)]
mod tests;

mod destination;
mod link;
mod requests;

pub(super) use link::MERGED;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use maple_wire::{Dpid, Field, Match, PortNo, Version};

use super::event::{Install, Refusal};
use super::leaf::{Arrived, Watched, are_disjoint, from_port, source_lines};
use super::switch::table;
use super::tags::Tagged;
use super::union::Source;
use super::{Options, Time, actions};
use crate::capabilities::Capabilities;
use crate::compile::{LeafAction, Table};
use crate::network::Location;
use crate::route::Part;
use crate::trace::{Item, Trace};
use crate::tree::{Augmented, LeafId};
use crate::update::Change;
use link::{Coming, Link, Moment};

/// Everything that passes a switch from other switches.
#[derive(Default)]
pub(super) struct Transit {
    groups: BTreeMap<GroupKey, Group>,
    /// The groups whose rules may have changed.
    stale: BTreeSet<GroupKey>,
    /// The parts that may have changed.
    touched: BTreeSet<(LeafId, PortNo)>,
    /// By arrival port.
    links: BTreeMap<PortNo, Link>,
    /// The ports that are links: what they lead to, and from when on only packets come that belong to parts.
    open: BTreeMap<PortNo, (Location, Time)>,
    /// Links whose rules are to be decided about again.
    due: BTreeSet<PortNo>,
    /// By leaf and the port that its packets arrive by: two, while a leaf moves from one route to another.
    leaves: BTreeMap<(LeafId, PortNo), GroupKey>,
    /// Parts of routes that a path tag tells apart from all others.
    pub tagged: Tagged,
}

/// Names a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct GroupKey {
    /// The link port that its packets arrive by.
    pub arrives: PortNo,
    /// The switch where they enter.
    pub ingress: Dpid,
    /// The port where they enter, if f asked for it.
    pub port: Option<PortNo>,
}

struct Group {
    version: Version,
    table: Table,
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
    /// Whether the tree states all of it that can arrive.
    is_stated: bool,
    /// The owner was told that it is in: its packets may be under way.
    pub exposed: bool,
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
        if self.renew(install, key)? {
            return Ok(());
        }
        let at = Arrived::of(install, arrives);
        let entering = Trace { items: install.entering.clone(), ..Trace::default() };
        let items = entering.lower(&at.packet(), capabilities).items;
        self.check_others(key, install)?;
        let old = self.take_out(install.leaf, arrives);
        let group = self.groups.entry(key).or_insert_with(|| Group::new(arrives, capabilities, options));
        self.stale.insert(key);
        self.touched.insert((install.leaf, arrives));
        match group.insert(install, items, capabilities.version, old.as_ref().is_some_and(|old| old.exposed)) {
            Ok(replaced) => {
                self.touched.extend(replaced.iter().map(|old| (*old, arrives)));
                replaced.iter().for_each(|old| {
                    self.leaves.remove(&(*old, arrives));
                });
            }
            Err(refusal) => {
                // Packets of what was there may be under way.
                let Some(old) = old.filter(|old| old.exposed) else { return Err(refusal) };
                group.parts.insert(install.leaf, Passing { refused: true, ..old });
                self.leaves.insert((install.leaf, arrives), key);
                return Err(refusal);
            }
        }
        self.leaves.insert((install.leaf, arrives), key);
        Ok(())
    }

    /// The leaf has a part for these packets already. If that is the same one, it is kept for the later attempt; if the
    /// leaf moves to another route, it is told the new way, which packets of the old route take from here on too.
    fn renew(&mut self, install: &Install, key: GroupKey) -> Result<bool, Refusal> {
        let there = self.groups.get(&key).and_then(|group| group.parts.get(&install.leaf));
        let Some(passing) = there else { return Ok(false) };
        let is_same = passing.part == install.part && !passing.refused;
        if !is_same && !passing.gives_way_to(install) {
            return Err(Refusal::Draining);
        }
        if !is_same && passing.is_going() {
            return Ok(false);
        }
        if !is_same {
            self.check_others(key, install)?;
        }
        let Some(group) = self.groups.get_mut(&key) else { return Ok(false) };
        let version = group.version;
        if let Some(passing) = group.parts.get_mut(&install.leaf) {
            (passing.attempt, passing.draining) = (install.attempt, None);
            if !is_same {
                passing.part = install.part.clone();
                group.table.act(install.leaf, action(version, &install.part));
                self.stale.insert(key);
                self.touched.insert((install.leaf, key.arrives));
            }
        }
        Ok(true)
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

    /// What is known of a packet that arrived by a link port: each different way to treat it, once, and a leaf that says
    /// so. `None` if that can't be said because bytes are missing.
    pub fn answers(&self, arrived: &Arrived) -> Option<Vec<(LeafId, &Passing)>> {
        let mut answers: Vec<(LeafId, &Passing)> = Vec::new();
        for (_, group) in self.at_port(arrived.at.port) {
            let watched = Watched::new(arrived);
            let found = group.find(&watched);
            if watched.short.get() {
                return None;
            }
            if let Some((leaf, passing)) = found
                && !answers.iter().any(|(_, there)| there.part.acts_like(&passing.part))
            {
                answers.push((leaf, passing));
            }
        }
        Some(answers)
    }

    /// Takes rules out that are there without need, of groups that changed since changes were last asked for.
    pub fn tidy(&mut self) {
        for key in &self.stale {
            self.groups.get_mut(key).into_iter().for_each(|group| group.table.tidy());
        }
    }

    /// What changed in the rules since this was last asked, and when to ask again if nothing happens before. Groups
    /// without parts end here. `wait` says how long a link must have been calm before rules are taken away that it can do
    /// without (`link.rs`); `None`: none are. `cookie` is that of rules that stand for several.
    pub fn take_changes(
        &mut self,
        now: Time,
        wait: Option<Duration>,
        capabilities: &Capabilities,
        cookie: u64,
    ) -> (Vec<(Source, Vec<Change>)>, Option<Time>) {
        let mut all = Vec::new();
        let mut ports = std::mem::take(&mut self.due);
        for (leaf, arrives) in std::mem::take(&mut self.touched) {
            let key = self.leaves.get(&(leaf, arrives)).copied();
            let group = key.and_then(|key| Some((key, self.groups.get(&key)?)));
            let part = group.and_then(|(key, group)| Coming::of(key, group.version, group.parts.get(&leaf)?));
            let link = self.links.entry(arrives).or_insert_with(|| Link::new(arrives));
            link.take_part(leaf, part, capabilities);
            ports.insert(arrives);
        }
        for key in std::mem::take(&mut self.stale) {
            let Some(group) = self.groups.get_mut(&key) else { continue };
            let link = self.links.entry(key.arrives).or_insert_with(|| Link::new(key.arrives));
            link.take_rules(key, group.table.take_changes(), &mut all);
            ports.insert(key.arrives);
            if group.parts.is_empty() {
                self.groups.remove(&key);
            }
        }
        let mut deadline = None;
        for port in ports {
            let Some(link) = self.links.get_mut(&port) else { continue };
            let opens = self.open.get(&port).map(|(_, opens)| *opens).filter(|_| wait.is_some());
            let moment = Moment { now, opens, wait: wait.unwrap_or_default() };
            link.decide(moment, cookie, &mut all);
            deadline = [deadline, link.deadline(moment)].into_iter().flatten().min();
            if link.is_empty() {
                self.links.remove(&port);
            }
        }
        (all, deadline)
    }

    /// These ports are links, and what they lead to. Of those that are new, packets that belong to no part may come before
    /// `opens`. Returns whether anything changed.
    pub fn set_links(&mut self, links: impl Iterator<Item = (PortNo, Location)>, opens: Time) -> bool {
        let before = std::mem::take(&mut self.open);
        for (port, peer) in links {
            let known = before.get(&port).filter(|(there, _)| *there == peer);
            self.open.insert(port, *known.unwrap_or(&(peer, opens)));
            if known.is_none() {
                self.doubt(port, |link| link.doubt_all());
            }
        }
        before != self.open
    }

    /// Time has passed.
    pub fn doubt_all(&mut self) {
        let ports: Vec<PortNo> = self.links.keys().copied().collect();
        ports.into_iter().for_each(|port| self.doubt(port, Link::doubt_all));
    }

    /// There is no room: what may be taken away goes now.
    pub fn be_calm(&mut self, now: Time) {
        let ports: Vec<PortNo> = self.links.keys().copied().collect();
        ports.into_iter().for_each(|port| self.doubt(port, |link| link.be_calm(now)));
    }

    fn doubt(&mut self, port: PortNo, doubt: impl Fn(&mut Link)) {
        if let Some(link) = self.links.get_mut(&port) {
            doubt(link);
            self.due.insert(port);
        }
    }

    /// How many rules the switch is spared.
    pub fn spared(&self) -> usize {
        self.links.values().map(Link::spared).sum()
    }

    /// The cookies of the rules that the rule with this match and the priority [`MERGED`] stands for.
    pub fn stood_for(&self, matching: &Match) -> impl Iterator<Item = u64> {
        let port = matching.get(Field::InPort).map(|c| PortNo(c.value as u32));
        let link = port.and_then(|port| self.links.get(&port));
        link.into_iter().flat_map(|link| link.stood_for(matching))
    }

    /// The cookies of the rules that a switch is spared because others stand for them.
    pub fn hidden(&self) -> impl Iterator<Item = u64> {
        self.links.values().flat_map(Link::hidden)
    }

    /// Whether a leaf's part has a rule that says something in its group's table.
    fn has_rule(&self, key: GroupKey, cookie: u64) -> bool {
        self.links.get(&key.arrives).is_some_and(|link| link.answers(key, cookie))
    }

    /// Where the rules of the part come from that a leaf's attempt brought in.
    fn source_of(&self, leaf: LeafId, attempt: u32) -> Option<GroupKey> {
        self.parts_of(leaf).find(|(_, passing)| passing.attempt == attempt).map(|(key, _)| key)
    }

    /// The parts of a leaf: one, or two while it moves.
    fn parts_of(&self, leaf: LeafId) -> impl Iterator<Item = (GroupKey, &Passing)> {
        let all = self.leaves.range((leaf, PortNo(0))..=(leaf, PortNo(u32::MAX)));
        all.filter_map(move |(_, key)| Some((*key, self.groups.get(key)?.parts.get(&leaf)?)))
    }

    fn passing(&mut self, leaf: LeafId, arrives: PortNo) -> Option<&mut Passing> {
        let key = self.leaves.get(&(leaf, arrives))?;
        self.groups.get_mut(key)?.parts.get_mut(&leaf)
    }

    /// Takes a leaf's rules out at once. What is to be done with its packets stays known.
    fn take_rules(&mut self, leaf: LeafId) {
        let keys: Vec<GroupKey> = self.parts_of(leaf).map(|(key, _)| key).collect();
        for key in keys {
            let Some(group) = self.groups.get_mut(&key) else { continue };
            group.table.remove(leaf);
            self.stale.insert(key);
            if let Some(passing) = group.parts.get_mut(&leaf) {
                passing.refused = true;
            }
            self.touched.insert((leaf, key.arrives));
        }
    }

    /// Takes a part out at once, or, if its packets may be under way, its rules. Its owner will have it removed.
    fn discard(&mut self, leaf: LeafId, arrives: PortNo) {
        match self.passing(leaf, arrives) {
            Some(passing) if passing.exposed => self.take_rules(leaf),
            _ => drop(self.take_out(leaf, arrives)),
        }
    }

    /// Takes a part out at once, and forgets it.
    fn take_out(&mut self, leaf: LeafId, arrives: PortNo) -> Option<Passing> {
        let key = self.leaves.remove(&(leaf, arrives))?;
        let group = self.groups.get_mut(&key)?;
        group.table.remove(leaf);
        self.stale.insert(key);
        self.touched.insert((leaf, arrives));
        group.parts.remove(&leaf)
    }

    /// The leaves that have a part here.
    pub fn leaves(&self) -> impl Iterator<Item = LeafId> {
        self.leaves.keys().map(|(leaf, _)| *leaf).chain(self.tagged.users().map(|(leaf, ..)| leaf))
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

/// What is done with a part's packets.
fn action(version: Version, part: &Part) -> LeafAction {
    LeafAction::Apply(actions::instructions(version, part, None, None))
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
        Group { version: capabilities.version, table, parts: BTreeMap::new() }
    }

    /// Puts a part into the tree; returns the draining ones that it stands for now.
    fn insert(
        &mut self,
        install: &Install,
        items: Vec<Item>,
        version: Version,
        was_exposed: bool,
    ) -> Result<Vec<LeafId>, Refusal> {
        let (mut replaced, mut exposed) = (Vec::new(), was_exposed);
        match self.table.augment(&items, install.leaf, action(version, &install.part)) {
            Augmented::Added => {}
            Augmented::Existing(old) => {
                if !self.parts.get(&old).is_some_and(|there| there.is_going() && there.gives_way_to(install)) {
                    return Err(Refusal::Draining);
                }
                self.table.remove(old);
                exposed |= self.parts.remove(&old).is_some_and(|old| old.exposed);
                self.table.augment(&items, install.leaf, action(version, &install.part));
                replaced.push(old);
            }
            Augmented::Replaced { removed, .. } => {
                self.table.remove(install.leaf);
                for old in removed {
                    if let Some(passing) = self.parts.get(&old) {
                        self.table.augment(&passing.items, old, action(version, &passing.part));
                    }
                }
                return Err(Refusal::Draining);
            }
        }
        let Install { attempt, part, unicast, trace, entering, .. } = install.clone();
        let is_stated = items == entering;
        let (draining, refused) = (None, false);
        let passing = Passing { trace, items, part, attempt, unicast, draining, refused, is_stated, exposed };
        self.parts.insert(install.leaf, passing);
        Ok(replaced)
    }

    /// What the group knows of a packet.
    fn find(&self, packet: &Watched<'_>) -> Option<(LeafId, &Passing)> {
        let at_once = self.table.tree().search(packet).and_then(|leaf| Some((leaf, self.parts.get(&leaf)?)));
        // Where the switch can't match all of a trace, the tree has less than may arrive.
        let fits = |(_, passing): &(&LeafId, &Passing)| passing.trace.items.iter().all(|item| item.holds(packet));
        at_once.or_else(|| self.parts.iter().find(fits).map(|(leaf, passing)| (*leaf, passing)))
    }
}

impl Passing {
    /// Whether it only serves packets under way.
    fn is_going(&self) -> bool {
        self.draining.is_some() || self.refused
    }

    /// Whether it may be replaced at once, for the same packets, though packets of it may be under way. If it is on its way
    /// out, what comes in its place must not send them where their parts are perhaps not in yet.
    fn gives_way_to(&self, install: &Install) -> bool {
        let has_way = || !self.is_going() || install.part.links.is_subset(&self.part.links);
        self.trace.items == install.trace.items
            && (self.part.acts_like(&install.part) || self.unicast && install.unicast && has_way())
    }
}

impl Arrived {
    /// The representative packet as it arrives at a later switch.
    fn of(install: &Install, port: PortNo) -> Arrived {
        Arrived {
            frame: install.frame.clone(),
            total_len: install.total_len,
            buffer_id: maple_wire::msg::NO_BUFFER,
            at: Location::new(install.dpid, port),
        }
    }
}
