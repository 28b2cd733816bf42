//! The classifier's rules for hosts, updated host by host: a change of one host costs a look-up, however many hosts
//! there are.
//!
//! # What
//!
//! | rule (three tables) | action |
//! | --- | --- |
//! | `in_port, eth_src` of a known host | go to the ingress table |
//! | `in_port, eth_src` of a known host, and ARP or neighbour discovery, if f depends on addresses | go to the ingress table, with a copy to the controller |
//! | `in_port` of a port with too many hosts | drop, for a while |
//! | `in_port, eth_src` of a host that is declared to be at such a port and is not known | go to the controller |
//!
//! With one table, traces read `in_port` and `eth_src` themselves. There the ARP packets of ports with hosts go to the
//! controller, not just copies of them. At a guarded port, a rule for each known host keeps its undecided packets from
//! being dropped.
//!
//! # Capacity
//!
//! These rules count like all others. If a switch has little capacity, the hosts of one port get at most an eighth of
//! it, and all hosts together a half. Further hosts have no rule, and their packets come to the controller, which is
//! slow but right. They get a rule when there is capacity again. Hosts whose rule the switch has refused are treated in
//! the same way. Leaves are not affected.
//!
//! # Changes of paths
//!
//! A host's first rule lets its packets into the ingress table. While packets that enter at the switch are changing to
//! other paths, the rules there are those of the state before. Suppose that the same change let the host in and moved
//! the paths. Then a packet of the host would be treated neither as in the state before nor as in the one after. So
//! rules that are missing wait until the paths have changed ([`HostRules::hold`]), and the packets come to the
//! controller meanwhile.
//!
//! # The source of a packet
//!
//! On a switch with tables for look-ups, a host's rules also write into the metadata that the packet's source is where
//! it came in ([`SOURCE_IS_HERE`]). f may rest on that. So when a host has gone, its rules go before the rules of
//! leaves or keys change ([`HostRules::take_departures`]).
//!
//! # Callers
//!
//! `host_actions.rs` reports where hosts are. `flush.rs` takes the changes. `refused_rules/` reports what the switch
//! has refused.

mod rule_set;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use maple_wire::eth_type::value::{ARP, IPV6};
use maple_wire::icmpv6_type::value::{NEIGHBOR_ADVERT, NEIGHBOR_SOLICIT};
use maple_wire::ip_proto::value::ICMPV6;
use maple_wire::{Action, Field, Instruction, Match, PortNo};

use crate::engine::messages::received_packet::from_port;
use crate::engine::one_switch::layout::{ENTRY, Layout};
use crate::engine::one_switch::priorities;
use crate::engine::tools::expected::Expected;
use crate::forwarding::to_controller;
use crate::ids::Time;
use crate::look_ups::SOURCE_IS_HERE;
use crate::network::Mac;
use crate::rule::Rule;
use crate::state::AddressKinds;
use crate::update::Change;
use rule_set::*;

/// The maximum number of hosts without rules, for lack of capacity, that are tried again together. Chosen: an update of
/// that size is short, and the next one follows as soon as there is capacity.
const MAX_RETRIED: usize = 64;

/// The capacity for rules of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct HostCapacity {
    /// The number of further rules that fit.
    pub free: usize,
    /// The maximum number of rules for the hosts of one port.
    pub per_port: usize,
    /// The maximum number of rules for all hosts.
    pub total: usize,
}

impl HostCapacity {
    /// A capacity without bounds.
    pub const ENDLESS: HostCapacity = HostCapacity { free: usize::MAX, per_port: usize::MAX, total: usize::MAX };
}

/// The rules for the hosts of one switch.
#[derive(Clone, Debug)]
pub(in crate::engine) struct HostRules {
    has_pipeline: bool,
    /// Whether hosts' rules write that the packet's source is where it came in.
    marks_sources: bool,
    cookies: HostCookies,
    /// Whether packets may go on to the ingress table.
    open: bool,
    kinds: AddressKinds,
    hosts: BTreeMap<(PortNo, Mac), HostEntry>,
    /// Hosts that have a fixed place.
    declared: BTreeSet<(PortNo, Mac)>,
    ports: BTreeMap<PortNo, PortEntry>,
    /// The number of rules of all hosts.
    count: usize,
    /// Hosts and ports whose rules may have to change.
    dirty: BTreeSet<(PortNo, Mac)>,
    dirty_ports: BTreeSet<PortNo>,
    /// Hosts that have fewer rules than they should, for lack of capacity.
    without_room: BTreeSet<(PortNo, Mac)>,
    /// Deletions for hosts that are gone, and for rules that the switch has refused.
    gone: Vec<Change>,
    news: HostNews,
    pause: AdditionPause,
}

/// The news that callers ask about from time to time.
#[derive(Clone, Copy, Debug, Default)]
struct HostNews {
    /// Whether a host lacked capacity since this was last taken.
    is_short: bool,
    /// The number of times that a host came or left.
    moves: u64,
}

/// The reason why nothing is added for now.
#[derive(Clone, Debug, Default)]
struct AdditionPause {
    /// The time until which nothing is added, because a rule was refused.
    closed_until: Option<Time>,
    /// Since when packets have been changing to other paths, so that nothing is added; `None`: they are not.
    held_since: Option<Time>,
    /// Whether hosts may wait only because packets change to other paths.
    held_back: bool,
}

/// The cookies of rules of hosts.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct HostCookies {
    /// The cookie of rules that copy packets to the controller.
    pub copies: u64,
    /// The cookie of all others.
    pub others: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct HostEntry {
    /// Whether the host is known here. Otherwise it is declared to be here.
    is_here: bool,
    muted: bool,
    /// The rules that it has, or gets with the next flush.
    has: RuleSet,
}

#[derive(Clone, Copy, Debug, Default)]
struct PortEntry {
    hosts: usize,
    /// The number of rules of its hosts.
    count: usize,
    without_room: usize,
    muted: usize,
    guarded: bool,
    has: RuleSet,
}

impl HostRules {
    /// Starts without rules, for a switch where these hosts have fixed places.
    pub fn new(layout: Layout, cookies: HostCookies, declared: BTreeSet<(PortNo, Mac)>) -> HostRules {
        HostRules {
            has_pipeline: layout.has_pipeline(),
            marks_sources: !layout.look_ups().is_empty(),
            cookies,
            open: false,
            kinds: AddressKinds::default(),
            hosts: declared.iter().map(|key| (*key, HostEntry::default())).collect(),
            declared,
            ports: BTreeMap::new(),
            count: 0,
            dirty: BTreeSet::new(),
            dirty_ports: BTreeSet::new(),
            without_room: BTreeSet::new(),
            gone: Vec::new(),
            news: HostNews::default(),
            pause: AdditionPause::default(),
        }
    }

    /// Sets whether a host is at an edge port.
    pub fn set_host(&mut self, port: PortNo, mac: Mac, is_here: bool) {
        let key = (port, mac);
        let was_here = self.hosts.get(&key).is_some_and(|host| host.is_here);
        self.news.moves += u64::from(is_here != was_here);
        if is_here && !was_here {
            self.hosts.entry(key).or_default().is_here = true;
            self.ports.entry(port).or_default().hosts += 1;
            self.mark_dirty(key);
        } else if !is_here && was_here {
            self.remove(key);
            if self.declared.contains(&key) {
                self.hosts.insert(key, HostEntry::default());
                self.dirty.insert(key);
            }
        }
    }

    /// Forgets a host, and deletes its rules.
    fn remove(&mut self, key: (PortNo, Mac)) {
        let Some(host) = self.hosts.remove(&key).expected() else { return };
        let (port, mac) = key;
        let entry = self.ports.entry(port).or_default();
        entry.hosts -= usize::from(host.is_here);
        entry.muted -= usize::from(host.muted);
        entry.count -= host.has.count();
        self.count -= host.has.count();
        entry.without_room -= usize::from(self.without_room.remove(&key));
        self.dirty.remove(&key);
        self.dirty_ports.insert(port);
        let rules = host.has.each().map(|kind| Change::Delete(self.rule(kind, port, mac)));
        self.gone.extend(rules.collect::<Vec<_>>());
    }

    /// Sets the hosts that have fixed places at this switch.
    pub fn declare(&mut self, declared: BTreeSet<(PortNo, Mac)>) {
        let before = std::mem::replace(&mut self.declared, declared);
        let new: Vec<(PortNo, Mac)> = self.declared.difference(&before).copied().collect();
        for key in new {
            self.hosts.entry(key).or_default();
            self.mark_dirty(key);
        }
        for key in before {
            if !self.declared.contains(&key) && self.hosts.get(&key).is_some_and(|host| !host.is_here) {
                self.remove(key);
            }
        }
    }

    /// Returns the hosts that are known at a port.
    pub fn at_port(&self, port: PortNo) -> Vec<Mac> {
        self.hosts.range(of_port(port)).filter(|(_, host)| host.is_here).map(|((_, mac), _)| *mac).collect()
    }

    /// Sets whether the packets of unknown hosts at a port are dropped.
    pub fn set_guard(&mut self, port: PortNo, on: bool) {
        self.ports.entry(port).or_default().guarded = on;
        self.mark_port_dirty(port);
    }

    /// Sets whether a host's announcements are not copied.
    pub fn set_muted(&mut self, port: PortNo, mac: Mac, on: bool) {
        if let Some(host) = self.hosts.get_mut(&(port, mac))
            && host.is_here
            && host.muted != on
        {
            host.muted = on;
            let entry = self.ports.entry(port).or_default();
            entry.muted = if on { entry.muted + 1 } else { entry.muted - 1 };
            self.mark_dirty((port, mac));
        }
    }

    /// Sets which kinds of announcements come to the controller.
    pub fn set_kinds(&mut self, kinds: AddressKinds) {
        if self.kinds != kinds {
            self.kinds = kinds;
            self.mark_all_dirty();
        }
    }

    /// Sets whether packets may go on to the ingress table.
    pub fn set_usable(&mut self, open: bool) {
        if self.open != open {
            self.open = open;
            self.mark_all_dirty();
        }
    }

    /// Finds a rule among these rules: its kind, its port, and its host if it is for one.
    fn find(&self, rule: &Rule) -> Option<(RuleSet, PortNo, Option<Mac>)> {
        let exact = |field| rule.matching.get(field).filter(|c| c.is_exact()).map(|c| c.value);
        let port = PortNo(exact(Field::InPort)? as u32);
        let mac = exact(Field::EthSrc).map(Mac::from_bits);
        let is_of_kind = |kind: &RuleSet| {
            let own = self.rule(*kind, port, mac.unwrap_or_default());
            (own.priority, own.cookie, &own.matching) == (rule.priority, rule.cookie, &rule.matching)
        };
        ALL.into_iter().find(is_of_kind).map(|kind| (kind, port, mac))
    }

    /// Reports whether a rule is one of these rules.
    pub fn contains(&self, rule: &Rule) -> bool {
        self.find(rule).is_some()
    }

    /// Handles a rule among these that the switch has refused.
    pub fn on_refused(&mut self, rule: &Rule, until: Time) {
        let Some((kind, port, mac)) = self.find(rule).expected() else { return };
        let entry = self.ports.entry(port).or_default();
        match mac.and_then(|mac| self.hosts.get_mut(&(port, mac))) {
            Some(host) if host.has.has(kind) => {
                host.has = host.has.without(kind);
                entry.count -= 1;
                self.count -= 1;
            }
            Some(_) => {}
            None => entry.has = entry.has.without(kind),
        }
        // Without this rule, known hosts would be dropped as well.
        entry.guarded = false;
        self.gone.push(Change::Delete(rule.clone()));
        self.pause.closed_until = Some(until);
        mac.into_iter().for_each(|mac| self.mark_dirty((port, mac)));
        self.mark_port_dirty(port);
    }

    /// Reports whether rules that were not added can be tried again now.
    pub fn reopen(&mut self, now: Time) -> bool {
        let is_over = self.pause.closed_until.is_some_and(|until| until <= now);
        if is_over {
            self.pause.closed_until = None;
            self.mark_all_dirty();
        }
        is_over || !self.without_room.is_empty()
    }

    /// Reports whether a host lacked capacity since this was last called.
    pub fn take_is_short(&mut self) -> bool {
        std::mem::take(&mut self.news.is_short)
    }

    /// Reports whether there may be rules to add.
    pub fn has_additions(&self) -> bool {
        self.pause.held_back || !self.dirty.is_empty()
    }

    /// Notes whether packets that enter at this switch are changing to other paths. Rules are added when that is over,
    /// or has gone on for `longest`. Returns when they are added at the latest, if they wait.
    pub fn hold(&mut self, now: Time, is_moving: bool, longest: Duration) -> Option<Time> {
        let since = is_moving.then(|| self.pause.held_since.unwrap_or(now));
        self.pause.held_since = since;
        since.map(|since| since + longest).filter(|until| now < *until)
    }

    /// Stops writing into the metadata that the packet's source is where it came in, because the switch refuses that.
    /// All rules have to be compared afterwards.
    pub fn stop_marking_sources(&mut self) {
        self.marks_sources = false;
    }

    /// Returns what the rule of a known host does.
    pub fn to_ingress(&self) -> Vec<Instruction> {
        let mark = Instruction::WriteMetadata { metadata: SOURCE_IS_HERE, mask: SOURCE_IS_HERE };
        let goto = Instruction::GotoTable(ENTRY);
        if self.marks_sources { vec![mark, goto] } else { vec![goto] }
    }

    /// Removes and returns the deletions of rules of hosts that are gone.
    pub fn take_departures(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.gone)
    }

    /// Reports whether rules of hosts that are gone have to be deleted.
    pub fn has_departures(&self) -> bool {
        !self.gone.is_empty()
    }

    /// Reports whether a host is known at a port.
    pub fn is_present(&self, port: PortNo, mac: Mac) -> bool {
        self.hosts.get(&(port, mac)).is_some_and(|host| host.is_here)
    }

    /// Reports whether hosts have fewer rules than they should, for lack of capacity.
    pub fn has_without_room(&self) -> bool {
        !self.without_room.is_empty()
    }

    /// Returns how often a host came or left.
    pub fn moves(&self) -> u64 {
        self.news.moves
    }

    /// Returns the hosts that are known, with their ports.
    pub fn present(&self) -> impl Iterator<Item = (PortNo, Mac)> + '_ {
        self.hosts.iter().filter(|(_, host)| host.is_here).map(|(key, _)| *key)
    }

    /// Removes and returns the changes of the rules. `held`: nothing is added now.
    pub fn take_changes(&mut self, capacity: HostCapacity, held: bool) -> Vec<Change> {
        let mut changes = std::mem::take(&mut self.gone);
        let is_closed = held || self.pause.closed_until.is_some();
        let mut capacity = if is_closed { HostCapacity { free: 0, ..capacity } } else { capacity };
        let mut keys = std::mem::take(&mut self.dirty);
        let was_held_back = std::mem::replace(&mut self.pause.held_back, held);
        if was_held_back && !held {
            keys.extend(&self.without_room);
        } else {
            keys.extend(self.waiting_hosts_with_capacity(&capacity));
        }
        for (port, mac) in keys {
            self.update_host(port, mac, &mut capacity, &mut changes);
        }
        // The guard of a port depends on the rules of its hosts, so ports come last.
        for port in std::mem::take(&mut self.dirty_ports) {
            self.update_port(port, &mut changes);
        }
        changes
    }

    /// Selects some hosts that lack rules and for which there may be capacity.
    fn waiting_hosts_with_capacity(&self, capacity: &HostCapacity) -> Vec<(PortNo, Mac)> {
        let free = capacity.free.min(capacity.total.saturating_sub(self.count)).min(MAX_RETRIED);
        if free == 0 || self.without_room.is_empty() {
            return Vec::new();
        }
        let ports = self.ports.iter().filter(|(_, entry)| entry.without_room > 0);
        let waiting_at = |(port, entry): (&PortNo, &PortEntry)| {
            let left = capacity.per_port.saturating_sub(entry.count);
            self.without_room.range(of_port(*port)).take(left).copied().collect::<Vec<_>>()
        };
        ports.flat_map(waiting_at).take(free).collect()
    }

    /// Returns the rules of all hosts and ports.
    pub fn rules(&self) -> impl Iterator<Item = Rule> + '_ {
        let host_rules = move |((port, mac), host): (&(PortNo, Mac), &HostEntry)| {
            let (port, mac) = (*port, *mac);
            host.has.each().map(move |kind| self.rule(kind, port, mac))
        };
        let port_rules = move |(port, entry): (&PortNo, &PortEntry)| {
            let port = *port;
            entry.has.each().map(move |kind| self.rule(kind, port, Mac::default()))
        };
        self.hosts.iter().flat_map(host_rules).chain(self.ports.iter().flat_map(port_rules))
    }

    /// Returns the number of items kept, of all kinds together.
    pub fn size(&self) -> usize {
        let dirty = self.dirty.len() + self.dirty_ports.len() + self.gone.len();
        self.hosts.len() + self.ports.len() + self.without_room.len() + dirty
    }

    fn mark_dirty(&mut self, key: (PortNo, Mac)) {
        self.dirty.insert(key);
        self.dirty_ports.insert(key.0);
    }

    fn mark_port_dirty(&mut self, port: PortNo) {
        self.dirty_ports.insert(port);
        if self.has_pipeline {
            self.dirty.extend(self.declared.range(of_port(port)));
        } else {
            self.dirty.extend(self.hosts.range(of_port(port)).map(|(key, _)| *key));
        }
    }

    fn mark_all_dirty(&mut self) {
        self.dirty.extend(self.hosts.keys());
        self.dirty_ports.extend(self.ports.keys());
    }

    /// Updates a host's rules.
    fn update_host(&mut self, port: PortNo, mac: Mac, capacity: &mut HostCapacity, changes: &mut Vec<Change>) {
        // The host may have gone since it was marked.
        let Some(host) = self.hosts.get(&(port, mac)).copied() else { return };
        let entry = self.ports.get(&port).copied().unwrap_or_default();
        let wanted = self.wanted(&host, &entry);
        let (mut has, mut waits) = (host.has.within(wanted), false);
        for kind in wanted.without(has).each() {
            let count = has.count();
            let others = |all: usize| all - host.has.count() + count;
            let fits = others(entry.count) < capacity.per_port && others(self.count) < capacity.total;
            self.news.is_short |=
                fits && capacity.free == 0 && self.pause.closed_until.is_none() && !self.pause.held_back;
            if !fits || capacity.free == 0 {
                waits = true;
                break;
            }
            capacity.free -= 1;
            has = has.with(kind, true);
        }
        changes.extend(host.has.without(has).each().map(|kind| Change::Delete(self.rule(kind, port, mac))));
        changes.extend(has.without(host.has).each().map(|kind| Change::Add(self.rule(kind, port, mac))));
        self.count = self.count - host.has.count() + has.count();
        let lacked_room =
            if waits { !self.without_room.insert((port, mac)) } else { self.without_room.remove(&(port, mac)) };
        let entry = self.ports.entry(port).or_default();
        entry.count = entry.count - host.has.count() + has.count();
        entry.without_room = entry.without_room + usize::from(waits) - usize::from(lacked_room);
        if waits != lacked_room {
            self.dirty_ports.insert(port);
        }
        if let Some(host) = self.hosts.get_mut(&(port, mac)) {
            host.has = has;
        }
    }

    /// Returns the rules that a host should have. [`RuleSet::each`] gives the most important ones first.
    fn wanted(&self, host: &HostEntry, port: &PortEntry) -> RuleSet {
        if !self.has_pipeline || !host.is_here {
            return RuleSet::default().with(PASS_KNOWN, port.guarded);
        }
        let copies = |wanted: bool| self.open && wanted && !host.muted;
        RuleSet::default()
            .with(HOST, self.open)
            .with(COPY_ARP, copies(self.kinds.v4))
            .with(COPY_SOLICITATION, copies(self.kinds.v6))
            .with(COPY_ADVERTISEMENT, copies(self.kinds.v6))
    }

    /// Updates a port's rules.
    fn update_port(&mut self, port: PortNo, changes: &mut Vec<Change>) {
        let Some(entry) = self.ports.get(&port).copied().expected() else { return };
        // The guard would drop a host that lacks its rule.
        let all_known =
            entry.without_room == 0 && (self.open || !self.has_pipeline) && self.pause.closed_until.is_none();
        let asks = !self.has_pipeline && self.kinds.v4 && entry.hosts > 0 && entry.muted == 0;
        let wanted = RuleSet::default()
            .with(GUARDED, entry.guarded && all_known)
            .with(ARP_TO_CONTROLLER, asks && self.pause.closed_until.is_none());
        let rule = |kind| self.rule(kind, port, Mac::default());
        changes.extend(entry.has.without(wanted).each().map(|kind| Change::Delete(rule(kind))));
        changes.extend(wanted.without(entry.has).each().map(|kind| Change::Add(rule(kind))));
        if entry.hosts == 0 && !entry.guarded {
            self.ports.remove(&port);
        } else if let Some(entry) = self.ports.get_mut(&port) {
            entry.has = wanted;
        }
    }

    fn rule(&self, kind: RuleSet, port: PortNo, mac: Mac) -> Rule {
        let at_port = Match::any().with(from_port(port));
        let of_host = || Match::any().with(from_port(port)).exact(Field::EthSrc, mac.bits());
        let neighbours = |kind| {
            let icmp = of_host().exact(Field::EthType, IPV6).exact(Field::IpProto, ICMPV6);
            icmp.exact(Field::Icmpv6Type, kind)
        };
        let copy = || {
            let copy = Instruction::ApplyActions(vec![Action::to_controller()]);
            [copy].into_iter().chain(self.to_ingress()).collect()
        };
        let guard = if self.has_pipeline { priorities::GUARD } else { priorities::LAST };
        let (priority, matching, instructions) = match kind {
            HOST => (priorities::HOSTS, of_host(), self.to_ingress()),
            COPY_ARP => (priorities::COPIES, of_host().exact(Field::EthType, ARP), copy()),
            COPY_SOLICITATION => (priorities::COPIES, neighbours(NEIGHBOR_SOLICIT), copy()),
            COPY_ADVERTISEMENT => (priorities::COPIES, neighbours(NEIGHBOR_ADVERT), copy()),
            // With three tables, above the rule that it gets once it is known: there may be both for a moment.
            PASS_KNOWN => {
                (if self.has_pipeline { priorities::HOSTS + 1 } else { priorities::KNOWN }, of_host(), to_controller())
            }
            ARP_TO_CONTROLLER => (priorities::ANNOUNCED, at_port.exact(Field::EthType, ARP), to_controller()),
            _ => (guard, at_port, Vec::new()),
        };
        let cookie = if COPYING.has(kind) { self.cookies.copies } else { self.cookies.others };
        Rule { priority, matching, instructions: instructions.into(), cookie }
    }
}

fn of_port(port: PortNo) -> std::ops::RangeInclusive<(PortNo, Mac)> {
    (port, Mac([0; 6]))..=(port, Mac([0xff; 6]))
}

#[cfg(test)]
mod tests;
