//! f's questions about load: rates are measured while something depends on them, and a leaf is decided again when an
//! answer changes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use maple_core::engine::{CounterKind, Event, Options, Party, Stats};
use maple_core::ids::{DependentId, LeafId};
use maple_core::network::{Gauge, Hop, Location, Mac, Scale, UTILISATION};
use maple_core::policy::{Net, PacketHandle};
use maple_core::report::{Lowered, Report};
use maple_core::route::Route;
use maple_core::state::{Cell, CellValue, Store, Write};
use maple_sim::SimNetwork;
use maple_wire::packet::build::Frame;
use maple_wire::{Dpid, Field, PortNo, Version};
use proptest::prelude::*;

use crate::scripts::at;

const A: Mac = Mac([0, 0, 0, 0, 0, 0xa]);
const B: Mac = Mac([0, 0, 0, 0, 0, 0xb]);
const POLL: Duration = Duration::from_secs(10);
const FRAME: usize = 1000;

/// Returns where the host is whose address is in a field of the packet.
fn locate(net: &Net, field: Field) -> Option<Location> {
    net.locate_by(field, None).expect("hosts are tracked").map(|host| host.location())
}

/// Creates two switches with two links between them (ports 2 and 3 of each), and a host at port 1 of each. `decide`
/// says whether to use the link between the ports 3. Its calls are counted.
fn network(version: Version, decide: fn(&Net) -> bool) -> (SimNetwork, Arc<AtomicU64>) {
    network_with(version, 0, decide)
}

/// Creates such a network, with switches that leave this number of tables for look-ups.
fn network_with(version: Version, look_up_tables: u8, decide: fn(&Net) -> bool) -> (SimNetwork, Arc<AtomicU64>) {
    let runs = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&runs);
    let policy = move |_: &PacketHandle, net: &Net| {
        let Some(to) = locate(net, Field::EthDst) else { return Route::drop() };
        if locate(net, Field::EthSrc) == Some(at(2, 1)) {
            return Route::drop();
        }
        counted.fetch_add(1, Ordering::Relaxed);
        let link = if decide(net) { 3 } else { 2 };
        Route::hops([Hop::new(Dpid(1), PortNo(link)), Hop::new(to.switch, to.port)])
    };
    let options = Options { poll: POLL, look_up_tables, ..Options::default() };
    let mut sim = SimNetwork::new(Arc::new(policy), 1, &options, 4);
    for dpid in [Dpid(1), Dpid(2)] {
        sim.add_switch(dpid, version, 3);
    }
    sim.run();
    sim.add_link(at(1, 2), at(2, 2));
    sim.add_link(at(1, 3), at(2, 3));
    sim.settle_ports();
    sim.run_for(Duration::from_secs(2));
    sim.inject(at(2, 1), frame(B, A, 60));
    sim.run_for(Duration::from_secs(1));
    (sim, runs)
}

fn frame(from: Mac, to: Mac, len: usize) -> Vec<u8> {
    let frame = Frame::ethernet(to.0, from.0).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1000, 2000);
    frame.payload(&vec![0; len - 42])
}

/// Sends `frames_a_second` frames per second from A to B, for this many polls. Each frame has 1000 bytes, so one frame
/// per second is 8 kbit/s.
fn send(sim: &mut SimNetwork, polls: usize, frames_a_second: usize) {
    for _ in 0..polls * POLL.as_secs() as usize {
        for _ in 0..frames_a_second {
            sim.inject(at(1, 1), frame(A, B, FRAME));
        }
        sim.run_for(Duration::from_secs(1));
    }
}

/// Returns the port of the link that A's packets take.
fn link(sim: &mut SimNetwork) -> u32 {
    let sent = |sim: &mut SimNetwork| {
        [2, 3].map(|port| sim.switch(Dpid(1)).map_or(0, |s| s.model.ports()[&PortNo(port)].counters.tx_packets))
    };
    let before = sent(sim);
    sim.inject(at(1, 1), frame(A, B, 60));
    sim.run_for(Duration::from_millis(100));
    let after = sent(sim);
    assert_eq!(after[0] + after[1], before[0] + before[1] + 1, "one packet, by one of the links");
    if after[1] > before[1] { 3 } else { 2 }
}

#[test]
fn nobody_is_polled_before_f_asks() {
    let (mut sim, _) = network(Version::Of13, |_| false);
    send(&mut sim, 3, 2);
    assert_eq!((sim.stats().polls, link(&mut sim)), (0, 2));
}

#[test]
fn a_change_of_the_answer_decides_again_and_a_sample_does_not() {
    for version in [Version::Of13, Version::Of10] {
        for decide in [
            (|net| net.traffic(A, B).is_above_mbps(0.02, 0.01)) as fn(&Net) -> bool,
            |net| net.port_load(at(1, 1)).received().is_above_mbps(0.02, 0.01),
            |net| net.port_load(at(2, 1)).is_above_mbps(0.02, 0.01),
            |net| net.port_load(at(1, 1)).received().relative_to(0.1).is_above_share(0.2, 0.1),
            |net| net.port_load(at(1, 1)).received().relative_to(0.1).utilisation() >= 0.2,
        ] {
            let (mut sim, runs) = network(version, decide);
            assert_eq!(link(&mut sim), 2);
            // The loads, in units of 8 kbit/s, are low, high, between the thresholds, low, and between.
            for (frames, taken, decided) in [(1, 2, 1), (3, 3, 2), (3, 3, 2), (2, 3, 2), (1, 2, 3), (2, 2, 3)] {
                send(&mut sim, 2, frames);
                assert_eq!((link(&mut sim), runs.load(Ordering::Relaxed)), (taken, decided), "{version} {frames}");
            }
            let Stats { polls, leaves_rerouted, .. } = sim.stats();
            assert_eq!(leaves_rerouted, 2);
            assert!((12..=14).contains(&polls), "one each 10 s: {polls}");
        }
    }
}

#[test]
fn a_pair_of_hosts_is_counted_although_f_looks_them_up() {
    let (mut sim, _) = network_with(Version::Of13, 2, |net| net.traffic(A, B).is_above_mbps(0.02, 0.01));
    for (frames, taken) in [(1, 2), (3, 3), (2, 3), (0, 2)] {
        send(&mut sim, 3, frames);
        assert_eq!(link(&mut sim), taken, "{frames}");
    }
    let lowering = |field| (Dpid(1), format!("hosts[{field}]"), Lowered::Traffic);
    assert_eq!(lowered(&sim), [lowering("eth_dst"), lowering("eth_src")], "once, and where A is");
    // What is asked for the first time afterwards is a read too.
    sim.inject(at(1, 1), frame(A, Mac([2, 0, 0, 0, 0, 9]), 60));
    sim.run_for(Duration::from_secs(1));
    let rules = sim.switch(Dpid(1)).expect("a switch").flows();
    assert!(rules.iter().all(|flow| flow.table_id != 3 || flow.matching.get(Field::Metadata).is_none()), "{rules:?}");
}

/// Returns what was lowered where, and why, as often as it was reported.
fn lowered(sim: &SimNetwork) -> Vec<(Dpid, String, Lowered)> {
    let why = |report: &Report| match report {
        Report::LookUpLowered { switch, look_up, why, .. } => Some((*switch, look_up.to_string(), *why)),
        _ => None,
    };
    sim.reports.iter().filter_map(why).collect()
}

#[test]
fn each_switch_reports_what_is_lowered_there_even_if_no_look_up_was_in_use() {
    // What comes from port 1000 looks nothing up, and asks for the rates of pairs.
    let policy = |pkt: &PacketHandle, net: &Net| {
        if pkt.is(Field::UdpSrc, 1000) {
            let busy = [(A, B), (B, A)].map(|(from, to)| net.traffic(from, to).is_above_mbps(0.02, 0.01));
            assert_eq!(busy, [false, false]);
            return Route::drop();
        }
        if locate(net, Field::EthDst).is_some() { Route::drop() } else { net.flood() }
    };
    let options = Options { poll: POLL, look_up_tables: 2, ..Options::default() };
    let mut sim = SimNetwork::new(Arc::new(policy), 1, &options, 4);
    for dpid in [Dpid(1), Dpid(2)] {
        sim.add_switch(dpid, Version::Of13, 2);
    }
    sim.run();
    sim.settle_ports();
    for (place, from, to) in [(at(1, 1), A, B), (at(2, 1), B, A)] {
        sim.inject(place, frame(from, to, 60));
    }
    sim.run_for(Duration::from_secs(2));
    assert_eq!(lowered(&sim), [], "nothing was looked up");
    let others = [(at(1, 1), A, B), (at(2, 1), B, A), (at(1, 1), A, Mac([2, 0, 0, 0, 0, 9]))];
    for (place, from, to) in others {
        let frame = Frame::ethernet(to.0, from.0).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1001, 2000);
        sim.inject(place, frame.payload(b"other"));
        sim.run_for(Duration::from_secs(1));
    }
    let lowering = |dpid| (Dpid(dpid), "hosts[eth_dst]".to_owned(), Lowered::Traffic);
    assert_eq!(lowered(&sim), [lowering(1), lowering(2)], "once at each switch");
}

#[test]
fn a_link_is_as_busy_as_the_busiest_between_the_switches() {
    let (mut sim, _) = network(Version::Of13, |net| net.link_load(Dpid(1), Dpid(2)).is_above_mbps(0.02, 0.01));
    assert_eq!(link(&mut sim), 2);
    send(&mut sim, 3, 3);
    assert_eq!(link(&mut sim), 3);
    send(&mut sim, 2, 3);
    assert_eq!(link(&mut sim), 3, "the other link is as busy now");
    sim.set_port(at(1, 3), false);
    sim.run_for(Duration::from_secs(1));
    send(&mut sim, 4, 0);
    assert_eq!(link(&mut sim), 2, "it is no link any more, and the other carries nothing");
}

#[test]
fn a_shard_that_hears_of_nothing_else_measures_what_another_one_s_policy_asks_for() {
    let policy = move |pkt: &PacketHandle, net: &Net| {
        if pkt.switch() == Dpid(2) || !net.port_load(at(2, 1)).received().is_above_mbps(0.02, 0.01) {
            return Route::drop();
        }
        Route::to([PortNo(2)])
    };
    let mut sim = SimNetwork::new(Arc::new(policy), 2, &Options { poll: POLL, ..Options::default() }, 4);
    [Dpid(1), Dpid(2)].into_iter().for_each(|dpid| sim.add_switch(dpid, Version::Of13, 2));
    sim.run();
    sim.settle_ports();
    sim.run_for(Duration::from_secs(2));
    // The switch of the other shard has a rule for these packets.
    let busy = |sim: &mut SimNetwork, seconds: usize| {
        for _ in 0..seconds {
            (0..3).for_each(|_| sim.inject(at(2, 1), frame(B, A, FRAME)));
            sim.run_for(Duration::from_secs(1));
        }
    };
    busy(&mut sim, 2);
    sim.inject(at(1, 1), frame(A, B, 60));
    busy(&mut sim, 25);
    sim.delivered.clear();
    sim.inject(at(1, 1), frame(A, B, 60));
    sim.run_for(Duration::from_secs(1));
    assert_eq!(sim.delivered.iter().map(|delivery| delivery.at).collect::<Vec<_>>(), [at(1, 2)]);
}

#[test]
fn a_path_by_utilisation_leaves_the_link_that_others_use_without_asking_f() {
    let runs = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&runs);
    // Packets for port 7 take the link between the ports 2. Other packets of A take the link that is used less.
    let policy = move |pkt: &PacketHandle, net: &Net| {
        let Some(to) = locate(net, Field::EthDst) else { return Route::drop() };
        if locate(net, Field::EthSrc) == Some(at(2, 1)) {
            return Route::drop();
        }
        if pkt.is(maple_wire::Field::UdpDst, 7) {
            return Route::hops([Hop::new(Dpid(1), PortNo(2)), Hop::new(to.switch, to.port)]);
        }
        counted.fetch_add(1, Ordering::Relaxed);
        net.path(at(1, 1), to, UTILISATION)
    };
    let mut sim = SimNetwork::new(Arc::new(policy), 1, &Options { poll: POLL, ..Options::default() }, 4);
    [Dpid(1), Dpid(2)].into_iter().for_each(|dpid| sim.add_switch(dpid, Version::Of13, 3));
    sim.run();
    sim.add_link(at(1, 2), at(2, 2));
    sim.add_link(at(1, 3), at(2, 3));
    sim.settle_ports();
    sim.run_for(Duration::from_secs(2));
    sim.inject(at(2, 1), frame(B, A, 60));
    sim.run_for(Duration::from_secs(1));
    let speeds = [at(1, 2), at(1, 3)].map(|at| Write::Speed { at, speed: Some(100_000) });
    sim.report(Event::Write(speeds.to_vec()));
    let mut ways = Vec::new();
    for frames in [0, 3, 3, 0, 0, 0] {
        ways.push(link(&mut sim));
        for _ in 0..POLL.as_secs() {
            let other = Frame::ethernet(B.0, A.0).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(9, 7).payload(&[0; 958]);
            (0..frames).for_each(|_| sim.inject(at(1, 1), other.clone()));
            sim.run_for(Duration::from_secs(1));
        }
    }
    assert_eq!(ways, [2, 2, 3, 3, 2, 2], "after the poll that saw it");
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}

#[test]
fn rates_that_nobody_asks_for_any_more_are_forgotten_and_polling_ends() {
    let (mut sim, _) =
        network(Version::Of13, |net| net.var("off").is_none() && net.traffic(A, B).is_above_mbps(0.02, 0.01));
    assert_eq!(link(&mut sim), 2);
    send(&mut sim, 2, 3);
    let gauge = Gauge::Traffic { from: A, to: B };
    let rate = |sim: &SimNetwork| sim.store.snapshot().rate(&gauge).map(maple_core::state::RateHistory::latest);
    assert!(rate(&sim).is_some_and(|rate| (20_000..26_000).contains(&rate)), "{:?}", rate(&sim));
    sim.report(Event::Write(vec![Write::Var { name: "off".into(), value: Some(true.into()) }]));
    send(&mut sim, 1, 0);
    assert_eq!(link(&mut sim), 2);
    send(&mut sim, 3, 0);
    assert_eq!(rate(&sim), None);
    let polls = sim.stats().polls;
    send(&mut sim, 5, 0);
    assert_eq!(sim.stats().polls, polls);
}

/// Creates a network where the packets of A take the other link while the variable `moved` is set.
fn network_to_move_in(version: Version) -> SimNetwork {
    let (sim, _) = network(version, |net| {
        let _ = net.traffic(A, B).is_above_mbps(0.02, 0.01);
        net.var("moved").is_some_and(|on| on == true.into())
    });
    sim
}

fn move_packets(sim: &mut SimNetwork, on: bool) {
    sim.report(Event::Write(vec![Write::Var { name: "moved".into(), value: Some(on.into()) }]));
}

fn rate(sim: &SimNetwork) -> u64 {
    sim.store.snapshot().rate(&Gauge::Traffic { from: A, to: B }).map_or(0, maple_core::state::RateHistory::latest)
}

/// Sends from a poll until the next one. Half a second to a second before the next one, calls `late`.
fn from_poll_to_poll(sim: &mut SimNetwork, frames_a_second: usize, late: impl Fn(&mut SimNetwork)) {
    let polls = sim.stats().polls;
    for half in 1.. {
        (0..frames_a_second * (half % 2)).for_each(|_| sim.inject(at(1, 1), frame(A, B, FRAME)));
        sim.run_for(Duration::from_millis(500));
        if half + 2 == 2 * POLL.as_secs() as usize {
            late(sim);
        }
        if sim.stats().polls > polls {
            return;
        }
    }
}

#[test]
fn a_rule_that_was_replaced_after_a_poll_is_not_taken_for_the_one_that_was_counted() {
    for version in [Version::Of10, Version::Of13] {
        let mut sim = network_to_move_in(version);
        assert_eq!(link(&mut sim), 2);
        (0..2).for_each(|_| from_poll_to_poll(&mut sim, 3, |_| ()));
        // By the next poll, the new rule has counted more than the old rule had at the last poll.
        for (frames, on) in [(3, true), (4, false), (5, true), (6, false)] {
            move_packets(&mut sim, on);
            from_poll_to_poll(&mut sim, frames, |_| ());
            let (reported, sent) = (rate(&sim), 8_000 * frames as u64);
            assert!((sent * 8 / 10..=sent * 12 / 10).contains(&reported), "{version}: {reported} of {sent}");
        }
    }
}

#[test]
fn a_rule_that_was_just_replaced_does_not_make_traffic_look_like_less() {
    let mut sim = network_to_move_in(Version::Of10);
    let from_poll_to_poll = |sim: &mut SimNetwork, frames_a_second: usize, on: bool| {
        from_poll_to_poll(sim, frames_a_second, |sim| move_packets(sim, on));
    };
    assert_eq!(link(&mut sim), 2);
    (0..3).for_each(|_| from_poll_to_poll(&mut sim, 3, false));
    let before = rate(&sim);
    assert!((20_000..28_000).contains(&before), "{before}");
    from_poll_to_poll(&mut sim, 3, true);
    assert_eq!(rate(&sim), before, "the new rule has seen but a little of it");
    assert_eq!(link(&mut sim), 3);
    from_poll_to_poll(&mut sim, 3, true);
    assert!((20_000..28_000).contains(&rate(&sim)), "{}", rate(&sim));
    // While rules change all the time, a decrease stays hidden for one poll.
    from_poll_to_poll(&mut sim, 1, false);
    assert!(rate(&sim) >= 20_000);
    from_poll_to_poll(&mut sim, 1, true);
    assert!(rate(&sim) < 10_000, "{}", rate(&sim));
}

#[test]
fn a_host_that_moves_and_a_port_that_goes_begin_at_nothing() {
    let (mut sim, _) = network(Version::Of13, |net| {
        net.traffic(A, B).is_above_mbps(0.02, 0.01) || net.port_load(at(1, 1)).received().is_above_mbps(0.02, 0.01)
    });
    assert_eq!(link(&mut sim), 2);
    send(&mut sim, 2, 3);
    assert_eq!(link(&mut sim), 3);
    let is_known = |sim: &SimNetwork, gauge| sim.store.snapshot().rate(&gauge).is_some();
    assert!(is_known(&sim, Gauge::Traffic { from: A, to: B }) && is_known(&sim, Gauge::Received(at(1, 1))));
    sim.restart(Dpid(1));
    sim.run_for(Duration::from_millis(10));
    assert!(!is_known(&sim, Gauge::Traffic { from: A, to: B }) && !is_known(&sim, Gauge::Received(at(1, 1))));
}

#[test]
fn a_switch_that_does_not_count_is_reported_once_and_its_rates_are_nothing() {
    let (mut sim, _) = network(Version::Of13, |net| net.port_load(at(1, 1)).received().is_above_mbps(0.0, 0.0));
    sim.switch(Dpid(1)).expect("it is there").answers_statistics = false;
    send(&mut sim, 4, 1);
    assert_eq!(link(&mut sim), 2);
    let refused =
        |report: &&Report| matches!(report, Report::CountersRefused { switch: Dpid(1), what: CounterKind::Ports });
    assert_eq!(sim.reports.iter().filter(refused).count(), 1);
}

#[test]
fn people_who_watch_see_rates_and_change_nothing_for_f() {
    let (mut sim, _) = network(Version::Of13, |net| net.traffic(A, B).is_above_mbps(0.02, 0.01));
    assert_eq!(link(&mut sim), 2);
    send(&mut sim, 1, 2);
    for _ in 0..15 {
        [CounterKind::Ports, CounterKind::Rules]
            .into_iter()
            .for_each(|what| sim.report(Event::ShowCounters { dpid: Dpid(1), what }));
        sim.inject(at(1, 1), frame(A, B, FRAME));
        sim.run_for(Duration::from_secs(1));
    }
    let engine = &sim.engines()[0];
    let about = |rate: f64, wanted: f64| (rate - wanted).abs() <= wanted * 0.3;
    let traffic = engine.view().traffic(Dpid(1));
    let of_pair = traffic.iter().find(|t| (t.from, t.to) == (Party::Host(A), Party::Host(B))).expect("the pair's");
    assert!(of_pair.packets >= 30 && about(of_pair.rate.expect("two rounds").bits, 8000.0), "{of_pair:?}");
    let ports = engine.view().port_counts(Dpid(1));
    assert_eq!(ports.iter().map(|port| port.at).collect::<Vec<_>>(), [at(1, 1), at(1, 2), at(1, 3)]);
    let (sent, received) = ports[0].rates.expect("two rounds");
    assert!(about(received.bits, 8000.0) && sent.bits < 100.0, "{ports:?}");
    // Each packet was forwarded by a rule that counts.
    let counted = |rule: &maple_core::engine::TableRule| rule.counted.map(|count| count.packets);
    assert!(engine.view().rules(Dpid(1)).iter().any(|rule| counted(rule) >= Some(30)));
    assert_eq!(link(&mut sim), 2, "the average over a whole period is what counts");
    send(&mut sim, 1, 0);
    let polls = sim.stats().polls;
    send(&mut sim, 2, 0);
    assert!(sim.stats().polls <= polls + 3, "nobody watches any more");
}

#[derive(Clone, Debug)]
enum Step {
    Sample(usize, u64),
    Forget(usize),
    Leaf(Vec<(usize, Scale)>),
}

fn gauges() -> [Gauge; 3] {
    [Gauge::Sent(at(1, 1)), Gauge::Received(at(1, 1)), Gauge::Traffic { from: A, to: B }]
}

fn steps() -> impl Strategy<Value = Step> {
    let above = (0..20u64, 0..20u64).prop_map(|(a, b)| Scale::Above { from: a.max(b), until: a.min(b) });
    let scale = prop_oneof![above, (0..40u64).prop_map(Scale::TenthsOf)];
    prop_oneof![
        8 => (0..3usize, 0..20u64).prop_map(|(gauge, rate)| Step::Sample(gauge, rate)),
        1 => (0..3usize).prop_map(Step::Forget),
        4 => prop::collection::vec((0..3usize, scale), 1..4).prop_map(Step::Leaf),
    ]
}

/// Computes an answer from all samples since the rate was last forgotten: the oracle.
fn naive(samples: &[u64], scale: Scale) -> u8 {
    let above = |from: i64, until: i64| {
        samples.iter().fold(false, |busy, rate| *rate as i64 > from || (busy && *rate as i64 > until))
    };
    match scale {
        Scale::Above { from, until } => u8::from(above(from as i64, until as i64)),
        Scale::TenthsOf(0) => 0,
        Scale::TenthsOf(whole) => {
            let whole = whole as i64;
            let tenths = 1..=10;
            tenths
                .filter(|n| {
                    above((whole * n / 10 - 1).max(0), ((2 * n - 1) * whole / 20).min((whole * n / 10 - 1).max(0)))
                })
                .count() as u8
        }
    }
}

proptest! {
    #[test]
    fn leaves_go_exactly_when_an_answer_from_all_samples_changes(steps in prop::collection::vec(steps(), 1..60)) {
        let store = Store::new();
        let mut samples: [Vec<u64>; 3] = Default::default();
        let mut leaves: Vec<(LeafId, Vec<(usize, Scale)>)> = Vec::new();
        for (n, step) in (0..).zip(steps) {
            let (gauge, rate) = match step {
                Step::Sample(gauge, rate) => (gauge, Some(rate)),
                Step::Forget(gauge) => (gauge, None),
                Step::Leaf(reads) => {
                    let mut txn = store.begin();
                    for (gauge, scale) in &reads {
                        let reported = txn.read(Cell::Rate(gauges()[*gauge], *scale));
                        prop_assert_eq!(reported, CellValue::Step(naive(&samples[*gauge], *scale)));
                    }
                    store.commit(txn, Some(LeafId(n))).expect("nobody else writes");
                    leaves.push((LeafId(n), reads));
                    continue;
                }
            };
            let mut then = samples.clone();
            match rate {
                Some(rate) => then[gauge].push(rate),
                None => then[gauge].clear(),
            }
            let differs = |(gauge, scale): &(usize, Scale)| naive(&samples[*gauge], *scale) != naive(&then[*gauge], *scale);
            let expected: BTreeSet<LeafId> =
                leaves.iter().filter(|(_, reads)| reads.iter().any(differs)).map(|(leaf, _)| *leaf).collect();
            let commit = store.update(|_| vec![Write::Rate { gauge: gauges()[gauge], rate }]);
            let withdrawn: BTreeSet<LeafId> = commit.withdraw.into_iter().map(DependentId::possible_leaf).collect();
            prop_assert_eq!(&withdrawn, &expected);
            leaves.retain(|(leaf, _)| !expected.contains(leaf));
            samples = then;
        }
    }
}
