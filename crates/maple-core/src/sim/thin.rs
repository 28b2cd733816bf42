//! Rules of transit tables that packets can do without: left out, replaced by one, and back before they are needed.

use std::sync::Arc;
use std::time::Duration;

use maple_wire::packet::build::Frame;
use maple_wire::{Action, Dpid, Field, Instruction, PortNo, Version};

use super::{Delivery, Sim};
use crate::engine::{Event, InstalledFlow, Options, Selection, Stats};
use crate::network::{Location, Mac};
use crate::policy::{Net, PacketHandle, Policy};
use crate::route::Route;
use crate::state::{Value, Write};

/// The port of every switch that leads to the first of its hosts.
const HOSTS: u32 = 10;

fn mac(switch: u64, host: u32) -> Mac {
    Mac::from_bits(u128::from(switch) << 8 | u128::from(host))
}

fn home(mac: Mac) -> Location {
    let bits = mac.bits();
    Location::new(Dpid((bits >> 8) as u64), PortNo(HOSTS + (bits & 0xff) as u32))
}

/// A packet between two hosts, to a port.
fn udp(from: Mac, to: Mac, port: u16) -> Vec<u8> {
    let ip = |mac: Mac| [10, 0, mac.0[4], mac.0[5]];
    Frame::ethernet(to.0, from.0).ipv4(ip(from), ip(to)).udp(1000, port).payload(b"hello")
}

fn to_its_home(pkt: &PacketHandle, net: &Net) -> Route {
    net.shortest_path(home(pkt.eth_src()), home(pkt.eth_dst()))
}

/// Some ports are forbidden, and what goes to one host by port 80 takes a detour when there is one.
fn acl(pkt: &PacketHandle, net: &Net) -> Route {
    for port in [23, 53, 80] {
        if pkt.is(Field::UdpDst, port) {
            return if port == 53 { Route::drop() } else { to_its_home(pkt, net) };
        }
    }
    if pkt.equals(Field::Ipv4Src, 0x0a00_0100, 0xffff_ff01, None) {
        return Route::drop();
    }
    to_its_home(pkt, net)
}

/// Switches, joined by links from port to port, with hosts from port [`HOSTS`] on.
fn network(policy: Arc<dyn Policy>, thin_after: Option<Duration>, links: &[(Location, Location)]) -> Sim {
    let options = Options { track_hosts: false, thin_after, ..Options::default() };
    let mut sim = Sim::new(policy, 2, &options, 7);
    let last = links.iter().map(|(a, b)| a.switch.0.max(b.switch.0)).max().unwrap_or(1);
    (1..=last).for_each(|dpid| sim.add_switch(Dpid(dpid), Version::Of13, HOSTS + 8));
    sim.run();
    links.iter().for_each(|(a, b)| sim.add_link(*a, *b));
    sim.run();
    sim.settle_ports();
    sim.run_for(Duration::from_secs(2));
    sim
}

fn line(n: u64) -> Vec<(Location, Location)> {
    (1..n).map(|dpid| (Location::new(Dpid(dpid), PortNo(2)), Location::new(Dpid(dpid + 1), PortNo(1)))).collect()
}

/// Four pods of four switches, and four more that join them: 16 hosts in all.
fn fat_tree() -> Vec<(Location, Location)> {
    let at = |switch: u64, port: u64| Location::new(Dpid(switch), PortNo(port as u32));
    let (edge, aggregation, core) = (|pod: u64, i: u64| 1 + pod * 2 + i, |pod: u64, i: u64| 9 + pod * 2 + i, 17);
    let mut links = Vec::new();
    for pod in 0..4 {
        for (i, j) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            links.push((at(edge(pod, i), 1 + j), at(aggregation(pod, j), 1 + i)));
            links.push((at(aggregation(pod, i), 3 + j), at(core + 2 * i + j, 1 + pod)));
        }
    }
    links
}

fn stats(sim: &Sim) -> Stats {
    let mut all = Stats::default();
    sim.engines().iter().for_each(|engine| all += engine.stats());
    all
}

/// How many rules for packets from other switches there are, at a switch or all.
fn transit_rules(sim: &mut Sim, switch: Option<u64>) -> usize {
    let all: Vec<Dpid> = sim.dpids().into_iter().filter(|dpid| switch.is_none_or(|one| one == dpid.0)).collect();
    // Two are the engine's own.
    let count = |sim: &mut Sim, dpid| {
        sim.switch(dpid).map_or(0, |switch| switch.flows.iter().filter(|flow| flow.table_id == 2).count() - 2)
    };
    all.into_iter().map(|dpid| count(sim, dpid)).sum()
}

fn barriers(sim: &mut Sim, switch: u64) -> usize {
    let Some(switch) = sim.switch(Dpid(switch)) else { return 0 };
    let compiled = |priority| (1..65000).contains(&priority);
    let asks = |flow: &InstalledFlow| flow.instructions == [Instruction::ApplyActions(vec![Action::to_controller()])];
    switch.flows.iter().filter(|flow| flow.table_id == 2 && compiled(flow.priority) && asks(flow)).count()
}

/// Sends a packet, which must come out where its host is.
fn send(sim: &mut Sim, from: Mac, to: Mac, port: u16) {
    sim.inject(home(from), udp(from, to, port));
    sim.run_for(Duration::from_millis(100));
    let out = std::mem::take(&mut sim.delivered);
    assert_eq!(out, [Delivery { at: home(to), frame: udp(from, to, port) }]);
}

#[test]
fn a_switch_in_the_middle_has_no_barriers_and_one_rule_a_destination() {
    let mut rules = Vec::new();
    for thin_after in [None, Some(Duration::from_secs(1))] {
        let mut sim = network(Arc::new(acl), thin_after, &line(3));
        for (to, from, port) in (0..4).flat_map(|to| (1..6).flat_map(move |from| [22, 23, 80].map(|p| (to, from, p)))) {
            let (from, to) = (mac(1, from | 1), mac(3, to));
            send(&mut sim, from, to, port);
        }
        sim.run();
        rules.push((transit_rules(&mut sim, Some(2)), barriers(&mut sim, 2), stats(&sim).rules_spared));
    }
    println!("three switches in a row, rules, barriers and rules spared at the second: {rules:?}");
    let [(before, barriers, 0), (after, 0, spared)] = rules[..] else { panic!("{rules:?}") };
    assert!(barriers > 0 && after == 4 && before > 30 && spared > 30, "{rules:?}");
}

#[test]
fn shortest_paths_in_a_fat_tree_need_a_rule_a_destination_and_link() {
    let by_ports = |pkt: &PacketHandle, net: &Net| {
        pkt.get(Field::UdpDst);
        to_its_home(pkt, net)
    };
    let mut rules = Vec::new();
    for thin_after in [None, Some(Duration::from_secs(1))] {
        let mut sim = network(Arc::new(by_ports), thin_after, &fat_tree());
        let hosts: Vec<Mac> = (1..=8).flat_map(|switch| [mac(switch, 0), mac(switch, 1)]).collect();
        for (from, to) in hosts.iter().flat_map(|from| hosts.iter().map(move |to| (*from, *to))) {
            if from != to {
                [80, 443].iter().for_each(|port| send(&mut sim, from, to, *port));
            }
        }
        sim.run();
        rules.push((transit_rules(&mut sim, None), sim.flow_mods));
    }
    println!("a fat tree of 16 hosts, transit rules and flow-mods in all: {rules:?}");
    assert!(rules[1].0 * 4 < rules[0].0, "{rules:?}");
}

#[test]
fn a_leaf_that_agrees_with_the_others_is_installed_without_a_change_at_transit_switches() {
    let mut sim = network(Arc::new(acl), Some(Duration::from_secs(1)), &line(4));
    let to = mac(4, 1);
    [22, 23].iter().for_each(|port| send(&mut sim, mac(1, 1), to, *port));
    sim.run();
    let count = |sim: &mut Sim| [2, 3].map(|dpid| transit_rules(sim, Some(dpid)));
    assert_eq!(count(&mut sim), [1, 1]);
    let (flow_mods, installed) = (sim.flow_mods, stats(&sim).leaves_installed);
    for from in [3, 5] {
        send(&mut sim, mac(1, from), to, 80);
    }
    // One rule each where they enter, and where they leave none either: the link's rule does that too.
    assert_eq!((stats(&sim).leaves_installed - installed, sim.flow_mods - flow_mods), (2, 2));
    assert_eq!(count(&mut sim), [1, 1]);
}

/// What goes to the host by port 80 leaves by another port while a switch says so.
fn diverted(pkt: &PacketHandle, net: &Net) -> Route {
    let (from, to) = (home(pkt.eth_src()), home(pkt.eth_dst()));
    if pkt.is(Field::UdpDst, 80) && net.var("diverted").is_some() {
        return net.shortest_path(from, Location::new(to.switch, PortNo(to.port.0 + 4)));
    }
    net.shortest_path(from, to)
}

#[test]
fn a_rule_for_several_gives_way_to_what_differs_and_comes_back_when_that_is_gone() {
    let mut sim = network(Arc::new(diverted), Some(Duration::from_secs(1)), &line(3));
    let (from, to) = (mac(1, 1), mac(3, 1));
    let other = Location::new(Dpid(3), PortNo(HOSTS + 5));
    for (from, port) in [(1, 80), (1, 22), (2, 80), (2, 22)] {
        send(&mut sim, mac(1, from), to, port);
    }
    sim.run();
    assert_eq!(transit_rules(&mut sim, Some(3)), 1);
    let divert = |sim: &mut Sim, on: bool| {
        let value = on.then(|| Value::from(true));
        sim.tell(Event::Write(vec![Write::Var { name: "diverted".into(), value }]));
    };
    divert(&mut sim, true);
    sim.run_for(Duration::from_millis(500));
    sim.inject(home(from), udp(from, to, 80));
    sim.run_for(Duration::from_millis(100));
    assert_eq!(std::mem::take(&mut sim.delivered), [Delivery { at: other, frame: udp(from, to, 80) }]);
    send(&mut sim, from, to, 22);
    assert!(transit_rules(&mut sim, Some(3)) > 1);
    divert(&mut sim, false);
    sim.run();
    send(&mut sim, from, to, 80);
    assert_eq!(transit_rules(&mut sim, Some(3)), 1);
}

#[test]
fn what_changes_again_and_again_is_merged_less_and_less_often() {
    let mut sim = network(Arc::new(diverted), Some(Duration::from_secs(1)), &line(3));
    for (from, port) in [(1, 80), (1, 22), (2, 80), (2, 22)] {
        send(&mut sim, mac(1, from), mac(3, 1), port);
    }
    sim.run();
    let mut flow_mods = Vec::new();
    for round in 0..40 {
        let (before, value) = (sim.flow_mods, (round % 2 == 0).then(|| Value::from(true)));
        sim.tell(Event::Write(vec![Write::Var { name: "diverted".into(), value }]));
        sim.run_for(Duration::from_millis(2500));
        flow_mods.push(sim.flow_mods - before);
    }
    let (first, last): (u64, u64) = (flow_mods[..8].iter().sum(), flow_mods[32..].iter().sum());
    assert!(last < first, "{flow_mods:?}");
}

#[test]
fn a_packet_that_is_later_than_its_rules_still_comes_out() {
    for thin_after in [None, Some(Duration::from_secs(1))] {
        let mut sim = network(Arc::new(acl), thin_after, &line(3));
        let (from, to) = (mac(1, 1), mac(3, 1));
        send(&mut sim, from, to, 22);
        sim.run();
        // Longer than parts that were withdrawn are kept for packets under way.
        sim.link_delay = Duration::from_millis(80);
        sim.inject(home(from), udp(from, to, 22));
        sim.run_for(Duration::from_millis(10));
        sim.tell(Event::Invalidate(Selection::All));
        sim.run_for(Duration::from_millis(90));
        assert!(sim.delivered.is_empty(), "it waits at the second switch, which has nothing for it any more");
        sim.inject(home(from), udp(from, to, 22));
        sim.run_for(Duration::from_millis(400));
        let one = Delivery { at: home(to), frame: udp(from, to, 22) };
        assert_eq!(std::mem::take(&mut sim.delivered), [one.clone(), one], "rules left out: {thin_after:?}");
        assert_eq!(stats(&sim).link_drops, 0);
    }
}

#[test]
fn a_frame_that_never_entered_the_network_goes_nowhere() {
    let mut sim = network(Arc::new(acl), Some(Duration::from_secs(1)), &line(3));
    let (from, to) = (mac(1, 1), mac(3, 1));
    // A frame of the second switch's own interface: it never entered the network.
    sim.inject(Location::new(Dpid(2), PortNo(1)), udp(from, to, 22));
    sim.run();
    assert_eq!((sim.delivered.len(), stats(&sim).link_drops), (0, 1));
}
