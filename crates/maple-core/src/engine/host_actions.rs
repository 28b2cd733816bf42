//! Carries out what [`Hosts`](super::hosts::Hosts) asks for: connects it with the store, the switches, the classifier
//! and other shards.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use maple_wire::msg::stats::{FlowStatsRequest, RequestBody, StatsRequest};
use maple_wire::msg::{Message, NO_BUFFER, PacketOut};
use maple_wire::{Action, Field, Match, PortNo};

use super::drops::DropCause;
use super::hosts::{HostAction, SearchResult, Sender, SourceCheck, announcement, is_announcement};
use super::messages::{EngineMessage, Refreshed};
use super::received_packet::{ReceivedPacket, from_port};
use super::switch::{CLASSIFIER, Stale};
use super::{Effect, Engine, ShardId};
use crate::network::{HostInfo, Location, Mac, PortKind};
use crate::report::{MoveReason, Report};
use crate::state::{Snapshot, Write};

/// The table number that stands for all tables in a request for statistics.
const ALL_TABLES: u8 = 0xff;

impl Engine {
    /// Learns from a packet at an edge port. Returns whether the packet is accepted.
    pub(super) fn check_location(&mut self, mac: Mac, received: &ReceivedPacket) -> bool {
        let state = self.ctx.store.snapshot();
        let packet = received.packet();
        let announces = if is_announcement(&packet) { announcement(&packet) } else { None };
        let sender = Sender { mac, at: received.at, announces };
        let check = self.with_hosts(|hosts, now, actions| hosts.on_packet(now, &state, sender, actions));
        match check {
            SourceCheck::Accepted => {}
            SourceCheck::Elsewhere => {
                self.ctx.stats.spoofed_drops += 1;
                let place = state.host(mac).map(|host| host.location).or_else(|| state.facts().place(mac));
                self.drop_packet(received, place.map_or(DropCause::NotAdmissible, DropCause::Elsewhere));
                // A host with a declared place has a report of its own.
                let known = place.filter(|_| state.facts().place(mac).is_none());
                if let Some(at) = known
                    && let Some(unreported) = self.ctx.reports.count_elsewhere(self.ctx.now, received.at)
                {
                    self.ctx.report(Report::HostElsewhere { mac, at, seen: received.at, unreported });
                }
            }
            SourceCheck::TooManyHosts => {
                self.ctx.stats.host_limit_drops += 1;
                self.drop_packet(received, DropCause::TooManyHosts);
            }
        }
        check == SourceCheck::Accepted
    }

    /// Calls `ask` with the hosts of this shard, and then carries out what they ask for.
    pub(super) fn with_hosts<T>(
        &mut self,
        ask: impl FnOnce(&mut super::hosts::Hosts, super::Time, &mut Vec<HostAction>) -> T,
    ) -> T {
        let mut actions = Vec::new();
        let answer = ask(&mut self.hosts, self.ctx.now, &mut actions);
        actions.into_iter().for_each(|action| self.perform(action));
        answer
    }

    fn perform(&mut self, action: HostAction) {
        match action {
            HostAction::Learn { mac, at, ip } => self.learn_host(mac, at, ip),
            HostAction::Bind { mac, at, ip, instead } => self.bind_address(mac, at, ip, instead),
            HostAction::Unbind { mac, at, ip } => self.unbind_address(mac, at, ip),
            HostAction::Move { mac, from, to, why } => self.move_host(mac, from, to, why),
            HostAction::Forget { mac, at } => self.forget_host(mac, at),
            HostAction::Find { mac, at, named } => {
                let asker = self.ctx.shard;
                self.send_to_shard_of(at.switch, EngineMessage::FindHost { mac, at, named, asker })
            }
            HostAction::ReportSearch { to, mac, at, found } => {
                self.send_to_shard(to, EngineMessage::HostSearched { mac, at, found })
            }
            HostAction::Emit { at, frame } => self.emit_probe(at, frame),
            HostAction::Count { at, mac } => self.count_host_packets(at, mac),
            HostAction::Guard { at, on } => self.guard_port(at, on),
            HostAction::Mute { mac, at, on } => {
                if let Some(switch) = self.switches.get_mut(&at.switch) {
                    switch.host_rules.set_muted(at.port, mac, on);
                    self.ctx.dirty.insert(at.switch);
                }
            }
            HostAction::Wake(time, timer) => drop(self.ctx.timers.insert((time, timer))),
            HostAction::Report(report) => self.ctx.report(report),
        }
    }

    /// Searches for a host at a switch of this shard, for another shard.
    pub(super) fn find_host(&mut self, (mac, at): (Mac, Location), named: Option<IpAddr>, asker: ShardId) {
        let state = self.ctx.store.snapshot();
        if self.switches.contains_key(&at.switch) {
            self.with_hosts(|hosts, now, actions| hosts.on_find(now, &state, (mac, at), named, asker, actions));
        }
    }

    /// Takes the result of a search that another shard made for a host.
    pub(super) fn host_searched(&mut self, mac: Mac, at: Location, found: SearchResult) {
        self.with_hosts(|hosts, now, actions| hosts.on_found(now, mac, at, found, actions));
    }

    fn learn_host(&mut self, mac: Mac, at: Location, ip: Option<IpAddr>) {
        let mut new = false;
        let commit = self.ctx.store.update(|state| {
            let facts = state.facts();
            let addresses: Vec<IpAddr> = ip.into_iter().chain(facts.addresses(mac)).collect();
            let is_edge = state.port(at).is_some_and(|port| port.kind == PortKind::Edge);
            new = is_edge && state.host(mac).is_none() && facts.place(mac).is_none_or(|place| place == at);
            let info = HostInfo { location: at, ipv4: BTreeSet::new(), ipv6: BTreeSet::new() };
            if new { with_addresses(state, mac, info, &addresses) } else { Vec::new() }
        });
        self.apply_commit(commit);
        if new {
            self.ctx.report(Report::HostFound { mac, at });
        } else {
            self.hosts.on_departure(mac, at);
        }
    }

    fn bind_address(&mut self, mac: Mac, at: Location, ip: IpAddr, instead: Option<IpAddr>) {
        let commit = self.ctx.store.update(|state| {
            let facts = state.facts();
            let is_anothers = facts.owner(ip).is_some_and(|owner| owner != mac);
            let host = state.host(mac).filter(|host| host.location == at && !is_anothers);
            let Some(host) = host else { return Vec::new() };
            let instead = instead.filter(|old| facts.owner(*old) != Some(mac));
            let mut info = host.clone();
            instead.iter().for_each(|old| info.remove(*old));
            with_addresses(state, mac, info, &[ip])
        });
        self.apply_commit(commit);
    }

    fn unbind_address(&mut self, mac: Mac, at: Location, ip: IpAddr) {
        let commit = self.ctx.store.update(|state| {
            let is_declared = state.facts().owner(ip) == Some(mac);
            let owns = |host: &&HostInfo| !is_declared && host.location == at && host.addresses().any(|own| own == ip);
            let Some(host) = state.host(mac).filter(owns) else { return Vec::new() };
            let mut info = host.clone();
            info.remove(ip);
            vec![Write::Host { mac, info: Some(info) }]
        });
        self.apply_commit(commit);
    }

    fn move_host(&mut self, mac: Mac, from: Location, to: Location, why: MoveReason) {
        let mut moved = false;
        let commit = self.ctx.store.update(|state| {
            let may_be = state.facts().place(mac).is_none_or(|place| place == to);
            let is_edge = state.port(to).is_some_and(|port| port.kind == PortKind::Edge);
            match state.host(mac).filter(|host| host.location == from && is_edge && may_be) {
                Some(host) => {
                    moved = true;
                    vec![Write::Host { mac, info: Some(HostInfo { location: to, ..host.clone() }) }]
                }
                None => Vec::new(),
            }
        });
        self.apply_commit(commit);
        if moved {
            self.ctx.report(Report::HostMoved { mac, from, to, why });
            self.note_host_move(mac, from, to);
        }
    }

    fn forget_host(&mut self, mac: Mac, at: Location) {
        let mut gone = false;
        let commit = self.ctx.store.update(|state| {
            gone = state.host(mac).is_some_and(|host| host.location == at);
            if gone { vec![Write::Host { mac, info: None }] } else { Vec::new() }
        });
        self.apply_commit(commit);
        if gone {
            self.ctx.stats.hosts_aged += 1;
            self.ctx.report(Report::HostLost { mac, at });
        }
    }

    fn emit_probe(&mut self, at: Location, data: Vec<u8>) {
        let actions = vec![Action::output(at.port)];
        let message = PacketOut { buffer_id: NO_BUFFER, in_port: PortNo::CONTROLLER, actions, data };
        self.send(at.switch, Message::PacketOut(message));
    }

    /// Asks a switch for the counters of the rules of a port's hosts, or of one host.
    fn count_host_packets(&mut self, at: Location, mac: Option<Mac>) {
        let Some(switch) = self.switches.get(&at.switch) else { return };
        if switch.unreachable.is_some() {
            // The switch cannot be asked. A host that is searched for is taken for silent; none is aged.
            if let Some(mac) = mac {
                self.with_hosts(|hosts, now, actions| hosts.on_search_count(now, mac, None, actions));
            }
            return;
        }
        let table_id = if switch.three_tables { CLASSIFIER } else { ALL_TABLES };
        let at_port = Match::any().with(from_port(at.port));
        let matching = mac.iter().fold(at_port, |all, mac| all.exact(Field::EthSrc, mac.bits()));
        let request = FlowStatsRequest { table_id, matching, ..FlowStatsRequest::all() };
        let body = if mac.is_some() { RequestBody::Aggregate(request) } else { RequestBody::Flow(request) };
        let Some(effect) = self.effect(at.switch, Message::StatsRequest(StatsRequest::new(body))) else { return };
        if let Effect::Send { xid, .. } = &effect {
            self.hosts.on_counting(*xid, at, mac);
        }
        self.ctx.after.push(effect);
    }

    fn guard_port(&mut self, at: Location, on: bool) {
        self.ctx.stats.port_guards += u64::from(on);
        if let Some(switch) = self.switches.get_mut(&at.switch) {
            switch.host_rules.set_guard(at.port, on);
            self.ctx.dirty.insert(at.switch);
        }
    }

    /// Handles changes of ports or hosts at this shard's switches: the classifier may have to change, and waiting
    /// packets may be admitted.
    pub(super) fn refresh(&mut self, refreshed: &Refreshed) {
        let state = self.ctx.store.snapshot();
        for at in &refreshed.ports {
            self.mark_dirty(at.switch, Stale { classifier: true, ..Stale::default() });
            self.forget_arrivals(at.switch);
            if state.port(*at).is_none_or(|port| !matches!(port.kind, PortKind::Link(_))) {
                self.close_labels(*at);
            }
            if state.port(*at).is_none_or(|port| port.kind != PortKind::Edge) {
                self.hosts.forget_port(*at);
            }
            self.note_link_port(&state, *at);
            self.update_port_host_rules(&state, *at);
            self.on_port_change(&state, *at);
            self.admit_new_port_packets(at.switch);
        }
        for (at, mac) in &refreshed.hosts {
            if is_at(&state, *mac, *at) {
                let (mac, at) = (*mac, *at);
                if self.switches.contains_key(&at.switch) {
                    self.with_hosts(|hosts, now, actions| hosts.on_arrival(now, &state, mac, at, actions));
                }
            } else {
                self.hosts.on_departure(*mac, *at);
            }
            self.update_host_rules(&state, *mac, *at);
        }
    }

    /// Updates the rules of a port's hosts. They have rules if and only if it is an edge port.
    fn update_port_host_rules(&mut self, state: &Snapshot, at: Location) {
        let Some(switch) = self.switches.get_mut(&at.switch) else { return };
        if state.port(at).is_none_or(|port| port.kind != PortKind::Edge) {
            switch.host_rules.set_guard(at.port, false);
        }
        let hosts: BTreeSet<Mac> = switch.host_rules.at_port(at.port).into_iter().chain(state.hosts_at(at)).collect();
        hosts.into_iter().for_each(|mac| self.update_host_rules(state, mac, at));
    }

    fn update_host_rules(&mut self, state: &Snapshot, mac: Mac, at: Location) {
        let tracked = self.ctx.options.track_hosts;
        let Some(switch) = self.switches.get_mut(&at.switch).filter(|_| tracked) else { return };
        let is_edge = state.port(at).is_some_and(|port| port.kind == PortKind::Edge);
        switch.host_rules.set_host(at.port, mac, is_edge && is_at(state, mac, at));
        self.ctx.dirty.insert(at.switch);
    }

    /// Has the switches copy what hosts announce, once something depends on the addresses of hosts.
    pub(super) fn update_copied_announcements(&mut self) {
        let kinds = self.ctx.store.address_kinds();
        if kinds == self.address_kinds || !self.ctx.options.track_hosts {
            return;
        }
        self.address_kinds = kinds;
        for (dpid, switch) in &mut self.switches {
            switch.host_rules.set_kinds(kinds);
            self.ctx.dirty.insert(*dpid);
        }
        let state = self.ctx.store.snapshot();
        let others: BTreeSet<ShardId> = state.switches().map(|(_, info)| info.shard).collect();
        let me = self.ctx.shard;
        others
            .into_iter()
            .filter(|to| *to != me)
            .for_each(|to| self.send_to_shard(to, EngineMessage::AddressesAreRead));
    }
}

#[cfg(test)]
impl Engine {
    /// The number of items kept for hosts, of all kinds together.
    pub(crate) fn size_of_hosts(&self) -> usize {
        self.hosts.size() + self.switches.values().map(|switch| switch.host_rules.size()).sum::<usize>()
    }
}

fn is_at(state: &Snapshot, mac: Mac, at: Location) -> bool {
    state.host(mac).is_some_and(|host| host.location == at)
}

/// The writes that give a host these addresses and take them from their former owners.
pub(super) fn with_addresses(state: &Snapshot, mac: Mac, mut info: HostInfo, addresses: &[IpAddr]) -> Vec<Write> {
    let mut former: BTreeMap<Mac, HostInfo> = BTreeMap::new();
    for ip in addresses {
        info.insert(*ip);
        let before = state.host_by_ip(*ip).filter(|owner| *owner != mac);
        if let Some((owner, theirs)) = before.and_then(|owner| Some((owner, state.host(owner)?))) {
            former.entry(owner).or_insert_with(|| theirs.clone()).remove(*ip);
        }
    }
    let mut writes: Vec<Write> =
        former.into_iter().map(|(owner, theirs)| Write::Host { mac: owner, info: Some(theirs) }).collect();
    writes.push(Write::Host { mac, info: Some(info) });
    writes
}
