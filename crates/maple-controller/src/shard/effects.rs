//! From what the engine and discovery want to what is sent.

use std::time::Duration;

use maple_core::engine::{Effect, Event, Time};
use maple_core::network::{Location, PortKind};
use maple_wire::msg::{NO_BUFFER, PacketOut};
use maple_wire::{Action, Dpid, Message, PortNo};

use super::connection::Life;
use super::post::Letter;
use super::{READ_SHARE, Shard};
use crate::discovery::{Found, Odd, Tell};
use crate::notice::Notice;
use crate::time::until;

/// A turn should not take longer than this, so that echoes are answered and everybody has a turn in time.
const LONG_TURN: Duration = Duration::from_millis(20);
/// The least that a socket is read in one turn, in bytes.
const LEAST_SHARE: usize = 2 * 1024;

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
            Found::Kind { at, kind, before } => self.events.push(event_of(at, kind, before)),
            Found::Odd { at, what, first } => self.odd(at, what, first),
        }
    }

    fn odd(&mut self, at: Location, what: Odd, first: bool) {
        match what {
            Odd::Forged => self.counters.lldp_forged += 1,
            Odd::Replayed => self.counters.lldp_replayed += 1,
            Odd::Reflected => self.counters.lldp_reflected += 1,
            Odd::OtherPeer => self.counters.lldp_other_peer += 1,
            Odd::OneWay => self.counters.lldp_one_way += 1,
        }
        if first {
            self.notices.tell(Notice::Discovery { at, what });
        }
    }

    /// Gives the engine the turn's events, or just the time if that is what it waits for.
    pub(super) fn run_engine(&mut self, now: Time) {
        if self.events.is_empty() {
            if self.engine.next_deadline().is_none_or(|deadline| deadline > now) {
                return;
            }
            self.events.push(Event::Tick);
        }
        self.engine.handle(now, &mut self.events, &mut self.effects);
        self.read_share = next_share(self.read_share, until(now, self.clock.now()));
        let mut effects = std::mem::take(&mut self.effects);
        for effect in effects.drain(..) {
            self.perform(now, effect);
        }
        self.effects = effects;
    }

    fn perform(&mut self, now: Time, effect: Effect) {
        match effect {
            Effect::Send { dpid, xid, message } => self.send_for_engine(now, dpid, xid, &message),
            Effect::ReadFlows { dpid } => {
                let Some(slot) = self.by_dpid.get(&dpid).copied() else { return };
                if let Some(session) = self.connections.get(slot).and_then(|connection| connection.session()) {
                    session.read_flows(now, &mut self.outputs);
                }
                self.act(now, slot);
            }
            Effect::Mail { to, mail } => self.post.send(to, Letter::Mail(mail)),
            Effect::Settled(token) => self.fences.extend(self.settling.remove(&token)),
            Effect::Report(report) => self.notices.tell(Notice::Engine(report)),
        }
    }

    /// Sends a message of the engine's. A switch that has gone since gets nothing; the engine hears that it went.
    fn send_for_engine(&mut self, now: Time, dpid: Dpid, xid: u32, message: &Message) {
        let Some(slot) = self.by_dpid.get(&dpid).copied() else { return };
        match message {
            Message::FlowMod(_) => self.counters.of_flow_mods += 1,
            Message::PacketOut(_) => self.counters.of_packet_outs += 1,
            _ => {
                if let Some(session) = self.connections.get(slot).and_then(|connection| connection.session()) {
                    session.on_sent(now, xid, message);
                }
                self.arm(slot);
            }
        }
        self.send(slot, xid, message);
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
            if let Some(frame) = self.discovery.frame(now, at) {
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
        self.send(slot, xid, &Message::PacketOut(message));
    }
}

/// The event that tells the engine what is behind a port now.
fn event_of(at: Location, kind: PortKind, before: PortKind) -> Event {
    match (kind, before) {
        (PortKind::Edge, _) => Event::PortIsEdge { port: at },
        (PortKind::Link(peer), _) => Event::LinkUp { a: at, b: peer },
        (PortKind::New, PortKind::Link(peer)) => Event::LinkDown { a: at, b: peer },
        (PortKind::New, _) => Event::PortIsNew { port: at },
    }
}

/// How much each socket may be read in the next turn, when this one took so long: slow policies get small batches.
fn next_share(share: usize, took: Duration) -> usize {
    if took > LONG_TURN { (share / 2).max(LEAST_SHARE) } else { (share * 2).min(READ_SHARE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_shrink_while_turns_are_long_and_grow_again_afterwards() {
        let (slow, fast) = (Duration::from_millis(500), Duration::from_micros(5));
        let mut share = READ_SHARE;
        for expected in [READ_SHARE / 2, READ_SHARE / 4, READ_SHARE / 8] {
            share = next_share(share, slow);
            assert_eq!(share, expected);
        }
        assert_eq!((0..20).fold(share, |share, _| next_share(share, slow)), LEAST_SHARE);
        assert_eq!((0..20).fold(share, |share, _| next_share(share, fast)), READ_SHARE);
    }
}
