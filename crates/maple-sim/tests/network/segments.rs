//! Plain bridges between switches: packets of hosts on all sides and on the bridge are delivered once.

use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::{Event, Options};
use maple_core::network::{Location, Mac, PortKind};
use maple_core::policy::{Net, PacketHandle};
use maple_core::report::Report;
use maple_core::route::Route;
use maple_sim::{Choices, Delivery, SimNetwork};
use maple_wire::packet::build::Frame;
use maple_wire::{Dpid, Field, Packet, PortNo, Version};

use crate::scripts::at;

const VERSIONS: [Version; 2] = [Version::Of10, Version::Of13];
const EVERYBODY: Mac = Mac([0xff; 6]);

/// Returns options with which hosts may stay silent for a long time.
fn options() -> Options {
    Options { host_timeout: Duration::from_secs(1_000_000), ..Options::default() }
}

fn mac(host: usize) -> Mac {
    Mac([0, 0, 0, 0, 0, host as u8 + 1])
}

/// Routes to the destination's location if it is known, and floods otherwise.
fn learning(pkt: &PacketHandle, net: &Net) -> Route {
    match net.locate(pkt.eth_dst()) {
        Some(to) => net.shortest_path(Location::new(pkt.switch(), PortNo(0)), to),
        None => Route::flood(),
    }
}

/// A network with hosts, given by their locations: one at port 2 of each switch, then two on the bridge.
struct BridgedNetwork {
    sim: SimNetwork,
    places: Vec<Location>,
    sent: u16,
}

impl BridgedNetwork {
    /// Creates this many switches, with their ports 1 on one bridge, as discovery finds them.
    fn new(switches: u64, version: Version, shards: u8, seed: u64) -> BridgedNetwork {
        let mut sim = SimNetwork::new(Arc::new(learning), shards, &options(), seed);
        (1..=switches).for_each(|switch| sim.add_switch(Dpid(switch), version, 3));
        let shared: Vec<Location> = (1..=switches).map(|switch| at(switch, 1)).collect();
        let bridge = sim.add_bridge(&shared);
        sim.run();
        for switch in 1..=switches {
            sim.report(Event::PortIsEdge { port: at(switch, 2) });
        }
        let mut places: Vec<Location> = (1..=switches).map(|switch| at(switch, 2)).collect();
        places.extend([bridge, bridge]);
        let mut world = BridgedNetwork { sim, places, sent: 0 };
        world.discover(switches);
        world
    }

    /// Reports what discovery finds about the ports that are up.
    fn discover(&mut self, switches: u64) {
        self.sim.run();
        let up: Vec<Location> = (1..=switches).map(|switch| at(switch, 1)).filter(|at| self.sim.is_up(*at)).collect();
        match up[..] {
            [] => {}
            [one] => self.sim.report(Event::PortIsEdge { port: one }),
            [a, b] => self.sim.report(Event::LinkUp { a, b }),
            _ => self.sim.report(Event::Segment { ports: up.into_iter().collect() }),
        }
        self.sim.run();
    }

    /// Sends a packet from a host to an address. Returns the locations where it arrives, with repetitions.
    fn send(&mut self, from: usize, to: Mac) -> Vec<Location> {
        self.sent += 1;
        let ip = |host: u8| [10, 0, 0, host];
        let frame = Frame::ethernet(to.0, mac(from).0).ipv4(ip(from as u8 + 1), ip(to.0[5])).udp(self.sent, 80);
        let frame = frame.payload(b"hello");
        self.sim.delivered.clear();
        self.sim.inject(self.places[from], frame.clone());
        self.sim.run();
        let number = u128::from(self.sent);
        let mut here: Vec<Location> = std::mem::take(&mut self.sim.delivered)
            .into_iter()
            .filter(|Delivery { frame, .. }| {
                let packet = Packet::new(frame, 0);
                packet.get(Field::UdpSrc) == Some(number) && packet.vlans().count() == 0
            })
            .map(|delivery| delivery.at)
            .collect();
        here.sort_unstable();
        here
    }

    /// Lets each host send a broadcast, so that each is known.
    fn everybody_speaks(&mut self) {
        (0..self.places.len()).for_each(|host| drop(self.send(host, EVERYBODY)));
    }

    /// Checks that a broadcast reaches each of the others once. The bridge's hosts get it from the bridge.
    fn check_broadcast(&mut self, from: usize) {
        let heard = self.send(from, EVERYBODY);
        let home = self.places[from];
        let mut others: Vec<Location> = self.places.iter().copied().filter(|place| *place != home).collect();
        others.sort_unstable();
        others.dedup();
        assert_eq!(heard, others, "a broadcast of host {from}");
    }

    fn check_unicast(&mut self, from: usize, to: usize) {
        let heard = self.send(from, mac(to));
        let here = self.places[to];
        // The bridge may not know yet where a host of its own is. Then all hosts on it already have the packet.
        let expected: &[Location] = if here == self.places[from] { &[] } else { &[here] };
        assert_eq!(heard, expected, "from host {from} to host {to}");
    }

    fn check_all(&mut self) {
        for from in 0..self.places.len() {
            self.check_broadcast(from);
            for to in (0..self.places.len()).filter(|to| *to != from) {
                self.check_unicast(from, to);
                self.check_unicast(to, from);
            }
        }
    }

    fn kind(&self, at: Location) -> Option<PortKind> {
        self.sim.store.snapshot().port(at).map(|port| port.kind)
    }
}

#[test]
fn three_switches_and_hosts_on_one_bridge_get_each_packet_once() {
    for version in VERSIONS {
        let mut world = BridgedNetwork::new(3, version, 2, 1);
        assert_eq!(world.kind(at(1, 1)), Some(PortKind::Edge));
        for switch in [2, 3] {
            assert!(matches!(world.kind(at(switch, 1)), Some(PortKind::Shut { with, .. }) if with == at(1, 1)));
        }
        world.everybody_speaks();
        world.check_all();
        let said = |report: &&Report| matches!(report, Report::SegmentShared { host: None, .. });
        assert_eq!(world.sim.reports.iter().filter(said).count(), 1);
    }
}

#[test]
fn a_host_between_two_switches_is_found_when_it_speaks_and_the_link_becomes_a_segment() {
    for version in VERSIONS {
        let mut world = BridgedNetwork::new(2, version, 2, 1);
        assert_eq!(world.kind(at(1, 1)), Some(PortKind::Link(at(2, 1))));
        world.check_unicast(0, 1);
        world.sim.run_for(Duration::from_secs(2));
        world.send(2, EVERYBODY);
        assert_eq!(world.kind(at(1, 1)), Some(PortKind::Edge));
        world.everybody_speaks();
        world.check_all();
        let said = |report: &&Report| matches!(report, Report::SegmentShared { host: Some(_), .. });
        assert_eq!(world.sim.reports.iter().filter(said).count(), 1);
    }
}

#[test]
fn packets_without_a_label_show_no_host_if_they_are_a_bridges_own_or_were_under_way() {
    let mut world = BridgedNetwork::new(2, Version::Of13, 2, 1);
    let is_link = |world: &BridgedNetwork| world.kind(at(1, 1)) == Some(PortKind::Link(at(2, 1)));
    world.send(2, Mac([0x01, 0x80, 0xc2, 0, 0, 0]));
    assert!(is_link(&world), "to an address that bridges keep to themselves");
    world.send(2, Mac([0x33, 0x33, 0, 0, 0, 0x16]));
    assert!(is_link(&world), "an interface joins a group");
    let (a, b) = (at(1, 1), at(2, 1));
    world.sim.report(Event::LinkDown { a, b });
    world.sim.run();
    world.sim.report(Event::LinkUp { a, b });
    world.sim.run_for(Duration::from_millis(5));
    world.sim.inject(world.places[2], Frame::ethernet(EVERYBODY.0, mac(2).0).arp_request([10, 0, 0, 1], [10, 0, 0, 2]));
    world.sim.run_for(Duration::from_millis(50));
    assert!(is_link(&world), "it may have been under way when the port became a link port");
}

#[test]
fn two_ports_of_one_switch_on_a_bridge_are_one_way_in() {
    for version in VERSIONS {
        let mut sim = SimNetwork::new(Arc::new(learning), 1, &options(), 1);
        sim.add_switch(Dpid(1), version, 3);
        let bridge = sim.add_bridge(&[at(1, 1), at(1, 3)]);
        sim.run();
        sim.report(Event::PortIsEdge { port: at(1, 2) });
        sim.report(Event::LinkUp { a: at(1, 1), b: at(1, 3) });
        sim.run();
        sim.run_for(Duration::from_secs(2));
        let mut world = BridgedNetwork { sim, places: vec![at(1, 2), bridge, bridge], sent: 0 };
        world.send(1, EVERYBODY);
        world.everybody_speaks();
        world.check_all();
    }
}

#[test]
fn the_segment_has_another_way_in_when_the_designated_port_goes_and_keeps_it_when_it_returns() {
    for version in VERSIONS {
        let mut world = BridgedNetwork::new(3, version, 2, 1);
        world.everybody_speaks();
        world.sim.set_port(at(1, 1), false);
        world.discover(3);
        assert_eq!(world.kind(at(2, 1)), Some(PortKind::Edge));
        assert_eq!(world.sim.store.snapshot().host(mac(3)).unwrap().location, at(2, 1), "hosts stay on the segment");
        // Only the first switch is cut off.
        let (first, rest) = (world.places[0], world.places[1..].to_vec());
        world.places = rest;
        world.places.insert(0, at(9, 9));
        for (from, to) in [(1, 2), (2, 1), (1, 3), (3, 1), (2, 4), (4, 2)] {
            world.send(from, EVERYBODY);
            world.check_unicast(from, to);
        }
        world.places[0] = first;
        world.sim.set_port(at(1, 1), true);
        world.discover(3);
        assert_eq!(world.kind(at(2, 1)), Some(PortKind::Edge), "who has the hosts keeps them");
        world.everybody_speaks();
        world.check_all();
    }
}

#[test]
fn a_segment_goes_with_its_designated_switch_and_leaves_nothing_behind() {
    let mut world = BridgedNetwork::new(3, Version::Of13, 2, 1);
    world.everybody_speaks();
    for switch in [1, 2, 3] {
        world.sim.disconnect(Dpid(switch));
        world.sim.run();
    }
    let state = world.sim.store.snapshot();
    assert_eq!((state.switches().count(), state.links().count()), (0, 0));
    assert!((1..=3).all(|switch| state.ports_of(Dpid(switch)).next().is_none()), "nor made-up ports");
}

/// Ports of the bridge come and go. When the network is at rest and every host has sent something, each packet reaches
/// each connected host once.
#[test]
fn whatever_comes_and_goes_packets_on_segments_come_once() {
    for seed in 0..30 {
        let mut random = Choices::new(seed);
        let version = VERSIONS[random.below(2)];
        let switches = 2 + random.below(3) as u64;
        let mut world = BridgedNetwork::new(switches, version, 1 + random.below(3) as u8, seed);
        for _ in 0..4 {
            let switch = 1 + random.below(switches as usize) as u64;
            match random.below(3) {
                0 => {
                    world.sim.set_port(at(switch, 1), false);
                    world.discover(switches);
                    world.sim.set_port(at(switch, 1), true);
                }
                1 => {
                    world.sim.restart(Dpid(switch));
                    world.sim.run();
                    world.sim.report(Event::PortIsEdge { port: at(switch, 2) });
                }
                _ => {}
            }
            world.discover(switches);
            world.sim.run_for(Duration::from_secs(2));
            world.everybody_speaks();
            world.everybody_speaks();
            let (from, to) = (random.below(world.places.len()), random.below(world.places.len()));
            world.check_broadcast(from);
            if from != to {
                world.check_unicast(from, to);
            }
        }
    }
}

/// Labels over a segment are refused, and requested again and again. Packets under way meanwhile are not lost.
#[test]
fn a_stream_over_a_segment_loses_nothing_while_labels_are_asked_for_again() {
    for version in VERSIONS {
        let mut world = BridgedNetwork::new(3, version, 2, 1);
        world.everybody_speaks();
        world.sim.delivered.clear();
        let pairs = [(0, 1), (1, 0), (1, 2), (3, 1), (1, 3)];
        let mut sent = Vec::new();
        for turn in 0..20_000 {
            let (from, to) = pairs[turn % pairs.len()];
            let frame = Frame::ethernet(mac(to).0, mac(from).0).ipv4([10, 0, 0, 1], [10, 0, 0, 2]);
            let frame = frame.udp((turn / 60_000) as u16 + 1, turn as u16).payload(b"hello");
            world.sim.inject(world.places[from], frame.clone());
            world.sim.run_for(Duration::from_micros(700));
            sent.push((to, frame));
        }
        world.sim.run();
        for (to, frame) in sent {
            let place = world.places[to];
            let came = world.sim.delivered.iter().filter(|d| d.frame == frame && d.at == place).count();
            assert_eq!(came, 1, "{}", maple_wire::packet::text::summary(&Packet::new(&frame, 0)));
        }
    }
}
