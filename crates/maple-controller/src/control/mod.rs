//! Queries and commands for a running controller: [`Handle`] for the same process, [`socket`] for other processes. What
//! only the program that runs the controller does is in [`Operations`].
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
mod operations;
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
use maple_core::engine::{Event, LeafSelection};
use maple_core::network::{HostInfo, Location, Mac, OwnFrame, PortKind};
use maple_core::route::FRAME_BYTES;
use maple_core::state::{Snapshot, Store};
use parking_lot::Mutex;

use self::about::About;
pub use self::errors::ReportedError;
pub use self::http::{HAS_PAGE, HttpDeadlines, HttpError, HttpOptions, TokensError};
pub(crate) use self::http::{HttpServer, MetricsServer, Scrape, ScrapeError};
pub(crate) use self::map::NetworkMap;
use self::membership::JoinedCluster;
pub use self::operations::{Operations, RoleError};
pub use self::queries::LateShard;
use self::reload::ReloadQueue;
pub(crate) use self::successor::TakeoverState;
pub(crate) use self::timeline::{Timeline, TimelineWriter};
use crate::endpoint::Endpoint;
use crate::gauge::Gauges;
use crate::kept_files::KeptFiles;
use crate::listener::SendError;
use crate::names::Names;
use crate::notice::{Notice, Notices};
use crate::policy_record::PolicyRecord;
use crate::session::ClusterRole;
use crate::shard::mailbox::{Mailbox, ShardMessage};
use crate::shard::registry::Registry;
use crate::storage::cluster_writes::ClusterWrites;
use crate::storage::record::Recording;
use crate::storage::{Archive, ChangeHistory, PendingWrites, SharedRows};

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
        // Chosen: five runs in Python that take as long as they may; and a trial of tens of thousands of leaves, which
        // a slow policy needs.
        ShardDeadlines { query: Duration::from_secs(5), reload: Duration::from_secs(60) }
    }
}

/// The reason why a controller runs no more: it failed, or was stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Stopped(pub String);

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
    /// The timeline of the last 24 hours, if one is kept.
    pub timeline: OnceLock<Arc<Timeline>>,
}

/// The process that serves the switches in this controller's place.
pub(crate) struct Succession {
    /// The state of takeovers by other processes.
    pub takeover: TakeoverState,
    /// The role that the cluster gave this controller last, if it is one of several, with a number that grows.
    pub role: Option<Mutex<(u64, ClusterRole)>>,
    /// Its writes on their way to etcd, if it is one of several.
    pub writes: Option<Arc<ClusterWrites>>,
    /// The rows for standbys, if it has any.
    pub shared_rows: Option<Arc<SharedRows>>,
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

    /// Returns the store, to read tables and variables at any time. [`Handle::atomically`] and [`Handle::change`]
    /// write. Commits that are made in the store itself have to be passed to [`Operations::committed`].
    pub fn store(&self) -> &Arc<Store> {
        &self.shared.store
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

    /// Returns the gauges that were registered.
    pub(crate) fn gauges(&self) -> &Gauges {
        &self.shared.measures.gauges
    }

    /// Returns the number of open connections of switches.
    pub(crate) fn connections(&self) -> usize {
        self.shared.registry.connections()
    }

    /// Records the address where metrics are exported.
    pub(crate) fn exports_metrics_at(&self, address: SocketAddr) {
        // There is one server at most.
        let _ = self.shared.endpoints.metrics.set(address);
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

    /// Withdraws the selected leaves on all shards, without waiting.
    ///
    /// # Errors
    /// [`Stopped`] if the controller has stopped.
    pub fn invalidate(&self, selection: LeafSelection) -> Result<(), Stopped> {
        if self.send_event(Event::Invalidate(selection)) { Ok(()) } else { Err(self.stopped()) }
    }

    /// Sends a frame, from the Ethernet header on, out of an edge port. No rule and no policy sees it.
    ///
    /// # Errors
    /// [`SendError`] if the port cannot send it. If the port goes down at that moment, the frame is lost.
    pub fn send_frame(&self, frame: Vec<u8>, at: Location) -> Result<(), SendError> {
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

    /// Returns why the controller stopped by itself: `None` while it runs, and if it was asked to stop.
    pub fn failure(&self) -> Option<&str> {
        self.shared.failure.get().map(String::as_str)
    }

    /// Returns the error of a call to a controller that has stopped.
    fn stopped(&self) -> Stopped {
        Stopped(self.failure().unwrap_or("the controller has stopped").into())
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
