//! A case of the contract: a random network, policy and sequence of steps, and its shrinking to smaller cases that
//! still fail.

use std::fmt;
use std::sync::Arc;

use maple_core::compose::{Composition, Slice};
use maple_core::engine::{Engine, LabelRange};
use maple_core::network::{LinkName, Location};
use maple_core::policy::{Policy, SamplePacket};
use maple_sim::Random;
use maple_sim::cases::{Listed, Program, VARS};
use maple_sim::oracles::Strategy;
use maple_wire::Dpid;

use super::generate::{
    Knows, Shape, Step, greeting, hosts, line_shape, of_mixed_versions, shape, steps, steps_of_flows,
};
use super::guards::{Guard, guards};
use super::play::{Play, Tally};

/// Everything that a run of a test case depends on.
#[derive(Clone, Debug)]
pub struct Case {
    pub seed: u64,
    pub shape: Shape,
    pub policy: Program,
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
    pub steps: Vec<Step>,
    /// Whether chains of questions are asked as lists, and some packets are decided beforehand.
    pub lists: bool,
}

impl Case {
    fn new(
        seed: u64,
        (shape, policy, steps): (Shape, Program, Vec<Step>),
        random: &mut Random,
        tracks_hosts: impl FnOnce(&mut Random) -> bool,
    ) -> Case {
        let (labels, track_hosts) = (labels(random), tracks_hosts(random));
        let (compiler, capacity) = (compiler(random), capacity(random));
        let (other, sliced, guards, lists) = (None, false, Vec::new(), seed.is_multiple_of(3));
        Case { seed, shape, policy, other, sliced, guards, labels, track_hosts, compiler, capacity, steps, lists }
    }

    pub fn generate(seed: u64) -> Case {
        let mut random = Random(seed);
        let shape = shape(&mut random);
        let depth = 1 + random.below(5) as u32;
        let policy = shape.world().program(&mut random, depth);
        let count = 6 + random.below(20);
        let steps = steps(&mut random, &shape, count);
        Case::new(seed, (shape, policy, steps), &mut random, mostly)
    }

    /// Creates a case in which routes with equal headers meet on links.
    pub fn of_routes_that_meet(seed: u64) -> Case {
        let mut random = Random(seed);
        let shape = line_shape(&mut random);
        let (world, depth) = (shape.world(), random.below(3) as u32);
        let policy = world.program_by_ingress(&mut random, depth);
        let count = 6 + random.below(20);
        // The first steps make all hosts known.
        let mut first: Vec<Step> = (0..hosts().len()).map(|host| greeting(&mut random, &world, host)).collect();
        first.push(Step::Rest);
        let steps = [first, steps(&mut random, &shape, count)].concat();
        Case::new(seed, (shape, policy, steps), &mut random, mostly)
    }

    /// Creates a case in which constraints judge the routes.
    pub fn of_guards(seed: u64) -> Case {
        let case = Case::generate(seed);
        let mut random = Random(!seed);
        let world = case.shape.world();
        let policy = if random.chance(50) { case.policy } else { world.program_of_filters(&mut random) };
        let mut steps: Vec<Step> = (0..hosts().len()).map(|host| greeting(&mut random, &world, host)).collect();
        steps.push(Step::Rest);
        steps.extend(case.steps);
        let mut guards = guards(&mut random, &world);
        // The judge reads the state from before the run.
        let writes = policy.to_string().contains(VARS[0]);
        guards.retain(|guard| !writes || !matches!(guard, Guard::FewDeliveries(_)));
        Case { policy, guards, steps, ..case }
    }

    /// Creates a case with mostly any packets, sometimes with many flows or with routes that meet.
    fn of_any_kind(seed: u64) -> Case {
        match seed % 4 {
            0 => Case::of_flows_that_share_links(seed),
            1 => Case::of_routes_that_meet(seed),
            _ => Case::generate(seed),
        }
    }

    /// Creates a case in which policies are reloaded: the other one is a little simpler, or has nothing to do with the
    /// first.
    pub fn of_reloads(seed: u64) -> Case {
        let case = Case::of_any_kind(seed);
        let mut random = Random(!seed);
        let smaller = case.policy.smaller();
        let other = if smaller.is_empty() || random.one_in(2) {
            case.shape.world().program(&mut random, 3)
        } else {
            random.pick(&smaller).clone()
        };
        let mut steps = case.steps;
        for _ in 0..1 + random.below(4) {
            let reload = if random.one_in(3) { Step::ReloadAsRehearsed } else { Step::Reload };
            steps.insert(random.below(steps.len() + 1), reload);
        }
        Case { other: Some(other), steps, ..case }
    }

    /// Creates a case in which the controller restarts, sometimes after or before a reload.
    pub fn of_restarts(seed: u64) -> Case {
        let case = if seed.is_multiple_of(8) { Case::of_reloads(seed) } else { Case::of_any_kind(seed) };
        let mut random = Random(!seed);
        let mut steps = case.steps;
        for _ in 0..1 + random.below(3) {
            let knows = if random.one_in(2) { Knows::Everything } else { Knows::Some };
            let restart = Step::RestartController { shards: 1 + random.below(2) as u8, knows };
            steps.insert(random.below(steps.len() + 1), restart);
        }
        Case { steps, ..case }
    }

    /// Creates a case in which control connections end and come back, sometimes beside reloads and restarts. In half of
    /// the cases, switches speak both versions.
    pub fn of_lost_connections(seed: u64) -> Case {
        let case = match seed % 8 {
            0 => Case::of_reloads(seed),
            1 => Case::of_restarts(seed),
            _ => Case::of_any_kind(seed),
        };
        let mut random = Random(!seed);
        let is_mixed = random.one_in(2);
        let shape = if is_mixed { of_mixed_versions(&mut random, &case.shape) } else { case.shape };
        let mut steps = case.steps;
        if random.one_in(8) {
            let restart = Step::RestartController { shards: 1 + random.below(2) as u8, knows: Knows::Nothing };
            steps.insert(random.below(steps.len() + 1), restart);
        }
        for _ in 0..1 + random.below(3) {
            let dpid = 1 + random.below(shape.switches as usize) as u64;
            let lost = random.below(steps.len() + 1);
            steps.insert(lost, Step::LoseConnection(dpid));
            let back = lost + 1 + random.below(steps.len() - lost);
            let (empty, as_other) = (random.one_in(4), random.one_in(8));
            steps.insert(back, Step::RegainConnection { dpid, empty, as_other });
        }
        let world = shape.world();
        for _ in 0..1 + random.below(3) {
            let at = random.below(steps.len() + 1);
            steps.splice(at..at, [Step::Write(world.outside_write(&mut random)), Step::Settle]);
        }
        steps.push(Step::Rest);
        steps.extend((0..hosts().len()).map(|host| greeting(&mut random, &world, host)));
        Case { shape, steps, ..case }
    }

    /// Returns the case with its other policy.
    pub fn swapped(&self) -> Option<Case> {
        self.other.clone().map(|other| Case { policy: other, ..self.clone() })
    }

    /// Creates a case in which many flows share links.
    pub fn of_flows_that_share_links(seed: u64) -> Case {
        let mut random = Random(seed);
        let shape = line_shape(&mut random);
        let world = shape.world();
        let policy = world.program_of_filters(&mut random);
        let mut steps: Vec<Step> = (0..hosts().len()).map(|host| greeting(&mut random, &world, host)).collect();
        steps.push(Step::Rest);
        let count = 20 + random.below(30);
        steps.extend(steps_of_flows(&mut random, &shape, count, 16));
        Case::new(seed, (shape, policy, steps), &mut random, |_| true)
    }

    /// Reports whether a switch comes back with another version.
    pub fn changes_versions(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::RegainConnection { as_other: true, .. }))
    }

    /// Reports whether a switch has bundles, if it speaks 1.3.
    pub fn has_bundles(&self, dpid: Dpid) -> bool {
        Random(self.seed ^ dpid.0 << 32).one_in(2)
    }

    /// Returns packets that the policy decides beforehand.
    fn samples(&self) -> Vec<SamplePacket> {
        let mut random = Random(self.seed);
        let world = self.shape.world();
        let mut sample = || SamplePacket::new(world.packet(&mut random, &[]).frame(0));
        (0..self.seed % 8).map(|_| sample()).collect()
    }

    /// Returns the policy without its constraints. Under constraints it is a part of a composition, which also fails if
    /// a branch that leads nowhere writes a field that the packet lacks.
    fn unguarded(&self, lists: bool) -> Arc<dyn Policy> {
        let policy: Arc<dyn Policy> = match lists {
            true => Arc::new(Listed::new(self.policy.clone(), self.samples())),
            false => Arc::new(self.policy.clone()),
        };
        if self.guards.is_empty() { policy } else { Arc::new(Composition::of(policy)) }
    }

    /// Returns the policy, or slices with it, without constraints. With `lists`, chains of questions are lists.
    pub fn sliced(&self, lists: bool) -> Arc<dyn Policy> {
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

    /// Returns the policy that runs, with slices and constraints.
    pub fn whole(&self) -> Arc<dyn Policy> {
        let policy = self.sliced(self.lists);
        if self.guards.is_empty() {
            return policy;
        }
        Arc::new(Composition::of(policy).guarded(self.guards.iter().map(Guard::constraint)))
    }

    /// Plays the case.
    ///
    /// # Errors
    /// The first deviation from the contract, in words.
    pub fn play(&self) -> Result<Tally, String> {
        let mut play = Play::new(self);
        for step in &self.steps {
            play.step(step)?;
        }
        play.rest()?;
        for stats in play.sim.engines().iter().map(Engine::stats) {
            play.tally.packet_ins += stats.packet_ins - stats.link_packet_ins;
            play.tally.labelled += stats.labels;
            play.tally.refused += stats.labels_refused + stats.labels_gone;
            play.tally.violations += stats.violations;
        }
        Ok(play.tally)
    }

    /// Returns the case with the fewest steps and the smallest policy found that still fails.
    pub fn shrunk(mut self) -> Case {
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
        let Case { shape, policy, other, guards, labels, track_hosts, compiler, capacity, steps, .. } = self;
        writeln!(f, "{shape:?}\n{policy}")?;
        other.iter().try_for_each(|other| writeln!(f, "or {other}"))?;
        writeln!(f, "{guards:?}")?;
        writeln!(f, "{labels:?}, hosts tracked: {track_hosts}, compiler {compiler:?}, capacity {capacity:?}")?;
        steps.iter().try_for_each(|step| writeln!(f, "  {step:?}"))
    }
}

fn mostly(random: &mut Random) -> bool {
    !random.chance(10)
}

/// Returns mostly Maple's own compiler.
fn compiler(random: &mut Random) -> Strategy {
    if random.chance(20) { Strategy::Paper } else { Strategy::MapleForSmallTables }
}

/// Returns mostly no limit.
fn capacity(random: &mut Random) -> (Option<usize>, Option<usize>) {
    let rules = random.chance(15).then(|| 12 + random.below(20));
    (rules, random.chance(15).then(|| 1 + random.below(5)))
}

/// Returns mostly enough labels, sometimes three, or one.
fn labels(random: &mut Random) -> LabelRange {
    let few = |last| LabelRange::new(7..=last).expect("VLAN ids");
    *random.pick(&[LabelRange::ALL, LabelRange::ALL, LabelRange::ALL, few(9), few(9), few(7)])
}
