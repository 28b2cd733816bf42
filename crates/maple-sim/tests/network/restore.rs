//! The controller restarts, and switches go on with the rules of the earlier run.

use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::{Event, Options, Stats};
use maple_core::look_ups::{KeyField, KeyForm, LookUp};
use maple_core::network::{Location, Mac};
use maple_core::policy::{Net, PacketHandle, Policy};
use maple_core::route::Route;
use maple_core::state::{Value, Write};
use maple_core::trace::Cond;
use maple_sim::Choices;
use maple_sim::{Delivery, SimNetwork};
use maple_wire::msg::{FlowModCommand, Message};
use maple_wire::packet::build::Frame;
use maple_wire::{Constraint, Field, PortNo, Version};

use crate::reload::{PORTS, decided, list, tcp};
use crate::scripts::{A, B, at, flow_mods, ring_with, send, udp};

/// Creates an access list in front of a decision for each connection. A rule's priority then depends on the order in
/// which all packets came.
fn connections() -> Arc<dyn Policy> {
    Arc::new(move |pkt: &PacketHandle, net: &Net| {
        let tcp = Cond::default().and(Constraint::exact(Field::EthType, 0x800));
        for port in 1..=40 {
            let line = tcp.clone().and(Constraint::exact(Field::IpProto, 6));
            if pkt.matches(&line.and(Constraint::exact(Field::TcpDst, port))) {
                if port % 4 == 0 {
                    return Route::drop();
                }
                break;
            }
        }
        pkt.get(Field::TcpSrc);
        net.shortest_path(at(1, 3), at(2, 3))
    })
}

fn connection(from: u16, to: u16) -> Vec<u8> {
    Frame::ethernet(B.0, A.0).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(from, to).payload(b"")
}

fn there(port: u16) -> Delivery {
    Delivery { at: at(2, 3), frame: tcp(port) }
}

#[test]
fn a_restart_changes_no_rule_and_loses_no_packet() {
    for (before, after, version) in
        [(1, 1, Version::Of13), (2, 1, Version::Of13), (2, 2, Version::Of13), (1, 2, Version::Of10)]
    {
        let mut sim = decided(list(&[22]), before, version);
        assert!(sim.remembered() > usize::from(PORTS));
        for round in 0..3 {
            sim.messages = Some(Vec::new());
            sim.restart_controller(after);
            let mut sent = 0;
            while sent < 50 {
                sim.inject(at(1, 3), tcp(80));
                sim.inject(at(1, 3), tcp(22));
                sim.run_for(Duration::from_micros(300));
                sent += 1;
            }
            sim.run();
            let delivered = std::mem::take(&mut sim.delivered);
            assert!(delivered.iter().all(|one| *one == there(80)) && delivered.len() == sent, "{delivered:?}");
            let changes = flow_mods(&mut sim);
            assert!(changes.is_empty(), "round {round}, {version:?}, {before} to {after} shards: {changes:?}");
            let all = |count: fn(&Stats) -> u64| {
                sim.engines().iter().map(|engine| count(&engine.view().stats())).sum::<u64>()
            };
            assert_eq!(all(|stats| stats.leaves_installed), u64::from(PORTS) + 1);
            assert_eq!(all(|stats| stats.packet_ins), 0);
            assert_eq!(send(&mut sim, at(1, 3), tcp(81)), [there(81)]);
            assert_eq!(sim.stats().packet_ins, 0, "rules still carry packets");
        }
    }
}

/// Denies sources that a table has, and takes the way to where the destination is.
fn looking_up() -> Arc<dyn Policy> {
    let denied = LookUp::by("denied", KeyField { field: Field::EthSrc, form: KeyForm::Mac });
    Arc::new(move |pkt: &PacketHandle, net: &Net| {
        if net.has_key(&denied, None) {
            return Route::drop();
        }
        match net.locate_by(Field::EthDst, None).ok().flatten() {
            Some(to) if net.is_source_here(None) => {
                net.shortest_path(Location::new(pkt.switch(), PortNo(0)), to.location())
            }
            _ => net.flood(),
        }
    })
}

#[test]
fn a_restart_changes_no_rule_of_look_ups() {
    for (before, after) in [(1, 1), (2, 1), (2, 2), (1, 2)] {
        let options = Options { look_up_tables: 3, ..Options::default() };
        let mut sim = ring_with(&options, looking_up(), 3, before, Version::Of13);
        let hosts: Vec<Mac> = (1..=6).map(|n| Mac([2, 0, 0, 0, 0, n])).collect();
        let place = |number: usize| at(1 + number as u64 % 3, 3 + number as u32 / 3);
        let all = |sim: &mut SimNetwork| {
            let pairs = (0..6).flat_map(|from| (0..6).map(move |to| (from, to)));
            pairs.map(|(from, to)| send(sim, place(from), udp(hosts[from], hosts[to], 80))).collect::<Vec<_>>()
        };
        all(&mut sim);
        let deny = |n: usize| Write::Table {
            table: "denied".into(),
            key: Value::Mac(hosts[n]),
            value: Some(Value::Bool(true)),
        };
        sim.report(Event::Write(vec![deny(1), deny(4)]));
        sim.run();
        let expected = all(&mut sim);
        assert_eq!(expected, all(&mut sim), "nothing is open");
        for round in 0..3 {
            sim.messages = Some(Vec::new());
            sim.restart_controller(after);
            sim.run();
            assert_eq!(all(&mut sim), expected);
            let changes = flow_mods(&mut sim);
            assert!(changes.is_empty(), "round {round}, {before} to {after} shards: {changes:?}");
        }
        // The classes of the run before go on.
        sim.report(Event::Write(vec![deny(2)]));
        sim.run();
        assert!(all(&mut sim)[2 * 6].is_empty() && !all(&mut sim)[3 * 6].is_empty());
    }
}

#[test]
fn a_restart_changes_no_rule_of_routes_that_crossed_no_link_when_they_began() {
    for look_up_tables in [0, 3] {
        let options = Options { look_up_tables, ..Options::default() };
        let policy = Arc::new(|pkt: &PacketHandle, net: &Net| {
            pkt.get(Field::UdpDst);
            net.flood()
        });
        let mut sim = ring_with(&options, policy, 3, 1, Version::Of13);
        let flood = |sim: &mut SimNetwork, port| send(sim, at(1, 3), udp(A, B, port)).len();
        let links = [at(1, 1), at(1, 2)];
        links.into_iter().for_each(|port| sim.set_port(port, false));
        sim.run();
        let alone = [1, 2].map(|port| flood(&mut sim, port));
        links.into_iter().for_each(|port| sim.set_port(port, true));
        sim.run();
        links.into_iter().for_each(|port| sim.rediscover(port));
        sim.run();
        let connected = [1, 2].map(|port| flood(&mut sim, port));
        assert!(alone[0] < connected[0], "{alone:?} {connected:?}");
        sim.messages = Some(Vec::new());
        sim.restart_controller(1);
        sim.run();
        let changes = flow_mods(&mut sim);
        assert!(changes.is_empty(), "{look_up_tables} tables of look-ups: {changes:?}");
        // And the other way round.
        links.into_iter().for_each(|port| sim.set_port(port, false));
        sim.run();
        assert_eq!([1, 2].map(|port| flood(&mut sim, port)), alone);
        sim.messages = Some(Vec::new());
        sim.restart_controller(1);
        sim.run();
        let changes = flow_mods(&mut sim);
        assert!(changes.is_empty(), "{look_up_tables} tables of look-ups, no link: {changes:?}");
    }
}

#[test]
fn a_restart_keeps_priorities_also_where_labels_come_late() {
    let mut sim = ring_with(&Options::default(), connections(), 2, 2, Version::Of13);
    let mut random = Choices::new(1);
    for _ in 0..400 {
        let (from, to) = (random.below(30) as u16, random.below(60) as u16);
        send(&mut sim, at(1, 3), connection(1000 + from, to));
    }
    for max_delay in [2, 20, 100].map(Duration::from_millis) {
        sim.messages = Some(Vec::new());
        sim.max_delay = max_delay;
        sim.restart_controller(2);
        sim.run();
        let changes = flow_mods(&mut sim);
        assert!(changes.is_empty(), "{max_delay:?}: {} {:?}", changes.len(), &changes[0]);
    }
}

#[test]
fn new_connections_during_a_restart_change_no_rule_of_others() {
    for (seed, shards) in [(1, 1), (2, 2), (3, 2)] {
        let mut sim = ring_with(&Options::default(), connections(), 2, shards, Version::Of13);
        (0..300).for_each(|from| drop(send(&mut sim, at(1, 3), connection(1000 + from, 50))));
        sim.reseed(seed);
        sim.max_delay = Duration::from_millis(20);
        sim.messages = Some(Vec::new());
        sim.restart_controller(shards);
        for from in 0..200 {
            sim.inject(at(1, 3), connection(5000 + from, 50));
            sim.run_for(Duration::from_millis(1));
        }
        sim.run();
        let delivered = std::mem::take(&mut sim.delivered);
        assert_eq!(delivered.len(), 200, "with {shards} shards");
        let is_new = |message: &Message| matches!(message, Message::FlowMod(m) if m.command == FlowModCommand::Add);
        let changes = flow_mods(&mut sim);
        assert!(changes.iter().all(|(_, message)| is_new(message)), "with {shards} shards: {changes:?}");
        assert!(changes.len() >= 200);
    }
}

#[test]
fn packets_are_answered_before_the_rules_of_an_earlier_run_are_known() {
    for are_reported in [false, true] {
        let mut sim = ring_with(&Options::default(), connections(), 2, 2, Version::Of13);
        for from in 1000..1100 {
            send(&mut sim, at(1, 3), connection(from, 1));
        }
        let before: Vec<usize> = sim.switches().map(|switch| switch.flows().len()).collect();
        sim.messages = Some(Vec::new());
        sim.hold_rules_back();
        sim.restart_with_rules(are_reported);
        sim.restart_controller(2);
        sim.run_for(Duration::from_secs(1));
        for from in 2000..2010 {
            sim.inject(at(1, 3), connection(from, 1));
            sim.run_for(Duration::from_millis(20));
            let there = Delivery { at: at(2, 3), frame: connection(from, 1) };
            assert_eq!(std::mem::take(&mut sim.delivered), [there], "reported: {are_reported}");
        }
        let changes = flow_mods(&mut sim);
        assert!(changes.is_empty(), "reported: {are_reported}: {changes:?}");
        sim.messages = Some(Vec::new());
        sim.report_rules();
        sim.run();
        // The new connections have rules, and the rules of the others have not changed.
        let changes = flow_mods(&mut sim);
        let is_addition =
            |message: &Message| matches!(message, Message::FlowMod(change) if change.command == FlowModCommand::Add);
        assert!(
            changes.iter().all(|(_, message)| is_addition(message)) && changes.len() == 10,
            "reported: {are_reported}: {changes:?}"
        );
        let after: usize = sim.switches().map(|switch| switch.flows().len()).sum();
        assert_eq!(after, before.iter().sum::<usize>() + 10);
        assert_eq!(send(&mut sim, at(1, 3), connection(1050, 1)).len(), 1);
        assert_eq!(send(&mut sim, at(1, 3), connection(2005, 1)).len(), 1);
    }
}
