//! Updates of tables: during an update, a packet gets the old answer, the new one, or goes to the controller.

use std::collections::BTreeMap;

use maple_core::{Change, Rule, changes};
use maple_wire::{Field, Match};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::compile::{Learner, of13_masked_ports};
use crate::policy::{CONTROLLER, Headers, Program, Question, packets, programs, scan};

/// A table as a switch keeps it.
#[derive(Default)]
pub struct InstalledRules(BTreeMap<(u16, String), Rule>);

impl InstalledRules {
    /// Checks that each packet gets an answer of `old` or of `new`, or goes to the controller.
    pub fn check(&self, old: &[Rule], new: &[Rule], probes: &[Headers], last: &Change) {
        let rules = self.rules();
        for packet in probes {
            let safe = [scan(old, packet), scan(new, packet), CONTROLLER];
            let got = answers(&rules, packet);
            assert!(got.iter().all(|answer| safe.contains(answer)), "{got:?} not in {safe:?} after {last:?}");
        }
    }

    fn holding(rules: &[Rule]) -> InstalledRules {
        InstalledRules(rules.iter().map(|rule| (entry(rule), rule.clone())).collect())
    }

    pub fn apply(&mut self, change: &Change) {
        let (entry, rule) = (entry(change.rule()), change.rule().clone());
        match change {
            Change::Add(_) => assert!(self.0.insert(entry, rule).is_none(), "an add replaced a rule"),
            Change::Modify(_) => assert!(self.0.insert(entry, rule).is_some(), "there was nothing to modify"),
            Change::Delete(_) => assert!(self.0.remove(&entry).is_some(), "there was nothing to delete"),
        }
    }

    pub fn rules(&self) -> Vec<Rule> {
        self.0.values().cloned().collect()
    }
}

fn entry(rule: &Rule) -> (u16, String) {
    let Match { fields } = &rule.matching;
    (rule.priority, format!("{fields:?}"))
}

/// Returns the answer of the first rule that fits. If several fit at one priority, returns all their answers.
fn answers(rules: &[Rule], packet: &Headers) -> Vec<u32> {
    let fitting = || rules.iter().filter(|rule| rule.matching.holds(|field| maple_core::Fields::value(packet, field)));
    let Some(top) = fitting().map(|rule| rule.priority).max() else { return vec![CONTROLLER] };
    fitting().filter(|rule| rule.priority == top).map(|rule| scan(std::slice::from_ref(rule), packet)).collect()
}

fn check(old: &[Rule], new: &[Rule], probes: &[Headers]) {
    let mut table = InstalledRules::holding(old);
    for change in changes(old, new) {
        table.apply(&change);
        table.check(old, new, probes, &change);
    }
    let mut wanted = new.to_vec();
    wanted.sort_by_key(entry);
    assert_eq!(table.rules(), wanted);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn every_prefix_of_an_update_to_another_policy_is_safe(
        old in programs(),
        new in programs(),
        training in vec(packets(), 12),
        probes in vec(packets(), 25),
    ) {
        let rules: Vec<Vec<Rule>> = [&old, &new].map(|program| {
            let mut learner = Learner::new(program, of13_masked_ports(), true);
            training.iter().for_each(|packet| learner.learn(packet));
            learner.rules(&[], 1..=u16::MAX)
        }).into();
        check(&rules[0], &rules[1], &probes);
    }
}

#[test]
fn equal_tables_in_another_order_need_no_changes() {
    let rule = |priority| Rule { priority, matching: Match::any(), instructions: [].into(), cookie: 7 };
    assert_eq!(changes(&[rule(1), rule(2)], &[rule(2), rule(1)]), Vec::new());
}

#[test]
fn a_change_of_cookie_alone_is_a_modification() {
    let rule = |cookie| Rule { priority: 3, matching: Match::any(), instructions: [].into(), cookie };
    assert_eq!(changes(&[rule(1)], &[rule(2)]), vec![Change::Modify(rule(2))]);
}

#[test]
fn the_packet_of_an_unexplored_yes_side_costs_one_modification() {
    let full = Field::EthType.full_mask();
    let answer = |answer| Box::new(Program::Answer(answer));
    // The second test overlaps the first, and the answer for the other packets is below both.
    let second = Program::Ask {
        question: Question::Equals { field: Field::EthType, value: 0x806, mask: full },
        yes: answer(2),
        no: answer(3),
    };
    let program = Program::Ask {
        question: Question::Equals { field: Field::InPort, value: 1, mask: Field::InPort.full_mask() },
        yes: answer(3),
        no: Box::new(second),
    };
    let packet = |in_port, eth_type| Headers(BTreeMap::from([(Field::InPort, in_port), (Field::EthType, eth_type)]));
    let mut learner = Learner::new(&program, of13_masked_ports(), true);
    learner.learn(&packet(2, 0x800));
    let mut installed = learner.rules(&[], 1..=u16::MAX);
    assert_eq!(installed.len(), 3);
    for packet in [packet(1, 0x800), packet(2, 0x806)] {
        learner.learn(&packet);
        let wanted = learner.rules(&[], 1..=u16::MAX);
        let changes = changes(&installed, &wanted);
        assert!(matches!(changes.as_slice(), [Change::Modify(_)]), "{changes:?}");
        installed = wanted;
    }
}
