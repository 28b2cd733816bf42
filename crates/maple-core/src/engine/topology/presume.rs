//! The topology as an earlier run knew it, presumed to be true until discovery says otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use maple_wire::Dpid;

use super::segments::may_be_edge;
use crate::engine::context::Context;
use crate::engine::context::options::Options;
use crate::engine::topology::segments::may_be_joined;
use crate::memory::Surroundings;
use crate::network::{HostInfo, Location, Mac, PortInfo, PortKind};
use crate::report::Report;
use crate::state::{Snapshot, Write};

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
        let presumed = Presumed::of(earlier, state, options);
        reports = presumed.reports;
        let port = |(at, kind)| Write::Port { at, info: Some(PortInfo { up: true, kind }) };
        let host = |(mac, info)| Write::Host { mac, info: Some(info) };
        presumed.ports.into_iter().map(port).chain(presumed.hosts.into_iter().map(host)).collect()
    });
    ctx.apply_commit(commit);
    reports.into_iter().for_each(|report| ctx.report(report));
}

/// The presumptions about ports and hosts. Switches that left at different times may say different things about one
/// port, or one host: the first counts.
#[derive(Default)]
struct Presumed {
    ports: BTreeMap<Location, PortKind>,
    hosts: BTreeMap<Mac, HostInfo>,
    reports: Vec<Report>,
}

impl Presumed {
    fn of(earlier: &Surroundings, state: &Snapshot, options: &Options) -> Presumed {
        let mut presumed = Presumed::default();
        presumed.add_links(earlier, state);
        presumed.add_edges(earlier, state, options);
        if options.track_hosts {
            presumed.add_hosts(earlier, state);
        }
        presumed
    }

    fn add_links(&mut self, earlier: &Surroundings, state: &Snapshot) {
        let may_be_end = |at: &Location| is_new(state, *at) && may_be_joined(state.facts(), *at);
        for (a, b) in &earlier.links {
            if a != b && [a, b].into_iter().all(|at| may_be_end(at) && !self.ports.contains_key(at)) {
                self.ports.extend([(*a, PortKind::Link(*b)), (*b, PortKind::Link(*a))]);
                self.reports.push(Report::LinkUp(*a.min(b), *a.max(b)));
            }
        }
    }

    fn add_edges(&mut self, earlier: &Surroundings, state: &Snapshot, options: &Options) {
        let may_be = |at: &&Location| is_new(state, **at) && may_be_edge(state.facts(), **at);
        for at in earlier.edges.iter().filter(may_be) {
            let is_middlebox = options.middleboxes.contains(at);
            self.ports.entry(*at).or_insert(if is_middlebox { PortKind::Middlebox } else { PortKind::Edge });
        }
    }

    /// Adds hosts at edge ports that are not known yet, with the addresses that nobody else has.
    fn add_hosts(&mut self, earlier: &Surroundings, state: &Snapshot) {
        let facts = state.facts();
        let mut owned: BTreeSet<IpAddr> = BTreeSet::new();
        for (mac, info) in &earlier.hosts {
            let may_be_there = facts.place(*mac).is_none_or(|place| place == info.location);
            let is_known = state.host(*mac).is_some() || self.hosts.contains_key(mac);
            if is_known || !may_be_there || !self.is_edge(state, info.location) {
                continue;
            }
            let mut info = info.clone();
            facts.addresses(*mac).for_each(|ip| info.insert(ip));
            let mut is_own = |ip: IpAddr| {
                let may_be = facts.owner(ip).is_none_or(|owner| owner == *mac);
                may_be && state.host_by_ip(ip).is_none() && owned.insert(ip)
            };
            info.ipv4.retain(|ip| is_own((*ip).into()));
            info.ipv6.retain(|ip| is_own((*ip).into()));
            self.reports.push(Report::HostFound { mac: *mac, at: info.location });
            self.hosts.insert(*mac, info);
        }
    }

    fn is_edge(&self, state: &Snapshot, at: Location) -> bool {
        match self.ports.get(&at) {
            Some(kind) => *kind == PortKind::Edge,
            None => state.port(at) == Some(PortInfo { up: true, kind: PortKind::Edge }),
        }
    }
}

fn is_new(state: &Snapshot, at: Location) -> bool {
    state.port(at) == Some(PortInfo { up: true, kind: PortKind::New })
}
