//! A case of the contract: a random network, policy and sequence of steps, and its shrinking to smaller cases that
//! still fail.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use maple_core::compose::{Composition, Slice};
use maple_core::engine::LabelRange;
use maple_core::network::{LinkName, Location, Mac};
use maple_core::policy::{Policy, SamplePacket};
use maple_sim::Choices;
use maple_sim::cases::{Body, Domain, Knows, Listed, PacketSpec, Program, Scenario, Step, Theme, VARS, host};
use maple_sim::oracles::Strategy;
use maple_wire::{Dpid, Packet};

use super::guards::{Guard, guards};
use super::play::Play;
use super::shape::{Shape, driver};
use super::tally::Tally;

/// Everything that a run of a test case depends on.
#[derive(Clone, Debug)]
pub struct Case {
    pub seed: u64,
    pub scenario: Scenario,
    pub shape: Shape,
    /// The policy that takes its place when policies are reloaded.
    pub other: Option<Program>,
    /// Whether two slices run the policy, each with a part of the network.
    pub sliced: bool,
    /// The constraints around the policy.
    pub guards: Vec<Guard>,
    pub labels: LabelRange,
    pub track_hosts: bool,
    pub compiler: Strategy,
    /// The maximum number of rules of a switch, and of leaves of a tree; `None` for no limit.
    pub capacity: (Option<usize>, Option<usize>),
    /// Whether chains of questions are asked as lists, and some packets are decided beforehand.
    pub lists: bool,
    /// The number of tables that switches may use for look-ups.
    pub look_up_tables: u8,
    /// Whether one decision may be for all places that a look-up finds.
    pub open_routes: bool,
    /// The number of leaves of a switch up to which it is explored.
    pub explored_leaves: usize,
    /// The maximum number of classes of a look-up.
    pub max_classes: u16,
    /// The maximum number of rules in each table of look-ups.
    pub keys_of_table: Option<usize>,
}

impl Case {
    /// Creates a case about something, mostly with any policy and packets.
    fn about(theme: Theme, seed: u64) -> Case {
        let mut random = Choices::new(seed);
        let scenario = Scenario::generate(&mut random, &driver(), theme);
        let shape = Shape::any(&mut random, &scenario.network, theme);
        let (labels, track_hosts) = (labels(&mut random), theme == Theme::ManyFlows || !random.chance(10));
        let (compiler, capacity) = (compiler(&mut random), capacity(&mut random));
        let (other, sliced, guards, lists) = (None, false, Vec::new(), seed.is_multiple_of(3));
        let look_up_tables = (seed % 5) as u8;
        let open_routes = seed / 4 % 2 == 1;
        let explored_leaves = [0, 8, 400][(seed / 7 % 3) as usize];
        Case {
            seed,
            scenario,
            shape,
            other,
            sliced,
            guards,
            labels,
            track_hosts,
            compiler,
            capacity,
            lists,
            look_up_tables,
            open_routes,
            explored_leaves,
            max_classes: u16::MAX,
            keys_of_table: None,
        }
    }

    pub fn generate(seed: u64) -> Case {
        Case::about(Theme::Any, seed)
    }

    /// Creates a case in which routes with equal headers meet on links.
    pub fn of_routes_that_meet(seed: u64) -> Case {
        Case::about(Theme::RoutesThatMeet, seed)
    }

    /// Creates a case in which many flows share links.
    pub fn of_flows_that_share_links(seed: u64) -> Case {
        Case::about(Theme::ManyFlows, seed)
    }

    /// Creates a case in which f looks things up while they change.
    pub fn of_look_ups(seed: u64) -> Case {
        let mut case = Case::about(Theme::RoutesThatMeet, seed);
        let (mut random, world) = (Choices::new(!seed), case.world());
        let (of_sources, of_pairs) = (random.one_in(6), random.one_in(2));
        let depth = 1 + random.below(4) as u32;
        case.scenario.policy = match (of_sources, of_pairs) {
            (true, _) => world.program_of_sources(&mut random),
            (_, true) => world.program_of_pairs(&mut random),
            _ => world.program_of_look_ups(&mut random, depth),
        };
        for _ in 0..2 + random.below(8) {
            let packet = random.below(case.scenario.packets.len());
            let changes = if of_sources || of_pairs {
                Domain::writes_to_pair(&mut random, &case.scenario.packets[packet])
            } else {
                (0..1 + random.below(3)).map(|_| world.write_to_looked_up(&mut random)).collect()
            };
            // Of few states, a mixture of two is hardly ever a third.
            let at = random.below(case.scenario.steps.len() + 1);
            let sends = |random: &mut Choices| {
                let count = random.below(6);
                (0..count).flat_map(|_| [Step::Send(packet), Step::Wait(Duration::from_micros(40))]).collect()
            };
            let (before, after): (Vec<Step>, Vec<Step>) = (sends(&mut random), sends(&mut random));
            let rest = random.one_in(2).then_some(Step::Rest);
            let moves = if of_sources { case.moves_of(packet, &mut random) } else { Vec::new() };
            let forged: Vec<Step> = moves.iter().filter(|step| matches!(step, Step::Forge { .. })).cloned().collect();
            let steps = rest
                .into_iter()
                .chain(before)
                .chain(moves)
                .chain([Step::WriteTogether(changes)])
                .chain(forged)
                .chain(after);
            case.scenario.steps.splice(at..at, steps.collect::<Vec<Step>>());
        }
        let max_classes = if random.one_in(3) { 1 + random.below(4) as u16 } else { u16::MAX };
        let keys_of_table = random.one_in(4).then(|| 1 + random.below(4));
        Case { look_up_tables: 1 + (seed % 4) as u8, max_classes, keys_of_table, ..case }
    }

    /// Creates a case in which f asks whose addresses packets come from, while hosts announce their own and those of
    /// others.
    pub fn of_bindings(seed: u64) -> Case {
        let mut case = Case::of_look_ups(seed);
        let (mut random, world) = (Choices::new(!seed), case.world());
        case.scenario.policy = world.program_of_bindings(&mut random);
        case.track_hosts = true;
        for _ in 0..3 + random.below(8) {
            let from = random.below(world.hosts.len());
            let (mac, ip) = (world.hosts[from].mac, random.pick(&world.hosts).ipv4);
            let body = Body::Arp { op: 1, spa: ip, tpa: ip };
            let announcement = PacketSpec { from, src: mac.0, dst: [0xff; 6], tags: Vec::new(), body, cut: None };
            let number = case.scenario.packets.len();
            case.scenario.packets.push(announcement);
            let sends = |random: &mut Choices| (0..random.below(5)).map(|_| Step::Send(random.below(number))).collect();
            let (before, after): (Vec<Step>, Vec<Step>) = (sends(&mut random), sends(&mut random));
            let at = random.below(case.scenario.steps.len() + 1);
            let rest = random.one_in(2).then_some(Step::Rest);
            let steps = before.into_iter().chain([Step::Send(number)]).chain(rest).chain(after);
            case.scenario.steps.splice(at..at, steps.collect::<Vec<Step>>());
        }
        case
    }

    /// Returns steps by which the host of a packet comes from another port, and somebody sends its packets there.
    fn moves_of(&self, packet: usize, random: &mut Choices) -> Vec<Step> {
        let source = Mac(self.scenario.packets[packet].src);
        let Some(number) = (0..self.world().hosts.len()).find(|number| host(*number).mac == source) else {
            return Vec::new();
        };
        let places = &self.scenario.network.moves_to;
        let (from, to) = (*random.pick(places), *random.pick(places));
        let mut all = vec![Step::Move { host: number, to: from }, Step::Rest, Step::Send(packet), Step::Rest];
        all.extend((0..random.below(4)).map(|_| Step::Forge { packet, from }));
        all.push(Step::Move { host: number, to });
        all.extend((0..random.below(4)).map(|_| Step::Forge { packet, from }));
        all
    }

    /// Describes the network as programs and packets see it.
    pub fn world(&self) -> Domain {
        self.scenario.network.world(true)
    }

    /// Creates a case in which constraints judge the routes.
    pub fn of_guards(seed: u64) -> Case {
        let mut case = Case::generate(seed);
        let mut random = Choices::new(!seed);
        let world = case.world();
        if random.one_in(2) {
            case.scenario.policy = world.program_of_filters(&mut random);
        }
        case.scenario.greet_first(&mut random, &driver());
        let mut guards = guards(&mut random, &world);
        // The judge reads the state from before the run.
        let writes = case.scenario.policy.to_string().contains(VARS[0]);
        guards.retain(|guard| !writes || !matches!(guard, Guard::FewDeliveries(_)));
        Case { guards, ..case }
    }

    /// Creates a case with mostly any packets, sometimes with many flows, with routes that meet or with look-ups.
    fn of_any_kind(seed: u64) -> Case {
        match seed % 5 {
            0 => Case::of_flows_that_share_links(seed),
            1 => Case::of_routes_that_meet(seed),
            2 => Case::of_look_ups(seed),
            _ => Case::generate(seed),
        }
    }

    /// Creates a case in which policies are reloaded: the other one is a little simpler, or has nothing to do with the
    /// first.
    pub fn of_reloads(seed: u64) -> Case {
        let mut case = Case::of_any_kind(seed);
        let mut random = Choices::new(!seed);
        let smaller = case.scenario.policy.smaller();
        let other = if smaller.is_empty() || random.one_in(2) {
            case.world().program(&mut random, 3)
        } else {
            random.pick(&smaller).clone()
        };
        for _ in 0..1 + random.below(4) {
            let reload = if random.one_in(3) { Step::ReloadAsRehearsed } else { Step::Reload };
            case.insert(&mut random, reload);
        }
        Case { other: Some(other), ..case }
    }

    /// Creates a case in which the controller restarts, sometimes after or before a reload.
    pub fn of_restarts(seed: u64) -> Case {
        let mut case = if seed.is_multiple_of(8) { Case::of_reloads(seed) } else { Case::of_any_kind(seed) };
        let mut random = Choices::new(!seed);
        for _ in 0..1 + random.below(3) {
            let knows = if random.one_in(2) { Knows::Everything } else { Knows::Some };
            let restart = Step::RestartController { shards: 1 + random.below(2) as u8, knows };
            case.insert(&mut random, restart);
        }
        case
    }

    /// Inserts a step anywhere.
    fn insert(&mut self, random: &mut Choices, step: Step) -> usize {
        let at = random.below(self.scenario.steps.len() + 1);
        self.scenario.steps.insert(at, step);
        at
    }

    /// Creates a case in which control connections end and come back, sometimes beside reloads and restarts. In half of
    /// the cases, switches speak both versions.
    pub fn of_lost_connections(seed: u64) -> Case {
        let mut case = match seed % 8 {
            0 => Case::of_reloads(seed),
            1 => Case::of_restarts(seed),
            _ => Case::of_any_kind(seed),
        };
        let mut random = Choices::new(!seed);
        if random.one_in(2) {
            case.shape = case.shape.of_mixed_versions(&mut random);
        }
        if random.one_in(8) {
            let restart = Step::RestartController { shards: 1 + random.below(2) as u8, knows: Knows::Nothing };
            case.insert(&mut random, restart);
        }
        let world = case.world();
        for _ in 0..1 + random.below(3) {
            let dpid = Dpid(1 + random.below(world.switches as usize) as u64);
            let lost = case.insert(&mut random, Step::LoseConnection(dpid));
            let back = lost + 1 + random.below(case.scenario.steps.len() - lost);
            let (empty, as_other) = (random.one_in(4), random.one_in(8));
            case.scenario.steps.insert(back, Step::RegainConnection { dpid, empty, as_other });
        }
        for _ in 0..1 + random.below(3) {
            let write = Step::Write(world.outside_write(&mut random));
            let at = case.insert(&mut random, write);
            case.scenario.steps.insert(at + 1, Step::Settle);
        }
        let greetings = case.scenario.greetings(&mut random, &driver());
        case.scenario.steps.extend([Step::Rest].into_iter().chain(greetings));
        case
    }

    /// Returns the case with its other policy.
    pub fn swapped(&self) -> Option<Case> {
        let mut swapped = self.clone();
        swapped.scenario.policy = self.other.clone()?;
        Some(swapped)
    }

    /// Reports whether a switch comes back with another version.
    pub fn changes_versions(&self) -> bool {
        self.scenario.steps.iter().any(|step| matches!(step, Step::RegainConnection { as_other: true, .. }))
    }

    /// Reports whether the next run of a controller has the other option of the two for open routes.
    pub fn changes_open_routes(&self) -> bool {
        (self.seed / 8).is_multiple_of(3)
    }

    /// Reports whether switches take action sets.
    pub fn takes_action_sets(&self) -> bool {
        self.seed / 8 % 7 != 3
    }

    /// Reports whether a switch has bundles, if it speaks 1.3.
    pub fn has_bundles(&self, dpid: Dpid) -> bool {
        Choices::new(self.seed ^ dpid.0 << 32).one_in(2)
    }

    /// Returns packets that the policy decides beforehand.
    fn samples(&self) -> Vec<SamplePacket> {
        let mut random = Choices::new(self.seed);
        let world = self.world();
        let mut sample = || SamplePacket::new(world.packet(&mut random, &[]).frame(0));
        (0..self.seed % 8).map(|_| sample()).collect()
    }

    /// Returns the policy without its constraints. Under constraints it is a part of a composition,
    /// which also fails if a branch that leads nowhere writes a field that the packet lacks.
    fn unguarded(&self, lists: bool) -> Arc<dyn Policy> {
        let policy: Arc<dyn Policy> = if lists {
            Arc::new(Listed::new(self.scenario.policy.clone(), self.samples()))
        } else {
            Arc::new(self.scenario.policy.clone())
        };
        if self.guards.is_empty() { policy } else { Arc::new(Composition::single(policy)) }
    }

    /// Returns the policy, or slices with it, without constraints. With `lists`, chains of questions are lists.
    pub fn sliced(&self, lists: bool) -> Arc<dyn Policy> {
        let policy = self.unguarded(lists);
        if !self.sliced {
            return policy;
        }
        let mut random = Choices::new(self.seed);
        let network = &self.scenario.network;
        let links: Vec<LinkName> = network.links.iter().map(|link| LinkName::Port(link.a)).collect();
        let (red, blue): (Vec<Location>, Vec<Location>) = network.edges.iter().copied().partition(|_| random.one_in(2));
        let slice = |name: &str| Slice::new(name, Composition::single(Arc::clone(&policy)));
        let red = slice("red").ports(red).links(links.into_iter().filter(|_| !random.one_in(3)));
        let is_in_red = |_: &usize| random.one_in(2);
        let in_red: Vec<Mac> = (0..network.hosts.len()).filter(is_in_red).map(|number| host(number).mac).collect();
        let red = if self.seed.is_multiple_of(3) { red.hosts(in_red) } else { red };
        let slices = [red, slice("blue").ports(blue)];
        let slices = Composition::slices(slices, Composition::single(Arc::clone(&policy)), None).expect("ports differ");
        Arc::new(slices)
    }

    /// Returns the policy that runs, with slices and constraints.
    pub fn whole(&self) -> Arc<dyn Policy> {
        let policy = self.sliced(self.lists);
        if self.guards.is_empty() {
            return policy;
        }
        Arc::new(Composition::single(policy).guarded(self.guards.iter().map(Guard::constraint)))
    }

    /// Plays the case.
    ///
    /// # Errors
    /// The first deviation from the contract, in words.
    pub fn play(&self) -> Result<Tally, String> {
        let mut play = Play::new(self);
        for step in &self.scenario.steps {
            *play.tally.happened.entry(step.name()).or_default() += 1;
            play.step(step)?;
        }
        play.rest()?;
        for stats in play.sim.engines().iter().map(|engine| engine.view().stats()) {
            play.tally.packet_ins += stats.packet_ins - stats.link_packet_ins;
            play.tally.labelled += stats.labels;
            play.tally.refused += stats.labels_refused + stats.labels_gone;
            play.tally.violations += stats.violations;
        }
        Ok(play.tally)
    }

    /// Returns the case with the fewest steps and the smallest policy found that still fails.
    pub fn shrunk(mut self) -> Case {
        let mut chunk = self.scenario.steps.len();
        while chunk > 0 {
            let mut at = 0;
            while at < self.scenario.steps.len() {
                let mut fewer = self.clone();
                fewer.scenario.steps.drain(at..(at + chunk).min(fewer.scenario.steps.len()));
                if fewer.play().is_err() {
                    self = fewer;
                } else {
                    at += chunk;
                }
            }
            chunk /= 2;
        }
        let simpler = |case: &Case| {
            let with_policy = |policy| {
                let mut smaller = case.clone();
                smaller.scenario.policy = policy;
                smaller
            };
            let smaller = case.scenario.policy.smaller().into_iter().map(with_policy);
            let others = case.other.iter().flat_map(Program::smaller);
            let others = others.map(|other| Case { other: Some(other), ..case.clone() });
            smaller.chain(others).find(|smaller| smaller.play().is_err())
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

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { scenario, shape, other, guards, labels, track_hosts, compiler, capacity, .. } = self;
        let Scenario { network, policy, packets, steps } = scenario;
        writeln!(f, "{network:?}\n{shape:?}\n{policy}")?;
        other.iter().try_for_each(|other| writeln!(f, "or {other}"))?;
        writeln!(f, "{guards:?}")?;
        writeln!(f, "{labels:?}, hosts tracked: {track_hosts}, compiler {compiler:?}, capacity {capacity:?}")?;
        let shown = |packet: &PacketSpec| maple_wire::packet::text::summary(&Packet::new(&packet.frame(0), 0));
        packets.iter().enumerate().try_for_each(|(at, packet)| writeln!(f, "  packet {at}: {}", shown(packet)))?;
        steps.iter().try_for_each(|step| writeln!(f, "  {step:?}"))
    }
}

/// Returns mostly Maple's own compiler.
fn compiler(random: &mut Choices) -> Strategy {
    if random.chance(20) { Strategy::Paper } else { Strategy::MapleForSmallTables }
}

/// Returns mostly no limit.
fn capacity(random: &mut Choices) -> (Option<usize>, Option<usize>) {
    let rules = random.chance(15).then(|| 12 + random.below(20));
    (rules, random.chance(15).then(|| 1 + random.below(5)))
}

/// Returns mostly enough labels, sometimes three, or one.
fn labels(random: &mut Choices) -> LabelRange {
    let few = |last| LabelRange::new(7..=last).expect("VLAN ids");
    *random.pick(&[LabelRange::ALL, LabelRange::ALL, LabelRange::ALL, few(9), few(9), few(7)])
}
