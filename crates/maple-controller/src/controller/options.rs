//! The options of a controller, in groups. Each group has defaults, which its fields name.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::{LOOK_UP_TABLES, Options};
use maple_core::policy::{Net, PacketHandle, Policy};
use maple_core::route::Route;
use maple_core::state::Store;

use crate::control::{HttpOptions, ShardDeadlines};
use crate::discovery::Timing;
use crate::kept_files::KeptFiles;
use crate::listener::Subscription;
use crate::names::Names;
use crate::program::ProgramFactory;
use crate::session::{Deadlines, OPENFLOW_PORT};
use crate::shard::{FORGET_SWITCH_AFTER, QueueLimits};
use crate::snoop::Snooping;
use crate::storage::record::RecordOptions;
use crate::tls::Tls;

/// The options of a controller.
#[derive(Clone)]
pub struct ControllerOptions {
    /// The policy.
    pub policy: Arc<dyn Policy>,
    /// The programs that serve the switches in the place of the policy, such as handlers. Default: none.
    pub programs: Option<Arc<dyn ProgramFactory>>,
    /// The tracked state. Writes before the start are effective from the start. Default: an empty store.
    pub store: Arc<Store>,
    /// The engine's options. The epoch is overwritten by a random one at the start.
    pub engine: Options,
    /// The subscriptions of listeners. Default: none.
    pub subscriptions: Vec<Subscription>,
    /// The protocols that are snooped on, for policies. Ignored with programs, which receive all packets themselves.
    /// Default: none.
    pub snooping: Snooping,
    /// The names of switches and hosts, for texts that people read. Default: none.
    pub names: Arc<Names>,
    /// The connections of switches.
    pub openflow: OpenFlowOptions,
    /// The threads that serve switches.
    pub workers: WorkerOptions,
    /// The state that outlives the process.
    pub memory: MemoryOptions,
    /// The ways in which other programs can ask the controller.
    pub control: ControlOptions,
}

impl fmt::Debug for ControllerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerOptions")
            .field("listen", &self.openflow.listen)
            .field("listen_tls", &self.openflow.listen_tls)
            .field("workers", &self.workers.count)
            .field("snooping", &self.snooping)
            .field("engine", &self.engine)
            .field("control", &self.control.socket)
            .field("state_file", &self.memory.state_file)
            .field("metrics", &self.control.metrics)
            .finish_non_exhaustive()
    }
}

impl ControllerOptions {
    /// Returns the defaults for a policy.
    pub fn new(policy: Arc<dyn Policy>) -> ControllerOptions {
        ControllerOptions {
            policy,
            programs: None,
            store: Store::new(),
            engine: Options { look_up_tables: LOOK_UP_TABLES, ..Options::default() },
            subscriptions: Vec::new(),
            snooping: Snooping::default(),
            names: Arc::default(),
            openflow: OpenFlowOptions::default(),
            workers: WorkerOptions::default(),
            memory: MemoryOptions::default(),
            control: ControlOptions::default(),
        }
    }

    /// Returns the defaults for programs, which serve switches in the place of a policy.
    pub fn for_programs(programs: Arc<dyn ProgramFactory>) -> ControllerOptions {
        let nothing = |_: &PacketHandle, _: &Net| Route::drop();
        ControllerOptions { programs: Some(programs), ..ControllerOptions::new(Arc::new(nothing)) }
    }
}

/// The options of the connections of switches.
#[derive(Clone, Debug)]
pub struct OpenFlowOptions {
    /// The addresses to listen on. Port 0 selects a free port, which [`Handle::addresses`](crate::Handle::addresses)
    /// returns. Default: port 6653 of all IPv4 addresses.
    pub listen: Vec<SocketAddr>,
    /// The addresses to listen on with TLS, which needs [`OpenFlowOptions::tls`]. Default: none.
    pub listen_tls: Vec<SocketAddr>,
    /// Certificates for TLS. Default: none.
    pub tls: Option<Arc<Tls>>,
    /// The time limits of sessions.
    pub deadlines: Deadlines,
    /// The limits of output that waits for a switch.
    pub limits: QueueLimits,
    /// Whether each answer of a program is written separately, instead of together with all answers to one read. This
    /// is slower, but delivers the first answer earlier. Default: no.
    pub write_each: bool,
    /// The timing of discovery's probes.
    pub timing: Timing,
    /// Whether this controller is one of several of the same switches. Then it decides for a switch only while that
    /// says that it is its master, and is a standby until
    /// [`Operations::set_role`](crate::control::Operations::set_role) says that it leads. Not with programs, tracked
    /// state, snooping, a state file or a recording, which only one controller would have. Default: no.
    pub in_cluster: bool,
    /// The time for which a switch without a connection is kept, with its links, hosts and rules; `None`: without
    /// limit. With zero, a switch is forgotten as soon as its connection ends. A switch that the configuration names is
    /// kept in any other case. Default: [`FORGET_SWITCH_AFTER`].
    pub forget_switch_after: Option<Duration>,
}

impl Default for OpenFlowOptions {
    fn default() -> OpenFlowOptions {
        OpenFlowOptions {
            listen: vec![SocketAddr::from(([0, 0, 0, 0], OPENFLOW_PORT))],
            listen_tls: Vec::new(),
            tls: None,
            deadlines: Deadlines::default(),
            limits: QueueLimits::default(),
            write_each: false,
            timing: Timing::default(),
            in_cluster: false,
            forget_switch_after: Some(FORGET_SWITCH_AFTER),
        }
    }
}

/// The options of the threads that serve switches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerOptions {
    /// The number of threads, each with a shard; 0 means one for each core, which is the default.
    pub count: usize,
    /// Whether each shard is pinned to a core. Default: yes.
    pub pin: bool,
    /// The cores to pin shards to, in turn. Empty, the default, means all cores that this process may use. Needs `pin`.
    pub cores: Vec<usize>,
    /// The period at which shards compare their loads. With programs, a shard that is overloaded three times in a row
    /// gives a switch to one that is not. With zero, switches never migrate. Default: one second.
    pub balance_period: Duration,
}

impl Default for WorkerOptions {
    fn default() -> WorkerOptions {
        WorkerOptions { count: 0, pin: true, cores: Vec::new(), balance_period: Duration::from_secs(1) }
    }
}

/// The options of what outlives the process.
#[derive(Clone, Debug)]
pub struct MemoryOptions {
    /// The file for the state that [`Store::keep`] marks as persistent. Default: none.
    pub state_file: Option<PathBuf>,
    /// Whether the state file also keeps switches and leaves for the next run. This is for networks that still exist
    /// then. Default: yes.
    pub remember: bool,
    /// Whether what is decided, and where hosts and links are, is kept in memory for the other controllers of a cluster
    /// ([`cluster`](crate::cluster)). Default: no.
    pub for_standbys: bool,
    /// The recording of the run, if there should be one. Only runs of policies can be recorded. Default: none.
    pub record: Option<RecordOptions>,
    /// The record of the files that are kept, and of those that fail.
    pub files: KeptFiles,
}

impl Default for MemoryOptions {
    fn default() -> MemoryOptions {
        MemoryOptions {
            state_file: None,
            remember: true,
            for_standbys: false,
            record: None,
            files: KeptFiles::default(),
        }
    }
}

/// The options of what other programs can ask the controller.
#[derive(Clone, Debug, Default)]
pub struct ControlOptions {
    /// The path of the Unix socket of `maple show`, if there should be one. Default: none.
    pub socket: Option<PathBuf>,
    /// The address where Prometheus finds metrics, if they are to be exported: `http://ADDRESS/metrics`. Default: none.
    pub metrics: Option<SocketAddr>,
    /// The HTTP API, if there should be one. Default: none.
    pub http: Option<HttpOptions>,
    /// The times that queries, writes and reloads wait for the shards.
    pub deadlines: ShardDeadlines,
    /// A function that returns the bytes that the process has allocated, if it counts them. Shown in
    /// [`Handle::stats`](crate::Handle::stats). Default: none.
    pub heap_bytes: Option<fn() -> Option<usize>>,
}
