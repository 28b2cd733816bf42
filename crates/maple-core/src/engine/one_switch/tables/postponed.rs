//! Entries at which a switch has refused something. Nothing is asked for there again before a pause is over, and pauses
//! grow.

use std::collections::BTreeSet;

use crate::engine::tools::backoff::Backoff;
use crate::ids::Time;
use crate::update::EntryKey;

/// The maximum number of entries. If more are refused, all are postponed. Chosen: a switch that refuses thousands of
/// rules refuses them for one reason, and memory is bounded.
const MAX_POSTPONED: usize = 1 << 12;

/// The postponed entries of one switch, by table.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct Postponed {
    entries: BTreeSet<(u8, EntryKey)>,
    /// The pause that all have in common.
    backoff: Backoff,
}

impl Postponed {
    /// Postpones an entry at which the switch has refused something. Returns until when.
    pub fn refuse(&mut self, now: Time, table: u8, key: EntryKey) -> Time {
        if self.backoff.is_forgotten(now) {
            self.backoff = Backoff::default();
        }
        if self.entries.is_empty() || self.backoff.is_over(now) {
            self.backoff.fail(now);
        }
        if self.entries.len() <= MAX_POSTPONED {
            self.entries.insert((table, key));
        }
        self.backoff.until()
    }

    /// Reports whether an entry is postponed.
    pub fn has(&self, table: u8, key: &EntryKey) -> bool {
        let has_too_many = self.entries.len() > MAX_POSTPONED;
        !self.entries.is_empty() && (has_too_many || self.entries.contains(&(table, key.clone())))
    }

    /// Returns the postponed entries, as far as they are known.
    pub fn entries(&self) -> impl Iterator<Item = &(u8, EntryKey)> {
        self.entries.iter()
    }

    /// Forgets all entries if the pause is over. Returns whether there were any.
    pub fn end(&mut self, now: Time) -> bool {
        self.backoff.is_over(now) && !std::mem::take(&mut self.entries).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use maple_wire::Match;

    use super::*;
    use crate::update::entry_key;

    fn key(priority: u16) -> EntryKey {
        entry_key(priority, &Match::any())
    }

    #[test]
    fn a_rule_that_is_refused_again_and_again_is_tried_once_a_minute() {
        let (mut postponed, mut now) = (Postponed::default(), Time(0));
        let mut tries = 0;
        while now < Time(600_000_000_000) {
            let until = postponed.refuse(now, 1, key(5));
            assert_eq!(postponed.refuse(now, 1, key(6)), until, "one pause for what one reading shows");
            assert!(postponed.has(1, &key(5)) && postponed.has(1, &key(6)) && !postponed.has(2, &key(5)));
            assert!(!postponed.end(Time(until.0 - 1)) && postponed.end(until) && !postponed.has(1, &key(5)));
            (now, tries) = (until, tries + 1);
        }
        assert_eq!(tries, 15);
        let later = Time(now.0 + 120_000_000_000);
        assert_eq!(postponed.refuse(later, 1, key(5)), Time(later.0 + 1_000_000_000), "after a calm time");
    }

    #[test]
    fn too_many_entries_postpone_all() {
        let mut postponed = Postponed::default();
        for n in 0..2 * MAX_POSTPONED as u16 {
            postponed.refuse(Time(0), 0, key(n));
        }
        assert!(postponed.has(7, &key(9)) && postponed.entries.len() == MAX_POSTPONED + 1);
    }
}
