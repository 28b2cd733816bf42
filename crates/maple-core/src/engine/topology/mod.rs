//! Switches, ports and links: events become writes of tracked state. Everything else follows from those writes through
//! dependencies.

pub(super) mod admission;
pub(super) mod declare;
pub(super) mod find_moved;
pub(super) mod host_actions;
pub(super) mod hosts;
pub(super) mod last_moves;
pub(super) mod link_port;
pub(super) mod new_port;
pub(super) mod packet_in;
pub(super) mod presume;
pub(super) mod refresh;
pub(super) mod segments;

use std::collections::{BTreeMap, BTreeSet};

use maple_wire::msg::{PortReason, PortStatus};
use maple_wire::{Dpid, Port, Version};

use crate::capabilities::{Capabilities, SwitchModel};
use crate::engine::context::options::Options;
use crate::engine::fabric::Fabric;
use crate::engine::messages::event::Effect;
use crate::engine::one_switch::ports::{is_physical, is_virtual};
use crate::engine::one_switch::{Stale, Switch};
use crate::engine::switches::measure::speed;
use crate::network::{Location, Mac, PortInfo, PortKind, PortRole};
use crate::report::Report;
use crate::state::{AddressKinds, Snapshot, SwitchInfo, Write};
use hosts::Hosts;
use last_moves::LastMoves;
use segments::{form, has_hosts_between, is_declared_link, leave, may_be_edge, may_be_joined};

/// The hosts and their moves, as far as this shard knows more of them than the tracked state does.
pub(super) struct Topology {
    pub hosts: Hosts,
    pub moves: LastMoves,
    /// The kinds of addresses that some leaf or query depends on.
    pub address_kinds: AddressKinds,
}

impl Topology {
    /// Creates the topology of a shard that has seen no host.
    pub fn new(options: &Options) -> Topology {
        Topology { hosts: Hosts::new(options), moves: LastMoves::default(), address_kinds: AddressKinds::default() }
    }

    /// Returns a copy that knows of no host what the state does not say.
    pub fn copy(&self, options: &Options) -> Topology {
        Topology { address_kinds: self.address_kinds, ..Topology::new(options) }
    }

    /// Handles the connection of a switch.
    pub(super) fn on_switch_up(&mut self, fabric: &mut Fabric, dpid: Dpid, capabilities: Capabilities, ports: &[Port]) {
        let version = capabilities.version;
        fabric.ctx.store.note_model(fabric.ctx.now(), dpid, SwitchModel::from_capabilities(&capabilities));
        let mut switch = Switch::new(dpid, capabilities, &fabric.ctx.options);
        switch.ports.host_rules.set_kinds(self.address_kinds);
        switch.ports.set_addresses(ports.iter().map(|port| (port.number, Mac(port.hw_addr))));
        if !switch.layout().look_ups().is_empty() {
            fabric.ctx.store.keep_look_ups(dpid, switch.ingress.look_ups.registers());
        }
        fabric.switches.insert(dpid, switch);
        let shard = fabric.ctx.shard();
        fabric.ctx.write(|state| {
            let mut writes = switch_removal(state, dpid);
            writes.push(Write::Switch { dpid, info: Some(SwitchInfo { shard, version }) });
            writes.extend(ports.iter().filter(|port| is_physical(port.number)).map(|port| new_port(dpid, port)));
            // What was known of its ports is removed by the first writes.
            writes.extend(ports.iter().filter_map(|port| new_speed(&Snapshot::default(), dpid, version, port)));
            writes
        });
        fabric.ctx.report(Report::SwitchUp(dpid));
        fabric.mark_stale(dpid, Stale::ALL);
        fabric.ctx.add_effect(Effect::ReadRules { dpid });
        fabric.switches.plan_first_audit(&mut fabric.ctx, dpid);
    }

    /// Removes a switch that is gone, with all that is known of its hosts and ports.
    pub(super) fn on_switch_gone(&mut self, fabric: &mut Fabric, dpid: Dpid) {
        self.hosts.forget_switch(dpid);
        // The switch may already be connected to another shard. What that shard has written stays.
        let shard = fabric.ctx.shard();
        let hosts = lost_hosts(fabric, ports_of(fabric, dpid));
        let mut is_ours = false;
        fabric.ctx.write(|state| {
            is_ours = state.shard_of(dpid) == Some(shard);
            if is_ours { switch_removal(state, dpid) } else { Vec::new() }
        });
        if is_ours {
            fabric.ctx.report(Report::SwitchDown(dpid));
            hosts.into_iter().for_each(|host| fabric.ctx.report(host));
        }
    }

    /// Handles the change of a port: what was behind a port that went down or is deleted is taken back.
    pub(super) fn on_port_status(fabric: &mut Fabric, dpid: Dpid, status: &PortStatus) {
        let Some(switch) = fabric.switches.get_mut(&dpid).filter(|_| is_physical(status.port.number)) else { return };
        switch.ports.set_address(status.port.number, Mac(status.port.hw_addr));
        let version = switch.version();
        let at = Location::new(dpid, status.port.number);
        let deleted = status.reason == PortReason::Delete;
        let peer = fabric.ctx.store.snapshot().peer(at);
        let hosts = if deleted { lost_hosts(fabric, [at]) } else { Vec::new() };
        if deleted || fabric.ctx.store.snapshot().port(at).is_some_and(|port| port.up != status.port.is_up()) {
            Topology::forget_new_port_packets(fabric, at);
        }
        let up = status.port.is_up();
        fabric.ctx.write(|state| {
            let old = state.port(at);
            if deleted {
                return port_detachment(state, at)
                    .into_iter()
                    .chain(host_removals(state, at))
                    .chain([port_removal(at)])
                    .collect();
            }
            let speed = new_speed(state, dpid, version, &status.port);
            match old {
                Some(info) if info.up == up => speed.into_iter().collect(),
                // Something else may be behind the port now.
                _ => {
                    let info = Some(PortInfo { up, kind: PortKind::New });
                    port_detachment(state, at).into_iter().chain([Write::Port { at, info }]).chain(speed).collect()
                }
            }
        });
        hosts.into_iter().for_each(|host| fabric.ctx.report(host));
        if let Some(peer) = peer.filter(|_| fabric.ctx.store.snapshot().peer(at).is_none()) {
            fabric.ctx.report(Report::LinkDown(at.min(peer), at.max(peer)));
        }
    }

    /// Handles a link that discovery found, unless it is known or one of its ends may not be a link port.
    pub(super) fn on_link_up(fabric: &mut Fabric, a: Location, b: Location) {
        if a == b || fabric.ctx.store.snapshot().peer(a) == Some(b) {
            return;
        }
        let hosts = lost_hosts(fabric, [a, b]);
        let mut linked = false;
        fabric.ctx.write(|state| {
            let facts = state.facts();
            let may_be_link = |at| state.port(at).is_some_and(|port| port.up) && may_be_joined(facts, at);
            // Both ends may be heard at once, by two shards.
            if !may_be_link(a) || !may_be_link(b) || state.peer(a) == Some(b) {
                return Vec::new();
            }
            if has_hosts_between(state, a, b) && !is_declared_link(facts, a, b) {
                return form(state, &[a, b].into(), &BTreeSet::new());
            }
            linked = true;
            let mut writes = leave(state, &[a, b].into());
            for (at, peer) in [(a, b), (b, a)] {
                writes.extend(link_removal(state, at));
                writes.extend(host_removals(state, at));
                writes.push(Write::Port { at, info: Some(PortInfo { up: true, kind: PortKind::Link(peer) }) });
            }
            writes.sort_by_key(
                |write| matches!(write, Write::Port { info: Some(info), .. } if info.kind != PortKind::New),
            );
            writes
        });
        if linked {
            fabric.ctx.report(Report::LinkUp(a.min(b), a.max(b)));
            hosts.into_iter().for_each(|host| fabric.ctx.report(host));
        }
    }

    /// Handles the end of a link.
    pub(super) fn on_link_down(fabric: &mut Fabric, a: Location, b: Location) {
        let mut unlinked = false;
        fabric.ctx.write(|state| {
            let linked = |at, to| state.port(at).is_some_and(|port| port.kind == PortKind::Link(to));
            unlinked = linked(a, b) || linked(b, a);
            // A link with hosts in between is a segment.
            if !unlinked {
                return leave(state, &[a].into());
            }
            link_removal(state, a).into_iter().chain(link_removal(state, b)).collect()
        });
        if unlinked {
            fabric.ctx.report(Report::LinkDown(a.min(b), a.max(b)));
        }
    }

    /// Handles a port behind which discovery found no switch.
    pub(super) fn on_edge_port(fabric: &mut Fabric, at: Location) {
        let is_middlebox = fabric.ctx.options.middleboxes.contains(&at);
        let kind = if is_middlebox { PortKind::Middlebox } else { PortKind::Edge };
        fabric.ctx.write(|state| match state.port(at) {
            Some(PortInfo { up, kind: PortKind::New }) if may_be_edge(state.facts(), at) => {
                vec![Write::Port { at, info: Some(PortInfo { up, kind }) }]
            }
            _ => Vec::new(),
        });
    }

    /// Handles an edge port of which discovery has come to doubt that it is one.
    pub(super) fn on_new_port(fabric: &mut Fabric, at: Location) {
        let hosts = lost_hosts(fabric, [at]);
        let mut changed = false;
        fabric.ctx.write(|state| match state.port(at) {
            Some(PortInfo { up, kind: PortKind::Edge }) if state.facts().role(at) != PortRole::Edge => {
                changed = true;
                let make_new = Write::Port { at, info: Some(PortInfo { up, kind: PortKind::New }) };
                host_removals(state, at).into_iter().chain([make_new]).collect()
            }
            _ => Vec::new(),
        });
        if changed {
            hosts.into_iter().for_each(|host| fabric.ctx.report(host));
        }
    }
}

/// Returns the reports that the hosts at these ports are lost, in the order of their addresses.
fn lost_hosts(fabric: &Fabric, gone: impl IntoIterator<Item = Location>) -> Vec<Report> {
    let state = fabric.ctx.store.snapshot();
    let at_port = |at: Location| state.hosts_at(at).map(move |mac| (mac, at)).collect::<Vec<_>>();
    let lost: BTreeMap<Mac, Location> = gone.into_iter().flat_map(at_port).collect();
    lost.into_iter().map(|(mac, at)| Report::HostLost { mac, at }).collect()
}

fn ports_of(fabric: &Fabric, dpid: Dpid) -> Vec<Location> {
    fabric.ctx.store.snapshot().ports_of(dpid).map(|(port, _)| Location::new(dpid, port)).collect()
}

fn new_port(dpid: Dpid, port: &Port) -> Write {
    let info = PortInfo { up: port.is_up(), kind: PortKind::New };
    Write::Port { at: Location::new(dpid, port.number), info: Some(info) }
}

/// Returns the write for a port's speed, if it has changed.
fn new_speed(state: &Snapshot, dpid: Dpid, version: Version, port: &Port) -> Option<Write> {
    let at = Location::new(dpid, port.number);
    let speed = speed(version, port);
    let is_news = port.number.is_ordinary_or_local() && state.speed(at) != speed;
    is_news.then_some(Write::Speed { at, speed })
}

fn port_removal(at: Location) -> Write {
    Write::Port { at, info: None }
}

/// Returns the writes that remove a switch and everything at it.
fn switch_removal(state: &Snapshot, dpid: Dpid) -> Vec<Write> {
    let all: BTreeSet<Location> = state.ports_of(dpid).map(|(port, _)| Location::new(dpid, port)).collect();
    let mut writes = leave(state, &all);
    for (port, _) in state.ports_of(dpid).filter(|(port, _)| !is_virtual(*port)) {
        let at = Location::new(dpid, port);
        writes.extend(link_removal(state, at));
        writes.extend(host_removals(state, at));
        writes.push(port_removal(at));
    }
    if state.switch(dpid).is_some() {
        writes.push(Write::Switch { dpid, info: None });
    }
    writes
}

/// Returns the writes that end what is at a port: its link, or its membership of a segment.
fn port_detachment(state: &Snapshot, at: Location) -> Vec<Write> {
    link_removal(state, at).into_iter().chain(leave(state, &[at].into())).collect()
}

/// Returns the writes that end the link at a port. Both ends become new ports.
fn link_removal(state: &Snapshot, at: Location) -> Vec<Write> {
    let Some(PortInfo { kind: PortKind::Link(peer), .. }) = state.port(at) else { return Vec::new() };
    let ends = [(at, peer), (peer, at)];
    let still =
        |(end, other): &(Location, Location)| state.port(*end).is_some_and(|port| port.kind == PortKind::Link(*other));
    let make_new = |(end, _): (Location, Location)| {
        let up = state.port(end).is_some_and(|port| port.up);
        Write::Port { at: end, info: Some(PortInfo { up, kind: PortKind::New }) }
    };
    ends.into_iter().filter(still).map(make_new).collect()
}

fn host_removals(state: &Snapshot, at: Location) -> Vec<Write> {
    let gone = |mac: Mac| Write::Host { mac, info: None };
    state.hosts_at(at).map(gone).collect()
}

#[cfg(test)]
mod tests;
