//! The controller of an [`App`](crate::App), its options, and what can be asked of it while it runs.

/// A controller that runs until it is stopped or dropped.
///
/// ```
/// use maple::prelude::*;
///
/// let app = App::new(|_: &Packet, net: &Net| net.flood()).listen(([127, 0, 0, 1], 0)).workers(1);
/// let controller: maple::controller::Controller = app.start()?;
/// controller.handle().stop();
/// assert_eq!(controller.wait(), Ok(()));
/// # Ok::<(), maple::controller::StartError>(())
/// ```
#[doc(inline)]
pub use maple_controller::Controller;

/// All options of a controller, in groups.
///
/// ```
/// use maple::prelude::*;
/// use std::time::Duration;
///
/// let app = App::new(|_: &Packet, net: &Net| net.flood()).configure(|options: &mut maple::controller::ControllerOptions| {
///     options.engine.host_timeout = Duration::from_secs(60);
/// });
/// assert_eq!(app.options().engine.host_timeout, Duration::from_secs(60));
/// ```
#[doc(inline)]
pub use maple_controller::ControllerOptions;

/// A way for threads to ask a running controller, and to control it.
///
/// ```
/// use maple::prelude::*;
/// # let app = App::new(|_: &Packet, net: &Net| net.flood()).listen(([127, 0, 0, 1], 0)).workers(1);
///
/// let controller = app.start()?;
/// let handle: maple::controller::Handle = controller.handle();
/// assert!(handle.switches()?.is_empty() && handle.failure().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(inline)]
pub use maple_controller::Handle;

/// A host that the controller has seen: its place and its addresses.
///
/// ```
/// use maple::controller::{Handle, HostInfo};
/// use maple::net::Mac;
///
/// fn hosts(controller: &Handle) -> Vec<(Mac, HostInfo)> {
///     controller.hosts()
/// }
/// ```
#[doc(inline)]
pub use maple_core::network::HostInfo;

/// The reason why [`Handle::wait_until_settled`] fails: what switches have not confirmed.
///
/// ```
/// let waiting = maple::controller::NotSettled(vec!["switch 1: a barrier".into()]);
/// assert_eq!(waiting.to_string(), "not all switches have confirmed that their old rules are gone; switch 1: a barrier");
/// ```
#[doc(inline)]
pub use maple_controller::control::transactions::NotSettled;

/// The reason why [`App::start`](crate::App::start) fails.
///
/// ```
/// use maple::prelude::*;
///
/// let first = App::new(|_: &Packet, net: &Net| net.flood()).listen(([127, 0, 0, 1], 0)).workers(1).start()?;
/// let taken = first.handle().addresses()[0];
/// let second = App::new(|_: &Packet, net: &Net| net.flood()).listen(taken).start();
/// assert!(matches!(second, Err(maple::controller::StartError::Listen { address, .. }) if address == taken));
/// # Ok::<(), maple::controller::StartError>(())
/// ```
#[doc(inline)]
pub use maple_controller::StartError;

/// The reason why a controller runs no more: it failed, or was stopped.
///
/// ```
/// let error = maple::Error::from(maple::controller::Stopped("a worker failed".into()));
/// assert_eq!(error.to_string(), "a worker failed");
/// ```
#[doc(inline)]
pub use maple_controller::Stopped;

/// The reason why a thread could not change tracked state.
///
/// ```
/// use maple::controller::ChangeError;
///
/// /// Whether the change holds, though it may be lost over a restart.
/// fn holds(done: &Result<(), ChangeError>) -> bool {
///     matches!(done, Ok(()) | Err(ChangeError::NotKept))
/// }
/// assert!(holds(&Err(ChangeError::NotKept)) && !holds(&Err(ChangeError::Unconfirmed)));
/// ```
#[doc(inline)]
pub use maple_controller::control::transactions::ChangeError;

/// A group of the options of a controller.
///
/// ```
/// use maple::controller::{ControlOptions, ControllerOptions, MemoryOptions, OpenFlowOptions, WorkerOptions};
/// use maple::prelude::*;
///
/// let app = App::new(|_: &Packet, net: &Net| net.flood()).configure(|options: &mut ControllerOptions| {
///     options.openflow = OpenFlowOptions { forget_switch_after: None, ..OpenFlowOptions::default() };
///     options.workers = WorkerOptions { count: 2, pin: false, ..WorkerOptions::default() };
///     options.memory = MemoryOptions { remember: false, ..MemoryOptions::default() };
///     options.control = ControlOptions { socket: Some("/run/maple.sock".into()), ..ControlOptions::default() };
/// });
/// assert_eq!(app.options().workers.count, 2);
/// ```
#[doc(inline)]
pub use maple_controller::{ControlOptions, MemoryOptions, OpenFlowOptions, WorkerOptions};

/// The options of how packets are decided, and of the rules that are made.
///
/// ```
/// use maple::controller::EngineOptions;
///
/// let small = EngineOptions { max_rules: Some(2000), ..EngineOptions::default() };
/// assert!(small.track_hosts);
/// ```
#[doc(inline)]
pub use maple_core::engine::Options as EngineOptions;

/// The times of link discovery.
///
/// ```
/// use maple::controller::{OpenFlowOptions, Timing};
/// use std::time::Duration;
///
/// let timing = Timing { interval: Duration::from_secs(2), ..Timing::default() };
/// let options = OpenFlowOptions { timing, ..OpenFlowOptions::default() };
/// assert_eq!(options.timing.interval, Duration::from_secs(2));
/// ```
#[doc(inline)]
pub use maple_controller::discovery::Timing;

/// Limits of the times that the controller waits, and of the output that it keeps for switches.
///
/// ```
/// use maple::controller::{Deadlines, OpenFlowOptions, QueueLimits, ShardDeadlines};
/// use std::time::Duration;
///
/// let deadlines = Deadlines { idle: Duration::from_secs(30), ..Deadlines::default() };
/// let limits = QueueLimits { pause: 1 << 20, ..QueueLimits::default() };
/// let options = OpenFlowOptions { deadlines, limits, ..OpenFlowOptions::default() };
/// assert!(options.deadlines.idle > ShardDeadlines::default().query);
/// ```
#[doc(inline)]
pub use maple_controller::{Deadlines, QueueLimits, ShardDeadlines};

/// The role of this controller among several.
///
/// ```
/// use maple::controller::ClusterRole;
/// use maple::prelude::*;
///
/// let app = App::new(|_: &Packet, net: &Net| net.flood()).listen(([127, 0, 0, 1], 0)).workers(1);
/// let controller = app.configure(|options| options.openflow.in_cluster = true).start()?;
/// // It is a standby until whoever elects masters says that it leads, with a number that no master had before.
/// controller.handle().operations().set_role(ClusterRole { own_generation: Some(7), latest: Some(7), has_lease: true })?;
/// assert_eq!(controller.handle().role().and_then(|role| role.own_generation), Some(7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(inline)]
pub use maple_controller::ClusterRole;

/// The keys and certificates for connections by TLS.
///
/// ```no_run
/// use maple::controller::{OpenFlowOptions, Tls, TlsFiles};
///
/// let tls = Tls::open(TlsFiles::new("controller.pem", "controller.key"))?;
/// let listens = vec![([0, 0, 0, 0], 6653).into()];
/// let options = OpenFlowOptions { listen: Vec::new(), listen_tls: listens, tls: Some(tls.into()), ..Default::default() };
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(inline)]
pub use maple_controller::tls::{Tls, TlsFiles};

/// The options of a recording, and the source of the policy that it contains.
///
/// ```
/// use maple::controller::{MemoryOptions, PolicySource, RecordOptions};
///
/// let record = RecordOptions {
///     folder: "/var/lib/maple/record".into(),
///     limit: 1 << 30,
///     policy: PolicySource::Program,
///     compiler: "rustc".into(),
/// };
/// let options = MemoryOptions { record: Some(record), ..MemoryOptions::default() };
/// assert!(options.record.is_some());
/// ```
#[doc(inline)]
pub use maple_controller::record::{PolicySource, RecordOptions};
