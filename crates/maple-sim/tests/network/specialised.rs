//! Specialised leaves (`compile/incremental/specialise/`) whose packets go through several switches.

use std::sync::Arc;

use maple_core::engine::{Options, ReportedRule};
use maple_core::policy::{Net, PacketHandle};
use maple_core::route::Route;
use maple_core::trace::Cond;
use maple_sim::Delivery;
use maple_sim::oracles::Strategy;
use maple_wire::packet::build::Frame;
use maple_wire::{Constraint, Dpid, Field, Version};

use crate::scripts::{A, B, at, ring_with, send};

/// Returns options with which leaves are specialised even if few barrier rules are required.
fn for_small_tables() -> Options {
    Options { new_table: Strategy::MapleForSmallTables.new_table(), ..Options::default() }
}

/// Matches packets from one of eight networks.
fn network(number: u128) -> Constraint {
    Constraint::masked(Field::Ipv4Src, number << 29, 0xe000_0000)
}

/// Builds a datagram from one of these networks.
fn udp(network: u8, port: u16) -> Vec<u8> {
    Frame::ethernet(B.0, A.0).ipv4([network << 5, 0, 0, 1], [10, 0, 0, 2]).udp(1000, port).payload(b"hello")
}

/// Blocks port 80 for six networks, routes it for the others, and drops packets to other ports.
fn blocks_six_of_eight(pkt: &PacketHandle, net: &Net) -> Route {
    let to_80 = Cond::default()
        .and(Constraint::exact(Field::EthType, 0x800))
        .and(Constraint::exact(Field::IpProto, 17))
        .and(Constraint::exact(Field::UdpDst, 80));
    if (1..=6).any(|number| pkt.matches(&to_80.clone().and(network(number)))) || !pkt.matches(&to_80) {
        return Route::drop();
    }
    net.shortest_path(at(1, 3), at(2, 3))
}

#[test]
fn each_specialised_leaf_has_a_rule_of_its_own_where_packets_enter() {
    let options = for_small_tables();
    for shards in [1, 2] {
        let mut sim = ring_with(&options, Arc::new(blocks_six_of_eight), 2, shards, Version::Of13);
        assert_eq!(send(&mut sim, at(1, 3), udp(0, 5)), []);
        for network in [0, 7] {
            let there = [Delivery { at: at(2, 3), frame: udp(network, 80) }];
            assert_eq!(send(&mut sim, at(1, 3), udp(network, 80)), there);
            let before = sim.stats();
            assert_eq!(send(&mut sim, at(1, 3), udp(network, 80)), there);
            let after = sim.stats();
            assert_eq!((after.packet_ins, after.link_packet_ins), (before.packet_ins, before.link_packet_ins));
        }
        assert_eq!(sim.stats().runs, 3, "network 7 is not among the packets of the first leaf");
        let flows = sim.switch(Dpid(1)).map(|switch| switch.flows()).unwrap_or_default();
        let is_narrowed = |flow: &ReportedRule| flow.matching.constraints().any(|there| *there == network(7));
        assert!(flows.iter().any(is_narrowed), "{flows:?}");
        let why: Vec<String> =
            sim.engines().iter().flat_map(|engine| engine.view().rules(Dpid(1))).map(|rule| rule.why).collect();
        assert!(why.iter().any(|why| why.ends_with("specialised to ipv4_src=224.0.0.0/3")), "{why:?}");
        for network in 1..=6 {
            assert_eq!(send(&mut sim, at(1, 3), udp(network, 80)), []);
        }
    }
}

/// Builds an IPv4 frame from one of eight networks to one of eight networks.
fn between(src: u8, dst: u8) -> Vec<u8> {
    Frame::ethernet(B.0, A.0).ipv4([src << 5, 0, 0, 1], [dst << 5, 0, 0, 1]).udp(1000, 80).payload(b"hello")
}

/// Blocks six networks as sources. For sources in the lower half, it also blocks six as destinations.
fn blocks_both_ways(pkt: &PacketHandle, net: &Net) -> Route {
    if pkt.get(Field::EthType) != Some(0x800) {
        return Route::drop();
    }
    let ip = Cond::default().and(Constraint::exact(Field::EthType, 0x800));
    let lower = ip.clone().and(Constraint::masked(Field::Ipv4Src, 0, 1 << 31));
    let to = |number: u128| Constraint::masked(Field::Ipv4Dst, number << 29, 0xe000_0000);
    if (1..=6).any(|number| pkt.matches(&ip.clone().and(network(number))))
        || (1..=6).any(|number| pkt.matches(&lower.clone().and(to(number))))
    {
        return Route::drop();
    }
    net.shortest_path(at(1, 3), at(2, 3))
}

#[test]
fn leaves_that_are_narrowed_in_several_fields_stand_beside_others() {
    let mut sim = ring_with(&for_small_tables(), Arc::new(blocks_both_ways), 2, 1, Version::Of13);
    assert_eq!(send(&mut sim, at(1, 3), Frame::ethernet(B.0, A.0).raw(0x88b5, b"not IPv4")), []);
    for (src, dst) in [(0, 0), (7, 0), (7, 7), (0, 7)] {
        let there = [Delivery { at: at(2, 3), frame: between(src, dst) }];
        assert_eq!(send(&mut sim, at(1, 3), between(src, dst)), there);
        let before = sim.stats();
        assert_eq!(send(&mut sim, at(1, 3), between(src, dst)), there);
        let after = sim.stats();
        assert_eq!(after.packet_ins, before.packet_ins, "from {src} to {dst}");
        assert_eq!(after.link_packet_ins, before.link_packet_ins, "from {src} to {dst}");
    }
    let why: Vec<String> = sim.engines()[0].view().rules(Dpid(1)).into_iter().map(|rule| rule.why).collect();
    assert!(why.iter().any(|why| why.matches("specialised to").count() == 2), "{why:?}");
}
