//! How long whoever was refused something waits before the next try: twice as long each time, and about a minute at
//! most.

use std::time::Duration;

use super::Time;

/// The first pause, and the longest one.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(64);

/// The n-th pause in a row, the first being number 0, of pauses that begin with `first` and end with `longest`.
pub(super) fn pause(n: u32, first: Duration, longest: Duration) -> Duration {
    first.saturating_mul(1_u32.checked_shl(n).unwrap_or(u32::MAX)).min(longest)
}

/// Tries that failed in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Backoff {
    failed: u32,
    until: Time,
}

impl Backoff {
    /// One more try has failed. Returns when the next one may be made.
    pub fn fail(&mut self, now: Time) -> Time {
        self.until = now + pause(self.failed, FIRST, LONGEST);
        self.failed = self.failed.saturating_add(1);
        self.until
    }

    /// How many have failed in a row.
    pub fn failures(&self) -> u32 {
        self.failed
    }

    /// Whether a try may be made now. If so, it counts as failed until so much time has passed that it is forgotten.
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

    /// When the next try may be made.
    pub fn until(&self) -> Time {
        self.until
    }

    /// Whether a try may be made.
    pub fn is_over(&self, now: Time) -> bool {
        self.until <= now
    }

    /// Whether so much time has passed since the last pause that a failure would be the first of others.
    pub fn is_forgotten(&self, now: Time) -> bool {
        self.until + LONGEST <= now
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
        assert!(backoff.is_forgotten(now + LONGEST));
        assert_eq!(pause(200, FIRST, LONGEST), LONGEST);
    }
}
