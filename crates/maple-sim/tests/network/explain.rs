//! Explanations of single packets: their texts, and that they change nothing. The contract's random networks check that
//! they are true (`contract/explained.rs`).

use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::{Engines, Event, Options, ReportedRule, RuleCount};
use maple_core::explain::{EnteringPacket, Explanation, PacketFate, PassageOutcome, explain};
use maple_core::network::{Location, Mac};
use maple_core::policy::{Net, PacketHandle, Policy};
use maple_core::route::Route;
use maple_core::state::{Value, Write};
use maple_sim::SimNetwork;
use maple_wire::packet::Frame;
use maple_wire::{Dpid, Field, Instruction, Match, Version};

use crate::scripts::{A, B, at, ring, ring_with, send, udp};

/// Drops packets of blocked hosts, and telnet; other packets take the shortest path.
fn blocking() -> Arc<dyn Policy> {
    Arc::new(|pkt: &PacketHandle, net: &Net| {
        if net.contains("blocked", &Value::Mac(pkt.eth_src())) || pkt.is(Field::UdpDst, 23) {
            return Route::drop();
        }
        match (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst())) {
            (Some(from), Some(to)) => net.shortest_path(from, to),
            _ => Route::flood(),
        }
    })
}

fn explained(sim: &SimNetwork, at: Location, frame: Vec<u8>) -> Explanation {
    let conditions = sim.engines()[0].view().conditions();
    let packet = EnteringPacket { at, frame: frame.into() };
    explain(&mut Engines(sim.engines().iter().collect()), &sim.store, &conditions, packet)
}

fn fate(reported: &Explanation) -> PacketFate {
    reported.decision.as_ref().map(|decision| decision.fate.clone()).expect("f decides about it")
}

/// Returns the alternatives in words.
fn instead(reported: &Explanation) -> Vec<String> {
    reported.alternatives.iter().map(|other| other.to_string()).collect()
}

/// Creates a ring in which A and B have sent to each other.
fn acquainted(version: Version) -> SimNetwork {
    let mut sim = ring(blocking(), 4, 2, version);
    for (from, to, place) in [(A, B, at(1, 3)), (B, A, at(3, 3)), (A, B, at(1, 3))] {
        send(&mut sim, place, udp(from, to, 80));
    }
    sim
}

#[test]
fn a_drop_says_which_answers_would_have_to_be_different() {
    let mut sim = acquainted(Version::Of13);
    let block = Write::Table { table: "blocked".into(), key: Value::Mac(A), value: Some(Value::Bool(true)) };
    sim.write_and_settle(vec![block]);
    let reported = explained(&sim, at(1, 3), udp(A, B, 80));
    assert_eq!((fate(&reported), reported.agrees()), (PacketFate::Dropped, None), "it was not sent yet");
    assert_eq!(instead(&reported)[0], "blocked[00:00:00:00:00:0a] were absent");
    send(&mut sim, at(1, 3), udp(A, B, 80));
    let reported = explained(&sim, at(1, 3), udp(A, B, 80));
    assert_eq!((fate(&reported), reported.agrees()), (PacketFate::Dropped, Some(true)));
    assert!(reported.leaf.is_some_and(|leaf| leaf.under_way.is_none()));

    let reported = explained(&sim, at(3, 3), udp(B, A, 23));
    assert_eq!(
        (fate(&reported), instead(&reported)),
        (PacketFate::Dropped, vec!["udp_dst=22, for example".to_owned()])
    );
    let reported = explained(&sim, at(3, 3), udp(B, A, 80));
    assert_eq!(fate(&reported), PacketFate::Forwarded);
    assert!(instead(&reported).contains(&"udp_dst=23".to_owned()), "{:?}", instead(&reported));
}

#[test]
fn another_packet_announces_its_own_address() {
    let [mine, other] = [[10, 0, 0, 11], [10, 0, 0, 99]];
    let policy = move |pkt: &PacketHandle, net: &Net| {
        pkt.is(Field::ArpSpa, u32::from_be_bytes(other).into());
        let is_mine = net.locate_ip(std::net::IpAddr::from(mine)).is_some_and(|(mac, _)| mac == B);
        if is_mine { Route::flood() } else { Route::drop() }
    };
    let mut sim = ring(Arc::new(policy), 4, 2, Version::Of13);
    let arp = |from: Mac, sender: [u8; 4]| Frame::ethernet([0xff; 6], from.0).arp_request(sender, mine);
    send(&mut sim, at(3, 3), arp(B, mine));
    // B's address is announced by A. With another address in the packet, B would keep it.
    let reported = explained(&sim, at(1, 3), arp(A, mine));
    assert_eq!(fate(&reported), PacketFate::Dropped);
    assert_eq!(instead(&reported), ["arp_spa=10.0.0.99"]);
}

#[test]
fn a_forwarded_packet_is_followed_over_all_switches() {
    for version in [Version::Of10, Version::Of13] {
        let sim = acquainted(version);
        let reported = explained(&sim, at(1, 3), udp(A, B, 80));
        assert_eq!(reported.agrees(), Some(true), "{reported:?}");
        let switches: Vec<Dpid> = reported.journey.switches().collect();
        assert_eq!((switches.len(), switches[0], switches[2]), (3, Dpid(1), Dpid(3)));
        assert_eq!(reported.journey.arrivals.len(), 1);
        assert_eq!(reported.journey.arrivals[0].at, at(3, 3));
        let lines = reported.decision.expect("it is decided").account;
        assert!(lines.iter().all(|step| step.source.is_some()), "each question has a line: {lines:?}");
    }
}

/// A datagram that claims to be longer than its frame has no ports: rules for ports don't take it.
#[test]
fn a_frame_that_is_shorter_than_it_says_is_followed_as_switches_see_it() {
    let mut sim = acquainted(Version::Of13);
    let mut broken = udp(A, B, 23);
    (broken[16], broken[17]) = (0xff, 0xff);
    assert_eq!(send(&mut sim, at(1, 3), broken.clone()).len(), 1);
    let reported = explained(&sim, at(1, 3), broken);
    assert_eq!((fate(&reported), reported.agrees()), (PacketFate::Forwarded, Some(true)), "{reported:?}");
}

#[test]
fn explanations_say_why_the_policy_never_sees_a_packet() {
    let mut sim = acquainted(Version::Of13);
    let refusal = |reported: Explanation| reported.decision.expect_err("f never sees it");
    assert!(refusal(explained(&sim, at(2, 4), udp(A, B, 80))).contains("is at 0000000000000001:3"));
    assert!(refusal(explained(&sim, at(1, 2), udp(A, B, 80))).contains("no packet enters the network there"));
    assert!(refusal(explained(&sim, at(1, 9), udp(A, B, 80))).contains("no such port"));
    assert!(refusal(explained(&sim, at(9, 1), udp(A, B, 80))).contains("not connected"));
    sim.set_port(at(1, 4), false);
    sim.run();
    assert!(refusal(explained(&sim, at(1, 4), udp(Mac([0, 0, 0, 0, 0, 9]), B, 80))).contains("down"));
}

#[test]
fn an_explanation_changes_nothing() {
    let sim = acquainted(Version::Of13);
    let (version, stats) = (sim.store.snapshot().version(), sim.engines()[0].view().stats());
    explained(&sim, at(1, 4), udp(Mac([0, 0, 0, 0, 0, 9]), B, 80));
    explained(&sim, at(1, 3), udp(A, B, 23));
    assert_eq!((sim.store.snapshot().version(), sim.engines()[0].view().stats()), (version, stats));
}

#[test]
fn a_foreign_rule_that_takes_the_packet_is_seen_after_an_audit() {
    let options = Options { audit: Duration::from_secs(1), ..Options::default() };
    let mut sim = ring_with(&options, blocking(), 2, 1, Version::Of13);
    let rest = Duration::from_millis(200);
    for (from, to, place) in [(A, B, at(1, 3)), (B, A, at(2, 3)), (A, B, at(1, 3))] {
        sim.inject(place, udp(from, to, 80));
        sim.run_for(rest);
    }
    assert_eq!(explained(&sim, at(1, 3), udp(A, B, 80)).agrees(), Some(true));
    let foreign = ReportedRule {
        table_id: 0,
        priority: 60_000,
        cookie: 7,
        matching: Match::any().exact(Field::EthSrc, A.bits()),
        instructions: Vec::<Instruction>::new(),
    };
    sim.switch(Dpid(1)).expect("a switch").edit_flows(|flows| flows.push(foreign));
    sim.run_for(Duration::from_secs(3));
    let reported = explained(&sim, at(1, 3), udp(A, B, 80));
    assert_eq!((reported.agrees(), reported.journey.foreign_rules().count()), (Some(false), 1), "{reported:?}");
    assert!(
        reported.journey.hops[0].passage.outcomes.iter().all(|outcome| !matches!(outcome, PassageOutcome::Port(..)))
    );
}

#[test]
fn the_counters_of_one_rule_are_asked_for_by_its_cookie() {
    for version in [Version::Of10, Version::Of13] {
        let mut sim = acquainted(version);
        send(&mut sim, at(1, 3), udp(A, B, 80));
        let reported = explained(&sim, at(1, 3), udp(A, B, 80));
        let rule =
            reported.journey.hops[0].passage.rules.iter().find(|rule| rule.leaf.is_some()).expect("it has a rule");
        let (dpid, table, rule) = (Dpid(1), rule.table, rule.rule.clone());
        sim.report_to_owner(dpid, Event::CountRule { dpid, token: 5, table, rule: rule.clone() });
        let gone = maple_core::rule::Rule { priority: rule.priority - 1, ..rule };
        sim.report_to_owner(dpid, Event::CountRule { dpid, token: 6, table, rule: gone });
        sim.run();
        let counted = |token: u64| sim.answers.counted.iter().find(|(of, _)| *of == token).expect("it is answered").1;
        assert!(counted(5).is_some_and(|RuleCount { packets, .. }| packets > 0), "{:?}", sim.answers.counted);
        assert_eq!(counted(6), None);
    }
}
