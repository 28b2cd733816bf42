//! Results of look-ups for the packets that enter at a switch, and the rules that say it there.
//!
//! # Updates
//!
//! [`KeyRules`] says how a key's rule may change. This file says when. An update with changes of keys' rules has none
//! of leaves' rules ([`LookUps::take_changes`]); the switch confirms it before they are collected. A rule that sends to
//! the controller meanwhile gets its class when the leaves' rules are at rest: they have no changes, no leaf changes
//! its route, and the switch has confirmed them.
//!
//! Why that is enough: when leaves' rules change, keys and leaves are of the same state
//! (`Decisions::collect_look_ups`), and each key that does not send to the controller is in the class that it has in
//! this state, and had in the state of the leaves' rules before. So a packet that meets no rule to the controller gets
//! the answer of the one state or the other. The confirmations are needed because the switch may refuse what the next
//! update relies on.

mod descriptions;
mod ways;

use std::collections::BTreeSet;

use maple_wire::{Constraint, Field, PortNo};
use rustc_hash::FxHashMap;

use super::counters::senders::Entrance;
use super::layout::Layout;
use crate::engine::context::options::Options;
use crate::engine::tools::expected::Expected;
use crate::ids::DependentId;
use crate::look_ups::{
    Component, KeyRules, KeyTarget, LookUp, LookUpNumber, Registers, SOURCE_IS_HERE, SharedRegisters, lock,
};
use crate::network::{Location, Mac};
use crate::report::Lowered;
use crate::rule::{Rule, is_to_controller_only, to_controller};
use crate::state::{Snapshot, Value};
use crate::trace::{Fields, Item, ReadMetadata};
use crate::update::Change;

pub use descriptions::LookUpStatus;

/// The look-ups of a switch.
#[derive(Debug)]
pub(in crate::engine) struct LookUps {
    pub(super) registers: SharedRegisters,
    /// The look-ups to which the registers have given tables, by number. [`LookUps::add`] follows the registers.
    entries: Vec<LookUpRules>,
    /// The id under which the sources of packets are subscribed to the hosts of the switch, once a run has asked for
    /// one.
    sources: Option<DependentId>,
    /// The number of times that classes of keys have changed.
    class_changes: u64,
    /// The version of the state that all classes were last known to be of.
    version: u64,
    /// A later version in which they were found to be the same.
    checked_version: u64,
    /// The progress of changes.
    phase: Phase,
}

/// A look-up that some run has recorded.
#[derive(Clone, Debug)]
struct LookUpRules {
    /// The rules of its keys. A lowered one has no keys.
    rules: KeyRules,
    /// The id under which it is subscribed to its table; `None` if it is lowered.
    dependent: Option<DependentId>,
    /// The version of the state that its keys' classes are of, once they are of any.
    version: Option<u64>,
}

/// The look-ups that have to do with a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) struct Involved {
    /// The numbers of the look-ups whose key has the rule, or whose classes it matches.
    pub look_ups: Vec<LookUpNumber>,
    /// Whether it writes or matches where sources are.
    pub sources: bool,
}

/// The progress of changes of keys' rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// All changes that were sent are confirmed.
    #[default]
    Idle,
    /// The switch has not confirmed what was sent last.
    Sent,
}

/// Whether the rules of leaves are at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum LeafRules {
    /// The rules of leaves have no changes, no leaf changes its route, and the switch has confirmed the rules.
    AtRest,
    /// The rules of leaves may be about to change.
    Changing,
}

impl Involved {
    /// Reports whether look-ups have nothing to do with the rule.
    pub fn is_nothing(&self) -> bool {
        *self == Involved::default()
    }
}

impl LookUps {
    /// Creates the look-ups of a switch that has not recorded any.
    pub fn new(layout: Layout, options: &Options) -> LookUps {
        let registers = Registers::new(layout.look_ups().len(), options.max_classes);
        let registers = registers.with_open_paths(layout.has_action_sets()).shared();
        LookUps {
            registers,
            entries: Vec::new(),
            sources: None,
            class_changes: 0,
            version: 0,
            checked_version: 0,
            phase: Phase::Idle,
        }
    }

    /// Copies the look-ups, for a copy of the engine.
    pub fn copy(&self) -> LookUps {
        let registers = lock(&self.registers).clone().shared();
        LookUps {
            registers,
            entries: self.entries.clone(),
            sources: self.sources,
            class_changes: self.class_changes,
            version: self.version,
            checked_version: self.checked_version,
            phase: Phase::Idle,
        }
    }

    /// Takes over what look-ups meant in an earlier run, unless something was looked up already.
    pub fn adopt(&self, earlier: &[u8]) {
        lock(&self.registers).adopt(earlier);
    }

    /// Lets the candidate policy's look-ups take the place of those of the same tables with other rows. Returns
    /// whether others did so before.
    pub fn announce(&self, coming: &[LookUp]) -> bool {
        lock(&self.registers).announce(coming)
    }

    /// Puts the look-ups that were announced in their places. Returns the numbers of those whose keys have other
    /// classes.
    pub fn succeed(&mut self) -> Vec<LookUpNumber> {
        let succeeded = lock(&self.registers).succeed();
        for (number, look_up) in &succeeded {
            if let Some(entry) = self.entries.get_mut(number.0) {
                entry.rules.set_look_up(look_up.clone());
                entry.version = None;
            }
        }
        succeeded.into_iter().map(|(number, _)| number).collect()
    }

    /// Returns the registers, for runs of f.
    pub fn registers(&self) -> SharedRegisters {
        SharedRegisters::clone(&self.registers)
    }

    /// Returns the metadata that the packet has when it comes to the rules of leaves, unless the controller decides
    /// about it. `is_source_here`: its source is known to be where it came in.
    pub fn metadata<P: Fields + ?Sized>(&self, packet: &P, is_source_here: bool) -> Option<u64> {
        let source = if is_source_here { SOURCE_IS_HERE } else { 0 };
        self.entries.iter().try_fold(source, |all, look_up| Some(all | look_up.rules.metadata(packet)?))
    }

    /// Reports whether some run has recorded a look-up.
    pub fn are_in_use(&self) -> bool {
        let registers = lock(&self.registers);
        !self.entries.is_empty() || registers.look_ups().len() > 0 || registers.is_source_asked()
    }

    /// Returns the look-ups to which the registers have given a table and that have no rules yet: the number of each,
    /// and whether it has ended.
    pub fn new_look_ups(&self) -> Vec<(LookUpNumber, bool)> {
        let registers = lock(&self.registers);
        let is_new = |number: LookUpNumber, has_ended: bool| match self.entry(number) {
            Some(entry) => entry.dependent.is_none() && !has_ended,
            None => true,
        };
        let all = registers.look_ups().map(|(number, _)| (number, registers.has_ended(number)));
        all.filter(|(number, has_ended)| is_new(*number, *has_ended)).collect()
    }

    /// Reports whether leaves may rest on where sources are, and these are not subscribed to the hosts yet.
    pub fn has_new_sources(&self) -> bool {
        self.sources.is_none() && lock(&self.registers).is_source_asked()
    }

    /// Subscribes the sources of packets to the hosts of the switch, as this dependent.
    pub fn follow_sources(&mut self, dependent: DependentId) {
        self.sources = Some(dependent);
    }

    /// Returns the dependent that the sources of packets are.
    pub fn sources(&self) -> Option<DependentId> {
        self.sources
    }

    /// Adds the rules of a look-up that is new ([`LookUps::new_look_ups`]), in the order of numbers. Without a
    /// dependent, by which it follows the state, it has ended.
    pub fn add(&mut self, number: LookUpNumber, dependent: Option<DependentId>, layout: Layout, cookie: u64) {
        let look_up = lock(&self.registers).look_ups().nth(number.0).map(|(_, look_up)| look_up.clone());
        let Some(look_up) = look_up.expected() else { return };
        let mut rules = KeyRules::new(look_up, layout.table_of(number), cookie);
        if dependent.is_none() {
            rules.end();
        }
        if let Some(before) = self.entries.get_mut(number.0) {
            rules.distrust_leaves();
            *before = LookUpRules { rules, dependent, version: None };
        } else {
            debug_assert_eq!(self.entries.len(), number.0, "look-ups are added in the order of numbers");
            self.entries.push(LookUpRules { rules, dependent, version: None });
        }
    }

    fn entry(&self, number: LookUpNumber) -> Option<&LookUpRules> {
        self.entries.get(number.0)
    }

    /// Returns the entries that the registers have too, with their numbers.
    fn numbered(&self) -> impl Iterator<Item = (LookUpNumber, &LookUpRules)> {
        self.entries.iter().enumerate().map(|(index, entry)| (LookUpNumber(index), entry))
    }

    /// Lowers a look-up. No leaf may depend on its classes then. Returns the dependent that it was; `None` if it was
    /// lowered before. Its keys' rules are due to go.
    pub fn lower(&mut self, number: LookUpNumber, why: Lowered) -> Option<DependentId> {
        lock(&self.registers).lower(number, why);
        self.end(number)
    }

    /// Ends a look-up that no leaf asks any more. Returns the dependent that it was. Its keys' rules are due to go.
    pub fn retire(&mut self, number: LookUpNumber) -> Option<DependentId> {
        lock(&self.registers).retire(number);
        self.end(number)
    }

    /// Reports whether keys' rules of look-ups that have ended have not gone.
    pub fn has_keys_of_ended(&self) -> bool {
        self.entries.iter().any(|entry| entry.rules.is_ending() && !entry.rules.is_empty())
    }

    /// Reports whether a look-up that has ended still keeps its table.
    pub fn has_ended(&self) -> bool {
        lock(&self.registers).ended_bits().is_some()
    }

    /// Lets others have the tables of look-ups that have ended. Returns those that were lowered for want of a table and
    /// are so no longer.
    pub fn vacate(&mut self) -> Vec<LookUp> {
        self.class_changes += 1;
        lock(&self.registers).vacate()
    }

    /// Returns the tables that look-ups keep after they have ended.
    pub fn ended_tables(&self) -> Vec<u8> {
        let registers = lock(&self.registers);
        let kept = self.numbered().filter(|(number, _)| registers.keeps_table(*number));
        kept.map(|(_, entry)| entry.rules.table()).collect()
    }

    fn end(&mut self, number: LookUpNumber) -> Option<DependentId> {
        self.class_changes += 1;
        let LookUpRules { rules, dependent, .. } = self.entries.get_mut(number.0)?;
        rules.end();
        dependent.take()
    }

    /// Lowers the look-ups that nobody has asked yet. Returns whether that is new.
    pub fn lower_further(&self, why: Lowered) -> bool {
        lock(&self.registers).lower_further(why)
    }

    /// Lowers the question where sources are. No leaf may depend on it then. Returns the dependent that they were.
    pub fn lower_sources(&mut self) -> Option<DependentId> {
        lock(&self.registers).lower_source();
        self.sources.take()
    }

    /// Removes and returns what was lowered since this was last called.
    pub fn take_lowered(&self) -> Vec<(LookUp, Lowered)> {
        lock(&self.registers).take_lowered()
    }

    /// Returns the numbers of look-ups that have had a value for which there was no class.
    pub fn exhausted(&self) -> Vec<LookUpNumber> {
        lock(&self.registers).exhausted()
    }

    /// Returns a test of leaves: whether a key of a look-up has the classes that a leaf with these bits of the metadata
    /// is for. In the newest state no packet comes to the other leaves.
    pub fn is_of_a_key(&self, number: LookUpNumber) -> impl Fn(ReadMetadata) -> bool + use<> {
        let masks = lock(&self.registers).masks(number);
        let keys = || self.entry(number).into_iter().flat_map(|entry| entry.rules.classes());
        let had: BTreeSet<u64> = masks.iter().flat_map(|mask| keys().map(move |class| class & mask)).collect();
        move |read| {
            let classes = masks.iter().filter(|mask| read.mask & **mask == **mask).map(|mask| read.value & mask);
            classes.into_iter().all(|class| class == 0 || had.contains(&class))
        }
    }

    /// Frees the classes of a look-up that no key has, no key's rule, and none of these `others`. Returns whether
    /// enough are free to go on.
    pub fn free_classes(&mut self, number: LookUpNumber, others: &[ReadMetadata]) -> bool {
        let Some(LookUpRules { rules, version, .. }) = self.entries.get_mut(number.0) else { return true };
        // Keys without a class get one, which takes another look at all keys.
        *version = None;
        let mask = rules.mask();
        let of_keys = rules.classes().chain(rules.written()).map(|value| ReadMetadata { value, mask });
        let in_use: Vec<ReadMetadata> = of_keys.chain(others.iter().copied()).collect();
        lock(&self.registers).free_others(number, &in_use)
    }

    /// Reports whether an item is what a look-up of a table that never changes found.
    pub fn is_fixed(&self, item: &Item) -> bool {
        let Item::Read(Constraint { field: Field::Metadata, mask, .. }) = item else { return false };
        let registers = lock(&self.registers);
        let mut fixed = registers.look_ups().filter(|(_, look_up)| look_up.is_fixed());
        fixed.any(|(number, _)| registers.mask(number) & *mask as u64 != 0)
    }

    /// Returns the bits of the metadata that a look-up writes.
    pub fn mask(&self, number: LookUpNumber) -> u64 {
        lock(&self.registers).mask(number)
    }

    /// Returns the number of rules that all keys have at most.
    pub fn max_rules(&self) -> usize {
        self.entries.iter().map(|entry| entry.rules.max_rules()).sum()
    }

    /// Reports whether the classes are known to be those of a state.
    pub fn is_of(&self, version: u64) -> bool {
        self.version == version && !self.has_new_registers()
    }

    /// Reports whether the classes are those of a state, in which these dependents are current. Changes nothing but
    /// what the next call costs.
    pub fn are_current(&mut self, version: u64, is_current: impl Fn(DependentId) -> bool) -> bool {
        if self.version == version || self.checked_version == version {
            return !self.has_new_registers();
        }
        let are_current = !self.has_new_registers() && self.subscribed().all(is_current);
        if are_current {
            self.checked_version = version;
        }
        are_current
    }

    /// Notes that the classes are those of a state.
    pub fn note_version(&mut self, version: u64) {
        self.version = version;
    }

    /// Returns all that is subscribed to the state.
    pub fn subscribed(&self) -> impl Iterator<Item = DependentId> {
        self.entries.iter().filter_map(|entry| entry.dependent).chain(self.sources)
    }

    /// Returns the look-ups that are not lowered, with their dependents.
    pub fn dependents(&self) -> impl Iterator<Item = (LookUpNumber, DependentId, &LookUp)> {
        self.numbered().filter_map(|(number, entry)| Some((number, entry.dependent?, entry.rules.look_up())))
    }

    /// Returns a look-up with its dependent, unless it is lowered.
    pub fn dependent(&self, number: LookUpNumber) -> Option<(DependentId, &LookUp)> {
        let entry = self.entry(number)?;
        Some((entry.dependent?, entry.rules.look_up()))
    }

    /// Returns the numbers of look-ups whose registers have become more.
    pub fn extended(&self) -> Vec<LookUpNumber> {
        let registers = lock(&self.registers);
        let extended = self.numbered().filter(|(number, entry)| registers.mask(*number) != entry.rules.mask());
        extended.map(|(number, _)| number).collect()
    }

    /// Sets the classes of a look-up's keys to those of a state. Returns whether rules have to change. The cost is that
    /// of the keys that were written since the last call, as long as the state knows these.
    pub fn set_classes(&mut self, number: LookUpNumber, state: &Snapshot) -> bool {
        let Some(LookUpRules { rules, version, .. }) = self.entries.get_mut(number.0) else { return false };
        let mut registers = lock(&self.registers);
        let (look_up, mask) = (rules.look_up().clone(), registers.mask(number));
        self.class_changes += 1;
        let known = version.replace(state.version()).filter(|_| mask == rules.mask());
        let written = known.and_then(|version| look_up.written_since(state, version, rules.keys()));
        match written {
            Some(written) => {
                let mut class = |value: Option<Value>| {
                    value.map_or(KeyTarget::ABSENT, |value| key_target(&mut registers, number, &value))
                };
                rules.set(written.into_iter().map(|(key, value)| (key, class(value))))
            }
            None => {
                let mut class = |(key, value): (_, Value)| (key, key_target(&mut registers, number, &value));
                let classes: FxHashMap<_, _> = look_up.entries(state).into_iter().map(&mut class).collect();
                rules.set_all(mask, classes)
            }
        }
    }

    fn has_new_registers(&self) -> bool {
        let registers = lock(&self.registers);
        registers.look_ups().len() != self.entries.len()
            || self.sources.is_none() && registers.is_source_asked()
            || self.numbered().any(|(number, entry)| {
                registers.mask(number) != entry.rules.mask()
                    || registers.open_paths(number).is_some() && !entry.rules.has_ways()
            })
    }

    /// Reports whether keys' rules are to change, or have changed and the switch has not confirmed it.
    pub fn are_changing(&self) -> bool {
        self.phase == Phase::Sent || self.entries.iter().any(|entry| entry.rules.has_due())
    }

    /// Reports whether the rules of leaves may change now. They may match all classes then.
    pub fn let_leaves_change(&mut self) -> bool {
        let may_change = self.phase == Phase::Idle && self.entries.iter().all(|entry| entry.rules.are_diverted());
        if may_change {
            self.entries.iter_mut().for_each(|entry| entry.rules.let_leaves_match_all());
        }
        may_change
    }

    /// Replaces what is known of the switch's rules in a table by `installed`. Returns those that are of no key.
    pub fn learn(&mut self, table: u8, installed: Vec<Rule>) -> Vec<Rule> {
        match self.entries.iter_mut().find(|entry| entry.rules.table() == table) {
            Some(entry) => entry.rules.learn(installed),
            None => installed,
        }
    }

    /// Returns the changes by which rules of no key send to the controller.
    pub fn divert_others(others: Vec<Rule>) -> Vec<Change> {
        let others = others.into_iter().filter(|rule| !is_to_controller_only(&rule.instructions));
        others.map(|rule| Change::Modify(Rule { instructions: to_controller(), ..rule })).collect()
    }

    /// Takes the changes of keys' rules that may be sent now, by table. They must be an update of their own.
    /// `may_end`: no rule of a leaf matches what keys' rules of ended look-ups write.
    pub fn take_changes(&mut self, leaf_rules: LeafRules, may_end: bool) -> Vec<(u8, Vec<Change>)> {
        let mut all: Vec<(u8, Vec<Change>)> =
            self.entries.iter_mut().map(|entry| (entry.rules.table(), entry.rules.extend())).collect();
        let is_one = self.entries.iter().filter(|entry| entry.rules.has_due()).count() == 1;
        let is_safe = is_one || self.entries.iter().all(|entry| entry.rules.are_diverted());
        let finishes = leaf_rules == LeafRules::AtRest && is_safe;
        for (LookUpRules { rules, .. }, (_, changes)) in self.entries.iter_mut().zip(&mut all) {
            let finishes = finishes && (may_end || !rules.is_ending());
            changes.extend(if finishes { rules.finish() } else { rules.divert() });
        }
        all.retain(|(_, changes)| !changes.is_empty());
        all
    }

    /// Notes that changes were sent.
    pub fn note_sent(&mut self) {
        self.phase = Phase::Sent;
    }

    /// Reports whether the switch has not confirmed what was sent last.
    pub fn is_unconfirmed(&self) -> bool {
        self.phase == Phase::Sent
    }

    /// Handles the switch's confirmation of all changes that were sent.
    pub fn confirm(&mut self) {
        self.phase = Phase::Idle;
    }

    /// Returns the bits of the metadata that packets have which come in here, as far as port and host determine them.
    pub fn metadata_of(&self, (port, host): Entrance) -> ReadMetadata {
        let Some(host) = host else { return ReadMetadata::default() };
        let source = SourceHost { port, host };
        let is_known = |rules: &KeyRules| rules.look_up().fields().all(|field| source.value(field).is_some());
        let known = self.key_rules().filter(|rules| is_known(rules));
        let class = |rules: &KeyRules| Some(ReadMetadata { value: rules.metadata(&source)?, mask: rules.mask() });
        known.filter_map(class).fold(ReadMetadata::default(), |all, read| ReadMetadata {
            value: all.value | read.value,
            mask: all.mask | read.mask,
        })
    }

    /// Returns how often classes of keys may have changed.
    pub fn class_changes(&self) -> u64 {
        self.class_changes
    }

    /// Returns the place of the hosts whose addresses a field of a rule's packets has. The rule matches this metadata.
    /// `None`: they may be at several places.
    pub fn place(&self, field: Field, metadata: ReadMetadata) -> Option<Location> {
        match lock(&self.registers).found(&LookUp::of_host(field), Component::Value, metadata)? {
            Some(Value::Location(place)) => Some(place),
            _ => None,
        }
    }

    /// Returns the keys' rules of each look-up.
    pub fn key_rules(&self) -> impl Iterator<Item = &KeyRules> {
        self.entries.iter().map(|entry| &entry.rules)
    }

    /// Returns the rules of keys, by table.
    pub fn rules(&self) -> impl Iterator<Item = (u8, Vec<Rule>)> {
        self.key_rules().map(|rules| (rules.table(), rules.rules().collect()))
    }
}

/// Returns the target of a key with this value.
fn key_target(registers: &mut Registers, number: LookUpNumber, value: &Value) -> KeyTarget {
    let place = if let Value::Location(place) = value { Some(*place) } else { None };
    KeyTarget { class: registers.bits(number, value), place }
}

/// The port and the host of a packet, with the fields that they determine.
struct SourceHost {
    port: PortNo,
    host: Mac,
}

impl Fields for SourceHost {
    fn value(&self, field: Field) -> Option<u128> {
        match field {
            Field::InPort => Some(u128::from(self.port.0)),
            Field::EthSrc => Some(self.host.bits()),
            _ => None,
        }
    }

    fn is_captured(&self, _: Field) -> bool {
        true
    }
}

/// A packet with the metadata that look-ups give it.
pub(in crate::engine) struct WithMetadata<P> {
    pub packet: P,
    pub metadata: u64,
}

impl<P: Fields> Fields for WithMetadata<P> {
    fn value(&self, field: Field) -> Option<u128> {
        if field == Field::Metadata { Some(u128::from(self.metadata)) } else { self.packet.value(field) }
    }

    fn is_captured(&self, field: Field) -> bool {
        self.packet.is_captured(field)
    }
}
