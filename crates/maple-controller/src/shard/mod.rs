//! A shard: one thread, pinned to one core, with its own poll, connections, discovery and engine.
//!
//! ```text
//!             ┌──────────────────────────── one turn ────────────────────────────┐
//!   sockets ──► read: one read a socket ─► frames ─► sessions ─► events ──┐      │
//!   mailbox ──► messages of other shards ─────────────────────────────────┤      │
//!   timers  ──► sessions, discovery ──────────────────────────────────────┤      │
//!             │                                     engine.handle(batch) ◄┘      │
//!             │  outboxes ◄── OpenFlow messages ◄── effects ◄─┘ └─► messages     │
//!   sockets ◄── one write a socket                               outgoing ──► other shards
//!             └──────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A turn takes what is there and no more, so batches grow with the load and shrink to one when idle. Each turn reads a
//! socket once, at most [`READ_SHARE`] bytes, so a switch that floods cannot starve the others. While a policy is slow,
//! the engine gets fewer packets a turn and the rest wait in a bounded [`Backlog`]; other messages do not wait.
//! [`QueueLimits`] bounds the output that waits for a switch. At the first limit the shard stops reading that switch;
//! at the second it disconnects the switch. While another shard's mailbox is full, this shard reads no sockets.
//!
//! Memory: a connection between messages holds no read buffer, and one with nothing to send holds no write buffer. This
//! module allocates nothing per message. Decoding an event into its owned form allocates, because the engine keeps
//! frames.
//!
//! A switch that a handler serves, instead of a policy, takes a shorter path: `handler_io`. If one shard has much more
//! work than another for long, such a switch migrates: `migration`.
//!
//! Only the shard's own thread uses it. Others send to its [`mailbox::Mailbox`]. The [`registry::Registry`] is shared,
//! and locked when switches connect, migrate and disconnect.

pub(crate) mod mailbox;
pub(crate) mod registry;

mod connection;
mod outbox;
mod slots;
mod socket;
mod sockets;
mod tls_socket;

mod announced;
mod backlog;
mod effects;
mod handler_io;
mod messages;
mod metrics;
mod migration;
mod returns;
mod session_output;
mod unreachable;

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
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use maple_core::engine::{Effect, Engine, Event, Histogram, LiveNews, RuleCount, ShardId, Time, Trial};
use maple_core::network::Location;
use maple_wire::Dpid;
use mio::{Events, Poll, Token};
use rustc_hash::FxHashMap;

use crate::counters::{Counters, FormerCounters};
use crate::discovery::{Discovery, DiscoveryOutput, IsAway, PeerMessage};
use crate::handler::{HandlerFactory, Replies};
use crate::listen::Subscriptions;
use crate::memory::record::ShardRecorder;
use crate::memory::{LeafJournal, Restart};
use crate::notice::{Notices, RefusalFilter};
use crate::session::{Deadlines, Output, TableSize};
use crate::time::{Clock, before, until};
use crate::tls::Tls;
use announced::Announced;
use backlog::Backlog;
use effects::MAX_BATCH;
use mailbox::{Outgoing, Released, ShardMessage};
use messages::Finishing;
use migration::LoadMonitor;
pub use outbox::QueueLimits;
use registry::{ConnectionId, Registry};
use returns::Returns;
use session_output::DepartedSwitch;
use slots::Slots;
use sockets::Listeners;
pub(crate) use sockets::ListeningSocket;
pub use unreachable::FORGET_SWITCH_AFTER;
use unreachable::Unreachable;

/// Maximum number of bytes that one turn reads from a socket.
const READ_SHARE: usize = 64 * 1024;
/// Maximum number of socket events that one turn takes from the poll.
const POLL_EVENTS: usize = 1024;
/// The time after which a full mailbox is tried again. Its owner does not signal that it has emptied it.
const CONGESTION_RETRY: Duration = Duration::from_millis(1);

/// The token of the waker.
pub(crate) const WAKER: Token = Token(0);
/// The first token of listening sockets.
const FIRST_LISTENER: usize = 1;
/// The number that is added to a connection's slot to get its token.
const FIRST_CONNECTION: usize = 1 << 16;

/// The parts of a shard, except its engine.
pub(crate) struct Parts {
    pub id: ShardId,
    pub poll: Poll,
    pub clock: Clock,
    pub deadlines: Deadlines,
    pub limits: QueueLimits,
    pub listeners: Vec<ListeningSocket>,
    /// The certificates for TLS, and which switches need one.
    pub tls: Option<Arc<Tls>>,
    pub registry: Arc<Registry>,
    pub inbox: Receiver<Vec<ShardMessage>>,
    pub outgoing: Outgoing,
    pub discovery: Discovery,
    pub notices: Notices,
    pub subscriptions: Subscriptions,
    pub handlers: Option<Arc<dyn HandlerFactory>>,
    pub write_each: bool,
    pub balance_period: Duration,
    /// How long a switch without a connection is kept; `None`: without limit.
    pub forget_after: Option<Duration>,
    /// The record of switches that may come back, and the journal of leaves.
    pub known: Option<(Arc<Restart>, Arc<LeafJournal>)>,
    /// Records the engine's turns.
    pub recorder: Option<ShardRecorder>,
}

/// One shard.
pub(crate) struct Shard {
    id: ShardId,
    poll: Poll,
    clock: Clock,
    deadlines: Deadlines,
    limits: QueueLimits,
    listeners: Listeners,
    tls: Option<Arc<Tls>>,
    registry: Arc<Registry>,
    inbox: Receiver<Vec<ShardMessage>>,
    outgoing: Outgoing,
    engine: Engine,
    /// Records the engine's turns.
    recorder: Option<ShardRecorder>,
    /// The listeners, which receive events besides the policy.
    subscriptions: Subscriptions,
    /// The factory of handlers that serve switches instead of a policy. Engine and discovery do not know such switches.
    handlers: Option<Arc<dyn HandlerFactory>>,
    /// Whether each answer of a handler is written separately.
    write_each: bool,
    load: LoadMonitor,
    /// The replies of the handler that is being called.
    replies: Replies,
    /// A write buffer that no connection is using.
    spare_buffer: Vec<u8>,
    discovery: Discovery,
    /// Whether discovery is to get the new declaration, once the engine knows it.
    is_declared: bool,
    notices: Notices,
    refusals: RefusalFilter,
    counters: Counters,
    /// The counters of ended connections.
    former: FormerCounters,
    /// The times from the beginning of the turn in which the engine got a packet to the end of its batch, one for each
    /// packet that f decided.
    decide_times: Histogram,
    connections: Slots,
    /// The slots of connected switches.
    by_dpid: FxHashMap<Dpid, usize>,
    /// The known switches that come back.
    returns: Returns,
    /// The switches that another process hands over.
    announced: Announced,
    /// The engine's switches without a connection.
    unreachable: Unreachable,
    /// The connections that go to the shards that have their switches.
    leaving: Vec<(ConnectionId, ShardId)>,
    /// The departed switches whose end the engine has not handled yet.
    departed: Vec<DepartedSwitch>,
    /// The deadlines by slot. An entry is valid only if the connection's `timer` has the same time.
    timers: BinaryHeap<Reverse<(Time, usize)>>,
    to_read: VecDeque<usize>,
    to_write: Vec<usize>,
    /// The read buffer of all sockets.
    buffer: Vec<u8>,
    /// The packets that wait for the engine.
    backlog: Backlog,
    /// Maximum number of packets that the engine gets in one turn.
    batch: usize,
    // The next four are buffers that turns fill and empty. They are kept for their memory.
    events: Vec<Event>,
    effects: Vec<Effect>,
    outputs: Vec<Output>,
    discovered: Vec<DiscoveryOutput>,
    /// The ports that probes leave by in this turn. Probes leave after the engine's rules, so that a switch has the
    /// rule for LLDP before it sees any.
    probes: Vec<Location>,
    /// Messages for discovery that wait until everything their switch has sent is read.
    deferred: Vec<(Location, PeerMessage)>,
    /// The threads that wait for the end of this turn.
    fences: Vec<Sender<()>>,
    /// The threads that wait until rules are deleted, by the engine's token.
    settling: FxHashMap<u64, Sender<()>>,
    /// The threads that wait for a rule's counters, by the numbers of their questions.
    counting: BTreeMap<u64, Sender<Option<RuleCount>>>,
    /// The threads that wait for the sizes of a switch's tables.
    sizing: Vec<(ConnectionId, Sender<Vec<TableSize>>)>,
    /// The threads that watch packets, by the numbers of their watches. There are at most as many as control clients.
    live: FxHashMap<u64, Sender<LiveNews>>,
    last_settle_token: u64,
    /// The thread that waits for the trial of a policy, by the policy's number.
    tried: Option<(u64, Sender<Trial>)>,
    /// The thread that waits until a policy decides, by the policy's number.
    adopted: Option<(u64, Sender<()>)>,
    /// The time at which the turn began.
    began: Time,
    /// The earliest time at which data that the poll reports in this turn can have arrived: the poll returns at once,
    /// so the data came during the previous turn at the earliest.
    arrivals_since: Time,
    stopping: bool,
    /// The state of the last work, if another process will go on with the connections. Nothing is read from sockets
    /// then.
    finishing: Option<Finishing>,
    /// The receiver of the sockets, if another process goes on with the connections.
    handing_over: Option<Sender<Released>>,
    /// Whether to print the engine's events and effects.
    #[cfg(feature = "simulation")]
    is_traced: bool,
}

impl Shard {
    /// Creates a shard that is ready to run.
    ///
    /// # Errors
    /// The system's error if a listening socket can't be registered with the poll.
    pub fn new(parts: Parts, mut engine: Engine) -> io::Result<Shard> {
        if let Some(recorder) = &parts.recorder {
            engine.record(recorder.from());
        }
        let listeners = Listeners::new(parts.listeners, parts.poll.registry())?;
        Ok(Shard {
            id: parts.id,
            poll: parts.poll,
            clock: parts.clock,
            deadlines: parts.deadlines,
            limits: parts.limits,
            listeners,
            tls: parts.tls,
            registry: Arc::clone(&parts.registry),
            inbox: parts.inbox,
            outgoing: parts.outgoing,
            engine,
            recorder: parts.recorder,
            subscriptions: parts.subscriptions,
            handlers: parts.handlers,
            write_each: parts.write_each,
            load: LoadMonitor::new(parts.balance_period),
            replies: Replies::default(),
            spare_buffer: Vec::new(),
            discovery: parts.discovery.asking(IsAway::by({
                let registry = Arc::clone(&parts.registry);
                move |dpid| registry.is_away(dpid)
            })),
            is_declared: false,
            notices: parts.notices,
            refusals: RefusalFilter::default(),
            counters: Counters::default(),
            former: FormerCounters::default(),
            decide_times: Histogram::default(),
            connections: Slots::new(parts.id),
            by_dpid: FxHashMap::default(),
            returns: Returns::new(parts.known),
            announced: Announced::default(),
            unreachable: Unreachable::new(parts.forget_after),
            leaving: Vec::new(),
            departed: Vec::new(),
            timers: BinaryHeap::new(),
            to_read: VecDeque::new(),
            to_write: Vec::new(),
            buffer: vec![0; READ_SHARE],
            backlog: Backlog::default(),
            batch: MAX_BATCH,
            events: Vec::new(),
            effects: Vec::new(),
            outputs: Vec::new(),
            discovered: Vec::new(),
            probes: Vec::new(),
            deferred: Vec::new(),
            fences: Vec::new(),
            settling: FxHashMap::default(),
            counting: BTreeMap::new(),
            sizing: Vec::new(),
            tried: None,
            adopted: None,
            live: FxHashMap::default(),
            last_settle_token: 0,
            began: Time(0),
            arrivals_since: Time(0),
            stopping: false,
            finishing: None,
            handing_over: None,
            #[cfg(feature = "simulation")]
            is_traced: false,
        })
    }

    /// Runs until it receives [`ShardMessage::Stop`].
    ///
    /// # Errors
    /// The system's error if polling fails.
    pub fn run(mut self) -> io::Result<()> {
        let mut ready = Events::with_capacity(POLL_EVENTS);
        while !self.stopping {
            self.turn(&mut ready)?;
        }
        self.hand_over();
        self.close_all();
        Ok(())
    }

    /// Waits for something to do, and runs one turn.
    fn turn(&mut self, ready: &mut Events) -> io::Result<()> {
        let timeout = self.timeout();
        let took = until(self.began, self.clock.now());
        match sync::wait(&mut self.poll, ready, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            result => result?,
        }
        let now = self.clock.now();
        self.arrivals_since = before(now, took);
        let mut count = 0;
        for event in ready.iter() {
            self.note_ready(event);
            count += 1;
        }
        // If the poll's list is full, there may be more.
        self.work(now, count < POLL_EVENTS);
        Ok(())
    }

    /// Does the work of a turn. `all_noted` says whether every connection with data to read is known.
    fn work(&mut self, now: Time, all_noted: bool) {
        self.counters.turns += 1;
        self.began = now;
        self.take_messages(now);
        self.accept(now);
        self.read_sockets(now);
        if all_noted {
            self.deliver_deferred(now);
        }
        self.run_timers(now);
        self.follow_discovery(now);
        self.run_engine(now);
        self.follow_declaration(now);
        self.send_probes(now);
        self.write_sockets(now);
        self.check_load();
        self.outgoing.flush();
        self.answer_fences();
    }

    /// Returns how long the poll may block.
    fn timeout(&self) -> Option<Duration> {
        let can_read = !self.to_read.is_empty() && self.reads();
        let has_events = !self.events.is_empty() || !self.backlog.is_empty();
        if can_read || self.outgoing.has_own() || has_events || self.accepts() {
            return Some(Duration::ZERO);
        }
        let timer = self.timers.peek().map(|Reverse((time, _))| *time);
        let engine = [self.engine.next_deadline(), self.returns.deadline(), self.unreachable.deadline()];
        let deadlines = [timer, self.discovery.deadline(), self.listeners.deadline()].into_iter().chain(engine);
        let next = deadlines.flatten().min().map(|time| until(self.clock.now(), time));
        if self.outgoing.is_congested() {
            return Some(next.map_or(CONGESTION_RETRY, |next| next.min(CONGESTION_RETRY)));
        }
        next
    }

    /// Runs the timers that are due.
    fn run_timers(&mut self, now: Time) {
        while let Some(Reverse((time, slot))) = self.timers.peek().copied() {
            if time > now {
                break;
            }
            self.timers.pop();
            self.connection_due(now, slot, time);
        }
        if let Some(switches) = self.returns.on_deadline(now) {
            self.presume(switches);
        }
        self.forget_unreachable(now);
        if self.discovery.deadline().is_some_and(|deadline| deadline <= now) {
            self.discovery.on_timer(now, &mut self.discovered);
        }
    }

    /// Adds a connection's next deadline to the heap, unless the heap has an earlier one.
    fn arm(&mut self, slot: usize) {
        let Some(connection) = self.connections.get(slot) else { return };
        let Some(deadline) = connection.deadline() else { return };
        if connection.timer.is_none_or(|timer| deadline < timer) {
            connection.timer = Some(deadline);
            self.timers.push(Reverse((deadline, slot)));
        }
    }
}
