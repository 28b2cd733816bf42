//! The event loop of a shard: what happens in a turn, and what the parts want of each other, from top to bottom.
//!
//! [`Shard`] is a dispatcher: its parts have the state, and call only parts below them. What a part wants of those
//! above it, it returns, or leaves as an event of the engine, a session's output, or a message. This file passes these
//! on: [`Shard::on_message`], [`Shard::act_on`] and [`Shard::perform`] are one `match` each.
//!
//! The way of a packet-in, downwards in this file:
//!
//! 1. [`Shard::read`]: `io.rs` reads the socket into one buffer. `message_dispatch/` splits it into messages. The
//!    engine's leaves answer packets in place; all other messages go to the session (`session/`).
//! 2. [`Shard::act_on`]: the session delivers the packet-in. `switches.rs` makes it an event of the engine.
//! 3. [`Shard::run_engine`]: `turn.rs` passes the engine the events of the turn, at most as many packets as it can
//!    handle in time. The others wait in `backlog.rs`.
//! 4. [`Shard::perform`]: the engine's effects. A packet-out goes by `switches.rs` and `to_switch.rs` to the outbox of
//!    its connection.
//! 5. [`Shard::write`]: `io.rs` writes each outbox once.

use std::io::Result;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::{Effect, Engine, Event};
#[cfg(feature = "simulation")]
use maple_core::engine::{ShardId, Time};
use maple_core::report::Report;
#[cfg(feature = "simulation")]
use maple_core::trace::Cond;
use maple_wire::Dpid;
use mio::Events;

use super::answer_queries::Queries;
use super::away::{AwaySwitches, ReturningSwitches, Unreachable, announce_presumed};
use super::connection_socket::Socket;
use super::context::Context;
use super::io::{Io, OpenedConnection, POLL_EVENTS};
use super::links::Links;
use super::mailbox::ShardMessage;
#[cfg(all(test, feature = "simulation"))]
use super::outbox::Outbox;
use super::shard_end::ShardEnd;
use super::shard_parts::ShardParts;
use super::switches::Switches;
use super::sync::{self, CONGESTION_RETRY};
use super::turn::EngineTurn;
#[cfg(feature = "simulation")]
use crate::counters::Counters;
use crate::discovery::IsUnreachable;
use crate::notice::Notice;
use crate::program::Progress;
use crate::session::{CloseReason, ClusterRole, Output};
#[cfg(test)]
use crate::storage::KnownSwitches;
#[cfg(feature = "simulation")]
use crate::storage::record::ShardRecorder;
use crate::storage::takeover::HandedConnection;
use crate::time::until;

/// The maximum number of connections accepted in one turn. Chosen: a storm of connections delays switches by no more
/// than that.
const ACCEPT_SHARE: usize = 64;

/// One shard.
pub(crate) struct Shard {
    ctx: Context,
    io: Io,
    switches: Switches,
    turn: EngineTurn,
    queries: Queries,
    ending: ShardEnd,
    /// The outputs of a session that are being acted on, kept for its memory.
    outputs: Vec<Output>,
}

impl Shard {
    /// Creates a shard that is ready to run.
    ///
    /// # Errors
    /// The system's error if a listening socket can't be registered with the poll.
    pub fn new(parts: ShardParts, engine: Engine) -> Result<Shard> {
        let ShardParts { ctx, io, tls, discovery, subscriptions, forget_after, known, recorder } = parts;
        let registry = Arc::clone(&ctx.registry);
        let io = Io::new(io, ctx.id)?;
        let links = Links::new(discovery.asking(IsUnreachable::by(move |dpid| registry.is_away(dpid))));
        Ok(Shard {
            ctx,
            io,
            switches: Switches::new(
                tls,
                links,
                AwaySwitches::new(ReturningSwitches::new(known), Unreachable::new(forget_after)),
            ),
            turn: EngineTurn::new(engine, subscriptions, recorder),
            queries: Queries::default(),
            ending: ShardEnd::default(),
            outputs: Vec::new(),
        })
    }

    /// Runs until it receives [`ShardMessage::Stop`].
    ///
    /// # Errors
    /// The system's error if polling fails.
    pub fn run(mut self) -> Result<()> {
        let mut ready = Events::with_capacity(POLL_EVENTS);
        while !self.ending.is_stopping() {
            self.turn(&mut ready)?;
        }
        if let Some(heir) = self.ending.take_heir() {
            let released = self.io.release(self.turn.take_unanswered(&mut self.ctx), &self.ctx);
            // If the other thread has given up, the sockets are closed.
            drop(heir.send(released));
        }
        self.close_all();
        Ok(())
    }

    /// Waits for something to do, and runs one turn.
    pub fn turn(&mut self, ready: &mut Events) -> Result<()> {
        let timeout = self.timeout();
        if let Some(all_noted) = self.io.wait(ready, timeout, &mut self.ctx)? {
            self.work(all_noted);
        }
        Ok(())
    }

    /// Returns how long the poll may block.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        let can_read = self.io.waiting_reads() > 0 && self.reads();
        let has_events = !self.ctx.events.is_empty() || self.turn.waiting() > 0;
        if can_read || self.ctx.outgoing.has_own() || has_events || self.accepts() {
            return Some(Duration::ZERO);
        }
        let deadlines = [self.io.deadline(), self.turn.engine().next_deadline(), self.switches.deadline()];
        let next = deadlines.into_iter().flatten().min().map(|time| until(self.ctx.clock.now(), time));
        if self.ctx.outgoing.is_congested() {
            return Some(next.map_or(CONGESTION_RETRY, |next| next.min(CONGESTION_RETRY)));
        }
        next
    }

    /// Does the work of a turn. `all_noted` says whether every connection with data to read is known.
    fn work(&mut self, all_noted: bool) {
        self.ctx.counters.turns += 1;
        self.take_messages();
        self.accept();
        self.read_sockets();
        if all_noted {
            self.switches.deliver_deferred(&mut self.io, &self.ctx);
        }
        self.run_timers();
        self.switches.links.follow(&mut self.ctx);
        self.run_engine();
        self.switches.follow_declaration(self.turn.engine(), &self.io, &self.ctx);
        self.switches.send_probes(&mut self.io, &mut self.ctx);
        self.write_sockets();
        self.io.balance(&mut self.ctx);
        self.ctx.outgoing.flush();
        self.end_turn();
    }

    /// Handles the messages in the mailbox.
    fn take_messages(&mut self) {
        for message in self.ctx.outgoing.take_own() {
            self.on_message(message);
        }
        // No other thread takes batches out, so these are there.
        for _ in 0..self.ctx.inbox.len() {
            sync::step();
            for message in self.ctx.inbox.try_recv().into_iter().flatten() {
                self.on_message(message);
            }
        }
    }

    fn on_message(&mut self, message: ShardMessage) {
        let Shard { ctx, io, switches, turn, queries, ending, .. } = self;
        match message {
            ShardMessage::Connection(socket, peer) => self.open(socket, peer),
            ShardMessage::Migrate(connection) => {
                let (opened, claims) = io.adopt(connection, ctx);
                self.on_adopted(opened, claims);
            }
            ShardMessage::Mail(mail) => ctx.events.push(Event::Mail(mail)),
            ShardMessage::Event(event) => ctx.events.push(*event),
            ShardMessage::Declare { number, facts } => {
                ctx.events.push(Event::Declare { number, facts });
                switches.note_declared();
            }
            ShardMessage::Role(number, role) => self.set_role(number, role),
            ShardMessage::ForgetUnreachable => switches.away.forget_all_unreachable(ctx),
            ShardMessage::Discovery(at, message) => switches.links.on_message(ctx.now, at, message),
            ShardMessage::Challenge { dpid, owner, claimant } => {
                switches.on_challenge(dpid, owner, claimant, io, ctx);
                self.act(owner.slot);
            }
            ShardMessage::ChallengeResult { dpid, claimant, alive } => {
                switches.on_challenge_result(dpid, claimant, alive, turn.engine(), io, ctx);
                self.act(claimant.slot);
            }
            ShardMessage::Restore(dpids) => switches.away.restore(&dpids, &mut switches.links, io, ctx),
            ShardMessage::Query(query) => {
                if let Some(slot) = queries.answer(query, turn, switches, io, ctx) {
                    self.act(slot);
                }
            }
            ShardMessage::AwaitTurnEnd(to) => queries.await_turn_end(to),
            ShardMessage::Settle(to) => queries.settle(to, ctx),
            ShardMessage::Announce(switch) => ctx.events.push(switches.away.announced.announce(*switch)),
            ShardMessage::Resume(connection) => self.resume(connection),
            ShardMessage::AllResumed => switches.away.on_all_resumed(&mut switches.links, ctx),
            ShardMessage::Listen(sockets) => io.listen(sockets),
            ShardMessage::Stop => ending.stop(),
            ShardMessage::Finish(to) => ending.finish(ctx.now, to),
            ShardMessage::HandOver(to) => ending.hand_over(to),
            #[cfg(test)]
            ShardMessage::MigrateSwitch(dpid, to) => {
                if let Some(slot) = io.connections().slot_of(dpid) {
                    io.migrate(slot, to, ctx);
                }
            }
        }
    }

    /// Takes what the cluster says of this controller.
    fn set_role(&mut self, number: u64, role: ClusterRole) {
        self.ctx.role = Some((number, role));
        let slots: Vec<usize> = self.io.connections().iter().map(|connection| connection.id.slot).collect();
        for slot in slots {
            self.follow_cluster(slot);
        }
    }

    /// Tells a session what the cluster says of this controller.
    fn follow_cluster(&mut self, slot: usize) {
        if let Some((number, role)) = self.ctx.role
            && let Some((session, outputs)) = self.io.session(slot)
        {
            session.set_role(self.ctx.now, number, role, outputs);
            self.act(slot);
        }
    }

    /// Reports whether there may be connections to accept.
    fn accepts(&self) -> bool {
        self.io.accepts() && !self.ending.is_finishing()
    }

    /// Accepts a bounded number of connections, and assigns each to the shard with the fewest.
    fn accept(&mut self) {
        self.io.resume_accepting(self.ctx.now);
        if !self.accepts() {
            return;
        }
        let mut left = ACCEPT_SHARE;
        while left > 0
            && let Some((socket, peer)) = self.io.accept(self.ctx.now)
        {
            left -= 1;
            self.ctx.counters.of_connections += 1;
            match self.ctx.registry.assign() {
                to if to == self.ctx.id => self.open(socket, peer),
                to => self.ctx.outgoing.send(to, ShardMessage::Connection(socket, peer)),
            }
        }
    }

    /// Serves a new connection.
    fn open(&mut self, socket: Socket, peer: SocketAddr) {
        let opened = self.io.open(socket, peer, &self.ctx);
        self.on_opened(opened);
    }

    /// Serves a connection that another process handed over.
    fn resume(&mut self, handed: HandedConnection) {
        let dpid = handed.dpid;
        if let Some(opened) = self.io.resume(handed, &self.ctx) {
            self.switches.away.announced.note_connection(dpid, opened.id);
            self.on_opened(opened);
        }
    }

    fn on_opened(&mut self, opened: OpenedConnection) {
        let OpenedConnection { id, failure } = opened;
        self.act(id.slot);
        self.io.want_read(id.slot);
        if let Some(reason) = failure {
            self.close(id.slot, reason);
        }
    }

    /// Serves a connection that another shard sent, perhaps because this shard has the switch that it claims.
    fn on_adopted(&mut self, opened: OpenedConnection, claims: Option<Dpid>) {
        let OpenedConnection { id, failure } = opened;
        if let Some(reason) = failure {
            self.close(id.slot, reason);
        } else if let Some(dpid) = claims {
            self.follow_cluster(id.slot);
            self.switches.claim(id.slot, dpid, self.turn.engine(), &mut self.io, &mut self.ctx);
            self.act(id.slot);
        }
    }

    /// Reports whether sockets are read in this turn.
    fn reads(&self) -> bool {
        !self.ctx.outgoing.is_congested() && !self.ending.is_finishing()
    }

    /// Reads each ready socket once.
    fn read_sockets(&mut self) {
        if !self.reads() {
            return;
        }
        let mut share = self.io.read_share();
        while let Some(slot) = self.io.next_to_read(&mut share) {
            self.read(slot);
        }
    }

    /// Reads a socket, and acts on what its session makes of the messages.
    fn read(&mut self, slot: usize) {
        let read = if self.io.has_programs() {
            self.read_for_program(slot).map(|()| None)
        } else {
            self.io.read(slot, self.turn.engine_mut(), &mut self.ctx)
        };
        let answers = match read {
            Ok(answers) => answers,
            Err(reason) => return self.drop_connection(slot, reason),
        };
        if let Some((dpid, packet_outs)) = answers {
            self.turn.note_hits(dpid, packet_outs);
        }
        self.act(slot);
        self.io.end_read(self.ctx.now, slot);
        if answers.is_some() {
            self.write(slot);
        }
        self.io.want_read(slot);
    }

    /// Reads a socket, and has the program of its connection handle the messages. The shard acts on the session's
    /// outputs before the program gets the next message.
    fn read_for_program(&mut self, slot: usize) -> std::result::Result<(), CloseReason> {
        if let Some((buffer, bytes)) = self.io.fill(slot, &mut self.ctx)? {
            let mut rest = &buffer[..bytes];
            loop {
                let progress = self.io.run_program(slot, &mut rest, &mut self.ctx);
                self.act(slot);
                match progress {
                    Progress::Done => break,
                    Progress::Act => {}
                    Progress::Write => self.write(slot),
                }
            }
            self.write(slot);
            self.io.give_back(buffer);
        }
        Ok(())
    }

    /// Acts on the outputs of a connection's session, and sets its timer.
    fn act(&mut self, slot: usize) {
        let mut outputs = std::mem::take(&mut self.outputs);
        // Acting may produce more outputs, for example when a claim is granted.
        while self.io.take_outputs(&mut outputs) {
            for output in outputs.drain(..) {
                self.act_on(slot, output);
            }
        }
        self.outputs = outputs;
        self.switches.send_leaving(&mut self.io, &mut self.ctx);
        self.io.arm(slot);
    }

    fn act_on(&mut self, slot: usize, output: Output) {
        let Shard { ctx, io, switches, queries, turn, .. } = self;
        match output {
            Output::Deliver { xid, message } => switches.on_message(slot, xid, message, io, ctx),
            Output::Send { xid, message } => {
                let sent = io.send(slot, xid, &message, ctx);
                debug_assert!(sent.is_ok(), "every version has a session's own messages: {sent:?}");
            }
            Output::Claim(dpid) => switches.claim(slot, dpid, turn.engine(), io, ctx),
            Output::Up(info) => {
                switches.on_up(slot, &info, io, ctx);
                if io.has_programs() {
                    io.call_program(slot, ctx, |program, line| program.switch_up(&info, line));
                } else {
                    switches.begin(slot, *info, io, ctx);
                }
            }
            Output::Role(news) => switches.on_role(slot, news, io, ctx),
            Output::Rules(rules) => switches.on_rules(slot, rules, io, ctx),
            Output::TableSizes(tables) => queries.on_table_sizes(slot, &tables, io),
            Output::Answered(number, answer) => queries.on_answered(slot, number, answer, io),
            Output::Ports(ports) => switches.on_ports(slot, &ports, io, ctx),
            Output::Alive => switches.answer_claimants(slot, io, ctx),
            Output::Silent(is_silent) => switches.set_silent(slot, is_silent, io, ctx),
            Output::Warning { warning, first } => switches.warn(slot, warning, first, io, ctx),
            Output::Close(reason) => self.close(slot, reason),
        }
    }

    /// Runs the timers that are due.
    fn run_timers(&mut self) {
        while let Some(slot) = self.io.next_due(&self.ctx) {
            self.act(slot);
            self.io.end_due(slot, &mut self.ctx);
        }
        self.switches.on_timer(self.turn.engine(), &mut self.ctx);
    }

    /// Gives the turn's events to the engine, and performs its effects.
    fn run_engine(&mut self) {
        let announces_all = self.switches.away.returns.is_to_announce_all();
        if !self.turn.run(announces_all, &mut self.io, &mut self.ctx) {
            return;
        }
        // What effects ask to presume becomes an event of the next turn.
        let presumed = self.switches.away.returns.take_presumed();
        let mut effects = self.turn.take_effects();
        for effect in effects.drain(..) {
            self.perform(effect);
        }
        self.turn.give_back(effects);
        announce_presumed(presumed, &mut self.ctx);
        self.free_departed();
    }

    pub(crate) fn perform(&mut self, effect: Effect) {
        let Shard { ctx, io, switches, queries, turn, .. } = self;
        match effect {
            Effect::Send { dpid, xid, message } => {
                if let Some(slot) = switches.send(dpid, xid, &message, io, ctx) {
                    self.act(slot);
                }
            }
            Effect::Poll { dpid, xid, message } => {
                if let Some(slot) = switches.poll(dpid, xid, &message, io, ctx) {
                    self.act(slot);
                }
            }
            Effect::ReadRules { dpid } => {
                if let Some(slot) = switches.read_flows(dpid, io, ctx) {
                    self.act(slot);
                    self.switches.on_flows_asked(slot, &mut self.io, &mut self.ctx);
                }
            }
            Effect::AskPorts { dpid } => {
                if let Some(slot) = switches.ask_ports(dpid, io) {
                    self.act(slot);
                }
            }
            Effect::Reconnect { dpid } => {
                if let Some(slot) = io.connections().slot_of(dpid) {
                    self.close(slot, CloseReason::OneTable);
                }
            }
            Effect::Remember(leaves) => switches.away.returns.note(leaves),
            Effect::Departed { dpid, leaves, surroundings } => {
                switches.away.returns.on_departed(dpid, leaves, surroundings)
            }
            Effect::Mail { to, mail } => ctx.outgoing.send(to, ShardMessage::Mail(mail)),
            Effect::Live { token, news } => queries.on_live_news(token, news),
            Effect::BarriersDone(token) => queries.on_barriers_done(token),
            Effect::RuleCounted { token, count } => queries.on_rule_counted(token, count),
            Effect::Tried { candidate, trial } => queries.on_tried(candidate, trial),
            Effect::Adopted { candidate } => queries.on_adopted(candidate),
            Effect::ListenerPacket(heard) => turn.publish_packet(&heard, ctx),
            Effect::Report(report) if ctx.notices.is_known(&report) => {}
            Effect::Report(report) => {
                if let Report::SwitchDown(dpid) = report {
                    switches.away.drop_unreachable(dpid, &mut switches.links, ctx);
                }
                turn.publish_report(&report, ctx);
                ctx.notices.publish(Notice::Engine(report));
            }
        }
    }

    /// Writes once to each socket with waiting output.
    fn write_sockets(&mut self) {
        let mut slots = self.io.take_to_write();
        for slot in slots.drain(..) {
            self.write(slot);
        }
        self.io.give_back_to_write(slots);
    }

    /// Writes a socket's waiting output, once.
    fn write(&mut self, slot: usize) {
        if let Err(reason) = self.io.write(slot, &mut self.ctx) {
            self.drop_connection(slot, reason);
        }
    }

    /// Answers the threads that wait for the end of this turn, once all its messages are sent.
    fn end_turn(&mut self) {
        if self.ctx.outgoing.is_congested() {
            return;
        }
        self.queries.answer_at_turn_end();
        let is_done = self.ctx.events.is_empty() && self.turn.waiting() == 0 && !self.ctx.outgoing.has_own();
        self.ending.end_turn(&self.ctx.clock, is_done);
    }

    /// Ends a connection. Waiting output is still sent.
    fn close(&mut self, slot: usize, reason: CloseReason) {
        self.switches.close(slot, reason, self.turn.engine(), &mut self.io, &mut self.ctx);
    }

    /// Ends a connection at once. Waiting output is dropped.
    fn drop_connection(&mut self, slot: usize, reason: CloseReason) {
        self.switches.drop_connection(slot, reason, self.turn.engine(), &mut self.io, &mut self.ctx);
    }

    /// Ends all connections when the shard ends.
    fn close_all(&mut self) {
        self.ctx.now = self.ctx.clock.now();
        let slots: Vec<usize> = self.io.connections().iter().map(|connection| connection.id.slot).collect();
        for slot in slots {
            self.drop_connection(slot, CloseReason::Stopping);
        }
        self.free_departed();
    }

    /// Frees the datapath ids of switches whose end the engine has handled.
    fn free_departed(&mut self) {
        let Switches { away, links, .. } = &mut self.switches;
        away.free_departed(self.turn.engine(), links, &mut self.ctx);
    }
}

#[cfg(feature = "simulation")]
impl Shard {
    /// Returns the engine.
    pub fn engine(&self) -> &Engine {
        self.turn.engine()
    }

    /// Returns the shard's counters.
    pub fn counters(&self) -> Counters {
        self.ctx.counters
    }

    /// Returns the conditions of the listeners.
    pub fn listener_conditions(&self) -> Arc<[Cond]> {
        Arc::clone(self.turn.subscriptions().conditions())
    }

    /// Records the turns with the recorder of this shard.
    pub fn record(&mut self, recorder: impl FnOnce(ShardId) -> ShardRecorder) {
        self.turn.record(recorder(self.ctx.id));
    }

    /// Prints the engine's events and effects in all later turns.
    pub fn trace(&mut self) {
        self.turn.is_traced = true;
    }

    /// Runs one turn with the connections in memory, and without a wait.
    pub fn turn_at(&mut self, now: Time) {
        self.ctx.now = now;
        self.io.note_memory(now);
        self.work(true);
    }

    /// Returns the engine's next events.
    #[cfg(test)]
    pub fn events(&mut self) -> &mut Vec<Event> {
        &mut self.ctx.events
    }

    /// Returns the outbox of a connected switch.
    #[cfg(test)]
    pub fn outbox_of(&mut self, dpid: Dpid) -> Option<&mut Outbox> {
        self.io.connections_mut().of_switch(dpid).map(|connection| &mut connection.outbox)
    }

    /// Gives the shard the memory of an earlier run.
    #[cfg(test)]
    pub fn remember(&mut self, known: KnownSwitches) {
        self.switches.away.returns = ReturningSwitches::new(Some(known));
    }
}
