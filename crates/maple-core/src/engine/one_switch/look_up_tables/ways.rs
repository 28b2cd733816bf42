//! The ways to the places that an open look-up finds: one decision is for all of them, and the rules of keys say where
//! each leads.

use std::sync::Arc;

use maple_wire::{Action, Field, Instruction};

use super::{LookUpRules, LookUps};
use crate::engine::one_switch::layout::Layout;
use crate::look_ups::{KeyBits, KeyRules, KeyWays, LookUpNumber, OpenPaths, lock};
use crate::network::{Location, Mac};
use crate::rule::Rule;
use crate::trace::Fields;

impl LookUps {
    /// Lets the rules of keys say the ways to their places, for look-ups that runs have opened.
    pub fn begin_ways(&mut self) {
        let registers = lock(&self.registers);
        for (index, LookUpRules { rules, .. }) in self.entries.iter_mut().enumerate() {
            if registers.open_paths(LookUpNumber(index)).is_some() && !rules.is_ending() {
                rules.begin_ways();
            }
        }
    }

    /// Returns the look-up that one decision asks for all places, with the paths that this decision follows. Its rules
    /// of keys say the ways. There is at most one, since only one field is the destination of packets.
    pub fn open_look_up(&self) -> Option<(LookUpNumber, OpenPaths)> {
        let registers = lock(&self.registers);
        let open = |(number, entry): (LookUpNumber, &LookUpRules)| {
            let paths = registers.open_paths(number).filter(|_| entry.rules.has_ways())?;
            Some((number, paths.clone()))
        };
        self.numbered().find_map(open)
    }

    /// Reports whether runs have asked the open look-up for other paths.
    pub fn has_refused_paths(&self, number: LookUpNumber) -> bool {
        lock(&self.registers).has_refused_paths(number)
    }

    /// Frees the open look-up for other paths ([`crate::look_ups::Registers::release_paths`]). No way is wanted any
    /// more. Returns the bits of the metadata that say the place.
    pub fn release_paths(&mut self, number: LookUpNumber) -> u64 {
        self.class_changes += 1;
        self.ways_mut().into_iter().for_each(KeyWays::unwant_all);
        lock(&self.registers).release_paths(number)
    }

    fn ways(&self) -> Option<&KeyWays> {
        self.key_rules().find_map(KeyRules::ways)
    }

    fn ways_mut(&mut self) -> Option<&mut KeyWays> {
        self.open_rules().and_then(KeyRules::ways_mut)
    }

    fn open_rules(&mut self) -> Option<&mut KeyRules> {
        self.entries.iter_mut().map(|entry| &mut entry.rules).find(|rules| rules.has_ways())
    }

    /// Removes and returns the places to which ways have come to be wanted, or are no longer, each with whether one is.
    pub fn take_changed_places(&mut self) -> Vec<(Location, bool)> {
        self.ways_mut().map(KeyWays::take_changed).unwrap_or_default()
    }

    /// Wants the way to a place, if a key has it. Returns whether one has.
    pub fn want_way(&mut self, place: Location) -> bool {
        self.ways_mut().is_some_and(|ways| ways.want(place))
    }

    /// Wants the ways to further places, at most this many and up to a number in all. Returns how many.
    pub fn want_further_ways(&mut self, count: usize, in_all: usize) -> usize {
        self.ways_mut().map_or(0, |ways| ways.want_further(count, in_all))
    }

    /// Reports whether the way to a place is wanted.
    pub fn is_way_wanted(&self, place: Location) -> bool {
        self.ways().is_some_and(|ways| ways.is_wanted(place))
    }

    /// Sets the way to a place; `None`: it is not ready. Returns whether rules have to change.
    pub fn set_way(&mut self, place: Location, way: Option<Vec<Action>>) -> bool {
        let way: Option<Arc<[Action]>> = way.map(Arc::from);
        self.open_rules().is_some_and(|rules| rules.set_way(place, way))
    }

    /// Reports whether the switch takes packets to a place along a way, or does so when its rules have changed.
    pub fn is_way_ready(&self, place: Location) -> bool {
        self.ways().is_some_and(|ways| ways.is_ready(place))
    }

    /// Returns the number of places that keys of the open look-up have and to which no way is ready.
    pub fn count_unready_ways(&self) -> usize {
        self.open_look_up().and_then(|_| self.ways()).map_or(0, KeyWays::count_unready)
    }

    /// Notes that the switch has refused the actions of a key's rule in a table. Returns whether rules have to change.
    pub fn refuse_way(&mut self, table: u8, rule: &Rule) -> bool {
        self.open_rules().filter(|rules| rules.table() == table).is_some_and(|rules| rules.refuse_way(rule))
    }

    /// Returns the place that the open look-up finds for a packet.
    pub fn open_place<P: Fields + ?Sized>(&self, packet: &P) -> Option<Location> {
        self.key_rules().find(|rules| rules.has_ways())?.place_of(packet)
    }

    /// Returns the host whose key has a rule of an earlier run, if that rule says the way to it, or that there is none.
    pub fn host_with_way(&self, layout: Layout, table: u8, rule: &Rule) -> Option<Mac> {
        let number = layout.look_up_of(table)?;
        let registers = lock(&self.registers);
        registers.open_paths(number)?;
        let leads_on = rule.instructions.iter().any(|instruction| matches!(instruction, Instruction::GotoTable(_)));
        let address = rule.matching.get(Field::EthDst).filter(|address| address.is_exact() && leads_on)?;
        (way_of(rule) != [Action::to_controller()]).then_some(Mac::from_bits(address.value))
    }
}

/// Returns the actions of the way that a key's rule writes.
fn way_of(rule: &Rule) -> &[Action] {
    let written = rule.instructions.iter().find_map(|instruction| match instruction {
        Instruction::WriteActions(actions) => Some(&actions[..]),
        _ => None,
    });
    written.unwrap_or_default()
}

/// Returns the place of a key, and what its rule says of the way there, in words. `None` if the rule says no way.
pub(super) fn describe_way(rules: &KeyRules, key: &KeyBits, rule: &Rule) -> Option<String> {
    let place = rules.place_at(key).filter(|_| rules.has_ways())?;
    Some(match way_of(rule) {
        [] => format!("{place}, to which no path leads"),
        way if *way == [Action::to_controller()] => {
            format!("{place}, and the controller forwards its packets (so far)")
        }
        _ => place.to_string(),
    })
}
