//! Action sets: what a key's rule writes, and rules of leaves let act or clear (OpenFlow 1.3 §5.10).
//!
//! Where routes to a place are open, the rule of a key writes the way to the place into the action set of its packets.
//! The switch does that when no rule leads the packet to another table, so nearly all rules have to clear it. Here a
//! rule says the opposite: one that lets the set act has an instruction that writes nothing to it ([`act_on_set`]), and
//! all others do not act on it. [`ActionSets`] translates between this form and that of the switch, in both directions
//! without loss. So no other part has to know which rules clear.

use std::ops::RangeInclusive;

use maple_wire::msg::PacketIn;
use maple_wire::{Field, Instruction};

/// The tables in which packets may have an action set: from the first look-up to the ingress table. There are none if
/// the switch has no open routes.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct ActionSets(Option<RangeInclusive<u8>>);

/// Returns the instructions of a rule that lets the action set of its packets act.
pub(in crate::engine) fn act_on_set() -> Vec<Instruction> {
    vec![Instruction::WriteActions(Vec::new())]
}

fn is_mark(instruction: &Instruction) -> bool {
    matches!(instruction, Instruction::WriteActions(actions) if actions.is_empty())
}

/// Reports whether a packet-in is of a packet that has passed the tables of look-ups. Its action set may have sent it
/// to the controller. Open vSwitch reports that with the cookie of the first rule that the packet met, which may be one
/// that copies packets and lets them go on. But a copy is made before the packet has metadata.
pub(in crate::engine) fn has_passed_look_ups(packet_in: &PacketIn) -> bool {
    packet_in.pipeline.get(Field::Metadata).is_some_and(|metadata| metadata.value != 0)
}

impl ActionSets {
    /// Creates the translation for a switch where packets have action sets in these tables.
    pub fn in_tables(tables: Option<RangeInclusive<u8>>) -> ActionSets {
        ActionSets(tables)
    }

    /// Reports whether a rule takes packets that may have an action set out of these tables.
    fn ends_here(&self, table: u8, instructions: &[Instruction]) -> bool {
        let Some(tables) = self.0.as_ref().filter(|tables| tables.contains(&table)) else { return false };
        let leads_on = |instruction: &Instruction| matches!(instruction, Instruction::GotoTable(_));
        table == *tables.end() || !instructions.iter().any(leads_on)
    }

    /// Returns the instructions that the switch gets for a rule.
    pub fn to_switch(&self, table: u8, mut instructions: Vec<Instruction>) -> Vec<Instruction> {
        if !self.ends_here(table, &instructions) {
            return instructions;
        }
        match instructions.iter().position(is_mark) {
            Some(at) => drop(instructions.remove(at)),
            None => instructions.insert(place(&instructions), Instruction::ClearActions),
        }
        instructions
    }

    /// Returns the instructions of a rule that the switch has with these.
    pub fn of_switch(&self, table: u8, mut instructions: Vec<Instruction>) -> Vec<Instruction> {
        if !self.ends_here(table, &instructions) {
            return instructions;
        }
        match instructions.iter().position(|instruction| *instruction == Instruction::ClearActions) {
            Some(at) => drop(instructions.remove(at)),
            None => instructions.insert(place(&instructions), Instruction::WriteActions(Vec::new())),
        }
        instructions
    }
}

/// Returns the place of an instruction about the action set, in the order in which switches carry instructions out.
fn place(instructions: &[Instruction]) -> usize {
    let comes_before =
        |instruction: &Instruction| matches!(instruction, Instruction::Meter(_) | Instruction::ApplyActions(_));
    instructions.iter().take_while(|instruction| comes_before(instruction)).count()
}

#[cfg(test)]
mod tests {
    use maple_wire::{Action, PortNo};

    use super::*;
    use crate::rule::to_controller;

    const INGRESS: u8 = 3;

    fn sets() -> ActionSets {
        ActionSets::in_tables(Some(1..=INGRESS))
    }

    #[test]
    fn rules_clear_the_action_set_unless_they_let_it_act() {
        let output = Instruction::ApplyActions(vec![Action::output(PortNo(1))]);
        let clear = Instruction::ClearActions;
        let at_switch = |instructions: &[Instruction]| sets().to_switch(INGRESS, instructions.to_vec());
        assert_eq!(at_switch(&[]), std::slice::from_ref(&clear));
        assert_eq!(at_switch(&act_on_set()), []);
        assert_eq!(at_switch(&[Instruction::Meter(1), output.clone()]), [Instruction::Meter(1), output, clear.clone()]);
        let carry = Instruction::WriteMetadata { metadata: 7, mask: u64::MAX };
        let to_routes = Instruction::GotoTable(INGRESS + 2);
        assert_eq!(at_switch(&[carry.clone(), to_routes.clone()]), [clear, carry, to_routes]);
    }

    #[test]
    fn a_look_up_that_leads_on_keeps_the_set_and_one_that_asks_clears_it() {
        let leads_on = vec![Instruction::WriteActions(vec![Action::output(PortNo(1))]), Instruction::GotoTable(2)];
        assert_eq!(sets().to_switch(1, leads_on.clone()), leads_on);
        let asks = to_controller().to_vec();
        assert_eq!(sets().to_switch(1, asks.clone()), [asks, vec![Instruction::ClearActions]].concat());
    }

    #[test]
    fn rules_that_are_read_are_those_that_were_sent() {
        let output = Instruction::ApplyActions(vec![Action::output(PortNo(1))]);
        let forms = [vec![], act_on_set(), vec![output.clone()], vec![output, Instruction::GotoTable(INGRESS + 2)]];
        for (table, form) in (0..=INGRESS + 2).flat_map(|table| forms.iter().map(move |form| (table, form))) {
            let sent = sets().to_switch(table, form.clone());
            assert_eq!(sets().of_switch(table, sent), *form, "in table {table}");
            let read = sets().of_switch(table, form.clone());
            assert_eq!(sets().to_switch(table, read), *form, "in table {table}");
            assert_eq!(ActionSets::default().to_switch(table, form.clone()), *form);
        }
    }
}
