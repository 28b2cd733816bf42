//! The clock: nanoseconds since the controller started, the same on all shards.

#[cfg(feature = "simulation")]
use std::sync::Arc;
#[cfg(feature = "simulation")]
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use maple_core::engine::Time;

/// Reads the time. Every shard has a copy with the same beginning.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The system's, and when the controller started.
    Real(Instant),
    /// A simulation's, which goes on when it is told to.
    #[cfg(feature = "simulation")]
    Simulated(Arc<AtomicU64>),
}

impl Clock {
    /// A clock that begins now.
    pub fn start() -> Clock {
        Clock::Real(Instant::now())
    }

    /// The time now.
    pub fn now(&self) -> Time {
        match self {
            Clock::Real(start) => Time(start.elapsed().as_nanos() as u64),
            #[cfg(feature = "simulation")]
            Clock::Simulated(now) => Time(now.load(Ordering::Relaxed)),
        }
    }
}

/// The time this long after `time`.
pub fn after(time: Time, duration: Duration) -> Time {
    Time(time.0.saturating_add(duration.as_nanos() as u64))
}

/// The time this long before `time`.
pub fn before(time: Time, duration: Duration) -> Time {
    Time(time.0.saturating_sub(duration.as_nanos() as u64))
}

/// How long it is from `now` to `time`; zero if that is past.
pub fn until(now: Time, time: Time) -> Duration {
    Duration::from_nanos(time.0.saturating_sub(now.0))
}
