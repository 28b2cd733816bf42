//! The semantic difference of two lists: packets on which they differ, and the rules that decide about these.
//!
//! If the entries that two lists share have the same order in both, a packet on which they differ lies in an entry that
//! only one of them has. So only such entries are examined, and all packets only if the defaults differ.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};

use maple_core::access::{AccessAction, ListComparison, ListDifference, WrittenList};

use crate::cube::{BUDGET, Cube};
use crate::entry::RuleRef;
use crate::index::CubeIndex;
use crate::list::{List, numbered};

/// Packets that two lists treat differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The rule of the first list that decides about them.
    pub before: RuleRef,
    /// The rule of the second list that decides about them.
    pub after: RuleRef,
    /// One of the cubes that such packets form.
    pub packets: Cube,
    /// The number of such cubes.
    pub cubes: usize,
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The differences, each pair of rules once, in the order of the first list.
    pub differences: Vec<Difference>,
    /// Whether `differences` has them all.
    pub complete: bool,
}

/// The identity of an entry: its packets and the list's action for them.
type EntryKey<'a> = (&'a Cube, AccessAction);

impl List {
    /// Compares this list with another one that would take its place.
    pub fn compare(&self, other: &List) -> Comparison {
        self.expanded().compare_expanded(&other.expanded())
    }

    /// Compares lists without groups.
    fn compare_expanded(&self, other: &List) -> Comparison {
        let (ours, theirs) = (self.keys(), other.keys());
        let shared = common(&ours, &theirs);
        let mut changed: Vec<&Cube> = Vec::new();
        let (mut in_ours, mut in_theirs) = (vec![false; ours.len()], vec![false; theirs.len()]);
        for (a, b) in shared {
            (in_ours[a], in_theirs[b]) = (true, true);
        }
        changed.extend((0..ours.len()).filter(|at| !in_ours[*at]).map(|at| ours[at].0));
        changed.extend((0..theirs.len()).filter(|at| !in_theirs[*at]).map(|at| theirs[at].0));
        let all = Cube::all();
        if self.action(RuleRef::Default) != other.action(RuleRef::Default) {
            changed.push(&all);
        }
        let (mut found, mut budget) = (BTreeMap::new(), BUDGET);
        let mut complete = true;
        let index = CubeIndex::new(&changed);
        for (at, cube) in changed.iter().enumerate() {
            if !index.contains(cube, at, |before| changed[before]) {
                complete &= self.compare_within(other, cube, &mut found, &mut budget);
            }
        }
        Comparison { differences: found.into_values().collect(), complete }
    }

    fn keys(&self) -> Vec<EntryKey<'_>> {
        (0..self.entries().len()).map(|at| (&self.entries()[at].cube, self.action(self.rule_of(at)))).collect()
    }

    /// Adds the differences within a cube. Reports whether the budget was enough.
    fn compare_within(
        &self,
        other: &List,
        cube: &Cube,
        found: &mut BTreeMap<(RuleRef, RuleRef), Difference>,
        budget: &mut usize,
    ) -> bool {
        let mut parts = Vec::new();
        let others = self.overlapping(cube, self.entries().len());
        let mut is_complete = cube.divide(numbered(&others), budget, &mut |part, entry| {
            parts.push((part, self.rule_of(entry.unwrap_or(self.entries().len()))));
            true
        });
        for (part, rule) in parts {
            let others = other.overlapping(&part, other.entries().len());
            is_complete &= part.divide(numbered(&others), budget, &mut |packets, entry| {
                let theirs = other.rule_of(entry.unwrap_or(other.entries().len()));
                if self.action(rule) != other.action(theirs) {
                    let new = || Difference { before: rule, after: theirs, packets, cubes: 0 };
                    found.entry((rule, theirs)).or_insert_with(new).cubes += 1;
                }
                true
            });
        }
        is_complete
    }
}

impl WrittenList for List {
    fn file(&self) -> &str {
        List::file(self)
    }

    fn describe(&self, rule: usize) -> String {
        List::describe(self, self.compiled_rules().nth(rule).unwrap_or(RuleRef::Default))
    }

    fn compare(&self, other: &dyn WrittenList) -> Option<ListComparison> {
        let other: &List = (other as &dyn Any).downcast_ref()?;
        let Comparison { differences, complete } = List::compare(self, other);
        let list_difference = |Difference { before, after, packets, cubes }: Difference| ListDifference {
            packets: packets.to_string(),
            sets: cubes,
            before: self.decision(before),
            after: other.decision(after),
        };
        Some(ListComparison { differences: differences.into_iter().map(list_difference).collect(), complete })
    }
}

/// Pairs equal entries, ascending in both lists: a longest such sequence among entries that occur once.
fn common(ours: &[EntryKey<'_>], theirs: &[EntryKey<'_>]) -> Vec<(usize, usize)> {
    let begin = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
    let (a, b) = (&ours[begin..], &theirs[begin..]);
    let end = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[..a.len() - end], &b[..b.len() - end]);
    let mut places: HashMap<&EntryKey<'_>, Option<usize>> = HashMap::new();
    for (at, key) in b.iter().enumerate() {
        places.entry(key).and_modify(|place| *place = None).or_insert(Some(at));
    }
    // A patience sort: the tops of the piles, and for each pair its predecessor.
    let mut tops: Vec<usize> = Vec::new();
    let mut pairs: Vec<(usize, usize, Option<usize>)> = Vec::new();
    for (at, key) in a.iter().enumerate() {
        let Some(Some(there)) = places.get(key) else { continue };
        let pile = tops.partition_point(|top| pairs[*top].1 < *there);
        pairs.push((at, *there, pile.checked_sub(1).map(|before| tops[before])));
        match tops.get_mut(pile) {
            Some(top) => *top = pairs.len() - 1,
            None => tops.push(pairs.len() - 1),
        }
    }
    let last = tops.last().copied();
    let middle = std::iter::successors(last, |at| pairs[*at].2).map(|at| (begin + pairs[at].0, begin + pairs[at].1));
    let mut middle: Vec<(usize, usize)> = middle.collect();
    middle.reverse();
    let head = (0..begin).map(|at| (at, at));
    let tail = (0..end).rev().map(|back| (ours.len() - 1 - back, theirs.len() - 1 - back));
    head.chain(middle).chain(tail).collect()
}
