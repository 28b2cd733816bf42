//! The rules in the table of one look-up at one switch: each writes the class of a key into the packet's metadata.
//!
//! # What
//!
//! A key's rule is *due* for a change if it does not write the class that the key has. How it may change depends on the
//! leaves' rules, which match classes:
//!
//! * No leaf's rule matches the bits that change, because no leaf has asked for that component yet. Then the rule
//!   changes at once, and leaves' rules that match the bits wait until the switch has confirmed that
//!   ([`KeyRules::extend`]).
//! * The leaves' rules do not change, and no other look-up's do. Then the rule changes at once: a packet passes one key
//!   of the table ([`KeyRules::finish`]).
//! * Only the way to the key's place changes ([`KeyRules::set_way`]), and the new one is to the controller. Then the
//!   rule changes at once.
//! * Only the way changes, and the new one is another path. Then the rule changes as it does for a class: a leaf may
//!   rest on what has changed the path, and no packet may meet such a leaf's old rule and then go the new way.
//! * Only the way changes, and the old one is to the controller. Then the rule changes as it does for a class, but
//!   leaves' rules need not wait for it: with any of them packets go to the controller, or do not take the way.
//! * The look-up is lowered. Then its keys' rules go when no leaf's rule matches what they write ([`KeyRules::end`]).
//! * Otherwise a packet could pass the key's rule of one state and a leaf's rule of another. So the key's rule sends to
//!   the controller first ([`KeyRules::divert`]), then the other rules change, and then the rule gets the new class.

use std::collections::BTreeSet;
use std::sync::Arc;

use maple_wire::field::Prerequisite;
use maple_wire::{Action, Constraint, Instruction, Match};
use rustc_hash::FxHashMap;

use super::key_ways::{KeyWays, by_controller};
use super::{KeyBits, LookUp};
use crate::network::Location;
use crate::rule::{Rule, to_controller};
use crate::trace::Fields;
use crate::update::Change;

/// The priority of the rules of keys. No two of them match the same packet, so one above that of the default rule is
/// enough.
const PRIORITY: u16 = 1;

/// The rules of one look-up at one switch, and their changes that were not taken yet.
#[derive(Clone, Debug)]
pub(crate) struct KeyRules {
    look_up: LookUp,
    table: u8,
    cookie: u64,
    /// The bits of the metadata that the rules write.
    mask: u64,
    /// The bits that leaves' rules may match.
    read: u64,
    /// The maximum number of rules of a key.
    rules_of_key: usize,
    /// Whether the look-up is lowered: no leaf depends on it, and its keys' rules go.
    is_ending: bool,
    keys: FxHashMap<KeyBits, Key>,
    /// The keys whose rules do not write their classes.
    due: BTreeSet<KeyBits>,
    /// The ways to the places that keys have, if routes to these are open.
    ways: Option<KeyWays>,
}

/// The target of the rule of a key: the class of the key's value, and the place if the value is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyTarget {
    /// The class of its value, in the bits of the metadata: 0 if the table lacks the key. `None`: it has no number, so
    /// the controller decides.
    pub class: Option<u64>,
    /// Its value, if that is a place.
    pub place: Option<Location>,
}

/// A key that the table has, or whose rule has not gone yet.
#[derive(Clone, Debug)]
struct Key {
    target: KeyTarget,
    /// The rule that it has, or will have when the changes that were taken are done.
    rule: KeyRule,
}

/// The rule of a key.
#[derive(Clone, Debug, Default)]
enum KeyRule {
    /// No rule: the key's packets pass, in class 0.
    #[default]
    Absent,
    /// A rule that sends to the controller.
    Diverted,
    /// A rule that writes these bits under the mask, and the way to a place if it is the rule of an open look-up.
    Writes { bits: u64, mask: u64, way: Option<Arc<[Action]>> },
}

/// Compares what the switch has. A rule that writes no action is equal to one without a way.
impl PartialEq for KeyRule {
    fn eq(&self, other: &KeyRule) -> bool {
        let actions = |way: &Option<Arc<[Action]>>| way.clone().unwrap_or_default();
        match (self, other) {
            (KeyRule::Absent, KeyRule::Absent) | (KeyRule::Diverted, KeyRule::Diverted) => true,
            (KeyRule::Writes { bits, mask, way }, KeyRule::Writes { bits: b, mask: m, way: w }) => {
                (bits, mask, actions(way)) == (b, m, actions(w))
            }
            _ => false,
        }
    }
}

impl KeyRule {
    /// Returns the bits that its packets have.
    fn bits(&self) -> Option<u64> {
        match self {
            KeyRule::Absent => Some(0),
            KeyRule::Diverted => None,
            KeyRule::Writes { bits, .. } => Some(*bits),
        }
    }

    /// Reports whether a packet goes no other way by `new` than by this rule, unless it goes to the controller.
    fn leads_nowhere_else(&self, new: &KeyRule) -> bool {
        let way = |rule: &KeyRule| match rule {
            KeyRule::Writes { way: Some(way), .. } => Arc::clone(way),
            _ => Arc::default(),
        };
        let new = way(new);
        new == way(self) || new[..] == [Action::to_controller()]
    }
}

impl Key {
    /// Reports whether the rule sends to the controller, or has the bits that it is to have (under this mask) and the
    /// controller for its way. Then rules of leaves that let the way act send there too, and others do not know the
    /// way.
    fn is_diverted(&self, mask: u64) -> bool {
        match &self.rule {
            KeyRule::Diverted => true,
            KeyRule::Writes { bits, mask: written, way: Some(way) } => {
                (self.target.class, mask) == (Some(*bits), *written) && *way == by_controller()
            }
            KeyRule::Writes { .. } | KeyRule::Absent => false,
        }
    }
}

impl KeyTarget {
    /// The target of a key that the table lacks.
    pub const ABSENT: KeyTarget = KeyTarget { class: Some(0), place: None };

    /// Returns the target of a key whose value is not a place.
    #[cfg(test)]
    pub fn from_class(class: Option<u64>) -> KeyTarget {
        KeyTarget { class, place: None }
    }
}

impl KeyRules {
    /// Creates the rules of a look-up, in this table. No rule is there yet.
    pub fn new(look_up: LookUp, table: u8, cookie: u64) -> KeyRules {
        let rules_of_key = matches_of(look_up.fields().map(|field| Constraint::exact(field, 0))).len().max(1);
        let (keys, due) = (FxHashMap::default(), BTreeSet::new());
        KeyRules { look_up, table, cookie, mask: 0, read: 0, rules_of_key, is_ending: false, keys, due, ways: None }
    }

    /// Returns the look-up.
    pub fn look_up(&self) -> &LookUp {
        &self.look_up
    }

    /// Puts another look-up of the same fields in the place of this one.
    pub fn set_look_up(&mut self, look_up: LookUp) {
        self.look_up = look_up;
    }

    /// Returns the number of the table.
    pub fn table(&self) -> u8 {
        self.table
    }

    /// Returns the bits of the metadata that the rules write.
    pub fn mask(&self) -> u64 {
        self.mask
    }

    /// Returns the bits of the metadata that a packet has after the table, unless the controller decides about it.
    pub fn metadata<P: Fields + ?Sized>(&self, packet: &P) -> Option<u64> {
        self.look_up.key_of(packet).map_or(Some(0), |key| self.class_of(&key))
    }

    /// Returns the bits of the metadata that packets with a key have after the table, unless the controller decides
    /// about them.
    pub fn class_of(&self, key: &KeyBits) -> Option<u64> {
        self.keys.get(key).map_or(Some(0), |key| key.target.class)
    }

    /// Returns the number of rules that the keys have at most, with those of keys that have just gone.
    pub fn max_rules(&self) -> usize {
        self.keys.len() * self.rules_of_key
    }

    /// Returns the keys that the table has, each with the bits of its class, in no order. Those without a class are
    /// left out.
    pub fn classified(&self) -> impl Iterator<Item = (&KeyBits, u64)> {
        self.keys.iter().filter_map(|(bits, key)| Some((bits, key.target.class?)))
    }

    /// Returns the keys that the table has, and those whose rules have not gone yet, in no order.
    pub fn keys(&self) -> impl Iterator<Item = &KeyBits> {
        self.keys.keys()
    }

    /// Reports whether the look-up is lowered, or nobody asks it any more.
    pub fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Reports whether there are neither keys nor rules of keys.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Reports whether a key has no class, so that the controller decides.
    pub fn has_unclassified(&self) -> bool {
        self.keys.values().any(|key| key.target.class.is_none())
    }

    /// Reports whether the table has a key, or had it until recently.
    pub fn has(&self, key: &KeyBits) -> bool {
        self.keys.contains_key(key)
    }

    /// Returns the bits of the metadata of each class that a key has.
    pub fn classes(&self) -> impl Iterator<Item = u64> {
        self.keys.values().filter_map(|key| key.target.class)
    }

    /// Returns the bits of the metadata that keys' rules write.
    pub fn written(&self) -> impl Iterator<Item = u64> {
        self.keys.values().filter_map(|key| key.rule.bits())
    }

    /// Sets the classes of all keys; keys that are not among them are in class 0. Returns whether a rule is due.
    pub fn set_all(&mut self, mask: u64, targets: FxHashMap<KeyBits, KeyTarget>) -> bool {
        self.mask = mask;
        for (bits, key) in &mut self.keys {
            let target = targets.get(bits).copied().unwrap_or(KeyTarget::ABSENT);
            if let Some(ways) = &mut self.ways {
                ways.move_key(bits, key.target.place, target.place);
            }
            key.target = target;
        }
        for (bits, target) in targets {
            if !self.keys.contains_key(&bits) {
                if let Some(ways) = &mut self.ways {
                    ways.move_key(&bits, None, target.place);
                }
                self.keys.insert(bits, Key { target, rule: KeyRule::Absent });
            }
        }
        self.find_due();
        self.has_due()
    }

    /// Sets the classes of some keys; class 0 is that of a key that the table lacks. Returns whether a rule is due.
    pub fn set(&mut self, targets: impl IntoIterator<Item = (KeyBits, KeyTarget)>) -> bool {
        for (bits, target) in targets {
            let before = self.keys.get(&bits);
            let rule = before.map_or(KeyRule::Absent, |key| key.rule.clone());
            let place = before.and_then(|key| key.target.place);
            if let Some(ways) = &mut self.ways {
                ways.move_key(&bits, place, target.place);
            }
            if rule == self.wanted(target) {
                self.due.remove(&bits);
            } else {
                self.due.insert(bits.clone());
            }
            if rule == KeyRule::Absent && target.class == Some(0) {
                self.keys.remove(&bits);
            } else {
                self.keys.insert(bits, Key { target, rule });
            }
        }
        self.has_due()
    }

    /// Makes the rules of keys write the way to their place too. No way is wanted or ready.
    pub fn begin_ways(&mut self) {
        if self.ways.is_some() {
            return;
        }
        let mut ways = KeyWays::default();
        self.keys.iter().for_each(|(bits, key)| ways.move_key(bits, None, key.target.place));
        self.ways = Some(ways);
        self.find_due();
    }

    /// Reports whether the rules of keys write the way to their place too.
    pub fn has_ways(&self) -> bool {
        self.ways.is_some()
    }

    /// Returns the ways to the places that keys have, if their rules say these.
    pub fn ways(&self) -> Option<&KeyWays> {
        self.ways.as_ref()
    }

    /// Returns the ways to the places that keys have, to be wanted, if the rules say these.
    pub fn ways_mut(&mut self) -> Option<&mut KeyWays> {
        self.ways.as_mut()
    }

    /// Returns the place that a packet's key has.
    pub fn place_of<P: Fields + ?Sized>(&self, packet: &P) -> Option<Location> {
        self.place_at(&self.look_up.key_of(packet)?)
    }

    /// Returns the place that a key has.
    pub fn place_at(&self, key: &KeyBits) -> Option<Location> {
        self.keys.get(key)?.target.place
    }

    /// Sets the way to a place; `None`: it is not ready, so the controller sends the packets. Returns whether a rule is
    /// due.
    pub fn set_way(&mut self, place: Location, way: Option<Arc<[Action]>>) -> bool {
        let keys = self.ways.as_mut().map(|ways| ways.set(place, way)).unwrap_or_default();
        self.look_at(keys)
    }

    /// Notes that the switch has refused the way to the place that the key of a rule has. Returns whether rules are
    /// due.
    pub fn refuse_way(&mut self, rule: &Rule) -> bool {
        let place = self.key_of(rule).and_then(|key| self.keys.get(&key)?.target.place);
        let keys = self.ways.as_mut().zip(place).map(|(ways, place)| ways.refuse(place));
        self.look_at(keys.unwrap_or_default())
    }

    /// Finds out whether the rules of keys are due whose way has changed. Returns whether any rule is.
    fn look_at(&mut self, keys: BTreeSet<KeyBits>) -> bool {
        for bits in keys {
            let Some(key) = self.keys.get(&bits) else { continue };
            if key.rule == self.wanted(key.target) {
                self.due.remove(&bits);
            } else {
                self.due.insert(bits);
            }
        }
        self.has_due()
    }

    /// Replaces what is known of the switch's rules by `installed`. Returns those that are of no key.
    pub fn learn(&mut self, installed: impl IntoIterator<Item = Rule>) -> Vec<Rule> {
        self.keys.values_mut().for_each(|key| key.rule = KeyRule::Absent);
        // It is not known what the rules of leaves there match.
        self.distrust_leaves();
        if self.is_ending {
            // Its bits may be another's by now, so nothing it has written may stay.
            self.keys.clear();
            self.due.clear();
            self.ways = None;
            return installed.into_iter().collect();
        }
        let (mut rules, mut others): (FxHashMap<KeyBits, Vec<Rule>>, Vec<Rule>) = Default::default();
        for rule in installed {
            let is_same = |own: Rule| (own.priority, &own.matching) == (rule.priority, &rule.matching);
            let has_rule = |key: &KeyBits| self.rules_of(key, &KeyRule::Diverted).any(is_same);
            match self.key_of(&rule).filter(has_rule) {
                Some(key) => rules.entry(key).or_default().push(rule),
                None => others.push(rule),
            }
        }
        for (bits, installed) in rules {
            let known = [KeyRule::Diverted].into_iter().chain(installed.iter().filter_map(writes));
            let is_installed = |key_rule: &KeyRule| {
                let all: Vec<Rule> = self.rules_of(&bits, key_rule).collect();
                let has = |rule: &Rule| installed.iter().any(|installed| does_the_same(rule, installed));
                all.len() == installed.len() && all.iter().all(has)
            };
            match known.into_iter().find(is_installed) {
                Some(rule) => {
                    let target = self.keys.get(&bits).map_or(KeyTarget::ABSENT, |key| key.target);
                    self.keys.insert(bits, Key { target, rule });
                }
                None => others.extend(installed),
            }
        }
        self.find_due();
        others
    }

    /// Returns the key of a rule, if it matches exactly one.
    pub fn key_of(&self, rule: &Rule) -> Option<KeyBits> {
        let exact = |field| rule.matching.get(field).filter(|value| value.is_exact()).map(|value| value.value);
        self.look_up.fields().map(exact).collect()
    }

    fn find_due(&mut self) {
        let mut keys = std::mem::take(&mut self.keys);
        self.due.clear();
        for (bits, key) in &mut keys {
            let wanted = self.wanted(key.target);
            if key.rule == wanted {
                key.rule = wanted;
            } else {
                self.due.insert(bits.clone());
            }
        }
        self.keys = keys;
        self.keys.retain(|_, key| key.target.class != Some(0) || key.rule != KeyRule::Absent);
    }

    /// Reports whether a rule is due for a change.
    pub fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Reports whether each rule that is due sends to the controller, or would where its way counts, so that the
    /// leaves' rules may change. Those of a lowered look-up need not: leaves that depend on them only go.
    pub fn are_diverted(&self) -> bool {
        self.is_ending || self.due.iter().all(|key| self.keys[key].is_diverted(self.mask))
    }

    /// Ends the look-up, which is lowered. All rules are due to go.
    pub fn end(&mut self) {
        self.is_ending = true;
        self.ways = None;
        self.set_all(0, FxHashMap::default());
    }

    /// Notes that leaves' rules may match any bits.
    pub fn distrust_leaves(&mut self) {
        self.read = u64::MAX;
    }

    /// Lets leaves' rules match all bits that the rules write. The switch has confirmed the rules.
    pub fn let_leaves_match_all(&mut self) {
        self.read = self.mask;
    }

    /// Takes the changes of due rules that no leaf's rule can notice.
    pub fn extend(&mut self) -> Vec<Change> {
        if self.is_ending {
            return Vec::new();
        }
        let read = self.read;
        self.change(|rules, key| {
            let is_same = key.rule.bits().zip(key.target.class).is_some_and(|(bits, class)| (bits ^ class) & read == 0);
            let wanted = rules.wanted(key.target);
            (is_same && key.rule.leads_nowhere_else(&wanted)).then_some(wanted)
        })
    }

    /// Takes the changes by which due rules send to the controller.
    pub fn divert(&mut self) -> Vec<Change> {
        if self.is_ending {
            return Vec::new();
        }
        self.change(|rules, key| (!key.is_diverted(rules.mask)).then_some(KeyRule::Diverted))
    }

    /// Takes the changes by which due rules write the classes of their keys.
    pub fn finish(&mut self) -> Vec<Change> {
        self.change(|rules, key| Some(rules.wanted(key.target)))
    }

    /// Returns the rules, as they are when all changes that were taken are done.
    pub fn rules(&self) -> impl Iterator<Item = Rule> {
        self.keys.iter().flat_map(|(bits, key)| self.rules_of(bits, &key.rule))
    }

    /// Returns the rule of a key with this target.
    fn wanted(&self, target: KeyTarget) -> KeyRule {
        match target.class {
            None => KeyRule::Diverted,
            Some(0) => KeyRule::Absent,
            Some(bits) => {
                let way = self.ways.as_ref().map(|ways| ways.to(target.place));
                KeyRule::Writes { bits, mask: self.mask, way }
            }
        }
    }

    /// Changes due rules to what `to` says, and returns the changes.
    fn change(&mut self, to: impl Fn(&KeyRules, &Key) -> Option<KeyRule>) -> Vec<Change> {
        let mut changes = Vec::new();
        for key in std::mem::take(&mut self.due) {
            let Some(before) = self.keys.get(&key).cloned() else { continue };
            let rule = to(self, &before).unwrap_or_else(|| before.rule.clone());
            if rule != before.rule {
                let is_there = [&before.rule, &rule].map(|rule| *rule != KeyRule::Absent);
                let rules = |rule| self.rules_of(&key, rule);
                match is_there {
                    [true, true] => changes.extend(rules(&rule).map(Change::Modify)),
                    [false, _] => changes.extend(rules(&rule).map(Change::Add)),
                    [true, false] => changes.extend(rules(&before.rule).map(Change::Delete)),
                }
            }
            if rule == KeyRule::Absent && before.target.class == Some(0) {
                self.keys.remove(&key);
                continue;
            }
            if rule != self.wanted(before.target) {
                self.due.insert(key.clone());
            }
            self.keys.insert(key, Key { rule, ..before });
        }
        changes
    }

    /// Returns the rules of a key: one for each way in which a packet has its fields.
    fn rules_of(&self, key: &KeyBits, rule: &KeyRule) -> impl Iterator<Item = Rule> + use<> {
        let instructions: Arc<[Instruction]> = match rule {
            KeyRule::Absent => [].into(),
            KeyRule::Diverted => to_controller(),
            KeyRule::Writes { bits, mask, way } => {
                let way = way.iter().filter(|way| !way.is_empty());
                let way = way.map(|way| Instruction::WriteActions(way.to_vec()));
                let write = Instruction::WriteMetadata { metadata: *bits, mask: *mask };
                way.chain([write, Instruction::GotoTable(self.table + 1)]).collect()
            }
        };
        let exact = self.look_up.fields().zip(key.iter()).map(|(field, bits)| Constraint::exact(field, *bits));
        let matches = if *rule == KeyRule::Absent { Vec::new() } else { matches_of(exact) };
        let rule = Rule { priority: PRIORITY, matching: Match::any(), instructions, cookie: self.cookie };
        matches.into_iter().map(move |matching| Rule { matching, ..rule.clone() })
    }
}

/// Returns what a rule writes, if it is one that a key can have.
fn writes(rule: &Rule) -> Option<KeyRule> {
    match &rule.instructions[..] {
        [Instruction::WriteMetadata { metadata, mask }, _] => {
            Some(KeyRule::Writes { bits: *metadata, mask: *mask, way: None })
        }
        [Instruction::WriteActions(actions), Instruction::WriteMetadata { metadata, mask }, _] => {
            let way = Some(actions[..].into());
            Some(KeyRule::Writes { bits: *metadata, mask: *mask, way })
        }
        _ => None,
    }
}

/// Reports whether two rules do the same with the same packets, whatever their cookies.
fn does_the_same(a: &Rule, b: &Rule) -> bool {
    let all = |rule: &Rule| (rule.priority, rule.matching.clone(), Arc::clone(&rule.instructions));
    all(a) == all(b)
}

/// Returns the matches of packets that fit these constraints: one for each way to have their fields. There is none if
/// no packet has all of them.
fn matches_of(exact: impl Iterator<Item = Constraint>) -> Vec<Match> {
    let mut all: Vec<Vec<Constraint>> = vec![Vec::new()];
    for constraint in exact {
        let with_prerequisites = |before: &Vec<Constraint>, needs: &[Prerequisite]| {
            let needs = needs.iter().map(|need| Constraint { field: need.field, value: need.value, mask: need.mask });
            needs.chain([constraint]).try_fold(before.clone(), add)
        };
        let alternatives = constraint.field.prerequisites();
        all = all
            .iter()
            .flat_map(|before| alternatives.iter().filter_map(|needs| with_prerequisites(before, needs)))
            .collect();
    }
    all.into_iter().map(Match::from_constraints).collect()
}

/// Adds a constraint to constraints on other fields, or to one on its own field. `None` if no packet fits both.
fn add(mut all: Vec<Constraint>, new: Constraint) -> Option<Vec<Constraint>> {
    match all.iter_mut().find(|old| old.field == new.field) {
        None => all.push(new),
        Some(old) if (old.value ^ new.value) & old.mask & new.mask != 0 => return None,
        Some(old) => (old.value, old.mask) = (old.value | new.value, old.mask | new.mask),
    }
    Some(all)
}
