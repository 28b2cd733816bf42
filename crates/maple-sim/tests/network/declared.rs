//! Declared facts: what the configuration declares holds, whatever happens in the network and whatever discovery finds.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::testing::size_of_hosts;
use maple_core::engine::{Event, Options};
use maple_core::network::{Facts, HostFacts, Location, Mac, PortKind, PortRole, PortSet, SwitchFacts};
use maple_core::policy::{Net, PacketHandle};
use maple_core::report::{MoveReason, Report};
use maple_core::route::Route;
use maple_sim::{Choices, Delivery, SimNetwork};
use maple_wire::packet::build::Frame;
use maple_wire::{Dpid, Version};

use crate::scripts::{A, B, at, ring_with, send, shortest, udp};

pub const C: Mac = Mac([0, 0, 0, 0, 0, 0xc]);
pub const D: Mac = Mac([0, 0, 0, 0, 0, 0xd]);
pub const VERSIONS: [Version; 2] = [Version::Of10, Version::Of13];

pub fn v4(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, last)
}

pub fn announce(mac: Mac, ip: Ipv4Addr) -> Vec<u8> {
    Frame::ethernet([0xff; 6], mac.0).arp_request(ip, ip)
}

pub fn ports(of: u32) -> PortSet {
    PortSet(vec![of..=of])
}

pub fn pinned(hosts: &[(Mac, Option<Location>, u8)]) -> BTreeMap<Mac, HostFacts> {
    let facts = |at, ip| HostFacts { at, addresses: [IpAddr::V4(v4(ip))].into() };
    hosts.iter().map(|(mac, at, ip)| (*mac, facts(*at, *ip))).collect()
}

pub fn options(switches: impl IntoIterator<Item = (u64, SwitchFacts)>, hosts: BTreeMap<Mac, HostFacts>) -> Options {
    let switches = switches.into_iter().map(|(dpid, facts)| (Dpid(dpid), facts)).collect();
    Options { facts: Arc::new(Facts::new(switches, hosts)), ..Options::default() }
}

pub fn kind(sim: &SimNetwork, at: Location) -> Option<PortKind> {
    sim.store.snapshot().port(at).map(|port| port.kind)
}

pub fn place(sim: &SimNetwork, mac: Mac) -> Option<Location> {
    sim.store.snapshot().host(mac).map(|host| host.location)
}

pub fn addresses(sim: &SimNetwork, mac: Mac) -> Vec<IpAddr> {
    sim.store.snapshot().host(mac).map(|host| host.addresses().collect()).unwrap_or_default()
}

#[test]
fn a_host_with_a_fixed_place_is_nowhere_else_even_before_it_is_known_and_when_its_port_is_down() {
    for (version, shards) in [(Version::Of13, 2), (Version::Of10, 1)] {
        let options = options([], pinned(&[(A, Some(at(1, 3)), 0xa)]));
        let mut sim = ring_with(&options, Arc::new(shortest), 3, shards, version);
        send(&mut sim, at(3, 3), udp(B, A, 1));
        // The host is not known yet.
        assert_eq!(send(&mut sim, at(2, 4), udp(A, B, 80)), [], "{version:?}");
        assert_eq!(place(&sim, A), None);
        assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)).len(), 1);
        assert_eq!(place(&sim, A), Some(at(1, 3)));
        // The host is silent, and its port fails: another port still can't be its place.
        sim.set_port(at(1, 3), false);
        sim.run();
        for _ in 0..40 {
            assert_eq!(send(&mut sim, at(2, 4), udp(A, B, 80)), []);
            sim.run_for(Duration::from_millis(500));
        }
        assert_ne!(place(&sim, A), Some(at(2, 4)));
        assert_eq!(sim.stats().spoofed_drops, 41);
        let reported =
            |report: &&Report| matches!(report, Report::HostMisplaced { mac: A, seen, .. } if *seen == at(2, 4));
        assert_eq!(sim.reports.iter().filter(reported).count(), 1, "{:?}", sim.reports);
        // The host comes back.
        sim.set_port(at(1, 3), true);
        sim.run();
        sim.rediscover(at(1, 3));
        sim.run();
        assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)).len(), 1);
    }
}

#[test]
fn misplaced_senders_of_a_port_are_reported_a_bounded_number_of_times() {
    let hosts: Vec<(Mac, Option<Location>, u8)> =
        (0..100).map(|n| (Mac([2, 0, 0, 0, 0, n]), Some(at(1, 3)), n)).collect();
    let mut sim = ring_with(&options([], pinned(&hosts)), Arc::new(shortest), 2, 1, Version::Of13);
    let size = |sim: &SimNetwork| sim.engines().iter().map(size_of_hosts).sum::<usize>();
    let before = size(&sim);
    for (mac, ..) in &hosts {
        send(&mut sim, at(2, 3), udp(*mac, B, 80));
    }
    let reported = sim.reports.iter().filter(|report| matches!(report, Report::HostMisplaced { .. })).count();
    assert_eq!((reported, size(&sim) - before, sim.stats().spoofed_drops), (8, 8, 100));
}

#[test]
fn a_host_with_a_fixed_place_comes_in_also_where_others_flood() {
    for version in VERSIONS {
        let few = options([], pinned(&[(C, Some(at(1, 3)), 0xc)]));
        let mut sim = ring_with(&Options { max_hosts_per_port: 4, ..few }, Arc::new(shortest), 2, 1, version);
        send(&mut sim, at(1, 4), udp(B, A, 80));
        for n in 0..50 {
            sim.inject(at(1, 3), udp(Mac([6, 0, 0, 0, 0, n]), B, 80));
            sim.run_for(Duration::from_millis(5));
        }
        let flood = sim.stats();
        assert!(flood.port_guards <= 2 && flood.packet_ins < 20, "the switch drops them by itself: {flood:?}");
        sim.delivered.clear();
        assert_eq!(send(&mut sim, at(1, 3), udp(C, B, 80)).len(), 1, "{version:?}");
        assert_eq!(place(&sim, C), Some(at(1, 3)));
        assert_eq!(send(&mut sim, at(1, 3), udp(C, B, 81)).len(), 1);
        assert_eq!(send(&mut sim, at(1, 3), udp(Mac([6, 0, 0, 0, 0, 99]), B, 80)), []);
    }
}

#[test]
fn an_address_that_is_declared_is_its_hosts_at_once_and_never_anothers() {
    for version in VERSIONS {
        let options = options([], pinned(&[(A, None, 0xa)]));
        // Switches copy what hosts announce only if the policy depends on it.
        let policy = |_: &PacketHandle, net: &Net| match net.locate_ip(IpAddr::V4(v4(0xf))) {
            Some(_) => Route::drop(),
            None => Route::flood(),
        };
        let mut sim = ring_with(&options, Arc::new(policy), 2, 2, version);
        // Another host announces the address, before and after its owner is known.
        send(&mut sim, at(2, 3), announce(B, v4(0xa)));
        assert_eq!((place(&sim, B), addresses(&sim, B)), (Some(at(2, 3)), vec![]), "{version:?}");
        send(&mut sim, at(1, 3), udp(A, B, 80));
        assert_eq!(addresses(&sim, A), [IpAddr::V4(v4(0xa))]);
        for ip in [0xa, 0xb, 0xa] {
            send(&mut sim, at(2, 3), announce(B, v4(ip)));
        }
        assert_eq!(addresses(&sim, A), [IpAddr::V4(v4(0xa))]);
        assert_eq!(addresses(&sim, B), [IpAddr::V4(v4(0xb))]);
        let reported =
            sim.reports.iter().filter(|report| matches!(report, Report::AddressOfAnother { mac: B, owner: A, .. }));
        assert_eq!(reported.count(), 1);
    }
}

#[test]
fn a_port_that_is_declared_an_edge_port_never_becomes_a_link() {
    let edge = SwitchFacts { edge: ports(2), ..SwitchFacts::default() };
    for version in VERSIONS {
        let mut sim = ring_with(&options([(1, edge.clone())], BTreeMap::new()), Arc::new(shortest), 3, 2, version);
        // The ring joins 1:2 with 2:1.
        sim.report(Event::PortIsEdge { port: at(1, 2) });
        sim.run();
        assert_eq!((kind(&sim, at(1, 2)), kind(&sim, at(2, 1))), (Some(PortKind::Edge), Some(PortKind::New)));
        send(&mut sim, at(1, 2), udp(A, B, 80));
        sim.report(Event::LinkUp { a: at(1, 2), b: at(2, 1) });
        sim.report(Event::Segment { ports: [at(1, 2), at(2, 1), at(3, 4)].into() });
        sim.run();
        assert_eq!((kind(&sim, at(1, 2)), place(&sim, A)), (Some(PortKind::Edge), Some(at(1, 2))));
    }
}

#[test]
fn a_port_that_is_declared_a_link_port_never_becomes_an_edge_port() {
    let link = SwitchFacts { link: ports(3), ..SwitchFacts::default() };
    for version in VERSIONS {
        let mut sim = ring_with(&options([(1, link.clone())], BTreeMap::new()), Arc::new(shortest), 2, 2, version);
        assert_eq!(kind(&sim, at(1, 3)), Some(PortKind::New), "{version:?}: discovery said that it is an edge port");
        assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)), []);
        assert_eq!(place(&sim, A), None);
        assert!(send(&mut sim, at(2, 3), udp(B, A, 80)).iter().all(|delivery| delivery.at != at(1, 3)), "a flood");
    }
}

#[test]
fn a_host_that_is_heard_at_a_declared_link_does_not_end_it() {
    let link = SwitchFacts { link: ports(2), ..SwitchFacts::default() };
    let mut sim = ring_with(&options([(1, link)], BTreeMap::new()), Arc::new(shortest), 2, 2, Version::Of13);
    let link = Some(PortKind::Link(at(2, 1)));
    assert_eq!(kind(&sim, at(1, 2)), link);
    sim.run_for(Duration::from_secs(5));
    for from in [at(1, 2), at(2, 1)] {
        send(&mut sim, from, udp(A, B, 80));
        assert_eq!((kind(&sim, at(1, 2)), place(&sim, A)), (link, None));
    }
}

#[test]
fn a_bridge_between_declared_link_ports_only_is_not_used_and_another_is_entered_elsewhere() {
    let link = || SwitchFacts { link: ports(4), ..SwitchFacts::default() };
    let segment = [at(1, 4), at(2, 4), at(3, 4)];
    for version in VERSIONS {
        let all = [(1, link()), (2, link()), (3, link())];
        let mut sim = ring_with(&options(all, BTreeMap::new()), Arc::new(shortest), 3, 2, version);
        sim.report(Event::LinkUp { a: at(1, 4), b: at(2, 4) });
        sim.run();
        assert_eq!(kind(&sim, at(1, 4)), Some(PortKind::Link(at(2, 4))));
        (0..3).for_each(|_| sim.report(Event::Segment { ports: segment.into() }));
        sim.run();
        assert_eq!(segment.map(|at| kind(&sim, at)), [Some(PortKind::New); 3], "{version:?}");
        let reported = sim.reports.iter().filter(|report| matches!(report, Report::SegmentOfLinks { .. })).count();
        assert!((1..=2).contains(&reported), "once a shard: {reported}");
        sim.report(Event::LinkUp { a: at(1, 4), b: at(2, 4) });
        sim.run();
        assert_eq!(kind(&sim, at(1, 4)), Some(PortKind::Link(at(2, 4))), "the third is gone");

        let mut sim =
            ring_with(&options([(1, link()), (2, link())], BTreeMap::new()), Arc::new(shortest), 3, 2, version);
        sim.report(Event::Segment { ports: segment.into() });
        sim.run();
        assert_eq!(kind(&sim, at(3, 4)), Some(PortKind::Edge), "the lowest that may be one");
        assert!(matches!(kind(&sim, at(1, 4)), Some(PortKind::Shut { with, .. }) if with == at(3, 4)));
    }
}

#[test]
fn nothing_enters_or_leaves_by_a_closed_port() {
    let used = SwitchFacts { ports: Some(PortSet(vec![1..=3])), ..SwitchFacts::default() };
    for version in VERSIONS {
        let mut sim = ring_with(&options([(1, used.clone())], BTreeMap::new()), Arc::new(shortest), 2, 1, version);
        assert_eq!(kind(&sim, at(1, 4)), Some(PortKind::New), "{version:?}");
        let before = sim.stats().packet_ins;
        assert_eq!(send(&mut sim, at(1, 4), udp(A, B, 80)), []);
        assert_eq!((sim.stats().packet_ins, place(&sim, A)), (before, None), "the switch drops it");
        let flood = send(&mut sim, at(1, 3), udp(B, A, 80));
        assert!(!flood.is_empty() && flood.iter().all(|delivery| delivery.at != at(1, 4)), "{flood:?}");
    }
}

#[test]
fn a_port_has_a_maximum_of_hosts_of_its_own_and_hosts_with_a_fixed_place_come_on_top() {
    let one = SwitchFacts { max_hosts: vec![(ports(3), 1)], ..SwitchFacts::default() };
    let options = options([(1, one)], pinned(&[(A, Some(at(1, 3)), 0xa)]));
    let mut sim = ring_with(&options, Arc::new(shortest), 2, 1, Version::Of13);
    send(&mut sim, at(1, 3), udp(B, C, 80));
    assert_eq!((place(&sim, B), place(&sim, C)), (Some(at(1, 3)), None));
    send(&mut sim, at(1, 3), udp(A, B, 80));
    send(&mut sim, at(1, 3), udp(C, B, 80));
    assert_eq!((place(&sim, A), place(&sim, C)), (Some(at(1, 3)), None));
    assert_eq!(sim.stats().spoofed_drops, 0);
}

#[test]
fn declarations_override_the_knowledge_of_an_earlier_run() {
    for version in VERSIONS {
        let mut sim = ring_with(&Options::default(), Arc::new(shortest), 2, 1, version);
        send(&mut sim, at(2, 3), udp(B, A, 80));
        send(&mut sim, at(2, 4), udp(A, B, 80));
        send(&mut sim, at(2, 4), udp(A, B, 80));
        sim.remember_surroundings();
        let edge = SwitchFacts { edge: ports(2), link: ports(3), ..SwitchFacts::default() };
        let facts = options([(1, edge)], pinned(&[(A, Some(at(1, 4)), 0xa)])).facts;
        sim.set_options(|options| options.facts = facts);
        sim.restart_controller(1);
        sim.run();
        assert_eq!((place(&sim, A), place(&sim, B)), (None, Some(at(2, 3))), "{version:?}");
        assert!(!matches!(kind(&sim, at(1, 2)), Some(PortKind::Link(_))));
        assert_ne!(kind(&sim, at(1, 3)), Some(PortKind::Edge));
        assert_eq!(send(&mut sim, at(2, 4), udp(A, B, 80)), [], "{version:?}: no rule of then carries it");
        sim.report(Event::PortIsEdge { port: at(1, 4) });
        sim.run();
        send(&mut sim, at(1, 4), udp(A, B, 80));
        assert_eq!(place(&sim, A), Some(at(1, 4)));
    }
}

#[test]
fn a_host_that_is_known_elsewhere_comes_to_its_declared_place_at_once() {
    // The place of the host was not declared when it was learned: only the store has it there.
    let options = options([], pinned(&[(A, Some(at(1, 3)), 0xa)]));
    let mut sim = ring_with(&options, Arc::new(shortest), 2, 1, Version::Of13);
    let info = maple_core::network::HostInfo { location: at(2, 3), ipv4: BTreeSet::new(), ipv6: BTreeSet::new() };
    sim.write_and_settle(vec![maple_core::state::Write::Host { mac: A, info: Some(info) }]);
    send(&mut sim, at(1, 3), udp(A, B, 80));
    assert_eq!(place(&sim, A), Some(at(1, 3)));
    let why = sim.reports.iter().find_map(|r| if let Report::HostMoved { why, .. } = r { Some(*why) } else { None });
    assert_eq!(why, Some(MoveReason::Declared));
}

/// Checks that everything in the state agrees with what is declared.
pub fn check_facts(sim: &SimNetwork, facts: &Facts, context: &str) {
    let state = sim.store.snapshot();
    for at in sim.dpids().into_iter().flat_map(|dpid| sim.ports_of(dpid)) {
        let kind = state.port(at).map(|port| port.kind);
        let is_allowed = match facts.role(at) {
            PortRole::Any => true,
            PortRole::Edge => matches!(kind, None | Some(PortKind::New | PortKind::Edge)),
            PortRole::Link => !matches!(kind, Some(PortKind::Edge | PortKind::Middlebox)),
            PortRole::Closed => matches!(kind, None | Some(PortKind::New)),
        };
        assert!(is_allowed, "{context}: {at} is {kind:?}");
    }
    for (mac, host) in state.hosts() {
        assert!(facts.place(*mac).is_none_or(|place| place == host.location), "{context}: {mac} at {}", host.location);
        let foreign = host.addresses().find(|ip| facts.owner(*ip).is_some_and(|owner| owner != *mac));
        assert_eq!(foreign, None, "{context}: {mac}");
        assert!(facts.addresses(*mac).all(|ip| state.host_by_ip(ip) == Some(*mac)), "{context}: {mac}");
    }
}

/// Makes one random event of a network. Returns the port and the source of the packet that was sent, if there was one,
/// and where it arrived.
pub fn event(sim: &mut SimNetwork, random: &mut Choices, all: &[Location]) -> (Location, Mac, Vec<Delivery>) {
    let (a, b, c) = (*random.pick(all), *random.pick(all), *random.pick(all));
    let macs = [A, B, C, D];
    let (from, to) = (*random.pick(&macs), *random.pick(&macs));
    let mut delivered = Vec::new();
    match random.below(10) {
        0 => sim.report(Event::LinkUp { a, b }),
        1 => sim.report(Event::LinkDown { a, b }),
        2 => sim.report(Event::PortIsEdge { port: a }),
        3 => sim.report(Event::PortIsNew { port: a }),
        4 => sim.report(Event::Segment { ports: [a, b, c].into() }),
        5 => sim.report(Event::SegmentLeft { port: a }),
        6 => sim.set_port(a, random.chance(70)),
        7 if random.one_in(4) => sim.restart(a.switch),
        8 => drop(send(sim, a, announce(from, v4(0xa + random.below(4) as u8)))),
        _ => delivered = send(sim, a, udp(from, to, 80)),
    }
    sim.run();
    (a, from, delivered)
}

/// Discovery finds anything, hosts send from anywhere with any source, ports and switches fail.
#[test]
fn declared_facts_hold_whatever_happens() {
    for seed in 0..60 {
        let mut random = Choices::new(seed);
        let (edge, link) = (ports(3), PortSet(vec![1..=2]));
        let first = SwitchFacts { edge: edge.clone(), link, max_hosts: vec![(ports(4), 2)], ports: None };
        let second = SwitchFacts { edge, ports: Some(PortSet(vec![1..=3])), ..SwitchFacts::default() };
        let third = SwitchFacts { link: PortSet(vec![2..=4]), ..SwitchFacts::default() };
        let hosts = pinned(&[(A, Some(at(1, 3)), 0xa), (B, Some(at(2, 2)), 0xb), (C, None, 0xc)]);
        let options = options([(1, first), (2, second), (3, third)], hosts);
        let facts = Arc::clone(&options.facts);
        let version = VERSIONS[random.below(2)];
        let mut sim = ring_with(&options, Arc::new(shortest), 4, 1 + random.below(3) as u8, version);
        let all: Vec<Location> = sim.dpids().into_iter().flat_map(|dpid| sim.ports_of(dpid)).collect();
        for step in 0..60 {
            let (a, from, delivered) = event(&mut sim, &mut random, &all);
            let context = format!("seed {seed}, step {step}");
            check_facts(&sim, &facts, &context);
            if facts.place(from).is_some_and(|place| place != a) {
                // The physical ring forwards what the test injects at ports that the controller does not regard as
                // links.
                let others: Vec<&Delivery> = delivered.iter().filter(|delivery| delivery.at != a).collect();
                assert!(others.is_empty(), "{context}: {from} at {a}: {others:?}");
            }
        }
    }
}
