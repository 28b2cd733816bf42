//! Joins a controller to its cluster: its member campaigns with etcd, and the controller takes the role that it gets.
//!
//! One thread carries the member ([`run_member`]) and the copy of the tracked state ([`run_replica`],
//! `tracked_state.rs`). What the member hears becomes a [`ClusterRole`](crate::ClusterRole), which goes to the shards;
//! these ask the switches. A member that was elected leads as soon as the store has all that was written before. The
//! thread is not on the way of any packet: while etcd is away, or the thread waits for it, the shards go on with the
//! latest role. What the master has decided goes to standbys by connections of their own (`peers/`).

mod peers;
mod tracked_state;

use std::fmt;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use maple_cluster::{
    Member, MemberHandle, MemberOptions, News, Replica, ReplicaHandle, ReplicaOptions, run_member, run_replica,
};
use maple_etcd::{Client, Config, Endpoint, EtcdError};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::runtime::Builder;

use crate::control::Handle;
pub use crate::control::membership::ClusterStatus;
use crate::control::membership::JoinedCluster;
use crate::gauge::Gauge;
use crate::notice::{ClusterNews, Notice};
use crate::storage::STATE_FORMAT;
use crate::storage::cluster_writes::ClusterWrites;
pub use peers::{PeerError, PeerOptions, PeerTlsFiles};
use peers::{PeerListener, PeerThreads, Peers};
use tracked_state::{NOT_MASTER, TrackedState};

/// The time that a controller that ends waits until etcd knows that its member has left. After that the others wait for
/// the end of its lease. Chosen: etcd answers in milliseconds, and an end must not take much longer because etcd is
/// away.
const LEAVING: Duration = Duration::from_secs(2);
/// The time until a request to etcd that failed is repeated. It must be a small part of a lease, so that several
/// attempts fit before the lease ends.
const RETRY: Duration = Duration::from_millis(200);
/// The time that a new master waits for the watch to report what it lacks of the tracked state, before it reads all of
/// it. Chosen: a watch lags milliseconds behind, so only a broken one takes longer, and nobody leads meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);

/// The options of a controller that joins a cluster.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// The way in which etcd is reached.
    pub etcd: Config,
    /// The cluster's name. Several clusters can share an etcd.
    pub cluster: String,
    /// The controller's own name, which no other controller of the cluster has.
    pub name: String,
    /// The time of the lease, in whole seconds: how long nobody takes over after the master has died. Default: 5 s.
    pub lease: Duration,
    /// The way in which the others reach this controller, so that standbys have what the master has decided. The
    /// controller was started with [`MemoryOptions::for_standbys`](crate::MemoryOptions::for_standbys). Default: they
    /// don't.
    pub peers: Option<PeerOptions>,
}

impl ClusterOptions {
    /// Creates options with the default lease.
    pub fn new(etcd: Config, cluster: &str, name: &str) -> ClusterOptions {
        let (cluster, name) = (cluster.to_owned(), name.to_owned());
        ClusterOptions { etcd, cluster, name, lease: Duration::from_secs(5), peers: None }
    }
}

/// A controller's membership of a cluster. Dropping it leaves the cluster: the switches get another master.
pub struct ClusterMember {
    member: MemberHandle,
    runtime: tokio::runtime::Handle,
    status: Arc<Mutex<ClusterStatus>>,
    controller: Handle,
    writes: Arc<ClusterWrites>,
    /// Ends with the thread.
    running: Receiver<()>,
    /// The connections with others.
    peers: Option<PeerThreads>,
}

impl fmt::Debug for ClusterMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterMember").field("status", &*self.status.lock()).finish_non_exhaustive()
    }
}

impl ClusterMember {
    /// Joins a cluster. The controller was started with
    /// [`OpenFlowOptions::in_cluster`](crate::OpenFlowOptions::in_cluster). It is a standby until it is elected.
    ///
    /// # Errors
    /// The system's error if it refuses a thread or an address; [`PeerError`] in it; or if the controller was started
    /// as the only one, or has joined before.
    pub fn join(controller: &Handle, options: ClusterOptions) -> io::Result<ClusterMember> {
        let Some(writes) = controller.shared().succession.writes.clone() else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the controller was not started as one of several",
            ));
        };
        let ClusterOptions { etcd, cluster, name, lease, peers } = options;
        let endpoints = etcd.endpoints.iter().map(Endpoint::to_string).collect();
        let rows = match (&peers, &controller.shared().succession.shared_rows) {
            (Some(_), None) => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "the controller was not started as one that has rows for standbys",
                ));
            }
            (_, rows) => rows.clone(),
        };
        let listener = peers.map(PeerListener::open).transpose().map_err(io::Error::other)?;
        let member_options = MemberOptions {
            cluster: cluster.clone(),
            name: name.clone(),
            address: listener.as_ref().map(|listener| listener.address.to_string()),
            lease,
            retry: RETRY,
            step_down: 2 * lease,
        };
        let member = Member::new(member_options);
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let status =
            Arc::new(Mutex::new(ClusterStatus { closed: Some(NOT_MASTER.to_owned()), ..ClusterStatus::default() }));
        let client = Client::new(etcd);
        let notices = controller.shared().notices.clone();
        let peers = rows.filter(|_| listener.is_some());
        let peers = peers.map(|rows| Arc::new(Peers::new((&cluster, &name), notices, rows, Arc::clone(&status))));
        let tracked_state = TrackedState {
            controller: controller.clone(),
            writes: Arc::clone(&writes),
            status: Arc::clone(&status),
            member: Arc::default(),
            peers: peers.clone(),
            led: None,
        };
        let for_state: Arc<OnceLock<MemberHandle>> = Arc::clone(&tracked_state.member);
        let replica_options =
            ReplicaOptions { cluster: cluster.clone(), format: STATE_FORMAT.into(), retry: RETRY, patience: PATIENCE };
        let (replica, state_task) = run_replica(Replica::new(replica_options), client.clone(), tracked_state);
        let replica_for_writes = replica.clone();
        let keeper =
            RoleKeeper { controller: controller.clone(), status: Arc::clone(&status), replica, peers: peers.clone() };
        let (member, task) = run_member(member, client, move |news| keeper.on_news(news));
        for_state.get_or_init(|| member.clone());
        peers.iter().for_each(|peers| peers.set_member(&member));
        let (runs, running) = channel();
        let handle = runtime.handle().clone();
        let (of_request, on_runtime) = (member.clone(), handle.clone());
        let step_down = Box::new(move || step_down(&on_runtime, of_request.clone()));
        let peers_for_copy = peers.clone();
        let copy = Box::new(move || peers_for_copy.as_ref().map_or(Value::Null, |peers| peers.to_json()));
        let joined = JoinedCluster { cluster, name, etcd: endpoints, status: Arc::clone(&status), step_down, copy };
        if !controller.try_join(joined) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the controller has joined a cluster before"));
        }
        controller.store().close(NOT_MASTER);
        writes.notify_by(move || replica_for_writes.look());
        let running_peers = listener.zip(peers.as_ref()).map(|(listener, peers)| listener.run(peers)).transpose()?;
        std::thread::Builder::new().name("cluster".into()).spawn(move || {
            runtime.spawn(state_task);
            runtime.block_on(task);
            drop(runs);
        })?;
        gauges(&status).into_iter().for_each(|gauge| controller.operations().register_gauge(gauge));
        if let Some(peers) = peers {
            controller.operations().register_gauge(copy_gauge(peers));
        }
        let controller = controller.clone();
        Ok(ClusterMember { member, runtime: handle, status, controller, writes, running, peers: running_peers })
    }

    /// Returns what is known of the cluster.
    pub fn status(&self) -> ClusterStatus {
        self.status.lock().clone()
    }

    /// Lets another member become master. Nothing happens if this one is not master. If no other one is there, this one
    /// becomes master again after some seconds.
    pub fn step_down(&self) {
        step_down(&self.runtime, self.member.clone());
    }
}

fn step_down(runtime: &tokio::runtime::Handle, member: MemberHandle) {
    runtime.spawn(async move { member.step_down().await });
}

/// Returns the metrics of a cluster.
fn gauges(status: &Arc<Mutex<ClusterStatus>>) -> [Gauge; 5] {
    let gauge = |name, meaning, read: fn(&ClusterStatus) -> f64| {
        let status = Arc::clone(status);
        Gauge::new(name, meaning, move || Some(read(&status.lock())))
    };
    let master = "1 if this controller is master of the network, otherwise 0. Only in a cluster.";
    let members = "Number of controllers that are there, this one included. Only in a cluster.";
    let lease = "1 if the lease of this controller with etcd is good, otherwise 0. Only in a cluster.";
    let failing =
        "1 if something has gone wrong with etcd since the lease was renewed last, otherwise 0. Only in a cluster.";
    let writes =
        "1 if tables and variables can be written here, as at a master with etcd, otherwise 0. Only in a cluster.";
    [
        gauge("maple_cluster_master", master, |status| f64::from(u8::from(status.role.own_generation.is_some()))),
        gauge("maple_cluster_members", members, |status| status.members.len() as f64),
        gauge("maple_cluster_lease", lease, |status| f64::from(u8::from(status.role.has_lease))),
        gauge("maple_cluster_etcd_failing", failing, |status| f64::from(u8::from(status.any_trouble().is_some()))),
        gauge("maple_cluster_writable", writes, |status| f64::from(u8::from(status.closed.is_none()))),
    ]
}

/// Returns the metric of the copy of what the master has decided.
fn copy_gauge(peers: Arc<Peers>) -> Gauge {
    let meaning = "1 if this controller is master, or has a copy of what the master has decided, otherwise 0. Only in a cluster with \
                   --cluster-listen.";
    Gauge::new("maple_cluster_copy", meaning, move || Some(f64::from(u8::from(peers.is_warm()))))
}

impl Drop for ClusterMember {
    fn drop(&mut self) {
        // What was written goes to etcd before another one takes over, and then nothing more is written.
        self.controller.store().close("this controller leaves its cluster");
        self.writes.wait_for_all(LEAVING);
        self.writes.set_open(false);
        let member = self.member.clone();
        self.runtime.spawn(async move { member.leave().await });
        if self.running.recv_timeout(LEAVING) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("etcd does not answer, so another controller takes over only when the lease has ended");
        }
        self.peers.take();
    }
}

/// The link from a member to its controller, which follows what the member hears.
struct RoleKeeper {
    controller: Handle,
    status: Arc<Mutex<ClusterStatus>>,
    replica: ReplicaHandle,
    peers: Option<Arc<Peers>>,
}

impl RoleKeeper {
    fn on_news(&self, news: News) {
        self.notify_replica(&news);
        if let (Some(peers), News::Known(view)) = (&self.peers, &news) {
            peers.on_view(view);
        }
        let mut status = self.status.lock();
        let before = status.role;
        let for_people = follow(&mut status, news);
        let role = status.role;
        // Sending to a shard may have to wait.
        drop(status);
        if let Some(news) = for_people {
            self.controller.shared().notices.publish(Notice::Cluster(news));
        }
        if role != before {
            // A controller that has ended needs no role.
            drop(self.controller.operations().set_role(role));
            self.peers.iter().for_each(|peers| peers.on_role());
        }
    }

    fn notify_replica(&self, news: &News) {
        match news {
            News::Lead(generation) => self.replica.lead(*generation),
            News::Follow => self.replica.follow(),
            News::Lease(is_good) => self.replica.store_answers(*is_good),
            // A watch that ended is begun again, at another server.
            News::Failed(EtcdError::Unreachable(_) | EtcdError::Uncertain(_)) => self.replica.store_answers(false),
            News::Failed(_) | News::NameTaken | News::Known(_) => {}
        }
    }
}

/// Takes in what a member hears. Returns what people are to know of it.
fn follow(status: &mut ClusterStatus, news: News) -> Option<ClusterNews> {
    match news {
        News::Lead(generation) => {
            // It leads when the store has what was written before.
            status.elected = Some(generation);
            None
        }
        News::Follow => {
            (status.elected, status.role.own_generation) = (None, None);
            None
        }
        News::NameTaken => Some(ClusterNews::NameTaken),
        News::Known(view) => {
            let master = view.master();
            status.role.latest = status.role.latest.max(master.map(|master| master.generation));
            status.members = view.members().map(str::to_owned).collect();
            let name = master.map(|master| master.name.clone());
            let is_new = status.role.own_generation.is_none() && name != status.master;
            status.master = name.clone();
            name.filter(|_| is_new).map(ClusterNews::Follows)
        }
        News::Lease(is_good) => {
            status.role.has_lease = is_good;
            let trouble = if is_good { status.trouble.take() } else { None };
            trouble.map(|_| ClusterNews::EtcdBack)
        }
        News::Failed(error) => {
            let error = error.to_string();
            let is_known = status.trouble.replace(error.clone()).is_some();
            (!is_known).then_some(ClusterNews::EtcdFailed(error))
        }
    }
}
