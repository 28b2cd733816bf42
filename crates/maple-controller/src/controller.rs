//! Starting and stopping: options in, running shards out.

use std::io;
use std::net::SocketAddr;
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
use maple_core::state::{DeclareError, Store};
use mio::net::TcpListener;
use mio::{Poll, Waker};

use crate::control::socket::ControlSocket;
use crate::control::{Handle, Shared};
use crate::discovery::{Discovery, Key, Timing};
use crate::handler::HandlerFactory;
use crate::keeper::{KeepError, Keeper};
use crate::listen::{Audience, Listener, Listening, TooManyConditions, listen as listen_for};
use crate::notice::Notices;
use crate::random::random;
use crate::session::Deadlines;
use crate::shard::post::{Letter, Mailbox, Post};
use crate::shard::registry::Registry;
use crate::shard::{Parts, QueueLimits, Shard, WAKER};
use crate::snoop::{self, Snooper, Snooping};
use crate::time::Clock;

/// Most shards: a shard's number takes 8 bits of a leaf's id.
const MAX_WORKERS: usize = 255;
/// How many connections may wait to be accepted.
const BACKLOG: i32 = 4096;
/// The port that IANA gave to OpenFlow.
pub const OPENFLOW_PORT: u16 = 6653;

/// What can be chosen.
#[derive(Clone)]
pub struct ControllerOptions {
    /// Where to listen. Port 0 takes any free port; [`Handle::addresses`] tells which.
    pub listen: Vec<SocketAddr>,
    /// How many shards; 0 is one for each core.
    pub workers: usize,
    /// Whether each shard stays on a core of its own.
    pub pin: bool,
    /// The cores that shards stay on, the first shard on the first of them and so on around; empty is all that this
    /// process may use. Needs `pin`.
    pub cores: Vec<usize>,
    /// The user's f.
    pub policy: Arc<dyn Policy>,
    /// Who hears what happens beside the policy.
    pub listening: Vec<Listening>,
    /// What is snooped on, for policies to ask. Handlers hear all packets themselves: with them it is left out.
    pub snooping: Snooping,
    /// What serves the switches instead of the policy.
    pub handlers: Option<Arc<dyn HandlerFactory>>,
    /// Whether each answer of a handler is written by itself, and not together with all others to what one read brought:
    /// only to measure what that costs.
    pub write_each: bool,
    /// How often shards compare how busy they were. One that was nearly always busy three times on end while another had
    /// time left gives it a switch, if handlers serve them. Zero: switches stay where they are.
    pub balance: Duration,
    /// The state that it works on; what was written to it before the start holds from the start.
    pub store: Arc<Store>,
    /// The engine's options. Its epoch is drawn anew at the start.
    pub engine: Options,
    /// How long sessions wait for what.
    pub deadlines: Deadlines,
    /// How much may wait for a switch that does not read.
    pub limits: QueueLimits,
    /// How often probes go out.
    pub timing: Timing,
    /// Where to put the Unix socket of `maple show`; none if `None`.
    pub control: Option<PathBuf>,
    /// The file that keeps what [`Store::keep`] says over a restart.
    pub state_file: Option<PathBuf>,
}

impl ControllerOptions {
    /// The defaults for this policy: all addresses, port 6653, a shard for each core, no control socket.
    pub fn new(policy: Arc<dyn Policy>) -> ControllerOptions {
        ControllerOptions {
            listen: vec![SocketAddr::from(([0, 0, 0, 0], OPENFLOW_PORT))],
            workers: 0,
            pin: true,
            cores: Vec::new(),
            policy,
            listening: Vec::new(),
            snooping: Snooping::default(),
            handlers: None,
            write_each: false,
            balance: Duration::from_secs(1),
            store: Store::new(),
            engine: Options::default(),
            deadlines: Deadlines::default(),
            limits: QueueLimits::default(),
            timing: Timing::default(),
            control: None,
            state_file: None,
        }
    }

    /// The defaults for handlers: switches are served by what this factory makes, and by no policy.
    pub fn for_handlers(factory: Arc<dyn HandlerFactory>) -> ControllerOptions {
        let nothing = |_: &PacketHandle, _: &Net| Route::drop();
        ControllerOptions { handlers: Some(factory), ..ControllerOptions::new(Arc::new(nothing)) }
    }
}

/// Why a controller can't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address can't be listened on.
    #[error("can't listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// The control socket can't be made.
    #[error("can't make the control socket {path}: {error}")]
    Control {
        /// Its path.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// State can't be kept over a restart.
    #[error(transparent)]
    Keep(#[from] KeepError),
    /// Listeners and snooping ask for more kinds of packets than there can be.
    #[error(transparent)]
    Conditions(#[from] TooManyConditions),
    /// The policy has a table that snooping writes.
    #[error("snooping: {0}")]
    Snooping(#[from] DeclareError),
    /// More shards than there can be.
    #[error("{0} workers are more than {MAX_WORKERS}")]
    TooManyWorkers(usize),
    /// A core that this process may not use.
    #[error("there is no core {0} for a worker to stay on; there are {1:?}")]
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
    keeper: Option<Keeper>,
}

impl Controller {
    /// Listens, starts the shards, and returns.
    ///
    /// # Errors
    /// [`StartError`] if an address is taken or the system refuses a thread or descriptor; nothing runs then.
    pub fn start(mut options: ControllerOptions) -> Result<Controller, StartError> {
        options.engine.epoch = u16::from_ne_bytes(random()?);
        let snoops = options.snooping.is_on() && options.handlers.is_none();
        let listener = if snoops { Some(listen_to_snoop(&mut options)?) } else { None };
        let audience = Audience::new(std::mem::take(&mut options.listening))?;
        options.engine.listener_filters = Arc::clone(audience.heard());
        let workers = if options.workers == 0 { cores().len().clamp(1, MAX_WORKERS) } else { options.workers };
        if workers > MAX_WORKERS {
            return Err(StartError::TooManyWorkers(workers));
        }
        if let Some(missing) = options.cores.iter().find(|id| !cores().iter().any(|core| core.id == **id)) {
            return Err(StartError::NoCore(*missing, cores().iter().map(|core| core.id).collect()));
        }
        let listeners = options.listen.iter().map(|address| listen(*address)).collect::<Result<Vec<_>, _>>()?;
        let addresses = listeners.iter().map(TcpListener::local_addr).collect::<io::Result<Vec<_>>>()?;
        let keeper = keeper(&options)?;
        let (notices, receiver) = Notices::new();
        let ground = Ground {
            clock: Clock::start(),
            registry: Arc::new(Registry::new(workers)),
            store: Arc::clone(&options.store),
            key: Key(random()?),
            notices,
            audience,
        };
        let polls = (0..workers).map(|_| Poll::new()).collect::<io::Result<Vec<_>>>()?;
        let mut boxes = Vec::new();
        let mut inboxes = Vec::new();
        for poll in &polls {
            let (mailbox, inbox) = Mailbox::new(Arc::new(Waker::new(poll.registry(), WAKER)?));
            boxes.push(mailbox);
            inboxes.push(inbox);
        }
        let shared = Shared {
            addresses,
            boxes: boxes.clone(),
            store: Arc::clone(&ground.store),
            registry: Arc::clone(&ground.registry),
            notices: ground.notices.clone(),
            receiver,
            failure: OnceLock::new(),
            kept: keeper.as_ref().map(Keeper::notes),
        };
        let mut controller = Controller { handle: Handle::new(shared), threads: Vec::new(), control: None, keeper };
        let mut listeners = Some(listeners);
        for (id, (poll, inbox)) in polls.into_iter().zip(inboxes).enumerate() {
            let id = ShardId(id as u8);
            let listeners = listeners.take().unwrap_or_default();
            let parts = ground.parts(id, &options, poll, inbox, Post::new(id, boxes.clone()), listeners)?;
            controller.threads.push(spawn(&options, controller.handle.clone(), parts)?);
        }
        if let Some(listener) = listener {
            let thread = snoop(&options, listener, ground.clock.clone(), controller.handle.clone())?;
            controller.threads.push(thread);
        }
        // Else the shards' end would not be the end of what the listeners hear.
        drop(ground);
        if let Some(path) = options.control {
            let socket = ControlSocket::open(&path, controller.handle.clone());
            controller.control = Some(socket.map_err(|error| StartError::Control { path, error })?);
        }
        Ok(controller)
    }

    /// Asks and tells a running controller.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Waits until it has stopped: until somebody calls [`Handle::stop`], or it can't go on. Rules stay in the switches.
    ///
    /// # Errors
    /// [`Stopped`] if it stopped by itself.
    pub fn wait(mut self) -> Result<(), Stopped> {
        self.join();
        self.end();
        self.handle.failure().map_or(Ok(()), |why| Err(Stopped(why.into())))
    }

    /// Closes all connections and waits until every thread has ended. Rules stay in the switches.
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
        self.join();
        // Behind the shards' last commits.
        self.keeper.take();
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.end();
    }
}

/// What all shards share.
struct Ground {
    clock: Clock,
    registry: Arc<Registry>,
    store: Arc<Store>,
    key: Key,
    notices: Notices,
    audience: Audience,
}

impl Ground {
    /// What one shard needs, but its engine.
    fn parts(
        &self,
        id: ShardId,
        options: &ControllerOptions,
        poll: Poll,
        inbox: crossbeam_channel::Receiver<Vec<Letter>>,
        post: Post,
        listeners: Vec<TcpListener>,
    ) -> io::Result<Parts> {
        Ok(Parts {
            id,
            poll,
            clock: self.clock.clone(),
            deadlines: options.deadlines,
            limits: options.limits,
            listeners,
            registry: Arc::clone(&self.registry),
            inbox,
            post,
            discovery: Discovery::new(self.key, options.timing, u64::from_le_bytes(random()?))
                .without(options.engine.middleboxes.clone()),
            notices: self.notices.clone(),
            listening: self.audience.clone(),
            handlers: options.handlers.clone(),
            write_each: options.write_each,
            balance: options.balance,
        })
    }
}

/// What keeps state over a restart, if any is to be kept.
fn keeper(options: &ControllerOptions) -> Result<Option<Keeper>, KeepError> {
    match (&options.state_file, options.store.kept().first()) {
        (Some(path), _) => Keeper::open(path, &options.store).map(Some),
        (None, Some(name)) => Err(KeepError::Where(name.to_string())),
        (None, None) => Ok(None),
    }
}

/// Has packets that are snooped on heard of.
fn listen_to_snoop(options: &mut ControllerOptions) -> Result<Listener, StartError> {
    // Nobody reads yet, so nobody has to be told.
    drop(options.snooping.declare(&options.store)?);
    if options.snooping.on_leases() && options.state_file.is_some() {
        options.store.keep(LEASES);
    }
    let (listening, listener) = listen_for(options.snooping.heard())?;
    options.listening.push(listening);
    Ok(listener)
}

/// Starts the thread that snoops, which ends after the last shard. A controller whose groups stand still would look alive, so
/// it stops if that fails.
fn snoop(options: &ControllerOptions, listener: Listener, clock: Clock, handle: Handle) -> io::Result<JoinHandle<()>> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let epoch = since.saturating_sub(Duration::from_nanos(clock.now().0));
    let snooper = Snooper::new(options.snooping.clone(), epoch, &options.store.snapshot());
    std::thread::Builder::new().name("snoop".into()).spawn(move || {
        let work = AssertUnwindSafe(|| snoop::run(snooper, &listener, &clock, &handle));
        if std::panic::catch_unwind(work).is_err() {
            let failure = "snooping panicked".to_owned();
            tracing::error!("{failure}; the controller stops");
            handle.fail(failure);
        }
    })
}

/// Starts a shard's thread. The engine is made there: it never leaves its thread. A shard that fails stops the others
/// too: a controller that serves some of its switches would look alive.
fn spawn(options: &ControllerOptions, handle: Handle, parts: Parts) -> io::Result<JoinHandle<()>> {
    let id = parts.id;
    let chosen =
        if options.cores.is_empty() { cores() } else { options.cores.iter().map(|id| CoreId { id: *id }).collect() };
    let core = if options.pin { chosen.into_iter().cycle().nth(usize::from(id.0)) } else { None };
    let (store, policy, options, handlers) =
        (Arc::clone(handle.store()), Arc::clone(&options.policy), options.engine.clone(), options.handlers.clone());
    std::thread::Builder::new().name(format!("shard-{}", id.0)).spawn(move || {
        if let Some(core) = core
            && !core_affinity::set_for_current(core)
        {
            tracing::warn!(shard = id.0, core = core.id, "can't stay on one core");
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

/// A listening socket that can be used again at once after a restart.
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
