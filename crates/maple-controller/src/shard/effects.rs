//! From what the engine and discovery want to what is sent.

use std::time::Duration;

use maple_core::engine::{Effect, Event, Time};
use maple_core::network::Location;
use maple_wire::msg::{ErrorMsg, NO_BUFFER, PacketOut};
use maple_wire::{Action, Dpid, Message, PortNo, Version};

use super::Shard;
use super::connection::Life;
use super::post::Letter;
use crate::discovery::{Behind, Found, Odd, Tell};
use crate::notice::Notice;
use crate::time::until;

/// A turn should not take longer than this, so that echoes are answered and everybody has a turn in time.
const LONG_TURN: Duration = Duration::from_millis(20);
/// A request that can wait is not sent while more bytes than this wait for the switch.
const POLL_BEHIND: usize = 16 * 1024;
/// `OFPET_FLOW_MOD_FAILED` with `OFPFMFC_UNSUPPORTED` of 1.0, and with `OFPFMFC_UNKNOWN` of 1.3.
const UNSUPPORTED_10: (u16, u16) = (3, 5);
const UNKNOWN_13: (u16, u16) = (5, 0);
/// The most outputs of a packet-out: with 16 bytes each they leave room for a frame of 9,000 bytes.
const MOST_OUTPUTS: usize = 3_500;
/// The least and the most packets that the engine is given in one turn.
const LEAST_BATCH: usize = 8;
pub(super) const MOST_BATCH: usize = 1 << 16;

impl Shard {
    /// Does what discovery wants; probes wait until the engine's messages of this turn are out.
    pub(super) fn follow_findings(&mut self, now: Time) {
        let mut found = std::mem::take(&mut self.found);
        while !found.is_empty() {
            for finding in found.drain(..) {
                self.follow(now, finding);
            }
            std::mem::swap(&mut found, &mut self.found);
        }
        self.found = found;
    }

    fn follow(&mut self, now: Time, finding: Found) {
        match finding {
            Found::Send { at } => self.probes.push(at),
            Found::Tell { to, tell } => match self.registry.shard_of(to.switch) {
                Some(shard) if shard == self.id && !matches!(tell, Tell::Unanswered { .. }) => {
                    self.discovery.on_tell(now, to, tell, &mut self.found)
                }
                Some(shard) => self.post.send(shard, Letter::Tell(to, tell)),
                None => {}
            },
            Found::Kind { at, kind, before } => self.events.push(event_of(at, kind, &before)),
            Found::Odd { at, what, first } => self.odd(at, what, first),
        }
    }

    fn odd(&mut self, at: Location, what: Odd, first: bool) {
        match what {
            Odd::Forged => self.counters.lldp_forged += 1,
            Odd::Replayed => self.counters.lldp_replayed += 1,
            Odd::Reflected => self.counters.lldp_reflected += 1,
            Odd::TooManyPeers => self.counters.lldp_too_many_peers += 1,
            Odd::OneWay => self.counters.lldp_one_way += 1,
            Odd::Bridged => self.counters.lldp_bridged += 1,
        }
        if first {
            self.notices.tell(Notice::Discovery { at, what });
        }
    }

    /// Gives the engine the turn's events, or just the time if that is what it waits for.
    pub(super) fn run_engine(&mut self, now: Time) {
        let packets = self.choose_packets();
        if self.events.is_empty() {
            let is_early = self.engine.next_deadline().is_none_or(|deadline| deadline > now);
            if is_early && !self.engine.is_behind_demand() {
                return;
            }
            self.events.push(Event::Tick);
        }
        #[cfg(feature = "simulation")]
        self.trace(now, "<-", &self.events);
        self.tell_listener();
        self.engine.handle(now, &mut self.events, &mut self.effects);
        #[cfg(feature = "simulation")]
        self.trace(now, "->", &self.effects);
        self.batch = next_batch(self.batch, packets, until(now, self.clock.now()));
        let mut effects = std::mem::take(&mut self.effects);
        for effect in effects.drain(..) {
            self.perform(now, effect);
        }
        self.effects = effects;
        self.free_departed();
    }

    /// Tells whoever listens of the turn's events.
    fn tell_listener(&self) {
        for event in &self.events {
            self.listening.event(event, |events| self.lost(events));
        }
    }

    /// Tells people that a listener is behind, the first, tenth, hundredth… time.
    fn lost(&self, events: u64) {
        if 10u64.pow(events.ilog10()) == events {
            self.notices.tell(Notice::ListenerBehind { events });
        }
    }

    /// Leaves as many packets among the events as the engine may have in this turn, and gives their number. While no packet
    /// has to wait all events stay as they came.
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
                    self.counters.of_shed += u64::from(!self.backlog.push(dpid, packet_in));
                    continue;
                }
                // What was sent before a port or switch went must not be taken for what comes after it is back.
                Event::PortStatus { dpid, ref status } => {
                    self.counters.of_shed += self.backlog.forget_port(dpid, status.port.number) as u64;
                }
                Event::SwitchDown { dpid } => self.counters.of_shed += self.backlog.forget_switch(dpid) as u64,
                _ => {}
            }
            self.events.push(event);
        }
        let chosen = std::iter::from_fn(|| self.backlog.pop()).take(self.batch);
        let before = self.events.len();
        self.events.extend(chosen.map(|(dpid, packet_in)| Event::PacketIn { dpid, packet_in }));
        self.events.len() - before
    }

    #[cfg(feature = "simulation")]
    fn trace(&self, now: Time, way: &str, all: &[impl std::fmt::Debug]) {
        if self.is_traced {
            all.iter().for_each(|one| println!("{now:?} shard {} {way} {one:?}", self.id.0));
        }
    }

    pub(super) fn perform(&mut self, now: Time, effect: Effect) {
        match effect {
            Effect::Send { dpid, xid, message } => self.send_for_engine(now, dpid, xid, &message),
            Effect::Poll { dpid, xid, message } => self.poll_for_engine(now, dpid, xid, &message),
            Effect::ReadFlows { dpid } => {
                let Some(slot) = self.by_dpid.get(&dpid).copied() else { return };
                if let Some(session) = self.connections.get(slot).and_then(|connection| connection.session()) {
                    session.read_flows(now, &mut self.outputs);
                }
                self.act(now, slot);
            }
            Effect::Mail { to, mail } => self.post.send(to, Letter::Mail(mail)),
            Effect::BarriersDone(token) => self.fences.extend(self.settling.remove(&token)),
            Effect::ListenerPacket(heard) => self.listening.packet(&heard, |events| self.lost(events)),
            Effect::Report(report) => self.notices.tell(Notice::Engine(report)),
        }
    }

    /// Sends a message of the engine's. A switch that has gone since gets nothing; the engine hears that it went.
    fn send_for_engine(&mut self, now: Time, dpid: Dpid, xid: u32, message: &Message) {
        let Some(slot) = self.by_dpid.get(&dpid).copied() else { return };
        match message {
            Message::FlowMod(_) => return self.send_flow_mod(slot, dpid, xid, message),
            Message::PacketOut(packet_out) if packet_out.actions.len() > MOST_OUTPUTS => {
                return self.send_in_parts(slot, xid, packet_out);
            }
            Message::PacketOut(_) => self.counters.of_packet_outs += 1,
            _ => {
                if let Some(session) = self.connections.get(slot).and_then(|connection| connection.session()) {
                    session.on_sent(now, xid, message);
                }
                self.arm(slot);
            }
        }
        drop(self.send(slot, xid, message));
    }

    /// Sends a packet of the engine's that leaves by more ports than one message can name.
    fn send_in_parts(&mut self, slot: usize, xid: u32, packet_out: &PacketOut) {
        for part in packet_out.split(MOST_OUTPUTS) {
            self.counters.of_packet_outs += 1;
            drop(self.send(slot, xid, &Message::PacketOut(part)));
        }
    }

    /// Sends a request of the engine's that can wait, unless much waits for the switch already.
    fn poll_for_engine(&mut self, now: Time, dpid: Dpid, xid: u32, message: &Message) {
        let connection = self.by_dpid.get(&dpid).and_then(|slot| self.connections.get(*slot));
        if connection.is_some_and(|connection| connection.paused || connection.outbox.len() > POLL_BEHIND) {
            return self.events.push(Event::Unsent { dpid, xid });
        }
        self.send_for_engine(now, dpid, xid, message);
    }

    /// Sends a rule of the engine's. One that the switch's version can't say is refused here, as the switch would refuse it.
    fn send_flow_mod(&mut self, slot: usize, dpid: Dpid, xid: u32, message: &Message) {
        match self.send(slot, xid, message) {
            Ok(()) => self.counters.of_flow_mods += 1,
            Err(error) => {
                let about = self.connections.get(slot).and_then(|connection| connection.about.as_ref());
                let (kind, code) = match about.map(|about| about.version) {
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
        self.follow_findings(now);
        if self.probes.is_empty() {
            return;
        }
        // The engine may have taken long.
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
        let Life::Open { session, .. } = &mut connection.life else { return };
        let xid = session.take_xid();
        let actions = vec![Action::output(at.port)];
        let message = PacketOut { buffer_id: NO_BUFFER, in_port: PortNo::CONTROLLER, actions, data };
        drop(self.send(slot, xid, &Message::PacketOut(message)));
    }
}

/// The event that tells the engine what is behind a port now.
fn event_of(at: Location, kind: Behind, before: &Behind) -> Event {
    match (kind, before) {
        (Behind::Edge, _) => Event::PortIsEdge { port: at },
        (Behind::Link(peer), _) => Event::LinkUp { a: at, b: peer },
        (Behind::Segment(others), _) => Event::Segment { ports: others.into_iter().chain([at]).collect() },
        (Behind::New, Behind::Link(peer)) => Event::LinkDown { a: at, b: *peer },
        (Behind::New, Behind::Segment(_)) => Event::SegmentLeft { port: at },
        (Behind::New, _) => Event::PortIsNew { port: at },
    }
}

/// How many packets the engine is given in the next turn, when in this one it was given `given` of at most `batch` and took
/// so long: slow policies get small batches.
fn next_batch(batch: usize, given: usize, took: Duration) -> usize {
    match took {
        _ if took <= LONG_TURN => (batch * 2).min(MOST_BATCH),
        // Something else took long.
        _ if given == 0 => batch,
        _ => (given.min(batch) / 2).max(LEAST_BATCH),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_shrink_while_turns_are_long_and_grow_again_afterwards() {
        let (slow, fast) = (Duration::from_millis(500), Duration::from_micros(5));
        let mut batch = next_batch(MOST_BATCH, 640, slow);
        assert_eq!(batch, 320);
        for expected in [160, 80, 40] {
            batch = next_batch(batch, batch, slow);
            assert_eq!(batch, expected);
        }
        assert_eq!((0..20).fold(batch, |batch, _| next_batch(batch, batch, slow)), LEAST_BATCH);
        assert_eq!((0..20).fold(batch, |batch, _| next_batch(batch, 0, fast)), MOST_BATCH);
    }
}
