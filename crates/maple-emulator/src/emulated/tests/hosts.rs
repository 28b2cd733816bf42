//! Hosts that find and talk to each other.

use super::*;
use crate::traffic::{PairKey, Traffic, TrafficOptions};

#[test]
fn hosts_talk_over_a_line_in_every_way_and_version() {
    for version in [Version::Of10, Version::Of13] {
        let mut network = programmed("linear:3", version);
        for kind in [FlowKind::Ping, FlowKind::Tcp(80), FlowKind::Udp(53)] {
            for ipv6 in [false, true] {
                let progress = flow(&mut network, "h1", "h3", kind, ipv6);
                assert_eq!(progress, Progress::Done, "{version} {kind} over IPv{}", if ipv6 { 6 } else { 4 });
            }
        }
        assert_eq!(network.switch(Dpid(2)).unwrap().counters().errors, 0);
    }
}

#[test]
fn everybody_reaches_everybody_in_a_tree() {
    let mut network = programmed("tree:2,3", Version::Of13);
    let names: Vec<String> = network.hosts().map(|h| h.spec().name.clone()).collect();
    for src in &names {
        for dst in names.iter().filter(|dst| *dst != src) {
            network.open_flow(src, dst, FlowKind::Ping, false).unwrap();
        }
    }
    network.run_for(10 * SECOND);
    let done = network.hosts().flat_map(|h| h.flows()).filter(|f| f.progress == Progress::Done).count();
    assert_eq!(done, 72);
    assert!(network.pairs().values().all(|p| p.sent == p.delivered && p.sent == 2));
}

#[test]
fn a_tcp_dialogue_has_four_segments_each_way_less_one() {
    let mut network = programmed("linear:2", Version::Of13);
    assert_eq!(flow(&mut network, "h1", "h2", FlowKind::Tcp(22), false), Progress::Done);
    let record = network.host("h1").unwrap().flows().next().unwrap().clone();
    assert_eq!((record.sent, record.received), (4, 3));
    let key = PairKey { src: "h1".into(), dst: "h2".into(), kind: FlowKind::Tcp(22) };
    assert_eq!(network.pairs()[&key].delivered, 4);
}

#[test]
fn an_address_is_given_up_after_three_requests_a_second_apart() {
    let mut network = greeted(&Topology::linear(2), Version::Of13);
    let start = network.now();
    assert_eq!(flow(&mut network, "h1", "h2", FlowKind::Ping, false), Progress::NoNeighbour);
    let host = network.host("h1").unwrap();
    assert_eq!(host.counters().sent, 3);
    assert_eq!(host.flows().next().unwrap().ended, Some(start + 3 * SECOND));
}

#[test]
fn a_lost_answer_costs_a_repetition_and_not_the_flow() {
    let mut network = programmed("linear:2", Version::Of13);
    assert_eq!(flow(&mut network, "h1", "h2", FlowKind::Ping, false), Progress::Done);
    network.link_down(Dpid(1), Dpid(2)).unwrap();
    let id = network.open_flow("h1", "h2", FlowKind::Tcp(80), false).unwrap();
    network.run_for(SECOND / 2);
    network.link_up(Dpid(1), Dpid(2)).unwrap();
    network.run_for(5 * SECOND);
    let record = network.host("h1").unwrap().flow(id).unwrap();
    assert_eq!((record.progress, record.sent), (Progress::Done, 5));
}

#[test]
fn traffic_is_drawn_from_its_seed_and_counted() {
    let run = |seed| {
        let mut network = programmed("linear:3", Version::Of13);
        let options = TrafficOptions { flows_per_second: 50, duration: 2 * SECOND, seed, ..Default::default() };
        let expectation: crate::traffic::Expectation = Box::new(|_, dst, _| dst != "h2");
        let mut traffic = Traffic::new(&network, options, Some(expectation));
        let end = network.now() + 10 * SECOND;
        traffic.run_until(&mut network, end).unwrap();
        assert!(traffic.is_over());
        (traffic.total(), traffic.counters().clone(), network.pairs().clone())
    };
    let (total, counters, pairs) = run(5);
    assert_eq!((total.opened, total.done, total.failed), (100, 100, 0));
    assert_eq!(total.opened - total.expected, total.unexpected, "what went to h2 was not expected to arrive");
    assert!(pairs.values().all(|p| p.sent == p.delivered));
    assert_eq!(run(5), (total, counters.clone(), pairs));
    assert_ne!(run(6).1, counters);
}

#[test]
fn link_local_addresses_answer_as_well() {
    let mut network = programmed("linear:2", Version::Of13);
    let target = network.host("h2").unwrap().link_local();
    assert_eq!(target.to_string(), "fe80::200:ff:fe00:2");
    let mut out = Vec::new();
    let now = network.now();
    let id = network.hosts[0].host.open(now, target.into(), FlowKind::Ping, &mut out);
    network.host_sends(0, out);
    network.run_for(SECOND);
    assert_eq!(network.host("h1").unwrap().flow(id).unwrap().progress, Progress::Done);
}
