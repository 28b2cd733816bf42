//! The engine's behaviour as scripts: events in a small network, and their effects.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;

use maple_core::engine::{Event, Options};
use maple_core::network::{Location, Mac};
use maple_core::policy::{Net, PacketHandle, Policy, PolicyError};
use maple_core::report::Report;
use maple_core::route::Route;
use maple_core::state::{Counter, Stop, Value, Var, Write};
use maple_sim::{Delivery, SimNetwork, SimSwitch};
use maple_wire::packet::build::Frame;
use maple_wire::{Dpid, Field, Message, Packet, PortNo, Version};

pub const A: Mac = Mac([0, 0, 0, 0, 0, 0xa]);
pub const B: Mac = Mac([0, 0, 0, 0, 0, 0xb]);

pub fn at(switch: u64, port: u32) -> Location {
    Location::new(Dpid(switch), PortNo(port))
}

/// Creates switches 1 to n in a ring (a line for two): ports 1 and 2 to the neighbours, 3 and 4 for hosts.
pub fn ring(policy: Arc<dyn Policy>, n: u64, shards: u8, version: Version) -> SimNetwork {
    ring_with(&Options::default(), policy, n, shards, version)
}

pub fn ring_with(options: &Options, policy: Arc<dyn Policy>, n: u64, shards: u8, version: Version) -> SimNetwork {
    let mut sim = SimNetwork::new(policy, shards, options, 7);
    (1..=n).for_each(|dpid| sim.add_switch(Dpid(dpid), version, 4));
    sim.run();
    for dpid in 1..=n {
        let next = dpid % n + 1;
        if n > 2 || dpid < next {
            sim.add_link(at(dpid, 2), at(next, 1));
        }
    }
    sim.settle();
    sim
}

pub fn udp(src: Mac, dst: Mac, port: u16) -> Vec<u8> {
    let ip = |mac: Mac| [10, 0, 0, mac.0[5]];
    Frame::ethernet(dst.0, src.0).ipv4(ip(src), ip(dst)).udp(1000, port).payload(b"hello")
}

pub fn send(sim: &mut SimNetwork, from: Location, frame: Vec<u8>) -> Vec<Delivery> {
    sim.inject(from, frame);
    sim.run();
    std::mem::take(&mut sim.delivered)
}

/// Returns the flow-mods since the last time, or since recording of messages began, and goes on with recording.
pub fn flow_mods(sim: &mut SimNetwork) -> Vec<(Dpid, Message)> {
    let messages = sim.messages.replace(Vec::new()).unwrap_or_default();
    messages.into_iter().filter(|(_, message)| matches!(message, Message::FlowMod(_))).collect()
}

/// Lets A, at port 3 of switch 1, and B, at this port, send each other packets until both are known.
pub fn acquaint(sim: &mut SimNetwork, b: Location, port: u16) {
    for (from, frame) in [(at(1, 3), udp(A, B, port)), (b, udp(B, A, port)), (at(1, 3), udp(A, B, port))] {
        send(sim, from, frame);
    }
}

/// Routes by the location of source and destination, and floods if one is unknown.
pub fn shortest(pkt: &PacketHandle, net: &Net) -> Route {
    let (src, dst) = (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst()));
    match (src, dst) {
        (Some(src), Some(dst)) => net.shortest_path(src, dst),
        _ => Route::flood(),
    }
}

#[test]
fn packets_that_come_while_their_rule_is_on_its_way_are_answered_where_they_lie() {
    for version in [Version::Of10, Version::Of13] {
        let mut sim = ring(Arc::new(|_: &PacketHandle, _: &Net| Route::flood()), 1, 1, version);
        let before = (sim.stats(), sim.hits);
        for port in 1..=20 {
            sim.inject(at(1, 3), udp(A, B, port));
        }
        sim.run();
        let ports =
            sim.delivered.drain(..).map(|delivery| (delivery.at, Packet::new(&delivery.frame, 0).get(Field::UdpDst)));
        let got: BTreeSet<_> = ports.collect();
        assert_eq!(got.len(), 20 * 3, "each at the three other ports");
        let (after, hits) = (sim.stats(), sim.hits - before.1);
        assert!(hits > 0, "{after:?}");
        assert_eq!(after.packet_ins - before.0.packet_ins, after.hits + after.misses - before.0.hits - before.0.misses);
    }
}

#[test]
fn packets_are_flooded_until_the_destination_is_known_and_then_take_the_shortest_path_without_the_controller() {
    for (version, shards) in [(Version::Of13, 1), (Version::Of13, 2), (Version::Of10, 1)] {
        let mut sim = ring(Arc::new(shortest), 4, shards, version);
        let out = send(&mut sim, at(1, 3), udp(A, B, 80));
        assert_eq!(out.len(), 7, "a flood leaves by every edge port but the one it came in by");
        let out = send(&mut sim, at(3, 3), udp(B, A, 80));
        assert_eq!(out, [Delivery { at: at(1, 3), frame: udp(B, A, 80) }]);
        let out = send(&mut sim, at(1, 3), udp(A, B, 80));
        assert_eq!(out, [Delivery { at: at(3, 3), frame: udp(A, B, 80) }], "the flood rule was withdrawn");
        let before = sim.stats();
        for _ in 0..3 {
            assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)).len(), 1);
            assert_eq!(send(&mut sim, at(3, 3), udp(B, A, 80)).len(), 1);
        }
        assert_eq!(sim.stats(), before, "no packet came to the controller");
        assert_eq!(before.link_drops, 0);
    }
}

/// Blocks the hosts in the `blocked` table. Reads a variable only for the others.
fn blocklist(pkt: &PacketHandle, net: &Net) -> Route {
    if net.contains("blocked", &Value::Mac(pkt.eth_src())) {
        return Route::drop();
    }
    shortest(pkt, net)
}

#[test]
fn a_write_from_outside_re_decides_exactly_what_depended_on_it() {
    let mut sim = ring(Arc::new(blocklist), 3, 2, Version::Of13);
    acquaint(&mut sim, at(2, 3), 80);
    let before = sim.stats();
    let block =
        |value: Option<Value>| Event::Write(vec![Write::Table { table: "blocked".into(), key: Value::Mac(A), value }]);
    sim.report(block(Some(Value::from(true))));
    sim.run();
    assert_eq!(sim.stats().leaves_withdrawn - before.leaves_withdrawn, 1, "only the leaf of packets from A");
    assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)), []);
    assert_eq!(send(&mut sim, at(2, 3), udp(B, A, 80)).len(), 1);
    assert_eq!(
        sim.stats().runs - before.runs,
        2,
        "asked again at once, which was another question, and for the packet"
    );
    sim.report(block(None));
    sim.run();
    assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)).len(), 1);
}

#[test]
fn a_policy_that_writes_for_every_packet_sees_each_of_them_once() {
    let policy = |_: &PacketHandle, net: &Net| {
        let n = match net.var("n") {
            Some(Value::Int(n)) => n,
            _ => 0,
        };
        net.set_var("n", Value::Int(n + 1));
        Route::flood()
    };
    let mut sim = ring(Arc::new(policy), 2, 2, Version::Of13);
    for _ in 0..5 {
        sim.inject(at(1, 3), udp(A, B, 80));
        sim.inject(at(2, 3), udp(B, A, 80));
    }
    sim.run();
    assert_eq!(sim.store.snapshot().var("n"), Some(&Value::Int(10)));
    assert_eq!(sim.delivered.len(), 50);
    assert_eq!(sim.stats().leaves, 0);
    assert!(sim.reports.iter().any(|r| matches!(r, Report::PolicyWrites { what } if what.contains("scripts.rs"))));
}

#[test]
fn a_write_of_what_is_there_is_a_dependency_on_it() {
    let policy = |pkt: &PacketHandle, net: &Net| {
        net.set("seen", Value::Mac(pkt.eth_src()), Value::from(true));
        net.set_var("any", Value::from(true));
        Route::flood()
    };
    let mut sim = ring(Arc::new(policy), 2, 1, Version::Of13);
    let seen = |sim: &SimNetwork| {
        let state = sim.store.snapshot();
        (state.table("seen").and_then(|rows| rows.get(&Value::Mac(A))).cloned(), state.var("any").cloned())
    };
    let both = (Some(Value::from(true)), Some(Value::from(true)));
    for _ in 0..3 {
        assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)).len(), 5);
        assert_eq!(seen(&sim), both);
    }
    assert_eq!((sim.stats().packet_ins, sim.stats().writing_runs, sim.stats().leaves), (1, 0, 1));
    // A value that others change is written again with the next packet, and the packets have a rule again.
    for write in [
        Write::Table { table: "seen".into(), key: Value::Mac(A), value: None },
        Write::Var { name: "any".into(), value: Some(Value::from(false)) },
    ] {
        let before = sim.stats().packet_ins;
        sim.report(Event::Write(vec![write]));
        sim.run();
        for _ in 0..2 {
            assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)).len(), 5);
            assert_eq!(seen(&sim), both);
        }
        assert_eq!((sim.stats().packet_ins - before, sim.stats().leaves), (1, 1));
    }
}

#[test]
fn a_policy_that_writes_once_is_cached_after_that() {
    let policy = |pkt: &PacketHandle, net: &Net| {
        let key = Value::Mac(pkt.eth_src());
        if !net.contains("seen", &key) {
            net.set("seen", key, Value::from(true));
        }
        Route::flood()
    };
    let mut sim = ring(Arc::new(policy), 2, 1, Version::Of13);
    for _ in 0..3 {
        assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)).len(), 5);
    }
    assert_eq!((sim.stats().packet_ins, sim.stats().runs), (1, 2));
}

#[test]
fn a_policy_that_fails_drops_the_packet_and_is_reported_once() {
    struct Fails;
    impl Policy for Fails {
        fn decide(&self, pkt: &PacketHandle, _: &Net) -> Result<Route, PolicyError> {
            match pkt.get(Field::UdpDst) {
                Some(80) => Err(PolicyError::Exception("no web".into())),
                Some(81) => Ok(Route::flood().set(Field::TcpDst, 1)),
                _ => Ok(Route::flood()),
            }
        }
    }
    let mut sim = ring(Arc::new(Fails), 2, 1, Version::Of13);
    for _ in 0..3 {
        assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)), []);
        assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 81)), []);
    }
    assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 82)).len(), 5);
    let errors: Vec<String> =
        sim.reports.iter().filter(|r| matches!(r, Report::PolicyFailed { .. })).map(ToString::to_string).collect();
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors[0].contains("no web") && errors[1].contains("can't set tcp_dst"), "{errors:?}");
    assert_eq!(sim.stats().policy_errors, 6);
}

#[test]
fn a_route_that_cannot_be_and_a_name_that_is_not_there_are_reported_with_their_lines_and_counted() {
    let policy = |pkt: &PacketHandle, net: &Net| match pkt.get(Field::UdpDst) {
        Some(80) => Route::to([PortNo(77)]),
        Some(81) => net.path(at(1, 3), at(2, 3), "secrue"),
        Some(82) => net.try_path(at(1, 3), at(2, 3), "secrue").unwrap_or_else(|_| Route::drop()),
        _ => Route::flood(),
    };
    let mut sim = ring(Arc::new(policy), 2, 1, Version::Of13);
    for port in [80, 81, 82, 81] {
        assert_eq!(send(&mut sim, at(1, 3), udp(A, B, port)), []);
    }
    let failures: Vec<(String, u64)> = sim
        .engines()
        .iter()
        .flat_map(|engine| engine.view().failures())
        .map(|(error, count)| (error.to_string(), count))
        .collect();
    let [(port, 1), (name, 2)] = &failures[..] else { panic!("{failures:?}") };
    assert!(port.contains("network/scripts.rs:"), "{port}");
    assert!(
        port.contains("hop 0000000000000001:77: there is no such port; switch 0000000000000001 has the ports 1, 2")
    );
    assert!(name.contains("network/scripts.rs:"), "{name}");
    assert!(name.contains("links have no costs named \"secrue\"; known: \"cost\""), "{name}");
}

#[test]
fn a_policy_that_looks_at_untracked_state_is_found_out() {
    let calls = Mutex::new(0);
    let policy = move |pkt: &PacketHandle, _: &Net| {
        let mut calls = calls.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *calls += 1;
        pkt.eth_dst();
        // Every other run reads another field, so equal observations lead to different questions.
        if *calls % 2 == 0 {
            pkt.get(Field::Ipv4Dst)
        } else {
            pkt.get(Field::IpProto)
        };
        Route::flood()
    };
    let mut sim = ring(Arc::new(policy), 2, 1, Version::Of13);
    send(&mut sim, at(1, 3), udp(A, B, 80));
    let tcp = Frame::ethernet(B.0, A.0).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(1, 2).payload(&[]);
    assert_eq!(send(&mut sim, at(1, 3), tcp).len(), 5);
    let said = |r: &Report| matches!(r, Report::PolicyNotAFunction { what, .. } if what.contains("scripts.rs"));
    assert!(sim.reports.iter().any(said), "{:?}", sim.reports);
}

#[test]
fn a_policy_whose_questions_alternate_gets_an_answer_for_each_packet_in_the_end() {
    let calls = std::sync::atomic::AtomicU64::new(0);
    let policy = move |pkt: &PacketHandle, net: &Net| {
        let fields = [Field::UdpSrc, Field::UdpDst];
        let call = calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        pkt.get(fields[call as usize % 2]);
        net.shortest_path(at(1, 3), at(2, 3))
    };
    let mut sim = ring(Arc::new(policy), 2, 1, Version::Of13);
    let frames = [udp(A, B, 1), udp(A, B, 2), udp(A, B, 3)];
    // The packets wait for one label, and each run removes the leaves of the others.
    frames.iter().for_each(|frame| sim.inject(at(1, 3), frame.clone()));
    sim.run();
    let mut out: Vec<Vec<u8>> = sim.delivered.drain(..).map(|delivery| delivery.frame).collect();
    out.sort();
    assert_eq!(out, frames);
}

#[test]
fn rewrites_happen_once_wherever_on_the_way() {
    for version in [Version::Of13, Version::Of10] {
        let policy = |pkt: &PacketHandle, net: &Net| {
            let route = shortest(pkt, net);
            if pkt.is(Field::UdpDst, 80) { route.set(Field::UdpDst, 8080).set(Field::VlanVid, 9) } else { route }
        };
        let mut sim = ring(Arc::new(policy), 3, 1, version);
        send(&mut sim, at(2, 3), udp(B, A, 1));
        send(&mut sim, at(1, 3), udp(A, B, 1));
        for _ in 0..2 {
            let out = send(&mut sim, at(1, 3), udp(A, B, 80));
            let ip = |last| [10, 0, 0, last];
            let changed = Frame::ethernet(B.0, A.0).vlan(9).ipv4(ip(10), ip(11)).udp(1000, 8080).payload(b"hello");
            assert_eq!(out, [Delivery { at: at(2, 3), frame: changed }]);
        }
    }
}

#[test]
fn a_full_switch_falls_back_to_the_controller_and_is_never_lost() {
    // Each port needs a label of its own.
    let policy = |pkt: &PacketHandle, net: &Net| {
        let queue = pkt.get(Field::UdpDst).unwrap_or_default() as u32;
        shortest(pkt, net).queue(queue)
    };
    // B stays silent for a long time.
    let options = Options { host_timeout: std::time::Duration::from_secs(1_000_000), ..Options::default() };
    let mut sim = ring_with(&options, Arc::new(policy), 3, 2, Version::Of13);
    send(&mut sim, at(2, 3), udp(B, A, 1));
    send(&mut sim, at(1, 3), udp(A, B, 1));
    if let Some(switch) = sim.switch(Dpid(2)) {
        switch.model.change_options(|options| options.capacity = 12);
    }
    for port in 1..30 {
        assert_eq!(send(&mut sim, at(1, 3), udp(A, B, port))[0].at, at(2, 3), "port {port}");
    }
    assert!(sim.stats().refused_rules > 0);
    let refused: Vec<_> = sim.reports.iter().filter(|r| matches!(r, Report::RuleRefused { .. })).collect();
    let [report] = refused[..] else { panic!("said once for a switch: {refused:?}") };
    let text = report.to_string();
    assert!(text.starts_with("switch 0000000000000002 refused a rule: cookie=0x"), "{text}");
    assert!(text.contains("table=2, priority=65020,dl_vlan="), "{text}");
    assert!(text.contains(" actions=pop_vlan,set_queue:") && text.ends_with("error OFPFMFC_TABLE_FULL"), "{text}");
}

#[test]
fn a_switch_that_comes_back_empty_gets_its_rules_and_foreign_ones_are_left_alone() {
    let mut sim = ring(Arc::new(shortest), 2, 1, Version::Of13);
    let foreign = maple_core::engine::ReportedRule {
        table_id: 0,
        priority: 7,
        cookie: 0xdead,
        matching: maple_wire::Match::any().exact(Field::EthType, 0x1234),
        instructions: Vec::new(),
    };
    send(&mut sim, at(1, 3), udp(A, B, 80));
    sim.restart(Dpid(1));
    if let Some(switch) = sim.switch(Dpid(1)) {
        let of_earlier_run =
            maple_core::engine::ReportedRule { cookie: 0x4d00_0900_0000_0001, priority: 8, ..foreign.clone() };
        switch.edit_flows(|flows| flows.extend([foreign.clone(), of_earlier_run]));
    }
    sim.run();
    (1..=4).for_each(|port| sim.rediscover(at(1, port)));
    sim.run();
    let flows = sim.switch(Dpid(1)).map(|switch| switch.flows()).unwrap_or_default();
    assert!(flows.contains(&foreign));
    assert!(!flows.iter().any(|flow| flow.priority == 8), "the stale one is gone");
    assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)).len(), 5);
    assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)).len(), 5);
}

#[test]
fn a_rule_that_somebody_deletes_comes_back() {
    let mut sim = ring(Arc::new(shortest), 2, 1, Version::Of13);
    send(&mut sim, at(1, 3), udp(A, B, 80));
    let rules = |sim: &mut SimNetwork| {
        let mut flows = sim.switch(Dpid(1)).map(|switch| switch.flows()).unwrap_or_default();
        flows.sort_by_key(|flow| (flow.table_id, flow.priority, format!("{:?}", flow.matching)));
        flows
    };
    let before = rules(&mut sim);
    for index in 0..before.len() {
        sim.lose_rule(Dpid(1), index);
        sim.run();
        assert_eq!(rules(&mut sim), before);
    }
}

#[test]
fn equal_events_give_equal_effects() {
    let run = || {
        let mut sim = ring(Arc::new(shortest), 4, 2, Version::Of13);
        send(&mut sim, at(1, 3), udp(A, B, 80));
        send(&mut sim, at(3, 3), udp(B, A, 80));
        sim.set_port(at(1, 2), false);
        send(&mut sim, at(1, 3), udp(A, B, 80));
        let flows: Vec<_> = (1..=4).map(|dpid| sim.switch(Dpid(dpid)).map(|switch| switch.flows())).collect();
        (flows, sim.now, sim.flow_mods)
    };
    assert_eq!(run(), run());
}

#[test]
fn rules_of_1_0_without_wildcards_are_known_by_the_priority_that_switches_keep_them_with() {
    let nosy = |pkt: &PacketHandle, net: &Net| {
        let fields = [Field::VlanVid, Field::IpDscp, Field::Ipv4Src, Field::Ipv4Dst, Field::UdpSrc, Field::UdpDst];
        fields.into_iter().for_each(|field| {
            pkt.get(field);
        });
        shortest(pkt, net)
    };
    let mut sim = ring(Arc::new(nosy), 2, 1, Version::Of10);
    for _ in 0..2 {
        send(&mut sim, at(1, 3), udp(A, B, 80));
        send(&mut sim, at(2, 3), udp(B, A, 80));
    }
    let before = sim.stats().misses;
    send(&mut sim, at(1, 3), udp(A, B, 80));
    assert_eq!(sim.stats().misses, before);
    let key = |priority: u16, matching: &maple_wire::Match| (priority, format!("{matching:?}"));
    let on_switch = |sim: &mut SimNetwork| {
        let flows = sim.switch(Dpid(1)).map(|switch| switch.flows()).unwrap_or_default();
        flows.iter().map(|flow| key(flow.priority, &flow.matching)).collect::<std::collections::BTreeSet<_>>()
    };
    let known = sim.engines().iter().flat_map(|engine| engine.view().rules(Dpid(1)));
    let known: std::collections::BTreeSet<_> = known.map(|r| key(r.rule.priority, &r.rule.matching)).collect();
    assert_eq!(on_switch(&mut sim), known);
    // One of the rules is for link discovery.
    assert!(known.iter().filter(|(priority, _)| *priority == u16::MAX).count() > 1, "{known:?}");
    for index in 0..known.len() {
        sim.lose_rule(Dpid(1), index);
        sim.run();
        assert_eq!(on_switch(&mut sim), known);
    }
}

#[test]
fn a_rule_that_is_deleted_and_sent_again_is_not_taken_for_lost() {
    let mut sim = ring(Arc::new(shortest), 2, 1, Version::Of13);
    for _ in 0..20 {
        send(&mut sim, at(1, 3), udp(A, B, 80));
        send(&mut sim, at(2, 3), udp(B, A, 80));
        sim.report(Event::LinkDown { a: at(1, 2), b: at(2, 1) });
        sim.rediscover(at(1, 2));
        sim.report(Event::Invalidate(maple_core::state::LeafSelection::All));
        send(&mut sim, at(1, 3), udp(A, B, 80));
    }
    assert!(!sim.reports.iter().any(|report| matches!(report, Report::RulesLost { .. })));
}

#[test]
fn a_settled_write_has_left_nothing_that_a_packet_meets_where_it_enters() {
    let entering = |switch: &mut SimSwitch| switch.flows().iter().filter(|flow| flow.table_id < 2).count();
    let rules = |sim: &mut SimNetwork| (1..=4).map(|n| sim.switch(Dpid(n)).map(entering)).collect::<Vec<_>>();
    for seed in 0..20 {
        let mut sim = ring(Arc::new(blocklist), 4, 1 + seed % 3, Version::Of13);
        acquaint(&mut sim, at(3, 3), 80);
        sim.run_for(std::time::Duration::from_millis(10 * u64::from(seed)));
        let before = rules(&mut sim);
        sim.write_and_settle(vec![Write::Table {
            table: "blocked".into(),
            key: Value::Mac(A),
            value: Some(Value::from(true)),
        }]);
        let settled = rules(&mut sim);
        sim.run();
        assert_eq!((settled.clone(), settled != before), (rules(&mut sim), true), "nothing was left to be taken out");
        assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)), []);
    }
}

#[test]
fn a_packet_waits_for_a_change_of_what_its_run_read_and_is_answered_then() {
    let admitted = Counter::new("admitted");
    let policy = move |_: &PacketHandle, net: &Net| {
        let free = Var::new("free", 0i64);
        let take = |net: &Net| {
            let left = free.get(net) - 1;
            free.set(net, &left);
            admitted.add(net, 1);
            Stop::unless(left >= 0)
        };
        match net.atomically(take) {
            Ok(()) => Route::flood(),
            Err(_) => net.retry(),
        }
    };
    let mut sim = ring(Arc::new(policy), 2, 2, Version::Of13);
    assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)), []);
    assert_eq!(send(&mut sim, at(2, 3), udp(B, A, 80)), []);
    let set = |name: &str, value: i64| vec![Write::Var { name: name.into(), value: Some(Value::from(value)) }];
    sim.report(Event::Write(set("unrelated", 1)));
    sim.run();
    let waits = |sim: &SimNetwork| sim.engines().iter().map(|engine| engine.view().stats().waits).sum::<u64>();
    assert_eq!((sim.delivered.len(), waits(&sim)), (0, 2), "the write changed nothing that was read");
    sim.report(Event::Write(set("free", 1)));
    sim.run();
    assert_eq!(std::mem::take(&mut sim.delivered).len(), 5, "one of the packets is flooded, the other waits on");
    sim.report(Event::Write(set("free", 5)));
    sim.run();
    assert_eq!(std::mem::take(&mut sim.delivered).len(), 5);
    assert_eq!(sim.store.snapshot().var("free"), Some(&Value::Int(4)));
    assert_eq!(sim.store.snapshot().var("admitted"), Some(&Value::Int(2)), "runs that waited had no effect");
    assert_eq!(sim.store.subscriptions(), (0, 0));
}

#[test]
fn a_packet_that_came_in_part_makes_rules_for_its_kind() {
    let policy = |pkt: &PacketHandle, net: &Net| {
        let port = if pkt.is(Field::IpProto, 17) { 3 } else { 4 };
        net.shortest_path(at(1, 3), at(2, port))
    };
    let mut sim = ring(Arc::new(policy), 2, 1, Version::Of13);
    if let Some(switch) = sim.switch(Dpid(1)) {
        // 32 bytes are shorter than the headers up to the protocol.
        (switch.send_len, switch.buffers) = (32, true);
    }
    assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80))[0].at, at(2, 3));
    let before = sim.stats().packet_ins;
    assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80))[0].at, at(2, 3));
    assert_eq!(sim.stats().packet_ins, before);
}
