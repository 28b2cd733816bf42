//! Tests that the checker finds reads that are not tracked, names their lines, and raises no alarm about honest
//! policies.

use std::sync::atomic::{AtomicU64, Ordering};

use maple_wire::{Dpid, Version};

use super::*;
use crate::network::PortInfo;
use crate::policy::{Net, PacketHandle, PolicyError};
use crate::route::Route;
use crate::state::{SwitchInfo, Value};
use crate::trace::Source;

/// Creates a network of two switches with two hosts each.
fn network() -> (Arc<Store>, Vec<Host>) {
    let store = Store::new();
    let at = |switch, port| Location::new(Dpid(switch), PortNo(port));
    let port = |at, kind| Write::Port { at, info: Some(PortInfo { up: true, kind }) };
    let info = SwitchInfo { shard: crate::ShardId(0), version: Version::Of13 };
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

/// Creates a clock that stands still.
fn stopped() -> Clock {
    Box::new(|| Duration::ZERO)
}

fn checked(policy: impl Policy + 'static, packets: u64) -> Check {
    let (store, hosts) = network();
    let mut check = Check::new(Arc::new(policy), store, hosts, true, 1, stopped());
    check.explore(packets);
    check.again();
    check
}

fn forward(pkt: &PacketHandle, net: &Net) -> Route {
    match (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst())) {
        (Some(src), Some(dst)) => net.shortest_path(src, dst),
        _ => Route::flood(),
    }
}

#[test]
fn a_counter_that_is_not_tracked_is_found_at_the_line_that_follows_it() {
    let count = AtomicU64::new(0);
    let line = line!();
    let policy = move |pkt: &PacketHandle, net: &Net| {
        if pkt.is(Field::TcpDst, 22) && count.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            pkt.get(Field::TcpSrc);
        }
        forward(pkt, net)
    };
    let check = checked(policy, 300);
    let findings: Vec<&Finding> = check.faults().findings().collect();
    assert_eq!(findings.len(), 1, "{findings:?}");
    let RunDifference { at, after, first, second } = &findings[0].difference;
    assert!(at.as_ref().is_some_and(|at| at.file.ends_with("check/tests.rs")));
    assert_eq!(after.as_ref().map(|after| after.line), Some(line + 2));
    assert!([first, second].iter().any(|text| text.starts_with("read tcp_src")), "{first} {second}");
    assert_eq!(findings[0].sample.packet().get(Field::TcpDst), Some(22), "only such packets come there");
}

#[test]
fn a_route_that_changes_by_itself_is_found_at_the_line_that_made_it() {
    let count = AtomicU64::new(0);
    let line = line!();
    let policy = move |pkt: &PacketHandle, net: &Net| {
        let port = PortNo(1 + count.fetch_add(1, Ordering::Relaxed) as u32 % 2);
        let Some(from) = net.locate(pkt.eth_src()) else { return Route::drop() };
        net.shortest_path(from, Location::new(Dpid(2), port))
    };
    let check = checked(policy, 20);
    let findings: Vec<&Finding> = check.faults().findings().collect();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].difference.at.as_ref().map(|at| at.line), Some(line + 4));
    assert!(findings[0].difference.first.starts_with("route "));
}

#[test]
fn an_answer_that_changes_only_later_is_found_by_running_f_again() {
    let late = Arc::new(AtomicU64::new(0));
    let clock = late.clone();
    let policy = move |pkt: &PacketHandle, net: &Net| match clock.load(Ordering::Relaxed) {
        0 => forward(pkt, net),
        _ => Route::drop(),
    };
    let (store, hosts) = network();
    let mut check = Check::new(Arc::new(policy), store, hosts, true, 1, stopped());
    check.explore(50);
    assert_eq!(check.faults().findings().count(), 0);
    late.store(1, Ordering::Relaxed);
    check.again();
    assert!(check.faults().findings().any(|finding| finding.difference.to_string().ends_with("then drop")));
}

#[test]
fn both_sides_of_tests_are_taken_at_their_boundaries() {
    let check = checked(
        |pkt: &PacketHandle, net: &Net| {
            if pkt.within(Field::UdpDst, 1024, 2047) {
                return if pkt.is(Field::UdpSrc, 7) { Route::drop() } else { Route::flood() };
            }
            if pkt.is(Field::VlanVid, 0x1005) && pkt.is(Field::Icmpv6Type, 135) {
                Route::drop()
            } else {
                forward(pkt, net)
            }
        },
        500,
    );
    let ports: BTreeSet<u128> = check.tried.iter().filter_map(|t| t.sample.packet().get(Field::UdpDst)).collect();
    assert!([1023, 1024, 2047, 2048].iter().all(|port| ports.contains(port)), "{ports:?}");
    let coverage = check.coverage();
    assert_eq!(coverage.one_sided, []);
    assert_eq!((coverage.unexplored, check.faults().findings().count()), (0, 0));
    assert!(coverage.branches >= 8 && coverage.traces > 10, "{coverage:?}");
}

#[test]
fn a_branch_that_no_packet_can_take_is_reported() {
    let check = checked(
        |pkt: &PacketHandle, net: &Net| {
            let known = net.contains("nobody writes it", &Value::from(true));
            if known && pkt.is(Field::TcpDst, 1) { Route::drop() } else { forward(pkt, net) }
        },
        200,
    );
    assert_eq!(check.coverage().one_sided, [], "what is never asked is not a question");
    let check = checked(
        |pkt: &PacketHandle, net: &Net| {
            if pkt.is(Field::MplsTc, 5) { Route::drop() } else { forward(pkt, net) }
        },
        2,
    );
    let coverage = check.coverage();
    assert!(coverage.one_sided.iter().any(|one| !one.answer && one.question.contains("mpls_tc=5")), "{coverage:?}");
    assert!(coverage.unexplored > 0);
}

#[test]
fn values_that_f_learns_open_the_paths_that_depend_on_them() {
    let check = checked(
        |pkt: &PacketHandle, net: &Net| {
            let here: Value = Location::new(pkt.switch(), pkt.in_port()).into();
            let (src, dst): (Value, Value) = (pkt.eth_src().into(), pkt.eth_dst().into());
            if net.get("places", &src).as_ref() != Some(&here) {
                net.set("places", src, here.clone());
            }
            match (here, net.get("places", &dst)) {
                (Value::Location(here), Some(Value::Location(there))) => net.shortest_path(here, there),
                _ => Route::flood(),
            }
        },
        400,
    );
    assert_eq!(check.faults().findings().count(), 0);
    let routed = |tried: &Tried| tried.first.made_at.is_some() && tried.first.answer.is_ok();
    assert!(check.tried.iter().any(routed), "known destinations are reached");
}

#[test]
fn a_policy_that_fails_always_in_another_way_is_counted_and_no_finding() {
    struct Fails(AtomicU64);
    impl Policy for Fails {
        fn decide(&self, _: &PacketHandle, _: &Net) -> Result<Route, PolicyError> {
            Err(PolicyError::Exception(self.0.fetch_add(1, Ordering::Relaxed).to_string().into()))
        }
    }
    let check = checked(Fails(AtomicU64::new(0)), 10);
    assert_eq!((check.coverage().failed, check.faults().findings().count()), (10, 0));
}

/// Returns what an examination finds out about packets of the first host of the network.
fn examined(policy: impl Policy + 'static, claim: impl Fn(&[Host]) -> Claim) -> Examined {
    let (store, hosts) = network();
    let claim = claim(&hosts);
    let destinations = hosts.iter().map(|(mac, _)| *mac).collect();
    let scope =
        PacketScope { senders: vec![hosts[0].clone()], by_address: true, destinations, ..PacketScope::default() };
    let policy: Arc<dyn Policy> = Arc::new(policy);
    examine(&policy, &store, hosts, true, ScopedClaim { scope, claim }, 2000, stopped())
}

fn never_at_the_last(hosts: &[Host]) -> Claim {
    Claim::NeverAt([hosts[3].1.location].into())
}

#[test]
fn a_claim_is_contradicted_by_a_packet_of_the_scope() {
    let hole = |pkt: &PacketHandle, _: &Net| if pkt.is(Field::TcpDst, 8080) { Route::flood() } else { Route::drop() };
    let found = examined(hole, never_at_the_last);
    let Counterexample { sample, why, lines, .. } = found.counterexample.expect("there is one");
    assert_eq!(sample.packet().get(Field::TcpDst), Some(8080));
    assert_eq!(sample.packet().get(Field::EthSrc), Some(1), "only the first host is asked about");
    assert!(why.starts_with("a copy leaves at") && lines[0].contains("tcp_dst=8080: yes"), "{why} {lines:?}");
    let nobody = examined(|_: &PacketHandle, _: &Net| Route::drop(), never_at_the_last);
    assert!(nobody.counterexample.is_none() && nobody.open.is_none());
}

#[test]
fn a_field_read_as_a_whole_leaves_a_claim_open_unless_receivers_are_known() {
    let found = examined(forward, |_| Claim::NoLoops);
    assert!(found.counterexample.is_none());
    assert_eq!(found.open, Some(Open::Read(Field::EthDst, 48)));
    let (store, hosts) = network();
    let receivers = Some(vec![hosts[3].clone()]);
    let scope = PacketScope { senders: vec![hosts[0].clone()], by_address: true, receivers, ..PacketScope::default() };
    let policy: Arc<dyn Policy> = Arc::new(forward);
    let found = examine(&policy, &store, hosts, true, ScopedClaim { scope, claim: Claim::Arrives }, 2000, stopped());
    assert!(found.counterexample.is_none() && found.open.is_none(), "{:?}", found.open);
}

#[test]
fn a_policy_that_writes_is_judged_on_each_state() {
    let opens = |pkt: &PacketHandle, net: &Net| {
        if pkt.is(Field::TcpDst, 7) {
            net.set("open", Value::from(1), Value::from(true));
        }
        let is_open = net.contains("open", &Value::from(1));
        if is_open && pkt.is(Field::UdpDst, 9) { Route::flood() } else { Route::drop() }
    };
    let found = examined(opens, never_at_the_last);
    assert!(found.counterexample.is_some());
    assert_eq!(found.open, Some(Open::Writes));
}

#[test]
fn a_side_that_failed_tests_rule_out_is_no_gap_in_a_proof() {
    let (store, hosts) = network();
    let policy = |pkt: &PacketHandle, _: &Net| {
        let _ = pkt.within(Field::TcpDst, 0, 2) || pkt.is(Field::TcpDst, 2) || pkt.is(Field::TcpDst, 5);
        Route::drop()
    };
    let mut check = Check::new(Arc::new(policy), store, hosts, true, 1, stopped());
    check.for_all_packets();
    check.explore(5000);
    assert_eq!(check.is_complete(), Ok(()));
}

#[test]
fn a_look_up_makes_no_rule_for_each_pair_and_is_listed_with_its_line() {
    let policy = |_: &PacketHandle, net: &Net| {
        let [src, dst] = [(Field::EthSrc, 2), (Field::EthDst, 3)].map(|(field, line)| {
            let source = Source { file: "p.py".into(), line, tier: None };
            net.locate_by(field, Some(source)).ok().flatten()
        });
        src.zip(dst).map_or_else(Route::drop, |(src, dst)| net.shortest_path(src.start(), dst.location()))
    };
    let costs = |tables| {
        let (store, hosts) = network();
        let mut check = Check::new(Arc::new(policy), store, hosts, true, 1, stopped()).with_look_up_tables(tables);
        check.explore(200);
        let look_ups: Vec<String> =
            check.look_ups().map(|(text, at)| format!("{text} at {}", at.as_ref().expect("a line"))).collect();
        (check.costs().map(|wide| wide.per).collect::<Vec<_>>(), look_ups)
    };
    assert_eq!(costs(0), (vec![Per::Pair], vec![]));
    let look_ups = ["hosts[eth_dst] at p.py:3", "hosts[eth_src] is in_port at p.py:2"].map(str::to_owned);
    assert_eq!(costs(1), (vec![], look_ups.to_vec()));
}
