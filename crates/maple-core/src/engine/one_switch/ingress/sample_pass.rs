//! A switch's pass over the samples of the policy.

use std::time::Duration;

use crate::ids::Time;

/// The minimum time between two batches of a shard, and before a pass that follows another one at once. Chosen: so
/// short that it costs no time, and long enough that the engine handles what has come in between.
pub(in crate::engine) const BATCH_INTERVAL: Duration = Duration::from_micros(100);
/// The minimum time between the end of a pass and the next one. Chosen: a port that flaps would make a run for each
/// sample each time; until then packets are decided when they come.
const MIN_PASS_PAUSE: Duration = Duration::from_secs(10);

/// The state of a switch's pass over the samples.
#[derive(Debug, Default)]
pub(in crate::engine) struct SamplePass {
    /// The next sample; `None` between passes.
    next: Option<usize>,
    /// The time before which no pass begins.
    not_before: Time,
    /// Whether another port became an edge port during the pass.
    again: bool,
    /// Whether the pass follows another one at once.
    is_repeated: bool,
}

impl SamplePass {
    /// Begins a pass. Returns the time of its first sample, or `None` if a pass goes on, which another one follows.
    pub fn begin(&mut self) -> Option<Time> {
        if self.next.is_some() {
            self.again = true;
            return None;
        }
        self.next = Some(0);
        Some(self.not_before)
    }

    /// Returns the next sample to decide; `None` between passes.
    pub fn next(&self) -> Option<usize> {
        self.next
    }

    /// Notes that the samples before `next` are decided.
    pub fn advance(&mut self, next: usize) {
        self.next = Some(next);
    }

    /// Ends a pass. Returns when the next one begins, if another port became an edge port meanwhile.
    pub fn end(&mut self, now: Time) -> Option<Time> {
        // Ports that become edge ports together get their rules together: only the pass after that waits.
        let wait = if self.again && !self.is_repeated { BATCH_INTERVAL } else { MIN_PASS_PAUSE };
        let next = self.again.then_some(0);
        let not_before = now + wait;
        *self = SamplePass { next, not_before, again: false, is_repeated: self.again };
        next.map(|_| not_before)
    }
}
