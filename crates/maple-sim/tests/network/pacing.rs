//! Pacing: a switch that writes rules slowly gets a limited number per second, and changes meanwhile are sent as one
//! difference.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::{Event, Options};
use maple_core::policy::{Net, PacketHandle};
use maple_core::route::Route;
use maple_core::state::{Value, Write};
use maple_sim::SimNetwork;
use maple_wire::{Dpid, Field, PortNo, Version};

use crate::scripts::{A, B, at, udp};

const RATE: u32 = 100;

/// Creates a switch with a host at each of three ports. Packets of each UDP port have a rule of their own. They go to
/// port 2, or to port 3 after a change.
fn switch(version: Version, rate: Option<NonZeroU32>) -> SimNetwork {
    let policy = |pkt: &PacketHandle, net: &Net| {
        let port = pkt.get(Field::UdpDst).unwrap_or_default();
        let out = if net.var("turned") == Some(true.into()) { 3 } else { 2 };
        if port == 7 { Route::drop() } else { Route::to([PortNo(out)]) }
    };
    let options = Options { flow_mod_rate: rate, ..Options::default() };
    let mut sim = SimNetwork::new(Arc::new(policy), 1, &options, 5);
    sim.add_switch(Dpid(1), version, 3);
    sim.run_for(Duration::from_millis(500));
    sim.settle_ports();
    sim.run_for(Duration::from_secs(2));
    sim
}

fn flow_mods(sim: &SimNetwork) -> u64 {
    sim.engines()[0].view().stats().flow_mods
}

/// Runs for this many tenths of a second, and checks that in none of them more is sent than the rate allows.
fn watch(sim: &mut SimNetwork, tenths: usize) {
    for _ in 0..tenths {
        let before = flow_mods(sim);
        sim.run_for(Duration::from_millis(100));
        let sent = flow_mods(sim) - before;
        assert!(sent <= u64::from(RATE) / 10 + 2, "{sent} in a tenth of a second");
    }
}

fn rules(sim: &SimNetwork) -> Vec<String> {
    let rules = sim.engines()[0].view().rules(Dpid(1));
    let mut rules: Vec<String> = rules.iter().map(|rule| format!("{:?}", rule.rule.matching)).collect();
    rules.sort();
    rules
}

#[test]
fn a_switch_gets_so_many_changes_a_second_and_loses_no_packet_meanwhile() {
    for version in [Version::Of10, Version::Of13] {
        let mut sim = switch(version, NonZeroU32::new(RATE));
        sim.delivered.clear();
        for port in 0..300 {
            sim.inject(at(1, 1), udp(A, B, 1_000 + port));
        }
        watch(&mut sim, 40);
        assert_eq!(sim.delivered.len(), 300);
        let before = flow_mods(&sim);
        assert!(before >= 300);
        // The rules change back and forth, faster than the switch could follow.
        for turn in 0..41u32 {
            let value: Value = turn.is_multiple_of(2).into();
            sim.report(Event::Write(vec![Write::Var { name: "turned".into(), value: Some(value) }]));
            watch(&mut sim, 1);
        }
        watch(&mut sim, 60);
        assert!(flow_mods(&sim) - before <= 41 * u64::from(RATE) / 10 + 700, "{}", flow_mods(&sim) - before);
        sim.delivered.clear();
        for port in 0..300 {
            sim.inject(at(1, 1), udp(A, B, 1_000 + port));
        }
        sim.run_for(Duration::from_secs(1));
        assert!(sim.delivered.len() == 300 && sim.delivered.iter().all(|delivery| delivery.at == at(1, 3)));

        let mut other = switch(version, None);
        other.report(Event::Write(vec![Write::Var { name: "turned".into(), value: Some(true.into()) }]));
        for port in 0..300 {
            other.inject(at(1, 1), udp(A, B, 1_000 + port));
        }
        other.run_for(Duration::from_secs(2));
        assert_eq!(rules(&sim), rules(&other));
    }
}
