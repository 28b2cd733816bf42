//! Queries and commands for a running controller: [`Handle`] for the same process, [`socket`] for other processes.
//!
//! Network state is read from the store's newest snapshot. State of a shard (rules, counters, connections) is queried
//! by message, so queries take no lock that packet processing takes.

pub mod transactions;

pub(crate) mod about;
mod access_lists;
mod answer;
mod asker;
pub mod doctor;
mod dropped;
mod errors;
mod expected;
pub mod explain;
mod heat;
mod history_answer;
mod http;
pub(crate) mod live;
mod map;
pub(crate) mod membership;
pub mod plan;
pub mod protocol;
mod queries;
pub mod reload;
mod request;
pub mod rows;
mod schema;
pub mod socket;
mod socket_access;
mod state;
mod successor;
mod timeline;

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use crossbeam_channel::Receiver;
use maple_core::Source;
use maple_core::engine::{Event, Selection};
use maple_core::network::{HostInfo, Location, Mac, OwnFrame, PortKind};
use maple_core::route::FRAME_BYTES;
use maple_core::state::{Commit, Snapshot, Store, Write};
use parking_lot::Mutex;

use self::about::About;
pub use self::errors::ReportedError;
pub use self::http::{HAS_PAGE, HttpDeadlines, HttpError, HttpOptions, TokensError};
pub(crate) use self::http::{HttpServer, MetricsServer, Scrape, ScrapeError};
pub(crate) use self::map::NetworkMap;
use self::membership::JoinedCluster;
pub use self::queries::LateShard;
use self::reload::ReloadQueue;
pub(crate) use self::successor::TakeoverState;
pub(crate) use self::timeline::{Timeline, TimelineWriter};
use crate::endpoint::Endpoint;
use crate::gauge::{Gauge, Gauges};
use crate::kept_files::KeptFiles;
use crate::listener::SendError;
use crate::log::LogEntry;
use crate::names::Names;
use crate::notice::{Notice, Notices};
use crate::policy_record::PolicyRecord;
use crate::session::ClusterRole;
use crate::shard::mailbox::{Mailbox, ShardMessage};
use crate::shard::registry::Registry;
use crate::storage::cluster_writes::ClusterWrites;
use crate::storage::record::Recording;
use crate::storage::{Archive, ChangeHistory, PendingWrites};

/// The time for which an answer waits for the switches' counters. After that it has the last known ones. Chosen: people
/// wait for it, and most switches answer within a second.
pub const COUNT_TIMEOUT: Duration = Duration::from_secs(2);

/// The times that a [`Handle`] waits for the shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardDeadlines {
    /// The limit for the answer to a query, and for the confirmation of a write. A shard answers between two turns, and
    /// a run of a policy in Python may take a second by default.
    pub query: Duration,
    /// The limit for trying a new policy on the packets of all leaves, and again for adopting it.
    pub reload: Duration,
}

impl Default for ShardDeadlines {
    fn default() -> ShardDeadlines {
        ShardDeadlines { query: Duration::from_secs(5), reload: Duration::from_secs(60) }
    }
}

/// Queries and controls a running controller. Clones refer to the same controller.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("addresses", &self.addresses())
            .field("failure", &self.failure())
            .finish_non_exhaustive()
    }
}

/// The parts of the controller that the handle uses.
pub(crate) struct Shared {
    pub endpoints: Endpoints,
    pub deadlines: ShardDeadlines,
    /// The shards' mailboxes, by shard number.
    pub mailboxes: Vec<Mailbox>,
    pub store: Arc<Store>,
    pub registry: Arc<Registry>,
    pub notices: Notices,
    pub receiver: Receiver<Notice>,
    /// The reason why the controller stopped by itself, if it did.
    pub failure: OnceLock<String>,
    pub measures: Measures,
    pub kept: KeptMemory,
    /// The reloads that were requested.
    pub reloads: ReloadQueue,
    /// The controller's account of itself.
    pub about: About,
    pub succession: Succession,
    /// The map of the network.
    pub map: Mutex<NetworkMap>,
    /// What is kept of the last 24 hours, if anything is.
    pub timeline: OnceLock<Arc<Timeline>>,
}

/// The process that serves the switches in this controller's place.
pub(crate) struct Succession {
    /// The state of takeovers by other processes.
    pub takeover: TakeoverState,
    /// What the cluster said last of this controller, if it is one of several, with a number that grows.
    pub role: Option<Mutex<(u64, ClusterRole)>>,
    /// Its writes on their way to etcd, if it is one of several.
    pub writes: Option<Arc<ClusterWrites>>,
    /// The cluster, once this controller has joined it.
    pub cluster: OnceLock<JoinedCluster>,
}

/// The addresses where the controller listens.
#[derive(Default)]
pub(crate) struct Endpoints {
    /// The addresses at which switches connect.
    pub switches: Vec<SocketAddr>,
    /// The address at which metrics are exported.
    pub metrics: OnceLock<SocketAddr>,
    /// The endpoint of the HTTP API.
    pub http: OnceLock<Endpoint>,
}

/// The figures that other parts of the program measure for the controller.
pub(crate) struct Measures {
    /// A function that returns the heap's size in bytes, if the program counts it.
    pub heap_bytes: Option<fn() -> Option<usize>>,
    pub gauges: Gauges,
}

/// The memory of the controller: for its next run, for another process that takes its place, and for people.
pub(crate) struct KeptMemory {
    /// The files that are kept, and which of them fail.
    pub files: KeptFiles,
    /// The writes on their way to the state file, if there is one.
    pub pending_writes: Option<Arc<PendingWrites>>,
    /// The memory that is passed to another process, if anything is remembered.
    pub archive: Option<Arc<Archive>>,
    /// The policy of the earlier run that the state file describes.
    pub policy_before: Option<PolicyRecord>,
    /// The history of changes.
    pub history: Arc<ChangeHistory>,
    /// The recording of this run, if there is one.
    pub recording: Option<Recording>,
}

impl Handle {
    /// Returns the record of the files that are kept, and of those that fail.
    pub fn files(&self) -> &KeptFiles {
        &self.shared.kept.files
    }

    /// Returns the recording of this run, if there is one.
    pub fn recording(&self) -> Option<&Recording> {
        self.shared.kept.recording.as_ref()
    }

    /// Records which policy runs: clients can ask for it, and the state file keeps it for the next start.
    pub fn set_policy(&self, policy: PolicyRecord) {
        if let Some(archive) = &self.shared.kept.archive {
            archive.journal.note_policy(&policy);
        }
        self.shared.about.set_policy(policy);
    }

    /// Returns the policy of the earlier run that the state file describes.
    pub fn policy_before(&self) -> Option<&PolicyRecord> {
        self.shared.kept.policy_before.as_ref()
    }

    /// Tells a controller that is one of several
    /// ([`OpenFlowOptions::in_cluster`](crate::OpenFlowOptions::in_cluster)) what it is. If it leads, it asks each switch to
    /// be its master, and decides for those that grant it. Otherwise it is a standby at once. Returns `false` if it is the
    /// only controller, or has ended.
    pub fn set_role(&self, role: ClusterRole) -> bool {
        let Some(known) = &self.shared.succession.role else { return false };
        // While this is locked, the shards get all roles in the same order.
        let mut known = known.lock();
        *known = (known.0 + 1, role);
        let number = known.0;
        // All get it, also if one has ended.
        let ended = self.shared.mailboxes.iter().filter(|mailbox| !mailbox.send(ShardMessage::Role(number, role)));
        ended.count() == 0
    }

    /// Returns what this controller is, if it is one of several.
    pub fn role(&self) -> Option<ClusterRole> {
        self.shared.succession.role.as_ref().map(|known| known.lock().1)
    }

    /// Returns the time at which the running policy was loaded.
    pub(crate) fn policy_loaded(&self) -> SystemTime {
        self.shared.about.policy_loaded()
    }

    /// Reports whether there are certificates for TLS.
    pub(crate) fn has_tls(&self) -> bool {
        self.shared.about.has_tls()
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn new(shared: Shared) -> Handle {
        Handle { shared: Arc::new(shared) }
    }

    /// Returns the addresses that the controller listens on.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.shared.endpoints.switches
    }

    /// Returns the newest snapshot of the state: ports, links, hosts, and the policy's tables and variables.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.shared.store.snapshot()
    }

    /// Returns the store, for transactions outside the policy. Pass their commits to [`Handle::committed`].
    pub fn store(&self) -> &Arc<Store> {
        &self.shared.store
    }

    /// Reports whether a file keeps state over restarts.
    pub fn keeps_state(&self) -> bool {
        self.shared.kept.pending_writes.is_some()
    }

    /// Returns the links, each once, the lower end first.
    pub fn links(&self) -> Vec<(Location, Location)> {
        self.snapshot().links().collect()
    }

    /// Returns the hosts, ordered by MAC address.
    pub fn hosts(&self) -> Vec<(Mac, HostInfo)> {
        self.snapshot().hosts().map(|(mac, info)| (*mac, info.clone())).collect()
    }

    /// Returns the names of switches and hosts.
    pub fn names(&self) -> Arc<Names> {
        self.shared.notices.names()
    }

    /// Replaces the names of switches and hosts.
    pub fn rename(&self, names: Names) {
        self.shared.notices.rename(names);
    }

    /// Returns the lines of the log that are still kept, from this number on. Waits at most `timeout` for one.
    pub fn log_since(&self, number: u64, timeout: Duration) -> Vec<LogEntry> {
        self.shared.notices.log().since(number, timeout)
    }

    /// Exports a gauge as a metric, if metrics are exported. It takes the place of one with the same name.
    pub fn register_gauge(&self, gauge: Gauge) {
        self.shared.measures.gauges.add(gauge);
    }

    /// Returns the gauges that were registered.
    pub(crate) fn gauges(&self) -> &Gauges {
        &self.shared.measures.gauges
    }

    /// Returns the number of open connections of switches.
    pub(crate) fn connections(&self) -> usize {
        self.shared.registry.connections()
    }

    /// Returns the address where metrics are exported, if they are.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.shared.endpoints.metrics.get().copied()
    }

    /// Records the address where metrics are exported.
    pub(crate) fn exports_metrics_at(&self, address: SocketAddr) {
        // There is one server at most.
        let _ = self.shared.endpoints.metrics.set(address);
    }

    /// Returns the address of the HTTP API, if it is served.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.shared.endpoints.http.get().map(|endpoint| endpoint.address)
    }

    /// Reports whether the HTTP API is served with TLS.
    pub fn http_has_tls(&self) -> bool {
        self.shared.endpoints.http.get().is_some_and(|endpoint| endpoint.has_tls)
    }

    /// Records the address of the HTTP API, and whether connections begin with TLS there.
    pub(crate) fn serves_http_at(&self, address: SocketAddr, has_tls: bool) {
        // There is one server at most.
        let _ = self.shared.endpoints.http.set(Endpoint { address, has_tls });
    }

    /// Returns the timeline, if one is kept.
    pub(crate) fn timeline(&self) -> Option<&Arc<Timeline>> {
        self.shared.timeline.get()
    }

    /// Records the timeline.
    pub(crate) fn keeps_timeline(&self, timeline: Arc<Timeline>) {
        // There is one at most.
        let _ = self.shared.timeline.set(timeline);
    }

    /// Returns the queue of unread notices. Clones of the receiver share the queue.
    pub fn notices(&self) -> &Receiver<Notice> {
        &self.shared.receiver
    }

    /// Withdraws the selected leaves on all shards. Returns `false` if the controller has stopped.
    pub fn invalidate(&self, selection: Selection) -> bool {
        self.send_event(Event::Invalidate(selection))
    }

    /// Writes tracked state without waiting. Returns `false` if the controller has stopped.
    ///
    /// # Panics
    /// If a value does not have the declared type of its table or variable. [`Handle::change`] returns an error
    /// instead.
    #[track_caller]
    pub fn write(&self, writes: Vec<Write>) -> bool {
        let written = transactions::this_thread(Some(Source::here()));
        match self.shared.store.change_as(writes, written) {
            // An empty commit reaches no shard, so another event finds out whether the controller runs.
            Ok(commit) => self.distribute(commit) && self.send_event(Event::Tick),
            Err(mismatch) => panic!("{mismatch}"),
        }
    }

    /// Sends the shards a commit to [`Handle::store`]. Returns `false` if the controller has stopped.
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

    /// Tells all shards to close their connections and end, without waiting for that.
    pub fn stop(&self) {
        for mailbox in &self.shared.mailboxes {
            mailbox.send(ShardMessage::Stop);
        }
    }

    /// Returns why the controller stopped by itself: `None` while it runs, and if it was told to stop.
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
}
