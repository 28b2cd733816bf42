//! Tests of the rules of hosts: incremental updates give the same rules as a computation from scratch, and cost only
//! what changed.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::*;
use crate::update::{EntryKey, key_of};

fn rules(has_pipeline: bool) -> HostRules {
    with_declared(has_pipeline, BTreeSet::new())
}

fn with_declared(has_pipeline: bool, declared: BTreeSet<(PortNo, Mac)>) -> HostRules {
    let layout = if has_pipeline { Layout::with_look_ups(0) } else { Layout::with_one_table() };
    let mut rules = HostRules::new(layout, HostCookies { others: 1, copies: 2 }, declared);
    rules.set_usable(true);
    rules
}

fn apply(table: &mut BTreeMap<EntryKey, Rule>, changes: Vec<Change>) {
    for change in changes {
        let key = key_of(change.rule());
        match change {
            Change::Add(rule) | Change::Modify(rule) => drop(table.insert(key, rule)),
            Change::Delete(_) => drop(table.remove(&key)),
        }
    }
}

#[test]
fn incremental_changes_add_up_to_the_current_rules() {
    for seed in 0..400 {
        let mut random = Rng::with_seed(seed);
        let mac = |n| Mac([2, 0, 0, 0, 0, n]);
        let declared: BTreeSet<_> = [(PortNo(1), mac(0)), (PortNo(2), mac(7))].into();
        let declared = if random.bool() { declared } else { BTreeSet::new() };
        let mut rules = with_declared(seed % 2 == 0, declared.clone());
        let mut table = BTreeMap::new();
        let mut here = BTreeSet::new();
        for _ in 0..60 {
            let (port, mac) = (PortNo(1 + random.usize(..2) as u32), mac(random.usize(..6) as u8));
            match random.usize(..8) {
                0..4 => {
                    let comes = random.usize(..100) < 70;
                    if comes {
                        here.insert((port, mac))
                    } else {
                        here.remove(&(port, mac))
                    };
                    rules.set_host(port, mac, comes);
                }
                4 => rules.set_guard(port, random.bool()),
                5 => rules.set_muted(port, mac, random.bool()),
                6 => rules.set_kinds(AddressKinds { v4: random.bool(), v6: random.bool() }),
                _ => rules.set_usable(random.usize(..100) < 80),
            }
            if random.usize(..100) < 10
                && let Some(rule) = table.values().next().cloned()
            {
                // The switch has refused it after all.
                table.remove(&key_of(&rule));
                assert!(rules.contains(&rule));
                rules.on_refused(&rule, Time(1));
                rules.reopen(Time(2));
            }
            if random.usize(..100) < 60 {
                let few = HostCapacity { free: random.usize(..4), per_port: 3, total: 5 };
                let capacity = if random.usize(..100) < 30 { few } else { HostCapacity::ENDLESS };
                let held = random.usize(..100) < 20;
                let changes = rules.take_changes(capacity, held);
                assert!(!held || !changes.iter().any(adds_a_host), "seed {seed}: {changes:?}");
                apply(&mut table, changes);
                let all: BTreeMap<EntryKey, Rule> = rules.rules().map(|rule| (key_of(&rule), rule)).collect();
                assert_eq!(table, all, "seed {seed}");
                check_guards(&rules, &here.union(&declared).copied().collect(), &all);
            }
        }
    }
}

fn adds_a_host(change: &Change) -> bool {
    matches!(change, Change::Add(rule) if rule.matching.get(Field::EthSrc).is_some())
}

#[test]
fn hosts_that_were_held_back_all_get_their_rules_when_paths_have_changed() {
    let mut rules = rules(true);
    let longest = Duration::from_secs(2);
    let second = |n: u64| Time(n * 1_000_000_000);
    (0..1000).for_each(|n| rules.set_host(PortNo(1), Mac::from_bits(0x0200_0000_0000 + n), true));
    assert_eq!(rules.hold(second(1), true, longest), Some(second(3)));
    assert_eq!(rules.take_changes(HostCapacity::ENDLESS, true), []);
    assert!(!rules.take_is_short() && rules.has_additions());
    assert_eq!(rules.hold(second(2), true, longest), Some(second(3)), "others that change do not prolong it");
    assert_eq!(rules.hold(second(3), true, longest), None);
    assert_eq!(rules.take_changes(HostCapacity::ENDLESS, false).len(), 1000);
    assert!(!rules.has_additions());
    assert_eq!((rules.hold(second(4), false, longest), rules.hold(second(5), true, longest)), (None, Some(second(7))));
}

/// Checks that at a guarded port each known host has a rule above the guard, and so has each that is declared to be
/// there.
fn check_guards(rules: &HostRules, here: &BTreeSet<(PortNo, Mac)>, all: &BTreeMap<EntryKey, Rule>) {
    for guard in all.values().filter(|rule| rule.instructions.is_empty()) {
        let port = guard.matching.get(Field::InPort).expect("a port").value;
        for (_, mac) in here.iter().filter(|(at, _)| u128::from(at.0) == port) {
            let is_let_in = |rule: &Rule| {
                let has = |field, value| rule.matching.get(field).is_some_and(|c| c.value == value);
                has(Field::InPort, port) && has(Field::EthSrc, mac.bits()) && rule.priority > guard.priority
            };
            assert!(all.values().any(is_let_in), "{mac} at {port}: {rules:?}");
        }
    }
}

#[test]
fn a_new_host_among_many_is_one_change() {
    let mut rules = rules(true);
    let mac = |n: u32| Mac::from_bits(0x0200_0000_0000 + u128::from(n));
    (0..1000).for_each(|n| rules.set_host(PortNo(1), mac(n), true));
    assert_eq!(rules.take_changes(HostCapacity::ENDLESS, false).len(), 1000);
    rules.set_host(PortNo(1), mac(1000), true);
    rules.set_host(PortNo(1), mac(7), false);
    assert_eq!((rules.dirty.len(), rules.take_changes(HostCapacity::ENDLESS, false).len()), (1, 2));
    assert_eq!(rules.take_changes(HostCapacity::ENDLESS, false), []);
}

#[test]
fn with_little_capacity_no_port_exceeds_its_share_and_others_get_theirs() {
    let mut rules = rules(true);
    let capacity = HostCapacity { free: 100, per_port: 8, total: 32 };
    for port in 1..=3 {
        (0..50).for_each(|n| rules.set_host(PortNo(port), Mac([2, 0, 0, 0, port as u8, n]), true));
    }
    assert_eq!(rules.take_changes(capacity, false).len(), 24);
    assert!(!rules.take_is_short(), "there is capacity, but not for these ports");
    rules.set_host(PortNo(9), Mac([2, 0, 0, 0, 9, 9]), true);
    assert_eq!(rules.take_changes(HostCapacity { free: 0, ..capacity }, false).len(), 0);
    assert!(rules.take_is_short());
    assert_eq!(
        rules.take_changes(HostCapacity { free: 5, ..capacity }, false).len(),
        1,
        "when there is capacity again"
    );
}
