//! Filters, tried one after the other, as f. For each packet of a small world, compares rules and tree with f while
//! leaves are specialised.

use std::collections::BTreeMap;
use std::sync::Arc;

use maple_wire::{Action, Constraint, Field, Instruction, PortNo};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::capabilities::Capabilities;
use crate::compile::{LeafAction, RuleTable, TableTarget, Tuning};
use crate::rule::Rule;
use crate::trace::{Cond, Fields};
use crate::tree::{Augmented, LeafId};
use crate::update::Change;

/// The number of leading bits of each field in which packets differ.
const BITS: u32 = 3;

/// A packet: the leading bits of its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Pair([u128; 2]);

const FIELDS: [Field; 2] = [Field::Ipv4Src, Field::TcpDst];

impl Fields for Pair {
    fn value(&self, field: Field) -> Option<u128> {
        let at = FIELDS.iter().position(|there| *there == field)?;
        Some(self.0[at] << (field.bits() - BITS))
    }

    fn is_captured(&self, _: Field) -> bool {
        true
    }
}

/// Returns all packets of this small world.
fn world() -> impl Iterator<Item = Pair> {
    (0..1u128 << BITS).flat_map(|a| (0..1u128 << BITS).map(move |b| Pair([a, b])))
}

/// Creates a test of this many leading bits of both fields.
fn filter(values: [u128; 2], lengths: [u32; 2]) -> Arc<Cond> {
    let part = |at: usize| {
        let (field, length) = (FIELDS[at], lengths[at]);
        let mask = field.full_mask() & !(field.full_mask() >> length);
        (length > 0).then(|| Constraint::masked(field, values[at] << (field.bits() - BITS), mask))
    };
    Arc::new(Cond { constraints: [0, 1].into_iter().filter_map(part).collect(), ranges: Vec::new() })
}

fn filters() -> impl Strategy<Value = Vec<Arc<Cond>>> {
    vec(([0..8u128, 0..8u128], [0..=BITS, 0..=BITS]).prop_map(|(values, lengths)| filter(values, lengths)), 1..24)
}

fn action(answer: usize) -> LeafAction {
    LeafAction::Apply(vec![Instruction::ApplyActions(vec![Action::output(PortNo(answer as u32 + 1))])])
}

/// A table, its switch, and what f said for each leaf.
struct Play {
    filters: Vec<Arc<Cond>>,
    table: RuleTable,
    rules: BTreeMap<(u16, Vec<Constraint>), Rule>,
    answers: BTreeMap<LeafId, usize>,
    leaves: u64,
}

impl Play {
    fn new(filters: Vec<Arc<Cond>>) -> Play {
        let target = TableTarget {
            under: Vec::new(),
            capabilities: Capabilities::of_abstract_headers(),
            priorities: 1..=u16::MAX,
            cookie: Arc::new(|leaf| leaf.map_or(u64::MAX, |leaf| leaf.0)),
        };
        let (table, rules, answers) =
            (RuleTable::tuned(target, Tuning::for_small_tables()), BTreeMap::new(), BTreeMap::new());
        Play { filters, table, rules, answers, leaves: 0 }
    }

    /// Returns what f does: the number of the first filter that fits.
    fn f(&self, packet: &Pair) -> usize {
        self.filters.iter().position(|cond| cond.holds(packet)).unwrap_or(self.filters.len())
    }

    /// Runs f on a packet that the tree does not know. If it `waits`, its leaf gets its action later.
    fn learn(&mut self, packet: &Pair, waits: bool) {
        if self.table.tree().search(packet).is_some() {
            return;
        }
        let mut run = self.table.begin_replay();
        let fitting = self.filters.iter().position(|cond| run.fits(packet, cond));
        let answer = fitting.unwrap_or(self.filters.len());
        let run = run.finish(packet);
        let leaf = LeafId(self.leaves);
        self.leaves += 1;
        let now = if waits { LeafAction::Controller } else { action(answer) };
        assert_eq!(self.table.insert_replayed(run, leaf, now, packet), Augmented::Added);
        self.answers.insert(leaf, answer);
        if waits {
            self.check();
            self.table.set_action(leaf, action(answer));
        }
        assert_eq!(self.table.tree().search(packet), Some(leaf));
        let narrowing = self.table.tree().extra_reads(leaf);
        assert!(narrowing.iter().all(|read| packet.value(read.field).is_some_and(|value| read.holds(value))));
    }

    fn forget(&mut self, leaf: LeafId) {
        self.answers.remove(&leaf);
        self.table.remove(leaf);
    }

    /// Applies the changes to the switch's rules, and checks what the rules and the tree say about all packets.
    fn check(&mut self) {
        for change in self.table.take_changes() {
            let rule = change.rule();
            let entry = (rule.priority, rule.matching.constraints().copied().collect());
            match &change {
                Change::Add(rule) => assert!(self.rules.insert(entry, rule.clone()).is_none()),
                Change::Modify(rule) => assert!(self.rules.insert(entry, rule.clone()).is_some()),
                Change::Delete(_) => assert!(self.rules.remove(&entry).is_some()),
            }
        }
        let mut wanted = self.table.rules();
        wanted.sort_by_key(|rule| (rule.priority, rule.matching.constraints().copied().collect::<Vec<_>>()));
        assert_eq!(wanted, self.rules.values().cloned().collect::<Vec<_>>());
        for packet in world() {
            let answer = self.f(&packet);
            let known = self.table.tree().search(&packet);
            if let Some(leaf) = known {
                assert_eq!(self.answers[&leaf], answer, "{packet:?}");
            }
            let takes = |constraint: &Constraint| packet.value(constraint.field).is_some_and(|v| constraint.holds(v));
            let hit = self.rules.iter().rev().find(|((_, all), _)| all.iter().all(takes)).map(|(_, rule)| rule);
            if let Some(rule) = hit.filter(|rule| *rule.instructions != *to_controller()) {
                let LeafAction::Apply(does) = action(answer) else { unreachable!() };
                assert_eq!(*rule.instructions, *does, "{packet:?}");
            }
        }
    }

    /// Returns the number of leaves that are narrower than their traces.
    fn narrowed(&self) -> usize {
        self.answers.keys().filter(|leaf| !self.table.tree().extra_reads(**leaf).is_empty()).count()
    }
}

fn to_controller() -> Arc<[Instruction]> {
    Arc::new([Instruction::ApplyActions(vec![Action::to_controller()])])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn packets_get_what_f_says_or_the_controller_however_leaves_are_narrowed(
        filters in filters(),
        steps in vec((0..8u128, 0..8u128, 0..6u8, any::<u16>()), 1..40),
    ) {
        let mut play = Play::new(filters);
        for (a, b, what, which) in steps {
            let there: Vec<LeafId> = play.answers.keys().copied().collect();
            match what {
                0 if !there.is_empty() => play.forget(there[usize::from(which) % there.len()]),
                what => play.learn(&Pair([a, b]), what == 1),
            }
            play.check();
        }
    }
}

/// Plays this many filters on source and port, then one on the port alone, with packets that come one after the other.
fn wide_behind(specialise: u128, packets: &[[u128; 2]], waits: bool) -> Play {
    let specialise = (1..=specialise).map(|source| filter([source, 2], [BITS, BITS]));
    let mut play = Play::new(specialise.chain([filter([0, 2], [0, BITS])]).collect());
    // From here on, the value index lists leaves by their sources.
    assert!(play.table.tree().leaves_fitting(&source(0)).is_empty());
    for packet in packets {
        play.learn(&Pair(*packet), waits);
        play.check();
    }
    play
}

fn source(source: u128) -> Constraint {
    Constraint::exact(Field::Ipv4Src, source << (32 - BITS))
}

#[test]
fn a_wide_answer_behind_many_tests_keeps_only_packets_that_few_of_them_share() {
    for waits in [false, true] {
        let mut play = wide_behind(6, &[[0, 5], [0, 6], [0, 2]], waits);
        assert_eq!(play.narrowed(), 1, "{:?}", play.table.tree());
        let barriers = play.rules.values().filter(|rule| *rule.instructions == *to_controller()).count();
        assert!(barriers < 3, "{barriers} barriers");
        play.forget(LeafId(play.leaves - 1));
        play.check();
        play.learn(&Pair([0, 2]), waits);
        assert_eq!(play.narrowed(), 1);
    }
}

#[test]
fn packets_that_a_leaf_gave_up_get_leaves_of_their_own() {
    let play = wide_behind(4, &[[0, 5], [0, 6], [0, 2], [7, 2], [6, 2]], false);
    let tree = play.table.tree();
    let [first, second] = [[0, 2], [7, 2]].map(|packet| tree.search(&Pair(packet)).expect("it was learned"));
    assert_ne!(first, second, "{tree:?}");
    assert!(tree.leaves_fitting(&source(0)).contains(&first) && !tree.leaves_fitting(&source(0)).contains(&second));
    assert!(tree.leaves_fitting(&source(7)).contains(&second) && !tree.leaves_fitting(&source(7)).contains(&first));
}
