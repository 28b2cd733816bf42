//! Wrong tokens, counted by address.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::log::Source;

/// The number of wrong tokens after which an address is locked out. Chosen: a person who mistypes has some attempts
/// left, and ten a minute never guess a token of 16 characters.
const MAX_FAILURES: u32 = 10;
/// The maximum number of addresses that are counted one by one. Chosen: a bound on memory that only somebody with
/// thousands of addresses reaches.
const REMEMBERED: usize = 4096;

/// The wrong tokens of the last minute, by address. Beyond [`REMEMBERED`] addresses the further ones share a count.
#[derive(Debug, Default)]
pub(super) struct Failures {
    counts: Mutex<FxHashMap<Source, (u32, Instant)>>,
}

impl Failures {
    /// The time for which wrong tokens count. Chosen: a person waits it out, and a program that guesses gets
    /// [`MAX_FAILURES`] attempts in it.
    pub const LOCKED_OUT: Duration = Duration::from_secs(60);

    /// Reports whether too many wrong tokens came from this address.
    pub fn is_locked_out(&self, ip: IpAddr, now: Instant) -> bool {
        let counts = self.counts.lock();
        let is_over =
            |of: Source| counts.get(&of).is_some_and(|count| count.0 >= MAX_FAILURES && is_recent(count, now));
        let own = Source::address(ip);
        is_over(own) || (!counts.contains_key(&own) && is_over(Source::Others))
    }

    /// Counts a wrong token. Returns whether the address is locked out from now on.
    pub fn count(&self, ip: IpAddr, now: Instant) -> bool {
        let mut counts = self.counts.lock();
        let mut source = Source::address(ip);
        if counts.len() >= REMEMBERED && !counts.contains_key(&source) {
            counts.retain(|_, count| is_recent(count, now));
            if counts.len() >= REMEMBERED {
                source = Source::Others;
            }
        }
        let count = counts.entry(source).or_insert((0, now));
        if !is_recent(count, now) {
            *count = (0, now);
        }
        count.0 += 1;
        count.0 == MAX_FAILURES
    }
}

fn is_recent(count: &(u32, Instant), now: Instant) -> bool {
    now.saturating_duration_since(count.1) < Failures::LOCKED_OUT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_locked_out_for_a_minute_and_others_are_not() {
        let (failures, begin) = (Failures::default(), Instant::now());
        let [one, other] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
        let ends: Vec<bool> = (0..MAX_FAILURES).map(|_| failures.count(one, begin)).collect();
        assert_eq!(ends.iter().filter(|locks_out| **locks_out).count(), 1);
        assert!(failures.is_locked_out(one, begin) && !failures.is_locked_out(other, begin));
        let later = begin + Failures::LOCKED_OUT;
        assert!(!failures.is_locked_out(one, later) && !failures.count(one, later));
    }

    #[test]
    fn addresses_beyond_those_that_are_remembered_share_a_count() {
        let (failures, now) = (Failures::default(), Instant::now());
        for number in 0..REMEMBERED as u32 {
            failures.count(IpAddr::from(number.to_be_bytes()), now);
        }
        let new = |number: u32| IpAddr::from((number | 1 << 31).to_be_bytes());
        assert_eq!((0..MAX_FAILURES).filter(|number| failures.count(new(*number), now)).count(), 1);
        assert!(failures.is_locked_out(new(1 << 20), now));
        assert!(!failures.is_locked_out(IpAddr::from([0, 0, 0, 1]), now), "it has a count of its own");
        assert!(failures.counts.lock().len() <= REMEMBERED + 1);
    }
}
