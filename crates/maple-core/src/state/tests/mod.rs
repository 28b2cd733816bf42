//! Opacity, validation, subscriptions and cut-off.

mod model;
mod schedules;

use std::collections::BTreeSet;

use maple_wire::{Dpid, PortNo, Version};

use super::store_moves::MAX_DEPARTED;
use super::{Cell, CellValue, Store, SwitchInfo, Value, Write};
use crate::capabilities::SwitchModel;
use crate::ids::{DependentId, LeafId, ShardId, Time};
use crate::network::{HostInfo, LinkName, Location, Mac, PortInfo, PortKind};

const H: Mac = Mac([0, 0, 0, 0, 0, 1]);

fn at(switch: u64, port: u32) -> Location {
    Location::new(Dpid(switch), PortNo(port))
}

fn var(name: &str, value: i64) -> Write {
    Write::Var { name: name.into(), value: Some(Value::from(value)) }
}

fn entry(table: &str, key: i64, value: Option<i64>) -> Write {
    Write::Table { table: table.into(), key: Value::from(key), value: value.map(Value::from) }
}

fn link(a: Location, b: Location) -> Vec<Write> {
    let end = |at, peer| Write::Port { at, info: Some(PortInfo { up: true, kind: PortKind::Link(peer) }) };
    vec![end(a, b), end(b, a)]
}

/// Creates a network of three switches in a triangle: 1:1-2:1, 2:2-3:1, 3:2-1:2.
fn triangle() -> std::sync::Arc<Store> {
    let store = Store::new();
    let info = Some(SwitchInfo { shard: ShardId(0), version: Version::Of13 });
    store.update(|_| (1..=3).map(|n| Write::Switch { dpid: Dpid(n), info }).collect());
    store.update(|_| [link(at(1, 1), at(2, 1)), link(at(2, 2), at(3, 1)), link(at(3, 2), at(1, 2))].concat());
    store
}

fn path(from: u64, to: u64, costs: Option<&str>) -> Cell {
    Cell::Path { from: Dpid(from), to: Dpid(to), costs: costs.map(Into::into), within: None }
}

/// Subscribes a leaf to cells as they are now.
fn subscribe(store: &Store, leaf: u64, cells: &[Cell]) {
    let mut txn = store.begin();
    cells.iter().for_each(|cell| {
        txn.read(cell.clone());
    });
    assert_eq!(store.commit(txn, Some(LeafId(leaf))).map(|commit| commit.withdraw), Ok(BTreeSet::new()));
}

fn withdrawn(store: &Store, writes: Vec<Write>) -> Vec<u64> {
    store.update(|_| writes).withdraw.into_iter().map(|leaf| leaf.0).collect()
}

#[test]
fn a_run_sees_one_state_from_beginning_to_end() {
    let store = Store::new();
    store.update(|_| vec![var("x", 1), var("y", 1)]);
    let mut txn = store.begin();
    assert_eq!(txn.read(Cell::Var("x".into())), CellValue::Value(Some(Value::from(1))));
    store.update(|_| vec![var("x", 2), var("y", 2)]);
    assert_eq!(txn.read(Cell::Var("y".into())), CellValue::Value(Some(Value::from(1))));
}

#[test]
fn a_run_whose_reads_changed_must_be_repeated_and_did_nothing() {
    let store = Store::new();
    let mut txn = store.begin();
    txn.read(Cell::Var("x".into()));
    txn.write(var("y", 5));
    store.update(|_| vec![var("x", 1)]);
    assert_eq!(store.commit(txn, None).map_err(|conflict| conflict.0), Err(Cell::Var("x".into())));
    assert_eq!(store.snapshot().var("y"), None);
}

#[test]
fn a_run_whose_reads_changed_and_changed_back_commits() {
    let store = Store::new();
    store.update(|_| vec![var("x", 1)]);
    let mut txn = store.begin();
    txn.read(Cell::Var("x".into()));
    store.update(|_| vec![var("x", 2)]);
    store.update(|_| vec![var("x", 1), var("z", 1)]);
    assert!(store.commit(txn, None).is_ok());
}

#[test]
fn a_run_sees_its_own_writes_and_others_only_after_commit() {
    let store = Store::new();
    let mut txn = store.begin();
    txn.write(entry("t", 1, Some(7)));
    assert_eq!(txn.read(Cell::TableLen("t".into())), CellValue::Len(1));
    assert_eq!(store.begin().read(Cell::TableLen("t".into())), CellValue::Len(0));
    assert!(store.commit(txn, None).is_ok(), "what it read of its own writes is not a conflict");
    assert_eq!(store.begin().read(Cell::TableLen("t".into())), CellValue::Len(1));
}

#[test]
fn a_write_withdraws_the_readers_of_that_key_and_of_the_whole_table() {
    let store = Store::new();
    store.update(|_| vec![entry("t", 1, Some(1)), entry("t", 2, Some(1))]);
    subscribe(&store, 1, &[Cell::Table("t".into(), Value::from(1))]);
    subscribe(&store, 2, &[Cell::Table("t".into(), Value::from(2))]);
    subscribe(&store, 3, &[Cell::TableAll("t".into())]);
    subscribe(&store, 4, &[Cell::TableLen("t".into())]);
    assert_eq!(withdrawn(&store, vec![entry("t", 1, Some(1))]), [0; 0], "the same value again");
    assert_eq!(withdrawn(&store, vec![entry("t", 1, Some(9))]), [1, 3]);
    assert_eq!(withdrawn(&store, vec![entry("t", 2, None)]), [2, 4]);
    assert_eq!(store.subscriptions(), (0, 0));
}

#[test]
fn a_key_that_was_not_there_is_a_dependency_too() {
    let store = Store::new();
    subscribe(&store, 1, &[Cell::Table("t".into(), Value::from(1)), Cell::HostAt(H)]);
    let host = HostInfo { location: at(1, 3), ipv4: BTreeSet::new(), ipv6: BTreeSet::new() };
    assert_eq!(withdrawn(&store, vec![Write::Host { mac: H, info: Some(host) }]), [1]);
    assert!(!store.is_current(LeafId(1)));
}

#[test]
fn a_commit_withdraws_the_leaves_that_read_what_it_wrote() {
    let store = Store::new();
    subscribe(&store, 1, &[Cell::Var("x".into())]);
    let mut txn = store.begin();
    txn.write(var("x", 1));
    let commit = store.commit(txn, None).expect("nothing was read");
    assert_eq!(commit.withdraw, BTreeSet::from([DependentId(1)]));
}

#[test]
fn a_link_that_fails_withdraws_only_paths_that_change() {
    let store = triangle();
    subscribe(&store, 1, &[path(1, 2, None)]);
    subscribe(&store, 2, &[path(2, 3, None)]);
    subscribe(&store, 3, &[path(1, 3, Some("cost"))]);
    subscribe(&store, 4, &[Cell::Flood(Dpid(1), None)]);
    let down = |port| Write::Port { at: port, info: Some(PortInfo { up: false, kind: PortKind::New }) };
    // The spanning tree from switch 1 has 1-2 and 1-3; only the path from 2 to 3 uses 2-3.
    assert_eq!(withdrawn(&store, vec![down(at(2, 2)), down(at(3, 1))]), [2]);
    assert_eq!(withdrawn(&store, link(at(2, 2), at(3, 1))), [0; 0], "leaf 2 is gone, the others don't care");
}

#[test]
fn a_cost_withdraws_only_the_paths_by_costs_that_change() {
    let store = triangle();
    store.update(|_| vec![Write::CostName("cost".into()), Write::CostName("delay".into())]);
    subscribe(&store, 1, &[path(1, 2, None)]);
    subscribe(&store, 2, &[path(1, 2, Some("cost"))]);
    subscribe(&store, 3, &[path(1, 2, Some("delay"))]);
    let cost = |cost| Write::Cost { name: "cost".into(), link: LinkName::Port(at(1, 1)), cost: Some(cost) };
    assert_eq!(withdrawn(&store, vec![cost(2)]), [0; 0], "two hops cost as much, but are more");
    assert_eq!(withdrawn(&store, vec![cost(3)]), [2]);
    let CellValue::Hops(Some(hops)) = store.begin().read(path(1, 2, Some("cost"))) else { panic!("no path") };
    assert_eq!(format!("{hops:?}"), "[0000000000000001:2, 0000000000000003:1]");
}

#[test]
fn a_path_by_costs_of_an_unknown_name_is_an_answer_of_its_own_until_the_name_is_there() {
    let store = triangle();
    subscribe(&store, 1, &[path(1, 2, Some("cost"))]);
    subscribe(&store, 2, &[Cell::CostNames]);
    assert_eq!(store.begin().read(path(1, 2, Some("cost"))), CellValue::NoSuchCosts);
    assert_eq!(withdrawn(&store, vec![Write::CostName("delay".into())]), [2]);
    assert_eq!(withdrawn(&store, vec![Write::CostName("cost".into())]), [1]);
    assert_eq!(store.begin().read(path(1, 2, Some("cost"))), store.begin().read(path(1, 2, None)));
    assert_eq!(store.begin().read(Cell::CostNames), CellValue::Names(vec!["cost".into(), "delay".into()]));
    // A name stays, whatever becomes of the costs.
    let cost = |cost| Write::Cost { name: "cost".into(), link: LinkName::Port(at(1, 1)), cost };
    store.update(|_| vec![cost(Some(7)), cost(None)]);
    assert!(store.snapshot().has_costs("cost"));
}

#[test]
fn values_of_different_kinds_are_different_keys() {
    let all = [
        Value::None,
        Value::from(false),
        Value::from(0i64),
        Value::from(0.0),
        Value::from(""),
        Value::Mac(Mac::default()),
        Value::Tuple([].into()),
    ];
    for (i, a) in all.iter().enumerate() {
        for (j, b) in all.iter().enumerate() {
            assert_eq!(a == b, i == j, "{a:?} {b:?}");
        }
    }
    assert_eq!(Value::from(-0.0), Value::from(0.0));
    assert_eq!(Value::from(f64::NAN), Value::from(f64::NAN));
}

#[test]
fn whether_a_port_is_up_is_a_read_of_that_port_alone() {
    let store = triangle();
    let port = |at, up, kind| Write::Port { at, info: Some(PortInfo { up, kind }) };
    let is_up = |at| store.begin().read(Cell::IsUp(at)) == CellValue::Exists(true);
    assert!(is_up(at(1, 1)), "a link port");
    assert!(!is_up(at(1, 9)) && !is_up(at(9, 1)), "what does not exist is not up");
    let shared = PortKind::Shut { with: at(2, 9), link: None };
    for (kind, expected) in
        [(PortKind::Edge, true), (PortKind::Middlebox, true), (PortKind::New, false), (shared, false)]
    {
        store.update(|_| vec![port(at(1, 3), true, kind)]);
        assert_eq!(is_up(at(1, 3)), expected, "{kind:?}");
        store.update(|_| vec![port(at(1, 3), false, kind)]);
        assert!(!is_up(at(1, 3)), "{kind:?}");
    }
    let edges = [port(at(1, 3), true, PortKind::Edge), port(at(1, 4), true, PortKind::Edge)];
    store.update(|_| edges.to_vec());
    subscribe(&store, 1, &[Cell::IsUp(at(1, 3))]);
    subscribe(&store, 2, &[Cell::IsUp(at(1, 4))]);
    assert_eq!(withdrawn(&store, vec![port(at(1, 3), true, PortKind::Middlebox)]), [0; 0], "it is still up");
    assert_eq!(withdrawn(&store, vec![port(at(1, 3), false, PortKind::New)]), [1]);
    subscribe(&store, 1, &[Cell::IsUp(at(1, 3))]);
    assert_eq!(withdrawn(&store, vec![port(at(1, 3), true, PortKind::New)]), [0; 0], "nothing leaves by it yet");
    assert_eq!(withdrawn(&store, vec![port(at(1, 3), true, PortKind::Edge)]), [1]);
    assert_eq!(withdrawn(&store, vec![Write::Port { at: at(1, 4), info: None }]), [2]);
}

#[test]
fn the_memory_of_departed_switches_is_bounded() {
    let store = triangle();
    let model = SwitchModel { version: Version::Of13, tables: 254, is_open_vswitch: true, has_bundles: true };
    let mut most = 0;
    for dpid in 1..=3 * MAX_DEPARTED as u64 {
        store.note_model(Time(1), Dpid(dpid), model);
        store.with_label_ids(Dpid(dpid), |ids| assert_eq!(ids.newest(), 0));
        let mut switches = 0;
        store.with_all_label_ids(|_, _| switches += 1);
        most = most.max(switches).max(store.models().len());
    }
    assert_eq!(most, MAX_DEPARTED + 4, "three are connected, and one connects");
    assert!((1..=3).all(|dpid| store.model(Dpid(dpid)) == Some(model)), "they are here");
}
