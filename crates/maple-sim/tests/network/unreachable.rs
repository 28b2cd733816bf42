//! Control connections end, and the network goes on.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::{DropCause, Event, KEPT_MINUTES, ReportedRule, Stats};
use maple_core::network::{Hop, Location};
use maple_core::policy::{Net, PacketHandle};
use maple_core::report::Report;
use maple_core::route::Route;
use maple_core::state::Write;
use maple_sim::{Delivery, SimNetwork};
use maple_wire::msg::Message;
use maple_wire::{Dpid, Field, PortNo, Version};

use crate::scripts::{A, B, at, ring, send, shortest, udp};

const THREE: [Dpid; 3] = [Dpid(1), Dpid(2), Dpid(3)];

/// Creates a network of three or more switches, where A at the first one and B at the third one send to each other.
fn talking(n: u64, shards: u8, version: Version) -> SimNetwork {
    let mut sim = ring(Arc::new(shortest), n, shards, version);
    sim.place_host(A, at(1, 3));
    sim.place_host(B, at(3, 3));
    for _ in 0..2 {
        send(&mut sim, at(1, 3), udp(A, B, 1));
        send(&mut sim, at(3, 3), udp(B, A, 1));
    }
    assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 1)), [to_b()]);
    sim
}

/// Creates such a network in a line.
fn in_line(shards: u8, version: Version) -> SimNetwork {
    let mut sim = talking(3, shards, version);
    sim.set_port(at(3, 2), false);
    sim.run();
    for _ in 0..2 {
        send(&mut sim, at(1, 3), udp(A, B, 1));
        send(&mut sim, at(3, 3), udp(B, A, 1));
    }
    sim
}

fn to_b() -> Delivery {
    Delivery { at: at(3, 3), frame: udp(A, B, 1) }
}

fn flow_mods(sim: &mut SimNetwork) -> Vec<(Dpid, Message)> {
    let messages = sim.messages.replace(Vec::new()).unwrap_or_default();
    messages.into_iter().filter(|(_, message)| matches!(message, Message::FlowMod(_) | Message::BundleAdd(_))).collect()
}

/// Sends packets in both directions while this much time passes, and checks that all arrive, and none comes to the
/// controller.
fn keep_talking(sim: &mut SimNetwork, span: Duration) {
    let before = sim.stats().packet_ins;
    for _ in 0..20 {
        sim.inject(at(1, 3), udp(A, B, 1));
        sim.inject(at(3, 3), udp(B, A, 1));
        sim.run_for(span / 20);
    }
    sim.run_for(Duration::from_millis(10));
    let delivered = std::mem::take(&mut sim.delivered);
    assert_eq!(delivered.iter().filter(|one| **one == to_b()).count(), 20, "{delivered:?}");
    assert_eq!(delivered.len(), 40, "{delivered:?}");
    assert_eq!(sim.stats().packet_ins, before);
}

#[test]
fn installed_flows_lose_nothing_and_no_rule_changes_while_connections_are_away() {
    let choices: [&[Dpid]; 5] = [&[Dpid(1)], &[Dpid(2)], &[Dpid(3)], &[Dpid(1), Dpid(3)], &THREE];
    for (version, shards) in [(Version::Of13, 1), (Version::Of13, 2), (Version::Of10, 2)] {
        for make in [|s, v| talking(3, s, v), in_line] {
            for (away, seconds) in choices.iter().zip([4, 30, 120, 4, 30]) {
                let mut sim = make(shards, version);
                sim.messages = Some(Vec::new());
                away.iter().for_each(|dpid| sim.lose_connection(*dpid));
                keep_talking(&mut sim, Duration::from_secs(seconds));
                away.iter().for_each(|dpid| sim.regain_connection(*dpid, false));
                keep_talking(&mut sim, Duration::from_secs(5));
                let changes = flow_mods(&mut sim);
                assert!(changes.is_empty(), "{version:?}, {shards} shards, {away:?} away for {seconds} s: {changes:?}");
                let reported = |report: &Report| {
                    matches!(report, Report::SwitchDown(_) | Report::LinkDown(..) | Report::HostLost { .. })
                };
                assert!(
                    !sim.reports.iter().skip_while(|one| !matches!(one, Report::SwitchUnreachable(_))).any(reported)
                );
            }
        }
    }
}

#[test]
fn only_changes_made_in_the_meantime_are_sent_after_a_reconnection() {
    let mut sim = in_line(2, Version::Of13);
    sim.lose_connection(Dpid(1));
    sim.run_for(Duration::from_millis(10));
    // B moves, and the rule at the first switch is stale.
    sim.place_host(B, at(2, 4));
    sim.set_port(at(3, 3), false);
    sim.run_for(Duration::from_millis(10));
    send(&mut sim, at(2, 4), udp(B, A, 1));
    assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 1)), [], "by the rule of before, out of the port that is down");
    sim.messages = Some(Vec::new());
    sim.regain_connection(Dpid(1), false);
    sim.run();
    let changed: Vec<Dpid> = flow_mods(&mut sim).into_iter().map(|(dpid, _)| dpid).collect();
    assert!(changed.contains(&Dpid(1)) && changed.len() < 10, "{changed:?}");
    assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 1)), [Delivery { at: at(2, 4), ..to_b() }]);
}

#[test]
fn only_evidence_about_the_wire_ends_a_link() {
    let mut sim = talking(3, 1, Version::Of13);
    sim.lose_connection(Dpid(2));
    sim.run_for(Duration::from_secs(1));
    let has_link = |sim: &SimNetwork, one: Location| sim.store.snapshot().peer(one).is_some();
    assert!(has_link(&sim, at(1, 2)) && has_link(&sim, at(2, 2)));
    // The neighbour reports that its end is down, and the switch at the other end can't.
    sim.set_port(at(1, 2), false);
    sim.run();
    assert!(!has_link(&sim, at(1, 2)) && has_link(&sim, at(2, 2)));
    sim.regain_connection(Dpid(2), false);
    sim.run();
    assert!(!has_link(&sim, at(2, 1)));
}

#[test]
fn a_new_flow_to_a_host_there_uses_the_labels_that_stand() {
    let mut sim = talking(3, 2, Version::Of13);
    sim.lose_connection(Dpid(3));
    sim.run_for(Duration::from_millis(10));
    let frame = udp(A, B, 2);
    assert_eq!(send(&mut sim, at(1, 3), frame.clone()), [Delivery { at: at(3, 3), frame }]);
}

#[test]
fn a_label_that_is_there_is_used_again_however_late() {
    for version in [Version::Of13, Version::Of10] {
        let policy = |pkt: &PacketHandle, net: &Net| {
            let hop = |dpid, port| Hop::new(Dpid(dpid), PortNo(port));
            if pkt.eth_dst() != B {
                return shortest(pkt, net);
            }
            if pkt.is(Field::UdpDst, 7) || net.var("round").is_some_and(|on| on == true.into()) {
                Route::hops([hop(1, 2), hop(2, 2), hop(3, 3)])
            } else {
                Route::hops([hop(1, 1), hop(3, 3)])
            }
        };
        let mut sim = ring(Arc::new(policy), 3, 2, version);
        sim.place_host(A, at(1, 3));
        sim.place_host(B, at(3, 3));
        send(&mut sim, at(1, 3), udp(A, B, 1));
        send(&mut sim, at(3, 3), udp(B, A, 1));
        let go = |sim: &mut SimNetwork, round: bool| {
            sim.report(Event::Write(vec![Write::Var { name: "round".into(), value: Some(round.into()) }]));
            sim.run_for(Duration::from_millis(20));
        };
        // Both paths are in use.
        assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 7)).len(), 1);
        assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 1)), [to_b()]);
        sim.lose_connection(Dpid(3));
        for round in [true, false, true, false, true] {
            sim.run_for(Duration::from_secs(30));
            go(&mut sim, round);
            assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 1)), [to_b()], "{version:?} {round}");
        }
        sim.regain_connection(Dpid(3), false);
        sim.run_for(Duration::from_secs(30));
        assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 1)), [to_b()]);
        let labels = sim.switch(Dpid(3)).map_or(0, |switch| {
            let has_label =
                |flow: &&ReportedRule| flow.matching.get(Field::VlanVid).is_some_and(|c| c.value & 0xfff != 0);
            switch.flows().iter().filter(has_label).count()
        });
        assert_eq!(labels, 1, "{version:?}: those that nothing uses are gone");
    }
}

#[test]
fn a_new_flow_across_it_is_forwarded_by_the_controller_and_gets_its_rules_when_it_is_back() {
    let mut sim = in_line(1, Version::Of13);
    sim.lose_connection(Dpid(2));
    sim.run_for(Duration::from_millis(10));
    // The host is new at the third switch, and no other switch has rules for its port.
    let host = maple_core::network::Mac([0, 0, 0, 0, 0, 0xc]);
    sim.place_host(host, at(3, 4));
    send(&mut sim, at(3, 4), udp(host, A, 1));
    let frame = udp(A, host, 1);
    let there = Delivery { at: at(3, 4), frame: frame.clone() };
    assert_eq!(send(&mut sim, at(1, 3), frame.clone()), std::slice::from_ref(&there));
    assert!(sim.stats().sent_by_controller > 0 && sim.stats().labels_refused > 0);
    sim.regain_connection(Dpid(2), false);
    sim.run_for(Duration::from_secs(40));
    send(&mut sim, at(1, 3), frame.clone());
    sim.run_for(Duration::from_secs(1));
    let before = sim.stats().packet_ins;
    assert_eq!(send(&mut sim, at(1, 3), frame), [there]);
    assert_eq!(sim.stats().packet_ins, before, "rules carry it");
}

#[test]
fn packets_that_nobody_can_send_are_reported() {
    let mut sim = in_line(1, Version::Of13);
    sim.lose_connection(Dpid(3));
    sim.run_for(Duration::from_millis(10));
    let frame = udp(A, maple_core::network::Mac([0xff; 6]), 1);
    send(&mut sim, at(1, 3), frame);
    let reported = sim.engines()[0].view().drops(Dpid(1), KEPT_MINUTES);
    assert!(reported.iter().any(|one| one.cause == DropCause::Unreachable(Dpid(3))), "{reported:?}");
}

#[test]
fn a_change_is_settled_when_the_switch_that_has_its_rules_is_back_and_others_do_not_matter() {
    let all = |sim: &SimNetwork, count: fn(&Stats) -> u64| {
        sim.engines().iter().map(|one| count(&one.view().stats())).sum::<u64>()
    };
    let mut sim = in_line(2, Version::Of13);
    sim.lose_connection(Dpid(2));
    sim.run_for(Duration::from_millis(10));
    // No rule of the second switch depends on the host, although its classifier is checked again.
    sim.write_and_settle(vec![Write::Host { mac: B, info: None }]);
    assert!(all(&sim, |stats| stats.leaves_withdrawn) > 0);

    let mut sim = in_line(2, Version::Of13);
    sim.lose_connection(Dpid(1));
    sim.run_for(Duration::from_millis(10));
    sim.regain_connection_in(Dpid(1), Duration::from_secs(7));
    let began = sim.now;
    sim.write_and_settle(vec![Write::Host { mac: B, info: None }]);
    assert!(sim.now >= began + Duration::from_secs(7), "the first switch had a rule to B");
}

#[test]
fn a_switch_that_stays_away_is_gone_at_last_and_comes_back_as_any_other() {
    let mut sim = talking(3, 1, Version::Of13);
    sim.lose_connection(Dpid(2));
    sim.run_for(Duration::from_secs(1));
    sim.report_to_owner(Dpid(2), maple_core::engine::Event::SwitchDown { dpid: Dpid(2) });
    sim.run();
    assert!(sim.store.snapshot().switch(Dpid(2)).is_none() && sim.store.snapshot().peer(at(1, 2)).is_none());
    sim.regain_connection(Dpid(2), true);
    sim.run();
    sim.ports_of(Dpid(2)).into_iter().for_each(|port| sim.rediscover(port));
    sim.run();
    assert!(sim.store.snapshot().peer(at(1, 2)).is_some());
    assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 1)), [to_b()]);
}

#[test]
fn after_a_standstill_no_host_is_forgotten_for_our_own_lateness() {
    let mut sim = in_line(1, Version::Of13);
    let hosts = |sim: &SimNetwork| sim.store.snapshot().hosts().map(|(mac, _)| *mac).collect::<BTreeSet<_>>();
    let before = hosts(&sim);
    // Nothing runs for an hour; then the work that was due is done.
    sim.now = sim.now + Duration::from_secs(3600);
    sim.run_for(Duration::from_secs(30));
    assert_eq!(hosts(&sim), before);
}
