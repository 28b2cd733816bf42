//! A turn of the engine: passes it the events of this turn, at most as many packets as it can handle in time, and
//! returns its effects. `event_loop.rs` performs them.

use std::time::Duration;

use maple_core::check::SLOW_RUN;
use maple_core::engine::{Effect, Engine, Event, Histogram, ListenerPacket};
use maple_core::report::Report;
use maple_wire::Dpid;
use maple_wire::msg::PacketIn;

use super::backlog::Backlog;
use super::context::Context;
use super::io::Io;
use crate::listener::Subscriptions;
use crate::notice::{Notice, Notices};
use crate::storage::record::ShardRecorder;
use crate::time::until;

/// The time after which a turn counts as long: echoes and other switches have to wait. It must be far less than the
/// shortest deadline of a switch, a second.
const LONG_TURN: Duration = Duration::from_millis(20);
/// The minimum number of packets that the engine may get in one turn. Chosen: several packets share the other work of a
/// turn.
const MIN_BATCH: usize = 8;
/// The maximum number of packets that the engine may get in one turn. It is in effect no limit: a socket brings some
/// hundred packets a turn.
const MAX_BATCH: usize = 1 << 16;

/// The engine, and what its turns need.
pub(super) struct EngineTurn {
    engine: Engine,
    /// Records the engine's turns.
    recorder: Option<ShardRecorder>,
    /// The listeners, which receive events besides the policy.
    subscriptions: Subscriptions,
    /// The packets that wait for the engine.
    backlog: Backlog,
    /// The maximum number of packets that the engine gets in one turn.
    batch: usize,
    /// The times from the beginning of the turn in which the engine got a packet to the end of its batch, one for each
    /// packet that f decided.
    decide_times: Histogram,
    effects: Vec<Effect>,
    /// Whether to print the engine's events and effects.
    #[cfg(feature = "simulation")]
    pub is_traced: bool,
}

impl EngineTurn {
    /// Creates the turns of an engine. With a recorder, all of them are recorded.
    pub fn new(engine: Engine, subscriptions: Subscriptions, recorder: Option<ShardRecorder>) -> EngineTurn {
        let mut turn = EngineTurn {
            engine,
            recorder: None,
            subscriptions,
            backlog: Backlog::default(),
            batch: MAX_BATCH,
            decide_times: Histogram::default(),
            effects: Vec::new(),
            #[cfg(feature = "simulation")]
            is_traced: false,
        };
        if let Some(recorder) = recorder {
            turn.record(recorder);
        }
        turn
    }

    /// Records all later turns.
    pub fn record(&mut self, recorder: ShardRecorder) {
        self.engine.record(recorder.from());
        self.recorder = Some(recorder);
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the engine, to answer packets in place.
    pub fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    #[cfg(feature = "simulation")]
    pub fn subscriptions(&self) -> &Subscriptions {
        &self.subscriptions
    }

    /// Returns the times of decisions, one for each packet that f decided.
    pub fn decide_times(&self) -> Histogram {
        self.decide_times
    }

    /// Returns the number of packets that wait for the engine.
    pub fn waiting(&self) -> usize {
        self.backlog.len()
    }

    /// Records that this many packets of a switch were answered in place.
    pub fn note_hits(&mut self, dpid: Dpid, packet_outs: u64) {
        if let Some(recorder) = &mut self.recorder {
            recorder.note_hits(dpid, packet_outs);
        }
    }

    /// Passes the turn's events to the engine; only the time, if the engine waits for nothing else. With
    /// `announces_all`, the engine reports all leaves. Returns `false` if the engine has nothing to do.
    pub fn run(&mut self, announces_all: bool, io: &mut Io, ctx: &mut Context) -> bool {
        let packets = self.choose_packets(io, ctx);
        if announces_all {
            self.engine.remember_all();
            ctx.events.push(Event::Tick);
        }
        if ctx.events.is_empty() {
            let is_early = self.engine.next_deadline().is_none_or(|deadline| deadline > ctx.now);
            if is_early && !self.engine.view().is_behind_demand() {
                return false;
            }
            ctx.events.push(Event::Tick);
        }
        self.trace("<-", &ctx.events, ctx);
        self.publish_events(ctx);
        let decided = self.engine.view().decided();
        self.handle(ctx);
        self.trace("->", &self.effects, ctx);
        let took = until(ctx.now, ctx.clock.now());
        let decided = self.engine.view().decided() - decided;
        if decided > 0 {
            self.decide_times.record(took, decided);
            note_slow(took, decided, ctx);
        }
        self.batch = next_batch(self.batch, packets, took);
        true
    }

    /// Exchanges the effects of the turn for an empty buffer.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Takes back the buffer of the effects, for its memory.
    pub fn give_back(&mut self, effects: Vec<Effect>) {
        debug_assert!(effects.is_empty() && self.effects.is_empty(), "each effect is performed once");
        self.effects = effects;
    }

    /// Gives the turn's events to the engine. Records the turn if the run is recorded.
    fn handle(&mut self, ctx: &mut Context) {
        if let Some(recorder) = &mut self.recorder {
            recorder.begin(ctx.now, &ctx.events);
        }
        self.engine.handle(ctx.now, &mut ctx.events, &mut self.effects);
        if let Some(recorder) = &mut self.recorder
            && !recorder.end(&self.engine, &self.effects)
        {
            self.engine.detach();
            self.recorder = None;
        }
    }

    /// Publishes the turn's events to listeners.
    fn publish_events(&self, ctx: &Context) {
        for event in &ctx.events {
            self.subscriptions.publish_event(event, |events| events_lost(events, &ctx.notices));
        }
    }

    /// Publishes a report of the engine to listeners.
    pub fn publish_report(&self, report: &Report, ctx: &Context) {
        self.subscriptions.publish_report(report, |events| events_lost(events, &ctx.notices));
    }

    /// Publishes a packet to the listeners that wait for such packets.
    pub fn publish_packet(&self, heard: &ListenerPacket, ctx: &Context) {
        self.subscriptions.publish_packet(heard, |events| events_lost(events, &ctx.notices));
    }

    /// Limits the packets among the events to what the engine may have in this turn, and returns their number. The rest
    /// go to the backlog. While no packet has to wait, all events keep their order.
    fn choose_packets(&mut self, io: &mut Io, ctx: &mut Context) -> usize {
        let is_packet = |event: &Event| matches!(event, Event::PacketIn { .. });
        let new = ctx.events.iter().filter(|event| is_packet(event)).count();
        if self.backlog.is_empty() && new <= self.batch {
            return new;
        }
        let events = std::mem::take(&mut ctx.events);
        for event in events {
            match event {
                Event::PacketIn { dpid, packet_in } => {
                    let is_shed = !self.backlog.push(dpid, packet_in);
                    count_shed(dpid, usize::from(is_shed), io, ctx);
                    continue;
                }
                // A packet from before a port or switch went down must not be handled after it comes up again.
                Event::PortStatus { dpid, ref status } => {
                    let shed = self.backlog.forget_port(dpid, status.port.number);
                    count_shed(dpid, shed, io, ctx);
                }
                Event::SwitchDown { dpid } | Event::SwitchUnreachable { dpid } => {
                    let shed = self.backlog.forget_switch(dpid);
                    count_shed(dpid, shed, io, ctx);
                }
                _ => {}
            }
            ctx.events.push(event);
        }
        let taken = std::iter::from_fn(|| self.backlog.pop()).take(self.batch);
        let before = ctx.events.len();
        ctx.events.extend(taken.map(|(dpid, packet_in)| Event::PacketIn { dpid, packet_in }));
        ctx.events.len() - before
    }

    /// Takes the packets that were read and have no answer yet, oldest first.
    pub fn take_unanswered(&mut self, ctx: &mut Context) -> Vec<(Dpid, PacketIn)> {
        let mut packets = self.engine.take_unanswered();
        packets.extend(std::mem::take(&mut ctx.events).into_iter().filter_map(|event| match event {
            Event::PacketIn { dpid, packet_in } => Some((dpid, packet_in)),
            _ => None,
        }));
        packets.extend(std::iter::from_fn(|| self.backlog.pop()));
        packets
    }

    /// Prints what the engine gets or gives, if a simulation asks for it.
    #[cfg_attr(
        not(feature = "simulation"),
        expect(clippy::unused_self, unused_variables, reason = "only a simulation asks for it")
    )]
    fn trace(&self, direction: &str, all: &[impl std::fmt::Debug], ctx: &Context) {
        #[cfg(feature = "simulation")]
        if self.is_traced {
            all.iter().for_each(|one| println!("{:?} shard {} {direction} {one:?}", ctx.now, ctx.id.0));
        }
    }
}

/// Reports the first, tenth, hundredth… event that a slow listener lost.
fn events_lost(events: u64, notices: &Notices) {
    if 10u64.pow(events.ilog10()) == events {
        notices.publish(Notice::ListenerSlow { events });
    }
}

/// Reports the tenth, hundredth, thousandth… packet for which the policy took long. The first ones are not reported,
/// because a turn may do much else once.
fn note_slow(took: Duration, decided: u64, ctx: &mut Context) {
    let each = took / u32::try_from(decided).unwrap_or(u32::MAX);
    if each <= SLOW_RUN {
        return;
    }
    let before = ctx.counters.slow_decisions;
    ctx.counters.slow_decisions += decided;
    let times = ctx.counters.slow_decisions;
    if times >= 10 && before.checked_ilog10() != times.checked_ilog10() {
        ctx.notices.publish(Notice::PolicySlow { each, times });
    }
}

/// Counts packets that were shed. Those of a switch that is gone are counted only for the shard.
fn count_shed(dpid: Dpid, packets: usize, io: &mut Io, ctx: &mut Context) {
    ctx.counters.of_shed += packets as u64;
    if packets > 0
        && let Some(connection) = io.connections_mut().of_switch(dpid)
    {
        connection.counters.shed += packets as u64;
    }
}

/// Returns the batch limit of the next turn, after a turn in which the engine got `given` of at most `batch` packets
/// and took this long. So slow policies get small batches.
fn next_batch(batch: usize, given: usize, took: Duration) -> usize {
    match took {
        _ if took <= LONG_TURN => (batch * 2).min(MAX_BATCH),
        // Something other than packets took long.
        _ if given == 0 => batch,
        _ => (given.min(batch) / 2).max(MIN_BATCH),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_shrink_while_turns_are_long_and_grow_afterwards() {
        let (slow, fast) = (Duration::from_millis(500), Duration::from_micros(5));
        let mut batch = next_batch(MAX_BATCH, 640, slow);
        assert_eq!(batch, 320);
        for expected in [160, 80, 40] {
            batch = next_batch(batch, batch, slow);
            assert_eq!(batch, expected);
        }
        assert_eq!((0..20).fold(batch, |batch, _| next_batch(batch, batch, slow)), MIN_BATCH);
        assert_eq!((0..20).fold(batch, |batch, _| next_batch(batch, 0, fast)), MAX_BATCH);
    }
}
