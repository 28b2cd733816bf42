//! What look-ups find for the packets that enter at a switch, and the rules that say it there.
//!
//! # Updates
//!
//! [`KeyRules`] says how a key's rule may change. This file says when. An update with changes of keys' rules has none of
//! leaves' rules ([`LookUps::take_changes`]); the switch confirms it before they are collected. A rule that sends to the
//! controller meanwhile gets its class when the leaves' rules are at rest: they have no changes, no leaf changes its
//! route, and the switch has confirmed them.

mod open_ways;

use std::collections::BTreeSet;

use maple_wire::{Constraint, Field, Instruction, Match, PortNo};
use rustc_hash::FxHashMap;

use super::counters::senders::Entrance;
use super::layout::Layout;
use crate::engine::context::options::Options;
use crate::ids::DependentId;
use crate::look_ups::{Component, KeyRules, KeyTarget, LookUp, Registers, SOURCE_IS_HERE, SharedRegisters, lock};
use crate::network::{Location, Mac};
use crate::report::Lowered;
use crate::rule::{Rule, is_to_controller_only, to_controller};
use crate::state::{Snapshot, Value};
use crate::trace::{Fields, Item, ReadMetadata, Trace};
use crate::update::Change;

/// The look-ups of a switch.
#[derive(Debug)]
pub(in crate::engine) struct LookUps {
    pub(super) registers: SharedRegisters,
    in_use: Vec<LookUpRules>,
    /// The id under which the sources of packets are subscribed to the hosts of the switch, once a run has asked for
    /// one.
    sources: Option<DependentId>,
    /// The number of times that classes of keys have changed.
    changes: u64,
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
    pub look_ups: Vec<usize>,
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

/// A look-up of a switch, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookUpStatus {
    /// The look-up, as policies write it.
    pub look_up: String,
    /// The table that has its keys; `None` if it has none.
    pub table: Option<u8>,
    /// The reason why it is lowered, or a part of it: whether there is a value, or which one.
    pub lowered: Option<Lowered>,
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
            in_use: Vec::new(),
            sources: None,
            changes: 0,
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
            in_use: self.in_use.clone(),
            sources: self.sources,
            changes: self.changes,
            version: self.version,
            checked_version: self.checked_version,
            phase: Phase::Idle,
        }
    }

    /// Takes over what look-ups meant in an earlier run, unless something was looked up already.
    pub fn adopt(&self, earlier: &[u8]) {
        lock(&self.registers).adopt(earlier);
    }

    /// Returns the registers, for runs of f.
    pub fn registers(&self) -> SharedRegisters {
        SharedRegisters::clone(&self.registers)
    }

    /// Returns the metadata that the packet has when it comes to the rules of leaves, unless the controller decides about
    /// it. `is_source_here`: its source is known to be where it came in.
    pub fn metadata<P: Fields + ?Sized>(&self, packet: &P, is_source_here: bool) -> Option<u64> {
        let source = if is_source_here { SOURCE_IS_HERE } else { 0 };
        self.in_use.iter().try_fold(source, |all, look_up| Some(all | look_up.rules.metadata(packet)?))
    }

    /// Reports whether some run has recorded a look-up.
    pub fn are_in_use(&self) -> bool {
        let registers = lock(&self.registers);
        !self.in_use.is_empty() || registers.look_ups().len() > 0 || registers.is_source_asked()
    }

    /// Returns the look-ups that were recorded and have no rules yet: the number of each, and whether it has ended.
    pub fn new_look_ups(&self) -> Vec<(usize, LookUp, bool)> {
        let registers = lock(&self.registers);
        let is_new = |number: usize| self.in_use.get(number).is_none_or(|of| of.dependent.is_none());
        let new =
            registers.look_ups().enumerate().map(|(number, look_up)| (number, look_up, registers.has_ended(number)));
        let new = new.filter(|(number, _, has_ended)| is_new(*number) && (!has_ended || *number >= self.in_use.len()));
        new.map(|(number, look_up, has_ended)| (number, look_up.clone(), has_ended)).collect()
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

    /// Adds a look-up, which gets the table of its number. Without a dependent, by which it follows the state, it has
    /// ended.
    pub fn add(&mut self, number: usize, look_up: LookUp, dependent: Option<DependentId>, of: (Layout, u64)) {
        let (layout, cookie) = of;
        let mut rules = KeyRules::new(look_up, layout.look_ups().start + number as u8, cookie);
        if dependent.is_none() {
            rules.end();
        }
        if let Some(before) = self.in_use.get_mut(number) {
            rules.distrust_leaves();
            *before = LookUpRules { rules, dependent, version: None };
        } else {
            self.in_use.push(LookUpRules { rules, dependent, version: None });
        }
    }

    /// Lowers a look-up. No leaf may depend on its classes then. Returns the dependent that it was; `None` if it was
    /// lowered before. Its keys' rules are due to go.
    pub fn lower(&mut self, number: usize, why: Lowered) -> Option<DependentId> {
        lock(&self.registers).lower(number, why);
        self.end(number)
    }

    /// Ends a look-up that no leaf asks any more. Returns the dependent that it was. Its keys' rules are due to go.
    pub fn retire(&mut self, number: usize) -> Option<DependentId> {
        lock(&self.registers).retire(number);
        self.end(number)
    }

    /// Reports whether keys' rules of look-ups that have ended have not gone.
    pub fn has_keys_of_ended(&self) -> bool {
        self.in_use.iter().any(|of| of.rules.is_ending() && !of.rules.is_empty())
    }

    /// Reports whether look-ups have ended and have their tables yet.
    pub fn has_ended(&self) -> bool {
        lock(&self.registers).ended_bits().is_some()
    }

    /// Lets others have the tables of look-ups that have ended. Returns those that were lowered for want of a table and
    /// are so no longer.
    pub fn vacate(&mut self) -> Vec<LookUp> {
        self.changes += 1;
        lock(&self.registers).vacate()
    }

    /// Returns the tables that look-ups have which have ended.
    pub fn ended_tables(&self) -> impl Iterator<Item = u8> {
        let registers = lock(&self.registers);
        let keeps: Vec<bool> = (0..self.in_use.len()).map(|number| registers.keeps_table(number)).collect();
        self.in_use.iter().zip(keeps).filter(|(_, keeps)| *keeps).map(|(of, _)| of.rules.table())
    }

    fn end(&mut self, number: usize) -> Option<DependentId> {
        self.changes += 1;
        let LookUpRules { rules, dependent, .. } = self.in_use.get_mut(number)?;
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
    pub fn exhausted(&self) -> Vec<usize> {
        lock(&self.registers).exhausted()
    }

    /// Returns a test of leaves: whether a key of a look-up has the classes that a leaf with these bits of the metadata is
    /// for. In the newest state no packet comes to the other leaves.
    pub fn is_of_a_key(&self, number: usize) -> impl Fn(ReadMetadata) -> bool + use<> {
        let masks = lock(&self.registers).masks(number);
        let keys = || self.in_use.get(number).into_iter().flat_map(|of| of.rules.classes());
        let had: BTreeSet<u64> = masks.iter().flat_map(|mask| keys().map(move |class| class & mask)).collect();
        move |read| {
            let classes = masks.iter().filter(|mask| read.mask & **mask == **mask).map(|mask| read.value & mask);
            classes.into_iter().all(|class| class == 0 || had.contains(&class))
        }
    }

    /// Frees the classes of a look-up that no key has, no key's rule, and none of these `others`. Returns whether enough
    /// are free to go on.
    pub fn free_classes(&mut self, number: usize, others: &[ReadMetadata]) -> bool {
        let Some(LookUpRules { rules, version, .. }) = self.in_use.get_mut(number) else { return true };
        // Keys without a class get one, which takes another look at all keys.
        *version = None;
        let mask = rules.mask();
        let of_keys = rules.classes().chain(rules.written()).map(|value| ReadMetadata { value, mask });
        let in_use: Vec<ReadMetadata> = of_keys.chain(others.iter().copied()).collect();
        lock(&self.registers).free_others(number, &in_use)
    }

    /// Describes the look-ups: first those that have tables, in the order of these.
    pub fn status(&self, layout: Layout) -> Vec<LookUpStatus> {
        let registers = lock(&self.registers);
        let number_of_table = |look_up: &LookUp| {
            let is_it = |(number, of): &(usize, &LookUp)| *of == look_up && !registers.has_ended(*number);
            registers.look_ups().enumerate().find(is_it).map(|(number, _)| number)
        };
        let status = |look_up: &LookUp, table, lowered| LookUpStatus { look_up: look_up.to_string(), table, lowered };
        let first = layout.look_ups().start;
        let with_table = registers.look_ups().enumerate().filter(|(number, _)| !registers.has_ended(*number));
        let with_table = with_table.map(|(number, look_up)| status(look_up, Some(first + number as u8), None));
        let lowered = registers.lowered().map(|(look_up, why)| {
            status(look_up, number_of_table(look_up).map(|number| first + number as u8), Some(why))
        });
        with_table.chain(lowered).collect()
    }

    /// Returns the bits of the metadata that a look-up writes.
    pub fn mask(&self, number: usize) -> u64 {
        lock(&self.registers).mask(number)
    }

    /// Returns the number of rules that all keys have at most.
    pub fn max_rules(&self) -> usize {
        self.in_use.iter().map(|of| of.rules.max_rules()).sum()
    }

    /// Reports whether the classes are known to be those of a state.
    pub fn is_of(&self, version: u64) -> bool {
        self.version == version && !self.has_new_registers()
    }

    /// Reports whether the classes are those of a state, in which these dependents are current. Changes nothing but what
    /// the next call costs.
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
        self.in_use.iter().filter_map(|of| of.dependent).chain(self.sources)
    }

    /// Returns the look-ups that are not lowered, with their dependents.
    pub fn dependents(&self) -> impl Iterator<Item = (usize, DependentId, &LookUp)> {
        let all = self.in_use.iter().enumerate();
        all.filter_map(|(number, of)| Some((number, of.dependent?, of.rules.look_up())))
    }

    /// Returns a look-up with its dependent, unless it is lowered.
    pub fn dependent(&self, number: usize) -> Option<(DependentId, &LookUp)> {
        let of = self.in_use.get(number)?;
        Some((of.dependent?, of.rules.look_up()))
    }

    /// Returns the numbers of look-ups whose registers have become more.
    pub fn extended(&self) -> Vec<usize> {
        let registers = lock(&self.registers);
        let is_extended =
            |(number, of): (usize, &LookUpRules)| (registers.mask(number) != of.rules.mask()).then_some(number);
        self.in_use.iter().enumerate().filter_map(is_extended).collect()
    }

    /// Sets the classes of a look-up's keys to those of a state. Returns whether rules have to change. The cost is that of
    /// the keys that were written since the last call, as long as the state knows these.
    pub fn set_classes(&mut self, number: usize, state: &Snapshot) -> bool {
        let Some(LookUpRules { rules, version, .. }) = self.in_use.get_mut(number) else { return false };
        let mut registers = lock(&self.registers);
        let (look_up, mask) = (rules.look_up().clone(), registers.mask(number));
        self.changes += 1;
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
        registers.look_ups().len() != self.in_use.len()
            || self.sources.is_none() && registers.is_source_asked()
            || self.in_use.iter().enumerate().any(|(number, of)| {
                registers.mask(number) != of.rules.mask()
                    || registers.open_paths(number).is_some() && !of.rules.has_ways()
            })
    }

    /// Reports whether keys' rules are to change, or have changed and the switch has not confirmed it.
    pub fn are_changing(&self) -> bool {
        self.phase == Phase::Sent || self.in_use.iter().any(|of| of.rules.has_due())
    }

    /// Reports whether the rules of leaves may change now. They may match all classes then.
    pub fn let_leaves_change(&mut self) -> bool {
        let may_change = self.phase == Phase::Idle && self.in_use.iter().all(|of| of.rules.are_diverted());
        if may_change {
            self.in_use.iter_mut().for_each(|of| of.rules.open());
        }
        may_change
    }

    /// Replaces what is known of the switch's rules in a table by `installed`. Returns those that are of no key.
    pub fn learn(&mut self, table: u8, installed: Vec<Rule>) -> Vec<Rule> {
        match self.in_use.iter_mut().find(|of| of.rules.table() == table) {
            Some(of) => of.rules.learn(installed),
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
            self.in_use.iter_mut().map(|of| (of.rules.table(), of.rules.extend())).collect();
        let is_one = self.in_use.iter().filter(|of| of.rules.has_due()).count() == 1;
        let is_safe = is_one || self.in_use.iter().all(|of| of.rules.are_diverted());
        let finishes = leaf_rules == LeafRules::AtRest && is_safe;
        for (of, (_, changes)) in self.in_use.iter_mut().zip(&mut all) {
            let finishes = finishes && (may_end || !of.rules.is_ending());
            changes.extend(if finishes { of.rules.finish() } else { of.rules.divert() });
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

    /// Returns what a trace has learned from look-ups, in words, such as `hosts[eth_dst]: 1:3`.
    pub fn describe(&self, trace: &Trace) -> Vec<String> {
        let registers = lock(&self.registers);
        let read = |item: &Item| match item {
            Item::Read(Constraint { field: Field::Metadata, value, mask }) => {
                registers.describe(ReadMetadata { value: *value as u64, mask: *mask as u64 })
            }
            _ => None,
        };
        trace.items.iter().filter_map(read).map(|(question, answer)| format!("{question}: {answer}")).collect()
    }

    /// Returns what look-ups have found for the packets that a rule matches, as the end of its description: `,
    /// hosts[eth_dst]: 1:3`.
    pub fn describe_match(&self, matching: &Match) -> String {
        let Some(read) = matching.get(Field::Metadata) else { return String::new() };
        let registers = lock(&self.registers);
        let parts = registers.describe_all(ReadMetadata { value: read.value as u64, mask: read.mask as u64 });
        parts.map(|(question, answer)| format!(", {question}: {answer}")).collect()
    }

    /// Returns the bits of the metadata that packets have which come in here, as far as port and host determine them.
    pub fn metadata_of(&self, (port, host): Entrance) -> ReadMetadata {
        let Some(host) = host else { return ReadMetadata::default() };
        let source = SourceHost { port, host };
        let is_known = |rules: &KeyRules| rules.look_up().fields().all(|field| source.value(field).is_some());
        let known = self.in_use.iter().map(|of| &of.rules).filter(|rules| is_known(rules));
        let class = |rules: &KeyRules| Some(ReadMetadata { value: rules.metadata(&source)?, mask: rules.mask() });
        known.filter_map(class).fold(ReadMetadata::default(), |all, read| ReadMetadata {
            value: all.value | read.value,
            mask: all.mask | read.mask,
        })
    }

    /// Returns how often classes of keys may have changed.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the place of the hosts whose addresses a field of a rule's packets has. The rule matches this metadata.
    /// `None`: they may be at several places.
    pub fn place(&self, field: Field, metadata: ReadMetadata) -> Option<Location> {
        match lock(&self.registers).found(&LookUp::of_host(field), Component::Value, metadata)? {
            Some(Value::Location(place)) => Some(place),
            _ => None,
        }
    }

    /// Returns the purpose of a key's rule, in words: the table, the key, and what it has there. `None` if the rule is of
    /// no key.
    pub fn describe_key(&self, table: u8, rule: &Rule) -> Option<String> {
        let rules = &self.in_use.iter().find(|of| of.rules.table() == table)?.rules;
        let key = rules.key_of(rule)?;
        let registers = lock(&self.registers);
        let written = rule.instructions.iter().find_map(|instruction| match instruction {
            Instruction::WriteMetadata { metadata, mask } => Some((*metadata, *mask)),
            _ => None,
        });
        let found = match (written, open_ways::describe_way(rules, &key, rule)) {
            (Some(_), Some(place_and_way)) => place_and_way,
            (Some((metadata, mask)), None) => registers.found_by(rules.look_up(), metadata, mask),
            (None, _) => "not confirmed, so the controller decides".to_owned(),
        };
        Some(format!("maple: {} for {}: {found}", rules.look_up(), rules.look_up().key_text(&key)))
    }

    /// Returns the keys' rules of each look-up.
    pub fn key_rules(&self) -> impl Iterator<Item = &KeyRules> {
        self.in_use.iter().map(|of| &of.rules)
    }

    /// Returns the rules of keys, by table.
    pub fn rules(&self) -> impl Iterator<Item = (u8, Vec<Rule>)> {
        self.in_use.iter().map(|of| (of.rules.table(), of.rules.rules().collect()))
    }
}

/// Returns what a key has that has this value.
fn key_target(registers: &mut Registers, number: usize, value: &Value) -> KeyTarget {
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
