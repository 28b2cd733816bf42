//! Routes that change while packets flow: rules are modified, no packet comes to the controller, and none is lost.

use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::{Event, Options};
use maple_core::network::{Hop, LinkName, Location, Mac};
use maple_core::policy::{Net, PacketHandle, Policy};
use maple_core::route::Route;
use maple_core::state::{Value, Write};
use maple_sim::{Choices, Delivery, SimNetwork};
use maple_wire::packet::build::Frame;
use maple_wire::{Dpid, PortNo, Version};

use crate::scripts::at;

const A: Mac = Mac([0, 0, 0, 0, 0, 0xa]);
const B: Mac = Mac([0, 0, 0, 0, 0, 0xb]);
/// The port of every switch that leads to a host.
const HOST: PortNo = PortNo(9);

fn host_at(switch: u64) -> Location {
    Location::new(Dpid(switch), HOST)
}

/// Creates switches 1 to n, each linked to every other one: port d leads to switch d.
fn mesh(policy: Arc<dyn Policy>, n: u64, shards: u8, version: Version) -> SimNetwork {
    let options = Options { track_hosts: false, ..Options::default() };
    let mut sim = SimNetwork::new(policy, shards, &options, 7);
    (1..=n).for_each(|dpid| sim.add_switch(Dpid(dpid), version, 9));
    sim.run();
    for (a, b) in (1..=n).flat_map(|a| (a + 1..=n).map(move |b| (a, b))) {
        sim.add_link(at(a, b as u32), at(b, a as u32));
    }
    sim.settle();
    sim
}

fn udp(number: u32) -> Vec<u8> {
    Frame::ethernet(B.0, A.0).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1000, 80).payload(&number.to_be_bytes())
}

/// Returns the cheapest path from where the packet enters to the host of switch 3.
fn cheapest(pkt: &PacketHandle, net: &Net) -> Route {
    pkt.eth_dst();
    net.path(Location::new(pkt.switch(), HOST), host_at(3), "cost")
}

fn cost(a: u64, b: u64, cost: u64) -> Event {
    let link = LinkName::Switches(Dpid(a), Dpid(b));
    Event::Write(vec![Write::Cost { name: "cost".into(), link, cost: Some(cost) }])
}

#[test]
fn a_flow_whose_link_fails_takes_another_way_and_no_packet_comes_to_the_controller() {
    for (version, shards) in [(Version::Of13, 1), (Version::Of13, 3), (Version::Of10, 2)] {
        let mut sim = mesh(Arc::new(cheapest), 4, shards, version);
        sim.inject(host_at(1), udp(0));
        sim.run();
        let before = sim.stats();
        sim.set_port(at(1, 3), false);
        sim.run();
        for number in 1..20 {
            sim.inject(host_at(1), udp(number));
            sim.run();
        }
        let want: Vec<Delivery> = (0..20).map(|n| Delivery { at: host_at(3), frame: udp(n) }).collect();
        assert_eq!(sim.delivered, want);
        let after = sim.stats();
        assert_eq!((after.packet_ins, after.misses), (before.packet_ins, before.misses), "{version}");
        assert_eq!((after.routes_rerouted, after.leaves_withdrawn), (1, 0));
        // The route changes to the other path, back, and back again: no rule is left over.
        let rules = after.rules;
        for (up, down) in [(at(1, 3), at(1, 2)), (at(1, 2), at(1, 3))] {
            sim.set_port(up, true);
            sim.run();
            sim.rediscover(up);
            sim.run();
            sim.set_port(down, false);
            sim.run();
        }
        assert_eq!(sim.stats().rules, rules, "{version}");
        assert_eq!(sim.stats().leaves, 1);
    }
}

#[test]
fn a_switch_that_takes_no_rules_of_routes_has_rules_that_do_all_themselves() {
    for refuses_table in [Some(3), None] {
        let mut sim = mesh(Arc::new(cheapest), 4, 1, Version::Of13);
        let ingress = sim.switch(Dpid(1)).expect("it is there");
        (ingress.refuses_table, ingress.takes_metadata) = (refuses_table, false);
        sim.restart(Dpid(1));
        sim.run();
        for port in [1, 2, 3, 4].map(|port| at(1, port)) {
            sim.rediscover(port);
        }
        sim.settle_ports();
        sim.run();
        for number in 0..20 {
            sim.inject(host_at(1), udp(number));
            sim.run();
        }
        let want: Vec<Delivery> = (0..20).map(|n| Delivery { at: host_at(3), frame: udp(n) }).collect();
        assert_eq!(sim.delivered, want, "{refuses_table:?}");
        let after = sim.stats();
        assert!(after.packet_ins < 6, "rules carry the rest: {after:?}");
        assert!((1..9).contains(&after.refused_rules) && after.sent_by_controller < 6, "{after:?}");
        let in_use = sim.switch(Dpid(1)).map(|switch| switch.flows().iter().filter(|flow| flow.table_id == 3).count());
        assert!(in_use <= Some(1), "at most what sends to the controller");
        sim.set_port(at(1, 3), false);
        sim.run();
        sim.inject(host_at(1), udp(20));
        sim.run();
        assert_eq!(sim.delivered.last(), Some(&Delivery { at: host_at(3), frame: udp(20) }));
        assert_eq!(sim.stats().packet_ins, after.packet_ins, "each leaf's rule has turned");
    }
}

#[test]
fn a_policy_is_asked_again_only_where_it_looked_at_what_changed() {
    let ask = |look: fn(&Route) -> bool| {
        let policy = move |pkt: &PacketHandle, net: &Net| {
            let route = cheapest(pkt, net);
            if look(&route) { route } else { Route::drop() }
        };
        let mut sim = mesh(Arc::new(policy), 4, 2, Version::Of13);
        for number in 0..5 {
            sim.inject(
                host_at(1),
                Frame::ethernet(Mac::from_bits(100 + number).0, A.0)
                    .ipv4([10, 0, 0, 1], [10, 0, 0, 2])
                    .udp(1, 2)
                    .payload(b"x"),
            );
        }
        sim.run();
        let before = sim.stats();
        sim.set_port(at(1, 3), false);
        sim.run();
        let after = sim.stats();
        assert_eq!((before.leaves, after.leaves), (5, 5));
        sim.inject(host_at(1), udp(7));
        sim.run();
        assert_eq!(sim.delivered.last(), Some(&Delivery { at: host_at(3), frame: udp(7) }));
        (after.runs - before.runs, after.routes_rerouted, after.leaves_rerouted)
    };
    assert_eq!(ask(|_| true), (0, 1, 0), "the route turns for all");
    assert_eq!(ask(|route| !route.is_unreachable()), (0, 1, 0), "there is a path still");
    assert_eq!(ask(|route| route.explicit_hops().count() > 0), (5, 1, 0), "and here f says the same");
}

#[test]
fn a_change_after_which_f_says_the_same_leaves_every_rule_where_it_is() {
    let mut sim = mesh(Arc::new(cheapest), 4, 2, Version::Of13);
    sim.inject(host_at(1), udp(0));
    sim.run();
    let (flow_mods, before) = (sim.flow_mods, sim.stats());
    // Costs of this name exist from here on. The path is the same, but f asked for the name.
    let reads = |pkt: &PacketHandle, net: &Net| {
        net.var("noise");
        cheapest(pkt, net)
    };
    assert_eq!((before.leaves_confirmed, before.leaves_rerouted), (0, 0));
    sim.report(cost(2, 4, 9));
    sim.run();
    assert_eq!((sim.flow_mods, sim.stats().runs), (flow_mods, before.runs), "no path in use has changed");
    let mut sim = mesh(Arc::new(reads), 4, 2, Version::Of13);
    sim.inject(host_at(1), udp(0));
    sim.run();
    let flow_mods = sim.flow_mods;
    sim.report(Event::Write(vec![Write::Var { name: "noise".into(), value: Some(Value::Int(1)) }]));
    sim.run();
    assert_eq!((sim.flow_mods, sim.stats().leaves_confirmed, sim.stats().leaves_withdrawn), (flow_mods, 1, 0));
}

/// Sends packets with a gap between them, and calls `happen` before each.
fn stream(sim: &mut SimNetwork, packets: u32, gap: Duration, mut happen: impl FnMut(&mut SimNetwork, u32)) {
    for number in 0..packets {
        happen(sim, number);
        sim.inject(host_at(1), udp(number));
        sim.run_for(gap);
    }
    sim.run();
}

/// Checks that every packet came out once, at switch 3.
fn check(sim: &mut SimNetwork, packets: u32, what: &str) {
    let mut out = std::mem::take(&mut sim.delivered);
    out.sort();
    let mut want: Vec<Delivery> = (0..packets).map(|n| Delivery { at: host_at(3), frame: udp(n) }).collect();
    want.sort();
    assert_eq!(out, want, "{what}");
}

#[test]
fn no_packet_is_lost_doubled_or_sent_astray_while_costs_move_its_route() {
    for seed in 0..30 {
        let mut random = Choices::new(seed);
        let shards = 1 + random.below(3) as u8;
        let version = *random.pick(&[Version::Of10, Version::Of13]);
        let mut sim = mesh(Arc::new(cheapest), 5, shards, version);
        stream(&mut sim, 150, Duration::from_micros(300), |sim, _| {
            if random.chance(8) {
                let (a, b) = (1 + random.below(5) as u64, 1 + random.below(5) as u64);
                let price = 1 + random.below(9) as u64;
                [(a, b), (b, a)].into_iter().for_each(|(a, b)| sim.report(cost(a, b, price)));
            }
        });
        check(&mut sim, 150, &format!("seed {seed}"));
        assert_eq!(sim.stats().link_drops, 0);
    }
}

/// Returns a path from switch 1 to switch 3 over others in a random order.
fn any_path(random: &mut Choices, n: u64) -> Vec<Hop> {
    let mut others: Vec<u64> = (1..=n).filter(|dpid| ![1, 3].contains(dpid)).collect();
    let mut way = vec![1];
    for _ in 0..random.below(others.len() + 1) {
        way.push(others.remove(random.below(others.len())));
    }
    way.push(3);
    let links = way.windows(2).map(|pair| Hop::new(Dpid(pair[0]), PortNo(pair[1] as u32)));
    links.chain([Hop::new(Dpid(3), HOST)]).collect()
}

#[test]
fn no_packet_is_lost_or_goes_in_circles_when_a_route_passes_the_same_links_in_another_order() {
    let mut moved = 0;
    for seed in 0..60 {
        let mut random = Choices::new(seed);
        let paths: Vec<Vec<Hop>> = (0..6).map(|_| any_path(&mut random, 7)).collect();
        let ways = paths.clone();
        let policy = move |pkt: &PacketHandle, net: &Net| {
            pkt.eth_dst();
            let number = if let Some(Value::Int(number)) = net.var("way") { number } else { 0 };
            Route::hops(ways[number as usize % ways.len()].iter().copied())
        };
        let shards = 1 + random.below(3) as u8;
        let mut sim = mesh(Arc::new(policy), 7, shards, Version::Of13);
        stream(&mut sim, 150, Duration::from_micros(800), |sim, _| {
            if random.chance(5) {
                let value = Some(Value::Int(random.below(6) as i128));
                sim.report(Event::Write(vec![Write::Var { name: "way".into(), value }]));
            }
        });
        check(&mut sim, 150, &format!("seed {seed}: {paths:?}"));
        assert_eq!(sim.stats().link_drops, 0);
        moved += sim.stats().leaves_rerouted;
    }
    assert!(moved > 60, "{moved}");
}
