//! The due times of packet-ins at an offered rate, whatever the controller does.
//!
//! Packet-ins are due in bursts of one switch at equal distances. Neither answers nor delays of the generator change a
//! due time: a packet-in that is sent late was due before, and its time counts from then. With bursts of one packet-in
//! the rate is uniform. A thread can't make more than some ten thousand writes a second, so higher rates need bursts,
//! as real switches have them: Open vSwitch hands over up to 64 packets at a time.

/// The bursts of a rate, in their order.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// The due time of the first burst, in nanoseconds.
    start: u64,
    /// Nanoseconds between two bursts.
    distance: f64,
    /// The number of bursts that were taken.
    taken: u64,
}

impl Schedule {
    /// Creates a schedule of `per_second` packet-ins a second in bursts of `burst`, from `start` on (in nanoseconds).
    pub fn new(start: u64, per_second: f64, burst: u32) -> Schedule {
        Schedule { start, distance: 1e9 / per_second * f64::from(burst), taken: 0 }
    }

    /// Returns the due time of the next burst, in nanoseconds.
    pub fn next(&self) -> u64 {
        // A product, since a sum would accumulate the rounding errors of the distances.
        self.start + (self.taken as f64 * self.distance) as u64
    }

    /// Takes the next burst if it is due at `now`. Returns its due time in nanoseconds.
    pub fn take(&mut self, now: u64) -> Option<u64> {
        let due = self.next();
        (due <= now).then(|| self.taken += 1).map(|()| due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns all due times up to a time, in order.
    fn due_by(end: u64, start: u64, per_second: f64, burst: u32) -> Vec<u64> {
        let distance = 1e9 * f64::from(burst) / per_second;
        (0..).map(|n| start + (f64::from(n) * distance) as u64).take_while(|due| *due <= end).collect()
    }

    proptest! {
        #[test]
        fn due_times_do_not_depend_on_when_they_are_asked_for(
            start in 0u64..1 << 40,
            per_second in 1_000.0..1e7f64,
            burst in 1u32..200,
            mut looks in prop::collection::vec(0u64..2_000_000, 1..20),
        ) {
            looks.sort_unstable();
            let mut schedule = Schedule::new(start, per_second, burst);
            let mut taken = Vec::new();
            for look in looks {
                let now = start + look;
                while let Some(due) = schedule.take(now) {
                    taken.push(due);
                }
                prop_assert!(schedule.next() > now);
                let expected = due_by(now, start, per_second, burst);
                prop_assert_eq!(taken.len(), expected.len());
                // The two computations of a distance can differ in the last digit.
                prop_assert!(taken.iter().zip(&expected).all(|(a, b)| a.abs_diff(*b) <= 1));
            }
        }
    }

    #[test]
    fn a_rate_is_kept_to_the_last_packet_in_of_an_hour() {
        let mut schedule = Schedule::new(7, 3e6, 64);
        schedule.taken = 3_000_000 * 3_600 / 64;
        assert_eq!(schedule.next(), 7 + 3_600_000_000_000);
        assert_eq!((schedule.take(0), schedule.take(u64::MAX)), (None, Some(7 + 3_600_000_000_000)));
    }
}
