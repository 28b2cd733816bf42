//! Where hosts are: learned from what they send at edge ports, and believed elsewhere only when that is plausible.
//!
//! A known host's address at another port is a move, or a lie. It is a move if the old port is gone or no edge port
//! any more, or if the host does not answer there: we ask it by its IP address (ARP or neighbour solicitation, straight
//! out of the old port), and if none is known go by how long it was silent. Until that is settled packets from the new
//! place are dropped and counted.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use maple_wire::msg::{Message, NO_BUFFER, PacketOut};
use maple_wire::packet::build::Frame;
use maple_wire::{Action, Field, Packet, PortNo};

use super::event::Letter;
use super::leaf::Arrived;
use super::timers::Timer;
use super::{Engine, ShardId, Time};
use crate::network::{HostInfo, Location, Mac, PortKind};
use crate::report::{MoveReason, Report};
use crate::state::{Snapshot, Write};

/// The address that our probes come from: locally administered, `maple` in ASCII. Frames to it never reach the policy.
pub const PROBE_MAC: Mac = Mac([0x02, b'm', b'a', b'p', b'l', b'e']);

/// How many IP addresses of a kind are kept of one host; a router's port would bring all the world's.
const MAX_ADDRESSES: usize = 16;

/// How many hosts may be looked for at once.
const MAX_MOVES: usize = 4096;

/// A host that seems to be elsewhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    from: Location,
    to: Location,
    until: Time,
    /// It answered at the old port: packets from the new place are lies until then.
    refuted: bool,
}

impl Engine {
    /// Learns from a packet at an edge port. Whether the packet is to be believed.
    pub(super) fn check_location(&mut self, mac: Mac, arrived: &Arrived) -> bool {
        if !mac.is_host() {
            return true;
        }
        let state = self.store.snapshot();
        let Some(host) = state.host(mac) else {
            self.learn(mac, arrived);
            return true;
        };
        if host.location == arrived.at {
            self.last_seen.insert(mac, self.now);
            self.note_alive(mac, arrived.at);
            self.learn_addresses(mac, host, arrived);
            return true;
        }
        if mac == PROBE_MAC || !self.is_plausible(&state, mac, host.location, arrived.at) {
            self.stats.spoofed_drops += 1;
            return false;
        }
        self.move_host(mac, host.location, arrived.at, MoveReason::PortGone);
        true
    }

    fn learn(&mut self, mac: Mac, arrived: &Arrived) {
        let at = arrived.at;
        let (ipv4, ipv6) = addresses(&arrived.packet());
        let info = HostInfo { location: at, ipv4: ipv4.into_iter().collect(), ipv6: ipv6.into_iter().collect() };
        let mut new = false;
        let commit = self.store.update(|state| {
            new = state.host(mac).is_none();
            if new { vec![Write::Host { mac, info: Some(info) }] } else { Vec::new() }
        });
        self.apply(commit);
        if new {
            self.last_seen.insert(mac, self.now);
            self.report(Report::HostFound { mac, at });
        }
    }

    fn learn_addresses(&mut self, mac: Mac, host: &HostInfo, arrived: &Arrived) {
        let (ipv4, ipv6) = addresses(&arrived.packet());
        let ipv4 = ipv4.filter(|ip| !host.ipv4.contains(ip) && host.ipv4.len() < MAX_ADDRESSES);
        let ipv6 = ipv6.filter(|ip| !host.ipv6.contains(ip) && host.ipv6.len() < MAX_ADDRESSES);
        if ipv4.is_none() && ipv6.is_none() {
            return;
        }
        let commit = self.store.update(|state| {
            let Some(host) = state.host(mac) else { return Vec::new() };
            let mut info = host.clone();
            info.ipv4.extend(ipv4);
            info.ipv6.extend(ipv6);
            vec![Write::Host { mac, info: Some(info) }]
        });
        self.apply(commit);
    }

    /// Whether the host can be at `to`, without asking. If not, it is looked for at its old port.
    fn is_plausible(&mut self, state: &Snapshot, mac: Mac, from: Location, to: Location) -> bool {
        let old = state.port(from);
        if state.shard_of(from.switch).is_none() || !old.is_some_and(|port| port.up && port.kind == PortKind::Edge) {
            return true;
        }
        if let Some(pending) = self.moves.get(&mac)
            && pending.from == from
            && (pending.to == to || !pending.refuted)
            && pending.until > self.now
        {
            return false;
        }
        if self.moves.len() >= MAX_MOVES {
            let now = self.now;
            self.moves.retain(|_, pending| pending.until > now);
        }
        if self.moves.len() < MAX_MOVES {
            let until = self.now + self.options.probe_timeout;
            self.moves.insert(mac, Move { from, to, until, refuted: false });
            self.timers.insert((until, Timer::Probe(mac)));
            self.post_to_switch(from.switch, Letter::Probe { mac, at: from, asker: self.shard });
        }
        false
    }

    /// Asks a host at a port of ours whether it is there.
    pub(super) fn probe(&mut self, mac: Mac, at: Location, asker: ShardId) {
        let state = self.store.snapshot();
        let Some(host) = state.host(mac).filter(|host| host.location == at) else { return };
        let frames = probes(mac, host);
        if frames.is_empty() {
            let seen = self.last_seen.get(&mac).copied().unwrap_or_default();
            if self.now < seen + self.options.silence {
                self.post(asker, Letter::Alive { mac, at });
            }
            return;
        }
        self.asked.insert(mac, (at, asker));
        for data in frames {
            let actions = vec![Action::output(at.port)];
            let message = PacketOut { buffer_id: NO_BUFFER, in_port: PortNo::CONTROLLER, actions, data };
            self.send(at.switch, Message::PacketOut(message));
        }
    }

    /// A host sent something from its port; whoever asked for it hears that.
    fn note_alive(&mut self, mac: Mac, at: Location) {
        if let Some((_, asker)) = self.asked.get(&mac).copied().filter(|(asked, _)| *asked == at) {
            self.asked.remove(&mac);
            self.post(asker, Letter::Alive { mac, at });
        }
    }

    /// A host that was looked for is where it was.
    pub(super) fn alive(&mut self, mac: Mac, at: Location) {
        let Some(pending) = self.moves.get_mut(&mac).filter(|pending| pending.from == at && !pending.refuted) else {
            return;
        };
        pending.refuted = true;
        pending.until = self.now + self.options.probe_timeout * 4;
        let seen = pending.to;
        self.report_once(Report::HostSpoofed { mac, at, seen }, &format!("spoofed {mac} {at} {seen}"));
    }

    /// A host had its time to answer.
    pub(super) fn probe_timer(&mut self, mac: Mac) {
        let Some(pending) = self.moves.get(&mac).copied() else { return };
        if pending.refuted || pending.until > self.now {
            return;
        }
        self.moves.remove(&mac);
        let host = self.store.snapshot().host(mac).cloned();
        if let Some(host) = host.filter(|host| host.location == pending.from) {
            let silent = host.ipv4.is_empty() && host.ipv6.is_empty();
            let why = if silent { MoveReason::Silent } else { MoveReason::NoAnswer };
            self.move_host(mac, pending.from, pending.to, why);
        }
    }

    fn move_host(&mut self, mac: Mac, from: Location, to: Location, why: MoveReason) {
        self.moves.remove(&mac);
        let mut moved = false;
        let commit = self.store.update(|state| {
            let is_edge = state.port(to).is_some_and(|port| port.kind == PortKind::Edge);
            match state.host(mac).filter(|host| host.location == from && is_edge) {
                Some(host) => {
                    moved = true;
                    vec![Write::Host { mac, info: Some(HostInfo { location: to, ..host.clone() }) }]
                }
                None => Vec::new(),
            }
        });
        self.apply(commit);
        if moved {
            self.last_seen.insert(mac, self.now);
            self.report(Report::HostMoved { mac, from, to, why });
        }
    }
}

/// The addresses that a packet shows its sender to have: ARP sender, IPv4 or IPv6 source.
pub(super) fn addresses(packet: &Packet<'_>) -> (Option<Ipv4Addr>, Option<Ipv6Addr>) {
    let v4 = packet.get(Field::ArpSpa).or_else(|| packet.get(Field::Ipv4Src)).map(|bits| Ipv4Addr::from(bits as u32));
    let v6 = packet.get(Field::Ipv6Src).map(Ipv6Addr::from);
    let v4 = v4.filter(|ip| !ip.is_unspecified() && !ip.is_multicast() && !ip.is_broadcast());
    let v6 = v6.filter(|ip| !ip.is_unspecified() && !ip.is_multicast());
    (v4, v6)
}

/// Frames that a host answers: one for its first address of each kind.
fn probes(mac: Mac, host: &HostInfo) -> Vec<Vec<u8>> {
    let ask = |ip: IpAddr| match ip {
        // From no address, as in duplicate address detection (RFC 5227): nobody's caches change.
        IpAddr::V4(ip) => Frame::ethernet(mac.0, PROBE_MAC.0).arp_request(Ipv4Addr::UNSPECIFIED, ip),
        IpAddr::V6(ip) => Frame::ethernet(mac.0, PROBE_MAC.0).neighbor_solicit(link_local(PROBE_MAC), ip),
    };
    let v4 = host.ipv4.first().map(|ip| IpAddr::V4(*ip));
    let v6 = host.ipv6.first().map(|ip| IpAddr::V6(*ip));
    v4.into_iter().chain(v6).map(ask).collect()
}

/// The link-local address that goes with a hardware address (RFC 4291, appendix A).
fn link_local(mac: Mac) -> Ipv6Addr {
    let b = mac.0;
    Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, b[0] ^ 2, b[1], b[2], 0xff, 0xfe, b[3], b[4], b[5]])
}
