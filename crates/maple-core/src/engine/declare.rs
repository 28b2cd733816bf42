//! Something else is declared of ports and hosts while the controller runs: a configuration that was read again.
//!
//! What is declared is part of the state, so that one commit changes it together with all that does not agree with it:
//!
//! * A port that may no longer be what it is becomes a new port, and so do those that it is joined with. Discovery tells
//!   afterwards again what it knows of ports ([`Event::Declare`](super::Event::Declare)).
//! * A host that may no longer be where it is, or that is at a port which may have no hosts, is forgotten.
//! * Hosts have the addresses that are declared for them, and no host has another's.
//!
//! Everything else follows through dependencies, as from any other change of ports and hosts. All decisions about ports
//! and hosts are made in commits, which see what is declared then. So it does not matter in which order shards hear of
//! it. What a shard keeps besides the state follows when it hears of it: maxima of hosts, rules for closed ports and for
//! hosts that are declared at a port where others flood.
//! A declaration that another one has overtaken changes nothing: a shard that is late would bring it back for a moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use maple_wire::{Constraint, Field};

use super::Engine;
use super::received_packet::from_port;
use super::segments::{disjoin, is_segments_port, is_virtual};
use super::switch::Stale;
use crate::network::{Facts, HostInfo, Location, Mac, PortKind, PortRole};
use crate::report::Report;
use crate::state::{Selection, Snapshot, Write};

impl Engine {
    /// Something else is declared from now on.
    pub(super) fn declare(&mut self, number: u64, facts: &Arc<Facts>) {
        let mut reports = Vec::new();
        let commit = self.store.update(|state| {
            // The first shard that hears of it does this for all.
            let is_done = state.facts_number() >= number;
            let writes = if is_done { Vec::new() } else { declaration(state, number, facts) };
            reports = told(state, &writes);
            writes
        });
        self.apply_commit(commit);
        reports.into_iter().for_each(|report| self.report(report));
        self.read_inbox();
        let state = self.store.snapshot();
        let facts = state.facts();
        self.options.facts = Arc::clone(facts);
        for (dpid, switch) in &mut self.switches {
            switch.host_rules.declare(facts.placed_at(*dpid).collect());
        }
        let dpids: Vec<_> = self.switches.keys().copied().collect();
        dpids.into_iter().for_each(|dpid| self.mark_dirty(dpid, Stale { classifier: true, ..Stale::default() }));
        let surplus = self.with_hosts(|hosts, _, actions| hosts.declare(&state, facts, actions));
        for (at, mac) in surplus {
            // With one table, rules of leaves let a host's packets pass, and f may say the same of a host that is not known.
            if self.switches.get(&at.switch).is_some_and(|switch| !switch.three_tables) {
                let source = Constraint::exact(Field::EthSrc, mac.bits());
                self.withdraw_selected(&Selection::Fields(vec![from_port(at.port), source]));
            }
        }
    }
}

/// The writes that declare this, with all that follows for ports and hosts.
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

/// Whether a port with this role may be what it is.
fn may_be(state: &Snapshot, role: PortRole, at: Location, kind: PortKind) -> bool {
    match kind {
        PortKind::New => true,
        PortKind::Edge => role == PortRole::Any || role == PortRole::Edge && !is_segments_port(state, at),
        PortKind::Middlebox => matches!(role, PortRole::Any | PortRole::Edge),
        PortKind::Link(_) | PortKind::Shared { .. } => matches!(role, PortRole::Any | PortRole::Link),
    }
}

/// The writes for hosts.
fn hosts(state: &Snapshot, facts: &Facts) -> Vec<Write> {
    let is_lost = |mac: Mac, at: Location| {
        facts.place(mac).is_some_and(|place| place != at) || matches!(facts.role(at), PortRole::Closed | PortRole::Link)
    };
    let of = |(mac, info): (&Mac, &HostInfo)| {
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
    state.hosts().filter_map(of).collect()
}

/// What people are told of these writes.
fn told(state: &Snapshot, writes: &[Write]) -> Vec<Report> {
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
