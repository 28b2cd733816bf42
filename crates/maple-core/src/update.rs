//! The steps from one rule set to another, in an order in which no packet is handled wrongly at any moment (invariant 3
//! of ARCHITECTURE.md).
//!
//! # What
//!
//! [`changes`] compares what is installed with what is wanted. Two rules are the *same entry* if priority and match
//! are equal: that is the identity a switch gives them. Entries that are only wanted are added, from high to low
//! priority; entries in both whose instructions or cookie differ are modified; entries that are only installed are
//! deleted, from low to high priority.
//!
//! # Why every prefix is safe
//!
//! Let the installed rules give each packet the old answer or the controller, and the wanted ones the new answer or the
//! controller. Take a packet `p`. Let `o` be the first (highest) installed rule that it matches, and `n` the first
//! wanted one. Each may be the table-miss rule. After any prefix of the changes, `p`'s first match is `o` or `n`:
//!
//! * *During the adds* the table is all installed rules and the wanted-only ones down to some priority. If `n` is
//!   wanted-only, it is the first added of the wanted-only rules that `p` matches, since none is higher: before it `p`
//!   takes `o`, after it the higher of `o` and `n`. If `n` is in both sets, then `o` is as high as `n` or higher, as
//!   `n` is installed; added rules that `p` matches are no higher than `n`, so `p` takes `o`.
//! * *During the modifications* all of both sets is there. `p` takes the higher of `o` and `n`. If they are one entry,
//!   `p` gets its old or its new instructions.
//! * *During the deletes* the table is the wanted rules and the installed-only ones from some priority up. If `o` is
//!   installed-only, it goes last of all installed-only rules that `p` matches: before that `p` takes the higher of `o`
//!   and `n`, afterwards `n`. If `o` is in both sets, `n` is as high or higher, and `p` takes `n`.
//!
//! Rules of one set that overlap at equal priority must agree in what they do. If `o` and `n` have equal priority,
//! either answer is right.
//!
//! # Cost
//!
//! Sorting: `n log n` comparisons.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use maple_wire::msg::{FlowMod, FlowModCommand};
use maple_wire::{Constraint, Field, Instruction, Match, MatchField};
use rustc_hash::FxHashMap;

use crate::rule::{COMPILED, Rule, is_to_controller_only};

/// The bit of a field's byte that is set if a mask follows the value. Fields have numbers below it.
const MASKED: u8 = 0x80;
/// The byte that begins an unknown field. No field has this number, with [`MASKED`] or without.
const UNKNOWN: u8 = 0xff;

/// One step of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Adds a new entry.
    Add(Rule),
    /// Gives the entry with this priority and match these instructions and this cookie.
    Modify(Rule),
    /// Deletes the entry with this priority and match.
    Delete(Rule),
}

impl Change {
    /// Returns the rule that is added, modified or deleted.
    pub fn rule(&self) -> &Rule {
        match self {
            Change::Add(rule) | Change::Modify(rule) | Change::Delete(rule) => rule,
        }
    }

    /// Takes the rule out of the change.
    pub(crate) fn into_rule(self) -> Rule {
        let (Change::Add(rule) | Change::Modify(rule) | Change::Delete(rule)) = self;
        rule
    }

    /// Returns the message that makes the change in `table`.
    ///
    /// A modification is sent as an add, which replaces the entry in one step: `OFPFC_MODIFY` would leave the cookie
    /// as it was (1.3 §6.4).
    pub fn flow_mod(&self, table: u8) -> FlowMod {
        let (command, rule) = match self {
            Change::Add(rule) | Change::Modify(rule) => (FlowModCommand::Add, rule),
            Change::Delete(rule) => (FlowModCommand::DeleteStrict, rule),
        };
        let instructions = match self {
            Change::Delete(_) => Vec::new(),
            Change::Add(_) | Change::Modify(_) => rule.instructions.to_vec(),
        };
        let flow_mod = FlowMod::new(command, rule.priority, rule.matching.clone(), instructions);
        FlowMod { cookie: rule.cookie, table_id: table, ..flow_mod }
    }
}

/// Returns the changes that lead from `installed` to `wanted`, in an order whose every prefix is safe.
///
/// If a list has an entry twice, the later one counts, as on a switch. The order of the changes depends only on the two
/// sets, not on the order of the lists.
pub fn changes(installed: &[Rule], wanted: &[Rule]) -> Vec<Change> {
    let (old, new) = (by_entry(installed), by_entry(wanted));
    let added = new.iter().filter(|(entry, _)| !old.contains_key(entry));
    let modified = new.iter().filter(|(entry, rule)| old.get(entry).is_some_and(|before| differs(before, rule)));
    let deleted = old.iter().filter(|(entry, _)| !new.contains_key(entry));
    let adds = added.map(|(_, rule)| Change::Add((*rule).clone()));
    let modifications = modified.map(|(_, rule)| Change::Modify((*rule).clone()));
    let deletes = deleted.rev().map(|(_, rule)| Change::Delete((*rule).clone()));
    adds.chain(modifications).chain(deletes).collect()
}

/// The rules that a table of a switch has. A value holds only what its key does not state, because a table may have a
/// hundred thousand entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct InstalledRules {
    entries: FxHashMap<EntryKey, HeldRule>,
    /// The number of barrier rules among the entries.
    barrier_rules: usize,
}

/// The instructions and cookies of an installed rule. Its key states the rest.
#[derive(Clone, Debug)]
pub(crate) struct HeldRule {
    instructions: Arc<[Instruction]>,
    /// The rule's cookie.
    pub cookie: u64,
    /// The cookie that the switch reports: `cookie`, or one that an earlier run gave the rule.
    pub reported: u64,
}

/// The identity of an entry on a switch: priority and match. It takes few bytes, because a table may have a hundred
/// thousand entries. Keys are ordered by falling priority.
///
/// The first two bytes are the priority, inverted. Then come the constraints in order. Each begins with a byte for the
/// field, whose upper bit is set if a mask follows the value. Value and mask take as many bytes as the field has.
/// Unknown fields come last: a byte of ones, the header, the length, the body.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EntryKey(Box<[u8]>);

impl EntryKey {
    fn priority(&self) -> u16 {
        !u16::from_be_bytes([self.0[0], self.0[1]])
    }

    /// Returns the match, with its fields in order.
    pub(crate) fn matching(&self) -> Match {
        Match { fields: self.fields().collect() }
    }

    /// Reports whether a packet with these field values matches. A key with an unknown field matches none.
    fn fits(&self, value: &dyn Fn(Field) -> Option<u128>) -> bool {
        self.fields().all(|field| match field {
            MatchField::Known(c) => value(c.field).is_some_and(|value| c.holds(value)),
            MatchField::Unknown { .. } => false,
        })
    }

    fn fields(&self) -> impl Iterator<Item = MatchField> {
        let mut rest = &self.0[2..];
        std::iter::from_fn(move || {
            let (tag, behind) = rest.split_first()?;
            rest = behind;
            if *tag == UNKNOWN {
                let (header, length) = (number(&mut rest, 4) as u32, number(&mut rest, 2) as usize);
                let (body, behind) = rest.split_at(length);
                rest = behind;
                return Some(MatchField::Unknown { header, body: body.to_vec() });
            }
            let field = Field::from_oxm(tag & !MASKED)?;
            let value = number(&mut rest, field.bytes());
            let mask = if tag & MASKED == 0 { field.full_mask() } else { number(&mut rest, field.bytes()) };
            Some(MatchField::Known(Constraint { field, value, mask }))
        })
    }
}

impl fmt::Debug for EntryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.priority(), self.matching().fields)
    }
}

/// Removes this many bytes from the front, and returns them as one number.
fn number(bytes: &mut &[u8], count: usize) -> u128 {
    let (front, rest) = bytes.split_at(count);
    *bytes = rest;
    front.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

impl HeldRule {
    /// Reports whether the rule has exactly these instructions.
    pub(crate) fn has_instructions(&self, instructions: &[Instruction]) -> bool {
        self.instructions[..] == *instructions
    }

    /// Reports whether this is a barrier rule, if it stands at this priority.
    fn is_barrier_rule(&self, priority: u16) -> bool {
        COMPILED.contains(&priority) && is_to_controller_only(&self.instructions)
    }

    /// Reports whether `rule`, of the same entry, has another cookie or other instructions.
    pub(crate) fn differs(&self, rule: &Rule) -> bool {
        self.cookie != rule.cookie || self.instructions != rule.instructions
    }

    /// Returns the rule with this key.
    pub(crate) fn at(&self, key: &EntryKey) -> Rule {
        let (priority, matching) = (key.priority(), key.matching());
        Rule { priority, matching, instructions: self.instructions.clone(), cookie: self.cookie }
    }
}

impl InstalledRules {
    /// Returns all rules, by falling priority.
    pub(crate) fn rules(&self) -> Vec<Rule> {
        let mut all: Vec<(&EntryKey, &HeldRule)> = self.entries.iter().collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        all.into_iter().map(|(key, held)| held.at(key)).collect()
    }

    /// Finds the rule that takes a packet with these fields. Goes through all entries, and matches those that are
    /// higher than the best so far.
    pub(crate) fn find(&self, value: &dyn Fn(Field) -> Option<u128>) -> Option<Rule> {
        let mut best: Option<(&EntryKey, &HeldRule)> = None;
        for (key, held) in &self.entries {
            if best.is_none_or(|(best, _)| key < best) && key.fits(value) {
                best = Some((key, held));
            }
        }
        best.map(|(key, held)| held.at(key))
    }

    /// Notes that the switch has a rule, in place of one with the same priority and match.
    pub(crate) fn insert(&mut self, rule: Rule) {
        let (key, cookie) = (key_of(&rule), rule.cookie);
        let new = HeldRule { instructions: rule.instructions, cookie, reported: cookie };
        let is_barrier = new.is_barrier_rule(rule.priority);
        let was_barrier = self.entries.insert(key, new).is_some_and(|old| old.is_barrier_rule(rule.priority));
        self.barrier_rules = self.barrier_rules + usize::from(is_barrier) - usize::from(was_barrier);
    }

    /// Notes that the switch makes a change.
    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::Add(rule) | Change::Modify(rule) => self.insert(rule.clone()),
            Change::Delete(rule) => self.remove(&key_of(rule)),
        }
    }

    /// Replaces all cookies, but not what the switch reports.
    pub(crate) fn translate_cookies(&mut self, translate: impl Fn(u64) -> u64) {
        self.entries.values_mut().for_each(|rule| rule.cookie = translate(rule.cookie));
    }

    /// Notes that the switch has lost an entry.
    pub(crate) fn remove(&mut self, key: &EntryKey) {
        let old = self.entries.remove(key);
        self.barrier_rules -= usize::from(old.is_some_and(|old| old.is_barrier_rule(key.priority())));
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of barrier rules among them.
    pub(crate) fn barrier_rules(&self) -> usize {
        self.barrier_rules
    }

    /// Returns the keys of all entries, in no particular order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &EntryKey> {
        self.entries.keys()
    }

    /// Returns the rule that the switch has at an entry.
    pub(crate) fn get(&self, key: &EntryKey) -> Option<&HeldRule> {
        self.entries.get(key)
    }
}

/// Returns the entry that a rule has on a switch.
pub(crate) fn key_of(rule: &Rule) -> EntryKey {
    entry_key(rule.priority, &rule.matching)
}

/// Returns the entry of a rule with this priority and match. The key states the fields in a fixed order, because
/// switches give them in any order.
pub(crate) fn entry_key(priority: u16, matching: &Match) -> EntryKey {
    let (known, unknown) = match_key(matching);
    let mut bytes = (!priority).to_be_bytes().to_vec();
    for Constraint { field, value, mask } in known {
        let is_whole = mask == field.full_mask();
        bytes.push(field as u8 | if is_whole { 0 } else { MASKED });
        for number in [Some(value), Some(mask).filter(|_| !is_whole)].into_iter().flatten() {
            bytes.extend_from_slice(&number.to_be_bytes()[16 - field.bytes()..]);
        }
    }
    for (header, body) in unknown {
        bytes.push(UNKNOWN);
        bytes.extend_from_slice(&header.to_be_bytes());
        bytes.extend_from_slice(&(body.len() as u16).to_be_bytes());
        bytes.extend_from_slice(body);
    }
    EntryKey(bytes.into())
}

fn by_entry(rules: &[Rule]) -> BTreeMap<EntryKey, &Rule> {
    rules.iter().map(|rule| (key_of(rule), rule)).collect()
}

/// Reports whether two rules of one entry differ in instructions or cookie.
fn differs(a: &Rule, b: &Rule) -> bool {
    a.instructions != b.instructions || a.cookie != b.cookie
}

fn match_key(matching: &Match) -> (Vec<Constraint>, Vec<(u32, &[u8])>) {
    let mut known: Vec<Constraint> = matching.constraints().copied().collect();
    let mut unknown: Vec<(u32, &[u8])> = Vec::new();
    for field in &matching.fields {
        if let MatchField::Unknown { header, body } = field {
            unknown.push((*header, body));
        }
    }
    known.sort_unstable();
    unknown.sort_unstable();
    (known, unknown)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rule::to_controller;

    /// Generates a match with fields in any order, whole, masked or unknown.
    fn matching() -> impl Strategy<Value = Match> {
        let known = (prop::sample::select(Field::ALL.to_vec()), any::<u128>(), any::<u128>(), any::<bool>());
        let known = known.prop_map(|(field, value, mask, is_whole)| {
            let mask = if is_whole { field.full_mask() } else { mask & field.full_mask() };
            MatchField::Known(Constraint { field, value: value & mask, mask })
        });
        let unknown = (any::<u32>(), prop::collection::vec(any::<u8>(), 0..4));
        let unknown = unknown.prop_map(|(header, body)| MatchField::Unknown { header, body });
        let field = prop_oneof![4 => known, 1 => unknown];
        prop::collection::vec(field, 0..5).prop_map(|fields| Match { fields })
    }

    /// Generates a change of one of few rules.
    fn change() -> impl Strategy<Value = Change> {
        let priority = prop::sample::select(vec![0, 1, 3, 65000, 65535]);
        let action = prop::sample::select(vec![to_controller().to_vec(), Vec::new(), vec![Instruction::GotoTable(1)]]);
        (priority, action, 0..3u8, 0..3).prop_map(|(priority, instructions, port, kind)| {
            let matching = Match::any().exact(Field::InPort, port.into());
            let rule = Rule { priority, matching, instructions: instructions.into(), cookie: 0 };
            match kind {
                0 => Change::Delete(rule),
                1 => Change::Modify(rule),
                _ => Change::Add(rule),
            }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn barrier_rules_are_counted_as_rules_come_and_go(all in prop::collection::vec(change(), 0..60)) {
            let mut installed = InstalledRules::default();
            for change in all {
                installed.apply(&change);
                let is_barrier = |rule: &&Rule| (3..=65000).contains(&rule.priority) && rule.instructions == to_controller();
                prop_assert_eq!(installed.barrier_rules(), installed.rules().iter().filter(is_barrier).count());
            }
        }

        #[test]
        fn a_key_says_all_of_an_entry_and_the_highest_priority_comes_first(
            (one, other) in (matching(), matching()),
            (high, low) in (any::<u16>(), any::<u16>()),
        ) {
            let key = entry_key(high, &one);
            let (known, unknown) = match_key(&one);
            let known = known.into_iter().map(MatchField::Known);
            let unknown = unknown.into_iter().map(|(header, body)| MatchField::Unknown { header, body: body.to_vec() });
            let sorted = Match { fields: known.chain(unknown).collect() };
            prop_assert_eq!((key.priority(), key.matching()), (high, sorted));
            let is_same = match_key(&one) == match_key(&other);
            prop_assert_eq!(entry_key(low, &one) == entry_key(low, &other), is_same);
            if high != low {
                prop_assert_eq!(entry_key(high, &one) < entry_key(low, &other), high > low);
            }
        }
    }
}
