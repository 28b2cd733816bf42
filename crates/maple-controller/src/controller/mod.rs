//! Starts and stops the controller.

mod change_process;
mod snooping;
mod start;

use std::fmt;
use std::io;
use std::net::{self, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use maple_core::engine::{LOOK_UP_TABLES, Options};
use maple_core::policy::{Net, PacketHandle, Policy};
use maple_core::route::Route;
use maple_core::state::{DeclareError, Store, VersionError};

use self::start::{CheckedOptions, EarlierRun, StartingController, listeners};
use crate::control::socket::ControlSocket;
use crate::control::{Handle, ShardDeadlines};
use crate::discovery::Timing;
use crate::kept_files::KeptFiles;
use crate::listen::{Subscription, TooManyConditions};
use crate::memory::record::{RecordOptions, RecordingError, Writer as RecordWriter};
use crate::memory::{Persistence, PersistenceError};
use crate::metrics::MetricsServer;
use crate::names::Names;
use crate::program::ProgramFactory;
use crate::session::Deadlines;
use crate::shard::{FORGET_SWITCH_AFTER, ListeningSocket, QueueLimits};
use crate::snoop::Snooping;
use crate::time::Clock;
use crate::tls::Tls;

/// Maximum number of shards: a shard's number takes 8 bits of a leaf's id.
const MAX_WORKERS: usize = 255;
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
    /// The protocols that are snooped on, for policies. Ignored with programs, which receive all packets themselves.
    pub snooping: Snooping,
    /// The programs that serve the switches in the place of the policy, such as handlers.
    pub programs: Option<Arc<dyn ProgramFactory>>,
    /// Whether each answer of a program is written separately, instead of together with all answers to one read. This
    /// is slower, but delivers the first answer earlier.
    pub write_each: bool,
    /// The period at which shards compare their loads. With programs, a shard that is overloaded three times in a row
    /// gives a switch to one that is not. With zero, switches never migrate.
    pub balance_period: Duration,
    /// How long a switch without a connection is kept, with its links, hosts and rules; `None`: without limit. With
    /// zero, a switch is forgotten as soon as its connection ends. A switch that the configuration names is kept in any
    /// other case.
    pub forget_switch_after: Option<Duration>,
    /// The tracked state. Writes before the start are effective from the start.
    pub store: Arc<Store>,
    /// The engine's options. The epoch is overwritten by a random one at the start.
    pub engine: Options,
    /// The time limits of sessions.
    pub deadlines: Deadlines,
    /// How long queries, writes and reloads wait for the shards.
    pub shard_deadlines: ShardDeadlines,
    /// The limits of output that waits for a switch.
    pub limits: QueueLimits,
    /// The timing of discovery's probes.
    pub timing: Timing,
    /// The path of the Unix socket of `maple show`, if there should be one.
    pub control: Option<PathBuf>,
    /// The file for the state that [`Store::keep`] marks as persistent.
    pub state_file: Option<PathBuf>,
    /// Whether the state file also keeps switches and leaves for the next run. This is for networks that still exist
    /// then.
    pub remember: bool,
    /// The names of switches and hosts, for texts that people read.
    pub names: Arc<Names>,
    /// The address where Prometheus finds metrics, if they are to be exported: `http://ADDRESS/metrics`.
    pub metrics: Option<SocketAddr>,
    /// A function that returns the bytes that the process has allocated, if it counts them. Shown in [`Handle::stats`].
    pub heap_bytes: Option<fn() -> Option<usize>>,
    /// The recording of the run, if there should be one. Only runs of policies can be recorded.
    pub record: Option<RecordOptions>,
    /// The record of the files that are kept, and of those that fail.
    pub files: KeptFiles,
}

impl fmt::Debug for ControllerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerOptions")
            .field("listen", &self.listen)
            .field("listen_tls", &self.listen_tls)
            .field("workers", &self.workers)
            .field("snooping", &self.snooping)
            .field("engine", &self.engine)
            .field("control", &self.control)
            .field("state_file", &self.state_file)
            .field("metrics", &self.metrics)
            .finish_non_exhaustive()
    }
}

impl ControllerOptions {
    /// Returns the defaults for a policy: all addresses, port 6653, a shard for each core, no control socket.
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
            programs: None,
            write_each: false,
            balance_period: Duration::from_secs(1),
            forget_switch_after: Some(FORGET_SWITCH_AFTER),
            store: Store::new(),
            engine: Options { look_up_tables: LOOK_UP_TABLES, ..Options::default() },
            deadlines: Deadlines::default(),
            shard_deadlines: ShardDeadlines::default(),
            limits: QueueLimits::default(),
            timing: Timing::default(),
            control: None,
            state_file: None,
            remember: true,
            names: Arc::default(),
            metrics: None,
            heap_bytes: None,
            record: None,
            files: KeptFiles::default(),
        }
    }

    /// Returns the defaults for programs, which serve switches in the place of a policy.
    pub fn for_programs(programs: Arc<dyn ProgramFactory>) -> ControllerOptions {
        let nothing = |_: &PacketHandle, _: &Net| Route::drop();
        ControllerOptions { programs: Some(programs), ..ControllerOptions::new(Arc::new(nothing)) }
    }
}

/// Suggests a cause for an address that can't be listened on.
fn another(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::AddrInUse { "; does another controller run there?" } else { "" }
}

/// The reason why a controller cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// An address can't be listened on.
    #[error("can't listen on {address}: {error}{}", another(error))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// An address is to be listened on with TLS, but there is no certificate.
    #[error("{0} is to be listened on with TLS, which needs a certificate and its key")]
    NoCertificate(SocketAddr),
    /// TLS is on, but no socket that was handed over begins with it.
    #[error(
        "none of the sockets that were handed over begins with TLS; one of systemd does so with FileDescriptorName=tls"
    )]
    NoSocketWithTls,
    /// The control socket can't be created.
    #[error("can't make the control socket {path}: {error}")]
    Control {
        /// The path of the control socket.
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
    /// Tracked state can't be kept over restarts.
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
    /// The run can't be recorded.
    #[error("can't record: {0}")]
    Recording(#[from] RecordingError),
    /// A run of handlers is to be recorded, but handlers do what they like with packets and time.
    #[error("a run of handlers can't be recorded: what they do depends on more than a recording has")]
    RecordedHandlers,
    /// The number of shards is too large.
    #[error("there can be at most {MAX_WORKERS} workers, not {0}")]
    TooManyWorkers(usize),
    /// A core is selected that this process may not use.
    #[error("core {0} is not available; available cores are {1:?}")]
    NoCore(usize, Vec<usize>),
    /// Another controller keeps its state elsewhere, so this one can't take over from it.
    #[error(
        "the controller that runs keeps its state in {theirs}, and this one is to keep it in {ours}: a take-over needs the \
         same file; the other one goes on"
    )]
    OtherStateFile {
        /// The state file of this controller.
        ours: PathBuf,
        /// The state file of the other controller.
        theirs: PathBuf,
    },
    /// The other controller hands nothing over.
    #[error("the controller that runs hands nothing over: {0}")]
    TakeOver(io::Error),
    /// The system refused something else.
    #[error("can't start: {0}")]
    System(#[from] io::Error),
}

/// The reason why a controller stopped by itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Stopped(pub String);

/// A running controller. Dropping it stops it.
pub struct Controller {
    handle: Handle,
    threads: Vec<JoinHandle<()>>,
    snooper: Option<JoinHandle<()>>,
    control: Option<ControlSocket>,
    metrics: Option<MetricsServer>,
    persistence: Option<Persistence>,
    /// The number of connections that were taken over.
    taken: usize,
    record: Option<RecordWriter>,
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller").field("handle", &self.handle).finish_non_exhaustive()
    }
}

impl Controller {
    /// Listens, starts the shards, and returns.
    ///
    /// # Errors
    /// [`StartError`] if an address is taken or the system refuses a thread or descriptor; nothing runs then.
    pub fn start(options: ControllerOptions) -> Result<Controller, StartError> {
        Controller::start_on(options, Vec::new())
    }

    /// Starts a controller on these listening sockets, each with whether its connections begin with TLS. They take the
    /// place of [`ControllerOptions::listen`], unless there are none.
    ///
    /// # Errors
    /// [`StartError`], as [`Controller::start`]; also if TLS is on and no socket begins with it.
    pub fn start_on(
        options: ControllerOptions,
        inherited: Vec<(net::TcpListener, bool)>,
    ) -> Result<Controller, StartError> {
        let basics = CheckedOptions::new(options)?;
        let listeners = listeners(&basics.options, inherited)?;
        let address = |one: &ListeningSocket| Ok((one.listener.local_addr()?, one.tls.is_some()));
        let listening = listeners.iter().map(address).collect::<io::Result<Vec<_>>>()?;
        let clock = Clock::start();
        let memory = EarlierRun::open(&basics.options, clock.now())?;
        // No shard runs yet, so the commit needs no distribution.
        drop(basics.options.store.adopt_versions(false)?);
        let mut starting = StartingController::new(basics, listening, clock, memory, None)?;
        starting.run_shards(listeners)?;
        starting.serve_clients()
    }

    /// Returns the number of connections that it took over from another controller.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Returns a handle, which queries and controls the running controller.
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
        if let Some(snooper) = self.snooper.take()
            && snooper.join().is_err()
        {
            tracing::error!("snooping panicked");
        }
    }

    fn end(&mut self) {
        self.handle.stop();
        self.control.take();
        self.metrics.take();
        self.join();
        // The state file and the recording end after the shards, so that they have the last commits and turns.
        self.persistence.take();
        self.record.take();
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.end();
    }
}
