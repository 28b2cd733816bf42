//! Random policies, networks, packets and events for the contract test.
//!
//! Domains are small, so that packets meet the same leaves and routes meet at the same switches.

use std::sync::LazyLock;

use maple_wire::packet::build::Frame;
use maple_wire::{Constraint, Dpid, Field, PortNo, Version};

use super::Random;
use crate::network::{Hop, LinkName, Location, Mac};
use crate::policy::{Net, PacketHandle, Policy, PolicyError};
use crate::query::Query;
use crate::route::{Limit, Route};
use crate::run::Observe as _;
use crate::state::{Access, Stop, Value, Write};
use crate::trace::Cond;

/// A policy as a tree: each node asks one thing and goes on.
#[derive(Clone, Debug)]
pub enum Tree {
    /// Reads a field under a mask and goes on by one of its low bits.
    Read(Field, u128, Box<[Tree; 2]>),
    /// Tests a field for a value.
    Is(Field, u128, Box<[Tree; 2]>),
    /// Tests a field for a range.
    Within(Field, u128, u128, Box<[Tree; 2]>),
    /// Whether the packet has a field.
    Has(Field, Box<[Tree; 2]>),
    /// Asks at which switch the packet entered: one after this, or not.
    Switch(u64, Box<[Tree; 2]>),
    /// Whether a variable is set.
    Var(&'static str, Box<[Tree; 2]>),
    /// Whether a table has a value for the field.
    Table(&'static str, Field, Box<[Tree; 2]>),
    /// Whether a table has more than one key.
    Crowded(&'static str, Box<[Tree; 2]>),
    /// Whether a query finds more than so many keys in a table.
    Full(&'static str, usize, Box<[Tree; 2]>),
    /// Sets a variable and puts the field into a table, takes that back, and sets another variable if it was not set.
    Either(&'static str, Field, &'static str, Box<Tree>),
    /// Puts the field into a table (once: it writes only what is not there).
    Remember(&'static str, Field, Box<Tree>),
    /// Sets a variable, whatever it was.
    Set(&'static str, Box<Tree>),
    /// Answers.
    Go(Answer),
}

/// A route in a policy.
#[derive(Clone, Debug)]
pub enum Answer {
    Drop,
    Flood,
    /// To the first edge ports of the ingress switch.
    Local(usize),
    /// To where the destination is, else flood.
    ToDestination(Option<&'static str>),
    /// To this host, if it was seen.
    ToHost(Mac),
    /// To an edge port, by the shortest way.
    ToPort(Location),
    /// To whoever owns the IPv4 address of this number, if anybody does.
    ToAddress(u8),
    /// Back out of the port where it came in, and of the first edge port of the ingress switch.
    Back,
    /// With a frame of f's own besides: to where the packet came from, or out of a port that may be none.
    Own(Option<Location>, Box<Answer>),
    /// Under a limit of this name.
    Limited(u8, Box<Answer>),
    /// With a copy to a place, which may be none.
    Copy(Location, Box<Answer>),
    /// One of these, by some of these fields' bits.
    OneOf(Vec<Answer>, Vec<Field>),
    /// To both hosts.
    Multicast(Mac, Mac),
    /// With a rewrite that the packet may lack the field for.
    Set(Field, u128, Box<Answer>),
    /// A list of hops, which may be wrong.
    Hops(Vec<Hop>),
}

/// Whether a table has more than so many keys.
static FULL: LazyLock<Query<(String, u64), bool>> =
    LazyLock::new(|| Query::new("full", |net: &Net, (table, most): (String, u64)| net.len(&table) as u64 > most));

impl Policy for Tree {
    fn decide(&self, pkt: &PacketHandle, net: &Net) -> Result<Route, PolicyError> {
        let mut here = self;
        loop {
            let (next, yes) = match here {
                Tree::Go(answer) => return Ok(answer.route(pkt, net)),
                Tree::Remember(table, field, next) => {
                    let key = key(pkt, *field);
                    if !net.contains(table, &key) {
                        net.set(table, key, Value::from(true));
                    }
                    here = next;
                    continue;
                }
                Tree::Set(name, next) => {
                    net.set_var(name, Value::from(true));
                    here = next;
                    continue;
                }
                Tree::Read(field, mask, next) => {
                    (next, pkt.read(*field, *mask, None).is_some_and(|value| value.count_ones() % 2 == 1))
                }
                Tree::Is(field, value, next) => (next, pkt.is(*field, *value)),
                Tree::Within(field, lo, hi, next) => (next, pkt.within(*field, *lo, *hi)),
                Tree::Has(field, next) => (next, pkt.present(*field, None)),
                Tree::Switch(last, next) => (next, pkt.switch().0 > *last),
                Tree::Var(name, next) => (next, net.var(name).is_some()),
                Tree::Table(table, field, next) => {
                    let key = key(pkt, *field);
                    (next, net.contains(table, &key))
                }
                Tree::Crowded(table, next) => (next, net.len(table) > 1),
                Tree::Full(table, most, next) => (next, FULL.get(net, &((*table).to_owned(), *most as u64))),
                Tree::Either(first, field, second, next) => {
                    let (key, is_set) = (key(pkt, *field), net.var(second).is_some());
                    let waits = |net: &Net| {
                        net.set_var(first, Value::from(true));
                        net.set("seen", key, Value::from(true));
                        Err(Stop::Retry)
                    };
                    let instead = |net: &Net| {
                        if !is_set {
                            net.set_var(second, Value::from(true));
                        }
                        Ok(())
                    };
                    net.or_else(waits, instead)?;
                    here = next;
                    continue;
                }
            };
            here = &next[usize::from(yes)];
        }
    }
}

fn key(pkt: &PacketHandle, field: Field) -> Value {
    pkt.get(field).map_or(Value::None, |value| Value::from(value as i128))
}

impl Answer {
    fn route(&self, pkt: &PacketHandle, net: &Net) -> Route {
        match self {
            Answer::Drop => Route::drop(),
            Answer::Flood => Route::flood(),
            Answer::Local(count) => Route::to(net.edge_ports(pkt.switch()).into_iter().take(*count)),
            Answer::ToDestination(weight) => match (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst()), weight) {
                (Some(src), Some(dst), Some(weight)) => net.path(src, dst, weight),
                (Some(src), Some(dst), None) => net.shortest_path(src, dst),
                _ => Route::flood(),
            },
            Answer::ToHost(mac) => from_here(pkt, net, *mac),
            Answer::ToAddress(last) => {
                let found = net.locate_ip(std::net::IpAddr::from([10, 0, 0, *last]));
                found.map_or_else(Route::unreachable, |(mac, _)| from_here(pkt, net, mac))
            }
            Answer::Back => Route::to(net.edge_ports(pkt.switch()).into_iter().take(1).chain([PortNo::IN_PORT])),
            Answer::ToPort(at) => net.shortest_path(Location::new(pkt.switch(), PortNo(1)), *at),
            Answer::Multicast(a, b) => {
                let root = from_here(pkt, net, *a);
                // Two shortest paths from one switch need not make a tree; then the route is an error, which drops.
                Route::union([root, from_here(pkt, net, *b)])
            }
            Answer::Set(field, value, inner) => inner.route(pkt, net).set(*field, *value),
            Answer::Limited(name, inner) => inner.route(pkt, net).limit(Limit::packets(name.to_string(), 1000)),
            Answer::Copy(to, inner) => inner.route(pkt, net).copy_to(*to),
            Answer::OneOf(all, by) => Route::one_of(all.iter().map(|one| one.route(pkt, net)), pkt, by),
            Answer::Own(to, inner) => {
                let Some(frame) = pkt.frame() else { return Route::drop() };
                let own = [&[frame[0] ^ 0x40], &frame[1..]].concat();
                match (to, &**inner) {
                    (Some(to), _) => net.send(*to, own),
                    (None, Answer::Drop) => return Route::answer([own]),
                    (None, _) => net.reply(own),
                }
                inner.route(pkt, net)
            }
            Answer::Hops(hops) => Route::hops(hops.iter().copied()),
        }
    }
}

fn from_here(pkt: &PacketHandle, net: &Net, mac: Mac) -> Route {
    let here = Location::new(pkt.switch(), PortNo(1));
    net.locate(mac).map_or_else(Route::unreachable, |to| net.shortest_path(here, to))
}

/// Hosts of every generated network; the last sends from wherever it is told to.
pub fn hosts() -> Vec<Mac> {
    (1..=4).map(|n| Mac([0, 0, 0, 0, 0, n])).collect()
}

const TABLES: [&str; 2] = ["seen", "blocked"];
const VARS: [&str; 2] = ["night", "alarm"];
const PORTS: [u16; 4] = [22, 53, 80, 2000];

/// Fields that policies look at.
const FIELDS: [Field; 12] = [
    Field::InPort,
    Field::EthSrc,
    Field::EthDst,
    Field::EthDst,
    Field::EthType,
    Field::VlanVid,
    Field::IpProto,
    Field::Ipv4Src,
    Field::Ipv4Dst,
    Field::TcpDst,
    Field::UdpDst,
    Field::Ipv6Dst,
];

/// A policy that decides between equal headers by where they entered, so that routes can't be told apart on links.
pub fn policy_by_ingress(random: &mut Random, depth: usize) -> Tree {
    let to_port = |random: &mut Random| {
        let at = Location::new(Dpid(*random.pick(&[1, 2, 3, 4, 4])), PortNo(4 + random.below(2) as u32));
        Answer::ToPort(at)
    };
    let below = |random: &mut Random| match random.below(10) {
        0 => policy(random, 2),
        1..5 if depth > 0 => policy_by_ingress(random, depth - 1),
        1..3 => Tree::Go(answer(random, 1)),
        3..5 => Tree::Go(Answer::Set(Field::Ipv4Src, 0x0a00_0063, Box::new(to_port(random)))),
        _ => Tree::Go(to_port(random)),
    };
    let next = Box::new([below(random), below(random)]);
    match random.below(10) {
        0..6 => Tree::Switch(1 + random.below(3) as u64, next),
        6 => Tree::Read(Field::InPort, Field::InPort.full_mask(), next),
        7 => Tree::Is(Field::InPort, value(random, Field::InPort), next),
        8 => Tree::Read(Field::VlanVid, *random.pick(&[0x1000, 0x1fff]), next),
        _ => Tree::Var(random.pick::<&str>(&VARS), next),
    }
}

/// A policy of at most this depth.
pub fn policy(random: &mut Random, depth: usize) -> Tree {
    if depth == 0 || random.chance(12) {
        return Tree::Go(answer(random, 1));
    }
    let field = *random.pick(&FIELDS);
    if random.chance(6) {
        let next = Box::new(policy(random, depth - 1));
        return if random.chance(20) {
            Tree::Either(random.pick::<&str>(&VARS), field, random.pick::<&str>(&VARS), next)
        } else if random.chance(70) {
            Tree::Remember(random.pick::<&str>(&TABLES), field, next)
        } else {
            Tree::Set(random.pick::<&str>(&VARS), next)
        };
    }
    let next = Box::new([policy(random, depth - 1), policy(random, depth - 1)]);
    match random.below(20) {
        0..5 => Tree::Read(field, mask(random, field), next),
        5..10 => Tree::Is(field, value(random, field), next),
        10..13 => {
            let (a, b) = (value(random, field), value(random, field));
            Tree::Within(field, a.min(b), a.max(b), next)
        }
        13 => Tree::Has(field, next),
        14 => Tree::Switch(1 + random.below(3) as u64, next),
        15..17 => Tree::Var(random.pick::<&str>(&VARS), next),
        17..19 => Tree::Table(random.pick::<&str>(&TABLES), field, next),
        _ if random.chance(50) => Tree::Full(random.pick::<&str>(&TABLES), 1 + random.below(2), next),
        _ => Tree::Crowded(random.pick::<&str>(&TABLES), next),
    }
}

/// A list of filters, first match counts, over routes that mostly go where the packet says.
pub fn policy_of_filters(random: &mut Random) -> Tree {
    let to_somewhere = |random: &mut Random| match random.below(12) {
        0 => Answer::Drop,
        1 => answer(random, 1),
        2 => Answer::ToHost(*random.pick(&hosts())),
        3 => Answer::ToPort(Location::new(Dpid(1 + random.below(4) as u64), PortNo(4))),
        _ => Answer::ToDestination(if random.chance(20) { Some("cost") } else { None }),
    };
    let mut policy = Tree::Go(to_somewhere(random));
    for _ in 0..1 + random.below(6) {
        let field = *random.pick(&FIELDS[1..]);
        let next = Box::new([policy, Tree::Go(to_somewhere(random))]);
        policy = match random.below(8) {
            0 => Tree::Read(field, mask(random, field), next),
            1..6 => Tree::Is(field, value(random, field), next),
            6 => Tree::Switch(1 + random.below(3) as u64, next),
            _ => {
                let (a, b) = (value(random, field), value(random, field));
                Tree::Within(field, a.min(b), a.max(b), next)
            }
        };
    }
    policy
}

/// What handlers want to hear of.
fn wanted(random: &mut Random) -> Vec<Cond> {
    let cond = |random: &mut Random| {
        let field = *random.pick(&FIELDS);
        let exact = Constraint::exact(field, value(random, field));
        if random.chance(10) { Cond::default() } else { Cond::default().and(exact) }
    };
    (0..1 + random.below(2)).map(|_| cond(random)).collect()
}

fn answer(random: &mut Random, sets: usize) -> Answer {
    let hosts = hosts();
    match random.below(20) {
        0..2 => Answer::Drop,
        2..5 => Answer::Flood,
        5 if random.chance(50) => Answer::Back,
        5..7 => Answer::Local(1 + random.below(2)),
        7..12 => Answer::ToDestination(if random.chance(30) { Some("cost") } else { None }),
        12..14 => Answer::ToHost(*random.pick(&hosts)),
        16 if sets > 0 && random.chance(60) => {
            let all = (0..1 + random.below(3)).map(|_| answer(random, 0)).collect();
            Answer::OneOf(all, (0..1 + random.below(2)).map(|_| *random.pick(&FIELDS)).collect())
        }
        15 if sets > 0 && random.chance(60) => {
            let to = Location::new(Dpid(1 + random.below(4) as u64), PortNo(3 + random.below(3) as u32));
            let less = random.below(2);
            Answer::Copy(to, Box::new(answer(random, sets - less)))
        }
        15..17 => Answer::Multicast(*random.pick(&hosts), *random.pick(&hosts)),
        14 if sets > 0 && random.chance(60) => Answer::Limited(random.below(3) as u8, Box::new(answer(random, 0))),
        14 => Answer::ToAddress(1 + random.below(hosts.len()) as u8),
        17 if sets > 0 && random.chance(50) => {
            let to = Location::new(Dpid(1 + random.below(3) as u64), PortNo(3 + random.below(2) as u32));
            let to = if random.chance(50) { Some(to) } else { None };
            Answer::Own(to, Box::new(answer(random, 0)))
        }
        17..19 if sets > 0 => {
            let (field, value) = *random.pick(&[
                (Field::EthDst, 0x42),
                (Field::TcpDst, 99),
                (Field::VlanVid, 7),
                (Field::Ipv4Src, 0x0a00_0063),
            ]);
            Answer::Set(field, value, Box::new(answer(random, sets - 1)))
        }
        17..19 => Answer::Flood,
        _ => {
            let hop =
                |random: &mut Random| Hop::new(Dpid(1 + random.below(4) as u64), PortNo(1 + random.below(4) as u32));
            Answer::Hops((0..1 + random.below(2)).map(|_| hop(random)).collect())
        }
    }
}

fn mask(random: &mut Random, field: Field) -> u128 {
    match field {
        Field::Ipv4Src | Field::Ipv4Dst if random.chance(50) => 0xffff_fffe,
        Field::EthDst | Field::EthSrc if random.chance(20) => 0xffff_ffff_fffe,
        _ => field.full_mask(),
    }
}

fn value(random: &mut Random, field: Field) -> u128 {
    match field {
        Field::InPort => 1 + random.below(5) as u128,
        Field::EthSrc | Field::EthDst => random.pick(&hosts()).bits(),
        Field::EthType => *random.pick(&[0x0800, 0x0806, 0x86dd]),
        Field::VlanVid => *random.pick(&[0, 0x1001, 0x1007]),
        Field::IpProto => *random.pick(&[6, 17]),
        Field::Ipv4Src | Field::Ipv4Dst => 0x0a00_0000 + 1 + random.below(4) as u128,
        Field::Ipv6Dst => 1 + random.below(4) as u128,
        _ => u128::from(*random.pick(&PORTS)),
    }
}

/// A frame from one host to another, with a mark that tells it from all others. Equal seeds give equal headers.
pub fn frame(seed: u64, src: Mac, mark: u32) -> Vec<u8> {
    let random = &mut Random(seed);
    let dst = *random.pick(&hosts());
    let frame = Frame::ethernet(if random.chance(6) { [0xff; 6] } else { dst.0 }, src.0);
    // Ids that labels have too, under both kinds of tags.
    let (outer, inner) = (*random.pick(&[1, 2, 7, 8]), *random.pick(&[1, 7]));
    let frame = match random.below(20) {
        0..2 => frame.vlan(outer),
        2 => frame.vlan(outer).vlan(inner),
        3 => frame.service_vlan(outer),
        4 => frame.service_vlan(outer).vlan(inner),
        _ => frame,
    };
    let mark = mark.to_be_bytes();
    let v4 = |mac: Mac| [10, 0, 0, mac.0[5]];
    let v6 = |mac: Mac| std::net::Ipv6Addr::from(u128::from(mac.0[5]));
    let (from, to) = (random.below(4) as u16 + 1000, *random.pick(&PORTS));
    match random.below(10) {
        0..5 => frame.ipv4(v4(src), v4(dst)).tcp(from, to).payload(&mark),
        5..7 => frame.ipv4(v4(src), v4(dst)).udp(from, to).payload(&mark),
        7 => frame.ipv6(v6(src), v6(dst)).tcp(from, to).payload(&mark),
        8 => {
            // Some say that they have another's address.
            let own = if random.chance(30) { dst } else { src };
            [&frame.arp_request(v4(own), v4(dst))[..], &mark].concat()
        }
        _ => frame.raw(0x88b5, &mark),
    }
}

/// The shape of a network.
#[derive(Clone, Debug)]
pub struct Shape {
    pub switches: u64,
    pub links: Vec<(Location, Location)>,
    pub versions: Vec<Version>,
    /// How many tables each switch has.
    pub tables: Vec<u8>,
    /// The table that switches take no rules for, and whether they take such as write metadata.
    pub refused: (Option<u8>, bool),
    pub shards: u8,
    /// The second host port of each switch: port 5, or the switch's own host's.
    pub last_port: PortNo,
    /// How much of a packet switches send to the controller, and whether they keep the rest.
    pub capture: Option<(usize, bool)>,
    /// What handlers hear of.
    pub heard: Vec<Cond>,
    /// Whether switches take meters.
    pub takes_meters: bool,
}

/// Ports of every switch: 1 to 3 for links, 4 and 5 for hosts; in place of 5 perhaps its own host's.
pub const LINK_PORTS: u32 = 3;

/// A connected network of two to four switches.
pub fn shape(random: &mut Random) -> Shape {
    let switches = 2 + random.below(3) as u64;
    let mut links = Links { taken: vec![0; switches as usize + 1], all: Vec::new() };
    for dpid in 2..=switches {
        links.join(dpid, 1 + random.below(dpid as usize - 1) as u64);
    }
    for _ in 0..random.below(3) {
        links.join(1 + random.below(switches as usize) as u64, 1 + random.below(switches as usize) as u64);
    }
    let only = match random.below(10) {
        0..6 => Some(Version::Of13),
        6..8 => Some(Version::Of10),
        _ => None,
    };
    let mut version = || only.unwrap_or(if random.chance(50) { Version::Of10 } else { Version::Of13 });
    let versions: Vec<Version> = (0..switches).map(|_| version()).collect();
    odd_switches(random, Shape { switches, links: links.all, versions, ..plain() })
}

/// Everything but the network itself.
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

/// Some switches have few tables, or hosts of their own, or send parts of packets. One or two shards serve them.
fn odd_switches(random: &mut Random, shape: Shape) -> Shape {
    let tables = |version: &Version| match version {
        Version::Of10 => 1,
        Version::Of13 if random.chance(20) => 1 + random.below(3) as u8,
        Version::Of13 => 254,
    };
    let tables = shape.versions.iter().map(tables).collect();
    let last_port = if random.chance(15) { PortNo::LOCAL } else { PortNo(5) };
    let capture = random.chance(8).then(|| (20 + random.below(50), random.chance(50)));
    let refused = (random.chance(4).then_some(3), !random.chance(6));
    let heard = if random.chance(12) { wanted(random) } else { Vec::new() };
    let takes_meters = random.chance(90);
    Shape { takes_meters, heard, tables, refused, shards: 1 + random.below(2) as u8, last_port, capture, ..shape }
}

/// Four switches in a line or ring, mostly of version 1.3.
pub fn line_shape(random: &mut Random) -> Shape {
    let mut links = Links { taken: vec![0; 5], all: Vec::new() };
    (2..=4).for_each(|dpid| links.join(dpid - 1, dpid));
    if random.chance(30) {
        links.join(4, 1);
    }
    let versions: Vec<Version> = (0..4).map(|_| if random.chance(5) { Version::Of10 } else { Version::Of13 }).collect();
    odd_switches(random, Shape { switches: 4, links: links.all, versions, ..plain() })
}

/// Links, made one after the other.
struct Links {
    /// The ports of each switch that are taken.
    taken: Vec<u32>,
    all: Vec<(Location, Location)>,
}

impl Links {
    /// Joins two switches, if both have a port left.
    fn join(&mut self, a: u64, b: u64) {
        if a != b && self.taken[a as usize] < 3 && self.taken[b as usize] < 3 {
            let mut end = |dpid: u64| {
                self.taken[dpid as usize] += 1;
                Location::new(Dpid(dpid), PortNo(self.taken[dpid as usize]))
            };
            self.all.push((end(a), end(b)));
        }
    }
}

/// A frame, shown in one line.
#[derive(Clone)]
pub struct Bytes(pub Vec<u8>);

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&maple_wire::packet::text::summary(&maple_wire::Packet::new(&self.0, 0)))
    }
}

/// One thing that happens.
#[derive(Clone, Debug)]
pub enum Step {
    /// A host sends.
    Send { host: usize, frame: Bytes },
    /// Somebody sends with a host's address from another port.
    Forge { host: usize, from: usize, frame: Bytes },
    /// A host's port goes down and up again, and the host sends before it is known what is behind the port.
    Flap { host: usize, frame: Bytes },
    /// A link goes down.
    LinkDown(usize),
    /// It comes up again.
    LinkUp(usize),
    /// A host moves, and perhaps its old port notices.
    Move { host: usize, to: usize },
    /// The state is written from outside.
    Write(Write),
    /// Everything is withdrawn.
    Invalidate,
    /// A switch loses its rules and connects again.
    Restart(u64),
    /// Another controller deletes a rule.
    LoseRule(u64, usize),
    /// A switch has room for only so many rules from now on.
    Shrink(u64, usize),
    /// Everything comes to rest before what follows.
    Rest,
}

/// A host's first packet.
pub fn greeting(random: &mut Random, host: usize) -> Step {
    let mark = 0x4000_0000 + host as u32;
    Step::Send { host, frame: Bytes(frame(random.number(), hosts()[host], mark)) }
}

/// What happens, in order.
pub fn steps(random: &mut Random, shape: &Shape, count: usize) -> Vec<Step> {
    // A few flows, so that packets meet the rules of those before.
    let flows = 1 + random.below(6);
    steps_of_flows(random, shape, count, flows)
}

/// What happens to so many flows, in order.
pub fn steps_of_flows(random: &mut Random, shape: &Shape, count: usize, flows: usize) -> Vec<Step> {
    let hosts = hosts();
    let flows: Vec<(usize, u64)> = (0..flows).map(|_| (random.below(hosts.len()), random.number())).collect();
    let mut mark = 0;
    let mut all = Vec::new();
    while all.len() < count {
        mark += 1;
        let (host, flow) = *random.pick(&flows);
        let mut packet = || {
            mark += 1;
            Bytes(frame(flow, hosts[host], mark))
        };
        let dpid = 1 + random.below(shape.switches as usize) as u64;
        let edges = shape.switches as usize * 2;
        let step = match random.below(100) {
            0..58 => {
                all.extend((0..random.below(4)).map(|_| Step::Send { host, frame: packet() }));
                Step::Send { host, frame: packet() }
            }
            58..60 => Step::Forge { host, from: random.below(edges), frame: packet() },
            60..62 => Step::LinkDown(random.below(shape.links.len())),
            62..65 => Step::LinkUp(random.below(shape.links.len())),
            65..67 => Step::Move { host, to: random.below(edges) },
            67..76 => Step::Write(write(random, shape)),
            76..80 => Step::Invalidate,
            80 => Step::Restart(dpid),
            81 => Step::Flap { host, frame: packet() },
            82 => Step::LoseRule(dpid, random.below(8)),
            83 => Step::Shrink(dpid, 6 + random.below(8)),
            _ => Step::Rest,
        };
        all.push(step);
    }
    all
}

fn write(random: &mut Random, shape: &Shape) -> Write {
    let on = random.chance(60);
    match random.below(3) {
        0 => {
            let key = Value::from(random.pick(&hosts()).bits() as i128);
            Write::Table { table: (*random.pick::<&str>(&TABLES)).into(), key, value: on.then(|| Value::from(true)) }
        }
        1 => Write::Var { name: (*random.pick::<&str>(&VARS)).into(), value: on.then(|| Value::from(true)) },
        _ => {
            let link = LinkName::Port(random.pick(&shape.links).0);
            Write::Cost { name: "cost".into(), link, cost: on.then(|| 1 + random.below(9) as u64) }
        }
    }
}
