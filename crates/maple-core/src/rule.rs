//! A flow rule: what compilers make, switches hold and updates change.

use std::ops::RangeInclusive;
use std::sync::Arc;

use maple_wire::{Action, Instruction, Match, PortNo};

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

/// The priorities of compiled rules: with one table, they are between the engine's own.
pub(crate) const COMPILED: RangeInclusive<u16> = 3..=65000;

/// What barrier rules do: send packets to the controller.
pub(crate) fn to_controller() -> Arc<[Instruction]> {
    Arc::new([Instruction::ApplyActions(vec![Action::to_controller()])])
}

/// Whether a rule does what barrier rules do.
pub(crate) fn is_to_controller_only(instructions: &[Instruction]) -> bool {
    let [Instruction::ApplyActions(actions)] = instructions else { return false };
    matches!(actions[..], [Action::Output { port: PortNo::CONTROLLER, .. }])
}
