//! One decision for all places that a look-up finds: the rules of keys say the ways.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::{Event, LookUpStatus, Options};
use maple_core::network::{Location, Mac};
use maple_core::policy::{Net, PacketHandle, Policy};
use maple_core::route::Route;
use maple_core::run::Observe as _;
use maple_core::state::Write;
use maple_sim::{SimNetwork, SimSwitch};
use maple_wire::msg::Message;
use maple_wire::packet::build::Frame;
use maple_wire::{Action, Dpid, Field, Instruction, PortNo, Version};

const SWITCHES: u64 = 4;

/// The ports to the switch before and the switch after.
const LINKS: [u32; 2] = [101, 102];

fn options(open_routes: bool) -> Options {
    // Hosts are silent for long while others talk.
    let host_timeout = Duration::from_secs(1_000_000);
    Options { look_up_tables: 3, open_routes, remember: true, host_timeout, ..Options::default() }
}

fn at(dpid: u64, port: u32) -> Location {
    Location::new(Dpid(dpid), PortNo(port))
}

/// Returns the place of the host with this number: as many hosts at each switch, each at a port of its own.
fn place(host: u64) -> Location {
    at(host % SWITCHES + 1, (host / SWITCHES) as u32 + 1)
}

fn mac(host: u64) -> [u8; 6] {
    [2, 0, 0, 0, (host >> 8) as u8, host as u8]
}

fn frame(from: u64, to: u64) -> Vec<u8> {
    Frame::ethernet(mac(to), mac(from)).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1000, 80).payload(b"hello")
}

/// Floods to hosts that are not known, and sends to others by the shortest path.
fn to_host(pkt: &PacketHandle, net: &Net) -> Route {
    if pkt.is_multicast() {
        return net.flood();
    }
    let locate = |field| net.locate_by(field, None).ok().flatten();
    if locate(Field::EthDst).is_none() { net.flood() } else { to_known(pkt, net) }
}

/// Sends to hosts that are known by the shortest path, and drops what is for others.
fn to_known(_: &PacketHandle, net: &Net) -> Route {
    let locate = |field| net.locate_by(field, None).ok().flatten();
    match (locate(Field::EthDst), locate(Field::EthSrc)) {
        (Some(dst), Some(src)) => net.shortest_path(src.start(), dst),
        _ => Route::drop(),
    }
}

/// Returns a line of switches, with a port more at each than it has hosts.
fn line(policy: impl Policy + 'static, hosts: u64, options: &Options) -> SimNetwork {
    let mut sim = SimNetwork::new(Arc::new(policy), 1, options, 7);
    for dpid in 1..=SWITCHES {
        let ports = (1..=hosts.div_ceil(SWITCHES) as u32 + 1).chain(LINKS).map(PortNo);
        sim.connect(SimSwitch::new(Dpid(dpid), Version::Of13), ports);
    }
    sim.run();
    for dpid in 1..SWITCHES {
        sim.add_link(at(dpid, LINKS[1]), at(dpid + 1, LINKS[0]));
    }
    sim.settle();
    sim
}

/// Sends packets between all pairs of hosts. Returns the number of packet-ins.
fn all_pairs(sim: &mut SimNetwork, hosts: u64) -> u64 {
    let before = sim.stats().packet_ins;
    for (from, to) in (0..hosts).flat_map(|from| (0..hosts).map(move |to| (from, to))).filter(|(from, to)| from != to) {
        sim.inject(place(from), frame(from, to));
        sim.run();
        let places: Vec<Location> = sim.delivered.drain(..).map(|delivery| delivery.at).collect();
        assert_eq!(places, [place(to)], "from {from} to {to}");
    }
    sim.stats().packet_ins - before
}

fn rules(sim: &SimNetwork) -> usize {
    sim.switches().map(|switch| switch.flows().len()).sum()
}

/// Lets all hosts be known.
fn announce(sim: &mut SimNetwork, hosts: u64) {
    for host in 0..hosts {
        let other = (host + 1) % hosts;
        sim.inject(place(host), frame(host, other));
        sim.run();
    }
    sim.settle();
    sim.delivered.clear();
}

#[test]
fn the_rules_of_all_pairs_grow_with_the_keys_and_labels_alone() {
    let count = |hosts, is_open| {
        let mut sim = line(to_host, hosts, &options(is_open));
        announce(&mut sim, hosts);
        all_pairs(&mut sim, hosts);
        sim.settle();
        assert_eq!(all_pairs(&mut sim, hosts), 0);
        rules(&sim)
    };
    let (open, closed) = ([12, 24].map(|hosts| count(hosts, true)), [12, 24].map(|hosts| count(hosts, false)));
    println!("{open:?} rules, {closed:?} without open routes");
    // A rule for each key and each host of the switch, and those of the labels.
    let labels = |hosts: usize| hosts / 4 * (1 + 4 + 4 + 1);
    assert!(open[1] - open[0] <= (24 - 12) * 4 + 12 + labels(24) - labels(12), "{open:?}");
    assert!(closed[1] - open[1] >= 24 * 3, "{closed:?} against {open:?}");
}

/// Returns the changes of rules that were sent since this was last called, by switch and table.
fn changes(sim: &mut SimNetwork) -> BTreeMap<(Dpid, u8), usize> {
    let mut all = BTreeMap::new();
    for (dpid, message) in sim.messages.replace(Vec::new()).unwrap_or_default() {
        if let Message::FlowMod(flow_mod) = message {
            *all.entry((dpid, flow_mod.table_id)).or_default() += 1;
        }
    }
    all
}

/// The table of the only look-up.
const LOOK_UP: u8 = 1;
const INGRESS: u8 = 4;

#[test]
fn a_host_that_moves_changes_its_key_at_each_switch_and_no_decision() {
    let hosts: u64 = 12;
    // Floods follow the ports of the network.
    let to_known = |pkt: &PacketHandle, net: &Net| if pkt.is_multicast() { Route::drop() } else { to_known(pkt, net) };
    let mut sim = line(to_known, hosts, &options(true));
    announce(&mut sim, hosts);
    all_pairs(&mut sim, hosts);
    sim.settle();
    changes(&mut sim);
    // The first new place is one that no host has had, so its ways have to become ready. Another host is at the second.
    for (new, most) in [(at(3, 4), 3), (place(1), 1)] {
        sim.inject(new, frame(0, 1));
        sim.run_for(Duration::from_secs(30));
        sim.inject(new, frame(0, 1));
        sim.run_for(Duration::from_secs(1));
        let host = sim.store.snapshot().host(Mac(mac(0))).map(|host| host.location);
        assert_eq!(host, Some(new));
        sim.delivered.clear();
        let sent = changes(&mut sim);
        let leaves: usize = sent.iter().filter(|((_, table), _)| *table == INGRESS).map(|(_, count)| *count).sum();
        assert_eq!(leaves, 0, "{sent:?}");
        for dpid in [1, 4].map(Dpid) {
            let keys = sent.get(&(dpid, LOOK_UP)).copied().unwrap_or_default();
            assert!((1..=most).contains(&keys), "{keys} changes at switch {dpid}: {sent:?}");
        }
        for from in 2..hosts {
            sim.inject(place(from), frame(from, 0));
            sim.run();
            let places: Vec<Location> = sim.delivered.drain(..).map(|delivery| delivery.at).collect();
            assert_eq!(places, [new], "from {from}");
        }
    }
}

#[test]
fn a_restart_changes_no_rule() {
    let hosts: u64 = 8;
    let mut sim = line(to_host, hosts, &options(true));
    announce(&mut sim, hosts);
    all_pairs(&mut sim, hosts);
    sim.settle();
    for shards in [1, 2, 3] {
        changes(&mut sim);
        sim.restart_controller(shards);
        sim.run();
        assert_eq!(all_pairs(&mut sim, hosts), 0, "{shards} shards");
        assert_eq!(changes(&mut sim), BTreeMap::new(), "{shards} shards");
    }
}

#[test]
fn a_restart_with_the_option_changed_exchanges_what_differs_and_back() {
    let hosts: u64 = 8;
    let mut sim = line(to_host, hosts, &options(true));
    announce(&mut sim, hosts);
    all_pairs(&mut sim, hosts);
    sim.settle();
    let with_ways = (rules(&sim), ways(&sim));
    assert_eq!(with_ways.1, (hosts * SWITCHES) as usize);
    for (is_open, shards) in [(false, 2), (true, 1), (false, 1), (true, 2)] {
        sim.set_options(|options| options.open_routes = is_open);
        sim.restart_controller(shards);
        sim.run();
        for _ in 0..2 {
            all_pairs(&mut sim, hosts);
            sim.settle();
        }
        assert_eq!(all_pairs(&mut sim, hosts), 0);
        let now = (rules(&sim), ways(&sim));
        assert!(if is_open { now == with_ways } else { now.0 > with_ways.0 && now.1 == 0 }, "{is_open}: {now:?}");
    }
}

#[test]
fn a_switch_without_action_sets_does_without() {
    let hosts: u64 = 8;
    let ways_of = |takes_action_sets| {
        let policy: Arc<dyn Policy> = Arc::new(to_host);
        let mut sim = SimNetwork::new(policy, 1, &options(true), 7);
        for dpid in 1..=SWITCHES {
            let mut switch = SimSwitch::new(Dpid(dpid), Version::Of13);
            switch.takes_action_sets = takes_action_sets;
            sim.connect(switch, (1..=hosts.div_ceil(SWITCHES) as u32).chain(LINKS).map(PortNo));
        }
        sim.run();
        for dpid in 1..SWITCHES {
            sim.add_link(at(dpid, LINKS[1]), at(dpid + 1, LINKS[0]));
        }
        // A switch that refuses something that its layout rests on connects again, and its ports are found again.
        for _ in 0..2 {
            sim.run_for(Duration::from_secs(1));
            sim.settle_ports();
        }
        sim.settle();
        announce(&mut sim, hosts);
        all_pairs(&mut sim, hosts);
        sim.settle();
        assert_eq!(all_pairs(&mut sim, hosts), 0);
        let writes = |instruction: &Instruction| matches!(instruction, Instruction::WriteActions(_));
        let all = sim.switches().flat_map(|switch| switch.flows());
        all.filter(|flow| flow.instructions.iter().any(writes)).count()
    };
    assert_eq!((ways_of(true), ways_of(false)), (hosts as usize * SWITCHES as usize, 0));
}

/// Returns the number of rules of keys that say a way to a place, at all switches.
fn ways(sim: &SimNetwork) -> usize {
    let says_way = |instruction: &Instruction| match instruction {
        Instruction::WriteActions(actions) => *actions != [Action::to_controller()],
        _ => false,
    };
    sim.switches().flat_map(SimSwitch::flows).filter(|flow| flow.instructions.iter().any(says_way)).count()
}

#[test]
fn a_switch_has_ways_to_the_places_where_packets_go_and_to_no_others() {
    let hosts: u64 = 12;
    let mut sim = line(to_known, hosts, &options(true));
    // Each host sends to the next one; that of its packets which came before the next one was known were dropped.
    announce(&mut sim, hosts);
    announce(&mut sim, hosts);
    sim.settle();
    assert_eq!(ways(&sim), hosts as usize, "one at each switch for each host of it that sends");
    all_pairs(&mut sim, hosts);
    sim.settle();
    assert_eq!(ways(&sim), (hosts * SWITCHES) as usize);
    assert_eq!(all_pairs(&mut sim, hosts), 0);
}

#[test]
fn a_switch_that_refuses_one_way_has_the_others() {
    let hosts: u64 = 8;
    let mut sim = line(to_host, hosts, &options(true));
    let (refused, port) = (place(4), place(4).port);
    sim.switch(refused.switch).expect("it is there").refused_ports.in_sets = Some(port);
    announce(&mut sim, hosts);
    all_pairs(&mut sim, hosts);
    sim.settle();
    let before = sim.stats().packet_ins;
    all_pairs(&mut sim, hosts);
    sim.settle();
    // Those from the other host of the switch to the host at that port.
    assert_eq!(sim.stats().packet_ins - before, 1);
    assert_eq!(ways(&sim), (hosts * SWITCHES) as usize - 1);
    let looks_up = |status: &LookUpStatus| status.look_up == "hosts[eth_dst]" && status.lowered.is_none();
    for dpid in (1..=SWITCHES).map(Dpid) {
        assert!(sim.engines()[0].view().look_ups(dpid).unwrap_or_default().iter().any(looks_up), "{dpid}");
        assert_eq!(sim.engines()[0].view().action_sets(dpid), Some(true), "{dpid}");
    }
}

#[test]
fn a_decision_for_all_places_outlives_the_place_of_its_first_packet() {
    let hosts: u64 = 8;
    let policy = |pkt: &PacketHandle, net: &Net| if pkt.is_multicast() { Route::drop() } else { to_known(pkt, net) };
    let mut sim = line(policy, hosts, &options(true));
    announce(&mut sim, hosts);
    all_pairs(&mut sim, hosts);
    // Host 1 was the destination of the first packet of host 0.
    sim.remove_port(place(1));
    sim.settle();
    sim.reload(Arc::new(policy));
    sim.settle();
    sim.delivered.clear();
    let before = sim.stats().packet_ins;
    for (from, to) in [(0, 2), (4, 3), (0, 5), (4, 7)] {
        sim.inject(place(from), frame(from, to));
        sim.run();
        let places: Vec<Location> = sim.delivered.drain(..).map(|delivery| delivery.at).collect();
        assert_eq!(places, [place(to)], "from {from} to {to}");
    }
    assert_eq!(sim.stats().packet_ins, before);
}

#[test]
fn other_paths_have_the_look_up_when_no_decision_follows_the_first_ones() {
    let hosts: u64 = 8;
    let by_mode = |pkt: &PacketHandle, net: &Net| {
        let locate = |field| net.locate_by(field, None).ok().flatten();
        let by_costs = net.var("mode").is_some();
        match (locate(Field::EthDst), locate(Field::EthSrc)) {
            _ if pkt.is_multicast() => Route::drop(),
            (Some(dst), Some(src)) if by_costs => net.path(src.start(), dst, "delay"),
            (Some(dst), Some(src)) => net.shortest_path(src.start(), dst),
            _ => Route::drop(),
        }
    };
    let mut sim = line(by_mode, hosts, &options(true));
    sim.report(Event::Write(vec![Write::CostName("delay".into())]));
    sim.settle();
    announce(&mut sim, hosts);
    all_pairs(&mut sim, hosts);
    sim.settle();
    let before = (rules(&sim), ways(&sim));
    sim.report(Event::Write(vec![Write::Var { name: "mode".into(), value: Some(1i64.into()) }]));
    sim.settle();
    all_pairs(&mut sim, hosts);
    sim.settle();
    all_pairs(&mut sim, hosts);
    sim.settle();
    assert_eq!(all_pairs(&mut sim, hosts), 0);
    assert_eq!((rules(&sim), ways(&sim)), before);
    // A restart changes nothing of that.
    sim.restart_controller(2);
    sim.run();
    assert_eq!(all_pairs(&mut sim, hosts), 0);
    assert_eq!((rules(&sim), ways(&sim)), before);
}

#[test]
fn a_policy_that_looks_at_the_path_has_a_decision_for_each_place() {
    let looks = |pkt: &PacketHandle, net: &Net| {
        let route = to_host(pkt, net);
        if route.is_unreachable() || pkt.equals(Field::TcpDst, 22, 0xffff, None) { Route::drop() } else { route }
    };
    let hosts: u64 = 8;
    let mut sim = line(looks, hosts, &options(true));
    announce(&mut sim, hosts);
    all_pairs(&mut sim, hosts);
    sim.settle();
    assert_eq!(all_pairs(&mut sim, hosts), 0);
    let writes = |instruction: &Instruction| matches!(instruction, Instruction::WriteActions(_));
    let mut all = sim.switches().flat_map(|switch| switch.flows());
    assert!(!all.any(|flow| flow.instructions.iter().any(writes)));
    let of_eth_dst = |status: &LookUpStatus| status.look_up == "hosts[eth_dst]" && status.lowered.is_none();
    assert!(sim.engines()[0].view().look_ups(Dpid(1)).unwrap_or_default().iter().any(of_eth_dst));
}

#[test]
fn an_announcement_to_a_place_without_a_way_is_learned_from_and_forwarded() {
    let hosts: u64 = 8;
    // The policy depends on what hosts announce, so the switch copies that to the controller.
    let of_unbound = |pkt: &PacketHandle, net: &Net| {
        if net.is_bound_by(Field::EthSrc, Field::Ipv4Src, None) { Route::drop() } else { to_known(pkt, net) }
    };
    let mut sim = line(of_unbound, hosts, &options(true));
    announce(&mut sim, hosts);
    announce(&mut sim, hosts);
    // Nobody at the switch of host 0 has sent to host 6.
    sim.inject(place(0), Frame::ethernet(mac(6), mac(0)).arp_request([10, 0, 1, 0], [10, 0, 1, 6]));
    sim.run();
    let places: Vec<Location> = sim.delivered.drain(..).map(|delivery| delivery.at).collect();
    assert_eq!(places, [place(6)]);
    let announced = sim.store.snapshot().host(Mac(mac(0))).map(|host| host.ipv4.clone());
    assert_eq!(announced, Some([[10, 0, 1, 0].into()].into()));
}

#[test]
fn where_all_is_explored_no_packet_between_known_hosts_is_a_miss() {
    let hosts: u64 = 12;
    let mut sim = line(to_host, hosts, &Options { explored_leaves: 64, ..options(true) });
    announce(&mut sim, hosts);
    sim.run_for(Duration::from_secs(10));
    sim.delivered.clear();
    assert_eq!(all_pairs(&mut sim, hosts), 0);
    for dpid in (1..=SWITCHES).map(Dpid) {
        let explored = sim.engines()[0].view().exploration(dpid).expect("it is explored");
        assert_eq!((explored.stopped, explored.open), (None, Vec::new()), "{dpid}");
    }
}
