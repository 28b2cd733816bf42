//! Counters of switches become rates in the tracked state, where f asks for them, and tables for people who watch
//! ([`super::polls`] has when switches are asked).

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use maple_wire::msg::Message;
use maple_wire::msg::stats::{FlowStatsRequest, PortStats, RequestBody, StatsReply, StatsRequest};
use maple_wire::{Dpid, Field, Match, Port, PortNo, Version};

use super::event::EngineMessage;
use super::leaf::{Subject, subject_of};
use super::polls::{CompleteAnswer, Reading, RuleCount};
use super::switch::{CLASSIFIER, INGRESS, Switch};
use super::timers::Timer;
use super::{Effect, Engine, ShardId, Time};
use crate::network::{Gauge, LinkName, Location, Mac, Scale, UTILISATION};
use crate::report::Counted;
use crate::report::Report;
use crate::state::{Snapshot, Write};

/// How soon it is looked for whose counters f wants, after it began to want any.
const LOOK: Duration = Duration::from_millis(100);
/// It is looked for no more often than this: what somebody wants may come and go all the time.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// First polls of a shard's switches are so far apart.
const SPREAD: Duration = Duration::from_millis(10);
/// When a switch that was busy is looked at again, if its barrier did not come before.
const BUSY_RETRY: Duration = Duration::from_millis(100);
/// What a switch says that does not count something.
const UNCOUNTED: u64 = u64::MAX;

/// How far this shard has followed what f wants measured.
#[derive(Debug, Default)]
pub(super) struct Demand {
    seen: u64,
    is_armed: bool,
    /// When it was looked for last.
    looked: Option<Time>,
}

/// What went through a port.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PortCount {
    /// The port.
    pub at: Location,
    /// What the switch counted.
    pub counters: PortStats,
    /// What it sent and what it received a second, between the two newest answers; `None` before the second.
    pub rates: Option<(Rate, Rate)>,
    /// When the switch said so.
    pub time: Time,
}

/// What packets from one host to another came to, by the rules of where they entered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    /// The switch.
    pub switch: Dpid,
    /// Who sent them; `None`: rules that don't say.
    pub from: Option<Mac>,
    /// Who they were for; `None`: rules that don't say.
    pub to: Option<Mac>,
    /// What the rules have counted that are there now.
    pub packets: u64,
    /// The same in bytes.
    pub bytes: u64,
    /// What that was a second, between the two newest answers; `None` before the second.
    pub rate: Option<Rate>,
    /// When the switch said so.
    pub time: Time,
}

/// So much a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// Packets a second.
    pub packets: f64,
    /// Bits a second.
    pub bits: f64,
}

impl Engine {
    /// Sees in time that somebody wants something measured.
    pub(super) fn follow_demand(&mut self) {
        if self.is_behind_demand() {
            let soon = self.now + LOOK;
            self.demand.is_armed = true;
            let at = self.demand.looked.map_or(soon, |looked| soon.max(looked + LOOK_AGAIN));
            self.timers.insert((at, Timer::Demand));
        }
    }

    /// Whether somebody wants something measured and the engine has not noticed, as nothing happens at its switches: then it
    /// wants an [`super::Event::Tick`].
    pub fn is_behind_demand(&self) -> bool {
        !self.demand.is_armed && self.demand.seen != self.store.measurings()
    }

    /// Looks whose counters f wants, and has other shards look: theirs may be the switches.
    pub(super) fn look_for_wanted(&mut self) {
        self.demand = Demand { seen: self.store.measurings(), is_armed: false, looked: Some(self.now) };
        let dpids: Vec<Dpid> = self.switches.keys().copied().collect();
        for (position, dpid) in (0u32..).zip(dpids) {
            let spread = (SPREAD * position).min(self.options.poll);
            self.want(dpid, self.now + spread);
            self.plan_poll(dpid);
        }
        let (state, me) = (self.store.snapshot(), self.shard);
        let shards: BTreeSet<ShardId> = state.switches().map(|(_, info)| info.shard).collect();
        shards.into_iter().filter(|to| *to != me).for_each(|to| self.send_to_shard(to, EngineMessage::LoadsAreRead));
    }

    fn want(&mut self, dpid: Dpid, from: Time) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        switch.polls.want(Counted::Ports, self.store.wanted_of_ports(dpid), from);
        switch.polls.want(Counted::Rules, self.store.wanted_of_rules(dpid), from);
    }

    /// Somebody watches.
    pub(super) fn watch(&mut self, dpid: Dpid, what: Counted) {
        let now = self.now;
        if let Some(switch) = self.switches.get_mut(&dpid) {
            switch.polls.watch(now, what);
            self.plan_poll(dpid);
        }
    }

    /// Asks the switch, or sees to it that it is asked in time.
    fn plan_poll(&mut self, dpid: Dpid) {
        let (now, period) = (self.now, self.options.poll);
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        match switch.polls.next(now, period) {
            Some((due, _)) if due <= now => self.poll(dpid),
            Some((due, _)) if switch.polls.timer.is_none_or(|timer| timer <= now || due < timer) => {
                switch.polls.timer = Some(due);
                self.timers.insert((due, Timer::Poll(dpid)));
            }
            Some(_) | None => {}
        }
    }

    /// Asks the switch if it is time and the switch is not busy.
    pub(super) fn poll(&mut self, dpid: Dpid) {
        let (now, period) = (self.now, self.options.poll);
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let what = match switch.polls.next(now, period) {
            Some((due, what)) if due <= now => what,
            Some(_) => return self.plan_poll(dpid),
            None => return,
        };
        if switch.tables.is_unconfirmed() || self.dirty.contains(&dpid) {
            self.stats.polls_postponed += u64::from(!switch.polls.is_postponed);
            switch.polls.is_postponed = true;
            self.timers.insert((now + BUSY_RETRY, Timer::Poll(dpid)));
            return;
        }
        let xid = switch.tables.take_xid();
        switch.polls.on_asked(now, xid, what);
        self.stats.polls += 1;
        let message = Message::StatsRequest(StatsRequest::new(request(what)));
        self.after.push(Effect::Poll { dpid, xid, message });
    }

    /// The switch has confirmed what it was busy with.
    pub(super) fn poll_postponed(&mut self, dpid: Dpid) {
        if self.switches.get(&dpid).is_some_and(|switch| switch.polls.is_postponed) {
            self.poll(dpid);
        }
    }

    /// Whether a request was a poll.
    pub(super) fn is_poll(&self, dpid: Dpid, xid: u32) -> bool {
        self.switches.get(&dpid).is_some_and(|switch| switch.polls.is_answer(xid))
    }

    /// An answer, or a part of it.
    pub(super) fn polled(&mut self, dpid: Dpid, reply: &StatsReply) {
        if !reply.more() {
            self.want(dpid, self.now);
        }
        let (now, period) = (self.now, self.options.poll);
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        if let Some(whole) = switch.polls.on_answer(now, period, reply) {
            self.take_rates(dpid, &whole);
            self.plan_poll(dpid);
        }
    }

    /// The switch refuses to tell.
    pub(super) fn poll_refused(&mut self, dpid: Dpid) {
        self.want(dpid, self.now);
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let (forget, news) = switch.polls.on_refused();
        let commit = self.store.update(|_| forget.iter().map(|gauge| forgotten(*gauge)).collect());
        self.apply(commit);
        if let Some(what) = news {
            self.report(Report::CountersRefused { switch: dpid, what });
        }
        self.plan_poll(dpid);
    }

    /// Too much waits for the switch already.
    pub(super) fn poll_unsent(&mut self, dpid: Dpid, xid: u32) {
        if self.is_poll(dpid, xid) {
            self.stats.polls_postponed += 1;
            self.switches.get_mut(&dpid).into_iter().for_each(|switch| switch.polls.on_unsent());
            self.plan_poll(dpid);
        }
    }

    /// Writes what f wants to know of an answer.
    fn take_rates(&mut self, dpid: Dpid, whole: &CompleteAnswer) {
        let Some(switch) = self.switches.get(&dpid) else { return };
        let table = ingress_table(switch);
        let epoch = self.options.epoch;
        let by_use = self.store.wants_use_of_links();
        let commit = self.store.update(|state| {
            let mut writes: Vec<Write> = whole.forget.iter().map(|gauge| forgotten(*gauge)).collect();
            writes.extend(whole.forget.iter().filter_map(|gauge| utilisation_cost(state, *gauge, None)));
            let Some(since) = &whole.since else { return writes };
            let span = whole.reading.at.0.saturating_sub(since.at.0);
            let traffic = match whole.what {
                Counted::Rules => traffic(state, epoch, table, &whole.reading, Some(since)),
                Counted::Ports => BTreeMap::new(),
            };
            for gauge in &whole.measure {
                let bytes = match gauge {
                    Gauge::Sent(at) => grown(&whole.reading, since, at.port, |port| port.tx_bytes),
                    Gauge::Received(at) => grown(&whole.reading, since, at.port, |port| port.rx_bytes),
                    Gauge::Traffic { from, to } => {
                        Some(traffic.get(&(Some(*from), Some(*to))).map_or(0, |sum| sum.grown.bytes))
                    }
                };
                let Some(bytes) = bytes else { continue };
                let rate = per_second(bytes.saturating_mul(8), span);
                writes.push(Write::Rate { gauge: *gauge, rate: Some(rate) });
                writes.extend(utilisation_cost(state, *gauge, by_use.then_some(rate)));
            }
            writes
        });
        self.apply(commit);
    }

    /// What the ports of a switch have counted; empty before it was asked.
    pub fn port_counts(&self, dpid: Dpid) -> Vec<PortCount> {
        let Some(switch) = self.switches.get(&dpid) else { return Vec::new() };
        let (Some(newest), before) = switch.polls.readings(Counted::Ports) else { return Vec::new() };
        let mut counts: Vec<PortCount> = newest
            .ports
            .values()
            .map(|counters| {
                let rate = |packets: fn(&PortStats) -> u64, bytes: fn(&PortStats) -> u64| {
                    let before = before?;
                    let span = newest.at.0.saturating_sub(before.at.0);
                    let packets = grown(newest, before, counters.port, packets)?;
                    Some(Rate::of(packets, grown(newest, before, counters.port, bytes)?, span))
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

    /// What the rules of a switch for packets that enter there have counted, by hosts; empty before it was asked.
    pub fn traffic(&self, dpid: Dpid) -> Vec<Traffic> {
        let Some(switch) = self.switches.get(&dpid) else { return Vec::new() };
        let (Some(newest), before) = switch.polls.readings(Counted::Rules) else { return Vec::new() };
        let span = before.map(|before| newest.at.0.saturating_sub(before.at.0));
        let state = self.store.snapshot();
        let all = traffic(&state, self.options.epoch, ingress_table(switch), newest, before.map(|before| &**before));
        let of = |((from, to), sum): (Pair, CounterSum)| Traffic {
            switch: dpid,
            from,
            to,
            packets: sum.all.packets,
            bytes: sum.all.bytes,
            rate: span.map(|span| Rate::of(sum.grown.packets, sum.grown.bytes, span)),
            time: newest.at,
        };
        all.into_iter().map(of).collect()
    }

    /// When a switch last said what it has counted.
    pub fn counted_at(&self, dpid: Dpid, what: Counted) -> Option<Time> {
        self.switches.get(&dpid)?.polls.readings(what).0.map(|reading| reading.at)
    }

    /// The switches that this shard serves, in order.
    pub fn switches(&self) -> impl Iterator<Item = Dpid> + '_ {
        self.switches.keys().copied()
    }
}

impl Rate {
    fn of(packets: u64, bytes: u64, span: u64) -> Rate {
        let seconds = span as f64 / 1e9;
        let per_second = |number: u64| if span == 0 { 0.0 } else { number as f64 / seconds };
        Rate { packets: per_second(packets), bits: per_second(bytes) * 8.0 }
    }
}

/// Who sends, and to whom, where rules say so.
type Pair = (Option<Mac>, Option<Mac>);

/// What rules have counted, and how much of it since an earlier answer.
#[derive(Clone, Copy, Debug, Default)]
struct CounterSum {
    all: RuleCount,
    grown: RuleCount,
}

/// What a link costs by how much of it is used, once this rate of the port that it leaves by is measured too, if that is news.
fn utilisation_cost(state: &Snapshot, gauge: Gauge, rate: Option<u64>) -> Option<Write> {
    let Gauge::Sent(at) = gauge else { return None };
    let to = state.peer(at)?.switch;
    let step = rate.zip(state.speed(at)).map_or(0, |(rate, speed)| {
        let mut history = state.rate(&gauge).cloned().unwrap_or_default();
        history.push(rate);
        history.step(Scale::TenthsOf(speed))
    });
    let cost = 1 + u64::from(step);
    let write = || Write::Cost {
        name: UTILISATION.into(),
        link: LinkName::Port(at),
        cost: Some(cost).filter(|cost| *cost > 1),
    };
    (state.cost(UTILISATION, at, to) != cost).then(write)
}

fn forgotten(gauge: Gauge) -> Write {
    Write::Rate { gauge, rate: None }
}

fn request(what: Counted) -> RequestBody {
    match what {
        Counted::Ports => RequestBody::Port(PortNo::ANY),
        Counted::Rules => RequestBody::Flow(FlowStatsRequest::all()),
    }
}

/// The table that has the leaves' rules.
fn ingress_table(switch: &Switch) -> u8 {
    if switch.three_tables { INGRESS } else { CLASSIFIER }
}

/// How much a port has counted since; `None` where it did not, or began anew.
fn grown(now: &Reading, since: &Reading, port: PortNo, count: impl Fn(&PortStats) -> u64) -> Option<u64> {
    let (now, since) = (count(now.ports.get(&port)?), count(since.ports.get(&port)?));
    if now == UNCOUNTED { None } else { now.checked_sub(since) }
}

fn per_second(number: u64, nanoseconds: u64) -> u64 {
    let per_second = u128::from(number) * 1_000_000_000 / u128::from(nanoseconds.max(1));
    u64::try_from(per_second).unwrap_or(u64::MAX)
}

/// What the rules of leaves have counted, by the hosts that they say.
fn traffic(
    state: &Snapshot,
    epoch: u16,
    table: u8,
    now: &Reading,
    since: Option<&Reading>,
) -> BTreeMap<Pair, CounterSum> {
    let mut all: BTreeMap<Pair, CounterSum> = BTreeMap::new();
    for (key @ (of, entry), count) in &now.rules {
        if *of != table || !matches!(subject_of(epoch, count.cookie), Some(Subject::Leaf(_))) {
            continue;
        }
        let sum = all.entry(pair(state, &entry.matching())).or_default();
        // One that is not as it was, or has counted less, is new since.
        let before = since.and_then(|since| since.rules.get(key)).copied();
        let before = before.filter(|before| before.cookie == count.cookie && before.bytes <= count.bytes);
        let before = before.unwrap_or_default();
        sum.all.packets = sum.all.packets.saturating_add(count.packets);
        sum.all.bytes = sum.all.bytes.saturating_add(count.bytes);
        sum.grown.packets = sum.grown.packets.saturating_add(count.packets.saturating_sub(before.packets));
        sum.grown.bytes = sum.grown.bytes.saturating_add(count.bytes - before.bytes);
    }
    all
}

/// The hosts that a match says: by hardware, or by IP addresses that hosts have announced.
fn pair(state: &Snapshot, matching: &Match) -> Pair {
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

/// What a port can send, in bit/s, if the switch says so.
pub(super) fn speed(version: Version, port: &Port) -> Option<u64> {
    /// `OFPPF_*`, the same bits in both versions up to 10 Gbit/s: 10 and 100 Mbit/s, 1 and 10 Gbit/s, half and full duplex.
    const RATES: [(u32, u64); 4] =
        [(0b11, 10_000_000), (0b1100, 100_000_000), (0b11_0000, 1_000_000_000), (0b100_0000, 10_000_000_000)];
    if version == Version::Of13 && port.curr_speed > 0 {
        return Some(u64::from(port.curr_speed) * 1000);
    }
    RATES.iter().rev().find(|(bits, _)| port.curr & bits != 0).map(|(_, speed)| *speed)
}
