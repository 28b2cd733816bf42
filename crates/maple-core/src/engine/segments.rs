//! Segments: plain bridges and hubs that join several ports of our switches, perhaps with hosts among them.
//!
//! # What is sound there
//!
//! A bridge learns behind which of its ports an address is from the frames that pass. If two of our switches sent frames of
//! one host into it, it would believe the later one and drop what the other is to get; if two took in what a host on it
//! sends, f would run twice and the packet be delivered twice. So of a segment's ports exactly one, the *designated* one, is
//! an edge port: its hosts are there, and enter and leave the network by it. The others are shut ([`PortKind::Shared`]): the
//! switch drops what comes in but probes, and nothing is sent out. No packet comes back to the segment that it came from.
//!
//! That must not cut the network in two. Each switch with a shut port has a *link through the controller* with the
//! designated one's: a pair of ports of made-up numbers ([`PortNo`] from [`FIRST_VIRTUAL`] on). Paths and floods take it like any
//! other link. But no label leads over it (`engine/labels.rs` refuses it), so packets of routes that do go through the
//! controller, which sends them out of the egress ports: slow, and right.
//!
//! Two ports with no host between them are a link like any other, whatever joins them, until a packet without a label comes
//! in there ([`Engine::unexpected_host_at_link`]): our switches send none over links, so it is a host's.
//!
//! # Who stays
//!
//! The designated port is the lowest one at first, and stays it while it is up and on the segment. Where it goes, its hosts
//! are at the next one: they are on the segment.

use std::collections::{BTreeMap, BTreeSet};

use maple_wire::{Dpid, Field, Packet, PortNo};

use super::event::EngineMessage;
use super::hosts::SOLICITATION;
use super::{Engine, Time};
use crate::forwarding::TAG_PRESENT;
use crate::network::{HostInfo, Location, Mac, PortInfo, PortKind};
use crate::report::Report;
use crate::state::{Snapshot, Write};

/// Ports from this number on are made up: no packet comes in or goes out by them, and none of a switch's own has such a
/// number.
pub(crate) const FIRST_VIRTUAL: u32 = 0xf000_0000;

/// Whether a port is one end of a link through the controller.
pub(crate) const fn is_virtual(port: PortNo) -> bool {
    port.0 >= FIRST_VIRTUAL && port.0 <= PortNo::MAX.0
}

/// Whether a switch can have a port of this number.
pub(super) const fn is_physical(port: PortNo) -> bool {
    port.is_ordinary_or_local() && !is_virtual(port)
}

/// Addresses that bridges keep to themselves (802.1D): what comes to them is from the device at the other end.
const RESERVED: u128 = 0x0180_c200_0000;

/// IPv6's groups of all routers, and of those that follow group memberships, as hardware addresses.
const ROUTERS: [u128; 2] = [0x3333_0000_0002, 0x3333_0000_0016];

impl Engine {
    /// Discovery sees these ports on one segment.
    pub(super) fn segment(&mut self, ports: &BTreeSet<Location>) {
        self.share(ports, None);
    }

    /// A port has left its segment, or its segment is no more.
    pub(super) fn segment_left(&mut self, at: Location) {
        let commit = self.store.update(|state| leave(state, &[at].into()));
        self.apply(commit);
    }

    /// A packet without a label came in by a link port, which our switches send nothing by. Whether it shows a host there is
    /// for the shard of the other end to say, who knows that switch's own addresses.
    pub(super) fn unexpected_host_at_link(&mut self, at: Location, packet: &Packet<'_>) {
        let Some(switch) = self.switches.get(&at.switch) else { return };
        let address = |field| packet.switch_value(field).unwrap_or_default();
        let mac = Mac::from_bits(address(Field::EthSrc));
        let is_tagged = address(Field::VlanVid) as u16 & TAG_PRESENT != 0;
        let is_devices = address(Field::EthDst) & !0xf == RESERVED || switch.addresses.values().any(|own| *own == mac);
        let is_chatter = is_chatter(packet);
        // What was under way when the port became a link port says nothing.
        let is_settled =
            switch.linked.get(&at.port).is_some_and(|since| *since + self.options.new_port_hold <= self.now);
        let peer = self.store.snapshot().peer(at);
        if let Some(peer) = peer.filter(|_| mac.is_host() && !is_tagged && !is_devices && !is_chatter && is_settled) {
            self.send_to_shard_of(peer.switch, EngineMessage::UnexpectedHost { mac, at: peer, seen: at });
        }
    }

    /// The other end of a link of ours got a packet of this host, unless it is our switch's own address.
    pub(super) fn unexpected_host_seen(&mut self, mac: Mac, at: Location, seen: Location) {
        let Some(switch) = self.switches.get(&at.switch) else { return };
        let is_own = switch.addresses.values().any(|own| *own == mac);
        if !is_own && self.store.snapshot().peer(at) == Some(seen) {
            self.share(&[at, seen].into(), Some(mac));
        }
    }

    /// Has these ports be one segment, with one way in and out.
    fn share(&mut self, ports: &BTreeSet<Location>, host: Option<Mac>) {
        let mut formed = None;
        let commit = self.store.update(|state| {
            let up: BTreeSet<Location> = ports.iter().copied().filter(|at| is_up(state, *at)).collect();
            let before = up.first().and_then(|at| Segment::of(state, *at));
            let writes = form(state, &up, &BTreeSet::new());
            formed = if writes.is_empty() { None } else { Some((up, before)) };
            writes
        });
        let state = self.store.snapshot();
        self.apply(commit);
        let Some((up, before)) = formed else { return };
        let Some(segment) = up.first().and_then(|at| Segment::of(&state, *at)) else { return };
        if before.is_none_or(|before| before.members() != segment.members()) {
            let others = segment.shut.keys().copied().collect();
            self.report(Report::SegmentShared { at: segment.designated, others, host });
        }
    }

    /// Since when ports of a switch are link ports.
    pub(super) fn follow_links(&mut self, state: &Snapshot, at: Location) {
        let now: Time = self.now;
        let Some(switch) = self.switches.get_mut(&at.switch) else { return };
        match state.port(at).map(|port| port.kind) {
            Some(PortKind::Link(_)) => drop(switch.linked.entry(at.port).or_insert(now)),
            _ => drop(switch.linked.remove(&at.port)),
        }
    }
}

/// Whether a packet is what an interface sends because it exists, as those of bridges do: it looks for routers, joins groups,
/// or asks whether its own address is free.
fn is_chatter(packet: &Packet<'_>) -> bool {
    let is = |field, value| packet.switch_value(field) == Some(value);
    let to_routers = ROUTERS.iter().any(|address| is(Field::EthDst, *address));
    to_routers || is(Field::Icmpv6Type, SOLICITATION) && is(Field::Ipv6Src, 0)
}

/// Whether two ports are on a segment with hosts now, so that a link between them would cut these off.
pub(super) fn has_hosts_between(state: &Snapshot, a: Location, b: Location) -> bool {
    Segment::of(state, a)
        .is_some_and(|segment| segment.members().contains(&b) && state.hosts_at(segment.designated).next().is_some())
}

/// What has to be written so that these ports, which are up, are one segment.
pub(super) fn form(state: &Snapshot, ports: &BTreeSet<Location>, gone: &BTreeSet<Location>) -> Vec<Write> {
    let old: Vec<Segment> = segments_of(state, ports.iter().chain(gone));
    let is_designated = |at: &&Location| old.iter().any(|segment| segment.designated == **at);
    let Some(designated) = ports.iter().find(is_designated).or(ports.first()).copied() else { return Vec::new() };
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
            edit.anew(peer);
        }
    }
    let mut reached = BTreeSet::from([designated.switch]);
    for at in ports.iter().filter(|at| **at != designated) {
        let link = reached.insert(at.switch).then(|| edit.link(at.switch, designated.switch));
        edit.put(*at, PortKind::Shared { with: designated, link });
    }
    edit.put(designated, PortKind::Edge);
    for at in members.iter().filter(|at| **at != designated) {
        edit.move_hosts(*at, designated);
    }
    edit.writes()
}

/// What has to be written when these ports are on their segments no more. They are new then.
pub(super) fn leave(state: &Snapshot, gone: &BTreeSet<Location>) -> Vec<Write> {
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

/// The segments that these ports are on, each once.
fn segments_of<'a>(state: &Snapshot, ports: impl Iterator<Item = &'a Location>) -> Vec<Segment> {
    let mut found: BTreeMap<Location, Segment> = BTreeMap::new();
    for at in ports {
        if let Some(segment) = Segment::of(state, *at) {
            found.insert(segment.designated, segment);
        }
    }
    found.into_values().collect()
}

/// A segment as the state has it.
struct Segment {
    designated: Location,
    /// The other ports, each with the end of its link through the controller.
    shut: BTreeMap<Location, Option<PortNo>>,
}

impl Segment {
    /// The segment that a port is on.
    fn of(state: &Snapshot, at: Location) -> Option<Segment> {
        let designated = match state.port(at)?.kind {
            PortKind::Shared { with, .. } => with,
            PortKind::Edge => at,
            _ => return None,
        };
        // The other ports are at switches that this one has such a link with.
        let far = |(port, _): (PortNo, PortInfo)| {
            let end = Location::new(designated.switch, port);
            is_virtual(port).then(|| state.peer(end)).flatten().map(|peer| peer.switch)
        };
        let switches: BTreeSet<Dpid> =
            state.ports_of(designated.switch).filter_map(far).chain([designated.switch, at.switch]).collect();
        let mut shut = BTreeMap::new();
        for dpid in switches {
            for (port, info) in state.ports_of(dpid) {
                if let PortKind::Shared { with, link } = info.kind
                    && with == designated
                {
                    shut.insert(Location::new(dpid, port), link);
                }
            }
        }
        (!shut.is_empty()).then_some(Segment { designated, shut })
    }

    fn members(&self) -> BTreeSet<Location> {
        self.shut.keys().copied().chain([self.designated]).collect()
    }

    /// Its ports are new, and its links through the controller gone.
    fn end(&self, edit: &mut TopologyEdit<'_>) {
        for (at, link) in &self.shut {
            edit.anew(*at);
            if let Some(port) = link {
                edit.unlink(Location::new(at.switch, *port));
            }
        }
        edit.anew(self.designated);
    }
}

/// Ports and hosts as they are to be.
struct TopologyEdit<'a> {
    state: &'a Snapshot,
    ports: BTreeMap<Location, Option<PortInfo>>,
    hosts: BTreeMap<Mac, HostInfo>,
}

impl<'a> TopologyEdit<'a> {
    fn new(state: &'a Snapshot) -> TopologyEdit<'a> {
        TopologyEdit { state, ports: BTreeMap::new(), hosts: BTreeMap::new() }
    }

    /// A port that is there has this behind it.
    fn put(&mut self, at: Location, kind: PortKind) {
        if let Some(info) = self.state.port(at) {
            self.ports.insert(at, Some(PortInfo { kind, ..info }));
        }
    }

    fn anew(&mut self, at: Location) {
        self.put(at, PortKind::New);
    }

    /// A link through the controller goes.
    fn unlink(&mut self, end: Location) {
        if let Some(PortInfo { kind: PortKind::Link(far), .. }) = self.state.port(end) {
            self.ports.insert(far, None);
        }
        self.ports.insert(end, None);
    }

    /// Makes a link through the controller; the end at the first switch.
    fn link(&mut self, a: Dpid, b: Dpid) -> PortNo {
        let [near, far] = [a, b].map(|dpid| Location::new(dpid, self.free(dpid)));
        for (end, other) in [(near, far), (far, near)] {
            self.ports.insert(end, Some(PortInfo { up: true, kind: PortKind::Link(other) }));
        }
        near.port
    }

    /// A made-up number that the switch has no port of.
    fn free(&self, dpid: Dpid) -> PortNo {
        let is_taken = |port: &PortNo| {
            let at = Location::new(dpid, *port);
            self.ports.get(&at).copied().unwrap_or_else(|| self.state.port(at)).is_some()
        };
        let mut numbers = (FIRST_VIRTUAL..).map(PortNo);
        numbers.find(|port| !is_taken(port)).unwrap_or(PortNo(FIRST_VIRTUAL))
    }

    fn move_hosts(&mut self, from: Location, to: Location) {
        for mac in self.state.hosts_at(from) {
            if let Some(host) = self.state.host(mac) {
                self.hosts.insert(mac, HostInfo { location: to, ..host.clone() });
            }
        }
    }

    /// What differs from the state, links last.
    fn writes(self) -> Vec<Write> {
        let state = self.state;
        let mut ports: Vec<(Location, Option<PortInfo>)> =
            self.ports.into_iter().filter(|(at, info)| state.port(*at) != *info).collect();
        ports.sort_by_key(|(_, info)| matches!(info, Some(PortInfo { kind: PortKind::Link(_), .. })));
        let ports = ports.into_iter().map(|(at, info)| Write::Port { at, info });
        ports.chain(self.hosts.into_iter().map(|(mac, info)| Write::Host { mac, info: Some(info) })).collect()
    }
}

fn is_up(state: &Snapshot, at: Location) -> bool {
    state.port(at).is_some_and(|port| port.up)
}
