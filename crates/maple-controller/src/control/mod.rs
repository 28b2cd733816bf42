//! Questions to a running controller, and orders: [`Handle`] for the same process, [`socket`] for others.
//!
//! Network state is read from the store's newest snapshot. What belongs to a shard (rules, counts, connections) is asked
//! of it by letter, so that asking costs the packet road nothing.

pub mod transactions;

mod json;
mod private;
mod schema;
pub mod socket;
pub(crate) mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use maple_core::engine::{self, Counted, Event, PortCount, Selection, ShardId, TableRule, Traffic};
use maple_core::network::{HostInfo, Location, Mac, OwnFrame, PortKind};
use maple_core::report::Report;
use maple_core::route::FRAME_BYTES;
use maple_core::state::{Commit, Snapshot, Store, Write};
use maple_wire::{Dpid, PortNo, Version};

use crate::counters::Counters;
use crate::keeper::Notes;
use crate::listen::SendError;
use crate::notice::{Notice, Notices};
use crate::shard::post::{Letter, Mailbox, Question};
use crate::shard::registry::Registry;

/// How long a shard may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// What was counted no longer ago is not asked for again. A little more than the time between two polls of who watches.
const FRESH: Duration = Duration::from_millis(1200);
/// How often it is looked whether switches have answered.
const COUNT_TURN: Duration = Duration::from_millis(20);

/// Asks and tells a running controller. Clones are of the same controller.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

/// What the handle needs of the controller.
pub(crate) struct Shared {
    pub addresses: Vec<SocketAddr>,
    pub boxes: Vec<Mailbox>,
    pub store: Arc<Store>,
    pub registry: Arc<Registry>,
    pub notices: Notices,
    pub receiver: Receiver<Notice>,
    /// Why the controller stopped by itself.
    pub failure: OnceLock<String>,
    /// What is on its way to the state file, if there is one.
    pub kept: Option<Arc<Notes>>,
}

/// What one shard has counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShardStats {
    /// The controller's counts.
    pub counters: Counters,
    /// The engine's.
    pub engine: engine::Stats,
}

/// What all shards have counted.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// The sum over the shards.
    pub total: ShardStats,
    /// Each shard's.
    pub shards: Vec<ShardStats>,
    /// Connections that are open now, those in their handshake included.
    pub connections: usize,
}

/// A switch that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchStatus {
    /// The switch.
    pub dpid: Dpid,
    /// Where its connection comes from.
    pub peer: SocketAddr,
    /// The version spoken.
    pub version: Version,
    /// What it says it is.
    pub description: String,
    /// How many tables it has.
    pub tables: u8,
    /// The shard that serves it.
    pub shard: ShardId,
    /// Bytes that wait because it does not read.
    pub waiting_bytes: usize,
    /// Its ports.
    pub ports: Vec<SwitchPort>,
}

/// A port of a switch that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchPort {
    /// Its number.
    pub number: PortNo,
    /// Its name.
    pub name: String,
    /// Whether packets can pass.
    pub up: bool,
}

/// Something that went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// What, in words.
    pub text: String,
    /// How many packets were dropped because of it so far, if it is an error of the policy.
    pub packets: Option<u64>,
}

impl Handle {
    pub(crate) fn new(shared: Shared) -> Handle {
        Handle { shared: Arc::new(shared) }
    }

    /// Where the controller listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.shared.addresses
    }

    /// The switches that are up, by datapath id.
    pub fn switches(&self) -> Vec<SwitchStatus> {
        let mut switches: Vec<SwitchStatus> = self.ask_all(Question::Switches).into_iter().flatten().collect();
        switches.sort_by_key(|switch| switch.dpid);
        switches
    }

    /// The rules of a switch, as the engine holds them to be; empty for a switch that is not up.
    pub fn rules(&self, dpid: Dpid) -> Vec<TableRule> {
        self.rules_with_age(dpid).0
    }

    /// The same, and how old what they have counted is; `None` if the switch has not said. [`Handle::count`] has it asked.
    pub fn rules_with_age(&self, dpid: Dpid) -> (Vec<TableRule>, Option<Duration>) {
        let Some(shard) = self.shared.registry.shard_of(dpid) else { return Default::default() };
        let (sender, receiver) = bounded(1);
        self.shared.boxes[usize::from(shard.0)].post(Letter::Ask(Question::Rules(dpid, sender)));
        receiver.recv_timeout(PATIENCE).unwrap_or_default()
    }

    /// Asks the switches, or one of them, what they have counted, and waits until all have answered or this much time has
    /// passed. What is younger than a second is not asked for again; a switch that is busy is not asked before it has done.
    pub fn count(&self, what: Counted, only: Option<Dpid>, patience: Duration) {
        let deadline = Instant::now() + patience;
        loop {
            let ages = self.ask_all(|to| Question::Watch(what, only, to));
            let is_fresh = |age: &Option<Duration>| age.is_some_and(|age| age <= FRESH);
            if ages.iter().flatten().all(is_fresh) || Instant::now() >= deadline {
                return;
            }
            std::thread::sleep(COUNT_TURN);
        }
    }

    /// What ports have counted as the switches said last, and how long ago, by switch and port.
    pub fn port_counts(&self) -> Vec<(PortCount, Duration)> {
        let mut all: Vec<_> = self.ask_all(Question::Ports).into_iter().flatten().collect();
        all.sort_by_key(|(count, _)| count.at);
        all
    }

    /// What hosts send to each other, by what the rules of where it enters have counted, and how long ago the switches said so.
    pub fn traffic(&self) -> Vec<(Traffic, Duration)> {
        let mut all: Vec<_> = self.ask_all(Question::Traffic).into_iter().flatten().collect();
        all.sort_by_key(|(one, _)| (one.switch, one.from, one.to));
        all
    }

    /// The newest state: ports, links, hosts, tables and variables of the policy.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.shared.store.snapshot()
    }

    /// The store, for transactions from outside of f; give their commits to [`Handle::committed`].
    pub fn store(&self) -> &Arc<Store> {
        &self.shared.store
    }

    /// Whether there is a file for state that is to survive restarts.
    pub fn keeps_state(&self) -> bool {
        self.shared.kept.is_some()
    }

    /// The links, each once, lower end first.
    pub fn links(&self) -> Vec<(Location, Location)> {
        self.snapshot().links().collect()
    }

    /// The hosts by hardware address.
    pub fn hosts(&self) -> Vec<(Mac, HostInfo)> {
        self.snapshot().hosts().map(|(mac, info)| (*mac, info.clone())).collect()
    }

    /// All counts. A shard that does not answer in time is left out.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats { connections: self.shared.registry.connections(), ..Stats::default() };
        for shard in self.ask_all(Question::Stats) {
            stats.total.counters += shard.counters;
            stats.total.engine += shard.engine;
            stats.shards.push(shard);
        }
        stats
    }

    /// What the controller tells people, from the start on, as far as it was not read yet. Clones share one queue.
    pub fn notices(&self) -> &Receiver<Notice> {
        &self.shared.receiver
    }

    /// What went wrong lately, oldest first. Errors of the policy are there once each.
    pub fn errors(&self) -> Vec<Trouble> {
        let failures = self.policy_errors();
        let mut told = BTreeSet::new();
        let trouble = |notice: Notice| {
            let failed = match &notice {
                Notice::Engine(Report::PolicyFailed { error, .. }) => Some(error.clone()),
                _ => None,
            };
            if let Some(error) = &failed
                && !told.insert(error.clone())
            {
                return None;
            }
            let packets = failed.map(|error| failures.get(&error).copied().unwrap_or(1));
            Some(Trouble { text: notice.to_string(), packets })
        };
        self.shared.notices.recent().into_iter().filter_map(trouble).collect()
    }

    /// The policy's errors that were reported, each with the number of packets dropped because of it.
    pub fn policy_errors(&self) -> BTreeMap<Arc<str>, u64> {
        let mut sum = BTreeMap::new();
        for (error, count) in self.ask_all(Question::Failures).into_iter().flatten() {
            *sum.entry(error).or_default() += count;
        }
        sum
    }

    /// How often handlers and listeners failed; each kind of error was told.
    pub fn handler_failures(&self) -> u64 {
        self.shared.notices.handler_failures()
    }

    /// Withdraws the leaves that this selects, on all shards. `false` if the controller has stopped.
    pub fn invalidate(&self, selection: Selection) -> bool {
        self.tell(Event::Invalidate(selection))
    }

    /// Writes tracked state, and does not wait. `false` if the controller has stopped.
    ///
    /// # Panics
    /// If a value is not of the type that its table or variable was declared with; [`Handle::change`] says so.
    pub fn write(&self, writes: Vec<Write>) -> bool {
        let state = self.snapshot();
        if let Some(mismatch) = writes.iter().find_map(|write| state.check(write).err()) {
            panic!("{mismatch}");
        }
        self.tell(Event::Write(writes))
    }

    /// Follows up a commit on [`Handle::store`]. `false` if the controller has stopped.
    pub fn committed(&self, commit: Commit) -> bool {
        self.follow(commit)
    }

    /// Sends a frame, whole from the Ethernet header on, out of an edge port. It is a packet of nobody's: no rule and no
    /// policy sees it.
    ///
    /// # Errors
    /// [`SendError`] if it can't go there. A port that goes at that moment loses it.
    pub fn send_frame(&self, at: Location, frame: Vec<u8>) -> Result<(), SendError> {
        if !FRAME_BYTES.contains(&frame.len()) {
            return Err(SendError::Length(frame.len()));
        }
        let Some(shard) = self.shared.registry.shard_of(at.switch) else { return Err(SendError::NoSwitch(at.switch)) };
        if self.snapshot().port(at).is_none_or(|port| port.kind != PortKind::Edge) {
            return Err(SendError::NoEdge(at.switch, at.port));
        }
        let event = Event::Send(OwnFrame { at, bytes: frame.into() });
        let is_posted = self.shared.boxes[usize::from(shard.0)].post(Letter::Event(Box::new(event)));
        if is_posted { Ok(()) } else { Err(SendError::Stopped) }
    }

    /// Tells people, once for each kind of error and then ever more rarely, that a listener failed.
    pub fn listener_failed(&self, error: Arc<str>) {
        self.shared.notices.listener_failed(error);
    }

    /// Tells people something.
    pub(crate) fn tell_people(&self, notice: Notice) {
        self.shared.notices.tell(notice);
    }

    /// Makes all shards close their connections and end, and does not wait for it.
    pub fn stop(&self) {
        for mailbox in &self.shared.boxes {
            mailbox.post(Letter::Stop);
        }
    }

    /// Why the controller has stopped by itself; `None` while it runs, or if it was told to stop.
    pub fn failure(&self) -> Option<&str> {
        self.shared.failure.get().map(String::as_str)
    }

    /// Stops because of this. The first reason counts.
    pub(crate) fn fail(&self, reason: String) {
        // There may be a reason already.
        let _ = self.shared.failure.set(reason);
        self.stop();
    }

    /// Gives the first shard's engine an event that may go to any one.
    fn tell(&self, event: Event) -> bool {
        self.shared.boxes.first().is_some_and(|mailbox| mailbox.post(Letter::Event(Box::new(event))))
    }

    /// Asks every shard the same and gives the answers, in the shards' order.
    fn ask_all<T>(&self, question: impl Fn(Sender<T>) -> Question) -> Vec<T> {
        let ask = |mailbox: &Mailbox| {
            let (sender, receiver) = bounded(1);
            mailbox.post(Letter::Ask(question(sender)));
            receiver
        };
        let receivers: Vec<Receiver<T>> = self.shared.boxes.iter().map(ask).collect();
        let deadline = Instant::now() + PATIENCE;
        receivers.into_iter().filter_map(|receiver| receiver.recv_deadline(deadline).ok()).collect()
    }
}
