//! The timeline's own time, which never goes back, whatever happens to the system's clock.
//!
//! Entries have the time of the system's clock plus `ahead`. When the clock is set back, `ahead` grows by as much, so
//! time goes on where it was. When it is set forward later, `ahead` shrinks first. People are shown times without
//! `ahead`, so by the present clock: what was kept before a clock was set back is moved by as much. A clock that is set
//! forward by hours leaves a gap, since a machine that was suspended looks the same. One that jumps by more than a day
//! leaves none, or the jump would end the whole day.

use std::collections::VecDeque;

use super::entry::Pause;

/// The maximum difference of the clock from the time that has passed, in milliseconds, that counts as right. Chosen:
/// NTP corrects less than that without a jump, and the timeline shows minutes.
const SLACK: u64 = 2000;
/// The time between two looks, in milliseconds, from which on the controller was held up. It must exceed the longest
/// rest between two looks, five seconds, by far.
pub(super) const HELD: u64 = 30_000;
/// A day, in milliseconds.
const DAY: u64 = 24 * 3_600_000;

/// The difference that the two clocks may drift apart until that is noted, in milliseconds. Chosen: people do not see
/// it in a timeline, and an ordinary clock takes minutes for it.
pub(super) const DRIFT: u64 = 20;
/// The maximum number of notes of drift. Further ones replace the oldest. Chosen: a bound on memory that a clock which
/// is corrected all day does not reach.
const MAX_DRIFT_NOTES: usize = 10_000;

/// The times of two clocks, in milliseconds: that of the day, since 1970, and that of the run, which is never set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    pub wall: u64,
    pub passed: u64,
}

/// The maximum time within which both clocks are read, in milliseconds. Chosen: far below [`SLACK`], and long for two
/// calls of the system, unless the thread was held up between them.
const AT_ONCE: u64 = 100;
/// The maximum number of attempts to read both clocks within [`AT_ONCE`]. Chosen: a system that holds a thread up ten
/// times in a row does so always.
const TRIES: usize = 10;

impl Reading {
    /// Reads both clocks, again if something held that up: they are to be of one moment.
    pub fn take(mut passed: impl FnMut() -> u64, mut wall: impl FnMut() -> u64) -> Reading {
        let mut before = passed();
        let mut tries = TRIES;
        loop {
            let (wall, after) = (wall(), passed());
            tries -= 1;
            if after.saturating_sub(before) <= AT_ONCE || tries == 0 {
                return Reading { wall, passed: after };
            }
            before = after;
        }
    }
}

/// A time that goes forward only.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OrderedClock {
    /// The milliseconds by which this time is ahead of the system's clock; less than zero if it is behind.
    ahead: i64,
    /// The latest time.
    now: u64,
    before: Option<Reading>,
}

impl OrderedClock {
    /// Continues the clock of an earlier run, from its offset and its last time.
    pub fn resume(ahead: i64, now: u64) -> OrderedClock {
        OrderedClock { ahead, now, before: None }
    }

    /// Reads the time. Also returns the reason if the clock did not advance continuously.
    pub fn read(&mut self, reading: Reading) -> (u64, Option<Pause>) {
        let pause = match self.before.replace(reading) {
            None => self.start(reading.wall),
            Some(before) => self.go_on(before, reading),
        };
        self.now = self.now.max(self.own(reading.wall));
        (self.now, pause)
    }

    fn start(&mut self, wall: u64) -> Option<Pause> {
        if self.now == 0 {
            return Some(Pause::Stopped);
        }
        let (last, own) = (self.now, self.own(wall));
        if own <= last {
            // This run comes after what is kept, so it has later times.
            let by = (last - own + 1) as i64;
            self.ahead += by;
            return Some(if by > SLACK as i64 { Pause::Clock(-by) } else { Pause::Stopped });
        }
        // Nothing was kept for that long, or the clock had been set back and is right again.
        if own - last > DAY {
            self.ahead -= self.ahead.clamp(0, (own - last) as i64);
        }
        Some(Pause::Stopped)
    }

    fn go_on(&mut self, before: Reading, reading: Reading) -> Option<Pause> {
        let passed = reading.passed.saturating_sub(before.passed);
        let jump = reading.wall as i64 - before.wall as i64 - passed as i64;
        let expected = self.now + passed;
        if jump > SLACK as i64 {
            let undone = self.ahead.clamp(0, jump);
            self.ahead -= undone;
            if jump - undone > DAY as i64 {
                self.ahead -= jump - undone;
            }
            Some(Pause::Clock(jump))
        } else if self.own(reading.wall) + SLACK < expected {
            let by = (expected - self.own(reading.wall)) as i64;
            self.ahead += by;
            Some(Pause::Clock(-by))
        } else {
            (passed > HELD).then_some(Pause::Held)
        }
    }

    /// Returns how far this time is ahead of the system's clock.
    pub fn ahead(&self) -> i64 {
        self.ahead
    }

    /// Returns the ordered clock's time for one of the system's clock.
    pub fn own(&self, wall: u64) -> u64 {
        wall.saturating_add_signed(self.ahead)
    }

    /// Returns the time of the system's clock, as it is set now, for this time.
    pub fn shown(&self, own: u64) -> u64 {
        own.saturating_add_signed(-self.ahead)
    }
}

/// Which time of the run's clock each moment of this run was.
#[derive(Debug, Default)]
pub(super) struct RunTimes {
    /// The milliseconds by which the timeline's clock is ahead of that of the run, from each of these times on.
    all: VecDeque<(u64, i64)>,
}

impl RunTimes {
    /// Notes that the timeline's clock says `own` when that of the run says `passed`.
    pub fn note(&mut self, own: u64, passed: u64) {
        let ahead = own as i64 - passed as i64;
        if self.all.back().is_none_or(|(_, last)| last.abs_diff(ahead) > DRIFT) {
            if self.all.len() == MAX_DRIFT_NOTES {
                self.all.pop_front();
            }
            self.all.push_back((own, ahead));
        }
    }

    /// Returns the run's time at a moment, within [`DRIFT`]; `None` if that was before this run, or too long ago.
    pub fn passed(&self, own: u64) -> Option<u64> {
        let at = self.all.partition_point(|(from, _)| *from <= own).checked_sub(1)?;
        Some(own.saturating_add_signed(-self.all[at].1))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: u64 = 3_600_000;
    const NOW: u64 = 1_790_000_000_000;

    fn at(wall: u64, passed: u64) -> Reading {
        Reading { wall, passed }
    }

    #[test]
    fn a_clock_that_is_set_back_moves_what_was_before() {
        let mut clock = OrderedClock::default();
        assert_eq!(clock.read(at(NOW, 0)), (NOW, Some(Pause::Stopped)));
        assert_eq!(clock.read(at(NOW + 1000, 1000)), (NOW + 1000, None));
        assert_eq!(clock.read(at(NOW + 1000 - HOUR, 2000)), (NOW + 2000, Some(Pause::Clock(-(HOUR as i64) - 1000))));
        assert_eq!((clock.shown(NOW + 2000), clock.own(NOW + 1000 - HOUR)), (NOW + 1000 - HOUR, NOW + 2000));
        // It is set right again: nothing is lost.
        let (time, pause) = clock.read(at(NOW + 3000, 3000));
        assert_eq!((time, pause, clock.ahead()), (NOW + 3000, Some(Pause::Clock(HOUR as i64 + 1000)), 0));
    }

    #[test]
    fn hours_forward_are_a_gap_and_years_are_none() {
        let mut clock = OrderedClock::default();
        clock.read(at(NOW, 0));
        assert_eq!(clock.read(at(NOW + HOUR, 1000)), (NOW + HOUR, Some(Pause::Clock(HOUR as i64 - 1000))));
        let year = 365 * DAY;
        let (time, pause) = clock.read(at(NOW + HOUR + year, 2000));
        assert_eq!((time, pause), (NOW + HOUR + 1000, Some(Pause::Clock(year as i64 - 1000))));
        assert_eq!(clock.shown(time), NOW + HOUR + year);
        // Back again, the times are what they were.
        let (time, _) = clock.read(at(NOW + HOUR + 2000, 3000));
        assert_eq!((time, clock.ahead()), (NOW + HOUR + 2000, 0));
    }

    #[test]
    fn a_machine_that_starts_in_1970_keeps_its_day() {
        let mut clock = OrderedClock::resume(0, NOW);
        let (time, pause) = clock.read(at(30_000, 0));
        assert_eq!((time, pause), (NOW + 1, Some(Pause::Clock(30_000 - NOW as i64 - 1))));
        let (time, pause) = clock.read(at(NOW + HOUR, 10_000));
        assert_eq!((time, clock.ahead()), (NOW + HOUR, 0));
        assert!(matches!(pause, Some(Pause::Clock(by)) if by > 0));
    }

    #[test]
    fn a_restart_and_a_long_rest_are_reported() {
        let mut clock = OrderedClock::resume(5000, NOW);
        assert_eq!(clock.read(at(NOW + HOUR, 0)), (NOW + HOUR + 5000, Some(Pause::Stopped)));
        assert_eq!(clock.read(at(NOW + 2 * HOUR, HOUR)), (NOW + 2 * HOUR + 5000, Some(Pause::Held)));
        let mut other = OrderedClock::resume(0, NOW);
        assert_eq!(other.read(at(NOW - 1000, 0)), (NOW + 1, Some(Pause::Stopped)));
    }

    #[test]
    fn each_moment_of_a_run_has_its_time_whatever_happens_to_the_clock() {
        let (mut clock, mut times) = (OrderedClock::resume(0, NOW - HOUR), RunTimes::default());
        let mut seen = Vec::new();
        let (mut wall, mut passed) = (NOW as i64, 0);
        for jump in [0, 1000, 0, -(HOUR as i64), 0, 3 * HOUR as i64, 30, 10, 10, 0, -500] {
            (wall, passed) = (wall + 1000 + jump, passed + 1000);
            let own = clock.read(at(wall as u64, passed)).0;
            times.note(own, passed);
            seen.push((own, passed));
        }
        for (own, passed) in seen {
            let reported = times.passed(own).expect("it is of this run");
            assert!(reported.abs_diff(passed) <= DRIFT, "{reported} {passed}");
        }
        assert_eq!(times.passed(NOW - HOUR), None, "an earlier run");
        (0..2 * MAX_DRIFT_NOTES as u64).for_each(|number| times.note(NOW + 10 * HOUR + 100 * number, 50 * number));
        assert_eq!(times.all.len(), MAX_DRIFT_NOTES);
    }

    #[test]
    fn clocks_are_read_again_if_something_came_between() {
        let hold_ups = [5000, 0, 3000, 1, 0];
        let (now, mut turn) = (std::cell::Cell::new(0), 0);
        let wall = || {
            let before = NOW + now.get();
            // What holds the thread up comes after this clock is read, and before the other one is.
            now.set(now.get() + hold_ups[turn % hold_ups.len()]);
            turn += 1;
            before
        };
        let reading = Reading::take(|| now.get(), wall);
        assert_eq!((reading, turn), (at(NOW + 5000, 5000), 2));
        let mut always = 0;
        let held = Reading::take(
            || {
                always += 1000;
                always
            },
            || NOW,
        );
        assert_eq!(held.passed, 1000 * (TRIES as u64 + 1), "it ends");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn time_never_goes_back_and_is_the_clock_as_it_is_shown(
            steps in proptest::collection::vec((0..100_000u64, -200_000_000i64..200_000_000, any::<bool>()), 1..40),
        ) {
            let (mut clock, mut wall, mut passed, mut last) = (OrderedClock::default(), NOW, 0u64, 0);
            for (span, jump, is_set) in steps {
                passed += span;
                wall = (wall + span).saturating_add_signed(if is_set { jump } else { 0 });
                let (time, _) = clock.read(at(wall, passed));
                prop_assert!(time >= last);
                prop_assert!(clock.shown(time).abs_diff(wall) <= SLACK, "{} is shown at {wall}", clock.shown(time));
                last = time;
            }
        }
    }
}
