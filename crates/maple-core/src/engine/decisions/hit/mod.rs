//! The fast path: packets that a leaf in use answers.
//!
//! A packet is answered in place, in a shard's read buffer. The answer is appended to the buffer that will be sent. The
//! frame is copied once, into its answer, and nothing is allocated.
//!
//! # What
//!
//! [`Engine::hits`](crate::engine::Engine::hits) borrows the engine for the packets of one read from a switch, before
//! the turn's events. A packet takes this path if it changes nothing, and its answer is at most one packet-out at its
//! own switch:
//!
//! * it is whole, untagged, from an edge port, and announces no address;
//! * its host is known to be at that port, and no search waits for a packet of it;
//! * its leaf is current and in use.
//!
//! Every other packet is an event for [`Engine::handle`](crate::engine::Engine::handle).
//!
//! # Why the answer is right
//!
//! All packets of one borrow see one snapshot, the newest when it began. The store says, under its lock, whether a leaf
//! is current, once for each leaf and version of the state. A leaf that is current now, and was in the tree before the
//! snapshot was taken, was current in the snapshot.
//!
//! A leaf and its switch's OpenFlow version determine the answer. Every change of a leaf forgets its remembered answer
//! ([`super::leaves::Leaves`]). The snapshot alone determines where a host is, so that is remembered for one version.
//! The rules of earlier turns have been sent, and this packet-out is written after them.
//!
//! # Cost
//!
//! A borrow loads the snapshot: two atomic operations for all packets of a read. A packet costs one search of the tree
//! and two look-ups of one cache line each. With many hosts and leaves the time goes into waiting for memory. So
//! packets come in batches, and all cache lines that a batch needs next are prefetched before the first is read.
//!
//! # Callers
//!
//! A shard's connection calls it for each read that brings packet-ins.

use std::fmt;
use std::sync::Arc;

use arrayvec::ArrayVec;
use maple_wire::msg::{Message, NO_BUFFER, PacketInView, PacketOut};
use maple_wire::{Dpid, Field, Packet, PortNo, Version};

use super::Decisions;
use super::leaf::{Leaf, LeafState};
use super::leaves::AnswerTemplate;
use crate::engine::fabric::Fabric;
use crate::engine::fabric::routes::SharedRoute;
use crate::engine::messages::cause::DropCause;
use crate::engine::one_switch::cookies::is_of_watch;
use crate::engine::one_switch::look_up_tables::WithMetadata;
use crate::engine::topology::hosts::{Hosts, is_announcement};
use crate::forwarding;
use crate::ids::{LeafId, Time};
use crate::network::{Location, Mac, PROBE_MAC, PortKind, is_the_controllers};
use crate::route::Goal;
use crate::state::Snapshot;
use crate::tree::MAX_BATCH;

/// The maximum number of packets that are answered together: as many as the tree looks up together.
pub const MAX_HITS: usize = MAX_BATCH;

/// The byte range of a message's length (1.0 §5.1, 1.3 §7.1).
const LENGTH: std::ops::Range<usize> = 2..4;
/// The byte range of a message's transaction id (1.0 §5.1, 1.3 §7.1).
const XID: std::ops::Range<usize> = 4..8;
/// The byte range, in a packet-out of OpenFlow 1.0 (§5.3.6), of the port that the packet came in by.
const IN_PORT_10: std::ops::Range<usize> = 12..14;
/// The byte range, in a packet-out of OpenFlow 1.3 (§7.3.7), of the port that the packet came in by.
const IN_PORT_13: std::ops::Range<usize> = 12..16;

/// The value that is remembered for a host whose location was verified. The cache holds numbers, and here only the
/// presence of a key counts.
const VERIFIED: u32 = 1;

/// The engine's parts, borrowed for the packets of one read.
pub struct Hits<'a> {
    fabric: &'a mut Fabric,
    hosts: &'a Hosts,
    decisions: &'a mut Decisions,
    state: Arc<Snapshot>,
    dpid: Dpid,
    /// The last port that was checked, and whether it is an edge port.
    port: Option<(PortNo, bool)>,
}

impl fmt::Debug for Hits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hits").field("dpid", &self.dpid).finish_non_exhaustive()
    }
}

/// The packets of a batch that were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnsweredHits {
    /// A bit for each packet; bit 0 for the first.
    pub packets: u64,
    /// The number of packet-outs appended. A dropped packet needs none.
    pub packet_outs: usize,
}

/// A packet that may be a hit.
struct PossibleHit<'a> {
    /// Its position in the batch.
    number: usize,
    frame: &'a [u8],
    port: PortNo,
    packet: WithMetadata<Packet<'a>>,
    host: Mac,
    leaf: Option<LeafId>,
}

impl<'a> Hits<'a> {
    /// Borrows the parts for packets of this switch. `None` if this shard does not serve the switch, or if packets from
    /// its new ports wait. Also `None` if its look-ups are of an earlier state, or its rules are being read or
    /// restored.
    pub(in crate::engine) fn begin(
        fabric: &'a mut Fabric,
        hosts: &'a Hosts,
        decisions: &'a mut Decisions,
        now: Time,
        dpid: Dpid,
    ) -> Option<Hits<'a>> {
        let (store, state) = (&fabric.ctx.store, fabric.ctx.store.snapshot());
        let switch = fabric.switches.get_mut(&dpid)?;
        // Events let look-ups follow; what is done here is not recorded.
        if !switch.ingress.look_ups.are_current(state.version(), |dependent| store.is_current(dependent)) {
            return None;
        }
        if !switch.ports.new_port_packets.is_empty() || !switch.tables.is_ready() || switch.restoring.is_some() {
            return None;
        }
        switch.ingress.verified_hosts.begin(state.version());
        decisions.leaves.begin(state.version());
        fabric.ctx.advance(now);
        Some(Hits { fabric, hosts, decisions, state, dpid, port: None })
    }

    /// Appends to `out` the answers to those of at most [`MAX_HITS`] packets that are hits. The other packets are
    /// events.
    pub fn answer(&mut self, packets: &[PacketInView<'_>], out: &mut Vec<u8>) -> AnsweredHits {
        let mut possible: ArrayVec<PossibleHit<'_>, MAX_HITS> = ArrayVec::new();
        for (number, packet_in) in packets.iter().take(MAX_HITS).enumerate() {
            possible.extend(self.possible_hit(number, packet_in));
        }
        let Some(switch) = self.fabric.switches.known(self.dpid) else { return AnsweredHits::default() };
        if self.fabric.ctx.options.track_hosts {
            possible.iter().for_each(|hit| switch.ingress.verified_hosts.prefetch(hit.key()));
            possible.retain(|hit| self.is_accepted(hit));
        }
        let leaves = &self.decisions.leaves;
        let Some(switch) = self.fabric.switches.known(self.dpid) else { return AnsweredHits::default() };
        // Where hosts are tracked, all that are left are where they are known to be.
        let is_source_here = self.fabric.ctx.options.track_hosts;
        possible.retain(|hit| {
            let metadata = switch.ingress.look_ups.metadata(&hit.packet.packet, is_source_here);
            hit.packet.metadata = metadata.unwrap_or_default();
            metadata.is_some()
        });
        let found = switch.tree().search_batch(possible.iter().map(|hit| &hit.packet));
        for (hit, leaf) in possible.iter_mut().zip(found) {
            hit.leaf = leaf;
        }
        possible.iter().filter_map(|hit| hit.leaf).for_each(|leaf| leaves.prefetch(leaf));
        let mut answered = AnsweredHits::default();
        for hit in &possible {
            if let Some(packet_outs) = self.append_answer(hit, out) {
                answered.packets |= 1 << hit.number;
                answered.packet_outs += packet_outs;
            }
        }
        answered
    }

    /// Makes a packet a possible hit, if neither its port nor its own bytes rule it out.
    fn possible_hit<'p>(&mut self, number: usize, packet_in: &PacketInView<'p>) -> Option<PossibleHit<'p>> {
        let (port, frame) = (packet_in.in_port()?, packet_in.data());
        let is_whole = frame.len() >= usize::from(packet_in.total_len());
        if !is_whole || is_of_watch(packet_in.cookie()) || !self.is_edge(port) {
            return None;
        }
        let packet = Packet::with_wire_len(frame, port.0, frame.len());
        if is_the_controllers(&packet, self.fabric.ctx.options.track_hosts) {
            return None;
        }
        let mut host = Mac::default();
        if self.fabric.ctx.options.track_hosts {
            host = Mac::from_bits(packet.switch_value(Field::EthSrc).unwrap_or_default());
            if !host.is_host() || host == PROBE_MAC || is_announcement(&packet) {
                return None;
            }
        }
        let packet = WithMetadata { packet, metadata: 0 };
        Some(PossibleHit { number, frame, port, packet, host, leaf: None })
    }

    /// Reports whether the port is an edge port.
    fn is_edge(&mut self, port: PortNo) -> bool {
        match self.port {
            Some((last, is_edge)) if last == port => is_edge,
            _ => {
                let info = self.state.port(Location::new(self.dpid, port));
                let is_edge = info.is_some_and(|info| info.kind == PortKind::Edge);
                self.port = Some((port, is_edge));
                is_edge
            }
        }
    }

    /// Reports whether the packet's host is known to be at its port, and no search waits for a packet of it.
    fn is_accepted(&mut self, hit: &PossibleHit<'_>) -> bool {
        if self.hosts.awaits(hit.host) {
            return false;
        }
        let Some(switch) = self.fabric.switches.known_mut(self.dpid) else { return false };
        // A port number beyond 16 bits has no key, and is looked up every time.
        let key = Some(hit.key()).filter(|_| hit.port.0 <= u32::from(u16::MAX));
        if key.is_some_and(|key| switch.ingress.verified_hosts.get(key).is_some()) {
            return true;
        }
        let Some(host) = self.state.host(hit.host) else { return false };
        let is_here = host.location == Location::new(self.dpid, hit.port);
        if let Some(key) = key.filter(|_| is_here) {
            switch.ingress.verified_hosts.put(key, VERIFIED);
        }
        is_here
    }

    /// Appends the answer to a leaf's packet. Returns the number of messages appended, or `None` if the packet is not a
    /// hit.
    fn append_answer(&mut self, hit: &PossibleHit<'_>, out: &mut Vec<u8>) -> Option<usize> {
        let leaf = hit.leaf?;
        if self.decisions.leaves.template(leaf).is_none() {
            self.decisions.learn_template(self.fabric, leaf, self.dpid)?;
        }
        let Fabric { ctx, switches, .. } = &mut *self.fabric;
        let Decisions { leaves, access_hits, .. } = &mut *self.decisions;
        let template = leaves.template(leaf)?;
        let length = u16::try_from(template.bytes.len() + hit.frame.len()).ok()?;
        ctx.stats.packet_ins += 1;
        ctx.stats.hits += 1;
        ctx.stats.sent_by_controller += u64::from(template.by_controller);
        if !access_hits.is_empty()
            && let Some(leaf) = leaves.get(&leaf)
        {
            access_hits.count_packet(&leaf.trace);
        }
        let switch = switches.get_mut(&self.dpid)?;
        if template.bytes.is_empty() {
            if let Some(leaf) = leaves.get(&leaf).filter(|leaf| leaf.drops()) {
                let cause = DropCause::Policy(Arc::clone(&leaf.origin));
                switch.counters.drops.count_packet(ctx.now(), &hit.packet.packet, cause);
            }
            return Some(0);
        }
        let start = out.len();
        out.extend_from_slice(&template.bytes);
        out.extend_from_slice(hit.frame);
        let message = &mut out[start..];
        message[LENGTH].copy_from_slice(&length.to_be_bytes());
        message[XID].copy_from_slice(&switch.tables.take_xid().to_be_bytes());
        // No edge port has a number that exceeds the field.
        match switch.version() {
            Version::Of10 => message[IN_PORT_10].copy_from_slice(&(hit.port.0 as u16).to_be_bytes()),
            Version::Of13 => message[IN_PORT_13].copy_from_slice(&hit.port.0.to_be_bytes()),
        }
        Some(1)
    }
}

impl Decisions {
    /// Remembers the answer to the leaf's packets. `None` if they are not hits.
    fn learn_template(&mut self, fabric: &mut Fabric, id: LeafId, dpid: Dpid) -> Option<()> {
        let is_current = fabric.ctx.store.is_current(id)
            && self.plan_of(fabric, id).is_none_or(|plan| fabric.ctx.store.is_current(plan));
        if !is_current {
            return None;
        }
        if !self.leaves.renew(id) {
            let version = fabric.switches.get(&dpid)?.version();
            let leaf = self.leaves.get(&id)?;
            let template = answer_template(leaf, route_of(fabric, leaf), dpid, version)?;
            self.leaves.remember(id, template);
        }
        Some(())
    }

    /// Panics if a remembered answer differs from the one that would be computed now.
    pub(crate) fn check_remembered(&self, fabric: &Fabric) {
        for (id, leaf) in self.leaves.iter() {
            let Some(remembered) = self.leaves.remembered(*id) else { continue };
            let switch = fabric.switches.get(&leaf.ingress()).expect("a leaf is at a switch");
            let now = answer_template(leaf, route_of(fabric, leaf), leaf.ingress(), switch.version());
            assert_eq!(Some(remembered), now.as_ref(), "the remembered and the current answer of {id:?}");
        }
    }
}

fn route_of<'a>(fabric: &'a Fabric, leaf: &Leaf) -> Option<&'a SharedRoute> {
    fabric.routes.get(leaf.route_id?)
}

/// Returns the packet-out, without its frame, that answers the leaf's packets now. `None` if answering takes more than
/// that.
fn answer_template(leaf: &Leaf, route: Option<&SharedRoute>, dpid: Dpid, version: Version) -> Option<AnswerTemplate> {
    let (actions, by_controller) = match leaf.state {
        // If the rule does not take all packets of the leaf, each packet has to be examined.
        LeafState::Active => {
            (route.filter(|route| !route.is_for_untagged() && route.next_until().is_none())?.actions(), false)
        }
        LeafState::ByController => {
            // A plan that no route follows can change without notice.
            let Goal::Fixed(route) = &leaf.goal else { return None };
            let hops = route.switches.get(&dpid);
            let elsewhere = route.switches.iter().any(|(other, hops)| *other != dpid && !hops.edges.is_empty());
            if elsewhere {
                return None;
            }
            (hops.map(|hops| forwarding::egress(version, hops)).unwrap_or_default(), true)
        }
        _ => return None,
    };
    let mut bytes = Vec::new();
    if !actions.is_empty() {
        let message = PacketOut { buffer_id: NO_BUFFER, in_port: PortNo(0), actions, data: Vec::new() };
        Message::PacketOut(message).encode(version, 0, &mut bytes).ok()?;
    }
    Some(AnswerTemplate { bytes, by_controller })
}

impl PossibleHit<'_> {
    /// Returns host and port as one word. The port must fit into 16 bits.
    fn key(&self) -> u64 {
        self.host.bits() as u64 | u64::from(self.port.0 as u16) << 48
    }
}

#[cfg(test)]
mod tests;
