//! The network in real time: every switch connected to one or several controllers over TCP.
//!
//! ```no_run
//! use std::time::Duration;
//! use maple_emulator::{Emulation, EmulationOptions, Topology};
//! use maple_wire::{Dpid, Version};
//!
//! let topology = Topology::parse("ring:4").unwrap();
//! let mut options = EmulationOptions::new(topology, "127.0.0.1:6653".parse().unwrap(), Version::Of13);
//! options.traffic = Some(Default::default());
//! let emulation = Emulation::start(options).unwrap();
//! std::thread::sleep(Duration::from_secs(5));
//! emulation.link_down(Dpid(1), Dpid(2)).unwrap();
//! println!("{} rules", emulation.rules(Dpid(1)).unwrap().len());
//! let stats = emulation.stop().unwrap();
//! println!("{} of {} flows ended well", stats.total.done, stats.total.opened);
//! ```
//!
//! One thread owns the [`EmulatedNetwork`] and all sockets; [`Emulation`] is a handle that sends it commands and waits
//! for the answers. The thread never blocks on a socket: a controller that does not read loses the connection when 16
//! MiB wait for it, as with a switch whose memory is full. Switches whose connection fails or closes try again after
//! 100 ms, then after twice as long each time, up to 5 s.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use maple_switch::Rule;
use maple_switch::time::Nanoseconds;
use maple_wire::{Dpid, PortNo, Version};

use crate::emulated::{EmulatedNetwork, Fault, NetworkError, NetworkOptions};
use crate::host::FlowKind;
use crate::topology::Topology;
use crate::traffic::{Expectation, FlowCounters, PairCounters, PairKey, TrafficOptions};

mod connection;
mod driver_loop;

#[cfg(test)]
mod tests;

use driver_loop::{DriverLoop, LoopRequest};

/// The parameters of an emulation.
pub struct EmulationOptions {
    /// The network.
    pub topology: Topology,
    /// The addresses of the controllers, at least one. Each switch connects to all of them.
    pub controllers: Vec<SocketAddr>,
    /// The behaviour of the network, with the OpenFlow version of its switches.
    pub network: NetworkOptions,
    /// The traffic, if any. It starts when every switch has been connected for [`EmulationOptions::settle`].
    pub traffic: Option<TrafficOptions>,
    /// The time for which all switches must be connected before traffic starts: the controller needs time to find the
    /// links.
    pub settle: Duration,
    /// The flows that must succeed; `None`: all.
    pub expectation: Option<Expectation>,
    /// The faults, with their times after the start.
    pub faults: Vec<(Duration, Fault)>,
}

impl EmulationOptions {
    /// Creates options for a network without traffic and faults, whose switches speak `version`. Traffic that is added
    /// waits 2 s.
    pub fn new(topology: Topology, controller: SocketAddr, version: Version) -> EmulationOptions {
        let network =
            NetworkOptions { control_delay: 0, connects: false, log_limit: 10_000, ..NetworkOptions::new(version) };
        EmulationOptions {
            topology,
            controllers: vec![controller],
            network,
            traffic: None,
            settle: Duration::from_secs(2),
            expectation: None,
            faults: Vec::new(),
        }
    }
}

/// The reason why an emulation could not continue.
#[derive(Debug, thiserror::Error)]
pub enum EmulationError {
    /// The system refuses sockets, threads or polling.
    #[error("emulation: {0}")]
    Io(#[from] io::Error),
    /// A command or a fault names something that the network does not have.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The emulation has ended.
    #[error("the emulation has ended")]
    Ended,
}

/// The statistics of an emulation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The time since its start.
    pub elapsed: Duration,
    /// The reason why the last attempt to reach the controller failed, such as `connection refused`; `None` once one
    /// has succeeded. With several controllers, that of the first one, if none was reached.
    pub trouble: Option<String>,
    /// The switches, in the topology's order.
    pub switches: Vec<SwitchStats>,
    /// The hosts, in the topology's order.
    pub hosts: Vec<HostStats>,
    /// Frames sent and delivered between hosts, by kind.
    pub pairs: BTreeMap<PairKey, PairCounters>,
    /// The generator's flows, by hosts and kind.
    pub flows: BTreeMap<PairKey, FlowCounters>,
    /// The generator's flows, all together.
    pub total: FlowCounters,
    /// Whether traffic was requested and all its flows have ended.
    pub traffic_over: bool,
    /// Whether traffic was requested and has started.
    pub traffic_started: bool,
}

/// The statistics of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchStats {
    /// Its name.
    pub name: String,
    /// Its datapath id.
    pub dpid: Dpid,
    /// Whether it has a connection with an agreed version.
    pub connected: bool,
    /// The number of its TCP connections so far, to all controllers.
    pub connections: u64,
    /// Rules in all its tables.
    pub rules: usize,
    /// Packet-ins that it sent.
    pub packet_ins: u64,
    /// Packet-outs that it executed.
    pub packet_outs: u64,
    /// Flow-mods that it received.
    pub flow_mods: u64,
    /// Errors that it sent.
    pub errors: u64,
    /// Packets that met several rules of one priority with different instructions.
    pub ambiguous_matches: u64,
}

/// The statistics of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostStats {
    /// Its name.
    pub name: String,
    /// Frames sent.
    pub sent: u64,
    /// Frames received.
    pub received: u64,
    /// Unicast frames received that were for another host.
    pub foreign: u64,
    /// Its flows that ended well.
    pub flows_done: u64,
    /// Its flows that it gave up.
    pub flows_failed: u64,
}

/// A running emulation. Dropping it stops it.
pub struct Emulation {
    commands: mpsc::Sender<LoopRequest>,
    waker: Arc<mio::Waker>,
    thread: Option<JoinHandle<Result<Stats, EmulationError>>>,
    start: Instant,
}

impl Emulation {
    /// Starts the thread. Switches connect immediately, and try again while nothing listens yet.
    ///
    /// # Errors
    /// [`EmulationError::Io`] if the system refuses what it needs, [`EmulationError::Network`] if a fault names
    /// something that the topology does not have.
    pub fn start(options: EmulationOptions) -> Result<Emulation, EmulationError> {
        let (commands, inbox) = mpsc::channel();
        let (driver, waker) = DriverLoop::new(options, inbox)?;
        let start = driver.start();
        let thread = std::thread::Builder::new().name("emulator".into()).spawn(move || driver.run())?;
        Ok(Emulation { commands, waker, thread: Some(thread), start })
    }

    /// Returns the moment at which the network's clock shows `at`. The network never sees an action of the controller
    /// before the moment of that action.
    pub fn moment(&self, at: Nanoseconds) -> Instant {
        self.start + Duration::from_nanos(at)
    }

    /// Returns the statistics.
    ///
    /// # Errors
    /// [`EmulationError::Ended`] if the emulation has ended.
    pub fn snapshot(&self) -> Result<Stats, EmulationError> {
        self.ask(|driver| driver.stats())
    }

    /// Returns the rules of a switch, with their tables, highest priority first in each.
    ///
    /// # Errors
    /// [`EmulationError::Network`] if there is no such switch, [`EmulationError::Ended`].
    pub fn rules(&self, dpid: Dpid) -> Result<Vec<(u8, Rule)>, EmulationError> {
        self.ask(move |driver| {
            let switch = driver.network().switch(dpid).ok_or(NetworkError::NoSwitch(dpid))?;
            let table = |(number, table): (u8, &maple_switch::Table)| {
                table.rules().into_iter().map(move |rule| (number, rule.clone())).collect::<Vec<_>>()
            };
            Ok((0..).zip(switch.tables()).flat_map(table).collect())
        })?
    }

    /// Starts the requested traffic as soon as all switches are connected, without waiting for
    /// [`EmulationOptions::settle`].
    ///
    /// # Errors
    /// [`EmulationError::Ended`].
    pub fn begin_traffic(&self) -> Result<(), EmulationError> {
        self.ask(DriverLoop::begin_traffic)
    }

    /// Runs a function on the network, between two of its events. The call returns when it is done. The sockets
    /// wait during that time.
    ///
    /// # Errors
    /// [`EmulationError::Ended`].
    pub fn with_network<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut EmulatedNetwork) -> R + Send + 'static,
    ) -> Result<R, EmulationError> {
        self.ask(move |driver| f(driver.network_mut()))
    }

    /// Applies a fault or its repair.
    ///
    /// # Errors
    /// [`EmulationError::Network`] if the fault names something that does not exist, [`EmulationError::Ended`].
    pub fn inflict(&self, fault: Fault) -> Result<(), EmulationError> {
        Ok(self.with_network(move |network| network.inflict(fault))??)
    }

    /// Takes the links between two switches down.
    ///
    /// # Errors
    /// [`EmulationError`] as [`Emulation::inflict`] returns it.
    pub fn link_down(&self, a: Dpid, b: Dpid) -> Result<(), EmulationError> {
        self.inflict(Fault::Link { a, b, up: false })
    }

    /// Takes the links between two switches up.
    ///
    /// # Errors
    /// [`EmulationError`] as [`Emulation::inflict`] returns it.
    pub fn link_up(&self, a: Dpid, b: Dpid) -> Result<(), EmulationError> {
        self.inflict(Fault::Link { a, b, up: true })
    }

    /// Restarts a switch with empty tables. Its connection closes, and it connects again.
    ///
    /// # Errors
    /// [`EmulationError`] as [`Emulation::inflict`] returns it.
    pub fn restart_switch(&self, dpid: Dpid) -> Result<(), EmulationError> {
        self.inflict(Fault::Restart(dpid))
    }

    /// Moves a host to a port of a switch, where it announces itself.
    ///
    /// # Errors
    /// [`EmulationError`] as [`Emulation::inflict`] returns it.
    pub fn move_host(&self, host: &str, dpid: Dpid, port: PortNo) -> Result<(), EmulationError> {
        let host = host.to_string();
        let moved = self.with_network(move |network| {
            network.move_host(&host, dpid, port)?;
            network.announce(&host)
        })?;
        Ok(moved?)
    }

    /// Makes a host open a flow. [`Emulation::with_network`] gives access to its result.
    ///
    /// # Errors
    /// [`EmulationError`] as [`Emulation::inflict`] returns it.
    pub fn open_flow(&self, src: &str, dst: &str, kind: FlowKind) -> Result<crate::host::FlowId, EmulationError> {
        let (src, dst) = (src.to_string(), dst.to_string());
        Ok(self.with_network(move |network| network.open_flow(&src, &dst, kind, false))??)
    }

    /// Stops the emulation and closes its connections. Returns the last statistics.
    ///
    /// # Errors
    /// The reason why the emulation ended before, if it did.
    pub fn stop(mut self) -> Result<Stats, EmulationError> {
        // A thread that has ended already has closed its inbox, and its result is the requested one.
        let _ = self.commands.send(LoopRequest::Stop);
        let _ = self.waker.wake();
        self.wait()
    }

    /// Waits until the emulation ends by itself, which happens only on errors.
    ///
    /// # Errors
    /// The reason why it ended.
    pub fn join(mut self) -> Result<Stats, EmulationError> {
        self.wait()
    }

    fn wait(&mut self) -> Result<Stats, EmulationError> {
        let thread = self.thread.take().ok_or(EmulationError::Ended)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn ask<R: Send + 'static>(
        &self,
        question: impl FnOnce(&mut DriverLoop) -> R + Send + 'static,
    ) -> Result<R, EmulationError> {
        let (answer, answered) = mpsc::channel();
        let command = LoopRequest::Do(Box::new(move |driver| {
            // The caller may have stopped waiting; then the answer is not needed.
            let _ = answer.send(question(driver));
        }));
        self.commands.send(command).map_err(|_| EmulationError::Ended)?;
        self.waker.wake()?;
        answered.recv().map_err(|_| EmulationError::Ended)
    }
}

impl std::ops::Drop for Emulation {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A failure means that the thread has ended; no caller is left to receive its result.
            let _ = self.commands.send(LoopRequest::Stop);
            let _ = self.waker.wake();
            let _ = thread.join();
        }
    }
}
