//! Traffic: the counters of ports and rules as rates, by port and by pair of hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use maple_wire::msg::stats::PortStats;
use maple_wire::{Dpid, Field, Match, PortNo};

use super::Switches;
use crate::engine::context::Context;
use crate::engine::messages::event::RuleCount;
use crate::engine::one_switch::Switch;
use crate::engine::one_switch::cookies::{Subject, subject_of};
use crate::engine::one_switch::counters::polls::{CountedRule, StatisticsReading};
use crate::ids::{DependentId, LeafId, Time};
use crate::look_ups::SOURCE_IS_HERE;
use crate::network::{Location, Mac};
use crate::report::CounterKind;
use crate::state::Snapshot;
use crate::trace::{ReadMetadata, Source};

/// The value of a counter that the switch does not have (1.3 §7.3.5: all bits are set).
pub(in crate::engine) const UNCOUNTED: u64 = u64::MAX;

/// The counters of a port.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PortCount {
    /// The port.
    pub at: Location,
    /// The counters that the switch reported.
    pub counters: PortStats,
    /// The rates at which the port sent and received, between the two newest answers; `None` before the second.
    pub rates: Option<(Rate, Rate)>,
    /// The time when the switch answered.
    pub time: Time,
}

/// The packets from one host to another, counted by rules at the switch where they entered.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// The switch.
    pub switch: Dpid,
    /// The sender, if rules determine it.
    pub from: Party,
    /// The receiver, if rules determine it.
    pub to: Party,
    /// The packets counted by the present rules.
    pub packets: u64,
    /// The bytes counted by the present rules.
    pub bytes: u64,
    /// The rate between the two newest answers; `None` before the second.
    pub rate: Option<Rate>,
    /// The lines of the policy that made the decisions of these rules, in order; without those that are not known.
    pub lines: Vec<Source>,
    /// The time when the switch answered.
    pub time: Time,
}

/// The host or port that sends or receives packets, as far as rules determine it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    /// Any host.
    Any,
    /// The hosts at a port, several or none at the moment: decisions that rest on look-ups are for places, not for
    /// hosts.
    At(Location),
    /// A host. Where rules determine a port, it is the only one that is there at the moment.
    Host(Mac),
}

/// A rate of packets and of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// The number of packets per second.
    pub packets: f64,
    /// The number of bits per second.
    pub bits: f64,
}

impl Switches {
    /// Returns the counters of a switch's ports; empty before it was asked.
    pub fn port_counts(&self, dpid: Dpid) -> Vec<PortCount> {
        let Some(switch) = self.get(&dpid) else { return Vec::new() };
        let (Some(newest), before) = switch.counters.polls.readings(CounterKind::Ports) else { return Vec::new() };
        let mut counts: Vec<PortCount> = newest
            .ports
            .values()
            .map(|counters| {
                let rate = |packets: fn(&PortStats) -> u64, bytes: fn(&PortStats) -> u64| {
                    let before = before?;
                    let span = newest.at.0.saturating_sub(before.at.0);
                    let packets = growth(newest, before, counters.port, packets)?;
                    Some(Rate::over_span(packets, growth(newest, before, counters.port, bytes)?, span))
                };
                let sent = rate(|port| port.tx_packets, |port| port.tx_bytes);
                let received = rate(|port| port.rx_packets, |port| port.rx_bytes);
                let at = Location::new(dpid, counters.port);
                PortCount { at, counters: *counters, rates: sent.zip(received), time: newest.at }
            })
            .collect();
        counts.sort_by_key(|count| count.at);
        counts
    }

    /// Returns the counters of a switch's ingress rules, by pair of hosts; empty before it was asked. `line_of`: the
    /// line that made the decision of a leaf.
    pub fn traffic<'a>(
        &self,
        ctx: &Context,
        dpid: Dpid,
        line_of: impl Fn(LeafId) -> Option<&'a Source>,
    ) -> Vec<Traffic> {
        let Some(switch) = self.get(&dpid) else { return Vec::new() };
        let (Some(newest), before) = switch.counters.polls.readings(CounterKind::Rules) else { return Vec::new() };
        let span = before.map(|before| newest.at.0.saturating_sub(before.at.0));
        let state = ctx.store.snapshot();
        let parties = |matching: &Match| {
            let (from, to) = pair(&state, matching);
            let (from_at, to_at) = parties_looked_up(switch, &state, matching);
            (from.map_or(from_at, Party::Host), to.map_or(to_at, Party::Host))
        };
        let table = switch.ingress_table();
        let mut lines: BTreeMap<(Party, Party), BTreeSet<&Source>> = BTreeMap::new();
        let note_line = |pair: &(Party, Party), of: DependentId| {
            if let Some(line) = line_of(of.possible_leaf()) {
                lines.entry(*pair).or_default().insert(line);
            }
        };
        let all = traffic(parties, note_line, ctx.options.epoch, table, newest, before.map(|before| &**before));
        let measured = |((from, to), sum): ((Party, Party), CounterSum)| Traffic {
            switch: dpid,
            from,
            to,
            packets: sum.all.packets,
            bytes: sum.all.bytes,
            rate: span.map(|span| Rate::over_span(sum.grown.packets, sum.grown.bytes, span)),
            lines: lines.get(&(from, to)).into_iter().flatten().copied().cloned().collect(),
            time: newest.at,
        };
        let is_present = |(_, sum): &((Party, Party), CounterSum)| sum.has_rules;
        all.into_iter().filter(is_present).map(measured).collect()
    }

    /// Returns when a switch last answered with these counters.
    pub fn counted_at(&self, dpid: Dpid, what: CounterKind) -> Option<Time> {
        self.get(&dpid)?.counters.polls.readings(what).0.map(|reading| reading.at)
    }
}

impl Party {
    /// Returns these hosts: the only one, if there is one, and otherwise what stands for several.
    fn among(mut hosts: impl Iterator<Item = Mac>, several: Party) -> Party {
        match (hosts.next(), hosts.next()) {
            (Some(host), None) => Party::Host(host),
            _ => several,
        }
    }

    /// Returns the host, if it is one.
    pub fn host(self) -> Option<Mac> {
        match self {
            Party::Host(host) => Some(host),
            Party::Any | Party::At(_) => None,
        }
    }
}

impl Rate {
    fn over_span(packets: u64, bytes: u64, span: u64) -> Rate {
        let seconds = span as f64 / 1e9;
        let per_second = |number: u64| if span == 0 { 0.0 } else { number as f64 / seconds };
        Rate { packets: per_second(packets), bits: per_second(bytes) * 8.0 }
    }
}

/// The sender and the receiver, if rules match their addresses.
pub(in crate::engine) type Pair = (Option<Mac>, Option<Mac>);

/// The sum of some rules' counters, and its growth since an earlier answer.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::engine) struct CounterSum {
    /// Whether the newest answer has any of the rules.
    pub has_rules: bool,
    pub all: RuleCount,
    /// The minimum growth. It leaves out packets that a rule counted before it was replaced, and those that a switch
    /// has yet to add to its successor.
    pub grown: RuleCount,
    /// Whether a rule came or went since the earlier answer, so that the growth may be larger.
    pub is_changed: bool,
}

/// Sums the counters of the leaves' rules by what their matches say of sender and receiver. `see` is called for each
/// rule of the newest answer.
pub(in crate::engine) fn traffic<K: Ord>(
    parties: impl Fn(&Match) -> K,
    mut see: impl FnMut(&K, DependentId),
    epoch: u16,
    table: u8,
    now: &StatisticsReading,
    since: Option<&StatisticsReading>,
) -> BTreeMap<K, CounterSum> {
    let mut all: BTreeMap<K, CounterSum> = BTreeMap::new();
    let dependent = |of: u8, rule: &CountedRule| match subject_of(epoch, rule.count.cookie) {
        Some(Subject::Dependent(id)) if of == table => Some(id),
        _ => None,
    };
    for (key @ (of, entry), rule) in &now.rules {
        let Some(id) = dependent(*of, rule) else { continue };
        let parties = parties(&entry.matching());
        see(&parties, id);
        let sum = all.entry(parties).or_default();
        let before = since.and_then(|since| {
            since.rules.get(key).filter(|before| rule.continues(before, now.since(since))).map(|before| before.count)
        });
        let count = rule.count;
        sum.has_rules = true;
        sum.is_changed |= since.is_some() && before.is_none();
        let before = before.unwrap_or_default();
        sum.all.packets = sum.all.packets.saturating_add(count.packets);
        sum.all.bytes = sum.all.bytes.saturating_add(count.bytes);
        sum.grown.packets = sum.grown.packets.saturating_add(count.packets.saturating_sub(before.packets));
        sum.grown.bytes = sum.grown.bytes.saturating_add(count.bytes - before.bytes);
    }
    for (key @ (of, entry), rule) in since.into_iter().flat_map(|since| &since.rules) {
        if dependent(*of, rule).is_some() && now.rules.get(key).is_none_or(|now| now.count.cookie != rule.count.cookie)
        {
            all.entry(parties(&entry.matching())).or_default().is_changed = true;
        }
    }
    all
}

/// Returns the hosts that a match determines: by hardware address, or by an IP address that a host has announced.
pub(in crate::engine) fn pair(state: &Snapshot, matching: &Match) -> Pair {
    let value = |field: Field| {
        let mut all = matching.constraints().filter(|constraint| constraint.field == field);
        all.find(|constraint| constraint.mask == field.full_mask()).map(|constraint| constraint.value)
    };
    let host = |eth, v4, arp, v6| {
        let by_v4 = || [v4, arp].into_iter().find_map(value).map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits as u32)));
        let by_v6 = || value(v6).map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits)));
        let by_ip = || by_v4().or_else(by_v6).and_then(|ip| state.host_by_ip(ip));
        value(eth).map(Mac::from_bits).or_else(by_ip)
    };
    (
        host(Field::EthSrc, Field::Ipv4Src, Field::ArpSpa, Field::Ipv6Src),
        host(Field::EthDst, Field::Ipv4Dst, Field::ArpTpa, Field::Ipv6Dst),
    )
}

/// Returns sender and receiver, as far as a rule was made for what look-ups found of them.
fn parties_looked_up(switch: &Switch, state: &Snapshot, matching: &Match) -> (Party, Party) {
    let Some(metadata) = matching.get(Field::Metadata) else { return (Party::Any, Party::Any) };
    let metadata = ReadMetadata { value: metadata.value as u64, mask: metadata.mask as u64 };
    let hosts_at = |at| Party::among(state.hosts_at(at), Party::At(at));
    let port = matching.get(Field::InPort).filter(|port| port.is_exact());
    let from = match port.map(|port| Location::new(switch.dpid(), PortNo(port.value as u32))) {
        _ if metadata.mask & metadata.value & SOURCE_IS_HERE == 0 => Party::Any,
        Some(at) => hosts_at(at),
        None => Party::among(state.hosts_of(switch.dpid()), Party::Any),
    };
    let to = switch.ingress.look_ups.place(Field::EthDst, metadata).map_or(Party::Any, hosts_at);
    (from, to)
}

/// Returns the growth of a port's counter since an earlier reading. `None` if the port does not count, or has started
/// again: its counters are lower, or it is younger (1.3).
pub(in crate::engine) fn growth(
    now: &StatisticsReading,
    since: &StatisticsReading,
    port: PortNo,
    count: impl Fn(&PortStats) -> u64,
) -> Option<u64> {
    let (now, since) = (now.ports.get(&port)?, since.ports.get(&port)?);
    let is_another = now.duration_sec < since.duration_sec || count(now) == UNCOUNTED;
    if is_another { None } else { count(now).checked_sub(count(since)) }
}
