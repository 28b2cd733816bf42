//! The changes of rules since changes were last taken.
//!
//! The log knows for each entry which of its rules was sent last. Entries whose rules may have changed are marked. When
//! changes are taken, the rules that marked entries should have now are compared with the rules that were sent.

use std::cmp::Ordering;

use maple_wire::{Match, MatchField};

use super::actions::{ActionId, Actions};
use super::entry_store::{EntryId, EntryStore, EntryVerdict};
use super::levels::Levels;
use super::packed::PackedRow;
use super::redundancy::Necessities;
use crate::rule::Rule;
use crate::tree::LeafId;
use crate::update::Change;

/// An odd number with bits in all places, from the golden ratio (2^64 / φ), which spreads what is multiplied by it.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// A rule without its match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InstalledRule {
    priority: u16,
    /// `None` sends to the controller.
    action: Option<ActionId>,
    leaf: Option<LeafId>,
}

/// The rules that were sent, and the entries whose rules may have changed.
#[derive(Clone, Debug, Default)]
pub(super) struct ChangeLog {
    /// The rule that was sent last for each entry, if any. Its instructions are held.
    installed: Vec<Option<InstalledRule>>,
    /// Whether the switch has the rule that an entry should have, though that was not sent for this entry.
    is_expected: Vec<bool>,
    /// Whether an entry is in `changed`.
    is_marked: Vec<bool>,
    /// Entries whose rules may have changed, and some that are gone.
    changed: Vec<EntryId>,
    /// Rules of entries that are gone.
    gone: PackedRow<InstalledRule>,
    /// Lists that are kept for their memory.
    came: PackedRow<InstalledRule>,
    modified: PackedRow<InstalledRule>,
    keys: (Vec<RuleKey>, Vec<RuleKey>),
}

/// A function that gives the cookie of a leaf's rule, or (for `None`) of a barrier rule that belongs to no leaf.
type Cookie<'a> = &'a dyn Fn(Option<LeafId>) -> u64;

impl ChangeLog {
    /// Adds a new entry, which has no rule.
    pub(super) fn add(&mut self, id: EntryId) {
        if self.installed.len() <= id as usize {
            self.installed.resize(id as usize + 1, None);
            self.is_expected.resize(id as usize + 1, false);
            self.is_marked.resize(id as usize + 1, false);
        }
    }

    /// Notes that the rule of an entry may have changed.
    pub(super) fn mark(&mut self, id: EntryId) {
        if !std::mem::replace(&mut self.is_marked[id as usize], true) {
            self.changed.push(id);
        }
    }

    /// Notes that an entry takes the place of another one with the same match: the switch has its rule there.
    pub(super) fn expect(&mut self, id: EntryId) {
        self.is_expected[id as usize] = true;
        self.mark(id);
    }

    /// Notes that an entry with this match was removed.
    pub(super) fn remove(&mut self, id: EntryId, set: &[u64]) {
        self.is_marked[id as usize] = false;
        self.is_expected[id as usize] = false;
        if let Some(installed) = self.installed[id as usize].take() {
            self.gone.push(set, installed);
        }
    }

    /// Reports whether no rule has changed since changes were last taken.
    pub(super) fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.gone.items().is_empty()
    }

    /// Reports whether the switch has a rule for an entry: one that was sent when changes were last taken, or another
    /// entry's.
    pub(super) fn is_installed(&self, id: EntryId) -> bool {
        self.installed[id as usize].is_some() || self.is_expected[id as usize]
    }

    /// Makes matches `stride` words long.
    pub(super) fn widen(&mut self, stride: usize) {
        self.gone.widen(stride);
    }
}

/// The rules that entries should have.
pub(super) struct WantedRules<'a> {
    pub(super) store: &'a EntryStore,
    pub(super) levels: &'a Levels,
    pub(super) necessities: &'a Necessities,
}

impl WantedRules<'_> {
    /// Returns the rule that an entry should have, if any.
    fn wanted_rule(&self, id: EntryId) -> Option<InstalledRule> {
        if !self.necessities.is_rule(self.store, id) {
            return None;
        }
        let action = match self.store.verdict(id) {
            EntryVerdict::Forward(action) => Some(action),
            EntryVerdict::Unexplored | EntryVerdict::PartiallyExplored => None,
        };
        Some(InstalledRule { priority: self.levels.priority(id)?, action, leaf: self.store.leaf(id) })
    }

    /// Returns all rules, by falling priority.
    pub(super) fn all(&self, actions: &Actions, cookie: Cookie) -> Vec<Rule> {
        let rule = |id| Some(self.rule(self.store.matching(id), self.wanted_rule(id)?, actions, cookie));
        let mut rules: Vec<Rule> = self.store.ids().filter_map(rule).collect();
        rules.sort_by_cached_key(|rule| {
            (std::cmp::Reverse(rule.priority), rule.matching.constraints().copied().collect::<Vec<_>>())
        });
        rules
    }

    fn rule(&self, set: &[u64], installed: InstalledRule, actions: &Actions, cookie: Cookie) -> Rule {
        let InstalledRule { priority, action, leaf } = installed;
        let mut fields = Vec::with_capacity(self.store.fields().len());
        fields.extend(self.store.unpack(set).map(MatchField::Known));
        Rule { priority, matching: Match { fields }, instructions: actions.get(action).clone(), cookie: cookie(leaf) }
    }
}

impl ChangeLog {
    /// Returns what has changed since the last call, in an order whose every prefix is safe.
    pub(super) fn take(&mut self, rules: &WantedRules, actions: &mut Actions, cookie: Cookie) -> Vec<Change> {
        if self.changed.is_empty() && self.gone.items().is_empty() {
            return Vec::new();
        }
        if let Some((id, wanted)) = self.take_only_addition(rules) {
            actions.hold(wanted.verdict());
            return vec![Change::Add(rules.rule(rules.store.matching(id), wanted, actions, cookie))];
        }
        let (mut old, mut new) = (std::mem::take(&mut self.gone), std::mem::take(&mut self.came));
        let mut modified = std::mem::take(&mut self.modified);
        let mut changed = std::mem::take(&mut self.changed);
        for id in changed.drain(..) {
            // An entry that has gone is not marked, but a new entry may have its number.
            if !std::mem::take(&mut self.is_marked[id as usize]) {
                continue;
            }
            self.is_expected[id as usize] = false;
            let wanted = rules.wanted_rule(id);
            let installed = std::mem::replace(&mut self.installed[id as usize], wanted);
            if installed == wanted {
                continue;
            }
            let set = rules.store.matching(id);
            wanted.into_iter().for_each(|wanted| actions.hold(wanted.verdict()));
            match (installed, wanted) {
                // No other entry has or had this priority and match.
                (Some(installed), Some(wanted)) if installed.priority == wanted.priority => {
                    if differs(installed, wanted, actions, cookie) {
                        modified.push(set, wanted);
                    }
                    actions.release(installed.verdict());
                }
                _ => {
                    wanted.into_iter().for_each(|wanted| new.push(set, wanted));
                    installed.into_iter().for_each(|installed| old.push(set, installed));
                }
            }
        }
        self.changed = changed;
        let mut keys = std::mem::take(&mut self.keys);
        let before = RuleList { rules: &old, keys: &mut keys.0 };
        let after = RuleList { rules: &new, keys: &mut keys.1 };
        let changes = rules.changes(before, after, &mut modified, actions, cookie);
        self.keys = keys;
        old.items().iter().for_each(|installed| actions.release(installed.verdict()));
        old.clear();
        new.clear();
        modified.clear();
        (self.gone, self.came, self.modified) = (old, new, modified);
        changes
    }

    /// Takes the only change, if that is one entry which had no rule and has one now.
    fn take_only_addition(&mut self, rules: &WantedRules) -> Option<(EntryId, InstalledRule)> {
        let [id] = self.changed[..] else { return None };
        let had_none = self.installed[id as usize].is_none();
        let is_addition = self.gone.items().is_empty() && self.is_marked[id as usize] && had_none;
        let wanted = rules.wanted_rule(id).filter(|_| is_addition)?;
        self.is_expected[id as usize] = false;
        (self.is_marked[id as usize], self.installed[id as usize]) = (false, Some(wanted));
        self.changed.clear();
        Some((id, wanted))
    }
}

/// One of two lists of rules that are compared, with memory for its keys.
struct RuleList<'a> {
    rules: &'a PackedRow<InstalledRule>,
    keys: &'a mut Vec<RuleKey>,
}

impl WantedRules<'_> {
    /// Compares two lists of rules as [`crate::update::changes`] does, but makes each [`Rule`] only once, and only if
    /// it is sent. Rules in `modified` are in neither list. Among rules of one priority, only their matches decide the
    /// order. The keys are kept for their memory.
    fn changes(
        &self,
        RuleList { rules: old, keys: old_keys }: RuleList<'_>,
        RuleList { rules: new, keys: new_keys }: RuleList<'_>,
        modified: &mut PackedRow<InstalledRule>,
        actions: &Actions,
        cookie: Cookie,
    ) -> Vec<Change> {
        let installed = |row: &PackedRow<InstalledRule>, key: RuleKey| row.items()[key.index()];
        let rule = |row: &PackedRow<InstalledRule>, key: RuleKey| {
            self.rule(row.get(key.index()), installed(row, key), actions, cookie)
        };
        sort_by_identity(old, old_keys);
        sort_by_identity(new, new_keys);
        let mut changes = Vec::with_capacity(old_keys.len() + new_keys.len() + modified.items().len());
        // From the last rules to the first. Old rules that stay are struck out.
        let (mut olds, mut news) = (old_keys.len(), new_keys.len());
        while news > 0 {
            let after = new_keys[news - 1];
            let before = olds.checked_sub(1).map(|last| old_keys[last]);
            let order = before.map_or(Ordering::Less, |before| before.identity(old).cmp(&after.identity(new)));
            if order == Ordering::Less {
                changes.push(Change::Add(rule(new, after)));
            }
            if let (Ordering::Equal, Some(before)) = (order, before) {
                old_keys[olds - 1] = RuleKey::NONE;
                if differs(installed(old, before), installed(new, after), actions, cookie) {
                    modified.push(new.get(after.index()), installed(new, after));
                }
            }
            olds -= usize::from(order != Ordering::Less);
            news -= usize::from(order != Ordering::Greater);
        }
        sort_by_identity(modified, new_keys);
        changes.extend(new_keys.iter().map(|key| Change::Modify(rule(modified, *key))));
        let gone = old_keys.iter().filter(|key| **key != RuleKey::NONE);
        changes.extend(gone.map(|key| Change::Delete(rule(old, *key))));
        changes
    }
}

/// Reports whether two rules with the same priority and match differ.
fn differs(old: InstalledRule, new: InstalledRule, actions: &Actions, cookie: Cookie) -> bool {
    let instructions = |installed: InstalledRule| actions.get(installed.action);
    old.action != new.action && instructions(old) != instructions(new) || cookie(old.leaf) != cookie(new.leaf)
}

/// The position of a rule in a list of rules, preceded by what decides the order: the priority, and a hash of the
/// match. It is one number, because numbers sort fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RuleKey(u64);

impl RuleKey {
    /// The mark in place of the key of a rule that is not deleted.
    const NONE: RuleKey = RuleKey(u64::MAX);

    fn new(index: usize, row: &PackedRow<InstalledRule>) -> RuleKey {
        let mixed = row.get(index).iter().fold(0, |mixed: u64, word| (mixed.rotate_left(5) ^ word).wrapping_mul(MIX));
        RuleKey(u64::from(row.items()[index].priority) << 48 | mixed >> 48 << 32 | index as u64)
    }

    fn index(self) -> usize {
        self.0 as u32 as usize
    }

    /// Returns the first part of the order: the priority, and the bits of the hash that the number has.
    fn begin(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns the identity of a rule in a switch, for comparisons.
    fn identity(self, row: &PackedRow<InstalledRule>) -> (u32, &[u64]) {
        (self.begin(), row.get(self.index()))
    }
}

/// Fills `keys` with the keys of the rules of a list, in ascending order of their identity.
fn sort_by_identity(row: &PackedRow<InstalledRule>, keys: &mut Vec<RuleKey>) {
    keys.clear();
    keys.extend((0..row.items().len()).map(|index| RuleKey::new(index, row)));
    keys.sort_unstable();
    for alike in keys.chunk_by_mut(|a, b| a.begin() == b.begin()).filter(|alike| alike.len() > 1) {
        alike.sort_by_key(|key| key.identity(row));
    }
}

impl InstalledRule {
    /// Returns the verdict of its entry, as far as that holds instructions.
    fn verdict(self) -> EntryVerdict {
        self.action.map_or(EntryVerdict::Unexplored, EntryVerdict::Forward)
    }
}
