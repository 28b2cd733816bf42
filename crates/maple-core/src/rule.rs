//! A flow rule: compilers make it, switches hold it, and updates change it.

use std::ops::RangeInclusive;
use std::sync::Arc;

use maple_wire::{Action, Instruction, Match, PortNo};
use serde::{Deserialize, Serialize};

/// A flow rule, independent of the protocol's format.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rule {
    /// The priority; the matching rule with the highest one decides.
    pub priority: u16,
    /// The packets that the rule takes, with all prerequisites stated, in OXM order.
    pub matching: Match,
    /// The instructions for these packets. An empty list drops them.
    pub instructions: Arc<[Instruction]>,
    /// The number that leads back to the leaf.
    pub cookie: u64,
}

/// The range of priorities of compiled rules. With one table, the engine's own rules have those below and above: two
/// for unknown and known hosts, and 535 for labels, announcements and discovery.
pub(crate) const COMPILED: RangeInclusive<u16> = 3..=65000;

/// Returns the instructions of barrier rules: send packets to the controller.
pub fn to_controller() -> Arc<[Instruction]> {
    Arc::new([Instruction::ApplyActions(vec![Action::to_controller()])])
}

/// Reports whether a rule does exactly what barrier rules do.
pub(crate) fn is_to_controller_only(instructions: &[Instruction]) -> bool {
    let [Instruction::ApplyActions(actions)] = instructions else { return false };
    matches!(actions[..], [Action::Output { port: PortNo::CONTROLLER, .. }])
}
