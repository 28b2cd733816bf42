//! A whole network in simulated time: switches, hosts, links, control channels, and their faults.
//!
//! The network is a queue of events, ordered by time and then by the order of their creation. So one topology, one seed
//! and one sequence of calls give one run. It does nothing by itself: [`EmulatedNetwork::run_until`] lets time pass.
//! The controller's side of every channel is two calls, [`EmulatedNetwork::take_control`] and
//! [`EmulatedNetwork::from_controller`].
//!
//! ```text
//!   host ── wire ── switch ── link ── switch ── wire ── host        frames, DeliveryLog
//!                     │ control delay
//!        take_control / from_controller                             whole OpenFlow messages
//! ```
//!
//! A frame keeps its [`FrameId`] through the switches and also through the controller: a packet-out with the bytes of
//! an earlier packet-in continues as that frame, on the path that led there. If several frames have the same bytes, the
//! last one that came to the controller is meant. So tests that check where a frame went give each frame its own
//! payload.

use std::collections::BTreeMap;

use maple_switch::time::{MICROSECOND, MILLISECOND, Nanoseconds};
use maple_switch::{Switch, SwitchOptions};
use maple_wire::{Dpid, PortNo, Version};
use rustc_hash::FxHashMap;

use crate::host::Host;
use crate::pairs::{PairCounters, PairKey};
use crate::random::Random;
use crate::topology::{LinkSpec, Topology};

mod agenda;
mod channel;
mod control;
mod egress;
mod faults;
mod frames;
mod log;
mod punted;
mod records;
mod shaping;

#[cfg(test)]
mod tests;

pub use channel::{ControlEvent, ControlFaults};
pub use faults::{Fault, NetworkError};
pub use log::{Delivery, DeliveryLog, Drop, EnteredFrame, FrameId, Hop, Origin, Outcome};

use agenda::{Agenda, Event};
use channel::Channel;
use punted::Punted;
use records::Records;
use shaping::ShapedPort;

/// The options of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkOptions {
    /// The OpenFlow version of the switches.
    pub version: Version,
    /// The capacity of the switches.
    pub switch: SwitchOptions,
    /// The seed of everything random.
    pub seed: u64,
    /// The one-way delay of a control message, in nanoseconds.
    pub control_delay: Nanoseconds,
    /// The delay of a frame between a host and its switch, in nanoseconds.
    pub host_delay: Nanoseconds,
    /// The time in nanoseconds that a switch waits before it connects again.
    pub reconnect_delay: Nanoseconds,
    /// The number of controllers, at least one. Each switch has a channel to each of them. Those after the first one
    /// are named in [`EmulatedNetwork::connect_to`] and its like.
    pub controllers: u16,
    /// Whether switches connect by themselves; otherwise [`EmulatedNetwork::connect`] makes them connect.
    pub connects: bool,
    /// The maximum number of switches on a frame's path. At least twice the number of switches.
    pub max_hops: usize,
    /// The maximum number of copies of one frame. At least two for each host.
    pub max_copies: usize,
    /// The maximum number of entries, and of deliveries, in the log.
    pub log_limit: usize,
}

impl NetworkOptions {
    /// Creates options with the usual behaviour: 1 µs to hosts, 50 µs to the controller, reconnects after 10 ms, 64
    /// hops, 4,096 copies, a log of 100,000, seed 0.
    pub fn new(version: Version) -> NetworkOptions {
        NetworkOptions {
            version,
            switch: SwitchOptions::default(),
            seed: 0,
            control_delay: 50 * MICROSECOND,
            host_delay: MICROSECOND,
            reconnect_delay: 10 * MILLISECOND,
            controllers: 1,
            connects: true,
            max_hops: 64,
            max_copies: 4_096,
            log_limit: 100_000,
        }
    }
}

/// A simulated network.
#[derive(Debug)]
pub struct EmulatedNetwork {
    options: NetworkOptions,
    now: Nanoseconds,
    random: Random,
    agenda: Agenda,
    nodes: BTreeMap<Dpid, Node>,
    hosts: Vec<HostNode>,
    /// The indexes of hosts in that list.
    host_names: FxHashMap<String, usize>,
    host_macs: FxHashMap<[u8; 6], usize>,
    links: Vec<Link>,
    wires: BTreeMap<(Dpid, PortNo), Wire>,
    shaped: BTreeMap<(Dpid, PortNo), ShapedPort>,
    punted: Punted,
    frames: u64,
    copies: BTreeMap<FrameId, usize>,
    records: Records,
}

/// A switch and its channels, by controller.
#[derive(Debug)]
struct Node {
    switch: Switch,
    channels: Vec<Channel>,
    timer: Option<Nanoseconds>,
}

#[derive(Debug)]
struct HostNode {
    host: Host,
    timer: Option<Nanoseconds>,
}

/// A link between two switches, and whether it is up.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// The link's description.
    pub spec: LinkSpec,
    /// Whether it carries frames.
    pub up: bool,
}

/// The device at the other end of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    Link(usize),
    Host(usize),
}

impl EmulatedNetwork {
    /// Creates a network of this topology whose switches speak `version`, at time 0.
    pub fn new(topology: &Topology, version: Version) -> EmulatedNetwork {
        EmulatedNetwork::with_options(topology, NetworkOptions::new(version))
    }

    /// Creates a network with these options.
    pub fn with_options(topology: &Topology, mut options: NetworkOptions) -> EmulatedNetwork {
        // A flood reaches every host over some links, which is not a storm; a path along all switches is not a loop.
        options.max_copies = options.max_copies.max(2 * topology.hosts.len());
        options.max_hops = options.max_hops.max(2 * topology.switches.len());
        let mut network = EmulatedNetwork {
            now: 0,
            random: Random::new(options.seed),
            agenda: Agenda::default(),
            nodes: BTreeMap::new(),
            hosts: topology.hosts.iter().map(|h| HostNode { host: Host::new(h.clone()), timer: None }).collect(),
            host_names: topology.hosts.iter().enumerate().map(|(at, h)| (h.name.clone(), at)).collect(),
            host_macs: topology.hosts.iter().enumerate().map(|(at, h)| (h.mac, at)).collect(),
            links: topology.links.iter().map(|spec| Link { spec: spec.clone(), up: true }).collect(),
            wires: BTreeMap::new(),
            shaped: BTreeMap::new(),
            punted: Punted::default(),
            frames: 0,
            copies: BTreeMap::new(),
            records: Records::new(options.log_limit),
            options,
        };
        network.add_switches(topology);
        network.add_wires(topology);
        network.set_rates(topology);
        network
    }

    fn add_switches(&mut self, topology: &Topology) {
        let mut ports = topology.all_ports();
        for spec in &topology.switches {
            let mut switch = Switch::new(spec.dpid, self.options.version, self.options.switch);
            for port in ports.remove(&spec.dpid).unwrap_or_default() {
                switch.add_port(0, port);
            }
            let channels = vec![Channel::default(); usize::from(self.options.controllers.max(1))];
            self.nodes.insert(spec.dpid, Node { switch, channels, timer: None });
            if self.options.connects {
                self.channels_of(spec.dpid).for_each(|channel| self.at(0, Event::Connect(channel, 0)));
            }
        }
    }

    fn add_wires(&mut self, topology: &Topology) {
        for (i, link) in topology.links.iter().enumerate() {
            self.wires.insert(link.a, Wire::Link(i));
            self.wires.insert(link.b, Wire::Link(i));
        }
        for (i, host) in topology.hosts.iter().enumerate() {
            self.wires.insert((host.switch, host.port), Wire::Host(i));
        }
    }

    /// Sets the rates of links and queues.
    fn set_rates(&mut self, topology: &Topology) {
        for link in topology.links.iter().filter(|link| link.rate.is_some()) {
            for (dpid, port) in [link.a, link.b] {
                self.set_port_rate(dpid, port, link.rate).expect("ends of links are ports of the topology");
            }
        }
        for spec in &topology.queues {
            let set = self.set_queue(spec.switch, spec.port, spec.queue, Some(spec.rates));
            set.expect("queues are at ports of the topology");
        }
    }

    /// Returns the current time.
    pub fn now(&self) -> Nanoseconds {
        self.now
    }

    /// Returns the datapath ids of the network's switches, in ascending order.
    pub fn dpids(&self) -> impl Iterator<Item = Dpid> {
        self.nodes.keys().copied()
    }

    /// Returns the switch with this datapath id.
    pub fn switch(&self, dpid: Dpid) -> Option<&Switch> {
        self.nodes.get(&dpid).map(|node| &node.switch)
    }

    /// Returns the hosts, in the topology's order.
    pub fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.hosts.iter().map(|node| &node.host)
    }

    /// Returns the host of this name.
    pub fn host(&self, name: &str) -> Option<&Host> {
        self.host_names.get(name).map(|at| &self.hosts[*at].host)
    }

    /// Returns the links, in the topology's order.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Returns the log of frames.
    pub fn log(&self) -> &DeliveryLog {
        &self.records.log
    }

    /// Clears the log, for instance between two tests on one network.
    pub fn clear_log(&mut self) {
        self.records.log.clear();
    }

    /// Returns the frames sent and delivered between each pair of hosts, by kind.
    pub fn pairs(&self) -> &BTreeMap<PairKey, PairCounters> {
        &self.records.pairs
    }

    /// Copies of frames that were dropped since the beginning, by switch and reason.
    pub fn losses(&self) -> &BTreeMap<(Dpid, Drop), u64> {
        &self.records.losses
    }

    /// Returns when a switch last restarted, or when a part of it last failed or returned: a port, a link, its
    /// connection.
    pub fn disturbed(&self, dpid: Dpid) -> Option<Nanoseconds> {
        self.records.disturbances.get(&dpid).copied()
    }

    /// Returns the errors of scheduled faults that named something that did not exist at their time.
    pub fn failed_faults(&self) -> &[NetworkError] {
        &self.records.failed_faults
    }

    /// Returns the time of the next event.
    pub fn next_event(&self) -> Option<Nanoseconds> {
        self.agenda.next_at()
    }

    /// Reports whether copies of a frame are on a wire, or wait at a port for the line. Copies at the controller do not
    /// count.
    pub fn is_in_flight(&self, id: FrameId) -> bool {
        let is_on_wire = |event: &Event| match event {
            Event::AtSwitch(_, _, flight) | Event::AtHost(_, _, flight) => flight.id == id,
            _ => false,
        };
        self.agenda.events().any(is_on_wire) || self.waits_at_port(id)
    }

    /// Runs the next event. Reports whether there was one.
    pub fn step(&mut self) -> bool {
        let Some((at, event)) = self.agenda.pop() else { return false };
        self.now = self.now.max(at);
        match event {
            Event::AtSwitch(dpid, port, flight) => self.frame_at_switch(dpid, port, flight),
            Event::AtHost(dpid, port, flight) => self.frame_at_host(dpid, port, flight),
            Event::ControlToSwitch(channel, epoch, bytes) => self.control_at_switch(channel, epoch, &bytes),
            Event::ControlToController(channel, epoch, bytes) => self.control_at_controller(channel, epoch, bytes),
            Event::Connect(channel, epoch) => self.try_connect(channel, epoch),
            Event::SwitchTimer(dpid) => self.switch_timer(dpid),
            Event::Egress(dpid, port) => self.drain(dpid, port),
            Event::HostTimer(at) => self.host_timer(at),
            Event::Fault(fault) => {
                let failed = self.inflict(fault).err();
                self.records.failed_faults.extend(failed);
            }
        }
        true
    }

    /// Runs all events up to and including time `until`. Then the time is `until`.
    pub fn run_until(&mut self, until: Nanoseconds) {
        while self.next_event().is_some_and(|at| at <= until) {
            self.step();
        }
        self.now = self.now.max(until);
    }

    /// Lets the time `span` pass, in nanoseconds.
    pub fn run_for(&mut self, span: Nanoseconds) {
        self.run_until(self.now + span);
    }

    fn at(&mut self, at: Nanoseconds, event: Event) {
        self.agenda.add(at, event);
    }

    /// Schedules the turn of a switch for when its next rule may expire.
    fn schedule_switch(&mut self, dpid: Dpid) {
        let Some(node) = self.nodes.get_mut(&dpid) else { return };
        let Some(next) = node.switch.next_timeout() else { return };
        if node.timer.is_none_or(|timer| next < timer) {
            node.timer = Some(next);
            self.at(next, Event::SwitchTimer(dpid));
        }
    }

    fn switch_timer(&mut self, dpid: Dpid) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&dpid) else { return };
        if node.timer.is_some_and(|timer| timer <= now) {
            node.timer = None;
        }
        let outgoing = node.switch.advance(now);
        self.carry_out(dpid, outgoing, None);
    }

    fn schedule_host(&mut self, at: usize) {
        let node = &mut self.hosts[at];
        let Some(next) = node.host.next_timer() else { return };
        if node.timer.is_none_or(|timer| next < timer) {
            node.timer = Some(next);
            self.at(next, Event::HostTimer(at));
        }
    }

    fn host_timer(&mut self, at: usize) {
        let now = self.now;
        let node = &mut self.hosts[at];
        if node.timer.is_some_and(|timer| timer <= now) {
            node.timer = None;
        }
        let mut out = Vec::new();
        node.host.poll(now, &mut out);
        self.host_sends(at, out);
    }
}
