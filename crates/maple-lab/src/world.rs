//! The network and the controller, in simulated time.

use std::sync::Arc;

use maple_controller::control::explain::{AnswerContext, Explain, RuleCounters, to_json, with_assumed};
use maple_controller::names::{Named, Names};
use maple_controller::simulation::SimulationOptions;
use maple_controller::snoop::Snooping;
use maple_controller::{Deadlines, FORGET_SWITCH_AFTER, QueueLimits};
use maple_core::engine::{Engines, Event, LOOK_UP_TABLES, Options, Time, ViolationKey};
use maple_core::explain;
use maple_core::network::{HostInfo, Location, Mac, PortKind};
use maple_core::policy::Policy;
use maple_core::state::{Commit, Snapshot, Store};
use maple_emulator::commands::{CommandError, Ground};
use maple_emulator::emulated::{FrameId, Hop, NetworkOptions, Origin, Outcome};
use maple_emulator::host::{FlowKind, Progress};
use maple_emulator::time::{MICROSECOND, MILLISECOND, Nanoseconds, SECOND};
use maple_emulator::{EmulatedNetwork, Topology};
use maple_wire::{Dpid, PortNo, Version};
use serde_json::Value;

use crate::control::{Control, ControllerDelays};
use crate::snoop::LabSnooper;

/// The maximum simulated time that discovery may take until links and hosts' ports are known. Chosen: several rounds of
/// probes, of which some may be lost.
const DISCOVERY_TIMEOUT: Nanoseconds = 10 * SECOND;
/// The time in which rules follow a change of state.
const FOLLOWED: Nanoseconds = 2 * MILLISECOND;
/// The time in which a frame comes out everywhere: far more than usual links delay it. Simulated time in which nothing
/// happens costs nothing.
const SETTLED: Nanoseconds = SECOND;
/// The time that a frame takes through a small network if rules match it everywhere: ten links of the default delay.
const CROSSED: Nanoseconds = 100 * MICROSECOND;
/// The time between two hosts' announcements, so that no port exceeds the packets that it may send at once.
const INTRODUCED: Nanoseconds = MILLISECOND;

/// The options of a laboratory.
pub struct LaboratoryOptions {
    /// The network.
    pub topology: Topology,
    /// The OpenFlow version of the switches.
    pub version: Version,
    /// The number of tables of each switch in OpenFlow 1.3.
    pub tables: u8,
    /// The seed that decides which packets links lose.
    pub seed: u64,
    /// Whether hosts are tracked.
    pub track_hosts: bool,
    /// The packets to snoop on.
    pub snooping: Snooping,
}

/// The fate of one frame.
#[derive(Clone, Debug, Default)]
pub struct FrameFate {
    /// The frame, as it entered.
    pub frame: Vec<u8>,
    /// Each copy of the frame.
    pub copies: Vec<FrameCopy>,
}

/// The fate of one copy of a frame.
#[derive(Clone, Debug)]
pub struct FrameCopy {
    /// The switches that the copy passed.
    pub path: Vec<Hop>,
    /// The host that got the copy, or the reason why none did.
    pub end: Result<String, String>,
    /// The bytes of the copy at the end of its path.
    pub frame: Vec<u8>,
}

/// The network and the shard that controls it.
pub struct World {
    network: EmulatedNetwork,
    control: Control,
    snoop: Option<LabSnooper>,
    names: Names,
}

impl World {
    pub(crate) fn new(
        options: &LaboratoryOptions,
        policy: Arc<dyn Policy>,
        store: Arc<Store>,
    ) -> Result<World, CommandError> {
        let mut network_options = NetworkOptions { seed: options.seed, ..NetworkOptions::new(options.version) };
        network_options.switch.n_tables = options.tables;
        let network = EmulatedNetwork::with_options(&options.topology, network_options);
        // No shard runs yet, so the commits need not be distributed.
        let declared = options.snooping.declare(&store).map_err(|error| CommandError::Failed(error.to_string()))?;
        drop(declared);
        let (subscriptions, snoop) = LabSnooper::new(&options.snooping, &store)?;
        let setting = SimulationOptions {
            in_cluster: false,
            shards: 1,
            clock: Arc::default(),
            store,
            policy,
            engine: Options { track_hosts: options.track_hosts, look_up_tables: LOOK_UP_TABLES, ..Options::default() },
            deadlines: Deadlines::default(),
            limits: QueueLimits::default(),
            forget_after: Some(FORGET_SWITCH_AFTER),
            subscriptions,
        };
        let control = Control::new(&setting, ControllerDelays::default())
            .map_err(|error| CommandError::Failed(error.to_string()))?;
        let names = with_names_of(&options.topology, Names::new());
        Ok(World { network, control, snoop, names })
    }

    /// Makes the rules follow a commit.
    pub(crate) fn committed(&mut self, commit: Commit) -> Result<(), CommandError> {
        self.control.notify(Time(self.now()), Event::Committed(commit));
        self.pass(FOLLOWED)
    }

    /// Returns the current time.
    pub fn now(&self) -> Nanoseconds {
        self.network.now()
    }

    /// Returns the network.
    pub fn network(&self) -> &EmulatedNetwork {
        &self.network
    }

    /// Returns the trace tree of a switch as text.
    pub fn tree(&self, dpid: Dpid) -> String {
        self.control.shards().tree(0, dpid)
    }

    /// Explains why a packet goes where it goes. This changes nothing and takes no time.
    ///
    /// # Errors
    /// [`CommandError::Wrong`] if the question does not describe a packet.
    pub fn explain(&self, question: &Explain) -> Result<Value, CommandError> {
        let engines = self.control.shards().engines();
        let Some(first) = engines.first() else { return Err(ended()) };
        let (store, conditions) = (Arc::clone(first.store()), first.view().conditions());
        let state = store.snapshot();
        let host = |mac: Mac| state.host(mac).cloned().or_else(|| self.host_info(mac));
        let packet = question.packet(&state, &self.names, &host);
        let (packet, assumed) = packet.map_err(|error| CommandError::Wrong(error.to_string()))?;
        let explanation = explain::explain(&mut Engines(engines), &store, &conditions, packet);
        let context = AnswerContext { store: &store, counts: &RuleCounters::new(), loaded: None };
        Ok(with_assumed(to_json(&explanation, &context), &assumed))
    }

    /// Returns the names of switches and hosts.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Returns the network's own description of a host, whether or not the policy knows the host.
    fn host_info(&self, mac: Mac) -> Option<HostInfo> {
        let host = self.network.hosts().find(|host| host.spec().mac == mac.0)?.spec();
        let location = Location::new(host.switch, host.port);
        Some(HostInfo { location, ipv4: [host.ipv4].into(), ipv6: [host.ipv6].into() })
    }

    /// Returns the errors of f, each with the number of packets.
    pub fn failures(&self) -> Vec<(Arc<str>, u64)> {
        self.control.shards().failures(0)
    }

    /// Returns the routes that constraints refused, by constraint and line, each with its number of occurrences.
    pub fn violations(&self) -> Vec<(ViolationKey, u64)> {
        self.control.shards().violations(0)
    }

    /// Lets time pass until `until`.
    ///
    /// # Errors
    /// [`CommandError::Failed`] if the controller never comes to rest.
    pub fn run_until(&mut self, until: Nanoseconds) -> Result<(), CommandError> {
        loop {
            self.control()?;
            let now = self.now();
            let snoop = self.snoop.as_ref().map(LabSnooper::deadline);
            let deadline = self.control.deadline().into_iter().chain(snoop).min().map(|at| at.0.max(now));
            let next = self.network.next_event().into_iter().chain(deadline).min().filter(|at| *at <= until);
            self.network.run_until(next.unwrap_or(until));
            if next.is_none() {
                return Ok(());
            }
        }
    }

    /// Lets the controller do what is due.
    fn control(&mut self) -> Result<(), CommandError> {
        let had_turn = self.control.run(&mut self.network)?;
        // They are not used here.
        drop((self.control.notices(), self.control.readings()));
        let now = Time(self.now());
        if let Some(snoop) = self.snoop.as_mut().filter(|snoop| had_turn || snoop.deadline() <= now) {
            snoop.turn(now).into_iter().for_each(|event| self.control.notify(now, event));
        }
        Ok(())
    }

    /// Runs until the state has the network's links, and has the hosts' ports as edge ports. Links that lose many
    /// packets may stay unknown.
    pub(crate) fn until_known(&mut self, topology: &Topology, store: &Store) -> Result<(), CommandError> {
        while self.now() < DISCOVERY_TIMEOUT && !is_known(&store.snapshot(), topology) {
            self.run_until(self.now() + 50 * MILLISECOND)?;
        }
        // Rules for the discovered links and ports are still on their way.
        self.run_until(self.now() + 50 * MILLISECOND)
    }

    /// Sends a frame as a host would, and waits until it has come out everywhere.
    ///
    /// # Errors
    /// [`CommandError`] if there is no such host.
    pub fn send(&mut self, host: &str, frame: Vec<u8>) -> Result<FrameFate, CommandError> {
        let id = self.network.inject_from(host, frame)?;
        self.run_until(self.now() + SETTLED)?;
        Ok(self.journey(id))
    }

    /// Sends a frame as a host would, and waits until all its copies have come out.
    ///
    /// A frame that rules match everywhere takes only as long as its path. A frame that comes to the controller takes a
    /// second, since the controller may hold it.
    ///
    /// # Errors
    /// [`CommandError`] if there is no such host.
    pub fn deliver(&mut self, host: &str, frame: Vec<u8>) -> Result<FrameFate, CommandError> {
        let id = self.network.inject_from(host, frame)?;
        let end = self.now() + SETTLED;
        let mut step = CROSSED;
        loop {
            let until = end.min(self.now() + step);
            self.run_until(until)?;
            if until == end || self.is_through(id) {
                return Ok(self.journey(id));
            }
            step *= 2;
        }
    }

    /// Reports whether a frame has ended: rules have handled all its copies, and none is in flight.
    fn is_through(&self, id: FrameId) -> bool {
        let mut fates = self.network.log().of_frame(id).peekable();
        fates.peek().is_some()
            && fates.all(|fate| !matches!(fate.outcome, Outcome::Controller(_)))
            && !self.network.is_in_flight(id)
    }

    /// Opens a flow from one host to another, and waits until it has ended, at most for `within`.
    ///
    /// # Errors
    /// [`CommandError`] if one of the hosts does not exist.
    pub fn flow(
        &mut self,
        src: &str,
        dst: &str,
        kind: FlowKind,
        ipv6: bool,
        within: Nanoseconds,
    ) -> Result<Progress, CommandError> {
        let id = self.network.open_flow(src, dst, kind, ipv6)?;
        let end = self.now() + within;
        loop {
            self.run_until(end.min(self.now() + MILLISECOND))?;
            let progress = self.network.host(src).and_then(|host| Some(host.flow(id)?.progress));
            let progress = progress.unwrap_or(Progress::NoAnswer);
            if progress != Progress::Running || self.now() >= end {
                return Ok(progress);
            }
        }
    }

    /// Turns a switch off, with its links, its hosts' ports and its connection, or on again with empty tables.
    ///
    /// # Errors
    /// [`CommandError`] if there is no such switch.
    pub fn switch_power(&mut self, dpid: Dpid, on: bool) -> Result<(), CommandError> {
        let links = self.network.links().iter().map(|link| (link.spec.a.0, link.spec.b.0));
        let mut links: Vec<(Dpid, Dpid)> = links.filter(|(a, b)| *a == dpid || *b == dpid).collect();
        links.dedup();
        links.into_iter().try_for_each(|(a, b)| self.network.set_link(a, b, on))?;
        let hosts = self.network.hosts().map(|host| host.spec()).filter(|spec| spec.switch == dpid);
        let ports: Vec<PortNo> = hosts.map(|spec| spec.port).collect();
        ports.into_iter().try_for_each(|port| self.network.set_port(dpid, port, on))?;
        if on {
            self.network.mend_control(dpid)?;
            self.network.restart_switch(dpid)?;
        } else {
            self.network.cut_control(dpid)?;
        }
        self.run_until(self.network.now())
    }

    /// Makes all hosts announce themselves, so that the controller knows where they are, with their IPv4 addresses.
    ///
    /// # Errors
    /// [`CommandError`] if the controller never comes to rest.
    pub fn introduce_hosts(&mut self) -> Result<(), CommandError> {
        let names: Vec<String> = self.network.hosts().map(|host| host.spec().name.clone()).collect();
        for name in names {
            self.network.announce(&name)?;
            self.run_until(self.now() + INTRODUCED)?;
        }
        self.run_until(self.now() + SETTLED)
    }

    /// Returns the last frame since `since` that one host sent to another's hardware address, with its fate.
    pub fn last_journey(&self, from: &str, to: &str, since: Nanoseconds) -> Option<FrameFate> {
        let (from, to) = (self.network.host(from)?.spec(), self.network.host(to)?.spec());
        let origin = Origin::Port(from.switch, from.port);
        let log = self.network.log();
        let mut fits = log.entries().filter(|e| e.at >= since && e.origin == origin && e.frame.starts_with(&to.mac));
        fits.next_back().map(|entry| self.journey(entry.id))
    }

    fn journey(&self, id: FrameId) -> FrameFate {
        let log = self.network.log();
        let entry = log.entry(id);
        let copies = log.of_frame(id).filter_map(|delivery| {
            let end = match &delivery.outcome {
                Outcome::Egress { host: Some(host), .. } => Ok(host.clone()),
                Outcome::Egress { dpid, port, host: None } => {
                    Err(format!("left by port {port} of {dpid}: nobody is there"))
                }
                Outcome::Dropped(dpid, why) => Err(format!("ended at {dpid}: {why}")),
                // The frame continues from the controller.
                Outcome::Controller(_) => return None,
            };
            Some(FrameCopy { path: delivery.path.clone(), end, frame: delivery.frame.clone() })
        });
        FrameFate { frame: entry.map(|entry| entry.frame.clone()).unwrap_or_default(), copies: copies.collect() }
    }
}

impl Ground for World {
    fn with<R: Send + 'static>(
        &mut self,
        f: impl FnOnce(&mut EmulatedNetwork) -> R + Send + 'static,
    ) -> Result<R, CommandError> {
        let done = f(&mut self.network);
        self.run_until(self.network.now())?;
        Ok(done)
    }

    fn pass(&mut self, span: Nanoseconds) -> Result<(), CommandError> {
        self.run_until(self.network.now().saturating_add(span))
    }
}

/// Reports whether the state has all links of a network, and has its hosts' ports as edge ports.
pub fn is_known(state: &Snapshot, topology: &Topology) -> bool {
    let kind = |(dpid, port)| state.port(Location::new(dpid, port)).map(|port| port.kind);
    topology.hosts.iter().all(|host| kind((host.switch, host.port)) == Some(PortKind::Edge))
        && topology
            .links
            .iter()
            .flat_map(|link| [link.a, link.b])
            .all(|end| matches!(kind(end), Some(PortKind::Link(_))))
}

/// Returns these names, extended by those of an emulated network for switches and hosts without a name.
pub fn with_names_of(topology: &Topology, mut names: Names) -> Names {
    let hosts = topology.hosts.iter().map(|host| (&host.name, Named::Host(Mac(host.mac))));
    let switches = topology.switches.iter().map(|switch| (&switch.name, Named::Switch(switch.dpid)));
    for (name, of) in hosts.chain(switches) {
        // What can't be a name, such as a number, is not needed as one.
        let _ = names.add(name, of);
    }
    names
}

/// Returns the error for a laboratory whose thread has ended.
pub(crate) fn ended() -> CommandError {
    CommandError::Failed("the laboratory has ended".into())
}
