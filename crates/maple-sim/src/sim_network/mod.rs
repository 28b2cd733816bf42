//! A network in one thread: engines, simulated switches, links and hosts, with simulated time.
//!
//! Between any two parties, messages arrive in the order in which they were sent, after delays drawn from a seed.
//! Messages between different pairs can overtake each other. Equal seeds give equal runs. The simulation is for tests
//! of the engine and of what is built on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use maple_core::engine::{
    Candidate, Engine, Event, ListenerPacket, LiveNews, Options, Rehearsal, Rehearsed, RuleCount, ShardId, Stats, Time,
    Trial,
};
use maple_core::network::{Facts, Location, Mac};
use maple_core::policy::Policy;
use maple_core::report::Report;
use maple_core::state::{Snapshot, Store, Write};
use maple_switch::SwitchPort;
use maple_wire::msg::stats::Desc;
use maple_wire::msg::{Features, Message, PortReason, PortStatus};
use maple_wire::{Dpid, Packet, Port, PortNo, Version};

mod bridge;
mod connection;
mod frames;
mod restart;
mod time;

use crate::choices::Choices;
use crate::switch::SimSwitch;

/// A frame that came out of the network.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Delivery {
    /// The edge port.
    pub at: Location,
    /// The frame.
    pub frame: Vec<u8>,
}

impl std::fmt::Debug for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let packet = Packet::new(&self.frame, 0);
        write!(f, "{} at {}", maple_wire::packet::text::summary(&packet), self.at)
    }
}

/// A channel whose messages keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Channel {
    ToShard(Dpid),
    Removals(Dpid),
    ToSwitch(Dpid),
    Mail(ShardId, ShardId),
    Outside(ShardId),
    Link(Location),
}

#[derive(Debug)]
enum Happening {
    Event(ShardId, Box<Event>),
    Message(Dpid, u32, Box<Message>),
    ReadRules(Dpid),
    Frame(Location, Vec<u8>),
}

/// A function that is called with a switch after each message that it has obeyed.
pub type SwitchWatch = dyn FnMut(&mut SimSwitch);

/// The network with its controller.
pub struct SimNetwork {
    /// The current time.
    pub now: Time,
    /// The state that all shards share.
    pub store: Arc<Store>,
    /// Frames that came out of edge ports since they were last taken.
    pub delivered: Vec<Delivery>,
    /// The reports, in order.
    pub reports: Vec<Report>,
    /// Every state that the store has gone through since it was last taken, the first included.
    pub history: Vec<Arc<Snapshot>>,
    /// The maximum delay of a message between engines, or between engine and switch.
    pub max_delay: Duration,
    /// The additional delay of frames from one switch to another.
    pub link_delay: Duration,
    /// The number of packets that the fast path answered.
    pub hits: u64,
    /// The number of flow-mods that switches received.
    pub flow_mods: u64,
    /// A function that is called with a switch after each message that the switch has obeyed, if a caller puts one
    /// here.
    pub watch: Option<Box<SwitchWatch>>,
    /// The messages to switches, in the order of arrival. They are recorded if a caller puts a list here.
    pub messages: Option<Vec<(Dpid, Message)>>,
    /// The answers that callers asked the controller for.
    pub answers: Answers,
    controller: ControllerParts,
    wiring: Wiring,
    schedule: Schedule,
}

/// The answers of the controller's shards, in order.
#[derive(Debug, Default)]
pub struct Answers {
    /// The counters of rules that were requested, each with the number of its request.
    pub counted: Vec<(u64, Option<RuleCount>)>,
    /// The results of trials.
    pub trials: Vec<Trial>,
    /// The packets that listeners get.
    pub heard: Vec<ListenerPacket>,
    /// The news of watches.
    pub live: Vec<(u64, LiveNews)>,
}

/// The controller around the state that its shards share.
struct ControllerParts {
    engines: Vec<Engine>,
    /// The snapshots that are not in the history yet.
    trail: mpsc::Receiver<Arc<Snapshot>>,
    options: Options,
    /// The memory for the next run.
    memory: restart::Memory,
    /// All policies so far, by number: the first one, and the candidates of reloads.
    policies: Vec<Arc<dyn Policy>>,
    /// The number of the newest policy that some shard has adopted.
    adopted: usize,
    /// The candidate of the last reload.
    candidate: Option<Candidate>,
    /// The number of the last wait that began. `waits` has, by number, the shards that have not answered the waits that
    /// go on.
    last_wait: u64,
    waits: BTreeMap<u64, BTreeSet<ShardId>>,
}

/// The switches and hosts, and what joins them.
#[derive(Default)]
struct Wiring {
    shards: BTreeMap<Dpid, ShardId>,
    switches: BTreeMap<Dpid, SimSwitch>,
    /// The switches that have restarted, until their shard learns that the connection is gone. Messages of the shard to
    /// them are lost meanwhile.
    unheard: BTreeSet<Dpid>,
    /// The switches whose connection has ended.
    away: BTreeSet<Dpid>,
    links: BTreeMap<Location, Location>,
    bridges: Vec<bridge::Bridge>,
    hosts: BTreeMap<Mac, Location>,
}

/// The events to come, with their times.
struct Schedule {
    queue: BTreeMap<(Time, u64), Happening>,
    last: BTreeMap<Channel, Time>,
    sent: u64,
    random: Choices,
}

impl SimNetwork {
    /// Creates a controller with this many shards and no switch.
    pub fn new(policy: Arc<dyn Policy>, shards: u8, options: &Options, seed: u64) -> SimNetwork {
        let (store, trail) = new_store();
        store.update(|_| vec![Write::CostName("cost".into())]);
        let options = Options { remember: true, ..options.clone() };
        let engine = |shard| Engine::new(ShardId(shard), store.clone(), policy.clone(), options.clone());
        let engines = (0..shards.max(1)).map(engine).collect();
        SimNetwork {
            now: Time(1),
            history: trail.try_iter().collect(),
            store,
            delivered: Vec::new(),
            reports: Vec::new(),
            max_delay: Duration::from_millis(2),
            link_delay: Duration::ZERO,
            hits: 0,
            flow_mods: 0,
            watch: None,
            messages: None,
            answers: Answers::default(),
            controller: ControllerParts {
                engines,
                trail,
                options,
                memory: restart::Memory::default(),
                policies: vec![policy],
                adopted: 0,
                candidate: None,
                last_wait: 0,
                waits: BTreeMap::new(),
            },
            wiring: Wiring::default(),
            schedule: Schedule { queue: BTreeMap::new(), last: BTreeMap::new(), sent: 0, random: Choices::new(seed) },
        }
    }

    /// Connects a switch with ports 1 to `ports`.
    pub fn add_switch(&mut self, dpid: Dpid, version: Version, ports: u32) {
        self.connect(SimSwitch::new(dpid, version), (1..=ports).map(PortNo));
    }

    /// Connects a switch with these ports.
    pub fn connect(&mut self, mut switch: SimSwitch, ports: impl IntoIterator<Item = PortNo>) {
        let dpid = switch.model.dpid();
        for port in ports {
            switch.model.add_port(self.now.0, port);
        }
        let shard = ShardId((dpid.0 % self.controller.engines.len() as u64) as u8);
        self.wiring.shards.insert(dpid, shard);
        self.wiring.switches.insert(dpid, switch);
        self.announce(dpid);
    }

    /// Joins two ports. The controller learns of it immediately.
    pub fn add_link(&mut self, a: Location, b: Location) {
        self.wiring.links.extend([(a, b), (b, a)]);
        self.report(Event::LinkUp { a, b });
    }

    /// Puts a host at an edge port, or moves it there.
    pub fn place_host(&mut self, mac: Mac, at: Location) {
        self.wiring.hosts.insert(mac, at);
    }

    /// Changes the options of the controller's next run.
    pub fn set_options(&mut self, change: impl FnOnce(&mut Options)) {
        change(&mut self.controller.options);
    }

    /// Reports to the controller that all ports without a link are edge ports.
    pub fn settle_ports(&mut self) {
        self.edge_ports().into_iter().for_each(|port| self.report(Event::PortIsEdge { port }));
    }

    /// Runs until nothing happens, as when switches and links are new, and again when all ports are known.
    pub fn settle(&mut self) {
        self.run();
        self.settle_ports();
        self.run();
    }

    /// Returns the true location of a host.
    pub fn host_at(&self, mac: Mac) -> Option<Location> {
        self.wiring.hosts.get(&mac).copied()
    }

    /// Returns the links, each once.
    pub fn links(&self) -> Vec<(Location, Location)> {
        self.wiring.links.iter().filter(|(a, b)| a < b).map(|(a, b)| (*a, *b)).collect()
    }

    /// Returns the ports of a switch.
    pub fn ports_of(&self, dpid: Dpid) -> Vec<Location> {
        let ports = self.wiring.switches.get(&dpid).into_iter().flat_map(|switch| switch.model.ports().keys());
        ports.map(|port| Location::new(dpid, *port)).collect()
    }

    /// Returns the ports without a link.
    pub fn edge_ports(&self) -> Vec<Location> {
        let all = self.wiring.switches.keys().flat_map(|dpid| self.ports_of(*dpid));
        all.filter(|at| !self.wiring.links.contains_key(at)).collect()
    }

    /// Returns a switch.
    pub fn switch(&mut self, dpid: Dpid) -> Option<&mut SimSwitch> {
        self.wiring.switches.get_mut(&dpid)
    }

    /// Returns the switches, by datapath id.
    pub fn switches(&self) -> impl Iterator<Item = &SimSwitch> {
        self.wiring.switches.values()
    }

    /// Reports whether a port is up.
    pub fn is_up(&self, at: Location) -> bool {
        self.port(at).is_some_and(|port| port.description.is_up())
    }

    fn port(&self, at: Location) -> Option<&SwitchPort> {
        self.wiring.switches.get(&at.switch)?.model.ports().get(&at.port)
    }

    /// Draws delays and the like from another seed from now on.
    pub fn reseed(&mut self, seed: u64) {
        self.schedule.random = Choices::new(seed);
    }

    /// Returns the engines, by shard.
    pub fn engines(&self) -> &[Engine] {
        &self.controller.engines
    }

    /// Returns the counts of all engines together.
    pub fn stats(&self) -> Stats {
        let mut all = Stats::default();
        self.controller.engines.iter().for_each(|engine| all += engine.view().stats());
        all
    }

    /// Reloads the policy: each shard tries the new one first.
    pub fn reload(&mut self, policy: Arc<dyn Policy>) {
        let number = self.controller.policies.len() as u64;
        self.controller.policies.push(Arc::clone(&policy));
        let candidate = Candidate { number, policy };
        self.controller.candidate = Some(candidate.clone());
        for shard in (0..self.controller.engines.len()).map(|number| ShardId(number as u8)) {
            let event = Happening::Event(shard, Box::new(Event::Try(candidate.clone())));
            self.schedule(Channel::Outside(shard), event);
        }
    }

    /// Returns what a reload would change.
    pub fn rehearse(&self, policy: Arc<dyn Policy>) -> Rehearsed {
        let rehearsal = Rehearsal::new(self.controller.engines.iter().map(Engine::copy).collect());
        rehearsal.expect("no rules are being read").adopt(&Candidate { number: 0, policy })
    }

    /// Sends an event for any shard, as the controller's other parts do.
    pub fn report(&mut self, event: Event) {
        let shard = match &event {
            Event::PortIsEdge { port } => self.wiring.shards.get(&port.switch).copied().unwrap_or_default(),
            Event::LinkUp { a, .. } | Event::LinkDown { a, .. } => {
                self.wiring.shards.get(&a.switch).copied().unwrap_or_default()
            }
            _ => ShardId(self.schedule.random.below(self.controller.engines.len()) as u8),
        };
        self.schedule(Channel::Outside(shard), Happening::Event(shard, Box::new(event)));
    }

    /// Sends an event to the shard of a switch.
    pub fn report_to_owner(&mut self, dpid: Dpid, event: Event) {
        let shard = self.wiring.shards.get(&dpid).copied().unwrap_or_default();
        self.schedule(Channel::Outside(shard), Happening::Event(shard, Box::new(event)));
    }

    /// Declares other facts, for the running controller and its next run.
    pub fn declare(&mut self, facts: Arc<Facts>) {
        self.controller.options.facts = Arc::clone(&facts);
        let number = self.store.number_declaration();
        for shard in (0..self.controller.engines.len()).map(|number| ShardId(number as u8)) {
            let event = Happening::Event(shard, Box::new(Event::Declare { number, facts: Arc::clone(&facts) }));
            self.schedule(Channel::Outside(shard), event);
        }
    }

    /// Lets a frame enter at a port.
    pub fn inject(&mut self, at: Location, frame: Vec<u8>) {
        self.schedule(Channel::Link(at), Happening::Frame(at, frame));
    }

    /// Takes a port down or up, also one that was removed. If it has a link, the far end notices too.
    pub fn set_port(&mut self, at: Location, up: bool) {
        let both = [Some(at), self.wiring.links.get(&at).copied()];
        for at in both.into_iter().flatten() {
            if let Some(switch) = self.wiring.switches.get_mut(&at.switch) {
                switch.model.add_port(self.now.0, at.port);
                switch.model.set_link(at.port, up);
                self.report_port(PortReason::Modify, at);
            }
        }
    }

    /// Lets a switch report a port and its state.
    fn report_port(&mut self, reason: PortReason, at: Location) {
        let status = PortStatus { reason, port: self.described(at) };
        self.notify(at.switch, Event::PortStatus { dpid: at.switch, status });
    }

    /// Returns the description of a port, of whose properties the engine learns only the state.
    fn described(&self, at: Location) -> Port {
        let is_down = self.port(at).is_some_and(|port| !port.description.is_up());
        Port { state: if is_down { Port::STATE_LINK_DOWN } else { 0 }, ..Port::new(at.port, [0; 6], "port") }
    }

    /// Takes a port away from its switch. If it has a link, the far end goes down.
    pub fn remove_port(&mut self, at: Location) {
        if self.port(at).is_none() {
            return;
        }
        self.wiring.switches.get_mut(&at.switch).into_iter().for_each(|of| drop(of.model.remove_port(at.port)));
        self.report_port(PortReason::Delete, at);
        if let Some(peer) = self.wiring.links.get(&at).copied() {
            self.set_port(peer, false);
        }
    }

    /// Gives a switch a port without a link, which is up. [`SimNetwork::rediscover`] finds the kind of the port.
    pub fn add_port(&mut self, at: Location) {
        let now = self.now.0;
        self.wiring.switches.get_mut(&at.switch).into_iter().for_each(|of| drop(of.model.add_port(now, at.port)));
        self.report_port(PortReason::Add, at);
    }

    /// Reports that a switch is gone.
    pub fn disconnect(&mut self, dpid: Dpid) {
        self.notify(dpid, Event::SwitchDown { dpid });
    }

    /// Lets discovery find the kind of a port that came up.
    pub fn rediscover(&mut self, at: Location) {
        match self.wiring.links.get(&at) {
            Some(peer) => self.report(Event::LinkUp { a: at, b: *peer }),
            None => self.report(Event::PortIsEdge { port: at }),
        }
    }

    /// Lets a switch lose its rules and connect again.
    pub fn restart(&mut self, dpid: Dpid) {
        let Some(switch) = self.wiring.switches.get_mut(&dpid) else { return };
        switch.edit_flows(Vec::clear);
        self.reconnect(dpid);
    }

    /// Lets a switch connect again, with its rules.
    pub fn reconnect(&mut self, dpid: Dpid) {
        if !self.wiring.switches.contains_key(&dpid) {
            return;
        }
        // Messages under way between the two are lost with the connection.
        let shard = self.wiring.shards[&dpid];
        self.schedule.queue.retain(|_, happening| match happening {
            Happening::Message(to, ..) | Happening::ReadRules(to) => *to != dpid,
            Happening::Event(to, event) => *to != shard || switch_of(event) != Some(dpid),
            Happening::Frame(..) => true,
        });
        self.wiring.unheard.insert(dpid);
        self.wiring.away.remove(&dpid);
        self.notify(dpid, Event::SwitchDown { dpid });
        self.announce(dpid);
    }

    /// Lets a switch report which of its ports are up.
    fn report_ports(&mut self, dpid: Dpid) {
        self.ports_of(dpid).into_iter().for_each(|at| self.report_port(PortReason::Modify, at));
    }

    /// Deletes one of our rules, as another controller would.
    pub fn lose_rule(&mut self, dpid: Dpid, index: usize) {
        let Some(switch) = self.wiring.switches.get_mut(&dpid) else { return };
        if let Some(flow) = switch.flows().get(index) {
            let out = switch.lose(flow);
            self.leave(dpid, out);
        }
    }

    /// Lets a switch connect and say what it is.
    fn announce(&mut self, dpid: Dpid) {
        let Some(switch) = self.wiring.switches.get_mut(&dpid) else { return };
        switch.connect();
        let (version, options) = (switch.model.version(), switch.model.options());
        let features = Features::new(dpid, switch.model.n_tables());
        let ports: Vec<Port> = self.ports_of(dpid).into_iter().map(|at| self.described(at)).collect();
        // Some switches are strict, and some accept what Open vSwitch accepts.
        let description = if options.open_vswitch {
            Desc { manufacturer: "Nicira, Inc.".into(), hardware: "Open vSwitch".into(), ..Desc::default() }
        } else {
            Desc::default()
        };
        let has_bundles = options.bundles && version == Version::Of13;
        self.notify(dpid, Event::SwitchUp { dpid, version, features, description, ports, has_bundles });
    }

    fn notify(&mut self, dpid: Dpid, event: Event) {
        let shard = self.wiring.shards[&dpid];
        self.schedule(Channel::ToShard(dpid), Happening::Event(shard, Box::new(event)));
    }

    /// Returns the datapath ids of all switches.
    pub fn dpids(&self) -> BTreeSet<Dpid> {
        self.wiring.switches.keys().copied().collect()
    }
}

/// Creates a store, and the channel of all its snapshots.
fn new_store() -> (Arc<Store>, mpsc::Receiver<Arc<Snapshot>>) {
    let store = Store::new();
    let (sender, trail) = mpsc::channel();
    store.observe(move |snapshot| sender.send(Arc::clone(snapshot)).unwrap_or_default());
    (store, trail)
}

/// Returns the switch that an event came from.
fn switch_of(event: &Event) -> Option<Dpid> {
    match event {
        Event::SwitchUp { dpid, .. }
        | Event::SwitchDown { dpid }
        | Event::SwitchUnreachable { dpid }
        | Event::SwitchReachable { dpid }
        | Event::PacketIn { dpid, .. }
        | Event::PortStatus { dpid, .. }
        | Event::FlowRemoved { dpid, .. }
        | Event::SwitchError { dpid, .. }
        | Event::BarrierReply { dpid, .. }
        | Event::FlowStats { dpid, .. }
        | Event::RulesRead { dpid, .. } => Some(*dpid),
        _ => None,
    }
}
