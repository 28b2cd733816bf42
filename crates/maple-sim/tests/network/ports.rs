//! Ports whose kind is not known yet, and ports that are not sockets, as scripts.

use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::{Event, Options};
use maple_core::network::{Location, Mac};
use maple_core::policy::{Net, PacketHandle};
use maple_core::route::Route;
use maple_sim::{Delivery, SimNetwork};
use maple_wire::packet::build::Frame;
use maple_wire::{Dpid, PortNo, Version};

const A: Mac = Mac([0, 0, 0, 0, 0, 0xa]);
const B: Mac = Mac([0, 0, 0, 0, 0, 0xb]);
const VERSIONS: [Version; 2] = [Version::Of10, Version::Of13];

fn at(port: PortNo) -> Location {
    Location::new(Dpid(1), port)
}

fn udp(src: Mac, dst: Mac) -> Vec<u8> {
    Frame::ethernet(dst.0, src.0).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1000, 80).payload(b"hello")
}

/// Routes to the destination's location if it is known, and floods otherwise.
fn learning(pkt: &PacketHandle, net: &Net) -> Route {
    match net.locate(pkt.eth_dst()) {
        Some(to) => Route::to([to.port]),
        None => Route::flood(),
    }
}

/// Creates one switch whose ports are all new but an edge port 9.
fn new_ports(version: Version, options: &Options) -> SimNetwork {
    let mut sim = SimNetwork::new(Arc::new(learning), 1, options, 7);
    sim.add_switch(Dpid(1), version, 9);
    sim.run();
    sim.report(Event::PortIsEdge { port: at(PortNo(9)) });
    sim.run();
    sim
}

fn send_from(sim: &mut SimNetwork, port: u32, mac: Mac) {
    sim.inject(at(PortNo(port)), udp(mac, Mac([0xff; 6])));
    sim.run_for(Duration::from_millis(20));
}

fn delivered(sim: &mut SimNetwork) -> usize {
    std::mem::take(&mut sim.delivered).len()
}

#[test]
fn packets_from_a_new_port_wait_until_it_is_an_edge_port() {
    for version in VERSIONS {
        let mut sim = new_ports(version, &Options::default());
        send_from(&mut sim, 1, A);
        send_from(&mut sim, 1, A);
        assert_eq!((delivered(&mut sim), sim.store.snapshot().host(A)), (0, None), "nothing is learned yet");
        sim.report(Event::PortIsEdge { port: at(PortNo(1)) });
        sim.run();
        assert_eq!(delivered(&mut sim), 2, "both go on to port 9");
        assert_eq!(sim.store.snapshot().host(A).map(|host| host.location), Some(at(PortNo(1))));
        assert_eq!(sim.stats().new_port_drops, 0);
    }
}

#[test]
fn packets_from_a_new_port_are_dropped_when_a_switch_is_behind_it() {
    let mut sim = new_ports(Version::Of13, &Options::default());
    send_from(&mut sim, 1, A);
    sim.report(Event::LinkUp { a: at(PortNo(1)), b: at(PortNo(2)) });
    sim.run();
    assert_eq!((delivered(&mut sim), sim.stats().new_port_drops), (0, 1));
    assert_eq!(sim.store.snapshot().host(A), None);
}

#[test]
fn packets_from_a_new_port_are_dropped_when_it_changes_or_takes_too_long() {
    let mut sim = new_ports(Version::Of13, &Options::default());
    send_from(&mut sim, 1, A);
    sim.set_port(at(PortNo(1)), false);
    sim.set_port(at(PortNo(1)), true);
    sim.run_for(Duration::from_millis(20));
    assert_eq!(sim.stats().new_port_drops, 1, "another host may be there now");
    send_from(&mut sim, 2, B);
    sim.run_for(Duration::from_secs(2));
    assert_eq!(sim.stats().new_port_drops, 2, "it had its time");
    for port in [1, 2] {
        sim.report(Event::PortIsEdge { port: at(PortNo(port)) });
    }
    sim.run();
    assert_eq!(delivered(&mut sim), 0);
}

#[test]
fn no_more_packets_wait_for_new_ports_than_there_is_room_for() {
    let frame = udp(A, Mac([0xff; 6])).len();
    let few = Options { held_packets: 3, ..Options::default() };
    let small = Options { held_bytes: 3 * frame + 1, ..Options::default() };
    for options in [few, small] {
        let mut sim = new_ports(Version::Of13, &options);
        (0..5).for_each(|_| send_from(&mut sim, 1, A));
        assert_eq!(sim.stats().new_port_drops, 2);
        sim.report(Event::PortIsEdge { port: at(PortNo(1)) });
        sim.run();
        assert_eq!(delivered(&mut sim), 3);
        send_from(&mut sim, 2, B);
        assert_eq!(sim.stats().new_port_drops, 2, "there is capacity again");
    }
}

#[test]
fn the_switchs_own_host_is_a_host_like_any_other() {
    for version in VERSIONS {
        let mut sim = SimNetwork::new(Arc::new(learning), 1, &Options::default(), 7);
        sim.connect(maple_sim::SimSwitch::new(Dpid(1), version), [PortNo(1), PortNo(2), PortNo::LOCAL]);
        sim.settle();
        let mut send = |from: PortNo, src: Mac, dst: Mac| {
            sim.inject(at(from), udp(src, dst));
            sim.run();
            std::mem::take(&mut sim.delivered)
        };
        assert_eq!(send(PortNo::LOCAL, A, B).len(), 2, "to ports 1 and 2");
        assert_eq!(send(PortNo(1), B, A), [Delivery { at: at(PortNo::LOCAL), frame: udp(B, A) }]);
        assert_eq!(send(PortNo::LOCAL, A, B), [Delivery { at: at(PortNo(1)), frame: udp(A, B) }]);
        assert_eq!(send(PortNo(2), Mac([2; 6]), Mac([4; 6])).len(), 2, "a flood reaches it too");
        assert_eq!(sim.store.snapshot().host(A).map(|host| host.location), Some(at(PortNo::LOCAL)));
    }
}
