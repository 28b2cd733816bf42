//! Messages between shards, and from other threads to shards.
//!
//! Each shard has one bounded mailbox and a waker. During a turn a shard collects its messages for each other shard. At
//! the end of the turn it sends each collection as one batch: one channel operation and one wake-up. If the other
//! mailbox is full, the batch stays here, in order, and the shard stops reading its sockets until the batch is sent. So
//! the bytes read before bound what can pile up. A shard never blocks in a send, so full mailboxes cannot deadlock.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use maple_core::engine::{
    Candidate, CounterKind, Dropped, Engine, EngineCopy, Event, LiveFilter, LiveNews, Mail, PortCount, RuleCount,
    ShardId, TableRule, Traffic, Trial, ViolationKey,
};
use maple_core::network::{Facts, Location};
use maple_core::rule::Rule;
use maple_wire::Dpid;
use mio::Waker;

use super::connection::Connection;
use super::connection_socket::Socket;
use super::listeners::ListeningSocket;
#[cfg(feature = "simulation")]
use super::memory_socket::{self, SwitchEnd};
use super::registry::ConnectionId;
use super::sync::{self, Fault};
use crate::discovery::PeerMessage;
use crate::endpoint::HandedListener;
use crate::session::{ClusterRole, SwitchAnswer, SwitchQuestion, TableSize};
use crate::status::{ShardMetrics, ShardStats, SwitchStatus};
use crate::storage::takeover::{CopiedSwitch, HandedConnection};

/// The maximum number of batches in a mailbox. Chosen: a shard sends at most one batch a turn, so the owner of a full
/// mailbox is many turns late.
const MAILBOX_CAPACITY: usize = 1024;

/// A message to a shard.
pub(crate) enum ShardMessage {
    /// Serves a new connection.
    Connection(Socket, SocketAddr),
    /// Serves a connection that another shard has served.
    Migrate(Box<Connection>),
    /// Delivers a message from another shard's engine.
    Mail(Mail),
    /// Delivers an event to the engine, from another thread.
    Event(Box<Event>),
    /// Replaces what is declared of ports and hosts.
    Declare { number: u64, facts: Arc<Facts> },
    /// Takes what the cluster says of this controller, with a number that grows.
    Role(u64, ClusterRole),
    /// Forgets the switches without a connection, because what another controller knows of them takes the place of what
    /// this one does.
    ForgetUnreachable,
    /// Delivers a message from another shard's discovery, about this port.
    Discovery(Location, PeerMessage),
    /// Finds out whether the receiver's connection `owner` is alive: the connection `claimant` claims the same switch.
    Challenge {
        /// The switch.
        dpid: Dpid,
        /// The receiver's connection, which owns the switch.
        owner: ConnectionId,
        /// The connection that claims the switch.
        claimant: ConnectionId,
    },
    /// Reports the result of a challenge. The receiver's connection `claimant` may claim again if the owner is not
    /// alive.
    ChallengeResult {
        /// The switch.
        dpid: Dpid,
        /// The receiver's connection, which claimed the switch.
        claimant: ConnectionId,
        /// Whether the owner is alive.
        alive: bool,
    },
    /// A request that the engine restores those of these switches that wait for it. What was around them is presumed
    /// before that.
    Restore(Arc<BTreeSet<Dpid>>),
    /// Asks a query.
    Query(ShardQuery),
    /// Requests a reply when this turn has ended and all its messages to other shards are sent.
    AwaitTurnEnd(Sender<()>),
    /// Requests a reply when the receiver's switches have confirmed all deletions of rules so far.
    Settle(Sender<()>),
    /// Announces a switch whose connection another process will hand over, so that the engine prepares for it.
    Announce(Box<CopiedSwitch>),
    /// Serves a connection that another process has served.
    Resume(HandedConnection),
    /// Reports that no more connections are handed over: announced switches without one are unreachable or gone.
    AllResumed,
    /// Accepts connections at these sockets.
    Listen(Vec<ListeningSocket>),
    /// Closes all connections and ends the shard.
    Stop,
    /// Stops reading sockets. The reply comes when the packets that were read are decided, and all messages to other
    /// shards are sent. [`ShardMessage::HandOver`] follows.
    Finish(Sender<()>),
    /// Ends the shard, and sends here the sockets with which another process can go on. All other connections are
    /// closed.
    HandOver(Sender<ReleasedSockets>),
    /// Migrates this switch to another shard, if the receiver serves it.
    #[cfg(test)]
    MigrateSwitch(Dpid, ShardId),
}

#[cfg(feature = "simulation")]
impl ShardMessage {
    /// Opens a connection in memory. Returns the message that has a shard serve it, and the switch's end.
    pub fn connection_in_memory(peer: SocketAddr) -> (ShardMessage, SwitchEnd) {
        let (near, line) = memory_socket::open();
        (ShardMessage::Connection(Socket::Memory(near), peer), line)
    }
}

/// The sockets that a shard does not close when it ends.
#[derive(Debug, Default)]
pub(crate) struct ReleasedSockets {
    pub listeners: Vec<HandedListener>,
    pub connections: Vec<HandedConnection>,
}

/// A query from another thread, with the channel for the answer. Sending fails if the other thread has stopped waiting.
pub(crate) enum ShardQuery {
    /// The rules of a switch, and the age of their counters.
    Rules(Dpid, Sender<(Vec<TableRule>, Option<Duration>)>),
    /// The age of the counters of all switches, or of one. Requests fresh counters.
    Watch(CounterKind, Option<Dpid>, Sender<Vec<Option<Duration>>>),
    /// The port counters with their age.
    Ports(Sender<Vec<(PortCount, Duration)>>),
    /// The traffic between hosts, with the age of the counters.
    Traffic(Sender<Vec<(Traffic, Duration)>>),
    /// The drops of this many minutes.
    Drops(u64, Sender<Vec<Dropped>>),
    /// Sends the news of a watch under this number. News that the receiver does not take quickly enough is dropped.
    Live(u64, LiveFilter, Sender<LiveNews>),
    /// Keeps the watch under this number alive.
    LiveGoOn(u64),
    /// Ends the watch under this number.
    LiveEnd(u64),
    /// All counters.
    Stats(Sender<ShardStats>),
    /// The shard's metrics.
    Metrics(Sender<ShardMetrics>),
    /// The policy's errors, each with the number of packets dropped because of it.
    Failures(Sender<Vec<(Arc<str>, u64)>>),
    /// The routes that constraints refused, each with the number of times.
    Violations(Sender<Vec<(ViolationKey, u64)>>),
    /// The switches, for another process.
    Copies(Sender<Vec<CopiedSwitch>>),
    /// The switches, also those that have no connection.
    Switches(Sender<Vec<SwitchStatus>>),
    /// Tries a policy on the witness packets of all leaves. The answer comes when that is done.
    Try(Candidate, Sender<Trial>),
    /// Replaces the running policy. The answer comes when the new one decides.
    Adopt(Candidate, Sender<()>),
    /// A copy of the engine.
    Copy(Sender<EngineCopy>),
    /// The counters of a rule in this table. `None` if the switch does not report them.
    CountRule(Dpid, u8, Rule, Sender<Option<RuleCount>>),
    /// The sizes of a switch's tables. Nothing is sent if the switch does not report them.
    TableSizes(Dpid, Sender<Vec<TableSize>>),
    /// A question to a switch, whose answer is sent. Nothing is sent if it does not.
    Ask(Dpid, SwitchQuestion, Sender<SwitchAnswer>),
    /// A short question about the engine in its present state. The closure sends the answer.
    Inspect(Box<dyn FnOnce(&Engine) + Send>),
}

/// The sending end of one shard's mailbox.
#[derive(Clone)]
pub(crate) struct Mailbox {
    sender: Sender<Vec<ShardMessage>>,
    waker: Arc<Waker>,
}

impl Mailbox {
    /// Creates a mailbox; the receiver is for its shard.
    pub fn new(waker: Arc<Waker>) -> (Mailbox, Receiver<Vec<ShardMessage>>) {
        Mailbox::with_capacity(waker, MAILBOX_CAPACITY)
    }

    /// Creates a mailbox for this many batches.
    pub(super) fn with_capacity(waker: Arc<Waker>, batches: usize) -> (Mailbox, Receiver<Vec<ShardMessage>>) {
        let (sender, receiver) = bounded(batches);
        (Mailbox { sender, waker }, receiver)
    }

    /// Sends a message from a thread that is not a shard, or returns it if the mailbox is full.
    pub fn offer(&self, message: ShardMessage) -> Result<(), Box<ShardMessage>> {
        sync::step();
        match self.sender.try_send(vec![message]) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => {
                sync::step();
                self.wake();
                Ok(())
            }
            Err(TrySendError::Full(mut messages)) => Err(Box::new(messages.remove(0))),
        }
    }

    fn wake(&self) {
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "can't wake a shard");
        }
    }

    /// Sends a query from a thread that is not a shard. Blocks while the mailbox is full, until the deadline. A query
    /// that is not sent is dropped, with the channel of its answer.
    pub fn ask(&self, query: ShardQuery, deadline: Instant) {
        if self.sender.send_deadline(vec![ShardMessage::Query(query)], deadline).is_ok() {
            self.wake();
        }
    }

    /// Sends a message from a thread that is not a shard. Blocks while the mailbox is full. Returns `false` if the
    /// shard has ended.
    pub fn send(&self, message: ShardMessage) -> bool {
        self.sender.send(vec![message]).is_ok() && self.waker.wake().is_ok()
    }
}

/// One shard's outgoing messages.
pub(crate) struct Outgoing {
    own: ShardId,
    mailboxes: Vec<Mailbox>,
    /// The messages of this turn, for each shard.
    collected: Vec<Vec<ShardMessage>>,
    /// Batches that did not fit into a mailbox, oldest first, for each shard.
    waiting: Vec<VecDeque<Vec<ShardMessage>>>,
}

impl Outgoing {
    /// Creates the outgoing messages of the shard `own`.
    pub fn new(own: ShardId, mailboxes: Vec<Mailbox>) -> Outgoing {
        let collected = mailboxes.iter().map(|_| Vec::new()).collect();
        let waiting = mailboxes.iter().map(|_| VecDeque::new()).collect();
        Outgoing { own, mailboxes, collected, waiting }
    }

    /// Sends a message to every shard, this one included.
    pub fn send_all(&mut self, message: impl Fn() -> ShardMessage) {
        self.collected.iter_mut().for_each(|messages| messages.push(message()));
    }

    /// Sends a message at the end of the turn. `to` may be this shard itself.
    pub fn send(&mut self, to: ShardId, message: ShardMessage) {
        if let Some(messages) = self.collected.get_mut(usize::from(to.0)) {
            messages.push(message);
        }
    }

    /// Takes the messages to this shard itself.
    pub fn take_own(&mut self) -> Vec<ShardMessage> {
        std::mem::take(&mut self.collected[usize::from(self.own.0)])
    }

    /// Reports whether there are messages to this shard itself.
    pub fn has_own(&self) -> bool {
        !self.collected[usize::from(self.own.0)].is_empty()
    }

    /// Reports whether a batch waits because a mailbox was full.
    pub fn is_congested(&self) -> bool {
        self.waiting.iter().any(|waiting| !waiting.is_empty())
    }

    /// Returns the number of batches that wait because a mailbox was full.
    pub fn waiting(&self) -> usize {
        self.waiting.iter().map(VecDeque::len).sum()
    }

    /// Sends the messages that were collected.
    pub fn flush(&mut self) {
        for to in 0..self.mailboxes.len() {
            if to == usize::from(self.own.0) {
                continue;
            }
            if !self.collected[to].is_empty() {
                self.waiting[to].push_back(std::mem::take(&mut self.collected[to]));
            }
            self.send_batches(to);
        }
    }

    /// Sends as many batches as fit into a mailbox. Batches for a shard that has ended are dropped.
    fn send_batches(&mut self, to: usize) {
        if sync::is_injected(Fault::WakesFirst) && !self.waiting[to].is_empty() {
            self.wake(to);
        }
        let mut sent = false;
        while let Some(messages) = self.waiting[to].pop_front() {
            sync::step();
            match self.mailboxes[to].sender.try_send(messages) {
                Ok(()) => sent = true,
                Err(TrySendError::Full(messages)) => {
                    self.waiting[to].push_front(messages);
                    break;
                }
                Err(TrySendError::Disconnected(_)) => self.waiting[to].clear(),
            }
        }
        if sent && !sync::is_injected(Fault::WakesFirst) {
            self.wake(to);
        }
    }

    fn wake(&self, to: usize) {
        sync::step();
        if let Err(error) = self.mailboxes[to].waker.wake() {
            tracing::error!(shard = to, %error, "can't wake a shard");
        }
    }
}

#[cfg(test)]
mod tests {
    use mio::{Poll, Token};

    use super::*;

    /// Creates the outgoing messages of shard 0, and the mailbox of shard 1 with its poll.
    fn outgoing() -> (Outgoing, Receiver<Vec<ShardMessage>>, Poll) {
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let ((own, _), (other, inbox)) = (Mailbox::new(Arc::clone(&waker)), Mailbox::new(waker));
        (Outgoing::new(ShardId(0), vec![own, other]), inbox, poll)
    }

    fn numbered(n: u64) -> ShardMessage {
        let at = Location::new(Dpid(n), maple_wire::PortNo(1));
        ShardMessage::Discovery(at, PeerMessage::PortGone { peer: at, when: maple_core::engine::Time(n) })
    }

    fn number(message: &ShardMessage) -> u64 {
        match message {
            ShardMessage::Discovery(at, _) => at.switch.0,
            _ => panic!("another message was sent"),
        }
    }

    #[test]
    fn a_query_waits_for_a_full_mailbox_until_its_deadline_and_is_dropped() {
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let (mailbox, inbox) = Mailbox::with_capacity(waker, 1);
        let ask = || {
            let (sender, receiver) = bounded(1);
            mailbox.ask(ShardQuery::Metrics(sender), Instant::now());
            receiver
        };
        let (first, second) = (ask(), ask());
        assert_eq!(second.recv().err(), Some(crossbeam_channel::RecvError), "nobody will answer");
        assert!(first.try_recv().is_err_and(|error| !error.is_disconnected()), "it waits for its answer");
        assert_eq!(inbox.try_iter().count(), 1);
    }

    #[test]
    fn a_turns_messages_arrive_in_one_batch_and_in_order() {
        let (mut outgoing, inbox, _poll) = outgoing();
        (0..5).for_each(|n| outgoing.send(ShardId(1), numbered(n)));
        assert!(inbox.is_empty(), "nothing before the turn's end");
        outgoing.flush();
        let batch: Vec<u64> = inbox.try_recv().unwrap().iter().map(number).collect();
        assert_eq!((batch, inbox.len()), (vec![0, 1, 2, 3, 4], 0));
    }

    #[test]
    fn a_full_mailbox_loses_nothing_and_blocks_nobody() {
        let (mut outgoing, inbox, _poll) = outgoing();
        let all = 2 * MAILBOX_CAPACITY as u64;
        for n in 0..all {
            outgoing.send(ShardId(1), numbered(n));
            outgoing.flush();
        }
        assert!(outgoing.is_congested());
        let mut got = Vec::new();
        while outgoing.is_congested() || !inbox.is_empty() {
            got.extend(inbox.try_iter().flatten().map(|message| number(&message)));
            outgoing.flush();
        }
        assert_eq!(got, (0..all).collect::<Vec<_>>());
    }

    #[test]
    fn messages_to_a_shard_that_has_ended_are_dropped() {
        let (mut outgoing, inbox, _poll) = outgoing();
        drop(inbox);
        outgoing.send(ShardId(1), numbered(1));
        outgoing.flush();
        assert!(!outgoing.is_congested());
    }

    #[test]
    fn messages_to_the_own_shard_need_no_mailbox() {
        let (mut outgoing, _inbox, _poll) = outgoing();
        outgoing.send(ShardId(0), numbered(7));
        assert!(outgoing.has_own());
        assert_eq!(outgoing.take_own().iter().map(number).collect::<Vec<_>>(), [7]);
    }
}
