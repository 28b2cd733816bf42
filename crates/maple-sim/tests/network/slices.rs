//! Slices compared with their meaning: a policy in a slice does what it does alone, on the network reduced to the
//! slice, with the slice's own state. One slice does not affect another.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use maple_core::compose::{Composition, Slice, SliceError};
use maple_core::ids::{Name, ShardId};
use maple_core::network::{HostInfo, LinkName, Location, Mac, PortInfo, PortKind};
use maple_core::policy::{Net, PacketHandle, Policy, PolicyError};
use maple_core::route::{Limit, Meter, Resolved, Route, RouteError};
use maple_core::run::Run;
use maple_core::state::{Snapshot, Store, SwitchInfo, Txn, Value, Write};
use maple_core::trace::Cond;
use maple_sim::Choices;
use maple_sim::cases::{Body, COSTS, Domain, HostAddresses, PacketSpec, Program, TABLES, VARS};
use maple_sim::seeds::{are_chosen, seeds};
use maple_wire::{Constraint, Dpid, Field, Packet, PortNo, Version};

use crate::scripts::at;

type Part = Arc<dyn Policy>;

/// The part of the network that a slice has.
#[derive(Clone, Debug)]
struct Has {
    ports: Option<BTreeSet<Location>>,
    hosts: Option<BTreeSet<Mac>>,
    links: Option<Vec<(Location, Location)>>,
}

impl Has {
    fn slice<P>(&self, name: &str, policy: Composition<P>) -> Slice<P> {
        let mut slice = Slice::new(name, policy);
        if let Some(ports) = &self.ports {
            slice = slice.ports(ports.iter().copied());
        }
        if let Some(hosts) = &self.hosts {
            slice = slice.hosts(hosts.iter().copied());
        }
        if let Some(links) = &self.links {
            // A link is named by either end, or by both switches: each pair has one link.
            let name = |(a, b): &(Location, Location)| match (a.switch.0 + b.switch.0) % 3 {
                0 => LinkName::Port(*a),
                1 => LinkName::Port(*b),
                _ => LinkName::Switches(b.switch, a.switch),
            };
            slice = slice.links(links.iter().map(name));
        }
        slice
    }

    fn port(&self, port: Location) -> bool {
        self.ports.as_ref().is_none_or(|ports| ports.contains(&port))
    }

    fn host(&self, mac: Mac) -> bool {
        self.hosts.as_ref().is_none_or(|hosts| hosts.contains(&mac))
    }

    fn link(&self, link: &(Location, Location)) -> bool {
        self.links.as_ref().is_none_or(|links| links.contains(link))
    }
}

/// A network with hosts, in which slices called `red` and `blue` have state.
struct Setting {
    world: Domain,
    located: Vec<(HostAddresses, Location)>,
    state: Vec<Write>,
}

impl Setting {
    /// Creates switches 1 to 4 in a ring by ports 1 and 2, with a link between 1 and 3 by port 5; ports 3 and 4 have
    /// hosts.
    fn new(random: &mut Choices) -> Setting {
        let (mut links, mut edges, mut hosts, mut located) = (vec![(at(1, 5), at(3, 5))], vec![], vec![], vec![]);
        for n in 1..=4u64 {
            links.push((at(n, 2), at(n % 4 + 1, 1)));
            edges.extend([at(n, 3), at(n, 4)]);
            let (mac, low) = (Mac([2, 0, 0, 0, 0, n as u8]), n as u8);
            let (ipv4, ipv6) = (Ipv4Addr::new(10, 0, 0, low), Ipv6Addr::from(0xfd00 << 112 | u128::from(low)));
            hosts.push(HostAddresses { mac, ipv4, ipv6 });
            if !random.one_in(5) {
                located.push((HostAddresses { mac, ipv4, ipv6 }, at(n, 3 + random.below(2) as u32)));
            }
        }
        links.iter_mut().filter(|(a, b)| b < a).for_each(|(a, b)| std::mem::swap(a, b));
        let mut state = Vec::new();
        for slice in ["", "red/", "blue/", "red/in/"] {
            for name in VARS {
                let value = (!random.one_in(4)).then(|| Value::Int(random.below(3) as i128));
                state.push(Write::Var { name: format!("{slice}{name}").into(), value });
            }
            for table in TABLES {
                for key in [1, 2, 22] {
                    let value = random.one_in(2).then(|| Value::Int(random.below(4) as i128));
                    let table = format!("{slice}{table}").into();
                    state.push(Write::Table { table, key: Value::Int(key), value });
                }
            }
            if slice.is_empty() || random.one_in(2) {
                let name: Name = format!("{slice}{COSTS}").into();
                state.push(Write::CostName(name.clone()));
                for (a, _) in &links {
                    let cost = random.one_in(2).then(|| 1 + random.below(5) as u64);
                    state.push(Write::Cost { name: name.clone(), link: LinkName::Port(*a), cost });
                }
            }
        }
        let world = Domain { switches: 4, links, edges, hosts, all_answers: false };
        Setting { world, located, state }
    }

    fn has(&self, random: &mut Choices, came_in: Location) -> Has {
        let edges = self.world.edges.iter();
        let ports =
            (!random.one_in(4)).then(|| edges.copied().filter(|_| !random.one_in(3)).chain([came_in]).collect());
        let macs = self.world.hosts.iter().map(|host| host.mac);
        let hosts = random.one_in(3).then(|| macs.filter(|_| !random.one_in(3)).collect());
        let links = self.world.links.iter().copied();
        let links = (!random.one_in(3)).then(|| links.filter(|_| !random.one_in(3)).collect());
        Has { ports, hosts, links }
    }

    /// Returns the network reduced to what all of these parts have, with this state.
    fn snapshot(&self, has: &[&Has], state: &[Write]) -> Arc<Snapshot> {
        let store = Store::new();
        let info = SwitchInfo { shard: ShardId(0), version: Version::Of13 };
        let mut writes: Vec<Write> = (1..=4).map(|n| Write::Switch { dpid: Dpid(n), info: Some(info) }).collect();
        let port = |at, kind| Write::Port { at, info: Some(PortInfo { up: true, kind }) };
        for (a, b) in self.world.links.iter().filter(|link| has.iter().all(|has| has.link(link))) {
            writes.extend([port(*a, PortKind::Link(*b)), port(*b, PortKind::Link(*a))]);
        }
        let is_there = |at: Location| has.iter().all(|has| has.port(at));
        writes.extend(self.world.edges.iter().filter(|at| is_there(**at)).map(|at| port(*at, PortKind::Edge)));
        for (host, location) in &self.located {
            if is_there(*location) && has.iter().all(|has| has.host(host.mac)) {
                let info = HostInfo { location: *location, ipv4: [host.ipv4].into(), ipv6: [host.ipv6].into() };
                writes.push(Write::Host { mac: host.mac, info: Some(info) });
            }
        }
        store.update(|_| writes);
        store.update(|_| state.to_vec());
        store.snapshot()
    }

    /// Returns a whole frame, and where it comes in.
    fn frame(&self, random: &mut Choices) -> (Location, Vec<u8>) {
        let spec = loop {
            let spec: PacketSpec = self.world.packet(random, &[]);
            let is_fragment = matches!(spec.body, Body::V4 { fragment: Some(_), .. });
            if spec.cut.is_none() && !is_fragment {
                break spec;
            }
        };
        (*random.pick(&self.world.edges), spec.frame(0))
    }
}

/// Returns the state of a policy that runs alone, from that of the policy in these slices,
/// outermost first. Tables and variables are those of the innermost slice. Costs are those of the
/// innermost slice that has any, or else of the network.
fn alone(state: &[Write], prefixes: &[&str]) -> Vec<Write> {
    let own = prefixes.last().copied().unwrap_or_default();
    let costs = prefixes.iter().rev().chain([&""]).find(|prefix| {
        let name: Name = format!("{prefix}{COSTS}").into();
        state.contains(&Write::CostName(name))
    });
    let name_in =
        |name: &Name, prefix: &str| name.strip_prefix(prefix).filter(|rest| !rest.contains('/')).map(Name::from);
    let costs = costs.copied().unwrap_or_default();
    let renamed = |write: &Write| match write {
        Write::Var { name, value } => Some(Write::Var { name: name_in(name, own)?, value: value.clone() }),
        Write::Table { table, key, value } => {
            Some(Write::Table { table: name_in(table, own)?, key: key.clone(), value: value.clone() })
        }
        Write::CostName(name) => Some(Write::CostName(name_in(name, costs)?)),
        Write::Cost { name, link, cost } => Some(Write::Cost { name: name_in(name, costs)?, link: *link, cost: *cost }),
        _ => None,
    };
    state.iter().filter_map(renamed).collect()
}

/// The result of a policy: the hops of the packet if its route can be followed, and the writes, with these prefixes
/// removed.
type Done = (Result<Arc<Resolved>, ()>, Vec<Write>);

fn run(state: &Arc<Snapshot>, policy: &Composition<Part>, came_in: Location, frame: &[u8], prefix: &str) -> Done {
    let run = Run::new(frame.into(), frame.len(), came_in, Txn::new(Arc::clone(state)), true);
    let answer = policy.decide_by(&run.packet(), &run.net(), &mut |part, pkt, net| part.decide(pkt, net));
    let resolved = answer.and_then(|route| run.resolved(&route));
    let finished = run.finish().expect("the run is not over");
    let resolved = finished.error.map_or(resolved, Err).map_err(|_| ());
    let plain_name = |name: &Name| Name::from(name.strip_prefix(prefix).expect("a slice writes what is its own"));
    let plain = |write: &Write| match write.clone() {
        Write::Var { name, value } => Write::Var { name: plain_name(&name), value },
        Write::Table { table, key, value } => Write::Table { table: plain_name(&table), key, value },
        Write::Cost { name, link, cost } => Write::Cost { name: plain_name(&name), link, cost },
        Write::Add { name, amount } => Write::Add { name: plain_name(&name), amount },
        Write::CostName(name) => Write::CostName(plain_name(&name)),
        other => panic!("{other:?}"),
    };
    (resolved, finished.txn.writes().iter().map(plain).collect())
}

/// Reports whether a policy alone names a place that is not there, which its route leaves out or fails by. In a slice,
/// the policy gets another error instead: the place is not in the slice, or there is no path to it.
fn names_an_absent_place(state: &Arc<Snapshot>, program: &Program, came_in: Location, frame: &[u8]) -> bool {
    let run = Run::new(frame.into(), frame.len(), came_in, Txn::new(Arc::clone(state)), true);
    let Ok(route) = program.decide(&run.packet(), &run.net()) else { return false };
    let is_absent = |error: &RouteError| matches!(error, RouteError::NoSuchPort { .. } | RouteError::EndsAtLink { .. });
    let fails = matches!(run.resolved(&route), Err(PolicyError::Route { error, .. }) if is_absent(&error));
    fails || !route.left_out(came_in.switch, state).is_empty()
}

fn part(program: Program) -> Composition<Part> {
    Composition::single(Arc::new(program) as Part)
}

fn pass() -> Composition<Part> {
    let pass = |_: &PacketHandle, _: &Net| Route::pass();
    Composition::single(Arc::new(pass) as Part)
}

fn program(setting: &Setting, random: &mut Choices) -> Program {
    if random.one_in(2) { setting.world.program_of_filters(random) } else { setting.world.program(random, 4) }
}

/// Reports whether costs are written. Costs that a slice sets are its own, and hide those of the network, while alone
/// both are the same.
fn sets_costs(writes: &[Write]) -> bool {
    writes.iter().any(|write| matches!(write, Write::Cost { .. } | Write::CostName(_)))
}

#[test]
fn a_policy_in_a_slice_does_what_it_does_alone_on_the_reduced_network() {
    let mut counts = [0; 3];
    for seed in seeds(8_000) {
        let mut random = Choices::new(seed);
        let setting = Setting::new(&mut random);
        let program = program(&setting, &mut random);
        let (came_in, frame) = setting.frame(&mut random);
        let has = setting.has(&mut random, came_in);
        let all = setting.snapshot(&[], &setting.state);
        let slice = Composition::slices([has.slice("red", part(program.clone()))], pass(), None).expect("one");
        let in_slice = run(&all, &slice, came_in, &frame, "red/");
        let reduced = setting.snapshot(&[&has], &alone(&setting.state, &["red/"]));
        let by_itself = run(&reduced, &part(program.clone()), came_in, &frame, "");
        if sets_costs(&by_itself.1) && !setting.state.contains(&Write::CostName(format!("red/{COSTS}").into())) {
            counts[2] += 1;
            continue;
        }
        if in_slice.0.is_err() != by_itself.0.is_err() && names_an_absent_place(&reduced, &program, came_in, &frame) {
            continue;
        }
        assert_eq!(in_slice, by_itself, "seed {seed}: {has:?} {came_in} {program:#?}");
        counts[usize::from(in_slice.0.is_err())] += 1;
    }
    assert!(are_chosen() || counts[0] > 3 * counts[1] && counts[1] > 20, "{counts:?}");
}

#[test]
fn a_slice_in_a_slice_has_what_both_have() {
    let mut compared = 0;
    for seed in seeds(4_000) {
        let mut random = Choices::new(seed);
        let setting = Setting::new(&mut random);
        let program = program(&setting, &mut random);
        let (came_in, frame) = setting.frame(&mut random);
        let (outer, inner) = (setting.has(&mut random, came_in), setting.has(&mut random, came_in));
        let all = setting.snapshot(&[], &setting.state);
        let within = Composition::slices([inner.slice("in", part(program.clone()))], pass(), None).expect("one");
        let nested = Composition::slices([outer.slice("red", within)], pass(), None).expect("one");
        let in_slices = run(&all, &nested, came_in, &frame, "red/in/");
        let reduced = setting.snapshot(&[&outer, &inner], &alone(&setting.state, &["red/", "red/in/"]));
        let by_itself = run(&reduced, &part(program.clone()), came_in, &frame, "");
        let own_costs = setting.state.contains(&Write::CostName(format!("red/in/{COSTS}").into()));
        if in_slices.0.is_err() != by_itself.0.is_err() && names_an_absent_place(&reduced, &program, came_in, &frame) {
            continue;
        }
        if !sets_costs(&by_itself.1) || own_costs {
            assert_eq!(in_slices, by_itself, "seed {seed}: {outer:?} {inner:?} {program:#?}");
            compared += 1;
        }
    }
    assert!(are_chosen() || compared > 2_000, "{compared}");
}

#[test]
fn writes_of_one_slice_change_nothing_of_another() {
    let (mut wrote, mut compared) = (0, 0);
    for seed in seeds(4_000) {
        let mut random = Choices::new(seed);
        let setting = Setting::new(&mut random);
        let (red, blue) = (setting.world.program(&mut random, 5), program(&setting, &mut random));
        let port = Constraint::exact(Field::TcpDst, 80);
        let (web, rest) = (Cond::default().and(port), Cond::default().and(Constraint::exact(Field::TcpDst, 22)));
        let slices = [Slice::new("red", part(red)).only([web]), Slice::new("blue", part(blue)).only([rest])];
        let both = Composition::slices(slices, pass(), None).expect("ports differ");
        let (came_in, frame) = setting.frame(&mut random);
        let kind = |frame: &[u8]| Packet::new(frame, 1).get(Field::TcpDst);
        let mut of_kind = |wanted| (0..200).map(|_| setting.frame(&mut random)).find(|(_, f)| kind(f) == Some(wanted));
        let (Some((at_red, web)), Some((at_blue, ssh))) = (of_kind(80), of_kind(22)) else { continue };
        let before = setting.snapshot(&[], &setting.state);
        let (_, writes) = run(&before, &both, at_red, &web, "red/");
        let mut state = setting.state.clone();
        let renamed = writes.iter().map(|write| match write.clone() {
            Write::Var { name, value } => Write::Var { name: format!("red/{name}").into(), value },
            Write::Table { table, key, value } => Write::Table { table: format!("red/{table}").into(), key, value },
            Write::Cost { name, link, cost } => Write::Cost { name: format!("red/{name}").into(), link, cost },
            other => other,
        });
        state.extend(renamed);
        let after = setting.snapshot(&[], &state);
        wrote += usize::from(!writes.is_empty());
        let of_blue = |state| run(state, &both, at_blue, &ssh, "blue/");
        assert_eq!(of_blue(&before), of_blue(&after), "seed {seed}: {writes:?}");
        compared += 1;
        // A packet of neither slice passes, and nothing is written for it.
        if !matches!(kind(&frame), Some(80 | 22)) {
            let (resolved, writes) = run(&before, &both, came_in, &frame, "");
            assert!(resolved.is_ok_and(|resolved| resolved.switches.is_empty()) && writes.is_empty(), "seed {seed}");
        }
    }
    assert!(are_chosen() || wrote > 300 && compared > 1_000, "{wrote} of {compared}");
}

#[test]
fn packets_that_pass_the_trace_of_slices_get_their_answer() {
    let mut alike = 0;
    for seed in seeds(2_000) {
        let mut random = Choices::new(seed);
        let setting = Setting::new(&mut random);
        let (came_in, frame) = setting.frame(&mut random);
        let has = setting.has(&mut random, came_in);
        let (red, blue) = (program(&setting, &mut random), program(&setting, &mut random));
        let tcp = |port| Cond::default().and(Constraint::exact(Field::TcpDst, port));
        let slices =
            [has.slice("red", part(red)).only([tcp(80), tcp(22)]), Slice::new("blue", part(blue)).only([tcp(443)])];
        let all = Composition::slices(slices, pass(), None).expect("ports differ");
        let state = setting.snapshot(&[], &setting.state);
        let decide = |frame: &[u8]| {
            let run = Run::new(frame.into(), frame.len(), came_in, Txn::new(Arc::clone(&state)), true);
            let answer = all.decide_by(&run.packet(), &run.net(), &mut |part, pkt, net| part.decide(pkt, net));
            let resolved = answer.and_then(|route| run.resolved(&route)).map_err(|error| error.to_string());
            (resolved, run.finish().expect("the run is not over").trace)
        };
        let (first, trace) = decide(&frame);
        for _ in 0..20 {
            let (_, other) = setting.frame(&mut random);
            if trace.items.iter().all(|item| item.holds(&Packet::new(&other, came_in.port.0))) {
                assert_eq!(decide(&other), (first.clone(), trace.clone()), "seed {seed}");
                alike += 1;
            }
        }
    }
    assert!(are_chosen() || alike > 500, "{alike}");
}

fn exact(field: Field, value: u128) -> Cond {
    Cond::default().and(Constraint::exact(field, value))
}

#[test]
fn slices_with_a_packet_in_common_are_refused_with_an_example() {
    let slice = |name: &str, conds: Vec<Cond>| Slice::new(name, pass()).only(conds);
    let built = |slices: Vec<Slice<Part>>| Composition::slices(slices, pass(), None).map(|_| ());
    let lab = Cond::default().and(Constraint::masked(Field::Ipv4Src, 0x0a00_0000, 0xff00_0000));
    let error = built(vec![
        slice("red", vec![exact(Field::UdpDst, 53), lab.clone()]),
        slice("blue", vec![exact(Field::TcpDst, 22)]),
    ]);
    assert_eq!(
        error.expect_err("SSH from the lab").to_string(),
        "the slices \"red\" and \"blue\" overlap: eth_type=0x800, ip_proto=6, ipv4_src=10.0.0.0, tcp_dst=22 fits \
         condition 2 of \"red\" and condition 1 of \"blue\""
    );
    let slice_at = |name: &str, ports: &[Location]| Slice::new(name, pass()).ports(ports.iter().copied());
    assert_eq!(built(vec![slice_at("red", &[at(1, 1), at(1, 2)]), slice_at("blue", &[at(2, 1), at(1, 3)])]), Ok(()));
    let error = built(vec![slice_at("red", &[at(1, 1), at(1, 2)]), slice_at("blue", &[at(1, 2)])]);
    assert_eq!(
        error.expect_err("one port").to_string(),
        "the slices \"red\" and \"blue\" overlap: in_port=2 at switch 0000000000000001 fits condition 1 of \"red\" and \
         condition 1 of \"blue\""
    );
    let third = slice_at("blue", &[at(1, 2)]).only([exact(Field::InPort, 3)]);
    assert_eq!(built(vec![slice_at("red", &[at(1, 1), at(1, 2)]), third]), Ok(()), "no packet comes in by 2 and 3");
    let [empty, nested] = ["", "a/b"].map(|name| built(vec![slice(name, vec![])]));
    assert_eq!((empty, nested), (Err(SliceError::Name("".into())), Err(SliceError::Name("a/b".into()))));
    let twice = built(vec![slice("red", vec![exact(Field::TcpDst, 1)]), slice("red", vec![exact(Field::TcpDst, 2)])]);
    assert_eq!(twice, Err(SliceError::Twice("red".into())));
}

#[test]
fn a_route_that_leaves_the_slice_names_slice_and_line() {
    let setting = Setting::new(&mut Choices::new(3));
    let state = setting.snapshot(&[], &setting.state);
    let frame = maple_wire::packet::Frame::ethernet([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1])
        .ipv4([10, 0, 0, 1], [10, 0, 0, 2])
        .tcp(1, 2)
        .build();
    let fails = |policy: fn(&PacketHandle, &Net) -> Route| {
        let slice = Slice::new("red", Composition::single(Arc::new(policy) as Part));
        let slice = slice.ports([at(1, 3), at(2, 3)]).links([LinkName::Switches(Dpid(1), Dpid(4))]);
        let slices = Composition::slices([slice], pass(), None).expect("one");
        let run = Run::new(frame.clone().into(), frame.len(), at(1, 3), Txn::new(Arc::clone(&state)), true);
        let answer = slices.decide_by(&run.packet(), &run.net(), &mut |part, pkt, net| part.decide(pkt, net));
        let resolved = answer.and_then(|route| run.resolved(&route));
        match run.finish().expect("not over").error {
            Some(error) => error,
            None => resolved.expect_err("not in the slice"),
        }
        .to_string()
    };
    let error = fails(|_, _| Route::to([PortNo(4)]));
    assert!(error.starts_with("red: ") && error.contains("slices.rs:"), "{error}");
    assert!(
        error.ends_with("hop 0000000000000001:4 is not in the slice red: the slice does not have that port"),
        "{error}"
    );
    let error = fails(|_, net| net.shortest_path(at(1, 3), at(4, 3)));
    assert!(error.ends_with("4:3 is not in the slice red: the slice does not have that port"), "{error}");
    let error = fails(|_, _| {
        Route::hops([
            maple_core::network::Hop::new(Dpid(1), PortNo(2)),
            maple_core::network::Hop::new(Dpid(2), PortNo(3)),
        ])
    });
    assert!(error.ends_with("1:2 is not in the slice red: the slice does not have that link"), "{error}");
    let error = fails(|_, _| Route::to([]).copy_to(at(1, 4)));
    assert!(error.ends_with("1:4 is not in the slice red: the slice does not have that port"), "{error}");
    let error = fails(|_, net| {
        net.send(vec![0; 64], at(1, 4));
        Route::drop()
    });
    assert!(
        error.ends_with("a frame is to be sent out of 0000000000000001:4, which is not a port of the slice red"),
        "{error}"
    );
    let error = fails(|_, net| net.path(at(1, 3), at(2, 3), "blue/weight"));
    assert!(error.contains("links have no costs named \"blue/weight\""), "{error}");
}

#[test]
fn a_fallback_in_a_slice_sees_that_a_route_leaves_it() {
    let setting = Setting::new(&mut Choices::new(3));
    let state = setting.snapshot(&[], &setting.state);
    let (_, frame) = setting.frame(&mut Choices::new(1));
    let to = |port| Composition::single(Arc::new(move |_: &PacketHandle, _: &Net| Route::to([PortNo(port)])) as Part);
    let slices = |policy| {
        let here = Slice::new("red", policy).ports([at(1, 3), at(1, 9)]);
        Composition::slices([here], pass(), None).expect("one")
    };
    let done = |policy| run(&state, &policy, at(1, 3), &frame, "").0;
    assert_eq!(done(slices(to(4))), Err(()));
    assert_eq!(done(slices(to(4).or_on_error(to(3)))), done(to(3)));
    // A panic in an inner slice ends that slice too.
    let panics = Composition::single(Arc::new(|_: &PacketHandle, _: &Net| -> Route { panic!("on purpose") }) as Part);
    assert_eq!(done(slices(panics).or_on_error(to(4))), done(to(4)));
}

#[test]
fn a_limit_is_the_slices_own() {
    let setting = Setting::new(&mut Choices::new(3));
    let state = setting.snapshot(&[], &[]);
    let (_, frame) = setting.frame(&mut Choices::new(1));
    let limited = |_: &PacketHandle, _: &Net| Route::flood().limit(Limit::packets("floods", 10));
    let limited = Composition::single(Arc::new(limited) as Part);
    let inner = Composition::slices([Slice::new("web", limited)], pass(), None).expect("one");
    let outer = Composition::slices([Slice::new("red", inner)], pass(), None).expect("one");
    let (resolved, _) = run(&state, &outer, at(1, 3), &frame, "");
    let meter = resolved.expect("a flood").meter.clone();
    assert_eq!(meter, Some(Meter::Limit(Arc::new(Limit::packets("red/web/floods", 10)))));
}

#[test]
fn only_what_is_kept_outside_is_kept_in_slices() {
    let store = Store::new();
    store.keep("limits");
    assert!(store.keeps("limits") && store.keeps("red/limits") && store.keeps("red/in/limits"));
    assert!(!store.keeps("red/other") && !store.keeps("limits/red"));
}

#[test]
fn an_error_in_a_slice_names_it() {
    let setting = Setting::new(&mut Choices::new(3));
    let state = setting.snapshot(&[], &[]);
    let (_, frame) = setting.frame(&mut Choices::new(1));
    struct Fails;
    impl Policy for Fails {
        fn decide(&self, _: &PacketHandle, _: &Net) -> Result<Route, PolicyError> {
            Err(PolicyError::Exception("on purpose".into()))
        }
    }
    let inner = Slice::new("web", Composition::single(Arc::new(Fails) as Part));
    let inner = Composition::slices([inner], pass(), None).expect("one");
    let outer = Composition::slices([Slice::new("red", inner)], pass(), None).expect("one").named("campus");
    let run = Run::new(frame.clone().into(), frame.len(), at(1, 3), Txn::new(state), true);
    let answer = outer.decide_by(&run.packet(), &run.net(), &mut |part, pkt, net| part.decide(pkt, net));
    assert_eq!(answer.expect_err("it fails").to_string(), "campus/red/web: on purpose");
}
