//! Packets that a leaf answers, where they lie: in a shard's read buffer, with the answer appended where it will be written
//! from. Nothing is copied but the packet into its answer, and nothing is allocated for one.
//!
//! # What
//!
//! [`Engine::hits`] lends the engine to the packets that one read of a switch brought, before the turn's events. A packet
//! takes this road if it changes nothing and its answer is one packet-out at its own switch: it is whole, untagged and from
//! an edge port, its host is known to be there and to have its addresses, and its leaf is current and in use. Every other
//! packet is an event, and [`Engine::handle`] says what becomes of it.
//!
//! # Why the answer is right
//!
//! All packets of a loan are looked at in one snapshot, the newest when it began. That a leaf is current is asked of the store,
//! under its lock, once for a leaf and version of the state: a leaf that is current now and was in the tree before the snapshot
//! was taken was current in it. What the engine knows besides changes in [`Engine::handle`] only, which ends a *season*; what
//! is remembered of a leaf counts for one season and one version. Rules of earlier turns were sent, and this packet-out is
//! written behind them.
//!
//! # Cost
//!
//! A loan loads the snapshot: two atomic operations for all packets of a read, none for each. A packet costs a search of the
//! tree and two look-ups by hash.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use maple_wire::msg::{Message, NO_BUFFER, PacketInView, PacketOut};
use maple_wire::{Dpid, Field, Packet, PortNo};
use rustc_hash::FxHashMap;

use super::hosts::{PROBE_MAC, addresses};
use super::leaf::LeafState;
use super::location::LLDP_TYPE;
use super::{Engine, Time, actions};
use crate::network::{Location, Mac, PortKind};
use crate::state::Snapshot;
use crate::tree::LeafId;

/// Where the length stands in a message, and the transaction id.
const LENGTH: std::ops::Range<usize> = 2..4;
const XID: std::ops::Range<usize> = 4..8;
/// How many answers, and how many hosts, are remembered of a switch.
const REMEMBERED: usize = 1 << 17;

/// What is remembered of a switch's packets.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// The answer to a leaf's packets from a port.
    said: FxHashMap<(LeafId, PortNo), Said>,
    /// Hosts that are where their packets come from.
    believed: FxHashMap<Mac, Believed>,
}

/// An answer.
#[derive(Debug)]
struct Said {
    season: u64,
    version: u64,
    /// The packet-out, but for the frame, its length and its transaction id; none where packets are dropped.
    head: Vec<u8>,
    /// Whether the packet goes straight out of its egress ports, past the rules.
    direct: bool,
}

/// A host's packet that taught nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Believed {
    version: u64,
    port: PortNo,
    addresses: (Option<Ipv4Addr>, Option<Ipv6Addr>),
}

/// The engine, lent to the packets that one read brought.
pub struct Hits<'a> {
    engine: &'a mut Engine,
    state: Arc<Snapshot>,
    dpid: Dpid,
    /// The port that was looked at last, and whether it is an edge port.
    port: Option<(PortNo, bool)>,
}

impl Engine {
    /// Lends itself to packets of this switch, if there is nothing about it to be settled first.
    pub fn hits(&mut self, now: Time, dpid: Dpid) -> Option<Hits<'_>> {
        let switch = self.switches.get(&dpid)?;
        let is_settled = self.asked.is_empty() && switch.undecided.is_empty() && switch.ready;
        is_settled.then(|| {
            self.now = self.now.max(now);
            Hits { state: self.store.snapshot(), engine: self, dpid, port: None }
        })
    }

    /// What is remembered of a leaf's packets: made anew where it no longer counts. `None` if they are no hits.
    fn said(&mut self, leaf: LeafId, at: Location, version: u64) -> Option<&Said> {
        let season = self.season;
        let switch = self.switches.get(&at.switch)?;
        let counts = |said: &Said| said.season == season && said.version == version;
        if !switch.memory.said.get(&(leaf, at.port)).is_some_and(counts) {
            let is_current = self.store.is_current(leaf);
            let (head, direct) = self.head(leaf, at).filter(|_| is_current)?;
            let memory = &mut self.switches.get_mut(&at.switch)?.memory;
            if memory.said.len() >= REMEMBERED {
                memory.said.clear();
            }
            memory.said.insert((leaf, at.port), Said { season, version, head, direct });
        }
        self.switches.get(&at.switch)?.memory.said.get(&(leaf, at.port))
    }

    /// A packet-out without a frame, as the leaf's packets are answered now, and whether it goes past the rules. `None` if
    /// more is to be done.
    fn head(&self, leaf: LeafId, at: Location) -> Option<(Vec<u8>, bool)> {
        let leaf = self.leaves.get(&leaf)?;
        let version = self.switches.get(&at.switch)?.version();
        let part = leaf.route.parts.get(&at.switch);
        let (actions, direct) = match leaf.state {
            LeafState::Active => {
                let tag = leaf.tag.as_ref().map(|tag| tag.id);
                (part.map(|part| actions::all(version, part, tag)).unwrap_or_default(), false)
            }
            LeafState::Direct { .. } => {
                let elsewhere =
                    leaf.route.parts.iter().any(|(dpid, part)| *dpid != at.switch && !part.edges.is_empty());
                if elsewhere {
                    return None;
                }
                (part.map(|part| actions::egress(version, part)).unwrap_or_default(), true)
            }
            _ => return None,
        };
        let mut head = Vec::new();
        if !actions.is_empty() {
            let message = PacketOut { buffer_id: NO_BUFFER, in_port: at.port, actions, data: Vec::new() };
            Message::PacketOut(message).encode(version, 0, &mut head).ok()?;
        }
        Some((head, direct))
    }
}

impl Hits<'_> {
    /// Appends the answer to a packet, if it is a hit. `None` if it is not: then it is an event. Otherwise how many messages
    /// were appended, which is none where packets are dropped.
    pub fn answer(&mut self, packet_in: &PacketInView<'_>, out: &mut Vec<u8>) -> Option<usize> {
        let (port, frame) = (packet_in.in_port()?, packet_in.data());
        let is_whole = frame.len() >= usize::from(packet_in.total_len());
        if !is_whole || !self.is_edge(port) {
            return None;
        }
        let packet = Packet::with_wire_len(frame, port.0, frame.len());
        let is_plain = packet.switch_value(Field::VlanVid) == Some(0);
        if !is_plain || packet.switch_value(Field::EthType) == Some(LLDP_TYPE) || !self.is_believed(port, &packet) {
            return None;
        }
        let at = Location::new(self.dpid, port);
        let leaf = self.engine.switches.get(&self.dpid)?.table.tree().search(&packet)?;
        let said = self.engine.said(leaf, at, self.state.version())?;
        let start = out.len();
        let length = u16::try_from(said.head.len() + frame.len()).ok()?;
        let direct = said.direct;
        let answers = usize::from(!said.head.is_empty());
        if answers > 0 {
            out.extend_from_slice(&said.head);
            out.extend_from_slice(frame);
            let xid = self.engine.switches.get_mut(&self.dpid)?.take_xid(self.engine.options.first_xid);
            out[start..][LENGTH].copy_from_slice(&length.to_be_bytes());
            out[start..][XID].copy_from_slice(&xid.to_be_bytes());
        }
        let stats = &mut self.engine.stats;
        stats.packet_ins += 1;
        stats.hits += 1;
        stats.sent_by_controller += u64::from(direct);
        Some(answers)
    }

    /// Whether packets enter the network by this port.
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

    /// Whether the packet's host is known to be where it came from, and the packet teaches nothing of it.
    fn is_believed(&mut self, port: PortNo, packet: &Packet<'_>) -> bool {
        if !self.engine.options.track_hosts {
            return true;
        }
        let address = |field| Mac::from_bits(packet.switch_value(field).unwrap_or_default());
        let mac = address(Field::EthSrc);
        if !mac.is_host() || mac == PROBE_MAC || address(Field::EthDst) == PROBE_MAC {
            return false;
        }
        let seen = Believed { version: self.state.version(), port, addresses: addresses(packet) };
        let Some(switch) = self.engine.switches.get_mut(&self.dpid) else { return false };
        let believed = &mut switch.memory.believed;
        if believed.get(&mac) == Some(&seen) {
            return true;
        }
        let Some(host) = self.state.host(mac) else { return false };
        // When a host without an address was last heard of is noted: that is the engine's to do.
        let is_known = |host: &crate::network::HostInfo| {
            let (v4, v6) = seen.addresses;
            v4.is_none_or(|ip| host.ipv4.contains(&ip)) && v6.is_none_or(|ip| host.ipv6.contains(&ip))
        };
        let has_address = !host.ipv4.is_empty() || !host.ipv6.is_empty();
        let here = host.location == Location::new(self.dpid, port) && has_address && is_known(host);
        if here {
            if believed.len() >= REMEMBERED {
                believed.clear();
            }
            believed.insert(mac, seen);
        }
        here
    }
}
