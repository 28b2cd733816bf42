//! The connections between the members of a cluster: standbys get the rows of the master (`maple_cluster`,
//! [`StreamSource`](maple_cluster::StreamSource)).
//!
//! ```text
//!   engines ─► journal ─► RowFeed ─► source ──── serve.rs ───TLS─── follow.rs ─► copy ─► SharedRows::adopt
//!   (master)                                                                    (standby)
//! ```
//!
//! A standby connects to the master, at the address that the master's key in etcd has, and asks; the master answers
//! when there is something new, or after a moment ([`serve::HEARTBEAT`]). One thread serves and follows; another one
//! feeds the source. Neither is on the way of any packet, nor of what etcd receives.
//!
//! A connection that ends, at an address where nobody listens any more, says that the master is dead: then this member
//! takes its place at once (`maple_cluster::Event::Suspected`). If the host says nothing, the end of the lease decides.
//!
//! # Trust
//!
//! What is streamed is packets of hosts. So both sides show certificates of the same authorities; without certificates,
//! connections stay on this machine.

mod follow;
mod frames;
mod serve;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Instant;

use maple_cluster::{MemberHandle, StreamCopy, StreamError, StreamFollower, StreamNews, StreamedPart, View};
use maple_etcd::{Endpoint, FailureReason, TlsFiles as ClientFiles};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{oneshot, watch};

use crate::control::membership::ClusterStatus;
use crate::notice::{ClusterNews, Notice, Notices};
use crate::priority::lower_for_good;
use crate::storage::{RowFeed, STREAM_LIMITS, SharedRows, count};
use crate::tls::{Tls, TlsError, TlsFiles};

/// The way in which the members of a cluster reach each other.
#[derive(Clone, Debug)]
pub struct PeerOptions {
    /// The host name or address, and the port, at which this controller listens for the others, and at which they reach
    /// it. With port 0 the system chooses one.
    pub address: Endpoint,
    /// The files for TLS. Without them the address is one of the loopback interface.
    pub tls: Option<PeerTlsFiles>,
}

/// The files of a member for TLS with the others, all PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerTlsFiles {
    /// The authorities that sign the certificates of members. Whoever has such a certificate gets what the master has.
    pub authorities: PathBuf,
    /// The certificate of this member, for the host name of its address.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// The reason why a controller can't listen for the other members.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// Other machines reach the address, and no certificates were given.
    #[error(
        "{0} is not an address of this machine alone, and what controllers tell each other is not for everybody: give them \
         certificates"
    )]
    NeedsTls(Endpoint),
    /// The address can't be listened on.
    #[error("can't listen on {0} for the other controllers: {1}")]
    Listen(Endpoint, io::Error),
    /// A file of this member's own can't be used.
    #[error(transparent)]
    Certificate(#[from] TlsError),
    /// A file can't be used to connect to others.
    #[error(transparent)]
    Client(#[from] FailureReason),
}

impl PeerOptions {
    /// Checks that the files can be used, as they are now, and that the address may be used without any.
    ///
    /// # Errors
    /// [`PeerError`], which names the file or the address.
    pub fn check(&self) -> Result<(), PeerError> {
        self.resolve()?;
        let Some(files) = &self.tls else { return Ok(()) };
        drop(files.tls()?);
        Ok(files.client().check()?)
    }

    /// Returns the address to listen on.
    fn resolve(&self) -> Result<SocketAddr, PeerError> {
        let Endpoint { host, port } = &self.address;
        let failed = |error| PeerError::Listen(self.address.clone(), error);
        let mut all = (host.as_str(), *port).to_socket_addrs().map_err(failed)?;
        let first = all.next().ok_or_else(|| failed(io::Error::other("it has no address")))?;
        if self.tls.is_none() && !first.ip().is_loopback() {
            return Err(PeerError::NeedsTls(self.address.clone()));
        }
        Ok(first)
    }
}

impl PeerTlsFiles {
    fn tls(&self) -> Result<Tls, TlsError> {
        let files = TlsFiles::new(&self.certificate, &self.key);
        Tls::open(TlsFiles { authorities: Some(self.authorities.clone()), ..files })
    }

    fn client(&self) -> ClientFiles {
        let identity = Some((self.certificate.clone(), self.key.clone()));
        ClientFiles { authorities: self.authorities.clone(), identity }
    }
}

/// The master that a standby follows.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MasterPlace {
    name: String,
    /// The generation of its mastership.
    generation: u64,
    /// Its address, if it says one that can be used.
    address: Option<Endpoint>,
}

/// The part of the master's state that a standby has.
#[derive(Debug)]
struct MasterCopy {
    follower: StreamFollower,
    /// The master that it was heard from last, and when.
    heard: Option<(String, Instant)>,
    /// The reason why nothing comes, until something does.
    trouble: Option<String>,
}

/// A member's rows for the others, and its copy of the master's.
#[derive(Debug)]
pub(super) struct Peers {
    cluster: String,
    name: String,
    notices: Notices,
    rows: Arc<SharedRows>,
    status: Arc<Mutex<ClusterStatus>>,
    copy: Mutex<MasterCopy>,
    /// The member of the cluster, once it runs.
    member: OnceLock<MemberHandle>,
    /// Signals that rows have changed, or the role of this member.
    changes: watch::Sender<()>,
    master: watch::Sender<Option<MasterPlace>>,
}

impl Peers {
    /// Creates what a member has of others before it hears of any.
    pub fn new(
        (cluster, name): (&str, &str),
        notices: Notices,
        rows: Arc<SharedRows>,
        status: Arc<Mutex<ClusterStatus>>,
    ) -> Peers {
        let copy = MasterCopy { follower: StreamFollower::new(STREAM_LIMITS), heard: None, trouble: None };
        Peers {
            cluster: cluster.to_owned(),
            name: name.to_owned(),
            notices,
            rows,
            status,
            copy: Mutex::new(copy),
            member: OnceLock::new(),
            changes: watch::Sender::new(()),
            master: watch::Sender::new(None),
        }
    }

    /// Takes the member of the cluster, which is notified when the master seems to be dead.
    pub fn set_member(&self, member: &MemberHandle) {
        self.member.get_or_init(|| member.clone());
    }

    /// Takes in what is known of the cluster: a standby follows its master.
    pub fn on_view(&self, view: &View) {
        let master = view.master().filter(|master| master.name != self.name);
        let place = master.map(|master| MasterPlace {
            name: master.name.clone(),
            generation: master.generation,
            address: view.address(&master.name).and_then(|address| address.parse().ok()),
        });
        self.master.send_if_modified(|before| std::mem::replace(before, place.clone()) != place);
    }

    /// Takes the copy of the master's rows, for a controller that is about to lead and has led last in this generation.
    /// A copy from before that is of no use.
    pub fn take_copy(&self, led: Option<u64>) -> Option<StreamCopy> {
        self.copy().follower.take().filter(|copy| led < Some(copy.generation))
    }

    /// Notes that this member may have begun or ceased to lead.
    pub fn on_role(&self) {
        self.changes.send_replace(());
    }

    /// Reports whether this member could take over without deciding everything anew: it leads, or has a copy.
    pub fn is_warm(&self) -> bool {
        self.generation().is_some() || self.copy().follower.whole().is_some()
    }

    /// Encodes, for people, what standbys get, or what this one has got.
    pub fn to_json(&self) -> Value {
        if let Some(generation) = self.generation() {
            let source = self.rows.source();
            let (leaves, hosts) = count(source.rows(&[]).map(|(key, _)| key));
            return json!({
                "of": self.name, "generation": generation, "leaves": leaves, "hosts": hosts, "rows": source.len(),
                "left_out": source.left_out(), "behind": 0, "age": self.rows.age().as_secs_f64(), "trouble": null,
            });
        }
        let MasterCopy { follower, heard, trouble } = &*self.copy();
        let whole = follower.whole();
        let counts = whole.map(|copy| count(copy.rows.keys().map(Vec::as_slice)));
        json!({
            "of": heard.as_ref().map(|(name, _)| name),
            "generation": whole.map(|copy| copy.generation),
            "leaves": counts.map(|(leaves, _)| leaves),
            "hosts": counts.map(|(_, hosts)| hosts),
            "rows": whole.map(|copy| copy.rows.len()),
            "left_out": 0,
            "behind": follower.behind(),
            "age": heard.as_ref().map(|(_, at)| at.elapsed().as_secs_f64()),
            "trouble": trouble,
        })
    }

    /// Returns the generation in which this member leads.
    fn generation(&self) -> Option<u64> {
        self.status.lock().role.own_generation
    }

    fn copy(&self) -> MutexGuard<'_, MasterCopy> {
        self.copy.lock()
    }

    /// Takes in what the master has answered.
    fn on_part(&self, master: &str, part: StreamedPart) -> Result<(), StreamError> {
        let mut copy = self.copy();
        let news = copy.follower.on_part(part)?;
        copy.heard = Some((master.to_owned(), Instant::now()));
        copy.trouble = None;
        let leaves = |whole: &StreamCopy| count(whole.rows.keys().map(Vec::as_slice)).0;
        let leaves = copy.follower.whole().filter(|_| news == StreamNews::Whole).map(leaves);
        drop(copy);
        if let Some(leaves) = leaves {
            self.report(ClusterNews::HasCopy { of: master.to_owned(), leaves });
        }
        Ok(())
    }

    /// Tells the cluster that the master seems to be dead, so that this member takes its place at once.
    async fn suspect(&self, master: &str) {
        self.report(ClusterNews::Suspects(master.to_owned()));
        if let Some(member) = self.member.get() {
            member.suspect(master).await;
        }
    }

    /// Notes why nothing comes from the master. The first reason is reported.
    fn on_trouble(&self, master: &str, why: String) {
        let is_known = self.copy().trouble.replace(why.clone()).is_some();
        if !is_known {
            self.report(ClusterNews::NoCopy { of: master.to_owned(), why });
        }
    }

    fn report(&self, news: ClusterNews) {
        self.notices.publish(Notice::Cluster(news));
    }
}

/// The running threads. Dropping this ends them.
pub(super) struct PeerThreads {
    rows: Arc<SharedRows>,
    /// The thread ends when this is dropped.
    running: Option<oneshot::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

/// A socket that listens for other members, and the files for its connections.
pub(super) struct PeerListener {
    listener: TcpListener,
    runtime: Runtime,
    tls: Option<(Arc<Tls>, ClientFiles)>,
    /// The address at which others reach it.
    pub address: Endpoint,
}

impl PeerListener {
    /// Listens for other members.
    ///
    /// # Errors
    /// [`PeerError`] if a file can't be used, or the system refuses the address.
    pub fn open(options: PeerOptions) -> Result<PeerListener, PeerError> {
        let at = options.resolve()?;
        let tls = options.tls.as_ref().map(|files| Ok::<_, TlsError>((Arc::new(files.tls()?), files.client())));
        let tls = tls.transpose()?;
        let PeerOptions { mut address, .. } = options;
        let listen = || {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let socket = socket2::Socket::new(socket2::Domain::for_address(at), socket2::Type::STREAM, None)?;
            socket.set_reuse_address(true)?;
            socket.set_nonblocking(true)?;
            socket.bind(&at.into())?;
            socket.listen(serve::BACKLOG)?;
            let listener = {
                let _entered = runtime.enter();
                TcpListener::from_std(socket.into())?
            };
            let port = listener.local_addr()?.port();
            Ok((listener, runtime, port))
        };
        let (listener, runtime, port) = listen().map_err(|error| PeerError::Listen(address.clone(), error))?;
        address.port = port;
        Ok(PeerListener { listener, runtime, tls, address })
    }

    /// Serves other members, and follows the master.
    ///
    /// # Errors
    /// The system's error if it refuses a thread.
    pub fn run(self, peers: &Arc<Peers>) -> io::Result<PeerThreads> {
        let PeerListener { listener, runtime, tls, .. } = self;
        let (tls, client) = tls.unzip();
        let (running, ends) = oneshot::channel::<()>();
        let mut all =
            PeerThreads { rows: Arc::clone(&peers.rows), running: Some(running), threads: Vec::with_capacity(2) };
        let of_thread = Arc::clone(peers);
        all.threads.push(std::thread::Builder::new().name("cluster-peers".into()).spawn(move || {
            runtime.spawn(serve::accept(listener, tls, Arc::clone(&of_thread)));
            runtime.spawn(follow::follow(of_thread, client));
            // The other end is only ever dropped.
            let _ = runtime.block_on(ends);
        })?);
        let (mut feed, peers) = (RowFeed::new(Arc::clone(&peers.rows)), Arc::clone(peers));
        all.threads.push(std::thread::Builder::new().name("cluster-rows".into()).spawn(move || {
            // Nothing waits for it.
            lower_for_good();
            loop {
                let turn = feed.turn();
                if turn.has_changed {
                    peers.changes.send_replace(());
                }
                if turn.is_last {
                    return;
                }
            }
        })?);
        Ok(all)
    }
}

impl Drop for PeerThreads {
    fn drop(&mut self) {
        self.rows.end();
        self.running.take();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the connections between controllers panicked");
            }
        }
    }
}
