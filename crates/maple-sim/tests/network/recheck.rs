//! Checks of cached leaves: f runs again from time to time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use maple_core::engine::Options;
use maple_core::network::{Location, Mac};
use maple_core::policy::{Net, PacketHandle};
use maple_core::report::Report;
use maple_core::route::Route;
use maple_core::state::{Value, Write};
use maple_sim::SimNetwork;
use maple_wire::packet::build::Frame;
use maple_wire::{Dpid, Field, PortNo, Version};

const A: Mac = Mac([0, 0, 0, 0, 0, 0xa]);
const B: Mac = Mac([0, 0, 0, 0, 0, 0xb]);

/// Creates a clock that f reads without the engine's knowledge, and one switch with ports for two hosts.
fn network(version: Version, check_rate: u32) -> (Arc<AtomicU64>, SimNetwork) {
    let clock = Arc::new(AtomicU64::new(0));
    let hidden = clock.clone();
    let policy = move |pkt: &PacketHandle, net: &Net| {
        if pkt.is(Field::UdpDst, 53) || net.var("closed").is_some() {
            return Route::drop();
        }
        if hidden.load(Ordering::Relaxed) > 0 && pkt.is(Field::UdpSrc, 1000) {
            return Route::drop();
        }
        Route::flood()
    };
    let mut sim = SimNetwork::new(Arc::new(policy), 1, &Options { check_rate, ..Options::default() }, 7);
    sim.add_switch(Dpid(1), version, 2);
    sim.settle();
    (clock, sim)
}

fn send(sim: &mut SimNetwork, dst: u16) -> usize {
    let frame = Frame::ethernet(B.0, A.0).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1000, dst).payload(b"hello");
    sim.inject(Location::new(Dpid(1), PortNo(1)), frame);
    sim.run_for(Duration::from_secs(1));
    std::mem::take(&mut sim.delivered).len()
}

fn untracked(sim: &SimNetwork) -> Vec<&str> {
    let reports = sim.reports.iter().filter_map(|report| match report {
        Report::PolicyNotAFunction { what, .. } => Some(&**what),
        _ => None,
    });
    reports.collect()
}

#[test]
fn a_leaf_that_rests_on_untracked_state_goes_with_a_warning_and_others_stay() {
    for version in [Version::Of13, Version::Of10] {
        let (clock, mut sim) = network(version, 4);
        assert_eq!((send(&mut sim, 80), send(&mut sim, 53)), (1, 0));
        sim.run_for(Duration::from_secs(5));
        let before = sim.engines()[0].view().stats();
        assert!(before.rechecks >= 20, "four a second: {before:?}");
        assert_eq!((before.rechecks_failed, before.leaves, untracked(&sim).len()), (0, 2, 0));
        clock.store(1, Ordering::Relaxed);
        sim.run_for(Duration::from_secs(1));
        let after = sim.engines()[0].view().stats();
        assert_eq!((after.rechecks_failed, after.leaves), (1, 1));
        assert_eq!(send(&mut sim, 80), 0, "the next packet is decided anew");
        let reported = untracked(&sim);
        assert_eq!(reported.len(), 1);
        assert!(
            reported[0].contains("network/recheck.rs:")
                && reported[0].contains("then test eth_type=0x800, ip_proto=17, udp_src=1000: yes"),
            "{}",
            reported[0]
        );
    }
}

#[test]
fn checks_write_nothing_raise_no_alarm_about_tracked_state_and_can_be_off() {
    let (_, mut sim) = network(Version::Of13, 10);
    assert_eq!(send(&mut sim, 80), 1);
    let state = sim.store.snapshot().version();
    sim.run_for(Duration::from_secs(2));
    assert_eq!(sim.store.snapshot().version(), state);
    let closed = Write::Var { name: "closed".into(), value: Some(Value::from(true)) };
    sim.report(maple_core::engine::Event::Write(vec![closed]));
    sim.run_for(Duration::from_secs(2));
    assert_eq!((send(&mut sim, 80), untracked(&sim).len()), (0, 0));
    let (clock, mut sim) = network(Version::Of13, 0);
    assert_eq!(send(&mut sim, 80), 1);
    clock.store(1, Ordering::Relaxed);
    sim.run_for(Duration::from_secs(10));
    assert_eq!((send(&mut sim, 80), sim.engines()[0].view().stats().rechecks), (1, 0));
}
