//! Tracks where hosts are and which addresses they own. This is the part of a shard that anyone at an edge port can
//! reach.
//!
//! # What
//!
//! [`Hosts`] learns from what hosts send at edge ports ([`Hosts::on_packet`]), and reports whether a packet is
//! accepted. The policy reads tracked state about hosts, which is in the store. This part keeps only what it needs
//! itself: when a host was last active, what it announced and when, and which hosts are being searched for. It writes
//! and sends nothing. It returns what is to be done ([`HostAction`]), and the engine does it
//! (`engine/topology/host_actions.rs`).
//!
//! The shard of the switch where a host is keeps track of that host. Any write that changes the hosts there is reported
//! to that shard ([`Hosts::on_arrival`], [`Hosts::on_departure`]).
//!
//! # Rules
//!
//! * *Location.* If a known host's address appears at another port, the host has moved or the packet is forged. It is a
//!   move if the old port is gone, or if the host neither answers nor sends anything there (`search.rs`). Until that is
//!   known, packets from the new port are dropped. One frame never takes over a live host's location. A host with a
//!   declared place never moves (`declared.rs`).
//! * *Addresses.* A host owns the addresses that it announces, not those that its packets carry (`announced.rs`): the
//!   packets that a router forwards carry addresses from everywhere. The last host that announced an address owns it.
//! * *Bounds.* A port and a switch have a maximum number of hosts (`flooding.rs`). A sender of more addresses than that
//!   gets no service for the new ones, at that port only. Silent hosts are forgotten (`ageing.rs`).
//!
//! # Cost
//!
//! A packet of a known host costs one look-up in the snapshot and one here. The size of every collection is bounded by
//! the number of hosts, which is bounded, or by a constant for each port.

mod ageing;
mod announced;
mod claims;
mod declared;
mod flaps;
mod flooding;
mod probe;
mod search;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use maple_wire::{Dpid, PortNo};

use crate::engine::context::options::Options;
use crate::engine::context::timers::Timer;
use crate::engine::messages::mail::SearchResult;
use crate::engine::tools::expected::Expected;
use crate::ids::{ShardId, Time};
use crate::network::{Facts, HostInfo, Location, Mac, PROBE_MAC, PortKind};
use crate::report::{MoveReason, Report};
use crate::state::Snapshot;
use claims::Claims;
use declared::ReportedSenders;
use flooding::Flooding;
use search::Search;

pub(in crate::engine) use announced::{announcement, is_announcement};
pub(in crate::engine) use flaps::{RECENTLY_UP, hosts_to_ask_for, probe_host};

/// An action that the engine is to carry out for hosts.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::engine) enum HostAction {
    /// Add a host that was seen for the first time.
    Learn { mac: Mac, at: Location, ip: Option<IpAddr> },
    /// Give a host an address that it announced. If it has too many, take the address `instead` from it.
    Bind { mac: Mac, at: Location, ip: IpAddr, instead: Option<IpAddr> },
    /// Take an address from a host: the host has not announced it for long, and does not answer for it.
    Unbind { mac: Mac, at: Location, ip: IpAddr },
    /// Move a host.
    Move { mac: Mac, from: Location, to: Location, why: MoveReason },
    /// Forget a host that was silent for long, or that has to give way to another.
    Forget { mac: Mac, at: Location },
    /// Make the shard of this location find out whether the host is there. `named` is the address that the host
    /// announced elsewhere.
    Find { mac: Mac, at: Location, named: Option<IpAddr> },
    /// Report the result of a search to a shard.
    ReportSearch { to: ShardId, mac: Mac, at: Location, found: SearchResult },
    /// Send a frame out of a port.
    Emit { at: Location, frame: Vec<u8> },
    /// Ask a switch for the packet counters of its rules for this port's hosts, or for one host.
    Count { at: Location, mac: Option<Mac> },
    /// Make a switch drop the packets of unknown hosts at this port, or stop doing so.
    Guard { at: Location, on: bool },
    /// Make a switch stop copying what a host announces, or start again.
    Mute { mac: Mac, at: Location, on: bool },
    /// Call back at this time.
    Wake(Time, Timer),
    /// Publish a report.
    Report(Report),
}

/// Whether a packet's source is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum SourceCheck {
    /// The host is where the packet came from.
    Accepted,
    /// The host is at another port, as far as is known.
    Elsewhere,
    /// The host exceeds the maximum.
    TooManyHosts,
}

/// The sender of a packet at an edge port.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Sender {
    pub mac: Mac,
    pub at: Location,
    /// The address that the packet announces as its sender's own.
    pub announces: Option<IpAddr>,
}

/// The limits for hosts, from the engine's options.
#[derive(Clone, Copy, Debug)]
struct Limits {
    per_port: usize,
    per_switch: usize,
    timeout: Duration,
    probe_timeout: Duration,
    silence: Duration,
}

/// The hosts at the switches of a shard.
#[derive(Debug)]
pub(in crate::engine) struct Hosts {
    limits: Limits,
    facts: Arc<Facts>,
    /// The senders with the source of a host that has a fixed place elsewhere, and the senders that announce an address
    /// of another host, as far as they were reported.
    misplaced: ReportedSenders,
    foreign: ReportedSenders,
    /// The hosts at this shard's switches.
    known: BTreeMap<(Location, Mac), HostRecord>,
    /// The number of hosts at each switch, and at each port.
    per_switch: BTreeMap<Dpid, usize>,
    per_port: BTreeMap<Location, usize>,
    /// The ports with too many hosts.
    flooding: Flooding,
    /// The hosts that are known elsewhere, at any shard, and seem to be at ports of this shard.
    claims: Claims,
    /// The hosts of this shard that are being searched for.
    searches: BTreeMap<Mac, Search>,
    /// The hosts that will be forgotten if they stay silent.
    expiring: BTreeSet<Mac>,
    /// The switches whose hosts are checked for silent ones.
    rounds: BTreeMap<Dpid, ageing::AgeingRound>,
    /// The open requests for statistics, by switch and transaction id.
    counts: BTreeMap<(Dpid, u32), ageing::CounterRequest>,
}

/// The knowledge of a host in addition to the tracked state.
#[derive(Debug)]
struct HostRecord {
    /// The time when the host was last known to be active.
    last_active: Time,
    /// The number of packets that the host's rules had counted at the last reading.
    counted: Option<u64>,
    /// The addresses that the host announced, with the time, the latest last.
    announced: Vec<(IpAddr, Time)>,
    /// The start of the current second of counting announcements, and their number since.
    pace: (Time, u32),
    /// Whether the host's announcements are not copied for a while.
    muted: bool,
    /// Whether a report has said that the host has too many addresses.
    reported: bool,
}

/// The maximum number of IPv4 and of IPv6 addresses of a host. Chosen: more than a host has with its temporary IPv6
/// addresses (RFC 8981), and a bound on what a forger can announce.
const MAX_ADDRESSES: usize = 16;

/// A period, and the maximum number of announcements of a host that count in it. Further ones change nothing. Chosen: a
/// host announces all its addresses at once when it joins; each one that counts may change the state.
const ANNOUNCEMENT_LIMIT: (Duration, u32) = (Duration::from_secs(1), 20);

/// The time for which the announcements of a host that made too many are not copied. Chosen: the host costs the
/// controller a burst every ten seconds, and is heard again soon if it was an accident.
const MUTE_DURATION: Duration = Duration::from_secs(10);

impl HostRecord {
    fn new(now: Time, addresses: impl IntoIterator<Item = IpAddr>) -> HostRecord {
        let announced = addresses.into_iter().map(|ip| (ip, now)).collect();
        HostRecord { last_active: now, counted: None, announced, pace: (now, 0), muted: false, reported: false }
    }

    /// Returns the oldest address of the same IP version, if the host has the maximum number of them.
    fn oldest_like(&self, ip: IpAddr) -> Option<IpAddr> {
        let alike = || self.announced.iter().map(|(other, _)| *other).filter(|other| other.is_ipv4() == ip.is_ipv4());
        if alike().count() >= MAX_ADDRESSES { alike().next() } else { None }
    }

    /// Counts an announcement. Returns whether it is within the limit.
    fn count_announcement(&mut self, now: Time) -> bool {
        if self.pace.0 + ANNOUNCEMENT_LIMIT.0 <= now {
            self.pace = (now, 0);
        }
        self.pace.1 = self.pace.1.saturating_add(1);
        self.pace.1 <= ANNOUNCEMENT_LIMIT.1
    }
}

impl Hosts {
    /// Starts without hosts.
    pub fn new(options: &Options) -> Hosts {
        let limits = Limits {
            per_port: options.max_hosts_per_port,
            per_switch: options.max_hosts,
            timeout: options.host_timeout,
            probe_timeout: options.probe_timeout,
            silence: options.silence,
        };
        Hosts {
            limits,
            facts: Arc::clone(&options.facts),
            misplaced: ReportedSenders::default(),
            foreign: ReportedSenders::default(),
            known: BTreeMap::new(),
            per_switch: BTreeMap::new(),
            per_port: BTreeMap::new(),
            flooding: Flooding::default(),
            claims: Claims::default(),
            searches: BTreeMap::new(),
            expiring: BTreeSet::new(),
            rounds: BTreeMap::new(),
            counts: BTreeMap::new(),
        }
    }

    /// Handles a packet that came in at an edge port. Returns whether its source is accepted.
    pub fn on_packet(&mut self, now: Time, state: &Snapshot, sender: Sender, out: &mut Vec<HostAction>) -> SourceCheck {
        let Sender { mac, at, .. } = sender;
        if !mac.is_host() {
            return SourceCheck::Accepted;
        }
        // Only this controller uses this address.
        if mac == PROBE_MAC {
            return SourceCheck::Elsewhere;
        }
        if self.report_if_misplaced(sender, out) {
            return SourceCheck::Elsewhere;
        }
        let is_announcement = sender.announces.is_some();
        let sender = self.without_foreign_address(sender, out);
        let announces = sender.announces;
        match state.host(mac).map(|host| host.location) {
            None if !self.admit(now, mac, at, out) => SourceCheck::TooManyHosts,
            None => {
                self.insert(now, at, mac, announces, out);
                out.push(HostAction::Learn { mac, at, ip: announces });
                SourceCheck::Accepted
            }
            Some(place) if place == at => {
                self.on_sign_of_life(now, state, sender, is_announcement, out);
                SourceCheck::Accepted
            }
            // A declaration outweighs everything that is known.
            Some(from) if self.is_in_fixed_place(mac, at) => {
                out.push(HostAction::Move { mac, from, to: at, why: MoveReason::Declared });
                SourceCheck::Accepted
            }
            Some(from) if is_usable(state, from) => {
                let is_anothers = |ip: &IpAddr| state.host_by_ip(*ip).is_some_and(|owner| owner != mac);
                let named = announces.filter(|ip| !is_anothers(ip));
                self.on_claim(now, Sender { announces: named, ..sender }, from, out);
                SourceCheck::Elsewhere
            }
            Some(_) if !self.admit(now, mac, at, out) => SourceCheck::TooManyHosts,
            Some(from) => {
                out.push(HostAction::Move { mac, from, to: at, why: MoveReason::PortGone });
                SourceCheck::Accepted
            }
        }
    }

    /// Notes that a host is active where it was. The announcement of another host's address counts as an announcement,
    /// too.
    fn on_sign_of_life(
        &mut self,
        now: Time,
        state: &Snapshot,
        sender: Sender,
        is_announcement: bool,
        out: &mut Vec<HostAction>,
    ) {
        let Sender { mac, at, announces } = sender;
        if !self.known.contains_key(&(at, mac)) {
            self.insert(now, at, mac, state.host(mac).into_iter().flat_map(HostInfo::addresses), out);
        }
        self.expiring.remove(&mac);
        self.on_host_alive(now, mac, at, out);
        let Some(known) = self.known.get_mut(&(at, mac)).expected() else { return };
        known.last_active = now;
        if !is_announcement {
            return;
        }
        if !known.count_announcement(now) {
            if !std::mem::replace(&mut known.muted, true) {
                out.push(HostAction::Mute { mac, at, on: true });
                out.push(HostAction::Wake(now + MUTE_DURATION, Timer::Muted(at, mac)));
            }
            return;
        }
        let Some(ip) = announces else { return };
        let is_new = known.announced.extract_if(.., |(other, _)| *other == ip).count() == 0;
        let instead = known.oldest_like(ip).filter(|_| is_new);
        known.announced.retain(|(other, _)| Some(*other) != instead);
        known.announced.push((ip, now));
        if instead.is_some() && !std::mem::replace(&mut known.reported, true) {
            out.push(HostAction::Report(Report::TooManyAddresses { mac, at, most: MAX_ADDRESSES }));
        }
        if state.host_by_ip(ip) != Some(mac) || instead.is_some() {
            out.push(HostAction::Bind { mac, at, ip, instead });
        }
    }

    /// Lets the announcements of a host be copied again.
    pub fn on_muted_timer(&mut self, at: Location, mac: Mac, out: &mut Vec<HostAction>) {
        if let Some(known) = self.known.get_mut(&(at, mac))
            && std::mem::take(&mut known.muted)
        {
            out.push(HostAction::Mute { mac, at, on: false });
        }
    }

    /// Notes a host that the store reports at a switch of this shard.
    pub fn on_arrival(&mut self, now: Time, state: &Snapshot, mac: Mac, at: Location, out: &mut Vec<HostAction>) {
        if !self.known.contains_key(&(at, mac)) {
            self.insert(now, at, mac, state.host(mac).into_iter().flat_map(HostInfo::addresses), out);
        }
    }

    /// Forgets a host that has left this location, as the store reports.
    pub fn on_departure(&mut self, mac: Mac, at: Location) {
        if self.known.remove(&(at, mac)).is_some() {
            count_down(&mut self.per_switch, at.switch);
            count_down(&mut self.per_port, at);
        }
        self.expiring.remove(&mac);
        if self.searches.get(&mac).is_some_and(|search| search.at() == at) {
            self.searches.remove(&mac);
        }
    }

    /// Forgets a switch and its hosts.
    pub fn forget_switch(&mut self, dpid: Dpid) {
        let gone: Vec<(Location, Mac)> = self.at_ports_of(dpid).map(|(key, _)| *key).collect();
        gone.into_iter().for_each(|(at, mac)| self.on_departure(mac, at));
        self.claims.forget_switch(dpid);
        self.misplaced.forget_switch(dpid);
        self.foreign.forget_switch(dpid);
        self.flooding.forget_switch(dpid);
        self.rounds.remove(&dpid);
        self.counts.retain(|(of, _), _| *of != dpid);
    }

    /// Suspends the ageing of a switch's hosts, which can't be seen because the switch has no connection.
    pub fn suspend_switch(&mut self, dpid: Dpid) {
        self.rounds.remove(&dpid);
        self.counts.retain(|(of, _), _| *of != dpid);
        let here: Vec<Mac> = self.at_ports_of(dpid).map(|((_, mac), _)| *mac).collect();
        here.iter().for_each(|mac| _ = self.expiring.remove(mac));
    }

    /// Resumes the ageing of the hosts of a switch that has a connection again. Their ages begin anew.
    pub fn resume_switch(&mut self, now: Time, dpid: Dpid, out: &mut Vec<HostAction>) {
        self.renew(now, |at| at.switch == dpid);
        if self.per_switch.contains_key(&dpid) {
            self.begin_rounds(now, dpid, out);
        }
    }

    /// Corrects all times after the controller stood still and was late by `late`: the ages of all hosts begin anew,
    /// and searches have that time in addition.
    pub fn on_standstill(&mut self, now: Time, late: Duration) {
        self.renew(now, |_| true);
        self.searches.values_mut().for_each(|search| search.postpone(late));
    }

    /// Lets the ages of these hosts, and of what they announced, begin anew.
    fn renew(&mut self, now: Time, which: impl Fn(Location) -> bool) {
        for (_, known) in self.known.iter_mut().filter(|((at, _), _)| which(*at)) {
            known.last_active = now;
            known.announced.iter_mut().for_each(|(_, since)| *since = now);
        }
    }

    /// Forgets what is known of a port, because it is a different one now.
    pub fn forget_port(&mut self, at: Location) {
        self.claims.forget_port(at);
        self.misplaced.forget_port(at);
        self.foreign.forget_port(at);
        self.flooding.forget_port(at);
    }

    /// Reports whether a search or the ageing waits for a packet of this host.
    pub fn awaits(&self, mac: Mac) -> bool {
        let awaited = || self.searches.get(&mac).is_some_and(Search::is_open) || self.expiring.contains(&mac);
        !(self.searches.is_empty() && self.expiring.is_empty()) && awaited()
    }

    fn insert(
        &mut self,
        now: Time,
        at: Location,
        mac: Mac,
        addresses: impl IntoIterator<Item = IpAddr>,
        out: &mut Vec<HostAction>,
    ) {
        if self.known.insert((at, mac), HostRecord::new(now, addresses)).is_none() {
            *self.per_switch.entry(at.switch).or_default() += 1;
            *self.per_port.entry(at).or_default() += 1;
        }
        self.begin_rounds(now, at.switch, out);
    }

    /// Returns the hosts at the ports of a switch.
    fn at_ports_of(&self, dpid: Dpid) -> impl Iterator<Item = (&(Location, Mac), &HostRecord)> {
        let first = (Location::new(dpid, PortNo(0)), Mac([0; 6]));
        let last = (Location::new(dpid, PortNo(u32::MAX)), Mac([0xff; 6]));
        self.known.range(first..=last)
    }

    /// Returns the hosts at a port.
    fn at_port(&self, at: Location) -> impl Iterator<Item = (Mac, &HostRecord)> {
        self.known.range((at, Mac([0; 6]))..=(at, Mac([0xff; 6]))).map(|((_, mac), known)| (*mac, known))
    }

    /// Returns the number of items kept, of all kinds together.
    pub fn size(&self) -> usize {
        let announced: usize = self.known.values().map(|known| known.announced.len()).sum();
        let rest =
            self.expiring.len() + self.rounds.len() + self.counts.len() + self.per_switch.len() + self.per_port.len();
        self.known.len()
            + announced
            + self.misplaced.size()
            + self.foreign.size()
            + self.claims.size()
            + self.flooding.size()
            + self.searches.len()
            + rest
    }
}

/// Subtracts one, and removes a count of zero.
fn count_down<K: Ord + Copy>(counts: &mut BTreeMap<K, usize>, key: K) {
    if let Some(count) = counts.get_mut(&key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&key);
        }
    }
}

/// Reports whether hosts can be at a location.
fn is_usable(state: &Snapshot, at: Location) -> bool {
    state.shard_of(at.switch).is_some() && state.port(at).is_some_and(|port| port.up && port.kind == PortKind::Edge)
}

#[cfg(test)]
mod tests;
