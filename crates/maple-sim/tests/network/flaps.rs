//! Silent hosts that move, and middleboxes, as scripts.

use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::{Event, Options};
use maple_core::network::{Location, Mac, PortKind};
use maple_core::policy::{Net, PacketHandle};
use maple_core::route::Route;
use maple_sim::SimNetwork;
use maple_wire::packet::build::Frame;
use maple_wire::{Dpid, PortNo, Version};

use crate::scripts::at;

const A: Mac = Mac([0, 0, 0, 0, 0, 0xa]);
const B: Mac = Mac([0, 0, 0, 0, 0, 0xb]);
const EVERYBODY: Mac = Mac([0xff; 6]);
const VERSIONS: [Version; 2] = [Version::Of10, Version::Of13];

/// Floods broadcasts. Sends other packets to the known location of the destination, or nowhere if it is not known.
fn strict(pkt: &PacketHandle, net: &Net) -> Route {
    match net.locate(pkt.eth_dst()) {
        Some(to) => net.shortest_path(Location::new(pkt.switch(), PortNo(0)), to),
        None if pkt.eth_dst() == EVERYBODY => Route::flood(),
        None => Route::drop(),
    }
}

/// Creates two switches with a link (port 1 of each), at two shards. A is at 1:2 and B at 2:2, and both have announced
/// an address.
fn world(version: Version) -> SimNetwork {
    let mut sim = SimNetwork::new(Arc::new(strict), 2, &Options::default(), 3);
    sim.add_switch(Dpid(1), version, 4);
    sim.add_switch(Dpid(2), version, 4);
    sim.run();
    sim.add_link(at(1, 1), at(2, 1));
    for port in [at(1, 2), at(2, 2), at(2, 4)] {
        sim.report(Event::PortIsEdge { port });
    }
    sim.run_for(Duration::from_millis(200));
    announce(&mut sim, A, at(1, 2), 1);
    announce(&mut sim, B, at(2, 2), 2);
    sim
}

fn announce(sim: &mut SimNetwork, mac: Mac, place: Location, number: u8) {
    sim.place_host(mac, place);
    let ip = [10, 0, 0, number];
    sim.inject(place, Frame::ethernet(EVERYBODY.0, mac.0).arp_request(ip, ip));
    sim.run_for(Duration::from_millis(200));
}

/// Sends this many packets from A to B, one a second. Returns how many arrive at a place.
fn arrive(sim: &mut SimNetwork, count: usize, place: Location) -> usize {
    let mut arrived = 0;
    for number in 0..count as u16 {
        sim.delivered.clear();
        let frame = Frame::ethernet(B.0, A.0).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(number, 7).payload(b"ping");
        sim.inject(at(1, 2), frame);
        sim.run_for(Duration::from_secs(1));
        arrived += usize::from(sim.delivered.iter().any(|delivery| delivery.at == place));
    }
    arrived
}

fn location(sim: &SimNetwork, mac: Mac) -> Option<Location> {
    sim.store.snapshot().host(mac).map(|host| host.location)
}

#[test]
fn a_silent_host_that_moves_is_found_when_its_new_port_comes_up() {
    for version in VERSIONS {
        let mut sim = world(version);
        assert_eq!(arrive(&mut sim, 2, at(2, 2)), 2);
        sim.set_port(at(2, 2), false);
        sim.place_host(B, at(1, 3));
        sim.run_for(Duration::from_millis(300));
        sim.report(Event::PortIsEdge { port: at(1, 3) });
        sim.run_for(Duration::from_millis(50));
        assert_eq!(location(&sim, B), Some(at(1, 3)), "at the other shard's switch");
        assert_eq!(arrive(&mut sim, 3, at(1, 3)), 3);
    }
}

#[test]
fn a_silent_host_is_found_also_if_its_new_port_comes_up_first() {
    for version in VERSIONS {
        let mut sim = world(version);
        sim.report(Event::PortIsEdge { port: at(1, 3) });
        sim.run_for(Duration::from_secs(2));
        sim.place_host(B, at(1, 3));
        sim.set_port(at(2, 2), false);
        sim.run_for(Duration::from_millis(50));
        assert_eq!(location(&sim, B), Some(at(1, 3)));
    }
}

#[test]
fn a_silent_host_whose_old_port_stays_up_is_found_in_two_seconds() {
    for version in VERSIONS {
        let mut sim = world(version);
        sim.place_host(B, at(1, 3));
        sim.report(Event::PortIsEdge { port: at(1, 3) });
        sim.run_for(Duration::from_secs(2));
        assert_eq!(location(&sim, B), Some(at(1, 3)));
    }
}

#[test]
fn a_host_whose_port_has_flapped_and_that_does_not_answer_there_is_forgotten() {
    for version in VERSIONS {
        let mut sim = world(version);
        for answers in [true, false] {
            if !answers {
                sim.place_host(B, at(9, 9));
            }
            sim.set_port(at(2, 2), false);
            sim.run_for(Duration::from_millis(100));
            sim.set_port(at(2, 2), true);
            sim.run_for(Duration::from_millis(100));
            sim.report(Event::PortIsEdge { port: at(2, 2) });
            sim.run_for(Duration::from_secs(3));
            assert_eq!(location(&sim, B), answers.then_some(at(2, 2)));
        }
    }
}

/// Routes through a middlebox in front of B that joins 2:2 and 2:3: packets from A to B leave by 2:2 and come in again
/// at 2:3.
fn through_the_box(pkt: &PacketHandle, net: &Net) -> Route {
    let here = Location::new(pkt.switch(), PortNo(0));
    if pkt.eth_dst() == EVERYBODY {
        Route::flood()
    } else if pkt.switch() == Dpid(2) && pkt.in_port() == PortNo(3) {
        Route::to([PortNo(4)])
    } else {
        net.shortest_path(here, at(2, 2))
    }
}

#[test]
fn packets_pass_a_declared_middlebox_and_floods_leave_it_out() {
    for version in VERSIONS {
        let options = Options { middleboxes: [at(2, 2), at(2, 3)].into(), ..Options::default() };
        let mut sim = SimNetwork::new(Arc::new(through_the_box), 2, &options, 3);
        sim.add_switch(Dpid(1), version, 4);
        sim.add_switch(Dpid(2), version, 4);
        sim.run();
        sim.add_link(at(1, 1), at(2, 1));
        for port in [at(1, 2), at(2, 2), at(2, 3), at(2, 4)] {
            sim.report(Event::PortIsEdge { port });
        }
        sim.run_for(Duration::from_millis(200));
        announce(&mut sim, A, at(1, 2), 1);
        let places = |sim: &SimNetwork| sim.delivered.iter().map(|delivery| delivery.at).collect::<Vec<_>>();
        assert_eq!(places(&sim), [at(2, 4)], "a flood goes to hosts");
        assert_eq!(sim.store.snapshot().port(at(2, 3)).map(|port| port.kind), Some(PortKind::Middlebox));
        for number in 0..4 {
            sim.delivered.clear();
            let frame = Frame::ethernet(B.0, A.0).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(number, 7).payload(b"hello");
            sim.inject(at(1, 2), frame.clone());
            sim.run_for(Duration::from_millis(300));
            assert_eq!(places(&sim), [at(2, 2)]);
            sim.inject(at(2, 3), frame);
            sim.run_for(Duration::from_millis(300));
            assert_eq!(places(&sim), [at(2, 2), at(2, 4)]);
        }
        assert_eq!(location(&sim, A), Some(at(1, 2)), "A is where it was");
        assert!(sim.engines().iter().all(|engine| engine.view().stats().spoofed_drops == 0));
    }
}
