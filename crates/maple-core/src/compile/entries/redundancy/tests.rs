//! Entries that are added, changed and removed, against the packets that they take.

use std::collections::BTreeSet;

use maple_wire::{Constraint, Field};
use proptest::collection::vec;
use proptest::prelude::*;

use super::super::{EntryTable, EntryVerdict, tree_of};
use super::*;
use crate::tree::LeafId;

/// The number of nodes that entries may belong to, and the number of bits that packets have.
const NODES: u64 = 24;
const BITS: u32 = 6;

/// Returns the entries that take a packet, in order of precedence.
fn taking(entries: &EntryTable, tree: &Tree, packet: u64) -> Vec<EntryId> {
    let store = &entries.store;
    let fits = |id: &EntryId| overlap(store.matching(*id), &[packet, u64::MAX]);
    let mut taking: Vec<EntryId> = store.ids().filter(fits).collect();
    taking.sort_by_key(|id| store.rank(tree, *id));
    taking
}

/// Returns the entries that take a packet and are not shadowed.
fn reachable(entries: &EntryTable, tree: &Tree, packet: u64) -> Vec<EntryId> {
    taking(entries, tree, packet).into_iter().filter(|id| entries.store.state(*id).is_reachable()).collect()
}

fn is_rule(entries: &EntryTable, id: EntryId) -> bool {
    entries.necessities.is_rule(&entries.store, id)
}

/// Checks for each packet that its first entry is reachable, and that the rule that takes the packet is that of this
/// entry or sends it to the controller.
fn check_packets(entries: &EntryTable, tree: &Tree) {
    let (store, levels) = (&entries.store, &entries.levels);
    let forwards = |id: &EntryId| store.state(*id) == EntryState::Forward;
    for packet in 0..1 << BITS {
        let first = taking(entries, tree, packet).first().copied();
        let taking = reachable(entries, tree, packet);
        assert_eq!(taking.first().copied(), first, "nothing is before the first entry of packet {packet:#b}");
        if let Some(forwarding) = taking.iter().position(forwards) {
            let is_protected = forwarding == 0 || taking[..forwarding].iter().any(|id| is_rule(entries, *id));
            assert!(is_protected, "nothing keeps packet {packet:#b} from {}", taking[forwarding]);
        }
        let rules = taking.iter().filter(|id| is_rule(entries, **id));
        let top = rules.clone().map(|id| levels.level_of(*id)).min();
        for rule in rules.filter(|id| Some(levels.level_of(**id)) == top && forwards(id)) {
            let first = taking[0];
            assert_eq!(store.verdict(*rule), store.verdict(first), "packet {packet:#b} of {first} meets {rule}");
        }
    }
}

/// Returns the barrier entries that are required, packet by packet.
fn required(entries: &EntryTable, tree: &Tree) -> BTreeSet<EntryId> {
    let for_packet = |packet: u64| {
        let taking = reachable(entries, tree, packet);
        let forwarding = taking.iter().position(|id| entries.store.state(*id) == EntryState::Forward)?;
        Some(taking[forwarding.checked_sub(1)?])
    };
    (0..1 << BITS).filter_map(for_packet).collect()
}

fn barrier_rules(entries: &EntryTable) -> BTreeSet<EntryId> {
    let barriers = entries.store.ids().filter(|id| entries.store.state(*id) == EntryState::Barrier);
    barriers.filter(|id| is_rule(entries, *id)).collect()
}

fn cases() -> u32 {
    std::env::var("MAPLE_CASES").map_or(2000, |cases| cases.parse().expect("MAPLE_CASES is a number"))
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Adds an entry with this value and mask, and with these instructions or none.
    Come(u64, u64, Option<u8>),
    /// Changes the verdict.
    Change(Option<u8>),
    Go,
}

fn steps() -> impl Strategy<Value = Step> {
    let bits = || 0..1u64 << BITS;
    let verdict = || prop::option::weighted(0.6, 0..3u8);
    prop_oneof![
        2 => (bits(), bits(), bits(), verdict()).prop_map(|(value, a, b, verdict)| Step::Come(value, a & b, verdict)),
        2 => (bits(), bits(), verdict()).prop_map(|(value, mask, verdict)| Step::Come(value, mask, verdict)),
        1 => verdict().prop_map(|verdict| Step::Come(0, 0, verdict)),
        6 => verdict().prop_map(Step::Change),
        4 => Just(Step::Go),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    /// Edits come alone or several at a time: those of new traces, and those of leaves that are removed.
    #[test]
    fn each_packet_is_protected_at_all_times_and_no_rule_stays_without_need(
        edits in vec((vec((0..NODES, steps()), 1..12), prop::bool::weighted(0.3)), 1..100),
    ) {
        let (tree, mut entries) = (tree_of(NODES), EntryTable::new(&(1..=u16::MAX), Tuning::for_small_tables()));
        let mut there: Vec<Option<EntryId>> = vec![None; NODES as usize];
        for (steps, is_new) in edits {
            for (node, step) in steps {
                let mut verdict = |table: Option<u8>| match table {
                    Some(table) => EntryVerdict::Forward(entries.intern(vec![maple_wire::Instruction::GotoTable(table)])),
                    None if node % 5 == 0 => EntryVerdict::PartiallyExplored,
                    None => EntryVerdict::Unexplored,
                };
                let slot = &mut there[node as usize];
                match (step, *slot) {
                    (Step::Come(value, mask, table), None) => {
                        let all = [Constraint { field: Field::IpProto, value: (value & mask).into(), mask: mask.into() }];
                        let (verdict, place) = (verdict(table), tree.leaf_node(LeafId(node)).expect("the leaf is there"));
                        *slot = Some(entries.insert(&all[..usize::from(mask != 0)], place, None, verdict));
                    }
                    (Step::Change(table), Some(id)) => {
                        let verdict = verdict(table);
                        entries.set_verdict(id, None, verdict);
                    }
                    (Step::Go, Some(id)) => {
                        entries.remove(id);
                        *slot = None;
                    }
                    _ => {}
                }
            }
            entries.recompute(&tree, if is_new { Checks::Now } else { Checks::Deferred });
            if entries.store.fields().len() > 0 {
                check_packets(&entries, &tree);
            }
        }
        entries.remove_redundant(&tree);
        if entries.store.fields().len() > 0 {
            prop_assert_eq!(required(&entries, &tree), barrier_rules(&entries));
        }
    }
}
