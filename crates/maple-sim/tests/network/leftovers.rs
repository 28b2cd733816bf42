//! Remains in switches: rules of an earlier run that they cannot have or lose in this one, refusals, and deletions by
//! others of more than rules.

use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::{Event, OWN_COOKIES, Options, ReportedRule, Stats};
use maple_core::policy::{Net, PacketHandle, Policy};
use maple_core::report::Report;
use maple_core::route::{Limit, Route};
use maple_sim::{SimNetwork, SimSwitch};
use maple_wire::msg::{Band, MeterMod, PortReason, PortStatus, command};
use maple_wire::{Action, Dpid, Field, Instruction, Match, Message, Port, PortNo, Version};

use crate::scripts::{A, B, acquaint, at, ring, send, shortest, udp};

const SECOND: Duration = Duration::from_secs(1);
const ONE: Dpid = Dpid(1);
/// The first bits of the cookies of an earlier run.
const EARLIER: u64 = OWN_COOKIES.0 | 0x99 << 40;

fn audited() -> Options {
    Options { audit: 5 * SECOND, ..Options::default() }
}

fn flow(table_id: u8, priority: u16, cookie: u64, matching: Match, instructions: Vec<Instruction>) -> ReportedRule {
    ReportedRule { table_id, priority, cookie, matching, instructions }
}

fn output(port: u32) -> Vec<Instruction> {
    vec![Instruction::ApplyActions(vec![Action::output(PortNo(port))])]
}

/// Creates a network of one switch with these rules, whose ports 1 and 2 lead to hosts.
fn one_switch(policy: Arc<dyn Policy>, options: &Options, switch: SimSwitch) -> SimNetwork {
    let mut sim = SimNetwork::new(policy, 1, options, 7);
    sim.connect(switch, (1..=2).map(PortNo));
    sim.run_for(SECOND / 10);
    sim.settle_ports();
    sim.run_for(SECOND / 10);
    sim
}

fn dropping() -> Arc<dyn Policy> {
    Arc::new(|_: &PacketHandle, _: &Net| Route::drop())
}

fn learning() -> Arc<dyn Policy> {
    Arc::new(|pkt: &PacketHandle, net: &Net| match net.locate(pkt.eth_dst()) {
        Some(to) => Route::to([to.port]),
        None => Route::flood(),
    })
}

fn all(sim: &SimNetwork) -> Stats {
    let mut sum = Stats::default();
    sim.engines().iter().for_each(|engine| sum += engine.view().stats());
    sum
}

fn reported(sim: &mut SimNetwork, is_wanted: impl Fn(&Report) -> bool) -> usize {
    std::mem::take(&mut sim.reports).iter().filter(|report| is_wanted(report)).count()
}

fn ours(sim: &mut SimNetwork, cookie: u64) -> usize {
    let flows = sim.switch(ONE).expect("a switch").flows();
    flows.iter().filter(|flow| flow.cookie >> 40 == cookie >> 40).count()
}

/// Returns a rule for untagged packets from host A, as a run in 1.0 left it.
fn untagged(priority: u16) -> ReportedRule {
    let matching = Match::any().exact(Field::InPort, 1).exact(Field::VlanVid, 0).exact(Field::EthSrc, A.bits());
    flow(0, priority, EARLIER + u64::from(priority), matching, output(2))
}

#[test]
fn a_rule_that_only_its_cookie_takes_away_is_gone_before_a_packet_can_match_it() {
    let mut switch = SimSwitch::new(ONE, Version::Of13);
    switch.edit_flows(|flows| *flows = vec![untagged(64_937), untagged(64_936)]);
    switch.disguised = switch.flows();
    let mut sim = one_switch(dropping(), &audited(), switch);
    assert_eq!(ours(&mut sim, EARLIER), 0);
    sim.inject(at(1, 1), udp(A, B, 80));
    sim.run_for(60 * SECOND);
    assert!(sim.delivered.is_empty(), "{:?}", sim.delivered);
    assert_eq!(all(&sim).rules_repaired, 0);
    assert_eq!(reported(&mut sim, |report| matches!(report, Report::RulesRepaired { .. })), 0);
}

#[test]
fn rules_that_are_not_repaired_are_an_error_until_they_are() {
    let mut sim = one_switch(dropping(), &audited(), SimSwitch::new(ONE, Version::Of13));
    sim.inject(at(1, 1), udp(A, B, 80));
    sim.run_for(SECOND);
    // The rule has the cookie of rules that must stay, and covers them.
    let own = sim.switch(ONE).expect("a switch").flows().iter().find(|flow| flow.priority == 0).map(|flow| flow.cookie);
    let stubborn = flow(0, 7, own.expect("a rule for everything else"), Match::any(), Vec::new());
    let switch = sim.switch(ONE).expect("a switch");
    switch.edit_flows(|flows| flows.push(stubborn.clone()));
    switch.disguised.push(stubborn.clone());
    let before = sim.flow_mods;
    sim.run_for(600 * SECOND);
    let sent = sim.flow_mods - before;
    assert!((8..25).contains(&sent), "{sent} tries in ten minutes");
    assert_eq!(all(&sim).rules_repaired, 0);
    let reports = std::mem::take(&mut sim.reports);
    let wrong = reports.iter().filter(|report| matches!(report, Report::RulesNotRepaired { count: 1, .. })).count();
    let right = reports.iter().filter(|report| matches!(report, Report::RulesRepaired { .. })).count();
    assert_eq!((wrong, right), (1, 0), "{reports:?}");
    sim.switch(ONE).expect("a switch").edit_flows(|flows| flows.retain(|flow| *flow != stubborn));
    sim.run_for(120 * SECOND);
    assert_eq!(reported(&mut sim, |report| matches!(report, Report::RulesRepaired { unknown: 1, .. })), 1);
    assert_eq!(all(&sim).rules_repaired, 1);
}

/// Returns the rules that a run in 1.3 leaves in four tables.
fn of_four_tables() -> Vec<ReportedRule> {
    let own = EARLIER | 0xff_ffff_ffff;
    let miss =
        |table| flow(table, 0, own, Match::any(), vec![Instruction::ApplyActions(vec![Action::to_controller()])]);
    let packets_from = |port: u128| Match::any().exact(Field::InPort, port);
    let mut flows: Vec<ReportedRule> = (0..4).map(miss).collect();
    // Open vSwitch shows an instruction that leads to another table as an action that 1.0 does not have.
    flows.push(flow(0, 40_000, own, packets_from(2), output(77)));
    flows.push(flow(0, 30_000, own, packets_from(1).exact(Field::EthSrc, A.bits()), output(78)));
    flows.push(flow(1, 64_937, EARLIER + 5, Match::any().exact(Field::EthDst, B.bits()), output(2)));
    flows.push(flow(2, 65_020, EARLIER + 6, Match::any().exact(Field::VlanVid, 0x1002), output(2)));
    flows
}

#[test]
fn rules_of_four_tables_are_deleted_once_in_1_0() {
    // Switches with even ids are like Open vSwitch, which reports in 1.0 the table of a rule.
    let two = Dpid(2);
    let mut switch = SimSwitch::new(two, Version::Of10);
    switch.edit_flows(|flows| *flows = of_four_tables());
    switch.disguised = vec![of_four_tables()[6].clone()];
    let mut sim = one_switch(learning(), &audited(), switch);
    for (from, frame) in [(1, udp(A, B, 80)), (2, udp(B, A, 80)), (1, udp(A, B, 80))] {
        sim.inject(at(2, from), frame);
        sim.run_for(SECOND);
    }
    assert_eq!(std::mem::take(&mut sim.delivered).len(), 3);
    let flows = sim.switch(two).expect("a switch").flows();
    let left: Vec<&ReportedRule> = flows.iter().filter(|flow| flow.cookie >> 40 == EARLIER >> 40).collect();
    assert_eq!(left, [&of_four_tables()[6]], "packets don't reach what a deletion does not find");
    assert!(flows.iter().any(|flow| flow.priority == 0 && flow.table_id == 0), "the rule for everything else is there");
    let (before, audits) = (sim.flow_mods, all(&sim).audits);
    sim.inject(at(2, 1), udp(A, B, 80));
    sim.run_for(120 * SECOND);
    assert!(all(&sim).audits > audits + 10);
    assert_eq!((sim.flow_mods, sim.delivered.len()), (before, 1));
    assert_eq!(reported(&mut sim, |report| !matches!(report, Report::HostFound { .. } | Report::SwitchUp(_))), 0);
}

#[test]
fn a_switch_that_refuses_to_delete_is_asked_once_a_minute() {
    let mut switch = SimSwitch::new(ONE, Version::Of13);
    switch.edit_flows(|flows| *flows = of_four_tables());
    switch.model.change_options(|options| options.n_tables = 1);
    switch.refuses_deletions = true;
    switch.edit_flows(|flows| flows.retain(|flow| flow.table_id > 0));
    let mut sim = one_switch(dropping(), &audited(), switch);
    sim.run_for(SECOND);
    let before = sim.flow_mods;
    sim.run_for(600 * SECOND);
    let sent = sim.flow_mods - before;
    assert!((15..120).contains(&sent), "{sent} flow-mods in ten minutes");
    assert!(reported(&mut sim, |report| matches!(report, Report::RulesNotRepaired { .. })) == 1);
    let switch = sim.switch(ONE).expect("a switch");
    switch.model.change_options(|options| options.n_tables = 254);
    switch.refuses_deletions = false;
    sim.run_for(200 * SECOND);
    assert_eq!(ours(&mut sim, EARLIER), 0, "in the end it does");
    sim.check_settled().unwrap();
}

#[test]
fn a_switch_that_takes_no_rules_in_its_second_table_gets_the_layout_for_one() {
    for refused in 1..=2 {
        let mut switch = SimSwitch::new(ONE, Version::Of13);
        switch.refuses_table = Some(refused);
        let mut sim = one_switch(learning(), &audited(), switch);
        sim.settle_ports();
        sim.run_for(SECOND);
        for (from, frame) in [(1, udp(A, B, 80)), (2, udp(B, A, 80)), (1, udp(A, B, 80))] {
            sim.inject(at(1, from), frame);
            sim.run_for(SECOND);
        }
        assert_eq!(std::mem::take(&mut sim.delivered).len(), 3);
        let (before, packet_ins) = (sim.flow_mods, all(&sim).packet_ins);
        for _ in 0..60 {
            sim.inject(at(1, 1), udp(A, B, 80));
            sim.run_for(SECOND);
        }
        assert_eq!((sim.flow_mods, all(&sim).packet_ins, sim.delivered.len()), (before, packet_ins, 60));
        let flows = sim.switch(ONE).expect("a switch").flows();
        assert!(flows.iter().all(|flow| flow.table_id == 0), "{flows:?}");
        assert_eq!(reported(&mut sim, |report| matches!(report, Report::FewerTables { .. })), 1);
    }
}

/// Floods under a limit.
fn limited() -> Arc<dyn Policy> {
    Arc::new(|_: &PacketHandle, _: &Net| Route::flood().limit(Limit::kilobits("all", 1000)))
}

/// Returns the meters of a switch, and the number of its rules.
fn meters(sim: &mut SimNetwork) -> (Vec<(u32, Vec<Band>)>, usize) {
    let switch = sim.switch(ONE).expect("a switch");
    let bands = |meter: &maple_switch::Meter| meter.bands().cloned().collect();
    (switch.model.meters().map(|(number, meter)| (number, bands(meter))).collect(), switch.flows().len())
}

/// Lets another controller change a meter.
fn change_meter(sim: &mut SimNetwork, command: u16, meter: u32, bands: Vec<Band>) {
    let request = MeterMod { command, flags: 1, meter, bands };
    let out = sim.switch(ONE).expect("a switch").obey_another(Message::MeterMod(request));
    assert_eq!(out, [], "the switch does not tell others");
}

#[test]
fn meters_that_others_delete_or_alter_are_back_after_an_audit() {
    let mut sim = one_switch(limited(), &audited(), SimSwitch::new(ONE, Version::Of13));
    sim.inject(at(1, 1), udp(A, B, 80));
    sim.run_for(SECOND);
    let before = meters(&mut sim);
    let [(meter, bands)] = &before.0[..] else { panic!("{before:?}") };
    // The rules that name a meter go with it.
    change_meter(&mut sim, command::DELETE, *meter, Vec::new());
    assert!(before.1 > meters(&mut sim).1);
    sim.run_for(6 * SECOND);
    assert_eq!(meters(&mut sim), before);
    change_meter(&mut sim, command::MODIFY, *meter, vec![Band { rate: 9, ..bands[0].clone() }]);
    assert_ne!(meters(&mut sim), before);
    sim.run_for(6 * SECOND);
    assert_eq!(meters(&mut sim), before);
    assert_eq!(all(&sim).meters_repaired, 2);
    let reports: Vec<String> = sim.reports.iter().map(ToString::to_string).collect();
    assert!(!reports.iter().any(|text| text.contains("not limited") || text.contains("refused")), "{reports:?}");
    // A rule that is sent before an audit reveals that the meter is gone.
    change_meter(&mut sim, command::DELETE, *meter, Vec::new());
    sim.run_for(Duration::from_millis(1));
    sim.inject(at(1, 2), udp(B, A, 80));
    sim.run_for(SECOND);
    assert_eq!(meters(&mut sim).0, before.0);
}

#[test]
fn a_port_that_was_reported_down_and_sends_is_asked_about_again() {
    let mut sim = one_switch(learning(), &Options::default(), SimSwitch::new(ONE, Version::Of13));
    let port = Port { state: Port::STATE_LINK_DOWN, ..Port::new(PortNo(1), [0; 6], "port") };
    // The switch has sent its last two messages in the wrong order.
    sim.report_to_owner(ONE, Event::PortStatus { dpid: ONE, status: PortStatus { reason: PortReason::Modify, port } });
    sim.run_for(SECOND);
    for _ in 0..3 {
        sim.inject(at(1, 1), udp(A, B, 80));
        sim.run_for(SECOND / 100);
    }
    assert_eq!(all(&sim).port_questions, 1);
    sim.rediscover(at(1, 1));
    sim.run_for(SECOND);
    sim.delivered.clear();
    sim.inject(at(1, 1), udp(A, B, 81));
    sim.run_for(SECOND);
    assert_eq!(sim.delivered.len(), 1);
}

/// The packets of a route wait for their new path when the last leaf of the route is withdrawn, at many moments of the
/// wait.
#[test]
fn a_wait_ends_although_what_it_waits_for_is_gone() {
    for version in [Version::Of10, Version::Of13] {
        for microseconds in (0..6_000).step_by(150) {
            let mut sim = ring(Arc::new(shortest), 4, 1, version);
            acquaint(&mut sim, at(3, 3), 80);
            sim.set_port(at(1, 2), false);
            sim.set_port(at(3, 2), false);
            sim.run_for(Duration::from_micros(microseconds));
            sim.report(Event::PortStatus {
                dpid: Dpid(3),
                status: PortStatus { reason: PortReason::Delete, port: Port::new(PortNo(3), [0; 6], "port") },
            });
            sim.run_for(Duration::from_millis(100));
            sim.check_settled().unwrap_or_else(|error| panic!("{version:?}, after {microseconds} µs: {error}"));
            assert_eq!(sim.stats().inconsistent_runs, 0);
        }
    }
}

#[test]
fn a_label_that_goes_with_its_switch_is_not_counted_as_refused() {
    let mut sim = ring(Arc::new(shortest), 3, 1, Version::Of13);
    for (from, to, frame) in [(1, 2, udp(A, B, 80)), (2, 1, udp(B, A, 80)), (1, 2, udp(A, B, 80))] {
        assert_ne!(from, to);
        send(&mut sim, at(from, 3), frame);
    }
    for _ in 0..4 {
        sim.restart(Dpid(2));
        sim.run_for(SECOND);
        sim.ports_of(Dpid(2)).into_iter().for_each(|port| sim.rediscover(port));
        sim.run_for(SECOND);
        send(&mut sim, at(2, 3), udp(B, A, 80));
        send(&mut sim, at(1, 3), udp(A, B, 80));
    }
    assert_eq!((all(&sim).labels_refused, all(&sim).labels_used_up), (0, 0));
}
