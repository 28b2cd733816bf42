//! Look-ups whose tables change, and those that a switch cannot do, or can no longer do: these are lowered to reads
//! there. After each message to the switch a packet gets the answer of one state, or comes to the controller.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use maple_core::engine::{Event, Options};
use maple_core::look_ups::{KeyField, KeyForm, LookUp};
use maple_core::network::Mac;
use maple_core::policy::{Net, PacketHandle, Policy};
use maple_core::report::{Lowered, Report};
use maple_core::route::Route;
use maple_core::state::{Commit, Snapshot, Value, Write};
use maple_sim::seeds::{Seeds, are_chosen};
use maple_sim::{Choices, SimNetwork, SimSwitch};
use maple_switch::Outgoing;
use maple_wire::{Dpid, Field, Instruction, Message, PortNo, Version};

use crate::scripts::{at, udp};

const ONE: Dpid = Dpid(1);

/// The table of the switch for the look-up that f asks first, and second.
const FIRST: u8 = 1;
const SECOND: u8 = 2;

/// The table of the switch for the rules of leaves.
const INGRESS_TABLE: u8 = 3;

fn by(table: &str, field: Field) -> LookUp {
    LookUp::by(table, KeyField { field, form: KeyForm::Mac })
}

fn host(number: u64) -> Mac {
    Mac::from_bits(0x0200_0000_0000 + u128::from(number))
}

/// The port by which packets enter. The ports before it are those of answers.
const INGRESS: u32 = 9;

/// Returns the port for packets from an even or odd group to a host at one of four places.
fn answer(group: u32, place: u32) -> u32 {
    2 * place - 1 + group % 2
}

/// The tables of groups and places.
const TABLES: [&str; 2] = ["groups", "ports"];

/// Drops packets from sources that have no group, and to hosts that have no place. Sends the others to the port of
/// both.
fn by_group(tables: [&str; 2]) -> Arc<dyn Policy> {
    let (groups, ports) = (by(tables[0], Field::EthSrc), by(tables[1], Field::EthDst));
    Arc::new(move |_: &PacketHandle, net: &Net| match (net.look_up(&groups, None), net.look_up(&ports, None)) {
        (Some(Value::Int(group)), Some(Value::Int(place))) => Route::to([PortNo(answer(group as u32, place as u32))]),
        _ => Route::drop(),
    })
}

/// Returns a network of one switch, all of whose ports lead to hosts. The policy looks up two things.
pub fn network(switch: SimSwitch, options: &Options) -> SimNetwork {
    let options = Options { track_hosts: false, look_up_tables: 2, ..options.clone() };
    let mut sim = SimNetwork::new(by_group(TABLES), 1, &options, 7);
    sim.connect(switch, (1..=INGRESS).map(PortNo));
    // A switch that turns out to have fewer tables connects again, and its ports are found again.
    for _ in 0..2 {
        sim.run_for(Duration::from_secs(1));
        sim.settle_ports();
    }
    sim.run();
    sim
}

pub fn write(sim: &mut SimNetwork, table: &str, rows: impl IntoIterator<Item = (u64, Option<i64>)>) {
    let row = |(number, value): (u64, Option<i64>)| Write::Table {
        table: table.into(),
        key: Value::Mac(host(number)),
        value: value.map(Value::from),
    };
    sim.report(Event::Write(rows.into_iter().map(row).collect()));
    sim.run();
}

/// Sends a packet from one host to another. Returns the ports where it comes out.
fn send(sim: &mut SimNetwork, from: u64, to: u64) -> Vec<u32> {
    sim.inject(at(1, INGRESS), udp(host(from), host(to), 80));
    sim.run();
    sim.delivered.drain(..).map(|delivery| delivery.at.port.0).collect()
}

/// Sends packets between all pairs of hosts with these numbers, and compares what comes out with f's answers.
pub fn check_all(sim: &mut SimNetwork, hosts: Range<u64>) {
    let state = sim.store.snapshot();
    for (from, to) in pairs(hosts) {
        assert_eq!(
            send(sim, from, to),
            wanted(&state, TABLES, (from, to)).into_iter().collect::<Vec<_>>(),
            "{from} to {to}"
        );
    }
}

fn pairs(hosts: Range<u64>) -> impl Iterator<Item = (u64, u64)> {
    hosts.clone().flat_map(move |from| hosts.clone().map(move |to| (from, to)))
}

/// Returns the port where f sends a packet in a state, found by a search of the tables.
fn wanted(state: &Snapshot, tables: [&str; 2], (from, to): (u64, u64)) -> Option<u32> {
    let row = |table: &str, number: u64| match state.table(table)?.get(&Value::Mac(host(number)))? {
        Value::Int(value) => Some(*value as u32),
        other => panic!("{other:?}"),
    };
    row(tables[0], from).zip(row(tables[1], to)).map(|(group, place)| answer(group, place))
}

/// Returns the number of rules in a table that write metadata.
pub fn keys(sim: &mut SimNetwork, table: u8) -> usize {
    let writes = |instruction: &Instruction| matches!(instruction, Instruction::WriteMetadata { .. });
    let flows = sim.switch(ONE).expect("a switch").flows();
    flows.iter().filter(|flow| flow.table_id == table && flow.instructions.iter().any(writes)).count()
}

fn lowered(sim: &SimNetwork) -> Vec<(String, Lowered)> {
    let lowering = |report: &Report| match report {
        Report::LookUpLowered { look_up, why, .. } => Some((look_up.to_string(), *why)),
        _ => None,
    };
    sim.reports.iter().filter_map(lowering).collect()
}

pub fn packet_ins(sim: &SimNetwork) -> u64 {
    sim.engines().iter().map(|engine| engine.view().stats().packet_ins).sum()
}

#[test]
fn a_look_up_whose_table_fills_up_is_lowered_alone() {
    let mut switch = SimSwitch::new(ONE, Version::Of13);
    switch.model.set_table_size(FIRST, 5);
    let mut sim = network(switch, &Options::default());
    write(&mut sim, "groups", (0..4).map(|n| (n, Some(n as i64))));
    write(&mut sim, "ports", (0..4).map(|n| (n, Some(1 + n as i64 % 4))));
    check_all(&mut sim, 0..6);
    assert_eq!((keys(&mut sim, FIRST), keys(&mut sim, SECOND), lowered(&sim)), (4, 4, Vec::new()));
    write(&mut sim, "groups", (4..12).map(|n| (n, Some(n as i64))));
    write(&mut sim, "ports", (4..12).map(|n| (n, Some(1 + n as i64 % 4))));
    check_all(&mut sim, 0..14);
    check_all(&mut sim, 0..14);
    assert_eq!((keys(&mut sim, FIRST), keys(&mut sim, SECOND)), (0, 12), "the other one goes on");
    let once = [("groups[eth_src]".to_owned(), Lowered::TableFull)];
    assert_eq!(lowered(&sim), once);
    let before = packet_ins(&sim);
    check_all(&mut sim, 0..14);
    assert_eq!(packet_ins(&sim), before, "rules carry the packets");
    // The state goes on changing.
    for round in 0..5 {
        write(&mut sim, "groups", (0..12).map(|n| (n, (n % 3 != round % 3).then_some((n + round) as i64))));
        write(&mut sim, "ports", (0..12).map(|n| (n, (n % 4 != round % 4).then_some(1 + (n + round) as i64 % 4))));
        check_all(&mut sim, 0..14);
    }
    assert_eq!(lowered(&sim), once, "it is said once");
    sim.check_settled().unwrap();
}

#[test]
fn a_table_whose_values_change_for_ever_does_not_run_out_of_classes() {
    let options = Options { max_classes: 6, ..Options::default() };
    let mut sim = network(SimSwitch::new(ONE, Version::Of13), &options);
    write(&mut sim, "ports", (0..3).map(|n| (n, Some(1 + n as i64))));
    for round in 0..60 {
        write(&mut sim, "groups", (0..3).map(|n| (n, (n + round % 5 != 3).then_some((3 * round + n) as i64))));
        check_all(&mut sim, 0..4);
        let before = packet_ins(&sim);
        check_all(&mut sim, 0..4);
        assert_eq!(packet_ins(&sim), before, "round {round}: all have classes");
    }
    assert_eq!(lowered(&sim), []);
    sim.check_settled().unwrap();
}

#[test]
fn a_look_up_with_more_values_than_classes_is_lowered_alone() {
    let options = Options { max_classes: 6, ..Options::default() };
    let mut sim = network(SimSwitch::new(ONE, Version::Of13), &options);
    write(&mut sim, "ports", (0..10).map(|n| (n, Some(1 + n as i64 % 4))));
    write(&mut sim, "groups", (0..6).map(|n| (n, Some(n as i64))));
    check_all(&mut sim, 0..12);
    assert_eq!((keys(&mut sim, FIRST), lowered(&sim)), (6, Vec::new()), "they fit exactly");
    write(&mut sim, "groups", [(6, Some(6))]);
    check_all(&mut sim, 0..12);
    assert_eq!(lowered(&sim), [("groups[eth_src]".to_owned(), Lowered::TooManyValues)]);
    assert_eq!((keys(&mut sim, FIRST), keys(&mut sim, SECOND)), (0, 10));
    let before = packet_ins(&sim);
    check_all(&mut sim, 0..12);
    assert_eq!(packet_ins(&sim), before, "rules carry the packets");
}

#[test]
fn keys_take_at_most_a_quarter_of_the_rules() {
    let options = Options { max_rules: Some(100), ..Options::default() };
    let mut sim = network(SimSwitch::new(ONE, Version::Of13), &options);
    write(&mut sim, "ports", (0..4).map(|n| (n, Some(1 + n as i64 % 4))));
    write(&mut sim, "groups", (0..20).map(|n| (n, Some(n as i64 % 3))));
    check_all(&mut sim, 0..6);
    assert_eq!((keys(&mut sim, FIRST), keys(&mut sim, SECOND), lowered(&sim)), (20, 4, Vec::new()));
    write(&mut sim, "groups", (20..30).map(|n| (n, Some(n as i64 % 3))));
    check_all(&mut sim, 0..6);
    assert_eq!((keys(&mut sim, FIRST), keys(&mut sim, SECOND)), (0, 4));
    assert_eq!(lowered(&sim), [("groups[eth_src]".to_owned(), Lowered::TooManyKeys)]);
    let flows = sim.switch(ONE).expect("a switch").flows().len();
    assert!(flows <= 100, "{flows} rules");
}

#[test]
fn a_switch_with_fewer_tables_than_it_announces_does_fewer_look_ups() {
    // Classifier, two look-ups, ingress and labels are five. It can do without the table of routes.
    for (tables, all) in [(6, [2, 3]), (5, [2, 3]), (4, [0, 0]), (3, [0, 0]), (2, [0, 0])] {
        let mut switch = SimSwitch::new(ONE, Version::Of13);
        switch.refuses_table = Some(tables);
        let mut sim = network(switch, &Options::default());
        write(&mut sim, "groups", (0..all[0].max(3)).map(|n| (n, Some(n as i64))));
        write(&mut sim, "ports", (0..3).map(|n| (n, Some(1 + n as i64))));
        check_all(&mut sim, 0..5);
        let has_keys = [FIRST, SECOND].map(|table| keys(&mut sim, table) > 0);
        assert_eq!(has_keys, all.map(|keys| keys > 0), "with {tables} tables: {:?}", sim.reports);
        let before = packet_ins(&sim);
        check_all(&mut sim, 0..5);
        assert_eq!(packet_ins(&sim), before, "rules carry the packets");
        let flows = sim.switch(ONE).expect("a switch").flows();
        let used = flows.iter().map(|flow| flow.table_id).max();
        assert_eq!(used > Some(0), tables >= 3, "with {tables} tables, {used:?} is used");
    }
}

#[test]
fn a_switch_that_refuses_metadata_reads_the_fields() {
    let mut switch = SimSwitch::new(ONE, Version::Of13);
    switch.takes_metadata = false;
    let mut sim = network(switch, &Options::default());
    write(&mut sim, "groups", (0..4).map(|n| (n, Some(n as i64))));
    write(&mut sim, "ports", (0..4).map(|n| (n, Some(1 + n as i64 % 4))));
    // The first packets' leaves go with the look-ups.
    (0..2).for_each(|_| check_all(&mut sim, 0..6));
    let before = packet_ins(&sim);
    check_all(&mut sim, 0..6);
    assert_eq!(packet_ins(&sim), before, "rules carry the packets");
    let names: BTreeSet<String> = lowered(&sim).into_iter().map(|(name, _)| name).collect();
    assert_eq!(Vec::from_iter(names), ["groups[eth_src]", "ports[eth_dst]"]);
}

#[test]
fn a_lowered_look_up_is_lowered_after_a_restart_of_the_controller_too() {
    let mut switch = SimSwitch::new(ONE, Version::Of13);
    switch.model.set_table_size(FIRST, 5);
    let mut sim = network(switch, &Options::default());
    write(&mut sim, "groups", (0..8).map(|n| (n, Some(n as i64))));
    write(&mut sim, "ports", (0..8).map(|n| (n, Some(1 + n as i64 % 4))));
    check_all(&mut sim, 0..10);
    let before = sim.switch(ONE).expect("a switch").flows();
    sim.restart_controller(1);
    sim.run();
    check_all(&mut sim, 0..10);
    assert_eq!(sim.switch(ONE).expect("a switch").flows(), before, "no rule changes");
    assert_eq!(packet_ins(&sim), 0);
}

/// The treatment of a packet by a switch: a port, nothing, or the controller.
type Done = Result<Option<u32>, ()>;

fn done(switch: &mut SimSwitch, from: u64, to: u64) -> Done {
    match &switch.receive(&udp(host(from), host(to), 80), PortNo(INGRESS))[..] {
        [] => Ok(None),
        [Outgoing::Frame { port, .. }] => Ok(Some(port.0)),
        [Outgoing::Message { message: Message::PacketIn(_), .. }] => Err(()),
        other => panic!("{other:?}"),
    }
}

/// The answers that a switch may give to each packet now: those of the states since the last moment of rest.
type Allowed = Arc<Mutex<Vec<BTreeSet<Option<u32>>>>>;

/// Lets each packet pass the switch after each message that it obeys. Returns the allowed answers, to be set, and the
/// number of packets that the switch answered by itself.
fn watch(sim: &mut SimNetwork, hosts: Range<u64>) -> (Allowed, Arc<Mutex<u64>>) {
    let (allowed, answered) = (Allowed::default(), Arc::new(Mutex::new(0)));
    let (of_watch, count) = (Arc::clone(&allowed), Arc::clone(&answered));
    sim.watch = Some(Box::new(move |switch| {
        for ((from, to), allowed) in pairs(hosts.clone()).zip(of_watch.lock().unwrap().iter()) {
            if let Ok(answer) = done(switch, from, to) {
                assert!(allowed.contains(&answer), "{from} to {to}: {answer:?}, and not one of {allowed:?}");
                *count.lock().unwrap() += 1;
            }
        }
    }));
    (allowed, answered)
}

/// The conditions that make updates hard, beyond tables that are full and values without classes.
#[derive(Clone, Copy, Debug, Default)]
struct Trouble {
    /// The controller restarts.
    has_restarts: bool,
    /// The shard hears late of commits. The switch refuses rules of leaves: for the port where they lead, or because
    /// their table is full.
    has_late_news_and_refusals: bool,
}

#[test]
fn after_each_message_of_an_update_a_packet_gets_the_answer_of_one_state() {
    check_updates(Trouble::default(), 20_000);
}

#[test]
fn an_update_after_a_restart_gives_each_packet_the_answer_of_one_state() {
    let trouble = Trouble { has_restarts: true, ..Trouble::default() };
    // A key changes and changes back, and the leaves have not heard of the second change.
    update_under_watch(1_091_229_470_495, trouble);
    check_updates(trouble, 5_000);
}

#[test]
fn an_update_with_late_news_and_refusals_gives_each_packet_the_answer_of_one_state() {
    check_updates(Trouble { has_restarts: false, has_late_news_and_refusals: true }, 5_000);
    check_updates(Trouble { has_restarts: true, has_late_news_and_refusals: true }, 5_000);
}

/// Plays cases with such trouble, in which switches have to answer more than this many packets in the middle of
/// updates.
fn check_updates(trouble: Trouble, least: u64) {
    let Seeds { fixed, fresh } = Seeds::share(|all| all, 24, 8);
    let all: u64 = fixed.chain(fresh).map(|seed| update_under_watch(seed, trouble)).sum();
    assert!(are_chosen() || all > least, "{all} packets were answered by switches in the middle of updates");
}

/// Changes tables again and again, while each packet passes the switch after each message. Returns the number of
/// packets that the switch answered by itself.
fn update_under_watch(seed: u64, trouble: Trouble) -> u64 {
    const HOSTS: Range<u64> = 0..5;
    println!("MAPLE_SEED={seed}, {trouble:?}");
    let mut random = Choices::new(seed);
    let mut switch = SimSwitch::new(ONE, Version::Of13);
    let bundles = random.one_in(3);
    switch.model.change_options(|options| options.bundles = bundles);
    if random.one_in(3) {
        switch.model.set_table_size(*random.pick(&[FIRST, SECOND]), 4);
    }
    let max_classes = if random.one_in(3) { 2 + random.below(4) as u16 } else { u16::MAX };
    let mut late = trouble.has_late_news_and_refusals.then(|| Choices::new(random.number()));
    if let Some(late) = &mut late {
        match late.below(3) {
            0 => switch.refused_ports.in_actions = Some(PortNo(1 + late.below(8) as u32)),
            1 => switch.model.set_table_size(INGRESS_TABLE, 4 + late.below(16)),
            _ => {}
        }
    }
    let mut sim = network(switch, &Options { max_classes, ..Options::default() });
    let (allowed, answered) = watch(&mut sim, HOSTS);
    for _ in 0..8 {
        let mut states = vec![sim.store.snapshot()];
        if trouble.has_restarts && random.one_in(2) {
            sim.restart_controller(1);
            sim.run_for(Duration::from_micros(random.below(30_000) as u64));
        }
        for _ in 0..1 + random.below(2) {
            let mut writes = Vec::new();
            for (table, most) in [("groups", 6), ("ports", 4)] {
                let hosts: Vec<u64> = HOSTS.filter(|_| random.one_in(2)).collect();
                let value = |random: &mut Choices| (!random.one_in(5)).then(|| 1 + random.below(most) as i64);
                let row = |number: u64| Write::Table {
                    table: table.into(),
                    key: Value::Mac(host(number)),
                    value: value(&mut random).map(Value::from),
                };
                writes.extend(hosts.into_iter().map(row));
            }
            let commit = sim.store.update(|_| writes);
            states.push(sim.store.snapshot());
            let answers = |hosts: (u64, u64)| states.iter().map(|state| wanted(state, TABLES, hosts)).collect();
            *allowed.lock().unwrap() = pairs(HOSTS).map(answers).collect();
            if let Some(late) = &mut late {
                sim.run_for(Duration::from_micros(late.below(6000) as u64));
            }
            for (_, commit) in commit.by_shard(&sim.store.snapshot()) {
                sim.report(Event::Committed(commit));
            }
            sim.run_for(Duration::from_micros(random.below(4000) as u64));
        }
        sim.run();
        check_all(&mut sim, HOSTS);
    }
    *answered.lock().unwrap()
}

/// The time that a message takes in networks where each takes as long.
const HOP: Duration = Duration::from_nanos(1);

/// A row: its table, its key by number, and its value.
type Row = (&'static str, u64, i64);

/// Returns a network as [`network`] does, in which each message takes one [`HOP`]. The switch has one table for
/// look-ups, that of groups. So leaves are for a group and the address of a destination, and depend on the place of
/// that.
fn network_in_hops(rows: &[Row]) -> SimNetwork {
    let options = Options { look_up_tables: 1, track_hosts: false, explored_leaves: 0, ..Options::default() };
    let mut sim = SimNetwork::new(by_group(TABLES), 1, &options, 7);
    sim.connect(SimSwitch::new(ONE, Version::Of13), (1..=INGRESS).map(PortNo));
    sim.settle();
    let commits = commit(&mut sim, rows);
    commits.into_iter().for_each(|commit| sim.report(Event::Committed(commit)));
    sim.run();
    check_all(&mut sim, 0..6);
    sim.max_delay = HOP;
    sim
}

/// Writes rows into the state. Returns the commits that the shards have yet to hear of.
fn commit(sim: &mut SimNetwork, rows: &[Row]) -> Vec<Commit> {
    let row = |(table, number, value): &Row| Write::Table {
        table: (*table).into(),
        key: Value::Mac(host(*number)),
        value: Some(Value::from(*value)),
    };
    let commit = sim.store.update(|_| rows.iter().map(row).collect());
    commit.by_shard(&sim.store.snapshot()).into_values().collect()
}

/// Writes rows in several commits, one hop after the other. The shard hears of some at once, and of the others later.
/// After each message a packet gets the answer of one of these states, or of the one before them.
fn check_commits(sim: &mut SimNetwork, commits: &[(&[Row], bool)]) {
    let mut states = vec![sim.store.snapshot()];
    let mut after = Vec::new();
    let (allowed, answered) = watch(sim, 0..6);
    for (rows, is_heard) in commits {
        let parts = commit(sim, rows);
        states.push(sim.store.snapshot());
        let answers = |hosts: (u64, u64)| states.iter().map(|state| wanted(state, TABLES, hosts)).collect();
        *allowed.lock().unwrap() = pairs(0..6).map(answers).collect();
        let parts = parts.into_iter().map(Event::Committed);
        match is_heard {
            true => parts.for_each(|part| sim.report(part)),
            false => after.extend(parts),
        }
        sim.run_for(HOP);
    }
    sim.run_for(10 * HOP);
    after.into_iter().for_each(|part| sim.report(part));
    sim.run();
    assert!(*answered.lock().unwrap() > 100, "switches answer in the middle of changes");
    check_all(sim, 0..6);
}

#[test]
fn rules_of_leaves_wait_for_the_news_of_a_commit_that_keys_follow_already() {
    let mut sim = network_in_hops(&[("groups", 1, 1), ("groups", 2, 2), ("ports", 3, 1), ("ports", 4, 1)]);
    // The first commit lets the rules of keys change. While the switch confirms that, the second one changes the leaf
    // of host 1 and the key that leads to it, and the third one changes the key back.
    check_commits(
        &mut sim,
        &[
            (&[("groups", 2, 3), ("ports", 4, 2)], true),
            (&[("groups", 1, 2), ("ports", 3, 2)], true),
            (&[("groups", 1, 1), ("ports", 3, 3)], false),
        ],
    );
}

#[test]
fn keys_do_not_lead_to_rules_of_leaves_that_the_switch_may_refuse() {
    let mut sim = network_in_hops(&[("groups", 1, 1), ("groups", 2, 2), ("groups", 5, 1), ("ports", 3, 1)]);
    sim.switch(ONE).expect("a switch").refused_ports.in_actions = Some(PortNo(answer(2, 2)));
    // The leaf of group 2 is to lead to the refused port, and the key of host 1 to this leaf. The second commit is
    // heard of when the leaf's rule is on its way.
    check_commits(
        &mut sim,
        &[(&[("groups", 1, 2), ("ports", 3, 2)], true), (&[], true), (&[], true), (&[("groups", 5, 2)], true)],
    );
}

#[test]
fn a_restarted_controller_sends_rules_of_leaves_after_the_switch_has_confirmed_those_of_keys() {
    let mut sim = network_in_hops(&[("groups", 1, 1), ("groups", 2, 2), ("ports", 3, 1)]);
    sim.restart_controller(1);
    drop(commit(&mut sim, &[("groups", 1, 2), ("groups", 4, 1), ("ports", 3, 2)]));
    // The tables of keys and leaves are one look-up's and the next one.
    let (mut of_keys, mut of_leaves) = (None, None);
    let is_of = |table: u8, message: &Message| match message {
        Message::FlowMod(change) => change.table_id == table,
        _ => false,
    };
    // The rules are compared after some milliseconds.
    for hop in 0..10_000_000 {
        sim.messages = Some(Vec::new());
        sim.run_for(HOP);
        let messages = sim.messages.take().expect("they are recorded");
        let first = |table: u8| messages.iter().any(|(_, message)| is_of(table, message)).then_some(hop);
        (of_keys, of_leaves) = (of_keys.or(first(FIRST)), of_leaves.or(first(SECOND)));
        if of_leaves.is_some() {
            break;
        }
    }
    let took = of_keys.zip(of_leaves).map(|(keys, leaves)| leaves - keys);
    assert_eq!(took, Some(4), "additions, then modifications are confirmed: one hop to the controller, and one back");
}

#[test]
fn look_ups_that_a_new_policy_does_not_ask_leave_their_tables_to_others() {
    const HOSTS: Range<u64> = 0..4;
    // One look-up is asked by all policies, another by no two of them.
    let policies = [["groups", "ports"], ["groups", "places"], ["groups", "rooms"], ["zones", "ports"]];
    let mut sim = network(SimSwitch::new(ONE, Version::Of13), &Options::default());
    for (at, table) in ["groups", "ports", "places", "rooms", "zones"].into_iter().enumerate() {
        write(&mut sim, table, HOSTS.map(|n| (n, (n != at as u64).then_some(1 + (n as i64 + at as i64) % 4))));
    }
    check_all(&mut sim, HOSTS);
    let (allowed, answered) = watch(&mut sim, HOSTS);
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = Choices::new(seed);
    // The policies in the order of their reloads, without those that a restart has undone.
    let mut adopted = vec![policies[0]];
    for _ in 0..16 {
        let before = *adopted.last().expect("there is one");
        let mut next = *random.pick(&policies);
        let state = sim.store.snapshot();
        let answers = |hosts| [before, next].map(|tables| wanted(&state, tables, hosts)).into_iter().collect();
        *allowed.lock().unwrap() = pairs(HOSTS).map(answers).collect();
        sim.reload(by_group(next));
        adopted.push(next);
        if random.one_in(3) {
            sim.run_for(Duration::from_micros(random.below(4000) as u64));
            let reloads = sim.restart_controller(1);
            adopted.truncate(reloads + 1);
            next = adopted[reloads];
            sim.run_for(Duration::from_secs(3));
        }
        sim.run();
        if next != before {
            // The first look-up that the new policy asks in vain waits for a table.
            (0..2).for_each(|_| pairs(HOSTS).for_each(|(from, to)| drop(send(&mut sim, from, to))));
        }
        for (from, to) in pairs(HOSTS) {
            let wanted: Vec<u32> = wanted(&state, next, (from, to)).into_iter().collect();
            assert_eq!(send(&mut sim, from, to), wanted, "{from} to {to} by {next:?}");
        }
        let look_ups = sim.engines()[0].view().look_ups(ONE).expect("a switch");
        let with_table: BTreeSet<String> =
            look_ups.iter().filter(|of| of.table.is_some()).map(|of| of.look_up.clone()).collect();
        let asked = [format!("{}[eth_src]", next[0]), format!("{}[eth_dst]", next[1])];
        assert_eq!(with_table, BTreeSet::from(asked), "{look_ups:?}");
        let counted = packet_ins(&sim);
        pairs(HOSTS).for_each(|(from, to)| drop(send(&mut sim, from, to)));
        assert_eq!(packet_ins(&sim), counted, "rules carry the packets");
    }
    assert!(*answered.lock().unwrap() > 1_000, "switches answer in the middle of changes");
}
