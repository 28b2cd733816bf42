//! Chains of tens of thousands of tests: no stack overflows.

use std::collections::BTreeMap;

use maple_core::{Augmented, LeafAction, LeafId, Recorder, Trace, Tree};
use maple_sim::oracles::ReferenceCompiler;
use maple_wire::Field;

use crate::compile::of13;
use crate::policy::Headers;

const LENGTH: u128 = 20_000;

fn packet(eth_src: u128) -> Headers {
    Headers(BTreeMap::from([(Field::EthSrc, eth_src)]))
}

/// Asks whether the source is 1, then 2 and so on, up to the packet's own source or the last number.
fn trace(packet: &Headers) -> Trace {
    let mut recorder = Recorder::new();
    let mask = Field::EthSrc.full_mask();
    (1..=LENGTH).find(|host| recorder.equals(packet, Field::EthSrc, *host, mask, None));
    recorder.finish()
}

#[test]
fn a_chain_of_twenty_thousand_tests_is_learned_compiled_and_forgotten() {
    let (last, other) = (packet(LENGTH), packet(LENGTH + 1));
    let mut tree = Tree::new();
    assert_eq!(tree.augment(&trace(&last).items, LeafId(1)), Augmented::Added);
    assert_eq!(tree.augment(&trace(&other).items, LeafId(2)), Augmented::Added);
    assert_eq!((tree.search(&last), tree.search(&other)), (Some(LeafId(1)), Some(LeafId(2))));
    assert_eq!(tree.path(LeafId(1)).map(|items| items.len()), Some(LENGTH as usize));
    assert_eq!(tree.render().lines().count(), 2 * LENGTH as usize + 1);

    let leaf = |_| LeafAction::Apply(Vec::new());
    let rules = ReferenceCompiler::new().compile(&tree, &[], &of13(), 1..=u16::MAX, &leaf, &|_| 0);
    assert_eq!(rules.len(), LENGTH as usize + 1, "barriers, the last host's answer, everyone else's");
    let levels: std::collections::BTreeSet<u16> = rules.iter().map(|rule| rule.priority).collect();
    assert_eq!(levels.len(), 2, "disjoint tests share a level");

    assert!(tree.remove(LeafId(1)) && tree.remove(LeafId(2)));
    assert_eq!(tree.nodes(), 0);
}

#[test]
fn tests_nested_in_yes_sides_are_no_deeper_for_the_stack() {
    let mut recorder = Recorder::new();
    let all = Headers(BTreeMap::from([(Field::Metadata, 0)]));
    for bit in 0..64 {
        assert!(recorder.equals(&all, Field::Metadata, 0, 1 << bit, None));
    }
    let mut tree = Tree::new();
    tree.augment(&recorder.finish().items, LeafId(1));
    let leaf = |_| LeafAction::Apply(Vec::new());
    let rules = ReferenceCompiler::new().compile(&tree, &[], &of13(), 1..=u16::MAX, &leaf, &|_| 0);
    assert_eq!(rules.len(), 1);
}
