//! Drops are counted by source line and host, whether a switch or the controller dropped the packets.

use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::{DropCause, Dropped, Options};
use maple_core::look_ups::{KeyField, KeyForm, LookUp};
use maple_core::network::{Facts, HostFacts, Mac};
use maple_core::policy::{Net, PacketHandle, Policy};
use maple_core::policy_error::PolicyError;
use maple_core::route::Route;
use maple_core::state::{Value, Write};
use maple_sim::SimNetwork;
use maple_wire::{Dpid, Field, Version};

use crate::scripts::{A, B, at, udp};

const PERIOD: Duration = Duration::from_secs(60);
const REST: Duration = Duration::from_millis(200);

/// A policy that drops packets of hosts in a table, and packets to port 9, and fails on packets to port 10.
struct Firewall;

impl Policy for Firewall {
    fn decide(&self, pkt: &PacketHandle, net: &Net) -> Result<Route, PolicyError> {
        if net.contains("blocked", &Value::Mac(pkt.eth_src())) {
            return Ok(Route::drop());
        }
        match pkt.get(Field::UdpDst) {
            Some(9) => Ok(Route::drop()),
            Some(10) => Err(PolicyError::Exception("Traceback\nKeyError: 10".into())),
            _ => Ok(net.flood()),
        }
    }
}

fn firewall() -> Arc<dyn Policy> {
    Arc::new(Firewall)
}

fn network(version: Version, policy: Arc<dyn Policy>, change: impl FnOnce(&mut Options)) -> SimNetwork {
    let mut options = Options { audit: PERIOD, ..Options::default() };
    change(&mut options);
    let mut sim = SimNetwork::new(policy, 2, &options, 7);
    (1..=2).for_each(|dpid| sim.add_switch(Dpid(dpid), version, 4));
    sim.run_for(REST);
    sim.add_link(at(1, 4), at(2, 4));
    sim.run_for(REST);
    sim.settle_ports();
    sim.run_for(REST);
    sim
}

fn drops(sim: &SimNetwork, minutes: u64) -> Vec<Dropped> {
    let each = |dpid| sim.engines().iter().flat_map(move |engine| engine.view().drops(Dpid(dpid), minutes));
    (1..=2).flat_map(each).collect()
}

fn blocked(mac: Mac, is_blocked: bool) -> Vec<Write> {
    let value = is_blocked.then_some(true.into());
    vec![Write::Table { table: "blocked".into(), key: Value::Mac(mac), value }]
}

fn send(sim: &mut SimNetwork, packets: usize, port: u16) {
    for _ in 0..packets {
        sim.inject(at(1, 1), udp(A, B, port));
        sim.run_for(Duration::from_millis(5));
    }
}

/// Returns the line, the host and the count of each drop.
fn lines(sim: &SimNetwork, minutes: u64) -> Vec<(u32, Option<Mac>, u64)> {
    let line = |one: &Dropped| (one.cause.line().map_or(0, |line| line.line), one.host, one.packets);
    drops(sim, minutes).iter().map(line).collect()
}

#[test]
fn every_dropped_packet_is_counted_for_its_line_and_host() {
    for version in [Version::Of10, Version::Of13] {
        let mut sim = network(version, firewall(), |_| {});
        sim.write_and_settle(blocked(A, true));
        // The controller drops the first packet, and the switch the others.
        send(&mut sim, 20, 80);
        sim.run_for(2 * PERIOD);
        let reported = drops(&sim, 15);
        let [one] = &reported[..] else { panic!("{reported:?}") };
        assert_eq!((one.switch, one.port, one.packets), (Dpid(1), Some(at(1, 1).port), 20));
        assert_eq!(one.host, Some(A));
        let line = one.cause.line().expect("a line");
        assert!(line.file.ends_with("network/drops.rs"), "{line}");
        assert!(one.example.starts_with("udp "), "{}", one.example);
        // The rule is gone when the host is free again, and its last counter counts, if the switch reports it.
        send(&mut sim, 5, 80);
        sim.write_and_settle(blocked(A, false));
        send(&mut sim, 5, 80);
        sim.run_for(2 * PERIOD);
        let all: u64 = lines(&sim, 15).iter().map(|(_, _, packets)| packets).sum();
        assert_eq!(all, 25, "{version}");
    }
}

#[test]
fn lines_are_told_apart_and_failures_have_their_error() {
    let mut sim = network(Version::Of13, firewall(), |_| {});
    send(&mut sim, 3, 9);
    send(&mut sim, 2, 10);
    sim.write_and_settle(blocked(A, true));
    send(&mut sim, 4, 80);
    sim.run_for(2 * PERIOD);
    let reported = drops(&sim, 15);
    let counts: Vec<u64> = reported.iter().map(|one| one.packets).collect();
    let distinct: std::collections::BTreeSet<_> = reported.iter().filter_map(|one| one.cause.line()).collect();
    assert_eq!((counts.iter().sum::<u64>(), distinct.len()), (9, 2), "{reported:?}");
    let failed: Vec<_> = reported.iter().filter(|one| matches!(one.cause, DropCause::Failed(_))).collect();
    assert_eq!(failed.len(), 1);
    assert_eq!((failed[0].packets, failed[0].host), (2, Some(A)));
    assert_eq!(failed[0].cause.to_string(), "the policy failed: KeyError: 10");
}

#[test]
fn drops_by_a_rule_for_several_hosts_count_for_the_host_that_has_sent() {
    const C: Mac = Mac([0, 0, 0, 0, 0, 0xc]);
    let key = LookUp::by("blocked", KeyField { field: Field::EthSrc, form: KeyForm::Mac });
    let policy = move |_: &PacketHandle, net: &Net| if net.has_key(&key, None) { Route::drop() } else { net.flood() };
    let mut sim = network(Version::Of13, Arc::new(policy), |options| options.look_up_tables = 2);
    sim.write_and_settle([blocked(A, true), blocked(C, true)].concat());
    let send = |sim: &mut SimNetwork, senders: &[(u32, Mac)]| {
        for _ in 0..10 {
            senders.iter().for_each(|(port, host)| sim.inject(at(1, *port), udp(*host, B, 80)));
            sim.run_for(Duration::from_millis(5));
        }
        sim.run_for(2 * PERIOD);
    };
    let of_last = |sim: &SimNetwork, minutes| -> Vec<(Option<u32>, Option<Mac>, u64)> {
        let one = |one: &Dropped| (one.port.map(|port| port.0), one.host, one.packets);
        drops(sim, minutes).iter().map(one).collect()
    };
    // Each host becomes known. What the switch drops in the readings after a change of keys may be of either.
    send(&mut sim, &[(1, A), (2, B), (3, C)]);
    assert_eq!(of_last(&sim, 15).iter().map(|(.., packets)| packets).sum::<u64>(), 20);
    sim.run_for(20 * PERIOD);
    let rules = sim.switch(Dpid(1)).expect("a switch").flows();
    let drop_rules = rules.iter().filter(|flow| flow.instructions.is_empty()).count();
    assert_eq!(drop_rules, 1, "one rule for all");
    send(&mut sim, &[(1, A), (2, B)]);
    assert_eq!(of_last(&sim, 15), [(Some(1), Some(A), 10)], "B is not blocked");
    sim.run_for(20 * PERIOD);
    send(&mut sim, &[(1, A), (2, B), (3, C)]);
    // The hosts were forgotten meanwhile, so the controller drops the first packet of each.
    assert_eq!(of_last(&sim, 15), [(None, None, 18), (Some(1), Some(A), 1), (Some(3), Some(C), 1)]);
    let example = drops(&sim, 15)[0].example.to_string();
    assert_eq!(example, "any packet, key in blocked[eth_src]: yes, from 00:00:00:00:00:0a or 00:00:00:00:00:0c");
}

#[test]
fn a_leaf_that_begins_to_drop_has_not_dropped_what_it_forwarded() {
    let policy = |pkt: &PacketHandle, net: &Net| {
        let _ = pkt.eth_src();
        if net.var("closed").is_some() { Route::drop() } else { net.flood() }
    };
    let mut sim = network(Version::Of13, Arc::new(policy), |_| {});
    send(&mut sim, 20, 80);
    sim.run_for(2 * PERIOD);
    send(&mut sim, 7, 80);
    sim.write_and_settle(vec![Write::Var { name: "closed".into(), value: Some(true.into()) }]);
    assert_eq!(lines(&sim, 15), [], "nothing is dropped yet");
    sim.run_for(2 * PERIOD);
    assert_eq!(lines(&sim, 15), []);
    send(&mut sim, 6, 80);
    sim.run_for(2 * PERIOD);
    let reported = lines(&sim, 15);
    assert_eq!(reported.iter().map(|(_, _, packets)| packets).sum::<u64>(), 6, "{reported:?}");
}

#[test]
fn a_host_at_another_port_and_a_refused_one_have_a_reason() {
    let place = HostFacts { at: Some(at(2, 2)), ..HostFacts::default() };
    let facts = Facts::new(Default::default(), [(A, place)].into());
    let mut sim = network(Version::Of13, firewall(), |options| options.facts = Arc::new(facts));
    send(&mut sim, 3, 80);
    let reported = drops(&sim, 1);
    let [one] = &reported[..] else { panic!("{reported:?}") };
    assert_eq!((one.host, one.packets, &one.cause), (Some(A), 3, &DropCause::Elsewhere(at(2, 2))));
    assert_eq!(one.cause.to_string(), "the host is at another port (2:2)");
    assert_eq!(one.cause.line(), None);
}

#[test]
fn a_wide_rule_is_of_several_hosts() {
    let policy = |pkt: &PacketHandle, net: &Net| {
        if pkt.get(Field::UdpDst) == Some(9) { Route::drop() } else { net.flood() }
    };
    let mut sim = network(Version::Of13, Arc::new(policy), |_| {});
    send(&mut sim, 3, 9);
    for _ in 0..3 {
        sim.inject(at(1, 2), udp(B, A, 9));
        sim.run_for(REST);
    }
    sim.run_for(2 * PERIOD);
    let reported = drops(&sim, 15);
    assert_eq!(reported.iter().map(|one| one.packets).sum::<u64>(), 6, "{reported:?}");
    let wide: Vec<_> = reported.iter().filter(|one| one.host.is_none()).collect();
    assert_eq!(wide.len(), 1, "the rule does not tell hosts apart: {reported:?}");
    assert_eq!((wide[0].port, wide[0].packets >= 3), (None, true));
    assert!(reported.iter().all(|one| one.cause.line().is_some()));
}

#[test]
fn packets_that_waited_in_vain_are_of_the_line_that_waits() {
    let policy = |pkt: &PacketHandle, net: &Net| {
        let _ = pkt.get(Field::UdpDst);
        if net.var("ready").is_none() { net.retry() } else { net.flood() }
    };
    let mut sim = network(Version::Of13, Arc::new(policy), |options| options.parked_packets = 1);
    (1..=4).for_each(|port| send(&mut sim, 1, port));
    let reported = drops(&sim, 1);
    assert_eq!(reported.iter().map(|one| one.packets).sum::<u64>(), 3, "one still waits: {reported:?}");
    assert!(
        reported.iter().all(|one| matches!(one.cause, DropCause::Waited(_)) && one.cause.line().is_some()),
        "{reported:?}"
    );
}

#[test]
fn a_path_is_no_drop() {
    let policy = |pkt: &PacketHandle, net: &Net| {
        let _ = pkt.eth_src();
        net.shortest_path(at(1, 1), at(2, 1))
    };
    let mut sim = network(Version::Of13, Arc::new(policy), |_| {});
    send(&mut sim, 5, 80);
    sim.run_for(2 * PERIOD);
    assert_eq!(sim.delivered.iter().filter(|one| one.at == at(2, 1)).count(), 5);
    assert_eq!(lines(&sim, 15), []);
}
