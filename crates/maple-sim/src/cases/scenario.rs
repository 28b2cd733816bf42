//! A scenario: a network, a policy, packets, and what happens to them, step by step. Each driver of the contract plays
//! it in its own way.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::LeafSelection;
use maple_core::network::{Facts, Location, Mac};
use maple_wire::Dpid;

use super::{Change, Domain, HostAddresses, PacketSpec, Program};

/// A network, a policy, packets and steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The network.
    pub network: CaseNetwork,
    /// The policy.
    pub policy: Program,
    /// The packets that hosts send.
    pub packets: Vec<PacketSpec>,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// Switches with their links and hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseNetwork {
    /// The number of switches; their datapath ids are 1, 2, ….
    pub switches: u64,
    /// The links.
    pub links: Vec<Link>,
    /// The ports for hosts that policies name.
    pub edges: Vec<Location>,
    /// The ports to which hosts move.
    pub moves_to: Vec<Location>,
    /// The port where each host is at first.
    pub hosts: Vec<Location>,
}

/// A link between two switches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// One end.
    pub a: Location,
    /// The other.
    pub b: Location,
    /// The time that a frame takes, if the driver does not choose it.
    pub delay: Duration,
}

/// A step of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The packet with this number is sent by its host, from wherever that is.
    Send(usize),
    /// A packet is sent this number of times.
    Stream {
        /// The packet.
        packet: usize,
        /// The number of times.
        times: u64,
        /// The time between two of them.
        gap: Duration,
    },
    /// A packet is sent by somebody at another port.
    Forge {
        /// The packet.
        packet: usize,
        /// The port.
        from: Location,
    },
    /// The port of a packet's host goes down and up again, and the packet comes before the kind of the port is known.
    Flap(usize),
    /// Time passes.
    Wait(Duration),
    /// A wait begins for what is being removed. It ends by the next rest.
    Settle,
    /// Everything comes to rest before the next step.
    Rest,
    /// The links between the switches of the link that begins here go down or up.
    Link(Location, bool),
    /// The operator takes a port down or up.
    Port(Location, bool),
    /// A host moves to another port.
    Move {
        /// The host.
        host: usize,
        /// The port.
        to: Location,
    },
    /// A port for hosts is taken from its switch.
    RemovePort(Location),
    /// The port is there again, perhaps with its host.
    AddPort(Location),
    /// The state is written from outside the policy.
    Write(Change),
    /// The state is written from outside the policy, all of this at once.
    WriteTogether(Vec<Change>),
    /// Other facts are declared of ports and hosts.
    Declare(Arc<Facts>),
    /// Leaves are withdrawn.
    Invalidate(LeafSelection),
    /// The other policy takes the place of the one that runs.
    Reload,
    /// The other policy takes the place of the running one, at rest, and changes what a rehearsal announced.
    ReloadAsRehearsed,
    /// A switch connects again, with or without its rules, and the controller has forgotten it, or it has restarted.
    Reconnect {
        /// The switch.
        dpid: Dpid,
        /// Whether it has lost its rules.
        empty: bool,
    },
    /// The control connection of a switch ends, and its datapath goes on.
    LoseConnection(Dpid),
    /// The control connection of a switch swallows everything.
    HalfOpen(Dpid),
    /// The switch connects again, if it has no connection.
    RegainConnection {
        /// The switch.
        dpid: Dpid,
        /// Whether it has lost its rules.
        empty: bool,
        /// Whether it speaks its other version now.
        as_other: bool,
    },
    /// The control connection of a switch gets slower.
    Slow {
        /// The switch.
        dpid: Dpid,
        /// The time that each message takes.
        delay: Duration,
        /// The maximum random time besides.
        jitter: Duration,
    },
    /// The controller is killed, and starts again with this many shards.
    RestartController {
        /// The number of shards.
        shards: u8,
        /// The knowledge of the controller that starts.
        knows: Knows,
    },
    /// Another controller deletes one of our rules, the one with this number.
    LoseRule(Dpid, usize),
    /// A switch has capacity for only this many rules from this step on.
    Shrink(Dpid, usize),
}

/// The controller's knowledge of its earlier run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knows {
    /// All that it kept.
    Everything,
    /// Some leaves, and the surroundings of the last rest.
    Some,
    /// Nothing, because it has no state file.
    Nothing,
}

impl CaseNetwork {
    /// Describes the network as programs and packets see it.
    pub fn world(&self, all_answers: bool) -> Domain {
        Domain {
            switches: self.switches,
            links: self.links.iter().map(|link| (link.a, link.b)).collect(),
            edges: self.edges.clone(),
            hosts: (0..self.hosts.len()).map(host).collect(),
            all_answers,
        }
    }

    /// Returns the datapath ids.
    pub fn dpids(&self) -> Vec<Dpid> {
        (1..=self.switches).map(Dpid).collect()
    }
}

/// Returns the addresses of the host with this number, which is below 255.
pub fn host(number: usize) -> HostAddresses {
    let n = number as u8 + 1;
    HostAddresses {
        mac: Mac([0, 0, 0, 0, 0, n]),
        ipv4: Ipv4Addr::new(10, 0, 0, n),
        ipv6: Ipv6Addr::from(u128::from(n)),
    }
}

impl Step {
    /// Names what happens, for counts of what cases covered.
    pub fn name(&self) -> &'static str {
        match self {
            Step::Send(_) => "sends",
            Step::Stream { .. } => "streams",
            Step::Forge { .. } => "forged packets",
            Step::Flap(_) => "flaps",
            Step::Wait(_) => "waits",
            Step::Settle => "settling waits",
            Step::Rest => "rests",
            Step::Link(_, false) => "link failures",
            Step::Link(_, true) => "link repairs",
            Step::Port(_, false) => "ports down",
            Step::Port(_, true) => "ports up",
            Step::Move { .. } => "moves",
            Step::RemovePort(_) => "ports removed",
            Step::AddPort(_) => "ports added",
            Step::Write(_) => "writes",
            Step::WriteTogether(_) => "writes together",
            Step::Declare(_) => "declarations",
            Step::Invalidate(LeafSelection::All) => "invalidations",
            Step::Invalidate(_) => "partial invalidations",
            Step::Reload => "reloads",
            Step::ReloadAsRehearsed => "rehearsed reloads",
            Step::Reconnect { .. } => "switch restarts",
            Step::LoseConnection(_) => "lost connections",
            Step::HalfOpen(_) => "silent connections",
            Step::RegainConnection { .. } => "regained connections",
            Step::Slow { .. } => "slow connections",
            Step::RestartController { .. } => "controller restarts",
            Step::LoseRule(..) => "lost rules",
            Step::Shrink(..) => "full tables",
        }
    }
}
