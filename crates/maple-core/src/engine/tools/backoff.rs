//! Pauses before a refused request is tried again: each is twice as long as the one before, and at most about a minute.

use std::time::Duration;

use crate::ids::Time;

/// The first pause. Chosen: a peer that was busy for a moment is asked again soon, and one that always refuses costs at
/// most one request a second.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The maximum pause: each one is twice as long as the one before. Chosen: a peer that recovers is noticed within about
/// a minute, and the pauses get there in six failures.
const MAX_PAUSE: Duration = Duration::from_secs(64);

/// Returns the n-th pause in a row, counted from 0. Pauses begin with `first`, double each time, and are at most
/// `longest`.
pub(in crate::engine) fn pause(n: u32, first: Duration, longest: Duration) -> Duration {
    first.saturating_mul(1_u32.checked_shl(n).unwrap_or(u32::MAX)).min(longest)
}

/// The attempts that failed in a row, and the time of the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) struct Backoff {
    failed: u32,
    until: Time,
}

impl Backoff {
    /// Records one more failed attempt. Returns when the next one may be made.
    pub fn fail(&mut self, now: Time) -> Time {
        self.until = now + pause(self.failed, FIRST_PAUSE, MAX_PAUSE);
        self.failed = self.failed.saturating_add(1);
        self.until
    }

    /// Returns the number of attempts that failed in a row.
    pub fn failures(&self) -> u32 {
        self.failed
    }

    /// Reports whether an attempt may be made at the time `now`. If so, counts it as failed until it is forgotten.
    pub fn take_try(&mut self, now: Time) -> bool {
        if self.is_forgotten(now) {
            *self = Backoff::default();
        }
        let may_try = self.is_over(now);
        if may_try {
            self.fail(now);
        }
        may_try
    }

    /// Returns the time at which the next attempt may be made.
    pub fn until(&self) -> Time {
        self.until
    }

    /// Reports whether an attempt may be made at the time `now`.
    pub fn is_over(&self, now: Time) -> bool {
        self.until <= now
    }

    /// Reports whether the last pause ended so long ago that the next failure counts as the first.
    pub fn is_forgotten(&self, now: Time) -> bool {
        self.until + MAX_PAUSE <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_about_a_minute() {
        let (mut backoff, mut now) = (Backoff::default(), Time(0));
        let seconds = [1, 2, 4, 8, 16, 32, 64, 64].map(|_| {
            let until = backoff.fail(now);
            assert!(!backoff.is_over(now) && backoff.is_over(until) && !backoff.is_forgotten(until));
            let pause = until.0 - now.0;
            now = until;
            pause / 1_000_000_000
        });
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 64]);
        assert!(backoff.is_forgotten(now + MAX_PAUSE));
        assert_eq!(pause(200, FIRST_PAUSE, MAX_PAUSE), MAX_PAUSE);
    }
}
