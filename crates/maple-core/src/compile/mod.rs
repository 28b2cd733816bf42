//! From a trace tree to prioritised rules.

use std::ops::RangeInclusive;

use maple_wire::{Constraint, Instruction, Match};

use crate::capabilities::Capabilities;
use crate::tree::{LeafId, Tree};

mod region;

pub(crate) use region::Region;

/// A flow rule in no protocol's format.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Higher wins.
    pub priority: u16,
    /// Which packets, with all prerequisites stated, in OXM order.
    pub matching: Match,
    /// What to do with them. None is to drop.
    pub instructions: Vec<Instruction>,
    /// Leads back to the leaf.
    pub cookie: u64,
}

/// What the switch shall do with a leaf's packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeafAction {
    /// These instructions; none is to drop.
    Apply(Vec<Instruction>),
    /// Send them to the controller.
    Controller,
}

/// Compiles one switch's tree.
#[derive(Debug, Default)]
pub struct Compiler {}

impl Compiler {
    /// A compiler that has seen no tree.
    pub fn new() -> Compiler {
        Compiler::default()
    }

    /// The rules for the packets that fit `under`, with priorities from `priorities`.
    #[allow(clippy::too_many_arguments)]
    pub fn compile(
        &mut self,
        tree: &Tree,
        under: &[Constraint],
        capabilities: &Capabilities,
        priorities: RangeInclusive<u16>,
        leaf: &dyn Fn(LeafId) -> LeafAction,
        cookie: &dyn Fn(Option<LeafId>) -> u64,
    ) -> Vec<Rule> {
        let _ = (tree, under, capabilities, priorities, leaf, cookie, Region::any());
        Vec::new()
    }
}
