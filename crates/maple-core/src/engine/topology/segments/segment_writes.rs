//! The writes that form and dissolve segments. They are pure functions of a snapshot; `topology/mod.rs` and
//! `segments/mod.rs` commit them.

use std::collections::{BTreeMap, BTreeSet};

use maple_wire::{Dpid, PortNo};

use crate::engine::one_switch::ports::{FIRST_VIRTUAL, is_virtual};
use crate::network::{Facts, HostInfo, Location, Mac, PortInfo, PortKind, PortRole};
use crate::state::{Snapshot, Write};

/// Returns the writes that make these ports, which are up, one segment. The ports in `gone` leave their segments. If
/// none of the ports may be an edge port, there is no segment: all are new.
pub(in crate::engine) fn form(state: &Snapshot, ports: &BTreeSet<Location>, gone: &BTreeSet<Location>) -> Vec<Write> {
    let facts = state.facts();
    let old: Vec<Segment> = segments_of(state, ports.iter().chain(gone));
    let is_designated = |at: &&Location| old.iter().any(|segment| segment.designated == **at);
    let open: BTreeSet<Location> = ports.iter().copied().filter(|at| may_be_designated(facts, *at)).collect();
    let Some(designated) = open.iter().find(is_designated).or(open.first()).copied() else {
        return separate(state, &old, ports);
    };
    if let [same] = &old[..]
        && same.designated == designated
        && same.members() == *ports
    {
        return Vec::new();
    }
    let mut edit = TopologyEdit::new(state);
    for segment in &old {
        segment.end(&mut edit);
    }
    let members: BTreeSet<Location> = old.iter().flat_map(Segment::members).chain(ports.iter().copied()).collect();
    for at in ports {
        if let Some(PortInfo { kind: PortKind::Link(peer), .. }) = state.port(*at) {
            edit.make_new(peer);
        }
    }
    let mut reached = BTreeSet::from([designated.switch]);
    for at in ports.iter().filter(|at| **at != designated) {
        let link = reached.insert(at.switch).then(|| edit.link(at.switch, designated.switch));
        edit.put(*at, PortKind::Shut { with: designated, link });
    }
    edit.put(designated, PortKind::Edge);
    for at in members.iter().filter(|at| **at != designated) {
        edit.move_hosts(*at, designated);
    }
    edit.writes()
}

/// Reports whether a segment's hosts may enter and leave by this port: only if no role is declared for it.
pub(super) fn may_be_designated(facts: &Facts, at: Location) -> bool {
    facts.role(at) == PortRole::Any
}

/// Returns the writes that end the links of these ports, and the segments in `old`.
fn separate(state: &Snapshot, old: &[Segment], ports: &BTreeSet<Location>) -> Vec<Write> {
    let mut edit = TopologyEdit::new(state);
    old.iter().for_each(|segment| segment.end(&mut edit));
    for at in ports {
        if let Some(PortInfo { kind: PortKind::Link(peer), .. }) = state.port(*at) {
            edit.make_new(*at);
            edit.make_new(peer);
        }
    }
    edit.writes()
}

/// Returns the writes that remove these ports from their segments. They become new ports.
pub(in crate::engine) fn leave(state: &Snapshot, gone: &BTreeSet<Location>) -> Vec<Write> {
    let mut writes = Vec::new();
    for segment in segments_of(state, gone.iter()) {
        let left: BTreeSet<Location> = segment.members().difference(gone).copied().collect();
        if left.len() > 1 {
            writes.extend(form(state, &left, &(&segment.members() & gone)));
        } else {
            let mut edit = TopologyEdit::new(state);
            segment.end(&mut edit);
            writes.extend(edit.writes());
        }
    }
    writes
}

/// Returns the writes that end the links and segments of these ports. The ports become new ports, and so do those at
/// the other ends. Hosts stay where they are.
pub(in crate::engine) fn disjoin(state: &Snapshot, ports: &BTreeSet<Location>) -> Vec<Write> {
    let mut edit = TopologyEdit::new(state);
    segments_of(state, ports.iter()).iter().for_each(|segment| segment.end(&mut edit));
    for at in ports {
        edit.make_new(*at);
        if let Some(PortInfo { kind: PortKind::Link(peer), .. }) = state.port(*at)
            && state.port(peer).is_some_and(|port| port.kind == PortKind::Link(*at))
        {
            edit.make_new(peer);
        }
    }
    edit.writes()
}

/// Returns the segments of these ports, each once.
pub(super) fn segments_of<'a>(state: &Snapshot, ports: impl Iterator<Item = &'a Location>) -> Vec<Segment> {
    let mut found: BTreeMap<Location, Segment> = BTreeMap::new();
    for at in ports {
        if let Some(segment) = Segment::containing(state, *at) {
            found.insert(segment.designated, segment);
        }
    }
    found.into_values().collect()
}

/// A segment as the state has it.
pub(super) struct Segment {
    pub(super) designated: Location,
    /// The other ports, each with its switch's end of a link through the controller, if it is the port that carries it.
    pub(super) shut: BTreeMap<Location, Option<PortNo>>,
}

impl Segment {
    /// Returns the segment that a port is on.
    pub(super) fn containing(state: &Snapshot, at: Location) -> Option<Segment> {
        let designated = match state.port(at)?.kind {
            PortKind::Shut { with, .. } => with,
            PortKind::Edge => at,
            _ => return None,
        };
        // The other ports are at switches with a link through the controller to this one.
        let far = |(port, _): (PortNo, PortInfo)| {
            let end = Location::new(designated.switch, port);
            is_virtual(port).then(|| state.peer(end)).flatten().map(|peer| peer.switch)
        };
        let switches: BTreeSet<Dpid> =
            state.ports_of(designated.switch).filter_map(far).chain([designated.switch, at.switch]).collect();
        let mut shut = BTreeMap::new();
        for dpid in switches {
            for (port, info) in state.ports_of(dpid) {
                if let PortKind::Shut { with, link } = info.kind
                    && with == designated
                {
                    shut.insert(Location::new(dpid, port), link);
                }
            }
        }
        (!shut.is_empty()).then_some(Segment { designated, shut })
    }

    /// Returns the ports on the segment.
    pub(super) fn members(&self) -> BTreeSet<Location> {
        self.shut.keys().copied().chain([self.designated]).collect()
    }

    /// Dissolves the segment: its ports are new, and its links through the controller are gone.
    fn end(&self, edit: &mut TopologyEdit<'_>) {
        for (at, link) in &self.shut {
            edit.make_new(*at);
            if let Some(port) = link {
                edit.unlink(Location::new(at.switch, *port));
            }
        }
        edit.make_new(self.designated);
    }
}

/// An edit of the state: the ports and hosts as they are to be.
pub(super) struct TopologyEdit<'a> {
    state: &'a Snapshot,
    facts: &'a Facts,
    ports: BTreeMap<Location, Option<PortInfo>>,
    hosts: BTreeMap<Mac, Option<HostInfo>>,
}

impl<'a> TopologyEdit<'a> {
    fn new(state: &'a Snapshot) -> TopologyEdit<'a> {
        TopologyEdit { state, facts: state.facts(), ports: BTreeMap::new(), hosts: BTreeMap::new() }
    }

    /// Sets the kind of a port that exists.
    fn put(&mut self, at: Location, kind: PortKind) {
        if let Some(info) = self.state.port(at) {
            self.ports.insert(at, Some(PortInfo { kind, ..info }));
        }
    }

    fn make_new(&mut self, at: Location) {
        self.put(at, PortKind::New);
    }

    /// Removes a link through the controller.
    fn unlink(&mut self, end: Location) {
        if let Some(PortInfo { kind: PortKind::Link(far), .. }) = self.state.port(end) {
            self.ports.insert(far, None);
        }
        self.ports.insert(end, None);
    }

    /// Adds a link through the controller. Returns its end at the first switch.
    fn link(&mut self, a: Dpid, b: Dpid) -> PortNo {
        let [near, far] = [a, b].map(|dpid| Location::new(dpid, self.free(dpid)));
        for (end, other) in [(near, far), (far, near)] {
            self.ports.insert(end, Some(PortInfo { up: true, kind: PortKind::Link(other) }));
        }
        near.port
    }

    /// Finds a free number for a virtual port of the switch.
    fn free(&self, dpid: Dpid) -> PortNo {
        let is_taken = |port: &PortNo| {
            let at = Location::new(dpid, *port);
            self.ports.get(&at).copied().unwrap_or_else(|| self.state.port(at)).is_some()
        };
        let mut numbers = (FIRST_VIRTUAL..).map(PortNo);
        numbers.find(|port| !is_taken(port)).unwrap_or(PortNo(FIRST_VIRTUAL))
    }

    /// Moves the hosts of a port to another port. A host with another fixed place is lost.
    fn move_hosts(&mut self, from: Location, to: Location) {
        for mac in self.state.hosts_at(from) {
            if let Some(host) = self.state.host(mac) {
                let may_move = self.facts.place(mac).is_none_or(|place| place == to);
                self.hosts.insert(mac, may_move.then(|| HostInfo { location: to, ..host.clone() }));
            }
        }
    }

    /// Returns the differences from the state, links last.
    fn writes(self) -> Vec<Write> {
        let state = self.state;
        let mut ports: Vec<(Location, Option<PortInfo>)> =
            self.ports.into_iter().filter(|(at, info)| state.port(*at) != *info).collect();
        ports.sort_by_key(|(_, info)| matches!(info, Some(PortInfo { kind: PortKind::Link(_), .. })));
        let ports = ports.into_iter().map(|(at, info)| Write::Port { at, info });
        ports.chain(self.hosts.into_iter().map(|(mac, info)| Write::Host { mac, info })).collect()
    }
}
