//! Descriptions for people of the look-ups of a switch.

use maple_wire::{Constraint, Field, Instruction, Match};

use super::{LookUps, ways};
use crate::engine::one_switch::layout::Layout;
use crate::look_ups::{LookUp, lock};
use crate::report::Lowered;
use crate::rule::Rule;
use crate::trace::{Item, ReadMetadata, Trace};

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

impl LookUps {
    /// Describes the look-ups: first those that have tables, in the order of these.
    pub fn status(&self, layout: Layout) -> Vec<LookUpStatus> {
        let registers = lock(&self.registers);
        let in_use = || registers.look_ups().filter(|(number, _)| !registers.has_ended(*number));
        let table_of = |look_up: &LookUp| {
            let number = in_use().find(|(_, of)| *of == look_up).map(|(number, _)| number);
            number.map(|number| layout.table_of(number))
        };
        let status = |look_up: &LookUp, lowered| LookUpStatus {
            look_up: look_up.to_string(),
            table: table_of(look_up),
            lowered,
        };
        let with_table = in_use().map(|(_, look_up)| status(look_up, None));
        let lowered = registers.lowered().map(|(look_up, why)| status(look_up, Some(why)));
        with_table.chain(lowered).collect()
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

    /// Returns the purpose of a key's rule, in words: the table, the key, and what it has there. `None` if the rule is
    /// of no key.
    pub fn describe_key(&self, table: u8, rule: &Rule) -> Option<String> {
        let rules = self.key_rules().find(|rules| rules.table() == table)?;
        let key = rules.key_of(rule)?;
        let registers = lock(&self.registers);
        let written = rule.instructions.iter().find_map(|instruction| match instruction {
            Instruction::WriteMetadata { metadata, mask } => Some((*metadata, *mask)),
            _ => None,
        });
        let found = match (written, ways::describe_way(rules, &key, rule)) {
            (Some(_), Some(place_and_way)) => place_and_way,
            (Some((metadata, mask)), None) => registers.found_by(rules.look_up(), metadata, mask),
            (None, _) => "not confirmed, so the controller decides".to_owned(),
        };
        Some(format!("maple: {} for {}: {found}", rules.look_up(), rules.look_up().key_text(&key)))
    }
}
