//! A policy and an emulated network in simulated time, in one process and without sockets.
//!
//! What runs here is the product: a shard with its sessions, discovery and engine, which takes the same turns as behind
//! sockets (`maple_controller::simulation`), and the emulator's switches and hosts. Connections in memory join them. A
//! shard takes its turn at the moment when something comes in, so only the delays of the emulated network take time.
//! One topology, one policy, one seed and one sequence of calls give one run, as long as f reads only packets and
//! tracked state.
//!
//! All of it runs in one thread of its own, which sleeps between calls.

mod costs;
mod decisions;
mod merge;
mod snoop;

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use maple_controller::control::explain::{Context, Counts, Explain, to_json, with_assumed};
use maple_controller::names::{Named, Names};
use maple_controller::simulation::{Line, Simulation, SimulationOptions};
use maple_controller::snoop::Snooping;
use maple_controller::{Deadlines, QueueLimits};
use maple_core::check::{self, Examined, Host, Observation, Question};
use maple_core::engine::{Engines, Event, Options, Time as EngineTime, ViolationKey};
use maple_core::explain;
use maple_core::network::{HostInfo, Location, Mac, PortKind};
use maple_core::policy::Policy;
use maple_core::run::Run;
use maple_core::state::{Commit, Snapshot, Store};
use maple_emulator::host::{Kind, Progress};
use maple_emulator::lab::{Ground, Lab, LabError};
use maple_emulator::network::{ControlEvent, FrameId, Hop, NetworkOptions, Origin, Outcome};
use maple_emulator::time::{MICROSECOND, MILLISECOND, SECOND, Time};
use maple_emulator::{Network, Topology};
use maple_wire::{Dpid, PortNo, Version};
use serde_json::Value;

use decisions::Counted;
use snoop::Snoop;

pub use costs::costs_of;
pub use decisions::{Asked, Decisions, TestKey};

/// The maximum number of turns that follow each other while no time passes.
const MAX_TURNS: u32 = 100_000;
/// How long discovery may take until links and hosts' ports are known.
const KNOWN: Time = 10 * SECOND;
/// How long rules take to follow a change of state.
const FOLLOWED: Time = 2 * MILLISECOND;
/// How long a frame may take to come out everywhere.
const SETTLED: Time = SECOND;
/// How long a frame takes through a small network whose rules answer it.
const CROSSED: Time = 100 * MICROSECOND;
/// The time from one host's announcement to the next one's, so that a port has no more than it may have at once.
const INTRODUCED: Time = MILLISECOND;

/// How a laboratory behaves.
pub struct LaboratoryOptions {
    /// The network.
    pub topology: Topology,
    /// The OpenFlow version of its switches.
    pub version: Version,
    /// Decides which packets links lose.
    pub seed: u64,
    /// Whether hosts are tracked.
    pub track_hosts: bool,
    /// What to snoop on.
    pub snooping: Snooping,
}

/// A policy and a network. Dropping it ends both.
pub struct Laboratory {
    jobs: Mutex<Sender<Job>>,
    store: Arc<Store>,
    topology: Arc<Topology>,
    policy: Arc<Counted>,
    track_hosts: bool,
}

type Job = Box<dyn FnOnce(&mut World) + Send>;

/// What happened to one frame.
#[derive(Clone, Debug, Default)]
pub struct Journey {
    /// The frame, as it entered.
    pub frame: Vec<u8>,
    /// Each copy of the frame.
    pub copies: Vec<Copy>,
}

/// What happened to a copy of a frame.
#[derive(Clone, Debug)]
pub struct Copy {
    /// The switches that it went through.
    pub path: Vec<Hop>,
    /// The host that got it, or why none did.
    pub end: Result<String, String>,
    /// Its bytes at the end of its path.
    pub frame: Vec<u8>,
}

impl Laboratory {
    /// A network under a policy, once the policy knows its links and ports. The state is that of the store. The costs
    /// of the topology's links are written into it.
    ///
    /// # Errors
    /// [`LabError`] if the system refuses a thread, or the network can't become known.
    pub fn start(
        options: LaboratoryOptions,
        policy: Arc<dyn Policy>,
        store: Arc<Store>,
    ) -> Result<Laboratory, LabError> {
        let costs = costs_of(&options.topology, &store.snapshot());
        store.update(|_| costs);
        let (topology, track_hosts) = (Arc::new(options.topology.clone()), options.track_hosts);
        let counted = Arc::new(Counted::new(policy));
        let policy: Arc<dyn Policy> = Arc::clone(&counted) as _;
        let (jobs, inbox) = channel();
        let (ready, told) = channel();
        let world = (options, Arc::clone(&policy), Arc::clone(&store));
        let thread = std::thread::Builder::new().name("laboratory".into());
        let spawned = thread.spawn(move || {
            let mut work = Some(move || work(world.0, world.1, world.2, &inbox, &ready));
            policy.on_thread(&mut || {
                if let Some(work) = work.take() {
                    work();
                }
            });
        });
        spawned.map_err(|error| LabError::Failed(format!("no thread to be had: {error}")))?;
        told.recv().map_err(|_| ended())??;
        Ok(Laboratory { jobs: Mutex::new(jobs), store, topology, policy: counted, track_hosts })
    }

    /// Its topology, as it was at the beginning.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The state that the policy works on. Give commits on it to [`Laboratory::committed`].
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// What the policy decided since the beginning, or since [`Laboratory::forget_decisions`].
    pub fn decisions(&self) -> Decisions {
        self.policy.decisions()
    }

    /// Forgets what the policy decided so far.
    pub fn forget_decisions(&self) {
        self.policy.forget();
    }

    /// What the policy would decide of a frame that enters there now. The run changes nothing, but counts as a decision.
    pub fn observe(&self, at: Location, frame: &[u8]) -> Observation {
        let run = Run::new(frame.into(), frame.len(), at, self.store.begin(), self.track_hosts);
        Observation::of(&*self.policy, &run)
    }

    /// The hosts where they are now, by name, with the addresses that the network knows of them.
    ///
    /// # Errors
    /// [`LabError`] if the laboratory has ended.
    pub fn hosts(&self) -> Result<Vec<(String, Host)>, LabError> {
        self.call(|_, world| {
            let one = |host: &maple_emulator::Host| {
                let spec = host.spec();
                let location = Location::new(spec.switch, spec.port);
                let ipv6 = [spec.ipv6, host.link_local()].into();
                (spec.name.clone(), (Mac(spec.mac), HostInfo { location, ipv4: [spec.ipv4].into(), ipv6 }))
            };
            Ok(world.network().hosts().map(one).collect())
        })
    }

    /// Looks for a packet that contradicts a claim, in a copy of the state as it is now.
    ///
    /// If the policy is compared with another one, `other` is the state that loading that one left. Trying packets takes
    /// the caller's thread, and no simulated time.
    ///
    /// # Errors
    /// [`LabError`] if the laboratory has ended, or no state fits both policies.
    pub fn examine(&self, question: Question, other: Option<&Snapshot>, packets: u64) -> Result<Examined, LabError> {
        let hosts = self.hosts()?.into_iter().map(|(_, host)| host).collect();
        let store = self.store.copy();
        if let Some(other) = other {
            let also = merge::besides(&store.snapshot(), other, &self.topology)?;
            store.update(|_| also);
        }
        Ok(check::examine(self.policy.inner(), &store, (hosts, self.track_hosts), question, packets))
    }

    /// Whether hosts are tracked.
    pub fn tracks_hosts(&self) -> bool {
        self.track_hosts
    }

    /// Asks for something. The channel delivers the answer when it is done.
    pub fn ask<R: Send + 'static>(
        &self,
        f: impl FnOnce(&Lab, &mut World) -> Result<R, LabError> + Send + 'static,
    ) -> Receiver<Result<R, LabError>> {
        let (answer, answered) = channel();
        let topology = Arc::clone(&self.topology);
        let job: Job = Box::new(move |world| {
            // The asker may have stopped waiting.
            let _ = answer.send(f(&Lab::new((*topology).clone()), world));
        });
        // If no thread takes the job, its answer's channel closes, which tells the asker.
        let _ = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).send(job);
        answered
    }

    /// Asks for something and waits for the answer.
    ///
    /// # Errors
    /// [`LabError`].
    pub fn call<R: Send + 'static>(
        &self,
        f: impl FnOnce(&Lab, &mut World) -> Result<R, LabError> + Send + 'static,
    ) -> Result<R, LabError> {
        self.ask(f).recv().unwrap_or_else(|_| Err(ended()))
    }

    /// Makes the policy's rules follow a commit on its store. This takes two milliseconds of simulated time, enough for
    /// some round trips of barriers.
    pub fn committed(&self, commit: Commit) -> Receiver<Result<(), LabError>> {
        self.ask(move |_, world| {
            world.simulation.send_event(0, Event::Committed(commit));
            world.pass(FOLLOWED)
        })
    }
}

fn ended() -> LabError {
    LabError::Failed("the laboratory has ended".into())
}

/// The thread's work: does jobs until no one can ask any more.
fn work(
    options: LaboratoryOptions,
    policy: Arc<dyn Policy>,
    store: Arc<Store>,
    inbox: &Receiver<Job>,
    ready: &Sender<Result<(), LabError>>,
) {
    let mut world = match World::new(&options, policy, Arc::clone(&store)) {
        Ok(world) => world,
        Err(error) => return drop(ready.send(Err(error))),
    };
    let known = world.until_known(&options.topology, &store);
    if ready.send(known).is_err() {
        return;
    }
    while let Ok(job) = inbox.recv() {
        job(&mut world);
    }
}

/// The network and the shard that controls it.
pub struct World {
    network: Network,
    simulation: Simulation,
    lines: BTreeMap<Dpid, Line>,
    dpids: Vec<Dpid>,
    snoop: Option<Snoop>,
    names: Names,
}

impl World {
    fn new(options: &LaboratoryOptions, policy: Arc<dyn Policy>, store: Arc<Store>) -> Result<World, LabError> {
        let network_options = NetworkOptions { seed: options.seed, ..NetworkOptions::new(options.version) };
        let network = Network::with_options(&options.topology, network_options);
        // No shard runs yet, so the commits need not be distributed.
        let declared = options.snooping.declare(&store).map_err(|error| LabError::Failed(error.to_string()))?;
        drop(declared);
        let (subscriptions, snoop) = Snoop::new(&options.snooping, &store)?;
        let setting = SimulationOptions {
            shards: 1,
            clock: Arc::default(),
            store,
            policy,
            engine: Options { track_hosts: options.track_hosts, ..Options::default() },
            deadlines: Deadlines::default(),
            limits: QueueLimits::default(),
            subscriptions,
        };
        let simulation = Simulation::new(&setting).map_err(|error| LabError::Failed(error.to_string()))?;
        let dpids = network.dpids().collect();
        let names = names_of(&options.topology);
        Ok(World { network, simulation, lines: BTreeMap::new(), dpids, snoop, names })
    }

    /// The current time.
    pub fn now(&self) -> Time {
        self.network.now()
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The trace tree of a switch as text.
    pub fn tree(&self, dpid: Dpid) -> String {
        self.simulation.tree(0, dpid)
    }

    /// Why a packet goes where it goes. Nothing changes by asking, and no time passes.
    ///
    /// # Errors
    /// [`LabError::Wrong`] if the question means no packet.
    pub fn explain(&self, question: &Explain) -> Result<Value, LabError> {
        let engines = self.simulation.engines();
        let Some(first) = engines.first() else { return Err(ended()) };
        let (store, conditions) = (Arc::clone(first.store()), first.conditions());
        let state = store.snapshot();
        let host = |mac: Mac| state.host(mac).cloned().or_else(|| self.host_info(mac));
        let packet = question.packet(&state, &self.names, &host);
        let (packet, assumed) = packet.map_err(|error| LabError::Wrong(error.to_string()))?;
        let explanation = explain::explain(&mut Engines(engines), &store, &conditions, packet);
        let context = Context { store: &store, counts: &Counts::new(), loaded: None };
        Ok(with_assumed(to_json(&explanation, &context), &assumed))
    }

    /// The names of switches and hosts.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// What the network knows of a host, whether or not the policy does.
    fn host_info(&self, mac: Mac) -> Option<HostInfo> {
        let host = self.network.hosts().find(|host| host.spec().mac == mac.0)?.spec();
        let location = Location::new(host.switch, host.port);
        Some(HostInfo { location, ipv4: [host.ipv4].into(), ipv6: [host.ipv6].into() })
    }

    /// The errors of f, each with its number of packets.
    pub fn failures(&self) -> Vec<(Arc<str>, u64)> {
        self.simulation.failures(0)
    }

    /// The routes that constraints refused, by constraint and line, each with the number of times.
    pub fn violations(&self) -> Vec<(ViolationKey, u64)> {
        self.simulation.violations(0)
    }

    /// Lets time pass until `until`.
    ///
    /// # Errors
    /// [`LabError::Failed`] if the controller never comes to rest.
    pub fn run_until(&mut self, until: Time) -> Result<(), LabError> {
        let mut turns = 0;
        let mut last = self.network.now();
        let mut came_in = true;
        loop {
            let now = self.network.now();
            let snoop = self.snoop.as_ref().map(Snoop::deadline);
            let deadline = self.simulation.next_turn(0).into_iter().chain(snoop).min().map(|at| at.0.max(now));
            if came_in || deadline.is_some_and(|at| at <= now) {
                turns = if now == last { turns + 1 } else { 1 };
                last = now;
                if turns > MAX_TURNS {
                    return Err(LabError::Failed(format!("the controller never comes to rest at {now} ns")));
                }
                self.turn()?;
                came_in = self.take()?;
                continue;
            }
            let next = self.network.next_event().into_iter().chain(deadline).min().filter(|at| *at <= until);
            self.network.run_until(next.unwrap_or(until));
            came_in = self.take()?;
            if next.is_none() && !came_in {
                return Ok(());
            }
        }
    }

    /// The shard takes a turn, and its messages go to the switches.
    fn turn(&mut self) -> Result<(), LabError> {
        let now = EngineTime(self.network.now());
        for batch in self.simulation.turn(now, 0) {
            self.simulation.deliver(batch);
        }
        for event in self.snoop.iter_mut().flat_map(|snoop| snoop.turn(now)) {
            self.simulation.send_event(0, event);
        }
        // They are not used here, but the channel would fill up.
        self.simulation.notices();
        let mut closed = Vec::new();
        for (dpid, line) in &self.lines {
            let bytes = line.take();
            if !bytes.is_empty() {
                self.network.from_controller(*dpid, &bytes)?;
            }
            if line.is_closed() {
                line.hang_up();
                closed.push(*dpid);
            }
        }
        for dpid in closed {
            self.lines.remove(&dpid);
            self.network.disconnect(dpid)?;
        }
        Ok(())
    }

    /// Hands the switches' messages to the shard. Returns whether there were any.
    fn take(&mut self) -> Result<bool, LabError> {
        let now = EngineTime(self.network.now());
        let mut came_in = false;
        for dpid in &self.dpids {
            for event in self.network.take_control(*dpid) {
                came_in = true;
                match event {
                    ControlEvent::Opened => drop(self.lines.insert(*dpid, self.simulation.connect(0))),
                    ControlEvent::Message(bytes) => {
                        if let Some(line) = self.lines.get(dpid) {
                            line.send(now, &bytes);
                        }
                    }
                    ControlEvent::Closed => {
                        if let Some(line) = self.lines.remove(dpid) {
                            line.hang_up();
                        }
                    }
                }
            }
        }
        Ok(came_in)
    }

    /// Runs until the state has the network's links, and has hosts' ports as edge ports. Links that lose much may stay
    /// unknown.
    fn until_known(&mut self, topology: &Topology, store: &Store) -> Result<(), LabError> {
        while self.now() < KNOWN && !is_known(&store.snapshot(), topology) {
            self.run_until(self.now() + 50 * MILLISECOND)?;
        }
        // Rules for what was found are still on their way.
        self.run_until(self.now() + 50 * MILLISECOND)
    }

    /// Sends a frame as a host would, and waits until it has come out everywhere.
    ///
    /// # Errors
    /// [`LabError`] if there is no such host.
    pub fn send(&mut self, host: &str, frame: Vec<u8>) -> Result<Journey, LabError> {
        let id = self.network.inject_from(host, frame)?;
        self.run_until(self.now() + SETTLED)?;
        Ok(self.journey(id))
    }

    /// Sends a frame as a host would, and waits until all its copies have come out.
    ///
    /// A frame that the switches' rules answer takes only as long as its path. One that comes to the controller takes a
    /// second, since the controller may hold it.
    ///
    /// # Errors
    /// [`LabError`] if there is no such host.
    pub fn deliver(&mut self, host: &str, frame: Vec<u8>) -> Result<Journey, LabError> {
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

    /// Whether nothing more becomes of a frame: rules have answered all its copies, and none is under way.
    fn is_through(&self, id: FrameId) -> bool {
        let mut fates = self.network.log().of(id).peekable();
        fates.peek().is_some()
            && fates.all(|fate| !matches!(fate.outcome, Outcome::Controller(_)))
            && !self.network.is_in_flight(id)
    }

    /// Has a host open a flow to another, and waits until it has ended, for so long at most.
    ///
    /// # Errors
    /// [`LabError`] if one of them is not there.
    pub fn flow(
        &mut self,
        (src, dst): (&str, &str),
        kind: Kind,
        ipv6: bool,
        within: Time,
    ) -> Result<Progress, LabError> {
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

    /// Takes a switch down, with its links, its hosts' ports and its connection, or up again with empty tables.
    ///
    /// # Errors
    /// [`LabError`] if there is no such switch.
    pub fn switch_power(&mut self, dpid: Dpid, on: bool) -> Result<(), LabError> {
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

    /// Has all hosts announce themselves, so that the controller knows where they are, with their IPv4 addresses.
    ///
    /// # Errors
    /// [`LabError`] if the controller never comes to rest.
    pub fn introduce_hosts(&mut self) -> Result<(), LabError> {
        let names: Vec<String> = self.network.hosts().map(|host| host.spec().name.clone()).collect();
        for name in names {
            self.network.announce(&name)?;
            self.run_until(self.now() + INTRODUCED)?;
        }
        self.run_until(self.now() + SETTLED)
    }

    /// The last frame since a time that one host sent to another's hardware address, and what happened to it.
    pub fn last_journey(&self, from: &str, to: &str, since: Time) -> Option<Journey> {
        let (from, to) = (self.network.host(from)?.spec(), self.network.host(to)?.spec());
        let origin = Origin::Port(from.switch, from.port);
        let log = self.network.log();
        let mut fits = log.entries().filter(|e| e.at >= since && e.origin == origin && e.frame.starts_with(&to.mac));
        fits.next_back().map(|entry| self.journey(entry.id))
    }

    fn journey(&self, id: FrameId) -> Journey {
        let log = self.network.log();
        let entry = log.entry(id);
        let copies = log.of(id).filter_map(|delivery| {
            let end = match &delivery.outcome {
                Outcome::Egress { host: Some(host), .. } => Ok(host.clone()),
                Outcome::Egress { dpid, port, host: None } => {
                    Err(format!("left by port {port} of {dpid}: nobody is there"))
                }
                Outcome::Dropped(dpid, why) => Err(format!("ended at {dpid}: {why}")),
                // The frame goes on from the controller.
                Outcome::Controller(_) => return None,
            };
            Some(Copy { path: delivery.path.clone(), end, frame: delivery.frame.clone() })
        });
        Journey { frame: entry.map(|entry| entry.frame.clone()).unwrap_or_default(), copies: copies.collect() }
    }
}

impl Ground for World {
    fn with<R: Send + 'static>(&mut self, f: impl FnOnce(&mut Network) -> R + Send + 'static) -> Result<R, LabError> {
        let done = f(&mut self.network);
        self.run_until(self.network.now())?;
        Ok(done)
    }

    fn pass(&mut self, span: Time) -> Result<(), LabError> {
        self.run_until(self.network.now().saturating_add(span))
    }
}

/// Whether the state has all links of a network, and its hosts' ports as edge ports.
pub fn is_known(state: &Snapshot, topology: &Topology) -> bool {
    let kind = |(dpid, port)| state.port(Location::new(dpid, port)).map(|port| port.kind);
    topology.hosts.iter().all(|host| kind((host.switch, host.port)) == Some(PortKind::Edge))
        && topology
            .links
            .iter()
            .flat_map(|link| [link.a, link.b])
            .all(|end| matches!(kind(end), Some(PortKind::Link(_))))
}

/// The names of a network's switches and hosts.
fn names_of(topology: &Topology) -> Names {
    let mut names = Names::new();
    let hosts = topology.hosts.iter().map(|host| (&host.name, Named::Host(Mac(host.mac))));
    let switches = topology.switches.iter().map(|switch| (&switch.name, Named::Switch(switch.dpid)));
    for (name, of) in hosts.chain(switches) {
        // What can't be a name, such as a number, is not needed as one.
        let _ = names.add(name, of);
    }
    names
}

/// A time span from seconds.
///
/// # Errors
/// [`LabError::Wrong`] unless it is a number from 0 to a day.
pub fn seconds(seconds: f64) -> Result<Time, LabError> {
    let span = Duration::try_from_secs_f64(seconds).ok().filter(|span| span.as_secs() <= 86_400);
    let wrong = || LabError::Wrong(format!("{seconds} is not a number of seconds from 0 to 86400"));
    span.map(|span| span.as_nanos() as Time).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use maple_core::policy::{Net, PacketHandle};
    use maple_core::route::Route;

    use super::*;

    fn shortest(pkt: &PacketHandle, net: &Net) -> Route {
        if pkt.is_multicast() {
            return Route::flood();
        }
        match (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst())) {
            (Some(src), Some(dst)) => net.shortest_path(src, dst),
            _ => Route::flood(),
        }
    }

    fn laboratory(topology: &str, version: Version) -> Laboratory {
        let topology = Topology::parse(topology).unwrap();
        let options =
            LaboratoryOptions { topology, version, seed: 1, track_hosts: true, snooping: Snooping::default() };
        Laboratory::start(options, Arc::new(shortest), Store::new()).unwrap()
    }

    fn say(lab: &Laboratory, lines: &[&str]) -> Vec<String> {
        let one = |line: &&str| {
            let line = line.to_string();
            lab.call(move |lab, world| lab.line(world, &line)).unwrap_or_else(|error| format!("error: {error}"))
        };
        lines.iter().map(one).collect()
    }

    #[test]
    fn a_lesson_in_simulated_time_is_the_same_each_time() {
        let lesson = [
            "h1 ping h3 2",
            "pingall",
            "link s1 s2 down",
            "wait 500ms",
            "h1 ping h2",
            "switch s3 restart",
            "wait 1s",
            "h4 ping h3",
            "link s1 s4 loss 30%",
            "h1 iperf h4 1s 1mbit",
            "show losses",
        ];
        for version in [Version::Of10, Version::Of13] {
            let told = say(&laboratory("ring:4", version), &lesson);
            assert!(told.iter().all(|line| !line.starts_with("error")), "{told:?}");
            assert_eq!(told[1], "pingall: 12 of 12 answered");
            assert_eq!(told, say(&laboratory("ring:4", version), &lesson));
        }
    }

    #[test]
    fn a_day_passes_at_once_and_hosts_are_still_found() {
        let lab = laboratory("linear:2", Version::Of13);
        assert!(say(&lab, &["h1 ping h2"])[0].contains("answered in"));
        lab.call(|_, world| world.pass(seconds(3600.0)?)).unwrap();
        assert!(say(&lab, &["h1 ping h2"])[0].contains("answered in"));
        assert!(lab.call(|_, world| Ok(world.now())).unwrap() > 3600 * SECOND);
    }

    #[test]
    fn a_frame_can_be_followed() {
        let lab = laboratory("ring:4", Version::Of13);
        say(&lab, &["pingall"]);
        let journey = lab.call(|_, world| Ok(world.last_journey("h1", "h3", 0))).unwrap().unwrap();
        let [copy] = &journey.copies[..] else { panic!("{journey:?}") };
        assert_eq!((copy.end.as_deref(), copy.path.len()), (Ok("h3"), 3));
    }
}
