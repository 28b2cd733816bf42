//! Runs of the policy are counted by the line at which they end.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::{LineUse, Options, Time};
use maple_core::policy::{Net, PacketHandle};
use maple_core::route::Route;
use maple_core::state::Write;
use maple_sim::SimNetwork;
use maple_wire::{Field, PortNo, Version};
use proptest::prelude::*;

use crate::scripts::{A, B, at, ring_with, send, udp};

/// The time of a run by the clock of these tests.
const RUN: Duration = Duration::from_micros(7);

/// Returns a later time with each call, so that nothing depends on how fast the machine is.
fn ticks() -> Time {
    thread_local! {
        static NOW: Cell<u64> = const { Cell::new(0) };
    }
    NOW.set(NOW.get() + RUN.as_nanos() as u64);
    Time(NOW.get())
}

/// Drops packets to port 9, sends those to port 10 out of port 4 if a variable is set, and floods all others.
fn policy(pkt: &PacketHandle, net: &Net) -> Route {
    match pkt.get(Field::UdpDst) {
        Some(9) => Route::drop(),                                        // line: drops
        Some(10) if net.var("open").is_some() => Route::to([PortNo(4)]), // line: sends
        _ => Route::flood(),                                             // line: floods
    }
}

/// Returns the line of this file with this mark.
fn line_of(mark: &str) -> u32 {
    let mark = format!("// line: {mark}");
    1 + include_str!("lines.rs").lines().position(|line| line.ends_with(&mark)).expect("it is there") as u32
}

fn network(shards: u8) -> SimNetwork {
    let options = Options { stopwatch: Some(ticks), ..Options::default() };
    ring_with(&options, Arc::new(policy), 2, shards, Version::Of13)
}

/// Returns what rests on each line of this file, in all shards.
fn lines(sim: &SimNetwork) -> BTreeMap<u32, LineUse> {
    let mut all: BTreeMap<u32, LineUse> = BTreeMap::new();
    for engine in sim.engines() {
        for ((file, line), own) in engine.view().by_line() {
            assert!(file.ends_with("lines.rs"), "{file}");
            all.entry(line).or_default().add(own);
        }
    }
    all
}

/// Returns the runs of a line and the packets that they decided. Each run has taken as long as the others.
fn runs(all: &BTreeMap<u32, LineUse>, mark: &str) -> (u64, u64) {
    let own = all.get(&line_of(mark)).copied().unwrap_or_default();
    assert_eq!(own.time, RUN * u32::try_from(own.runs).expect("few"), "{mark}");
    (own.runs, own.misses)
}

#[test]
fn a_line_has_the_runs_that_ended_there_and_the_packets_that_they_decided() {
    for shards in [1, 2] {
        let mut sim = network(shards);
        for (from, port) in [(at(1, 3), 9), (at(1, 3), 9), (at(2, 3), 9), (at(1, 3), 10), (at(1, 3), 11)] {
            let (source, destination) = if from.switch.0 == 1 { (A, B) } else { (B, A) };
            send(&mut sim, from, udp(source, destination, port));
        }
        let before = lines(&sim);
        assert_eq!(runs(&before, "drops"), (2, 2), "a rule takes the second packet");
        assert_eq!((runs(&before, "sends"), runs(&before, "floods")), ((0, 0), (2, 2)));
        assert_eq!(before[&(line_of("drops") - 1)].runs, 0, "no run ends where the port was read");

        // What a decision has read changes: it is made again, and no packet came for that.
        sim.write_and_settle(vec![Write::Var { name: "open".into(), value: Some(true.into()) }]);
        let after = lines(&sim);
        assert_eq!(runs(&after, "sends"), (1, 0));
        assert_eq!((runs(&after, "drops"), runs(&after, "floods")), ((2, 2), (2, 2)));
        assert_eq!(after.values().map(|own| own.runs).sum::<u64>(), sim.stats().runs);
    }
}

#[test]
fn a_new_policy_starts_with_counts_of_zero() {
    let mut sim = network(2);
    send(&mut sim, at(1, 3), udp(A, B, 9));
    assert_eq!(runs(&lines(&sim), "drops"), (1, 1));
    sim.reload(Arc::new(policy));
    sim.run();
    // The witness packets of its decisions may have been decided again; no packet has.
    assert_eq!(runs(&lines(&sim), "drops").1, 0);
    sim.reload(Arc::new(|_: &PacketHandle, _: &Net| Route::flood()));
    sim.run();
    send(&mut sim, at(1, 3), udp(A, B, 9));
    assert_eq!(runs(&lines(&sim), "drops"), (0, 0));
}

#[test]
fn without_a_clock_runs_take_no_time() {
    let mut sim = ring_with(&Options::default(), Arc::new(policy), 2, 1, Version::Of13);
    send(&mut sim, at(1, 3), udp(A, B, 9));
    let drops = lines(&sim)[&line_of("drops")];
    assert_eq!((drops.runs, drops.misses, drops.time), (1, 1, Duration::ZERO));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever comes, the packets of a line are those that were missed and whose answer is made there.
    #[test]
    fn each_miss_counts_for_the_line_of_its_answer(packets in prop::collection::vec((1u64..=2, 7u16..14), 1..40), shards in 1u8..=2) {
        let mut sim = network(shards);
        let mut expected: BTreeMap<&str, u64> = BTreeMap::new();
        for (switch, port) in packets {
            let misses = sim.stats().misses;
            let (source, destination) = if switch == 1 { (A, B) } else { (B, A) };
            send(&mut sim, at(switch, 3), udp(source, destination, port));
            let new = sim.stats().misses - misses;
            prop_assert!(new <= 1);
            *expected.entry(if port == 9 { "drops" } else { "floods" }).or_default() += new;
        }
        let all = lines(&sim);
        for mark in ["drops", "sends", "floods"] {
            let (runs, misses) = runs(&all, mark);
            prop_assert_eq!(misses, expected.get(mark).copied().unwrap_or_default());
            prop_assert!(runs >= misses);
        }
        prop_assert_eq!(all.values().map(|own| own.runs).sum::<u64>(), sim.stats().runs);
    }
}
