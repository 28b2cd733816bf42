//! Tables kept in step with their trees: the changes they report lead to the rules they should have.

use maple_core::{Augmented, LeafId, Rule, Strategy, Table, Target};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::compile::{of10, of13_masked_ports};
use crate::policy::{CONTROLLER, Headers, action, packets, programs, scan};
use crate::update::Installed;

fn table(capabilities: maple_core::Capabilities) -> Table {
    let cookie = Box::new(|leaf: Option<LeafId>| leaf.map_or(0, |leaf| leaf.0 + 1));
    Table::new(Strategy::Maple, Target { under: Vec::new(), capabilities, priorities: 1..=u16::MAX, cookie })
}

/// Applies what has changed and checks that each packet is treated right at every moment.
fn follow(table: &mut Table, installed: &mut Installed, probes: &[Headers]) {
    let (old, new) = (installed.rules(), table.rules());
    for change in table.take_changes() {
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_table_follows_its_tree(
        program in programs(),
        training in vec(packets(), 15),
        probes in vec(packets(), 15),
        removals in vec(any::<prop::sample::Index>(), 0..6),
    ) {
        for capabilities in [of13_masked_ports(), of10()] {
            let mut table = table(capabilities.clone());
            let mut installed = Installed::default();
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
            for leaf in table.tree().leaves().collect::<Vec<_>>() {
                table.act(leaf, action(CONTROLLER));
            }
            follow(&mut table, &mut installed, &probes);
            prop_assert_eq!(table.rules(), Vec::new());
        }
    }
}
