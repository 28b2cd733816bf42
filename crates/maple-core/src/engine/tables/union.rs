//! One table of rules from several sources: the labels and the engine's own rules; where a switch has one table, the
//! ingress tree as well.
//!
//! # What
//!
//! A source says what changed in its rules ([`Union::take`]). Where sources want the same entry (priority and match), one
//! stands for all: the first that says something, else one that asks the controller. What the switch shall have at an
//! entry is written into [`Pending`] whenever that may have changed, so that an update costs what changes and not what is
//! there.
//!
//! # OpenFlow 1.0
//!
//! Rules without any wildcard have the highest priority there, whatever was asked for (1.0 §3.4), and switches keep them
//! so. They are entries of that priority from the start. Such a rule takes one kind of packet only, so the one that would
//! have been above the others decides about it, and no other rule above it took its packets from it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use maple_wire::{Constraint, Field, Match, Version};

use crate::forwarding::is_to_controller;
use crate::rule::Rule;
use crate::update::{Change, EntryKey, Installed, key_of};

/// Who wants a rule, in the order in which they are heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::engine) enum Source {
    Labels,
    Ingress,
    Own,
}

/// What a table shall have where it may have something else: the rule, or none.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending(BTreeMap<EntryKey, Option<Rule>>);

/// The rules of a table by entry, and who wants them.
#[derive(Debug, Default)]
pub(super) struct SharedTable {
    entries: BTreeMap<EntryKey, BTreeMap<Rank, Rule>>,
}

/// Of several rules of an entry the first counts: by the priority that was asked for, then those that say something,
/// then by source.
type Rank = (Reverse<u16>, bool, Source);

impl Pending {
    /// Takes over what a source says that has the table for itself, or entries that no other source has.
    pub fn take(&mut self, changes: impl IntoIterator<Item = Change>) {
        for change in changes {
            let key = key_of(change.rule());
            self.0.insert(key, if let Change::Add(rule) | Change::Modify(rule) = change { Some(rule) } else { None });
        }
    }

    /// How many rules come in.
    pub fn additions(&self, installed: Option<&Installed>) -> usize {
        let is_new = |key: &EntryKey| installed.is_none_or(|installed| installed.get(key).is_none());
        self.0.iter().filter(|(key, wanted)| wanted.is_some() && is_new(key)).count()
    }

    /// Everything is to be as `wanted`, and nothing else is to be there.
    pub fn all(wanted: impl IntoIterator<Item = Rule>, installed: &Installed) -> Pending {
        let mut all: BTreeMap<EntryKey, Option<Rule>> = installed.keys().map(|key| (key.clone(), None)).collect();
        all.extend(wanted.into_iter().map(|rule| (key_of(&rule), Some(rule))));
        Pending(all)
    }

    /// The changes that bring the table there, in an order whose every prefix is safe (`update.rs`).
    pub fn changes(&self, installed: &Installed) -> Vec<Change> {
        let (mut changes, mut modifications, mut deletes) = (Vec::new(), Vec::new(), Vec::new());
        for (key, wanted) in &self.0 {
            match (installed.get(key), wanted) {
                (None, Some(rule)) => changes.push(Change::Add(rule.clone())),
                (Some(there), Some(rule)) if there.differs(rule) => modifications.push(Change::Modify(rule.clone())),
                (Some(there), None) => deletes.push(Change::Delete(there.at(key))),
                _ => {}
            }
        }
        // Keys begin with the highest priority.
        changes.extend(modifications);
        changes.extend(deletes.into_iter().rev());
        changes
    }
}

impl SharedTable {
    /// Takes over what a source says; what follows for the table goes into `pending`.
    pub fn take(&mut self, version: Version, source: Source, changes: Vec<Change>, pending: &mut Pending) {
        for change in changes {
            let asked = change.rule().priority;
            let raised = raise_exact(version, change.rule().clone());
            let key = key_of(&raised);
            let at = self.entries.entry(key.clone()).or_default();
            for asks in [false, true] {
                at.remove(&(Reverse(asked), asks, source));
            }
            if !matches!(change, Change::Delete(_)) {
                let asks = is_to_controller(&raised.instructions);
                at.insert((Reverse(asked), asks, source), raised);
            }
            let winner = at.first_key_value().map(|(_, rule)| rule.clone());
            if winner.is_none() {
                self.entries.remove(&key);
            }
            pending.0.insert(key, winner);
        }
    }

    /// All rules, by falling priority.
    pub fn rules(&self) -> impl Iterator<Item = Rule> {
        self.entries.values().filter_map(|at| at.first_key_value()).map(|(_, rule)| rule.clone())
    }
}

fn raise_exact(version: Version, rule: Rule) -> Rule {
    if version == Version::Of10 && is_exact(&rule.matching) { Rule { priority: u16::MAX, ..rule } } else { rule }
}

/// Whether a match of OpenFlow 1.0 looks at all twelve fields; those are Ethernet's, IPv4's and its transport's. Without
/// a VLAN tag there is no VLAN priority to look at.
fn is_exact(matching: &Match) -> bool {
    let is_tagged = matching.get(Field::VlanVid).is_some_and(|vid| vid.value != 0);
    let all = if is_tagged { 12 } else { 11 };
    matching.fields.len() == all && matching.constraints().filter(|c: &&Constraint| c.is_exact()).count() == all
}

#[cfg(test)]
mod tests {
    use maple_wire::{Action, Instruction, PortNo};

    use super::*;
    use crate::forwarding::to_controller;
    use crate::sim::Random;
    use crate::update::changes;

    /// A rule of few priorities and matches, so that sources often want the same entry.
    fn rule(random: &mut Random) -> Rule {
        let instructions = match random.below(3) {
            0 => to_controller(),
            port => vec![Instruction::ApplyActions(vec![Action::output(PortNo(port as u32))])],
        };
        let matching = Match::any().exact(Field::EthDst, random.below(4) as u128);
        Rule {
            priority: random.below(3) as u16,
            matching,
            instructions: instructions.into(),
            cookie: random.below(5) as u64,
        }
    }

    /// What the naive way makes of all sources' rules: by priority and match, the first that says something, else the first.
    fn naive(sources: &BTreeMap<Source, Vec<Rule>>) -> Vec<Rule> {
        let all = || sources.values().flatten().cloned();
        let asks = |rule: &Rule| is_to_controller(&rule.instructions);
        let mut entries = BTreeMap::new();
        for rule in all().filter(|rule| !asks(rule)).chain(all().filter(asks)) {
            entries.entry(key_of(&rule)).or_insert(rule);
        }
        entries.into_values().collect()
    }

    fn distinct(rules: Vec<Rule>) -> Vec<Rule> {
        let by_key: BTreeMap<EntryKey, Rule> = rules.into_iter().map(|rule| (key_of(&rule), rule)).collect();
        by_key.into_values().collect()
    }

    #[test]
    fn a_union_that_follows_its_sources_is_what_all_their_rules_make() {
        let mut random = Random(1);
        for _ in 0..300 {
            let (mut union, mut pending, mut installed) =
                (SharedTable::default(), Pending::default(), Installed::default());
            let mut sources: BTreeMap<Source, Vec<Rule>> = BTreeMap::new();
            for _ in 0..20 {
                let source = *random.pick(&[Source::Own, Source::Ingress, Source::Labels]);
                let count = random.below(6);
                let new = distinct((0..count).map(|_| rule(&mut random)).collect());
                let old = sources.insert(source, new.clone()).unwrap_or_default();
                union.take(Version::Of13, source, changes(&old, &new), &mut pending);
                let want = naive(&sources);
                assert_eq!(union.rules().collect::<Vec<_>>(), want);
                if random.chance(50) {
                    let steps = std::mem::take(&mut pending).changes(&installed);
                    steps.iter().for_each(|change| installed.apply(change));
                    assert_eq!(installed.rules(), want);
                    let all = Pending::all(want, &installed);
                    assert_eq!(all.changes(&installed), []);
                }
            }
        }
    }
}
