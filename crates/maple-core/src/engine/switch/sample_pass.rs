//! A switch's pass over the samples of the policy.

use crate::ids::Time;

/// The state of a switch's pass over the samples.
#[derive(Debug, Default)]
pub(in crate::engine) struct Proactive {
    /// The next sample; `None` between passes.
    pub next: Option<usize>,
    /// The time before which no pass begins.
    pub not_before: Time,
    /// Whether another port became an edge port during the pass.
    pub again: bool,
    /// Whether the pass follows another one at once.
    pub is_repeated: bool,
}
