//! A case: everything that a whole-network sequence depends on, as data that can be printed and made smaller.

use std::fmt;
use std::time::Duration;

use maple_core::Location;
use maple_emulator::time::{MILLISECOND, Nanoseconds};
use maple_emulator::topology::{HostSpec, LinkSpec, SwitchSpec, Topology};
use maple_sim::cases::{HostAddresses, Scenario, Step, host};
use maple_sim::oracles::Strategy;
use maple_wire::{Dpid, Version};

/// A whole-network sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The network, the policy, the packets and the steps.
    pub scenario: Scenario,
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
    pub busy: Nanoseconds,
    /// The maximum time that a message between shards takes, in nanoseconds.
    pub mail: Nanoseconds,
    /// The seed of everything that is left to chance while the case runs.
    pub seed: u64,
    /// The maximum random delay of each control message, in nanoseconds.
    pub jitter: Nanoseconds,
    /// Whether to print all inputs and outputs of the engines.
    pub trace: bool,
}

impl Case {
    /// Returns the datapath ids.
    pub fn dpids(&self) -> Vec<Dpid> {
        self.scenario.network.dpids()
    }

    /// Describes the network for the emulator.
    pub fn topology(&self) -> Topology {
        let network = &self.scenario.network;
        let hosts = network.hosts.iter().enumerate().map(|(at, place)| {
            let HostAddresses { mac, ipv4, ipv6 } = host(at);
            HostSpec { name: host_name(at), mac: mac.0, ipv4, ipv6, switch: place.switch, port: place.port }
        });
        let end = |at: Location| (at.switch, at.port);
        let links = network.links.iter().map(|link| LinkSpec {
            a: end(link.a),
            b: end(link.b),
            delay: nanoseconds(link.delay),
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
    pub fn lag(&self) -> Nanoseconds {
        let slowest = self.scenario.steps.iter().filter_map(|step| match step {
            Step::Slow { delay, jitter, .. } => Some(nanoseconds(*delay + *jitter)),
            _ => None,
        });
        let control = slowest.max().unwrap_or(0).max(self.jitter) + MILLISECOND / 10;
        // In the worst case, a packet comes, labels of its new route are confirmed, and an update that is half-way
        // ends. Then the ingress' additions are confirmed and its rule is modified.
        8 * (control + self.busy + self.mail)
    }
}

/// Returns the name of a host by its index.
pub fn host_name(at: usize) -> String {
    format!("h{}", at + 1)
}

/// Returns a time as the emulator counts it.
pub fn nanoseconds(time: Duration) -> Nanoseconds {
    time.as_nanos() as Nanoseconds
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
        let Scenario { network, policy, packets, steps } = &self.scenario;
        let hosts: Vec<String> = network
            .hosts
            .iter()
            .enumerate()
            .map(|(at, place)| format!("{} at {}", host_name(at), short(place)))
            .collect();
        writeln!(f, "{} switches; {}", network.switches, hosts.join(", "))?;
        for link in &network.links {
            writeln!(f, "link {} - {}, {:?}", short(&link.a), short(&link.b), link.delay)?;
        }
        write!(f, "policy:\n{policy}")?;
        for (at, step) in steps.iter().enumerate() {
            writeln!(f, "step {at}: {step:?}")?;
        }
        for (at, packet) in packets.iter().enumerate() {
            writeln!(f, "packet #{at}: {packet:?}")?;
        }
        Ok(())
    }
}
