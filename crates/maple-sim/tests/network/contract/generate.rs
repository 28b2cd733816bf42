//! Random networks and events for the contract test; programs and packets are those of all random cases.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use maple_core::network::{Location, Mac};
use maple_core::trace::Cond;
use maple_sim::Random;
use maple_sim::cases::{self, Change, HostAddresses, PacketSpec, World};
use maple_wire::{Constraint, Dpid, Field, PortNo, Version};

/// Returns the hosts of every generated network.
pub fn hosts() -> Vec<HostAddresses> {
    let host = |n: u8| HostAddresses {
        mac: Mac([0, 0, 0, 0, 0, n]),
        ipv4: Ipv4Addr::new(10, 0, 0, n),
        ipv6: Ipv6Addr::from(u128::from(n)),
    };
    (1..=4).map(host).collect()
}

/// Returns the conditions of the packets that handlers want.
fn wanted(random: &mut Random, world: &World) -> Vec<Cond> {
    const FIELDS: [Field; 5] = [Field::InPort, Field::EthDst, Field::EthType, Field::Ipv4Src, Field::TcpDst];
    let cond = |random: &mut Random| {
        let field = *random.pick(&FIELDS);
        let exact = Constraint::exact(field, world.value(random, field));
        if random.chance(10) { Cond::default() } else { Cond::default().and(exact) }
    };
    (0..1 + random.below(2)).map(|_| cond(random)).collect()
}

/// The shape of a network.
#[derive(Clone, Debug)]
pub struct Shape {
    pub switches: u64,
    pub links: Vec<(Location, Location)>,
    pub versions: Vec<Version>,
    /// The number of tables of each switch.
    pub tables: Vec<u8>,
    /// The first table for which switches accept no rules, if there is one, and whether they accept rules that write
    /// metadata.
    pub refused: (Option<u8>, bool),
    pub shards: u8,
    /// The second host port of each switch: port 5, or the port of the switch's own host.
    pub last_port: PortNo,
    /// The number of bytes of a packet that switches send to the controller, and whether they keep the rest; `None` for
    /// whole packets.
    pub capture: Option<(usize, bool)>,
    /// The conditions of the packets that handlers want.
    pub heard: Vec<Cond>,
    /// Whether switches accept meters.
    pub takes_meters: bool,
}

impl Shape {
    /// Returns the ports where hosts can be.
    pub fn edges(&self) -> Vec<Location> {
        let ports = [PortNo(LINK_PORTS + 1), self.last_port];
        (1..=self.switches).flat_map(|dpid| ports.map(|port| Location::new(Dpid(dpid), port))).collect()
    }

    /// Returns the network, as programs and packets see it.
    pub fn world(&self) -> World {
        World {
            switches: self.switches,
            links: self.links.clone(),
            edges: self.edges(),
            hosts: hosts(),
            all_answers: true,
        }
    }
}

/// The number of ports for links at every switch. Ports 1 to 3 are for links, 4 and 5 for hosts. The port of the
/// switch's own host may replace 5.
pub const LINK_PORTS: u32 = 3;

/// Returns a connected network of two to four switches.
pub fn shape(random: &mut Random) -> Shape {
    let switches = 2 + random.below(3) as u64;
    let mut links = Links::default();
    cases::links(random, switches, 2).into_iter().for_each(|(a, b)| links.join(a, b));
    let only = match random.below(10) {
        0..6 => Some(Version::Of13),
        6..8 => Some(Version::Of10),
        _ => None,
    };
    let mut version = || only.unwrap_or_else(|| any_version(random));
    let versions: Vec<Version> = (0..switches).map(|_| version()).collect();
    odd_switches(random, Shape { switches, links: links.all, versions, ..plain() })
}

/// Returns a shape without its network.
fn plain() -> Shape {
    Shape {
        switches: 0,
        links: Vec::new(),
        versions: Vec::new(),
        tables: Vec::new(),
        refused: (None, true),
        shards: 1,
        last_port: PortNo(5),
        capture: None,
        heard: Vec::new(),
        takes_meters: true,
    }
}

/// Gives some switches few tables, hosts of their own, or partial packets, and one or two shards.
fn odd_switches(random: &mut Random, shape: Shape) -> Shape {
    let tables = tables(random, &shape.versions);
    let last_port = if random.chance(15) { PortNo::LOCAL } else { PortNo(5) };
    let capture = random.chance(8).then(|| (20 + random.below(50), random.chance(50)));
    let refused = (random.chance(4).then(|| 1 + random.below(3) as u8), !random.chance(6));
    let takes_meters = random.chance(90);
    let shards = 1 + random.below(2) as u8;
    let shape = Shape { takes_meters, tables, refused, shards, last_port, capture, ..shape };
    let heard = if random.chance(12) { wanted(random, &shape.world()) } else { Vec::new() };
    Shape { heard, ..shape }
}

/// Returns the number of tables of each switch.
fn tables(random: &mut Random, versions: &[Version]) -> Vec<u8> {
    let number = |version: &Version| match version {
        Version::Of10 => 1,
        Version::Of13 if random.chance(20) => 1 + random.below(3) as u8,
        Version::Of13 => 254,
    };
    versions.iter().map(number).collect()
}

/// Returns the network with switches that speak both versions.
pub fn of_mixed_versions(random: &mut Random, shape: &Shape) -> Shape {
    let mut versions: Vec<Version> = (0..shape.switches).map(|_| any_version(random)).collect();
    if let [first, .., last] = &mut versions[..]
        && first == last
    {
        *last = other_version(*first);
    }
    Shape { tables: tables(random, &versions), versions, ..shape.clone() }
}

fn any_version(random: &mut Random) -> Version {
    if random.one_in(2) { Version::Of10 } else { Version::Of13 }
}

/// Returns the version that a switch of this one does not speak.
pub fn other_version(version: Version) -> Version {
    if version == Version::Of10 { Version::Of13 } else { Version::Of10 }
}

/// Returns four switches in a line or ring, mostly of version 1.3.
pub fn line_shape(random: &mut Random) -> Shape {
    let mut links = Links::default();
    (2..=4).for_each(|dpid| links.join(dpid - 1, dpid));
    if random.chance(30) {
        links.join(4, 1);
    }
    let versions: Vec<Version> = (0..4).map(|_| if random.chance(5) { Version::Of10 } else { Version::Of13 }).collect();
    odd_switches(random, Shape { switches: 4, links: links.all, versions, ..plain() })
}

/// Links, added one by one.
#[derive(Default)]
struct Links {
    /// The number of ports of each switch that are in use.
    taken: BTreeMap<u64, u32>,
    all: Vec<(Location, Location)>,
}

impl Links {
    /// Joins two switches, if both have a free port.
    fn join(&mut self, a: u64, b: u64) {
        let next = |dpid: u64| self.taken.get(&dpid).copied().unwrap_or(0) + 1;
        if next(a) <= LINK_PORTS && next(b) <= LINK_PORTS {
            let end = |dpid: u64| Location::new(Dpid(dpid), PortNo(next(dpid)));
            self.all.push((end(a), end(b)));
            [a, b].into_iter().for_each(|dpid| *self.taken.entry(dpid).or_default() += 1);
        }
    }
}

/// A frame, shown in one line.
#[derive(Clone)]
pub struct Bytes(pub Vec<u8>);

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&maple_wire::packet::text::summary(&maple_wire::Packet::new(&self.0, 0)))
    }
}

/// A step of a case.
#[derive(Clone, Debug)]
pub enum Step {
    /// A host sends a packet.
    Send { host: usize, frame: Bytes },
    /// A sender at another port uses a host's address.
    Forge { host: usize, from: usize, frame: Bytes },
    /// A host's port goes down and up again, and the host sends a packet before the kind of the port is known.
    Flap { host: usize, frame: Bytes },
    /// A link goes down.
    LinkDown(usize),
    /// The link comes up again.
    LinkUp(usize),
    /// A host moves, and its old port may notice that.
    Move { host: usize, to: usize },
    /// A port for hosts is taken from its switch.
    RemovePort(usize),
    /// The port is there again, perhaps with its host.
    AddPort(usize),
    /// The state is written from outside the policy.
    Write(Change),
    /// Everything is withdrawn.
    Invalidate,
    /// The case's other policy takes the place of the one that runs.
    Reload,
    /// The case's other policy takes the place of the running one, at rest, and changes what a rehearsal announced.
    ReloadAsRehearsed,
    /// A switch connects again, with or without its rules, and the controller has forgotten it.
    Reconnect { dpid: u64, empty: bool },
    /// The control connection of a switch ends, and its datapath goes on.
    LoseConnection(u64),
    /// The switch connects again, with or without its rules, and may speak its other version.
    RegainConnection { dpid: u64, empty: bool, as_other: bool },
    /// The controller is killed, and starts again with this many shards.
    RestartController { shards: u8, knows: Knows },
    /// Another controller deletes a rule.
    LoseRule(u64, usize),
    /// A switch has capacity for only this many rules from this step on.
    Shrink(u64, usize),
    /// A wait begins for what is being removed. It ends by the next rest.
    Settle,
    /// Everything comes to rest before the next step.
    Rest,
}

/// The controller's knowledge of its earlier run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knows {
    Everything,
    /// Some leaves, and the surroundings of the last rest.
    Some,
    /// Nothing, because it has no state file.
    Nothing,
}

/// Returns a host's first packet.
pub fn greeting(random: &mut Random, world: &World, host: usize) -> Step {
    let flow = Flow::new(random, world, host);
    Step::Send { host, frame: flow.frame(0x4000_0000 + host as u32) }
}

/// Packets that differ only in their numbers.
struct Flow {
    host: usize,
    packet: PacketSpec,
}

impl Flow {
    /// Creates a flow from a host. Its packets end in their number, so they are never cut.
    fn new(random: &mut Random, world: &World, host: usize) -> Flow {
        let packet = world.packet(random, &[]);
        let src = hosts()[host].mac.0;
        Flow { host, packet: PacketSpec { from: host, src, cut: None, ..packet } }
    }

    fn frame(&self, number: u32) -> Bytes {
        Bytes(self.packet.frame(number.into()))
    }
}

/// Returns the steps of a case, in order.
pub fn steps(random: &mut Random, shape: &Shape, count: usize) -> Vec<Step> {
    // There are few flows, so that packets match rules of earlier packets.
    let flows = 1 + random.below(6);
    steps_of_flows(random, shape, count, flows)
}

/// Returns the steps of a case with this number of flows.
pub fn steps_of_flows(random: &mut Random, shape: &Shape, count: usize, flows: usize) -> Vec<Step> {
    let world = shape.world();
    let flows: Vec<Flow> = (0..flows)
        .map(|_| {
            let host = random.below(world.hosts.len());
            Flow::new(random, &world, host)
        })
        .collect();
    let mut number = 0;
    let mut all = Vec::new();
    while all.len() < count {
        let flow = random.pick(&flows);
        let host = flow.host;
        let mut packet = || {
            number += 1;
            flow.frame(number)
        };
        let dpid = 1 + random.below(shape.switches as usize) as u64;
        let edges = world.edges.len();
        let step = match random.below(100) {
            0..58 => {
                all.extend((0..random.below(4)).map(|_| Step::Send { host, frame: packet() }));
                Step::Send { host, frame: packet() }
            }
            58..60 => Step::Forge { host, from: random.below(edges), frame: packet() },
            60..62 => Step::LinkDown(random.below(shape.links.len())),
            62..65 => Step::LinkUp(random.below(shape.links.len())),
            65..67 => Step::Move { host, to: random.below(edges) },
            67..76 => Step::Write(world.outside_write(random)),
            76..80 => Step::Invalidate,
            80 => Step::Reconnect { dpid, empty: random.one_in(2) },
            81 => Step::Flap { host, frame: packet() },
            82 => Step::LoseRule(dpid, random.below(8)),
            83 => Step::Shrink(dpid, 6 + random.below(8)),
            84 if random.chance(50) => Step::RemovePort(random.below(edges)),
            84 | 85 => Step::AddPort(random.below(edges)),
            86..88 => Step::Settle,
            _ => Step::Rest,
        };
        all.push(step);
    }
    all
}
