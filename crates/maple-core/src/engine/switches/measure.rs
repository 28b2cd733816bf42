//! Measuring: asks switches for counters that f or people want, and writes them as rates into the tracked state.
//! [`crate::engine::one_switch::counters::polls`] decides when a switch is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use maple_wire::msg::Message;
use maple_wire::msg::stats::{FlowStatsRequest, RequestBody, StatsReply, StatsRequest};
use maple_wire::{Dpid, Port, PortNo, Version};

use super::Switches;
use super::traffic::{growth, pair, traffic};
use crate::engine::context::Context;
use crate::engine::context::timers::Timer;
use crate::engine::messages::event::Effect;
use crate::engine::messages::mail::EngineMessage;
use crate::engine::one_switch::counters::polls::CompleteAnswer;
use crate::ids::{ShardId, Time};
use crate::network::{Gauge, LinkName, Scale, UTILISATION};
use crate::report::{CounterKind, Report};
use crate::state::{Snapshot, Write, Writer};

/// The time between f's first wish for counters and the engine's look at which ones f wants. Chosen: the wishes of the
/// first packets are seen together, and the first rates still come within a poll.
const LOOK_DELAY: Duration = Duration::from_millis(100);
/// The minimum time between two looks at which counters f wants. Chosen: what f wants may change all the time, and
/// polls need not follow faster.
const MIN_LOOK_DISTANCE: Duration = Duration::from_secs(1);
/// The distance between the first polls of a shard's switches. Chosen: their answers come one after the other, and a
/// thousand switches are spread over the default period of ten seconds.
const POLL_DISTANCE: Duration = Duration::from_millis(10);

/// The part of f's demand for measurements that this shard has seen.
#[derive(Debug, Default)]
pub(in crate::engine) struct Demand {
    seen: u64,
    is_armed: bool,
    /// The time of the last look.
    looked: Option<Time>,
}

impl Switches {
    /// Sets a timer if f wants something that this shard has not looked at.
    pub fn check_demand(&mut self, ctx: &mut Context) {
        if self.is_behind_demand(ctx) {
            let soon = ctx.now() + LOOK_DELAY;
            self.demand.is_armed = true;
            let at = self.demand.looked.map_or(soon, |looked| soon.max(looked + MIN_LOOK_DISTANCE));
            ctx.wake_at(at, Timer::Demand);
        }
    }

    /// Reports whether f wants something measured and the engine has not noticed, because nothing happens at its
    /// switches. The engine then needs an [`crate::engine::Event::Tick`].
    pub fn is_behind_demand(&self, ctx: &Context) -> bool {
        !self.demand.is_armed && self.demand.seen != ctx.store.measurings()
    }

    /// Finds out which counters f wants, and has the other shards do so, since they may serve the switches.
    pub fn update_demand(&mut self, ctx: &mut Context) {
        self.demand = Demand { seen: ctx.store.measurings(), is_armed: false, looked: Some(ctx.now()) };
        let dpids: Vec<Dpid> = self.keys().copied().collect();
        for (position, dpid) in (0u32..).zip(dpids) {
            let spread = (POLL_DISTANCE * position).min(ctx.options.poll);
            self.update_gauges(ctx, dpid, ctx.now() + spread);
            self.plan_poll(ctx, dpid);
        }
        let state = ctx.store.snapshot();
        let me = ctx.shard();
        let shards: BTreeSet<ShardId> = state.switches().map(|(_, info)| info.shard).collect();
        shards.into_iter().filter(|to| *to != me).for_each(|to| ctx.send_to_shard(to, EngineMessage::LoadsAreRead));
    }

    fn update_gauges(&mut self, ctx: &mut Context, dpid: Dpid, from: Time) {
        let Some(switch) = self.known_mut(dpid) else { return };
        switch.counters.polls.set_wanted(CounterKind::Ports, ctx.store.wanted_of_ports(dpid), from);
        let had_pairs = switch.counters.polls.wants_pairs();
        switch.counters.polls.set_wanted(CounterKind::Rules, ctx.store.wanted_of_rules(dpid), from);
        if !had_pairs && switch.counters.polls.wants_pairs() {
            // Look-ups are lowered, so that there are rules for pairs.
            ctx.mark_dirty(dpid);
        }
    }

    /// Polls the counters of a switch for a person who looks at them.
    pub fn show_counters(&mut self, ctx: &mut Context, dpid: Dpid, what: CounterKind) {
        let now = ctx.now();
        if let Some(switch) = self.get_mut(&dpid) {
            switch.counters.polls.show(now, what);
            self.plan_poll(ctx, dpid);
        }
    }

    /// Polls the switch if that is due, or sets a timer.
    fn plan_poll(&mut self, ctx: &mut Context, dpid: Dpid) {
        let (now, period) = (ctx.now(), ctx.options.poll);
        let Some(switch) = self.known_mut(dpid) else { return };
        match switch.counters.polls.next(now, period) {
            Some((due, _)) if due <= now => self.poll(ctx, dpid),
            Some((due, _)) => {
                let is_needed = switch.counters.polls.plan_timer(now, due);
                if is_needed {
                    ctx.wake_at(due, Timer::Poll(dpid));
                }
            }
            None => {}
        }
    }

    /// Polls the switch if that is due and the switch is not busy.
    pub fn poll(&mut self, ctx: &mut Context, dpid: Dpid) {
        let (now, period) = (ctx.now(), ctx.options.poll);
        let Some(switch) = self.get_mut(&dpid).filter(|switch| !switch.is_unreachable()) else { return };
        let what = match switch.counters.polls.next(now, period) {
            Some((due, what)) if due <= now => what,
            Some(_) => return self.plan_poll(ctx, dpid),
            None => return,
        };
        if switch.tables.is_unconfirmed() || ctx.is_dirty(dpid) {
            let (is_new, again) = switch.counters.polls.postpone(now);
            ctx.stats.polls_postponed += u64::from(is_new);
            if let Some(again) = again {
                ctx.wake_at(again, Timer::Poll(dpid));
            }
            return;
        }
        let xid = switch.tables.take_xid();
        switch.counters.polls.on_asked(now, xid, what);
        ctx.stats.polls += 1;
        let message = Message::StatsRequest(StatsRequest::new(request(what)));
        ctx.add_after_rules(Effect::Poll { dpid, xid, message });
    }

    /// Makes a postponed poll, since the switch has confirmed the changes that kept it busy.
    pub fn make_postponed_poll(&mut self, ctx: &mut Context, dpid: Dpid) {
        if self.get(&dpid).is_some_and(|switch| switch.counters.polls.is_postponed()) {
            self.poll(ctx, dpid);
        }
    }

    /// Handles an answer, or a part of it.
    pub fn on_poll_answered(&mut self, ctx: &mut Context, dpid: Dpid, reply: &StatsReply) {
        if !reply.more() {
            self.update_gauges(ctx, dpid, ctx.now());
        }
        let (now, period) = (ctx.now(), ctx.options.poll);
        let Some(switch) = self.known_mut(dpid) else { return };
        let version = switch.version();
        if let Some(answer) = switch.counters.polls.on_answer(now, period, version, reply) {
            if answer.what == CounterKind::Rules {
                switch.end_count_reading(now);
            }
            self.take_rates(ctx, dpid, &answer);
            self.plan_poll(ctx, dpid);
        }
    }

    /// Plans a poll that was not sent, because too much already waits for the switch.
    pub fn on_poll_unsent(&mut self, ctx: &mut Context, dpid: Dpid) {
        ctx.stats.polls_postponed += 1;
        self.get_mut(&dpid).into_iter().for_each(|switch| switch.counters.polls.on_unsent());
        self.plan_poll(ctx, dpid);
    }

    /// Handles a switch's refusal to report its counters.
    pub fn on_poll_refused(&mut self, ctx: &mut Context, dpid: Dpid) {
        self.update_gauges(ctx, dpid, ctx.now());
        let Some(switch) = self.known_mut(dpid) else { return };
        let (forget, news) = switch.counters.polls.on_refused();
        ctx.write(|_| forget.iter().map(|gauge| forget_rate(*gauge)).collect());
        if let Some(what) = news {
            ctx.report(Report::CountersRefused { switch: dpid, what });
        }
        self.plan_poll(ctx, dpid);
    }

    /// Writes the rates that f wants from an answer.
    fn take_rates(&mut self, ctx: &mut Context, dpid: Dpid, answer: &CompleteAnswer) {
        let Some(switch) = self.known(dpid) else { return };
        let table = switch.ingress_table();
        let epoch = ctx.options.epoch;
        let by_use = ctx.store.wants_use_of_links();
        let mut kept = BTreeSet::new();
        let written = ctx.written_by(Writer::Measuring);
        let commit = ctx.store.update_as(written, |state| {
            let mut writes: Vec<Write> = answer.forget.iter().map(|gauge| forget_rate(*gauge)).collect();
            writes.extend(answer.forget.iter().filter_map(|gauge| utilisation_cost(state, *gauge, None)));
            let Some(since) = &answer.since else { return writes };
            let span = answer.reading.at.0.saturating_sub(since.at.0);
            let traffic = match answer.what {
                CounterKind::Rules => {
                    traffic(|matching| pair(state, matching), |_, _| {}, epoch, table, &answer.reading, Some(since))
                }
                CounterKind::Ports => BTreeMap::new(),
            };
            for gauge in &answer.measure {
                let (bytes, is_least) = match gauge {
                    Gauge::Sent(at) => (growth(&answer.reading, since, at.port, |port| port.tx_bytes), false),
                    Gauge::Received(at) => (growth(&answer.reading, since, at.port, |port| port.rx_bytes), false),
                    Gauge::Traffic { from, to } => {
                        let sum = traffic.get(&(Some(*from), Some(*to))).copied().unwrap_or_default();
                        (Some(sum.grown.bytes), sum.is_changed)
                    }
                };
                let Some(bytes) = bytes else { continue };
                let rate = per_second(bytes.saturating_mul(8), span);
                // New rules have not counted everything, so this rate may be too low. It replaces a higher one only if
                // the answer before was like that too.
                let is_lower = || state.rate(gauge).is_some_and(|history| rate < history.latest());
                if is_least && !switch.counters.polls.kept_rates().contains(gauge) && is_lower() {
                    kept.insert(*gauge);
                    continue;
                }
                writes.push(Write::Rate { gauge: *gauge, rate: Some(rate) });
                writes.extend(utilisation_cost(state, *gauge, by_use.then_some(rate)));
            }
            writes
        });
        if answer.what == CounterKind::Rules && answer.since.is_some() {
            self.get_mut(&dpid).into_iter().for_each(|switch| switch.counters.polls.keep_rates(&kept));
        }
        ctx.apply_commit(commit);
    }

    /// Returns the switches that this shard serves, in order.
    pub fn switches(&self) -> impl Iterator<Item = Dpid> + '_ {
        self.keys().copied()
    }
}

/// Returns the write of a link's cost by its utilisation, if the rate at the port that the link leaves by, in bits per
/// second, changes that cost. Without a rate, which is then not measured, the cost is the lowest.
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

fn forget_rate(gauge: Gauge) -> Write {
    Write::Rate { gauge, rate: None }
}

fn request(what: CounterKind) -> RequestBody {
    match what {
        CounterKind::Ports => RequestBody::Port(PortNo::ANY),
        CounterKind::Rules => RequestBody::Flow(FlowStatsRequest::all()),
    }
}

fn per_second(number: u64, nanoseconds: u64) -> u64 {
    let per_second = u128::from(number) * 1_000_000_000 / u128::from(nanoseconds.max(1));
    u64::try_from(per_second).unwrap_or(u64::MAX)
}

/// Returns the speed of a port in bit/s, if the switch reports it.
pub(in crate::engine) fn speed(version: Version, port: &Port) -> Option<u64> {
    /// The speeds of ports, in bit/s, by the bits `OFPPF_*` (1.0 §5.2.1, 1.3 §7.2.1). The bits are the same in both
    /// versions up to 10 Gbit/s: 10 and 100 Mbit/s, 1 and 10 Gbit/s, half and full duplex.
    const RATES: [(u32, u64); 4] =
        [(0b11, 10_000_000), (0b1100, 100_000_000), (0b11_0000, 1_000_000_000), (0b100_0000, 10_000_000_000)];
    if version == Version::Of13 && port.curr_speed > 0 {
        return Some(u64::from(port.curr_speed) * 1000);
    }
    RATES.iter().rev().find(|(bits, _)| port.curr & bits != 0).map(|(_, speed)| *speed)
}
