//! What follows when a port, or a host at a port, has changed in the tracked state: rules of the classifier, labels, and
//! what is known of the hosts there.

use std::collections::BTreeSet;

use super::Topology;
use crate::engine::fabric::Fabric;
use crate::engine::one_switch::Stale;
use crate::network::{Location, Mac, PortKind};
use crate::state::Snapshot;

impl Topology {
    /// Handles a change of a port at this shard's switches: the classifier may have to change.
    pub fn refresh_port(&mut self, fabric: &mut Fabric, state: &Snapshot, at: Location) {
        let kind = state.port(at).map(|port| port.kind);
        fabric.mark_stale(at.switch, Stale::CLASSIFIER);
        fabric.forget_arrivals(at.switch);
        if !matches!(kind, Some(PortKind::Link(_))) {
            fabric.close_labels(at);
        }
        if kind != Some(PortKind::Edge) {
            self.hosts.forget_port(at);
        }
        Topology::note_link_port(fabric, state, at);
        update_port_host_rules(fabric, state, at);
        self.on_port_change(fabric, state, at);
    }

    /// Handles the arrival or the departure of a host at a port of this shard's switches.
    pub fn refresh_host(&mut self, fabric: &mut Fabric, state: &Snapshot, mac: Mac, at: Location) {
        if !is_at(state, mac, at) {
            self.hosts.on_departure(mac, at);
        } else if fabric.switches.contains_key(&at.switch) {
            self.with_hosts(fabric, |hosts, now, actions| hosts.on_arrival(now, state, mac, at, actions));
        }
        update_host_rules(fabric, state, mac, at);
    }
}

/// Updates the rules of a port's hosts. They have rules if and only if it is an edge port.
fn update_port_host_rules(fabric: &mut Fabric, state: &Snapshot, at: Location) {
    // What changed in the state may be that the switch has gone.
    let Some(switch) = fabric.switches.get_mut(&at.switch) else { return };
    if state.port(at).is_none_or(|port| port.kind != PortKind::Edge) {
        switch.ports.host_rules.set_guard(at.port, false);
    }
    let hosts: BTreeSet<Mac> = switch.ports.host_rules.at_port(at.port).into_iter().chain(state.hosts_at(at)).collect();
    hosts.into_iter().for_each(|mac| update_host_rules(fabric, state, mac, at));
}

fn update_host_rules(fabric: &mut Fabric, state: &Snapshot, mac: Mac, at: Location) {
    if fabric.ctx.options.track_hosts {
        let is_edge = state.port(at).is_some_and(|port| port.kind == PortKind::Edge);
        fabric.change_host_rules(at.switch, |rules| rules.set_host(at.port, mac, is_edge && is_at(state, mac, at)));
    }
}

fn is_at(state: &Snapshot, mac: Mac, at: Location) -> bool {
    state.host(mac).is_some_and(|host| host.location == at)
}
