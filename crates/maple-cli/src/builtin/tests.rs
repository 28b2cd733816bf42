//! The built-in policies, counted in rules: they grow with hosts, not with pairs of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use maple::App;
use maple_core::engine::Options;
use maple_core::network::{Location, Mac};
use maple_core::policy::Policy;
use maple_sim::SimNetwork;
use maple_wire::packet::build::Frame;
use maple_wire::{Dpid, PortNo, Version};

const SWITCHES: u64 = 3;

/// The ports to the switch before and the switch after.
const LINKS: [u32; 2] = [101, 102];

/// Returns the place of the host with this number. All switches have as many hosts, each at a port of its own.
fn place(host: u64) -> Location {
    Location::new(Dpid(host % SWITCHES + 1), PortNo((host / SWITCHES) as u32 + 1))
}

fn frame(from: u64, to: u64) -> Vec<u8> {
    let mac = |host: u64| Mac::from_bits(0x0200_0000_0000 + u128::from(host)).0;
    Frame::ethernet(mac(to), mac(from)).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1000, 80).payload(b"hello")
}

/// Creates a line of switches.
fn network(policy: Arc<dyn Policy>, look_up_tables: u8, hosts: u64) -> SimNetwork {
    let options = Options { look_up_tables, ..Options::default() };
    let mut sim = SimNetwork::new(policy, 1, &options, 7);
    for dpid in (1..=SWITCHES).map(Dpid) {
        let ports = (1..=(hosts / SWITCHES) as u32).chain(LINKS).map(PortNo);
        sim.connect(maple_sim::SimSwitch::new(dpid, Version::Of13), ports);
    }
    sim.run();
    for dpid in 1..SWITCHES {
        let [before, after] = LINKS.map(PortNo);
        sim.add_link(Location::new(Dpid(dpid), after), Location::new(Dpid(dpid + 1), before));
    }
    sim.settle();
    sim
}

/// Sends packets between all pairs of hosts, twice. Returns the number of rules, and where the second packets came out.
fn after_all_pairs(policy: &Arc<dyn Policy>, tables: u8, hosts: u64) -> (usize, BTreeMap<(u64, u64), Vec<Location>>) {
    let mut sim = network(Arc::clone(policy), tables, hosts);
    let mut outcome = BTreeMap::new();
    for _ in 0..2 {
        let pairs = (0..hosts).flat_map(|from| (0..hosts).map(move |to| (from, to))).filter(|(from, to)| from != to);
        outcome = pairs
            .map(|(from, to)| {
                sim.inject(place(from), frame(from, to));
                sim.run();
                ((from, to), sim.delivered.drain(..).map(|delivery| delivery.at).collect())
            })
            .collect();
    }
    (sim.switches().map(|switch| switch.flows().len()).sum(), outcome)
}

/// Returns the built-in policy, and the same one as a program writes it.
fn policies() -> [Arc<dyn Policy>; 2] {
    let closure = |pkt: &maple::Packet, net: &maple::Net| {
        if pkt.is_multicast() {
            return net.flood();
        }
        match (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst())) {
            (Some(src), Some(dst)) => net.shortest_path(src, dst),
            _ => net.flood(),
        }
    };
    [super::named("shortest-path").unwrap(), App::new(closure).into_parts().unwrap().0.policy]
}

#[test]
fn with_look_ups_the_rules_of_all_pairs_grow_with_the_hosts() {
    for policy in policies() {
        let (some, _) = after_all_pairs(&policy, 4, 12);
        let (more, _) = after_all_pairs(&policy, 4, 24);
        assert!(5 * more <= 11 * some, "{some} rules for 12 hosts, {more} for 24");
        let (pairs, _) = after_all_pairs(&policy, 0, 24);
        assert!(pairs > 24 * 23, "{pairs} rules without look-ups");
    }
}

#[test]
fn with_look_ups_packets_come_out_where_they_do_without() {
    for policy in policies() {
        let (_, with) = after_all_pairs(&policy, 4, 9);
        assert!(with.iter().all(|((_, to), places)| *places == [place(*to)]), "{with:?}");
        assert_eq!(with, after_all_pairs(&policy, 0, 9).1);
    }
}
