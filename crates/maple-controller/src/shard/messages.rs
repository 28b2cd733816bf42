//! Handles the messages that a shard receives.

use std::time::Duration;

use crossbeam_channel::Sender;
use maple_core::engine::{Counted, Event, Time};
use maple_wire::Dpid;

use super::connection::{Connection, ConnectionState};
use super::mailbox::{ShardMessage, ShardQuery};
use super::registry::{ConnectionId, Registry};
use super::{Shard, sync};
use crate::discovery::PeerMessage;
use crate::memory::takeover::CopiedSwitch;
use crate::session::{CloseReason, SwitchInfo, TableSize};
use crate::status::{ShardStats, SwitchPort, SwitchStatus};
use crate::time::until;

/// How long a shard that has stopped reading decides the packets that it has read. The rest are handed over.
const LAST_WORK: Duration = Duration::from_millis(20);

/// The state of a shard that has stopped reading its sockets.
pub(super) struct Finishing {
    since: Time,
    /// The thread that waits until it is done.
    to: Option<Sender<()>>,
}

/// Maximum number of open questions about rules' counters, and about table sizes, that a shard keeps.
const MOST_COUNTING: usize = 1024;

impl Shard {
    /// Handles the messages in the mailbox.
    pub(super) fn take_messages(&mut self, now: Time) {
        for message in self.outgoing.take_own() {
            self.on_message(now, message);
        }
        for _ in 0..self.inbox.len() {
            sync::step();
            let Ok(messages) = self.inbox.try_recv() else { break };
            for message in messages {
                self.on_message(now, message);
            }
        }
    }

    fn on_message(&mut self, now: Time, message: ShardMessage) {
        match message {
            ShardMessage::Connection(socket, peer) => self.adopt(now, socket, peer),
            ShardMessage::Migrate(connection) => self.adopt_migrated(now, connection),
            ShardMessage::Mail(mail) => self.events.push(Event::Mail(mail)),
            ShardMessage::Event(event) => self.events.push(*event),
            ShardMessage::Declare { number, facts } => {
                self.events.push(Event::Declare { number, facts });
                self.is_declared = true;
            }
            ShardMessage::Discovery(at, message @ PeerMessage::Unanswered { .. }) => {
                self.deferred.push((at, message));
            }
            ShardMessage::Discovery(at, message) => {
                self.discovery.on_peer_message(now, at, message, &mut self.discovered);
            }
            ShardMessage::Challenge { dpid, owner, claimant } => self.on_challenge(now, dpid, owner, claimant),
            ShardMessage::ChallengeResult { dpid, claimant, alive } => {
                self.on_challenge_result(now, dpid, claimant, alive)
            }
            ShardMessage::Restore(switches) => self.restore(now, &switches),
            ShardMessage::Query(query) => self.answer(query),
            ShardMessage::Fence(to) => self.fences.push(to),
            ShardMessage::Settle(to) => {
                self.last_settle_token += 1;
                self.settling.insert(self.last_settle_token, to);
                self.events.push(Event::AwaitBarriers(self.last_settle_token));
            }
            ShardMessage::Announce(switch) => self.announce(*switch),
            ShardMessage::Resume(connection) => self.resume(now, connection),
            ShardMessage::AllResumed => self.all_resumed(now),
            ShardMessage::Listen(sockets) => self.listen(sockets),
            ShardMessage::Stop => self.stopping = true,
            ShardMessage::Finish(to) => self.finishing = Some(Finishing { since: now, to: Some(to) }),
            ShardMessage::HandOver(to) => (self.stopping, self.handing_over) = (true, Some(to)),
            #[cfg(test)]
            ShardMessage::MigrateSwitch(dpid, to) => {
                if let Some(slot) = self.by_dpid.get(&dpid).copied() {
                    self.migrate(slot, to);
                }
            }
        }
    }

    /// Passes deferred messages to discovery, for switches whose sockets are read empty.
    pub(super) fn deliver_deferred(&mut self, now: Time) {
        for (at, message) in std::mem::take(&mut self.deferred) {
            let slot = self.by_dpid.get(&at.switch).copied();
            let connection = slot.and_then(|slot| self.connections.get(slot));
            if connection.is_some_and(|connection| connection.waiting_since.is_some()) {
                self.deferred.push((at, message));
            } else {
                self.discovery.on_peer_message(now, at, message, &mut self.discovered);
            }
        }
    }

    /// Checks whether our connection `owner` is alive, because another connection claims its switch.
    fn on_challenge(&mut self, now: Time, dpid: Dpid, owner: ConnectionId, claimant: ConnectionId) {
        if let Some(departure) = self.departed.iter_mut().find(|departure| departure.connection == Some(owner)) {
            return departure.claimants.push(claimant);
        }
        let Some(connection) = self.connections.get_exactly(owner).filter(|c| c.dpid == Some(dpid)) else {
            return self.outgoing.send(claimant.shard, ShardMessage::ChallengeResult { dpid, claimant, alive: false });
        };
        let ConnectionState::Open { session, .. } = &mut connection.state else {
            return self.outgoing.send(claimant.shard, ShardMessage::ChallengeResult { dpid, claimant, alive: false });
        };
        connection.claimants.push(claimant);
        if connection.claimants.len() == 1 {
            session.challenge(now, &mut self.outputs);
        }
        self.act(now, owner.slot);
    }

    /// Handles the result of a challenge: refuses our connection `claimant` if the owner is alive; otherwise claims
    /// again.
    fn on_challenge_result(&mut self, now: Time, dpid: Dpid, claimant: ConnectionId, alive: bool) {
        let Some(connection) = self.connections.get_exactly(claimant) else { return };
        if alive {
            if let ConnectionState::Open { session, .. } = &mut connection.state {
                session.refuse(CloseReason::Duplicate(dpid), &mut self.outputs);
            }
        } else {
            self.claim(now, claimant.slot, dpid);
        }
        self.act(now, claimant.slot);
    }

    /// Answers the threads that wait for the end of this turn, once all its messages are sent.
    pub(super) fn answer_fences(&mut self) {
        if self.outgoing.is_congested() {
            return;
        }
        // The other threads may have stopped waiting.
        for to in self.fences.drain(..) {
            let _ = to.send(());
        }
        let is_done = self.events.is_empty() && self.backlog.is_empty() && !self.outgoing.has_own();
        if let Some(finishing) = &mut self.finishing
            && (is_done || until(finishing.since, self.clock.now()) >= LAST_WORK)
        {
            finishing.to.take().into_iter().for_each(|to| _ = to.send(()));
        }
    }

    /// Has the engine request counters of all its switches, or of one. Returns the ages of the known counters. Switches
    /// without a connection are left out, so nobody waits for them.
    fn request_counters(&mut self, what: Counted, only: Option<Dpid>) -> Vec<Option<Duration>> {
        let is_asked = |dpid: &Dpid| only.is_none_or(|only| only == *dpid) && !self.unreachable.has(*dpid);
        let selected: Vec<Dpid> = self.engine.switches().filter(is_asked).collect();
        self.events.extend(selected.iter().map(|dpid| Event::Watch { dpid: *dpid, what }));
        selected.iter().map(|dpid| self.engine.counted_at(*dpid, what).map(|at| self.age(at))).collect()
    }

    fn age(&self, at: Time) -> Duration {
        until(at, self.clock.now())
    }

    /// Collects the switches, with their present ports and rules.
    fn copied_switches(&self) -> Vec<CopiedSwitch> {
        let copied = |connection: &Connection| {
            let (dpid, switch) = (connection.dpid?, connection.switch.as_ref()?);
            let info = SwitchInfo { ports: (*switch.ports).clone(), ..switch.info.clone() };
            Some(CopiedSwitch { info, rules: self.engine.installed(dpid) })
        };
        let unreachable = self.unreachable.copies(|dpid| self.engine.installed(dpid));
        self.connections.iter().filter_map(copied).chain(unreachable).collect()
    }

    /// Answers a query.
    fn answer(&mut self, query: ShardQuery) {
        // Sending fails if the other thread has stopped waiting.
        match query {
            ShardQuery::Rules(dpid, to) => {
                let age = self.engine.counted_at(dpid, Counted::Rules).map(|at| self.age(at));
                to.send((self.engine.rules(dpid), age)).is_ok()
            }
            ShardQuery::Watch(what, only, to) => to.send(self.request_counters(what, only)).is_ok(),
            ShardQuery::Ports(to) => {
                let counts = self.engine.switches().flat_map(|dpid| self.engine.port_counts(dpid));
                to.send(counts.map(|count| (count, self.age(count.time))).collect()).is_ok()
            }
            ShardQuery::Traffic(to) => {
                let traffic = self.engine.switches().flat_map(|dpid| self.engine.traffic(dpid));
                to.send(traffic.map(|one| (one, self.age(one.time))).collect()).is_ok()
            }
            ShardQuery::Drops(minutes, to) => {
                let drops = self.engine.switches().flat_map(|dpid| self.engine.drops(dpid, minutes));
                to.send(drops.collect()).is_ok()
            }
            ShardQuery::Live(token, filter, to) => {
                self.live.insert(token, to);
                self.events.push(Event::LiveBegin { token, filter });
                true
            }
            ShardQuery::LiveGoOn(token) => {
                self.events.push(Event::LiveGoOn(token));
                true
            }
            ShardQuery::LiveEnd(token) => {
                self.live.remove(&token);
                self.events.push(Event::LiveEnd(token));
                true
            }
            ShardQuery::Stats(to) => {
                to.send(ShardStats { counters: self.counters, engine: self.engine.stats() }).is_ok()
            }
            ShardQuery::Metrics(to) => to.send(self.metrics()).is_ok(),
            ShardQuery::Failures(to) => to.send(self.engine.failures()).is_ok(),
            ShardQuery::Violations(to) => to.send(self.engine.violations()).is_ok(),
            ShardQuery::Try(candidate, to) => {
                self.tried = Some((candidate.number, to));
                self.events.push(Event::Try(candidate));
                true
            }
            ShardQuery::Adopt(candidate, to) => {
                self.adopted = Some((candidate.number, to));
                self.events.push(Event::Adopt(candidate));
                true
            }
            ShardQuery::Copy(to) => to.send(self.engine.copy()).is_ok(),
            ShardQuery::CountRule(dpid, table, rule, to) => {
                self.last_settle_token += 1;
                let token = self.last_settle_token;
                if self.counting.len() == MOST_COUNTING {
                    // The oldest question was to a switch that has gone.
                    self.counting.pop_first();
                }
                self.counting.insert(token, to);
                self.events.push(Event::CountRule { dpid, token, table, rule });
                true
            }
            ShardQuery::TableSizes(dpid, to) => {
                self.ask_for_table_sizes(dpid, to);
                true
            }
            ShardQuery::Inspect(look) => {
                look(&self.engine);
                true
            }
            ShardQuery::Copies(to) => to.send(self.copied_switches()).is_ok(),
            ShardQuery::Switches(to) => {
                let unreachable = self.unreachable.statuses(self.clock.now(), self.id);
                let statuses = self.connections.iter().filter_map(|connection| status(connection, &self.registry));
                to.send(statuses.chain(unreachable).collect()).is_ok()
            }
        };
    }

    /// Asks a switch for the sizes of its tables.
    fn ask_for_table_sizes(&mut self, dpid: Dpid, to: Sender<Vec<TableSize>>) {
        let Some(slot) = self.by_dpid.get(&dpid).copied() else { return };
        let Some(connection) = self.connections.get(slot) else { return };
        let id = connection.id;
        let Some(session) = connection.session() else { return };
        session.ask_for_table_sizes(&mut self.outputs);
        if self.sizing.len() == MOST_COUNTING {
            // The oldest question was to a switch that has gone, or never answers.
            self.sizing.remove(0);
        }
        self.sizing.push((id, to));
        self.act(self.clock.now(), slot);
    }
}

/// Returns the status of a connection's switch, if its handshake is done.
fn status(connection: &Connection, registry: &Registry) -> Option<SwitchStatus> {
    let (switch, dpid) = (connection.switch.as_ref()?, connection.dpid?);
    Some(SwitchStatus {
        dpid,
        peer: Some(connection.peer),
        unreachable: None,
        silent: registry.is_away(dpid),
        version: switch.version,
        description: switch.description.clone(),
        tables: switch.tables,
        bundles: switch.has_bundles,
        shard: connection.id.shard,
        waiting_bytes: connection.outbox.len(),
        ports: switch.ports.iter().map(SwitchPort::from).collect(),
    })
}
