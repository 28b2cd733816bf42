//! The clock of all shards: nanoseconds since the controller started.

#[cfg(feature = "simulation")]
use std::sync::Arc;
use std::sync::LazyLock;
#[cfg(feature = "simulation")]
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use maple_core::engine::Time;
use time::OffsetDateTime;

/// The clock of a controller. Each shard has a copy with the same start.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The system's clock; the instant is the start.
    Real(Instant),
    /// The clock of a simulation, in nanoseconds.
    #[cfg(feature = "simulation")]
    Simulated(Arc<AtomicU64>),
}

impl Clock {
    /// Starts the clock at zero.
    pub fn start() -> Clock {
        Clock::Real(Instant::now())
    }

    /// Returns the current time.
    pub fn now(&self) -> Time {
        match self {
            Clock::Real(start) => Time(start.elapsed().as_nanos() as u64),
            #[cfg(feature = "simulation")]
            Clock::Simulated(now) => Time(now.load(Ordering::Relaxed)),
        }
    }

    /// Returns a clock that runs at the same rate, from any beginning, for what takes microseconds. A simulation has
    /// none: there, nothing takes time.
    pub fn stopwatch(&self) -> Option<fn() -> Time> {
        match self {
            Clock::Real(_) => Some(since_first),
            #[cfg(feature = "simulation")]
            Clock::Simulated(_) => None,
        }
    }
}

/// Returns the time since this was called first.
fn since_first() -> Time {
    static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);
    Time(FIRST.elapsed().as_nanos() as u64)
}

/// Returns the time this long after `time`.
pub fn after(time: Time, duration: Duration) -> Time {
    Time(time.0.saturating_add(duration.as_nanos() as u64))
}

/// Returns the time this long before `time`.
pub fn before(time: Time, duration: Duration) -> Time {
    Time(time.0.saturating_sub(duration.as_nanos() as u64))
}

/// Returns the duration from `now` to `time`; zero if that is past.
pub fn until(now: Time, time: Time) -> Duration {
    Duration::from_nanos(time.0.saturating_sub(now.0))
}

/// Formats a time in UTC, to the millisecond.
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// let time = SystemTime::UNIX_EPOCH + Duration::from_millis(951_782_400_123);
/// assert_eq!(maple_controller::timestamp(time), "2000-02-29T00:00:00.123Z");
/// ```
#[must_use]
pub fn timestamp(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let utc = OffsetDateTime::UNIX_EPOCH.saturating_add(since.try_into().unwrap_or(time::Duration::MAX));
    let (year, month, day) = utc.to_calendar_date();
    let (month, (hour, minute, second, milli)) = (u8::from(month), utc.to_hms_milli());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_utc_to_the_millisecond() {
        let at = |secs, millis: u32| timestamp(SystemTime::UNIX_EPOCH + Duration::new(secs, millis * 1_000_000));
        assert_eq!(at(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_399, 999), "2000-02-28T23:59:59.999Z");
        assert_eq!(at(951_782_400, 0), "2000-02-29T00:00:00.000Z");
        assert_eq!(at(1_795_430_018, 123), "2026-11-23T10:33:38.123Z");
        assert_eq!(at(4_107_542_400, 0), "2100-03-01T00:00:00.000Z");
    }
}
