//! Priorities compared with what packets require: no two rules are in the wrong order, there are no more levels than
//! the longest chain of rules that must yield to each other, and each rule has a packet of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use maple_core::{Capabilities, LeafId, Rule, RuleTable, TableTarget};
use maple_wire::{Constraint, Field};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::compile::{of10, of13_masked_ports};
use crate::policy::{CONTROLLER, Headers, action, packets, programs, scan};

/// A table, and the answers of its leaves.
struct Learned {
    table: RuleTable,
    answers: BTreeMap<LeafId, u32>,
}

impl Learned {
    fn new(capabilities: Capabilities) -> Learned {
        let cookie = Arc::new(|leaf: Option<LeafId>| leaf.map_or(0, |leaf| leaf.0 + 1));
        let target = TableTarget { under: Vec::new(), capabilities, priorities: 1..=u16::MAX, cookie };
        Learned { table: RuleTable::new(target), answers: BTreeMap::new() }
    }

    /// Returns the tree's answer for a packet, if it knows the packet.
    fn known(&self, packet: &Headers) -> Option<u32> {
        self.table.tree().search(packet).map(|leaf| self.answers[&leaf])
    }

    /// Returns, for each rule, the rules that must be above it: those that do something else, and have the answer for a
    /// packet that fits both.
    fn required(&self, rules: &[Rule]) -> Vec<Vec<usize>> {
        let mut above = vec![Vec::new(); rules.len()];
        for (a, first) in rules.iter().enumerate() {
            for (b, second) in rules.iter().enumerate().skip(a + 1) {
                let differ = first.instructions != second.instructions;
                for packet in common(first, second).into_iter().filter(|_| differ) {
                    let Some(answer) = self.known(&packet).filter(|answer| *answer != CONTROLLER) else { continue };
                    let says = |rule: &Rule| scan(std::slice::from_ref(rule), &packet) == answer;
                    match (says(first), says(second)) {
                        (true, false) => above[b].push(a),
                        (false, true) => above[a].push(b),
                        _ => {}
                    }
                }
            }
        }
        above
    }
}

/// Returns some packets that fit both rules: with free bits that are all zero, all one, or mixed.
fn common(a: &Rule, b: &Rule) -> Vec<Headers> {
    let mut both: BTreeMap<Field, Constraint> = a.matching.constraints().map(|c| (c.field, *c)).collect();
    for c in b.matching.constraints() {
        let there = both.entry(c.field).or_insert(*c);
        if (there.value ^ c.value) & there.mask & c.mask != 0 {
            return Vec::new();
        }
        (there.value, there.mask) = (there.value | c.value, there.mask | c.mask);
    }
    let packet_with_free_bits = |free: u128| {
        let value = |field: Field| {
            let (value, mask) = both.get(&field).map_or((0, 0), |c| (c.value, c.mask));
            value | free & field.full_mask() & !mask
        };
        Headers(Field::ALL.into_iter().map(|field| (field, value(field))).collect())
    };
    let fits = |rule: &Rule, packet: &Headers| rule.matching.holds(|field| maple_core::Fields::value(packet, field));
    let packets = [0, u128::MAX, u128::MAX / 3].map(packet_with_free_bits);
    packets.into_iter().filter(|packet| fits(a, packet) && fits(b, packet)).collect()
}

/// Checks a table's priorities against the order that packets require. Returns the length of the longest chain.
fn check(learned: &Learned, rules: &[Rule]) -> usize {
    let required = learned.required(rules);
    // Rules are in order of falling priority. A rule that must be above comes first, or else a packet gets the wrong
    // answer.
    let mut chain: Vec<usize> = Vec::with_capacity(rules.len());
    for (at, above) in required.iter().enumerate() {
        for other in above {
            let hidden_by = || common(&rules[at], &rules[*other]).iter().all(|packet| right(learned, rules, packet));
            let is_above = rules[*other].priority > rules[at].priority;
            assert!(is_above || hidden_by(), "{:?} must lie above {:?}", rules[*other], rules[at]);
        }
        let before = above.iter().filter(|other| rules[**other].priority > rules[at].priority);
        chain.push(1 + before.map(|other| chain[*other]).max().unwrap_or(0));
    }
    chain.into_iter().max().unwrap_or(0)
}

/// Reports whether a packet gets what the tree says, or goes to the controller.
fn right(learned: &Learned, rules: &[Rule], packet: &Headers) -> bool {
    let got = scan(rules, packet);
    got == CONTROLLER || learned.known(packet) == Some(got)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn priorities_are_those_that_overlap_and_actions_require(
        program in programs(),
        training in vec(packets(), 12),
        removals in vec(any::<prop::sample::Index>(), 0..4),
    ) {
        for capabilities in [of13_masked_ports(), of10()] {
            let mut learned = Learned::new(capabilities.clone());
            for (number, packet) in training.iter().enumerate() {
                let (answer, trace) = program.run(packet);
                let leaf = LeafId(number as u64);
                learned.answers.insert(leaf, answer);
                learned.table.augment(&trace.lower(packet, &capabilities).items, leaf, action(answer));
            }
            for index in &removals {
                let leaves: Vec<LeafId> = learned.table.tree().leaves().collect();
                if !leaves.is_empty() {
                    learned.table.remove(leaves[index.index(leaves.len())]);
                }
            }
            let rules = learned.table.rules();
            for rule in &rules {
                for packet in common(rule, rule) {
                    prop_assert!(right(&learned, &rules, &packet), "{packet:?}\n{rules:?}");
                }
            }
            let levels: BTreeSet<u16> = rules.iter().map(|rule| rule.priority).collect();
            prop_assert!(check(&learned, &rules) <= levels.len());
        }
    }
}
