//! Queries and commands for a running controller: [`Handle`] for the same process, [`socket`] for other processes.
//!
//! Network state is read from the store's newest snapshot. What belongs to a shard (rules, counters, connections) is
//! queried by message, so queries take no lock that packet processing takes.

pub mod transactions;

pub(crate) mod about;
mod access;
mod answer;
mod dropped;
pub mod explain;
pub(crate) mod live;
pub mod plan;
pub mod protocol;
pub mod reload;
mod request;
pub mod rows;
mod schema;
pub mod socket;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, Sender, bounded};
use maple_core::Source;
use maple_core::engine::{
    Counted, Dropped, Engine, Event, PortCount, RuleCount, Selection, TableRule, Traffic, ViolationKey,
};
use maple_core::network::{HostInfo, Location, Mac, OwnFrame, PortKind};
use maple_core::report::Report;
use maple_core::route::FRAME_BYTES;
use maple_core::rule::Rule;
use maple_core::state::{Commit, Snapshot, Store, Write};
use maple_wire::Dpid;

use self::about::About;
use self::reload::Reloads;
use crate::gauge::{Gauge, Gauges};
use crate::kept_files::{Condition, FileNews, KeptFiles};
use crate::listen::SendError;
use crate::log::Entry;
use crate::names::Names;
use crate::notice::{Notice, Notices};
use crate::persistence::PendingWrites;
use crate::policy_record::PolicyRecord;
use crate::record::Recording;
use crate::remember::Archive;
use crate::session::TableSize;
use crate::shard::mailbox::{Mailbox, ShardMessage, ShardQuery};
use crate::shard::registry::Registry;
use crate::status::{ShardMetrics, Stats, SwitchStatus};
use crate::takeover::{Copied, Successor, send_copy};

/// How long a shard may take to answer.
const SHARD_TIMEOUT: Duration = Duration::from_secs(5);
/// Counters that are younger are not requested again. A little more than a watching client's polling interval.
const FRESH: Duration = Duration::from_millis(1200);
/// How long switches have for saying what single rules have counted.
const COUNT_PATIENCE: Duration = Duration::from_secs(1);
/// How long switches have for saying how large their tables are.
const TABLES_PATIENCE: Duration = Duration::from_secs(2);
/// How long all of them together have.
const ALL_TABLES_PATIENCE: Duration = Duration::from_secs(10);
/// How many of them are asked at once: an answer may have hundreds of kilobytes.
const ASKED_AT_ONCE: usize = 16;
/// How often [`Handle::count`] checks whether the switches have answered.
const COUNT_INTERVAL: Duration = Duration::from_millis(20);

/// Queries and controls a running controller. Clones refer to the same controller.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

/// The parts of the controller that the handle uses.
pub(crate) struct Shared {
    pub addresses: Vec<SocketAddr>,
    /// The shards' mailboxes, by shard number.
    pub mailboxes: Vec<Mailbox>,
    pub store: Arc<Store>,
    pub registry: Arc<Registry>,
    pub notices: Notices,
    pub receiver: Receiver<Notice>,
    /// Why the controller stopped by itself, if it did.
    pub failure: OnceLock<String>,
    /// The writes on their way to the state file, if there is one.
    pub pending_writes: Option<Arc<PendingWrites>>,
    /// Reports the heap's size, if the program counts it.
    pub heap_bytes: Option<fn() -> Option<usize>>,
    /// Gauges of other parts of the program.
    pub gauges: Gauges,
    /// Which files can't be kept.
    pub files: KeptFiles,
    /// Where metrics are exported.
    pub metrics: OnceLock<SocketAddr>,
    /// The reloads that were asked for.
    pub reloads: Reloads,
    /// What it says about itself.
    pub about: About,
    /// Processes that want to take over.
    pub succession: Succession,
    /// What such a process is to know, if anything is remembered.
    pub archive: Option<Arc<Archive>>,
    /// The policy that ran in the earlier run of which the state file tells.
    pub policy_before: Option<PolicyRecord>,
    /// The recording of this run, if there is one.
    pub recording: Option<Recording>,
}

/// Processes that want to take over.
#[derive(Debug, Default)]
pub(crate) struct Succession {
    /// Whether the program would let them.
    is_served: AtomicBool,
    /// Whether one of them has a copy.
    is_begun: AtomicBool,
    ready: Mutex<Option<Successor>>,
}

/// While a process that wants to take over has a copy: what changes is noted for it.
pub(crate) struct Noting<'a> {
    handle: &'a Handle,
    is_over: bool,
}

/// A error that was reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedError {
    /// Its text.
    pub text: String,
    /// For an error of the policy: the number of packets dropped because of it so far. For a violated constraint: the
    /// number of routes that it refused.
    pub packets: Option<u64>,
}

impl Noting<'_> {
    /// The process is ready, so this one is to end.
    pub fn succeed(mut self, successor: Successor) {
        self.is_over = true;
        *self.handle.shared.succession.ready.lock().unwrap_or_else(PoisonError::into_inner) = Some(successor);
    }
}

impl Drop for Noting<'_> {
    /// The process has gone before it was ready.
    fn drop(&mut self) {
        if !self.is_over {
            self.handle.shared.archive.iter().for_each(|archive| drop(archive.journal.end_copy()));
            self.handle.shared.succession.is_begun.store(false, Ordering::Relaxed);
        }
    }
}

impl Handle {
    /// Where it is said which files can't be kept.
    pub fn files(&self) -> &KeptFiles {
        &self.shared.files
    }

    /// The recording of this run, if there is one.
    pub fn recording(&self) -> Option<&Recording> {
        self.shared.recording.as_ref()
    }

    /// From now on [`Handle::successor`] is looked at.
    pub fn serve_successors(&self) {
        self.shared.succession.is_served.store(true, Ordering::Relaxed);
    }

    /// This policy runs now: people can ask for it, and the next start is told of it.
    pub fn set_policy(&self, policy: PolicyRecord) {
        if let Some(archive) = &self.shared.archive {
            archive.journal.note_policy(&policy);
        }
        self.shared.about.set_policy(policy);
    }

    /// The policy that runs, if [`Handle::set_policy`] has named it.
    pub fn policy(&self) -> Option<PolicyRecord> {
        self.shared.about.policy()
    }

    /// The policy that ran in the earlier run of which the state file tells.
    pub fn policy_before(&self) -> Option<&PolicyRecord> {
        self.shared.policy_before.as_ref()
    }

    /// When the policy that runs was loaded.
    pub(crate) fn policy_loaded(&self) -> SystemTime {
        self.shared.about.policy_loaded()
    }

    /// Whether there are certificates for TLS.
    pub(crate) fn has_tls(&self) -> bool {
        self.shared.about.has_tls()
    }

    /// The process that is ready to take over ([`crate::Controller::hand_over`]).
    pub fn successor(&self) -> Option<Successor> {
        self.shared.succession.ready.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Another process wants to take over. `None` if the program hands nothing over, or another one was quicker.
    pub(crate) fn begin_succession(&self) -> Option<Noting<'_>> {
        let Succession { is_served, is_begun, .. } = &self.shared.succession;
        let may_begin = is_served.load(Ordering::Relaxed) && !is_begun.swap(true, Ordering::Relaxed);
        may_begin.then_some(Noting { handle: self, is_over: false })
    }

    /// Sends a process that wants to take over a copy. Returns the state that it has.
    ///
    /// # Errors
    /// If something can't be read, or that process has gone.
    pub(crate) fn send_copy(&self, to: &mut UnixStream) -> io::Result<Arc<Snapshot>> {
        let copied = Copied {
            listening: self.shared.about.listening().to_vec(),
            state_file: self.shared.about.state_file().map(Path::to_owned),
            archive: self.shared.archive.as_deref(),
            probe_key: self.shared.about.probe_key(),
            switches: self.query_all(ShardQuery::Copies).into_iter().flatten().collect(),
        };
        send_copy(to, self.store(), copied)
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn new(shared: Shared) -> Handle {
        Handle { shared: Arc::new(shared) }
    }

    /// The addresses that the controller listens on.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.shared.addresses
    }

    /// The connected switches, ordered by datapath id.
    pub fn switches(&self) -> Vec<SwitchStatus> {
        let mut switches: Vec<SwitchStatus> = self.query_all(ShardQuery::Switches).into_iter().flatten().collect();
        switches.sort_by_key(|switch| switch.dpid);
        switches
    }

    /// The rules of a switch as the engine believes them to be. Empty for a switch that is not connected.
    pub fn rules(&self, dpid: Dpid) -> Vec<TableRule> {
        self.rules_with_age(dpid).0
    }

    /// The rules of a switch, and the age of their counters; `None` if the switch has never reported any.
    /// [`Handle::count`] requests fresh counters.
    pub fn rules_with_age(&self, dpid: Dpid) -> (Vec<TableRule>, Option<Duration>) {
        let Some(shard) = self.shared.registry.shard_of(dpid) else { return Default::default() };
        let (sender, receiver) = bounded(1);
        self.shared.mailboxes[usize::from(shard.0)].send(ShardMessage::Query(ShardQuery::Rules(dpid, sender)));
        receiver.recv_timeout(SHARD_TIMEOUT).unwrap_or_default()
    }

    /// Asks the engine that serves a switch, between two of its turns. `None` if no shard serves it, or not in time.
    pub(crate) fn inspect<T: Send + 'static>(
        &self,
        dpid: Dpid,
        look: impl FnOnce(&Engine) -> T + Send + 'static,
    ) -> Option<T> {
        self.inspect_shard(usize::from(self.shared.registry.shard_of(dpid)?.0), look)
    }

    /// The same for the engine of a shard.
    pub(super) fn inspect_shard<T: Send + 'static>(
        &self,
        shard: usize,
        look: impl FnOnce(&Engine) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = bounded(1);
        // The other thread may have stopped waiting.
        let look: Box<dyn FnOnce(&Engine) + Send> = Box::new(move |engine| drop(sender.send(look(engine))));
        self.shared.mailboxes.get(shard)?.send(ShardMessage::Query(ShardQuery::Inspect(look)));
        receiver.recv_timeout(SHARD_TIMEOUT).ok()
    }

    /// What rules have counted now, each at a table of a switch. The switches have a second to say it.
    pub(crate) fn count_rules(&self, rules: Vec<(Dpid, u8, Rule)>) -> Vec<Option<RuleCount>> {
        let ask = |(dpid, table, rule): (Dpid, u8, Rule)| {
            let shard = self.shared.registry.shard_of(dpid)?;
            let (sender, receiver) = bounded(1);
            let query = ShardQuery::CountRule(dpid, table, rule, sender);
            self.shared.mailboxes.get(usize::from(shard.0))?.send(ShardMessage::Query(query));
            Some(receiver)
        };
        let asked: Vec<_> = rules.into_iter().map(ask).collect();
        let deadline = Instant::now() + COUNT_PATIENCE;
        asked.into_iter().map(|answer| answer?.recv_deadline(deadline).ok().flatten()).collect()
    }

    /// How large the tables of switches are, and how full. `None` if a switch does not say it in time.
    pub(crate) fn table_sizes(&self, switches: &[Dpid]) -> Vec<Option<Vec<TableSize>>> {
        let ask = |dpid: &Dpid| {
            let shard = self.shared.registry.shard_of(*dpid)?;
            let (sender, receiver) = bounded(1);
            let query = ShardQuery::TableSizes(*dpid, sender);
            self.shared.mailboxes.get(usize::from(shard.0))?.send(ShardMessage::Query(query));
            Some(receiver)
        };
        let end = Instant::now() + ALL_TABLES_PATIENCE;
        let some_of = |some: &[Dpid]| {
            let asked: Vec<_> = some.iter().map(ask).collect();
            let deadline = end.min(Instant::now() + TABLES_PATIENCE);
            asked.into_iter().map(move |answer| answer?.recv_deadline(deadline).ok()).collect::<Vec<_>>()
        };
        switches.chunks(ASKED_AT_ONCE).flat_map(some_of).collect()
    }

    /// Requests fresh counters from all switches, or from one of them. Returns when all have answered, or after
    /// `timeout`. Counters younger than about a second are not requested again, and a busy switch is asked later.
    pub fn count(&self, what: Counted, only: Option<Dpid>, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        loop {
            let ages = self.query_all(|to| ShardQuery::Watch(what, only, to));
            let is_fresh = |age: &Option<Duration>| age.is_some_and(|age| age <= FRESH);
            if ages.iter().flatten().all(is_fresh) || Instant::now() >= deadline {
                return;
            }
            std::thread::sleep(COUNT_INTERVAL);
        }
    }

    /// The latest port counters with their age, ordered by switch and port.
    pub fn port_counts(&self) -> Vec<(PortCount, Duration)> {
        let mut all: Vec<_> = self.query_all(ShardQuery::Ports).into_iter().flatten().collect();
        all.sort_by_key(|(count, _)| count.at);
        all
    }

    /// The traffic between hosts, from the counters of ingress rules, with the age of these counters.
    pub fn traffic(&self) -> Vec<(Traffic, Duration)> {
        let mut all: Vec<_> = self.query_all(ShardQuery::Traffic).into_iter().flatten().collect();
        all.sort_by_key(|(one, _)| (one.switch, one.from, one.to));
        all
    }

    /// The drops of the last minutes, this one included, by switch. What switches have not said yet is not in it:
    /// [`Handle::count`] asks them.
    pub fn drops(&self, minutes: u64) -> Vec<Dropped> {
        let mut all: Vec<Dropped> = self.query_all(|to| ShardQuery::Drops(minutes, to)).into_iter().flatten().collect();
        all.sort_by_key(|one| one.switch);
        all
    }

    /// The newest snapshot of the state: ports, links, hosts, tables and variables of the policy.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.shared.store.snapshot()
    }

    /// The store, for transactions outside the policy. Pass their commits to [`Handle::committed`].
    pub fn store(&self) -> &Arc<Store> {
        &self.shared.store
    }

    /// Whether state is kept in a file over restarts.
    pub fn keeps_state(&self) -> bool {
        self.shared.pending_writes.is_some()
    }

    /// The links, each once, the lower end first.
    pub fn links(&self) -> Vec<(Location, Location)> {
        self.snapshot().links().collect()
    }

    /// The hosts, ordered by MAC address.
    pub fn hosts(&self) -> Vec<(Mac, HostInfo)> {
        self.snapshot().hosts().map(|(mac, info)| (*mac, info.clone())).collect()
    }

    /// All counters. A shard that does not answer in time is left out.
    pub fn stats(&self) -> Stats {
        let heap_bytes = self.shared.heap_bytes.and_then(|count| count());
        let connections = self.shared.registry.connections();
        let mut stats = Stats { connections, heap_bytes, ..Stats::default() };
        for shard in self.query_all(ShardQuery::Stats) {
            stats.total.counters += shard.counters;
            stats.total.engine += shard.engine;
            stats.shards.push(shard);
        }
        stats
    }

    /// The names of switches and hosts.
    pub fn names(&self) -> Arc<Names> {
        self.shared.notices.names()
    }

    /// Switches and hosts have other names from now on.
    pub fn rename(&self, names: Names) {
        self.shared.notices.rename(names);
    }

    /// The lines of the log from this number on that are still kept. Waits for one, at most for this time.
    pub fn log_since(&self, number: u64, timeout: Duration) -> Vec<Entry> {
        self.shared.notices.log().since(number, timeout)
    }

    /// Whether all shards answer.
    pub fn is_alive(&self) -> bool {
        self.query_all(ShardQuery::Stats).len() == self.shared.mailboxes.len()
    }

    /// What all shards export as metrics. `None` if one does not answer in time: then sums would go down, as after a
    /// restart.
    pub(crate) fn shard_metrics(&self) -> Option<Vec<ShardMetrics>> {
        let shards = self.query_all(ShardQuery::Metrics);
        (shards.len() == self.shared.mailboxes.len()).then_some(shards)
    }

    /// Exports a gauge as a metric from now on, if metrics are exported. It takes the place of one with the same name.
    pub fn register_gauge(&self, gauge: Gauge) {
        self.shared.gauges.add(gauge);
    }

    /// The gauges that were registered.
    pub(crate) fn gauges(&self) -> &Gauges {
        &self.shared.gauges
    }

    /// The number of open connections of switches.
    pub(crate) fn connections(&self) -> usize {
        self.shared.registry.connections()
    }

    /// The address where metrics are exported, if they are.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.shared.metrics.get().copied()
    }

    /// Metrics are exported at this address from now on.
    pub(crate) fn exports_metrics_at(&self, address: SocketAddr) {
        // There is one server at most.
        let _ = self.shared.metrics.set(address);
    }

    /// The queue of unread notices. Clones of the receiver share the queue.
    pub fn notices(&self) -> &Receiver<Notice> {
        &self.shared.receiver
    }

    /// The most recent errors, oldest first. Each error of the policy is listed once.
    pub fn errors(&self) -> Vec<ReportedError> {
        let (failures, violations) = (self.policy_errors(), self.violations());
        let mut listed = BTreeSet::new();
        let mut violated = BTreeSet::new();
        let text = |notice: &Notice| self.names().in_text(&notice.to_string());
        let error = |notice: Notice| {
            let failed = match &notice {
                Notice::Engine(Report::PolicyFailed { error, .. }) => Some(error.clone()),
                _ => None,
            };
            if let Notice::Engine(Report::ConstraintViolated { constraint, place, .. }) = &notice {
                let key = (constraint.clone(), place.clone());
                let packets = Some(violations.get(&key).copied().unwrap_or(1));
                return violated.insert(key).then(|| ReportedError { text: text(&notice), packets });
            }
            if let Some(error) = &failed
                && !listed.insert(error.clone())
            {
                return None;
            }
            let packets = failed.map(|error| failures.get(&error).copied().unwrap_or(1));
            Some(ReportedError { text: text(&notice), packets })
        };
        let recent = self.shared.notices.recent();
        // What still fails is listed also if it was told long ago.
        let is_told = |news: &FileNews| {
            let last = recent.iter().rev().find_map(|notice| match notice {
                Notice::File(told) if told.file == news.file => Some(&told.condition),
                _ => None,
            });
            last.is_some_and(|last| !matches!(last, Condition::Mended(..)))
        };
        let untold = self.shared.files.troubles().into_iter().filter(|news| !is_told(news)).map(Notice::File);
        let untold: Vec<Notice> = untold.collect();
        untold.into_iter().chain(recent).filter_map(error).collect()
    }

    /// The policy's errors that were reported, each with the number of packets dropped because of it.
    pub fn policy_errors(&self) -> BTreeMap<Arc<str>, u64> {
        let mut sum = BTreeMap::new();
        for (error, count) in self.query_all(ShardQuery::Failures).into_iter().flatten() {
            *sum.entry(error).or_default() += count;
        }
        sum
    }

    /// The routes that constraints refused, by constraint and line, each with the number of times.
    pub fn violations(&self) -> BTreeMap<ViolationKey, u64> {
        let mut sum = BTreeMap::new();
        for (key, count) in self.query_all(ShardQuery::Violations).into_iter().flatten() {
            *sum.entry(key).or_default() += count;
        }
        sum
    }

    /// How often handlers and listeners failed. Each distinct error was reported.
    pub fn handler_failures(&self) -> u64 {
        self.shared.notices.handler_failures()
    }

    /// Withdraws the selected leaves on all shards. `false` if the controller has stopped.
    pub fn invalidate(&self, selection: Selection) -> bool {
        self.send_event(Event::Invalidate(selection))
    }

    /// Writes tracked state without waiting. `false` if the controller has stopped.
    ///
    /// # Panics
    /// If a value does not have the declared type of its table or variable. [`Handle::change`] returns an error
    /// instead.
    #[track_caller]
    pub fn write(&self, writes: Vec<Write>) -> bool {
        let written = transactions::this_thread(Some(Source::here()));
        match self.shared.store.change_as(writes, written) {
            // An empty commit is sent to no shard, but whether one is there is asked anyway.
            Ok(commit) => self.distribute(commit) && self.send_event(Event::Tick),
            Err(mismatch) => panic!("{mismatch}"),
        }
    }

    /// Tells the shards of a commit to [`Handle::store`]. `false` if the controller has stopped.
    pub fn committed(&self, commit: Commit) -> bool {
        self.distribute(commit)
    }

    /// Sends a frame, from the Ethernet header on, out of an edge port. No rule and no policy sees it.
    ///
    /// # Errors
    /// [`SendError`] if the port cannot send it. If the port goes down at that moment, the frame is lost.
    pub fn send_frame(&self, at: Location, frame: Vec<u8>) -> Result<(), SendError> {
        if !FRAME_BYTES.contains(&frame.len()) {
            return Err(SendError::Length(frame.len()));
        }
        let Some(shard) = self.shared.registry.shard_of(at.switch) else { return Err(SendError::NoSwitch(at.switch)) };
        if self.snapshot().port(at).is_none_or(|port| port.kind != PortKind::Edge) {
            return Err(SendError::NoEdge(at.switch, at.port));
        }
        let event = Event::Send(OwnFrame { at, bytes: frame.into() });
        let is_sent = self.shared.mailboxes[usize::from(shard.0)].send(ShardMessage::Event(Box::new(event)));
        if is_sent { Ok(()) } else { Err(SendError::Stopped) }
    }

    /// Reports that a listener failed. The same error is reported the first, tenth, hundredth… time.
    pub fn listener_failed(&self, error: Arc<str>) {
        self.shared.notices.listener_failed(error);
    }

    /// Publishes a notice.
    pub(crate) fn publish(&self, notice: Notice) {
        self.shared.notices.publish(notice);
    }

    /// Tells all shards to close their connections and end. Does not wait for that.
    pub fn stop(&self) {
        for mailbox in &self.shared.mailboxes {
            mailbox.send(ShardMessage::Stop);
        }
    }

    /// Why the controller stopped by itself. `None` while it runs, and if it was told to stop.
    pub fn failure(&self) -> Option<&str> {
        self.shared.failure.get().map(String::as_str)
    }

    /// Stops the controller for this reason. Only the first reason is recorded.
    pub(crate) fn fail(&self, reason: String) {
        // There may be a reason already.
        let _ = self.shared.failure.set(reason);
        self.stop();
    }

    /// Sends the first shard's engine an event that any engine can handle.
    fn send_event(&self, event: Event) -> bool {
        self.shared.mailboxes.first().is_some_and(|mailbox| mailbox.send(ShardMessage::Event(Box::new(event))))
    }

    /// Sends every shard the same query. Returns where the answers will come, in the shards' order.
    fn send_all<T>(&self, query: impl Fn(Sender<T>) -> ShardQuery) -> Vec<Receiver<T>> {
        let send = |mailbox: &Mailbox| {
            let (sender, receiver) = bounded(1);
            mailbox.send(ShardMessage::Query(query(sender)));
            receiver
        };
        self.shared.mailboxes.iter().map(send).collect()
    }

    /// Sends every shard the same query. Returns the answers in the shards' order.
    fn query_all<T>(&self, query: impl Fn(Sender<T>) -> ShardQuery) -> Vec<T> {
        let receivers = self.send_all(query);
        let deadline = Instant::now() + SHARD_TIMEOUT;
        receivers.into_iter().filter_map(|receiver| receiver.recv_deadline(deadline).ok()).collect()
    }
}
