//! Effects of look-ups on a switch's other rules: which ones they involve, and when each may change.

use maple_wire::{Constraint, Field, Instruction, PortNo};

use super::Switch;
use super::ingress::Ingress;
use super::layout::CLASSIFIER;
use super::look_up_tables::{Involved, LeafRules, LookUps};
use crate::look_ups::{LookUpNumber, SOURCE_IS_HERE, lock};
use crate::network::Mac;
use crate::rule::{Rule, is_to_controller_only};
use crate::trace::ReadMetadata;
use crate::update::Change;

impl Switch {
    /// Returns the trace tree as text.
    pub fn tree_text(&self) -> String {
        let registers = lock(&self.ingress.look_ups.registers);
        self.tree().render_with(&|metadata| registers.describe(metadata))
    }

    /// Returns what look-ups have to do with a rule: it is of a key, marks sources, or matches what these write.
    pub fn involved(&self, table: u8, rule: &Rule) -> Involved {
        if let Some(number) = self.layout.look_up_of(table).filter(|_| rule.priority > 0) {
            return Involved { look_ups: vec![number], sources: false };
        }
        let writes = |instruction: &Instruction| matches!(instruction, Instruction::WriteMetadata { .. });
        if table == CLASSIFIER && rule.instructions.iter().any(writes) {
            return Involved { look_ups: Vec::new(), sources: true };
        }
        let read = rule.matching.get(Field::Metadata).filter(|_| table == self.layout.ingress());
        let mask = read.map_or(0, |read| read.mask as u64);
        let is_read = |number: &LookUpNumber| self.ingress.look_ups.mask(*number) & mask != 0;
        let look_ups =
            self.layout.look_ups().filter_map(|table| self.layout.look_up_of(table)).filter(is_read).collect();
        Involved { look_ups, sources: mask & SOURCE_IS_HERE != 0 }
    }

    /// Reports whether the switch has rules of keys, perhaps of an earlier run, or is to have some.
    pub fn may_have_key_rules(&self) -> bool {
        let tables = self.layout.look_ups();
        let is_of_key = |(table, rule): (u8, Rule)| tables.contains(&table) && rule.priority > 0;
        self.ingress.look_ups.are_in_use() || self.tables.installed().any(is_of_key)
    }

    /// Reports whether the switch has confirmed the rules of leaves that were sent to it, and those of their routes.
    pub fn has_confirmed_leaves(&self) -> bool {
        [self.layout.ingress(), self.layout.routes()].into_iter().all(|table| self.tables.has_confirmed(table))
    }

    /// Reports whether the switch has confirmed all that was sent to it, and the rules of leaves and keys have no
    /// changes.
    pub fn is_at_rest(&self) -> bool {
        let Ingress { table, carried, changed_actions, look_ups, .. } = &self.ingress;
        let tables = &self.tables;
        let is_confirmed = tables.is_ready() && tables.is_synchronised() && tables.has_confirmed_all();
        let has_changes = !carried.is_empty() || !changed_actions.is_empty() || table.may_have_changes();
        is_confirmed && !has_changes && !look_ups.are_changing() && self.restoring.is_none()
    }

    /// Reports whether no rule of a leaf matches what keys' rules of ended look-ups write.
    fn has_no_rules_of_ended(&self) -> bool {
        let bits = lock(&self.ingress.look_ups.registers).ended_bits();
        bits.is_none_or(|bits| self.metadata_of_rules().all(|read| read.mask & bits == 0))
    }

    /// Reports whether others may have the tables and bits of look-ups that have ended: no rule has to do with them,
    /// and the switch has confirmed that.
    pub fn may_vacate(&self) -> bool {
        let look_ups = &self.ingress.look_ups;
        if !look_ups.has_ended() || look_ups.has_keys_of_ended() || !self.is_at_rest() || !self.has_no_rules_of_ended()
        {
            return false;
        }
        let ended = look_ups.ended_tables();
        !self.tables.installed().any(|(table, rule)| rule.priority > 0 && ended.contains(&table))
    }

    /// Returns the bits of the metadata that the rules of leaves match.
    pub fn metadata_of_rules(&self) -> impl Iterator<Item = ReadMetadata> {
        let ingress = self.layout.ingress();
        let matched =
            move |(table, rule): (u8, Rule)| rule.matching.get(Field::Metadata).copied().filter(|_| table == ingress);
        let as_read = |read: Constraint| ReadMetadata { value: read.value as u64, mask: read.mask as u64 };
        self.tables.installed().filter_map(matched).map(as_read)
    }

    /// Reports whether rules of hosts have to go before the rules of leaves or keys change, because leaves may rest on
    /// where sources are.
    pub fn has_departures(&self) -> bool {
        self.ingress.look_ups.sources().is_some() && self.ports.host_rules.has_departures()
    }

    /// Returns the deletions of rules that were read and let hosts in that are not there.
    fn departures_after_reading(&self) -> Vec<Change> {
        if self.ingress.look_ups.sources().is_none() {
            return Vec::new();
        }
        let is_departed = |rule: &Rule| {
            let exact = |field| rule.matching.get(field).filter(|of| of.is_exact()).map(|of| of.value);
            let place = exact(Field::InPort).zip(exact(Field::EthSrc));
            let is_here =
                |(port, mac): (u128, u128)| self.ports.host_rules.is_present(PortNo(port as u32), Mac::from_bits(mac));
            !is_to_controller_only(&rule.instructions) && place.is_some_and(|place| !is_here(place))
        };
        let installed = self.tables.installed().filter(|(table, rule)| *table == CLASSIFIER && is_departed(rule));
        installed.map(|(_, rule)| Change::Delete(rule)).collect()
    }

    /// Takes the changes of keys' rules that may be sent now, by table, and the deletions of rules of hosts that are
    /// gone. They must be an update of their own. If the rules of the switch were read, these are compared first.
    pub fn take_look_up_changes(&mut self, leaf_rules: LeafRules) -> Vec<(u8, Vec<Change>)> {
        let mut others = Vec::new();
        if !self.tables.is_synchronised() {
            self.tables.begin_with_look_ups();
            self.ingress.look_ups.confirm();
            for table in self.layout.look_ups() {
                let installed = self.tables.installed().filter(|(of, rule)| *of == table && rule.priority > 0);
                let of_no_key = self.ingress.look_ups.learn(table, installed.map(|(_, rule)| rule).collect());
                others.push((table, LookUps::divert_others(of_no_key)));
            }
            others.push((CLASSIFIER, self.departures_after_reading()));
        }
        let departures = if self.has_departures() { self.ports.host_rules.take_departures() } else { Vec::new() };
        let leaf_rules = if departures.is_empty() { leaf_rules } else { LeafRules::Changing };
        let may_end = self.tables.has_confirmed_all() && self.has_no_rules_of_ended();
        let mut all = self.ingress.look_ups.take_changes(leaf_rules, may_end);
        others.push((CLASSIFIER, departures));
        all.extend(others.into_iter().filter(|(_, changes)| !changes.is_empty()));
        all
    }
}
