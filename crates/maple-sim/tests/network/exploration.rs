//! Exploration: rules before the first packet, for what known hosts can send.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use maple_core::engine::{Event, Exploration, ExplorationBound, Options};
use maple_core::look_ups::{KeyField, KeyForm, LookUp};
use maple_core::network::Mac;
use maple_core::policy::{Net, PacketHandle, Policy, PolicyError};
use maple_core::route::Route;
use maple_core::state::Value;
use maple_sim::seeds::Seeds;
use maple_sim::{Choices, SimNetwork, SimSwitch};
use maple_wire::msg::Message;
use maple_wire::{Dpid, Field, PortNo, Version};

use crate::scripts::{at, ring_with, udp};

const ONE: Dpid = Dpid(1);
const HOSTS: u32 = 6;

fn host(number: u32) -> Mac {
    Mac::from_bits(0x0200_0000_0000 + u128::from(number))
}

/// Creates one switch with a host at each port. Each has sent a packet to nobody, so it is known.
fn network(policy: Arc<dyn Policy>, change: impl FnOnce(&mut Options)) -> SimNetwork {
    network_of(HOSTS, policy, change)
}

fn network_of(hosts: u32, policy: Arc<dyn Policy>, change: impl FnOnce(&mut Options)) -> SimNetwork {
    let mut options = Options { look_up_tables: 3, explored_leaves: 64, ..Options::default() };
    change(&mut options);
    let mut sim = SimNetwork::new(policy, 1, &options, 11);
    sim.connect(SimSwitch::new(ONE, Version::Of13), (1..=hosts).map(PortNo));
    sim.run();
    sim.settle_ports();
    for number in 1..=hosts {
        sim.inject(at(1, number), udp(host(number), host(99), 7));
    }
    sim.run_for(Duration::from_secs(5));
    sim
}

fn exploration(sim: &SimNetwork) -> Exploration {
    sim.engines()[0].view().exploration(ONE).expect("the switch is explored")
}

/// Sends packets along the shortest path, to hosts that are known.
fn to_the_place(_: &PacketHandle, net: &Net) -> Route {
    let locate = |field| net.locate_by(field, None).ok().flatten();
    match (locate(Field::EthSrc), locate(Field::EthDst)) {
        (Some(src), Some(dst)) => net.shortest_path(src.start(), dst.location()),
        _ => Route::drop(),
    }
}

/// Returns where a packet comes out, and whether it came to the controller.
fn send(sim: &mut SimNetwork, from: u32, to: u32, port: u16) -> (Vec<u32>, bool) {
    let before = sim.stats().packet_ins;
    sim.delivered.clear();
    sim.inject(at(1, from), udp(host(from), host(to), port));
    sim.run_for(Duration::from_millis(50));
    let out = sim.delivered.drain(..).map(|delivery| delivery.at.port.0).collect();
    (out, sim.stats().packet_ins > before)
}

fn pairs() -> impl Iterator<Item = (u32, u32)> {
    (1..=HOSTS).flat_map(|from| (1..=HOSTS).map(move |to| (from, to))).filter(|(from, to)| from != to)
}

#[test]
fn exploration_does_not_ask_for_the_case_without_a_value_of_a_key_that_is_there() {
    let asks_first = |pkt: &PacketHandle, net: &Net| {
        let is_known = net.has_key(&LookUp::of_host(Field::EthDst), None);
        if is_known { to_the_place(pkt, net) } else { Route::drop() }
    };
    let sim = network(Arc::new(asks_first), |_| {});
    assert!(exploration(&sim).is_complete(), "{:?}", exploration(&sim));
}

#[test]
fn packets_between_known_hosts_find_rules_that_no_packet_has_made() {
    let mut sim = network(Arc::new(to_the_place), |_| {});
    assert!(exploration(&sim).is_complete(), "{:?}", exploration(&sim));
    for (from, to) in pairs() {
        assert_eq!(send(&mut sim, from, to, 80), (vec![to], false), "{from} to {to}");
    }
    let mut sim = network(Arc::new(to_the_place), |options| options.explored_leaves = 0);
    assert!(
        pairs().any(|(from, to)| send(&mut sim, from, to, 80).1),
        "without exploration they come to the controller"
    );
}

#[test]
fn the_other_side_of_each_test_is_explored() {
    let policy = |pkt: &PacketHandle, net: &Net| match pkt.is(Field::UdpDst, 53) || pkt.is(Field::TcpDst, 80) {
        true => to_the_place(pkt, net),
        false => Route::drop(),
    };
    let mut sim = network(Arc::new(policy), |_| {});
    assert!(exploration(&sim).is_complete(), "{:?}\n{}", exploration(&sim), sim.engines()[0].view().tree(ONE));
    for (from, to) in pairs() {
        assert_eq!(send(&mut sim, from, to, 53), (vec![to], false));
        assert_eq!(send(&mut sim, from, to, 54), (vec![], false));
    }
}

#[test]
fn a_new_host_and_a_changed_table_are_followed() {
    let policy = |pkt: &PacketHandle, net: &Net| match net.contains("blocked", &Value::Mac(pkt.eth_src())) {
        true => Route::drop(),
        false => to_the_place(pkt, net),
    };
    let mut sim = network(Arc::new(policy), |_| {});
    let newcomer = Mac::from_bits(0x0200_0000_00aa);
    sim.inject(at(1, 3), udp(newcomer, host(99), 7));
    sim.report(Event::Write(vec![maple_core::state::Write::Table {
        table: "blocked".into(),
        key: Value::Mac(host(2)),
        value: Some(true.into()),
    }]));
    sim.run_for(Duration::from_secs(5));
    for (from, to) in pairs() {
        let wanted = if from == 2 { vec![] } else { vec![to] };
        assert_eq!(send(&mut sim, from, to, 80).0, wanted, "{from} to {to}");
    }
    let before = sim.stats().packet_ins;
    sim.delivered.clear();
    sim.inject(at(1, 4), udp(host(4), newcomer, 80));
    sim.run_for(Duration::from_millis(50));
    assert_eq!((sim.delivered.len(), sim.stats().packet_ins), (1, before), "the newcomer is reached by a rule");
}

#[test]
fn a_run_that_writes_changes_nothing_before_its_packet_comes() {
    let policy = |pkt: &PacketHandle, net: &Net| {
        if pkt.is(Field::UdpDst, 53) {
            net.set("seen", Value::Mac(pkt.eth_src()), true.into());
        }
        to_the_place(pkt, net)
    };
    let sim = network(Arc::new(policy), |_| {});
    assert_eq!(sim.store.snapshot().table("seen").map_or(0, |rows| rows.keys().count()), 0);
    let found = exploration(&sim);
    assert!(found.open.iter().any(|open| open.what.contains("the policy writes state")), "{found:?}");
}

#[test]
fn reads_that_cannot_be_explored_are_named() {
    let policy = |pkt: &PacketHandle, net: &Net| {
        let _ = pkt.get(Field::IpDscp);
        to_the_place(pkt, net)
    };
    let sim = network(Arc::new(policy), |_| {});
    let found = exploration(&sim);
    assert!(!found.is_complete() && found.open.iter().any(|open| open.what.contains("ip_dscp is read")), "{found:?}");
    assert!(sim.stats().open_questions > 0);
}

#[test]
fn exploration_stops_at_its_bounds() {
    let sim = network(Arc::new(to_the_place), |options| options.explored_leaves = 3);
    assert_eq!(exploration(&sim).stopped, Some(ExplorationBound::Leaves(3)));
    assert!(sim.stats().leaves <= 3, "{:?}", sim.stats());
    let sim = network(Arc::new(to_the_place), |options| options.max_rules = Some(40));
    assert_eq!(exploration(&sim).stopped, Some(ExplorationBound::Rules));
    assert!(sim.stats().rules < 40, "{:?}", sim.stats());
}

/// A policy that says that it reads a clock.
struct Untracked;

impl Policy for Untracked {
    fn decide(&self, pkt: &PacketHandle, net: &Net) -> Result<Route, PolicyError> {
        Ok(to_the_place(pkt, net))
    }

    fn untracked_reads(&self) -> Vec<Arc<str>> {
        vec!["policy.py:1: a clock".into()]
    }
}

#[test]
fn a_policy_that_reads_what_is_not_tracked_is_not_explored() {
    let sim = network(Arc::new(Untracked), |_| {});
    assert_eq!(exploration(&sim).stopped, Some(ExplorationBound::Untracked));
    assert_eq!(sim.stats().leaves_foreseen, 0);
}

#[test]
fn another_policy_is_explored_from_the_beginning() {
    let mut sim = network(Arc::new(to_the_place), |_| {});
    let only_dns = |pkt: &PacketHandle, net: &Net| {
        if pkt.is(Field::UdpDst, 53) { to_the_place(pkt, net) } else { Route::drop() }
    };
    sim.reload(Arc::new(only_dns));
    sim.run_for(Duration::from_secs(5));
    assert!(exploration(&sim).is_complete(), "{:?}", exploration(&sim));
    for (from, to) in pairs() {
        assert_eq!(send(&mut sim, from, to, 53), (vec![to], false));
        assert_eq!(send(&mut sim, from, to, 54), (vec![], false));
    }
}

#[test]
fn a_port_without_a_row_is_explored_however_many_have_one() {
    const PORTS: u32 = 12;
    let open = LookUp::by("open", KeyField { field: Field::InPort, form: KeyForm::Int });
    let policy = move |pkt: &PacketHandle, net: &Net| {
        if net.has_key(&open, None) { Route::drop() } else { to_the_place(pkt, net) }
    };
    let mut sim = network_of(PORTS, Arc::new(policy), |_| {});
    let row = |port: u32| maple_core::state::Write::Table {
        table: "open".into(),
        key: Value::Int(i128::from(port)),
        value: Some(true.into()),
    };
    sim.report(Event::Write((1..PORTS).map(row).collect()));
    sim.run_for(Duration::from_secs(5));
    assert!(exploration(&sim).is_complete(), "{:?}", exploration(&sim));
    assert_eq!(send(&mut sim, PORTS, 1, 80), (vec![1], false));
    assert_eq!(send(&mut sim, 1, PORTS, 80), (vec![], false));
}

#[test]
fn a_switch_that_was_away_is_explored_when_it_is_back() {
    let mut sim = network(Arc::new(to_the_place), |_| {});
    let newcomer = Mac::from_bits(0x0200_0000_00aa);
    sim.inject(at(1, 3), udp(newcomer, host(99), 7));
    sim.run_for(Duration::from_millis(10));
    sim.lose_connection(ONE);
    sim.run_for(Duration::from_secs(3));
    sim.regain_connection(ONE, false);
    sim.run_for(Duration::from_secs(10));
    assert!(exploration(&sim).is_complete(), "{:?}", exploration(&sim));
    let before = sim.stats().misses;
    sim.delivered.clear();
    sim.inject(at(1, 4), udp(host(4), newcomer, 80));
    sim.run_for(Duration::from_millis(50));
    assert_eq!((sim.delivered.len(), sim.stats().misses), (1, before), "the newcomer is reached by a rule");
}

#[test]
fn a_restart_at_rest_changes_no_rule_of_what_was_explored() {
    // Two decisions lead to each place, or one of them.
    let policy = |pkt: &PacketHandle, net: &Net| match pkt.is(Field::EthType, 0x800) || net.var("open").is_some() {
        true => to_the_place(pkt, net),
        false => Route::drop(),
    };
    let Seeds { fixed, fresh } = Seeds::share(|all| all, 8, 8);
    for seed in fixed.chain(fresh) {
        println!("MAPLE_SEED={seed}");
        let mut random = Choices::new(seed);
        let shards = 1 + random.below(2) as u8;
        let options = Options { look_up_tables: 3, explored_leaves: 64, ..Options::default() };
        let mut sim = ring_with(&options, Arc::new(policy), 3, shards, Version::Of13);
        let mut is_open = true;
        for round in 0..8 {
            for _ in 0..4 {
                // A host is new, or moves.
                let place = at(1 + random.below(3) as u64, 3 + random.below(2) as u32);
                sim.inject(place, udp(host(random.below(9) as u32), host(random.below(9) as u32), 7));
            }
            is_open ^= random.one_in(2);
            let value = is_open.then(|| true.into());
            sim.report(Event::Write(vec![maple_core::state::Write::Var { name: "open".into(), value }]));
            sim.run_for(Duration::from_secs(8));
            sim.messages = Some(Vec::new());
            sim.restart_controller(shards);
            sim.run_for(Duration::from_secs(8));
            let mut messages = sim.messages.take().unwrap_or_default();
            messages.retain(|(_, message)| matches!(message, Message::FlowMod(_)));
            assert_eq!(messages, [], "round {round}");
        }
    }
}

#[test]
fn policies_print_about_packets_that_came_and_about_no_others() {
    let printed = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&printed);
    let prints = move |pkt: &PacketHandle, net: &Net| {
        // Hosts have become known by packets to another port.
        if pkt.is(Field::UdpDst, 53) && !net.keeps_output_back() {
            count.fetch_add(1, Ordering::Relaxed);
        }
        to_the_place(pkt, net)
    };
    let asks = |pkt: &PacketHandle, net: &Net| match pkt.is(Field::UdpDst, 53) {
        true => to_the_place(pkt, net),
        false => Route::drop(),
    };
    let mut sim = network(Arc::new(asks), |_| {});
    assert!(exploration(&sim).is_complete(), "{:?}", exploration(&sim));
    sim.reload(Arc::new(prints));
    sim.run_for(Duration::from_secs(5));
    sim.restart_controller(1);
    sim.run_for(Duration::from_secs(5));
    assert_eq!(printed.load(Ordering::Relaxed), 0);
    let found = exploration(&sim);
    assert!(found.open.iter().any(|open| open.what.contains("prints")), "{found:?}");
    assert_eq!(send(&mut sim, 1, 2, 53), (vec![2], true));
    assert_eq!(printed.load(Ordering::Relaxed), 1);
}

#[test]
fn each_combination_of_what_two_look_ups_of_one_field_find_is_explored() {
    let by = |table: &str| LookUp::by(table, KeyField { field: Field::EthDst, form: KeyForm::Mac });
    let (groups, quiet) = (by("groups"), by("quiet"));
    let policy = move |_: &PacketHandle, net: &Net| match (net.look_up(&groups, None), net.has_key(&quiet, None)) {
        (Some(Value::Int(group)), is_quiet) => Route::to([PortNo(group as u32 + 3 * u32::from(is_quiet))]),
        (_, is_quiet) => {
            if is_quiet {
                Route::to([PortNo(3)])
            } else {
                Route::drop()
            }
        }
    };
    let mut sim = network(Arc::new(policy), |options| options.look_up_tables = 4);
    let row = |table: &str, key: u32, value: i128| maple_core::state::Write::Table {
        table: table.into(),
        key: Value::Mac(host(key)),
        value: Some(Value::Int(value)),
    };
    // Of each group one host is quiet, and so is one without a group.
    let groups = [(1, 1), (2, 2), (3, 1), (4, 2)].map(|(key, group)| row("groups", key, group));
    sim.report(Event::Write(groups.into_iter().chain([3, 4, 5].map(|key| row("quiet", key, 1))).collect()));
    sim.run_for(Duration::from_secs(5));
    assert!(exploration(&sim).is_complete(), "{:?}", exploration(&sim));
    for (to, out) in [(1, Some(1)), (2, Some(2)), (3, Some(4)), (4, Some(5)), (5, Some(3)), (6, None)] {
        assert_eq!(send(&mut sim, 6, to, 80), (out.into_iter().collect(), false), "to {to}");
    }
}
