//! Starts and stops the controller: from options to running shards.

mod snooping;

use std::io;
use std::net::{self, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use core_affinity::CoreId;
use maple_core::engine::{Engine, Options, ShardId};
use maple_core::policy::{Net, PacketHandle, Policy};
use maple_core::route::Route;
use maple_core::snooped::LEASES;
use maple_core::state::{DeclareError, Name, Store, VersionError, Write, Writer, Written};
use mio::net::TcpListener;
use mio::{Poll, Waker};

use crate::control::about::About;
use crate::control::reload::Reloads;
use crate::control::socket::ControlSocket;
use crate::control::{Handle, Shared, Successor};
use crate::discovery::{Discovery, Key, Timing};
use crate::gauge::{Gauge, Gauges};
use crate::handler::HandlerFactory;
use crate::listen::{Listener, Subscription, Subscriptions, TooManyConditions, listen as make_listener};
use crate::metrics::MetricsServer;
use crate::names::Names;
use crate::notice::Notices;
use crate::persistence::{Persistence, PersistenceError};
use crate::random::random;
use crate::remember::{LeafJournal, Remembered};
use crate::restart::Restart;
use crate::session::Deadlines;
use crate::shard::mailbox::{Mailbox, Outgoing, Released, ShardMessage};
use crate::shard::registry::Registry;
use crate::shard::{ListeningSocket, Parts, QueueLimits, Shard, WAKER};
use crate::snoop::{Snooper, Snooping};
use crate::takeover::{HandedOver, place, state_of};
use crate::time::Clock;
use crate::tls::Tls;

/// The most shards: a shard's number takes 8 bits of a leaf's id.
const MAX_WORKERS: usize = 255;
/// How long a shard may take to stop before its connections are handed over.
const HAND_OVER: Duration = Duration::from_secs(5);
/// The most connections that wait to be accepted.
const BACKLOG: i32 = 4096;
/// The port that IANA assigned to OpenFlow.
pub const OPENFLOW_PORT: u16 = 6653;

/// The options of a controller.
#[derive(Clone)]
pub struct ControllerOptions {
    /// The addresses to listen on. Port 0 selects a free port; [`Handle::addresses`] returns it.
    pub listen: Vec<SocketAddr>,
    /// The addresses to listen on with TLS, which needs [`ControllerOptions::tls`].
    pub listen_tls: Vec<SocketAddr>,
    /// Certificates for TLS.
    pub tls: Option<Arc<Tls>>,
    /// The number of shards; 0 means one for each core.
    pub workers: usize,
    /// Whether each shard is pinned to a core.
    pub pin: bool,
    /// The cores to pin shards to, in turn. Empty means all cores that this process may use. Needs `pin`.
    pub cores: Vec<usize>,
    /// The policy.
    pub policy: Arc<dyn Policy>,
    /// The subscriptions of listeners.
    pub subscriptions: Vec<Subscription>,
    /// What to snoop on, for policies. Ignored with handlers, which receive all packets themselves.
    pub snooping: Snooping,
    /// Makes the handlers that serve the switches instead of the policy.
    pub handlers: Option<Arc<dyn HandlerFactory>>,
    /// Whether each answer of a handler is written separately, instead of together with all answers to one read. This
    /// is slower, but delivers the first answer earlier.
    pub write_each: bool,
    /// How often shards compare their loads. A shard that is overloaded three times in a row gives a switch to one that
    /// is not, if handlers serve them. With zero, switches never migrate.
    pub balance_period: Duration,
    /// The tracked state. Writes before the start are effective from the start.
    pub store: Arc<Store>,
    /// The engine's options. The epoch is overwritten by a random one at the start.
    pub engine: Options,
    /// The time limits of sessions.
    pub deadlines: Deadlines,
    /// The limits of output that waits for a switch.
    pub limits: QueueLimits,
    /// The timing of discovery's probes.
    pub timing: Timing,
    /// The path of the Unix socket of `maple show`, if there should be one.
    pub control: Option<PathBuf>,
    /// The file for the state that [`Store::keep`] marks as persistent.
    pub state_file: Option<PathBuf>,
    /// Whether the state file also has what the next run is to know of switches and leaves. For networks that are still
    /// there then.
    pub remember: bool,
    /// Names of switches and hosts, for what people read.
    pub names: Arc<Names>,
    /// The address where Prometheus finds metrics, if they are to be exported: `http://ADDRESS/metrics`.
    pub metrics: Option<SocketAddr>,
    /// Returns the bytes that the process has allocated, if it counts them. Shown in [`Handle::stats`].
    pub heap_bytes: Option<fn() -> Option<usize>>,
}

impl ControllerOptions {
    /// The defaults for a policy: all addresses, port 6653, a shard for each core, no control socket.
    pub fn new(policy: Arc<dyn Policy>) -> ControllerOptions {
        ControllerOptions {
            listen: vec![SocketAddr::from(([0, 0, 0, 0], OPENFLOW_PORT))],
            listen_tls: Vec::new(),
            tls: None,
            workers: 0,
            pin: true,
            cores: Vec::new(),
            policy,
            subscriptions: Vec::new(),
            snooping: Snooping::default(),
            handlers: None,
            write_each: false,
            balance_period: Duration::from_secs(1),
            store: Store::new(),
            engine: Options::default(),
            deadlines: Deadlines::default(),
            limits: QueueLimits::default(),
            timing: Timing::default(),
            control: None,
            state_file: None,
            remember: true,
            names: Arc::default(),
            metrics: None,
            heap_bytes: None,
        }
    }

    /// The defaults for handlers of this factory, which serve switches instead of a policy.
    pub fn for_handlers(factory: Arc<dyn HandlerFactory>) -> ControllerOptions {
        let nothing = |_: &PacketHandle, _: &Net| Route::drop();
        ControllerOptions { handlers: Some(factory), ..ControllerOptions::new(Arc::new(nothing)) }
    }
}

/// Why a controller cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address can't be listened on.
    #[error("can't listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// An address with TLS, and no certificate.
    #[error("{0} is to be listened on with TLS, which needs a certificate and its key")]
    NoCertificate(SocketAddr),
    /// TLS, and sockets that were handed over of which none begins with it.
    #[error(
        "none of the sockets that were handed over begins with TLS; one of systemd does so with FileDescriptorName=tls"
    )]
    NoSocketWithTls,
    /// The control socket can't be made.
    #[error("can't make the control socket {path}: {error}")]
    Control {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Metrics can't be exported.
    #[error("can't export metrics at {address}: {error}")]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// State can't be kept over restarts.
    #[error(transparent)]
    Persistence(#[from] PersistenceError),
    /// Listeners and snooping have too many conditions together.
    #[error(transparent)]
    Conditions(#[from] TooManyConditions),
    /// The policy has a table that snooping writes.
    #[error("snooping: {0}")]
    Snooping(#[from] DeclareError),
    /// The rows of a table cannot be brought to the policy's version of it.
    #[error(transparent)]
    Version(#[from] VersionError),
    /// Too many shards.
    #[error("there can be at most {MAX_WORKERS} workers, not {0}")]
    TooManyWorkers(usize),
    /// A core that this process may not use.
    #[error("core {0} is not available; available cores are {1:?}")]
    NoCore(usize, Vec<usize>),
    /// The system refused something else.
    #[error("can't start: {0}")]
    System(#[from] io::Error),
}

/// A controller stopped by itself: why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Stopped(pub String);

/// A running controller. Dropping it stops it.
pub struct Controller {
    handle: Handle,
    threads: Vec<JoinHandle<()>>,
    control: Option<ControlSocket>,
    metrics: Option<MetricsServer>,
    persistence: Option<Persistence>,
}

impl Controller {
    /// Listens, starts the shards, and returns.
    ///
    /// # Errors
    /// [`StartError`] if an address is taken or the system refuses a thread or descriptor; nothing runs then.
    pub fn start(options: ControllerOptions) -> Result<Controller, StartError> {
        Controller::take_over(options, HandedOver::default())
    }

    /// The same, with what another process has handed over: its connections, which need not reconnect, its listening
    /// sockets, which take the place of [`ControllerOptions::listen`], and its tables and variables.
    ///
    /// # Errors
    /// As [`Controller::start`].
    pub fn take_over(mut options: ControllerOptions, mut handed: HandedOver) -> Result<Controller, StartError> {
        let snoops = options.snooping.is_on() && options.handlers.is_none();
        let listener = if snoops { Some(subscribe_snooper(&mut options)?) } else { None };
        let subscriptions = Subscriptions::new(std::mem::take(&mut options.subscriptions))?;
        options.engine.listener_filters = Arc::clone(subscriptions.conditions());
        let workers = if options.workers == 0 { cores().len().clamp(1, MAX_WORKERS) } else { options.workers };
        if workers > MAX_WORKERS {
            return Err(StartError::TooManyWorkers(workers));
        }
        if let Some(missing) = options.cores.iter().find(|id| !cores().iter().any(|core| core.id == **id)) {
            return Err(StartError::NoCore(*missing, cores().iter().map(|core| core.id).collect()));
        }
        let listeners = listeners(&options, std::mem::take(&mut handed.listeners))?;
        let address = |(one, tls): &ListeningSocket| Ok((one.local_addr()?, tls.is_some()));
        let listening = listeners.iter().map(address).collect::<io::Result<Vec<_>>>()?;
        let clock = Clock::start();
        options.engine.wall_clock = SystemTime::now();
        let mut persistence = open_persistence(&options)?;
        take_state(&options.store, &handed.names, std::mem::take(&mut handed.state));
        // No shard runs yet, so the commit needs no distribution.
        drop(options.store.adopt_versions(false)?);
        let known = match &mut persistence {
            Some((persistence, remembered)) if options.remember && options.handlers.is_none() => {
                options.engine.epoch = remembered.epoch;
                options.engine.remember = true;
                let departed = std::mem::take(&mut remembered.switches);
                let restart = Arc::new(Restart::new(clock.now(), Arc::clone(&options.store), departed));
                Some((Arc::clone(&restart), persistence.remember(remembered.epoch, restart)?))
            }
            _ => {
                options.engine.epoch = u16::from_ne_bytes(random()?);
                None
            }
        };
        let persistence = persistence.map(|(persistence, _)| persistence);
        let (notices, receiver) = Notices::new(Arc::clone(&options.names));
        let common = Common {
            clock,
            registry: Arc::new(Registry::new(workers)),
            store: Arc::clone(&options.store),
            key: Key(random()?),
            notices,
            subscriptions,
            known,
        };
        let polls = (0..workers).map(|_| Poll::new()).collect::<io::Result<Vec<_>>>()?;
        let mut mailboxes = Vec::new();
        let mut inboxes = Vec::new();
        for poll in &polls {
            let (mailbox, inbox) = Mailbox::new(Arc::new(Waker::new(poll.registry(), WAKER)?));
            mailboxes.push(mailbox);
            inboxes.push(inbox);
        }
        let shared = Shared {
            addresses: listening.iter().map(|(address, _)| *address).collect(),
            mailboxes: mailboxes.clone(),
            store: Arc::clone(&common.store),
            registry: Arc::clone(&common.registry),
            notices: common.notices.clone(),
            receiver,
            failure: OnceLock::new(),
            pending_writes: persistence.as_ref().map(Persistence::pending_writes),
            heap_bytes: options.heap_bytes,
            reloads: Reloads::default(),
            about: About::new(listening, options.tls.clone(), options.state_file.clone()),
            successor: Successor::default(),
            gauges: Gauges::default(),
            metrics: OnceLock::new(),
        };
        let mut controller =
            Controller { handle: Handle::new(shared), threads: Vec::new(), control: None, metrics: None, persistence };
        let mut listeners = Some(listeners);
        for (id, (poll, inbox)) in polls.into_iter().zip(inboxes).enumerate() {
            let id = ShardId(id as u8);
            let listeners = listeners.take().unwrap_or_default();
            let parts = common.parts(id, &options, poll, inbox, Outgoing::new(id, mailboxes.clone()), listeners)?;
            controller.threads.push(spawn(&options, controller.handle.clone(), parts)?);
        }
        if let Some(listener) = listener {
            let thread = spawn_snooper(&options, listener, common.clock.clone(), controller.handle.clone())?;
            controller.threads.push(thread);
        }
        let shared_registry = Arc::clone(&common.registry);
        // This drops a sender of the listeners' queues, so that the shards' end closes these queues.
        drop(common);
        for connection in handed.connections {
            let to = shared_registry.assign();
            mailboxes[usize::from(to.0)].send(ShardMessage::Resume(connection));
        }
        if let Some(path) = options.control {
            let socket = ControlSocket::open(&path, controller.handle.clone());
            controller.control = Some(socket.map_err(|error| StartError::Control { path, error })?);
        }
        if let Some(count) = options.heap_bytes {
            controller.handle.register_gauge(heap_gauge(count));
        }
        if let Some(tls) = options.tls.clone() {
            controller.handle.register_gauge(expiry_gauge(tls));
        }
        if let Some(address) = options.metrics {
            let server = MetricsServer::open(address, controller.handle.clone());
            let server = server.map_err(|error| StartError::Metrics { address, error })?;
            controller.handle.exports_metrics_at(server.address());
            controller.metrics = Some(server);
        }
        Ok(controller)
    }

    /// Queries and controls the running controller.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Waits until the controller has stopped, by [`Handle::stop`] or because it failed. Rules stay in the switches.
    ///
    /// # Errors
    /// [`Stopped`] if it failed.
    pub fn wait(mut self) -> Result<(), Stopped> {
        self.join();
        self.end();
        self.handle.failure().map_or(Ok(()), |why| Err(Stopped(why.into())))
    }

    /// Ends, without closing what another process can go on with. Rules stay in the switches.
    ///
    /// # Errors
    /// If a shard does not answer. Then everything is closed.
    pub fn hand_over(mut self) -> io::Result<HandedOver> {
        let mut handed = HandedOver::default();
        let (to, released) = crossbeam_channel::unbounded();
        let mailboxes = &self.handle.shared().mailboxes;
        for mailbox in mailboxes {
            mailbox.send(ShardMessage::HandOver(to.clone()));
        }
        drop(to);
        for _ in mailboxes {
            let Released { listeners, connections } = released.recv_timeout(HAND_OVER).map_err(io::Error::other)?;
            handed.listeners.extend(listeners);
            handed.connections.extend(connections);
        }
        (handed.names, handed.state) = state_of(self.handle.store());
        self.end();
        Ok(handed)
    }

    /// Closes all connections, and waits until every thread has ended. Rules stay in the switches.
    pub fn stop(mut self) {
        self.end();
    }

    fn join(&mut self) {
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a shard panicked");
            }
        }
    }

    fn end(&mut self) {
        self.handle.stop();
        self.control.take();
        self.metrics.take();
        self.join();
        // After the shards, so that their last commits are written.
        self.persistence.take();
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.end();
    }
}

/// What all shards have in common.
struct Common {
    clock: Clock,
    registry: Arc<Registry>,
    store: Arc<Store>,
    key: Key,
    notices: Notices,
    subscriptions: Subscriptions,
    /// The switches that were known before, and what takes what is to be known later.
    known: Option<(Arc<Restart>, Arc<LeafJournal>)>,
}

impl Common {
    /// The parts of one shard.
    fn parts(
        &self,
        id: ShardId,
        options: &ControllerOptions,
        poll: Poll,
        inbox: crossbeam_channel::Receiver<Vec<ShardMessage>>,
        outgoing: Outgoing,
        listeners: Vec<ListeningSocket>,
    ) -> io::Result<Parts> {
        Ok(Parts {
            id,
            poll,
            clock: self.clock.clone(),
            deadlines: options.deadlines,
            limits: options.limits,
            listeners,
            tls: options.tls.clone(),
            registry: Arc::clone(&self.registry),
            inbox,
            outgoing,
            discovery: Discovery::new(self.key, options.timing, u64::from_le_bytes(random()?))
                .without(options.engine.middleboxes.clone())
                .with_facts(Arc::clone(&options.engine.facts)),
            notices: self.notices.clone(),
            subscriptions: self.subscriptions.clone(),
            handlers: options.handlers.clone(),
            write_each: options.write_each,
            balance_period: options.balance_period,
            known: self.known.clone(),
        })
    }
}

/// The bytes of the heap as a metric, if the process counts them.
fn heap_gauge(count: fn() -> Option<usize>) -> Gauge {
    let meaning = "Bytes of the heap in use. Only with --count-heap.";
    Gauge::new("maple_heap_bytes", meaning, move || count().map(|bytes| bytes as f64))
}

/// When the certificate expires, as a metric.
fn expiry_gauge(tls: Arc<Tls>) -> Gauge {
    let meaning = "When the controller's certificate expires, in seconds since 1970. Only with TLS.";
    let seconds = move || tls.expires().duration_since(SystemTime::UNIX_EPOCH).ok().map(|since| since.as_secs_f64());
    Gauge::new("maple_certificate_expires_seconds", meaning, seconds)
}

/// The sockets to listen on: those that another process has handed over, or new ones. Each with what its connections
/// begin TLS with.
fn listeners(
    options: &ControllerOptions,
    taken: Vec<(net::TcpListener, bool)>,
) -> Result<Vec<ListeningSocket>, StartError> {
    let with = |address: SocketAddr, is_tls: bool| match (is_tls, &options.tls) {
        (false, _) => Ok(None),
        (true, Some(tls)) => Ok(Some(Arc::clone(tls))),
        (true, None) => Err(StartError::NoCertificate(address)),
    };
    if taken.is_empty() {
        let plain = options.listen.iter().map(|address| (*address, false));
        let all = plain.chain(options.listen_tls.iter().map(|address| (*address, true)));
        return all.map(|(address, is_tls)| Ok((listen(address)?, with(address, is_tls)?))).collect();
    }
    if options.tls.is_some() && !taken.iter().any(|(_, is_tls)| *is_tls) {
        return Err(StartError::NoSocketWithTls);
    }
    let taken = taken.into_iter().map(|(listener, is_tls)| {
        listener.set_nonblocking(true)?;
        let tls = with(listener.local_addr()?, is_tls)?;
        Ok((TcpListener::from_std(listener), tls))
    });
    taken.collect()
}

/// Takes over the tables and variables of another process, in the place of what the policy wrote while it was loaded. It
/// may have declared one otherwise.
fn take_state(store: &Store, names: &[Name], state: Vec<Write>) {
    store.load_kept(names, Vec::new());
    let written = Written { by: Writer::TakeOver, at: SystemTime::now() };
    for write in state {
        let of = place(&write);
        if let Err(error) = store.change_as(vec![write], written.clone()) {
            tracing::warn!(?of, "not taken over: {error}");
        }
    }
}

/// Opens the state file, if there is persistent state.
fn open_persistence(options: &ControllerOptions) -> Result<Option<(Persistence, Remembered)>, PersistenceError> {
    match (&options.state_file, options.store.kept().first()) {
        (Some(path), _) => Persistence::open(path, &options.store).map(Some),
        (None, Some(name)) => Err(PersistenceError::NoFile(name.to_string())),
        (None, None) => Ok(None),
    }
}

/// Declares the tables of snooping, and subscribes to the packets that it needs.
fn subscribe_snooper(options: &mut ControllerOptions) -> Result<Listener, StartError> {
    // No shard runs yet, so the commits need no distribution.
    drop(options.snooping.declare(&options.store)?);
    if options.snooping.on_leases() && options.state_file.is_some() {
        options.store.keep(LEASES);
    }
    let (subscription, listener) = make_listener(options.snooping.conditions())?;
    options.subscriptions.push(subscription);
    Ok(listener)
}

/// Starts the snooping thread, which ends after the last shard. If it panics, the controller stops: otherwise the
/// groups would silently become outdated.
fn spawn_snooper(
    options: &ControllerOptions,
    listener: Listener,
    clock: Clock,
    handle: Handle,
) -> io::Result<JoinHandle<()>> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let epoch = since.saturating_sub(Duration::from_nanos(clock.now().0));
    let snooper = Snooper::new(options.snooping.clone(), epoch, &options.store.snapshot());
    std::thread::Builder::new().name("snoop".into()).spawn(move || {
        let work = AssertUnwindSafe(|| snooping::run(snooper, &listener, &clock, &handle));
        if std::panic::catch_unwind(work).is_err() {
            let failure = "snooping panicked".to_owned();
            tracing::error!("{failure}; the controller stops");
            handle.fail(failure);
        }
    })
}

/// Starts a shard's thread, which makes the engine: an engine never leaves its thread. If a shard fails, the controller
/// stops: otherwise some of its switches would silently be without service.
fn spawn(options: &ControllerOptions, handle: Handle, parts: Parts) -> io::Result<JoinHandle<()>> {
    let id = parts.id;
    let selected =
        if options.cores.is_empty() { cores() } else { options.cores.iter().map(|id| CoreId { id: *id }).collect() };
    let core = if options.pin { selected.into_iter().cycle().nth(usize::from(id.0)) } else { None };
    let (store, policy, options, handlers) =
        (Arc::clone(handle.store()), Arc::clone(&options.policy), options.engine.clone(), options.handlers.clone());
    std::thread::Builder::new().name(format!("shard-{}", id.0)).spawn(move || {
        if let Some(core) = core
            && !core_affinity::set_for_current(core)
        {
            tracing::warn!(shard = id.0, core = core.id, "cannot pin the shard to its core");
        }
        let engine_policy = Arc::clone(&policy);
        let mut work = Some(move || {
            let run = || Shard::new(parts, Engine::new(id, store, engine_policy, options)).and_then(Shard::run);
            let failure = match std::panic::catch_unwind(AssertUnwindSafe(run)) {
                Ok(Ok(())) => return,
                Ok(Err(error)) => format!("shard {} failed: {error}", id.0),
                Err(_) => format!("shard {} panicked", id.0),
            };
            tracing::error!("{failure}; the controller stops");
            handle.fail(failure);
        });
        let mut worker = || {
            if let Some(work) = work.take() {
                work();
            }
        };
        match handlers {
            Some(handlers) => handlers.on_thread(&mut worker),
            None => policy.on_thread(&mut worker),
        }
    })
}

/// The cores that this process may use.
fn cores() -> Vec<CoreId> {
    core_affinity::get_core_ids().unwrap_or_default()
}

/// Opens a listening socket whose address can be reused at once after a restart.
fn listen(address: SocketAddr) -> Result<TcpListener, StartError> {
    let open = || {
        let socket = socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(TcpListener::from_std(socket.into()))
    };
    open().map_err(|error| StartError::Listen { address, error })
}
