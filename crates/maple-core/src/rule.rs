//! A flow rule: what compilers make, switches hold and updates change.

use std::sync::Arc;

use maple_wire::{Action, Instruction, Match};

/// A flow rule, independent of the protocol's format.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Higher wins.
    pub priority: u16,
    /// Which packets it takes, with all prerequisites stated, in OXM order.
    pub matching: Match,
    /// What to do with them. An empty list drops them.
    pub instructions: Arc<[Instruction]>,
    /// Leads back to the leaf.
    pub cookie: u64,
}

/// What barrier rules do: send packets to the controller.
pub(crate) fn to_controller() -> Arc<[Instruction]> {
    Arc::new([Instruction::ApplyActions(vec![Action::to_controller()])])
}
