//! Rules that we have deleted, for as long as the switch may report their removal.
//!
//! A switch that reports removals also reports the deletions that we asked for, and Open vSwitch does so after the
//! barrier reply. By then we may have added the same rule again. So each deletion explains one such report, for a
//! while.

use std::collections::VecDeque;
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::engine::tools::expected::Expected;
use crate::ids::Time;
use crate::update::EntryKey;

/// The time after a deletion within which the switch may report it. Chosen: a report that comes later than that is
/// taken for somebody else's deletion, and the rule is sent again, which costs a flow-mod.
const REPORT_WINDOW: Duration = Duration::from_secs(5);

/// The maximum number of deletions that are remembered for a switch. A further one replaces the oldest. Chosen: more
/// than a switch deletes in [`REPORT_WINDOW`] in most networks, and a bound on memory.
const MAX_REMEMBERED: usize = 1 << 16;

/// A rule as a flow-removed message names it: table, cookie, priority and match.
pub(super) type Removal = (u8, u64, EntryKey);

/// The deletions of one switch.
#[derive(Clone, Debug, Default)]
pub(super) struct Removals {
    /// The deletions in the order in which they were made, each with its expiry.
    queue: VecDeque<QueuedRemoval>,
    /// The counts of each deletion that is in the queue.
    counts: FxHashMap<Removal, RemovalCounts>,
}

#[derive(Clone, Debug)]
struct QueuedRemoval {
    until: Time,
    removal: Removal,
}

#[derive(Clone, Copy, Debug, Default)]
struct RemovalCounts {
    /// The number of times that the deletion is in the queue.
    queued: u32,
    /// How many of these have not been reported.
    open: u32,
}

impl Removals {
    /// Notes that we delete a rule.
    pub fn expect(&mut self, now: Time, removal: Removal) {
        self.forget_old(now);
        if self.queue.len() >= MAX_REMEMBERED {
            self.forget_first();
        }
        let counts = self.counts.entry(removal.clone()).or_default();
        counts.queued += 1;
        counts.open += 1;
        self.queue.push_back(QueuedRemoval { until: now + REPORT_WINDOW, removal });
    }

    /// Handles the report of a removal. Returns whether we deleted the rule.
    pub fn take_expected(&mut self, now: Time, removal: &Removal) -> bool {
        self.forget_old(now);
        let Some(counts) = self.counts.get_mut(removal).filter(|counts| counts.open > 0) else { return false };
        counts.open -= 1;
        true
    }

    fn forget_old(&mut self, now: Time) {
        while self.queue.front().is_some_and(|first| first.until <= now) {
            self.forget_first();
        }
    }

    /// Forgets the oldest deletion.
    fn forget_first(&mut self) {
        let Some(QueuedRemoval { removal, .. }) = self.queue.pop_front() else { return };
        let Some(counts) = self.counts.get_mut(&removal).expected() else { return };
        counts.queued -= 1;
        counts.open = counts.open.min(counts.queued);
        if counts.queued == 0 {
            self.counts.remove(&removal);
        }
    }
}

#[cfg(test)]
mod tests {
    use maple_wire::Match;

    use super::*;
    use crate::update::entry_key;

    fn removal(cookie: u64) -> Removal {
        (1, cookie, entry_key(7, &Match::any()))
    }

    #[test]
    fn each_deletion_explains_one_report_for_a_while() {
        let mut removals = Removals::default();
        let second = |n: u64| Time(n * 1_000_000_000);
        [1, 2].into_iter().for_each(|n| removals.expect(second(n), removal(1)));
        let expected = |removals: &mut Removals, now, cookie| removals.take_expected(second(now), &removal(cookie));
        assert_eq!([1, 1, 1, 2].map(|cookie| expected(&mut removals, 3, cookie)), [true, true, false, false]);
        [3, 4].into_iter().for_each(|n| removals.expect(second(n), removal(1)));
        assert_eq!([8, 8, 9].map(|now| expected(&mut removals, now, 1)), [true, false, false]);
        assert!(removals.queue.is_empty() && removals.counts.is_empty());
    }

    #[test]
    fn the_number_of_remembered_deletions_is_bounded() {
        let mut removals = Removals::default();
        (0..3 * MAX_REMEMBERED as u64).for_each(|cookie| removals.expect(Time(1), removal(cookie)));
        assert_eq!((removals.queue.len(), removals.counts.len()), (MAX_REMEMBERED, MAX_REMEMBERED));
    }
}
