//! Segments: plain bridges and hubs that join several ports of our switches, perhaps with hosts among them.
//!
//! # What is sound there
//!
//! A bridge learns from passing frames which of its ports leads to an address. If two of our switches sent frames of
//! one host into a segment, the bridge would believe the later one, and drop packets for the earlier one. If two of our
//! switches accepted what a host on the segment sends, f would run twice and the packet would be delivered twice.
//!
//! So exactly one of a segment's ports, the *designated* port, is an edge port. The segment's hosts are there, and
//! enter and leave the network by it. The other ports are shut ([`PortKind::Shut`]): the switch drops everything that
//! comes in except probes, and nothing is sent out. No packet returns to the segment that it came from.
//!
//! That must not cut the network in two. So each switch with a shut port has a *link through the controller* to the
//! designated port's switch: a pair of virtual ports, with numbers above those of real ports. Paths and floods use it
//! like any other link. No label leads over it (`give_labels.rs` refuses it). So packets of such routes go through the
//! controller, which sends them out of the egress ports. That is slow but right.
//!
//! Two ports with no host between them form an ordinary link, whatever joins them. That ends when a packet without a
//! label comes in there (`Topology::on_host_at_link`): our switches send none over links, so a host has sent
//! it.
//!
//! # Which port is designated
//!
//! A port that is declared a link port is never designated; if all are, the segment is not used. At first the lowest
//! port is designated. It stays so while it is up and on the segment. When it goes, the segment's hosts are at the next
//! designated port, because they are still on the segment.

mod segment_writes;

use std::collections::BTreeSet;

use maple_wire::icmpv6_type::value::NEIGHBOR_SOLICIT;
use maple_wire::{Field, Packet};

use super::Topology;
use crate::engine::fabric::Fabric;
use crate::engine::messages::mail::EngineMessage;
use crate::forwarding::TAG_PRESENT;
use crate::ids::Time;
use crate::network::{Facts, Location, Mac, PortKind, PortRole};
use crate::report::{Report, ReportSubject};
use crate::state::Snapshot;
use segment_writes::{Segment, may_be_designated};

pub(in crate::engine) use segment_writes::{disjoin, form, leave};

/// The hardware addresses of IPv6's groups of all routers, and of routers that track group memberships.
const ROUTERS: [u128; 2] = [0x3333_0000_0002, 0x3333_0000_0016];

impl Topology {
    /// Forms a segment of ports that discovery sees on one.
    pub fn on_segment(fabric: &mut Fabric, ports: &BTreeSet<Location>) {
        form_segment(fabric, ports, None);
    }

    /// Takes a port out of its segment, because it has left or the segment has dissolved.
    pub fn on_segment_left(fabric: &mut Fabric, at: Location) {
        fabric.ctx.write(|state| leave(state, &[at].into()));
    }

    /// Handles a packet without a label that came in by a link port. Our switches send none there. The shard of the
    /// other end decides whether it shows a host, because it knows that switch's own addresses.
    pub fn on_host_at_link(fabric: &mut Fabric, at: Location, packet: &Packet<'_>) {
        let Some(switch) = fabric.switches.known(at.switch) else { return };
        let address = |field| packet.switch_value(field).unwrap_or_default();
        let mac = Mac::from_bits(address(Field::EthSrc));
        let is_tagged = address(Field::VlanVid) as u16 & TAG_PRESENT != 0;
        // A packet that bridges don't forward is from the device at the other end.
        let is_for_device = Mac::from_bits(address(Field::EthDst)).is_reserved();
        let is_devices = is_for_device || switch.ports.have_address(mac);
        let is_chatter = is_chatter(packet);
        // Packets that were in flight when the port became a link port prove nothing.
        let is_past_hold = switch
            .ports
            .linked_since(at.port)
            .is_some_and(|since| since + fabric.ctx.options.new_port_hold <= fabric.ctx.now());
        let state = fabric.ctx.store.snapshot();
        let peer = state.peer(at);
        let facts = state.facts();
        if let Some(peer) = peer.filter(|peer| {
            !is_declared_link(facts, at, *peer)
                && mac.is_host()
                && !is_tagged
                && !is_devices
                && !is_chatter
                && is_past_hold
        }) {
            fabric.ctx.send_to_shard_of(peer.switch, EngineMessage::UnexpectedHost { mac, at: peer, seen: at });
        }
    }

    /// Makes a segment of a link whose other end got a packet of this host, unless the address is our switch's own.
    pub fn on_unexpected_host(fabric: &mut Fabric, mac: Mac, at: Location, seen: Location) {
        let Some(switch) = fabric.switches.get(&at.switch) else { return fabric.ctx.count_late_message() };
        let is_own = switch.ports.have_address(mac);
        let state = fabric.ctx.store.snapshot();
        if !is_own && state.peer(at) == Some(seen) && !is_declared_link(state.facts(), at, seen) {
            form_segment(fabric, &[at, seen].into(), Some(mac));
        }
    }

    /// Notes since when a port is a link port.
    pub fn note_link_port(fabric: &mut Fabric, state: &Snapshot, at: Location) {
        let now: Time = fabric.ctx.now();
        // What changed in the state may be that the switch has gone.
        let Some(switch) = fabric.switches.get_mut(&at.switch) else { return };
        let is_linked = state.port(at).is_some_and(|port| matches!(port.kind, PortKind::Link(_)));
        switch.ports.note_linked(now, at.port, is_linked);
    }
}

/// Forms one segment of these ports, with one designated port. Ports that can be on none are left out.
fn form_segment(fabric: &mut Fabric, ports: &BTreeSet<Location>, host: Option<Mac>) {
    let snapshot = fabric.ctx.store.snapshot();
    let facts = snapshot.facts();
    let ports: BTreeSet<Location> = ports.iter().copied().filter(|at| may_be_joined(facts, *at)).collect();
    let hosts = pinned_hosts(fabric, facts, &ports);
    let mut formed = None;
    let commit = fabric.ctx.store.update(|state| {
        // Another shard may have declared something else just now.
        let facts = state.facts();
        let is_open = |at: &Location| is_up(state, *at) && may_be_joined(facts, *at);
        let up: BTreeSet<Location> = ports.iter().copied().filter(is_open).collect();
        if up.len() < 2 {
            return Vec::new();
        }
        let before = up.first().and_then(|at| Segment::containing(state, *at));
        let writes = form(state, &up, &BTreeSet::new());
        formed = if writes.is_empty() { None } else { Some((up, before)) };
        writes
    });
    let state = fabric.ctx.store.snapshot();
    fabric.ctx.apply_commit(commit);
    hosts
        .into_iter()
        .filter(|(mac, _)| state.host(*mac).is_none())
        .for_each(|(mac, at)| fabric.ctx.report(Report::HostLost { mac, at }));
    if let Some(at) = ports.first().copied().filter(|_| !ports.iter().any(|at| may_be_designated(facts, *at))) {
        let others = ports.iter().copied().skip(1).collect();
        let report = Report::SegmentOfLinks { at, others };
        fabric.ctx.report_once(ReportSubject::Port(at), &format!("{ports:?}"), report);
    }
    let Some((up, before)) = formed else { return };
    let Some(segment) = up.first().and_then(|at| Segment::containing(&state, *at)) else { return };
    if before.is_none_or(|before| before.members() != segment.members()) {
        let others = segment.shut.keys().copied().collect();
        fabric.ctx.report(Report::SegmentShared { at: segment.designated, others, host });
    }
}

/// Returns the hosts with a fixed place at one of these ports.
fn pinned_hosts(fabric: &Fabric, facts: &Facts, ports: &BTreeSet<Location>) -> Vec<(Mac, Location)> {
    let state = fabric.ctx.store.snapshot();
    let at_port = |at: &Location| state.hosts_at(*at).map(|mac| (mac, *at)).collect::<Vec<_>>();
    ports.iter().flat_map(at_port).filter(|(mac, _)| facts.place(*mac).is_some()).collect()
}

/// Reports whether a packet is one that every interface sends, including those of bridges: it looks for routers, joins
/// groups, or asks whether its own address is free.
fn is_chatter(packet: &Packet<'_>) -> bool {
    let is = |field, value| packet.switch_value(field) == Some(value);
    let to_routers = ROUTERS.iter().any(|address| is(Field::EthDst, *address));
    to_routers || is(Field::Icmpv6Type, NEIGHBOR_SOLICIT) && is(Field::Ipv6Src, 0)
}

/// Reports whether two ports are on a segment that has hosts now. A link between them would cut those hosts off.
pub(in crate::engine) fn has_hosts_between(state: &Snapshot, a: Location, b: Location) -> bool {
    Segment::containing(state, a)
        .is_some_and(|segment| segment.members().contains(&b) && state.hosts_at(segment.designated).next().is_some())
}

/// Reports whether one of these ports is declared a link port, so that nothing that a host sends ends their link.
pub(in crate::engine) fn is_declared_link(facts: &Facts, a: Location, b: Location) -> bool {
    [a, b].into_iter().any(|at| facts.role(at) == PortRole::Link)
}

/// Reports whether a port is on a segment. If it is an edge port, it is the designated one.
pub(in crate::engine) fn is_segments_port(state: &Snapshot, at: Location) -> bool {
    Segment::containing(state, at).is_some()
}

/// Reports whether a port may become an edge port.
pub(in crate::engine) fn may_be_edge(facts: &Facts, at: Location) -> bool {
    matches!(facts.role(at), PortRole::Any | PortRole::Edge)
}

/// Reports whether something may join this port with ports of other switches.
pub(in crate::engine) fn may_be_joined(facts: &Facts, at: Location) -> bool {
    matches!(facts.role(at), PortRole::Any | PortRole::Link)
}

fn is_up(state: &Snapshot, at: Location) -> bool {
    state.port(at).is_some_and(|port| port.up)
}
