//! Hosts that move, impersonate others, flood, take over addresses and fall silent, on small networks.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::testing::size_of_hosts;
use maple_core::engine::{Event, Options};
use maple_core::network::{Location, Mac};
use maple_core::policy::{Net, PacketHandle};
use maple_core::report::{MoveReason, Report};
use maple_core::route::Route;
use maple_sim::{Delivery, SimNetwork};
use maple_wire::packet::build::Frame;
use maple_wire::{Dpid, PortNo, Version};

use crate::scripts::{A, B, acquaint, at, ring, ring_with, send, shortest, udp};

const C: Mac = Mac([0, 0, 0, 0, 0, 0xc]);
const VERSIONS: [Version; 2] = [Version::Of10, Version::Of13];

fn v4(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, last)
}

/// Returns a gratuitous ARP request.
fn announce(mac: Mac, ip: Ipv4Addr) -> Vec<u8> {
    Frame::ethernet([0xff; 6], mac.0).arp_request(ip, ip)
}

fn place(sim: &SimNetwork, mac: Mac) -> Option<Location> {
    sim.store.snapshot().host(mac).map(|host| host.location)
}

fn is_at(sim: &SimNetwork, mac: Mac, at: Location) -> bool {
    place(sim, mac) == Some(at)
}

#[test]
fn one_frame_never_takes_a_gateways_place() {
    for (version, shards) in [(Version::Of13, 1), (Version::Of13, 2), (Version::Of10, 2)] {
        let mut sim = ring(Arc::new(shortest), 3, shards, version);
        let (gateway, liar) = (at(1, 3), at(2, 4));
        sim.place_host(A, gateway);
        send(&mut sim, gateway, announce(A, v4(0xa)));
        // Packets that a router forwards have foreign addresses, some of them lower than its own.
        let routed = Frame::ethernet(B.0, A.0).ipv4([1, 1, 1, 1], [10, 0, 0, 0xb]).udp(1, 2).payload(b"routed");
        send(&mut sim, gateway, routed.clone());
        send(&mut sim, at(3, 3), udp(B, A, 1));
        assert_eq!(send(&mut sim, liar, udp(A, B, 80)), []);
        assert!(is_at(&sim, A, gateway), "{version:?}: {:?}", sim.reports.last());
        assert_eq!(send(&mut sim, gateway, routed.clone()), [Delivery { at: at(3, 3), frame: routed }]);
        let lies = sim.reports.iter().filter(|r| matches!(r, Report::HostSpoofed { seen, .. } if *seen == liar));
        assert_eq!(lies.count(), 1);
        let state = sim.store.snapshot();
        assert_eq!(state.host(A).map(|host| host.ipv4.iter().copied().collect()), Some(vec![v4(0xa)]));
    }
}

#[test]
fn a_host_that_sends_but_answers_nothing_keeps_its_place() {
    for version in VERSIONS {
        let mut sim = ring(Arc::new(shortest), 2, 1, version);
        // No host answers for the address, so it gets no location.
        send(&mut sim, at(1, 3), announce(A, v4(0xa)));
        send(&mut sim, at(2, 3), udp(B, A, 1));
        send(&mut sim, at(1, 3), udp(A, B, 80));
        let before = sim.stats().packet_ins;
        for _ in 0..40 {
            sim.inject(at(1, 3), udp(A, B, 80));
            sim.run_for(Duration::from_millis(100));
        }
        assert_eq!(sim.stats().packet_ins, before, "{version:?}: rules carry what it sends");
        for _ in 0..40 {
            sim.inject(at(2, 4), udp(A, B, 80));
            for _ in 0..4 {
                sim.inject(at(1, 3), udp(A, B, 80));
                sim.run_for(Duration::from_millis(100));
            }
        }
        assert!(is_at(&sim, A, at(1, 3)), "{version:?}");
        // The host leaves. When the last search is over, it is accepted at the other port.
        sim.run_for(Duration::from_secs(3));
        send(&mut sim, at(2, 4), udp(A, B, 80));
        assert!(is_at(&sim, A, at(2, 4)), "{version:?}");
        let why =
            sim.reports.iter().find_map(|r| if let Report::HostMoved { why, .. } = r { Some(*why) } else { None });
        assert_eq!(why, Some(MoveReason::NoAnswer));
    }
}

#[test]
fn a_host_without_a_known_address_that_roams_is_at_its_new_port_within_two_seconds() {
    for (version, shards) in [(Version::Of13, 1), (Version::Of13, 2), (Version::Of10, 2)] {
        let mut sim = ring(Arc::new(shortest), 3, shards, version);
        send(&mut sim, at(1, 3), udp(A, B, 80));
        sim.run_for(Duration::from_secs(30));
        let began = sim.reports.len();
        // Both ports stay up. The host sends something, then announces its address, as hosts do; nobody answers at the
        // old port.
        sim.inject(at(2, 4), udp(A, B, 80));
        sim.inject(at(2, 4), announce(A, v4(0xa)));
        sim.run_for(Duration::from_secs(2));
        assert!(is_at(&sim, A, at(2, 4)), "{version:?}: {:?}", &sim.reports[began..]);
        let said = |report: &&Report| matches!(report, Report::HostElsewhere { at: known, seen, .. } if (*known, *seen) == (at(1, 3), at(2, 4)));
        assert_eq!(sim.reports[began..].iter().filter(said).count(), 1, "both places are reported, once");
    }
}

/// Routes IPv4 packets to the owner of the destination address, and floods the rest.
fn by_address(pkt: &PacketHandle, net: &Net) -> Route {
    use maple_wire::Field;
    let to = pkt.get(Field::Ipv4Dst).map(|bits| IpAddr::V4(Ipv4Addr::from(bits as u32)));
    match to.map(|ip| net.locate_ip(ip)) {
        Some(Some((_, to))) => net.shortest_path(Location::new(pkt.switch(), pkt.in_port()), to),
        Some(None) => Route::drop(),
        None => Route::flood(),
    }
}

#[test]
fn an_address_belongs_to_who_announced_it_last_though_rules_carry_the_announcements() {
    for (version, shards) in [(Version::Of13, 2), (Version::Of10, 1)] {
        let mut sim = ring(Arc::new(by_address), 3, shards, version);
        let (from, first, second) = (at(1, 3), at(2, 3), at(3, 3));
        [(A, from), (B, first), (C, second)].into_iter().for_each(|(mac, at)| sim.place_host(mac, at));
        for (mac, at, ip) in [(A, from, 0xa), (B, first, 0xb), (C, second, 0xc)] {
            (0..3).for_each(|_| drop(send(&mut sim, at, announce(mac, v4(ip)))));
        }
        let to_b = udp(A, B, 80);
        let arrives =
            |sim: &mut SimNetwork| send(sim, from, to_b.clone()).into_iter().map(|d| d.at).collect::<Vec<_>>();
        assert_eq!(arrives(&mut sim), [first]);
        for round in 0..3 {
            // There are rules for ARP by this time.
            assert_eq!(send(&mut sim, second, announce(C, v4(0xb))).len(), 5, "each copy of the flood comes out once");
            assert_eq!(arrives(&mut sim), [second], "{version:?}, {round}: it was taken over");
            assert_eq!(send(&mut sim, first, announce(B, v4(0xb))).len(), 5);
            assert_eq!(arrives(&mut sim), [first], "{version:?}, {round}: its owner spoke again");
        }
        sim.restart(second.switch);
        sim.run();
        sim.ports_of(second.switch).into_iter().for_each(|at| sim.rediscover(at));
        sim.run();
        (0..3).for_each(|_| drop(send(&mut sim, second, announce(C, v4(0xc)))));
        assert_eq!(arrives(&mut sim), [first]);
        send(&mut sim, second, announce(C, v4(0xb)));
        assert_eq!(arrives(&mut sim), [second], "{version:?}: by a switch that came back");
    }
}

#[test]
fn announcements_are_not_copied_where_nobody_depends_on_addresses() {
    let mut sim = ring(Arc::new(shortest), 2, 1, Version::Of13);
    for _ in 0..3 {
        send(&mut sim, at(1, 3), announce(A, v4(0xa)));
    }
    assert_eq!(sim.stats().announcements, 0);
    let rules = |sim: &mut SimNetwork| sim.switch(Dpid(1)).expect("it is there").flows().len();
    let before = rules(&mut sim);
    send(&mut sim, at(1, 3), announce(A, v4(0xa)));
    assert_eq!(rules(&mut sim), before);
}

fn flooder(n: u32) -> Mac {
    Mac::from_bits(0x0600_0000_0000 + u128::from(n))
}

#[test]
fn a_port_that_floods_addresses_costs_a_bound_and_its_known_hosts_and_neighbours_nothing() {
    for version in VERSIONS {
        let options = Options { max_hosts_per_port: 16, ..Options::default() };
        let mut sim = ring_with(&options, Arc::new(shortest), 2, 1, version);
        [(A, at(1, 3)), (B, at(1, 4))].into_iter().for_each(|(mac, at)| sim.place_host(mac, at));
        send(&mut sim, at(1, 3), announce(A, v4(0xa)));
        send(&mut sim, at(1, 4), udp(B, A, 80));
        send(&mut sim, at(1, 3), udp(A, B, 80));
        let rules = |sim: &mut SimNetwork| sim.switch(Dpid(1)).expect("it is there").flows().len();
        let mut sizes = Vec::new();
        for n in 0..600 {
            sim.inject(at(1, 3), udp(flooder(n), B, 80));
            sim.run_for(Duration::from_millis(5));
            sizes.push((size_of_hosts(&sim.engines()[0]), rules(&mut sim)));
        }
        assert!(sizes[100..].iter().all(|now| now.0 <= sizes[100].0 && now.1 <= sizes[100].1), "{sizes:?}");
        let flood = sim.stats();
        assert!(flood.port_guards <= 2 && flood.packet_ins < 100, "the switch drops them by itself: {flood:?}");
        let reported = sim.reports.iter().filter(|report| matches!(report, Report::TooManyHosts { .. }));
        assert_eq!(reported.count(), 1);
        sim.delivered.clear();
        assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)).len(), 1, "{version:?}: a host that was known before");
        assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 81)).len(), 1, "and what is not decided of it yet");
        assert_eq!(send(&mut sim, at(1, 4), udp(C, A, 80)).len(), 1, "a new host at the next port");
        assert_eq!(send(&mut sim, at(2, 3), udp(Mac([0, 0, 0, 0, 0, 9]), A, 80)).len(), 1);
        let hosts = sim.store.snapshot().hosts_at(at(1, 3)).count();
        assert_eq!(hosts, 16);
    }
}

#[test]
fn hosts_that_find_no_room_in_the_classifier_are_served_by_the_controller_and_stop_no_leaf() {
    let mut sim = SimNetwork::new(Arc::new(shortest), 1, &Options::default(), 7);
    let mut switch = maple_sim::SimSwitch::new(Dpid(1), Version::Of13);
    switch.model.set_table_size(0, 12);
    sim.connect(switch, (1..=4).map(PortNo));
    sim.settle();
    send(&mut sim, at(1, 1), udp(A, B, 1));
    send(&mut sim, at(1, 2), udp(B, A, 1));
    for n in 0..30 {
        assert_eq!(send(&mut sim, at(1, 3), udp(flooder(n), A, 80)).len(), 1, "{n}");
    }
    assert!(sim.stats().refused_rules > 0 && sim.stats().refused_rules < 4, "{:?}", sim.stats());
    // New leaves are still installed.
    let before = sim.stats();
    assert_eq!(send(&mut sim, at(1, 1), udp(A, B, 80)).len(), 1);
    assert_eq!(send(&mut sim, at(1, 1), udp(A, B, 80)).len(), 1);
    let after = sim.stats();
    assert_eq!(after.leaves_withdrawn, before.leaves_withdrawn);
    let packet_ins = after.packet_ins;
    assert_eq!(send(&mut sim, at(1, 1), udp(A, B, 80)).len(), 1);
    assert_eq!(sim.stats().packet_ins, packet_ins, "by rules");
    assert_eq!(send(&mut sim, at(1, 3), udp(flooder(29), A, 80)).len(), 1, "without a rule in the classifier");
}

#[test]
fn silent_hosts_are_forgotten_and_talking_ones_stay_without_coming_to_the_controller() {
    for version in VERSIONS {
        let mut sim = ring(Arc::new(shortest), 2, 2, version);
        acquaint(&mut sim, at(2, 3), 80);
        send(&mut sim, at(1, 4), udp(C, B, 80));
        let before = sim.stats().packet_ins;
        for _ in 0..50 {
            sim.inject(at(1, 3), udp(A, B, 80));
            sim.inject(at(2, 3), udp(B, A, 80));
            sim.run_for(Duration::from_secs(20));
        }
        assert_eq!((place(&sim, A), place(&sim, B), place(&sim, C)), (Some(at(1, 3)), Some(at(2, 3)), None));
        assert!(sim.stats().packet_ins <= before + 2, "{version:?}");
        assert!(sim.reports.contains(&Report::HostLost { mac: C, at: at(1, 4) }));
    }
}

#[test]
fn records_of_hosts_go_with_their_ports_and_switches() {
    for version in VERSIONS {
        let mut sim = ring(Arc::new(by_address), 2, 1, version);
        for n in 0..20 {
            send(&mut sim, at(1, 3), announce(flooder(n), v4(n as u8 + 1)));
        }
        assert!(size_of_hosts(&sim.engines()[0]) > 60);
        sim.report(Event::PortIsNew { port: at(1, 3) });
        sim.run();
        assert_eq!(size_of_hosts(&sim.engines()[0]), 1, "{version:?}: a round of ageing is still to come");
        sim.report(Event::PortIsEdge { port: at(1, 3) });
        sim.run();
        send(&mut sim, at(1, 3), announce(A, v4(1)));
        sim.restart(Dpid(1));
        sim.run();
        assert_eq!(size_of_hosts(&sim.engines()[0]), 0);
    }
}
