//! Starts a controller: from options to running shards.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use core_affinity::CoreId;
use crossbeam_channel::Receiver;
use maple_core::Store;
use maple_core::engine::{Engine, ShardId, Time};
use maple_core::network::Facts;
use maple_core::snooping::LEASES;
use maple_core::state::{Journal, Write, WriteLog};
use mio::net::TcpListener;
use mio::{Poll, Waker};
use parking_lot::Mutex;

use super::{BACKLOG, Controller, ControllerOptions, MAX_WORKERS, OpenFlowOptions, StartError};
use crate::control::about::About;
use crate::control::membership::NOT_JOINED;
use crate::control::reload::ReloadQueue;
use crate::control::socket::ControlSocket;
use crate::control::{
    Endpoints, Handle, HttpServer, KeptMemory, Measures, MetricsServer, Shared, Succession, TakeoverState,
    TimelineWriter,
};
use crate::discovery::{Discovery, Key};
use crate::endpoint::{Endpoint, HandedListener};
use crate::gauge::{Gauge, Gauges};
use crate::kept_files::{FileStatus, KeptFiles};
use crate::listener::{Listener, Subscriptions, subscribe};
use crate::metrics::scrape;
use crate::notice::{Notice, Notices};
use crate::policy_record::PolicyRecord;
use crate::program::Balancer;
use crate::random::random;
use crate::shard::mailbox::{Mailbox, Outgoing, ShardMessage};
use crate::shard::registry::Registry;
use crate::shard::{Context, FORGET_SWITCH_AFTER, IoParts, ListeningSocket, Shard, ShardParts, WAKER};
use crate::snoop::Snooper;
use crate::storage::cluster_writes::ClusterWrites;
use crate::storage::record::{RecordWriter, Recording};
use crate::storage::{
    Archive, ChangeHistory, KnownSwitches, LeafJournal, Persistence, PersistenceError, RememberedRows, Restart,
    SharedRows,
};
use crate::time::Clock;
use crate::tls::Tls;

/// The options after their check, before anything is opened.
pub(super) struct CheckedOptions {
    pub options: ControllerOptions,
    subscriptions: Subscriptions,
    /// The events for snooping, if that is on.
    snoop: Option<Listener>,
    workers: usize,
    /// The writes on their way to etcd, in a cluster.
    writes: Option<Arc<ClusterWrites>>,
}

impl CheckedOptions {
    /// Checks the options, and prepares what they ask for: snooping, listeners, and what is declared.
    pub fn new(mut options: ControllerOptions) -> Result<CheckedOptions, StartError> {
        let writes = options.openflow.in_cluster.then(|| Arc::new(ClusterWrites::new()));
        if let Some(writes) = &writes {
            check_for_cluster(&options)?;
            options.store.share(Arc::clone(writes) as Arc<dyn Journal>);
            options.store.close(NOT_JOINED);
        }
        let snoops = options.snooping.is_on() && options.programs.is_none();
        let snoop = if snoops { Some(subscribe_snooper(&mut options)?) } else { None };
        let subscriptions = Subscriptions::new(std::mem::take(&mut options.subscriptions))?;
        options.engine.listener_filters = Arc::clone(subscriptions.conditions());
        if *options.engine.facts != Facts::default() {
            // Before a recording begins.
            let facts = Write::Facts { number: 0, facts: Arc::clone(&options.engine.facts) };
            drop(options.store.update(|_| vec![facts]));
        }
        let workers =
            if options.workers.count == 0 { cores().len().clamp(1, MAX_WORKERS) } else { options.workers.count };
        if workers > MAX_WORKERS {
            return Err(StartError::TooManyWorkers(workers));
        }
        if let Some(missing) = options.workers.cores.iter().find(|id| !cores().iter().any(|core| core.id == **id)) {
            return Err(StartError::NoCore(*missing, cores().iter().map(|core| core.id).collect()));
        }
        Ok(CheckedOptions { options, subscriptions, snoop, workers, writes })
    }
}

/// Checks that the options ask for nothing that members of a cluster don't share.
fn check_for_cluster(options: &ControllerOptions) -> Result<(), StartError> {
    if options.programs.is_some() {
        return Err(StartError::HandlersInCluster);
    }
    let ControllerOptions { snooping, memory, store, .. } = options;
    let alone = [
        (snooping.is_on(), "snooping on IGMP, MLD or DHCP"),
        (memory.state_file.is_some(), "a state file"),
        (memory.record.is_some(), "a recording"),
    ];
    if let Some((_, what)) = alone.into_iter().find(|(is_asked, _)| *is_asked) {
        return Err(StartError::AloneInCluster(what));
    }
    check_versions(store)
}

/// Checks that the policy has no later versions of tables: rows are made from those of an earlier version by one
/// controller, in one transaction.
///
/// # Errors
/// [`StartError::VersionsInCluster`] with such a table.
pub fn check_versions(store: &Store) -> Result<(), StartError> {
    store.versioned_table().map_or(Ok(()), |table| Err(StartError::VersionsInCluster(table)))
}

/// The contents of the state file, and the means to write it.
pub(super) struct EarlierRun {
    pub persistence: Option<Persistence>,
    pub known: Option<KnownSwitches>,
    pub archive: Option<Arc<Archive>>,
    /// The policy of the earlier run.
    pub policy_before: Option<PolicyRecord>,
    /// The history of changes. Those of earlier runs come into it when the file is read.
    pub history: Arc<ChangeHistory>,
    /// The epoch of this run.
    pub epoch: u16,
}

impl EarlierRun {
    /// Opens the state file, if there is one.
    ///
    /// # Errors
    /// [`StartError`] if the state file can't be used, or the system refuses random bytes.
    pub fn open(options: &ControllerOptions, now: Time) -> Result<EarlierRun, StartError> {
        if options.memory.for_standbys && options.openflow.in_cluster {
            return EarlierRun::for_standbys(options, now);
        }
        let Some((persistence, remembered)) = open_persistence(options)? else { return EarlierRun::none(None) };
        if !options.memory.remember || options.programs.is_some() {
            return EarlierRun::none(Some(persistence));
        }
        let RememberedRows { epoch, switches, policy } = remembered;
        let memory =
            EarlierRun::from_persistence(persistence, epoch, Restart::new(now, Arc::clone(&options.store), switches))?;
        Ok(EarlierRun { policy_before: policy, ..memory })
    }

    /// Creates a memory that has nothing of an earlier run.
    pub fn none(persistence: Option<Persistence>) -> Result<EarlierRun, StartError> {
        let epoch = u16::from_ne_bytes(random()?);
        let history = Arc::default();
        Ok(EarlierRun { persistence, known: None, archive: None, policy_before: None, history, epoch })
    }

    /// Creates a memory that has nothing of an earlier run, and is for standbys.
    fn for_standbys(options: &ControllerOptions, now: Time) -> Result<EarlierRun, StartError> {
        let memory = EarlierRun::none(None)?;
        let restart = Arc::new(Restart::new(now, Arc::clone(&options.store), BTreeMap::new()));
        let journal = Arc::new(LeafJournal::new(memory.epoch));
        Ok(EarlierRun { known: Some(KnownSwitches { restart, journal }), ..memory })
    }

    /// Creates a memory with what an earlier run has left, for a run with this epoch.
    pub fn from_persistence(
        mut persistence: Persistence,
        epoch: u16,
        restart: Restart,
    ) -> Result<EarlierRun, StartError> {
        let (restart, journal) = (Arc::new(restart), Arc::new(LeafJournal::new(epoch)));
        let history = Arc::<ChangeHistory>::default();
        let archive = persistence.remember(Arc::clone(&journal), Arc::clone(&restart), Arc::clone(&history))?;
        let (known, archive) = (Some(KnownSwitches { restart, journal }), Some(archive));
        Ok(EarlierRun { persistence: Some(persistence), known, archive, policy_before: None, history, epoch })
    }
}

/// A controller whose shards do not run yet, or that serves no clients yet.
pub(super) struct StartingController {
    pub controller: Controller,
    pub mailboxes: Vec<Mailbox>,
    options: ControllerOptions,
    snoop: Option<Listener>,
    common: ShardCommons,
    /// The poll and the inbox of each shard that does not run yet.
    shards: Vec<(Poll, Receiver<Vec<ShardMessage>>)>,
}

impl StartingController {
    /// Prepares a controller that will listen at these addresses, each with whether its connections begin with TLS.
    /// `former_key` is the probe key of the controller whose place it takes.
    ///
    /// # Errors
    /// [`StartError`] if the recording can't begin, or the system refuses a poll or random bytes.
    pub fn new(
        basics: CheckedOptions,
        listening: Vec<Endpoint>,
        clock: Clock,
        memory: EarlierRun,
        former_key: Option<Key>,
    ) -> Result<StartingController, StartError> {
        let CheckedOptions { mut options, subscriptions, snoop, workers, writes } = basics;
        let EarlierRun { persistence, known, archive, policy_before, history, epoch } = memory;
        options.store.log_writes_to(Arc::clone(&history) as Arc<dyn WriteLog>);
        options.engine.epoch = epoch;
        // The time of engines begins with the clock.
        options.engine.wall_clock = SystemTime::now() - Duration::from_nanos(clock.now().0);
        options.engine.stopwatch = clock.stopwatch();
        options.engine.remember |= known.is_some();
        let (recording, record) = begin_recording(&options, workers, &clock)?.unzip();
        let (notices, receiver) = Notices::new(Arc::clone(&options.names));
        if let Some(tls) = &options.openflow.tls {
            tls.report_to(&options.memory.files);
        }
        let publisher = notices.clone();
        options.memory.files.report_to(move |news| publisher.publish(Notice::File(news)));
        let (mut mailboxes, mut shards) = (Vec::new(), Vec::new());
        for _ in 0..workers {
            let poll = Poll::new()?;
            let (mailbox, inbox) = Mailbox::new(Arc::new(Waker::new(poll.registry(), WAKER)?));
            mailboxes.push(mailbox);
            shards.push((poll, inbox));
        }
        let (registry, key) = (Arc::new(Registry::new(workers)), Key::new()?);
        let http_tls = options.control.http.as_ref().and_then(|http| http.tls.clone());
        let tls = options.openflow.tls.clone();
        let shared = Shared {
            endpoints: Endpoints {
                switches: listening.iter().map(|endpoint| endpoint.address).collect(),
                ..Endpoints::default()
            },
            deadlines: options.control.deadlines,
            mailboxes: mailboxes.clone(),
            store: Arc::clone(&options.store),
            registry: Arc::clone(&registry),
            notices: notices.clone(),
            receiver,
            failure: OnceLock::new(),
            measures: Measures { heap_bytes: options.control.heap_bytes, gauges: Gauges::default() },
            kept: KeptMemory {
                files: options.memory.files.clone(),
                pending_writes: persistence.as_ref().map(Persistence::pending_writes),
                archive,
                policy_before,
                history,
                recording: recording.clone(),
            },
            reloads: ReloadQueue::default(),
            about: About::new(listening, tls, http_tls, options.memory.state_file.clone(), key),
            succession: Succession {
                takeover: TakeoverState::default(),
                role: options.openflow.in_cluster.then(Mutex::default),
                writes,
                // In a cluster there is nothing else to know switches from.
                shared_rows: known
                    .as_ref()
                    .filter(|_| options.openflow.in_cluster)
                    .map(|known| SharedRows::new(known.clone(), clock.clone()).map(Arc::new))
                    .transpose()?,
                cluster: OnceLock::new(),
            },
            map: Mutex::default(),
            timeline: OnceLock::new(),
        };
        let (handle, threads) = (Handle::new(shared), Vec::new());
        let controller = Controller {
            handle,
            threads,
            snooper: None,
            control: None,
            timeline: None,
            metrics: None,
            http: None,
            persistence,
            taken: 0,
            record,
        };
        let common = ShardCommons { clock, registry, key, former_key, notices, subscriptions, known, recording };
        Ok(StartingController { controller, mailboxes, options, snoop, common, shards })
    }

    /// Starts the shards. The first one accepts connections at these sockets.
    ///
    /// # Errors
    /// [`StartError`] if the system refuses a thread or random bytes.
    pub fn run_shards(&mut self, listeners: Vec<ListeningSocket>) -> Result<(), StartError> {
        let (mut listeners, period, shards) =
            (Some(listeners), self.options.workers.balance_period, self.mailboxes.len());
        let balancers = self.options.programs.as_ref().map(|programs| programs.balancers(shards, period));
        let mut balancers = balancers.unwrap_or_default().into_iter();
        for (id, (poll, inbox)) in std::mem::take(&mut self.shards).into_iter().enumerate() {
            let id = ShardId(id as u8);
            let io = io_parts(&self.options, poll, listeners.take().unwrap_or_default(), balancers.next());
            let outgoing = Outgoing::new(id, self.mailboxes.clone());
            let parts = self.common.parts(id, &self.options, io, inbox, outgoing)?;
            self.controller.threads.push(spawn(&self.options, self.controller.handle.clone(), parts)?);
        }
        Ok(())
    }

    /// Returns the options.
    pub fn options(&self) -> &ControllerOptions {
        &self.options
    }

    /// Returns the shard with the fewest connections, and counts one more for it.
    pub fn assign(&self) -> ShardId {
        self.common.registry.assign()
    }

    /// Opens the control socket, the metrics and the HTTP API, starts snooping, and returns the controller.
    ///
    /// # Errors
    /// [`StartError`] if the control socket can't be opened, metrics can't be exported, the HTTP API can't be served,
    /// or the system refuses a thread.
    pub fn serve_clients(self) -> Result<Controller, StartError> {
        let StartingController { mut controller, options, snoop, common, .. } = self;
        if let Some(listener) = snoop {
            let thread = spawn_snooper(&options, listener, common.clock.clone(), controller.handle.clone())?;
            controller.snooper = Some(thread);
        }
        let clock = common.clock.clone();
        // This drops a sender of the listeners' queues, so that the shards' end closes these queues.
        drop(common);
        if options.control.socket.is_some() || options.control.http.is_some() {
            let state_file = options.memory.state_file.as_deref();
            let grace = options.openflow.forget_switch_after.unwrap_or(FORGET_SWITCH_AFTER);
            let timeline = TimelineWriter::begin(&controller.handle, clock, state_file, grace)?;
            controller.timeline = Some(timeline);
        }
        if let Some(path) = options.control.socket {
            let socket = ControlSocket::open(&path, controller.handle.clone());
            controller.control = Some(socket.map_err(|error| StartError::Control { path, error })?);
        }
        controller.handle.operations().register_gauge(files_gauge(options.memory.files.clone()));
        if let Some(count) = options.control.heap_bytes {
            controller.handle.operations().register_gauge(heap_gauge(count));
        }
        if let Some(tls) = options.openflow.tls.clone() {
            let meaning = "When the controller's certificate expires, in seconds since 1970. Only with TLS.";
            controller.handle.operations().register_gauge(expiry_gauge(
                "maple_certificate_expires_seconds",
                meaning,
                tls,
            ));
        }
        if let Some(tls) = options.control.http.as_ref().and_then(|http| http.tls.clone()) {
            let meaning = "When the certificate of the HTTP API expires, in seconds since 1970. Only with --http-cert.";
            controller.handle.operations().register_gauge(expiry_gauge(
                "maple_http_certificate_expires_seconds",
                meaning,
                tls,
            ));
        }
        let scrape = scrape(controller.handle.clone());
        if let Some(address) = options.control.metrics {
            let server = MetricsServer::open(address, Arc::clone(&scrape));
            let server = server.map_err(|error| StartError::Metrics { address, error })?;
            controller.handle.exports_metrics_at(server.address());
            controller.metrics = Some(server);
        }
        if let Some(http) = options.control.http {
            let (address, has_tls) = (http.address, http.tls.is_some());
            let server = HttpServer::open(http, controller.handle.clone(), scrape);
            let server = server.map_err(|error| StartError::Http { address, error })?;
            controller.handle.serves_http_at(server.address(), has_tls);
            controller.http = Some(server);
        }
        Ok(controller)
    }
}

/// The parts that all shards share.
struct ShardCommons {
    clock: Clock,
    registry: Arc<Registry>,
    /// The key of this controller's probes.
    key: Key,
    /// The key of the probes of the controller whose place this one takes.
    former_key: Option<Key>,
    notices: Notices,
    subscriptions: Subscriptions,
    known: Option<KnownSwitches>,
    recording: Option<Recording>,
}

impl ShardCommons {
    /// Builds the parts of one shard.
    fn parts(
        &self,
        id: ShardId,
        options: &ControllerOptions,
        io: IoParts,
        inbox: crossbeam_channel::Receiver<Vec<ShardMessage>>,
        outgoing: Outgoing,
    ) -> io::Result<ShardParts> {
        let (clock, registry, notices) = (self.clock.clone(), Arc::clone(&self.registry), self.notices.clone());
        let ctx = Context::new(id, clock, registry, inbox, outgoing, notices);
        Ok(ShardParts {
            ctx: ctx.in_cluster(options.openflow.in_cluster),
            io,
            tls: options.openflow.tls.clone(),
            discovery: Discovery::new(self.key, options.openflow.timing, u64::from_le_bytes(random()?))
                .in_place_of(self.former_key)
                .without(options.engine.middleboxes.clone())
                .with_facts(Arc::clone(&options.engine.facts)),
            subscriptions: self.subscriptions.clone(),
            forget_after: options.openflow.forget_switch_after,
            known: self.known.clone(),
            recorder: self.recording.as_ref().map(|recording| recording.shard(id)),
        })
    }
}

/// Builds what the sockets of a shard need, which accepts connections at these listening sockets.
fn io_parts(
    options: &ControllerOptions,
    poll: Poll,
    listeners: Vec<ListeningSocket>,
    balancer: Option<Box<dyn Balancer>>,
) -> IoParts {
    let OpenFlowOptions { deadlines, limits, write_each, .. } = options.openflow;
    IoParts { poll, deadlines, limits, listeners, programs: options.programs.clone(), write_each, balancer }
}

/// Returns the metric of the heap's bytes, if the process counts them.
fn heap_gauge(count: fn() -> Option<usize>) -> Gauge {
    let meaning = "Bytes of the heap in use. Only with --count-heap.";
    Gauge::new("maple_heap_bytes", meaning, move || count().map(|bytes| bytes as f64))
}

/// Returns the metric of the files that can't be kept.
fn files_gauge(files: KeptFiles) -> Gauge {
    let meaning = "1 if the file can't be kept now, otherwise 0: the state file, the recording, the log, the file of \
                   switches, the certificates, the control socket, the tokens, the timeline. No row for files that there are not.";
    let one = |status: FileStatus| (status.file.name().to_owned(), f64::from(u8::from(status.trouble.is_some())));
    let read = move || files.all().into_iter().map(one).collect();
    Gauge { name: "maple_file_failed", meaning, label: Some("file"), read: Box::new(read) }
}

/// Returns the metric of a certificate's expiry.
fn expiry_gauge(name: &'static str, meaning: &'static str, tls: Arc<Tls>) -> Gauge {
    let seconds = move || tls.expires().duration_since(SystemTime::UNIX_EPOCH).ok().map(|since| since.as_secs_f64());
    Gauge::new(name, meaning, seconds)
}

/// Returns the sockets to listen on: those that another process has handed over, each with whether its connections
/// begin with TLS, or new ones.
pub(super) fn listeners(
    options: &ControllerOptions,
    taken: Vec<HandedListener>,
) -> Result<Vec<ListeningSocket>, StartError> {
    let certificates = |address: SocketAddr, has_tls: bool| match (has_tls, &options.openflow.tls) {
        (false, _) => Ok(None),
        (true, Some(tls)) => Ok(Some(Arc::clone(tls))),
        (true, None) => Err(StartError::NoCertificate(address)),
    };
    if taken.is_empty() {
        let plain = options.openflow.listen.iter().map(|address| (*address, false));
        let all = plain.chain(options.openflow.listen_tls.iter().map(|address| (*address, true)));
        let new = |(address, has_tls)| {
            Ok(ListeningSocket { listener: listen(address)?, tls: certificates(address, has_tls)? })
        };
        return all.map(new).collect();
    }
    if options.openflow.tls.is_some() && !taken.iter().any(|listener| listener.has_tls) {
        return Err(StartError::NoSocketWithTls);
    }
    let taken = taken.into_iter().map(|HandedListener { socket, has_tls }| {
        socket.set_nonblocking(true)?;
        let tls = certificates(socket.local_addr()?, has_tls)?;
        Ok(ListeningSocket { listener: TcpListener::from_std(socket), tls })
    });
    taken.collect()
}

/// Begins the recording, if there is to be one.
fn begin_recording(
    options: &ControllerOptions,
    shards: usize,
    clock: &Clock,
) -> Result<Option<(Recording, RecordWriter)>, StartError> {
    let Some(to) = &options.memory.record else { return Ok(None) };
    if options.programs.is_some() {
        return Err(StartError::RecordedHandlers);
    }
    let ControllerOptions { engine, store, policy, memory, .. } = options;
    Ok(Some(Recording::begin(to, shards, engine, store, policy, clock.clone(), &memory.files)?))
}

/// Opens the state file, if there is persistent state.
fn open_persistence(options: &ControllerOptions) -> Result<Option<(Persistence, RememberedRows)>, PersistenceError> {
    match (&options.memory.state_file, options.store.kept().first()) {
        (Some(path), _) => Persistence::open(path, &options.store, &options.memory.files).map(Some),
        (None, Some(name)) => Err(PersistenceError::NoFile(name.to_string())),
        (None, None) => Ok(None),
    }
}

/// Declares the tables of snooping, and subscribes to the packets that it needs.
fn subscribe_snooper(options: &mut ControllerOptions) -> Result<Listener, StartError> {
    // No shard runs yet, so the commits need no distribution.
    drop(options.snooping.declare(&options.store)?);
    if options.snooping.on_leases() && options.memory.state_file.is_some() {
        options.store.keep(LEASES);
    }
    let (subscription, listener) = subscribe(options.snooping.conditions())?;
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
        let work = AssertUnwindSafe(|| super::snooping::run(snooper, &listener, &clock, &handle));
        if std::panic::catch_unwind(work).is_err() {
            let failure = "snooping panicked".to_owned();
            tracing::error!("{failure}; the controller stops");
            handle.fail(failure);
        }
    })
}

/// Starts a shard's thread, which makes the engine: an engine never leaves its thread. If a shard fails, the controller
/// stops: otherwise some of its switches would silently be without service.
fn spawn(options: &ControllerOptions, handle: Handle, parts: ShardParts) -> io::Result<JoinHandle<()>> {
    let id = parts.ctx.id;
    let selected = if options.workers.cores.is_empty() {
        cores()
    } else {
        options.workers.cores.iter().map(|id| CoreId { id: *id }).collect()
    };
    let core = if options.workers.pin { selected.into_iter().cycle().nth(usize::from(id.0)) } else { None };
    let (store, policy, options, programs) =
        (Arc::clone(handle.store()), Arc::clone(&options.policy), options.engine.clone(), options.programs.clone());
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
            let failure = failure + &handle.operations().recording().map(Recording::crash_text).unwrap_or_default();
            tracing::error!("{failure}; the controller stops");
            handle.fail(failure);
        });
        let mut worker = || {
            if let Some(work) = work.take() {
                work();
            }
        };
        match programs {
            Some(programs) => programs.on_thread(&mut worker),
            None => policy.on_thread(&mut worker),
        }
    })
}

/// Returns the cores that this process may use.
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
        socket.listen(BACKLOG.into())?;
        Ok(TcpListener::from_std(socket.into()))
    };
    open().map_err(|error| StartError::Listen { address, error })
}
