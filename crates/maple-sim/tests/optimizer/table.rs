//! Tables kept in step with their trees: the changes that they report lead to the rules that they should have.

use std::collections::BTreeMap;
use std::sync::Arc;

use maple_core::{Augmented, Capabilities, Change, LeafId, Rule, RuleTable, TableTarget, changes};
use maple_sim::oracles::ReferenceCompiler;
use maple_wire::Field;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::compile::{of10, of13_masked_ports};
use crate::policy::{CONTROLLER, Headers, action, packets, programs, scan};
use crate::update::InstalledRules;

fn table(capabilities: Capabilities) -> RuleTable {
    let cookie = Arc::new(|leaf: Option<LeafId>| leaf.map_or(0, |leaf| leaf.0 + 1));
    RuleTable::new(TableTarget { under: Vec::new(), capabilities, priorities: 1..=u16::MAX, cookie })
}

/// Applies the changes, and checks that each packet is treated correctly at every moment.
fn follow(table: &mut RuleTable, installed: &mut InstalledRules, probes: &[Headers]) {
    let (old, new) = (installed.rules(), table.rules());
    let taken = table.take_changes();
    let sorted = |mut changes: Vec<Change>| {
        changes.sort_by_key(|change| format!("{change:?}"));
        changes
    };
    assert_eq!(sorted(taken.clone()), sorted(changes(&old, &new)));
    for change in taken {
        installed.apply(&change);
        installed.check(&old, &new, probes, &change);
    }
    let sorted = |mut rules: Vec<Rule>| {
        rules.sort_by_key(|rule| format!("{rule:?}"));
        rules
    };
    assert_eq!(sorted(installed.rules()), sorted(new));
    assert_eq!(table.take_changes(), Vec::new(), "changes are taken once");
}

/// Compiles the tree from scratch.
fn scratch(table: &RuleTable, answers: &BTreeMap<LeafId, u32>, capabilities: &Capabilities) -> Vec<Rule> {
    let leaf = |leaf| action(answers[&leaf]);
    ReferenceCompiler::new()
        .compile(table.tree(), &[], capabilities, 1..=u16::MAX, &leaf, &|leaf| leaf.map_or(0, |l| l.0 + 1))
}

/// Checks that no rule is covered by one above it, and that overlapping rules that do different things have different
/// priorities. Also checks that the table treats packets like one made from scratch.
fn compare(table: &RuleTable, answers: &BTreeMap<LeafId, u32>, capabilities: &Capabilities, probes: &[&Headers]) {
    let (rules, oracle) = (table.rules(), scratch(table, answers, capabilities));
    for packet in probes {
        assert_eq!(scan(&rules, packet), scan(&oracle, packet), "{packet:?}\n{}", table.tree().render());
    }
    for (at, rule) in rules.iter().enumerate() {
        let above = rules[..at].iter().filter(|above| above.priority > rule.priority);
        for above in above {
            assert!(!above.matching.covers(&rule.matching), "{above:?} hides {rule:?}");
        }
        for beside in rules[at + 1..].iter().take_while(|beside| beside.priority == rule.priority) {
            let agree = rule.instructions == beside.instructions;
            assert!(agree || !overlap(rule, beside), "{rule:?} and {beside:?} have one priority");
        }
    }
}

/// Reports whether a packet can fit both rules.
fn overlap(a: &Rule, b: &Rule) -> bool {
    a.matching.constraints().all(|x| {
        let there = b.matching.get(x.field);
        there.is_none_or(|y| (x.value ^ y.value) & x.mask & y.mask == 0)
    })
}

/// Asks whether the source is one host after the other, up to the packet's own source or the last host.
fn ask_all(packet: &Headers, hosts: u128) -> Vec<maple_core::Item> {
    let mut recorder = maple_core::Recorder::new();
    let mask = Field::EthSrc.full_mask();
    (1..=hosts).find(|host| recorder.equals(packet, Field::EthSrc, *host, mask, None));
    recorder.finish().items
}

#[test]
fn an_unrelated_trace_costs_one_rule_and_the_same_work_in_a_table_of_any_size() {
    let packet = |eth_src| Headers(BTreeMap::from([(Field::EthSrc, eth_src)]));
    let work = [100, 5000].map(|hosts| {
        let mut table = table(of13_masked_ports());
        for host in (1..hosts).step_by(3) {
            table.augment(&ask_all(&packet(host), hosts), LeafId(host as u64), action(1));
        }
        table.take_changes();
        let before = table.visited();
        let new = LeafId(u64::MAX >> 24);
        table.augment(&ask_all(&packet(hosts / 3 * 3), hosts), new, action(2));
        assert!(matches!(table.take_changes().as_slice(), [Change::Add(rule)] if rule.cookie == new.0 + 1));
        assert!(table.remove(new));
        assert!(matches!(table.take_changes().as_slice(), [Change::Delete(rule)] if rule.cookie == new.0 + 1));
        table.visited() - before
    });
    assert!(work.iter().all(|pieces| *pieces < 20), "{work:?}");
}

#[test]
fn rules_that_stay_without_need_where_leaves_go_are_gone_when_the_table_is_tidied() {
    let hosts = 20;
    let all = Field::EthSrc.full_mask();
    // The policy asks for one source after the other, then for one destination after the other, then for any other of
    // the lowest 256.
    let each = move |field| (1..=hosts).map(move |host| (field, host, all));
    let asked = each(Field::EthSrc).chain(each(Field::EthDst)).chain([(Field::EthDst, 0, all & !0xff)]);
    let trace = |field: Field, host: u128| {
        let (packet, mut recorder) = (Headers(BTreeMap::from([(field, host)])), maple_core::Recorder::new());
        asked.clone().find(|(field, value, mask)| recorder.equals(&packet, *field, *value, *mask, None));
        recorder.finish().items
    };
    let mut table = table(of13_masked_ports());
    for host in 1..=hosts {
        table.augment(&trace(Field::EthSrc, host), LeafId(host as u64), action(1));
        table.augment(&trace(Field::EthDst, host), LeafId(100 + host as u64), action(2));
    }
    table.augment(&trace(Field::EthDst, 1 << 40), LeafId(300), action(3));
    assert_eq!(table.rules().len(), 2 * hosts as usize + 2);
    // Each destination overlaps each source and the last answer. The barrier rule before the last answer protects
    // packets from it.
    let gone: Vec<LeafId> = (101..=100 + hosts as u64).map(LeafId).collect();
    assert_eq!(table.remove_all(&gone), gone.len());
    assert_eq!(table.rules().len(), 2 * hosts as usize + 2, "those that went send packets to the controller");
    table.take_changes();
    table.remove_redundant();
    let changes = table.take_changes();
    assert!(changes.iter().all(|change| matches!(change, Change::Delete(_))), "{changes:?}");
    assert_eq!((changes.len(), table.rules().len()), (gone.len(), hosts as usize + 2));
    table.remove_redundant();
    assert_eq!(table.take_changes(), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    #[test]
    fn a_table_that_grew_and_shrank_acts_as_one_made_from_scratch(
        program in programs(),
        training in vec(packets(), 8),
        removals in vec(any::<prop::sample::Index>(), 0..3),
        controlled in any::<prop::sample::Index>(),
    ) {
        for (capabilities, priorities) in [(of13_masked_ports(), 1..=u16::MAX), (of10(), 1..=20)] {
            let cookie = Arc::new(|leaf: Option<LeafId>| leaf.map_or(0, |leaf| leaf.0 + 1));
            let (under, caps) = (Vec::new(), capabilities.clone());
            let target = TableTarget { under, capabilities: caps, priorities: priorities.clone(), cookie };
            let mut table = RuleTable::new(target);
            let (mut answers, probes) = (BTreeMap::new(), training.iter().collect::<Vec<_>>());
            let check = |table: &mut RuleTable, answers: &BTreeMap<LeafId, u32>| {
                if *priorities.end() == u16::MAX {
                    compare(table, answers, &capabilities, &probes);
                }
            };
            for (number, packet) in training.iter().enumerate() {
                let (answer, trace) = program.run(packet);
                let leaf = LeafId(number as u64);
                answers.insert(leaf, answer);
                table.augment(&trace.lower(packet, &capabilities).items, leaf, action(answer));
            }
            check(&mut table, &answers);
            for index in &removals {
                let leaves: Vec<LeafId> = table.tree().leaves().collect();
                if !leaves.is_empty() {
                    table.remove(leaves[index.index(leaves.len())]);
                }
            }
            check(&mut table, &answers);
            let leaves: Vec<LeafId> = table.tree().leaves().collect();
            if !leaves.is_empty() {
                let leaf = leaves[controlled.index(leaves.len())];
                for answer in [CONTROLLER, 1] {
                    answers.insert(leaf, answer);
                    table.set_action(leaf, action(answer));
                    check(&mut table, &answers);
                }
            }
            let rules = table.rules();
            for packet in &training {
                let known = table.tree().search(packet).map_or(CONTROLLER, |leaf| answers[&leaf]);
                let got = scan(&rules, packet);
                prop_assert!(got == known || got == CONTROLLER);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_table_follows_its_tree(
        program in programs(),
        training in vec(packets(), 15),
        probes in vec(packets(), 15),
        removals in vec(any::<prop::sample::Index>(), 0..6),
    ) {
        for capabilities in [of13_masked_ports(), of10()] {
            let mut table = table(capabilities.clone());
            let mut installed = InstalledRules::default();
            for (number, packet) in training.iter().enumerate() {
                let (answer, trace) = program.run(packet);
                let trace = trace.lower(packet, &capabilities);
                let leaf = LeafId(number as u64);
                let outcome = table.augment(&trace.items, leaf, action(answer));
                prop_assert!(matches!(outcome, Augmented::Added | Augmented::Existing(_)));
                follow(&mut table, &mut installed, &probes);
                let got = scan(&table.rules(), packet);
                prop_assert!(got == answer || got == CONTROLLER);
            }
            for index in &removals {
                let leaves: Vec<LeafId> = table.tree().leaves().collect();
                if leaves.is_empty() {
                    break;
                }
                table.remove(leaves[index.index(leaves.len())]);
                follow(&mut table, &mut installed, &probes);
            }
            let leaves: Vec<LeafId> = table.tree().leaves().collect();
            let half = &leaves[leaves.len() / 2..];
            prop_assert_eq!(table.remove_all(half), half.len());
            prop_assert_eq!(table.remove_all(half), 0);
            follow(&mut table, &mut installed, &probes);
            for leaf in table.tree().leaves().collect::<Vec<_>>() {
                table.set_action(leaf, action(CONTROLLER));
            }
            table.remove_redundant();
            follow(&mut table, &mut installed, &probes);
            prop_assert_eq!(table.rules(), Vec::new());
        }
    }
}
