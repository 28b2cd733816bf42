//! Starts and stops the controller.

mod change_process;
mod options;
mod snooping;
mod start;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread::JoinHandle;

use maple_core::engine::ShardId;
use maple_core::state::{DeclareError, Name, VersionError};

pub use self::options::{ControlOptions, ControllerOptions, MemoryOptions, OpenFlowOptions, WorkerOptions};
pub use self::start::check_versions;
use self::start::{CheckedOptions, EarlierRun, StartingController, listeners};
use crate::control::socket::ControlSocket;
use crate::control::{Handle, HttpError, HttpServer, MetricsServer, Stopped, TimelineWriter};
use crate::endpoint::{Endpoint, HandedListener};
use crate::listener::TooManyConditions;
use crate::shard::ListeningSocket;
use crate::storage::record::{RecordWriter, RecordingError};
use crate::storage::{Persistence, PersistenceError};
use crate::time::Clock;

/// The maximum number of connections that wait to be accepted: Linux allows no more by default (`net.core.somaxconn`).
pub const BACKLOG: u16 = 4096;
/// The maximum number of workers: each runs a shard.
const MAX_WORKERS: usize = ShardId::MAX_COUNT;
/// Suggests a cause for an address that can't be listened on.
fn hint_for(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::AddrInUse { "; does another controller run there?" } else { "" }
}

/// The reason why a controller cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// An address can't be listened on.
    #[error("can't listen on {address}: {error}{}", hint_for(error))]
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
    /// The HTTP API can't be served.
    #[error("can't serve the HTTP API at {address}: {error}")]
    Http {
        /// The address.
        address: SocketAddr,
        /// The reason.
        error: HttpError,
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
    /// A table or a variable is declared with other types than before, or has contents of other types.
    #[error(transparent)]
    Declaration(DeclareError),
    /// A store was chosen after state had been declared or written, which the store does not have.
    #[error("a program's store has to be chosen before it declares or writes state")]
    LateStore,
    /// The rows of a table cannot be brought to the policy's version of it.
    #[error(transparent)]
    Version(#[from] VersionError),
    /// The run can't be recorded.
    #[error("can't record: {0}")]
    Recording(#[from] RecordingError),
    /// A run of handlers is to be recorded, but handlers do what they like with packets and time.
    #[error("a run of handlers can't be recorded: what they do depends on more than a recording has")]
    RecordedHandlers,
    /// Handlers are to serve switches in a cluster.
    #[error(
        "handlers can't serve switches that have several controllers: what they do depends on more than their switch"
    )]
    HandlersInCluster,
    /// A policy of a cluster has a later version of a table.
    #[error(
        "the table {0} has versions, and in a cluster there is no transaction in which rows of another version are made: \
         give the table another name, and copy its rows"
    )]
    VersionsInCluster(Name),
    /// A controller of a cluster is to do something that is for one controller alone.
    #[error(
        "{0}: not for a controller that is one of several, since another one that becomes master would not have it"
    )]
    AloneInCluster(&'static str),
    /// A controller is to take the place of another process, and one of them is one of several.
    #[error(
        "a controller that is one of several takes over from no process: end the other one, and another controller becomes \
         master meanwhile"
    )]
    TakeOverInCluster,
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

/// A running controller. Dropping it stops it.
pub struct Controller {
    handle: Handle,
    threads: Vec<JoinHandle<()>>,
    snooper: Option<JoinHandle<()>>,
    control: Option<ControlSocket>,
    timeline: Option<TimelineWriter>,
    metrics: Option<MetricsServer>,
    http: Option<HttpServer>,
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

    /// Starts a controller on these listening sockets. They take the place of [`OpenFlowOptions::listen`], unless there
    /// are none.
    ///
    /// # Errors
    /// [`StartError`], as [`Controller::start`]; also if TLS is on and no socket begins with it.
    pub fn start_on(options: ControllerOptions, inherited: Vec<HandedListener>) -> Result<Controller, StartError> {
        let basics = CheckedOptions::new(options)?;
        let listeners = listeners(&basics.options, inherited)?;
        let endpoint =
            |one: &ListeningSocket| Ok(Endpoint { address: one.listener.local_addr()?, has_tls: one.tls.is_some() });
        let listening = listeners.iter().map(endpoint).collect::<io::Result<Vec<_>>>()?;
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
        // Before the connections end: the end of a controller does not change the network.
        self.timeline.take();
        self.handle.stop();
        self.control.take();
        self.metrics.take();
        self.http.take();
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
