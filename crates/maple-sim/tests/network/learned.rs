//! Look-ups of what the network has learned: hosts in slices, whose addresses are whose, leases, members of groups.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use maple_core::compose::{Composition, Slice};
use maple_core::engine::{Event, Options, ReportedRule};
use maple_core::network::{Location, Mac};
use maple_core::policy::{Net, PacketHandle, Policy};
use maple_core::route::Route;
use maple_core::snooping::{self, Lease};
use maple_sim::{SimNetwork, SimSwitch};
use maple_wire::packet::build::Frame;
use maple_wire::{Dpid, Field, PortNo, Version};

use crate::scripts::at;

const ONE: Dpid = Dpid(1);
const PORTS: u32 = 4;
const HOSTS: u32 = 24;

/// Returns the port of a host.
fn port(host: u32) -> u32 {
    host % PORTS + 1
}

fn mac(host: u32) -> Mac {
    Mac::from_bits(0x0200_0000_0000 + u128::from(host))
}

fn ip(host: u32) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, host as u8)
}

/// Returns a packet from a host with this IP address to an Ethernet and an IP address.
fn packet(from: u32, src: Ipv4Addr, to: Mac, dst: Ipv4Addr) -> Vec<u8> {
    Frame::ethernet(to.0, mac(from).0).ipv4(src.octets(), dst.octets()).udp(1000, 7).payload(b"hello")
}

/// Creates one switch with hosts at its ports, each of which has announced its address.
fn network(policy: Arc<dyn Policy>, look_up_tables: u8, explored_leaves: usize) -> SimNetwork {
    let options = Options { look_up_tables, explored_leaves, ..Options::default() };
    let mut sim = SimNetwork::new(policy, 1, &options, 11);
    snooping::declare(&sim.store, true, true).expect("nothing else has these names");
    sim.connect(SimSwitch::new(ONE, Version::Of13), (1..=PORTS).map(PortNo));
    sim.run();
    sim.settle_ports();
    (0..HOSTS).for_each(|host| sim.place_host(mac(host), at(1, port(host))));
    // Without a run that asks for addresses, nobody listens to those of a known host.
    for host in (0..HOSTS).chain(0..HOSTS) {
        announce(&mut sim, host, ip(host));
        send(&mut sim, host, packet(host, ip(host), mac(99), ip(99)));
    }
    sim.run_for(Duration::from_secs(3));
    sim
}

fn announce(sim: &mut SimNetwork, host: u32, ip: Ipv4Addr) {
    let frame = Frame::ethernet([0xff; 6], mac(host).0).arp_request(ip, ip);
    send(sim, host, frame);
}

/// Sends a frame from a host's port. Returns the ports where it comes out.
fn send(sim: &mut SimNetwork, host: u32, frame: Vec<u8>) -> Vec<u32> {
    sim.delivered.clear();
    sim.inject(at(1, port(host)), frame);
    sim.run();
    let mut out: Vec<u32> = sim.delivered.drain(..).map(|delivery| delivery.at.port.0).collect();
    out.sort_unstable();
    out
}

/// Sends packets between all pairs of hosts, and compares what comes out with this. Returns the number of packets that
/// came to the controller.
fn check_all(sim: &mut SimNetwork, wanted: impl Fn(u32, u32) -> Option<u32>) -> u64 {
    let before = sim.stats().packet_ins;
    for from in 0..HOSTS {
        for to in (0..HOSTS).filter(|to| port(*to) != port(from)) {
            let out = send(sim, from, packet(from, ip(from), mac(to), ip(to)));
            assert_eq!(out, wanted(from, to).into_iter().collect::<Vec<u32>>(), "{from} to {to}");
        }
    }
    sim.stats().packet_ins - before
}

fn leaves_of(sim: &SimNetwork) -> u64 {
    sim.engines()[0].view().switch_counts(ONE).expect("a switch").leaves
}

fn flows(sim: &mut SimNetwork) -> Vec<ReportedRule> {
    sim.switch(ONE).expect("a switch").flows()
}

/// Sends packets along the shortest path to hosts that are known.
fn to_the_place(_: &PacketHandle, net: &Net) -> Route {
    let locate = |field| net.locate_by(field, None).ok().flatten();
    match (locate(Field::EthSrc), locate(Field::EthDst)) {
        (Some(src), Some(dst)) => net.shortest_path(src.start(), dst.location()),
        _ => Route::drop(),
    }
}

/// Returns two slices, each with two ports and the same policy.
fn slices() -> Composition<Arc<dyn Policy>> {
    let routing = || Composition::single(Arc::new(to_the_place) as Arc<dyn Policy>);
    let slice = |name: &str, ports: [u32; 2]| Slice::new(name, routing()).ports(ports.map(|port| at(1, port)));
    let drops = Composition::single(Arc::new(|_: &PacketHandle, _: &Net| Route::drop()) as Arc<dyn Policy>);
    Composition::slices([slice("red", [1, 2]), slice("blue", [3, 4])], drops, None).expect("ports differ")
}

/// Reports whether two ports are in one slice.
fn are_together(a: u32, b: u32) -> bool {
    (a - 1) / 2 == (b - 1) / 2
}

#[test]
fn a_slice_decides_for_places_and_not_for_hosts() {
    let wanted = |from, to| Some(port(to)).filter(|out| are_together(port(from), *out));
    let mut sim = network(Arc::new(slices()), 4, 0);
    check_all(&mut sim, wanted);
    // At each of four ports: for each of four places, and for destinations that are not known.
    let leaves = leaves_of(&sim);
    assert!(leaves <= 4 * 5, "{leaves} leaves");
    assert_eq!(check_all(&mut sim, wanted), 0, "rules carry the packets");
    let mut sim = network(Arc::new(slices()), 0, 0);
    check_all(&mut sim, wanted);
    let leaves = leaves_of(&sim);
    assert!(leaves > 200, "{leaves} leaves for pairs of hosts");
}

#[test]
fn a_host_that_moves_to_a_port_of_another_slice_is_gone_for_the_first_one() {
    let mut sim = network(Arc::new(slices()), 4, 0);
    let to_2 = |sim: &mut SimNetwork, from: u32| send(sim, from, packet(from, ip(from), mac(1), ip(1)));
    assert_eq!((to_2(&mut sim, 0), to_2(&mut sim, 3)), (vec![2], vec![]));
    // The host that was at port 2 is at port 3 now, and announces that.
    sim.place_host(mac(1), at(1, 3));
    let frame = Frame::ethernet([0xff; 6], mac(1).0).arp_request(ip(1), ip(1));
    sim.inject(at(1, 3), frame);
    sim.run_for(Duration::from_secs(5));
    assert_eq!((to_2(&mut sim, 0), to_2(&mut sim, 3)), (vec![], vec![3]));
}

/// Drops packets whose source has not announced its address, and sends the others along the shortest path.
fn guarded(pkt: &PacketHandle, net: &Net) -> Route {
    if net.is_bound_by(Field::EthSrc, Field::Ipv4Src, None) { to_the_place(pkt, net) } else { Route::drop() }
}

#[test]
fn a_guard_of_addresses_costs_a_rule_for_each_and_no_decision() {
    let wanted = |_, to| Some(port(to));
    let mut sim = network(Arc::new(guarded), 4, 0);
    check_all(&mut sim, wanted);
    let leaves = leaves_of(&sim);
    // For each place and for unknown destinations, from forged sources, and of packets without IPv4.
    assert!(leaves <= 12, "{leaves} leaves:\n{}", sim.engines()[0].view().tree(ONE));
    assert_eq!(check_all(&mut sim, wanted), 0, "rules carry the packets");
    // A forged source, first in vain, then by announcing the address. Its owner has lost it then.
    let forged = |sim: &mut SimNetwork| send(sim, 5, packet(5, ip(6), mac(4), ip(4)));
    let genuine = |sim: &mut SimNetwork| send(sim, 6, packet(6, ip(6), mac(4), ip(4)));
    assert_eq!((forged(&mut sim), genuine(&mut sim)), (vec![], vec![port(4)]));
    announce(&mut sim, 5, ip(6));
    sim.run_for(Duration::from_secs(1));
    assert_eq!((forged(&mut sim), genuine(&mut sim)), (vec![port(4)], vec![]));
    announce(&mut sim, 6, ip(6));
    sim.run_for(Duration::from_secs(1));
    assert_eq!((forged(&mut sim), genuine(&mut sim)), (vec![], vec![port(4)]));
    // After a restart of the controller all is as it was.
    let before = flows(&mut sim);
    sim.restart_controller(1);
    sim.run();
    assert_eq!(check_all(&mut sim, wanted), 0, "rules carry the packets");
    assert_eq!((forged(&mut sim), genuine(&mut sim)), (vec![], vec![port(4)]));
    // Only the rules that copy announcements were sent again, once it was known that f asks for addresses.
    let all = |flows: &[ReportedRule]| -> BTreeSet<String> {
        flows.iter().map(|flow| format!("{:?}", ReportedRule { cookie: 0, ..flow.clone() })).collect()
    };
    let (was, is) = (all(&before), all(&flows(&mut sim)));
    assert_eq!(was.symmetric_difference(&is).collect::<Vec<_>>(), Vec::<&String>::new(), "no rule changes");
    sim.check_settled().unwrap();
}

#[test]
fn without_tables_for_look_ups_a_guard_reads_both_addresses() {
    let mut sim = network(Arc::new(guarded), 0, 0);
    check_all(&mut sim, |_, to| Some(port(to)));
    assert!(leaves_of(&sim) > 300, "there is one for each pair of hosts");
    announce(&mut sim, 5, ip(6));
    sim.run_for(Duration::from_secs(1));
    assert_eq!(send(&mut sim, 5, packet(5, ip(6), mac(4), ip(4))), [port(4)]);
    assert_eq!(send(&mut sim, 6, packet(6, ip(6), mac(4), ip(4))), []);
}

#[test]
fn decisions_of_an_address_guard_are_explored_before_packets_come() {
    let mut sim = network(Arc::new(guarded), 4, 64);
    let found = sim.engines()[0].view().exploration(ONE).expect("the switch is explored");
    assert!(found.is_complete(), "{found:?}");
    assert_eq!(check_all(&mut sim, |_, to| Some(port(to))), 0, "rules carry the packets");
}

fn lease(host: u32, at: Location) -> Lease {
    Lease { mac: mac(host), ip: ip(host), location: at, ends: None }
}

#[test]
fn a_guard_of_leases_follows_leases_and_hosts() {
    let policy = |pkt: &PacketHandle, net: &Net| {
        let is_leased = net.try_is_leased_by(Field::EthSrc, Field::Ipv4Src, None).unwrap_or_default();
        if is_leased { to_the_place(pkt, net) } else { Route::drop() }
    };
    let mut sim = network(Arc::new(policy), 4, 0);
    check_all(&mut sim, |_, _| None);
    let leases =
        (0..HOSTS).filter(|host| host % 5 > 0).flat_map(|host| snooping::lease(&lease(host, at(1, port(host)))));
    sim.report(Event::Write(leases.collect()));
    sim.run();
    let wanted = |from, to| Some(port(to)).filter(|_| from % 5 > 0);
    check_all(&mut sim, wanted);
    let leaves = leaves_of(&sim);
    assert!(leaves <= 12, "{leaves} leaves:\n{}", sim.engines()[0].view().tree(ONE));
    assert_eq!(check_all(&mut sim, wanted), 0, "rules carry the packets");
    // One address was given at another port, and one goes to another host.
    let mut writes = snooping::lease(&lease(1, at(1, port(2))));
    writes.extend(snooping::lease(&Lease { ip: ip(3), ..lease(2, at(1, port(2))) }));
    sim.report(Event::Write(writes));
    sim.run();
    check_all(&mut sim, |from, to| Some(port(to)).filter(|_| from % 5 > 0 && from > 2 || from == 4));
    assert_eq!(send(&mut sim, 2, packet(2, ip(3), mac(4), ip(4))), [port(4)]);
    assert_eq!(send(&mut sim, 1, packet(1, ip(3), mac(4), ip(4))), []);
}

#[test]
fn groups_without_members_share_a_decision_and_those_of_others_follow_their_members() {
    let policy = |_: &PacketHandle, net: &Net| {
        let members = net.try_members_by(Field::Ipv4Dst, None).unwrap_or_default();
        Route::multicast(members.into_iter().map(|at| net.shortest_path(Location::new(ONE, PortNo(0)), at)))
    };
    let mut sim = network(Arc::new(policy), 4, 0);
    let group = |number: u32| Ipv4Addr::new(239, 0, 0, number as u8);
    let state = sim.store.snapshot();
    let ports = |number: u32| [at(1, 2), at(1, 3 + number % 2)];
    let writes = (0..20).flat_map(|number| snooping::members(&state, group(number).into(), &ports(number)));
    sim.report(Event::Write(writes.collect()));
    sim.run();
    let check = |sim: &mut SimNetwork| {
        for number in 0..60 {
            let to = Mac([1, 0, 0x5e, 0, 0, number as u8]);
            let out = send(sim, 0, packet(0, ip(0), to, group(number)));
            let wanted = if number < 20 { vec![2, 3 + number % 2] } else { Vec::new() };
            assert_eq!(out, wanted, "group {number}");
        }
    };
    let before = sim.stats().packet_ins;
    check(&mut sim);
    assert!(sim.stats().packet_ins - before <= 21, "a decision for each of 20 groups, and one for all others");
    // The members of one group change, and its stream does not come to the controller.
    let state = sim.store.snapshot();
    sim.report(Event::Write(snooping::members(&state, group(7).into(), &ports(8))));
    sim.run();
    let to = Mac([1, 0, 0x5e, 0, 0, 7]);
    let before = sim.stats().packet_ins;
    assert_eq!(send(&mut sim, 0, packet(0, ip(0), to, group(7))), [2, 3]);
    assert_eq!(sim.stats().packet_ins, before);
    sim.check_settled().unwrap();
}
