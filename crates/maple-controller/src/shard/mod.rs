//! A shard: one thread, pinned to one core, with its own poll, connections, discovery and engine.
//!
//! ```text
//!             ┌─────────────────────────── one turn ───────────────────────────┐
//!   sockets ──► read: one read a socket ─► frames ─► sessions ─► events ─┐      │
//!   mailbox ──► letters of other shards ─────────────────────────────────┤      │
//!   timers  ──► sessions, discovery ─────────────────────────────────────┤      │
//!             │                                     engine.handle(batch) ◄┘      │
//!             │   outboxes ◄── messages ◄── effects ◄──┘   └──► letters         │
//!   sockets ◄── one write a socket                                post ──► other shards
//!             └─────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A turn takes what is there and no more, so batches grow with the load and shrink to one when idle. Each socket gets
//! one read of at most [`READ_SHARE`] bytes a turn, so a switch that floods can't starve the rest. Where the engine is slow (a
//! policy that takes long) it gets fewer packets a turn, and the others wait in a bounded [`Backlog`], while all else is
//! dealt with at once. What a switch does not drain is bounded by its [`QueueLimits`]: first it is not read from any more, then it is cut off; nobody waits for
//! it. When another shard's mailbox is full, this shard reads no sockets until it has emptied.
//!
//! Memory: a connection between messages holds no read buffer, and one that waits for nothing no write buffer. Nothing
//! here allocates a message; decoding an event into its owned form does, as the engine keeps frames.
//!
//! Switches that a handler serves, instead of a policy, take a shorter road with a batch a socket: `handled`. Where one shard
//! has much more to do than another for long, such a switch moves: `balance`.
//!
//! Only the shard's own thread touches it. Others reach it through its [`post::Mailbox`]; the [`registry::Registry`] is
//! shared, and locked when switches come, move and go.

mod backlog;
mod balance;
mod connection;
mod effects;
mod handled;
mod letters;
mod outbox;
pub(crate) mod post;
pub(crate) mod registry;
mod slots;
mod socket;
mod sockets;
mod switches;
mod sync;

#[cfg(feature = "simulation")]
pub mod simulation;

#[cfg(test)]
mod fairness;
#[cfg(test)]
mod schedules;
#[cfg(test)]
mod testing;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use maple_core::engine::{Effect, Engine, Event, ShardId, Time};
use maple_core::network::Location;
use maple_wire::Dpid;
use mio::{Events, Poll, Token};
use rustc_hash::FxHashMap;

use crate::counters::Counters;
use crate::discovery::{Discovery, Found, Tell};
use crate::handler::{HandlerFactory, Replies};
use crate::listen::Audience;
use crate::notice::{Notices, Repeats};
use crate::session::{Deadlines, Output};
use crate::time::{Clock, before, until};
use backlog::Backlog;
use balance::Balance;
use effects::MOST_BATCH;
pub use outbox::QueueLimits;
use post::{Letter, Post};
use registry::Registry;
use slots::Slots;
use sockets::Listeners;
use switches::Departure;

/// Most bytes that one socket is read in one turn.
const READ_SHARE: usize = 64 * 1024;
/// Most socket events taken from the poll in one turn.
const POLL_EVENTS: usize = 1024;
/// How soon a full mailbox is tried again; its owner does not say when there is room.
const CONGESTION_RETRY: Duration = Duration::from_millis(1);

/// The waker's token.
pub(crate) const WAKER: Token = Token(0);
/// Listeners have the tokens from here on.
const FIRST_LISTENER: usize = 1;
/// Connections have the tokens from here on: this plus their slot.
const FIRST_CONNECTION: usize = 1 << 16;

/// What a shard is made of, besides its engine.
pub(crate) struct Parts {
    pub id: ShardId,
    pub poll: Poll,
    pub clock: Clock,
    pub deadlines: Deadlines,
    pub limits: QueueLimits,
    pub listeners: Vec<mio::net::TcpListener>,
    pub registry: Arc<Registry>,
    pub inbox: Receiver<Vec<Letter>>,
    pub post: Post,
    pub discovery: Discovery,
    pub notices: Notices,
    pub listening: Audience,
    pub handlers: Option<Arc<dyn HandlerFactory>>,
    pub write_each: bool,
    pub balance: Duration,
}

/// One shard.
pub(crate) struct Shard {
    id: ShardId,
    poll: Poll,
    clock: Clock,
    deadlines: Deadlines,
    limits: QueueLimits,
    listeners: Listeners,
    registry: Arc<Registry>,
    inbox: Receiver<Vec<Letter>>,
    post: Post,
    engine: Engine,
    /// Who hears what happens beside the policy.
    listening: Audience,
    /// Makes what serves the switches, where no policy does. Engine and discovery know nothing of such switches.
    handlers: Option<Arc<dyn HandlerFactory>>,
    /// Whether each answer of a handler is a write of its own.
    write_each: bool,
    balance: Balance,
    /// Lent to the handler that is called.
    replies: Replies,
    /// A write buffer that no connection has now.
    spare: Vec<u8>,
    discovery: Discovery,
    notices: Notices,
    repeats: Repeats,
    counters: Counters,
    connections: Slots,
    /// The slots of the switches that are up.
    by_dpid: FxHashMap<Dpid, usize>,
    /// Switches whose end the engine is still to hear of.
    departures: Vec<Departure>,
    /// When to look at which connection again. An entry counts only if the connection's `timer` has the same time.
    timers: BinaryHeap<Reverse<(Time, usize)>>,
    to_read: VecDeque<usize>,
    to_write: Vec<usize>,
    /// All sockets are read into this.
    buffer: Vec<u8>,
    /// Packets that wait for the engine.
    backlog: Backlog,
    /// How many packets the engine is given in one turn.
    batch: usize,
    /// The rest is filled and emptied within a turn, and kept for its memory.
    events: Vec<Event>,
    effects: Vec<Effect>,
    outputs: Vec<Output>,
    found: Vec<Found>,
    /// Where probes of this turn go out: behind the engine's rules, so that a switch knows LLDP before it sees any.
    probes: Vec<Location>,
    /// What discovery is asked about switches; answered when all that they had sent is read.
    asked: Vec<(Location, Tell)>,
    /// Who wants to know that this turn has ended.
    fences: Vec<Sender<()>>,
    /// Who wants to know that rules on their way out are gone, by the engine's token.
    settling: FxHashMap<u64, Sender<()>>,
    settlings: u64,
    /// When the turn began.
    began: Time,
    /// What the poll reported in this turn came in since then. As the poll returns at the first sign of something, that
    /// is as long ago as the turn before took.
    comes_in_since: Time,
    stopping: bool,
    /// Whether to print all that the engine takes and gives.
    #[cfg(feature = "simulation")]
    is_traced: bool,
}

impl Shard {
    /// A shard that is ready to run.
    pub fn new(parts: Parts, engine: Engine) -> io::Result<Shard> {
        let listeners = Listeners::new(parts.listeners, parts.poll.registry())?;
        Ok(Shard {
            id: parts.id,
            poll: parts.poll,
            clock: parts.clock,
            deadlines: parts.deadlines,
            limits: parts.limits,
            listeners,
            registry: parts.registry,
            inbox: parts.inbox,
            post: parts.post,
            engine,
            listening: parts.listening,
            handlers: parts.handlers,
            write_each: parts.write_each,
            balance: Balance::new(parts.balance),
            replies: Replies::default(),
            spare: Vec::new(),
            discovery: parts.discovery,
            notices: parts.notices,
            repeats: Repeats::default(),
            counters: Counters::default(),
            connections: Slots::new(parts.id),
            by_dpid: FxHashMap::default(),
            departures: Vec::new(),
            timers: BinaryHeap::new(),
            to_read: VecDeque::new(),
            to_write: Vec::new(),
            buffer: vec![0; READ_SHARE],
            backlog: Backlog::default(),
            batch: MOST_BATCH,
            events: Vec::new(),
            effects: Vec::new(),
            outputs: Vec::new(),
            found: Vec::new(),
            probes: Vec::new(),
            asked: Vec::new(),
            fences: Vec::new(),
            settling: FxHashMap::default(),
            settlings: 0,
            began: Time(0),
            comes_in_since: Time(0),
            stopping: false,
            #[cfg(feature = "simulation")]
            is_traced: false,
        })
    }

    /// Runs until a letter says stop.
    pub fn run(mut self) -> io::Result<()> {
        let mut ready = Events::with_capacity(POLL_EVENTS);
        while !self.stopping {
            self.turn(&mut ready)?;
        }
        self.close_all();
        Ok(())
    }

    /// One turn.
    fn turn(&mut self, ready: &mut Events) -> io::Result<()> {
        let timeout = self.timeout();
        let took = until(self.began, self.clock.now());
        match sync::wait(&mut self.poll, ready, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            result => result?,
        }
        let now = self.clock.now();
        self.comes_in_since = before(now, took);
        let mut noted = 0;
        for event in ready.iter() {
            self.note_ready(event);
            noted += 1;
        }
        // A full report of the poll may not be all of it.
        self.work(now, noted < POLL_EVENTS);
        Ok(())
    }

    /// A turn's work, after it is noted which connections have something to read: all of them, or as many as the poll tells.
    fn work(&mut self, now: Time, all_noted: bool) {
        self.counters.turns += 1;
        self.began = now;
        self.take_letters(now);
        self.accept(now);
        self.read_sockets(now);
        if all_noted {
            self.answer_asked(now);
        }
        self.run_timers(now);
        self.follow_findings(now);
        self.run_engine(now);
        self.send_probes(now);
        self.write_sockets(now);
        self.balance();
        self.post.flush();
        self.answer_fences();
    }

    /// How long the poll may wait.
    fn timeout(&self) -> Option<Duration> {
        let can_read = !self.to_read.is_empty() && !self.post.is_congested();
        let has_events = !self.events.is_empty() || !self.backlog.is_empty();
        if can_read || self.post.has_own() || has_events || self.listeners.are_ready() {
            return Some(Duration::ZERO);
        }
        let timer = self.timers.peek().map(|Reverse((time, _))| *time);
        let deadlines = [timer, self.engine.next_deadline(), self.discovery.deadline(), self.listeners.deadline()];
        let next = deadlines.into_iter().flatten().min().map(|time| until(self.clock.now(), time));
        if self.post.is_congested() {
            return Some(next.map_or(CONGESTION_RETRY, |next| next.min(CONGESTION_RETRY)));
        }
        next
    }

    /// Does what is due.
    fn run_timers(&mut self, now: Time) {
        while let Some(Reverse((time, slot))) = self.timers.peek().copied() {
            if time > now {
                break;
            }
            self.timers.pop();
            self.connection_due(now, slot, time);
        }
        if self.discovery.deadline().is_some_and(|deadline| deadline <= now) {
            self.discovery.on_timer(now, &mut self.found);
        }
    }

    /// Puts a connection's next deadline into the heap, unless an entry stands there that comes first.
    fn arm(&mut self, slot: usize) {
        let Some(connection) = self.connections.get(slot) else { return };
        let Some(deadline) = connection.deadline() else { return };
        if connection.timer.is_none_or(|timer| deadline < timer) {
            connection.timer = Some(deadline);
            self.timers.push(Reverse((deadline, slot)));
        }
    }
}
