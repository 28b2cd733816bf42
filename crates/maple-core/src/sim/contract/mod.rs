//! The contract, as a property: the network behaves as if f ran afresh on every packet that enters it.
//!
//! Random policies decide over random packets in random networks of two to four switches, served by one or two shards,
//! while links fail, hosts move, state is written, rules are invalidated or deleted by others, tables fill up and
//! switches restart. All delays are random. What comes out of the network for a packet must be exactly what f, run from
//! scratch, says in *one* of the states that held between the last moment of rest before the packet entered and the
//! first one after it. If something on its way breaks (a link, a switch) or a host moves, it may come out incompletely,
//! but never elsewhere, changed or twice.

mod generate;
mod guards;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use maple_wire::{Dpid, Field, PortNo};

use generate::{LINK_PORTS, Shape, Step, greeting, hosts, line_shape, shape, steps, steps_of_flows};

use guards::{Guard, Judged, Verdict, guards};

use super::cases::{Listed, Program, VARS};
use super::{Delivery, Random, Sim, SimSwitch};
use crate::check::Observation;
use crate::compose::{Composition, Slice};
use crate::engine::{Engine, Event, LabelRange, ListenerPacket, Options, PROBE_MAC, Selection};
use crate::network::{LinkName, Location, Mac, PortKind};
use crate::oracles::Strategy;
use crate::policy::{Policy, PolicyError, SamplePacket};
use crate::route::{Resolved, RouteError};
use crate::run::Run;
use crate::state::{Name, Snapshot, Txn, Write};

/// The Ethernet type of LLDP.
const LLDP: u128 = 0x88cc;

/// One case: everything that a run depends on.
#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    shape: Shape,
    policy: Program,
    /// Whether the policy is that of two slices, each with a part of the network.
    sliced: bool,
    /// Constraints around the policy.
    guards: Vec<Guard>,
    labels: LabelRange,
    track_hosts: bool,
    compiler: Strategy,
    /// The maximum number of rules of a switch, and of leaves of a tree.
    capacity: (Option<usize>, Option<usize>),
    steps: Vec<Step>,
    /// Whether chains of questions are asked as lists, and some packets decided beforehand.
    lists: bool,
}

/// A packet that entered, and whether its host was where the controller believed.
struct Sent {
    frame: Vec<u8>,
    at: Location,
    true_place: bool,
}

impl Case {
    fn generate(seed: u64) -> Case {
        let mut random = Random(seed);
        let shape = shape(&mut random);
        let depth = 1 + random.below(5) as u32;
        let policy = shape.world().program(&mut random, depth);
        let count = 6 + random.below(20);
        let steps = steps(&mut random, &shape, count);
        let labels = labels(&mut random);
        let track_hosts = !random.chance(10);
        let (compiler, capacity) = (compiler(&mut random), capacity(&mut random));
        Case {
            seed,
            shape,
            policy,
            sliced: false,
            guards: Vec::new(),
            labels,
            track_hosts,
            compiler,
            capacity,
            steps,
            lists: seed.is_multiple_of(3),
        }
    }

    /// A case in which routes with equal headers meet on links.
    fn of_routes_that_meet(seed: u64) -> Case {
        let mut random = Random(seed);
        let shape = line_shape(&mut random);
        let (world, depth) = (shape.world(), random.below(3) as u32);
        let policy = world.program_by_ingress(&mut random, depth);
        let count = 6 + random.below(20);
        // At first, all hosts become known.
        let mut first: Vec<Step> = (0..hosts().len()).map(|host| greeting(&mut random, &world, host)).collect();
        first.push(Step::Rest);
        let steps = [first, steps(&mut random, &shape, count)].concat();
        let labels = labels(&mut random);
        let track_hosts = !random.chance(10);
        let (compiler, capacity) = (compiler(&mut random), capacity(&mut random));
        Case {
            seed,
            shape,
            policy,
            sliced: false,
            guards: Vec::new(),
            labels,
            track_hosts,
            compiler,
            capacity,
            steps,
            lists: seed.is_multiple_of(3),
        }
    }

    /// A case in which constraints judge the routes.
    fn of_guards(seed: u64) -> Case {
        let case = Case::generate(seed);
        let mut random = Random(!seed);
        let world = case.shape.world();
        let policy = if random.chance(50) { case.policy } else { world.program_of_filters(&mut random) };
        let mut steps: Vec<Step> = (0..hosts().len()).map(|host| greeting(&mut random, &world, host)).collect();
        steps.push(Step::Rest);
        steps.extend(case.steps);
        let mut guards = guards(&mut random, &world);
        // The judge asks the state as it was before the run.
        let writes = policy.to_string().contains(VARS[0]);
        guards.retain(|guard| !writes || !matches!(guard, Guard::FewDeliveries(_)));
        Case { policy, guards, steps, ..case }
    }

    /// A case in which many flows share links.
    fn of_flows_that_share_links(seed: u64) -> Case {
        let mut random = Random(seed);
        let shape = line_shape(&mut random);
        let world = shape.world();
        let policy = world.program_of_filters(&mut random);
        let mut steps: Vec<Step> = (0..hosts().len()).map(|host| greeting(&mut random, &world, host)).collect();
        steps.push(Step::Rest);
        let count = 20 + random.below(30);
        steps.extend(steps_of_flows(&mut random, &shape, count, 16));
        let labels = labels(&mut random);
        let (compiler, capacity) = (compiler(&mut random), capacity(&mut random));
        Case {
            seed,
            shape,
            policy,
            sliced: false,
            guards: Vec::new(),
            labels,
            track_hosts: true,
            compiler,
            capacity,
            steps,
            lists: seed.is_multiple_of(3),
        }
    }

    /// Packets that the policy decides beforehand.
    fn samples(&self) -> Vec<SamplePacket> {
        let mut random = Random(self.seed);
        let world = self.shape.world();
        let mut sample = || SamplePacket::new(world.packet(&mut random, &[]).frame(0));
        (0..self.seed % 8).map(|_| sample()).collect()
    }

    /// The policy without its constraints. Under constraints it is a part of a composition, which also fails where a
    /// branch that leads nowhere writes what the packet lacks.
    fn unguarded(&self, lists: bool) -> Arc<dyn Policy> {
        let policy: Arc<dyn Policy> = match lists {
            true => Arc::new(Listed::new(self.policy.clone(), self.samples())),
            false => Arc::new(self.policy.clone()),
        };
        if self.guards.is_empty() { policy } else { Arc::new(Composition::of(policy)) }
    }

    /// The policy, or slices with it; without constraints. Where `lists`, chains of questions are lists.
    fn sliced(&self, lists: bool) -> Arc<dyn Policy> {
        let policy = self.unguarded(lists);
        if !self.sliced {
            return policy;
        }
        let mut random = Random(self.seed);
        let links: Vec<LinkName> = self.shape.links.iter().map(|(a, _)| LinkName::Port(*a)).collect();
        let (red, blue): (Vec<Location>, Vec<Location>) =
            self.shape.edges().into_iter().partition(|_| random.one_in(2));
        let slice = |name: &str| Slice::new(name, Composition::of(Arc::clone(&policy)));
        let red = slice("red").ports(red).links(links.into_iter().filter(|_| !random.one_in(3)));
        let slices = [red, slice("blue").ports(blue)];
        let slices = Composition::slices(slices, Composition::of(Arc::clone(&policy)), None).expect("ports differ");
        Arc::new(slices)
    }

    /// What is run: all of it.
    fn whole(&self) -> Arc<dyn Policy> {
        let policy = self.sliced(self.lists);
        if self.guards.is_empty() {
            return policy;
        }
        Arc::new(Composition::of(policy).guarded(self.guards.iter().map(Guard::constraint)))
    }

    /// Plays the case. An error says what is wrong.
    fn play(&self) -> Result<Tally, String> {
        let mut play = Play::new(self);
        for step in &self.steps {
            play.step(step)?;
        }
        play.rest()?;
        for stats in play.sim.engines().iter().map(Engine::stats) {
            play.tally.packet_ins += stats.packet_ins - stats.link_packet_ins;
            play.tally.labelled += stats.labels;
            play.tally.refused += stats.labels_refused;
            play.tally.violations += stats.violations;
        }
        Ok(play.tally)
    }

    /// The case with as few steps, and with as small a policy, as still fail.
    fn shrunk(mut self) -> Case {
        let mut chunk = self.steps.len();
        while chunk > 0 {
            let mut at = 0;
            while at < self.steps.len() {
                let mut fewer = self.clone();
                fewer.steps.drain(at..(at + chunk).min(fewer.steps.len()));
                if fewer.play().is_err() {
                    self = fewer;
                } else {
                    at += chunk;
                }
            }
            chunk /= 2;
        }
        let simpler = |case: &Case| {
            let smaller = case.policy.smaller().into_iter().map(|policy| Case { policy, ..case.clone() });
            smaller.into_iter().find(|smaller| smaller.play().is_err())
        };
        while let Some(smaller) = simpler(&self) {
            self = smaller;
        }
        for index in (0..self.guards.len()).rev() {
            let mut fewer = self.clone();
            fewer.guards.remove(index);
            if fewer.play().is_err() {
                self = fewer;
            }
        }
        self
    }
}

/// Mostly Maple's own.
fn compiler(random: &mut Random) -> Strategy {
    if random.chance(20) { Strategy::Paper } else { Strategy::MapleForSmallTables }
}

/// Mostly without a limit.
fn capacity(random: &mut Random) -> (Option<usize>, Option<usize>) {
    let rules = random.chance(15).then(|| 12 + random.below(20));
    (rules, random.chance(15).then(|| 1 + random.below(5)))
}

/// Mostly enough labels, sometimes three, or one.
fn labels(random: &mut Random) -> LabelRange {
    let few = |last| LabelRange::new(7..=last).expect("VLAN ids");
    *random.pick(&[LabelRange::ALL, LabelRange::ALL, LabelRange::ALL, few(9), few(9), few(7)])
}

struct Play<'a> {
    case: &'a Case,
    policy: Arc<dyn Policy>,
    sim: Sim,
    /// The packets since the last rest.
    sent: Vec<Sent>,
    /// Something broke since the last rest: packets may be lost.
    lossy: bool,
    edges: Vec<Location>,
    truth: BTreeMap<Mac, Location>,
    /// The number of packets that the engines dropped because they did not know the label.
    dropped: u64,
    /// How many packets were dropped so far because no rule led them along their way.
    way_drops: u64,
    /// Some switch may be full.
    shrunk: bool,
    tally: Tally,
}

/// What a test has covered.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// Packets that had to come out completely.
    exact: u64,
    /// Packets that may have come out incompletely.
    lossy: u64,
    /// Frames that came out.
    delivered: u64,
    /// Packet-ins from where packets entered.
    packet_ins: u64,
    /// Labels that exist at the end.
    labelled: u64,
    /// Times that a route was refused a label.
    refused: u64,
    /// Routes that constraints refused.
    violations: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        let Tally { exact, lossy, delivered, packet_ins, labelled, refused, violations } = other;
        self.exact += exact;
        self.lossy += lossy;
        self.delivered += delivered;
        self.packet_ins += packet_ins;
        self.labelled += labelled;
        self.refused += refused;
        self.violations += violations;
    }
}

impl<'a> Play<'a> {
    fn new(case: &'a Case) -> Play<'a> {
        let policy = case.whole();
        let Case { labels, track_hosts, compiler, capacity: (max_rules, max_traces), .. } = *case;
        // In some cases hosts are forgotten at each rest.
        let host_timeout = Duration::from_secs(if case.seed.is_multiple_of(5) { 20 } else { 300 });
        let heard = case.shape.heard.clone().into();
        let options = Options {
            labels,
            track_hosts,
            new_table: compiler.new_table(),
            max_rules,
            max_traces,
            host_timeout,
            listener_filters: heard,
            ..Options::default()
        };
        let mut sim = Sim::new(policy, case.shape.shards, &options, case.seed);
        let edges = case.shape.edges();
        for ((dpid, version), tables) in (1..).map(Dpid).zip(&case.shape.versions).zip(&case.shape.tables) {
            let mut switch = SimSwitch::new(dpid, *version);
            switch.tables = *tables;
            (switch.refuses_table, switch.takes_metadata) = case.shape.refused;
            switch.takes_meters = case.shape.takes_meters;
            if let Some(capture) = case.shape.capture {
                (switch.send_len, switch.buffers) = capture;
            }
            let hosts = edges.iter().filter(|at| at.switch == dpid).map(|at| at.port);
            sim.connect(switch, (1..=LINK_PORTS).map(PortNo).chain(hosts));
        }
        sim.run();
        for (a, b) in &case.shape.links {
            sim.add_link(*a, *b);
        }
        sim.run();
        sim.settle_ports();
        sim.run();
        let mut truth = BTreeMap::new();
        for (i, mac) in hosts().iter().map(|host| host.mac).enumerate() {
            let at = edges[i * 3 % edges.len()];
            sim.place_host(mac, at);
            truth.insert(mac, at);
        }
        let last = sim.history.pop();
        sim.history = last.into_iter().collect();
        Play {
            case,
            policy: case.sliced(false),
            sim,
            sent: Vec::new(),
            lossy: false,
            edges,
            truth,
            dropped: 0,
            way_drops: 0,
            shrunk: false,
            tally: Tally::default(),
        }
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Send { host, frame } => {
                let mac = hosts()[*host].mac;
                let at = self.truth[&mac];
                self.send(mac, at, &frame.0);
            }
            Step::Forge { host, from, frame } => {
                let (mac, at) = (hosts()[*host].mac, self.edges[*from]);
                // A host that was not seen yet can be impersonated.
                if self.sim.store.snapshot().host(mac).is_some() {
                    self.send(mac, at, &frame.0);
                }
            }
            Step::Flap { host, frame } => {
                self.lossy = true;
                let mac = hosts()[*host].mac;
                let at = self.truth[&mac];
                self.sim.set_port(at, false);
                self.sim.set_port(at, true);
                self.send(mac, at, &frame.0);
                self.sim.run_for(Duration::from_millis(5));
                self.sim.rediscover(at);
            }
            Step::LinkDown(index) => {
                self.lossy = true;
                self.sim.set_port(self.case.shape.links[*index].0, false);
            }
            Step::LinkUp(index) => {
                self.lossy = true;
                let at = self.case.shape.links[*index].0;
                self.sim.set_port(at, true);
                self.sim.run_for(Duration::from_millis(5));
                self.sim.rediscover(at);
            }
            Step::Move { host, to } => {
                self.lossy = true;
                let (mac, to) = (hosts()[*host].mac, self.edges[*to]);
                self.truth.insert(mac, to);
                self.sim.place_host(mac, to);
            }
            Step::Write(change) => {
                if self.case.sliced {
                    self.sim.tell(in_red(change.event()));
                }
                self.sim.tell(change.event());
            }
            Step::Invalidate => self.sim.tell(Event::Invalidate(Selection::All)),
            Step::Restart(dpid) => {
                self.lossy = true;
                let dpid = Dpid(*dpid);
                self.sim.restart(dpid);
                self.sim.run_for(Duration::from_millis(5));
                self.sim.ports_of(dpid).into_iter().for_each(|at| self.sim.rediscover(at));
            }
            Step::LoseRule(dpid, index) => {
                // The lost rule may have shielded another. Nothing can be done about that.
                self.rest()?;
                self.sim.lose_rule(Dpid(*dpid), *index);
                self.sim.run();
            }
            Step::Shrink(dpid, capacity) => {
                self.shrunk = true;
                if let Some(switch) = self.sim.switch(Dpid(*dpid)) {
                    switch.capacity = (*capacity).max(switch.flows.len());
                }
            }
            Step::Rest => self.rest()?,
        }
        // The next step mostly comes while rules are on their way, and sometimes after they have arrived.
        self.sim.run_for(Duration::from_micros(if self.case.seed.is_multiple_of(3) { 5000 } else { 300 }));
        Ok(())
    }

    fn send(&mut self, mac: Mac, at: Location, frame: &[u8]) {
        let state = self.sim.store.snapshot();
        let true_place = state.host(mac).is_none_or(|host| host.location == at) && self.truth[&mac] == at;
        self.sent.push(Sent { frame: frame.to_vec(), at, true_place });
        self.sim.inject(at, frame.to_vec());
    }

    /// Waits until everything is at rest, and checks what came out since the last time.
    fn rest(&mut self) -> Result<(), String> {
        self.sim.run();
        let delivered = std::mem::take(&mut self.sim.delivered);
        let states = std::mem::take(&mut self.sim.history);
        self.sim.history = states.last().cloned().into_iter().collect();
        let dropped: u64 = self.sim.engines().iter().map(|engine| engine.stats().link_drops).sum();
        let way_drops: u64 = self.sim.engines().iter().map(|engine| engine.stats().way_drops).sum();
        // Without rules, packets that must keep their way go nowhere.
        let lost_ways = way_drops > std::mem::replace(&mut self.way_drops, way_drops);
        let lossy_here = dropped > std::mem::replace(&mut self.dropped, dropped);
        let sent = std::mem::take(&mut self.sent);
        // A full switch may lose rules without warning.
        let lossy = std::mem::take(&mut self.lossy) || lossy_here && self.shrunk;
        self.tally.delivered += delivered.len() as u64;
        let mut rest: Vec<&Delivery> = delivered.iter().collect();
        let heard = std::mem::take(&mut self.sim.heard);
        for packet in &sent {
            let mark = &packet.frame[packet.frame.len() - 4..];
            let (mut got, others): (Vec<&Delivery>, Vec<&Delivery>) =
                rest.into_iter().partition(|d| d.frame.ends_with(mark));
            rest = others;
            got.sort_unstable();
            // A label makes the frame longer.
            let cut = self.case.shape.capture.map(|(len, _)| len).filter(|len| packet.frame.len() + 4 > *len);
            let may_lose = lossy || !packet.true_place || cut.is_some();
            *(if may_lose { &mut self.tally.lossy } else { &mut self.tally.exact }) += 1;
            // If f reads bytes that the controller did not get, it decides without them.
            let seen = [Some(packet.frame.len()), cut.map(|len| len.min(packet.frame.len()))];
            let all = || states.iter().flat_map(|state| seen.into_iter().flatten().map(move |len| (state, len)));
            let fits = all().any(|(state, len)| {
                let (want, keeps_way) = self.expected(packet, len, state);
                if may_lose || keeps_way && lost_ways {
                    contains_all(&want, &got)
                } else {
                    want.iter().eq(got.iter().copied())
                }
            });
            if !may_lose {
                self.check_heard(packet, &heard, !got.is_empty())?;
            }
            if !fits {
                let wanted: Vec<_> = all().map(|(state, len)| self.expected(packet, len, state).0).collect();
                return Err(format!(
                    "packet {} at {}: came out {got:?}, wanted one of {wanted:?} (may lose: {may_lose})",
                    maple_wire::packet::text::summary(&maple_wire::Packet::new(&packet.frame, packet.at.port.0)),
                    packet.at
                ));
            }
        }
        if let Some(stray) = rest.first() {
            return Err(format!("nobody sent {stray:?}"));
        }
        self.check_tables()
    }

    /// Handlers get a packet once if they want it. A packet that did not come out may not have reached them.
    fn check_heard(&self, packet: &Sent, heard: &[ListenerPacket], came_out: bool) -> Result<(), String> {
        let view = maple_wire::Packet::new(&packet.frame, packet.at.port.0);
        let wanted = self.case.shape.heard.iter().any(|cond| cond.holds(&view));
        let times = heard.iter().filter(|heard| heard.frame[..] == packet.frame[..]).count();
        let fits = if wanted && came_out { times == 1 } else { times <= usize::from(wanted) };
        if fits { Ok(()) } else { Err(format!("packet at {} was heard of {times} times ({wanted})", packet.at)) }
    }

    /// Where f, run from scratch on the first `len` bytes, sends the packet in a state; sorted. And whether it must keep
    /// its way.
    fn expected(&self, packet: &Sent, len: usize, state: &Arc<Snapshot>) -> (Vec<Delivery>, bool) {
        if state.port(packet.at).is_none_or(|port| port.kind != PortKind::Edge) {
            return (Vec::new(), false);
        }
        // These packets go to discovery, not to f.
        let view = maple_wire::Packet::new(&packet.frame, packet.at.port.0);
        let is = |field, value| view.get(field) == Some(value);
        if is(Field::EthType, LLDP) || self.case.track_hosts && is(Field::EthDst, PROBE_MAC.bits()) {
            return (Vec::new(), false);
        }
        let captured: Arc<[u8]> = packet.frame[..len].into();
        let run = || {
            Run::new(
                Arc::clone(&captured),
                packet.frame.len(),
                packet.at,
                Txn::new(state.clone()),
                self.case.track_hosts,
            )
        };
        let resolved = match Observation::of(&*self.policy, &run()).answer {
            Ok(resolved) => resolved,
            // A guard refuses loops. What the run sends besides is sent.
            Err(PolicyError::Route { error: RouteError::Loop(_), .. }) if !self.case.guards.is_empty() => {
                let run = run();
                let route = self.policy.decide(&run.packet(), &run.net()).expect("it was decided before");
                match run.resolved(&route.refused()) {
                    Ok(resolved) => resolved,
                    Err(_) => return (Vec::new(), false),
                }
            }
            Err(_) => return (Vec::new(), false),
        };
        let judged = Judged {
            frame: &packet.frame[..len],
            total_len: packet.frame.len(),
            came_in: packet.at,
            state,
            track_hosts: self.case.track_hosts,
            route: &resolved,
        };
        let keeps_way = judged.keeps_way(&self.case.guards);
        let resolved = match judged.verdict(&self.case.guards) {
            Verdict::Allowed => resolved,
            Verdict::Refused => Arc::new(Resolved { own: resolved.own.clone(), ..Resolved::default() }),
            Verdict::Failed => return (Vec::new(), false),
        };
        let copies = resolved.copies(&packet.frame, packet.at).into_iter();
        (copies.map(|(at, frame)| Delivery { at, frame }).collect(), keeps_way)
    }

    /// At rest, the switches have the rules that the engines assume, and f was consistent.
    fn check_tables(&mut self) -> Result<(), String> {
        for dpid in self.sim.dpids() {
            let mut believed: Vec<String> = Vec::new();
            for engine in self.sim.engines() {
                believed.extend(engine.rules(dpid).iter().map(|r| format!("{} {:?}", r.table_id, r.rule)));
            }
            let Some(switch) = self.sim.switch(dpid) else { continue };
            let mut there: Vec<String> = Vec::new();
            for flow in &switch.flows {
                let rule = crate::rule::Rule {
                    priority: flow.priority,
                    matching: flow.matching.clone(),
                    instructions: flow.instructions[..].into(),
                    cookie: flow.cookie,
                };
                there.push(format!("{} {rule:?}", flow.table_id));
            }
            believed.sort();
            there.sort();
            believed.dedup();
            if believed != there {
                return Err(format!("switch {dpid} has {there:#?}, the engine believes {believed:#?}"));
            }
        }
        let inconsistent: u64 = self.sim.engines().iter().map(|engine| engine.stats().inconsistent_runs).sum();
        if inconsistent > 0 { Err("a function was called none".to_owned()) } else { Ok(()) }
    }
}

/// Whether `got` is a part of `want`, counting repetitions.
fn contains_all(want: &[Delivery], got: &[&Delivery]) -> bool {
    let mut left: Vec<&Delivery> = want.iter().collect();
    got.iter().all(|delivery| left.iter().position(|one| one == delivery).map(|at| left.swap_remove(at)).is_some())
}

#[test]
fn the_network_behaves_as_if_the_policy_ran_on_every_packet() {
    let all = play_all(10_000, Case::generate);
    let sent = all.exact + all.lossy;
    assert!(all.exact * 2 > sent, "most packets must be checked exactly: {all:?}");
    assert!(all.packet_ins * 5 < sent * 4, "the rules must carry packets too: {all:?}");
}

#[test]
fn the_network_behaves_so_too_where_routes_with_equal_headers_meet() {
    let cases = 4_000;
    let all = play_all(cases, Case::of_routes_that_meet);
    assert!(all.labelled > cases && all.refused * 20 > cases, "labels must be used, and refused: {all:?}");
}

#[test]
fn the_network_behaves_so_too_under_constraints() {
    let all = play_all(2_000, Case::of_guards);
    assert!(all.violations * 20 > all.exact, "constraints must be violated: {all:?}");
    assert!(all.delivered * 2 > all.exact, "and satisfied: {all:?}");
}

#[test]
fn the_network_behaves_so_too_where_many_flows_share_links() {
    let cases = 1_000;
    let all = play_all(cases, Case::of_flows_that_share_links);
    assert!(all.labelled > cases, "labels must be used: {all:?}");
}

#[test]
fn the_network_behaves_so_too_with_slices() {
    let all = play_all(3_000, |seed| Case { sliced: true, ..Case::generate(seed) });
    let sent = all.exact + all.lossy;
    assert!(all.exact * 2 > sent, "most packets must be checked exactly: {all:?}");
    assert!(all.packet_ins * 5 < sent * 4, "the rules must carry packets too: {all:?}");
}

/// The same writes to the state of a slice.
fn in_red(event: Event) -> Event {
    let own = |name: &Name| Name::from(format!("red/{name}"));
    let write = |write: Write| match write {
        Write::Table { table, key, value } => Write::Table { table: own(&table), key, value },
        Write::Var { name, value } => Write::Var { name: own(&name), value },
        Write::Cost { name, link, cost } => Write::Cost { name: own(&name), link, cost },
        other => other,
    };
    match event {
        Event::Write(writes) => Event::Write(writes.into_iter().map(write).collect()),
        other => other,
    }
}

/// Plays many cases, and sums up what they covered.
fn play_all(cases: u64, generate: impl Fn(u64) -> Case) -> Tally {
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}?")))
    };
    let (first, cases) = (number("CONTRACT_SEED", 1), number("CONTRACT_CASES", cases));
    println!("seeds {first} to {}", first + cases - 1);
    let mut all = Tally::default();
    for seed in first..first + cases {
        let case = generate(seed);
        match case.play() {
            Ok(tally) => all += tally,
            Err(error) => {
                let small = case.shrunk();
                let error = small.play().err().unwrap_or(error);
                let steps: Vec<String> = small.steps.iter().map(|step| format!("  {step:?}\n")).collect();
                let Case { shape, policy, guards, labels, track_hosts, compiler, capacity, .. } = &small;
                let options =
                    format!("{labels:?}, hosts tracked: {track_hosts}, compiler {compiler:?}, capacity {capacity:?}");
                panic!("seed {seed}: {error}\n{shape:?}\n{policy}\n{guards:?}\n{options}\n{}", steps.concat());
            }
        }
    }
    println!("{all:?}");
    all
}
