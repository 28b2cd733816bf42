//! Changes the declarations of ports and hosts while the controller runs, after a configuration was read again.
//!
//! Declarations are part of the state, so one commit changes them together with all that contradicts them:
//!
//! * A port whose kind contradicts its declared role becomes a new port, and so do the ports that it is joined with.
//!   Afterwards discovery reports again what it knows of ports ([`Event::Declare`](crate::engine::Event::Declare)).
//! * A host is forgotten if it is declared to be elsewhere, or if its port may have no hosts.
//! * Each host has the addresses that are declared for it, and none that is declared for another host.
//!
//! Everything else follows through dependencies, as from any other change of ports and hosts. All decisions about ports
//! and hosts are made in commits, which see the declarations of that moment. So shards may receive a declaration in any
//! order. What a shard keeps besides the state follows when the shard receives the declaration: maximum numbers of
//! hosts, rules for closed ports, and rules for hosts that are declared at a port where others flood. A declaration
//! that another one has overtaken changes nothing. Otherwise, a late shard would bring it back for a moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use maple_wire::{Constraint, Field};

use super::Topology;
use super::segments::{disjoin, is_segments_port};
use crate::engine::fabric::Fabric;
use crate::engine::messages::received_packet::from_port;
use crate::engine::one_switch::Stale;
use crate::engine::one_switch::ports::is_virtual;
use crate::network::{Facts, HostInfo, Location, Mac, PortKind, PortRole};
use crate::report::Report;
use crate::state::{LeafSelection, Snapshot, Write};

impl Topology {
    /// Declares ports and hosts, unless a later declaration has overtaken this one.
    pub fn declare(fabric: &mut Fabric, number: u64, facts: &Arc<Facts>) {
        let mut reports = Vec::new();
        fabric.ctx.write(|state| {
            // The first shard that receives the declaration does this for all.
            let is_done = state.facts_number() >= number;
            let writes = if is_done { Vec::new() } else { declaration(state, number, facts) };
            reports = reports_of(state, &writes);
            writes
        });
        reports.into_iter().for_each(|report| fabric.ctx.report(report));
    }

    /// Updates what this shard keeps besides the state, by the newest declaration. Returns the packets whose leaves are
    /// to be withdrawn.
    pub fn follow_declaration(&mut self, fabric: &mut Fabric) -> Vec<LeafSelection> {
        let state = fabric.ctx.store.snapshot();
        let facts = state.facts();
        fabric.ctx.options.facts = Arc::clone(facts);
        for (dpid, switch) in fabric.switches.iter_mut() {
            switch.ports.host_rules.declare(facts.placed_at(*dpid).collect());
        }
        let dpids: Vec<_> = fabric.switches.keys().copied().collect();
        for dpid in dpids {
            fabric.mark_stale(dpid, Stale::CLASSIFIER);
        }
        let surplus = self.with_hosts(fabric, |hosts, _, actions| hosts.declare(&state, facts, actions));
        // With one table, rules of leaves let a host's packets pass, and f may answer the same for a host that is not
        // known.
        let has_one_table = |at: Location| fabric.switches.get(&at.switch).is_some_and(|switch| !switch.has_pipeline());
        let leaves_from = |(at, mac): (Location, Mac)| {
            LeafSelection::Fields(vec![from_port(at.port), Constraint::exact(Field::EthSrc, mac.bits())])
        };
        surplus.into_iter().filter(|(at, _)| has_one_table(*at)).map(leaves_from).collect()
    }
}

/// Returns the writes that declare this, and those for all that follows for ports and hosts.
fn declaration(state: &Snapshot, number: u64, facts: &Arc<Facts>) -> Vec<Write> {
    let ports = state.switches().flat_map(|(dpid, _)| {
        let at = move |(port, info): (_, crate::network::PortInfo)| (Location::new(dpid, port), info.kind);
        state.ports_of(dpid).filter(|(port, _)| !is_virtual(*port)).map(at)
    });
    let wrong: BTreeSet<Location> =
        ports.filter(|(at, kind)| !may_be(state, facts.role(*at), *at, *kind)).map(|(at, _)| at).collect();
    let declared = Write::Facts { number, facts: Arc::clone(facts) };
    [declared].into_iter().chain(disjoin(state, &wrong)).chain(hosts(state, facts)).collect()
}

/// Reports whether a port with this role may be of this kind.
fn may_be(state: &Snapshot, role: PortRole, at: Location, kind: PortKind) -> bool {
    match kind {
        PortKind::New => true,
        PortKind::Edge => role == PortRole::Any || role == PortRole::Edge && !is_segments_port(state, at),
        PortKind::Middlebox => matches!(role, PortRole::Any | PortRole::Edge),
        PortKind::Link(_) | PortKind::Shut { .. } => matches!(role, PortRole::Any | PortRole::Link),
    }
}

/// Returns the writes that make hosts agree with the declaration.
fn hosts(state: &Snapshot, facts: &Facts) -> Vec<Write> {
    let is_lost = |mac: Mac, at: Location| {
        facts.place(mac).is_some_and(|place| place != at) || matches!(facts.role(at), PortRole::Closed | PortRole::Link)
    };
    let correction = |(mac, info): (&Mac, &HostInfo)| {
        let mac = *mac;
        if is_lost(mac, info.location) {
            return Some(Write::Host { mac, info: None });
        }
        let mut now = info.clone();
        let foreign = info.addresses().filter(|ip| facts.owner(*ip).is_some_and(|owner| owner != mac));
        foreign.for_each(|ip| now.remove(ip));
        facts.addresses(mac).for_each(|ip| now.insert(ip));
        (now != *info).then_some(Write::Host { mac, info: Some(now) })
    };
    state.hosts().filter_map(correction).collect()
}

/// Returns the reports of these writes, for people.
fn reports_of(state: &Snapshot, writes: &[Write]) -> Vec<Report> {
    let mut lost = BTreeMap::new();
    let mut links = BTreeSet::new();
    for write in writes {
        match write {
            Write::Host { mac, info: None } => lost.extend(state.host(*mac).map(|host| (*mac, host.location))),
            Write::Port { at, .. } if !is_virtual(at.port) => {
                links.extend(state.peer(*at).map(|peer| (*at.min(&peer), *at.max(&peer))));
            }
            _ => {}
        }
    }
    let links = links.into_iter().map(|(a, b)| Report::LinkDown(a, b));
    links.chain(lost.into_iter().map(|(mac, at)| Report::HostLost { mac, at })).collect()
}
