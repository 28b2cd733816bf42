//! The compiler of a trace tree to prioritised rules (paper §4.1 and §4.3).
//!
//! [`RuleTable`] is what drives a switch. It owns the tree and follows it edit by edit: `incremental/` turns an edit of
//! the tree into an edit of a few entries, `entries/` keeps the entries and says which of them are rules.
//! `docs/algorithm.md` explains what they do and why.

use maple_wire::{Constraint, Instruction};

mod rule_table;

mod incremental;

mod entries;
mod tuning;

pub use rule_table::{RuleTable, TableBackend, TableTarget};
pub use tuning::Tuning;

/// The action of the switch for a leaf's packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeafAction {
    /// Applies these instructions. An empty list drops them.
    Apply(Vec<Instruction>),
    /// Applies these instructions to its packets that fit the constraint, and sends the others to the controller.
    ApplyTo(Constraint, Vec<Instruction>),
    /// Sends the packets to the controller.
    Controller,
}
