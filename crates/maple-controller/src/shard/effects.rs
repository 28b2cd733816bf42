//! Runs the engine, and performs the effects of the engine and of discovery.

use std::sync::Arc;
use std::time::Duration;

use maple_core::check::SLOW;
use maple_core::engine::{Effect, Event, LiveNews, Time};
use maple_core::network::Location;
use maple_core::report::Report;
use maple_wire::msg::stats::{FlowStatsRequest, RequestBody};
use maple_wire::msg::{ErrorMsg, NO_BUFFER, PacketOut};
use maple_wire::{Action, Dpid, Message, PortNo, Version};

use super::Shard;
use super::connection::{Connection, ConnectionState};
use super::mailbox::ShardMessage;
use crate::discovery::{Anomaly, Attachment, DiscoveryOutput, PeerMessage};
use crate::notice::Notice;
use crate::session::CloseReason;
use crate::time::until;

/// The time after which a turn counts as long: echoes and other switches have to wait.
const LONG_TURN: Duration = Duration::from_millis(20);
/// The number of waiting bytes above which a request that can wait is not sent to a switch.
const MAX_BYTES_BEFORE_POLL: usize = 16 * 1024;
/// `OFPET_FLOW_MOD_FAILED` with `OFPFMFC_UNSUPPORTED` in 1.0, and with `OFPFMFC_UNKNOWN` in 1.3.
const UNSUPPORTED_10: (u16, u16) = (3, 5);
const UNKNOWN_13: (u16, u16) = (5, 0);
/// Maximum number of outputs in one packet-out. With 16 bytes each they leave room for a frame of 9,000 bytes.
const MAX_OUTPUTS: usize = 3_500;
/// Minimum and maximum number of packets that the engine may get in one turn.
const MIN_BATCH: usize = 8;
pub(super) const MAX_BATCH: usize = 1 << 16;

impl Shard {
    /// Performs discovery's outputs. Probes wait until the engine's messages of this turn are sent.
    pub(super) fn follow_discovery(&mut self, now: Time) {
        let mut outputs = std::mem::take(&mut self.discovered);
        while !outputs.is_empty() {
            for output in outputs.drain(..) {
                self.perform_discovery(now, output);
            }
            std::mem::swap(&mut outputs, &mut self.discovered);
        }
        self.discovered = outputs;
    }

    /// Passes the new declaration to discovery. Until then the engine refuses what was declared otherwise before.
    pub(super) fn follow_declaration(&mut self, now: Time) {
        if !std::mem::take(&mut self.is_declared) {
            return;
        }
        let facts = Arc::clone(self.engine.store().snapshot().facts());
        // Discovery gets the other switches later.
        let of = |connection: &Connection| {
            let (dpid, switch) = (connection.dpid?, connection.switch.as_ref()?);
            let is_known = switch.in_use && self.by_dpid.get(&dpid) == Some(&connection.id.slot);
            is_known.then(|| (dpid, Arc::clone(&switch.ports)))
        };
        let mut switches: Vec<_> = self.connections.iter().filter_map(of).collect();
        let unreachable = self.unreachable.infos();
        switches.extend(unreachable.map(|info| (info.features.dpid, Arc::new(info.ports.clone()))));
        let switches = switches.iter().map(|(dpid, ports)| (*dpid, &ports[..]));
        self.discovery.declare(now, &facts, switches, &mut self.discovered);
    }

    fn perform_discovery(&mut self, now: Time, output: DiscoveryOutput) {
        match output {
            DiscoveryOutput::Probe { at } => self.probes.push(at),
            DiscoveryOutput::Message { to, message } => match self.registry.shard_of(to.switch) {
                Some(shard) if shard == self.id && !matches!(message, PeerMessage::Unanswered { .. }) => {
                    self.discovery.on_peer_message(now, to, message, &mut self.discovered)
                }
                Some(shard) => self.outgoing.send(shard, ShardMessage::Discovery(to, message)),
                None => {}
            },
            DiscoveryOutput::Attachment { at, now, before } => self.events.push(event_of(at, now, &before)),
            DiscoveryOutput::Anomaly { at, anomaly, first } => self.anomaly(at, anomaly, first),
        }
    }

    fn anomaly(&mut self, at: Location, anomaly: Anomaly, first: bool) {
        match anomaly {
            Anomaly::Forged => self.counters.lldp_forged += 1,
            Anomaly::Replayed => self.counters.lldp_replayed += 1,
            Anomaly::Reflected => self.counters.lldp_reflected += 1,
            Anomaly::TooManyPeers => self.counters.lldp_too_many_peers += 1,
            Anomaly::OneWay => self.counters.lldp_one_way += 1,
            Anomaly::Bridged => self.counters.lldp_bridged += 1,
            Anomaly::AtEdge => self.counters.lldp_at_edge += 1,
            Anomaly::NoLink => self.counters.lldp_no_link += 1,
        }
        if first {
            self.notices.publish(Notice::Discovery { at, anomaly });
        }
    }

    /// Passes the turn's events to the engine; only the time, if the engine waits for nothing else.
    pub(super) fn run_engine(&mut self, now: Time) {
        let packets = self.choose_packets();
        if self.returns.is_to_tell_all() {
            self.engine.remember_all();
            self.events.push(Event::Tick);
        }
        if self.events.is_empty() {
            let is_early = self.engine.next_deadline().is_none_or(|deadline| deadline > now);
            if is_early && !self.engine.is_behind_demand() {
                return;
            }
            self.events.push(Event::Tick);
        }
        #[cfg(feature = "simulation")]
        self.trace(now, "<-", &self.events);
        self.publish_events();
        let decided = self.engine.decided();
        self.handle(now);
        #[cfg(feature = "simulation")]
        self.trace(now, "->", &self.effects);
        let took = until(now, self.clock.now());
        let decided = self.engine.decided() - decided;
        if decided > 0 {
            self.decide_times.record(took, decided);
            self.note_slow(took, decided);
        }
        self.batch = next_batch(self.batch, packets, took);
        // What effects ask to presume becomes an event of the next turn.
        let presumed = self.returns.take_presumed();
        let mut effects = std::mem::take(&mut self.effects);
        for effect in effects.drain(..) {
            self.perform(now, effect);
        }
        self.effects = effects;
        self.announce_presumed(presumed);
        self.free_departed(now);
    }

    /// Reports the tenth, hundredth, thousandth… packet for which the policy took long. The first ones are not
    /// reported, because a turn may do much else once.
    fn note_slow(&mut self, took: Duration, decided: u64) {
        let each = took / u32::try_from(decided).unwrap_or(u32::MAX);
        if each <= SLOW {
            return;
        }
        let before = self.counters.slow_decisions;
        self.counters.slow_decisions += decided;
        let times = self.counters.slow_decisions;
        if times >= 10 && before.checked_ilog10() != times.checked_ilog10() {
            self.notices.publish(Notice::PolicySlow { each, times });
        }
    }

    /// Has the engine handle the turn's events. Records the turn if the run is recorded.
    fn handle(&mut self, now: Time) {
        let Some(recorder) = &mut self.recorder else {
            return self.engine.handle(now, &mut self.events, &mut self.effects);
        };
        recorder.begin(now, &self.events);
        self.engine.handle(now, &mut self.events, &mut self.effects);
        if !recorder.end(&self.engine, &self.effects) {
            self.engine.end_record();
            self.recorder = None;
        }
    }

    /// Publishes the turn's events to listeners.
    fn publish_events(&self) {
        for event in &self.events {
            self.subscriptions.publish_event(event, |events| self.events_lost(events));
        }
    }

    /// Reports the first, tenth, hundredth… event that a slow listener lost.
    fn events_lost(&self, events: u64) {
        if 10u64.pow(events.ilog10()) == events {
            self.notices.publish(Notice::ListenerSlow { events });
        }
    }

    /// Limits the packets among the events to what the engine may have in this turn, and returns their number. The rest
    /// go to the backlog. While no packet has to wait, all events keep their order.
    fn choose_packets(&mut self) -> usize {
        let is_packet = |event: &Event| matches!(event, Event::PacketIn { .. });
        let new = self.events.iter().filter(|event| is_packet(event)).count();
        if self.backlog.is_empty() && new <= self.batch {
            return new;
        }
        let events = std::mem::take(&mut self.events);
        for event in events {
            match event {
                Event::PacketIn { dpid, packet_in } => {
                    let is_shed = !self.backlog.push(dpid, packet_in);
                    self.count_shed(dpid, usize::from(is_shed));
                    continue;
                }
                // A packet from before a port or switch went down must not be handled after it comes up again.
                Event::PortStatus { dpid, ref status } => {
                    let shed = self.backlog.forget_port(dpid, status.port.number);
                    self.count_shed(dpid, shed);
                }
                Event::SwitchDown { dpid } | Event::SwitchUnreachable { dpid } => {
                    let shed = self.backlog.forget_switch(dpid);
                    self.count_shed(dpid, shed);
                }
                _ => {}
            }
            self.events.push(event);
        }
        let taken = std::iter::from_fn(|| self.backlog.pop()).take(self.batch);
        let before = self.events.len();
        self.events.extend(taken.map(|(dpid, packet_in)| Event::PacketIn { dpid, packet_in }));
        self.events.len() - before
    }

    /// Counts packets that were shed. Those of a switch that is gone are counted only for the shard.
    fn count_shed(&mut self, dpid: Dpid, packets: usize) {
        self.counters.of_shed += packets as u64;
        if packets > 0
            && let Some(connection) = self.by_dpid.get(&dpid).and_then(|slot| self.connections.get(*slot))
        {
            connection.counters.shed += packets as u64;
        }
    }

    #[cfg(feature = "simulation")]
    fn trace(&self, now: Time, direction: &str, all: &[impl std::fmt::Debug]) {
        if self.is_traced {
            all.iter().for_each(|one| println!("{now:?} shard {} {direction} {one:?}", self.id.0));
        }
    }

    pub(super) fn perform(&mut self, now: Time, effect: Effect) {
        match effect {
            Effect::Send { dpid, xid, message } => self.send_for_engine(now, dpid, xid, &message),
            Effect::Poll { dpid, xid, message } => self.poll_for_engine(now, dpid, xid, &message),
            Effect::ReadFlows { dpid } => {
                let Some(slot) = self.by_dpid.get(&dpid).copied() else { return self.announced_known(dpid) };
                if let Some(session) = self.connections.get(slot).and_then(|connection| connection.session()) {
                    session.read_flows(now, &mut self.outputs);
                }
                self.act(now, slot);
                self.switch_known(slot, dpid);
            }
            Effect::Reconnect { dpid } => {
                if let Some(slot) = self.by_dpid.get(&dpid).copied() {
                    self.close(now, slot, CloseReason::OneTable);
                }
            }
            Effect::AskPorts { dpid } => {
                let Some(slot) = self.by_dpid.get(&dpid).copied() else { return };
                if let Some(session) = self.connections.get(slot).and_then(|connection| connection.session()) {
                    session.ask_for_ports(&mut self.outputs);
                }
                self.act(now, slot);
            }
            Effect::Remember(leaves) => self.returns.note(leaves),
            Effect::Departed { dpid, leaves, surroundings } => self.returns.departed(dpid, leaves, surroundings),
            Effect::Mail { to, mail } => self.outgoing.send(to, ShardMessage::Mail(mail)),
            Effect::Live { token, news } => {
                let is_last = matches!(news, LiveNews::Refused(_));
                // A client that is too slow misses news.
                if let Some(to) = self.live.get(&token) {
                    let _ = to.try_send(news);
                }
                if is_last {
                    self.live.remove(&token);
                }
            }
            Effect::BarriersDone(token) => self.fences.extend(self.settling.remove(&token)),
            Effect::RuleCounted { token, count } => {
                // The thread may have stopped waiting.
                if let Some(to) = self.counting.remove(&token) {
                    let _ = to.send(count);
                }
            }
            Effect::Tried { candidate, trial } => {
                // The thread may have stopped waiting.
                let waits = self.tried.take_if(|(number, _)| *number == candidate);
                waits.into_iter().for_each(|(_, to)| drop(to.send(trial.clone())));
            }
            Effect::Adopted { candidate } => {
                let waits = self.adopted.take_if(|(number, _)| *number == candidate);
                self.fences.extend(waits.map(|(_, to)| to));
            }
            Effect::ListenerPacket(heard) => {
                self.subscriptions.publish_packet(&heard, |events| self.events_lost(events))
            }
            Effect::Report(report) if self.notices.is_known(&report) => {}
            Effect::Report(report) => {
                if let Report::SwitchDown(dpid) = report {
                    self.drop_unreachable(now, dpid);
                }
                self.subscriptions.publish_report(&report, |events| self.events_lost(events));
                self.notices.publish(Notice::Engine(report));
            }
        }
    }

    /// Sends a message of the engine. Nothing is sent if the switch has disconnected; the engine will get that event.
    pub(super) fn send_for_engine(&mut self, now: Time, dpid: Dpid, xid: u32, message: &Message) {
        let Some(slot) = self.by_dpid.get(&dpid).copied() else { return self.announced.note_sent(dpid, xid, message) };
        match message {
            Message::FlowMod(_) | Message::BundleAdd(_) => return self.send_flow_mod(slot, dpid, xid, message),
            Message::PacketOut(packet_out) if packet_out.actions.len() > MAX_OUTPUTS => {
                return self.send_in_parts(slot, xid, packet_out);
            }
            Message::PacketOut(_) => self.counters.of_packet_outs += 1,
            Message::StatsRequest(request) if request.body == RequestBody::Flow(FlowStatsRequest::all()) => {
                if let Some(session) = self.connections.get(slot).and_then(|connection| connection.session()) {
                    session.ask_for_all_rules(now, xid, &mut self.outputs);
                }
                return self.act(now, slot);
            }
            _ => {
                if let Some(session) = self.connections.get(slot).and_then(|connection| connection.session()) {
                    session.on_sent(now, xid, message);
                }
                self.arm(slot);
            }
        }
        drop(self.send(slot, xid, message));
    }

    /// Sends a packet-out with more outputs than fit one message.
    fn send_in_parts(&mut self, slot: usize, xid: u32, packet_out: &PacketOut) {
        for part in packet_out.split(MAX_OUTPUTS) {
            self.counters.of_packet_outs += 1;
            drop(self.send(slot, xid, &Message::PacketOut(part)));
        }
    }

    /// Sends a request of the engine that can wait, unless much output waits for the switch.
    fn poll_for_engine(&mut self, now: Time, dpid: Dpid, xid: u32, message: &Message) {
        let connection = self.by_dpid.get(&dpid).and_then(|slot| self.connections.get(*slot));
        let is_announced = connection.is_none() && self.announced.has(dpid);
        if is_announced
            || connection.is_some_and(|connection| connection.paused || connection.outbox.len() > MAX_BYTES_BEFORE_POLL)
        {
            return self.events.push(Event::Unsent { dpid, xid });
        }
        self.send_for_engine(now, dpid, xid, message);
    }

    /// Sends a rule of the engine. If the switch's version cannot express it, refuses it as the switch would.
    fn send_flow_mod(&mut self, slot: usize, dpid: Dpid, xid: u32, message: &Message) {
        match self.send(slot, xid, message) {
            Ok(()) => self.counters.of_flow_mods += 1,
            Err(error) => {
                let switch = self.connections.get(slot).and_then(|connection| connection.switch.as_ref());
                let (kind, code) = match switch.map(|switch| switch.version) {
                    Some(Version::Of10) => UNSUPPORTED_10,
                    _ => UNKNOWN_13,
                };
                let error = ErrorMsg { kind, code, data: error.to_string().into_bytes() };
                self.events.push(Event::SwitchError { dpid, xid, error });
            }
        }
    }

    /// Sends the probes of this turn.
    pub(super) fn send_probes(&mut self, now: Time) {
        self.follow_discovery(now);
        if self.probes.is_empty() {
            return;
        }
        // The engine may have taken long, so read the clock again.
        let now = self.clock.now();
        let mut probes = std::mem::take(&mut self.probes);
        for at in probes.drain(..) {
            for frame in self.discovery.frames(now, at) {
                self.counters.lldp_probes += 1;
                self.packet_out(at, frame);
            }
        }
        self.probes = probes;
    }

    fn packet_out(&mut self, at: Location, data: Vec<u8>) {
        let Some(slot) = self.by_dpid.get(&at.switch).copied() else { return };
        let Some(connection) = self.connections.get(slot) else { return };
        let ConnectionState::Open { session, .. } = &mut connection.state else { return };
        let xid = session.take_xid();
        let actions = vec![Action::output(at.port)];
        let message = PacketOut { buffer_id: NO_BUFFER, in_port: PortNo::CONTROLLER, actions, data };
        drop(self.send(slot, xid, &Message::PacketOut(message)));
    }
}

/// Returns the engine's event for a change of what is attached to a port.
fn event_of(at: Location, now: Attachment, before: &Attachment) -> Event {
    match (now, before) {
        (Attachment::Edge, _) => Event::PortIsEdge { port: at },
        (Attachment::Link(peer), _) => Event::LinkUp { a: at, b: peer },
        (Attachment::Segment(others), _) => Event::Segment { ports: others.into_iter().chain([at]).collect() },
        (Attachment::New, Attachment::Link(peer)) => Event::LinkDown { a: at, b: *peer },
        (Attachment::New, Attachment::Segment(_)) => Event::SegmentLeft { port: at },
        (Attachment::New, _) => Event::PortIsNew { port: at },
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
