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

mod edit;

use std::collections::BTreeSet;

use maple_wire::{Field, Packet, PortNo};

use super::hosts::SOLICITATION;
use super::messages::EngineMessage;
use super::{Engine, Time};
use crate::forwarding::TAG_PRESENT;
use crate::network::{Location, Mac, PortKind};
use crate::report::Report;
use crate::state::Snapshot;
use edit::Segment;
pub(super) use edit::{form, leave};

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

fn is_up(state: &Snapshot, at: Location) -> bool {
    state.port(at).is_some_and(|port| port.up)
}
