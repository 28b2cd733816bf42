//! A table with several sources of rules: the labels and the engine's own rules, and on a switch with one table also
//! the ingress tree.
//!
//! # What
//!
//! A source reports what changed in its rules ([`SharedTable::take`]). If several sources want the same entry (priority
//! and match), one rule wins: the first that forwards or drops, or else one that sends to the controller. Whenever the
//! winner of an entry may have changed, it is written into [`PendingRules`]. So an update costs what changed, not the
//! size of the table.
//!
//! # OpenFlow 1.0
//!
//! A rule without wildcards has the highest priority there, whatever priority was asked for (1.0 §3.4), and switches
//! store it so. So it gets that priority here from the start. Such a rule matches one kind of packet only. Therefore it
//! is enough that, among the rules for this entry, the one with the highest requested priority wins.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use maple_wire::{Constraint, Field, Match, Version};

use crate::forwarding::is_to_controller;
use crate::rule::Rule;
use crate::update::{Change, EntryKey, InstalledRules, key_of};

/// The sources of rules. For equal ranks, the first one wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::engine) enum RuleSource {
    Labels,
    Ingress,
    Own,
}

/// The rules that a table is to have at entries where it may differ: a rule, or none.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingRules(BTreeMap<EntryKey, Option<Rule>>);

/// The rules of a table, by entry and rank.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedTable {
    entries: BTreeMap<EntryKey, BTreeMap<RuleRank, Rule>>,
}

/// The rank of a rule among those of an entry; the lowest wins. The highest requested priority comes first, then rules
/// that do not send to the controller, then the order of sources.
type RuleRank = (Reverse<u16>, bool, RuleSource);

impl PendingRules {
    /// Reports whether no entry may differ.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Records changes of a source that has the table, or these entries, for itself.
    pub fn take(&mut self, changes: impl IntoIterator<Item = Change>) {
        for change in changes {
            let key = key_of(change.rule());
            self.0.insert(key, if let Change::Add(rule) | Change::Modify(rule) = change { Some(rule) } else { None });
        }
    }

    /// Reports whether a switch with these rules is to have other ones.
    pub fn differs(&self, installed: &InstalledRules) -> bool {
        self.0.iter().any(|(key, wanted)| match (installed.get(key), wanted) {
            (Some(installed_rule), Some(rule)) => installed_rule.differs(rule),
            (installed_rule, wanted) => installed_rule.is_some() != wanted.is_some(),
        })
    }

    /// Returns the entries that may differ, each with the rule that is wanted there.
    pub fn entries(&self) -> impl Iterator<Item = (&EntryKey, Option<&Rule>)> {
        self.0.iter().map(|(key, wanted)| (key, wanted.as_ref()))
    }

    /// Returns the number of rules to be added.
    pub fn additions(&self, installed: Option<&InstalledRules>) -> usize {
        let is_new = |key: &EntryKey| installed.is_none_or(|installed| installed.get(key).is_none());
        self.0.iter().filter(|(key, wanted)| wanted.is_some() && is_new(key)).count()
    }

    /// Creates the pending entries of a table that is to have exactly the `wanted` rules.
    pub fn all(wanted: impl IntoIterator<Item = Rule>, installed: &InstalledRules) -> PendingRules {
        let mut all: BTreeMap<EntryKey, Option<Rule>> = installed.keys().map(|key| (key.clone(), None)).collect();
        all.extend(wanted.into_iter().map(|rule| (key_of(&rule), Some(rule))));
        PendingRules(all)
    }

    /// Returns the cookies of rules that are right but for them, each with the cookie that is wanted.
    pub fn cookies_to_rename(&self, installed: &InstalledRules) -> Vec<(u64, u64)> {
        let cookies = |(key, wanted): (&EntryKey, &Option<Rule>)| {
            let (installed_rule, wanted) = (installed.get(key)?, wanted.as_ref()?);
            (installed_rule.has_instructions(&wanted.instructions) && installed_rule.cookie != wanted.cookie)
                .then_some((installed_rule.cookie, wanted.cookie))
        };
        self.0.iter().filter_map(cookies).collect()
    }

    /// Returns the changes from the installed rules to the wanted ones, in an order in which every prefix is safe
    /// (`update.rs`).
    pub fn changes(&self, installed: &InstalledRules) -> Vec<Change> {
        let (mut changes, mut modifications, mut deletes) = (Vec::new(), Vec::new(), Vec::new());
        for (key, wanted) in &self.0 {
            match (installed.get(key), wanted) {
                (None, Some(rule)) => changes.push(Change::Add(rule.clone())),
                (Some(installed_rule), Some(rule)) if installed_rule.differs(rule) => {
                    modifications.push(Change::Modify(rule.clone()))
                }
                (Some(installed_rule), None) => deletes.push(Change::Delete(installed_rule.at(key))),
                _ => {}
            }
        }
        // The order of keys begins with the highest priority.
        changes.extend(modifications);
        changes.extend(deletes.into_iter().rev());
        changes
    }
}

impl SharedTable {
    /// Takes the changes of a source, and records the new winners in `pending`.
    pub fn take(&mut self, version: Version, source: RuleSource, changes: Vec<Change>, pending: &mut PendingRules) {
        for change in changes {
            let asked = change.rule().priority;
            let raised = raise_exact(version, change.rule().clone());
            let key = key_of(&raised);
            let candidates = self.entries.entry(key.clone()).or_default();
            for asks in [false, true] {
                candidates.remove(&(Reverse(asked), asks, source));
            }
            if !matches!(change, Change::Delete(_)) {
                let asks = is_to_controller(&raised.instructions);
                candidates.insert((Reverse(asked), asks, source), raised);
            }
            let winner = candidates.first_key_value().map(|(_, rule)| rule.clone());
            if winner.is_none() {
                self.entries.remove(&key);
            }
            pending.0.insert(key, winner);
        }
    }

    /// Returns the winning rules, by descending priority.
    pub fn rules(&self) -> impl Iterator<Item = Rule> {
        self.entries.values().filter_map(|candidates| candidates.first_key_value()).map(|(_, rule)| rule.clone())
    }
}

fn raise_exact(version: Version, rule: Rule) -> Rule {
    if version == Version::Of10 && is_exact(&rule.matching) { Rule { priority: u16::MAX, ..rule } } else { rule }
}

/// Reports whether a match of OpenFlow 1.0 has all twelve fields without wildcards: those of Ethernet, IPv4 and its
/// transport. Without a VLAN tag there is no VLAN priority to match.
fn is_exact(matching: &Match) -> bool {
    let is_tagged = matching.get(Field::VlanVid).is_some_and(|vid| vid.value != 0);
    let all = if is_tagged { 12 } else { 11 };
    matching.fields.len() == all && matching.constraints().filter(|c: &&Constraint| c.is_exact()).count() == all
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use maple_wire::{Action, Instruction, PortNo};

    use super::*;
    use crate::forwarding::to_controller;
    use crate::update::changes;

    /// Returns a rule out of few priorities and matches, so that sources often want the same entry.
    fn rule(random: &mut Rng) -> Rule {
        let instructions = match random.usize(..3) {
            0 => to_controller(),
            port => vec![Instruction::ApplyActions(vec![Action::output(PortNo(port as u32))])],
        };
        let matching = Match::any().exact(Field::EthDst, random.usize(..4) as u128);
        Rule {
            priority: random.usize(..3) as u16,
            matching,
            instructions: instructions.into(),
            cookie: random.usize(..5) as u64,
        }
    }

    /// Returns the specification: by priority and match, the first rule that does not send to the controller, or else
    /// the first one.
    fn naive(sources: &BTreeMap<RuleSource, Vec<Rule>>) -> Vec<Rule> {
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
    fn a_shared_table_equals_one_computed_from_all_its_sources() {
        let mut random = Rng::with_seed(1);
        for _ in 0..300 {
            let (mut shared, mut pending, mut installed) =
                (SharedTable::default(), PendingRules::default(), InstalledRules::default());
            let mut sources: BTreeMap<RuleSource, Vec<Rule>> = BTreeMap::new();
            for _ in 0..20 {
                let source =
                    random.choice([RuleSource::Own, RuleSource::Ingress, RuleSource::Labels]).expect("there are some");
                let count = random.usize(..6);
                let new = distinct((0..count).map(|_| rule(&mut random)).collect());
                let old = sources.insert(source, new.clone()).unwrap_or_default();
                shared.take(Version::Of13, source, changes(&old, &new), &mut pending);
                let want = naive(&sources);
                assert_eq!(shared.rules().collect::<Vec<_>>(), want);
                if random.bool() {
                    let steps = std::mem::take(&mut pending).changes(&installed);
                    steps.iter().for_each(|change| installed.apply(change));
                    assert_eq!(installed.rules(), want);
                    let all = PendingRules::all(want, &installed);
                    assert_eq!(all.changes(&installed), []);
                }
            }
        }
    }
}
