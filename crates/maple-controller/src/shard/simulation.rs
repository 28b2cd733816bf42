//! Shards in one thread and in simulated time: the turns that ship, with connections, mail and the clock in the hands of a
//! test, or of a laboratory.
//!
//! A test opens connections ([`Simulation::connect`]), speaks through its [`Line`] as a switch, and has a shard take one
//! turn when it chooses. What a turn says to other shards comes back as [`Parcel`]s, for the test to deliver when it
//! chooses, in order for each pair of shards. So all orders of what shards, switches and mailboxes do can be played, up to
//! whole turns, and a run depends on nothing but what the test does.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::Receiver;
use maple_core::engine::{Engine, Event, Options, ShardId, Stats, TableRule, Time};
use maple_core::policy::Policy;
use maple_core::state::Store;
use maple_wire::Dpid;
use mio::{Poll, Waker};

use super::post::{Letter, Mailbox, Post};
use super::registry::Registry;
use super::socket::Socket;
use super::{Parts, QueueLimits, Shard, WAKER};
use crate::counters::Counters;
use crate::discovery::{Discovery, Key, Timing};
use crate::listen::{Audience, Listening};
use crate::notice::{Notice, Notices};
use crate::session::Deadlines;
use crate::time::{Clock, after};

/// A connection in memory. One mutex holds both directions; the two ends are used in turn, never at once.
#[derive(Debug, Default)]
struct Buffers {
    to_controller: VecDeque<u8>,
    to_switch: Vec<u8>,
    /// Since when something waits for the controller.
    since: Option<Time>,
    /// The switch's end writes no more.
    is_ended: bool,
    /// The switch's end takes no more: writing fails.
    is_broken: bool,
    /// The controller's end writes no more, or is gone.
    is_closed: bool,
}

fn lock(buffers: &Mutex<Buffers>) -> MutexGuard<'_, Buffers> {
    buffers.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The controller's end of a connection.
#[derive(Debug)]
pub struct NearEnd(Arc<Mutex<Buffers>>);

impl NearEnd {
    pub(super) fn close_writing(&self) {
        lock(&self.0).is_closed = true;
    }

    pub(super) fn unread(&self) -> u64 {
        lock(&self.0).to_controller.len() as u64
    }

    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut buffers = lock(&self.0);
        if buffers.to_controller.is_empty() && !buffers.is_ended {
            return Err(ErrorKind::WouldBlock.into());
        }
        let read = buffers.to_controller.read(buffer)?;
        if buffers.to_controller.is_empty() {
            buffers.since = None;
        }
        Ok(read)
    }

    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut buffers = lock(&self.0);
        if buffers.is_broken {
            return Err(ErrorKind::BrokenPipe.into());
        }
        buffers.to_switch.write(bytes)
    }

    /// Since when there is something to read, and whether it is the last.
    fn readable(&self) -> Option<(Option<Time>, bool)> {
        let buffers = lock(&self.0);
        (buffers.since.is_some() || buffers.is_ended).then_some((buffers.since, buffers.is_ended))
    }
}

impl Drop for NearEnd {
    fn drop(&mut self) {
        self.close_writing();
    }
}

/// The switch's end of a connection.
#[derive(Clone, Debug)]
pub struct Line(Arc<Mutex<Buffers>>);

impl Line {
    /// Sends bytes, which are there now.
    pub fn send(&self, now: Time, bytes: &[u8]) {
        let mut buffers = lock(&self.0);
        buffers.to_controller.extend(bytes);
        buffers.since.get_or_insert(now);
    }

    /// Closes the connection: what was sent is still read, and what is written from now on is lost by an error.
    pub fn hang_up(&self) {
        let mut buffers = lock(&self.0);
        (buffers.is_ended, buffers.is_broken) = (true, true);
    }

    /// Breaks the connection: what is written is lost by an error, and nobody hears of it otherwise.
    pub fn break_off(&self) {
        lock(&self.0).is_broken = true;
    }

    /// What the controller has written since this was last asked.
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut lock(&self.0).to_switch)
    }

    /// Whether the controller has ended the connection.
    pub fn is_closed(&self) -> bool {
        lock(&self.0).is_closed
    }

    /// How many bytes the controller has still to read.
    pub fn unread(&self) -> usize {
        lock(&self.0).to_controller.len()
    }
}

/// What one shard says to another in one turn.
pub struct Parcel {
    /// The shard that it is for.
    pub to: usize,
    letters: Vec<Letter>,
}

/// How shards are set up.
pub struct Setting {
    /// How many there are.
    pub shards: u8,
    /// The time in nanoseconds, for policies that take some.
    pub clock: Arc<AtomicU64>,
    /// What they share.
    pub store: Arc<Store>,
    /// The policy of their engines.
    pub policy: Arc<dyn Policy>,
    /// The options of their engines.
    pub options: Options,
    /// How long their sessions wait for what.
    pub deadlines: Deadlines,
    /// How much may wait for a switch.
    pub limits: QueueLimits,
    /// Who hears what happens; their conditions come in place of those in `options`.
    pub listening: Vec<Listening>,
}

/// Shards that take turns when they are told to.
pub struct Simulation {
    clock: Arc<AtomicU64>,
    registry: Arc<Registry>,
    shards: Vec<Driven>,
    notices: Receiver<Notice>,
    connections: u16,
}

/// One of them.
struct Driven {
    shard: Shard,
    /// Puts letters into its mailbox.
    mailbox: Mailbox,
    /// What it has put into those of the others.
    outgoing: Vec<Receiver<Vec<Letter>>>,
}

impl Simulation {
    /// Shards without connections.
    ///
    /// # Errors
    /// Those of the system, when it refuses a poll.
    pub fn new(setting: &Setting) -> io::Result<Simulation> {
        let clock = Arc::clone(&setting.clock);
        let registry = Arc::new(Registry::new(usize::from(setting.shards)));
        let (notices, reader) = Notices::new();
        let one = |id| Driven::new(ShardId(id), setting, &clock, &registry, &notices);
        let shards = (0..setting.shards).map(one).collect::<io::Result<Vec<_>>>()?;
        Ok(Simulation { clock, registry, shards, notices: reader, connections: 0 })
    }

    /// Opens a connection to a shard, which greets it in its next turn.
    pub fn connect(&mut self, shard: usize) -> Line {
        let buffers = Arc::new(Mutex::new(Buffers::default()));
        self.connections = self.connections.wrapping_add(1);
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, self.connections));
        self.registry.load(ShardId(shard as u8));
        self.post(shard, vec![Letter::Connection(Socket::Memory(NearEnd(Arc::clone(&buffers))), peer)]);
        Line(buffers)
    }

    /// Tells a shard's engine something, in the shard's next turn.
    pub fn tell(&mut self, shard: usize, event: Event) {
        self.post(shard, vec![Letter::Event(Box::new(event))]);
    }

    /// Puts a parcel into the mailbox that it is for.
    pub fn deliver(&mut self, parcel: Parcel) {
        self.post(parcel.to, parcel.letters);
    }

    fn post(&mut self, shard: usize, letters: Vec<Letter>) {
        for letter in letters {
            assert!(self.shards[shard].mailbox.post(letter), "the shard is there");
        }
    }

    /// Has a shard take one turn now; gives what it says to the others.
    pub fn turn(&mut self, now: Time, shard: usize) -> Vec<Parcel> {
        self.clock.store(now.0, Ordering::Relaxed);
        let Driven { shard, outgoing, .. } = &mut self.shards[shard];
        let noted = shard.connections.iter().filter_map(|connection| match &connection.socket {
            Socket::Memory(line) => line.readable().map(|(since, is_over)| (connection.id.slot, since, is_over)),
            Socket::Tcp(_) => None,
        });
        for (slot, since, is_over) in noted.collect::<Vec<_>>() {
            shard.note_readable(slot, since.unwrap_or(now), is_over);
        }
        shard.work(now, true);
        let parcels = outgoing
            .iter()
            .enumerate()
            .flat_map(|(to, mail)| mail.try_iter().map(|letters| Parcel { to, letters }).collect::<Vec<_>>());
        parcels.collect()
    }

    /// When a shard's next turn is due by what it has seen; what came in since is for the test to know.
    pub fn next_turn(&self, shard: usize) -> Option<Time> {
        self.shards[shard].shard.timeout().map(|wait| after(Time(self.clock.load(Ordering::Relaxed)), wait))
    }

    /// The shard whose connection speaks for a switch.
    pub fn shard_of(&self, dpid: Dpid) -> Option<usize> {
        self.registry.shard_of(dpid).map(|shard| usize::from(shard.0))
    }

    /// What was told since this was last asked.
    pub fn notices(&self) -> Vec<Notice> {
        self.notices.try_iter().collect()
    }

    /// What a shard has counted.
    pub fn counters(&self, shard: usize) -> Counters {
        self.shards[shard].shard.counters
    }

    /// What a shard's engine has counted.
    pub fn stats(&self, shard: usize) -> Stats {
        self.shards[shard].shard.engine.stats()
    }

    /// The rules of a switch, as a shard holds them to be.
    pub fn rules(&self, shard: usize, dpid: Dpid) -> Vec<TableRule> {
        self.shards[shard].shard.engine.rules(dpid)
    }

    /// The trace tree of a switch as text; empty for one that the shard does not serve.
    pub fn tree(&self, shard: usize, dpid: Dpid) -> String {
        self.shards[shard].shard.engine.tree(dpid)
    }

    /// The errors of f that a shard's engine has reported, each with the number of packets that were dropped for it.
    pub fn failures(&self, shard: usize) -> Vec<(Arc<str>, u64)> {
        self.shards[shard].shard.engine.failures()
    }

    /// Whether a switch's rules are in the middle of a change.
    pub fn is_half_way(&self, shard: usize, dpid: Dpid) -> bool {
        self.shards[shard].shard.engine.is_half_way(dpid)
    }

    /// Has all that the engines take and give printed from now on.
    pub fn trace(&mut self) {
        self.shards.iter_mut().for_each(|driven| driven.shard.is_traced = true);
    }
}

impl Driven {
    fn new(
        id: ShardId,
        setting: &Setting,
        clock: &Arc<AtomicU64>,
        registry: &Arc<Registry>,
        notices: &Notices,
    ) -> io::Result<Driven> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let (mailbox, inbox) = Mailbox::new(Arc::clone(&waker));
        let (boxes, outgoing) = (0..setting.shards).map(|_| Mailbox::new(Arc::clone(&waker))).unzip();
        let listening = Audience::new(setting.listening.clone()).map_err(io::Error::other)?;
        let options = Options { listener_filters: Arc::clone(listening.heard()), ..setting.options.clone() };
        let parts = Parts {
            id,
            poll,
            clock: Clock::Simulated(Arc::clone(clock)),
            deadlines: setting.deadlines,
            limits: setting.limits,
            listeners: Vec::new(),
            registry: Arc::clone(registry),
            inbox,
            post: Post::new(id, boxes),
            discovery: Discovery::new(Key(*b"whole networks!!"), Timing::default(), u64::from(id.0))
                .without(setting.options.middleboxes.clone()),
            notices: notices.clone(),
            listening,
            handlers: None,
            write_each: false,
            balance: Duration::ZERO,
        };
        let (store, policy) = (Arc::clone(&setting.store), Arc::clone(&setting.policy));
        let shard = Shard::new(parts, Engine::new(id, store, policy, options))?;
        Ok(Driven { shard, mailbox, outgoing })
    }
}

#[cfg(test)]
mod tests;
