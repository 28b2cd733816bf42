//! Reloads: another policy replaces the running one.

use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::{Event, Options};
use maple_core::look_ups::{KeyField, KeyForm, LookUp};
use maple_core::policy::{Net, PacketHandle, Policy};
use maple_core::route::Route;
use maple_core::state::{Value, Write};
use maple_core::trace::Cond;
use maple_sim::{Delivery, SimNetwork};
use maple_wire::msg::Message;
use maple_wire::packet::build::Frame;
use maple_wire::{Constraint, Dpid, Field, PortNo, Version};

use crate::scripts::{A, B, at, flow_mods, ring_with, send, udp};

/// The number of TCP ports that the policies ask for.
pub const PORTS: u16 = 200;

/// Creates a policy like an access list of many lines, which denies some ports.
pub fn list(denied: &'static [u16]) -> Arc<dyn Policy> {
    Arc::new(move |pkt: &PacketHandle, net: &Net| {
        let tcp =
            Cond::default().and(Constraint::exact(Field::EthType, 0x800)).and(Constraint::exact(Field::IpProto, 6));
        for port in 1..=PORTS {
            if pkt.matches(&tcp.clone().and(Constraint::exact(Field::TcpDst, port.into()))) {
                let is_denied = denied.contains(&port);
                return if is_denied { Route::drop() } else { net.shortest_path(at(1, 3), at(2, 3)) };
            }
        }
        Route::drop()
    })
}

pub fn tcp(port: u16) -> Vec<u8> {
    Frame::ethernet(B.0, A.0).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(1000, port).payload(b"hello")
}

fn there(port: u16) -> [Delivery; 1] {
    [Delivery { at: at(2, 3), frame: tcp(port) }]
}

/// Creates a network that has decided packets to all ports.
pub fn decided(policy: Arc<dyn Policy>, shards: u8, version: Version) -> SimNetwork {
    let mut sim = ring_with(&Options::default(), policy, 2, shards, version);
    for port in 1..=PORTS + 1 {
        send(&mut sim, at(1, 3), tcp(port));
    }
    sim
}

/// Returns the flow-mods that a reload causes.
fn reload(sim: &mut SimNetwork, policy: Arc<dyn Policy>) -> Vec<(Dpid, Message)> {
    sim.messages = Some(Vec::new());
    sim.reload(policy);
    sim.run();
    flow_mods(sim)
}

/// Returns the rules of all switches, without their cookies.
fn rules(sim: &mut SimNetwork) -> Vec<String> {
    let mut all = Vec::new();
    for dpid in sim.dpids() {
        let flows = sim.switch(dpid).map(|switch| switch.flows()).unwrap_or_default();
        all.extend(flows.iter().map(|flow| {
            format!("{dpid} {} {} {:?} {:?}", flow.table_id, flow.priority, flow.matching, flow.instructions)
        }));
    }
    all.sort();
    all
}

#[test]
fn a_policy_that_says_the_same_changes_no_rule() {
    for (shards, version) in [(1, Version::Of13), (2, Version::Of13), (1, Version::Of10)] {
        let mut sim = decided(list(&[22]), shards, version);
        let before = rules(&mut sim);
        assert_eq!(reload(&mut sim, list(&[22])), []);
        assert_eq!(rules(&mut sim), before);
        let trial = sim.answers.trials.iter().find(|trial| trial.leaves > 0).expect("there were leaves");
        assert!(trial.leaves > usize::from(PORTS) && trial.same == trial.leaves && trial.failed == 0, "{trial:?}");
        let runs = sim.stats().packet_ins;
        assert_eq!(send(&mut sim, at(1, 3), tcp(80)), there(80));
        assert_eq!(sim.stats().packet_ins, runs, "rules still carry packets");
    }
}

#[test]
fn a_policy_with_one_other_line_changes_that_lines_rules() {
    for version in [Version::Of13, Version::Of10] {
        let mut sim = decided(list(&[22]), 2, version);
        let changed = reload(&mut sim, list(&[22, 80]));
        assert!((1..=3).contains(&changed.len()), "{changed:?}");
        let is_about_80 = |message: &Message| {
            let Message::FlowMod(flow_mod) = message else { return false };
            flow_mod.matching.constraints().any(|there| *there == Constraint::exact(Field::TcpDst, 80))
        };
        assert!(changed.iter().all(|(_, message)| is_about_80(message)), "{changed:?}");
        assert_eq!(send(&mut sim, at(1, 3), tcp(80)), []);
        assert_eq!(send(&mut sim, at(1, 3), tcp(81)), there(81));
        let first = rules(&mut sim);
        reload(&mut sim, list(&[22]));
        assert_eq!(send(&mut sim, at(1, 3), tcp(80)), there(80));
        reload(&mut sim, list(&[22, 80]));
        assert_eq!(send(&mut sim, at(1, 3), tcp(80)), []);
        assert_eq!(rules(&mut sim), first, "a, b, a ends with the rules of a");
    }
}

#[test]
fn the_way_back_to_a_policy_that_looks_things_up_is_warm() {
    let by_place = |_: &PacketHandle, net: &Net| {
        let by_destination = LookUp::by("places", KeyField { field: Field::EthDst, form: KeyForm::Mac });
        if net.look_up(&by_destination, None).is_some() { Route::to([PortNo(4)]) } else { Route::drop() }
    };
    let mut sim = ring_with(&Options::default(), Arc::new(by_place), 1, 1, Version::Of13);
    let place = Write::Table { table: "places".into(), key: Value::Mac(B), value: Some(Value::from(1)) };
    sim.report(Event::Write(vec![place]));
    sim.run();
    let unplaced = udp(A, A, 80);
    assert_eq!(send(&mut sim, at(1, 3), unplaced), []);
    assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)).len(), 1);
    let before = rules(&mut sim);
    reload(&mut sim, Arc::new(|_: &PacketHandle, _: &Net| Route::drop()));
    assert_eq!(sim.stats().leaves, 1, "the first of the two packets stands for both");
    reload(&mut sim, Arc::new(by_place));
    assert_eq!(rules(&mut sim), before);
}

#[test]
fn a_policy_that_fails_says_so_in_the_trial() {
    let mut sim = decided(list(&[]), 1, Version::Of13);
    let fails = |pkt: &PacketHandle, _: &Net| {
        assert!(pkt.get(Field::TcpDst) != Some(80), "no web");
        Route::drop()
    };
    sim.reload(Arc::new(fails));
    sim.run();
    let trial = sim.answers.trials.pop().expect("it was tried");
    assert_eq!(trial.failed, 1);
    let (error, leaves) = trial.errors.first_key_value().expect("an error");
    assert!(error.contains("no web") && *leaves == 1, "{error}");
    assert_eq!(send(&mut sim, at(1, 3), tcp(81)), [], "it was adopted all the same: that is not the engine's business");
}

#[test]
fn packets_that_come_meanwhile_get_one_answer_or_the_other() {
    let mut sim = decided(list(&[]), 2, Version::Of13);
    sim.reload(list(&[80]));
    let mut delivered = 0;
    for _ in 0..50 {
        sim.inject(at(1, 3), tcp(80));
        sim.inject(at(1, 3), tcp(81));
        sim.run_for(Duration::from_micros(200));
    }
    sim.run();
    for delivery in std::mem::take(&mut sim.delivered) {
        if delivery.frame == tcp(81) {
            delivered += 1;
        }
    }
    assert_eq!(delivered, 50, "what both say is always done");
}
