//! Carries out what [`Hosts`](super::hosts::Hosts) asks for: connects it with the store, the switches, the classifier
//! and other shards.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use maple_wire::msg::ALL_TABLES;
use maple_wire::msg::stats::{FlowStatsRequest, RequestBody, StatsRequest};
use maple_wire::msg::{Message, NO_BUFFER, PacketOut};
use maple_wire::{Action, Dpid, Field, Match, PortNo};

use super::Topology;
use super::hosts::{HostAction, Sender, SourceCheck, announcement, is_announcement};
use crate::engine::fabric::Fabric;
use crate::engine::messages::cause::DropCause;
use crate::engine::messages::event::Effect;
use crate::engine::messages::mail::{EngineMessage, FindHost, SearchResult};
use crate::engine::messages::received_packet::{ReceivedPacket, from_port};
use crate::engine::one_switch::layout::CLASSIFIER;
use crate::ids::ShardId;
use crate::network::{HostInfo, Location, Mac, PortKind};
use crate::report::{MoveReason, Report};
use crate::state::{Snapshot, Write};

impl Topology {
    /// Learns where a host is from its packet at an edge port. Returns whether the packet is accepted.
    pub fn learn_location(&mut self, fabric: &mut Fabric, mac: Mac, received: &ReceivedPacket) -> bool {
        let state = fabric.ctx.store.snapshot();
        let packet = received.packet();
        let announces = if is_announcement(&packet) { announcement(&packet) } else { None };
        let sender = Sender { mac, at: received.at, announces };
        let check = self.with_hosts(fabric, |hosts, now, actions| hosts.on_packet(now, &state, sender, actions));
        match check {
            SourceCheck::Accepted => {}
            SourceCheck::Elsewhere => {
                fabric.ctx.stats.spoofed_drops += 1;
                let place = state.host(mac).map(|host| host.location).or_else(|| state.facts().place(mac));
                fabric.switches.drop_packet(
                    &mut fabric.ctx,
                    received,
                    place.map_or(DropCause::NotAdmissible, DropCause::Elsewhere),
                );
                // A host with a declared place has a report of its own.
                let known = place.filter(|_| state.facts().place(mac).is_none());
                if let Some(at) = known {
                    fabric.ctx.report_elsewhere(mac, at, received.at);
                }
            }
            SourceCheck::TooManyHosts => {
                fabric.ctx.stats.host_limit_drops += 1;
                fabric.switches.drop_packet(&mut fabric.ctx, received, DropCause::TooManyHosts);
            }
        }
        check == SourceCheck::Accepted
    }

    /// Calls `ask` with the hosts of this shard, and then carries out what they ask for.
    pub fn with_hosts<T>(
        &mut self,
        fabric: &mut Fabric,
        ask: impl FnOnce(&mut super::hosts::Hosts, crate::ids::Time, &mut Vec<HostAction>) -> T,
    ) -> T {
        let mut actions = Vec::new();
        let answer = ask(&mut self.hosts, fabric.ctx.now(), &mut actions);
        actions.into_iter().for_each(|action| self.perform(fabric, action));
        answer
    }

    fn perform(&mut self, fabric: &mut Fabric, action: HostAction) {
        match action {
            HostAction::Learn { mac, at, ip } => self.learn_host(fabric, mac, at, ip),
            HostAction::Bind { mac, at, ip, instead } => bind_address(fabric, mac, at, ip, instead),
            HostAction::Unbind { mac, at, ip } => unbind_address(fabric, mac, at, ip),
            HostAction::Move { mac, from, to, why } => self.move_host(fabric, mac, from, to, why),
            HostAction::Forget { mac, at } => forget_host(fabric, mac, at),
            HostAction::Find { mac, at, named } => {
                let asker = fabric.ctx.shard();
                fabric.ctx.send_to_shard_of(at.switch, EngineMessage::FindHost(FindHost { mac, at, named, asker }))
            }
            HostAction::ReportSearch { to, mac, at, found } => {
                fabric.ctx.send_to_shard(to, EngineMessage::HostSearched { mac, at, found })
            }
            HostAction::Emit { at, frame } => emit_probe(fabric, at, frame),
            HostAction::Count { at, mac } => self.count_host_packets(fabric, at, mac),
            HostAction::Guard { at, on } => guard_port(fabric, at, on),
            HostAction::Mute { mac, at, on } => {
                fabric.change_host_rules(at.switch, |rules| rules.set_muted(at.port, mac, on));
            }
            HostAction::Wake(time, timer) => fabric.ctx.wake_at(time, timer),
            HostAction::Report(report) => fabric.ctx.report(report),
        }
    }

    /// Searches for a host at a switch of this shard, for another shard.
    pub fn find_host(&mut self, fabric: &mut Fabric, question: FindHost) {
        let state = fabric.ctx.store.snapshot();
        if fabric.switches.contains_key(&question.at.switch) {
            self.with_hosts(fabric, |hosts, now, actions| hosts.on_find(now, &state, question, actions));
        }
    }

    /// Takes the result of a search that another shard made for a host.
    pub fn on_host_searched(&mut self, fabric: &mut Fabric, mac: Mac, at: Location, found: SearchResult) {
        self.with_hosts(fabric, |hosts, now, actions| hosts.on_found(now, mac, at, found, actions));
    }

    fn learn_host(&mut self, fabric: &mut Fabric, mac: Mac, at: Location, ip: Option<IpAddr>) {
        let mut new = false;
        fabric.ctx.write(|state| {
            let facts = state.facts();
            let addresses: Vec<IpAddr> = ip.into_iter().chain(facts.addresses(mac)).collect();
            let is_edge = state.port(at).is_some_and(|port| port.kind == PortKind::Edge);
            new = is_edge && state.host(mac).is_none() && facts.place(mac).is_none_or(|place| place == at);
            let info = HostInfo { location: at, ipv4: BTreeSet::new(), ipv6: BTreeSet::new() };
            if new { with_addresses(state, mac, info, &addresses) } else { Vec::new() }
        });
        if new {
            fabric.ctx.report(Report::HostFound { mac, at });
        } else {
            self.hosts.on_departure(mac, at);
        }
    }

    fn move_host(&mut self, fabric: &mut Fabric, mac: Mac, from: Location, to: Location, why: MoveReason) {
        let mut moved = false;
        fabric.ctx.write(|state| {
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
        if moved {
            fabric.ctx.report(Report::HostMoved { mac, from, to, why });
            self.note_host_move(fabric, mac, from, to);
        }
    }

    /// Asks a switch for the counters of the rules of a port's hosts, or of one host.
    fn count_host_packets(&mut self, fabric: &mut Fabric, at: Location, mac: Option<Mac>) {
        let Some(switch) = fabric.switches.known(at.switch) else { return };
        if switch.is_unreachable() {
            // The switch cannot be asked. A host that is searched for is taken for silent; none is aged.
            if let Some(mac) = mac {
                self.with_hosts(fabric, |hosts, now, actions| hosts.on_search_count(now, mac, None, actions));
            }
            return;
        }
        let table_id = if switch.has_pipeline() { CLASSIFIER } else { ALL_TABLES };
        let at_port = Match::any().with(from_port(at.port));
        let matching = mac.iter().fold(at_port, |all, mac| all.exact(Field::EthSrc, mac.bits()));
        let request = FlowStatsRequest { table_id, matching, ..FlowStatsRequest::all() };
        let body = if mac.is_some() { RequestBody::Aggregate(request) } else { RequestBody::Flow(request) };
        let Some(effect) = fabric.switches.effect(at.switch, Message::StatsRequest(StatsRequest::new(body))) else {
            return;
        };
        if let Effect::Send { xid, .. } = &effect {
            self.hosts.on_counting(*xid, at, mac);
        }
        fabric.ctx.add_after_rules(effect);
    }

    /// Tells the switches to copy what hosts announce, once something depends on the addresses of hosts.
    pub fn update_copied_announcements(&mut self, fabric: &mut Fabric) {
        let kinds = fabric.ctx.store.address_kinds();
        if kinds == self.address_kinds || !fabric.ctx.options.track_hosts {
            return;
        }
        self.address_kinds = kinds;
        let all: Vec<Dpid> = fabric.switches.keys().copied().collect();
        all.into_iter().for_each(|dpid| fabric.change_host_rules(dpid, |rules| rules.set_kinds(kinds)));
        let state = fabric.ctx.store.snapshot();
        let others: BTreeSet<ShardId> = state.switches().map(|(_, info)| info.shard).collect();
        let me = fabric.ctx.shard();
        others
            .into_iter()
            .filter(|to| *to != me)
            .for_each(|to| fabric.ctx.send_to_shard(to, EngineMessage::AddressesAreRead));
    }
}

fn bind_address(fabric: &mut Fabric, mac: Mac, at: Location, ip: IpAddr, instead: Option<IpAddr>) {
    fabric.ctx.write(|state| {
        let facts = state.facts();
        let is_anothers = facts.owner(ip).is_some_and(|owner| owner != mac);
        let host = state.host(mac).filter(|host| host.location == at && !is_anothers);
        let Some(host) = host else { return Vec::new() };
        let instead = instead.filter(|old| facts.owner(*old) != Some(mac));
        let mut info = host.clone();
        instead.iter().for_each(|old| info.remove(*old));
        with_addresses(state, mac, info, &[ip])
    });
}

fn unbind_address(fabric: &mut Fabric, mac: Mac, at: Location, ip: IpAddr) {
    fabric.ctx.write(|state| {
        let is_declared = state.facts().owner(ip) == Some(mac);
        let owns = |host: &&HostInfo| !is_declared && host.location == at && host.addresses().any(|own| own == ip);
        let Some(host) = state.host(mac).filter(owns) else { return Vec::new() };
        let mut info = host.clone();
        info.remove(ip);
        vec![Write::Host { mac, info: Some(info) }]
    });
}

fn forget_host(fabric: &mut Fabric, mac: Mac, at: Location) {
    let mut gone = false;
    fabric.ctx.write(|state| {
        gone = state.host(mac).is_some_and(|host| host.location == at);
        if gone { vec![Write::Host { mac, info: None }] } else { Vec::new() }
    });
    if gone {
        fabric.ctx.stats.hosts_aged += 1;
        fabric.ctx.report(Report::HostLost { mac, at });
    }
}

fn emit_probe(fabric: &mut Fabric, at: Location, data: Vec<u8>) {
    let actions = vec![Action::output(at.port)];
    let message = PacketOut { buffer_id: NO_BUFFER, in_port: PortNo::CONTROLLER, actions, data };
    fabric.switches.send(&mut fabric.ctx, at.switch, Message::PacketOut(message));
}

fn guard_port(fabric: &mut Fabric, at: Location, on: bool) {
    fabric.ctx.stats.port_guards += u64::from(on);
    fabric.change_host_rules(at.switch, |rules| rules.set_guard(at.port, on));
}

/// Returns the writes that give a host these addresses and take them from their former owners.
pub(in crate::engine) fn with_addresses(
    state: &Snapshot,
    mac: Mac,
    mut info: HostInfo,
    addresses: &[IpAddr],
) -> Vec<Write> {
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
