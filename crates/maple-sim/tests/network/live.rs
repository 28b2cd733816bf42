//! Watches of real packets: they change nothing for the packets, and leave no rules.

use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::{
    Event, LiveFilter, LiveNews, LiveObstacle, MAX_COPIES_PER_SECOND, MAX_WATCHES, Options, ReportedRule,
};
use maple_core::policy::{Net, PacketHandle};
use maple_core::route::Route;
use maple_sim::{Choices, SimNetwork};
use maple_wire::{Constraint, Dpid, Field, Instruction, Match, Version};

use crate::scripts::{A, B, at, udp};

const REST: Duration = Duration::from_millis(200);

/// Creates a network of two switches whose policy drops packets to port 9.
fn network(version: Version) -> SimNetwork {
    let policy = |pkt: &PacketHandle, net: &Net| {
        let _ = (pkt.eth_src(), pkt.eth_dst());
        if pkt.get(Field::UdpDst) == Some(9) { Route::drop() } else { net.flood() }
    };
    let options = Options { audit: Duration::from_secs(1), ..Options::default() };
    let mut sim = SimNetwork::new(Arc::new(policy), 1, &options, 3);
    (1..=2).for_each(|dpid| sim.add_switch(Dpid(dpid), version, 4));
    sim.run_for(REST);
    sim.add_link(at(1, 4), at(2, 4));
    sim.run_for(REST);
    sim.settle_ports();
    sim.run_for(REST);
    // Both hosts become known, and rules are installed.
    for port in [80, 9, 80, 9] {
        sim.inject(at(1, 1), udp(A, B, port));
        sim.inject(at(2, 1), udp(B, A, port));
        sim.run_for(REST);
    }
    sim.delivered.clear();
    sim
}

fn filter(port: Option<u16>) -> LiveFilter {
    let fields = port.map(|port| Constraint::exact(Field::UdpDst, u128::from(port)));
    LiveFilter { at: at(1, 1), from: A, fields: fields.into_iter().collect() }
}

fn is_temporary(flow: &ReportedRule) -> bool {
    flow.table_id == 0 && flow.cookie & 0xff_ffff_ffc0 == 0xff_ffff_ffc0 && flow.cookie & 0x3f < 0x20
}

fn temporary(sim: &mut SimNetwork) -> usize {
    sim.switch(Dpid(1)).expect("a switch").flows().iter().filter(|flow| is_temporary(flow)).count()
}

/// Reports whether this is the rule of host A at its port.
fn is_below(flow: &ReportedRule, port: u32) -> bool {
    let match_of_host =
        [Constraint::exact(Field::InPort, u128::from(port)), Constraint::exact(Field::EthSrc, A.bits())];
    let is_same = |other: &Match| {
        let mut all: Vec<Constraint> = other.constraints().copied().collect();
        all.sort_by_key(|one| one.field);
        all == match_of_host
    };
    flow.table_id == 0 && flow.instructions == [Instruction::GotoTable(1)] && is_same(&flow.matching)
}

/// Keeps a watch alive for this many seconds.
fn watch_for(sim: &mut SimNetwork, token: u64, seconds: u32) {
    for _ in 0..2 * seconds {
        sim.report(Event::LiveGoOn(token));
        sim.run_for(Duration::from_millis(500));
    }
}

fn packets(sim: &SimNetwork, token: u64) -> Vec<Option<bool>> {
    let packet = |(number, news): &(u64, LiveNews)| match news {
        LiveNews::Packet { leaf, .. } if *number == token => Some(leaf.as_ref().map(|leaf| leaf.drops)),
        _ => None,
    };
    sim.answers.live.iter().filter_map(packet).collect()
}

#[test]
fn watched_packets_are_seen_and_go_their_way_and_f_never_gets_them() {
    let mut sim = network(Version::Of13);
    sim.report(Event::LiveBegin { token: 5, filter: filter(Some(80)) });
    watch_for(&mut sim, 5, 1);
    assert_eq!(sim.answers.live, [(5, LiveNews::Watching)]);
    assert_eq!(temporary(&mut sim), 1);
    let before = sim.stats();
    for port in [80, 9, 80, 81] {
        sim.inject(at(1, 1), udp(A, B, port));
    }
    sim.run_for(Duration::from_millis(400));
    let delivered: Vec<_> = sim.delivered.drain(..).filter(|one| one.at == at(2, 1)).collect();
    assert_eq!(delivered.len(), 3, "as without a watch");
    assert_eq!(packets(&sim, 5), [Some(false), Some(false)], "those to port 80");
    let after = sim.stats();
    assert_eq!(after.misses - before.misses, 1, "port 81 is new, the copies are nothing new");
    assert_eq!(after.spoofed_drops, before.spoofed_drops);
    // Audits find nothing wrong, and the rule comes again and again.
    watch_for(&mut sim, 5, 10);
    assert_eq!((sim.stats().rules_repaired, sim.stats().foreign_rules, temporary(&mut sim)), (0, 0, 1));
    assert!(sim.stats().audits > 5);
    sim.report(Event::LiveEnd(5));
    sim.run_for(REST);
    assert_eq!((temporary(&mut sim), sim.engines()[0].view().watches()), (0, 0));
}

#[test]
fn two_who_watch_the_same_packets_both_see_them() {
    let mut sim = network(Version::Of13);
    for (token, port) in [(1, Some(80)), (2, None), (3, Some(81))] {
        sim.report(Event::LiveBegin { token, filter: filter(port) });
    }
    sim.run_for(REST);
    sim.inject(at(1, 1), udp(A, B, 80));
    sim.run_for(REST);
    assert_eq!([1, 2, 3].map(|token| packets(&sim, token).len()), [1, 1, 0]);
    assert_eq!(sim.delivered.iter().filter(|one| one.at == at(2, 1)).count(), 1);
}

#[test]
fn a_dropped_packet_is_reported_with_its_line() {
    let mut sim = network(Version::Of13);
    sim.report(Event::LiveBegin { token: 1, filter: filter(None) });
    watch_for(&mut sim, 1, 1);
    sim.inject(at(1, 1), udp(A, B, 9));
    sim.run_for(REST);
    let reported = sim.answers.live.iter().find_map(|(_, news)| match news {
        LiveNews::Packet { leaf: Some(leaf), .. } => Some(leaf.clone()),
        _ => None,
    });
    let reported = reported.expect("a packet");
    assert!(reported.drops && reported.origin.line.is_some(), "{reported:?}");
}

#[test]
fn a_watch_that_nobody_is_at_ends() {
    let mut sim = network(Version::Of13);
    sim.report(Event::LiveBegin { token: 1, filter: filter(Some(80)) });
    sim.run_for(Duration::from_secs(2));
    assert_eq!(temporary(&mut sim), 1);
    sim.run_for(Duration::from_secs(3));
    assert_eq!((temporary(&mut sim), sim.engines()[0].view().watches()), (0, 0));
    sim.report(Event::LiveGoOn(1));
    sim.run_for(REST);
    assert_eq!(sim.answers.live.last(), Some(&(1, LiveNews::Refused(LiveObstacle::Ended))));
}

#[test]
fn copies_are_bounded_in_each_second() {
    let mut sim = network(Version::Of13);
    sim.report(Event::LiveBegin { token: 1, filter: filter(Some(80)) });
    watch_for(&mut sim, 1, 2);
    for _ in 0..10 * MAX_COPIES_PER_SECOND {
        sim.inject(at(1, 1), udp(A, B, 80));
        sim.run_for(Duration::from_millis(1));
    }
    sim.run_for(Duration::from_millis(50));
    let reported = packets(&sim, 1).len();
    assert!((1..=2 * MAX_COPIES_PER_SECOND as usize).contains(&reported), "{reported}");
    assert!(sim.answers.live.contains(&(1, LiveNews::TooMany)));
    let all = sim.delivered.iter().filter(|one| one.at == at(2, 1)).count();
    assert_eq!(all, 10 * MAX_COPIES_PER_SECOND as usize, "none is lost");
    // In a later second copies are made again.
    watch_for(&mut sim, 1, 3);
    sim.inject(at(1, 1), udp(A, B, 80));
    sim.run_for(REST);
    assert_eq!(packets(&sim, 1).len(), reported + 1);
}

#[test]
fn watches_are_bounded_and_one_table_cannot_be_watched() {
    let mut sim = network(Version::Of13);
    for token in 0..=MAX_WATCHES as u64 {
        sim.report(Event::LiveBegin { token, filter: filter(Some(80)) });
        sim.run_for(Duration::from_millis(10));
    }
    let refused = (MAX_WATCHES as u64, LiveNews::Refused(LiveObstacle::TooManyWatches));
    assert_eq!(sim.answers.live.last(), Some(&refused));
    assert_eq!(temporary(&mut sim), MAX_WATCHES);
    let mut sim = network(Version::Of10);
    sim.report(Event::LiveBegin { token: 1, filter: filter(None) });
    sim.run_for(REST);
    assert_eq!(sim.answers.live.last(), Some(&(1, LiveNews::Refused(LiveObstacle::OneTable))));
    assert_eq!(sim.engines()[0].view().watches(), 0);
}

/// While hosts move and ports go down and up, the temporary rule is never there without the rule below it.
#[test]
fn the_temporary_rule_is_never_there_without_the_one_below() {
    let (mut seen, mut gone) = (0, 0);
    for seed in 0..6 {
        let mut sim = network(Version::Of13);
        let mut random = Choices::new(seed);
        sim.report(Event::LiveBegin { token: 1, filter: filter(None) });
        for round in 0..400 {
            match random.below(24) {
                0 => sim.inject(at(1, 2), udp(A, B, 80)),
                1 => sim.inject(at(1, 1), udp(A, B, 80)),
                2 => sim.set_port(at(1, 1), false),
                3 => {
                    sim.set_port(at(1, 1), true);
                    sim.rediscover(at(1, 1));
                }
                4 => sim.inject(at(2, 1), udp(B, A, 1000 + round)),
                _ => {}
            }
            if round % 20 == 0 {
                sim.report(Event::LiveGoOn(1));
            }
            for _ in 0..20 {
                sim.run_for(Duration::from_millis(2));
                let flows = sim.switch(Dpid(1)).expect("a switch").flows();
                let is_there = flows.iter().any(is_temporary);
                let is_right = flows.iter().any(|flow| is_below(flow, 1));
                assert!(!is_there || is_right, "seed {seed}, round {round}");
                (seen, gone) = (seen + usize::from(is_there), gone + usize::from(!is_right));
            }
        }
    }
    assert!(seen > 1000 && gone > 1000, "both happen: {seen}, {gone}");
}
