//! Queries about the rules that the switch has, and those to come: counts, and rules by packet or entry.

use maple_wire::{Field, Instruction};

use super::{Tables, Unconfirmed};
use crate::rule::Rule;
use crate::update::{Change, EntryKey, key_of};

impl Tables {
    /// Returns the number of rules in a table, or in all.
    pub fn count(&self, table: Option<u8>) -> usize {
        let counted = self.installed.iter().filter(|(id, _)| table.is_none_or(|table| table == **id));
        counted.map(|(_, installed)| installed.len()).sum()
    }

    /// Returns the number of rules by table, and how many of all are barrier rules.
    pub fn counts(&self) -> (Vec<(u8, u64)>, u64) {
        let tables = self.installed.iter();
        let rules = tables.clone().map(|(table, installed)| (*table, installed.len() as u64)).collect();
        (rules, tables.map(|(_, installed)| installed.barrier_rules() as u64).sum())
    }

    /// Returns the number of pending additions in a table, or in all.
    pub fn additions(&self, table: Option<u8>) -> usize {
        let chosen = self.pending.iter().filter(|(id, _)| table.is_none_or(|table| table == **id));
        chosen.map(|(table, pending)| pending.additions(self.installed.get(table))).sum()
    }

    /// Returns the rules of the switch, by table and descending priority.
    pub fn installed(&self) -> impl Iterator<Item = (u8, Rule)> {
        self.installed.iter().flat_map(|(table, installed)| installed.rules().into_iter().map(|rule| (*table, rule)))
    }

    /// Returns the rule of a table that takes a packet with these fields.
    pub fn find(&self, table: u8, value: &dyn Fn(Field) -> Option<u128>) -> Option<Rule> {
        self.installed.get(&table)?.find(value)
    }

    /// Returns the cookie that the switch reports for a rule that it has.
    pub fn reported_cookie(&self, table: u8, rule: &Rule) -> Option<u64> {
        Some(self.installed.get(&table)?.get(&key_of(rule))?.reported)
    }

    /// Reports whether the switch has rules in a table and has confirmed all that was sent for it.
    pub fn is_confirmed(&self, table: u8) -> bool {
        self.count(Some(table)) > 0 && self.has_confirmed(table)
    }

    /// Reports whether the switch has confirmed all changes that were sent for a table.
    pub fn has_confirmed(&self, table: u8) -> bool {
        let is_of_it =
            |(_, sent): &(u32, Unconfirmed)| matches!(sent, Unconfirmed::FlowMod { table: of, .. } if *of == table);
        !self.sent.unconfirmed.iter().any(is_of_it)
    }

    /// Reports whether rules were added that the switch may still refuse.
    pub(super) fn has_unconfirmed_additions(&self) -> bool {
        let is_addition =
            |(_, sent): &(u32, Unconfirmed)| matches!(sent, Unconfirmed::FlowMod { change: Change::Add(_), .. });
        self.sent.unconfirmed.iter().any(is_addition)
    }

    /// Reports whether a table has this entry with these instructions.
    pub fn has_instructions(&self, table: u8, key: &EntryKey, instructions: &[Instruction]) -> bool {
        let installed_rule = self.installed.get(&table).and_then(|installed| installed.get(key));
        installed_rule.is_some_and(|installed_rule| installed_rule.has_instructions(instructions))
    }

    /// Reports whether the next update may change something in a table.
    pub fn is_about_to_change(&self, table: u8) -> bool {
        self.pending.get(&table).is_some_and(|pending| !pending.is_empty())
    }
}
