//! The generator of scenarios. It asks the driver what it can do, and makes nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::LeafSelection;
use maple_core::network::{Facts, HostFacts, Location, PortSet, SwitchFacts};
use maple_wire::{Dpid, PortNo};

use super::scenario::{CaseNetwork, Link, Scenario, Step, host};
use super::{Domain, PacketSpec, links};
use crate::Choices;

/// The ports for hosts at every switch. Those below, and some above, are for links.
const HOST_PORTS: [PortNo; 2] = [PortNo(4), PortNo(5)];
/// Ports without anything, to which hosts move if the driver has ports made on demand.
const SPARE_PORTS: [PortNo; 2] = [PortNo(20), PortNo(21)];

/// The abilities of a driver, and how much of it its cases want.
#[derive(Clone, Debug)]
pub struct Driver {
    /// The maximum number of switches.
    pub switches: usize,
    /// The maximum number of links at a switch.
    pub links: u32,
    /// Whether hosts are at most host ports, and ports are made on demand; otherwise four hosts are somewhere, and all
    /// host ports are there.
    pub makes_ports: bool,
    /// Whether policies may give all answers.
    pub all_answers: bool,
    /// Whether packets may be cut and have other sources than their host's; a driver that tells packets apart by their
    /// last bytes can't.
    pub any_packets: bool,
    /// Whether the places of hosts are declared.
    pub declares_places: bool,
    /// Whether facts are declared that disagree with the network.
    pub false_facts: bool,
    /// The minimum and maximum number of packets.
    pub packets: (usize, usize),
    /// The minimum and maximum number of times that something is chosen to happen.
    pub steps: (usize, usize),
    /// The minimum and the maximum number of steps where many flows share links.
    pub steps_of_flows: (usize, usize),
    /// The kinds of steps, each with its share.
    pub mix: Vec<(usize, Kind)>,
}

/// The subject of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// Any policy in any network.
    Any,
    /// Routes with equal headers meet on links.
    RoutesThatMeet,
    /// Many flows share links.
    ManyFlows,
}

/// A kind of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "`Step` documents what happens")]
pub enum Kind {
    Send,
    /// Every packet once, mostly all of them new to the tables.
    Volley,
    Stream,
    Forge,
    Flap,
    Wait,
    Settle,
    Rest,
    LinkDown,
    LinkUp,
    Port,
    Move,
    RemovePort,
    AddPort,
    Write,
    Cost,
    Declare,
    Invalidate,
    InvalidateHost,
    InvalidatePort,
    Reconnect,
    Restart,
    LoseConnection,
    HalfOpen,
    RegainConnection,
    /// Once in a case.
    Slow,
    LoseRule,
    Shrink,
}

impl Scenario {
    /// Generates a scenario about something, for a driver.
    pub fn generate(random: &mut Choices, driver: &Driver, theme: Theme) -> Scenario {
        let network = match theme {
            Theme::Any => CaseNetwork::any(random, driver),
            Theme::RoutesThatMeet | Theme::ManyFlows => CaseNetwork::line(random, driver),
        };
        let world = network.world(driver.all_answers);
        let policy = match theme {
            Theme::Any => {
                let depth = 1 + random.below(5) as u32;
                world.program(random, depth)
            }
            Theme::RoutesThatMeet => {
                let depth = random.below(3) as u32;
                world.program_by_ingress(random, depth)
            }
            Theme::ManyFlows => world.program_of_filters(random),
        };
        let between = |random: &mut Choices, (least, most): (usize, usize)| least + random.below(most + 1 - least);
        let mut scenario = Scenario { network, policy, packets: Vec::new(), steps: Vec::new() };
        let packets = if theme == Theme::ManyFlows { 16 } else { between(random, driver.packets) };
        for _ in 0..packets {
            let packet = driver.packet(random, &world, &scenario.packets);
            scenario.packets.push(packet);
        }
        let count = between(random, if theme == Theme::ManyFlows { driver.steps_of_flows } else { driver.steps });
        Steps { random, driver, world: &world, scenario: &mut scenario, flows: packets }.add(count);
        if theme != Theme::Any {
            scenario.greet_first(random, driver);
        }
        scenario
    }

    /// Lets each host send a packet before everything else, so that all are known.
    pub fn greet_first(&mut self, random: &mut Choices, driver: &Driver) {
        let greetings = self.greetings(random, driver);
        self.steps.splice(0..0, greetings.into_iter().chain([Step::Rest]));
    }

    /// Returns a step for each host, in which it sends a packet of its own.
    pub fn greetings(&mut self, random: &mut Choices, driver: &Driver) -> Vec<Step> {
        let world = self.network.world(driver.all_answers);
        let hosts = 0..self.network.hosts.len();
        let greeting = |from: usize| PacketSpec { from, src: host(from).mac.0, cut: None, ..world.packet(random, &[]) };
        let (first, packets): (_, Vec<PacketSpec>) = (self.packets.len(), hosts.map(greeting).collect());
        self.packets.extend(packets);
        (first..self.packets.len()).map(Step::Send).collect()
    }
}

impl Driver {
    fn packet(&self, random: &mut Choices, world: &Domain, earlier: &[PacketSpec]) -> PacketSpec {
        if self.any_packets {
            return world.packet(random, earlier);
        }
        let from = random.below(world.hosts.len());
        PacketSpec { from, src: host(from).mac.0, cut: None, ..world.packet(random, &[]) }
    }
}

impl CaseNetwork {
    /// Generates a connected network.
    fn any(random: &mut Choices, driver: &Driver) -> CaseNetwork {
        let switches = 2 + random.below(driver.switches - 1) as u64;
        let pairs = links(random, switches, driver.switches - 2);
        CaseNetwork::joined(random, driver, switches, pairs)
    }

    /// Generates four switches in a line or ring.
    fn line(random: &mut Choices, driver: &Driver) -> CaseNetwork {
        let ring = random.chance(30).then_some((4, 1));
        CaseNetwork::joined(random, driver, 4, (2..=4).map(|dpid| (dpid - 1, dpid)).chain(ring).collect())
    }

    fn joined(random: &mut Choices, driver: &Driver, switches: u64, pairs: Vec<(u64, u64)>) -> CaseNetwork {
        let mut taken: BTreeMap<u64, u32> = BTreeMap::new();
        let mut links = Vec::new();
        for (a, b) in pairs {
            if [a, b].iter().any(|dpid| taken.get(dpid).is_some_and(|taken| *taken >= driver.links)) {
                continue;
            }
            let mut end = |dpid: u64| {
                let taken = taken.entry(dpid).or_default();
                *taken += 1;
                Location::new(Dpid(dpid), link_port(*taken))
            };
            let (a, b) = (end(a), end(b));
            let delay = if random.one_in(4) { Duration::from_nanos(random.below(2_000_000) as u64) } else { WIRE };
            links.push(Link { a, b, delay });
        }
        let on_all = |ports: [PortNo; 2]| -> Vec<Location> {
            (1..=switches).flat_map(|dpid| ports.map(|port| Location::new(Dpid(dpid), port))).collect()
        };
        if driver.makes_ports {
            let (first, second) = (HOST_PORTS[0], HOST_PORTS[1]);
            let mut hosts = on_all(HOST_PORTS);
            hosts.retain(|at| at.port == first || at.port == second && random.one_in(2));
            return CaseNetwork { switches, links, edges: hosts.clone(), moves_to: on_all(SPARE_PORTS), hosts };
        }
        let last = if random.chance(15) { PortNo::LOCAL } else { HOST_PORTS[1] };
        let edges = on_all([HOST_PORTS[0], last]);
        let hosts = (0..4).map(|host| edges[host * 3 % edges.len()]).collect();
        CaseNetwork { switches, links, moves_to: edges.clone(), edges, hosts }
    }
}

/// The time that a frame takes over most links: the emulator's default.
const WIRE: Duration = Duration::from_micros(10);

/// Returns the port of the link with this number, from 1, at a switch.
fn link_port(number: u32) -> PortNo {
    PortNo(if number < HOST_PORTS[0].0 { number } else { number + HOST_PORTS.len() as u32 })
}

/// The steps of a scenario in the making.
struct Steps<'a> {
    random: &'a mut Choices,
    driver: &'a Driver,
    world: &'a Domain,
    scenario: &'a mut Scenario,
    /// The number of packets, which are few, so that packets match rules of earlier ones.
    flows: usize,
}

impl Steps<'_> {
    /// Lets something happen this number of times.
    fn add(&mut self, count: usize) {
        let shares: usize = self.driver.mix.iter().map(|(share, _)| share).sum();
        for _ in 0..count {
            let mut left = self.random.below(shares);
            let chosen = self.driver.mix.iter().find(|(share, _)| match left.checked_sub(*share) {
                Some(rest) => {
                    left = rest;
                    false
                }
                None => true,
            });
            let (_, kind) = *chosen.expect("the number is below the sum");
            self.add_kind(kind);
        }
    }

    fn add_kind(&mut self, kind: Kind) {
        let step = match kind {
            Kind::Volley => return self.volley(),
            Kind::Slow if self.scenario.steps.iter().any(|step| matches!(step, Step::Slow { .. })) => return,
            Kind::Send => {
                let packet = self.flow();
                let more = self.random.below(4);
                self.scenario.steps.extend((0..more).map(|_| Step::Send(packet)));
                Step::Send(packet)
            }
            Kind::Stream => Step::Stream {
                packet: self.flow(),
                times: 2 + self.random.below(30) as u64,
                gap: self.up_to(Duration::from_micros(120)),
            },
            Kind::Forge => Step::Forge { packet: self.flow(), from: self.edge() },
            Kind::Flap => Step::Flap(self.flow()),
            Kind::Wait => Step::Wait(self.wait()),
            Kind::Settle => Step::Settle,
            Kind::Rest => Step::Rest,
            Kind::Write => Step::Write(self.world.outside_write(self.random)),
            Kind::Cost => Step::Write(self.world.cost(self.random)),
            Kind::Declare => Step::Declare(self.facts()),
            Kind::Invalidate => Step::Invalidate(LeafSelection::All),
            Kind::InvalidateHost => Step::Invalidate(LeafSelection::Host(host(self.host()).mac)),
            Kind::InvalidatePort => {
                let port = PortNo(1 + self.random.below(5) as u32);
                Step::Invalidate(LeafSelection::Port(Location::new(self.dpid(), port)))
            }
            kind => self.fault(kind),
        };
        self.scenario.steps.push(step);
    }

    /// Returns a change of the network, of a switch or of its connection.
    fn fault(&mut self, kind: Kind) -> Step {
        let dpid = self.dpid();
        match kind {
            Kind::LinkDown | Kind::LinkUp => {
                let link = *self.random.pick(&self.scenario.network.links);
                Step::Link(link.a, kind == Kind::LinkUp)
            }
            Kind::Port => {
                let CaseNetwork { links, hosts, .. } = &self.scenario.network;
                let ends: Vec<Location> = links.iter().flat_map(|link| [link.a, link.b]).chain(hosts.clone()).collect();
                Step::Port(*self.random.pick(&ends), self.random.one_in(2))
            }
            Kind::Move => {
                let host = self.host();
                Step::Move { host, to: *self.random.pick(&self.scenario.network.moves_to) }
            }
            Kind::RemovePort => Step::RemovePort(self.edge()),
            Kind::AddPort => Step::AddPort(self.edge()),
            Kind::Reconnect => Step::Reconnect { dpid, empty: self.random.one_in(2) },
            Kind::Restart => Step::Reconnect { dpid, empty: true },
            Kind::LoseConnection => Step::LoseConnection(dpid),
            Kind::HalfOpen => Step::HalfOpen(dpid),
            Kind::RegainConnection => Step::RegainConnection { dpid, empty: false, as_other: false },
            Kind::Slow => {
                let (delay, jitter) = (Duration::from_millis(3), Duration::from_millis(2));
                Step::Slow { dpid, delay: self.up_to(delay), jitter: self.up_to(jitter) }
            }
            Kind::LoseRule => Step::LoseRule(dpid, self.random.below(20)),
            Kind::Shrink => Step::Shrink(dpid, 6 + self.random.below(8)),
            _ => unreachable!("{kind:?} is no fault"),
        }
    }

    /// Sends every packet once, in any order and soon after each other.
    fn volley(&mut self) {
        if !self.random.one_in(6) {
            let wait = Duration::from_millis(1) + self.up_to(Duration::from_millis(1));
            self.scenario.steps.extend([Step::Invalidate(LeafSelection::All), Step::Wait(wait)]);
        }
        let mut left: Vec<usize> = (0..self.flows).collect();
        while !left.is_empty() {
            let packet = left.swap_remove(self.random.below(left.len()));
            let wait = self.up_to(Duration::from_micros(250));
            self.scenario.steps.extend([Step::Send(packet), Step::Wait(wait)]);
        }
    }

    /// Makes facts that agree with the network. Some drivers also want ports closed, or hosts declared elsewhere.
    fn facts(&mut self) -> Arc<Facts> {
        let (random, network, lies) = (&mut *self.random, &self.scenario.network, self.driver.false_facts);
        let some = |random: &mut Choices, ports: &[PortNo]| {
            PortSet(ports.iter().filter(|_| random.one_in(2)).map(|port| port.0..=port.0).collect())
        };
        let mut switches = BTreeMap::new();
        for dpid in network.dpids() {
            if random.one_in(2) {
                continue;
            }
            let own_port = |at: &Location| (at.switch == dpid).then_some(at.port);
            let hosts: Vec<PortNo> = network.hosts.iter().filter_map(own_port).collect();
            let links: Vec<PortNo> =
                network.links.iter().flat_map(|link| [link.a, link.b]).filter_map(|at| own_port(&at)).collect();
            let (edge, link) = (some(random, &hosts), some(random, &links));
            // A link with one end closed looks like hosts at the other end, and nothing comes out there.
            let more = some(random, &hosts).0;
            let used = edge.0.iter().cloned().chain(more).chain(links.iter().map(|port| port.0..=port.0));
            let ports = (lies && random.one_in(4)).then(|| PortSet(used.collect()));
            switches.insert(dpid, SwitchFacts { ports, edge, link, max_hosts: Vec::new() });
        }
        let mut hosts = BTreeMap::new();
        for number in 0..network.hosts.len() {
            if random.one_in(3) {
                let at = if lies && random.one_in(3) { *random.pick(&network.hosts) } else { network.hosts[number] };
                hosts.insert(
                    host(number).mac,
                    HostFacts { at: self.driver.declares_places.then_some(at), ..HostFacts::default() },
                );
            }
        }
        Arc::new(Facts::new(switches, hosts))
    }

    fn wait(&mut self) -> Duration {
        match self.random.below(5) {
            0 => Duration::ZERO,
            1 => self.up_to(Duration::from_micros(300)),
            2 => self.up_to(Duration::from_millis(5)),
            3 => self.up_to(Duration::from_millis(20)),
            _ => Duration::from_millis(700),
        }
    }

    fn up_to(&mut self, most: Duration) -> Duration {
        Duration::from_nanos(1 + self.random.below(most.as_nanos() as usize) as u64)
    }

    fn flow(&mut self) -> usize {
        self.random.below(self.flows)
    }

    fn host(&mut self) -> usize {
        self.random.below(self.world.hosts.len())
    }

    fn edge(&mut self) -> Location {
        *self.random.pick(&self.world.edges)
    }

    fn dpid(&mut self) -> Dpid {
        Dpid(1 + self.random.below(self.world.switches as usize) as u64)
    }
}
