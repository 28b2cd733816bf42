//! What an earlier run knew of the topology, presumed to be true until discovery says otherwise.

use crate::engine::context::Context;
use crate::engine::topology::may_be_edge;
use crate::engine::topology::segments::may_be_joined;
use crate::network::{HostInfo, Location, Mac, PortInfo, PortKind};
use crate::remembered::Surroundings;
use crate::report::Report;
use crate::state::Write;
use maple_wire::Dpid;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Presumes that what an earlier run knew is still true, where this run knows nothing yet.
pub(in crate::engine) fn presume(ctx: &mut Context, earlier: &Surroundings, switches: BTreeSet<Dpid>) {
    ctx.store.change_restoring(|all| {
        all.unread.extend(&switches);
        all.unconfirmed.extend(&switches);
        all.undecided.extend(&switches);
        all.asking.extend(switches);
    });
    let mut reports = Vec::new();
    let options = &ctx.options;
    let commit = ctx.store.update(|state| {
        reports.clear();
        let facts = state.facts();
        // Switches that left at different times may report different things about one port, or one host.
        let mut ports: BTreeMap<Location, PortKind> = BTreeMap::new();
        let is_new = |at: &Location| state.port(*at) == Some(PortInfo { up: true, kind: PortKind::New });
        for (a, b) in &earlier.links {
            let is_free = |at: &Location| is_new(at) && may_be_joined(facts, *at);
            if a != b && [a, b].into_iter().all(|at| is_free(at) && !ports.contains_key(at)) {
                ports.extend([(*a, PortKind::Link(*b)), (*b, PortKind::Link(*a))]);
                reports.push(Report::LinkUp(*a.min(b), *a.max(b)));
            }
        }
        for at in earlier.edges.iter().filter(|at| is_new(at) && may_be_edge(facts, **at)) {
            let is_middlebox = options.middleboxes.contains(at);
            ports.entry(*at).or_insert(if is_middlebox { PortKind::Middlebox } else { PortKind::Edge });
        }
        let mut hosts: BTreeMap<Mac, HostInfo> = BTreeMap::new();
        let mut owned: BTreeSet<IpAddr> = BTreeSet::new();
        for (mac, info) in earlier.hosts.iter().filter(|_| options.track_hosts) {
            let is_free = state.host(*mac).is_none()
                && !hosts.contains_key(mac)
                && facts.place(*mac).is_none_or(|place| place == info.location);
            let is_edge = match ports.get(&info.location) {
                Some(kind) => *kind == PortKind::Edge,
                None => state.port(info.location) == Some(PortInfo { up: true, kind: PortKind::Edge }),
            };
            if is_free && is_edge {
                let mut info = info.clone();
                facts.addresses(*mac).for_each(|ip| info.insert(ip));
                let mut is_own = |ip: IpAddr| {
                    let may_be = facts.owner(ip).is_none_or(|owner| owner == *mac);
                    may_be && state.host_by_ip(ip).is_none() && owned.insert(ip)
                };
                info.ipv4.retain(|ip| is_own((*ip).into()));
                info.ipv6.retain(|ip| is_own((*ip).into()));
                reports.push(Report::HostFound { mac: *mac, at: info.location });
                hosts.insert(*mac, info);
            }
        }
        let port = |(at, kind)| Write::Port { at, info: Some(PortInfo { up: true, kind }) };
        let host = |(mac, info)| Write::Host { mac, info: Some(info) };
        ports.into_iter().map(port).chain(hosts.into_iter().map(host)).collect()
    });
    ctx.apply_commit(commit);
    reports.into_iter().for_each(|report| ctx.report(report));
}
