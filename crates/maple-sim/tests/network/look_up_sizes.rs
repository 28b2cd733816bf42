//! What a change costs where look-ups have many keys: a host that moves among a thousand, and a table whose values all
//! change in one transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::{Event, Options};
use maple_core::look_ups::{KeyField, KeyForm, LookUp};
use maple_core::network::{Location, Mac};
use maple_core::policy::{Net, PacketHandle};
use maple_core::route::Route;
use maple_core::state::{Value, Write};
use maple_sim::{SimNetwork, SimSwitch};
use maple_wire::msg::Message;
use maple_wire::packet::build::Frame;
use maple_wire::{Dpid, Field, Instruction, PortNo, Version};

/// The switches with hosts. Each has a link to each of the switches after them, which are the core.
const EDGES: u64 = 16;
const SWITCHES: u64 = 20;
const HOSTS: u64 = 1_000;

/// The tables with one look-up of three.
const CLASSIFIER: u8 = 0;
const LOOK_UP: u8 = 1;
const INGRESS: u8 = 4;
const LABELS: u8 = 5;

fn options(open_routes: bool) -> Options {
    // Hosts are silent for long while others talk.
    let host_timeout = Duration::from_secs(1_000_000);
    Options { look_up_tables: 3, open_routes, host_timeout, ..Options::default() }
}

fn at(dpid: u64, port: u32) -> Location {
    Location::new(Dpid(dpid), PortNo(port))
}

/// Returns the first place of a host.
fn place(host: u64) -> Location {
    at(host % EDGES + 1, (host / EDGES) as u32 + 1)
}

fn mac(number: u64) -> [u8; 6] {
    [2, 0, 0, 0, (number >> 8) as u8, number as u8]
}

fn frame(from: [u8; 6], to: [u8; 6]) -> Vec<u8> {
    Frame::ethernet(to, from).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1000, 80).payload(b"hello")
}

/// Sends to hosts that are known by the shortest path, and drops what is for others.
fn to_known(pkt: &PacketHandle, net: &Net) -> Route {
    let locate = |field| net.locate_by(field, None).ok().flatten();
    if pkt.is_multicast() {
        return Route::drop();
    }
    match (locate(Field::EthDst), locate(Field::EthSrc)) {
        (Some(dst), Some(src)) => net.shortest_path(src.start(), dst),
        _ => Route::drop(),
    }
}

/// Returns a network of edge and core switches whose hosts are all known.
fn campus(open_routes: bool) -> SimNetwork {
    let mut sim = SimNetwork::new(Arc::new(to_known), 1, &options(open_routes), 7);
    let uplink = |core: u64| 1_000 + core as u32;
    for dpid in 1..=SWITCHES {
        let hosts = if dpid <= EDGES { HOSTS.div_ceil(EDGES) as u32 + 1 } else { 0 };
        let links = if dpid <= EDGES { EDGES + 1..=SWITCHES } else { 1..=EDGES };
        sim.connect(SimSwitch::new(Dpid(dpid), Version::Of13), (1..=hosts).chain(links.map(uplink)).map(PortNo));
    }
    sim.run();
    for (edge, core) in (1..=EDGES).flat_map(|edge| (EDGES + 1..=SWITCHES).map(move |core| (edge, core))) {
        sim.add_link(at(edge, uplink(core)), at(core, uplink(edge)));
    }
    sim.settle();
    for host in 0..HOSTS {
        sim.inject(place(host), frame(mac(host), [0xff; 6]));
    }
    sim.run();
    assert_eq!((0..HOSTS).find(|host| location(&sim, *host) != Some(place(*host))), None, "all are known");
    sim
}

fn location(sim: &SimNetwork, host: u64) -> Option<Location> {
    sim.store.snapshot().host(Mac(mac(host))).map(|host| host.location)
}

/// Sends a packet to a host from one host at each switch with hosts. Returns the number of packet-ins.
fn send_from_everywhere(sim: &mut SimNetwork, to: u64) -> u64 {
    let (to_place, before) = (location(sim, to), sim.stats().packet_ins);
    for from in 2 * EDGES..3 * EDGES {
        sim.inject(place(from), frame(mac(from), mac(to)));
        sim.run();
        let places: Vec<Location> = sim.delivered.drain(..).map(|delivery| delivery.at).collect();
        assert_eq!(places, Vec::from_iter(to_place), "from {from} to {to}");
    }
    sim.stats().packet_ins - before
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

/// Lets a host be heard at another place, and sends packets to it from everywhere.
fn move_host(sim: &mut SimNetwork, host: u64, new: Location) -> BTreeMap<(Dpid, u8), usize> {
    changes(sim);
    sim.inject(new, frame(mac(host), [0xff; 6]));
    sim.run_for(Duration::from_secs(30));
    sim.inject(new, frame(mac(host), [0xff; 6]));
    sim.run_for(Duration::from_secs(1));
    assert_eq!(location(sim, host), Some(new));
    send_from_everywhere(sim, host);
    assert_eq!(send_from_everywhere(sim, host), 0, "rules carry the packets");
    sim.settle();
    changes(sim)
}

/// The changes of rules that a move costs.
#[derive(Debug, PartialEq, Eq)]
struct MoveCost {
    /// At each switch with hosts, but the one that the host left and the one where it is now: by table.
    elsewhere: Vec<(u8, usize)>,
    /// At the switch that the host left.
    old: Vec<(u8, usize)>,
    /// At the switch where it is now.
    new: Vec<(u8, usize)>,
    /// At all switches of the core together.
    core: Vec<(u8, usize)>,
}

fn move_cost(sent: &BTreeMap<(Dpid, u8), usize>, old: Location, new: Location) -> MoveCost {
    let at = |dpid: u64| -> Vec<(u8, usize)> {
        let of_switch = sent.iter().filter(|((switch, _), _)| *switch == Dpid(dpid));
        of_switch.map(|((_, table), count)| (*table, *count)).collect()
    };
    let others = (1..=EDGES).filter(|dpid| ![old.switch, new.switch].contains(&Dpid(*dpid)));
    let elsewhere: BTreeSet<Vec<(u8, usize)>> = others.map(at).collect();
    assert_eq!(elsewhere.len(), 1, "the cost is the same at each of them: {sent:?}");
    let core = (EDGES + 1..=SWITCHES).flat_map(at).collect();
    MoveCost {
        elsewhere: elsewhere.into_iter().flatten().collect(),
        old: at(old.switch.0),
        new: at(new.switch.0),
        core,
    }
}

/// Moves a host of a thousand to a place where another host is and packets go already, and on to a place that nobody
/// has had. Returns the cost of each move.
fn costs_of_moves(open_routes: bool) -> [MoveCost; 2] {
    let mut sim = campus(open_routes);
    for to in [0, 1] {
        send_from_everywhere(&mut sim, to);
    }
    sim.settle();
    let (known, never_used) = (place(1), at(3, HOSTS.div_ceil(EDGES) as u32 + 1));
    [(place(0), known), (known, never_used)].map(|(old, new)| move_cost(&move_host(&mut sim, 0, new), old, new))
}

#[test]
fn a_host_that_moves_among_a_thousand_changes_one_rule_at_each_switch() {
    let [known, never_used] = costs_of_moves(false);
    // The rule of the host goes before its key changes, so the key sends to the controller meanwhile.
    let (old, new) = (vec![(CLASSIFIER, 1), (LOOK_UP, 2)], vec![(CLASSIFIER, 1), (LOOK_UP, 1)]);
    assert_eq!(known, MoveCost { elsewhere: vec![(LOOK_UP, 1)], old, new, core: Vec::new() });
    // The first packet to the place makes a decision at each switch, and labels on the way.
    let expected = MoveCost {
        elsewhere: vec![(LOOK_UP, 1), (INGRESS, 1)],
        old: vec![(CLASSIFIER, 1), (LOOK_UP, 2), (INGRESS, 1)],
        new: vec![(CLASSIFIER, 1), (LOOK_UP, 1), (INGRESS, 1), (LABELS, 1)],
        core: vec![(LABELS, 1)],
    };
    assert_eq!(never_used, expected);
}

#[test]
fn with_open_routes_a_host_that_moves_changes_no_decision() {
    let [known, never_used] = costs_of_moves(true);
    // The labels of the way to a place go with its last host.
    let expected = MoveCost {
        elsewhere: vec![(LOOK_UP, 1)],
        old: vec![(CLASSIFIER, 1), (LOOK_UP, 2), (LABELS, 1)],
        new: vec![(CLASSIFIER, 1), (LOOK_UP, 1)],
        core: vec![(LABELS, 1)],
    };
    assert_eq!(known, expected);
    // Until the labels of the new way are ready, the keys send to the controller.
    let expected = MoveCost {
        elsewhere: vec![(LOOK_UP, 2)],
        old: vec![(CLASSIFIER, 1), (LOOK_UP, 2)],
        new: vec![(CLASSIFIER, 1), (LOOK_UP, 1), (LABELS, 1)],
        core: vec![(LABELS, 1)],
    };
    assert_eq!(never_used, expected);
}

/// The table that changes, by a field of the packet.
fn side(field: Field) -> LookUp {
    LookUp::by("side", KeyField { field, form: KeyForm::Mac })
}

fn is_left(net: &Net, field: Field) -> bool {
    net.look_up(&side(field), None) == Some(Value::Int(1))
}

const KEYS: u64 = 10_000;

/// Writes for all keys on which side they are.
fn write_sides(sim: &mut SimNetwork, sides: [i64; 2]) {
    let row = |number: u64| Write::Table {
        table: "side".into(),
        key: Value::Mac(Mac(mac(number))),
        value: Some(sides[(number % 2) as usize].into()),
    };
    sim.report(Event::Write((0..KEYS).map(row).collect()));
    sim.run();
}

/// Sends a packet from a host of each side to one of each side, at both switches. Returns the ports where they come
/// out.
fn answers(sim: &mut SimNetwork) -> Vec<u32> {
    let mut ports = Vec::new();
    for (dpid, from, to) in [1, 2].into_iter().flat_map(|dpid| (0..4).map(move |pair| (dpid, pair / 2, pair % 2))) {
        sim.inject(at(dpid, 3), frame(mac(from), mac(to)));
        sim.run();
        ports.extend(sim.delivered.drain(..).map(|delivery| delivery.at.port.0));
    }
    ports
}

/// Lets all keys of a table change sides in one transaction, at two switches where packets came in. `ports`: where the
/// packets of [`answers`] come out before and after. Returns the numbers of keys' rules and of flow-mods, for each
/// switch and each table of a look-up.
fn flip(
    policy: impl Fn(&PacketHandle, &Net) -> Route + Send + Sync + 'static,
    ports: [[u32; 4]; 2],
) -> Vec<(usize, usize)> {
    let options = Options { track_hosts: false, look_up_tables: 2, ..Options::default() };
    let mut sim = SimNetwork::new(Arc::new(policy), 1, &options, 7);
    for dpid in [1, 2] {
        sim.connect(SimSwitch::new(Dpid(dpid), Version::Of13), (1..=3).map(PortNo));
    }
    sim.settle();
    write_sides(&mut sim, [1, 2]);
    assert_eq!(answers(&mut sim), [ports[0], ports[0]].concat());
    changes(&mut sim);
    write_sides(&mut sim, [2, 1]);
    let sent = changes(&mut sim);
    let misses = sim.stats().packet_ins;
    assert_eq!(answers(&mut sim), [ports[1], ports[1]].concat());
    assert_eq!(sim.stats().packet_ins, misses, "no decision has changed");
    let mut keys = |dpid: Dpid, table: u8| {
        let mut rules = sim.switch(dpid).expect("it is there").flows();
        rules.retain(|rule| {
            rule.table_id == table && matches!(rule.instructions[..], [Instruction::WriteMetadata { .. }, ..])
        });
        rules.len()
    };
    sent.iter().map(|((dpid, table), count)| (keys(*dpid, *table), *count)).collect()
}

#[test]
fn the_keys_of_one_look_up_change_with_one_message_each() {
    let costs = flip(
        |_, net| Route::to([PortNo(if is_left(net, Field::EthDst) { 1 } else { 2 })]),
        [[1, 2, 1, 2], [2, 1, 2, 1]],
    );
    assert_eq!(costs, [(KEYS as usize, KEYS as usize); 2]);
}

/// A packet must not find its source in one state and its destination in another. So all keys send to the controller
/// before the first one has its new class.
#[test]
fn the_keys_of_two_look_ups_change_with_two_messages_each() {
    let is_across = |net: &Net| is_left(net, Field::EthSrc) != is_left(net, Field::EthDst);
    let costs =
        flip(move |_, net| Route::to([PortNo(if is_across(net) { 1 } else { 2 })]), [[2, 1, 1, 2], [2, 1, 1, 2]]);
    assert_eq!(costs, [(KEYS as usize, 2 * KEYS as usize); 4]);
}
