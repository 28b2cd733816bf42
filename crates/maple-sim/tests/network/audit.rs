//! Audits: rules that are missing, altered or unknown are put right, and rules that are not ours are reported.

use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::{Options, ReportedRule};
use maple_core::policy::{Net, PacketHandle, Policy};
use maple_core::report::Report;
use maple_core::route::Route;
use maple_core::state::{Value, Write};
use maple_sim::{Choices, SimNetwork};
use maple_wire::packet::build::Frame;
use maple_wire::{Action, Constraint, Dpid, Field, Instruction, Match, PortNo, Version};

use crate::scripts::{A, B, at, udp};

const PERIOD: Duration = Duration::from_secs(1);

fn port(bits: Option<u128>) -> Value {
    Value::from(bits.unwrap_or_default() as u64)
}

/// Drops packets to closed ports.
fn open_ports() -> Arc<dyn Policy> {
    Arc::new(|pkt: &PacketHandle, net: &Net| match net.get("closed", &port(pkt.get(Field::UdpDst))) {
        Some(_) => Route::drop(),
        None => net.shortest_path(at(1, 3), at(2, 3)),
    })
}

/// Creates a network whose switches have rules, and are audited.
fn audited(version: Version, period: Duration) -> SimNetwork {
    let options = Options { audit: period, ..Options::default() };
    let rest = Duration::from_millis(200);
    let mut sim = SimNetwork::new(open_ports(), 2, &options, 7);
    (1..=4).for_each(|dpid| sim.add_switch(Dpid(dpid), version, 4));
    sim.run_for(rest);
    (1..=4).for_each(|dpid| sim.add_link(at(dpid, 2), at(dpid % 4 + 1, 1)));
    sim.run_for(rest);
    sim.settle_ports();
    sim.run_for(rest);
    for port in [22, 80, 443] {
        sim.inject(at(1, 3), udp(A, B, port));
        sim.run_for(rest);
    }
    sim.reports.clear();
    sim
}

fn repairs(sim: &SimNetwork) -> Vec<(Dpid, usize, usize, usize)> {
    let repair = |report: &Report| match report {
        Report::RulesRepaired { switch, missing, altered, unknown, .. } => {
            Some((*switch, *missing, *altered, *unknown))
        }
        _ => None,
    };
    sim.reports.iter().filter_map(repair).collect()
}

fn sorted(mut flows: Vec<ReportedRule>) -> Vec<String> {
    flows.sort_by_key(|flow| (flow.table_id, flow.priority, format!("{:?}", flow.matching)));
    flows.into_iter().map(|flow| format!("{flow:?}")).collect()
}

fn counts(sim: &SimNetwork) -> (u64, u64, u64) {
    let stats = sim.engines().iter().map(|engine| engine.view().stats());
    stats.fold((0, 0, 0), |(audits, repaired, foreign), stats| {
        (audits + stats.audits, repaired + stats.rules_repaired, foreign + stats.foreign_rules)
    })
}

#[test]
fn missing_altered_and_unknown_rules_are_put_right_within_a_period() {
    for version in [Version::Of10, Version::Of13] {
        let mut sim = audited(version, PERIOD);
        sim.run_for(3 * PERIOD);
        let (audits, repaired, foreign) = counts(&sim);
        assert!(audits >= 12 && (repaired, foreign) == (0, 0), "{audits} {repaired} {foreign}");
        assert!(sim.reports.is_empty(), "{:?}", sim.reports);
        let switch = sim.switch(Dpid(1)).expect("a switch");
        let before = switch.flows();
        let is_of_leaf = |flow: &ReportedRule| flow.priority < 65_000 && flow.priority > 60_000;
        let leaves: Vec<usize> = (0..before.len()).filter(|at| is_of_leaf(&before[*at])).collect();
        switch.edit_flows(|flows| {
            flows[leaves[0]].instructions = vec![];
            let unknown = ReportedRule { priority: 64_000, ..flows[leaves[1]].clone() };
            flows.push(unknown);
            flows.remove(leaves[2]);
        });
        sim.run_for(2 * PERIOD);
        assert_eq!(sorted(sim.switch(Dpid(1)).expect("a switch").flows()), sorted(before));
        assert_eq!(repairs(&sim), [(Dpid(1), 1, 1, 1)], "once: {:?}", sim.reports);
        assert_eq!(counts(&sim).1, 3);
    }
}

#[test]
fn rules_of_others_that_take_packets_are_reported_once_and_stay() {
    let mut sim = audited(Version::Of13, PERIOD);
    let flow = |priority, field, value| ReportedRule {
        table_id: 1,
        priority,
        cookie: 0,
        matching: Match::from_constraints([Constraint::exact(field, value)]),
        instructions: vec![Instruction::ApplyActions(vec![Action::Output { port: PortNo(4), max_len: 0 }])],
    };
    // The three rules take a host's packets, packets that no rule of ours takes, and packets that ours take before.
    let foreign = [flow(65_300, Field::EthSrc, A.bits()), flow(10, Field::EthSrc, 77), flow(0, Field::EthType, 0x9999)];
    let switch = sim.switch(Dpid(1)).expect("a switch");
    switch.edit_flows(|flows| flows.extend(foreign.clone()));
    sim.run_for(3 * PERIOD);
    let reported: Vec<(&str, usize)> = sim
        .reports
        .iter()
        .filter_map(|report| match report {
            Report::ForeignRule { switch: Dpid(1), foreign, taken_from, .. } => Some((&**foreign, *taken_from)),
            _ => None,
        })
        .collect();
    assert_eq!(reported.len(), 3, "{reported:?}");
    assert!(reported[0].0.contains("dl_src") && reported[0].1 > 1, "{reported:?}");
    assert_eq!(reported[1].1, 1, "packets that have no rule yet: {reported:?}");
    let switch = sim.switch(Dpid(1)).expect("a switch");
    assert!(foreign.iter().all(|flow| switch.flows().contains(flow)), "they are never deleted");
    // A foreign rule that goes and comes back is reported again.
    switch.edit_flows(|flows| flows.retain(|flow| *flow != foreign[0]));
    sim.run_for(2 * PERIOD);
    sim.switch(Dpid(1)).expect("a switch").edit_flows(|flows| flows.push(foreign[0].clone()));
    sim.run_for(2 * PERIOD);
    assert_eq!(counts(&sim).2, 4);
    // A foreign rule that is still there when the switch is back is not.
    sim.lose_connection(Dpid(1));
    sim.run_for(PERIOD);
    sim.regain_connection(Dpid(1), false);
    sim.run_for(3 * PERIOD);
    assert_eq!(counts(&sim).2, 4);
    assert!(repairs(&sim).is_empty());
}

#[test]
fn changes_during_an_audit_are_no_findings() {
    for (seed, version) in (0..40).zip([Version::Of10, Version::Of13].into_iter().cycle()) {
        let mut sim = audited(version, Duration::from_millis(1));
        let mut random = Choices::new(seed);
        for _ in 0..60 {
            let port = 1000 + random.below(8) as u16;
            match random.below(4) {
                0 => {
                    let value = random.one_in(2).then(|| Value::from(true));
                    let write = Write::Table { table: "closed".into(), key: Value::from(u64::from(port)), value };
                    sim.write_and_settle(vec![write]);
                }
                1 => {
                    let (ip, other) = ([10, 0, 0, 1], [10, 0, 0, 2]);
                    sim.inject(at(1, 3), Frame::ethernet(B.0, A.0).ipv4(ip, other).tcp(port, 80).payload(b"x"));
                }
                2 => sim.set_port(at(1, 2), random.one_in(2)),
                _ => sim.inject(at(1, 3), udp(A, B, port)),
            }
            sim.run_for(Duration::from_micros(random.below(3000) as u64));
        }
        let (audits, repaired, _) = counts(&sim);
        assert!(audits > 20 && repaired == 0, "seed {seed}: {audits} {:?}", repairs(&sim));
    }
}
