//! Runs for other packets than their own: what f sees must follow from what the trace says, or the run answers nothing.
//!
//! A run is made for a leaf that was remembered, or that another policy decided. Then it is assumed what its packets
//! look up, and the state may have something else by now, or nothing. The registers may have changed their meaning too.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use maple_wire::packet::Frame;
use maple_wire::{Dpid, Field, PortNo, Version};
use proptest::prelude::*;

use super::{HostLocation, Net, PacketHandle, Run};
use crate::ids::ShardId;
use crate::look_ups::{Component, KeyField, KeyForm, LookUp, Registers, SharedRegisters, lock};
use crate::network::{HostInfo, LinkName, Location, Mac, PortInfo, PortKind};
use crate::policy_error::PolicyError;
use crate::route::Route;
use crate::run::Observe as _;
use crate::state::{Snapshot, Store, SwitchInfo, Txn, Value, Write};
use crate::trace::{Item, ReadMetadata};

const COSTS: &str = "delay";
const HOSTS: u8 = 6;

fn at(port: u32) -> Location {
    Location::new(Dpid(1 + u64::from(port) % 2), PortNo(1 + port))
}

fn mac(number: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, number]
}

fn groups() -> LookUp {
    LookUp::by("groups", KeyField { field: Field::EthDst, form: KeyForm::Mac })
}

/// Creates a network of two switches with a link, with the hosts at these ports, or nowhere, and with these groups of
/// hosts.
fn network(places: &[Option<u32>], groups: &[Option<i64>]) -> Arc<Snapshot> {
    let store = Store::new();
    let switch =
        |n| Write::Switch { dpid: Dpid(n), info: Some(SwitchInfo { shard: ShardId(0), version: Version::Of13 }) };
    let port = |at, kind| Write::Port { at, info: Some(PortInfo { up: true, kind }) };
    let ends = [1, 2].map(|n| Location::new(Dpid(n), PortNo(100)));
    store.update(|_| {
        let edges = (0..6).map(|number| port(at(number), PortKind::Edge));
        let links = [port(ends[0], PortKind::Link(ends[1])), port(ends[1], PortKind::Link(ends[0]))];
        let cost = Write::Cost { name: COSTS.into(), link: LinkName::Port(ends[0]), cost: Some(3) };
        [switch(1), switch(2)].into_iter().chain(edges).chain(links).chain([cost]).collect()
    });
    let host = |(number, place): (u8, &Option<u32>)| {
        let info = place.map(|port| HostInfo { location: at(port), ipv4: [].into(), ipv6: [].into() });
        Write::Host { mac: Mac(mac(number)), info }
    };
    let group = |(number, group): (u8, &Option<i64>)| {
        let value = group.map(Value::from);
        Write::Table { table: "groups".into(), key: Value::Mac(Mac(mac(number))), value }
    };
    store.update(|_| (0..).zip(places).map(host).collect());
    store.update(|_| (0..).zip(groups).map(group).collect());
    store.snapshot()
}

/// A random function: what it asks next, and what it answers, depends on what it has been answered, and on nothing
/// else.
struct RandomPolicy(u64);

impl RandomPolicy {
    fn choose(&self, seen: &[String], most: u64) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.0, seen).hash(&mut hasher);
        hasher.finish() % most
    }

    fn decide(&self, pkt: &PacketHandle, net: &Net) -> Result<Route, PolicyError> {
        let mut seen: Vec<String> = Vec::new();
        let mut located: Option<HostLocation<'_>> = None;
        let mut route = Route::drop();
        let from = Location::new(Dpid(1), PortNo(0));
        for _ in 0..7 {
            let asked = self.choose(&seen, 9);
            let answer = match (asked, located) {
                (0 | 1, _) => {
                    located = net.locate_by(Field::EthDst, None)?;
                    format!("there: {}", located.is_some())
                }
                (2, Some(found)) => format!("at {}", found.location()),
                (3, Some(found)) => {
                    route = net.shortest_path(from, found);
                    "a path".to_owned()
                }
                (4, Some(found)) => {
                    route = net.path(from, found, COSTS);
                    "a path by costs".to_owned()
                }
                (5, _) if self.choose(&seen, 3) == 0 => format!("the route is {route}"),
                (5, _) => format!("leads somewhere: {}", !route.is_unreachable()),
                (6, _) => format!("in a group: {}", net.has_key(&groups(), None)),
                (7, _) => format!("group {:?}", net.look_up(&groups(), None)),
                (8, _) if self.choose(&seen, 6) == 0 => {
                    format!("for {:?}", pkt.read(Field::EthDst, Field::EthDst.full_mask(), None))
                }
                (8, _) if self.choose(&seen, 6) == 1 => {
                    format!("paths: {:?}", route.paths().collect::<Vec<_>>())
                }
                _ => "nothing".to_owned(),
            };
            seen.push(answer);
        }
        Ok(if self.choose(&seen, 2) == 0 { route } else { Route::to([PortNo(1 + self.choose(&seen, 3) as u32)]) })
    }
}

/// Returns what some registers are said to have: of each one nothing, that there is nothing, or a class.
fn assumed(registers: &SharedRegisters, digits: &[u64]) -> ReadMetadata {
    let registers = lock(registers);
    let masks = registers.look_ups().flat_map(|(number, _)| registers.masks(number));
    masks.zip(digits).filter(|(_, digit)| **digit > 0).fold(ReadMetadata::default(), |all, (mask, digit)| {
        let class = ((digit - 1) << mask.trailing_zeros()) & mask;
        ReadMetadata { value: all.value | class, mask: all.mask | mask }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn traces_of_runs_for_any_packets_form_a_tree_and_equal_ones_have_one_answer(
        policy in any::<u64>(),
        places in proptest::collection::vec(proptest::option::weighted(0.7, 0..6u32), usize::from(HOSTS)),
        in_groups in proptest::collection::vec(proptest::option::of(0..3i64), usize::from(HOSTS)),
        first_asked in Just(vec![0, 1, 2, 3]).prop_shuffle(),
        known in 0..5usize,
        tables in 1..4usize,
        runs in proptest::collection::vec((0..HOSTS, proptest::collection::vec(0..5u64, 4)), 1..40),
    ) {
        let (policy, state) = (RandomPolicy(policy), network(&places, &in_groups));
        let registers = Registers::new(tables, u16::MAX).with_open_paths(true).shared();
        let hosts = LookUp::of_host(Field::EthDst);
        for what in first_asked.into_iter().take(known) {
            let look_up = if what < 2 { &hosts } else { &groups() };
            let component = if what % 2 == 0 { Component::Presence } else { Component::Value };
            lock(&registers).classify(look_up, component, None);
            look_up.entries(&state).iter().for_each(|(_, value)| {
                lock(&registers).classify(look_up, component, Some(value));
            });
        }
        // What comes after each beginning of a trace: another item, or the end with its answer.
        let mut next: BTreeMap<Vec<String>, BTreeSet<String>> = BTreeMap::new();
        for (to, digits) in runs {
            let frame: Arc<[u8]> = Frame::ethernet(mac(to), mac(99)).raw(0x88b5, b"hello").into();
            let run = Run::new(Arc::clone(&frame), frame.len(), at(0), Txn::new(Arc::clone(&state)), true);
            let run = run.with_registers(SharedRegisters::clone(&registers)).for_leaf(assumed(&registers, &digits));
            let answer = policy.decide(&run.packet(), &run.net()).and_then(|route| run.resolve(&route));
            let finished = run.finish().expect("it has not ended");
            let Some((goal, _)) = answer.ok().filter(|_| finished.lasts() && finished.error.is_none()) else { continue };
            let items: Vec<String> = finished.trace.items.iter().map(ToString::to_string).collect();
            for (count, item) in finished.trace.items.iter().enumerate() {
                let Item::Read(read) = item else { panic!("it makes no tests: {item}") };
                next.entry(items[..count].to_vec()).or_default().insert(format!("{}/{:#x}", read.field, read.mask));
            }
            next.entry(items).or_default().insert(format!("{goal:?}"));
        }
        for (items, next) in next {
            prop_assert!(next.len() == 1, "after {items:?}: {next:#?}");
        }
    }
}

#[test]
fn a_path_that_an_earlier_run_made_is_not_one_to_all_places() {
    let state = network(&[Some(0), Some(1)], &[]);
    let registers = Registers::new(1, u16::MAX).with_open_paths(true).shared();
    let run_to = |host: u8| {
        let frame: Arc<[u8]> = Frame::ethernet(mac(host), mac(99)).raw(0x88b5, b"hello").into();
        let run = Run::new(Arc::clone(&frame), frame.len(), at(0), Txn::new(Arc::clone(&state)), true);
        run.with_registers(SharedRegisters::clone(&registers))
    };
    let path_in = |run: &Run| {
        let net = run.net();
        let found = net.locate_by(Field::EthDst, None).ok().flatten().expect("it is known");
        net.shortest_path(at(0), found)
    };
    let is_open = |run: &Run, route: &Route| run.resolve(route).expect("there is a path").0.as_open().is_some();
    let (first, second, third) = (run_to(0), run_to(1), run_to(1));
    let kept = path_in(&first);
    assert!(is_open(&first, &kept));
    first.finish();
    let own = path_in(&second);
    assert!(!own.is_unreachable() && !is_open(&second, &kept), "it leads to the place of the first packet");
    let own = path_in(&third);
    assert!(is_open(&third, &own));
}
