//! Lists with groups against a plain search.

use std::sync::Arc;

use maple_wire::packet::build::Frame;
use maple_wire::{Constraint, Field, Packet, PortNo};
use proptest::prelude::*;

use super::*;
use crate::look_ups::Registers;
use crate::network::Location;
use crate::run::Run;
use crate::state::{Snapshot, Txn};
use crate::trace::{Fields as _, Item, ReadMetadata};

/// The number of addresses that packets have.
const HOSTS: u8 = 7;
/// The switches where packets enter.
const SWITCHES: u64 = 2;

fn ip(host: u8) -> [u8; 4] {
    [10, 0, 0, host]
}

fn address(field: Field, host: u8) -> u128 {
    if field == Field::EthSrc { host.into() } else { u32::from_be_bytes(ip(host)).into() }
}

fn group() -> impl Strategy<Value = AccessGroup> {
    let fields = prop::sample::select(vec![Field::Ipv4Src, Field::Ipv4Dst, Field::EthSrc]);
    (fields, prop::collection::btree_set(0..HOSTS, 0..4), "[ab]").prop_map(|(field, hosts, name)| {
        let addresses = hosts.into_iter().map(|host| address(field, host)).collect();
        AccessGroup { name: name.into(), field, addresses }
    })
}

fn entry() -> impl Strategy<Value = AccessEntry> {
    let prefix = prop::option::of((0..HOSTS, 28..=32_u32)).prop_map(|prefix| {
        let (host, length) = prefix?;
        let mask = u128::from(u32::MAX << (32 - length));
        Some(Constraint::masked(Field::Ipv4Src, address(Field::Ipv4Src, host) & mask, mask))
    });
    let port = prop::option::of(prop::sample::select(vec![22_u128, 80]));
    let kind = prop::option::weighted(0.8, Just(Constraint::exact(Field::EthType, 0x800)));
    let switch = prop::option::weighted(0.3, (1..=SWITCHES).prop_map(Dpid));
    (prop::collection::vec(group(), 0..3), kind, prefix, port, switch).prop_map(
        |(groups, kind, prefix, port, switch)| {
            let port = port.map(|port| Constraint::exact(Field::TcpDst, port));
            let cond = [kind, prefix, port].into_iter().flatten().fold(Cond::default(), Cond::and);
            AccessEntry { cond, groups, switch, rule: 0 }
        },
    )
}

/// A packet: its hosts, its port if it is one of TCP, and the switch where it enters.
type Sent = (u8, u8, Option<u16>, u64);

fn frame((from, to, port, _): Sent) -> Vec<u8> {
    let frame = Frame::ethernet([0, 0, 0, 0, 0, 99], [0, 0, 0, 0, 0, from]);
    match port {
        Some(port) => frame.ipv4(ip(from), ip(to)).tcp(1000, port).payload(b"hello"),
        None => frame.raw(0x88b5, b"hello"),
    }
}

/// Returns the number of the first entry that a packet fits, by a plain search.
fn first(entries: &[AccessEntry], packet: &Packet<'_>, switch: Dpid) -> usize {
    let is_in = |group: &AccessGroup| packet.value(group.field).is_some_and(|value| group.addresses.contains(&value));
    let fits = |entry: &AccessEntry| {
        let is_there = entry.switch.is_none_or(|there| there == switch);
        let conds = CondList::with_prerequisites(&entry.cond);
        is_there && conds.iter().any(|cond| cond.holds(packet)) && entry.groups.iter().all(is_in)
    };
    entries.iter().position(fits).unwrap_or(entries.len())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_list_answers_alike_whatever_the_switch_can_look_up(
        entries in prop::collection::vec(entry(), 0..8),
        packets in prop::collection::vec((0..HOSTS, 0..HOSTS, prop::option::of(prop::sample::select(vec![22_u16, 80, 443])), 1..=SWITCHES), 30),
        tables in prop::option::of(0..5_usize),
    ) {
        let rule = |line| AccessRule { action: AccessAction::Allow, source: Some(Source::new("a.yaml", line)), carries: None, log: false };
        let rules: Vec<AccessRule> = (0..entries.len() as u32).map(rule).collect();
        let numbered = entries.iter().cloned().zip(0..).map(|(entry, rule)| AccessEntry { rule, ..entry });
        let list = AccessList::new(numbered, rules, rule(99), Vec::new());
        let registers = tables.map(|tables| Registers::new(tables, u16::MAX).shared());
        for sent in packets {
            let (bytes, switch) = (Arc::<[u8]>::from(frame(sent)), Dpid(sent.3));
            let packet = Packet::new(&bytes, 1);
            let wanted = first(&entries, &packet, switch);
            for makes_leaf in [false, true] {
                let txn = Txn::new(Arc::new(Snapshot::default()));
                let run = Run::new(Arc::clone(&bytes), bytes.len(), Location::new(switch, PortNo(1)), txn, false);
                let run = if makes_leaf { run.for_leaf(ReadMetadata::default()) } else { run };
                let run = match &registers {
                    Some(registers) if makes_leaf => run.with_registers(Arc::clone(registers)),
                    _ => run,
                };
                let rule = list.ask(&run.packet());
                prop_assert!(std::ptr::eq(rule, &list.rules()[wanted]), "{:?}: {:?}, not {}", sent, rule.source, wanted);
                let finished = run.finish().expect("it has not ended");
                prop_assert_eq!(list.rule_of(&finished.trace.lists[0]), Some(wanted));
                let exact = |item: &&Item| matches!(item, Item::Read(c) if c.field != Field::Metadata);
                prop_assert!(!makes_leaf || finished.trace.items.iter().find(exact).is_none(), "no address is read");
            }
        }
    }
}

#[test]
fn a_list_between_groups_asks_few_conditions_if_it_can_look_up() {
    // Every second address, so none are adjacent.
    let group = |field, half: std::ops::Range<u128>| AccessGroup {
        name: "hosts".into(),
        field,
        addresses: half.map(|half| 2 * half).collect(),
    };
    let groups = vec![group(Field::Ipv4Src, 500..1500), group(Field::Ipv4Dst, 2500..3500)];
    let entry = AccessEntry {
        cond: Cond::default().and(Constraint::exact(Field::EthType, 0x800)),
        groups,
        switch: None,
        rule: 0,
    };
    let rule = AccessRule { action: AccessAction::Allow, source: None, carries: None, log: false };
    let list = AccessList::new([entry], vec![rule.clone()], rule, Vec::new());
    let frame: Arc<[u8]> =
        Frame::ethernet([0; 6], [2; 6]).ipv4([0, 0, 4, 0], [0, 0, 20, 0]).tcp(1, 2).payload(b"").into();
    let asked = |tables: usize| {
        let txn = Txn::new(Arc::new(Snapshot::default()));
        let run = Run::new(Arc::clone(&frame), frame.len(), Location::new(Dpid(1), PortNo(1)), txn, false);
        let run = run.for_leaf(ReadMetadata::default()).with_registers(Registers::new(tables, u16::MAX).shared());
        assert!(std::ptr::eq(list.ask(&run.packet()), &list.rules()[0]));
        let trace = run.finish().expect("it has not ended").trace;
        trace.lists[0].list.conds().len()
    };
    assert_eq!([3, 2].map(asked), [1, 1000]);
}
