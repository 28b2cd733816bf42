//! The transit table against a naive oracle: after each single change of a random history, every packet of a part that is
//! in use, or whose packets may be under way, gets what that part says or goes to the controller.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use maple_wire::msg::{ErrorMsg, Features, Message};
use maple_wire::packet::build::Frame;
use maple_wire::{Action, Packet, Version};

use super::*;
use crate::engine::event::{Answer, Letter};
use crate::engine::{Effect, Engine, Event, InstalledFlow, Mail, ShardId};
use crate::network::{PortInfo, PortKind};
use crate::policy::{Net, PacketHandle};
use crate::route::Route;
use crate::sim::{Out, Random, SimSwitch};
use crate::state::{Store, Write};
use crate::trace::Recorder;

const DPID: Dpid = Dpid(7);
const LINKS: [PortNo; 2] = [PortNo(1), PortNo(2)];
const OWNERS: ShardId = ShardId(1);
const DRAIN: Duration = Duration::from_millis(50);

/// A list of filters, first match counts, over the ports that packets go on by. The last line takes all.
type Filters = Vec<(Field, u128, u128, PortNo)>;

/// What its owner knows of a leaf.
struct Owned {
    install: Install,
    /// The frames that are its packets.
    frames: Vec<usize>,
    /// The switch has its part.
    is_in: bool,
    /// It was withdrawn; until then packets may be under way.
    until: Option<Time>,
}

/// What is on its way to the switch.
enum Sent {
    Message(u32, Box<Message>),
    ReadFlows,
}

struct World {
    random: Random,
    /// What the switches can match where packets enter: perhaps more than the one that they pass.
    entrance: Capabilities,
    engine: Engine,
    switch: SimSwitch,
    queue: VecDeque<Sent>,
    now: Time,
    frames: Vec<Vec<u8>>,
    /// By ingress switch.
    filters: Vec<Filters>,
    leaves: BTreeMap<LeafId, Owned>,
    next: u64,
    checked: u64,
    flow_mods: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random(seed);
        let version = *random.pick(&[Version::Of13, Version::Of13, Version::Of10]);
        let thin_after = Some(Duration::from_millis(*random.pick(&[20, 20, 200])));
        let options = Options { drain: DRAIN, thin_after, ..Options::default() };
        let policy = |_: &PacketHandle, _: &Net| Route::drop();
        let engine = Engine::new(ShardId(0), Store::new(), Arc::new(policy), options);
        let mut switch = SimSwitch::new(DPID, version);
        if random.chance(15) {
            switch.capacity = 16 + random.below(16);
        }
        let frames = (0..72).map(|n| frame(n as u8)).collect();
        let entrance = if random.chance(50) { version } else { Version::Of13 };
        let mut world = World {
            entrance: Capabilities::of(entrance, &features(254)),
            filters: filters(&mut random),
            random,
            engine,
            switch,
            queue: VecDeque::new(),
            now: Time(1),
            frames,
            leaves: BTreeMap::new(),
            next: 0,
            checked: 0,
            flow_mods: 0,
        };
        world.connect(version);
        world
    }

    fn connect(&mut self, version: Version) {
        self.engine.switch_up(DPID, Capabilities::of(version, &features(self.switch.tables)), &[]);
        let peer = |port: PortNo| PortKind::Link(Location::new(Dpid(1), port));
        let port =
            |at: PortNo| Write::Port { at: Location::new(DPID, at), info: Some(PortInfo { up: true, kind: peer(at) }) };
        self.handle(vec![Event::Write(LINKS.into_iter().map(port).collect())]);
    }

    fn handle(&mut self, mut events: Vec<Event>) {
        let mut effects = Vec::new();
        self.engine.handle(self.now, &mut events, &mut effects);
        for effect in effects {
            match effect {
                Effect::Send { xid, message, .. } => self.queue.push_back(Sent::Message(xid, Box::new(message))),
                Effect::ReadFlows { .. } => self.queue.push_back(Sent::ReadFlows),
                Effect::Mail { mail: Mail(Letter::Answer(answer)), .. } => self.answered(&answer),
                _ => {}
            }
        }
    }

    fn answered(&mut self, answer: &Answer) {
        let Some(owned) = self.leaves.get_mut(&answer.leaf).filter(|owned| owned.until.is_none()) else { return };
        match &answer.outcome {
            Ok(()) => owned.is_in = true,
            Err(_) => self.withdraw(answer.leaf),
        }
    }

    fn withdraw(&mut self, leaf: LeafId) {
        let Some(owned) = self.leaves.get_mut(&leaf) else { return };
        owned.until = Some(self.now + DRAIN);
        let Some(arrives) = owned.install.part.arrives else { return };
        let letter = Letter::Remove { leaf, dpid: DPID, arrives };
        self.handle(vec![Event::Mail(Mail(letter))]);
    }

    /// The next thing that is on its way gets to the switch.
    fn deliver(&mut self) {
        self.now = self.now + Duration::from_micros(10);
        match self.queue.pop_front() {
            Some(Sent::ReadFlows) => {
                let flows: Vec<InstalledFlow> = self.switch.flows.clone();
                self.handle(vec![Event::FlowsRead { dpid: DPID, flows }]);
            }
            Some(Sent::Message(xid, message)) => match *message {
                Message::BarrierRequest => self.handle(vec![Event::BarrierReply { dpid: DPID, xid }]),
                Message::FlowMod(flow_mod) => {
                    self.flow_mods += 1;
                    let outcome: Result<_, ErrorMsg> = self.switch.flow_mod(&flow_mod);
                    self.check();
                    if let Err(error) = outcome {
                        self.handle(vec![Event::SwitchError { dpid: DPID, xid, error }]);
                    }
                }
                _ => {}
            },
            None => {}
        }
    }

    /// The naive oracle.
    fn check(&mut self) {
        let now = self.now;
        let can_come = |owned: &&Owned| owned.is_in && owned.until.is_none_or(|until| until > now);
        for owned in self.leaves.values().filter(can_come) {
            let part = &owned.install.part;
            let Some(arrives) = part.arrives else { continue };
            for frame in owned.frames.iter().map(|at| &self.frames[*at]) {
                let out = self.switch.receive(frame, arrives);
                let ports: BTreeSet<PortNo> = out.iter().filter_map(port_of).collect();
                let to_controller = out.len() == 1 && ports.is_empty();
                assert!(
                    to_controller || ports == part.links,
                    "a packet of {:?} goes out by {ports:?}, not {:?}:\n{:#?}",
                    owned.install.trace.items,
                    part.links,
                    self.switch.flows
                );
                self.checked += 1;
            }
        }
    }

    /// A packet enters that no leaf is for.
    fn miss(&mut self) {
        let ingress = self.random.below(self.filters.len());
        let at = self.random.below(self.frames.len());
        let (arrives, from) = (LINKS[ingress % LINKS.len()], (Dpid(1 + ingress as u64), None));
        let is_its = |owned: &&Owned| owned.install.ingress == from && owned.until.is_none();
        if self.leaves.values().filter(is_its).any(|owned| owned.frames.contains(&at)) {
            return;
        }
        let frame = &self.frames[at];
        let (trace, port) = decide(&self.filters[ingress], &Packet::new(frame, 1));
        let entering = trace.lower(&Packet::new(frame, 1), &self.entrance).items;
        let passes = |frame: &Vec<u8>| entering.iter().all(|item| item.holds(&Packet::new(frame, 1)));
        let frames = (0..self.frames.len()).filter(|at| passes(&self.frames[*at])).collect();
        self.next += 1;
        let leaf = LeafId(u64::from(OWNERS.0) << 32 | self.next);
        let part = Part { arrives: Some(arrives), links: [port].into(), ..Part::default() };
        let frame: Arc<[u8]> = frame.clone().into();
        let install = Install {
            leaf,
            attempt: 1,
            dpid: DPID,
            ingress: from,
            trace,
            entering,
            total_len: frame.len(),
            frame,
            part,
            unicast: false,
            tag: None,
        };
        let letter = Letter::Install(Box::new(install.clone()));
        self.leaves.insert(leaf, Owned { install, frames, is_in: false, until: None });
        self.handle(vec![Event::Mail(Mail(letter))]);
    }

    /// The policy changes: leaves that it would not make any more are withdrawn.
    fn change(&mut self) {
        self.filters = filters(&mut self.random);
        let stale = |owned: &Owned| {
            let Install { ingress, frame, trace, part, .. } = &owned.install;
            let (now, port) = decide(&self.filters[ingress.0.0 as usize - 1], &Packet::new(frame, 1));
            now.items != trace.items || part.links != [port].into()
        };
        let all = self.leaves.iter().filter(|(_, owned)| owned.until.is_none() && stale(owned));
        let all: Vec<LeafId> = all.map(|(leaf, _)| *leaf).collect();
        all.into_iter().for_each(|leaf| self.withdraw(leaf));
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        // What was on its way has passed.
        let now = self.now;
        self.leaves.retain(|_, owned| owned.until.is_none_or(|until| until > now));
        self.handle(vec![Event::Tick]);
    }

    /// Lets everything come to rest.
    fn rest(&mut self, seed: u64) {
        let mut left = 10_000;
        while !self.queue.is_empty() {
            self.deliver();
            left -= 1;
            assert!(left > 0, "seed {seed}: never at rest");
        }
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..30 => self.miss(),
            30..85 => self.deliver(),
            85..95 => self.pass(Duration::from_millis(5)),
            95..98 => {
                let live = self.leaves.iter().filter(|(_, owned)| owned.until.is_none()).map(|(leaf, _)| *leaf);
                let live: Vec<LeafId> = live.collect();
                if !live.is_empty() {
                    let leaf = *self.random.pick(&live);
                    self.withdraw(leaf);
                }
            }
            98 => (0..100).for_each(|_| self.deliver()),
            _ if self.random.chance(30) => self.change(),
            _ => self.pass(Duration::from_millis(200)),
        }
    }
}

fn features(n_tables: u8) -> Features {
    let (n_buffers, auxiliary_id, capabilities, actions, ports) = (0, 0, 0, 0, Vec::new());
    Features { dpid: DPID, n_buffers, n_tables, auxiliary_id, capabilities, actions, ports }
}

/// Three destinations by Ethernet address, two by IP address, ports; of two Ethernet types.
fn frame(n: u8) -> Vec<u8> {
    let frame = Frame::ethernet([0, 0, 0, 0, 0, n % 3], [0, 0, 0, 0, 1, n / 3 % 2]);
    match n / 6 % 4 {
        3 => frame.arp_reply([10, 0, 0, n / 24], [10, 0, 0, 9]),
        port => frame.ipv4([10, 0, 0, 1], [10, 0, 0, n / 24]).udp(1000, u16::from(port)).payload(b"hello"),
    }
}

/// Filters for three ingress switches: mostly the same for all, as those of one policy are.
fn filters(random: &mut Random) -> Vec<Filters> {
    let way = |random: &mut Random, to: u128| match random.below(10) {
        0 => PortNo(3 + random.below(3) as u32),
        _ => PortNo(3 + to as u32 % 2),
    };
    let one = |random: &mut Random| {
        let mut lines = Filters::new();
        for _ in 0..random.below(5) {
            let (field, value) = *random.pick(&[
                (Field::EthDst, 0),
                (Field::EthDst, 1),
                (Field::EthDst, 2),
                (Field::EthSrc, 0x100),
                (Field::EthType, 0x806),
                (Field::Ipv4Dst, 0x0a00_0001),
                (Field::Ipv4Dst, 0x0a00_0002),
                (Field::UdpDst, 1),
                (Field::UdpDst, 2),
            ]);
            // Not every switch takes such masks.
            let odd = [Field::EthDst, Field::EthSrc].contains(&field) && random.chance(50);
            let mask = if odd { field.full_mask() - 1 } else { field.full_mask() };
            lines.push((field, value & mask, mask, way(random, value)));
        }
        // Then by a field's value: where the packet is headed.
        let by = *random.pick(&[Field::EthDst, Field::EthDst, Field::Ipv4Dst]);
        lines.push((by, 0, 0, PortNo(3)));
        lines
    };
    let shared = one(random);
    (0..3).map(|_| if random.chance(15) { one(random) } else { shared.clone() }).collect()
}

/// What the filters say of a packet, and what they looked at.
fn decide(filters: &Filters, packet: &Packet<'_>) -> (Trace, PortNo) {
    let mut recorder = Recorder::new();
    for (field, value, mask, port) in filters {
        if *mask == 0 {
            let to = recorder.read(packet, *field, field.full_mask(), None).unwrap_or_default();
            return (recorder.finish(), PortNo(3 + to as u32 % 2));
        }
        if recorder.equals(packet, *field, *value, *mask, None) {
            // Destination-based routes look at the destination, whatever filter lets the packet pass.
            recorder.read(packet, Field::EthDst, Field::EthDst.full_mask(), None);
            return (recorder.finish(), *port);
        }
    }
    (recorder.finish(), PortNo(3))
}

fn port_of(out: &Out) -> Option<PortNo> {
    if let Out::Port(port, _) = out { Some(*port) } else { None }
}

#[test]
fn after_each_change_every_packet_that_can_come_gets_its_part_s_answer_or_goes_to_the_controller() {
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}?")))
    };
    let (first, cases) = (number("TRANSIT_SEED", 1), number("TRANSIT_CASES", 200));
    let (mut checked, mut spared, mut merged, mut flow_mods) = (0, 0, 0, 0);
    for seed in first..first + cases {
        let mut world = World::new(seed);
        for _ in 0..400 {
            world.step();
            spared += u64::from(world.engine.stats().rules_spared > 0);
        }
        world.rest(seed);
        world.pass(Duration::from_secs(100));
        world.rest(seed);
        world.check();
        merged += world.switch.flows.iter().filter(|flow| flow.priority == MERGED).count();
        checked += world.checked;
        flow_mods += world.flow_mods;
        let live = world.leaves.values().filter(|owned| owned.is_in).count();
        let own = world.switch.flows.iter().filter(|flow| has_output(flow)).count();
        assert!(own <= live, "{own} rules for {live} leaves");
    }
    println!(
        "{checked} packets, {flow_mods} flow-mods, {spared} moments with rules left out, {merged} merged in the end"
    );
    assert!(checked > cases * 1000 && spared > cases * 100 && merged > cases as usize, "{checked} {spared} {merged}");
}

fn has_output(flow: &InstalledFlow) -> bool {
    let is_output = |action: &Action| matches!(action, Action::Output { port, .. } if *port != PortNo::CONTROLLER);
    flow.instructions
        .iter()
        .any(|i| matches!(i, maple_wire::Instruction::ApplyActions(all) if all.iter().any(is_output)))
}
