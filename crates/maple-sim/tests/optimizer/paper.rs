//! The paper's compiler compared with the oracle, from scratch and incrementally.

use std::ops::RangeInclusive;
use std::sync::Arc;

use maple_core::{Capabilities, LeafId, Rule, RuleTable, TableTarget, Trace};
use maple_sim::oracles::Strategy;
use maple_sim::oracles::paper::{build_ft, opt_build_ft};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::compile::{of10, of13_masked_ports};
use crate::policy::{CONTROLLER, Headers, Program, action, packets, programs, scan};
use crate::update::InstalledRules;

fn target(capabilities: &Capabilities, priorities: RangeInclusive<u16>) -> TableTarget {
    let cookie = Arc::new(|leaf: Option<LeafId>| leaf.map_or(0, |leaf| leaf.0 + 1));
    TableTarget { under: Vec::new(), capabilities: capabilities.clone(), priorities, cookie }
}

/// A table of the paper's compiler for a policy, with the rules that a switch would have.
struct Learner<'a> {
    program: &'a Program,
    capabilities: Capabilities,
    table: RuleTable,
    installed: InstalledRules,
    answers: Vec<u32>,
}

impl<'a> Learner<'a> {
    fn new(program: &'a Program, capabilities: Capabilities, priorities: RangeInclusive<u16>) -> Learner<'a> {
        let table = (Strategy::Paper.new_table())(target(&capabilities, priorities));
        Learner { program, capabilities, table, installed: InstalledRules::default(), answers: Vec::new() }
    }

    fn learn(&mut self, packet: &Headers) {
        let (answer, trace): (u32, Trace) = self.program.run(packet);
        let items = trace.lower(packet, &self.capabilities).items;
        self.table.augment(&items, LeafId(self.answers.len() as u64), action(answer));
        self.answers.push(answer);
    }

    /// Applies the changes, and checks that each packet is treated correctly at every moment.
    fn follow(&mut self, probes: &[Headers]) {
        let (old, new) = (self.installed.rules(), self.table.rules());
        for change in self.table.take_changes() {
            self.installed.apply(&change);
            self.installed.check(&old, &new, probes, &change);
        }
        let sorted = |mut rules: Vec<Rule>| {
            rules.sort_by_key(|rule| format!("{rule:?}"));
            rules
        };
        assert_eq!(sorted(self.installed.rules()), sorted(new));
    }

    /// Checks rules against the policy. If the switch can match everything, also checks them against the tree.
    fn check(&self, rules: &[Rule], probes: &[Headers], strict: bool) {
        for packet in probes {
            let (wanted, got) = (self.program.eval(packet), scan(rules, packet));
            let shown = || format!("{packet:?}\n{}\n{rules:#?}", self.table.tree().render());
            assert!(got == wanted || got == CONTROLLER, "{got} for {wanted}: {}", shown());
            if strict && self.table.tree().search(packet).is_some() {
                assert_eq!(got, wanted, "{}", shown());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_compiler_of_the_paper_says_what_the_tree_says(
        program in programs(),
        training in vec(packets(), 25),
        probes in vec(packets(), 25),
    ) {
        for (capabilities, strict) in [(Capabilities::of_abstract_headers(), true), (of10(), false)] {
            let mut learner = Learner::new(&program, capabilities.clone(), 0..=u16::MAX);
            training.iter().for_each(|packet| learner.learn(packet));
            let action = |leaf: LeafId| action(learner.answers[leaf.0 as usize]);
            let tree = learner.table.tree();
            for rules in [
                learner.table.rules(),
                build_ft(tree, target(&capabilities, 0..=u16::MAX), &action),
                opt_build_ft(tree, target(&capabilities, 0..=u16::MAX), &action),
            ] {
                learner.check(&rules, &training, strict);
                learner.check(&rules, &probes, strict);
            }
        }
    }

    #[test]
    fn the_paper_s_table_follows_its_tree(
        program in programs(),
        training in vec(packets(), 15),
        probes in vec(packets(), 15),
        edits in vec((any::<prop::sample::Index>(), 0..3), 0..8),
    ) {
        for (capabilities, strict) in [(of13_masked_ports(), true), (of10(), false)] {
            let mut learner = Learner::new(&program, capabilities, 1..=u16::MAX);
            for packet in &training {
                learner.learn(packet);
                learner.follow(&probes);
                learner.check(&learner.table.rules(), &probes, strict);
            }
            for (index, edit) in &edits {
                let leaves: Vec<LeafId> = learner.table.tree().leaves().collect();
                if leaves.is_empty() {
                    break;
                }
                let leaf = leaves[index.index(leaves.len())];
                match edit {
                    0 => learner.table.set_action(leaf, action(CONTROLLER)),
                    1 => learner.table.set_action(leaf, action(learner.answers[leaf.0 as usize])),
                    _ => prop_assert!(learner.table.remove(leaf)),
                }
                learner.follow(&probes);
                learner.check(&learner.table.rules(), &probes, false);
            }
            training.iter().for_each(|packet| learner.learn(packet));
            learner.follow(&probes);
            for leaf in learner.table.tree().leaves().collect::<Vec<_>>() {
                learner.table.remove(leaf);
            }
            learner.follow(&probes);
            prop_assert_eq!(learner.table.rules(), Vec::new());
        }
    }

    #[test]
    fn where_priorities_run_out_the_lowest_rules_are_missing(
        program in programs(),
        training in vec(packets(), 20),
        probes in vec(packets(), 20),
    ) {
        let mut learner = Learner::new(&program, of13_masked_ports(), 7..=9);
        for packet in &training {
            learner.learn(packet);
            learner.follow(&probes);
            prop_assert!(learner.table.rules().iter().all(|rule| (7..=9).contains(&rule.priority)));
            learner.check(&learner.table.rules(), &training, false);
            learner.check(&learner.table.rules(), &probes, false);
        }
    }
}
