//! EntryTable that come, say something else and go, against the packets that they take.

use std::collections::BTreeSet;

use maple_wire::{Constraint, Field};
use proptest::collection::vec;
use proptest::prelude::*;

use super::super::{Verdict, packed, tree_of};
use super::*;
use crate::tree::LeafId;

/// How many nodes entries may belong to, and the bits that packets have.
const NODES: u64 = 24;
const BITS: u32 = 6;

/// The entries that are there and take a packet, in order of precedence.
fn taking(entries: &EntryTable, tree: &Tree, packet: u64) -> Vec<EntryId> {
    let fits = |id: &EntryId| packed::overlap(entries.store.get(*id), &[packet, u64::MAX]);
    let is_there = |id: &EntryId| entries.entries[*id as usize].is_some();
    let mut taking: Vec<EntryId> =
        (0..entries.entries.len() as EntryId).filter(|id| is_there(id) && fits(id)).collect();
    taking.sort_by_key(|id| entries.rank(tree, *id));
    taking
}

/// Those of them that count for something.
fn counting(entries: &EntryTable, tree: &Tree, packet: u64) -> Vec<EntryId> {
    taking(entries, tree, packet).into_iter().filter(|id| entries.role(*id).counts()).collect()
}

/// Checks for each packet that its first entry counts, and that the rule that takes the packet is that of this entry, or sends
/// it to the controller.
fn check_packets(entries: &EntryTable, tree: &Tree) {
    for packet in 0..1 << BITS {
        let first = taking(entries, tree, packet).first().copied();
        let taking = counting(entries, tree, packet);
        assert_eq!(taking.first().copied(), first, "nothing is before the first entry of packet {packet:#b}");
        if let Some(answer) = taking.iter().position(|id| entries.role(*id) == EntryState::Forward) {
            let is_protected = answer == 0 || taking[..answer].iter().any(|id| entries.is_rule(*id));
            assert!(is_protected, "nothing keeps packet {packet:#b} from {}", taking[answer]);
        }
        let rules = taking.iter().filter(|id| entries.is_rule(**id));
        let top = rules.clone().map(|id| entries.spot(*id).level).min();
        for rule in
            rules.filter(|id| Some(entries.spot(**id).level) == top && entries.role(**id) == EntryState::Forward)
        {
            let first = taking[0];
            assert_eq!(
                entries.spot(*rule).says,
                entries.spot(first).says,
                "packet {packet:#b} of {first} meets {rule}"
            );
        }
    }
}

/// The barriers that are needed, packet by packet.
fn needed(entries: &EntryTable, tree: &Tree) -> BTreeSet<EntryId> {
    let for_packet = |packet: u64| {
        let taking = counting(entries, tree, packet);
        let answer = taking.iter().position(|id| entries.role(*id) == EntryState::Forward)?;
        Some(taking[answer.checked_sub(1)?])
    };
    (0..1 << BITS).filter_map(for_packet).collect()
}

fn rules(entries: &EntryTable) -> BTreeSet<EntryId> {
    let is_barrier = |id: &EntryId| entries.entries[*id as usize].is_some() && entries.role(*id) == EntryState::Barrier;
    (0..entries.entries.len() as EntryId).filter(|id| is_barrier(id) && entries.is_rule(*id)).collect()
}

fn cases() -> u32 {
    std::env::var("MAPLE_CASES").map_or(2000, |cases| cases.parse().expect("MAPLE_CASES is a number"))
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A entry comes, with this value and mask, and gives an answer or none.
    Come(u64, u64, Option<u8>),
    /// A entry says something else.
    Say(Option<u8>),
    Go,
}

fn steps() -> impl Strategy<Value = Step> {
    let bits = || 0..1u64 << BITS;
    let says = || prop::option::weighted(0.6, 0..3u8);
    prop_oneof![
        2 => (bits(), bits(), bits(), says()).prop_map(|(value, a, b, says)| Step::Come(value, a & b, says)),
        2 => (bits(), bits(), says()).prop_map(|(value, mask, says)| Step::Come(value, mask, says)),
        1 => says().prop_map(|says| Step::Come(0, 0, says)),
        6 => says().prop_map(Step::Say),
        4 => Just(Step::Go),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    /// Edits come alone or several at a time, of the kinds that new traces bring and leaves that go.
    #[test]
    fn each_packet_is_protected_at_all_times_and_no_rule_stays_without_need(
        edits in vec((vec((0..NODES, steps()), 1..12), prop::bool::weighted(0.3)), 1..100),
    ) {
        let (tree, mut entries) = (tree_of(NODES), EntryTable::new(&(1..=u16::MAX)));
        let mut there: Vec<Option<EntryId>> = vec![None; NODES as usize];
        for (steps, is_new) in edits {
            for (node, step) in steps {
                let mut say = |answer: Option<u8>| match answer {
                    Some(answer) => Verdict::Forward(entries.name(vec![maple_wire::Instruction::GotoTable(answer)])),
                    None if node % 5 == 0 => Verdict::PartiallyExplored,
                    None => Verdict::Unexplored,
                };
                let slot = &mut there[node as usize];
                match (step, *slot) {
                    (Step::Come(value, mask, answer), None) => {
                        let all = [Constraint { field: Field::IpProto, value: (value & mask).into(), mask: mask.into() }];
                        let (says, place) = (say(answer), tree.leaf_node(LeafId(node)).expect("the leaf is there"));
                        *slot = Some(entries.insert(&tree, &all[..usize::from(mask != 0)], place, None, says));
                    }
                    (Step::Say(answer), Some(id)) => {
                        let says = say(answer);
                        entries.say(id, None, says);
                    }
                    (Step::Go, Some(id)) => {
                        entries.remove(id);
                        *slot = None;
                    }
                    _ => {}
                }
            }
            entries.recompute(&tree, if is_new { Checks::Now } else { Checks::Deferred });
            if !entries.store.get(0).is_empty() {
                check_packets(&entries, &tree);
            }
        }
        entries.remove_redundant(&tree);
        if !entries.store.get(0).is_empty() {
            prop_assert_eq!(needed(&entries, &tree), rules(&entries));
        }
    }
}
