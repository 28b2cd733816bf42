//! The ways to the places that an open look-up finds: one decision is for all of them, and the rules of keys say where
//! each leads.

use std::sync::Arc;

use maple_wire::{Action, Field, Instruction};

use super::{LookUpRules, LookUps};
use crate::engine::one_switch::layout::Layout;
use crate::look_ups::{KeyBits, KeyRules, KeyWays, LookUp, OpenPaths, lock};
use crate::network::{Location, Mac};
use crate::rule::Rule;
use crate::trace::Fields;

impl LookUps {
    /// Lets the rules of keys say the ways to their places, for look-ups that runs have opened.
    pub fn open_ways(&mut self) {
        let registers = lock(&self.registers);
        for (number, of) in self.in_use.iter_mut().enumerate() {
            if registers.open_paths(number).is_some() && !of.rules.is_ending() {
                of.rules.open_ways();
            }
        }
    }

    /// Returns the look-up that one decision asks for all places, with the paths that this decision follows. Its rules of
    /// keys say the ways. There is at most one, since only one field is the destination of packets.
    pub fn open(&self) -> Option<(usize, LookUp, OpenPaths)> {
        let registers = lock(&self.registers);
        let open = |(number, of): (usize, &LookUpRules)| {
            let paths = registers.open_paths(number).filter(|_| of.rules.has_ways())?;
            Some((number, of.rules.look_up().clone(), paths.clone()))
        };
        self.in_use.iter().enumerate().find_map(open)
    }

    /// Reports whether runs have asked the open look-up for other paths.
    pub fn has_refused_paths(&self, number: usize) -> bool {
        lock(&self.registers).has_refused_paths(number)
    }

    /// Lets other paths have the open look-up ([`crate::look_ups::Registers::close`]). No way is wanted any more. Returns
    /// the bits of the metadata that say the places.
    pub fn close_paths(&mut self, number: usize) -> u64 {
        self.changes += 1;
        self.ways_mut().into_iter().for_each(KeyWays::unwant_all);
        lock(&self.registers).close(number)
    }

    fn ways(&self) -> Option<&KeyWays> {
        self.in_use.iter().find_map(|of| of.rules.ways())
    }

    fn ways_mut(&mut self) -> Option<&mut KeyWays> {
        self.in_use.iter_mut().find_map(|of| of.rules.ways_mut())
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
        let mut open = self.in_use.iter_mut().filter(|of| of.rules.has_ways());
        open.next().is_some_and(|of| of.rules.set_way(place, way))
    }

    /// Reports whether the switch takes packets to a place along a way, or does so when its rules have changed.
    pub fn is_way_ready(&self, place: Location) -> bool {
        self.ways().is_some_and(|ways| ways.is_ready(place))
    }

    /// Returns the number of places that keys of the open look-up have and to which no way is ready.
    pub fn count_unready_ways(&self) -> usize {
        self.open().and_then(|_| self.ways()).map_or(0, KeyWays::count_unready)
    }

    /// Notes that the switch has refused the actions of a key's rule in a table. Returns whether rules have to change.
    pub fn refuse_way(&mut self, table: u8, rule: &Rule) -> bool {
        let mut open = self.in_use.iter_mut().filter(|of| of.rules.has_ways() && of.rules.table() == table);
        open.next().is_some_and(|of| of.rules.refuse_way(rule))
    }

    /// Returns the place that the open look-up finds for a packet.
    pub fn open_place<P: Fields + ?Sized>(&self, packet: &P) -> Option<Location> {
        self.in_use.iter().find(|of| of.rules.has_ways())?.rules.place_of(packet)
    }

    /// Returns the host whose key has a rule of an earlier run, if that rule says the way to it, or that there is none.
    pub fn host_with_way(&self, layout: Layout, table: u8, rule: &Rule) -> Option<Mac> {
        let number = table.checked_sub(layout.look_ups().start).filter(|_| layout.look_ups().contains(&table))?;
        let registers = lock(&self.registers);
        registers.open_paths(usize::from(number))?;
        let leads_on = rule.instructions.iter().any(|of| matches!(of, Instruction::GotoTable(_)));
        let address = rule.matching.get(Field::EthDst).filter(|of| of.is_exact() && leads_on)?;
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
