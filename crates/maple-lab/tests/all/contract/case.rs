//! A case: everything that a whole-network sequence depends on, as data that can be printed and made smaller.

use std::fmt;
use std::sync::Arc;

use maple_core::network::Facts;
use maple_core::{Location, Mac};
use maple_emulator::network::ControlFaults;
use maple_emulator::time::{MILLISECOND, Time};
use maple_emulator::topology::{HostSpec, LinkSpec, SwitchSpec, Topology, addresses};
use maple_sim::cases::{Change, HostAddresses, PacketSpec, Program, World};
use maple_sim::oracles::Strategy;
use maple_wire::{Dpid, PortNo, Version};

/// A whole-network sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The OpenFlow version that the switches speak.
    pub version: Version,
    /// The number of tables of a switch, in 1.3, and the number of rules that fit into each.
    pub tables: (u8, usize),
    /// Whether the switches do as Open vSwitch does where the specification forbids it.
    pub open_vswitch: bool,
    /// The number of shards of the controller.
    pub shards: u8,
    /// Whether the controller tracks hosts.
    pub track_hosts: bool,
    /// The compiler of the rules.
    pub compiler: Strategy,
    /// The maximum number of rules of a switch, and of leaves of a tree.
    pub room: (Option<usize>, Option<usize>),
    /// The maximum time until a shard does what came in, in nanoseconds.
    pub busy: Time,
    /// The maximum time that a message between shards takes, in nanoseconds.
    pub mail: Time,
    /// The seed of everything that is left to chance while the case runs.
    pub seed: u64,
    /// The number of switches; their datapath ids are 1, 2, ….
    pub switches: u64,
    /// The port where each host is plugged in at first.
    pub hosts: Vec<Location>,
    /// The links.
    pub links: Vec<Link>,
    /// The policy.
    pub program: Program,
    /// The packets that hosts send.
    pub packets: Vec<PacketSpec>,
    /// The maximum random delay of each control message, in nanoseconds.
    pub jitter: Time,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// Whether to print all inputs and outputs of the engines.
    pub trace: bool,
}

/// A link between two switches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// One end.
    pub a: Location,
    /// The other.
    pub b: Location,
    /// The time that a frame takes, in nanoseconds.
    pub delay: Time,
}

/// A step of a case.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The packet with this number is sent by its host, from wherever that is.
    Send(usize),
    /// A packet is sent this number of times, `gap` nanoseconds apart.
    Stream { packet: usize, times: u64, gap: Time },
    /// Time passes.
    Wait(Time),
    /// Something changes.
    Do(Event),
}

/// A change of the network, the state or the declarations.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The links between two switches go down or up.
    Link(Dpid, Dpid, bool),
    /// The operator takes a port down or up.
    Port(Location, bool),
    /// A host moves to another port.
    Move(usize, Location),
    /// A switch loses its rules and connects again.
    Restart(Dpid),
    /// A control channel is closed and stays closed.
    Cut(Dpid),
    /// A control channel swallows everything.
    HalfOpen(Dpid),
    /// A control channel works again.
    Mend(Dpid),
    /// A control channel gets slower.
    Slow(Dpid, ControlFaults),
    /// The state is written from outside.
    Write(Change),
    /// Other facts are declared of ports and hosts.
    Declare(Arc<Facts>),
    /// Everything is invalidated.
    InvalidateAll,
    /// Everything about a host is invalidated.
    InvalidateHost(usize),
    /// Everything that uses a port is invalidated.
    InvalidatePort(Location),
    /// Another program deletes one of our rules: the one with this index, modulo their number.
    Lose(Dpid, usize),
}

impl Case {
    /// Returns the datapath ids.
    pub fn dpids(&self) -> Vec<Dpid> {
        (1..=self.switches).map(Dpid).collect()
    }

    /// Describes the network as programs and packets know it.
    pub fn world(&self) -> World {
        let host = |at: usize| {
            let (mac, ipv4, ipv6) = addresses(at as u32 + 1);
            HostAddresses { mac: Mac(mac), ipv4, ipv6 }
        };
        World {
            switches: self.switches,
            links: self.links.iter().map(|link| (link.a, link.b)).collect(),
            edges: self.hosts.clone(),
            hosts: (0..self.hosts.len()).map(host).collect(),
            all_answers: false,
        }
    }

    /// Describes the network for the emulator.
    pub fn topology(&self) -> Topology {
        let hosts = self.hosts.iter().enumerate().map(|(at, place)| {
            let (mac, ipv4, ipv6) = addresses(at as u32 + 1);
            HostSpec { name: host_name(at), mac, ipv4, ipv6, switch: place.switch, port: place.port }
        });
        let end = |at: Location| (at.switch, at.port);
        let links = self.links.iter().map(|link| LinkSpec {
            a: end(link.a),
            b: end(link.b),
            delay: link.delay,
            loss: 0.0,
            rate: None,
            attributes: Default::default(),
        });
        Topology {
            switches: self.dpids().iter().map(|d| SwitchSpec { name: format!("s{}", d.0), dpid: *d }).collect(),
            hosts: hosts.collect(),
            links: links.collect(),
            queues: Vec::new(),
        }
    }

    /// Returns how long a decision may take to be in force: the sum of everything that can delay a message between the
    /// controller's parts and a switch, some of it more than once.
    pub fn lag(&self) -> Time {
        let slowest = self.steps.iter().filter_map(|step| match step {
            Step::Do(Event::Slow(_, faults)) => Some(faults.delay + faults.jitter),
            _ => None,
        });
        let control = slowest.max().unwrap_or(0).max(self.jitter) + MILLISECOND / 10;
        // In the worst case, a packet comes, labels of its new route are confirmed, an update that is half-way ends,
        // and then the ingress' additions are confirmed and its rule is modified.
        8 * (control + self.busy + self.mail)
    }
}

/// Returns the name of a host by its index.
pub fn host_name(at: usize) -> String {
    format!("h{}", at + 1)
}

/// Returns the hardware address of a host by its index.
pub fn host_mac(at: usize) -> Mac {
    Mac(addresses(at as u32 + 1).0)
}

/// Returns a port of a switch.
pub fn place(switch: u64, port: u32) -> Location {
    Location::new(Dpid(switch), PortNo(port))
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |at: &Location| format!("{}:{}", at.switch.0, at.port);
        writeln!(
            f,
            "OpenFlow {}{}, {} table(s) of {}, {} shard(s), hosts {}tracked, compiler {:?}, room {:?}, busy {} ns, mail {} ns, jitter {} ns, seed {}",
            self.version,
            if self.open_vswitch { " as Open vSwitch" } else { "" },
            self.tables.0,
            self.tables.1,
            self.shards,
            if self.track_hosts { "" } else { "not " },
            self.compiler,
            self.room,
            self.busy,
            self.mail,
            self.jitter,
            self.seed
        )?;
        let hosts: Vec<String> =
            self.hosts.iter().enumerate().map(|(at, place)| format!("{} at {}", host_name(at), short(place))).collect();
        writeln!(f, "{} switches; {}", self.switches, hosts.join(", "))?;
        for link in &self.links {
            writeln!(f, "link {} - {}, {} ns", short(&link.a), short(&link.b), link.delay)?;
        }
        write!(f, "policy:\n{}", self.program)?;
        for (at, step) in self.steps.iter().enumerate() {
            match step {
                Step::Send(packet) => writeln!(f, "step {at}: send #{packet}")?,
                Step::Stream { packet, times, gap } => {
                    writeln!(f, "step {at}: send #{packet} {times} times, every {gap} ns")?;
                }
                Step::Wait(span) => writeln!(f, "step {at}: wait {} µs", span / 1000)?,
                Step::Do(event) => writeln!(f, "step {at}: {event:?}")?,
            }
        }
        for (at, packet) in self.packets.iter().enumerate() {
            writeln!(f, "packet #{at}: {packet:?}")?;
        }
        Ok(())
    }
}
