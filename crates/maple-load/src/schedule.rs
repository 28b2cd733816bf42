//! The due times of packet-ins at an offered rate, whatever the controller does.
//!
//! Packet-ins are due in bursts of one switch at equal distances. Nothing that comes back, and no delay of the
//! generator, changes a due time: a packet-in that is sent late was due before, and its time counts from then. With
//! bursts of one packet-in the rate is uniform. A thread can't make more than some ten thousand writes a second, so
//! higher rates need bursts, as real switches have them: Open vSwitch hands over up to 64 packets at a time.

/// The bursts of a rate, in their order.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// When the first one is due, in nanoseconds.
    start: u64,
    /// Nanoseconds from one to the next.
    distance: f64,
    /// The number of those taken.
    taken: u64,
}

impl Schedule {
    /// This many packet-ins a second, in bursts of that many, from `start` on.
    pub fn new(start: u64, per_second: f64, burst: u32) -> Schedule {
        Schedule { start, distance: 1e9 / per_second * f64::from(burst), taken: 0 }
    }

    /// When the next burst is due, in nanoseconds.
    pub fn next(&self) -> u64 {
        // A product, as a sum would add up the rounding of each distance.
        self.start + (self.taken as f64 * self.distance) as u64
    }

    /// Takes the next burst if it is due by now. Returns its due time.
    pub fn take(&mut self, now: u64) -> Option<u64> {
        let due = self.next();
        (due <= now).then(|| self.taken += 1).map(|()| due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All due times up to a time, in order.
    fn due_by(end: u64, start: u64, per_second: f64, burst: u32) -> Vec<u64> {
        let distance = 1e9 * f64::from(burst) / per_second;
        (0..).map(|n| start + (f64::from(n) * distance) as u64).take_while(|due| *due <= end).collect()
    }

    proptest! {
        #[test]
        fn what_is_due_does_not_depend_on_when_it_is_asked_for(
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
