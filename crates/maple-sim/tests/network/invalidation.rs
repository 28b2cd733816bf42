//! The leaves that an invalidation withdraws, and the number of leaves that it examines for that.

use std::sync::Arc;

use maple_core::engine::{Event, LeafSelection, Options, Stats};
use maple_core::network::{Location, Mac};
use maple_core::policy::{Net, PacketHandle};
use maple_core::route::Route;
use maple_sim::SimNetwork;
use maple_wire::packet::build::Frame;
use maple_wire::{Constraint, Dpid, Field, PortNo, Version};

use crate::scripts::at;

fn mac(n: u64) -> Mac {
    Mac::from_bits(0x0200_0000_0000 + u128::from(n))
}

/// Reads both addresses. Odd destinations are at the other switch, even ones at port 4.
fn by_address(pkt: &PacketHandle, net: &Net) -> Route {
    pkt.eth_src();
    let odd = pkt.eth_dst().bits() % 2 == 1;
    let to = if odd { at(2, 4) } else { at(1, 4) };
    net.shortest_path(Location::new(pkt.switch(), PortNo(3)), to)
}

/// Creates two switches. The first has a leaf for each of `pairs` pairs of hosts that communicate with no one else. It
/// also has nine leaves for host 1, which sends to nine others.
fn network(pairs: u64) -> SimNetwork {
    let options = Options { track_hosts: false, ..Options::default() };
    let mut sim = SimNetwork::new(Arc::new(by_address), 1, &options, 7);
    (1..=2).for_each(|dpid| sim.add_switch(Dpid(dpid), Version::Of13, 4));
    sim.run();
    sim.add_link(at(1, 1), at(2, 1));
    sim.settle();
    let quiet = (0..pairs).map(|n| (1000 + 4 * n, 1002 + 4 * n));
    for (from, to) in quiet.chain((0..9).map(|n| (1, 11 + 2 * n))) {
        let frame = Frame::ethernet(mac(to).0, mac(from).0).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1, 2);
        sim.inject(at(1, 3), frame.payload(b"x"));
    }
    sim.run();
    sim
}

/// Returns the number of leaves that a selection withdraws, and the number that are examined.
fn cost(pairs: u64, selection: &LeafSelection) -> (u64, u64) {
    let mut sim = network(pairs);
    let before = sim.stats();
    assert_eq!(before.leaves, pairs + 9);
    sim.report(Event::Invalidate(selection.clone()));
    sim.run();
    let after = sim.stats();
    assert_eq!(before.leaves - after.leaves, after.leaves_withdrawn - before.leaves_withdrawn);
    (after.leaves_withdrawn - before.leaves_withdrawn, after.leaves_examined - before.leaves_examined)
}

#[test]
fn an_invalidation_looks_at_the_leaves_that_it_withdraws_and_at_few_others_however_many_there_are() {
    let two = [Constraint::exact(Field::EthSrc, mac(1).bits()), Constraint::exact(Field::EthDst, mac(13).bits())];
    for (selection, withdrawn) in [
        (LeafSelection::Host(mac(1)), 9),
        (LeafSelection::Host(mac(1002)), 1),
        (LeafSelection::Host(mac(5)), 0),
        (LeafSelection::Fields(two[..1].to_vec()), 9),
        (LeafSelection::Fields(two.to_vec()), 1),
        (LeafSelection::Port(at(2, 1)), 9),
        (LeafSelection::Port(at(2, 4)), 9),
    ] {
        for pairs in [20, 300] {
            assert_eq!(cost(pairs, &selection), (withdrawn, withdrawn), "{selection:?} among {pairs}");
        }
    }
}

#[test]
fn everything_and_the_port_that_all_packets_may_enter_by_are_whole_trees() {
    for selection in [LeafSelection::All, LeafSelection::Port(at(1, 3)), LeafSelection::Fields(Vec::new())] {
        assert_eq!(cost(20, &selection), (29, 29), "{selection:?}");
    }
}

#[test]
fn a_switch_that_goes_takes_its_own_leaves_and_those_that_cross_it() {
    let mut sim = network(20);
    let dpid = Dpid(2);
    sim.report(Event::LinkDown { a: at(1, 1), b: at(2, 1) });
    sim.run();
    let Stats { leaves, routes_rerouted, .. } = sim.stats();
    assert_eq!((leaves, routes_rerouted), (29, 1), "9 went over the link by one route, and go nowhere now");
    sim.restart(Dpid(1));
    sim.run();
    assert_eq!(sim.engines().iter().map(|engine| engine.view().stats()).map(|stats| stats.leaves).sum::<u64>(), 0);
    assert!(sim.switch(dpid).is_some_and(|switch| switch.flows().len() < 10));
}
