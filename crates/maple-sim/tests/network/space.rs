//! Switches and trees that are too small for all leaves: routes stay f's, bounds hold, and few leaves are evicted.

use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::{LabelRange, Options, Stats};
use maple_core::network::{Location, Mac};
use maple_core::policy::{Net, PacketHandle, Policy};
use maple_core::route::Route;
use maple_sim::{Choices, Delivery, SimNetwork};
use maple_wire::packet::build::Frame;
use maple_wire::{Dpid, PortNo, Version};

use crate::scripts::at;

fn mac(n: u64) -> Mac {
    Mac::from_bits(0x0200_0000_0000 + u128::from(n))
}

/// Needs a rule for each destination. Odd destinations are at switch 2, and the next bit selects one of two ports.
fn by_destination(pkt: &PacketHandle, net: &Net) -> Route {
    let to = pkt.eth_dst().bits() as u64;
    let at = at(1 + to % 2, 3 + (to / 2 % 2) as u32);
    net.shortest_path(Location::new(pkt.switch(), PortNo(2)), at)
}

fn frame(to: u64, number: u32) -> Vec<u8> {
    let frame = Frame::ethernet(mac(to).0, mac(0).0).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1, 2);
    frame.payload(&number.to_be_bytes())
}

/// Routes as [`by_destination`], with a queue for each destination, so that each needs a label of its own.
fn by_destination_and_queue(pkt: &PacketHandle, net: &Net) -> Route {
    let to = pkt.eth_dst().bits() as u64;
    by_destination(pkt, net).queue((to & 0xff) as u32)
}

fn network(options: Options, shards: u8, version: Version) -> SimNetwork {
    network_of(Arc::new(by_destination), options, shards, version)
}

fn network_of(policy: Arc<dyn Policy>, options: Options, shards: u8, version: Version) -> SimNetwork {
    let options = Options { track_hosts: false, ..options };
    let mut sim = SimNetwork::new(policy, shards, &options, 7);
    (1..=2).for_each(|dpid| sim.add_switch(Dpid(dpid), version, 4));
    sim.run();
    sim.add_link(at(1, 1), at(2, 1));
    sim.settle();
    sim
}

fn rules(sim: &mut SimNetwork, dpid: u64) -> usize {
    sim.switch(Dpid(dpid)).map_or(0, |switch| switch.flows().len())
}

/// Sends packets to these destinations, `gap` apart, and checks that each came out where f says. Returns the maximum
/// number of rules that each switch had.
fn play(sim: &mut SimNetwork, to: impl Iterator<Item = u64>, gap: Duration) -> [usize; 2] {
    let mut most = [0, 0];
    let mut want = Vec::new();
    for (number, to) in to.enumerate() {
        sim.inject(at(1, 2), frame(to, number as u32));
        want.push(Delivery { at: at(1 + to % 2, 3 + (to / 2 % 2) as u32), frame: frame(to, number as u32) });
        sim.run_for(gap);
        most = [most[0].max(rules(sim, 1)), most[1].max(rules(sim, 2))];
    }
    sim.run();
    let mut out = std::mem::take(&mut sim.delivered);
    out.sort();
    want.sort();
    assert_eq!(out, want);
    most
}

#[test]
fn more_flows_than_rules_fit_are_answered_right_and_no_bound_is_passed() {
    for (shards, version) in [(1, Version::Of13), (2, Version::Of13), (2, Version::Of10)] {
        let bound = 48;
        let mut sim = network(Options { max_rules: Some(bound), ..Options::default() }, shards, version);
        let mut random = Choices::new(1);
        let to = (0..2000).map(|_| random.below(160) as u64);
        let most = play(&mut sim, to, Duration::from_millis(5));
        assert!(most.iter().all(|most| *most <= bound), "{most:?}");
        assert!(most[0] > bound * 3 / 4, "the capacity is used: {most:?}");
        let Stats { leaves_evicted, flow_mods, capacity_refusals, refused_rules, stats_requests, .. } = sim.stats();
        // At most an eighth of the bound may be evicted each second at each of two switches, for ten seconds.
        assert!((1..=11 * 2 * bound as u64 / 8).contains(&leaves_evicted), "{leaves_evicted}");
        assert!(stats_requests <= 2 * 11, "{stats_requests}");
        assert!(flow_mods < 4 * (leaves_evicted + bound as u64), "{flow_mods} for {leaves_evicted} evictions");
        assert!(capacity_refusals > 0 && refused_rules == 0);
    }
}

#[test]
fn a_table_that_says_that_it_is_full_is_a_bound_that_is_not_run_into_again() {
    for full in [1, 2] {
        for version in [Version::Of10, Version::Of13] {
            let mut sim = network_of(Arc::new(by_destination_and_queue), Options::default(), 2, version);
            let capacity = 40;
            if let Some(switch) = sim.switch(Dpid(full)) {
                switch.model.change_options(|options| options.capacity = capacity);
            }
            let mut random = Choices::new(2);
            let to = (0..2000).map(|_| random.below(160) as u64);
            let most = play(&mut sim, to, Duration::from_millis(5));
            assert!(most[full as usize - 1] <= capacity);
            let Stats { leaves_evicted, labels_evicted, refused_rules, link_drops, .. } = sim.stats();
            assert!((1..40).contains(&refused_rules), "{refused_rules} at switch {full}");
            let evicted = if full == 1 { leaves_evicted } else { labels_evicted };
            assert!(evicted > 0 && link_drops == 0, "{evicted}, {link_drops}");
        }
    }
}

#[test]
fn leaves_that_are_in_use_stay_and_the_others_go() {
    let mut sim = network(Options { max_rules: Some(48), ..Options::default() }, 1, Version::Of13);
    // Ten destinations are always in use, among others that occur once each.
    let to = (0..1500).map(|n| if n % 2 == 0 { n / 2 % 10 } else { 1000 + n });
    play(&mut sim, to, Duration::from_millis(5));
    let before = sim.stats();
    play(&mut sim, (0..200).map(|n| n % 10), Duration::from_millis(5));
    assert!(before.leaves_evicted > 20, "{before:?}");
    assert!(sim.stats().packet_ins - before.packet_ins < 20, "the ten have their rules");
}

#[test]
fn a_tree_has_no_more_leaves_than_it_may_have() {
    for shards in [1, 2] {
        let mut sim = network(Options { max_traces: Some(20), ..Options::default() }, shards, Version::Of13);
        let mut random = Choices::new(3);
        for _ in 0..10 {
            let to: Vec<u64> = (0..150).map(|_| random.below(60) as u64).collect();
            play(&mut sim, to.into_iter(), Duration::from_millis(5));
            assert!(sim.stats().leaves <= 20);
        }
        let Stats { leaves_evicted, capacity_refusals, .. } = sim.stats();
        assert!(leaves_evicted > 0 && capacity_refusals > 0);
    }
}

#[test]
fn a_network_within_its_limits_requests_no_statistics_and_evicts_no_leaf() {
    let mut sim = network(Options { max_rules: Some(500), ..Options::default() }, 1, Version::Of13);
    play(&mut sim, (0..400).map(|n| n % 100), Duration::from_millis(5));
    let Stats { leaves_evicted, capacity_refusals, stats_requests, .. } = sim.stats();
    assert_eq!((leaves_evicted, capacity_refusals, stats_requests), (0, 0, 0));
}

/// A switch without capacity for the rules that it must have does not get them sent without end.
#[test]
fn a_rule_of_the_engines_own_that_finds_no_room_is_tried_again_after_a_while() {
    let mut sim = network(Options::default(), 1, Version::Of13);
    assert_eq!(play(&mut sim, 0..4, Duration::from_millis(100)).len(), 2);
    for capacity in 1..8 {
        if let Some(switch) = sim.switch(Dpid(2)) {
            switch.model.change_options(|options| options.capacity = capacity);
        }
        let before = sim.stats().refused_rules;
        sim.restart(Dpid(2));
        sim.run_for(Duration::from_millis(5));
        sim.ports_of(Dpid(2)).into_iter().for_each(|at| sim.rediscover(at));
        sim.run_for(Duration::from_secs(60));
        let refused = sim.stats().refused_rules - before;
        assert!(refused < 200, "capacity for {capacity} rules: {refused} refused in a minute");
    }
    if let Some(switch) = sim.switch(Dpid(2)) {
        switch.model.change_options(|options| options.capacity = usize::MAX);
    }
    sim.run_for(Duration::from_secs(120));
    play(&mut sim, 4..8, Duration::from_millis(100));
}

/// Leaves are evicted and come back, while their routes are refused labels and get them. No leaf keeps a label that was
/// given to another.
#[test]
fn a_leaf_that_was_crowded_out_comes_back_with_labels_that_are_its_own() {
    for (shards, version) in [(1, Version::Of13), (2, Version::Of13), (2, Version::Of10)] {
        let labels = LabelRange::new(1..=3).expect("VLAN ids");
        let options = Options { max_rules: Some(40), labels, ..Options::default() };
        let mut sim = network_of(Arc::new(by_destination_and_queue), options, shards, version);
        let mut random = Choices::new(5);
        for _ in 0..10 {
            let to: Vec<u64> = (0..200).map(|_| random.below(90) as u64).collect();
            play(&mut sim, to.into_iter(), Duration::from_millis(5));
        }
        let Stats { leaves_evicted, labels_refused, link_drops, .. } = sim.stats();
        assert!(leaves_evicted > 0 && labels_refused > 0, "{leaves_evicted}, {labels_refused}");
        assert_eq!(link_drops, 0);
    }
}
