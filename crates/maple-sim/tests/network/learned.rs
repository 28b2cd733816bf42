//! Look-ups of what the network has learned: hosts in slices.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use maple_core::compose::{Composition, Slice};
use maple_core::engine::Options;
use maple_core::network::Mac;
use maple_core::policy::{Net, PacketHandle, Policy};
use maple_core::route::Route;
use maple_sim::{SimNetwork, SimSwitch};
use maple_wire::packet::build::Frame;
use maple_wire::{Dpid, Field, PortNo, Version};

use crate::scripts::at;

const ONE: Dpid = Dpid(1);
const PORTS: u32 = 4;
const HOSTS: u32 = 24;

/// The port of a host.
fn port(host: u32) -> u32 {
    host % PORTS + 1
}

fn mac(host: u32) -> Mac {
    Mac::from_bits(0x0200_0000_0000 + u128::from(host))
}

fn ip(host: u32) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, host as u8)
}

/// A packet from a host with this IP address to an Ethernet and an IP address.
fn packet(from: u32, src: Ipv4Addr, to: Mac, dst: Ipv4Addr) -> Vec<u8> {
    Frame::ethernet(to.0, mac(from).0).ipv4(src.octets(), dst.octets()).udp(1000, 7).payload(b"hello")
}

/// Creates one switch with hosts at its ports, each of which has announced its address.
fn network(policy: Arc<dyn Policy>, look_up_tables: u8, explored_leaves: usize) -> SimNetwork {
    let options = Options { look_up_tables, explored_leaves, ..Options::default() };
    let mut sim = SimNetwork::new(policy, 1, &options, 11);
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

/// Sends packets along the shortest path to hosts that are known.
fn to_the_place(_: &PacketHandle, net: &Net) -> Route {
    let locate = |field| net.locate_by(field, None).ok().flatten();
    match (locate(Field::EthSrc), locate(Field::EthDst)) {
        (Some(src), Some(dst)) => net.shortest_path(src.start(), dst.location()),
        _ => Route::drop(),
    }
}

/// Two slices, each with two ports and the same policy.
fn slices() -> Composition<Arc<dyn Policy>> {
    let routing = || Composition::single(Arc::new(to_the_place) as Arc<dyn Policy>);
    let slice = |name: &str, ports: [u32; 2]| Slice::new(name, routing()).ports(ports.map(|port| at(1, port)));
    let drops = Composition::single(Arc::new(|_: &PacketHandle, _: &Net| Route::drop()) as Arc<dyn Policy>);
    Composition::slices([slice("red", [1, 2]), slice("blue", [3, 4])], drops, None).expect("ports differ")
}

/// Whether two ports are in one slice.
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
