//! What a shard does with its mail.

use std::time::Duration;

use maple_core::engine::{Counted, Event, Time};
use maple_wire::Dpid;

use super::connection::{Connection, Life};
use super::post::{Letter, Question};
use super::registry::ConnectionId;
use super::{Shard, sync};
use crate::control::{ShardStats, SwitchPort, SwitchStatus};
use crate::discovery::Tell;
use crate::printable::printable;
use crate::session::CloseReason;
use crate::time::until;

impl Shard {
    /// Reads the mailbox, as far as it is filled now.
    pub(super) fn take_letters(&mut self, now: Time) {
        for letter in self.post.own() {
            self.take(now, letter);
        }
        for _ in 0..self.inbox.len() {
            sync::step();
            let Ok(letters) = self.inbox.try_recv() else { break };
            for letter in letters {
                self.take(now, letter);
            }
        }
    }

    fn take(&mut self, now: Time, letter: Letter) {
        match letter {
            Letter::Connection(socket, peer) => self.adopt(now, socket, peer),
            Letter::Move(connection) => self.take_over(now, connection),
            Letter::Mail(mail) => self.events.push(Event::Mail(mail)),
            Letter::Event(event) => self.events.push(*event),
            Letter::Tell(at, tell @ Tell::Unanswered { .. }) => self.asked.push((at, tell)),
            Letter::Tell(at, tell) => self.discovery.on_tell(now, at, tell, &mut self.found),
            Letter::Challenge { dpid, owner, claimant } => self.challenged(now, dpid, owner, claimant),
            Letter::Verdict { dpid, claimant, alive } => self.judged(now, dpid, claimant, alive),
            Letter::Ask(question) => self.answer(question),
            Letter::Fence(to) => self.fences.push(to),
            Letter::Settle(to) => {
                self.settlings += 1;
                self.settling.insert(self.settlings, to);
                self.events.push(Event::AwaitBarriers(self.settlings));
            }
            Letter::Stop => self.stopping = true,
            #[cfg(test)]
            Letter::Part(dpid, to) => {
                if let Some(slot) = self.by_dpid.get(&dpid).copied() {
                    self.give_away(slot, to);
                }
            }
        }
    }

    /// Hands on what discovery is asked about switches of which everything was read.
    pub(super) fn answer_asked(&mut self, now: Time) {
        for (at, tell) in std::mem::take(&mut self.asked) {
            let slot = self.by_dpid.get(&at.switch).copied();
            let connection = slot.and_then(|slot| self.connections.get(slot));
            if connection.is_some_and(|connection| connection.waiting_since.is_some()) {
                self.asked.push((at, tell));
            } else {
                self.discovery.on_tell(now, at, tell, &mut self.found);
            }
        }
    }

    /// Another connection says that it is the switch of our connection `owner`: ask `owner` whether it is alive.
    fn challenged(&mut self, now: Time, dpid: Dpid, owner: ConnectionId, claimant: ConnectionId) {
        if let Some(departure) = self.departures.iter_mut().find(|departure| departure.connection == owner) {
            return departure.claimants.push(claimant);
        }
        let Some(connection) = self.connections.get_exactly(owner).filter(|c| c.dpid == Some(dpid)) else {
            return self.post.send(claimant.shard, Letter::Verdict { dpid, claimant, alive: false });
        };
        let Life::Open { session, .. } = &mut connection.life else {
            return self.post.send(claimant.shard, Letter::Verdict { dpid, claimant, alive: false });
        };
        connection.claimants.push(claimant);
        if connection.claimants.len() == 1 {
            session.challenge(now, &mut self.outputs);
        }
        self.act(now, owner.slot);
    }

    /// The connection that had the switch is alive, or it is gone and our connection may claim again.
    fn judged(&mut self, now: Time, dpid: Dpid, claimant: ConnectionId, alive: bool) {
        let Some(connection) = self.connections.get_exactly(claimant) else { return };
        if alive {
            if let Life::Open { session, .. } = &mut connection.life {
                session.refuse(CloseReason::Duplicate(dpid), &mut self.outputs);
            }
        } else {
            self.claim(now, claimant.slot, dpid);
        }
        self.act(now, claimant.slot);
    }

    /// Answers those who wanted to know that a turn has ended, once nothing of it waits here.
    pub(super) fn answer_fences(&mut self) {
        if self.post.is_congested() {
            return;
        }
        for to in self.fences.drain(..) {
            // Whoever asked may have given up waiting.
            let _ = to.send(());
        }
    }

    /// Has the engine ask its switches, or one of them, what they have counted; gives how old what it knows is.
    fn watch(&mut self, what: Counted, only: Option<Dpid>) -> Vec<Option<Duration>> {
        let chosen: Vec<Dpid> = self.engine.switches().filter(|dpid| only.is_none_or(|only| only == *dpid)).collect();
        self.events.extend(chosen.iter().map(|dpid| Event::Watch { dpid: *dpid, what }));
        chosen.iter().map(|dpid| self.engine.counted_at(*dpid, what).map(|at| self.since(at))).collect()
    }

    fn since(&self, at: Time) -> Duration {
        until(at, self.clock.now())
    }

    /// Answers a question.
    fn answer(&mut self, question: Question) {
        // Sending fails if whoever asked has given up waiting.
        match question {
            Question::Rules(dpid, to) => {
                let age = self.engine.counted_at(dpid, Counted::Rules).map(|at| self.since(at));
                to.send((self.engine.rules(dpid), age)).is_ok()
            }
            Question::Watch(what, only, to) => to.send(self.watch(what, only)).is_ok(),
            Question::Ports(to) => {
                let counts = self.engine.switches().flat_map(|dpid| self.engine.port_counts(dpid));
                to.send(counts.map(|count| (count, self.since(count.time))).collect()).is_ok()
            }
            Question::Traffic(to) => {
                let traffic = self.engine.switches().flat_map(|dpid| self.engine.traffic(dpid));
                to.send(traffic.map(|one| (one, self.since(one.time))).collect()).is_ok()
            }
            Question::Stats(to) => to.send(ShardStats { counters: self.counters, engine: self.engine.stats() }).is_ok(),
            Question::Failures(to) => to.send(self.engine.failures()).is_ok(),
            Question::Switches(to) => to.send(self.connections.iter().filter_map(status).collect()).is_ok(),
        };
    }
}

/// What is known of a connection's switch, if it is up.
fn status(connection: &Connection) -> Option<SwitchStatus> {
    let about = connection.about.as_ref()?;
    let port =
        |port: &maple_wire::Port| SwitchPort { number: port.number, name: printable(&port.name()), up: port.is_up() };
    Some(SwitchStatus {
        dpid: connection.dpid?,
        peer: connection.peer,
        version: about.version,
        description: about.description.clone(),
        tables: about.tables,
        shard: connection.id.shard,
        waiting_bytes: connection.outbox.len(),
        ports: about.ports.iter().map(port).collect(),
    })
}
