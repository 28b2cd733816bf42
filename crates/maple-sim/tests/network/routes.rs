//! Routes while links, hosts and switches come and go, as scripts.

use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::{Event, LeafSelection, Options};
use maple_core::look_ups::{KeyField, KeyForm, LookUp};
use maple_core::network::Location;
use maple_core::policy::{Net, PacketHandle, Policy};
use maple_core::report::Report;
use maple_core::route::Route;
use maple_core::state::{Value, Write};
use maple_sim::{Delivery, SimNetwork};
use maple_wire::packet::build::Frame;
use maple_wire::{Dpid, Field, Version};

use crate::scripts::{A, B, acquaint, at, ring, send, shortest, udp};

#[test]
fn a_host_that_was_just_found_never_meets_rules_that_know_nothing_of_it() {
    let policy = |_: &PacketHandle, net: &Net| if net.locate(B).is_some() { Route::drop() } else { Route::flood() };
    for seed in 0..20 {
        let mut sim = SimNetwork::new(Arc::new(policy), 1, &Options::default(), seed);
        sim.add_switch(Dpid(1), Version::Of13, 4);
        sim.settle();
        assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)).len(), 3, "nobody knows B");
        for port in 0..40 {
            sim.inject(at(1, 4), udp(B, A, port));
        }
        sim.run();
        assert_eq!(sim.delivered, [], "f sees packets of B where B is known");
        assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)), []);
    }
}

#[test]
fn a_link_that_fails_is_routed_round_and_one_that_nobody_uses_re_decides_nothing() {
    let mut sim = ring(Arc::new(shortest), 4, 2, Version::Of13);
    acquaint(&mut sim, at(2, 3), 80);
    let before = sim.stats();
    sim.set_port(at(3, 2), false);
    sim.run();
    assert_eq!(sim.stats().leaves_withdrawn, before.leaves_withdrawn, "the path from 1 to 2 is the same without 3-4");
    sim.set_port(at(1, 2), false);
    sim.run();
    assert_eq!(sim.stats().routes_rerouted - before.routes_rerouted, 2);
    assert_eq!(sim.stats().leaves_withdrawn, before.leaves_withdrawn);
    assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)), [], "the ring is cut in two");
    sim.set_port(at(3, 2), true);
    sim.run();
    sim.rediscover(at(3, 2));
    sim.run();
    let out = send(&mut sim, at(1, 3), udp(A, B, 80));
    assert_eq!(out, [Delivery { at: at(2, 3), frame: udp(A, B, 80) }], "the long way round");
    for dpid in 1..=4 {
        assert!(sim.switch(Dpid(dpid)).is_some_and(|switch| switch.flows().len() < 13), "no stale rule stays");
    }
}

#[test]
fn a_route_that_is_led_back_before_it_has_left_keeps_its_labels() {
    for seed in 0..50 {
        let mut sim = SimNetwork::new(Arc::new(shortest), 1, &Options::default(), seed);
        (1..=2).for_each(|dpid| sim.add_switch(Dpid(dpid), Version::Of13, 4));
        sim.run();
        sim.add_link(at(1, 2), at(2, 1));
        sim.settle();
        acquaint(&mut sim, at(2, 3), 80);
        let (a, b) = (at(1, 2), at(2, 1));
        sim.report(Event::LinkDown { a, b });
        sim.report(Event::LinkUp { a, b });
        sim.run();
        let out = send(&mut sim, at(1, 3), udp(A, B, 80));
        assert_eq!(out, [Delivery { at: at(2, 3), frame: udp(A, B, 80) }], "seed {seed}");
    }
}

#[test]
fn a_packet_that_waits_never_takes_a_path_that_was_not_its_answer() {
    let read = |_: &PacketHandle, net: &Net| net.contains("blocked", &Value::Mac(A));
    let look_up = |_: &PacketHandle, net: &Net| {
        let by_source = LookUp::by("blocked", KeyField { field: Field::EthSrc, form: KeyForm::Mac });
        net.look_up(&by_source, None).is_some()
    };
    let policy = |is_blocked: fn(&PacketHandle, &Net) -> bool| -> Arc<dyn Policy> {
        Arc::new(move |pkt: &PacketHandle, net: &Net| if is_blocked(pkt, net) { Route::drop() } else { Route::flood() })
    };
    let both: [fn(&PacketHandle, &Net) -> bool; 2] = [read, look_up];
    for (policy, hundreds) in both.map(policy).iter().flat_map(|one| (0..60).map(move |n| (one, n))) {
        let mut sim = ring(Arc::clone(policy), 2, 1, Version::Of13);
        sim.add_port(at(2, 5));
        sim.run();
        sim.inject(at(1, 3), udp(A, B, 80));
        sim.run_for(Duration::from_micros(100 * hundreds));
        // The engine hears of this last: when floods have the new port, f drops.
        let write = Write::Table { table: "blocked".into(), key: Value::Mac(A), value: Some(Value::from(true)) };
        let late = sim.store.update(|_| vec![write]);
        sim.report(Event::PortIsEdge { port: at(2, 5) });
        sim.run();
        let there: Vec<Location> = sim.delivered.drain(..).map(|delivery| delivery.at).collect();
        assert!(!there.contains(&at(2, 5)), "after {hundreds}00 µs: {there:?}");
        for (_, commit) in late.by_shard(&sim.store.snapshot()) {
            sim.report(Event::Committed(commit));
        }
        sim.run();
        assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)), [], "after {hundreds}00 µs");
    }
}

#[test]
fn a_host_moves_at_once_when_its_port_went_down_and_after_a_probe_when_it_did_not() {
    let mut sim = ring(Arc::new(shortest), 3, 2, Version::Of13);
    send(&mut sim, at(1, 3), udp(A, B, 80));
    sim.place_host(B, at(2, 3));
    send(&mut sim, at(2, 3), Frame::ethernet(A.0, B.0).arp_request([10, 0, 0, 0xb], [10, 0, 0, 0xa]));
    send(&mut sim, at(2, 3), udp(B, A, 80));
    // A forged packet from B, while B is there and answers.
    assert_eq!(send(&mut sim, at(3, 3), udp(B, A, 80)), []);
    assert!(sim.reports.iter().any(|r| matches!(r, Report::HostSpoofed { mac, .. } if *mac == B)), "{:?}", sim.reports);
    assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80))[0].at, at(2, 3));
    // B moves to switch 3 silently.
    sim.place_host(B, at(3, 3));
    sim.run_for(std::time::Duration::from_secs(10));
    assert_eq!(send(&mut sim, at(3, 3), udp(B, A, 80)), [], "the first packet is not believed yet");
    assert_eq!(send(&mut sim, at(3, 3), udp(B, A, 80))[0].at, at(1, 3));
    assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80))[0].at, at(3, 3));
    // The port of B goes down, and comes up again immediately.
    sim.set_port(at(3, 3), false);
    sim.run();
    sim.place_host(B, at(2, 3));
    assert_eq!(send(&mut sim, at(2, 3), udp(B, A, 80))[0].at, at(1, 3));
    assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80))[0].at, at(2, 3));
}

#[test]
fn no_label_stays_when_its_ingress_switch_goes_before_it_says_that_its_rule_is_out() {
    let mut sim = ring(Arc::new(shortest), 2, 1, Version::Of13);
    send(&mut sim, at(1, 3), udp(A, B, 80));
    let labels = |sim: &mut SimNetwork| {
        let flows = sim.switch(Dpid(2)).map(|switch| switch.flows()).unwrap_or_default();
        flows.iter().filter(|flow| flow.table_id == 2 && flow.priority > 0).count()
    };
    assert_eq!(labels(&mut sim), 1);
    sim.report(Event::Invalidate(LeafSelection::All));
    sim.report(Event::SwitchDown { dpid: Dpid(1) });
    sim.run();
    assert_eq!(labels(&mut sim), 0);
}

#[test]
fn a_packet_goes_back_where_the_route_says_so_by_name_and_else_somebody_is_notified() {
    let echo = |pkt: &PacketHandle, _: &Net| {
        let back = if pkt.is(maple_wire::Field::UdpDst, 7) { maple_wire::PortNo::IN_PORT } else { pkt.in_port() };
        Route::to([back])
    };
    for version in [Version::Of10, Version::Of13] {
        let mut sim = ring(Arc::new(echo), 3, 1, version);
        for _ in 0..2 {
            let sent = udp(A, B, 7);
            assert_eq!(send(&mut sim, at(1, 3), sent.clone()), [Delivery { at: at(1, 3), frame: sent }]);
            assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 8)), []);
        }
        assert_eq!(sim.stats().misses, 2, "rules do it");
        let reported: Vec<_> = sim.reports.iter().filter(|r| matches!(r, Report::RouteGoesBack { .. })).collect();
        assert_eq!(reported.len(), 1, "{reported:?}");
        assert!(reported[0].to_string().contains("network/routes.rs:"), "{}", reported[0]);
    }
}

#[test]
fn frames_to_reserved_addresses_are_kept_out_of_floods_by_two_rules_a_decision() {
    const LACP: [u8; 6] = [1, 0x80, 0xc2, 0, 0, 2];
    const PVST: [u8; 6] = [1, 0, 0xc, 0xcc, 0xcc, 0xcd];
    let frame = |dst| Frame::ethernet(dst, A.0).raw(0x88b5, b"x");
    let flood = |_: &PacketHandle, net: &Net| net.flood();
    let cable = |_: &PacketHandle, _: &Net| Route::flood_reserved();
    let rules = |sim: &mut SimNetwork| sim.switch(Dpid(1)).expect("it is there").flows().len();
    for version in [Version::Of13, Version::Of10] {
        let (mut sim, mut all) = (ring(Arc::new(flood), 3, 1, version), ring(Arc::new(cable), 3, 1, version));
        let everywhere = send(&mut sim, at(1, 3), frame([0xff; 6]));
        assert!(everywhere.len() > 3 && send(&mut all, at(1, 3), frame([0xff; 6])).len() == everywhere.len());
        if version == Version::Of13 {
            assert_eq!(rules(&mut sim) - rules(&mut all), 2, "one for each mask");
        }
        for dst in [LACP, PVST] {
            assert_eq!(send(&mut sim, at(1, 3), frame(dst)), [], "{version:?}");
            assert_eq!(send(&mut all, at(1, 3), frame(dst)).len(), everywhere.len(), "{version:?}");
        }
        let before = sim.stats().packet_ins;
        for dst in [LACP, PVST] {
            assert_eq!(send(&mut sim, at(1, 3), frame(dst)), [], "{version:?}");
        }
        assert_eq!(send(&mut sim, at(1, 3), frame([0xff; 6])).len(), everywhere.len());
        assert_eq!(sim.stats().packet_ins, before, "rules drop and flood, the controller sees none: {version:?}");
    }
}
