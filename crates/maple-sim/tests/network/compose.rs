//! Compositions of random policies, compared with their parts, which run one by one on frames that are really
//! rewritten.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use maple_core::access::{AccessAction, AccessEntry, AccessList, AccessRule};
use maple_core::compose::{Choice, Composition};
use maple_core::ids::ShardId;
use maple_core::network::{HostInfo, LinkName, Location, Mac, PortInfo, PortKind};
use maple_core::policy::{Net, PacketHandle, Policy, PolicyError};
use maple_core::route::{Route, rewritten};
use maple_core::route_plan::RouteError;
use maple_core::run::{Run, RunResult};
use maple_core::state::{Cell, CellValue, Snapshot, Store, SwitchInfo, Txn, Value, Write};
use maple_core::trace::{Cond, Trace};
use maple_sim::Choices;
use maple_sim::cases::{COSTS, Domain, HostAddresses, PacketSpec, Program, TABLES, VARS};
use maple_sim::seeds::{are_chosen, seeds};
use maple_wire::{Constraint, Dpid, Field, Packet, PortNo, Version};

use crate::scripts::at;

/// A part of a composition.
#[derive(Clone, Debug)]
enum Part {
    /// Passes and writes these fields if a field has a value; otherwise decides as a program.
    Gate { field: Field, value: u128, writes: Vec<(Field, u128)>, program: Program },
    /// Decides as a program.
    Program(Program),
    /// Always fails.
    Fails,
}

impl Policy for Part {
    fn decide(&self, pkt: &PacketHandle, net: &Net) -> Result<Route, PolicyError> {
        match self {
            Part::Gate { field, value, writes, .. } if pkt.is(*field, *value) => {
                Ok(writes.iter().fold(Route::pass(), |route, (field, value)| route.set(*field, *value)))
            }
            Part::Gate { program, .. } | Part::Program(program) => program.decide(pkt, net),
            Part::Fails => Err(PolicyError::Exception("on purpose".into())),
        }
    }
}

/// The data of a [`Composition`], for the direct evaluation.
#[derive(Clone, Debug)]
enum Tree {
    Part(Part),
    Named(Box<Tree>),
    Tiers(Vec<Tree>),
    Observe(Box<Tree>, Vec<Location>),
    Only(Cond, Box<Tree>),
    Choose(&'static str, Vec<(Value, Tree)>, Box<Tree>),
    Fallback(Box<Tree>, Box<Tree>),
    Lists(Vec<Vec<(Cond, AccessAction)>>, Box<Tree>),
}

impl Tree {
    fn composition(&self) -> Composition<Part> {
        let inside = |tree: &Tree| tree.composition();
        match self {
            Tree::Part(part) => Composition::single(part.clone()),
            Tree::Named(of) => inside(of).named("tier"),
            Tree::Tiers(tiers) => Composition::tiers(tiers.iter().map(inside)),
            Tree::Observe(of, places) => {
                let copy = |place: &Location| Program::Answer(maple_sim::cases::Answer::ToPort(*place));
                let copies = places.iter().map(|place| Composition::single(Part::Program(copy(place))));
                copies.fold(inside(of), Composition::observed_by)
            }
            Tree::Only(cond, of) => inside(of).only([cond.clone()], None),
            Tree::Choose(name, cases, otherwise) => {
                let cases = cases.iter().map(|(value, tree)| (value.clone(), inside(tree)));
                let by = Choice { cell: Cell::Var((*name).into()), unset: Value::Int(0) };
                Composition::choose(by, cases, inside(otherwise))
            }
            Tree::Fallback(of, on_error) => inside(of).or_on_error(inside(on_error)),
            Tree::Lists(lists, allowed) => {
                let rule = |action| AccessRule { action, source: None, carries: None, log: false };
                let list = |entries: &Vec<(Cond, AccessAction)>| {
                    let entry = |((cond, _), rule): (&(Cond, _), _)| AccessEntry {
                        cond: cond.clone(),
                        groups: Vec::new(),
                        switch: None,
                        rule,
                    };
                    let conds = entries.iter().zip(0..).map(entry);
                    let rules = entries.iter().map(|(_, action)| rule(*action)).collect();
                    Arc::new(AccessList::new(conds, rules, rule(AccessAction::Pass), Vec::new()))
                };
                Composition::lists(lists.iter().map(list), inside(allowed))
            }
        }
    }
}

/// A network and its state, in which policies run.
struct Setting {
    world: Domain,
    state: Arc<Snapshot>,
}

/// The fate of a frame.
#[derive(Clone, Debug, PartialEq)]
struct FrameFate {
    /// The frame that the next policy sees, if this one passes.
    passes: Option<Vec<u8>>,
    copies: BTreeSet<(Location, Vec<u8>)>,
}

impl Setting {
    /// Creates switches 1, 2 and 3 in a ring by their ports 1 and 2; ports 3 and 4 have hosts.
    fn new(random: &mut Choices) -> Setting {
        let store = Store::new();
        let mut writes = vec![Write::CostName(COSTS.into())];
        let (mut links, mut edges, mut hosts) = (Vec::new(), Vec::new(), Vec::new());
        for n in 1..=3u64 {
            let info = SwitchInfo { shard: ShardId(0), version: Version::Of13 };
            writes.push(Write::Switch { dpid: Dpid(n), info: Some(info) });
            let (next, previous) = (n % 3 + 1, (n + 1) % 3 + 1);
            let kinds = [PortKind::Link(at(previous, 2)), PortKind::Link(at(next, 1)), PortKind::Edge, PortKind::Edge];
            for (port, kind) in (1..).zip(kinds) {
                writes.push(Write::Port { at: at(n, port), info: Some(PortInfo { up: true, kind }) });
            }
            links.push((at(n, 2), at(next, 1)));
            edges.extend([at(n, 3), at(n, 4)]);
            let (mac, low) = (Mac([2, 0, 0, 0, 0, n as u8]), n as u8);
            let (ipv4, ipv6) = (Ipv4Addr::new(10, 0, 0, low), Ipv6Addr::from(0xfd00 << 112 | u128::from(low)));
            hosts.push(HostAddresses { mac, ipv4, ipv6 });
            if !random.one_in(4) {
                let info = HostInfo { location: at(n, 3), ipv4: [ipv4].into(), ipv6: [ipv6].into() };
                writes.push(Write::Host { mac, info: Some(info) });
            }
        }
        for name in VARS {
            let value = (!random.one_in(4)).then(|| Value::Int(random.below(3) as i128));
            writes.push(Write::Var { name: name.into(), value });
        }
        let (key, value) = (Value::Int(22), Some(Value::Int(1)));
        writes.push(Write::Table { table: TABLES[0].into(), key, value });
        let cost = Some(random.below(6) as u64);
        writes.push(Write::Cost { name: COSTS.into(), link: LinkName::Port(at(1, 2)), cost });
        store.update(|_| writes);
        let world = Domain { switches: 3, links, edges, hosts, all_answers: false };
        Setting { world, state: store.snapshot() }
    }

    fn part(&self, random: &mut Choices) -> Part {
        let program = self.world.program_of_filters(random);
        match random.below(9) {
            0 => Part::Fails,
            1..6 => {
                let field =
                    *random.pick(&[Field::TcpDst, Field::EthSrc, Field::IpProto, Field::VlanVid, Field::Ipv4Dst]);
                let value = self.world.value(random, field);
                let writes = (0..random.below(3)).map(|_| self.write(random)).collect();
                // Two thirds of the gates are open for every packet, because metadata is 0.
                if random.one_in(3) {
                    Part::Gate { field, value, writes, program }
                } else {
                    Part::Gate { field: Field::Metadata, value: 0, writes, program }
                }
            }
            _ => Part::Program(program),
        }
    }

    fn write(&self, random: &mut Choices) -> (Field, u128) {
        let fields = [
            Field::EthDst,
            Field::EthSrc,
            Field::VlanVid,
            Field::VlanVid,
            Field::VlanPcp,
            Field::Ipv4Dst,
            Field::Ipv4Src,
            Field::TcpDst,
            Field::IpDscp,
        ];
        let field = *random.pick(&fields);
        let value = match field {
            Field::VlanVid => *random.pick(&[0, 1, 2, 7]),
            field => self.world.value(random, field),
        };
        (field, value)
    }

    fn cond(&self, random: &mut Choices) -> Cond {
        let one = |random: &mut Choices| {
            let field = *random.pick(&[Field::TcpDst, Field::VlanVid, Field::Ipv4Dst, Field::EthDst, Field::VlanPcp]);
            Constraint::exact(field, self.world.value(random, field))
        };
        let cond = Cond::default().and(one(random));
        if random.one_in(3) { cond.and(one(random)) } else { cond }
    }

    fn tree(&self, random: &mut Choices, depth: u32) -> Tree {
        if depth == 0 {
            return Tree::Part(self.part(random));
        }
        let below = |random: &mut Choices| self.tree(random, depth - 1);
        match random.below(11) {
            10 => {
                let actions = [AccessAction::Allow, AccessAction::Deny, AccessAction::Pass];
                let entry = |random: &mut Choices| (self.cond(random), *random.pick(&actions));
                let list = |random: &mut Choices| (0..random.below(12)).map(|_| entry(random)).collect();
                let lists = (0..1 + random.below(2)).map(|_| list(random)).collect();
                Tree::Lists(lists, Box::new(below(random)))
            }
            0..4 => Tree::Tiers((0..random.below(4)).map(|_| below(random)).collect()),
            4 => Tree::Named(Box::new(below(random))),
            5 => {
                let places = (0..1 + random.below(2)).map(|_| *random.pick(&self.world.edges)).collect();
                Tree::Observe(Box::new(below(random)), places)
            }
            6 => Tree::Only(self.cond(random), Box::new(below(random))),
            7 => {
                let cases = (0..2).map(|n| (Value::Int(n), below(random))).collect();
                Tree::Choose(VARS[0], cases, Box::new(below(random)))
            }
            8 => Tree::Fallback(Box::new(below(random)), Box::new(below(random))),
            _ => Tree::Part(self.part(random)),
        }
    }

    /// Returns a whole frame with at most one tag, and not a fragment, because some rewrites do not change other
    /// frames. The tag is not a service tag: removed and pushed again, it would be a plain tag; as one change it stays.
    fn frame(&self, random: &mut Choices) -> (Location, Vec<u8>) {
        let spec = loop {
            let spec: PacketSpec = self.world.packet(random, &[]);
            let is_fragment = matches!(spec.body, maple_sim::cases::Body::V4 { fragment: Some(_), .. });
            let is_plain = spec.tags.len() < 2 && spec.tags.iter().all(|tag| !tag.service);
            if is_plain && spec.cut.is_none() && !is_fragment {
                break spec;
            }
        };
        (*random.pick(&self.world.edges), spec.frame(0))
    }

    fn run(&self, came_in: Location, frame: &[u8]) -> Run {
        Run::new(frame.into(), frame.len(), came_in, Txn::new(Arc::clone(&self.state)), true)
    }

    /// Returns the composition's answer for a frame, and the records of the run.
    fn decide(&self, tree: &Tree, came_in: Location, frame: &[u8]) -> (Result<Route, PolicyError>, RunResult) {
        let run = self.run(came_in, frame);
        let composition = tree.composition();
        let answer = composition.decide_by(&run.packet(), &run.net(), &mut |part, pkt, net| part.decide(pkt, net));
        let answer = answer.and_then(|route| run.resolved(&route).map(|_| route));
        let finished = run.finish().expect("the run is not over");
        (finished.error.clone().map_or(answer, Err), finished)
    }

    /// Returns where copies of the frame leave by the composition's answer.
    ///
    /// # Errors
    /// The error of the composition.
    fn composed(&self, tree: &Tree, came_in: Location, frame: &[u8]) -> Result<FrameFate, PolicyError> {
        let (answer, _) = self.decide(tree, came_in, frame);
        let route = answer?;
        let resolved = self.run(came_in, frame).resolved(&route)?;
        let passes = route.passed().map(|passed| {
            let tagged = Packet::new(frame, 1).get(Field::VlanVid) != Some(0);
            rewritten(frame, &passed.rewrites, tagged).expect("the changes were checked")
        });
        Ok(FrameFate { passes, copies: resolved.copies(frame, came_in).into_iter().collect() })
    }

    /// Evaluates the tree directly: each part runs alone, on the frame as it is then.
    ///
    /// # Errors
    /// The error of the first part that fails without a fallback.
    fn direct(&self, tree: &Tree, came_in: Location, frame: &[u8]) -> Result<FrameFate, PolicyError> {
        match tree {
            Tree::Part(_) => self.composed(tree, came_in, frame),
            Tree::Named(of) => self.direct(of, came_in, frame),
            Tree::Tiers(tiers) => {
                let mut so_far = FrameFate { passes: Some(frame.to_vec()), copies: BTreeSet::new() };
                for tier in tiers {
                    let Some(frame) = so_far.passes.take() else { break };
                    let next = self.direct(tier, came_in, &frame)?;
                    so_far.passes = next.passes;
                    so_far.copies.extend(next.copies);
                    if so_far.passes.is_none() {
                        break;
                    }
                }
                Ok(so_far)
            }
            Tree::Observe(of, places) => {
                let mut outcome = self.direct(of, came_in, frame)?;
                let elsewhere = places.iter().filter(|place| **place != came_in);
                outcome.copies.extend(elsewhere.map(|place| (*place, frame.to_vec())));
                Ok(outcome)
            }
            Tree::Only(cond, of) if fits(cond, came_in, frame) => self.direct(of, came_in, frame),
            Tree::Only(..) => Ok(FrameFate { passes: Some(frame.to_vec()), copies: BTreeSet::new() }),
            Tree::Choose(name, cases, otherwise) => {
                let value = match Txn::new(Arc::clone(&self.state)).read(Cell::Var((*name).into())) {
                    CellValue::Value(Some(value)) => value,
                    _ => Value::Int(0),
                };
                let chosen = cases.iter().find(|(case, _)| *case == value).map_or(&**otherwise, |(_, tree)| tree);
                self.direct(chosen, came_in, frame)
            }
            Tree::Fallback(of, on_error) => {
                self.direct(of, came_in, frame).or_else(|_| self.direct(on_error, came_in, frame))
            }
            Tree::Lists(lists, allowed) => {
                let first = |list: &Vec<(Cond, AccessAction)>| {
                    let fitting = list.iter().find(|(cond, _)| fits(cond, came_in, frame));
                    fitting.map_or(AccessAction::Pass, |(_, action)| *action)
                };
                match lists.iter().map(first).find(|action| *action != AccessAction::Pass) {
                    Some(AccessAction::Allow) => self.direct(allowed, came_in, frame),
                    Some(_) => Ok(FrameFate { passes: None, copies: BTreeSet::new() }),
                    None => Ok(FrameFate { passes: Some(frame.to_vec()), copies: BTreeSet::new() }),
                }
            }
        }
    }
}

fn fits(cond: &Cond, came_in: Location, frame: &[u8]) -> bool {
    cond.holds(&Packet::new(frame, came_in.port.0))
}

/// Reports whether a composition refuses what single policies could do: copies with different headers at one switch.
fn is_mixed(error: &PolicyError) -> bool {
    match error {
        PolicyError::Route { error, .. } => {
            matches!(error, RouteError::MixedTreatment(_) | RouteError::NoCopy(_) | RouteError::Loop(_))
        }
        PolicyError::InTier { error, .. } => is_mixed(error),
        _ => false,
    }
}

/// Reports whether one place gets two different copies; a route makes only one.
fn collides(outcome: &FrameFate) -> bool {
    let places: BTreeSet<Location> = outcome.copies.iter().map(|(at, _)| *at).collect();
    places.len() < outcome.copies.len()
}

#[test]
fn a_composition_does_what_its_parts_do_one_by_one() {
    let mut counts = [0; 3];
    for seed in seeds(15_000) {
        let mut random = Choices::new(seed);
        let setting = Setting::new(&mut random);
        let tree = setting.tree(&mut random, 3);
        let (came_in, frame) = setting.frame(&mut random);
        let direct = setting.direct(&tree, came_in, &frame);
        let composed = setting.composed(&tree, came_in, &frame);
        // Copies can complete a route that leads nowhere by itself, and a fallback can notice that they can't be made.
        let mixes = any(&tree, &|tree| matches!(tree, Tree::Observe(..)));
        match (&direct, &composed) {
            (Ok(direct), _) if collides(direct) => counts[0] += 1,
            _ if mixes && any(&tree, &|tree| matches!(tree, Tree::Fallback(..))) => counts[0] += 1,
            (Ok(direct), Ok(composed)) => {
                assert_eq!(direct, composed, "seed {seed}: {tree:#?}\n{:?}", setting.decide(&tree, came_in, &frame).0);
                counts[1] += 1;
            }
            (Err(_), Err(_)) => counts[2] += 1,
            (_, Err(error)) if is_mixed(error) => counts[0] += 1,
            _ if mixes => counts[0] += 1,
            _ => panic!("seed {seed}: {direct:?} but {composed:?}\n{tree:#?}"),
        }
    }
    assert!(are_chosen() || counts[1] > 2 * counts[0] && counts[2] > 1_000, "{counts:?}");
}

fn any(tree: &Tree, what: &dyn Fn(&Tree) -> bool) -> bool {
    what(tree)
        || match tree {
            Tree::Part(_) => false,
            Tree::Named(of) | Tree::Observe(of, _) | Tree::Only(_, of) | Tree::Lists(_, of) => any(of, what),
            Tree::Tiers(tiers) => tiers.iter().any(|tier| any(tier, what)),
            Tree::Choose(_, cases, other) => cases.iter().any(|(_, tree)| any(tree, what)) || any(other, what),
            Tree::Fallback(of, other) => any(of, what) || any(other, what),
        }
}

#[test]
fn packets_that_pass_the_trace_of_a_composition_get_its_answer() {
    let mut alike = 0;
    for seed in seeds(5_000) {
        let mut random = Choices::new(seed);
        let setting = Setting::new(&mut random);
        let tree = setting.tree(&mut random, 3);
        let (came_in, frame) = setting.frame(&mut random);
        let (first, run) = setting.decide(&tree, came_in, &frame);
        for _ in 0..20 {
            let (_, other) = setting.frame(&mut random);
            if run.trace.holds(&Packet::new(&other, came_in.port.0)) {
                let (second, again) = setting.decide(&tree, came_in, &other);
                assert_eq!(first, second, "seed {seed}: {tree:#?}");
                // Each decision makes lists of its own, so the traces are compared as text.
                assert_eq!(item_texts(&run.trace), item_texts(&again.trace), "seed {seed}");
                alike += 1;
            }
        }
    }
    assert!(are_chosen() || alike > 1_000, "{alike}");
}

fn item_texts(trace: &Trace) -> Vec<String> {
    trace.steps().map(|step| step.to_string()).collect()
}

/// Returns the text of an error, without the line.
fn what(error: PolicyError) -> String {
    match error {
        PolicyError::Route { error, .. } => error.to_string(),
        PolicyError::InTier { error, .. } => what(*error),
        error => error.to_string(),
    }
}

/// Asserts that two trees decide alike, for random parts and packets. Routes are compared as data.
fn assert_law(law: impl Fn(&Setting, &mut Choices) -> Option<(Tree, Tree)>) {
    let mut compared = 0;
    for seed in seeds(5_000) {
        let mut random = Choices::new(seed);
        let setting = Setting::new(&mut random);
        let Some((left, right)) = law(&setting, &mut random) else { continue };
        for _ in 0..3 {
            let (came_in, frame) = setting.frame(&mut random);
            let answer = |tree| setting.decide(tree, came_in, &frame).0.map_err(what);
            assert_eq!(answer(&left), answer(&right), "seed {seed}: {left:#?}\n{right:#?}");
            compared += 1;
        }
    }
    assert!(are_chosen() || compared > 3_000);
}

fn seq<const N: usize>(tiers: [&Tree; N]) -> Tree {
    Tree::Tiers(tiers.into_iter().cloned().collect())
}

#[test]
fn sequence_is_associative() {
    assert_law(|setting, random| {
        let [a, b, c] = [0; 3].map(|_| setting.tree(random, 2));
        Some((seq([&seq([&a, &b]), &c]), seq([&a, &seq([&b, &c])])))
    });
}

#[test]
fn pass_is_neutral() {
    let pass = Part::Gate {
        field: Field::Metadata,
        value: 0,
        writes: Vec::new(),
        program: Program::Answer(maple_sim::cases::Answer::Drop),
    };
    let pass = Tree::Part(pass);
    assert_law(|setting, random| {
        let a = setting.tree(random, 2);
        Some((seq([&pass, &a, &pass]), a))
    });
}

#[test]
fn a_tier_that_decides_ends_the_tiers() {
    assert_law(|setting, random| {
        let program = Part::Program(setting.world.program_of_filters(random));
        let (decides, never) = (Tree::Part(program), setting.tree(random, 2));
        Some((seq([&decides, &never]), decides))
    });
}

#[test]
fn a_restriction_distributes_over_tiers_that_leave_its_fields_alone() {
    assert_law(|setting, random| {
        let (a, b, cond) = (setting.tree(random, 1), setting.tree(random, 1), setting.cond(random));
        let about: Vec<Field> = cond.constraints.iter().map(|constraint| constraint.field).collect();
        // The VLAN id decides whether there is a priority to write.
        let touches = |tree: &Tree| {
            any(tree, &|tree| match tree {
                Tree::Part(Part::Gate { writes, .. }) => {
                    let concerns = |field: Field| {
                        about.contains(&field) || field == Field::VlanVid && about.contains(&Field::VlanPcp)
                    };
                    writes.iter().any(|(field, _)| concerns(*field))
                }
                _ => false,
            })
        };
        if touches(&a) {
            return None;
        }
        let only = |tree: Tree| Tree::Only(cond.clone(), Box::new(tree));
        Some((only(seq([&a, &b])), seq([&only(a), &only(b)])))
    });
}

#[test]
fn only_failures_need_a_fallback() {
    assert_law(|setting, random| {
        let (a, b) = (setting.tree(random, 2), setting.tree(random, 1));
        let [came_in] = [at(1, 3)];
        let (_, frame) = setting.frame(random);
        let fallback = Tree::Fallback(Box::new(a.clone()), Box::new(b.clone()));
        let expected = match setting.decide(&a, came_in, &frame).0 {
            Ok(route) => Ok(route),
            Err(_) => setting.decide(&b, came_in, &frame).0,
        };
        let answer = setting.decide(&fallback, came_in, &frame).0;
        assert_eq!(answer.map_err(what), expected.map_err(what));
        let fails = Tree::Fallback(Box::new(Tree::Part(Part::Fails)), Box::new(b.clone()));
        Some((fails, b))
    });
}

#[test]
fn names_are_in_lines_and_errors() {
    let mut random = Choices::new(1);
    let setting = Setting::new(&mut random);
    let (came_in, frame) = setting.frame(&mut random);
    let named = |part: Part| {
        let inner = Composition::single(part).named("red");
        Composition::tiers([inner]).named("tenant")
    };
    let decide = |composition: &Composition<Part>| {
        let run = setting.run(came_in, &frame);
        let answer = composition.decide_by(&run.packet(), &run.net(), &mut |part, pkt, net| part.decide(pkt, net));
        (answer, run.finish().expect("the run is not over").trace)
    };
    let (failed, _) = decide(&named(Part::Fails));
    assert_eq!(failed.expect_err("it fails").to_string(), "tenant/red: on purpose");
    let drop = Program::Answer(maple_sim::cases::Answer::Drop);
    let gate = Part::Gate { field: Field::EthSrc, value: 1, writes: Vec::new(), program: drop };
    let (route, trace) = decide(&named(gate));
    let line = trace.sources[0].as_ref().expect("Rust knows its lines").to_string();
    assert!(line.starts_with("tenant/red: ") && line.contains("compose.rs:"), "{line}");
    let made_at = route.expect("a drop").made_at().expect("a line").to_string();
    assert!(made_at.starts_with("tenant/red: "), "{made_at}");
}

#[test]
fn fields_that_an_earlier_tier_has_written_cost_no_observation() {
    let setting = Setting::new(&mut Choices::new(1));
    let web = |pkt: &PacketHandle, _: &Net| {
        if pkt.is(Field::Ipv4Dst, 0x0a00_0063) {
            Route::pass().set(Field::Ipv4Dst, 0x0a00_0001).set(Field::TcpDst, 8080)
        } else {
            Route::pass()
        }
    };
    let server = |pkt: &PacketHandle, _: &Net| {
        let [own, any] = [0x0a00_0001u128, 0x0a00_0000];
        let is_server = pkt.is(Field::Ipv4Dst, own) && pkt.within(Field::TcpDst, 8000, 9000);
        let matches = pkt.matches(&Cond::default().and(Constraint::masked(Field::Ipv4Dst, any, 0xffff_ff00)));
        if is_server && matches { Route::to([PortNo(4)]) } else { Route::drop() }
    };
    let parts: [Arc<dyn Policy>; 2] = [Arc::new(web), Arc::new(server)];
    let composed = Composition::tiers(parts.map(Composition::single));
    let frame = maple_wire::packet::Frame::ethernet([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]);
    let frame = frame.ipv4([10, 0, 0, 1], [10, 0, 0, 99]).tcp(1000, 80).build();
    let run = setting.run(at(1, 3), &frame);
    let route = composed.decide(&run.packet(), &run.net()).expect("a route");
    assert_eq!(route.to_string(), "to 4 set ipv4_dst=10.0.0.1 set tcp_dst=8080");
    let items: Vec<String> = run.finish().expect("not over").trace.items.iter().map(ToString::to_string).collect();
    assert_eq!(items, ["test eth_type=0x800, ipv4_dst=10.0.0.99: yes", "read ip_proto=6"]);
}
