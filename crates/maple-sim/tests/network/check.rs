//! The checker on random programs: it raises no alarm, counts the open sides of tests, and its counterexamples are
//! real.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use maple_core::ShardId;
use maple_core::check::{
    Check, Claim, Counterexample, Examined, Finding, Host, Observation, PacketScope, ScopedClaim, examine,
};
use maple_core::network::{HostInfo, Location, Mac, PortInfo, PortKind};
use maple_core::policy::Policy;
use maple_core::run::Run;
use maple_core::state::{Store, SwitchInfo, Txn, Write};
use maple_core::trace::Item;
use maple_sim::Choices;
use maple_sim::cases::{Domain, HostAddresses, Program};
use maple_wire::{Dpid, PortNo, Version};
use proptest::prelude::*;

/// Returns two switches with two hosts each.
fn network() -> (Arc<Store>, Vec<Host>) {
    let store = Store::new();
    let at = |switch, port| Location::new(Dpid(switch), PortNo(port));
    let port = |at, kind| Write::Port { at, info: Some(PortInfo { up: true, kind }) };
    let info = SwitchInfo { shard: ShardId(0), version: Version::Of13 };
    let switches = [1, 2].map(|n| Write::Switch { dpid: Dpid(n), info: Some(info) });
    let links = [port(at(1, 3), PortKind::Link(at(2, 3))), port(at(2, 3), PortKind::Link(at(1, 3)))];
    let places = [at(1, 1), at(1, 2), at(2, 1), at(2, 2)];
    let edges = places.map(|at| port(at, PortKind::Edge));
    store.update(|_| [&switches[..], &links, &edges].concat());
    let host = |(n, location): (u8, Location)| {
        let info = HostInfo { location, ipv4: [[10, 0, 0, n].into()].into(), ipv6: Default::default() };
        (Mac([0, 0, 0, 0, 0, n]), info)
    };
    (store, (1..).zip(places).map(host).collect())
}

fn explored(policy: Program, packets: u64) -> Check {
    let (store, hosts) = network();
    let mut check = Check::new(Arc::new(policy), store, hosts, true, 1, Box::new(|| Duration::ZERO));
    check.explore(packets);
    check.again();
    check
}

/// Returns a random program over a network of two switches.
fn program(seed: u64, depth: u32) -> Program {
    let at = |switch, port| Location::new(Dpid(switch), PortNo(port));
    let mac = |n| Mac([0, 0, 0, 0, 0, n]);
    let host = |n: u8| HostAddresses { mac: mac(n), ipv4: [10, 0, 0, n].into(), ipv6: u128::from(n).into() };
    let world = Domain {
        switches: 2,
        links: vec![(at(1, 1), at(2, 1))],
        edges: vec![at(1, 4), at(2, 4)],
        hosts: (1..=4).map(host).collect(),
        all_answers: true,
    };
    world.program(&mut Choices::new(seed), depth)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn policies_that_look_at_nothing_else_raise_no_alarm(seed: u64) {
        let policy = program(seed, 5);
        let check = explored(policy.clone(), 150);
        let findings: Vec<&Finding> = check.faults().findings().collect();
        prop_assert!(findings.is_empty(), "{policy}\n{findings:?}");
    }

    /// Compares the coverage with a naive oracle, which counts sides of tests over all pairs of prefixes.
    #[test]
    fn open_sides_are_those_of_the_list_of_traces(seed: u64) {
        let policy = program(seed, 4);
        let check = explored(policy, 60);
        let traces: Vec<&[Item]> = check.decided().map(|(_, _, first)| first.trace.items.as_slice()).collect();
        let taken: HashSet<&[Item]> = traces.iter().flat_map(|items| (0..=items.len()).map(|end| &items[..end])).collect();
        let open = taken.iter().filter(|prefix| {
            let Some((Item::Test { cond, outcome }, before)) = prefix.split_last() else { return false };
            let mut other = before.to_vec();
            other.push(Item::Test { cond: cond.clone(), outcome: !outcome });
            !taken.contains(other.as_slice())
        });
        prop_assert_eq!(check.coverage().unexplored, open.count() as u64);
    }
}

/// Compares one policy with another on packets of the first host of the network.
fn examined(policy: &Program, other: &Program) -> Examined {
    let (store, hosts) = network();
    let destinations = hosts.iter().map(|(mac, _)| *mac).collect();
    let scope =
        PacketScope { senders: vec![hosts[0].clone()], by_address: true, destinations, ..PacketScope::default() };
    let policy: Arc<dyn Policy> = Arc::new(policy.clone());
    let claim = Claim::SameAs(Arc::new(other.clone()));
    examine(&policy, &store, hosts, true, ScopedClaim { scope, claim }, 2000, Box::new(|| Duration::ZERO))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    /// A policy equals itself, and the packet that is shown distinguishes another policy from it.
    #[test]
    fn counterexamples_of_comparisons_are_real(seed: u64, other: u64) {
        let (one, other) = (program(seed, 4), program(other, 4));
        let same = examined(&one, &one);
        prop_assert!(same.counterexample.is_none());
        let found = examined(&one, &other);
        let Some(Counterexample { sample, state, .. }) = found.counterexample else { return Ok(()) };
        let answer = |policy: &dyn Policy| {
            let txn = Txn::new(Arc::clone(&state));
            let run = Run::new(Arc::clone(&sample.frame), sample.frame.len(), sample.at, txn, true);
            Observation::from_run(policy, &run).answer.ok()
        };
        prop_assert_ne!(answer(&one), answer(&other));
    }
}
