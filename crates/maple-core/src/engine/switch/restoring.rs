//! A switch that keeps the rules of an earlier run until it is restored.

use std::collections::VecDeque;
use std::time::Duration;

use maple_wire::Constraint;

use crate::ids::Time;
use crate::labels::LabelKey;
use crate::remembered::Witness;

/// The state of a switch that keeps the rules of an earlier run until it is restored.
pub(in crate::engine) struct Restoring {
    /// The leaves to decide.
    pub todo: VecDeque<Witness>,
    /// The number of leaves that are decided in a step.
    pub batch: usize,
    /// The labels that the earlier run gave out at this switch.
    pub labels: Vec<LabelKey>,
    /// When the switch's rules became known, from itself or from the previous controller.
    pub read: Option<Time>,
    /// Whether the switch has reported its rules itself.
    pub is_confirmed: bool,
    /// The leaves to decide after the switch has reported its rules itself.
    pub later: Vec<Witness>,
    /// The matches and priorities of the earlier run's rules. The new table takes these priorities where it can.
    pub preferred: Vec<(Vec<Constraint>, u16)>,
    /// When the last leaf was decided.
    pub decided: Option<Time>,
    /// Whether the table was compiled.
    pub is_built: bool,
    /// When the switch stops waiting for labels; `None` before the leaves of all switches are decided and their rules
    /// known.
    pub until: Option<Time>,
    /// The number of runs that may still be repeated.
    pub repeats_left: usize,
    /// When the switch looks again whether the others are ready.
    pub next_look: Time,
}

impl Restoring {
    /// Reports whether the switch, or the previous controller, has reported its rules.
    pub fn are_rules_known(&self) -> bool {
        self.read.is_some()
    }
}

/// How often a switch looks whether the other switches are ready too.
pub(in crate::engine) const LOOK: Duration = Duration::from_millis(1);
