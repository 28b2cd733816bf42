//! Shards in one thread and in simulated time. The turns are those of the product; the caller controls connections,
//! messages and the clock. Tests and emulated networks use this.
//!
//! The caller opens connections ([`Simulation::connect`]), acts as a switch through a [`SwitchEnd`], and lets one shard
//! take a turn at a time. A turn's messages to other shards come back as [`Batch`]es. The caller delivers them when it
//! likes, in order for each pair of shards. So every interleaving of shards, switches and mailboxes at the level of
//! turns can be simulated, and a run depends only on the caller.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::Receiver;
use maple_core::engine::testing::is_half_way;
use maple_core::engine::{Engine, Event, Options, ShardId, Stats, TableRule, Time, ViolationKey};
use maple_core::network::Facts;
use maple_core::policy::Policy;
use maple_core::state::Store;
use maple_wire::Dpid;
use mio::{Poll, Waker};

use crate::counters::Counters;
use crate::discovery::{Discovery, Key, Timing};
use crate::kept_files::KeptFiles;
use crate::listener::{Subscription, Subscriptions};
use crate::notice::{Notice, Notices};
use crate::session::{ClusterRole, Deadlines};
use crate::shard::mailbox::{Mailbox, Outgoing, ShardMessage};
pub use crate::shard::memory_socket::SwitchEnd;
use crate::shard::registry::Registry;
use crate::shard::{Context, IoParts, QueueLimits, Shard, ShardParts, WAKER};
use crate::storage::record::{RecordOptions, RecordWriter, Recording, RecordingError};
use crate::time::{Clock, after};

/// The messages of one turn from one shard to another.
pub struct Batch {
    /// The number of the receiving shard.
    pub to: usize,
    messages: Vec<ShardMessage>,
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("to", &self.to).field("messages", &self.messages.len()).finish_non_exhaustive()
    }
}

/// The options of a simulation.
pub struct SimulationOptions {
    /// The number of shards.
    pub shards: u8,
    /// The time in nanoseconds. A policy may advance it to simulate its own run time.
    pub clock: Arc<AtomicU64>,
    /// The tracked state.
    pub store: Arc<Store>,
    /// The policy.
    pub policy: Arc<dyn Policy>,
    /// The engines' options.
    pub engine: Options,
    /// The time limits of sessions.
    pub deadlines: Deadlines,
    /// The limits of output that waits for a switch.
    pub limits: QueueLimits,
    /// The time for which a switch without a connection is kept; `None`: without limit. With zero, it is not kept at
    /// all.
    pub forget_after: Option<Duration>,
    /// Whether the controller is one of several, and a standby until [`Simulation::set_role`] says otherwise.
    pub in_cluster: bool,
    /// The subscriptions of listeners. Their conditions replace those in `engine`.
    pub subscriptions: Vec<Subscription>,
}

impl fmt::Debug for SimulationOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulationOptions")
            .field("shards", &self.shards)
            .field("engine", &self.engine)
            .finish_non_exhaustive()
    }
}

/// Shards that run one turn at a time.
pub struct Simulation {
    clock: Arc<AtomicU64>,
    registry: Arc<Registry>,
    shards: Vec<SimulatedShard>,
    notices: Receiver<Notice>,
    connections: u16,
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation").field("shards", &self.shards.len()).finish_non_exhaustive()
    }
}

/// One shard of a simulation.
struct SimulatedShard {
    shard: Shard,
    /// The sending end of the shard's mailbox.
    mailbox: Mailbox,
    /// The shard's messages to the others, by receiving shard.
    outgoing: Vec<Receiver<Vec<ShardMessage>>>,
}

impl Simulation {
    /// Creates shards without connections.
    ///
    /// # Errors
    /// The system's error if it cannot create a poll, or an error if listeners have too many conditions together.
    pub fn new(options: &SimulationOptions) -> io::Result<Simulation> {
        let clock = Arc::clone(&options.clock);
        let registry = Arc::new(Registry::new(usize::from(options.shards)));
        let (notices, reader) = Notices::new(Arc::default());
        let one = |id| SimulatedShard::new(ShardId(id), options, &clock, &registry, &notices);
        let shards = (0..options.shards).map(one).collect::<io::Result<Vec<_>>>()?;
        Ok(Simulation { clock, registry, shards, notices: reader, connections: 0 })
    }

    /// Starts recording the engines; to be called before their first turn. The recording ends when its writer is
    /// dropped.
    ///
    /// # Errors
    /// [`RecordingError`] if the folder can't be written.
    pub fn record(&mut self, options: &SimulationOptions, to: &RecordOptions) -> Result<RecordWriter, RecordingError> {
        let mut engine = options.engine.clone();
        if let Some(first) = self.shards.first() {
            engine.listener_filters = first.shard.listener_conditions();
        }
        let (shards, clock) = (self.shards.len(), Clock::Simulated(Arc::clone(&self.clock)));
        let SimulationOptions { store, policy, .. } = options;
        let (recording, writer) = Recording::begin(to, shards, &engine, store, policy, clock, &KeptFiles::default())?;
        for SimulatedShard { shard, .. } in &mut self.shards {
            shard.record(|id| recording.shard(id));
        }
        Ok(writer)
    }

    /// Opens a connection to a shard. The shard sends its hello in its next turn.
    pub fn connect(&mut self, shard: usize) -> SwitchEnd {
        self.connections = self.connections.wrapping_add(1);
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, self.connections));
        self.registry.add_connection(ShardId(shard as u8));
        let (message, line) = ShardMessage::connection_in_memory(peer);
        self.send(shard, vec![message]);
        line
    }

    /// Sends an event to a shard's engine, for the shard's next turn.
    pub fn send_event(&mut self, shard: usize, event: Event) {
        self.send(shard, vec![ShardMessage::Event(Box::new(event))]);
    }

    /// Replaces what is declared of ports and hosts, for the next turn of each shard.
    pub fn declare(&mut self, facts: &Arc<Facts>) {
        let number = self.shards[0].shard.engine().store().number_declaration();
        for shard in 0..self.shards.len() {
            self.send(shard, vec![ShardMessage::Declare { number, facts: Arc::clone(facts) }]);
        }
    }

    /// Tells the shards what the cluster says of this controller, with a number that grows.
    pub fn set_role(&mut self, number: u64, role: ClusterRole) {
        for shard in 0..self.shards.len() {
            self.send(shard, vec![ShardMessage::Role(number, role)]);
        }
    }

    /// Delivers a batch to its shard.
    pub fn deliver(&mut self, batch: Batch) {
        self.send(batch.to, batch.messages);
    }

    fn send(&mut self, shard: usize, messages: Vec<ShardMessage>) {
        for message in messages {
            assert!(self.shards[shard].mailbox.send(message), "the shard exists");
        }
    }

    /// Runs one turn of a shard. Returns its messages to the others.
    pub fn turn(&mut self, now: Time, shard: usize) -> Vec<Batch> {
        self.clock.store(now.0, Ordering::Relaxed);
        let SimulatedShard { shard, outgoing, .. } = &mut self.shards[shard];
        shard.turn_at(now);
        let batches = outgoing
            .iter()
            .enumerate()
            .flat_map(|(to, mail)| mail.try_iter().map(|messages| Batch { to, messages }).collect::<Vec<_>>());
        batches.collect()
    }

    /// Returns when a shard's next turn is due, from what the shard has seen. The caller knows what has arrived since.
    pub fn next_turn(&self, shard: usize) -> Option<Time> {
        self.shards[shard].shard.timeout().map(|wait| after(Time(self.clock.load(Ordering::Relaxed)), wait))
    }

    /// Returns the shard that serves a switch.
    pub fn shard_of(&self, dpid: Dpid) -> Option<usize> {
        self.registry.shard_of(dpid).map(|shard| usize::from(shard.0))
    }

    /// Returns the notices since the last call.
    pub fn notices(&self) -> Vec<Notice> {
        self.notices.try_iter().collect()
    }

    /// Returns a shard's counters.
    pub fn counters(&self, shard: usize) -> Counters {
        self.shards[shard].shard.counters()
    }

    /// Returns the counters of a shard's engine.
    pub fn stats(&self, shard: usize) -> Stats {
        self.shards[shard].shard.engine().view().stats()
    }

    /// Returns the rules of a switch, as its shard believes them to be.
    pub fn rules(&self, shard: usize, dpid: Dpid) -> Vec<TableRule> {
        self.shards[shard].shard.engine().view().rules(dpid)
    }

    /// Returns the engines, in the order of their shards.
    pub fn engines(&self) -> Vec<&Engine> {
        self.shards.iter().map(|simulated| simulated.shard.engine()).collect()
    }

    /// Returns the trace tree of a switch as text: empty if the shard does not serve the switch.
    pub fn tree(&self, shard: usize, dpid: Dpid) -> String {
        self.shards[shard].shard.engine().view().tree(dpid)
    }

    /// Returns the policy's errors on a shard, each with the number of packets dropped because of it.
    pub fn failures(&self, shard: usize) -> Vec<(Arc<str>, u64)> {
        self.shards[shard].shard.engine().view().failures()
    }

    /// Returns the routes that constraints refused on a shard, by constraint and line, each with the number of times.
    pub fn violations(&self, shard: usize) -> Vec<(ViolationKey, u64)> {
        self.shards[shard].shard.engine().view().violations()
    }

    /// Reports whether an update of a switch's rules is in progress.
    pub fn is_half_way(&self, shard: usize, dpid: Dpid) -> bool {
        is_half_way(self.shards[shard].shard.engine(), dpid)
    }

    /// Prints the engines' events and effects in all later turns.
    pub fn trace(&mut self) {
        self.shards.iter_mut().for_each(|simulated| simulated.shard.trace());
    }
}

impl SimulatedShard {
    fn new(
        id: ShardId,
        options: &SimulationOptions,
        clock: &Arc<AtomicU64>,
        registry: &Arc<Registry>,
        notices: &Notices,
    ) -> io::Result<SimulatedShard> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let (mailbox, inbox) = Mailbox::new(Arc::clone(&waker));
        let (mailboxes, outgoing) = (0..options.shards).map(|_| Mailbox::new(Arc::clone(&waker))).unzip();
        let subscriptions = Subscriptions::new(options.subscriptions.clone()).map_err(io::Error::other)?;
        let engine_options =
            Options { listener_filters: Arc::clone(subscriptions.conditions()), ..options.engine.clone() };
        let (clock, to_others) = (Clock::Simulated(Arc::clone(clock)), Outgoing::new(id, mailboxes));
        let ctx = Context::new(id, clock, Arc::clone(registry), inbox, to_others, notices.clone())
            .in_cluster(options.in_cluster);
        let io = IoParts {
            poll,
            deadlines: options.deadlines,
            limits: options.limits,
            listeners: Vec::new(),
            programs: None,
            write_each: false,
            balancer: None,
        };
        let parts = ShardParts {
            ctx,
            io,
            tls: None,
            discovery: Discovery::new(Key(*b"whole networks!!"), Timing::default(), u64::from(id.0))
                .without(options.engine.middleboxes.clone())
                .with_facts(Arc::clone(&options.engine.facts)),
            subscriptions,
            forget_after: options.forget_after,
            known: None,
            recorder: None,
        };
        let (store, policy) = (Arc::clone(&options.store), Arc::clone(&options.policy));
        let shard = Shard::new(parts, Engine::new(id, store, policy, engine_options))?;
        Ok(SimulatedShard { shard, mailbox, outgoing })
    }
}

#[cfg(test)]
mod tests;
