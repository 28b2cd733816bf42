//! Labels in networks: the fates that a packet with a label must never have, and the cost of labels.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::{Event, LabelRange, LeafSelection, Options};
use maple_core::network::{Hop, Location, Mac};
use maple_core::policy::{Net, PacketHandle, Policy};
use maple_core::report::Report;
use maple_core::route::Route;
use maple_core::state::{Value, Write};
use maple_sim::{Choices, Delivery, SimNetwork, SimSwitch};
use maple_wire::packet::build::Frame;
use maple_wire::{Dpid, Field, PortNo, Version};

use crate::scripts::{A, B, acquaint, at, ring, ring_with, send, shortest, udp};

/// Creates switches in a line, of these versions: port 1 to the one before, 2 to the next, 3 to 8 for hosts.
fn line(policy: Arc<dyn Policy>, options: &Options, shards: u8, versions: &[Version]) -> SimNetwork {
    let mut sim = SimNetwork::new(policy, shards, options, 7);
    for (dpid, version) in (1..).map(Dpid).zip(versions) {
        sim.add_switch(dpid, *version, 8);
    }
    sim.run();
    for dpid in 1..versions.len() as u64 {
        sim.add_link(at(dpid, 2), at(dpid + 1, 1));
    }
    sim.settle();
    sim
}

/// Counts the rules for labelled packets at a switch with several tables.
fn label_rules(sim: &mut SimNetwork, dpid: u64) -> usize {
    let is_label = |switch: &mut SimSwitch| switch.flows().iter().filter(|f| f.table_id == 2 && f.priority > 0).count();
    sim.switch(Dpid(dpid)).map(is_label).unwrap_or_default()
}

fn range(first: u16, last: u16) -> LabelRange {
    LabelRange::new(first..=last).expect("VLAN ids")
}

const OF13: [Version; 3] = [Version::Of13; 3];
const MIXED: [[Version; 3]; 4] = [
    OF13,
    [Version::Of10; 3],
    [Version::Of10, Version::Of13, Version::Of10],
    [Version::Of13, Version::Of10, Version::Of13],
];

/// Routes from switch 1 to port 3, and from switch 2 to port 4 of switch 3, where an address is rewritten.
fn by_ingress(pkt: &PacketHandle, _: &Net) -> Route {
    let hop = |switch, port| Hop::new(Dpid(switch), PortNo(port));
    match pkt.switch().0 {
        1 => Route::hops([hop(1, 2), hop(2, 2), hop(3, 3)]),
        2 => Route::hops([hop(2, 2), hop(2, 3), hop(3, 4)]).set(Field::Ipv4Dst, 0x0a00_0009),
        _ => Route::drop(),
    }
}

#[test]
fn packets_with_equal_headers_that_enter_elsewhere_go_elsewhere() {
    for versions in MIXED {
        let options = Options { track_hosts: false, ..Options::default() };
        let mut sim = line(Arc::new(by_ingress), &options, 2, &versions);
        let rewritten = Frame::ethernet(B.0, A.0).ipv4([10, 0, 0, 10], [10, 0, 0, 9]).udp(1000, 80).payload(b"hello");
        let twice = [at(2, 3), at(3, 4)].map(|at| Delivery { at, frame: rewritten.clone() });
        for round in 0..2 {
            let before = sim.stats().packet_ins;
            assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)), [Delivery { at: at(3, 3), frame: udp(A, B, 80) }]);
            let mut out = send(&mut sim, at(2, 4), udp(A, B, 80));
            out.sort();
            assert_eq!(out, twice);
            assert_eq!(sim.stats().packet_ins - before, if round == 0 { 2 } else { 0 }, "both have rules then");
        }
    }
}

#[test]
fn hosts_keep_all_their_vlan_ids_whatever_labels_have() {
    for versions in MIXED {
        for shards in [1, 2] {
            // One of the hosts stays silent for a long time.
            let host_timeout = Duration::from_secs(1_000_000);
            let options = Options { labels: range(5, 9), host_timeout, ..Options::default() };
            let mut sim = line(Arc::new(shortest), &options, shards, &versions);
            acquaint(&mut sim, at(3, 3), 1);
            type Tagged = fn(Frame, u16) -> Frame;
            let tags: [Tagged; 5] = [
                |frame, _| frame,
                |frame, vid| frame.vlan(vid),
                |frame, vid| frame.tag(0x8100, vid, 5),
                |frame, vid| frame.vlan(vid).vlan(vid),
                |frame, vid| frame.service_vlan(vid).vlan(vid),
            ];
            for (number, tag) in tags.iter().enumerate() {
                for vid in [5, 6, 7, 8, 9, 4094] {
                    let frame = tag(Frame::ethernet(B.0, A.0), vid);
                    let frame = frame.ipv4([10, 0, 0, 10], [10, 0, 0, 11]).udp(1000, 80).payload(&vid.to_be_bytes());
                    for _ in 0..2 {
                        let out = send(&mut sim, at(1, 3), frame.clone());
                        let want = [Delivery { at: at(3, 3), frame: frame.clone() }];
                        assert_eq!(out, want, "{versions:?}, tags {number}, {vid}");
                    }
                }
            }
            assert_eq!(sim.stats().link_drops, 0);
        }
    }
}

#[test]
fn a_translation_with_a_new_port_for_every_connection_costs_no_label_each() {
    let nat = |pkt: &PacketHandle, net: &Net| {
        let port = pkt.get(Field::UdpSrc).unwrap_or_default();
        let there = net.shortest_path(Location::new(pkt.switch(), PortNo(3)), at(3, 3));
        there.set(Field::UdpSrc, 60_000 - port).set(Field::Ipv4Src, 0x0a00_0063)
    };
    for versions in [OF13, [Version::Of10; 3]] {
        let options = Options { track_hosts: false, ..Options::default() };
        let mut sim = line(Arc::new(nat), &options, 1, &versions);
        let frame =
            |ip: [u8; 4], port| Frame::ethernet(B.0, A.0).ipv4(ip, [10, 0, 0, 11]).udp(port, 80).payload(b"hello");
        let connections = if versions == OF13 { 10_000 } else { 300 };
        for port in 1..=connections {
            sim.inject(at(1, 3), frame([10, 0, 0, 10], port));
            if port % 50 == 0 {
                sim.run_for(Duration::from_millis(20));
            }
        }
        sim.run();
        let mut want: Vec<Delivery> = (1..=connections)
            .map(|port| Delivery { at: at(3, 3), frame: frame([10, 0, 0, 99], 60_000 - port) })
            .collect();
        want.sort();
        sim.delivered.sort();
        assert!(sim.delivered == want, "each is translated");
        assert_eq!((sim.stats().leaves, sim.stats().labels), (u64::from(connections), 2));
    }
}

/// Routes to the port of switch 3 that a variable holds.
fn by_variable(pkt: &PacketHandle, net: &Net) -> Route {
    pkt.eth_dst();
    let port = net.var("port").and_then(|port| port.as_int()).unwrap_or(3);
    net.shortest_path(at(1, 3), at(3, port as u32))
}

/// Routes change all the time and three ids are reused again and again. Some packets are in flight for longer than
/// labels are kept. Each packet comes out where f said when it entered, or nowhere.
#[test]
fn a_packet_in_flight_whose_label_goes_comes_out_as_f_said_or_not_at_all() {
    let (mut lost, mut delivered) = (0, 0);
    for seed in 0..60 {
        let mut random = Choices::new(seed);
        let versions = *random.pick(&MIXED);
        let options = Options { track_hosts: false, labels: range(20, 22), ..Options::default() };
        let mut sim = line(Arc::new(by_variable), &options, 1 + random.below(3) as u8, &versions);
        let slow = random.chance(50);
        sim.link_delay = Duration::from_millis(if slow { 110 } else { 40 });
        let mut said = BTreeMap::from([(sim.now, 3)]);
        let mut sent = BTreeMap::new();
        for number in 0..300u32 {
            if random.chance(15) {
                let port = 3 + random.below(6) as i128;
                said.insert(sim.now, port as u32);
                let value = Some(Value::Int(port));
                sim.report(Event::Write(vec![Write::Var { name: "port".into(), value }]));
            }
            let frame = Frame::ethernet(B.0, A.0).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1, 2);
            sim.inject(at(1, 3), frame.payload(&number.to_be_bytes()));
            sent.insert(number, sim.now);
            sim.run_for(Duration::from_millis(3));
        }
        sim.run();
        let mut seen = std::collections::BTreeSet::new();
        for Delivery { at: came_out, frame } in std::mem::take(&mut sim.delivered) {
            let number = u32::from_be_bytes(frame[frame.len() - 4..].try_into().expect("four bytes"));
            assert!(seen.insert(number), "seed {seed}: {number} came out twice");
            // The allowed ports are f's answers since the packet entered, and earlier ones that the network may still
            // have followed.
            let entered = sent[&number];
            let from = said.range(..=entered).next_back().map(|(time, _)| *time).unwrap_or_default();
            let mut before = said.range(..from).rev();
            let followed = entered.0.saturating_sub(150_000_000);
            let old = before.by_ref().take_while(|(time, _)| time.0 >= followed).map(|(_, port)| *port);
            let old: Vec<u32> = old.chain(said.range(..from).next_back().map(|(_, port)| *port)).collect();
            let until = entered + options.hold + Duration::from_millis(10);
            let may: Vec<u32> = said.range(from..=until).map(|(_, port)| *port).chain(old).collect();
            assert!(
                came_out.switch == Dpid(3) && may.contains(&came_out.port.0),
                "seed {seed}: {number} at {came_out}, {may:?}"
            );
        }
        delivered += seen.len();
        let missing = 300 - seen.len();
        assert!(missing == 0 || slow, "seed {seed}: {missing} lost though labels are kept for longer than packets fly");
        lost += missing;
    }
    assert!(delivered > 60 * 250, "{delivered} delivered, {lost} lost");
}

#[test]
fn routes_that_find_no_label_go_through_the_controller_until_there_is_one() {
    let by_port = |pkt: &PacketHandle, net: &Net| {
        let port = pkt.get(Field::UdpDst).unwrap_or(3) as u32;
        if net.contains("closed", &Value::from(i128::from(port))) {
            return Route::drop();
        }
        net.shortest_path(at(1, 3), at(2, port))
    };
    for (version, shards) in [(Version::Of13, 1), (Version::Of13, 2), (Version::Of10, 2)] {
        let options = Options { track_hosts: false, labels: range(1, 3), ..Options::default() };
        let mut sim = line(Arc::new(by_port), &options, shards, &[version; 2]);
        for _ in 0..3 {
            for port in 3..=8 {
                let out = send(&mut sim, at(1, 3), udp(A, B, port));
                assert_eq!(out, [Delivery { at: at(2, u32::from(port)), frame: udp(A, B, port) }]);
            }
        }
        assert_eq!(sim.stats().labels, 3);
        assert!(sim.stats().labels_refused > 0);
        let said = |r: &Report| matches!(r, Report::NotLabelled { why, .. } if why.contains("has no label left"));
        assert_eq!(sim.reports.iter().filter(|report| said(report)).count(), 1, "{:?}", sim.reports);
        // Three of the routes end. The others get their labels.
        for port in 3..=5 {
            let (key, value) = (Value::from(port), Some(Value::from(true)));
            sim.report(Event::Write(vec![Write::Table { table: "closed".into(), key, value }]));
        }
        sim.run();
        sim.run_for(Duration::from_secs(30));
        let before = sim.stats().sent_by_controller;
        for port in 6..=8 {
            assert_eq!(send(&mut sim, at(1, 3), udp(A, B, port)).len(), 1);
        }
        assert_eq!((sim.stats().sent_by_controller, sim.stats().labels), (before, 3), "{version:?}");
    }
}

#[test]
fn floods_from_everywhere_share_the_labels_of_the_spanning_tree() {
    let mut sim = ring(
        Arc::new(|pkt: &PacketHandle, _: &Net| {
            pkt.eth_src();
            Route::flood()
        }),
        6,
        2,
        Version::Of13,
    );
    for switch in 1..=6 {
        for host in 0..5u8 {
            let from = Mac([0, 0, 0, 0, switch, host + 1]);
            assert_eq!(send(&mut sim, at(u64::from(switch), 3), udp(from, B, 80)).len(), 11);
        }
    }
    // There are five links with two directions each.
    assert_eq!((sim.stats().leaves, sim.stats().labels), (30, 10));
    (1..=6).for_each(|dpid| assert!(label_rules(&mut sim, dpid) <= 2));
}

#[test]
fn a_flow_whose_labels_exist_costs_nothing_behind_its_ingress() {
    let policy = |pkt: &PacketHandle, net: &Net| {
        pkt.get(Field::UdpDst);
        net.shortest_path(at(1, 3), at(16, 3))
    };
    let options = Options { track_hosts: false, ..Options::default() };
    let mut sim = line(Arc::new(policy), &options, 2, &[Version::Of13; 16]);
    assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 1)).len(), 1);
    let before = sim.flow_mods;
    for port in 2..12 {
        assert_eq!(send(&mut sim, at(1, 3), udp(A, B, port)).len(), 1);
    }
    assert_eq!(sim.flow_mods - before, 10);
    (2..=16).for_each(|dpid| assert_eq!(label_rules(&mut sim, dpid), 1));
    assert_eq!(sim.stats().link_packet_ins, 0);
}

#[test]
fn labels_of_a_route_that_is_gone_go_too() {
    for (version, shards) in [(Version::Of13, 1), (Version::Of13, 3), (Version::Of10, 2)] {
        let mut sim = ring_with(&Options::default(), Arc::new(shortest), 5, shards, version);
        let rules =
            |sim: &mut SimNetwork| (1..=5).map(|n| sim.switch(Dpid(n)).map_or(0, |s| s.flows().len())).sum::<usize>();
        send(&mut sim, at(1, 3), udp(A, B, 1));
        send(&mut sim, at(3, 3), udp(B, A, 1));
        sim.report(Event::Invalidate(LeafSelection::All));
        sim.run();
        let before = rules(&mut sim);
        for _ in 0..3 {
            send(&mut sim, at(1, 3), udp(A, B, 1));
            send(&mut sim, at(3, 3), udp(B, A, 1));
            assert!(sim.stats().labels > 0 && rules(&mut sim) > before);
            sim.report(Event::Invalidate(LeafSelection::All));
            sim.run();
            assert_eq!((rules(&mut sim), sim.stats().labels), (before, 0), "{version:?}");
        }
    }
}

#[test]
fn a_frame_that_comes_by_a_link_without_a_label_goes_nowhere() {
    let mut sim = ring(Arc::new(shortest), 3, 1, Version::Of13);
    acquaint(&mut sim, at(2, 3), 1);
    for frame in [Frame::ethernet(B.0, A.0).vlan(4000).raw(0x88b5, b"no label"), udp(A, B, 1)] {
        sim.inject(at(2, 1), frame);
        sim.run();
    }
    assert_eq!((sim.delivered.len(), sim.stats().link_drops), (0, 2));
}
