//! A controller and the network that it controls, each on its cores.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use maple_controller::control::socket::{Request, Show, ask};
use maple_controller::file_limit;
use maple_load::flows::{Counters, FlowNetwork, FlowNetworkOptions};
use maple_load::{Cpu, Process, Wiring};
use maple_wire::Version;
use serde_json::Value;

use super::FlowsArgs;
use crate::controllers::{Contender, Running};

/// The maximum time for all hosts to announce themselves: a controller that is slower is reported, and the run goes on.
const ACQUAINTANCE: Duration = Duration::from_secs(60);
/// The time between two questions about what the controller knows. Each costs it a little, before the measurement.
const QUESTION_INTERVAL: Duration = Duration::from_millis(100);
/// The pause after the hosts have announced themselves, in which the controller handles the last of these packets.
const PAUSE: Duration = Duration::from_millis(300);

/// Pins this thread to the core of the network.
///
/// # Errors
/// If that is the controller's only core, or a core that this process may not use.
pub fn take_core(args: &FlowsArgs) -> anyhow::Result<()> {
    if args.cores == [args.load_core] {
        bail!("core {} can't be the controller's and the network's: choose --cores or --load-core", args.load_core);
    }
    let core = core_affinity::CoreId { id: args.load_core };
    if !core_affinity::set_for_current(core) {
        bail!("this process may not use core {}: choose --load-core", args.load_core);
    }
    Ok(())
}

/// Touches this much memory (in MiB), and frees it.
pub fn touch_memory(mebibytes: usize) {
    /// The size in bytes of a small page, the most frequent one: of larger ones each is touched several times.
    const PAGE: usize = 4096;
    let mut memory: Vec<u8> = Vec::with_capacity(mebibytes << 20);
    for page in memory.spare_capacity_mut().chunks_mut(PAGE) {
        page[0].write(1);
    }
    std::hint::black_box(&memory);
}

/// The controller's use of resources, and the counters, at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub at: Instant,
    pub controller: Process,
    pub ours: Cpu,
    pub counters: Counters,
}

/// A controller with a network.
pub struct Bed {
    pub flow_network: FlowNetwork,
    running: Running,
    /// The path of the controller's socket, if it has one.
    socket: Option<PathBuf>,
    /// The number of switches and links.
    size: (usize, usize),
}

impl Bed {
    /// Starts the controller, and connects the network.
    ///
    /// # Errors
    /// If too few files can be open, the controller does not start, or the network can't connect.
    pub fn start(
        args: &FlowsArgs,
        contender: &Contender,
        socket: Option<PathBuf>,
        network: Wiring,
        version: Version,
        ports: u32,
    ) -> anyhow::Result<Bed> {
        maple_load::descriptors::suffice(file_limit::raise(), network.switches.len() as u64)?;
        let size = (network.switches.len(), network.links.len());
        let running = contender.start(&args.cores, args.workers)?;
        let window = args.window as usize;
        let (connect, confirm) = (running.address, args.confirm);
        let options = FlowNetworkOptions { connect, network, ports, version, window, confirm };
        let flow_network = FlowNetwork::connect(options).with_context(|| contender.name.clone())?;
        Ok(Bed { flow_network, running, socket, size })
    }

    /// Waits for discovery, at most for `settle`, and makes the hosts announce themselves. Returns the number of those
    /// that could not.
    ///
    /// # Errors
    /// If the controller closes a connection or breaks the protocol.
    pub fn acquaint(&mut self, settle: Duration) -> anyhow::Result<usize> {
        let deadline = Instant::now() + settle;
        while Instant::now() < deadline && !self.knows_ports()? {
            self.flow_network.wait(QUESTION_INTERVAL.min(deadline.saturating_duration_since(Instant::now())))?;
        }
        let unknown = self.flow_network.announce(ACQUAINTANCE)?;
        self.flow_network.wait(PAUSE)?;
        Ok(unknown)
    }

    /// Reports whether the controller says of each port what is behind it. One without a socket does not.
    fn knows_ports(&self) -> anyhow::Result<bool> {
        if self.socket.is_none() {
            return Ok(false);
        }
        let (switches, links) = (self.show(Show::Switches)?, self.show(Show::Links)?);
        let rows = |value: &Value| value.as_array().map_or(0, Vec::len);
        let ports = switches.as_array().into_iter().flatten().filter_map(|row| row["ports"].as_array()).flatten();
        let (switches, links) = (rows(&switches) == self.size.0, rows(&links) == self.size.1);
        Ok(switches && links && ports.into_iter().all(|port| port["kind"] != "new"))
    }

    /// Reads the present resources and counters.
    ///
    /// # Errors
    /// If the controller has ended, or if the system does not provide its counters.
    pub fn moment(&self) -> anyhow::Result<Moment> {
        let controller = Process::now(self.running.pid()).context("the controller has ended")?;
        Ok(Moment { at: Instant::now(), controller, ours: Cpu::now()?, counters: self.flow_network.counters() })
    }

    /// Queries the controller.
    ///
    /// # Errors
    /// If the controller has no socket, or does not answer.
    pub fn show(&self, what: Show) -> anyhow::Result<Value> {
        let socket = self.socket.as_deref().context("this controller has no socket")?;
        Ok(ask(socket, &Request::Show(what))?)
    }

    /// Returns the number of bytes on the controller's heap, if it counts them.
    ///
    /// # Errors
    /// If the controller has no socket, or does not answer.
    pub fn heap(&self) -> anyhow::Result<Option<u64>> {
        Ok(self.show(Show::Stats)?["heap_bytes"].as_u64())
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        if let Some(socket) = &self.socket {
            remove(socket);
        }
    }
}

/// Removes the socket of a controller that was killed.
fn remove(socket: &Path) {
    if let Err(error) = std::fs::remove_file(socket)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        eprintln!("maple-bench: can't remove {}: {error}", socket.display());
    }
}

impl Moment {
    /// Returns the seconds of wall-clock time since `before`.
    pub fn seconds(&self, before: &Moment) -> f64 {
        (self.at - before.at).as_secs_f64()
    }

    /// Returns the seconds of processor time that the controller used since `before`.
    pub fn controller_seconds(&self, before: &Moment) -> f64 {
        self.controller.ran.saturating_sub(before.controller.ran) as f64 / 1e9
    }

    /// Returns the growth of the controller's memory since `before`, in bytes.
    pub fn more_memory(&self, before: &Moment) -> f64 {
        self.controller.resident as f64 - before.controller.resident as f64
    }
}
